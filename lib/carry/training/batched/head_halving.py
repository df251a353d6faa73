"""The choice of the heads to keep: how well their outputs separate strings (fraknoi2024, 5.5).

svc              the heads with the best separation accuracy of their own
shapley          the heads with the largest Shapley values of the separation accuracy
shapley_learned  the heads with the largest Shapley values of the learned accuracy
random           random heads
masked           one head, from the start
"""

from __future__ import annotations

import functools
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

Strategy = Literal["random", "masked", "svc", "shapley", "shapley_learned"]
MAX_PLAYERS_EXACT = 8  # with more players, Shapley values are estimated from a sample of orders
SAMPLED_ORDERS = 32  # an order and its reverse in turn


class HeadOutputs(NamedTuple):
    """The outputs of H heads of W features for S strings, and which strings have more ones."""

    outputs: Float[Tensor, "S H W"]
    ones_win: Bool[Tensor, " S"]


def compute_separation(heads: Sequence[int], fitted: HeadOutputs, scored: HeadOutputs) -> float:
    """Return the separation accuracy of some heads (fraknoi2024, Definition 5.2).

    Args:
        heads: the indices of the heads; without heads the better constant answer is scored.
        fitted: the strings that the separator is fitted to.
        scored: the strings that it is scored on.

    >>> x = torch.tensor([[-1.0], [-2.0], [1.0], [2.0]])
    >>> outputs = HeadOutputs(torch.stack([x, 0 * x], dim=1), torch.tensor([0, 0, 1, 1]) > 0)
    >>> [compute_separation(heads, outputs, outputs) for heads in ([0], [1], [])]
    [1.0, 0.5, 0.5]

    Raises:
        SettingsError: for strings with one majority only, which have no separator.
    """
    labels = fitted.ones_win.numpy()
    if labels.all() or not labels.any():
        raise SettingsError(
            f"separation: all {len(labels)} strings have the majority {int(labels.any())}; "
            "expected both majorities"
        )
    share = float(scored.ones_win.float().mean())
    if not heads:
        return max(share, 1 - share)
    separator = _fit_separator(fitted.outputs[:, list(heads)].flatten(1).numpy(), labels)
    features = scored.outputs[:, list(heads)].flatten(1).numpy()
    return float(separator.score(features, scored.ones_win.numpy()))


def _fit_separator(features: np.ndarray, labels: np.ndarray) -> Any:
    """Return the linear separator of the thesis: squared hinge loss, C = 1000."""
    from sklearn.exceptions import ConvergenceWarning  # here, because the import takes a second
    from sklearn.svm import LinearSVC

    with warnings.catch_warnings():  # the thesis too uses separators that have not converged
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LinearSVC(C=1000.0, loss="squared_hinge", dual=False).fit(features, labels)


def compute_shapley_values(
    worth: Callable[[tuple[int, ...]], float], players: Sequence[int], generator: torch.Generator
) -> list[float]:
    """Return each player's share in the worth of all players (fraknoi2024, Definition 5.3).

    A player's share is its gain in worth, averaged over all orders in which the players join; with
    more than `MAX_PLAYERS_EXACT` players, over random orders and their reverses.

    >>> from carry.randomness import stream
    >>> def worth(team): return float(0 in team) + 2.0 * ({1, 2} <= {*team})
    >>> compute_shapley_values(worth, [0, 1, 2], stream(0, "doctest"))
    [1.0, 1.0, 1.0]
    """
    worth = functools.cache(worth)
    if len(players) <= MAX_PLAYERS_EXACT:
        return [_exact_value(worth, player, players) for player in players]
    gains = np.zeros((SAMPLED_ORDERS, len(players)))
    for row in range(0, len(gains), 2):
        order = torch.randperm(len(players), generator=generator).tolist()
        for reverse, joining in enumerate((order, order[::-1])):
            before, team = worth(()), []
            for index in joining:
                team = sorted([*team, players[index]])
                after = worth(tuple(team))
                gains[row + reverse, index], before = after - before, after
    return gains.mean(0).tolist()


def _exact_value(
    worth: Callable[[tuple[int, ...]], float], player: int, players: Sequence[int]
) -> float:
    others, total = [other for other in players if other != player], 0.0
    for size in range(len(players)):
        weight = 1 / (len(players) * math.comb(len(players) - 1, size))
        for team in itertools.combinations(others, size):
            total += weight * (worth(tuple(sorted((*team, player)))) - worth(team))
    return total


def select_heads(
    strategy: Strategy,
    heads: Sequence[int],
    fitted: HeadOutputs,
    scored: HeadOutputs,
    generator: torch.Generator,
    learned: Callable[[tuple[int, ...]], float] | None = None,
) -> list[int]:
    """Return the better half of the heads, at least one.

    Args:
        learned: the learned accuracy of a set of heads, for `shapley_learned`.

    >>> from carry.randomness import stream
    >>> x = torch.tensor([[-1.0], [-2.0], [1.0], [2.0]])
    >>> outputs = HeadOutputs(torch.stack([0 * x, x], dim=1), torch.tensor([0, 0, 1, 1]) > 0)
    >>> select_heads("svc", [0, 1], outputs, outputs, stream(0, "doctest"))
    [1]
    """

    def worth(team: tuple[int, ...]) -> float:
        return compute_separation(team, fitted, scored)

    if strategy == "svc":
        scores = [worth((head,)) for head in heads]
    elif strategy in ("shapley", "shapley_learned"):
        learns = strategy == "shapley_learned"
        scores = compute_shapley_values(learned if learns else worth, heads, generator)
    else:
        scores = torch.rand(len(heads), generator=generator).tolist()
    best = sorted(range(len(heads)), key=lambda index: -scores[index])[: max(1, len(heads) // 2)]
    return sorted(heads[index] for index in best)
