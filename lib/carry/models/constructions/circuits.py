"""Boolean circuits: a readable description, compiled to AND and NOT gates.

    in a b c                      the inputs, in this order
    s = xor a b                   a name, a gate, and its wires, in any order of lines
    sum = xor s c
    carry = or (and a b) (and s c)
    out sum carry                 the outputs

Gates: `not` has one wire; `and`, `or`, `nand`, `nor`, `xor` and `xnor` have one or more. Every gate
becomes AND gates of two wires and NOT gates; the same gate on the same wires is built once. Wires
are counted from 1: first the inputs, then the gates, each after its wires.
"""

from __future__ import annotations

import functools
import graphlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.config.settings import SettingsError, suggest_name

NOT, AND = 0, 1
GATE_KINDS = ("not", "and", "or", "nand", "nor", "xor", "xnor")


@dataclass(frozen=True)
class Circuit:
    """AND and NOT gates, each after its wires.

    `inputs`: the number of inputs; `gates`: (kind, first wire, second wire), where NOT has its wire
    twice; `outputs`: wires.

    >>> half_adder = parse_circuit("in a b\\nsum = xor a b\\ncarry = and a b\\nout sum carry")
    >>> half_adder.evaluate([1, 1]), half_adder.size
    ([0, 1], 7)
    """

    inputs: int
    gates: tuple[tuple[int, int, int], ...]
    outputs: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.inputs < 1:
            raise SettingsError(f"inputs: {self.inputs} does not fit, expected at least 1")
        for number, (kind, *wires) in enumerate(self.gates, start=self.inputs + 1):
            if kind not in (NOT, AND):
                raise SettingsError(
                    f"gate {number}: kind {kind} is neither {NOT} (NOT) nor {AND} (AND)"
                )
            for wire in wires:
                if not 1 <= wire < number:
                    raise SettingsError(
                        f"gate {number}: wire {wire} does not precede it; expected 1 to "
                        f"{number - 1}"
                    )
        for wire in self.outputs:
            if not 1 <= wire <= self.inputs + self.size:
                raise SettingsError(
                    f"outputs: wire {wire} does not exist; expected 1 to {self.inputs + self.size}"
                )

    @property
    def size(self) -> int:
        """The number of gates."""
        return len(self.gates)

    def values(self, inputs: Sequence[int]) -> list[int]:
        """Return the values of all gates, computed one by one.

        Raises:
            SettingsError: for another number of inputs than the circuit's, or other than 0 and 1.
        """
        if len(inputs) != self.inputs or not {*inputs} <= {0, 1}:
            raise SettingsError(f"inputs: {inputs} do not fit, expected {self.inputs} of 0 and 1")
        wires = [0, *inputs]
        for kind, first, second in self.gates:
            wires.append(wires[first] & wires[second] if kind == AND else 1 - wires[first])
        return wires[1 + self.inputs :]

    def evaluate(self, inputs: Sequence[int]) -> list[int]:
        """Return the values of the outputs."""
        wires = [*inputs, *self.values(inputs)]
        return [wires[wire - 1] for wire in self.outputs]

    def batched_values(self, inputs: Integer[Tensor, "B N"]) -> Integer[Tensor, "B G"]:
        """Return the values of all gates for a batch of inputs."""
        wires = list(inputs.T)
        for kind, first, second in self.gates:
            one, two = wires[first - 1], wires[second - 1]
            wires.append(one & two if kind == AND else 1 - one)
        return torch.stack(wires[self.inputs :], dim=1) if self.gates else inputs[:, :0]


class CircuitBuilder:
    """Builds a circuit gate by gate, and every gate once.

    >>> builder = CircuitBuilder(2)
    >>> builder.add_and([1, 2]), builder.add_and([2, 1]), builder.add_or([1, 2])
    (3, 3, 7)
    """

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self.gates: dict[tuple[int, int, int], int] = {}
        self.inverse: dict[int, int] = {}

    def finish(self, outputs: Sequence[int]) -> Circuit:
        """Return the circuit."""
        return Circuit(self.inputs, tuple(self.gates), tuple(outputs))

    def add_not(self, wire: int) -> int:
        """Return NOT of a wire; NOT of a NOT gate is its wire."""
        if wire not in self.inverse:
            inverse = self._add(NOT, wire, wire)
            self.inverse |= {wire: inverse, inverse: wire}
        return self.inverse[wire]

    def add_and(self, wires: Sequence[int]) -> int:
        """Return AND of one or more wires."""
        return functools.reduce(self._add_pair, wires)

    def add_or(self, wires: Sequence[int]) -> int:
        """Return OR of one or more wires: NOT of AND of their NOT."""
        if len(wires) == 1:
            return wires[0]
        return self.add_not(self.add_and([self.add_not(wire) for wire in wires]))

    def add_xor(self, wires: Sequence[int]) -> int:
        """Return XOR of one or more wires."""

        def xor(one: int, two: int) -> int:
            return self.add_and([self.add_or([one, two]), self.add_not(self.add_and([one, two]))])

        return functools.reduce(xor, wires)

    def add_gate(self, kind: str, wires: Sequence[int]) -> int:
        """Return a gate of one of the `GATE_KINDS`."""
        if kind == "not":
            return self.add_not(wires[0])
        methods = {"and": self.add_and, "or": self.add_or, "xor": self.add_xor}
        if kind in methods:
            return methods[kind](wires)
        return self.add_not(methods[{"nand": "and", "nor": "or", "xnor": "xor"}[kind]](wires))

    def _add_pair(self, one: int, two: int) -> int:
        return one if one == two else self._add(AND, *sorted((one, two)))

    def _add(self, kind: int, one: int, two: int) -> int:
        return self.gates.setdefault((kind, one, two), self.inputs + 1 + len(self.gates))


def parse_circuit(text: str) -> Circuit:
    """Compile a description.

    >>> parse_circuit("in a b\\nc = nand a b\\nout c").gates
    ((1, 1, 2), (0, 3, 3))

    Raises:
        SettingsError: for a line that cannot be read, a name that is undefined or defined twice,
            a cycle, and a gate with too few or too many wires; names the line.
    """
    inputs, outputs, gates = _read_lines(text)
    names = [*inputs, *gates]
    for gate_name, (number, gate) in {**gates, "out": (outputs.line, outputs)}.items():
        for name in gate.names():
            if name not in names:
                hint = suggest_name(name, names)
                raise SettingsError(f"line {number}, {gate_name}: {name!r} is not defined, {hint}")
    needs = {name: {*gate.names()} & {*gates} for name, (_, gate) in gates.items()}
    try:
        order = list(graphlib.TopologicalSorter(needs).static_order())
    except graphlib.CycleError as error:
        cycle = error.args[1][::-1]
        names = cycle if len(cycle) <= 10 else [*cycle[:5], "...", *cycle[-4:]]
        raise SettingsError(
            f"line {gates[cycle[0]][0]}: {' -> '.join(names)} is a cycle; expected none"
        ) from None
    builder = CircuitBuilder(len(inputs))
    wires = {name: wire for wire, name in enumerate(inputs, start=1)}
    for name in order:
        wires[name] = gates[name][1].build(builder, wires)
    return builder.finish([wires[name] for name in outputs.operands])


class _Gate(NamedTuple):
    """A gate of a description; its operands are names, or gates in brackets."""

    line: int
    kind: str
    operands: list[str | _Gate]

    def names(self) -> Iterator[str]:
        """Yield the names of the operands, with those in brackets."""
        for operand in self.operands:
            yield from [operand] if isinstance(operand, str) else operand.names()

    def build(self, builder: CircuitBuilder, wires: dict[str, int]) -> int:
        """Return the wire of the gate, built after its operands."""
        operands = [
            wires[operand] if isinstance(operand, str) else operand.build(builder, wires)
            for operand in self.operands
        ]
        return builder.add_gate(self.kind, operands)


def _read_lines(text: str) -> tuple[list[str], _Gate, dict[str, tuple[int, _Gate]]]:
    """Return the names of inputs, the outputs as a gate, and the line and gate of each name."""
    inputs: list[str] = []
    outputs = _Gate(0, "out", [])
    gates: dict[str, tuple[int, _Gate]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = re.findall(r"[()=]|[^\s()=]+", line.split("#")[0])
        if not words:
            continue
        if words[0] == "in" and "=" not in words:
            inputs += words[1:]
        elif words[0] == "out" and "=" not in words:
            outputs = outputs._replace(line=number, operands=[*outputs.operands, *words[1:]])
        elif words[1:2] == ["="] and re.fullmatch(r"\w+", words[0]):
            if words[0] in gates:
                raise SettingsError(
                    f"line {number}: {words[0]!r} is defined in line {gates[words[0]][0]}"
                )
            rest = words[2:]
            gates[words[0]] = number, _read_gate(rest, number)
            if rest:
                raise SettingsError(
                    f"line {number}: {' '.join(rest)!r} follows a gate; expected one gate"
                )
        else:
            raise SettingsError(
                f"line {number}: {line.strip()!r} cannot be read; expected 'in ...', 'out ...' or "
                "'name = gate wires'"
            )
    for name in inputs:
        if name in gates or inputs.count(name) > 1:
            raise SettingsError(f"in: {name!r} is defined twice; expected different names")
    for kind, names in (("in", inputs), ("out", outputs.operands)):
        if not names:
            raise SettingsError(f"{kind}: missing; expected a line '{kind} name name'")
    return inputs, outputs, gates


def _read_gate(words: list[str], line: int) -> _Gate:
    """Remove a gate from the start of the words, and return it."""
    kind = words.pop(0) if words else ""
    if kind not in GATE_KINDS:
        raise SettingsError(f"line {line}: {kind!r} is no gate, {suggest_name(kind, GATE_KINDS)}")
    operands: list[str | _Gate] = []
    while words and words[0] != ")":
        word = words.pop(0)
        if word != "(":
            operands.append(word)
            continue
        operands.append(_read_gate(words, line))
        if not words or words.pop(0) != ")":
            raise SettingsError(f"line {line}: a '(' is never closed; expected ')'")
    if not operands or (kind == "not" and len(operands) > 1):
        expected = "1" if kind == "not" else "at least 1"
        raise SettingsError(f"line {line}: {kind!r} has {len(operands)} wires; expected {expected}")
    return _Gate(line, kind, operands)


def build_parity_circuit(inputs: int) -> Circuit:
    """Return a circuit whose output is 1 if an odd number of inputs is 1.

    >>> build_parity_circuit(3).evaluate([1, 0, 1])
    [0]
    """
    builder = CircuitBuilder(inputs)
    return builder.finish([builder.add_xor(range(1, inputs + 1))])


def build_majority_circuit(inputs: int) -> Circuit:
    """Return a circuit whose output is 1 if more than half of the inputs are 1.

    It counts: after each input, wire n is 1 if at least n of the inputs read so far are 1.

    >>> majority = build_majority_circuit(4)
    >>> [majority.evaluate(bits) for bits in ([1, 0, 1, 0], [1, 0, 1, 1])]
    [[0], [1]]
    """
    builder, most = CircuitBuilder(inputs), inputs // 2 + 1
    at_least = [1]  # at least 1, at least 2, ...
    for wire in range(2, inputs + 1):
        plus_one = [builder.add_and([count, wire]) for count in at_least]
        kept = [builder.add_or(pair) for pair in zip(at_least[1:], plus_one, strict=False)]
        at_least = [builder.add_or([at_least[0], wire]), *kept, plus_one[-1]][:most]
    return builder.finish([at_least[most - 1]])


def build_adder_circuit(bits: int) -> Circuit:
    """Return a circuit that adds two numbers of this many bits, least significant bit first.

    >>> build_adder_circuit(3).evaluate([1, 1, 0, 1, 0, 1])  # 3 + 5
    [0, 0, 0, 1]
    """
    builder, outputs = CircuitBuilder(2 * bits), []
    carry = 0
    for place in range(1, bits + 1):
        pair = [place, place + bits]
        half, both = builder.add_xor(pair), builder.add_and(pair)
        outputs.append(builder.add_xor([half, carry]) if carry else half)
        carry = builder.add_or([both, builder.add_and([half, carry])]) if carry else both
    return builder.finish([*outputs, carry])


def draw_random_circuit(inputs: int, gates: int, generator: torch.Generator) -> Circuit:
    """Return a circuit of AND and NOT gates, equally likely, on uniform earlier wires.

    The output is the last gate.

    >>> from carry.randomness import stream
    >>> draw_random_circuit(3, 5, stream(0, "doctest")).size
    5
    """
    number = torch.arange(inputs + 1, inputs + gates + 1)
    share = torch.rand(gates, 2, generator=generator)
    wires = ((share * (number[:, None] - 1)).long() + 1).tolist()
    kinds = torch.randint(2, (gates,), generator=generator).tolist()
    drawn = tuple(
        (kind, first, second if kind == AND else first)
        for kind, (first, second) in zip(kinds, wires, strict=True)
    )
    return Circuit(inputs, drawn, (inputs + gates,))


def describe_circuit(circuit: Circuit) -> Iterator[str]:
    """Yield the lines of a description that `parse_circuit` reads; wires are named by number.

    >>> list(describe_circuit(build_parity_circuit(1)))
    ['in w1', 'out w1']
    """
    yield "in " + " ".join(f"w{wire}" for wire in range(1, circuit.inputs + 1))
    for number, (kind, first, second) in enumerate(circuit.gates, start=circuit.inputs + 1):
        yield f"w{number} = and w{first} w{second}" if kind == AND else f"w{number} = not w{first}"
    yield "out " + " ".join(f"w{wire}" for wire in circuit.outputs)
