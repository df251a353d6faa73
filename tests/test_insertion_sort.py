"""Lists sorted by insertion: what is written, how it is coupled, and what a step depends on."""

import pytest
import torch

from carry.certificates.contexts import ConflictingContexts, extract_contexts, unique_contexts
from carry.config.settings import SettingsError
from carry.evaluation.ask import ask, read_answer
from carry.evaluation.decoding import decode_greedily
from carry.experiments.resolve import load_run, make_run
from carry.formats import EOS, insertion_sort, to_text
from carry.models.system import System
from carry.positions.coupled import Coupled
from carry.randomness import stream
from carry.tasks import to_digits
from mock_models import Oracle

ORACLE = Oracle(make_run({"task": {"name": "sorting"}, "format": {"name": "insertion_sort"}}))
SORTING, FORM = ORACLE.task, ORACLE.format


def lists(count, numbers, digits, seed=0):
    """Return lists of up to so many numbers, of which many begin alike and many are the same."""
    generator = stream(seed, "lists", numbers, digits)
    shape = (count, numbers, digits)
    tens = torch.randint(0, 10, shape, generator=generator)
    twos = torch.randint(0, 2, shape, generator=generator)
    whole = torch.where(torch.rand(count, 1, 1, generator=generator) < 0.5, tens, twos)
    many = torch.randint(1, numbers + 1, (count,), generator=generator)
    texts = [["".join(map(str, row)) for row in of] for of in whole.tolist()]
    kept = [[int(row) for row in of[:some]] for of, some in zip(texts, many.tolist(), strict=True)]
    return SORTING.solve(*to_digits(kept)), kept


@pytest.mark.parametrize(("numbers", "digits"), [(1, 3), (2, 1), (4, 4), (7, 3), (3, 12)])
def test_steps_are_what_python_writes(numbers, digits):
    problems, kept = lists(60, numbers, digits)
    batch = FORM.write(problems)
    for row, own in enumerate(kept):
        width = max(len(str(number)) for number in own)
        asked = ",".join(str(number).zfill(width) for number in own)
        start, end = int(batch.start[row]), int(batch.length[row])
        assert to_text(batch.tokens[row, :start]) == f"^{asked}="
        response = to_text(batch.tokens[row, start:end])
        assert response == ORACLE.respond(f"^{asked}=")
        if len(own) > 1:
            last = response[:-1].replace(";", ":").split(":")[-1].split(",")
            assert [int(number) for number in last] == sorted(own)
        assert set(to_text(batch.tokens[row, end:])) <= {"_"}


def test_the_drawn_ids_are_those_of_the_scheme():
    lines = insertion_sort.__doc__.splitlines()
    drawn = next(line for line in lines if line.startswith("digits")).split()[1:]
    batch = FORM.write(SORTING.solve(*to_digits([[57, 8, 61]])))
    assert to_text(batch.tokens[0]).startswith("".join(drawn))
    for level in range(1, 5):
        line = next(line for line in lines if line.startswith(f"level {level}"))
        ids = Coupled(level=level).ids(batch)[0]
        assert [int(of) for of in line.split()[2:]] == ids[: len(drawn)].tolist()


def test_marks_depend_on_the_question_alone():
    """All are settled by how many numbers there are, and by the digits of the longest."""
    problems, _ = lists(60, 5, 4)
    batch, place = FORM.write(problems), torch.arange(problems.operands.shape[2])
    ones = (place < problems.lengths[:, :, None]).to(torch.uint8)
    longest = torch.where(problems.lengths > 0, problems.lengths.amax(1, keepdim=True), 0)
    for of in (SORTING.solve(ones, problems.lengths), SORTING.solve(ones, longest)):
        for mark in ("number", "place", "levels", "start", "length"):
            assert torch.equal(getattr(FORM.write(of), mark), getattr(batch, mark)), mark


def test_places_name_digits():
    problems, _ = lists(20, 4, 3)
    batch = FORM.write(problems)
    for row, at in (batch.number > 0).nonzero().tolist():
        number, place = int(batch.number[row, at]), int(batch.place[row, at])
        if number <= problems.operands.shape[1]:
            assert batch.tokens[row, at] == problems.operands[row, number - 1, place]


def test_the_sorted_list_is_read_back():
    problems, kept = lists(30, 5, 3)
    _, target, real = FORM.write(problems).response()
    read = FORM.read(torch.where(real, target, EOS))
    for row, own in zip(read, kept, strict=True):
        said = to_text(row[row != EOS])
        assert [int(of) for of in said.split(",") if of] == (sorted(own) if len(own) > 1 else [])
    assert torch.equal(decode_greedily(ORACLE, problems), torch.where(real, target, EOS))
    assert read_answer(ORACLE, ask(ORACLE, 57, 8, 120)) == "008,057,120"


def test_other_tasks_and_longer_lists_are_refused():
    longest = insertion_sort.MAX_NUMBERS
    for refused in (
        lambda: FORM.write(SORTING.solve(*to_digits([[0] * (longest + 1)]))),
        lambda: FORM.extent(longest + 1),
    ):
        with pytest.raises(SettingsError, match="a list of 1024 numbers does not fit; expected"):
            refused()


def contexts_with(changes):
    """Return what windows show of many problems, some windows changed, by level."""
    run = load_run("sorting_relative_scratchpad")
    pairs = [dict(pair) for pair in run.positions]
    for level, window in changes.items():
        pairs[level - 1]["window"] = window
    system = System(run.model_copy(update={"positions": pairs}))
    each = [lists(100, numbers, digits)[0] for numbers in (2, 4, 6) for digits in (1, 2, 4, 8)]
    batches = map(system.format.write, each)
    return unique_contexts(
        system, (extract_contexts(system, of, of.response()[2]) for of in batches)
    )


def test_a_step_depends_on_few_tokens():
    assert contexts_with({}).tokens.shape[1] == 9


# Of each window the side that shows more than a token's own ids, but for the list's comparisons at
# the digit due, which the ones before them and the digits tell as well.
NARROWER = {
    "comparisons at the digit written": {1: [0, 3]},
    "digits due": {1: [1, 0]},
    "the list before": {2: [1, 0]},
    "the next higher rank": {3: 0},
}


@pytest.mark.parametrize("changes", NARROWER.values(), ids=NARROWER)
def test_narrower_windows_leave_a_step_undetermined(changes):
    with pytest.raises(ConflictingContexts):
        contexts_with(changes)
