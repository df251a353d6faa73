"""The gate of a claim: which models have learned the lengths that they were trained on.

A model that fails at its trained lengths says nothing about longer problems. It is counted as not
learned, and no claim is refuted by it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd

from carry.experiments.run import Run
from carry.models.identity import identify


class NotMeasured(Exception):
    """The tables lack what a claim needs; the text names it."""


class MissingRow(NotMeasured):
    """There are no results of this row."""

    def __init__(self, row: str) -> None:
        super().__init__(f"row {row} is missing")
        self.row = row


class NotLearned(Exception):
    """Half of the models of a row, or more, have not learned; the text has their steps."""


class Learned(NamedTuple):
    """The seeds of a row that have learned its trained lengths, of all its seeds."""

    row: str
    seeds: tuple[int, ...]
    total: int


def find_start(cells: pd.DataFrame, row: str, start: str) -> str:
    """Return the start under which a table has a row; without a table of ids that is always 1.

    Raises:
        MissingRow: if the table lacks the row.
        NotMeasured: if the row was not evaluated from this start.
    """
    starts = [*cells.loc[cells["row"] == row, "start"].unique()]
    if not starts:
        raise MissingRow(row)
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
            f"lengths{describe_steps(row, runs)} ({ends[0]:g} to {ends[1]:g}%)"
        )
    return Learned(row, seeds, len(scores))


def check_start(row: str, start: str, runs: dict[str, Run]) -> None:
    """Refuse a start that a row's evaluation leaves out; start 1 would stand for it.

    Raises:
        NotMeasured: if its settings have other starts.
    """
    if start not in map(str, runs[row].evaluation.starts):
        raise NotMeasured(f"row {row} has no result from start {start}")


def check_models(rows: list[str], runs: dict[str, Run]) -> None:
    """Refuse to compare two rows that are one model, which would be alike for no other reason.

    Raises:
        NotMeasured: if they are.
    """
    settings = [identify(runs[row]) for row in rows]
    for sections in settings:
        sections.get("training", {}).pop("stream", None)  # other examples of the same kind
        model = sections["model"]
        if model.get("layers", 1) == 1 and model.get("injection") == "entrance":  # the only layer
            model["injection"] = "every_layer"
    if len(settings) == 2 and settings[0] == settings[1]:
        raise NotMeasured(f"rows {rows[0]} and {rows[1]} are one model")


def check_steps(row: str, least: int, runs: dict[str, Run]) -> None:
    """Refuse a verdict on a row that was trained for fewer steps than the claim wants.

    Raises:
        NotLearned: if it was.
    """
    if runs[row].training.steps < least:
        raise NotLearned(f"{row}{describe_steps(row, runs)}; a verdict wants {least:,}")


def describe_footing(run: Run) -> dict[str, Any]:
    """Return the settings that two rows on one footing share, but for their steps.

    >>> from carry.experiments.resolve import make_run
    >>> model = {"layers": 1, "recurrences": 3, "width": 64}
    >>> run = make_run({"task": {"name": "addition"}, "model": model})
    >>> list(describe_footing(run).values())
    [3, 64, 'adamw', 0.001, 128, 'fresh']
    """
    training, model = run.training, run.model
    return {
        "depth": model.get("layers", 1) * model.get("recurrences", 1),
        "width": model.get("width"),
        "optimizer": training.optimizer,
        "rate": training.learning_rate,
        "batch": training.batch,
        "problems": training.examples or "fresh",
    }


def describe_steps(row: str, runs: dict[str, Run]) -> str:
    """Return after how many steps a row is as it is."""
    return f" after {runs[row].training.steps:,} steps"


def select_learned(table: pd.DataFrame, learned: list[Learned]) -> pd.DataFrame:
    """Return a table without the seeds of these rows that have not learned."""
    for row, seeds, _ in learned:
        table = table[(table["row"] != row) | table["seed"].isin(seeds)]
    return table
