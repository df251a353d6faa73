"""Which steps of a task can be read off the residual stream, layer by layer, by a linear map.

Where the answer's digit of a place is due, a logistic regression guesses the step of that place
(the digit sum, whether a carry comes in, ...) from the residual stream of one point. It learns on
some problems and is counted on others. A probe may find what the model makes no use of, or what
any random map of the input holds too: so beside each stands one of the same model before training,
and how often the commonest value of the step is right.
"""

from __future__ import annotations

import pandas as pd
import torch
from jaxtyping import Float, Integer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits
from torch import Tensor

from carry.data.problems import Problems
from carry.evaluation.intervals import add_interval
from carry.interpretability.lens import stream_names
from carry.models.architectures.transformer import pick_tokens
from carry.models.hooks import Hooks
from carry.models.system import System

FOUND, ASKED = 1500, 1000  # digits that a probe learns on at most, and is counted on
ITERATIONS = 1000  # at most; some 200 are enough for it to converge


def probes(system: System, learn: Problems, ask: Problems) -> pd.DataFrame:
    """Probe every point of the residual stream for every step of the task.

    Args:
        learn: what probes learn on.
        ask: what they are counted on; each of both has operands of one length.

    Returns:
        For each `activation` and `step`, of the model as it is (`of`: "trained") and of the same
        before training ("untrained"), how many of `n` digits' steps are `correct`, and how many
        would be by the commonest value (`commonest`).

    >>> from carry.randomness import stream
    >>> from carry.config.run_settings import make_run
    >>> system = System(make_run({"task": {"name": "addition"}, "model": {"width": 16}}))
    >>> sets = [system.task.draw(60, 3, stream(0, "doctest", name)) for name in ("a", "b")]
    >>> table = probes(system, *sets)
    >>> table["step"].unique().tolist()
    ['digit_sum', 'carry_generated', 'carry_used', 'carry_made', 'cascade', 'answer']
    """
    before = System(system.run, system.seed, system.network.tokens.weight.device)
    parts = [
        _of_model(model.network.eval() and model, learn, ask).assign(of=name)
        for name, model in (("trained", system), ("untrained", before))
    ]
    return add_interval(pd.concat(parts, ignore_index=True), "correct")


def _of_model(system: System, learn: Problems, ask: Problems) -> pd.DataFrame:
    streams, labels = zip(*(activations(system, of) for of in (learn, ask)), strict=True)
    rows = []
    for step in labels[0]:
        known, wanted = labels[0][step][:FOUND], labels[1][step][:ASKED]
        commonest = int((wanted == known.mode().values).sum())
        for name in streams[0]:
            probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=ITERATIONS))
            if len(known.unique()) > 1:
                with threadpool_limits(torch.get_num_threads()):  # each seed is a process
                    probe.fit(streams[0][name][:FOUND].numpy(), known.numpy())
                said = torch.from_numpy(probe.predict(streams[1][name][:ASKED].numpy()))
                correct = int((said == wanted).sum())
            else:  # nothing to tell apart
                correct = commonest
            counts = {"n": len(wanted), "correct": correct, "commonest": commonest}
            rows.append({"activation": name, "step": step, **counts})
    return pd.DataFrame(rows)


@torch.inference_mode()
def activations(
    system: System, problems: Problems
) -> tuple[dict[str, Float[Tensor, "N D"]], dict[str, Integer[Tensor, " N"]]]:
    """Return the streams where digits of answers are due, and the steps of their places.

    A digit is a row; those of a problem stand together, and problems are drawn at random.
    """
    device = system.network.tokens.weight.device
    batch = system.format.write(problems.to(device))
    inside = Hooks(stream_names(system))
    system.network(batch.tokens, system.ids(batch), inside=inside)
    at, _, real = batch.response()
    place = batch.place.gather(1, batch.slots())
    # Beyond the operands there is nothing to add.
    digit = real & (place >= 0) & (place < problems.lengths.amax(1, keepdim=True).to(device))
    streams = {name: pick_tokens(value, at)[digit].cpu() for name, value in inside.items()}
    steps = {**system.task.steps(problems), "answer": problems.answer}
    where = place.clamp(min=0).cpu()
    return streams, {name: of.long().gather(1, where)[digit.cpu()] for name, of in steps.items()}
