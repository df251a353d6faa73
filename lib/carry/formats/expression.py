"""The problem as it is usually written: `^a+b=c$`, with reversal and zero padding as settings."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Integer
from pydantic import Field
from torch import Tensor

from carry.config.settings import SettingsError
from carry.data.batch import NO_PLACE, Batch
from carry.data.problems import Problems, reverse_digits
from carry.formats import (
    ALPHABET,
    EOS,
    EQUALS,
    FIRST_LETTER,
    HINT_LETTERS,
    PAD,
    SIGNS,
    SPACE,
    Extent,
    Format,
    Piece,
    before_end,
    choose_first_letter,
    compact_rows,
    insert_tokens,
    join_pieces,
    sign_piece,
)
from carry.randomness import hash_to_range
from carry.tasks import DIGIT_SYMBOLS

MAX_PADDING = 100_000  # digits; longer numbers exhaust memory


class Expression(Format):
    """The operands and the answer, with the task's sign between operands.

    `reverse_operands`, `reverse_answer`: write the least significant digit first. `pad`: zeros
    make the operands of a problem equally long, and the answer as long as the longest possible
    answer (cho2025); `answer`: the answer alone (products in the released code of cho2025).
    `pad_to`: zeros make all shorter numbers this long (ibrahimli2024, 4.2.1). `begin`: the first
    token; `$` is the same token as the end.

    `hints`: a letter before each digit names its place, the same letter in all numbers of a
    problem (mcleish2024, A.6.5). The first letter is random: `cyclic`, any of 102, where the first
    letter follows the last; `ordered`, early enough to need no such step, so that late letters
    are rare.

    `spaces`: random spaces between the tokens of the operands, up to this share of the problem's
    length without its first token (ibrahimli2024, 4.2.1: 0.5); see `insert_spaces`. The length
    includes the answer.

    >>> from carry.formats import build_format
    >>> from carry.tasks import build_task
    >>> task = build_task({"name": "addition"})
    >>> for settings in ({}, {"reverse_operands": False, "pad": True}, {"hints": "cyclic"},
    ...                  {"begin": "$", "pad_to": 4}, {"spaces": 0.5}):
    ...     print(build_format(settings, task).write_text(653, 49))
    ^356+94=207$
    ^653+049=2070$
    ^a3b5c6+a9b4=a2b0c7$
    $3560+9400=2070$
    ^3  5 6 +9 4=207$
    """

    largest_base = len(DIGIT_SYMBOLS)
    level_count = 1  # digits are coupled by their place (Cho et al. 2024)

    reverse_operands: bool = True
    reverse_answer: bool = True
    pad: bool | Literal["answer"] = False
    hints: Literal["none", "cyclic", "ordered"] = "none"
    begin: Literal["^", "$"] = "^"
    pad_to: int | None = Field(default=None, ge=1, le=MAX_PADDING)
    spaces: float = Field(default=0.0, ge=0.0, le=1.0)

    @property
    def has_index_hints(self) -> bool:
        """Whether letters are written before the digits."""
        return self.hints != "none"

    @property
    def variable_length(self) -> bool:
        """Spaces make questions differ in length."""
        return self.spaces > 0

    @property
    def hides_answer_length(self) -> bool:
        """An id of the most significant digit would tell the length of an unpadded answer."""
        return self.reverse_answer or bool(self.pad)

    @property
    def _ascending(self) -> bool:
        """Whether the places of the answer are written in ascending order."""
        return self.reverse_answer != self.task.answer_is_reversed

    def incompatibility(self) -> str | None:
        """Refuse answers that are not numbers, and settings that exclude each other."""
        if not self.task.answer_is_number:
            return (
                "'expression' writes numbers, and the answer is no number; expected 'labelled' for "
                "sorting, 'longhand' for the calculator"
            )
        if self.pad and self.pad_to is not None:
            pad = str(self.pad).lower()
            return f"pad_to {self.pad_to} does not fit pad {pad}; expected one of them"
        if self.has_index_hints and self.task.base > 10:
            return (
                f"hints {self.hints!r} do not fit base {self.task.base}, whose digits are letters"
            )
        if self.has_index_hints and self.variable_length:
            return f"spaces {self.spaces} do not fit hints {self.hints!r}; expected one of them"
        return None

    def vocabulary_size(self) -> int:
        """Return the digits and the signs of addition, further signs, or all hint letters."""
        if self.has_index_hints:
            return len(SIGNS + HINT_LETTERS)
        space = [SPACE] if self.variable_length else []
        space += [FIRST_LETTER + self.task.base - 11] if self.task.base > 10 else []
        return max([PAD, *space, *map(ALPHABET.index, self.task.sign)]) + 1

    def extent(self, digits: int) -> Extent:
        """Return the longest number, and the tokens of the longest problem with its signs."""
        longest, lengths = self.task.max_answer_length(digits), self.task.largest_lengths(digits)
        lengths, longest = self._written_lengths(lengths), max(longest, self.pad_to or 0)
        if self.has_index_hints:
            _check_hints(longest)
        per_digit, signs = 2 if self.has_index_hints else 1, 2 + lengths.shape[1]
        tokens = per_digit * (int(lengths.sum()) + longest) + signs
        symbols = int(lengths.sum()) + lengths.shape[1] - 1
        tokens += int(max_spaces(self.spaces, torch.tensor([symbols]), torch.tensor([longest])))
        number = max(digits, longest, int(lengths.max()))
        # Coupling numbers of signs are 0, and one above the answer if it is written descending.
        return Extent(per_digit * number, tokens, (number + (1 if self._ascending else 2),))

    def write(self, problems: Problems) -> Batch:
        """Write problems as tokens and marks; the coupling number of a sign is one below place 0.

        If the most significant digit of the answer is written first, `=` is coupled one above it.
        Digits of the answer have the places of the operand's digits, which count down for a task
        with `answer_is_reversed`.
        """
        answer, length = problems.answer, self._answer_length(problems)
        device, first = problems.operands.device, self._first_letter(problems)
        lengths = self._written_lengths(problems.lengths)
        number = lengths.shape[1] + 1
        above = NO_PLACE if self._ascending else length[:, None]
        if self.task.answer_is_reversed:
            missing = max(0, int(length.max()) - answer.shape[1])
            answer = reverse_digits(torch.nn.functional.pad(answer, (0, missing)), length)
        operands = problems.operands
        if self.task.base > 10:
            operands, answer = _write_digits(operands), _write_digits(answer)
        pieces = [
            sign_piece(ALPHABET.index(self.begin), device),
            *operand_pieces(operands, lengths, self.task.sign, self.reverse_operands),
            sign_piece(EQUALS, device, None, number, above),
            number_piece(answer, length, number, self._ascending),
        ]
        if self.has_index_hints:
            _check_hints(int(torch.maximum(length, lengths.amax(1)).max()))
            pieces = [piece if piece.is_sign else _add_hints(piece, first) for piece in pieces]
        batch = join_pieces(pieces[:-1], pieces[-1:], len(problems), [((1, 1),)] * number)
        return insert_spaces(batch, self.spaces, problems.label, length)

    def write_open_ended(self, problems: Problems) -> Batch:
        """Write the questions, followed by zeros for the longest possible answers.

        The limit of spaces depends on the true answer, as in the source.
        """
        batch = Format.write_open_ended(self.model_copy(update={"spaces": 0.0}), problems)
        length = self._answer_length(problems)
        return insert_spaces(batch, self.spaces, problems.label, length)

    def read(self, response: Integer[Tensor, "B A"]) -> Integer[Tensor, "B A"]:
        """Return the digits, least significant first, followed by EOS; letters are ignored."""
        kept = before_end(response)
        if self.has_index_hints:
            response, kept = compact_rows(response, kept & (response < FIRST_LETTER))
        return least_significant_first(response, kept, self.reverse_answer)

    def _written_lengths(self, lengths: Integer[Tensor, "B M"]) -> Integer[Tensor, "B M"]:
        """Return the lengths of operands with their padding."""
        if self.pad is True:
            return self.task.padded_lengths(lengths)
        if self.pad_to is None:
            return lengths
        longest = int(lengths.max())
        if longest > self.pad_to:
            raise SettingsError(
                f"format.pad_to: {self.pad_to} is too short, operands have up to {longest} digits; "
                f"expected at least {longest}"
            )
        return torch.where(lengths > 0, lengths.clamp(min=self.pad_to), 0)

    def _answer_length(self, problems: Problems) -> Integer[Tensor, " B"]:
        """Return the lengths of answers with their padding."""
        length = problems.room if self.pad else problems.answer_length
        return length if self.pad_to is None else length.clamp(min=self.pad_to)

    def _first_letter(self, problems: Problems) -> Integer[Tensor, " B"]:
        """Return the index of the letter of place 0."""
        starts = len(HINT_LETTERS)
        if self.hints == "ordered":
            longest = torch.maximum(problems.room, problems.lengths.amax(1))
            starts = (starts + 1 - longest.clamp(min=self.pad_to or 0)).clamp(1)
        return choose_first_letter(problems.label, starts)


def _write_digits(digits: Integer[Tensor, "*B N"]) -> Integer[Tensor, "*B N"]:
    """Return the tokens of digits: from 10 on, letters."""
    return torch.where(digits < 10, digits.long(), digits.long() - 10 + FIRST_LETTER)


def operand_pieces(
    operands: Integer[Tensor, "B M N"], lengths: Integer[Tensor, "B M"], sign: str, reverse: bool
) -> list[Piece]:
    """Return the pieces of a question's operands; a sign belongs to the operand before it."""
    pieces, most = [], lengths.shape[1]
    for index in range(most):
        present = (lengths[:, index] > 0)[:, None] if most > 2 else None
        if index:
            token = ALPHABET.index(sign)
            pieces.append(sign_piece(token, operands.device, present, index))
        pieces.append(number_piece(operands[:, index], lengths[:, index], index + 1, reverse))
    return pieces


def number_piece(
    digits: Tensor, length: Tensor, number: int | Integer[Tensor, "_ _"], reverse: bool
) -> Piece:
    """Return the piece of one number, with zeros up to its length.

    `reverse`: write the least significant digit first.

    >>> piece = number_piece(torch.tensor([[3, 5]]), torch.tensor([3]), number=1, reverse=False)
    >>> piece.tokens.tolist(), piece.place.tolist()
    ([[0, 5, 3]], [[2, 1, 0]])
    """
    width = int(length.max()) if len(length) else 0
    digits = torch.nn.functional.pad(digits, (0, max(0, width - digits.shape[1])))
    place = torch.arange(digits.shape[1], device=digits.device)[None]
    present = place < length[:, None]
    if not reverse:
        digits, present, place = digits.flip(1), present.flip(1), place.flip(1)
    return Piece(digits, present, number, place)


def least_significant_first(
    response: Integer[Tensor, "B A"], kept: Bool[Tensor, "B A"], reversed_answer: bool
) -> Integer[Tensor, "B A"]:
    """Return the kept prefix of each row, least significant digit first, followed by EOS.

    >>> kept = torch.tensor([[True, True, False]])
    >>> least_significant_first(torch.tensor([[7, 0, 2]]), kept, False).tolist()
    [[0, 7, 13]]
    """
    if reversed_answer:
        return torch.where(kept, response, EOS)
    index = torch.arange(response.shape[1], device=response.device)
    source = kept.sum(1, keepdim=True) - 1 - index
    return torch.where(source >= 0, response.gather(1, source.clamp(min=0)), EOS)


def insert_spaces(
    batch: Batch,
    share: float,
    label: Integer[Tensor, " B"],
    answer_length: Integer[Tensor, " B"],
    prefix: int = 1,
) -> Batch:
    """Insert random spaces between the tokens of the operands (ibrahimli2024, 4.2.1).

    Their number is uniform from 0 to `max_spaces`, and each space is in a uniform gap between two
    symbols; a gap can hold several. Both are a function of the problem's label, so that a problem
    is always written alike.

    Args:
        batch: problems written without spaces.
        label: of the problems.
        answer_length: tokens of the answer with its padding, without its end.
        prefix: the number of tokens before the operands.

    >>> from carry.formats import build_format, to_text
    >>> from carry.tasks import build_task, to_digits
    >>> task = build_task({"name": "addition"})
    >>> problems = task.solve(*to_digits([[653, 49]]))
    >>> batch = build_format({}, task).write(problems)
    >>> spaced = insert_spaces(batch, 0.5, problems.label, problems.answer_length)
    >>> to_text(spaced.tokens[0])
    '^3  5 6 +9 4=207$'
    """
    if not share:
        return batch
    symbols = batch.start - prefix - 1  # of the question, without its last token
    before = _draw_spaces(label, symbols, max_spaces(share, symbols, answer_length))
    rest = batch.tokens.shape[1] - prefix - before.shape[1]
    return insert_tokens(batch, torch.nn.functional.pad(before, (prefix, rest)), SPACE)


def max_spaces(
    share: float, symbols: Integer[Tensor, " B"], answer_length: Integer[Tensor, " B"]
) -> Integer[Tensor, " B"]:
    """Return the maximal number of spaces in problems: a share of their length, rounded down.

    The length counts the symbols (tokens of the operands and the signs between them), `=`, the
    answer and its end. One symbol has no gap.

    >>> max_spaces(0.5, torch.tensor([7, 6, 1]), torch.tensor([3, 3, 3])).tolist()
    [6, 5, 0]
    """
    length = symbols + answer_length + 2
    most = (length.double() * share + 1e-9).floor().long()  # 0.1 of 30 is 3
    return torch.where(symbols > 1, most, 0)


def _draw_spaces(
    label: Integer[Tensor, " B"], symbols: Integer[Tensor, " B"], most: Integer[Tensor, " B"]
) -> Integer[Tensor, "B W"]:
    """Return the number of spaces before each of the operands' symbols."""
    key = label.long() << 16
    count = hash_to_range(key, most + 1)
    space = torch.arange(int(count.max()), device=label.device)
    gap = 1 + hash_to_range(key[:, None] + 1 + space, (symbols - 1).clamp(min=1)[:, None])
    present = (space < count[:, None]).long()
    before = present.new_zeros(len(label), max(2, int(symbols.max())))
    return before.scatter_add_(1, gap, present)


def _check_hints(places: int) -> None:
    if places > len(HINT_LETTERS):
        raise SettingsError(
            f"format.hints: {places} places of a number do not fit {len(HINT_LETTERS)} letters; "
            "expected fewer digits"
        )


def _add_hints(piece: Piece, first: Integer[Tensor, " B"]) -> Piece:
    """Insert a letter before each digit, with the marks of the digit."""
    letters = FIRST_LETTER + (first[:, None] + piece.place) % len(HINT_LETTERS)
    tokens = torch.stack([letters, piece.tokens.long()], dim=2).flatten(1)
    present, place = (mark.repeat_interleave(2, 1) for mark in (piece.present, piece.place))
    return Piece(tokens, present, piece.number, place)
