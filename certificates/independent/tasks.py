"""The steps of each task, written down place by place from the task's definition.

A task yields groups of steps. Each step has the token of its query, the token that is due next, and
the tokens near the query (cells). These are arrays over all values of digits, carries and ends of
numbers; -1 stands for no token. A token has coordinates, one for each level of ids, None where the
level does not count it. `contexts` finds out what the windows show: a cell that they hide does no
harm, so groups list every token that might be near enough.

A step sees the digits of numbers at the place p of its query and at p + 1. All lower digits act
through the carry into p, which is free where p > 0, and no coordinate tells how large p is. Abacus
ids alone do: there the first token and all signs have id 0, next to the lowest place. But this
distance is clipped at 2, as in place 1, so one place p stands for all higher ones.

Domain. Numbers are natural, without leading zeros; 0 has one digit. Strings are not empty. OR has
a single 1, in the shorter vector. Sums with steps have two operands or more. Differences begin with
the larger number; no number is before 0. Lists have one number or more, of one width, with leading
zeros. In the sums of products the digits of the rows are free, except that the top one is at most
8, as in a number times a digit: "proved" then covers more than the task has, and "wrong" may name a
context that no problem has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

# The token of a digit is the digit; digits from 10 on are letters.
SIGNS = "0123456789+=^$_*|:,> ;-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
PLUS, EQUALS, BEGIN, END, SAME, COLON, COMMA, MORE, SEMICOLON, LESS, LETTER, CARRY = map(
    SIGNS.index, "+=^$|:,>;-ac"
)
MINUS = LESS
DIGITS, NONE = range(10), -1
PLACES = (-1, 0, 1)  # of a sign below a number, the lowest one, and any higher one

Tokens = np.ndarray | int
Coordinates = tuple[int | None, ...]


class Group(NamedTuple):
    """Steps that differ in their tokens alone: arrays of N tokens, or one token for all."""

    query: tuple[np.ndarray, Coordinates]
    due: Tokens
    cells: list[tuple[Tokens, Coordinates]]
    first: int = BEGIN  # the first token of the problem


def begin_with(sign: str, steps: Callable[[], Iterator[Group]]) -> Iterator[Group]:
    """Yield the groups of steps, for problems whose first token is another sign."""
    for group in steps():
        yield group._replace(first=SIGNS.index(sign))


def combine(*choices: Sequence[Any]) -> np.ndarray:
    """Return all combinations of choices as rows of numbers; a choice is a number or a tuple.

    >>> combine([(1, 2), (3, 4)], [5, 6]).tolist()
    [[1, 1, 3, 3], [2, 2, 4, 4], [5, 6, 5, 6]]
    """
    tables = [np.array(choice, np.int8).reshape(len(choice), -1) for choice in choices]
    index = np.indices([len(table) for table in tables], np.int32).reshape(len(tables), -1)
    return np.concatenate([table[rows].T for table, rows in zip(tables, index, strict=True)])


def number_near(place: int, base: int = 10, lead: int = 1) -> list[tuple[int, int]]:
    """Return what a number can have at a place and at the next one.

    Args:
        lead: the smallest leading digit of a number that has more than one.

    >>> number_near(-1, 2), number_near(0, 2)
    ([(-1, 0), (-1, 1)], [(0, -1), (1, -1), (0, 0), (0, 1), (1, 0), (1, 1)])
    >>> number_near(3, 2)[:3]
    [(-1, -1), (1, -1), (0, 0)]
    """
    if place < 0:
        return [(NONE, digit) for digit in range(base)]
    ends = [(digit, NONE) for digit in range(lead if place else 0, base)]
    inside = list(product(range(base), repeat=2))
    return [*([(NONE, NONE)] if place else []), *ends, *inside]


def value(digit: np.ndarray) -> np.ndarray:
    """Return a digit, or 0 where there is none."""
    return np.maximum(digit, 0)


def write_digit(digit: np.ndarray) -> np.ndarray:
    """Return the token of a digit in any base, or -1 where there is none.

    >>> "".join(SIGNS[token] for token in write_digit(np.array([3, 9, 10, 36])))
    '39aA'
    """
    return np.where(digit > 9, digit + (LETTER - 10), digit)


def addition(part: str = "add", base: int = 10) -> Iterator[Group]:
    """Yield the steps of a sum, of its digits modulo 10 (`mad`), or of its carries (`car`).

    Nothing tells two digits at one place apart. So the numbers are in an order, and where both go
    on the next digits are too; each number is a group, since base 60 has 7 million steps.
    """
    for p in PLACES:
        near, carries = number_near(p, base), [0, 1] if part == "add" and p > 0 else [0]
        for index, one in enumerate(near):
            others = [other for other in near[index:] if one[1] <= other[1]]
            a, a_next, b, b_next, carry = combine([one], others, carries)
            here, above = value(a) + value(b) + carry, value(a_next) + value(b_next)
            written, more = (a >= 0) | (b >= 0), (a_next >= 0) | (b_next >= 0)
            if part == "add":
                written, more = written | (carry > 0), more | (here >= base)
                above += here // base
            if part == "car":
                here, above = (np.where(total > 9, CARRY, LESS) for total in (here, above))
            else:
                here, above = (write_digit(total % base) for total in (here, above))
            query = np.where(written, here, NONE) if p >= 0 else np.full_like(a, EQUALS)
            cells = [(write_digit(digit), (p, 0)) for digit in (a, b)]
            cells += [(write_digit(digit), (p + 1, 0)) for digit in (a_next, b_next)]
            cells += [(PLUS, (-1, 0)), *([(EQUALS, (-1, 0))] if p >= 0 else [])]
            yield Group((query, (p, 0)), np.where(more, above, END), cells)


def aligned() -> Iterator[Group]:
    """Yield the steps of `ali$21+3=2+3,1+0$`: level 1 is the place, level 2 the operand."""
    for p in PLACES:
        a, a_next, b, b_next = combine(number_near(p), number_near(p))
        question = [(a, (p, 1)), (a_next, (p + 1, 1)), (b, (p, 2)), (b_next, (p + 1, 2))]
        question += [(PLUS, (-1, 1))]
        if p < 0:
            yield Group((np.full_like(a, EQUALS), (-1, 1)), a_next, question)
            continue
        here, more = (a >= 0) | (b >= 0), (a_next >= 0) | (b_next >= 0)
        pair = [np.where(here, token, NONE) for token in (value(a), PLUS, value(b))]
        pair = list(zip(pair, [(p, 1), (p, 2), (p, 2)], strict=True))
        yield Group(pair[0], PLUS, question)
        yield Group(pair[1], value(b), [*question, pair[0]])
        yield Group(pair[2], np.where(more, COMMA, END), [*question, *pair[:2]])
        comma = np.where(here & more, COMMA, NONE), (p, 1)
        yield Group(comma, value(a_next), [*question, *pair])


def backwards() -> Iterator[Group]:
    """Yield the steps of `rev$12+3=21+3$`: level 1 is the place, level 2 the number."""
    for p in PLACES:
        a, a_next, b, b_next = combine(number_near(p), number_near(p))
        first = [(a, (p, 1)), (a_next, (p + 1, 1))]
        question = [*first, (b, (p, 2)), (b_next, (p + 1, 2)), (PLUS, (None, 1))]
        query = a if p >= 0 else np.full_like(a, EQUALS)
        yield Group((query, (p, 1)), np.where(a_next >= 0, a_next, PLUS), question)
        query = b if p >= 0 else np.full_like(b, PLUS)
        cells = [*question, *first, (EQUALS, (-1, 1))]
        yield Group((query, (p, 2)), np.where(b_next >= 0, b_next, END), cells)


def copying() -> Iterator[Group]:
    """Yield the steps of `^21=21$`."""
    for p in PLACES:
        a, a_next = combine(number_near(p, lead=0))
        query = a if p >= 0 else np.full_like(a, EQUALS)
        cells = [(a, (p,)), (a_next, (p + 1,))]
        yield Group((query, (p,)), np.where(a_next >= 0, a_next, END), cells)


def reversing() -> Iterator[Group]:
    """Yield the steps of `^21=12$`: the answer counts places down from `=`, above the highest."""
    query, below = combine([*DIGITS, EQUALS], [*DIGITS, NONE])
    query = np.where((query == EQUALS) & (below < 0), NONE, query)
    same = np.where(query == EQUALS, NONE, query)
    yield Group((query, (1,)), np.where(below >= 0, below, END), [(same, (1,)), (below, (0,))])


def parity() -> Iterator[Group]:
    """Yield the steps of `^0101=0110$`: the parity of each prefix."""
    for p in PLACES:
        odd, a, a_next = combine([0, 1] if p > 0 else [0], number_near(p, 2, 0))
        odd = (odd + value(a)) % 2
        query = np.where(a >= 0, odd, NONE) if p >= 0 else np.full_like(a, EQUALS)
        cells = [(a, (p,)), (a_next, (p + 1,))]
        yield Group((query, (p,)), np.where(a_next >= 0, (odd + a_next) % 2, END), cells)


def bitwise_or() -> Iterator[Group]:
    """Yield the steps of `^01|000=010$`; the first vector is the shorter one, with the 1."""
    for p in PLACES:
        # Vectors that end, and a 1 that stands, further than two places above p are all alike.
        end, other_end, one = combine(range(1, p + 5), range(1, p + 5), range(p + 4))
        end, other_end, one = np.stack([end, other_end, one])[:, (one < end) & (end <= other_end)]
        a, a_next = (np.where((at >= 0) & (at < end), at == one, NONE) for at in (p, p + 1))
        b, b_next = (np.where((at >= 0) & (at < other_end), 0, NONE) for at in (p, p + 1))
        query = np.maximum(a, b) if p >= 0 else np.full_like(a, EQUALS)
        cells = [(a, (p,)), (b, (p,)), (a_next, (p + 1,)), (b_next, (p + 1,)), (SAME, (-1,))]
        yield Group((query, (p,)), np.where(b_next >= 0, np.maximum(a_next, b_next), END), cells)


def increment(down: bool = False) -> Iterator[Group]:
    """Yield the steps of `^992=003$`; or with `down` of `^0001=9990$`, as long as the number.

    >>> query, due, _, _ = [*increment()][1]  # at the lowest place; the number may be 9
    >>> int(query[0][9]), int(due[9])
    (0, 1)
    """
    change = -1 if down else 1
    for p in PLACES:
        near = [choice for choice in number_near(p) if not (down and choice == (0, NONE))]
        a, a_next, carry = combine(near, [0, 1] if p > 0 else [1])
        here = value(a) + change * carry
        carried = np.abs(here // 10) if p >= 0 else carry
        written, more = (digit >= 0 for digit in (a, a_next))
        if not down:
            written, more = written | (carry > 0), more | (carried > 0)
        query = np.where(written, here % 10, NONE) if p >= 0 else np.full_like(a, EQUALS)
        due = np.where(more, (value(a_next) + change * carried) % 10, END)
        yield Group((query, (p,)), due, [(a, (p,)), (a_next, (p + 1,))])


def subtraction() -> Iterator[Group]:
    """Yield the steps of `^306-94=455$`, as long as the larger number: level 2 is the number.

    >>> int(next(subtraction()).due[39])  # 3 - 9, and a borrow
    4
    """
    for p in PLACES:
        borrows = [0, 1] if p > 0 else [0]
        a, a_next, b, b_next, borrow = combine(number_near(p), number_near(p), borrows)
        here = value(a) - value(b) - borrow
        # The top of the larger number lends nothing. It is seen if the number ends here.
        possible = (a_next >= 0) | ((b_next < 0) & (here >= 0))
        query = np.where((a >= 0) & possible, here % 10, NONE)
        above = (a_next - value(b_next) - (here < 0)) % 10
        cells = _two_numbers(p, a, a_next, b, b_next)
        query = query if p >= 0 else np.full_like(a, EQUALS)
        yield Group((query, (p, 2)), np.where(a_next >= 0, above, END), cells)


def comparison() -> Iterator[Group]:
    """Yield the steps of `^306-94=221$`: the larger number by the digits so far, 0 if none is.

    >>> int(next(comparison()).due[39])  # 3 or 9
    2
    """

    def compare(a: np.ndarray, b: np.ndarray, before: np.ndarray) -> np.ndarray:
        return np.where(value(a) == value(b), before, np.where(value(a) > value(b), 1, 2))

    for p in PLACES:
        orders = [0, 1, 2] if p > 0 else [0]
        a, a_next, b, b_next, order = combine(number_near(p), number_near(p), orders)
        order = compare(a, b, order)
        query = np.where((a >= 0) | (b >= 0), order, NONE) if p >= 0 else np.full_like(a, EQUALS)
        due = np.where((a_next >= 0) | (b_next >= 0), compare(a_next, b_next, order), END)
        yield Group((query, (p, 2)), due, _two_numbers(p, a, a_next, b, b_next))


def _two_numbers(place: int, *digits: np.ndarray) -> list[tuple[Tokens, Coordinates]]:
    """Return the cells of digits of two numbers; the sign belongs to the first one."""
    ids = [(at, number) for number in (0, 1) for at in (place, place + 1)]
    return [*zip(digits, ids, strict=True), (MINUS, (-1, 0))]


def running_sums() -> Iterator[Group]:
    """Yield the steps of `^57+48+96=0>75>501>102$`: sum k is sum k - 1 plus operand k - 1.

    Level 2 counts operands and sums from 0. A `+` has no place; it belongs to the operand before.
    """
    for p in (-1, 0):  # the sum 0
        a, a_next = combine(number_near(p))
        query = np.full_like(a, EQUALS if p < 0 else 0)
        cells = [(a, (p, 0)), (a_next, (p + 1, 0)), (PLUS, (None, 0))]
        yield Group((query, (p, 0)), 0 if p < 0 else MORE, cells)
    for k, p in product((1, 2), PLACES):
        zero = [(NONE, 0) if p < 0 else (0, NONE) if p == 0 else (NONE, NONE)]
        # Operand k has no part in sum k. From k = 2 on, it may be missing; another may follow.
        coming = [(*near, PLUS, plus) for near in number_near(p) for plus in (PLUS, NONE)]
        coming += [(NONE,) * 4] if k > 1 else []
        s, s_next, a, a_next, c, c_next, plus, plus_next, carry = combine(
            number_near(p) if k > 1 else zero,
            number_near(p),
            coming,
            [0, 1] if p > 0 and k > 1 else [0],
        )
        total = value(s) + value(a) + carry
        above = value(s_next) + value(a_next) + total // 10
        written = (s >= 0) | (a >= 0) | (carry > 0)
        more = (s_next >= 0) | (a_next >= 0) | (total > 9)
        query = np.where(written, total % 10, NONE) if p >= 0 else np.full_like(s, MORE)
        cells = [(s, (p, k - 1)), (a, (p, k - 1)), (c, (p, k)), (plus, (None, k - 1))]
        cells += [(s_next, (p + 1, k - 1)), (a_next, (p + 1, k - 1)), (c_next, (p + 1, k))]
        cells += [(plus_next, (None, k)), (EQUALS if k == 1 else MORE, (-1, k - 1))]
        due = np.where(more, above % 10, np.where(plus >= 0, MORE, END))
        yield Group((query, (p, k)), due, cells)


def products() -> Iterator[Group]:
    """Yield the steps of `^37*925=581+470+333=581>5290>52243`: rows, then their sums."""
    yield from product_rows()
    yield from product_sums()


def _row(k: int, place: int) -> Coordinates:
    """Return the coordinates of a place of row k, a times digit k of b; sum k has (k + 1) there."""
    return place, k + 1, k + place, k


def find_carries(digit: int, other: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the pairs of carries in a number times two digits: into a place, and out of the top.

    >>> find_carries(2, 1)
    ([(0, 0), (1, 0)], [(0, 0), (1, 0)])
    """

    def follow(carries: set[tuple[int, int]], digits: range) -> set[tuple[int, int]]:
        return {((d * digit + c) // 10, (d * other + e) // 10) for c, e in carries for d in digits}

    first = inside = follow({(0, 0)}, DIGITS)
    while follow(inside, DIGITS) - inside:
        inside = inside | follow(inside, DIGITS)
    return sorted(inside), sorted(first | follow(inside, DIGITS[1:]))


def product_rows() -> Iterator[Group]:
    """Yield the steps of a times x, digit k of b: y is digit k + 1, and z is digit k - 1.

    The window shows a place of the row for z, too.
    """
    for x, z, p in product(DIGITS, (None, *DIGITS), PLACES):
        k, times_z = (0, 0) if z is None else (1, z)
        inside, top = find_carries(x, times_z) if p > 0 else ([(0, 0)], [])
        near = [choice for choice in number_near(p) if p <= 0 or choice != (NONE, NONE)]
        choices = combine(near, inside).T.tolist()
        choices += [(NONE, NONE, *carries) for carries in top]
        # The first digit of b is not 0, unless b is 0.
        a, a_next, carry, z_carry, y = combine(choices, DIGITS if k and not x else [NONE, *DIGITS])
        here, z_here = value(a) * x + carry, value(a) * times_z + z_carry
        above = (value(a_next) * x + here // 10) % 10
        z_above = (value(a_next) * times_z + z_here // 10) % 10
        has_next = (a >= 0) | (p < 0)  # a row has one place more than a
        query = here % 10 if p >= 0 else np.full_like(a, PLUS if k else EQUALS)
        cells = [(a, (p, None, None, None)), (a_next, (p + 1, None, None, None))]
        cells += [(x, (None, k, None, None)), (y, (None, k + 1, None, None))]
        cells += [(np.where(has_next, z_above, NONE), _row(k - 1, p + 1))] if k else []
        due = np.where(has_next, above, np.where(y >= 0, PLUS, EQUALS))
        yield Group((query, _row(k, p)), due, cells)


def product_sums() -> Iterator[Group]:
    """Yield the steps of sum k, sum k - 1 plus row k, whose place 0 is below place k of the sum.

    A row has the places 0 to m, and sum k has 0 to m + k. All larger k and m are like these.
    """
    seen = set()
    for k, m, more, r in product(range(4), range(1, 5), (False, True), range(-4, 5)):
        p, top = k + r, r == m
        if p < -1 or r > m:
            continue

        def row_choices(place: int, exists: bool = True, m: int = m) -> Sequence[int]:
            return DIGITS[: 9 if place == m else 10] if exists and 0 <= place <= m else [NONE]

        choices = [DIGITS if k and 0 <= at < m + k else [NONE] for at in (p, p + 1)]
        choices += [row_choices(r), row_choices(r + 1)]
        choices += [row_choices(r - 1, more), row_choices(r, more)]
        choices += [[0, 1] if k and r > 0 else [0]]
        kind = *map(tuple, choices), more, top, min(max(r, -3), 1), min(p, 0), p < 0 and min(k, 2)
        if kind in seen:
            continue
        seen.add(kind)
        s, s_next, a, a_next, b, b_next, carry = combine(*choices)
        total = value(s) + value(a) + carry
        query = total % 10 if p >= 0 else np.full_like(s, MORE if k else EQUALS)
        due = (value(s_next) + value(a_next) + total // 10) % 10
        cells = [(s, (None, None, p, k)), (s_next, (None, None, p + 1, k))]
        cells += [(a, _row(k, r)), (a_next, _row(k, r + 1)), (PLUS if k else EQUALS, _row(k, -1))]
        cells += [(b, _row(k + 1, r - 1)), (b_next, _row(k + 1, r))]
        cells += [(PLUS, _row(k + 1, -1))] if more else []
        cells += [(EQUALS if k == 1 else MORE, (None, None, -1, k))] if k else []
        ended = MORE if more else END
        yield Group((query, (None, None, p, k + 1)), np.full_like(s, ended) if top else due, cells)


def sorting() -> Iterator[Group]:
    """Yield the steps of `^57,08,61=++:08,57;--:--:08,57,61$`: insert number i into a sorted list.

    Each row of symbols or digits has a sign at j = 0, its places from the highest one, j = 1, on,
    and the coordinates of its kind. Ranks count from the largest number. A digit of the new list
    at rank r is that of the old list at rank r, or at r - 1, or of the number i, as the symbols
    say: they compare the numbers up to a place. All i from 4 and all j from 1 on are alike.
    """

    def new(i: int, j: int) -> Coordinates:
        return 4 * i - 3 + 4 * j, 2 * i, None, i

    def compared(i: int, rank: int, j: int) -> Coordinates:
        return 4 * i - 1 + 4 * j, 2 * i, rank, i

    def listed(i: int, rank: int, j: int) -> Coordinates:
        return 4 * i + 4 * j, 2 * i + 1, rank, None

    symbols = np.array([LESS, SAME, PLUS])
    # One number alone.
    yield Group((np.full(10, EQUALS), compared(2, 1, 0)), END, [(np.arange(10), listed(1, 1, 1))])
    for i, j in product((2, 3, 4), (0, 1)):
        for r in range(1, i + 1):
            has_r, has_above = r < i, r > 1
            order = [-1, 0, 1] if j else [0]
            o, h, n, s, t, q = combine(
                DIGITS if has_r else [NONE],
                DIGITS if has_above else [NONE],
                DIGITS,
                order,
                order,
                DIGITS if j else [COMMA if has_r else COLON],
            )
            if has_r and has_above:  # the list is sorted
                keep = (s <= t) & ((s != t) | (s != 0) | (o <= h))
                o, h, n, s, t, q = (x[keep] for x in (o, h, n, s, t, q))
            s_next, t_next = (np.where(x == 0, np.sign(d - n), x) for x, d in ((s, o), (t, h)))

            def sign(rank: int, i: int = i) -> int:
                return EQUALS if i == 2 else SEMICOLON if rank == i - 1 else COLON

            before = symbols[s + 1] if j else np.full_like(s, sign(r))
            t_before = symbols[t + 1] if j else np.full_like(s, sign(r - 1))
            cells = [(n, new(i, j + 1))]
            cells += [(o, listed(i - 1, r, j + 1)), (h, listed(i - 1, r - 1, j + 1))]
            if has_r:
                yield Group((before, compared(i, r, j)), symbols[s_next + 1], cells)
                cells += [(before, compared(i, r, j)), (symbols[s_next + 1], compared(i, r, j + 1))]
            if has_above:
                cells += [(t_before, compared(i, r - 1, j))]
                cells += [(symbols[t_next + 1], compared(i, r - 1, j + 1))]
            due = np.where(has_r & (s_next >= 0), o, np.where(has_above & (t_next < 0), h, n))
            yield Group((q, listed(i, r, j)), due, cells)
            if j == 0:
                continue
            s, t, comma, q = combine(order, order, [COMMA, NONE], DIGITS)  # place j is the last
            if has_r and has_above:
                s, t, comma, q = (x[s <= t] for x in (s, t, comma, q))
            cells = [(comma, new(i, j + 1)), *([(COMMA, listed(1, 1, j + 1))] if i == 2 else [])]
            if has_r:
                yield Group((symbols[s + 1], compared(i, r, j)), COLON, cells)
                cells += [(symbols[s + 1], compared(i, r, j))]
            cells += [(symbols[t + 1], compared(i, r - 1, j))] if has_above else []
            ended = np.where(comma >= 0, SEMICOLON, END)
            yield Group((q, listed(i, r, j)), COMMA if has_above else ended, cells)


class Definition(NamedTuple):
    """A kind of rows: its steps, and the settings and the windows of ids that these suppose."""

    steps: Callable[[], Iterator[Group]]
    task: dict[str, Any]
    form: dict[str, Any]
    windows: list[tuple[int, int]]  # how far each level shows lower and higher ids
    ids: str = "coupled"
    free: tuple[str, ...] = ()  # further settings of task and format, which change no context
