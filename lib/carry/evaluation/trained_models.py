"""Trained models: of the store, those in git, or the one that is installed with the library.

They are loaded with a check against their settings.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from carry.config import paths, tree
from carry.config.settings import SettingsError, describe, suggest_name
from carry.experiments.resolve import load_run, make_run
from carry.experiments.run import Run
from carry.models.identity import identify, list_settings
from carry.models.system import System
from carry.processes import single_precision
from carry.training import checkpoint
from carry.training.jobs import find_trained
from carry.training.loop import choose_device

SECTIONS = ("task", "format", "positions", "model", "training", "data_set")


def find_weights(run: Run, seed: int) -> Path:
    """Return the file with the weights of a seed: trained here, in git or installed.

    Raises:
        SettingsError: for a seed without weights.
    """
    folders = [find_trained(run, seed), paths.models_folder(run.name), paths.INSTALLED / run.name]
    files = [folder / f"seed_{seed}.safetensors" for folder in folders if folder]
    path = next((file for file in files if file.is_file()), None)
    if path is None:
        expected = f"a seed from 0 to {run.seeds - 1}"
        if seed in range(run.seeds):
            expected = _name_command(run)
            if not tree.is_project(paths.ROOT):
                expected = "a clone of the project, which has more weights, or " + expected
        raise SettingsError(
            f"runs.{run.name}: seed {describe(seed)} is not trained here, and "
            f"{paths.display_path(files[-2])} does not exist; expected {expected}"
        )
    return path


def _name_command(run: Run) -> str:
    """Return the command that trains a run."""
    return f"`carry run {run.name}{'' if run.scale == 'laptop' else f' --scale {run.scale}'}`"


def load_seed(run: Run, seed: int = 0, device: str | torch.device | None = None) -> System:
    """Load one trained seed of a run, by default to a GPU, if there is one.

    Raises:
        SettingsError: for missing or damaged weights, or settings that have changed since.
    """
    return restore_system(find_weights(run, seed), run, seed, device)


def load_committed(row: str, seed: int = 0) -> System:
    """Load one seed of a row with its weights in git, to the CPU.

    >>> load_committed("parity_relative_scratchpad").run.training.digits
    20

    Raises:
        SettingsError: for a row or a seed without weights in git, and for weights of other
            settings.
    """
    rows = sorted(path.name for path in paths.models_folder("").glob("*") if path.is_dir())
    if row not in rows:
        raise SettingsError(f"row: {row!r} has no weights in git, {suggest_name(row, rows)}")
    path = paths.models_folder(row) / f"seed_{seed}.safetensors"
    if not path.exists():
        raise SettingsError(f"row: {row!r} has no weights of seed {seed} in git; expected seed 0")
    return restore_system(path, load_run(row), seed, "cpu")


@single_precision()
def restore_system(
    path: Path, run: Run, seed: int, device: str | torch.device | None = None
) -> System:
    """Build a run's model with the weights of a file, by default on a GPU, if any.

    A damaged file is refused, and so are settings that have changed since, with the difference.
    """
    weights, note = checkpoint.load_tensors(path)
    with checkpoint.report_damage(path):
        stored = note["run"]
    _compare_settings(stored, run, path)
    system = System(run, seed, choose_device() if device is None else device)
    with checkpoint.report_damage(path):
        system.network.load_state_dict(weights)
    system.network.eval()
    return system


def find_snapshots(run: Run, seed: int) -> Path:
    """Return the file with the weights during the training of a seed, which may not exist."""
    return find_weights(run, seed).with_name(f"snapshots_{seed}.safetensors")


def load_snapshots(run: Run, seed: int = 0) -> dict[int, dict[str, Tensor]]:
    """Return the weights that training stored during its course, by step; empty without any."""
    path = find_snapshots(run, seed)
    return read_snapshots(path) if path.exists() else {}


def read_snapshots(path: Path) -> dict[int, dict[str, Tensor]]:
    """Return the weights in a file of snapshots, by step.

    Raises:
        DamagedFile: for a file with other content than was written.
    """
    stacked, note = checkpoint.load_tensors(path)
    return {
        step: {name: tensor[index] for name, tensor in stacked.items()}
        for index, step in enumerate(note["steps"])
    }


def _find_default(run: Run, name: str) -> Any:
    """Return a setting that has its default; None for one that the run does not have."""
    return next((value for place, value, _ in list_settings(run) if place == name), None)


def _flatten(settings: dict[str, Any], place: str = "") -> dict[str, Any]:
    """Return settings by the places that `list_settings` gives them."""
    flat = {}
    for name, value in settings.items():
        if name == "positions":
            value = dict(enumerate(value))
        if isinstance(value, dict):
            flat |= _flatten(value, f"{place}{name}.")
        else:
            flat[f"{place}{name}"] = value
    return flat


def _compare_settings(stored: dict[str, Any], run: Run, path: Path) -> None:
    """Refuse weights that were trained with other settings.

    Settings that are newer than the weights had their defaults.
    """
    stored = {key: value for key, value in stored.items() if key in SECTIONS}
    # Settings that are gone had no effect on these weights, or their row would be gone too.
    known = type(run.training).model_fields
    stored["training"] = {k: v for k, v in stored["training"].items() if k in known}
    trained = make_run(stored, run.name, scale=run.scale)
    then, now = (json.loads(json.dumps(identify(each))) for each in (trained, run))
    flat = [_flatten(settings) for settings in (then, now)]
    for place in sorted({*flat[0], *flat[1]}):
        before, after = (
            settings[place] if place in settings else _find_default(of, place)
            for settings, of in zip(flat, (trained, run), strict=True)
        )
        if before != after:
            raise SettingsError(
                f"runs.{run.name}.{place}: {describe(after)} is not what "
                f"{paths.display_path(path)} was trained with, {describe(before)}; expected "
                f"{_name_command(run)}"
            )
