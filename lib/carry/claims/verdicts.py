"""The verdict on a claim: by a test over seeds, by an interval, or none, with the reason.

Claims that compare two rows are tested; all tests of a work are one family, corrected by Holm. For
others the whole interval fulfils the condition, or none of it.
"""

from __future__ import annotations

import copy
from typing import Any

import pandas as pd

from carry.claims.claim_settings import STARTS, Claim
from carry.claims.evidence import Evidence, Tables, collect_evidence, prepare_tables
from carry.claims.families import correct_rates, judge_family
from carry.claims.gates import MissingRow, NotLearned, NotMeasured
from carry.claims.seed_plans import explain_undecided
from carry.experiments.resolve import load_rows
from carry.results import SCALES, ResultTables

# Those without a decision say why.
UNDECIDED = ("undecided", "too few seeds", "n cannot decide")
VERDICTS = ("holds", "fails", *UNDECIDED, "not learned here", "not tested")
METRICS = {
    "holds": ("holds",),
    "fails": ("fails",),
    "undecided": UNDECIDED,
    "not_tested": ("not learned here", "not tested"),
}  # few, so that `dvc metrics` has few columns

METHOD = (
    "The unit is the seed. Only seeds that have learned their trained lengths count (99%, or the "
    "paper's number); where most have not, the claim is not learned here. An order of two rows "
    "holds, or fails, by a one-sided exact permutation test over at least 5 seeds a side; no "
    "difference by two one-sided tests against the margin. The p values of all tests of a work are "
    "corrected together (Holm): at most 5% of works have a claim that holds wrongly, and 5% one "
    "that fails wrongly. Before, p is doubled where rows got more seeds after a first test that "
    "did not decide; intervals are not corrected for that. Other claims hold, or fail, only if all "
    "their interval does: t over seeds, or Wilson's where the claim is about one model. A claim on "
    "an order can hold although its interval has 0: the interval supposes normally distributed "
    "seeds, the test does not. A claim that fails is refuted for our models, whose departures are "
    "listed, not for those of the paper. An "
    "undecided claim says about how many seeds would decide it, with a power of 80%. Where no "
    "result of these seeds and problems could decide, n cannot decide."
)


def judge_claims(
    claims: list[Claim], tables: ResultTables, certificates: pd.DataFrame
) -> list[dict[str, Any]]:
    """Return a record for each claim, from result tables.

    A record names the scale of the results of its rows, and the verdict of each start of ids that
    the tables have.

    Args:
        tables: `cells` by lengths; `places`, for claims that count the last digit; `curves`, which
            show the models that have too many heads left; and those of analyses.
        certificates: one row for each certified seed.
    """
    prepared = prepare_tables(tables)
    kept: dict[str, Evidence] = {}  # most claims are the same from every start

    def judge(part: list[Claim]) -> list[dict[str, Any]]:
        texts = [claim.model_dump_json() for claim in part]
        for text, claim in zip(texts, part, strict=True):
            if text not in kept:
                kept[text] = _find_evidence(claim, prepared, certificates)
        return _judge_from_one_start(part, [kept[text] for text in texts])

    records = judge(claims)
    protocols = [start for start in STARTS if start in prepared.cells["start"].unique()]
    if len(protocols) < 2:
        return records
    # Those without a test are no part of a family, and are judged once.
    tested = [claim for claim in claims if claim.measure or claim.analysis or claim.thesis_runs]
    verdicts: dict[str, dict[str, str]] = {}
    for start in protocols:
        moved = [_start_from(claim, start) for claim in tested]
        for claim, record in zip(moved, judge(moved), strict=True):
            if record["verdict"] != "not tested" and _has_start(claim, prepared, start):
                verdicts.setdefault(claim.id, {})[start] = record["verdict"]
    return [record | {"starts": verdicts.get(record["id"], {})} for record in records]


def list_unsaid_starts(records: list[dict[str, Any]]) -> list[str]:
    """Return the claims whose verdict changes with the start and whose `scale` does not say so.

    >>> changes, same = {"1": "fails", "all": "holds"}, {"1": "holds", "all": "holds"}
    >>> texts = [("a", "", changes), ("b", "From all starts", changes), ("c", "", same)]
    >>> keys = ("id", "scale", "starts")
    >>> list_unsaid_starts([dict(zip(keys, values, strict=True)) for values in texts])
    ['a']
    """
    return [
        record["id"]
        for record in records
        if len(set(record["starts"].values())) > 1 and "start" not in record["scale"].lower()
    ]


def _start_from(claim: Claim, start: str) -> Claim:
    """Return a claim that starts elsewhere; one that compares starts stays as it is."""
    if _compares_starts(claim) or not (claim.measure or claim.analysis):
        return claim
    if claim.analysis:
        where = {**claim.analysis.where, "start": start}
        return claim.model_copy(
            update={"analysis": claim.analysis.model_copy(update={"where": where})}
        )
    where = claim.measure.where.model_copy(update={"start": start})
    return claim.model_copy(update={"measure": claim.measure.model_copy(update={"where": where})})


def _compares_starts(claim: Claim) -> bool:
    return bool(claim.compare) and "start" in claim.compare.where


def _has_start(claim: Claim, tables: Tables, start: str) -> bool:
    """Return whether one of a claim's rows was evaluated, or analysed, from a start."""
    if _compares_starts(claim) or not (claim.measure or claim.analysis):
        return False
    if not claim.analysis:
        cells = (tables.cells_by_row.get(row, tables.cells[:0]) for row in claim.list_rows())
        return any((table["start"] == start).any() for table in cells)
    table = tables.analyses[claim.analysis.table]
    if "start" not in table:
        return False
    return bool((table["row"].isin(claim.list_rows()) & (table["start"] == start)).any())


def _find_evidence(claim: Claim, tables: Tables, certificates: pd.DataFrame) -> Evidence:
    """Return what the tables say about a claim, or the reason why they say nothing."""
    try:
        return collect_evidence(claim, tables, certificates)
    except MissingRow as missing:
        scales = " or ".join(name for name in SCALES if name in load_rows()[missing.row].scales)
        return Evidence({"reason": f"needs row {missing.row} of scale {scales}"})
    except NotMeasured as reason:
        return Evidence({"reason": str(reason)})
    except NotLearned as reason:
        return Evidence({"verdict": "not learned here", "reason": str(reason)})


def _judge_from_one_start(claims: list[Claim], collected: list[Evidence]) -> list[dict[str, Any]]:
    records = [
        _create_record(claim) | copy.deepcopy(evidence.fields)
        for claim, evidence in zip(claims, collected, strict=True)
    ]
    for paper in dict.fromkeys(claim.paper for claim in claims):
        work = [at for at, claim in enumerate(claims) if claim.paper == paper]
        judge_family(*([part[at] for at in work] for part in (claims, records, collected)))
        correct_rates([records[at] for at in work])
    for claim, record in zip(claims, records, strict=True):
        if record["verdict"] == "undecided":
            record["reason"] = explain_undecided(claim, record)
    return records


def _create_record(claim: Claim) -> dict[str, Any]:
    """Return the record of a claim that is not tested."""
    condition = claim.holds_if or (f"within {claim.margin:g}" if claim.margin is not None else None)
    return {
        "id": claim.id,
        "paper": claim.paper,
        "section": claim.section,
        "items": claim.items,
        "statement": claim.statement,
        "paper_value": claim.paper_value,
        "scale": claim.scale,
        "row": None,
        "compared_with": None,
        "holds_if": condition,
        "margin": claim.margin,
        "statistic": _name_statistic(claim),
        "start": claim.measure.where.start if claim.measure else None,
        "starts": {},
        "measured": None,
        "interval": None,
        "n": 0,
        "seeds": 0,
        "sides": [],
        "learned": {},
        "steps": {},
        "scales": {},
        "unlike": {},
        "p": None,
        "p_corrected": None,
        "p_contrary": None,
        "p_contrary_corrected": None,
        "tests": 0,
        "rates": [],
        "verdict": "not tested",
        "reason": claim.not_tested or None,
    }


def _name_statistic(claim: Claim) -> str | None:
    if claim.parameters or claim.construction or claim.circuits:
        return "errors"
    statistic = claim.statistic()
    compared = claim.compare or claim.thesis_runs
    return statistic + (", difference" if compared else "") if statistic else None
