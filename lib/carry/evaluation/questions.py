"""Questions as readers type or paste them, alone or in a file; read and checked without torch.

    typed                       read as
    653 + 49 =                  653+49
    12345 × 67, 12345x67        12345*67
    8 ÷ 2, 5 − 3                8/2, 5-3
    1,000+2                     1000+2      commas between thousands only

A file of questions is a text with one question on each line, or a CSV file whose header has the
column `question`, and maybe `answer`.
"""

from __future__ import annotations

import contextlib
import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from carry.config.settings import SettingsError, describe

# The rows that answer if none is named.
ADDER = "addition_relative"
SEVERAL = "multi_operand_addition_relative_scratchpad"  # of three numbers or more
CALCULATOR = "calculator_relative_longhand"

# Longer questions fill the memory.
MAX_DIGITS, MAX_OPERANDS = 10_000, 1_000

EXAMPLE = "numbers with one of + - * / between them, such as 653+49"
PASTED = {
    "+": "＋﹢➕", "-": "−–—‐‑‒﹣－➖", "*": "×✕✖·⋅∙∗＊", "/": "÷∕⁄／➗:", "=": "＝", ",": "，",
    " ": "\N{NO-BREAK SPACE}\N{THIN SPACE}\N{NARROW NO-BREAK SPACE}\t",
    "": "\N{ZERO WIDTH SPACE}\N{ZERO WIDTH NO-BREAK SPACE}",
}  # fmt: skip
PLAIN = str.maketrans({sign: plain for plain, signs in PASTED.items() for sign in signs})
PLAIN |= {ord("０") + digit: str(digit) for digit in range(10)}
TIMES = re.compile(r"(?<=[0-9])\s*[xX]\s*(?=[0-9])")
THOUSANDS = re.compile(r"(?<![0-9,.])[0-9]{1,3}(,[0-9]{3})+(?![0-9,.])")


class Question(NamedTuple):
    """A question with plain signs and without spaces, and its numbers with one kind of sign."""

    text: str
    sign: str
    numbers: list[str]


class Line(NamedTuple):
    """A line of a file: its number, from 1, a question, and the answer that the file gives."""

    number: int
    question: str
    answer: str | None = None


def spell(text: str, letters: bool = False, lists: bool = False) -> str:
    """Return a question with plain signs, without spaces, `=` at its end and thousands separators.

    Args:
        letters: whether letters may be digits, as in bases above 10; else `x` is `*`.
        lists: whether commas separate numbers, as in sorting.

    >>> spell("12 3 × 4")
    Traceback (most recent call last):
        ...
    carry.config.settings.SettingsError: question: '12 3 × 4' has no sign between '12' and '3'; \
expected one, and no spaces inside a number
    >>> spell("1,000 × 67 =")
    '1000*67'

    Raises:
        SettingsError: for an empty question, and numbers without a sign between them.
    """
    plain = text.translate(PLAIN).strip().removesuffix("?").rstrip().removesuffix("=").rstrip()
    if not plain:
        raise SettingsError(f"question: {describe(text)} is empty; expected {EXAMPLE}")
    if not letters:
        plain = TIMES.sub("*", plain)
    gap = re.search(r"(?<=[0-9A-Za-z]) +(?=[0-9A-Za-z])", plain)
    if gap:
        one, other = map(describe, _get_words(plain, gap.span(), "[^0-9A-Za-z]"))
        shell = "" if other[1:-1].isdecimal() else ", and quotes around *, which a shell replaces"
        raise SettingsError(
            f"question: {describe(text)} has no sign between {one} and {other}; expected one, and "
            f"no spaces inside a number{shell}"
        )
    plain = plain.replace(" ", "")
    return plain if lists else THOUSANDS.sub(lambda found: found[0].replace(",", ""), plain)


def _get_words(text: str, span: tuple[int, int], separator: str) -> list[str]:
    """Return the words before and after a place; a pattern of both needs quadratic time."""
    return [re.split(separator, text[: span[0]])[-1], re.split(separator, text[span[1] :])[0]]


def read_question(text: str) -> Question:
    """Return a question of natural numbers for one of the rows that answer by default.

    >>> read_question("653 + 49 =")
    Question(text='653+49', sign='+', numbers=['653', '49'])
    >>> read_question("-5+3")
    Traceback (most recent call last):
        ...
    carry.config.settings.SettingsError: question: '-5+3' begins with a sign; expected natural \
numbers, such as 3-5

    Raises:
        SettingsError: for anything but natural numbers with signs between them, for different
            signs, for more than two numbers with another sign than +, and for a division by 0.
    """
    plain = spell(text)
    part, reason = "", ""
    if found := re.search(r"[^0-9.,+*/-]+", plain):
        part, reason = found[0], f"is neither a digit nor a sign; expected {EXAMPLE}"
    elif found := re.search(r"[.,]", plain):
        part = found[0].join(_get_words(plain, found.span(), r"[+*/-]"))
        reason = "is no natural number; expected digits, with commas between thousands only: 1,000"
    elif found := re.search(r"[+*/-]{2,}", plain):
        part, reason = found[0], "is no sign; expected one of + - * / between numbers"
    if part:
        raise SettingsError(f"question: {describe(part)} in {describe(text)} {reason}")
    numbers, signs = re.split(r"[+*/-]", plain), re.findall(r"[+*/-]", plain)
    if not numbers[0]:
        turned = re.fullmatch(r"-([0-9]{1,20})\+([0-9]{1,20})", plain)
        example = f"{turned[2]}-{turned[1]}" if turned else "653+49"
        fault = f"begins with a sign; expected natural numbers, such as {example}"
    elif not numbers[-1]:
        fault = f"has no number after {signs[-1]!r}; expected one"
    elif not signs:
        fault = f"has one number; expected {EXAMPLE}, or --row with a row for one number"
    elif len({*signs}) > 1:
        fault = f"has different signs, {' and '.join(dict.fromkeys(signs))}; expected one kind"
    elif signs[0] != "+" and len(numbers) > 2:
        fault = f"has {len(numbers)} numbers with {signs[0]!r}; expected 2, or more with '+' alone"
    elif len(numbers) > MAX_OPERANDS:
        fault = f"has {len(numbers)} numbers; expected at most {MAX_OPERANDS}"
    elif max(map(len, numbers)) > MAX_DIGITS:
        longest = max(map(len, numbers))
        fault = f"has a number of {longest} digits; expected at most {MAX_DIGITS}"
    elif signs[0] == "/" and not numbers[1].strip("0"):
        fault = "has no result; expected a divisor from 1"
    else:
        return Question(plain, signs[0], numbers)
    raise SettingsError(f"question: {describe(text)} {fault}")


def choose_row(questions: Sequence[Question]) -> str:
    """Return the row that answers all questions: the adder of two numbers, or of several, or else
    the calculator.

    >>> choose_row([read_question("1+2")]), choose_row([read_question("1+2+3")])
    ('addition_relative', 'multi_operand_addition_relative_scratchpad')

    Raises:
        SettingsError: if there is no such row.
    """
    others = [question.text for question in questions if question.sign != "+"]
    several = [question.text for question in questions if len(question.numbers) > 2]
    if others and several:
        raise SettingsError(
            f"question: no row answers both {describe(others[0])} and {describe(several[0])}; "
            "expected sums alone, or two numbers in each question"
        )
    return CALCULATOR if others else SEVERAL if several else ADDER


@contextlib.contextmanager
def name_line(path: Path, line: Line) -> Iterator[None]:
    """Name the file and the line in refusals of the block."""
    try:
        yield
    except SettingsError as error:
        raise SettingsError(f"{path} line {line.number}: {error}") from None


def read_file(path: str | Path) -> list[Line]:
    """Return the questions of a file, which are not checked yet.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "sums.csv"
    >>> _ = path.write_text('question,answer\\n653+49,702\\n"1,000+2",1002\\n', encoding="utf-8")
    >>> for line in read_file(path):
    ...     print(line)
    Line(number=2, question='653+49', answer='702')
    Line(number=3, question='1,000+2', answer='1002')

    Raises:
        SettingsError: for a file that is no text, for lines that do not fit the header, and for a
            file without questions.
        OSError: for a file that cannot be read.
    """
    path = Path(path)
    try:
        texts = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise SettingsError(
            f"{path}: byte {error.start} is no UTF-8; expected a text or a CSV file"
        ) from None
    rows = [(number, text) for number, text in enumerate(texts, start=1) if text.strip()]
    header = [name.strip().lower() for name in _split(rows[0][1])] if rows else []
    lines = []
    if "question" not in header:
        for number, text in rows:
            cells = _split(text)  # a quoted question is one cell
            if len(cells) > 1 and re.search("[-+*/]", cells[0]):  # 653+49,702 is no 653+49702
                raise SettingsError(
                    f"{path} line {number}: {describe(text)} has a comma after a question; "
                    "expected the header `question,answer`, or quotes around a question with commas"
                )
            lines.append(Line(number, cells[0] if len(cells) == 1 else text))
    for number, text in rows[1:] if "question" in header else ():
        cells = _split(text)
        if len(cells) != len(header):
            raise SettingsError(
                f"{path} line {number}: the number of cells of {describe(text)} is {len(cells)}; "
                f"expected {len(header)}, as in the header, and quotes around questions with commas"
            )
        values = dict(zip(header, cells, strict=True))
        lines.append(Line(number, values["question"], values.get("answer")))
    if not lines:
        raise SettingsError(
            f"{path}: no questions; expected one on each line, or a column `question`"
        )
    return lines


def _split(text: str) -> list[str]:
    try:
        return next(csv.reader([text]))
    except csv.Error:  # a cell of more than 131,072 letters
        return [text]
