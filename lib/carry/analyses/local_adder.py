"""What a local adder computes: its heads and its feed-forward network, in all of its contexts.

In the middle of a sum the next token depends on six tokens, wherever that is:

    place          k+1 k+1   k k k          the first of the sequence besides
    tokens           x   y   a b d          d, the digit just written, looks
    due              x + y + carry          of a + b and what d shows of it, modulo 10
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd
import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor

from carry import processes, progress
from carry.config import run_settings
from carry.config.settings import SettingsError
from carry.evaluation import trained_models
from carry.evaluation.intervals import add_interval
from carry.formats import BOS
from carry.interpretability.head_ablation import NO_HEAD, mean_of
from carry.models.hooks import Hooks
from carry.models.system import System
from carry.training.precision import training_in

TASK = "addition"
PLACE = 5  # any that is not at the edge
READ = {"0.resid_mid": "after attention", "0.resid_post": "after the feed-forward network"}


class Middle(NamedTuple):
    """Contexts in the middle of a sum: `^ a b x y d` in this order."""

    tokens: Integer[Tensor, "N 6"]
    ids: Integer[Tensor, "N 6"]

    @property
    def below(self) -> Integer[Tensor, " N"]:
        """a + b, the digits of the place just written."""
        return self.tokens[:, 1:3].sum(1)

    @property
    def sum(self) -> Integer[Tensor, " N"]:
        """x + y, the digits of the place that is due."""
        return self.tokens[:, 3:5].sum(1)

    @property
    def written(self) -> Integer[Tensor, " N"]:
        """d, the digit just written."""
        return self.tokens[:, 5]

    @property
    def possible(self) -> Bool[Tensor, " N"]:
        """Whether d can be what is written of a + b, with a carry from below or without."""
        over = (self.written - self.below) % 10
        return over <= 1

    @property
    def carry(self) -> Integer[Tensor, " N"]:
        """The carry that is due, where d is possible: it shows whether one came in."""
        return (self.below + (self.written - self.below) % 10 >= 10).long()


def middle() -> Middle:
    """Return all contexts of the middle, each pair of digits in one order; many are impossible.

    >>> of = middle()
    >>> len(of.tokens), int(of.possible.sum())
    (30250, 6050)
    """
    pairs = torch.combinations(torch.arange(10), with_replacement=True)
    rows = torch.cartesian_prod(torch.arange(55), torch.arange(55), torch.arange(10))
    digits = [pairs[rows[:, 0]], pairs[rows[:, 1]], rows[:, 2:]]
    tokens = torch.cat([torch.full((len(rows), 1), BOS), *digits], dim=1)
    ids = torch.tensor([0, PLACE, PLACE, PLACE + 1, PLACE + 1, PLACE]).expand(len(rows), -1)
    return Middle(tokens, ids)


def tables(row: str, profile: str) -> dict[str, pd.DataFrame]:
    """Look into every seed of a row of additions whose windows show a place and the next.

    Returns:
        Each with row, profile and seed, about the contexts of the middle.
        looks: the mean share of each `head`'s attention that goes to tokens of a kind (`where`),
            over the `n` contexts that are possible.
        without: without each `head` in turn (its mean in place of what it finds; -1: with all),
            in how many of `n` contexts the model is `right`, and in how many it has the digit of
            another `carry`; with accuracy and interval.
        carries: for each sum of the digits `below` and each digit `written` there, of `n` contexts,
            in how many a `carry` is added, in how many `none`; and whether that is `possible`.
        read: how many of `n` contexts a linear map fitted to the other half tells the digit `sum`
            modulo 10, the `carry`, or the `answer` of, from the residual stream at `where`.

    Raises:
        SettingsError: for other windows, or several layers.
    """
    seeds = range(run_settings.load_run(row, profile).seeds)
    jobs = [(row, profile, seed) for seed in seeds]
    with progress.progress_bar(len(jobs), row, unit="seed") as shown:
        found = processes.run_jobs(_of_seed, jobs, shown.update)
    return {name: pd.concat([of[name] for of in found], ignore_index=True) for name in found[0]}


def _of_seed(report: Any, row: str, profile: str, seed: int) -> dict[str, pd.DataFrame]:
    system = trained_models.load_trained(profile, row, seed)
    names = {"row": row, "profile": profile, "seed": seed}
    found = look(system)
    report(1)
    return {name: table.assign(**names)[[*names, *table.columns]] for name, table in found.items()}


@torch.inference_mode()
def look(system: System) -> dict[str, pd.DataFrame]:
    """Return what `tables` does of one model."""
    check(system)
    every = middle()
    rows = every.possible.nonzero()[:, 0]
    some = Middle(every.tokens[rows], every.ids[rows])
    with training_in("fp32", torch.device("cpu")):
        inside = Hooks(["0.pattern", *READ])
        said = _said(system, some, inside)
        return {
            "looks": _looks(inside["0.pattern"][:, :, -1]),
            "without": _without(system, some, said, inside["0.pattern"].shape[1]),
            "carries": _carries(every, _said(system, every)),
            "read": pd.concat([_read(some, inside[name][:, -1], READ[name]) for name in READ]),
        }


def check(system: System) -> None:
    """Refuse a model whose middle has other contexts."""
    network, where = system.network, f"runs.{system.run.name}"
    if network.given.layers > 1:
        raise SettingsError(
            f"{where}.model.layers: {network.given.layers} do not fit 'local_adder'; expected 1"
        )
    windows = [of.window for of in network.encodings]
    if windows != [(0, 1)]:
        raise SettingsError(
            f"{where}.positions: windows {[list(of or ()) for of in windows]} do not fit "
            "'local_adder'; expected one, [0, 1]"
        )


def _said(system: System, some: Middle, inside: Hooks | None = None) -> Integer[Tensor, " N"]:
    ids = [some.ids]
    return system.network.eval()(some.tokens, ids, inside=inside)[:, -1].argmax(-1)


def _looks(weights: Float[Tensor, "N H 6"]) -> pd.DataFrame:
    kinds = {"the first token": [0], "digits of this place": [1, 2],
             "digits of the next place": [3, 4], "itself": [5]}  # fmt: skip
    mean = weights.mean(0)
    return pd.DataFrame(
        {"head": head, "where": kind, "share": float(of[at].sum()), "n": len(weights)}
        for head, of in enumerate(mean)
        for kind, at in kinds.items()
    )


def _without(system: System, some: Middle, said: Integer[Tensor, " N"], heads: int) -> pd.DataFrame:
    due, rows = (some.sum + some.carry) % 10, []
    other = (some.sum + 1 - some.carry) % 10

    def counted(head: int, said: Tensor) -> None:
        rows.append({"head": head, "n": len(due), "right": int((said == due).sum()),
                     "carry": int((said == other).sum())})  # fmt: skip

    counted(NO_HEAD, said)
    for head in range(heads):
        counted(head, _said(system, some, Hooks([], {"0.z": mean_of(head)})))
    return add_interval(pd.DataFrame(rows), "right")


def _carries(every: Middle, said: Integer[Tensor, " N"]) -> pd.DataFrame:
    over = (said - every.sum) % 10
    known = (said < 10) & (over <= 1)
    table = pd.DataFrame({
        "below": every.below, "written": every.written, "possible": every.possible,
        "carry": known & (over == 1), "none": known & (over == 0), "n": 1,
    })  # fmt: skip
    return table.groupby(["below", "written", "possible"], as_index=False).sum()


def _read(some: Middle, stream: Float[Tensor, "N D"], where: str) -> pd.DataFrame:
    """Fit linear maps to every other context, and ask them of those between."""
    x = torch.cat([stream.double(), torch.ones(len(stream), 1)], dim=1)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    learn, ask = order.chunk(2)
    rows = []
    for name, of in (("sum", some.sum % 10), ("carry", some.carry),
                     ("answer", (some.sum + some.carry) % 10)):  # fmt: skip
        wanted = torch.nn.functional.one_hot(of).double()
        weight = torch.linalg.lstsq(x[learn], wanted[learn], driver="gelsd").solution
        right = int(((x[ask] @ weight).argmax(1) == of[ask]).sum())
        rows.append({"where": where, "what": name, "n": len(ask), "right": right})
    return add_interval(pd.DataFrame(rows), "right")
