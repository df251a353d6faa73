"""Trained models: loaded with a check against their row, scored, and written as tables."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from carry import processes, progress
from carry.config import paths, run_settings
from carry.config.arguments import check_integer
from carry.config.run_settings import Run
from carry.config.settings import SettingsError, describe
from carry.data import problem_sets
from carry.evaluation.recurrences import choose_problems, score_by_recurrence
from carry.evaluation.scoring import score_system
from carry.models.system import System
from carry.training import checkpoint
from carry.training.loop import choose_device

COMMITTED_PROFILE = "notebook"  # this profile uses the weights in reports/models/, which is in git

OPTIONAL_TABLES = ("steps", "recurrences", "answers")
TABLES = ("cells", "places", *OPTIONAL_TABLES)


def get_weights_folder(profile: str, row: str) -> Path:
    """Return the folder with the weights of a row.

    >>> paths.display_path(get_weights_folder("cpu", "mine"))
    'data/cpu/runs/mine'
    >>> paths.display_path(get_weights_folder("notebook", "mine"))
    'reports/models/mine'
    """
    if profile == COMMITTED_PROFILE:
        return paths.ROOT.joinpath("reports", "models", row)
    return paths.data_path(profile, "runs", row)


def load_trained(
    profile: str, row: str, seed: int = 0, device: str | torch.device | None = None
) -> System:
    """Load one seed of a trained row, by default to the device of its settings.

    The profile `notebook` has the committed weights, which another profile trained: the row then
    has the settings of that profile, and the evaluation of this one.

    Raises:
        SettingsError: for missing or damaged weights, or settings that have changed since.
    """
    path = find_weights_file(profile, row, seed)
    return restore_system(path, load_trained_run(profile, row, path), seed, device)


def find_weights_file(profile: str, row: str, seed: int) -> Path:
    """Return the file with the weights of one seed.

    Raises:
        SettingsError: for an unknown profile or row, or weights that do not exist.
    """
    run_settings.load_run(row, profile)
    path = get_weights_folder(profile, row) / f"seed_{seed}.safetensors"
    if isinstance(seed, bool) or not isinstance(seed, int) or not path.is_file():
        raise SettingsError(
            f"runs.{row}: {paths.display_path(path)} is missing; expected the train stage of "
            f"profile {profile!r} to have run for seed {describe(seed)}"
        )
    return path


def load_trained_run(profile: str, row: str, path: Path) -> Run:
    """Return the settings of a row as trained, with the current seeds and evaluation.

    Committed weights were trained by another profile; the row then has the settings of that one.
    """
    current = run_settings.load_run(row, profile)
    if profile != COMMITTED_PROFILE:
        return current
    trained = run_settings.load_run(row, checkpoint.load_note(path)["run"]["profile"])
    return trained.model_copy(update={"evaluation": current.evaluation, "seeds": current.seeds})


def restore_system(
    path: Path, run: Run, seed: int, device: str | torch.device | None = None
) -> System:
    """Build a run's model with the weights of a file, by default on the device of its settings.

    Raises:
        SettingsError: for a damaged file, or settings that have changed since; names the
            difference.
    """
    weights, note = checkpoint.load_tensors(path)
    with checkpoint.report_damage(path):
        stored = note["run"]
    _compare_settings(stored, run, path)
    system = System(run, seed, choose_device(run) if device is None else device)
    with checkpoint.report_damage(path):
        weights = checkpoint.check_tensors(weights, system.network.state_dict())
    system.network.load_state_dict(weights)
    system.network.eval()
    return system


def load_snapshots(profile: str, row: str, seed: int = 0) -> dict[int, dict[str, Tensor]]:
    """Return the weights that training stored during its course, by step; empty without any."""
    path = get_weights_folder(profile, row) / f"snapshots_{seed}.safetensors"
    if not path.exists():
        return {}
    stacked, note = checkpoint.load_tensors(path)
    return {
        step: {name: tensor[index] for name, tensor in stacked.items()}
        for index, step in enumerate(note["steps"])
    }


def _compare_settings(stored: dict[str, Any], run: Run, path: Path) -> None:
    """Refuse weights that were trained with other settings; the number of seeds may differ.

    Settings that are newer than the weights had their defaults.
    """
    excluded = {"exclude": {"evaluation", "seeds"}}
    current = json.loads(run.model_dump_json(**excluded))
    stored = {key: value for key, value in stored.items() if key in current}
    trained = run_settings.make_run(stored, run.name, run.profile)
    difference = _find_difference(
        json.loads(trained.model_dump_json(**excluded)), current, f"runs.{run.name}"
    )
    if difference:
        place, then, now = difference
        raise SettingsError(
            f"{place}: {describe(now)} is not what {paths.display_path(path)} was trained with, "
            f"{describe(then)}; expected the train stage to have run again"
        )


def _find_difference(then: Any, now: Any, place: str) -> tuple[str, Any, Any] | None:
    """Return the first setting that differs: its place, and its value then and now.

    >>> then, now = {"model": {"width": 64}}, {"model": {"width": 64, "heads": 2}}
    >>> _find_difference(then, now, "runs.mine")
    ('runs.mine.model.heads', None, 2)
    """
    if isinstance(then, dict) and isinstance(now, dict):
        for key in sorted({*then, *now}):
            difference = _find_difference(then.get(key), now.get(key), f"{place}.{key}")
            if difference:
                return difference
        return None
    return None if then == now else (place, then, now)


def _score_seed(
    report: Any, profile: str, row: str, seed: int, table: pd.DataFrame
) -> tuple[pd.DataFrame, ...]:
    """Score one seed, and return its `TABLES`."""
    system = load_trained(profile, row, seed)
    evaluation = system.run.evaluation
    last = system.distinct_starts(evaluation.starts)[-1]
    return (
        *score_system(system, table, evaluation.starts, evaluation.recurrences, report),
        *score_by_recurrence(system, table, last, report=report),
    )


def evaluate_row(row: str, profile: str, seeds: Iterable[int] | None = None) -> Path:
    """Score the seeds of a row (default: all), write the tables, and return their folder.

    The tables are `cells.parquet` and `places.parquet`, and for a scratchpad `steps.parquet` (see
    `carry.evaluation.scoring.score_system`); for a looped model, from the last of its starts,
    `recurrences.parquet` and `answers.parquet` (see
    `carry.evaluation.recurrences.score_by_recurrence`); and a copy of training's `curves.parquet`.

    Raises:
        SettingsError: for an unknown row or profile, or without its problems or weights.
    """
    run = run_settings.load_run(row, profile)
    if seeds is not None and (isinstance(seeds, str | bytes) or not isinstance(seeds, Iterable)):
        raise SettingsError(f"runs.{row}.seeds: {describe(seeds)} is not valid; expected integers")
    seeds = list(range(run.seeds) if seeds is None else seeds)
    for seed in seeds:
        check_integer(seed, f"runs.{row}.seeds", least=0)
    if not seeds:
        raise SettingsError(f"runs.{row}.seeds: none to evaluate; expected at least one")
    table = problem_sets.read_questions(run)
    first = load_trained(profile, row, seeds[0])  # refuses wrong settings before workers start
    starts = first.distinct_starts(run.evaluation.starts)
    problems = len(table) * len(starts) + len(choose_problems(first, table))
    jobs = [(profile, row, seed, table) for seed in seeds]
    with progress.progress_bar(len(jobs) * problems, row, unit="problem") as bar:
        scored = processes.run_jobs(_score_seed, jobs, bar.update)
    folder = paths.reports_path(profile, "results", profile, row)
    for name, tables in zip(TABLES, zip(*scored, strict=True), strict=True):
        path, table = folder / f"{name}.parquet", pd.concat(tables, ignore_index=True)
        if name in OPTIONAL_TABLES and table.empty:
            path.unlink(missing_ok=True)  # an earlier version of the row may have written it
            continue
        with paths.write_atomically(path) as draft:
            table.to_parquet(draft, index=False)
    curves = get_weights_folder(profile, row) / "curves.parquet"
    if curves.exists():
        with paths.write_atomically(folder / curves.name) as draft:
            shutil.copyfile(curves, draft)
    return folder
