"""Traces of one answer: ids, attention and chances at each written token, and other starts of ids.

They are what the tour shows of a model while it writes a sum.
"""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from carry.evaluation.ask import ask, make_problem, read_answer
from carry.evaluation.decoding import compute_decoding_ids, find_last_starts
from carry.formats import ALPHABET, to_text
from carry.models.hooks import Hooks
from carry.models.system import System
from carry.training.precision import use_precision


class Trace(NamedTuple):
    """One pass over a question and the answer that a model has written."""

    tokens: str  # of both
    start: int  # the position of the first written token
    ids: list[int]  # of each token, in the first scheme; 0 without schemes
    heads: list[str]  # layer and number of each head, from 1
    attention: Float[Tensor, "H T T"]  # of each head, from each token to those up to it
    chances: Float[Tensor, "T V"]  # the probability of each symbol after each token
    target: str  # the right answer
    recurrences: list[str]  # what each recurrence predicts after each token; one without loops


@torch.inference_mode()
def trace_answer(system: System, *operands: int, start: int = 1) -> Trace:
    """Let a model answer a question, and return what it attends to and predicts on the way.

    >>> from carry.experiments.resolve import make_run
    >>> trace = trace_answer(System(make_run({"task": {"name": "addition"}})), 17, 25)
    >>> trace.tokens[: trace.start], trace.target[:2], trace.heads[:2]
    ('^71+52=', '24', ['1.1', '1.2'])

    Raises:
        SettingsError: for operands that the model cannot read.
    """
    steps = ask(system, *operands, start=start)
    text = steps["context"].iloc[-1] + steps["predicted"].iloc[-1]
    problem = make_problem(system.task, operands).to(system.device)
    tokens = torch.tensor([[ALPHABET.index(symbol) for symbol in text]], device=system.device)
    first = len(text) - len(steps)
    written = system.format.write_open_ended(problem)
    if not system.format.marks_known_from_question:
        written = system.format.mark_continuation(problem, written, tokens[:, first:])
    (ids,) = compute_decoding_ids(system, problem, written, start)
    hooks = Hooks(["*.pattern"])
    with use_precision("fp32", system.device):
        logits = system.network(tokens, ids, hooks=hooks)
        looped = system.network.recurrences > 1
        reads = system.network.each_recurrence(tokens, ids) if looped else logits[None]
    predicted = [to_text(tokens) for tokens in reads[:, 0].argmax(-1)]
    layers = hooks.all_layers("pattern")
    heads = [
        f"{layer + 1}.{head + 1}"
        for layer, weights in enumerate(layers)
        for head in range(weights.shape[1])
    ]
    numbers = ids[0].expand(1, -1)[0, : len(text)].tolist() if ids else [0] * len(text)
    attention = torch.cat([weights[0] for weights in layers]).cpu()
    target = "".join(steps["target"])
    chances = logits[0].softmax(-1).cpu()
    return Trace(text, first, numbers, heads, attention, chances, target, predicted)


def scan_starts(system: System, *operands: int) -> pd.DataFrame:
    """Return a model's answer from each start of its ids, up to the last that its table allows.

    On a ring of ids these are all of them.

    Returns:
        For each `start`: the `answer`, whether it is `right`, and the `least` probability of one
        of its tokens. There is one start if no table limits the ids.

    Raises:
        SettingsError: for operands that the model cannot read.

    >>> from carry.experiments.resolve import make_run
    >>> positions = [{"ids": "abacus", "encoding": "learned", "table": 6}]
    >>> run = make_run({"task": {"name": "addition"}, "positions": positions,
    ...                 "training": {"digits": 3}, "evaluation": {"digits": 3}})
    >>> scan_starts(System(run), 17, 25)["start"].tolist()
    [1, 2, 3, 4]
    """
    ends = find_last_starts(system, make_problem(system.task, operands).to(system.device))
    last = min((end for end in ends if end is not None), default=1)
    rows = []
    for start in range(1, last + 1):
        steps = ask(system, *operands, start=start)
        right = steps["predicted"].tolist() == steps["target"].tolist()
        answer = read_answer(system, steps)
        least = float(steps["probability"].min())
        rows.append({"start": start, "answer": answer, "right": right, "least": least})
    return pd.DataFrame(rows)
