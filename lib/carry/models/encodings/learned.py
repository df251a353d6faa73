"""A learned vector for each id, added to the token (Gehring et al. 2017)."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float, Integer
from pydantic import Field
from torch import Tensor, nn

from carry.models.encodings import Encoding, IdRange, ModelSettings
from carry.models.encodings.sinusoidal import compute_sinusoids


class Learned(Encoding):
    """An embedding table. Its row 0, for tokens without a place, is learned as well.

    `table`: the largest id that has a row (default: the largest id of training).
    `initial`: rows start as `normal` noise, or as `sinusoidal` features (of the id, with `base`).
    The product of two sinusoidal rows depends only on the difference of their ids; `base: null`
    makes it 0 for all differences below the width, also for those of no training problem. In a
    table that is longer than the width it is small for nearly all differences (see
    `compute_sinusoids`).
    `ring`: the first row follows the last one. No id is then at an edge, and every id has a row;
    ids that differ by the length of the table share it.
    """

    class Settings(Encoding.Settings):
        """The settings of learned embeddings."""

        table: int | None = Field(default=None, ge=1)
        initial: Literal["normal", "sinusoidal"] = "normal"
        base: float | None = Field(default=100.0, gt=0.0)
        ring: bool = False

    def __init__(self, settings: Settings, model: ModelSettings, ids: IdRange) -> None:
        super().__init__(settings, model, ids)
        self.settings, self.table = settings, settings.table or ids.largest
        self.limit = None if settings.ring else self.table
        self.rows = nn.Embedding(self.table + 1, model.width)

    def initialise(self, std: float) -> None:
        """Set the first rows; the row of tokens without a place always starts as noise."""
        nn.init.normal_(self.rows.weight, std=std)
        if self.settings.initial == "sinusoidal":
            ids, width = torch.arange(1, self.table + 1), self.rows.embedding_dim
            features = compute_sinusoids(ids, width, self.settings.base, self.table)
            self.rows.weight[1:] = features

    def embed(self, ids: Integer[Tensor, "b T"]) -> Float[Tensor, "b T D"]:
        """Return the rows of the ids."""
        if self.settings.ring:
            ids = torch.where(ids > 0, (ids - 1) % self.table + 1, 0)
        return self.rows(ids)
