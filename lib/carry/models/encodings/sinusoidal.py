"""Sines and cosines of the id, added to the token (Vaswani et al. 2017, 3.5)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Integer
from pydantic import Field
from torch import Tensor

from carry import settings
from carry.models.encodings import Encoding, Shape


class Sinusoidal(Encoding):
    """Feature pair k turns by id / `base`^(2k / width); any id can be felt."""

    class Settings(settings.Settings):
        """The settings of this kind."""

        base: float = Field(default=10_000.0, gt=0.0)

    def __init__(self, given: Settings, shape: Shape, largest: int) -> None:
        super().__init__(given, shape, largest)
        exponent = torch.arange(0, shape.width, 2) / shape.width
        self.register_buffer("rates", given.base**-exponent, persistent=False)

    def embed(self, ids: Integer[Tensor, "b T"]) -> Float[Tensor, "b T D"]:
        """Work the features out; sines and cosines alternate."""
        angles = ids[..., None] * self.rates
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)
