"""Two layers of one head that work out any Boolean circuit, a gate a step (fraknoi2024, Thm. 3.4).

The circuit stands in the table of positions; a token is the value of a wire, 0 or 1. This is what
the token of wire i - 1 holds, and finds on the way to wire i = AND(a, b) or NOT(a), in 3k + 6
features for up to 2^k wires:

    x   x_a  x_b  g   c   i - 1   a    b    1        c: 1 for AND, 0 for NOT
    |    |    |   |       k bits each, as +1 and -1
    |    |    |   feed-forward layer 2: ReLU(1 - x_a - c) + ReLU(x_a + x_b + c - 2)
    |    |    head of layer 2: the wire whose own bits are b
    |    head of layer 1: the wire whose own bits are a
    the token

A head scores a wire with 0 where all bits agree, and with twice minus its `scale` for each that
does not: exp(-2 scale) is what leaks. With s bits for every number (`Precision`), and sums that end
at the largest, nothing leaks: exp of minus the largest number is rounded to 0.

The thesis lets b be 0 for NOT, and a, b be 0 for what goes in, which no wire has; a query that no
key fits has no defined answer in s bits, so here they are a, and the wire itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Integer
from torch import Tensor

from carry.config.settings import SettingsError
from carry.models.architectures.transformer import Transformer
from carry.models.cache import Cache
from carry.models.constructions.circuits import AND, NOT, Circuit
from carry.models.encodings import Ids
from carry.models.encodings.learned import Learned

TOKEN, FIRST, SECOND, GATE, KIND, CODES = range(6)


class ChainOfThought:
    """The transformer of some circuits with as many inputs; only their tables of positions differ.

    Shapes: C circuits, of at most G gates; shorter ones go on with gates that nothing reads. Table
    row (n + G) c + i - 1 is for the token of wire i in circuit c.

    >>> from carry.models.constructions.circuits import parity
    >>> model = ChainOfThought([parity(3)])
    >>> model.outputs(torch.tensor([[1, 0, 1], [1, 1, 1]]))[0].tolist()
    [[0], [1]]

    Raises:
        SettingsError: for circuits of different numbers of inputs, or none, or attention that is
            not sharp enough for so many wires.
    """

    def __init__(
        self,
        circuits: Sequence[Circuit],
        scale: float = 64.0,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        if len({circuit.inputs for circuit in circuits}) != 1:
            raise SettingsError(
                f"circuits: inputs {sorted({of.inputs for of in circuits})} differ; expected some "
                "circuits with as many inputs"
            )
        self.circuits = list(circuits)
        self.inputs, self.steps = circuits[0].inputs, max(circuit.size for circuit in circuits)
        self.wires = self.inputs + self.steps
        self.bits = max(1, math.ceil(math.log2(self.wires)))
        _check_sharpness(scale, self.wires)
        self.network = self._network(scale).to(dtype)

    def _network(self, scale: float) -> Transformer:
        bits = self.bits
        given = Transformer.Settings(
            layers=2,
            width=3 * bits + 6,
            heads=1,
            head_width=2 * bits,
            hidden=2,
            norm="none",
            initialisation="t5",  # whose scores are not divided
        )
        shape = Transformer.shape(given)
        rows = len(self.circuits) * self.wires
        table = Learned(Learned.Settings(table=rows), shape, Ids(rows))
        network = Transformer(given, 2, [table], shape)
        with torch.no_grad():
            for weights in network.parameters():
                weights.zero_()
            network.tokens.weight[1, TOKEN] = 1.0
            table.rows.weight[:rows] = torch.cat([self._positions(of) for of in self.circuits])
            for layer, found in ((0, FIRST), (1, SECOND)):
                _look(network.blocks[layer], bits, CODES + bits * (1 + layer), scale, found)
            up, down = network.blocks[1].feed_forward.up, network.blocks[1].feed_forward.down
            up.weight[0, [FIRST, KIND]], up.bias[0] = -1.0, 1.0
            up.weight[1, [FIRST, SECOND, KIND]], up.bias[1] = 1.0, -2.0
            down.weight[GATE] = 1.0
            # Of the logits of 0 and 1, one half less than g leads.
            network.logits.weight[1, GATE], network.logits.weight[0, -1] = 1.0, 0.5
        return network

    def _positions(self, circuit: Circuit) -> Float[Tensor, "W D"]:
        """Return the rows of the table that hold one circuit."""
        own = torch.arange(1, self.wires + 1)
        kind, first, second = torch.full_like(own, NOT), own.clone(), own.clone()
        if circuit.gates:  # the row of a wire says what makes the next one
            ending = self.inputs - 1 + circuit.size
            gates = torch.tensor(circuit.gates).T
            for row, of in zip((kind, first, second), gates, strict=True):
                row[self.inputs - 1 : ending] = of
        rows = torch.zeros(self.wires, 3 * self.bits + 6)
        rows[:, KIND], rows[:, -1] = (kind == AND).float(), 1.0
        for part, wire in enumerate((own, first, second)):
            at = CODES + part * self.bits
            rows[:, at : at + self.bits] = signed_bits(wire, self.bits)
        return rows

    def ids(self, tokens: int) -> Integer[Tensor, "C T"]:
        """Return the rows of the table for so many tokens of each circuit."""
        first = self.wires * torch.arange(len(self.circuits))
        return first[:, None] + torch.arange(tokens)

    @torch.inference_mode()
    def decode(self, inputs: Integer[Tensor, "*C B N"]) -> Integer[Tensor, "C B G"]:
        """Return the values of all gates, decoded one a step; inputs may be the same for all.

        Raises:
            SettingsError: for as many inputs as the circuits do not have, or other than 0 and 1.
        """
        tokens, ids = self._asked(inputs)
        cache, steps = Cache(), []
        read = tokens
        for _ in range(self.steps):
            logits = self.network(read, [ids], None, None, cache)[:, -1]
            cache.advance(read.shape[1])
            read = logits.argmax(-1, keepdim=True)
            steps.append(read)
        said = torch.cat(steps, dim=1) if steps else tokens[:, :0]
        return said.unflatten(0, (len(self.circuits), -1))

    @torch.inference_mode()
    def said(self, tokens: Integer[Tensor, "C B T"]) -> Integer[Tensor, "C B G"]:
        """Return the value that is said of each gate, given the true values of those before it.

        What is right here everywhere is what `decode` returns (see `carry.models.teacher_forcing`).
        """
        batch = tokens.shape[1]
        ids = self.ids(self.wires).repeat_interleave(batch, dim=0)
        at = torch.arange(self.inputs - 1, self.wires - 1)[None]
        logits = self.network(tokens.flatten(0, 1), [ids], at)
        return logits.argmax(-1).unflatten(0, (-1, batch))

    def outputs(self, inputs: Integer[Tensor, "*C B N"]) -> list[Integer[Tensor, "B _"]]:
        """Return what comes out of each circuit, read off the gates as they were decoded."""
        tokens = self._asked(inputs)[0].unflatten(0, (len(self.circuits), -1))
        wires = torch.cat([tokens, self.decode(inputs)], dim=2)
        return [
            of[:, torch.tensor(circuit.outputs) - 1]
            for of, circuit in zip(wires, self.circuits, strict=True)
        ]

    def _asked(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the questions of all circuits below one another, and the rows of the table."""
        if inputs.shape[-1] != self.inputs or not ((inputs == 0) | (inputs == 1)).all():
            raise SettingsError(
                f"inputs: {list(inputs.shape[-1:])} values of {inputs.unique().tolist()} do not "
                f"fit, expected {self.inputs} of 0 and 1"
            )
        tokens = inputs.expand(len(self.circuits), *inputs.shape[-2:])
        ids = self.ids(self.wires).repeat_interleave(tokens.shape[1], dim=0)
        return tokens.flatten(0, 1), ids


def signed_bits(index: Integer[Tensor, "*W"], bits: int) -> Float[Tensor, "*W K"]:
    """Return the bits of wires as +1 and -1, the ones first.

    >>> signed_bits(torch.tensor(6), 3).tolist()
    [-1.0, 1.0, 1.0]
    """
    return 2.0 * (index[..., None] >> torch.arange(bits) & 1) - 1.0


def _look(block: torch.nn.Module, bits: int, asked: int, scale: float, found: int) -> None:
    """Set a head that reads the token of the wire whose bits stand at `asked`.

    A bit and minus one stand in turns, as in the proof, so that in s bits a sum that has met a
    wrong bit never comes back to 0.
    """
    inner = 2 * bits
    query, key = block.query.weight, block.key_value.weight[:inner]
    value, output = block.key_value.weight[inner:], block.output.weight
    for bit in range(bits):
        query[2 * bit, asked + bit] = 1.0
        query[2 * bit + 1, -1] = 1.0
        key[2 * bit, CODES + bit] = scale
        key[2 * bit + 1, -1] = -scale
    value[0, TOKEN] = 1.0
    output[found, 0] = 1.0


def _check_sharpness(scale: float, wires: int) -> None:
    """Refuse attention that leaks so much that a 1 could be taken for a 0."""
    if wires * math.exp(-2 * scale) > 1 / 16:
        least = math.log(16 * wires) / 2
        raise SettingsError(
            f"scale: {scale} is too low for {wires} wires, attention leaks; expected at least "
            f"{least:.1f}"
        )


@dataclass(frozen=True)
class Precision:
    """Numbers of so many bits: a sign, and a whole number of 2^-`fraction`.

    >>> coarse = Precision(bits=3)
    >>> coarse.largest, coarse.rounded(torch.tensor([0.5, 0.6, -1.5, 9.0])).tolist()
    (3.0, [0.0, 1.0, -1.0, 3.0])

    Raises:
        SettingsError: if 2 is no such number, or exp(-largest) is not rounded to 0.
    """

    bits: int
    fraction: int = 0

    def __post_init__(self) -> None:
        small = math.exp(-self.largest) * 2**self.fraction > 0.5
        if self.largest < 2 or small:
            raise SettingsError(
                f"bits: {self.bits} with fraction {self.fraction} are too few, the largest number "
                f"is {self.largest:g}; expected one of at least 2, whose exp(-x) is rounded to 0"
            )

    @property
    def largest(self) -> float:
        """The largest number."""
        return (2 ** (self.bits - 1) - 1) / 2**self.fraction

    def rounded(self, x: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
        """Return the nearest numbers, of two the one nearer to 0 (fraknoi2024, 3.3)."""
        whole = torch.ceil(x.abs() * 2**self.fraction - 0.5) / 2**self.fraction
        return x.sign() * whole.clamp(max=self.largest)

    def total(self, terms: Float[Tensor, "*S N"]) -> Float[Tensor, "*S"]:
        """Return sums that are rounded after each term, the first terms first."""
        found = torch.zeros_like(terms[..., 0])
        for term in self.rounded(terms).unbind(-1):
            found = self.rounded(found + term)
        return found

    def linear(self, layer: torch.nn.Linear, x: Float[Tensor, "*S D"]) -> Float[Tensor, "*S E"]:
        """Return what a linear map makes of x, its bias first."""
        terms = x[..., None, :] * self.rounded(layer.weight)
        if layer.bias is None:
            return self.total(terms)
        bias = layer.bias.expand(terms.shape[:-1])[..., None]
        return self.total(torch.cat([bias, terms], dim=-1))


@torch.inference_mode()
def said_in_bits(
    model: ChainOfThought, tokens: Integer[Tensor, "C B T"], precision: Precision
) -> Integer[Tensor, "C B G"]:
    """Return what `ChainOfThought.said` does, with every number of the pass rounded.

    The keys are those of the proof: the scale is the largest number, where sums end.

    >>> from carry.models.constructions.circuits import parity
    >>> circuit = parity(2)
    >>> inputs = torch.tensor([[0, 1], [1, 1]])
    >>> wires = torch.cat([inputs, circuit.all_values(inputs)], dim=1)[None]
    >>> model = ChainOfThought([circuit])
    >>> bool((said_in_bits(model, wires, Precision(3)) == wires[:, :, 2:]).all())
    True
    """
    network, batch = model.network, tokens.shape[1]
    ids = model.ids(model.wires).repeat_interleave(batch, dim=0)
    embedded = network.tokens(tokens.flatten(0, 1)) + network.encodings[0].rows(ids)
    x = precision.rounded(embedded[:, :-1])  # nothing comes after the last
    later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
    for block in network.blocks:
        key, value = block.key_value(x).chunk(2, dim=-1)  # one product each: nothing to round but
        key = precision.rounded(key.sign() * precision.largest)  # the scale, which is the largest
        query = precision.linear(block.query, x)
        scores = precision.total(query[:, :, None] * key[:, None])
        shares = precision.rounded(scores.exp()).masked_fill(later, 0.0)
        shares = precision.rounded(shares / precision.total(shares)[..., None])
        mixed = precision.total(shares[:, :, None] * value.transpose(1, 2)[:, None])
        x = precision.rounded(x + precision.linear(block.output, mixed))
        hidden = precision.linear(block.feed_forward.up, x).relu()
        x = precision.rounded(x + precision.linear(block.feed_forward.down, hidden))
    logits = precision.linear(network.logits, x)
    return logits[:, model.inputs - 1 :].argmax(-1).unflatten(0, (-1, batch))
