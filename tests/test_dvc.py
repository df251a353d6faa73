"""DVC as its users know it: its commands change one line, and their tables fit a screen."""

import difflib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from dvc.utils.hydra import apply_overrides
from dvc.utils.serialize import load_yaml, modify_yaml

from carry.config.paths import ROOT
from carry.pages import readme

CHANGES = [
    "++runs.addition_coupled.training.steps=500",
    "++variants.addition_relative.base.training.steps=900",
    "++problems.generalize_to_longer.test=500",
]


def changed_lines(change, folder):
    """Return the lines of params.yaml that `dvc exp run -S CHANGE` removes and adds."""
    path = Path(shutil.copy(ROOT / "params.yaml", folder))
    before = path.read_text().splitlines()
    apply_overrides(path, [change])
    after = path.read_text().splitlines()
    lines = difflib.unified_diff(before, after, n=0, lineterm="")
    return [line for line in lines if line[0] in "+-" and line[:3] not in ("+++", "---")]


@pytest.mark.parametrize("change", CHANGES)
def test_params_one_line(change, tmp_path):
    """params.yaml has the style that DVC writes, so `dvc exp run -S` changes one line.

    DVC writes lists of a block mapping as blocks, loses a comment that follows such a list (so a
    row that ends in one comes before a row, not before a comment), and wraps at 80 columns.
    """
    removed, added = changed_lines(change, tmp_path)
    name, value = change.split("=")
    setting = name.rpartition(".")[2]
    assert f"{setting}: " in removed
    assert f"{setting}: {value}" in added


def test_lock_is_written_by_dvc(tmp_path):
    """DVC writes dvc.lock as it is, so that a stage that runs changes its own lines only."""
    path = Path(shutil.copy(ROOT / "dvc.lock", tmp_path))
    with modify_yaml(path):
        pass
    assert path.read_bytes() == (ROOT / "dvc.lock").read_bytes()


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """Go to a repository with two commits, whose curves differ, and with what DVC shows of them."""

    def git(*words):
        name = ("-c", "user.name=test", "-c", "user.email=test@localhost")
        subprocess.run(["git", *name, *words], cwd=tmp_path, check=True, capture_output=True)

    for folder in (".dvc/plots", "reports/figures/overview"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    for file in (".dvc/config", "reports/dvc.yaml"):
        shutil.copy(ROOT / file, tmp_path / file)
    numbers = json.loads((ROOT / "reports" / "numbers.json").read_text(encoding="utf-8"))
    for name, metrics in readme_numbers.select_metrics(numbers["rows"], []).items():
        path = tmp_path / "reports" / "metrics" / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(metrics))
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    table = tmp_path / "reports" / "figures" / "overview" / "accuracy.csv"
    table.write_text(table.read_text().replace(",200,200,1,", ",200,100,0.5,"))
    git("commit", "-qam", "second")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DVC_SITE_CACHE_DIR", str(tmp_path / ".site"))


def run_dvc(*words):
    """Return what a command of DVC prints."""
    command = [sys.executable, "-m", "dvc", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_metrics_have_few_columns(clone):
    lines = run_dvc("metrics", "show", "--md").strip().splitlines()
    files = sorted(path.name for path in Path("reports/metrics").glob("*.json"))
    assert len(lines) == 2 + len(files)
    assert lines[0].count("|") - 1 <= 12  # the path, seven regions and four verdicts
    assert f"| reports/metrics/{files[0]} " in lines[2]


def test_plots_compare_commits(clone):
    """Each plot has the data or the pictures of both commits."""
    declared = load_yaml("reports/dvc.yaml")["plots"]
    drawn = json.loads(run_dvc("plots", "diff", "HEAD~1", "HEAD", "--json"))
    assert "errors" not in drawn
    assert len(drawn["data"]) == len(declared)
    for entries in drawn["data"].values():
        assert {name for entry in entries for name in entry["revisions"]} == {"HEAD~1", "HEAD"}
    (entry,) = drawn["data"]["accuracy by length"]
    values = entry["content"]["data"]["values"]
    assert {"0.5", "1"} <= {value["accuracy"] for value in values if value["digits"] == "1"}
