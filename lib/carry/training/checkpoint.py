"""What a training writes: checkpoints, weights, snapshots, and its learning curve.

Tensors are in files with a hash of their content, without pickles.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from carry.config import paths
from carry.config.settings import SettingsError
from carry.experiments.run import Run
from carry.models.identity import identify
from carry.progress import print_warning


class DamagedFile(SettingsError):
    """The content of a file is not the content that was written."""


def save_tensors(path: Path, tensors: dict[str, Tensor], note: dict[str, Any]) -> None:
    """Write tensors, a JSON note and a hash of both to a file, completely or not at all."""
    # Copies, since safetensors refuses tensors that share memory, as those of `tied` models.
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    note = {**note, "sha256": hash_tensors(tensors, json.dumps(note))}
    with paths.write_atomically(path) as draft:
        # One entry: safetensors writes several in random order, and DVC compares bytes.
        safetensors.torch.save_file(tensors, draft, {"note": json.dumps(note)})


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read the tensors and the note that `save_tensors` wrote.

    Raises:
        FileNotFoundError: if the file does not exist.
        DamagedFile: if the content has changed since it was written, or has no hash.
    """
    with report_damage(path), safetensors.safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        note = json.loads((file.metadata() or {})["note"])
        if "sha256" not in note:
            raise ValueError("no hash")
        if note.pop("sha256") != hash_tensors(tensors, json.dumps(note)):
            raise ValueError("its hash differs")
        return tensors, note


def hash_tensors(tensors: dict[str, Tensor], text: str) -> str:
    """Return the SHA-256 of a text and of names, types, shapes and values of tensors.

    >>> [hash_tensors({"x": x}, "note")[:8] for x in (torch.zeros(2), torch.zeros(1, 2))]
    ['f9e50802', 'c1966ecf']
    """
    digest = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"\n{name} {tensor.dtype} {[*tensor.shape]}\n".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


@contextmanager
def report_damage(path: Path) -> Iterator[None]:
    """Turn any failure to use the content of a file, but of the system, into a `DamagedFile`."""
    try:
        yield
    except (DamagedFile, OSError):
        raise
    except Exception as error:  # the errors of a changed file have many types
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DamagedFile(
            f"{paths.display_path(path)}: damaged ({reason[:200]}); expected the file as its stage "
            "writes it"
        ) from None


def select_tensors(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names start with a prefix, without it.

    >>> list(select_tensors({"model.a": torch.ones(1), "b": torch.ones(1)}, "model."))
    ['a']
    """
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


def flatten_optimizer(optimizer: torch.optim.Optimizer, prefix: str) -> dict[str, Tensor]:
    """Return the state of an optimizer as named tensors."""
    return {
        f"{prefix}.{index}.{key}": torch.as_tensor(value)
        for index, state in optimizer.state_dict()["state"].items()
        for key, value in state.items()
    }


def restore_optimizer(
    optimizer: torch.optim.Optimizer, prefix: str, tensors: dict[str, Tensor]
) -> None:
    """Restore the state of an optimizer from the tensors of `flatten_optimizer`."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in select_tensors(tensors, f"{prefix}.").items():
        index, key = name.split(".", 1)
        state.setdefault(int(index), {})[key] = tensor
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def resume(path: Path | None, restore: Callable[[], None], start: Callable[[], None]) -> None:
    """Restore a training from its checkpoint, if there is one; start again if it is damaged."""
    if path is not None and path.exists():
        try:
            restore()
        except DamagedFile as error:
            print_warning(f"{error}; training starts again from step 0")
            start()


def save_weights(
    path: Path, weights: dict[str, Tensor], run: Run, seed: int, steps: int, precision: str
) -> None:
    """Write trained weights and their origin."""
    note = {
        "row": run.name,
        "scale": run.scale,
        "seed": seed,
        "steps": steps,
        "precision": precision,
        "torch": torch.__version__.split("+")[0],
        "run": identify(run),
    }
    save_tensors(path, weights, note)


def save_snapshots(path: Path, snapshots: dict[int, dict[str, Tensor]]) -> None:
    """Write the weights of several steps, stacked in the order of the steps."""
    steps = sorted(snapshots)
    names = snapshots[steps[0]]
    stacked = {name: torch.stack([snapshots[step][name] for step in steps]) for name in names}
    save_tensors(path, stacked, {"steps": steps})


def describe_scores(loss: float | None, exact: float | None) -> str:
    """Return the last scores of a seed in words; nothing before the first score.

    >>> describe_scores(0.1234, 0.98)
    'loss 0.123, exact 98%'
    """
    return "" if loss is None else f"loss {loss:.3f}, exact {exact:.0%}"


def write_curve(folder: Path, curve: list[dict[str, float]]) -> None:
    """Write the learning curve of a job."""
    import pandas as pd  # here, because who trains without the pipeline may not have it

    with paths.write_atomically(folder / "curve.parquet") as draft:
        pd.DataFrame(curve).to_parquet(draft, index=False)
