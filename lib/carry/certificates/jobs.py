"""Certificates as jobs: from the weights of a seed to a file, and from files to that of a row."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from carry import fingerprint
from carry.certificates.files import hash_json, read_certificate, write_certificate
from carry.certificates.tables import hash_contexts, tabulate_contexts
from carry.certificates.verification import (
    EnumeratedContexts,
    certify_model,
    find_contexts_or_conflict,
)
from carry.config import paths
from carry.evaluation import trained_models
from carry.experiments.run import Run
from carry.jobs import Job, run_jobs
from carry.models.identity import identify
from carry.models.parameter_counts import count_network_parameters
from carry.progress import count_progress

FILE = "certificate.json"
RUN_FIELDS = ("task", "format", "positions", "model")


def certify_runs(
    weights: Mapping[str, tuple[Run, Sequence[Path]]], label: str
) -> dict[str, dict[str, Any]]:
    """Certify the seeds of runs, in parallel, and return the certificate of each row.

    Args:
        weights: by row, its run and the files of its seeds, from seed 0 on.

    Raises:
        SettingsError: for a row whose contexts cannot be enumerated, and weights that do not fit.
    """
    jobs = [
        Job(
            name=f"{run.name}, seed {seed}",
            kind="certify",
            work=certify_seed,
            arguments=(run, seed, path),
            inputs=json.dumps([identify(run), seed, paths.hash_file(path)], sort_keys=True),
            modules=_list_modules(run),
            cost=4.0 ** len(run.positions),  # contexts have as many levels
        )
        for run, files in weights.values()
        for seed, path in enumerate(files)
    ]
    places = iter(run_jobs(jobs, label))
    certificates = {}
    for row, (_, files) in weights.items():
        parts = [read_certificate(next(places) / FILE) for _ in files]
        together = [seed for part in parts for seed in part["seeds"]]
        certificates[row] = {**parts[0], "row": row, "seeds": together}
    return certificates


def _list_modules(run: Run) -> tuple[str, ...]:
    return ("carry.certificates.verification", *run.module_names())


def certify_seed(
    report: Callable[..., None], folder: Path, run: Run, seed: int, weights: Path
) -> None:
    """Certify one seed of a row from its file of weights, and write the certificate of this seed.

    Raises:
        SettingsError: for a row whose contexts cannot be enumerated, for damaged weights, and for
            weights of other settings.
    """
    system = trained_models.restore_system(weights, run, seed, "cpu")
    report(0.0, "enumerating contexts")
    enumerated = find_contexts_or_conflict(system)
    count = len(enumerated.contexts) if isinstance(enumerated, EnumeratedContexts) else 1
    result = certify_model(system, enumerated, count_progress(report, count, "contexts"))
    if isinstance(enumerated, EnumeratedContexts):
        table = tabulate_contexts(system, enumerated.contexts)
        result["contexts_sha256"] = hash_contexts(table)
    dumped = run.model_dump(mode="json")
    settings = {field: dumped[field] for field in RUN_FIELDS}
    certificate = {
        "row": run.name,
        "scale": run.scale,
        **settings,
        "settings_sha256": hash_json(settings),
        "trained": run.training.digits,
        "parameters": count_network_parameters(system.network),
        "seeds": [result],
        "code_sha256": fingerprint.hash_code(_list_modules(run)),
    }
    write_certificate(folder / FILE, certificate)
