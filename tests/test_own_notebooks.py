"""Notebooks of users change nothing of the project, and a saved notebook only what is new in it."""

import json
import os
import re
import shutil
import subprocess
import sys

import nbclient
import nbformat
import pytest
from dvc.fs import LocalFileSystem
from dvc.ignore import DvcIgnorePatterns
from nbconvert import ScriptExporter

from carry.config.notebooks import clean_file, find_notebooks
from carry.config.paths import ROOT
from carry.runs import notebooks as runner

OWN = ["how_far-Copy1", "how_far copy", "Untitled", "Untitled1", "scratch"]


def run(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout


def test_own_notebooks_and_copies_are_not_listed(tmp_path):
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    listed = list(find_notebooks(tmp_path))
    empty = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("import carry")])
    for folder in ("", "mcleish2024", "pipeline", "mine"):
        (tmp_path / "notebooks" / folder).mkdir(exist_ok=True)
        for name in OWN:
            nbformat.write(empty, tmp_path / "notebooks" / folder / f"{name}.ipynb")
    for name in listed:
        path = tmp_path / "notebooks" / f"{name}.ipynb"
        shutil.copy(path, path.with_stem(f"{path.stem}-Copy1"))
    assert list(find_notebooks(tmp_path)) == listed


def test_a_notebook_that_says_its_name_is_listed(tmp_path):
    """As CONTRIBUTING.md has it, in any way of writing."""
    for name, line in {"a": 'plots.open_notebook("w/a")', "b": "x = open_notebook('w/b')"}.items():
        path = tmp_path / "notebooks" / "w" / f"{name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        cells = [nbformat.v4.new_code_cell(line)]
        nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
        assert name == "b" or list(find_notebooks(tmp_path)) == ["w/a"]
    assert list(find_notebooks(tmp_path)) == ["w/a", "w/b"]


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs git, which says what is committed")
def test_every_notebook_in_git_says_its_name():
    committed = run(["git", "ls-files", "notebooks/*.ipynb"], ROOT).split()
    listed = {path.relative_to(ROOT).as_posix() for path in find_notebooks().values()}
    assert {name for name in committed if (ROOT / name).exists()} <= listed, "open_notebook(NAME)"


def test_dvc_sees_the_notebooks_of_the_project_alone():
    ignore = DvcIgnorePatterns.from_file(
        str(ROOT / ".dvcignore"), LocalFileSystem(), ".dvcignore"
    ).matches
    for path in find_notebooks().values():
        assert not ignore(str(path.parent), path.name), "its name has small letters"
    folder = str(ROOT / "notebooks" / "mcleish2024")
    for name in [f"{name}.ipynb" for name in OWN if name != "scratch"] + ["sums.csv", "plot.png"]:
        assert ignore(folder, name), name


@pytest.mark.parametrize("name", find_notebooks())
def test_notebooks_have_the_form_of_git(name):
    content = find_notebooks()[name].read_bytes()
    assert clean_file(content) == content, "run `make notebooks`"


def test_a_picture_in_a_text_and_the_order_of_cells_are_kept():
    picture = {"a.png": {"image/png": "aGVsbG8="}}
    cell = nbformat.v4.new_markdown_cell("![](attachment:a.png)", attachments=picture)
    text = nbformat.writes(nbformat.v4.new_notebook(cells=[cell]))
    kept = nbformat.reads(clean_file(text.encode()).decode(), as_version=4).cells[0]
    assert kept.attachments == picture and kept.id == cell.id


@pytest.mark.parametrize("content", [rb'"\ud83d"', b"[" * 100_000])
def test_what_cannot_be_written_stays_as_it_is(content):
    """Half of a character, as a cut output may have, and a list that is too deep."""
    content = b'{"cells": [{"cell_type": "raw", "metadata": {}, "source": ' + content + b"}]}"
    assert clean_file(content) == content


def test_a_notebook_becomes_a_script_of_python():
    text, resources = ScriptExporter().from_filename(find_notebooks()["tour"])
    assert resources["output_extension"] == ".py"
    compile(text, "tour.py", "exec")


SOURCE = """
import ipywidgets
import matplotlib.pyplot as plt
from IPython.display import display

display(ipywidgets.IntSlider())
print(number, flush=True)
print("more")
plt.plot([1, 2])
plt.show()
number
"""


def list_make(target, *words):
    """Return the commands of a target."""
    command = ["make", "-n", "-B", target, f"VENV={sys.prefix}", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def clone(tmp_path):
    """Return a repository with a notebook that has run, and one of another kind."""
    run(["git", "init", "-q"], tmp_path)
    for key, value in (("user.name", "me"), ("user.email", "me@localhost")):
        run(["git", "config", key, value], tmp_path)
    shutil.copy(ROOT / ".gitattributes", tmp_path)
    cells = [nbformat.v4.new_code_cell(cell) for cell in ("number = 3", SOURCE)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "note.ipynb")
    runner.refresh_notebook(tmp_path / "note.ipynb")
    (tmp_path / "broken.ipynb").write_text("<<<<<<< HEAD\n")
    run(["git", "add", "--all"], tmp_path)  # without the filter, as before `make setup`
    run(["git", "commit", "-q", "-m", "note"], tmp_path)
    return tmp_path


def save_as_jupyter(path, first):
    """Execute a notebook in which cells have run before, and write all that JupyterLab does."""
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[0].source = first
    notebook.metadata.kernelspec.display_name = "Python 3 (ipykernel)"
    with runner.kernel_environment({}):
        nbclient.execute(notebook, kernel_name="python3", coalesce_streams=True)
    assert notebook.metadata.widgets and notebook.metadata.language_info.version
    for cell in notebook.cells:
        assert cell.metadata.execution
        cell.metadata |= {"trusted": True, "collapsed": False, "jupyter": {"source_hidden": False}}
        cell.execution_count += 7
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count += 7
    nbformat.write(notebook, path)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@pytest.mark.filterwarnings("ignore")  # of nbclient's event loop
def test_a_saved_notebook_differs_for_git_only_where_its_outputs_do(clone):
    setting = re.search(r"git config filter.*", list_make("setup"))[0]
    run(["bash", "-c", setting], clone)
    before = (clone / "note.ipynb").read_bytes()
    save_as_jupyter(clone / "note.ipynb", "number = 3")
    assert (clone / "note.ipynb").read_bytes() != before
    assert run(["git", "diff"], clone) == "" and run(["git", "add", "--all"], clone) == ""
    assert run(["git", "status", "--short"], clone) == ""
    save_as_jupyter(clone / "note.ipynb", "number = 4")
    changed = [
        line for line in run(["git", "diff"], clone).splitlines() if re.match(r"[+-] ", line)
    ]
    assert [re.sub(r"\D", "", line) for line in changed] == ["3", "4"] * 3, changed
    (clone / "broken.ipynb").write_text("<<<<<<< MAIN\n")
    assert "+<<<<<<< MAIN" in run(["git", "diff", "broken.ipynb"], clone)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_git_takes_notebooks_as_they_are_where_the_environment_is_gone(clone):
    setting = re.search(r"git config filter.*", list_make("setup"))[0]
    run(["bash", "-c", setting.replace(sys.prefix, "/nowhere")], clone)
    content = json.loads((clone / "note.ipynb").read_text(encoding="utf-8"))
    content["metadata"]["widgets"] = {}
    (clone / "note.ipynb").write_text(json.dumps(content), encoding="utf-8")
    run(["git", "add", "--all"], clone)
    assert json.loads(run(["git", "show", ":note.ipynb"], clone)) == content


def test_jupyterlab_takes_arguments_and_starts_for_root():
    command = list_make("lab", "ARGS=--port 9999").splitlines()[-1]
    assert "jupyter lab" in command and command.endswith("--port 9999")
    assert ("--allow-root" in command) == (os.geteuid() == 0)
