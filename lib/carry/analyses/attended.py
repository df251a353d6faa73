"""How many tokens each head attends to, in sums of more and more operands (cho2025, 4.4, Fig. 7).

The work states: with a scratchpad a head attends to a fixed number of tokens, without one to as
many as there are operands. As in its figure, attention is averaged over sums of one size. A head
attends to the fewest tokens that together have `MOST` of the attention of a query.
"""

from __future__ import annotations

import pandas as pd

from carry.analyses import LABELS
from carry.interpretability.attention import describe_attention
from carry.models.system import System

TASK = "multi_operand_addition"
COLUMNS = {
    "attended": (
        *(*LABELS, "trained", "digits", "operands", "layer", "head", "best"),
        *("to_add", "n", "tokens", "few", "as_operands"),
    )
}
MOST = 0.9
FEW = 3  # a head of Theorem 4.1 needs at most the three digits that determine the carry


def tables(system: System) -> dict[str, pd.DataFrame]:
    """Count the tokens that heads attend to, in sums of the trained digits.

    Returns:
        attended: for each number of `operands`, up to twice the trained one, and each head, over
            the `n` tokens that write digits of sums (except the sum of no operand): the mean number
            of `tokens` that it attends to, how often these are at most `FEW`, and how often at
            least `as_operands`; its share of attention on the digits `to_add`; and whether this is
            the `best` share of the model.
    """
    digits = system.run.training.digits
    parts = [count_attended(system, digits, count) for count in range(2, 2 * digits + 1)]
    return {"attended": pd.concat(parts, ignore_index=True)}


def count_attended(system: System, digits: int, operands: int) -> pd.DataFrame:
    """Return the table of one size, see `tables`.

    >>> from carry.models.constructions.adder import build_adder
    >>> table = count_attended(build_adder(5, 2), 2, 5)
    >>> table[["head", "n", "few", "as_operands", "best"]].values.tolist()[:3]
    [[0, 15, 15, 0, True], [1, 15, 15, 0, False], [2, 15, 0, 15, False]]
    """
    found = describe_attention(system, (digits, operands), {})
    tokens = found["tokens"].set_index("at")
    written, place = tokens["number"] - operands - 1, tokens["place"]
    written = written[(written >= int(system.format.has_steps)) & (place >= 0)]
    weights = found["attention"]
    weights = weights[weights["query"].isin(written.index - 1)]
    # The most attended tokens of a query, up to the one with which MOST is reached.
    weights = weights.sort_values("weight", ascending=False, kind="stable")
    keys = ["layer", "head", "query"]
    by_query = weights.groupby(keys)["weight"]
    weights["tokens"] = by_query.cumsum() - weights["weight"] < MOST * by_query.transform("sum")
    counts = weights.groupby(keys, as_index=False)["tokens"].sum()
    counts = counts.assign(
        n=1, few=counts["tokens"] <= FEW, as_operands=counts["tokens"] >= operands
    )
    how = {"n": "sum", "tokens": "mean", "few": "sum", "as_operands": "sum"}
    heads = counts.groupby(["layer", "head"], as_index=False).agg(how)
    shares = found["heads"][found["heads"]["needed"].isin(["operand", "sum so far"])]
    heads["to_add"] = shares.groupby(["layer", "head"])["share"].sum().to_numpy()
    best = heads.index == heads["to_add"].idxmax()
    return heads.assign(best=best, digits=digits, operands=operands)
