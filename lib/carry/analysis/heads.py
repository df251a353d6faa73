"""What single heads know of a majority, and what they know together (fraknoi2024, 5.4).

learned accuracy      what the model says with only these heads, the others zeroed
separation accuracy   what a linear separator could say from what these heads find
w01, w02              how much more a zero is looked at than a one, and than a two
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Integer
from torch import Tensor

from carry.models.together import Together, counted
from carry.tasks.noisy_majority import ONES, ZEROS
from carry.training.halving import Found, separation

Counts = Integer[Tensor, "S 3"]


def found(network: Together, index: int, counts: Counts) -> Found:
    """Return what one model's heads find behind `=`, and what the majority is."""
    strings = counted(counts)
    with torch.no_grad():
        return Found(network.head_outputs(strings)[index], strings.ones[0])


@torch.no_grad()
def learned_accuracy(
    network: Together, heads: Sequence[int], counts: Counts
) -> Float[Tensor, " M"]:
    """Return the share of right answers of each model with these heads alone (Definition 5.1).

    >>> from carry.models.constructions.minimal_majority import minimal_majority
    >>> alone = Together([minimal_majority(dtype=torch.float32)])
    >>> counts = torch.tensor([[3, 1, 0], [1, 3, 0]])
    >>> learned_accuracy(alone, [0], counts).tolist(), learned_accuracy(alone, [], counts).tolist()
    ([1.0], [0.5])
    """
    strings = counted(counts)
    kept = torch.zeros_like(network.heads)
    kept[:, list(heads)] = 1.0
    said = network.by_counts(strings, heads=kept * network.heads).argmax(-1)
    return (said == torch.where(strings.ones, ONES, ZEROS)).float().mean(1)


def ratios(network: Together) -> pd.DataFrame:
    """Return w01 and w02 of each model's heads, with the values of the tokens 0, 1 and 2.

    Columns: `model`, `head`, `w01`, `w02`, and `value_0_0` to `value_2_1` (the token, and the
    feature; of the first two).

    >>> from carry.models.constructions.minimal_majority import minimal_majority
    >>> ratios(Together([minimal_majority(8.0)])).round(3)[["w01", "value_1_0"]].values.tolist()
    [[0.368, 9.0]]
    """
    with torch.no_grad():
        scores, values = network.scores()
    behind = scores[:, :, 0, 1:4]
    rows = []
    for model, head in itertools.product(range(len(network)), range(behind.shape[1])):
        zero, one, two = behind[model, head].double().tolist()
        row = {"model": model, "head": head, "w01": np.exp(zero - one), "w02": np.exp(zero - two)}
        for token, feature in itertools.product(range(3), range(min(2, values.shape[-1]))):
            row[f"value_{token}_{feature}"] = float(values[model, head, 1 + token, feature])
        rows.append(row)
    return pd.DataFrame(rows)


def subsets(
    network: Together, index: int, learned: Counts, tested: Counts, sizes: Iterable[int] = (1, 2)
) -> pd.DataFrame:
    """Return both accuracies of all sets of heads of some sizes of one model.

    Columns: `size`, `heads` (their numbers, a space between them), `learned`, `separation`.

    Args:
        learned: the strings on which separators are fitted.
        tested: those on which both accuracies are taken.
    """
    there = network.heads[index].nonzero()[:, 0].tolist()
    known, asked = found(network, index, learned), found(network, index, tested)
    rows = []
    for size in sizes:
        for some in itertools.combinations(there, size):
            rows.append({
                "size": size,
                "heads": " ".join(map(str, some)),
                "learned": float(learned_accuracy(network, some, tested)[index]),
                "separation": separation(some, known, asked),
            })  # fmt: skip
    return pd.DataFrame(rows)


def by_hand(
    values: Float[Tensor, "3 W"], w01: float, w02: float, counts: Counts
) -> Float[Tensor, "S 1 W"]:
    """Return what a head of these values finds if it looked as told (fraknoi2024, Fig. 8).

    A zero counts 1, a one 1 / w01 and a two 1 / w02; all else counts nothing. Of an empty string
    nothing is found.

    >>> values = torch.tensor([[1.0], [-1.0], [5.0]])
    >>> by_hand(values, 1.0, float("inf"), torch.tensor([[3, 1, 9], [0, 0, 2]])).flatten().tolist()
    [0.5, 0.0]
    """
    weights = counts.double() / torch.tensor([1.0, w01, w02], dtype=torch.float64)
    total = weights.sum(1, keepdim=True)
    shares = torch.where(total > 0, weights / total.clamp(min=1e-300), 0.0)
    return (shares @ values.double())[:, None]


def separations_by_hand(
    network: Together,
    learned: Counts,
    tested: Counts,
    grid: Sequence[float],
) -> pd.DataFrame:
    """Return separation accuracies of heads whose attention is set, as in both halves of Fig. 8.

    Columns: `model`, `head`, `w01`, `w02`, `separation`: w02 without end and w01 from the grid,
    then w01 of 1 and w02 from the grid.
    """
    rows: list[dict[str, Any]] = []
    endless = float("inf")
    pairs = [(w01, endless) for w01 in grid] + [(1.0, w02) for w02 in grid]
    with torch.no_grad():
        values = network.scores()[1][:, :, 1:4]
    ones = [counts[:, 1] > counts[:, 0] for counts in (learned, tested)]
    for model, head in itertools.product(range(len(network)), range(values.shape[1])):
        for w01, w02 in pairs:
            both = [
                Found(by_hand(values[model, head], w01, w02, counts), of)
                for counts, of in zip((learned, tested), ones, strict=True)
            ]
            share = separation([0], *both)
            rows.append({"model": model, "head": head, "w01": w01, "w02": w02, "separation": share})
    return pd.DataFrame(rows)
