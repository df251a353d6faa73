"""params.yaml and the profiles: which rows there are, and how large each is made."""

from __future__ import annotations

import marshal
from functools import cache
from pathlib import Path
from typing import Any

import ruamel.yaml

from carry.config.paths import ROOT
from carry.config.settings import SettingsError, suggest_name


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file with the one parser that this project uses (YAML 1.2: 1e-3 is a number)."""
    return marshal.loads(_parsed(Path(path).read_text()))


@cache
def _parsed(text: str) -> bytes:
    """Parse once what is asked for each row; kept so that a copy takes a tenth of `deepcopy`."""
    return marshal.dumps(ruamel.yaml.YAML(typ="safe", pure=True).load(text))


def load_params() -> dict[str, Any]:
    """Return params.yaml: what is compared (`base`, `runs`, `problems`), whatever the size."""
    return read_yaml(ROOT / "params.yaml")


@cache
def find_profiles() -> dict[str, Path]:
    """Return the profile files by name; `cpu`, the default, stands at the root.

    >>> sorted(find_profiles())
    ['baselines', 'cpu', 'gpu', 'notebook', 'paper', 'smoke']
    """
    beside = {path.parent.name: path for path in ROOT.glob("profiles/*/profile.yaml")}
    return {"cpu": ROOT / "profile.yaml", **beside}


def load_profile(profile: str) -> dict[str, Any]:
    """Return a profile: `scale` for every row, and `rows`, the rows it runs and their own scale.

    Raises:
        SettingsError: for an unknown profile, naming the nearest.
    """
    known = find_profiles()
    if profile not in known:
        raise SettingsError(f"profile: {profile!r} is not there, {suggest_name(profile, known)}")
    return read_yaml(known[profile])


def load_problem_set(name: str, profile: str, where: str = "problems") -> dict[str, Any]:
    """Return the settings of a problem set at the scale of a profile.

    >>> load_problem_set("1-3_digit", "cpu")["lengths"]
    [1, 2, 3]

    Raises:
        SettingsError: for an unknown set, naming the nearest.
    """
    known = load_params()["problems"]
    if name not in known:
        raise SettingsError(f"{where}: {name!r} is not there, {suggest_name(name, known)}")
    return merge(known[name], load_profile(profile).get("problems", {}).get(name))


def merge(*layers: dict[str, Any] | None) -> dict[str, Any]:
    """Merge mappings key by key, later ones first in rank; lists are replaced whole.

    >>> merge({"model": {"width": 64, "layers": 1}}, {"model": {"layers": 2}})
    {'model': {'width': 64, 'layers': 2}}
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        for key, value in (layer or {}).items():
            both = isinstance(value, dict) and isinstance(merged.get(key), dict)
            merged[key] = merge(merged[key], value) if both else value
    return merged
