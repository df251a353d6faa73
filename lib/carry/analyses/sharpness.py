"""Accuracy by a factor on attention logits at evaluation, which the validation band chooses.

Beyond the trained lengths attention is spread over more tokens; logits times a factor above 1
gather it again (`evaluation.sharpness`). The factor of a row is chosen on its validation band, for
each start by itself, and what it gives is read off longer problems.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
import torch

from carry.analyses import Report, analyse_seeds, ignore
from carry.config.run_settings import Evaluation, Run
from carry.config.settings import SettingsError
from carry.data import problem_sets
from carry.evaluation import trained_models
from carry.evaluation.intervals import pool_cells
from carry.evaluation.scoring import score_system
from carry.models.system import Start, System
from carry.randomness import stream

TASK = "addition"
COLUMNS = {
    "accuracy_by_sharpness": (
        "row", "profile", "seed", "trained", "start", "set", "digits", "factor", "chosen", "n",
        "exact", "accuracy", "low", "high",
    )
}  # fmt: skip
FACTORS = (0.8, 1.0, 1.25, 1.5, 2.0)
MULTIPLES = (1.5, 2, 3)  # of the trained length: beyond the band, up to the row's longest test
PROBLEMS = 100  # of each length
PART = 2  # one problem in PART is read from all starts, which takes a pass for each


def tables(row: str, profile: str, report: Report = ignore) -> dict[str, pd.DataFrame]:
    """Score all seeds of a row with each factor, and choose the row's factor.

    Returns:
        accuracy_by_sharpness: for each seed, `start` ("1", and "all" if the row has it) and
            `factor`, how many of `n` sums of two operands of `digits` digits are `exact`, with
            `accuracy` and its interval. The `set` is "trained" (the longest trained length),
            "band" (the lengths of the validation band together, so `digits` is missing), or
            "beyond" (multiples of the trained length). `chosen`: see `mark_chosen`.

    Raises:
        SettingsError: if the row has no weights, no attention, or no length beyond its band.
    """
    system = trained_models.load_trained(profile, row)
    if not system.network.has_attention:
        raise SettingsError(
            f"analyses.{row}: 'sharpness' does not fit model {system.run.model['name']!r}, which "
            "has no attention; expected a model with attention"
        )
    list_lengths(system.run)  # before any work
    scored = analyse_seeds(report, _analyse_seed, row, profile)
    return {name: mark_chosen(table)[[*COLUMNS[name]]] for name, table in scored.items()}


def _analyse_seed(row: str, profile: str, seed: int) -> dict[str, pd.DataFrame]:
    system = trained_models.load_trained(profile, row, seed)
    return {"accuracy_by_sharpness": score_factors(system)}


def list_lengths(run: Run) -> dict[str, list[int]]:
    """Return the scored lengths of a run by set: trained, in the band, and beyond it.

    >>> from carry.config.run_settings import make_run
    >>> settings = {"task": {"name": "addition"}, "training": {"digits": 5}}
    >>> list_lengths(make_run({**settings, "evaluation": {"digits": 15}}))
    {'trained': [5], 'band': [6, 7], 'beyond': [8, 10, 15]}

    Raises:
        SettingsError: for a run without a band, or that tests no multiple beyond it.
    """
    trained, band = run.training.digits, run.validation_band()
    longest = run.evaluation.largest_size()
    multiples = [round(times * trained) for times in MULTIPLES]
    beyond = [digits for digits in multiples if digits <= longest and digits not in band]
    if not band or not beyond:
        raise SettingsError(
            f"analyses.{run.name}: 'sharpness' does not fit training.digits {trained} and tests to "
            f"{longest} digits; expected a validation band, and tests to twice the trained length"
        )
    return {"trained": [trained], "band": [*band], "beyond": beyond}


def draw_problems(system: System, count: int = PROBLEMS) -> pd.DataFrame:
    """Return `count` problems of each length as a problem set; all models get the same.

    >>> from carry.config.run_settings import make_run
    >>> settings = {"task": {"name": "addition"}, "training": {"digits": 4}}
    >>> table = draw_problems(System(make_run(settings)), count=3)
    >>> table.groupby(["set", "i"], sort=False).size().reset_index().values.tolist()
    [['trained', 4, 3], ['band', 5, 3], ['band', 6, 3], ['beyond', 8, 3], ['beyond', 12, 3]]
    """
    parts = []
    for kind, lengths in list_lengths(system.run).items():
        for digits in lengths:
            cells = torch.full((count, 2), digits)
            problems = system.task.draw_for_cells(cells, stream(0, "sharpness", digits))
            parts.append(problem_sets.to_table(kind, cells, problems, system.task))
    return pd.concat(parts, ignore_index=True)


def score_factors(
    system: System, factors: Sequence[float] = FACTORS, count: int = PROBLEMS
) -> pd.DataFrame:
    """Score a model with each factor in place of its row's `evaluation.sharpness`.

    Returns:
        `accuracy_by_sharpness` of `tables` without `chosen`.

    >>> from carry.evaluation.mock_models import Oracle
    >>> from carry.config.run_settings import make_run
    >>> settings = {"task": {"name": "addition"}, "training": {"digits": 4}}
    >>> table = score_factors(Oracle(make_run(settings)), [1.0, 2.0], count=2)
    >>> table[["set", "digits", "factor", "exact", "n"]].values.tolist()[1:4]
    [['band', nan, 1.0, 4, 4], ['beyond', 8.0, 1.0, 2, 2], ['beyond', 12.0, 1.0, 2, 2]]

    Raises:
        SettingsError: for a factor that `evaluation.sharpness` refuses.
    """
    run, sharpness = system.run, system.network.sharpness
    for factor in factors:
        Evaluation.parse({"sharpness": factor}, f"runs.{run.name}.evaluation")
    problems, parts = draw_problems(system, count), []
    by_start: dict[Start, pd.DataFrame] = {1: problems}
    if "all" in system.distinct_starts(run.evaluation.starts):
        by_start["all"] = problems.iloc[::PART]
    for factor in factors:
        system.network.sharpness = factor
        for start, table in by_start.items():
            cells, _, _ = score_system(system, table, [start], run.evaluation.recurrences)
            parts.append(cells.assign(factor=factor))
    system.network.sharpness = sharpness
    cells = pd.concat(parts, ignore_index=True)
    # The band is scored as a whole: none of its lengths is reported.
    digits = cells["i"].where(cells["set"] != "band", 0)
    keys = ["row", "profile", "seed", "trained", "start", "set", "digits", "factor"]
    table = pool_cells(cells.assign(digits=digits), keys)
    return table.assign(digits=table["digits"].where(table["set"] != "band"))


def mark_chosen(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the column `chosen`: whether the factor is that of its row and start.

    It has the best median accuracy of the seeds in the band; of equal ones it is the nearest to 1
    by its logarithm, then the smaller.

    >>> band = {"row": "mine", "start": "1", "set": "band", "seed": [0, 1] * 3}
    >>> band |= {"factor": [0.8, 0.8, 1.25, 1.25, 2, 2], "accuracy": [0, 0, 0.2, 0.6, 0.4, 0.4]}
    >>> mark_chosen(pd.DataFrame(band)).query("chosen")["factor"].tolist()
    [1.25, 1.25]
    """
    keys = ["row", "start", "factor"]
    band = table[table["set"] == "band"].groupby(keys, as_index=False)["accuracy"].median()
    away = [round(abs(math.log(factor)), 6) for factor in band["factor"]]
    ranked = band.assign(accuracy=band["accuracy"].round(6), away=away).sort_values(
        ["accuracy", "away", "factor"], ascending=[False, True, True]
    )
    best = pd.MultiIndex.from_frame(ranked.drop_duplicates(["row", "start"])[keys])
    return table.assign(chosen=pd.MultiIndex.from_frame(table[keys]).isin(best))
