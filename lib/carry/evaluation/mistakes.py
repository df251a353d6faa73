"""Kinds of wrong answers, classified by their first wrong token in reading order.

The tokens before it are correct, so greedy decoding writes exactly this token; later tokens are
unknown. The kinds exclude each other, and the first that fits is used:

    stopped_early        the end in place of a digit
    stopped_late         a digit, another operand, or another carry's sign in place of the end
    lost_carry           the digit without the carry that its place uses
    carry_from_nowhere   the digit with a carry, at a place that uses none
    misaligned           the digit of the sum with one operand shifted by one place
    other                any other digit, or a token that is not a digit

A carry lost at the highest place ends an unpadded answer early and counts as `stopped_early`. A
uniformly drawn wrong digit fits one of the two carry mistakes in 1 of 9 cases, and `misaligned`,
which has up to 4 digits, more often: compare shares of mistakes with these.
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
from carry.tasks.modular_addition import ModularAddition

KINDS = ("stopped_early", "stopped_late", "lost_carry", "carry_from_nowhere", "misaligned", "other")
NO_MISTAKE = -1


def classify_errors(
    form: Format, problems: Problems, batch: Batch, result: TeacherForcedPass
) -> Integer[Tensor, " B"]:
    """Return the index in `KINDS` of the first error in each response, or `NO_MISTAKE`.

    A wrong digit in a scratchpad is `other`, because it may belong to a step. A wrong digit in a
    response without an answer, or above every place of the answer, is `other` too.
    """
    slot = result.first_wrong.clamp(min=0)[:, None]
    place = batch.place.gather(1, batch.start[:, None] + slot)[:, 0].long()
    predicted, target = (
        tokens.gather(1, slot)[:, 0].long() for tokens in (result.predicted, result.target)
    )
    digits = (predicted < 10) & (target < 10)
    kind = torch.full_like(predicted, KINDS.index("other"))
    if form.writes_answer and not form.has_steps:
        for name, mistaken in reversed(compute_mistaken_digits(form.task, problems)):
            possible = digits & (place < mistaken.shape[1])
            column = place.clamp(0, mistaken.shape[1] - 1)[:, None]
            kind[possible & (mistaken.gather(1, column)[:, 0] == predicted)] = KINDS.index(name)
    kind[(predicted == EOS) & (target != EOS)] = KINDS.index("stopped_early")
    continues = (predicted < 10) | (predicted >= FIRST_LETTER)
    for sign in ",-":
        continues |= predicted == ALPHABET.index(sign)
    kind[continues & (target == EOS)] = KINDS.index("stopped_late")
    kind[result.exact] = NO_MISTAKE
    return kind


def compute_mistaken_digits(
    task: Task, problems: Problems
) -> list[tuple[str, Integer[Tensor, "B K"]]]:
    """Return the digit that each kind of mistake writes at each place, most specific kind first.

    The kinds depend on the steps of the task: with `carry_used`, carries can be lost or invented.
    A place without this mistake has -1.

    >>> from carry.tasks import build_task, to_digits
    >>> task = build_task({"name": "addition"})
    >>> problems = task.solve(*to_digits([[48, 27]]))  # 75
    >>> for name, digits in compute_mistaken_digits(task, problems)[:3]:
    ...     print(name, digits.tolist())
    lost_carry [[-1, 6, -1]]
    carry_from_nowhere [[6, -1, 1]]
    misaligned [[7, 0, 5]]
    """
    if not task.answer_is_number:
        return []
    steps, answer = task.compute_steps(problems), problems.answer.long()
    mistaken = []
    if "carry_used" in steps:
        used = steps["carry_used"].long()
        lost = torch.where(used > 0, (answer - used) % task.base, NO_MISTAKE)
        invented = torch.where(used > 0, NO_MISTAKE, (answer + 1) % task.base)
        mistaken += [("lost_carry", lost), ("carry_from_nowhere", invented)]
    if isinstance(task, ModularAddition) or task.operand_count == 1:
        return mistaken  # a shifted operand might be too large; one alone has nothing to align with
    return mistaken + [("misaligned", digits) for digits in _misalign_operands(task, problems)]


def _misalign_operands(task: Task, problems: Problems) -> Iterator[Integer[Tensor, "B K"]]:
    """Solve the problems with one operand shifted by a place, up and down, for each operand."""
    operands, places = F.pad(problems.operands, (0, 1)), problems.answer.shape[1]
    lengths = problems.lengths + (problems.lengths > 0)
    for index in range(operands.shape[1]):
        for shift in (1, -1):
            shifted = operands.clone()
            shifted[:, index] = operands[:, index].roll(shift, dims=1)
            if shift == -1:  # drop the digit of place 0, which `roll` moves to the top
                shifted[:, index, -1] = 0
            yield task.solve(shifted, lengths).answer[:, :places].long()
