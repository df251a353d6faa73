"""All kinds of rows that can be checked: their steps, settings, and windows of ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from certificates.independent import tasks
from certificates.independent.longhand import longhand
from certificates.independent.tasks import Definition, Group, begin_with

ADDITION, STEPS, ABOVE, BELOW, SAME_ID = {"name": "addition"}, "scratchpad", (0, 1), (1, 0), (0, 0)
LOWEST_FIRST = {"name": STEPS, "reverse_operands": True}


def _sub_task(
    part: str,
    steps: Callable[[], Iterator[Group]],
    windows: list[tuple[int, int]],
    reverse_operands: bool = True,
) -> Definition:
    """Return the definition of a sub-task, which begins with a letter."""
    form = {"name": "sub_task", "prefix": part, "reverse_operands": reverse_operands}
    form["reverse_answer"] = True
    return Definition(partial(begin_with, part[0], steps), ADDITION, form, windows)


DEFINITIONS = [
    Definition(tasks.addition, ADDITION, {}, [ABOVE], "abacus"),
    Definition(tasks.addition, ADDITION, {"name": "line", "sums": 1}, [ABOVE], free=("text",)),
    Definition(tasks.addition, ADDITION, {"name": "line"}, [ABOVE, SAME_ID], free=("text", "sums")),
    _sub_task("mad", partial(tasks.addition, "mad"), [ABOVE]),
    _sub_task("car", partial(tasks.addition, "car"), [ABOVE]),
    _sub_task("ali", tasks.aligned, [ABOVE, BELOW]),
    _sub_task("rev", tasks.backwards, [ABOVE, BELOW], reverse_operands=False),
    *(
        Definition(partial(tasks.addition, base=base), {**ADDITION, "radix": base}, {}, [ABOVE])
        for base in (2, 16, 60)
    ),
    Definition(tasks.increment, {"name": "increment"}, {}, [ABOVE]),
    Definition(
        partial(tasks.increment, down=True),
        {"name": "increment", "down": True},
        {"pad": "answer"},
        [ABOVE],
    ),
    Definition(tasks.copying, {"name": "copying"}, {}, [ABOVE]),
    Definition(tasks.reversing, {"name": "reversing"}, {}, [BELOW]),
    Definition(tasks.bitwise_or, {"name": "bitwise_or"}, {}, [ABOVE], "abacus"),
    Definition(tasks.parity, {"name": "parity"}, LOWEST_FIRST, [ABOVE]),
    Definition(tasks.subtraction, {"name": "subtraction"}, LOWEST_FIRST, [ABOVE, (2, 0)]),
    Definition(tasks.comparison, {"name": "comparison"}, LOWEST_FIRST, [ABOVE, (2, 0)]),
    Definition(
        tasks.running_sums,
        {"name": "multi_operand_addition", "local": True},
        {"name": STEPS, "pad": False},
        [ABOVE, BELOW],
        free=("most_operands",),
    ),
    Definition(
        tasks.products,
        {"name": "multiplication", "local": True},
        {"name": STEPS},
        [ABOVE, BELOW, ABOVE, BELOW],
    ),
    Definition(
        tasks.sorting,
        {"name": "sorting"},
        {"name": "insertion_sort"},
        [(1, 3), (2, 0), (1, 0), SAME_ID],
    ),
    *(
        Definition(
            partial(longhand, operations),
            {"name": "calculator", **({"operations": operations} if len(operations) < 4 else {})},
            {"name": "longhand"},
            [ABOVE, (5, 0), ABOVE],
            free=("sampling",),
        )
        for operations in ("+-*/", "+-", "*", "/")
    ),
]
