"""How small can the calculator be? `python benchmarks/smallest_calculator.py [summary]`.

Trains the row `calculator_relative_longhand` with fewer parameters, one seed of each size, and runs
it in all of its 475,794 contexts. Rounding errors are not bounded, so a size that is right in all
is not certified yet. Results are rows of smallest_calculator.csv. Sizes that it has are skipped;
a training that was stopped goes on from its checkpoint in data/smallest_calculator.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pandas as pd
from missing_jobs import run_missing

from carry.certificates.verification import enumerate_contexts, predict_tokens
from carry.config import paths
from carry.config.run_settings import Run, load_row_settings, make_run
from carry.models.parameter_counts import count_parameters
from carry.training.loop import Trainer

FILE = Path(__file__).with_suffix(".csv")
ROW, STEPS = "calculator_relative_longhand", 20_000  # as in the profile `full`
SIZES = ((32, 4, 192), (32, 4, 128), (24, 4, 192))  # width, heads, hidden units


def make_size(width: int, heads: int, hidden: int) -> Run:
    """Return the run of the row with a smaller model."""
    settings = load_row_settings(ROW)
    sections = {name: settings[name] for name in ("task", "format", "positions")}
    model = {**settings["model"], "width": width, "heads": heads, "hidden": hidden}
    training = {**settings["training"], "steps": STEPS}
    return make_run({**sections, "model": model, "training": training}, ROW)


def train_size(width: int, heads: int, hidden: int) -> pd.DataFrame:
    """Return in how many contexts a trained model is wrong, as a row of the file."""
    checkpoint = paths.ROOT / f"data/smallest_calculator/{width}_{heads}_{hidden}.checkpoint"
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    started = time.process_time()
    system = Trainer(make_size(width, heads, hidden), 0, checkpoint).train().system
    minutes = (time.process_time() - started) / 60
    contexts = enumerate_contexts(system).contexts
    wrong = int((predict_tokens(system, contexts) != contexts.target).sum())
    size = {"width": width, "heads": heads, "hidden": hidden, "seed": 0, "steps": STEPS}
    parameters = count_parameters(system.run)
    found = {**size, "parameters": parameters, "core_minutes": round(minutes, 1), "wrong": wrong}
    return pd.DataFrame([found])


if __name__ == "__main__":
    if {*sys.argv[1:]} - {"summary"}:
        sys.exit(f"{' '.join(sys.argv[1:])}: expected nothing or summary")
    sizes = [] if sys.argv[1:] else SIZES
    print(run_missing(FILE, ("width", "heads", "hidden"), sizes, train_size).to_string(index=False))
