"""Accuracy by the id at which problems start, at a few lengths.

A model with a table of ids may read a problem from any start. Each model is scored from single
starts, 1 (the papers' protocol) to the last one from which a length fits the table.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch

from carry.analyses import ANY, Report, analyse_seeds, ignore
from carry.config.run_settings import Run
from carry.config.settings import SettingsError
from carry.data import problem_sets
from carry.data.problems import Problems
from carry.evaluation import trained_models
from carry.evaluation.decoding import compute_decoding_ids
from carry.evaluation.intervals import pool_cells
from carry.evaluation.scoring import score_system
from carry.evaluation.starts import list_single_starts
from carry.interpretability.attention import measure_response_attention
from carry.models.system import System
from carry.models.teacher_forcing import teacher_forced_pass
from carry.randomness import stream
from carry.training.precision import use_precision

TASK = ANY
COLUMNS = {
    "accuracy_by_start": (
        "row", "profile", "seed", "trained", "digits", "id", "n", "exact", "accuracy", "low",
        "high",
    ),
    "errors_by_start": (
        "row", "profile", "seed", "trained", "digits", "id", "token", "n", "wrong",
    ),
    "attention_by_start": (
        "row", "profile", "seed", "trained", "digits", "id", "layer", "head", "n", "without_id",
    ),
}  # fmt: skip
PROBLEMS = 100  # of each length
BATCH = 25  # problems at a time
ATTENTION_PROBLEMS = 20
MOST_STARTS = 16  # of each length; of more, an even subset
MULTIPLES = (1, 1.5, 2, 3, 5)  # of the trained length; those up to the largest of evaluation count


def tables(row: str, profile: str, report: Report = ignore) -> dict[str, pd.DataFrame]:
    """Score all seeds of a row from single starts.

    Returns:
        accuracy_by_start: for each seed, both sizes `digits` and first `id`, how many of `n`
            responses are `exact`, with `accuracy` and its interval (`low`, `high`).
        errors_by_start: the same for each `token` of the response, from 1: how many of `n` have
            this token, and how many of these predict a `wrong` one after the true tokens before it.
        attention_by_start: for each `layer` and `head`, the mean attention to tokens `without_id`
            (id 0: signs, which have no place) of all tokens that write responses of `n` problems.

    Raises:
        SettingsError: if the row has no weights, no attention, or ids that no table limits.
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
    lengths = list_lengths(system.run)
    accuracy = [score_length(system, digits) for digits in lengths]
    errors = pd.concat([count_errors(system, digits) for digits in lengths], ignore_index=True)
    attention = pd.concat([measure_attention(system, digits) for digits in lengths])
    run = system.run
    labels = {"row": row, "profile": profile, "seed": seed, "trained": run.training.digits}
    return {
        "accuracy_by_start": pd.concat(accuracy, ignore_index=True),
        "errors_by_start": errors.assign(**labels)[[*COLUMNS["errors_by_start"]]],
        "attention_by_start": attention.assign(**labels)[[*COLUMNS["attention_by_start"]]],
    }


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
    cells, problems = _draw_problems(system, digits, count)
    table = problem_sets.to_table("far", cells, problems, system.task)
    starts = list_single_starts(system, digits, MOST_STARTS)
    scored, _, _ = score_system(system, table, starts, system.run.evaluation.recurrences)
    scored = scored.assign(digits=digits, id=scored["start"].astype(int))
    return pool_cells(scored, ["row", "profile", "seed", "trained", "digits", "id"])


def count_errors(system: System, digits: int, count: int = PROBLEMS) -> pd.DataFrame:
    """Count the wrong tokens of the same problems from each start, by their slot in the response.

    >>> from carry.evaluation.mock_models import Oracle
    >>> from carry.config.run_settings import make_run
    >>> positions = [{"ids": "abacus", "encoding": "learned", "table": 40}]
    >>> oracle = Oracle(make_run({"task": {"name": "addition"}, "positions": positions}))
    >>> table = count_errors(oracle, 30, count=2)
    >>> table["id"].unique().tolist(), int(table["n"].max()), int(table["wrong"].sum())
    ([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 2, 0)
    """
    _, problems = _draw_problems(system, digits, count)
    recurrences, parts = system.run.evaluation.recurrences, []
    for first in list_single_starts(system, digits, MOST_STARTS):
        for rows in torch.arange(count).split(BATCH):
            batch = system.format.write(problems[rows])
            ids = compute_decoding_ids(system, problems[rows], batch, first)
            with use_precision("fp32", system.device):
                scored = teacher_forced_pass(
                    system, batch, recurrences=recurrences, ids_by_start=ids
                )
            counts = {"n": scored.real.sum(0), "wrong": scored.wrong.sum(0)}
            parts.append(pd.DataFrame(counts).assign(id=first, token=lambda table: table.index + 1))
    table = pd.concat(parts).groupby(["id", "token"], as_index=False)[["n", "wrong"]].sum()
    return table[table["n"] > 0].assign(digits=digits)


def measure_attention(system: System, digits: int, count: int = ATTENTION_PROBLEMS) -> pd.DataFrame:
    """Return the mean attention of each head to tokens without an id, from each start.

    >>> from carry.config.run_settings import make_run
    >>> positions = [{"ids": "abacus", "encoding": "learned", "table": 40}]
    >>> settings = {"task": {"name": "addition"}, "positions": positions}
    >>> system = System(make_run(settings | {"model": {"layers": 1, "heads": 2, "width": 8}}))
    >>> table = measure_attention(system, 38, count=2)
    >>> table[["id", "layer", "head"]].values.tolist(), table["without_id"].between(0, 1).all()
    ([[1, 0, 0], [1, 0, 1], [2, 0, 0], [2, 0, 1]], np.True_)
    """
    _, problems = _draw_problems(system, digits, count)
    batch = system.format.write(problems.to(system.device))
    recurrences, lines = system.run.evaluation.recurrences, []
    for first in list_single_starts(system, digits, MOST_STARTS):
        ids = system.ids(batch, first)
        without = (ids[0] == 0)[:, None]
        shares = measure_response_attention(system, batch, ids, without, recurrences=recurrences)
        for (layer, head), share in np.ndenumerate(shares.mean(1).cpu().numpy()):
            lines.append((first, layer, head, float(share)))
    table = pd.DataFrame(lines, columns=["id", "layer", "head", "without_id"])
    return table.assign(digits=digits, n=count)


def _draw_problems(system: System, digits: int, count: int) -> tuple[torch.Tensor, Problems]:
    """Return problems of one length; all models get the same."""
    cells = torch.full((count, 2), digits)
    return cells, system.task.draw_for_cells(cells, stream(0, "starts", digits))
