"""Parts of an addition: the printed examples, Python's strings, and streams of several parts."""

from dataclasses import replace

import pandas as pd
import pytest
import torch

import mock_models
from carry import formats, positions, tasks
from carry.data.batch import NO_LEVEL, NO_PLACE
from carry.data.problem_sets import ProblemSet, draw_problem_set
from carry.data.problems import LABEL_RANGE
from carry.evaluation import mistakes, scoring
from carry.evaluation.ask import ask, read_answer
from carry.evaluation.decoding import decode_greedily
from carry.experiments.resolve import make_run
from carry.experiments.run import SUB_TASKS
from carry.formats import ALPHABET, EOS, PAD, SPACE, to_text
from carry.models.teacher_forcing import TeacherForcedPass
from carry.randomness import stream
from carry.tasks import to_digits
from pythons import assert_places

ADDITION = tasks.build_task({"name": "addition"})
PRINTED = {
    "ali": "ali$1234+4567=1+4,2+5,3+6,4+7$",
    "rev": "rev$1234+4567=4321+7654$",
    "car": "car$1234+4567=---c$",
    "mad": "mad$1234+4567=5791$",
    "add": "add$1234+4567=5801$",
}
ORDERS = [(False, False), (False, True), (True, False), (True, True)]


def form_of(prefix, operands=False, answer=False, spaces=0.0):
    given = {"name": "sub_task", "prefix": prefix, "spaces": spaces}
    return formats.build_format(
        {**given, "reverse_operands": operands, "reverse_answer": answer}, ADDITION
    )


def solved(*numbers):
    return ADDITION.solve(*to_digits([[*pair] for pair in numbers]))


def written(form, *numbers):
    return to_text(form.write(solved(numbers)).tokens[0])


def model(prefix, kind=mock_models.Oracle, form=(), **more):
    """Return a model made by hand."""
    form = {"name": "sub_task", "prefix": prefix, **dict(form)}
    sizes = {"training": {"digits": 3}, "evaluation": {"digits": 5}}
    given = {"task": {"name": "addition"}, "format": form, "model": {"width": 4, "heads": 1}}
    return kind(make_run({**given, **sizes, **more}))


@pytest.fixture(params=SUB_TASKS)
def prefix(request):
    return request.param


@pytest.fixture(params=ORDERS, ids=["plain", "answer", "operands", "both"])
def order(request):
    return request.param


def test_sub_tasks_are_what_pythons_strings_write(prefix, order):
    form = form_of(prefix, *order)
    said = model(prefix, form=dict(zip(("reverse_operands", "reverse_answer"), order,
                                       strict=True))).respond  # fmt: skip
    problems = ADDITION.draw(300, 7, stream(0, "sub-tasks"))
    batch = form.write(problems)
    for row in range(len(problems)):
        numbers = [
            "".join(map(str, problems.operands[row, k, : problems.lengths[row, k]].tolist()))
            for k in range(2)
        ]
        if not form.reverse_operands:
            numbers = [number[::-1] for number in numbers]
        whole = to_text(batch.tokens[row])
        start, length = int(batch.start[row]), int(batch.length[row])
        assert whole[:start] == f"{prefix}${'+'.join(numbers)}="
        assert whole[start:length] == said(whole[:start])
        assert set(whole[length:]) <= {"_"}


def test_marks_name_the_digit_at_their_place(prefix, order):
    form = form_of(prefix, *order)
    problems = ADDITION.draw(300, 5, stream(0, "marks"))
    batch, steps = form.write(problems), ADDITION.compute_steps(problems)
    first, second = problems.operands.unbind(1)
    third = {"add": problems.answer, "mad": steps["digit_sum"] % 10,
             "car": torch.where(steps["carry_generated"] > 0, *map(ALPHABET.index, "c-")),
             }.get(prefix, first)  # fmt: skip
    numbers, places = [first, second, third, second], problems.lengths.amax(1)
    counts = problems.lengths.T.tolist() if prefix == "rev" else [places.tolist()] * 2
    assert_places(batch, numbers)
    for row in range(0, 300, 7):
        for number, of in enumerate(counts, start=3):
            there = int((batch.number[row] == number).sum())
            due = 0 if number == 4 and prefix in ("add", "mad", "car") else of[row]
            assert there == (int(problems.answer_length[row]) if prefix == "add" and due else due)
    assert batch.levels.shape[2] == form.level_count == 2


LEVELS = {  # of both operands in the question and behind it, and of the signs before them
    ("rev", False, False): ("....21.3210120123.", "....1112221112222."),
    ("rev", True, False): ("....12.1233214321.", "....1112221112222."),
    ("ali", True, True): ("....120123011112222333.", "....111222112211221122."),
    ("ali", False, False): ("....210321433332222111.", "....111222112211221122."),
    ("car", True, True): ("....1201230123.", "....111222....."),
}


@pytest.mark.parametrize("which", LEVELS, ids=str)
def test_levels_count_places_and_operands(which):
    batch = form_of(which[0], *which[1:]).write(ADDITION.solve(*to_digits([[57, 123]])))
    levels = batch.levels[0].T.tolist()
    shown = ["".join("." if of < 0 else str(of) for of in level) for level in levels]
    assert tuple(shown) == LEVELS[which]


def in_an_expression(order):
    """Return the format of the same sums with the same spaces and no prefix."""
    settings = {"begin": "$", "reverse_operands": order[0], "reverse_answer": order[1]}
    return formats.build_format({**settings, "spaces": 0.5}, ADDITION)


def test_spaces_stand_in_every_question_as_in_that_of_the_sum(prefix, order):
    problems = ADDITION.draw(60, 5, stream(0, "spaces"))
    forms = form_of(prefix, *order, 0.5), form_of(prefix, *order), in_an_expression(order)
    batch, bare, sums = (form.write(problems) for form in forms)
    for row in range(60):
        start, length, before = (int(x[row]) for x in (batch.start, batch.length, bare.length))
        whole = to_text(batch.tokens[row, :length])
        assert whole[:start] == prefix + to_text(sums.tokens[row, : sums.start[row]])
        assert whole.replace(" ", "") == to_text(bare.tokens[row, :before])
        assert " " not in whole[start:] and set(to_text(batch.tokens[row, length:])) <= {"_"}
        space = batch.tokens[row, :length] == SPACE
        for mark, none in (("number", 0), ("place", NO_PLACE), ("levels", NO_LEVEL)):
            marks = getattr(batch, mark)[row, :length]
            assert torch.equal(marks[~space], getattr(bare, mark)[row, :before])
            assert (marks[space] == none).all()
    assert (batch.tokens == SPACE).sum() > 60


def test_a_plain_sum_is_not_coupled():
    """The id of its first digit would tell its length; other responses are as long as operands."""
    for prefix in SUB_TASKS:
        for answer in (False, True):
            reason = positions.choose_scheme("coupled")().incompatibility(
                form_of(prefix, answer=answer)
            )
            assert (reason is None) == (answer or prefix != "add")


def test_the_longest_question_has_as_many_spaces_as_its_extent(prefix):
    form, one = form_of(prefix, spaces=0.5), solved((999999, 999999))
    labels = torch.arange(500) * (LABEL_RANGE // 500)
    problems = replace(one[torch.zeros(500, dtype=torch.long)], label=labels)
    assert int(form.write(problems).length.max()) == form.extent(6).tokens
    assert form.extent(6).tokens == form_of(prefix).extent(6).tokens + 11  # (13 + 1 + 7 + 1) / 2


@pytest.mark.parametrize("spaces", [0.0, 0.5])
def test_several_parts_in_one_batch_are_as_written_one_by_one(order, spaces):
    problems = ADDITION.draw(60, 6, stream(0, "parts"))
    drawn = torch.randint(5, (60,), generator=stream(1, "parts"))
    for parts in (drawn, torch.full((60,), 2), drawn.clamp(max=1)):
        batch = form_of("add", *order, spaces).write_sub_tasks(problems, parts)
        assert batch.trim().tokens.shape[1] == int(batch.length.max())
        assert spaces or batch.tokens.shape[1] == int(batch.length.max())
        for row in range(0, 60, 3):
            form = form_of(SUB_TASKS[int(parts[row])], *order, spaces)
            one, length = form.write(problems[row : row + 1]), int(batch.length[row])
            assert int(one.length) == length and int(one.start) == int(batch.start[row])
            for mark in ("tokens", "number", "place", "levels"):
                assert torch.equal(getattr(batch, mark)[row, :length], getattr(one, mark)[0])
            assert (batch.tokens[row, length:] == PAD).all()
            assert not batch.number[row, length:].any()
            assert (batch.place[row, length:] == NO_PLACE).all()


@pytest.fixture(scope="module")
def table():
    given = {"task": {"name": "addition"}, "grid": 3, "each": 4, "equal": 20}
    return draw_problem_set("test", ProblemSet.parse(given, "problems.test"))


@pytest.mark.parametrize(
    ("prefix", "order"),
    [
        ("add", (False, True)),
        ("ali", (True, False)),
        ("car", (True, True)),
        ("mad", (False, False)),
        ("rev", (True, True)),
    ],
)
def test_the_oracle_is_right_and_faults_are_named(table, prefix, order):
    form = dict(zip(("reverse_operands", "reverse_answer"), order, strict=True))
    cells, places, steps = scoring.score_system(model(prefix, form=form), table)
    assert (cells["exact"] == cells["n"]).all() and steps.empty
    assert places.empty == (prefix == "car")  # signs are no digits of a number
    assert (places["correct"] == places["n"]).all()
    if prefix != "car":
        assert places.loc[places["place"] == 0, "n"].tolist() == [20, 20, 20]
    for name, kind in (
        ("stopped_early", mock_models.StopsEarly),
        ("stopped_late", mock_models.StopsLate),
    ):
        cells, _, _ = scoring.score_system(model(prefix, kind, form), table)
        assert (cells[name] == cells["n"]).all()


def test_places_of_sums_are_those_of_the_expression(table):
    given = {"reverse_operands": False, "reverse_answer": False}
    plain = mock_models.ForgetsCarries(make_run({
        "task": {"name": "addition"}, "format": given, "model": {"width": 4, "heads": 1},
        "training": {"digits": 3}, "evaluation": {"digits": 5},
    }))  # fmt: skip
    tables = [
        scoring.score_system(of, table) for of in (model("add", mock_models.ForgetsCarries), plain)
    ]
    for of, other in zip(*tables, strict=True):
        pd.testing.assert_frame_equal(of, other)
    assert tables[0][0]["lost_carry"].sum() > 50


class AddsInstead(mock_models.Oracle):
    """Writes the sum, whatever part is asked for."""

    def _write_sub_task(self, prefix, *written):
        return self.task.solve_text(*written)


@pytest.mark.parametrize("prefix", ["mad", "ali", "rev"])
def test_what_is_wrong_in_a_part_is_no_fault_of_a_sum(table, prefix):
    cells, _, _ = scoring.score_system(model(prefix, AddsInstead), table)
    assert cells["other"].sum() > 10
    assert not cells[["lost_carry", "carry_from_nowhere", "misaligned"]].any(axis=None)


def test_one_carry_more_or_less():
    """A sign where the end was due, and the end where a sign was."""
    problems, form = solved((12, 99), (5, 5)), form_of("car")
    batch = form.write(problems)
    _, target, real = batch.response()  # cc$ and c$
    written = target.clone()
    written[0, 2], written[1, 0] = ALPHABET.index("-"), EOS
    seen = TeacherForcedPass(written, target, real)
    kinds = mistakes.classify_errors(form, problems, batch, seen).tolist()
    assert [mistakes.KINDS[at] for at in kinds] == ["stopped_late", "stopped_early"]


@pytest.mark.parametrize("ids", ["abacus", "coupled"])
def test_the_oracle_reads_over_spaces(table, prefix, ids):
    form, pair = {"spaces": 0.5, "reverse_answer": True}, {"ids": ids, "encoding": "learned"}
    oracle = model(prefix, form=form, positions=[{**pair, "table": 40}])
    cells, _, _ = scoring.score_system(oracle, table)
    assert (cells["exact"] == cells["n"]).all()
    problems = ADDITION.draw(20, 4, stream(0, "spaces"))
    bare = form_of(prefix, answer=True).write(problems)
    for row, response in enumerate(decode_greedily(oracle, problems)):
        due = to_text(bare.tokens[row, bare.start[row] : bare.length[row]])
        assert to_text(response).rstrip("$") + "$" == due


def test_asked_by_hand(prefix):
    system = model(prefix)
    said = ask(system, 1234, 4567)
    assert said["context"].iloc[0] == f"{prefix}$1234+4567="
    assert "".join(said["predicted"]) == "".join(said["target"]) == PRINTED[prefix].split("=")[1]
    assert read_answer(system, said) == PRINTED[prefix].split("=")[1].strip("$")
    read = to_text(decode_greedily(system, solved((7, 98)))[0]).rstrip("$")
    assert read == {"add": "105", "ali": "0+9,7+8", "car": "-c", "mad": "95", "rev": "7+89"}[prefix]
