"""Analyses of trained rows, and what they say of models whose faults are known."""

import pandas as pd
import pytest
import torch

from carry import analyses
from carry.analyses import heads, subtasks
from carry.config import paths
from carry.config.run_settings import make_run
from carry.config.settings import SettingsError
from carry.data import problem_sets
from carry.evaluation.mock_models import ForgetsCarries, Oracle
from carry.plots import load
from carry.tasks import build
from carry.training.batched.trainer import BatchedTrainer
from carry.training.loop import Trainer, save_snapshots, save_weights

NOISY = make_run({
    "task": {"name": "noisy_majority"}, "seeds": 1,
    "model": {"width": 6, "heads": 3, "feed_forward": False, "output": False},
    "training": {"batched_seeds": True, "digits": 8, "examples": 80, "steps": 6, "batch": 20,
                 "score_every": 3, "score_problems": 20},
}, "noisy_majority_d6_a3", "cpu")  # fmt: skip
FIVE = make_run({
    "task": {"name": "addition", "sampling": "longest"}, "seeds": 1,
    "format": {"pad": True, "reverse_operands": False, "reverse_answer": False},
    "positions": [{"ids": "index", "encoding": "learned", "table": 20}],
    "model": {"layers": 1, "width": 12, "heads": 2},
    "training": {"digits": 3, "steps": 4, "batch": 8, "snapshot_every": 2}, "evaluation": {"digits": 3},
}, "addition_mine", "cpu")  # fmt: skip


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """Return what trains one seed of a run, and keeps it as the train stage does."""
    monkeypatch.setattr(paths, "ROOT", tmp_path)

    def keep(given):
        monkeypatch.setattr("carry.config.run_settings.load_run", lambda row, profile: given)
        folder = paths.data_path("cpu", "runs", given.name)
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
    for name, table in found.items():
        assert set(load.OPTIONAL[name]) <= {*table.columns} and (table["n"] == 40).all()
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
    for name, table in found.items():
        assert set(load.OPTIONAL[name]) <= {*table.columns}
        assert table["step"].unique().tolist() == [2, 4]
        assert (table["low"] <= table["high"]).all()
    by_place = found["subtasks"].query("step == 4").set_index(["subtask", "place"])["n"]
    problems = subtasks.drawn(build(FIVE.task), 3)
    whole = by_place.unstack("subtask").fillna(0)
    into = whole[["base_add", "use_carry", "use_sum_9"]].sum(axis=1)
    assert (into.iloc[:3] == len(problems)).all()  # one of the three, at every place of the sum
    assert 0 < into.iloc[3] < len(problems)  # the highest digit is but a carry


def test_a_model_that_forgets_carries_fails_where_they_are_used():
    """Right where no carry comes in, wrong where one does; the oracle is right everywhere."""
    for kind, share in ((Oracle, 1.0), (ForgetsCarries, 0.0)):
        system = kind(FIVE)
        problems = subtasks.drawn(system.task, 3)
        labels = subtasks.labelled(system.task, problems)
        seen = subtasks._seen(system, problems)
        table = subtasks._by_place(system, problems, seen, labels)
        right = table.groupby("subtask")[["n", "correct"]].sum()
        right = (right["correct"] / right["n"]).to_dict()
        assert right["base_add"] == 1.0 and right["use_carry"] == right["use_sum_9"] == share


@pytest.mark.parametrize("digits", [1, 2, 5])
def test_every_cascade_is_drawn_and_steps_tell_it(digits):
    task = build({"name": "addition"})
    problems = subtasks.drawn(task, digits)
    long = subtasks.cascade(task, problems)[subtasks.EVEN :]
    expected = [subtasks.EACH * (digits - by) for by in range(digits)]
    assert long.bincount().tolist() == expected
    carries = task.steps(problems)["carry_used"][subtasks.EVEN :].sum(1)
    assert torch.equal(carries.long(), long + 1)  # the one that is made, and each that is passed on


def test_what_is_kept_is_what_is_returned(trained, monkeypatch):
    trained(FIVE)
    monkeypatch.setattr(
        "carry.config.profiles.load_profile", lambda profile: {"analyses": {FIVE.name: "subtasks"}}
    )
    folder, found = analyses.analyse(FIVE.name, "cpu")
    assert folder == paths.reports_path("cpu", "results", "cpu", paths.ANALYSES, FIVE.name)
    for name, table in found.items():
        pd.testing.assert_frame_equal(pd.read_parquet(folder / f"{name}.parquet"), table)
    with pytest.raises(SettingsError, match="analyses: 'none' is not there"):
        analyses.analyse("none", "cpu")
