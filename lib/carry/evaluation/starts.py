"""Starts of ids in evaluation: the papers' start, the best single one, and the mean over all.

Ids that stand for a place count from a start. Training draws it; the papers evaluate from id 1. The
row names its starts (`evaluation.starts`), and tables have their names in the column `start`:

    1, 2, ...   this id; 1 is the papers' protocol
    best        one id for each model, the best on held-out problems of trained lengths
    all         next-token probabilities averaged over all starts (`decoding.list_first_ids`)
    window      id 1, and attention only to ids as near as in training (`System.read_from`)

They are different protocols: a figure or a claim has one of them, or sets them side by side. A
problem too long for the best id starts at the last one from which it fits. Ids that do not depend
on a start, or that no table limits, have the one start 1.

The first start of a row is scored on all problems. The others are scored on a fifth, and off the
grid on at least 20 of a cell (`choose_part`): a mean over starts needs a pass for each of them, of
which there are at most `MOST_STARTS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pandas as pd
import torch

from carry.config.run_settings import Run
from carry.data.batch import Batch
from carry.data.training_batches import draw_held_out
from carry.evaluation.decoding import MOST_STARTS, spread_evenly
from carry.evaluation.intervals import add_interval
from carry.evaluation.scoring import count_at_once, list_labels
from carry.models.system import Start, System
from carry.training.precision import use_precision

PROBLEMS = 256  # held-out problems that choose the best start
PART = 5  # further starts are scored on one problem in PART
LEAST = 20  # problems of a cell off the grid, for further starts

COLUMNS = {
    "starts": (
        "row", "profile", "seed", "trained", "id", "n", "exact", "accuracy", "low", "high", "loss",
        "chosen",
    )
}  # fmt: skip


def resolve_starts(
    system: System, starts: Sequence[int | Literal["best", "all", "window"]]
) -> tuple[dict[str, Start], pd.DataFrame]:
    """Return the distinct starts by name, and the table of `score_starts` if "best" is one.

    >>> from carry.config.run_settings import make_run
    >>> resolve_starts(System(make_run({"task": {"name": "addition"}})), [1, "best", "all"])[0]
    {'1': 1}
    """
    named = {str(start): start for start in system.distinct_starts(starts)}
    if "best" not in named:
        return named, pd.DataFrame(columns=COLUMNS["starts"])
    candidates = score_starts(system)
    best = candidates.loc[candidates["chosen"], "id"]
    return {**named, "best": int(best.iloc[0])}, candidates


def choose_best_start(system: System) -> int:
    """Return the best single start of a model on held-out problems; 1 if all give the same ids."""
    return resolve_starts(system, ["best"])[0].get("best", 1)


def score_starts(system: System) -> pd.DataFrame:
    """Score a model on held-out problems of trained lengths, from single starts.

    The problems are drawn from the stream "starts" as in training, or are the validation problems
    of its data set; reported problems are none of them, but for chance among the shortest. All
    schemes begin at the same id. The starts are those from which problems of the trained lengths
    fit the tables: at most `MOST_STARTS`, evenly.

    Returns:
        starts: for each first `id`, how many of `n` responses are `exact`, with an interval; the
            `loss`, minus the mean logarithm of a response's probability; and whether the id is
            `chosen`: the most exact one, of equal ones the one of least loss, then the smallest.

    >>> from carry.config.run_settings import make_run
    >>> from carry.evaluation.mock_models import Oracle
    >>> positions = [{"ids": "abacus", "encoding": "learned", "table": 6}]
    >>> settings = {"task": {"name": "addition"}, "positions": positions}
    >>> settings |= {"training": {"digits": 3}, "evaluation": {"digits": 5}}
    >>> score_starts(Oracle(make_run(settings)))[["id", "exact", "chosen"]].values.tolist()
    [[1, 256, True], [2, 256, False], [3, 256, False]]
    """
    run = system.run
    problems = draw_held_out(run, system.task, "starts", PROBLEMS)
    batch = system.format.write(problems)
    system.network.eval()
    ids = list_single_starts(system, run.training.digits, MOST_STARTS)
    with use_precision("fp32", system.device):
        scores = [_score_start(system, batch, first) for first in ids]
    table = pd.DataFrame(scores, columns=["exact", "loss"])
    table = add_interval(table.assign(**list_labels(system), id=ids, n=len(problems)))
    return choose_start(table)[list(COLUMNS["starts"])]


@torch.inference_mode()
def _score_start(system: System, batch: Batch, first: int) -> tuple[int, float]:
    """Return the number of exact responses and the loss of a mixed batch, from one start."""
    most = count_at_once(batch, system.device)
    exact, loss = 0, 0.0
    for rows in torch.arange(len(batch)).split(most):
        part = batch[rows].to(system.device)
        at, target, real = part.response()
        logits = system.logits(part, system.ids(part, first), at, system.run.evaluation.recurrences)
        exact += int(((logits.argmax(-1) == target) | ~real).all(1).sum())
        right = logits.log_softmax(-1).gather(-1, target[..., None])[..., 0]
        loss -= float(right[real].sum())
    return exact, loss / len(batch)


def list_single_starts(system: System, digits: int, most: int) -> list[int]:
    """Return at most `most` ids from which problems of sizes up to (digits, digits) fit all tables.

    They are even, and the first is 1; it is the only one of a model without a table.

    >>> from carry.config.run_settings import make_run
    >>> positions = [{"ids": "coupled", "encoding": "learned", "limit": 40}]
    >>> system = System(make_run({"task": {"name": "addition"}, "positions": positions}))
    >>> list_single_starts(system, 30, 16), list_single_starts(system, 10, 4)
    ([1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 10, 20, 29])
    """
    with torch.device("cpu"):  # sizes are numbers
        extent = system.format.extent(digits)
    ends = [
        system.last_start(index, scheme.required_ids(extent))
        for index, scheme in enumerate(system.schemes)
        if scheme.accepts_start
    ]
    last = min([end for end in ends if end is not None], default=1)
    return spread_evenly(last, min(most, last))


def choose_start(table: pd.DataFrame) -> pd.DataFrame:
    """Mark as `chosen` the most exact id; of equal ones that of least loss, then the smallest.

    All starts may be exact on trained lengths; the loss still tells which ids are learned best.

    >>> starts = {"id": [1, 4, 7, 9], "exact": [3, 9, 9, 9], "loss": [0.0, 0.2, 0.1, 0.1]}
    >>> choose_start(pd.DataFrame(starts))["chosen"].tolist()
    [False, False, True, False]
    """
    best = table.sort_values(["exact", "loss", "id"], ascending=[False, True, True])["id"].iloc[0]
    return table.assign(chosen=table["id"] == best)


def choose_part(questions: pd.DataFrame) -> pd.DataFrame:
    """Return the problems for further starts: a fifth of each cell, evenly, and at least one.

    Of cells of the grid with a single problem, a fifth is chosen. Off the grid, whose cells are
    pooled into regions, they are at least 20, or all if there are fewer.

    >>> table = pd.DataFrame({"set": "grid", "i": [1] * 10 + [2, 3], "j": 1})
    >>> choose_part(table).index.tolist()
    [0, 5, 11]
    >>> [len(choose_part(pd.DataFrame({"set": ["equal"] * n, "i": 1, "j": 1})))
    ...  for n in (9, 30, 200)]
    [9, 20, 40]
    """
    cells = questions.groupby(["set", "i", "j"])["set"]
    size, in_grid = cells.transform("size"), questions["set"] == "grid"
    least = size.clip(upper=LEAST).where(~in_grid, 1)
    wanted = (-(-size // PART)).clip(lower=least)
    # Each row and each column of the grid has a fifth of its cells.
    skipped = in_grid & (size == 1) & ((questions["i"] + 2 * questions["j"]) % PART > 0)
    return questions[(cells.cumcount() * wanted % size < wanted) & ~skipped]


def count_passes(run: Run) -> float:
    """Return the passes for a problem of trained length, from all starts and on average.

    >>> from carry.config.run_settings import make_run
    >>> settings = {"task": {"name": "addition"}, "training": {"digits": 30}}
    >>> coupled = {"ids": "coupled", "encoding": "learned", "limit": 40}
    >>> runs = [make_run(settings | {"positions": ids}) for ids in ([], [coupled])]
    >>> [count_passes(run) for run in runs]  # from 1, "best", and "all", which are nine
    [1.0, 3.0]
    """
    system = System(run, device="meta")
    count = len(list_single_starts(system, run.training.digits, MOST_STARTS))
    starts = system.distinct_starts(run.evaluation.starts)
    passes = [count if start == "all" else 1 for start in starts]
    return passes[0] + sum(passes[1:]) / PART
