"""Fast answers and steps against Python's own integers; lengths and digits as documented."""

import pytest
import torch
from scipy.stats import chisquare

from carry import problem_sets, tasks
from carry.randomness import stream
from carry.settings import parts
from carry.tasks import to_int

SAMPLINGS = ["stratified", "equal", "random"]


@pytest.fixture(params=parts("carry.tasks"))
def task(request):
    return tasks.build({"name": request.param})


def integers(problems):
    rows = zip(problems.operands, problems.lengths, strict=True)
    return [
        [to_int(d, n) for d, n in zip(digits, lengths, strict=True)] for digits, lengths in rows
    ]


@pytest.mark.parametrize("digits", [1, 2, 7, 25])
def test_answers_agree_with_the_oracle(task, digits):
    problems = task.draw(2_000, digits, stream(0, "test", digits))
    for operands, answer, length in zip(
        integers(problems), problems.answer, problems.answer_length, strict=True
    ):
        assert to_int(answer, length) == task.oracle(*operands)
        assert len(str(task.oracle(*operands))) == length
        assert not answer[length:].any()


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_lengths_and_leading_digits(sampling):
    task = tasks.build({"name": "addition", "sampling": sampling})
    problems = task.draw(3_000, 6, stream(1, "test"))
    assert problems.lengths.min() == 1 and problems.lengths.max() == 6
    lead = problems.operands.gather(2, problems.lengths[:, :, None] - 1)[:, :, 0]
    assert (lead[problems.lengths > 1] > 0).all()
    assert (lead[problems.lengths == 1] == 0).any()
    beyond = torch.arange(6) >= problems.lengths[:, :, None]
    assert not problems.operands[beyond].any()
    if sampling == "equal":
        assert (problems.lengths[:, 0] == problems.lengths[:, 1]).all()


def test_stratified_cells_are_equally_frequent():
    lengths = tasks.build({"name": "addition"}).lengths(2_530, 5, stream(0, "test"))
    counts = torch.bincount((lengths[:, 0] - 1) * 5 + lengths[:, 1] - 1)
    assert counts.min() == 101 and counts.max() == 102  # 2,530 = 25 * 101 + 5


def test_digits_are_uniform():
    """A chi-squared test over ten digits; false alarm 1 in 1,000, but the seed is fixed."""
    task = tasks.build({"name": "addition"})
    problems = task.sample(torch.full((5_000, 2), 4), stream(0, "uniform"))
    inner = problems.operands[:, :, :3].flatten()
    assert chisquare(torch.bincount(inner.long(), minlength=10).numpy()).pvalue > 0.001
    lead = problems.operands[:, :, 3].flatten()
    assert chisquare(torch.bincount(lead.long(), minlength=10)[1:].numpy()).pvalue > 0.001


def test_steps_of_addition_against_pencil_and_paper():
    task = tasks.build({"name": "addition"})
    problems = task.draw(500, 8, stream(2, "test"))
    steps = task.steps(problems)
    for row, (a, b) in enumerate(integers(problems)):
        carry = 0
        for place in range(problems.answer.shape[1]):
            total = a // 10**place % 10 + b // 10**place % 10
            assert steps["digit_sum"][row, place] == total
            assert steps["carry_used"][row, place] == carry
            assert steps["cascade"][row, place] == (total == 9 and carry == 1)
            carry = int(total + carry >= 10)
            assert steps["carry_made"][row, place] == carry


def test_the_longest_cascade():
    task = tasks.build({"name": "addition"})
    problems = task.solve(*tasks.to_digits([[10**40 - 1, 1]]))
    assert to_int(problems.answer[0], problems.answer_length[0]) == 10**40
    assert task.steps(problems)["cascade"].sum() == 39


def test_problem_sets_do_not_move():
    settings = {
        "task": {"name": "addition"},
        "grid": 4,
        "each": 3,
        "equal": 2,
        "far": [{"digits": 60, "each": 2}],
    }
    first = problem_sets.draw("mine", problem_sets.ProblemSet.parse(settings, "problems.mine"))
    more = {**settings, "equal": 5, "far": [{"digits": 60, "each": 2}, {"digits": 80, "each": 1}]}
    second = problem_sets.draw("mine", problem_sets.ProblemSet.parse(more, "problems.mine"))
    same = ["set", "i", "j", "a", "b", "answer"]
    grids = [table[table["set"] == "grid"][same] for table in (first, second)]
    assert grids[0].equals(grids[1])
    assert all(int(a) + int(b) == int(c) for a, b, c in second[["a", "b", "answer"]].to_numpy())
    assert (second["a"].str.len() == second["i"]).all()
