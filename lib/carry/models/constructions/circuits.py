"""Boolean circuits of AND gates of two wires, and NOT gates; and finite automata as circuits.

Wires are counted from 1: first the inputs, then the gates, each after its wires.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

NOT, AND = 0, 1


@dataclass(frozen=True)
class Circuit:
    """AND and NOT gates, each after its wires.

    `inputs`: the number of inputs; `gates`: (kind, first wire, second wire), where NOT has its wire
    twice; `outputs`: wires.

    >>> nand = Circuit(inputs=2, gates=((AND, 1, 2), (NOT, 3, 3)), outputs=(4,))
    >>> nand.evaluate([1, 1]), nand.values([0, 1])
    ([0], [0, 1])
    """

    inputs: int
    gates: tuple[tuple[int, int, int], ...]
    outputs: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of gates."""
        return len(self.gates)

    def values(self, inputs: Sequence[int]) -> list[int]:
        """Return the values of all gates, computed one by one."""
        wires = [0, *inputs]
        for kind, first, second in self.gates:
            wires.append(wires[first] & wires[second] if kind == AND else 1 - wires[first])
        return wires[1 + self.inputs :]

    def evaluate(self, inputs: Sequence[int]) -> list[int]:
        """Return the values of the outputs."""
        wires = [*inputs, *self.values(inputs)]
        return [wires[wire - 1] for wire in self.outputs]


class CircuitBuilder:
    """Builds a circuit gate by gate; the same gate on the same wires is built once.

    >>> builder = CircuitBuilder(2)  # a half adder, of wires 1 and 2
    >>> builder.finish([builder.add_xor([1, 2]), builder.add_and([2, 1])]).evaluate([1, 1])
    [0, 1]
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

    def _add_pair(self, one: int, two: int) -> int:
        return one if one == two else self._add(AND, *sorted((one, two)))

    def _add(self, kind: int, one: int, two: int) -> int:
        return self.gates.setdefault((kind, one, two), self.inputs + 1 + len(self.gates))


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


@dataclass(frozen=True)
class Automaton:
    """A deterministic finite automaton that starts in state 0.

    `transitions`: for each state the next state by letter; `accepting`: the states in which a word
    is accepted.

    >>> ends_with_01 = Automaton(((1, 0), (1, 2), (1, 0)), accepting=(2,))
    >>> ends_with_01.accepts([0, 0, 1]), ends_with_01.accepts([0, 1, 0])
    (True, False)
    """

    transitions: tuple[tuple[int, ...], ...]
    accepting: tuple[int, ...]

    @property
    def bits(self) -> int:
        """The number of bits of a letter."""
        return max(1, (len(self.transitions[0]) - 1).bit_length())

    def accepts(self, word: Sequence[int]) -> bool:
        """Return whether the automaton accepts a word, read letter by letter."""
        state = 0
        for letter in word:
            state = self.transitions[state][letter]
        return state in self.accepting

    def write_bits(self, word: Sequence[int]) -> list[int]:
        """Return the letters of a word as bits, each least significant first."""
        return [letter >> place & 1 for letter in word for place in range(self.bits)]


def build_automaton_circuit(automaton: Automaton, length: int) -> Circuit:
    """Return a circuit whose output is 1 for the words of a length that an automaton accepts.

    After each letter a wire for each state is 1 if the automaton is in this state. So the number of
    gates is linear in the length of the words, as Corollary 3.5 of fraknoi2024 needs. (It cites
    circuits of logarithmic depth; a chain of thought may be as deep as it is long.) The inputs are
    the bits of the letters (`Automaton.write_bits`); other bits than those of letters are rejected.

    >>> odd = Automaton(((0, 1), (1, 0)), accepting=(1,))
    >>> build_automaton_circuit(odd, 3).evaluate([1, 0, 1])
    [0]
    """
    bits, letters = automaton.bits, range(len(automaton.transitions[0]))
    builder = CircuitBuilder(bits * length)
    never = builder.add_and([1, builder.add_not(1)])
    states: dict[int, int | None] = {0: None}  # the wires of the states that can be reached
    for place in range(length):
        wires = range(1 + place * bits, 1 + (place + 1) * bits)
        ways: dict[int, list[int]] = {}
        for letter in letters:
            code = zip(wires, automaton.write_bits([letter]), strict=True)
            read = builder.add_and([wire if bit else builder.add_not(wire) for wire, bit in code])
            for state, here in states.items():
                way = read if here is None else builder.add_and([here, read])
                ways.setdefault(automaton.transitions[state][letter], []).append(way)
        states = {state: builder.add_or(of) for state, of in ways.items()}
    accepted = [wire for state, wire in states.items() if state in automaton.accepting]
    return builder.finish([builder.add_or(accepted) if accepted else never])


def draw_random_automaton(states: int, letters: int, generator: torch.Generator) -> Automaton:
    """Return an automaton with uniform transitions that accepts in some states, not in all.

    >>> from carry.randomness import stream
    >>> automaton = draw_random_automaton(4, 3, stream(0, "doctest"))
    >>> len(automaton.transitions), 1 <= len(automaton.accepting) <= 3
    (4, True)
    """
    drawn = torch.randint(states, (states, letters), generator=generator).tolist()
    count = int(torch.randint(1, states, (), generator=generator))
    order = torch.randperm(states, generator=generator).tolist()
    return Automaton(tuple(map(tuple, drawn)), tuple(sorted(order[:count])))


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
    """Yield the lines of a description; wires are named by number.

    >>> list(describe_circuit(build_parity_circuit(1)))
    ['in w1', 'out w1']
    """
    yield "in " + " ".join(f"w{wire}" for wire in range(1, circuit.inputs + 1))
    for number, (kind, first, second) in enumerate(circuit.gates, start=circuit.inputs + 1):
        yield f"w{number} = and w{first} w{second}" if kind == AND else f"w{number} = not w{first}"
    yield "out " + " ".join(f"w{wire}" for wire in circuit.outputs)
