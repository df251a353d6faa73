"""Randomized ids (Ruoss et al. 2023): an ordered random subset of a longer range.

Order is all they tell; a model that has seen every id in training meets none that is new when
sequences grow. Used with FIRE they are the randomized FIRE of Zhou et al. 2024.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Integer
from pydantic import Field
from torch import Tensor

from carry.data.batch import Batch
from carry.formats import Extent, Format
from carry.positions import Scheme
from carry.randomness import stream


class Randomized(Scheme):
    """Ids drawn from 1..`range` without replacement and sorted; the beginning has 0.

    `per_example` draws a subset for each row, else one for the batch (which is much cheaper for
    encodings that turn ids into attention biases).
    """

    movable: ClassVar[bool] = False
    ordered: ClassVar[bool] = True

    range: int = Field(ge=1)
    per_example: bool = False

    @property
    def measures(self) -> bool:
        """No: only the order of ids is not chance."""
        return False

    def train_ids(self, batch: Batch, generator: torch.Generator) -> Integer[Tensor, "b T"]:
        """Draw a subset for the batch, or one for each row."""
        return self._draw(batch, len(batch) if self.per_example else 1, generator)

    def ids(self, batch: Batch, start: int = 1) -> Integer[Tensor, "b T"]:
        """Return one subset, always the same for sequences of one length (a fixed stream)."""
        device = batch.tokens.device
        return self._draw(batch, 1, stream(0, "randomized", device=device))

    def incompatibility(self, form: Format) -> str | None:
        """Refuse a format where how many ids are to be drawn is not known beforehand."""
        if form.marks_known_from_question:
            return None
        return (
            "'randomized' does not fit a format whose numbers end where the model says, because "
            "how many ids there are is not known before; expected pad: true"
        )

    def span(self, extent: Extent) -> int:
        """Return one id for each token but the first."""
        return extent.tokens - 1

    def largest(self, extent: Extent) -> int:
        """Return the end of the range."""
        return self.range

    def fixed_range(self) -> int:
        """Return the end of the range."""
        return self.range

    def _draw(self, batch: Batch, rows: int, generator: torch.Generator) -> Tensor:
        device, width = batch.tokens.device, batch.tokens.shape[1]
        scores = torch.rand(rows, self.range, generator=generator, device=device)
        chosen = scores.topk(width - 1, dim=1).indices.sort(dim=1).values + 1
        return torch.nn.functional.pad(chosen, (1, 0))
