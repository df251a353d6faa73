"""What a model would say if it ended earlier: the logit lens (nostalgebraist 2020), layer by layer.

The residual stream at each point is read as if it were the last, by the model's own final norm and
logits. In a looped model the layers of every recurrence are such points.
"""

from __future__ import annotations

import pandas as pd
import torch

from carry.data.problems import Problems
from carry.evaluation.intervals import add_interval
from carry.models.architectures.transformer import pick_tokens
from carry.models.hooks import Hooks
from carry.models.system import System


def stream_names(system: System) -> list[str]:
    """Return the names of the points of the residual stream that differ, the embedding first.

    >>> from carry.config.run_settings import make_run
    >>> stream_names(System(make_run({"task": {"name": "addition"}})))
    ['0.resid_pre', '0.resid_mid', '0.resid_post']
    """
    names = system.network.activations()
    injects = system.network.given.injection != "none"
    # Where nothing is injected, what goes into a layer is what came out of the one before.
    first = [name for name in names if name.endswith("resid_pre")][: None if injects else 1]
    return [name for name in names if name in first or name.endswith(("resid_mid", "resid_post"))]


@torch.inference_mode()
def lens(system: System, problems: Problems) -> pd.DataFrame:
    """Read every point of the residual stream, where a digit of the answer is due.

    Returns:
        For each `activation` and `place` of the answer, how many of `n` digits are `correct` if
        they are read there, given the truth before them, with the mean probability of the right
        one (`sure`); the end of the answer has place -1.

    >>> from carry.randomness import stream
    >>> from carry.config.run_settings import make_run
    >>> system = System(make_run({"task": {"name": "addition"}}))
    >>> table = lens(system, system.task.draw(20, 3, stream(0, "doctest")))
    >>> table["activation"].unique().tolist(), int(table["place"].max())
    (['0.resid_pre', '0.resid_mid', '0.resid_post'], 3)
    """
    device = system.network.tokens.weight.device
    batch, inside = system.format.write(problems.to(device)), Hooks(stream_names(system))
    system.network(batch.tokens, system.ids(batch), inside=inside)
    at, target, real = batch.response()
    place = batch.place.gather(1, batch.slots())
    parts = []
    for name, value in inside.items():
        logits = system.network.read(pick_tokens(value, at))
        said = pd.DataFrame(
            {
                "activation": name,
                "place": place[real].cpu(),
                "n": 1,
                "correct": (logits.argmax(-1) == target)[real].cpu(),
                "sure": logits.softmax(-1).gather(2, target[..., None])[..., 0][real].cpu(),
            }
        )
        grouped = said.groupby(["activation", "place"], as_index=False)
        parts.append(grouped.agg({"n": "sum", "correct": "sum", "sure": "mean"}))
    return add_interval(pd.concat(parts, ignore_index=True), "correct")
