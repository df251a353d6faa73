"""What is written can be read back, and marks say what they claim."""

import itertools
from collections import Counter

import pytest
import torch

from carry import formats, positions, tasks
from carry.config.run_settings import make_run
from carry.config.settings import SettingsError
from carry.data.batch import NO_PLACE
from carry.data.problems import LABEL_RANGE
from carry.evaluation.mock_models import Oracle
from carry.formats import ALPHABET, EOS, FIRST_LETTER, LETTERS, encode, noisy, text
from carry.randomness import stream
from carry.tasks import NAMES, to_digits, to_int

ADDING = "multi_operand_addition"
WITH_NUMBERS = ("addition", ADDING, "multiplication", "bitwise_or", "copying", "parity")
TASKS = {name: tasks.build({"name": name}) for name in WITH_NUMBERS}
SORTING = tasks.build({"name": "sorting"})
VARIANTS = [
    {"reverse_operands": operands, "reverse_answer": answer, "pad": pad, "hints": hints}
    for operands, answer, pad in itertools.product([False, True], repeat=3)
    for hints in ("none", "cyclic", "ordered")
]
VARIANTS += [
    {"reverse_operands": reverse, "reverse_answer": reverse, "pad": False, "hints": "none", **more}
    for reverse, more in (
        (False, {"pad_to": 8, "begin": "$"}),
        (True, {"pad_to": 20}),
        (False, {"spaces": 0.5, "begin": "$"}),
        (True, {"spaces": 0.2, "pad": True}),
        (False, {"spaces": 1.0, "pad_to": 7}),
        (False, {"hints": "ordered", "pad_to": 9}),
    )
]
DIGITS = "0123456789"


def name(given):
    shown = {k: v for k, v in given.items() if v and v != "none"}
    return "-".join(k if v is True else f"{k}_{v}" for k, v in shown.items()) or "plain"


@pytest.fixture(params=VARIANTS, ids=name)
def given(request):
    return request.param


@pytest.fixture(params=TASKS)
def written(request, given):
    task = TASKS[request.param]
    problems = task.draw(100, 6, stream(0, "formats"))
    form = formats.build(given, task)
    return task, form, problems, form.write(problems)


def without_letters(characters):
    return "".join(c for c in characters if c not in LETTERS)


def test_text_is_the_problem_as_one_writes_it(written, given):
    task, _, problems, batch = written
    for row in range(len(problems)):
        lengths = problems.lengths[row].tolist()
        texts = [
            str(to_int(problems.operands[row, k], n)).zfill(n) for k, n in enumerate(lengths) if n
        ]
        answer, room = task.oracle(*texts), int(problems.room[row])
        if given["pad"]:  # of several numbers to be added, all have the room of the sum
            width = room if task is TASKS[ADDING] else max(lengths)
            texts, answer = [part.zfill(width) for part in texts], answer.zfill(room)
        width = given.get("pad_to", 0)
        texts, answer = [part.zfill(width) for part in texts], answer.zfill(width)
        if given["reverse_operands"]:
            texts = [part[::-1] for part in texts]
        if given["reverse_answer"]:
            answer = answer[::-1]
        expected = f"{given.get('begin', '^')}{task.sign.join(texts)}={answer}$"
        found = without_letters(text(batch.tokens[row, : batch.length[row]]))
        assert found.replace(" ", "") == expected and (" " not in found or "spaces" in given)
        assert set(text(batch.tokens[row, batch.length[row] :])) <= {"_"}
        assert text(batch.tokens[row, : batch.start[row]])[-1] == "="


def test_marks_name_the_digit_at_their_place(written):
    _, _, problems, batch = written
    numbers = [*problems.operands.unbind(1), problems.answer]
    for row, at in itertools.product(range(0, len(problems), 7), range(batch.tokens.shape[1])):
        number, place = int(batch.number[row, at]), int(batch.place[row, at])
        token = int(batch.tokens[row, at])
        if number and token < FIRST_LETTER:  # beyond its digits there are zeros
            of = numbers[number - 1][row]
            assert token == (of[place] if place < len(of) else 0)
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
    extent = form.extent(6)
    assert int(batch.length.max()) <= extent.tokens
    numbers = range(1, int(batch.number.max()) + 1)
    assert max((batch.number == number).sum(1).max() for number in numbers) <= extent.run
    assert len(extent.levels) == form.levels == batch.levels.shape[2] == 1
    assert int(batch.levels.max()) < extent.levels[0]
    assert int(batch.tokens.max()) < form.symbols()
    longest = form.write_open_ended(problems)
    assert (longest.start == batch.start).all() and (longest.length >= batch.length).all()


def test_more_places_than_letters():
    form = formats.build({"hints": "cyclic"}, TASKS["addition"])
    assert form.extent(101).run == 204
    with pytest.raises(SettingsError, match=r"format.hints: 103 places .* 102 letters; expected"):
        form.extent(102)


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
    extent = form.extent(7)
    assert batch.length.max() <= extent.tokens and batch.tokens.max() < form.symbols()


def test_an_array_longer_than_there_are_names():
    form = formats.build({"name": "labelled"}, SORTING)
    assert form.extent(52).run == 52
    with pytest.raises(SettingsError, match="an array of 53 numbers does not fit, .* 52 names"):
        form.extent(53)


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
        for mark in ("number", "place", "levels"):
            marks, before = getattr(noised, mark)[row], getattr(batch, mark)[row]
            assert torch.equal(marks[kept], before[: batch.length[row]])
            assert set(marks[~kept].flatten().tolist()) <= {0 if mark == "number" else -1}
        pads += loud.count("_")
    slots = int((batch.start - 1).sum())
    assert abs(pads / slots - share) < 0.05  # more than five standard deviations


def test_the_alphabet_has_no_symbol_twice():
    assert len(set(ALPHABET)) == len(ALPHABET) and len(LETTERS) == 102
    assert torch.equal(encode(ALPHABET), torch.arange(len(ALPHABET)))


def test_labels_begin_alphabets_about_evenly():
    starts = formats.first_letter(torch.arange(LABEL_RANGE), 43).bincount()
    assert len(starts) == 43 and starts.max() - starts.min() <= 1


def test_trim_and_pick():
    task = TASKS["addition"]
    batch = formats.build({}, task).write(task.draw(50, 9, stream(0, "trim")))
    short = batch[batch.length.argsort()[:10]].trim()
    assert short.tokens.shape[1] == int(short.length.max()) and len(short) == 10


SCRATCHPADS = [
    {"task": task, "reverse_operands": operands, "reverse_answer": answer, "pad": pad, **more}
    for task, settings in ((ADDING, ({}, {"from_zero": False})), ("multiplication", ({},)),
                           ("parity", ({},)))
    for operands, answer, pad in itertools.product([False, True], repeat=3)
    for more in settings
    if task != "parity" or answer  # else it is refused
]  # fmt: skip


def scratchpad(task, **given):
    """Return a hand-made model that writes the steps of a task."""
    form = {"name": "scratchpad", **given}
    model = {"layers": 1, "width": 4, "heads": 1}
    return Oracle(make_run({"task": {"name": task}, "format": form, "model": model}))


def from_first(given):
    return name(given) + ("-from_first" if given.get("from_zero") is False else "")


@pytest.fixture(params=SCRATCHPADS, ids=from_first, scope="module")
def steps(request):
    """Return a model that writes steps, and problems with theirs, of equal lengths and of others.

    Some are longer than others, some have zeros, and some more numbers.
    """
    system = scratchpad(**request.param)
    problems = system.task.draw(80, 5, stream(0, "steps"))
    return system, problems, system.format.write(problems)


def halves(batch, row):
    """Return question and response of one row as text."""
    whole = text(batch.tokens[row, : batch.length[row]])
    return whole[: batch.start[row]], whole[batch.start[row] :]


def test_scratchpads_are_what_pythons_integers_write(steps):
    system, problems, batch = steps
    form, task = system.format, system.task
    for row in range(len(problems)):
        question, response = halves(batch, row)
        assert response == system.respond(question)
        lengths = problems.lengths[row].tolist()
        parts = [
            str(to_int(problems.operands[row, k], n)).zfill(n) for k, n in enumerate(lengths) if n
        ]
        if (
            form.pad and system.run.task["name"] == ADDING
        ):  # a product's factors, and bits, are as they are
            parts = [part.zfill(int(problems.room[row])) for part in parts]
        if form.reverse_operands:
            parts = [part[::-1] for part in parts]
        assert question == f"^{task.sign.join(parts)}="
        assert set(text(batch.tokens[row, batch.length[row] :])) <= {"_"}


def test_marks_of_steps_name_the_digit_at_their_place(steps):
    system, problems, batch = steps
    stages = system.task.stages(problems, from_zero=system.format.from_zero is not False)
    numbers = [number for stage in stages for number in stage.numbers.unbind(1)]
    for row, at in itertools.product(range(0, len(problems), 9), range(batch.tokens.shape[1])):
        number, place = int(batch.number[row, at]), int(batch.place[row, at])
        token = int(batch.tokens[row, at])
        if number:
            of = numbers[number - 1][row]
            assert token == (of[place] if place < len(of) else 0)
        else:
            assert place == NO_PLACE and token >= 10


def test_answers_read_back_from_scratchpads(steps):
    system, problems, batch = steps
    _, target, real = batch.response()
    read = system.format.read(torch.where(real, target, EOS))
    for row in range(len(problems)):
        length = int(problems.answer_length[row])
        beyond = read[row, length:].tolist()
        zeros = int(problems.room[row]) - length if system.format.pad else 0
        assert torch.equal(read[row, :length], problems.answer[row, :length].long())
        assert beyond == [0] * zeros + [EOS] * (len(beyond) - zeros)


def test_scratchpads_fill_their_extent_and_no_more(steps):
    system, problems, batch = steps
    form, extent = system.format, system.format.extent(5)
    whole = form.write_open_ended(problems)
    assert torch.equal(whole.start, batch.start) and (whole.length >= batch.length).all()
    assert form.has_steps and len(extent.levels) == form.levels == system.task.levels
    for of in (batch, whole):
        assert int(of.length.max()) <= extent.tokens and int(of.place.max()) < extent.run
        numbers = range(1, int(of.number.max()) + 1)
        assert max((of.number == number).sum(1).max() for number in numbers) <= extent.run
        assert (of.levels.amax((0, 1)) < torch.tensor(extent.levels)).all()
        assert int(of.tokens.max()) < form.symbols()
    largest = system.task.sample(torch.tensor([[5, 5]]), stream(0, "largest"))
    reached = form.write_open_ended(largest)
    assert reached.length.tolist() == [extent.tokens]
    assert int(reached.place.max()) + 1 == extent.run
    assert tuple((reached.levels.amax((0, 1)) + 1).tolist()) == extent.levels


def test_what_has_been_written_is_marked_as_what_is_true(steps):
    """For true responses; of an end, which is never read on from, nothing is said."""
    system, problems, batch = steps
    form = system.format
    assert form.marks_known_from_question == (form.pad or system.run.task["name"] == "parity")
    if form.marks_known_from_question:
        pytest.skip("the question tells all marks")
    for row in range(10):
        one = problems[row : row + 1].trim()
        true = form.write(one)
        start, end = int(true.start[0]), int(true.length[0]) - 1
        marked = form.continued(one, true, true.tokens[:, start:])
        assert torch.equal(marked.tokens, true.tokens) and torch.equal(marked.start, true.start)
        assert torch.equal(marked.number[:, :end], true.number[:, :end])
        if form.reverse_answer:  # else no place is known before its number has ended
            assert torch.equal(marked.place[:, :end], true.place[:, :end])
            assert torch.equal(marked.levels[:, :end], true.levels[:, :end])
        else:
            assert (marked.place[:, start:] == NO_PLACE).all()
        for read in (0, 1, (end - start) // 2, end - start):
            some = form.continued(one, true, true.tokens[:, start : start + read])
            for mark in ("tokens", "number", "place", "levels"):
                beginning = getattr(marked, mark)[:, : start + read]
                assert torch.equal(getattr(some, mark), beginning), mark


def test_what_never_ends_is_marked_within_the_extent(steps):
    """A model may write one number for ever, or one sign after the other: no table holds more."""
    system, problems, _ = steps
    form, extent = system.format, system.format.extent(5)
    if form.marks_known_from_question:
        pytest.skip("the question tells all marks")
    one = problems[problems.lengths.sum(1).argsort()[:1]].trim()
    whole = form.write_open_ended(one)
    slots = int(whole.length[0] - whole.start[0])
    most = whole.levels[0].amax(0)
    for said in range(form.symbols()):
        marked = form.continued(one, whole, torch.full((1, slots), said))
        assert (marked.levels[0].amax(0) <= most).all(), said
        assert (most < torch.tensor(extent.levels)).all()
        assert int(marked.place.max()) < extent.run


def test_marks_of_padded_steps_depend_on_the_question_alone(steps):
    """Other numbers of the same lengths have the same marks, and so has what is not yet known."""
    system, problems, batch = steps
    form = system.format
    if not form.marks_known_from_question:
        pytest.skip("numbers end where the model says")
    place = torch.arange(problems.operands.shape[2])
    ones = (place < problems.lengths[:, :, None]).to(torch.uint8)
    other = form.write(system.task.solve(ones, problems.lengths))
    assert not torch.equal(other.tokens, batch.tokens)
    for of in (other, form.write_open_ended(problems)):
        for mark in ("number", "place", "levels", "start", "length"):
            assert torch.equal(getattr(of, mark), getattr(batch, mark)), mark


# Tokens and ids as cho2025 prints them, and the offsets that it prints them with.
PRINTED = {
    "Fig. 2": ("parity", {"reverse_operands": True}, ["1010"], "0101=0110", ["234512345"]),
    "Fig. 4": (ADDING, {}, ["57", "48", "96"], "057+048+096=000>750>501>102",
               ["432143214321234123412341234", "111122223331111222233334444"]),
    "Fig. 8": ("multiplication", {}, ["37", "925"], "37*925=581+470+333=58100>52900>52243",
               ["320000123412341234000000000000000000", "000321111122223333111111222222333333",
                "000000123423453456123456123456123456"]),
}  # fmt: skip


@pytest.mark.parametrize(("task", "given", "operands", "tokens", "ids"), PRINTED.values(),
                         ids=PRINTED)  # fmt: skip
def test_ids_are_those_of_the_paper(task, given, operands, tokens, ids):
    task = tasks.build({"name": task})
    form = formats.build({"name": "scratchpad", **given}, task)
    batch = form.write(task.solve(*to_digits([operands])))
    assert text(batch.tokens[0]) == f"^{tokens}$"
    assert form.levels == len(ids)
    for level, printed in enumerate(ids, start=1):
        found = positions.choose("coupled")(level=level).ids(batch)[0].tolist()
        assert "".join(map(str, found)) == f"0{printed}0"  # the beginning and the end have none


def test_ids_of_the_proof():
    """cho2025, Table 4: offsets 4 and 2, as far as it is printed."""
    task = tasks.build({"name": ADDING})
    batch = formats.build({"name": "scratchpad"}, task).write(
        task.solve(*to_digits([[57, 48, 96]]))
    )
    first, second = (positions.choose("coupled")(level=level) for level in (1, 2))
    assert first.ids(batch, 4)[0, :13].tolist() == [0, 7, 6, 5, 4, 7, 6, 5, 4, 7, 6, 5, 4]
    assert second.ids(batch, 2)[0, :13].tolist() == [0, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 2]


def test_without_steps_all_operands_are_coupled_by_place():
    """cho2025, 4.3: at one level, as in the triple addition of Cho et al. 2024."""
    task = tasks.build({"name": ADDING})
    form = formats.build({"pad": True, "reverse_operands": False}, task)
    batch = form.write(task.solve(*to_digits([[57, 48, 96]])))
    assert text(batch.tokens[0]) == "^057+048+096=102$"
    found = positions.choose("coupled")().ids(batch)[0].tolist()
    assert "".join(map(str, found)) == "04321432143212340"


def test_where_the_highest_digit_is_written_first_its_sign_is_one_above():
    """So that the sign tells it; a sign stands between numbers in the question as before."""
    task = tasks.build({"name": ADDING})
    form = formats.build({"name": "scratchpad", "reverse_answer": False}, task)
    batch = form.write(task.solve(*to_digits([[57, 48]])))
    assert text(batch.tokens[0]) == "^057+048=000>057>105$"
    found = [positions.choose("coupled")(level=level).ids(batch)[0].tolist() for level in (1, 2)]
    assert "".join(map(str, found[0])) == "043214325432543254320"
    assert "".join(map(str, found[1])) == "011112221111222233330"


def test_scratchpads_refuse_what_they_cannot_write():
    def built(task, **given):
        return formats.build({"name": "scratchpad", **given}, tasks.build({"name": task}))

    for task in ("addition", "copying", "reversing", "bitwise_or", "sorting"):
        with pytest.raises(SettingsError, match="^format: 'scratchpad' writes steps, and .* none"):
            built(task)
    for task in ("multiplication", "parity"):
        for zero in (True, False):
            with pytest.raises(SettingsError, match=f"^format: from_zero {zero} does not fit, .*"):
                built(task, from_zero=zero)
    with pytest.raises(SettingsError, match="^format: reverse_answer false does not fit, the last"):
        built("parity", reverse_answer=False)


@pytest.mark.parametrize("modulus", [7, 113, 1000])
def test_a_symbol_for_each_number(modulus):
    task = tasks.build({"name": "modular_addition", "modulus": modulus})
    form = formats.build({"name": "one_hot"}, task)
    problems = task.draw(200, 3, stream(0, "test"))
    batch = form.write(problems)
    assert batch.tokens.shape[1] == 6 and int(batch.tokens.max()) < form.symbols()
    assert form.extent(3).tokens == 6
    read = form.read(batch.tokens[:, 4:])
    for row, (answer, length) in enumerate(
        zip(problems.answer, problems.answer_length, strict=True)
    ):
        assert read[row, :length].tolist() == answer[:length].tolist()
        assert (read[row, length:] == EOS).all()
    signs = form.read(torch.full((1, 2), EOS))
    assert (signs == EOS).all()


def test_numbers_without_end_have_no_symbols():
    with pytest.raises(SettingsError, match="Addition has no largest one"):
        formats.build({"name": "one_hot"}, tasks.build({"name": "addition"}))


@pytest.mark.parametrize("modulus", [2, 7, 113, 1000])
def test_bits_are_those_that_python_writes(modulus):
    task = tasks.build({"name": "modular_addition", "modulus": modulus})
    form = formats.build({"name": "binary"}, task)
    problems = task.draw(200, 3, stream(0, "test"))
    batch, bits = form.write(problems), (modulus - 1).bit_length()
    extent = form.extent(3)
    assert extent.tokens == batch.tokens.shape[1] == 3 * bits + 4 and extent.run == bits
    assert int(batch.tokens.max()) < form.symbols()
    for row in range(0, len(problems), 7):
        a, b = (to_int(problems.operands[row, k], problems.lengths[row, k]) for k in range(2))
        written = [format(number, f"0{bits}b") for number in (a, b, (a + b) % modulus)]
        assert text(batch.tokens[row]) == "^{}+{}={}$".format(*written)
        for part in range(3):
            places = batch.place[row][batch.number[row] == part + 1].tolist()
            assert places == list(range(bits))[::-1]
    at, target, real = batch.response()
    read = form.read(target)
    assert real.all() and text(batch.tokens[0, : batch.start[0]])[-1] == "="
    for row, length in enumerate(problems.answer_length):
        assert read[row, :length].tolist() == problems.answer[row, :length].tolist()
        assert (read[row, length:] == EOS).all()
    assert (form.write_open_ended(problems).start == batch.start).all()


def test_what_are_no_bits_reads_as_no_number():
    task = tasks.build({"name": "modular_addition", "modulus": 7})
    form = formats.build({"name": "binary"}, task)
    for wrong in ("1$0$", "12$$", "$$$$", "1"):
        assert (form.read(encode(wrong)[None]) == EOS).all()
    assert form.read(encode("110$")[None])[0, 0] == 6
    with pytest.raises(SettingsError, match="Addition has no largest one"):
        formats.build({"name": "binary"}, tasks.build({"name": "addition"}))
