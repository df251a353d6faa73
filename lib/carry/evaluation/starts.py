"""Starts of ids in evaluation: the papers' start, the best single one, and the mean over all.

Ids that stand for a place count from a start. Training draws it; the papers evaluate from id 1. The
row names its starts (`evaluation.starts`), and tables have their names in the column `start`:

    1, 2, ...   this id; 1 is the papers' protocol
    best        one id for each model, the best on held-out problems of trained lengths
    all         next-token probabilities averaged over all starts (`decoding.list_first_ids`)

A problem too long for the best id starts at the last one from which it fits. Ids that do not depend
on a start, or that no table limits, have the one start 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pandas as pd
import torch

from carry.data import problem_sets
from carry.data.training_batches import draw_held_out
from carry.evaluation.decoding import MOST_STARTS, spread_evenly
from carry.evaluation.intervals import pool_cells
from carry.evaluation.scoring import score_system
from carry.models.system import Start, System

PROBLEMS = 256  # held-out problems that choose the best start

COLUMNS = {
    "starts": (
        "row", "profile", "seed", "trained", "id", "n", "exact", "accuracy", "low", "high",
        "chosen",
    )
}  # fmt: skip


def resolve_starts(
    system: System, starts: Sequence[int | Literal["best", "all"]]
) -> tuple[dict[str, Start], pd.DataFrame]:
    """Return the distinct starts by name, and the table of `score_starts` if "best" is one.

    >>> from carry.config.run_settings import make_run
    >>> resolve_starts(System(make_run({"task": {"name": "addition"}})), [1, "best", "all"])[0]
    {'1': 1}
    """
    named = {str(start): start for start in system.distinct_starts(starts)}
    if "best" not in named:
        return named, pd.DataFrame(columns=COLUMNS["starts"])
    candidates = score_starts(system)
    best = candidates.loc[candidates["chosen"], "id"]
    return {**named, "best": int(best.iloc[0])}, candidates


def choose_best_start(system: System) -> int:
    """Return the best single start of a model on held-out problems; 1 if all give the same ids."""
    return resolve_starts(system, ["best"])[0].get("best", 1)


def score_starts(system: System) -> pd.DataFrame:
    """Score a model on held-out problems of trained lengths, from single starts.

    The problems are drawn from the stream "starts" as in training, or are the validation problems
    of its data set; reported problems are none of them, but for chance among the shortest. All
    schemes begin at the same id. The starts are those from which problems of the trained lengths
    fit the tables: at most `MOST_STARTS`, evenly.

    Returns:
        starts: for each first `id`, how many of `n` answers are `exact`, with an interval, and
            whether it is `chosen`: the best one, and of equal ones the smallest.

    >>> from carry.config.run_settings import make_run
    >>> from carry.evaluation.mock_models import Oracle
    >>> positions = [{"ids": "abacus", "encoding": "learned", "table": 6}]
    >>> settings = {"task": {"name": "addition"}, "positions": positions}
    >>> settings |= {"training": {"digits": 3}, "evaluation": {"digits": 5}}
    >>> score_starts(Oracle(make_run(settings)))[["id", "exact", "chosen"]].values.tolist()
    [[1, 256, True], [2, 256, False], [3, 256, False]]
    """
    run = system.run
    ids = list_single_starts(system, run.training.digits, MOST_STARTS)
    problems = draw_held_out(run, system.task, "starts", PROBLEMS)
    sizes = problems.lengths.amax(1, keepdim=True).expand(-1, 2)  # only to score by length
    table = problem_sets.to_table("held out", sizes, problems, system.task)
    cells = score_system(system, table, ids, run.evaluation.recurrences)[0]
    return choose_start(pool_starts(cells))


def list_single_starts(system: System, digits: int, most: int) -> list[int]:
    """Return at most `most` ids from which problems of sizes up to (digits, digits) fit all tables.

    They are even, and the first is 1; it is the only one of a model without a table.

    >>> from carry.config.run_settings import make_run
    >>> positions = [{"ids": "coupled", "encoding": "learned", "limit": 40}]
    >>> system = System(make_run({"task": {"name": "addition"}, "positions": positions}))
    >>> list_single_starts(system, 30, 16), list_single_starts(system, 10, 4)
    ([1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 10, 20, 29])
    """
    with torch.device("cpu"):  # sizes are numbers
        extent = system.format.extent(digits)
    ends = [
        system.last_start(index, scheme.required_ids(extent))
        for index, scheme in enumerate(system.schemes)
        if scheme.accepts_start
    ]
    last = min([end for end in ends if end is not None], default=1)
    return spread_evenly(last, min(most, last))


def pool_starts(cells: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """Return correct answers by first `id`, in place of the column `start`, and by more columns."""
    cells = cells.assign(id=cells["start"].astype(int))
    return pool_cells(cells, ["row", "profile", "seed", "trained", *by, "id"])


def choose_start(table: pd.DataFrame) -> pd.DataFrame:
    """Mark the id with the most exact answers as `chosen`; of equal ones the smallest.

    >>> choose_start(pd.DataFrame({"id": [4, 1, 7], "exact": [9, 3, 9]}))["chosen"].tolist()
    [True, False, False]
    """
    best = table.loc[table["exact"] == table["exact"].max(), "id"].min()
    return table.assign(chosen=table["id"] == best)
