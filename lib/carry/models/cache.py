"""The cache of decoding: a model reads each token once."""

from __future__ import annotations

import torch
from torch import Tensor


class Cache:
    """Tensors of the tokens read so far, one tuple for each call of `extend` in a pass.

    A transformer keeps keys and values of each layer and recurrence. Another architecture may keep
    any tensors whose first dimension is the batch.
    """

    def __init__(self) -> None:
        self.steps: list[tuple[Tensor, ...]] = []
        self.length = 0
        self._next = 0

    def extend(self, *new: Tensor, dim: int = 2) -> tuple[Tensor, ...]:
        """Append tensors to the result of the same call in earlier passes, and return all."""
        if self._next == len(self.steps):
            self.steps.append(new)
        else:
            old = self.steps[self._next]
            self.steps[self._next] = tuple(
                torch.cat(pair, dim=dim) for pair in zip(old, new, strict=True)
            )
        self._next += 1
        return self.steps[self._next - 1]

    def advance(self, tokens: int) -> None:
        """End a pass that read this number of tokens."""
        self.length += tokens
        self._next = 0

    def keep_rows(self, rows: Tensor) -> None:
        """Keep some sequences of the batch, when the others have ended."""
        self.steps = [tuple(tensor[rows] for tensor in step) for step in self.steps]
