"""Compare two rows: an interval of the difference of their accuracies, and a permutation test.

A row has few seeds, and they differ by more than the sampling of problems. The interval therefore
compares every seed of one row with every seed of the other, and the test permutes the seeds.
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

MAX_ASSIGNMENTS = 200_000  # of seeds to rows; if more exist, this number is sampled


class Difference(NamedTuple):
    """The difference of two rows: of their means over seeds, its interval, and the test's p."""

    measured: float
    low: float
    high: float
    p: float
    n: int


def compare_rows(first: pd.DataFrame, second: pd.DataFrame) -> Difference:
    """Compare the seeds of two rows: tables with `exact` of `n` problems for each seed.

    >>> first = pd.DataFrame({"n": 100, "exact": [90, 95, 91, 96, 93]})
    >>> second = pd.DataFrame({"n": 100, "exact": [50, 75, 60, 40, 70]})
    >>> [round(value, 3) for value in compare_rows(first, second)]
    [0.34, 0.15, 0.56, 0.008, 1000]
    """
    accuracies = [seeds["exact"] / seeds["n"] for seeds in (first, second)]
    low, high = compute_interval(first, second)
    n = int(first["n"].sum() + second["n"].sum())
    measured = float(accuracies[0].mean() - accuracies[1].mean())
    return Difference(measured, low, high, compute_permutation_p(*accuracies), n)


def compute_interval(first: pd.DataFrame, second: pd.DataFrame) -> tuple[float, float]:
    """Return the ends of the difference of two rows.

    They are the smallest and the largest difference of a seed of one row and a seed of the other,
    and at least Newcombe's interval of all problems pooled.

    >>> seeds = pd.DataFrame({"n": [100, 100], "exact": [50, 60]})
    >>> [round(end, 2) for end in compute_interval(seeds, seeds)]
    [-0.1, 0.1]
    """
    low, high = compute_newcombe_interval(first, second)
    one, other = (seeds["exact"] / seeds["n"] for seeds in (first, second))
    return min(low, float(one.min() - other.max())), max(high, float(one.max() - other.min()))


def compute_newcombe_interval(first: pd.DataFrame, second: pd.DataFrame) -> tuple[float, float]:
    """Return the ends of Newcombe's 95% interval of a difference, of all problems pooled.

    >>> seeds = pd.DataFrame({"n": [100], "exact": [50]})
    >>> [round(end, 3) for end in compute_newcombe_interval(seeds, seeds)]
    [-0.136, 0.136]
    """
    counts = [int(seeds[name].sum()) for seeds in (first, second) for name in ("exact", "n")]
    ends = confint_proportions_2indep(*counts, method="newcomb", compare="diff", alpha=1 - LEVEL)
    return float(ends[0]), float(ends[1])


def compute_permutation_p(first: ArrayLike, second: ArrayLike) -> float:
    """Return the two-sided p of a permutation test on the difference of two means.

    It is the share of assignments of all seeds to both rows with a difference at least as large as
    the measured one. The test is exact: if the rows are equal, all assignments are equally likely.
    The smallest p of five seeds and five seeds is 2 / 252, of three and three 2 / 20.

    >>> compute_permutation_p([0.9, 0.8, 1.0], [0.1, 0.2, 0.3])
    0.1
    >>> compute_permutation_p([0.5, 0.7], [0.7, 0.5])
    1.0
    """
    first, second = (np.asarray(values, dtype=float) for values in (first, second))
    pooled, size = np.concatenate([first, second]), len(first)
    if math.comb(len(pooled), size) <= MAX_ASSIGNMENTS:
        assignments = np.array(list(itertools.combinations(range(len(pooled)), size)))
    else:
        random = np.random.default_rng(0)
        sampled = [random.permutation(len(pooled))[:size] for _ in range(MAX_ASSIGNMENTS - 1)]
        assignments = np.array([range(size), *sampled])  # the measured one is one of them
    sums = pooled[assignments].sum(1)
    differences = np.abs(sums / size - (pooled.sum() - sums) / len(second))
    measured = abs(first.mean() - second.mean())
    return float((differences >= measured - 1e-12).mean())
