"""Tasks: operands, answers, and the intermediate steps between them.

Digits are stored by place, least significant first. A task is one file of this package and one
subclass of `Task`; the contract tests run over every file.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.config.settings import Settings, SettingsError, choose_class, label_from_class
from carry.data.problems import LABEL_RANGE, Problems

# Distribution of training cells (i, j): `stratified`, all pairs equally often (mcleish2024, A.5);
# `equal`, i = j; `longest`, one size at its maximum and the other equal to it in half of the
# problems, so that padded problems have one length.
Sampling = Literal["stratified", "equal", "longest"]

# Names of operands in answers that list operands.
OPERAND_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

# Digits of all bases; a format writes those from 10 on as letters.
DIGIT_SYMBOLS = "0123456789" + OPERAND_LETTERS

# Shapes: B problems of M operands of at most N digits, least significant first. An absent operand
# has length 0. A cell is a pair of sizes. Steps have a name, and a column for each place.
Operands = Integer[Tensor, "B M N"]
Lengths = Integer[Tensor, "B M"]
Cells = Integer[Tensor, "B 2"]
Steps = dict[str, Integer[Tensor, "B _"]]

# Coupling of the digits of one number at one level: place p has the coupling number
# first + step * p for (first, step); None: the level does not count them.
Coupling = tuple[int, int] | None


@dataclass(frozen=True)
class ScratchpadStage:
    """Numbers that a scratchpad writes in a row, with a sign between them.

    Shapes: B problems, S numbers of at most K digits, least significant first. An absent number
    has length 0; `room` is the padded length of each number. `couplings` has one entry for each
    number and level; so has `sign_couplings` for the signs between numbers (None: a sign is
    coupled with its number).
    """

    sign: str
    numbers: Integer[Tensor, "B S K"]
    lengths: Integer[Tensor, "B S"]
    room: Integer[Tensor, "B S"]
    couplings: list[tuple[Coupling, ...]]
    sign_couplings: list[tuple[Coupling, ...]] | None = None


class Task(Settings):
    """A task: its settings are its fields, and its name is the name of its file.

    Each problem belongs to a cell (i, j) of two sizes, usually the lengths of two operands;
    training samples cells and evaluation reports accuracy for each cell. A scratchpad writes the
    steps of a task, a probe predicts them, and a sub-task scores them.
    """

    label: ClassVar[str]  # name in figures and tables; derived from the class name by default
    noun: ClassVar[str] = "problems"  # plural of its problems
    unit: ClassVar[str] = "{0} digits"  # a training length in words

    sign: ClassVar[str]  # separates two operands
    base: ClassVar[int] = 10  # digits of operands are smaller than this
    operand_count: ClassVar[int | None] = None  # None: any number of operands
    smallest_cell: ClassVar[tuple[int, int]] = (1, 1)
    answer_is_number: ClassVar[bool] = True  # or else it lists `answer_symbols`, here operands
    answer_symbols: ClassVar[str] = OPERAND_LETTERS
    keeps_leading_zeros: ClassVar[bool] = False  # True: 007 and 7 are different operands
    answer_is_reversed: ClassVar[bool] = False  # the answer's place 0 has the operand's last digit
    scratchpad_levels: ClassVar[int] = 0  # levels of coupling of the scratchpad; 0: no scratchpad
    answer_is_last_digit: ClassVar[bool] = False  # of the scratchpad, instead of its last number

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "label" not in vars(cls):
            cls.label = label_from_class(cls)

    def enumerate_problems(self) -> tuple[Cells, Problems, list[str]]:
        """Return the cells of all problems, the problems, and the name of the set of each."""
        raise SettingsError(f"every: {self.label} has unlimited problems; expected another task")

    def draw_training_cells(self, count: int, digits: int, generator: torch.Generator) -> Cells:
        """Draw cells up to `digits` by the setting `sampling`; without one, of equal sizes."""
        return draw_cells(getattr(self, "sampling", "equal"), count, digits, generator)

    @abstractmethod
    def draw_operands(self, cells: Cells, generator: torch.Generator) -> tuple[Operands, Lengths]:
        """Draw operands and their lengths, one problem for each cell."""

    def answer_room(self, lengths: Lengths) -> Integer[Tensor, " B"]:
        """Return the length of the longest answer: by default that of the longest operand."""
        return torch.ones_like(lengths[:, 0]) if self.answer_is_last_digit else lengths.amax(1)

    def max_answer_length(self, digits: int) -> int:
        """Return the length of the longest answer in all cells up to (digits, digits)."""
        return int(self.answer_room(self.largest_lengths(digits)))

    def largest_lengths(self, digits: int) -> Lengths:
        """Return the lengths of the operands in the cell (digits, digits)."""
        return torch.tensor([[digits, digits]])

    @abstractmethod
    def solve(self, operands: Operands, lengths: Lengths) -> Problems:
        """Compute the answers, on the device of the operands.

        Operands are not checked: there is an answer, and digits are below `base`. See
        `check_question`, and `evaluation.ask.make_problem` for operands that a reader wrote.
        """

    def compute_steps(self, problems: Problems) -> Steps:
        """Return the intermediate steps by name; columns are places, least significant first."""
        return {}

    @abstractmethod
    def solve_text(self, *operands: str) -> str:
        """Return the answer as text, computed by Python: the slow oracle of the tests."""

    def parse_question(self, text: str) -> list[str]:
        """Return the operands of a question such as "653+49".

        >>> build_task({"name": "addition"}).parse_question("653+49")
        ['653', '49']
        """
        return text.split(self.sign) if self.sign else [text]

    def check_question(self, operands: Sequence[str]) -> None:
        """Refuse a question without an answer; its operands have no leading zeros."""

    def write_answer(self, answer: Sequence[int]) -> str:
        """Return an answer that is not a number as text; refuse more operands than letters."""
        if max(answer, default=0) >= len(self.answer_symbols):
            raise SettingsError(
                f"answer: {len(answer)} operands do not fit {len(self.answer_symbols)} letters; "
                "expected fewer"
            )
        return "".join(self.answer_symbols[symbol] for symbol in answer)

    def padded_lengths(self, lengths: Lengths) -> Lengths:
        """Return the padded lengths of operands: the length of the longest of each problem."""
        return torch.where(lengths > 0, lengths.amax(1, keepdim=True), 0)

    def scratchpad_stages(self, problems: Problems, from_zero: bool) -> list[ScratchpadStage]:
        """Return the stages of a scratchpad: the question, the steps, and last the answer."""
        raise NotImplementedError(f"{type(self).__name__} has no scratchpad")

    def draw_for_cells(self, cells: Cells, generator: torch.Generator) -> Problems:
        """Draw one problem for each cell."""
        return self.with_labels(self.solve(*self.draw_operands(cells, generator)), generator)

    def draw(self, count: int, digits: int, generator: torch.Generator) -> Problems:
        """Draw `count` training problems of sizes up to `digits`."""
        return self.draw_for_cells(self.draw_training_cells(count, digits, generator), generator)

    def with_labels(self, problems: Problems, generator: torch.Generator) -> Problems:
        """Return the problems with random labels."""
        shape, device = (len(problems),), problems.room.device
        label = torch.randint(LABEL_RANGE, shape, generator=generator, device=device)
        return replace(problems, label=label)

    def make_problems(
        self,
        operands: Operands,
        lengths: Lengths,
        answer: Integer[Tensor, "B K"],
        answer_length: Integer[Tensor, " B"] | None = None,
    ) -> Problems:
        """Return operands and answers, by default of the longest length, with label 0."""
        room = self.answer_room(lengths)
        answer_length = room if answer_length is None else answer_length
        return Problems(operands, lengths, answer, answer_length, room, torch.zeros_like(room))

    def check_cell(self, cell: tuple[int, int], where: str) -> None:
        """Refuse a cell below the smallest one, in a line that begins with `where`."""
        smallest = self.smallest_cell
        if cell[0] < smallest[0] or cell[1] < smallest[1]:
            raise SettingsError(f"{where}: {cell} is too small, expected at least {smallest}")


class StringTask(Task):
    """A task on one string of digits, or one number; a cell (i, i) is its length."""

    noun: ClassVar[str] = "strings"
    sign: ClassVar[str] = ""
    operand_count: ClassVar[int | None] = 1
    keeps_leading_zeros: ClassVar[bool] = True

    def draw_operands(self, cells: Cells, generator: torch.Generator) -> tuple[Operands, Lengths]:
        """Draw digits uniformly."""
        lengths = cells[:, :1]
        place = torch.arange(int(lengths.max()), device=cells.device)
        shape = (len(cells), 1, len(place))
        digits = torch.randint(self.base, shape, generator=generator, device=cells.device)
        return (digits * (place < lengths[:, :, None])).to(torch.uint8), lengths

    def largest_lengths(self, digits: int) -> Lengths:
        """Return the length of the string."""
        return torch.tensor([[digits]])


class NumberPairTask(Task):
    """A task on two natural numbers; a cell is their lengths (mcleish2024, A.3.1 and A.5).

    `zero`: numbers of one digit can be 0 (cho2025, ibrahimli2024); without it they are 1 to 9 (the
    released code of mcleish2024).
    """

    operand_count: ClassVar[int | None] = 2

    sampling: Sampling = "stratified"
    zero: bool = True

    def draw_operands(self, cells: Cells, generator: torch.Generator) -> tuple[Operands, Lengths]:
        """Draw both numbers uniformly from the numbers of their lengths."""
        return draw_numbers(cells, generator, self.zero, self.base), cells


def build_task(settings: dict[str, Any], where: str = "task") -> Task:
    """Return the task that `settings` names.

    >>> build_task({"name": "addition"}).solve_text("999", "1")
    '1000'

    Raises:
        SettingsError: for an unknown name or setting.
    """
    settings = dict(settings)
    if "name" not in settings:
        raise SettingsError(f"{where}.name: missing; expected the name of a task")
    kind = choose_class("carry.tasks", Task, settings.pop("name"), f"{where}.name")
    return kind.parse(settings, where)


def draw_cells(sampling: Sampling, count: int, digits: int, generator: torch.Generator) -> Cells:
    """Draw cells (i, j), both from 1 to `digits`.

    >>> from carry.randomness import stream
    >>> draw_cells("stratified", 4, 2, stream(0, "doctest")).unique(dim=0).tolist()
    [[1, 1], [1, 2], [2, 1], [2, 2]]
    """
    device = generator.device
    if sampling == "stratified":
        # Each pair occurs equally often, except for a random remainder; the order is random.
        order = torch.randperm(count, generator=generator, device=device)
        shift = torch.randint(digits**2, (1,), generator=generator, device=device)
        cell = (order + shift) % digits**2
        return torch.stack([cell // digits, cell % digits], dim=1) + 1
    cells = torch.randint(1, digits + 1, (count, 2), generator=generator, device=device)
    if sampling == "equal":
        return cells[:, :1].repeat(1, 2)
    equal, first = (torch.rand(count, generator=generator, device=device) < 0.5 for _ in range(2))
    cells[first, 0], cells[~first, 1] = digits, digits
    return torch.where(equal[:, None], digits, cells)


def draw_numbers(
    lengths: Lengths, generator: torch.Generator, zero: bool = True, base: int = 10
) -> Operands:
    """Draw numbers of these lengths uniformly, without leading zeros; length 0 gives zeros.

    Args:
        zero: whether 0 is a number of length 1.

    >>> from carry.randomness import stream
    >>> draw_numbers(torch.tensor([[2, 0]]), stream(0, "doctest"))[0, 1].tolist()
    [0, 0]
    """
    width, device = int(lengths.max()), lengths.device
    digits = torch.empty((*lengths.shape, width), dtype=torch.uint8, device=device)
    digits.random_(0, base, generator=generator)
    lead = torch.randint(1, base, lengths.shape, generator=generator, device=device)
    if zero:
        lead = torch.where(lengths == 1, digits[:, :, 0].long(), lead)
    last = (lengths - 1).clamp(min=0)
    digits.scatter_(2, last[:, :, None], lead[:, :, None].to(torch.uint8))
    return digits * (torch.arange(width, device=device) < lengths[:, :, None])


def to_digits(numbers: list[list[int | str]], base: int = 10) -> tuple[Operands, Lengths]:
    """Convert natural numbers, or their texts, to digits by place and lengths.

    Shorter rows are filled with numbers of length 0. Above base 10, letters are digits. Texts are
    not checked.

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
    codes = torch.frombuffer(flat, dtype=torch.uint8)
    digit_of_code = torch.zeros(128, dtype=torch.uint8)
    digit_of_code[[*map(ord, DIGIT_SYMBOLS)]] = torch.arange(len(DIGIT_SYMBOLS), dtype=torch.uint8)
    return digit_of_code[codes.long()].view(len(numbers), -1, width), lengths


def digits_to_values(digits: Integer[Tensor, "*B N"]) -> Integer[Tensor, "*B"]:
    """Convert digits by place to 64-bit integers, which hold 18 digits.

    >>> digits_to_values(torch.tensor([[7, 1, 0], [0, 0, 1]])).tolist()
    [17, 100]
    """
    return (digits.long() * 10 ** torch.arange(digits.shape[-1], device=digits.device)).sum(-1)
