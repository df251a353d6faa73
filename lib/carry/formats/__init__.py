"""How it is written: problems become tokens, with marks for each token."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from carry.batch import LABELS, NO_PLACE, Batch, Problems
from carry.settings import Settings, SettingsError, choose
from carry.tasks import NAMES, Task

# The alphabet of all formats; each uses its beginning, as much as it needs. A digit's token is the
# digit itself.
SIGNS = "0123456789+=^$_*|:,"
PLUS, EQUALS, BOS, EOS, PAD = range(10, 15)
# An ordered set of 102 symbols for index hints (mcleish2024, A.6.5).
LETTERS = NAMES + "αβγδεζηθικλμνξοπρστυφχψωΓΔΘΛΞΠΣΦΨΩбгджзийлпфцчшщъы"
ALPHABET = SIGNS + LETTERS
FIRST_LETTER = len(SIGNS)


class Extent(NamedTuple):
    """How large the problems of a length are when written."""

    run: int  # tokens of the longest number
    tokens: int  # tokens of the longest problem


class Format(Settings):
    """A way to write problems; its settings are its fields, and its name is its file's.

    `sign` is what stands between operands: the task's, which `build` fills in.
    """

    sign: str = "+"

    @property
    def hinted(self) -> bool:
        """Whether a response holds more than the digits of the answer."""
        return False

    @abstractmethod
    def misfit(self, task: Task) -> str | None:
        """Return why the format cannot write a task, if it cannot."""

    @abstractmethod
    def symbols(self, task: Task) -> int:
        """Return how many tokens of the alphabet a model of this format needs."""

    @abstractmethod
    def write(self, problems: Problems) -> Batch:
        """Write problems as tokens and marks."""

    @abstractmethod
    def extent(self, task: Task, digits: int) -> Extent:
        """Return how large the problems of sizes up to `digits` are when written.

        Raises:
            SettingsError: for sizes that cannot be written.
        """

    @abstractmethod
    def read(self, response: Integer[Tensor, "B A"]) -> Integer[Tensor, "B A"]:
        """Return response tokens with the ones first, as far as each goes before its end."""


def build(settings: dict[str, Any], task: Task, where: str = "format") -> Format:
    """Return the format that `settings` names (`expression` unless said otherwise), for a task.

    >>> from carry.tasks import build as build_task
    >>> build({"pad": True}, build_task({"name": "addition"})).pad
    True
    """
    settings = {"sign": task.sign, **settings}
    name = settings.pop("name", "expression")
    form = choose("carry.formats", Format, name, f"{where}.name").parse(settings, where)
    why = form.misfit(task)
    if why is not None:
        raise SettingsError(f"{where}: {why}")
    return form


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


def together(
    tokens: Integer[Tensor, "B T"], kept: Bool[Tensor, "B T"]
) -> tuple[Integer[Tensor, "B T"], Bool[Tensor, "B T"]]:
    """Move what is kept of each row to its beginning, in order; say where it ends up.

    >>> tokens, kept = torch.tensor([[7, 20, 8, 13]]), torch.tensor([[True, False, True, False]])
    >>> moved, inside = together(tokens, kept)
    >>> moved[inside].tolist(), inside.tolist()
    ([7, 8], [[True, True, False, False]])
    """
    order = kept.byte().argsort(dim=1, descending=True, stable=True)
    inside = torch.arange(kept.shape[1], device=kept.device) < kept.sum(1, keepdim=True)
    return tokens.gather(1, order), inside


def symbol(
    token: int | Integer[Tensor, "B 1"],
    device: torch.device,
    present: Bool[Tensor, "B 1"] | None = None,
) -> tuple[Tensor, Tensor, int, Tensor]:
    """Return a piece that is one symbol of no number and no place."""
    at = torch.full((1, 1), token, device=device) if isinstance(token, int) else token
    there = torch.ones_like(at, dtype=torch.bool) if present is None else present
    return at, there, 0, torch.full_like(at, NO_PLACE)


def first_letter(
    label: Integer[Tensor, " B"], starts: int | Integer[Tensor, " B"]
) -> Integer[Tensor, " B"]:
    """Return where each problem begins in an ordered set, from its label: 0 to `starts` - 1.

    >>> first_letter(torch.tensor([0, LABELS // 2, LABELS - 1]), 10).tolist()
    [0, 5, 9]
    """
    return label * starts // LABELS


def noisy(batch: Batch, share: float, generator: torch.Generator) -> Batch:
    """Return a batch with padding before so many of the question's tokens (mcleish2024, A.6.4).

    A pad has no number and no place, and like any other sign it ends a run of digits; where ids
    restart in each run, they restart behind it. The response stays whole.

    >>> from carry.randomness import stream
    >>> from carry.tasks import build as build_task, to_digits
    >>> task = build_task({"name": "addition"})
    >>> batch = build({}, task).write(task.solve(*to_digits([[653, 49]])))
    >>> text(noisy(batch, 0.5, stream(1, "doctest")).tokens[0])
    '^35_6_+_9_4=207$'
    """
    count, width = batch.tokens.shape
    at = torch.arange(width, device=batch.start.device)
    drawn = torch.rand(count, width, generator=generator, device=at.device) < share
    before = (drawn & (at > 0) & (at < batch.start[:, None])).cumsum(1)
    moved, more = at + before, before[:, -1]
    wider = (count, width + int(more.max()))

    def scattered(values: Tensor, empty: int) -> Tensor:
        return values.new_full(wider, empty).scatter_(1, moved, values)

    return replace(
        batch,
        tokens=scattered(batch.tokens, PAD),
        number=scattered(batch.number, 0),
        place=scattered(batch.place, NO_PLACE),
        start=batch.start + more,
        length=batch.length + more,
    )
