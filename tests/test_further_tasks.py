"""Subtraction, comparison, the next number, other bases: texts, contexts, refused operands."""

import pytest
import torch

from carry import formats, tasks
from carry.certificates.contexts import (
    ConflictingContexts,
)
from carry.certificates.verification import enumerate_contexts
from carry.config.settings import SettingsError
from carry.data import problem_sets
from carry.evaluation.ask import ask, make_problem, read_answer
from carry.evaluation.scoring import score_system
from carry.experiments import load_rows
from carry.experiments.resolve import make_run
from carry.formats import to_text
from carry.models.system import System
from carry.randomness import stream
from carry.tasks import to_digits
from mock_models import Oracle

PLACES = {"ids": "coupled", "encoding": "relative", "window": [0, 1]}
NUMBERS = {"ids": "coupled", "level": 2, "encoding": "relative", "window": [2, 0]}
STEPS = {"name": "scratchpad", "reverse_operands": True}
MODEL = {"layers": 1, "width": 8, "heads": 1}
CASES = {
    "subtraction": ({"name": "subtraction"}, STEPS, [PLACES, NUMBERS]),
    "comparison": ({"name": "comparison"}, STEPS, [PLACES, NUMBERS]),
    "after": ({"name": "increment"}, {}, [PLACES]),
    "before": ({"name": "increment", "down": True}, {"pad": "answer"}, [PLACES]),
    "base 2": ({"name": "addition", "radix": 2}, {}, [PLACES]),
    "base 5": ({"name": "addition", "radix": 5}, {}, [{**PLACES, "ids": "abacus"}]),
    "base 11": ({"name": "addition", "radix": 11}, {}, [PLACES]),
}


def build(name, kind=System, **changes):
    task, form, positions = CASES[name]
    settings = {"task": task, "format": form, "positions": positions, "model": MODEL}
    return kind(make_run({**settings, **changes}))


@pytest.mark.parametrize("name", ["subtraction", "comparison"])
def test_one_level_cannot_tell_two_numbers_apart(name):
    with pytest.raises(ConflictingContexts):
        enumerate_contexts(build(name, positions=[PLACES]))


@pytest.mark.parametrize("name", ["subtraction", "before"])
def test_no_step_sees_which_zeros_lead(name):
    plain = {**STEPS, "pad": False} if name == "subtraction" else {}
    with pytest.raises(ConflictingContexts):
        enumerate_contexts(build(name, format=plain))


@pytest.mark.parametrize(("name", "operands", "text", "answer"), [
    ("subtraction", ["603", "49"], "^306-94=455$", "554"),
    ("subtraction", ["1000", "999"], "^0001-999=1000$", "1"),
    ("comparison", ["603", "49"], "^306-94=221$", "1"),
    ("comparison", ["649", "652"], "^946-256=122$", "2"),
    ("comparison", ["70", "70"], "^07-07=00$", "0"),
    ("after", ["299"], "^992=003$", "300"),
    ("after", ["9"], "^9=01$", "10"),
    ("before", ["1000"], "^0001=9990$", "999"),
    ("base 2", ["111", "1"], "^111+1=0001$", "1000"),
    ("base 11", ["aa", "1"], "^aa+1=001$", "100"),
])  # fmt: skip
def test_problems_as_text(name, operands, text, answer):
    system = build(name, Oracle)
    problems = system.task.solve(*to_digits([operands], system.task.base))
    assert to_text(system.format.write(problems).tokens[0]) == text
    assert system.task.solve_text(*operands) == answer
    steps = ask(system, *operands)
    assert (steps["predicted"] == steps["target"]).all()
    assert read_answer(system, steps) == answer


@pytest.mark.parametrize("down", [False, True])
def test_half_of_the_digits_carry(down):
    task = tasks.build_task({"name": "increment", "down": down})
    problems = task.draw_for_cells(torch.tensor([[6, 6]] * 1000), stream(0, "carries"))
    digits = problems.operands[:, 0, :5]
    share = (digits == (0 if down else 9)).float().mean()
    assert 0.5 < share < 0.6  # and a tenth of the other half


def test_letters_are_digits_of_large_bases():
    task = tasks.build_task({"name": "addition", "radix": 60})
    problems = task.draw(500, 6, stream(0, "base"))
    assert problems.operands.max() == 59 and problems.answer.max() == 59
    batch = formats.build_format({}, task).write(problems)
    assert batch.tokens.max() == formats.build_format({}, task).vocabulary_size() - 1
    assert task.solve_text("X", "1") == "10" and task.solve_text("zX", "2") == "A1"
    for name, value in (("digit_sum", 117), ("carry_made", 1)):
        assert task.compute_steps(problems)[name].max() == value


@pytest.mark.parametrize(("name", "operands", "message"), [
    ("subtraction", ["49", "603"], "operands.1: it is larger than operands.0; expected the larger"),
    ("before", ["00"], "operands.0: no natural number is before 0; expected a number from 1"),
    ("base 2", ["12", "1"], "operands.0: '12' is not a number .* digits 0 to 1"),
    ("base 11", ["b", "1"], "operands.0: 'b' is not a number .* digits 0 to a"),
])  # fmt: skip
def test_operands_that_a_task_lacks_are_refused(name, operands, message):
    with pytest.raises(SettingsError, match=f"^{message}"):
        ask(build(name, Oracle), *operands)


def test_numbers_beyond_the_modulus_are_refused():
    task = tasks.build_task({"name": "modular_addition"})
    with pytest.raises(SettingsError, match="^operands: '113' does not fit modulus 113; expected"):
        make_problem(task, ["112", "113"])


@pytest.mark.parametrize(("settings", "message"), [
    ({"format": {"name": "sub_task", "prefix": "car"}}, "'sub_task' does not fit base 11"),
    ({"format": {"hints": "cyclic"}}, "hints 'cyclic' do not fit base 11, whose digits are"),
    ({"positions": [{**PLACES, "ids": "abacus"}]}, "'abacus' .* letters of base 11; expected"),
])  # fmt: skip
def test_letters_that_nothing_else_may_be(settings, message):
    with pytest.raises(SettingsError, match=message):
        build("base 11", **settings)


ROWS = [row for row in load_rows().values() if row.study == "further_tasks"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_further_task_is_scored(row):
    """Kinds of mistakes too, which shift operands and change carries."""
    settings = row.but(row.name).resolve()  # also of a row that no scale has
    names = ("task", "format", "positions", "model")
    run = make_run({name: settings[name] for name in names if name in settings})
    settings = {"task": run.task, "equal": 3, "longest": 3}
    problem_set = problem_sets.ProblemSet.parse(settings, "mine")
    cells, *_ = score_system(System(run), problem_sets.draw_problem_set("mine", problem_set))
    assert set(cells["n"]) == {3}
