"""The seeds of a run side by side: one process each, one thread each."""

from __future__ import annotations

import multiprocessing
import os
import queue
import shutil
import statistics
import threading
from concurrent.futures import Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from carry import paths
from carry.progress import bar
from carry.run import Run
from carry.training import checkpoint
from carry.training.data import fixed_problems
from carry.training.loop import Trainer, save_weights

_reports: Any = None  # a worker's queue to the process that shows progress


def train_seeds(run: Run, seeds: int | None = None) -> pd.DataFrame:
    """Train every seed of a run, or go on where it was stopped, and keep weights and curves.

    Writes `seed_N.safetensors`, `curves.parquet`, DVCLive's `live/seed_N/`, `run.json` and a fixed
    data set's `problems.parquet` into the run's folder under data/, all at the end, from
    checkpoints that outlive a kill.

    Returns:
        The learning curves: one row per seed and scored step.

    Raises:
        SettingsError: for settings that do not fit, before anything is trained.
        TrainingDiverged: for a loss that is not a number.
    """
    count = seeds or run.seeds
    held = checkpoint.folder(run)
    for other in held.parent.glob(f"{run.name}-*"):
        if other != held:  # of settings or code that are gone
            shutil.rmtree(other)
    Trainer(run, 0, None)  # whatever does not fit shows here, before any process starts
    with bar(count * run.training.steps, run.name) as shown:
        progress = _Progress(shown, count)
        if count == 1:
            trainers = [_train(run, 0, held, progress.report)]
        else:
            trainers = _in_processes(run, count, held, progress)
    folder = paths.data(run.profile, "runs", run.name)
    curves = pd.concat([_keep(trainer, folder) for trainer in trainers], ignore_index=True)
    with paths.atomically(folder / "curves.parquet") as draft:
        curves.to_parquet(draft, index=False)
    problems = fixed_problems(trainers[0].system)
    if problems is not None:
        with paths.atomically(folder / "problems.parquet") as draft:
            problems.to_parquet(draft, index=False)
    with paths.atomically(folder / "run.json") as draft:
        draft.write_text(run.model_dump_json(indent=2) + "\n")
    shutil.rmtree(held)
    return curves


def _train(run: Run, seed: int, held: Path, report: Any) -> Trainer:
    trainer = Trainer(run, seed, held / f"seed_{seed}.safetensors")
    return trainer.train(lambda *news: report(seed, *news))


def _in_processes(run: Run, count: int, held: Path, progress: _Progress) -> list[Trainer]:
    context = multiprocessing.get_context("spawn")  # a forked process cannot use CUDA
    news = context.Queue()
    # One thread each: two half-busy threads lose more than a third process costs.
    with ProcessPoolExecutor(count, context, _start_worker, (news, os.getpid())) as pool:
        jobs = [pool.submit(_work, run.model_dump(), seed, held) for seed in range(count)]
        listener = threading.Thread(target=_listen, args=(news, jobs, progress))
        listener.start()
        try:
            for job in jobs:
                job.result()
        finally:
            for job in jobs:
                job.cancel()
            wait(jobs)
            listener.join()
    return [Trainer(run, seed, held / f"seed_{seed}.safetensors") for seed in range(count)]


def _start_worker(news: Any, parent: int) -> None:
    global _reports
    torch.set_num_threads(1)
    _reports = news
    threading.Thread(target=_follow, args=(parent,), daemon=True).start()


def _follow(parent: int) -> None:
    """End this worker when the process that started it is gone, however it went."""
    while os.getppid() == parent:
        threading.Event().wait(1.0)
    os._exit(1)


def _work(settings: dict[str, Any], seed: int, held: Path) -> None:
    run = Run.model_validate(settings)
    _train(run, seed, held, lambda *news: _reports.put(news))


def _listen(news: Any, jobs: list[Future], progress: _Progress) -> None:
    while True:
        try:
            progress.report(*news.get(timeout=0.5))
        except queue.Empty:
            if all(job.done() for job in jobs):
                return


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


def _keep(trainer: Trainer, folder: Path) -> pd.DataFrame:
    """Write one seed's weights and its DVCLive folder; return its learning curve."""
    from dvclive import Live  # here, because it takes a second to import

    save_weights(trainer, folder / f"seed_{trainer.seed}.safetensors")
    place = str(folder / "live" / f"seed_{trainer.seed}")
    with Live(place, save_dvc_exp=False, dvcyaml=None, report=None) as live:
        for row in trainer.curve:
            live.step = row["step"]
            for name in ("loss", "exact", "rate"):
                live.log_metric(name, row[name])
            live.make_summary()
    curve = pd.DataFrame(trainer.curve)
    names = {"row": trainer.run.name, "profile": trainer.run.profile, "seed": trainer.seed}
    return curve.assign(**names)[[*names, *curve.columns]]
