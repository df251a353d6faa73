"""The seeds of a row with `batched_seeds`, in groups that are trained side by side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from carry.experiments.run import Run
from carry.models.system import System
from carry.training.batched.network import check_system
from carry.training.batched.trainer import BatchedTrainer
from carry.training.checkpoint import describe_scores, save_weights, write_curve

# Matrix products of another number of models round differently, so the groups depend on the number
# of seeds only, never on the number of cores.
GROUPS = 2


def list_groups(run: Run) -> list[range]:
    """Return the seeds of each group of a run; refuse one that cannot be trained this way."""
    check_system(System(run))
    groups = [range(run.seeds)[start::GROUPS] for start in range(GROUPS)]
    return [seeds for seeds in groups if seeds]


def train_group(report: Callable[..., None], folder: Path, run: Run, seeds: range) -> None:
    """Train some seeds as one computation, and write their files; see `train_seed`.

    The learning curves of all seeds are one table.
    """
    steps = run.training.steps
    file = folder / "checkpoints" / f"group_{seeds[0]}.safetensors"
    trainer = BatchedTrainer(run, seeds, file)
    report(trainer.step / steps)
    trainer.train(lambda seed, step, *scores: report(step / steps, describe_scores(*scores)))
    for seed, weights in zip(seeds, trainer.weights(), strict=True):
        path = folder / f"seed_{seed}.safetensors"
        save_weights(path, weights, run, seed, trainer.step, "fp32")
    write_curve(folder, pd.DataFrame(trainer.curve))
