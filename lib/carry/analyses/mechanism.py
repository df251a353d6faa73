"""Mechanism of models that add: all tools of `carry.interpretability`, at two lengths.

The lengths are the longest of training and one digit more. The tools are the logit lens, linear
probes, head ablations, attention, and patching of carries.
"""

from __future__ import annotations

import pandas as pd
import torch

from carry.analyses import INTERVAL, LABELS
from carry.data.problems import Problems
from carry.data.tables import concat_by_name
from carry.interpretability import attention, patching
from carry.interpretability.head_ablation import ablate_heads
from carry.interpretability.lens import apply_logit_lens
from carry.interpretability.probes import train_probes
from carry.models.system import System
from carry.randomness import stream
from carry.training.precision import use_precision

TASK = "addition"
LENGTHS = ("trained", "digits")
FLIPS = ("activation", "token", "role", "n", "flipped")
COLUMNS = {
    "lens": (*LABELS, *LENGTHS, "activation", "place", "n", "correct", *INTERVAL),
    "probes": (
        *LABELS, *LENGTHS, "activation", "step", "n", "correct", "commonest", "model", *INTERVAL,
    ),
    "head_ablations": (
        *LABELS, *LENGTHS, "subtask", "n", "correct", "layer", "head", *INTERVAL,
    ),
    **attention.COLUMNS,
    "patches": (*LABELS, *LENGTHS, *FLIPS, "place"),
    "confirmed": (*LABELS, *LENGTHS, *FLIPS, "twins", *INTERVAL, "place"),
}  # fmt: skip
# The words are also names of random streams.
PROBLEMS = {"lens": 500, "learn": 400, "ask": 300, "attention": 200, "ablations": 300}
TWINS = 100


def tables(system: System) -> dict[str, pd.DataFrame]:
    """Apply all tools to a model of additions.

    Returns:
        For both numbers of `digits`, what `model_tables` returns.
    """
    trained = system.run.training.digits
    return concat_by_name(model_tables(system, digits) for digits in (trained, trained + 1))


def model_tables(system: System, digits: int) -> dict[str, pd.DataFrame]:
    """Apply all tools to one model, on sums of one length.

    Returns:
        lens, probes, head_ablations: see `apply_logit_lens`, `train_probes` and `ablate_heads`.
        attention, heads, tokens: see `carry.interpretability.attention`.
        patches, confirmed: see `locate_carry`, for each `place` with a carry from below.
    """
    system.network.eval()
    problems = {name: draw_problems(system, digits, name) for name in PROBLEMS}
    batch = system.format.write(problems["attention"].to(system.device))
    with use_precision("fp32", batch.tokens.device):
        attended = attention.describe_batch(system, batch)
        carries = []
        for place in range(1, digits):
            patches, confirmed = patching.locate_carry(system, digits, place, TWINS)
            part = {"patches": patches, "confirmed": confirmed}
            carries.append({name: table.assign(place=place) for name, table in part.items()})
        measured = {
            "lens": apply_logit_lens(system, problems["lens"]),
            "probes": train_probes(system, problems["learn"], problems["ask"]),
            "head_ablations": ablate_heads(system, problems["ablations"]),
            **concat_by_name(carries),
        }
    cell = {"i": digits, "j": digits, "n": len(batch)}  # as in the attention of evaluation
    return {
        **{name: table.assign(digits=digits) for name, table in measured.items()},
        **{name: table.assign(**cell) for name, table in attended.items()},
    }


def draw_problems(system: System, digits: int, purpose: str) -> Problems:
    """Draw sums of two numbers of `digits` digits whose answers have as many digits.

    >>> from carry.experiments.resolve import make_run
    >>> problems = draw_problems(System(make_run({"task": {"name": "addition"}})), 3, "lens")
    >>> len(problems), problems.answer_length.unique().tolist()
    (500, [3])
    """
    count, generator = PROBLEMS[purpose], stream(0, "mechanism", purpose, digits)
    drawn = system.task.draw_for_cells(torch.full((4 * count, 2), digits), generator)
    return drawn[(drawn.answer_length == digits).nonzero()[:count, 0]]
