"""params.yaml: what a reader changes, and `dvc exp run -S` too."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Field

from carry.config.paths import ROOT
from carry.config.settings import Settings
from carry.config.yaml_files import parse_yaml


class Params(Settings):
    """The settings of params.yaml; the file explains them."""

    scale: Literal["laptop", "smoke", "gpu", "paper"] = "laptop"
    seeds: Annotated[int, Field(ge=1)] | None = None
    train: Annotated[dict[str, Literal["all"] | list[str]], Field(min_length=1)] = {}
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
    return Params.parse(parse_yaml(text, "params.yaml"), "params.yaml")
