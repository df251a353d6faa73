"""The training of one seed of a row as a job: a function from settings and seed to files.

`carry.training.rows` makes the jobs of rows. This module does not depend on it, so that a change
of how jobs are run repeats no training.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from carry.config import paths
from carry.config.run_settings import Run
from carry.data.training_batches import summarise_training_set, tabulate_training_set
from carry.tasks import build_task
from carry.training import checkpoint
from carry.training.loop import Trainer

# Of a larger data set only a summary is written: its problems can be drawn again.
MAX_WRITTEN_PROBLEMS = 1_000_000
# The time (`time.time()`) at which trainings end with a checkpoint; slices of time set it.
DEADLINE = "CARRY_DEADLINE"


def train_seed(report: Callable[..., None], folder: Path, run: Run, seed: int) -> None:
    """Train one seed, or continue from its checkpoint in `folder`, and write its files there.

    The files are `seed_N.safetensors`, the snapshots as `snapshots_N.safetensors`, the learning
    curve as `curve.parquet`, and with seed 0 those of `write_problems`.

    Args:
        report: called with the share of the training that is done, and its last scores in words.

    Raises:
        SettingsError: for settings that do not fit.
        TrainingDiverged: for a loss that is not finite.
        OutOfTime: at the time of `DEADLINE`, if it is set.
    """
    steps = run.training.steps
    trainer = Trainer(run, seed, folder / "checkpoints" / f"seed_{seed}.safetensors")
    report(trainer.step / steps)
    deadline = os.environ.get(DEADLINE)
    trainer.train(
        lambda step, *scores: report(step / steps, describe_scores(*scores)),
        deadline=float(deadline) if deadline else None,
    )
    trainer.save_weights(folder / f"seed_{seed}.safetensors")
    if trainer.snapshots:
        checkpoint.save_snapshots(folder / f"snapshots_{seed}.safetensors", trainer.snapshots)
    write_curve(folder, pd.DataFrame(trainer.curve).assign(seed=seed))
    if seed == 0:
        write_problems(run, folder)


def describe_scores(loss: float | None, exact: float | None) -> str:
    """Return the last scores of a seed in words; nothing before the first score.

    >>> describe_scores(0.1234, 0.98)
    'loss 0.123, exact 98%'
    """
    return "" if loss is None else f"loss {loss:.3f}, exact {exact:.0%}"


def write_curve(folder: Path, curve: pd.DataFrame) -> None:
    """Write the learning curve of a job."""
    with paths.write_atomically(folder / "curve.parquet") as draft:
        curve.to_parquet(draft, index=False)


def write_problems(run: Run, folder: Path) -> None:
    """Write the fixed data set of a run, if it has one, as `problems.parquet`.

    Of more than `MAX_WRITTEN_PROBLEMS` a summary is written, `problems.json`.
    """
    if run.training.examples is None:
        return
    task = build_task(run.task, f"runs.{run.name}.task")
    if run.data_set is not None and run.training.examples > MAX_WRITTEN_PROBLEMS:
        with paths.write_atomically(folder / "problems.json") as draft:
            summary = json.dumps(summarise_training_set(run, task), indent=2)
            draft.write_text(f"{summary}\n", encoding="utf-8")
    else:
        with paths.write_atomically(folder / "problems.parquet") as draft:
            tabulate_training_set(run, task).to_parquet(draft, index=False)
