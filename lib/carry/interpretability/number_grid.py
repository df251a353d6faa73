"""Grids, circles and lines of numbers of several digits (fraknoi2024, section 4).

A number of three digits has a vector, here the residual stream at its last token. In a grid the
vector is a sum with a part for each digit at its place,

    vector(h t u)  =  mean + part_1(h) + part_2(t) + part_3(u) + rest

and the parts of the ten digits of a place may lie on a line or on a circle.
"""

from __future__ import annotations

import math

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from carry.interpretability.fourier import compute_spectrum


def find_parts(grid: Float[Tensor, "*P D"]) -> list[Float[Tensor, "_ D"]]:
    """Return the parts of a grid: for each of its places, the part of each digit.

    Args:
        grid: the vectors of all numbers, with an axis for each place and one for the features.

    >>> grid = torch.tensor([0.0, 2.0])[:, None, None] + torch.tensor([0.0, 1.0, 5.0])[:, None]
    >>> [part.flatten().tolist() for part in find_parts(grid)]
    [[-1.0, 1.0], [-2.0, -1.0, 3.0]]
    """
    places = range(grid.ndim - 1)
    mean = grid.mean([*places])
    parts = []
    for place in places:
        others = [other for other in places if other != place]
        parts.append((grid.mean(others) if others else grid) - mean)  # no axis stands for all axes
    return parts


def describe_grid(grid: Float[Tensor, "*P D"]) -> pd.DataFrame:
    """Return how much of a grid the digits of each place explain, and what shape they have.

    A line for each place, the most significant first, and one for all `places` together. Columns:
    `share` of the variance of the vectors that the parts explain; of the variance of the parts of
    a place, `line`: the share that is linear in the digit, and `circle`: the largest share at one
    frequency, which is `frequency`. Of ten random points a line has a ninth on average, and a
    circle about a third. The frequency 5 of ten digits, even or odd, is no circle.

    >>> wave = 2 * torch.pi * torch.arange(10.0) / 10
    >>> circle = torch.stack([wave.cos(), wave.sin(), 0 * wave], dim=1)
    >>> line = torch.arange(10.0)[:, None] * torch.tensor([0.0, 0.0, 1.0])
    >>> table = describe_grid(circle[:, None] + line)
    >>> table.round(2)[["place", "share", "line", "circle"]].values.tolist()[1:]
    [['2', 0.89, 1.0, 0.63], ['all', 1.0, nan, nan]]
    >>> table[["circle", "frequency"]].round(6).values.tolist()[0]
    [1.0, 1.0]
    """
    grid = grid.double()
    places = [*range(grid.ndim - 1)]
    total = float((grid - grid.mean(places)).square().sum(-1).mean())
    rows = []
    for place, part in enumerate(find_parts(grid), start=1):
        share = float(part.square().sum(1).mean()) / total
        row = {"place": str(place), "share": share, "line": measure_line(part)}
        spectrum = compute_spectrum(part)[: (len(part) - 1) // 2]
        row |= {"circle": float(spectrum.max()), "frequency": float(spectrum.argmax() + 1)}
        rows.append(row)
    empty = {"line": math.nan, "circle": math.nan, "frequency": math.nan}
    rows.append({"place": "all", "share": sum(row["share"] for row in rows), **empty})
    return pd.DataFrame(rows)


def measure_line(parts: Float[Tensor, "V D"]) -> float:
    """Return the share of the variance of points that is linear in their number.

    >>> round(measure_line(torch.tensor([[0.0, 1.0], [1.0, 3.0], [2.0, 5.0]])), 6)
    1.0
    """
    number = torch.arange(len(parts), dtype=torch.float64)
    number = (number - number.mean()) / number.std(correction=0)
    centred = parts.double() - parts.double().mean(0)
    slope = (number[:, None] * centred).mean(0)
    return float(slope.square().sum() / centred.square().sum(1).mean())


def project_on_plane(vectors: Float[Tensor, "N D"]) -> Float[Tensor, "N 2"]:
    """Return the first two principal components of vectors; the larger end of each is positive.

    >>> project_on_plane(torch.tensor([[0.0, 0.0], [0.0, 3.0], [0.0, -9.0]])).round().tolist()
    [[-2.0, 0.0], [-5.0, 0.0], [7.0, 0.0]]
    """
    centred = vectors.double() - vectors.double().mean(0)
    directions = torch.linalg.svd(centred, full_matrices=False).Vh[:2]
    plane = centred @ directions.T
    ends = plane.gather(0, plane.abs().argmax(0, keepdim=True))
    return plane * torch.where(ends < 0, -1.0, 1.0)
