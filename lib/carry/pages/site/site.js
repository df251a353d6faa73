/* All pages: search over questions, figures, claims and items (search_index.js), and boxes that
 * scroll sideways. */
"use strict";

(() => {
  const MOST = 12; // results
  const IDLE = new Set(["a", "an", "and", "does", "for", "in", "is", "of", "on", "the", "to"]);
  const root = document.documentElement.dataset.root;
  const [form, input, list, found] = ["search", "query", "results", "found"].map((id) =>
    document.getElementById(id));
  let entries; // of the index, with their words

  /* Return the words of a text without accents and capitals; 4.1 is one word. */
  function split(text) {
    const plain = text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
    return plain.match(/[\p{L}\p{N}]+(?:\.[\p{L}\p{N}]+)*/gu) ?? [];
  }

  /* Return how well words contain a wanted word: itself, its beginning, or a part. */
  function rate(words, wanted) {
    let best = 0;
    for (const word of words) {
      if (word === wanted) return 4;
      if (word.startsWith(wanted)) best = Math.max(best, 2);
      else if (wanted.length > 2 && word.includes(wanted)) best = Math.max(best, 1);
    }
    return best;
  }

  /* Return the entries with all wanted words, the best first. */
  function find(text) {
    entries ??= searchIndex.map((entry) =>
      ({ ...entry, words: [split(entry.title), split(entry.text)] }));
    const all = split(text), wanted = all.filter((word) => !IDLE.has(word));
    if (!wanted.length) return [];
    const rated = entries.map((entry) => {
      const [title, rest] = entry.words;
      const scores = wanted.map((word) => 3 * rate(title, word) + rate(rest, word));
      return { entry, score: scores.includes(0) ? 0 : scores.reduce((sum, one) => sum + one) };
    });
    return rated.filter(({ score }) => score).sort((one, other) => other.score - one.score);
  }

  function make(tag, properties, ...children) {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  }

  function show() {
    const results = find(input.value).map(({ entry }) => entry);
    list.replaceChildren(...results.slice(0, MOST).map(({ kind, title, text, url }) =>
      make("li", {}, make("a", { href: root + url },
        make("b", {}, title), make("small", {}, `${kind}. ${text}`)))));
    list.hidden = !results.length;
    const count = results.length === 1 ? "1 result" : `${results.length} results`;
    found.textContent = input.value.trim() ? count : "";
    list.scrollTop = 0;
  }

  function close() {
    list.hidden = true;
    found.textContent = "";
  }

  /* Move the focus through the box and its results. */
  function move(step) {
    const stops = [input, ...list.querySelectorAll("a")];
    const next = stops.indexOf(document.activeElement) + step;
    stops[Math.min(stops.length - 1, Math.max(0, next))].focus();
  }

  form.hidden = false;
  input.addEventListener("input", show);
  input.addEventListener("focus", () => input.value && list.hidden && show());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    list.querySelector("a")?.click();
  });
  form.addEventListener("focusout", ({ relatedTarget }) =>
    relatedTarget && !form.contains(relatedTarget) && close());
  form.addEventListener("keydown", (event) => {
    const { key } = event;
    if (key === "ArrowDown" || key === "ArrowUp") {
      event.preventDefault();
      move(key === "ArrowDown" ? 1 : -1);
    } else if (key === "Escape") {
      close();
      input.focus();
    }
  });
  list.addEventListener("click", close); // a result may be on this page
  document.addEventListener("click", ({ target }) => form.contains(target) || close());
  document.addEventListener("keydown", (event) => {
    const { key, target, ctrlKey, metaKey, altKey } = event;
    if (key !== "/" || ctrlKey || metaKey || altKey) return;
    if (target.closest("input, select, textarea, [contenteditable]")) return;
    event.preventDefault();
    input.focus();
    input.select();
  });

  /* What scrolls sideways can be reached by keys. */
  function reachBoxes() {
    for (const box of document.querySelectorAll("main pre, main .output_subarea"))
      if (box.scrollWidth > box.clientWidth && !box.hasAttribute("tabindex")) {
        box.tabIndex = 0;
        box.role = "group";
        box.ariaLabel = "Scrolls sideways";
      }
  }
  addEventListener("load", reachBoxes);
  addEventListener("resize", reachBoxes);
})();
