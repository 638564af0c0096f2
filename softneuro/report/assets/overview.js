// The whole graph as a small strip at the side; a click or drag moves the view.

const OVERVIEW = 76;
const NARROW = 420; // frames below this width have no overview

function makeOverview({ nodes, width, height, view, frame, hold }) {
  const strip = byId("overview");

  const ratio = () => devicePixelRatio || 1;
  const place = () => {
    const kx = (OVERVIEW - 8) / Math.max(width, 600);
    return { kx, ky: (frame.clientHeight - 8) / Math.max(1, height), left: OVERVIEW / 2 - (width * kx) / 2 };
  };
  let boxes = null; // all boxes, painted once

  /** The strip is stretched along the graph, so that long graphs can be aimed at. */
  function paintBoxes() {
    const { kx, ky, left } = place();
    const sheet = document.createElement("canvas");
    sheet.width = Math.round(OVERVIEW * ratio());
    sheet.height = Math.round(frame.clientHeight * ratio());
    const style = getComputedStyle(document.documentElement);
    const pen = sheet.getContext("2d");
    pen.scale(ratio(), ratio());
    for (const node of nodes) {
      const row = node.row === null ? null : rows[node.row];
      pen.fillStyle = style.getPropertyValue(row === null ? "--muted" : colourOf(row, byId("colouring").value));
      pen.globalAlpha = row === null || row.steps === 0 ? 0.35 : 0.3 + 0.7 * Math.sqrt(row.ns / mostNs);
      pen.fillRect(left + (node.x - node.w / 2) * kx, 4 + (node.y - node.h / 2) * ky, Math.max(2, node.w * kx), Math.max(1, node.h * ky));
    }
    return { sheet, accent: style.getPropertyValue("--accent") };
  }

  function draw() {
    const fits = height * view.k <= frame.clientHeight && width * view.k <= frame.clientWidth;
    strip.hidden = fits || frame.clientWidth < NARROW || !frame.clientHeight;
    if (strip.hidden) return;
    const tall = frame.clientHeight;
    if (!boxes || boxes.sheet.height !== Math.round(tall * ratio())) boxes = paintBoxes();
    if (strip.height !== boxes.sheet.height || strip.width !== boxes.sheet.width) {
      strip.width = boxes.sheet.width;
      strip.height = boxes.sheet.height;
      strip.style.width = `${OVERVIEW}px`;
      strip.style.height = `${tall}px`;
    }
    const { kx, ky, left } = place();
    const pen = strip.getContext("2d");
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, strip.width, strip.height);
    pen.drawImage(boxes.sheet, 0, 0);
    pen.scale(ratio(), ratio());
    pen.strokeStyle = boxes.accent;
    pen.lineWidth = 1.5;
    const x0 = clamp(left + (-view.x / view.k) * kx, 1, OVERVIEW - 9), x1 = clamp(left + ((frame.clientWidth - view.x) / view.k) * kx, 9, OVERVIEW - 1);
    const y0 = clamp(4 + (-view.y / view.k) * ky, 1, tall - 5), y1 = clamp(4 + ((tall - view.y) / view.k) * ky, 5, tall - 1);
    pen.strokeRect(x0, y0, Math.max(8, x1 - x0), Math.max(4, y1 - y0));
  }

  /** Draw again with other colours. */
  function redraw() {
    boxes = null;
    draw();
  }

  function aim(event) {
    const { top } = strip.getBoundingClientRect();
    view.y = frame.clientHeight / 2 - ((event.clientY - top - 4) / place().ky) * view.k;
    hold();
  }

  strip.addEventListener("pointerdown", (event) => { strip.setPointerCapture(event.pointerId); aim(event); event.stopPropagation(); });
  strip.addEventListener("pointermove", (event) => { if (event.buttons) aim(event); });
  return { draw, redraw };
}
