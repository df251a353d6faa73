"""Boolean circuits: a description that can be read, compiled to gates of AND and NOT.

    in a b c                      what goes in, in this order
    s = xor a b                   a name, a gate, and what it takes, in any order of lines
    sum = xor s c
    carry = or (and a b) (and s c)
    out sum carry                 what comes out

Gates: `not` takes one; `and`, `or`, `nand`, `nor`, `xor` and `xnor` take any number from one on.
Every gate becomes AND gates of two and NOT gates, the same gate on the same wires but once. Wires
are counted from 1: first what goes in, then the gates, each after what it takes.
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
KINDS = ("not", "and", "or", "nand", "nor", "xor", "xnor")


@dataclass(frozen=True)
class Circuit:
    """Gates of AND and NOT in an order in which each comes after what it takes.

    `inputs`: how many wires go in; `gates`: (kind, first wire, second wire), where NOT takes its
    one wire twice; `outputs`: wires.

    >>> half = parse("in a b\\nsum = xor a b\\ncarry = and a b\\nout sum carry")
    >>> half.evaluate([1, 1]), half.size
    ([0, 1], 7)
    """

    inputs: int
    gates: tuple[tuple[int, int, int], ...]
    outputs: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.inputs < 1:
            raise SettingsError(f"inputs: {self.inputs} does not fit, expected at least 1")
        for index, (kind, *wires) in enumerate(self.gates):
            own = self.inputs + 1 + index
            if kind not in (NOT, AND):
                raise SettingsError(
                    f"gate {own}: kind {kind} is neither {NOT} (NOT) nor {AND} (AND)"
                )
            for wire in wires:
                if not 1 <= wire < own:
                    raise SettingsError(
                        f"gate {own}: wire {wire} is not there before it; expected 1 to {own - 1}"
                    )
        for wire in self.outputs:
            if not 1 <= wire <= self.inputs + self.size:
                raise SettingsError(
                    f"outputs: wire {wire} is not there; expected 1 to {self.inputs + self.size}"
                )

    @property
    def size(self) -> int:
        """The number of gates."""
        return len(self.gates)

    def values(self, inputs: Sequence[int]) -> list[int]:
        """Return the values of all gates, worked out one by one.

        Raises:
            SettingsError: for as many inputs as the circuit does not have, or other than 0 and 1.
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

    def all_values(self, inputs: Integer[Tensor, "B N"]) -> Integer[Tensor, "B G"]:
        """Return the values of all gates for many inputs at once."""
        wires = list(inputs.T)
        for kind, first, second in self.gates:
            one, two = wires[first - 1], wires[second - 1]
            wires.append(one & two if kind == AND else 1 - one)
        return torch.stack(wires[self.inputs :], dim=1) if self.gates else inputs[:, :0]


class Builder:
    """Adds gates one by one, each but once.

    >>> made = Builder(2)
    >>> made.all_of([1, 2]), made.all_of([2, 1]), made.any_of([1, 2])
    (3, 3, 7)
    """

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self.gates: dict[tuple[int, int, int], int] = {}
        self.inverse: dict[int, int] = {}

    def circuit(self, outputs: Sequence[int]) -> Circuit:
        """Return what has been built."""
        return Circuit(self.inputs, tuple(self.gates), tuple(outputs))

    def flip(self, wire: int) -> int:
        """Return NOT of a wire; of NOT of a wire, that wire."""
        if wire not in self.inverse:
            other = self._gate(NOT, wire, wire)
            self.inverse |= {wire: other, other: wire}
        return self.inverse[wire]

    def all_of(self, wires: Sequence[int]) -> int:
        """Return AND of any number of wires, of one itself."""
        return functools.reduce(self._both, wires)

    def any_of(self, wires: Sequence[int]) -> int:
        """Return OR of any number of wires: not all of them are not."""
        if len(wires) == 1:
            return wires[0]
        return self.flip(self.all_of([self.flip(wire) for wire in wires]))

    def odd_of(self, wires: Sequence[int]) -> int:
        """Return XOR of any number of wires, of one itself: either, but not both."""

        def odd(one: int, two: int) -> int:
            return self.all_of([self.any_of([one, two]), self.flip(self.all_of([one, two]))])

        return functools.reduce(odd, wires)

    def gate(self, kind: str, wires: Sequence[int]) -> int:
        """Return a gate of one of the `KINDS`."""
        if kind == "not":
            return self.flip(wires[0])
        made = {"and": self.all_of, "or": self.any_of, "xor": self.odd_of}
        if kind in made:
            return made[kind](wires)
        return self.flip(made[{"nand": "and", "nor": "or", "xnor": "xor"}[kind]](wires))

    def _both(self, one: int, two: int) -> int:
        return one if one == two else self._gate(AND, *sorted((one, two)))

    def _gate(self, kind: int, one: int, two: int) -> int:
        return self.gates.setdefault((kind, one, two), self.inputs + 1 + len(self.gates))


def parse(text: str) -> Circuit:
    """Compile a description.

    >>> parse("in a b\\nc = nand a b\\nout c").gates
    ((1, 1, 2), (0, 3, 3))

    Raises:
        SettingsError: for a line that cannot be read, a name that is not defined or defined twice,
            a cycle, or a gate of too few or too many wires; names the line.
    """
    inputs, outputs, gates = _read(text)
    known = [*inputs, *gates]
    for of, (number, gate) in {**gates, "out": (outputs.number, outputs)}.items():
        for name in gate.names():
            if name not in known:
                hint = suggest_name(name, known)
                raise SettingsError(f"line {number}, {of}: {name!r} is not defined, {hint}")
    needs = {name: {*gate.names()} & {*gates} for name, (_, gate) in gates.items()}
    try:
        order = list(graphlib.TopologicalSorter(needs).static_order())
    except graphlib.CycleError as error:
        cycle = error.args[1][::-1]
        where = f"line {gates[cycle[0]][0]}"
        raise SettingsError(f"{where}: {' -> '.join(cycle)} is a cycle; expected none") from None
    built, wires = Builder(len(inputs)), {name: at for at, name in enumerate(inputs, start=1)}
    for name in order:
        wires[name] = gates[name][1].build(built, wires)
    return built.circuit([wires[name] for name in outputs.takes])


class _Gate(NamedTuple):
    """A gate as it is written: names, and gates in brackets."""

    number: int
    kind: str
    takes: list[str | _Gate]

    def names(self) -> Iterator[str]:
        """Yield the names that are taken, those in brackets too."""
        for part in self.takes:
            yield from [part] if isinstance(part, str) else part.names()

    def build(self, built: Builder, wires: dict[str, int]) -> int:
        """Return the wire of the gate, built after what it takes."""
        own = [
            wires[part] if isinstance(part, str) else part.build(built, wires)
            for part in self.takes
        ]
        return built.gate(self.kind, own)


def _read(text: str) -> tuple[list[str], _Gate, dict[str, tuple[int, _Gate]]]:
    """Return the names that go in, those that come out, and for each gate its line and itself."""
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
            outputs = outputs._replace(number=number, takes=[*outputs.takes, *words[1:]])
        elif words[1:2] == ["="] and re.fullmatch(r"\w+", words[0]):
            if words[0] in gates:
                before = gates[words[0]][0]
                raise SettingsError(
                    f"line {number}: {words[0]!r} is there in line {before} already"
                )
            left = words[2:]
            gates[words[0]] = number, _gate(left, number)
            if left:
                raise SettingsError(f"line {number}: {' '.join(left)!r} is left; expected one gate")
        else:
            raise SettingsError(
                f"line {number}: {line.strip()!r} cannot be read; expected 'in ...', 'out ...' or "
                "'name = gate wires'"
            )
    for name in inputs:
        if name in gates or inputs.count(name) > 1:
            raise SettingsError(f"in: {name!r} is there twice; expected different names")
    for kind, names in (("in", inputs), ("out", outputs.takes)):
        if not names:
            raise SettingsError(f"{kind}: missing; expected a line '{kind} name name'")
    return inputs, outputs, gates


def _gate(words: list[str], number: int) -> _Gate:
    """Take a gate off the words of a line."""
    kind = words.pop(0) if words else ""
    if kind not in KINDS:
        raise SettingsError(f"line {number}: {kind!r} is no gate, {suggest_name(kind, KINDS)}")
    takes: list[str | _Gate] = []
    while words and words[0] != ")":
        word = words.pop(0)
        if word != "(":
            takes.append(word)
            continue
        takes.append(_gate(words, number))
        if not words or words.pop(0) != ")":
            raise SettingsError(f"line {number}: a '(' is never closed; expected ')'")
    if not takes or (kind == "not" and len(takes) > 1):
        wanted = "1" if kind == "not" else "at least 1"
        raise SettingsError(f"line {number}: {kind!r} takes {len(takes)} wires; expected {wanted}")
    return _Gate(number, kind, takes)


def parity(inputs: int) -> Circuit:
    """Return a circuit that tells whether an odd number of inputs is 1.

    >>> parity(3).evaluate([1, 0, 1])
    [0]
    """
    made = Builder(inputs)
    return made.circuit([made.odd_of(range(1, inputs + 1))])


def majority(inputs: int) -> Circuit:
    """Return a circuit that tells whether more than half of the inputs are 1, by counting.

    After each input, one wire for each count says whether there have been so many or more.

    >>> [majority(4).evaluate(bits) for bits in ([1, 0, 1, 0], [1, 0, 1, 1])]
    [[0], [1]]
    """
    made, most = Builder(inputs), inputs // 2 + 1
    reached = [1]  # at least 1, at least 2, ...
    for wire in range(2, inputs + 1):
        more = [made.all_of([least, wire]) for least in reached]
        kept = [made.any_of([least, new]) for least, new in zip(reached[1:], more, strict=False)]
        reached = [made.any_of([reached[0], wire]), *kept, more[-1]][:most]
    return made.circuit([reached[most - 1]])


def adder(bits: int) -> Circuit:
    """Return a circuit that adds two numbers of so many bits, the ones first.

    >>> adder(3).evaluate([1, 1, 0, 1, 0, 1])  # 3 + 5
    [0, 0, 0, 1]
    """
    made, outputs = Builder(2 * bits), []
    carry = 0
    for place in range(1, bits + 1):
        pair = [place, place + bits]
        half, both = made.odd_of(pair), made.all_of(pair)
        outputs.append(made.odd_of([half, carry]) if carry else half)
        carry = made.any_of([both, made.all_of([half, carry])]) if carry else both
    return made.circuit([*outputs, carry])


def random(inputs: int, gates: int, generator: torch.Generator) -> Circuit:
    """Return a circuit of gates drawn evenly: AND or NOT, of any wires before; the last comes out.

    >>> from carry.randomness import stream
    >>> random(3, 5, stream(0, "doctest")).size
    5
    """
    own = torch.arange(inputs + 1, inputs + gates + 1)
    share = torch.rand(gates, 2, generator=generator)
    wires = ((share * (own[:, None] - 1)).long() + 1).tolist()
    kinds = torch.randint(2, (gates,), generator=generator).tolist()
    made = tuple(
        (kind, first, second if kind == AND else first)
        for kind, (first, second) in zip(kinds, wires, strict=True)
    )
    return Circuit(inputs, made, (inputs + gates,))


def describe(circuit: Circuit) -> Iterator[str]:
    """Yield a circuit as lines that `parse` reads, wires by their numbers.

    >>> list(describe(parity(1)))
    ['in w1', 'out w1']
    """
    yield "in " + " ".join(f"w{wire}" for wire in range(1, circuit.inputs + 1))
    for own, (kind, first, second) in enumerate(circuit.gates, start=circuit.inputs + 1):
        yield f"w{own} = and w{first} w{second}" if kind == AND else f"w{own} = not w{first}"
    yield "out " + " ".join(f"w{wire}" for wire in circuit.outputs)
