"""How deep the tokens of an answer go, where each decides for itself (ibrahimli2024, 2.1.3).

A token of an adaptive model halts after some recurrences, or at the last one. What it is read from
is a weighted sum of its streams after each of these: so a token that takes four recurrences may
still be made of the first for the most part. Both are counted, `taken` and `depth`:

    weights of the streams     0.7  0.2  0.1   0        taken 3, depth 0.7 + 2 0.2 + 3 0.1 = 1.4

Both are of the token behind which a digit is written, given the truth before it; ids start at 1.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import torch

from carry import processes, progress
from carry.analyses.subtasks import cascade
from carry.config import run_settings
from carry.config.settings import SettingsError
from carry.data import problem_sets
from carry.data.problems import Problems
from carry.evaluation import trained_models
from carry.evaluation.intervals import add_interval
from carry.models.system import System
from carry.training.precision import training_in

TASK = "addition"
ARCHITECTURE = "adaptive"
CELL = ["digits", "place", "carry", "cascade"]


def tables(row: str, profile: str) -> dict[str, pd.DataFrame]:
    """Watch every seed of a row answer its test problems of equal lengths.

    Returns:
        Each for all `seed`s, and with the `recurrences_trained`: `depths` and `rounds` as the
        functions of these names return them.

    Raises:
        SettingsError: for a row whose model goes as deep for each token.
    """
    asked = run_settings.load_run(row, profile)
    model = asked.model.get("name", "transformer")
    if model != ARCHITECTURE:
        raise SettingsError(
            f"analyses.{row}: 'depths' does not fit model {model!r}, whose tokens all go as deep; "
            f"expected {ARCHITECTURE!r}"
        )
    jobs = [(row, profile, seed) for seed in range(asked.seeds)]
    with progress.progress_bar(len(jobs), row, unit="seed") as shown:
        found = processes.run_jobs(_of_seed, jobs, shown.update)
    return {name: pd.concat([of[name] for of in found], ignore_index=True) for name in found[0]}


def _of_seed(report: Any, row: str, profile: str, seed: int) -> dict[str, pd.DataFrame]:
    system = trained_models.load_trained(profile, row, seed)
    questions = problem_sets.read_questions(system.run)
    equal = questions[questions["set"] == "equal"]
    names = {
        "row": row,
        "profile": profile,
        "seed": seed,
        "trained": system.run.training.digits,
        "recurrences_trained": system.network.given.recurrences,
    }
    found: dict[str, list[pd.DataFrame]] = {"depths": [], "rounds": []}
    device = system.network.tokens.weight.device
    with training_in("fp32", device):
        for digits, of in equal.groupby("i"):
            problems = problem_sets.to_problems(of, system.task).to(device)
            for name, part in (("depths", depths), ("rounds", rounds)):
                found[name].append(part(system, problems).assign(digits=digits))
    report(1)
    joined = {name: pd.concat(of, ignore_index=True) for name, of in found.items()}
    return {
        name: table.assign(**names)[[*names, "digits", *table.columns.drop("digits")]]
        for name, table in joined.items()
    }


@torch.inference_mode()
def depths(system: System, problems: Problems) -> pd.DataFrame:
    """Count how deep the digits of some answers go, problems of one length.

    Returns:
        For each `place` of the answer (0: the ones), whether a `carry` comes into it, and the
        longest `cascade` of the problem (see `carry.analyses.subtasks`): of `n` digits the mean of
        the recurrences `taken` and of the `depth`, with their standard deviations (`taken_spread`,
        `depth_spread`), and how many are `correct`, given the truth before them, with an interval.

    >>> from carry.randomness import stream
    >>> from carry.config.run_settings import make_run
    >>> model = {"name": "adaptive", "recurrences": 3, "width": 8, "halting_bias": 9.0}
    >>> system = System(make_run({"task": {"name": "addition"}, "model": model}))
    >>> table = depths(system, system.task.sample(torch.full((9, 2), 2), stream(0, "doctest")))
    >>> table["taken"].unique().tolist(), int(table.loc[table["place"] == 0, "n"].sum())
    ([1.0], 9)
    """
    batch = system.format.write(problems)
    (at, target, real), ids = batch.response(), system.ids(batch)
    right = system.logits(batch, ids, at).argmax(-1) == target
    taken = system.network.recurrences_taken(batch.tokens, ids, at)
    place = batch.place.gather(1, batch.slots()).long()
    digit = real & (place >= 0)
    steps = system.task.steps(problems.to("cpu"))
    longest = cascade(system.task, problems.to("cpu"))[:, None].expand(place.shape)
    carry = steps["carry_used"].long().gather(1, place.clamp(min=0).cpu())
    known = {
        "place": place,
        "carry": carry,
        "cascade": longest,
        "taken": taken.count,
        "depth": taken.mean,
        "correct": right,
    }
    said = pd.DataFrame({name: of.cpu()[digit.cpu()].numpy() for name, of in known.items()})
    grouped = said.groupby(CELL[1:], as_index=False)
    table = grouped.agg(
        n=("taken", "size"),
        taken=("taken", "mean"),
        taken_spread=("taken", _spread),
        depth=("depth", "mean"),
        depth_spread=("depth", _spread),
        correct=("correct", "sum"),
    )
    return add_interval(table, "correct")


def _spread(values: pd.Series) -> float:
    """Return the standard deviation of all values there are, 0 of one."""
    return float(values.astype(float).std(ddof=0))


@torch.inference_mode()
def rounds(system: System, problems: Problems) -> pd.DataFrame:
    """Score a model where tokens may go on for other numbers of recurrences than in training.

    Returns:
        For each number of `recurrences`, from one to twice the trained number, how many of `n`
        answers are `exact`, with an interval.

    >>> from carry.randomness import stream
    >>> from carry.config.run_settings import make_run
    >>> model = {"name": "adaptive", "recurrences": 2, "width": 8}
    >>> system = System(make_run({"task": {"name": "addition"}, "model": model}))
    >>> table = rounds(system, system.task.sample(torch.full((9, 2), 2), stream(0, "doctest")))
    >>> table["recurrences"].tolist(), table["n"].unique().tolist()
    ([1, 2, 3, 4], [9])
    """
    batch = system.format.write(problems)
    at, target, real = batch.response()
    most = 2 * system.network.given.recurrences
    said = system.logits_by_recurrence(batch, system.ids(batch), at, most).argmax(-1)
    exact = ((said == target) | ~real).all(2).sum(1)
    numbers = {"recurrences": range(1, most + 1), "n": len(problems), "exact": exact.tolist()}
    return add_interval(pd.DataFrame(numbers))
