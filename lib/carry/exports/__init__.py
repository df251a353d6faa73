"""Exported models: a folder that model hubs expect, and that loads without the pipeline.

    FOLDER/README.md           the model card (`carry.exports.card`)
           config.json         the settings of the row, and the hash of the weights
           model.safetensors   the weights
           snapshots.safetensors   weights during training, with `carry export ROW --snapshots`

`carry export ROW` writes such a folder. The settings in it are complete: `load_exported` reads
neither experiments nor params.yaml.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from carry.certificates.verification import hash_weights
from carry.config import paths
from carry.config.settings import SettingsError, describe
from carry.evaluation.trained_models import read_snapshots
from carry.experiments.resolve import make_run
from carry.models.parameter_counts import count_network_parameters
from carry.models.system import System
from carry.processes import single_precision
from carry.training import checkpoint

CARD, CONFIG, WEIGHTS = "README.md", "config.json", "model.safetensors"
SNAPSHOTS = "snapshots.safetensors"
MODEL_TYPE = "carry"  # in config.json, says which library reads the folder


def write_model(system: System, folder: str | Path, snapshots: Path | None = None) -> None:
    """Write the weights and the settings of a model to a folder.

    Args:
        snapshots: a file with weights of its training, to copy; None removes those of an earlier
            export, which may be of another model.
    """
    folder = Path(folder)
    state = system.network.state_dict()
    # Copies, since safetensors refuses tensors that share memory, as those of `tied` models.
    weights = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in state.items()}
    config = {
        "model_type": MODEL_TYPE,
        "architectures": [type(system.network).__name__],
        "row": system.run.name,
        "seed": system.seed,
        "parameters": count_network_parameters(system.network),
        "weights": hash_weights(system),
        "run": system.run.model_dump(mode="json", exclude={"name"}),
    }
    if snapshots is None:
        (folder / SNAPSHOTS).unlink(missing_ok=True)
    else:
        with paths.write_atomically(folder / SNAPSHOTS) as draft:
            shutil.copyfile(snapshots, draft)
        config["snapshots"] = paths.hash_file(folder / SNAPSHOTS)
    with paths.write_atomically(folder / WEIGHTS) as draft:
        safetensors.torch.save_file(weights, draft, {"format": "pt"})
    paths.write_file(folder / CONFIG, json.dumps(config, indent=2) + "\n")


@single_precision()
def load_exported(folder: str | Path, device: str | torch.device = "cpu") -> System:
    """Return the model in a folder that `carry export` wrote.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> system = System(make_run({"task": {"name": "addition"}, "model": {"width": 8}}))
    >>> write_model(system, folder)
    >>> load_exported(folder).run == system.run
    True

    Raises:
        SettingsError: for a folder without an export, for a damaged file, for weights that are not
            those of the settings, and for a device that does not exist.
    """
    path = Path(folder) / WEIGHTS
    config = _read_config(path.parent)
    if not path.is_file():
        raise SettingsError(f"{describe(str(path))}: missing; expected the weights of an export")
    with checkpoint.report_damage(path.parent / CONFIG):
        settings, row, seed, expected = (config[key] for key in ("run", "row", "seed", "weights"))
    system = System(make_run(settings, row), seed, device)
    with checkpoint.report_damage(path):
        system.network.load_state_dict(safetensors.torch.load_file(path))
        if hash_weights(system) != expected:
            raise ValueError(f"not the weights of {CONFIG}")
    system.network.eval()
    return system


def load_exported_snapshots(folder: str | Path) -> dict[int, dict[str, Tensor]]:
    """Return the weights during training, by step, of an export with snapshots.

    Each is a state of `load_exported(folder).network`, for `load_state_dict`.

    Raises:
        SettingsError: for a folder without an export or without snapshots, and for a file that is
            damaged or of another model.
    """
    path = Path(folder) / SNAPSHOTS
    expected = _read_config(path.parent).get("snapshots")
    if expected is None or not path.is_file():
        raise SettingsError(
            f"{describe(str(path))}: missing; expected an export with `--snapshots`"
        )
    with checkpoint.report_damage(path):
        if paths.hash_file(path) != expected:
            raise ValueError(f"not the snapshots of {CONFIG}")
    return read_snapshots(path)


def check_folder(folder: Path) -> None:
    """Refuse to replace files that no export has written."""
    if folder.exists() and not folder.is_dir():
        raise SettingsError(f"folder: {describe(str(folder))} is a file; expected a folder")
    present = [name for name in (CARD, CONFIG, WEIGHTS, SNAPSHOTS) if (folder / name).exists()]
    try:
        _read_config(folder)
    except SettingsError:
        if present:
            raise SettingsError(
                f"folder: {describe(str(folder))} has another {present[0]}; expected an empty "
                "folder, or one of an export"
            ) from None


def _read_config(folder: Path) -> dict[str, Any]:
    """Return the content of config.json; refuse one of another library."""
    path = folder / CONFIG
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        if config["model_type"] != MODEL_TYPE:
            raise ValueError(f"model_type {config['model_type']!r}")
    except (OSError, ValueError, TypeError, LookupError) as error:
        state = "missing" if isinstance(error, FileNotFoundError) else f"another model ({error})"
        raise SettingsError(
            f"{describe(str(path))}: {state}; expected a folder of `carry export`"
        ) from None
    return config
