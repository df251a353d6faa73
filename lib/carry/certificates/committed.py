"""Verify and renew the certificates that are in git."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from carry.certificates.files import read_certificate, write_certificate
from carry.certificates.jobs import RUN_FIELDS, certify_runs
from carry.certificates.tables import write_tables
from carry.config import paths
from carry.config.settings import SettingsError, suggest_name
from carry.evaluation import trained_models
from carry.experiments.resolve import list_rows, load_run, make_run
from carry.experiments.run import Run
from carry.models.identity import identify
from carry.training.checkpoint import report_damage

TOLERANCE = 0.02  # relative difference of leads and bounds between machines
APPROXIMATE = ("least_lead", "largest_error", "least_slack")  # fields with this tolerance
# A certificate is valid if other code finds the same, and settings are compared by what they mean;
# `profile` is a former name of the scale.
NOT_COMPARED = ("code_sha256", "settings_sha256", "scale", "profile")


def renew_certificate(row: str) -> None:
    """Certify the weights of a row that are in git, and write its certificate.

    Raises:
        SettingsError: for a row without weights in git, or that is not certified.
    """
    certificates = certify_runs({row: _find_committed_weights(row)}, row)
    write_certificate(paths.certificate_file(row), certificates[row])


def verify_certificates(rows: list[str]) -> bool:
    """Verify the certificates of rows (default: all), in parallel, and print each result.

    The committed weights of a row are certified again, and all fields compared.

    Returns:
        Whether all certificates are valid and exact, and none is missing or unused.
    """
    weights: dict[str, tuple[Run, list[Path]]] = {}
    stored, faults = {}, []
    for row in rows or list_certified():
        try:
            found = _find_committed_weights(row), read_certificate(paths.certificate_file(row))
            weights[row], stored[row] = found
        except SettingsError as error:
            faults.append(f"{row}: {error}")
    actual = certify_runs(weights, "verifying")
    unused = {path.stem for path in paths.certificate_file("").parent.glob("*.json")}
    for row in [] if rows else sorted(unused - {*list_certified()}):
        faults.append(f"{row}: it has a certificate, and no experiment certifies it")
    valid = True
    for row, certificate in stored.items():
        try:
            _compare(certificate, actual[row], paths.certificate_file(row))
        except SettingsError as error:
            faults.append(f"{row}: {error}")
            continue
        for seed in certificate["seeds"]:
            valid &= seed["verdict"] == "exact"
            print(f"{row}, seed {seed['seed']}: {describe_certificate(seed)}", flush=True)
    for fault in faults:
        print(fault, flush=True)
    return valid and not faults


def export_tables(row: str, seed: int, folder: Path) -> None:
    """Write the contexts of a committed model with leads and bounds (see `tables`).

    Raises:
        SettingsError: for a row or a seed without a committed certificate, and one that differs
            from what the library finds.
    """
    run, weights = _find_committed_weights(row)
    if not 0 <= seed < len(weights):
        raise SettingsError(f"seed: {seed} has no certificate; expected 0 to {len(weights) - 1}")
    path = paths.certificate_file(row)
    certificate = read_certificate(path)
    system = trained_models.restore_system(weights[seed], run, seed, "cpu")
    write_tables(system, certificate, folder)


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


def list_certified() -> list[str]:
    """Return the rows that are certified.

    >>> "addition_relative" in list_certified()
    True
    """
    return [row for row in list_rows() if load_run(row).certify]


def check_certified(rows: list[str]) -> None:
    """Refuse a row that is not certified, and name the nearest that is."""
    certified = list_certified()
    for row in rows:
        if row not in certified:
            hint = suggest_name(row, certified)
            raise SettingsError(f"certificates: {row!r} is not certified, {hint}")


def _find_committed_weights(row: str) -> tuple[Run, list[Path]]:
    """Return a certified row, and its weights in git."""
    check_certified([row])
    run, folder = load_run(row), paths.models_folder(row)
    files = [folder / f"seed_{seed}.safetensors" for seed in range(run.seeds)]
    for path in files:
        if not path.is_file():
            raise SettingsError(
                f"certificates.{row}: {paths.display_path(path)} is missing; expected committed "
                "weights"
            )
    return run, files


def _compare(stored: dict[str, Any], actual: dict[str, Any], path: Path) -> None:
    """Refuse a certificate that differs; a default that only one of both writes down is equal."""
    sides = []
    for certificate in (stored, actual):
        with report_damage(path):
            settings = {field: certificate[field] for field in RUN_FIELDS}
            identity = identify(make_run(settings))
        sides.append({**certificate, **{field: identity.get(field) for field in RUN_FIELDS}})
    difference = _find_difference(*sides, paths.display_path(path))
    if difference:
        raise SettingsError(difference)


def _find_difference(stored: Any, actual: Any, place: str) -> str | None:
    """Return one line about the first difference of two certificates; None if they agree."""
    if isinstance(stored, dict) and isinstance(actual, dict):
        pairs = {key: (stored.get(key), actual.get(key)) for key in {**actual, **stored}}
        pairs = {key: pair for key, pair in pairs.items() if key not in NOT_COMPARED}
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
