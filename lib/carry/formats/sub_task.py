"""A part of an addition, named by three letters: `car$1234+4567=---c$` (ibrahimli2024, 4.2.2).

    add$1234+4567=5801$                   the sum
    ali$1234+4567=1+4,2+5,3+6,4+7$        digit alignment: the digits of each place
    car$1234+4567=---c$                   carry detection: `c` where two digits make a carry
    mad$1234+4567=5791$                   digit-wise addition modulo 10, without carries
    rev$1234+4567=4321+7654$              reversing

Of operands of unlike length the shorter one has zeros where it lacks digits, but when reversed:
`mad$57+123=170$`, `rev$57+123=75+321$`.
"""

from __future__ import annotations

from typing import ClassVar, Literal, get_args

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.batch import NO_PLACE, Batch, Problems, merged
from carry.formats import (
    ALPHABET,
    EOS,
    EQUALS,
    PAD,
    PLUS,
    Extent,
    Format,
    Piece,
    blanked,
    encode,
    join,
    symbol,
)
from carry.formats.expression import asked, number, ones_first
from carry.settings import SettingsError, nearest
from carry.tasks.addition import Addition

Prefix = Literal["add", "ali", "car", "mad", "rev"]
COMMA, DASH, CARRY = map(ALPHABET.index, ",-c")


class SubTask(Format):
    """Two operands behind the `prefix` that says which part of their addition is asked for.

    `reverse_operands`: write the ones first in the question. `reverse_answer`: so also behind it,
    in all that is written place by place; `rev` has each operand in the other order than the
    question has it, whatever that is.

    What is written place by place is a number of its own, the third, and so is the first operand of
    `ali` and `rev`, whose second is the fourth.

    >>> from carry.formats import build, text
    >>> from carry.tasks import build as build_task, to_digits
    >>> task = build_task({"name": "addition"})
    >>> problems, form = task.solve(*to_digits([[1234, 4567]])), {"name": "sub_task"}
    >>> for prefix in SubTask.PREFIXES:
    ...     print(text(build({**form, "prefix": prefix}, task).write(problems).tokens[0]))
    add$1234+4567=5801$
    ali$1234+4567=1+4,2+5,3+6,4+7$
    car$1234+4567=---c$
    mad$1234+4567=5791$
    rev$1234+4567=4321+7654$
    """

    PREFIXES: ClassVar[tuple[str, ...]] = get_args(Prefix)

    prefix: Prefix
    reverse_operands: bool = False
    reverse_answer: bool = False

    @property
    def prefixed(self) -> bool:
        """The prefix says which."""
        return True

    @property
    def answers(self) -> bool:
        """Only the addition itself has the sum."""
        return self.prefix == "add"

    def asking(self, prefix: str) -> SubTask:
        """Return the same format with another prefix.

        >>> from carry.formats import build
        >>> from carry.tasks import build as build_task
        >>> task = build_task({"name": "addition"})
        >>> build({"name": "sub_task", "prefix": "add"}, task).asking("car").prefix
        'car'

        Raises:
            SettingsError: for a prefix that is none.
        """
        if prefix not in self.PREFIXES:
            raise SettingsError(
                f"prefix: {prefix!r} is not there, {nearest(prefix, self.PREFIXES)}"
            )
        return self.model_copy(update={"prefix": prefix})

    def misfit(self) -> str | None:
        """Refuse all but the addition of two numbers."""
        if not isinstance(self.task, Addition):
            name = type(self.task).__name__
            return (
                f"'sub_task' asks for parts of an addition, and {name} has others; expected "
                "task 'addition'"
            )
        return None

    def symbols(self) -> int:
        """Return the digits, the signs and the letters of all prefixes, whichever it is."""
        return ALPHABET.index("z") + 1

    def extent(self, digits: int) -> Extent:
        """Return the longest number, and the tokens of the longest problem with this prefix."""
        longest = self.task.longest_answer(digits) if self.answers else digits
        behind = {"ali": 4 * digits - 1, "rev": 2 * digits + 1}.get(self.prefix, longest)
        return Extent(longest, len(self.prefix) + 2 * digits + 4 + behind)

    def write(self, problems: Problems) -> Batch:
        """Write problems as tokens and marks; signs have no number and no place."""
        device = problems.operands.device
        question = [
            phrase(self.prefix, device),
            symbol(EOS, device),
            *asked(problems.operands, problems.lengths, "+", self.reverse_operands),
            symbol(EQUALS, device),
        ]
        response = [*self._response(problems), symbol(EOS, device)]
        tokens, marks, total = join([*question, *response], len(problems), device, [()] * 4)
        start = problems.lengths.sum(1) + len(self.prefix) + 3
        return Batch(tokens, *marks, start, total)

    def write_parts(self, problems: Problems, parts: Integer[Tensor, " B"]) -> Batch:
        """Write each problem as the sub-task of its own, given as an index into `PREFIXES`.

        The prefix of the format itself makes no difference.

        >>> from carry.formats import build, text
        >>> from carry.tasks import build as build_task, to_digits
        >>> task = build_task({"name": "addition"})
        >>> form = build({"name": "sub_task", "prefix": "add"}, task)
        >>> problems = task.solve(*to_digits([[12, 34], [5, 6], [78, 9]]))
        >>> for row in form.write_parts(problems, torch.tensor([4, 0, 2])).tokens:
        ...     print(text(row))
        rev$12+34=21+43$
        add$5+6=11$_____
        car$78+9=-c$____
        """
        rows = [(parts == index).nonzero()[:, 0] for index in range(len(self.PREFIXES))]
        own = [(name, of) for name, of in zip(self.PREFIXES, rows, strict=True) if len(of)]
        batches = [self.asking(name).write(problems[of]) for name, of in own]
        return merged(batches, [of for _, of in own], PAD)

    def open_ended(self, problems: Problems) -> Batch:
        """Write the questions, and behind them zeros for the longest response they could have."""
        return blanked(super().open_ended(problems))

    def _response(self, problems: Problems) -> list[Piece]:
        """Return the pieces behind `=`, from the steps of the task."""
        if self.prefix == "add":
            return [number(problems.answer, problems.answer_length, 3, self.reverse_answer)]
        longest, steps = problems.lengths.amax(1), self.task.steps(problems)
        if self.prefix == "mad":
            return [number(steps["digit_sum"] % 10, longest, 3, self.reverse_answer)]
        if self.prefix == "car":
            signs = torch.where(steps["carry_generated"] > 0, CARRY, DASH)
            return [number(signs, longest, 3, self.reverse_answer)]
        first, second = problems.operands.unbind(1)
        if self.prefix == "ali":
            pairs = [(first, 3), (PLUS, 0), (second, 4)]
            return [columns(pairs, longest, self.reverse_answer, between=COMMA)]
        back = not self.reverse_operands
        return [
            number(first, problems.lengths[:, 0], 3, back),
            symbol(PLUS, first.device),
            number(second, problems.lengths[:, 1], 4, back),
        ]

    def read(self, response: Integer[Tensor, "B A"]) -> Integer[Tensor, "B A"]:
        """Return the digits of a sum with the ones first, or else what is written as it stands.

        At its end and behind it stands EOS.
        """
        kept = (response == EOS).cumsum(1) == 0
        return ones_first(response, kept, self.reverse_answer or not self.answers)


def columns(
    each: list[tuple[Tensor | int, Tensor | int]],
    length: Integer[Tensor, " B"],
    reverse: bool,
    between: int | None = None,
) -> Piece:
    """Return the piece that has several tokens for each place, one place behind the other.

    Args:
        each: tokens by place with the ones first, or one for all, and the number that they belong
            to; 0: they are signs.
        length: how many places there are.
        reverse: whether the ones stand first.
        between: a sign between two places.

    >>> each = [(torch.tensor([[3, 5]]), 1), (PLUS, 0), (torch.tensor([[4, 8]]), 2)]
    >>> piece = columns(each, torch.tensor([2]), reverse=False, between=ALPHABET.index(","))
    >>> piece.tokens[piece.present].tolist(), piece.place[piece.present].tolist()
    ([5, 10, 8, 18, 3, 10, 4], [1, -1, 1, -1, 0, -1, 0])
    """
    device = length.device
    place = torch.arange(int(length.max()), device=device)[None]
    shape = (len(length), place.shape[1])

    def wide(of: Tensor | int) -> Tensor:
        return (
            of[:, : shape[1]].long().expand(shape)
            if isinstance(of, Tensor)
            else (torch.full(shape, of, device=device))
        )

    if between is not None:
        each = [(between, 0), *each]
    tokens = torch.stack([wide(of) for of, _ in each], dim=2)
    part = torch.stack([wide(of) for _, of in each], dim=2)
    where = torch.where(part > 0, place[:, :, None], NO_PLACE)
    present = (place < length[:, None])[:, :, None].repeat(1, 1, len(each))
    if between is not None:
        present[:, :, 0] &= place != (0 if reverse else length[:, None] - 1)
    found = [of if reverse else of.flip(1) for of in (tokens, present, part, where)]
    return Piece(*(of.flatten(1) for of in found))


def phrase(characters: str, device: torch.device) -> Piece:
    """Return the piece that is some signs and letters, of no number and no place.

    >>> phrase("; c=", torch.device("cpu")).tokens.tolist()
    [[21, 20, 25, 11]]
    """
    tokens = encode(characters).to(device)[None]
    return Piece(tokens, torch.ones_like(tokens, dtype=torch.bool), 0, NO_PLACE + tokens * 0)
