"""Exact match, accuracy by place and the kinds of faults, from one pass over each problem.

`carry.models.single_pass` proves that the pass tells what greedy decoding would; the ids that it
takes are those of `decoding.py`, which know the question only. Problems with operands of the same
lengths go through the model together: nothing in their questions is padded, and they share ids, so
that what encodings make of ids is worked out once for all of them. Scores are always plain fp32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from carry import problem_sets
from carry.batch import Batch, Problems
from carry.evaluation import faults
from carry.evaluation.decoding import alike, question_ids
from carry.evaluation.intervals import with_interval
from carry.models.single_pass import Pass, single_pass
from carry.models.system import Start, System
from carry.training.precision import training_in

# Attention scores of one head in one batch: problems x tokens x tokens.
MOST_SCORES = 2**22


def score(
    system: System,
    table: pd.DataFrame,
    starts: Sequence[Start] = (1,),
    recurrences: int | None = None,
    device: torch.device | str = "cpu",
    report: Callable[[int], None] = lambda scored: None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Score a model on the rows of a problem set, from each start that makes a difference.

    Args:
        report: called with how many problems have been scored since its last call.

    Returns:
        cells: for each `start`, `set`, `i` and `j`, how many of `n` problems are `exact`, that as
            `accuracy` with the ends of its interval (`low`, `high`), and how many of the others
            have each fault (`faults.KINDS`).
        places: of the problems in set "equal", for each `start`, number of `digits` and `place`
            (0: the ones), how many of the `n` answers that have this place are `correct` there,
            given the truth before it (so an error does not spread as in decoding), with
            accuracy and interval, and in how many it is the `first_wrong` token. The end of the
            answer has no place.
        Both name the `row`, `profile` and `seed` of the model, and the digits it was `trained` to.

    >>> from carry.evaluation.hand_made import ForgetsCarries
    >>> from carry.run import make
    >>> table = pd.DataFrame({"set": "grid", "i": 2, "j": 2, "a": ["17", "12"], "b": ["25", "25"]})
    >>> cells, places = score(ForgetsCarries(make({"task": {"name": "addition"}})), table)
    >>> cells[["n", "exact", "lost_carry", "other"]].values.tolist()
    [[2, 1, 1, 0]]
    """
    starts = system.different(starts)
    table = table.reset_index(drop=True)
    system.network.to(device).eval()
    kind = np.full((len(starts), len(table)), faults.NONE)
    tallies = []
    with training_in("fp32", torch.device(device)):
        # What has a step for each place is done once for all problems with as many places.
        longest = table[["i", "j"]].max(axis=1)
        for digits, rows in longest.groupby(longest).indices.items():
            problems = problem_sets.to_problems(table.loc[rows], system.task).to(device)
            equal = torch.tensor((table.loc[rows, "set"] == "equal").tolist(), device=device)
            batch = system.format.write(problems)
            for index, start in enumerate(starts):
                errors = torch.zeros(len(rows), 3, dtype=torch.long, device=device)
                for some, seen in _passes(system, problems, batch, start, recurrences):
                    errors[some] = faults.first_error(batch[some], seen)
                    counted = equal[some]
                    if counted.any():
                        tallies.append(
                            _by_place(batch[some], seen, counted, str(start), int(digits))
                        )
                    report(len(some))
                kind[index, rows] = faults.named(system.task, problems, errors).cpu()
    return _cells(system, table, starts, kind), _places(system, tallies)


def _passes(
    system: System, problems: Problems, batch: Batch, start: Start, recurrences: int | None
) -> Iterator[tuple[Integer[Tensor, " b"], Pass]]:
    """Run the model over all problems, operands of the same lengths together."""
    most = max(1, MOST_SCORES // batch.tokens.shape[1] ** 2)
    for rows in alike(problems):
        ids = question_ids(system, problems[rows[:1]], start)
        for some in rows.split(most):
            part = batch[some].trim()
            yield some, single_pass(system, part, recurrences=recurrences, ids=ids)


def _by_place(
    batch: Batch, seen: Pass, rows: Bool[Tensor, " B"], start: str, digits: int
) -> pd.DataFrame:
    """Count by place over some rows of a batch."""
    slots = torch.arange(seen.real.shape[1], device=batch.start.device)
    last = batch.tokens.shape[1] - 1
    place = batch.place.gather(1, (batch.start[:, None] + slots).clamp(max=last))
    digit = seen.real & (place >= 0) & rows[:, None]
    first = slots == seen.first_wrong[:, None]
    counts = {
        name: torch.bincount(place[digit & which], minlength=digits + 1).tolist()
        for name, which in
        {"n": seen.real, "correct": ~seen.wrong, "first_wrong": first}.items()
    }  # fmt: skip
    return pd.DataFrame({"start": start, "digits": digits, "place": range(digits + 1), **counts})


def _cells(
    system: System, table: pd.DataFrame, starts: list[Start], kind: np.ndarray
) -> pd.DataFrame:
    counted = {"n": np.ones_like(kind[0])}
    parts = []
    for start, of in zip(starts, kind, strict=True):
        counted["exact"] = of == faults.NONE
        counted |= {name: of == index for index, name in enumerate(faults.KINDS)}
        part = table[["set", "i", "j"]].assign(start=str(start), **counted)
        parts.append(part.groupby(["start", "set", "i", "j"], as_index=False, sort=False).sum())
    cells = with_interval(pd.concat(parts, ignore_index=True))
    order = ["start", "set", "i", "j", "n", "exact", "accuracy", "low", "high", *faults.KINDS]
    return _labelled(system, cells[order])


def _places(system: System, tallies: list[pd.DataFrame]) -> pd.DataFrame:
    columns = ["start", "digits", "place", "n", "correct", "first_wrong"]
    tally = pd.concat(tallies) if tallies else pd.DataFrame(columns=columns, dtype=int)
    places = tally.groupby(columns[:3], as_index=False, sort=False).sum()
    places = with_interval(places[places["n"] > 0].reset_index(drop=True), "correct")
    places.insert(1, "set", "equal")
    return _labelled(system, places)


def _labelled(system: System, table: pd.DataFrame) -> pd.DataFrame:
    run = system.run
    labels = {"row": run.name, "profile": run.profile, "seed": system.seed,
              "trained": run.training.digits}  # fmt: skip
    for index, (name, value) in enumerate(labels.items()):
        table.insert(index, name, value)
    return table
