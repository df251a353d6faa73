"""Head ablation: accuracy without each head, by the sub-task of a digit.

The output of an ablated head is replaced by its mean over problems, token by token. This removes
the information about the problem and keeps the constant part.
"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import torch
from jaxtyping import Bool
from torch import Tensor

from carry.data.batch import Batch
from carry.data.problems import Problems
from carry.evaluation.intervals import add_interval
from carry.interpretability.carry_subtasks import label_subtasks
from carry.models.hooks import Hooks
from carry.models.system import System

NO_HEAD = -1


@torch.inference_mode()
def ablate_heads(system: System, problems: Problems) -> pd.DataFrame:
    """Score a model without each of its heads in turn, and with all of them.

    Args:
        problems: sums of one layout, so that a token has the same role in all of them.

    Returns:
        For each `layer` (of all recurrences) and `head`, both -1 for the complete model, and each
        `subtask` (see `carry.interpretability.carry_subtasks`, and `all` digits) how many of `n`
        digits are `correct` under teacher forcing, with an interval.

    >>> from carry.config.run_settings import make_run
    >>> from carry.randomness import stream
    >>> system = System(make_run({"task": {"name": "addition"}, "format": {"pad": True}}))
    >>> cells = torch.full((20, 2), 3)
    >>> table = ablate_heads(system, system.task.draw_for_cells(cells, stream(0, "doctest")))
    >>> table["head"].unique().tolist(), table["subtask"].nunique()
    ([-1, 0, 1, 2, 3], 6)
    """
    batch = system.format.write(problems.to(system.device))
    labels, hooks = label_subtasks(system.task, problems), Hooks(["*.z"])
    system.network(batch.tokens, system.ids(batch), hooks=hooks)
    parts = [_count_correct(system, batch, labels, None).assign(layer=NO_HEAD, head=NO_HEAD)]
    for layer, outputs in enumerate(hooks.all_layers("z")):
        for head in range(outputs.shape[1]):
            ablation = Hooks([], {f"{layer}.z": mean_ablation(head)})
            counts = _count_correct(system, batch, labels, ablation)
            parts.append(counts.assign(layer=layer, head=head))
    return add_interval(pd.concat(parts, ignore_index=True), "correct")


def mean_ablation(head: int) -> Callable[[Tensor], Tensor]:
    """Return a hook that replaces the output of one head by its mean over problems."""

    def replace_by_mean(outputs: Tensor) -> Tensor:
        outputs = outputs.clone()
        outputs[:, head] = outputs[:, head].mean(0, keepdim=True)
        return outputs

    return replace_by_mean


def _count_correct(
    system: System, batch: Batch, labels: dict[str, Bool[Tensor, "B K"]], hooks: Hooks | None
) -> pd.DataFrame:
    at, target, real = batch.response()
    logits = system.network(batch.tokens, system.ids(batch), hooks=hooks)
    correct = (logits.argmax(-1).gather(1, at) == target).cpu()
    place = batch.place.gather(1, batch.slots()).long().cpu()
    is_digit = real.cpu() & (place >= 0)
    rows = []
    for name, applies in {**labels, "all": torch.ones_like(labels["base_add"])}.items():
        digits = is_digit & applies.gather(1, place.clamp(min=0))
        counts = {"n": int(digits.sum()), "correct": int((correct & digits).sum())}
        rows.append({"subtask": name, **counts})
    return pd.DataFrame(rows)
