// What every thread did: a canvas with a track for each, zoomed and moved along the time.

const timeline = (() => {
  const { threads, runs, kinds } = data.timeline;
  const canvas = byId("spans");
  const TRACK = 44, PAD = 7, AXIS = 26, LEAST_NS = 2000;
  const WAIT = kinds.indexOf("wait");
  const end = Math.max(1, ...runs.map((run) => run[1]));
  const view = { from: 0, to: end };
  let over = null;

  const x = (ns) => ((ns - view.from) / (view.to - view.from)) * canvas.clientWidth;
  const at = (px) => view.from + (px / canvas.clientWidth) * (view.to - view.from);

  /** Where the axis has its zero: the start of the run when only one is seen. */
  function origin() {
    const middle = (view.from + view.to) / 2;
    const run = runs.find(([start, stop]) => start <= middle && middle <= stop);
    return run && view.to - view.from < 1.2 * (run[1] - run[0]) ? run[0] : 0;
  }

  function ticks(zero) {
    const wanted = (view.to - view.from) / Math.max(2, canvas.clientWidth / 110);
    const power = 10 ** Math.floor(Math.log10(wanted));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= wanted);
    const found = [];
    for (let ns = zero + Math.ceil((view.from - zero) / step) * step; ns <= view.to; ns += step) found.push(ns);
    return found;
  }

  /** The first span that ends after a time. */
  function firstAfter(spans, ns) {
    let low = 0, high = spans.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (spans[middle][3] <= ns) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  function draw() {
    const ratio = devicePixelRatio || 1, wide = canvas.clientWidth, tall = AXIS + TRACK * threads.length + 2;
    if (!wide) return;
    canvas.style.height = `${tall}px`;
    canvas.width = Math.round(wide * ratio);
    canvas.height = Math.round(tall * ratio);
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name);
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = `11px ${getComputedStyle(document.body).fontFamily}`;
    pen.textBaseline = "middle";
    const [line, muted, ink, waits] = ["--line", "--muted", "--on-colour", "--wait"].map(colour);
    const zero = origin();
    for (const ns of ticks(zero)) {
      pen.fillStyle = line;
      pen.fillRect(Math.round(x(ns)), AXIS - 4, 1, tall);
      pen.fillStyle = muted;
      pen.fillText(time(ns - zero), x(ns) + 4, AXIS / 2);
    }
    const palette = new Map([...families].map(([name, entry]) => [name, colour(entry.colour)]));
    threads.forEach((spans, thread) => {
      const top = AXIS + thread * TRACK + PAD, high = TRACK - 2 * PAD;
      pen.fillStyle = line;
      pen.fillRect(0, AXIS + thread * TRACK, wide, 1);
      let painted = -1;
      for (let i = firstAfter(spans, view.from); i < spans.length && spans[i][2] < view.to; i++) {
        const [row, kind, start, stop] = spans[i];
        const left = Math.max(-2, x(start)), right = Math.min(wide + 2, x(stop));
        if (right - painted < 0.25 && right - left < 0.25) continue; // narrower than what is seen
        painted = right;
        const width = Math.max(0.5, right - left - (right - left > 3 ? 0.75 : 0));
        if (kind === WAIT) {
          pen.fillStyle = waits;
          pen.fillRect(left, top + high / 2 - 2, width, 4);
          continue;
        }
        const faded = selection.shown !== null && selection.shown !== row;
        pen.globalAlpha = faded ? 0.32 : 1;
        pen.fillStyle = palette.get(rows[row].family);
        pen.beginPath();
        pen.roundRect(left, top, width, high, Math.min(4, width / 3));
        pen.fill();
        if (width > 46) {
          pen.save();
          pen.clip();
          pen.fillStyle = ink;
          pen.fillText(shortName(rows[row].name, width - 10, pen), Math.max(left, 0) + 6, top + high / 2 + 0.5);
          pen.restore();
        }
        pen.globalAlpha = 1;
      }
    });
    pen.strokeStyle = colour("--accent");
    pen.setLineDash([3, 3]);
    for (const [start] of runs.slice(1)) {
      pen.beginPath();
      pen.moveTo(x(start), AXIS - 6);
      pen.lineTo(x(start), tall);
      pen.stroke();
    }
    pen.setLineDash([]);
  }

  /** As much of a name as there is room for: the end of a path, the start of another name. */
  function shortName(name, room, pen) {
    let text = name;
    for (let kept = name.length; pen.measureText(text).width > room; text = name.includes("/") ? `…${name.slice(-kept)}` : `${name.slice(0, kept)}…`) {
      kept = Math.min(kept - 1, Math.floor((kept * room) / pen.measureText(text).width));
      if (kept < 2) return "";
    }
    return text;
  }

  function show(from, to) {
    const length = clamp(to - from, LEAST_NS, end * 1.02);
    view.from = clamp(from, -end * 0.01, Math.max(0, end * 1.01 - length));
    view.to = view.from + length;
    requestAnimationFrame(draw);
  }

  function zoomBy(factor, px = canvas.clientWidth / 2) {
    const fixed = at(px), length = (view.to - view.from) / factor;
    const from = fixed - (px / canvas.clientWidth) * length;
    show(from, from + length);
  }

  const moveBy = (part) => show(view.from + part * (view.to - view.from), view.to + part * (view.to - view.from));

  function spanAt(event) {
    const box = canvas.getBoundingClientRect();
    const thread = Math.floor((event.clientY - box.top - AXIS) / TRACK);
    const spans = threads[thread];
    if (!spans || event.clientY - box.top < AXIS) return null;
    const ns = at(event.clientX - box.left), span = spans[firstAfter(spans, ns)];
    return span && span[2] <= ns ? { span, thread } : null;
  }

  let dragged = null, moved = false;
  canvas.addEventListener("pointerdown", (event) => { dragged = event.clientX; moved = false; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointermove", (event) => {
    if (dragged !== null && (moved || Math.abs(event.clientX - dragged) > 3)) {
      moveBy(-(event.clientX - dragged) / canvas.clientWidth);
      dragged = event.clientX;
      moved = true;
      hideTip();
      return;
    }
    over = spanAt(event);
    canvas.style.cursor = over ? "pointer" : "grab";
    if (!over) { hideTip(); selection.pass(null, "timeline"); return; }
    const [row, kind, start, stop, run] = over.span;
    const what = kind === WAIT ? `waits for the others after ${rows[row].name}` : rows[row].name;
    showTip(event.clientX, event.clientY, what, `${kinds[kind]} ${time(stop - start)}, thread ${over.thread}, run ${run + 1}`, kind === WAIT ? "" : rows[row].routine);
    selection.pass(row, "timeline");
  });
  canvas.addEventListener("pointerup", () => {
    if (!moved && over) selection.keep(over.span[0], "timeline-click");
    dragged = null;
  });
  canvas.addEventListener("pointercancel", () => { dragged = null; });
  canvas.addEventListener("pointerleave", () => { hideTip(); selection.pass(null, "timeline"); });
  canvas.addEventListener("wheel", (event) => {
    if (pageScrolls(event)) return;
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) moveBy(event.deltaX / canvas.clientWidth);
    else zoomBy(Math.exp(-event.deltaY * 0.002), event.clientX - canvas.getBoundingClientRect().left);
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const action = { ArrowLeft: () => moveBy(-0.2), ArrowRight: () => moveBy(0.2), "+": () => zoomBy(1.5), "=": () => zoomBy(1.5), "-": () => zoomBy(1 / 1.5), 0: () => show(0, end), Home: () => show(0, view.to - view.from), End: () => show(end - (view.to - view.from), end) }[event.key];
    if (action) { event.preventDefault(); action(); }
  });
  byId("timeline-in").addEventListener("click", () => zoomBy(1.6));
  byId("timeline-out").addEventListener("click", () => zoomBy(1 / 1.6));
  new ResizeObserver(draw).observe(byId("timeline"));
  selection.listen(() => requestAnimationFrame(draw));

  function drawTracks() {
    const total = runs.reduce((sum, [start, stop]) => sum + stop - start, 0) || 1;
    byId("tracks").append(...threads.map((spans, thread) => {
      const busy = spans.reduce((sum, span) => sum + (span[1] === WAIT ? 0 : span[3] - span[2]), 0);
      return element("li", { className: "track" }, element("b", {}, `Thread ${thread}`), element("span", {}, `${percent(busy / total, 0)} busy`));
    }));
    const buttons = [["All", 0, end], ...runs.map(([start, stop], run) => [`Run ${run + 1}`, start, stop])];
    byId("runs").append(...buttons.slice(0, 12).map(([text, start, stop]) => {
      const button = element("button", { type: "button" }, text);
      button.addEventListener("click", () => show(start - (stop - start) * 0.005, stop + (stop - start) * 0.005));
      return button;
    }));
    const lengths = runs.map(([start, stop]) => stop - start).sort((a, b) => a - b);
    byId("timeline-note").textContent = runs.length
      ? `${count(runs.length, "real run")}, median ${time(lengths[lengths.length >> 1])}. The wheel, + and − zoom, dragging moves.`
      : "No run was recorded.";
    const legend = byId("timeline-legend");
    for (const entry of families.values()) if (entry.ns > 0 && legend.childElementCount < 9) legend.append(legendItem(entry.colour, entry.name));
    legend.append(legendItem("--wait", "waits for the other threads", "thin"));
  }

  function start() {
    drawTracks();
    const last = runs.at(-1);
    if (last) show(last[0] - (last[1] - last[0]) * 0.005, last[1] + (last[1] - last[0]) * 0.005);
    draw();
  }

  return { start, draw };
})();
