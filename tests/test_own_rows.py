"""A row of `rows` in params.yaml is a row like others; what does not fit is refused in one line."""

import importlib
import json
import re
import sys

import pandas as pd
import pytest

from carry import cli, positions, results
from carry.config import params, paths
from carry.config.settings import SettingsError
from carry.data import problem_sets
from carry.experiments import load_rows, resolve
from carry.experiments.base import BASE, merge
from carry.experiments.problems import SETS, find_problem_set
from carry.experiments.resolve import list_rows, load_run
from carry.runs import run
from carry.training.jobs import list_training_jobs
from carry.training.loop import Trainer
from made_up_project import move_project

TINY = """
rows:
  my_row:
    positions: [{ids: abacus, encoding: learned, offset: 9}]
    seeds: 1
    model: {width: 32}
    training: {digits: 2, steps: 4, batch: 8, score_problems: 8}
    evaluation: {problem_set: addition_to_15, digits: 3, far: []}
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Return a function that writes params.yaml of a project without results."""
    move_project(monkeypatch, tmp_path)
    monkeypatch.setattr(params, "ROOT", tmp_path)
    (tmp_path / "lib" / "carry").mkdir(parents=True)  # without it this is another project
    monkeypatch.setenv("CARRY_PROGRESS", "off")
    results.read_runs.cache_clear()
    yield lambda text: (tmp_path / "params.yaml").write_text(text, encoding="utf-8")
    results.read_runs.cache_clear()


def call(capsys, *words):
    """Run a command; return its exit code, its output and its errors."""
    with pytest.raises(SystemExit) as exit:
        cli.main([*words])
    return exit.value.code, *capsys.readouterr()


def test_every_command_knows_the_row(write, capsys, tmp_path):
    write(TINY)
    line = next(line for line in call(capsys, "rows")[1].splitlines() if " my_row " in line)
    assert line.split()[:4] == ["mine", "my_row", "addition", "abacus/learned"]
    shown = {(*line.split()[:2],) for line in call(capsys, "show", "my_row")[1].splitlines()}
    assert ("training.steps", "4") in shown
    code, _, error = call(capsys, "ask", "6+4", "--row", "my_row")
    assert code == 2 and "not trained here" in error and "expected `carry run my_row`" in error
    code, out, error = call(capsys, "run", "my_row")
    assert code == 0 and "my_row: seed 0: in distribution" in out, error
    assert out.endswith("my_row: all seeds in reports/results/mine\n")
    assert call(capsys, "ask", "6+4", "--row", "my_row")[0] == 0
    assert call(capsys, "export", "my_row")[1] == "data/exports/my_row/seed_0\n"
    cells = results.open_results()["cells"]
    assert {*results.add_labels(cells, cells)["label"]} == {"my_row, not learned"}


def test_another_row_is_added_to_the_results_of_the_first(write):
    write(TINY)
    run.run_rows(["my_row"])
    write(TINY + "  other:\n    like: my_row\n    training: {steps: 2}\n")
    run.run_rows(["mine"])
    for name in ("cells", "curves", "runs"):
        table = pd.read_parquet(paths.results_folder("mine") / f"{name}.parquet")
        assert [*table["row"].unique()] == ["my_row", "other"]
    assert load_run("other").model == load_run("my_row").model


def test_the_pipeline_trains_it_and_dvc_changes_it(write):
    write(TINY + "train: {mine: all}\n")
    assert [(run.name, run.study) for run in run.choose_runs()] == [("my_row", "mine")]
    write(TINY + "train: {mine: [my_row]}\noverride: {my_row: {training: {steps: 9}}}\n")
    assert [run.training.steps for run in run.choose_runs()] == [9]


def test_a_row_is_like_another_at_each_of_its_scales(write):
    write("rows: {mine_1: {like: addition_nope, study: others, label: Mine, training: {steps: 300},"
          " gpu: {training: {batch: 7}}}}")  # fmt: skip
    parent, child = load_rows()["addition_nope"], load_rows()["mine_1"]
    assert list_rows("others") == ["mine_1"] and child.label == "Mine"
    assert {*child.scales} == {*parent.scales} - {"notebook"}
    mine, theirs = load_run("mine_1"), load_run("addition_nope")
    assert mine.training == theirs.training.model_copy(update={"steps": 300})
    assert (mine.model, mine.evaluation) == (theirs.model, theirs.evaluation)
    assert load_run("mine_1", "gpu").training.batch == 7
    assert load_run("mine_1", "smoke").training == load_run("addition_nope", "smoke").training


def test_committed_outputs_do_not_depend_on_own_rows(write):
    before = list_rows(scale="notebook")
    write(f"rows: {{my_row: {{like: {before[0]}}}}}")
    assert list_rows(scale="notebook") == before and "smoke" in load_rows()["my_row"].scales


def test_a_task_without_a_problem_set_is_scored_on_equal_lengths(write, monkeypatch):
    monkeypatch.delitem(SETS, "copying")
    find_problem_set.cache_clear()
    write("rows: {my_row: {task: {name: copying}, evaluation: {digits: 12}}}")
    run.check_runs([load_run("my_row")])
    questions = problem_sets.load_questions(load_run("my_row"))
    assert {*questions["set"]} == {"equal"} and {*questions["i"]} == {*range(1, 13)}
    find_problem_set.cache_clear()


# An entry, and the line that refuses it.
REFUSED = {
    "rows:": "params.yaml.rows: None does not fit, expected dictionary",
    "rows: [my_row]": "params.yaml.rows: ['my_row'] does not fit, expected dictionary",
    "rows: {my_row: }": "params.yaml.rows.my_row: None does not fit, expected dictionary",
    "rows: {my-row: {}}": "params.yaml.rows: 'my-row' is not a name; expected 1 to 100",
    "rows: {3: {}}": "params.yaml.rows.3",
    "rows: {addition_nope: {}}": "params.yaml.rows.addition_nope: a row or a study has this name",
    "rows: {small_models: {}}": "params.yaml.rows.small_models: a row or a study has this name",
    "rows: {mine: {}}": "params.yaml.rows.mine: a row or a study has this name; expected a new",
    "rows: {a: {like: addition_nop}}":
        "params.yaml.rows.a.like: 'addition_nop' is unknown, did you mean 'addition_nope'",
    "rows: {a: {like: b}, b: {}}": "params.yaml.rows.a.like: 'b' is unknown",
    "rows: {a: {like: }}": "params.yaml.rows.a.like: None is unknown",
    "rows: {a: {study: [x]}}": "params.yaml.rows.a.study: ['x'] is not a name",
    "rows: {a: {label: 3}}": "params.yaml.rows.a.label: 3 does not fit, expected string",
    "rows: {a: {label: ''}}":
        "params.yaml.rows.a.label: '' does not fit, expected one line of 1 to 60 characters",
    "rows: {a: {task: {name: modular_addition}}}":
        "params.yaml.rows.a.evaluation.problem_set: 'modular_addition' is unknown, did you mean",
    "rows: {a: {trainning: {}}}":
        "params.yaml.rows.a: 'trainning' is unknown, did you mean 'training'",
    "rows: {a: {name: b}}": "params.yaml.rows.a: 'name' is unknown",
    "rows: {a: {smoke: 3}}": "params.yaml.rows.a.smoke: 3 is no mapping; expected one",
    "rows: {a: {training: {stpes: 3}}}":
        "params.yaml.rows.a.training.stpes: unknown setting, did you mean 'steps'",
    "rows: {a: {training: {steps: many}}}":
        "params.yaml.rows.a.training.steps: 'many' does not fit, expected integer",
    "rows: {a: {training: 3}}": "params.yaml.rows.a.training: 3 is not valid; expected a mapping",
    "rows: {a: {positions: {ids: abacus, encoding: learned}}}":
        "params.yaml.rows.a.positions: {'encoding': 'learned', 'ids': 'abacus'} does not fit, "
        "expected list",
    "rows: {a: {positions: [{ids: abcus, encoding: learned}]}}":
        "params.yaml.rows.a.positions.0.ids: 'abcus' is unknown, did you mean 'abacus'",
    "rows: {a: {analyses: [lerning]}}": "'lerning', did you mean 'learning'",
    "rows: {a: {task: {radix: 7}}}":
        "params.yaml.rows.a.evaluation.problem_set: 'addition' has problems of 'addition' with "
        "radix 10, expected problems of 'addition' with radix 7; all sets: lib/carry/experiments",
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_an_entry_that_does_not_fit_is_refused_before_any_work(write, capsys, text):
    write(text)
    code, out, error = call(capsys, "run", "a")
    assert code == 2 and out == "" and error.count("\n") == 1, error
    assert REFUSED[text] in error
    assert not paths.STORE.exists()


CELLS = json.loads((paths.ROOT / "notebooks" / "try_your_own.ipynb").read_text(encoding="utf-8"))
SOURCES = ["".join(cell["source"]) for cell in CELLS["cells"]]


@pytest.fixture
def columns(tmp_path, monkeypatch):
    """Save the scheme of the notebook as a file, as it says."""
    (source,) = (source for source in SOURCES if "class Columns" in source)
    (tmp_path / "columns.py").write_text(source, encoding="utf-8")
    monkeypatch.setattr(positions, "__path__", [*positions.__path__, str(tmp_path)])
    yield importlib.import_module("carry.positions.columns").Columns
    del sys.modules["carry.positions.columns"]


def test_the_row_of_the_notebook_is_the_one_that_it_trains(write, columns):
    (entry,) = re.findall(r"```yaml\n(.*?)```", "\n".join(SOURCES), re.DOTALL)
    write(entry)
    run.check_runs([load_run("my_row")])
    (cell,) = (source for source in SOURCES if source.startswith("settings = {"))
    names = {"steps": 300, "Columns": columns}
    exec(cell.partition("systems =")[0], names)
    trained = {**names["settings"], "positions": [names["own"] | {"ids": "columns"}]}
    same = resolve.make_run(merge(BASE, trained), "my_row")
    row = load_run("my_row")
    assert (row.positions, row.model, row.evaluation) == (
        same.positions, same.model, same.evaluation)  # fmt: skip
    assert row.training == same.training


def test_a_class_is_trained_by_a_trainer_and_refused_by_the_store(columns):
    positions = [{"ids": columns, "encoding": "relative", "window": [0, 1]}]
    training = {"steps": 2, "batch": 4, "score_problems": 4}
    given = resolve.make_run({"positions": positions, "training": training})
    assert Trainer(given, 0, None).train().step == 2
    with pytest.raises(SettingsError, match="^runs.mine.positions.0.ids: Columns is a class"):
        list_training_jobs(given)
