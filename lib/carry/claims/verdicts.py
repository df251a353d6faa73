"""The verdict on a claim: by a test over seeds, by an interval, or none, with the reason.

Claims that compare two rows are tested; all tests of a work are one family, corrected by Holm. For
others the whole interval fulfils the condition, or none of it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pandas as pd

from carry.claims.claim_settings import STARTS, Claim
from carry.claims.evidence import Evidence, Tables, collect_evidence, prepare_tables
from carry.claims.families import correct_rates, judge_family
from carry.claims.gates import MissingRow, NotLearned, NotMeasured
from carry.claims.seed_plans import explain_undecided
from carry.config.profiles import find_profiles, load_profile

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
    claims: list[Claim],
    cells: pd.DataFrame,
    profile: str,
    places: pd.DataFrame | None = None,
    curves: pd.DataFrame | None = None,
    analyses: Mapping[str, pd.DataFrame] | None = None,
    certificates: pd.DataFrame | None = None,
    others: Mapping[str, pd.DataFrame] | None = None,
    others_analyses: Mapping[str, Mapping[str, pd.DataFrame]] | None = None,
) -> list[dict[str, Any]]:
    """Return a record for each claim, from the result tables of a profile.

    A record names the profiles (tiers) that trained its rows, and the verdict of each start of ids
    that the tables have.

    Args:
        cells: accuracy by lengths.
        places: accuracy by place, for claims that count the last digit.
        curves: learning curves, which show the models that have too many heads left.
        analyses: the tables of analyses by name.
        certificates: one row for each certified seed.
        others: the cells of the profiles that claims name, by profile; `others_analyses` likewise.
    """
    tables = {None: prepare_tables(cells, places, curves, analyses)}
    for name, table in (others or {}).items():
        tables[name] = prepare_tables(table, analyses=(others_analyses or {}).get(name))

    kept: dict[str, Evidence] = {}  # most claims are the same from every start

    def judge(part: list[Claim]) -> list[dict[str, Any]]:
        texts = [claim.model_dump_json() for claim in part]
        for text, claim in zip(texts, part, strict=True):
            if text not in kept:
                kept[text] = _find_evidence(claim, tables, profile, certificates)
        return _judge_from_one_start(part, [kept[text] for text in texts], profile)

    records = judge(claims)
    starts = {start for part in tables.values() for start in part.cells["start"].unique()}
    protocols = [start for start in STARTS if start in starts]
    if len(protocols) < 2:
        return records
    # Those without a test are no part of a family, and are judged once.
    tested = [claim for claim in claims if claim.measure or claim.analysis or claim.thesis_runs]
    verdicts: dict[str, dict[str, str]] = {}
    for start in protocols:
        moved = [_start_from(claim, start) for claim in tested]
        for claim, record in zip(moved, judge(moved), strict=True):
            if record["verdict"] != "not tested" and _has_start(claim, tables, start):
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


def _has_start(claim: Claim, tables: Mapping[str | None, Tables], start: str) -> bool:
    """Return whether one of a claim's rows was evaluated, or analysed, from a start."""
    if _compares_starts(claim) or not (claim.measure or claim.analysis):
        return False
    known = tables[claim.profile]
    if not claim.analysis:
        cells = (known.cells_by_row.get(row, known.cells[:0]) for row in claim.list_rows())
        return any((table["start"] == start).any() for table in cells)
    table = known.analyses.get(claim.analysis.table, pd.DataFrame())
    if "start" not in table:
        return False
    return bool((table["row"].isin(claim.list_rows()) & (table["start"] == start)).any())


def _find_evidence(
    claim: Claim,
    tables: Mapping[str | None, Tables],
    profile: str,
    certificates: pd.DataFrame | None,
) -> Evidence:
    """Return what the tables say about a claim, or the reason why they say nothing."""
    try:
        if claim.profile not in (None, *tables):
            raise MissingRow(claim.list_rows()[0])
        evidence = collect_evidence(claim, tables, certificates, profile)
    except MissingRow as missing:
        return Evidence({"reason": _explain_missing_row(missing.row, claim.profile)})
    except NotMeasured as reason:
        return Evidence({"reason": str(reason)})
    except NotLearned as reason:
        return Evidence({"verdict": "not learned here", "reason": str(reason)})
    sources = tables.get(claim.profile, tables[None]).sources
    rows = [evidence.fields.get(name) for name in ("row", "compared_with")]
    trained = dict.fromkeys(sources[row] for row in rows if row in sources)
    if not trained:
        return evidence
    return evidence._replace(fields=evidence.fields | {"profile": ", ".join(trained)})


def _judge_from_one_start(
    claims: list[Claim], collected: list[Evidence], profile: str
) -> list[dict[str, Any]]:
    records = [
        _create_record(claim, profile) | copy.deepcopy(evidence.fields)
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


def _explain_missing_row(row: str, profile: str | None) -> str:
    """Return that a row has no results, with the profiles that train it, or the one of a claim."""
    names = [profile] if profile else find_profiles()
    trained = [name for name in names if row in load_profile(name)["rows"]]
    return f"needs row {row} of profile {' or '.join(trained or names)}"


def _create_record(claim: Claim, profile: str) -> dict[str, Any]:
    """Return the record of a claim that is not tested."""
    condition = claim.holds_if or (f"within {claim.margin:g}" if claim.margin is not None else None)
    return {
        "id": claim.id,
        "paper": claim.paper,
        "section": claim.section,
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
        "profiles": {},
        "unlike": {},
        "p": None,
        "p_corrected": None,
        "p_contrary": None,
        "p_contrary_corrected": None,
        "tests": 0,
        "rates": [],
        "profile": profile,
        "verdict": "not tested",
        "reason": claim.not_tested or None,
    }


def _name_statistic(claim: Claim) -> str | None:
    if claim.parameters or claim.construction or claim.circuits:
        return "errors"
    statistic = claim.statistic()
    compared = claim.compare or claim.thesis_runs
    return statistic + (", difference" if compared else "") if statistic else None
