"""The verdict on each claim: all of an interval fulfils its condition, none of it, or some."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import pandas as pd

from carry.claims import counted
from carry.claims.counted import Found, Missing
from carry.claims.stated import CONDITION, Claim
from carry.evaluation.failed_halving import without_failed
from carry.evaluation.regions import add_region, add_unseen
from carry.plots import load as results

VERDICTS = ("holds", "fails", "undecided", "not tested")
SIGNS = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}

METHOD = (
    "A claim holds, or fails, only if all of its interval does. For a median over seeds that runs "
    "from the lowest seed to the highest; for a difference it sets every seed of one row against "
    "every seed of the other; neither is narrower than that of all problems together."
)


def judge(
    claims: list[Claim],
    cells: pd.DataFrame,
    profile: str,
    places: pd.DataFrame | None = None,
    curves: pd.DataFrame | None = None,
    looked: Mapping[str, pd.DataFrame] | None = None,
    certificates: pd.DataFrame | None = None,
) -> list[dict[str, Any]]:
    """Return a record for each claim, from the result cells of a profile.

    `places`: accuracy by place, for claims that count the last; `curves`: learning curves, which
    say which models have more heads left than they were to have; `looked`: tables of analyses;
    `certificates`: what is proved of seeds.
    """
    cells = without_failed(add_region(counted.with_last(cells, places)), curves, profile)
    cells = add_unseen(cells, counted.lengths(cells, profile))
    longest = cells[["i", "j"]].max(axis=1)
    grid = cells["row"].map(longest[cells["set"] == "grid"].groupby(cells["row"]).max())
    cells = cells.assign(beyond=longest - cells["trained"], grid=grid)
    starts = results.starts(cells)
    records = []
    for claim in claims:
        if claim.look:
            records.append(_looked_record(claim, looked or {}, profile))
        elif claim.certified:
            records.append(_certified_record(claim, certificates, profile))
        else:
            records.append(_record(claim, cells, starts, profile))
    return records


def _blank(claim: Claim, profile: str) -> dict[str, Any]:
    """Return the record of a claim that is not tested."""
    return {
        "id": claim.id,
        "paper": claim.paper,
        "section": claim.section,
        "statement": claim.statement,
        "paper_value": claim.paper_value,
        "scale": claim.scale,
        "row": None,
        "compared_with": None,
        "holds_if": claim.holds_if or None,
        "statistic": _statistic(claim),
        "measured": None,
        "interval": None,
        "n": 0,
        "seeds": 0,
        "profile": profile,
        "verdict": "not tested",
        "reason": claim.not_tested or None,
    }


def _looked_record(
    claim: Claim, looked: Mapping[str, pd.DataFrame], profile: str
) -> dict[str, Any]:
    """Return what a record says of what an analysis has counted."""
    record, asked = _blank(claim, profile), claim.look
    table = looked.get(asked.table, pd.DataFrame(columns=["row"]))
    try:
        own = counted.picked(table, asked.row, asked.hits, asked.where)
        found = counted.sum_up(own, "median_over_seeds")
        if claim.compare:
            record["compared_with"] = row = claim.compare.row or asked.row
            other = counted.picked(table, row, asked.hits, {**asked.where, **claim.compare.where})
            found = counted.difference(own, other, "median_over_seeds")
    except Missing as missing:
        return {**record, "reason": str(missing)}
    return {**record, **_shown(claim, found), "row": asked.row}


def _certified_record(
    claim: Claim, certificates: pd.DataFrame | None, profile: str
) -> dict[str, Any]:
    """Return what a record says of the seeds that are proved right; these are all there are."""
    record, row = _blank(claim, profile), claim.certified.row
    own = certificates[certificates["row"] == row] if certificates is not None else []
    if not len(own):
        return {**record, "reason": f"{row} has no certificate in profile {profile}"}
    share = float((own["verdict"] == "exact").mean())
    found = Found(share, share, share, n=int(own["contexts"].sum()), seeds=len(own))
    return {**record, **_shown(claim, found), "row": row}


def _record(
    claim: Claim, cells: pd.DataFrame, starts: dict[str, str], profile: str
) -> dict[str, Any]:
    record = _blank(claim, profile)
    if claim.not_tested:
        return record
    if claim.parameters:
        shown = _shown(claim, counted.wrong_parameters(claim))
        return {**record, **shown, "row": ", ".join(claim.parameters), "profile": "paper"}
    if claim.construction or claim.circuits:
        return {**record, **_shown(claim, counted.wrong_by_hand(claim)), "row": "construction"}
    try:
        rows = [counted.comparable(claim, cells)] if claim.compare else claim.measure.rows
        counted.check_learnt(claim, cells, starts)
        found = [(row, counted.found(claim, row, cells, starts)) for row in rows]
    except Missing as missing:
        return {**record, "reason": str(missing)}
    # Of several rows, the one that speaks most against the claim speaks for all.
    order = ["fails", "undecided", "holds"]
    sign = -1 if claim.holds_if.startswith("<") else 1
    row, of = min(found, key=lambda pair: (order.index(_verdict(claim, pair[1])),
                                           sign * pair[1].measured))  # fmt: skip
    if claim.compare:
        record["compared_with"] = claim.compare.row or row
    return {**record, **_shown(claim, of), "row": row}


def _shown(claim: Claim, of: Found) -> dict[str, Any]:
    """Return what a record says of a number that was found."""
    return {
        "measured": round(of.measured, 6),
        "interval": [round(of.low, 6), round(of.high, 6)],
        "n": of.n,
        "seeds": of.seeds,
        "verdict": _verdict(claim, of),
    }


def _statistic(claim: Claim) -> str | None:
    if claim.parameters or claim.construction or claim.circuits:
        return "errors"
    if claim.certified:
        return "seeds_certified"
    if claim.look:
        return "median_over_seeds" + (", difference" if claim.compare else "")
    if claim.measure is None:
        return None
    return claim.measure.statistic + (", difference" if claim.compare else "")


def _verdict(claim: Claim, of: Found) -> str:
    """Say whether all of the interval fulfils the condition, none of it, or some.

    >>> from carry.claims.stated import Measure, Where
    >>> some = Claim(id="", paper="carry", section="", statement="", paper_value="",
    ...              measure=Measure(rows=["x"], where=Where(digits=1)), holds_if=">= 0.9")
    >>> for low, high in [(0.9, 1.0), (0.8, 1.0), (0.0, 0.5)]:
    ...     print(_verdict(some, Found(0.9, low, high, n=9, seeds=3)))
    holds
    undecided
    fails
    """
    sign, threshold = CONDITION.fullmatch(claim.holds_if).groups()
    ends = {SIGNS[sign](end, float(threshold)) for end in (of.low, of.high)}
    return "undecided" if len(ends) == 2 else "holds" if ends.pop() else "fails"
