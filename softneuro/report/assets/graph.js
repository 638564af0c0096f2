// The drawn graph: boxes and edges where Python laid them out, moved and zoomed by one transform.

const graph = (() => {
  const { nodes, edges, bands, width, height } = data.graph;
  const picture = byId("graph");
  const frame = byId("canvas");
  const view = { x: 0, y: 0, k: 1 };
  const LEAST_ZOOM = 0.02, MOST_ZOOM = 4, LEGIBLE = 0.2;
  const incoming = nodes.map(() => []);
  const outgoing = nodes.map(() => []);
  const nodeOfRow = new Map(nodes.flatMap((node, index) => (node.row === null ? [] : [[node.row, index]])));
  const levels = [];
  const boxes = []; // the element of each node
  const texts = nodes.map(() => []);
  const ranks = []; // the element of each rank; only those in sight are shown and have their texts
  const shownRanks = new Set();
  let world, strong, legible = true, current = 0; // current: the node in the tab order

  edges.forEach(([source, target, tensor], index) => {
    outgoing[source].push({ node: target, tensor, index });
    incoming[target].push({ node: source, tensor, index });
  });
  nodes.forEach((node, index) => (levels[node.rank] ??= []).push(index));
  for (const level of levels) level?.sort((a, b) => nodes[a].x - nodes[b].x);

  const measure = document.createElement("canvas").getContext("2d");
  function shortened(text, font, room) {
    measure.font = font;
    const wide = measure.measureText(text).width;
    if (wide <= room) return text;
    const kept = Math.max(1, Math.floor((text.length * room) / wide) - 1);
    return text.includes("/") ? `…${text.slice(-kept)}` : `${text.slice(0, kept)}…`;
  }

  /** The pieces of an edge: down to the end of a rank's band, over to the next rank, straight through it. */
  function pieces(source, target) {
    const from = nodes[source], to = nodes[target];
    const found = [];
    let x = from.x, y = from.y + from.h / 2;
    for (let rank = from.rank; rank < to.rank; rank++) {
      const last = rank + 1 === to.rank;
      const nextX = last ? entry(source, target) : from.bends[rank - from.rank];
      const top = bands[rank][1], bottom = bands[rank + 1][0];
      const end = last ? to.y - to.h / 2 : bands[rank + 1][1];
      const middle = (top + bottom) / 2;
      found.push(`M${x} ${y}V${top}C${x} ${middle} ${nextX} ${middle} ${nextX} ${bottom}V${end}`);
      x = nextX;
      y = end;
    }
    return found;
  }

  /** Where an edge enters a box: beside the others, in the order in which they come. */
  const ports = new Map();
  function entry(source, target) {
    if (!ports.has(target)) {
      const to = nodes[target];
      const lastX = (from) => (nodes[from].bends.length && to.rank - nodes[from].rank > 1
        ? nodes[from].bends[to.rank - nodes[from].rank - 2] : nodes[from].x);
      const sources = [...new Set(incoming[target].map((edge) => edge.node))].sort((a, b) => lastX(a) - lastX(b));
      const step = Math.min(26, (to.w - 24) / Math.max(1, sources.length));
      ports.set(target, new Map(sources.map((from, i) => [from, to.x + (i - (sources.length - 1) / 2) * step])));
    }
    return Math.round(ports.get(target).get(source) * 10) / 10;
  }

  function label(node) {
    if (node.row === null) return `${node.kind} ${node.name}`;
    const row = rows[node.row];
    return `${row.name}, ${row.op}, ${row.steps ? time(row.ns) : "costs nothing"}`;
  }

  function drawNode(node, index) {
    const group = drawn("g", { class: `node ${node.kind}`, transform: `translate(${node.x - node.w / 2} ${node.y - node.h / 2})`, tabindex: "-1", role: "button", "aria-label": label(node) });
    const row = node.row === null ? null : rows[node.row];
    group.append(drawn("rect", { class: "body", width: node.w, height: node.h, rx: node.h < 30 ? node.h / 2 : 8 }));
    const write = (text, x, y, kind) => {
      const made = drawn("text", { x, y, class: kind });
      made.textContent = text;
      texts[index].push(made);
    };
    if (row === null) {
      write(shortened(node.name, FONTS.name, node.w - 20), node.w / 2, node.h / 2 + 4, "centre");
    } else if (row.kind === "adapt") {
      write(`${layouts(row)}  ${row.steps ? time(row.ns) : "free"}`, node.w / 2, node.h / 2 + 3.5, "centre small");
    } else if (row.steps === 0) {
      group.classList.add("free");
      write(shortened(row.op, FONTS.name, node.w - 20), node.w / 2, node.h / 2 + 4, "centre small");
    } else {
      if (row.kind === "host") group.classList.add("host");
      group.append(drawn("rect", { class: "edge-bar", x: 0, y: 8, width: 4, height: node.h - 16, rx: 2 }));
      const spent = time(row.ns);
      measure.font = FONTS.time;
      write(shortened(row.op, FONTS.op, node.w - 34 - measure.measureText(spent).width), 14, 18, "op");
      write(spent, node.w - 12, 18, "spent");
      write(shortened(row.name, FONTS.name, node.w - 26), 14, 34, "name");
    }
    group.addEventListener("pointerenter", (event) => { if (event.pointerType === "mouse" && !dragging) pass(index); });
    group.addEventListener("pointerleave", () => selection.pass(null, "graph"));
    group.addEventListener("click", () => { if (!moved) { keep(index); } });
    group.addEventListener("focus", () => { moveTabStop(index); pass(index); ensureVisible(index); });
    group.addEventListener("blur", () => selection.pass(null, "graph"));
    group.addEventListener("keydown", (event) => walk(event, index));
    return group;
  }

  const FONTS = {};
  function readFonts() {
    const style = getComputedStyle(document.body);
    Object.assign(FONTS, { op: `600 13px ${style.fontFamily}`, time: `600 12px ${style.fontFamily}`, name: `11px ${style.fontFamily}` });
  }

  /** What an adapt changes: the layouts, or the data types when those differ. */
  function layouts(row) {
    const [from, to] = row.formats.split(/->|>/).map((format) => format.trim().split(":"));
    if (!to) return "adapt";
    return from[0] === to[0] ? `${from[1]} → ${to[1]}` : `${from[0]} → ${to[0]}`;
  }

  function pass(index) {
    const { row } = nodes[index];
    if (row !== null) selection.pass(row, "graph");
  }

  function keep(index) {
    const { row } = nodes[index];
    if (row !== null) selection.keep(row === selection.kept ? null : row, "graph");
  }

  function moveTabStop(index) {
    boxes[current].setAttribute("tabindex", "-1");
    boxes[index].setAttribute("tabindex", "0");
    current = index;
  }

  /** Arrow keys go along the edges and along the rank. */
  function walk(event, index) {
    const level = levels[nodes[index].rank];
    const beside = level.indexOf(index);
    const next = {
      ArrowDown: outgoing[index][0]?.node ?? index + 1, ArrowUp: incoming[index][0]?.node ?? index - 1,
      ArrowRight: level[beside + 1], ArrowLeft: level[beside - 1], Home: 0, End: nodes.length - 1,
    }[event.key];
    if (event.key === "Enter" || event.key === " ") keep(index);
    else if (event.key === "Escape") selection.keep(null, "graph");
    else if (event.key === "+" || event.key === "=") zoomBy(1.25);
    else if (event.key === "-") zoomBy(0.8);
    else if (event.key === "0") fit();
    else if (event.key === "1") fitWidth();
    else if (next === undefined || !(event.key.startsWith("Arrow") || event.key === "Home" || event.key === "End")) return;
    else if (boxes[next]) step(next);
    event.preventDefault();
  }

  function step(index) {
    moveTabStop(index);
    ensureVisible(index);
    show();
    boxes[index].focus({ preventScroll: true });
  }

  function draw() {
    readFonts();
    world = drawn("g", { id: "world" });
    const lines = drawn("g", { class: "edges" });
    nodes.forEach((node, source) => {
      const unique = new Set(outgoing[source].flatMap((edge) => pieces(source, edge.node)));
      if (unique.size) lines.append(drawn("path", { d: [...unique].join("") }));
    });
    strong = drawn("g", { class: "edges strong" });
    world.append(lines, strong);
    nodes.forEach((node, index) => boxes.push(drawNode(node, index)));
    for (const level of levels) {
      ranks.push(drawn("g", { display: "none" }, ...(level ?? []).map((index) => boxes[index])));
      world.append(ranks.at(-1));
    }
    picture.append(world);
    boxes[0]?.setAttribute("tabindex", "0");
    recolour("dtype");
  }

  function recolour(colouring) {
    nodes.forEach((node, index) => {
      if (node.row === null) return;
      const row = rows[node.row];
      boxes[index].style.setProperty("--colour", `var(${colouring === "time" ? "--heat" : colourOf(row, colouring)})`);
      boxes[index].style.setProperty("--tint", colouring === "time" ? `${Math.round(6 + 49 * Math.sqrt(row.ns / mostNs))}%` : "");
    });
    picture.classList.toggle("timed", colouring === "time");
    drawLegend(colouring);
    overview.redraw();
  }

  function drawLegend(colouring) {
    const list = byId("legend");
    list.replaceChildren();
    if (colouring === "time") {
      list.append(legendItem("--heat", `slow (${time(mostNs)})`), legendItem("--heat", "fast", "pale"));
    } else if (colouring === "family") {
      for (const entry of families.values()) if (list.childElementCount < 10 && entry.name !== "adapt") list.append(legendItem(entry.colour, entry.name));
    } else {
      const present = new Map(rows.filter((row) => row.kind !== "adapt").map((row) => [row.dtype, `--dtype-${dtypeClass(row.dtype)}`]));
      for (const [dtype, colour] of present) list.append(legendItem(colour, dtype));
    }
    if (rows.some((row) => row.kind === "adapt")) list.append(legendItem("--adapt", "adapt: conversion of a format", "round"));
    if (rows.some((row) => row.kind !== "adapt" && row.steps === 0)) list.append(legendItem(null, "costs nothing", "outline round"));
    if (rows.some((row) => row.kind === "host")) list.append(legendItem(null, "on the host, in numpy", "outline dashed"));
  }

  let pending = false;
  function move() {
    if (pending) return;
    pending = true;
    requestAnimationFrame(show);
  }

  /** Texts are laid out again whenever the zoom changes, even those that are not displayed: hidden ranks have none. */
  function showRank(rank, seen) {
    ranks[rank].setAttribute("display", seen ? "inline" : "none");
    for (const index of levels[rank] ?? []) {
      if (seen && legible) boxes[index].append(...texts[index]);
      else for (const text of texts[index]) text.remove();
    }
    if (seen) shownRanks.add(rank);
    else shownRanks.delete(rank);
  }

  function show() {
    pending = false;
    const tall = frame.clientHeight;
    world.setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.k})`);
    picture.classList.toggle("far", view.k < 0.42);
    picture.classList.toggle("farther", view.k < LEGIBLE);
    let grid = 24 * view.k;
    while (grid < 14) grid *= 2;
    frame.style.backgroundSize = `${grid}px ${grid}px`;
    frame.style.backgroundPosition = `${view.x}px ${view.y}px`;
    const top = -view.y / view.k, bottom = (tall - view.y) / view.k;
    const changed = legible !== (view.k >= LEGIBLE);
    if (changed) legible = !legible;
    bands.forEach(([above, below], rank) => {
      const seen = (below >= top && above <= bottom) || rank === nodes[current].rank;
      if (seen !== shownRanks.has(rank) || (seen && changed)) showRank(rank, seen);
    });
    overview.draw();
  }

  function zoomBy(factor, x = frame.clientWidth / 2, y = frame.clientHeight / 2) {
    const k = clamp(view.k * factor, LEAST_ZOOM, MOST_ZOOM);
    view.x = x - ((x - view.x) * k) / view.k;
    view.y = y - ((y - view.y) * k) / view.k;
    view.k = k;
    hold();
  }

  /** Keep a part of the drawing in sight. */
  function hold() {
    const margin = 60;
    view.x = clamp(view.x, margin - width * view.k, frame.clientWidth - margin);
    view.y = clamp(view.y, margin - height * view.k, frame.clientHeight - margin);
    move();
  }

  function fit() {
    view.k = clamp(Math.min((frame.clientWidth - 48) / width, (frame.clientHeight - 32) / height), LEAST_ZOOM, 1.2);
    view.x = (frame.clientWidth - width * view.k) / 2;
    view.y = (frame.clientHeight - height * view.k) / 2;
    move();
  }

  /** The width beside the overview. */
  const room = () => frame.clientWidth - (frame.clientWidth < NARROW ? 0 : OVERVIEW);

  function fitWidth() {
    view.k = clamp((room() - 32) / width, 0.7, 1);
    const start = nodes.length ? nodes[0].x : 0;
    view.x = width * view.k > room() ? room() / 2 - start * view.k : (room() - width * view.k) / 2;
    view.y = 24;
    move();
  }

  function centre(index) {
    const node = nodes[index];
    if (view.k < 0.6) view.k = 0.9;
    view.x = room() / 2 - node.x * view.k;
    view.y = frame.clientHeight / 2 - node.y * view.k;
    move();
  }

  function isVisible(index) {
    const node = nodes[index];
    const x = node.x * view.k + view.x, y = node.y * view.k + view.y;
    const dx = Math.min((node.w * view.k) / 2, room() / 2 - 8);
    return x - dx >= 0 && x + dx <= room() && y >= 24 && y <= frame.clientHeight - 24;
  }

  const ensureVisible = (index) => { if (!isVisible(index)) centre(index); };

  // One pointer drags, two pinch, the wheel zooms.
  const pointers = new Map();
  let dragging = false, moved = false;
  frame.addEventListener("pointerdown", (event) => {
    if (event.target.id === "overview" || (event.pointerType === "mouse" && event.button !== 0)) return;
    pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    moved = false;
  });
  addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    const dx = event.clientX - before.x, dy = event.clientY - before.y;
    if (!dragging && Math.hypot(dx, dy) < 4) return;
    if (!dragging) { dragging = moved = true; frame.classList.add("dragging"); selection.pass(null, "graph"); }
    if (pointers.size === 2) {
      const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
      const { left, top } = frame.getBoundingClientRect();
      const was = Math.hypot(before.x - other.x, before.y - other.y), is = Math.hypot(event.clientX - other.x, event.clientY - other.y);
      zoomBy(is / Math.max(1, was), (event.clientX + other.x) / 2 - left, (event.clientY + other.y) / 2 - top);
    }
    view.x += dx / pointers.size;
    view.y += dy / pointers.size;
    pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    hold();
  });
  for (const name of ["pointerup", "pointercancel"]) {
    addEventListener(name, (event) => {
      pointers.delete(event.pointerId);
      if (!pointers.size) { dragging = false; frame.classList.remove("dragging"); }
    });
  }
  frame.addEventListener("wheel", (event) => {
    if (pageScrolls(event)) return;
    event.preventDefault();
    const { left, top } = frame.getBoundingClientRect();
    const turn = event.deltaY * (event.deltaMode === 1 ? 16 : 1);
    zoomBy(Math.exp(-turn * (event.ctrlKey ? 0.01 : 0.0016)), event.clientX - left, event.clientY - top);
  }, { passive: false });

  const overview = makeOverview({ nodes, width, height, view, frame, hold });

  function highlight(row) {
    for (const box of picture.querySelectorAll(".shown, .kept, .near")) box.classList.remove("shown", "kept", "near");
    strong.replaceChildren();
    if (selection.kept !== null) boxes[nodeOfRow.get(selection.kept)].classList.add("kept");
    if (row === null) return;
    const index = nodeOfRow.get(row);
    boxes[index].classList.add("shown");
    for (const edge of incoming[index]) strong.append(drawn("path", { d: pieces(edge.node, index).join("") }));
    for (const edge of outgoing[index]) strong.append(drawn("path", { d: pieces(index, edge.node).join("") }));
    for (const edge of [...incoming[index], ...outgoing[index]]) boxes[edge.node].classList.add("near");
  }

  selection.listen(({ shown }, from) => {
    highlight(shown);
    if (shown !== null && from !== "graph" && from !== "timeline") ensureVisible(nodeOfRow.get(shown));
  });

  /** Mark the rows that a search found, and one of them. */
  function mark(found, one) {
    for (const box of picture.querySelectorAll(".match, .hit")) box.classList.remove("match", "hit");
    picture.classList.toggle("searching", found.length > 0);
    for (const row of found) boxes[nodeOfRow.get(row)].classList.add("match");
    if (one !== undefined) {
      boxes[nodeOfRow.get(one)].classList.add("hit");
      centre(nodeOfRow.get(one));
    }
  }

  byId("graph-in").addEventListener("click", () => zoomBy(1.3));
  byId("graph-out").addEventListener("click", () => zoomBy(1 / 1.3));
  byId("graph-fit").addEventListener("click", fit);
  byId("graph-width").addEventListener("click", fitWidth);
  byId("colouring").addEventListener("change", (event) => recolour(event.target.value));
  new ResizeObserver(() => hold()).observe(frame);

  return { draw, fitWidth, mark, recolour, redraw: () => overview.redraw() };
})();
