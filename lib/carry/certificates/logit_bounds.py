"""Bounds on the float32 errors of a transformer's logits.

A forward pass in float64 bounds the error of each step, both inherited and from its own rounding
(`carry.certificates.rounding`). Bounds that are propagated forward grow with the worst case of each
matrix. Therefore a second pass goes backward. Let x_l be the float32 result of step l, e_l its
rounding error, and S_l the exact composition of all later steps. The error of a logit is

    sum_l S_l(x_l) - S_l(x_l - e_l),    and each term is at most    sup |dS_l| |e_l|.

The backward pass computes dS_l, the gradient of a logit with respect to x_l: its value at the exact
activations, and a bound on its distance from that at any activations that the forward pass allows.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float64, Integer
from torch import Tensor, nn

from carry.certificates import rounding
from carry.certificates.contexts import require_supported_network
from carry.certificates.rounding import BoundedTensor, SoftmaxAverage, gamma, vector_norms
from carry.config.settings import SettingsError
from carry.models.architectures.transformer import (
    RESIDUAL_IN_NORM,
    Block,
    FeedForward,
    Transformer,
)
from carry.models.attention import AttentionContext
from carry.models.encodings.relative import Relative

CONTEXTS_PER_CHUNK = 256
FLOAT64_FACTOR = 1.01  # for the rounding of these bounds; float64 rounds 2^29 times as finely


class LogitGradient(NamedTuple):
    """The gradients of all logits with respect to a vector, and a bound on their variation."""

    value: Float64[Tensor, "N V D"]
    radius: Float64[Tensor, "N V 1"]  # the largest norm of what may be added to the value

    def bound_change(self, error: Float64[Tensor, "N D"]) -> Float64[Tensor, "N V"]:
        """Return a bound on the change of the logits by an error of the vector."""
        linear = (self.value.abs() @ error[:, :, None])[..., 0]
        return linear + self.radius[..., 0] * vector_norms(error)


BackwardStep = Callable[[LogitGradient], tuple[Tensor, Sequence[LogitGradient]]]


class BackwardTape:
    """The steps of a forward pass, recorded for a backward pass over their rounding errors.

    >>> tape = BackwardTape()
    >>> x = BoundedTensor.exact(torch.ones(1, 2))
    >>> y = tape.add(tape.add(x, x), x)
    >>> gradient = LogitGradient(torch.ones(1, 1, 2).double(), torch.zeros(1, 1, 1).double())
    >>> 2 * 2.0**-24 < tape.backward(y, gradient).item() < 2e-5
    True
    """

    def __init__(self) -> None:
        self.steps: list[tuple[BoundedTensor, Sequence[BoundedTensor], BackwardStep]] = []

    def record(
        self, output: BoundedTensor, inputs: Sequence[BoundedTensor], backward: BackwardStep
    ) -> BoundedTensor:
        """Record a step and return its output.

        Args:
            backward: maps the gradients with respect to the output to a bound on the effect of the
                step's rounding, and to the gradients with respect to each input.
        """
        self.steps.append((output, inputs, backward))
        return output

    def linear(self, layer: nn.Linear, x: BoundedTensor) -> BoundedTensor:
        """Apply a linear layer, which carries its `spectral_norm`."""
        norm = layer.spectral_norm
        output = rounding.linear(x, layer.weight, layer.bias, norm)

        def backward(g: LogitGradient) -> tuple[Tensor, list[LogitGradient]]:
            gradient = LogitGradient(g.value @ layer.weight, norm * g.radius)
            return g.bound_change(output.rounding), [gradient]

        return self.record(output, [x], backward)

    def normalise(self, norm: nn.Module, x: BoundedTensor) -> BoundedTensor:
        """Apply a norm, or the identity."""
        output = normalise(norm, x)
        if output is x:
            return x
        return self.record(
            output,
            [x],
            lambda g: (g.bound_change(output.rounding), [_norm_input_gradient(norm, x, g)]),
        )

    def feed_forward(self, layer: FeedForward, x: BoundedTensor) -> BoundedTensor:
        """Apply a feed-forward network, which carries its `gram_product`.

        The norm of an error grows at most by |D M U|, where M has the slopes of the hidden units.
        The Frobenius norm at the exact slopes follows from inner products of the rows of U and of
        the columns of D. The uncertain slopes T add |D T U| <= |D T^(1/2)| |T^(1/2) U|.
        """
        up, down = layer.up, layer.down
        hidden = rounding.linear(x, up.weight, up.bias, up.spectral_norm)
        active, slope = rounding.relu(hidden), (hidden.value > 0).double()
        slope_error = (hidden.value.abs() <= hidden.error).double()  # 1 where the sign is uncertain
        output = rounding.linear(active, down.weight, down.bias, down.spectral_norm)
        exact = (slope @ layer.gram_product * slope).sum(-1, keepdim=True).clamp(min=0).sqrt()
        rows, columns = vector_norms(up.weight)[:, 0], vector_norms(down.weight.T)[:, 0]
        squares = (slope_error @ rows.square()) * (slope_error @ columns.square())
        growth = exact + squares.sqrt()[:, None]
        growth = growth.clamp(max=up.spectral_norm * down.spectral_norm)
        inner = vector_norms(hidden.rounding)
        norm = growth * x.error_norm + down.spectral_norm * inner + vector_norms(output.rounding)

        def backward(g: LogitGradient) -> tuple[Tensor, list[LogitGradient]]:
            after = LogitGradient(g.value @ down.weight, down.spectral_norm * g.radius)
            uncertain = after.value * slope_error[:, None]
            added = torch.minimum(
                vector_norms(uncertain) * up.spectral_norm, (uncertain.abs() @ rows)[..., None]
            )
            before = LogitGradient(
                after.value * slope[:, None], after.radius + vector_norms(uncertain)
            )
            change = before.bound_change(hidden.rounding) + g.bound_change(output.rounding)
            radius = growth[:, None] * g.radius + added
            return change, [LogitGradient(before.value @ up.weight, radius)]

        norm = torch.minimum(norm, output.error_norm)
        return self.record(output._replace(norm=norm), [x], backward)

    def add(self, x: BoundedTensor, update: BoundedTensor) -> BoundedTensor:
        """Add two tensors."""
        output = rounding.add(x, update)
        return self.record(output, [x, update], lambda g: (g.bound_change(output.rounding), [g, g]))

    def backward(self, output: BoundedTensor, gradient: LogitGradient) -> Float64[Tensor, "N V"]:
        """Return a bound on the change of the logits by the rounding of all steps.

        Args:
            output: the output of the last step.
            gradient: the gradients of the logits with respect to it.
        """
        gradients, total = {id(output): gradient}, torch.zeros_like(gradient.radius[..., 0])
        for step_output, inputs, backward in reversed(self.steps):
            change, input_gradients = backward(gradients.pop(id(step_output)))
            total += change
            for x, g in zip(inputs, input_gradients, strict=True):
                earlier = gradients.get(id(x))
                gradients[id(x)] = LogitGradient(*map(torch.add, earlier, g)) if earlier else g
        return total


def normalise(norm: nn.Module, x: BoundedTensor) -> BoundedTensor:
    """Apply a layer norm, an RMS norm or the identity.

    >>> x = BoundedTensor.exact(torch.ones(1, 2))
    >>> normalise(nn.Identity(), x) is x, normalise(nn.LayerNorm(2), x).value.tolist()
    (True, [[0.0, 0.0]])
    """
    if isinstance(norm, nn.LayerNorm):
        return rounding.layer_norm(x, norm.weight, norm.bias, norm.eps)
    return rounding.rms_norm(x, norm.weight, norm.eps) if isinstance(norm, nn.RMSNorm) else x


def _norm_input_gradient(norm: nn.Module, x: BoundedTensor, g: LogitGradient) -> LogitGradient:
    """Return the gradients with respect to the input of a norm.

    The output is c / s * w, where c is the vector, centered in a layer norm, and
    s^2 = mean(c^2) + eps. The Jacobian 1 / s - c c^T / (D s^3) has a norm of at most 1 / s. Per
    unit of length that c moves it changes by at most 4 / (s^2 sqrt(D)): with |c| <= s sqrt(D),
    1 / s changes by 1 / (s^2 sqrt(D)), the factor 1 / s^3 adds twice this, and c c^T adds 2.
    """
    width, centered = x.value.shape[-1], isinstance(norm, nn.LayerNorm)
    c = x.value - x.value.mean(-1, keepdim=True) if centered else x.value
    square, error_norm = c.square().mean(-1, keepdim=True), x.error_norm
    smallest = (square.sqrt() - error_norm / width**0.5).clamp(min=0).square() + norm.eps
    root, value = (square + norm.eps).rsqrt()[:, None], g.value * norm.weight
    along = value @ c[:, :, None] / width
    radius = norm.weight.abs().max() * g.radius * smallest.rsqrt()[:, None]
    radius = radius + vector_norms(value) * (4 * error_norm / (smallest * width**0.5))[:, None]
    value = root * value - root**3 * along * c[:, None]
    return LogitGradient(value - value.mean(-1, keepdim=True) if centered else value, radius)


@torch.no_grad()
def bound_logits(
    network: Transformer,
    tokens: Integer[Tensor, "N W"],
    ids: Sequence[Integer[Tensor, "N W"]],
    backward: bool = True,
) -> BoundedTensor:
    """Return the logits at the last token of each context, with bounds on their float32 errors.

    The bounds hold in every sequence in which attention from the last token of a context reaches
    the tokens of this context only. The first token of a context is the first token of the
    sequence, if the windows show it.

    Args:
        network: a trained model with float32 weights.
        tokens: the contexts.
        ids: one tensor for each encoding.
        backward: run the backward pass, too. It takes several times as long, and the bounds become
            about ten times as small. Large leads do not need it.

    Shapes: the result is [N V].

    Raises:
        SettingsError: for parts without bounds, and weights other than float32.

    >>> settings = Transformer.Settings(width=8, heads=2)
    >>> network = Transformer(settings, 5, [])
    >>> logits = bound_logits(network, torch.tensor([[1, 2, 3]]), [])
    >>> logits.value.shape, bool((logits.error < 1e-2).all())
    (torch.Size([1, 5]), True)
    """
    require_supported_network(network)
    for name, weights in network.named_parameters():
        if weights.dtype != torch.float32:
            raise SettingsError(f"{name}: {weights.dtype} does not fit; expected torch.float32")
    exact = copy.deepcopy(network).to("cpu", torch.float64)
    for module in exact.modules():
        if isinstance(module, nn.Linear):
            module.spectral_norm = rounding.spectral_norm(module.weight)
        if isinstance(module, FeedForward):
            up, down = module.up.weight, module.down.weight
            module.gram_product = (down.T @ down) * (up @ up.T)
    vocabulary, parts = _make_vocabulary(exact), []
    for rows in torch.arange(len(tokens)).split(CONTEXTS_PER_CHUNK):
        chunk_ids = [encoding_ids[rows].cpu() for encoding_ids in ids]
        chunk = tokens[rows].cpu().long()
        parts.append(_bound_chunk(exact, vocabulary, chunk, chunk_ids, backward))
    value, error = (torch.cat(part) for part in zip(*parts, strict=True))
    # An unbounded error may have become 0 * inf; nothing is known then.
    return BoundedTensor(value, FLOAT64_FACTOR * error.nan_to_num(nan=math.inf, posinf=math.inf))


class _Vocabulary(NamedTuple):
    """What depends on one token or on a pair of tokens, for all tokens.

    No supported encoding adds to the embeddings, so a token is one vector wherever it stands.
    """

    embedding: BoundedTensor  # [V D]
    value: BoundedTensor  # [V H d]
    pair_scores: BoundedTensor  # [V V H], of a query and a key


def _make_vocabulary(exact: Transformer) -> _Vocabulary:
    (block,), embedding = exact.blocks, BoundedTensor.exact(exact.tokens.weight)
    source, key_value = normalise(block.before[0], embedding), block.key_value
    key_bias, value_bias = (None, None) if key_value.bias is None else key_value.bias.chunk(2)
    key_weight, value_weight = key_value.weight.chunk(2)

    def project(weight: Tensor, bias: Tensor | None) -> BoundedTensor:
        """Return one vector for each token and head, [V H d]."""
        biases = [None] * block.heads if bias is None else bias.chunk(block.heads)
        heads = zip(weight.chunk(block.heads), biases, strict=True)
        by_head = [rounding.linear(source, *head) for head in heads]
        stacked = [torch.stack(parts, dim=1) for parts in zip(*by_head, strict=True)]
        return BoundedTensor(*stacked[:3])

    projected = project(block.query.weight, block.query.bias), project(key_weight, key_bias)
    query, key = (part.map(lambda x: x.transpose(0, 1)) for part in projected)
    scores = rounding.attention_scores(query, key, query.value.shape[-1] ** -0.5)
    scores = scores.map(lambda x: x.movedim(0, 2).contiguous())
    return _Vocabulary(embedding, project(value_weight, value_bias), scores)


def _bound_chunk(
    exact: Transformer,
    vocabulary: _Vocabulary,
    tokens: Integer[Tensor, "N W"],
    ids: Sequence[Integer[Tensor, "N W"]],
    backward: bool,
) -> tuple[Float64[Tensor, "N V"], Float64[Tensor, "N V"]]:
    """Return logits and the smaller of their bounds by the forward and the backward pass."""
    (block,), width, tape = exact.blocks, tokens.shape[1], BackwardTape()
    query = torch.tensor([[width - 1]])
    context = AttentionContext(exact.encodings, query, ids, width)
    score = _attention_scores(exact, vocabulary, tokens, context)
    value = vocabulary.value.map(lambda x: _pick(x, tokens).transpose(1, 2))  # [N H W d]
    average = rounding.softmax_average(score, value, context.visible[:, None])
    x = vocabulary.embedding.map(lambda x: _pick(x, tokens[:, -1]))
    update = tape.linear(block.output, _concatenate_heads(average, value, tape))
    x = _add_update(block, 0, x, update, tape)
    update = tape.feed_forward(block.feed_forward, tape.normalise(block.before[1], x))
    x = tape.normalise(exact.final_norm, _add_update(block, 1, x, update, tape))
    output = exact.logits
    logits = rounding.linear(x, output.weight, output.bias, output.spectral_norm)
    if not backward:
        return logits.value, logits.error
    weight = output.weight.expand(len(tokens), -1, -1)
    gradient = LogitGradient(weight, torch.zeros_like(weight[..., :1]))
    error = logits.rounding + tape.backward(x, gradient)
    return logits.value, torch.fmin(logits.error, error)


def _attention_scores(
    exact: Transformer,
    vocabulary: _Vocabulary,
    tokens: Integer[Tensor, "N W"],
    context: AttentionContext,
) -> BoundedTensor:
    """Return the scores of the last tokens and all keys, with the biases, [N H 1 W]."""
    pair = tokens[:, -1:, None] * len(vocabulary.embedding.value) + tokens[:, None]
    parts = [vocabulary.pair_scores.map(lambda x: _pick(x.flatten(0, 1), pair).movedim(3, 1))]
    for encoding, query_key_ids in zip(exact.encodings, context.query_key_ids, strict=True):
        if isinstance(encoding, Relative):  # the product of weight and `scale` is rounded, too
            bias = encoding.bias(0, *query_key_ids)
            parts.append(BoundedTensor(bias, gamma(3) * bias.abs() + rounding.TINY))
    width = vocabulary.value.value.shape[-1]
    return rounding.sum_scores(parts, width * (1 + len(exact.encodings)))


def _pick(values: Tensor, index: Tensor) -> Tensor:
    picked = values.flatten(1).index_select(0, index.flatten())
    return picked.view(*index.shape, *values.shape[1:])


def _concatenate_heads(
    average: SoftmaxAverage, value: BoundedTensor, tape: BackwardTape
) -> BoundedTensor:
    """Return the outputs of all heads as one vector for each query, [NQ Hd]."""
    heads, output = average.weight_error.shape[1], average.output
    vector = output._replace(norm=None)
    vector = vector.map(lambda x: x.transpose(1, 2).flatten(2).flatten(0, 1))
    norm = vector_norms(output.norm[..., 0].transpose(1, 2)).flatten(0, 1)
    vector = vector._replace(norm=norm)

    def backward(g: LogitGradient) -> tuple[Tensor, list[LogitGradient]]:  # of one query each
        by_head = g.value.unflatten(2, (heads, -1)).transpose(1, 2)  # [N H V d]
        distance = (by_head @ value.value.mT - by_head @ output.value.mT).abs()
        change = (distance * average.weight_error).sum(3)
        change = change + vector_norms(by_head)[..., 0] * average.remaining_error[..., 0]
        return change.sum(1) + (g.radius * vector.norm[:, None])[..., 0], []

    return tape.record(vector, [], backward)


def _add_update(
    block: Block, part: int, x: BoundedTensor, update: BoundedTensor, tape: BackwardTape
) -> BoundedTensor:
    after = block.after[part]
    if block.settings.norm_place in RESIDUAL_IN_NORM:
        return tape.normalise(after, tape.add(x, update))
    return tape.add(x, tape.normalise(after, update))
