"""Sums as Turing programs: lines as Python writes them, and what a step can be found by."""

import pytest
import torch

from carry import formats, tasks
from carry.config.settings import SettingsError
from carry.evaluation.ask import ask
from carry.evaluation.decoding import decode_greedily
from carry.experiments.resolve import make_run
from carry.formats import EOS, to_text, to_tokens, turing
from carry.randomness import stream
from carry.tasks import to_digits
from mock_models import Oracle
from pythons import digits_to_int

ORACLE = Oracle(
    make_run(
        {
            "task": {"name": "addition"},
            "format": {"name": "turing"},
            "model": {"width": 4, "heads": 1},
            "training": {"digits": 4},
            "evaluation": {"digits": 8},
        }
    )
)
ADDITION, FORM = ORACLE.task, ORACLE.format
PROBLEMS = ADDITION.draw(300, 7, stream(0, "turing"))


def test_text_is_what_pythons_integers_write():
    batch = FORM.write(PROBLEMS)
    for row in range(len(PROBLEMS)):
        a, b = (
            str(digits_to_int(PROBLEMS.operands[row, k], PROBLEMS.lengths[row, k])) for k in (0, 1)
        )
        width = max(len(a), len(b))
        pairs = zip(a.zfill(width), b.zfill(width), strict=True)
        start, end = int(batch.start[row]), int(batch.length[row])
        question = to_text(batch.tokens[row, :start])
        assert question == "^" + "".join(x + y for x, y in pairs) + "="
        response = to_text(batch.tokens[row, start:end])
        assert response == ORACLE.respond(question)
        last = response[:-1].split("|")[-1].replace("c", "1").replace("-", "")
        assert int(last) == int(a) + int(b)
        assert set(to_text(batch.tokens[row, end:])) <= {"_"}


def test_the_drawn_lines_are_written():
    drawn = [line.split()[0] for line in turing.__doc__.splitlines() if line.startswith("    ")]
    assert FORM.write_text(4324, 139) == "".join(drawn)


def test_marks_are_known_from_the_question():
    """Places of the operands and of the answer's digits; the lines between have none."""
    batch, blank = FORM.write(PROBLEMS), FORM.write_open_ended(PROBLEMS)
    for name in ("number", "place", "start", "length"):
        assert torch.equal(getattr(batch, name), getattr(blank, name))
    whole = [*PROBLEMS.operands.unbind(1), PROBLEMS.answer]
    for row, number, place, token in zip(
        *(batch.number > 0).nonzero(as_tuple=True)[:1],
        batch.number[batch.number > 0].tolist(),
        batch.place[batch.number > 0].tolist(),
        batch.tokens[batch.number > 0].tolist(),
        strict=True,
    ):
        assert int(whole[number - 1][row, place]) == token
    assert ((batch.number > 0) == (batch.place >= 0)).all()
    assert torch.equal((batch.number == 3).sum(1), PROBLEMS.lengths.amax(1))
    asked = torch.arange(blank.tokens.shape[1]) < blank.start[:, None]
    inside = ~asked & (torch.arange(blank.tokens.shape[1]) < blank.length[:, None] - 1)
    assert not blank.tokens[inside].any()  # nothing of the answer is told


def test_a_step_is_found_by_the_last_places_and_the_state():
    """What stands two tokens before a state is in no other line, and decides the step.

    Without two equal pairs of places, of which the tape would not know where it is.
    """
    problems = ADDITION.draw_for_cells(torch.full((200, 2), 9), stream(0, "steps"))
    checked = 0
    for row in FORM.write(problems).tokens:
        question, response = to_text(row).split("=")
        places = [question[at : at + 2] for at in range(1, len(question), 2)]
        if len({*zip(places, places[1:], strict=False)}) < len(places) - 1:
            continue
        lines = [question[1:] + "-", *response.rstrip("_$").split("|")]
        for before, after in zip(lines, lines[1:], strict=False):
            tape = after[: after.index(max(after, key="-c".find))]
            if len(tape) >= 4:
                found = [line for line in lines if tape[-4:] in line and
                         line[line.index(tape[-4:]) + 6 :][:1] in ("-", "c")]  # fmt: skip
                assert found == [before]
                checked += 1
    assert checked > 500


def test_the_answer_is_read_and_decoded():
    problems = ADDITION.solve(*to_digits([[95, 6], [70, 49], [12, 34]]))
    responses = decode_greedily(ORACLE, problems)
    batch = FORM.write(problems)
    for row, response in enumerate(responses):
        start, end = int(batch.start[row]), int(batch.length[row])
        assert to_text(response[: end - start]) == to_text(batch.tokens[row, start:end])
    answers = FORM.read(responses)
    for answer, total in zip(answers, (101, 119, 46), strict=True):
        text = to_text(answer[answer != EOS])
        assert int(text[::-1]) == total
    assert "".join(ask(ORACLE, 95, 6)["predicted"]) == "90c1|c01$"


@pytest.mark.parametrize("response", ["", "1|", "12-5", "$", "c-1|2+3"])
def test_nonsense_is_read_without_an_error(response):
    tokens = to_tokens(response + "$$")[None]
    assert FORM.read(tokens).shape == tokens.shape


def test_another_task_is_refused():
    with pytest.raises(SettingsError, match="expected task 'addition'"):
        formats.build_format({"name": "turing"}, tasks.build_task({"name": "parity"}))
