"""Rows of a user: the entries of `rows` in params.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from carry.config.settings import SettingsError, check_known, check_name, describe
from carry.experiments.base import SCALES, Row, Settings, merge
from carry.experiments.run import Run

PLACE = "params.yaml.rows"
STUDY = "mine"
KEYS = ("like", "study", "label")  # the others are settings, or scales with settings
SETTINGS = [name for name in Run.model_fields if name not in ("name", "scale", "data_set", *KEYS)]


def make_own_rows(entries: Mapping[str, Settings], rows: Mapping[str, Row]) -> dict[str, Row]:
    """Return the rows of params.yaml by name; each may be like one of `rows`, or one above it.

    >>> parent = Row("parent", "tests", {"seeds": 2}, {"laptop": {}, "gpu": {"seeds": 5}})
    >>> entry = {"like": "parent", "training": {"steps": 300}}
    >>> child = make_own_rows({"child": entry}, {"parent": parent})["child"]
    >>> child.study, child.resolve()["seeds"], child.resolve("gpu")["training"]["steps"]
    ('mine', 2, 300)

    Raises:
        SettingsError: for a name that exists, an unknown key, and a row or a scale that does not
            fit. The settings themselves are checked with the run (`resolve.load_run`).
    """
    own: dict[str, Row] = {}
    for name, entry in entries.items():
        own[name] = _make_row(name, entry, {**rows, **own})
    return own


def _make_row(name: str, entry: Settings, rows: Mapping[str, Row]) -> Row:
    check_name(name, PLACE)
    place, study = f"{PLACE}.{name}", entry.get("study", STUDY)
    check_name(study, f"{place}.study")
    if name in {*rows, *(row.study for row in rows.values()), study}:
        raise SettingsError(f"{place}: a row or a study has this name; expected a new name")
    for key in entry:
        check_known(key, [*KEYS, *SETTINGS, *SCALES], place)
    parent = Row(name, STUDY, {}, {"laptop": {}})
    if "like" in entry:
        check_known(entry["like"], rows, f"{place}.like")
        parent = rows[entry["like"]]
    scales: dict[str, Any] = {scale: entry[scale] for scale in SCALES if scale in entry}
    for scale, change in scales.items():
        if not isinstance(change, dict | None):
            raise SettingsError(f"{place}.{scale}: {describe(change)} is no mapping; expected one")
    # The scale `notebook` is that of committed outputs, which must not change with params.yaml.
    inherited = {scale: {} for scale in parent.scales if scale != "notebook"}
    scales = {"laptop": None} | inherited | scales
    changes = {key: value for key, value in entry.items() if key in SETTINGS}
    if scales["laptop"] is not None:  # what is said of the row holds there, whatever it is like
        scales["laptop"] = merge(changes, scales["laptop"])
    return parent.but(name, study, entry.get("label"), **changes, **scales)
