"""Sub-tasks of addition, named by a prefix: `car$1234+4567=---c$` (ibrahimli2024, 4.2.2).

    add$1234+4567=5801$                   the sum
    ali$1234+4567=1+4,2+5,3+6,4+7$        digit alignment: the digits of each place
    car$1234+4567=---c$                   carry detection: `c` where two digits generate a carry
    mad$1234+4567=5791$                   digit-wise addition modulo 10, without carries
    rev$1234+4567=4321+7654$              reversing

The shorter operand has zeros at places that it lacks, except for `rev`:
`mad$57+123=170$`, `rev$57+123=75+321$`.

Digits are coupled by place, and by operand where the response lists both operands. Signs are
coupled near the digit after them: one below place 0, or one above the most significant digit.

digits        rev$1234+4567=4321+7654$        ali$4321+7654=4+7,3+6,2+5,1+4$
level 1       ....4321.43210123401234.        ....1234012340111122223333444.
level 2       ....1111122221111122222.        ....1111122221122112211221122.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Integer
from pydantic import Field
from torch import Tensor

from carry.data.batch import NO_LEVEL, NO_PLACE, Batch
from carry.data.problems import Problems, concatenate_rows
from carry.experiments.run import SUB_TASKS
from carry.formats import (
    ALPHABET,
    EOS,
    EQUALS,
    PAD,
    PLUS,
    Extent,
    Format,
    Piece,
    before_end,
    hide_responses,
    join_pieces,
    sign_piece,
    to_tokens,
)
from carry.formats.expression import (
    insert_spaces,
    least_significant_first,
    max_spaces,
    number_piece,
    operand_pieces,
)
from carry.tasks.addition import Addition

COMMA, DASH, CARRY = map(ALPHABET.index, ",-c")
# The couplings of `+` between the operands of `rev`: no place, so that every place sees it and
# knows that a second operand follows.
SEPARATOR = 5


class SubTask(Format):
    """Two operands after the `prefix` of a sub-task of their addition.

    `reverse_operands`: write the least significant digit of the question first.
    `reverse_answer`: the same for responses with one token or pair for each place; the response
    to `rev` has the operands in the opposite order of the question.
    `spaces`: random spaces between the tokens of the operands, as in an `expression` of the sum:
    the limit counts neither the prefix nor the response to another sub-task, so that a question is
    the same after every prefix (released code of ibrahimli2024, whose limit counts the operands).

    A response with one token for each place is number 3; in `ali` and `rev` number 3 is the first
    operand and number 4 the second.

    >>> from carry.formats import build_format
    >>> from carry.tasks import build_task
    >>> form = build_format({"name": "sub_task", "prefix": "add"}, build_task({"name": "addition"}))
    >>> for prefix in SUB_TASKS:
    ...     print(form.with_prefix(prefix).write_text(1234, 4567))
    add$1234+4567=5801$
    ali$1234+4567=1+4,2+5,3+6,4+7$
    car$1234+4567=---c$
    mad$1234+4567=5791$
    rev$1234+4567=4321+7654$
    >>> form.model_copy(update={"spaces": 0.5}).with_prefix("rev").write_text(1234, 4567)
    'rev$1  2 3 4 +45 6 7=4321+7654$'
    """

    task_type = Addition
    last_symbol = "z"
    level_count = 2  # places, as in an `expression`, and operands

    prefix: Literal[SUB_TASKS]
    reverse_operands: bool = False
    reverse_answer: bool = False
    spaces: float = Field(default=0.0, ge=0.0, le=1.0)

    @property
    def variable_length(self) -> bool:
        """Spaces make questions differ in length."""
        return self.spaces > 0

    @property
    def writes_answer(self) -> bool:
        """Only `add` writes the sum."""
        return self.prefix == "add"

    @property
    def hides_answer_length(self) -> bool:
        """The question determines the length of all responses but the sum."""
        return self.reverse_answer or not self.writes_answer

    def with_prefix(self, prefix: str) -> SubTask:
        """Return the same format with another prefix."""
        return self.model_copy(update={"prefix": prefix})

    def extent(self, digits: int) -> Extent:
        """Return the sizes of the largest problem with this prefix, with the most spaces."""
        extent = Format.extent(self.model_copy(update={"spaces": 0.0}), digits)
        symbols, answer = torch.tensor([[2 * digits + 1], [self.task.max_answer_length(digits)]])
        return extent._replace(tokens=extent.tokens + int(max_spaces(self.spaces, symbols, answer)))

    def mixed_extent(self, digits: int, prefixes: Sequence[str]) -> Extent:
        """Return the largest extent over several sub-tasks."""
        extents = [self.with_prefix(prefix).extent(digits) for prefix in prefixes]
        longest, tokens, levels = zip(*extents, strict=True)
        return Extent(max(longest), max(tokens), max(levels))

    def write(self, problems: Problems) -> Batch:
        """Write problems as tokens and marks; signs have no number and no place."""
        device, longest = problems.operands.device, problems.lengths.amax(1)
        length = problems.answer_length if self.writes_answer else longest
        ascending = self.reverse_answer
        operands = operand_pieces(problems.operands, problems.lengths, "+", self.reverse_operands)
        if self.prefix == "rev":
            length, ascending = problems.lengths[:, 0], not self.reverse_operands
            operands[1] = sign_piece(PLUS, device, None, SEPARATOR)
        question = [
            text_piece(self.prefix, device),
            sign_piece(EOS, device),
            *operands,
            sign_piece(EQUALS, device, None, 3, NO_PLACE if ascending else length[:, None]),
        ]
        couplings = [((1, 1), (operand, 0)) for operand in (1, 2, 1, 2)] + [(None, (1, 0))]
        if self.prefix not in ("ali", "rev"):
            couplings[2] = ((1, 1), None)
        batch = join_pieces(question, self._response_pieces(problems), len(problems), couplings)
        return self._insert_spaces(batch, problems)

    def write_sub_tasks(self, problems: Problems, parts: Integer[Tensor, " B"]) -> Batch:
        """Write each problem as one sub-task, an index into `SUB_TASKS`; ignore `prefix`.

        >>> from carry.formats import build_format, to_text
        >>> from carry.tasks import build_task, to_digits
        >>> task = build_task({"name": "addition"})
        >>> form = build_format({"name": "sub_task", "prefix": "add"}, task)
        >>> problems = task.solve(*to_digits([[12, 34], [5, 6], [78, 9]]))
        >>> for row in form.write_sub_tasks(problems, torch.tensor([4, 0, 2])).tokens:
        ...     print(to_text(row))
        rev$12+34=21+43$
        add$5+6=11$_____
        car$78+9=-c$____
        """
        batches, rows = [], []
        for index, prefix in enumerate(SUB_TASKS):
            row = (parts == index).nonzero()[:, 0]
            if len(row):
                batches.append(self.with_prefix(prefix).write(problems[row]))
                rows.append(row)
        fill = {"tokens": PAD, "place": NO_PLACE, "levels": NO_LEVEL}
        return concatenate_rows(batches, **fill)[torch.cat(rows).argsort()]

    def write_open_ended(self, problems: Problems) -> Batch:
        """Write the questions, followed by zeros for the longest possible responses.

        Dashes take the place of carries, which are no digits: Abacus ids count digits alone. Spaces
        are those of the true answer.
        """
        blank = DASH if self.prefix == "car" else 0
        batch = Format.write_open_ended(self.model_copy(update={"spaces": 0.0}), problems)
        return self._insert_spaces(hide_responses(batch, blank), problems)

    def _insert_spaces(self, batch: Batch, problems: Problems) -> Batch:
        prefix = len(self.prefix) + 1  # and the sign after it
        return insert_spaces(batch, self.spaces, problems.label, problems.answer_length, prefix)

    def _response_pieces(self, problems: Problems) -> list[Piece]:
        """Return the pieces after `=`."""
        if self.prefix == "add":
            return [number_piece(problems.answer, problems.answer_length, 3, self.reverse_answer)]
        longest, steps = problems.lengths.amax(1), self.task.compute_steps(problems)
        if self.prefix == "mad":
            sums = steps["digit_sum"] % self.task.base
            return [number_piece(sums, longest, 3, self.reverse_answer)]
        if self.prefix == "car":
            signs = torch.where(steps["carry_generated"] > 0, CARRY, DASH)
            return [number_piece(signs, longest, 3, self.reverse_answer)]
        first, second = problems.operands.unbind(1)
        if self.prefix == "ali":
            return self._pair_pieces(first, second, longest)
        reverse = not self.reverse_operands
        first_length, second_length = problems.lengths.unbind(1)
        above = NO_PLACE if reverse else second_length[:, None]
        return [
            number_piece(first, first_length, 3, reverse),
            sign_piece(PLUS, first.device, None, 4, above),
            number_piece(second, second_length, 4, reverse),
        ]

    def _pair_pieces(
        self, first: Tensor, second: Tensor, longest: Integer[Tensor, " B"]
    ) -> list[Piece]:
        """Return the pieces of `ali`: the digits of each place as `a+b`, separated by commas."""
        device, pairs = first.device, []
        ascending = self.reverse_answer
        for place in range(int(longest.max())):
            present = (place < longest)[:, None]
            places = torch.full((1, 1), place, device=device)
            pair = [
                Piece(first[:, place, None], present, 3, places),
                sign_piece(PLUS, device, present, 4, place),
                Piece(second[:, place, None], present, 4, places),
            ]
            # A comma precedes each pair but the one that is written first.
            if not ascending:
                higher = (place + 1 < longest)[:, None]
                pair.insert(0, sign_piece(COMMA, device, higher, 3, place + 1))
            elif place:
                pair.insert(0, sign_piece(COMMA, device, present, 3, place - 1))
            pairs.append(pair)
        ordered = pairs if ascending else reversed(pairs)
        return [piece for pair in ordered for piece in pair]

    def read(self, response: Integer[Tensor, "B A"]) -> Integer[Tensor, "B A"]:
        """Return a sum, least significant digit first, or other responses as they are.

        EOS follows.
        """
        as_written = self.reverse_answer or not self.writes_answer
        return least_significant_first(response, before_end(response), as_written)


def text_piece(characters: str, device: torch.device) -> Piece:
    """Return a piece of signs and letters without a number and a place.

    >>> text_piece("; c=", torch.device("cpu")).tokens.tolist()
    [[21, 20, 25, 11]]
    """
    tokens = to_tokens(characters).to(device)[None]
    return Piece(tokens, torch.ones_like(tokens, dtype=torch.bool), 0, NO_PLACE + tokens * 0)
