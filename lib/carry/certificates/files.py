"""Certificate files: one JSON file for each row, with a hash of its content.

version          of this format; files of another one are refused
row, scale       which row, and at which scale it was trained
task, format, positions, model                 its settings
settings_sha256  of these settings
code_sha256      of the library's files that the certificate depends on
trained, parameters                            digits in training, and the size of the model
seeds            for each model its `seed`, the hash of its `weights`, `contexts_sha256` (see
                 `tables`), and the fields of `certify_model`
sha256           of all of this
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from carry.config import paths
from carry.config.settings import SettingsError

VERSION = 2


def write_certificate(path: Path, certificate: dict[str, Any]) -> None:
    """Write a certificate with its version and the hash of its content, all or nothing."""
    content = {"version": VERSION, **certificate}
    content["sha256"] = hash_json(content)
    with paths.write_atomically(path) as draft:
        draft.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def read_certificate(path: Path) -> dict[str, Any]:
    """Return a certificate without its version and its hash.

    Raises:
        SettingsError: for a missing or damaged file, a certificate of another version, or content
            that does not match its hash.
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
    version = content.get("version")
    if version != VERSION:
        raise SettingsError(
            f"{where}.version: {json.dumps(version)} is not read; expected {VERSION}, which "
            "`carry certify --renew` writes"
        )
    stored = content.pop("sha256", None)
    actual = hash_json(content)
    if stored != actual:
        raise SettingsError(
            f"{where}.sha256: {str(stored)[:16]!r} differs; expected {actual[:16]!r}"
        )
    del content["version"]
    return content


def hash_json(content: dict[str, Any]) -> str:
    """Return the SHA-256 of a mapping as JSON with sorted keys.

    >>> hash_json({"b": 1, "a": 2}) == hash_json({"a": 2, "b": 1})
    True
    """
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
