"""What decoding remembers of the tokens it has read, so that it reads each of them once."""

from __future__ import annotations

import torch
from torch import Tensor


class Cache:
    """Keys and values of the tokens read so far, for each layer and recurrence."""

    def __init__(self) -> None:
        self.steps: list[tuple[Tensor, Tensor]] = []
        self.length = 0
        self._next = 0

    def extend(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Append this step's keys and values to those of its earlier calls, and return all."""
        if self._next == len(self.steps):
            self.steps.append((key, value))
        else:
            old = self.steps[self._next]
            pair = torch.cat([old[0], key], dim=2), torch.cat([old[1], value], dim=2)
            self.steps[self._next] = pair
        self._next += 1
        return self.steps[self._next - 1]

    def advance(self, tokens: int) -> None:
        """Close one call of the model that read so many tokens."""
        self.length += tokens
        self._next = 0

    def keep(self, rows: Tensor) -> None:
        """Keep only some sequences, when others have ended."""
        self.steps = [(key[rows], value[rows]) for key, value in self.steps]
