"""Trained models: read back with a check that they are the row's, scored, and kept as tables."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
from torch import Tensor

from carry import processes, progress
from carry.config import paths, run_settings
from carry.config.run_settings import Run
from carry.config.settings import SettingsError
from carry.data import problem_sets
from carry.evaluation.recurrences import choose_problems, score_by_recurrence
from carry.evaluation.scoring import score_system
from carry.models.system import System
from carry.training import checkpoint
from carry.training.loop import device_of

COMMITTED = "notebook"  # the profile that takes its weights from reports/models/, which is in git

OPTIONAL = ("steps", "recurrences", "answers")
TABLES = ("cells", "places", *OPTIONAL)


def weights_folder(profile: str, row: str) -> Path:
    """Return where the weights of a row are.

    >>> paths.display_path(weights_folder("cpu", "mine")), paths.display_path(weights_folder("notebook", "mine"))
    ('data/cpu/runs/mine', 'reports/models/mine')
    """
    if profile == COMMITTED:
        return paths.ROOT.joinpath("reports", "models", row)
    return paths.data_path(profile, "runs", row)


def load_trained(profile: str, row: str, seed: int = 0) -> System:
    """Return one seed of a row as it was trained, on the device that the row asks for.

    In the profile `notebook` these are the committed weights, which another profile trained: the
    row is then taken at the scale of that profile, with the evaluation of this one.

    Raises:
        SettingsError: if there are none, or if the row has changed since; names the difference.
    """
    path = weights_file(profile, row, seed)
    return restore_system(path, trained_run(profile, row, path), seed)


def weights_file(profile: str, row: str, seed: int) -> Path:
    """Return the file with the weights of one seed.

    Raises:
        SettingsError: if there is none.
    """
    path = weights_folder(profile, row) / f"seed_{seed}.safetensors"
    if not path.exists():
        raise SettingsError(
            f"runs.{row}: {paths.display_path(path)} is not there; expected the train stage of profile "
            f"{profile!r} to have run for seed {seed}"
        )
    return path


def trained_run(profile: str, row: str, path: Path) -> Run:
    """Return a row as it was trained for a file of weights, with the seeds and evaluation of now.

    Committed weights were trained by another profile, at whose scale the row is then taken.
    """
    asked = run_settings.load_run(row, profile)
    if profile != COMMITTED:
        return asked
    there = run_settings.load_run(row, checkpoint.load_note(path)["run"]["profile"])
    return there.model_copy(update={"evaluation": asked.evaluation, "seeds": asked.seeds})


def restore_system(path: Path, of: Run, seed: int) -> System:
    """Return a run with the weights of a file, on the device that it asks for.

    Raises:
        SettingsError: if the run has changed since; names the difference.
    """
    weights, note = checkpoint.load_tensors(path)
    _compare(note["run"], of, path)
    system = System(of, seed, device_of(of))
    system.network.load_state_dict(weights)
    system.network.eval()
    return system


def load_snapshots(profile: str, row: str, seed: int = 0) -> dict[int, dict[str, Tensor]]:
    """Return the weights that training kept on its way, by step; none if it kept none."""
    path = weights_folder(profile, row) / f"snapshots_{seed}.safetensors"
    if not path.exists():
        return {}
    stacked, note = checkpoint.load_tensors(path)
    return {
        step: {name: of[at] for name, of in stacked.items()}
        for at, step in enumerate(note["steps"])
    }


def _compare(stored: dict[str, Any], now: Run, path: Path) -> None:
    """Refuse weights that were trained as another run; how many seeds there are is no matter.

    A setting that is newer than the weights had its default then.
    """
    of_training = {"exclude": {"evaluation", "seeds"}}
    fields = json.loads(now.model_dump_json(**of_training))
    stored = {key: value for key, value in stored.items() if key in fields}
    then = json.loads(
        run_settings.make_run(stored, now.name, now.profile).model_dump_json(**of_training)
    )
    different = _different(then, fields, f"runs.{now.name}")
    if different:
        place, then, value = different
        raise SettingsError(
            f"{place}: {value!r} is not what {paths.display_path(path)} was trained with, {then!r}; "
            "expected the train stage to have run again"
        )


def _different(then: Any, now: Any, place: str) -> tuple[str, Any, Any] | None:
    """Return the first setting that differs: its place, and its value then and now.

    >>> _different({"model": {"width": 64}}, {"model": {"width": 64, "heads": 2}}, "runs.mine")
    ('runs.mine.model.heads', None, 2)
    """
    if isinstance(then, dict) and isinstance(now, dict):
        for key in sorted({*then, *now}):
            found = _different(then.get(key), now.get(key), f"{place}.{key}")
            if found:
                return found
        return None
    return None if then == now else (place, then, now)


def _score(
    report: Any, profile: str, row: str, seed: int, table: pd.DataFrame
) -> tuple[pd.DataFrame, ...]:
    """Score one seed, and return its `TABLES`."""
    system = load_trained(profile, row, seed)
    asked, device = system.run.evaluation, device_of(system.run)
    last = system.different(asked.starts)[-1]
    return (
        *score_system(system, table, asked.starts, asked.recurrences, device, report),
        *score_by_recurrence(system, table, last, device=device, report=report),
    )


def evaluate_row(row: str, profile: str, seeds: Iterable[int] | None = None) -> Path:
    """Score the seeds of a row (default: all), keep the tables, and return their folder.

    It holds `cells.parquet` and `places.parquet`, and for a scratchpad `steps.parquet` (see
    `carry.evaluation.scoring.score_system`); for a looped model, from the last of its starts,
    `recurrences.parquet` and `answers.parquet` (see
    `carry.evaluation.recurrences.score_by_recurrence`); and `curves.parquet` as training left it, where
    it did.
    """
    asked = run_settings.load_run(row, profile)
    table = problem_sets.read_questions(asked)
    jobs = [
        (profile, row, seed, table) for seed in (range(asked.seeds) if seeds is None else seeds)
    ]
    first = load_trained(
        profile, row, jobs[0][2]
    )  # what does not fit shows here, before any process
    looped = choose_problems(first, table)
    problems = len(table) * len(first.different(asked.evaluation.starts)) + len(looped)
    with progress.progress_bar(len(jobs) * problems, row, unit="problem") as shown:
        scored = processes.run_jobs(_score, jobs, shown.update)
    target = paths.reports_path(profile, "results", profile, row)
    for name, tables in zip(TABLES, zip(*scored, strict=True), strict=True):
        path, table = target / f"{name}.parquet", pd.concat(tables, ignore_index=True)
        if name in OPTIONAL and table.empty:
            path.unlink(missing_ok=True)  # the row may have had some before
            continue
        with paths.write_atomically(path) as draft:
            table.to_parquet(draft, index=False)
    curves = weights_folder(profile, row) / "curves.parquet"
    if curves.exists():
        with paths.write_atomically(target / curves.name) as draft:
            shutil.copyfile(curves, draft)
    return target
