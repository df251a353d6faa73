"""What one training step reads: a batch as tensors, on the device of the model.

Problems and ids are drawn on the CPU, whatever the device, and copied to it: a seed is trained on
the same problems everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from carry.data.batch import Batch


class StepInputs(NamedTuple):
    """The tensors of a step.

    Shapes: B sequences of T tokens, of which A have a next token in the loss. `at` has the indices
    of these, None for all T. `real`: which of the `target` tokens count.
    """

    tokens: Integer[Tensor, "B T"]
    ids: tuple[Integer[Tensor, "_ S"], ...]
    at: Integer[Tensor, "B A"] | None
    target: Integer[Tensor, "B A"]
    real: Bool[Tensor, "B A"]

    def split(self, size: int | None) -> Iterator[StepInputs]:
        """Yield parts of at most `size` sequences; None: one part.

        >>> tokens = torch.arange(6).reshape(3, 2)
        >>> inputs = StepInputs(tokens, (tokens[:1],), None, tokens, tokens >= 0)
        >>> [part.tokens.tolist() for part in inputs.split(2)]
        [[[0, 1], [2, 3]], [[4, 5]]]
        """
        count = len(self.tokens)
        if size is None or size >= count:
            yield self
            return
        for first in range(0, count, size):
            rows = slice(first, first + size)
            # Ids in one row are those of all sequences.
            yield self._map(lambda x, rows=rows: x if len(x) == 1 < count else x[rows])

    def to(self, device: torch.device) -> StepInputs:
        """Return the inputs on a device."""
        return self._map(lambda x: x.to(device))

    def _map(self, change) -> StepInputs:
        at = None if self.at is None else change(self.at)
        ids = tuple(change(ids) for ids in self.ids)
        return StepInputs(change(self.tokens), ids, at, change(self.target), change(self.real))


def make_inputs(
    batch: Batch,
    ids: Sequence[Integer[Tensor, "_ T"]],
    loss: Literal["answer", "everything"],
    unknowable: Bool[Tensor, "_ T"] | None = None,
) -> StepInputs:
    """Return the inputs of a step on a batch with its drawn ids; `loss` as in `Training`.

    Args:
        unknowable: tokens that the ids make unpredictable, which are not in the loss.
    """
    tokens = batch.tokens[:, :-1]  # nothing follows the last one
    if loss == "answer":
        at, target, real = batch.response()
    else:  # all tokens after the first, those of the question too
        at, target = None, batch.tokens[:, 1:].long()
        index = torch.arange(1, batch.tokens.shape[1], device=batch.length.device)
        real = index < batch.length[:, None]
    if unknowable is not None:
        unknowable = unknowable[:, 1:].expand(len(tokens), -1)  # at the token before it
        real = real & ~(unknowable if at is None else unknowable.gather(1, at))
    return StepInputs(tokens, tuple(ids), at, target, real)
