"""The certificate of one seed as a job: a function from its weights to a file.

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
from carry.models.system import System
from carry.progress import count_progress

FILE = "certificate.json"
RUN_FIELDS = ("task", "format", "positions", "model")


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
    seeds = [certify_model(system, enumerated, count_progress(report, count, "contexts"))]
    write_certificate(folder / FILE, {**describe_models([system]), "seeds": seeds})


def describe_models(systems: Sequence[System]) -> dict[str, Any]:
    """Return the fields of a row's certificate that do not depend on contexts.

    `sharpness` is named if it is not 1.

    Args:
        systems: the models of the row's seeds.
    """
    run = systems[0].run
    settings, sharpness = run.model_dump(mode="json"), run.evaluation.sharpness
    return {
        "row": run.name,
        "profile": run.profile,
        **{field: settings[field] for field in RUN_FIELDS},
        **({} if sharpness == 1.0 else {"sharpness": sharpness}),
        "trained": run.training.digits,
        "parameters": count_network_parameters(systems[0].network),
        "seeds": [{"seed": system.seed, "weights": hash_weights(system)} for system in systems],
    }
