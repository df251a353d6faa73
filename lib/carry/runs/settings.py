"""Settings of results: `runs.parquet` next to the tables of a study, a line for each seed."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from carry.experiments.resolve import make_run
from carry.experiments.run import Run
from carry.models.identity import identify

COLUMNS = (
    *("row", "scale", "seed", "key", "label", "settings", "seconds", "core_seconds"),
    *("device", "python", "torch", "numpy", "commit"),
)
LABELS = {"name", "study", "scale", "label", "seeds", "analyses", "certify", "publish"}


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
