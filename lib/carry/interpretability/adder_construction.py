"""The adder of Theorem 4.1 taken apart and put to the test (cho2025, 4.4 and appendix D).

`tables` shows one sum on its way through the model, by the numbers of the paper's own tables, read
off the tensors as they are. The rest asks how far the theorem holds: for which problems, at which
width, and how sharp attention has to be.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from carry.config.settings import SettingsError
from carry.data.batch import Batch
from carry.data.problems import Problems
from carry.evaluation.intervals import add_interval
from carry.formats import ALPHABET, EQUALS
from carry.models.constructions import adder as made
from carry.models.constructions.adder import Codes, Size, adder
from carry.models.hooks import Hooks
from carry.models.system import System
from carry.randomness import stream
from carry.tasks import to_digits

MOST_SCORES = 2**24  # of all four heads at once
DTYPES = {"float32": torch.float32, "float64": torch.float64}
PAPER = "cho2025, Table {}"
HEADS = ("digits of this place", "digits of the place below", "has such a place", "has this place")
TITLES = {
    4: "What the tokens say, X(0)",
    **{
        5 + 4 * head + number: f"Head {head + 1}, {what}"
        for head in range(4)
        for number, what in enumerate(
            ["the query, QX / scale", "the key, KX", "the value, UVX", "what it finds, UVXA"]
        )
    },
    21: "All heads added to the input, Y(1)",
    22: "What the feed-forward layer says of it, FF(Y)",
    23: "Both together, X(1)",
    24: "What the logits read, transposed",
    25: "The logits",
    26: "The tokens, and what is said after each",
}


class Walk(NamedTuple):
    """One problem on its way through the model, a column for each token that is read.

    Shapes: D features, T tokens, H heads of K features, V symbols.
    """

    tokens: list[str]
    ids: list[list[int]]
    embedded: Float[Tensor, "D T"]
    query: Float[Tensor, "H K T"]
    key: Float[Tensor, "H K T"]
    value: Float[Tensor, "H D T"]
    attention: Float[Tensor, "H T T"]
    attended: Float[Tensor, "D T"]
    concluded: Float[Tensor, "D T"]
    logits: Float[Tensor, "V T"]


@torch.no_grad()
def walk(system: System, *operands: int, first: Sequence[int] = (1, 1)) -> Walk:
    """Take a problem through a construction, its ids from `first` on at each level.

    >>> steps = walk(adder(3, 2), 57, 48, 96)
    >>> "".join(steps.tokens), steps.ids[1][:6]
    ('^057+048+096=000>750>501>102', [0, 1, 1, 1, 1, 2])
    """
    batch = system.format.write(system.task.solve(*to_digits([[*operands]])))
    ids, inside = system.ids_from(batch, first), Hooks()
    logits = system.network(batch.tokens, ids, inside=inside)
    block = system.network.blocks[0]
    output = block.output.weight.unflatten(1, (block.heads, -1))
    read = int(batch.length) - 1  # all but the end, which is said and not read
    return Walk(
        [ALPHABET[token] for token in batch.tokens[0, :read].tolist()],
        [of[0, :read].tolist() for of in ids],
        inside["embed"][0, :read].T,
        inside["0.q"][0, :, :read].mT,
        inside["0.k"][0, :, :read].mT,
        torch.einsum("dhk,htk->hdt", output, inside["0.v"][0, :, :read]),
        inside["0.pattern"][0, :, :read, :read],
        inside["0.resid_mid"][0, :read].T,
        inside["0.resid_post"][0, :read].T,
        logits[0, :read].T,
    )


def example(scale: float = 64.0) -> System:
    """Return the model of the paper's tables: its sum has ids from 4 and 2 on, up to 8 and 6.

    The width is more than that of the theorem, whose codes are too few for these ids.

    >>> example().largest_id(0), example().network.tokens.weight.shape[1]
    (7, 31)
    """
    return adder(4, 5, scale, "theorem", of=Size(digits=6, first=3, second=3, width=31))


@torch.no_grad()
def tables(
    system: System, *operands: int, first: Sequence[int] = (1, 1)
) -> dict[int, pd.DataFrame]:
    """Return the tables 4 to 26 of the paper, as the tensors of this model have them.

    A code is shown by its bits, + and -; of what is worked out the response is shown alone.

    >>> shown = tables(example(), 57, 48, 96, first=(4, 2))
    >>> shown[8].loc["PRE_SUM"].tolist()
    ['0', '0', '0', '0', '7', '5', '0', '0', '15', '9', '0', '0', '11', '9', '1', '0']
    >>> "".join(shown[26].loc["O"])
    '000>750>501>102$'
    """
    steps, bits = walk(system, *operands, first=first), _bits(system)
    scale = float(system.network.blocks[0].query.weight.max()) / sum(bits)
    begins = steps.tokens.index(ALPHABET[EQUALS])
    responds = slice(begins, len(steps.tokens))
    whole = pd.DataFrame(steps.ids, index=["p1", "p2"], columns=steps.tokens).astype(str)
    found = {4: pd.concat([whole, _features(steps.embedded, steps.tokens, bits)])}
    for head in range(len(steps.query)):
        mixed = steps.value[head] @ steps.attention[head].T
        found |= {
            5 + 4 * head: _codes(steps.query[head] / scale, steps.tokens, bits),
            6 + 4 * head: _codes(steps.key[head], steps.tokens, bits),
            7 + 4 * head: _features(steps.value[head], steps.tokens, bits),
            8 + 4 * head: _features(mixed[:, responds], steps.tokens[responds], bits),
        }
    said = [ALPHABET[token] for token in steps.logits.argmax(0).tolist()]
    symbols = list(ALPHABET[: len(steps.logits)])
    streams = (steps.attended, steps.concluded - steps.attended, steps.concluded)
    for number, stream_ in zip((21, 22, 23), streams, strict=True):
        found[number] = _features(stream_[:, responds], steps.tokens[responds], bits)
    read = system.network.logits.weight.T[: made.CODES]
    found[24] = pd.DataFrame(_numbers(read), index=_names(), columns=symbols)
    found[25] = pd.DataFrame(
        _numbers(steps.logits[:, responds]), index=symbols, columns=steps.tokens[responds]
    )
    both = [steps.tokens[responds], said[responds]]
    found[26] = pd.DataFrame(both, index=["I", "O"], columns=range(1, len(both[0]) + 1))
    return found


def brief(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table without the rows that are all 0.

    >>> brief(pd.DataFrame({"a": ["0", "1"], "b": ["0", "0"]}, index=["NUM", "EOS"])).index.tolist()
    ['EOS']
    """
    return table[(table != "0").any(axis=1)]


def _bits(system: System) -> tuple[int, int]:
    """Return the bits of the codes at both levels."""
    network = system.network
    rows = network.encodings[0].rows.weight[2]  # an id that has a code, whichever the codes are
    first = int((rows != 0).sum()) // 2
    return first, (network.tokens.weight.shape[1] - made.CODES) // 2 - first


def _names() -> list[str]:
    """Return the names of the features, one by one."""
    names = ["NUM", "IS_BOS", "FULL_ONES", "PRE_SUM", "PRE_CARRY", "PRE_ARROW", "PRE_EOS"]
    return [*names, *(f"SUM {digit}" for digit in range(10)), "ARROW", "EOS"]


def _features(
    matrix: Float[Tensor, "D T"], tokens: list[str], bits: tuple[int, int]
) -> pd.DataFrame:
    """Return the residual stream, or a part of it, with the names of its rows."""
    single = [name for name in _names() if not name.startswith("SUM")]
    rows = {name: _numbers(matrix[[at]])[0] for at, name in enumerate(single[:-2])}
    rows["SUM"] = [_one_hot(of) for of in matrix[made.SUM : made.SUM + 10].T.tolist()]
    rows |= dict(zip(single[-2:], _numbers(matrix[[made.ARROW, made.END]]), strict=True))
    begin = made.CODES
    for name, count in zip(
        ("POS_1", "POS_1_NEXT", "POS_2", "POS_2_NEXT"), _twice(bits), strict=True
    ):
        rows[name] = _signs(matrix[begin : begin + count])
        begin += count
    return pd.DataFrame(rows, index=pd.Index(range(len(tokens)))).T.set_axis(tokens, axis=1)


def _twice(bits: tuple[int, int]) -> tuple[int, int, int, int]:
    return bits[0], bits[0], bits[1], bits[1]


def _codes(matrix: Float[Tensor, "K T"], tokens: list[str], bits: tuple[int, int]) -> pd.DataFrame:
    """Return the queries or keys of one head, as the paper names their rows."""
    first, both = bits[0], sum(bits)
    rows = [_signs(matrix[:first]), _signs(matrix[first:both]), _numbers(matrix[[both]])[0]]
    return pd.DataFrame(rows, index=["1 to P1", "P1+1 to P", "P+1"], columns=tokens)


def _signs(matrix: Float[Tensor, "P T"]) -> list[str]:
    """Return the bits of codes as signs, nothing as 0; what is neither as it is."""
    shown = []
    for column in matrix.T.tolist():
        if not any(column):
            shown.append("0")
        elif all(abs(bit) == 1 for bit in column):
            shown.append("".join("+" if bit > 0 else "-" for bit in column))
        else:
            shown.append(str(column))
    return shown


def _one_hot(column: list[float]) -> str:
    """Return which of ten numbers is 1; if none is, 0."""
    shown = [_number(value) for value in column]
    if set(shown) <= {"0", "1"} and shown.count("1") <= 1:
        return f"1 at {shown.index('1')}" if "1" in shown else "0"
    return ", ".join(shown)


def _numbers(matrix: Float[Tensor, "R T"]) -> list[list[str]]:
    return [[_number(value) for value in row] for row in matrix.tolist()]


def _number(value: float) -> str:
    """Return a number as a fraction if it is one, up to what attention leaks.

    >>> _number(1 / 3 + 1e-12), _number(-100.0), _number(0.123456)
    ('1/3', '-100', '0.123')
    """
    near = Fraction(value).limit_denominator(99)
    return str(near) if abs(near - Fraction(value)) < 1e-9 else f"{value:.3f}"


class Judged(NamedTuple):
    """What a pass over problems shows: response tokens, those that are wrong, and by how little.

    `margin`: by how much the right token's logit leads every other, at the worst token.
    """

    problems: int
    n: int
    wrong: int
    exact: int
    margin: float


@torch.no_grad()
def judge(system: System, problems: Problems) -> Judged:
    """Score a construction on problems, by the pass that tells what decoding would write.

    (See `carry.models.teacher_forcing`. Sequences may be so long that their attention is worked out
    for some of the response at a time.)

    >>> model = adder(2, 1)
    >>> judge(model, every(model, 2, 1))[:4]
    (100, 900, 0, 100)
    """
    device = system.network.tokens.weight.device
    batch = system.format.write(problems.to(device))
    longest, responds = batch.tokens.shape[1], int((batch.length - batch.start).max())
    at_once = max(1, MOST_SCORES // (4 * longest * responds))
    most = max(1, MOST_SCORES // (4 * longest)) if at_once == 1 else responds
    n = wrong = exact = 0
    worst = math.inf
    for rows in torch.arange(len(problems), device=device).split(at_once):
        margins, real = _margins(system, batch[rows], most)
        missed = real & (margins <= 0)
        n, wrong = n + int(real.sum()), wrong + int(missed.sum())
        exact += int((~missed.any(1)).sum())
        worst = min(worst, float(margins[real].min()))
    return Judged(len(problems), n, wrong, exact, worst)


def _margins(
    system: System, batch: Batch, most: int
) -> tuple[Float[Tensor, "B A"], Bool[Tensor, "B A"]]:
    """Return by how much each right token leads, and which tokens are not padding."""
    at, target, real = batch.response()
    ids, parts = system.ids(batch), []
    for some, due in zip(at.split(most, dim=1), target.split(most, dim=1), strict=True):
        logits = system.logits(batch, ids, some)
        right = logits.gather(2, due[..., None])
        other = logits.scatter(2, due[..., None], -math.inf).amax(2)
        parts.append(right[..., 0] - other)
    return torch.cat(parts, dim=1), real


def every(system: System, operands: int, digits: int) -> Problems:
    """Return all sums of so many numbers of up to so many digits.

    >>> problems = every(adder(3, 1), 3, 1)
    >>> len(problems), problems.operands[123, :, 0].tolist()
    (1000, [1, 2, 3])
    """
    count = 10**digits
    values = torch.cartesian_prod(*[torch.arange(count)] * operands).reshape(-1, operands)
    powers = 10 ** torch.arange(digits)
    written = (values[..., None] // powers % 10).to(torch.uint8)
    lengths = 1 + (values[..., None] >= powers[1:]).sum(-1)
    return system.task.solve(written, lengths)


def random(system: System, operands: int, digits: int, count: int, seed: int = 0) -> Problems:
    """Return sums of so many numbers of just so many digits.

    >>> random(adder(3, 2), 3, 2, count=4).lengths.tolist()[0]
    [2, 2, 2]
    """
    generator = stream(seed, "construction", operands, digits)
    return system.task.sample(torch.tensor([[digits, operands]] * count), generator)


def response_tokens(operands: int, digits: int) -> int:
    """Return how many tokens the response to a sum of equal lengths has.

    >>> response_tokens(30, 30)  # as the paper counts them, and the end
    1023
    """
    return (operands + 1) * (made.size(operands, digits).digits + 1)


def exhaustive(cells: Iterable[tuple[int, int]], codes: Codes = "spare") -> pd.DataFrame:
    """Test each cell's own model on all sums of so many operands of up to so many digits.

    >>> exhaustive([(2, 1)])[["problems", "n", "wrong"]].values.tolist()
    [[100, 900, 0]]
    """
    found = []
    for operands, digits in cells:
        model = adder(operands, digits, codes=codes)
        found.append(_named(model, judge(model, every(model, operands, digits)), operands, digits))
    return accounted(pd.DataFrame(found))


def sampled(cells: Iterable[tuple[int, int]], tokens: int, codes: Codes = "spare") -> pd.DataFrame:
    """Test each cell's own model on random sums, as many as make so many response tokens at least.

    >>> sampled([(3, 2)], tokens=100)[["problems", "n", "wrong"]].values.tolist()
    [[7, 112, 0]]
    """
    found = []
    for operands, digits in cells:
        model = adder(operands, digits, codes=codes)
        count = math.ceil(tokens / response_tokens(operands, digits))
        judged = judge(model, random(model, operands, digits, count))
        found.append(_named(model, judged, operands, digits))
    return accounted(pd.DataFrame(found))


def _named(system: System, judged: Judged, operands: int, digits: int) -> dict[str, object]:
    sizes = {"operands": operands, "digits": digits, "width": _width(system)}
    return {**sizes, **judged._asdict()}


def _width(system: System) -> int:
    return system.network.tokens.weight.shape[1]


def accounted(found: pd.DataFrame) -> pd.DataFrame:
    """Return counts of what is `wrong` of `n` with the share that is right, and its interval.

    >>> accounted(pd.DataFrame({"n": [100], "wrong": [0]})).round(3).loc[0].tolist()
    [100.0, 0.0, 1.0, 0.963, 1.0]
    """
    right = found.assign(right=found["n"] - found["wrong"])
    return add_interval(right, "right").drop(columns="right")


def by_length(written: Iterable[int], operands: int = 2, count: int = 200) -> pd.DataFrame:
    """Test the theorem's width with both ways to give ids codes, by the digits that are written.

    Columns: digits `written` in each number, the `bits` of its codes and how many `codes` these
    make, how many ids there are with the one after the last (`ids`), which `codes_are` used, and
    how many of `n` response tokens are `wrong`.

    >>> found = by_length([3, 4], count=5)
    >>> [row for row in zip(found["written"], found["codes_are"], found["wrong"] > 0)]
    [(3, 'theorem', True), (3, 'spare', False), (4, 'theorem', True), (4, 'spare', False)]
    """
    found = []
    for length in written:
        digits = length - len(str(operands))
        if digits < 1:
            raise SettingsError(f"written: {length} does not fit, expected more digits")
        for codes in ("theorem", "spare"):
            model = adder(operands, digits, codes=codes)
            bits = made.size(operands, digits).first
            judged = judge(model, random(model, operands, digits, count))
            of = {"written": length, "bits": bits, "codes": 2**bits, "ids": length + 2}
            found.append({**of, "codes_are": codes, "width": _width(model), **judged._asdict()})
    return accounted(pd.DataFrame(found))


def by_scale(
    cells: Iterable[tuple[int, int]],
    scales: Sequence[float],
    tokens: int = 1000,
    dtypes: Sequence[str] = ("float32", "float64"),
) -> pd.DataFrame:
    """Test how sharp attention has to be, in each cell and number format.

    Columns: `sequence` (tokens that are read of one problem, with its response), `dtype`, `scale`,
    how many of `n` response tokens are `wrong`, and the least `margin` of the right one.

    >>> found = by_scale([(2, 2)], [1.0, 8.0], tokens=50, dtypes=["float32"])
    >>> (found["wrong"] > 0).tolist()
    [True, False]
    """
    found = []
    for operands, digits in cells:
        count = math.ceil(tokens / response_tokens(operands, digits))
        for dtype in dtypes:
            for scale in scales:
                model = adder(operands, digits, scale=scale, dtype=DTYPES[dtype])
                problems = random(model, operands, digits, count)
                judged = judge(model, problems)
                length = (2 * operands + 1) * (made.size(operands, digits).digits + 1)
                of = {"operands": operands, "digits": digits, "sequence": length}
                found.append({**of, "dtype": dtype, "scale": scale, **judged._asdict()})
    return accounted(pd.DataFrame(found))
