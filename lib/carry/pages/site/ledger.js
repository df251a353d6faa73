/* The ledger: filters its table; #claim-NAME leads to one claim, as without this script. */
"use strict";

(() => {
  const form = document.getElementById("filters"), count = document.getElementById("count");
  const [work, verdict, text] = ["work", "verdict", "text"].map((id) =>
    document.getElementById(id));
  const rows = [...document.getElementById("claims").tBodies[0].rows];
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));

  function show() {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      row.hidden = (work.value && row.dataset.work !== work.value) ||
        (verdict.value && row.dataset.verdict !== verdict.value) ||
        !words.every((word) => texts.get(row).includes(word));
      shown += !row.hidden;
    }
    count.textContent = shown === rows.length ? `${shown} claims` :
      `${shown} of ${rows.length} claims`;
  }

  /* Show the claim that the address names, also if a filter has hidden it. */
  function reveal() {
    const row = document.getElementById(location.hash.slice(1));
    if (!row?.hidden) return;
    form.reset();
    show();
    row.scrollIntoView();
  }

  form.hidden = false;
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(show)); // when the fields are empty
  addEventListener("hashchange", reveal);
  show(); // a browser may keep the fields of a page that is loaded again
})();
