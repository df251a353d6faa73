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
from carry.pages import dependencies, runner
from carry.pipeline.stages import STAGES

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


@pytest.mark.parametrize("row", ["addition_abacus_looped", "addition_relative"])
def test_training_imports_just_what_its_fingerprint_names(row):
    command = [sys.executable, "-c", IMPORTS, row]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    start = ["carry.training.seeds", *load_run(row, "smoke").module_names()]
    assert sorted(done.stdout.split()) == list(fingerprint.find_reachable_files(start))


@pytest.mark.parametrize("module", ["carry.training.seeds", "carry.evaluation.trained_models"])
def test_only_rows_with_batched_seeds_depend_on_their_training(module):
    def files(row):
        return fingerprint.find_reachable_files([module, *load_run(row, "full").module_names()])

    assert not any("batched" in name for name in files("addition_relative"))
    batched = {name for name in files("noisy_majority_d8_a4") if "training.batched" in name}
    names = ("count_pass", "groups", "head_halving", "network", "trainer")
    assert batched == {"carry.training.batched", *(f"carry.training.batched.{n}" for n in names)}


LOOPING = {stage.notebook for stage in STAGES.values() if stage.parameter}
DVC = paths.ROOT / "dvc.yaml"
STUDY, OTHER = "addition_schemes", "multi_operand_schemes"  # of the profile smoke


@pytest.fixture
def copy(tmp_path, monkeypatch):
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
    """Return the files that changed since `before`, and bring `before` up to date."""
    after = written()
    assert after.keys() == before.keys()
    names = {name for name in before if before[name] != after[name]}
    before.update(after)
    return names


def of_studies(names):
    """Return those of the stages that run for each study or set."""
    return {
        name for name in names if "/".join(name.split("/")[:2]) in LOOPING and name.count("/") == 2
    }


def append_remark(path):
    with path.open("a", encoding="utf-8") as file:
        file.write("# a remark\n")


def save_without_outputs(path):
    clean = nbformat.writes(runner.strip_outputs(nbformat.read(path, as_version=4)))
    assert clean != path.read_text()
    path.write_text(clean)


def test_a_change_reaches_the_stages_that_use_it_and_no_other(copy):
    before = written()
    studies = STAGES["train"].items("smoke")
    stages = ("train", "evaluate")
    assert {f"pipeline/{stage}/{study}.txt" for stage in stages for study in studies} < {*before}
    assert {"pipeline/problems.txt", "pipeline/claims.txt", "figures/overview.txt"} < {*before}
    library = copy / "lib" / "carry"
    (library / "tasks" / "made_up.py").write_text("from carry.tasks import Task\n")
    save_without_outputs(copy / "notebooks" / "pipeline" / "train.ipynb")
    assert not changed(before), "neither a new part nor outputs reach a stage"

    append_remark(library / "positions" / "coupled.py")
    found = changed(before)
    assert {f"pipeline/{stage}/{OTHER}.txt" for stage in stages} <= found
    assert not {f"pipeline/{stage}/{STUDY}.txt" for stage in stages} & found

    append_remark(library / "plots" / "style.py")
    assert not of_studies(changed(before))

    with (library / "pipeline" / "site" / "style.css").open("a") as file:
        file.write("/* a remark */\n")
    assert changed(before) == {"site.txt"}

    append_remark(library / "training" / "loop.py")
    assert {f"pipeline/train/{study}.txt" for study in studies} < changed(before)


def test_a_setting_reaches_the_stages_of_its_study_and_of_rows_like_it(copy, monkeypatch):
    before, known = written(), profiles.load_params()

    def after(change):
        monkeypatch.setattr(
            profiles, "load_params", lambda: profiles.merge_settings(known, {"runs": change})
        )
        return of_studies(changed({**before}))

    found = after({"addition_abacus": {"training": {"clip": 0.5}}})
    assert {f"pipeline/{stage}/{STUDY}.txt" for stage in ("train", "evaluate")} <= found
    assert all(name.split("/")[2] in (f"{STUDY}.txt", "addition_relative.txt") for name in found)
    found = after({"addition_abacus": {"evaluation": {"starts": [2]}}})
    assert f"pipeline/evaluate/{STUDY}.txt" in found
    assert not any(name.startswith("pipeline/train/") for name in found)


def test_a_data_set_reaches_the_training_of_rows_that_name_it(monkeypatch):
    known = profiles.load_params()
    known["problems"]["mine"] = known["problems"]["1-3_digit"]  # which no profile makes smaller
    known["runs"]["addition_nope"]["training"] |= {"problem_set": "mine", "examples": 50}
    train = STAGES["train"]

    def after(**change):
        sets = profiles.merge_settings(known, {"problems": {"mine": change}})
        monkeypatch.setattr(profiles, "load_params", lambda: sets)
        return {study: train.settings(study, "smoke") for study in train.items("smoke")}

    before = after()
    for change in ({"validation": 99}, {"test": 999}, {"mixture": {"add": 1.0}}):
        now = after(**change)
        assert [study for study in before if before[study] != now[study]] == [STUDY]
    assert after(beyond=[4, 5]) == before, "what is only tested trains nothing again"


def test_versions_are_written_for_the_stages_that_depend_on_them(copy):
    text = written()["versions.txt"]
    assert [line.split()[0] for line in text.splitlines()] == ["python", "torch", "numpy"]
    stages = profiles.read_yaml(DVC)["stages"]
    for name in ("train", "evaluate", "variants"):
        assert "data/${profile}/code/versions.txt" in stages[name]["do"]["deps"]


def test_the_pipeline_depends_on_the_code_of_figures_models_and_site():
    """For the other stages, see test_pipeline.py."""
    stages = profiles.read_yaml(DVC)["stages"]
    for name, file in {
        "figures": "figures/${item}",
        "models": "models/${key}",
        "site": "site",
    }.items():
        deps = stages[name].get("do", stages[name])["deps"]
        assert f"data/${{profile}}/code/{file}.txt" in deps


def test_a_row_that_does_not_fit_is_refused_before_any_stage(monkeypatch):
    table, row = profiles.load_params(), list_rows("smoke")[0]
    table["runs"][row]["positions"] = [{"ids": "abacus", "encoding": "fire"}]
    monkeypatch.setattr(profiles, "load_params", lambda: table)
    with pytest.raises(SettingsError, match=f"runs.{row}.positions.0.encoding: Fire needs"):
        dependencies.check_rows("smoke")


@pytest.mark.parametrize("profile", profiles.find_profiles())
def test_the_rows_of_every_profile_fit(profile, monkeypatch):
    """There are hundreds, and weights that are but shapes are not to be drawn."""
    monkeypatch.setattr(Transformer, "_initialise", lambda network, std: None)
    dependencies.check_rows(profile)
