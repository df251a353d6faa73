"""Trained models: loaded with a check against their row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from carry.config import paths, profiles, run_settings
from carry.experiments.run import Run
from carry.config.settings import SettingsError, describe
from carry.models.system import System
from carry.training import checkpoint
from carry.training.loop import choose_device

COMMITTED_PROFILE = "notebook"  # this profile uses weights in reports/models/, which is in git


def get_weights_folder(profile: str, row: str) -> Path:
    """Return the folder with the weights of a row.

    >>> paths.display_path(get_weights_folder("cpu", "parity_nope"))
    'data/cpu/runs/parity/parity_nope'
    >>> paths.display_path(get_weights_folder("notebook", "parity_nope"))
    'reports/models/full/parity/parity_nope'

    Raises:
        SettingsError: for an unknown row.
    """
    study = profiles.find_study(row)
    if profile != COMMITTED_PROFILE:
        return paths.run_folder(profile, study, row)
    return paths.models_folder(paths.PUBLISHED, study, row)


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
    return restore_system(path, load_trained_run(profile, row), seed, device)


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


def load_trained_run(profile: str, row: str) -> Run:
    """Return the settings of a row as trained, with the current seeds and evaluation.

    Committed weights were trained by another profile; the row then has the settings of that one.
    """
    current = run_settings.load_run(row, profile)
    if profile != COMMITTED_PROFILE:
        return current
    trained = run_settings.load_run(row, paths.PUBLISHED)
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
