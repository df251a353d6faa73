"""The evidence for a claim: what result tables, certificates and constructions say about it.

A model that fails at its trained lengths says nothing about longer problems. At the gate it is
counted as not learned, and no claim is refuted by it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, NamedTuple

import pandas as pd

from carry import results
from carry.claims import measurements
from carry.claims.claim_settings import STARTS, Claim, find_comparison
from carry.claims.measurements import Measurement, NotMeasured, find_start, miss_row
from carry.evaluation.regions import (
    LEARNED,
    add_region,
    add_unseen_regions,
    score_trained_lengths,
    zero_failed_models,
)
from carry.experiments.run import Run

MIN_SEEDS_OF_LEVEL = 3  # of a claim about a method without a test: as many as mcleish2024 has
OF_METHODS = ("mean_over_seeds", "worst_seed", "best_seed", "worst_cell", "lowest")
SIGNS = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}
# Of several rows of a claim, the record has the one with the first of these verdicts.
WORST_FIRST = (
    "fails", "not learned here", "too few seeds", "undecided", "holds",
)  # fmt: skip


class NotLearned(Exception):
    """Half of the models of a row, or more, have not learned; the text has their steps."""


class Tables(NamedTuple):
    """Cells with their regions, the settings that they were made with, and all other tables."""

    cells: pd.DataFrame
    cells_by_row: dict[str, pd.DataFrame]  # the same; a claim reads a few of a hundred rows
    trained: pd.DataFrame  # the accuracy of each model at its trained lengths
    runs: dict[str, Run]
    analyses: results.ResultTables

    def select_rows(self, rows: Iterable[str]) -> pd.DataFrame:
        """Return the cells of rows; a row without results has none."""
        parts = [self.cells_by_row[row] for row in rows if row in self.cells_by_row]
        return pd.concat(parts) if parts else self.cells[:0]


def prepare_tables(tables: results.ResultTables) -> Tables:
    """Return result tables as claims select from them, with the settings of their rows."""
    runs = results.find_runs(tables["cells"])
    cells = measurements.add_last_digit(tables["cells"], tables["places"])
    cells = zero_failed_models(add_region(cells), tables["curves"], runs)
    cells = add_unseen_regions(cells, results.find_trained_lengths(cells))
    longest = cells[["i", "j"]].max(axis=1)
    cells = cells.assign(beyond=longest - cells["trained"])
    trained = score_trained_lengths(cells)
    texts = ("row", "start", "set", "region")  # claims compare these many times
    cells = cells.astype(dict.fromkeys(texts, "category"))
    by_row = dict(iter(cells.groupby("row", sort=False)))
    return Tables(cells, by_row, trained, runs, tables)


def find_evidence(claim: Claim, tables: Tables, certificates: pd.DataFrame) -> dict[str, Any]:
    """Return what the tables say about a claim, or the reason why they say nothing.

    These are fields of its record, and the `test` of which its family makes a verdict.
    """
    try:
        if claim.not_tested:
            return {}
        if claim.measure:
            return _read_cells(claim, tables)
        if claim.analysis:
            return _read_analysis(claim, tables)
        if claim.certified:
            return _read_certificates(claim, certificates)
    except NotMeasured as reason:
        return {"reason": str(reason)}
    except NotLearned as reason:
        return {"verdict": "not learned here", "reason": str(reason)}
    if claim.thesis_runs:
        measured, comparison = measurements.compare_thesis_runs(claim)
        pairs = {"ahead": comparison.ahead, "behind": comparison.behind, "equal": comparison.equal}
        fields = {"row": "runs of the thesis", "pairs": pairs, "p_sign": round_p(comparison.p_sign)}
        return _report(claim, measured, fields)
    row = ", ".join(claim.parameters) or "construction"
    return _report(claim, measurements.count_errors(claim), {"row": row})


def _read_cells(claim: Claim, tables: Tables) -> dict[str, Any]:
    """Return the evidence of cells: of the row with the worst verdict, if a claim has several."""
    cells, rows = tables.select_rows(claim.list_rows()), claim.measure.rows
    sign, candidates = -1 if claim.holds_if.startswith("<") else 1, []
    for row in rows:
        try:
            candidates.append(_read_row(claim, row, cells, tables))
        except NotLearned as reason:
            if len(rows) == 1:
                raise
            reason_given = {"verdict": "not learned here", "reason": str(reason)}
            candidates.append({"row": row, "measured": 0.0, **reason_given})
    worst = min(
        candidates,
        key=lambda fields: (WORST_FIRST.index(fields["verdict"]), sign * fields["measured"]),
    )
    if "n" not in worst:  # it was not measured
        raise NotLearned(worst["reason"])
    return worst


def _read_row(claim: Claim, row: str, cells: pd.DataFrame, tables: Tables) -> dict[str, Any]:
    """Return the evidence of the cells of one row of a claim, and of the row compared with it."""
    other = find_comparison(claim)[0] if claim.compare else None
    sides, start = list(dict.fromkeys([row, other or row])), claim.measure.where.start
    for side in sides:
        if side not in tables.cells_by_row:
            raise miss_row(side)
        if start not in map(str, tables.runs[side].evaluation.starts):  # 1 would stand for it
            raise NotMeasured(f"row {side} has no result from start {start}")
    lengths = [tables.cells_by_row[side]["trained"].iloc[0] for side in sides]
    if len({*lengths}) > 1:
        trained = " and ".join(map(str, lengths))
        raise NotMeasured(f"rows {row} and {other} were trained to {trained} digits")
    measurements.count_by_seed(cells, row, claim.measure.where)  # there is something to measure
    learned = _check_gate(claim, sides, start, tables)
    measured = measurements.measure_row(claim, row, select_learned(cells, learned))
    described = _describe_rows(sides, learned, tables)
    fields = _report(claim, measured, {"row": row, "compared_with": other, **described})
    # No refutation of a claim that models learn: they may, in more steps.
    if claim.is_about_learning() and claim.holds_if[0] == ">" and fields["verdict"] == "fails":
        reason = f"{describe_steps(tables.runs[row])}, no more"
        fields |= {"verdict": "not learned here", "reason": reason}
    return fields


def _check_gate(claim: Claim, rows: list[str], start: str, tables: Tables) -> dict[str, pd.Series]:
    """Return which seeds of each row have learned; none for a claim without a gate."""
    cells = tables.select_rows(rows)
    return {
        row: find_learned_seeds(tables.trained, row, find_start(cells, row, start), tables.runs)
        for row in rows
        if claim.has_gate()
    }


def find_learned_seeds(
    trained: pd.DataFrame, row: str, start: str, runs: dict[str, Run]
) -> pd.Series:
    """Return by seed of a row whether it has learned the trained lengths; most have to.

    `trained` has the accuracy of each model there (`score_trained_lengths`).
    """
    scores = trained[(trained["row"] == row) & (trained["start"] == start)].set_index("seed")
    if scores.empty:
        raise NotMeasured(f"row {row} has no result at its trained lengths")
    learned = scores["accuracy"] >= LEARNED
    if not results.has_learned(scores["accuracy"]):
        low, high = (int(1000 * end) / 10 for end in scores["accuracy"].agg(["min", "max"]))
        raise NotLearned(
            f"{learned.sum()} of {len(learned)} seeds of {row} reach {LEARNED:.0%} at their "
            f"trained lengths {describe_steps(runs[row])} ({low:g} to {high:g}%)"
        )
    return learned


def describe_steps(run: Run) -> str:
    """Return after how many steps a row is as it is."""
    return f"after {run.training.steps:,} steps"


def select_learned(table: pd.DataFrame, learned: dict[str, pd.Series]) -> pd.DataFrame:
    """Return a table without the seeds of these rows that have not learned."""
    for row, seeds in learned.items():
        table = table[(table["row"] != row) | table["seed"].isin(seeds[seeds].index)]
    return table


def _describe_rows(
    rows: list[str], learned: dict[str, pd.Series], tables: Tables
) -> dict[str, Any]:
    """Return how many seeds of each row have learned, after which steps, and how they differ."""
    runs = {row: tables.runs[row] for row in rows}
    settings = {
        "depth": [run.model.get("layers", 1) * run.model.get("recurrences", 1)
                  for run in runs.values()],
        "width": [run.model.get("width") for run in runs.values()],
        "optimizer": [run.training.optimizer for run in runs.values()],
        "rate": [run.training.learning_rate for run in runs.values()],
        "batch": [run.training.batch for run in runs.values()],
        "problems": [run.training.examples or "fresh" for run in runs.values()],
    }  # fmt: skip
    return {
        "learned": {row: [int(seeds.sum()), len(seeds)] for row, seeds in learned.items()},
        "steps": {row: run.training.steps for row, run in runs.items()},
        "scales": {row: run.scale for row, run in runs.items()},
        "unlike": {name: values for name, values in settings.items() if len({*values}) > 1},
    }


def _read_analysis(claim: Claim, tables: Tables) -> dict[str, Any]:
    """Return the evidence of the table of an analysis."""
    analysis = claim.analysis
    table = tables.analyses[analysis.table]
    other_row = (claim.compare.row if claim.compare else None) or analysis.row
    if table[table["row"] == analysis.row].empty:
        raise NotMeasured(f"row {analysis.row} was not analysed")
    rows = list(dict.fromkeys([analysis.row, other_row]))
    for row in rows:
        if row not in tables.cells_by_row:
            raise miss_row(row)
    start = measurements.find_analysis_start(table, analysis.row, analysis.where)
    # Earlier tables by recurrence have a start of which cells are not read (`carry.data.tables`).
    learned = _check_gate(claim, rows, start if start in STARTS else "1", tables)
    table = select_learned(table, learned)
    seeds = measurements.count_in_analysis(table, analysis.row, analysis.count, analysis.where)
    fields = {"row": analysis.row, "start": start, **_describe_rows(rows, learned, tables)}
    if not claim.compare:
        return _report(claim, measurements.summarise_seeds(seeds, analysis.statistic), fields)
    where = {**analysis.where, **claim.compare.where}
    other = measurements.count_in_analysis(table, other_row, analysis.count, where)
    measured = measurements.measure_difference(claim, seeds, other)
    return _report(claim, measured, {**fields, "compared_with": other_row})


def _read_certificates(claim: Claim, certificates: pd.DataFrame) -> dict[str, Any]:
    """Return the evidence of certificates; a share of all seeds has no interval."""
    row = claim.certified
    seeds = certificates[certificates["row"] == row]
    if seeds.empty:
        raise NotMeasured(f"{row} has no certificate")
    share = float((seeds["verdict"] == "exact").mean())
    contexts = int(seeds["contexts"].sum())
    return _report(claim, Measurement(share, share, share, contexts, (len(seeds),)), {"row": row})


def _report(claim: Claim, measured: Measurement, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a measurement; the verdict of a test follows from its family."""
    fields = {
        **fields,
        "measured": round(measured.value, 6),
        "interval": [round(measured.low, 6), round(measured.high, 6)],
        "n": measured.n,
        "seeds": min(measured.seeds),
        "sides": list(measured.seeds),
    }
    if measured.test is None:
        verdict, reason = _find_verdict(claim, measured)
        return {**fields, "verdict": verdict, "reason": reason}
    values = {"p": round_p(measured.test.holds), "p_contrary": round_p(measured.test.fails)}
    return {**fields, **values, "verdict": "undecided", "test": measured.test}


def _find_verdict(claim: Claim, measured: Measurement) -> tuple[str, str | None]:
    """Return whether all of the interval fulfils the condition, or none of it, or a part.

    The second value is the reason of another verdict.
    """
    sign, threshold = claim.condition()
    if claim.statistic() in OF_METHODS and measured.seeds[0] < MIN_SEEDS_OF_LEVEL:
        return "too few seeds", f"{measured.seeds[0]} seeds, expected {MIN_SEEDS_OF_LEVEL}"
    ends = {SIGNS[sign](end, threshold) for end in (measured.low, measured.high)}
    return ("undecided" if len(ends) == 2 else "holds" if ends.pop() else "fails"), None


def round_p(p: float) -> float:
    """Return a p with three significant digits."""
    return float(f"{p:.3g}")
