"""Experiments as objects resolve to the settings that params.yaml and the profiles have."""

import gzip
import json
from pathlib import Path

import pytest

from carry import formats, positions, tasks
from carry.data.problem_sets import get_problem_set_name
from carry.experiments import load_rows
from carry.experiments.problems import find_problem_set
from carry.experiments.resolve import load_run
from carry.models import architectures, encodings

FOLDER = Path(__file__).parent / "golden"
UNPUBLISHED = {"multi_operand_addition_coupled_scratchpad_10_2l2h"}  # nothing loads its weights
GOLDEN = json.loads(gzip.decompress((FOLDER / "rows.json.gz").read_bytes()))
PROBLEMS = json.loads(gzip.decompress((FOLDER / "problems.json.gz").read_bytes()))
ROWS = load_rows()
REMOVED = {
    # Rows that other profiles than `full` scored on fewer problems, for variants of them.
    ("baselines", "addition_relative"),
    ("tuning", "addition_coupled"),
    # Our norm, which the paper does not have: the settings were those of another row.
    ("paper", "multi_operand_addition_coupled_scratchpad_branch"),
}
NEW = ("study", "scale", "analyses", "certify", "publish")
# Settings of training that no row changed.
GONE = {"stop_at": None, "patience": 3, "device": "auto", "micro_batch": None}


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
        if (profile, name) in REMOVED:
            continue
        run = load_run(name, find_scale(profile, name))
        have = run.model_dump(exclude={*NEW}) | {"profile": profile}
        del have["training"]["stream"]
        if profile == "cpu":  # one seed of several
            have["seeds"] = want["seeds"]
        have, want = complete(have), complete(want)
        assert {setting: want["training"].pop(setting) for setting in GONE} == GONE
        del want["training"]["graphs"]  # how kernels were launched; no number depended on it
        assert want["evaluation"].pop("recurrences") is None  # no row changed it
        for settings in (have, want):  # a set of another size has another name
            settings["evaluation"].pop("problem_set")
        if have != want:
            changed = [key for key in want if want[key] != have[key]]
            different[name] = {key: (want[key], have[key]) for key in changed}
        if profile not in ("cpu", "gpu", "paper"):
            problems = find_problem_set(get_problem_set_name(run), run.scale)
            assert problems.stream == PROBLEMS["rows"][profile][name]
    assert not different


def test_a_stage_is_done_for_the_rows_that_had_it():
    for profile in ("full", "long"):
        chosen = PROBLEMS["profiles"][profile]
        for name in GOLDEN[profile]:
            run = load_run(name, find_scale(profile, name))
            assert run.certify == (name in chosen["certificates"])
            assert run.publish == (name in {*chosen["models"]} - UNPUBLISHED)
            analyses = chosen["analyses"].get(name, [])
            assert {*([analyses] if isinstance(analyses, str) else analyses)} <= {*run.analyses}
