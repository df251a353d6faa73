"""Rotary encoding: queries and keys are rotated by their ids (Su et al. 2024)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Integer
from torch import Tensor

from carry.config.settings import SettingsError
from carry.models.encodings import Encoding, IdRange, ModelSettings

BASE = 10_000.0


class RoPE(Encoding):
    """Each pair (k, k + d/2) of a head's d features is rotated by id / `BASE`^(2k / d)."""

    def __init__(self, settings: Encoding.Settings, model: ModelSettings, ids: IdRange) -> None:
        super().__init__(settings, model, ids)
        if model.head_size % 2:
            raise SettingsError(
                f"a head_width of {model.head_size} does not fit RoPE, expected an even one"
            )
        exponent = torch.arange(0, model.head_size, 2) / model.head_size
        self.register_buffer("rates", BASE**-exponent, persistent=False)

    def rotate(
        self, x: Float[Tensor, "B H T d"], ids: Integer[Tensor, "_ T"]
    ) -> Float[Tensor, "B H T d"]:
        """Rotate every pair of features."""
        angles = ids[:, None, :, None] * self.rates
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)
