"""DVC as its users know it: its commands change one line, and their tables fit a screen."""

import difflib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from dvc.repo import Repo
from dvc.utils.hydra import apply_overrides
from dvc.utils.serialize import load_yaml, modify_yaml

from carry.config.paths import ROOT
from carry.pages import readme

CHANGES = [
    "scale=smoke",
    "seeds=3",
    "train.addition_schemes=all",
    "++override.addition_nope.training.steps=500",
    "++rows.made_up.training.steps=500",
]


@pytest.mark.parametrize("change", CHANGES)
def test_an_experiment_changes_its_setting_alone(change, tmp_path):
    """params.yaml has the style that DVC writes, so `dvc exp run -S` changes few lines."""
    before = load_yaml(ROOT / "params.yaml")
    path = Path(shutil.copy(ROOT / "params.yaml", tmp_path))
    apply_overrides(path, [change])
    after, (name, value) = load_yaml(path), change.split("=")
    section = name.lstrip("+").partition(".")[0]
    assert str(after[section]) != str(before[section]) and value in str(after[section])
    assert {key: after[key] for key in after if key != section} == {
        key: before[key] for key in before if key != section
    }
    old, new = ((each / "params.yaml").read_text().splitlines() for each in (ROOT, tmp_path))
    lines = difflib.unified_diff(old, new, n=0, lineterm="")
    assert sum(line[0] in "+-" for line in lines) <= 15
    comments = [[line for line in text if line.startswith("#")] for text in (old, new)]
    assert comments[0] == comments[1] == new[: len(comments[0])], "comments keep their place"


def test_lock_is_written_by_dvc(tmp_path):
    """DVC writes dvc.lock as it is, so that a stage that runs changes its own lines only."""
    path = Path(shutil.copy(ROOT / "dvc.lock", tmp_path))
    with modify_yaml(path):
        pass
    assert path.read_bytes() == (ROOT / "dvc.lock").read_bytes()


@pytest.mark.skipif("CI" not in os.environ, reason="who changes code runs `dvc repro` at the end")
def test_the_lock_in_git_is_that_of_the_commit():
    """In a fresh clone only what git does not have is missing: the outputs in data/."""
    found = json.loads(run_dvc("status", "--json", cwd=ROOT))
    changed = [
        f"{stage}: {name} is {state}"
        for stage, parts in found.items()
        for part in parts
        for kind in (part.items() if isinstance(part, dict) else [(part, {part: "changed"})])
        for name, state in kind[1].items()
        if not name.startswith("data/") and name != "reports/site"
    ]
    assert not changed, "run `dvc repro`, and commit dvc.lock and reports/ with the change"


def test_scores_are_metrics_before_claims_are_judged():
    """`dvc repro evaluate && dvc metrics diff` shows them."""
    stages = load_yaml(ROOT / "dvc.yaml")["stages"]
    outs = [next(iter(out)) for out in stages["evaluate"]["outs"] if isinstance(out, dict)]
    assert "reports/metrics" in outs and load_yaml(ROOT / "reports" / "dvc.yaml")["metrics"]
    assert not {"reports/claims.json", "claims"} & {*stages["evaluate"]["deps"]}


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """Go to a repository with two commits, whose figures differ, with what DVC shows of them."""

    def git(*words):
        name = ("-c", "user.name=test", "-c", "user.email=test@localhost")
        subprocess.run(["git", *name, *words], cwd=tmp_path, check=True, capture_output=True)

    figures = tmp_path / "reports" / "figures" / "overview"
    shutil.copytree(ROOT / "reports" / "figures" / "overview", figures)
    (tmp_path / ".dvc").mkdir()
    for file in (".dvc/config", "reports/dvc.yaml"):
        shutil.copy(ROOT / file, tmp_path / file)
    numbers = json.loads((ROOT / "reports" / "numbers.json").read_text(encoding="utf-8"))
    for name, metrics in readme.select_metrics(numbers["rows"]).items():
        path = tmp_path / "reports" / "metrics" / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(metrics))
    (tmp_path / "reports" / "seen.json").write_text(json.dumps(dict.fromkeys(readme.METRICS, 9)))
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    for path in figures.glob("*.svg"):
        path.write_text("<svg/>")
    git("commit", "-qam", "second")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DVC_SITE_CACHE_DIR", str(tmp_path / ".site"))


def run_dvc(*words, cwd=None):
    """Return what a command of DVC prints."""
    command = [sys.executable, "-m", "dvc", *words]
    return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True).stdout


def test_metrics_have_few_columns(clone):
    lines = run_dvc("metrics", "show", "--md").strip().splitlines()
    files = sorted(path.name for path in Path("reports/metrics").glob("*.json"))
    assert len(lines) == 2 + len(files) + 1
    assert lines[0].count("|") - 1 <= 12  # the path, seven regions and four answers
    assert f"| reports/metrics/{files[0]} " in lines[2]


def test_plots_compare_commits(clone):
    """Each has the pictures of both commits."""
    drawn = json.loads(run_dvc("plots", "diff", "HEAD~1", "HEAD", "--json"))
    assert "errors" not in drawn and len(drawn["data"]) == 2
    for entries in drawn["data"].values():
        assert {name for entry in entries for name in entry["revisions"]} == {"HEAD~1", "HEAD"}


def test_every_setting_of_params_starts_the_first_stage(tmp_path):
    """A misspelt `-S +sclae=smoke` is refused by the stage `problems`, which all others follow."""
    for file in ("dvc.yaml", "params.yaml"):
        shutil.copy(ROOT / file, tmp_path)
    apply_overrides(tmp_path / "params.yaml", ["+sclae=smoke"])
    with Repo.init(tmp_path, no_scm=True) as repo:
        (params,) = repo.stage.load_one(str(tmp_path / "dvc.yaml"), "problems").params
        assert params.read_params()["sclae"] == "smoke"
