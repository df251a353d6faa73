"""The certificate of one row as a job: a function from the weights of its seeds to a file.

`carry.certificates.certify` makes the jobs of rows. This module does not depend on it, so that a
change of how jobs are run repeats no certificate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from carry.certificates.files import write_certificate
from carry.certificates.verification import (
    EnumeratedContexts,
    certify_model,
    find_contexts_or_conflict,
    hash_weights,
)
from carry.config.run_settings import Run
from carry.evaluation import trained_models
from carry.models.parameter_counts import count_network_parameters

FILE = "certificate.json"
RUN_FIELDS = ("task", "format", "positions", "model")


def certify_seeds(
    report: Callable[..., None], folder: Path, run: Run, weights: Sequence[Path]
) -> None:
    """Certify all seeds of a row from their files of weights, and write its certificate.

    The contexts are enumerated once.

    Raises:
        SettingsError: for a row whose contexts cannot be enumerated, for damaged weights, and for
            weights of other settings.
    """
    first = trained_models.restore_system(weights[0], run, 0, "cpu")
    report(0.0, "enumerating contexts")
    enumerated = find_contexts_or_conflict(first, lambda problems: None)
    count = len(enumerated.contexts) if isinstance(enumerated, EnumeratedContexts) else 1
    total, done = count * len(weights), 0

    def count_contexts(contexts: int) -> None:
        nonlocal done
        done += contexts
        report(min(1.0, done / total), f"{done:,} of {total:,} contexts")

    seeds: list[dict[str, Any]] = []
    for seed, path in enumerate(weights):
        system = trained_models.restore_system(path, run, seed, "cpu")
        seeds.append(certify_model(system, enumerated, count_contexts))
    write_certificate(folder / FILE, {**describe_models(run, weights), "seeds": seeds})


def describe_models(run: Run, weights: Sequence[Path]) -> dict[str, Any]:
    """Return the fields of a certificate that do not depend on contexts."""
    systems = [
        trained_models.restore_system(path, run, seed, "cpu") for seed, path in enumerate(weights)
    ]
    settings = run.model_dump(mode="json")
    return {
        "row": run.name,
        "profile": run.profile,
        **{field: settings[field] for field in RUN_FIELDS},
        "trained": run.training.digits,
        "parameters": count_network_parameters(systems[0].network),
        "seeds": [
            {"seed": seed, "weights": hash_weights(system)} for seed, system in enumerate(systems)
        ],
    }
