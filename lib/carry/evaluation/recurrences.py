"""What a looped model would say if it ended after each recurrence (mcleish2024, A.6.1 and Fig. 13).

One pass over the truth, as in `scoring.py`, is read out after every recurrence, those beyond the
trained number too, where the paper's models keep a fixed point. Each token is thus what the model
says next given the truth before it, so that a place tells nothing of its neighbours' errors.
"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Integer
from torch import Tensor

from carry.data import problem_sets
from carry.data.batch import NO_PLACE, Batch
from carry.data.problems import Problems
from carry.evaluation.decoding import group_by_shape, written_ids
from carry.evaluation.intervals import add_interval
from carry.evaluation.scoring import MOST_SCORES
from carry.formats import ALPHABET
from carry.models.system import Start, System
from carry.training.precision import training_in

MOST_PROBLEMS = 200  # of one length
MOST_LOGITS = 2**24  # of one batch: recurrences x problems x response tokens x symbols

WHOLE = -1  # stands where a place does, for the whole answer

LABELS = ["row", "profile", "seed", "trained", "start", "digits", "recurrences_trained"]
RECURRENCES = [*LABELS, "recurrence", "place", "n", "correct", "accuracy", "low", "high", "same"]
ANSWERS = [*LABELS, "recurrence", "slot", "place", "due", "said"]


def score_by_recurrence(
    system: System,
    table: pd.DataFrame,
    start: Start = 1,
    most: int | None = None,
    device: torch.device | str = "cpu",
    report: Callable[[int], None] = lambda seen: None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Run a looped model on the problems `chosen` of a set, and read it out after each recurrence.

    Args:
        most: the last recurrence (default: twice the trained number, to see whether what it says
            holds for as long again, and at least four more, since one or two would show little).
        report: called with how many problems have been run since its last call.

    Returns:
        recurrences: for each length (`digits`), `recurrence` (from 1) and `place` (0: the ones;
            -1: the whole answer with its end, exact as in `score`), how many of `n` are `correct`,
            that as `accuracy` with the ends of its interval (`low`, `high`), and in how many
            exactly the `same` is said as after the recurrence before (missing after the first).
        answers: for the first problem of each length, after each `recurrence`, which character is
            `due` and which is `said` at each `slot` (in the order of reading) and `place` (the
            slot again where the token has none, as the end and the names of a list).
        Both name the `row`, `profile` and `seed` of the model, the digits it was `trained` to, the
        `start` of its ids and the `recurrences_trained`. They are empty if it is not looped.

    Raises:
        SettingsError: for less than one recurrence.

    >>> from carry.config.run_settings import make_run
    >>> given = {"task": {"name": "addition"}, "grid": 3, "equal": 5}
    >>> table = problem_sets.draw_problem_set("mine", problem_sets.ProblemSet.parse(given, "problems.mine"))
    >>> model = {"layers": 1, "recurrences": 2, "width": 8, "heads": 1}
    >>> system = System(make_run({"task": given["task"], "model": model, "training": {"digits": 2}}))
    >>> recurrences, answers = score_by_recurrence(system, table, most=3)
    >>> whole = recurrences[recurrences["place"] == WHOLE]
    >>> whole[["digits", "recurrence", "n"]].values.tolist()
    [[2, 1, 5], [2, 2, 5], [2, 3, 5], [3, 1, 5], [3, 2, 5], [3, 3, 5]]
    >>> "".join(answers.loc[answers["recurrence"] == 1, "due"])
    '931$0741$'
    """
    trained = _trained(system)
    most = max(2 * trained, trained + 4) if most is None else most
    (start,) = system.different([start])
    labels = {"row": system.run.name, "profile": system.run.profile, "seed": system.seed,
              "trained": system.run.training.digits, "start": str(start),
              "recurrences_trained": trained}  # fmt: skip
    table = choose_problems(system, table)
    counts, spoken = [], []
    system.network.to(device).eval()
    with training_in("fp32", torch.device(device)):
        for digits, of in table.groupby("i"):
            problems = problem_sets.to_problems(of, system.task).to(device)
            batch = system.format.write(problems)
            said = _said(system, problems, batch, start, most, report)
            _, target, real = batch.response()
            place = batch.place.long().gather(1, batch.slots())
            labels["digits"] = digits
            number = batch.number.gather(1, batch.slots()) * real
            counted = torch.where(number == number.amax(1, keepdim=True), place, NO_PLACE)
            counts.append(_counted(said, target, real, counted).assign(**labels)[RECURRENCES])
            spoken.append(_spoken(said, target, real, place).assign(**labels)[ANSWERS])
    if not counts:
        return pd.DataFrame(columns=RECURRENCES), pd.DataFrame(columns=ANSWERS)
    return pd.concat(counts, ignore_index=True), pd.concat(spoken, ignore_index=True)


def choose_problems(system: System, table: pd.DataFrame) -> pd.DataFrame:
    """Return the problems that a looped model is run on, of any other model none.

    They are of equal lengths: the longest in training, the longest inside the grid, and those
    beyond it; of each length the first `MOST_PROBLEMS`.

    >>> from carry.config.run_settings import make_run
    >>> system = System(make_run({"task": {"name": "addition"}, "model": {"recurrences": 2}}))
    >>> table = pd.DataFrame({"set": ["equal"] * 4 + ["far"], "i": [9, 10, 11, 30, 99]})
    >>> choose_problems(system, table.assign(j=table["i"]))["i"].tolist()
    [10, 30, 99]
    """
    if _trained(system) == 1:
        return table.iloc[:0]
    equal = table["set"] == "equal"
    inside = table.loc[equal, "i"]
    known = inside[inside <= system.run.training.digits]
    kept = equal & table["i"].isin([*known.nlargest(1), *inside.nlargest(1)])
    kept |= (table["set"] == "far") & (table["i"] == table["j"])
    return table[kept].groupby("i").head(MOST_PROBLEMS)


def _trained(system: System) -> int:
    return getattr(system.network.given, "recurrences", 1)


@torch.inference_mode()
def _said(
    system: System,
    problems: Problems,
    batch: Batch,
    start: Start,
    most: int,
    report: Callable[[int], None],
) -> Integer[Tensor, "R B A"]:
    """Return the tokens said after each recurrence, 0 behind the end of a response."""
    longest = int((batch.length - batch.start).max())
    logits = max(1, most) * longest * system.format.symbols()
    at_once = max(1, min(MOST_SCORES // batch.tokens.shape[1] ** 2, MOST_LOGITS // logits))
    order, parts = [], []
    for rows in group_by_shape(problems, system.format):
        ids = written_ids(system, problems[rows], batch[rows], start)
        for part in torch.arange(len(rows), device=rows.device).split(at_once):
            some = batch[rows[part]].trim()
            at, _, _ = some.response()  # rows alike begin their responses at the same token
            own = [of if len(of) == 1 else of[part] for of in ids]
            said = system.logits_by_recurrence(some, own, at[:1], most).argmax(-1)
            order.append(rows[part])
            parts.append(F.pad(said, (0, longest - said.shape[2])))
            report(len(part))
    return torch.cat(parts, dim=1)[:, torch.cat(order).argsort()]


def _counted(
    said: Integer[Tensor, "R B A"],
    target: Integer[Tensor, "B A"],
    real: Bool[Tensor, "B A"],
    place: Integer[Tensor, "B A"],
) -> pd.DataFrame:
    """Count what is right, and what is as before, in whole answers and at each place."""
    right, same = said == target, torch.zeros_like(said, dtype=torch.bool)
    same[1:] = said[1:] == said[:-1]
    digit = real & (place >= 0) & (target < 10)
    width = int(place.max()) + 1
    n = [len(real), *torch.bincount(place[digit], minlength=width).tolist()]
    counts = {}
    for name, which in {"correct": right, "same": same}.items():
        whole = (which | ~real).all(2).sum(1, keepdim=True)
        each = which.new_zeros(len(said), width, dtype=torch.long)
        each.index_add_(1, place[digit], which[:, digit].long())
        counts[name] = torch.cat([whole, each], dim=1).flatten().tolist()
    columns = {"n": n * len(said), **counts}
    recurrences, places = range(1, len(said) + 1), range(WHOLE, width)
    index = pd.MultiIndex.from_product([recurrences, places], names=["recurrence", "place"])
    table = pd.DataFrame(columns, index=index).reset_index()
    table["same"] = table["same"].where(table["recurrence"] > 1)
    return add_interval(table[table["n"] > 0], "correct")


def _spoken(
    said: Integer[Tensor, "R B A"],
    target: Integer[Tensor, "B A"],
    real: Bool[Tensor, "B A"],
    place: Integer[Tensor, "B A"],
) -> pd.DataFrame:
    """Write the first problem's response out, as it is due and as it is said each time."""
    slot = real[0].nonzero()[:, 0]
    places = torch.where(place[0, slot] >= 0, place[0, slot], slot).tolist()
    due = [ALPHABET[token] for token in target[0, slot].tolist()]
    parts = [
        pd.DataFrame({
            "recurrence": recurrence, "slot": slot.tolist(), "place": places, "due": due,
            "said": [ALPHABET[token] for token in tokens],
        })
        for recurrence, tokens in enumerate(said[:, 0, slot].tolist(), start=1)
    ]  # fmt: skip
    return pd.concat(parts)
