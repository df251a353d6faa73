"""A list sorted by insertion, its steps written out: `^57,08,61=++:08,57;--:--:08,57,61$`.

The first number is a sorted list of one. Each of the others, a newcomer, is compared with the
numbers of the list, the smallest first, and then the list is written with it. A comparison has a
symbol for each digit, the highest first: up to there a number of the list is less than the newcomer
(`-`), or more (`+`), or they are the same (`|`). No step needs more than what is near:

    a symbol    the one before it, and the next digits of both numbers
    a digit     one of three next digits: that of the number at this rank of the list before, that
                of the number at the next higher rank, and the newcomer's; comparisons tell which
    an end      no digit is next; a list ends with the largest number, which no comparison with a
                higher one stands behind, and all ends with a newcomer that has no comma behind it

Ids of four levels show just that.

digits    ^   5  7  ,   0  8  ,   6  1   =  +  +   :  0  8   ,  5  7   ;  -  -   :  -  -   :  0  8
level 1   0   9 13 17  10 14 18  14 18   8 12 16   9 13 17   9 13 17  12 16 20  12 16 20  13 17 21
level 2   0   4  4  4   5  5  5   7  7   5  5  5   6  6  6   6  6  6   7  7  7   7  7  7   8  8  8
level 3   0   2  2  2   0  0  0   0  0   2  2  2   3  3  3   2  2  2   3  3  3   2  2  2   4  4  4
level 4   0   0  0  0   3  3  3   4  4   3  3  3   0  0  0   0  0  0   4  4  4   4  4  4   0  0  0

1   when it is read: a digit 4 after the one before it, and 4 after that of the list before; the
    same digit of a comparison 1 sooner and of the newcomer 3 sooner, so that a window shows what is
    next and hides what has been read (but for comparisons, by which a list sees its end)
2   twice the newcomer's index, and the list with it 1 above
3   the rank, counted from the largest, so that a list is written from the last rank to the first
4   the newcomer's index, for itself and its comparisons, which so do not see those before them
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.config.settings import SettingsError
from carry.data.batch import NO_PLACE, Batch
from carry.data.problems import Problems
from carry.formats import ALPHABET, BOS, EOS, EQUALS, Extent, Format, Piece, join, symbol, together
from carry.tasks import Line
from carry.tasks.sorting import Sorting

LESS, SAME, MORE = map(ALPHABET.index, "-|+")
COMMA, COLON, SEMICOLON = map(ALPHABET.index, ",:;")
MOST = 255  # numbers of a list, which has as many rows as their square: `join` counts 16 bits


class InsertionSort(Format):
    """Numbers with zeros up to the longest, the highest digit first, and their sorted lists.

    >>> from carry.formats import build, text
    >>> from carry.tasks import build as build_task, to_digits
    >>> task = build_task({"name": "sorting"})
    >>> problems = task.solve(*to_digits([[57, 8, 120, 57]]))
    >>> text(build({"name": "insertion_sort"}, task).write(problems).tokens[0])
    '^057,008,120,057=|++:008,057;---:---:008,057,120;|--:|||:+++:008,057,057,120$'
    """

    @property
    def has_steps(self) -> bool:
        """Comparisons and shorter lists stand before the sorted list."""
        return True

    @property
    def levels(self) -> int:
        """When, in which column, at which rank, by which newcomer."""
        return 4

    def incompatibility(self) -> str | None:
        """Refuse all but arrays."""
        if not isinstance(self.task, Sorting):
            name = type(self.task).__name__
            return f"'insertion_sort' sorts, and {name} asks for something else; expected 'sorting'"
        return None

    def symbols(self) -> int:
        """Return the digits and the signs."""
        return max(LESS, SAME, MORE, COMMA, COLON, SEMICOLON) + 1

    def extent(self, digits: int) -> Extent:
        """Return the longest number, the tokens of the longest problem, and how far levels count.

        That problem is written down and measured.
        """
        lengths = self.task.largest(digits)
        nines = torch.full((*lengths.shape, digits), 9, dtype=torch.uint8)
        batch = self.write(self.task.solve(nines, lengths))
        return Extent(digits, int(batch.length), tuple((batch.levels[0].amax(0) + 1).tolist()))

    def write_open_ended(self, problems: Problems) -> Batch:
        """Write the problems: how long all of it is depends on the question alone."""
        return self.write(problems)

    def write(self, problems: Problems) -> Batch:
        """Write problems as tokens and marks.

        Raises:
            SettingsError: for longer lists than can be written.
        """
        device, width = problems.lengths.device, problems.lengths.amax(1, keepdim=True)
        there, count = problems.lengths > 0, problems.lengths.shape[1]
        if count > MOST:
            raise SettingsError(
                f"format: a list of {count} numbers has too many steps; expected at most {MOST}"
            )
        nth = torch.arange(1, int(width.max()) + 1, device=device)[None]  # digit, the highest first
        inside, numbers = nth <= width, _highest_first(problems.operands, width)
        pieces, lines = [symbol(BOS, device)], list[tuple[Line, ...]]()
        for index in range(count):
            present = there[:, index, None]
            if index:  # a comma goes with the number before it
                pieces += [symbol(COMMA, device, present, index, width + 1)]
            lines += [_newcomer(index + 1) if index else _listed(1, 1)]
            pieces += [Piece(numbers[:, index], inside & present, index + 1, nth)]
        lines += [_compared(2, 1)]  # as any other sign, `=` goes with the row behind it
        pieces += [symbol(EQUALS, device, None, len(lines), 0)]
        for i, (compared, listed) in enumerate(_insertions(numbers), start=2):
            present = there[:, i - 1, None]
            rows = [(of, _compared(i, rank)) for rank, of in _from_the_last(compared)]
            rows += [(of, _listed(i, rank)) for rank, of in _from_the_last(listed)]
            signs = [None if i == 2 else SEMICOLON, *[COLON] * (i - 1), *[COMMA] * (i - 1)]
            for sign, (tokens, line) in zip(signs, rows, strict=True):
                lines += [line]
                if sign is not None:
                    pieces += [symbol(sign, device, present, len(lines), 0)]
                pieces += [Piece(tokens, inside & present, len(lines), nth)]
        pieces += [symbol(EOS, device)]
        tokens, (number, at, levels), total = join(pieces, len(problems), device, lines)
        place = torch.where(at == NO_PLACE, at, width - at).int()
        start = there.sum(1) * (width[:, 0] + 1) + 1
        return Batch(tokens, number, place, levels, start, total)

    def read(self, response: Integer[Tensor, "B A"]) -> Integer[Tensor, "B A"]:
        """Return the last list as it is written; behind its end stands EOS."""
        at = torch.arange(response.shape[1], device=response.device)
        inside = (response == EOS).cumsum(1) == 0
        sign = inside & ((response == COLON) | (response == SEMICOLON))
        begins = torch.where(sign, at + 1, 0).amax(1, keepdim=True)
        listed, inside = together(response, inside & (at >= begins))
        return torch.where(inside, listed, EOS)


def _newcomer(i: int) -> tuple[Line, ...]:
    """Return what the digits of number i, and the comma behind it, are coupled by."""
    return (4 * i - 3, 4), (2 * i, 0), None, (i, 0)


def _compared(i: int, rank: int) -> tuple[Line, ...]:
    """Return what the comparison of number i with that of a rank is coupled by."""
    return (4 * i - 1, 4), (2 * i, 0), (rank, 0), (i, 0)


def _listed(i: int, rank: int) -> tuple[Line, ...]:
    """Return what the number of a rank is coupled by, in the list of the first i."""
    return (4 * i, 4), (2 * i + 1, 0), (rank, 0), None


def _from_the_last(rows: Integer[Tensor, "B M K"]) -> Iterator[tuple[int, Tensor]]:
    """Yield ranks, which count from 1 on, with the rows that stand there."""
    return ((rank, rows[:, rank - 1]) for rank in range(rows.shape[1], 0, -1))


def _insertions(
    numbers: Integer[Tensor, "B M K"],
) -> Iterator[tuple[Integer[Tensor, "B I K"], Integer[Tensor, "B J K"]]]:
    """Yield the comparisons of each number but the first, and the list with it, largest first.

    >>> for compared, listed in _insertions(torch.tensor([[[5, 7], [0, 8]]])):
    ...     print([ALPHABET[symbol] for symbol in compared.flatten()], listed.tolist())
    ['+', '+'] [[[5, 7], [0, 8]]]
    """
    listed = numbers[:, :1].long()
    for new in numbers[:, 1:].long().unbind(1):
        new = new[:, None]
        found = _first_sign(listed - new)
        symbols = torch.tensor([LESS, SAME, MORE], device=found.device)[found + 1]
        rank = (found[:, :, -1:] >= 0).sum(1, keepdim=True)  # the newcomer's, from 0 on
        at = torch.arange(listed.shape[1] + 1, device=found.device)[:, None]
        higher, lower = torch.cat([new, listed], dim=1), torch.cat([listed, new], dim=1)
        listed = torch.where(at < rank, lower, torch.where(at == rank, new, higher))
        yield symbols, listed


def _first_sign(difference: Integer[Tensor, "B M K"]) -> Integer[Tensor, "B M K"]:
    """Return the sign of the first difference up to each digit.

    >>> _first_sign(torch.tensor([[[0, -3, 5, 0]]])).tolist()
    [[[0, -1, -1, -1]]]
    """
    differs = difference != 0
    return (difference.sign() * (differs & (differs.cumsum(2) == 1))).cumsum(2)


def _highest_first(
    digits: Integer[Tensor, "B M N"], width: Integer[Tensor, "B 1"]
) -> Integer[Tensor, "B M K"]:
    """Return the digits of numbers with zeros up to a width.

    >>> _highest_first(torch.tensor([[[7, 5, 0], [8, 0, 0]]]), torch.tensor([[2]])).tolist()
    [[[5, 7], [0, 8]]]
    """
    nth = torch.arange(int(width.max()), device=width.device)
    place = (width - 1 - nth).clamp(min=0)[:, None].expand(-1, digits.shape[1], -1)
    return digits.gather(2, place)
