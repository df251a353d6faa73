"""The share of attention on the tokens that determine the next digit of a sum.

They are the digits of the query's place and of the next higher one, and the first token. Sums of
growing length tell whether attention is diluted.
"""

from __future__ import annotations

import pandas as pd
import torch
from jaxtyping import Bool
from torch import Tensor

from carry.analyses import LABELS
from carry.data import problem_sets
from carry.data.batch import Batch
from carry.interpretability.attention import read_attention
from carry.models.system import System

TASK = "addition"
COLUMNS = {"locality": (*LABELS, "trained", "digits", "n", "share")}
PROBLEMS, MAX_TOKENS = 10, 400  # of each length, and in the longest problem


def tables(system: System) -> dict[str, pd.DataFrame]:
    """Measure the attention of a model on the sums of equal lengths that score its row.

    Returns:
        locality: for each number of `digits` whose sums have at most `MAX_TOKENS` tokens, the
            `share` of attention, a mean over all queries of `n` responses, heads and layers.
    """
    questions = problem_sets.load_questions(system.run)
    lines = []
    for digits, part in questions[questions["i"] == questions["j"]].groupby("i"):
        if system.format.extent(digits).tokens <= MAX_TOKENS:
            problems = problem_sets.to_problems(part.head(PROBLEMS), system.task)
            batch = system.format.write(problems.to(system.device))
            (at, _, real), row = batch.response(), torch.arange(len(batch))[:, None]
            is_local = _find_local_tokens(batch)[:, :, None]
            layers = read_attention(system, batch)
            shares = [(pattern[row, :, at] * is_local).sum(-1)[real] for pattern in layers]
            share = float(torch.stack(shares).mean(dim=(0, 2)).mean())
            lines.append({"digits": digits, "n": len(problems), "share": share})
    return {"locality": pd.DataFrame(lines)}


def _find_local_tokens(batch: Batch) -> Bool[Tensor, "B A T"]:
    place = batch.levels[:, :, 0]
    offset = place[:, None] - place.gather(1, batch.response()[0])[:, :, None]
    is_local = (place >= 0)[:, None] & (offset >= 0) & (offset <= 1)
    is_local[:, :, 0] = True
    return is_local
