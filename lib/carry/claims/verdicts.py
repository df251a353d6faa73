"""The verdict on a claim: by a test over seeds, by an interval, or none, with the reason.

Claims that compare two rows are tested; all tests of a work are one family, corrected by Holm. For
others the whole interval fulfils the condition, or none of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd
from scipy import stats

from carry.claims.claim_settings import STARTS, Claim
from carry.claims.evidence import Tables, find_evidence, prepare_tables, round_p
from carry.evaluation.differences import ALPHA, correct_p_values
from carry.evaluation.intervals import LEVEL
from carry.results import ResultTables

MIN_SEEDS = 5  # of each side of a test
MOST_SEEDS = 200  # that are considered
POWER = 0.8
NEGLIGIBLE = 0.01  # a difference of accuracies, one point

# Those without a decision say why.
UNDECIDED = ("undecided", "too few seeds")
VERDICTS = ("holds", "fails", *UNDECIDED, "not learned here", "not tested")
METRICS = {
    "holds": ("holds",),
    "fails": ("fails",),
    "undecided": UNDECIDED,
    "not_tested": ("not learned here", "not tested"),
}  # few, so that `dvc metrics` has few columns

# The fields of a claim that its record has.
STATED = {"id", "paper", "section", "items", "statement", "paper_value", "scale"}

METHOD = (
    "The unit is the seed. Only seeds that have learned their trained lengths count (99%); where "
    "most have not, the claim is not learned here. An order of two rows holds, or fails, by a "
    "one-sided exact permutation test over at least 5 seeds a side; no difference by two one-sided "
    "tests against the margin. The p values of all tests of a work are corrected together (Holm): "
    "at most 5% of works have a claim that holds wrongly, and 5% one that fails wrongly. Before, p "
    "is doubled where rows got more seeds after a first test that did not decide; intervals are "
    "not corrected for that. Other claims hold, or fail, only if all their interval does: t over "
    "seeds, or Wilson's where the claim is about one model. A claim on an order can hold although "
    "its interval has 0: the interval supposes normally distributed seeds, the test does not. A "
    "claim that fails is refuted for our models, whose departures are listed, not for those of the "
    "paper. An undecided claim says about how many seeds would decide it, with a power of 80%."
)


def judge_claims(
    claims: list[Claim], tables: ResultTables, certificates: pd.DataFrame
) -> list[dict[str, Any]]:
    """Return a record for each claim, from result tables.

    A record names the scale of its rows, and the verdict from each start of ids in the tables.

    Args:
        tables: `cells` by lengths; `places`, for claims that count the last digit; `curves`, which
            show the models that have too many heads left; and those of analyses.
        certificates: one row for each certified seed.
    """
    prepared = prepare_tables(tables)
    known: dict[str, dict[str, Any]] = {}  # most claims are the same from every start

    def judge(part: list[Claim]) -> list[dict[str, Any]]:
        records = []
        for claim in part:
            text = claim.model_dump_json()
            if text not in known:
                known[text] = find_evidence(claim, prepared, certificates)
            records.append({**create_record(claim), **known[text]})
        for paper in dict.fromkeys(claim.paper for claim in part):
            work = [at for at, claim in enumerate(part) if claim.paper == paper]
            _judge_family([part[at] for at in work], [records[at] for at in work])
        return records

    records = judge(claims)
    starts = [start for start in STARTS if start in prepared.cells["start"].unique()]
    for start in starts if len(starts) > 1 else ():
        moved = [_start_from(claim, start) for claim in claims]
        for claim, new, record, other in zip(claims, moved, records, judge(moved), strict=True):
            is_moved = new is not claim and _has_start(claim, prepared, start)
            if is_moved and other["verdict"] != "not tested":
                record["starts"][start] = other["verdict"]
    return records


def _start_from(claim: Claim, start: str) -> Claim:
    """Return a claim that starts elsewhere; one that compares starts, or has none, stays."""
    compares_starts = claim.compare and "start" in claim.compare.where
    if compares_starts or not claim.measured_rows():
        return claim
    if claim.analysis:
        where = {**claim.analysis.where, "start": start}
        part = {"analysis": claim.analysis.model_copy(update={"where": where})}
    else:
        cells = claim.measure.where.model_copy(update={"start": start})
        part = {"measure": claim.measure.model_copy(update={"where": cells})}
    return claim.model_copy(update=part)


def _has_start(claim: Claim, tables: Tables, start: str) -> bool:
    """Return whether one of a claim's rows was evaluated, or analysed, from a start."""
    rows, analysis = claim.list_rows(), claim.analysis
    table = tables.analyses[analysis.table] if analysis else tables.select_rows(rows)
    return "start" in table and bool((table["row"].isin(rows) & (table["start"] == start)).any())


def _judge_family(claims: list[Claim], records: list[dict[str, Any]]) -> None:
    """Write the verdicts of the tests of a work into their records.

    A claim holds if its p is at most 5% after Holm's correction for all tests of the work, and
    fails if that of its contrary is. Before, the p of a claim is multiplied for its interim tests.
    """
    family = []
    for claim, record in zip(claims, records, strict=True):
        test = record.pop("test")
        if test and min(record["sides"]) < MIN_SEEDS:
            sides = " and ".join(map(str, record["sides"]))
            reason = f"{sides} seeds, expected {MIN_SEEDS} a side"
            record |= {"verdict": "too few seeds", "reason": reason}
        elif test:
            family.append((record, [min(1.0, p * (1 + claim.interim_tests)) for p in test]))
    corrected = [correct_p_values([test[side] for _, test in family]) for side in range(2)]
    for (record, _), holds, fails in zip(family, *corrected, strict=True):
        record |= {"p_corrected": round_p(holds), "p_contrary_corrected": round_p(fails)}
        record["tests"] = len(family)
        if min(holds, fails) <= ALPHA:
            record["verdict"] = "holds" if holds <= ALPHA else "fails"
    for claim, record in zip(claims, records, strict=True):
        if record["verdict"] == "undecided":
            record["reason"] = _explain_undecided(claim, record)


def _explain_undecided(claim: Claim, record: Mapping[str, Any]) -> str | None:
    """Return how many seeds would decide a claim, by a normal approximation; None if none would.

    It supposes that the measured value and the spread of seeds are true.
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
    needed = max(needed, min(seeds) + 1)  # as these have not decided it
    unit = "pairs" if claim.thesis_runs else "seeds a side" if claim.compare else "seeds"
    if needed > MOST_SEEDS:
        return f"more than {MOST_SEEDS} {unit} would be needed"
    return f"about {math.ceil(needed)} {unit} would decide it"


def create_record(claim: Claim) -> dict[str, Any]:
    """Return the record of a claim that is not tested."""
    condition = claim.holds_if or (f"within {claim.margin:g}" if claim.margin is not None else None)
    statistic = claim.statistic()
    if statistic and (claim.compare or claim.thesis_runs):
        statistic += ", difference"
    return {
        **claim.model_dump(include=STATED),
        **dict.fromkeys(("row", "compared_with")),
        "holds_if": condition,
        "margin": claim.margin,
        "statistic": statistic,
        "start": claim.measure.where.start if claim.measure else None,
        "starts": {},
        **dict.fromkeys(("measured", "interval")),
        **dict.fromkeys(("n", "seeds"), 0),
        "sides": [],
        **{name: {} for name in ("learned", "steps", "scales", "unlike")},
        **dict.fromkeys(("p", "p_corrected", "p_contrary", "p_contrary_corrected")),
        "tests": 0,
        "verdict": "not tested",
        "reason": claim.not_tested or None,
        "test": None,
    }
