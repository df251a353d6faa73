"""Sub-tasks of an addition, by their carries (Quirke & Barez 2024; fraknoi2024, section 4).

Where the carry into a digit of the answer comes from:

    base_add      no carry comes in: the digits of this place are added
    use_carry     the digits of the place below make ten or more
    use_sum_9     the digits of the place below make nine, and pass on a carry from further below

and which carry it passes on:

    make_carry    the digits of this place make ten or more
    make_sum_9    the digits of this place make nine, so a carry passes through

A cascade is a carry through consecutive places of nine: 99999 + 00001 has one of length four.
All are computed from the steps of the task.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from carry.data.problems import Problems
from carry.tasks.addition import Addition


def label_subtasks(task: Addition, problems: Problems) -> dict[str, Bool[Tensor, "B K"]]:
    """Return for each sub-task which places of the answers it applies to.

    The highest place of an answer has no operand digits: only the sub-tasks that use a carry apply.

    >>> from carry.tasks import build_task, to_digits
    >>> addition = build_task({"name": "addition"})
    >>> labels = label_subtasks(addition, addition.solve(*to_digits([["99958", "00045"]])))
    >>> {name: "".join(str(int(x)) for x in row[0].flip(0)) for name, row in labels.items()}
    {'base_add': '000001', 'make_carry': '000001', 'make_sum_9': '011110', 'use_carry': '000010', \
'use_sum_9': '111100'}
    """
    steps = task.compute_steps(problems)
    total, used = steps["digit_sum"], steps["carry_used"] > 0
    below = total.roll(1, dims=1)
    below[:, 0] = 0
    has_operands = torch.arange(total.shape[1]) < problems.lengths.amax(1, keepdim=True)
    return {
        "base_add": ~used & has_operands,
        "make_carry": (total >= 10) & has_operands,
        "make_sum_9": (total == 9) & has_operands,
        "use_carry": used & (below >= 10),
        "use_sum_9": used & (below == 9),
    }


def measure_cascades(task: Addition, problems: Problems) -> Integer[Tensor, " B"]:
    """Return the length of the longest cascade of each problem: the places of nine of one carry.

    >>> from carry.tasks import build_task, to_digits
    >>> addition = build_task({"name": "addition"})
    >>> problems = addition.solve(*to_digits([["99999", "00001"], ["95", "05"], ["12", "30"]]))
    >>> measure_cascades(addition, problems).tolist()
    [4, 1, 0]
    """
    length = longest = torch.zeros(len(problems), dtype=torch.long)
    for passes_through in task.compute_steps(problems)["cascade"].long().unbind(1):
        length = (length + passes_through) * passes_through
        longest = torch.maximum(longest, length)
    return longest
