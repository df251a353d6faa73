"""What is true: operands, answer, and the labelled steps between them."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.config.settings import Settings, SettingsError, choose_class
from carry.data.problems import LABEL_RANGE, Problems

# How a cell (i, j) is drawn for training: `stratified`, all pairs alike (mcleish2024, A.5);
# `equal`, i = j; `random`, half with i and j independent and half with i = j (cho2025, 4.2);
# `longest`, one as long as it can be and the other in half of them, so that padded all are alike.
Sampling = Literal["stratified", "equal", "random", "longest"]

# What operands are called, in answers that list operands.
NAMES = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

# What a digit of a number is coupled by at one level: (at the ones, more for each place), or None.
Line = tuple[int, int] | None


@dataclass(frozen=True)
class Stage:
    """Numbers that a problem writes one behind another, with a sign between them.

    Shapes: B problems, S numbers of at most K digits, the ones first. A number of length 0 is not
    there; `room` is how long each could be, which is how long it is when padded. `lines` has for
    each number what it is coupled by, at each level, and `signs` so for each sign between two, if
    it does not go with the number that it belongs to.
    """

    sign: str
    numbers: Integer[Tensor, "B S K"]
    lengths: Integer[Tensor, "B S"]
    room: Integer[Tensor, "B S"]
    lines: list[tuple[Line, ...]]
    signs: list[tuple[Line, ...]] | None = None


class Task(Settings):
    """A task; its settings are its fields, and its name is its file's.

    A problem lies in a cell (i, j), by which training draws and evaluation counts: the lengths of
    two operands, or whatever two sizes a task has. Steps serve three things from one source: a
    scratchpad is the steps written, a probe's target is the steps predicted, a sub-task's metric
    is the steps scored.
    """

    sign: ClassVar[str]  # what stands between two operands
    in_digits: ClassVar[bool] = True  # the answer is a number, or else a list of operands
    leading_zeros: ClassVar[bool] = False  # 007 is not 7
    least: ClassVar[tuple[int, int]] = (1, 1)  # the smallest cell
    levels: ClassVar[int] = 0  # at which a scratchpad's digits are coupled; 0: it has none
    from_zero: ClassVar[bool | None] = None  # whether sums begin with 0 by default; None: no sums
    backwards: ClassVar[bool] = False  # the answer's lowest digit comes from the highest place
    answer_is_last_digit: ClassVar[bool] = False  # of the scratchpad, or else its last number

    @property
    def numbers(self) -> int | None:
        """How many numbers there are, from 0 on; None: numbers without end."""
        return None

    def count(self, size: int) -> int | None:
        """Return how many problems the cell (size, size) has, told apart by what is written.

        None: it is not known.
        """
        return None

    def every(self) -> tuple[Integer[Tensor, "B 2"], Problems, list[str]]:
        """Return all problems, their cells, and what set each is in, where they are few."""
        name = type(self).__name__
        raise SettingsError(f"every: {name} has problems without end; expected another task")

    @abstractmethod
    def cells(self, count: int, digits: int, generator: torch.Generator) -> Integer[Tensor, "B 2"]:
        """Draw the cells of `count` training problems, both sizes at most `digits`."""

    @abstractmethod
    def operands(
        self, cells: Integer[Tensor, "B 2"], generator: torch.Generator
    ) -> tuple[Integer[Tensor, "B M N"], Integer[Tensor, "B M"]]:
        """Draw operands and their lengths for problems of given cells."""

    @abstractmethod
    def room(self, lengths: Integer[Tensor, "B M"]) -> Integer[Tensor, " B"]:
        """Return how long the answer to operands of these lengths could be."""

    @abstractmethod
    def longest_answer(self, digits: int) -> int:
        """Return the length of the longest answer of all cells up to (digits, digits)."""

    def largest(self, digits: int) -> Integer[Tensor, "1 M"]:
        """Return the lengths of the operands in the cell (digits, digits)."""
        return torch.tensor([[digits, digits]])

    @abstractmethod
    def solve(
        self, operands: Integer[Tensor, "B M N"], lengths: Integer[Tensor, "B M"]
    ) -> Problems:
        """Work out the answers, on the device that holds the operands."""

    @abstractmethod
    def steps(self, problems: Problems) -> dict[str, Integer[Tensor, "B _"]]:
        """Return the labelled steps, by place, the ones first."""

    @abstractmethod
    def oracle(self, *operands: str) -> str:
        """Return the answer as text, from Python's own objects: slow, and surely right."""

    def padded(self, lengths: Integer[Tensor, "B M"]) -> Integer[Tensor, "B M"]:
        """Return how long operands of these lengths are when padded: as the longest of them."""
        return torch.where(lengths > 0, lengths.amax(1, keepdim=True), 0)

    def stages(self, problems: Problems, from_zero: bool) -> list[Stage]:
        """Return what a scratchpad writes: the question, then the steps, the last the answer."""
        raise NotImplementedError(f"{type(self).__name__} has no scratchpad")

    def oracle_stages(self, *operands: str, from_zero: bool) -> list[list[tuple[int, str]]]:
        """Return the numbers of each stage behind the question with their room, slow and sure."""
        raise NotImplementedError(f"{type(self).__name__} has no scratchpad")

    def sample(self, cells: Integer[Tensor, "B 2"], generator: torch.Generator) -> Problems:
        """Draw problems of given cells."""
        return self.labelled(self.solve(*self.operands(cells, generator)), generator)

    def labelled(self, problems: Problems, generator: torch.Generator) -> Problems:
        """Return problems with labels drawn."""
        shape, device = (len(problems),), problems.room.device
        label = torch.randint(LABEL_RANGE, shape, generator=generator, device=device)
        return replace(problems, label=label)

    def draw(self, count: int, digits: int, generator: torch.Generator) -> Problems:
        """Draw training problems of sizes up to `digits`."""
        return self.draw_in_cells(count, digits, generator)[1]

    def draw_in_cells(
        self, count: int, digits: int, generator: torch.Generator
    ) -> tuple[Integer[Tensor, "B 2"], Problems]:
        """Draw training problems of sizes up to `digits`, and say in which cell each lies."""
        cells = self.cells(count, digits, generator)
        return cells, self.sample(cells, generator)

    def check_cell(self, cell: tuple[int, int], where: str) -> None:
        """Refuse a cell that is smaller than the smallest."""
        if cell[0] < self.least[0] or cell[1] < self.least[1]:
            raise SettingsError(f"{where}: {cell} is too small, expected at least {self.least}")

    def solved(
        self,
        operands: Integer[Tensor, "B M N"],
        lengths: Integer[Tensor, "B M"],
        answer: Integer[Tensor, "B K"],
        answer_length: Integer[Tensor, " B"],
    ) -> Problems:
        """Return operands with their answer as problems, whose alphabets begin at the start."""
        room = self.room(lengths)
        return Problems(operands, lengths, answer, answer_length, room, torch.zeros_like(room))


class OfOne(Task):
    """A task on one string of digits; a cell (i, i) is its length."""

    sign: ClassVar[str] = ""
    leading_zeros: ClassVar[bool] = True
    base: ClassVar[int] = 10  # digits are drawn evenly from 0 up to this

    def cells(self, count: int, digits: int, generator: torch.Generator) -> Integer[Tensor, "B 2"]:
        """Draw the lengths of `count` training problems evenly."""
        return draw_cells("equal", count, digits, generator)

    def operands(
        self, cells: Integer[Tensor, "B 2"], generator: torch.Generator
    ) -> tuple[Integer[Tensor, "B 1 N"], Integer[Tensor, "B 1"]]:
        """Draw digits."""
        lengths = cells[:, :1]
        place = torch.arange(int(lengths.max()), device=cells.device)
        shape = (len(cells), 1, len(place))
        digits = torch.randint(self.base, shape, generator=generator, device=cells.device)
        return (digits * (place < lengths[:, :, None])).to(torch.uint8), lengths

    def largest(self, digits: int) -> Integer[Tensor, "1 1"]:
        """Return the one length."""
        return torch.tensor([[digits]])


class OfNumbers(Task):
    """A task on two natural numbers, whose cells are their lengths (mcleish2024, A.3.1, A.5)."""

    sampling: Sampling = "stratified"

    def cells(self, count: int, digits: int, generator: torch.Generator) -> Integer[Tensor, "B 2"]:
        """Draw the lengths (i, j) of `count` training problems."""
        return draw_cells(self.sampling, count, digits, generator)

    def operands(
        self, cells: Integer[Tensor, "B 2"], generator: torch.Generator
    ) -> tuple[Integer[Tensor, "B M N"], Integer[Tensor, "B M"]]:
        """Draw both numbers uniformly among those of their lengths."""
        return draw_numbers(cells, generator), cells

    def count(self, size: int) -> int:
        """Return the pairs of numbers of this length, of which only 0 begins with a zero.

        >>> [build({"name": "addition"}).count(size) for size in (1, 2, 3)]
        [100, 8100, 810000]
        """
        return (10 if size == 1 else 9 * 10 ** (size - 1)) ** 2


def build(settings: dict[str, Any], where: str = "task") -> Task:
    """Return the task that `settings` names.

    >>> build({"name": "addition"}).oracle("999", "1")
    '1000'
    """
    settings = dict(settings)
    if "name" not in settings:
        raise SettingsError(f"{where}.name: missing; expected the name of a task")
    kind = choose_class("carry.tasks", Task, settings.pop("name"), f"{where}.name")
    return kind.parse(settings, where)


def draw_cells(
    sampling: Sampling, count: int, digits: int, generator: torch.Generator
) -> Integer[Tensor, "B 2"]:
    """Draw cells (i, j), both from 1 to `digits`.

    >>> from carry.randomness import stream
    >>> draw_cells("stratified", 4, 2, stream(0, "doctest")).unique(dim=0).tolist()
    [[1, 1], [1, 2], [2, 1], [2, 2]]
    """
    device = generator.device
    if sampling == "stratified":
        # Every pair equally often, up to the remainder, which is drawn; then shuffled.
        order = torch.randperm(count, generator=generator, device=device)
        shift = torch.randint(digits**2, (1,), generator=generator, device=device)
        cell = (order + shift) % digits**2
        return torch.stack([cell // digits, cell % digits], dim=1) + 1
    cells = torch.randint(1, digits + 1, (count, 2), generator=generator, device=device)
    equal = torch.ones(count, dtype=torch.bool, device=device)
    if sampling != "equal":
        equal = torch.rand(count, generator=generator, device=device) < 0.5
    if sampling == "longest":
        first = torch.rand(count, generator=generator, device=device) < 0.5
        cells[first, 0], cells[~first, 1] = digits, digits
        return torch.where(equal[:, None], digits, cells)
    cells[:, 1] = torch.where(equal, cells[:, 0], cells[:, 1])
    return cells


def draw_numbers(
    lengths: Integer[Tensor, "B M"], generator: torch.Generator
) -> Integer[Tensor, "B M N"]:
    """Draw numbers of given lengths: a leading digit is not zero, except of the number 0 itself.

    >>> from carry.randomness import stream
    >>> draw_numbers(torch.tensor([[2, 0]]), stream(0, "doctest"))[0, 1].tolist()
    [0, 0]
    """
    width, device = int(lengths.max()), lengths.device
    digits = torch.empty((*lengths.shape, width), dtype=torch.uint8, device=device)
    digits.random_(0, 10, generator=generator)
    lead = torch.randint(1, 10, lengths.shape, generator=generator, device=device)
    lead = torch.where(lengths == 1, digits[:, :, 0].long(), lead)
    at = (lengths - 1).clamp(min=0)
    digits.scatter_(2, at[:, :, None], lead[:, :, None].to(torch.uint8))
    return digits * (torch.arange(width, device=device) < lengths[:, :, None])


def to_digits(
    numbers: list[list[int | str]],
) -> tuple[Integer[Tensor, "B M N"], Integer[Tensor, "B M"]]:
    """Turn Python integers, or their texts, into digits, the ones first, and lengths.

    Rows with fewer numbers than others are filled with numbers of length 0.

    >>> digits, lengths = to_digits([[653, 49]])
    >>> digits.tolist(), lengths.tolist()
    ([[[3, 5, 6], [9, 4, 0]]], [[3, 2]])
    """
    most = max(map(len, numbers))
    texts = [[*(str(number) for number in row), *[""] * (most - len(row))] for row in numbers]
    lengths = torch.tensor([[len(text) for text in row] for row in texts])
    width = int(lengths.max())
    padded = [[text[::-1].ljust(width, "0") for text in row] for row in texts]
    flat = bytearray("".join("".join(row) for row in padded), "ascii")
    digits = torch.frombuffer(flat, dtype=torch.uint8) - ord("0")
    return digits.view(len(numbers), -1, width), lengths


def values(digits: Integer[Tensor, "*B N"]) -> Integer[Tensor, "*B"]:
    """Return numbers from their digits, the ones first.

    >>> values(torch.tensor([[7, 1, 0], [0, 0, 1]])).tolist()
    [17, 100]
    """
    return (digits.long() * 10 ** torch.arange(digits.shape[-1], device=digits.device)).sum(-1)


def backwards(
    digits: Integer[Tensor, "B N"], length: Integer[Tensor, " B"]
) -> Integer[Tensor, "B N"]:
    """Return the digits of numbers of some lengths in the opposite order.

    >>> backwards(torch.tensor([[3, 5, 6, 0]]), torch.tensor([3])).tolist()
    [[6, 5, 3, 0]]
    """
    back = length[:, None] - 1 - torch.arange(digits.shape[1], device=digits.device)
    return digits.gather(1, back.clamp(min=0)) * (back >= 0)


def to_int(digits: Integer[Tensor, " N"], length: int | Tensor) -> int:
    """Turn one number's digits, the ones first, back into a Python integer.

    >>> to_int(torch.tensor([3, 5, 6, 0]), 3)
    653
    """
    return int("".join(map(str, digits[: int(length)].flip(0).tolist())))
