"""Figures of our question: which models generalise to every length?

Relative place ids with windows: a token attends to its place, the next place and the first token.
`carry.certificates` proves such models exact.
"""

from __future__ import annotations

from carry.plots import adders, ingredients, reaches
from carry.plots.entry import INTERVALS, LEARNED_CAPTION, Entry, name_rows

SEEDS = "Thin lines are seeds, thick lines their median"

SCHEMES = name_rows(
    "addition",
    ("nope", "learned", "rope", "fire", "abacus", "abacus_fire", "abacus_rope", "coupled",
     "relative", "abacus_looped"),
)  # fmt: skip
# A row with relative ids and windows for each task; the smallest adder; the sub-tasks of addition.
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
        f"Exact match on sums of two operands of one length. {SEEDS}, up to the longest sums that "
        "all seeds were tested on; the lengths of training are shaded. A circle is the accuracy of "
        "one seed, with its Wilson interval (95%). A line ends at the longest tested sums of a "
        f"scheme. {LEARNED_CAPTION}",
        reaches.draw_reach_by_length,
        (SCHEMES,),
        any_training_length=True,
        extra_rows=name_rows("addition", ("abacus", "coupled", "abacus_looped"), ("_short",)),
        profile="full",
    ),
    "every_length_tasks": Entry(
        "Other tasks with relative ids",
        "Exact match on responses, steps included, at the largest size tested with all seeds and "
        f"at the sizes tested with one seed. Lines are {INTERVALS}, and for one seed Wilson "
        "intervals of its problems.",
        reaches.draw_reach_of_tasks,
        (RELATIVE,),
        any_training_length=True,
        profile="full",
    ),
}

NEEDS = {
    "ingredients": Entry(
        "One ingredient changed at a time",
        "Each line is one small model with one change, with the same training. All variants are "
        "tested on the same sums of two numbers, whose length is a multiple of the longest of "
        "training. Dots are seeds, moved up and down to be visible; bars are their median. At the "
        "right: the steps after which held-out sums of the training lengths stay 99.9% correct.",
        ingredients.draw_variants,
    ),
}

COMPUTES = {
    "adder_looks": Entry(
        "Attention of each head",
        "Mean attention of the last written digit, d, in all 6,050 possible contexts in the middle "
        "of a sum, for each seed. Heads are sorted by their attention to the last written place.",
        adders.draw_attention_places,
        ADDER,
        table="attention_places",
        column="share",
        profile="full",
    ),
    "adder_without": Entry(
        "The effect of each head",
        "Correct digits in the same contexts if the output of one head is replaced with its mean. "
        "Wrong by a carry: the digit is correct for another carry. Heads are sorted as above.",
        adders.draw_without_heads,
        ADDER,
        table="without_head",
        column="right",
        profile="full",
    ),
    "adder_carries": Entry(
        "Added carries",
        "The share of x + y + 1 among all predictions of x + y + 1 or x + y, for each sum of the "
        "digits one place lower and each digit written there, in all 30,250 contexts for each "
        "seed. Framed: the possible cases in a sum. The white line is the value of a + b - d, in "
        "each title, at which half of the contexts carry.",
        adders.draw_carries,
        ADDER,
        table="carries",
        column="carry",
        profile="full",
    ),
    "adder_difference": Entry(
        "The carry is a function of one number",
        f"The same by a + b - d. {SEEDS}; grey bands: the possible values in a sum. Dotted: "
        "contexts with another prediction, all of them impossible. Dashed: the threshold of the "
        "construction of cho2025 (D.6.1), computed here from its weights.",
        adders.draw_carries_by_difference,
        ADDER,
        table="carries",
        column="carry",
        profile="full",
    ),
    "adder_read": Entry(
        "Linear probes of the adder",
        "Accuracy of a linear map of the residual stream, fitted to one half of the possible "
        f"contexts of a sum and tested on the other. Large marks are means, with {INTERVALS}; dots "
        "are seeds.",
        adders.draw_read_positions,
        ADDER,
        table="read_positions",
        column="right",
        profile="full",
    ),
}

# The question and the entries of each notebook.
NOTEBOOKS = {
    "how_far_does_each_scheme_go": ("How far does each scheme go?", FAR),
    "what_buys_it": ("What buys it?", NEEDS),
    "what_does_it_compute": ("What does it compute?", COMPUTES),
}
