// The table of layers: sorted by a click on a heading, one row at a time in the tab order.

const table = (() => {
  const COLUMNS = [
    { title: "#", key: (row, index) => index, cell: (row, index) => String(index + 1), number: true },
    { title: "Layer", key: (row) => row.name, cell: (row) => row.name, kind: "name" },
    { title: "Op", key: (row) => row.op, cell: (row) => opCell(row) },
    { title: "Output", key: (row) => row.output, cell: (row) => element("code", {}, row.output) },
    { title: "Routine", key: (row) => row.routine, cell: (row) => routineCell(row) },
    { title: "Formats", key: (row) => row.formats, cell: (row) => element("code", {}, row.formats) },
    { title: "ms", key: (row) => row.ns, cell: (row) => (row.steps ? milliseconds(row.ns) : "free"), number: true },
    { title: "Share", key: (row) => row.share, cell: (row) => shareCell(row), number: true },
    { title: "Predicted", key: (row) => row.predicted_ns, cell: (row) => milliseconds(row.predicted_ns), number: true },
    { title: "GFLOP/s", key: (row) => row.gflops, cell: (row) => (row.gflops === null ? "–" : digits(row.gflops)), number: true },
  ];
  const lines = [];
  const body = element("tbody");
  let order = rows.map((row, index) => index);
  let sorted = { column: 0, down: false };
  let current = 0;

  function opCell(row) {
    const dot = element("span", { className: "dot" });
    dot.style.setProperty("--colour", `var(${families.get(row.family).colour})`);
    return element("span", { className: "nowrap" }, dot, row.op);
  }

  function routineCell(row) {
    const numbers = schedule(row.schedule);
    return element("span", {}, element("code", {}, row.routine), numbers ? element("small", {}, numbers) : null);
  }

  function shareCell(row) {
    const bar = element("span", { className: "bar" });
    bar.style.setProperty("--part", `${(100 * row.ns) / mostNs}%`);
    return element("span", {}, percent(row.share), bar);
  }

  function makeLine(row, index) {
    const line = element("tr", { tabIndex: -1 }, ...COLUMNS.map((column) =>
      element("td", { className: [column.number ? "number" : "", column.kind ?? ""].join(" ").trim() }, column.cell(row, index))));
    line.dataset.row = String(index);
    line.querySelector(".name").title = row.name;
    line.addEventListener("click", () => { selection.keep(index, "table"); byId("graph-title").scrollIntoView({ block: "start", behavior: motion() }); });
    line.addEventListener("focus", () => { lines[current].tabIndex = -1; line.tabIndex = 0; current = index; });
    line.addEventListener("keydown", (event) => walk(event, index));
    return line;
  }

  function walk(event, index) {
    const place = order.indexOf(index);
    const next = { ArrowDown: order[place + 1], ArrowUp: order[place - 1], Home: order[0], End: order.at(-1) }[event.key];
    if (event.key === "Enter" || event.key === " ") selection.keep(index, "table");
    else if (next === undefined) return;
    else lines[next].focus();
    event.preventDefault();
  }

  function compare(a, b) {
    if (a === b) return 0;
    if (a === null) return 1;
    if (b === null) return -1;
    const before = typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true });
    return sorted.down ? -before : before;
  }

  function sort(column) {
    const first = COLUMNS[column].number && column > 0; // numbers: the largest first
    sorted = { column, down: sorted.column === column ? !sorted.down : first };
    const { key } = COLUMNS[column];
    order = rows.map((row, index) => index).sort((a, b) => compare(key(rows[a], a), key(rows[b], b)) || a - b);
    body.replaceChildren(...order.map((index) => lines[index]));
    mark();
  }

  function mark() {
    byId("table").querySelectorAll("th").forEach((head, column) => {
      if (column === sorted.column) head.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
  }

  function draw() {
    const heads = COLUMNS.map((column, index) => {
      const button = element("button", { type: "button" }, column.title);
      button.addEventListener("click", () => sort(index));
      return element("th", { scope: "col", className: column.number ? "number" : "" }, button);
    });
    lines.push(...rows.map(makeLine));
    body.append(...lines);
    if (lines.length) lines[0].tabIndex = 0;
    byId("table").parentElement.classList.toggle("long", lines.length > 400);
    byId("table").append(element("thead", {}, element("tr", {}, ...heads)), body);
    mark();
  }

  selection.listen(({ kept }, from) => {
    body.querySelector(".kept")?.classList.remove("kept");
    if (kept === null) return;
    lines[kept].classList.add("kept");
    if (from !== "table") scrollWithin(lines[kept]);
  });

  /** Bring a line into the table's own scroll area, without moving the page. */
  function scrollWithin(line) {
    const area = byId("table").parentElement;
    const box = area.getBoundingClientRect(), one = line.getBoundingClientRect();
    if (one.top < box.top + 40 || one.bottom > box.bottom) area.scrollTop += one.top - box.top - area.clientHeight / 2;
  }

  return { draw, sort };
})();
