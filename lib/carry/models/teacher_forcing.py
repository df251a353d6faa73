"""Exact match under greedy decoding, from one teacher-forced pass.

Let the true response be y_1 .. y_A (its last token ends it) and g_1 .. g_A what greedy decoding
writes. Both are compared token by token, and token t + 1 is the argmax of logits that depend on
the question and the first t response tokens only.

Claim: g = y if and only if, in one pass over the question and y, every argmax is the next true
token. Proof: if every argmax is right, then by induction g_1 .. g_t = y_1 .. y_t for every t: the
prefixes are equal, so the logits are, so the next tokens are. If not, let t + 1 be the first place
where the argmax is wrong: up to t both prefixes are equal, so greedy decoding meets the very same
logits there and writes that same wrong token; hence g differs from y. The pass thus also tells
what greedy decoding writes up to and including its first error.

It needs marks and ids that depend on the question and on what was written before, never on the
token itself (here: on its slot), and padding that no real token sees (it stands at the right of a
causal model). It says nothing of what follows the first error: that needs real decoding.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from carry.data.batch import Batch
from carry.models.system import Start, System


@dataclass(frozen=True)
class TeacherForcedPass:
    """What one pass over the truth shows, for the A response tokens of B problems."""

    predicted: Integer[Tensor, "B A"]
    target: Integer[Tensor, "B A"]
    real: Bool[Tensor, "B A"]

    @property
    def wrong(self) -> Bool[Tensor, "B A"]:
        """Where the argmax is not the next true token."""
        return self.real & (self.predicted != self.target)

    @property
    def exact(self) -> Bool[Tensor, " B"]:
        """Whether greedy decoding writes the whole response right."""
        return ~self.wrong.any(1)

    @property
    def first_wrong(self) -> Integer[Tensor, " B"]:
        """The slot of the first wrong token; -1 where there is none."""
        return torch.where(self.exact, -1, self.wrong.int().argmax(1))


@torch.inference_mode()
def teacher_forced_pass(
    system: System,
    batch: Batch,
    start: Start = 1,
    recurrences: int | None = None,
    ids: list[Integer[Tensor, "_ T"]] | None = None,
    most: int | None = None,
) -> TeacherForcedPass:
    """Run the model once over problems and their true responses.

    `most`: work out so many response tokens at a time, since scores of all would not fit. (All but
    the last layer are then run as often; that one is worked out for these tokens alone.)

    >>> from carry.config.run_settings import make_run
    >>> from carry.randomness import stream
    >>> system = System(make_run({"task": {"name": "addition"}}))
    >>> problems = system.task.draw(5, digits=3, generator=stream(0, "doctest"))
    >>> teacher_forced_pass(system, system.format.write(problems)).exact.tolist()
    [False, False, False, False, False]
    """
    at, target, real = batch.response()
    if (batch.start == batch.start[0]).all():  # one row then: what is shared is worked out once
        at = at[:1]
    ids = system.ids(batch, start) if ids is None else ids
    parts = at.split(most or at.shape[1], dim=1)
    said = [system.logits(batch, ids, part, recurrences).argmax(-1) for part in parts]
    return TeacherForcedPass(torch.cat(said, dim=1), target, real)
