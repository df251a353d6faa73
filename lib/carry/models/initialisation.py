"""The first weights of a layer, by one of three methods."""

from __future__ import annotations

import torch
from torch import nn


@torch.no_grad()
def initialise_layer(
    layer: nn.Module, method: str, depth: int, heads: int, residual: bool = True
) -> None:
    """Set the first weights of a layer's linear maps, by their names; biases are 0.

    `normal`: standard deviation 1 / sqrt(fan-in), divided by sqrt(2 depth) for the maps that write
    into the residual stream, `output` and `down` (Radford et al. 2019, 2.3). `deepnorm`: Wang et
    al. 2022, Fig. 2, for a decoder alone; maps outside the residual stream have the same gain, as
    in the released code of mcleish2024. `t5`: Raffel et al. 2020, who do not scale attention by
    1 / sqrt(head width), so queries start smaller.

    Args:
        depth: the number of layers in the residual stream, with recurrences.
        heads: attention heads, which share the rows of `query`.
        residual: whether `output` and `down` write into the residual stream.

    >>> layer = nn.ModuleDict({"query": nn.Linear(400, 400), "output": nn.Linear(400, 400)})
    >>> initialise_layer(layer, "normal", depth=2, heads=4)
    >>> [round(float(linear.weight.detach().std() * 20), 1) for linear in layer.values()]
    [1.0, 0.5]
    """
    for path, linear in layer.named_modules():
        name = path.rpartition(".")[2]
        if not isinstance(linear, nn.Linear):
            continue
        fan_in, fan_out = linear.in_features, linear.out_features
        if method == "deepnorm":
            gain = compute_deepnorm_gain(depth)
            parts = linear.weight.chunk(2 if name == "key_value" else 1)
            for part in parts:  # keys, the first of two parts, are not scaled, like queries
                keys = len(parts) == 2 and part is parts[0]
                nn.init.xavier_normal_(part, 1.0 if name == "query" or keys else gain)
        elif method == "t5":
            shrink = (fan_out // heads) ** -0.5 if name == "query" else 1.0
            nn.init.normal_(linear.weight, std=shrink * fan_in**-0.5)
        else:
            shrink = (2 * depth) ** -0.5 if residual and name in ("output", "down") else 1.0
            nn.init.normal_(linear.weight, std=shrink * fan_in**-0.5)
        if linear.bias is not None:
            nn.init.zeros_(linear.bias)


def compute_deepnorm_gain(depth: int) -> float:
    """Return the gain of the first weights of a decoder (Wang et al. 2022, Fig. 2).

    >>> compute_deepnorm_gain(2)
    0.5
    """
    return (8 * depth) ** -0.25
