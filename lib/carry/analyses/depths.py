"""Recurrences of adaptive models for each digit of the answer (ibrahimli2024, 2.1.3).

A token of an adaptive model halts after some recurrences, or at the last one. Its output is a
weighted sum of its residual streams after each recurrence, so a token that takes four recurrences
may depend mostly on the first. Two numbers are measured:

    weights of the streams     0.7  0.2  0.1   0     taken: 3 recurrences
                                                     depth: 0.7 + 2 * 0.2 + 3 * 0.1 = 1.4

A digit has the numbers of the token before it, the one that predicts it. Responses are teacher
forced; ids start at 1.
"""

from __future__ import annotations

import pandas as pd
import torch

from carry.analyses import INTERVAL, LABELS
from carry.config.settings import SettingsError
from carry.data import problem_sets
from carry.data.problems import Problems
from carry.data.tables import concat_by_name
from carry.evaluation.intervals import add_interval
from carry.evaluation.scoring import locate_digits
from carry.interpretability.carry_subtasks import measure_cascades
from carry.models.system import System
from carry.models.teacher_forcing import teacher_forced_pass
from carry.training.precision import use_precision

TASK = "addition"
ARCHITECTURE = "adaptive"
MODEL = (*LABELS, "trained", "recurrences_trained", "digits")
COLUMNS = {
    "depths": (
        *MODEL, "place", "carry", "cascade", "n", "recurrences_taken", "depth", "correct",
        *INTERVAL,
    ),
    "rounds": (*MODEL, "recurrences", "n", "exact", *INTERVAL),
}  # fmt: skip


def tables(system: System) -> dict[str, pd.DataFrame]:
    """Measure the recurrences of a model on test problems of equal lengths.

    Returns:
        depths: see `measure_depths`.
        rounds: see `score_recurrences`.

    Raises:
        SettingsError: for a row of another architecture than `ARCHITECTURE`.
    """
    run, name = system.run, system.network.name
    if name != ARCHITECTURE:
        raise SettingsError(
            f"analyses.{run.name}: 'depths' does not fit model {name!r}, where all tokens take the "
            f"same recurrences; expected {ARCHITECTURE!r}"
        )
    questions = problem_sets.load_questions(run)
    parts = []
    with use_precision("fp32", system.device):
        for digits, part in questions[questions["set"] == "equal"].groupby("i"):
            problems = problem_sets.to_problems(part, system.task).to(system.device)
            labels = {"digits": digits, "recurrences_trained": system.network.recurrences}
            depths, rounds = measure_depths(system, problems), score_recurrences(system, problems)
            parts.append({"depths": depths.assign(**labels), "rounds": rounds.assign(**labels)})
    return concat_by_name(parts)


@torch.inference_mode()
def measure_depths(system: System, problems: Problems) -> pd.DataFrame:
    """Measure the recurrences of each digit of some answers; problems of one length.

    Returns:
        For each `place` of the answer (0: least significant), whether a `carry` comes in, and the
        length of the longest `cascade` of the problem: of `n` digits the mean `recurrences_taken`
        and `depth`, and how many are `correct`, with an interval.

    >>> from carry.randomness import stream
    >>> from carry.experiments.resolve import make_run
    >>> model = {"name": "adaptive", "recurrences": 3, "width": 8, "halting_bias": 9.0}
    >>> system = System(make_run({"task": {"name": "addition"}, "model": model}))
    >>> problems = system.task.draw_for_cells(torch.full((9, 2), 2), stream(0, "doctest"))
    >>> table = measure_depths(system, problems)
    >>> table["recurrences_taken"].unique().tolist(), int(table.query("place == 0")["n"].sum())
    ([1.0], 9)
    """
    batch = system.format.write(problems)
    result = teacher_forced_pass(system, batch)
    taken = system.network.recurrences_taken(batch.tokens, system.ids(batch), batch.response()[0])
    place, is_digit = (part.cpu() for part in locate_digits(batch))
    steps = system.task.compute_steps(problems.to("cpu"))
    cascade = measure_cascades(system.task, problems.to("cpu"))[:, None].expand(place.shape)
    columns = {
        "place": place.long(),
        "carry": steps["carry_used"].long().gather(1, place.clamp(min=0).long()),
        "cascade": cascade,
        "n": torch.ones_like(place),
        "recurrences_taken": taken.count,
        "depth": taken.mean,
        "correct": result.right,
    }
    digits = pd.DataFrame({name: part.cpu()[is_digit].numpy() for name, part in columns.items()})
    grouped = digits.groupby(["place", "carry", "cascade"], as_index=False)
    how = {"n": "sum", "recurrences_taken": "mean", "depth": "mean", "correct": "sum"}
    return add_interval(grouped.agg(how), "correct")


@torch.inference_mode()
def score_recurrences(system: System, problems: Problems) -> pd.DataFrame:
    """Score a model with other maximal numbers of recurrences than in training.

    Returns:
        For each number of `recurrences`, from one to twice the trained number, how many of `n`
        answers are `exact`, with an interval.

    >>> from carry.randomness import stream
    >>> from carry.experiments.resolve import make_run
    >>> model = {"name": "adaptive", "recurrences": 2, "width": 8}
    >>> system = System(make_run({"task": {"name": "addition"}, "model": model}))
    >>> problems = system.task.draw_for_cells(torch.full((9, 2), 2), stream(0, "doctest"))
    >>> table = score_recurrences(system, problems)
    >>> table["recurrences"].tolist(), table["n"].unique().tolist()
    ([1, 2, 3, 4], [9])
    """
    batch = system.format.write(problems)
    counts = []
    for most in range(1, 2 * system.network.recurrences + 1):
        exact = int(teacher_forced_pass(system, batch, recurrences=most).exact.sum())
        counts.append({"recurrences": most, "n": len(problems), "exact": exact})
    return add_interval(pd.DataFrame(counts))
