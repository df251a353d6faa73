"""Heads and feed-forward network of a local adder, in all contexts in the middle of a sum.

There the next token depends on six tokens, for sums of any length:

    place      k+1 k+1   k k k         and the first token of the sequence
    tokens       x   y   a b d         d: the last written digit, the query
    target       x + y + carry         of a + b, as d shows; modulo 10
"""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd
import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor

from carry.analyses import INTERVAL, LABELS
from carry.config.settings import SettingsError
from carry.evaluation.intervals import add_interval
from carry.formats import BOS
from carry.interpretability.head_ablation import NO_HEAD, mean_ablation
from carry.models.hooks import Hooks
from carry.models.system import System
from carry.training.precision import use_precision

TASK = "addition"
COLUMNS = {
    "attention_places": (*LABELS, "head", "where", "share", "n"),
    "without_head": (*LABELS, "head", "n", "right", "carry", *INTERVAL),
    "carries": (*LABELS, "below", "written", "possible", "carry", "none", "n"),
    "read_positions": (*LABELS, "where", "what", "n", "right", *INTERVAL),
}
PLACE = 5  # any place that is not the first or the last
POINTS = {"0.resid_mid": "after attention", "0.resid_post": "after the feed-forward network"}


class MiddleContexts(NamedTuple):
    """Contexts in the middle of a sum: the tokens `^ a b x y d`, and what follows from them.

    `below` is a + b, of the place just written; `sum` is x + y, of the target's place; `written` is
    d. A context is `possible` if d is the digit of a + b, with or without a carry; `carry` is the
    carry into the target's place that d then shows.
    """

    tokens: Integer[Tensor, "N 6"]
    ids: Integer[Tensor, "N 6"]
    below: Integer[Tensor, " N"]
    sum: Integer[Tensor, " N"]
    written: Integer[Tensor, " N"]
    possible: Bool[Tensor, " N"]
    carry: Integer[Tensor, " N"]


def enumerate_middle() -> MiddleContexts:
    """Return all contexts of the middle, possible or not, each pair of digits in one order.

    >>> contexts = enumerate_middle()
    >>> len(contexts.tokens), int(contexts.possible.sum())
    (30250, 6050)
    """
    pairs = torch.combinations(torch.arange(10), with_replacement=True)
    rows = torch.cartesian_prod(torch.arange(55), torch.arange(55), torch.arange(10))
    digits = [pairs[rows[:, 0]], pairs[rows[:, 1]], rows[:, 2:]]
    tokens = torch.cat([torch.full((len(rows), 1), BOS), *digits], dim=1)
    ids = torch.tensor([0, PLACE, PLACE, PLACE + 1, PLACE + 1, PLACE]).expand(len(rows), -1)
    below, written = tokens[:, 1:3].sum(1), tokens[:, 5]
    added = (written - below) % 10  # the carry into a + b
    carry = (below + added >= 10).long()
    return MiddleContexts(tokens, ids, below, tokens[:, 3:5].sum(1), written, added <= 1, carry)


@torch.inference_mode()
def tables(system: System) -> dict[str, pd.DataFrame]:
    """Analyse a model of additions with one layer and window [0, 1].

    Returns:
        attention_places: the mean share of each `head`'s attention on tokens of a kind (`where`),
            over the `n` possible contexts.
        without_head: without each `head` in turn (mean ablation; -1: complete model), in how many
            of `n` contexts the model is `right`, and in how many it predicts the digit of the other
            `carry`; with accuracy and interval.
        carries: for each sum of the digits `below` and each `written` digit, of `n` contexts, in
            how many the model adds a `carry`, in how many `none`; and whether they are `possible`.
        read_positions: in how many of `n` contexts a linear map, fitted on the other half, is
            `right` about `what` (the digit "sum" modulo 10, the "carry", the "answer"), from the
            residual stream at `where`.

    Raises:
        SettingsError: for other windows, or several layers.
    """
    layers, encodings = system.network.settings.layers, system.network.encodings
    windows = [encoding.window for encoding in encodings]
    if layers > 1 or windows != [(0, 1)]:
        raise SettingsError(
            f"analyses.{system.run.name}: 'local_adder' does not fit {layers} layers with windows "
            f"{windows}; expected 1 layer with window [0, 1]"
        )
    system.network.to("cpu").eval()  # the 30,000 contexts are enumerated there
    contexts = enumerate_middle()
    possible = MiddleContexts(*(part[contexts.possible] for part in contexts))
    with use_precision("fp32", torch.device("cpu")):
        hooks = Hooks(["0.pattern", *POINTS])
        predicted = _predict(system, possible, hooks)
        heads = hooks["0.pattern"].shape[1]
        return {
            "attention_places": _share_attention(hooks["0.pattern"][:, :, -1]),
            "without_head": _ablate_heads(system, possible, predicted, heads),
            "carries": _count_carries(contexts, _predict(system, contexts)),
            "read_positions": pd.concat(
                [_fit_maps(possible, hooks[name][:, -1], POINTS[name]) for name in POINTS]
            ),
        }


def _predict(
    system: System, contexts: MiddleContexts, hooks: Hooks | None = None
) -> Integer[Tensor, " N"]:
    logits = system.network(contexts.tokens, [contexts.ids], hooks=hooks)
    return logits[:, -1].argmax(-1)


def _share_attention(weights: Float[Tensor, "N H 6"]) -> pd.DataFrame:
    kinds = {
        "the first token": [0],
        "digits of this place": [1, 2],
        "digits of the next place": [3, 4],
        "itself": [5],
    }
    return pd.DataFrame(
        {"head": head, "where": kind, "share": float(mean[tokens].sum()), "n": len(weights)}
        for head, mean in enumerate(weights.mean(0))
        for kind, tokens in kinds.items()
    )


def _ablate_heads(
    system: System, contexts: MiddleContexts, predicted: Integer[Tensor, " N"], heads: int
) -> pd.DataFrame:
    target = (contexts.sum + contexts.carry) % 10
    other = (contexts.sum + 1 - contexts.carry) % 10
    predictions = {NO_HEAD: predicted}
    for head in range(heads):
        ablation = Hooks([], {"0.z": mean_ablation(head)})
        predictions[head] = _predict(system, contexts, ablation)
    rows = []
    for head, digits in predictions.items():
        counts = {"right": int((digits == target).sum()), "carry": int((digits == other).sum())}
        rows.append({"head": head, "n": len(target), **counts})
    return add_interval(pd.DataFrame(rows), "right")


def _count_carries(contexts: MiddleContexts, predicted: Integer[Tensor, " N"]) -> pd.DataFrame:
    added = (predicted - contexts.sum) % 10
    is_sum = (predicted < 10) & (added <= 1)
    columns = {
        "below": contexts.below,
        "written": contexts.written,
        "possible": contexts.possible,
        "carry": is_sum & (added == 1),
        "none": is_sum & (added == 0),
        "n": 1,
    }
    keys = ["below", "written", "possible"]
    return pd.DataFrame(columns).groupby(keys, as_index=False).sum()


def _fit_maps(contexts: MiddleContexts, stream: Float[Tensor, "N D"], where: str) -> pd.DataFrame:
    """Fit linear maps from the residual stream on one half of the contexts; score the other."""
    x = torch.cat([stream.double(), torch.ones(len(stream), 1)], dim=1)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    fitted, scored = order.chunk(2)
    targets = {
        "sum": contexts.sum % 10,
        "carry": contexts.carry,
        "answer": (contexts.sum + contexts.carry) % 10,
    }
    rows = []
    for name, target in targets.items():
        one_hot = torch.nn.functional.one_hot(target).double()
        weight = torch.linalg.lstsq(x[fitted], one_hot[fitted], driver="gelsd").solution
        right = int(((x[scored] @ weight).argmax(1) == target[scored]).sum())
        rows.append({"where": where, "what": name, "n": len(scored), "right": right})
    return add_interval(pd.DataFrame(rows), "right")
