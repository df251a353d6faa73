"""What is written can be read back, and marks say what they claim."""

import itertools
from collections import Counter

import pytest
import torch

from carry import formats, tasks
from carry.batch import LABELS
from carry.evaluation.decoding import open_ended
from carry.formats import ALPHABET, EOS, FIRST_LETTER, LETTERS, encode, noisy, text
from carry.randomness import stream
from carry.settings import SettingsError
from carry.tasks import NAMES, to_int

TASKS = {name: tasks.build({"name": name}) for name in ("addition", "multiplication", "bitwise_or")}
SORTING = tasks.build({"name": "sorting"})
VARIANTS = [
    {"reverse_operands": operands, "reverse_answer": answer, "pad": pad, "hints": hints}
    for operands, answer, pad in itertools.product([False, True], repeat=3)
    for hints in ("none", "cyclic", "ordered")
]
DIGITS = "0123456789"


def name(given):
    return "-".join(k if v is True else v for k, v in given.items() if v and v != "none") or "plain"


@pytest.fixture(params=VARIANTS, ids=name)
def given(request):
    return request.param


@pytest.fixture(params=TASKS)
def written(request, given):
    task = TASKS[request.param]
    problems = task.draw(200, 6, stream(0, "formats"))
    form = formats.build(given, task)
    return task, form, problems, form.write(problems)


def without_letters(characters):
    return "".join(c for c in characters if c not in LETTERS)


def test_text_is_the_problem_as_one_writes_it(written, given):
    task, _, problems, batch = written
    for row in range(len(problems)):
        lengths = problems.lengths[row].tolist()
        texts = [
            str(to_int(problems.operands[row, k], lengths[k])).zfill(lengths[k]) for k in (0, 1)
        ]
        parts = [*texts, task.oracle(*texts)]
        if given["pad"]:
            width = max(lengths)
            parts = [*(part.zfill(width) for part in texts), parts[2].zfill(problems.room[row])]
        if given["reverse_operands"]:
            parts[:2] = [part[::-1] for part in parts[:2]]
        if given["reverse_answer"]:
            parts[2] = parts[2][::-1]
        expected = f"^{parts[0]}{task.sign}{parts[1]}={parts[2]}$"
        assert without_letters(text(batch.tokens[row, : batch.length[row]])) == expected
        assert set(text(batch.tokens[row, batch.length[row] :])) <= {"_"}
        assert text(batch.tokens[row, : batch.start[row]])[-1] == "="


def test_marks_name_the_digit_at_their_place(written):
    _, _, problems, batch = written
    numbers = [*problems.operands.unbind(1), problems.answer]
    for row, at in itertools.product(range(0, len(problems), 7), range(batch.tokens.shape[1])):
        number, place = int(batch.number[row, at]), int(batch.place[row, at])
        token = int(batch.tokens[row, at])
        if number and token < FIRST_LETTER:
            assert token == numbers[number - 1][row, place]
        elif not number:
            assert place == -1 and token >= 10


def test_hints_say_the_place(given):
    """A letter stands before every digit, and is the same for equal places of one problem."""
    if given["hints"] == "none":
        pytest.skip("there are none")
    problems = TASKS["addition"].draw(500, 6, stream(0, "formats"))
    form = formats.build(given, TASKS["addition"])
    batch = form.write(problems)
    firsts = Counter()
    for row in range(len(problems)):
        characters = text(batch.tokens[row, 1 : batch.length[row] - 1])
        places = batch.place[row, 1 : batch.length[row] - 1].tolist()
        seen = {}
        for at, character in enumerate(characters):
            if character in DIGITS:
                letter = LETTERS.index(characters[at - 1])
                assert (
                    places[at] == places[at - 1] and seen.setdefault(places[at], letter) == letter
                )
        steps = {(seen[place + 1] - seen[place]) % 102 for place in range(len(seen) - 1)}
        assert steps <= {1}
        if given["hints"] == "ordered":
            assert all(seen[place + 1] > seen[place] for place in range(len(seen) - 1))
        firsts[seen[0]] += 1
    assert len(firsts) > 90 and max(firsts) > 90


def test_the_response_reads_back(written):
    _, form, problems, batch = written
    at, target, real = batch.response()
    assert (batch.tokens.gather(1, at + 1)[real] == target[real]).all()
    back = form.read(torch.where(real, target, EOS))
    width = min(problems.answer.shape[1], back.shape[1])
    digits = problems.answer[:, :width].long()
    inside = torch.arange(width) < problems.answer_length[:, None]
    assert (back[:, :width][inside] == digits[inside]).all()


def test_nothing_is_longer_than_its_extent(written):
    task, form, problems, batch = written
    extent = form.extent(task, 6)
    assert int(batch.length.max()) <= extent.tokens
    assert max((batch.number == number).sum(1).max() for number in (1, 2, 3)) <= extent.run
    assert int(batch.tokens.max()) < form.symbols(task)
    longest = open_ended(form, problems)
    assert (longest.start == batch.start).all() and (longest.length >= batch.length).all()


def test_more_places_than_letters():
    form = formats.build({"hints": "cyclic"}, TASKS["addition"])
    assert form.extent(TASKS["addition"], 101).run == 204
    with pytest.raises(SettingsError, match=r"format.hints: 103 places .* 102 letters; expected"):
        form.extent(TASKS["addition"], 102)


@pytest.mark.parametrize("reverse", [False, True])
def test_labelled_arrays(reverse):
    problems = SORTING.draw(400, 7, stream(0, "formats"))
    form = formats.build({"name": "labelled", "reverse_operands": reverse}, SORTING)
    batch, firsts = form.write(problems), set()
    for row in range(len(problems)):
        question, answer = text(batch.tokens[row, : batch.length[row]]).split("=")
        pairs = [part.split(":") for part in question[1:].split(",")]
        names, numbers = zip(*pairs, strict=True)
        numbers = [number[::-1] if reverse else number for number in numbers]
        first = NAMES.index(names[0])
        assert list(names) == list(NAMES[first : first + len(names)])
        expected = [names[NAMES.index(at)] for at in SORTING.oracle(*numbers)]
        assert answer == ",".join(expected) + "$"
        firsts.add(first)
        for at in range(int(batch.start[row])):
            number = int(batch.number[row, at])
            if number:
                digit = problems.operands[row, number - 1, int(batch.place[row, at])]
                assert batch.tokens[row, at] == digit
            else:
                assert batch.tokens[row, at] >= 10
    assert min(firsts) == 0 and max(firsts) > 40
    _, target, real = batch.response()
    back = form.read(torch.where(real, target, EOS))
    assert ((back != EOS).sum(1) == problems.room).all()
    extent = form.extent(SORTING, 7)
    assert batch.length.max() <= extent.tokens and batch.tokens.max() < form.symbols(SORTING)


def test_an_array_longer_than_there_are_names():
    form = formats.build({"name": "labelled"}, SORTING)
    assert form.extent(SORTING, 52).run == 52
    with pytest.raises(SettingsError, match="an array of 53 numbers does not fit, .* 52 names"):
        form.extent(SORTING, 53)


def test_formats_refuse_what_they_cannot_write():
    with pytest.raises(SettingsError, match="format: 'expression' writes numbers"):
        formats.build({}, SORTING)
    with pytest.raises(SettingsError, match="format: 'labelled' names operands"):
        formats.build({"name": "labelled"}, TASKS["addition"])


@pytest.mark.parametrize("share", [0.1, 0.6])
def test_noise_pads_the_question_and_nothing_else(share):
    task = TASKS["addition"]
    batch = formats.build({}, task).write(task.draw(300, 6, stream(0, "noise")))
    noised = noisy(batch, share, stream(1, "noise"))
    pads = 0
    for row in range(len(batch)):
        plain = text(batch.tokens[row, : batch.length[row]])
        loud = text(noised.tokens[row, : noised.length[row]])
        assert loud.replace("_", "") == plain and loud[0] == "^"
        assert loud.split("=")[1] == plain.split("=")[1]
        assert noised.start[row] == loud.index("=") + 1
        kept = noised.tokens[row] != encode("_")[0]
        for mark in ("number", "place"):
            marks, before = getattr(noised, mark)[row], getattr(batch, mark)[row]
            assert torch.equal(marks[kept], before[: batch.length[row]])
            assert set(marks[~kept].tolist()) <= {0 if mark == "number" else -1}
        pads += loud.count("_")
    slots = int((batch.start - 1).sum())
    assert abs(pads / slots - share) < 0.05  # more than five standard deviations


def test_the_alphabet_has_no_symbol_twice():
    assert len(set(ALPHABET)) == len(ALPHABET) and len(LETTERS) == 102
    assert torch.equal(encode(ALPHABET), torch.arange(len(ALPHABET)))


def test_labels_begin_alphabets_about_evenly():
    starts = formats.first_letter(torch.arange(LABELS), 43).bincount()
    assert len(starts) == 43 and starts.max() - starts.min() <= 1


def test_trim_and_pick():
    task = TASKS["addition"]
    batch = formats.build({}, task).write(task.draw(50, 9, stream(0, "trim")))
    short = batch[batch.length.argsort()[:10]].trim()
    assert short.tokens.shape[1] == int(short.length.max()) and len(short) == 10
