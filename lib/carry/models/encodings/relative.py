"""A learned bias for each head and difference of ids, with an optional window.

Over place ids (Abacus, coupled) this reads places relatively, and the window keeps attention local
in place: what the next token depends on is then bounded at every length.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Integer
from pydantic import Field
from torch import Tensor, nn

from carry import settings
from carry.models.encodings import Encoding, Shape


class Relative(Encoding):
    """Biases by difference, clipped at `clip` (default: one more than the window, or 16).

    `window`: a token sees only tokens whose id differs by at most so much, and the first token.
    Biases are stored small and multiplied by `scale`, so that they can grow quickly.
    """

    class Settings(settings.Settings):
        """The settings of this kind."""

        window: int | None = Field(default=None, ge=0)
        clip: int | None = Field(default=None, ge=1)
        scale: float = Field(default=8.0, gt=0.0)

    def __init__(self, given: Settings, shape: Shape, largest: int) -> None:
        super().__init__(given, shape, largest)
        self.window, self.scale = given.window, given.scale
        self.clip = given.clip or (16 if given.window is None else given.window + 1)
        self.biases = nn.ParameterList(
            nn.Parameter(torch.zeros(2 * self.clip + 1, shape.heads)) for _ in range(shape.layers)
        )

    def bias(
        self, layer: int, query: Integer[Tensor, "_ Q"], key: Integer[Tensor, "_ T"]
    ) -> Float[Tensor, "_ H Q T"]:
        """Look the clipped differences up."""
        difference = (query[:, :, None] - key[:, None, :]).clamp(-self.clip, self.clip)
        felt = F.embedding(difference + self.clip, self.biases[layer] * self.scale)
        return felt.permute(0, 3, 1, 2)

    def visible(
        self, query: Integer[Tensor, "_ Q"], key: Integer[Tensor, "_ T"]
    ) -> Bool[Tensor, "_ Q T"] | None:
        """Return which ids differ by no more than the window."""
        if self.window is None:
            return None
        return (query[:, :, None] - key[:, None, :]).abs() <= self.window
