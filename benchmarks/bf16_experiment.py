"""Is bf16 as good as `auto`? The same seeds, trained each way: `benchmarks/bf16_experiment.py`.

Runs that bf16_experiment.csv already has are skipped, so it can be stopped and started at any time.
With `summary` it trains nothing, and prints the difference of each row with its interval.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pandas as pd
from missing_jobs import run_missing
from scipy import stats

from carry.data import problem_sets
from carry.evaluation.scoring import score_system
from carry.experiments.problems import ProblemSet
from carry.experiments.resolve import load_run
from carry.experiments.run import Run
from carry.models.system import System
from carry.training.loop import Trainer

FILE = Path(__file__).with_suffix(".csv")
SEEDS = 6
PRECISIONS = "auto", "bf16"
# Steps that suffice to learn the trained lengths, where fewer than the row's.
ROWS = {
    "addition_relative": 600,
    "addition_abacus_short": 800,
    "addition_abacus_looped_short": 1000,
    "addition_coupled": 1200,
}
EACH = 20  # problems in a cell


def load_shortened(row: str, precision: str) -> Run:
    """Return a row with the experiment's steps."""
    run = load_run(row)
    changed = {"steps": ROWS[row], "precision": precision}
    return run.model_copy(update={"training": run.training.model_copy(update=changed)})


def score_trained(system: System) -> pd.Series:
    """Return the shares of exact answers of a trained model, means of the starts 1 and "all".

    `grid`: all pairs of trained sizes; `equal`: equal sizes beyond them, up to three times.
    """
    digits = system.run.training.digits
    settings = {"task": system.run.task, "grid": digits, "each": EACH, "longest": 3 * digits}
    known = ProblemSet.parse({**settings, "equal": EACH}, "problems")
    table = problem_sets.draw_problem_set("bf16_experiment", known)
    table = table[(table["set"] == "grid") | (table["i"] > digits)]
    cells = score_system(system, table, (1, "all"))[0]
    exact = cells.groupby("set")[["exact", "n"]].sum()
    return (exact["exact"] / exact["n"]).round(4)


def train_and_score(row: str, precision: str, seed: int) -> pd.DataFrame:
    """Train a seed and score it in fp32, as a row of the file."""
    run = load_shortened(row, precision)
    began = time.process_time()
    trainer = Trainer(run, seed, None).train()
    seconds = time.process_time() - began
    share = score_trained(trainer.system)
    found = {
        "row": row, "precision": precision, "seed": seed, "computed": trainer.precision,
        "steps": trainer.step, "cpu_seconds": round(seconds, 1),
        "held_out": share["grid"], "beyond": share["equal"],
    }  # fmt: skip
    return pd.DataFrame([found])


def summarise(found: pd.DataFrame) -> pd.DataFrame:
    """Return bf16 minus auto in points: means over seeds, with 95% intervals of paired seeds."""
    scores = ["held_out", "beyond"]
    wide = found.pivot(index=["row", "seed"], columns="precision").dropna()
    lines = {}
    for name in [*ROWS, "all"]:
        pairs = wide if name == "all" else wide[wide.index.get_level_values("row") == name]
        if len(pairs) < 2:
            continue
        seconds = pairs["cpu_seconds"]
        line = {"pairs": len(pairs), "times faster": (seconds["auto"] / seconds["bf16"]).median()}
        for score in scores:
            points = 100 * pairs[score]
            difference = points["bf16"] - points["auto"]
            margin = stats.t.ppf(0.975, len(pairs) - 1) * stats.sem(difference)
            line[f"{score}, auto"] = points["auto"].mean()
            line[f"{score}, bf16 - auto"] = f"{difference.mean():+.1f} ± {margin:.1f}"
        lines[name] = line
    return pd.DataFrame.from_dict(lines, orient="index").round(2)


if __name__ == "__main__":
    wanted = [(row, p, seed) for seed in range(SEEDS) for row in ROWS for p in PRECISIONS]
    jobs = [] if "summary" in sys.argv[1:] else wanted
    table = run_missing(FILE, ("row", "precision", "seed"), jobs, train_and_score, alone=True)
    print(summarise(table).to_string())
