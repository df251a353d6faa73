"""Mock models that test the evaluation: an oracle, and models with one known fault each.

They read the tokens of the question as text and compute with Python integers and strings, so they
share only the alphabet with the code under test. Schemes, ids, format and decoding are those of
any other model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
import torch.nn.functional as F

from carry import formats
from carry.experiments.run import Run
from carry.formats import HINT_LETTERS
from carry.formats.insertion_sort import InsertionSort
from carry.formats.longhand import Longhand
from carry.formats.one_hot import OneHot
from carry.formats.turing import Turing
from carry.models.architectures import Architecture
from carry.models.system import System
from carry.tasks import DIGIT_SYMBOLS, OPERAND_LETTERS
from carry.tasks.calculator import write_rows
from pythons import write_stages


def compare(one, other):
    """Return the sign of insertion sort for the order of two texts."""
    if one == other:
        return "|"
    return "-" if one < other else "+"


class Oracle(System):
    """Writes the correct response."""

    def __init__(self, run: Run, seed: int = 0, device: str | torch.device = "cpu") -> None:
        super().__init__(run, seed, device)
        self.network = MockNetwork(self)

    def write_answer(self, *operands: str) -> list[str]:
        answer = list(self.task.solve_text(*operands))
        return answer[::-1] if self.task.answer_is_number else answer

    def append_end(self, symbols: list[str]) -> list[str]:
        return [*symbols, "$"]

    def respond(self, question: str) -> str:
        if hasattr(self.format, "sums"):  # a line: keep its last sum
            question = re.split("[a-z =^]", question.rstrip("="))[-1]
        question = question.strip("^$=").replace(" ", "")
        if hasattr(self.format, "prefix"):
            prefix, _, question = question.partition("$")
            if prefix != "add":
                return self._join_with_end(self._write_sub_task(prefix, *question.split("+")))
        if hasattr(self.format, "bar"):
            return self._join_with_end(self._write_words(*question.split("+")))
        if isinstance(self.format, Turing):
            return self._join_with_end(self._write_tapes(question))
        if isinstance(self.format, Longhand):
            return self._join_with_end(write_rows(question[0], *question[1:].split(",")))
        if isinstance(self.format, InsertionSort):
            return self._join_with_end(self._write_insertions(question.split(",")))
        if self.format.has_steps:
            return self._join_with_end(self._write_steps(question))
        if not self.task.answer_is_number:
            pairs = (part.split(":") for part in question.split(","))
            letters, numbers = zip(*pairs, strict=True)
            order = self.write_answer(*map(self._read, numbers))
            symbols = self.append_end([letters[OPERAND_LETTERS.index(name)] for name in order])
            return ",".join(symbols).replace(",$", "$")
        if isinstance(self.format, OneHot):
            first = formats.FIRST_LETTER
            numbers = [str(formats.ALPHABET.index(symbol) - first) for symbol in question]
            return self._join_with_end(
                formats.ALPHABET[first + int(self.task.solve_text(*numbers))]
            )
        return self._write_number(question)

    def _join_with_end(self, symbols: Sequence[str]) -> str:
        return "".join(self.append_end([*symbols]))

    def _write_number(self, question: str) -> str:
        symbols = DIGIT_SYMBOLS[: max(10, self.task.base)]
        digits = ["".join(c for c in part if c in symbols) for part in self._split(question)]
        operands = [self._read(number) for number in digits]
        symbols = self.write_answer(*operands)
        width = getattr(self.format, "pad_to", None) or 0
        if getattr(self.format, "pad", False):
            width = self._answer_room(operands)
        symbols += ["0"] * (width - len(symbols))
        if self.format.has_index_hints:
            first = HINT_LETTERS.index(question[0])
            if not self.format.reverse_operands:  # the first letter belongs to the highest place
                first -= len(operands[0]) - 1
            count = len(HINT_LETTERS)
            symbols = [
                HINT_LETTERS[(first + place) % count] + digit for place, digit in enumerate(symbols)
            ]
        lowest_first = getattr(self.format, "reverse_answer", True)
        return "".join(self.append_end(symbols if lowest_first else symbols[::-1]))

    def _write_steps(self, question: str) -> str:
        form = self.format
        operands = [self._read(number) for number in self._split(question)]
        if not self.task.keeps_leading_zeros:
            operands = [str(int(operand)) for operand in operands]
        stages, written = write_stages(self.task, operands, form.from_zero), []
        for index, stage in enumerate(stages):
            numbers = [number.zfill(room if form.pad else 0) for room, number in stage]
            sign = "+" if len(stages) > 1 and not index else ">"
            step = -1 if form.reverse_answer else 1
            written.append(sign.join(number[::step] for number in numbers))
        return "=".join(written)

    def _write_tapes(self, tape: str) -> str:
        """Return the tape after each step; both digits of a place stand side by side."""
        lines, carry, digits = [], 0, ""
        while tape:
            tape, (one, other) = tape[:-2], tape[-2:]
            carry, digit = divmod(int(one) + int(other) + carry, 10)
            digits = f"{digit}{digits}"
            lines.append(f"{tape}{'-c'[carry]}{digits}")
        return "|".join(lines)

    def _write_insertions(self, numbers: list[str]) -> str:
        """Return for each number its comparisons with the sorted numbers before it, and the list.

        The texts have equal lengths, so the order of texts is the order of numbers.
        """
        sorted_numbers, steps = numbers[:1], []
        for new in numbers[1:]:
            ends = range(1, len(new) + 1)
            compared = [
                "".join(compare(old[:end], new[:end]) for end in ends) for old in sorted_numbers
            ]
            sorted_numbers = sorted([*sorted_numbers, new])
            steps.append(":".join([*compared, ",".join(sorted_numbers)]))
        return ";".join(steps)

    def _write_sub_task(self, prefix: str, *written: str) -> str:
        if prefix == "rev":
            return "+".join(number[::-1] for number in written)
        operands = [self._read(number) for number in written]
        width = max(map(len, operands))
        pairs = list(zip(*(number.zfill(width) for number in operands), strict=True))
        sums = [int(a) + int(b) for a, b in pairs]
        parts = {
            "ali": [f"{a}+{b}" for a, b in pairs],
            "car": ["c" if total > 9 else "-" for total in sums],
            "mad": [str(total % 10) for total in sums],
        }[prefix]
        if self.format.reverse_answer:
            parts = parts[::-1]
        return (",".join if prefix == "ali" else "".join)(parts)

    def _write_words(self, a: str, b: str) -> str:
        carry, lines, width = 0, [], max(len(a), len(b))
        for first, second in zip(a.zfill(width)[::-1], b.zfill(width)[::-1], strict=True):
            total = int(first) + int(second) + carry
            lines.append(f"{first}+{second}+{carry}={total % 10}, c={total // 10}")
            carry = total // 10
        end = "|" if self.format.bar else " "
        reverse = f"{' '.join(a[::-1])} + {' '.join(b[::-1])}"
        return f"{reverse}; c=0, {'; '.join(lines)}{end}{self.task.solve_text(a, b)}"

    def _split(self, question: str) -> list[str]:
        return question.split(self.task.sign) if self.task.sign else [question]

    def _read(self, number: str) -> str:
        return number[::-1] if getattr(self.format, "reverse_operands", True) else number

    def _answer_room(self, operands: list[str]) -> int:
        if not self.task.keeps_leading_zeros:
            operands = [str(int(operand)) for operand in operands]
        return int(self.task.answer_room(torch.tensor([[*map(len, operands)]])))


class Adder(Oracle):
    """Adds place by place; subclasses change the digit at a place."""

    def add_digits(self, a: int, b: int, place: int) -> int:
        return (a + b) // 10**place % 10

    def write_answer(self, *operands: str) -> list[str]:
        a, b = map(int, operands)
        padded = getattr(self.format, "pad", False)
        length = max(map(len, operands)) + 1 if padded else len(str(a + b))
        return [str(self.add_digits(a, b, place)) for place in range(length)]


class ForgetsCarries(Adder):
    """Adds the digits of each place without a carry."""

    def add_digits(self, a: int, b: int, place: int) -> int:
        return (a // 10**place + b // 10**place) % 10


class InventsCarries(Adder):
    """Adds a carry to the digits of each place."""

    def add_digits(self, a: int, b: int, place: int) -> int:
        return (a // 10**place + b // 10**place + 1) % 10


class OffByOnePlace(Adder):
    """Reads the second operand one place too high."""

    def add_digits(self, a: int, b: int, place: int) -> int:
        return (a + 10 * b) // 10**place % 10


class StopsEarly(Oracle):
    """Omits the last symbol of the response."""

    def append_end(self, symbols: list[str]) -> list[str]:
        return [*symbols[:-1], "$"]


class StopsLate(Oracle):
    """Writes another digit, or the last operand's letter again, before the end."""

    def append_end(self, symbols: list[str]) -> list[str]:
        return [*symbols, "0" if self.task.answer_is_number else symbols[-1], "$"]


class MockNetwork(Architecture):
    """Gives the next token of the mock model's response logit 1, whatever was written before."""

    def __init__(self, system: Oracle) -> None:
        network, symbols = system.network, system.format.vocabulary_size()
        encodings = list(network.encodings)
        super().__init__(network.settings, symbols, encodings)
        self.respond = system.respond
        # A question ends at its first `=`; a line with several sums ends at its last `=`.
        self.find_end = str.rindex if hasattr(system.format, "sums") else str.index
        self.symbols = symbols

    def hidden_matrices(self):
        return []

    def forward(self, tokens, ids, at=None, recurrences=None, *, hooks=None):
        self.start_hooks(hooks)
        if at is None:
            at = torch.arange(tokens.shape[1], device=tokens.device)[None]
        at = at.expand(len(tokens), -1)
        rows = zip(tokens.cpu(), at.cpu(), strict=True)
        predicted = [self._next_tokens(formats.to_text(row), indices) for row, indices in rows]
        return F.one_hot(torch.stack(predicted).to(tokens.device), self.symbols).float()

    def _next_tokens(self, text, at):
        question = text[: self.find_end(text, "=") + 1]
        following = formats.to_tokens(question[1:] + self.respond(question))
        ended = at >= len(following)
        return torch.where(ended, formats.EOS, following[at.clamp(max=len(following) - 1)])
