"""The runner: what it refuses, what it leaves behind, and that it writes the same file twice."""

import subprocess
import sys

import nbformat
import pytest
from papermill.exceptions import PapermillExecutionError

from carry.cli import main
from carry.config import paths, profiles
from carry.config.settings import SettingsError
from carry.pipeline import files, runner
from carry.pipeline.stages import SECTIONS, STAGES


def write(path, *cells, parameters="steps = 1"):
    """Write a notebook of code cells, as an editor would: with outputs and stray metadata."""
    tagged = nbformat.v4.new_code_cell(parameters, metadata={"tags": ["parameters"]})
    others = [nbformat.v4.new_code_cell(cell, metadata={"editable": True}) for cell in cells]
    notebook = nbformat.v4.new_notebook(cells=[tagged, *others])
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
        for name in ("first", "second")
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


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"step": 2}, "unknown parameter 'step', did you mean 'steps'"),
        ({"steps": "2"}, "steps = '2', expected a value like 1"),
        ({"steps": True}, "steps = True, expected a value like 1"),
        ({"steps": [2]}, "expected a value like 1"),
    ],
)
def test_parameters_are_refused_before_anything_runs(tmp_path, given, message):
    source = write(tmp_path / "note.ipynb", "steps")
    with pytest.raises(SettingsError, match=message):
        runner.execute_notebook(source, tmp_path / "out" / "done.ipynb", given)
    assert not (tmp_path / "out").exists()


def test_stripping_is_idempotent_and_keeps_the_code(tmp_path):
    once = runner.strip_outputs(nbformat.read(write(tmp_path / "note.ipynb", NOISY), as_version=4))
    assert runner.strip_outputs(once) == once
    assert [cell.source for cell in once.cells] == ["steps = 1", NOISY]
    assert not any(cell.outputs for cell in once.cells)
    assert "editable" not in nbformat.writes(once)


def test_refreshing_keeps_outputs_and_warnings(tmp_path):
    source = write(tmp_path / "note.ipynb", "import sys\nprint('no', file=sys.stderr)\nsteps")
    once = runner.refresh_notebook(source).read_bytes()
    assert runner.refresh_notebook(source).read_bytes() == once
    notebook = nbformat.reads(once.decode(), as_version=4)
    assert [cell.execution_count for cell in notebook.cells] == [1, 2]
    assert [output.output_type for output in notebook.cells[1].outputs] == [
        "stream",
        "execute_result",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["notebook", "ovreview", "profile=cpu"],
            "'ovreview' does not exist, did you mean 'overview'",
        ),
        (["notebook", "pipeline/train", "profile=smok", "row=a"], "did you mean 'smoke'"),
        (
            ["notebook", "pipeline/train", "profile=cpu"],
            "row: missing for notebook 'pipeline/train'",
        ),
        (
            ["notebook", "pipeline/train", "profile=cpu", "row=none_such"],
            "row: 'none_such' is not in",
        ),
        (["notebook", "overview", "profile=cpu", "row=a"], "notebook 'overview' has no rows"),
        (["notebook", "overview", "cpu"], "'cpu' is not a parameter; expected name=value"),
        (["refresh", "tuor"], "notebook: 'tuor' does not exist"),
    ],
)
def test_commands_refuse_in_one_line(words, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_the_command_runs_from_any_folder(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "carry", "notebook", "tuor"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("notebook: 'tuor' does not exist")


def test_pruning_removes_every_file_of_a_removed_row(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    settings = {"rows": {"kept": {}}, "problems": {"kept": {}}, "analyses": {"kept": "heads"}}
    settings |= {"variant_sets": {"kept": {}}, "certificates": ["kept"], "models": []}
    monkeypatch.setattr(profiles, "load_profile", lambda profile: settings)
    looping = [stage for stage in STAGES.values() if stage.section]
    folders = {folder for stage in looping for folder in stage.folders("smoke")}
    folders |= {paths.reports_path("smoke", "models")}
    for row in ("kept", "removed"):
        for folder in folders:  # a folder of tables, or a file for a certificate
            (folder / row / "tables").mkdir(parents=True)
            (folder / f"{row}.json").touch()
        for stage in looping:
            path = stage.executed("smoke", row)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            path.with_name(f"{row}.failed.ipynb").touch()
    files.prune_results("smoke")
    assert not list(tmp_path.rglob("removed*"))
    assert len(list(tmp_path.rglob("kept*"))) == 2 * (len(folders) + len(looping))
    assert (tmp_path / "data/smoke/rows.txt").read_text() == "kept\n"


def test_dvc_names_the_stages_of_the_registry():
    """DVC reads its own file only; whoever adds a stage to one of both is told here."""
    dvc = profiles.read_yaml(paths.ROOT / "dvc.yaml")["stages"]
    for stage in STAGES.values():
        looping = stage.section is not None
        body = dvc[stage.name]["do"] if looping else dvc[stage.name]
        commands = [body["cmd"]] if isinstance(body["cmd"], str) else body["cmd"]
        assert commands[0].startswith(f"python -m carry notebook {stage.notebook} ")
        outs = [out if isinstance(out, str) else next(iter(out)) for out in body["outs"]]
        executed = f"data/${{profile}}/executed/{stage.notebook}"
        if looping:
            assert dvc[stage.name]["foreach"] == f"${{{stage.section}}}"
            key = "${item}" if stage.name == "certify" else "${key}"
            assert f"{executed}/{key}.ipynb" in outs
            for place in stage.results:
                folder = f"${{reports}}/{place.format(profile='${profile}')}/{key}"
                assert folder in outs or f"{folder}.json" in outs
        else:
            assert f"{executed}.ipynb" in outs


def test_pruning_runs_again_when_any_list_of_rows_changes():
    prune = profiles.read_yaml(paths.ROOT / "dvc.yaml")["stages"]["prune"]
    (sections,) = (value for entry in prune["params"] for value in entry.values())
    assert {*SECTIONS, "models"} == {*sections}


def test_a_notebook_in_a_folder_is_called_by_it(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    for folder in ("", "paper2024", ".ipynb_checkpoints"):
        (tmp_path / "notebooks" / folder).mkdir(parents=True, exist_ok=True)
        write(
            tmp_path / "notebooks" / folder / "how_far.ipynb", "profile", parameters="profile = ''"
        )
    for folder in ("", "paper2024"):  # drafts of notebooks that are being refreshed
        (tmp_path / "notebooks" / folder / ".how_far-1a2b3c.ipynb").touch()
    assert list(runner.find_notebooks()) == ["how_far", "paper2024/how_far"]
    done = runner.run_notebook("paper2024/how_far", "smoke")
    assert done == tmp_path / "data/smoke/executed/paper2024/how_far.ipynb" and done.exists()
    with pytest.raises(SettingsError, match="did you mean 'paper2024/how_far'"):
        runner.find_notebook("paper2024/how_fra")
