"""The yardstick: a minimal GPT-style decoder on torch's fused attention, and its training step."""

import torch
import torch.nn.functional as F
from torch import nn


class Layer(nn.Module):
    """Pre-norm causal attention and a feed-forward network."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the residual stream after this layer."""
        split = self.qkv(self.norms[0](x)).chunk(3, dim=-1)
        query, key, value = (p.unflatten(2, (self.heads, -1)).transpose(1, 2) for p in split)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(F.relu(self.up(self.norms[1](x))))


class Decoder(nn.Module):
    """Learned positions, `layers` layers, logits for every token."""

    def __init__(self, symbols: int, length: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(symbols, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm, self.logits = nn.LayerNorm(width), nn.Linear(width, symbols, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits of the next token at every token."""
        x = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.logits(self.norm(x))
