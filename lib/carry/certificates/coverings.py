"""Coverings: short problems that contain every local context of problems of any size.

A step depends on the digits at several adjacent places, on the carry into these places that the
response shows so far, and on which numbers have ended. Therefore a covering contains all digits at
these places, one string of lower digits for each possible carry, and one digit above them if a
number continues:

    place        3 2 1 0
    a            1 0 7 9      places 1 and 2 have all digits; a continues above them
    b              4 2 9      b ends with these places
                     |
                     a carry into place 1

Windows hide all places further below or above from this step, so longer problems have no other
contexts. The same holds for a sum within a line of text and other sums, if the windows show nothing
that is drawn at random. `tests/test_certificates.py` searches random long problems for contexts
that are missing here.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from carry.certificates.contexts import compute_context_keys, extract_contexts
from carry.certificates.longhand_coverings import generate_longhand_batches
from carry.config.settings import SettingsError, suggest_name
from carry.data.batch import NO_LEVEL, Batch
from carry.data.problems import Problems
from carry.formats.expression import Expression
from carry.formats.insertion_sort import InsertionSort
from carry.formats.line import Line
from carry.formats.longhand import Longhand
from carry.formats.scratchpad import Scratchpad
from carry.formats.sub_task import SubTask
from carry.models.system import System
from carry.positions.abacus import Abacus
from carry.positions.coupled import Coupled
from carry.tasks import Task, digits_to_values
from carry.tasks.addition import Addition
from carry.tasks.bitwise_or import BitwiseOr
from carry.tasks.copying import Copying
from carry.tasks.increment import Increment
from carry.tasks.multi_operand_addition import MultiOperandAddition
from carry.tasks.multiplication import Multiplication
from carry.tasks.subtraction import Subtraction

PROBLEMS_PER_CHUNK = 50_000
MAX_PROBLEMS = 20_000_000
DIGITS = tuple(range(10))

Numbers = tuple[Integer[Tensor, "B N P"], Integer[Tensor, "B N"]]  # digits and lengths


class TooManyContexts(Exception):
    """The contexts are too many to enumerate, or no covering is proved for them."""


class CoveringProblems(NamedTuple):
    """Problems in writing, and the response tokens whose contexts they contribute."""

    batch: Batch
    selected: Bool[Tensor, "B A"]
    problems: Problems | None = None  # None: no real problems (see `_cover_product_sums`)


class FreeDigit(NamedTuple):
    """A digit that takes all values: of the `sum` so far, the `next_row`, or the row `after_next`.

    Rows are products of the first number with one digit of the second number.
    """

    number: str
    place: int
    digits: tuple[int, ...]


def generate_covering_problems(system: System) -> Iterator[CoveringProblems]:
    """Yield problems that have all contexts of all problems of the run's task and format.

    Raises:
        SettingsError: for a task without a covering.
        TooManyContexts: for windows that are too large, or a format without a proved covering.
    """
    name = system.run.task["name"]
    if name not in COVERINGS:
        raise SettingsError(
            f"runs.{system.run.name}.task.name: {name!r} has no covering, "
            f"{suggest_name(name, COVERINGS)}"
        )
    if _shows_random_text(system) or not _has_proved_covering(system):
        raise TooManyContexts
    yield from COVERINGS[name](system)


def _write_steps(
    system: System,
    problems: Problems,
    places: int | Integer[Tensor, "B 1"],
    row: int | None = None,
) -> CoveringProblems:
    """Write problems; select the response tokens at given places, and in a given row if not None.

    Level 1 counts places from the sign below the least significant digit; level 2 counts rows.

    Raises:
        TooManyContexts: for a response without these places, such as a parity without its steps: it
            depends on digits that no window shows.
    """
    batch = system.format.write(problems.trim())
    index, _, real = batch.response()
    selected = real & (batch.levels[:, :, 0].gather(1, index) == places + 1)
    if row is not None:
        selected &= batch.levels[:, :, 1].gather(1, index) == row
    if not selected.any():
        raise TooManyContexts
    return CoveringProblems(batch, selected, problems)


def _enumerate_digits(
    width: int, values: Sequence[int], lowest: bool, keeps_leading_zeros: bool
) -> tuple[Integer[Tensor, "O W"], Integer[Tensor, " O"]]:
    """Return all digits that a number may have at adjacent places, and the number of its digits.

    The least significant digit stands first. A number of 0 digits has ended below these places,
    and one more digit than places says that it continues. `lowest`: the first place is the least
    significant one, which every number has.

    >>> _enumerate_digits(1, (0, 1), lowest=False, keeps_leading_zeros=False)
    (tensor([[0, 0],
            [0, 1],
            [1, 0]]), tensor([0, 2, 1]))
    """
    digits, lengths = [], []
    for length in range(1 if lowest else 0, width + 1):
        for choice in itertools.product(values, repeat=length):
            padded = [*choice, *[0] * (width + 1 - length)]
            is_zero = lowest and length == 1
            if not length or choice[-1] or keeps_leading_zeros or is_zero:
                digits, lengths = [*digits, padded], [*lengths, length]
            elif length == width:  # a leading zero: the number continues above
                digits, lengths = [*digits, [*padded[:width], 1]], [*lengths, width + 1]
    return torch.tensor(digits).view(-1, width + 1), torch.tensor(lengths)


def _cover_columns(
    system: System,
    carry_digits: Sequence[Sequence[int]],
    more_above: int = 0,
    prepare: Callable[[Tensor, Tensor], Numbers] = lambda *numbers: numbers,
    row: int | None = None,
) -> Iterator[CoveringProblems]:
    """Cover all digits of some numbers around each place, with each carry from below.

    Args:
        carry_digits: the digits of each number below these places: one list for each carry.
        more_above: places above those that a step sees or writes.
        prepare: changes operands and lengths to those of problems of the task.
        row: the row of the response that is covered (default: all).
    """
    task, count, (below, above) = system.task, len(carry_digits[0]), _place_reach(system)
    digits = DIGITS if task.base == 10 else range(task.base)
    above += more_above
    if len(digits) ** ((below + above + 1) * count) > MAX_PROBLEMS:
        raise TooManyContexts
    # The lowest places differ from higher ones: a step there sees the distance to the first token
    # or to the signs.
    for place in range(-1, below + _max_clip(system) + 1):
        low, high = max(0, place - below), place + above
        if high < 0:
            continue
        choices, choice_lengths = _enumerate_digits(
            high - low + 1, digits, low == 0, task.keeps_leading_zeros
        )
        indices = [torch.arange(len(choices))] * count
        picks = torch.cartesian_prod(*indices).view(-1, count)
        for lower_digits in carry_digits if low else [[0] * count]:
            for rows in picks.split(PROBLEMS_PER_CHUNK):
                lower = torch.tensor(lower_digits)[None, :, None].expand(len(rows), -1, low)
                operands = torch.cat([lower, choices[rows]], dim=2).to(torch.uint8)
                lengths = low + choice_lengths[rows]
                operands, lengths = prepare(operands, lengths)
                if len(operands):
                    yield _write_steps(system, task.solve(operands, lengths), place, row)


def _cover_addition(system: System) -> Iterator[CoveringProblems]:
    """Cover the sum of two numbers: without a carry from below, and with one."""
    largest = system.task.base - 1
    return _cover_columns(system, [[0, 1], [largest, largest]])


def _make_first_larger(operands: Tensor, lengths: Tensor) -> Numbers:
    """Continue first numbers that reach the top of the window, and drop those that stay smaller.

    The window does not show whether such a number continues.
    """
    top = operands.shape[2] - 1  # above the window
    a, b = operands.clone().unbind(1)
    continues = lengths[:, 0] >= top
    a[:, top] = torch.where(continues, 2, 0)
    lengths = torch.stack([torch.where(continues, top + 1, lengths[:, 0]), lengths[:, 1]], dim=1)
    operands = torch.stack([a, b], dim=1)
    kept = digits_to_values(a) >= digits_to_values(b)
    return operands[kept], lengths[kept]


def _keep_single_bits(operands: Tensor, lengths: Tensor) -> Numbers:
    """Keep pairs of vectors with a single 1, which is in the shorter vector."""
    ones = operands.sum(2)
    is_shorter = lengths <= lengths.flip(1)
    kept = (ones.sum(1) == 1) & ((ones == 1) & is_shorter).any(1)
    return operands[kept], lengths[kept]


def _cover_increment(system: System) -> Iterator[CoveringProblems]:
    """Cover one number: without a carry from below, and with one."""

    def continue_zero(operands: Tensor, lengths: Tensor) -> Numbers:
        if system.task.down:  # nothing is before 0
            zero = (operands == 0).all(2)
            operands[:, :, -1] += zero
            lengths = torch.where(zero, operands.shape[2], lengths)
        return operands, lengths

    carry_digits = [[1], [0 if system.task.down else 9]]
    return _cover_columns(system, carry_digits, prepare=continue_zero)


def _cover_running_sums(system: System) -> Iterator[CoveringProblems]:
    """Cover a running sum of three numbers, and whether more numbers follow.

    The sum of the first two numbers stands for any sum so far. The first of them stands for the sum
    before that.
    """

    def add_one(operands: Tensor, lengths: Tensor) -> Numbers:  # one more operand, which is 1
        last = torch.zeros_like(operands[:, :1])
        last[:, :, 0] = 1
        lengths = torch.nn.functional.pad(lengths, (0, 1), value=1)
        return torch.cat([operands, last], dim=1), lengths

    _require_reach(system, [None, (1, 0)])
    for count, row in ((2, None), (3, 2)):
        carry_digits = [[1] * count, [9, 9, 1][:count]]
        yield from _cover_columns(system, carry_digits, row=row)
        yield from _cover_columns(system, carry_digits, prepare=add_one, row=row)


def _cover_multiplication(system: System) -> Iterator[CoveringProblems]:
    """Cover the products of the first number with one digit, and the sums of these rows."""
    _require_reach(system, [(0, 1), (1, 0), (0, 1), (1, 0)])
    yield from _cover_digit_products(system)
    yield from _cover_product_sums(system)


def _cover_digit_products(system: System) -> Iterator[CoveringProblems]:
    """Cover two places of a number times a digit of the other, whose adjacent digits are visible.

    Lower digits affect a step only through their carries, in this row and in the previous row.
    """
    optional_digits = [None, *DIGITS]
    for lower, digit, higher in itertools.product(optional_digits, DIGITS, optional_digits):
        second = [lower, digit, higher, 1 if higher == 0 else None]
        second = [value for value in second if value is not None]
        if len(second) > 1 and not second[-1]:
            continue
        row = 1 if lower is None else 2
        problems, places = _multiply_first_numbers(system.task, lower or 0, digit, second)
        yield _write_steps(system, problems, places[:, None], row)


def _multiply_first_numbers(
    task: Task, lower: int, digit: int, second: list[int]
) -> tuple[Problems, Integer[Tensor, " B"]]:
    """Return products of a second number with first numbers that cover its row for one digit."""
    parts = []
    for carry_digits in [None, *_find_digits_for_carries(digit, lower)]:
        low = 0 if carry_digits is None else len(carry_digits)
        choices, choice_lengths = _enumerate_digits(
            1 if carry_digits is None else 2, DIGITS, not low, False
        )
        low_digits = torch.tensor(carry_digits or [], dtype=torch.long)
        first = torch.cat([low_digits.expand(len(choices), -1), choices], dim=1)
        parts.append((first, low + choice_lengths, -1 if carry_digits is None else low))
    width = max(len(second), *(first.shape[1] for first, _, _ in parts))
    first = torch.cat(
        [torch.nn.functional.pad(first, (0, width - first.shape[1])) for first, _, _ in parts]
    )
    operand = torch.tensor([*second, *[0] * (width - len(second))]).expand(len(first), -1)
    lengths = torch.cat([length for _, length, _ in parts])
    lengths = torch.stack([lengths, torch.full_like(lengths, len(second))], dim=1)
    problems = task.solve(torch.stack([first, operand], dim=1).to(torch.uint8), lengths)
    return problems, torch.cat([torch.full((len(first),), place) for first, _, place in parts])


def _find_digits_for_carries(digit: int, previous: int) -> list[list[int]]:
    """Return digits for each pair of carries, least significant digit first.

    The carries are those of products of these digits with `digit` and with `previous`. The pair
    without carries has two entries: no digit, and 1.
    """
    reached: dict[tuple[int, int], list[int]] = {(0, 0): []}
    waiting = [(0, 0)]
    while waiting:
        first, second = carries = waiting.pop(0)
        for value in range(10):
            after = (value * digit + first) // 10, (value * previous + second) // 10
            if after not in reached:
                reached[after] = [*reached[carries], value]
                waiting.append(after)
    return [[], [1], *(digits for digits in reached.values() if digits)]


def _cover_sorting(system: System) -> Iterator[CoveringProblems]:
    """Cover the insertion of a number into a list, at one or two of its numbers.

    Digits that have been compared affect a step only through the order of the numbers and the last
    digit written: so try any order with any digit. Lists of three and of four numbers differ in
    their signs only, which stand before all digits.
    """
    _require_reach(system, [(1, 3), (2, 0), (1, 0), (0, 0)])
    for count in range(1, 5):
        yield _cover_sorted_list(system, _enumerate_tuples(DIGITS, count)[:, :, None])
    for count in (2, 3):
        ranks = _enumerate_tuples(range(count), count)
        for last in DIGITS:
            compared = torch.stack([ranks, torch.full_like(ranks, last)], dim=2)
            yield _cover_sorted_list(system, compared)
            one_more = torch.nn.functional.pad(compared, (0, 0, 0, 1))
            yield _cover_sorted_list(system, one_more)
            next_digits = _enumerate_tuples(DIGITS, count)[:, :, None]
            for prefix in compared:
                prefix = prefix.expand(len(next_digits), -1, -1)
                numbers = torch.cat([prefix, next_digits], dim=2)
                yield _cover_sorted_list(system, numbers, place=1)


def _enumerate_tuples(values: Sequence[int], count: int) -> Integer[Tensor, "P C"]:
    """Return all tuples of `count` values."""
    return torch.cartesian_prod(*[torch.tensor(values)] * count).view(-1, count)


def _cover_sorted_list(
    system: System, numbers: Integer[Tensor, "P M K"], place: int | None = None
) -> CoveringProblems:
    """Sort numbers (most significant digit first); select one place of the response, or all."""
    lengths = torch.full(numbers.shape[:2], numbers.shape[2])
    problems = system.task.solve(numbers.flip(2).to(torch.uint8), lengths)
    batch = system.format.write(problems)
    index, _, selected = batch.response()
    if place is not None:
        selected = selected & (batch.place.gather(1, index) == place)
    return CoveringProblems(batch, selected, problems)


def _cover_calculations(system: System) -> Iterator[CoveringProblems]:
    """Cover the rows of calculations in longhand."""
    _require_reach(system, [(0, 1), (5, 0), (0, 1)])
    for batch, selected in generate_longhand_batches(system.task.operations):
        yield CoveringProblems(batch, selected)


def _cover_product_sums(system: System) -> Iterator[CoveringProblems]:
    """Cover the sum of a running sum and a row, both with any digits, and what follows.

    These numbers need not belong to a problem: a model that is correct on all of them is correct on
    those that do.
    """
    kinds = set()
    for length, row, more in itertools.product(range(1, 5), range(5), [False, True]):
        for place in range(-1, length + row + 1):
            free = _find_visible_digits(length, row, more, place)
            has_carry = place > row > 0
            zeros = torch.zeros(1, len(free), dtype=torch.long)
            example = _write_product_sum(system, length, row, more, place, free, zeros)
            contexts = extract_contexts(system, example.batch, example.selected)
            key = compute_context_keys(system, contexts)[0]
            kind = *sorted(key[key >= 0].tolist()), *(digit.digits for digit in free), has_carry
            if kind in kinds:  # larger problems repeat the kinds of smaller ones
                continue
            kinds.add(kind)
            axes = [digit.digits for digit in free] + [(0, 1)] * has_carry
            picks = torch.cartesian_prod(*map(torch.tensor, axes)).view(-1, len(axes))
            for rows in picks.split(PROBLEMS_PER_CHUNK):
                yield _write_product_sum(system, length, row, more, place, free, rows)


def _find_visible_digits(length: int, row: int, more: bool, place: int) -> list[FreeDigit]:
    """Return the digits at a place and the next one, as seen when sum `row` is written.

    The first number has `length` digits; `more` says that another row follows.
    """
    places = {
        "sum": range(length + row if row else 0),
        "next_row": range(row, row + length + 1),
        "after_next": range(row + 1, row + length + 2) if more else range(0),
    }
    top_digits = tuple(digit for digit in DIGITS if digit < 9)  # of a product with a digit
    return [
        FreeDigit(number, at, top_digits if number != "sum" and at == number_places[-1] else DIGITS)
        for number, number_places in places.items()
        for at in (place, place + 1)
        if at in number_places
    ]


def _write_product_sum(
    system: System,
    length: int,
    row: int,
    more: bool,
    place: int,
    free: list[FreeDigit],
    picks: Integer[Tensor, "P F"],
) -> CoveringProblems:
    """Write sums `row` with given digits; an additional column of `picks` is a carry into them."""
    lengths = torch.tensor([[length, row + 1 + more]]).expand(len(picks), -1)
    ones = torch.ones(len(picks), 2, int(lengths.max()), dtype=torch.uint8)
    problems = system.task.solve(ones, lengths)
    question, products, sums = system.format.scratchpad_stages(problems)
    rows, running = torch.zeros_like(products.numbers), torch.zeros_like(sums.numbers)
    for digit, values in zip(free, picks.T, strict=False):
        if digit.number == "sum":
            running[:, row - 1, digit.place] = values
        else:
            index = row if digit.number == "next_row" else row + 1
            rows[:, index, digit.place - index] = values
    if picks.shape[1] > len(free):
        nines = 9 * picks[:, -1]
        rows[:, row, place - 1 - row] = running[:, row - 1, place - 1] = nines
    total = torch.zeros(len(picks), length + row + 1, dtype=torch.long)
    total[:, row:] += rows[:, row, : length + 1]
    if row:
        total[:, : length + row] += running[:, row - 1, : length + row]
    for lower in range(length + row):
        total[:, lower + 1] += total[:, lower] // 10
    running[:, row, : length + row + 1] = total % 10
    stages = [question, replace(products, numbers=rows), replace(sums, numbers=running)]
    batch = system.format.write_stages(stages, padded=True)
    index, _, _ = batch.response()
    level = [batch.levels[:, :, number - 1].gather(1, index) for number in (1, 3, 4)]
    selected = (level[0] == NO_LEVEL) & (level[1] == place + 1) & (level[2] == row + 1)
    return CoveringProblems(batch, selected)


def _has_proved_covering(system: System) -> bool:
    """Return whether the format and the ids of a run fit the coverings of this module.

    Ids have to count places: coupled ids do, and so do Abacus ids if all numbers are written least
    significant digit first. The answer has to be written in this order. Numbers must not be padded,
    because the end of the padding is not visible; exceptions are the steps of products and
    differences, whose length is visible, the number before another one, and lists, whose numbers
    end together.
    """
    form, task, kind = system.format, system.task, type(system.format)
    coupled = all(isinstance(scheme, Coupled) for scheme in system.schemes)
    if kind in (InsertionSort, Longhand):
        return coupled
    if kind is Scratchpad:
        is_local = not getattr(task, "spare", 0)
        if isinstance(task, Multiplication | Subtraction):
            is_local = form.pad
        if isinstance(task, MultiOperandAddition):
            is_local = is_local and not form.pad
        is_local = is_local and getattr(task, "local", True)
        return coupled and form.reverse_answer and form.from_zero and is_local
    if kind not in (Expression, SubTask, Line):
        return False
    question_lowest_first = kind is Line or form.reverse_operands
    lowest_first = kind is Line or form.reverse_answer
    if kind is SubTask and form.prefix == "rev":  # in the opposite order of the question
        lowest_first = not form.reverse_operands
    padded = kind is Expression and (form.pad or form.pad_to is not None)
    counts_alike = isinstance(task, Addition | Increment | BitwiseOr | Copying)
    counts_alike = counts_alike and not task.answer_is_reversed
    abacus = all(isinstance(scheme, Abacus) for scheme in system.schemes)
    abacus = abacus and question_lowest_first and counts_alike
    abacus = abacus and not (kind is SubTask and form.prefix == "car")  # signs have no Abacus ids
    # Zeros lead the number before another one, which is as long.
    expected = "answer" if isinstance(task, Increment) and task.down else False
    return lowest_first and (coupled or abacus) and padded == expected


def _require_reach(system: System, limits: list[tuple[int, int] | None]) -> None:
    """Refuse windows that are larger than the limits, and levels in another order."""
    levels = [getattr(scheme, "level", 1) for scheme in system.schemes]
    if levels != [*range(1, len(limits) + 1)]:
        raise TooManyContexts
    for encoding, limit in zip(system.network.encodings, limits, strict=True):
        below, above = encoding.window
        if limit is not None and (below > limit[0] or above > limit[1]):
            raise TooManyContexts


def _shows_random_text(system: System) -> bool:
    """Return whether windows may show what a format draws: letters, spaces, other sums.

    Coupled ids do not count text. A window of 0 over level 2 hides the other sums of a line,
    because both levels count the same tokens of a sum.
    """
    form, encodings = system.format, system.network.encodings
    is_line = isinstance(form, Line)
    if form.has_index_hints or not (is_line or form.variable_length):
        return form.has_index_hints
    if not all(isinstance(scheme, Coupled) for scheme in system.schemes):
        return True
    hides_other_sums = any(
        scheme.level == 2 and encoding.window == (0, 0)
        for scheme, encoding in zip(system.schemes, encodings, strict=True)
    )
    return is_line and form.sums[1] > 1 and not hides_other_sums


def _place_reach(system: System) -> tuple[int, int]:
    """Return how many places a step sees or writes, below and above its own.

    It sees those in the window of level 1. It writes the next place, or the end of the number
    there, even if the window does not show it.
    """
    pairs = zip(system.schemes, system.network.encodings, strict=True)
    windows = [encoding.window for scheme, encoding in pairs if getattr(scheme, "level", 1) == 1]
    if len(windows) != 1:
        raise TooManyContexts
    below, above = windows[0]
    return (max(below, 1), above) if system.task.answer_is_reversed else (below, max(above, 1))


def _max_clip(system: System) -> int:
    """Return the place from which on the distance to the first token and the signs is clipped."""
    encodings = system.network.encodings
    clips = [getattr(part, "clip", 0) for part in encodings if part.uncounted_id is None]
    return max([1, *clips])


COVERINGS: dict[str, Callable[[System], Iterator[CoveringProblems]]] = {
    "addition": _cover_addition,
    # Without a borrow from below, and with one.
    "subtraction": functools.partial(
        _cover_columns, carry_digits=[[1, 1], [0, 1]], prepare=_make_first_larger
    ),
    # The lower digits are equal, larger in the first number, or in the second.
    "comparison": functools.partial(_cover_columns, carry_digits=[[1, 1], [2, 1], [1, 2]]),
    "increment": _cover_increment,
    # The single 1 may stand in the window, below it or above it.
    "bitwise_or": functools.partial(
        _cover_columns,
        carry_digits=[[0, 0], [1, 0], [0, 1]],
        more_above=1,
        prepare=_keep_single_bits,
    ),
    "copying": functools.partial(_cover_columns, carry_digits=[[0]]),
    "reversing": functools.partial(_cover_columns, carry_digits=[[0]]),
    # With an even and with an odd number of ones below the window.
    "parity": functools.partial(_cover_columns, carry_digits=[[0], [1]]),
    "multi_operand_addition": _cover_running_sums,
    "multiplication": _cover_multiplication,
    "sorting": _cover_sorting,
    "calculator": _cover_calculations,
}
