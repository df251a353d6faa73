"""How many operands a model attends to at once, of sums with more and more (cho2025, 4.4, Fig. 7).

The work states: with a scratchpad heads attend to a fixed number of tokens to write the next one,
without one to as many as there are operands. As in its figure, attention is averaged over sums of
one size. A model attends to an operand if any head has at least `LEAST` of its attention on one of
its digits; heads that attend to everything alike, to find the end, are below that.
"""

from __future__ import annotations

import pandas as pd

from carry.analyses import LABELS
from carry.interpretability.attention import describe_attention
from carry.models.system import System

TASK = "multi_operand_addition"
COLUMNS = {"attended": (*LABELS, "trained", "digits", "operands", "n", "attended", "few", "every")}
LEAST, FEW = 0.1, 2  # the model of Theorem 4.1 attends to the added operand and to the next one


def tables(system: System) -> dict[str, pd.DataFrame]:
    """Count the operands that a model attends to, in sums of the trained digits.

    Returns:
        attended: for each number of `operands`, up to twice the trained one, and the `n` tokens
            that write digits of sums (except the sum of no operand): to how many operands the model
            `attended`, on average; how often to `few`, at most `FEW`; and how often to `every` one.
    """
    digits = system.run.training.digits
    counts = [count_attended(system, digits, operands) for operands in range(2, 2 * digits + 1)]
    return {"attended": pd.DataFrame(counts)}


def count_attended(system: System, digits: int, operands: int) -> dict[str, float]:
    """Return the line of one size, see `tables`.

    >>> from carry.models.constructions.adder import build_adder
    >>> line = count_attended(build_adder(30, 2), 2, 30)
    >>> line["n"], line["few"], line["every"]
    (120, 120, 0)
    """
    found = describe_attention(system, (digits, operands), {})
    tokens, weights = found["tokens"].set_index("at"), found["attention"]
    number, is_digit = tokens["number"], tokens["place"] >= 0
    first = operands + 1 + int(system.format.has_steps)
    queries = tokens.index[is_digit & (number >= first)] - 1
    digit_keys = tokens.index[is_digit & number.between(1, operands)]
    weights = weights[weights["query"].isin(queries) & weights["key"].isin(digit_keys)]
    numbers = weights["key"].map(number).rename("number")
    most = weights.groupby(["query", numbers])["weight"].max()
    attended = (most >= LEAST).groupby("query").sum()
    return {
        "digits": digits,
        "operands": operands,
        "n": len(queries),
        "attended": float(attended.mean()),
        "few": int((attended <= FEW).sum()),
        "every": int((attended == operands).sum()),
    }
