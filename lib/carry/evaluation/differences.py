"""Whether two rows differ: an interval of the difference of their accuracies, and a test.

The seeds of a row are few, and they differ by more than chance in the problems: so every seed of
one row is set against every seed of the other, and the test asks how the seeds might have been
dealt out otherwise.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from statsmodels.stats.proportion import confint_proportions_2indep

from carry.evaluation.intervals import LEVEL

MOST = 200_000  # ways to deal seeds out that are all looked at; of more, so many are drawn


class Difference(NamedTuple):
    """What two rows differ by: their means over seeds, the interval of that, and the test's p."""

    measured: float
    low: float
    high: float
    p: float
    n: int


def difference(one: pd.DataFrame, two: pd.DataFrame) -> Difference:
    """Compare the seeds of two rows, a line for each with `exact` of `n` problems.

    >>> one = pd.DataFrame({"n": 100, "exact": [90, 95, 91, 96, 93]})
    >>> two = pd.DataFrame({"n": 100, "exact": [50, 75, 60, 40, 70]})
    >>> found = difference(one, two)
    >>> [round(value, 3) for value in found]
    [0.34, 0.15, 0.56, 0.008, 1000]
    """
    ours, others = (of["exact"] / of["n"] for of in (one, two))
    low, high = interval(one, two)
    n = int(one["n"].sum() + two["n"].sum())
    measured = float(ours.mean() - others.mean())
    return Difference(measured, low, high, permutation(ours, others), n)


def interval(one: pd.DataFrame, two: pd.DataFrame) -> tuple[float, float]:
    """Return the ends of a difference, as the ledger of claims has them.

    They are those of every seed of one row against every seed of the other, widened to Newcombe's
    of all problems together.

    >>> seeds = pd.DataFrame({"n": [100, 100], "exact": [50, 60]})
    >>> [round(end, 2) for end in interval(seeds, seeds)]
    [-0.1, 0.1]
    """
    low, high = newcombe(one, two)
    ours, others = (of["exact"] / of["n"] for of in (one, two))
    ends = ours.min() - others.max(), ours.max() - others.min()
    return min(low, float(ends[0])), max(high, float(ends[1]))


def newcombe(one: pd.DataFrame, two: pd.DataFrame) -> tuple[float, float]:
    """Return the ends of Newcombe's interval (95%) of a difference, of all problems together.

    >>> [round(end, 3) for end in newcombe(*[pd.DataFrame({"n": [100], "exact": [50]})] * 2)]
    [-0.136, 0.136]
    """
    counts = [int(of[name].sum()) for of in (one, two) for name in ("exact", "n")]
    ends = confint_proportions_2indep(*counts, method="newcomb", compare="diff", alpha=1 - LEVEL)
    return float(ends[0]), float(ends[1])


def permutation(one: ArrayLike, two: ArrayLike) -> float:
    """Return how often seeds dealt out at random differ in their means as much as these, or more.

    The test is exact and two-sided: all ways to deal the seeds out to both rows are as likely if
    the rows are alike. Of five seeds against five p is no less than 2 / 252, of three against three
    no less than 2 / 20.

    >>> permutation([0.9, 0.8, 1.0], [0.1, 0.2, 0.3]), permutation([0.5, 0.7], [0.7, 0.5])
    (0.1, 1.0)
    """
    one, two = (np.asarray(of, dtype=float) for of in (one, two))
    both, size = np.concatenate([one, two]), len(one)
    if math.comb(len(both), size) <= MOST:
        chosen = np.array(list(itertools.combinations(range(len(both)), size)))
    else:
        random = np.random.default_rng(0)
        drawn = [random.permutation(len(both))[:size] for _ in range(MOST - 1)]
        chosen = np.array([range(size), *drawn])  # what was found is one of the ways
    sums = both[chosen].sum(1)
    found = np.abs(sums / size - (both.sum() - sums) / len(two))
    return float((found >= abs(one.mean() - two.mean()) - 1e-12).mean())
