"""One layer and four heads that add any numbers of any length (cho2025, Theorem 4.1, appendix D).

The embedding of a token has features of the token (NUM to FULL_ONES), features that the layer
writes (PRE_SUM to EOS), and for each level of coupling the codes of its id and of the next id.
Codes are vectors of +1 and -1: a query has the full score P with an equal key, and at most P - 2
with any other. The first token always scores P. The four heads read, for the next token:

    head 1   digits of its place         NUM of one operand and of the running sum: PRE_SUM
    head 2   digits of the lower place   their sum again, which tells the carry: PRE_CARRY
    head 3   numbers with this place     1 if it attends only to the first token: the number ends
    head 4   numbers left to add         1/2 if no operand is left, else 1/3

The feed-forward layer computes the next digit, `>` or the end from these four values.

With the width of the theorem, 2^P1 codes serve l + 1 ids of the first level (l digits and a sign)
and the id after the last. Taken literally (`codes="theorem"`) these are too few if l or l + 1 is a
power of two: the code after the highest digit then equals the code of a sign, or of the lowest
digit, and the model misses the arrow. Two ids need no code: no query looks for the sign's id, and
no token has the id after the last. Without them (`codes="spare"`) l codes are enough, as in the
theorem's count, if the feature of the end is at most 1.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch

from carry.experiments.resolve import make_run
from carry.formats import ALPHABET, EOS
from carry.models.architectures.transformer import Block, FeedForward, Transformer
from carry.models.constructions import signed_bits
from carry.models.system import System

NUM, IS_BOS, FULL_ONES, PRE_SUM, PRE_CARRY, PRE_ARROW, PRE_EOS = range(7)
SUM, ARROW, END = 7, 17, 18
CODES = 19  # the first feature of the codes

Codes = Literal["spare", "theorem"]


class AdderSize(NamedTuple):
    """The size of the construction: written digits, bits of both codes, and the width."""

    digits: int
    first: int
    second: int
    width: int


def compute_adder_size(operands: int, digits: int) -> AdderSize:
    """Return the size that Theorem 4.1 gives for a number of operands and of digits.

    >>> compute_adder_size(3, 2)
    AdderSize(digits=3, first=2, second=2, width=27)
    """
    written = digits + len(str(operands))
    first, second = math.ceil(math.log2(written)), math.ceil(math.log2(operands + 1))
    return AdderSize(written, first, second, 2 * first + 2 * second + CODES)


def build_adder(
    operands: int,
    digits: int,
    scale: float = 64.0,
    codes: Codes = "spare",
    dtype: torch.dtype = torch.float64,
    size: AdderSize | None = None,
) -> System:
    """Return a model that adds up to `operands` numbers of up to `digits` digits each.

    Args:
        scale: the sharpness of attention (the alphas of the proof).
        codes: the ids that have a code, see above.
        size: another size than the theorem's, for example with more bits.

    >>> from carry.evaluation.ask import ask, read_answer
    >>> model = build_adder(3, 2)
    >>> read_answer(model, ask(model, 57, 48, 96, start=1))
    '201'
    """
    size = size or compute_adder_size(operands, digits)
    largest_ids = (size.digits + 1, operands + 1)  # ids start at 1
    settings = {
        "task": {"name": "multi_operand_addition", "room": "bound"},
        "format": {"name": "scratchpad"},
        "positions": [
            {"ids": "coupled", "level": level, "encoding": "learned", "table": max(largest, 4)}
            for level, largest in enumerate(largest_ids, start=1)
        ],
        "model": {
            "width": size.width,
            "heads": 4,
            "head_width": size.first + size.second + 1,
            "hidden": 84,
            "norm": "none",
            "initialisation": "t5",  # attention scores are then not divided
        },
        "training": {"digits": 2},
        "evaluation": {"digits": 2, "starts": [1]},
    }
    system = System(make_run(settings, "adder"))
    network = system.network.to(dtype)
    with torch.no_grad():
        for weights in network.parameters():
            weights.zero_()
        _set_embeddings(network, size, largest_ids, codes)
        _set_heads(network.blocks[0], size, scale)
        _set_feed_forward(network.blocks[0].feed_forward, codes)
        for token in range(10):
            network.logits.weight[token, SUM + token] = 1.0
        network.logits.weight[ALPHABET.index(">"), ARROW] = 10.0
        network.logits.weight[EOS, END] = 100.0
    return system


def _set_embeddings(
    network: Transformer, size: AdderSize, largest_ids: tuple[int, int], codes: Codes
) -> None:
    """Set the features of each token, and the codes of each id and of the next one."""
    tokens = network.tokens.weight
    tokens[:, FULL_ONES] = 1.0
    tokens[:10, NUM] = torch.arange(10.0, dtype=tokens.dtype)
    tokens[ALPHABET.index("^"), IS_BOS] = 1.0
    begin = CODES
    for level, (largest, bits) in enumerate(
        zip(largest_ids, (size.first, size.second), strict=True)
    ):
        ids = torch.arange(1, largest + 1)
        for feature, coded_ids in ((begin, ids), (begin + bits, ids + 1)):
            code = signed_bits(coded_ids, bits).flip(1)  # the highest bit first
            if codes == "spare" and level == 0:  # the sign's id and that after the last have none
                code[(coded_ids == 1) | (coded_ids > largest)] = 0.0
            rows = network.encodings[level].rows.weight
            rows[1 : largest + 1, feature : feature + bits] = code
        begin += 2 * bits


def _set_heads(block: Block, size: AdderSize, scale: float) -> None:
    """Set the four heads: the codes they compare, and the features they read and write."""
    this, following = 0, 1
    # Codes of query and key at the first and at the second level, feature that is read, factor,
    # feature that is written.
    heads = [
        ((following, this), (this, following), NUM, 3.0, PRE_SUM),
        ((this, this), (this, following), NUM, 3.0, PRE_CARRY),
        ((following, this), None, IS_BOS, 1.0, PRE_ARROW),
        ((this, this), (this, this), IS_BOS, 1.0, PRE_EOS),
    ]
    width = size.first + size.second + 1
    inner = 4 * width
    query, key = block.query.weight, block.key_value.weight[:inner]
    value, output = block.key_value.weight[inner:], block.output.weight
    for index, (first, second, source, factor, target) in enumerate(heads):
        row, compared = index * width, 0
        levels = [(first, size.first, CODES), (second, size.second, CODES + 2 * size.first)]
        for pair, bits, begin in levels:
            if pair is None:
                continue
            for bit in range(bits):
                query[row + compared + bit, begin + pair[0] * bits + bit] = scale
                key[row + compared + bit, begin + pair[1] * bits + bit] = 1.0
            compared += bits
        query[row + width - 1, FULL_ONES] = scale * compared
        key[row + width - 1, IS_BOS] = 1.0
        value[row, source] = factor
        output[target, row] = 1.0


def _set_feed_forward(layer: FeedForward, codes: Codes) -> None:
    """Set the feed-forward layer, which computes the next token from the outputs of the heads."""
    up, down, unit = layer.up, layer.down, 0
    for digit in range(10):
        for kink, slope in ((-0.5, 2), (0, -2), (0.5, -2), (1, 2)):
            for tens in (0, 10):  # a sum of ten or more has the same digit as its remainder
                up.weight[unit, PRE_SUM] = 1.0
                up.weight[unit, PRE_CARRY], up.weight[unit, NUM] = 0.1, -0.1
                up.bias[unit] = 0.21 - (digit + tens + kink)
                down.weight[SUM + digit, unit] = slope
                unit += 1
    ends = [(PRE_ARROW, 1 / 2, {ARROW: 2.0, END: 2.0}), (PRE_EOS, 1 / 3, {END: 6.0})]
    if codes == "spare":  # a sign, which has no code, attends to the first token alone
        ends.append((PRE_EOS, 1 / 2, {END: -6.0}))
    for source, kink, slopes in ends:
        up.weight[unit, source], up.bias[unit] = 1.0, -kink
        for target, slope in slopes.items():
            down.weight[target, unit] = slope
        unit += 1
    down.bias[END] = -1.0
