"""The measurements of a claim: counts of correct answers by seed, and statistics of these."""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd

from carry.claims.claim_settings import CellFilter, Claim, find_comparison
from carry.config import profiles, run_settings
from carry.evaluation.differences import compute_interval, compute_newcombe_interval
from carry.evaluation.intervals import wilson_interval
from carry.interpretability import adder_construction, majority_constructions
from carry.models.parameter_counts import count_parameters

LEARNED_ACCURACY = 0.9  # in distribution


class Measurement(NamedTuple):
    """A number, its interval, and the numbers of problems and seeds that it rests on."""

    value: float
    low: float
    high: float
    n: int
    seeds: int


class NotMeasured(Exception):
    """The tables lack what a claim needs; the text names it."""


def find_trained_lengths(cells: pd.DataFrame) -> dict[str, list[int]]:
    """Return the lengths in training of each row that trains on a data set of separate lengths."""
    sources, known = (
        dict(zip(cells["row"], cells["profile"], strict=True)),
        profiles.find_profiles(),
    )
    runs = [
        run_settings.load_run(row, profile)
        for row, profile in sources.items()
        if profile in known and row in run_settings.list_rows(profile)
    ]
    return {run.name: run.trained_lengths() for run in runs if run.data_set is not None}


def add_last_digit(cells: pd.DataFrame, places: pd.DataFrame | None) -> pd.DataFrame:
    """Return cells with the column `last_right` for equal lengths; it is missing for others.

    >>> cells = pd.DataFrame({"row": "a", "seed": 0, "start": "1", "set": ["grid", "equal"],
    ...                       "i": 2, "j": 2})
    >>> places = pd.DataFrame({"row": "a", "seed": 0, "start": "1", "set": "equal", "digits": 2,
    ...                        "place": [0, 1], "correct": [9, 7]})
    >>> add_last_digit(cells, places)["last_right"].tolist()
    [nan, 7.0]
    """
    if places is None:
        return cells.assign(last_right=float("nan"))
    keys = ["row", "seed", "start", "set", "digits"]
    last = places.loc[places.groupby(keys)["place"].idxmax(), [*keys, "correct"]]
    last = last.rename(columns={"correct": "last_right", "digits": "i"})
    return cells.merge(last, how="left", on=["row", "seed", "start", "set", "i"])


def find_comparable_row(claim: Claim, cells: pd.DataFrame) -> str:
    """Return the first row of a claim with the same training length as the compared row.

    Raises:
        NotMeasured: if no row has this length.
    """
    other, _ = find_comparison(claim)
    trained = cells.groupby("row")["trained"].first()
    if other not in trained:
        raise NotMeasured(f"row {other} is not in this profile")
    rows = [row for row in claim.measure.rows if row in trained]
    if not rows:
        raise NotMeasured(f"row {claim.measure.rows[0]} is not in this profile")
    for row in rows:
        if trained[row] == trained[other]:
            return row
    lengths = f"{trained[rows[0]]} and {trained[other]} digits"
    raise NotMeasured(f"rows {rows[0]} and {other} were trained to {lengths} in this profile")


def check_learned(claim: Claim, cells: pd.DataFrame, starts: dict[str, str]) -> None:
    """Raise `NotMeasured` for the first required row that has not learned in distribution."""
    for row in claim.requires_learned:
        in_distribution = cells[(cells["row"] == row) & (cells["region"] == "in distribution")]
        kind = "grid" if (in_distribution["set"] == "grid").any() else "equal"
        where = CellFilter(set=kind, region="in distribution")
        share = _count_by_seed(cells, row, where, starts)["accuracy"].median()
        if share < LEARNED_ACCURACY:
            raise NotMeasured(
                f"row {row} has learnt {share:.1%} of problems as large as in training in this "
                f"profile, less than {LEARNED_ACCURACY:.0%}"
            )


def measure_row(claim: Claim, row: str, cells: pd.DataFrame, starts: dict[str, str]) -> Measurement:
    """Return the statistic of one row of a claim, or its difference to the compared row.

    Raises:
        NotMeasured: if the tables lack the cells of a row.
    """
    measure = claim.measure
    worst = measure.statistic == "worst_cell"
    counts = cells.assign(exact=cells[measure.count])
    seeds = _count_by_seed(counts, row, measure.where, starts, worst)
    seeds = _count_reaching_seeds(seeds, measure.above)
    if not claim.compare:
        return summarise_seeds(seeds, measure.statistic)
    counts = cells.assign(exact=cells[claim.compare.count or measure.count])
    other = _count_by_seed(counts, *find_comparison(claim), starts, worst)
    other = _count_reaching_seeds(other, measure.above)
    return measure_difference(seeds, other, measure.statistic)


def measure_difference(seeds: pd.DataFrame, other: pd.DataFrame, statistic: str) -> Measurement:
    """Return the difference of a statistic of two rows, both counted by seed."""
    # With `seeds_above`, seeds are the sample, and their range is no interval.
    interval = compute_newcombe_interval if statistic == "seeds_above" else compute_interval
    return Measurement(
        summarise_seeds(seeds, statistic).value - summarise_seeds(other, statistic).value,
        *interval(seeds, other),
        int(seeds["n"].sum() + other["n"].sum()),
        min(len(seeds), len(other)),
    )


def _count_by_seed(
    cells: pd.DataFrame,
    row: str,
    where: CellFilter,
    starts: dict[str, str],
    worst: bool = False,
) -> pd.DataFrame:
    """Return correct answers, problems and accuracy of the selected cells by seed.

    `worst`: only of the cell with the smallest median of the seeds.

    Raises:
        NotMeasured: if the table has no such cells.
    """
    selected = cells[cells["row"] == row]
    if selected.empty:
        raise NotMeasured(f"row {row} is not in this profile")
    values = where.model_dump(exclude_none=True)
    start = values.pop("start")
    # Without a table of ids a row has a single start, which is both its best and its middle.
    start = starts[row] if start == "best" else start if start in set(selected["start"]) else "1"
    selected = selected[selected["start"] == start]
    request = ", ".join(f"{name} {value}" for name, value in values.items())
    if "digits" in values:
        values |= dict.fromkeys("ij", values.pop("digits"))
    for name, largest in zip("ij", values.pop("within", ()), strict=False):
        selected = selected[selected[name] <= largest]
    for name, value in values.items():
        selected = selected[selected[name] == value]
    if "set" not in values:  # otherwise the same lengths would count in two sets
        in_grid = "region" in values and (selected["set"] == "grid").any()
        selected = selected[selected["set"].isin(["grid" if in_grid else "equal", "far"])]
    selected = selected[selected["exact"].notna()]  # some counts exist in some cells only
    if selected.empty:
        raise NotMeasured(f"row {row} has no result for {request} in this profile")
    if worst:
        selected = _select_worst_cell(selected)
    return _sum_by_seed(selected, "exact")


def _select_worst_cell(cells: pd.DataFrame) -> pd.DataFrame:
    shares = (cells["exact"] / cells["n"]).groupby([cells["i"], cells["j"]])
    i, j = shares.agg(["median", "mean"]).sort_values(["median", "mean"]).index[0]
    return cells[(cells["i"] == i) & (cells["j"] == j)]


def _sum_by_seed(table: pd.DataFrame, count: str) -> pd.DataFrame:
    by_seed = table.groupby("seed")[[count, "n"]].sum().rename(columns={count: "exact"})
    return by_seed.assign(accuracy=by_seed["exact"] / by_seed["n"])


def count_in_analysis(
    table: pd.DataFrame, row: str, count: str, where: dict[str, Any]
) -> pd.DataFrame:
    """Return hits (`exact`), problems and accuracy by seed from the table of an analysis.

    Raises:
        NotMeasured: if the table has no such rows.
    """
    selected = table[table["row"] == row]
    if selected.empty:
        raise NotMeasured(f"row {row} was not analysed in this profile")
    if {"digits", "trained"} <= {*selected}:
        selected = selected.assign(beyond=selected["digits"] - selected["trained"])
    if {"digits", "place"} <= {*selected}:
        selected = selected.assign(from_top=selected["digits"] - 1 - selected["place"])
    where = {name: value for name, value in where.items() if value is not None}
    for name, value in where.items():
        values = value if isinstance(value, list) else [value]
        selected = selected[selected[name].isin(values)]
    by_seed = _sum_by_seed(selected, count)
    by_seed = by_seed[by_seed["n"] > 0]
    if by_seed.empty:
        request = ", ".join(f"{name} {value}" for name, value in where.items())
        raise NotMeasured(f"nothing was counted in row {row} for {request} in this profile")
    return by_seed


def _count_reaching_seeds(seeds: pd.DataFrame, level: float | None) -> pd.DataFrame:
    """Return whether each seed reaches an accuracy, as one problem that is correct or not."""
    if level is None:
        return seeds
    reached = (seeds["accuracy"] >= level).astype(int)
    return seeds.assign(exact=reached, n=1, accuracy=reached.astype(float))


def summarise_seeds(seeds: pd.DataFrame, statistic: str) -> Measurement:
    """Return a statistic over the correct answers of each seed, with its interval."""
    right, n, accuracy = int(seeds["exact"].sum()), int(seeds["n"].sum()), seeds["accuracy"]
    if statistic == "errors":
        return Measurement(n - right, n - right, n - right, n, len(seeds))
    if statistic in ("worst_seed", "best_seed"):
        seed = seeds.loc[accuracy.idxmin() if statistic == "worst_seed" else accuracy.idxmax()]
        low, high = (float(end[0]) for end in wilson_interval([seed["exact"]], [seed["n"]]))
        return Measurement(float(seed["accuracy"]), low, high, int(seed["n"]), len(seeds))
    low, high = (float(end[0]) for end in wilson_interval([right], [n]))
    if statistic in ("pooled", "seeds_above"):
        return Measurement(right / n, low, high, n, len(seeds))
    ends = min(low, float(accuracy.min())), max(high, float(accuracy.max()))
    return Measurement(float(accuracy.median()), *ends, n, len(seeds))


def count_wrong_parameters(claim: Claim) -> Measurement:
    """Count the rows whose number of parameters differs from the stated millions."""
    wrong = sum(
        round(count_parameters(run_settings.load_run(row, "paper")) / 1e6) != millions
        for row, millions in claim.parameters.items()
    )
    return Measurement(wrong, wrong, wrong, len(claim.parameters), 0)


def count_construction_errors(claim: Claim) -> Measurement:
    """Count the wrong tokens, or gates, of a construction."""
    if sums := claim.construction:
        cells = [(i, j) for i, j in sums.cells]
        tested = adder_construction.score_random_sums(cells, sums.tokens, sums.codes)
    else:
        circuits = claim.circuits
        tested = majority_constructions.score_random_circuits(
            circuits.count, circuits.gates, strings=circuits.strings
        )
    wrong, n = int(tested["wrong"].sum()), int(tested["n"].sum())
    return Measurement(wrong, wrong, wrong, n, 0)
