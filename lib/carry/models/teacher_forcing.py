"""Exact match under greedy decoding, from one teacher-forced pass.

Let the true response be y_1 .. y_A (y_A ends it) and g_1 .. g_A the response of greedy decoding.
They are compared token by token, and token t + 1 is the argmax of logits that depend only on the
question and the first t response tokens.

Claim: g = y if and only if, in one pass over the question and y, every argmax is the next true
token. Proof: if every argmax is right, then by induction g_1 .. g_t = y_1 .. y_t for every t: the
prefixes are equal, so the logits are, so the next tokens are. If not, let t + 1 be the first token
with a wrong argmax: up to t both prefixes are equal, so greedy decoding has the same logits at t
and writes the same wrong token; hence g differs from y. The pass thus also predicts the response of
greedy decoding up to and including its first error.

The proof needs marks and ids that depend on the question and on earlier tokens, but not on the
token itself (here they depend on its slot), and padding that no real token attends to (it follows
the text, and the model is causal). Tokens after the first error need real decoding.
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
    """The argmax and the true next token, for the A response tokens of B problems."""

    predicted: Integer[Tensor, "B A"]
    target: Integer[Tensor, "B A"]
    real: Bool[Tensor, "B A"]

    @property
    def wrong(self) -> Bool[Tensor, "B A"]:
        """Whether the argmax differs from the true next token."""
        return self.real & (self.predicted != self.target)

    @property
    def exact(self) -> Bool[Tensor, " B"]:
        """Whether greedy decoding writes the complete response correctly."""
        return ~self.wrong.any(1)

    @property
    def first_wrong(self) -> Integer[Tensor, " B"]:
        """The slot of the first wrong token; -1 in an exact response."""
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
    """Run the model once over problems and their true responses; results are on their device.

    Args:
        start: the first id, if `ids` are not passed.
        most: response tokens to compute at once, if the attention scores of all do not fit in
            memory; the pass is then repeated for each part, except for the last layer.

    >>> from carry.config.run_settings import make_run
    >>> from carry.randomness import stream
    >>> system = System(make_run({"task": {"name": "addition"}}))
    >>> problems = system.task.draw(5, digits=3, generator=stream(0, "doctest"))
    >>> teacher_forced_pass(system, system.format.write(problems)).exact.tolist()
    [False, False, False, False, False]
    """
    device, batch = batch.tokens.device, batch.to(system.device)
    at, target, real = batch.response()
    if (batch.start == batch.start[0]).all():  # one row of indices then serves all problems
        at = at[:1]
    ids = system.ids(batch, start) if ids is None else ids
    parts = at.split(most or at.shape[1], dim=1)
    predicted = [system.logits(batch, ids, part, recurrences).argmax(-1) for part in parts]
    parts = (torch.cat(predicted, dim=1), target, real)
    return TeacherForcedPass(*(part.to(device) for part in parts))
