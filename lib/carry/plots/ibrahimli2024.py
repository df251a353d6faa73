"""The questions of ibrahimli2024 about positions and spellings, drawn from what was measured here.

The source is a draft without results, so nothing of its is drawn beside ours.
"""

from __future__ import annotations

from carry.plots import answers, learning, lengths, numbering, spellings
from carry.plots.entry import Entry, names

PAPER = "ibrahimli2024, "
EQUAL = "addition_equal"

ABSOLUTE = names(EQUAL, ("learned",), ("_baseline", "_longer", "", "_gap"))
ALIGNED = names(EQUAL, ("learned", "learned_spaces", "abacus"))
OTHERS = ("sinusoidal", "randomized", "shaw", "t5", "alibi", "rope", "fire", "nope")
ENCODINGS = names(EQUAL, ("learned", *OTHERS))
SPELT = names(EQUAL, ("learned",), ("_plain", "_padded", "_operands", "", "_both", "_spaces"))
WORDED = names(EQUAL, ("learned",), ("_baseline", "_worded"))
ORDERED = names(EQUAL, ("learned",), ("_plain", "_padded", "_operands", "", "_both"))
ORDERED += names(EQUAL, ("abacus",))
HIGHEST_FIRST = names(
    EQUAL, ("learned",), ("_baseline", "_plain", "_padded", "_operands", "_worded")
)
# By spelling, where all else is alike.
SPELLINGS = {
    f"{EQUAL}_learned": "answer reversed",
    f"{EQUAL}_learned_plain": "nothing reversed",
    f"{EQUAL}_learned_padded": "nothing reversed, zeros in front",
    f"{EQUAL}_learned_operands": "operands reversed",
    f"{EQUAL}_learned_both": "both reversed",
    f"{EQUAL}_learned_spaces": "answer reversed, random spaces",
    f"{EQUAL}_learned_baseline": "nothing reversed",
    f"{EQUAL}_learned_worded": "steps in words",
    f"{EQUAL}_abacus": "Abacus, both reversed",
}
BY_LENGTH = (
    "Answers wholly right by the number of digits of both operands. Bars count all seeds together, "
    "dark lines are their Wilson intervals (95%), dots are the seeds; the background says which "
    "lengths were trained."
)
WRITTEN = (
    "Whole answers as they are decoded, all seeds together, beside the true ones; the strip below "
    "says which lengths were trained."
)

FAIL = {
    "one_digit_beyond": Entry(
        "One digit beyond training",
        "A sum of a trained length and a longer one, with the ids of plain order. Framed is what "
        "no sum of one to three digits has there: dashed, a known id at which another place or "
        "sign stood; solid, an id that was never met.",
        lambda tables: numbering.of_lengths(),
        source=PAPER + "4.3.1",
    ),
    "absolute_by_length": Entry(
        "Learned positions by length",
        BY_LENGTH,
        lengths.by_length,
        (ABSOLUTE,),
        across=True,
        source=PAPER + "4.3.1 to 4.3.3",
    ),
    "aligned_by_length": Entry(
        "Positions that move, and positions that align",
        BY_LENGTH + " The same data and steps for all; Abacus ids count from the ones, so there "
        "the operands are written with the ones first as well.",
        lengths.by_length,
        (ALIGNED,),
        across=True,
        source=PAPER + "4.3.4",
    ),
    "encodings_by_length": Entry(
        "Other ways to feel position",
        BY_LENGTH,
        lengths.by_length,
        (ENCODINGS,),
        least=2,
        across=True,
        source=PAPER + "2.1.4",
    ),
    "first_wrong_places": Entry(
        "Where answers begin to be wrong",
        "Bars: the share of answers whose first wrong token is this one, so that what they lack "
        "to 100% is right. Line: digits right given the truth before them. All seeds together, "
        "with Wilson intervals (95%). Left to right as the answer is written, at a length within "
        "those of training and at one beyond.",
        lambda tables: answers.first_wrong(tables, HIGHEST_FIRST),
        (ALIGNED,),
        across=True,
        source=PAPER + "4.3.4, mistakes",
        table="places",
        column="first_wrong",
    ),
    "kinds_of_answers": Entry(
        "What answers look like",
        WRITTEN,
        answers.kinds,
        (ABSOLUTE + ALIGNED,),
        across=True,
        source=PAPER + "3.4",
        table="written",
        column="count",
    ),
}

SPELLING = {
    "table_of_spellings": Entry(
        "One sum in every spelling",
        "Written by the formats that models are trained with. Where the spaces stand is drawn for "
        "each problem.",
        lambda tables: spellings.of_a_sum(),
        source=PAPER + "Table 4.1",
    ),
    "spelling_by_length": Entry(
        "Exact match by spelling",
        BY_LENGTH,
        lambda tables: lengths.by_length(tables, SPELLINGS),
        (SPELT,),
        across=True,
        source=PAPER + "4.4",
    ),
    "spelling_kinds": Entry(
        "What answers look like, by spelling",
        WRITTEN,
        lambda tables: answers.kinds(tables, SPELLINGS),
        (SPELT,),
        across=True,
        source=PAPER + "4.4, 3.4",
        table="written",
        column="count",
    ),
    "worded_by_length": Entry(
        "With the steps in words",
        BY_LENGTH + " Behind steps the answer counts alone, as the model decodes it after steps "
        "of its own.",
        lambda tables: lengths.by_length(tables, SPELLINGS),
        (WORDED,),
        across=True,
        source=PAPER + "4.4.3",
    ),
}

ORDER = {
    "order_by_place": Entry(
        "Digits right by place",
        "Sums of the longest trained length, after each snapshot of training: digits right at each "
        "place given the truth before them, all seeds together with Wilson intervals (95%). "
        "Dashed: the carry out of all others, which is told from an end or from a zero in front.",
        lambda tables: learning.by_place(tables, HIGHEST_FIRST, SPELLINGS),
        (ORDERED,),
        across=True,
        source=PAPER + "4.4.2",
        table="order",
        column="correct",
    ),
    "order_reached": Entry(
        "Which place comes first",
        f"The first snapshot from which on {learning.LEARNED:.0%} of the digits at a place are "
        "right, at the longest trained length. Dots are seeds, a line joins their medians; places "
        "stand as they are written. A line that rises from left to right: learned in the order of "
        "writing.",
        lambda tables: learning.reached(tables, HIGHEST_FIRST, SPELLINGS),
        (ORDERED,),
        across=True,
        source=PAPER + "4.4.2",
        table="order",
        column="correct",
    ),
    "losses_by_length": Entry(
        "Losses by length",
        "The mean loss of an answer's token given the truth before it, by number of digits, after "
        "each snapshot of training. Lines are means over seeds, bands reach from the lowest seed "
        "to the highest.",
        lambda tables: learning.losses(tables, SPELLINGS),
        (ORDERED,),
        across=True,
        source=PAPER + "4.4.2, losses",
        table="losses",
        column="loss",
    ),
}

# By notebook: the question that it asks, and its entries.
NOTEBOOKS = {
    "why_do_absolute_positions_fail": ("Why do absolute positions fail?", FAIL),
    "which_spelling_helps": ("Which spelling helps?", SPELLING),
    "in_which_order_are_digits_learned": ("In which order are digits learned?", ORDER),
}
