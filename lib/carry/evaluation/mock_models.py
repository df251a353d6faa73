"""Models made by hand, to test the ruler: one that knows the truth, and liars with one fault each.

They read the tokens of the question as text and work with Python's own integers, so that they share
nothing with what they test but the alphabet. Everything else (schemes, ids, format, the way they
are asked) is that of any other model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Integer
from torch import Tensor, nn

from carry import formats
from carry.config.run_settings import Run
from carry.formats import LETTERS
from carry.formats.insertion_sort import InsertionSort
from carry.models.cache import Cache
from carry.models.system import System
from carry.tasks import NAMES

DIGITS = "0123456789"


class Oracle(System):
    """Writes the truth.

    >>> from carry.config.run_settings import make_run
    >>> oracle = Oracle(make_run({"task": {"name": "addition"}, "format": {"pad": True}}))
    >>> oracle.respond("^356+940=")
    '2070$'
    """

    def __init__(self, run: Run, seed: int = 0, device: str | torch.device = "cpu") -> None:
        super().__init__(run, seed, device)
        self.network = Writer(self)

    def digits(self, *operands: str) -> list[str]:
        """Return the symbols of the answer, the ones (or the smallest) first."""
        answer = list(self.task.oracle(*operands))
        return answer[::-1] if self.task.in_digits else answer

    def finish(self, said: list[str]) -> list[str]:
        """Return what it has said with its end."""
        return [*said, "$"]

    def respond(self, question: str) -> str:
        """Return what it writes after a question."""
        if hasattr(self.format, "sums"):  # the last of a line
            question = re.split("[a-z =^]", question.rstrip("="))[-1]
        asked = question.strip("^$=").replace(" ", "")
        if hasattr(self.format, "prefix"):
            prefix, _, asked = asked.partition("$")
            if prefix != "add":
                return "".join(self.finish([*self._part(prefix, *asked.split("+"))]))
        if hasattr(self.format, "bar"):
            return "".join(self.finish([*self._in_words(*asked.split("+"))]))
        if isinstance(self.format, InsertionSort):
            return "".join(self.finish([*self._by_insertion(asked.split(","))]))
        if self.format.has_steps:
            return self._with_steps(asked)
        if not self.task.in_digits:
            names, numbers = zip(*(part.split(":") for part in asked.split(",")), strict=True)
            order = self.digits(*map(self._read, numbers))
            said = self.finish([names[NAMES.index(at)] for at in order])
            return ",".join(said).replace(",$", "$")
        if self.format.whole:
            numbers = [str(formats.ALPHABET.index(c) - formats.FIRST_LETTER) for c in asked]
            said = int(self.task.oracle(*numbers))
            return "".join(self.finish([formats.ALPHABET[formats.FIRST_LETTER + said]]))
        digits = ["".join(c for c in part if c in DIGITS) for part in self._split(asked)]
        operands = [self._read(number) for number in digits]
        said = self.digits(*operands)
        zeros = getattr(self.format, "pad_to", None) or 0
        if getattr(self.format, "pad", False):
            zeros = self._room(operands)
        said += ["0"] * (zeros - len(said))
        if self.format.has_index_hints:
            first = LETTERS.index(asked[0])
            if not self.format.reverse_operands:  # it stands before the highest place
                first -= len(operands[0]) - 1
            said = [LETTERS[(first + at) % len(LETTERS)] + c for at, c in enumerate(said)]
        return "".join(self.finish(said if self.format.reverse_answer else said[::-1]))

    def _with_steps(self, asked: str) -> str:
        """Return the stages of its task behind a question, each number as long as it should be."""
        form = self.format
        operands = [self._read(number) for number in self._split(asked)]
        if not self.task.leading_zeros:
            operands = [str(int(operand)) for operand in operands]
        from_zero = self.task.from_zero if form.from_zero is None else form.from_zero
        said = []
        stages = self.task.oracle_stages(*operands, from_zero=bool(from_zero))
        for index, stage in enumerate(stages):
            written = [number.zfill(room if form.pad else 0) for room, number in stage]
            sign = "+" if len(stages) > 1 and not index else ">"
            said += [sign.join(of[::-1] if form.reverse_answer else of for of in written)]
        return "".join(self.finish([*"=".join(said)]))

    def _by_insertion(self, numbers: list[str]) -> str:
        """Return how each number compares with the list of those before it, and the list with it.

        Of equally long texts the order is that of the numbers.
        """
        listed, said = numbers[:1], []
        for new in numbers[1:]:
            compared = [
                "".join(
                    "-" if of[:end] < new[:end] else "+" if of[:end] > new[:end] else "|"
                    for end in range(1, len(new) + 1)
                )
                for of in listed
            ]
            listed = sorted([*listed, new])
            said.append(":".join([*compared, ",".join(listed)]))
        return ";".join(said)

    def _part(self, prefix: str, *written: str) -> str:
        """Return the part of an addition that a prefix asks for."""
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

    def _in_words(self, a: str, b: str) -> str:
        """Return the addition with a line for each place."""
        carry, lines, width = 0, [], max(len(a), len(b))
        for first, second in zip(a.zfill(width)[::-1], b.zfill(width)[::-1], strict=True):
            total = int(first) + int(second) + carry
            lines.append(f"{first}+{second}+{carry}={total % 10}, c={total // 10}")
            carry = total // 10
        end = "|" if self.format.bar else " "
        reverse = f"{' '.join(a[::-1])} + {' '.join(b[::-1])}"
        return f"{reverse}; c=0, {'; '.join(lines)}{end}{self.task.oracle(a, b)}"

    def _split(self, asked: str) -> list[str]:
        return asked.split(self.task.sign) if self.task.sign else [asked]

    def _read(self, number: str) -> str:
        return number[::-1] if self.format.reverse_operands else number

    def _room(self, operands: list[str]) -> int:
        if not self.task.leading_zeros:
            operands = [str(int(operand)) for operand in operands]
        return int(self.task.room(torch.tensor([[*map(len, operands)]])))


class Adder(Oracle):
    """Adds place by place; what it writes at a place is for the liars to change."""

    def digit(self, a: int, b: int, place: int) -> int:
        """Return what it writes at a place."""
        return (a + b) // 10**place % 10

    def digits(self, *operands: str) -> list[str]:
        """Return what it writes at each place that the true sum has."""
        a, b = map(int, operands)
        padded = getattr(self.format, "pad", False)
        longest = max(map(len, operands)) + 1 if padded else len(str(a + b))
        return [str(self.digit(a, b, place)) for place in range(longest)]


class ForgetsCarries(Adder):
    """Adds the digits of each place, and no carry."""

    def digit(self, a: int, b: int, place: int) -> int:
        """Return the digit sum."""
        return (a // 10**place + b // 10**place) % 10


class InventsCarries(Adder):
    """Adds a carry to the digits of each place."""

    def digit(self, a: int, b: int, place: int) -> int:
        """Return the digit sum and one more."""
        return (a // 10**place + b // 10**place + 1) % 10


class OffByOnePlace(Adder):
    """Reads the second operand as if it stood one place higher."""

    def digit(self, a: int, b: int, place: int) -> int:
        """Return a digit of a + 10 b."""
        return (a + 10 * b) // 10**place % 10


class StopsEarly(Oracle):
    """Leaves the last of the answer out."""

    def finish(self, said: list[str]) -> list[str]:
        """Return all but the last, with the end."""
        return [*said[:-1], "$"]


class StopsLate(Oracle):
    """Writes one digit more, or the last operand's name again."""

    def finish(self, said: list[str]) -> list[str]:
        """Return one more, with the end."""
        return [*said, "0" if self.task.in_digits else said[-1], "$"]


class Writer(nn.Module):
    """Has the logits of a model that is sure of every token, whatever it wrote before."""

    def __init__(self, system: Oracle) -> None:
        super().__init__()
        self.encodings = system.network.encodings
        self.respond = system.respond
        # Where a question ends: at the first sign, but in a line of sums at the last one.
        self.end = str.rindex if hasattr(system.format, "sums") else str.index
        self.symbols = system.format.symbols()

    def forward(
        self,
        tokens: Integer[Tensor, "B T"],
        ids: Sequence[Integer[Tensor, "_ S"]],
        at: Integer[Tensor, "_ A"] | None = None,
        recurrences: int | None = None,
        cache: Cache | None = None,
    ) -> Float[Tensor, "B _ V"]:
        """Return logits for the next token, as the transformer does; the cache holds the tokens."""
        new = tokens.shape[1]
        if cache is not None:
            tokens = cache.extend(tokens[:, None], tokens[:, None])[0][:, 0]
        if at is None:
            first = tokens.shape[1] - new
            at = torch.arange(first, tokens.shape[1], device=tokens.device)[None]
        at = at.expand(len(tokens), -1)
        said = [self._said(formats.text(row), of) for row, of in zip(tokens, at, strict=True)]
        said = torch.stack(said).to(tokens.device)
        return F.one_hot(said, self.symbols).float()

    def _said(self, characters: str, at: Integer[Tensor, " A"]) -> Integer[Tensor, " A"]:
        """Return the next token after each place of one sequence; in the question, none in mind."""
        question = characters[: self.end(characters, "=") + 1]
        whole = formats.encode(question[1:] + self.respond(question))
        ended = at.cpu() >= len(whole)
        return torch.where(ended, formats.EOS, whole[at.cpu().clamp(max=len(whole) - 1)])
