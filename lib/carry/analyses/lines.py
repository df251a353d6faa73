"""Sums inside a line: right or not, by how much text stands before them and how many there are.

Each seed is asked lines longer than those that it was trained on, in three ways: longer numbers,
more text, more sums. How long its numbers are, and how many lines it is asked of each kind, its row
says (`evaluation.reach`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd
import torch

from carry import processes, progress
from carry.analyses import reach
from carry.config.settings import SettingsError
from carry.evaluation import trained_models
from carry.evaluation.intervals import add_interval
from carry.formats.line import Line
from carry.models.system import System
from carry.randomness import stream

TASK = "addition"


class Around(NamedTuple):
    """What a sum stands in: characters before each sum, and the sums of the line."""

    characters: int
    sums: int


AROUND = (
    *(Around(characters, 1) for characters in (0, 10, 100, 1000)),
    *(Around(0, sums) for sums in (2, 5, 20)),
    Around(100, 5),
)


def tables(row: str, profile: str) -> dict[str, pd.DataFrame]:
    """Ask all seeds of a row sums in lines of all kinds.

    Returns:
        lines: for each seed, number of `digits` of both operands, `characters` before each sum and
            number of `sums` in the line, how many of `n` are wholly right (`exact`), that as
            `accuracy` with its interval (`low`, `high`); with row, profile, and the digits it was
            `trained` to.

    Raises:
        SettingsError: if there are no weights, or for a row of another format.
    """
    asked = trained_models.load_trained(profile, row).run
    jobs = [
        (profile, row, seed, max(i, j), around, count)
        for seed in range(asked.seeds)
        for i, j, count in asked.evaluation.reach
        for around in AROUND
    ]
    with progress.progress_bar(sum(count for *_, count in jobs), row, unit="problem") as shown:
        found = pd.DataFrame(processes.run_jobs(_ask, jobs, shown.update))
    table = found.assign(row=row, profile=profile, trained=asked.training.digits)
    return {"lines": add_interval(table)}


def _ask(
    report: Any, profile: str, row: str, seed: int, digits: int, around: Around, count: int
) -> dict[str, int]:
    system = trained_models.load_trained(profile, row, seed)
    exact = right(system, digits, around, count, report)
    return {"seed": seed, "digits": digits, **around._asdict(), "n": count, "exact": exact}


def right(
    system: System, digits: int, around: Around, count: int, report: Any = lambda asked: None
) -> int:
    """Return how many of some sums are wholly right, the same sums for all models.

    Args:
        report: called with how many have been asked since its last call.

    Raises:
        SettingsError: for a model that reads no lines.

    >>> from carry.evaluation.mock_models import Oracle
    >>> from carry.config.run_settings import make_run
    >>> oracle = Oracle(make_run({"task": {"name": "addition"}, "format": {"name": "line"}}))
    >>> right(oracle, 3, Around(characters=5, sums=3), count=7)
    7
    """
    if not isinstance(system.format, Line):
        name = system.run.format.get("name", "expression")
        raise SettingsError(
            f"runs.{system.run.name}.format.name: {name!r} does not fit 'lines'; expected 'line'"
        )
    characters, sums = around
    generator = stream(0, "lines", digits, characters, sums)
    problems = system.task.sample(torch.tensor([[digits, digits]] * count), generator)
    form = system.format.model_copy(update={"text": [characters] * 2, "sums": [sums] * 2})
    batch = form.write(problems)
    exact, _ = reach.right(system, batch, report)
    return exact
