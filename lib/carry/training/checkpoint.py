"""Checkpoints from which a killed training goes on to the very same weights. No pickles."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from carry import fingerprint
from carry.config.paths import data_path, write_atomically
from carry.config.run_settings import Run


def checkpoint_folder(run: Run) -> Path:
    """Return where a run's checkpoints are kept: apart from its outputs, which DVC deletes.

    A checkpoint of other settings, or of other code that training reaches, is not gone on from.
    """
    code = fingerprint.hash_code(["carry.training.seeds", *run.parts()])
    code = hashlib.sha256(code.encode()).hexdigest()[:16]
    return data_path(run.profile, "checkpoints", f"{run.name}-{run.key()}-{code}")


def save_tensors(path: Path, tensors: dict[str, Tensor], note: dict[str, Any]) -> None:
    """Write tensors and a JSON note, all or nothing."""
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with write_atomically(path) as draft:
        safetensors.torch.save_file(whole, draft, {"note": json.dumps(note)})


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `save` wrote."""
    with safetensors.safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return tensors, json.loads((file.metadata() or {})["note"])


def load_note(path: Path) -> dict[str, Any]:
    """Read the note that `save` wrote, and no tensors."""
    with safetensors.safe_open(path, "pt") as file:
        return json.loads((file.metadata() or {})["note"])


def flatten(optimizer: torch.optim.Optimizer, prefix: str) -> dict[str, Tensor]:
    """Return an optimizer's state as named tensors."""
    return {
        f"{prefix}.{index}.{key}": torch.as_tensor(value)
        for index, state in optimizer.state_dict()["state"].items()
        for key, value in state.items()
    }


def unflatten(optimizer: torch.optim.Optimizer, prefix: str, tensors: dict[str, Tensor]) -> None:
    """Put named tensors back into an optimizer."""
    whole = optimizer.state_dict()
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith(f"{prefix}."):
            index, key = name.removeprefix(f"{prefix}.").split(".", 1)
            state.setdefault(int(index), {})[key] = tensor
    optimizer.load_state_dict({**whole, "state": state})
