"""The evaluation of one trained seed as a job: a function from weights and problems to tables.

`carry.evaluation.rows` makes the jobs of rows. This module does not depend on it, so that a change
of how jobs are run repeats no evaluation.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from carry.config import paths
from carry.experiments.run import Run
from carry.evaluation.recurrences import choose_problems, score_by_recurrence
from carry.evaluation.scoring import score_system
from carry.evaluation.starts import choose_part
from carry.evaluation.trained_models import restore_system
from carry.progress import count_progress

TABLES = ("cells", "places", "steps")  # of `score_system`
RECURRENCE_TABLES = ("recurrences", "answers")
ATTENTION = "carry.interpretability.attention"  # by name: other rows do not depend on it


def score_seed(
    report: Callable[..., None],
    folder: Path,
    run: Run,
    seed: int,
    weights: Path,
    questions: pd.DataFrame,
) -> None:
    """Score the weights of one seed, and write a Parquet file for each table that is not empty.

    The tables are those of `carry.evaluation.scoring.score_system`: from the first of the row's
    starts for all problems, from the others for those of `choose_part`. A looped model has, from
    the first start, those of `carry.evaluation.recurrences.score_by_recurrence`; a row with an
    `attention_cell` those of `carry.interpretability.attention.describe_attention`.

    Raises:
        SettingsError: for damaged weights, weights of other settings, or a format that does not
            suit the attention cell.
    """
    system, evaluation = restore_system(weights, run, seed), run.evaluation
    first, *others = system.distinct_starts(evaluation.starts)
    part = choose_part(questions)
    total = len(questions) + len(others) * len(part) + len(choose_problems(system, questions))
    count_problems = count_progress(report, total, "problems")
    scored = [
        score_system(system, problems, starts, evaluation.recurrences, count_problems)
        for problems, starts in ((questions, [first]), (part, others))
        if starts
    ]
    tables = {
        name: pd.concat([table for table in parts if len(table)] or parts, ignore_index=True)
        for name, parts in zip(TABLES, map(list, zip(*scored, strict=True)), strict=True)
    }
    by_recurrence = score_by_recurrence(system, questions, first, report=count_problems)
    tables |= dict(zip(RECURRENCE_TABLES, by_recurrence, strict=True))
    if evaluation.attention_cell is not None:
        labels = {"row": run.name, "profile": run.profile, "seed": seed}
        module = importlib.import_module(ATTENTION)
        tables |= module.describe_attention(system, tuple(evaluation.attention_cell), labels)
    for name, table in tables.items():
        if len(table):
            with paths.write_atomically(folder / f"{name}.parquet") as draft:
                table.to_parquet(draft, index=False)
