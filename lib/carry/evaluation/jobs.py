"""The evaluation of seeds as jobs: from weights and problems to tables."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from carry.config import paths
from carry.data import problem_sets
from carry.data.tables import concat_by_name, write_tables
from carry.evaluation import recurrences, trained_models
from carry.evaluation.recurrences import choose_problems, score_by_recurrence
from carry.evaluation.scoring import score_system
from carry.evaluation.starts import choose_part
from carry.evaluation.trained_models import restore_system
from carry.experiments.run import Run
from carry.jobs import Job, run_jobs
from carry.models.identity import identify
from carry.progress import count_progress
from carry.training.cost import count_training_operations

TABLES = ("cells", "places", "steps")  # of `score_system`
CODE = ("carry.evaluation.scoring", "carry.evaluation.recurrences", "carry.evaluation.starts")
ATTENTION = "carry.interpretability.attention"  # only of rows with averaged attention maps


def list_evaluation_jobs(run: Run, seeds: Sequence[int] | None = None) -> list[Job]:
    """Return the jobs that score seeds of a run (default: all), one for each."""
    questions = problem_sets.load_questions(run)
    scored = run.evaluation.model_dump(mode="json", exclude_defaults=True)
    settings = [identify(run), scored, problem_sets.hash_questions(questions)]
    modules = (*CODE, *run.module_names())
    if run.evaluation.attention_cell is not None:
        modules += (ATTENTION,)
    # Of all rows in the same unit: operations of a step times digits to score.
    step = count_training_operations(run) / run.training.steps
    cost = float(step * questions[["i", "j"]].max(axis=1).sum())
    jobs = []
    for seed in range(run.seeds) if seeds is None else seeds:
        file = trained_models.find_weights(run, seed)
        inputs = json.dumps([*settings, paths.hash_file(file)], sort_keys=True)
        arguments = (run, seed, file, questions)
        name = f"{run.name}, seed {seed}"
        jobs.append(Job(name, "evaluate", score_seed, arguments, inputs, modules, cost))
    return jobs


def evaluate_runs(
    runs: Sequence[Run], seeds: Sequence[int] | None = None, label: str = ""
) -> dict[str, pd.DataFrame]:
    """Score seeds of runs (default: all), in parallel; keep what is scored already.

    Returns:
        The tables by name (see `score_seed`), of all rows and seeds; those that any row has.
    """
    jobs = [(run, job) for run in runs for job in list_evaluation_jobs(run, seeds)]
    return collect_tables(jobs, label or runs[0].name)


def collect_tables(jobs: Sequence[tuple[Run, Job]], label: str) -> dict[str, pd.DataFrame]:
    """Run jobs, and join their tables of the same name, with the names of their runs."""
    places = run_jobs([job for _, job in jobs], label)
    return concat_by_name(
        {
            path.stem: pd.read_parquet(path).assign(row=run.name, scale=run.scale)
            for path in sorted(place.glob("*.parquet"))
        }
        for (run, _), place in zip(jobs, places, strict=True)
    )


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
    """
    system, evaluation = restore_system(weights, run, seed), run.evaluation
    first, *others = system.distinct_starts(evaluation.starts)
    part = choose_part(questions)
    total = len(questions) + len(others) * len(part) + len(choose_problems(system, questions))
    count_problems = count_progress(report, total, "problems")
    scored = [
        score_system(system, problems, starts, count_problems)
        for problems, starts in ((questions, [first]), (part, others))
        if starts
    ]
    tables = {
        name: pd.concat([table for table in parts if len(table)] or parts, ignore_index=True)
        for name, parts in zip(TABLES, zip(*scored, strict=True), strict=True)
    }
    by_recurrence = score_by_recurrence(system, questions, first, report=count_problems)
    tables |= dict(zip(recurrences.COLUMNS, by_recurrence, strict=True))
    if evaluation.attention_cell is not None:
        labels = {"row": run.name, "scale": run.scale, "seed": seed}
        module = importlib.import_module(ATTENTION)
        tables |= module.describe_attention(system, tuple(evaluation.attention_cell), labels)
    write_tables({name: table for name, table in tables.items() if len(table)}, folder)
