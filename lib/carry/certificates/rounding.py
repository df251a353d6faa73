"""Rounding error bounds: each number carries its value and a bound on its float32 error.

The value is the result in exact arithmetic. The bound holds for every float32 evaluation (Higham,
Accuracy and Stability of Numerical Algorithms, 2nd ed., 2002). With unit roundoff u = 2^-24, the
error of a sum of n products, in any order, fused or not, is at most

    gamma_n * sum |terms|,    gamma_n = n u / (1 - n u)               (Higham, 3.1 and 4.2)

Hidden tokens add exact zeros, so the bound of a context holds in every sequence that contains it.
The slopes of each function bound the effect of errors in its inputs.

Assumptions about the machine, which are the only ones:

- Products, sums, quotients and square roots are rounded to nearest. Underflow may give 0. Nothing
  overflows. Matrix products use float32 (not "medium" or "high" precision).
- Within attention, products may be truncated instead of rounded, or consist of three TF32
  products: the bounds allow twice the number of roundings and 16 more.
- exp is accurate to 32 ulp (torch has one with 20), to 4 where it rescales earlier sums; 1 / sqrt
  is accurate to 4 ulp. exp may have base 2 or e. A computed variance is never negative.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Float64
from torch import Tensor

UNIT_ROUNDOFF = 2.0**-24  # half the distance from 1 to the next float32
ULP = 2 * UNIT_ROUNDOFF  # the largest distance of neighbouring float32 numbers, relatively
TINY = 2.0**-126  # the smallest normal float32; bounds the loss of an operation by underflow


class BoundedTensor(NamedTuple):
    """Values in exact arithmetic (up to float64 noise), with bounds on their float32 errors.

    `error` bounds the error of each number. `norm` bounds the Euclidean norm of the error vector
    along the last axis, where it has size 1. A matrix increases this norm at most by its largest
    singular value, whereas elementwise bounds add up as if all signs agreed.

    >>> ones = torch.ones(2, dtype=torch.float64)
    >>> bounded = BoundedTensor(-2 * ones, ones / 2)
    >>> bounded.max_magnitude.tolist(), round(BoundedTensor(ones, ones).error_norm.item(), 3)
    ([2.5, 2.5], 1.414)
    """

    value: Float64[Tensor, "*_"]
    error: Float64[Tensor, "*_"]
    norm: Float64[Tensor, "*_ 1"] | None = None  # None: use the norm of `error`
    rounding: Float64[Tensor, "*_"] | None = None  # the part of `error` not due to the inputs

    @classmethod
    def exact(cls, x: Float[Tensor, "*_"]) -> BoundedTensor:
        """Return numbers without error, such as weights."""
        return cls(x.double(), torch.zeros_like(x, dtype=torch.float64))

    @property
    def max_magnitude(self) -> Float64[Tensor, "*_"]:
        """The largest magnitude of a float32 result."""
        return self.value.abs() + self.error

    @property
    def error_norm(self) -> Float64[Tensor, "*_ 1"]:
        """The best bound on the norm of the error vector."""
        elementwise = vector_norms(self.error)
        return elementwise if self.norm is None else torch.minimum(elementwise, self.norm)

    def map(self, function: Callable[[Tensor], Tensor]) -> BoundedTensor:
        """Apply a selection or reshape, which keeps the last axis, to all parts but `rounding`."""
        norm = None if self.norm is None else function(self.norm)
        return BoundedTensor(function(self.value), function(self.error), norm)


def vector_norms(x: Float64[Tensor, "*_"]) -> Float64[Tensor, "*_"]:
    """Return the Euclidean norms of the vectors along the last axis.

    >>> vector_norms(torch.tensor([[3.0, 4.0]]).double()).tolist()
    [[5.0]]
    """
    return torch.linalg.vector_norm(x, dim=-1, keepdim=True)


def gamma(terms: int) -> float:
    """Return n u / (1 - n u), the relative error of n consecutive roundings.

    >>> gamma(1) > 2.0**-24, gamma(100) < 6e-6
    (True, True)
    """
    return terms * UNIT_ROUNDOFF / (1 - terms * UNIT_ROUNDOFF)


def spectral_norm(weight: Float[Tensor, "O I"]) -> float:
    """Return the largest singular value of a matrix.

    >>> spectral_norm(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    4.0
    """
    return torch.linalg.matrix_norm(weight.double(), 2).item()


def linear(
    x: BoundedTensor,
    weight: Float[Tensor, "O I"],
    bias: Float[Tensor, " O"] | None = None,
    weight_norm: float | None = None,
) -> BoundedTensor:
    """Return x W^T + b, with the error W dx plus gamma_(I+2) (|W| (|x| + |dx|) + |b|).

    Each entry of W dx is at most |row| |dx|; its norm is at most `spectral_norm`(W) |dx|.

    Args:
        weight_norm: the spectral norm of the weight, if it is already computed.

    Shapes: x [* I], the result [* O].

    >>> row = linear(BoundedTensor.exact(torch.ones(1, 3)), torch.ones(2, 3))
    >>> row.value.tolist(), bool((row.error < 1e-6).all())
    ([[3.0, 3.0]], True)
    """
    weight, terms, input_norm = weight.double(), weight.shape[1] + 2, x.error_norm
    inherited = vector_norms(weight).T * input_norm
    bias = weight.new_zeros(len(weight)) if bias is None else bias.double()
    rounding = gamma(terms) * (F.linear(x.value.abs(), weight.abs(), bias.abs()) + inherited)
    rounding += 2 * terms * TINY
    weight_norm = spectral_norm(weight) if weight_norm is None else weight_norm
    norm = weight_norm * input_norm + vector_norms(rounding)
    value = F.linear(x.value, weight, bias)
    return BoundedTensor(value, inherited.add_(rounding), norm, rounding)


def layer_norm(
    x: BoundedTensor, weight: Float[Tensor, " D"], bias: Float[Tensor, " D"] | None, eps: float
) -> BoundedTensor:
    """Return (x - mean) / sqrt(variance + eps) * w + b, for any algorithm for the variance.

    `_normalise` bounds the effect of errors in x. Rounding changes the variance by at most
    gamma_(3D+48) mean(x^2): to first order, the two-pass algorithm needs D + 3, E[x^2] - E[x]^2
    needs 3D + 5, and Welford's updates need 3D + 5 + 11.4 sqrt(ln D). (The error of Welford's mean
    of the first k numbers is at most u (sum |x| + 4 rms) of these, thus at most
    (sqrt(D k) + 4 sqrt(D / k)) u rms of all. The squares of x_k - mean_(k-1) sum to at most
    2 D variance. Then use Cauchy-Schwarz.) The error of the mean is at most gamma_(D+24) mean|x|,
    with D + 4 + 2 ln D for updates. Each number has six more roundings of |x| + |mean|, because
    x / s - mean / s is allowed.

    Shapes: x and the result [* D].

    >>> row = layer_norm(BoundedTensor.exact(torch.tensor([[1.0, 3.0]])), torch.ones(2), None, 0.0)
    >>> row.value.tolist(), bool((row.error < 1e-4).all())
    ([[-1.0, 1.0]], True)
    """
    width, magnitude = x.value.shape[-1], x.max_magnitude
    mean = x.value.mean(-1, keepdim=True)
    shift = gamma(width + 24) * magnitude.mean(-1, keepdim=True)
    shift = shift + gamma(6) * (magnitude + mean.abs() + x.error_norm / width**0.5 + shift)
    variance_error = gamma(3 * width + 48) * magnitude.square().mean(-1, keepdim=True)
    error = x.error + x.error_norm / width**0.5  # the second term bounds the error of the mean
    centered = BoundedTensor(x.value - mean, error, x.error_norm)
    return _normalise(centered, shift, variance_error, weight, bias, eps)


def rms_norm(x: BoundedTensor, weight: Float[Tensor, " D"], eps: float) -> BoundedTensor:
    """Return x / sqrt(mean(x^2) + eps) * w; the relative error of the mean is gamma_(D+4).

    Shapes: x and the result [* D].

    >>> row = rms_norm(BoundedTensor.exact(torch.tensor([[3.0, -3.0]])), torch.ones(2), 0.0)
    >>> row.value.tolist(), bool((row.error < 2e-6).all())
    ([[1.0, -1.0]], True)
    """
    square_mean = x.max_magnitude.square().mean(-1, keepdim=True)
    square_error = gamma(x.value.shape[-1] + 4) * square_mean
    return _normalise(x, torch.zeros_like(square_error), square_error, weight, None, eps)


def _normalise(
    x: BoundedTensor,
    shift: Tensor,
    square_error: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    eps: float,
) -> BoundedTensor:
    """Return x / sqrt(v + eps) * w + b, where v = mean(x^2) has the rounding error `square_error`.

    x / sqrt(v + eps) has slopes of at most 1 / sqrt(v + eps), both along lines through 0 and across
    them. sqrt(v) changes by at most |dx| / sqrt(D). So the norm of an error grows at most by the
    largest 1 / sqrt(v + eps) between the exact and the computed x. Elementwise, the error is
    multiplied by this factor, and x by the possible difference of the factors. Then follow the
    rounding of the root, the `shift` of x by rounding, and a few roundings.
    """
    norm, magnitude, root = x.error_norm, x.value.abs(), vector_norms(x.value)
    squares = (root - norm).clamp(min=0).square(), root.square(), (root + norm).square()
    smallest, exact, largest = (square / x.value.shape[-1] + eps for square in squares)
    exact_root, largest_root = exact.rsqrt(), smallest.rsqrt()
    root_change = torch.maximum(largest_root - exact_root, exact_root - largest.rsqrt())
    inherited = largest_root * x.error + root_change * magnitude
    root_error = _root_error(smallest, largest, square_error, eps) / largest_root
    root_error, g = root_error + 4 * ULP * (1 + root_error), gamma(8)
    rounding = (magnitude + x.error) * (root_error + g * (1 + root_error))
    rounding = rounding + shift * ((1 + root_error) * (1 + g))
    weight, rounding = weight.double(), largest_root * rounding
    bias = torch.zeros_like(weight) if bias is None else bias.double()
    weight_size = weight.abs()
    rounding = rounding * weight_size + (g * bias.abs() + TINY)
    output_norm = weight_size.max() * largest_root * norm + vector_norms(rounding)
    value = x.value * exact_root * weight + bias
    return BoundedTensor(value, inherited * weight_size + rounding, output_norm, rounding)


def _root_error(smallest: Tensor, largest: Tensor, square_error: Tensor, eps: float) -> Tensor:
    """Bound the error of 1 / sqrt(v + eps), where v >= 0 is computed with error `square_error`.

    A computed v that is too large has the largest effect at the smallest v. So has one that is too
    small, unless its value would be negative: then the effect increases with v, until v equals its
    error.
    """
    square_error = square_error + gamma(4) * (largest + square_error) + TINY
    floor = eps * (1 - gamma(4))
    down = smallest.rsqrt() - (smallest + square_error).rsqrt()
    worst = torch.maximum(smallest, torch.minimum(largest, floor + square_error))
    up = (worst - square_error).clamp(min=floor).rsqrt() - worst.rsqrt()
    return torch.maximum(down, up)


def relu(x: BoundedTensor) -> BoundedTensor:
    """Return max(x, 0), without rounding; the error is relu(x + dx) - relu(x), the steeper side.

    >>> pair, half = torch.tensor([-1.0, 1.0]).double(), torch.tensor([0.5, 0.5]).double()
    >>> relu(BoundedTensor(pair, half)).error
    tensor([0.0000, 0.5000], dtype=torch.float64)
    """
    value = x.value.relu()
    error = (x.value + x.error).relu_() - value
    return BoundedTensor(value, error, x.norm)


def add(x: BoundedTensor, y: BoundedTensor) -> BoundedTensor:
    """Return a sum, with the errors of its parts and gamma_2 (|x| + |y|).

    >>> total = add(BoundedTensor.exact(torch.ones(1)), BoundedTensor.exact(-torch.ones(1)))
    >>> total.value.item(), total.error.item() >= 2 * 2.0**-24
    (0.0, True)
    """
    rounding = gamma(2) * (x.max_magnitude + y.max_magnitude)
    norm = x.error_norm + y.error_norm + vector_norms(rounding)
    return BoundedTensor(x.value + y.value, x.error + y.error + rounding, norm, rounding)


def attention_scores(query: BoundedTensor, key: BoundedTensor, scale: float) -> BoundedTensor:
    """Return scale q k^T, with the error gamma_n |q + dq| |k + dk| and dq k + q dk + dq dk.

    By Cauchy-Schwarz all terms are norms of vectors, so signs of errors need not agree. n is
    2d + 16, which is more than d + 4, to allow for tensor cores and for any place of the scale.

    Shapes: query [* Q d] and key [* K d], which broadcast; the result [* Q K].

    >>> ones = BoundedTensor.exact(torch.ones(1, 4))
    >>> attention_scores(ones, ones, 0.5).value.tolist()
    [[2.0]]
    """
    terms = 2 * query.value.shape[-1] + 16
    query_norm, key_norm = vector_norms(query.value), vector_norms(key.value)
    error = (1 + gamma(terms)) * (query_norm + query.error_norm) * (key_norm + key.error_norm).mT
    error = error - query_norm * key_norm.mT
    value = scale * (query.value @ key.value.mT)
    return BoundedTensor(value, abs(scale) * error + 2 * terms * TINY)


class SoftmaxAverage(NamedTuple):
    """An average of values by softmax weights, and the two parts of its error bound."""

    output: BoundedTensor  # [* Q d]
    weight_error: Float64[Tensor, "*_ Q K"]
    remaining_error: Float64[Tensor, "*_ Q 1"]


def softmax_average(
    score: BoundedTensor, value: BoundedTensor, visible: Bool[Tensor, "*_"]
) -> SoftmaxAverage:
    """Return the average of values by the softmax of scores, for every attention kernel.

    Let p be the weights. Let the numerator of each weight have an error factor of at most exp(r),
    where r adds up the error of its score; 16 u (|score| + max |score|) for rounding differences to
    the maximum, in base 2 or e, at once or in steps; 64 u for exp; and 10 u for each of n - 1 times
    at which sums so far may be rescaled. The subtracted maximum cancels. Let p' be the computed
    weights and o the result. Because p and p' both add up to 1,

        sum (p' - p) v = sum p (exp(e) - 1) (v - o) / sum p exp(e),    |e| <= r,

    and 1 / sum p exp(e) <= sum p exp(r) by Cauchy-Schwarz. So the norm of the error is at most

        sum weight_error |v - o| + sum p' (|dv| + theta |v + dv|),
        weight_error = p (exp(r) - 1) sum p exp(r),

    where theta = gamma_(4n+24) bounds the roundings of both sums and of quotients. A weight close
    to 1 adds almost no error, however large its score.

    Shapes: score [* Q K], value [* K d], visible [* Q K], which broadcast; the result is [* Q d].
    Every query needs a visible key.

    >>> score = BoundedTensor.exact(torch.tensor([[0.0, 0.0, 9.0]]))
    >>> value = BoundedTensor.exact(torch.tensor([[1.0], [3.0], [5.0]]))
    >>> softmax_average(score, value, torch.tensor([[True, True, False]])).output.value.tolist()
    [[2.0]]
    """
    weight, weight_error, growth = _softmax_weights(score, visible)
    keys, square = weight.shape[-1], value.value.square().sum(-1)
    output = weight @ value.value
    # |v - o|^2, increased by more than the cancellation error in float64.
    squares = square[..., None, :] + output.square().sum(-1, keepdim=True)
    distance = ((1 + 1e-13) * squares - 2 * (output @ value.value.mT)).clamp(min=0).sqrt()
    theta = gamma(4 * keys + 24)
    value_error = theta * square.sqrt()[..., None] + (1 + theta) * value.error_norm
    remaining = (weight * growth + weight_error) @ value_error + 2 * keys * TINY
    norm = (weight_error * distance).sum(-1, keepdim=True) + remaining
    bounded = BoundedTensor(output, norm.expand_as(output), norm)
    return SoftmaxAverage(bounded, weight_error, remaining)


def _softmax_weights(score: BoundedTensor, visible: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return softmax weights p, `weight_error`, and s = sum p exp(r); p' <= p s + weight_error.

    `weight_error` includes numerators that underflow to 0.
    """
    weight = score.value.masked_fill(~visible, -math.inf).softmax(-1)
    magnitude = score.max_magnitude.masked_fill(~visible, 0.0)
    r = score.error + 16 * UNIT_ROUNDOFF * (magnitude + magnitude.amax(-1, keepdim=True))
    r = r + (32 * ULP + 10 * r.shape[-1] * UNIT_ROUNDOFF)
    factor = r.masked_fill(~visible, 0.0).expm1()
    growth = 1 + (weight * factor).sum(-1, keepdim=True)
    underflow = 16 * r.shape[-1] * TINY * (1 + factor.amax(-1, keepdim=True)).square()
    return weight, weight * factor * growth + underflow, growth


def sum_scores(parts: Sequence[BoundedTensor], width: int) -> BoundedTensor:
    """Return a sum of scores; a score of `width` products may be accumulated onto the others.

    >>> one = BoundedTensor.exact(torch.ones(1, 1))
    >>> sum_scores([one, one], 4).value.tolist()
    [[2.0]]
    """
    g = gamma(2 * width + 16)
    error = sum(part.error + g * part.max_magnitude for part in parts)
    return BoundedTensor(sum(part.value for part in parts), error)
