"""Intervals of shares of problems (Wilson) and of means over seeds (t), and pooled cells.

Seeds differ by more than the sampling of problems: a number about a method has the seed as its
unit, and `seed_interval`; a number about given models has Wilson's interval and its problems.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

LEVEL = 0.95


def wilson_interval(hits: ArrayLike, n: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return both ends of the 95% Wilson interval of each share; [0, 1] where n is 0.

    >>> low, high = wilson_interval([0, 50, 100, 0], [100, 100, 100, 0])
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.0, 0.404, 0.963, 0.0], [0.037, 0.596, 1.0, 1.0])
    """
    hits, n = np.asarray(hits), np.asarray(n)
    low, high = proportion_confint(hits, np.maximum(n, 1), alpha=1 - LEVEL, method="wilson")
    # Rounding errors would give ends slightly above 0, or slightly below 1.
    low, high = np.where(hits == 0, 0.0, low), np.where(hits == n, 1.0, high)
    return low, high


def seed_interval(values: ArrayLike) -> tuple[float, float]:
    """Return both ends of the 95% t interval of a mean over seeds; infinite for one seed.

    It holds the mean of 95% of rows whose seeds are normal, and of some 88% whose seeds are skew
    near 1. It cannot know of rare failures: if one seed in ten fails, 59% of all fives have none.

    >>> [round(end, 3) for end in seed_interval([0.9, 0.95, 1.0])]
    [0.826, 1.074]
    >>> seed_interval([0.9])
    (-inf, inf)
    """
    values = np.asarray(values, dtype=float)
    mean, n = float(values.mean()), len(values)
    if n < 2:
        return -np.inf, np.inf
    half = stats.t.ppf((1 + LEVEL) / 2, n - 1) * values.std(ddof=1) / np.sqrt(n)
    return float(mean - half), float(mean + half)


def share_interval(values: ArrayLike) -> tuple[float, float]:
    """Return `seed_interval` of shares, within [0, 1].

    >>> [round(end, 3) for end in share_interval([0.9, 0.95, 1.0])]
    [0.826, 1.0]
    """
    low, high = seed_interval(values)
    return max(0.0, low), min(1.0, high)


def add_interval(table: pd.DataFrame, hits: str = "exact") -> pd.DataFrame:
    """Return the table with `accuracy`, `low` and `high`, from its columns `n` and `hits`.

    >>> add_interval(pd.DataFrame({"n": [4], "exact": [1]})).round(2).loc[0].tolist()
    [4.0, 1.0, 0.25, 0.05, 0.7]
    """
    accuracy = table[hits] / table["n"].where(table["n"] > 0)
    low, high = wilson_interval(table[hits], table["n"])
    return table.assign(accuracy=accuracy, low=low, high=high)


def pool_cells(table: pd.DataFrame, by: Sequence[str], hits: str = "exact") -> pd.DataFrame:
    """Sum `n` and `hits` over the rows with equal `by`, and compute the shares again.

    The interval of pooled seeds holds for these models, not for other seeds; show the seeds too.

    >>> cells = pd.DataFrame({"i": [1, 1, 2], "n": [10, 30, 10], "exact": [10, 20, 0]})
    >>> pool_cells(cells, ["i"])[["i", "n", "exact", "accuracy"]].values.tolist()
    [[1.0, 40.0, 30.0, 0.75], [2.0, 10.0, 0.0, 0.0]]
    """
    summed = table.groupby(list(by), as_index=False, sort=False)[["n", hits]].sum()
    return add_interval(summed, hits)


def format_percent(share: float) -> str:
    """Return a share in percent; only one without any error is written as 100.

    >>> [format_percent(share) for share in (0.0, 0.0001, 0.985, 0.99999, 1.0)]
    ['0', '<0.1', '98.5', '>99.9', '100']
    """
    if share in (0.0, 1.0):
        return f"{100 * share:.0f}"
    return ">99.9" if share >= 0.9995 else "<0.1" if share < 0.0005 else f"{100 * share:.1f}"
