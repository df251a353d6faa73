"""A learned bias for each head and difference of ids.

Over place ids (Abacus, coupled) the model reads places relatively, and a window limits attention to
neighbouring places: the next token then depends on a bounded context at every length.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Integer
from pydantic import Field
from torch import Tensor, nn

from carry.models.encodings import Encoding, IdRange, ModelSettings, gather_biases


class Relative(Encoding):
    """Biases by difference of ids, clipped at `clip` (default: one more than the window, or 16).

    If the scheme does not count some tokens, three more biases serve them: for an uncounted query,
    an uncounted key, and both.
    Biases are stored small and multiplied by `scale`, so that they can grow fast. They start at 0,
    or as noise with standard deviation `spread`.
    """

    class Settings(Encoding.Settings):
        """The settings of relative biases."""

        clip: int | None = Field(default=None, ge=1)
        scale: float = Field(default=8.0, gt=0.0)
        spread: float = Field(default=0.0, ge=0.0)

    label = "read relatively"  # after the label of the scheme

    def __init__(self, settings: Settings, model: ModelSettings, ids: IdRange) -> None:
        super().__init__(settings, model, ids)
        self.scale, self.spread = settings.scale, settings.spread
        self.clip = settings.clip or (16 if self.window is None else max(self.window) + 1)
        rows = 2 * self.clip + 1 + (0 if self.uncounted_id is None else 3)
        self.biases = nn.ParameterList(
            nn.Parameter(torch.zeros(rows, model.heads)) for _ in range(model.layers)
        )

    def initialise(self, std: float) -> None:
        """Set the first biases; their spread does not depend on the embeddings'."""
        if self.spread:
            for biases in self.biases:
                nn.init.normal_(biases, std=self.spread / self.scale)

    def bias(
        self, layer: int, query: Integer[Tensor, "_ Q"], key: Integer[Tensor, "_ T"]
    ) -> Float[Tensor, "_ H Q T"]:
        """Return the biases of the clipped differences."""
        rows = self.find_rows(query[:, :, None], key[:, None, :])
        return gather_biases(self.biases[layer] * self.scale, rows)

    def find_rows(
        self, query: Integer[Tensor, ...], key: Integer[Tensor, ...]
    ) -> Integer[Tensor, ...]:
        """Return which of the biases belongs to each pair of ids."""
        row = (query - key).clamp(-self.clip, self.clip) + self.clip
        if self.uncounted_id is not None:
            uncounted = (query == self.uncounted_id).long() + 2 * (key == self.uncounted_id).long()
            row = torch.where(uncounted > 0, 2 * self.clip + uncounted, row)
        return row
