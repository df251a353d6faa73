"""Weights set by hand, put to the test (fraknoi2024, 3.3 and 5.3).

The majority is asked of real strings, token by token: from counts alone (see
`carry.training.batched.network`) the same sums are rounded otherwise, and how far the model holds is a
question of rounding. Circuits are worked out gate by gate and compared with Python.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd
import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from carry.config.settings import SettingsError
from carry.data.batch import Batch
from carry.formats import ALPHABET, EOS
from carry.interpretability.adder_construction import DTYPES, accounted
from carry.models.constructions import circuits
from carry.models.constructions.chain_of_thought import ChainOfThought, Precision, said_in_bits
from carry.models.constructions.circuits import AND, Circuit
from carry.models.constructions.minimal_majority import minimal_majority
from carry.models.hooks import Hooks
from carry.models.system import System
from carry.models.teacher_forcing import teacher_forced_pass
from carry.randomness import stream
from carry.tasks import to_digits
from carry.training.batched.network import KINDS

Twos = Literal["all", "some"]
THRESHOLDS = ("thesis", "mended")
TOKENS_AT_ONCE = 2**20
WIRES_AT_ONCE = 2**21  # squared: the attention of so many sequences is quick to make
STRINGS = 256  # on as many, at most, a circuit is asked

# ---- The majority --------------------------------------------------------------------------------


def tensors(system: System) -> pd.DataFrame:
    """Return all that the minimal model holds, by token: embedding, and how its logit is read.

    (Query, key and value are 1.)

    >>> tensors(minimal_majority(12.0))["embedding"].tolist()
    [0.0, 12.0, 13.0, 0.0, 1.0, 144.0, 144.0, 0.0]
    """
    network = system.network
    shown = {
        "embedding": network.tokens.weight[:, 0],
        "logit weight": network.logits.weight[:, 0],
        "logit bias": network.logits.bias,
    }
    table = pd.DataFrame(
        {name: of.tolist() for name, of in shown.items()},
        index=[*ALPHABET[: network.logits.out_features]],
    )
    own = [ALPHABET[token] for token in (*KINDS, EOS)]
    return table.loc[own]


@torch.no_grad()
def looks(system: System, string: str) -> pd.DataFrame:
    """Return what the minimal model does behind `=`, a row for each token it looks at.

    Columns: `score`, the share that it has of the attention, and what it adds to what is found.

    >>> found, middle = looks(minimal_majority(12.0), "0112")["adds"].sum(), 12 + 2.718 / 3.718
    >>> bool(found > middle)
    True
    """
    batch, inside = written(system, [string]), Hooks(["0.pattern"])
    equals = int(batch.start) - 1
    system.network(batch.tokens, [], inside=inside)
    tokens = batch.tokens[0, : equals + 1]
    values = system.network.tokens.weight[tokens, 0]
    share = inside["0.pattern"][0, 0, equals, : equals + 1]
    columns = {"value": values, "score": values * values[-1], "share": share}
    table = pd.DataFrame({**columns, "adds": share * values}, index=[ALPHABET[t] for t in tokens])
    return table.rename_axis("token")


def written(system: System, strings: Iterable[str]) -> Batch:
    """Return strings as the model reads them, with the right answer and the end."""
    return system.format.write(system.task.solve(*to_digits([[string] for string in strings])))


def boundary(length: int, twos: Twos = "all") -> Integer[Tensor, "S 3"]:
    """Return how many zeros, ones and twos there are where the majority is decided by one.

    That is all strings of up to so many symbols with as many ones as zeros, or one more: all others
    are further from the threshold, on the same side as one of these with as many twos. With "some"
    twos there are none, one, or as many as fit.

    >>> boundary(2).tolist()
    [[0, 0, 1], [0, 0, 2], [1, 1, 0], [0, 1, 0], [0, 1, 1]]
    >>> len(boundary(100)), len(boundary(100, "some"))
    (5150, 299)
    """
    parts = []
    for more in (0, 1):
        counts = torch.cartesian_prod(torch.arange(length // 2 + 1), torch.arange(length + 1))
        zeros, noise = counts.T
        left = length - 2 * zeros - more
        fits = (noise <= left) & (noise + 2 * zeros + more > 0)
        if twos == "some":
            fits &= (noise <= 1) | (noise == left)
        parts.append(torch.stack([zeros, zeros + more, noise], dim=1)[fits])
    return torch.cat(parts)


def strings_of(counts: Integer[Tensor, "S 3"], seed: int = 0) -> Iterator[str]:
    """Yield a string of so many zeros, ones and twos for each row, in any order.

    >>> sorted(next(strings_of(torch.tensor([[2, 1, 3]]))))
    ['0', '0', '1', '2', '2', '2']
    """
    generator = stream(seed, "by_hand", "strings")
    for row in counts:
        symbols = torch.arange(3).repeat_interleave(row)
        order = torch.randperm(len(symbols), generator=generator)
        yield "".join(map(str, symbols[order].tolist()))


def missed(system: System, batch: Batch) -> Bool[Tensor, "S 2"]:
    """Return which answers are wrong, and behind which the end is missed.

    >>> missed(minimal_majority(2.0), written(minimal_majority(2.0), ["01", "1"])).tolist()
    [[False, True], [True, True]]
    """
    at_once = max(1, TOKENS_AT_ONCE // batch.tokens.shape[1])
    rows = torch.arange(len(batch.tokens)).split(at_once)
    return torch.cat([teacher_forced_pass(system, batch[some]).wrong for some in rows])


def majority_range(
    larges: Sequence[float],
    lengths: Iterable[int],
    twos: Twos = "some",
    dtypes: Sequence[str] = ("float64", "float32"),
) -> pd.DataFrame:
    """Test the minimal model for each N on the strings that decide, up to each length.

    Columns: `large` (N), `length`, `dtype`, `threshold` (that of the thesis, or mended: half way to
    what is found where there is one more one), of `n` strings how many are `wrong`: `ties` said to
    be ones, `ones` (one more) said to be zeros, and those behind whose answer the `end` is missed.

    >>> found = majority_range([3.0, 12.0, 100.0], [20], dtypes=["float64"])
    >>> found.query("wrong > 0")[["large", "threshold"]].values.tolist()
    [[3.0, 'thesis'], [100.0, 'thesis'], [3.0, 'mended']]
    """
    rows = []
    for length in lengths:
        counts = boundary(length, twos)
        batch = written(minimal_majority(), strings_of(counts))
        tie = counts[:, 0] == counts[:, 1]
        for dtype in dtypes:
            for threshold in THRESHOLDS:
                told = length if threshold == "mended" else None
                for large in larges:
                    answer, end = missed(minimal_majority(large, told, DTYPES[dtype]), batch).T
                    of = {"large": large, "length": length, "dtype": dtype}
                    kinds = {"ties": answer & tie, "ones": answer & ~tie, "end": end}
                    wrong = {"wrong": answer | end, **kinds}
                    sums = {name: int(value.sum()) for name, value in wrong.items()}
                    rows.append({**of, "threshold": threshold, "n": len(counts), **sums})
    return accounted(pd.DataFrame(rows))


def longest(found: pd.DataFrame) -> pd.DataFrame:
    """Return the longest of the lengths up to which nothing is wrong, 0 if there is none, by N.

    >>> found = majority_range([8.0, 12.0], [20, 500], dtypes=["float64"])
    >>> longest(found).loc["mended", "float64"].tolist()
    [20, 500]
    """
    keys = ["threshold", "dtype", "large"]
    whole = found["wrong"].eq(0).groupby([found[key] for key in keys]).cummin()
    reached = found["length"].where(whole, 0).groupby([found[key] for key in keys]).max()
    return reached.unstack("large").astype(int)


# ---- Circuits ------------------------------------------------------------------------------------


def questions(circuit: Circuit, count: int, seed: int = 0) -> Integer[Tensor, "B N"]:
    """Return all inputs that a circuit may have, or if these are more than `count`, random ones.

    >>> questions(circuits.parity(2), 4).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    if 2**circuit.inputs <= count:
        places = torch.arange(circuit.inputs - 1, -1, -1)
        return torch.arange(2**circuit.inputs)[:, None] >> places & 1
    generator = stream(seed, "by_hand", "questions", circuit.inputs)
    return torch.randint(2, (count, circuit.inputs), generator=generator)


def by_circuit(named: Mapping[str, Circuit]) -> pd.DataFrame:
    """Let the model work circuits out, decoding a gate a step, and compare with Python.

    Columns: `circuit`, its `inputs` and `gates`, the `steps` that were decoded, the `width` of the
    model, on how many `strings` it was asked, and of `n` gates how many were said `wrong`.

    >>> by_circuit({"parity": circuits.parity(3)})[["gates", "steps", "n", "wrong"]].values.tolist()
    [[14, 14, 112, 0]]
    """
    rows = []
    for name, circuit in named.items():
        model, inputs = ChainOfThought([circuit]), questions(circuit, STRINGS)
        said = model.decode(inputs)[0]
        due = torch.tensor([circuit.values(row) for row in inputs.tolist()])
        of = {"circuit": name, "inputs": circuit.inputs, "gates": circuit.size}
        of |= {"steps": said.shape[1], "width": model.network.tokens.weight.shape[1]}
        wrong = int((said != due).sum())
        rows.append({**of, "strings": len(inputs), "n": due.numel(), "wrong": wrong})
    return accounted(pd.DataFrame(rows))


def random_circuits(
    count: int, gates: int, inputs: int = 8, strings: int = 4, seed: int = 0, least: int = 1
) -> pd.DataFrame:
    """Let the model work random circuits out, of `least` to so many gates, and compare with Python.

    By `ChainOfThought.said`: what is right there everywhere is what decoding writes.

    Columns: `circuits`, the `smallest` and `largest`, on how many `strings` each was asked, of `n`
    gates how many were said `wrong`, and how many circuits were `exact`.

    >>> random_circuits(20, 30)[["circuits", "strings", "wrong", "exact"]].values.tolist()
    [[20, 4, 0, 20]]
    """
    generator = stream(seed, "by_hand", "circuits", inputs, gates)
    sizes = torch.randint(least, gates + 1, (count,), generator=generator).sort().values.tolist()
    some = [circuits.random(inputs, size, generator) for size in sizes]
    asked = torch.randint(2, (count, strings, inputs), generator=generator)
    wrong = []
    for part in _parts(sizes, inputs, strings):
        due = _values(some[part], asked[part])
        model = ChainOfThought(some[part])
        said = model.said(torch.cat([asked[part], due.clamp(min=0)], dim=2))
        wrong.append(((said != due) & (due >= 0)).sum((1, 2)))  # -1 where there is no gate
    each = torch.cat(wrong)
    of = {"circuits": count, "smallest": sizes[0], "largest": sizes[-1], "strings": strings}
    of |= {"n": sum(sizes) * strings, "wrong": int(each.sum()), "exact": int((each == 0).sum())}
    return accounted(pd.DataFrame([of]))


def _parts(sizes: list[int], inputs: int, strings: int) -> Iterator[slice]:
    """Yield runs of circuits of about one size, so many that their attention fits."""
    begin = 0
    while begin < len(sizes):
        end = begin + 1
        while end < len(sizes):
            held = (end + 1 - begin) * strings * (inputs + sizes[end]) ** 2
            if held > WIRES_AT_ONCE:
                break
            end += 1
        yield slice(begin, end)
        begin = end


def _values(some: Sequence[Circuit], asked: Integer[Tensor, "C B N"]) -> Integer[Tensor, "C B G"]:
    """Return what Python makes of all gates, -1 where a circuit has no more."""
    most = max(circuit.size for circuit in some)
    values = [
        [circuit.values(row) + [-1] * (most - circuit.size) for row in rows]
        for circuit, rows in zip(some, asked.tolist(), strict=True)
    ]
    return torch.tensor(values)


@torch.no_grad()
def chain(circuit: Circuit, inputs: Sequence[int], names: Sequence[str] = ()) -> pd.DataFrame:
    """Return a chain of thought: at each step, where both heads look and what is said.

    Columns: the `step`, its `gate` as it is described, each `wire` that is there with its `name`
    and `value`, the attention of the `first` and the `second` head on it, and what is `said`.

    Args:
        names: of the inputs (default: w1, w2, ...).

    >>> steps = chain(circuits.parity(2), [1, 0])
    >>> steps.query("first > 0.5")[["step", "wire"]].values.tolist()[:3]
    [[1, 1], [2, 2], [3, 3]]
    """
    model, rows = ChainOfThought([circuit]), []
    asked = torch.tensor([list(inputs)])
    tokens = torch.cat([asked, model.decode(asked)[0]], dim=1)
    inside = Hooks(["*.pattern"])
    model.network(tokens[:, :-1], [model.ids(model.wires - 1)], inside=inside)
    looked = [of[0, 0, circuit.inputs - 1 :] for of in inside.each("pattern")]
    wires = [names[at] if at < len(names) else f"w{at + 1}" for at in range(model.wires)]
    for step, (kind, *takes) in enumerate(circuit.gates):
        own = circuit.inputs + step
        taken = [wires[wire - 1] for wire in takes]
        gate = f"{wires[own]} = " + (" and ".join(taken) if kind == AND else f"not {taken[0]}")
        for wire in range(own):
            of = {"step": step + 1, "gate": gate, "wire": wire + 1, "name": wires[wire]}
            heads = {"first": float(looked[0][step, wire]), "second": float(looked[1][step, wire])}
            values = {"value": int(tokens[0, wire]), **heads, "said": int(tokens[0, own])}
            rows.append({**of, **values})
    return pd.DataFrame(rows)


@dataclass(frozen=True)
class AnyPrecision(Precision):
    """Numbers of any few bits, also of so few that `Precision` refuses them.

    >>> AnyPrecision(2).largest
    1.0
    """

    def __post_init__(self) -> None:
        pass


def by_bits(
    named: Mapping[str, Circuit], formats: Iterable[tuple[int, int]], strings: int = 16
) -> pd.DataFrame:
    """Let the model say gates with every number rounded, given the right ones before.

    Columns: `circuit`, `gates`, `bits` with `fraction` of them behind the point, the `largest` such
    number, by how much a wrong key `leaks` where the right one has 1, whether `Precision` refuses
    it, and of `n` gates how many were said `wrong`: `wrong_and` and `wrong_not`, of AND and NOT.

    >>> found = by_bits({"parity": circuits.parity(3)}, [(2, 0), (3, 0)])
    >>> found[["bits", "refused"]].values.tolist(), (found["wrong"] > 0).tolist()
    ([[2, True], [3, False]], [True, False])
    """
    rows = []
    for name, circuit in named.items():
        model, inputs = ChainOfThought([circuit]), questions(circuit, strings)
        due = circuit.all_values(inputs)
        both = torch.tensor([kind == AND for kind, *_ in circuit.gates])
        for bits, fraction in formats:
            numbers = AnyPrecision(bits, fraction)
            whole = torch.cat([inputs, due], dim=1)[None]
            wrong = said_in_bits(model, whole, numbers)[0] != due
            leaks = abs(float(numbers.rounded(torch.tensor(math.exp(-numbers.largest)))))  # not -0
            of = {"circuit": name, "gates": circuit.size, "bits": bits, "fraction": fraction}
            of |= {"largest": numbers.largest, "leaks": leaks, "refused": _refused(bits, fraction)}
            sums = {"wrong": wrong, "wrong_and": wrong[:, both], "wrong_not": wrong[:, ~both]}
            counted = {what: int(value.sum()) for what, value in sums.items()}
            rows.append({**of, "n": due.numel(), **counted})
    return accounted(pd.DataFrame(rows))


def _refused(bits: int, fraction: int) -> bool:
    try:
        Precision(bits, fraction)
    except SettingsError:
        return True
    return False
