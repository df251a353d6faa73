"""The measurements of a claim: counts of correct answers by seed, statistics and tests of these."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from carry.claims.claim_settings import (
    CONDITION,
    NOT_SHARES,
    AnalysisMeasure,
    CellFilter,
    Claim,
    Measure,
    find_comparison,
    split_condition,
)
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

SIGNS = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}


class NotMeasured(Exception):
    """The tables lack what a claim needs; the text names it."""


class SeedTest(NamedTuple):
    """The p of a claim, and the p of its contrary."""

    holds: float
    fails: float


class Measurement(NamedTuple):
    """A number, its interval, and the numbers of problems and seeds that it rests on.

    `seeds` and `sides` have the number of seeds and the value of each side; a comparison has two
    sides, and a `test`.
    """

    value: float
    low: float
    high: float
    n: int
    seeds: tuple[int, ...]
    sides: tuple[float, ...]
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
    seeds = count_by_seed(cells, row, claim.measure.where, claim.measure)
    if not claim.compare:
        return summarise_seeds(seeds, claim.statistic())
    other_row, where = find_comparison(claim)
    other = claim.measure.model_copy(update={"count": claim.compare.count or claim.measure.count})
    return measure_difference(claim, seeds, count_by_seed(cells, other_row, where, other))


def measure_difference(claim: Claim, seeds: pd.DataFrame, other: pd.DataFrame) -> Measurement:
    """Return the difference of the means over seeds of two rows, both counted by seed, tested.

    Of sides that are of the same seeds, only common ones count.
    """
    paired, shares = claim.is_paired(), claim.statistic() == "share_of_seeds"
    if paired:
        common = seeds.index.intersection(other.index)
        seeds, other = seeds.loc[common], other.loc[common]
    times, sizes = claim.compare.errors_times, (len(seeds), len(other))
    first, second = seeds["value"].to_numpy(), 1 - times * (1 - other["value"].to_numpy())
    if shares:  # seeds are the sample, of which Newcombe's interval is one
        low, high = compute_newcombe_interval(seeds, other)
    elif claim.statistic() in NOT_SHARES:
        low, high = (seed_interval(first - second) if paired
                     else compute_welch_interval(first, second))  # fmt: skip
    elif times == 1.0:
        low, high = compute_interval(seeds, other, paired)
    else:
        low, high = compute_welch_interval(first, second)
        low, high = max(-1.0, low), min(1.0, high)
    if claim.margin is not None:
        directions = [(first, second), (second, first)]
        beyond = [compute_order_p(*side, claim.margin, paired, shares) for side in directions]
        holds = compute_equivalence_p(first, second, claim.margin, paired, shares)
        fails = min(1.0, 2 * min(beyond))
    else:
        sign, threshold = claim.condition()
        above = compute_order_p(first, second, threshold, paired, shares)
        below = compute_order_p(second, first, -threshold, paired, shares)
        holds, fails = (above, below) if sign.startswith(">") else (below, above)
    n = int(seeds["n"].sum() + other["n"].sum())
    sides = float(first.mean()), float(other["value"].mean())
    difference = float(first.mean() - second.mean())
    return Measurement(difference, low, high, n, sizes, sides, SeedTest(holds, fails))


def count_by_seed(
    cells: pd.DataFrame, row: str, where: CellFilter, measure: Measure
) -> pd.DataFrame:
    """Return the `value` of each seed in the selected cells, of `exact` hits in `n` problems.

    The value is the share of hits. For `share_of_seeds` it is 1 if the seed's share reaches
    `above`, and else 0; for `share_of_cells` it is the share of cells that do; and for
    `half_length` a number of digits (`find_half_length`), of cells with i = j.
    """
    start = find_start(cells, row, where.start)
    selected = cells[(cells["row"] == row) & (cells["start"] == start)]
    values = where.model_dump(exclude_none=True, exclude={"start"})
    request = ", ".join(f"{name} {value}" for name, value in values.items())
    if "digits" in values:
        values |= dict.fromkeys("ij", values.pop("digits"))
    within = dict(zip("ij", values.pop("within", ()), strict=False))
    least = values.pop("longer_than", 0)
    chosen = pd.Series(True, index=selected.index)
    for name, value in values.items():
        chosen &= selected[name] == value
    for name, largest in within.items():
        chosen &= selected[name] <= largest
    chosen &= selected[["i", "j"]].min(axis=1) > least
    if measure.statistic == "half_length":
        chosen &= selected["i"] == selected["j"]
    if "set" not in values:  # otherwise the same lengths would count in two sets
        in_grid = "region" in values and (selected["set"][chosen] == "grid").any()
        chosen &= selected["set"].isin(["grid" if in_grid else "equal", "far"])
    count, statistic = measure.count, measure.statistic
    if count == "wrong_length":
        ends = selected["stopped_early"] + selected["stopped_late"]
        selected = selected.assign(n=selected["n"] - selected["exact"], wrong_length=ends)
    selected = selected[chosen & selected[count].notna()]  # some counts exist in some cells only
    if selected.empty:
        raise NotMeasured(f"row {row} has no result for {request}")
    shares, above = selected[count] / selected["n"], measure.above
    if statistic == "share_of_cells":
        selected = selected.assign(n=1, **{count: (shares >= above).astype(int)})
    seeds = _sum_by_seed(selected, count)
    if statistic == "share_of_seeds":  # each seed is one problem, which is correct or not
        reached = (seeds["value"] >= above).astype(int)
        return seeds.assign(exact=reached, n=1, value=reached.astype(float))
    if statistic == "half_length":
        if len(seeds) < 2:
            raise NotMeasured(f"row {row} has one seed; expected 2 or more")
        by_length = selected.groupby(["seed", "i"])[[count, "n"]].sum()
        by_length = by_length.assign(share=by_length[count] / by_length["n"]).reset_index("i")
        for seed, part in by_length.groupby("seed"):
            seeds.loc[seed, "value"] = find_half_length(part["i"], part["share"])
    return seeds


def find_half_length(lengths: Sequence[float], shares: Sequence[float]) -> float:
    """Return the length at which the share of solved problems falls to a half, in digits.

    It is interpolated before the first length below a half; without one it is the longest length,
    so that it is then a lower bound.

    >>> find_half_length([5, 8, 10], [1.0, 0.75, 0.25]), find_half_length([5, 8], [1.0, 0.75])
    (9.0, 8.0)
    """
    before = (0.0, 1.0)
    for length, share in zip(lengths, shares, strict=True):
        if share < 0.5:
            steps = (before[1] - 0.5) / (before[1] - share)
            return float(before[0] + steps * (length - before[0]))
        before = (length, share)
    return float(before[0])


def _sum_by_seed(table: pd.DataFrame, count: str) -> pd.DataFrame:
    by_seed = table.groupby("seed")[[count, "n"]].sum().rename(columns={count: "exact"})
    return by_seed.assign(value=by_seed["exact"] / by_seed["n"])


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
    table: pd.DataFrame, row: str, analysis: AnalysisMeasure, where: dict[str, Any]
) -> pd.DataFrame:
    """Return hits (`exact`), problems (`n`) and their share by seed from the table of an analysis.

    For `mean_value` the value of a seed is the mean of a column, which is not a share.
    """
    selected = table[table["row"] == row]
    if selected.empty:
        raise NotMeasured(f"row {row} was not analysed")
    if {"digits", "trained"} <= {*selected}:
        selected = selected.assign(beyond=selected["digits"] - selected["trained"])
    where = {**where, "start": find_analysis_start(table, row, where)}  # none: no such column
    where = {name: value for name, value in where.items() if value is not None}
    column, condition = analysis.split_count()
    if missing := [name for name in (*where, column) if name not in selected]:
        raise NotMeasured(f"row {row} was analysed without {missing[0]!r}")
    for name, value in where.items():
        if isinstance(value, str) and re.fullmatch(CONDITION, value):
            selected = selected[_fulfils(selected[name], value)]
        else:
            values = value if isinstance(value, list) else [value]
            selected = selected[selected[name].isin(values)]
    if condition:
        hits = _fulfils(selected[column], condition).astype(int)
        selected = selected.assign(n=1, **{column: hits})
    elif analysis.statistic == "mean_value":
        selected = selected.assign(n=1)
    by_seed = _sum_by_seed(selected, column)
    by_seed = by_seed[by_seed["n"] > 0]
    if by_seed.empty:
        request = ", ".join(f"{name} {value}" for name, value in where.items())
        raise NotMeasured(f"nothing was counted in row {row} for {request}")
    return by_seed


def _fulfils(values: pd.Series, condition: str) -> pd.Series:
    sign, threshold = split_condition(condition)
    return SIGNS[sign](values, threshold)


def summarise_seeds(seeds: pd.DataFrame, statistic: str) -> Measurement:
    """Return a statistic over the value of each seed, with its interval.

    >>> seeds = pd.DataFrame({"exact": [90, 95, 100], "n": 100, "value": [0.9, 0.95, 1.0]})
    >>> [round(end, 3) for end in summarise_seeds(seeds, "mean_over_seeds")[:3]]
    [0.95, 0.826, 1.0]
    >>> [round(end, 3) for end in summarise_seeds(seeds, "worst_seed")[:3]]
    [0.9, 0.826, 0.945]
    """
    right, n, values = int(seeds["exact"].sum()), int(seeds["n"].sum()), seeds["value"]
    count = (len(seeds),)
    if statistic == "errors":
        return Measurement(n - right, n - right, n - right, n, count, (n - right,))
    chosen = {"worst_seed": "idxmin", "best_seed": "idxmax"}
    if statistic in chosen:  # about one model
        seed = seeds.loc[getattr(values, chosen[statistic])()]
        low, high = (float(end[0]) for end in wilson_interval([seed["exact"]], [seed["n"]]))
        value = float(seed["value"])
        return Measurement(value, low, high, int(seed["n"]), count, (value,))
    mean, ends = float(values.mean()), seed_interval(values)
    if statistic in NOT_SHARES:
        return Measurement(mean, *ends, n, count, (mean,))
    low, high = (float(end[0]) for end in wilson_interval([right], [n]))
    if statistic != "share_of_seeds":
        low, high = max(0.0, min(low, ends[0])), min(1.0, max(high, ends[1]))
    return Measurement(mean, low, high, n, count, (mean,))


def count_errors(claim: Claim) -> Measurement:
    """Count rows without the stated millions of parameters, or wrong tokens, gates or steps."""
    if claim.parameters:
        stated = pd.Series(claim.parameters)
        known = [round(count_parameters(load_run(row, "paper")) / 1e6) for row in stated.index]
        tested = pd.DataFrame({"n": 1, "wrong": stated != known})
    elif sums := claim.construction:
        tested = adder_construction.score_sums(sums.cells, sums.tokens, codes=[sums.codes])
    elif claim.automata:
        tested = majority_constructions.score_random_automata(**dict(claim.automata))
    else:
        tested = majority_constructions.score_random_circuits(**dict(claim.circuits))
    wrong, n = int(tested["wrong"].sum()), int(tested["n"].sum())
    return Measurement(wrong, wrong, wrong, n, (0,), (wrong,))


def compare_thesis_runs(claim: Claim) -> tuple[Measurement, thesis_runs.PairedComparison]:
    """Return how far `mix` is ahead in the thesis' own runs, with the test over pairs."""
    runs, pairs = claim.thesis_runs, thesis_runs.pair_runs(thesis_runs.read_runs())
    if runs.learned:
        pairs = thesis_runs.select_learned_pairs(pairs)
    comparison = thesis_runs.compare_pairs(pairs, runs.length, runs.score)
    sizes = (comparison.pairs, comparison.pairs)
    test = SeedTest(comparison.p, comparison.p_behind)
    ends, n = (comparison.low, comparison.high), sum(sizes)
    columns = [pairs[f"{runs.score}_{runs.length}_{task}"] for task in ("mix", "add")]
    if runs.score == "loss":
        columns = [np.log10(losses.clip(lower=thesis_runs.SMALLEST_LOSS)) for losses in columns]
    sides = tuple(float(column.mean()) for column in columns)
    return Measurement(comparison.lead, *ends, n, sizes, sides, test), comparison
