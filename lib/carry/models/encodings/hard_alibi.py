"""Hard-ALiBi: some heads see the last tokens alone, the others all tokens (Jelassi et al. 2024)."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Integer
from pydantic import Field
from torch import Tensor

from carry.config.settings import SettingsError
from carry.models.encodings import Encoding, IdRange, ModelSettings, Side


class HardALiBi(Encoding):
    """A bias of 0 or minus infinity: head h attends to ids that are at most `spans[h]` lower.

    The heads after those with a span attend to all tokens, without any position (arXiv:2402.01032,
    and 2407.03310 for sums). It has no weights.
    """

    class Settings(Encoding.Settings):
        """The settings of the heads."""

        spans: list[Side] = Field(default=[1], min_length=1)

    label = "Hard-ALiBi"

    def __init__(self, settings: Settings, model: ModelSettings, ids: IdRange) -> None:
        super().__init__(settings, model, ids)
        if len(settings.spans) > model.heads:
            raise SettingsError(
                f"positions.spans: {settings.spans} does not fit heads {model.heads}; expected at "
                "most one span for each head"
            )
        spans = torch.full((model.heads,), torch.iinfo(torch.long).max)
        spans[: len(settings.spans)] = torch.tensor(settings.spans)
        self.settings = settings
        self.register_buffer("spans", spans, persistent=False)

    def bias(
        self, layer: int, query: Integer[Tensor, "_ Q"], key: Integer[Tensor, "_ T"]
    ) -> Float[Tensor, "_ H Q T"]:
        """Return the biases; keys after the query are masked elsewhere."""
        distance = (query[:, :, None] - key[:, None, :])[:, None]
        hidden = distance > self.spans[:, None, None]
        return torch.zeros(hidden.shape, device=hidden.device).masked_fill(hidden, -math.inf)
