"""All seeds of a run: trained side by side, and kept."""

from __future__ import annotations

import json
import shutil
import statistics
from pathlib import Path
from typing import Any

import pandas as pd

from carry import processes
from carry.config import paths
from carry.config.run_settings import Run
from carry.data.training_batches import summarise_training_set, training_set_table
from carry.models.system import System
from carry.progress import progress_bar
from carry.training import checkpoint
from carry.training.batched.trainer import BatchedTrainer
from carry.training.loop import Trainer, save_snapshots, save_weights

KEPT = 1_000_000  # problems of a named set that are written out; any number can be drawn again


def train_seeds(run: Run, seeds: int | None = None) -> pd.DataFrame:
    """Train every seed of a run, or go on where it was stopped, and keep weights and curves.

    Writes `seed_N.safetensors`, `curves.parquet`, DVCLive's `live/seed_N/` (but for seeds that are
    trained together, which are many), `run.json`, a fixed data set's `problems.parquet` (of more
    than `KEPT` problems of a named set `problems.json`, a summary) and `snapshots_N.safetensors`
    where some are kept into the run's folder under data/, each seed's at its end, from checkpoints
    that outlive a kill.

    Returns:
        The learning curves: one row per seed and scored step.

    Raises:
        SettingsError: for settings that do not fit, before anything is trained.
        TrainingDiverged: for a loss that is not a number.
    """
    count = seeds or run.seeds
    held, folder = checkpoint.checkpoint_folder(run), paths.data_path(run.profile, "runs", run.name)
    for other in held.parent.glob(f"{run.name}-*"):
        if other != held:  # of settings or code that are gone
            shutil.rmtree(other)
    system = Trainer(run, 0, None).system  # what does not fit shows here, before any process starts
    train, jobs = _train, [(run, seed, held, folder) for seed in range(count)]
    if run.training.batched_seeds:
        shares = [
            range(count)[start :: processes.count_cores()]
            for start in range(processes.count_cores())
        ]
        train, jobs = _train_together, [(run, of, held, folder) for of in shares if of]
    with progress_bar(count * run.training.steps, run.name) as shown:
        curves = pd.concat(
            processes.run_jobs(train, jobs, _Progress(shown, count).report), ignore_index=True
        )
    with paths.write_atomically(folder / "curves.parquet") as draft:
        curves.to_parquet(draft, index=False)
    _keep_problems(system, folder)
    with paths.write_atomically(folder / "run.json") as draft:
        draft.write_text(run.model_dump_json(indent=2, exclude={"evaluation"}) + "\n")
    shutil.rmtree(held)
    return curves


def _keep_problems(system: System, folder: Path) -> None:
    """Write the data set that all seeds have learned from, if they have one, or a summary."""
    of, training = system.run.data_set, system.run.training
    if of is not None and training.examples > KEPT:
        with paths.write_atomically(folder / "problems.json") as draft:
            draft.write_text(json.dumps(summarise_training_set(system), indent=2) + "\n")
    elif training.examples is not None:
        with paths.write_atomically(folder / "problems.parquet") as draft:
            training_set_table(system).to_parquet(draft, index=False)


def _train(report: Any, run: Run, seed: int, held: Path, folder: Path) -> pd.DataFrame:
    """Train one seed and write its weights and its DVCLive folder; return its learning curve."""
    trainer = Trainer(run, seed, held / f"seed_{seed}.safetensors")
    trainer.train(lambda *news: report(seed, *news))
    trainer.write(folder / f"seed_{seed}.safetensors")
    if trainer.snapshots:
        save_snapshots(folder / f"snapshots_{seed}.safetensors", trainer.snapshots)
    from dvclive import Live  # here, because it takes a second to import

    place = str(folder / "live" / f"seed_{seed}")
    with Live(place, save_dvc_exp=False, dvcyaml=None, report=None) as live:
        for row in trainer.curve:
            live.step = row["step"]
            for name in ("loss", "exact", "rate"):
                live.log_metric(name, row[name])
            live.make_summary()
    return _labelled(pd.DataFrame(trainer.curve).assign(seed=seed), run)


def _train_together(report: Any, run: Run, seeds: range, held: Path, folder: Path) -> pd.DataFrame:
    """Train some seeds as one computation and write their weights; return their learning curves."""
    trainer = BatchedTrainer(run, seeds, held / f"seeds_{seeds[0]}_{len(seeds)}.safetensors")
    trainer.train(report)
    for seed, weights in zip(seeds, trainer.weights(), strict=True):
        path = folder / f"seed_{seed}.safetensors"
        save_weights(path, weights, run, seed, trainer.step, "fp32")
    return _labelled(pd.DataFrame(trainer.curve), run)


def _labelled(curve: pd.DataFrame, run: Run) -> pd.DataFrame:
    names = {"row": run.name, "profile": run.profile}
    return curve.assign(**names)[[*names, "seed", *curve.columns.drop("seed")]]


class _Progress:
    """One bar for all seeds: steps done of all, and the middle seed's loss and score."""

    def __init__(self, shown: Any, count: int) -> None:
        self.shown, self.latest = shown, dict.fromkeys(range(count), (0, float("nan"), 0.0))

    def report(self, seed: int, step: int, loss: float, exact: float) -> None:
        self.latest[seed] = (step, loss, exact)
        _, losses, scores = zip(*self.latest.values(), strict=True)
        self.shown.set_postfix_str(
            f"loss {statistics.median(losses):.3f}, exact {statistics.median(scores):.0%}",
            refresh=False,
        )
        self.shown.update(sum(step for step, _, _ in self.latest.values()) - self.shown.n)
