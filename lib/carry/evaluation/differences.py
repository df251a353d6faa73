"""Compare two rows at the level of seeds: an interval of their difference, and tests.

A row has few seeds, and they differ by more than the sampling of problems. The seed is therefore
the unit: the interval is Welch's t interval over seeds, and the test permutes seeds. Tests are
one-sided and exact: if the seeds of both rows are drawn alike, p is at most 5% in at most 5% of all
comparisons, whatever the seeds are like. If means alone are equal, p is that small more often: up
to 7% for as many seeds a side, and 12% for 8 against 5, where spreads are unlike and symmetrical,
and far more often where one row is skew, as one of which a seed in ten fails. A small p says that
the seeds of one row tend to be better, which for such rows is not to say that their mean is.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats
from statsmodels.stats import proportion

from carry.evaluation.intervals import LEVEL, seed_interval

ALPHA = 1 - LEVEL  # of the tests
MAX_ASSIGNMENTS = 20_000  # of seeds to rows; if more exist, this number is sampled
NUISANCE = 200  # shares at which `_compute_shares_p` looks for the largest p


def compare_rows(
    first: pd.DataFrame, second: pd.DataFrame
) -> tuple[float, float, float, float, int]:
    """Compare the seeds of two rows: tables with `exact` of `n` problems for each seed.

    Returns:
        The difference of their means, the ends of its interval, the p of the test, and `n`.

    >>> first = pd.DataFrame({"n": 100, "exact": [90, 95, 91, 96, 93]})
    >>> second = pd.DataFrame({"n": 100, "exact": [50, 75, 60, 40, 70]})
    >>> [round(value, 3) for value in compare_rows(first, second)]
    [0.34, 0.164, 0.516, 0.008, 1000]
    """
    accuracies = [seeds["exact"] / seeds["n"] for seeds in (first, second)]
    low, high = compute_interval(first, second)
    n = int(first["n"].sum() + second["n"].sum())
    measured = float(accuracies[0].mean() - accuracies[1].mean())
    return measured, low, high, compute_permutation_p(*accuracies), n


def compute_interval(
    first: pd.DataFrame, second: pd.DataFrame, paired: bool = False
) -> tuple[float, float]:
    """Return the ends of the difference of two rows, counted by seed.

    They are those of the 95% t interval over seeds (Welch's; of the differences of `paired` seeds),
    and at least Newcombe's interval of all problems pooled.

    >>> seeds = pd.DataFrame({"n": [100, 100], "exact": [50, 60]})
    >>> [round(end, 2) for end in compute_interval(seeds, seeds)]
    [-0.3, 0.3]
    >>> [round(end, 2) for end in compute_interval(seeds, seeds, paired=True)]
    [-0.1, 0.1]
    """
    accuracies = [(seeds["exact"] / seeds["n"]).to_numpy() for seeds in (first, second)]
    ends = compute_welch_interval(*accuracies)
    if paired:
        ends = seed_interval(accuracies[0] - accuracies[1])
    low, high = compute_newcombe_interval(first, second)
    return max(-1.0, min(low, ends[0])), min(1.0, max(high, ends[1]))


def compute_welch_interval(first: ArrayLike, second: ArrayLike) -> tuple[float, float]:
    """Return the ends of Welch's 95% t interval of a difference of means; infinite for one seed.

    >>> [round(end, 2) for end in compute_welch_interval([0.9, 1.0], [0.1, 0.2])]
    [0.5, 1.1]
    """
    first, second = (np.asarray(values, dtype=float) for values in (first, second))
    if min(len(first), len(second)) < 2:
        return -np.inf, np.inf
    one, other = (values.var(ddof=1) / len(values) for values in (first, second))
    half, difference = 0.0, float(first.mean() - second.mean())
    if one + other > 0:
        freedom = one**2 / (len(first) - 1) + other**2 / (len(second) - 1)
        half = stats.t.ppf((1 + LEVEL) / 2, (one + other) ** 2 / freedom) * np.sqrt(one + other)
    return float(difference - half), float(difference + half)


def compute_newcombe_interval(first: pd.DataFrame, second: pd.DataFrame) -> tuple[float, float]:
    """Return the ends of Newcombe's 95% interval of a difference, of all problems pooled.

    >>> seeds = pd.DataFrame({"n": [100], "exact": [50]})
    >>> [round(end, 3) for end in compute_newcombe_interval(seeds, seeds)]
    [-0.136, 0.136]
    """
    counts = [int(seeds[name].sum()) for seeds in (first, second) for name in ("exact", "n")]
    ends = proportion.confint_proportions_2indep(
        *counts, method="newcomb", compare="diff", alpha=1 - LEVEL
    )
    return float(ends[0]), float(ends[1])


def compute_permutation_p(
    first: ArrayLike, second: ArrayLike, alternative: str = "two-sided", paired: bool = False
) -> float:
    """Return the p of a permutation test on the difference of two means over seeds.

    It is the share of assignments of all seeds to both rows with a difference at least as large as
    the measured one: in size, or as it is for the alternative "greater". `paired` seeds are
    exchanged within their pairs. The smallest p of five seeds and five is 1 / 252 one-sided, of
    five pairs 1 / 32; of a single seed it is 1, since that has no spread. Of more than
    `MAX_ASSIGNMENTS` assignments it samples some, always the same.

    >>> compute_permutation_p([0.9, 0.8, 1.0], [0.1, 0.2, 0.3])
    0.1
    >>> compute_permutation_p([0.9, 0.8, 1.0], [0.1, 0.2, 0.3], "greater")
    0.05
    >>> compute_permutation_p([0.9, 0.8, 1.0], [0.1, 0.2, 0.3], "greater", paired=True)
    0.125
    >>> compute_permutation_p([0.5, 0.7], [0.7, 0.5])
    1.0
    """
    first, second = (np.asarray(values, dtype=float) for values in (first, second))
    if min(len(first), len(second)) < 2:
        return 1.0
    count = 2 ** len(first) if paired else math.comb(len(first) + len(second), len(first))

    def measure(one: np.ndarray, other: np.ndarray, axis: int = -1) -> np.ndarray:
        difference = one.mean(axis) - other.mean(axis)
        # Equal differences are equal only without the errors of adding in another order.
        return np.round(np.abs(difference) if alternative == "two-sided" else difference, 12)

    result = stats.permutation_test(
        (first, second),
        measure,
        permutation_type="samples" if paired else "independent",
        alternative="greater",
        n_resamples=min(count, MAX_ASSIGNMENTS),
        vectorized=True,
        rng=np.random.default_rng(0),
    )
    return float(result.pvalue)


def compute_order_p(
    first: ArrayLike,
    second: ArrayLike,
    beyond: float = 0.0,
    paired: bool = False,
    shares: bool = False,
) -> float:
    """Return the one-sided p of: the mean of one row exceeds that of another by over `beyond`.

    Args:
        first: the number of each seed of one row; `second` of the other row.
        beyond: added to `second` before the seeds are permuted.
        shares: each seed is 1 or 0, one that reaches an accuracy or not. The permutation test is
            then Fisher's exact test; with `beyond` it is an exact unconditional test.

    >>> compute_order_p([0.9, 0.8, 1.0], [0.1, 0.2, 0.3], beyond=0.1)
    0.05
    >>> round(compute_order_p([1] * 9 + [0], [1] * 2 + [0] * 8, shares=True), 4)
    0.0027
    """
    first, second = (np.asarray(values, dtype=float) for values in (first, second))
    if not shares:
        return compute_permutation_p(first, second + beyond, "greater", paired)
    hits, other = int(first.sum()), int(second.sum())
    if beyond == 0:
        table = [[hits, len(first) - hits], [other, len(second) - other]]
        return float(stats.fisher_exact(table, alternative="greater").pvalue)
    return _compute_shares_p(hits, len(first), other, len(second), beyond)


def _compute_shares_p(hits: int, n: int, other_hits: int, other_n: int, beyond: float) -> float:
    """Return the one-sided p of: one share exceeds another by more than `beyond`.

    It is the probability of a result at least as extreme, at the shares that make it largest.
    Results are ordered by the difference over its standard error (Agresti and Caffo's).
    """
    one, other = np.arange(n + 1)[:, None], np.arange(other_n + 1)
    shares = (one + 1) / (n + 2), (other + 1) / (other_n + 2)
    variances = [
        share * (1 - share) / (m + 2) for share, m in zip(shares, (n, other_n), strict=True)
    ]
    order = (shares[0] - shares[1] - beyond) / np.sqrt(variances[0] + variances[1])
    extreme = (order >= order[hits, other_hits] - 1e-12).astype(float)
    true = np.linspace(max(0.0, -beyond), min(1.0, 1 - beyond), NUISANCE + 1)[:, None]
    chances = stats.binom.pmf(one.T, n, np.clip(true + beyond, 0, 1)) @ extreme
    return float((chances * stats.binom.pmf(other, other_n, true)).sum(1).max())


def compute_equivalence_p(
    first: ArrayLike,
    second: ArrayLike,
    margin: float,
    paired: bool = False,
    shares: bool = False,
) -> float:
    """Return the p of: the means differ by less than `margin`; the larger of two one-sided tests.

    >>> same = [0.90, 0.91, 0.92]
    >>> [compute_equivalence_p(same, same, margin) for margin in (0.1, 0.01)]
    [0.05, 0.25]
    """
    return max(
        compute_order_p(one, other, -margin, paired, shares)
        for one, other in ((first, second), (second, first))
    )
