"""Where the project lies: another clone, a link, a read-only disk, an odd path, a small machine."""

import functools
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dask.system
import matplotlib.pyplot as plt
import pandas as pd
import pytest

from carry import fingerprint, processes
from carry.config import paths, tree
from carry.config.settings import SettingsError
from carry.jobs import Job, run_jobs, store
from carry.plots.notebook import Notebook
from carry.runs import notebooks, run

ODD = "a b [x] #1 50% é"  # a folder name that shells, globs and addresses could misread


@pytest.fixture
def clone(tmp_path):
    """Return a second tree, whose params.yaml has other settings."""
    folder = tmp_path / ODD
    shutil.copytree(
        paths.ROOT / "lib" / "carry",
        folder / "lib" / "carry",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    (folder / "params.yaml").write_text("override: {addition_nope: {training: {steps: 123}}}")
    return folder


def call(*command, cwd, **variables):
    """Run Python with the package of this tree."""
    given = {**os.environ, "PYTHONPATH": str(paths.ROOT / "lib"), **variables}
    return subprocess.run([sys.executable, *command], cwd=cwd, env=given, capture_output=True,
                          text=True)  # fmt: skip


def write_everywhere(*files):
    for path in files:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")


def test_the_root_is_that_of_the_package_and_another_clone_is_refused(tmp_path):
    own, other, foreign = (tmp_path / name for name in ("own", "own/copy", "foreign"))
    place = own / "lib" / "carry" / "config" / "tree.py"
    write_everywhere(place, own / "params.yaml", foreign / "params.yaml", own / "notebooks" / "x")
    write_everywhere(other / "params.yaml", other / "lib" / "carry" / "cli.py", foreign / "a" / "b")
    for start in (own, own / "notebooks", foreign, foreign / "a", tmp_path):
        assert tree.find_root(place, start) == own
    for start in (other, other / "lib"):
        with pytest.raises(tree.OtherTreeError) as error:
            tree.find_root(place, start)
        assert error.value.here == other
        for part in (str(own), f"PYTHONPATH={other / 'lib'}", "`make setup`"):
            assert part in str(error.value)
    installed = tmp_path / "lib" / "python3" / "site-packages" / "carry" / "config" / "tree.py"
    assert tree.find_root(installed, foreign / "a") == foreign / "a", "another project"
    assert tree.find_root(installed, other / "lib") == other
    assert tree.find_root(installed, tmp_path) == tmp_path


def test_a_command_runs_with_the_package_and_the_settings_of_the_clone_it_is_called_in(clone):
    """As DVC calls it in the copies of `dvc exp run --temp` and `--queue`."""
    source = clone / "lib" / "carry" / "experiments" / "mcleish2024.py"
    source.write_text(source.read_text().replace('"addition_nope"', '"addition_renamed"'))
    (clone / "params.yaml").write_text("override: {addition_renamed: {training: {steps: 123}}}")
    done = call("-m", "carry", "show", "addition_renamed", "--scale", "smoke", cwd=clone / "lib")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^training\.steps +123$", done.stdout, re.MULTILINE)
    assert {path.name for path in clone.iterdir()} == {"lib", "params.yaml"}, "nothing is written"


def test_an_import_in_another_clone_is_refused(clone):
    done = call("-c", "import carry.config.paths", cwd=clone)
    last = done.stderr.strip().splitlines()[-1]
    assert str(paths.ROOT) in last and str(clone) in last and "expected PYTHONPATH=" in last


def test_a_python_that_ignores_the_variable_does_not_start_again_and_again(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "lib"))
    with pytest.raises(SystemExit, match="^carry: the package is that of "):
        tree.run_there(tree.OtherTreeError(paths.ROOT, tmp_path), ["rows"])


def test_the_commit_is_that_of_the_project_alone(monkeypatch, tmp_path):
    """An archive that was unpacked inside another repository has none."""
    name = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    for words in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "other")):
        subprocess.run(["git", *name, *words], cwd=tmp_path, check=True)
    (tmp_path / "archive" / "lib").mkdir(parents=True)
    (tmp_path / "lib").mkdir()
    for folder, pattern in ((tmp_path / "archive", "unknown"), (tmp_path, "[0-9a-f]{12}")):
        monkeypatch.setattr(fingerprint, "LIBRARY", folder / "lib" / "carry")
        assert re.fullmatch(pattern, fingerprint.find_commit.__wrapped__())


def note(report, folder, text):
    (folder / "text.txt").write_text(text)


def test_data_may_be_on_another_disk(monkeypatch, tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / ODD).mkdir()
    (tmp_path / ODD / "data").symlink_to(tmp_path / "disk")
    monkeypatch.setattr(paths, "ROOT", tmp_path / ODD)
    monkeypatch.setattr(paths, "STORE", tmp_path / ODD / "data" / "store")
    (place,) = run_jobs([Job("a", "texts", note, ("a",))], "texts")
    assert paths.display_path(place) == f"data/store/texts/{place.name}"
    assert [*(tmp_path / "disk" / "store" / "texts").glob("*/text.txt")]
    (tmp_path / ODD / ".git").mkdir()  # only then DVC would fail, after the work
    with pytest.raises(SettingsError, match="^data: a link leads out of the git repository"):
        notebooks.run_notebook("pipeline/problems")


# ---- Read-only -----------------------------------------------------------------------------------

READ_ONLY = """
import os, sys
from pathlib import Path

root, scratch = sys.argv[1:]
access = os.access
os.access = lambda path, mode, **given: not mode & os.W_OK and access(path, mode, **given)

def refuse(event, given):
    path = given[0] if given and isinstance(given[0], (str, os.PathLike)) else ""
    changes = event in ("os.mkdir", "os.rename", "os.remove", "os.rmdir")
    if event == "open" and given[2]:
        changes = given[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if changes and Path(os.path.abspath(path)).is_relative_to(root):
        raise PermissionError(13, f"{event} in a read-only project", str(path))

sys.addaudithook(refuse)
from carry import cli
from carry.jobs import pool
import made_up_project

pool.execute = made_up_project.run_here
for words in (["rows"], ["show", "addition_nope"], ["ask", "653+49"],
              ["certify", "parity_relative_scratchpad"], ["run", "addition_nope"]):
    try:
        cli.main(words)
    except SystemExit as end:
        print(words[0], "ends with", end.code)
"""


def test_a_read_only_project_is_read(tmp_path):
    """Certificates are verified in a temporary folder; what would change results is refused."""
    done = call("-c", READ_ONLY, str(paths.ROOT), str(tmp_path), cwd=tmp_path, TMPDIR=str(tmp_path),
                PYTHONDONTWRITEBYTECODE="1", CARRY_PROGRESS="off",
                PYTHONPATH=f"{paths.ROOT / 'lib'}{os.pathsep}{Path(__file__).parent}")  # fmt: skip
    ends = dict(re.findall("^(.+) ends with (.+)$", done.stdout, re.MULTILINE))
    assert ends == {"rows": "0", "show": "0", "ask": "0", "certify": "0", "run": "2"}, done.stderr
    assert done.stderr.strip().endswith("is read-only; expected a writable clone of it")
    assert "exact at every length" in done.stdout and [*tmp_path.glob("carry-*/data/store")]


def test_a_notebook_in_a_read_only_project_saves_its_figures_elsewhere(monkeypatch):
    folder = Notebook("overview").folder
    assert folder == paths.figures_folder("overview")
    monkeypatch.setattr(os, "access", lambda *_: False)
    elsewhere = Notebook("overview").folder
    assert elsewhere.is_relative_to(tempfile.gettempdir())
    assert elsewhere.parts[-2:] == folder.parts[-2:]
    shown = []
    monkeypatch.setattr("carry.plots.notebook.display", lambda *of, **_: shown.append(of[-1].data))
    Notebook("overview").show(plt.figure(), "drawn", pd.DataFrame(), "A title", "A caption.")
    assert shown[0].endswith("`git log -1 reports/figures/overview/drawn.svg` has its commit.")
    for refuses in (lambda: run.run_rows(["addition_nope"]), lambda: notebooks.run_notebook("x")):
        with pytest.raises(SettingsError, match="read-only; expected a writable clone"):
            refuses()


# ---- Text ----------------------------------------------------------------------------------------


def test_text_has_the_same_bytes_whatever_git_converts(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    files = [".gitattributes", "dvc.yaml", "Makefile", "tests/smoke.sh", "notebooks/tour.ipynb",
             "lib/carry/cli.py", "reports/results/parity/runs.parquet",
             "reports/models/addition_relative/seed_0.safetensors"]  # fmt: skip
    for name in files:
        (first / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(paths.ROOT / name, first / name)
    name = ("-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "core.autocrlf=true")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "first")):
        subprocess.run(["git", *name, *words], cwd=first, check=True, capture_output=True)
    subprocess.run(["git", *name, "clone", "-q", first, second], check=True)
    for file in files:
        assert (second / file).read_bytes() == (paths.ROOT / file).read_bytes(), file


# ---- Two at once ---------------------------------------------------------------------------------


def test_names_with_dots_have_locks_of_their_own(tmp_path):
    with processes.hold_lock(tmp_path / "a.b", "b"), processes.hold_lock(tmp_path / "a.c", "c"):
        assert {path.suffix for path in tmp_path.iterdir()} == {".lock", ".owner"}


def test_a_second_process_draws_no_figures_of_the_same_work(monkeypatch, tmp_path):
    monkeypatch.setattr(notebooks, "LOCKS", tmp_path / "notebooks")
    by = rf"^jobs: process {os.getpid()} on \S+ runs "
    with (
        processes.hold_lock(tmp_path / "notebooks" / "figures_overview", "carry figures overview"),
        pytest.raises(SettingsError, match=by + "'carry figures overview' already; expected it to"),
    ):
        notebooks.draw_figures("overview")
    with (
        processes.hold_lock(tmp_path / "notebooks" / "pipeline_train", "pipeline/train"),
        pytest.raises(SettingsError, match=by + "'pipeline/train' already"),
    ):
        notebooks.run_notebook("pipeline/train")


@pytest.fixture
def kept(monkeypatch, tmp_path):
    """Return the folder of a result in data/trained, which the store does not have."""
    monkeypatch.setattr(paths, "STORE", tmp_path / "store")
    monkeypatch.setattr(paths, "TRAINED", tmp_path / "trained")
    (place,) = run_jobs([Job("a", "train", note, ("a",))], "texts")
    (paths.TRAINED / "row").mkdir(parents=True)
    return place.rename(paths.TRAINED / "row" / place.name)


def test_a_restored_result_is_whole_or_absent(monkeypatch, kept):
    """After a kill, no half of a copy counts as a result."""
    place = paths.STORE / "train" / kept.name
    copy = shutil.copyfile

    def stop(source, target):
        if Path(source).name == "done.json":
            raise KeyboardInterrupt
        copy(source, target)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(shutil, "copyfile", stop)
        store.find_fault(place)
    assert [path.name for path in place.iterdir()] == ["text.txt"]
    assert store.find_fault(place) == "" and (place / "text.txt").read_text() == "a"


def test_several_processes_may_restore_a_result_at_once(kept):
    """As the notebooks of a work do, after `dvc pull`."""
    place = paths.STORE / "train" / kept.name
    barrier = threading.Barrier(8)

    def restore(_):
        barrier.wait()
        return store.find_fault(place)

    for _ in range(20):
        with ThreadPoolExecutor(8) as pool:
            assert [*pool.map(restore, range(8))] == [""] * 8
        assert {path.name for path in place.iterdir()} == {"text.txt", "done.json"}
        shutil.rmtree(place)


@pytest.mark.parametrize("name", ["text.txt", "done.json"])
def test_a_damaged_copy_does_not_end_a_training(kept, name):
    """It goes on from its checkpoints."""
    (kept / name).write_text("{")
    place = paths.STORE / "train" / kept.name
    paths.write_file(place / store.CHECKPOINTS / "seed_0", "half")
    assert store.find_fault(place) == store.MISSING
    assert (place / store.CHECKPOINTS / "seed_0").exists()


# ---- The machine ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("quota", "cores"), [("200000 100000", 2), ("50000 100000", 1),
                                              ("max 100000", 64)])  # fmt: skip
def test_the_quota_of_a_container_counts(monkeypatch, tmp_path, quota, cores):
    """64 cores are seen, and the group of the process may use so many."""
    files = {"/proc/self/cgroup": "0::/pod/job\n", "/sys/fs/cgroup/pod/job/cpu.max": quota}
    for at, (name, text) in enumerate(files.items()):
        (tmp_path / str(at)).write_text(text)
        files[name] = tmp_path / str(at)
    monkeypatch.setattr(dask.system, "open", lambda name: files[name].open(), raising=False)
    monkeypatch.setattr(dask.system, "psutil", None)
    monkeypatch.setattr(dask.system, "LINUX", True)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64), raising=False)
    monkeypatch.setattr(os, "process_cpu_count", lambda: 64, raising=False)
    assert processes.count_cores() == cores


def test_more_files_may_be_open_than_macos_allows_at_first(monkeypatch):
    set_to = []
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: set_to.append(limits))
    allow = functools.partial(monkeypatch.setattr, resource, "getrlimit")
    allow(lambda _: (256, resource.RLIM_INFINITY))
    processes.allow_open_files(200)
    processes.allow_open_files(1000)
    assert set_to == [(1000, resource.RLIM_INFINITY)]
    allow(lambda _: (256, 512))
    with pytest.raises(SettingsError, match="^ulimit -n: 512 open files do not suffice; exp"):
        processes.allow_open_files(1000)


LINUX_ONLY = {
    "Makefile": r"--output-sync|\.SHELLFLAGS|\bexpand\b|\bsed\b.*\\t|\.ONESHELL",
    "tests/smoke.sh": r"sha256sum|readlink -f|mapfile|readarray|declare -A|\$\{\w+[,^]|grep -P"
    r"|sed -i|date -d|tar --|stat -c|cp -a|xargs -r|find .*-printf",
}


@pytest.mark.parametrize("file", LINUX_ONLY)
def test_scripts_run_with_make_3_81_bash_3_2_and_bsd_tools(file):
    text = (paths.ROOT / file).read_text(encoding="utf-8")
    assert not re.findall(LINUX_ONLY[file], text)
