"""Fast answers and steps against Python's own integers; lengths and digits as documented."""

import itertools

import pytest
import torch
from scipy.stats import binomtest, chisquare

from carry import tasks
from carry.config.settings import SettingsError, list_modules
from carry.data import problem_sets
from carry.data.problem_sets import ProblemSet
from carry.data.problems import LABEL_RANGE, count_written_digits
from carry.randomness import stream
from carry.tasks import to_digits
from pythons import digits_to_int, write_stages

TASKS = list_modules("carry.tasks")
COUNT = 5_000  # problems of each of four sizes
ADDING = "multi_operand_addition"


@pytest.fixture(params=TASKS)
def task(request):
    return tasks.build_task({"name": request.param})


def smallest(task):
    """Return the smallest size that training can have: of several operands, two."""
    return max(task.smallest_cell)


def spelled(digits, length):
    """Return one number as text, the ones last; its leading zeros are kept."""
    return "".join(map(str, digits[: int(length)].flip(0).tolist()))


def texts(numbers, lengths):
    """Return for each problem those of its numbers that are there."""
    rows = zip(numbers, lengths, strict=True)
    return [
        [spelled(d, n) for d, n in zip(digits, of, strict=True) if n > 0] for digits, of in rows
    ]


def integers(problems):
    return [[int(text) for text in row] for row in texts(problems.operands, problems.lengths)]


@pytest.mark.contract
@pytest.mark.parametrize("digits", [1, 2, 7, 25])
@pytest.mark.parametrize("name", TASKS)
def test_answers_agree_with_the_oracle(name, digits):
    """Operands as text, ones last, in; the answer as text out: nothing is shared but the task."""
    task = tasks.build_task({"name": name})
    problems = task.draw(COUNT, digits + smallest(task) - 1, stream(0, "oracle"))
    table = problem_sets.to_table("drawn", torch.zeros(COUNT, 2), problems, task)
    assert [task.solve_text(*row.split()) for row in table["operands"]] == table["answer"].tolist()


@pytest.mark.contract
def test_labels_and_declarations(task):
    """Figures and messages take these words from the class."""
    assert task.label and task.noun and task.unit.format(7) != task.unit
    assert 2 <= task.base <= 10
    with pytest.raises(SettingsError, match="is too small, expected at least"):
        task.check_cell((0, 0), "here")


def test_a_task_without_words_of_its_own_has_defaults():
    class DigitSum(tasks.Task):
        """Declares no label."""

    assert (DigitSum.label, DigitSum.noun, DigitSum.unit) == ("Digit sum", "problems", "{0} digits")
    assert tasks.build_task({"name": "reversing"}).label == "Reversing"  # not that of Copying


@pytest.mark.contract
@pytest.mark.parametrize("digits", [1, 5, 20])
def test_what_every_task_keeps(task, digits):
    """Zeros beyond each length; no answer exceeds its room, a function of the lengths."""
    digits = max(digits, smallest(task))
    problems = task.draw(2_000, digits, stream(0, "test"))
    beyond = torch.arange(problems.operands.shape[2]) >= problems.lengths[:, :, None]
    assert not problems.operands[beyond].any()
    beyond = torch.arange(problems.answer.shape[1]) >= problems.answer_length[:, None]
    assert not problems.answer[beyond].any()
    assert (problems.answer_length <= problems.room).all() and (problems.answer_length > 0).all()
    assert problems.room.max() <= task.max_answer_length(digits)
    assert problems.lengths.shape[1] <= task.largest_lengths(digits).shape[1]
    assert problems.lengths.max() <= task.largest_lengths(digits).max() == digits
    padded = task.padded_lengths(problems.lengths)
    assert (padded >= problems.lengths).all()
    assert torch.equal(padded > 0, problems.lengths > 0)
    assert torch.equal(problems.room, task.answer_room(problems.lengths))
    assert problems.label.min() >= 0 and problems.label.max() < LABEL_RANGE
    for name, step in task.compute_steps(problems).items():
        assert len(step) == 2_000, name


@pytest.mark.contract
def test_trimmed_problems_are_the_same(task):
    problems = task.draw(500, 9, stream(0, "test"))
    few = problems[problems.lengths.sum(1).argsort()[:20]]
    again = task.solve(few.trim().operands, few.trim().lengths)
    assert torch.equal(again.answer_length, few.answer_length)
    assert torch.equal(few.answer[:, : again.answer.shape[1]], again.answer)
    assert few.trim().operands.shape[2] < 9


@pytest.mark.parametrize("sampling", ["stratified", "equal", "longest"])
def test_lengths_and_leading_digits(sampling):
    task = tasks.build_task({"name": "addition", "sampling": sampling})
    problems = task.draw(3_000, 6, stream(1, "test"))
    assert problems.lengths.min() == 1 and problems.lengths.max() == 6
    lead = problems.operands.gather(2, problems.lengths[:, :, None] - 1)[:, :, 0]
    assert (lead[problems.lengths > 1] > 0).all()
    assert (lead[problems.lengths == 1] == 0).any()
    if sampling == "equal":
        assert (problems.lengths[:, 0] == problems.lengths[:, 1]).all()


def test_stratified_cells_are_equally_frequent():
    lengths = tasks.build_task({"name": "addition"}).draw_training_cells(
        2_530, 5, stream(0, "test")
    )
    counts = torch.bincount((lengths[:, 0] - 1) * 5 + lengths[:, 1] - 1)
    assert counts.min() == 101 and counts.max() == 102  # 2,530 = 25 * 101 + 5


def test_digits_are_uniform():
    """A chi-squared test over ten digits; false alarm 1 in 1,000, but the seed is fixed."""
    task = tasks.build_task({"name": "addition"})
    problems = task.draw_for_cells(torch.full((5_000, 2), 4), stream(0, "uniform"))
    inner = problems.operands[:, :, :3].flatten()
    assert chisquare(torch.bincount(inner.long(), minlength=10).numpy()).pvalue > 0.001
    lead = problems.operands[:, :, 3].flatten()
    assert chisquare(torch.bincount(lead.long(), minlength=10)[1:].numpy()).pvalue > 0.001


def test_the_longest_cascade():
    task = tasks.build_task({"name": "addition"})
    problems = task.solve(*tasks.to_digits([[10**40 - 1, 1]]))
    assert digits_to_int(problems.answer[0], problems.answer_length[0]) == 10**40
    assert task.compute_steps(problems)["cascade"].sum() == 39


def test_problem_sets_do_not_move():
    settings = {"task": {"name": "addition"}, "grid": 4, "each": 3}
    some = settings | {"equal": 2, "far": [[60, 60, 2]]}
    more = settings | {"equal": 5, "far": [[60, 60, 2], [80, 80, 1]]}
    first, second = (
        problem_sets.draw_problem_set("mine", ProblemSet.parse(given, "problems.mine"))
        for given in (some, more)
    )
    grids = [table[table["set"] == "grid"] for table in (first, second)]
    assert grids[0].equals(grids[1])
    numbers = second["operands"].str.split(expand=True)
    sums = [int(a) + int(b) for a, b in numbers.to_numpy()]
    assert sums == second["answer"].map(int).tolist()
    assert (numbers[0].str.len() == second["i"]).all()


@pytest.mark.parametrize("name", TASKS)
def test_a_problem_set_reads_back(name):
    task = tasks.build_task({"name": name})
    drawn = task.draw(300, 6, stream(0, "read"))
    table = problem_sets.to_table("drawn", torch.zeros(300, 2), drawn, task)
    problems = problem_sets.to_problems(table, task)
    for field in ("operands", "lengths", "answer_length", "room", "label"):
        assert torch.equal(getattr(problems, field), getattr(drawn, field)), field


def test_or_has_one_one_in_the_shorter_vector():
    task = tasks.build_task({"name": "bitwise_or"})
    problems = task.draw(4_000, 6, stream(0, "test"))
    ones = problems.operands.sum(2)
    assert (ones.sum(1) == 1).all()
    shorter = problems.lengths == problems.lengths.amin(1, keepdim=True)
    assert ((ones == 1) <= shorter).all()
    equal = problems.lengths[:, 0] == problems.lengths[:, 1]
    assert ones[equal].sum(0).min() > 0  # either has it where both could


def test_or_samples_all_problems_alike():
    """A chi-squared test over every problem there is; false alarm 1 in 1,000, the seed is fixed."""
    task = tasks.build_task({"name": "bitwise_or"})
    problems = task.draw(20_000, 4, stream(0, "test"))
    place = problems.operands.flatten(1).int().argmax(1)
    key = (problems.lengths[:, 0] * 10 + problems.lengths[:, 1]) * 10 + place
    counts = key.unique(return_counts=True)[1]
    there_are = sum(2 * i if i == j else min(i, j) for i in range(1, 5) for j in range(1, 5))
    assert len(counts) == there_are
    assert chisquare(counts.numpy()).pvalue > 0.001


@pytest.mark.parametrize(
    ("numbers", "share"), [("uniform_values", 0.1), ("uniform_lengths", 7 / 8)]
)
def test_sorting_cells_bound_count_and_digits(numbers, share):
    """A tenth of all numbers below 10^8 have fewer digits."""
    task = tasks.build_task({"name": "sorting", "numbers": numbers})
    cells = torch.tensor([[3, 8], [7, 1], [1, 30]]).repeat(200, 1)
    problems = task.draw_for_cells(cells, stream(0, "test"))
    assert torch.equal(problems.room, cells[:, 0])
    assert (problems.lengths.amax(1) <= cells[:, 1]).all()
    lead = problems.operands.gather(2, (problems.lengths - 1).clamp(min=0)[:, :, None])[:, :, 0]
    assert (lead[problems.lengths > 1] > 0).all()
    short = (problems.lengths[cells[:, 0] == 3, :3] < 8).float().mean()
    assert abs(short - share) < 0.05


def test_every_size_of_sums_is_drawn_alike():
    """S(n, m) of cho2025, 4.2; false alarm 1 in 1,000 for each test, but the seed is fixed."""
    task, n = tasks.build_task({"name": ADDING}), 5
    problems = task.draw(20_000, n, stream(0, "sizes"))
    lengths, count = problems.lengths, (problems.lengths > 0).sum(1)
    assert chisquare(count.bincount(minlength=n + 1)[2:]).pvalue > 0.001  # from 2 to m
    first = lengths[:, 0]
    assert chisquare(first.bincount(minlength=n + 1)[1:]).pvalue > 0.001  # from 1 to n
    # Half have equal lengths by intent, and of the others those that chance makes so.
    equal = ((lengths == first[:, None]) | (lengths == 0)).all(1)
    for operands in range(2, n + 1):
        of = equal[count == operands]
        expected = 0.5 + 0.5 * n ** (1 - operands)
        assert binomtest(int(of.sum()), len(of), expected).pvalue > 0.001
    assert chisquare(first[equal & (count == 4)].bincount(minlength=n + 1)[1:]).pvalue > 0.001
    lead = problems.operands.gather(2, (lengths - 1).clamp(min=0)[:, :, None])[:, :, 0]
    assert (lead[lengths > 1] > 0).all() and (lead[lengths == 1] == 0).any()


def test_cells_of_sums_are_digits_and_operands():
    task = tasks.build_task({"name": ADDING})
    problems = task.draw_for_cells(torch.tensor([[3, 12], [7, 2], [1, 30]]), stream(0, "test"))
    assert (problems.lengths > 0).sum(1).tolist() == [12, 2, 30]
    assert problems.lengths.amax(1).tolist() == [3, 7, 1]
    assert problems.room.tolist() == [5, 8, 3]  # 12 x 999 has five digits, 30 x 9 has three
    given = {"task": {"name": ADDING}, "grid": 3, "each": 2, "equal": 1}
    table = problem_sets.draw_problem_set("mine", ProblemSet.parse(given, "problems.mine"))
    assert set(zip(*table[["i", "j"]].to_numpy().T, strict=True)) == {
        (i, j) for i in (1, 2, 3) for j in (2, 3)}  # fmt: skip
    operands = table["operands"].str.split()
    assert (operands.str.len() == table["j"]).all()
    assert all({*map(len, row)} == {i} for row, i in zip(operands, table["i"], strict=True))


@pytest.mark.parametrize(("name", "digits"), [("addition", 8), ("multiplication", 6), (ADDING, 12)])
def test_steps_of_columns_against_pencil_and_paper(name, digits):
    task = tasks.build_task({"name": name})
    problems = task.draw(300, digits, stream(2, "test"))
    steps, most = task.compute_steps(problems), 0
    for row, numbers in enumerate(integers(problems)):
        reverse, carry = [list(map(int, str(number)[::-1])) for number in numbers], 0
        for place in range(problems.answer.shape[1]):
            column = sum(number[place] for number in reverse if place < len(number))
            if name == "multiplication":
                pairs = itertools.product(*map(enumerate, reverse))
                column = sum(x * y for (k, x), (m, y) in pairs if k + m == place)
            due = {"carry_used": carry, "carry_made": (column + carry) // 10}
            if name == "addition":
                due |= {"digit_sum": column, "carry_generated": column > 9}
                due |= {"cascade": column == 9 and carry == 1}
            else:
                due |= {"column_sum": column}
            assert {step: int(steps[step][row, place]) for step in steps} == due
            carry = due["carry_made"]
            most = max(most, carry)
        assert carry == 0
    assert most > 1 or name == "addition"


# Zeros, unequal lengths, carries all the way, more numbers in one problem than in another.
CORNERS = {
    ADDING: [["0", "0"], ["0", "95", "0"], ["999", "1"], ["1", "999", "1"], ["9"] * 12,
             ["0"] * 11, ["100", "0", "900"]],
    "multiplication": [["0", "0"], ["0", "95"], ["95", "0"], ["37", "905"], ["999", "999"],
                       ["5", "20000"], ["20000", "5"], ["100", "100"]],
    "parity": [["0"], ["1"], ["0000"], ["1111"], ["10"], ["01"], ["1000001"]],
}  # fmt: skip


SPARE, BOUND = {"name": ADDING, "spare": 2}, {"name": ADDING, "room": "bound"}
LOCAL = {"name": "multiplication", "local": True}


@pytest.mark.parametrize("from_zero", [True, False])
@pytest.mark.parametrize("given", [*({"name": name} for name in CORNERS), SPARE, BOUND, LOCAL],
                         ids=str)  # fmt: skip
def test_stages_agree_with_pythons_integers(given, from_zero):
    task, corners = tasks.build_task(given), to_digits(CORNERS[given["name"]])
    drawn = [task.draw(300, 7, stream(0, "stages")), task.solve(*corners)]
    for problems in drawn:
        question, *steps = task.scratchpad_stages(problems, from_zero)
        operands = texts(problems.operands, problems.lengths)
        assert texts(question.numbers, question.lengths) == operands
        written = [texts(stage.numbers, stage.lengths) for stage in steps]
        rooms = [[[n for n in row if n] for row in stage.room.tolist()] for stage in steps]
        for row, numbers in enumerate(operands):
            due = write_stages(task, numbers, from_zero)
            assert [of[row] for of in written] == [[of for _, of in stage] for stage in due]
            assert [of[row] for of in rooms] == [[room for room, _ in stage] for stage in due]
            assert all(len(number) <= room for stage in due for room, number in stage)
            last = due[-1][-1][1]
            assert task.solve_text(*numbers) == (last[0] if task.answer_is_last_digit else last)
        for stage in (question, *steps):
            assert (stage.lengths <= stage.room).all()
            assert torch.equal(stage.lengths > 0, stage.room > 0)
            assert len(stage.couplings) == stage.lengths.shape[1]
            assert {len(line) for line in stage.couplings} == {task.scratchpad_levels}


def test_bits_and_digits_of_strings_are_uniform():
    """Chi-squared tests; false alarm 1 in 1,000 each, but the seed is fixed."""
    for name, symbols in (("parity", 2), ("copying", 10), ("reversing", 10)):
        task = tasks.build_task({"name": name})
        problems = task.draw_for_cells(torch.full((3_000, 2), 5), stream(0, "uniform"))
        counts = torch.bincount(problems.operands.flatten().long())
        assert len(counts) == symbols and chisquare(counts).pvalue > 0.001
        lengths = task.draw(3_000, 6, stream(0, "uniform")).lengths[:, 0]
        assert chisquare(lengths.bincount()[1:]).pvalue > 0.001


def test_modular_addition_sees_its_share_of_all_pairs_once_and_holds_the_rest_out():
    task = tasks.build_task({"name": "modular_addition", "modulus": 13, "share": 0.3})
    count = int(0.3 * 169)
    pairs = integers(task.draw(count, 2, stream(0, "test")))
    assert len({tuple(pair) for pair in pairs}) == count
    again = integers(task.draw(count, 2, stream(1, "test")))
    assert sorted(pairs) == sorted(again) and pairs != again
    _, problems, names = task.enumerate_problems()
    seen = [pair for pair, name in zip(integers(problems), names, strict=True) if name == "trained"]
    assert sorted(seen) == sorted(pairs) and len(names) == 169


def test_modular_addition_is_evaluated_on_pairs_that_training_does_not_see():
    task = tasks.build_task({"name": "modular_addition", "modulus": 113, "share": 0.3})
    cells = torch.tensor([[1, 1], [2, 2], [3, 3], [1, 3]]).repeat(500, 1)
    problems = task.draw_for_cells(cells, stream(0, "test"))
    assert torch.equal(problems.lengths, cells)
    pairs, seen = integers(problems), task.trained_pairs()
    assert not any(seen[113 * a + b] for a, b in pairs) and len({*map(tuple, pairs)}) > 500
    whole = tasks.build_task({"name": "modular_addition", "modulus": 5})  # where it sees all
    assert len(whole.draw_for_cells(torch.ones(9, 2, dtype=torch.long), stream(0, "test"))) == 9


def test_a_noisy_majority_ignores_twos_and_ties_are_zeros():
    task = tasks.build_task({"name": "noisy_majority"})
    problems = task.draw(2_000, 9, stream(0, "test"))
    counts = task.count_symbols(problems.operands, problems.lengths)
    assert torch.equal(counts.sum(1), problems.lengths[:, 0])
    assert torch.equal(problems.answer[:, 0] == 5, counts[:, 1] > counts[:, 0])


def test_problem_sets_of_ranges_and_of_all_problems():
    given = {"task": {"name": "noisy_majority"},
             "ranges": {"validation": [3, 5, 40], "test": [7, 9, 50]}}  # fmt: skip
    table = problem_sets.draw_problem_set("mine", ProblemSet.parse(given, "problems.mine"))
    sizes = table.groupby("set")["i"].agg(["size", "min", "max"])
    assert sizes.loc["test"].tolist() == [50, 7, 9]
    assert sizes.loc["validation"].tolist() == [40, 3, 5]
    given = {"task": {"name": "modular_addition", "modulus": 5, "share": 0.4}, "every": True}
    table = problem_sets.draw_problem_set("mine", ProblemSet.parse(given, "problems.mine"))
    assert table["set"].value_counts().to_dict() == {"held out": 15, "trained": 10}
    assert len(table["operands"].unique()) == 25


def test_lists_of_more_numbers_than_a_byte_counts():
    """Of 300 numbers, the first 44 would be named again after the 256th."""
    sorting = tasks.build_task({"name": "sorting"})
    numbers = [(7 * index) % 300 for index in range(300)]
    answer = sorting.solve(*to_digits([numbers])).answer[0].tolist()
    assert answer == sorted(range(300), key=lambda index: numbers[index])


def test_numbers_of_more_places_than_two_bytes_count():
    digits = torch.zeros(1, 40_000, dtype=torch.uint8)
    digits[0, 35_000] = 1
    assert count_written_digits(digits).tolist() == [35_001]
    sorting = tasks.build_task({"name": "sorting"})
    problem = sorting.draw_for_cells(torch.tensor([[2, 40_000]]), stream(0, "long"))
    assert problem.lengths.min() > 39_990


def test_rooms_of_very_many_operands():
    adding = tasks.build_task({"name": ADDING})
    lengths = torch.ones(1, 1, dtype=torch.long).expand(1, 10**7)
    assert adding.answer_room(lengths).tolist() == [len(str(9 * 10**7))]
    bound = tasks.build_task({"name": ADDING, "room": "bound"})
    assert bound.answer_room(lengths).tolist() == [1 + 8]
    wide = torch.full((1, 12), 10**5)
    assert adding.answer_room(wide).tolist() == bound.answer_room(wide).tolist() == [10**5 + 2]
