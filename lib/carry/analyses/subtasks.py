"""Accuracy of additions by sub-task and by cascade, over training (fraknoi2024, section 4).

`carry.interpretability.carry_subtasks` defines the sub-tasks and cascades.
"""

from __future__ import annotations

import pandas as pd
import torch
from jaxtyping import Bool
from torch import Tensor

from carry.analyses import INTERVAL, LABELS, load_steps
from carry.data.problems import Problems
from carry.evaluation.intervals import add_interval
from carry.evaluation.scoring import locate_digits, score
from carry.interpretability.carry_subtasks import label_subtasks, measure_cascades
from carry.models.system import System
from carry.models.teacher_forcing import TeacherForcedPass
from carry.randomness import stream
from carry.tasks.addition import Addition

TASK = "addition"
SCORED = (*LABELS, "trained", "step", *INTERVAL)
COLUMNS = {
    "subtasks": ("subtask", "place", "n", "correct", *SCORED),
    "cascades": ("cascade", "n", "exact", *SCORED),
}
UNIFORM = 2000  # problems with independent digits
PER_CASCADE = 100  # problems for each cascade: its first place and its length


def tables(system: System) -> dict[str, pd.DataFrame]:
    """Score the snapshots of a row of additions by sub-task and by cascade.

    Returns:
        subtasks: for each `step` of training, `subtask` and `place` of the answer, how many of `n`
            digits are `correct` under teacher forcing.
        cascades: for each `step` and length of the longest `cascade`, how many of `n` problems are
            `exact`.
        Both have intervals. A row without snapshots is scored at its last step.
    """
    problems = draw_problems(system.task, system.run.training.digits)
    labels = label_subtasks(system.task, problems)
    cascades = measure_cascades(system.task, problems)
    by_subtask, by_cascade = [], []
    for step in load_steps(system):
        scored = score(system, problems)
        by_subtask.append(_count_by_place(system, problems, scored, labels).assign(step=step))
        exact = {"cascade": cascades.numpy(), "n": 1, "exact": scored.exact.cpu().numpy()}
        counts = pd.DataFrame(exact).groupby("cascade", as_index=False).sum()
        by_cascade.append(counts.assign(step=step))
    return {
        "subtasks": add_interval(pd.concat(by_subtask), "correct"),
        "cascades": add_interval(pd.concat(by_cascade), "exact"),
    }


def draw_problems(task: Addition, digits: int) -> Problems:
    """Draw sums of two numbers: `UNIFORM` of them, then `PER_CASCADE` for each cascade.

    At least one operand has `digits` digits. A sum for a cascade has one carry: one place makes it,
    the next places, which make nine, pass it on, and no other place makes nine or more.

    >>> from carry.tasks import build_task
    >>> addition = build_task({"name": "addition"})
    >>> longest = measure_cascades(addition, draw_problems(addition, 3))
    >>> (longest[UNIFORM:].bincount() // PER_CASCADE).tolist()
    [3, 2, 1]
    """
    generator = stream(0, "sub-tasks", digits)
    uniform = torch.randint(10, (UNIFORM, 2, digits), generator=generator)
    uniform[:, 0, -1] = torch.randint(1, 10, (UNIFORM,), generator=generator)  # as in training
    cascades = [(begin, length) for length in range(digits) for begin in range(digits - length)]
    begin, length = torch.tensor(cascades).repeat_interleave(PER_CASCADE, 0).T[:, :, None]
    place = torch.arange(digits)
    total = torch.randint(9, (len(begin), digits), generator=generator)
    total[:, -1] = torch.randint(1, 9, (len(begin),), generator=generator)
    makes_carry = torch.randint(10, 19, total.shape, generator=generator)
    total = torch.where(place == begin, makes_carry, total)
    total = torch.where((place > begin) & (place <= begin + length), 9, total)
    least, most = (total - 9).clamp(min=0), total.clamp(max=9)
    share = torch.rand(total.shape, generator=generator, dtype=torch.float64)
    first = least + (share * (most - least + 1)).long()
    operands = torch.cat([uniform, torch.stack([first, total - first], dim=1)])
    lengths = torch.full((len(operands), 2), digits)
    return task.solve(operands.to(torch.uint8), lengths)


def _count_by_place(
    system: System,
    problems: Problems,
    scored: TeacherForcedPass,
    labels: dict[str, Bool[Tensor, "B K"]],
) -> pd.DataFrame:
    """Count correct digits by sub-task and place."""
    places, is_digit = locate_digits(system.format.write(problems))
    correct = scored.right.cpu()
    parts = []
    for name, applies in labels.items():
        labelled = applies.gather(1, places.clamp(min=0)) & is_digit
        counts = {"place": places[labelled].long(), "n": 1, "correct": correct[labelled].long()}
        by_place = pd.DataFrame(counts).groupby("place", as_index=False).sum()
        parts.append(by_place.assign(subtask=name))
    return pd.concat(parts, ignore_index=True)
