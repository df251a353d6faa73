"""Analyses of trained rows: the contract of every module, and models with known faults."""

import importlib
import sys

import pandas as pd
import pytest
import torch

from carry import analyses, results
from carry.analyses import heads, local_adder, subtasks
from carry.config import paths, profiles
from carry.config.run_settings import load_run, make_run
from carry.config.settings import SettingsError, list_modules
from carry.data import problem_sets
from carry.evaluation import trained_models
from carry.evaluation.mock_models import ForgetsCarries, Oracle
from carry.jobs import executors, kept
from carry.models.system import System
from carry.tasks import build_task
from carry.training.batched.trainer import BatchedTrainer
from carry.training.checkpoint import save_snapshots, save_weights
from carry.training.loop import Trainer

NOISY = make_run({
    "task": {"name": "noisy_majority"}, "seeds": 1,
    "model": {"width": 6, "heads": 3, "feed_forward": False, "output": False},
    "training": {"batched_seeds": True, "digits": 8, "examples": 80, "steps": 6, "batch": 20,
                 "score_every": 3, "score_problems": 20},
}, "noisy_majority_d8_a4", "cpu")  # fmt: skip
FIVE = make_run({
    "task": {"name": "addition", "sampling": "longest"}, "seeds": 1,
    "format": {"pad": True, "reverse_operands": False, "reverse_answer": False},
    "positions": [{"ids": "index", "encoding": "learned", "table": 20}],
    "model": {"layers": 1, "width": 12, "heads": 2},
    "training": {"digits": 3, "steps": 4, "batch": 8, "snapshot_every": 2},
    "evaluation": {"digits": 3},
}, "addition_five_digits", "cpu")  # fmt: skip


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """Return what trains one seed of a run, and keeps it as the train stage does."""
    monkeypatch.setattr(paths, "ROOT", tmp_path)

    def keep(given):
        monkeypatch.setattr("carry.config.run_settings.load_run", lambda row, profile: given)
        monkeypatch.setattr(problem_sets, "read_questions", lambda run: pd.DataFrame({"i": [1]}))
        folder = trained_models.get_weights_folder("cpu", given.name)
        if given.training.batched_seeds:
            weights = BatchedTrainer(given, [0], None).train().weights()[0]
        else:
            trainer = Trainer(given, 0, None).train()
            weights = trainer.system.network.state_dict()
            save_snapshots(folder / "snapshots_0.safetensors", trainer.snapshots)
        save_weights(folder / "seed_0.safetensors", weights, given, 0, 6, "fp32")

    return keep


def test_tables_of_heads(trained, monkeypatch):
    trained(NOISY)
    ranges = {"test": {"least": 9, "most": 12, "count": 40}}
    given = problem_sets.ProblemSet.parse({"task": NOISY.task, "ranges": ranges}, "problems")
    asked = problem_sets.draw_problem_set("mine", given)
    monkeypatch.setattr(problem_sets, "read_questions", lambda of: asked)
    found = heads.tables(NOISY.name, "cpu")
    analyses.check_columns(found, heads.COLUMNS, "heads")
    assert set(found) == set(heads.COLUMNS)
    assert all((table["n"] == 40).all() for table in found.values())
    sets = found["separations"]
    assert sets["size"].value_counts().to_dict() == {1: 3, 2: 3, 3: 1}
    assert sets["separation"].between(0, 1).all() and sets["learned"].between(0, 1).all()
    single = sets[sets["size"] == 1]["separation"].tolist()
    assert found["ratios"]["separation"].tolist() == single
    assert len(found["by_hand"]) == 3 * 2 * len(heads.GRID)
    assert found["outputs"].groupby("head").size().tolist() == [40] * 3


def test_tables_of_subtasks(trained):
    trained(FIVE)
    found = subtasks.tables(FIVE.name, "cpu")
    analyses.check_columns(found, subtasks.COLUMNS, "subtasks")
    for table in found.values():
        assert table["step"].unique().tolist() == [2, 4]
        assert (table["low"] <= table["high"]).all()
    by_place = found["subtasks"].query("step == 4").set_index(["subtask", "place"])["n"]
    problems = subtasks.draw_problems(build_task(FIVE.task), 3)
    whole = by_place.unstack("subtask").fillna(0)
    into = whole[["base_add", "use_carry", "use_sum_9"]].sum(axis=1)
    assert (into.iloc[:3] == len(problems)).all()  # one of the three, at every place of the sum
    assert 0 < into.iloc[3] < len(problems)  # the highest digit is but a carry


def test_a_model_that_forgets_carries_fails_where_they_are_used():
    """Right where no carry comes in, wrong where one does; the oracle is right everywhere."""
    for kind, share in ((Oracle, 1.0), (ForgetsCarries, 0.0)):
        system = kind(FIVE)
        problems = subtasks.draw_problems(system.task, 3)
        labels = subtasks.label_subtasks(system.task, problems)
        seen = subtasks._score(system, problems)
        table = subtasks._count_by_place(system, problems, seen, labels)
        right = table.groupby("subtask")[["n", "correct"]].sum()
        right = (right["correct"] / right["n"]).to_dict()
        assert right["base_add"] == 1.0 and right["use_carry"] == right["use_sum_9"] == share


@pytest.mark.parametrize("digits", [1, 2, 5])
def test_every_cascade_is_drawn_and_steps_tell_it(digits):
    task = build_task({"name": "addition"})
    problems = subtasks.draw_problems(task, digits)
    long = subtasks.measure_cascades(task, problems)[subtasks.UNIFORM :]
    expected = [subtasks.PER_CASCADE * (digits - by) for by in range(digits)]
    assert long.bincount().tolist() == expected
    carries = task.compute_steps(problems)["carry_used"][subtasks.UNIFORM :].sum(1)
    assert torch.equal(carries.long(), long + 1)  # the one that is made, and each that is passed on


LOCAL = make_run({
    "task": {"name": "addition", "sampling": "equal"}, "seeds": 1, "format": {"pad": True},
    "positions": [{"ids": "abacus", "encoding": "relative", "window": [0, 1]}],
    "model": {"layers": 1, "width": 8, "heads": 2},
    "training": {"digits": 2, "steps": 4, "batch": 8, "snapshot_every": 2},
    "evaluation": {"digits": 3, "reach": [[5, 5, 3]]},
}, "addition_relative", "cpu")  # fmt: skip


@pytest.mark.parametrize("name", ["reach", "faults", "local_adder"])
def test_an_analysis_of_a_trained_row_returns_its_columns(name, trained):
    trained(LOCAL.model_copy(update={"format": {}}) if name == "faults" else LOCAL)
    module = importlib.import_module(f"carry.analyses.{name}")
    tables = module.tables(LOCAL.name, "cpu")
    analyses.check_columns(tables, module.COLUMNS, name)
    assert set(tables) == set(module.COLUMNS)
    for table in tables.values():
        assert len(table) and set(table["row"]) == {LOCAL.name} and set(table["seed"]) == {0}
    if name == "faults":
        assert tables["learned"]["step"].tolist() == [2, 4]
        wrong = [tables[kind]["wrong"].iloc[-1] for kind in ("verdicts", "learned")]
        assert wrong[0] == wrong[1] > 0
        trained(LOCAL)  # padded numbers: contexts are sampled, and not enumerated
        tables = module.tables(LOCAL.name, "cpu")
        analyses.check_columns(tables, module.COLUMNS, name)
        assert len(tables["verdicts"]) == 1
        assert tables["learned"].empty and tables["disturbed"].empty


def profile_with(*names):
    """Return a profile that lists analyses of one row."""
    return {"analyses": {FIVE.name: [*names]}, "studies": {"mine": [FIVE.name]}}


def test_tables_of_a_study_are_kept_as_they_are_returned(trained, monkeypatch):
    trained(FIVE)
    monkeypatch.setattr(profiles, "load_profile", lambda profile: profile_with("subtasks"))
    folder, found = analyses.analyse_study("mine", "cpu")
    assert folder == paths.analyses_folder("cpu", "mine") and {*found} == {*subtasks.COLUMNS}
    for name, table in found.items():
        pd.testing.assert_frame_equal(pd.read_parquet(folder / f"{name}.parquet"), table)
    with pytest.raises(SettingsError, match="^study: 'none' is not in profile 'cpu'"):
        analyses.analyse_study("none", "cpu")
    with pytest.raises(SettingsError, match="^analyses: unknown row 'none'"):
        analyses.list_analyses("none", "cpu")


def test_an_analysis_is_repeated_after_a_change_of_weights_or_settings_alone(trained, monkeypatch):
    monkeypatch.setattr(profiles, "load_profile", lambda profile: profile_with("subtasks"))

    def key():
        (job,) = analyses.list_analysis_jobs(FIVE.name, "cpu")
        return kept.find_place(job, paths.ROOT).name

    trained(FIVE)
    first = key()
    trained(FIVE)
    assert key() == first
    trained(FIVE.model_copy(update={"training": FIVE.training.model_copy(update={"steps": 6})}))
    assert key() != first


@pytest.mark.parametrize("name", list_modules("carry.analyses"))
def test_every_analysis_declares_its_contract(name):
    module = importlib.import_module(f"carry.analyses.{name}")
    assert module.TASK == analyses.ANY or module.TASK in list_modules("carry.tasks")
    for table, columns in module.COLUMNS.items():
        assert table.isidentifier() and len(columns) == len({*columns}) > 0
        assert {"row", "profile", "seed"} <= {*columns}
    assert callable(module.tables) and "Returns:" in module.tables.__doc__


GOOD = """
import pandas as pd

TASK = "addition"
COLUMNS = {"counts": ("row", "profile", "seed", "n")}


def tables(row, profile, report):
    report(1.0)
    return {"counts": pd.DataFrame([{"row": row, "profile": profile, "seed": 0, "n": 1}])}
"""
BAD = {
    "no COLUMNS": (GOOD.replace("COLUMNS", "FIELDS"), "has no COLUMNS; expected TASK, COLUMNS, "),
    "another task": (GOOD.replace("addition", "sorting"), "does not fit task 'addition'; expected"),
    "another column": (GOOD.replace('"n": 1', '"m": 1'), "seed, n; but the table has row, "),
    "another order": (GOOD.replace('"seed", "n"', '"n", "seed"'), "but the table has row, "),
    "another table": (GOOD.replace('{"counts": pd', '{"sums": pd'), "table 'sums' is missing"),
}


@pytest.fixture
def add_analysis(tmp_path, monkeypatch, trained):
    """Return a function that adds one file to `carry.analyses` and one line to the profile."""
    folder = tmp_path / "analyses"
    folder.mkdir()
    monkeypatch.setattr(analyses, "__path__", [*analyses.__path__, str(folder)])
    trained(FIVE)
    monkeypatch.setattr(executors, "execute", run_here)  # other processes know no such file

    def add(source, *names):
        (folder / "mine.py").write_text(source, encoding="utf-8")
        (folder / "yours.py").write_text(source, encoding="utf-8")
        monkeypatch.setattr(profiles, "load_profile", lambda name: profile_with(*names))
        for name in ("mine", "yours"):
            monkeypatch.delitem(sys.modules, f"carry.analyses.{name}", raising=False)
            monkeypatch.delattr(analyses, name, raising=False)
        importlib.invalidate_caches()

    yield add
    for name in ("mine", "yours"):
        sys.modules.pop(f"carry.analyses.{name}", None)


def run_here(tasks, report):
    for task in tasks:
        executors.perform_task(report, task)


def test_one_file_and_one_line_add_an_analysis(add_analysis):
    add_analysis(GOOD, "mine")
    folder, tables = analyses.analyse_study("mine", "cpu")
    pd.testing.assert_frame_equal(pd.read_parquet(folder / "counts.parquet"), tables["counts"])
    add_analysis(GOOD, "mine", "yours")
    with pytest.raises(SettingsError, match="yours: table 'counts' is one of .*/mine too; exp"):
        analyses.analyse_study("mine", "cpu")
    add_analysis(GOOD, "mien")
    with pytest.raises(SettingsError, match="unknown analysis 'mien', did you mean 'mine'"):
        analyses.analyse_study("mine", "cpu")


@pytest.mark.parametrize("case", BAD)
def test_an_analysis_that_breaks_the_contract_is_refused_in_one_line(case, add_analysis):
    source, message = BAD[case]
    add_analysis(source, "mine")
    with pytest.raises(SettingsError) as error:
        analyses.analyse_study("mine", "cpu")
    assert message in str(error.value) and "\n" not in str(error.value), error.value
    assert not paths.analyses_folder("cpu", "mine").exists()


def test_tables_of_the_local_adder_have_their_columns():
    system = System(load_run("addition_relative", "cpu"))
    found = local_adder.adder_tables(system)
    for name, table in found.items():
        assert set(results.create_empty_table(name)) == {"row", "profile", "seed", *table.columns}
