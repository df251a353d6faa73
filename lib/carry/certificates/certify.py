"""Certify the rows of a profile, and verify committed certificates."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import safetensors.torch

from carry import processes
from carry.certificates.contexts import ConflictingContexts, Contexts
from carry.certificates.files import (
    certificate_file,
    find_unused_certificates,
    read_certificate,
    write_certificate,
)
from carry.certificates.verification import (
    EnumeratedContexts,
    certify_model,
    find_contexts_or_conflict,
    hash_weights,
)
from carry.config import paths, profiles, run_settings
from carry.config.run_settings import Run
from carry.config.settings import SettingsError, suggest_name
from carry.evaluation import trained_models
from carry.models.parameter_counts import count_network_parameters
from carry.progress import progress_bar
from carry.training import checkpoint

COMMITTED = "cpu"  # the profile whose certificates are in git
TOLERANCE = 0.02  # relative difference of leads and bounds between machines
APPROXIMATE = ("least_lead", "largest_error", "least_slack")  # fields with this tolerance
RUN_FIELDS = ("task", "format", "positions", "model")
CONTEXT_TENSORS = ("tokens", "target", "problem", "slot")  # the tensors of contexts, without ids


def certify_row(row: str, profile: str) -> dict[str, Any]:
    """Certify all seeds of a trained row, write `ROW.json`, and return its content.

    Raises:
        SettingsError: for a row whose contexts cannot be enumerated, or without weights.
    """
    seeds = range(run_settings.load_run(row, profile).seeds)
    weights = [trained_models.find_weights_file(profile, row, seed) for seed in seeds]
    run = trained_models.load_trained_run(profile, row, weights[0])
    certificate = _certify_seeds(run, weights)
    write_certificate(certificate_file(profile, row), certificate)
    return certificate


def renew_certificate(row: str) -> dict[str, Any]:
    """Certify the committed weights of a row, write its committed certificate, and return it.

    Raises:
        SettingsError: for a row without committed weights, or without a certificate in the profile.
    """
    _require_certified_row(row)
    certificate = _certify_seeds(*_find_committed_weights(row))
    write_certificate(certificate_file(COMMITTED, row), certificate)
    return certificate


def verify_certificate(row: str) -> dict[str, Any]:
    """Certify the committed weights of a row, compare all fields with its certificate, return it.

    Raises:
        SettingsError: for a row without a certificate or without weights, or with the first field
            that differs.
    """
    _require_certified_row(row)
    path = certificate_file(COMMITTED, row)
    stored = read_certificate(path)
    run, weights = _find_committed_weights(row)
    # Settings and weights first: the contexts take minutes.
    models = [{field: seed.get(field) for field in ("seed", "weights")} for seed in stored["seeds"]]
    _require_equal({**stored, "seeds": models}, _describe_models(run, weights), path)
    certificate = _certify_seeds(run, weights)
    _require_equal(stored, certificate, path)
    return certificate


def verify_certificates(rows: list[str]) -> bool:
    """Verify the certificates of rows (default: all of the profile), and print each result.

    Returns:
        Whether all certificates are valid and exact, and none is missing or unused.
    """
    valid = True
    for row in rows or profiles.load_profile(COMMITTED)["certificates"]:
        try:
            seeds = verify_certificate(row)["seeds"]
        except SettingsError as error:
            print(f"{row}: {error}", flush=True)
            valid = False
            continue
        for seed in seeds:
            valid &= seed["verdict"] == "exact"
            print(f"{row}, seed {seed['seed']}: {describe_certificate(seed)}", flush=True)
    for path in [] if rows else find_unused_certificates(COMMITTED):
        print(f"{paths.display_path(path)}: not certified by profile {COMMITTED!r}", flush=True)
        valid = False
    return valid


def describe_certificate(seed: dict[str, Any]) -> str:
    r"""Return the certificate of one seed in words.

    >>> leads = {"least_lead": 3.0, "largest_error": 0.5, "least_slack": 2.75}
    >>> seed = {"verdict": "exact", "contexts": 14, **leads}
    >>> print(describe_certificate(seed).replace(": ", "\n"))
    exact at every length
    correct in all 14 contexts (least lead 3, largest error 0.5, least slack 2.75)
    """
    verdict = seed["verdict"]
    if verdict == "impossible":
        return "impossible: a context has two correct next tokens"
    count = f"{seed['contexts']:,}"
    if verdict == "wrong":
        return f"wrong in {seed['wrong']:,} of {count} contexts: {_describe_fault(seed)}"
    leads = ", ".join(f"{name.replace('_', ' ')} {_render(seed[name])}" for name in APPROXIMATE)
    if verdict == "open":
        return f"open in {seed['open']:,} of {count} contexts ({leads})"
    meaning = "exact at every length" if verdict == "exact" else "sampled, not proved"
    return f"{meaning}: correct in all {count} contexts ({leads})"


def _describe_fault(seed: dict[str, Any]) -> str:
    fault = seed["counterexample"]
    text = f"after {fault['context']} it predicts {fault['predicted']} instead of {fault['target']}"
    if "problem" in fault:
        text += f"; {fault['problem']} becomes {fault['written']} instead of {fault['right']}"
    return text


def _render(number: float | None) -> str:
    return "unbounded" if number is None else f"{number:.3g}"


def _require_certified_row(row: str) -> None:
    rows = profiles.load_profile(COMMITTED)["certificates"]
    if row not in rows:
        raise SettingsError(
            f"certificates: profile {COMMITTED!r} does not certify {row!r}, "
            f"{suggest_name(row, rows)}"
        )


def _find_committed_weights(row: str) -> tuple[Run, list[Path]]:
    """Return a row at the scale of the profile that trained its committed weights, and these."""
    folder = trained_models.get_weights_folder(trained_models.COMMITTED_PROFILE, row)
    first = _require_file(folder / "seed_0.safetensors", row)
    run = run_settings.load_run(row, checkpoint.load_note(first)["run"]["profile"])
    files = [folder / f"seed_{seed}.safetensors" for seed in range(run.seeds)]
    return run, [_require_file(path, row) for path in files]


def _require_file(path: Path, row: str) -> Path:
    if not path.is_file():
        raise SettingsError(
            f"certificates.{row}: {paths.display_path(path)} is missing; expected committed weights"
        )
    return path


def _describe_models(run: Run, weights: list[Path]) -> dict[str, Any]:
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


def _certify_seeds(run: Run, weights: list[Path]) -> dict[str, Any]:
    """Certify all seeds of a row from their files of weights."""
    first = trained_models.restore_system(weights[0], run, 0, "cpu")
    with progress_bar(0, f"{run.name}, enumerating contexts", unit="problem") as bar:
        enumerated = find_contexts_or_conflict(first, bar.update)
    with tempfile.TemporaryDirectory() as folder:
        count, stored = 0, enumerated
        if isinstance(enumerated, EnumeratedContexts):
            count = len(enumerated.contexts) * len(weights)
            stored = _write_contexts(enumerated, Path(folder))
        jobs = [(run, path, seed, stored) for seed, path in enumerate(weights)]
        with progress_bar(count, run.name, unit="context") as bar:
            seeds = processes.run_jobs(_certify_seed, jobs, bar.update)
    return {**_describe_models(run, weights), "seeds": seeds}


def _certify_seed(
    report: Any, run: Run, path: Path, seed: int, stored: Path | ConflictingContexts
) -> dict[str, Any]:
    enumerated = _read_contexts(stored) if isinstance(stored, Path) else stored
    return certify_model(trained_models.restore_system(path, run, seed, "cpu"), enumerated, report)


def _write_contexts(enumerated: EnumeratedContexts, folder: Path) -> Path:
    """Write contexts to a file from which all processes read them without copying them."""
    path, contexts = folder / "contexts.safetensors", enumerated.contexts
    tensors = {f"ids.{index}": ids for index, ids in enumerate(contexts.ids)}
    tensors |= {name: getattr(contexts, name) for name in CONTEXT_TENSORS}
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    note = {"problems": str(enumerated.problems), "complete": str(int(enumerated.complete))}
    safetensors.torch.save_file(tensors, path, note)
    return path


def _read_contexts(path: Path) -> EnumeratedContexts:
    with safetensors.safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        note = file.metadata()
    ids = [tensors[f"ids.{index}"] for index in range(len(tensors) - len(CONTEXT_TENSORS))]
    contexts = Contexts(ids=ids, **{name: tensors[name] for name in CONTEXT_TENSORS})
    return EnumeratedContexts(contexts, int(note["problems"]), bool(int(note["complete"])))


def _require_equal(stored: dict[str, Any], actual: dict[str, Any], path: Path) -> None:
    """Refuse a stored certificate with the first field that differs."""
    difference = _find_difference(stored, actual, paths.display_path(path))
    if difference:
        raise SettingsError(difference)


def _find_difference(stored: Any, actual: Any, place: str) -> str | None:
    """Return one line about the first difference of two certificates; None if they agree.

    >>> _find_difference({"seeds": [{"wrong": 1}]}, {"seeds": [{"wrong": 0}]}, "a.json")
    'a.json.seeds.0.wrong: 1 differs; expected 0'
    """
    if isinstance(stored, dict) and isinstance(actual, dict):
        pairs = {key: (stored.get(key), actual.get(key)) for key in {**actual, **stored}}
    elif isinstance(stored, list) and isinstance(actual, list):
        if len(stored) != len(actual):
            return f"{place}: {len(stored)} entries differ; expected {len(actual)}"
        pairs = dict(enumerate(zip(stored, actual, strict=True)))
    elif stored == actual or (place.endswith(APPROXIMATE) and _is_close(stored, actual, place)):
        return None
    else:
        shown, expected = (_shorten(value) for value in (stored, actual))
        return f"{place}: {shown} differs; expected {expected}"
    differences = (_find_difference(*pair, f"{place}.{key}") for key, pair in pairs.items())
    return next(filter(None, differences), None)


def _shorten(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


def _is_close(stored: Any, actual: float | None, place: str) -> bool:
    if not isinstance(stored, int | float) or actual is None:
        return False
    floor = 1.0 if place.endswith("least_slack") else 0.0  # a difference of larger numbers
    return abs(stored - actual) <= TOLERANCE * max(floor, abs(stored), abs(actual))
