"""Programs of attention and feed-forward steps: which formats a fixed depth can add at any length.

RASP (Weiss et al. 2021; RASP-L, Zhou et al. 2023) describes what a transformer can compute, at
every length, without weights: a value at each token, functions of the values at one token
(feed-forward networks), and means over the earlier tokens that a query selects (attention). A
program here predicts the token after each token, and counts its layers of attention. It exists, so
the format is realizable with this depth; training may still not find it (ibrahimli2024, 2.3).

    both reversed    $321+654=975$     each digit needs its own place and the one before it
    answer reversed  $123+456=975$     the same, and the length of the operands
    plain            $123+456=579$     each digit needs the nearest lower place whose sum is not 9

The operands have equal lengths. Ranks of digits in their numbers are `given`, by the ids of a
position scheme such as Abacus; or they are `counted`, which needs no position encoding, two more
layers, and attention weights of 1 / n. Counting skips random spaces; ids that restart at a space do
not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

Ranks = Literal["given", "counted"]
Order = Literal["both reversed", "answer reversed", "plain"]
END = 10  # predicted in place of a digit


@dataclass(frozen=True)
class Values:
    """A value at each of T tokens, and how many layers of attention it takes."""

    at: np.ndarray
    depth: int = 0


class Selection(NamedTuple):
    """The tokens that each token attends to, itself or earlier ones: rows are queries."""

    seen: np.ndarray
    depth: int


def feed(function: Callable[..., np.ndarray], *inputs: Values) -> Values:
    """Return a function of the values at each token, as a feed-forward network computes it."""
    return Values(function(*(x.at for x in inputs)), max(x.depth for x in inputs))


def select(
    match: Callable[..., np.ndarray], queries: Sequence[Values], keys: Sequence[Values]
) -> Selection:
    """Return which keys match each query; `match` takes the values of queries, then of keys.

    >>> letters = Values(np.array(list("abab")))
    >>> select(lambda q, k: q == k, [letters], [letters]).seen.astype(int).tolist()
    [[1, 0, 0, 0], [0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1]]
    """
    found = match(*(x.at[:, None] for x in queries), *(x.at[None] for x in keys))
    return Selection(np.tril(found), max(x.depth for x in [*queries, *keys]))


def count(selection: Selection) -> Values:
    """Return the number of selected tokens: the inverse of the weight of one of them."""
    return Values(selection.seen.sum(1), selection.depth + 1)


def total(selection: Selection, values: Values) -> Values:
    """Return the sum of the values of the selected tokens: their mean times their number."""
    return Values(selection.seen @ values.at, max(selection.depth, values.depth) + 1)


class Text(NamedTuple):
    """The values of tokens: digits (0 for signs), what is a digit, and ranks of digits.

    `number`: the signs so far, so the operands have 0 and 1, and the answer and its `=` have 2.
    `rank`: of a digit in its number, from the left; -1 at signs; a space has that of the digit
    before it. `next`: the rank of the next digit
    of the answer.
    """

    digit: Values
    is_digit: Values
    number: Values
    rank: Values
    next: Values


def read(text: str, ranks: Ranks) -> Text:
    """Return the values of the tokens of a problem.

    >>> read("$1 2+34=46$", "counted").rank.at.tolist()
    [-1, 0, 0, 1, -1, 0, 1, -1, 0, 1, 1]
    """
    tokens = np.array([*text])
    is_digit = Values(np.char.isdigit(tokens))
    digit = Values(np.where(is_digit.at, np.char.find("0123456789", tokens), 0))
    is_sign = Values(np.isin(tokens, [*"+="]))
    number = count(select(lambda query, sign: sign & (query == query), [is_sign], [is_sign]))
    rank = count(select(lambda mine, of, digit: (mine == of) & digit, [number], [number, is_digit]))
    rank = feed(lambda found: found - 1, rank)
    if ranks == "given":  # by ids, which are there before the first layer
        rank = Values(rank.at)
    return Text(digit, is_digit, number, rank, feed(lambda rank: rank + 1, rank))


def operand_digits(text: Text, rank: Values, answer: int = 2) -> tuple[Values, Values]:
    """Return the sum of the digits with a rank in the operands, and how many there are.

    Args:
        rank: which rank each token asks for.
        answer: the number of the answer.
    """
    of_operands = select(
        lambda wanted, rank, number, digit: (wanted == rank) & (number < answer) & digit,
        [rank],
        [text.rank, text.number, text.is_digit],
    )
    return total(of_operands, text.digit), count(of_operands)


def copy(text: str, mirrored: bool, ranks: Ranks) -> Values:
    """Return the digit that follows each token of a copy and its `=`, or `END`.

    Args:
        mirrored: the copy is in reverse order, for which its length has to be counted.

    >>> [copy("$123=321$", True, ranks).at[4:].tolist() for ranks in ("given", "counted")]
    [[3, 2, 1, 10, 10], [3, 2, 1, 10, 10]]
    """
    values = read(text, ranks)
    wanted = mirror(values, values.next) if mirrored else values.next
    digit, found = operand_digits(values, wanted, answer=1)
    return feed(lambda digit, found: np.where(found == 1, digit, END), digit, found)


def mirror(text: Text, rank: Values) -> Values:
    """Return the ranks from the other end of the first operand, after its end."""
    of_first = select(
        lambda mine, number, digit: (number == 0) & digit & (mine >= 0),
        [text.number],
        [text.number, text.is_digit],
    )
    return feed(lambda length, rank: length - 1 - rank, count(of_first), rank)


def add(text: str, order: Order, ranks: Ranks) -> Values:
    """Return the digit that follows each token of the answer and its `=`, or `END`.

    Values at other tokens mean nothing.

    >>> add("$95+17=211$", "answer reversed", "counted").at[6:].tolist()
    [2, 1, 1, 10, 10]
    >>> [add("$95+17=112$", "plain", ranks).depth for ranks in ("given", "counted")]
    [6, 7]
    """
    values = read(text, ranks)
    return _add_plain(values) if order == "plain" else _add_reversed(values, order)


def _add_reversed(text: Text, order: Order) -> Values:
    """Add from the least significant place: the last written digit tells the carry."""
    wanted, below = text.next, text.rank
    if order == "answer reversed":
        wanted, below = mirror(text, wanted), mirror(text, below)
    (own, found), (lower, lower_found) = (operand_digits(text, rank) for rank in (wanted, below))

    def write(own, found, lower, lower_found, written, rank):
        carry = (rank >= 0) & ((lower > 9) | ((lower == 9) & (written == 0))) & (lower_found == 2)
        return np.where(found == 2, (own + carry) % 10, np.where(carry, 1, END))

    return feed(write, own, found, lower, lower_found, text.digit, text.rank)


def _add_plain(text: Text) -> Values:
    """Add from the most significant place: the carry comes from the nearest sum that is not 9."""
    own, found = operand_digits(text, text.rank)  # both digits at the tokens of the second operand
    decides = feed(
        lambda own, found, number, digit: (found == 2) & (own != 9) & (number == 1) & digit,
        *(own, found, text.number, text.is_digit),
    )
    # How many sums to the left are not 9: the name of the next one.
    left = feed(
        lambda among, own: among - own,
        count(select(lambda query, sums: sums & (query == query), [decides], [decides])),
        decides,
    )

    def is_carried(passed: Values) -> Values:
        """Return whether the sum that decides, after so many others, is 10 or more."""
        deciding = select(
            lambda passed, sums, left: sums & (passed == left), [passed], [decides, left]
        )
        return feed(lambda sums: sums > 9, total(deciding, own))

    overflow = is_carried(Values(np.zeros_like(own.at)))
    place = feed(lambda rank, overflow: rank - overflow, text.next, overflow)
    here = select(
        lambda place, rank, number, digit: (place == rank) & (number == 1) & digit,
        [place],
        [text.rank, text.number, text.is_digit],
    )
    passed = feed(lambda left, own: left + own, total(here, left), total(here, decides))
    carry = is_carried(passed)

    def write(place, digits, here, carry):
        return np.where(place < 0, 1, np.where(here == 1, (digits + carry) % 10, END))

    return feed(write, place, total(here, own), count(here), carry)


def list_depths(lengths: Sequence[int], draws: int = 3) -> pd.DataFrame:
    """Return for each format and kind of ranks the depth, and the share of answers that are right.

    Args:
        lengths: of both operands, in digits.
        draws: random sums of each length; sums with the longest carry are always added.

    >>> list_depths([1, 30])[["order", "ranks", "depth", "right"]].values.tolist()[:3]
    [['both reversed', 'given', 2, 1.0], ['both reversed', 'counted', 3, 1.0], \
['answer reversed', 'given', 3, 1.0]]
    """
    rng, rows = np.random.default_rng(0), []
    for order in ("both reversed", "answer reversed", "plain"):
        for ranks in ("given", "counted"):
            right, depths = [], set()
            for length in lengths:
                pairs = [(10**length - 1, 1), (10**length - 1, 10**length - 1)]
                pairs += [
                    tuple(int("".join(map(str, rng.integers(1, 10, length)))) for _ in range(2))
                    for _ in range(draws)
                ]
                for first, second in pairs:
                    text = write_sum(first, second, length, order)
                    predicted = add(text, order, ranks)
                    start = text.index("=")
                    due = [END if token == "$" else int(token) for token in text[start + 1 :]]
                    right.append(predicted.at[start:-1].tolist() == due)
                    depths.add(predicted.depth)
            (depth,) = depths
            rows.append([order, ranks, depth, max(lengths), len(right), float(np.mean(right))])
    return pd.DataFrame(rows, columns=["order", "ranks", "depth", "longest", "n", "right"])


def write_sum(first: int, second: int, length: int, order: Order) -> str:
    """Write a sum of two numbers with leading zeros to a length.

    >>> write_sum(123, 9, 3, "answer reversed")
    '$123+009=231$'
    """
    operands, answer = (f"{first:0{length}}", f"{second:0{length}}"), str(first + second)
    answer = answer.zfill(length)
    if order == "both reversed":
        operands = tuple(operand[::-1] for operand in operands)
    return f"${operands[0]}+{operands[1]}={answer if order == 'plain' else answer[::-1]}$"
