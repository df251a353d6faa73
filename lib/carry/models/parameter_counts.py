"""How many weights the model of a run has; none of them is made."""

from __future__ import annotations

import pandas as pd
import torch

from carry.config import profiles
from carry.config.run_settings import Run, make_run
from carry.models.architectures.transformer import parameters
from carry.models.system import System


def count_parameters(run: Run) -> int:
    """Return the number of weights of a run's model, each counted once however often it is used.

    >>> count_parameters(make_run({"task": {"name": "addition"}, "model": {"width": 8, "tied": True}}))
    1008
    """
    with torch.device("meta"):
        network = System(run, device="meta").network
    return parameters(network)


def parameters_by_recurrences(run: Run, recurrences: list[int]) -> pd.DataFrame:
    """Return the weights of a run's model with its block run so often, all equally deep.

    >>> run = make_run({"task": {"name": "addition"}, "model": {"layers": 4, "width": 8}})
    >>> sizes = parameters_by_recurrences(run, [1, 2, 4])  # a layer of this width has 872 weights
    >>> sizes["layers"].tolist(), sizes["weights"].diff().tolist()[1:]
    ([4, 2, 1], [-1744.0, -872.0])
    """
    model = run.model
    depth = model["layers"] * model.get("recurrences", 1)
    found = []
    for times in recurrences:
        changed = {"model": {"layers": depth // times, "recurrences": times}}
        row = make_run(
            profiles.merge(run.model_dump(exclude={"name", "profile"}), changed), run.name
        )
        found.append([depth // times, times, count_parameters(row)])
    return pd.DataFrame(found, columns=["layers", "recurrences", "weights"])
