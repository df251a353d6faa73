"""The tests of a work as one family: corrected p values, and how many seeds a test needs."""

from __future__ import annotations

from typing import Any

import pandas as pd

from carry.claims.claim_settings import Claim
from carry.claims.evidence import Evidence, round_p
from carry.config import profiles, run_settings
from carry.evaluation.differences import ALPHA, compute_smallest_p, correct_p_values

MIN_SEEDS = 5  # of each side of a test
MOST_SEEDS = 200  # for which `count_needed_seeds` looks
PLAN_COLUMNS = ["claim", "paper", "seeds", "tests", "smallest_p", "smallest_corrected", "needed"]


def judge_family(claims: list[Claim], records: list[dict[str, Any]], found: list[Evidence]) -> None:
    """Write the verdicts of the tests of a work into their records.

    A claim holds if its p is at most 5% after Holm's correction for all tests of the work, and
    fails if that of its contrary is. A test that ideal results would not decide gives no verdict.
    """
    tested = [at for at, evidence in enumerate(found) if evidence.test is not None]
    family = [at for at in tested if min(found[at].sides) >= MIN_SEEDS]
    for at in set(tested) - set(family):
        seeds = " and ".join(map(str, found[at].sides))
        reason = f"{seeds} seeds, expected {MIN_SEEDS} a side"
        records[at] |= {"verdict": "too few seeds", "reason": reason}
    tests = [found[at].test for at in family]
    corrected = [correct_p_values([test[side] for test in tests]) for side in range(3)]
    for at, holds, fails, smallest in zip(family, *corrected, strict=True):
        record = records[at]
        record |= {"p_corrected": round_p(holds), "p_contrary_corrected": round_p(fails)}
        record["tests"] = len(family)
        if smallest > ALPHA:
            record["verdict"] = "n cannot decide"
            needed = count_needed_seeds(claims[at], len(family))
            record["reason"] = (
                f"the smallest p of {' and '.join(map(str, found[at].sides))} seeds is "
                f"{found[at].test.smallest:.2g}, too large for {len(family)} tests; {needed} a "
                "side would do"
            )
        elif min(holds, fails) <= ALPHA:
            record["verdict"] = "holds" if holds <= ALPHA else "fails"


def correct_rates(records: list[dict[str, Any]]) -> None:
    """Correct the p values of the rates of a work; a rate of several claims is one test."""
    rates = [rate for record in records for rate in record["rates"]]
    values = {(rate["row"], rate["above"]): rate["p"] for rate in rates}
    corrected = dict(zip(values, correct_p_values(list(values.values())), strict=True))
    for rate in rates:
        rate["p_corrected"] = round_p(corrected[rate["row"], rate["above"]])


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
        if tests * _find_smallest_p(claim, (seeds, seeds)) <= ALPHA:
            return seeds
    return MOST_SEEDS


def _find_smallest_p(claim: Claim, sizes: tuple[int, int]) -> float:
    beyond = abs(claim.condition()[1]) if claim.holds_if else 0.0
    shares = claim.statistic() == "seeds_above"
    return compute_smallest_p(sizes, beyond, claim.margin, claim.is_paired(), shares)


def plan_seeds(claims: list[Claim], profile: str) -> pd.DataFrame:
    """Return for each test of a profile's rows its seeds by the settings, and those it needs.

    Rows that neither the profile nor the one that a claim names trains are left out. Columns:
    `seeds` of the smaller side; `tests` of the work; `smallest_p` of ideal results, alone and
    corrected for all tests; `needed` seeds a side, if every test of the work has as many.

    Raises:
        SettingsError: for an unknown profile.
    """
    planned = []
    for claim in claims:
        if not claim.compare:
            continue
        sources = profiles.find_sources(claim.profile or profile)
        rows = claim.measure.rows if claim.measure else [claim.analysis.row]
        other = claim.compare.row or rows[0]
        runs = {
            row: run_settings.load_run(row, sources[row])
            for row in (*rows, other)
            if row in sources
        }
        alike = [
            row
            for row in rows
            if {row, other} <= {*runs} and runs[row].training.digits == runs[other].training.digits
        ]
        if alike:
            sizes = (runs[alike[0]].seeds, runs[other].seeds)
            planned.append((claim, min(sizes), _find_smallest_p(claim, sizes)))
    tables = []
    for paper in dict.fromkeys(claim.paper for claim, *_ in planned):
        family = [part for part in planned if part[0].paper == paper]
        corrected = correct_p_values([p for *_, p in family])
        tables += [
            (claim.id, paper, seeds, len(family), p, least, count_needed_seeds(claim, len(family)))
            for (claim, seeds, p), least in zip(family, corrected, strict=True)
        ]
    return pd.DataFrame(tables, columns=PLAN_COLUMNS)


def check_seeds(claims: list[Claim], profile: str) -> dict[str, str]:
    """Return the claims that no result of a profile's seeds can decide, with the reason.

    Their verdict is never "holds" or "fails".

    Raises:
        SettingsError: for an unknown profile.
    """
    plan = plan_seeds(claims, profile)
    few = plan[(plan["seeds"] < MIN_SEEDS) | (plan["smallest_p"] > ALPHA)]
    return {
        row.claim: f"{row.seeds} seeds a side, expected {row.needed} for {row.tests} tests"
        for row in few.itertuples()
    }
