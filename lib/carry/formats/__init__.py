"""How it is written: problems become tokens, with marks for each token."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pydantic
import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from carry.config.settings import Settings, SettingsError, choose_class
from carry.data.batch import NO_LEVEL, NO_PLACE, Batch
from carry.data.problems import LABEL_RANGE, Problems
from carry.tasks import NAMES, Line, Task

# The alphabet of all formats; each uses its beginning, as much as it needs. A digit's token is the
# digit itself.
SIGNS = "0123456789+=^$_*|:,> ;-"
PLUS, EQUALS, BOS, EOS, PAD = range(10, 15)
SPACE = SIGNS.index(" ")
# An ordered set of 102 symbols for index hints (mcleish2024, A.6.5).
LETTERS = NAMES + "αβγδεζηθικλμνξοπρστυφχψωΓΔΘΛΞΠΣΦΨΩбгджзийлпфцчшщъы"
# More symbols, for formats with one for each number.
MORE = "".join(map(chr, range(0x4E00, 0x4E00 + 1000)))
ALPHABET = SIGNS + LETTERS + MORE
FIRST_LETTER = len(SIGNS)


class Extent(NamedTuple):
    """How large the problems of a length are when written."""

    run: int  # tokens of the longest number
    tokens: int  # tokens of the longest problem
    levels: tuple[int, ...] = ()  # how far each level of coupling counts


class Piece(NamedTuple):
    """Some tokens in a row, of numbers or a sign that goes with one.

    Shapes: B problems, or 1 if they all have the same; W tokens, as many as the longest has.
    """

    tokens: Integer[Tensor, "_ W"]
    present: Bool[Tensor, "_ W"]
    part: int | Tensor  # which number, of all tokens or of each; 0: none
    place: Integer[Tensor, "_ W"]  # of a sign: where it would stand, if it were a digit
    sign: bool = False


class Format(Settings):
    """A way to write the problems of a task; its settings are its fields, its name its file's."""

    _task: Task = pydantic.PrivateAttr()

    @property
    def task(self) -> Task:
        """The task, which `build` fills in."""
        return self._task

    @property
    def has_index_hints(self) -> bool:
        """Whether letters stand before the digits."""
        return False

    @property
    def whole(self) -> bool:
        """Whether each number is one symbol."""
        return False

    @property
    def has_steps(self) -> bool:
        """Whether a response holds the steps before the answer."""
        return False

    @property
    def answers(self) -> bool:
        """Whether a response ends with the task's answer, or else is another part of the work."""
        return True

    @property
    def variable_length(self) -> bool:
        """Whether questions whose operands are as long as each other's may differ in length."""
        return False

    @property
    def levels(self) -> int:
        """At how many levels tokens are coupled."""
        return 0

    @property
    def marks_known_from_question(self) -> bool:
        """Whether the question tells the marks of all that could be written after it."""
        return True

    @property
    def has_task_prefix(self) -> bool:
        """Whether a prefix says which sub-task is asked: its setting `prefix`, or others'."""
        return False

    @abstractmethod
    def incompatibility(self) -> str | None:
        """Return why the format cannot write its task, if it cannot."""

    @abstractmethod
    def symbols(self) -> int:
        """Return how many tokens of the alphabet a model of this format needs."""

    @abstractmethod
    def write(self, problems: Problems) -> Batch:
        """Write problems as tokens and marks."""

    def write_parts(self, problems: Problems, parts: Integer[Tensor, " B"]) -> Batch:
        """Write each problem as a sub-task of its own, an index into `carry.config.run_settings.SUB_TASKS`.

        Only for a format that is `prefixed`.
        """
        raise NotImplementedError(f"{type(self).__name__} writes no prefix")

    def write_open_ended(self, problems: Problems) -> Batch:
        """Write the questions, and behind them zeros for the longest answer they could have."""
        nothing = problems.answer.new_zeros(len(problems), int(problems.room.max()))
        return self.write(replace(problems, answer=nothing, answer_length=problems.room))

    def without_padding(self) -> Format:
        """Return the format without what makes questions `ragged`."""
        return self

    def continued(
        self, problems: Problems, question: Batch, response: Integer[Tensor, "B A"]
    ) -> Batch:
        """Return questions and what has been written behind them, marked by what it says.

        The problems are as long as each other; only for a format that is not `settled`.
        """
        raise NotImplementedError(f"{type(self).__name__} is settled by the question")

    @abstractmethod
    def extent(self, digits: int) -> Extent:
        """Return how large the problems of sizes up to `digits` are when written.

        Raises:
            SettingsError: for sizes that cannot be written.
        """

    def extent_of(self, digits: int, prefixes: Sequence[str]) -> Extent:
        """Return how large problems are when written as any of some sub-tasks."""
        each = [self.model_copy(update={"prefix": of}).extent(digits) for of in prefixes]
        levels = tuple(map(max, zip(*(of.levels for of in each), strict=True)))
        return Extent(max(of.run for of in each), max(of.tokens for of in each), levels)

    @abstractmethod
    def read(self, response: Integer[Tensor, "B A"]) -> Integer[Tensor, "B A"]:
        """Return response tokens with the ones first, as far as each goes before its end."""


def build(settings: dict[str, Any], task: Task, where: str = "format") -> Format:
    """Return the format that `settings` names (`expression` unless said otherwise), for a task.

    >>> from carry.tasks import build as build_task
    >>> build({"pad": True}, build_task({"name": "addition"})).pad
    True
    """
    settings = dict(settings)
    name = settings.pop("name", "expression")
    form = choose_class("carry.formats", Format, name, f"{where}.name").parse(settings, where)
    form._task = task
    why = form.incompatibility()
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
    pieces: list[Piece], count: int, device: torch.device, lines: list[tuple[Line, ...]]
) -> tuple[Integer[Tensor, "B T"], list[Tensor], Integer[Tensor, " B"]]:
    """Write ragged pieces one behind another, dropping what is not present.

    Token and marks travel as one packed integer, so that the moving is done once.

    Args:
        lines: what the digits of each part are coupled by, from the first part on.

    Returns:
        the tokens; number, place and levels; and the length of each row.
    """
    packed = [
        (piece.tokens.long() | (piece.part << 8) | (piece.sign << 24) | (piece.place + 1 << 25))
        .expand(count, -1)
        for piece in pieces
    ]  # fmt: skip
    present = torch.cat([piece.present.expand(count, -1) for piece in pieces], dim=1)
    length = present.sum(1)
    width = int(length.max())
    empty = PAD | 1 << 24  # a sign of no part and no place
    joined = torch.full((count, width), empty, dtype=torch.int64, device=device)
    inside = torch.arange(width, device=device) < length[:, None]
    kept = torch.cat(packed, dim=1).masked_select(present)  # row by row, in order
    joined.masked_scatter_(inside, kept)
    tokens, part, sign = joined & 255, (joined >> 8) & 65535, (joined >> 24 & 1).bool()
    place = (joined >> 25) - 1
    marks = [torch.where(sign, 0, part), torch.where(sign, NO_PLACE, place)]
    marks = [of.int() for of in marks] + [levels(part, place, lines)]
    return tokens.int(), marks, length


def levels(
    part: Integer[Tensor, "B T"], place: Integer[Tensor, "B T"], lines: list[tuple[Line, ...]]
) -> Integer[Tensor, "B T L"]:
    """Return what tokens are coupled by, from the part that they go with and their place in it.

    >>> levels(torch.tensor([[0, 1, 1]]), torch.tensor([[-1, 1, 0]]), [((1, 1), None)]).tolist()
    [[[-1, -1], [2, -1], [1, -1]]]
    """
    none = tuple(None for _ in lines[0]) if lines else ()
    table = [[line or (NO_LEVEL, 0) for line in of] for of in [none, *lines]]
    first, step = torch.tensor(table, device=part.device).view(len(table), -1, 2)[part].unbind(-1)
    return (first + step * place[..., None]).int()


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
    part: int = 0,
    place: int | Integer[Tensor, "B 1"] = NO_PLACE,
) -> Piece:
    """Return a piece that is one symbol, by default of no number and no place."""
    at = torch.full((1, 1), token, device=device) if isinstance(token, int) else token
    there = torch.ones_like(at, dtype=torch.bool) if present is None else present
    where = torch.full_like(at, place) if isinstance(place, int) else place
    return Piece(at, there, part, where, sign=True)


def first_letter(
    label: Integer[Tensor, " B"], starts: int | Integer[Tensor, " B"]
) -> Integer[Tensor, " B"]:
    """Return where each problem begins in an ordered set, from its label: 0 to `starts` - 1.

    >>> first_letter(torch.tensor([0, LABEL_RANGE // 2, LABEL_RANGE - 1]), 10).tolist()
    [0, 5, 9]
    """
    return label * starts // LABEL_RANGE


def noisy(batch: Batch, share: float, generator: torch.Generator) -> Batch:
    """Return a batch with padding before so many of the question's tokens (mcleish2024, A.6.4).

    The response stays whole.

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
    return loosened(batch, (drawn & (at > 0) & (at < batch.start[:, None])).long(), PAD)


def loosened(batch: Batch, before: Integer[Tensor, "B T"], token: int) -> Batch:
    """Return a batch with so many tokens of one kind put in before each token of its questions.

    They have no number and no place, and like any other sign they end a run of digits; where ids
    restart in each run, they restart behind it.

    >>> from carry.tasks import build as build_task, to_digits
    >>> task = build_task({"name": "addition"})
    >>> batch = build({}, task).write(task.solve(*to_digits([[17, 25]])))
    >>> text(loosened(batch, torch.tensor([[0, 0, 2, 1, 0, 0, 0, 0, 0, 0]]), SPACE).tokens[0])
    '^7  1 +52=24$'
    """
    before = before.cumsum(1)
    more = before[:, -1]
    at = torch.arange(batch.tokens.shape[1] + int(more.max()), device=more.device)
    moved, length = at[: before.shape[1]] + before, batch.length + more

    def scattered(values: Tensor, empty: int) -> Tensor:
        return values.new_full((len(more), len(at)), empty).scatter_(1, moved, values)

    coupled = [scattered(level, NO_LEVEL) for level in batch.levels.unbind(2)]
    tokens = scattered(batch.tokens, token)
    return replace(
        batch,
        tokens=torch.where(at < length[:, None], tokens, PAD),
        number=scattered(batch.number, 0),
        place=scattered(batch.place, NO_PLACE),
        levels=torch.stack(coupled, dim=2)
        if coupled
        else batch.levels[:, :1].expand(-1, len(at), -1),
        start=batch.start + more,
        length=length,
    )


def blanked(batch: Batch) -> Batch:
    """Return a batch with zeros for all that is written behind its questions, but the end."""
    at = torch.arange(batch.tokens.shape[1], device=batch.start.device)
    behind = (at >= batch.start[:, None]) & (at < batch.length[:, None] - 1)
    return replace(batch, tokens=batch.tokens.masked_fill(behind, 0))
