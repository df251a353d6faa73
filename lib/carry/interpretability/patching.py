"""Where a carry lives: activations of a problem's twin put in place of its own, cell by cell.

Twins are two problems of one length that differ in one digit of the first operand, at the place
below, and so in whether a carry comes into a place: in no other carry, and not in how long the
answer is.

    problem    3 4 2 + 1 5 1 = 4 9 3        a carry into the hundreds: no
    twin       3 9 2 + 1 5 1 = 5 4 3        yes

A cell is an activation at one token. It flips an answer if with the twin's value there, and all
else as it was, the model writes the digit that another carry makes (activation patching; Zhang &
Nanda 2024). Of a control twin the same digit differs and no carry does: where that flips answers
too, it is not the carry that was put in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pandas as pd
import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor

from carry.config.settings import SettingsError
from carry.data.batch import Batch
from carry.data.problems import Problems, concatenate_problems
from carry.evaluation.intervals import add_interval
from carry.formats import ALPHABET
from carry.interpretability.lens import stream_names
from carry.models.hooks import Hooks
from carry.models.system import System
from carry.randomness import stream
from carry.tasks.addition import Addition

ROWS_AT_ONCE = 512
FLIPS = 0.5  # a cell is named as one where the carry lives if at least so many answers flip
LETTERS = "abs"  # what operands and their sum are called
EMPTY = pd.DataFrame({"activation": "", "token": 0, "role": "", "n": 0, "flipped": 0,
                      "restored": 0.0}, index=range(0))  # fmt: skip


def twins(
    task: Addition, digits: int, place: int, count: int, generator: torch.Generator,
    carry: bool = True,
) -> tuple[Problems, Problems]:  # fmt: skip
    """Return problems and their twins: with another carry into a place, or with none (`carry`).

    Which of both has the carry is even. No operand and no sum has more than `digits` digits.

    Raises:
        SettingsError: for a place into which no carry comes.

    >>> from carry.tasks import build
    >>> task = build({"name": "addition"})
    >>> one, two = twins(task, 3, 2, 100, stream(0, "doctest"))
    >>> used = [task.steps(of)["carry_used"].sum(0).tolist() for of in (one, two)]
    >>> used[0][1] == used[1][1], used[0][2] + used[1][2]
    (True, 100)
    """
    if not 0 < place < digits:
        raise SettingsError(
            f"place: {place} does not fit problems of {digits} digits, expected 1 to {digits - 1}"
        )
    found: list[tuple[Problems, Problems]] = []
    while sum(len(one) for one, _ in found) < count:
        cells = torch.full((32 * count, 2), digits)
        one = task.sample(cells, generator)
        other = one.operands.clone()
        other[:, 0, place - 1] = torch.randint(10, (len(one),), generator=generator)
        two = replace(task.solve(other, one.lengths), label=one.label)
        first, second = (task.steps(of)["carry_used"] for of in (one, two))
        wanted = torch.zeros_like(first, dtype=torch.bool)
        wanted[:, place] = carry
        fits = ((first != second) == wanted).all(1) & (one.operands != two.operands).flatten(1).any(
            1
        )
        fits &= (one.answer_length == digits) & (two.answer_length == digits)
        rows = fits.nonzero()[:, 0]
        found.append((one[rows], two[rows]))
    one, two = (concatenate_problems(side)[:count] for side in zip(*found, strict=True))
    return one, two


@torch.inference_mode()
def flips(
    system: System,
    pair: tuple[Problems, Problems],
    place: int,
    cells: Mapping[str, Sequence[int]] | None = None,
) -> pd.DataFrame:
    """Patch cells one by one, and count how often the digit at a place flips.

    Args:
        cells: tokens by activation; by default all of the residual stream up to the token behind
            which the digit is written, since none behind it is seen, and in the last layer that
            token alone, since no other is read.

    Returns:
        For each `activation` and `token` (with its `role`), in how many of `n` pairs the digit is
        `flipped`; and of twins that differ in a carry the mean share of the difference of both
        digits' logits that is `restored` (0: as without patching, 1: as the twin has it). Pairs
        count if the model writes the right digit for both.

    Raises:
        SettingsError: for problems that are not written alike, and for activations not there.

    >>> from carry.config.run_settings import make_run
    >>> system = System(make_run({"task": {"name": "addition"}, "training": {"digits": 3}}))
    >>> pair = twins(system.task, 3, 1, 8, stream(0, "doctest"))
    >>> table = flips(system, pair, 1)
    >>> table.columns.tolist(), table["role"].tolist()[-3:]
    (['activation', 'token', 'role', 'n', 'flipped', 'restored'], ['s0', 's0', 's0'])
    """
    device = system.network.tokens.weight.device
    one, two = (system.format.write(of.to(device)) for of in pair)
    check_alike(one, two)
    at, known = query(one, place), roles(one)
    if cells is None:
        names = stream_names(system)
        last = names[-2:]  # in the last layer
        cells = {name: [at] if name in last else range(at + 1) for name in names}
    ids = [of[:1, : at + 1] for of in system.ids(one)]

    def logits(batch: Batch, inside: Hooks | None = None) -> Float[Tensor, "B V"]:
        asked = torch.tensor([[at]], device=device)
        return system.network(batch.tokens[:, : at + 1], ids, asked, inside=inside)[:, 0]

    used = system.task.steps(pair[0])["carry_used"][:, place].long()
    right = torch.ones(len(one), dtype=torch.bool, device=device)
    for batch, of in zip((one, two), pair, strict=True):
        right &= logits(batch).argmax(-1) == of.answer[:, place].to(device)
    own, twin = (of.answer[:, place].long().to(device)[right] for of in pair)
    other = (own + 1 - 2 * used.to(device)[right]) % 10  # as another carry would have it
    one, two = one[right], two[right]
    parts = [EMPTY]
    for name, tokens in cells.items():
        moved, low, high = _patched(logits, one, two, name, list(tokens), at)
        lead = [_lead(of, own, other) for of in (moved, low, high)]
        restored = ((lead[0] - lead[1]) / (lead[2] - lead[1])).mean(0)
        table = pd.DataFrame({"activation": name, "token": tokens})
        table["role"] = [known[token] for token in tokens]
        table["n"] = len(one)
        table["flipped"] = (moved.argmax(-1) == other[:, None]).sum(0).tolist()
        table["restored"] = math.nan if torch.equal(own, twin) else restored.tolist()
        parts.append(table)
    return pd.concat(parts, ignore_index=True)


def _patched(
    logits: Callable[..., Tensor], one: Batch, two: Batch, name: str, tokens: list[int], at: int
) -> tuple[Float[Tensor, "B C V"], Float[Tensor, "B 1 V"], Float[Tensor, "B 1 V"]]:
    """Return the logits with each token of an activation patched, with none, and the twin's."""
    width, moved, low, high = len(tokens), [], [], []
    for rows in torch.arange(len(one)).split(max(1, ROWS_AT_ONCE // width)):
        twin = Hooks([name])
        low.append(logits(one[rows]))
        high.append(logits(two[rows], twin))
        other = twin[name].repeat_interleave(width, 0)
        there = torch.zeros(width, other.shape[-2], dtype=torch.bool, device=other.device)
        if other.shape[-2] == 1:  # worked out for the asked token alone, no other is read
            there[:, 0] = torch.tensor(tokens) == at
        else:
            there[range(width), tokens] = True
        replaced = Hooks([], {name: patch(other, there.repeat(len(rows), 1))})
        moved.append(logits(one[rows.repeat_interleave(width)], replaced))
    return (
        torch.cat(moved).unflatten(0, (-1, width)),
        torch.cat(low)[:, None],
        torch.cat(high)[:, None],
    )


def patch(other: Tensor, there: Bool[Tensor, "B T"]) -> Callable[[Tensor], Tensor]:
    """Return what puts the values of another pass at some tokens of an activation, row by row.

    >>> there = torch.tensor([[False, True]])
    >>> patch(torch.ones(1, 2, 1), there)(torch.zeros(1, 2, 1)).flatten().tolist()
    [0.0, 1.0]

    Raises:
        SettingsError: for activations of another shape, when it is called.
    """

    def patched(value: Tensor) -> Tensor:
        if value.shape != other.shape:
            raise SettingsError(
                f"patching: an activation of shape {tuple(other.shape)} does not fit one of shape "
                f"{tuple(value.shape)}; expected problems that are written alike"
            )
        at = there[:, None, :, None] if value.ndim == 4 else there[:, :, None]
        return torch.where(at, other, value)

    return patched


def _lead(
    logits: Float[Tensor, "B C V"], own: Integer[Tensor, " B"], other: Integer[Tensor, " B"]
) -> Float[Tensor, "B C"]:
    """Return by how much the logit of the other digit is larger than that of the own one."""
    row = torch.arange(len(own), device=own.device)
    return logits[row, :, other] - logits[row, :, own]


def check_alike(one: Batch, two: Batch) -> None:
    """Refuse problems that are not all written alike, token by token.

    Raises:
        SettingsError: naming both shapes.
    """
    first, second = one.tokens.shape, two.tokens.shape
    both = torch.cat([one.length, two.length]), torch.cat([one.start, two.start])
    if first != second or any((of != of[0]).any() for of in both):
        raise SettingsError(
            f"patching: problems of unlike shape, {tuple(first)} and {tuple(second)} tokens of "
            f"{int(both[0].min())} to {int(both[0].max())}; expected twins that are written alike"
        )
    if not torch.equal(one.place[:1].expand_as(two.place), two.place):
        raise SettingsError("patching: problems whose places are not at the same tokens; expected "
                            "twins that are written alike")  # fmt: skip


def query(batch: Batch, place: int) -> int:
    """Return the token behind which the answer's digit of a place is written.

    >>> from carry.formats import build
    >>> from carry.tasks import build as build_task, to_digits
    >>> task = build_task({"name": "addition"})
    >>> query(build({}, task).write(task.solve(*to_digits([[653, 49]]))), 1)  # ^356+94=20
    8
    """
    answer = torch.arange(batch.tokens.shape[1], device=batch.start.device) >= batch.start[0]
    return int((answer & (batch.place[0] == place)).nonzero()[0]) - 1


def roles(batch: Batch) -> list[str]:
    """Return what each token is, in problems that are written alike: `a2`, `b0`, a sign, `s1`.

    >>> from carry.formats import build
    >>> from carry.tasks import build as build_task, to_digits
    >>> task = build_task({"name": "addition"})
    >>> " ".join(roles(build({}, task).write(task.solve(*to_digits([[65, 4]])))))
    '^ a0 a1 + b0 = s0 s1 $'
    """
    row = zip(batch.tokens[0].tolist(), batch.number[0].tolist(), batch.place[0].tolist(),
              strict=True)  # fmt: skip
    return [
        f"{LETTERS[number - 1]}{place}" if number and place >= 0 else ALPHABET[token]
        for token, number, place in row
    ]


def where_the_carry_lives(
    system: System, digits: int, place: int, count: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Name the cells that hold the carry into a place, and confirm them on other problems.

    Returns:
        cells: what `flips` does, of `count` twins.
        confirmed: of the cells where at least half of the answers flip, the same of other twins
            (`twins`: "carry"), and of twins that differ in no carry ("control"), with the share
            that is flipped and its interval.
    """

    def drawn(purpose: str, carry: bool) -> tuple[Problems, Problems]:
        generator = stream(0, "twins", purpose, digits, place)
        return twins(system.task, digits, place, count, generator, carry)

    cells = flips(system, drawn("find", True), place)
    named = cells[cells["flipped"] >= FLIPS * cells["n"].clip(lower=1)]
    again = {name: of.tolist() for name, of in named.groupby("activation", sort=False)["token"]}
    parts = [
        flips(system, drawn(kind, kind == "carry"), place, again).assign(twins=kind)
        for kind in ("carry", "control")
    ]
    return cells, add_interval(pd.concat(parts, ignore_index=True), "flipped")
