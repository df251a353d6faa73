"""Models made by hand, to test the ruler: one that knows the truth, and liars with one fault each.

They read the tokens of the question as text and work with Python's own integers, so that they share
nothing with what they test but the alphabet. Everything else (schemes, ids, format, the way they
are asked) is that of any other model.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Integer
from torch import Tensor, nn

from carry import formats
from carry.models.cache import Cache
from carry.models.system import System
from carry.run import Run


class Oracle(System):
    """Writes the truth.

    >>> from carry.run import make
    >>> oracle = Oracle(make({"task": {"name": "addition"}, "format": {"pad": True}}))
    >>> oracle.respond("^356+940=")
    '2070$'
    """

    def __init__(self, run: Run, seed: int = 0, device: str | torch.device = "cpu") -> None:
        super().__init__(run, seed, device)
        self.network = Writer(self)

    def digit(self, a: int, b: int, place: int) -> int:
        """Return what it writes at a place."""
        return (a + b) // 10**place % 10

    def finish(self, digits: str) -> str:
        """Return the digits with their end."""
        return digits + "$"

    def respond(self, question: str) -> str:
        """Return what it writes after a question."""
        written = question.strip("^=").split("+")
        if self.format.reverse_operands:
            written = [number[::-1] for number in written]
        a, b = map(int, written)
        length = max(map(len, written)) + 1 if self.format.pad else len(str(a + b))
        digits = "".join(str(self.digit(a, b, place)) for place in range(length))
        return self.finish(digits if self.format.reverse_answer else digits[::-1])


class ForgetsCarries(Oracle):
    """Adds the digits of each place, and no carry."""

    def digit(self, a: int, b: int, place: int) -> int:
        """Return the digit sum."""
        return (a // 10**place + b // 10**place) % 10


class InventsCarries(Oracle):
    """Adds a carry to the digits of each place."""

    def digit(self, a: int, b: int, place: int) -> int:
        """Return the digit sum and one more."""
        return (a // 10**place + b // 10**place + 1) % 10


class OffByOnePlace(Oracle):
    """Reads the second operand as if it stood one place higher."""

    def digit(self, a: int, b: int, place: int) -> int:
        """Return a digit of a + 10 b."""
        return (a + 10 * b) // 10**place % 10


class StopsEarly(Oracle):
    """Leaves the last digit out."""

    def finish(self, digits: str) -> str:
        """Return the digits but one, with their end."""
        return digits[:-1] + "$"


class StopsLate(Oracle):
    """Writes one digit more."""

    def finish(self, digits: str) -> str:
        """Return the digits and a zero, with their end."""
        return digits + "0$"


class Writer(nn.Module):
    """Has the logits of a model that is sure of every token, whatever it wrote before."""

    def __init__(self, system: Oracle) -> None:
        super().__init__()
        self.encodings = system.network.encodings
        self.respond = system.respond

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
        return F.one_hot(said, len(formats.ALPHABET)).float()

    def _said(self, characters: str, at: Integer[Tensor, " A"]) -> Integer[Tensor, " A"]:
        """Return the next token after each place of one sequence; in the question, none in mind."""
        question = characters[: characters.index("=") + 1]
        whole = formats.encode(question[1:] + self.respond(question))
        ended = at.cpu() >= len(whole)
        return torch.where(ended, formats.EOS, whole[at.cpu().clamp(max=len(whole) - 1)])
