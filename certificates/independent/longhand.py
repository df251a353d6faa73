"""The steps of calculations in longhand, such as `-73,25=158-051+$`: 37 - 52.

The first token is the operation; division is `:`. Numbers begin with their lowest digit. A row is a
count, a number and a sign, `-` if the number is below 0. It follows from the row before and from
the fixed number: the first one of a product, else the second one.

    + -   A step, with count 1, adds or subtracts the fixed number. Its row is as long as the longer
          number, a sum by its carry longer. After a difference below 0, which is written without
          its last borrow, a repair with count 0 takes it from 0.
    *     For each digit of the second number, from the top one on: a shift, with count 0, puts a 0
          below the row; then as many steps as the digit says add the fixed number, and count. The
          first shift writes zeros, as many as the fixed number has digits.
    :     All rows are one digit longer than the fixed number. For each digit of the first number,
          from the top one on: a shift puts the digit below the row; then steps subtract the fixed
          number, and count, until a row is below 0, or up to 9. A repair adds it to a row below 0,
          and counts down.

Levels of ids: the place; the row; the digit of a number whose digits are counted. In each group the
row of the query is 0, and so is the digit that its row counts. A count is one below place 0, and a
sign, or `=`, two. The row before is 3, 4 or 5 lower for a shift, a step and a repair, so the window
hides all further ones. In + and - the first number is a row.

Domain. Numbers have no leading zeros. More rows are covered than the task has. The row before a
step or a shift of a product is a multiple of the fixed number, of which only this is used: its
length is not smaller, nor, if it is as long, its top digit. Or the row has zeros alone, as many as
the fixed number has digits, or any number of them if this is 0. In a quotient the top digit of the
row before a step is at most that of the fixed number; before a shift it is 0, and the digit below
it is at most that. There the fixed number may be 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain

import numpy as np

from certificates.independent.tasks import (
    DIGITS,
    END,
    EQUALS,
    MINUS,
    NONE,
    PLUS,
    Group,
    Tokens,
    begin_with,
    combine,
    number_near,
    value,
)

SHIFT, STEP, REPAIR = 3, 4, 5
COUNT, SIGN = -1, -2  # their places
PRESENT, NEXT = (None, None, 0), (None, None, 1)  # digits that rows count
Mask = np.ndarray


def longhand(operations: str) -> Iterator[Group]:
    """Yield the steps of calculations with any of the operations + - * and /.

    >>> from certificates.independent.tasks import SIGNS
    >>> group = [*longhand("-")][-2]  # from a sign on
    >>> SIGNS[group.first], SIGNS[group.query[0][0]], group.due  # a repair has count 0
    ('-', '-', 0)
    """

    def steps(operation: str) -> Iterator[Group]:
        parts = _follow_digits, _follow_counts, _follow_signs
        return chain.from_iterable(part(operation) for part in parts)

    for operation in operations.replace("/", ":"):
        yield from begin_with(operation, partial(steps, operation))


def _follow_digits(operation: str) -> Iterator[Group]:
    """Yield the steps from a digit of a row to the next one, or to the sign."""
    for place in (0, 1):
        yield _step(operation, place)
        if operation in "-:":
            yield _repair(operation, place)
        if operation in "*:":
            yield _shift(operation, place)
            yield _first_shift(operation, place)


def _step(operation: str, place: int) -> Group:
    """Return the steps in a row before (x) plus or minus the fixed number (y)."""
    row = number_near(place, lead=1 if operation in "+-" else 0)
    x, x_next, y, y_next, carry = combine(row, number_near(place), [0, 1] if place else [0])
    change = 1 if operation in "+*" else -1
    total = value(x) + change * (value(y) + carry)
    carried = np.abs(total // 10)
    above = (value(x_next) + change * (value(y_next) + carried)) % 10
    written, more = (x >= 0) | (y >= 0), (x_next >= 0) | (y_next >= 0)
    if change > 0:
        written, more = written | (carry > 0), more | (carried > 0)
    if operation == "*":
        written &= _before_product(place, x, x_next, y, y_next, carry)
    if operation == ":":
        top = np.where(y >= 0, x_next, x)
        written &= _is_longer(x, x_next, y) & ((y_next >= 0) | (y < 0) | (top <= y))
    ended = np.where((change < 0) & (carried > 0), MINUS, PLUS)
    query, due = np.where(written, total % 10, NONE), np.where(more, above, ended)
    return _group(STEP, place, query, due, x, x_next, y, y_next)


def _before_product(place: int, *digits: np.ndarray) -> Mask:
    """Return where a row may come before another row of a product; the last digit is a lower one.

    It has zeros alone, or it is longer than the fixed number, or as long with a top digit that is
    not smaller.
    """
    x, x_next, y, y_next, below = digits
    is_long = ((x >= 0) | (y < 0)) & ((x_next >= 0) | (y_next < 0))
    as_long = ((x >= 0) == (y >= 0)) & ((x_next >= 0) == (y_next >= 0))
    fixed_is_zero = (y == 0 if place == 0 else y < 0) & (y_next < 0)
    zeros = (x <= 0) & (x_next <= 0) & (below == 0) & (as_long | fixed_is_zero)
    return is_long & ((x_next >= 0) | zeros | ((x >= y) & ((x != 0) | (place == 0))))


def _is_longer(x: np.ndarray, x_next: np.ndarray, y: np.ndarray) -> Mask:
    """Return where a row is one digit longer than the fixed number."""
    return (x >= 0) & ((x_next >= 0) == (y >= 0))


def _repair(operation: str, place: int) -> Group:
    """Return the steps in a row that follows one below 0 (x)."""
    row, carries = number_near(place, lead=0), [0, 1] if place else [0]
    x, x_next, y, y_next, carry = combine(row, number_near(place), carries)
    if operation == ":":  # the sum is not below 0, as its carry and a 9 above show
        total = value(x) + value(y) + carry
        carried = np.abs(total // 10)
        above = value(x_next) + value(y_next) + carried
        top = np.where(y >= 0, x_next, x)
        written = _is_longer(x, x_next, y) & ((y_next >= 0) | ((top == 9) & (carried > 0)))
    else:  # the fixed number is as long, and not smaller than the difference, which is not 0
        total = -(value(x) + carry)
        above = -(value(x_next) + np.abs(total // 10))
        digit = total % 10
        written = (x >= 0) & ((x >= 0) == (y >= 0)) & ((x_next >= 0) == (y_next >= 0))
        written &= (y_next >= 0) | ((digit <= y) & ((digit > 0) | (carry > 0)))
    query, due = np.where(written, total % 10, NONE), np.where(x_next >= 0, above % 10, PLUS)
    return _group(REPAIR, place, query, due, x, x_next, y, y_next)


def _shift(operation: str, place: int) -> Group:
    """Return the steps in a row with the digits of the one before (x), a place higher."""
    below = DIGITS if place or operation == ":" else [0]
    row = number_near(place, lead=0)
    x, x_next, y, y_next, below = combine(row, number_near(place), below)
    if operation == "*":
        possible, more = _before_product(place, x, x_next, y, y_next, below), x >= 0
    else:  # the row before is below the fixed number
        top = np.where(y >= 0, x_next, x)
        possible = (y_next >= 0) | ((top == 0) & ((y < 0) | (x <= y)))
        possible, more = possible & _is_longer(x, x_next, y), y >= 0
    query = np.where(possible, below, NONE)
    return _group(SHIFT, place, query, np.where(more, x, PLUS), x, x_next, y, y_next)


def _first_shift(operation: str, place: int) -> Group:
    """Return the steps in the first row of a product or quotient, a digit below zeros."""
    is_longer = operation == ":"
    y, y_next, lowest = combine(number_near(place), DIGITS if is_longer and not place else [0])
    query = lowest if is_longer else np.where(y >= 0, lowest, NONE)
    due = np.where((y if is_longer else y_next) >= 0, 0, PLUS)
    return _group(SHIFT, place, query, due, NONE, NONE, y, y_next)


def _group(kind: int, p: int, query: np.ndarray, due: Tokens, *digits: Tokens) -> Group:
    """Return the steps in a row; digits are those of the row before and of the fixed number."""
    ids = [(p, -kind, None), (p + 1, -kind, None), (p, None, None), (p + 1, None, None)]
    return Group((query, (p, 0, None)), due, [*zip(digits, ids, strict=True)])


def _follow_counts(operation: str) -> Iterator[Group]:
    """Yield the steps from the count of a row to its lowest digit."""
    counts = [1] if operation in "+-" else range(1, 10)
    x, y = combine(DIGITS, DIGITS)
    change = 1 if operation in "+*" else -1
    for count in counts:
        query = np.full_like(x, count)
        cells = [(x, (0, -STEP, None)), (y, (0, None, None))]
        if operation in "*:":
            cells += [(count - 1, (COUNT, -STEP, 0 if count == 1 else None))]
        if operation == "*":
            query = np.where(x == (count - 1) * y % 10, query, NONE)
        yield Group((query, (COUNT, 0, None)), (x + change * y) % 10, cells)
        if operation in "-:":
            cells = [(x, (0, -REPAIR, None)), (y, (0, None, None)), (count, (COUNT, -REPAIR, None))]
            due = (x + y if operation == ":" else -x) % 10
            yield Group((np.full_like(x, count - 1), (COUNT, 0, None)), due, cells)
    if operation in "*:":
        yield from _follow_shift_counts(operation)


def _follow_shift_counts(operation: str) -> Iterator[Group]:
    """Yield the steps from the count 0 of a shift; y is the lowest digit of the fixed number."""
    y, digit, following = combine(DIGITS, DIGITS, [NONE, *DIGITS])
    cells = [(y, (0, None, None)), (digit, PRESENT), (following, NEXT)]
    is_first = (digit > 0) | (following < 0)  # the top digit of a longer number is not 0
    due = digit if operation == ":" else 0
    yield Group((np.where(is_first, 0, NONE), (COUNT, 0, 0)), due, cells)
    # The row before has the last count of the digit before; of a product, this is the digit.
    for count, x in combine(DIGITS, DIGITS).T.tolist():
        query = np.zeros_like(y)
        if operation == "*":
            query = np.where(x == count * y % 10, query, NONE)
        seen = count if operation == ":" or count else NONE  # a shift's count is of another digit
        before = [(x, (0, -SHIFT, None)), (seen, (COUNT, -SHIFT, None))]
        yield Group((query, (COUNT, 0, 0)), due, [*cells, *before])


def _follow_signs(operation: str) -> Iterator[Group]:
    """Yield the steps from `=` or the sign of a row to the next count, or to the end."""
    plus, minus, equals = (np.array([token]) for token in (PLUS, MINUS, EQUALS))
    if operation in "*:":
        yield Group((np.full(10, EQUALS), (SIGN, 0, 0)), 0, [(np.arange(10), NEXT)])
        yield from _follow_counted_signs(operation)
        return
    yield Group((equals, (SIGN, 0, 0)), 1, [])
    cells = [(1, (COUNT, 0, None)), (EQUALS, (SIGN, -STEP, 0))]
    yield Group((plus, (SIGN, 0, 0)), END, cells)
    if operation == "-":
        yield Group((minus, (SIGN, 0, 0)), 0, cells)
        cells = [(0, (COUNT, 0, None)), (MINUS, (SIGN, -REPAIR, 0)), (1, (COUNT, -REPAIR, None))]
        yield Group((plus, (SIGN, 0, 0)), END, cells)


def _follow_counted_signs(operation: str) -> Iterator[Group]:
    """Yield the steps from the signs of products and quotients."""
    # The count of the row before a shift; none before the first one.
    before, digit, following = combine([NONE, *DIGITS], DIGITS, [NONE, *DIGITS])
    possible = (before >= 0) | (digit > 0) | (following < 0)
    seen = before if operation == ":" else np.where(before > 0, before, NONE)
    cells = [(0, (COUNT, 0, 0)), (seen, (COUNT, -SHIFT, None))]
    cells += [(digit, PRESENT), (following, NEXT)]
    ended = np.where(following >= 0, 0, END)
    due = 1 if operation == ":" else np.where(digit > 0, 1, ended)
    yield Group((np.where(possible, PLUS, NONE), (SIGN, 0, 0)), due, cells)
    digit, following = combine(DIGITS, [NONE, *DIGITS])
    counted, ended = [(digit, PRESENT), (following, NEXT)], np.where(following >= 0, 0, END)
    plus, minus = (np.full_like(digit, token) for token in (PLUS, MINUS))
    for count in range(1, 10):
        cells = [(count, (COUNT, 0, None)), (PLUS, (SIGN, -STEP, 0)), *counted]
        cells += [(count - 1, (COUNT, -STEP, 0 if count == 1 else None))]
        if operation == "*":
            due = np.where(digit > count, count + 1, ended)
            yield Group((np.where(digit >= count, PLUS, NONE), (SIGN, 0, 0)), due, cells)
            continue
        yield Group((plus, (SIGN, 0, 0)), count + 1 if count < 9 else ended, cells)
        yield Group((minus, (SIGN, 0, 0)), count - 1, cells)
        cells = [(count - 1, (COUNT, 0, None)), (MINUS, (SIGN, -REPAIR, 0)), *counted]
        cells += [(count, (COUNT, -REPAIR, None))]
        yield Group((plus, (SIGN, 0, 0)), ended, cells)
