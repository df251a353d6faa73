"""The seeds of a row with `batched_seeds`, in groups that are trained side by side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from carry.config.run_settings import Run
from carry.models.system import System
from carry.training import checkpoint
from carry.training.batched.network import check_system
from carry.training.batched.trainer import BatchedTrainer

# Matrix products of another number of models round differently, so the groups depend on the number
# of seeds only, never on the number of cores.
GROUPS = 2


def list_jobs(run: Run, count: int, checkpoints: Path, folder: Path) -> list[tuple]:
    """Return the arguments of `train_group` for each group of `count` seeds.

    Raises:
        SettingsError: for a run that cannot be trained this way.
    """
    check_system(System(run))
    groups = [range(count)[start::GROUPS] for start in range(GROUPS)]
    return [
        (run, seeds, checkpoints / f"group_{index}.safetensors", folder)
        for index, seeds in enumerate(groups)
        if seeds
    ]


def train_group(
    report: Callable[..., None], run: Run, seeds: range, checkpoint_path: Path, folder: Path
) -> pd.DataFrame:
    """Train some seeds as one computation, write their weights, return their learning curves."""
    trainer = BatchedTrainer(run, seeds, checkpoint_path)
    for seed in seeds:
        report(seed, trainer.step, None, None)
    trainer.train(report)
    for seed, weights in zip(seeds, trainer.weights(), strict=True):
        path = folder / f"seed_{seed}.safetensors"
        checkpoint.save_weights(path, weights, run, seed, trainer.step, "fp32")
    return pd.DataFrame(trainer.curve)
