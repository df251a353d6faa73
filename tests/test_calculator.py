"""The calculator: rows against Python's integers, marks, contexts, and questions as text."""

import functools
import itertools
import re

import pytest
import torch

from carry import cli, formats, tasks
from carry.certificates.contexts import (
    compute_context_keys,
    concatenate_contexts,
    iterate_contexts,
)
from carry.certificates.verification import enumerate_contexts
from carry.config.settings import SettingsError
from carry.data.problem_sets import to_table
from carry.evaluation.ask import ask, read_answer
from carry.evaluation.scoring import score_system
from carry.experiments.resolve import make_run
from carry.formats import ALPHABET, EOS, to_text
from carry.formats.longhand import mark_tokens
from carry.models.system import System
from carry.randomness import stream
from carry.tasks import to_digits
from carry.tasks.calculator import OPERATIONS
from mock_models import Oracle

WINDOWS = [[0, 1], [5, 0], [0, 1]]
POSITIONS = [
    {"ids": "coupled", "level": level, "encoding": "relative", "window": window}
    for level, window in enumerate(WINDOWS, start=1)
]
SETTINGS = {
    "format": {"name": "longhand"},
    "positions": POSITIONS,
    "model": {"layers": 1, "width": 8, "heads": 1},
}


def settings_of(operations):
    return {**SETTINGS, "task": {"name": "calculator", "operations": operations}}


def calculate(*texts):
    """Return problems of questions such as "85/7"."""
    task = tasks.build_task({"name": "calculator"})
    return task.solve(*to_digits([task.parse_question(text) for text in texts]))


def with_long_carries(task, problems):
    """Return problems whose digits are 0 and 9."""
    digits = problems.operands[:, :2] % 2 * 9
    top = (problems.lengths[:, :2, None] - 1).clamp(min=0)
    digits = digits.scatter(2, top, 9)
    operands = torch.cat([digits, problems.operands[:, 2:]], dim=1)
    return task.solve(operands, problems.lengths)


def texts(batch):
    for row in range(len(batch)):
        text = to_text(batch.tokens[row, : batch.length[row]])
        yield text[: batch.start[row]], text[batch.start[row] :]


def operation_token(operation):
    return ALPHABET.index(":" if operation == "/" else operation)


@functools.cache
def oracle(operations=OPERATIONS):
    return Oracle(make_run(settings_of(operations)))


class WrongThirdRow(Oracle):
    """Writes another first digit in the third row."""

    def respond(self, question):
        rows = re.findall(r"\d+[-+]", super().respond(question))
        if len(rows) > 2:
            rows[2] = rows[2][0] + str((int(rows[2][1]) + 1) % 10) + rows[2][2:]
        return "".join(rows) + "$"


@pytest.mark.parametrize("kind", [Oracle, WrongThirdRow])
def test_only_responses_that_have_a_row_count_for_it(kind):
    """Responses to problems of one size have 1 to 22 rows."""
    system = kind(make_run(settings_of(OPERATIONS)))
    problems = system.task.draw_for_cells(torch.tensor([[2, 2]] * 40), stream(0, "steps"))
    rows = [len(re.findall(r"[-+]", text)) for _, text in texts(system.format.write(problems))]
    assert len({*rows}) > 5
    n = [sum(count > step for count in rows) for step in range(max(rows))]
    is_wrong = [kind is WrongThirdRow and step == 2 for step in range(max(rows))]
    table = to_table("equal", torch.tensor([[2, 2]] * 40), problems, system.task)
    steps = score_system(system, table)[2]
    assert steps["n"].tolist() == n
    right = [0 if wrong else count for count, wrong in zip(n, is_wrong, strict=True)]
    assert steps["correct"].tolist() == right
    assert steps["first_wrong"].tolist() == [a - b for a, b in zip(n, right, strict=True)]


@pytest.mark.parametrize(("question", "answer"), [
    ("999+1", "1000"), ("0+0", "0"),
    ("52-37", "15"), ("37-52", "-15"), ("37-37", "0"), ("1000-999", "1"), ("0-1000", "-1000"),
    ("99*99", "9801"), ("0*50", "0"), ("50*0", "0"), ("10*203", "2030"),
    ("85/7", "12r1"), ("7/85", "0r7"), ("0/3", "0r0"), ("999/1", "999r0"), ("1000/10", "100r0"),
    ("123456789/3607", "34227r0"),
])  # fmt: skip
def test_answers_are_read_from_rows(question, answer):
    system = oracle()
    operands = system.task.parse_question(question)
    assert system.task.solve_text(*operands) == answer
    steps = ask(system, *operands)
    assert read_answer(system, steps) == answer
    assert (steps["predicted"] == steps["target"]).all()


def test_a_response_reads_back():
    system = oracle()
    problems = system.task.draw(400, 5, stream(0, "read"))
    _, target, real = system.format.write(problems).response()
    read = system.format.read(torch.where(real, target, EOS))
    for row, symbols in enumerate(read):
        answer = problems.answer[row, : problems.answer_length[row]].tolist()
        assert to_text(symbols[symbols != EOS]) == system.task.write_answer(answer)


def test_marks_depend_on_the_tokens_so_far():
    """In decoding, later tokens do not exist yet."""
    system = oracle()
    batch = system.format.write(system.task.draw(60, 3, stream(0, "marks")))
    for row, cut in itertools.product(range(0, 60, 3), (0, 1, 4, 9)):
        one = batch[row : row + 1].trim()
        end = min(int(one.start) + cut, int(one.length))
        part = mark_tokens(one.tokens[:, :end], one.start, torch.tensor([end]))
        for mark in ("number", "place", "levels"):
            assert torch.equal(getattr(part, mark), getattr(one, mark)[:, :end])


def test_distances_of_rows_tell_their_kind():
    batch = oracle().format.write(calculate("85/7"))
    text, row = to_text(batch.tokens[0]), batch.levels[0, :, 1]
    starts = [0, *(index + 1 for index, sign in enumerate(text) if sign in "+-" and index > 4)][1:]
    rows = [0, 3, *row[starts[:-1]].tolist()]
    kinds = [later - earlier for earlier, later in itertools.pairwise(rows)]
    assert kinds == [3, 4, 4, 5, 3, 4, 4, 4, 5]


def keys_of(system, contexts):
    return {tuple(row[row >= 0].tolist()) for row in compute_context_keys(system, contexts)}


@pytest.mark.parametrize(
    "operation", [*"+-", *(pytest.param(sign, marks=pytest.mark.slow) for sign in "*/")]
)
def test_long_problems_have_no_other_contexts(operation):
    """Nor do two problems share a context that goes on differently.

    The first token of a context is the operation, so no two operations share one.
    """
    system = System(make_run(settings_of(operation)))
    enumerated = enumerate_contexts(system)
    known, met = keys_of(system, enumerated.contexts), set()
    assert enumerated.complete and len(known) == len(enumerated.contexts)
    assert (enumerated.contexts.tokens[:, 0] == operation_token(operation)).all()
    for i, j in ((1, 1), (2, 1), (1, 2), (3, 3), (6, 2), (2, 6), (9, 9)):
        count = 80 if operation in "+-" or i * j < 10 else 6
        drawn = system.task.draw_for_cells(torch.tensor([[i, j]] * count), stream(0, "known", i, j))
        for problems in (drawn, with_long_carries(system.task, drawn)):
            contexts = concatenate_contexts(list(iterate_contexts(system, problems)))
            keys = keys_of(system, contexts)
            assert keys <= known
            met |= keys
    assert len(met) > 1000


@pytest.mark.parametrize(("text", "message"), [
    ("7/0", "operands.1: 0 does not fit a division, which has no result; expected a divisor"),
    ("7/00", "operands.1: 0"),
    ("7%2", "operands: '7%2' has no operation that fits; expected one of + - * /"),
    ("7", "operands: '7' has no operation that fits"),
    ("1+2+3", "operands: '1+2+3' has 3 numbers; expected 2"),
    ("-7", "operands.0: '' is not a number that can be asked; expected 1 to"),
])  # fmt: skip
def test_questions_that_have_no_answer_are_refused(text, message):
    system = oracle()
    with pytest.raises(SettingsError, match="^" + re.escape(message)):
        ask(system, *system.task.parse_question(text))


def test_operations_that_a_row_lacks_are_refused():
    with pytest.raises(SettingsError, match="^operands: '7/2' has no .* expected one of [+] - "):
        oracle("+-").task.parse_question("7/2")
    for row, code in ((oracle("+-"), 2), (oracle(), 7)):  # the third operand names the operation
        with pytest.raises(SettingsError, match=f"^operands.2: '{code}' is .* expected one of 0"):
            ask(row, 12, 5, code)
    with pytest.raises(SettingsError, match="operations"):
        tasks.build_task({"name": "calculator", "operations": "%"})
    with pytest.raises(SettingsError, match="'longhand' does not write Addition; expected"):
        formats.build_format({"name": "longhand"}, tasks.build_task({"name": "addition"}))


def test_the_command_prints_rows_and_the_answer(monkeypatch, capsys):
    monkeypatch.setattr("carry.evaluation.trained_models.load_seed", lambda *given: oracle())
    row = ["--row", "calculator_relative_longhand"]
    cli.run_command(["ask", "37 - 52", *row])
    assert capsys.readouterr().out.splitlines() == ["1:  85 -", "0:  15", "-15"]
    cli.run_command(["ask", "123456789 / 3607", *row])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "0:  00001" and lines[-1] == "34227r0"
    counts = ("0" + "123456789"[: int(digit) + 1] + digit for digit in "000034227")
    assert [line[0] for line in lines[:-1]] == [*"".join(counts)]
