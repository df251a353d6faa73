"""Analyses of trained runs: weights and activations become result tables.

A run names its analyses under `analyses`: modules of this package. Each module declares

    TASK              the name of the task that it analyses; without it, it analyses any
    COLUMNS           the columns of each table, by the table's name and in their order
    tables(system)    the tables of one seed by name; a table that it lacks is left out

Tables of all seeds are joined. They get the columns `row`, `scale`, `seed` and `trained` (digits)
of the model, where COLUMNS has them. Analyses are jobs of their own, so that a new analysis scores
nothing again.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

import pandas as pd

from carry.config import paths
from carry.config.settings import SettingsError, list_modules, suggest_name
from carry.data import problem_sets
from carry.data.tables import concat_by_name, write_tables
from carry.evaluation import trained_models
from carry.evaluation.jobs import collect_tables
from carry.evaluation.scoring import list_labels
from carry.experiments.run import Run
from carry.jobs import Job
from carry.models.identity import identify
from carry.models.system import System

LABELS = ("row", "scale", "seed")  # the columns that name a model, in most tables
INTERVAL = ("accuracy", "low", "high")


def load_analyses(run: Run) -> list[ModuleType]:
    """Import the analyses of a run.

    >>> run = Run(name="mine", analyses=["subtasks"])
    >>> [module.__name__ for module in load_analyses(run)]
    ['carry.analyses.subtasks']

    Raises:
        SettingsError: for an unknown analysis, and for one of another task.
    """
    names, task, place = list_modules("carry.analyses"), run.task["name"], f"analyses.{run.name}"
    modules = []
    for name in run.analyses:
        if name not in names:
            raise SettingsError(f"{place}: unknown analysis {name!r}, {suggest_name(name, names)}")
        module = importlib.import_module(f"carry.analyses.{name}")
        if getattr(module, "TASK", task) != task:
            raise SettingsError(
                f"{place}: {name!r} does not fit task {task!r}; expected {module.TASK!r}"
            )
        modules.append(module)
    return modules


def analyse_runs(runs: Sequence[Run], label: str = "") -> dict[str, pd.DataFrame]:
    """Run the analyses of runs, in parallel; keep what is analysed already.

    Returns:
        The tables by name, of all runs that have them.
    """
    jobs = [(run, job) for run in runs for job in list_analysis_jobs(run)]
    return collect_tables(jobs, label or runs[0].name)


def list_analysis_jobs(run: Run) -> list[Job]:
    """Return the jobs that analyse a run, one for each of its analyses.

    Raises:
        SettingsError: see `load_analyses`; for a run without the weights of a seed.
    """
    modules = [module.__name__ for module in load_analyses(run)]
    if not modules:
        return []
    find = (trained_models.find_weights, trained_models.find_snapshots)
    files = [find_file(run, seed) for seed in range(run.seeds) for find_file in find]
    hashes = [paths.hash_file(file) for file in files if file.exists()]
    scored = run.evaluation.model_dump(mode="json", exclude_defaults=True)
    questions = problem_sets.hash_questions(problem_sets.load_questions(run))
    inputs = json.dumps([identify(run), scored, questions, hashes], sort_keys=True)
    return [
        Job(
            name=f"{run.name}, {module.rpartition('.')[2]}",
            kind="analyse",
            work=run_analysis,
            arguments=(run, module),
            inputs=inputs,
            modules=(module, *run.module_names()),
            cost=float(run.seeds),
        )
        for module in modules
    ]


def run_analysis(report: Callable[[float], None], folder: Path, run: Run, name: str) -> None:
    """Analyse a run with the module `name`, and write a file for each of its tables."""
    write_tables(analyse_seeds(importlib.import_module(name), run, report), folder)


def analyse_seeds(
    module: ModuleType, run: Run, report: Callable[[float], None] = lambda share: None
) -> dict[str, pd.DataFrame]:
    """Return the tables that an analysis makes of all seeds of a run.

    Args:
        report: called with the share of the seeds that are done.
    """
    parts = []
    for seed in range(run.seeds):
        system = trained_models.load_seed(run, seed)
        found, labels = module.tables(system), list_labels(system)
        parts.append({name: table.assign(**labels) for name, table in found.items()})
        report((seed + 1) / run.seeds)
    joined = concat_by_name(parts)
    return {name: table.reindex(columns=[*module.COLUMNS[name]]) for name, table in joined.items()}


def load_steps(system: System) -> Iterator[int]:
    """Load the weights after each snapshot of training, and yield its step; at least the last."""
    last = {system.run.training.steps: dict(system.network.state_dict())}
    snapshots = trained_models.load_snapshots(system.run, system.seed)
    for step, weights in (snapshots or last).items():
        system.network.load_state_dict(weights)
        yield step
