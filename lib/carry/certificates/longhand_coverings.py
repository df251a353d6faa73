"""The covering of calculations in longhand: short texts that have every context of every problem.

A window shows a digit two places of its row, of the previous row, and of the fixed number. It shows
a count or a sign those of two rows, and two digits of the number that rows count:

    +939,979=1891+        the row of 939 + 979, least significant digit first: a digit after a carry
    *3,2=00+13+           the sign of the first addition of 2 * 3: another one, or the next digit?

Lower digits matter through the carry alone. The rows of a text need not belong to one problem, if a
window shows none of their disagreements. Python's integers compute them, and not the code that
writes problems.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Bool
from torch import Tensor

from carry.data.batch import Batch
from carry.formats.longhand import write_texts
from carry.tasks.calculator import write_row

DIGITS = "0123456789"
TEXTS_PER_CHUNK = 50_000


def generate_longhand_batches(operations: str) -> Iterator[tuple[Batch, Bool[Tensor, "B A"]]]:
    """Yield texts as batches, and the response tokens that they cover.

    Args:
        operations: some of + - * and /.
    """
    for sign in sorted({*operations}):
        operation = sign.replace("/", ":")
        counts = _generate_uncounted if operation in "+-" else _generate_counted
        # A count covers its last token, a row all of it.
        texts = itertools.chain(
            ((text, False) for text in counts(operation)),
            ((text, True) for text in _generate_rows(operation)),
        )
        while chunk := [*itertools.islice(texts, TEXTS_PER_CHUNK)]:
            yield _write_texts(chunk)


def _write_texts(texts: Sequence[tuple[str, bool]]) -> tuple[Batch, Bool[Tensor, "B A"]]:
    """Write texts; select the last token, or the last row without its count."""
    batch = write_texts([text for text, _ in texts])
    index, _, real = batch.response()
    last = index == batch.length[:, None] - 2
    row = batch.number.gather(1, index)  # of the token before
    in_row = (row > 2) & (row == batch.number.amax(1, keepdim=True))
    covers_row = torch.tensor([covers_row for _, covers_row in texts])[:, None]
    return batch, torch.where(covers_row, in_row, last) & real


def _question(operation: str, fixed: str, counted: str = "1") -> str:
    """Return a question; `counted` has its most significant digit first."""
    numbers = [fixed, counted[::-1]] if operation == "*" else [counted[::-1], fixed]
    return f"{operation}{','.join(numbers)}="


# ---- Counts and first digits ---------------------------------------------------------------------


def _generate_uncounted(operation: str) -> Iterator[str]:
    """Yield the ends of sums and differences, and first digits."""
    yield from {"+": ["+1,1=12+$"], "-": ["-1,1=10+$", "-1,2=19-0", "-1,2=19-01+$"]}[operation]
    for x, y in itertools.product(DIGITS, DIGITS):
        yield f"{operation}{x},{y}=1"
        yield f"{operation}{x},{y}=1{write_row(operation, 'step', x, y)[0]}"
        if operation == "-":
            yield f"-{x},{y}=1{x}-0{write_row('-', 'repair', x, y)[0]}"


def _generate_counted(operation: str) -> Iterator[str]:
    """Yield the counts and the first digits of products and quotients."""
    zeros = "0" if operation == "*" else "00"
    yield from (_question(operation, "1", digit) + "0" for digit in DIGITS)
    for digit, following in itertools.product(DIGITS, ["", *DIGITS]):
        end = "0" if following else "$"
        brought = digit if operation == ":" else "0"
        after_shift = end if operation == "*" and digit == "0" else "1"
        for start in _generate_starts(operation, digit + following):
            yield f"{start}0{brought}"
            yield f"{start}0{brought}{zeros[1:]}+{after_shift}"
        start = _question(operation, "1", digit + following) + f"0{zeros}+"
        for count in range(1, 10 if operation == ":" else int(digit) + 1):
            is_last = count == (9 if operation == ":" else int(digit))
            previous = f"{count - 1}{zeros}+" if count > 1 else ""
            yield f"{start}{previous}{count}{zeros}+{end if is_last else count + 1}"
            if operation == ":":
                yield f"{start}{previous}{count}00-{count - 1}"
                yield f"{start}{count}00-{count - 1}00+{end}"
    for count, x, y in itertools.product(range(1, 10), DIGITS, DIGITS):
        start = _question(operation, f"{y}1", "9") + ("" if count == 1 else f"0{zeros}+")
        if operation == ":" or int(x) == (count - 1) * int(y) % 10:
            first = write_row(operation, "step", x, y)[0]
            yield f"{start}{count - 1}{x}{zeros[1:]}+{count}{first}"
        if operation == ":":
            first = write_row(":", "repair", x, y)[0]
            yield f"{_question(':', f'{y}1', '9')}000+{count}{x}0-{count - 1}{first}"


def _generate_starts(operation: str, counted: str) -> Iterator[str]:
    """Yield questions, and steps to the shift that brings the first of the digits `counted` down.

    The previous row has the last count of the previous digit, and any lowest digit.
    """
    if counted == "0" or counted[0] != "0":
        yield from (_question(operation, f"{y}1", counted) for y in DIGITS)
    for count, x, y in itertools.product(range(10), DIGITS, DIGITS):
        start = _question(operation, f"{y}1", f"1{counted}")
        if operation == ":":
            yield start + (f"000+9{x}0+" if count == 9 else f"000+{count + 1}00-{count}{x}0+")
        elif int(x) == count * int(y) % 10:
            yield start + ("00+" if count == 0 else f"00+{count}{x}+")


# ---- Rows ----------------------------------------------------------------------------------------


def _generate_rows(operation: str) -> Iterator[str]:
    """Yield texts whose last row has all digits around a place, and the end of the row."""
    for x, y in _pair_for_steps(operation):
        if operation in "+-":
            yield f"{operation}{x},{y}=1{write_row(operation, 'step', x, y)}"
        else:
            row = write_row(operation, "step", x, y)
            yield f"{_question(operation, y)}0{x}+1{row}"
    if operation in "-:":
        for x, y in _pair_for_repairs(operation):
            row = write_row(operation, "repair", x, y)
            yield f"{_question(operation, y, y[::-1])}1{x}-0{row}"
    if operation in "*:":
        for x, y, digit in _choose_shifts(operation):
            before = f"1{x}+0" if x else "0"
            row = write_row(operation, "shift", x, y, digit)
            yield f"{_question(operation, y)}{before}{row}"


def _numbers_around(low: str) -> list[str]:
    """Return numbers that end below, at or above the first place above the digits `low`.

    They have all digits at this place and the next, and those that end above continue further.
    """
    two = (f"{low}{one}{other}1" for one, other in itertools.product(DIGITS, DIGITS))
    return [low or "0", *(low + digit for digit in DIGITS[1:]), *two]


def _fill_above(low: str, length: int, fill: str) -> Iterator[str]:
    """Yield digits of a length, with all digits at the two places above `low`, then `fill`."""
    for digits in itertools.product(DIGITS, repeat=max(0, min(2, length - len(low)))):
        yield (low + "".join(digits)).ljust(length, fill)


def _pair_for_steps(operation: str) -> Iterator[tuple[str, str]]:
    """Yield the previous row and the fixed number of additions and subtractions."""
    if operation == ":":  # the row is below ten times the divisor, and one place longer
        for low, y_low in (("", ""), ("9", "9"), ("0", "9")):
            for y in _numbers_around(y_low):
                yield from ((x, y) for x in _fill_above(low, len(y) + 1, "0") if x[-1] <= y[-1])
        return
    for x_low, y_low in (("", ""), ("1", "1"), ("0", "1") if operation == "-" else ("9", "9")):
        for pair in itertools.product(_numbers_around(x_low), _numbers_around(y_low)):
            if operation != "*" or _may_be_multiple(*pair):
                yield pair
    if operation == "*":
        yield from _pair_with_zeros()


def _pair_for_repairs(operation: str) -> Iterator[tuple[str, str]]:
    """Yield rows below 0, as written, and the fixed number.

    Such a row plus the fixed number, which is the number before the subtraction, has a last carry.
    """
    lows = (
        [("", ""), ("0", "9"), ("5", "9")]
        if operation == "-"
        else [("", ""), ("1", "1"), ("9", "9")]
    )
    top = "9" if operation == ":" else ""
    for low, y_low in lows:
        for y in _numbers_around(y_low):
            for digits in _fill_above(low, len(y), "9"):
                x = digits + top
                if int(x[::-1]) + int(y[::-1]) >= 10 ** len(x):
                    yield x, y


def _choose_shifts(operation: str) -> Iterator[tuple[str, str, str]]:
    """Yield previous rows, fixed numbers, and digits that are brought down."""
    brought = DIGITS if operation == ":" else "0"
    for y in dict.fromkeys(_numbers_around("") + _numbers_around("1")):
        yield from (("", y, digit) for digit in brought)
    for low in ["", *DIGITS]:
        y_low = "9" if operation == ":" else "1"
        for y in _numbers_around(y_low if low else ""):
            if operation == ":":  # the row is below the divisor
                for x in _fill_above(low, len(y), "0"):
                    if x[-1] <= y[-1]:
                        yield from ((f"{x}0", y, digit) for digit in ("0" if low else DIGITS))
            else:
                numbers = _numbers_around(low)
                yield from ((x, y, "0") for x in numbers if _may_be_multiple(x, y))
    if operation == "*":
        yield from ((x, y, "0") for x, y in _pair_with_zeros())


def _may_be_multiple(x: str, y: str) -> bool:
    """Return whether a number's length and top digit allow a multiple of y, but not 0."""
    return len(x) > len(y) or (len(x) == len(y) and x[-1] >= y[-1])


def _pair_with_zeros() -> Iterator[tuple[str, str]]:
    """Yield the partial products that begin with zeros: the first one, and products with 0."""
    for y in [*_numbers_around(""), *_numbers_around("1")]:
        yield "0" * len(y), y
    yield from (("0" * length, "0") for length in range(1, 5))
