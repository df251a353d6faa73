"""Starts of ids in evaluation: the papers' start, and the mean over all.

Ids that stand for a place count from a start. Training draws it; the papers evaluate from id 1. The
row names its starts (`evaluation.starts`), and tables have their names in the column `start`:

    1, 2, ...   this id; 1 is the papers' protocol
    all         next-token probabilities averaged over all starts (`decoding.list_first_ids`)
    window      id 1, and attention only to ids as near as in problems of the trained lengths
                (`System.read_from`)

They are different protocols: a figure or a claim has one of them, or sets them side by side. A
problem too long for a start has the last one from which it fits. Ids that do not depend on a start,
or that no table limits, have the one start 1.

The first start of a row is scored on all problems. The others are scored on a fifth, and off the
grid on at least 20 of a cell (`choose_part`): a mean over starts needs a pass for each of them, of
which there are at most `MOST_STARTS`.
"""

from __future__ import annotations

import pandas as pd
import torch

from carry.evaluation.decoding import MOST_STARTS, spread_evenly
from carry.experiments.run import Run
from carry.models.system import System

PART = 5  # further starts are scored on one problem in PART
LEAST = 20  # problems of a cell off the grid, for further starts


def list_single_starts(system: System, digits: int, most: int) -> list[int]:
    """Return at most `most` ids from which problems of sizes up to (digits, digits) fit all tables.

    They are even, and the first is 1; it is the only one of a model without a table.

    >>> from carry.experiments.resolve import make_run
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


def choose_part(questions: pd.DataFrame) -> pd.DataFrame:
    """Return the problems for further starts: a fifth of each cell, evenly, and at least one.

    Of cells of the grid with a single problem, a fifth is chosen. Off the grid, whose cells are
    pooled into regions, they are at least 20, or all if there are fewer.

    >>> table = pd.DataFrame({"set": "grid", "i": [1] * 10 + [2, 3], "j": 1})
    >>> choose_part(table).index.tolist()
    [0, 5, 11]
    >>> [len(choose_part(pd.DataFrame({"set": ["equal"] * n, "i": 1, "j": 1})))
    ...  for n in (9, 30, 200)]
    [9, 20, 40]
    """
    cells = questions.groupby(["set", "i", "j"])["set"]
    size, in_grid = cells.transform("size"), questions["set"] == "grid"
    least = size.clip(upper=LEAST).where(~in_grid, 1)
    wanted = (-(-size // PART)).clip(lower=least)
    # Each row and each column of the grid has a fifth of its cells.
    skipped = in_grid & (size == 1) & ((questions["i"] + 2 * questions["j"]) % PART > 0)
    return questions[(cells.cumcount() * wanted % size < wanted) & ~skipped]


def count_passes(run: Run) -> float:
    """Return the passes for a problem of trained length, from all starts and on average.

    >>> from carry.experiments.resolve import make_run
    >>> settings = {"task": {"name": "addition"}, "training": {"digits": 30}}
    >>> coupled = {"ids": "coupled", "encoding": "learned", "limit": 40}
    >>> runs = [make_run(settings | {"positions": ids}) for ids in ([], [coupled])]
    >>> [count_passes(run) for run in runs]  # from 1, and from "all", which are nine
    [1.0, 2.8]
    """
    system = System(run, device="meta")
    count = len(list_single_starts(system, run.training.digits, MOST_STARTS))
    starts = system.distinct_starts(run.evaluation.starts)
    passes = [count if start == "all" else 1 for start in starts]
    return passes[0] + sum(passes[1:]) / PART
