// What is known of one layer: what runs, how long it takes, the candidates with their times, the refusals.

const panel = byId("panel");

function term(name, value, kind = "") {
  return value === "" || value === null ? null : element("div", { className: kind }, element("dt", {}, name), element("dd", {}, value));
}

function badge(text, kind) {
  return element("span", { className: `badge ${kind}` }, text);
}

function candidate(row, least, most) {
  const marks = [row.chosen ? badge("chosen", "chosen") : null, row.tied ? badge("tied", "tied") : null];
  const name = element("td", {}, element("div", { className: "routine" }, element("code", {}, row.routine), ...marks.filter(Boolean)),
    element("small", {}, [schedule(row.schedule), row.formats].filter(Boolean).join("  ·  ")), row.note ? element("em", {}, row.note) : null);
  if (least === null) return element("tr", { className: row.chosen ? "chosen" : "" }, name);
  const spent = element("td", { className: "number" }, time(row.ns));
  if (row.ns !== null) {
    const bar = element("span", { className: "bar" });
    bar.style.setProperty("--part", `${Math.min(100, (100 * row.ns) / most)}%`);
    spent.append(element("small", {}, row.spread ? `±${(50 * row.spread).toFixed(0)} %` : ""), bar);
  }
  const slower = row.ns === null || row.ns === least || !least ? "" : `×${(row.ns / least).toFixed(2)}`;
  return element("tr", { className: row.chosen ? "chosen" : "" }, name, spent, element("td", { className: "number muted" }, slower));
}

function candidateTable(candidates) {
  const timed = candidates.filter((row) => row.ns !== null).map((row) => row.ns);
  const least = timed.length ? Math.min(...timed) : null;
  const titles = timed.length ? ["Candidate", "Time", "Slower"] : ["Candidate"];
  return element("table", { className: "candidates" },
    element("thead", {}, element("tr", {}, ...titles.map((text) => element("th", { scope: "col" }, text)))),
    element("tbody", {}, ...candidates.map((row) => candidate(row, least, Math.min(Math.max(...timed), 4 * least || 1)))));
}

function showRow(index) {
  const row = rows[index];
  const known = row.explanation === null ? null : data.explanations[row.explanation];
  const parts = [
    element("div", { className: "panel-head" },
      element("span", { className: "kind" }, row.kind === "adapt" ? "adapt" : `${row.op}${row.kind === "host" ? " · host" : ""}`),
      element("h3", {}, row.name)),
    element("div", { className: "panel-times" },
      element("b", {}, row.steps ? time(row.ns) : "costs nothing"),
      row.steps ? element("span", {}, `${percent(row.share)} of the run`) : null,
      row.predicted_ns ? element("span", {}, `predicted ${time(row.predicted_ns)}`) : null,
      row.gflops ? element("span", {}, `${digits(row.gflops)} GFLOP/s`) : null),
    element("dl", { className: "terms" },
      term("Routine", row.routine), term("Schedule", schedule(row.schedule)), term("Formats", row.formats), term("Shapes", row.shapes),
      known?.problem ? term("Problem", known.problem, "long") : null),
  ];
  if (known?.reason) parts.push(element("p", { className: "reason" }, known.reason));
  if (known) {
    parts.push(element("h4", {}, known.candidates.length === 1 ? "1 candidate" : `${known.candidates.length} candidates`));
    if (known.candidates.length) parts.push(candidateTable(known.candidates));
    if (known.refused.length) {
      parts.push(element("h4", {}, `${known.refused.length} refused`));
      parts.push(element("ul", { className: "refused" }, ...known.refused.map((one) =>
        element("li", {}, element("code", {}, one.routine), element("span", {}, one.reason)))));
    }
  } else {
    parts.push(element("p", { className: "empty" }, "Nothing is known of other candidates."));
  }
  panel.replaceChildren(...parts);
  panel.scrollTop = 0;
}

/** With nothing selected: the layers that take longest. */
function showSlowest() {
  const slowest = rows.map((row, index) => index).sort((a, b) => rows[b].ns - rows[a].ns).slice(0, 12);
  const list = element("ol", { className: "slowest" }, ...slowest.map((index) => {
    const row = rows[index];
    const bar = element("span", { className: "bar" });
    bar.style.setProperty("--part", `${(100 * row.ns) / mostNs}%`);
    const button = element("button", { type: "button" }, element("span", { className: "who" }, row.name), element("span", { className: "number" }, time(row.ns)), bar);
    button.addEventListener("click", () => selection.keep(index, "panel"));
    return element("li", {}, button);
  }));
  panel.replaceChildren(element("div", { className: "panel-head" }, element("span", { className: "kind" }, "Where the time goes"), element("h3", {}, "Slowest layers")), list);
}

function drawPanel() {
  const show = ({ shown }) => (shown === null ? showSlowest() : showRow(shown));
  selection.listen(show);
  show(selection);
}
