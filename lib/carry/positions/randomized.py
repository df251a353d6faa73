"""Randomized ids (Ruoss et al. 2023): a random ordered subset of a longer range.

The ids tell only the order of tokens; a model that has seen every id in training meets no new id
in longer sequences. With FIRE they are the randomized FIRE of Zhou et al. 2024.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Integer
from pydantic import Field
from torch import Tensor

from carry.config.settings import SettingsError
from carry.data.batch import Batch
from carry.formats import Extent, Format
from carry.positions import Scheme
from carry.randomness import stream


class Randomized(Scheme):
    """Ids drawn from 1 to `range` without replacement and sorted; the first token has id 0.

    `per_example` draws a subset for each row instead of one for the batch, which is much cheaper
    for encodings that turn ids into attention biases.
    """

    accepts_start: ClassVar[bool] = False
    increasing: ClassVar[bool] = True
    ids_measure_distance: ClassVar[bool] = False  # differences of ids are random

    range: int = Field(ge=1, le=10**7)
    per_example: bool = False

    def train_ids(self, batch: Batch, generator: torch.Generator) -> Integer[Tensor, "b T"]:
        """Draw a subset for the batch, or one for each row."""
        return self._draw(batch, len(batch) if self.per_example else 1, generator)

    def ids(self, batch: Batch, start: int = 1) -> Integer[Tensor, "b T"]:
        """Return one subset from a fixed stream, the same for all sequences of a length."""
        device = batch.tokens.device
        return self._draw(batch, 1, stream(0, "randomized", device=device))

    def incompatibility(self, form: Format) -> str | None:
        """Refuse a format whose number of tokens is unknown before decoding."""
        if form.marks_known_from_question:
            return None
        return (
            "'randomized' does not fit a format whose numbers end where the model decides, because "
            "the number of ids is unknown before decoding; expected pad: true"
        )

    def required_ids(self, extent: Extent) -> int:
        """Return one id for each token but the first."""
        return extent.tokens - 1

    def id_limit(self) -> int:
        """Return the end of the range."""
        return self.range

    def _draw(self, batch: Batch, rows: int, generator: torch.Generator) -> Tensor:
        device, width = batch.tokens.device, batch.tokens.shape[1]
        if width - 1 > self.range:
            raise SettingsError(
                f"positions.range: {self.range} is too short for {width} tokens; "
                f"expected at least {width - 1}"
            )
        scores = torch.rand(rows, self.range, generator=generator, device=device)
        chosen = scores.topk(width - 1, dim=1).indices.sort(dim=1).values + 1
        return torch.nn.functional.pad(chosen, (1, 0))
