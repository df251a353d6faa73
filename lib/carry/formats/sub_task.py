"""A part of an addition, named by three letters: `car$1234+4567=---c$` (ibrahimli2024, 4.2.2).

    add$1234+4567=5801$                   the sum
    ali$1234+4567=1+4,2+5,3+6,4+7$        digit alignment: the digits of each place
    car$1234+4567=---c$                   carry detection: `c` where two digits make a carry
    mad$1234+4567=5791$                   digit-wise addition modulo 10, without carries
    rev$1234+4567=4321+7654$              reversing

Of operands of unlike length the shorter one has zeros where it lacks digits, but when reversed:
`mad$57+123=170$`, `rev$57+123=75+321$`.

Digits are coupled by place, and by operand where both are listed. Signs stand where what comes
behind them is near: below the ones, or above the highest digit if that comes first.

digits        rev$1234+4567=4321+7654$        ali$4321+7654=4+7,3+6,2+5,1+4$
level 1       ....4321.43210123401234.        ....1234012340111122223333444.
level 2       ....1111122221111122222.        ....1111122221122112211221122.
"""

from __future__ import annotations

from typing import ClassVar, Literal, get_args

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.config.settings import SettingsError, suggest_name
from carry.data.batch import NO_PLACE, Batch, merge_batches
from carry.data.problems import Problems
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
from carry.tasks.addition import Addition

Prefix = Literal["add", "ali", "car", "mad", "rev"]
COMMA, DASH, CARRY = map(ALPHABET.index, ",-c")
BETWEEN = 5  # of no place: where any place of `rev` can see that a second operand is to come


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
    def has_task_prefix(self) -> bool:
        """The prefix says which."""
        return True

    @property
    def levels(self) -> int:
        """Places, as in an `expression`, and operands."""
        return 2

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
                f"prefix: {prefix!r} is not there, {suggest_name(prefix, self.PREFIXES)}"
            )
        return self.model_copy(update={"prefix": prefix})

    def incompatibility(self) -> str | None:
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
        tokens = len(self.prefix) + 2 * digits + 4 + behind
        return Extent(longest, tokens, (longest + 1, 3))

    def write(self, problems: Problems) -> Batch:
        """Write problems as tokens and marks; signs have no number and no place."""
        device, longest = problems.operands.device, problems.lengths.amax(1)
        length, up = problems.answer_length if self.answers else longest, self.reverse_answer
        operands = asked(problems.operands, problems.lengths, "+", self.reverse_operands)
        if self.prefix == "rev":
            length, up = problems.lengths[:, 0], not self.reverse_operands
            operands[1] = symbol(PLUS, device, None, BETWEEN)
        question = [
            phrase(self.prefix, device),
            symbol(EOS, device),
            *operands,
            symbol(EQUALS, device, None, 3, NO_PLACE if up else length[:, None]),
        ]
        response = [*self._response(problems), symbol(EOS, device)]
        both = self.prefix in ("ali", "rev")
        lines = [((1, 1), (operand, 0)) for operand in (1, 2, 1, 2)] + [(None, (1, 0))]
        lines[2] = lines[2] if both else ((1, 1), None)
        tokens, marks, total = join([*question, *response], len(problems), device, lines)
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
        return merge_batches(batches, [of for _, of in own], PAD)

    def write_open_ended(self, problems: Problems) -> Batch:
        """Write the questions, and behind them zeros for the longest response they could have."""
        return blanked(super().write_open_ended(problems))

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
            return self._pairs(first, second, longest)
        back, (one, other) = not self.reverse_operands, problems.lengths.unbind(1)
        return [
            number(first, one, 3, back),
            symbol(PLUS, first.device, None, 4, NO_PLACE if back else other[:, None]),
            number(second, other, 4, back),
        ]

    def _pairs(self, first: Tensor, second: Tensor, longest: Integer[Tensor, " B"]) -> list[Piece]:
        """Return the digits of each place, with `+` between them and a comma behind them."""
        device, pieces = first.device, []
        for place in range(int(longest.max())):
            there, more = ((of < longest)[:, None] for of in (place, place + 1))
            at, comma = torch.full((1, 1), place, device=device), []
            if place or not self.reverse_answer:
                last = there if self.reverse_answer else more
                comma = [symbol(COMMA, device, last, 3, place + (-1 if self.reverse_answer else 1))]
            pair = [
                *comma,
                Piece(first[:, place, None], there, 3, at),
                symbol(PLUS, device, there, 4, place),
                Piece(second[:, place, None], there, 4, at),
            ]
            pieces = pieces + pair if self.reverse_answer else pair + pieces
        return pieces

    def read(self, response: Integer[Tensor, "B A"]) -> Integer[Tensor, "B A"]:
        """Return the digits of a sum with the ones first, or else what is written as it stands.

        At its end and behind it stands EOS.
        """
        kept = (response == EOS).cumsum(1) == 0
        return ones_first(response, kept, self.reverse_answer or not self.answers)


def phrase(characters: str, device: torch.device) -> Piece:
    """Return the piece that is some signs and letters, of no number and no place.

    >>> phrase("; c=", torch.device("cpu")).tokens.tolist()
    [[21, 20, 25, 11]]
    """
    tokens = encode(characters).to(device)[None]
    return Piece(tokens, torch.ones_like(tokens, dtype=torch.bool), 0, NO_PLACE + tokens * 0)
