"""Which changes of training pay? `python benchmarks/what_pays.py [summary]`.

Rows are trained as they are and with one change each, `SEEDS` seeds each way, with the same first
weights and problems. The time of a seed is CPU time. Scores are shares of exact answers in fp32:
`held_out` on all pairs of trained lengths, `beyond` on equal lengths up to three times as long, the
mean of the starts 1 and "all". Results are rows of what_pays.csv; seeds that it has are skipped, so
the script can be stopped and started at any time. A CPU without instructions for bf16 leaves this
change out.
"""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from missing_jobs import run_missing
from scipy import stats

from carry.data import problem_sets
from carry.evaluation.scoring import score_system
from carry.experiments.base import merge
from carry.experiments.problems import ProblemSet
from carry.experiments.resolve import find_row, make_run
from carry.experiments.run import Run
from carry.models.system import System
from carry.training.loop import Trainer
from carry.training.precision import has_bf16

FILE = Path(__file__).with_suffix(".csv")
SEEDS = 6
EACH = 20  # problems in a cell
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
SHORT = ("reference", "bf16")
# By name: the row, what is set in all of its seeds, and its changes. The steps suffice to learn the
# trained lengths.
BASES: dict[str, tuple[str, dict[str, dict[str, Any]], tuple[str, ...]]] = {
    "coupled, log": ("addition_coupled", {"model": {"attention_scale": "log"}}, (*CHANGES,)),
    "relative": ("addition_relative", {"training": {"steps": 600}}, SHORT),
    "abacus": ("addition_abacus_short", {"training": {"steps": 800}}, SHORT),
    "abacus, looped": ("addition_abacus_looped_short", {"training": {"steps": 1000}}, SHORT),
    "coupled": ("addition_coupled", {"training": {"steps": 1200}}, SHORT),
}


class EarlyEnd(Exception):
    """A training has learned enough."""


def make_change(base: str, change: str, **training: Any) -> Run:
    """Return a run with one change, and with other settings of training."""
    row, settings, _ = BASES[base]
    settings = merge(find_row(row).resolve(), settings, {"training": training}, CHANGES[change])
    return make_run(settings, row)


def score_trained(system: System) -> pd.Series:
    """Return the shares of exact answers of a trained model: `grid` and, beyond it, `equal`."""
    digits = system.run.training.digits
    settings = {"task": system.run.task, "grid": digits, "each": EACH, "longest": 3 * digits}
    known = ProblemSet.parse({**settings, "equal": EACH}, "problems")
    table = problem_sets.draw_problem_set("bf16_experiment", known)  # the name chooses the problems
    table = table[(table["set"] == "grid") | (table["i"] > digits)]
    exact = score_system(system, table, (1, "all"))[0].groupby("set")[["exact", "n"]].sum()
    return (exact["exact"] / exact["n"]).round(4)


def train_and_score(base: str, change: str, seed: int) -> pd.DataFrame:
    """Train a seed and score it, as a row of the file."""
    run, began = make_change(base, change), time.process_time()
    trainer = Trainer(run, seed, None)
    if change == "curriculum":
        steps = round(CURRICULUM["share"] * run.training.steps)
        first = make_change(base, change, digits=CURRICULUM["digits"], steps=steps, decay="none")
        weights = Trainer(first, seed, None).train().system.network.state_dict()
        trainer = Trainer(make_change(base, change, steps=run.training.steps - steps), seed, None)
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
        "base": base, "change": change, "seed": seed, "steps": trainer.step,
        "cpu_seconds": round(seconds, 1), "held_out": share["grid"], "beyond": share["equal"],
    }  # fmt: skip
    return pd.DataFrame([found])


def summarise(found: pd.DataFrame) -> pd.DataFrame:
    """Return means over seeds and differences to the reference with 95% intervals, in points.

    The seeds of both sides are pairs. Bases with the same two changes are also pooled.
    """
    pooled = found[found["base"].map({base: of[2] == SHORT for base, of in BASES.items()})]
    pooled = pooled.assign(base="all", seed=pooled["base"] + pooled["seed"].astype(str))
    lines = {}
    for base, part in pd.concat([found, pooled]).groupby("base", sort=False):
        wide = part.pivot(index="seed", columns="change").dropna()
        for change in part["change"].unique():
            seconds = wide["cpu_seconds"]
            line = {"times faster": (seconds["reference"] / seconds[change]).median()}
            for score in ("held_out", "beyond"):
                difference = 100 * (wide[score][change] - wide[score]["reference"])
                margin = stats.t.ppf(0.975, len(wide) - 1) * stats.sem(difference)
                line[score] = 100 * wide[score][change].mean()
                line[f"{score} - reference"] = f"{difference.mean():+.1f} ± {margin:.1f}"
            lines[base, change] = {"pairs": len(wide), **line}
    return pd.DataFrame.from_dict(lines, orient="index").round(2)


if __name__ == "__main__":
    if {*sys.argv[1:]} - {"summary"}:
        sys.exit(f"{' '.join(sys.argv[1:])}: expected nothing or summary")
    possible = {change for change in CHANGES if change != "bf16" or has_bf16(torch.device("cpu"))}
    wanted = [
        (base, change, seed)
        for seed in range(SEEDS)
        for base, (_, _, changes) in BASES.items()
        for change in changes
        if change in possible
    ]
    jobs = [] if sys.argv[1:] else wanted
    table = run_missing(FILE, ("base", "change", "seed"), jobs, train_and_score)
    print(summarise(table).to_string())
