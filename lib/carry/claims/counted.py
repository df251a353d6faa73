"""What the result tables count for a claim: right answers of problems by seed, and their sum."""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd

from carry.claims.stated import Claim, Where, compared
from carry.config import profiles, run_settings
from carry.evaluation.differences import interval, newcombe
from carry.evaluation.intervals import wilson_interval
from carry.interpretability import adder_construction as theorem
from carry.interpretability import majority_constructions
from carry.models.parameter_counts import count_parameters

LEARNT = 0.9  # of the problems as large as in training


class Found(NamedTuple):
    """What was measured for one row: a number, its interval, and how much it rests on."""

    measured: float
    low: float
    high: float
    n: int
    seeds: int


class Missing(Exception):
    """The tables do not hold what a claim asks for; the text says what is missing."""


def lengths(cells: pd.DataFrame, profile: str) -> dict[str, list[int]]:
    """Return what rows that learn from a data set of some lengths were trained on."""
    rows = run_settings.list_rows(profile) if profile in profiles.find_profiles() else []
    known = [run_settings.load_run(row, profile) for row in cells["row"].unique() if row in rows]
    return {of.name: of.lengths() for of in known if of.data_set is not None}


def with_last(cells: pd.DataFrame, places: pd.DataFrame | None) -> pd.DataFrame:
    """Return cells with a column `last_right`, for equal lengths; missing for others.

    >>> cells = pd.DataFrame({"row": "a", "seed": 0, "start": "1", "set": ["grid", "equal"],
    ...                       "i": 2, "j": 2})
    >>> places = pd.DataFrame({"row": "a", "seed": 0, "start": "1", "set": "equal", "digits": 2,
    ...                        "place": [0, 1], "correct": [9, 7]})
    >>> with_last(cells, places)["last_right"].tolist()
    [nan, 7.0]
    """
    if places is None:
        return cells.assign(last_right=float("nan"))
    keys = ["row", "seed", "start", "set", "digits"]
    last = places.loc[places.groupby(keys)["place"].idxmax(), [*keys, "correct"]]
    last = last.rename(columns={"correct": "last_right"}).rename(columns={"digits": "i"})
    return cells.merge(last, how="left", on=["row", "seed", "start", "set", "i"])


def comparable(claim: Claim, cells: pd.DataFrame) -> str:
    """Return the first row of a claim that was trained as long as the one it is compared with.

    Raises:
        Missing: if there is none.
    """
    other, _ = compared(claim)
    trained = cells.groupby("row")["trained"].first()
    if other not in trained:
        raise Missing(f"row {other} is not in this profile")
    known = [row for row in claim.measure.rows if row in trained]
    if not known:
        raise Missing(f"row {claim.measure.rows[0]} is not in this profile")
    for row in known:
        if trained[row] == trained[other]:
            return row
    lengths = f"{trained[known[0]]} and {trained[other]} digits"
    raise Missing(f"rows {known[0]} and {other} were trained to {lengths} in this profile")


def check_learnt(claim: Claim, cells: pd.DataFrame, starts: dict[str, str]) -> None:
    """Raise `Missing` for the first row that has not learnt what it was trained on."""
    for row in claim.learnt:
        known = cells[(cells["row"] == row) & (cells["region"] == "in distribution")]
        kind = "grid" if (known["set"] == "grid").any() else "equal"
        where = Where(set=kind, region="in distribution")
        share = _by_seed(cells, row, where, starts)["accuracy"].median()
        if share < LEARNT:
            raise Missing(
                f"row {row} has learnt {share:.1%} of problems as large as in training in this "
                f"profile, less than {LEARNT:.0%}"
            )


def found(claim: Claim, row: str, cells: pd.DataFrame, starts: dict[str, str]) -> Found:
    """Return what was measured for one row of a claim, or the difference that it speaks of.

    Raises:
        Missing: if there is nothing of the row, or of what it is compared with.
    """
    statistic, count = claim.measure.statistic, claim.measure.count
    worst = statistic == "worst_cell"
    own = _by_seed(cells.assign(exact=cells[count]), row, claim.measure.where, starts, worst)
    own = _reaching(own, claim.measure.above)
    if not claim.compare:
        return sum_up(own, statistic)
    cells = cells.assign(exact=cells[claim.compare.count or count])
    other = _reaching(_by_seed(cells, *compared(claim), starts, worst), claim.measure.above)
    return difference(own, other, statistic)


def difference(own: pd.DataFrame, other: pd.DataFrame, statistic: str) -> Found:
    """Return by how much more one is right than the other, both by seed."""
    counted = statistic == "seeds_above"  # seeds are then what is drawn, and no range holds them
    return Found(
        sum_up(own, statistic).measured - sum_up(other, statistic).measured,
        *(newcombe(own, other) if counted else interval(own, other)),
        int(own["n"].sum() + other["n"].sum()),
        min(len(own), len(other)),
    )


def _by_seed(
    cells: pd.DataFrame, row: str, where: Where, starts: dict[str, str], worst: bool = False
) -> pd.DataFrame:
    """Return right answers, problems and accuracy of the chosen cells by seed.

    `worst`: of the cell alone where the median of the seeds is least.

    Raises:
        Missing: if there are none.
    """
    chosen = cells[cells["row"] == row]
    if chosen.empty:
        raise Missing(f"row {row} is not in this profile")
    given = where.model_dump(exclude_none=True)
    start = given.pop("start")
    # A row without a table of ids has one start only, which is its best and its middle alike.
    start = starts[row] if start == "best" else start if start in set(chosen["start"]) else "1"
    chosen = chosen[chosen["start"] == start]
    asked = ", ".join(f"{name} {value}" for name, value in given.items())
    if "digits" in given:
        given |= dict.fromkeys("ij", given.pop("digits"))
    if "within" in given:
        for name, most in zip("ij", given.pop("within"), strict=True):
            chosen = chosen[chosen[name] <= most]
    for name, value in given.items():
        chosen = chosen[chosen[name] == value]
    if "set" not in given:  # else the same lengths would count in two sets
        inside = "grid" if "region" in given and (chosen["set"] == "grid").any() else "equal"
        chosen = chosen[chosen["set"].isin([inside, "far"])]
    chosen = chosen[chosen["exact"].notna()]  # not all is counted everywhere
    if chosen.empty:
        raise Missing(f"row {row} has no result for {asked} in this profile")
    if worst:
        shares = (chosen["exact"] / chosen["n"]).groupby([chosen["i"], chosen["j"]])
        i, j = shares.agg(["median", "mean"]).sort_values(["median", "mean"]).index[0]
        chosen = chosen[(chosen["i"] == i) & (chosen["j"] == j)]
    by_seed = chosen.groupby("seed")[["exact", "n"]].sum()
    return by_seed.assign(accuracy=by_seed["exact"] / by_seed["n"])


def picked(table: pd.DataFrame, row: str, hits: str, where: dict[str, Any]) -> pd.DataFrame:
    """Return right answers, problems and accuracy by seed of what an analysis has counted.

    Raises:
        Missing: if there is nothing.
    """
    chosen = table[table["row"] == row]
    if chosen.empty:
        raise Missing(f"row {row} was not looked into in this profile")
    if {"digits", "trained"} <= {*chosen}:
        chosen = chosen.assign(beyond=chosen["digits"] - chosen["trained"])
    if {"digits", "place"} <= {*chosen}:
        chosen = chosen.assign(from_top=chosen["digits"] - 1 - chosen["place"])
    for name, value in where.items():
        if value is not None:  # what a comparison leaves out
            values = value if isinstance(value, list) else [value]
            chosen = chosen[chosen[name].isin(values)]
    by_seed = chosen.groupby("seed")[[hits, "n"]].sum().rename(columns={hits: "exact"})
    by_seed = by_seed[by_seed["n"] > 0]
    if by_seed.empty:
        asked = ", ".join(f"{name} {value}" for name, value in where.items() if value is not None)
        raise Missing(f"nothing was counted in row {row} for {asked} in this profile")
    return by_seed.assign(accuracy=by_seed["exact"] / by_seed["n"])


def _reaching(seeds: pd.DataFrame, above: float | None) -> pd.DataFrame:
    """Return for each seed whether it reaches an accuracy, as one problem that is right or not."""
    if above is None:
        return seeds
    reached = (seeds["accuracy"] >= above).astype(int)
    return seeds.assign(exact=reached, n=1, accuracy=reached.astype(float))


def sum_up(seeds: pd.DataFrame, statistic: str) -> Found:
    """Return a statistic over the right answers of each seed, with its interval."""
    right, n, accuracy = int(seeds["exact"].sum()), int(seeds["n"].sum()), seeds["accuracy"]
    if statistic == "errors":
        return Found(n - right, n - right, n - right, n, len(seeds))
    if statistic in ("worst_seed", "best_seed"):
        one = seeds.loc[accuracy.idxmin() if statistic == "worst_seed" else accuracy.idxmax()]
        low, high = (float(end[0]) for end in wilson_interval([one["exact"]], [one["n"]]))
        return Found(float(one["accuracy"]), low, high, int(one["n"]), len(seeds))
    low, high = (float(end[0]) for end in wilson_interval([right], [n]))
    if statistic in ("pooled", "seeds_above"):
        return Found(right / n, low, high, n, len(seeds))
    ends = min(low, float(accuracy.min())), max(high, float(accuracy.max()))
    return Found(float(accuracy.median()), *ends, n, len(seeds))


def wrong_parameters(claim: Claim) -> Found:
    """Count the rows that have other than the stated millions of parameters."""
    wrong = sum(
        round(count_parameters(run_settings.load_run(row, "paper")) / 1e6) != millions
        for row, millions in claim.parameters.items()
    )
    return Found(wrong, wrong, wrong, len(claim.parameters), 0)


def wrong_by_hand(claim: Claim) -> Found:
    """Count the tokens, or gates, that a construction has wrong."""
    if asked := claim.construction:
        tested = theorem.sampled([(i, j) for i, j in asked.cells], asked.tokens, asked.codes)
    else:
        some = claim.circuits
        tested = majority_constructions.random_circuits(
            some.count, some.gates, strings=some.strings
        )
    wrong, n = int(tested["wrong"].sum()), int(tested["n"].sum())
    return Found(wrong, wrong, wrong, n, 0)
