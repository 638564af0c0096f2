// What all parts of the page share: the data, making elements, numbers as people read them, colours, the selection.

const data = JSON.parse(document.getElementById("data").textContent);
const rows = data.rows;
const byId = (id) => document.getElementById(id);

/** An element with properties and children; strings become text, so names are never read as markup. */
function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key.includes("-") || key === "role") made.setAttribute(key, value);
    else made[key] = value;
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function drawn(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function digits(value, count = 3) {
  if (value === 0) return "0";
  const whole = Math.max(1, Math.floor(Math.log10(Math.abs(value))) + 1);
  return value.toFixed(Math.max(0, count - whole));
}

/** Nanoseconds in the unit that reads best. */
function time(ns) {
  if (ns === null || ns === undefined) return "–";
  if (Math.abs(ns) < 1) return "0";
  if (Math.abs(ns) < 999.5) return `${digits(ns)} ns`;
  if (Math.abs(ns) < 999.5e3) return `${digits(ns / 1e3)} µs`;
  if (Math.abs(ns) < 999.5e6) return `${digits(ns / 1e6)} ms`;
  return `${digits(ns / 1e9)} s`;
}

const milliseconds = (ns) => (ns === null ? "–" : (ns / 1e6).toFixed(ns < 1e5 ? 4 : 3));
const percent = (part, places = 1) => `${(100 * part).toFixed(places)} %`;
const signed = (part) => `${part >= 0 ? "+" : "−"}${Math.abs(100 * part).toFixed(0)} %`;
const schedule = (numbers) => Object.entries(numbers).map(([key, value]) => `${key}=${value}`).join(" ");
const count = (number, thing) => `${number} ${thing}${number === 1 ? "" : "s"}`;
const clamp = (value, least, most) => Math.min(most, Math.max(least, value));

const DTYPES = {
  f32: "f32", f64: "f32", f16: "f16", bf16: "bf16", i8: "int8", u8: "int8", qint8: "int8", quint8: "int8",
  i16: "int", u16: "int", i32: "int", u32: "int", i64: "int", u64: "int", bool: "bool",
};
const dtypeClass = (dtype) => (Object.hasOwn(DTYPES, dtype) ? DTYPES[dtype] : "other");

/** Op families by the time they take, the slowest first, with a colour each. */
const families = (() => {
  const found = new Map();
  for (const row of rows) {
    const entry = found.get(row.family) ?? { name: row.family, ns: 0, count: 0 };
    entry.ns += row.ns;
    entry.count += 1;
    found.set(row.family, entry);
  }
  const sorted = [...found.values()].sort((a, b) => b.ns - a.ns);
  let next = 0;
  for (const entry of sorted) {
    entry.colour = entry.name === "adapt" ? "--adapt" : next < 9 ? `--op${next++}` : "--op-rest";
  }
  return new Map(sorted.map((entry) => [entry.name, entry]));
})();
const mostNs = Math.max(1, ...rows.map((row) => row.ns));

/** The colour of a row, as the name of a custom property of the style sheet, in one of the colourings. */
function colourOf(row, colouring) {
  if (colouring === "family") return families.get(row.family).colour;
  if (row.kind === "adapt") return "--adapt";
  return `--dtype-${dtypeClass(row.dtype)}`;
}

/** Which row is looked at: the one under the pointer or focus, else the one that was clicked. */
const selection = {
  kept: null,
  passing: null,
  listeners: [],
  get shown() { return this.passing ?? this.kept; },
  listen(listener) { this.listeners.push(listener); },
  keep(row, from) { this.kept = row; this.passing = null; this.tell(from); },
  pass(row, from) { if (this.passing !== row) { this.passing = row; this.tell(from); } },
  tell(from) { for (const listener of this.listeners) listener(this, from); },
};

const tip = byId("tip");
function showTip(x, y, ...lines) {
  tip.replaceChildren(...lines.map((line) => element("div", {}, line)));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${clamp(x + 14, 4, Math.max(4, innerWidth - width - 8))}px`;
  tip.style.top = `${y + 18 + height > innerHeight ? y - height - 12 : y + 18}px`;
}
const hideTip = () => { tip.hidden = true; };

function legendItem(colour, text, extra = "") {
  const swatch = element("span", { className: `swatch ${extra}` });
  if (colour) swatch.style.setProperty("--colour", `var(${colour})`);
  return element("li", {}, swatch, text);
}

const motion = () => (matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth");

/** Whether the wheel is being used to scroll the page: then what comes under the pointer does not take it over. */
let scrolledAt = -Infinity;
addEventListener("scroll", () => { scrolledAt = performance.now(); }, { passive: true });
const pageScrolls = (event) => !event.ctrlKey && performance.now() - scrolledAt < 250;
