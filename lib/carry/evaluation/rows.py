"""The evaluation of rows: all seeds of all rows are one pool of jobs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from carry.config import paths, run_settings
from carry.experiments.run import Run
from carry.data import problem_sets
from carry.data.tables import concat_by_name, read_parquet, write_tables
from carry.evaluation import trained_models
from carry.evaluation.regions import refuse_band
from carry.evaluation.seeds import ATTENTION, score_seed
from carry.evaluation.starts import count_passes
from carry.jobs import Job, run_jobs
from carry.training.cost import estimate_training_seconds


def list_evaluation_jobs(run: Run, weights: Mapping[int, Path] | None = None) -> list[Job]:
    """Return the jobs that score the seeds of a run, one for each.

    Args:
        weights: the file of each seed (default: all seeds, where the stage `train` puts them).

    Raises:
        SettingsError: without the problems or the weights of the run.
    """
    if weights is None:
        weights = {
            seed: trained_models.find_weights_file(run.profile, run.name, seed)
            for seed in range(run.seeds)
        }
    questions = problem_sets.read_questions(run)
    trained = trained_models.load_trained_run(run.profile, run.name)
    settings = [run.evaluation.model_dump(), problem_sets.hash_questions(questions)]
    modules, cost = tuple(run.module_names()), estimate_scoring_cost(trained, questions)
    if run.evaluation.attention_cell is not None:
        modules += (ATTENTION,)
    return [
        Job(
            name=f"{run.name}/seed_{seed}",
            work=score_seed,
            arguments=(trained, seed, file, questions),
            inputs=json.dumps([*settings, paths.hash_file(file)]),
            modules=modules,
            cost=cost,
        )
        for seed, file in weights.items()
    ]


def estimate_scoring_cost(run: Run, questions: pd.DataFrame) -> float:
    """Return the expected core-seconds to score a seed; only ratios between rows count.

    A pass over a problem costs a third of a training step for it, times its length over a trained
    one's.
    """
    training = run.training
    example = estimate_training_seconds(run) / (training.steps * training.batch)
    lengths = questions[["i", "j"]].max(axis=1) / training.digits
    return float(example / 3 * count_passes(run) * lengths.clip(lower=1).sum())


def evaluate_rows(rows: Sequence[str], profile: str) -> dict[str, pd.DataFrame]:
    """Score all seeds of rows, in parallel; keep what is scored already.

    Returns:
        The tables by name (see `carry.evaluation.seeds.score_seed`), of all rows and seeds; a table
        that no row has is left out.

    Raises:
        SettingsError: for an unknown row or profile, without its problems or weights, for weights
            that do not fit, and for scores that `regions.refuse_band` refuses.
    """
    runs = run_settings.load_runs(rows, profile)
    return evaluate_runs(runs, [job for run in runs for job in list_evaluation_jobs(run)])


def evaluate_runs(runs: Sequence[Run], jobs: Sequence[Job]) -> dict[str, pd.DataFrame]:
    """Run the jobs that score seeds of runs of one profile, and return their tables by name.

    Raises:
        SettingsError: for scores that `regions.refuse_band` refuses.
    """
    label = runs[0].name if len(runs) == 1 else f"{len(runs)} rows"
    places = run_jobs(jobs, paths.jobs_folder(runs[0].profile, "evaluate"), label)
    tables = concat_by_name(
        {path.stem: pd.read_parquet(path) for path in sorted(place.glob("*.parquet"))}
        for place in places
    )
    refuse_band(tables, runs)
    return tables


def write_study(study: str, profile: str) -> dict[str, pd.DataFrame]:
    """Score the rows of a study; write one file for each table of all rows, and return them.

    `curves` are those of the training of the rows, if they were trained here.

    Raises:
        SettingsError: for an unknown study; see `evaluate_rows`.
    """
    rows = run_settings.list_rows(profile, study)
    tables = evaluate_rows(rows, profile)
    curves = [trained_models.get_weights_folder(profile, row) / "curves.parquet" for row in rows]
    remedy = f"the train stage of profile {profile!r} to run again"
    parts = [read_parquet(path, f"studies.{study}", remedy) for path in curves if path.exists()]
    if parts:
        tables["curves"] = pd.concat(parts, ignore_index=True)
    write_tables(tables, paths.results_folder(profile, study))
    return tables
