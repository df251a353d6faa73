"""Figures for the questions of ibrahimli2024 about activations, sub-tasks and depth.

Its figures are pictures; the runs of its experiment 27 (4.5) are drawn next to ours.
"""

from __future__ import annotations

from carry.plots import alignment, depths, inside, parts, parts_by_size, patching, thesis_runs
from carry.plots.entry import INTERVALS, Entry, name_rows

PAPER = "ibrahimli2024, "
EQUAL = "addition_equal"
TWO_MODELS = "Left, a model whose ids are places of digits; right, a model that counts tokens. "

# ---- What happens inside -------------------------------------------------------------------------
MODELS = name_rows(EQUAL, ("abacus", "learned"))

WITHIN = {
    "digits_to_add": Entry(
        "Do heads find the digits to add?",
        "Attention of the head with the largest share on the digits to add, at the longest length "
        "of training and one digit beyond; the axes show the tokens of one problem. Of the first "
        "seed of each row.",
        alignment.draw_alignment_maps,
        (MODELS,),
        any_training_length=True,
        source=PAPER + "4.3.4: attention maps",
        table="attention",
        column="weight",
    ),
    "alignment_scores": Entry(
        "Alignment of digits",
        "For each head the share of its attention on the digits to add: filled at the longest "
        "length of training, open one digit beyond.",
        alignment.rank_heads,
        (MODELS,),
        any_training_length=True,
        source=PAPER + "4.3.4: digit alignment",
        table="heads",
        column="share",
    ),
    "lens_by_place": Entry(
        "Predictions after each layer",
        TWO_MODELS + "Correct digits of the answer (%) if the model's output layer reads the "
        "residual stream there, under teacher forcing; means over seeds.",
        inside.draw_lens,
        (MODELS,),
        any_training_length=True,
        source=PAPER + "4.3: where mistakes happen",
        table="lens",
        column="correct",
    ),
    "probes_by_layer": Entry(
        "Linear probes of steps",
        "Accuracy of a linear map from the residual stream to each step at the written place, on "
        f"held-out problems. Means over seeds, with {INTERVALS}; dots are seeds.",
        inside.draw_probes,
        (MODELS,),
        any_training_length=True,
        source=PAPER + "4.3: digit alignment as the root",
        table="probes",
        column="correct",
    ),
    "heads_ablated": Entry(
        "The effect of each head",
        "The loss in correct digits (percentage points) by sub-task, if the output of a head is "
        "replaced with its mean over problems; at the longest length of training. Heads of two "
        "seeds with one number are unrelated.",
        inside.draw_head_ablations,
        (MODELS,),
        any_training_length=True,
        source=PAPER + "4.5: sub-tasks",
        table="head_ablations",
        column="correct",
    ),
    "carry_patched": Entry(
        "Activations that carry the carry",
        TWO_MODELS + "Answers (%) that flip if one activation is taken from the problem's "
        "twin, which differs in the carry into this place and in the digit one place lower. Pairs "
        "count if the model is correct on both. Activations that no other token reads are grey.",
        patching.draw_flipped,
        (MODELS,),
        any_training_length=True,
        source=PAPER + "4.5: carry detection",
        table="patches",
        column="flipped",
    ),
    "carry_confirmed": Entry(
        "Is it the carry?",
        "Cells at which half of the answers flip, tested again with other twins and with control "
        "twins, which differ in the same digit and in no carry. Cells of all places are pooled; in "
        f"brackets, the number of places and seeds. Lines are {INTERVALS}.",
        patching.draw_confirmed,
        (MODELS,),
        any_training_length=True,
        source=PAPER + "4.5: carry detection, confirmed",
        table="confirmed",
        column="flipped",
    ),
}

# ---- Additions alone, and their parts ------------------------------------------------------------
LEARNED, ABACUS = (
    name_rows(EQUAL, ("alone", "parts")),
    name_rows(EQUAL, ("abacus",), ("_alone", "_parts")),
)
FEW, WIDTHS = ("10k", "100k", "1m", "10m"), (64, 128, 256, 512, 1024, 1536)
BY_SIZE = tuple(
    name_rows(EQUAL, ("alone", "parts"), (f"_{count}_width_{width}",))
    for count in FEW
    for width in WIDTHS
)

WHOLE = {
    "parts_by_digits": Entry(
        "Additions alone, or with their parts",
        "Exact match on sums by number of digits, of models with one number of training problems: "
        "additions alone, or one addition in five problems and its parts. Bars are "
        f"{INTERVALS}, dots are seeds.",
        parts.draw_parts_by_digits,
        (LEARNED, ABACUS),
        minimum_rows=2,
        any_training_length=True,
        source=PAPER + "4.5.1",
    ),
    "parts_differences": Entry(
        "Do the parts help?",
        "The gain in correct sums with the parts (percentage points), averaged over seeds. Lines "
        "are Welch's intervals over seeds (95%), at least Newcombe's of all problems; p is of a "
        "two-sided permutation test over seeds, at least 0.008 for five seeds of each and 0.33 for "
        "two.",
        parts.draw_differences,
        (LEARNED, ABACUS),
        minimum_rows=2,
        any_training_length=True,
        source=PAPER + "4.5.1: addition-only or mixed",
        table="losses",
        column="loss",
    ),
    "parts_each": Entry(
        "Which part is hard?",
        "Exact match on responses by number of digits, of the models with all five parts. Bars are "
        f"{INTERVALS}.",
        parts.draw_each_part,
        (name_rows(EQUAL, ("parts",)), name_rows(EQUAL, ("abacus",), ("_parts",))),
        any_training_length=True,
        source=PAPER + "4.5.2: sub-tasks",
        table="parts",
        column="exact",
    ),
    "parts_losses": Entry(
        "Losses in and out of distribution",
        "Loss of a token of the sum under teacher forcing, and exact match on sums, over training. "
        "Thin lines are seeds, thick lines their median. In a second descent the loss would rise "
        "and fall again.",
        parts.draw_losses_of_parts,
        (LEARNED, ABACUS),
        minimum_rows=2,
        any_training_length=True,
        source=PAPER + "4.5.1: losses of validation",
        table="losses",
        column="loss",
    ),
    "parts_by_size": Entry(
        "By width and number of problems",
        "Correct sums (%), and their change with the parts (percentage points), by the width of "
        "the model and the number of training problems. Framed: p below 0.05 in a permutation test "
        "over seeds for one cell, so that one in twenty would be framed by chance.",
        parts_by_size.draw_size_grid,
        BY_SIZE,
        minimum_rows=2,
        any_training_length=True,
        source=PAPER + "4.5: widths and scales",
    ),
    "runs_exact": Entry(
        "Accuracy by width, in the thesis and here",
        "Exact match of the thesis' runs (trained on 1 to 7 and 9 digits; 8, 10 and 11) and of "
        "ours, which have fewer digits, by width and number of training problems. Points are runs, "
        "lines join the means over seeds.",
        lambda tables: thesis_runs.draw_runs_by_width(tables, "exact"),
        source=PAPER + "4.5.1, experiment 27",
    ),
    "runs_loss": Entry(
        "Loss by width, in the thesis and here",
        "Loss of a token of the answer, of the same runs. Lines join the geometric means over "
        "seeds.",
        lambda tables: thesis_runs.draw_runs_by_width(tables, "loss"),
        source=PAPER + "4.5.1, loss by width",
    ),
    "runs_paired": Entry(
        "Pairs of runs",
        "How far runs with sub-tasks are ahead of runs on additions alone. Runs of the thesis with "
        "the same width, problems and seed are a pair (ticks), in the second line of each length "
        "those of which both have learned the trained lengths (99%). Dots are means, with t "
        "intervals over pairs (95%); p is of a one-sided permutation of signs. Ours: means of "
        "seeds that have learned, if there are, with Welch's interval and a permutation test over "
        "seeds.",
        thesis_runs.draw_pairs,
        source=PAPER + "4.5.1, experiment 27, paired",
    ),
}

# ---- How deep tokens go --------------------------------------------------------------------------
ADAPTIVE = name_rows(EQUAL, ("abacus_adaptive",))

DEEP = {
    "depth_by_digit": Entry(
        "Depth of digits",
        "Recurrences of a digit of the answer, and below the share of correct digits under teacher "
        "forcing. Filled: the mean by the weights with which the recurrences are read. Dotted: the "
        f"maximum of training. Lines are {INTERVALS}, dots are seeds. The loss counts 0.01 for "
        "each recurrence.",
        depths.draw_depths,
        (ADAPTIVE,),
        source=PAPER + "2.1.3: adaptive computation time",
        table="depths",
        column="depth",
    ),
    "depth_allowed": Entry(
        "More recurrences, or fewer",
        "Exact match on sums by the maximum of recurrences in evaluation; dotted: the maximum of "
        f"training. Bars are {INTERVALS}, dots are seeds.",
        depths.draw_recurrences,
        (ADAPTIVE + name_rows(EQUAL, ("abacus_adaptive_dear", "abacus_looped")),),
        any_training_length=True,
        source=PAPER + "2.1.3: recurrences",
        table="recurrences",
        column="accuracy",
    ),
}

# The question and the entries of each notebook.
NOTEBOOKS = {
    "what_happens_inside": ("What happens inside?", WITHIN),
    "do_the_parts_teach_the_whole": ("Do the parts teach the whole?", WHOLE),
    "how_deep_does_it_go": ("How deep does it go?", DEEP),
}
