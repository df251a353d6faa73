"""The training of seeds as jobs: from settings and a seed to weights and learning curves."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from carry.experiments.run import Run
from carry.jobs import Job, run_jobs, store
from carry.models.identity import identify
from carry.training.checkpoint import describe_scores, save_snapshots, write_curve
from carry.training.cost import count_training_operations
from carry.training.loop import Trainer

# The time (`time.time()`) at which trainings end with a checkpoint; `carry run --minutes` sets it.
DEADLINE = "CARRY_DEADLINE"
# Of the result table with the learning curves.
COLUMNS = {"curves": ("row", "scale", "seed", "step", "loss", "exact", "rate", "heads")}


def list_training_jobs(run: Run, seeds: Sequence[int] | None = None) -> list[tuple[Job, list[int]]]:
    """Return the jobs that train seeds of a run (default: all), each with the seeds that it trains.

    With `batched_seeds` a job trains a group of seeds of the run, also those that nobody asked for.
    """
    seeds = range(run.seeds) if seeds is None else seeds
    modules = ("carry.training.loop", *run.module_names())
    identity = json.dumps(identify(run), sort_keys=True)
    cost = count_training_operations(run)
    if not run.training.batched_seeds:
        return [
            (Job(f"{run.name}, seed {seed}", "train", train_seed, (run, seed),
                 f"{identity} {seed}", modules, cost), [seed])
            for seed in seeds
        ]  # fmt: skip
    # By name, so that the analyses of other rows do not depend on the code of batched seeds.
    batched = importlib.import_module("carry.training.batched.trainer")
    return [
        (Job(f"{run.name}, seeds {group[0]} to {group[-1]}", "train", batched.train_group,
             (run, group), f"{identity} {[*group]}", modules, cost * len(group)), [*group])
        for group in batched.list_groups(run)
        if {*group} & {*seeds}
    ]  # fmt: skip


def train_runs(runs: Sequence[Run], seeds: Sequence[int] | None = None, label: str = "") -> Any:
    """Train seeds of runs (default: all), in parallel; keep what is trained already.

    Returns:
        The learning curves as a table: one line for each row, seed and scored step.

    Raises:
        SettingsError: for settings that do not fit; for a seed that another process trains.
        TrainingDiverged: for a loss that is not finite.
    """
    import pandas as pd  # here, because `find_trained` needs no pipeline

    jobs = [(run, job) for run in runs for job, _ in list_training_jobs(run, seeds)]
    places = run_jobs([job for _, job in jobs], label or runs[0].name)
    curves = [
        pd.read_parquet(place / "curve.parquet").assign(row=run.name, scale=run.scale)
        for (run, _), place in zip(jobs, places, strict=True)
    ]
    table = pd.concat(curves, ignore_index=True)
    if seeds is not None:
        table = table[table["seed"].isin(seeds)]
    # Only models whose heads are halved count them.
    return table.reindex(columns=COLUMNS["curves"]).astype({"heads": float})


def find_trained(run: Run, seed: int) -> Path | None:
    """Return the folder of the store with the weights of a seed; None if it is not trained here."""
    for job, _ in list_training_jobs(run, [seed]):
        if not store.find_fault(job.place):
            return job.place
    return None


def train_seed(report: Callable[..., None], folder: Path, run: Run, seed: int) -> None:
    """Train one seed, or continue from its checkpoint in `folder`, and write its files there.

    The files are `seed_N.safetensors`, the snapshots as `snapshots_N.safetensors`, and the learning
    curve as `curve.parquet`.

    Args:
        report: called with the share of the training that is done, and its last scores in words.
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
        save_snapshots(folder / f"snapshots_{seed}.safetensors", trainer.snapshots)
    write_curve(folder, [{**point, "seed": seed} for point in trainer.curve])
