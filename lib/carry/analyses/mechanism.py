"""What happens inside a model that adds: all that this folder can ask of one, at two lengths.

At the largest length that the model was trained on, and at one digit more: the logit lens, linear
probes, heads ablated, where heads look, and where a carry lives.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import torch

from carry import processes, progress
from carry.config import run_settings
from carry.data.problems import Problems
from carry.evaluation import trained_models
from carry.interpretability import attention, patching
from carry.interpretability.head_ablation import ablations
from carry.interpretability.lens import lens
from carry.interpretability.patching import check_alike
from carry.interpretability.probes import probes
from carry.models.system import System
from carry.randomness import stream
from carry.training.precision import training_in

TASK = "addition"
PROBLEMS = {"lens": 500, "learn": 400, "ask": 300, "attention": 200, "ablations": 300}
TWINS = 100


def tables(row: str, profile: str) -> dict[str, pd.DataFrame]:
    """Look into every seed of a row of additions.

    Returns:
        Each for all `seed`s and numbers of `digits`: `lens`, `probes`, `ablations`, `patches` and
        `confirmed` (for each `place` a carry can come into) as the functions of these modules
        return them; `attention`, `heads` and `tokens` as in `carry.interpretability.attention`.

    Raises:
        SettingsError: for a format that does not write problems of one length alike.
    """
    asked = run_settings.load_run(row, profile)
    jobs = [(row, profile, seed) for seed in range(asked.seeds)]
    with progress.progress_bar(len(jobs) * 2, row, unit="look") as shown:
        found = processes.run_jobs(_of_seed, jobs, shown.update)
    return {name: pd.concat([of[name] for of in found], ignore_index=True) for name in found[0]}


def _of_seed(report: Any, row: str, profile: str, seed: int) -> dict[str, pd.DataFrame]:
    system = trained_models.load_trained(profile, row, seed)
    longest = system.run.training.digits
    names = {"row": row, "profile": profile, "seed": seed}
    parts: dict[str, list[pd.DataFrame]] = {}
    for digits in (longest, longest + 1):
        lengths = {"trained": longest, "digits": digits}
        for name, table in look(system, digits).items():
            if "i" not in table:  # the length; as attention is kept of any row
                table = table.assign(**lengths)[[*lengths, *table.columns]]
            parts.setdefault(name, []).append(table.assign(**names)[[*names, *table.columns]])
        report(1)
    return {name: pd.concat(of, ignore_index=True) for name, of in parts.items()}


def look(system: System, digits: int, twins: int = TWINS) -> dict[str, pd.DataFrame]:
    """Return what `tables` does of one model, for problems of one length."""
    system.network.eval()
    problems = {name: alike(system, digits, name) for name in PROBLEMS}
    batch = system.format.write(problems["attention"].to(system.network.tokens.weight.device))
    check_alike(batch, batch)
    cell = {"i": digits, "j": digits, "n": len(batch)}
    with training_in("fp32", batch.tokens.device):
        weights = attention.mean(system, batch)
        places = [
            patching.where_the_carry_lives(system, digits, place, twins)
            for place in range(1, digits)
        ]
        both = zip(*places, strict=True)
        patches, confirmed = (
            pd.concat([of.assign(place=at) for at, of in enumerate(tables, start=1)])
            for tables in both
        )
        return {
            "lens": lens(system, problems["lens"]),
            "probes": probes(system, problems["learn"], problems["ask"]),
            "ablations": ablations(system, problems["ablations"]),
            "attention": attention.maps(weights).assign(**cell),
            "heads": attention.shares(system, batch[:1], weights).assign(**cell),
            "tokens": attention.tokens(batch[:1]).assign(**cell),
            "patches": patches,
            "confirmed": confirmed,
        }


def alike(system: System, digits: int, purpose: str) -> Problems:
    """Return sums of two numbers of so many digits, with as many in the answer.

    >>> from carry.config.run_settings import make_run
    >>> problems = alike(System(make_run({"task": {"name": "addition"}})), 3, "lens")
    >>> len(problems), problems.answer_length.unique().tolist()
    (500, [3])
    """
    count, generator = PROBLEMS[purpose], stream(0, "mechanism", purpose, digits)
    drawn = system.task.sample(torch.full((4 * count, 2), digits), generator)
    return drawn[(drawn.answer_length == digits).nonzero()[:count, 0]]
