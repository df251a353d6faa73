"""The name of a wrong answer's fault, told from its first wrong token in reading order.

Until then the model wrote the truth, so that this token is exactly what greedy decoding writes;
what follows would be guessed. The kinds exclude each other; the first that fits is named:

    stopped_early        the end, where a digit was due
    stopped_late         a digit, another operand, or another carry's sign, where the end was due
    lost_carry           the digit without the carry that its place uses
    carry_from_nowhere   the digit with a carry, where its place uses none
    misaligned           the digit of the sum with one operand moved by one place
    other                any other digit, or a token that is none

A carry lost out of the highest place ends an unpadded answer early, and is counted as that. A wrong
digit drawn at random is a carry's fault once in 9, and `misaligned`, which up to 4 digits fit, more
often than that: read shares of faults against these.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from jaxtyping import Integer
from torch import Tensor

from carry.data.batch import Batch
from carry.data.problems import Problems
from carry.formats import ALPHABET, EOS, FIRST_LETTER, Format
from carry.models.teacher_forcing import TeacherForcedPass
from carry.tasks import Task

KINDS = ("stopped_early", "stopped_late", "lost_carry", "carry_from_nowhere", "misaligned", "other")
NONE = -1


def first_error(batch: Batch, seen: TeacherForcedPass) -> Integer[Tensor, "B 3"]:
    """Return of each first wrong token its place, what was said and what was due.

    Where nothing is wrong, what was said was due.
    """
    slot = seen.first_wrong.clamp(min=0)[:, None]
    place = batch.place.gather(1, batch.start[:, None] + slot)
    parts = (place, seen.predicted.gather(1, slot), seen.target.gather(1, slot))
    return torch.cat(parts, dim=1).long()


def named(
    form: Format, problems: Problems, errors: Integer[Tensor, "B 3"]
) -> Integer[Tensor, " B"]:
    """Return the index in `KINDS` of each answer's fault, or `NONE`.

    A wrong digit on a scratchpad is `other`: it need not be one of the answer. So is one of a
    response that is no answer, and one in a place above all those that the answer could have.
    """
    place, said, due = errors.unbind(1)
    digits = (said < 10) & (due < 10)
    kind = torch.full_like(said, KINDS.index("other"))
    told = form.answers and not form.has_steps
    for name, would_write in reversed(mistakes(form.task, problems) if told else []):
        known = digits & (place < would_write.shape[1])
        where = place.clamp(0, would_write.shape[1] - 1)[:, None]
        kind[known & (would_write.gather(1, where)[:, 0] == said)] = KINDS.index(name)
    kind[(said == EOS) & (due != EOS)] = KINDS.index("stopped_early")
    goes_on = (said < 10) | (said >= FIRST_LETTER)
    for sign in ",-":
        goes_on |= said == ALPHABET.index(sign)
    kind[goes_on & (due == EOS)] = KINDS.index("stopped_late")
    kind[said == due] = NONE
    return kind


def mistakes(task: Task, problems: Problems) -> list[tuple[str, Integer[Tensor, "B K"]]]:
    """Return what the mistakes of a task would write at each place, the most telling first.

    A task takes part by the steps it has: with `carry_used`, carries can be lost or invented.

    >>> from carry.tasks import build, to_digits
    >>> task = build({"name": "addition"})
    >>> problems = task.solve(*to_digits([[48, 27]]))  # 75
    >>> for name, digits in mistakes(task, problems)[:3]:
    ...     print(name, digits.tolist())
    lost_carry [[-1, 6, -1]]
    carry_from_nowhere [[6, -1, 1]]
    misaligned [[7, 0, 5]]
    """
    if not task.in_digits:
        return []
    steps, true = task.steps(problems), problems.answer.long()
    found = []
    if "carry_used" in steps:
        used = steps["carry_used"].long()
        found += [("lost_carry", torch.where(used > 0, (true - used) % 10, NONE))]
        found += [("carry_from_nowhere", torch.where(used > 0, NONE, (true + 1) % 10))]
    if task.numbers is not None:  # a moved operand might be larger than any
        return found
    return found + [("misaligned", answer) for answer in _misaligned(task, problems)]


def _misaligned(task: Task, problems: Problems) -> Iterator[Integer[Tensor, "B K"]]:
    """Solve the problems with each operand in turn moved up by a place, and down."""
    wide, places = F.pad(problems.operands, (0, 1)), problems.answer.shape[1]
    for operand in range(wide.shape[1]):
        for by in (1, -1):
            moved = wide.clone()
            moved[:, operand] = wide[:, operand].roll(by, dims=1)
            if by == -1:  # the ones are lost, not carried round to the top
                moved[:, operand, -1] = 0
            longer = problems.lengths + (problems.lengths > 0)
            yield task.solve(moved, longer).answer[:, :places].long()
