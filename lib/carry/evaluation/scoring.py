"""Exact match, accuracy by place and by step, and kinds of faults, from one pass over each problem.

`carry.models.teacher_forcing` proves that the pass tells what greedy decoding would; the ids that it
takes are those of `decoding.py`, which know the question only. Problems with operands of the same
lengths go through the model together: nothing in their questions is padded, and they share ids, so
that what encodings make of ids is worked out once for all of them. (Where a format puts spaces in,
questions of one length go together, and each has its own.) Scores are always plain fp32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Integer
from torch import Tensor

from carry.data import problem_sets
from carry.data.batch import Batch
from carry.data.problems import Problems
from carry.evaluation import mistakes
from carry.evaluation.decoding import decode_greedily, group_by_shape, written_ids
from carry.evaluation.intervals import add_interval
from carry.formats import EOS
from carry.models.system import Start, System
from carry.models.teacher_forcing import TeacherForcedPass, teacher_forced_pass
from carry.training.batched.count_pass import counted_pass
from carry.training.precision import training_in

# Attention scores of one head in one batch: problems x tokens x tokens.
MOST_SCORES = 2**22

# What is counted besides exact match and faults.
ALSO = ("first_right", "digits_right")


def score_system(
    system: System,
    table: pd.DataFrame,
    starts: Sequence[Start] = (1,),
    recurrences: int | None = None,
    device: torch.device | str = "cpu",
    report: Callable[[int], None] = lambda scored: None,
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Score a model on the rows of a problem set, from each start that makes a difference.

    Args:
        report: called with how many problems have been scored since its last call.

    Returns:
        cells: for each `start`, `set`, `i` and `j`, how many of `n` problems are `exact`, that as
            `accuracy` with the ends of its interval (`low`, `high`), how many of the others have
            each fault (`faults.KINDS`), how many have the first token of the response right
            (`first_right`: in sorting, the smallest number), and where the format writes more than
            the answer's digits, how many have those right in real decoding (`digits_right`, else
            missing; behind a scratchpad of set "equal" alone, since that takes a step a token).
        places: of the problems in set "equal", for each `start`, number of `digits` and `place`
            (0: the ones), how many of the `n` answers that have this place are `correct` there,
            given the truth before it (so an error does not spread as in decoding), with
            accuracy and interval, and in how many it is the `first_wrong` token. The end of the
            answer has no place.
        steps: of the same problems, where a scratchpad is written: in how many of `n` all tokens
            of a `step` (a number, with the sign before it) are `correct`, given the truth before
            it, and in how many it holds the `first_wrong` token. Empty for other formats.
        All name the `row`, `profile` and `seed` of the model, and the digits it was `trained` to.

    >>> from carry.evaluation.mock_models import ForgetsCarries
    >>> from carry.config.run_settings import make_run
    >>> table = pd.DataFrame({"operands": ["17 25", "12 25"], "set": "grid", "i": 2, "j": 2})
    >>> table["label"] = 0
    >>> cells, places, _ = score_system(ForgetsCarries(make_run({"task": {"name": "addition"}})), table)
    >>> cells[["n", "exact", "lost_carry", "other"]].values.tolist()
    [[2, 1, 1, 0]]
    """
    starts = system.different(starts)
    table = table.reset_index(drop=True)
    system.network.to(device).eval()
    seen_of = {name: np.zeros((len(starts), len(table))) for name in ("kind", *ALSO)}
    by_place, by_step = [], []
    with training_in("fp32", torch.device(device)):
        # What has a step for each place is done once for all problems with as many places.
        longest = table[["i", "j"]].max(axis=1)
        for digits, rows in longest.groupby(longest).indices.items():
            problems = problem_sets.to_problems(table.loc[rows], system.task).to(device)
            equal = torch.tensor((table.loc[rows, "set"] == "equal").tolist(), device=device)
            batch = system.format.write(problems)
            for index, start in enumerate(starts):
                errors = torch.zeros(len(rows), 3, dtype=torch.long, device=device)
                begun = torch.zeros(len(rows), dtype=torch.bool, device=device)
                for some, seen in _passes(system, problems, batch, start, recurrences):
                    errors[some] = mistakes.first_error(batch[some], seen)
                    begun[some] = ~seen.wrong[:, 0]
                    counted = equal[some]
                    if counted.any():
                        names = {"start": str(start), "digits": int(digits)}
                        by_place.append(_by_place(batch[some], seen, counted, names))
                        if system.format.has_steps:
                            by_step.append(_by_step(batch[some], seen, counted, names))
                    report(len(some))
                kind = mistakes.named(system.format, problems, errors)
                exact = kind == mistakes.NONE
                digits_right = _digits_right(system, problems, exact, equal, start, recurrences)
                for name, of in zip(seen_of, (kind, begun, digits_right), strict=True):
                    seen_of[name][index, rows] = of.cpu()
    cells = _cells(system, table, starts, seen_of)
    return cells, _tallied(system, by_place, "place"), _tallied(system, by_step, "step")


def _digits_right(
    system: System,
    problems: Problems,
    exact: Bool[Tensor, " B"],
    equal: Bool[Tensor, " B"],
    start: Start,
    recurrences: int | None,
) -> Float[Tensor, " B"]:
    """Decode where a response holds more than the answer's digits, and compare these alone.

    One pass over the truth does not tell this, since what is wrong and left out is read on from;
    but where all is right, so are they.
    """
    form = system.format
    if not form.has_index_hints and not form.has_steps:
        return torch.full((len(problems),), torch.nan)
    asked = equal if form.has_steps else torch.ones_like(equal)
    right = torch.where(asked, exact.float(), torch.nan)
    rows = (asked & ~exact).nonzero()[:, 0]
    if len(rows):
        some = problems[rows]
        said = decode_greedily(system, some, start, recurrences)
        _, target, real = form.write(some).response()
        due = torch.where(real, target, EOS)
        longest = max(said.shape[1], due.shape[1])
        read, true = (form.read(_ended(of, longest)) for of in (said, due))
        right[rows] = (read == true).all(1).float()
    return right


def _ended(response: Integer[Tensor, "B A"], width: int) -> Integer[Tensor, "B W"]:
    return F.pad(response, (0, width - response.shape[1]), value=EOS)


def _passes(
    system: System, problems: Problems, batch: Batch, start: Start, recurrences: int | None
) -> Iterator[tuple[Integer[Tensor, " b"], TeacherForcedPass]]:
    """Run the model over all problems, those that are alike together."""
    if system.run.training.batched_seeds:
        yield torch.arange(len(problems)), counted_pass(system, problems, batch)
        return
    most = max(1, MOST_SCORES // batch.tokens.shape[1] ** 2)
    for rows in group_by_shape(problems, system.format):
        # Until the first error the model has written what is true.
        ids = written_ids(system, problems[rows], batch[rows], start)
        for part in torch.arange(len(rows), device=rows.device).split(most):
            own = [of if len(of) == 1 else of[part] for of in ids]
            some = rows[part]
            seen = teacher_forced_pass(system, batch[some].trim(), recurrences=recurrences, ids=own)
            yield some, seen


def _by_place(
    batch: Batch, seen: TeacherForcedPass, rows: Bool[Tensor, " B"], names: dict[str, object]
) -> pd.DataFrame:
    """Count by place over some rows of a batch, in the last number that each of them writes."""
    slots = torch.arange(seen.real.shape[1], device=batch.start.device)
    at = batch.slots()
    place, number = batch.place.gather(1, at), batch.number.gather(1, at) * seen.real
    last = number == number.amax(1, keepdim=True)
    digit = seen.real & (place >= 0) & (seen.target < 10) & last & rows[:, None]
    first = slots == seen.first_wrong[:, None]
    counts = {
        name: torch.bincount(place[digit & which], minlength=len(slots)).tolist()
        for name, which in
        {"n": seen.real, "correct": ~seen.wrong, "first_wrong": first}.items()
    }  # fmt: skip
    return pd.DataFrame({**names, "place": range(len(slots)), **counts})


def _by_step(
    batch: Batch, seen: TeacherForcedPass, rows: Bool[Tensor, " B"], names: dict[str, object]
) -> pd.DataFrame:
    """Count by step over some rows of a batch that write as many steps."""
    number = batch.number.gather(1, batch.slots()) * seen.real
    # A sign goes with the number behind it, and the end with the last.
    number = torch.where(number > 0, number, number.amax(1, keepdim=True))
    number = number.flip(1).cummin(1).values.flip(1)
    step = number - number[:, :1]
    steps = int(step.max()) + 1
    wrong = torch.zeros(len(step), steps, dtype=torch.bool, device=step.device)
    wrong.scatter_reduce_(1, step.long(), seen.wrong, "amax")
    begun = step.gather(1, seen.first_wrong.clamp(min=0)[:, None].long())[:, 0]
    begun = begun[rows & ~seen.exact].long()
    counts = {
        "n": [int(rows.sum())] * steps,
        "correct": (~wrong[rows]).sum(0).tolist(),
        "first_wrong": torch.bincount(begun, minlength=steps).tolist(),
    }
    return pd.DataFrame({**names, "step": range(steps), **counts})


def _cells(
    system: System, table: pd.DataFrame, starts: list[Start], seen_of: dict[str, np.ndarray]
) -> pd.DataFrame:
    parts = []
    for index, start in enumerate(starts):
        kind = seen_of["kind"][index]
        counted = {"n": np.ones(len(table), dtype=int), "exact": kind == mistakes.NONE}
        counted |= {name: kind == number for number, name in enumerate(mistakes.KINDS)}
        counted |= {name: seen_of[name][index] for name in ALSO}
        part = table[["set", "i", "j"]].assign(start=str(start), **counted)
        grouped = part.groupby(["start", "set", "i", "j"], as_index=False, sort=False)
        parts.append(grouped.sum(min_count=1))  # of what is missing the sum is missing, not 0
    cells = add_interval(pd.concat(parts, ignore_index=True))
    order = ["start", "set", "i", "j", "n", "exact", "accuracy", "low", "high", *mistakes.KINDS]
    return _labelled(system, cells[[*order, *ALSO]])


def _tallied(system: System, tallies: list[pd.DataFrame], by: str) -> pd.DataFrame:
    columns = ["start", "digits", by, "n", "correct", "first_wrong"]
    tally = pd.concat(tallies) if tallies else pd.DataFrame(columns=columns, dtype=int)
    counted = tally.groupby(columns[:3], as_index=False, sort=False).sum()
    counted = add_interval(counted[counted["n"] > 0].reset_index(drop=True), "correct")
    counted.insert(1, "set", "equal")
    return _labelled(system, counted)


def _labelled(system: System, table: pd.DataFrame) -> pd.DataFrame:
    run = system.run
    labels = {"row": run.name, "profile": run.profile, "seed": system.seed,
              "trained": run.training.digits}  # fmt: skip
    for index, (name, value) in enumerate(labels.items()):
        table.insert(index, name, value)
    return table
