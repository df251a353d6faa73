"""The logit lens (nostalgebraist 2020): predictions from the residual stream of each layer.

The model's final norm and its logits are applied to the residual stream at each point. In a looped
model the layers of every recurrence are such points.
"""

from __future__ import annotations

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from carry.data.batch import Batch
from carry.data.problems import Problems
from carry.evaluation.intervals import add_interval
from carry.models.architectures.transformer import pick_tokens
from carry.models.hooks import Hooks
from carry.models.system import System


def residual_stream_names(system: System) -> list[str]:
    """Return the names of the distinct points of the residual stream, from the embedding on.

    >>> from carry.experiments.resolve import make_run
    >>> residual_stream_names(System(make_run({"task": {"name": "addition"}})))
    ['0.resid_pre', '0.resid_mid', '0.resid_post']
    """
    names = system.network.activation_names()
    injects = system.network.settings.injection != "none"
    # Without injection the input of a layer equals the output of the layer before.
    inputs = [name for name in names if name.endswith("resid_pre")][: None if injects else 1]
    return [name for name in names if name in inputs or name.endswith(("resid_mid", "resid_post"))]


@torch.inference_mode()
def read_residual_streams(system: System, batch: Batch) -> dict[str, Float[Tensor, "B A D"]]:
    """Return the residual stream, by point, at the tokens that predict the response."""
    hooks = Hooks(residual_stream_names(system))
    system.network(batch.tokens, system.ids(batch), hooks=hooks)
    at = batch.response()[0]
    return {name: pick_tokens(value, at) for name, value in hooks.items()}


@torch.inference_mode()
def apply_logit_lens(system: System, problems: Problems) -> pd.DataFrame:
    """Predict the answer's digits from every point of the residual stream.

    Returns:
        For each `activation` and `place` of the answer (-1: the end token), how many of `n` digits
        are `correct` under teacher forcing, with an interval.

    >>> from carry.randomness import stream
    >>> from carry.experiments.resolve import make_run
    >>> system = System(make_run({"task": {"name": "addition"}}))
    >>> table = apply_logit_lens(system, system.task.draw(20, 3, stream(0, "doctest")))
    >>> table["activation"].unique().tolist(), int(table["place"].max())
    (['0.resid_pre', '0.resid_mid', '0.resid_post'], 3)
    """
    batch = system.format.write(problems.to(system.device))
    _, target, real = batch.response()
    place = batch.place.gather(1, batch.slots())
    parts = []
    for name, streams in read_residual_streams(system, batch).items():
        predicted = system.network.read_logits(streams).argmax(-1)
        predictions = pd.DataFrame(
            {
                "activation": name,
                "place": place[real].cpu(),
                "n": 1,
                "correct": (predicted == target)[real].cpu(),
            }
        )
        parts.append(predictions.groupby(["activation", "place"], as_index=False).sum())
    return add_interval(pd.concat(parts, ignore_index=True), "correct")
