// Finding layers: all that match are marked, Enter goes from one to the next.

const search = (() => {
  const field = byId("search"), found = byId("found");
  let matches = [], place = 0;

  const texts = rows.map((row) => `${row.name}\n${row.op}\n${row.routine}`.toLowerCase());

  /** Names first that are or begin with what is looked for. */
  function rank(index, wanted) {
    const name = rows[index].name.toLowerCase();
    return name === wanted ? 0 : name.startsWith(wanted) || name.endsWith(wanted) ? 1 : name.includes(wanted) ? 2 : 3;
  }

  function look() {
    const wanted = field.value.trim().toLowerCase();
    matches = wanted ? texts.flatMap((text, index) => (text.includes(wanted) ? [index] : [])) : [];
    const best = Math.min(...matches.map((index) => rank(index, wanted)));
    place = Math.max(0, matches.findIndex((index) => rank(index, wanted) === best));
    show(wanted !== "");
  }

  function show(asked) {
    found.textContent = matches.length ? `${place + 1} of ${matches.length}` : asked ? "none" : "";
    field.toggleAttribute("aria-invalid", asked && !matches.length);
    graph.mark(matches, matches[place]);
    if (matches.length) selection.keep(matches[place], "search");
    else if (!asked) selection.keep(null, "search");
  }

  function start() {
    field.addEventListener("input", look);
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && matches.length) {
        place = (place + (event.shiftKey ? matches.length - 1 : 1)) % matches.length;
        show(true);
        event.preventDefault();
      } else if (event.key === "Escape") {
        field.value = "";
        look();
      }
    });
    addEventListener("keydown", (event) => {
      if (event.key === "/" && !event.ctrlKey && !event.metaKey && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) {
        event.preventDefault();
        field.focus();
        field.select();
      }
    });
  }

  return { start };
})();
