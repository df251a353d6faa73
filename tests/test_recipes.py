"""The extensions of CONTRIBUTING.md work where it puts them: pasted into a copy of the project.

A recipe is a fenced block after a line that ends with its place: a new file, or the last entry of a
YAML file.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from carry.config.paths import ROOT

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
EXTENSIONS = CONTRIBUTING.split("\n## Extend it\n")[1].split("\n## ")[0]
RECIPE = re.compile(r"`([\w/.]+\.(?:py|yaml))`[^`\n]*:\n\n```(?:python|yaml)\n(.*?)```", re.DOTALL)
COPIED = ["lib", "tests", "claims", "params.yaml", "pyproject.toml", "CONTRIBUTING.md"]

# What the extended project must do; it runs in one process, since imports take most of the time.
CHECKS = """
import pandas as pd
import torch
from carry import analyses, tasks
from carry.claims import load_claims
from carry.experiments import load_rows
from carry.experiments.problems import find_problem_set
from carry.experiments.resolve import load_run
from carry.evaluation import trained_models
from carry.models.system import System
from carry.positions import choose_scheme
from carry.runs import run
from carry.training.loop import Trainer

find_problem_set("complement")  # also where no row is loaded, as in a worker
for row in [row.name for row in load_rows().values() if row.study in STUDIES]:
    chosen = load_run(row)
    run.check_runs([chosen])
    training = chosen.training.model_copy(update={"steps": 20, "batch": 16, "score_problems": 16})
    trainer = Trainer(chosen.model_copy(update={"training": training}), 0, None).train()
    assert trainer.step == 20 and trainer.curve[-1]["loss"] < trainer.curve[0]["loss"] + 1
    print("trained", row)
assert choose_scheme("countdown").label == "Countdown"
assert tasks.build_task({"name": "complement"}).label == "Complement"
chosen = load_run("addition_nope").model_copy(update={"analyses": ["parameters"]})
trained_models.load_seed = lambda run, seed: System(run, seed)
(module,) = analyses.load_analyses(chosen)
assert len(analyses.analyse_seeds(module, chosen)["norms"])
assert "copying_relative_goes_far" in [claim.id for claim in load_claims()]
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Return a copy of the project with all recipes, and the new files."""
    copy, files = tmp_path_factory.mktemp("project"), []
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, copy / name)
    for place, text in RECIPE.findall(EXTENSIONS):
        path = copy / place
        if path.suffix == ".py":
            assert not path.exists(), f"{place} would be overwritten"
            path.write_text(text, encoding="utf-8")
            files.append(place)
        else:
            path.write_text(f"{path.read_text(encoding='utf-8')}\n{text}", encoding="utf-8")
    return copy, files


def run_python(copy, *words):
    """Run Python in the copy, whose library comes before the installed one."""
    environment = {**os.environ, "PYTHONPATH": str(copy / "lib"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *words], cwd=copy, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_all_kinds_of_extensions_have_a_recipe():
    places = {re.sub(r"/\w+\.py$", "", place) for place, _ in RECIPE.findall(EXTENSIONS)}
    library = ("tasks", "positions", "models/architectures", "analyses", "experiments")
    assert places == {*(f"lib/carry/{package}" for package in library), "claims/carry.yaml"}


def test_extensions_are_checked_and_train(project):
    copy, files = project
    studies = [Path(file).stem for file in files if "/experiments/" in file]
    printed = run_python(copy, "-c", f"STUDIES = {studies}\n{CHECKS}")
    assert printed.count("trained") == len(studies) == 3


def test_the_command_trains_and_scores_a_new_row(project):
    copy, _ = project
    run_python(copy, "-m", "carry", "run", "complement_relative", "--seed", "0")
    tables = {path.stem for path in (copy / "reports/results/complements").glob("*.parquet")}
    assert tables >= {"cells", "curves", "runs"}


def test_contract_tests_run_over_extensions(project):
    """The contract tests find the new files by themselves."""
    copy, _ = project
    tests = ["test_tasks.py", "test_positions.py", "test_architectures.py"]
    printed = run_python(
        copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k",
        "complement or countdown or recurrent", *(f"tests/{name}" for name in tests),
    )  # fmt: skip
    passed = re.search(r"(\d+) passed", printed)
    assert passed and int(passed[1]) >= 5, printed[-1000:]


def test_extensions_are_clean(project):
    copy, files = project
    for words in (["check"], ["format", "--check"]):
        run_python(copy, "-m", "ruff", *words, *files)
