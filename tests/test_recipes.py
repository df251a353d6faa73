"""The extensions of CONTRIBUTING.md work where it puts them: pasted into a copy of the project.

A recipe is a fenced block after a line that ends with its place: a new file (`lib/...py`), or an
entry of a YAML file, merged below the same top-level key.
"""

import os
import re
import shutil
import subprocess
import sys

import pytest
import yaml

from carry.config.paths import ROOT

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
EXTENSIONS = CONTRIBUTING.split("\n## Extend it\n")[1].split("\n## ")[0]
RECIPE = re.compile(r"`([\w/.]+\.(?:py|yaml))`[^`\n]*:\n\n```(?:python|yaml)\n(.*?)```", re.DOTALL)
COPIED = ["lib", "tests", "claims", "profiles", "params.yaml", "pyproject.toml"]

# What the extended project must do; it runs in one process, since imports take most of the time.
CHECKS = """
import pandas as pd
import torch
from carry import analyses, tasks
from carry.claims import load_claims
from carry.config.run_settings import load_run
from carry.evaluation import trained_models
from carry.models.system import System
from carry.pages import dependencies
from carry.positions import choose_scheme
from carry.training.loop import Trainer
from carry.variants import list_variants

dependencies.check_rows("cpu")
for row in ROWS:
    run = load_run(row, "cpu")
    training = run.training.model_copy(update={"steps": 20, "batch": 16, "score_problems": 16})
    trainer = Trainer(run.model_copy(update={"training": training}), 0, None).train()
    assert trainer.step == 20 and trainer.curve[-1]["loss"] < trainer.curve[0]["loss"] + 1
    print("trained", row)
assert choose_scheme("countdown").label == "Countdown"
assert tasks.build_task({"name": "complement"}).label == "Complement"
system = System(load_run("addition_relative", "cpu"))
trained_models.load_trained = lambda profile, row, seed=0: system
(module,) = analyses.load_analyses("addition_nope", "cpu")
tables = module.tables("addition_nope", "cpu", analyses.ignore)
analyses.check_columns(tables, module.COLUMNS, module.__name__)
assert [variant.name for variant in list_variants("no_window", "cpu")] == ["row", "none"]
assert "copying_relative_goes_far" in [claim.id for claim in load_claims()]
"""


def merge_entries(text, entries):
    """Return YAML text with entries inserted below their top-level keys, as a user would do."""
    for key, body in re.findall(r"^(\w+):\n((?:  .*\n)+)", entries, re.MULTILINE):
        text = re.sub(rf"^{key}: {{}}\n", f"{key}:\n", text, flags=re.MULTILINE)
        section = re.search(rf"^{key}:.*\n(?:[ #-].*\n)*", text, re.MULTILINE)
        first, rest = body.split("\n", 1)
        old = re.search(rf"^{first}\n", section[0], re.MULTILINE)  # such as a study with analyses
        start = re.match(r".*\n", section[0]) if old is None else old
        at = section.start() + start.end()
        text = text[:at] + (body if old is None else rest) + text[at:]
    return text


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Return a copy of the project with all recipes, and the names of new rows."""
    copy = tmp_path_factory.mktemp("project")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, copy / name)
    shutil.copytree(ROOT / "notebooks" / "pipeline", copy / "notebooks" / "pipeline")
    rows, files = [], []
    for place, text in RECIPE.findall(EXTENSIONS):
        path = copy / place
        if path.suffix == ".py":
            assert not path.exists(), f"{place} would be overwritten"
            path.write_text(text, encoding="utf-8")
            files.append(place)
        else:
            merged = merge_entries(path.read_text(encoding="utf-8"), text)
            path.write_text(merged, encoding="utf-8")
            rows += yaml.safe_load(text).get("runs", {})
    return copy, rows, files


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
    library = ("tasks", "positions", "models/architectures", "analyses")
    assert places == {
        *(f"lib/carry/{package}" for package in library),
        "params.yaml",
        "profiles/cpu/profile.yaml",
        "claims/carry.yaml",
    }


def test_extensions_are_checked_and_train(project):
    copy, rows, _ = project
    assert len(rows) == 3
    printed = run_python(copy, "-c", f"ROWS = {rows}\n{CHECKS}")
    assert printed.count("trained") == len(rows)


def test_contract_tests_run_over_extensions(project):
    """The contract tests find the new files by themselves."""
    copy, _, _ = project
    tests = ["test_tasks.py", "test_positions.py", "test_architectures.py"]
    printed = run_python(
        copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k",
        "complement or countdown or recurrent", *(f"tests/{name}" for name in tests),
    )  # fmt: skip
    passed = re.search(r"(\d+) passed", printed)
    assert passed and int(passed[1]) >= 5, printed[-1000:]


def test_extensions_are_clean(project):
    copy, _, files = project
    for words in (["check"], ["format", "--check"]):
        run_python(copy, "-m", "ruff", *words, *files)
