"""What each head is for: answers without it, by the sub-task that a digit takes.

A head is ablated by putting in place of what it finds the mean of that over problems, token by
token: what it says of this problem is gone, and what it always says is left.
"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import torch
from jaxtyping import Bool
from torch import Tensor

from carry.analyses.subtasks import labelled
from carry.data.batch import Batch
from carry.data.problems import Problems
from carry.evaluation.intervals import add_interval
from carry.models.hooks import Hooks
from carry.models.system import System

NO_HEAD = -1


@torch.inference_mode()
def ablations(system: System, problems: Problems) -> pd.DataFrame:
    """Score a model without each of its heads in turn, and with all of them.

    Args:
        problems: sums that are written alike, so that a token is the same in all of them.

    Returns:
        For each `layer` (through all recurrences) and `head`, both -1 where none is ablated, and
        each `subtask` (see `carry.analyses.subtasks`) how many of `n` digits that take it are
        `correct`, given the truth before them; `all` digits are one more.

    >>> from carry.config.run_settings import make_run
    >>> from carry.randomness import stream
    >>> system = System(make_run({"task": {"name": "addition"}, "format": {"pad": True}}))
    >>> cells = torch.full((20, 2), 3)
    >>> table = ablations(system, system.task.sample(cells, stream(0, "doctest")))
    >>> table["head"].unique().tolist(), table["subtask"].nunique()
    ([-1, 0, 1, 2, 3], 6)
    """
    batch = system.format.write(problems.to(system.network.tokens.weight.device))
    kinds, inside = labelled(system.task, problems), Hooks(["*.z"])
    system.network(batch.tokens, system.ids(batch), inside=inside)
    parts = [_counted(system, batch, kinds, None).assign(layer=NO_HEAD, head=NO_HEAD)]
    for layer, found in enumerate(inside.each("z")):
        for head in range(found.shape[1]):
            without = Hooks([], {f"{layer}.z": mean_of(head)})
            parts.append(_counted(system, batch, kinds, without).assign(layer=layer, head=head))
    return add_interval(pd.concat(parts, ignore_index=True), "correct")


def mean_of(head: int) -> Callable[[Tensor], Tensor]:
    """Return what puts the mean over problems in the place of what one head finds."""

    def ablated(found: Tensor) -> Tensor:
        found = found.clone()
        found[:, head] = found[:, head].mean(0, keepdim=True)
        return found

    return ablated


def _counted(
    system: System, batch: Batch, kinds: dict[str, Bool[Tensor, "B K"]], inside: Hooks | None
) -> pd.DataFrame:
    at, target, real = batch.response()
    logits = system.network(batch.tokens, system.ids(batch), inside=inside)
    right = (logits.argmax(-1).gather(1, at) == target).cpu()
    place = batch.place.gather(1, batch.slots()).long().cpu()
    digit = real.cpu() & (place >= 0)
    rows = []
    for name, of in {**kinds, "all": torch.ones_like(kinds["base_add"])}.items():
        asked = digit & of.gather(1, place.clamp(min=0))
        counts = {"n": int(asked.sum()), "correct": int((right & asked).sum())}
        rows.append({"subtask": name, **counts})
    return pd.DataFrame(rows)
