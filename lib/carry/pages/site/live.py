"""The live page: certified models as JSON, which the page runs in the browser.

    live.html       the page, with what `export_model` returns for each of `ROWS`
    live.js         the forward pass, and answers token by token
    live_page.js    controls and drawings

The weights are the committed ones of seed 0. Contexts are enumerated when the site is built, and
compared with the committed certificate.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

import torch

from carry import formats
from carry.certificates.contexts import HIDDEN_ID, Contexts
from carry.certificates.files import read_certificate
from carry.certificates.verification import enumerate_contexts, hash_weights
from carry.config import paths
from carry.config.settings import SettingsError
from carry.evaluation import trained_models
from carry.models.encodings.relative import Relative
from carry.models.system import System
from carry.tasks import to_digits

# A sum, and a scratchpad whose few contexts can be read one by one.
ROWS = ("addition_relative_small", "parity_relative_scratchpad")
CERTIFIED = ("problems", "contexts", "least_lead", "largest_error", "least_slack", "weights")
DIGITS_BASE_36 = "0123456789abcdefghijklmnopqrstuvwxyz"
COLUMNS = 10  # of the drawing of contexts that have one thing in common


class Group(NamedTuple):
    """A kind of context: the row of its first token, the query if it is a sign, and counts."""

    sign: str
    row: int
    counts: tuple[int, ...]  # of visible digits without the query, by difference of ids


def export_model(row: str) -> dict[str, Any]:
    """Return what live.js needs of a certified row: settings, weights, contexts and certificate.

    Returns:
        `symbols`, by token; `begin`, the first of a question, and the `sign` between its numbers.
        `ids`: of the `first` digit of a number and of `signs`; and the `uncounted` id, or None.
        `window`, `clip` and `heads` of attention; `epsilon` of the norms.
        `weights` by name, as lists of rows; `biases` has a row for each difference of ids.
        `groups` of contexts: their `label`, the `columns` of a drawing, and the texts of the
        `contexts`. A text has the query, the bias row of the first token, the other visible tokens
        for each difference of ids, and the right next token.
        `task`, its `label` and the `base` of its digits; `parameters`; digits `trained` to; and
        the numbers of the `certificate`.

    live.js computes models of one layer with one relative encoding that sees the first token.

    Raises:
        SettingsError: for missing files, and for weights or contexts that are not those of the
            certificate.

    >>> model = export_model("parity_relative_scratchpad")
    >>> [(group["label"], group["contexts"]) for group in model["groups"]][:1]
    [('after =: 0 here, 1 next', '=6/00 =6/11')]
    """
    system = trained_models.load_committed(row)
    certificate = read_certificate(paths.certificate_file(row))
    contexts, seed = enumerate_contexts(system).contexts, certificate["seeds"][0]
    proved = {"verdict": "exact", "contexts": len(contexts), "weights": hash_weights(system)}
    if not proved.items() <= seed.items():
        raise SettingsError(
            f"site: the certificate of {row} is of other weights; expected that of "
            f"`carry certify --renew {row}`"
        )
    network, encoding = system.network, system.network.encodings[0]
    weights = network.state_dict()
    weights["biases"] = weights.pop("encodings.0.biases.0") * encoding.scale
    return {
        "row": row,
        "symbols": formats.to_text(torch.arange(system.format.vocabulary_size())),
        "begin": formats.ALPHABET[formats.BOS],
        "sign": system.task.sign,
        "ids": _export_ids(system),
        "window": encoding.window._asdict(),
        "clip": encoding.clip,
        "heads": network.settings.heads,
        "epsilon": network.final_norm.eps,
        "weights": {name: values.tolist() for name, values in weights.items()},
        "groups": _group_contexts(system, contexts),
        "task": system.run.task["name"],
        "label": system.task.label,
        "base": system.task.base,
        "parameters": certificate["parameters"],
        "trained": certificate["trained"],
        "certificate": {field: seed[field] for field in CERTIFIED},
    }


def _export_ids(system: System) -> dict[str, Any]:
    """Return the ids that live.js gives to tokens, as read from a problem."""
    operands = ["11", "1"][: system.task.operand_count]
    batch = system.format.write(system.task.solve(*to_digits([operands])))
    (ids,) = system.ids(batch)
    pairs = list(zip(formats.to_text(batch.tokens[0]), ids[0].tolist(), strict=True))
    return {
        "first": pairs[1][1],
        "signs": {symbol: value for symbol, value in pairs if not symbol.isdigit()},
        "uncounted": system.network.encodings[0].uncounted_id,
    }


def _group_contexts(system: System, contexts: Contexts) -> list[dict[str, Any]]:
    """Return the texts of contexts by group, in the order in which a page draws them."""
    encoding, ids = system.network.encodings[0], contexts.ids[0]
    differences = range(-encoding.window.lower, encoding.window.upper + 1)
    entries = defaultdict(list)
    for tokens, token_ids, row, target in zip(
        contexts.tokens.tolist(),
        ids.tolist(),
        encoding.find_rows(ids[:, -1], ids[:, 0]).tolist(),
        contexts.target.tolist(),
        strict=True,
    ):
        *before, query = (formats.ALPHABET[token] for token in tokens)
        visible: dict[int, list[str]] = {difference: [] for difference in differences}
        for symbol, value in zip(before[1:], token_ids[1:-1], strict=True):
            if value != HIDDEN_ID:
                visible[value - token_ids[-1]].append(symbol)
        parts = ["".join(sorted(symbols)) for symbols in visible.values()]
        counts = tuple(sum(map(str.isdigit, part)) for part in parts)
        text = f"{query}{DIGITS_BASE_36[row]}{'/'.join(parts)}{formats.ALPHABET[target]}"
        group = Group("" if query.isdigit() else query, row, counts)
        entries[group].append((parts[:-1], query, parts[-1], text))
    groups = []
    for group in sorted(entries, reverse=True, key=lambda group: (group.sign, group.counts)):
        *_, highest, texts = zip(*sorted(entries[group]), strict=True)
        columns = len({*highest}) if len({*highest}) > 1 else COLUMNS
        label = _describe_group(group, encoding, differences)
        groups.append({"label": label, "columns": columns, "contexts": " ".join(texts)})
    return groups


def _describe_group(group: Group, encoding: Relative, differences: range) -> str:
    """Return a label: where the last token stands, and how many digits its window shows."""
    distance = group.row - encoding.clip  # to the first token; more than `clip` if uncounted
    if group.sign:
        where = f"after {group.sign}"
    elif distance > encoding.clip:
        where = "after a digit"
    else:
        where = f"after digit {distance}{' or later' if distance == encoding.clip else ''}"
    names = {0: "here", 1: "next"}
    counts = [
        f"{count} {names.get(difference, f'at {difference:+d}')}"
        for difference, count in zip(differences, group.counts, strict=True)
    ]
    return f"{where}: {', '.join(counts)}"
