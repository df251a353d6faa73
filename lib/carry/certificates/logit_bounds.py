"""How far float32 can take a transformer's logits from what its weights say.

A pass in float64 bounds each step's errors, those that it finds and those that it makes
(`carry.certificates.rounding`). Passed on from step to step such bounds grow by what each matrix
can do at worst; so the last layer is walked back. With x_l what float32 finds after step l, e_l
its rounding there, and S_l all exact steps after it, a logit is off by

    sum_l S_l(x_l) - S_l(x_l - e_l),    each at most    sup |dS_l| |e_l|

between both, and dS_l, how the logit changes with x_l, is what a walk back finds: its value where
nothing is rounded, and how far from that it can be wherever the first pass allows x_l to be.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float64, Integer
from torch import Tensor, nn

from carry.certificates import rounding
from carry.certificates.contexts import BOUNDED
from carry.certificates.rounding import Bounded, Mixed, gamma, norms
from carry.config.settings import SettingsError
from carry.models.architectures.transformer import Block, FeedForward, Transformer
from carry.models.attention import AttentionContext, Places, PositionEncodings
from carry.models.encodings.relative import Relative
from carry.models.encodings.shaw import Shaw

PAIRS = 2**17  # of vectors whose scores are worked out, and kept
NOISE = 1.01  # float64 rounds 2^29 times as finely, here and in the value


class Change(NamedTuple):
    """How each logit changes with a vector of each context, and how far from that it may be."""

    value: Float64[Tensor, "N V D"]
    radius: Float64[Tensor, "N V 1"]  # the length of what may be added to it

    def of(self, error: Float64[Tensor, "N D"]) -> Float64[Tensor, "N V"]:
        """Return how far logits are off by errors of the vector."""
        known = (self.value.abs() @ error[:, :, None])[..., 0]
        return known + self.radius[..., 0] * norms(error)


Back = Callable[[Change], tuple[Tensor, Sequence[Change]]]


class Steps:
    """The steps of a pass, which can be walked back.

    >>> steps = Steps()
    >>> x = Bounded.exact(torch.ones(1, 2))
    >>> y = steps.add(steps.multiply(x, 3.0), x)
    >>> seed = Change(torch.ones(1, 1, 2).double(), torch.zeros(1, 1, 1).double())
    >>> 2 * 2.0**-24 < steps.back(y, seed).item() < 2e-5
    True
    """

    def __init__(self) -> None:
        self.taken: list[tuple[Bounded, Sequence[Bounded], Back]] = []

    def take(self, made: Bounded, read: Sequence[Bounded], back: Back) -> Bounded:
        """Take a step from what it `read`.

        `back`: from how logits change with what is `made` to how far its rounding takes them off,
        and to how they change with what it read.
        """
        self.taken.append((made, read, back))
        return made

    def linear(self, of: nn.Linear, x: Bounded) -> Bounded:
        """Return the linear map of a vector; it knows its `stretch`."""
        made = rounding.linear(x, of.weight, of.bias, of.stretch)

        def back(g: Change) -> tuple[Tensor, list[Change]]:
            return g.of(made.rounded), [Change(g.value @ of.weight, of.stretch * g.radius)]

        return self.take(made, [x], back)

    def norm(self, of: nn.Module, x: Bounded) -> Bounded:
        """Return the norm of a vector, or it itself."""
        if isinstance(of, nn.Identity):
            return x
        made = normed(of, x)
        return self.take(made, [x], lambda g: (g.of(made.rounded), [_before_norm(of, x, g)]))

    def feed_forward(self, of: FeedForward, x: Bounded) -> Bounded:
        """Return what a feed-forward network makes of a vector; it knows its `both`.

        Through it errors become longer by at most |D M U|, with M the slopes of the hidden units:
        those at the exact values, of which the Frobenius norm comes from products of rows of U and
        of columns of D, and those that are in doubt, |D T U| <= |D T^(1/2)| |T^(1/2) U|.
        """
        hidden = rounding.linear(x, of.up.weight, of.up.bias, of.up.stretch)
        made, slope, doubt, steep = _activated(of.activation, hidden)
        down = rounding.linear(made, of.down.weight, of.down.bias, of.down.stretch)
        sure = (slope @ of.both * slope).sum(-1, keepdim=True).clamp(min=0).sqrt()
        rows, columns = norms(of.up.weight)[:, 0], norms(of.down.weight.T)[:, 0]
        unsure = ((doubt @ rows.square()) * (doubt @ columns.square())).sqrt()[:, None]
        most = (sure + unsure).clamp(max=steep * of.up.stretch * of.down.stretch)
        inner = steep * norms(hidden.rounded) + norms(made.rounded)
        norm = most * x.length + of.down.stretch * inner + norms(down.rounded)

        def back(g: Change) -> tuple[Tensor, list[Change]]:
            after = Change(g.value @ of.down.weight, of.down.stretch * g.radius)
            wrong = after.value * doubt[:, None]
            added = torch.minimum(norms(wrong) * of.up.stretch, (wrong.abs() @ rows)[..., None])
            before = Change(after.value * slope[:, None], steep * after.radius + norms(wrong))
            lost = before.of(hidden.rounded) + after.of(made.rounded) + g.of(down.rounded)
            radius = most[:, None] * g.radius + added
            return lost, [Change(before.value @ of.up.weight, radius)]

        return self.take(down._replace(norm=torch.minimum(norm, down.length)), [x], back)

    def multiply(self, x: Bounded, factor: float) -> Bounded:
        """Return a multiple."""
        if factor == 1:
            return x
        made, size = rounding.multiply(x, factor), abs(factor)

        def back(g: Change) -> tuple[Tensor, list[Change]]:
            return g.of(made.rounded), [Change(factor * g.value, size * g.radius)]

        return self.take(made, [x], back)

    def add(self, x: Bounded, update: Bounded) -> Bounded:
        """Return a sum."""
        made = rounding.add(x, update)
        return self.take(made, [x, update], lambda g: (g.of(made.rounded), [g, g]))

    def back(self, last: Bounded, seed: Change) -> Float64[Tensor, "N V"]:
        """Return how far all steps together take off what changes with the last as `seed` says."""
        changes, total = {id(last): seed}, torch.zeros_like(seed.radius[..., 0])
        for made, read, back in reversed(self.taken):
            lost, before = back(changes.pop(id(made)))
            total += lost
            for x, change in zip(read, before, strict=True):
                known = changes.get(id(x))
                changes[id(x)] = Change(*map(torch.add, known, change)) if known else change
        return total


def _activated(name: str, x: Bounded) -> tuple[Bounded, Tensor, Tensor, float]:
    """Return what units become, their slopes, how far from that they may be, and the steepest.

    A unit of relu that may be on or off has either slope. That of gelu is Phi(x) + x phi(x), and
    changes by less than 0.8 dx, which is 2 phi(0).
    """
    if name == "relu":
        doubt = (x.value.abs() <= x.error).double()
        return rounding.relu(x), (x.value > 0).double(), doubt, 1.0
    normal = (-x.value.square() / 2).exp() / math.sqrt(2 * math.pi)
    slope = torch.special.ndtr(x.value) + x.value * normal
    return rounding.gelu(x), slope, 0.8 * x.error, 1.13


def normed(norm: nn.Module, x: Bounded) -> Bounded:
    """Return the norm of a vector, or it itself.

    >>> x = Bounded.exact(torch.ones(1, 2))
    >>> normed(nn.Identity(), x) is x, normed(nn.LayerNorm(2), x).value.tolist()
    (True, [[0.0, 0.0]])
    """
    if isinstance(norm, nn.LayerNorm):
        return rounding.layer_norm(x, norm.weight, norm.bias, norm.eps)
    return rounding.rms_norm(x, norm.weight, norm.eps) if isinstance(norm, nn.RMSNorm) else x


def _before_norm(norm: nn.Module, x: Bounded, g: Change) -> Change:
    """Return how logits change with what a norm reads.

    It is c / s * w, with c the vector or what it is without its mean, and s^2 = mean(c^2) + eps.
    Its slopes 1 / s - c c^T / (D s^3) are at most 1 / s, and change by at most 4 / (s^2 sqrt(D))
    for each unit of length that c moves: with |c| <= s sqrt(D), 1 / s changes by 1 / (s^2 sqrt(D)),
    times 2 with the factor 1 / s^3, and c c^T adds 2.
    """
    width, center = x.value.shape[-1], isinstance(norm, nn.LayerNorm)
    c = x.value - x.value.mean(-1, keepdim=True) if center else x.value
    square, length = c.square().mean(-1, keepdim=True), x.length
    least = (square.sqrt() - length / width**0.5).clamp(min=0).square() + norm.eps
    root, value = (square + norm.eps).rsqrt()[:, None], g.value * norm.weight
    along = value @ c[:, :, None] / width
    radius = norm.weight.abs().max() * g.radius * least.rsqrt()[:, None]
    radius = radius + norms(value) * (4 * length / (least * width**0.5))[:, None]
    value = root * value - root**3 * along * c[:, None]
    return Change(value - value.mean(-1, keepdim=True) if center else value, radius)


@torch.no_grad()
def bounded_logits(
    network: Transformer,
    tokens: Integer[Tensor, "N W"],
    ids: Sequence[Integer[Tensor, "N W"]],
    close: bool = True,
    chunk: int = 256,
) -> Bounded:
    """Return the logits at the last token of each context, with the error float32 can make.

    They hold in every sequence where the last token of a context sees these tokens and no others,
    and each of them, where there are more layers, none but these. The first of a row is the first
    of the sequence, if windows show it. With more layers worst cases of all are multiplied: what
    is said still holds, and is seldom of use.

    Args:
        network: a trained model of float32 weights, taken as they are.
        tokens: the contexts.
        ids: one for each encoding.
        close: the last layer is walked back, too, which takes some times as long, and finds errors
            that are about ten times as small. Where margins are wide it is not needed.
        chunk: contexts to work out at a time.

    Shapes: the result is [N V].

    Raises:
        SettingsError: for parts that have no bound here: encodings other than relative, shaw and
            none, recurrences, injection, gates, a read-out, weights that are not float32.

    >>> from carry.models.encodings import Shape
    >>> given = Transformer.Settings(width=8, heads=2)
    >>> network = Transformer(given, 5, [], Shape(8, 2, 4, 1))
    >>> logits = bounded_logits(network, torch.tensor([[1, 2, 3]]), [])
    >>> logits.value.shape, bool((logits.error < 1e-2).all())
    (torch.Size([1, 5]), True)
    """
    _check(network)
    exact = copy.deepcopy(network).to("cpu", torch.float64)
    for of in exact.modules():
        if isinstance(of, nn.Linear):
            of.stretch = rounding.stretch(of.weight)
        if isinstance(of, FeedForward):
            of.both = (of.down.weight.T @ of.down.weight) * (of.up.weight @ of.up.weight.T)
    first = _read(exact.blocks[0], Bounded.exact(exact.tokens.weight))
    parts = []
    for rows in torch.arange(len(tokens)).split(chunk):
        own = [of[rows].cpu() for of in ids]
        parts.append(_logits(exact, first, tokens[rows].cpu().long(), own, close))
    value, error = (torch.cat(each) for each in zip(*parts, strict=True))
    # 0 * inf, where an error is out of all bounds: nothing is known then.
    return Bounded(value, NOISE * error.nan_to_num(nan=math.inf, posinf=math.inf))


def _logits(
    exact: Transformer,
    first: _Read,
    at: Integer[Tensor, "N W"],
    ids: Sequence[Integer[Tensor, "N W"]],
    close: bool,
) -> tuple[Float64[Tensor, "N V"], Float64[Tensor, "N V"]]:
    """Return logits and their errors, the smaller of both bounds if asked for a close one."""
    read, rows = first, len(at)
    for layer in range(len(exact.blocks)):
        steps, last = Steps(), layer == len(exact.blocks) - 1
        x = _layer(exact, layer, read, at, ids, last, steps)
        if not last:
            read = _read(exact.blocks[layer + 1], x)
            at = torch.arange(at.numel()).view_as(at)
    x = steps.norm(exact.final_norm, x)
    made = rounding.linear(x, exact.logits.weight, exact.logits.bias, exact.logits.stretch)
    if not close:
        return made.value, made.error
    weight = exact.logits.weight.expand(rows, -1, -1)
    walked = made.rounded + steps.back(x, Change(weight, torch.zeros_like(weight[..., :1])))
    return made.value, torch.fmin(made.error, walked)


def _check(network: Transformer) -> None:
    """Refuse what has no bound here."""
    if type(network) is not Transformer:
        name = type(network).__name__.lower()
        raise SettingsError(f"name: {name!r} has no error bound, expected 'transformer'")
    given = network.given
    wanted = {"recurrences": 1, "injection": "none", "read_out": False}
    for field, only in wanted.items():
        value = getattr(given, field)
        if value != only:
            raise SettingsError(f"{field}: {value!r} has no error bound, expected {only!r}")
    if given.activation not in ("relu", "gelu"):
        raise SettingsError(
            f"activation: {given.activation!r} has no error bound, expected 'relu' or 'gelu'"
        )
    for encoding in network.encodings:
        if type(encoding) not in BOUNDED:
            name = type(encoding).__name__.lower()
            raise SettingsError(
                f"encoding: {name!r} has no error bound, expected 'relative', 'shaw' or 'none'"
            )
    for name, weights in network.named_parameters():
        if weights.dtype != torch.float32:
            raise SettingsError(f"{name}: {weights.dtype} does not fit, expected torch.float32")


class _Read(NamedTuple):
    """What a layer reads of R vectors: tokens of contexts, or entries of the vocabulary.

    Without encodings that are added to them, tokens enter the first layer as one of few vectors.
    All that depends on one vector is then worked out once, and scores for all pairs.
    """

    x: Bounded  # [R D]
    query: Bounded  # [R H d]
    key: Bounded
    value: Bounded
    pairs: Bounded | None  # [R R H]


def _read(block: Block, x: Bounded) -> _Read:
    source, heads = normed(block.before[0], x), block.heads
    keys, values = (None, None) if block.key_value.bias is None else block.key_value.bias.chunk(2)
    weights = block.query.weight, *block.key_value.weight.chunk(2)
    made = []
    for weight, bias in zip(weights, (block.query.bias, keys, values), strict=True):
        biases = [None] * heads if bias is None else bias.chunk(heads)
        each = list(map(functools.partial(rounding.linear, source), weight.chunk(heads), biases))
        each = [torch.stack(parts, dim=1) for parts in zip(*each, strict=True)]
        made.append(Bounded(*each[:3]))
    pairs = None
    if len(x.value) ** 2 <= PAIRS:
        query, key = (of.each(lambda part: part.transpose(0, 1)) for of in made[:2])
        pairs = rounding.product(query, key, _scale(block))
        pairs = pairs.each(lambda of: of.movedim(0, 2).contiguous())
    return _Read(x, *made, pairs)


def _scale(block: Block) -> float:
    width = block.query.weight.shape[0] // block.heads
    return 1.0 if block.given.initialisation == "t5" else width**-0.5


def _layer(
    exact: Transformer,
    layer: int,
    read: _Read,
    at: Integer[Tensor, "N W"],
    ids: Sequence[Integer[Tensor, "N W"]],
    last: bool,
    steps: Steps,
) -> Bounded:
    """Return the residual stream after a layer, [NW D], or [N D] of the last tokens alone.

    `at`: which of the vectors that were read stands where.
    """
    block, total = exact.blocks[layer], at.shape[1]
    index = torch.arange(total - 1 if last else 0, total)[None]
    asking = at[:, index[0]]
    looks = AttentionContext(
        PositionEncodings(exact.encodings, "plain", exact._scaled, 1), index, ids, total
    )
    score = _scores(exact, layer, read, asking, at, looks.places)
    value = read.value.each(lambda of: _pick(of, at).transpose(1, 2))  # [N H W d]
    found = _found(rounding.mix(score, value, looks.visible[:, None]), value, steps)
    x = read.x.each(lambda of: _pick(of, asking.flatten()))
    if layer:
        x = steps.take(x, [], functools.partial(_begun, x))
    if isinstance(block.output, nn.Linear):
        found = steps.linear(block.output, found)
    x = _add(block, 0, x, found, steps)
    if block.feed_forward is None:
        return x
    made = steps.feed_forward(block.feed_forward, steps.norm(block.before[1], x))
    return _add(block, 1, x, made, steps)


def _found(mixed: Mixed, value: Bounded, steps: Steps) -> Bounded:
    """Return what heads find side by side, [NQ Hd]."""
    heads, found = mixed.off.shape[1], mixed.found
    side = found._replace(norm=None).each(lambda of: of.transpose(1, 2).flatten(2).flatten(0, 1))
    side = side._replace(norm=norms(found.norm[..., 0].transpose(1, 2)).flatten(0, 1))

    def back(change: Change) -> tuple[Tensor, list[Change]]:  # asked of a single query alone
        each = change.value.unflatten(2, (heads, -1)).transpose(1, 2)  # [N H V d]
        away = (each @ value.value.mT - each @ found.value.mT).abs()
        known = (away * mixed.off).sum(3) + norms(each)[..., 0] * mixed.own[..., 0]
        return known.sum(1) + (change.radius * side.norm[:, None])[..., 0], []

    return steps.take(side, [], back)


def _begun(x: Bounded, g: Change) -> tuple[Tensor, list[Change]]:
    """Return how far the errors with which a layer begins take logits off."""
    known = torch.minimum(g.value.abs() @ x.error[:, :, None], norms(g.value) * x.length[:, None])
    return (known + g.radius * x.length[:, None])[..., 0], []


def _add(block: Block, part: int, x: Bounded, update: Bounded, steps: Steps) -> Bounded:
    x, after = steps.multiply(x, block.given.residual_scale), block.after[part]
    if block.given.norm_place == "post":
        return steps.norm(after, steps.add(x, update))
    return steps.add(x, steps.norm(after, update))


def _pick(of: Tensor, at: Tensor) -> Tensor:
    return of.flatten(1).index_select(0, at.flatten()).view(*at.shape, *of.shape[1:])


def _scores(
    exact: Transformer,
    layer: int,
    read: _Read,
    asking: Integer[Tensor, "N Q"],
    at: Integer[Tensor, "N W"],
    places: Places,
) -> Bounded:
    """Return the scores of queries and keys, and what encodings add to them, [N H Q W]."""
    block, width = exact.blocks[layer], read.query.value.shape[-1]
    if read.pairs is None:
        query = read.query.each(lambda of: _pick(of, asking).transpose(1, 2))
        key = read.key.each(lambda of: _pick(of, at).transpose(1, 2))
        parts = [rounding.product(query, key, _scale(block))]
    else:
        pair = asking[:, :, None] * len(read.x.value) + at[:, None]
        parts = [read.pairs.each(lambda of: _pick(of.flatten(0, 1), pair).movedim(3, 1))]
    for encoding, (query, key) in zip(exact.encodings, places, strict=True):
        if isinstance(encoding, Relative):  # a weight times `scale`, which is rounded, too
            bias = encoding.bias(layer, query, key)
            parts.append(Bounded(bias, gamma(3) * bias.abs() + rounding.TINY))
        if isinstance(encoding, Shaw):
            vectors = Bounded.exact(encoding.vectors[layer])
            felt = rounding.product(read.query, vectors, _scale(block))
            step = (key[:, None] - query[:, :, None]).clamp(-encoding.clip, encoding.clip)
            step = (step + encoding.clip)[:, :, None].expand(-1, -1, block.heads, -1)
            felt = felt.each(lambda of: _pick(of, asking))  # [N Q H differences]
            parts.append(felt.each(lambda of, step=step: of.gather(3, step).transpose(1, 2)))
    return rounding.total_score(parts, width * (1 + len(exact.encodings)))
