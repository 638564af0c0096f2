// The page comes together.

drawHeader();
graph.draw();
drawPanel();
table.draw();
search.start();
timeline.start();
graph.fitWidth();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { graph.redraw(); timeline.draw(); });
