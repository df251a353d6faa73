"""Rows: their settings and weights, read from files as their formats are documented.

A file of weights (safetensors) has 8 bytes with the length of its header, the header in JSON, and
the raw numbers. A row is refused if anything in it differs from what the checker supposes: one
layer with the norms before its parts, ReLU, relative biases with windows, and float32.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from certificates.independent.definitions import DEFINITIONS
from certificates.independent.tasks import SIGNS, Definition

BIAS_SCALE = 8.0  # biases are stored divided by this
LARGEST_WEIGHT, LARGEST_SIZE = 1e4, 1e4  # with these no product overflows; see `leads`
SIZES = ("width", "heads", "head_width", "hidden", "attention")  # `attention` names a kernel


class Refusal(Exception):
    """One line with a field, its value, and what was expected."""


class Row(NamedTuple):
    """A row that can be checked."""

    name: str
    definition: Definition
    width: int
    heads: int
    head_width: int
    hidden: int


def read_json(path: Path) -> dict[str, Any]:
    """Return the mapping in a file.

    Raises:
        Refusal: for a file that is missing or has something else.
    """
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise Refusal(f"{path}: {type(error).__name__}; expected a file in JSON") from None
    if not isinstance(content, dict):
        raise Refusal(f"{path}: {type(content).__name__}; expected a mapping")
    return content


def compare(
    actual: dict[str, Any], expected: dict[str, Any], place: str, free: tuple[str, ...] = ()
) -> None:
    """Refuse other settings than expected; those that are `free` may have any value.

    >>> compare({"name": "line", "text": 3}, {"name": "line"}, "format", ("text",))
    """
    for field in [*expected, *actual]:
        if field not in free and actual.get(field) != expected.get(field):
            value, wanted = (json.dumps(side.get(field, "none")) for side in (actual, expected))
            raise Refusal(f"{place}.{field}: {value} is not checked; expected {wanted}")


def read_row(settings: dict[str, Any]) -> Row:
    """Return the row of the settings in a certificate.

    Raises:
        Refusal: for settings that the checker does not know.

    >>> settings = {"task": {"name": "copying"}, "format": {}, "model": {"width": 6, "heads": 2}}
    >>> pair = {"ids": "coupled", "encoding": "relative", "window": [0, 1]}
    >>> read_row({**settings, "positions": [pair]}).hidden
    24
    """
    task, form, model = (_mapping(settings.get(part), part) for part in ("task", "format", "model"))
    positions = [_mapping(pair, "positions") for pair in settings.get("positions") or []]
    same_task = [kind for kind in DEFINITIONS if kind.task["name"] == task.get("name")]
    if not same_task:
        names = ", ".join(sorted({kind.task["name"] for kind in DEFINITIONS}))
        raise Refusal(f"task.name: {task.get('name')!r} is not checked; expected {names}")

    def likeness(kind: Definition) -> tuple[bool, ...]:
        same = (kind.form.get(field) == form.get(field) for field in ("name", "prefix"))
        settings = {field: task[field] for field in task if field not in kind.free}
        return settings == kind.task, *same, len(kind.windows) == len(positions)

    definition = max(same_task, key=likeness)
    compare(task, definition.task, "task", definition.free)
    compare(form, definition.form, "format", definition.free)
    if len(positions) != len(definition.windows):
        raise Refusal(f"positions: {len(positions)}; expected {len(definition.windows)}")
    for index, (pair, window) in enumerate(zip(positions, definition.windows, strict=True)):
        sides = pair.get("window")
        pair = {"level": 1, **pair, "window": [sides] * 2 if isinstance(sides, int) else sides}
        expected = {"ids": definition.ids, "encoding": "relative", "window": [*window]}
        compare(pair, {**expected, "level": index + 1}, f"positions.{index}")
    compare({"layers": 1, **model}, {"layers": 1}, "model", SIZES)
    width, heads = (_read_size(model, field, None) for field in ("width", "heads"))
    head_width = _read_size(model, "head_width", width // heads)
    hidden = _read_size(model, "hidden", 4 * width)
    return Row(str(settings.get("row")), definition, width, heads, head_width, hidden)


def _mapping(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Refusal(f"{place}: {value!r}; expected a mapping")
    return value


def _read_size(model: dict[str, Any], field: str, default: int | None) -> int:
    size = model.get(field) or default
    if type(size) is not int or not 1 <= size <= LARGEST_SIZE:
        raise Refusal(f"model.{field}: {size!r}; expected 1 to {LARGEST_SIZE:.0f}")
    return size


def expected_shapes(row: Row, symbols: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor of a row's weights."""
    width, inner, hidden = row.width, row.heads * row.head_width, row.hidden
    vectors = ["blocks.0.before.0", "blocks.0.before.1", "final_norm"]
    shapes = {f"{name}.{part}": (width,) for name in vectors for part in ("weight", "bias")}
    linear = {
        "query": (inner, width),
        "key_value": (2 * inner, width),
        "output": (width, inner),
        "feed_forward.up": (hidden, width),
        "feed_forward.down": (width, hidden),
    }
    for name, shape in linear.items():
        shapes |= {f"blocks.0.{name}.weight": shape, f"blocks.0.{name}.bias": shape[:1]}
    for index, window in enumerate(row.definition.windows):
        rows = 2 * max(window) + 3 + (0 if row.definition.ids == "abacus" else 3)
        shapes[f"encodings.{index}.biases.0"] = rows, row.heads
    return shapes | {"tokens.weight": (symbols, width), "logits.weight": (symbols, width)}


def read_weights(path: Path, row: Row) -> dict[str, np.ndarray]:
    """Return the weights of a row by name, as float32.

    Raises:
        Refusal: for a damaged file, and for weights of another architecture.
    """
    try:
        data = path.read_bytes()
        start = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:start])
        header.pop("__metadata__", None)
        weights = {}
        for name, entry in header.items():
            if entry["dtype"] != "F32":
                raise Refusal(f"{path}: {name} has type {entry['dtype']}; expected F32")
            low, high = (start + offset for offset in entry["data_offsets"])
            weights[name] = np.frombuffer(data[low:high], "<f4").reshape(entry["shape"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refusal(f"{path}: {type(error).__name__}; expected a safetensors file") from None
    symbols = len(np.atleast_1d(weights.get("tokens.weight", 0)))
    shapes = expected_shapes(row, min(max(symbols, 1), len(SIGNS)))
    for name in [*shapes, *weights]:
        actual = weights[name].shape if name in weights else "none"
        if actual != shapes.get(name, "none"):
            raise Refusal(f"{path}: {name} has shape {actual}; expected {shapes.get(name, 'none')}")
        largest = np.abs(weights[name]).max()
        if not largest <= LARGEST_WEIGHT:
            raise Refusal(f"{path}: {name} holds {largest}; expected at most {LARGEST_WEIGHT:.0f}")
    return weights


def hash_weights(weights: dict[str, np.ndarray]) -> str:
    """Return the SHA-256 of weights by which certificates name a model."""
    digest = hashlib.sha256()
    for name, values in sorted(weights.items()):
        digest.update(f"{name} {values.shape} torch.float32".encode() + values.tobytes())
    return digest.hexdigest()
