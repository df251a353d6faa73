"""Read YAML 1.2, in which 1e-3 is a number; what cannot be read is an error of one line."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import ruamel.yaml

from carry.config.paths import ROOT
from carry.config.settings import SettingsError, describe


def read_yaml(path: Path) -> Any:
    """Return the content of a YAML file, the same object for the same text: do not change it.

    Raises:
        SettingsError: for what is not valid YAML in UTF-8, and a key that occurs twice.
    """
    where = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    try:
        return _parse(path.read_text(encoding="utf-8"), where)
    except UnicodeDecodeError as error:
        raise SettingsError(f"{where}: {error}; expected text in UTF-8") from None


@cache
def _parse(text: str, where: str) -> Any:
    try:
        return ruamel.yaml.YAML(typ="safe", pure=True).load(text)
    except ruamel.yaml.error.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f" line {mark.line + 1}" if mark else ""
        problem = describe(error.problem or error.context)
        raise SettingsError(f"{where}{line}: {problem}; expected valid YAML") from None
    except (ruamel.yaml.error.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise SettingsError(f"{where}: {describe(str(error))}; expected valid YAML") from None
