"""Figures for the questions of ibrahimli2024 about positions and formats, from our results.

Its figures are pictures; where its repository has their numbers, they are drawn next to ours.
"""

from __future__ import annotations

from carry.plots import (
    answers,
    learning,
    lengths,
    next_tokens,
    numbering,
    positions_and_formats,
    spellings,
    worded_steps,
)
from carry.plots.entry import BARS_CAPTION, INTERVALS, Entry, name_rows

PAPER = "ibrahimli2024, "
EQUAL = "addition_equal"

ABSOLUTE = name_rows(EQUAL, ("learned",), ("_baseline", "_longer", "", "_gap"))
ALIGNED = name_rows(EQUAL, ("learned_plain", "learned_spaces", "abacus_no_gap"))
OTHERS = ("sinusoidal", "randomized", "shaw", "t5", "alibi", "rope", "fire", "nope")
ENCODINGS = name_rows(EQUAL, ("learned", *OTHERS))
ORDERED = name_rows(EQUAL, ("learned",), ("_plain", "_padded", "_operands", "_reversed"))
ORDERED += name_rows(EQUAL, ("abacus_no_gap",))
SPELT = (*ORDERED, f"{EQUAL}_learned_spaces")
WORDED = name_rows(EQUAL, ("learned",), ("_plain", "_worded"))
UNCERTAIN = name_rows(EQUAL, ("learned", "learned_spaces", "abacus_no_gap"))
COMPARED = tuple(f"{EQUAL}_{name}" for name in positions_and_formats.STATED)
HIGHEST_FIRST = name_rows(
    EQUAL, ("learned",), ("_plain", "_padded", "_operands", "_spaces", "_worded")
)
# Titles of rows that differ only in their format.
SPELLINGS = {
    f"{EQUAL}_learned_reversed": "answer reversed",
    f"{EQUAL}_learned_plain": "nothing reversed",
    f"{EQUAL}_learned_padded": "nothing reversed, leading zeros",
    f"{EQUAL}_learned_operands": "operands reversed",
    f"{EQUAL}_learned_spaces": "nothing reversed, random spaces",
    f"{EQUAL}_learned_baseline": "answer reversed",
    f"{EQUAL}_learned_worded": "steps in words",
    f"{EQUAL}_abacus_no_gap": "Abacus, both reversed",
}
TITLES = {
    f"{EQUAL}_learned": "Learned index, answer reversed",
    f"{EQUAL}_learned_spaces": "Learned index, random spaces",
}
METHODS = {
    f"{EQUAL}_learned_plain": "Learned index",
    f"{EQUAL}_learned_reversed": "answer reversed",
    f"{EQUAL}_learned_worded": "steps in words",
    f"{EQUAL}_learned_padded": "leading zeros",
    f"{EQUAL}_learned_spaces": "random spaces",
    f"{EQUAL}_abacus_no_gap": "Abacus",
}
BY_LENGTH = (
    "Exact match on answers by the number of digits of both operands; the background shows the "
    f"trained lengths. {BARS_CAPTION}"
)
KINDS = (
    "Decoded answers of all seeds, compared with the targets; the strip below shows the trained "
    "lengths."
)

FAIL = {
    "one_digit_beyond": Entry(
        "One digit beyond training",
        "A sum of a trained length and a longer sum, with ids in plain order. Frames mark tokens "
        "that no sum of one to three digits has at their id: dashed, an id with another place or "
        "sign in training; solid, an id that training never shows.",
        lambda tables: numbering.draw_ids_beyond_training(),
        source=PAPER + "4.3.1",
    ),
    "absolute_by_length": Entry(
        "Learned positions by length",
        BY_LENGTH,
        lengths.draw_accuracy_by_length,
        (ABSOLUTE,),
        any_training_length=True,
        source=PAPER + "4.3.1 to 4.3.3",
    ),
    "aligned_by_length": Entry(
        "Random and aligned positions",
        BY_LENGTH + " All have the same data. Abacus ids count from the least significant digit, "
        "so its numbers are reversed; in the others nothing is.",
        lengths.draw_accuracy_by_length,
        (ALIGNED,),
        any_training_length=True,
        source=PAPER + "4.3.4",
    ),
    "encodings_by_length": Entry(
        "Other position encodings",
        BY_LENGTH,
        lengths.draw_accuracy_by_length,
        (ENCODINGS,),
        minimum_rows=2,
        any_training_length=True,
        source=PAPER + "2.1.4",
    ),
    "first_wrong_places": Entry(
        "Places of first errors",
        "Bars: the share of answers with their first wrong token at this place; the rest up to "
        "100% are correct. Line: correct digits under teacher forcing. Both are means, with "
        f"{INTERVALS}. Left to right in the order of writing, at an untrained length "
        "within the training range and at a length beyond it.",
        lambda tables: answers.draw_first_wrong_places(tables, HIGHEST_FIRST),
        (ALIGNED,),
        any_training_length=True,
        source=PAPER + "4.3.4, mistakes",
        table="places",
        column="first_wrong",
    ),
    "kinds_of_answers": Entry(
        "Kinds of answers",
        KINDS,
        answers.draw_answer_kinds,
        (ABSOLUTE + ALIGNED,),
        any_training_length=True,
        source=PAPER + "3.4",
        table="answer_kinds",
        column="count",
    ),
    "next_tokens": Entry(
        "Certainty of the next token",
        "Where a digit of the answer is due, after correct tokens: the probability of this digit, "
        "that of the end, and the entropy, in shares of that of equal probabilities. Lines are "
        "means over seeds, bands reach from the lowest seed to the highest. At the longest length "
        "of training, the next one, and the longest tested.",
        lambda tables: next_tokens.draw_next_tokens(tables, TITLES),
        (UNCERTAIN,),
        any_training_length=True,
        source=PAPER + "4.3.1, next-token uncertainty",
        table="next_tokens",
        column="entropy",
    ),
}

SPELLING = {
    "table_of_spellings": Entry(
        "One sum in every format",
        "The formats of training. Spaces have random places in each problem.",
        lambda tables: spellings.draw_sum_in_formats(),
        source=PAPER + "Table 4.1",
    ),
    "spelling_by_length": Entry(
        "Exact match by format",
        BY_LENGTH,
        lambda tables: lengths.draw_accuracy_by_length(tables, SPELLINGS),
        (SPELT,),
        any_training_length=True,
        source=PAPER + "4.4",
    ),
    "spelling_kinds": Entry(
        "Kinds of answers by format",
        KINDS,
        lambda tables: answers.draw_answer_kinds(tables, SPELLINGS),
        (SPELT,),
        any_training_length=True,
        source=PAPER + "4.4, 3.4",
        table="answer_kinds",
        column="count",
    ),
    "worded_by_length": Entry(
        "With the steps in words",
        BY_LENGTH + " After steps only the answer counts, as the model decodes it after its steps.",
        lambda tables: lengths.draw_accuracy_by_length(tables, SPELLINGS),
        (WORDED,),
        any_training_length=True,
        source=PAPER + "4.4.3",
    ),
    "worded_steps": Entry(
        "Errors by step, and the answer after them",
        "Bars: responses whose first wrong token is in this step, means over seeds; dark lines are "
        f"{INTERVALS}, dots are seeds. Line: responses in which the step is right, after correct "
        "tokens. Right, of decoded responses, by seed: the answer; the number that the "
        "digits of the steps spell; and whether these two are one.",
        worded_steps.draw_worded_steps,
        (name_rows(EQUAL, ("learned_worded",)),),
        source=PAPER + "4.4.3, scratchpad by step",
        table="scratchpads",
        column="agree",
    ),
    "positions_and_formats": Entry(
        "Positions and formats",
        "Exact match by number of digits: above, of the thesis, whose text trains on 1 to 7 digits "
        "(its settings also on 9, so that 8 is a length left out); below, of our smaller models. "
        + BARS_CAPTION,
        lambda tables: positions_and_formats.draw_positions_and_formats(tables, METHODS),
        (COMPARED,),
        minimum_rows=2,
        any_training_length=True,
        source=PAPER + "4.3.4",
    ),
}

ORDER = {
    "order_by_place": Entry(
        "Correct digits by place",
        "Sums of the longest trained length, at each snapshot of training: correct digits at each "
        f"place under teacher forcing, means with {INTERVALS}. Dashed: the "
        "carry out of the highest place, instead of an end or a leading zero.",
        lambda tables: learning.draw_learning_by_place(tables, HIGHEST_FIRST, SPELLINGS),
        (ORDERED,),
        any_training_length=True,
        source=PAPER + "4.4.2",
        table="order",
        column="correct",
    ),
    "order_reached": Entry(
        "The order of places",
        f"The first snapshot from which {learning.LEARNED:.0%} of the digits at a place stay "
        "correct, at the longest trained length. Dots are seeds, a line joins their medians; "
        "places are in the order of writing. A line that rises from left to right means that "
        "places are learned in the order of writing.",
        lambda tables: learning.draw_learned_steps(tables, HIGHEST_FIRST, SPELLINGS),
        (ORDERED,),
        any_training_length=True,
        source=PAPER + "4.4.2",
        table="order",
        column="correct",
    ),
    "losses_by_length": Entry(
        "Losses by length",
        "The mean loss of a token of the answer under teacher forcing, by number of digits, at "
        "each snapshot of training. Lines are means over seeds, bands reach from the lowest seed "
        "to the highest.",
        lambda tables: learning.draw_losses_by_length(tables, SPELLINGS),
        (ORDERED,),
        any_training_length=True,
        source=PAPER + "4.4.2, losses",
        table="losses",
        column="loss",
    ),
}

# The question and the entries of each notebook.
NOTEBOOKS = {
    "why_do_absolute_positions_fail": ("Why do absolute positions fail?", FAIL),
    "which_spelling_helps": ("Which spelling helps?", SPELLING),
    "in_which_order_are_digits_learned": ("In which order are digits learned?", ORDER),
}
