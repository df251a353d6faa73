"""The code of a job: what it reaches, and what changes its hash."""

import shutil
import subprocess
import sys

import pytest

from carry import fingerprint
from carry.experiments.resolve import load_run

IMPORTS = """
import sys
from carry.experiments.resolve import load_run
from carry.training.loop import Trainer
run = load_run(sys.argv[1], "smoke")
run = run.model_copy(update={"training": run.training.model_copy(update={"steps": 1, "batch": 2})})
Trainer(run, 0, None).train()
print(*[name for name in sys.modules if name.split(".")[0] == "carry"])
"""


@pytest.mark.parametrize("row", ["addition_abacus_looped", "addition_relative"])
def test_training_imports_no_more_than_its_hash_counts(row):
    command = [sys.executable, "-c", IMPORTS, row]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    start = ["carry.training.loop", *load_run(row, "smoke").module_names()]
    counted = fingerprint.find_reachable_files(start)
    imported = {name for name in done.stdout.split() if not name.startswith("carry.experiments")}
    assert imported <= {*counted}


def test_only_rows_with_batched_seeds_depend_on_their_training():
    def files(row):
        start = ["carry.training.loop", *load_run(row).module_names()]
        return fingerprint.find_reachable_files(start)

    assert not any("batched" in name for name in files("addition_relative"))
    assert any("batched" in name for name in files("noisy_majority_d8_a4"))


@pytest.fixture
def library(tmp_path, monkeypatch):
    """Let hashes be of a copy of the library that a test may change."""
    shutil.copytree(fingerprint.LIBRARY, tmp_path / "lib" / "carry")
    monkeypatch.setattr(fingerprint, "LIBRARY", tmp_path / "lib" / "carry")
    return tmp_path / "lib" / "carry"


def append(path, text):
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


@pytest.mark.parametrize(
    ("file", "text", "changes"),
    [
        ("training/loop.py", "# a remark\n", False),
        ("training/loop.py", "'a remark'\n", True),
        ("training/loop.py", "ANOTHER = 1\n", True),
        ("models/attention.py", "ANOTHER = 1\n", True),
        ("experiments/run.py", "ANOTHER = 1\n", False),  # settings are in the key themselves
        ("config/settings.py", "ANOTHER = 1\n", False),
        ("jobs/pool.py", "ANOTHER = 1\n", False),
        ("plots/style.py", "ANOTHER = 1\n", False),
        ("tasks/sorting.py", "ANOTHER = 1\n", False),  # a task that the row does not have
        ("tasks/made_up.py", "from carry.tasks import Task\n", False),
    ],
)
def test_what_changes_the_hash_of_a_training(library, file, text, changes):
    modules = ["carry.training.loop", *load_run("addition_relative").module_names()]
    before = fingerprint.hash_code(modules)
    append(library / file, text)
    assert (fingerprint.hash_code(modules) != before) == changes


def test_docstrings_of_all_kinds_do_not_count():
    plain = "class A:\n    def f(self): return 1\n"
    said = "'Say.'\nclass A:\n    'Say.'\n    def f(self):\n        'Say.'\n        return 1\n"
    assert fingerprint.hash_source(plain) == fingerprint.hash_source(said)
    assert fingerprint.hash_source(plain) != fingerprint.hash_source(plain.replace("1", "2"))


def test_each_file_has_the_commit_that_last_changed_it(tmp_path):
    def git(*arguments):
        names = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        command = ["git", *names, *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def commit(**files):
        for name, text in files.items():
            (folder / name).write_text(text)
        git("add", "-A")
        git("commit", "--allow-empty", "-m", "commit")
        return git("rev-parse", "--short", "HEAD")

    folder = tmp_path / "figures"
    (folder / "work").mkdir(parents=True)
    assert fingerprint.find_last_commits(folder) == {}, "no repository"
    git("init", "--initial-branch", "main")
    assert fingerprint.find_last_commits(folder) == {}, "no commit"
    (folder / "work" / "a b").write_text("1")
    first = commit(one="1", two="1")
    second = commit(two="2")
    commit()
    found = {"work/a b": first, "one": first, "two": second}
    assert fingerprint.find_last_commits(folder) == found
    (folder / "one").write_text("2")
    (folder / "new").write_text("2")
    assert fingerprint.find_last_commits(folder) == found | {"one": f"{first}+"}
    git("checkout", "-b", "other")
    commit(one="1")
    git("checkout", "main")
    commit(two="3")
    git("merge", "--no-ff", "other")
    merged = git("rev-parse", "--short", "HEAD")
    assert fingerprint.find_last_commits(folder)["new"] == merged
