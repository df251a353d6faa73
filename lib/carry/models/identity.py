"""What tells two models apart: the settings of a run that change its weights, without defaults."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from carry import formats, positions, tasks
from carry.config.settings import Settings
from carry.experiments.resolve import make_run
from carry.experiments.run import Run
from carry.models import architectures, encodings

# How a training is computed and kept; no number depends on it.
UNSEEN = {"checkpoint_every", "graphs"}

# What a line of `runs.parquet` says in columns of its own, or what changes no result.
LABELS = {"name", "study", "scale", "label", "seeds", "analyses", "certify", "publish"}


def identify(run: Run) -> dict[str, Any]:
    """Return the settings of a run that change its weights, in the order of their names.

    Names, labels and seeds are left out, and settings that have their default: a new setting with
    a default tells no model from an earlier one.

    >>> from carry.experiments.resolve import make_run
    >>> abacus = {"ids": "abacus", "encoding": "learned"}
    >>> identify(make_run({"positions": [abacus | {"offset": 1}]}))["positions"]
    [{'ids': 'abacus', 'encoding': 'learned'}]
    """
    task, form, model = _parse_parts(run)
    sections = {
        "data_set": run.data_set and run.data_set.model_dump(exclude_defaults=True),
        "format": {"name": run.format.get("name", "expression"), **_dump(form)},
        "model": {"name": run.model.get("name", "transformer"), **_dump(model)},
        "positions": [
            {"ids": pair["ids"], "encoding": pair["encoding"], **_dump(scheme), **_dump(encoding)}
            for pair, (scheme, encoding) in zip(run.positions, _parse_pairs(run), strict=True)
        ],
        "task": {"name": run.task["name"], **_dump(task)},
        "training": run.training.model_dump(exclude_defaults=True, exclude=UNSEEN),
    }
    if run.example_stream() is not None:
        sections["training"]["stream"] = run.example_stream()
    return {name: section for name, section in sections.items() if section}


def _parse_parts(run: Run) -> tuple[Settings, Settings, Settings]:
    """Return the settings of task, format and model, with their defaults."""
    task = tasks.build_task(run.task)
    form = formats.build_format(run.format, task)
    return task, form, architectures.choose_architecture(run.model)[1]


def _parse_pairs(run: Run) -> Iterator[list[Settings]]:
    """Yield the settings of each scheme and its encoding, with their defaults."""
    for pair in run.positions:
        scheme = positions.choose_scheme(pair["ids"])
        encoding = encodings.choose_encoding(pair["encoding"], "positions.encoding").Settings
        yield [
            kind.parse({key: pair[key] for key in pair if key in kind.model_fields}, "positions")
            for kind in (scheme, encoding)
        ]


def _dump(settings: Settings) -> dict[str, Any]:
    return settings.model_dump(mode="json", exclude_defaults=True)


def list_settings(run: Run) -> list[tuple[str, Any, Any]]:
    """Return all settings of a run: their place, their value, and their default.

    >>> from carry.experiments.resolve import make_run
    >>> [line for line in list_settings(make_run({})) if line[0] == "training.clip"]
    [('training.clip', 1.0, 1.0)]
    """
    task, form, model = _parse_parts(run)
    parts = {"seeds": (run.seeds, None)}
    parts |= {"task.name": (run.task["name"], None)} | _list_part("task", task)
    parts["format.name"] = (run.format.get("name", "expression"), "expression")
    parts |= _list_part("format", form)
    for index, pair in enumerate(_parse_pairs(run)):
        parts[f"positions.{index}.ids"] = (run.positions[index]["ids"], None)
        for settings in pair:
            parts |= _list_part(f"positions.{index}", settings)
        parts[f"positions.{index}.encoding"] = (run.positions[index]["encoding"], None)
    parts["model.name"] = (run.model.get("name", "transformer"), "transformer")
    parts |= _list_part("model", model)
    for section in ("training", "evaluation", "data_set"):
        settings = getattr(run, section)
        parts |= _list_part(section, settings) if settings else {}
    return [(place, *values) for place, values in parts.items()]


def _list_part(place: str, settings: Settings) -> dict[str, tuple[Any, Any]]:
    """Return the values and defaults of one part."""
    values = settings.model_dump(mode="json")
    fields = type(settings).model_fields
    return {f"{place}.{key}": (value, fields[key].default) for key, value in values.items()}


def describe_run(run: Run, seed: int) -> dict[str, Any]:
    """Return what identifies a seed of a run, with its settings as JSON."""
    settings = run.model_dump(mode="json", exclude_defaults=True, exclude=LABELS)
    identity = json.dumps([identify(run), seed], sort_keys=True)
    return {
        "row": run.name,
        "scale": run.scale,
        "seed": seed,
        "key": hashlib.sha256(identity.encode()).hexdigest()[:16],
        "label": run.label or "",
        "settings": json.dumps(settings, sort_keys=True),
    }


def restore_run(line: dict[str, Any]) -> Run:
    """Return the run of a line of `runs.parquet`."""
    labels = {"scale": line["scale"], "label": line["label"] or None}
    return make_run(json.loads(line["settings"]), line["row"], **labels)
