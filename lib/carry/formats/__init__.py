"""How it is written: problems become tokens, with marks for each token."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from carry.batch import NO_PLACE, Batch, Problems
from carry.settings import Settings, choose

# The alphabet of all formats. A digit's token is the digit itself.
ALPHABET = "0123456789+=^$_"
PLUS, EQUALS, BOS, EOS, PAD = range(10, 15)


class Format(Settings):
    """A way to write problems; its settings are its fields, and its name is its file's."""

    @abstractmethod
    def write(self, problems: Problems) -> Batch:
        """Write problems as tokens and marks."""

    @abstractmethod
    def longest(self, digits: int) -> int:
        """Return the number of tokens of the longest problem of operands up to `digits` digits."""

    @abstractmethod
    def read(self, response: Integer[Tensor, "B A"]) -> Integer[Tensor, "B A"]:
        """Return response tokens with the ones first, as far as each goes before its end."""


def build(settings: dict[str, Any], where: str = "format") -> Format:
    """Return the format that `settings` names (`expression` unless said otherwise).

    >>> build({"pad": True}).pad
    True
    """
    settings = dict(settings)
    name = settings.pop("name", "expression")
    return choose("carry.formats", Format, name, f"{where}.name").parse(settings, where)


def text(tokens: Integer[Tensor, " T"]) -> str:
    """Return tokens as characters: `^` begins, `$` ends, `_` is padding.

    >>> text(torch.tensor([12, 7, 10, 5, 11, 1, 2, 13]))
    '^7+5=12$'
    """
    return "".join(ALPHABET[token] for token in tokens.tolist())


def encode(characters: str) -> Integer[Tensor, " T"]:
    """Return characters as tokens, the inverse of `text`.

    >>> text(encode("^12+7="))
    '^12+7='
    """
    return torch.tensor([ALPHABET.index(character) for character in characters])


def join(
    pieces: list[tuple[Tensor, Tensor, int, Tensor]], count: int, device: torch.device
) -> tuple[
    Integer[Tensor, "B T"], Integer[Tensor, "B T"], Integer[Tensor, "B T"], Integer[Tensor, " B"]
]:
    """Write ragged pieces one behind another.

    A piece is (tokens, present, number, place), each as wide as its longest; what is not present
    is dropped and the rest moves together, padding to the right. Token and marks travel as one
    packed integer, so that the moving is done once.

    Returns:
        tokens, number, place, and the length of each row.
    """
    packed = [
        (tokens.int() | (number << 8) | ((place.int() + 1) << 16)).expand(count, -1)
        for tokens, _, number, place in pieces
    ]
    present = torch.cat([kept.expand(count, -1) for _, kept, _, _ in pieces], dim=1)
    length = present.sum(1)
    width = int(length.max())
    joined = torch.full((count, width), PAD, dtype=torch.int32, device=device)
    inside = torch.arange(width, device=device) < length[:, None]
    kept = torch.cat(packed, dim=1).masked_select(present)  # row by row, in order
    joined.masked_scatter_(inside, kept)
    return joined & 255, (joined >> 8) & 255, (joined >> 16) + NO_PLACE, length


def symbol(token: int, device: torch.device) -> tuple[Tensor, Bool[Tensor, "1 1"], int, Tensor]:
    """Return a piece that is one symbol of no number and no place."""
    at = torch.full((1, 1), token, device=device)
    return at, torch.ones_like(at, dtype=torch.bool), 0, torch.full_like(at, NO_PLACE)
