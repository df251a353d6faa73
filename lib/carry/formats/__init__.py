"""Formats: problems written as tokens, with the marks of each token.

A format is one file of this package and one subclass of `Format`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import pydantic
import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from carry.config.settings import Settings, SettingsError, choose_class
from carry.data.batch import NO_LEVEL, NO_PLACE, Batch
from carry.data.problems import LABEL_RANGE, Problems
from carry.tasks import OPERAND_LETTERS, Coupling, Task, to_digits

# The alphabet of all formats; a format uses a prefix of it. The token of a digit is the digit.
SIGNS = "0123456789+=^$_*|:,> ;-"
PLUS, EQUALS, BOS, EOS, PAD = range(10, 15)
SIGN_TOKENS = range(PLUS, len(SIGNS))
SPACE = SIGNS.index(" ")
# An ordered set of 102 symbols for index hints (mcleish2024, A.6.5).
HINT_LETTERS = OPERAND_LETTERS + "αβγδεζηθικλμνξοπρστυφχψωΓΔΘΛΞΠΣΦΨΩбгджзийлпфцчшщъы"
# Symbols of a format with one token for each number; the first of them are the letters.
NUMBER_SYMBOLS = "".join(map(chr, range(0x4E00, 0x4E00 + 1000)))
ALPHABET = SIGNS + HINT_LETTERS + NUMBER_SYMBOLS
FIRST_LETTER = len(SIGNS)
MAX_TOKENS = 2**31 - 2  # of a problem; marks have 32 bits


class Extent(NamedTuple):
    """Sizes of the largest problem that a length allows."""

    longest_number: int  # tokens of the longest number
    tokens: int  # tokens of the longest problem
    levels: tuple[int, ...]  # number of coupling numbers at each level


class Piece(NamedTuple):
    """Consecutive tokens of one kind: digits of numbers, or signs.

    Shapes: B problems, or 1 for a piece shared by all problems; W tokens, as in the longest.
    """

    tokens: Integer[Tensor, "_ W"]
    present: Bool[Tensor, "_ W"]
    # The number to which the tokens belong, counted from 1; 0: none.
    number: int | Integer[Tensor, "_ _"]
    place: Integer[Tensor, "_ W"]  # for a sign: the place from which its coupling is computed
    is_sign: bool = False  # signs are coupled, but have number 0 and no place in the batch


class Format(Settings):
    """A way to write problems: its settings are its fields, and its name is its file name."""

    task_type: ClassVar[type[Task]] = Task  # the tasks that it writes
    largest_base: ClassVar[int] = 10  # of the digits that it writes
    last_symbol: ClassVar[str] = SIGNS[-1]  # that it uses of the alphabet
    level_count: ClassVar[int] = 0  # levels at which tokens are coupled
    has_index_hints: ClassVar[bool] = False  # a letter before each digit names its place
    has_steps: ClassVar[bool] = False  # responses contain steps before the answer
    # Whether responses end with the answer of the task; False for another sub-task.
    writes_answer: ClassVar[bool] = True
    # Whether questions with operands of equal lengths can differ in length.
    variable_length: ClassVar[bool] = False
    # Whether the question determines the marks of every possible response.
    marks_known_from_question: ClassVar[bool] = True
    # Whether coupling numbers hide the answer's length until it ends, as position coupling needs.
    hides_answer_length: ClassVar[bool] = False

    _task: Task = pydantic.PrivateAttr()

    @property
    def task(self) -> Task:
        """The task whose problems are written; `build_format` sets it."""
        return self._task

    def incompatibility(self) -> str | None:
        """Return the reason why the format cannot write its task, or None."""
        return None

    def vocabulary_size(self) -> int:
        """Return the number of tokens that a model of this format needs."""
        return ALPHABET.index(self.last_symbol) + 1

    @abstractmethod
    def write(self, problems: Problems) -> Batch:
        """Write problems as tokens and marks.

        Raises:
            SettingsError: for problems that cannot be written.
        """

    def write_text(self, *operands: int | str) -> str:
        """Return one problem with its response as text.

        >>> from carry.tasks import build_task
        >>> build_format({"pad": True}, build_task({"name": "addition"})).write_text(653, 49)
        '^356+940=2070$'
        """
        problem = self.task.solve(*to_digits([[*operands]], self.task.base))
        return to_text(self.write(problem).tokens[0])

    def write_open_ended(self, problems: Problems) -> Batch:
        """Write the questions, followed by zeros for the longest possible responses."""
        zeros = problems.answer.new_zeros(len(problems), int(problems.room.max()))
        return self.write(replace(problems, answer=zeros, answer_length=problems.room))

    def mark_continuation(
        self, problems: Problems, question: Batch, response: Integer[Tensor, "B A"]
    ) -> Batch:
        """Append response tokens to questions, with marks computed from the tokens.

        All problems have operands of equal lengths. Only formats without
        `marks_known_from_question` implement it.
        """
        raise NotImplementedError

    def extent(self, digits: int) -> Extent:
        """Write the largest problem with cell sizes up to `digits`, and return its sizes.

        Raises:
            SettingsError: for sizes that cannot be written.
        """
        lengths = self.task.largest_lengths(digits)
        # Operands 10...0, not 0: a task of a reader's own, as division, may have no answer at 0.
        leading = torch.arange(int(lengths.max())) == lengths.unsqueeze(-1) - 1
        batch = self.write_open_ended(self.task.solve(leading.to(torch.uint8), lengths))
        levels = tuple((batch.levels[0].amax(0) + 1).tolist())
        return Extent(int(batch.place.max()) + 1, int(batch.length), levels)

    def read(self, response: Integer[Tensor, "B A"]) -> Integer[Tensor, "B A"]:
        """Return the answers in responses, least significant digit first, followed by EOS."""
        return torch.where(before_end(response), response, EOS)

    def describe_rows(self, response: str) -> str:
        """Return the rows of a response as lines; empty for a format that writes no rows."""
        return ""


def build_format(settings: dict[str, Any], task: Task, where: str = "format") -> Format:
    """Return the format that `settings` names, by default `expression`, for a task.

    >>> from carry.tasks import build_task
    >>> build_format({"pad": True}, build_task({"name": "addition"})).pad
    True

    Raises:
        SettingsError: for unknown settings, and for a task that the format cannot write.
    """
    settings = dict(settings)
    name = settings.pop("name", "expression")
    form = choose_class("carry.formats", Format, name, f"{where}.name").parse(settings, where)
    form._task = task
    if isinstance(task, form.task_type):
        reason = form.incompatibility()
    else:
        expected = form.task_type.__module__.rpartition(".")[2]
        reason = f"{name!r} does not write {type(task).__name__}; expected task {expected!r}"
    if task.base > form.largest_base:
        reason = f"{name!r} does not fit base {task.base}; expected at most {form.largest_base}"
    if reason is not None:
        raise SettingsError(f"{where}: {reason}")
    return form


def to_text(tokens: Integer[Tensor, " T"]) -> str:
    """Convert tokens to characters: `^` begins a problem, `$` ends it, `_` is padding.

    >>> to_text(torch.tensor([12, 7, 10, 5, 11, 1, 2, 13]))
    '^7+5=12$'
    """
    return "".join(ALPHABET[token] for token in tokens.tolist())


def to_tokens(characters: str) -> Integer[Tensor, " T"]:
    """Convert characters to tokens, the inverse of `to_text`.

    >>> to_text(to_tokens("^12+7="))
    '^12+7='
    """
    return torch.tensor([ALPHABET.index(character) for character in characters])


def join_pieces(
    question: list[Piece], response: list[Piece], count: int, couplings: list[tuple[Coupling, ...]]
) -> Batch:
    """Write `count` problems: their pieces row by row without absent tokens, and an end.

    Args:
        couplings: of each number, from number 1 on, at each level.

    Raises:
        SettingsError: for more tokens than marks can count.
    """
    device, asked = question[0].tokens.device, sum(piece.tokens.shape[1] for piece in question)
    pieces = [*question, *response, sign_piece(EOS, device)]
    if sum(piece.tokens.shape[1] for piece in pieces) > MAX_TOKENS:
        raise SettingsError(f"format: a problem is too long; expected at most {MAX_TOKENS} tokens")
    present = torch.cat([piece.present.expand(count, -1) for piece in pieces], dim=1)
    length = present.sum(1)
    inside = torch.arange(int(length.max()), device=device) < length[:, None]

    def join(values: list[Tensor | int], padding: int) -> Integer[Tensor, "B T"]:
        parts = [
            torch.as_tensor(value, device=device).int().expand(count, piece.tokens.shape[1])
            for value, piece in zip(values, pieces, strict=True)
        ]
        joined = torch.full(inside.shape, padding, dtype=torch.int32, device=device)
        return joined.masked_scatter_(inside, torch.cat(parts, dim=1)[present])  # row by row

    is_sign = join([int(piece.is_sign) for piece in pieces], 1).bool()
    tokens = join([piece.tokens for piece in pieces], PAD)
    number = join([piece.number for piece in pieces], 0)
    place = join([piece.place for piece in pieces], NO_PLACE)
    levels = compute_coupling_numbers(number, place, couplings)
    number, place = number.masked_fill(is_sign, 0), place.masked_fill(is_sign, NO_PLACE)
    return Batch(tokens, number, place, levels, present[:, :asked].sum(1), length)


def compute_coupling_numbers(
    number: Integer[Tensor, "B T"],
    place: Integer[Tensor, "B T"],
    couplings: list[tuple[Coupling, ...]],
) -> Integer[Tensor, "B T L"]:
    """Return the coupling numbers of tokens from their number and place.

    >>> number, place = torch.tensor([[0, 1, 1]]), torch.tensor([[-1, 1, 0]])
    >>> compute_coupling_numbers(number, place, [((1, 1), None)]).tolist()
    [[[-1, -1], [2, -1], [1, -1]]]
    """
    uncoupled = tuple(None for _ in couplings[0]) if couplings else ()
    table = [
        [coupling or (NO_LEVEL, 0) for coupling in levels] for levels in [uncoupled, *couplings]
    ]
    rows = torch.tensor(table, device=number.device).view(len(table), -1, 2)
    first, step = rows[number].unbind(-1)
    return (first + step * place[..., None]).int()


def compact_rows(
    tokens: Integer[Tensor, "B T"], kept: Bool[Tensor, "B T"]
) -> tuple[Integer[Tensor, "B T"], Bool[Tensor, "B T"]]:
    """Move the kept tokens of each row to its beginning, and return where they are then.

    >>> tokens, kept = torch.tensor([[7, 20, 8, 13]]), torch.tensor([[True, False, True, False]])
    >>> moved, inside = compact_rows(tokens, kept)
    >>> moved[inside].tolist(), inside.tolist()
    ([7, 8], [[True, True, False, False]])
    """
    order = kept.byte().argsort(dim=1, descending=True, stable=True)
    inside = torch.arange(kept.shape[1], device=kept.device) < kept.sum(1, keepdim=True)
    return tokens.gather(1, order), inside


def before_end(response: Integer[Tensor, "B A"]) -> Bool[Tensor, "B A"]:
    """Return which tokens of responses stand before the first end.

    >>> before_end(torch.tensor([[7, 13, 8]])).tolist()
    [[True, False, False]]
    """
    return (response == EOS).cumsum(1) == 0


def read_after_last(
    response: Integer[Tensor, "B A"], separator: Bool[Tensor, "B A"]
) -> tuple[Integer[Tensor, "B A"], Bool[Tensor, "B A"]]:
    """Return the tokens after the last separator before the end, or all, and where they are.

    >>> response = torch.tensor([[7, 20, 8, 9, 13, 20]])
    >>> tokens, inside = read_after_last(response, response == 20)
    >>> tokens[inside].tolist(), inside.tolist()
    ([8, 9], [[True, True, False, False, False, False]])
    """
    inside = before_end(response)
    separators = (separator & inside).cumsum(1)
    return compact_rows(response, inside & ~separator & (separators == separators[:, -1:]))


def sign_piece(
    token: int | Integer[Tensor, "B 1"],
    device: torch.device,
    present: Bool[Tensor, "B 1"] | None = None,
    number: int = 0,
    place: int | Integer[Tensor, "B 1"] = NO_PLACE,
) -> Piece:
    """Return a piece of one sign, by default without a number and a place."""
    tokens = torch.full((1, 1), token, device=device) if isinstance(token, int) else token
    present = torch.ones_like(tokens, dtype=torch.bool) if present is None else present
    places = torch.full_like(tokens, place) if isinstance(place, int) else place
    return Piece(tokens, present, number, places, is_sign=True)


def check_list(count: int, most: int) -> None:
    """Refuse a list of more numbers than a format can write."""
    if count > most:
        raise SettingsError(
            f"format: a list of {count} numbers does not fit; expected at most {most}"
        )


def choose_first_letter(
    label: Integer[Tensor, " B"], starts: int | Integer[Tensor, " B"]
) -> Integer[Tensor, " B"]:
    """Return the index of each problem's first letter, 0 to `starts` - 1, from its label.

    >>> choose_first_letter(torch.tensor([0, LABEL_RANGE // 2, LABEL_RANGE - 1]), 10).tolist()
    [0, 5, 9]
    """
    return label * starts // LABEL_RANGE


def insert_random_padding(batch: Batch, share: float, generator: torch.Generator) -> Batch:
    """Insert padding before a random `share` of the question tokens (mcleish2024, A.6.4).

    The released code also inserts it into answers; here these have none.

    >>> from carry.randomness import stream
    >>> from carry.tasks import build_task, to_digits
    >>> task = build_task({"name": "addition"})
    >>> batch = build_format({}, task).write(task.solve(*to_digits([[653, 49]])))
    >>> to_text(insert_random_padding(batch, 0.5, stream(1, "doctest")).tokens[0])
    '^35_6_+_9_4=207$'
    """
    count, width = batch.tokens.shape
    index = torch.arange(width, device=batch.start.device)
    chosen = torch.rand(count, width, generator=generator, device=index.device) < share
    return insert_tokens(batch, (chosen & (index > 0) & (index < batch.start[:, None])).long(), PAD)


def insert_tokens(batch: Batch, before: Integer[Tensor, "B T"], token: int) -> Batch:
    """Insert copies of a token into questions: `before[i, t]` copies before token t of row i.

    The copies have no number and no place. They split the number around them, so that ids which
    restart at each number (Abacus) restart after them.

    >>> from carry.tasks import build_task, to_digits
    >>> task = build_task({"name": "addition"})
    >>> batch = build_format({}, task).write(task.solve(*to_digits([[17, 25]])))
    >>> before = torch.tensor([[0, 0, 2, 1, 0, 0, 0, 0, 0, 0]])
    >>> to_text(insert_tokens(batch, before, SPACE).tokens[0])
    '^7  1 +52=24$'
    """
    before = before.cumsum(1)
    inserted = before[:, -1]
    index = torch.arange(batch.tokens.shape[1] + int(inserted.max()), device=inserted.device)
    moved, length = index[: before.shape[1]] + before, batch.length + inserted

    def scatter(values: Tensor, empty: int) -> Tensor:
        return values.new_full((len(inserted), len(index)), empty).scatter_(1, moved, values)

    tokens = scatter(batch.tokens, token)
    levels = [scatter(level, NO_LEVEL) for level in batch.levels.unbind(2)]
    shape = (len(inserted), len(index), 0)
    return replace(
        batch,
        tokens=torch.where(index < length[:, None], tokens, PAD),
        number=scatter(batch.number, 0),
        place=scatter(batch.place, NO_PLACE),
        levels=torch.stack(levels, dim=2) if levels else batch.levels.new_empty(shape),
        start=batch.start + inserted,
        length=length,
    )


def hide_responses(batch: Batch, token: int = 0) -> Batch:
    """Replace all response tokens, except for the last, by a token.

    >>> ids = torch.arange(5)[None]
    >>> batch = Batch(ids, ids, ids, ids[..., None], torch.tensor([2]), torch.tensor([5]))
    >>> hide_responses(batch).tokens.tolist()
    [[0, 1, 0, 0, 4]]
    """
    index = torch.arange(batch.tokens.shape[1], device=batch.start.device)
    response = (index >= batch.start[:, None]) & (index < batch.length[:, None] - 1)
    return replace(batch, tokens=batch.tokens.masked_fill(response, token))
