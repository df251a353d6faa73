"""Attention by place, in every layout, and the steps at which digits are learned."""

import pandas as pd
import pytest
import torch

from carry.analyses import milestones
from carry.analyses.alignment import average_by_place, tabulate
from carry.experiments.resolve import make_run
from carry.interpretability.attention import read_attention
from carry.models.system import System
from carry.randomness import stream
from carry.training.loop import Trainer

FORMATS = {
    "reversed": {},
    "plain": {"reverse_operands": False, "reverse_answer": False},
    "spaced": {"reverse_operands": False, "reverse_answer": False, "spaces": 0.5},
    "padded": {"pad_to": 5},
}


def built(form, **training):
    small = {"digits": 3, "steps": 4, "batch": 8, "snapshot_every": 1}
    return System(
        make_run(
            {
                "task": {"name": "addition"},
                "format": form,
                "model": {"layers": 2, "width": 16, "heads": 2},
                "training": {**small, **training},
                "evaluation": {"digits": 4},
            }
        )
    )


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
def test_attention_by_place_is_that_of_each_problem(form):
    system = built(form)
    problems = system.task.draw_for_cells(torch.full((7, 2), 3), stream(0, "alignment"))
    weights, counts = average_by_place(system, problems)
    batch, expected, found = system.format.write(problems), torch.zeros_like(weights), [0] * 3
    for layer, pattern in enumerate(read_attention(system, batch)):
        for row in range(len(problems)):
            start, end = int(batch.start[row]), int(batch.length[row])
            for at in range(start, end):
                writes = int(batch.place[row, at])
                if not 0 <= writes < 3:
                    continue
                found[writes] += layer == 0
                for key in range(start):
                    operand, place = int(batch.number[row, key]), int(batch.place[row, key])
                    if operand and 0 <= place < 3:
                        expected[layer, :, writes, operand - 1, place] += pattern[
                            row, :, at - 1, key
                        ]
    assert counts.tolist() == found
    torch.testing.assert_close(weights, expected / torch.tensor(found)[:, None, None])
    tables = dict(tabulate(weights, counts))
    aligned = tables["aligned"]
    assert aligned["best"].sum() == 1 and (aligned["n"] == sum(found)).all()
    own = tables["alignment"].query("writes == place and layer == 1 and head == 0")
    share = aligned.query("layer == 1 and head == 0")["share"].item()
    assert share == pytest.approx((own["weight"] * own["n"]).sum())
    assert aligned["share"].max() <= aligned["n"].max() + 1e-3


def test_milestones_are_the_first_snapshots_with_half_of_the_digits():
    scores = pd.DataFrame(
        [(3, 0, 20, 9), (3, 1, 20, 10), (6, 0, 20, 12), (6, 1, 20, 3), (6, 2, 20, 9)],
        columns=["step", "place", "n", "correct"],
    )
    table = milestones.find_first(scores.sample(frac=1, random_state=0), 3)
    assert table["step"].tolist() == [6, 3, 9] and table["reached"].tolist() == [True, True, False]
    assert table["from_top"].tolist() == [2, 1, 0] and table["n"].tolist() == [1] * 3


def test_milestones_of_a_trained_row(monkeypatch):
    """Of its own snapshots, in order; a model that knows all digits has learned them at once."""
    trainer = Trainer(built({}).run, 0, None).train()
    system, steps = trainer.system, [*trainer.snapshots]
    assert steps == [1, 2, 3, 4]
    table = pd.DataFrame({"set": "equal", "i": 3, "j": 3, "operands": ["123 456", "908 117"]})
    monkeypatch.setattr(
        milestones.problem_sets, "load_questions", lambda run: table.assign(label=0)
    )
    monkeypatch.setattr(milestones, "load_steps", lambda system: iter(steps))
    for share, expected in ((0.0, 1), (2.0, 5)):
        monkeypatch.setattr(milestones, "LEARNED", share)
        found = milestones.tables(system)["milestones"]
        assert found["step"].tolist() == [expected] * 3 and (found["digits"] == 3).all()
