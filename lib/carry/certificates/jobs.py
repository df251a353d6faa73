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
    hash_weights,
)
from carry.config import paths
from carry.evaluation import trained_models
from carry.experiments.run import Run
from carry.jobs import Job, run_jobs
from carry.models.identity import identify
from carry.models.parameter_counts import count_network_parameters
from carry.models.system import System
from carry.progress import count_progress

FILE = "certificate.json"
RUN_FIELDS = ("task", "format", "positions", "model")


def certify_runs(
    weights: Mapping[str, tuple[Run, Sequence[Path]]], label: str, costs: Mapping[str, float] = {}
) -> dict[str, dict[str, Any]]:
    """Certify the seeds of runs, in parallel, and return the certificate of each row.

    Args:
        weights: by row, its run and the files of its seeds, from seed 0 on.
        costs: expected core-seconds of a seed, by row.

    Raises:
        SettingsError: for a row whose contexts cannot be enumerated, and weights that do not fit.
    """
    jobs = {
        row: [_make_job(run, seed, path, costs.get(row)) for seed, path in enumerate(files)]
        for row, (run, files) in weights.items()
    }
    places = iter(run_jobs([job for row in jobs.values() for job in row], label))
    certificates = {}
    for row, seeds in jobs.items():
        parts = [read_certificate(next(places) / FILE) for _ in seeds]
        together = [seed for part in parts for seed in part["seeds"]]
        certificates[row] = {**parts[0], "row": row, "seeds": together}
    return certificates


def _make_job(run: Run, seed: int, path: Path, cost: float | None) -> Job:
    """Return the job that certifies a seed; without a cost, it grows with the levels of ids."""
    return Job(
        name=f"{run.name}, seed {seed}",
        kind="certify",
        work=certify_seed,
        arguments=(run, seed, path),
        inputs=json.dumps([identify(run), seed, paths.hash_file(path)], sort_keys=True),
        modules=("carry.certificates.verification", *run.module_names()),
        cost=cost or 4.0 ** len(run.positions),
    )


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
    certificate = describe_models([system])
    modules = ("carry.certificates.verification", *run.module_names())
    certificate["code_sha256"] = fingerprint.hash_code(modules)
    count = len(enumerated.contexts) if isinstance(enumerated, EnumeratedContexts) else 1
    result = certify_model(system, enumerated, count_progress(report, count, "contexts"))
    if isinstance(enumerated, EnumeratedContexts):
        table = tabulate_contexts(system, enumerated.contexts)
        result["contexts_sha256"] = hash_contexts(table)
    write_certificate(folder / FILE, {**certificate, "seeds": [result]})


def describe_models(systems: Sequence[System]) -> dict[str, Any]:
    """Return the fields of a row's certificate that do not depend on contexts.

    Args:
        systems: the models of the row's seeds.
    """
    run = systems[0].run
    dumped = run.model_dump(mode="json")
    settings = {field: dumped[field] for field in RUN_FIELDS}
    return {
        "row": run.name,
        "scale": run.scale,
        **settings,
        "settings_sha256": hash_json(settings),
        "trained": run.training.digits,
        "parameters": count_network_parameters(systems[0].network),
        "seeds": [{"seed": system.seed, "weights": hash_weights(system)} for system in systems],
    }
