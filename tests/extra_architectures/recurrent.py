"""A recurrent network (GRU) over the embedded tokens and ids."""

from __future__ import annotations

from torch import nn

from carry.models.architectures import Architecture
from carry.models.architectures.transformer import pick_tokens
from carry.models.encodings import ModelShape


class Recurrent(Architecture):
    """Gated recurrent units, `layers` deep and `width` wide."""

    label = "GRU"
    has_attention = False

    def __init__(self, settings, symbols, encodings, shape):
        super().__init__(settings, symbols, encodings, shape)
        self.tokens = nn.Embedding(symbols, settings.width)
        self.units = nn.GRU(settings.width, settings.width, settings.layers, batch_first=True)
        self.logits = nn.Linear(settings.width, symbols)
        self.initialise_encodings(std=1.0)

    @staticmethod
    def shape(settings):
        """Return the sizes that encodings depend on."""
        return ModelShape(settings.width, heads=1, head_width=settings.width, layers=1)

    def forward(self, tokens, ids, at=None, recurrences=None, *, hooks=None):
        """Return the logits of the next token."""
        self.start_hooks(hooks)
        x, _ = self.units(self.add_encodings(self.tokens(tokens), ids))
        return self.logits(x if at is None else pick_tokens(x, at))

    def hidden_matrices(self):
        """Return the matrices that Muon trains."""
        return [weights for weights in self.units.parameters() if weights.ndim == 2]
