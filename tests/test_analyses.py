"""Analyses of trained rows: the contract of every module, and models with known faults."""

import importlib
import math
import sys

import pandas as pd
import pytest
import torch

from carry import analyses
from carry.analyses import heads, subtasks
from carry.config import paths
from carry.config.settings import SettingsError, list_modules
from carry.data import problem_sets
from carry.evaluation import trained_models
from carry.evaluation.decoding import compute_decoding_ids
from carry.evaluation.scoring import score
from carry.experiments.resolve import make_run
from carry.models.system import System
from carry.models.teacher_forcing import teacher_forced_pass
from carry.randomness import stream
from carry.tasks import build_task
from carry.training.jobs import train_runs
from mock_models import ForgetsCarries, Oracle

NOISY = make_run({
    "task": {"name": "noisy_majority"}, "seeds": 1,
    "model": {"width": 6, "heads": 3, "feed_forward": False, "output": False},
    "training": {"batched_seeds": True, "digits": 8, "examples": 80, "steps": 6, "batch": 20,
                 "score_every": 3, "score_problems": 20},
}, "noisy_majority_d8_a4")  # fmt: skip
FIVE = make_run({
    "task": {"name": "addition", "sampling": "longest"}, "seeds": 1,
    "format": {"pad": True, "reverse_operands": False, "reverse_answer": False},
    "positions": [{"ids": "index", "encoding": "learned", "table": 20}],
    "model": {"layers": 1, "width": 12, "heads": 2},
    "training": {"digits": 3, "steps": 4, "batch": 8, "snapshot_every": 2},
    "evaluation": {"digits": 3},
}, "addition_five_digits")  # fmt: skip


@pytest.fixture
def train(tmp_path, monkeypatch):
    """Return what trains the seed of a run, in a store of its own, and returns the run."""
    monkeypatch.setattr(paths, "STORE", tmp_path / "store")
    monkeypatch.setattr(problem_sets, "load_questions", lambda run: pd.DataFrame({"i": [1]}))

    def train(run):
        train_runs([run])
        return run

    return train


def test_tables_of_heads(train, monkeypatch):
    train(NOISY)
    ranges = {"test": [9, 12, 40]}
    given = problem_sets.ProblemSet.parse({"task": NOISY.task, "ranges": ranges}, "problems")
    asked = problem_sets.draw_problem_set("mine", given)
    monkeypatch.setattr(problem_sets, "load_questions", lambda of: asked)
    found = analyses.analyse_seeds(heads, NOISY)
    assert set(found) == set(heads.COLUMNS)
    assert all((table["n"] == 40).all() for table in found.values())
    sets = found["separations"]
    assert sets["size"].value_counts().to_dict() == {1: 3, 2: 3, 3: 1}
    assert sets["separation"].between(0, 1).all() and sets["learned"].between(0, 1).all()
    best = {"learned": "part_learned", "separation": "part_separation"}
    for kind, part in best.items():
        by_set = {frozenset(row.heads.split()): getattr(row, kind) for row in sets.itertuples()}
        for row in sets.itertuples():
            inside = [of for heads_of, of in by_set.items() if heads_of < {*row.heads.split()}]
            found_best = getattr(row, part)
            assert found_best == max(inside) if inside else math.isnan(found_best)
    single = sets[sets["size"] == 1]["separation"].tolist()
    assert found["ratios"]["separation"].tolist() == single
    assert len(found["by_hand"]) == 3 * 2 * len(heads.GRID)
    assert found["outputs"].groupby("head").size().tolist() == [40] * 3


def test_tables_of_subtasks(train):
    found = analyses.analyse_seeds(subtasks, train(FIVE))
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
        seen = score(system, problems)
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
}, "addition_relative")  # fmt: skip


@pytest.mark.parametrize("name", ["reach", "faults", "local_adder"])
def test_an_analysis_of_a_trained_row_returns_its_columns(name, train):
    run = train(LOCAL.model_copy(update={"format": {}}) if name == "faults" else LOCAL)
    module = importlib.import_module(f"carry.analyses.{name}")
    tables = analyses.analyse_seeds(module, run)
    assert set(tables) == set(module.COLUMNS)
    for table in tables.values():
        assert len(table) and set(table["row"]) == {LOCAL.name} and set(table["seed"]) == {0}
    if name == "faults":
        assert tables["learned"]["step"].tolist() == [2, 4]
        wrong = [tables[kind]["wrong"].iloc[-1] for kind in ("verdicts", "learned")]
        assert wrong[0] == wrong[1] > 0
        # Padded numbers: contexts are sampled, and not enumerated.
        tables = analyses.analyse_seeds(module, train(LOCAL))
        assert len(tables["verdicts"]) == 1 and set(tables) == {"verdicts"}


def with_analyses(*names):
    return FIVE.model_copy(update={"analyses": [*names]})


@pytest.mark.parametrize("start", [1, 4, "all", "window"])
def test_many_problems_are_scored_as_each_is_alone(start):
    pair = {"ids": "abacus", "encoding": "learned", "offset": 9}
    system = System(make_run({
        "task": {"name": "addition", "sampling": "equal"}, "positions": [pair],
        "model": {"layers": 1, "recurrences": 2, "injection": "every_layer", "width": 16},
        "training": {"digits": 3}, "evaluation": {"digits": 6},
    }))  # fmt: skip
    with torch.no_grad():
        for weights in system.network.parameters():
            weights += 0.3 * torch.randn(weights.shape, generator=stream(0, "noise"))
    problems = system.task.draw_for_cells(torch.tensor([[6, 6], [4, 5]] * 60), stream(0, "far"))
    alone = []
    with system.read_from(start) as first:
        for problem in map(problems.__getitem__, torch.arange(len(problems)).split(1)):
            batch = system.format.write(problem.trim())
            ids = compute_decoding_ids(system, problem.trim(), batch, first)
            scored = teacher_forced_pass(system, batch, ids_by_start=ids)
            alone.append((bool(scored.exact), int(scored.wrong.sum())))
    found = score(system, problems, start)
    assert [*zip(found.exact.tolist(), found.wrong.sum(1).tolist(), strict=True)] == alone
    plain = teacher_forced_pass(system, system.format.write(problems))
    same = int(found.wrong.sum()) == int(plain.wrong.sum())
    assert same == (start == 1)


def test_equal_work_is_done_once_whatever_it_is_called(train, monkeypatch):
    run = train(with_analyses("subtasks"))
    found = analyses.analyse_runs([run])
    assert {*found} == {*subtasks.COLUMNS}
    assert set(found["cascades"]["row"]) == {FIVE.name}
    monkeypatch.setattr(subtasks, "tables", None)  # is not called again
    renamed = run.model_copy(update={"name": "mine", "scale": "smoke"})
    both = analyses.analyse_runs([run, renamed])
    for name, table in both.items():
        own, other = (part.reset_index(drop=True) for _, part in table.groupby("row", sort=False))
        pd.testing.assert_frame_equal(own, found[name])
        pd.testing.assert_frame_equal(other, own.assign(row="mine", scale="smoke"))


def test_an_analysis_is_repeated_after_a_change_of_weights_or_settings_alone(
    train, tmp_path, monkeypatch
):
    def place(run):
        (job,) = analyses.list_analysis_jobs(run)
        return job.place

    run = train(with_analyses("subtasks"))
    first = place(run)
    assert place(run.model_copy(update={"label": "Five digits", "study": "mine"})) == first
    evaluation = run.evaluation.model_copy(update={"reach": [[3, 3, 1]]})
    assert place(run.model_copy(update={"evaluation": evaluation})) != first
    training = run.training.model_copy(update={"steps": 6})
    assert place(train(run.model_copy(update={"training": training}))) != first
    monkeypatch.setattr(trained_models, "find_snapshots", lambda *asked: tmp_path / "none")
    assert place(run) != first  # of weights that are in git, without snapshots


@pytest.mark.parametrize("name", list_modules("carry.analyses"))
def test_every_analysis_declares_its_contract(name):
    module = importlib.import_module(f"carry.analyses.{name}")
    assert getattr(module, "TASK", "addition") in list_modules("carry.tasks")
    for table, columns in module.COLUMNS.items():
        assert table.isidentifier() and len(columns) == len({*columns}) > 0
        assert {"row", "scale", "seed"} <= {*columns}
    assert callable(module.tables) and "Returns:" in module.tables.__doc__


GOOD = """
import pandas as pd

TASK = "addition"
COLUMNS = {"counts": ("row", "scale", "seed", "n")}


def tables(system):
    return {"counts": pd.DataFrame({"n": [1]})}
"""


@pytest.fixture
def add_analysis(tmp_path, monkeypatch, train):
    """Return a function that adds a file to `carry.analyses`, and returns a run that names it."""
    folder = tmp_path / "analyses"
    folder.mkdir()
    monkeypatch.setattr(analyses, "__path__", [*analyses.__path__, str(folder)])

    def add(source):
        (folder / "mine.py").write_text(source, encoding="utf-8")
        monkeypatch.delitem(sys.modules, "carry.analyses.mine", raising=False)
        monkeypatch.delattr(analyses, "mine", raising=False)
        importlib.invalidate_caches()
        return train(with_analyses("mine"))

    yield add
    sys.modules.pop("carry.analyses.mine", None)


def test_one_file_and_one_line_add_an_analysis(add_analysis):
    tables = analyses.analyse_runs([add_analysis(GOOD)])
    assert tables["counts"].values.tolist() == [[FIVE.name, "laptop", 0, 1]]
    with pytest.raises(SettingsError, match="unknown analysis 'mien', did you mean 'mine'"):
        analyses.analyse_runs([with_analyses("mien")])
    assert analyses.analyse_runs([FIVE]) == {}


def test_an_analysis_of_another_task_is_refused(add_analysis):
    with pytest.raises(SettingsError, match="does not fit task 'addition'; expected 'sorting'"):
        analyses.analyse_runs([add_analysis(GOOD.replace("addition", "sorting"))])
