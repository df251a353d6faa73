"""Circuits, and the transformer that works them out (fraknoi2024, Theorem 3.4)."""

import itertools

import pytest
import torch

from carry.interpretability import majority_constructions
from carry.models.constructions import circuits
from carry.models.constructions.chain_of_thought import (
    ChainOfThought,
    Precision,
    predict_gates_rounded,
)
from carry.models.constructions.circuits import Circuit, CircuitBuilder
from carry.plots.circuits import draw_circuit_steps
from carry.randomness import stream
from figure_checks import check_layout


def full_adder():
    """Return a circuit of the sum and the carry of three bits."""
    builder = CircuitBuilder(3)
    half = builder.add_xor([1, 2])
    total = builder.add_xor([half, 3])
    carry = builder.add_or([builder.add_and([1, 2]), builder.add_and([half, 3])])
    return builder.finish([total, carry])


def every(inputs):
    """Return all strings of so many bits."""
    return torch.tensor(list(itertools.product((0, 1), repeat=inputs)))


def values(circuit, inputs):
    """Return the values of all gates."""
    return torch.tensor([circuit.values(row) for row in inputs.tolist()])


def wires(circuit, inputs):
    """Return the values of all wires."""
    return torch.cat([inputs, values(circuit, inputs)], dim=1)


@pytest.mark.parametrize("kind", ["and", "or", "xor"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_gates_do_what_their_names_say(kind, count):
    builder = CircuitBuilder(count)
    wire = getattr(builder, f"add_{kind}")(range(1, count + 1))
    made = builder.finish([wire, builder.add_not(wire)])
    truth = {"and": all, "or": any, "xor": lambda x: sum(x) % 2}[kind]
    for bits in itertools.product((0, 1), repeat=count):
        assert made.evaluate(bits) == [int(truth(bits)), 1 - int(truth(bits))]


def test_the_same_gate_is_there_but_once():
    builder = CircuitBuilder(2)
    first, second = builder.add_and([1, 2]), builder.add_and([2, 1])
    assert builder.add_not(builder.add_not(first)) == first == second
    assert builder.finish([first]).size == 2


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


NAMED = {
    "parity": circuits.build_parity_circuit(7),
    "majority": circuits.build_majority_circuit(7),
    "adder": circuits.build_adder_circuit(3),
    "written": full_adder(),
    "one gate": Circuit(1, ((circuits.NOT, 1, 1),), (2,)),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", NAMED)
def test_the_transformer_evaluates_a_circuit_one_gate_per_step(name, dtype):
    circuit, inputs = NAMED[name], every(NAMED[name].inputs)
    model = ChainOfThought([circuit])
    model.network.to(dtype)
    decoded = model.decode(inputs)[0]
    assert decoded.shape[1] == circuit.size
    assert torch.equal(decoded, values(circuit, inputs))
    assert model.outputs(inputs)[0].tolist() == [circuit.evaluate(row) for row in inputs.tolist()]
    assert torch.equal(model.predict_gates(wires(circuit, inputs)[None])[0], decoded)


def test_its_width_is_that_of_the_theorem():
    for circuit in NAMED.values():
        model = ChainOfThought([circuit])
        bits = max(1, (circuit.inputs + circuit.size - 1).bit_length())
        assert model.network.tokens.weight.shape[1] == 3 * bits + 6


def test_many_circuits_of_different_sizes_at_once():
    generator = stream(0, "many")
    some = [circuits.draw_random_circuit(5, size, generator) for size in (1, 2, 17, 64, 500)]
    inputs = every(5)
    decoded = ChainOfThought(some).decode(inputs)
    for circuit, gates in zip(some, decoded, strict=True):
        assert torch.equal(gates[:, : circuit.size], values(circuit, inputs))


@pytest.mark.parametrize(("bits", "fraction"), [(3, 0), (4, 1), (6, 2), (8, 3)])
def test_few_bits_are_enough(bits, fraction):
    drawn = circuits.draw_random_circuit(6, 60, stream(2, "bits"))
    for circuit in [*NAMED.values(), drawn]:
        inputs = every(circuit.inputs)[:16]
        whole = wires(circuit, inputs)[None]
        model, precision = ChainOfThought([circuit]), Precision(bits, fraction)
        assert precision.is_enough
        said = predict_gates_rounded(model, whole, precision)
        assert torch.equal(said[0], values(circuit, inputs))


def test_numbers_are_rounded_to_the_nearest_and_ties_towards_zero():
    assert not any(Precision(*few).is_enough for few in ((2, 0), (3, 1), (6, 4)))
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
    return values(model.circuits[0], inputs)[None]


def test_two_bits_compute_or_for_and():
    """Minus two becomes minus one: AND of any 1 is 1, and so is NOT of 1."""
    both = Circuit(2, ((circuits.AND, 1, 2), (circuits.NOT, 2, 2)), (3, 4))
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
    steps = majority_constructions.trace_circuit(full_adder(), [1, 0, 1], names="abc")
    figure = draw_circuit_steps(steps)
    check_layout(figure)
    for marks, head in zip(figure.axes[0].collections, ("first", "second"), strict=True):
        shown = marks.get_offsets()[marks.get_sizes() > 0].tolist()
        assert shown == steps.loc[steps[head] > 0.01, ["wire", "step"]].values.tolist()
    labels = [label.get_text().split() for label in figure.axes[0].get_yticklabels()]
    assert labels[4] == ["w8", "=", "a", "and", "b", "→", "0"] and len(labels) == 16


@pytest.mark.parametrize("letters", [1, 2, 3, 5])
@pytest.mark.parametrize("length", [1, 2, 4])
def test_a_circuit_accepts_what_its_automaton_accepts(letters, length):
    generator = stream(0, "test", letters, length)
    for _ in range(8):
        automaton = circuits.draw_random_automaton(4, letters, generator)
        built = circuits.build_automaton_circuit(automaton, length)
        for word in itertools.product(range(letters), repeat=length):
            assert built.evaluate(automaton.write_bits(word)) == [int(automaton.accepts(word))]


def test_bits_that_are_no_letter_are_rejected():
    everything = circuits.Automaton(((0, 0, 0),), accepting=(0,))
    built = circuits.build_automaton_circuit(everything, 2)
    assert sum(built.evaluate(bits)[0] for bits in every(4).tolist()) == 9


def test_the_gates_of_an_automaton_grow_linearly_with_its_words():
    automaton = circuits.draw_random_automaton(5, 2, stream(0, "test"))
    sizes = [circuits.build_automaton_circuit(automaton, length).size for length in range(4, 20)]
    steps = {after - before for before, after in itertools.pairwise(sizes[4:])}
    assert len(steps) == 1


def test_chains_of_thought_run_automata():
    """Decoded step by step; the last step is the answer."""
    for states, letters, length in ((2, 2, 6), (4, 3, 4)):
        automaton = circuits.draw_random_automaton(states, letters, stream(0, "test", states))
        words = list(itertools.product(range(letters), repeat=length))[::5]
        inputs = torch.tensor([automaton.write_bits(word) for word in words])
        model = ChainOfThought([circuits.build_automaton_circuit(automaton, length)])
        answers = model.outputs(inputs)[0][:, 0]
        assert answers.tolist() == [int(automaton.accepts(word)) for word in words]


def test_a_wrong_step_of_an_automaton_is_counted(monkeypatch):
    right = majority_constructions.score_random_automata(3, 3, 2, 4)
    flip = ChainOfThought.predict_gates
    monkeypatch.setattr(ChainOfThought, "predict_gates", lambda *args: 1 - flip(*args))
    wrong = majority_constructions.score_random_automata(3, 3, 2, 4)
    assert right["wrong"].item() == right["wrong_answers"].item() == 0
    assert wrong["wrong"].item() == wrong["n"].item()
    assert wrong["wrong_answers"].item() > 0
