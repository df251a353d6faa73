"""Few short problems that have every local context that problems of any size have.

A step looks at some places in a row, at the carry that comes into them (seen by what is written
there) and at which numbers have ended. So all digits are tried at the places that are looked at,
below them one string of digits for each carry that can come in, and above them only what keeps a
number from ending:

    place        3 2 1 0
    a            1 0 7 9      a goes on above, and its places 1 and 2 are tried
    b              4 2 9      b ends with the places that are tried
                     |
                     a carry comes in

What stands further below or above is hidden from that step: a longer problem has no other contexts.
Neither has a sum in a line of text and other sums, if windows show none of what is drawn.
`tests/test_certificates.py` looks for one that has, among random long ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from carry.certificates.contexts import contexts, keys, reach
from carry.config.settings import SettingsError, suggest_name
from carry.data.batch import NO_LEVEL, Batch
from carry.data.problems import Problems
from carry.formats.insertion_sort import InsertionSort
from carry.formats.line import Line
from carry.formats.scratchpad import Scratchpad
from carry.models.system import System
from carry.positions.abacus import Abacus
from carry.positions.coupled import Coupled
from carry.randomness import stream
from carry.tasks import Task
from carry.tasks.addition import Addition
from carry.tasks.bitwise_or import BitwiseOr
from carry.tasks.copying import Copying
from carry.tasks.multi_operand_addition import MultiOperandAddition
from carry.tasks.multiplication import Multiplication

CHUNK = 50_000  # problems that are written at once
MOST = 20_000_000  # problems in all
SHORT = 10_000  # problems with random text around them, where that is seen
DIGITS, BITS = tuple(range(10)), (0, 1)  # that are tried


class TooMany(Exception):
    """There are more contexts than can be enumerated."""


class Covered(NamedTuple):
    """Problems, true or not, and which of their response's tokens are looked at."""

    batch: Batch
    wanted: Bool[Tensor, "B A"]
    problems: Problems | None = None  # None: they are made up, see `_sums_of_products`


def cover(system: System) -> Iterator[Covered]:
    """Yield problems whose contexts are those of all problems of the run's task and format.

    Raises:
        SettingsError: for a task whose contexts nobody has enumerated.
        TooMany: for windows that show too much for that, or a way to write problems whose contexts
            are others.
    """
    name = system.run.task["name"]
    if name not in COVERINGS:
        raise SettingsError(
            f"runs.{system.run.name}.task.name: {name!r} has no covering, "
            f"{suggest_name(name, COVERINGS)}"
        )
    if _shows_what_is_drawn(system):
        yield _short(system)
        raise TooMany
    if not _is_enumerated(system):
        raise TooMany
    yield from COVERINGS[name](system)


def _chunks(
    system: System,
    parts: Iterator[tuple[Problems, Integer[Tensor, " B"]]],
    row: int | None = None,
) -> Iterator[Covered]:
    """Write problems, and look at what stands at given places, and in a given row if there is one.

    Level 1 counts places, from the sign below the ones on, and level 2 rows.
    """
    for problems, places in parts:
        for rows in torch.arange(len(problems)).split(CHUNK):
            batch = system.format.write(problems[rows].trim())
            at, _, _ = batch.response()
            wanted = batch.levels[:, :, 0].gather(1, at) == places[rows, None] + 1
            if row is not None:
                wanted &= batch.levels[:, :, 1].gather(1, at) == row
            yield Covered(batch, wanted, problems[rows])


class Numbers(NamedTuple):
    """Digits of one number that are tried, the lowest place first, and how long it then is."""

    digits: Integer[Tensor, "O W"]
    length: Integer[Tensor, " O"]  # 0: it has ended before the first of these places


def tried(width: int, each: Sequence[int], lowest: bool, leading_zeros: bool) -> Numbers:
    """Return all that a number may have at some places in a row.

    Args:
        width: how many places.
        each: the digits that there are.
        lowest: the first of them is that of the ones, which every number has.
        leading_zeros: a number may begin with zeros.

    >>> tried(1, BITS, lowest=False, leading_zeros=False)
    Numbers(digits=tensor([[0, 0],
            [0, 1],
            [1, 0]]), length=tensor([0, 2, 1]))
    """
    digits, lengths = [], []
    for length in range(1 if lowest else 0, width + 1):
        for some in itertools.product(each, repeat=length):
            own = [*some, *[0] * (width + 1 - length)]
            led = not length or some[-1] or leading_zeros or (lowest and length == 1)
            if not led and length == width:  # it goes on above
                digits, lengths = [*digits, [*own[:width], 1]], [*lengths, width + 1]
            elif led:
                digits, lengths = [*digits, own], [*lengths, length]
    shape = (-1, width + 1)
    return Numbers(torch.tensor(digits).view(shape), torch.tensor(lengths))


def columns(
    task: Task,
    count: int,
    sides: tuple[int, int],
    below: Sequence[Sequence[int]],
    digits: Sequence[int] | None = None,
    beyond: int = 1,
    more: Sequence[int] = (),
) -> Iterator[tuple[Problems, Integer[Tensor, " B"]]]:
    """Yield problems of `count` numbers that are tried at each place, and that place.

    Args:
        sides: how many places below and above a step looks.
        below: digits for each number below what is tried: one list for each carry that comes in.
        digits: those that are tried (default: all).
        beyond: so many places from the ones on differ from those above them, as the first token or
            the signs are seen from there.
        more: further operands, the same in all problems.
    """
    behind, ahead = sides
    for place in range(-1, behind + beyond + 1):
        low, high = max(0, place - behind), place + ahead
        if high < 0:
            continue
        if len(digits or DIGITS) ** ((high - low + 1) * count) > MOST:
            raise TooMany
        each = tried(high - low + 1, digits or DIGITS, low == 0, task.leading_zeros)
        picks = torch.cartesian_prod(*[torch.arange(len(each.length))] * count).view(-1, count)
        for carry in below if low else [[0] * count]:
            for some in picks.split(CHUNK):
                under = torch.tensor(carry)[None, :, None].expand(len(some), -1, low)
                operands = torch.cat([under, each.digits[some]], dim=2).to(torch.uint8)
                lengths = low + each.length[some]
                for number in more:
                    operands, lengths = _with(operands, lengths, number)
                problems = task.solve(operands, lengths)
                yield problems, torch.full((len(problems),), place)


def _with(digits: Tensor, lengths: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """Add an operand of one digit."""
    shape = (len(digits), 1, digits.shape[2])
    own = torch.zeros(shape, dtype=digits.dtype)
    own[:, :, 0] = number
    return torch.cat([digits, own], dim=1), torch.nn.functional.pad(lengths, (0, 1), value=1)


def _sums(system: System) -> Iterator[Covered]:
    """Two numbers: what comes in from below is a carry or none."""
    parts = columns(system.task, 2, _in_place(system), [[1, 1], [9, 9]], beyond=_clip(system))
    yield from _chunks(system, parts)


def _bits(system: System) -> Iterator[Covered]:
    """Two vectors with a single one, which may stand where the step looks, below it or above."""
    behind, ahead = _in_place(system)
    below = [[0, 0], [1, 0], [0, 1]]
    parts = columns(system.task, 2, (behind, ahead + 1), below, digits=BITS, beyond=_clip(system))
    yield from _chunks(system, _filtered(parts, _one_of_the_shorter))


def _strings(system: System) -> Iterator[Covered]:
    """One string, of which nothing comes in."""
    sides = _in_place(system)
    yield from _chunks(system, columns(system.task, 1, sides, [[0]], beyond=_clip(system)))


def _parities(system: System) -> Iterator[Covered]:
    """One string of bits, of which an even or an odd number stand below."""
    sides = _in_place(system)
    parts = columns(system.task, 1, sides, [[0], [1]], digits=BITS, beyond=_clip(system))
    yield from _chunks(system, parts)


def _running_sums(system: System) -> Iterator[Covered]:
    """Three numbers: a sum of two, the first of which is as any sum may be, and what follows.

    The sum before the first two is theirs for any other; behind the third number there may be more.
    """
    sides = _in_place(system)
    _check_reach(system, [None, (1, 0)])
    for count, more, row in ((2, [], None), (2, [1], None), (3, [], 2), (3, [1], 2)):
        below = [[1] * count, [9, 9, 1][:count]]
        parts = columns(system.task, count, sides, below, more=more)
        yield from _chunks(system, parts, row)


def _products(system: System) -> Iterator[Covered]:
    """The products of one number with a digit of another, then the sums of these."""
    _check_reach(system, [(0, 1), (1, 0), (0, 1), (1, 0)])
    yield from _digit_products(system)
    yield from _sums_of_products(system)


def _digit_products(system: System) -> Iterator[Covered]:
    """Two places of a number, times a digit of another; the digits beside that are seen as well.

    Of the digits below no more is seen than what they carry, in this row and the one before it.
    """
    task, ends = system.task, [None, *DIGITS]
    for before, own, behind in itertools.product(ends, DIGITS, ends):
        b = [of for of in (before, own, behind, 1 if behind == 0 else None) if of is not None]
        if len(b) > 1 and not b[-1]:
            continue
        row = 0 if before is None else 1
        parts = []
        for below in [None, *carries(own, 0 if before is None else before)]:
            low = 0 if below is None else len(below)
            each = tried(1 if below is None else 2, DIGITS, not low, False)
            under = torch.tensor(below or [], dtype=torch.long).expand(len(each.length), -1)
            a = torch.cat([under, each.digits], dim=1)
            parts.append((a, low + each.length, -1 if below is None else low))
        width = max(len(b), *(a.shape[1] for a, _, _ in parts))
        a = torch.cat([torch.nn.functional.pad(a, (0, width - a.shape[1])) for a, _, _ in parts])
        second = torch.tensor([*b, *[0] * (width - len(b))]).expand(len(a), -1)
        lengths = torch.cat([length for _, length, _ in parts])
        lengths = torch.stack([lengths, torch.full_like(lengths, len(b))], dim=1)
        problems = task.solve(torch.stack([a, second], dim=1).to(torch.uint8), lengths)
        places = torch.cat([torch.full((len(a),), place) for a, _, place in parts])
        yield from _chunks(system, iter([(problems, places)]), row + 1)


def carries(own: int, before: int) -> list[list[int]]:
    """Return digits, the ones first, for each pair of carries that they can make in two rows.

    The rows are their products with two digits. No carry is made by no digit, and by a one.

    >>> carries(2, 1)
    [[], [1], [5]]
    """
    found: dict[tuple[int, int], list[int]] = {(0, 0): []}
    waiting = [(0, 0)]
    while waiting:
        one, other = state = waiting.pop(0)
        for digit in range(10):
            after = (digit * own + one) // 10, (digit * before + other) // 10
            if after not in found:
                found[after] = [*found[state], digit]
                waiting.append(after)
    return [[], [1], *(digits for digits in found.values() if digits)]


def _insertions(system: System) -> Iterator[Covered]:
    """A newcomer and two numbers of a list, or one, and what follows.

    Of digits that have been read no more is seen than how the numbers compare, and the one written
    last: any order with any digit. Lists of three and four differ in their signs alone, which stand
    before all digits.
    """
    _check_reach(system, [(1, 3), (2, 0), (1, 0), (0, 0)])
    for count in range(1, 5):
        yield _sorted(system, _all(DIGITS, count)[:, :, None])
    for count in (2, 3):
        ranks = _all(range(count), count)
        for own in DIGITS:
            read = torch.stack([ranks, torch.full_like(ranks, own)], dim=2)
            yield _sorted(system, read)
            yield _sorted(system, torch.nn.functional.pad(read, (0, 0, 0, 1)))  # one more follows
            due = _all(DIGITS, count)[:, :, None]
            for some in read:
                whole = torch.cat([some.expand(len(due), -1, -1), due], dim=2)
                yield _sorted(system, whole, place=1)


def _all(each: Sequence[int], count: int) -> Integer[Tensor, "P C"]:
    """Return all numbers of so many digits."""
    return torch.cartesian_prod(*[torch.tensor(each)] * count).view(-1, count)


def _sorted(system: System, numbers: Integer[Tensor, "P M K"], place: int | None = None) -> Covered:
    """Sort numbers, the highest digit first, and look at what stands at a place, or everywhere."""
    lengths = torch.full(numbers.shape[:2], numbers.shape[2])
    problems = system.task.solve(numbers.flip(2).to(torch.uint8), lengths)
    batch = system.format.write(problems)
    at, _, wanted = batch.response()
    if place is not None:
        wanted = wanted & (batch.place.gather(1, at) == place)
    return Covered(batch, wanted, problems)


class Tried(NamedTuple):
    """A digit of the sum so far, of the product that is added to it, or of the one after that."""

    which: str
    place: int
    digits: tuple[int, ...]


def _sums_of_products(system: System) -> Iterator[Covered]:
    """A sum so far and the product that is added to it, both with any digits, and what follows.

    Some of these numbers may come of no problem: what is right on all is right on those that do.
    """
    known = set()
    for long, row, more in itertools.product(range(1, 5), range(5), [False, True]):
        for at in range(-1, long + row + 1):
            free, carried = _digits_seen(long, row, more, at), at > row > 0
            zero = torch.zeros(1, len(free), dtype=torch.long)
            one = _sum_of_products(system, long, row, more, at, free, zero)
            key = keys(system, contexts(system, one.batch, one.wanted))[0]
            kind = *sorted(key[key >= 0].tolist()), *(of.digits for of in free), carried
            if kind not in known:  # in larger problems all is as in a smaller one
                known.add(kind)
                axes = [of.digits for of in free] + [(0, 1)] * carried
                picks = torch.cartesian_prod(*map(torch.tensor, axes)).view(-1, len(axes))
                for some in picks.split(CHUNK):
                    yield _sum_of_products(system, long, row, more, at, free, some)


def _digits_seen(long: int, row: int, more: bool, at: int) -> list[Tried]:
    """Return the digits at a place and the next that are seen when sum `row` is written.

    Args:
        long: the digits of the first number.
        more: another row follows.
        at: the lower of the two places.
    """
    places = {
        "sum": range(long + row if row else 0),
        "own": range(row, row + long + 1),
        "next": range(row + 1, row + long + 2) if more else range(0),
    }
    highest = tuple(digit for digit in DIGITS if digit < 9)  # of a product with a digit
    return [
        Tried(which, place, highest if which != "sum" and place == of[-1] else DIGITS)
        for which, of in places.items()
        for place in (at, at + 1)
        if place in of
    ]


def _sum_of_products(
    system: System,
    long: int,
    row: int,
    more: bool,
    at: int,
    free: list[Tried],
    picks: Integer[Tensor, "P F"],
) -> Covered:
    """Return sums `row` for some digits that are tried; one column more is a carry into them."""
    lengths = torch.tensor([[long, row + 1 + more]]).expand(len(picks), -1)
    ones = torch.ones(len(picks), 2, int(lengths.max()), dtype=torch.uint8)
    question, products, sums = system.format.stages(system.task.solve(ones, lengths))
    rows, summed = torch.zeros_like(products.numbers), torch.zeros_like(sums.numbers)
    for of, digit in zip(free, picks.T, strict=False):
        if of.which == "sum":
            summed[:, row - 1, of.place] = digit
        else:
            number = row if of.which == "own" else row + 1
            rows[:, number, of.place - number] = digit
    if picks.shape[1] > len(free):
        rows[:, row, at - 1 - row] = summed[:, row - 1, at - 1] = 9 * picks[:, -1]
    own = torch.zeros(len(picks), long + row + 1, dtype=torch.long)
    own[:, row:] += rows[:, row, : long + 1]
    if row:
        own[:, : long + row] += summed[:, row - 1, : long + row]
    for place in range(long + row):
        own[:, place + 1] += own[:, place] // 10
    summed[:, row, : long + row + 1] = own % 10
    stages = [question, replace(products, numbers=rows), replace(sums, numbers=summed)]
    batch = system.format.laid_out(stages, padded=True)
    slots, _, _ = batch.response()
    level = [batch.levels[:, :, of - 1].gather(1, slots) for of in (1, 3, 4)]
    wanted = (level[0] == NO_LEVEL) & (level[1] == at + 1) & (level[2] == row + 1)
    return Covered(batch, wanted)


def _is_enumerated(system: System) -> bool:
    """Return whether the numbers of a run are written, and their places told, as is assumed here.

    Ids have to count the places of digits: coupled ones do, and Abacus ids where all is written
    with the ones first. Sums have to be written with the ones first, and no number be padded, for
    where a pad ends is not seen; but steps of products, which are as long as can be seen, and
    lists, whose numbers end together.
    """
    form, task = system.format, system.task
    coupled = all(isinstance(of, Coupled) for of in system.schemes)
    if isinstance(form, InsertionSort):
        return coupled
    back = getattr(form, "prefix", "add") == "rev"  # in the other order than the question
    ones_first = not form.reverse_operands if back else getattr(form, "reverse_answer", False)
    if not ones_first:
        return False
    if isinstance(form, Scratchpad):
        local = form.pad if isinstance(task, Multiplication) else not getattr(task, "spare", 0)
        if isinstance(task, MultiOperandAddition):
            local = local and not form.pad
        begins = form.from_zero in (None, task.from_zero)
        return coupled and begins and local and getattr(task, "local", True)
    alone = isinstance(task, Addition | BitwiseOr | Copying) and not task.backwards
    abacus = (
        all(isinstance(of, Abacus) for of in system.schemes) and form.reverse_operands and alone
    )
    padded = getattr(form, "pad", False) or getattr(form, "pad_to", None)
    return (coupled or abacus) and not padded


def _check_reach(system: System, widest: list[tuple[int, int] | None]) -> None:
    """Refuse windows that show more than what is enumerated, or over levels in another order."""
    if [getattr(of, "level", 1) for of in system.schemes] != [*range(1, len(widest) + 1)]:
        raise TooMany
    for own, most in zip(reach(system), widest, strict=True):
        if most is not None and (own[0] > most[0] or own[1] > most[1]):
            raise TooMany


def _shows_what_is_drawn(system: System) -> bool:
    """Return whether a step may see what a format draws: letters, spaces, other sums.

    Coupled ids count no text. A window of 0 over level 2 hides the other sums of a line: whatever
    is counted in a sum is counted at both levels.
    """
    form, each = system.format, [*zip(system.schemes, system.network.encodings, strict=True)]
    lines = isinstance(form, Line)
    if form.has_index_hints or not (lines or form.variable_length):
        return form.has_index_hints
    if not all(isinstance(of, Coupled) for of, _ in each):
        return True
    apart = any(of.level == 2 and felt.window == (0, 0) for of, felt in each)
    return lines and form.sums[1] > 1 and not apart


def _short(system: System) -> Covered:
    """Return many of the shortest problems: two may share a context and go on differently."""
    cells = torch.tensor([system.task.least]).expand(SHORT, -1)
    problems = system.task.sample(cells, stream(0, "short"))
    batch = system.format.write(problems)
    return Covered(batch, batch.response()[2], problems)


def _in_place(system: System) -> tuple[int, int]:
    """Return how far a step looks below and above its place, by the one pair of ids for places."""
    each = zip(system.schemes, reach(system), strict=True)
    sides = [own for scheme, own in each if getattr(scheme, "level", 1) == 1]
    if len(sides) != 1:
        raise TooMany
    return sides[0]


def _clip(system: System) -> int:
    """Return from which place on the first token and the signs are felt as from any further on."""
    felt = [getattr(of, "clip", 0) for of in system.network.encodings if of.absent is None]
    return max([1, *felt])


def _filtered(
    parts: Iterator[tuple[Problems, Integer[Tensor, " B"]]],
    keep: Callable[[Problems], Bool[Tensor, " B"]],
) -> Iterator[tuple[Problems, Integer[Tensor, " B"]]]:
    for problems, places in parts:
        rows = keep(problems)
        if rows.any():
            yield problems[rows], places[rows]


def _one_of_the_shorter(problems: Problems) -> Bool[Tensor, " B"]:
    """Say which problems are the task's own: one bit is set, in the shorter vector."""
    ones, lengths = problems.operands.sum(2), problems.lengths
    shorter = lengths <= lengths.flip(1)
    return (ones.sum(1) == 1) & ((ones == 1) & shorter).any(1)


COVERINGS: dict[str, Callable[[System], Iterator[Covered]]] = {
    "addition": _sums,
    "bitwise_or": _bits,
    "copying": _strings,
    "reversing": _strings,
    "parity": _parities,
    "multi_operand_addition": _running_sums,
    "multiplication": _products,
    "sorting": _insertions,
}
