"""The evidence for a claim: what result tables, certificates and constructions say about it.

All seeds count. Where some have not learned their trained sizes, the evidence also has the value of
those that have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import pandas as pd

from carry import results
from carry.claims import measurements
from carry.claims.claim_settings import Claim, find_comparison
from carry.claims.measurements import Measurement, NotMeasured, find_start, miss_row
from carry.departures import compare_runs, list_changed
from carry.evaluation.regions import (
    add_region,
    add_unseen_regions,
    score_worst_trained_size,
    zero_failed_models,
)
from carry.experiments.run import Run


class Tables(NamedTuple):
    """Cells with their regions, the settings that they were made with, and all other tables."""

    cells: pd.DataFrame
    cells_by_row: dict[str, pd.DataFrame]  # the same; a claim reads a few of a hundred rows
    trained: pd.DataFrame  # each model at its worst trained size (`score_worst_trained_size`)
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
    trained = score_worst_trained_size(cells)
    texts = ("row", "start", "set", "region")  # claims compare these many times
    cells = cells.astype(dict.fromkeys(texts, "category"))
    by_row = dict(iter(cells.groupby("row", sort=False)))
    return Tables(cells, by_row, trained, runs, tables)


def find_evidence(claim: Claim, tables: Tables, certificates: pd.DataFrame) -> list[dict[str, Any]]:
    """Return what the tables say about a claim, by measured row, or why they say nothing.

    These are fields of its record. Only a claim about several rows has several of them.
    """
    try:
        if claim.not_tested:
            return [{}]
        if claim.measure:
            return [_read_row(claim, row, tables) for row in claim.measure.rows]
        if claim.analysis:
            return [_read_analysis(claim, tables)]
        if claim.certified:
            return [_read_certificates(claim, certificates)]
    except NotMeasured as reason:
        return [{"reason": str(reason)}]
    if claim.thesis_runs:
        measured, comparison = measurements.compare_thesis_runs(claim)
        pairs = {"ahead": comparison.ahead, "behind": comparison.behind, "equal": comparison.equal}
        fields = {"row": "runs of the thesis", "pairs": pairs, "p_sign": round_p(comparison.p_sign)}
        return [_report(measured, fields)]
    row = ", ".join(claim.parameters) or "construction"
    return [_report(measurements.count_errors(claim), {"row": row})]


def _read_row(claim: Claim, row: str, tables: Tables) -> dict[str, Any]:
    """Return the evidence of the cells of one row of a claim, and of the row compared with it."""
    other = find_comparison(claim)[0] if claim.compare else None
    rows, start = list(dict.fromkeys([row, other or row])), claim.measure.where.start
    for side in rows:
        if side not in tables.cells_by_row:
            raise miss_row(side)
        if start not in map(str, tables.runs[side].evaluation.starts):  # 1 would stand for it
            raise NotMeasured(f"row {side} has no result from start {start}")
    lengths = [tables.cells_by_row[side]["trained"].iloc[0] for side in rows]
    at_a_length = claim.measure.where.digits or claim.statistic() == "half_length"
    if len({*lengths}) > 1 and not at_a_length:
        trained = " and ".join(map(str, lengths))
        raise NotMeasured(f"rows {row} and {other} were trained to {trained} digits")
    cells = tables.select_rows(rows)
    return _measure(
        lambda table: measurements.measure_row(claim, row, table), claim, rows, cells, tables,
        {"row": row, "compared_with": other},
    )  # fmt: skip


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

    def measure(table: pd.DataFrame) -> Measurement:
        where = analysis.where
        seeds = measurements.count_in_analysis(table, analysis.row, analysis, where)
        if not claim.compare:
            return measurements.summarise_seeds(seeds, analysis.statistic)
        where = {**where, **claim.compare.where}
        other = measurements.count_in_analysis(table, other_row, analysis, where)
        return measurements.measure_difference(claim, seeds, other)

    start = measurements.find_analysis_start(table, analysis.row, analysis.where)
    fields = {"row": analysis.row, "start": start}
    if claim.compare:
        fields["compared_with"] = other_row
    return _measure(measure, claim, rows, table, tables, fields)


def _measure(
    measure: Callable[[pd.DataFrame], Measurement],
    claim: Claim,
    rows: Sequence[str],
    table: pd.DataFrame,
    tables: Tables,
    fields: dict[str, Any],
) -> dict[str, Any]:
    """Return the evidence of all seeds of a table, and the value of those that have learned."""
    table = table[table["seed"] >= claim.first_seed]
    for row in rows:
        if claim.first_seed and row not in table["row"].values:
            raise NotMeasured(f"row {row} has no seed from {claim.first_seed}")
    trained = {row: find_trained(row, claim, tables) for row in rows}
    fields |= _describe_rows(trained, tables) | {"first_seed": claim.first_seed}
    fields = _report(measure(table), fields)
    if not all(models["learned"].all() for models in trained.values()):
        for row, models in trained.items():
            learned = models.loc[models["learned"], "seed"]
            table = table[(table["row"] != row) | table["seed"].isin(learned)]
        try:
            fields["of_learned"] = round(measure(table).value, 6)
        except NotMeasured:
            fields["of_learned"] = None
    return fields


def find_trained(row: str, claim: Claim, tables: Tables) -> pd.DataFrame:
    """Return the seeds of a row that count, each at its worst trained size, from the start."""
    where = claim.measure.where if claim.measure else None
    start = find_start(tables.select_rows([row]), row, where.start if where else "1")
    trained = tables.trained
    chosen = (trained["row"] == row) & (trained["start"] == start)
    return trained[chosen & (trained["seed"] >= claim.first_seed)]


def _describe_rows(trained: dict[str, pd.DataFrame], tables: Tables) -> dict[str, Any]:
    """Return how many seeds of each row have learned, their scales, and how the rows differ."""
    runs = {row: tables.runs[row] for row in trained}
    return {
        "learned": {row: [int(models["learned"].sum()), len(models)]
                    for row, models in trained.items()},
        "scales": {row: run.scale for row, run in runs.items()},
        "changed": list_changed(runs),
        "unlike": _compare_training(*runs.values()) if len(runs) == 2 else {},
    }  # fmt: skip


def _compare_training(run: Run, other: Run) -> dict[str, list[Any]]:
    """Return the settings of model, training and format in which two runs differ, by name."""
    table = compare_runs(run, other, "there").set_index("setting")
    names = table.index[(table["kind"] != "evaluation") & ~table.index.str.startswith("position ")]
    names = names.drop("seeds", errors="ignore")
    return {name: table.loc[name, ["here", "there"]].tolist() for name in names}


def _read_certificates(claim: Claim, certificates: pd.DataFrame) -> dict[str, Any]:
    """Return the evidence of certificates; a share of all seeds has no interval."""
    row = claim.certified
    seeds = certificates[certificates["row"] == row]
    if seeds.empty:
        raise NotMeasured(f"{row} has no certificate")
    share = float((seeds["verdict"] == "exact").mean())
    contexts = int(seeds["contexts"].sum())
    measured = Measurement(share, share, share, contexts, (len(seeds),), (share,))
    return _report(measured, {"row": row})


def _report(measured: Measurement, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a measurement."""
    fields = {
        **fields,
        "measured": round(measured.value, 6),
        "interval": [round(measured.low, 6), round(measured.high, 6)],
        "values": [round(value, 6) for value in measured.sides],
        "n": measured.n,
        "seeds": min(measured.seeds),
        "sides": list(measured.seeds),
    }
    if measured.test:
        p, contrary = map(round_p, measured.test)
        fields |= {"p": p, "p_contrary": contrary}
    return fields


def round_p(p: float) -> float:
    """Return a p with three significant digits."""
    return float(f"{p:.3g}")
