"""Accuracy by the id at which problems start, at a few lengths.

A model with a table of ids may read a problem from any start. Each model is scored from single
starts, 1 (the papers' protocol) to the last one from which a length fits the table.
"""

from __future__ import annotations

import pandas as pd
import torch

from carry.analyses import ANY, Report, analyse_seeds, ignore
from carry.config.run_settings import Run
from carry.config.settings import SettingsError
from carry.data import problem_sets
from carry.evaluation import trained_models
from carry.evaluation.intervals import pool_cells
from carry.evaluation.scoring import score_system
from carry.evaluation.starts import list_single_starts
from carry.models.system import System
from carry.randomness import stream

TASK = ANY
COLUMNS = {
    "accuracy_by_start": (
        "row", "profile", "seed", "trained", "digits", "id", "n", "exact", "accuracy", "low",
        "high",
    )
}  # fmt: skip
PROBLEMS = 100  # of each length
MOST_STARTS = 16  # of each length; of more, an even subset
MULTIPLES = (1, 1.5, 2, 3, 5)  # of the trained length; those up to the largest of evaluation count


def tables(row: str, profile: str, report: Report = ignore) -> dict[str, pd.DataFrame]:
    """Score all seeds of a row from single starts.

    Returns:
        accuracy_by_start: for each seed, both sizes `digits` and first `id`, how many of `n`
            responses are `exact`, with `accuracy` and its interval (`low`, `high`).

    Raises:
        SettingsError: if the row has no weights, or ids that no table limits.
    """
    system = trained_models.load_trained(profile, row)
    if system.distinct_starts([1, 2]) == [1]:
        raise SettingsError(
            f"analyses.{row}: 'starts' does not fit ids that do not depend on a start; expected "
            "ids 'abacus' or 'coupled' with a table"
        )
    return analyse_seeds(report, _analyse_seed, row, profile)


def _analyse_seed(row: str, profile: str, seed: int) -> dict[str, pd.DataFrame]:
    system = trained_models.load_trained(profile, row, seed)
    parts = [score_length(system, digits) for digits in list_lengths(system.run)]
    return {"accuracy_by_start": pd.concat(parts, ignore_index=True)}


def list_lengths(run: Run) -> list[int]:
    """Return the scored lengths of a run; none is in a validation band that is never reported.

    >>> from carry.config.run_settings import make_run
    >>> settings = {"task": {"name": "addition"}, "evaluation": {"digits": 30, "band": True}}
    >>> list_lengths(make_run(settings))
    [10, 20, 30]
    """
    trained, evaluation = run.training.digits, run.evaluation
    band = run.validation_band() if evaluation.band else ()
    lengths = dict.fromkeys(round(times * trained) for times in MULTIPLES)
    longest = max(trained, evaluation.largest_size())
    return [digits for digits in lengths if digits <= longest and digits not in band]


def score_length(system: System, digits: int, count: int = PROBLEMS) -> pd.DataFrame:
    """Score a model on problems of one length from each start; all models get the same problems.

    >>> from carry.evaluation.mock_models import Oracle
    >>> from carry.config.run_settings import make_run
    >>> positions = [{"ids": "abacus", "encoding": "learned", "table": 40}]
    >>> oracle = Oracle(make_run({"task": {"name": "addition"}, "positions": positions}))
    >>> score_length(oracle, 30, count=2)[["id", "exact", "n"]].values.tolist()[-1]
    [10, 2, 2]
    """
    cells = torch.full((count, 2), digits)
    problems = system.task.draw_for_cells(cells, stream(0, "starts", digits))
    table = problem_sets.to_table("far", cells, problems, system.task)
    starts = list_single_starts(system, digits, MOST_STARTS)
    scored, _, _ = score_system(system, table, starts, system.run.evaluation.recurrences)
    scored = scored.assign(digits=digits, id=scored["start"].astype(int))
    return pool_cells(scored, ["row", "profile", "seed", "trained", "digits", "id"])
