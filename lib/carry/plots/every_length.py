"""Figures of our own question: what lets a transformer carry on to every length?

Places are read relatively, and attention is local in place: a token sees its own place, the next,
and the first token. See `carry.certificates` for what is proved of such models.
"""

from __future__ import annotations

from carry.plots import adders, ingredients, reaches
from carry.plots.entry import Entry, names

SEEDS = "Thin lines are seeds, thick ones their median"

SCHEMES = names(
    "addition",
    ("nope", "learned", "rope", "fire", "abacus", "abacus_fire", "abacus_rope", "coupled",
     "relative"),
)  # fmt: skip
LOOPED = ("addition_abacus_looped",)  # apart, or its short row would be drawn as well
# Every task of which a row is read relatively, with a window in place; the smallest adder, and the
# parts of a sum.
RELATIVE = (
    "addition_relative",
    "addition_relative_small",
    "multi_operand_addition_relative_scratchpad",
    "multiplication_relative_scratchpad",
    "sorting_relative_scratchpad",
    "parity_relative_scratchpad",
    "copying_relative",
    "reversing_relative",
    "bitwise_or_relative",
    "addition_relative_carries",
    "addition_relative_digits",
    "addition_relative_backwards",
    "addition_relative_aligned",
)
ADDER = ((RELATIVE[0],),)

FAR = {
    "every_length_schemes": Entry(
        "Ten digits, a hundred thousand digits",
        "Sums wholly right, both operands of one length, from the start of ids that serves each "
        f"scheme better in distribution. {SEEDS}, as far as all seeds were asked; shaded: the "
        "lengths of training. A circle is what one seed alone was asked, the line at it its Wilson "
        "interval (95%). A line ends at the longest sums that a scheme was asked.",
        reaches.by_length,
        (SCHEMES, LOOPED),
        across=True,
        profile="cpu",
    ),
    "every_length_tasks": Entry(
        "Other tasks, read the same way",
        "Problems wholly right, their steps included, at the largest size that all seeds were "
        "asked and at those that one seed was asked. Lines are Wilson intervals (95%): where all "
        "is right they say how few problems there were.",
        reaches.tasks,
        (RELATIVE,),
        across=True,
        profile="cpu",
    ),
}

NEEDS = {
    "ingredients": Entry(
        "One ingredient changed at a time",
        "Each line is the same small model with one thing changed, trained alike, and asked sums "
        "of two numbers that are so many times as long as the longest in training, all variants "
        "the same ones. Dots are seeds, strewn up and down to be told apart; bars are their "
        "median. At the right: the steps after which held-out sums of the training lengths stay "
        "99.9% right.",
        ingredients.by_variant,
    ),
}

COMPUTES = {
    "adder_looks": Entry(
        "Where each head looks",
        "Mean attention of the digit just written, d, in all contexts that the middle of a sum can "
        "have, which are 6,050 for each seed. Heads are ordered by how much of it is on the place "
        "just written.",
        adders.looks,
        ADDER,
        table="looks",
        column="share",
        profile="cpu",
    ),
    "adder_without": Entry(
        "What each head brings",
        "Digits that are right in the same contexts if what one head finds is replaced with its "
        "mean. Wrong by a carry: the digit is the one that another carry would give. Heads are "
        "ordered as above.",
        adders.without,
        ADDER,
        table="without",
        column="right",
        profile="cpu",
    ),
    "adder_carries": Entry(
        "When a carry is added",
        "Share of contexts in which the model says x + y + 1, of those in which it says that or "
        "x + y, for each sum of the digits below and each digit written there, in all 30,250 "
        "contexts for each seed. Framed: what a sum can have. The white line is a + b - d = so "
        "much that half of the contexts carry, as each title says.",
        adders.carries,
        ADDER,
        table="carries",
        column="carry",
        profile="cpu",
    ),
    "adder_difference": Entry(
        "One number decides",
        f"The same by a + b - d alone. {SEEDS}; grey bands: the only values that a sum has. "
        "Dotted: contexts in which neither is said, all of them impossible. Dashed: where the "
        "construction of cho2025 (D.6.1) would change, as worked out here from its weights.",
        adders.by_difference,
        ADDER,
        table="carries",
        column="carry",
        profile="cpu",
    ),
    "adder_read": Entry(
        "What is known when",
        "What a linear map of the residual stream tells, fitted to one half of the contexts that a "
        "sum can have and asked of the other. Large marks are all seeds together, with Wilson "
        "intervals (95%), dots are seeds.",
        adders.read,
        ADDER,
        table="read",
        column="right",
        profile="cpu",
    ),
}

# By notebook: the question that it asks, and its entries.
NOTEBOOKS = {
    "how_far_does_each_scheme_go": ("How far does each scheme go?", FAR),
    "what_buys_it": ("What buys it?", NEEDS),
    "what_does_it_compute": ("What does it compute?", COMPUTES),
}
