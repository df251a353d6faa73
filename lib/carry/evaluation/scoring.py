"""Exact match, accuracy by place and by step, and kinds of mistakes, from one pass per problem.

`carry.models.teacher_forcing` proves that the pass and greedy decoding give the same exact match.
The ids are those of `decoding.py`, which depend on the question only. Problems of one shape form
one batch: their questions need no padding and share ids, so encodings compute their part once.
Shapes with few problems are batched with others, because a pass with one problem takes nearly the
time of a pass with ten. Scores are always computed in fp32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Integer
from torch import Tensor

from carry.data import problem_sets
from carry.data.batch import Batch
from carry.data.problems import Problems
from carry.evaluation import mistakes
from carry.evaluation.decoding import (
    compute_decoding_ids,
    decode_greedily,
    group_by_shape,
    list_first_ids,
    select_rows,
)
from carry.evaluation.intervals import add_interval
from carry.formats import EOS
from carry.models.system import Start, System
from carry.models.teacher_forcing import TeacherForcedPass, teacher_forced_pass
from carry.training.precision import use_precision

# Attention scores of one head in one batch: problems x tokens x tokens.
MAX_ATTENTION_SCORES = 2**22
TIMES_ON_GPU = 16  # as many in one batch, so that launching its kernels is not what takes time
FEW = 8  # shapes with fewer problems are batched with others

# Parts of a response: its first token, those between, the token before the end, and the end.
PARTS = ("first_right", "inside_right", "final_right", "end_right")

_LABELS = ("row", "scale", "seed", "trained", "start", "set")
_SCORES = ("n", "correct", "first_wrong", "accuracy", "low", "high")
COLUMNS = {
    "cells": (
        *(*_LABELS, "i", "j", "n", "exact", "accuracy", "low", "high"),
        *(*mistakes.KINDS, *PARTS, "digits_right"),
    ),
    "places": (*_LABELS, "digits", "place", *_SCORES),
    "steps": (*_LABELS, "digits", "step", *_SCORES),
}  # fmt: skip


def score(
    system: System,
    problems: Problems,
    start: Start = 1,
    report: Callable[[int], None] = lambda count: None,
) -> TeacherForcedPass:
    """Return what a model predicts in the true responses to problems, and where it is wrong.

    Args:
        start: the first id, "all" for the mean of next-token probabilities over all starts, or
            "window" (see `System.read_from`).
        report: called with the number of problems scored since its last call.

    >>> from carry.evaluation.trained_models import load_committed
    >>> from carry.tasks import to_digits
    >>> system = load_committed("addition_relative")
    >>> score(system, system.task.solve(*to_digits([[5, 7], [2, 300]]))).exact.tolist()
    [True, True]
    """
    problems = problems.to(system.device)
    batch = system.format.write(problems)
    _, target, real = batch.response()
    predicted = torch.zeros_like(target)
    system.network.eval()
    with use_precision("fp32", system.device), system.read_from(start) as first:
        for rows, part, ids in split_problems(system, problems, batch, first):
            result = teacher_forced_pass(system, part, ids_by_start=ids)
            predicted[rows, : result.predicted.shape[1]] = result.predicted
            report(len(rows))
    return TeacherForcedPass(predicted, target, real)


def score_system(
    system: System,
    table: pd.DataFrame,
    starts: Sequence[Start] = (1,),
    report: Callable[[int], None] = lambda count: None,
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Score a model, on its device, on a problem set, from each start that gives different ids.

    Args:
        starts, report: see `score`.

    Returns:
        cells: for each `start`, `set`, `i` and `j`, the number of `exact` answers of `n` problems;
            `accuracy` and the ends of its interval (`low`, `high`); the number of each mistake
            (`mistakes.KINDS`); the number in which each of the `PARTS` is correct, given the true
            tokens before it (`first_right`: in sorting, the smallest number); and in formats that
            write more than the answer's digits, the number of correct digits in real decoding
            (`digits_right`, else missing; with steps, in set "equal" only, because decoding is
            slow).
        places: of the problems in set "equal", for each `start`, number of `digits` and `place`
            (0: least significant), the number `correct` of the `n` answers with this place, given
            the true tokens before it (so errors do not spread as in decoding), with accuracy and
            interval; and the number whose `first_wrong` token is here. The end has no place.
        steps: of the same problems in a scratchpad, the number of `n` whose `step` (a number with
            the sign before it) is `correct`, given the true tokens before it, and the number whose
            `first_wrong` token is here. Empty in other formats.
        All tables have the `row`, `scale` and `seed` of the model, and its `trained` digits.

    >>> from carry.evaluation.trained_models import load_committed
    >>> table = pd.DataFrame({"operands": ["17 25", "12 25"], "set": "grid", "i": 2, "j": 2})
    >>> system = load_committed("addition_relative")
    >>> cells, places, _ = score_system(system, table.assign(label=0))
    >>> cells[["n", "exact", "lost_carry", "other"]].values.tolist()
    [[2, 2, 0, 0]]
    """
    starts, device = system.distinct_starts(starts), system.device
    table = table.reset_index(drop=True)
    scored, places, steps = {start: [] for start in starts}, [], []
    # Formats and tasks that loop over places do so once for all problems of a length.
    longest = table[["i", "j"]].max(axis=1)
    for digits, rows in longest.groupby(longest).indices.items():
        problems = problem_sets.to_problems(table.loc[rows], system.task).to(device)
        equal = torch.tensor((table.loc[rows, "set"] == "equal").tolist(), device=device)
        batch = system.format.write(problems)
        for start in starts:
            result = score(system, problems, start, report)
            labels = {"start": str(start), "digits": int(digits)}
            places.append(_count_by_place(batch, result, equal).assign(**labels))
            if system.format.has_steps:
                steps.append(_count_by_step(batch, result, equal).assign(**labels))
            kind = mistakes.classify_errors(system.format, problems, batch, result)
            columns = {"exact": result.exact}
            columns |= {name: kind == number for number, name in enumerate(mistakes.KINDS)}
            columns |= dict(zip(PARTS, (~find_wrong_parts(result)).double(), strict=True))
            digits_right = _score_digits(system, problems, result.exact, equal, start)
            columns["digits_right"] = digits_right.double()
            numbers = {name: column.cpu().numpy() for name, column in columns.items()}
            part = table.loc[rows, ["set", "i", "j"]].assign(start=str(start), n=1, **numbers)
            scored[start].append(part)
    counts = pd.concat([pd.concat(parts).sort_index() for parts in scored.values()])
    grouped = counts.groupby(["start", "set", "i", "j"], as_index=False, sort=False)
    cells = add_interval(grouped.sum(min_count=1))  # the sum of missing values is missing, not 0
    cells = cells.assign(**list_labels(system))[[*COLUMNS["cells"]]]
    return cells, _sum_counts(system, places, "place"), _sum_counts(system, steps, "step")


def find_wrong_parts(result: TeacherForcedPass) -> Bool[Tensor, "P B"]:
    """Return for each of the `PARTS` of a response whether it has a wrong token.

    >>> predicted, target = torch.tensor([[5, 6, 7, 8, 1, 0]]), torch.tensor([[5, 9, 9, 8, 9, 0]])
    >>> find_wrong_parts(TeacherForcedPass(predicted, target, target < 10))[:, 0].tolist()
    [False, True, True, False]
    """
    slot = torch.arange(result.real.shape[1], device=result.real.device)
    end = result.real.sum(1, keepdim=True) - 1
    masks = (slot == 0, (slot > 0) & (slot < end - 1), slot == end - 1, slot == end)
    return torch.stack([(result.wrong & mask).any(1) for mask in masks])


def _score_digits(
    system: System,
    problems: Problems,
    exact: Bool[Tensor, " B"],
    equal: Bool[Tensor, " B"],
    start: Start,
) -> Float[Tensor, " B"]:
    """Decode responses that hold more than the answer's digits, and compare the digits only.

    A teacher-forced pass cannot score them, because decoding continues after a wrong step or hint;
    exact responses have correct digits.
    """
    form = system.format
    if not form.has_index_hints and not form.has_steps:
        return torch.full((len(problems),), torch.nan)
    scored = equal if form.has_steps else torch.ones_like(equal)
    correct = torch.where(scored, exact.float(), torch.nan)
    rows = (scored & ~exact).nonzero()[:, 0]
    if len(rows):
        wrong = problems[rows]
        predicted = decode_greedily(system, wrong, start)
        _, target, real = form.write(wrong).response()
        target = torch.where(real, target, EOS)
        width = max(predicted.shape[1], target.shape[1])
        read, read_target = (
            form.read(F.pad(response, (0, width - response.shape[1]), value=EOS))
            for response in (predicted, target)
        )
        correct[rows] = (read == read_target).all(1).float()
    return correct


def split_problems(
    system: System, problems: Problems, batch: Batch, start: Start, most: int | None = None
) -> Iterator[tuple[Integer[Tensor, " b"], Batch, list[list[Integer[Tensor, "_ S"]]]]]:
    """Split problems into parts of one shape; yield their rows, themselves, and ids by start.

    Args:
        batch: the problems in the model's format.
        start: the first id, or "all" (see `System.read_from` for "window").
        most: problems of a part, besides the limit by attention scores.
    """
    scores = MAX_ATTENTION_SCORES * (TIMES_ON_GPU if system.device.type == "cuda" else 1)
    size = max(1, scores // batch.tokens.shape[1] ** 2)
    for rows in _group_problems(system, problems, batch, start):
        # Up to its first error the model has written the true tokens, so it has these ids.
        ids_by_start = compute_decoding_ids(system, problems[rows], batch[rows], start)
        for part in torch.arange(len(rows), device=rows.device).split(min(size, most or size)):
            yield rows[part], batch[rows[part]].trim(), select_rows(ids_by_start, part)


def _group_problems(
    system: System, problems: Problems, batch: Batch, start: Start
) -> list[Integer[Tensor, " _"]]:
    """Group the rows of problems by shape; join shapes with few problems and equal first ids.

    The rows of a joined group are in the order of their lengths, so that little is padded.
    """
    groups: list[Tensor] = []
    few: dict[str, list[Tensor]] = {}  # by first ids
    for rows in group_by_shape(problems, system.format):
        if len(rows) >= FEW:
            groups.append(rows)
        else:
            first_ids = list_first_ids(system, problems[rows[:1]], start)
            few.setdefault(str(first_ids), []).append(rows)
    for joined in map(torch.cat, few.values()):
        groups.append(joined[batch.length[joined].argsort(stable=True)])
    return groups


def locate_digits(batch: Batch) -> tuple[Integer[Tensor, "B A"], Bool[Tensor, "B A"]]:
    """Return the place of each response token, and whether it is a digit of the last number.

    The answer is the last number of a response, after the steps of a scratchpad.
    """
    _, _, real = batch.response()
    place, number = (marks.gather(1, batch.slots()) for marks in (batch.place, batch.number))
    number = number * real
    return place, real & (place >= 0) & (number == number.amax(1, keepdim=True))


def _count_by_place(
    batch: Batch, result: TeacherForcedPass, rows: Bool[Tensor, " B"]
) -> pd.DataFrame:
    """Count correct digits by place, in the last number of each response of some rows."""
    slots = torch.arange(result.real.shape[1], device=batch.start.device)
    place, is_digit = locate_digits(batch)
    digit = is_digit & (result.target < 10) & rows[:, None]
    counted = {
        "n": result.real,
        "correct": ~result.wrong,
        "first_wrong": slots == result.first_wrong[:, None],
    }
    counts = {
        name: torch.bincount(place[digit & tokens], minlength=len(slots)).tolist()
        for name, tokens in counted.items()
    }
    return pd.DataFrame({"place": range(len(slots)), **counts})


def _count_by_step(
    batch: Batch, result: TeacherForcedPass, rows: Bool[Tensor, " B"]
) -> pd.DataFrame:
    """Count correct steps over some rows of a batch, each among the responses that have it."""
    number = batch.number.gather(1, batch.slots()) * result.real
    # A sign belongs to the number after it, and the end to the last number.
    number = torch.where(number > 0, number, number.amax(1, keepdim=True))
    number = number.flip(1).cummin(1).values.flip(1)
    step = number - number[:, :1]
    steps = int(step.max()) + 1
    wrong = torch.zeros(len(step), steps, dtype=torch.bool, device=step.device)
    wrong.scatter_reduce_(1, step.long(), result.wrong, "amax")
    present = torch.zeros_like(wrong).scatter(1, step.long(), True)
    first_wrong = step.gather(1, result.first_wrong.clamp(min=0)[:, None].long())[:, 0]
    first_wrong = first_wrong[rows & ~result.exact].long()
    counts = {
        "n": present[rows].sum(0).tolist(),
        "correct": (present & ~wrong)[rows].sum(0).tolist(),
        "first_wrong": torch.bincount(first_wrong, minlength=steps).tolist(),
    }
    return pd.DataFrame({"step": range(steps), **counts})


def _sum_counts(system: System, parts: list[pd.DataFrame], by: str) -> pd.DataFrame:
    columns = ["start", "digits", by, "n", "correct", "first_wrong"]
    counts = pd.concat(parts) if parts else pd.DataFrame(columns=columns, dtype=int)
    counts = counts.groupby(columns[:3], as_index=False, sort=False).sum()
    counts = add_interval(counts[counts["n"] > 0].reset_index(drop=True), "correct")
    order = COLUMNS["places" if by == "place" else "steps"]
    return counts.assign(set="equal", **list_labels(system))[[*order]]


def list_labels(system: System) -> dict[str, str | int]:
    """Return the columns that name a model in result tables."""
    run = system.run
    names = {"row": run.name, "scale": run.scale, "seed": system.seed}
    return {**names, "trained": max(run.trained_lengths())}
