"""params.yaml: what a reader changes, and `dvc exp run -S` too."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from carry.config.paths import ROOT
from carry.config.settings import Settings
from carry.config.tree import is_project


class Params(Settings):
    """The settings of params.yaml; the file explains them."""

    scale: Literal["laptop", "long", "smoke", "gpu", "paper"] = "laptop"
    seeds: Annotated[int, Field(ge=1)] | None = None
    train: Annotated[dict[str, Literal["all"] | list[str]], Field(min_length=1)] = {}
    rows: dict[str, dict[str, Any]] = {}
    override: dict[str, dict[str, Any]] = {}


def load_params() -> Params:
    """Return the settings of params.yaml; outside a clone, none are overridden.

    Raises:
        SettingsError: for invalid YAML, and a setting that does not fit.
    """
    if not is_project(ROOT):
        return Params()
    from carry.config.yaml_files import read_yaml  # here: outside a clone, it may not be installed

    return Params.parse(read_yaml(ROOT / "params.yaml"), "params.yaml")
