"""Head ablation: accuracy without each head, by the sub-task of a digit.

The output of an ablated head is replaced by its mean: over problems, token by token, where all have
one layout; else over all tokens that are predicted. This removes the information about the problem
and keeps the constant part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from carry.data.problems import Problems
from carry.evaluation.intervals import add_interval
from carry.interpretability.carry_subtasks import label_subtasks
from carry.models.hooks import Hooks
from carry.models.system import System

NO_HEAD = -1


@torch.inference_mode()
def ablate_heads(
    system: System, problems: Problems, kinds: Mapping[str, Bool[Tensor, "B A"]] | None = None
) -> pd.DataFrame:
    """Score a model without each of its heads in turn, and with all of them.

    Args:
        problems: without `kinds` they are sums of one layout: a token has one role in all of them.
        kinds: by name, which response tokens (`Batch.response`) are counted. Default: the digits of
            each sub-task (see `carry.interpretability.carry_subtasks`), and `all` of them.

    Returns:
        For each `layer` (of all recurrences) and `head`, both -1 for the complete model, and each
        `kind` (or `subtask`) how many of `n` tokens are `correct` under teacher forcing, with an
        interval.

    >>> from carry.experiments.resolve import make_run
    >>> from carry.randomness import stream
    >>> system = System(make_run({"task": {"name": "addition"}, "format": {"pad": True}}))
    >>> cells = torch.full((20, 2), 3)
    >>> table = ablate_heads(system, system.task.draw_for_cells(cells, stream(0, "doctest")))
    >>> table["head"].unique().tolist(), table["subtask"].nunique()
    ([-1, 0, 1, 2, 3], 6)
    """
    batch, column = system.format.write(problems.to(system.device)), "kind"
    if one_layout := kinds is None:
        column, labels = "subtask", label_subtasks(system.task, problems)
        labels["all"] = torch.ones_like(labels["base_add"])
        place = batch.place.gather(1, batch.slots()).long()
        kinds = {
            name: (place >= 0) & applies.to(system.device).gather(1, place.clamp(min=0))
            for name, applies in labels.items()
        }
    (at, target, real), ids = batch.response(), system.ids(batch)
    index = torch.arange(len(at), device=at.device)[:, None]
    complete, rows = Hooks(["*.z"]), []

    def average(outputs: Float[Tensor, "B T D"]) -> Tensor:
        return outputs.mean(0) if one_layout else outputs[index, at][real].mean(0)

    def score(layer: int, head: int, hooks: Hooks) -> None:
        logits = system.network(batch.tokens, ids, hooks=hooks)
        correct = logits.argmax(-1).gather(1, at) == target
        for name, counted in kinds.items():
            counted = counted & real
            counts = {"n": int(counted.sum()), "correct": int((correct & counted).sum())}
            rows.append({column: name, **counts, "layer": layer, "head": head})

    score(NO_HEAD, NO_HEAD, complete)
    for layer, outputs in enumerate(complete.all_layers("z")):
        for head in range(outputs.shape[1]):
            score(layer, head, Hooks([], {f"{layer}.z": mean_ablation(head, average)}))
    return add_interval(pd.DataFrame(rows), "correct")


def mean_ablation(
    head: int, average: Callable[[Float[Tensor, "B T D"]], Tensor] = lambda outputs: outputs.mean(0)
) -> Callable[[Tensor], Tensor]:
    """Return a hook that replaces the output of one head by an average (default: over problems)."""

    def replace(outputs: Tensor) -> Tensor:
        averaged = average(outputs[:, head])
        outputs = outputs.clone()
        outputs[:, head] = averaged
        return outputs

    return replace
