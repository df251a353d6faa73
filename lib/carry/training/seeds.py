"""The training of all seeds of a row, and the files that it writes."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import filelock
import pandas as pd

from carry import processes
from carry.config import paths
from carry.config.run_settings import Run
from carry.config.settings import SettingsError
from carry.data.training_batches import summarise_training_set, tabulate_training_set
from carry.progress import progress_bar
from carry.tasks import build_task
from carry.training import checkpoint
from carry.training.loop import Trainer

# Of a larger data set only a summary is written: its problems can be drawn again.
MAX_WRITTEN_PROBLEMS = 1_000_000

# Of the result table with the learning curves.
COLUMNS = {"curves": ("row", "profile", "seed", "step", "loss", "exact", "rate")}


def train_seeds(run: Run, seeds: int | None = None) -> pd.DataFrame:
    """Train every seed of a run (default: `run.seeds`), or continue from the checkpoints.

    The run's folder under data/ then has, for each seed, `seed_N.safetensors`, the snapshots as
    `snapshots_N.safetensors`, and DVCLive's `live/seed_N/` (not with `batched_seeds`); for all
    seeds `curves.parquet`, `run.json`, and a fixed data set as `problems.parquet`, or above
    `MAX_WRITTEN_PROBLEMS` its summary `problems.json`.

    Returns:
        The learning curves: one row for each seed and scored step.

    Raises:
        SettingsError: for settings that do not fit, before training; for a row that another
            process trains.
        TrainingDiverged: for a loss that is not finite.
    """
    checkpoints = checkpoint.find_checkpoint_folder(run)
    with lock_row(run, checkpoints.parent):
        return _train_seeds(run, seeds or run.seeds, checkpoints)


@contextmanager
def lock_row(run: Run, folder: Path) -> Iterator[None]:
    """Hold the lock of a row in its folder of checkpoints.

    Raises:
        SettingsError: with the id of the process that holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock, owner = filelock.FileLock(folder / "lock"), folder / "pid"
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        pid = owner.read_text(encoding="utf-8").strip() if owner.exists() else "unknown"
        raise SettingsError(
            f"runs.{run.name}: process {pid} trains this row in profile {run.profile!r}; expected "
            "it to end first"
        ) from None
    try:
        owner.write_text(f"{os.getpid()}\n", encoding="utf-8")
        yield
    finally:
        lock.release()


def _train_seeds(run: Run, count: int, checkpoints: Path) -> pd.DataFrame:
    folder = paths.data_path(run.profile, "runs", run.name)
    _remove_remains(checkpoints, folder)
    if run.training.batched_seeds:  # imported by name, so that other rows do not depend on it
        batched = importlib.import_module("carry.training.batched.groups")
        work, jobs = batched.train_group, batched.list_jobs(run, count, checkpoints, folder)
    else:
        Trainer(run, 0, None)  # refuses settings that do not fit before any process starts
        work, jobs = train_seed, [(run, seed, checkpoints, folder) for seed in range(count)]
    with progress_bar(count * run.training.steps, run.name, smoothing=0) as bar:
        curves = processes.run_jobs(work, jobs, _Progress(bar).report)
    table = pd.concat(curves, ignore_index=True)
    table = table.assign(row=run.name, profile=run.profile)
    names = ["row", "profile", "seed"]
    table = table[[*names, *table.columns.drop(names)]]
    with paths.write_atomically(folder / "curves.parquet") as draft:
        table.to_parquet(draft, index=False)
    _write_problems(run, folder)
    with paths.write_atomically(folder / "run.json") as draft:
        settings = run.model_dump_json(indent=2, exclude={"evaluation"})
        draft.write_text(f"{settings}\n", encoding="utf-8")
    # Renamed first: a kill during the removal then leaves no incomplete set of checkpoints.
    shutil.rmtree(checkpoints.rename(checkpoints.with_name("removed")))
    return table


def train_seed(
    report: Callable[..., None], run: Run, seed: int, checkpoints: Path, folder: Path
) -> pd.DataFrame:
    """Train one seed, write its weights and its DVCLive folder, return its learning curve."""
    trainer = Trainer(run, seed, checkpoints / f"seed_{seed}.safetensors")
    report(seed, trainer.step, None, None)
    trainer.train(lambda *values: report(seed, *values))
    trainer.save_weights(folder / f"seed_{seed}.safetensors")
    if trainer.snapshots:
        checkpoint.save_snapshots(folder / f"snapshots_{seed}.safetensors", trainer.snapshots)
    from dvclive import Live  # here, because the import takes a second

    place = str(folder / "live" / f"seed_{seed}")
    with Live(place, save_dvc_exp=False, dvcyaml=None, report=None) as live:
        for row in trainer.curve:
            live.step = row["step"]
            for name in ("loss", "exact", "rate"):
                live.log_metric(name, row[name])
            live.make_summary()
    return pd.DataFrame(trainer.curve).assign(seed=seed)


def _remove_remains(checkpoints: Path, folder: Path) -> None:
    """Remove checkpoints of earlier settings or code, and drafts that a kill has left."""
    for path in checkpoints.parent.iterdir():
        if path.is_dir() and path != checkpoints:
            shutil.rmtree(path)
    for path in folder.glob(".*-*"):
        path.unlink()


def _write_problems(run: Run, folder: Path) -> None:
    """Write the fixed data set of a run, or its summary, if the run has one."""
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


class _Progress:
    """The progress bar of a row: the steps of all seeds, the medians of their last scores."""

    def __init__(self, bar: Any) -> None:
        self.bar, self.latest = bar, {}
        self._show()

    def report(self, seed: int, step: int, loss: float | None, exact: float | None) -> None:
        """Show the state of one seed; its first report tells the step of its checkpoint."""
        if seed not in self.latest and not self.bar.disable:
            self.bar.initial += step  # an earlier process did them: they say nothing about speed
        self.latest[seed] = (step, loss, exact)
        self._show()
        self.bar.update(sum(step for step, _, _ in self.latest.values()) - self.bar.n)

    def _show(self) -> None:
        scores = [scores for _, *scores in self.latest.values() if scores[0] is not None]
        text = "loss –, exact –"
        if scores:
            loss, exact = map(statistics.median, zip(*scores, strict=True))
            text = f"loss {loss:.3f}, exact {exact:.0%}"
        self.bar.set_postfix_str(text, refresh=not self.latest)
