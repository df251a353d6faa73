"""The layer norm and the first weights of fraknoi2024 (2.2 and 2.7), as they are printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from carry.models.architectures.transformer import Transformer
from carry.models.encodings import Encoding


class Fraknoi2024(Transformer):
    """A transformer with the printed norm and the printed first weights of the thesis.

    `norm_root`: whether a layer norm divides by the standard deviation. The thesis prints a
    division by the variance (2.2), and says in words that the result has unit variance, which needs
    the root.
    `initialisation`: `printed` (2.7). All are normal, with mean 0, for width d and l layers:

        tokens                         variance 1 / d
        query, key, output, last down  variance (2/3) sqrt(l) / d
        up, other down                 variance (2/3) sqrt(l) 2 / d

    The thesis says nothing of values, logits and biases: values are drawn like keys, logits with
    variance 1 / d, and biases are 0. (It cites Huang et al. 2020 for the factor, who have
    deviations of 0.67 l^(-1/4). For one layer that is a variance of 0.45 in place of 0.67.)
    """

    class Settings(Transformer.Settings):
        """The settings of a transformer; the defaults are what the thesis prints."""

        norm_root: bool = False
        initialisation: Literal["printed", "normal", "deepnorm", "t5"] = "printed"

    def __init__(self, settings: Settings, symbols: int, encodings: Sequence[Encoding]) -> None:
        super().__init__(settings, symbols, encodings)
        if settings.norm_root:
            return
        for part in [*self.modules()]:
            for name, norm in part.named_children():
                if isinstance(norm, nn.LayerNorm):
                    setattr(part, name, VarianceNorm(norm.normalized_shape, eps=norm.eps))

    @torch.no_grad()
    def _initialise(self, std: float) -> None:
        super()._initialise(std)
        settings = self.settings
        if settings.initialisation != "printed":
            return
        for layer, block in enumerate(self.blocks):
            for path, linear in block.named_modules():
                if isinstance(linear, nn.Linear):
                    name = path.rpartition(".")[2]
                    before_relu = name == "up" or (name == "down" and layer < settings.layers - 1)
                    variance = 2 / 3 * settings.layers**0.5 * (1 + before_relu) / settings.width
                    nn.init.normal_(linear.weight, std=variance**0.5)


class VarianceNorm(nn.LayerNorm):
    """A layer norm that divides by the variance plus epsilon, not by its root.

    >>> VarianceNorm(2)(torch.tensor([[1.0, 5.0], [1.0, 2.0]])).detach().round(decimals=3).tolist()
    [[-0.5, 0.5], [-2.0, 2.0]]
    """

    def forward(self, x: Float[Tensor, "*S D"]) -> Float[Tensor, "*S D"]:
        """Return the normed vectors."""
        x = divide_by_variance(x, self.eps) * self.weight
        return x if self.bias is None else x + self.bias


def divide_by_variance(x: Float[Tensor, "*S D"], epsilon: float = 1e-5) -> Float[Tensor, "*S D"]:
    """Return vectors less their mean, divided by their variance plus epsilon.

    >>> divide_by_variance(torch.tensor([1.0, 5.0]), 0.0).tolist()
    [-0.5, 0.5]
    """
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return (x - mean) / (variance + epsilon)
