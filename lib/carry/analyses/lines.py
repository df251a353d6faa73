"""Accuracy of sums inside a line, by the text before each sum and by the number of sums.

Each seed is scored on lines longer than those of training, in three ways: longer numbers, more
text, more sums. The row lists the lengths of numbers and the number of lines (`evaluation.reach`).
"""

from __future__ import annotations

import copy

import pandas as pd
import torch

from carry.analyses import INTERVAL
from carry.config.settings import SettingsError
from carry.evaluation.intervals import add_interval
from carry.evaluation.scoring import score
from carry.formats.line import Line
from carry.models.system import System
from carry.randomness import stream

TASK = "addition"
COLUMNS = {
    "lines": (
        "seed", "digits", "characters", "sums", "n", "exact", "row", "scale", "trained",
        *INTERVAL,
    )
}  # fmt: skip


SURROUNDINGS = (  # the number of characters before each sum, and of sums in the line
    *((characters, 1) for characters in (0, 10, 100, 1000)),
    *((0, sums) for sums in (2, 5, 20)),
    (100, 5),
)


def tables(system: System) -> dict[str, pd.DataFrame]:
    """Score a model on the last sum of lines with all `SURROUNDINGS`.

    Returns:
        lines: for each number of `digits` of both operands, number of `characters` before
            each sum and number of `sums` in the line, how many of `n` responses are `exact`, with
            `accuracy` and its interval (`low`, `high`).
    """
    counts = []
    for i, j, count in system.run.evaluation.reach:
        for characters, sums in SURROUNDINGS:
            exact = count_exact(system, max(i, j), characters, sums, count)
            sizes = {"digits": max(i, j), "characters": characters, "sums": sums}
            counts.append({**sizes, "n": count, "exact": exact})
    return {"lines": add_interval(pd.DataFrame(counts))}


def count_exact(system: System, digits: int, characters: int, sums: int, count: int) -> int:
    """Count the exact responses to the last sums of lines; all models get the same lines.

    Args:
        characters: of text before each sum.
        sums: in the line.

    Raises:
        SettingsError: for a model of another format than `line`.

    >>> from carry.evaluation.trained_models import load_committed
    >>> system = load_committed("addition_line_rows_relative")
    >>> count_exact(system, 3, characters=5, sums=3, count=7)
    7
    """
    if not isinstance(system.format, Line):
        name = system.run.format.get("name", "expression")
        raise SettingsError(
            f"runs.{system.run.name}.format.name: {name!r} does not fit 'lines'; expected 'line'"
        )
    generator = stream(0, "lines", digits, characters, sums)
    problems = system.task.draw_for_cells(torch.tensor([[digits, digits]] * count), generator)
    around = copy.copy(system)
    around.format = system.format.model_copy(update={"text": [characters] * 2, "sums": [sums] * 2})
    (start,) = system.distinct_starts(system.run.evaluation.starts[:1])
    return int(score(around, problems, start).exact.sum())
