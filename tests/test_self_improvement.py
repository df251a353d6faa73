"""Rounds of self-improvement: who votes, what is trained on, and what the table says."""

import pytest
import torch

from carry.analyses import self_improvement
from carry.config.settings import SettingsError
from carry.experiments.resolve import make_run
from carry.models.system import System
from carry.randomness import stream
from mock_models import Oracle

LEARNED = {"ids": "abacus", "encoding": "learned", "per_example": True}


def run_of(limit=14, **more):
    return make_run(
        {
            "task": {"name": "addition"},
            "positions": [LEARNED | {"limit": limit}],
            "model": {"width": 8, "heads": 1},
            "training": {"digits": 3, "steps": 1, "batch": 8, "score_problems": 8},
            "evaluation": {"digits": 6},
            **more,
        }
    )


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch):
    changes = {"DRAWN": 40, "KNOWN": 30, "LONGER": 5, "ASKED": 10}
    for name, value in (changes | {"ROUND": {"steps": 2, "batch": 8}}).items():
        monkeypatch.setattr(self_improvement, name, value)


def test_a_model_that_is_right_from_every_start_labels_all_sums():
    oracle = Oracle(run_of())
    problems = oracle.task.draw(60, 8, stream(0, "vote"))
    answer, length, agreed = self_improvement.vote(oracle, problems)
    assert agreed.all() and torch.equal(answer, problems.answer)
    assert torch.equal(length, problems.answer_length)


def test_answers_that_differ_between_starts_get_no_label(monkeypatch):
    """Nor do those that are no numbers, or too long; the other rows keep their answers."""
    oracle = Oracle(run_of())
    problems = oracle.task.draw_for_cells(torch.full((4, 2), 5), stream(0, "vote"))
    decode = self_improvement.decode_greedily

    def decode_wrongly(system, problems, start):
        response = decode(system, problems, start).clone()
        response[0, 0] = start % 10  # another digit from each start
        response[1, 2] = 10  # a sign
        response[2, :] = 7  # no end
        return response

    monkeypatch.setattr(self_improvement, "decode_greedily", decode_wrongly)
    answer, length, agreed = self_improvement.vote(oracle, problems)
    assert agreed.tolist() == [False, False, False, True]
    assert torch.equal(answer[3], problems.answer[3]) and length[3] == problems.answer_length[3]


def test_rounds_go_to_the_last_sum_that_has_several_starts():
    system = System(run_of())
    table = self_improvement.tables(system)["rounds"]
    assert table["digits"].tolist() == [3, 8, 10]  # 14 ids: from 1 to 4 on, with 11 in a sum
    assert table["drawn"].tolist()[1:] == [40, 40] and (table["n"] == 10).all()
    assert (table["right_labels"] <= table["labelled"])[1:].all()
    again = self_improvement.tables(System(run_of()))["rounds"]
    assert table.equals(again)


def test_labels_of_the_model_are_trained_on_as_they_are(monkeypatch):
    """True short sums, and of the longer ones those with a label, right or wrong."""
    system, seen = System(run_of(8)), []
    train = self_improvement.train_on
    wrong = torch.arange(40) % 2 == 0

    def vote(system, problems):
        answer = problems.answer.clone()
        answer[wrong, 0] = (answer[wrong, 0] + 1) % 10
        return answer, problems.answer_length, torch.arange(40) < 30

    monkeypatch.setattr(self_improvement, "vote", vote)
    monkeypatch.setattr(
        self_improvement, "train_on", lambda *args: seen.append(args[1]) or train(*args)
    )
    rounds = [*self_improvement.improve(system)]
    assert [of["digits"] for of in rounds] == [3, 4]
    (examples,) = seen
    assert len(examples) == 30 + 30
    solved = system.task.solve(examples.operands, examples.lengths)
    right = (examples.answer == solved.answer).all(1)
    assert right[:30].all() and right[30:].sum() == 15 == rounds[1]["right_labels"]
    assert (examples.lengths[30:] == 4).all() and (examples.lengths[:30] <= 3).all()


def test_ids_without_an_end_are_refused():
    free = run_of(positions=[{"ids": "abacus", "encoding": "relative"}])
    with pytest.raises(SettingsError, match="expected positions with a table of ids"):
        self_improvement.tables(System(free))
