"""Numbers that carry a bound on what float32 can make of them: a bound, not an estimate.

Every number carries its value in exact arithmetic and a bound on what any float32 evaluation can
make of it (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 2002). With unit
roundoff u = 2^-24, a sum of n products in any order, fused or not, is off by at most

    gamma_n * sum |terms|,    gamma_n = n u / (1 - n u)                   (3.1 and 4.2 there)

and tokens that are not seen add exact zeros, so that a context is bounded for every sequence that
it can stand in. What errors of inputs become is bounded by each function's slopes.

What is assumed of the machine, and nothing else:

- products, sums, quotients and roots are rounded to nearest; what is too small may become 0;
  nothing overflows; matrix products keep float32 (not "medium" or "high" precision)
- within attention products may be cut and not rounded, or made of three of TF32: twice the
  roundings and 16 more are allowed
- exp is right to 32 ulp (torch has one of 20), where it rescales earlier sums to 4, 1 / sqrt to 4,
  erf to 8 ulp of 1; of base 2 or e; a variance is never found below 0
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Float64
from torch import Tensor

U = 2.0**-24  # half the distance from 1 to the next float32
ULP = 2 * U  # at most, relative to the number itself
TINY = 2.0**-126  # the smallest normal float32; an operation may lose so much by underflow


class Bounded(NamedTuple):
    """Numbers in exact arithmetic, up to the noise of float64, and how far float32 may be off.

    `error` bounds each number's error. `norm` bounds the length of the vector of errors along the
    last axis, which has one entry there; a matrix stretches it by its largest singular value,
    where errors of unknown signs, taken one by one, would add up as if all signs met.

    >>> one = torch.ones(2, dtype=torch.float64)
    >>> Bounded(-2 * one, one / 2).most.tolist(), round(Bounded(one, one).length.item(), 3)
    ([2.5, 2.5], 1.414)
    """

    value: Float64[Tensor, "*_"]
    error: Float64[Tensor, "*_"]
    norm: Float64[Tensor, "*_ 1"] | None = None  # if no more than that of `error` is known
    rounded: Float64[Tensor, "*_"] | None = None  # the part of errors that its inputs had not

    @classmethod
    def exact(cls, x: Float[Tensor, "*_"]) -> Bounded:
        """Return numbers that are what they are, such as weights."""
        return cls(x.double(), torch.zeros_like(x, dtype=torch.float64))

    @property
    def most(self) -> Float64[Tensor, "*_"]:
        """The largest magnitude that float32 can find."""
        return self.value.abs() + self.error

    @property
    def length(self) -> Float64[Tensor, "*_ 1"]:
        """The largest length of the vector of errors."""
        own = norms(self.error)
        return own if self.norm is None else torch.minimum(own, self.norm)

    def each(self, move: Callable[[Tensor], Tensor]) -> Bounded:
        """Return both moved alike, and the norm: picked, reshaped, the last axis left as it is."""
        norm = None if self.norm is None else move(self.norm)
        return Bounded(move(self.value), move(self.error), norm)


def norms(x: Float64[Tensor, "*_"]) -> Float64[Tensor, "*_"]:
    """Return the lengths of vectors, which stand along the last axis.

    >>> norms(torch.tensor([[3.0, 4.0]]).double()).tolist()
    [[5.0]]
    """
    return torch.linalg.vector_norm(x, dim=-1, keepdim=True)


def gamma(terms: int) -> float:
    """Return n u / (1 - n u), the relative error of n roundings one after the other.

    >>> gamma(1) > 2.0**-24, gamma(100) < 6e-6
    (True, True)
    """
    return terms * U / (1 - terms * U)


def stretch(weight: Float[Tensor, "O I"]) -> float:
    """Return by how much a matrix makes a vector longer at most, its largest singular value.

    >>> stretch(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    4.0
    """
    return torch.linalg.matrix_norm(weight.double(), 2).item()


def linear(
    x: Bounded,
    weight: Float[Tensor, "O I"],
    bias: Float[Tensor, " O"] | None = None,
    most: float | None = None,
) -> Bounded:
    """Return x W^T + b: off by W dx, and by gamma_(I+2) (|W| (|x| + |dx|) + |b|) in any order.

    Of W dx each entry is at most |row| |dx|, and the length at most `stretch`(W) |dx|.

    Args:
        most: the stretch, if it is known.

    Shapes: x [* I], the result [* O].

    >>> row = linear(Bounded.exact(torch.ones(1, 3)), torch.ones(2, 3))
    >>> row.value.tolist(), bool((row.error < 1e-6).all())
    ([[3.0, 3.0]], True)
    """
    weight, terms, length = weight.double(), weight.shape[1] + 2, x.length
    moved = norms(weight).T * length
    bias = weight.new_zeros(len(weight)) if bias is None else bias.double()
    rounded = gamma(terms) * (F.linear(x.value.abs(), weight.abs(), bias.abs()) + moved)
    rounded += 2 * terms * TINY
    norm = (stretch(weight) if most is None else most) * length + norms(rounded)
    return Bounded(F.linear(x.value, weight, bias), moved.add_(rounded), norm, rounded)


def layer_norm(
    x: Bounded, weight: Float[Tensor, " D"], bias: Float[Tensor, " D"] | None, eps: float
) -> Bounded:
    """Return (x - mean) / sqrt(variance + eps) * w + b, for any way to find a variance.

    How errors of x get through is bounded by `_normed`. Rounding then moves the variance by
    gamma_(3D+48) mean(x^2): to first order two passes need D + 3, E[x^2] - E[x]^2 needs 3D + 5,
    and Welford's updates 3D + 5 + 11.4 sqrt(ln D). (Their means of the first k are off by at most
    u (sum |x| + 4 rms) of these, up to sqrt(D k) + 4 sqrt(D / k) times u rms of all; the squares of
    all x_k - mean_(k-1) sum up to at most 2 D variance; Cauchy-Schwarz.) Each number is off by
    what the mean is, at most gamma_(D+24) mean|x| with D + 4 + 2 ln D for updates, and by six
    roundings of |x| + |mean|, since x / s - mean / s is allowed.

    Shapes: x [* D], as the result.

    >>> row = layer_norm(Bounded.exact(torch.tensor([[1.0, 3.0]])), torch.ones(2), None, 0.0)
    >>> row.value.tolist(), bool((row.error < 1e-4).all())
    ([[-1.0, 1.0]], True)
    """
    width, most = x.value.shape[-1], x.most
    center = x.value.mean(-1, keepdim=True)
    shift = gamma(width + 24) * most.mean(-1, keepdim=True)
    shift = shift + gamma(6) * (most + center.abs() + x.length / width**0.5 + shift)
    lost = gamma(3 * width + 48) * most.square().mean(-1, keepdim=True)
    error = x.error + x.length / width**0.5  # that of the mean
    centered = Bounded(x.value - center, error, x.length)
    return _normed(centered, shift, lost, weight, bias, eps)


def rms_norm(x: Bounded, weight: Float[Tensor, " D"], eps: float) -> Bounded:
    """Return x / sqrt(mean(x^2) + eps) * w; rounding moves the mean by gamma_(D+4) of itself.

    Shapes: x [* D], as the result.

    >>> row = rms_norm(Bounded.exact(torch.tensor([[3.0, -3.0]])), torch.ones(2), 0.0)
    >>> row.value.tolist(), bool((row.error < 2e-6).all())
    ([[1.0, -1.0]], True)
    """
    lost = gamma(x.value.shape[-1] + 4) * x.most.square().mean(-1, keepdim=True)
    return _normed(x, torch.zeros_like(lost), lost, weight, None, eps)


def _normed(
    x: Bounded, shift: Tensor, lost: Tensor, weight: Tensor, bias: Tensor | None, eps: float
) -> Bounded:
    """Return x / sqrt(v + eps) * w + b with v = mean(x^2), which rounding moves by `lost`.

    x / sqrt(v + eps) has slopes of at most 1 / sqrt(v + eps), along each line through 0 and across
    it, and sqrt(v) moves by at most |dx| / sqrt(D): so errors of x become no longer than by the
    largest 1 / sqrt(v + eps) on their way. One by one they are multiplied by it, and x by how far
    it may be from that of x. Then come rounding of the root, the `shift` of x and a few more.
    """
    least, whole, largest = _range(x, eps)
    length, size, exact, most = x.length, x.value.abs(), whole.rsqrt(), least.rsqrt()
    moved = most * x.error + torch.maximum(most - exact, exact - largest.rsqrt()) * size
    off, g = _of_root(least, largest, lost, eps) / most, gamma(8)
    off = off + 4 * ULP * (1 + off)
    rounded = (size + x.error) * (off + g * (1 + off)) + shift * ((1 + off) * (1 + g))
    weight, rounded = weight.double(), most * rounded
    bias = torch.zeros_like(weight) if bias is None else bias.double()
    large = weight.abs()
    rounded = rounded * large + (g * bias.abs() + TINY)
    norm = large.max() * most * length + norms(rounded)
    return Bounded(x.value * exact * weight + bias, moved * large + rounded, norm, rounded)


def _range(x: Bounded, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean(x^2) + eps at least, at x, and at most."""
    root, far = norms(x.value), x.length
    low, high = (root - far).clamp(min=0).square(), (root + far).square()
    return tuple(of / x.value.shape[-1] + eps for of in (low, root.square(), high))


def _of_root(least: Tensor, largest: Tensor, lost: Tensor, eps: float) -> Tensor:
    """Return how far 1 / sqrt(v + eps) may be off where v, which is not found below 0, is so lost.

    Downwards most where v is least. Upwards, too, unless what is found there would be below 0:
    then it is off the more, the larger v is, until v is as large as what is lost.
    """
    lost = lost + gamma(4) * (largest + lost) + TINY
    floor = eps * (1 - gamma(4))
    down = least.rsqrt() - (least + lost).rsqrt()
    worst = torch.maximum(least, torch.minimum(largest, floor + lost))
    up = (worst - lost).clamp(min=floor).rsqrt() - worst.rsqrt()
    return torch.maximum(down, up)


def relu(x: Bounded) -> Bounded:
    """Return max(x, 0), which rounds nothing: off by relu(x + dx) - relu(x), the steeper side.

    >>> relu(Bounded(torch.tensor([-1.0, 1.0]).double(), torch.tensor([0.5, 0.5]).double())).error
    tensor([0.0000, 0.5000], dtype=torch.float64)
    """
    value = x.value.relu()
    return Bounded(value, (x.value + x.error).relu_() - value, x.norm, torch.zeros_like(value))


def gelu(x: Bounded) -> Bounded:
    """Return x (1 + erf(x / sqrt 2)) / 2, whose slope is at most 1.13.

    erf is off by 16 u, by 2 u for its argument's roundings (t exp(-t^2) 2 / sqrt(pi) < 1/2) and by
    2 u when 1 is added; half of this times |x|, and the products' roundings, make at most 16 u |x|.

    >>> gelu(Bounded.exact(torch.zeros(1))).value
    tensor([0.], dtype=torch.float64)
    """
    rounded = 16 * U * x.most + TINY
    norm = 1.13 * x.length + norms(rounded)
    return Bounded(F.gelu(x.value), 1.13 * x.error + rounded, norm, rounded)


def add(*parts: Bounded) -> Bounded:
    """Return the sum of parts in any order: off by their errors, and gamma_n sum |parts|.

    >>> total = add(Bounded.exact(torch.ones(1)), Bounded.exact(-torch.ones(1)))
    >>> total.value.item(), total.error.item() >= 2 * 2.0**-24
    (0.0, True)
    """
    rounded = gamma(len(parts)) * sum(part.most for part in parts)
    value, error = sum(part.value for part in parts), sum(part.error for part in parts)
    norm = sum(part.length for part in parts) + norms(rounded)
    return Bounded(value, error + rounded, norm, rounded)


def multiply(x: Bounded, factor: float) -> Bounded:
    """Return a multiple: rounded, and so is the factor.

    >>> multiply(Bounded.exact(torch.ones(1)), 3.0).error.item() < 1e-6
    True
    """
    if factor == 1:
        return x
    rounded, size = abs(factor) * gamma(3) * x.most + TINY, abs(factor)
    norm = size * x.length + norms(rounded)
    return Bounded(x.value * factor, size * x.error + rounded, norm, rounded)


def product(query: Bounded, key: Bounded, scale: float) -> Bounded:
    """Return the scores scale q k^T: off by gamma_n |q + dq| |k + dk|, and dq k + q dk + dq dk.

    All in lengths of vectors, by Cauchy-Schwarz, so that signs of errors need not meet. n is
    2d + 16: more than d + 4, wherever the scale is applied, for tensor cores.

    Shapes: query [* Q d] and key [* K d], which broadcast; the result [* Q K].

    >>> one = Bounded.exact(torch.ones(1, 4))
    >>> product(one, one, 0.5).value.tolist()
    [[2.0]]
    """
    terms = 2 * query.value.shape[-1] + 16
    size, of_key = norms(query.value), norms(key.value)
    error = (1 + gamma(terms)) * (size + query.length) * (of_key + key.length).mT - size * of_key.mT
    value = scale * (query.value @ key.value.mT)
    return Bounded(value, abs(scale) * error + 2 * terms * TINY)


class Mixed(NamedTuple):
    """What queries find, how far the weights may be off that it is made with, and all the rest."""

    found: Bounded  # [* Q d]
    off: Float64[Tensor, "*_ Q K"]
    own: Float64[Tensor, "*_ Q 1"]


def mix(score: Bounded, value: Bounded, visible: Bool[Tensor, "*_"]) -> Mixed:
    """Return what softmax weights of scores find among values, for all ways to work it out.

    Let p be the weights, and let the numerator of a weight be off by a factor of at most exp(r),
    with r the error of its score; 16 u (|score| + max |score|) for roundings of differences to
    the maximum, of whichever base, at once or by steps; 64 u for exp, and 10 u for each of n - 1
    times at which sums found so far may be scaled down. The maximum that is subtracted cancels.
    With p' the weights that are found, since p and p' add up to 1, and so with o the result,

        sum (p' - p) v = sum p (exp(e) - 1) (v - o) / sum p exp(e),    |e| <= r,

    and by Cauchy-Schwarz 1 / sum p exp(e) <= sum p exp(r). So the result is off by no more than

        sum off |v - o| + sum p' (|dv| + theta |v + dv|),    off = p (exp(r) - 1) sum p exp(r)

    in length, with theta = gamma_(4n+24) for the roundings of both sums and of quotients, and a
    weight of nearly 1 does no harm, however large its score.

    Shapes: score [* Q K], value [* K d], visible [* Q K], all of which broadcast; every query
    sees one key at least. The result is [* Q d].

    >>> score = Bounded.exact(torch.tensor([[0.0, 0.0, 9.0]]))
    >>> value = Bounded.exact(torch.tensor([[1.0], [3.0], [5.0]]))
    >>> mix(score, value, torch.tensor([[True, True, False]])).found.value.tolist()
    [[2.0]]
    """
    weight, off, least = _weights(score, visible)
    keys, square = weight.shape[-1], value.value.square().sum(-1)
    found = weight @ value.value
    # |v - o| squared, and more than what float64 loses to cancellation.
    both = square[..., None, :] + found.square().sum(-1, keepdim=True)
    away = ((1 + 1e-13) * both - 2 * (found @ value.value.mT)).clamp(min=0).sqrt()
    theta = gamma(4 * keys + 24)
    lost = theta * square.sqrt()[..., None] + (1 + theta) * value.length
    own = (weight * least + off) @ lost + 2 * keys * TINY
    norm = (off * away).sum(-1, keepdim=True) + own
    return Mixed(Bounded(found, norm.expand_as(found), norm), off, own)


def _weights(score: Bounded, visible: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return softmax weights p, `off`, and sum p exp(r); p' is at most their product plus `off`.

    Numerators that are too small are not found at all, which adds to `off`.
    """
    weight = score.value.masked_fill(~visible, -math.inf).softmax(-1)
    most = score.most.masked_fill(~visible, 0.0)
    r = score.error + 16 * U * (most + most.amax(-1, keepdim=True))
    r = r + (32 * ULP + 10 * r.shape[-1] * U)
    factor = r.masked_fill(~visible, 0.0).expm1()
    least = 1 + (weight * factor).sum(-1, keepdim=True)
    lost = 16 * r.shape[-1] * TINY * (1 + factor.amax(-1, keepdim=True)).square()
    return weight, weight * factor * least + lost, least


def attend(
    query: Bounded,
    key: Bounded,
    value: Bounded,
    scale: float,
    added: Bounded | None,
    visible: Bool[Tensor, "*_"],
) -> Bounded:
    """Return what queries find: scores by `product`, plus what is `added`, weighted by `mix`.

    Shapes: query [* Q d], key and value [* K d], added and visible [* Q K], which broadcast; the
    result is [* Q d].

    >>> one = Bounded.exact(torch.ones(1, 2, 4))
    >>> seen = torch.ones(1, 2, 2, dtype=torch.bool).tril()
    >>> attend(one, one, one, 0.5, None, seen).value[0, 0].tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    score = [product(query, key, scale)] + ([] if added is None else [added])
    return mix(total_score(score, query.value.shape[-1]), value, visible).found


def total_score(parts: Sequence[Bounded], width: int) -> Bounded:
    """Return a sum of scores, of which sums of `width` products in all may begin with others.

    >>> one = Bounded.exact(torch.ones(1, 1))
    >>> total_score([one, one], 4).value.tolist()
    [[2.0]]
    """
    g = gamma(2 * width + 16)
    error = sum(part.error + g * part.most for part in parts)
    return Bounded(sum(part.value for part in parts), error)
