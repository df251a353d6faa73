"""Read out a looped model after each of its recurrences (mcleish2024, A.6.1 and Fig. 13).

One pass over true responses, as in `scoring.py`, is read out after every recurrence, also beyond
the trained number, where the paper's models keep a fixed point. Each prediction follows the true
tokens before it, so the errors of a place do not affect other places.
"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from carry.data import problem_sets
from carry.data.batch import NO_PLACE, Batch
from carry.data.problems import Problems
from carry.evaluation.intervals import add_interval
from carry.evaluation.scoring import list_labels, locate_digits, split_problems
from carry.formats import ALPHABET
from carry.models.system import Start, System
from carry.models.teacher_forcing import TeacherForcedPass, predict_tokens
from carry.training.precision import use_precision

MAX_PROBLEMS = 200  # of one length
MAX_LOGITS = 2**24  # in one batch: recurrences x problems x response tokens x symbols

WHOLE_ANSWER = -1  # in the column `place`: all tokens of the answer

LABELS = ["row", "scale", "seed", "trained", "start", "digits", "recurrences_trained", "recurrence"]
COLUMNS = {
    "recurrences": [*LABELS, "place", "n", "correct", "accuracy", "low", "high", "same"],
    "answers": [*LABELS, "slot", "place", "target", "predicted"],
}


def score_by_recurrence(
    system: System,
    table: pd.DataFrame,
    start: Start = 1,
    report: Callable[[int], None] = lambda count: None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Run a looped model on `choose_problems` of a set, and read it out after each recurrence.

    Args:
        start: the first id, or "all" for the mean of next-token probabilities over all starts.
        report: called with the number of problems run since its last call.

    Returns:
        recurrences: for each length (`digits`), `recurrence` (from 1 to twice the trained number,
            and at least four more) and `place` (0: least
            significant; -1: the complete answer with its end, exact as in `score_system`), the
            number of `n` that are `correct`, with `accuracy` and the ends of its interval (`low`,
            `high`), and the number with the `same` prediction as after the recurrence before
            (missing after the first).
        answers: for the first problem of each length, after each `recurrence`, the `target` and
            the `predicted` character at each `slot` (in reading order) and `place` (the slot for
            tokens without a place, as the end and the letters of a list).
        Both tables have the `row`, `scale` and `seed` of the model, its `trained` digits, the
        `start` of its ids and `recurrences_trained`. They are empty if the model is not looped.

    >>> from carry.experiments.resolve import make_run
    >>> addition = {"name": "addition"}
    >>> settings = problem_sets.ProblemSet(task=addition, grid=3, equal=5)
    >>> table = problem_sets.draw_problem_set("mine", settings)
    >>> model = {"layers": 1, "recurrences": 2, "width": 8, "heads": 1}
    >>> system = System(make_run({"task": addition, "model": model, "training": {"digits": 2}}))
    >>> recurrences, answers = score_by_recurrence(system, table)
    >>> complete = recurrences[recurrences["place"] == WHOLE_ANSWER]
    >>> complete.query("recurrence <= 2")[["digits", "recurrence", "n"]].values.tolist()
    [[2, 1, 5], [2, 2, 5], [3, 1, 5], [3, 2, 5]]
    >>> "".join(answers.loc[answers["recurrence"] == 1, "target"])
    '931$0741$'
    """
    trained, device = system.network.recurrences, system.device
    most = max(2 * trained, trained + 4)
    (start,) = system.distinct_starts([start])
    labels = {**list_labels(system), "start": str(start), "recurrences_trained": trained}
    counts, answers = [], []
    system.network.eval()
    with use_precision("fp32", device), system.read_from(start) as first:
        for digits, part in choose_problems(system, table).groupby("i"):
            problems = problem_sets.to_problems(part, system.task).to(device)
            batch = system.format.write(problems)
            predicted = _predict_tokens(system, problems, batch, first, most, report)
            _, target, real = batch.response()
            place, is_digit = locate_digits(batch)
            place = place.long()
            labels["digits"] = digits
            count = _count_correct(predicted, target, real, torch.where(is_digit, place, NO_PLACE))
            counts.append(count.assign(**labels)[COLUMNS["recurrences"]])
            answer = _list_predictions(predicted[:, 0], target[0], real[0], place[0])
            answers.append(answer.assign(**labels)[COLUMNS["answers"]])
    tables = {"recurrences": counts, "answers": answers}
    return tuple(
        pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=COLUMNS[name])
        for name, parts in tables.items()
    )


def choose_problems(system: System, table: pd.DataFrame) -> pd.DataFrame:
    """Return the problems for `score_by_recurrence`; none if the model is not looped.

    Their operands have equal lengths: the longest in training, the longest inside the grid, and
    all beyond it; the first `MAX_PROBLEMS` of each length.

    >>> from carry.experiments.resolve import make_run
    >>> system = System(make_run({"task": {"name": "addition"}, "model": {"recurrences": 2}}))
    >>> table = pd.DataFrame({"set": ["equal"] * 4 + ["far"], "i": [9, 10, 11, 30, 99]})
    >>> choose_problems(system, table.assign(j=table["i"]))["i"].tolist()
    [10, 30, 99]
    """
    if system.network.recurrences == 1:
        return table.iloc[:0]
    equal = table["set"] == "equal"
    lengths = table.loc[equal, "i"]
    trained = lengths[lengths <= system.run.training.digits]
    chosen = equal & table["i"].isin([*trained.nlargest(1), *lengths.nlargest(1)])
    chosen |= (table["set"] == "far") & (table["i"] == table["j"])
    return table[chosen].groupby("i").head(MAX_PROBLEMS)


@torch.inference_mode()
def _predict_tokens(
    system: System,
    problems: Problems,
    batch: Batch,
    start: Start,
    most: int,
    report: Callable[[int], None],
) -> Integer[Tensor, "R B A"]:
    """Return the predictions after each recurrence, 0 after the end of a response."""
    _, target, _ = batch.response()
    predicted = target.new_zeros(most, *target.shape)
    at_once = max(1, MAX_LOGITS // (most * target.shape[1] * system.format.vocabulary_size()))
    for rows, part, ids_by_start in split_problems(system, problems, batch, start, at_once):
        at, _, _ = part.response()
        tokens = predict_tokens(
            system.network.each_recurrence(part.tokens, ids, at, most) for ids in ids_by_start
        )
        predicted[:, rows, : at.shape[1]] = tokens
        report(len(rows))
    return predicted


def _count_correct(
    predicted: Integer[Tensor, "R B A"],
    target: Integer[Tensor, "B A"],
    real: Bool[Tensor, "B A"],
    place: Integer[Tensor, "B A"],
) -> pd.DataFrame:
    """Count correct and unchanged predictions, in complete answers and at each place."""
    digit = (place >= 0) & (target < 10)
    places = torch.cat([torch.full((len(real),), WHOLE_ANSWER), place[digit].cpu()])
    tables, before = [], torch.full_like(target, -1)
    for recurrence, tokens in enumerate(predicted, start=1):
        columns = {"place": places, "n": 1}
        for name, expected in {"correct": target, "same": before}.items():
            compared = TeacherForcedPass(tokens, expected, real)
            columns[name] = torch.cat([compared.exact, compared.right[digit]]).cpu()
        counts = pd.DataFrame(columns).groupby("place", as_index=False).sum()
        tables.append(counts.assign(recurrence=recurrence))
        before = tokens
    table = pd.concat(tables)
    table["same"] = table["same"].where(table["recurrence"] > 1)
    return add_interval(table, "correct")


def _list_predictions(
    predicted: Integer[Tensor, "R A"],
    target: Integer[Tensor, " A"],
    real: Bool[Tensor, " A"],
    place: Integer[Tensor, " A"],
) -> pd.DataFrame:
    """List the target and the predictions of one problem's response."""
    slots, times = real.nonzero()[:, 0], len(predicted)
    return pd.DataFrame(
        {
            "slot": slots.tolist() * times,
            "place": torch.where(place[slots] >= 0, place[slots], slots).tolist() * times,
            "target": [ALPHABET[token] for token in target[slots].tolist()] * times,
            "predicted": [ALPHABET[token] for token in predicted[:, slots].flatten().tolist()],
            "recurrence": [r for r in range(1, times + 1) for _ in slots],
        }
    )
