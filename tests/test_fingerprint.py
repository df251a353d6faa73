"""Stages depend on exactly the code they reach: no less, and on nothing that a neighbour brings."""

import shutil
import subprocess
import sys

import nbformat
import pytest

from carry import fingerprint
from carry.config import paths, profiles
from carry.config.run_settings import list_rows, load_run
from carry.config.settings import SettingsError
from carry.models.architectures.transformer import Transformer
from carry.pipeline import dependencies, runner
from carry.pipeline.stages import STAGES
from carry.plots import gallery

IMPORTS = """
import sys
from carry.config.run_settings import load_run
from carry.models.system import System
from carry.training.loop import Trainer
import carry.training.seeds
run = load_run(sys.argv[1], "smoke")
run = run.model_copy(update={"training": run.training.model_copy(update={"steps": 1, "batch": 2})})
Trainer(run, 0, None).train()
print(*[name for name in sys.modules if name.split(".")[0] == "carry"])
"""


@pytest.mark.parametrize("row", ["addition_abacus_fire", "addition_relative"])
def test_training_imports_just_what_its_fingerprint_names(row):
    command = [sys.executable, "-c", IMPORTS, row]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    start = ["carry.training.seeds", *load_run(row, "smoke").module_names()]
    assert sorted(done.stdout.split()) == list(fingerprint.find_reachable_files(start))


@pytest.mark.parametrize("module", ["carry.training.seeds", "carry.evaluation.trained_models"])
def test_only_rows_with_batched_seeds_depend_on_their_training(module):
    def files(row):
        return fingerprint.find_reachable_files([module, *load_run(row, "cpu").module_names()])

    assert not any("batched" in name for name in files("addition_relative"))
    batched = {name for name in files("noisy_majority_d8_a4") if "training.batched" in name}
    names = ("count_pass", "groups", "head_halving", "network", "trainer")
    assert batched == {"carry.training.batched", *(f"carry.training.batched.{n}" for n in names)}


LOOPING = {stage.notebook for stage in STAGES.values() if stage.section}


FEW_ROWS = {
    *("addition_abacus", "addition_abacus_looped", "addition_abacus_short"),
    *("addition_randomized_fire_hints", "addition_relative", "noisy_majority_d8_a4"),
}


@pytest.fixture
def few_rows(monkeypatch):
    """Let every profile have a few rows only."""
    load = profiles.load_profile

    def load_few(name):
        profile = dict(load(name))
        for section in ("rows", "analyses", "certificates"):
            rows = profile.get(section) or []
            kept = [row for row in rows if row in FEW_ROWS]
            profile[section] = {row: rows[row] for row in kept} if isinstance(rows, dict) else kept
        return profile

    monkeypatch.setattr(profiles, "load_profile", load_few)


@pytest.fixture
def copy(tmp_path, monkeypatch, few_rows):
    """Let the pipeline see a copy of the library that a test may change."""
    shutil.copytree(fingerprint.LIBRARY, tmp_path / "lib" / "carry")
    shutil.copytree(paths.ROOT / "notebooks", tmp_path / "notebooks")
    monkeypatch.setattr(fingerprint, "LIBRARY", tmp_path / "lib" / "carry")
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    return tmp_path


def written():
    place = dependencies.write_fingerprints("smoke")
    return {path.relative_to(place).as_posix(): path.read_text() for path in place.rglob("*.txt")}


def changed(before):
    after = written()
    assert after.keys() == before.keys()
    return {name for name in before if before[name] != after[name]}


def of_rows(names):
    """Return those of the stages that run for each row."""
    return {
        name for name in names if "/".join(name.split("/")[:2]) in LOOPING and name.count("/") == 2
    }


def test_a_change_reaches_the_stages_that_use_it_and_no_other(copy):
    before = written()
    assert {
        f"pipeline/{stage}/{row}.txt"
        for stage in ("train", "evaluate")
        for row in list_rows("smoke")
    } < set(before)
    library = copy / "lib" / "carry"
    (library / "tasks" / "subtraction.py").write_text("from carry.tasks import Task\n")
    assert not changed(before), "a new part is no one's business"

    with (library / "positions" / "randomized.py").open("a") as file:
        file.write("# a remark\n")
    randomized = [row for row in list_rows("smoke") if "randomized" in row]
    ours = {f"pipeline/{stage}/{row}.txt" for stage in ("train", "evaluate") for row in randomized}
    found = changed(before)
    assert ours <= found and not of_rows(found - ours)

    before = written()
    with (library / "plots" / "style.py").open("a") as file:
        file.write("# a remark\n")
    assert not of_rows(changed(before))

    before = written()
    with (library / "pipeline" / "site" / "style.css").open("a") as file:
        file.write("/* a remark */\n")
    assert changed(before) == {"site.txt"}

    before = written()
    with (library / "training" / "loop.py").open("a") as file:
        file.write("# a remark\n")
    assert {f"pipeline/train/{row}.txt" for row in list_rows("smoke")} < changed(before)


def test_a_setting_reaches_the_stages_of_its_row_and_those_like_it(copy, monkeypatch):
    before, known = written(), profiles.load_params()

    def after(change):
        monkeypatch.setattr(
            profiles, "load_params", lambda: profiles.merge_settings(known, {"runs": change})
        )
        return of_rows(changed(before))

    like = {"addition_abacus", "addition_abacus_looped", "addition_abacus_short"} & {
        *list_rows("smoke")
    }
    assert len(like) > 1
    found = after({"addition_abacus": {"training": {"clip": 0.5}}})
    assert {
        f"pipeline/{stage}/{row}.txt" for stage in ("train", "evaluate") for row in like
    } <= found
    assert all("abacus" in name for name in found)
    found = after({"addition_abacus": {"evaluation": {"starts": [2]}}})
    assert {f"pipeline/evaluate/{row}.txt" for row in like} <= found
    assert not any(name.startswith("pipeline/train/") for name in found)


def test_a_data_set_reaches_the_training_of_rows_that_name_it(monkeypatch):
    known = profiles.load_params()
    known["problems"]["mine"] = known["problems"]["1-3_digit"]  # which no profile makes smaller
    known["runs"]["addition_nope"]["training"] |= {"problem_set": "mine", "examples": 50}

    def after(**change):
        sets = profiles.merge_settings(known, {"problems": {"mine": change}})
        monkeypatch.setattr(profiles, "load_params", lambda: sets)
        return {row: STAGES["train"].settings(row, "smoke") for row in list_rows("smoke")}

    before = after()
    for change in ({"validation": 99}, {"test": 999}, {"mixture": {"add": 1.0}}):
        now = after(**change)
        assert [row for row in before if before[row] != now[row]] == ["addition_nope"]
    assert after(beyond=[4, 5]) == before, "what is only tested trains nothing again"


def test_saving_outputs_is_no_change(copy):
    before = written()
    path = copy / "notebooks" / "pipeline" / "train.ipynb"
    clean = runner.strip_outputs(nbformat.read(path, as_version=4))
    assert nbformat.writes(clean) != path.read_text()
    path.write_text(nbformat.writes(clean))
    assert not changed(before)


def test_every_stage_that_runs_a_notebook_depends_on_its_code():
    for name, stage in profiles.read_yaml(paths.ROOT / "dvc.yaml")["stages"].items():
        stage = stage.get("do", stage)
        commands = str(stage["cmd"])
        if "carry notebook" in commands or "carry.pipeline.site" in commands:
            by_row = next((f"/{of}" for of in ("${key}", "${item}") if f"row={of}" in commands), "")
            if "carry notebook" in commands:
                name = "${item}" if "notebook ${item}" in commands else f"pipeline/{name}"
            assert f"data/${{profile}}/code/{name}{by_row}.txt" in stage["deps"]


def test_the_pipeline_draws_the_figures_of_every_notebook_that_has_some():
    stages = profiles.read_yaml(paths.ROOT / "dvc.yaml")["stages"]
    drawn = {folder: of.source for folder, of in gallery.NOTEBOOKS.items()}
    assert stages["figures"]["foreach"] == drawn
    for source in drawn.values():
        folder = [f"data/${{profile}}/executed/{part}" for part in source.split("/")[:-1]]
        assert set(folder) <= set(stages["site"]["deps"])


def test_a_row_that_does_not_fit_is_refused_before_any_stage(monkeypatch):
    table, row = profiles.load_params(), list_rows("smoke")[0]
    table["runs"][row]["positions"] = [{"ids": "abacus", "encoding": "fire"}]
    monkeypatch.setattr(profiles, "load_params", lambda: table)
    with pytest.raises(SettingsError, match=f"runs.{row}.positions.0.encoding: Fire needs"):
        dependencies.check_rows("smoke")


@pytest.mark.parametrize("profile", profiles.find_profiles())
def test_the_rows_of_every_profile_fit(profile, monkeypatch):
    """There are hundreds, and weights that are but shapes are not to be drawn."""
    monkeypatch.setattr(Transformer, "_initialise", lambda network: None)
    dependencies.check_rows(profile)
