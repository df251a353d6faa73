"""What one training step reads: a batch as tensors of few shapes, on the device of the model.

Problems and ids are drawn on the CPU, whatever the device, and copied to it without waiting. So a
seed is trained on the same problems everywhere, all sizes are known before the copy, and no step
waits for a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Integer
from torch import Tensor

from carry.data.batch import Batch

# Widths on a GPU are multiples of these, so that there are few shapes. Fused attention needs a
# multiple of 8 keys for biases in 16 bits.
TOKENS, ANSWERS = 16, 8


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

    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Return the shapes of all tensors."""
        return tuple(tuple(tensor.shape) for tensor in self._tensors())

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

    def pad(self) -> StepInputs:
        """Repeat the last columns, as padding, until widths are multiples of `TOKENS`, `ANSWERS`.

        Padding follows all real tokens, which cannot attend to it, and is not in the loss.

        >>> tokens = torch.arange(6).reshape(3, 2)
        >>> inputs = StepInputs(tokens, (tokens[:1],), tokens[:, :1], tokens[:, 1:], tokens > 3)
        >>> inputs.pad().shapes()
        ((3, 16), (1, 16), (3, 8), (3, 8), (3, 8))
        """
        width = _round_up(self.tokens.shape[1], TOKENS)
        answers = width if self.at is None else _round_up(self.target.shape[1], ANSWERS)
        return StepInputs(
            _repeat_last(self.tokens, width),
            tuple(_repeat_last(ids[:, :width], width) for ids in self.ids),
            None if self.at is None else _repeat_last(self.at, answers),
            _repeat_last(self.target, answers),
            F.pad(self.real, (0, answers - self.real.shape[1])),
        )

    def send(self, device: torch.device) -> StepInputs:
        """Copy the tensors to a GPU without waiting; on a CPU return them as they are."""
        if device.type == "cpu":
            return self
        return self._map(lambda x: x.pin_memory().to(device, non_blocking=True))

    def copy(self) -> StepInputs:
        """Return copies of the tensors, whose memory `overwrite` fills."""
        return self._map(Tensor.clone)

    def overwrite(self, inputs: StepInputs) -> None:
        """Copy other inputs of the same shapes into these tensors."""
        for own, new in zip(self._tensors(), inputs._tensors(), strict=True):
            own.copy_(new.pin_memory() if own.is_cuda else new, non_blocking=True)

    def _tensors(self) -> list[Tensor]:
        at = [] if self.at is None else [self.at]
        return [self.tokens, *self.ids, *at, self.target, self.real]

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


def _round_up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def _repeat_last(values: Tensor, width: int) -> Tensor:
    return torch.cat([values, values[:, -1:].expand(-1, width - values.shape[1])], dim=1)
