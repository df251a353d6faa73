"""Addition of two non-negative integers: every place sums two digits and the carry before it.

place          3 2 1 0
a              . 6 5 3
b              . . 4 9
digit sum      0 6 9 12     a + b, without carries
carry used     0 1 1 0      a carry comes in
carry made     0 0 1 1      a carry goes out
cascade        0 0 1 0      a digit sum of nine that passes the carry on
answer         . 7 0 2
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Integer
from torch import Tensor

from carry.batch import Problems
from carry.tasks import Task


class Addition(Task):
    """Addition of two numbers.

    `sampling` of the training lengths: `stratified`, all pairs (i, j) alike (mcleish2024, A.5);
    `equal`, both of one length; `random`, half of the problems with independent lengths and half
    with equal ones (cho2025, 4.2).

    >>> from carry.randomness import stream
    >>> problems = Addition().draw(1000, digits=5, generator=stream(0, "doctest"))
    >>> problems.operands.shape, problems.answer.shape
    (torch.Size([1000, 2, 5]), torch.Size([1000, 6]))
    """

    sampling: Literal["stratified", "equal", "random"] = "stratified"

    def lengths(
        self, count: int, digits: int, generator: torch.Generator
    ) -> Integer[Tensor, "B M"]:
        """Draw the lengths (i, j) of `count` training problems."""
        device = generator.device
        if self.sampling == "stratified":
            # Every pair equally often, up to the remainder, which is drawn; then shuffled.
            order = torch.randperm(count, generator=generator, device=device)
            shift = torch.randint(digits**2, (1,), generator=generator, device=device)
            cell = (order + shift) % digits**2
            return torch.stack([cell // digits, cell % digits], dim=1) + 1
        shape = (count, 2)
        lengths = torch.randint(1, digits + 1, shape, generator=generator, device=device)
        equal = torch.ones(count, dtype=torch.bool, device=device)
        if self.sampling == "random":
            equal = torch.rand(count, generator=generator, device=device) < 0.5
        lengths[:, 1] = torch.where(equal, lengths[:, 0], lengths[:, 1])
        return lengths

    def sample(self, lengths: Integer[Tensor, "B M"], generator: torch.Generator) -> Problems:
        """Draw operands uniformly: a leading digit is not zero, except of the number 0 itself."""
        count, width = len(lengths), int(lengths.max())
        shape, device = (count, 2, width), lengths.device
        digits = torch.empty(shape, dtype=torch.uint8, device=device)
        digits.random_(0, 10, generator=generator)
        lead = torch.randint(1, 10, (count, 2), generator=generator, device=device)
        one = lengths == 1
        lead = torch.where(one, digits[:, :, 0].long(), lead)
        digits.scatter_(2, lengths[:, :, None] - 1, lead[:, :, None].to(torch.uint8))
        digits *= torch.arange(width, device=device) < lengths[:, :, None]
        return self.solve(digits, lengths)

    def solve(
        self, operands: Integer[Tensor, "B M N"], lengths: Integer[Tensor, "B M"]
    ) -> Problems:
        """Add, all problems and all places at once."""
        total = _digit_sum(operands)
        answer = total + _carry_used(total)
        answer = torch.where(answer >= 10, answer - 10, answer)
        longest = lengths.amax(1)
        top = answer.gather(1, longest[:, None])[:, 0]
        return Problems(operands, lengths, answer, longest + (top > 0))

    def steps(self, problems: Problems) -> dict[str, Integer[Tensor, "B K"]]:
        """Return digit sums, carries used and made, and cascades, by place, the ones first."""
        total = _digit_sum(problems.operands)
        used = _carry_used(total)
        made = (total + used >= 10).to(total.dtype)
        return {
            "digit_sum": total,
            "carry_used": used,
            "carry_made": made,
            "cascade": (total == 9).to(total.dtype) * used,
        }

    def oracle(self, *operands: int) -> int:
        """Return the sum of Python integers."""
        return sum(operands)


def _digit_sum(operands: Integer[Tensor, "B M N"]) -> Integer[Tensor, "B K"]:
    return F.pad(operands.sum(1, dtype=torch.uint8), (0, 1))


def _carry_used(total: Integer[Tensor, "B K"]) -> Integer[Tensor, "B K"]:
    """Find the carry into each place: the nearest lower digit sum that is not nine decides."""
    by_place = total.T.contiguous()  # one place of all problems lies together: quick to step
    used = torch.zeros_like(by_place)
    for place in range(1, len(by_place)):
        used[place] = by_place[place - 1] + used[place - 1] >= 10
    return used.T
