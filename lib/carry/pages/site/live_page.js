/* The live page: controls, and drawings of what the models of live.js compute.
 *
 * A context is the text of what a token sees (`Model.writeContext`). A visit is its occurrence in a
 * text that has been written since the model was chosen. The state is in the address,
 * #model=addition_relative_small&a=653&b=49&step=2, so that a link shows what its sender saw.
 */
"use strict";

const TASKS = {
  addition: {
    about: "Numbers are written least significant digit first, and digits are counted in each " +
      "number: equal places have equal ids. A token attends to tokens at its own id and at the " +
      "next one, wherever they stand, and to the first token. No token says what is carried: the " +
      "model has to find it from the last digit of the sum and the digits above it.",
    operands: ["First number", "Second number"],
    example: ["653", "49"],
    solve: (first, second) => reverse(String(BigInt(first) + BigInt(second))),
    read: (response) => `The sum, most significant digit first: ${reverse(response)}.`,
  },
  parity: {
    about: "Is the number of ones odd? From the right, the model writes the parity of the first " +
      "bit, of the first two bits, and so on; the last parity is the answer. Each depends on the " +
      "parity before it and on one more bit, so that the proof can be read as a whole. A bit and " +
      "the parity up to it have the same id.",
    operands: ["Bits"],
    example: ["1011"],
    solve: (bits) => {
      let parity = 0;
      return [...reverse(bits)].map((bit) => (parity ^= Number(bit))).join("");
    },
    read: (response) => `The number of ones is ${response.endsWith("1") ? "odd" : "even"}.`,
  },
};
const SHOWN = 24; // tokens of a strip that is drawn whole
const LONGEST = 100000, RANDOM_DIGITS = 30, RANDOM_PROBLEMS = 100;
const LINKED = 1000; // digits of a number in the address, for which every browser has room
const QUOTED = 30; // characters of a refused value in its message
const KEYS = ["a", "b"]; // of the operands in the address
const SHOWN_STEP = 2; // so that there is something to see
const TILES = 20; // contexts of a group whose texts are written out
const CELL = 4, SHARP = 2; // pixels of a square, and of its drawing for each of them
const TICK = 50; // milliseconds
const AT_ONCE = 2000; // tokens

const page = (id) => document.getElementById(id);
const models = JSON.parse(page("models").textContent).map((settings) => {
  const model = new Model(settings);
  return { model, task: TASKS[settings.task], texts: [...model.contexts.keys()] };
});
let current; // one of the models
let sequence; // its question with what it has written so far; null if an input is refused
let last; // what `Sequence.step` returned for the last token, or null
let timer; // while it writes by itself
let address; // as written or read last
let isReading = false; // the address

function reverse(text) {
  return [...text].reverse().join("");
}

function make(tag, properties, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

function count(number) {
  return number.toLocaleString("en");
}

function percent(share) {
  if (share < 0.0001) return "<0.01%";
  return share > 0.9999 && share < 1 ? ">99.99%" : `${(100 * share).toFixed(2)}%`;
}

/* ---- Questions ---- */

function chooseModel(number) {
  current = { ...models[number], visits: new Map() };
  const { task } = current;
  document.querySelectorAll("input[name=model]")[number].checked = true;
  page("about").textContent = task.about;
  for (const index of [0, 1]) {
    const input = page(`operand-${index}`), label = input.labels[0];
    input.hidden = label.hidden = index >= task.operands.length;
    label.textContent = task.operands[index] ?? "";
    input.value = task.example[index] ?? "";
  }
  page("checked").textContent = "";
  drawGroups();
  restart();
  showContext(1);
}

/* Return what a field holds, without the marks between thousands. */
function readField(id) {
  return page(id).value.replace(/[\s,_]/g, "");
}

/* Return the whole number that a field holds; 0 if it is none from 1 to `most`. */
function readCount(id, most) {
  const text = readField(id), number = Number(text);
  return /^[0-9]+$/.test(text) && number <= most ? number : 0;
}

function quote(text) {
  const end = text.length > QUOTED ? `…' (${count(text.length)} characters)` : "'";
  return `'${text.slice(0, QUOTED)}${end}`;
}

/* Mark a field as valid or not; return the message if it is refused. */
function judge(id, name, isValid, expected) {
  const field = page(id);
  field.setAttribute("aria-invalid", String(!isValid));
  return isValid ? [] : [`${name}: ${quote(field.value)}; expected ${expected}.`];
}

function expectCount(most) {
  return `a whole number from 1 to ${count(most)}`;
}

/* Return a message for each field of the question that is refused. */
function findFaults() {
  const { model, task } = current, highest = model.base - 1, most = count(LONGEST);
  const digits = new RegExp(`^[0-${highest}]+$`);
  const operands = task.operands.map((name, index) => {
    const text = readField(`operand-${index}`);
    const isValid = digits.test(text) && text.length <= LONGEST;
    return judge(`operand-${index}`, name, isValid, `1 to ${most} digits from 0 to ${highest}`);
  });
  const speeds = [...page("speed").options].map((option) => option.value).join(", ");
  return [...operands.flat(),
    ...judge("length", "Digits to draw", readCount("length", LONGEST), expectCount(LONGEST)),
    ...judge("speed", "Speed", page("speed").value, `one of ${speeds}`)];
}

/* Read the question anew; say what is refused, and then show no answer. */
function restart() {
  stop();
  const faults = findFaults();
  sequence = last = null;
  if (!faults.length) {
    const operands = current.task.operands.map((_, index) => {
      const text = readField(`operand-${index}`);
      return current.model.base === 10 ? text.replace(/^0+(?=.)/, "") : text;
    });
    const right = `${current.task.solve(...operands)}$`;
    sequence = Object.assign(new Sequence(current.model, operands), { operands, right });
  }
  say(faults.join(" "));
  draw();
  writeAddress();
  return sequence !== null;
}

/* Return whether a token can be written; a finished question is asked again. */
function prepare() {
  return (sequence && !sequence.finished) || restart();
}

function drawNumber(length) {
  const { base } = current.model;
  const digits = Array.from({ length }, () => Math.floor(Math.random() * base));
  if (base === 10 && length > 1 && !digits[0]) digits[0] = 1; // no number begins with a zero
  return digits.join("");
}

/* ---- Writing ---- */

/* Write up to `most` tokens of a sequence, and mark the contexts that it meets. */
function write(text, most) {
  let written = null;
  for (let number = 0; number < most && !text.finished; number++) {
    written = text.step();
    current.visits.set(written.context, (current.visits.get(written.context) ?? 0) + 1);
  }
  return written;
}

function advance(most) {
  last = write(sequence, most) ?? last;
  draw();
  if (sequence.finished) {
    stop();
    const right = sequence.response === sequence.right, tokens = count(sequence.response.length);
    say(right ? `Done: all ${tokens} tokens are right.` : "Done: the answer is wrong.");
  }
  writeAddress();
}

function step() {
  pause();
  if (prepare()) advance(1);
}

function run() {
  if (timer) return pause();
  if (!prepare()) return;
  const speed = Number(page("speed").value), wait = Math.max(TICK, 1000 / speed);
  start(Math.round(speed * wait / 1000), wait);
}

function start(most, wait) {
  page("run").textContent = "Pause";
  say("Writing.");
  timer = setInterval(() => advance(most), wait);
}

function finish() {
  stop();
  if (!prepare()) return;
  advance(AT_ONCE);
  if (!sequence.finished) start(AT_ONCE, TICK);
}

function stop() {
  clearInterval(timer);
  timer = null;
  page("run").textContent = "Run";
}

function pause() {
  if (!timer) return;
  stop();
  say(`Paused after ${count(sequence.response.length)} tokens.`);
  writeAddress();
}

function meet() {
  const before = current.visits.size;
  let right = 0;
  for (let number = 0; number < RANDOM_PROBLEMS; number++) {
    const operands = current.task.operands.map(() =>
      drawNumber(1 + Math.floor(Math.random() * RANDOM_DIGITS)));
    const text = new Sequence(current.model, operands);
    write(text, Infinity);
    right += Number(text.response === `${current.task.solve(...operands)}$`);
  }
  const more = count(current.visits.size - before);
  page("checked").textContent = `${right} of ${RANDOM_PROBLEMS} problems of 1 to ` +
    `${RANDOM_DIGITS} digits are right; they met ${more} new contexts.`;
  drawMet();
}

function check() {
  const { right, contexts, leastLead } = checkContexts(current.model);
  page("checked").textContent = `Right in ${count(right)} of ${count(contexts)} contexts, with a ` +
    `least lead of ${leastLead.toFixed(2)}; the certificate has ` +
    `${current.model.certificate.least_lead.toFixed(2)}.`;
}

function say(text) {
  page("status").textContent = text;
}

/* ---- Address ---- */

/* Write what is shown into the address, unless tokens follow at once or numbers are too long. */
function writeAddress() {
  if (timer || isReading) return;
  const state = new URLSearchParams({ model: current.model.row });
  const operands = sequence?.operands ?? [];
  const fits = operands.every(({ length }) => length <= LINKED);
  if (fits) operands.forEach((text, index) => state.set(KEYS[index], text));
  if (fits && sequence) state.set("step", sequence.response.length);
  page("linked").textContent = !sequence ? "" :
    fits ? "The address of this page leads to what it shows." :
    `The address of this page has no room for numbers of more than ${count(LINKED)} digits.`;
  address = `#${state}`;
  if (address !== location.hash) location.replace(address);
}

/* Show what the address says; if a part of it is refused, the first example with a message. */
function readAddress() {
  const { hash } = location, isState = hash.includes("=");
  if (hash === address || (current && !isState)) return; // ours, or a place on this page
  address = hash;
  isReading = true;
  const fault = showState(new URLSearchParams(isState ? hash.slice(1) : ""));
  if (fault) {
    showState(new URLSearchParams());
    say(`Address: ${fault} This is the first example.`);
  }
  isReading = false;
}

/* Show a state of the page; return a message if a part of it is refused. */
function showState(state) {
  const rows = models.map(({ model }) => model.row), row = state.get("model") ?? rows[0];
  if (!rows.includes(row)) return `model ${quote(row)}; expected ${rows.join(" or ")}.`;
  chooseModel(rows.indexOf(row));
  const keys = KEYS.slice(0, current.task.operands.length), known = ["model", ...keys, "step"];
  const other = [...state.keys()].find((key) => !known.includes(key));
  if (other !== undefined) return `${quote(other)}; expected ${known.join(", ")}.`;
  for (const [index, key] of keys.entries()) {
    const text = state.get(key) ?? current.task.example[index];
    if (text.length > LINKED)
      return `${key} ${quote(text)}; expected at most ${count(LINKED)} digits.`;
    page(`operand-${index}`).value = text;
  }
  if (!restart()) return page("status").textContent;
  const text = state.get("step") ?? `${SHOWN_STEP}`, wanted = Number(text);
  if (/^[0-9]+$/.test(text) && wanted) advance(wanted);
  const { length } = sequence.response;
  return text === `${length}` ? "" :
    `step ${quote(text)}; expected a whole number from 0 to ${count(sequence.right.length)}.`;
}

/* ---- Drawing ---- */

function draw() {
  const question = sequence?.symbols.slice(0, sequence.start).join("") ?? "";
  const response = sequence?.response ?? "";
  const answer = sequence?.finished ? current.task.read(response.replace("$", "")) : "";
  page("written").replaceChildren(question, make("b", {}, response), make("small", {}, answer));
  page("written").scrollTop = page("written").scrollHeight;
  drawChoice();
  drawStrip();
  drawAttention();
  if (last) showContext(current.texts.indexOf(last.context) + 1);
  drawMet();
}

function drawChoice() {
  if (!sequence) return page("choice").replaceChildren("Nothing is written.");
  if (!last) return page("choice").replaceChildren("Nothing is written yet: press Step or Run.");
  const { model } = current, order = [...last.probabilities.keys()];
  order.sort((one, other) => last.probabilities[other] - last.probabilities[one]);
  const [first, second] = order.map((token) => percent(last.probabilities[token]));
  page("choice").replaceChildren(make("b", {}, last.symbol), ` with probability ${first}. ` +
    `Its logit leads by ${last.lead.toFixed(2)}; next is ${model.symbols[order[1]]}, ${second}.`);
}

/* Return the tokens to draw: all of a short text, else those around the visible ones. */
function chooseTokens() {
  const total = sequence?.symbols.length ?? 0;
  if (total <= SHOWN) return [...Array(total).keys()];
  const centres = last ? last.keys.map((key) => key.index) : [0, total - 1], near = new Set();
  for (const centre of [...centres, total - 1])
    for (let index = centre - 2; index <= centre + 2; index++)
      if (index >= 0 && index < total) near.add(index);
  return [...near].sort((one, other) => one - other);
}

function drawStrip() {
  const items = [], seen = new Map(last ? last.keys.map((key, at) => [key.index, at]) : []);
  const end = sequence?.symbols.length - 1;
  let before = -1;
  for (const index of chooseTokens()) {
    if (index > before + 1)
      items.push(make("li", { className: "gap" }, `${count(index - before - 1)} tokens`));
    before = index;
    const bars = make("span", { className: "bars" }), position = seen.get(index);
    bars.ariaHidden = "true";
    if (position !== undefined)
      for (const [head, weights] of last.attention.entries()) {
        const bar = make("i", { className: `head head-${head}` });
        bar.style.height = `${100 * weights[position]}%`;
        bars.append(bar);
      }
    const isNew = last && index === end;
    const className = isNew ? "new" : position === undefined ? "" : "seen";
    const symbol = make("b", {}, sequence.symbols[index]);
    const id = make("small", {}, make("span", { className: "unseen" }, "id "), sequence.ids[index]);
    items.push(make("li", { className }, bars, symbol, id));
  }
  page("strip").replaceChildren(...items);
  page("strip").parentElement.scrollLeft = page("strip").scrollWidth;
}

function drawAttention() {
  page("attention").replaceChildren(...(last ? last.keys : []).map((key, position) => {
    const cells = last.attention.map((weights, head) => {
      const bar = make("i", { className: `head head-${head}` });
      bar.style.width = `calc(${weights[position]} * var(--longest))`;
      return make("td", {}, bar, percent(weights[position]));
    });
    return make("tr", {}, make("th", { scope: "row" }, key.symbol), make("td", {}, nameSource(key)),
      make("td", { className: "number" }, `${key.id}`), ...cells);
  }));
}

function nameSource({ index, symbol }) {
  const { model, task } = current;
  if (!isDigit(symbol)) return "sign";
  if (index >= sequence.start) return "answer";
  const second = model.sign && index > sequence.symbols.indexOf(model.sign);
  return task.operands[Number(second)].toLowerCase();
}

/* ---- Contexts ---- */

function drawGroups() {
  const { model } = current;
  let first = 0;
  current.groups = model.groups.map(({ label, columns, contexts }) => {
    const start = first, texts = current.texts.slice(start, start + contexts.split(" ").length);
    first += texts.length;
    const group = { label, columns, texts, title: make("figcaption", {}) };
    if (texts.length <= TILES)
      group.tiles = texts.map((text) => make("li", {}, shorten(text)));
    else
      group.canvas = makeCanvas(columns, Math.ceil(texts.length / columns), (index) =>
        index < texts.length && showContext(start + index + 1));
    const drawing = group.canvas ?? make("ol", { className: "tiles" }, ...group.tiles);
    group.figure = make("figure", {}, group.title, drawing);
    return group;
  });
  page("groups").replaceChildren(...current.groups.map(({ figure }) => figure));
}

/* Return a canvas for squares; a click on one calls `choose` with its index. */
function makeCanvas(columns, rows, choose) {
  const canvas = make("canvas", { width: SHARP * CELL * columns, height: SHARP * CELL * rows });
  canvas.style.width = `${CELL * columns}px`;
  canvas.addEventListener("click", ({ offsetX, offsetY }) =>
    choose(Math.floor(offsetX / CELL) + columns * Math.floor(offsetY / CELL)));
  return canvas;
}

/* Return a context in a few signs: digits here and the last token, digits next, what follows. */
function shorten(text) {
  const { query, keys } = current.model.readContext(text);
  const here = [...listSymbols(keys, 0), query], next = listSymbols(keys, 1);
  const seen = [here, ...(next.length ? [next] : [])].map((symbols) => symbols.join(" "));
  return `${seen.join(" | ")} → ${current.model.contexts.get(text).target}`;
}

/* Return the symbols of a context at a difference of ids, without the first and the last token. */
function listSymbols(keys, difference) {
  const inside = keys.slice(1, -1).filter((key) => key.difference === difference);
  return inside.map((key) => key.symbol);
}

function drawMet() {
  const { model, visits } = current, total = model.contexts.size;
  const met = current.texts.filter((text) => visits.has(text)).length;
  page("met").value = met / total;
  page("met-count").textContent = `${count(met)} of ${count(total)}`;
  const style = getComputedStyle(document.body), now = last && last.context;
  const [empty, full, ink] = ["--line", "--link", "--ink"].map((name) =>
    style.getPropertyValue(name));
  for (const { texts, columns, title, label, canvas, tiles } of current.groups) {
    const known = texts.map((text) => visits.has(text)), here = texts.indexOf(now);
    const state = `${count(known.filter(Boolean).length)} of ${count(texts.length)} met`;
    title.replaceChildren(make("b", {}, label), make("br"), state);
    if (tiles)
      tiles.forEach((tile, index) =>
        (tile.className = `${known[index] ? "met" : ""} ${index === here ? "now" : ""}`));
    if (!canvas) continue;
    canvas.role = "img";
    canvas.ariaLabel = `Contexts ${label}: ${state}`;
    const pen = canvas.getContext("2d"), size = SHARP * CELL;
    pen.clearRect(0, 0, canvas.width, canvas.height);
    const corner = (index) => [size * (index % columns), size * Math.floor(index / columns)];
    known.forEach((isMet, index) => {
      pen.fillStyle = isMet ? full : empty;
      pen.fillRect(...corner(index), size - 1, size - 1);
    });
    if (here < 0) continue;
    pen.strokeStyle = ink;
    pen.lineWidth = 4;
    pen.strokeRect(...corner(here).map((x) => x - 3), size + 5, size + 5);
  }
}

/* Show the context whose number is in its field, or say why there is none. */
function readContextNumber() {
  const most = current.texts.length, number = readCount("number", most);
  const [fault] = judge("number", "Context number", number, expectCount(most));
  if (fault) page("context").textContent = fault;
  else describeContext(number);
}

function showContext(number) {
  page("number").value = number;
  readContextNumber();
}

function describeContext(number) {
  const { model, texts, visits } = current, text = texts[number - 1];
  const { query, keys } = model.readContext(text), { target } = model.contexts.get(text);
  const pass = model.predict(query, keys), { lead } = model.choose(pass.logits);
  const shown = ["at its id", "at the next id"].map((name, difference) =>
    `${listSymbols(keys, difference).join(" and ") || "nothing else"} ${name}`);
  page("context").textContent =
    `The last token is ${query}; the window shows ${shown.join(", and ")}. ` +
    `Then ${target} is right: its logit leads by ${lead.toFixed(2)}. ` +
    `Times met: ${count(visits.get(text) ?? 0)}.`;
}

/* ---- Controls ---- */

page("question").addEventListener("submit", (event) => {
  event.preventDefault();
  run();
});
page("question").addEventListener("input", ({ target }) => {
  if (target.name === "model") chooseModel(Number(target.value));
  else if (target.id.startsWith("operand") || !sequence || findFaults().length) restart();
  else if (timer && target.id === "speed") (pause(), run());
});
page("draw").addEventListener("click", () => {
  const length = readCount("length", LONGEST);
  if (length)
    for (const index of current.task.operands.keys())
      page(`operand-${index}`).value = drawNumber(length);
  restart();
});
page("step").addEventListener("click", step);
page("finish").addEventListener("click", finish);
page("restart").addEventListener("click", restart);
page("meet").addEventListener("click", meet);
page("check").addEventListener("click", check);
page("number").addEventListener("input", readContextNumber);
page("number").addEventListener("keydown", ({ key }) => {
  const number = readCount("number", current.texts.length);
  const next = number + { ArrowUp: 1, ArrowDown: -1 }[key];
  if (number && next >= 1 && next <= current.texts.length) showContext(next);
});
document.addEventListener("keydown", ({ key }) => key === "Escape" && pause());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawMet);
addEventListener("hashchange", readAddress);
readAddress();
