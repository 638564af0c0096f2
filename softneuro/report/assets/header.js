// The head of the page: what was run, on what, how long it took, and what the search gained.

function figure(label, value, note, tone = "") {
  return element("div", { className: `card figure ${tone}` },
    element("div", { className: "label" }, label), element("div", { className: "value" }, value),
    element("div", { className: "note" }, note));
}

function drawFacts() {
  const facts = [
    ["Machine", data.machine || "unknown"],
    ["Instructions", data.target],
    ["Threads", String(data.threads)],
    ["Input", data.inputs.map(([name, type]) => `${name} ${type}`).join(", ")],
  ];
  byId("title").textContent = data.model;
  const layers = rows.filter((row) => row.kind !== "adapt").length;
  const adapts = rows.length - layers;
  byId("subtitle").textContent =
    `${count(layers, "layer")}, ${count(adapts, "adapt")} · softneuro ${data.version}`;
  byId("facts").append(...facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
}

function drawFigures() {
  const shown = [];
  const total = data.total_ns;
  const predicted = data.predicted_ns;
  shown.push(figure("One inference", time(total), `${digits(1e9 / total)} a second, sum of the layers`, "strong"));
  const proved = data.optimal ? "; proved to be the least" : "";
  const now = data.threads === data.tuned_threads ? `${signed(total / predicted - 1)} when run now` : `with ${count(data.tuned_threads, "thread")}`;
  shown.push(predicted === null
    ? figure("Predicted", "–", "the plan was not measured")
    : figure("Predicted", time(predicted), `${now}${proved}`));
  const gain = data.default_ns && data.measured_ns ? data.default_ns / data.measured_ns : null;
  shown.push(gain === null
    ? figure("Gain of the search", "–", "whole plans were not timed")
    : figure("Gain of the search", `${gain.toFixed(2)}×`, `default routines ${time(data.default_ns)}, chosen ${time(data.measured_ns)}`, gain > 1.005 ? "good" : ""));
  const adapts = rows.filter((row) => row.kind === "adapt");
  const spent = adapts.reduce((sum, row) => sum + row.ns, 0);
  shown.push(figure("Adapts", adapts.length ? percent(spent / total) : "none",
    adapts.length ? `${count(adapts.length, "conversion")} between formats, ${time(spent)}` : "no conversions between formats"));
  const work = rows.reduce((sum, row) => sum + (row.gflops ?? 0) * row.ns, 0);
  shown.push(figure("Arithmetic", work ? `${digits(work / total)} GFLOP/s` : "–", work ? `${digits(work / 1e9)} GFLOP, over the whole time` : "no multiply-adds"));
  byId("figures").append(...shown);
}

/** A bar of the time that each op takes. */
function drawShare() {
  const bar = element("div", { className: "stack", role: "img", "aria-label": "Share of the time by op" });
  const list = element("ul", { className: "legend" });
  for (const entry of families.values()) {
    const share = entry.ns / data.total_ns;
    if (share < 0.0005) continue;
    const part = element("span", { className: "part" });
    part.style.setProperty("--colour", `var(${entry.colour})`);
    part.style.flexGrow = String(share);
    part.addEventListener("pointermove", (event) =>
      showTip(event.clientX, event.clientY, entry.name, `${time(entry.ns)}, ${percent(share)}, ${entry.count} of them`));
    part.addEventListener("pointerleave", hideTip);
    bar.append(part);
    if (list.childElementCount < 10) {
      const item = legendItem(entry.colour, entry.name);
      item.append(element("b", {}, percent(share)));
      list.append(item);
    }
  }
  byId("share").append(bar, list);
}

function drawHeader() {
  drawFacts();
  drawFigures();
  drawShare();
  const made = [data.command && `tuned by ${data.command}`, data.tuned_with && `with softneuro ${data.tuned_with}`,
    data.tuned_for && `for ${data.tuned_for} and ${count(data.tuned_threads, "thread")}`,
    data.sha256 && `model sha256 ${data.sha256.slice(0, 16)}`];
  byId("footer").textContent = made.filter(Boolean).join(" · ");
}
