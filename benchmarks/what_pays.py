"""Which shortcuts of training pay? `python benchmarks/what_pays.py [summary]`.

The row `addition_coupled`, with attention logits that grow with the length,
and with one change each; `SEEDS` seeds each way, with the same first weights. The time of a seed is
CPU time. Scores are shares of exact answers: `held_out` on all pairs of trained lengths, `beyond`
on equal lengths of 11 to 30, the mean of the starts 1 and "all". Results are rows of what_pays.csv;
seeds that it has are skipped, so the script can be stopped and started at any time. A CPU without
instructions for bf16 leaves this change out.
"""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from bf16_experiment import score_trained
from missing_jobs import run_missing
from scipy import stats

from carry.experiments.base import merge
from carry.experiments.resolve import find_row, make_run
from carry.experiments.run import Run
from carry.training.loop import Trainer
from carry.training.precision import has_bf16

FILE = Path(__file__).with_suffix(".csv")
ROW = "addition_coupled"
SEEDS = 5
CURRICULUM = {"digits": 5, "share": 1 / 3}  # of the steps, on shorter numbers first
CHANGES: dict[str, dict[str, dict[str, Any]]] = {
    "reference": {},
    "constant logits": {"model": {"attention_scale": "constant"}},
    "loss on everything": {"training": {"loss": "everything"}},
    "longest numbers": {"task": {"sampling": "longest"}},
    "curriculum": {},
    "no buckets": {"training": {"pool": 1}},
    "bf16": {"training": {"precision": "bf16"}},
    "batch ramp": {"training": {"batch_ramp": 0.6}},
    "early end": {"training": {"score_every": 50}},
}


class EarlyEnd(Exception):
    """A training has learned enough."""


def make_change(change: str, **training: Any) -> Run:
    """Return the run with one change, and with other settings of training."""
    common = {"model": {"attention_scale": "log"}, "training": training}
    return make_run(merge(find_row(ROW).resolve(), common, CHANGES[change]), ROW)


def train_and_score(change: str, seed: int) -> pd.DataFrame:
    """Train a seed and score it, as a row of the file."""
    run, began = make_change(change), time.process_time()
    trainer = Trainer(run, seed, None)
    if change == "curriculum":
        steps = round(CURRICULUM["share"] * run.training.steps)
        first = make_change(change, digits=CURRICULUM["digits"], steps=steps, decay="none")
        weights = Trainer(first, seed, None).train().system.network.state_dict()
        run = make_change(change, steps=run.training.steps - steps)
        trainer = Trainer(run, seed, None)
        trainer.system.network.load_state_dict(weights)

    def report(*scores: object) -> None:
        """End where three scores in a row reach 99.9%."""
        last = [point["exact"] for point in trainer.curve[-3:]]
        if change == "early end" and len(last) == 3 and min(last) >= 0.999:
            raise EarlyEnd

    with contextlib.suppress(EarlyEnd):
        trainer.train(report)
    seconds = time.process_time() - began
    trainer.system.network.eval()
    share = score_trained(trainer.system)
    found = {
        "change": change, "seed": seed, "steps": trainer.step, "cpu_seconds": round(seconds, 1),
        "held_out": share["grid"], "beyond": share["equal"],
    }  # fmt: skip
    return pd.DataFrame([found])


def summarise(found: pd.DataFrame) -> pd.DataFrame:
    """Return means over seeds and differences to the reference with 95% intervals, in points.

    The seeds of both sides are pairs.
    """
    wide = found.pivot(index="seed", columns="change").dropna()
    lines = {}
    for change in wide["held_out"]:
        seconds = wide["cpu_seconds"]
        line = {"times faster": (seconds["reference"] / seconds[change]).median()}
        for score in ("held_out", "beyond"):
            difference = 100 * (wide[score][change] - wide[score]["reference"])
            margin = stats.t.ppf(0.975, len(wide) - 1) * stats.sem(difference)
            line[score] = 100 * wide[score][change].mean()
            line[f"{score} - reference"] = f"{difference.mean():+.1f} ± {margin:.1f}"
        lines[change] = line
    measured = [change for change in CHANGES if change in lines]
    return pd.DataFrame.from_dict(lines, orient="index").loc[measured].round(2)


if __name__ == "__main__":
    if {*sys.argv[1:]} - {"summary"}:
        sys.exit(f"{' '.join(sys.argv[1:])}: expected nothing or summary")
    possible = [change for change in CHANGES if change != "bf16" or has_bf16(torch.device("cpu"))]
    wanted = [(change, seed) for seed in range(SEEDS) for change in possible]
    jobs = [] if sys.argv[1:] else wanted
    table = run_missing(FILE, ("change", "seed"), jobs, train_and_score)
    print(summarise(table).to_string())
