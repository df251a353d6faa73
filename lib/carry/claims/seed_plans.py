"""How many seeds would decide a claim that these seeds leave open."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from scipy import stats

from carry.claims.claim_settings import Claim
from carry.claims.measurements import find_smallest_p
from carry.evaluation.differences import ALPHA
from carry.evaluation.intervals import LEVEL

MIN_SEEDS = 5  # of each side of a test
MOST_SEEDS = 200  # that are considered
POWER = 0.8
NEGLIGIBLE = 0.01  # a difference of accuracies, one point


def count_needed_seeds(claim: Claim, tests: int) -> int:
    """Return the smallest number of seeds a side that can decide a claim among some tests.

    The results are planned as if they were ideal, and those of all other tests of the work too: a
    larger p of any of them only raises the corrected p of all.

    >>> from carry.claims.claim_settings import CellFilter, Comparison, Measure
    >>> claim = Claim(id="", paper="carry", section="", statement="", paper_value="",
    ...               measure=Measure(rows=["x"], where=CellFilter(digits=1)),
    ...               compare=Comparison(row="y"), holds_if="> 0")
    >>> [count_needed_seeds(claim, tests) for tests in (1, 12, 13, 46, 47)]
    [5, 5, 6, 6, 7]
    """
    for seeds in range(MIN_SEEDS, MOST_SEEDS):
        p = min(1.0, find_smallest_p(claim, (seeds, seeds)) * (1 + claim.interim_tests))
        if tests * p <= ALPHA:
            return seeds
    return MOST_SEEDS


def explain_undecided(claim: Claim, record: Mapping[str, Any]) -> str | None:
    """Return what would decide a claim: a number of seeds, or none if the difference is too small.

    The number of seeds a side would decide it with a power of 80% if the measured value and the
    spread of seeds were true (a normal approximation). None if the number of seeds is not what
    limits the claim.

    >>> from carry.claims.claim_settings import CellFilter, Comparison, Measure
    >>> claim = Claim(id="", paper="carry", section="", statement="", paper_value="",
    ...               measure=Measure(rows=["x"], where=CellFilter(digits=1)),
    ...               compare=Comparison(row="y"), holds_if="> 0")
    >>> record = {"measured": 0.1, "interval": [-0.1, 0.3], "sides": [5, 5], "tests": 10}
    >>> explain_undecided(claim, record)
    'about 44 seeds a side would decide it'
    >>> explain_undecided(claim, {**record, "measured": 0.0, "interval": [-0.002, 0.003]})
    'the difference is below one point'
    """
    statistic, (low, high) = claim.statistic(), record["interval"]
    difference = bool(claim.compare or claim.thesis_runs)
    if difference and max(abs(low), abs(high)) < NEGLIGIBLE:
        return "the difference is below one point"
    if not difference and statistic not in ("mean_over_seeds", "seeds_above"):
        return None
    value, seeds = record["measured"], record["sides"]
    half = max(value - low, high - value)  # ends are clipped to 0 and 1
    error = half / stats.t.ppf((1 + LEVEL) / 2, sum(seeds) - len(seeds))
    distance = claim.margin - abs(value) if claim.margin else abs(value - claim.condition()[1])
    tests = max(1, record["tests"]) * (1 + claim.interim_tests)
    level = ALPHA / tests if difference else ALPHA / 2  # of a level: both ends of its interval
    reach = (stats.norm.isf(level) + stats.norm.isf(1 - POWER)) * error
    needed = min(seeds) * (reach / distance) ** 2 if distance > 0 else math.inf
    unit = "pairs" if claim.thesis_runs else "seeds a side" if claim.compare else "seeds"
    if needed > MOST_SEEDS:
        return f"more than {MOST_SEEDS} {unit} would be needed"
    return f"about {math.ceil(needed)} {unit} would decide it"
