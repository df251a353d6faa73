"""What tells two models apart: the settings of a run that change its weights, without defaults."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from carry import formats, positions, tasks
from carry.config.settings import Settings
from carry.experiments.resolve import make_run
from carry.experiments.run import Run
from carry.models import architectures, encodings

NAMES = {"name", "ids", "encoding"}  # settings that tell the kind of a part

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
    parts: dict[str, dict[str, Any]] = {}
    for place, value, default in list_settings(run):
        part, _, field = place.rpartition(".")
        if part in ("", "evaluation") or field == "checkpoint_every":  # which change no weight
            continue
        if field in NAMES or value != default:
            parts.setdefault(part, {})[field] = value
    if run.example_stream() is not None:
        parts.setdefault("training", {})["stream"] = run.example_stream()
    pairs = [parts.pop(f"positions.{index}") for index in range(len(run.positions))]
    parts |= {"positions": pairs} if pairs else {}
    return {name: parts[name] for name in sorted(parts)}


def list_settings(run: Run) -> list[tuple[str, Any, Any]]:
    """Return all settings of a run: their place, their value, and their default.

    >>> from carry.experiments.resolve import make_run
    >>> [line for line in list_settings(make_run({})) if line[0] == "training.clip"]
    [('training.clip', 1.0, 1.0)]
    """
    task = tasks.build_task(run.task)
    form = formats.build_format(run.format, task)
    parts = {"seeds": (run.seeds, None)}
    parts |= {"task.name": (run.task["name"], None)} | _list_part("task", task)
    parts["format.name"] = (run.format.get("name", "expression"), "expression")
    parts |= _list_part("format", form)
    for index, pair in enumerate(run.positions):
        scheme = positions.choose_scheme(pair["ids"])
        encoding = encodings.choose_encoding(pair["encoding"], "positions.encoding").Settings
        parts[f"positions.{index}.ids"] = (pair["ids"], None)
        for kind in (scheme, encoding):
            given = {key: pair[key] for key in pair if key in kind.model_fields}
            parts |= _list_part(f"positions.{index}", kind.parse(given, "positions"))
        parts[f"positions.{index}.encoding"] = (pair["encoding"], None)
    parts["model.name"] = (run.model.get("name", "transformer"), "transformer")
    parts |= _list_part("model", architectures.choose_architecture(run.model)[1])
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
