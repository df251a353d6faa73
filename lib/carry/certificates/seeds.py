"""The certificate of one seed as a job: a function from its weights to a file.

`carry.certificates.certify` makes the jobs of rows. This module does not depend on it, so that a
change of how jobs are run repeats no certificate.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from carry import fingerprint
from carry.certificates.files import hash_json, write_certificate
from carry.certificates.tables import hash_contexts, tabulate_contexts
from carry.certificates.verification import (
    EnumeratedContexts,
    certify_model,
    find_contexts_or_conflict,
    hash_weights,
)
from carry.experiments.run import Run
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
    certificate = describe_models([system])
    code = fingerprint.hash_code([__name__, *run.module_names()])
    certificate["code_sha256"] = hashlib.sha256(code.encode()).hexdigest()
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
        "profile": run.profile,
        **settings,
        "settings_sha256": hash_json(settings),
        "trained": run.training.digits,
        "parameters": count_network_parameters(systems[0].network),
        "seeds": [{"seed": system.seed, "weights": hash_weights(system)} for system in systems],
    }
