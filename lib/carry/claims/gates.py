"""The gate of a claim: which models have learned the lengths that they were trained on.

A model that fails at its trained lengths says nothing about longer problems. It is counted as not
learned, and no claim is refuted by it.
"""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from carry.experiments.resolve import load_rows
from carry.experiments.run import Run
from carry.results import SCALES


class NotMeasured(Exception):
    """The tables lack what a claim needs; the text names it."""


class NotLearned(Exception):
    """Half of the models of a row, or more, have not learned; the text has their steps."""


class Learned(NamedTuple):
    """The seeds of a row that have learned its trained lengths, of all its seeds."""

    row: str
    seeds: tuple[int, ...]
    total: int


def miss_row(row: str) -> NotMeasured:
    """Return the error of a row without results."""
    scales = " or ".join(name for name in SCALES if name in load_rows()[row].scales)
    return NotMeasured(f"needs row {row} of scale {scales}")


def find_start(cells: pd.DataFrame, row: str, start: str) -> str:
    """Return the start under which a table has a row; without a table of ids that is always 1.

    Raises:
        NotMeasured: if the table lacks the row, or the row was not evaluated from this start.
    """
    starts = [*cells.loc[cells["row"] == row, "start"].unique()]
    if not starts:
        raise miss_row(row)
    if start not in starts and starts != ["1"]:
        raise NotMeasured(f"row {row} has no result from start {start}")
    return start if start in starts else "1"


def find_learned_seeds(
    trained: pd.DataFrame, row: str, start: str, gate: float, runs: dict[str, Run]
) -> Learned:
    """Return the seeds of a row that reach an accuracy at the trained lengths.

    Args:
        trained: the accuracy of each model at its trained lengths (`score_trained_lengths`).

    Raises:
        NotMeasured: if the table has no trained lengths of the row.
        NotLearned: if half of its seeds do not reach it, or more.
    """
    scores = trained[(trained["row"] == row) & (trained["start"] == start)]
    if scores.empty:
        raise NotMeasured(f"row {row} has no result at its trained lengths")
    seeds = tuple(scores.loc[scores["accuracy"] >= gate, "seed"].tolist())
    if 2 * len(seeds) <= len(scores):
        ends = [
            int(1000 * end) / 10 for end in (scores["accuracy"].min(), scores["accuracy"].max())
        ]
        raise NotLearned(
            f"{len(seeds)} of {len(scores)} seeds of {row} reach {100 * gate:g}% at their trained "
            f"lengths {describe_steps(runs[row])} ({ends[0]:g} to {ends[1]:g}%)"
        )
    return Learned(row, seeds, len(scores))


def describe_steps(run: Run) -> str:
    """Return after how many steps a row is as it is."""
    return f"after {run.training.steps:,} steps"


def select_learned(table: pd.DataFrame, learned: list[Learned]) -> pd.DataFrame:
    """Return a table without the seeds of these rows that have not learned."""
    for row, seeds, _ in learned:
        table = table[(table["row"] != row) | table["seed"].isin(seeds)]
    return table
