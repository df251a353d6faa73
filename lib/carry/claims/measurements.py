"""The measurements of a claim: counts of correct answers by seed, statistics and tests of these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd

from carry.claims.claim_settings import CellFilter, Claim, find_comparison
from carry.evaluation import thesis_runs
from carry.evaluation.differences import (
    compute_equivalence_p,
    compute_interval,
    compute_newcombe_interval,
    compute_order_p,
    compute_welch_interval,
)
from carry.evaluation.intervals import seed_interval, wilson_interval
from carry.experiments import load_rows
from carry.experiments.resolve import load_run
from carry.interpretability import adder_construction, majority_constructions
from carry.models.parameter_counts import count_parameters
from carry.results import SCALES


class NotMeasured(Exception):
    """The tables lack what a claim needs; the text names it."""


class SeedTest(NamedTuple):
    """The p of a claim, and the p of its contrary."""

    holds: float
    fails: float


class Measurement(NamedTuple):
    """A number, its interval, and the numbers of problems and seeds that it rests on.

    `seeds` has the number of each side of a comparison, which has a `test`.
    """

    value: float
    low: float
    high: float
    n: int
    seeds: tuple[int, ...]
    test: SeedTest | None = None


def miss_row(row: str) -> NotMeasured:
    """Return the error of a row without results."""
    scales = " or ".join(name for name in SCALES if name in load_rows()[row].scales)
    return NotMeasured(f"needs row {row} of scale {scales}")


def find_start(cells: pd.DataFrame, row: str, start: str) -> str:
    """Return the start under which a table has a row; without a table of ids that is always 1."""
    starts = [*cells.loc[cells["row"] == row, "start"].unique()]
    if not starts:
        raise miss_row(row)
    if start not in starts and starts != ["1"]:
        raise NotMeasured(f"row {row} has no result from start {start}")
    return start if start in starts else "1"


def add_last_digit(cells: pd.DataFrame, places: pd.DataFrame) -> pd.DataFrame:
    """Return cells with the column `last_right` for equal lengths; it is missing for others.

    >>> cells = pd.DataFrame({"row": "a", "seed": 0, "start": "1", "set": ["grid", "equal"],
    ...                       "i": 2, "j": 2})
    >>> places = pd.DataFrame({"row": "a", "seed": 0, "start": "1", "set": "equal", "digits": 2,
    ...                        "place": [0, 1], "correct": [9, 7]})
    >>> add_last_digit(cells, places)["last_right"].tolist()
    [nan, 7.0]
    """
    if places.empty:
        return cells.assign(last_right=float("nan"))
    keys = ["row", "seed", "start", "set", "digits"]
    last = places.loc[places.groupby(keys)["place"].idxmax(), [*keys, "correct"]]
    last = last.rename(columns={"correct": "last_right", "digits": "i"})
    return cells.merge(last, how="left", on=["row", "seed", "start", "set", "i"])


def measure_row(claim: Claim, row: str, cells: pd.DataFrame) -> Measurement:
    """Return the statistic of one row of a claim, or its difference to the compared row."""
    measure, sides = claim.measure, [(row, claim.measure.where, claim.measure.count)]
    if claim.compare:
        sides.append((*find_comparison(claim), claim.compare.count or measure.count))
    counts = [count_by_seed(cells, *side, claim.statistic()) for side in sides]
    if measure.above is not None:  # each seed is one problem, which is correct or not
        for at, seeds in enumerate(counts):
            reached = (seeds["accuracy"] >= measure.above).astype(int)
            counts[at] = seeds.assign(exact=reached, n=1, accuracy=reached.astype(float))
    if claim.compare:
        return measure_difference(claim, *counts)
    return summarise_seeds(*counts, claim.statistic())


def measure_difference(claim: Claim, seeds: pd.DataFrame, other: pd.DataFrame) -> Measurement:
    """Return the difference of the means over seeds of two rows, both counted by seed, tested.

    Of sides that are of the same seeds, only common ones count.
    """
    paired, shares = claim.is_paired(), claim.statistic() == "seeds_above"
    if paired:
        common = seeds.index.intersection(other.index)
        seeds, other = seeds.loc[common], other.loc[common]
    times, sizes = claim.compare.errors_times, (len(seeds), len(other))
    first, second = seeds["accuracy"].to_numpy(), 1 - times * (1 - other["accuracy"].to_numpy())
    if shares:  # seeds are the sample, of which Newcombe's interval is one
        low, high = compute_newcombe_interval(seeds, other)
    elif times == 1.0:
        low, high = compute_interval(seeds, other, paired)
    else:
        low, high = compute_welch_interval(first, second)
        low, high = max(-1.0, low), min(1.0, high)
    if claim.margin is not None:
        sides = [(first, second), (second, first)]
        beyond = [compute_order_p(*side, claim.margin, paired, shares) for side in sides]
        holds = compute_equivalence_p(first, second, claim.margin, paired, shares)
        fails = min(1.0, 2 * min(beyond))
    else:
        sign, threshold = claim.condition()
        above = compute_order_p(first, second, threshold, paired, shares)
        below = compute_order_p(second, first, -threshold, paired, shares)
        holds, fails = (above, below) if sign.startswith(">") else (below, above)
    test = SeedTest(holds, fails)
    n = int(seeds["n"].sum() + other["n"].sum())
    return Measurement(float(first.mean() - second.mean()), low, high, n, sizes, test)


def count_by_seed(
    cells: pd.DataFrame, row: str, where: CellFilter, count: str = "exact", statistic: str = ""
) -> pd.DataFrame:
    """Return correct answers, problems and accuracy of the selected cells by seed.

    For the statistic `worst_cell` these are of the cell with the smallest median of the seeds, for
    `lowest` of each seed's worst cell.
    """
    start = find_start(cells, row, where.start)
    selected = cells[(cells["row"] == row) & (cells["start"] == start)]
    values = where.model_dump(exclude_none=True, exclude={"start"})
    request = ", ".join(f"{name} {value}" for name, value in values.items())
    if "digits" in values:
        values |= dict.fromkeys("ij", values.pop("digits"))
    within = dict(zip("ij", values.pop("within", ()), strict=False))
    chosen = pd.Series(True, index=selected.index)
    for name, value in values.items():
        chosen &= selected[name] == value
    for name, largest in within.items():
        chosen &= selected[name] <= largest
    if "set" not in values:  # otherwise the same lengths would count in two sets
        in_grid = "region" in values and (selected["set"][chosen] == "grid").any()
        chosen &= selected["set"].isin(["grid" if in_grid else "equal", "far"])
    selected = selected[chosen & selected[count].notna()]  # some counts exist in some cells only
    if selected.empty:
        raise NotMeasured(f"row {row} has no result for {request}")
    if statistic == "worst_cell":
        selected = _select_worst_cell(selected.assign(exact=selected[count]))
    elif statistic == "lowest":
        shares = selected[count] / selected["n"]
        selected = selected.loc[shares.groupby(selected["seed"]).idxmin()]
    return _sum_by_seed(selected, count)


def _select_worst_cell(cells: pd.DataFrame) -> pd.DataFrame:
    shares = (cells["exact"] / cells["n"]).groupby([cells["i"], cells["j"]])
    i, j = shares.agg(["median", "mean"]).sort_values(["median", "mean"]).index[0]
    return cells[(cells["i"] == i) & (cells["j"] == j)]


def _sum_by_seed(table: pd.DataFrame, count: str) -> pd.DataFrame:
    by_seed = table.groupby("seed")[[count, "n"]].sum().rename(columns={count: "exact"})
    return by_seed.assign(accuracy=by_seed["exact"] / by_seed["n"])


def find_analysis_start(table: pd.DataFrame, row: str, where: Mapping[str, Any]) -> str | None:
    """Return the start from which a row of an analysis is read: 1, unless `where` has another.

    A row that was analysed from one other start alone has that; a table without starts has none.

    >>> table = pd.DataFrame({"row": ["a", "a", "b"], "start": ["1", "all", "all"]})
    >>> [find_analysis_start(table, row, {}) for row in ("a", "b")]
    ['1', 'all']
    """
    if "start" not in table:
        return None
    starts = [*table.loc[table["row"] == row, "start"].unique()]
    return where.get("start", starts[0] if len(starts) == 1 else "1")


def count_in_analysis(
    table: pd.DataFrame, row: str, count: str, where: dict[str, Any]
) -> pd.DataFrame:
    """Return hits (`exact`), problems and accuracy by seed from the table of an analysis."""
    selected = table[table["row"] == row]
    if selected.empty:
        raise NotMeasured(f"row {row} was not analysed")
    if {"digits", "trained"} <= {*selected}:
        selected = selected.assign(beyond=selected["digits"] - selected["trained"])
    where = {**where, "start": find_analysis_start(table, row, where)}  # none: no such column
    where = {name: value for name, value in where.items() if value is not None}
    for name, value in where.items():
        values = value if isinstance(value, list) else [value]
        selected = selected[selected[name].isin(values)]
    by_seed = _sum_by_seed(selected, count)
    by_seed = by_seed[by_seed["n"] > 0]
    if by_seed.empty:
        request = ", ".join(f"{name} {value}" for name, value in where.items())
        raise NotMeasured(f"nothing was counted in row {row} for {request}")
    return by_seed


def summarise_seeds(seeds: pd.DataFrame, statistic: str) -> Measurement:
    """Return a statistic over the correct answers of each seed, with its interval.

    >>> seeds = pd.DataFrame({"exact": [90, 95, 100], "n": 100, "accuracy": [0.9, 0.95, 1.0]})
    >>> [round(end, 3) for end in summarise_seeds(seeds, "mean_over_seeds")[:3]]
    [0.95, 0.826, 1.0]
    >>> [round(end, 3) for end in summarise_seeds(seeds, "worst_seed")[:3]]
    [0.9, 0.826, 0.945]
    """
    right, n, accuracy = int(seeds["exact"].sum()), int(seeds["n"].sum()), seeds["accuracy"]
    count = (len(seeds),)
    if statistic == "errors":
        return Measurement(n - right, n - right, n - right, n, count)
    middle = (len(accuracy) - 1) // 2  # of an even number the worse one
    chosen = {"worst_seed": 0, "lowest": 0, "best_seed": -1, "worst_cell": middle}
    if statistic in chosen:  # about one model
        seed = seeds.loc[accuracy.sort_values(kind="stable").index[chosen[statistic]]]
        low, high = (float(end[0]) for end in wilson_interval([seed["exact"]], [seed["n"]]))
        return Measurement(float(seed["accuracy"]), low, high, int(seed["n"]), count)
    low, high = (float(end[0]) for end in wilson_interval([right], [n]))
    if statistic == "mean_over_seeds":
        ends = seed_interval(accuracy)
        low, high = max(0.0, min(low, ends[0])), min(1.0, max(high, ends[1]))
    return Measurement(float(accuracy.mean()), low, high, n, count)


def count_errors(claim: Claim) -> Measurement:
    """Count rows that have not the stated millions of parameters, or wrong tokens or gates."""
    if claim.parameters:
        stated = pd.Series(claim.parameters)
        known = [round(count_parameters(load_run(row, "paper")) / 1e6) for row in stated.index]
        tested = pd.DataFrame({"n": 1, "wrong": stated != known})
    elif sums := claim.construction:
        tested = adder_construction.score_sums(sums.cells, sums.tokens, codes=[sums.codes])
    else:
        tested = majority_constructions.score_random_circuits(**dict(claim.circuits))
    wrong, n = int(tested["wrong"].sum()), int(tested["n"].sum())
    return Measurement(wrong, wrong, wrong, n, (0,))


def compare_thesis_runs(claim: Claim) -> tuple[Measurement, thesis_runs.PairedComparison]:
    """Return how far `mix` is ahead in the thesis' own runs, with the test over pairs."""
    runs, pairs = claim.thesis_runs, thesis_runs.pair_runs(thesis_runs.read_runs())
    if runs.learned:
        pairs = thesis_runs.select_learned_pairs(pairs)
    comparison = thesis_runs.compare_pairs(pairs, runs.length, runs.score)
    sizes = (comparison.pairs, comparison.pairs)
    test = SeedTest(comparison.p, comparison.p_behind)
    ends, n = (comparison.low, comparison.high), sum(sizes)
    return Measurement(comparison.lead, *ends, n, sizes, test), comparison
