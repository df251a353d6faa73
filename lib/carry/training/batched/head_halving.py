"""Which heads to keep: how well strings can be told apart by what they find (fraknoi2024, 5.5).

svc       by how often a linear separator of what one head finds is right
shapley   by each head's share in what all can tell together, over all orders of adding them
random    any
masked    one, from the start
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from carry.config.settings import SettingsError

Strategy = Literal["random", "masked", "svc", "shapley"]
EXACT = 8  # up to so many heads all orders are taken, of more only some
ORDERS = 32


class HeadOutputs(NamedTuple):
    """What heads find in some strings, and whether ones are the majority there."""

    outputs: Float[Tensor, "S H W"]
    ones: Bool[Tensor, " S"]


def separation(heads: Sequence[int], learned: HeadOutputs, tested: HeadOutputs) -> float:
    """Return the separation accuracy of some heads (fraknoi2024, Definition 5.2).

    Args:
        learned: the strings on which the separator is fitted.
        tested: those of which it has to tell the majority.

    >>> side = torch.tensor([[-1.0], [-2.0], [1.0], [2.0]])
    >>> found = HeadOutputs(torch.stack([side, 0 * side], dim=1), torch.tensor([0, 0, 1, 1]) > 0)
    >>> separation([0], found, found), separation([1], found, found), separation([], found, found)
    (1.0, 0.5, 0.5)

    Raises:
        SettingsError: for strings of one majority alone, which have no separator.
    """
    labels = learned.ones.numpy()
    if labels.all() or not labels.any():
        raise SettingsError(
            f"separation: all {len(labels)} strings have the majority {int(labels.any())}; "
            "expected some of each"
        )
    share = float(tested.ones.float().mean())
    if not heads:  # the better of two constant answers
        return max(share, 1 - share)
    fitted = separator(learned.outputs[:, list(heads)].flatten(1).numpy(), labels)
    return float(
        fitted.score(tested.outputs[:, list(heads)].flatten(1).numpy(), tested.ones.numpy())
    )


def separator(outputs: np.ndarray, labels: np.ndarray) -> Any:
    """Return the linear separator of the thesis: squared hinge loss, C = 1000."""
    from sklearn.exceptions import ConvergenceWarning  # here, because they take a second to import
    from sklearn.svm import LinearSVC

    with warnings.catch_warnings():  # what has not converged is scored as it is, as the thesis says
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LinearSVC(C=1000.0, loss="squared_hinge", dual=False).fit(outputs, labels)


class Shares(NamedTuple):
    """Shapley values, and the standard errors of those that come of some orders alone."""

    values: list[float]
    errors: list[float]


def shapley(
    worth: Callable[[tuple[int, ...]], float],
    players: Sequence[int],
    generator: torch.Generator,
    orders: int | None = None,
) -> Shares:
    """Return each player's share in what all are worth together (fraknoi2024, Definition 5.3).

    What a player adds is averaged over all sets of the others, weighted by how many orders bring
    them first; or over so many `orders`, drawn with their reverses, with a standard error.

    >>> from carry.randomness import stream
    >>> def worth(some): return float(0 in some) + 2.0 * ({1, 2} <= {*some})
    >>> shapley(worth, [0, 1, 2], stream(0, "doctest")).values
    [1.0, 1.0, 1.0]
    """
    known: dict[tuple[int, ...], float] = {}

    def of(some: tuple[int, ...]) -> float:
        if some not in known:
            known[some] = worth(some)
        return known[some]

    if orders is None and len(players) <= EXACT:
        values = [_exact(of, player, players) for player in players]
        return Shares(values, [0.0] * len(players))
    added = np.zeros((2 * math.ceil((orders or ORDERS) / 2), len(players)))
    for row in range(0, len(added), 2):
        order = torch.randperm(len(players), generator=generator).tolist()
        for turn, way in enumerate((order, order[::-1])):
            before, some = of(()), []
            for at in way:
                some = sorted([*some, players[at]])
                after = of(tuple(some))
                added[row + turn, at], before = after - before, after
    pairs = added.reshape(-1, 2, len(players)).mean(1)  # an order and its reverse are no two draws
    errors = pairs.std(0, ddof=1) / math.sqrt(len(pairs)) if len(pairs) > 1 else pairs[0] * np.nan
    return Shares(added.mean(0).tolist(), errors.tolist())


def _exact(of: Callable[[tuple[int, ...]], float], player: int, players: Sequence[int]) -> float:
    others, total = [other for other in players if other != player], 0.0
    for size in range(len(players)):
        weight = 1 / (len(players) * math.comb(len(players) - 1, size))
        for some in itertools.combinations(others, size):
            total += weight * (of(tuple(sorted((*some, player)))) - of(some))
    return total


def select_heads(
    strategy: Strategy,
    heads: Sequence[int],
    learned: HeadOutputs,
    tested: HeadOutputs,
    generator: torch.Generator,
) -> list[int]:
    """Return the half of the heads that is kept, one at least.

    >>> from carry.randomness import stream
    >>> side = torch.tensor([[-1.0], [-2.0], [1.0], [2.0]])
    >>> found = HeadOutputs(torch.stack([0 * side, side], dim=1), torch.tensor([0, 0, 1, 1]) > 0)
    >>> select_heads("svc", [0, 1], found, found, stream(0, "doctest"))
    [1]
    """

    def worth(some: tuple[int, ...]) -> float:
        return separation(some, learned, tested)

    if strategy == "svc":
        scores = [worth((head,)) for head in heads]
    elif strategy == "shapley":
        scores = shapley(worth, heads, generator).values
    else:
        scores = torch.rand(len(heads), generator=generator).tolist()
    best = sorted(range(len(heads)), key=lambda at: -scores[at])[: max(1, len(heads) // 2)]
    return sorted(heads[at] for at in best)
