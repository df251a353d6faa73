"""The figures of fraknoi2024, drawn from our results, with the values of its Table 1."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from carry.plots import constructed_models, heads, load, majority, modular, subtasks
from carry.plots.entry import INTERVALS, Drawing, Entry, draw_missing, name_rows

PAPER = "fraknoi2024, "

# ---- Noisy majority ------------------------------------------------------------------------------
NOISY = "noisy_majority"
WAYS = ("", "_masked", "_svc", "_shapley")
LARGE, SMALL = name_rows(NOISY, ("d32_a16",), WAYS), name_rows(NOISY, ("d8_a4",), WAYS)
SMALLEST = (f"{NOISY}_d2_a1",)
SIZES = name_rows(NOISY, ("d2_a1", "d4_a2", "d8_a4", "d16_a8", "d32_a16"))
FASTER = ("", "_rate_3e_3", "_rate_1e_2")
RATES = name_rows(NOISY, ("d2_a1",), ("_rate_3e_4", *FASTER, "_rate_3e_2"))
RATES += name_rows(NOISY, ("d2_a1_rms",), FASTER)

# Table 1: the share of 100 runs without an error.
STATED = {
    f"{NOISY}_d32_a16": 0.34,
    f"{NOISY}_d32_a16_svc": 0.35,
    f"{NOISY}_d32_a16_masked": 0.26,
    f"{NOISY}_d8_a4": 0.09,
    f"{NOISY}_d8_a4_shapley": 0.19,
    f"{NOISY}_d8_a4_svc": 0.13,
    f"{NOISY}_d8_a4_masked": 0.07,
    f"{NOISY}_d2_a1": 0.02,
}

ONE_HEAD = {
    "head_outputs": Entry(
        "Outputs of heads",
        "Outputs of the two best and the two worst heads of a model, one dot for each test string; "
        "arrows are the values of the tokens 0, 1 and 2, and every dot lies between them. Above: "
        "the share of test strings that a line between the colours separates.",
        heads.draw_head_outputs,
        (LARGE[:1],),
        source=PAPER + "Fig. 6",
        table="outputs",
        column="x",
    ),
    "head_ratios": Entry(
        "Attention ratios of heads",
        "Ratios of a head's attention to a zero over a one, and over a two. Each dot is one of the "
        "16 heads of a model.",
        heads.draw_attention_ratios,
        (LARGE[:1],),
        source=PAPER + "Fig. 7",
        table="ratios",
        column="w01",
    ),
    "attention_by_hand": Entry(
        "Other attention ratios",
        "Separation accuracy of heads with constructed attention and trained values: the mean over "
        "the heads of three models; their middle half is shaded.",
        heads.draw_constructed_separations,
        (LARGE[:1],),
        source=PAPER + "Fig. 8",
        table="by_hand",
        column="w01",
    ),
}

MATTER = {
    "pairs_apart": Entry(
        "Separation accuracy of pairs of heads",
        "Separation accuracy: the share of test strings that a line separates, given the outputs "
        "of two heads; on the diagonal, of one head.",
        lambda tables: heads.draw_head_pairs(tables, "separation"),
        (LARGE[:1],),
        source=PAPER + "Fig. 4",
        table="separations",
        column="separation",
    ),
    "pairs_said": Entry(
        "Learned accuracy of pairs of heads",
        "Learned accuracy: the accuracy of the model if all heads but two are zeroed; on the "
        "diagonal, all but one. Heads are sorted by the learned accuracy of one head.",
        lambda tables: heads.draw_head_pairs(tables, "learned"),
        (LARGE[:1],),
        source=PAPER + "Fig. 5",
        table="separations",
        column="learned",
    ),
    "sets_of_heads": Entry(
        "Sets of one, two and three heads",
        "The share of all sets of one, two or three heads of one model that reach an accuracy.",
        heads.draw_head_sets,
        (LARGE[:1],),
        source=PAPER + "5.4",
        table="separations",
        column="separation",
    ),
}

ENOUGH = {
    "models_by_size": Entry(
        "Accuracy by size of the model",
        "Accuracy on strings of lengths 101 to 150 (validation) and 151 to 200 (test). Each dot is "
        "a model, bars are medians.",
        lambda tables: majority.draw_accuracy_spread(tables, majority.label_size),
        (SIZES,),
        any_training_length=True,
        source=PAPER + "Fig. 2",
    ),
    "models_by_rate": Entry(
        "Accuracy of one head by learning rate",
        "The same for models of one head and two features, and for such models with RMS norm. "
        "Layer norm of two features keeps only the sign of their difference, and its size if it is "
        "small.",
        lambda tables: majority.draw_accuracy_spread(tables, majority.label_rate),
        (RATES,),
        any_training_length=True,
        source=PAPER + "Fig. 3",
    ),
    "one_or_many": Entry(
        "One head or 64",
        "Left, the share of models that reach an accuracy; right, the share of single heads of "
        "all these models whose separation accuracy reaches it. Each model has two features.",
        majority.draw_one_or_many_heads,
        (name_rows(NOISY, ("d2_a1", "d2_a64")),),
        any_training_length=True,
        source=PAPER + "Fig. 9",
    ),
    "perfect_models": Entry(
        "How many models become perfect",
        "The share of models without an error on the test strings, which are at least 1.5 times as "
        "long as the longest of training. Lines are Wilson intervals (95%); diamonds are the "
        "thesis's shares of 100 runs. A model counts as failed if halving did not reach one head.",
        lambda tables: majority.draw_perfect_shares(tables, STATED),
        (LARGE + SMALL + SMALLEST,),
        any_training_length=True,
        source=PAPER + "Table 1",
    ),
    "models_by_accuracy": Entry(
        "How many models reach an accuracy",
        "The share of models that reach an accuracy on the test strings, from 98%.",
        majority.draw_reached_accuracy,
        (LARGE + SMALL + SMALLEST,),
        any_training_length=True,
        source=PAPER + "Fig. 11",
    ),
    "halvings": Entry(
        "Three models during halving to one head",
        "Accuracy on the held-out strings after each epoch; at each dashed line half of the heads "
        "are dropped.",
        majority.draw_halvings,
        ((f"{NOISY}_d32_a16_svc",),),
        source=PAPER + "Fig. 10",
        table="curves",
    ),
}

# ---- Constructed weights -------------------------------------------------------------------------


def _draw_construction(
    name: str, draw: Callable[[pd.DataFrame], Drawing], source: str
) -> Callable[[load.ResultTables], Drawing]:
    """Return a drawing function for a table that only its notebook adds."""

    def picture(tables: load.ResultTables) -> Drawing:
        if not tables.has_rows(name):
            return draw_missing(PAPER + source, ["constructed models from their notebook"])
        return draw(tables[name])

    return picture


CONSTRUCTED = {
    "majority_range": Entry(
        "The range of one constructed head",
        "The minimal model, for each N and each longest length, on strings with a majority of one: "
        "a cell has a colour if any string is wrong. Left of the dashed line, attention to other "
        "tokens outweighs one more one; right of the dotted line, threshold and tie are less than "
        "one floating point step apart; a sum of many terms may lose more. Strings are read token "
        "by token.",
        _draw_construction("majority_range", constructed_models.draw_majority_range, "5.3"),
        source=PAPER + "5.3",
    ),
    "circuit_steps": Entry(
        "A circuit, one gate for each step",
        "Each row has the values at one step: of the inputs and of the earlier gates. The size of "
        "a mark is the attention; the prediction follows the arrow.",
        _draw_construction("circuit_steps", constructed_models.draw_circuit_steps, "Theorem 3.4"),
        source=PAPER + "Theorem 3.4",
    ),
    "circuit_bits": Entry(
        "The number of bits that suffices",
        "Wrong gates under teacher forcing, if every number of the pass is rounded to a number of "
        "bits. The largest number has to be at least 2, and wrong keys must get no attention; else "
        "the format is refused.",
        _draw_construction("circuit_bits", constructed_models.draw_circuit_bits, "Theorem 3.4"),
        source=PAPER + "Theorem 3.4, constant-bit precision",
    ),
}

# ---- Modular addition ----------------------------------------------------------------------------
PRIME = ("modular_addition_113",)
THOUSAND = name_rows("modular_addition", ("1000",), ("_one_hot", "_digits", "_binary"))

GROKS = {
    "grokking": Entry(
        "Memorised first, understood later",
        "Accuracy and loss, on the pairs of training and on all others (shaded: Wilson intervals, "
        "95%). Restricted: only the components of the logits in a + b at the key frequencies; "
        "excluded: without these. A model has memorised when 99% of the pairs of training are "
        "correct; its circuit has formed when the restricted loss is a tenth of its value before "
        "training.",
        lambda tables: modular.draw_grokking(tables["progress"]),
        (PRIME,),
        source=PAPER + "section 4: three phases",
        table="progress",
        column="restricted",
    ),
    "frequencies": Entry(
        "Few frequencies remain",
        "The share of power at each frequency, over the numbers. Key frequencies are the fewest "
        "frequencies w whose cos(w (a + b - c)) have 95% of the variance of the logits that all "
        "frequencies explain.",
        lambda tables: modular.draw_frequencies(tables["spectrum"], tables["key_frequencies"]),
        (PRIME,),
        source=PAPER + "section 4: embedding and neuron-to-logit map",
        table="spectrum",
        column="share",
    ),
    "circles": Entry(
        "Numbers on circles",
        "The embedding of each number in the plane of the cosine and the sine of a key frequency, "
        "fitted to the other half of the numbers, even or odd; of the first seed. Numbers lie near "
        "0 if that half does not predict them. The colour is the expected angle of the number.",
        lambda tables: modular.draw_circles(tables["circles"], tables["key_frequencies"]),
        (PRIME,),
        source=PAPER + "section 4: numbers on a circle",
        table="circles",
        column="x",
    ),
    "encodings_mod_1000": Entry(
        "Encodings of numbers",
        "Exact match on sums modulo 1,000, by the encoding of numbers. Thin lines are seeds, thick "
        "lines their median.",
        lambda tables: modular.draw_number_encodings(tables["progress"]),
        (THOUSAND,),
        any_training_length=True,
        source=PAPER + "section 4: binary and one-hot",
        table="progress",
        column="accuracy",
    ),
    "equal_sums": Entry(
        "Is 123 + 456 near 291 + 288, or near 579?",
        "Mean cosine of the residual stream at the equals sign with that for an equal sum and for "
        "another sum, and with the embedding of its number and of another number (after "
        "subtracting means), on held-out pairs. Bars are means over seeds, dots are the seeds, "
        "lines their intervals (95%).",
        lambda tables: modular.draw_equal_sums(tables["nearness"]),
        (THOUSAND + PRIME,),
        any_training_length=True,
        source=PAPER + "section 4: equal sums",
        table="nearness",
        column="cosine",
    ),
}

# ---- Addition by sub-task ------------------------------------------------------------------------
FIVE_DIGITS = ("addition_five_digits",)

LAST = {
    "subtasks_by_step": Entry(
        "Sub-tasks over training",
        "Left, correct digits by sub-task, under teacher forcing; right, correct sums by the "
        "length of the cascade, the places of nine that a carry crosses (99999 + 00001: four). "
        f"Thin lines are seeds, thick lines their means, with {INTERVALS}.",
        subtasks.draw_subtasks_by_step,
        (FIVE_DIGITS,),
        source=PAPER + "section 4",
        table="subtasks",
        column="correct",
    ),
    "subtasks_by_place": Entry(
        "Sub-tasks by place",
        "The same digits by place; means over seeds.",
        subtasks.draw_subtasks_by_place,
        (FIVE_DIGITS,),
        source=PAPER + "section 4",
        table="subtasks",
        column="correct",
    ),
}

# The question and the entries of each notebook.
NOTEBOOKS = {
    "what_does_one_head_do": ("What does one head do?", ONE_HEAD),
    "which_heads_matter": ("Which heads matter?", MATTER),
    "can_one_head_be_enough": ("Can one head be enough?", ENOUGH),
    "can_it_be_set_by_hand": ("Is it possible at all?", CONSTRUCTED),
    "how_does_modular_addition_grok": ("How does modular addition grok?", GROKS),
    "which_subtask_comes_last": ("Which sub-task comes last?", LAST),
}
