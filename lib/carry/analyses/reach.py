"""Accuracy on problems up to a thousand times as long as those of training.

Seed 0 is scored on the sizes that its row lists (`evaluation.reach`). The evaluation of rows
(`carry.evaluation.jobs`) scores all seeds at shorter lengths.
"""

from __future__ import annotations

import pandas as pd
import torch

from carry.analyses import INTERVAL, LABELS
from carry.evaluation.intervals import add_interval
from carry.evaluation.scoring import score
from carry.models.system import System
from carry.randomness import stream

COLUMNS = {
    "reach": ("i", "j", "n", "exact", "wrong", "tokens", *LABELS, "trained", *INTERVAL)
}  # fmt: skip
TOKENS = 400_000  # of the problems of one part, about
SEED = 0


def tables(system: System) -> dict[str, pd.DataFrame]:
    """Score seed `SEED` on problems of all sizes that its row lists, if it lists any.

    Returns:
        reach: for sizes `i` and `j`, how many of `n` responses are `exact`, with `accuracy` and its
            interval (`low`, `high`), the most `tokens` of a problem, and how many of all response
            tokens are `wrong` under teacher forcing.
    """
    sizes = system.run.evaluation.reach
    if not sizes or system.seed != SEED:
        return {}
    counts = pd.DataFrame(
        _score_part(system, i, j, part, count)
        for i, j, total in sizes
        for part, count in enumerate(_split(system, i, j, total))
    )
    sums = {"n": "sum", "exact": "sum", "wrong": "sum", "tokens": "max"}
    table = counts.groupby(["i", "j"], sort=False).agg(sums).reset_index()
    return {"reach": add_interval(table)}


def _split(system: System, i: int, j: int, count: int) -> list[int]:
    """Return the numbers of problems of each part, of at most `TOKENS` tokens or one problem."""
    problem = system.task.draw_for_cells(torch.tensor([[i, j]]), stream(0, "reach"))
    length = int(system.format.write(problem).length)
    parts = min(count, max(1, count * length // TOKENS))
    return [len(chunk) for chunk in torch.arange(count).chunk(parts)]


def _score_part(system: System, i: int, j: int, part: int, count: int) -> dict[str, int]:
    """Score some problems of one size; each part has its own random stream."""
    cells = torch.tensor([[i, j]]).expand(count, -1)
    generator = stream(0, "reach", system.run.task["name"], i, j, part)
    problems = system.task.draw_for_cells(cells, generator)
    (start,) = system.distinct_starts(system.run.evaluation.starts[:1])
    scored = score(system, problems, start)
    exact, wrong = int(scored.exact.sum()), int(scored.wrong.sum())
    tokens = int(system.format.write(problems).length.max())
    return {"i": i, "j": j, "n": count, "exact": exact, "wrong": wrong, "tokens": tokens}
