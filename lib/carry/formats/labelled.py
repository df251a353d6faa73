"""A list with a letter before each number; the answer lists letters: `^a:65,b:9,c:81=b,a,c$`."""

from __future__ import annotations

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.data.batch import Batch
from carry.data.problems import Problems
from carry.formats import (
    ALPHABET,
    BOS,
    EOS,
    EQUALS,
    FIRST_LETTER,
    Format,
    before_end,
    check_list,
    choose_first_letter,
    compact_rows,
    join_pieces,
    sign_piece,
)
from carry.formats.expression import number_piece
from carry.tasks import OPERAND_LETTERS
from carry.tasks.sorting import Sorting


class Labelled(Format):
    """Consecutive letters name the operands, from a random first letter on (mcleish2024, A.5).

    The least significant digit is first, as in the paper.

    >>> from carry.formats import build_format
    >>> from carry.tasks import build_task
    >>> form = build_format({"name": "labelled"}, build_task({"name": "sorting"}))
    >>> form.write_text(57, 8, 120)
    '^a:75,b:8,c:021=b,a,c$'
    """

    task_type = Sorting
    last_symbol = OPERAND_LETTERS[-1]

    def write(self, problems: Problems) -> Batch:
        """Write problems as tokens and marks; letters and signs have no place."""
        count = problems.operands.shape[1]
        check_list(count, len(OPERAND_LETTERS))
        device = problems.operands.device
        starts = len(OPERAND_LETTERS) + 1 - problems.room
        first = (FIRST_LETTER + choose_first_letter(problems.label, starts))[:, None]
        colon, comma = map(ALPHABET.index, ":,")
        question, response = [sign_piece(BOS, device)], []
        for index in range(count):
            there = (index < problems.room)[:, None]
            if index:
                question.append(sign_piece(comma, device, there))
            question.append(sign_piece(first + index, device, there))
            question.append(sign_piece(colon, device, there))
            digits, lengths = problems.operands[:, index], problems.lengths[:, index]
            question.append(number_piece(digits, lengths, index + 1, reverse=True))
        question.append(sign_piece(EQUALS, device))
        for rank in range(problems.answer.shape[1]):
            there = (rank < problems.answer_length)[:, None]
            if rank:
                response.append(sign_piece(comma, device, there))
            response.append(sign_piece(first + problems.answer[:, rank, None], device, there))
        return join_pieces(question, response, len(problems), [()] * count)

    def read(self, response: Integer[Tensor, "B A"]) -> Integer[Tensor, "B A"]:
        """Return the letters in order, as tokens, followed by EOS."""
        kept = before_end(response) & (response >= FIRST_LETTER)
        letters, inside = compact_rows(response, kept)
        return torch.where(inside, letters, EOS)
