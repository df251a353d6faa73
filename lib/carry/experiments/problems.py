"""Problem sets: the problems on which rows are scored, and the data sets that some train on.

A run uses the set with the name of its task, unless its settings name another one; its `evaluation`
selects problems from it. A task that no set has is scored on problems of equal lengths (`EQUAL`).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pydantic
from pydantic import Field

from carry.config.settings import check_known, list_modules
from carry.experiments import load_rows
from carry.experiments.base import SCALES, merge
from carry.experiments.run import Count, CountedSizes, DataSet


class ProblemSet(DataSet):
    """The settings of a problem set: an evaluation grid, random draws, or a data set.

    `grid`: cells (i, j) with both sizes up to this, `each` problems in a cell; `equal`: number of
    further problems for each size i = j, up to `longest` (default: the grid); `far`: cells beyond
    these, as i, j and a number of problems; `ranges`: for a set of each name the least and the
    largest size i = j, which are drawn uniformly, and a number of problems; `every`: all problems
    of a task with few problems.

    Problems come from the random `stream` of the set's name (default) or of another set, which
    differs in size.

    A data set has trained `lengths` instead, and its problems are held out of training; the lengths
    `beyond` are tested only.
    """

    stream: str | None = None
    beyond: list[Count] = []
    grid: int = Field(default=0, ge=0)
    each: int = Field(default=0, ge=0)
    equal: int = Field(default=0, ge=0)
    longest: Count | None = None
    far: list[CountedSizes] = []
    ranges: dict[str, CountedSizes] = {}
    every: bool = False

    @pydantic.model_validator(mode="after")
    def _check_held_out(self) -> ProblemSet:
        """Refuse problems that training could draw next to those that it never draws."""
        if self.lengths and (self.grid or self.equal or self.far or self.ranges or self.every):
            raise ValueError("lengths fits no grid, equal, far, ranges or every; expected test")
        return self


def far(each: int, *sizes: int | tuple[int, int]) -> list[list[int]]:
    """Return cells beyond the grid with `each` problems, of equal sizes or of sizes (i, j)."""
    return [[*(size if isinstance(size, tuple) else (size, size)), each] for size in sizes]


def numbers(most: int, *others: int) -> list[int]:
    """Return the lengths up to `most`, and others."""
    return [*range(1, most + 1), *others]


# ---- Problems on which rows are scored -----------------------------------------------------------

LARGE = dict(grid=100, equal=100, longest=160,
             far=far(500, 200) + far(200, 500) + far(1000, 1000))
EQUAL = dict(equal=20, longest=30)
SMALL_GRID = dict(grid=15, each=4, **EQUAL)
SIX = dict(grid=6, each=12, equal=40)
TEN_NUMBERS = (20, 30, (10, 30), (30, 10))
RANDOM_LENGTHS = dict(name="sorting", numbers="uniform_lengths")

SETS: dict[str, dict[str, Any]] = dict(
    addition=dict(
        grid=30, each=20, equal=200, far=far(1000, 100) + far(100, 1000),
        notebook=dict(grid=12, each=2, equal=5, far=far(10, 100)),
        smoke=dict(grid=6, each=2, equal=4, far=far(3, 40)),
        gpu=LARGE, paper=LARGE | dict(each=100)),
    # To three times the 5 digits that rows with equal settings are trained to.
    addition_to_15=dict(stream="addition", grid=15, each=20, equal=200),
    # The lengths of `papers_lengths`; pairs of different lengths are a part of the grid of
    # mcleish2024, which goes to 100 digits. A fifth of them, 200 of each length, is evaluated with
    # other starts than 1.
    addition_papers_lengths=dict(
        grid=30, each=5, equal=200,
        far=far(1000, 40, 60, 80, 100, 120, 150, 200) + far(500, 300, 400, 500)
        + far(500, (20, 60), (60, 20), (20, 100), (100, 20), (60, 100), (100, 60))),
    addition_to_160=dict(grid=100, each=1, equal=100, longest=160,
                         far=far(100, 200, 300, 400, 500)),
    addition_to_200=dict(grid=30, each=5, equal=100, longest=200,
                         far=far(100, 300, 400, 500, 600, 800, 1000)),
    # Multiples of the trained lengths of `ablations`.
    ablations=dict(far=far(100, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 100, 200, 300, 500)
                   + far(50, 1000) + far(25, 2000)),
    # Of related works.
    addition_related=dict(stream="addition", grid=10, each=4, equal=100, longest=30,
                          far=far(100, 40, 50, 100, 500)),
    binary_related=dict(task=dict(name="addition", radix=2), equal=100, longest=12),
    parity_related=dict(stream="parity", task=dict(name="parity"), equal=100, longest=40),
    # The validation band of 10 trained digits, and their multiples.
    selection=dict(far=far(50, 11, 12, 13, 14, 15) + far(100, 10, 20, 30, 50, 80)),
    addition_base_2=dict(task=dict(name="addition", radix=2), **SMALL_GRID),
    addition_base_16=dict(task=dict(name="addition", radix=16), **SMALL_GRID),
    addition_base_60=dict(task=dict(name="addition", radix=60), **SMALL_GRID),
    increment=dict(task=dict(name="increment"), **EQUAL),
    decrement=dict(task=dict(name="increment", down=True), **EQUAL),
    subtraction=dict(task=dict(name="subtraction"), **SMALL_GRID),
    comparison=dict(task=dict(name="comparison"), **SMALL_GRID),
    calculator=dict(task=dict(name="calculator"), **SIX),
    calculator_sums=dict(task=dict(name="calculator", operations="+-"), **SIX),
    calculator_products=dict(task=dict(name="calculator", operations="*"), **SIX),
    calculator_quotients=dict(task=dict(name="calculator", operations="/"), **SIX),
    bitwise_or=dict(task=dict(name="bitwise_or"), grid=16, each=20, equal=100,
                    gpu=dict(grid=100), paper=dict(grid=100, each=100)),
    bitwise_or_to_100=dict(stream="bitwise_or", task=dict(name="bitwise_or"), grid=100, each=1,
                           equal=20),
    multiplication=dict(task=dict(name="multiplication"), grid=10, each=30, equal=30,
                        gpu=dict(grid=30, each=100, equal=20),
                        paper=dict(grid=30, each=1000, equal=1000)),
    # With 20 problems no size could be told from 90%.
    multiplication_to_20=dict(stream="multiplication", task=dict(name="multiplication"), grid=20,
                              each=100, equal=20, far=far(100, (20, 15))),
    sorting=dict(task=dict(name="sorting"), grid=5, each=100, equal=100,
                 gpu=dict(task=RANDOM_LENGTHS, grid=10, far=far(1000, *TEN_NUMBERS)),
                 paper=dict(task=RANDOM_LENGTHS, grid=10, far=far(1000, *TEN_NUMBERS))),
    sorting_to_9=dict(stream="sorting", task=RANDOM_LENGTHS, grid=3, each=100, equal=100,
                      far=far(1000, 4, 6, 9, (3, 9), (4, 3), (9, 3))),
    sorting_to_30=dict(stream="sorting", task=RANDOM_LENGTHS, grid=10, each=20, equal=20,
                       far=far(300, *TEN_NUMBERS)),
    multi_operand_addition=dict(
        task=dict(name="multi_operand_addition"), grid=15, each=10, equal=20,
        smoke=dict(grid=6, each=2, equal=4), gpu=dict(grid=30, each=100),
        paper=dict(grid=30, each=1000, equal=1000)),
    # Of up to 3 operands of up to 6 digits, and of one or two digits or one operand more.
    multi_operand_addition_of_three=dict(
        task=dict(name="multi_operand_addition"), grid=3, each=20,
        far=far(100, (6, 2), (6, 3), (7, 2), (7, 3), (8, 2), (8, 3), (3, 4), (6, 4))),
    multi_operand_addition_to_30=dict(
        stream="multi_operand_addition", task=dict(name="multi_operand_addition"), grid=30,
        each=100, equal=20, far=far(300, 30)),
    parity=dict(task=dict(name="parity"), equal=20, longest=100, smoke=dict(equal=4, longest=12),
                gpu=dict(equal=1000), paper=dict(equal=10000)),
    copying=dict(task=dict(name="copying"), **EQUAL),
    reversing=dict(task=dict(name="reversing"), **EQUAL),
    noisy_majority=dict(
        task=dict(name="noisy_majority"),
        ranges=dict(validation=[101, 150, 1500], test=[151, 200, 1500]),
        notebook=dict(ranges=dict(validation=[101, 150, 50], test=[151, 200, 200])),
        smoke=dict(ranges=dict(validation=[4, 6, 9], test=[7, 9, 9]))),
    modular_addition_113=dict(
        task=dict(name="modular_addition", modulus=113, share=0.3), every=True),
    # Pairs on which no row was trained, out of 1,000,000 (see the task).
    modular_addition_1000=dict(
        task=dict(name="modular_addition", modulus=1000, share=0.01),
        ranges={"held out": [3, 3, 3000]}, gpu=dict(task=dict(share=0.1))),
)

# ---- Data sets (ibrahimli2024, 4.2.2) ------------------------------------------------------------

# Sums of two numbers of equal length. A row trains on `examples` problems of the `lengths`, without
# the problems for test and validation, so that all scales share their tests. The lengths in
# `beyond` are only tested. The names up to `mini` are those of the thesis; others are smaller sets
# for a laptop. `multitask` mixes the sub-tasks.
MIXTURE = dict(add=0.2, ali=0.2, car=0.2, mad=0.2, rev=0.2)
DATA = {
    "1-3_digit": (numbers(3), [4]),
    "1-7_digit": (numbers(7), [8]),
    "generalize_to_longer": (numbers(17, 19), [18, 20]),
    "generalize_to_longer_mini": (numbers(7, 9), [8, 10, 11, 12]),
    "generalize_to_longer_mini_gap": (numbers(7, 11), [8, 9, 10, 12, 13]),
    "1_and_3_digit": ([1, 3], [2, 4]),
    "generalize_to_longer_tiny": (numbers(4, 6), [5, 7, 8]),
    "generalize_to_longer_tiny_gap": (numbers(4, 7), [5, 6, 8, 9]),
}
for name, (lengths, beyond) in DATA.items():
    SETS[name] = dict(lengths=lengths, beyond=beyond, test=1000, validation=100)
    if name == "generalize_to_longer_mini":
        SETS[f"{name}_multitask"] = SETS[name] | dict(mixture=MIXTURE)
for scale in ("gpu", "paper"):
    SETS["1-3_digit"][scale] = dict(lengths=[1, 3], beyond=[2, 4])
# Sums and two sub-tasks (Cai et al. 2025), for `related`: its format writes another sub-task in
# place of a long sum. A fifth of the problems of both sets are sums.
for name, longest, sums in (("transfer_short", 4, 0.2), ("transfer_long", 8, 0.72)):
    SETS[name] = dict(lengths=numbers(longest), beyond=[*range(longest + 1, 11)], test=1000,
                      validation=100,
                      mixture=dict(add=sums, car=(1 - sums) / 2, mad=(1 - sums) / 2))
SETS["generalize_to_longer_tiny"]["smoke"] = dict(
    lengths=[1, 3], beyond=[2, 4], test=9, validation=9)


@cache
def find_problem_set(name: str, scale: str = "laptop", where: str = "problems") -> ProblemSet:
    """Return the settings of a problem set at a scale.

    >>> find_problem_set("1-3_digit").lengths, find_problem_set("1-3_digit", "paper").lengths
    ([1, 2, 3], [1, 3])

    Raises:
        SettingsError: for an unknown name; names the nearest.
    """
    if name not in SETS:  # in a worker, which has only a run
        load_rows()
    asked = {settings.get("task", {}).get("name") for settings in SETS.values()}
    others = {*list_modules("carry.tasks")} - asked
    sets = {task: dict(task=dict(name=task), **EQUAL) for task in others} | SETS
    check_known(name, sets, where)
    chosen = sets[name]
    settings = {key: value for key, value in chosen.items() if key not in SCALES}
    settings = merge(dict(stream=name, task=dict(name="addition")), settings)
    return ProblemSet.parse(merge(settings, chosen.get(scale, {})), f"problems.{name}")
