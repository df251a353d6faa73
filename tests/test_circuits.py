"""Circuits, their compiler, and the transformer that works them out (fraknoi2024, Theorem 3.4)."""

import itertools

import pytest
import torch

from carry.config.settings import SettingsError
from carry.interpretability import majority_constructions
from carry.models.constructions import circuits
from carry.models.constructions.chain_of_thought import (
    ChainOfThought,
    Precision,
    predict_gates_rounded,
)
from carry.models.constructions.circuits import Circuit, parse_circuit
from carry.plots.circuits import draw_circuit_steps
from carry.randomness import stream
from figure_checks import check_layout

FULL_ADDER = """
in a b c                    # what goes in
out sum carry               # lines may stand in any order
sum = xor s c
carry = or (and a b) (and s c)
s = xor a b
"""


def every(inputs):
    """Return all strings of so many bits."""
    return torch.tensor(list(itertools.product((0, 1), repeat=inputs)))


def wires(circuit, inputs):
    """Return the values of all wires."""
    return torch.cat([inputs, circuit.batched_values(inputs)], dim=1)


@pytest.mark.parametrize("kind", circuits.GATE_KINDS)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_gates_do_what_their_names_say(kind, count):
    if kind == "not" and count > 1:
        return
    names = [f"w{number}" for number in range(count)]
    made = parse_circuit(f"in {' '.join(names)}\ny = {kind} {' '.join(names)}\nout y")
    truth = {"not": lambda x: not x[0], "and": all, "or": any, "xor": lambda x: sum(x) % 2,
             "nand": lambda x: not all(x), "nor": lambda x: not any(x),
             "xnor": lambda x: not sum(x) % 2}[kind]  # fmt: skip
    for bits in itertools.product((0, 1), repeat=count):
        assert made.evaluate(bits) == [int(truth(bits))]


def test_a_description_in_any_order_with_brackets():
    made = parse_circuit(FULL_ADDER)
    for bits in itertools.product((0, 1), repeat=3):
        assert made.evaluate(bits) == [sum(bits) % 2, sum(bits) // 2]


def test_the_same_gate_is_there_but_once():
    made = parse_circuit("in a b\nc = and a b\nd = and b a\ne = not c\nf = not e\nout d f")
    assert made.size == 2 and made.outputs == (3, 3)


def test_a_long_chain_written_backwards():
    lines = [f"w{number + 1} = not w{number}" for number in range(3_000)]
    made = parse_circuit("\n".join(["in w0", "out w3000", *reversed(lines)]))
    assert made.evaluate([1]) == [1]


@pytest.mark.parametrize("inputs", [1, 2, 3, 4, 5, 6, 7])
def test_parity_and_majority_count(inputs):
    bits = every(inputs)
    for made, due in (
        (circuits.build_parity_circuit(inputs), bits.sum(1) % 2),
        (circuits.build_majority_circuit(inputs), bits.sum(1) > inputs / 2),
    ):
        assert [made.evaluate(row) for row in bits.tolist()] == [[int(value)] for value in due]


def test_adders_add():
    made = circuits.build_adder_circuit(4)
    for a, b in itertools.product(range(16), repeat=2):
        bits = [number >> place & 1 for number in (a, b) for place in range(4)]
        assert sum(bit << place for place, bit in enumerate(made.evaluate(bits))) == a + b


def test_many_inputs_at_once_are_as_one_by_one():
    made = circuits.draw_random_circuit(4, 50, stream(0, "circuit"))
    together = made.batched_values(every(4))
    assert together.tolist() == [made.values(row) for row in every(4).tolist()]


def test_what_is_described_is_read_back():
    made = circuits.build_adder_circuit(3)
    again = parse_circuit("\n".join(circuits.describe_circuit(made)))
    for row in every(6)[::5].tolist():
        assert again.evaluate(row) == made.evaluate(row)


BAD = {
    "cycle": ("in a\nb = and a c\nc = not b\nout b", ["cycle", "b -> c -> b"]),
    "itself": ("in a\nb = and a b\nout b", ["line 2", "b -> b", "cycle"]),
    "undefined": ("in apple\nb = not aple\nout b", ["line 2", "'aple'", "did you mean 'apple'"]),
    "undefined output": ("in a\nout b", ["line 2", "out", "'b'"]),
    "unknown gate": ("in a b\nc = xand a b\nout c", ["line 2", "'xand'", "known"]),
    "twice": ("in a\nb = not a\nb = and a a\nout b", ["line 3", "'b'", "line 2"]),
    "input defined": ("in a b\nb = not a\nout b", ["'b'", "twice"]),
    "two for not": ("in a b\nc = not a b\nout c", ["'not'", "2 wires", "expected 1"]),
    "none": ("in a\nc = and\nout c", ["'and'", "0 wires"]),
    "open bracket": ("in a b\nc = or (and a b\nout c", ["line 2", "'('"]),
    "too many brackets": ("in a b\nc = or a b)\nout c", ["line 2", "')'"]),
    "nonsense": ("in a\nhello\nout a", ["line 2", "'hello'"]),
    "no input": ("out a", ["in", "missing"]),
    "no output": ("in a\nb = not a", ["out", "missing"]),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_description_is_refused_in_one_line(name):
    text, words = BAD[name]
    with pytest.raises(SettingsError) as error:
        parse_circuit(text)
    said = str(error.value)
    assert "\n" not in said and all(word in said for word in words), said


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((0, (), ()), ["inputs: 0"]),
        ((1, ((1, 1, 2),), (2,)), ["gate 2", "wire 2", "expected 1 to 1"]),
        ((1, ((2, 1, 1),), (2,)), ["gate 2", "kind 2"]),
        ((1, (), (2,)), ["outputs", "wire 2"]),
    ],
)
def test_gates_take_what_is_before_them(given, words):
    with pytest.raises(SettingsError) as error:
        Circuit(*given)
    assert all(word in str(error.value) for word in words)


def test_inputs_are_as_many_as_the_circuit_has_and_bits():
    made = circuits.build_parity_circuit(3)
    for bad in ([1, 0], [1, 0, 2]):
        with pytest.raises(SettingsError, match="expected 3 of 0 and 1"):
            made.evaluate(bad)
        with pytest.raises(SettingsError, match="expected 3 of 0 and 1"):
            ChainOfThought([made]).decode(torch.tensor([bad]))


NAMED = {
    "parity": circuits.build_parity_circuit(7),
    "majority": circuits.build_majority_circuit(7),
    "adder": circuits.build_adder_circuit(3),
    "written": parse_circuit(FULL_ADDER),
    "one gate": parse_circuit("in a\nb = not a\nout b"),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", NAMED)
def test_the_transformer_evaluates_a_circuit_one_gate_per_step(name, dtype):
    circuit, inputs = NAMED[name], every(NAMED[name].inputs)
    model = ChainOfThought([circuit], dtype=dtype)
    decoded = model.decode(inputs)[0]
    assert decoded.shape[1] == circuit.size
    assert torch.equal(decoded, circuit.batched_values(inputs))
    assert model.outputs(inputs)[0].tolist() == [circuit.evaluate(row) for row in inputs.tolist()]
    assert torch.equal(model.predict_gates(wires(circuit, inputs)[None])[0], decoded)


def test_its_width_is_that_of_the_theorem():
    for circuit in NAMED.values():
        model = ChainOfThought([circuit])
        bits = max(1, (circuit.inputs + circuit.size - 1).bit_length())
        assert model.network.tokens.weight.shape[1] == 3 * bits + 6


def test_many_circuits_of_different_sizes_at_once():
    generator = stream(0, "many")
    some = [circuits.draw_random_circuit(5, size, generator) for size in (1, 2, 17, 64, 200)]
    inputs = every(5)
    decoded = ChainOfThought(some).decode(inputs)
    for circuit, values in zip(some, decoded, strict=True):
        assert torch.equal(values[:, : circuit.size], circuit.batched_values(inputs))


def test_a_thousand_gates():
    circuit, generator = (
        circuits.draw_random_circuit(10, 1_000, stream(1, "large")),
        stream(1, "inputs"),
    )
    inputs = torch.randint(2, (4, 10), generator=generator)
    assert torch.equal(ChainOfThought([circuit]).decode(inputs)[0], circuit.batched_values(inputs))


@pytest.mark.parametrize(("bits", "fraction"), [(3, 0), (4, 1), (6, 2), (8, 3)])
def test_few_bits_are_enough(bits, fraction):
    drawn = circuits.draw_random_circuit(6, 60, stream(2, "bits"))
    for circuit in [*NAMED.values(), drawn]:
        inputs = every(circuit.inputs)[:16]
        whole = wires(circuit, inputs)[None]
        model = ChainOfThought([circuit])
        said = predict_gates_rounded(model, whole, Precision(bits, fraction))
        assert torch.equal(said[0], circuit.batched_values(inputs))


@pytest.mark.parametrize(("bits", "fraction"), [(2, 0), (3, 1), (6, 4)])
def test_too_few_bits_are_refused(bits, fraction):
    with pytest.raises(SettingsError, match="too few"):
        Precision(bits, fraction)


def test_attention_that_leaks_is_refused():
    with pytest.raises(SettingsError, match=r"scale: 1.0 is too low for \d+ wires"):
        ChainOfThought([circuits.draw_random_circuit(3, 100, stream(0, "leak"))], scale=1.0)


def test_circuits_of_different_inputs_are_refused():
    with pytest.raises(SettingsError, match="differ"):
        ChainOfThought([circuits.build_parity_circuit(2), circuits.build_parity_circuit(3)])


def test_numbers_are_rounded_to_the_nearest_and_ties_towards_zero():
    half = Precision(4, 1)
    x = torch.tensor([0.24, 0.25, 0.26, -0.25, -0.26, 3.4, 99.0, -99.0])
    assert half.round(x).tolist() == [0.0, 0.0, 0.5, 0.0, -0.5, 3.5, 3.5, -3.5]
    assert half.sum(torch.tensor([3.5, 3.5, -3.5])) == 0.0  # sums end at the largest


def test_errors_are_counted_by_circuit_by_bits_and_in_random_ones(monkeypatch):
    """Nothing is wrong with a right model, and a wrong model is detected."""
    named = {"adder": NAMED["adder"], "written": NAMED["written"]}
    right = (
        majority_constructions.score_circuits(named),
        majority_constructions.score_random_circuits(30, 40),
    )
    assert not any(table["wrong"].any() for table in right)
    assert right[0]["steps"].tolist() == [circuit.size for circuit in named.values()]
    assert right[1]["exact"].item() == 30 and right[1]["smallest"].item() >= 1
    told = ChainOfThought.predict_gates
    monkeypatch.setattr(ChainOfThought, "decode", lambda self, inputs: 1 - every_gate(self, inputs))
    monkeypatch.setattr(
        ChainOfThought, "predict_gates", lambda self, tokens: 1 - told(self, tokens)
    )
    wrong = (
        majority_constructions.score_circuits(named),
        majority_constructions.score_random_circuits(30, 40),
    )
    assert all((table["wrong"] == table["n"]).all() for table in wrong)
    assert wrong[1]["n"].equals(right[1]["n"]) and wrong[1]["exact"].item() == 0


def every_gate(model, inputs):
    return model.circuits[0].batched_values(inputs)[None]


def test_two_bits_compute_or_for_and():
    """Minus two becomes minus one: AND of any 1 is 1, and so is NOT of 1."""
    both = parse_circuit("in a b\nc = and a b\nd = not b\nout c d")
    said = majority_constructions.score_by_bits({"both": both}, [(2, 0), (3, 0)])
    assert said[["wrong_and", "wrong_not"]].values.tolist() == [[2, 2], [0, 0]]
    assert said["refused"].tolist() == [True, False]


def test_a_chain_of_thought_looks_at_what_its_gates_take():
    circuit = NAMED["written"]
    steps = majority_constructions.trace_circuit(circuit, [1, 0, 1], names="abc")
    for step, (_, *takes) in enumerate(circuit.gates, start=1):
        of = steps[steps["step"] == step]
        looked = [of.loc[of[head].idxmax(), "wire"] for head in ("first", "second")]
        assert looked == takes
    said = steps.drop_duplicates("step")["predicted"]
    assert said.tolist() == circuit.values([1, 0, 1])
    assert steps.drop_duplicates("step")["gate"].iloc[0] == "w4 = not a"


@pytest.mark.usefixtures("closed_figures")
def test_marks_stand_where_heads_attend():
    steps = majority_constructions.trace_circuit(parse_circuit(FULL_ADDER), [1, 0, 1], names="abc")
    figure = draw_circuit_steps(steps)
    check_layout(figure)
    for marks, head in zip(figure.axes[0].collections, ("first", "second"), strict=True):
        shown = marks.get_offsets()[marks.get_sizes() > 0].tolist()
        assert shown == steps.loc[steps[head] > 0.01, ["wire", "step"]].values.tolist()
    labels = [label.get_text().split() for label in figure.axes[0].get_yticklabels()]
    assert labels[4] == ["w8", "=", "a", "and", "b", "→", "0"] and len(labels) == 16
