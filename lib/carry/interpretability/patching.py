"""Activation patching of carries: the activations of a twin problem replace those of a problem.

Twins are two problems of one length that differ in one digit of the first operand, and so in the
carry into the next place. All other carries and the length of the answer are equal.

    problem    3 4 2 + 1 5 1 = 4 9 3        a carry into the hundreds: no
    twin       3 9 2 + 1 5 1 = 5 4 3        yes

A cell is an activation at one token. It flips an answer if, with the twin's value in this cell
alone, the model writes the digit for the other carry (Zhang & Nanda 2024). Control twins differ in
the same digit and in no carry: a cell that flips their answers holds something else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from carry.data.batch import Batch
from carry.data.problems import Problems, concatenate_rows
from carry.evaluation.intervals import add_interval
from carry.formats import ALPHABET
from carry.interpretability.attention import check_same_layout
from carry.interpretability.lens import residual_stream_names
from carry.models.hooks import Hooks
from carry.models.system import System
from carry.randomness import stream
from carry.tasks.addition import Addition

ROWS_AT_ONCE = 512
FLIPS = 0.5  # a cell that flips at least this share of the answers holds the carry
LETTERS = "abs"  # the two operands and the sum
EMPTY = pd.DataFrame(
    {"activation": "", "token": 0, "role": "", "n": 0, "flipped": 0}, index=range(0)
)


def draw_twins(
    task: Addition,
    digits: int,
    place: int,
    count: int,
    generator: torch.Generator,
    carry: bool = True,
) -> tuple[Problems, Problems]:
    """Draw problems and their twins, or control twins (`carry=False`), for the carry into a place.

    Either twin may have the carry. No operand and no sum has more than `digits` digits, so `place`
    is from 1 to `digits` - 1.

    >>> from carry.tasks import build_task
    >>> task = build_task({"name": "addition"})
    >>> twins = draw_twins(task, 3, 2, 100, stream(0, "doctest"))
    >>> used = [task.compute_steps(side)["carry_used"].sum(0).tolist() for side in twins]
    >>> used[0][1] == used[1][1], used[0][2] + used[1][2]
    (True, 100)
    """
    parts: list[tuple[Problems, Problems]] = []
    while sum(len(one) for one, _ in parts) < count:
        cells = torch.full((32 * count, 2), digits)
        one = task.draw_for_cells(cells, generator)
        operands = one.operands.clone()
        operands[:, 0, place - 1] = torch.randint(10, (len(one),), generator=generator)
        two = replace(task.solve(operands, one.lengths), label=one.label)
        first, second = (task.compute_steps(side)["carry_used"] for side in (one, two))
        expected = torch.zeros_like(first, dtype=torch.bool)
        expected[:, place] = carry
        fits = ((first != second) == expected).all(1)
        fits &= (one.operands != two.operands).flatten(1).any(1)
        fits &= (one.answer_length == digits) & (two.answer_length == digits)
        rows = fits.nonzero()[:, 0]
        parts.append((one[rows], two[rows]))
    one, two = (concatenate_rows(side)[:count] for side in zip(*parts, strict=True))
    return one, two


@torch.inference_mode()
def count_flips(
    system: System,
    twins: tuple[Problems, Problems],
    place: int,
    cells: Mapping[str, Sequence[int]] | None = None,
) -> pd.DataFrame:
    """Patch cells one by one, and count how often the digit at a place flips.

    Args:
        cells: tokens by point of the residual stream. Default: all tokens up to the query of
            the digit; in the last layer only the query.

    Returns:
        For each `activation` and `token` (with its `role`), in how many of `n` pairs of twins the
        digit is `flipped`. Pairs count if the model predicts the correct digit for both twins.

    Raises:
        SettingsError: for problems of different layouts.

    >>> from carry.experiments.resolve import make_run
    >>> system = System(make_run({"task": {"name": "addition"}, "training": {"digits": 3}}))
    >>> twins = draw_twins(system.task, 3, 1, 8, stream(0, "doctest"))
    >>> table = count_flips(system, twins, 1)
    >>> table.columns.tolist(), " ".join(table["role"].unique())
    (['activation', 'token', 'role', 'n', 'flipped'], '^ a0 a1 a2 + b0 b1 b2 = s0')
    """
    device = system.device
    one, two = (system.format.write(problems.to(device)) for problems in twins)
    check_same_layout(system, one, two)
    at, token_names = _find_query(one, place), _name_tokens(one)
    if cells is None:
        names = residual_stream_names(system)
        last_layer = names[-2:]
        cells = {name: [at] if name in last_layer else range(at + 1) for name in names}
    ids = [level[:1, : at + 1] for level in system.ids(one)]

    def compute_logits(batch: Batch, hooks: Hooks | None = None) -> Float[Tensor, "B V"]:
        query = torch.tensor([[at]], device=device)
        return system.network(batch.tokens[:, : at + 1], ids, query, hooks=hooks)[:, 0]

    used = system.task.compute_steps(twins[0])["carry_used"][:, place].long()
    correct = torch.ones(len(one), dtype=torch.bool, device=device)
    for batch, problems in zip((one, two), twins, strict=True):
        correct &= compute_logits(batch).argmax(-1) == problems.answer[:, place].to(device)
    other_digit = (twins[0].answer[:, place].long() + 1 - 2 * used) % 10  # for the other carry
    other_digit = other_digit.to(device)[correct, None]
    one, two = one[correct], two[correct]
    parts = [EMPTY]
    for name, tokens in cells.items():
        logits = _patch_cells(compute_logits, one, two, name, list(tokens), at)
        table = pd.DataFrame({"activation": name, "token": tokens})
        table["role"] = [token_names[token] for token in tokens]
        table["n"] = len(one)
        table["flipped"] = (logits.argmax(-1) == other_digit).sum(0).tolist()
        parts.append(table)
    return pd.concat(parts, ignore_index=True)


def _patch_cells(
    compute_logits: Callable[..., Tensor],
    one: Batch,
    two: Batch,
    name: str,
    tokens: list[int],
    at: int,
) -> Float[Tensor, "B C V"]:
    """Return the logits with each token of an activation patched."""
    width, patched = len(tokens), []
    for rows in torch.arange(len(one)).split(max(1, ROWS_AT_ONCE // width)):
        hooks = Hooks([name])
        compute_logits(two[rows], hooks)
        values = hooks[name].repeat_interleave(width, 0)
        cells = torch.zeros(width, values.shape[1], dtype=torch.bool, device=values.device)
        if values.shape[1] == 1:  # computed for the query only
            cells[:, 0] = torch.tensor(tokens) == at
        else:
            cells[range(width), tokens] = True
        replace_cells = partial(torch.where, cells.repeat(len(rows), 1)[:, :, None], values)
        patch = Hooks([], {name: replace_cells})
        patched.append(compute_logits(one[rows.repeat_interleave(width)], patch))
    return torch.cat(patched).unflatten(0, (-1, width))


def _find_query(batch: Batch, place: int) -> int:
    """Return the index of the token that predicts the answer's digit at a place."""
    answer = torch.arange(batch.tokens.shape[1], device=batch.start.device) >= batch.start[0]
    return int((answer & (batch.place[0] == place)).nonzero()[0]) - 1


def _name_tokens(batch: Batch) -> list[str]:
    """Return a name for each token of problems of one layout: `a2`, `b0`, a sign, `s1`."""
    marks = (batch.tokens[0].tolist(), batch.number[0].tolist(), batch.place[0].tolist())
    return [
        f"{LETTERS[number - 1]}{place}" if number and place >= 0 else ALPHABET[token]
        for token, number, place in zip(*marks, strict=True)
    ]


def locate_carry(
    system: System, digits: int, place: int, count: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Find the cells that hold the carry into a place, and confirm them on other problems.

    Returns:
        cells: the result of `count_flips` for `count` twins.
        confirmed: for the cells that flip at least the share `FLIPS` of the answers, the same for
            other twins (`twins`: "carry") and for control twins ("control"), with intervals.
    """

    def draw(purpose: str, carry: bool) -> tuple[Problems, Problems]:
        generator = stream(0, "twins", purpose, digits, place)
        return draw_twins(system.task, digits, place, count, generator, carry)

    cells = count_flips(system, draw("find", True), place)
    holding = cells[cells["flipped"] >= FLIPS * cells["n"].clip(lower=1)]
    tokens = {
        name: part.tolist() for name, part in holding.groupby("activation", sort=False)["token"]
    }
    parts = [
        count_flips(system, draw(kind, kind == "carry"), place, tokens).assign(twins=kind)
        for kind in ("carry", "control")
    ]
    return cells, add_interval(pd.concat(parts, ignore_index=True), "flipped")
