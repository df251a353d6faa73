"""The scratchpad in words: as printed, as Python's integers write it, and as it is scored."""

import pandas as pd
import pytest
import torch

import mock_models
from carry import formats, tasks
from carry.data.batch import NO_PLACE
from carry.data.problem_sets import ProblemSet, draw_problem_set
from carry.evaluation import scoring
from carry.experiments.resolve import make_run
from carry.formats import to_text, to_tokens
from carry.randomness import stream
from carry.tasks import to_digits
from pythons import digits_to_int

ADDITION = tasks.build_task({"name": "addition"})
# ibrahimli2024, Table 4.1. The steps are those of 7890, the question and `9 8 7` those of 789.
PRINTED = (
    "$567+789=7 6 5 + 9 8 7; c=0, 7+0+0=7, c=0; 6+9+0=5, c=1; 5+8+1=4, c=1; 0+7+1=8, c=0 8457$"
)
TRUE = "$567+789=7 6 5 + 9 8 7; c=0, 7+9+0=6, c=1; 6+8+1=5, c=1; 5+7+1=3, c=1 1356$"


def form_of(**given):
    return formats.build_format({"name": "worded", **given}, ADDITION)


def written(form, *numbers):
    return to_text(form.write(ADDITION.solve(*to_digits([[*numbers]]))).tokens[0])


def test_the_printed_example_is_that_of_another_question():
    """Word for word, once the operand that all its steps add stands in the question, too."""
    form = form_of(begin="$")
    meant = PRINTED.replace("789=", "7890=").replace("9 8 7;", "0 9 8 7;")
    assert written(form, 567, 7890) == meant
    assert written(form, 567, 789) == TRUE
    assert written(form_of(begin="$", bar=True), 567, 7890) == meant.replace(" 8457", "|8457")


@pytest.mark.parametrize("given", [{}, {"begin": "$", "bar": True}])
def test_text_is_what_pythons_integers_write(given):
    form, oracle = form_of(**given), model(**given)
    problems = ADDITION.draw(500, 7, stream(0, "worded"))
    batch = form.write(problems)
    for row in range(len(problems)):
        a, b = (
            digits_to_int(problems.operands[row, k], problems.lengths[row, k]) for k in range(2)
        )
        text, start = to_text(batch.tokens[row]), int(batch.start[row])
        assert text[:start] == f"{form.begin}{a}+{b}="
        assert text[start : batch.length[row]] == oracle.respond(text[:start])
        assert set(text[batch.length[row] :]) <= {"_"}


def test_marks():
    """Reversed operands, lines and the answer are numbers; in a line every digit has its place."""
    problems = ADDITION.draw(200, 5, stream(0, "marks"))
    batch = form_of().write(problems)
    for row in range(0, 200, 3):
        places = int(problems.lengths[row].max())
        whole = [*problems.operands[row].unbind(0)] * 2
        assert int(batch.number[row].max()) == 5 + places
        for at in range(int(batch.length[row])):
            number, place = int(batch.number[row, at]), int(batch.place[row, at])
            token = int(batch.tokens[row, at])
            assert (number > 0) == (token < 10) == (place != NO_PLACE)
            if 0 < number <= 4:
                assert token == whole[number - 1][place]
            elif 4 < number < 5 + places:
                assert place == number - 5
            elif number:
                assert token == problems.answer[row, place]
        lines = [int((batch.number[row] == 5 + place).sum()) for place in range(places)]
        assert lines == [6] + [5] * (places - 1)  # with the carry that does not come into the ones
        assert torch.equal((batch.number[row] == 5 + places).sum(), problems.answer_length[row])


MALFORMED = {
    "no carries 1356$": "6531", "1, c=0 12$ 345$": "21", "7+0+0=7, c=0$": "", "c=0 $": "",
    "c=0 ": "", "$ 12$": "", "1356$": "", " 00$": "00", " 12": "21", "c=0 1+2$": "", "0 1_$": "",
    " c=1 9": "9",
}  # fmt: skip


@pytest.mark.parametrize("said", MALFORMED)
def test_answers_of_malformed_text(said):
    """What is behind the last separator, if it is a number; where there is none, no answer."""
    for bar in (False, True):
        read = form_of(bar=bar).read(to_tokens(said.replace(" ", "|" if bar else " "))[None])
        assert to_text(read[0]) == MALFORMED[said].ljust(len(said), "$")


def model(kind=mock_models.Oracle, **form):
    sizes = {"training": {"digits": 3}, "evaluation": {"digits": 4}}
    given = {"task": {"name": "addition"}, "model": {"width": 4, "heads": 1}}
    return kind(make_run({**given, **sizes, "format": {"name": "worded", **form}}))


@pytest.fixture(scope="module")
def table():
    given = {"task": {"name": "addition"}, "grid": 3, "each": 2, "equal": 8}
    return draw_problem_set("test", ProblemSet.parse(given, "problems.test"))


class Slips(mock_models.Oracle):
    """Writes the carry out of the tens wrong, where there are tens, and all else right."""

    def _write_words(self, a, b):
        lines = super()._write_words(a, b).split("; ")
        if len(lines) > 3:  # the operands, the carry that does not come in, and a line or more
            lines[2] = lines[2].replace("c=1", "c=2").replace("c=0", "c=1")
        return "; ".join(lines)


def test_steps_and_places_are_tallied(table):
    """Steps 0 and 1 are the reversed operands, then comes a line a step, and last the answer."""
    cells, places, steps = scoring.score_system(model(), table)
    assert (cells["exact"] == cells["n"]).all()
    assert (cells["digits_right"] == cells["n"])[cells["set"] == "equal"].all()
    counted = steps.groupby("digits")["step"].agg(list).to_dict()
    assert counted == {digits: [*range(digits + 3)] for digits in (1, 2, 3)}
    assert (steps["correct"] == 8).all() and (steps["n"] == 8).all()
    highest = places[places["place"] == places["digits"]]["n"]
    assert (places[places["place"] < places["digits"]]["n"] == 8).all() and (highest < 8).all()

    cells, places, steps = scoring.score_system(model(Slips), table)
    wrong = (cells["i"] > 2) | (cells["j"] > 2)
    pd.testing.assert_series_equal(cells["exact"], cells["n"].where(~wrong, 0), check_names=False)
    assert (cells["other"] == cells["n"])[wrong].all()
    assert (cells["digits_right"] == cells["n"])[cells["set"] == "equal"].all()
    slipped = (steps["digits"] == 3) & (steps["step"] == 3)  # the line of the tens
    assert slipped.sum() == 1 and (steps["correct"] == 0).equals(slipped)
    assert (steps["first_wrong"] == 8).equals(slipped) and (places["correct"] == places["n"]).all()
