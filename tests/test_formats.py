"""What is written can be read back, and marks say what they claim."""

import itertools

import pytest
import torch

from carry import formats, tasks
from carry.formats import EOS, text
from carry.randomness import stream
from carry.tasks import to_int

TASK = tasks.build({"name": "addition"})
VARIANTS = [
    {"reverse_operands": operands, "reverse_answer": answer, "pad": pad}
    for operands, answer, pad in itertools.product([False, True], repeat=3)
]


@pytest.fixture(params=VARIANTS, ids=lambda given: "-".join(k for k, v in given.items() if v))
def written(request):
    problems = TASK.draw(400, 6, stream(0, "formats"))
    form = formats.build(request.param)
    return request.param, form, problems, form.write(problems)


def test_text_is_the_sum_as_one_writes_it(written):
    given, _, problems, batch = written
    for row in range(len(problems)):
        a, b = (to_int(problems.operands[row, k], problems.lengths[row, k]) for k in (0, 1))
        width = int(problems.lengths[row].max())
        parts = [str(a), str(b), str(a + b)]
        if given["pad"]:
            parts = [parts[0].zfill(width), parts[1].zfill(width), parts[2].zfill(width + 1)]
        if given["reverse_operands"]:
            parts[:2] = [part[::-1] for part in parts[:2]]
        if given["reverse_answer"]:
            parts[2] = parts[2][::-1]
        expected = f"^{parts[0]}+{parts[1]}={parts[2]}$"
        assert text(batch.tokens[row, : batch.length[row]]) == expected
        assert set(text(batch.tokens[row, batch.length[row] :])) <= {"_"}
        assert text(batch.tokens[row, : batch.start[row]])[-1] == "="


def test_marks_name_the_digit_at_their_place(written):
    _, _, problems, batch = written
    numbers = [*problems.operands.unbind(1), problems.answer]
    for row, at in itertools.product(range(0, len(problems), 7), range(batch.tokens.shape[1])):
        number, place = int(batch.number[row, at]), int(batch.place[row, at])
        if number:
            assert batch.tokens[row, at] == numbers[number - 1][row, place]
        else:
            assert place == -1 and batch.tokens[row, at] >= 10


def test_the_response_reads_back(written):
    _, form, problems, batch = written
    at, target, real = batch.response()
    assert (batch.tokens.gather(1, at + 1)[real] == target[real]).all()
    back = form.read(torch.where(real, target, EOS))
    digits = problems.answer[:, : back.shape[1]].long()
    inside = torch.arange(digits.shape[1]) < problems.answer_length[:, None]
    assert (back[:, : digits.shape[1]][inside] == digits[inside]).all()


def test_nothing_is_longer_than_the_longest(written):
    _, form, _, batch = written
    assert int(batch.length.max()) <= form.longest(6)


def test_trim_and_pick():
    batch = formats.build({}).write(TASK.draw(50, 9, stream(0, "trim")))
    short = batch[batch.length.argsort()[:10]].trim()
    assert short.tokens.shape[1] == int(short.length.max()) and len(short) == 10
