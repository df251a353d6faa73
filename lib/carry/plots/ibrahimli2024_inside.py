"""Figures of ibrahimli2024's questions about the inside: what happens there, parts, and depth.

The thesis leaves these sections open (4.3.4, 4.5, 2.1.3), so none of its pictures is here.
"""

from __future__ import annotations

from carry.plots import alignment, depths, inside, parts, parts_by_size, patching
from carry.plots.entry import Entry, names

PAPER = "ibrahimli2024, "
EQUAL = "addition_equal"
BESIDE = "Left, a model whose ids say where digits stand; right, one that counts tokens. "

# ---- What happens inside -------------------------------------------------------------------------
MODELS = names(EQUAL, ("abacus", "learned"))

WITHIN = {
    "digits_to_add": Entry(
        "Do heads find the digits to add?",
        "Where the head looks that has most of its attention on the digits of the place that is "
        "written, at the longest length of training and one digit beyond; one problem's tokens "
        "stand on the axes. Of each row's first seed.",
        alignment.maps,
        (MODELS,),
        across=True,
        source=PAPER + "4.3.4: attention maps",
        table="attention",
        column="weight",
    ),
    "alignment_scores": Entry(
        "How well digits are aligned",
        "For each head the share of its attention on the digits to add, where they are due: filled "
        "at the longest length of training, open one digit beyond.",
        alignment.ranked,
        (MODELS,),
        across=True,
        source=PAPER + "4.3.4: digit alignment",
        table="heads",
        column="share",
    ),
    "lens_by_place": Entry(
        "What is known after each layer",
        BESIDE + "Digits of the answer right (%) if the residual stream is read there by the "
        "model's own logits, given the truth before them; all seeds together.",
        inside.lens,
        (MODELS,),
        across=True,
        source=PAPER + "4.3: where mistakes happen",
        table="lens",
        column="correct",
    ),
    "probes_by_layer": Entry(
        "Which steps can be read off",
        "What a linear map of the residual stream tells of each step at the place that is written, "
        "on problems that it has not learnt from. All seeds together with Wilson intervals (95%), "
        "dots are seeds.",
        inside.probes,
        (MODELS,),
        across=True,
        source=PAPER + "4.3: digit alignment as the root",
        table="probes",
        column="correct",
    ),
    "heads_ablated": Entry(
        "What each head is for",
        "By how many points fewer digits are right, by what they take, if what a head finds is "
        "replaced with its mean over problems; at the longest length of training. Heads of two "
        "seeds have nothing in common but their numbers.",
        inside.ablations,
        (MODELS,),
        across=True,
        source=PAPER + "4.5: sub-tasks",
        table="ablations",
        column="correct",
    ),
    "carry_patched": Entry(
        "Where a carry is",
        BESIDE + "Answers (%) that flip if one activation is that of the problem's twin, which "
        "differs in the carry into this place and in the digit below it. Pairs count if the model "
        "has both right. What no other token reads is grey.",
        patching.flipped,
        (MODELS,),
        across=True,
        source=PAPER + "4.5: carry detection",
        table="patches",
        column="flipped",
    ),
    "carry_confirmed": Entry(
        "Is it the carry?",
        "Cells at which half of the answers flip, asked again with other twins, and with control "
        "twins in which the same digit differs and no carry does. Cells of all places count "
        "together; in brackets, of how many places and seeds. Lines are Wilson intervals (95%).",
        patching.confirmed,
        (MODELS,),
        across=True,
        source=PAPER + "4.5: carry detection, confirmed",
        table="confirmed",
        column="flipped",
    ),
}

# ---- Additions alone, and their parts ------------------------------------------------------------
LEARNED, ABACUS = names(EQUAL, ("alone", "parts")), names(EQUAL, ("abacus",), ("_alone", "_parts"))
FEW, WIDTHS = ("10k", "100k", "1m", "10m"), (64, 128, 256, 512, 1024, 1536)
BY_SIZE = tuple(
    names(EQUAL, ("alone", "parts"), (f"_{count}_width_{width}",))
    for count in FEW
    for width in WIDTHS
)

WHOLE = {
    "parts_by_digits": Entry(
        "Additions alone, or with their parts",
        "Sums wholly right by their number of digits, of models that have seen as many problems: "
        "additions alone, or one addition in five and its parts. "
        "Bars are Wilson intervals (95%) of all seeds together, dots are seeds.",
        parts.by_digits,
        (LEARNED, ABACUS),
        least=2,
        across=True,
        source=PAPER + "4.5.1",
    ),
    "parts_differences": Entry(
        "Do the parts help?",
        "By how many points more sums are right with the parts, a mean over seeds. Lines go from "
        "every seed of one against every seed of the other, no narrower than Newcombe's interval "
        "(95%); p is of a permutation test over seeds, two-sided, no less than 0.008 for five "
        "seeds of each and 0.33 for two.",
        parts.differences,
        (LEARNED, ABACUS),
        least=2,
        across=True,
        source=PAPER + "4.5.1: addition-only or mixed",
        table="losses",
        column="loss",
    ),
    "parts_each": Entry(
        "Which part is hard?",
        "Responses wholly right by number of digits, of the models that have all five parts. Bars "
        "are Wilson intervals (95%) of all seeds together.",
        parts.each,
        (names(EQUAL, ("parts",)), names(EQUAL, ("abacus",), ("_parts",))),
        across=True,
        source=PAPER + "4.5.2: sub-tasks",
        table="parts",
        column="exact",
    ),
    "parts_losses": Entry(
        "Losses in and out of distribution",
        "Loss of a token of the sum, given the truth before it, and sums wholly right, over "
        "training. Thin lines are seeds, thick ones their median. A second descent would be a loss "
        "that rises and falls again.",
        parts.losses,
        (LEARNED, ABACUS),
        least=2,
        across=True,
        source=PAPER + "4.5.1: losses of validation",
        table="losses",
        column="loss",
    ),
    "parts_by_size": Entry(
        "By width and number of problems",
        "Sums right (%), and what the parts change (points), by the width of the model and the "
        "problems in training. Framed: p below 0.05 in a permutation test over seeds, for each "
        "cell by itself, so that one in twenty would be framed by chance.",
        parts_by_size.grid,
        BY_SIZE,
        least=2,
        across=True,
        source=PAPER + "4.5: widths and scales",
    ),
}

# ---- How deep tokens go --------------------------------------------------------------------------
ADAPTIVE = names(EQUAL, ("abacus_adaptive",))

DEEP = {
    "depth_by_digit": Entry(
        "How deep digits go",
        "Recurrences that a digit of the answer takes, and below it how many are right, given the "
        "truth before them. Filled: the mean by the weights with which the recurrences are read. "
        "Dotted: the most of training. Lines join all seeds together (95%), dots are seeds. The "
        "loss counts 0.01 for each recurrence that is taken.",
        depths.taken,
        (ADAPTIVE,),
        source=PAPER + "2.1.3: adaptive computation time",
        table="depths",
        column="depth",
    ),
    "depth_allowed": Entry(
        "More recurrences, or fewer",
        "Sums wholly right by how many recurrences tokens may take when asked; dotted: as in "
        "training. Bars are Wilson intervals (95%) of all seeds together, dots are seeds.",
        depths.rounds,
        (ADAPTIVE + names(EQUAL, ("abacus_adaptive_dear", "abacus_looped")),),
        across=True,
        source=PAPER + "2.1.3: recurrences",
        table="recurrences",
        column="accuracy",
    ),
}

# By notebook: the question that it asks, and its entries.
NOTEBOOKS = {
    "what_happens_inside": ("What happens inside?", WITHIN),
    "do_the_parts_teach_the_whole": ("Do the parts teach the whole?", WHOLE),
    "how_deep_does_it_go": ("How deep does it go?", DEEP),
}
