"""The number of weights of models, counted without creating them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from carry.experiments.base import merge
from carry.experiments.resolve import make_run
from carry.experiments.run import Run
from carry.models.system import System


def count_parameters(run: Run) -> int:
    """Return the number of weights of a run's model; shared weights count once.

    >>> model = {"width": 8, "tied": True}
    >>> count_parameters(make_run({"task": {"name": "addition"}, "model": model}))
    1008
    """
    return count_network_parameters(System(run, device="meta").network)


def count_network_parameters(network: nn.Module) -> int:
    """Return the number of weights of a network; shared weights count once.

    >>> count_network_parameters(nn.Linear(3, 2))
    8
    """
    return sum(parameter.numel() for parameter in network.parameters())


def count_parameters_by_recurrences(run: Run, recurrences: Sequence[int]) -> Any:
    """Return a table of a model's weights by the number of recurrences, at the same depth.

    >>> run = make_run({"task": {"name": "addition"}, "model": {"layers": 4, "width": 8}})
    >>> sizes = count_parameters_by_recurrences(run, [1, 2, 4])  # such a layer has 872 weights
    >>> sizes["layers"].tolist(), sizes["weights"].diff().tolist()[1:]
    ([4, 2, 1], [-1744.0, -872.0])
    """
    import pandas as pd  # here, because the other functions need no pipeline

    depth = run.model["layers"] * run.model.get("recurrences", 1)
    settings = run.model_dump(exclude={"name"})
    rows = []
    for times in recurrences:
        change = {"model": {"layers": depth // times, "recurrences": times}}
        looped = make_run(merge(settings, change), run.name)
        rows.append([depth // times, times, count_parameters(looped)])
    return pd.DataFrame(rows, columns=["layers", "recurrences", "weights"])
