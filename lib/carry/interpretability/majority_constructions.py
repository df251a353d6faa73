"""Tests of constructed models: the minimal majority and circuits (fraknoi2024, 3.3 and 5.3).

The majority model reads strings token by token. `carry.training.batched.network` computes the same
sums from counts, with other rounding errors, and the limit of the model depends on rounding.
Circuits are computed gate by gate and compared with Python.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Integer
from torch import Tensor

from carry.data.batch import Batch
from carry.formats import ALPHABET, EOS
from carry.interpretability.adder_construction import add_accuracy
from carry.models.constructions import circuits
from carry.models.constructions.chain_of_thought import (
    ChainOfThought,
    Precision,
    predict_gates_rounded,
)
from carry.models.constructions.circuits import AND, Circuit
from carry.models.constructions.minimal_majority import build_minimal_majority
from carry.models.hooks import Hooks
from carry.models.system import System
from carry.models.teacher_forcing import teacher_forced_pass
from carry.randomness import stream
from carry.tasks import to_digits
from carry.training.batched.network import TOKEN_KINDS

Twos = Literal["all", "some"]
THRESHOLDS = ("thesis", "mended")
TOKENS_AT_ONCE = 2**20
CIRCUITS_AT_ONCE = 16  # their attention is quick to compute
MAX_INPUTS = 256  # of a circuit are tested

# ---- The majority --------------------------------------------------------------------------------


def tabulate_weights(system: System) -> pd.DataFrame:
    """Return the weights of the minimal model by token: its embedding, and the logit's weights.

    (Query, key and value are 1.)

    >>> tabulate_weights(build_minimal_majority(12.0))["embedding"].tolist()
    [0.0, 12.0, 13.0, 0.0, 1.0, 144.0, 144.0, 0.0]
    """
    network = system.network
    columns = {
        "embedding": network.tokens.weight[:, 0],
        "logit weight": network.logits.weight[:, 0],
        "logit bias": network.logits.bias,
    }
    table = pd.DataFrame(
        {name: values.tolist() for name, values in columns.items()},
        index=[*ALPHABET[: network.logits.out_features]],
    )
    return table.loc[[ALPHABET[token] for token in (*TOKEN_KINDS, EOS)]]


@torch.no_grad()
def trace_majority(system: System, string: str) -> pd.DataFrame:
    """Return the attention of the minimal model at `=`, with a line for each token.

    Columns: `value`, `score`, the token's `share` of the attention, and what it `adds` to the
    output.

    >>> output = trace_majority(build_minimal_majority(12.0), "0112")["adds"].sum()
    >>> bool(output > 12 + 2.718 / 3.718)  # the threshold
    True
    """
    batch, hooks = write_strings(system, [string]), Hooks(["0.pattern"])
    equals = int(batch.start) - 1
    system.network(batch.tokens, [], hooks=hooks)
    tokens = batch.tokens[0, : equals + 1]
    values = system.network.tokens.weight[tokens, 0]
    share = hooks["0.pattern"][0, 0, equals, : equals + 1]
    columns = {"value": values, "score": values * values[-1], "share": share}
    table = pd.DataFrame({**columns, "adds": share * values}, index=[ALPHABET[t] for t in tokens])
    return table.rename_axis("token")


def write_strings(system: System, strings: Iterable[str]) -> Batch:
    """Return strings in the model's format, with the correct answers and the end token."""
    return system.format.write(system.task.solve(*to_digits([[string] for string in strings])))


def boundary_counts(length: int, twos: Twos = "all") -> Integer[Tensor, "S 3"]:
    """Return the counts of zeros, ones and twos next to the decision boundary.

    These are all strings of up to `length` symbols with as many ones as zeros, or one more. Every
    other string is farther from the boundary, on the same side as one of these with equally many
    twos. With `twos="some"`, the number of twos is zero, one, or the largest possible.

    >>> boundary_counts(2).tolist()
    [[0, 0, 1], [0, 0, 2], [1, 1, 0], [0, 1, 0], [0, 1, 1]]
    >>> len(boundary_counts(100)), len(boundary_counts(100, "some"))
    (5150, 299)
    """
    parts = []
    for excess in (0, 1):  # of ones over zeros
        counts = torch.cartesian_prod(torch.arange(length // 2 + 1), torch.arange(length + 1))
        zeros, noise = counts.T
        room = length - 2 * zeros - excess
        fits = (noise <= room) & (noise + 2 * zeros + excess > 0)
        if twos == "some":
            fits &= (noise <= 1) | (noise == room)
        parts.append(torch.stack([zeros, zeros + excess, noise], dim=1)[fits])
    return torch.cat(parts)


def draw_strings(counts: Integer[Tensor, "S 3"]) -> Iterator[str]:
    """Yield a string with the counts of each row, in random order.

    >>> sorted(next(draw_strings(torch.tensor([[2, 1, 3]]))))
    ['0', '0', '1', '2', '2', '2']
    """
    generator = stream(0, "by_hand", "strings")
    for row in counts:
        symbols = torch.arange(3).repeat_interleave(row)
        order = torch.randperm(len(symbols), generator=generator)
        yield "".join(map(str, symbols[order].tolist()))


def find_errors(system: System, batch: Batch) -> Bool[Tensor, "S 2"]:
    """Return which answers are wrong, and which end tokens.

    >>> model = build_minimal_majority(2.0)
    >>> find_errors(model, write_strings(model, ["01", "1"])).tolist()
    [[False, True], [True, True]]
    """
    at_once = max(1, TOKENS_AT_ONCE // batch.tokens.shape[1])
    chunks = torch.arange(len(batch.tokens)).split(at_once)
    return torch.cat([teacher_forced_pass(system, batch[rows]).wrong for rows in chunks])


def score_majority(
    larges: Sequence[float],
    lengths: Iterable[int],
    twos: Twos = "some",
    dtypes: Sequence[str] = ("float64", "float32"),
) -> pd.DataFrame:
    """Score the minimal model on the strings next to the boundary, by its N and by length.

    Columns: `large` (N), `length`, `dtype`, `threshold` ("thesis", or "mended": half way to the
    output for one more one), and of `n` strings how many are `wrong`: `ties` answered with one,
    `ones` (one more one) answered with zero, and answers without the `end` token.

    >>> table = score_majority([3.0, 12.0, 100.0], [20], dtypes=["float64"])
    >>> table.query("wrong > 0")[["large", "threshold"]].values.tolist()
    [[3.0, 'thesis'], [100.0, 'thesis'], [3.0, 'mended']]
    """
    rows = []
    for length in lengths:
        counts = boundary_counts(length, twos)
        batch = write_strings(build_minimal_majority(), draw_strings(counts))
        tie = counts[:, 0] == counts[:, 1]
        for dtype, threshold, large in itertools.product(dtypes, THRESHOLDS, larges):
            longest = length if threshold == "mended" else None
            model = build_minimal_majority(large, longest, getattr(torch, dtype))
            answer, end = find_errors(model, batch).T
            kinds = {"ties": answer & tie, "ones": answer & ~tie, "end": end}
            errors = {"wrong": answer | end, **kinds}
            row = {"large": large, "length": length, "dtype": dtype, "threshold": threshold}
            row |= {"n": len(counts), **{name: int(of.sum()) for name, of in errors.items()}}
            rows.append(row)
    return add_accuracy(rows)


def longest_correct(table: pd.DataFrame) -> pd.DataFrame:
    """Return the longest length up to which the model has no errors (0: none), by N.

    >>> table = score_majority([8.0, 12.0], [20, 500], dtypes=["float64"])
    >>> longest_correct(table).loc["mended", "float64"].tolist()
    [20, 500]
    """
    keys = [table[key] for key in ("threshold", "dtype", "large")]
    correct = table["wrong"].eq(0).groupby(keys).cummin()
    longest = table["length"].where(correct, 0).groupby(keys).max()
    return longest.unstack("large").astype(int)


# ---- Circuits ------------------------------------------------------------------------------------


def circuit_inputs(circuit: Circuit, count: int) -> Integer[Tensor, "B N"]:
    """Return all inputs of a circuit, or `count` random ones if there are more.

    >>> circuit_inputs(circuits.build_parity_circuit(2), 4).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    if 2**circuit.inputs <= count:
        places = torch.arange(circuit.inputs - 1, -1, -1)
        return torch.arange(2**circuit.inputs)[:, None] >> places & 1
    generator = stream(0, "by_hand", "questions", circuit.inputs)
    return torch.randint(2, (count, circuit.inputs), generator=generator)


def score_circuits(named: Mapping[str, Circuit]) -> pd.DataFrame:
    """Decode circuits with the constructed model, one gate a step, and compare with Python.

    Columns: `circuit`, its `inputs` and `gates`, the decoded `steps`, the `width` of the model, the
    number of inputs (`strings`), and how many of `n` gates are `wrong`.

    >>> table = score_circuits({"parity": circuits.build_parity_circuit(3)})
    >>> table[["gates", "steps", "n", "wrong"]].values.tolist()
    [[14, 14, 112, 0]]
    """
    rows = []
    for name, circuit in named.items():
        model, inputs = ChainOfThought([circuit]), circuit_inputs(circuit, MAX_INPUTS)
        predicted = model.decode(inputs)[0]
        target = torch.tensor([circuit.values(row) for row in inputs.tolist()])
        sizes = {"circuit": name, "inputs": circuit.inputs, "gates": circuit.size}
        sizes |= {"steps": predicted.shape[1], "width": model.network.tokens.weight.shape[1]}
        wrong = int((predicted != target).sum())
        rows.append({**sizes, "strings": len(inputs), "n": target.numel(), "wrong": wrong})
    return add_accuracy(rows)


def score_random_circuits(
    count: int, gates: int, inputs: int = 8, strings: int = 4, least: int = 1
) -> pd.DataFrame:
    """Predict the gates of random circuits of `least` to `gates` gates, and compare with Python.

    Gates are predicted in one pass; if all are correct, decoding writes the same.

    Columns: `circuits`, the `smallest` and `largest`, the number of inputs of each (`strings`), how
    many of `n` gates are `wrong`, and how many circuits are `exact`.

    >>> table = score_random_circuits(20, 30)
    >>> table[["circuits", "strings", "wrong", "exact"]].values.tolist()
    [[20, 4, 0, 20]]
    """
    generator = stream(0, "by_hand", "circuits", inputs, gates)
    sizes = torch.randint(least, gates + 1, (count,), generator=generator).sort().values.tolist()
    drawn = [circuits.draw_random_circuit(inputs, size, generator) for size in sizes]
    strings_drawn = torch.randint(2, (count, strings, inputs), generator=generator)
    predicted, target = _predict_gates(drawn, strings_drawn)
    errors = ((predicted != target) & (target >= 0)).sum((1, 2))
    row = {"circuits": count, "smallest": sizes[0], "largest": sizes[-1], "strings": strings}
    row |= {"n": sum(sizes) * strings, "wrong": int(errors.sum())}
    return add_accuracy([{**row, "exact": int((errors == 0).sum())}])


def score_random_automata(
    count: int, states: int, letters: int, length: int, strings: int = 4
) -> pd.DataFrame:
    """Let random automata be run by a chain of thought, and compare (fraknoi2024, Corollary 3.5).

    Each automaton has up to `states` states, and reads random words of a length. The model writes
    the gates of its circuit in turn. Gates are predicted in one pass; if all are correct, decoding
    writes the same. Answers are compared with the automaton, which reads letter by letter.

    Columns: the sizes, the most `steps` of an automaton, the `width` of the model, the number of
    words of each (`strings`), how many words are `accepted`, how many of `n` steps are `wrong`, and
    how many `wrong_answers` there are.

    >>> table = score_random_automata(20, states=4, letters=3, length=5)
    >>> table[["automata", "strings", "wrong", "wrong_answers"]].values.tolist()
    [[20, 4, 0, 0]]
    """
    generator = stream(0, "by_hand", "automata", states, letters, length)
    sizes = torch.randint(2, states + 1, (count,), generator=generator).tolist()
    drawn = [circuits.draw_random_automaton(size, letters, generator) for size in sizes]
    words = torch.randint(letters, (count, strings, length), generator=generator).tolist()
    built = [circuits.build_automaton_circuit(automaton, length) for automaton in drawn]
    bits = torch.tensor([
        [automaton.write_bits(word) for word in of]
        for automaton, of in zip(drawn, words, strict=True)
    ])  # fmt: skip
    predicted, target = _predict_gates(built, bits)
    last = torch.tensor([circuit.outputs[0] for circuit in built])[:, None, None] - 1
    answers = torch.cat([bits, predicted], dim=2).gather(2, last.expand(-1, strings, 1))[..., 0]
    accepted = torch.tensor([
        [automaton.accepts(word) for word in of] for automaton, of in zip(drawn, words, strict=True)
    ])  # fmt: skip
    real, most = target >= 0, max(circuit.size for circuit in built)
    wires = bits.shape[2] + most
    row = {"automata": count, "states": states, "letters": letters, "length": length}
    row |= {"steps": most, "width": 3 * math.ceil(math.log2(wires)) + 6, "strings": strings}
    row |= {"accepted": int(accepted.sum()), "n": int(real.sum())}
    row |= {"wrong": int(((predicted != target) & real).sum())}
    return add_accuracy([{**row, "wrong_answers": int((answers != accepted).sum())}])


def _predict_gates(
    drawn: Sequence[Circuit], strings: Integer[Tensor, "C B N"]
) -> tuple[Integer[Tensor, "C B G"], Integer[Tensor, "C B G"]]:
    """Return the gates that the model predicts and the true ones, which are -1 for no gate."""
    most, pairs = max(circuit.size for circuit in drawn), []
    for begin in range(0, len(drawn), CIRCUITS_AT_ONCE):
        part = slice(begin, begin + CIRCUITS_AT_ONCE)
        target = _compute_values(drawn[part], strings[part])
        tokens = torch.cat([strings[part], target.clamp(min=0)], dim=2)
        predicted = ChainOfThought(drawn[part]).predict_gates(tokens)
        pairs.append([F.pad(x, (0, most - x.shape[2]), value=-1) for x in (predicted, target)])
    return tuple(torch.cat(of) for of in zip(*pairs, strict=True))


def _compute_values(
    drawn: Sequence[Circuit], strings: Integer[Tensor, "C B N"]
) -> Integer[Tensor, "C B G"]:
    """Return the values of all gates, computed by Python; -1 beyond the gates of a circuit."""
    most = max(circuit.size for circuit in drawn)
    values = [
        [circuit.values(row) + [-1] * (most - circuit.size) for row in rows]
        for circuit, rows in zip(drawn, strings.tolist(), strict=True)
    ]
    return torch.tensor(values)


@torch.no_grad()
def trace_circuit(
    circuit: Circuit, inputs: Sequence[int], names: Sequence[str] = ()
) -> pd.DataFrame:
    """Return a chain of thought: the attention of both heads and the prediction at each step.

    Columns: the `step`, a description of its `gate`, each earlier `wire` with its `name` and
    `value`, the attention of the `first` and the `second` head on it, and the `predicted` value.

    Args:
        names: of the inputs (default: w1, w2, ...).

    >>> steps = trace_circuit(circuits.build_parity_circuit(2), [1, 0])
    >>> steps.query("first > 0.5")[["step", "wire"]].values.tolist()[:3]
    [[1, 1], [2, 2], [3, 3]]
    """
    model, rows = ChainOfThought([circuit]), []
    string = torch.tensor([list(inputs)])
    tokens = torch.cat([string, model.decode(string)[0]], dim=1)
    hooks = Hooks(["*.pattern"])
    model.network(tokens[:, :-1], [model.ids(model.wires - 1)], hooks=hooks)
    patterns = [part[0, 0, circuit.inputs - 1 :] for part in hooks.all_layers("pattern")]
    wires = [names[at] if at < len(names) else f"w{at + 1}" for at in range(model.wires)]
    for step, (kind, *operands) in enumerate(circuit.gates):
        output = circuit.inputs + step
        read = [wires[wire - 1] for wire in operands]
        formula = " and ".join(read) if kind == AND else f"not {read[0]}"
        gate = {"step": step + 1, "gate": f"{wires[output]} = {formula}"}
        for wire in range(output):
            shares = {"first": float(patterns[0][step, wire])}
            shares |= {"second": float(patterns[1][step, wire])}
            row = {**gate, "wire": wire + 1, "name": wires[wire], "value": int(tokens[0, wire])}
            rows.append({**row, **shares, "predicted": int(tokens[0, output])})
    return pd.DataFrame(rows)


def score_by_bits(
    named: Mapping[str, Circuit], formats: Iterable[tuple[int, int]], strings: int = 16
) -> pd.DataFrame:
    """Predict gates with every number rounded to few bits, with all earlier gates correct.

    Columns: `circuit`, `gates`, `bits` and how many of them are the `fraction`, the `largest` such
    number, the attention weight of a wrong key (`leaks`) relative to the correct one, whether
    the proof does not hold for the format (`refused`), and of `n` gates how many are `wrong`, by
    kind (`wrong_and`, `wrong_not`).

    >>> table = score_by_bits({"parity": circuits.build_parity_circuit(3)}, [(2, 0), (3, 0)])
    >>> table[["bits", "refused"]].values.tolist(), (table["wrong"] > 0).tolist()
    ([[2, True], [3, False]], [True, False])
    """
    rows = []
    for name, circuit in named.items():
        model, inputs = ChainOfThought([circuit]), circuit_inputs(circuit, strings)
        target = torch.tensor([circuit.values(row) for row in inputs.tolist()])
        is_and = torch.tensor([kind == AND for kind, *_ in circuit.gates])
        tokens = torch.cat([inputs, target], dim=1)[None]
        for bits, fraction in formats:
            precision = Precision(bits, fraction)
            wrong = predict_gates_rounded(model, tokens, precision)[0] != target
            weight = precision.round(torch.tensor(math.exp(-precision.largest)))
            row = {"circuit": name, "gates": circuit.size, "bits": bits, "fraction": fraction}
            row |= {"largest": precision.largest, "leaks": abs(float(weight))}  # not -0
            row |= {"refused": not precision.is_enough, "n": target.numel()}
            sums = {"wrong": wrong, "wrong_and": wrong[:, is_and], "wrong_not": wrong[:, ~is_and]}
            rows.append({**row, **{kind: int(value.sum()) for kind, value in sums.items()}})
    return add_accuracy(rows)
