"""Certificate files: one JSON file for each row, with a hash of its content."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from carry.config import paths, profiles
from carry.config.settings import SettingsError


def write_certificate(path: Path, certificate: dict[str, Any]) -> None:
    """Write a certificate with the hash of its content, all or nothing."""
    content = {**certificate, "sha256": _hash_content(certificate)}
    with paths.write_atomically(path) as draft:
        draft.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def read_certificate(path: Path) -> dict[str, Any]:
    """Return a certificate without its hash.

    Raises:
        SettingsError: for a missing or damaged file, or content that does not match its hash.
    """
    where = paths.display_path(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(f"{where}: missing; expected the certify stage to have run") from None
    except (OSError, ValueError) as error:
        raise SettingsError(f"{where}: {type(error).__name__}; expected a certificate") from None
    if not isinstance(content, dict):
        raise SettingsError(f"{where}: not a mapping; expected a certificate")
    stored = content.pop("sha256", None)
    actual = _hash_content(content)
    if stored != actual:
        raise SettingsError(
            f"{where}.sha256: {str(stored)[:16]!r} differs; expected {actual[:16]!r}"
        )
    seeds = content.get("seeds")
    if not isinstance(seeds, list) or not all(isinstance(seed, dict) for seed in seeds):
        raise SettingsError(f"{where}.seeds: no list of mappings; expected one for each seed")
    return content


def find_unused_certificates() -> list[Path]:
    """Return the published certificates of rows that are not certified any more."""
    rows = profiles.load_profile(paths.PUBLISHED)["certificates"]
    used = {paths.certificate_file(paths.PUBLISHED, profiles.find_study(row), row) for row in rows}
    folder = paths.results_path(paths.PUBLISHED, "certificates")
    return sorted({*folder.glob("*/*.json")} - used)


def _hash_content(certificate: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(certificate, sort_keys=True).encode()).hexdigest()
