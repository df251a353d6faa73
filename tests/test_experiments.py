"""Experiments as objects resolve to the settings that params.yaml and the profiles have."""

import gzip
import importlib
import json
import pkgutil
from pathlib import Path

import pytest

from carry import experiments, formats, positions, tasks
from carry.config.run_settings import make_run
from carry.models import architectures, encodings

PACKED = (Path(__file__).parent / "golden" / "rows.json.gz").read_bytes()
GOLDEN = json.loads(gzip.decompress(PACKED))
MODULES = [module.name for module in pkgutil.iter_modules(experiments.__path__)]
LISTED = [
    row
    for module in MODULES
    for row in getattr(importlib.import_module(f"carry.experiments.{module}"), "ROWS", [])
]
ROWS = {row.name: row for row in LISTED}
# Rows that other profiles than `full` scored on fewer problems, for variants of them.
ONLY_FOR_VARIANTS = {("baselines", "addition_relative"), ("tuning", "addition_coupled")}


def find_scale(profile, row):
    if profile == "long" and "long" in ROWS[row].scales:
        return "long"
    return profile if profile in ("notebook", "smoke", "gpu", "paper") else "laptop"


def complete(run):
    """Return settings with the defaults of the task, format, model and position encodings."""
    run = json.loads(json.dumps(run))
    task = tasks.build_task(run["task"])
    run["task"] = {"name": run["task"]["name"], **task.model_dump()}
    name = run["format"].get("name", "expression")
    run["format"] = {"name": name, **formats.build_format(run["format"], task).model_dump()}
    name = run["model"].get("name", "transformer")
    run["model"] = {"name": name, **architectures.choose_architecture(run["model"])[1].model_dump()}
    run["positions"] = [complete_pair(pair) for pair in run["positions"]]
    return json.loads(json.dumps(run))


def complete_pair(pair):
    scheme = positions.choose_scheme(pair["ids"])
    kind = encodings.choose_encoding(pair["encoding"], "encoding").Settings
    ids = scheme.parse({key: pair[key] for key in pair if key in scheme.model_fields}, "ids")
    how = kind.parse({key: pair[key] for key in pair if key in kind.model_fields}, "encoding")
    names = {key: pair[key] for key in ("ids", "encoding")}
    return {**names, **ids.model_dump(), **how.model_dump()}


@pytest.mark.parametrize("profile", GOLDEN)
def test_rows_are_as_they_were(profile):
    different = {}
    for name, want in GOLDEN[profile].items():
        if (profile, name) in ONLY_FOR_VARIANTS:
            continue
        row = ROWS[name]
        run = make_run(row.resolve(find_scale(profile, name)), name, profile)
        have = {**run.model_dump(), "label": row.label}
        if profile == "cpu":  # one seed of several
            have["seeds"] = want["seeds"]
        have, want = complete(have), complete(want)
        if have != want:
            changed = [key for key in want if want[key] != have[key]]
            different[name] = {key: (want[key], have[key]) for key in changed}
    assert not different


def test_no_scale_of_a_row_is_new():
    golden = {(name, find_scale(profile, name)) for profile in GOLDEN for name in GOLDEN[profile]}
    assert {(row.name, scale) for row in ROWS.values() for scale in row.scales} == golden


def test_names_are_unique():
    assert len(LISTED) == len(ROWS)
