"""The runner: what it refuses, what it leaves behind, and that it writes the same file twice."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import nbformat
import pytest
import yaml
from papermill.exceptions import PapermillExecutionError

from carry.config import params, paths
from carry.config.notebooks import find_notebooks
from carry.config.settings import SettingsError
from carry.plots import index
from carry.runs import notebooks as runner


def write(path, *cells, parameters="steps = 1"):
    """Write a notebook of code cells, as an editor would: with outputs and stray metadata."""
    tagged = nbformat.v4.new_code_cell(parameters, metadata={"tags": ["parameters"]})
    others = [nbformat.v4.new_code_cell(cell, metadata={"editable": True}) for cell in cells]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(cells=[tagged, *others], metadata={"kernelspec": kernel})
    notebook.cells[-1].outputs = [nbformat.v4.new_output("stream", name="stdout", text="old\n")]
    nbformat.write(notebook, path)
    return path


NOISY = """
import sys
from tqdm.auto import tqdm
for number in tqdm(range(3)):
    print(number + steps, flush=True)
    print("warning", file=sys.stderr, flush=True)
number
"""


def test_the_same_run_writes_the_same_bytes(tmp_path, capfd):
    source = write(tmp_path / "note.ipynb", NOISY)
    written = [
        runner.execute_notebook(source, tmp_path / name / "done.ipynb", {"steps": 5}).read_bytes()
        for name in ("first", "a b [x] #1 50% é")
    ]
    assert written[0] == written[1]
    done = nbformat.reads(written[0].decode(), as_version=4)
    assert [cell.execution_count for cell in done.cells] == [1, 2, 3]
    assert [output.get("text") for output in done.cells[-1].outputs] == ["5\n6\n7\n", None]
    assert "warning" in capfd.readouterr().err, "stderr goes to the terminal"
    assert [path.name for path in (tmp_path / "first").iterdir()] == ["done.ipynb"]


def test_a_failing_notebook_leaves_no_output(tmp_path):
    target = tmp_path / "out" / "done.ipynb"
    target.parent.mkdir()
    target.write_text("from an earlier run")
    source = write(tmp_path / "note.ipynb", "1 / 0", "'not reached'")
    with pytest.raises(PapermillExecutionError, match="ZeroDivisionError"):
        runner.execute_notebook(source, target, {})
    assert [path.name for path in target.parent.iterdir()] == ["done.failed.ipynb"]


def test_bad_settings_in_a_notebook_are_one_line(tmp_path):
    source = write(
        tmp_path / "note.ipynb",
        "from carry.config.settings import SettingsError\n"
        "raise SettingsError('runs.a.b: 3 does not fit')",
    )
    with pytest.raises(SettingsError, match="^runs.a.b: 3 does not fit$"):
        runner.execute_notebook(source, tmp_path / "done.ipynb", {})


def test_refreshing_keeps_outputs_and_warnings(tmp_path):
    source = write(tmp_path / "note.ipynb", "import sys\nprint('no', file=sys.stderr)\nsteps")
    once = runner.refresh_notebook(source).read_bytes()
    assert runner.refresh_notebook(source).read_bytes() == once
    notebook = nbformat.reads(once.decode(), as_version=4)
    assert b"old" not in once and b"editable" not in once, "what an editor had left"
    assert [cell.execution_count for cell in notebook.cells] == [1, 2]
    assert [output.output_type for output in notebook.cells[1].outputs] == [
        "stream",
        "execute_result",
    ]


def test_the_command_runs_from_any_folder(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "carry", "notebook", "tuor"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("notebook: 'tuor' is unknown")


def test_dvc_draws_all_works():
    drawn = {entry.notebook for entry in index.list_figures().values()} - {"tour"}
    works = {notebook.partition("/")[0] for notebook in drawn}
    stages = yaml.safe_load((paths.ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    assert works == {*stages["figures"]["foreach"]}
    assert drawn == {name for work in works for name in runner.list_notebooks(work)}


def test_all_notebooks_of_a_work_are_executed_and_old_figures_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    monkeypatch.setattr(paths, "REPORTS", tmp_path / "reports")
    old = paths.figures_folder("cho2025/gone") / "old.svg"
    old.parent.mkdir(parents=True)
    old.touch()
    drawn = []
    monkeypatch.setattr(runner, "list_notebooks", lambda work: [f"{work}/one", f"{work}/two"])
    monkeypatch.setattr(runner, "ProcessPoolExecutor", lambda *_: ThreadPoolExecutor(2))
    monkeypatch.setattr(runner, "run_notebook", lambda name: drawn.append(name))
    assert [path.stem for path in runner.draw_figures("cho2025")] == ["one", "two"]
    assert sorted(drawn) == ["cho2025/one", "cho2025/two"] and not old.exists()

    def fail(name):
        if name.endswith("two"):
            raise SettingsError("results.parity: missing")

    monkeypatch.setattr(runner, "run_notebook", fail)
    with pytest.raises(SettingsError, match="^cho2025/two: results.parity: missing$"):
        runner.draw_figures("cho2025")


def test_a_notebook_in_a_folder_is_called_by_it(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    for folder in ("", "paper2024", ".ipynb_checkpoints"):
        (tmp_path / "notebooks" / folder).mkdir(parents=True, exist_ok=True)
        name = f"{folder}/how_far".lstrip("/")
        cell = f'scale  # open_notebook("{name}")'
        for copy in ("how_far", ".how_far-1a2b3c"):  # a draft of one that is being refreshed
            path = tmp_path / "notebooks" / folder / f"{copy}.ipynb"
            write(path, cell, parameters="scale = ''")
    assert list(find_notebooks()) == ["how_far", "paper2024/how_far"]
    monkeypatch.setattr(params, "load_params", lambda: params.Params(scale="smoke"))
    done = runner.run_notebook("paper2024/how_far")
    assert done == tmp_path / "data/executed/paper2024/how_far.ipynb"
    assert "'smoke'" in done.read_text(), "a notebook that has a scale gets that of params.yaml"
    with pytest.raises(SettingsError, match="did you mean 'paper2024/how_far'"):
        runner.find_notebook("paper2024/how_fra")
