"""Accuracy on problems up to a thousand times as long as those of training.

Seed 0 is scored on the sizes that its row lists (`evaluation.reach`). The evaluation of rows
(`carry.evaluation.jobs`) scores all seeds at shorter lengths.
"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import torch

from carry.analyses import ANY, INTERVAL, LABELS, Report, ignore
from carry.evaluation import trained_models
from carry.evaluation.intervals import add_interval
from carry.evaluation.scoring import list_labels, score
from carry.experiments.run import Run
from carry.models.system import System
from carry.progress import count_progress
from carry.randomness import stream

TASK = ANY
COLUMNS = {
    "reach": ("i", "j", "n", "exact", "wrong", "tokens", *LABELS, "trained", *INTERVAL)
}  # fmt: skip
TOKENS = 400_000  # of the problems of one part, about
SEED = 0


def tables(run: Run, report: Report = ignore) -> dict[str, pd.DataFrame]:
    """Score one seed of a row on problems of all sizes that the row lists, if it lists any.

    Returns:
        reach: for sizes `i` and `j`, how many of `n` responses are `exact`, with `accuracy` and its
            interval (`low`, `high`), the most `tokens` of a problem, and how many of all response
            tokens are `wrong` under teacher forcing.
    """
    if not run.evaluation.reach:
        return {}
    system = trained_models.load_seed(run, SEED)
    parts = [(i, j, part, count) for i, j, total in run.evaluation.reach
             for part, count in enumerate(_split(system, i, j, total))]  # fmt: skip
    tell = count_progress(report, sum(count for *_, count in parts), "problems")
    counts = pd.DataFrame([_score_part(tell, system, *part) for part in parts])
    sums = {"n": "sum", "exact": "sum", "wrong": "sum", "tokens": "max"}
    table = counts.groupby(["i", "j"], sort=False).agg(sums).reset_index()
    return {"reach": add_interval(table.assign(**list_labels(system)))}


def _split(system: System, i: int, j: int, count: int) -> list[int]:
    """Return the numbers of problems of each part, of at most `TOKENS` tokens or one problem."""
    problem = system.task.draw_for_cells(torch.tensor([[i, j]]), stream(0, "reach"))
    length = int(system.format.write(problem).length)
    parts = min(count, max(1, count * length // TOKENS))
    return [len(chunk) for chunk in torch.arange(count).chunk(parts)]


def _score_part(
    tell: Callable[[int], None], system: System, i: int, j: int, part: int, count: int
) -> dict[str, int]:
    """Score some problems of one size; each part has its own random stream."""
    cells = torch.tensor([[i, j]]).expand(count, -1)
    generator = stream(0, "reach", system.run.task["name"], i, j, part)
    problems = system.task.draw_for_cells(cells, generator)
    (start,) = system.distinct_starts(system.run.evaluation.starts[:1])
    scored = score(system, problems, start, tell)
    exact, wrong = int(scored.exact.sum()), int(scored.wrong.sum())
    tokens = int(system.format.write(problems).length.max())
    return {"i": i, "j": j, "n": count, "exact": exact, "wrong": wrong, "tokens": tokens}
