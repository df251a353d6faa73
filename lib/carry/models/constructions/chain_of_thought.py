"""Two layers of one head that evaluate any Boolean circuit, a gate a step (fraknoi2024, Thm. 3.4).

The circuit is stored in the table of positions; a token is the value of a wire, 0 or 1. The token
of wire i - 1 holds these 3k + 6 features for up to 2^k wires, and fills the empty ones on the way
to wire i = AND(a, b) or NOT(a):

    x   x_a  x_b  g   c   i - 1   a    b    1        c: 1 for AND, 0 for NOT
    |    |    |   |       k bits each, as +1 and -1
    |    |    |   feed-forward layer 2: ReLU(1 - x_a - c) + ReLU(x_a + x_b + c - 2)
    |    |    head of layer 2: the wire whose bits are b
    |    head of layer 1: the wire whose bits are a
    the token

A head scores a wire with 0 if all bits agree, and with -2 `SCALE` for each bit that differs:
exp(-2 SCALE) is the weight of a wrong wire. With numbers of s bits (`Precision`) and sums that
saturate at the largest number, it is 0: exp of minus the largest number is rounded to 0.

The thesis sets b = 0 for NOT, and a = b = 0 for inputs. No wire has that number, and a query that
matches no key has no defined output in s bits. Here b is a for NOT, and a and b of inputs are the
wire itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Integer
from torch import Tensor

from carry.models.architectures.transformer import Block, Transformer
from carry.models.cache import Cache
from carry.models.constructions import signed_bits
from carry.models.constructions.circuits import AND, NOT, Circuit
from carry.models.encodings import IdRange
from carry.models.encodings.learned import Learned

TOKEN, FIRST, SECOND, GATE, KIND, CODES = range(6)
SCALE = 64.0  # the sharpness of attention


class ChainOfThought:
    """The transformer of circuits with equally many inputs; only their tables of positions differ.

    Shapes: C circuits of at most G gates; shorter circuits are padded with gates that nothing
    reads. Table row (n + G) c + i - 1 is for the token of wire i in circuit c.

    >>> from carry.models.constructions.circuits import build_parity_circuit
    >>> model = ChainOfThought([build_parity_circuit(3)])
    >>> model.outputs(torch.tensor([[1, 0, 1], [1, 1, 1]]))[0].tolist()
    [[0], [1]]
    """

    def __init__(self, circuits: Sequence[Circuit]) -> None:
        self.circuits = list(circuits)
        self.inputs, self.steps = circuits[0].inputs, max(circuit.size for circuit in circuits)
        self.wires = self.inputs + self.steps
        self.bits = max(1, math.ceil(math.log2(self.wires)))
        self.network = self._build_network().double()

    def _build_network(self) -> Transformer:
        bits = self.bits
        settings = Transformer.Settings(
            layers=2,
            width=3 * bits + 6,
            heads=1,
            head_width=2 * bits,
            hidden=2,
            norm="none",
            initialisation="t5",  # attention scores are then not divided
        )
        rows = len(self.circuits) * self.wires
        table = Learned(Learned.Settings(table=rows), settings, IdRange(rows))
        network = Transformer(settings, 2, [table])
        with torch.no_grad():
            for weights in network.parameters():
                weights.zero_()
            network.tokens.weight[1, TOKEN] = 1.0
            tables = [self._table_rows(circuit) for circuit in self.circuits]
            table.rows.weight[:rows] = torch.cat(tables)
            for layer, target in ((0, FIRST), (1, SECOND)):
                code = CODES + bits * (1 + layer)
                _set_head(network.blocks[layer], bits, code, target)
            up, down = network.blocks[1].feed_forward.up, network.blocks[1].feed_forward.down
            up.weight[0, [FIRST, KIND]], up.bias[0] = -1.0, 1.0
            up.weight[1, [FIRST, SECOND, KIND]], up.bias[1] = 1.0, -2.0
            down.weight[GATE] = 1.0
            # The logit of 1 is the gate's value, the logit of 0 is 1/2.
            network.logits.weight[1, GATE], network.logits.weight[0, -1] = 1.0, 0.5
        return network

    def _table_rows(self, circuit: Circuit) -> Float[Tensor, "W D"]:
        """Return the rows of the table that hold one circuit."""
        wire = torch.arange(1, self.wires + 1)
        kind, first, second = torch.full_like(wire, NOT), wire.clone(), wire.clone()
        begin = self.inputs - 1  # the row of a wire holds the gate of the next wire
        gates = torch.tensor(circuit.gates).T
        for column, values in zip((kind, first, second), gates, strict=True):
            column[begin : begin + circuit.size] = values
        rows = torch.zeros(self.wires, 3 * self.bits + 6)
        rows[:, KIND], rows[:, -1] = (kind == AND).float(), 1.0
        for part, index in enumerate((wire, first, second)):
            at = CODES + part * self.bits
            rows[:, at : at + self.bits] = signed_bits(index, self.bits)
        return rows

    def ids(self, tokens: int) -> Integer[Tensor, "C T"]:
        """Return the table rows of the first tokens of each circuit."""
        first = self.wires * torch.arange(len(self.circuits))
        return first[:, None] + torch.arange(tokens)

    @torch.inference_mode()
    def decode(self, inputs: Integer[Tensor, "*C B N"]) -> Integer[Tensor, "C B G"]:
        """Return the values of all gates, decoded one per step.

        Args:
            inputs: of each circuit, or of all circuits alike.
        """
        new, ids = self._prepare(inputs)
        cache, steps = Cache(), []
        for _ in range(self.steps):
            new = self.network.next_logits(new, [ids], None, cache).argmax(-1, keepdim=True)
            steps.append(new)
        return torch.cat(steps, dim=1).unflatten(0, (len(self.circuits), -1))

    @torch.inference_mode()
    def predict_gates(self, tokens: Integer[Tensor, "C B T"]) -> Integer[Tensor, "C B G"]:
        """Return the predicted value of each gate after the true values of earlier wires.

        If all are right, `decode` returns the same (see `carry.models.teacher_forcing`).
        """
        batch = tokens.shape[1]
        ids = self.ids(self.wires).repeat_interleave(batch, dim=0)
        at = torch.arange(self.inputs - 1, self.wires - 1)[None]
        logits = self.network(tokens.flatten(0, 1), [ids], at)
        return logits.argmax(-1).unflatten(0, (-1, batch))

    def outputs(self, inputs: Integer[Tensor, "*C B N"]) -> list[Integer[Tensor, "B _"]]:
        """Return the outputs of each circuit, from the decoded gates."""
        tokens = self._prepare(inputs)[0].unflatten(0, (len(self.circuits), -1))
        wires = torch.cat([tokens, self.decode(inputs)], dim=2)
        return [
            values[:, torch.tensor(circuit.outputs) - 1]
            for values, circuit in zip(wires, self.circuits, strict=True)
        ]

    def _prepare(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the inputs of all circuits as one batch, and its table rows."""
        tokens = inputs.expand(len(self.circuits), *inputs.shape[-2:])
        ids = self.ids(self.wires).repeat_interleave(tokens.shape[1], dim=0)
        return tokens.flatten(0, 1), ids


def _set_head(block: Block, bits: int, code: int, target: int) -> None:
    """Set a head that reads the token of the wire whose bits are the features from `code` on.

    Bits alternate with the constant minus one, as in the proof: in s bits, a sum that has met a
    wrong bit then never returns to 0.
    """
    inner = 2 * bits
    query, key = block.query.weight, block.key_value.weight[:inner]
    value, output = block.key_value.weight[inner:], block.output.weight
    for bit in range(bits):
        query[2 * bit, code + bit] = 1.0
        query[2 * bit + 1, -1] = 1.0
        key[2 * bit, CODES + bit] = SCALE
        key[2 * bit + 1, -1] = -SCALE
    value[0, TOKEN] = 1.0
    output[target, 0] = 1.0


@dataclass(frozen=True)
class Precision:
    """Numbers of a few bits: a sign, and an integer times 2^-`fraction`.

    >>> coarse = Precision(bits=3)
    >>> coarse.largest, coarse.round(torch.tensor([0.5, 0.6, -1.5, 9.0])).tolist()
    (3.0, [0.0, 1.0, -1.0, 3.0])
    """

    bits: int
    fraction: int = 0

    @property
    def is_enough(self) -> bool:
        """Whether the proof holds: 2 is such a number, and exp(-largest) is rounded to 0."""
        return self.largest >= 2 and math.exp(-self.largest) * 2**self.fraction <= 0.5

    @property
    def largest(self) -> float:
        """The largest number."""
        return (2 ** (self.bits - 1) - 1) / 2**self.fraction

    def round(self, x: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
        """Return the nearest numbers; in a tie, the one nearer to 0 (fraknoi2024, 3.3)."""
        size = torch.ceil(x.abs() * 2**self.fraction - 0.5) / 2**self.fraction
        return x.sign() * size.clamp(max=self.largest)

    def sum(self, terms: Float[Tensor, "*S N"]) -> Float[Tensor, "*S"]:
        """Return sums that are rounded after each term, from the first to the last."""
        total = torch.zeros_like(terms[..., 0])
        for term in self.round(terms).unbind(-1):
            total = self.round(total + term)
        return total

    def apply_linear(
        self, layer: torch.nn.Linear, x: Float[Tensor, "*S D"]
    ) -> Float[Tensor, "*S E"]:
        """Return the output of a linear map, whose sums start with the bias."""
        terms = x[..., None, :] * self.round(layer.weight)
        if layer.bias is None:
            return self.sum(terms)
        bias = layer.bias.expand(terms.shape[:-1])[..., None]
        return self.sum(torch.cat([bias, terms], dim=-1))


@torch.inference_mode()
def predict_gates_rounded(
    model: ChainOfThought, tokens: Integer[Tensor, "C B T"], precision: Precision
) -> Integer[Tensor, "C B G"]:
    """Return `ChainOfThought.predict_gates` with every number of the pass rounded.

    As in the proof, the scale of the keys is the largest number, where sums saturate.

    >>> from carry.models.constructions.circuits import build_parity_circuit
    >>> circuit = build_parity_circuit(2)
    >>> inputs = torch.tensor([[0, 1], [1, 1]])
    >>> wires = torch.tensor([[row + circuit.values(row) for row in inputs.tolist()]])
    >>> model = ChainOfThought([circuit])
    >>> bool((predict_gates_rounded(model, wires, Precision(3)) == wires[:, :, 2:]).all())
    True
    """
    network, batch = model.network, tokens.shape[1]
    ids = model.ids(model.wires).repeat_interleave(batch, dim=0)
    embedded = network.tokens(tokens.flatten(0, 1)) + network.encodings[0].rows(ids)
    x = precision.round(embedded[:, :-1])  # no gate follows the last token
    later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
    for block in network.blocks:
        # Keys and values are single products, so only the scale of the keys has to be rounded.
        key, value = block.key_value(x).chunk(2, dim=-1)
        key = precision.round(key.sign() * precision.largest)
        query = precision.apply_linear(block.query, x)
        scores = precision.sum(query[:, :, None] * key[:, None])
        weights = precision.round(scores.exp()).masked_fill(later, 0.0)
        weights = precision.round(weights / precision.sum(weights)[..., None])
        mixed = precision.sum(weights[:, :, None] * value.transpose(1, 2)[:, None])
        x = precision.round(x + precision.apply_linear(block.output, mixed))
        hidden = precision.apply_linear(block.feed_forward.up, x).relu()
        x = precision.round(x + precision.apply_linear(block.feed_forward.down, hidden))
    logits = precision.apply_linear(network.logits, x)
    return logits[:, model.inputs - 1 :].argmax(-1).unflatten(0, (-1, batch))
