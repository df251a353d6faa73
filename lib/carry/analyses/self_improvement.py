"""Longer sums by self-improvement: a model labels them, and trains on its own labels, in rounds.

    round  drawn          labelled where the starts agree   trained on
    1      11 and 12      999 of 1,024                      true sums to 10, and these
    2      13 and 14      775 of 1,024                      true sums to 10, and all of these

The filter is the agreement of answers from several starts of ids; nothing else is known of the long
sums (Lee et al. 2025, arXiv:2502.01612, who filter by length and by the vote of several models).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pandas as pd
import torch
from torch import Tensor

from carry.analyses import INTERVAL, LABELS
from carry.config.settings import SettingsError
from carry.data.problems import Problems, concatenate_rows
from carry.evaluation.decoding import decode_greedily, find_last_starts, spread_evenly
from carry.evaluation.intervals import add_interval
from carry.evaluation.scoring import score
from carry.formats import EOS
from carry.models.system import System
from carry.randomness import stream
from carry.training.loop import Trainer

TASK = "addition"
COLUMNS = {
    "rounds": (*LABELS, "trained", "round", "digits", "drawn", "labelled", "right_labels", "n",
               "exact", *INTERVAL)
}  # fmt: skip
LONGER = 2  # digits of a round; with three or five the labels run out
STARTS = 4  # of ids, from which the answers have to agree
DRAWN, KNOWN = 1024, 8192  # sums that are labelled in a round, and true sums
ROUND = {"steps": 150, "batch": 64, "learning_rate": 3e-4, "snapshot_every": None}
ASKED = 100  # sums of two numbers of the longest length of a round


def tables(system: System) -> dict[str, pd.DataFrame]:
    """Train a model on its own answers until its table of ids is full; the weights are not kept.

    Returns:
        rounds: for each round the longest trained length in `digits`, how many of `drawn` sums were
            `labelled` and how many `right_labels` these have (round 0: none); and how many of `n`
            sums of two numbers of this length are `exact` in one pass from id 1.

    Raises:
        SettingsError: for positions without a largest id.
    """
    return {"rounds": add_interval(pd.DataFrame(improve(system)))}


def improve(system: System) -> Iterator[dict[str, int]]:
    """Yield what happens in each round."""
    run, draws = system.run, stream(system.seed, "self-improvement")
    trained = run.training.digits
    known = system.task.draw(KNOWN, trained, draws)
    yield {"round": 0, "digits": trained, **_score(system, trained)}
    examples = [known]
    for number, shortest in enumerate(range(trained + 1, last_length(system) + 1, LONGER), 1):
        longest = min(shortest + LONGER - 1, last_length(system))
        cells = torch.randint(shortest, longest + 1, (DRAWN, 2), generator=draws)
        problems = system.task.draw_for_cells(cells, draws)
        answer, length, agreed = vote(system, problems)
        right = agreed & (answer == problems.answer).all(1) & (length == problems.answer_length)
        examples.append(replace(problems, answer=answer, answer_length=length)[agreed])
        system = train_on(system, concatenate_rows(examples), number)
        counts = {"drawn": DRAWN, "labelled": int(agreed.sum()), "right_labels": int(right.sum())}
        yield {"round": number, "digits": longest, **counts, **_score(system, longest)}


def last_length(system: System) -> int:
    """Return the digits of the longest sums that can start at several ids."""
    limits = [system.largest_id(index) for index in range(len(system.schemes))]
    if not limits or None in limits:
        raise SettingsError(
            f"analyses.{system.run.name}: 'self_improvement' needs a largest id; expected "
            "positions with a table of ids"
        )
    return min(limits) - STARTS


def vote(system: System, problems: Problems) -> tuple[Tensor, Tensor, Tensor]:
    """Return answers of a model, their lengths, and whether `STARTS` starts of ids agree on them.

    Shapes: answers [B K], as wide as those of the problems; lengths and agreements [B].
    """
    longest = problems[problems.lengths.amax(1).argmax()[None]]
    last = min(start for start in find_last_starts(system, longest) if start is not None)
    responses = [
        system.format.read(decode_greedily(system, problems, start))
        for start in spread_evenly(last, STARTS)
    ]
    response = responses[0]
    is_digit = response < system.task.base
    length = is_digit.sum(1)
    agreed = torch.stack([(other == response).all(1) for other in responses]).all(0)
    agreed &= (is_digit | (response == EOS)).all(1) & (length > 0) & (length <= problems.room)
    answer = torch.zeros_like(problems.answer)
    width = min(answer.shape[1], response.shape[1])
    answer[:, :width] = (response * is_digit)[:, :width].to(answer.dtype)
    return answer, length, agreed


def train_on(system: System, examples: Problems, number: int) -> System:
    """Return the model after the training of a `ROUND` on problems with answers as they are."""
    training = system.run.training.model_copy(update=ROUND)
    run = system.run.model_copy(update={"training": training})
    trainer = Trainer(run, system.seed + 1000 * number, None)  # other batches in each round
    trainer.system.network.load_state_dict(system.network.state_dict())
    trainer.batches.problems = examples
    improved = trainer.train().system
    improved.network.eval()
    return improved


def _score(system: System, digits: int) -> dict[str, int]:
    """Count the exact sums of two numbers of a length, in one pass from id 1."""
    cells = torch.full((ASKED, 2), digits)
    problems = system.task.draw_for_cells(cells, stream(0, "self-improvement", "asked", digits))
    return {"n": ASKED, "exact": int(score(system, problems, 1).exact.sum())}
