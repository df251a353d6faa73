/* The ledger: filters and sorts its table. The state is in the address, #work=cho2025&sort=n, so
 * that a link shows what its sender saw; #claim-NAME leads to one claim, as without this script. */
"use strict";

(() => {
  const table = document.getElementById("claims"), body = table.tBodies[0];
  const rows = [...body.rows]; // in the order of the works
  const form = document.getElementById("filters"), count = document.getElementById("count");
  const [work, seen, text] = ["work", "seen", "text"].map((id) =>
    document.getElementById(id));
  const heads = [...table.tHead.rows[0].cells];
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  let sort = { key: "", down: false };

  function readKey(row, column) {
    const text = row.cells[column].dataset.sort, number = Number(text);
    return text === "" || Number.isNaN(number) ? text : number;
  }

  /* Compare two rows; those without a value are last in both directions. */
  function compare(one, other) {
    const column = heads.findIndex((head) => head.dataset.key === sort.key);
    const [first, second] = [one, other].map((row) => readKey(row, column));
    if (first === "" || second === "") return (first === "") - (second === "");
    const order = first < second ? -1 : first > second ? 1 : 0;
    return sort.down ? -order : order;
  }

  function show() {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      row.hidden = (work.value && row.dataset.work !== work.value) ||
        (seen.value && row.dataset.seen !== seen.value) ||
        !words.every((word) => texts.get(row).includes(word));
      shown += !row.hidden;
    }
    body.append(...(sort.key ? [...rows].sort(compare) : rows));
    for (const head of heads)
      if (head.dataset.key === sort.key) head.ariaSort = sort.down ? "descending" : "ascending";
      else head.ariaSort = null;
    count.textContent = shown === rows.length ? `${shown} claims` :
      `${shown} of ${rows.length} claims`;
  }

  function write() {
    const state = new URLSearchParams();
    for (const field of [work, seen, text]) if (field.value) state.set(field.id, field.value);
    if (sort.key) state.set("sort", sort.key);
    if (sort.key && sort.down) state.set("order", "down");
    const hash = `#${state}`;
    if (hash !== (location.hash || "#")) location.replace(hash);
    show();
  }

  function read() {
    if (location.hash.startsWith("#claim-")) return revealClaim();
    const state = new URLSearchParams(location.hash.slice(1));
    for (const field of [work, seen, text]) field.value = state.get(field.id) ?? "";
    if (work.selectedIndex < 0) work.value = "";
    if (seen.selectedIndex < 0) seen.value = "";
    const known = heads.some((head) => head.dataset.key === state.get("sort"));
    sort = { key: known ? state.get("sort") : "", down: state.get("order") === "down" };
    show();
  }

  function clear() {
    work.value = seen.value = text.value = "";
    sort = { key: "", down: false };
  }

  /* Show the claim that the address names, also if a filter has hidden it. */
  function revealClaim() {
    const row = document.getElementById(location.hash.slice(1));
    if (row?.hidden) clear();
    show();
    row?.scrollIntoView();
  }

  for (const head of heads) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const { key } = head.dataset;
      if (sort.key !== key) sort = { key, down: false };
      else if (!sort.down) sort.down = true;
      else sort = { key: "", down: false };
      write();
    });
  }
  form.hidden = false;
  form.addEventListener("input", write);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", (event) => {
    event.preventDefault();
    clear();
    write();
  });
  addEventListener("hashchange", read);
  read();
})();
