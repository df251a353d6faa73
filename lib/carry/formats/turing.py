"""A sum as a Turing program: each line is the tape after one more step (after Hou et al. 2024).

4324 + 139, line by line; the problem is one line of text without breaks:

    ^40312349=        the tape: both digits of each place, most significant first
    403123c3|         without the last place; the carry, which is the state; the digit of the sum
    4031-63|
    40-463|
    -4463$            the last line is the answer; `c` would be one digit more

The head is at the state, and a step changes the tape there alone. What a step needs stands around
the state of the previous line. Of all lines only this one has the last two places of the next line
two tokens before its state, so a model finds it by the last tokens that it wrote.
"""

from __future__ import annotations

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.data.batch import NO_PLACE, Batch
from carry.data.problems import Problems
from carry.formats import (
    ALPHABET,
    BOS,
    EQUALS,
    Format,
    Piece,
    compact_rows,
    hide_responses,
    join_pieces,
    read_after_last,
    sign_piece,
)
from carry.formats.expression import least_significant_first, number_piece
from carry.tasks.addition import Addition

BAR, NO_CARRY, CARRY = map(ALPHABET.index, "|-c")
ANSWER = 3  # the digits of the last line; the operands are numbers 1 and 2


class Turing(Format):
    """Places that are left, the state, and the digits that are written, for each place of a sum.

    The shorter operand has zeros at places that it lacks. The source (arXiv:2407.03310) writes
    operands one after the other, and letters for the digits at its heads.

    >>> from carry.formats import build_format
    >>> from carry.tasks import build_task
    >>> build_format({"name": "turing"}, build_task({"name": "addition"})).write_text(324, 739)
    '^372349=3723c3|37-63|c063$'
    """

    task_type = Addition
    last_symbol = ALPHABET[CARRY]
    has_steps = True

    def write(self, problems: Problems) -> Batch:
        """Write problems as tokens and marks; lines before the last have no numbers."""
        device, longest = problems.operands.device, problems.lengths.amax(1)
        carries = self.task.compute_steps(problems)["carry_made"].bool()
        question = [sign_piece(BOS, device), self._columns(problems, 0), sign_piece(EQUALS, device)]
        response = []
        for line in range(1, int(longest.max()) + 1):
            there, last = (line <= longest)[:, None], (line == longest)[:, None]
            columns = self._columns(problems, line)
            unmarked = torch.zeros_like(columns.place)
            state = torch.where(carries[:, line - 1, None], CARRY, NO_CARRY)
            digits = number_piece(problems.answer, line * there[:, 0], 0, reverse=False)
            marks = (torch.where(last, ANSWER, 0), torch.where(last, digits.place, NO_PLACE))
            response += [
                columns._replace(number=unmarked, place=unmarked + NO_PLACE),
                sign_piece(state, device, there),
                Piece(digits.tokens, digits.present, *marks),
                sign_piece(BAR, device, there & ~last),
            ]
        return join_pieces(question, response, len(problems), [()] * ANSWER)

    def write_open_ended(self, problems: Problems) -> Batch:
        """Write the questions, followed by zeros for the responses, whose lengths they tell."""
        return hide_responses(super().write_open_ended(problems))

    def read(self, response: Integer[Tensor, "B A"]) -> Integer[Tensor, "B A"]:
        """Return the digits of the last line, least significant first, followed by EOS."""
        line, kept = read_after_last(response, response == BAR)
        answer, kept = compact_rows(line.masked_fill(line == CARRY, 1), kept & (line != NO_CARRY))
        return least_significant_first(answer, kept, reversed_answer=False)

    def _columns(self, problems: Problems, first: int) -> Piece:
        """Return both digits of each place from `first` on, most significant first."""
        longest = int(problems.lengths.max())
        place = torch.arange(longest - 1, first - 1, -1, device=problems.lengths.device)
        present = place < problems.lengths.amax(1, keepdim=True)
        digits = problems.operands[:, :, :longest].flip(2)[:, :, : len(place)]
        number = torch.tensor([1, 2], device=place.device).repeat(len(place))[None]
        return Piece(
            digits.transpose(1, 2).flatten(1),
            present.repeat_interleave(2, dim=1),
            number,
            place.repeat_interleave(2)[None],
        )
