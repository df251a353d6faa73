"""Linear probes: which steps of a task can be read off the residual stream, layer by layer.

For each digit of an answer a logistic regression predicts a step of its place (the digit sum,
whether a carry comes in, ...) from the residual stream that predicts the digit. Probes are fitted
on some problems and scored on others. A probe may find information that the model does not use, or
that a random network has too. So each is compared with a probe of the same model before training,
and with the most common value of the step.
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
from carry.interpretability.lens import read_residual_streams
from carry.models.system import System

FITTED_DIGITS, SCORED_DIGITS = 1500, 1000  # at most
MAX_ITERATIONS = 1000  # about 200 are enough to converge


def train_probes(system: System, training: Problems, test: Problems) -> pd.DataFrame:
    """Fit and score a probe for every point of the residual stream and every step of the task.

    Args:
        training: the problems on which probes are fitted.
        test: the problems on which probes are scored; in each set operands have one length.

    Returns:
        For each `activation` and `step`, of the model after training (`model`: "trained") and
        before ("untrained"), how many of `n` steps are `correct`, with an interval, and how many
        the `commonest` value predicts.

    >>> from carry.randomness import stream
    >>> from carry.experiments.resolve import make_run
    >>> system = System(make_run({"task": {"name": "addition"}, "model": {"width": 16}}))
    >>> sets = [system.task.draw(60, 3, stream(0, "doctest", name)) for name in ("a", "b")]
    >>> table = train_probes(system, *sets)
    >>> table["step"].unique().tolist()
    ['digit_sum', 'carry_generated', 'carry_used', 'carry_made', 'cascade', 'answer']
    """
    untrained = System(system.run, system.seed, system.device)
    parts = []
    for name, model in (("trained", system), ("untrained", untrained)):
        model.network.eval()
        parts.append(_probe_model(model, training, test).assign(model=name))
    return add_interval(pd.concat(parts, ignore_index=True), "correct")


def _probe_model(system: System, training: Problems, test: Problems) -> pd.DataFrame:
    fit_streams, fit_steps = collect_activations(system, training)
    score_streams, score_steps = collect_activations(system, test)
    rows = []
    for step in fit_steps:
        fitted, target = fit_steps[step][:FITTED_DIGITS], score_steps[step][:SCORED_DIGITS]
        commonest = int((target == fitted.mode().values).sum())
        for name in fit_streams:
            correct = commonest  # if all steps are equal
            if len(fitted.unique()) > 1:
                probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=MAX_ITERATIONS))
                with threadpool_limits(torch.get_num_threads()):  # each seed is a process
                    probe.fit(fit_streams[name][:FITTED_DIGITS].numpy(), fitted.numpy())
                predicted = probe.predict(score_streams[name][:SCORED_DIGITS].numpy())
                correct = int((torch.from_numpy(predicted) == target).sum())
            counts = {"n": len(target), "correct": correct, "commonest": commonest}
            rows.append({"activation": name, "step": step, **counts})
    return pd.DataFrame(rows)


@torch.inference_mode()
def collect_activations(
    system: System, problems: Problems
) -> tuple[dict[str, Float[Tensor, "N D"]], dict[str, Integer[Tensor, " N"]]]:
    """Return the residual streams that predict the answers' digits, and the steps of their places.

    The digits of a problem are adjacent rows.
    """
    device = system.device
    batch = system.format.write(problems.to(device))
    real, place = batch.response()[2], batch.place.gather(1, batch.slots())
    # The highest digit of an answer, above all operands, is only a carry.
    has_operands = place < problems.lengths.amax(1, keepdim=True).to(device)
    is_digit = real & (place >= 0) & has_operands
    streams = read_residual_streams(system, batch)
    streams = {name: stream[is_digit].cpu() for name, stream in streams.items()}
    steps = {**system.task.compute_steps(problems), "answer": problems.answer}
    places = place.clamp(min=0).cpu()
    return streams, {
        name: values.long().gather(1, places)[is_digit.cpu()] for name, values in steps.items()
    }
