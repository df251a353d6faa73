"""Measure the rates of a core for lib/carry/training/rates.yaml: `python benchmarks/rates.py`.

It times training steps of rows of the profile `full` and of wider models, fits the seconds of a
unit of each part of `StepCost` (non-negative least squares of relative errors), and prints the
entry of this core, with how well it predicts what was measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import scipy.optimize
import scipy.stats
import torch

from carry.config import profiles, run_settings
from carry.config.run_settings import Run
from carry.progress import progress_bar
from carry.training import cost
from carry.training.batched.trainer import BatchedTrainer
from carry.training.loop import Trainer

SECONDS = 1.0  # of steps of each run
WIDE = [(256, 4, 8), (384, 6, 6), (512, 4, 8), (1024, 2, 16)]  # width, layers, heads
BATCHED = [("noisy_majority_d2_a1", 50), ("noisy_majority_d4_a2", 5), ("noisy_majority_d8_a4", 30),
           ("noisy_majority_d16_a8", 5), ("noisy_majority_d32_a16", 8),
           ("noisy_majority_d2_a64", 5), ("noisy_majority_d8_a4_dropout", 25)]  # fmt: skip


def list_runs() -> list[Run]:
    """Return every second row of `full` that trains one seed at a time, and wider models."""
    rows = [run_settings.load_run(row, "full") for row in run_settings.list_rows("full")]
    runs = [run for run in rows if not run.training.batched_seeds][::2]
    for width, layers, heads in WIDE:
        for optimizer in ("adamw", "muon"):
            settings = {
                "task": {"name": "addition"},
                "positions": [{"ids": "index", "encoding": "rope"}],
                "model": {"width": width, "layers": layers, "heads": heads},
                "training": {"digits": 20, "batch": 32, "optimizer": optimizer},
            }
            runs.append(run_settings.make_run(settings, f"wide_{width}_{optimizer}"))
    return runs


def time_steps(update: Callable[[], None]) -> float:
    """Return the core-seconds of a step."""
    for _ in range(3):
        update()
    began, steps = time.process_time(), 0
    while time.process_time() - began < SECONDS:
        update()
        steps += 1
    return (time.process_time() - began) / steps


def fit(features: list[tuple[float, ...]], seconds: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Return the rates, and the predicted over the measured seconds."""
    table, measured = np.array(features), np.array(seconds)
    rates, _ = scipy.optimize.nnls(table / measured[:, None], np.ones(len(measured)))
    return rates, table @ rates / measured


def measure_rows() -> None:
    features, seconds, runs = [], [], list_runs()
    with progress_bar(len(runs), "rows") as bar:
        for run in runs:
            trainer = Trainer(run, 0, None)
            trainer.system.network.train()
            unscored = run.training.model_copy(update={"score_every": 10**9})
            features.append(cost.count_step(run.model_copy(update={"training": unscored})))
            seconds.append(time_steps(trainer._update))
            bar.set_postfix_str(f"{run.name} {trainer.precision} {seconds[-1]:.4f} s")
            bar.update()
    rates, ratios = fit(features, seconds)
    for unit, rate in zip(cost.StepCost._fields, rates, strict=True):
        print(f"  {unit}: {rate:.2g}")
    for index in np.argsort(ratios)[[0, 1, -2, -1]]:
        print(f"  # {runs[index].name}: predicted {ratios[index]:.2f} of {seconds[index]:.4f} s")
    rank = scipy.stats.spearmanr(np.array(features) @ rates, seconds).statistic
    print(
        f"  # rank correlation {rank:.3f}, {len(runs)} runs; median ratio {np.median(ratios):.2f}"
    )


def measure_batched() -> None:
    features, seconds = [], []
    sources = profiles.find_sources("full")
    for row, models in BATCHED:
        run = run_settings.load_run(row, sources[row])
        seconds.append(time_steps(BatchedTrainer(run, range(models), None)._update))
        features.append((1.0, *(models * count for count in cost.count_batched_step(run))))
    rates, ratios = fit(features, seconds)
    named = zip(cost.BatchedRates.model_fields, rates, strict=True)
    print(f"  batched: {{{', '.join(f'{name}: {rate:.2g}' for name, rate in named)}}}")
    print(f"  # predicted {ratios.min():.2f} to {ratios.max():.2f} of what was measured")


if __name__ == "__main__":
    torch.set_num_threads(1)
    print("cpu:\n  measured: true")
    measure_rows()
    measure_batched()
