"""What is written can be read back, and marks say what they claim."""

import itertools
from collections import Counter

import pytest
import torch

from carry import formats, positions, tasks
from carry.config.settings import SettingsError, list_modules
from carry.data.batch import NO_PLACE
from carry.data.problems import LABEL_RANGE, reverse_digits
from carry.experiments.resolve import make_run
from carry.experiments.run import SUB_TASKS
from carry.formats import (
    ALPHABET,
    EOS,
    HINT_LETTERS,
    insert_random_padding,
    to_text,
    to_tokens,
)
from carry.randomness import stream
from carry.tasks import OPERAND_LETTERS, to_digits
from mock_models import Oracle
from pairwise import pairwise
from pythons import assert_places, digits_to_int

ADDING = "multi_operand_addition"
TASKS = {name: tasks.build_task({"name": name}) for name in list_modules("carry.tasks")}
SORTING = TASKS["sorting"]
PADDINGS = [{}, {"pad": True}, {"pad": "answer"}, {"pad_to": 8}, {"pad_to": 20}]
EXTRAS = [{}, {"hints": "cyclic"}, {"hints": "ordered"}, {"spaces": 0.5}]
# Each pair of two settings' values, and each value with each task whose answer is a number.
WRITTEN = pairwise(
    task=[name for name in TASKS if TASKS[name].answer_is_number],
    reverse_operands=[False, True],
    reverse_answer=[False, True],
    begin=["^", "$"],
    padding=PADDINGS,
    extra=EXTRAS,
)
HINTS = [
    {"hints": "cyclic"},
    {"hints": "ordered", "pad": True},
    {"hints": "ordered", "pad_to": 9, "reverse_operands": False},
    {"hints": "cyclic", "reverse_operands": False, "reverse_answer": False},
]
DIGITS = "0123456789"


def flatten(row):
    """Return the settings of a format from a row of pairs."""
    settings = {**row, **row.get("padding", {}), **row.get("extra", {})}
    return {k: v for k, v in settings.items() if k not in ("task", "padding", "extra")}


def name(row):
    shown = {k: v for k, v in flatten(row).items() if v not in (False, "none", "^")}
    words = [k if v is True else f"{k}_{v}" for k, v in shown.items()]
    return "-".join([*([row["task"]] if "task" in row else []), *words]) or "plain"


@pytest.fixture(params=WRITTEN, ids=name)
def given(request):
    return flatten(request.param)


@pytest.fixture
def written(request, given):
    task = TASKS[request.node.callspec.params["given"]["task"]]
    problems = task.draw(60, 6, stream(0, "formats"))
    form = formats.build_format(given, task)
    return task, form, problems, form.write(problems)


def without_letters(characters):
    return "".join(c for c in characters if c not in HINT_LETTERS)


@pytest.mark.contract
def test_text_is_the_problem_as_one_writes_it(written, given):
    task, _, problems, batch = written
    for row in range(len(problems)):
        lengths = problems.lengths[row].tolist()
        operands = zip(problems.operands[row], lengths, strict=True)
        texts = [str(digits_to_int(digits, n)).zfill(n) for digits, n in operands if n]
        answer, room = task.solve_text(*texts), int(problems.room[row])
        if given.get("pad"):  # of several numbers to be added, all have the room of the sum
            width = room if task is TASKS[ADDING] else max(lengths)
            width = width if given["pad"] is True else 0
            texts, answer = [part.zfill(width) for part in texts], answer.zfill(room)
        width = given.get("pad_to", 0)
        texts, answer = [part.zfill(width) for part in texts], answer.zfill(width)
        if given["reverse_operands"]:
            texts = [part[::-1] for part in texts]
        if given["reverse_answer"]:
            answer = answer[::-1]
        expected = f"{given.get('begin', '^')}{task.sign.join(texts)}={answer}$"
        found = without_letters(to_text(batch.tokens[row, : batch.length[row]]))
        assert found.replace(" ", "") == expected and (" " not in found or "spaces" in given)
        operands, response = found[1:].split("=")
        assert operands.strip(" ") == operands and " " not in response
        assert set(to_text(batch.tokens[row, batch.length[row] :])) <= {"_"}
        assert to_text(batch.tokens[row, : batch.start[row]])[-1] == "="


@pytest.mark.contract
def test_marks_name_the_digit_at_their_place(written):
    """The places of a reversed answer are those of the operand, which count down."""
    task, form, problems, batch = written
    answer = problems.answer
    if task.answer_is_reversed:
        length = form._answer_length(problems)
        answer = torch.nn.functional.pad(answer, (0, max(0, int(length.max()) - answer.shape[1])))
        answer = reverse_digits(answer, length)
    assert_places(batch, [*problems.operands.unbind(1), answer])


@pytest.mark.parametrize("given", HINTS, ids=name)
def test_hints_say_the_place(given):
    """A letter stands before every digit, and is the same for equal places of one problem."""
    problems = TASKS["addition"].draw(500, 6, stream(0, "formats"))
    form = formats.build_format(given, TASKS["addition"])
    batch = form.write(problems)
    firsts = Counter()
    for row in range(len(problems)):
        characters = to_text(batch.tokens[row, 1 : batch.length[row] - 1])
        places = batch.place[row, 1 : batch.length[row] - 1].tolist()
        seen = {}
        for at, character in enumerate(characters):
            if character in DIGITS:
                letter = HINT_LETTERS.index(characters[at - 1])
                assert (
                    places[at] == places[at - 1] and seen.setdefault(places[at], letter) == letter
                )
        steps = {(seen[place + 1] - seen[place]) % 102 for place in range(len(seen) - 1)}
        assert steps <= {1}
        if given["hints"] == "ordered":
            assert all(seen[place + 1] > seen[place] for place in range(len(seen) - 1))
        firsts[seen[0]] += 1
    assert len(firsts) > 90 and max(firsts) > 90


SCRATCHPADS = [
    {key: value for key, value in row.items() if value is not None}
    for row in pairwise(
        lambda row: (
            (row["task"] == ADDING or row["from_zero"] is None)
            and (row["task"] != "parity" or row["reverse_answer"])
            and (row["task"] != "parity" or not row["local"])
        ),
        task=[ADDING, "multiplication", "parity"],
        reverse_operands=[False, True],
        reverse_answer=[False, True],
        pad=[False, True],
        from_zero=[None, False],
        local=[False, True],
        signs=[None, "lowest"],
    )
]


def split_scratchpad(task, local, **form):
    """Return the settings of a task and of its scratchpad."""
    task = {"name": task, "local": True} if local else task
    return task, {"name": "scratchpad", **form}


ORDERS = [dict(zip(("reverse_operands", "reverse_answer"), values, strict=True))
          for values in itertools.product([False, True], repeat=2)]  # fmt: skip
FORMS = [
    *((row["task"], flatten(row)) for row in WRITTEN),
    *(("addition", {"name": "sub_task", "prefix": prefix, "spaces": spaces, **order})
      for prefix in SUB_TASKS for spaces in (0.0, 0.5) for order in ORDERS),
    ("addition", {"name": "line", "sums": [1, 3]}),
    *(("addition", {"name": "worded", "bar": bar}) for bar in (False, True)),
    *(({"name": "addition", "radix": 2}, {"name": name}) for name in ("line", "worded")),
    *(("modular_addition", {"name": name}) for name in ("one_hot", "binary")),
    *(("sorting", {"name": name}) for name in ("labelled", "insertion_sort")),
    ("calculator", {"name": "longhand"}),
    *(("subtraction", {"name": "scratchpad", **order}) for order in ORDERS),
    ("comparison", {"name": "scratchpad"}),
    *(split_scratchpad(**row) for row in SCRATCHPADS),
]  # fmt: skip


@pytest.fixture(params=FORMS, ids=lambda pair: f"{pair[0]}-{pair[1]}", scope="module")
def every(request):
    """Return a format, 60 problems with up to six digits, and the problems as they are written."""
    task, settings = request.param
    task = TASKS[task] if isinstance(task, str) else tasks.build_task(task)
    form, problems = formats.build_format(settings, task), task.draw(60, 6, stream(0, "formats"))
    return form, problems, form.write(problems)


@pytest.mark.contract
def test_the_response_reads_back(every):
    form, problems, batch = every
    if not form.task.answer_is_number:
        pytest.skip("lists are read back below")
    at, target, real = batch.response()
    assert (batch.tokens.gather(1, at + 1)[real] == target[real]).all()
    response = torch.where(real, target, EOS)
    back = form.read(response)
    if not form.writes_answer:
        assert torch.equal(back, response)
        return
    width = min(problems.answer.shape[1], back.shape[1])
    digits = problems.answer[:, :width].long()
    inside = torch.arange(width) < problems.answer_length[:, None]
    assert (back[:, :width][inside] == digits[inside]).all()
    room = torch.maximum(problems.room, torch.tensor(getattr(form, "pad_to", None) or 0))
    beyond = torch.arange(back.shape[1]) >= problems.answer_length[:, None]
    beyond = back[beyond & (torch.arange(back.shape[1]) < room[:, None])]
    assert beyond.unique().tolist() in ([], [0], [EOS], [0, EOS])


@pytest.mark.contract
def test_nothing_is_longer_than_its_extent(every):
    form, problems, batch = every
    extent, whole = form.extent(6), form.write_open_ended(problems)
    abacus = positions.choose_scheme("abacus")()
    for of in (batch, whole) if form.marks_known_from_question else (batch,):
        assert int(of.length.max()) <= extent.tokens
        assert int(of.tokens.max()) < form.vocabulary_size()
        assert int(abacus.ids(of).max()) <= extent.longest_number
        assert of.levels.shape[2] == len(extent.levels) == form.level_count
        assert (of.levels.amax((0, 1)) < torch.tensor(extent.levels)).all()
    cells = torch.full((60, 2), 6)
    largest = form.write_open_ended(form.task.draw_for_cells(cells, stream(0, "largest")))
    assert int(largest.length.max()) <= extent.tokens
    is_bound = form.task in (TASKS["calculator"], TASKS["modular_addition"])
    if not form.variable_length and not is_bound:
        assert int(largest.length.max()) == extent.tokens


def test_a_task_without_an_answer_at_zero_has_an_extent():
    class Quotient(type(TASKS["subtraction"])):
        def solve(self, operands, lengths):
            assert operands.any(2).all(), "nothing is divided by 0"
            return super().solve(operands, lengths)

    form = formats.build_format({"name": "expression"}, Quotient())
    assert form.extent(6) == formats.build_format(
        {"name": "expression"}, TASKS["subtraction"]
    ).extent(6)


@pytest.mark.contract
def test_open_ended_questions_are_those_of_the_problems(every):
    """A response as long as the true one has its marks; in a format without steps it is blank.

    A problem is written alike among others and alone.
    """
    form, problems, batch = every
    whole = form.write_open_ended(problems)
    assert torch.equal(whole.start, batch.start) and (whole.length >= batch.length).all()
    for row in range(len(problems)):
        start, length = int(batch.start[row]), int(batch.length[row])
        if row % 7 == 0:
            alone = form.write(problems[row : row + 1].trim())
            assert torch.equal(alone.tokens[0], batch.tokens[row, :length])
        for mark in ("tokens", "number", "place"):
            expected = getattr(batch, mark)[row, :start]
            assert torch.equal(getattr(whole, mark)[row, :start], expected), mark
        if form.marks_known_from_question and int(whole.length[row]) == length:
            for mark in ("number", "place", "levels"):
                expected = getattr(batch, mark)[row, :length]
                assert torch.equal(getattr(whole, mark)[row, :length], expected), mark
        if type(form).__name__ in ("Expression", "SubTask", "Worded"):
            blank = without_letters(to_text(whole.tokens[row, start:])).strip("_")
            assert {*blank} in ({*"0$"}, {*"-$"})


def test_labelled_arrays():
    problems = SORTING.draw(400, 7, stream(0, "formats"))
    form = formats.build_format({"name": "labelled"}, SORTING)
    batch, firsts = form.write(problems), set()
    for row in range(len(problems)):
        question, answer = to_text(batch.tokens[row, : batch.length[row]]).split("=")
        pairs = [part.split(":") for part in question[1:].split(",")]
        names, numbers = zip(*pairs, strict=True)
        numbers = [number[::-1] for number in numbers]
        first = OPERAND_LETTERS.index(names[0])
        assert list(names) == list(OPERAND_LETTERS[first : first + len(names)])
        expected = [names[OPERAND_LETTERS.index(at)] for at in SORTING.solve_text(*numbers)]
        assert answer == ",".join(expected) + "$"
        firsts.add(first)
    assert_places(batch, problems.operands.unbind(1))
    assert min(firsts) == 0 and max(firsts) > 40
    _, target, real = batch.response()
    back = form.read(torch.where(real, target, EOS))
    assert ((back != EOS).sum(1) == problems.room).all()


def test_formats_refuse_what_they_cannot_write():
    for name in ("line", "sub_task", "worded"):
        settings = {"name": name, **({"prefix": "add"} if name == "sub_task" else {})}
        with pytest.raises(SettingsError, match="does not write Sorting; expected task 'addition'"):
            formats.build_format(settings, SORTING)
    for name, task in (("one_hot", "modular_addition"), ("insertion_sort", "sorting"),
                       ("labelled", "sorting")):  # fmt: skip
        for other in ("addition", "calculator"):
            with pytest.raises(SettingsError, match=f"'{name}' does not write .*; .* '{task}'"):
                formats.build_format({"name": name}, TASKS[other])
    with pytest.raises(SettingsError, match="format: 'expression' writes numbers"):
        formats.build_format({}, SORTING)


@pytest.mark.parametrize("share", [0.1, 0.6])
def test_noise_pads_the_question_and_nothing_else(share):
    task = TASKS["addition"]
    batch = formats.build_format({}, task).write(task.draw(300, 6, stream(0, "noise")))
    noised = insert_random_padding(batch, share, stream(1, "noise"))
    pads = 0
    for row in range(len(batch)):
        plain = to_text(batch.tokens[row, : batch.length[row]])
        loud = to_text(noised.tokens[row, : noised.length[row]])
        assert loud.replace("_", "") == plain and loud[0] == "^"
        assert loud.split("=")[1] == plain.split("=")[1]
        assert noised.start[row] == loud.index("=") + 1
        kept = noised.tokens[row] != to_tokens("_")[0]
        for mark in ("number", "place", "levels"):
            marks, before = getattr(noised, mark)[row], getattr(batch, mark)[row]
            assert torch.equal(marks[kept], before[: batch.length[row]])
            assert set(marks[~kept].flatten().tolist()) <= {0 if mark == "number" else -1}
        pads += loud.count("_")
    slots = int((batch.start - 1).sum())
    assert abs(pads / slots - share) < 0.05  # more than five standard deviations


def test_the_alphabet_has_no_symbol_twice():
    assert len(set(ALPHABET)) == len(ALPHABET) and len(HINT_LETTERS) == 102
    assert torch.equal(to_tokens(ALPHABET), torch.arange(len(ALPHABET)))


def test_labels_begin_alphabets_about_evenly():
    starts = formats.choose_first_letter(torch.arange(LABEL_RANGE), 43).bincount()
    assert len(starts) == 43 and starts.max() - starts.min() <= 1


def from_first(given):
    return name(given) + ("-from_first" if given.get("from_zero") is False else "")


@pytest.fixture(params=SCRATCHPADS, ids=from_first, scope="module")
def steps(request):
    """Return a model that writes steps, and problems with theirs, of equal lengths and of others.

    Some are longer than others, some have zeros, and some more numbers.
    """
    task, form = split_scratchpad(**request.param)
    task = {"name": task} if isinstance(task, str) else task
    model = {"layers": 1, "width": 4, "heads": 1}
    system = Oracle(make_run({"task": task, "format": form, "model": model}))
    problems = system.task.draw(80, 5, stream(0, "steps"))
    return system, problems, system.format.write(problems)


def test_scratchpads_are_what_pythons_integers_write(steps):
    system, problems, batch = steps
    form, task = system.format, system.task
    for row in range(len(problems)):
        whole = to_text(batch.tokens[row, : batch.length[row]])
        question, response = whole[: batch.start[row]], whole[batch.start[row] :]
        assert response == system.respond(question)
        lengths = problems.lengths[row].tolist()
        operands = zip(problems.operands[row], lengths, strict=True)
        parts = [str(digits_to_int(digits, n)).zfill(n) for digits, n in operands if n]
        if form.pad and task.sign == "+":  # a product's factors, and bits, are as they are
            parts = [part.zfill(int(problems.room[row])) for part in parts]
        if form.reverse_operands:
            parts = [part[::-1] for part in parts]
        assert question == f"^{task.sign.join(parts)}="
        assert set(to_text(batch.tokens[row, batch.length[row] :])) <= {"_"}


def test_marks_of_steps_name_the_digit_at_their_place(steps):
    system, problems, batch = steps
    stages = system.format.scratchpad_stages(problems)
    assert_places(batch, [number for stage in stages for number in stage.numbers.unbind(1)])


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
        marked = form.mark_continuation(one, true, true.tokens[:, start:])
        assert torch.equal(marked.tokens, true.tokens) and torch.equal(marked.start, true.start)
        assert torch.equal(marked.number[:, :end], true.number[:, :end])
        if form.reverse_answer:  # else no place is known before its number has ended
            assert torch.equal(marked.place[:, :end], true.place[:, :end])
            assert torch.equal(marked.levels[:, :end], true.levels[:, :end])
        else:
            assert (marked.place[:, start:] == NO_PLACE).all()
        for read in (0, 1, (end - start) // 2, end - start):
            some = form.mark_continuation(one, true, true.tokens[:, start : start + read])
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
    for said in range(form.vocabulary_size()):
        marked = form.mark_continuation(one, whole, torch.full((1, slots), said))
        assert (marked.levels[0].amax(0) <= most).all(), said
        assert (most < torch.tensor(extent.levels)).all()
        assert int(marked.place.max()) < extent.longest_number


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
    task = tasks.build_task({"name": task})
    form = formats.build_format({"name": "scratchpad", **given}, task)
    batch = form.write(task.solve(*to_digits([operands])))
    assert to_text(batch.tokens[0]) == f"^{tokens}$"
    assert form.level_count == len(ids)
    for level, printed in enumerate(ids, start=1):
        found = positions.choose_scheme("coupled")(level=level).ids(batch)[0].tolist()
        assert "".join(map(str, found)) == f"0{printed}0"  # the beginning and the end have none


def test_scratchpads_refuse_what_they_cannot_write():
    def built(task, **given):
        return formats.build_format(
            {"name": "scratchpad", **given}, tasks.build_task({"name": task})
        )

    for task in ("addition", "copying", "reversing", "bitwise_or", "sorting"):
        with pytest.raises(SettingsError, match="^format: 'scratchpad' writes steps, and .* none"):
            built(task)
    for task in ("multiplication", "parity"):
        with pytest.raises(SettingsError, match="^format: from_zero false does not fit a task"):
            built(task, from_zero=False)
    with pytest.raises(SettingsError, match="^format: reverse_answer false does not fit, the last"):
        built("parity", reverse_answer=False)


@pytest.mark.parametrize("modulus", [2, 7, 113, 1000])
def test_bits_are_those_that_python_writes(modulus):
    task = tasks.build_task({"name": "modular_addition", "modulus": modulus})
    form = formats.build_format({"name": "binary"}, task)
    problems = task.draw(200, 3, stream(0, "test"))
    batch, bits = form.write(problems), (modulus - 1).bit_length()
    for row in range(0, len(problems), 7):
        a, b = (
            digits_to_int(problems.operands[row, k], problems.lengths[row, k]) for k in range(2)
        )
        written = [format(number, f"0{bits}b") for number in (a, b, (a + b) % modulus)]
        assert to_text(batch.tokens[row]) == "^{}+{}={}$".format(*written)
        for part in range(3):
            places = batch.place[row][batch.number[row] == part + 1].tolist()
            assert places == list(range(bits))[::-1]


def test_what_are_no_bits_and_no_symbols_reads_as_no_number():
    task = tasks.build_task({"name": "modular_addition", "modulus": 7})
    symbols, form = (formats.build_format({"name": name}, task) for name in ("one_hot", "binary"))
    assert (symbols.read(torch.full((1, 2), EOS)) == EOS).all()
    for wrong in ("1$0$", "12$$", "$$$$", "1"):
        assert (form.read(to_tokens(wrong)[None]) == EOS).all()
    assert form.read(to_tokens("110$")[None])[0, 0] == 6


def test_more_tokens_than_marks_can_count_are_refused(monkeypatch):
    monkeypatch.setattr(formats, "MAX_TOKENS", 1)
    piece = formats.sign_piece(EOS, torch.device("cpu"))
    with pytest.raises(SettingsError, match="^format: a problem is too long; expected at most 1 "):
        formats.join_pieces([piece], [], 1, [])
