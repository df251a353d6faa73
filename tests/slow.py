"""A decoder in plain Python, token by token, with every encoding as its formula has it.

It is for models of two heads and width 32; their linear maps and norms are taken as they are.
"""

import math

import torch


def felt_by(encoding, id):
    """Return what is added to a token, by the formula of its encoding."""
    match type(encoding).__name__:
        case "Learned":
            row = (id - 1) % encoding.table + 1 if encoding.settings.ring and id else id
            return encoding.rows.weight[row].tolist()
        case "Sinusoidal":  # Vaswani et al. 2017, 3.5
            angles = [id / 10_000 ** (2 * k / 32) for k in range(16)]
            return [part for of in angles for part in (math.sin(of), math.cos(of))]
    return [0.0] * 32


def turned_by(encoding, vector, id):
    """Return a query or a key as it is compared (Su et al. 2024, 3.2)."""
    if type(encoding).__name__ != "RoPE":
        return vector
    half = len(vector) // 2
    turned = list(vector)
    for k in range(half):
        angle = id * 10_000 ** (-2 * k / len(vector))
        one, other = vector[k], vector[k + half]
        turned[k] = one * math.cos(angle) - other * math.sin(angle)
        turned[k + half] = one * math.sin(angle) + other * math.cos(angle)
    return turned


def bias_by(encoding, layer, head, query, i, j):
    """Return what is added to the score of a query with id i and a key with id j."""
    match type(encoding).__name__:
        case "Fire":  # Li et al. 2023, section 3.1
            c = 0.1 * math.exp(encoding.log_c[layer].item())
            threshold = 512 * math.exp(encoding.log_threshold[layer].item())
            share = math.log(c * (i - j) + 1) / math.log(c * max(i, threshold) + 1)
            return encoding.networks[layer](torch.tensor([share], dtype=torch.float64))[head].item()
        case "Relative":
            row = max(-encoding.clip, min(encoding.clip, i - j)) + encoding.clip
            lacking = [at == encoding.uncounted_id for at in (i, j)]
            if any(lacking):  # the last three rows: of query, of key, of both
                row = [(True, False), (False, True), (True, True)].index((*lacking,)) - 3
            return 8 * encoding.biases[layer][row, head].item()
        case "ALiBi":  # Press et al. 2021, section 3, for two heads
            return -(2 ** (-8 * (head + 1) / 2)) * abs(i - j)
        case "HardALiBi":  # Jelassi et al. 2024
            hidden = head < len(encoding.settings.spans) and i - j > encoding.settings.spans[head]
            return -math.inf if hidden else 0.0
        case "T5":
            return encoding.biases[bucket_by(i - j, 32, 128), head].item()
        case "Shaw":  # Shaw et al. 2018, eq. 4; its vectors stand beside keys that are not turned
            clipped = max(-encoding.clip, min(encoding.clip, j - i))
            vector = encoding.vectors[layer][clipped + encoding.clip].tolist()
            return dot(query, vector) / math.sqrt(len(query))
    return 0.0


def bucket_by(distance, buckets, most):
    """Return the bucket of a distance (Raffel et al. 2020, 2.1, for a decoder)."""
    exact = buckets // 2
    if distance < exact:
        return distance
    share = math.log(distance / exact) / math.log(most / exact)
    return min(buckets - 1, exact + math.floor(share * (buckets - exact) + 1e-9))


def dot(one, other):
    return sum(a * b for a, b in zip(one, other, strict=True))


def sees(encodings, ids, q, k):
    """Say whether windows show a token; of those before it, a query sees the first and itself."""
    says = []
    for encoding, of in zip(encodings, ids, strict=True):
        if encoding.window is not None:
            behind, ahead = encoding.window
            counted = encoding.uncounted_id not in (of[q], of[k])
            says += [of[q] - behind <= of[k] <= of[q] + ahead] if counted else [None]
    first = k == 0 and all(of.sees_first for of in encodings if of.window is not None)
    return not says or k == q or first or (True in says and False not in says)


def factor_of(network, seen):
    """Return what the logits of a query are multiplied by, if it sees so many keys."""
    if network.settings.attention_scale == "constant":
        return 1.0
    return math.log(max(seen, 2)) / math.log(64)


def heads_of(network, layer, source, ids):
    """Return what the two heads of a layer find for every token of one sequence."""
    block, encodings, width = network.blocks[layer], network.encodings, source.shape[1] // 2
    query, (key, value) = block.query(source), block.key_value(source).chunk(2, dim=1)
    query, key, value = (x.unflatten(1, (2, width)).tolist() for x in (query, key, value))
    found = []
    for q in range(len(source)):
        found.append([])
        for head in range(2):
            seen, logits = [], []
            for k in range(q + 1):
                one, other, more = query[q][head], key[k][head], 0.0
                for encoding, of in zip(encodings, ids, strict=True):
                    more += bias_by(encoding, layer, head, query[q][head], of[q], of[k])
                    one = turned_by(encoding, one, of[q])
                    other = turned_by(encoding, other, of[k])
                if sees(encodings, ids, q, k):
                    seen.append(value[k][head])
                    logits.append(dot(one, other) / math.sqrt(width) + more)
            scores = [math.exp(factor_of(network, len(seen)) * logit) for logit in logits]
            weights = [score / sum(scores) for score in scores]
            found[-1] += [dot(weights, feature) for feature in zip(*seen, strict=True)]
    return torch.tensor(found, dtype=torch.float64)


def embedded(network, tokens, ids):
    """Return what goes into the first layer."""
    x = []
    for at, token in enumerate(tokens):
        parts = [felt_by(of, id[at]) for of, id in zip(network.encodings, ids, strict=True)]
        parts.append(network.tokens.weight[token].tolist())
        x.append([sum(features) for features in zip(*parts, strict=True)])
    return network.embedding_norm(torch.tensor(x, dtype=torch.float64))


def added(block, part, x, update):
    """Return the residual stream with what attention or the feed-forward network adds to it."""
    norm = block.after[part]
    if block.settings.norm_place == "pre":
        return x + update
    return x + norm(update) if block.settings.norm_place == "pre_and_branch" else norm(x + update)


def through_block(network, x, ids):
    """Return the residual stream of one sequence after all layers."""
    for layer, block in enumerate(network.blocks):
        x = added(block, 0, x, block.output(heads_of(network, layer, block.before[0](x), ids)))
        x = added(block, 1, x, block.feed_forward(block.before[1](x)))
    return x


def logits(network, tokens, ids):
    """Return the logits of one sequence, for models that are run once."""
    x = through_block(network, embedded(network, tokens, ids), ids)
    return network.logits(network.logit_scale * network.final_norm(x))
