"""How far a model goes: problems a thousand times as long as those that it was trained on.

One seed is asked what its row says (`evaluation.reach`), some problems of each size. All seeds are
scored at lengths that are near, see `carry.evaluation.trained_models`.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import torch

from carry import processes, progress
from carry.analyses import ANY
from carry.config import run_settings
from carry.data.batch import Batch
from carry.evaluation import trained_models
from carry.evaluation.intervals import add_interval
from carry.evaluation.scoring import MOST_SCORES
from carry.models.system import System
from carry.models.teacher_forcing import teacher_forced_pass
from carry.randomness import stream
from carry.training.precision import training_in

TASK = ANY
TOKENS = 400_000  # of problems that are drawn together, about
SEED = 0


def tables(row: str, profile: str) -> dict[str, pd.DataFrame]:
    """Ask one seed of a row problems of all sizes that it names.

    Returns:
        reach: for sizes `i` and `j`, how many of `n` problems are wholly right (`exact`), that as
            `accuracy` with its interval (`low`, `high`), how many `tokens` a problem has and how
            many of all response tokens are `wrong` given the truth before them; with row, profile,
            seed, and the digits it was `trained` to.

    Raises:
        SettingsError: if there are no weights.
    """
    system = trained_models.load_trained(profile, row, SEED)
    jobs = []
    for i, j, count in system.run.evaluation.reach:
        long = system.format.write(system.task.sample(torch.tensor([[i, j]]), stream(0, "reach")))
        parts = min(count, max(1, count * int(long.length) // TOKENS))
        jobs += [(profile, row, i, j, part, len(some)) for part, some
                 in enumerate(torch.arange(count).chunk(parts))]  # fmt: skip
    total = sum(count for *_, count in jobs)
    with progress.progress_bar(total, row, unit="problem") as shown:
        found = pd.DataFrame(processes.run_jobs(_ask, jobs, shown.update))
    sizes = found.groupby(["i", "j"], sort=False)
    whole = sizes.agg({"n": "sum", "exact": "sum", "wrong": "sum", "tokens": "max"}).reset_index()
    names = {"row": row, "profile": profile, "seed": SEED}
    return {"reach": add_interval(whole.assign(**names, trained=system.run.training.digits))}


def _ask(
    report: Any, profile: str, row: str, i: int, j: int, part: int, count: int
) -> dict[str, int]:
    """Ask some problems of one size, which are drawn for this part alone."""
    system = trained_models.load_trained(profile, row, SEED)
    name = run_settings.load_run(row, profile).task["name"]
    cells = torch.tensor([[i, j]]).expand(count, -1)
    generator = stream(0, "reach", name, i, j, part)
    batch = system.format.write(system.task.sample(cells, generator))
    exact, wrong = right(system, batch, report)
    tokens = int(batch.length.max())
    return {"i": i, "j": j, "n": count, "exact": exact, "wrong": wrong, "tokens": tokens}


def right(system: System, batch: Batch, report: Any) -> tuple[int, int]:
    """Return how many problems are wholly right, and how many response tokens are wrong in all.

    Args:
        report: called with how many have been asked since its last call.
    """
    exact = wrong = 0
    at_once = max(1, MOST_SCORES // batch.tokens.shape[1] ** 2)
    with training_in("fp32", torch.device("cpu")):
        for rows in torch.arange(len(batch)).split(at_once):
            seen = teacher_forced_pass(system, batch[rows].trim())
            exact, wrong = exact + int(seen.exact.sum()), wrong + int(seen.wrong.sum())
            report(len(rows))
    return exact, wrong
