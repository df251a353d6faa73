"""The tests of a work as one family: their p values are corrected together."""

from __future__ import annotations

from typing import Any

from carry.claims.claim_settings import Claim
from carry.claims.evidence import Evidence, round_p
from carry.claims.seed_plans import MIN_SEEDS, count_interim_tests, count_needed_seeds
from carry.evaluation.differences import ALPHA, correct_p_values


def judge_family(
    claims: list[Claim], records: list[dict[str, Any]], collected: list[Evidence]
) -> None:
    """Write the verdicts of the tests of a work into their records.

    A claim holds if its p is at most 5% after Holm's correction for all tests of the work, and
    fails if that of its contrary is. Before, the p of a claim is multiplied for its interim tests.
    A test that ideal results would not decide gives no verdict.
    """
    tested = [at for at, evidence in enumerate(collected) if evidence.test is not None]
    family = [at for at in tested if min(collected[at].sides) >= MIN_SEEDS]
    for at in set(tested) - set(family):
        seeds = " and ".join(map(str, collected[at].sides))
        reason = f"{seeds} seeds, expected {MIN_SEEDS} a side"
        records[at] |= {"verdict": "too few seeds", "reason": reason}
    tests = [[count_interim_tests(p, claims[at]) for p in collected[at].test] for at in family]
    corrected = [correct_p_values([test[side] for test in tests]) for side in range(3)]
    for at, test, holds, fails, smallest in zip(family, tests, *corrected, strict=True):
        record = records[at]
        record |= {"p_corrected": round_p(holds), "p_contrary_corrected": round_p(fails)}
        record["tests"] = len(family)
        if smallest > ALPHA:
            record["verdict"] = "n cannot decide"
            needed = count_needed_seeds(claims[at], len(family))
            record["reason"] = (
                f"the smallest p of {' and '.join(map(str, collected[at].sides))} seeds is "
                f"{test[-1]:.2g}, too large for {len(family)} tests; {needed} a "
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
