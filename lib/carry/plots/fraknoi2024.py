"""The figures of fraknoi2024, each drawn from what was measured here.

Its pictures cannot be copied; its Table 1 is set beside ours.
"""

from __future__ import annotations

from collections.abc import Callable

from carry.plots import by_hand, heads, load, majority, modular, subtasks
from carry.plots.entry import Drawing, Entry, lacking, names

PAPER = "fraknoi2024, "

# ---- Noisy majority ------------------------------------------------------------------------------
NOISY = "noisy_majority"
WAYS = ("", "_masked", "_svc", "_shapley")
LARGE, SMALL = names(NOISY, ("d32_a16",), WAYS), names(NOISY, ("d8_a4",), WAYS)
SMALLEST = (f"{NOISY}_d2_a1",)
SIZES = names(NOISY, ("d2_a1", "d4_a2", "d8_a4", "d16_a8", "d32_a16"))
FASTER = ("", "_rate_3e_3", "_rate_1e_2")
RATES = names(NOISY, ("d2_a1",), ("_rate_3e_4", *FASTER, "_rate_3e_2"))
RATES += names(NOISY, ("d2_a1_rms",), FASTER)

# Table 1: of 100 runs, how many have no error.
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
        "What heads find",
        "What the two best and the two worst heads of a model find in test strings, a dot each; "
        "arrows are the values of the tokens 0, 1 and 2, between which every dot lies. Above: how "
        "many test strings a line between the colours tells apart.",
        heads.outputs,
        (LARGE[:1],),
        source=PAPER + "Fig. 6",
        table="outputs",
        column="x",
    ),
    "head_ratios": Entry(
        "Where heads look",
        "How many times more a head looks at a zero than at a one, and than at a two. Each dot is "
        "one of the 16 heads of a model.",
        heads.ratios,
        (LARGE[:1],),
        source=PAPER + "Fig. 7",
        table="ratios",
        column="w01",
    ),
    "attention_by_hand": Entry(
        "Where heads could look",
        "What heads tell apart if their attention is set by hand, and their values are left as "
        "they are: the mean over the heads of three models, and shaded the middle half of them.",
        heads.by_hand,
        (LARGE[:1],),
        source=PAPER + "Fig. 8",
        table="by_hand",
        column="w01",
    ),
}

MATTER = {
    "pairs_apart": Entry(
        "What pairs of heads could tell",
        "Separation accuracy: how many test strings a line tells apart from what two heads find; "
        "on the diagonal, from what one does.",
        lambda tables: heads.pairs(tables, "separation"),
        (LARGE[:1],),
        source=PAPER + "Fig. 4",
        table="separations",
        column="separation",
    ),
    "pairs_said": Entry(
        "What the model says with two heads",
        "Learned accuracy: how many test strings the model has right if all heads but these two "
        "are zeroed; on the diagonal, all but one. Heads are in the order of what one alone says.",
        lambda tables: heads.pairs(tables, "learned"),
        (LARGE[:1],),
        source=PAPER + "Fig. 5",
        table="separations",
        column="learned",
    ),
    "sets_of_heads": Entry(
        "What one, two and three heads know",
        "The share of all sets of so many heads of one model that reach an accuracy.",
        heads.sets,
        (LARGE[:1],),
        source=PAPER + "5.4",
        table="separations",
        column="separation",
    ),
}

ENOUGH = {
    "models_by_size": Entry(
        "Accuracy by size of the model",
        "Strings right, of lengths 101 to 150 (validation) and 151 to 200 (test). Each dot is a "
        "model, bars are medians.",
        lambda tables: majority.spread(tables, majority.size),
        (SIZES,),
        across=True,
        source=PAPER + "Fig. 2",
    ),
    "models_by_rate": Entry(
        "Accuracy of one head by learning rate",
        "The same for models of one head and two features, and for such models with RMS norm: "
        "layer norm leaves of two features no more than which is larger, and by how little if they "
        "are almost equal.",
        lambda tables: majority.spread(tables, majority.rate),
        (RATES,),
        across=True,
        source=PAPER + "Fig. 3",
    ),
    "one_or_many": Entry(
        "One head or 64",
        "Left, the share of models that reach an accuracy; right, the share of single heads from "
        "which a line could tell so much, of all those models. Each has two features.",
        majority.one_or_many,
        (names(NOISY, ("d2_a1", "d2_a64")),),
        across=True,
        source=PAPER + "Fig. 9",
    ),
    "perfect_models": Entry(
        "How many models become perfect",
        "The share of models that have every test string right, which are half as long again as "
        "the longest of training and more. Lines are Wilson intervals (95%); diamonds are the "
        "thesis's shares of 100 runs. A model that was to be halved to one head and was not has "
        "failed.",
        lambda tables: majority.perfect(tables, STATED),
        (LARGE + SMALL + SMALLEST,),
        across=True,
        source=PAPER + "Table 1",
    ),
    "models_by_accuracy": Entry(
        "How many models reach an accuracy",
        "The share of models whose accuracy on the test strings is at least so much, from 98% on.",
        majority.reaching,
        (LARGE + SMALL + SMALLEST,),
        across=True,
        source=PAPER + "Fig. 11",
    ),
    "halvings": Entry(
        "Three models on their way to one head",
        "Accuracy on the held-out strings after each epoch; at each dashed line half of the heads "
        "are dropped.",
        majority.halvings,
        ((f"{NOISY}_d32_a16_svc",),),
        source=PAPER + "Fig. 10",
        table="curves",
    ),
}

# ---- Weights set by hand -------------------------------------------------------------------------


def _added(name: str, source: str) -> Callable[[load.Tables], Drawing]:
    """Return what draws a table that only its notebook adds."""

    def picture(tables: load.Tables) -> Drawing:
        table = getattr(tables, name)
        if table.empty:
            return lacking(PAPER + source, ["models set by hand, as their notebook makes them"])
        return getattr(by_hand, name)(table)

    return picture


BY_HAND = {
    "majority_range": Entry(
        "Where one head by hand is right",
        "The minimal model, for each N and up to each length of strings, in which the majority is "
        "decided by one: a cell is coloured if any of them is wrong. Left of the dashed line what "
        "leaks to other tokens outweighs one more one; right of the dotted one the threshold and a "
        "tie are less than a step of floating point apart; a sum of many terms may lose more. "
        "Strings are read token by token.",
        _added("majority_range", "5.3"),
        source=PAPER + "5.3",
    ),
    "circuit_steps": Entry(
        "A circuit, one gate a step",
        "What stands in each row is known at that step: the values of the inputs, and of the gates "
        "before. Marks are as large as the attention; behind the arrow stands what is said.",
        _added("circuit_steps", "Theorem 3.4"),
        source=PAPER + "Theorem 3.4",
    ),
    "circuit_bits": Entry(
        "How many bits are enough",
        "Gates that are said wrong, given the right ones before, with every number of the pass "
        "rounded to so many bits. The largest number has to be at least 2, and a wrong key must "
        "not leak; else such numbers are refused.",
        _added("circuit_bits", "Theorem 3.4"),
        source=PAPER + "Theorem 3.4, constant-bit precision",
    ),
}

# ---- Modular addition ----------------------------------------------------------------------------
PRIME = ("modular_addition_113",)
THOUSAND = names("modular_addition", ("1000",), ("_one_hot", "_digits", "_binary"))

GROKS = {
    "grokking": Entry(
        "Memorised first, understood later",
        "Answers right and losses, on the pairs that training sees and on all others (shaded: "
        "Wilson intervals, 95%). Restricted: of the logits, only their waves in a + b at the key "
        "frequencies; excluded: without these. A model has memorised when 99% of the pairs of "
        "training are right; its circuit has formed when the restricted loss is a tenth of what "
        "it was before training, when the model guessed.",
        lambda tables: modular.grokking(tables.progress),
        (PRIME,),
        source=PAPER + "section 4: three phases",
        table="progress",
        column="restricted",
    ),
    "frequencies": Entry(
        "Few frequencies are left",
        "The share of power at each frequency, over the numbers. Key frequencies are the fewest "
        "that have 95% of what cos(w (a + b - c)) explains of the logits, over all frequencies w.",
        lambda tables: modular.frequencies(tables.spectrum, tables.key_frequencies),
        (PRIME,),
        source=PAPER + "section 4: embedding and neuron-to-logit map",
        table="spectrum",
        column="share",
    ),
    "circles": Entry(
        "Numbers on circles",
        "The embedding of each number in the plane of the cosine and the sine of a key frequency, "
        "as it is fitted to the other half of the numbers, even or odd; of the first seed. Where "
        "that half tells nothing, numbers lie about 0. The colour is the angle that the number "
        "should have.",
        lambda tables: modular.circles(tables.circles, tables.key_frequencies),
        (PRIME,),
        source=PAPER + "section 4: numbers on a circle",
        table="circles",
        column="x",
    ),
    "encodings_mod_1000": Entry(
        "How a number is written",
        "Sums modulo 1,000, wholly right, by how numbers are written. Thin lines are seeds, thick "
        "ones their median.",
        lambda tables: modular.encodings(tables.progress),
        (THOUSAND,),
        across=True,
        source=PAPER + "section 4: binary and one-hot",
        table="progress",
        column="accuracy",
    ),
    "equal_sums": Entry(
        "Is 123 + 456 near 291 + 288, or near 579?",
        "Mean cosine of what the model has at the equals sign with the same of an equal sum and of "
        "another, and with the embedding of its number and of another (means taken off first), on "
        "pairs that training does not see. Bars are means over seeds, dots are the seeds, lines "
        "their intervals (95%).",
        lambda tables: modular.equal_sums(tables.nearness),
        (THOUSAND + PRIME,),
        across=True,
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
        "Left, digits right by what they take, given the truth before them; right, whole sums by "
        "through how many places of nine a carry goes (99999 + 00001: four). Thin lines are seeds, "
        "thick ones all together, with Wilson intervals (95%).",
        subtasks.by_step,
        (FIVE_DIGITS,),
        source=PAPER + "section 4",
        table="subtasks",
        column="correct",
    ),
    "subtasks_by_place": Entry(
        "Sub-tasks by place",
        "The same digits by where they stand; all seeds together.",
        subtasks.by_place,
        (FIVE_DIGITS,),
        source=PAPER + "section 4",
        table="subtasks",
        column="correct",
    ),
}

# By notebook: the question that it asks, and its entries.
NOTEBOOKS = {
    "what_does_one_head_do": ("What does one head do?", ONE_HEAD),
    "which_heads_matter": ("Which heads matter?", MATTER),
    "can_one_head_be_enough": ("Can one head be enough?", ENOUGH),
    "can_it_be_set_by_hand": ("Is it possible at all?", BY_HAND),
    "how_does_modular_addition_grok": ("How does modular addition grok?", GROKS),
    "which_subtask_comes_last": ("Which sub-task comes last?", LAST),
}
