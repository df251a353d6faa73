"""Seeds that claims need: which claims the seeds of the results could never decide.

A test is planned as if its results were ideal, and those of all other tests of its work too: a
larger p of any of them only raises the corrected p of all.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any

import pandas as pd
from scipy import stats

from carry.claims.claim_settings import Claim
from carry.claims.measurements import select_pairs
from carry.evaluation.differences import ALPHA, compute_smallest_p, correct_p_values
from carry.evaluation.intervals import LEVEL, wilson_interval

MIN_SEEDS = 5  # of each side of a test
MIN_SEEDS_OF_LEVEL = 3  # of a claim about a method without a test: as many as mcleish2024 has
MOST_SEEDS = 200  # that are considered
POWER = 0.8
NEGLIGIBLE = 0.01  # a difference of accuracies, one point
OF_METHODS = ("mean_over_seeds", "worst_seed", "best_seed", "worst_cell", "lowest")
SIGNS = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}
PLAN_COLUMNS = [
    "claim", "paper", "seeds", "tests", "smallest_p", "smallest_corrected", "needed",
]  # fmt: skip


def find_smallest_p(claim: Claim, sizes: tuple[int, int]) -> float:
    """Return the smallest p that the test of a claim can have with these numbers of seeds."""
    beyond = abs(claim.condition()[1]) if claim.holds_if else 0.0
    shares = claim.statistic() == "seeds_above"
    p = compute_smallest_p(sizes, beyond, claim.margin, claim.is_paired(), shares)
    return count_interim_tests(p, claim)


def count_interim_tests(p: float, claim: Claim) -> float:
    """Return the p of a claim's test, corrected for its interim tests by Bonferroni."""
    return min(1.0, p * (1 + claim.interim_tests))


def count_needed_seeds(claim: Claim, tests: int) -> int:
    """Return the smallest number of seeds a side that can decide a claim among some tests.

    >>> from carry.claims.claim_settings import CellFilter, Comparison, Measure
    >>> claim = Claim(id="", paper="carry", section="", statement="", paper_value="",
    ...               measure=Measure(rows=["x"], where=CellFilter(digits=1)),
    ...               compare=Comparison(row="y"), holds_if="> 0")
    >>> [count_needed_seeds(claim, tests) for tests in (1, 12, 13, 46, 47)]
    [5, 5, 6, 6, 7]
    """
    for seeds in range(MIN_SEEDS, MOST_SEEDS):
        if tests * find_smallest_p(claim, (seeds, seeds)) <= ALPHA:
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


def plan_seeds(claims: list[Claim], cells: pd.DataFrame) -> pd.DataFrame:
    """Return for each test of rows with results its seeds, and those it needs.

    Columns: `seeds` of the smaller side; `tests` of the work; `smallest_p` of ideal results, alone
    and corrected for all tests; `needed` seeds a side, if every test of the work has as many.

    Args:
        claims: those that are no tests are left out.
        cells: accuracy by lengths, with the columns `row`, `seed` and `trained`.
    """
    planned, counts = [], _count_seeds(cells)
    for claim in claims:
        sizes = _find_sizes(claim, counts)
        if sizes:
            planned.append((claim, min(sizes), find_smallest_p(claim, sizes)))
    tables = []
    for paper in dict.fromkeys(claim.paper for claim, *_ in planned):
        family = [part for part in planned if part[0].paper == paper]
        corrected = correct_p_values([p for *_, p in family])
        for (claim, seeds, p), least in zip(family, corrected, strict=True):
            needed = count_needed_seeds(claim, len(family))
            tables.append((claim.id, paper, seeds, len(family), p, least, needed))
    return pd.DataFrame(tables, columns=PLAN_COLUMNS)


def check_seeds(claims: list[Claim], cells: pd.DataFrame) -> dict[str, str]:
    """Return the claims that no result of so many seeds can decide, with the reason.

    A test needs 5 seeds a side and a p that can be small enough for all tests of its work, a claim
    about a method 3 seeds, and a share of seeds enough for its interval to fulfil the condition.

    Args:
        claims: all claims.
        cells: accuracy by lengths, with the columns `row`, `seed` and `trained`.
    """
    plan, counts = plan_seeds(claims, cells), _count_seeds(cells)
    few = plan[(plan["seeds"] < MIN_SEEDS) | (plan["smallest_corrected"] > ALPHA)]
    reasons = {
        row.claim: f"{row.seeds} seeds a side, expected {row.needed} for {row.tests} tests"
        for row in few.itertuples()
    }
    for claim in claims:
        if claim.measured_rows() and not claim.compare:
            seeds = counts["seeds"].reindex(claim.measured_rows()).dropna().astype(int)
            lacks = [lack for count in seeds if (lack := _find_lack(claim, count))]
            reasons |= {claim.id: lacks[0]} if lacks else {}
    return reasons


def _count_seeds(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the number of seeds of each row, and the longest length that it was trained to."""
    return cells.groupby("row").agg(seeds=("seed", "nunique"), trained=("trained", "first"))


def _find_sizes(claim: Claim, counts: pd.DataFrame) -> tuple[int, ...]:
    """Return the seeds of both sides of a claim's test, or the pairs of the thesis' runs.

    Of several rows, the first counts that was trained to the same length as the other side. Nothing
    is returned of a claim without a test, and of rows without results.
    """
    if claim.thesis_runs:
        return (len(select_pairs(claim)),) * 2
    other = (claim.compare.row or claim.measured_rows()[0]) if claim.compare else None
    for row in claim.measured_rows():
        if {row, other} <= {*counts.index}:
            seeds, trained = counts.loc[[row, other]].to_numpy().T
            if trained[0] == trained[1]:
                return int(seeds[0]), int(seeds[1])
    return ()


def _find_lack(claim: Claim, seeds: int) -> str | None:
    """Return why a row's number of seeds cannot decide a claim without a test; None if it can.

    >>> from carry.claims.claim_settings import CellFilter, Measure
    >>> share = Measure(rows=["x"], where=CellFilter(digits=1), statistic="seeds_above", above=0.9)
    >>> claim = Claim(id="", paper="carry", section="", statement="", paper_value="",
    ...               measure=share, holds_if=">= 0.9")
    >>> _find_lack(claim, 16), _find_lack(claim, 40)
    ('all right, the interval of 16 seeds would be 80.6% to 100.0%', None)
    """
    if claim.statistic() in OF_METHODS and seeds < MIN_SEEDS_OF_LEVEL:
        return f"{seeds} seeds, expected {MIN_SEEDS_OF_LEVEL}"
    if claim.statistic() != "seeds_above":
        return None
    sign, threshold = claim.condition()
    hits = seeds if sign.startswith(">") else 0
    low, high = (float(end[0]) for end in wilson_interval([hits], [seeds]))
    if SIGNS[sign](low, threshold) and SIGNS[sign](high, threshold):
        return None
    ideal = "right" if hits else "wrong"
    return f"all {ideal}, the interval of {seeds} seeds would be {low:.1%} to {high:.1%}"
