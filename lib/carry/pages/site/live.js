/* The forward pass of a certified model, in plain JavaScript.
 *
 *     Model       one layer: a query and the keys that the window shows it -> attention, logits
 *     Sequence    a question and the answer so far: ids, the keys of the last token, the next token
 *
 * `carry.pages.site.live` writes the settings, weights and contexts that a model is made from;
 * the names of weights are those of `carry.models.architectures.transformer`. Weights are float32
 * numbers. All else is computed in double precision, with errors far below those that the
 * certificate allows for. The cost of a token does not depend on the length.
 */
"use strict";

class Model {
  constructor(settings) {
    Object.assign(this, settings);
    for (const [name, values] of Object.entries(settings.weights))
      this.weights[name] = Array.isArray(values[0])
        ? values.map((row) => Float64Array.from(row))
        : Float64Array.from(values);
    this.projections = new Map();
    this.contexts = new Map(); // text -> group, index in it, and the right next token
    settings.groups.forEach((group, number) =>
      group.contexts.split(" ").forEach((text, index) =>
        this.contexts.set(text.slice(0, -1), { group: number, index, target: text.at(-1) })));
  }

  /* Return the product of a matrix and a vector, plus a bias where there is one. */
  multiply(name, vector) {
    const bias = this.weights[`${name}.bias`];
    return Float64Array.from(this.weights[`${name}.weight`], (row, index) =>
      row.reduce((sum, weight, at) => sum + weight * vector[at], bias ? bias[index] : 0));
  }

  /* LayerNorm. */
  normalise(name, vector) {
    const gain = this.weights[`${name}.weight`], bias = this.weights[`${name}.bias`];
    const mean = average(vector);
    const scale = 1 / Math.sqrt(average(vector.map((x) => (x - mean) ** 2)) + this.epsilon);
    return vector.map((x, index) => (x - mean) * scale * gain[index] + bias[index]);
  }

  embed(symbol) {
    return this.weights["tokens.weight"][this.symbols.indexOf(symbol)];
  }

  /* Return the query, key and value of a token. They depend on its symbol alone: no embedding of
     ids is added. */
  project(symbol) {
    if (!this.projections.has(symbol)) {
      const source = this.normalise("blocks.0.before.0", this.embed(symbol));
      const both = this.multiply("blocks.0.key_value", source), half = both.length / 2;
      this.projections.set(symbol, {
        query: this.multiply("blocks.0.query", source),
        key: both.subarray(0, half),
        value: both.subarray(half),
      });
    }
    return this.projections.get(symbol);
  }

  /* Return the bias row of a difference of ids, clipped; uncounted ids have rows of their own. */
  biasRow(query, key) {
    const uncounted = Number(query === this.ids.uncounted) + 2 * Number(key === this.ids.uncounted);
    if (uncounted) return 2 * this.clip + uncounted;
    return Math.min(this.clip, Math.max(-this.clip, query - key)) + this.clip;
  }

  /* Return the attention weights of each head, and the logits of the next token.
     `query`: its symbol; `keys`: the symbol and the bias row of each visible token. */
  predict(query, keys) {
    const reader = this.project(query).query, sources = keys.map((key) => this.project(key.symbol));
    const mixed = new Float64Array(reader.length), width = reader.length / this.heads;
    const attention = [];
    for (let head = 0; head < this.heads; head++) {
      const from = head * width, scores = new Float64Array(keys.length);
      keys.forEach((key, index) => {
        let product = 0;
        for (let at = from; at < from + width; at++) product += reader[at] * sources[index].key[at];
        scores[index] = product / Math.sqrt(width) + this.weights.biases[key.row][head];
      });
      const weights = softmax(scores);
      for (let at = from; at < from + width; at++)
        mixed[at] = sources.reduce((sum, { value }, index) => sum + weights[index] * value[at], 0);
      attention.push(weights);
    }
    let x = add(this.embed(query), this.multiply("blocks.0.output", mixed));
    const source = this.normalise("blocks.0.before.1", x);
    const hidden = this.multiply("blocks.0.feed_forward.up", source).map((y) => Math.max(0, y));
    x = add(x, this.multiply("blocks.0.feed_forward.down", hidden));
    const logits = this.multiply("logits", this.normalise("final_norm", x));
    return { attention, logits, probabilities: softmax(logits) };
  }

  /* Return the text of a context: the query, the bias row of the first token, and the sorted
     symbols of the other visible tokens, for each difference of ids in the window. */
  writeContext(keys) {
    const query = keys.at(-1), groups = [];
    for (let id = query.id - this.window.lower; id <= query.id + this.window.upper; id++) {
      const group = keys.slice(1, -1).filter((key) => key.id === id);
      groups.push(group.map((key) => key.symbol).sort().join(""));
    }
    return query.symbol + keys[0].row.toString(36) + groups.join("/");
  }

  /* Return the query and the keys of the text of a context. */
  readContext(text) {
    const keys = [{ symbol: this.begin, row: parseInt(text[1], 36) }];
    text.slice(2).split("/").forEach((symbols, index) => {
      const row = this.window.lower - index + this.clip;
      const difference = index - this.window.lower;
      for (const symbol of symbols) keys.push({ symbol, row, difference });
    });
    const query = text[0];
    return { query, keys: [...keys, { symbol: query, row: this.clip, difference: 0 }] };
  }

  /* Return the symbol with the largest logit, and by how much it leads. */
  choose(logits) {
    const best = logits.indexOf(Math.max(...logits));
    const second = Math.max(...logits.filter((_, index) => index !== best));
    return { symbol: this.symbols[best], lead: logits[best] - second };
  }
}

class Sequence {
  constructor(model, operands) {
    Object.assign(this, { model, symbols: [], ids: [], places: new Map() });
    const numbers = operands.map((text) => [...text].reverse().join(""));
    for (const symbol of `${model.begin}${numbers.join(model.sign)}=`) this.push(symbol);
    this.start = this.symbols.length;
  }

  /* Append a token: digits are counted within their number, and signs have fixed ids. */
  push(symbol) {
    const { ids } = this.model, follows = isDigit(this.symbols.at(-1) ?? "");
    const digit = follows ? this.ids.at(-1) + 1 : ids.first;
    const id = isDigit(symbol) ? digit : ids.signs[symbol];
    if (!this.places.has(id)) this.places.set(id, []);
    this.places.get(id).push(this.symbols.length);
    this.symbols.push(symbol);
    this.ids.push(id);
  }

  /* Return the tokens that the last one attends to: the first, those in the window, and itself. */
  keys() {
    const { window, ids: { uncounted } } = this.model, last = this.symbols.length - 1;
    const query = this.ids[last], visible = new Set([0, last]);
    for (let id = query - window.lower; id <= query + window.upper; id++)
      if (query !== uncounted && id !== uncounted)
        for (const index of this.places.get(id) ?? []) visible.add(index);
    return [...visible].sort((one, other) => one - other).map((index) => {
      const id = this.ids[index];
      return { index, id, symbol: this.symbols[index], row: this.model.biasRow(query, id) };
    });
  }

  /* Write the next token, and return how it came about. */
  step() {
    const keys = this.keys(), pass = this.model.predict(keys.at(-1).symbol, keys);
    const choice = this.model.choose(pass.logits);
    this.push(choice.symbol);
    return { ...pass, ...choice, keys, context: this.model.writeContext(keys) };
  }

  get response() {
    return this.symbols.slice(this.start).join("");
  }

  /* A wrong model might never end: no answer is longer than its question. */
  get finished() {
    return this.symbols.at(-1) === "$" || this.symbols.length > 2 * this.start + 2;
  }
}

function isDigit(symbol) {
  return symbol >= "0" && symbol <= "9";
}

function average(vector) {
  return vector.reduce((sum, x) => sum + x, 0) / vector.length;
}

function add(one, other) {
  return one.map((x, index) => x + other[index]);
}

function softmax(scores) {
  const largest = Math.max(...scores), weights = scores.map((x) => Math.exp(x - largest));
  const sum = weights.reduce((total, x) => total + x, 0);
  return weights.map((x) => x / sum);
}

/* Run a model in every enumerated context; return how many are right, and the least lead. */
function checkContexts(model) {
  const result = { contexts: model.contexts.size, right: 0, leastLead: Infinity };
  for (const [text, { target }] of model.contexts) {
    const { query, keys } = model.readContext(text);
    const { symbol, lead } = model.choose(model.predict(query, keys).logits);
    result.right += Number(symbol === target);
    result.leastLead = Math.min(result.leastLead, symbol === target ? lead : -lead);
  }
  return result;
}
