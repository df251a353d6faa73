"""The verdict on a claim: its whole interval fulfils the condition, or none of it, or a part."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import pandas as pd

from carry.claims import measurements
from carry.claims.claim_settings import CONDITION, Claim
from carry.claims.measurements import Measurement, NotMeasured
from carry.evaluation.failed_halving import zero_failed_models
from carry.evaluation.regions import add_region, add_unseen_regions
from carry.plots import load as results

VERDICTS = ("holds", "fails", "undecided", "not tested")
SIGNS = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}

METHOD = (
    "A claim holds, or fails, only if all of its interval does. For a median over seeds that runs "
    "from the lowest seed to the highest; for a difference it sets every seed of one row against "
    "every seed of the other; neither is narrower than that of all problems together."
)


def judge_claims(
    claims: list[Claim],
    cells: pd.DataFrame,
    profile: str,
    places: pd.DataFrame | None = None,
    curves: pd.DataFrame | None = None,
    analyses: Mapping[str, pd.DataFrame] | None = None,
    certificates: pd.DataFrame | None = None,
) -> list[dict[str, Any]]:
    """Return a record for each claim, from the result tables of a profile.

    A record names the profiles (tiers) that trained its rows.

    Args:
        cells: accuracy by lengths.
        places: accuracy by place, for claims that count the last digit.
        curves: learning curves, which show the models that have too many heads left.
        analyses: the tables of analyses by name.
        certificates: one row for each certified seed.
    """
    cells = measurements.add_last_digit(cells, places)
    cells = zero_failed_models(add_region(cells), curves)
    cells = add_unseen_regions(cells, measurements.find_trained_lengths(cells))
    longest = cells[["i", "j"]].max(axis=1)
    grid = cells["row"].map(longest[cells["set"] == "grid"].groupby(cells["row"]).max())
    cells = cells.assign(beyond=longest - cells["trained"], grid=grid)
    starts = results.choose_starts(cells)
    sources = dict(zip(cells["row"], cells["profile"], strict=True))
    records = []
    for claim in claims:
        record = _create_record(claim, profile)
        try:
            if claim.analysis:
                record |= _judge_analysis(claim, analyses or {})
            elif claim.certified:
                record |= _judge_certificates(claim, certificates, profile)
            elif not claim.not_tested:
                record |= _judge_measure(claim, cells, starts)
        except NotMeasured as reason:
            record["reason"] = str(reason)
        tested = [
            sources[row] for row in (record["row"], record["compared_with"]) if row in sources
        ]
        if tested:
            record["profile"] = ", ".join(dict.fromkeys(tested))
        records.append(record)
    return records


def _create_record(claim: Claim, profile: str) -> dict[str, Any]:
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
        "statistic": _name_statistic(claim),
        "measured": None,
        "interval": None,
        "n": 0,
        "seeds": 0,
        "profile": profile,
        "verdict": "not tested",
        "reason": claim.not_tested or None,
    }


def _judge_analysis(claim: Claim, analyses: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """Return the fields of a record that come from the table of an analysis."""
    analysis, statistic = claim.analysis, "median_over_seeds"
    table = analyses.get(analysis.table, pd.DataFrame(columns=["row"]))
    count, where = analysis.count, analysis.where
    seeds = measurements.count_in_analysis(table, analysis.row, count, where)
    if not claim.compare:
        measured = measurements.summarise_seeds(seeds, statistic)
        return {**_report(claim, measured), "row": analysis.row}
    other_row, other_where = claim.compare.row or analysis.row, {**where, **claim.compare.where}
    other = measurements.count_in_analysis(table, other_row, count, other_where)
    measured = measurements.measure_difference(seeds, other, statistic)
    return {**_report(claim, measured), "row": analysis.row, "compared_with": other_row}


def _judge_certificates(
    claim: Claim, certificates: pd.DataFrame | None, profile: str
) -> dict[str, Any]:
    """Return the fields of a record from certificates; a share of all seeds has no interval."""
    row = claim.certified.row
    seeds = certificates[certificates["row"] == row] if certificates is not None else []
    if not len(seeds):
        raise NotMeasured(f"{row} has no certificate in profile {profile}")
    share = float((seeds["verdict"] == "exact").mean())
    measured = Measurement(share, share, share, int(seeds["contexts"].sum()), len(seeds))
    return {**_report(claim, measured), "row": row}


def _judge_measure(claim: Claim, cells: pd.DataFrame, starts: dict[str, str]) -> dict[str, Any]:
    """Return the fields of a record from cells, parameter counts or a construction."""
    if claim.parameters:
        measured = measurements.count_wrong_parameters(claim)
        row = ", ".join(claim.parameters)
        return {**_report(claim, measured), "row": row, "profile": "paper"}
    if claim.construction or claim.circuits:
        measured = measurements.count_construction_errors(claim)
        return {**_report(claim, measured), "row": "construction"}
    rows = claim.measure.rows
    if claim.compare:
        rows = [measurements.find_comparable_row(claim, cells)]
    measurements.check_learned(claim, cells, starts)
    by_row = {row: measurements.measure_row(claim, row, cells, starts) for row in rows}
    # Of several rows, the record has the one with the worst verdict and value.
    order = ["fails", "undecided", "holds"]
    sign = -1 if claim.holds_if.startswith("<") else 1
    row, measured = min(
        by_row.items(),
        key=lambda item: (order.index(_find_verdict(claim, item[1])), sign * item[1].value),
    )
    compared = {"compared_with": claim.compare.row or row} if claim.compare else {}
    return {**_report(claim, measured), "row": row, **compared}


def _report(claim: Claim, measured: Measurement) -> dict[str, Any]:
    """Return the fields of a record for a measurement."""
    return {
        "measured": round(measured.value, 6),
        "interval": [round(measured.low, 6), round(measured.high, 6)],
        "n": measured.n,
        "seeds": measured.seeds,
        "verdict": _find_verdict(claim, measured),
    }


def _name_statistic(claim: Claim) -> str | None:
    if claim.parameters or claim.construction or claim.circuits:
        return "errors"
    if claim.certified:
        return "seeds_certified"
    if claim.measure is None and claim.analysis is None:
        return None
    statistic = claim.measure.statistic if claim.measure else "median_over_seeds"
    return statistic + (", difference" if claim.compare else "")


def _find_verdict(claim: Claim, measured: Measurement) -> str:
    """Return whether all of the interval fulfils the condition, or none of it, or a part.

    >>> from carry.claims.claim_settings import CellFilter, Measure
    >>> claim = Claim(id="", paper="carry", section="", statement="", paper_value="",
    ...               measure=Measure(rows=["x"], where=CellFilter(digits=1)), holds_if=">= 0.9")
    >>> for low, high in [(0.9, 1.0), (0.8, 1.0), (0.0, 0.5)]:
    ...     print(_find_verdict(claim, Measurement(0.9, low, high, n=9, seeds=3)))
    holds
    undecided
    fails
    """
    sign, threshold = CONDITION.fullmatch(claim.holds_if).groups()
    ends = {SIGNS[sign](end, float(threshold)) for end in (measured.low, measured.high)}
    return "undecided" if len(ends) == 2 else "holds" if ends.pop() else "fails"
