"""Trained models as data of Coq, for the proofs in the folder proofs: `carry export-coq ROW`."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np

from carry.certificates.committed import check_certified, list_certified
from carry.certificates.contexts import require_supported_network
from carry.certificates.files import read_certificate
from carry.certificates.verification import hash_weights
from carry.config import paths
from carry.config.settings import SettingsError, describe
from carry.evaluation.trained_models import load_committed
from carry.models.encodings.relative import Relative
from carry.models.system import System

# The settings that proofs/Transformer.v has, among those that certificates leave free.
SETTINGS = {"layers": 1, "norm": "layer", "norm_epsilon": None, "norm_place": "pre", "biases": True}
SETTINGS |= {"logit_bias": False, "final_norm": True}
BIAS_SCALE = 8.0

TEMPLATE = """\
(** The weights of {row}, seed {seed}. (m, k) is m / 2^k.
    SHA-256, as in the certificate:
    {sha256} *)

From Coq Require Import List ZArith.
From Carry Require Import Transformer.
Import ListNotations.
Local Open Scope Z_scope.

Definition {row}_{seed} : weights (Z * Z) := {weights}.
"""


def list_proved() -> list[str]:
    """Return the certified rows whose weights, ROW_SEED, a file of proofs/rows or long names."""
    files = [file for folder in ("rows", "long") for file in _folder(folder).glob("*.v")]
    texts = "\n".join(file.read_text(encoding="utf-8") for file in files)
    return sorted({*re.findall(r"\b(\w+)_\d+\b", texts)} & {*list_certified()})


def export_weights(row: str, seed: int | None, folder: Path | None = None) -> list[Path]:
    """Write weights in git for Coq, and return the files, FOLDER/ROW_SEED.v.

    Args:
        seed: None stands for all seeds of the row's certificate.
        folder: None stands for proofs/weights.

    Raises:
        SettingsError: for a row without a certificate or a proof, a seed that the certificate does
            not have, weights other than those of the certificate, and other architectures than that
            of proofs/Transformer.v.
    """
    check_certified([row])
    proved = list_proved()
    if row not in proved:
        expected = ", ".join(proved) or "a file of proofs/rows that names its weights"
        raise SettingsError(f"row: {row!r} has no proof in Coq; expected {expected}")
    seeds = read_certificate(paths.certificate_file(row))["seeds"]
    hashes = {part["seed"]: part["weights"] for part in seeds}
    if seed is not None and seed not in hashes:
        raise SettingsError(f"seed: {seed} has no certificate; expected 0 to {max(hashes)}")
    texts = {}
    for number in hashes if seed is None else [seed]:
        system = load_committed(row, number)
        sha256 = hash_weights(system)
        if sha256 != hashes[number]:
            raise SettingsError(
                f"certificates.{row}: the weights of seed {number} are {sha256[:16]!r}; expected "
                f"{hashes[number][:16]!r}"
            )
        texts[(folder or _folder("weights")) / f"{row}_{number}.v"] = write_weights(system)
    for file, text in texts.items():
        paths.write_file(file, text)
    return [*texts]


def _folder(name: str) -> Path:
    return paths.ROOT / "proofs" / name


def write_weights(system: System) -> str:
    """Return the file of Coq that defines the weights of a model.

    Raises:
        SettingsError: for an architecture other than that of proofs/Transformer.v.
    """
    _require_supported(system)
    return TEMPLATE.format(
        row=system.run.name,
        seed=system.seed,
        sha256=hash_weights(system),
        weights=_write(list_weights(system)),
    )


def _require_supported(system: System) -> None:
    """Refuse what proofs/Transformer.v does not have."""
    where, network = f"runs.{system.run.name}.", system.network
    require_supported_network(network, where)
    for field, expected in SETTINGS.items():
        value = getattr(network.settings, field)
        if value != expected:
            raise SettingsError(
                f"{where}model.{field}: {value!r} is not in proofs/Transformer.v; expected "
                f"{expected!r}"
            )
    for index, encoding in enumerate(network.encodings):
        if not isinstance(encoding, Relative) or not encoding.window:
            raise SettingsError(
                f"{where}positions.{index}: {describe(system.run.positions[index])} is not in "
                "proofs/Windows.v; expected relative ids with a window"
            )
        for field, expected in {"scale": BIAS_SCALE, "clip": 1 + max(encoding.window)}.items():
            value = getattr(encoding, field)
            if value != expected:
                raise SettingsError(
                    f"{where}positions.{index}.{field}: {value} is not in proofs/Windows.v; "
                    f"expected {expected}"
                )


def list_weights(system: System) -> dict[str, Any]:
    """Return the weights of a model with one layer by the names of proofs/Transformer.v.

    Maps and norms are pairs of a weight and a bias. Each head has its rows of the maps; its biases
    are an array for each level of ids.

    >>> weights = list_weights(load_committed("subtraction_relative_scratchpad"))
    >>> len(weights["heads"]), weights["up"][0].shape
    (4, (128, 32))
    >>> [biases.shape for biases in weights["heads"][0]["biases"]]
    [(8,), (10,)]
    """
    state = {name: tensor.numpy() for name, tensor in system.network.state_dict().items()}
    count = system.network.settings.heads
    halves = [np.split(part, 2) for part in _pair(state, "blocks.0.key_value")]
    keys, values = zip(*halves, strict=True)  # first the rows of all keys
    maps = {"query": _pair(state, "blocks.0.query"), "key_map": keys, "value": values}
    heads = {name: [np.split(part, count) for part in pair] for name, pair in maps.items()}
    levels = [state[f"encodings.{i}.biases.0"] for i in range(len(system.network.encodings))]
    return {
        "tokens": state["tokens.weight"],
        "before_attention": _pair(state, "blocks.0.before.0"),
        "heads": [
            {
                **{name: (weight[head], bias[head]) for name, (weight, bias) in heads.items()},
                "biases": [level[:, head] for level in levels],
            }
            for head in range(count)
        ],
        "output": _pair(state, "blocks.0.output"),
        "before_hidden": _pair(state, "blocks.0.before.1"),
        "up": _pair(state, "blocks.0.feed_forward.up"),
        "down": _pair(state, "blocks.0.feed_forward.down"),
        "before_logits": _pair(state, "final_norm"),
        "logits": state["logits.weight"],
    }


def _pair(state: dict[str, np.ndarray], name: str) -> tuple[np.ndarray, ...]:
    return state[f"{name}.weight"], state[f"{name}.bias"]


def _write(value: Any, depth: int = 2) -> str:
    """Return arrays in records (mappings), pairs (tuples) and lists, as Coq reads them."""
    indent = " " * depth
    if isinstance(value, np.ndarray) and value.ndim == 1:
        numbers = "; ".join(map(_write_number, value.tolist()))
        lines = textwrap.wrap(numbers, 76, break_on_hyphens=False)
        return "[" + f"\n{indent}".join(lines) + "]"
    if isinstance(value, dict):
        parts = [f"{name} := {_write(part, depth + 2)}" for name, part in value.items()]
        opening, sign, closing = f"{{|\n{indent}", ";", " |}"
    else:
        parts = [_write(part, depth + 1) for part in value]
        opening, sign, closing = ("(", ",", ")") if isinstance(value, tuple) else ("[", ";", "]")
    return opening + f"{sign}\n{indent}".join(parts) + closing


def _write_number(number: float) -> str:
    """Return a float as m / 2^k.

    >>> _write_number(-0.375), _write_number(6.0)
    ('(-3,3)', '(6,0)')
    """
    numerator, denominator = number.as_integer_ratio()
    return f"({numerator},{denominator.bit_length() - 1})"
