"""Trained models: read back with a check that they are the row's, scored, and kept as tables."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
from torch import Tensor

from carry import paths, problem_sets, processes, progress, run
from carry.evaluation.recurrences import by_recurrence, chosen
from carry.evaluation.scoring import score
from carry.models.system import System
from carry.run import Run
from carry.settings import SettingsError
from carry.training import checkpoint
from carry.training.loop import device_of

COMMITTED = "notebook"  # the profile that takes its weights from reports/models/, which is in git

OPTIONAL = ("steps", "recurrences", "answers")
TABLES = ("cells", "places", *OPTIONAL)


def folder(profile: str, row: str) -> Path:
    """Return where the weights of a row are.

    >>> paths.shown(folder("cpu", "mine")), paths.shown(folder("notebook", "mine"))
    ('data/cpu/runs/mine', 'reports/models/mine')
    """
    if profile == COMMITTED:
        return paths.ROOT.joinpath("reports", "models", row)
    return paths.data(profile, "runs", row)


def load(profile: str, row: str, seed: int = 0) -> System:
    """Return one seed of a row as it was trained, on the device that the row asks for.

    In the profile `notebook` these are the committed weights, which another profile trained: the
    row is then taken at the scale of that profile, with the evaluation of this one.

    Raises:
        SettingsError: if there are none, or if the row has changed since; names the difference.
    """
    path = weights(profile, row, seed)
    return restore(path, settings(profile, row, path), seed)


def weights(profile: str, row: str, seed: int) -> Path:
    """Return the file with the weights of one seed.

    Raises:
        SettingsError: if there is none.
    """
    path = folder(profile, row) / f"seed_{seed}.safetensors"
    if not path.exists():
        raise SettingsError(
            f"runs.{row}: {paths.shown(path)} is not there; expected the train stage of profile "
            f"{profile!r} to have run for seed {seed}"
        )
    return path


def settings(profile: str, row: str, path: Path) -> Run:
    """Return a row as it was trained for a file of weights, with the seeds and evaluation of now.

    Committed weights were trained by another profile, at whose scale the row is then taken.
    """
    asked = run.load(row, profile)
    if profile != COMMITTED:
        return asked
    there = run.load(row, checkpoint.note(path)["run"]["profile"])
    return there.model_copy(update={"evaluation": asked.evaluation, "seeds": asked.seeds})


def restore(path: Path, of: Run, seed: int) -> System:
    """Return a run with the weights of a file, on the device that it asks for.

    Raises:
        SettingsError: if the run has changed since; names the difference.
    """
    weights, note = checkpoint.load(path)
    _compare(note["run"], of, path)
    system = System(of, seed, device_of(of))
    system.network.load_state_dict(weights)
    system.network.eval()
    return system


def snapshots(profile: str, row: str, seed: int = 0) -> dict[int, dict[str, Tensor]]:
    """Return the weights that training kept on its way, by step; none if it kept none."""
    path = folder(profile, row) / f"snapshots_{seed}.safetensors"
    if not path.exists():
        return {}
    stacked, note = checkpoint.load(path)
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
    then = json.loads(run.make(stored, now.name, now.profile).model_dump_json(**of_training))
    different = _different(then, fields, f"runs.{now.name}")
    if different:
        place, then, value = different
        raise SettingsError(
            f"{place}: {value!r} is not what {paths.shown(path)} was trained with, {then!r}; "
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
    system = load(profile, row, seed)
    asked, device = system.run.evaluation, device_of(system.run)
    last = system.different(asked.starts)[-1]
    return (
        *score(system, table, asked.starts, asked.recurrences, device, report),
        *by_recurrence(system, table, last, device=device, report=report),
    )


def evaluate(row: str, profile: str, seeds: Iterable[int] | None = None) -> Path:
    """Score the seeds of a row (default: all), keep the tables, and return their folder.

    It holds `cells.parquet` and `places.parquet`, and for a scratchpad `steps.parquet` (see
    `carry.evaluation.scoring.score`); for a looped model, from the last of its starts,
    `recurrences.parquet` and `answers.parquet` (see
    `carry.evaluation.recurrences.by_recurrence`); and `curves.parquet` as training left it, where
    it did.
    """
    asked = run.load(row, profile)
    table = problem_sets.read_questions(asked)
    jobs = [
        (profile, row, seed, table) for seed in (range(asked.seeds) if seeds is None else seeds)
    ]
    first = load(profile, row, jobs[0][2])  # what does not fit shows here, before any process
    looped = chosen(first, table)
    problems = len(table) * len(first.different(asked.evaluation.starts)) + len(looped)
    with progress.bar(len(jobs) * problems, row, unit="problem") as shown:
        scored = processes.each(_score, jobs, shown.update)
    target = paths.reports(profile, "results", profile, row)
    for name, tables in zip(TABLES, zip(*scored, strict=True), strict=True):
        path, table = target / f"{name}.parquet", pd.concat(tables, ignore_index=True)
        if name in OPTIONAL and table.empty:
            path.unlink(missing_ok=True)  # the row may have had some before
            continue
        with paths.atomically(path) as draft:
            table.to_parquet(draft, index=False)
    curves = folder(profile, row) / "curves.parquet"
    if curves.exists():
        with paths.atomically(target / curves.name) as draft:
            shutil.copyfile(curves, draft)
    return target
