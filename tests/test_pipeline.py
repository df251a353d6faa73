"""The runner: what it refuses, what it leaves behind, and that it writes the same file twice."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import nbformat
import pytest
from papermill.exceptions import PapermillExecutionError

import made_up
from carry import claims, results
from carry.cli import main
from carry.config import paths, profiles
from carry.config.settings import SettingsError
from carry.pages import files as pruning
from carry.runs import notebooks
from carry.pipeline.dependencies import list_read_profiles
from carry.pipeline.stages import STAGES
from carry.plots import index


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
        (["notebook", "ovreview", "profile=cpu"], "does not exist, did you mean 'overview'"),
        (["notebook", "pipeline/train", "profile=smok", "study=a"], "did you mean 'smoke'"),
        (["notebook", "pipeline/train", "profile=cpu"], "study: missing, expected one of"),
        (["notebook", "pipeline/train", "profile=cpu", "study=parity"], "study: 'parity' is not"),
        (
            ["notebook", "pipeline/variants", "profile=smoke", "variant_set=a"],
            "variant_set: 'a' is",
        ),
        (["notebook", "overview", "profile=cpu", "study=a"], "unknown parameter 'study'"),
        (["notebook", "overview", "cpu"], "'cpu' is not a parameter; expected name=value"),
        (["refresh", "tuor"], "notebook: 'tuor' does not exist"),
        (["figures", "cho2026", "profile=cpu"], "figures: work 'cho2026' is unknown, did you mean"),
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


def test_pruning_removes_the_results_of_a_removed_study(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    settings = profiles.load_profile("smoke")
    gone, kept = "equal_formats", "small_models"
    looping = [stage for stage in STAGES.values() if stage.parameter == "study"]
    folders = [paths.data_path("smoke", "runs"), paths.results_path("smoke", "certificates")]
    folders += [paths.results_path("smoke", "results"), paths.analyses_folder("smoke", "x").parent]
    files = []
    for study in (gone, kept, "addition_schemes"):
        files += [folder / study / "file" for folder in folders]
        files += [stage.executed("smoke", study) for stage in looping]
        files += [paths.data_path("smoke", "code", stage.notebook, study) for stage in looping]
    files += [paths.variants_folder("smoke", "addition_relative") / "training.parquet"]
    rows = ("parity_relative_scratchpad", f"row_of_{gone}")
    for stage in ("train", "evaluate", "analyse", "certify"):
        files += [paths.jobs_folder("smoke", stage) / row / "file" for row in rows]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    del settings["studies"][gone]
    settings["analyses"] = {row: "reach" for row in settings["rows"] if "equal" not in row}
    settings["certificates"] = list(settings["analyses"])
    monkeypatch.setattr(profiles, "load_profile", lambda profile: settings)
    pruning.prune_results("smoke")
    assert {file for file in files if not file.exists()} == {f for f in files if gone in str(f)}


def test_pruning_keeps_files_that_stand_beside_results(tmp_path, monkeypatch):
    """Such as the README of committed results; only folders of studies are removed."""
    for profile in paths.COMMITTED:
        folders = [folder for stage in STAGES.values() for folder in stage.list_results(profile)]
        assert all(folder.is_dir() for folder in folders)
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    results = [paths.results_path("tuning", *of) for of in (("results",), ("results", "analyses"))]
    notes = [folder / "README.md" for folder in results]
    tables = [folder / "gone" / "cells.parquet" for folder in results]
    for file in [*notes, *tables]:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    pruning.prune_results("tuning")
    assert all(file.exists() for file in notes) and not any(file.exists() for file in tables)


def test_settings_are_read_of_every_profile_whose_rows_are_shown():
    for profile in profiles.find_profiles():
        chain, others = set(), profile
        while others is not None:
            chain.add(others)
            others = profiles.load_profile(others)["others"]
        named = {claim.profile for claim in claims.load_claims() if claim.profile} - {"thesis"}
        assert chain | named - {"cpu"} <= {*list_read_profiles(profile)}


def test_a_removed_row_leaves_no_results(tmp_path, monkeypatch):
    """The files of its study are written again; until then, its results are not read."""
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    made_up.results(tmp_path, ["addition_nope", "addition_rope"])
    monkeypatch.setattr(profiles, "find_sources", lambda profile: {"addition_nope": "cpu"})
    assert results.list_rows(results.read_table("cpu", "cells")) == ["addition_nope"]


def test_dvc_names_the_stages_of_the_registry():
    """DVC reads its own file only; whoever adds a stage to one of both is told here."""
    dvc = profiles.read_yaml(paths.ROOT / "dvc.yaml")["stages"]
    assert {*STAGES} == {*dvc} - {"code", "models", "figures", "site"}
    for stage in STAGES.values():
        body = dvc[stage.name]["do"] if stage.parameter else dvc[stage.name]
        words = f" {stage.parameter}=${{key}}" if stage.parameter else ""
        command = f"python -m carry notebook {stage.notebook} profile=${{profile}}{words}"
        assert body["cmd"] == command
        end = "/${key}" if stage.parameter else ""
        assert f"data/${{profile}}/code/{stage.notebook}{end}.txt" in body["deps"]
        outs = [out if isinstance(out, str) else next(iter(out)) for out in body["outs"]]
        assert f"data/${{profile}}/executed/{stage.notebook}{end}.ipynb" in outs
        if stage.parameter:
            assert dvc[stage.name]["foreach"] == f"${{{stage.section}}}"
        if stage.results:
            kind, *rest = stage.results
            assert "/".join(["${results}", kind, "${profile}", *rest, "${key}"]) in outs


def test_a_profile_lists_in_its_file_what_the_stages_loop_over():
    """DVC loops over the sections of the file, and the library over the resolved profile."""
    for name, path in profiles.find_profiles().items():
        text = profiles.read_yaml(path)
        for stage in STAGES.values():
            if stage.section and name != "notebook":
                assert {*stage.items(name)} == {*text[stage.section]}, (name, stage.name)


@pytest.mark.parametrize(("profile", "most"), [("cpu", 30), ("full", 100), ("smoke", 40)])
def test_the_pipeline_has_few_stages(profile, most):
    settings = profiles.load_profile(profile)
    looping = [stage.items(profile) for stage in STAGES.values() if stage.parameter]
    once = [stage for stage in STAGES.values() if not stage.parameter]
    others = ["code", "site", *settings["figures"], *settings["models"]]
    assert sum(map(len, looping)) + len(once) + len(others) < most


def test_all_profiles_draw_works_that_exist():
    drawn = {entry.notebook for entry in index.list_figures().values()} - {"tour"}
    works = {notebook.partition("/")[0] for notebook in drawn}
    assert works == {*profiles.load_profile("cpu")["figures"]}
    assert drawn == {name for work in works for name in runner.list_notebooks(work)}


def test_all_notebooks_of_a_work_are_executed_and_old_figures_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    old = paths.figures_folder("smoke", "cho2025/gone") / "old.svg"
    old.parent.mkdir(parents=True)
    old.touch()
    drawn = []
    monkeypatch.setattr(runner, "list_notebooks", lambda work: [f"{work}/one", f"{work}/two"])
    monkeypatch.setattr(runner, "ProcessPoolExecutor", lambda *_: ThreadPoolExecutor(2))
    monkeypatch.setattr(runner, "run_notebook", lambda name, profile: drawn.append(name))
    assert [path.stem for path in runner.draw_figures("cho2025", "smoke")] == ["one", "two"]
    assert sorted(drawn) == ["cho2025/one", "cho2025/two"] and not old.parent.exists()

    def fail(name, profile):
        if name.endswith("two"):
            raise SettingsError("results.parity: missing")

    monkeypatch.setattr(runner, "run_notebook", fail)
    with pytest.raises(SettingsError, match="^cho2025/two: results.parity: missing$"):
        runner.draw_figures("cho2025", "smoke")


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
