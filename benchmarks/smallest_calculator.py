"""How small can the calculator be? `python benchmarks/smallest_calculator.py [summary]`.

Trains the row `calculator_relative_longhand` with fewer parameters, one seed of each size, and
certifies it: is it right in all of its 475,794 contexts, rounding included? Results are rows of
smallest_calculator.csv. Sizes that it has are skipped; a training that was stopped goes on from its
checkpoint in data/smallest_calculator.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
from missing_jobs import run_missing

from carry.certificates.verification import certify_model, find_contexts_or_conflict
from carry.config import paths
from carry.experiments.base import merge
from carry.experiments.resolve import find_row, make_run
from carry.experiments.run import Run
from carry.models.parameter_counts import count_parameters
from carry.training.loop import Trainer

FILE = Path(__file__).with_suffix(".csv")
ROW, STEPS = "calculator_relative_longhand", 20_000
SIZES = ((32, 4, 192), (32, 4, 128), (24, 4, 192))  # width, heads, hidden units


def make_size(width: int, heads: int, hidden: int) -> Run:
    """Return the run of the row with a smaller model."""
    model = {"width": width, "heads": heads, "hidden": hidden}
    changes = {"model": model, "training": {"steps": STEPS}}
    return make_run(merge(find_row(ROW).resolve(), changes), ROW)


def train_size(width: int, heads: int, hidden: int) -> pd.DataFrame:
    """Return the verdict on a trained model, as a row of the file."""
    checkpoint = paths.ROOT / f"data/smallest_calculator/{width}_{heads}_{hidden}.checkpoint"
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    system = Trainer(make_size(width, heads, hidden), 0, checkpoint).train().system
    system.network.eval()
    certificate = certify_model(system, find_contexts_or_conflict(system))
    size = {"width": width, "heads": heads, "hidden": hidden, "seed": 0, "steps": STEPS}
    proved = {name: certificate[name] for name in ("verdict", "contexts", "wrong", "least_slack")}
    return pd.DataFrame([{**size, "parameters": count_parameters(system.run), **proved}])


if __name__ == "__main__":
    if {*sys.argv[1:]} - {"summary"}:
        sys.exit(f"{' '.join(sys.argv[1:])}: expected nothing or summary")
    sizes = [] if sys.argv[1:] else SIZES
    print(run_missing(FILE, ("width", "heads", "hidden"), sizes, train_size).to_string(index=False))
