"""params.yaml: what a reader changes, and `dvc exp run -S` too."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal

import ruamel.yaml
from pydantic import Field

from carry.config.paths import ROOT
from carry.config.settings import Settings, SettingsError, describe


class Params(Settings):
    """The settings of params.yaml; the file explains them."""

    scale: Literal["laptop", "smoke", "gpu", "paper"] = "laptop"
    seeds: Annotated[int, Field(ge=1)] | None = None
    train: dict[str, Literal["all"] | list[str]] = {}
    override: dict[str, dict[str, Any]] = {}


def load_params() -> Params:
    """Return the settings of params.yaml; without the file, none are overridden.

    Raises:
        SettingsError: for invalid YAML, and a setting that does not fit.
    """
    path = ROOT / "params.yaml"
    return _parse(path.read_text(encoding="utf-8")) if path.is_file() else Params()


@cache
def _parse(text: str) -> Params:
    try:
        values = ruamel.yaml.YAML(typ="safe", pure=True).load(text)
    except ruamel.yaml.error.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f" line {mark.line + 1}" if mark else ""
        raise SettingsError(
            f"params.yaml{line}: {describe(error.problem or error.context)}; expected valid YAML"
        ) from None
    except (ruamel.yaml.error.YAMLError, ValueError) as error:
        raise SettingsError(f"params.yaml: {error}; expected valid YAML") from None
    return Params.parse(values, "params.yaml")
