"""A list with the steps of insertion sort: `^57,08,61=++:08,57;--:--:08,57,61$`.

The first number is a sorted list of length one. Each following number, the new number, is compared
with the numbers of the sorted list, smallest first; then the list with the new number is written.
A comparison has one symbol for each digit, most significant first: up to this digit, the list's
number is smaller than the new number (`-`), larger (`+`) or equal (`|`). Each token depends only
on nearby tokens:

    comparison    the previous symbol, and the next digits of both numbers
    digit         one of three: the next digit of the old list's number at the same rank, at the
                  next higher rank, or of the new number; the comparisons tell which
    end           no digit follows; the largest number, after which no comparison follows, ends a
                  list, and a new number without a comma after it ends the response

Ids of four levels show exactly these tokens.

digits    ^   5  7  ,   0  8  ,   6  1   =  +  +   :  0  8   ,  5  7   ;  -  -   :  -  -   :  0  8
level 1   0   9 13 17  10 14 18  14 18   8 12 16   9 13 17   9 13 17  12 16 20  12 16 20  13 17 21
level 2   0   4  4  4   5  5  5   7  7   5  5  5   6  6  6   6  6  6   7  7  7   7  7  7   8  8  8
level 3   0   2  2  2   0  0  0   0  0   2  2  2   3  3  3   2  2  2   3  3  3   2  2  2   4  4  4
level 4   0   0  0  0   3  3  3   4  4   3  3  3   0  0  0   0  0  0   4  4  4   4  4  4   0  0  0

1   reading time: a digit is 4 after the previous digit, and 4 after the same digit of the previous
    list; the same digit of a comparison is 1 earlier and of the new number 3 earlier. A window
    shows the next digits and hides the digits already read (except for comparisons, by which a
    list finds its end)
2   twice the index of the new number; the list with it is 1 above
3   the rank, counted from the largest number, so that a list is written from the last rank to 1
4   the index of the new number, for itself and its comparisons, so that these do not see earlier
    comparisons
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.data.batch import NO_PLACE, Batch
from carry.data.problems import Problems
from carry.formats import (
    ALPHABET,
    BOS,
    EOS,
    EQUALS,
    Format,
    Piece,
    check_list,
    join_pieces,
    read_after_last,
    sign_piece,
)
from carry.tasks import Coupling
from carry.tasks.sorting import Sorting

LESS, SAME, MORE = map(ALPHABET.index, "-|+")
COMMA, COLON, SEMICOLON = map(ALPHABET.index, ",:;")
MAX_NUMBERS = 1023  # of a list of n, which has n^2 + n rows; more would exhaust the memory


class InsertionSort(Format):
    """Numbers padded with zeros, most significant digit first, and their sorted lists.

    >>> from carry.formats import build_format
    >>> from carry.tasks import build_task
    >>> form = build_format({"name": "insertion_sort"}, build_task({"name": "sorting"}))
    >>> form.write_text(57, 8, 120, 57)
    '^057,008,120,057=|++:008,057;---:---:008,057,120;|--:|||:+++:008,057,057,120$'
    """

    task_type = Sorting
    has_steps = True
    level_count = 4  # reading time, column, rank, and new number
    hides_answer_length = True

    def write_open_ended(self, problems: Problems) -> Batch:
        """Write the problems: the question determines the length of the response."""
        return self.write(problems)

    def write(self, problems: Problems) -> Batch:
        """Write problems as tokens and marks."""
        device, width = problems.lengths.device, problems.lengths.amax(1, keepdim=True)
        there, count = problems.lengths > 0, problems.lengths.shape[1]
        check_list(count, MAX_NUMBERS)
        # Digits are counted from the most significant, from 1 on.
        nth = torch.arange(1, int(width.max()) + 1, device=device)[None]
        inside, numbers = nth <= width, _most_significant_first(problems.operands, width)
        question, response = [sign_piece(BOS, device)], list[Piece]()
        couplings = list[tuple[Coupling, ...]]()
        for index in range(count):
            present = there[:, index, None]
            if index:  # a comma belongs to the number before it
                question.append(sign_piece(COMMA, device, present, index, width + 1))
            couplings.append(_new_number(index + 1) if index else _listed(1, 1))
            question.append(Piece(numbers[:, index], inside & present, index + 1, nth))
        couplings.append(_compared(2, 1))  # `=`, as all later signs, belongs to the next row
        question.append(sign_piece(EQUALS, device, None, len(couplings), 0))
        for i, (comparisons, sorted_list) in enumerate(_insertions(numbers), start=2):
            present = there[:, i - 1, None]
            rows = [(row, _compared(i, rank)) for rank, row in _from_last_rank(comparisons)]
            rows += [(row, _listed(i, rank)) for rank, row in _from_last_rank(sorted_list)]
            signs = [None if i == 2 else SEMICOLON, *[COLON] * (i - 1), *[COMMA] * (i - 1)]
            for sign, (tokens, levels) in zip(signs, rows, strict=True):
                couplings.append(levels)
                if sign is not None:
                    response.append(sign_piece(sign, device, present, len(couplings), 0))
                response.append(Piece(tokens, inside & present, len(couplings), nth))
        batch = join_pieces(question, response, len(problems), couplings)
        place = torch.where(batch.place == NO_PLACE, NO_PLACE, width - batch.place).int()
        return replace(batch, place=place)

    def read(self, response: Integer[Tensor, "B A"]) -> Integer[Tensor, "B A"]:
        """Return the tokens of the last list, followed by EOS."""
        separator = (response == COLON) | (response == SEMICOLON)
        last_list, inside = read_after_last(response, separator)
        return torch.where(inside, last_list, EOS)


def _new_number(i: int) -> tuple[Coupling, ...]:
    """Return the couplings of number i and of the comma after it."""
    return (4 * i - 3, 4), (2 * i, 0), None, (i, 0)


def _compared(i: int, rank: int) -> tuple[Coupling, ...]:
    """Return the couplings of the comparison of number i with the number at a rank."""
    return (4 * i - 1, 4), (2 * i, 0), (rank, 0), (i, 0)


def _listed(i: int, rank: int) -> tuple[Coupling, ...]:
    """Return the couplings of the number at a rank in the list of the first i numbers."""
    return (4 * i, 4), (2 * i + 1, 0), (rank, 0), None


def _from_last_rank(rows: Integer[Tensor, "B M K"]) -> Iterator[tuple[int, Tensor]]:
    """Yield ranks, which count from 1 on, with their rows, last rank first."""
    return ((rank, rows[:, rank - 1]) for rank in range(rows.shape[1], 0, -1))


def _insertions(
    numbers: Integer[Tensor, "B M K"],
) -> Iterator[tuple[Integer[Tensor, "B I K"], Integer[Tensor, "B J K"]]]:
    """Yield the comparisons of each number after the first, and the list with it, largest first."""
    sorted_list = numbers[:, :1].long()
    for new in numbers[:, 1:].long().unbind(1):
        new = new[:, None]
        order = _sign_of_first_difference(sorted_list - new)
        comparisons = torch.tensor([LESS, SAME, MORE], device=order.device)[order + 1]
        rank = (order[:, :, -1:] >= 0).sum(1, keepdim=True)  # of the new number, from 0 on
        index = torch.arange(sorted_list.shape[1] + 1, device=order.device)[:, None]
        shifted = torch.cat([new, sorted_list], dim=1)
        kept = torch.cat([sorted_list, new], dim=1)
        sorted_list = torch.where(index < rank, kept, torch.where(index == rank, new, shifted))
        yield comparisons, sorted_list


def _sign_of_first_difference(difference: Integer[Tensor, "B M K"]) -> Integer[Tensor, "B M K"]:
    """Return the sign of the first difference up to each digit."""
    differs = difference != 0
    return (difference.sign() * (differs & (differs.cumsum(2) == 1))).cumsum(2)


def _most_significant_first(
    digits: Integer[Tensor, "B M N"], width: Integer[Tensor, "B 1"]
) -> Integer[Tensor, "B M K"]:
    """Return the digits of numbers, padded with zeros to a width, most significant first."""
    nth = torch.arange(int(width.max()), device=width.device)
    place = (width - 1 - nth).clamp(min=0)[:, None].expand(-1, digits.shape[1], -1)
    return digits.gather(2, place)
