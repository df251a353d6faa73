"""The adder of Theorem 4.1: its tensors, and tests of its limits (cho2025, 4.4 and appendix D).

`paper_tables` shows the tensors of one sum with the numbers of the paper's tables. The other
functions measure for which problems and widths, and with how sharp attention, the theorem holds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from carry.data.batch import Batch
from carry.data.problems import Problems
from carry.evaluation.intervals import add_interval
from carry.formats import ALPHABET, EQUALS
from carry.models.constructions import adder
from carry.models.constructions.adder import AdderSize, Codes, build_adder, compute_adder_size
from carry.models.hooks import Hooks
from carry.models.system import System
from carry.randomness import stream
from carry.tasks import to_digits

MAX_ATTENTION_SCORES = 2**24  # of all four heads in one pass
BITS = 3  # of the codes of both levels in the paper's tables
TITLES = {
    4: "The embedded tokens, X(0)",
    **{
        5 + 4 * head + number: f"Head {head + 1}, {matrix}"
        for head in range(4)
        for number, matrix in enumerate(
            ["the query, QX / scale", "the key, KX", "the value, UVX", "the output, UVXA"]
        )
    },
    21: "The input and the outputs of all heads, Y(1)",
    22: "The output of the feed-forward layer, FF(Y)",
    23: "The sum of both, X(1)",
    24: "The weights of the logits, transposed",
    25: "The logits",
    26: "The tokens, and the predicted next tokens",
}
FEATURES = (
    "NUM", "IS_BOS", "FULL_ONES", "PRE_SUM", "PRE_CARRY", "PRE_ARROW", "PRE_EOS",
    *(f"SUM {digit}" for digit in range(10)), "ARROW", "EOS",
)  # fmt: skip


@torch.no_grad()
def trace_problem(system: System, *operands: int, first: Sequence[int] = (1, 1)) -> SimpleNamespace:
    """Return all tensors of a construction for one problem, with start ids `first` by level.

    Each has a column for each of T tokens that the model reads, of H heads, D features and K
    features of a head.

    >>> trace = trace_problem(build_adder(3, 2), 57, 48, 96)
    >>> "".join(trace.tokens), trace.ids[1][:6]
    ('^057+048+096=000>750>501>102', [0, 1, 1, 1, 1, 2])
    """
    batch = system.format.write(system.task.solve(*to_digits([[*operands]])))
    ids, hooks = system.ids_from(batch, first), Hooks()
    logits = system.network(batch.tokens, ids, hooks=hooks)
    block = system.network.blocks[0]
    output = block.output.weight.unflatten(1, (block.heads, -1))
    read = int(batch.length) - 1  # the model predicts the end token and does not read it
    return SimpleNamespace(
        tokens=[ALPHABET[token] for token in batch.tokens[0, :read].tolist()],
        ids=[level[0, :read].tolist() for level in ids],
        embedded=hooks["embed"][0, :read].T,  # [D T]
        query=hooks["0.q"][0, :, :read].mT,  # [H K T]
        key=hooks["0.k"][0, :, :read].mT,
        value=torch.einsum("dhk,htk->hdt", output, hooks["0.v"][0, :, :read]),  # [H D T]
        attention=hooks["0.pattern"][0, :, :read, :read],  # [H T T]
        attended=hooks["0.resid_mid"][0, :read].T,
        concluded=hooks["0.resid_post"][0, :read].T,
        logits=logits[0, :read].T,
    )


def paper_example() -> System:
    """Return the model of the paper's tables, where ids start at 4 and 2, and end at 8 and 6.

    It is wider than the theorem requires: the theorem has too few codes for these ids.

    >>> paper_example().largest_id(0), paper_example().network.tokens.weight.shape[1]
    (7, 31)
    """
    size = AdderSize(digits=6, first=BITS, second=BITS, width=31)
    return build_adder(4, 5, codes="theorem", size=size)


@torch.no_grad()
def paper_tables() -> dict[int, pd.DataFrame]:
    """Return the tables 4 to 26 of the paper, of 57 + 48 + 96, from the tensors of our model.

    Codes are shown by their bits, as + and -. Computed tensors are shown for the response only.
    Rows of zeros are left out.

    >>> tables = paper_tables()
    >>> tables[8].loc["PRE_SUM"].tolist()
    ['0', '0', '0', '0', '7', '5', '0', '0', '15', '9', '0', '0', '11', '9', '1', '0']
    >>> "".join(tables[26].loc["O"])
    '000>750>501>102$'
    """
    system = paper_example()
    trace = trace_problem(system, 57, 48, 96, first=(4, 2))
    scale = float(system.network.blocks[0].query.weight.max()) / (2 * BITS)
    response = slice(trace.tokens.index(ALPHABET[EQUALS]), len(trace.tokens))
    read = trace.tokens[response]
    ids = pd.DataFrame(trace.ids, index=["p1", "p2"], columns=trace.tokens).astype(str)
    tables = {4: pd.concat([ids, _tabulate_stream(trace.embedded, trace.tokens)])}
    for head in range(len(trace.query)):
        output = trace.value[head] @ trace.attention[head].T
        tables |= {
            5 + 4 * head: _tabulate_codes(trace.query[head] / scale, trace.tokens),
            6 + 4 * head: _tabulate_codes(trace.key[head], trace.tokens),
            7 + 4 * head: _tabulate_stream(trace.value[head], trace.tokens),
            8 + 4 * head: _tabulate_stream(output[:, response], read),
        }
    predicted = [ALPHABET[token] for token in trace.logits.argmax(0).tolist()]
    symbols = list(ALPHABET[: len(trace.logits)])
    streams = (trace.attended, trace.concluded - trace.attended, trace.concluded)
    for number, part in zip((21, 22, 23), streams, strict=True):
        tables[number] = _tabulate_stream(part[:, response], read)
    weights = system.network.logits.weight.T[: adder.CODES]
    tables[24] = pd.DataFrame(_format_rows(weights), index=list(FEATURES), columns=symbols)
    logits = _format_rows(trace.logits[:, response])
    tables[25] = pd.DataFrame(logits, index=symbols, columns=read)
    tokens = [read, predicted[response]]
    tables[26] = pd.DataFrame(tokens, index=["I", "O"], columns=range(1, len(read) + 1))
    return {number: table[(table != "0").any(axis=1)] for number, table in tables.items()}


def _tabulate_stream(matrix: Float[Tensor, "D T"], tokens: list[str]) -> pd.DataFrame:
    """Return the residual stream, or a part of it, with named rows."""
    rows = dict(zip(FEATURES[: adder.SUM], _format_rows(matrix[: adder.SUM]), strict=True))
    digits = matrix[adder.SUM : adder.SUM + 10]
    rows["SUM"] = [_format_one_hot(column) for column in digits.T.tolist()]
    rows |= dict(zip(FEATURES[-2:], _format_rows(matrix[[adder.ARROW, adder.END]]), strict=True))
    names = ("POS_1", "POS_1_NEXT", "POS_2", "POS_2_NEXT")
    codes = matrix[adder.CODES :].split(BITS)
    rows |= {name: _format_codes(part) for name, part in zip(names, codes, strict=True)}
    return pd.DataFrame(rows).T.set_axis(tokens, axis=1)


def _tabulate_codes(matrix: Float[Tensor, "K T"], tokens: list[str]) -> pd.DataFrame:
    """Return the queries or keys of one head, with the paper's names of the rows."""
    first, second, last = matrix.split([BITS, BITS, 1])
    rows = [_format_codes(first), _format_codes(second), *_format_rows(last)]
    return pd.DataFrame(rows, index=["1 to P1", "P1+1 to P", "P+1"], columns=tokens)


def _format_codes(matrix: Float[Tensor, "P T"]) -> list[str]:
    """Return codes as signs, zero vectors as 0, and other columns as they are."""
    texts = []
    for column in matrix.T.tolist():
        if not any(column):
            texts.append("0")
        elif all(abs(bit) == 1 for bit in column):
            texts.append("".join("+" if bit > 0 else "-" for bit in column))
        else:
            texts.append(str(column))
    return texts


def _format_one_hot(column: list[float]) -> str:
    """Return the index of the 1 in a one-hot vector; 0 for a zero vector."""
    texts = [_format_number(value) for value in column]
    if set(texts) <= {"0", "1"} and texts.count("1") <= 1:
        return f"1 at {texts.index('1')}" if "1" in texts else "0"
    return ", ".join(texts)


def _format_rows(matrix: Float[Tensor, "R T"]) -> list[list[str]]:
    return [[_format_number(value) for value in row] for row in matrix.tolist()]


def _format_number(value: float) -> str:
    """Return a number as a fraction if it is close to one, since attention is never exactly 0."""
    fraction = Fraction(value).limit_denominator(99)
    return str(fraction) if abs(fraction - Fraction(value)) < 1e-9 else f"{value:.3f}"


@torch.no_grad()
def score_construction(system: System, problems: Problems) -> dict[str, float]:
    """Score a construction on problems in one teacher-forced pass.

    The pass predicts what decoding would write (see `carry.models.teacher_forcing`). For very long
    sequences it computes the response in parts.

    Returns:
        The number of `problems` and of response tokens (`n`), how many tokens are `wrong` and how
        many responses `exact`, and the smallest `margin` of a target's logit over another one.

    >>> model = build_adder(2, 1)
    >>> [*score_construction(model, all_sums(model, 2, 1)).values()][:4]
    [100, 900, 0, 100]
    """
    batch = system.format.write(problems)
    tokens, queries = batch.tokens.shape[1], int((batch.length - batch.start).max())
    rows_at_once = max(1, MAX_ATTENTION_SCORES // (4 * tokens * queries))
    queries_at_once = max(1, MAX_ATTENTION_SCORES // (4 * tokens))
    n = wrong = exact = 0
    margin = math.inf
    for rows in torch.arange(len(problems)).split(rows_at_once):
        margins, real = _compute_margins(system, batch[rows], queries_at_once)
        errors = real & (margins <= 0)
        n, wrong = n + int(real.sum()), wrong + int(errors.sum())
        exact += int((~errors.any(1)).sum())
        margin = min(margin, float(margins[real].min()))
    counts = {"problems": len(problems), "n": n, "wrong": wrong, "exact": exact}
    return {**counts, "margin": float(f"{margin:.3g}")}  # other digits are those of a processor


def _compute_margins(
    system: System, batch: Batch, queries_at_once: int
) -> tuple[Float[Tensor, "B A"], Bool[Tensor, "B A"]]:
    """Return the margin of each target, and which response tokens are not padding."""
    at, target, real = batch.response()
    ids, parts = system.ids(batch), []
    chunks = (positions.split(queries_at_once, dim=1) for positions in (at, target))
    for queries, targets in zip(*chunks, strict=True):
        logits = system.logits(batch, ids, queries)
        correct = logits.gather(2, targets[..., None])
        others = logits.scatter(2, targets[..., None], -math.inf).amax(2)
        parts.append(correct[..., 0] - others)
    return torch.cat(parts, dim=1), real


def all_sums(system: System, operands: int, digits: int) -> Problems:
    """Return all sums of `operands` numbers of up to `digits` digits.

    >>> problems = all_sums(build_adder(3, 1), 3, 1)
    >>> len(problems), problems.operands[123, :, 0].tolist()
    (1000, [1, 2, 3])
    """
    values = torch.cartesian_prod(*[torch.arange(10**digits)] * operands).reshape(-1, operands)
    powers = 10 ** torch.arange(digits)
    written = (values[..., None] // powers % 10).to(torch.uint8)
    lengths = 1 + (values[..., None] >= powers[1:]).sum(-1)
    return system.task.solve(written, lengths)


def random_sums(system: System, operands: int, digits: int, count: int) -> Problems:
    """Return random sums of `operands` numbers of exactly `digits` digits.

    >>> random_sums(build_adder(3, 2), 3, 2, count=4).lengths.tolist()[0]
    [2, 2, 2]
    """
    generator = stream(0, "construction", operands, digits)
    return system.task.draw_for_cells(torch.tensor([[digits, operands]] * count), generator)


def add_accuracy(counts: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """Return counts of `wrong` among `n` as a table, with the accuracy and its interval.

    >>> add_accuracy([{"n": 100, "wrong": 0}]).round(3).loc[0].tolist()
    [100.0, 0.0, 1.0, 0.963, 1.0]
    """
    table = pd.DataFrame(counts)
    right = table.assign(right=table["n"] - table["wrong"])
    return add_interval(right, "right").drop(columns="right")


def score_sums(
    cells: Iterable[tuple[int, int]],
    tokens: int | None = None,
    count: int | None = None,
    codes: Sequence[Codes] = ("spare",),
    dtypes: Sequence[str] = ("float64",),
    scales: Sequence[float] = (64.0,),
) -> pd.DataFrame:
    """Score the model of each cell (operands, digits), with each setting of `build_adder`.

    Args:
        tokens: draw random sums with at least so many response tokens.
        count: draw so many random sums. With neither, each model is scored on all of its sums.

    Returns:
        The sizes `operands`, `digits`, `sequence` (tokens of a problem and its response) and
        `width`; the settings `codes_are`, `dtype` and `scale` (the sharpness of attention); and
        `score_construction`, with the accuracy and its interval.

    >>> score_sums([(2, 1)])[["problems", "n", "wrong"]].values.tolist()
    [[100, 900, 0]]
    >>> table = score_sums([(2, 2)], tokens=50, dtypes=["float32", "float64"], scales=[1.0, 8.0])
    >>> (table["wrong"] > 0).tolist(), table["n"].unique().tolist()
    ([True, False, True, False], [60])
    """
    rows = []
    for (operands, digits), kind, dtype, scale in itertools.product(cells, codes, dtypes, scales):
        model = build_adder(operands, digits, scale, kind, getattr(torch, dtype))
        size = compute_adder_size(operands, digits)
        sizes = {"sequence": (2 * operands + 1) * (size.digits + 1), "width": size.width}
        if tokens or count:
            response = (operands + 1) * (size.digits + 1)
            drawn = count or math.ceil(tokens / response)
            problems = random_sums(model, operands, digits, drawn)
        else:
            problems = all_sums(model, operands, digits)
        columns = {"operands": operands, "digits": digits, **sizes}
        columns |= {"codes_are": kind, "dtype": dtype, "scale": scale}
        rows.append({**columns, **score_construction(model, problems)})
    return add_accuracy(rows)
