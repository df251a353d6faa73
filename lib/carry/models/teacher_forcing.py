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

It holds for a mean over starts of ids too. Let S be a set of starts that depends on the question
alone, and p_s the next-token probabilities of the model with ids from start s. Decoding writes the
argmax of the mean of p_s over S, where every p_s follows the one prefix that has been written. The
mean is a function of the question and of this prefix, as the logits were, and the proof uses
nothing else. One pass for each start and the argmax of their mean give the same verdict: until the
first wrong argmax the written prefix is the true one for every start, and this token breaks both.
(A vote over finished responses is another method: there each start follows its own prefix.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor

from carry.data.batch import Batch
from carry.models.system import System


@dataclass(frozen=True)
class TeacherForcedPass:
    """The argmax and the true next token, for the A response tokens of B problems.

    `logits` are those of the only start, if they were asked for.
    """

    predicted: Integer[Tensor, "B A"]
    target: Integer[Tensor, "B A"]
    real: Bool[Tensor, "B A"]
    logits: Float[Tensor, "B A V"] | None = None

    @property
    def right(self) -> Bool[Tensor, "B A"]:
        """Whether the argmax is the true next token; padding is."""
        return ~self.wrong

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
    recurrences: int | None = None,
    ids_by_start: Sequence[list[Integer[Tensor, "_ T"]]] | None = None,
    ignored: Bool[Tensor, "_ T"] | None = None,
    keep_logits: bool = False,
) -> TeacherForcedPass:
    """Run the model once over problems and their true responses; results are on their device.

    Args:
        ids_by_start: the ids (default: from start 1); of several starts the probabilities are
            averaged, and the model runs once for each.
        ignored: tokens that are not scored, those that training ids make unpredictable.
        keep_logits: whether the result has the logits; only of one start.

    >>> from carry.experiments.resolve import make_run
    >>> from carry.randomness import stream
    >>> system = System(make_run({"task": {"name": "addition"}}))
    >>> problems = system.task.draw(5, digits=3, generator=stream(0, "doctest"))
    >>> teacher_forced_pass(system, system.format.write(problems)).exact.tolist()
    [False, False, False, False, False]
    """
    device, batch = batch.tokens.device, batch.to(system.device)
    at, target, real = batch.response()
    if ignored is not None:
        ignored = ignored.to(system.device).expand(len(batch), -1)
        real = real & ~ignored.gather(1, batch.slots())
    if (batch.start == batch.start[0]).all():  # one row of indices then serves all problems
        at = at[:1]
    if ids_by_start is None:
        ids_by_start = [system.ids(batch)]
    if keep_logits:
        (ids,) = ids_by_start
        logits = system.logits(batch, ids, at, recurrences)
        results = (logits.argmax(-1), target, real, logits)
    else:
        passes = (system.logits(batch, ids, at, recurrences) for ids in ids_by_start)
        results = (predict_tokens(passes), target, real)
    return TeacherForcedPass(*(result.to(device) for result in results))


def predict_tokens(logits: Iterable[Float[Tensor, "*B V"]]) -> Integer[Tensor, "*B"]:
    """Return the tokens with the highest probability, averaged over the logits of several starts.

    >>> one, other = torch.tensor([[2.0, 0.0, 1.9]]), torch.tensor([[0.0, 2.0, 1.9]])
    >>> predict_tokens([one]).tolist(), predict_tokens([one, other]).tolist()
    ([0], [2])
    """
    logits = iter(logits)
    first, total = next(logits), None
    for values in logits:
        total = (first.softmax(-1) if total is None else total) + values.softmax(-1)
    # One start needs no softmax, whose rounding could move a close argmax.
    return (first if total is None else total).argmax(-1)
