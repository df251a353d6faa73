"""One layer and four heads that add any numbers of any length (cho2025, Theorem 4.1, appendix D).

A token's embedding is what it says (NUM to FULL_ONES), room for what is worked out (PRE_SUM to
EOS), and for each level of coupling the code of its id and of the next one. Codes are vectors of
+1 and -1, so that a query meets an equal key with the full score P, and any other with P - 2 at
most; the first token always scores P. What the four heads find for the token that comes next:

    head 1   digits of this place      NUM of one operand and of the sum so far: PRE_SUM
    head 2   digits of the place below their sum again, to see whether it carried: PRE_CARRY
    head 3   how many have such a place  1 if only the first token is seen, so the number ends
    head 4   how many have this place  1/2 if no operand is left to be added, else 1/3

The feed-forward layer reads the next digit, `>` and the end off these four.

With the width of the theorem, 2^P1 codes stand for l + 1 ids of the first level (l digits and a
sign) and the one after the last. Taken literally (`codes="theorem"`) that is too few where l or
l + 1 is a power of two: the code after the highest digit is then that of a sign, or of the ones,
and the arrow is missed. Two ids need no code of their own: the sign's, which nothing looks for, and
the one after the last, which nothing has. Given none (`codes="spare"`), l codes are enough, as the
theorem counts, if the end is told by a unit that cannot exceed 1.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from carry.config.run_settings import make_run
from carry.config.settings import SettingsError
from carry.formats import ALPHABET, EOS
from carry.models.system import System

NUM, IS_BOS, FULL_ONES, PRE_SUM, PRE_CARRY, PRE_ARROW, PRE_EOS = range(7)
SUM, ARROW, END = 7, 17, 18
CODES = 19  # where the codes of the ids begin

Codes = Literal["spare", "theorem"]


class Size(NamedTuple):
    """How large the construction is: digits written in a number, bits of codes, and the width."""

    digits: int
    first: int
    second: int
    width: int


def size(operands: int, digits: int) -> Size:
    """Return the size that Theorem 4.1 gives for so many operands of so many digits.

    >>> size(3, 2)
    Size(digits=3, first=2, second=2, width=27)

    Raises:
        SettingsError: for less than two operands, or none of their digits.
    """
    if operands < 2:
        raise SettingsError(f"operands: {operands} does not fit, expected at least 2")
    if digits < 1:
        raise SettingsError(f"digits: {digits} does not fit, expected at least 1")
    written = digits + len(str(operands))
    first, second = math.ceil(math.log2(written)), math.ceil(math.log2(operands + 1))
    return Size(written, first, second, 2 * first + 2 * second + CODES)


def adder(
    operands: int,
    digits: int,
    scale: float = 64.0,
    codes: Codes = "spare",
    dtype: torch.dtype = torch.float64,
    of: Size | None = None,
) -> System:
    """Return a model that adds up to so many operands of up to so many digits each.

    Args:
        scale: how sharp attention is (the alphas of the proof).
        codes: which ids have a code of their own, see above.
        of: another size than the theorem's, such as more bits.

    >>> from carry.evaluation.ask import answer, ask
    >>> model = adder(3, 2)
    >>> answer(model, ask(model, 57, 48, 96, start=1))
    '201'
    """
    of = of or size(operands, digits)
    ends = (of.digits + 1, operands + 1)  # the largest ids, from 1 on
    system = System(
        make_run(
            {
                "task": {"name": "multi_operand_addition"},
                "format": {"name": "scratchpad"},
                "positions": [
                    {
                        "ids": "coupled",
                        "level": level + 1,
                        "encoding": "learned",
                        "table": max(end, 4),
                    }
                    for level, end in enumerate(ends)
                ],
                "model": {
                    "width": of.width,
                    "heads": 4,
                    "head_width": of.first + of.second + 1,
                    "hidden": 84,
                    "norm": "none",
                    "initialisation": "t5",  # whose scores are not divided
                },
                "training": {"digits": 2},
                "evaluation": {"digits": 2, "starts": [1]},
            },
            "adder",
        )
    )
    network = system.network.to(dtype)
    with torch.no_grad():
        for weights in network.parameters():
            weights.zero_()
        _embed(network, of, ends, codes)
        _attend(network.blocks[0], of, scale)
        _conclude(network.blocks[0].feed_forward, codes)
        for token in range(10):
            network.logits.weight[token, SUM + token] = 1.0
        network.logits.weight[ALPHABET.index(">"), ARROW] = 10.0
        network.logits.weight[EOS, END] = 100.0
    return system


def code(index: int, bits: int) -> Float[Tensor, " P"]:
    """Return the code of the ids that leave this remainder: the bits, as +1 and -1.

    >>> code(5, 3).tolist()
    [1.0, -1.0, 1.0]
    """
    return torch.tensor([1.0 if index >> bit & 1 else -1.0 for bit in reversed(range(bits))])


def _embed(network: torch.nn.Module, of: Size, ends: tuple[int, int], codes: Codes) -> None:
    """Set what each token says, and the codes of each id and of the next."""
    tokens = network.tokens.weight
    tokens[:, FULL_ONES] = 1.0
    tokens[:10, NUM] = torch.arange(10.0, dtype=tokens.dtype)
    tokens[ALPHABET.index("^"), IS_BOS] = 1.0
    begin = CODES
    for level, (end, bits) in enumerate(zip(ends, (of.first, of.second), strict=True)):
        spare = codes == "spare" and level == 0
        rows = network.encodings[level].rows.weight
        for index in range(1, end + 1):
            for position, which in ((begin, index), (begin + bits, index + 1)):
                # Spared are the sign's, id 1, and the one after the last.
                if spare and not 1 < which <= end:
                    continue
                rows[index, position : position + bits] = code(which, bits).to(rows)
        begin += 2 * bits


def _attend(block: torch.nn.Module, of: Size, scale: float) -> None:
    """Set the four heads: what each compares at both levels, what it reads, and where to."""
    own, following = 0, 1
    heads = [  # (query, key) at the first level, at the second, what is read, how often, where to
        ((following, own), (own, following), NUM, 3.0, PRE_SUM),
        ((own, own), (own, following), NUM, 3.0, PRE_CARRY),
        ((following, own), None, IS_BOS, 1.0, PRE_ARROW),
        ((own, own), (own, own), IS_BOS, 1.0, PRE_EOS),
    ]
    width, inner = of.first + of.second + 1, 4 * (of.first + of.second + 1)
    query, key = block.query.weight, block.key_value.weight[:inner]
    value, output = block.key_value.weight[inner:], block.output.weight
    for index, (first, second, read, times, found) in enumerate(heads):
        row, bits = index * width, 0
        parts = [(first, of.first, CODES), (second, of.second, CODES + 2 * of.first)]
        for pair, count, begin in parts:
            if pair is None:
                continue
            for bit in range(count):
                query[row + bits + bit, begin + pair[0] * count + bit] = scale
                key[row + bits + bit, begin + pair[1] * count + bit] = 1.0
            bits += count
        query[row + width - 1, FULL_ONES] = scale * bits
        key[row + width - 1, IS_BOS] = 1.0
        value[row, read] = times
        output[found, row] = 1.0


def _conclude(layer: torch.nn.Module, codes: Codes) -> None:
    """Set the feed-forward layer, which reads the next token off what the heads have found."""
    up, down, unit = layer.up, layer.down, 0
    for digit in range(10):
        for kink, slope in ((-0.5, 2), (0, -2), (0.5, -2), (1, 2)):
            for carried in (0, 10):  # the digit of a sum of ten or more is the same
                up.weight[unit, PRE_SUM] = 1.0
                up.weight[unit, PRE_CARRY], up.weight[unit, NUM] = 0.1, -0.1
                up.bias[unit] = 0.21 - (digit + carried + kink)
                down.weight[SUM + digit, unit] = slope
                unit += 1
    last = [(PRE_ARROW, 1 / 2, {ARROW: 2.0, END: 2.0}), (PRE_EOS, 1 / 3, {END: 6.0})]
    if codes == "spare":  # a sign, which has no code, sees the first token alone
        last.append((PRE_EOS, 1 / 2, {END: -6.0}))
    for source, kink, slopes in last:
        up.weight[unit, source], up.bias[unit] = 1.0, -kink
        for found, slope in slopes.items():
            down.weight[found, unit] = slope
        unit += 1
    down.bias[END] = -1.0
