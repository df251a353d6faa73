"""The problem as one writes it: `^a+b=c$`, either side reversed, padded with zeros or not."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Integer
from pydantic import Field
from torch import Tensor

from carry.config.settings import SettingsError
from carry.data.batch import NO_PLACE, Batch
from carry.data.problems import Problems
from carry.formats import (
    ALPHABET,
    EOS,
    EQUALS,
    FIRST_LETTER,
    LETTERS,
    PAD,
    SIGNS,
    SPACE,
    Extent,
    Format,
    Piece,
    first_letter,
    join,
    loosened,
    symbol,
    together,
)
from carry.randomness import drawn_for
from carry.tasks import backwards


class Expression(Format):
    """The operands and their result, with the task's sign between operands.

    `reverse_operands`, `reverse_answer`: write the ones first. `pad`: zeros make the operands of
    a problem equally long, and its answer as long as it could be (cho2025's coupling); `pad_to`:
    zeros make all numbers so long (ibrahimli2024, 4.2.1), but for an answer that is longer by
    itself. `begin`: what stands first; a `$` is the same symbol as the end.

    `hints`: a letter before every digit says its place, in all numbers of a problem alike, from a
    drawn one on (mcleish2024, A.6.5): `cyclic`, starting at any of 102, with the first following
    the last, or `ordered`, starting early enough to end in order, so that late letters are rare.

    `spaces`: spaces between the symbols of the operands, at most so many for each token of the
    problem but the first (ibrahimli2024, 4.2.1: 0.5); see `spaces_before`. The answer's count, so
    that how many spaces there may be depends on its length.

    >>> from carry.formats import build, text
    >>> from carry.tasks import build as build_task, to_digits
    >>> task = build_task({"name": "addition"})
    >>> problems = task.solve(*to_digits([[653, 49]]))
    >>> for given in ({}, {"reverse_operands": False, "pad": True}, {"hints": "cyclic"},
    ...               {"begin": "$", "pad_to": 4}, {"spaces": 0.5}):
    ...     print(text(build(given, task).write(problems).tokens[0]))
    ^356+94=207$
    ^653+049=2070$
    ^a3b5c6+a9b4=a2b0c7$
    $3560+9400=2070$
    ^3  5 6 +9 4=207$
    """

    reverse_operands: bool = True
    reverse_answer: bool = True
    pad: bool = False
    hints: Literal["none", "cyclic", "ordered"] = "none"
    begin: Literal["^", "$"] = "^"
    pad_to: int | None = Field(default=None, ge=1)
    spaces: float = Field(default=0.0, ge=0.0, le=1.0)

    @property
    def has_index_hints(self) -> bool:
        """Whether letters stand before the digits."""
        return self.hints != "none"

    @property
    def variable_length(self) -> bool:
        """With spaces, questions differ in length."""
        return self.spaces > 0

    @property
    def levels(self) -> int:
        """Digits are coupled by their place, at one level (Cho et al. 2024)."""
        return 1

    def incompatibility(self) -> str | None:
        """Refuse answers that are no numbers, and settings that do not go together."""
        if not self.task.in_digits:
            return "'expression' writes numbers, and the answer is a list; expected 'labelled'"
        if self.pad and self.pad_to is not None:
            return f"pad_to {self.pad_to} does not fit pad true; expected one of them"
        if self.has_index_hints and self.variable_length:
            return f"spaces {self.spaces} do not fit hints {self.hints!r}; expected one of them"
        return None

    def symbols(self) -> int:
        """Return the digits and signs of addition, further signs, or the letters too."""
        if self.has_index_hints:
            return len(SIGNS + LETTERS)
        space = [SPACE] if self.variable_length else []
        return max([PAD, *space, *map(ALPHABET.index, self.task.sign)]) + 1

    def extent(self, digits: int) -> Extent:
        """Return the longest number, and the tokens of the longest problem with its signs.

        Raises:
            SettingsError: for more places than there are letters to hint at them, and for operands
                that are longer than what they are to be padded to.
        """
        longest, lengths = self.task.longest_answer(digits), self.task.largest(digits)
        lengths, longest = self._padded(lengths), max(longest, self.pad_to or 0)
        if self.has_index_hints and longest > len(LETTERS):
            raise SettingsError(
                f"format.hints: {longest} places of a number do not fit, there are "
                f"{len(LETTERS)} letters; expected fewer digits"
            )
        each, signs = 2 if self.has_index_hints else 1, 2 + lengths.shape[1]
        tokens = each * (int(lengths.sum()) + longest) + signs
        symbols = int(lengths.sum()) + lengths.shape[1] - 1
        tokens += int(self._most_spaces(torch.tensor([tokens - 1]), torch.tensor([symbols])))
        run = max(digits, longest, int(lengths.max()))
        return Extent(each * run, tokens, (run + (1 if self.reverse_answer else 2),))

    def write(self, problems: Problems) -> Batch:
        """Write problems as tokens and marks; a sign is coupled one below the ones.

        Where the answer is written with its highest digit first, `=` is coupled one above it. Its
        digits have the places that they come from: a task that goes `backwards` counts them down.

        Raises:
            SettingsError: for operands that are longer than what they are to be padded to.
        """
        return self._written(problems, problems.answer, self._length(problems))

    def write_open_ended(self, problems: Problems) -> Batch:
        """Write the questions, and behind them zeros for the longest answer they could have."""
        length = problems.room if self.pad_to is None else problems.room.clamp(min=self.pad_to)
        nothing = problems.answer.new_zeros(len(problems), int(length.max()))
        return self._written(problems, nothing, length)

    def _written(
        self, problems: Problems, answer: Integer[Tensor, "B K"], length: Integer[Tensor, " B"]
    ) -> Batch:
        """Write the questions of problems, and behind them an answer of a length."""
        device, first = problems.operands.device, self._first(problems)
        lengths = self._padded(problems.lengths)
        part, each = lengths.shape[1] + 1, 2 if self.has_index_hints else 1
        up = self.reverse_answer != self.task.backwards
        above = NO_PLACE if up else length[:, None]
        answer = backwards(answer, length) if self.task.backwards else answer
        pieces = [
            symbol(ALPHABET.index(self.begin), device),
            *asked(problems.operands, lengths, self.task.sign, self.reverse_operands),
            symbol(EQUALS, device, None, part, above),
            number(answer, length, part, up),
            symbol(EOS, device),
        ]
        if self.has_index_hints:
            pieces = [piece if piece.sign else _hinted(piece, first) for piece in pieces]
        tokens, marks, total = join(pieces, len(problems), device, [((1, 1),)] * part)
        batch = Batch(tokens, *marks, total - each * length - 1, total)
        if not self.variable_length:
            return batch
        symbols = batch.start - 2  # of the question, without its first and its last
        # Of the true answer, as in the source, also where the longest one is written.
        most = self._most_spaces(batch.start + self._length(problems), symbols)
        before = spaces_before(problems.label, symbols, most)
        before = torch.nn.functional.pad(before, (1, tokens.shape[1] - before.shape[1] - 1))
        return loosened(batch, before, SPACE)

    def without_padding(self) -> Expression:
        """Return the format without spaces."""
        return self.model_copy(update={"spaces": 0.0})

    def read(self, response: Integer[Tensor, "B A"]) -> Integer[Tensor, "B A"]:
        """Return the digits with the ones first; what stands at and behind their end is EOS.

        Letters are left out, wherever they stand.
        """
        kept = (response == EOS).cumsum(1) == 0
        if self.has_index_hints:
            response, kept = together(response, kept & (response < FIRST_LETTER))
        return ones_first(response, kept, self.reverse_answer)

    def _padded(self, lengths: Integer[Tensor, "B M"]) -> Integer[Tensor, "B M"]:
        """Return how long operands of these lengths are written.

        Raises:
            SettingsError: for operands that are longer than what they are to be padded to.
        """
        if self.pad:
            return self.task.padded(lengths)
        if self.pad_to is None:
            return lengths
        if int(lengths.max()) > self.pad_to:
            raise SettingsError(
                f"format.pad_to: {self.pad_to} is too short, operands have up to "
                f"{int(lengths.max())} digits; expected at least so many"
            )
        return torch.where(lengths > 0, lengths.clamp(min=self.pad_to), 0)

    def _length(self, problems: Problems) -> Integer[Tensor, " B"]:
        """Return how long the answers are written."""
        length = problems.room if self.pad else problems.answer_length
        return length if self.pad_to is None else length.clamp(min=self.pad_to)

    def _most_spaces(
        self, length: Integer[Tensor, " B"], symbols: Integer[Tensor, " B"]
    ) -> Integer[Tensor, " B"]:
        """Return how many spaces there may be at most in sequences of a length.

        The length is that without the first token, and without spaces; `symbols` are those of the
        operands with the signs between them. A lone symbol has no gap that could hold any.
        """
        most = (length.double() * self.spaces + 1e-9).floor().long()  # 0.1 of 30 is 3
        return torch.where(symbols > 1, most, 0)

    def _first(self, problems: Problems) -> Integer[Tensor, " B"]:
        """Return the letter of the ones, counted from the first."""
        count = len(LETTERS)
        if self.hints == "ordered":
            longest = torch.maximum(problems.room, problems.lengths.amax(1))
            count = (count + 1 - longest.clamp(min=self.pad_to or 0)).clamp(1)
        return first_letter(problems.label, count)


def asked(
    operands: Integer[Tensor, "B M N"], lengths: Integer[Tensor, "B M"], sign: str, reverse: bool
) -> list[Piece]:
    """Return the pieces that are the operands of a question, with a sign between them.

    A sign goes with the operand before it.
    """
    pieces, most = [], lengths.shape[1]
    for index in range(most):
        present = (lengths[:, index] > 0)[:, None] if most > 2 else None
        if index:
            pieces += [symbol(ALPHABET.index(sign), operands.device, present, index)]
        pieces += [number(operands[:, index], lengths[:, index], index + 1, reverse)]
    return pieces


def number(digits: Tensor, length: Tensor, part: int | Tensor, reverse: bool) -> Piece:
    """Return the piece that is a number, with zeros up to its length, the ones first if reversed.

    >>> piece = number(torch.tensor([[3, 5]]), torch.tensor([3]), part=1, reverse=False)
    >>> piece.tokens.tolist(), piece.place.tolist()
    ([[0, 5, 3]], [[2, 1, 0]])
    """
    width = int(length.max()) if len(length) else 0
    digits = torch.nn.functional.pad(digits, (0, max(0, width - digits.shape[1])))
    place = torch.arange(digits.shape[1], device=digits.device)[None]
    present = place < length[:, None]
    if not reverse:
        digits, present, place = digits.flip(1), present.flip(1), place.flip(1)
    return Piece(digits, present, part, place)


def ones_first(
    response: Integer[Tensor, "B A"], kept: Bool[Tensor, "B A"], reverse: bool
) -> Integer[Tensor, "B A"]:
    """Return what is kept, the beginning of each row, with the ones first and EOS behind it.

    >>> ones_first(torch.tensor([[7, 0, 2]]), torch.tensor([[True, True, False]]), False).tolist()
    [[0, 7, 13]]
    """
    if reverse:
        return torch.where(kept, response, EOS)
    at = torch.arange(response.shape[1], device=response.device)
    back = kept.sum(1, keepdim=True) - 1 - at
    return torch.where(back >= 0, response.gather(1, back.clamp(min=0)), EOS)


def spaces_before(
    label: Integer[Tensor, " B"], symbols: Integer[Tensor, " B"], most: Integer[Tensor, " B"]
) -> Integer[Tensor, "B W"]:
    """Return how many spaces stand before each symbol of the operands, of so many symbols.

    How many there are is drawn evenly from 0 to `most`, and then for each of them the gap between
    two symbols in which it stands, so that a gap may hold several. All is drawn for the label of
    the problem, so that it is written the same each time.

    >>> label, symbols = torch.tensor([1, 2, 3]), torch.tensor([6, 6, 6])
    >>> spaces_before(label, symbols, torch.tensor([5, 5, 5])).tolist()
    [[0, 1, 2, 0, 0, 0], [0, 0, 0, 1, 2, 0], [0, 0, 0, 1, 1, 1]]
    """
    key = label.long() << 16
    count = drawn_for(key, most + 1)
    each = torch.arange(int(count.max()), device=label.device)
    gap = 1 + drawn_for(key[:, None] + 1 + each, (symbols - 1).clamp(min=1)[:, None])
    there = (each < count[:, None]).long()
    before = there.new_zeros(len(label), max(2, int(symbols.max())))
    return before.scatter_add_(1, gap, there)


def _hinted(piece: Piece, first: Integer[Tensor, " B"]) -> Piece:
    """Put a letter before each digit, with the marks of the digit."""
    letters = FIRST_LETTER + (first[:, None] + piece.place) % len(LETTERS)
    digits = torch.stack([letters, piece.tokens.long()], dim=2).flatten(1)
    present, place = (of.repeat_interleave(2, 1) for of in (piece.present, piece.place))
    return Piece(digits, present, piece.part, place)
