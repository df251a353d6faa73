"""The figures and tables of mcleish2024, drawn from our results.

A profile has some rows of an entry; the caption names the others. Values of the paper are drawn
where its text states them.
"""

from __future__ import annotations

from collections.abc import Iterable

from carry.plots import (
    accuracy,
    architectures,
    heatmaps,
    ingredients,
    load,
    numbering,
    rates,
    recurrences,
    regions,
    sharpness,
    sizes,
    starts,
)
from carry.plots.entry import (
    BARS_CAPTION,
    LEARNED_CAPTION,
    LINES_CAPTION,
    MEDIANS_CAPTION,
    Drawing,
    Entry,
    Rows,
    draw_missing,
    name_rows,
)

SCHEMES, ARCHITECTURES = ("nope", "fire", "abacus"), ("", "_injected", "_looped")
LENGTHS = ("_short", "", "_middle", "_long", "_longest")
LOOPS = ("_injected", "_looped", "_looped_4", "_looped_8", "_looped_16")

ALL = name_rows("addition", SCHEMES, ARCHITECTURES)
SIX = ("nope", "learned", "rope", "fire", "abacus", "coupled")
RATED, RATES = name_rows("addition", SIX), ("_slow", "_medium", "_fast")
LOGARITHM = {  # rows of the footing, and the same with logits that grow with the length
    f"addition_{name}{'_short' if name in ('abacus', 'coupled') else ''}": f"addition_{name}_log"
    for name in SIX
}
FOOTING = tuple(LOGARITHM)
ABACUS_LOOPS = name_rows("addition", ("abacus",), LOOPS)
LONGER = name_rows("addition", SCHEMES, ARCHITECTURES, LENGTHS)
WITHOUT_ABACUS = name_rows("addition", ("nope", "fire"), ARCHITECTURES)
DEPTHS = {"_shallow": "shallow", "": "of the usual depth", "_deep": "deep"}
DEPTH_ROWS = name_rows("addition", ("abacus",), LOOPS[:-1])
CHANGES = {
    "": "embedded input added before every layer",
    "_entrance": "embedded input added only at the entrance of the block",
    "_divided": "gradient divided by the number of recurrences",
    "_norm": "norm of word plus Abacus embeddings, as in the released code",
}
LOOPED = name_rows("addition", ("abacus",), LOOPS[1:])
# The profiles on two cores train these rows to the length of the other schemes.
SHORT = name_rows("addition", ("abacus",), ARCHITECTURES, ("_short",))
STANDARD_SHORT, _, LOOPED_SHORT = SHORT
MIXES = name_rows("addition", ("fire", "abacus_fire", "rope", "abacus_rope", "abacus"))
HINTED = name_rows("addition", ("randomized_fire_hints",), ("", "_ordered"))
SORTING = name_rows("sorting", ("fire", "abacus", "abacus_fire"))
SORTING_LOOPS = name_rows("sorting", ("abacus_fire",), ARCHITECTURES)

# Accuracies that the text of the paper states, by row and region. Addition was trained to 20 digits
# and scored to 100, sorting was trained to 10 numbers of 10 digits.
ADDITIONS_STATED = {
    ("addition_abacus", "out of distribution"): 0.929,
    ("addition_abacus_looped", "out of distribution"): 0.991,
}
LONG, MANY = "10 numbers\nof 30 digits", "30 numbers\nof 10 digits"
BOTH, HALF = "30 numbers\nof 30 digits", "20 numbers\nof 20 digits"
SORTING_STATED = {
    ("sorting_fire", LONG): 0.5532,
    ("sorting_abacus", LONG): 0.6863,
    ("sorting_abacus_fire", LONG): 0.6728,
    ("sorting_fire", MANY): 0.2135,
    ("sorting_abacus", MANY): 0.0967,
    ("sorting_abacus_fire", MANY): 0.2111,
    ("sorting_fire", BOTH): 0.0373,
    ("sorting_abacus", BOTH): 0.0265,
    ("sorting_abacus_fire", BOTH): 0.0448,
    ("sorting_fire", HALF): 0.1465,
    ("sorting_abacus", HALF): 0.0978,
    ("sorting_abacus_fire", HALF): 0.1691,
}
SORTING_LOOPS_STATED = {
    ("sorting_abacus_fire", BOTH): 0.0448,
    ("sorting_abacus_fire_injected", BOTH): 0.0384,
    ("sorting_abacus_fire_looped", BOTH): 0.0260,
}
SORTING_MINIMUM_STATED = {
    ("sorting_abacus_fire", BOTH): 0.4973,
    ("sorting_abacus_fire_injected", BOTH): 0.6009,
    ("sorting_abacus_fire_looped", BOTH): 0.6851,
}
MILLIONS = {1: 122, 2: 64, 4: 34, 8: 19, 16: 12}  # parameters, by recurrences


def _draw_bars(tables: load.ResultTables, **settings) -> Drawing:
    return regions.draw_accuracy_by_region(tables["cells"], **settings)


def _draw_heatmaps(tables: load.ResultTables) -> Drawing:
    return heatmaps.draw_accuracy_heatmaps(tables["cells"])


def _draw_additions(tables: load.ResultTables) -> Drawing:
    """Draw bars, with the paper's values if the sums have the paper's sizes."""
    cells = tables["cells"]
    largest = cells.loc[cells["set"] == "grid", "i"].max()
    comparable = (cells["trained"] == 20).all() and largest == 100
    return _draw_bars(tables, stated=ADDITIONS_STATED if comparable else None)


def _draw_sorting(stated: dict, hits: str = "exact"):
    """Return a drawing function for bars, with the paper's values if the sizes are the paper's."""

    def picture(tables: load.ResultTables) -> Drawing:
        comparable = (tables["cells"]["trained"] == 10).all()
        return _draw_bars(tables, hits=hits, stated=stated if comparable else None)

    return picture


def _draw_grouped(rows: Rows, headings: dict[str, str]):
    """Return a drawing function for bars of `rows` with each ending, grouped under its heading."""
    groups = {row + ending: heading for ending, heading in headings.items() for row in rows}

    def picture(tables: load.ResultTables) -> Drawing:
        present = load.list_rows(tables["cells"])
        headed = {row: groups.get(row, headings[""]) for row in present}  # or a row of SHORT
        order = sorted(present, key=lambda row: list(headings.values()).index(headed[row]))
        return _draw_bars(tables.select_rows(order), groups=headed)

    return picture


def _draw_training_lengths(tables: load.ResultTables) -> Drawing:
    families = {row + ending: row for row in ALL for ending in LENGTHS}
    return regions.draw_accuracy_by_training_length(tables["cells"], families)


def _draw_far(tables: load.ResultTables) -> Drawing:
    figure, table = accuracy.draw_accuracy_by_length(tables["cells"], far=True)
    if (table["trained"] == 20).all():
        for axes in figure.axes:
            axes.hlines(0.95, 20, 120, color="#222222", linewidth=1, linestyle=":")
            axes.text(21, 0.94, "the paper, to 120: at least 95%", va="top", fontsize="small")
    return figure, table


def _draw_logarithm(tables: load.ResultTables) -> Drawing:
    name = "logits times log of the length"
    return accuracy.draw_accuracy_with_change(tables["cells"], LOGARITHM, name)


def _draw_learning_rates(tables: load.ResultTables) -> Drawing:
    if not tables.has_rows("footing"):
        return draw_missing(
            "Schemes at several learning rates",
            ["the rows of the profile tuning"],
            profile="tuning",
        )
    families = {row + ending: row for row in RATED for ending in RATES}
    return rates.draw_accuracy_by_learning_rate(tables["footing"], families)


def _draw_sizes(tables: load.ResultTables) -> Drawing:
    if not tables.has_rows("sizes"):
        return draw_missing("mcleish2024, Table 3", ["numbers of parameters from its notebook"])
    return sizes.draw_parameter_counts(tables["sizes"], MILLIONS)


def _pair_rows(rows: Rows, ending: str) -> tuple[Rows, ...]:
    """Pair each row with the row whose name has an ending more."""
    return tuple((row, row + ending) for row in rows)


def _add_endings(rows: Rows, endings: Iterable[str]) -> tuple[Rows, ...]:
    """Return a group for each row: its name with each ending."""
    return tuple(tuple(row + ending for ending in endings) for row in rows)


PAPER = "mcleish2024, "
HEATMAPS_CAPTION = (
    f"averaged over seeds. The frame contains the lengths of training. {LEARNED_CAPTION}"
)

SCHEME = {
    "abacus_ids": Entry(
        "How a sum is numbered",
        "Plain order counts tokens; Abacus counts the digits of each number from the least "
        "significant. In training it starts at a random id, so that larger ids are learned too.",
        lambda tables: numbering.draw_ids_of_sum(4820, 197, ("index", "abacus")),
        source=PAPER + "Fig. 1",
    ),
    "scheme_by_region": Entry(
        "Schemes and architectures",
        "Exact match on sums, for every scheme as a standard decoder, with input injection before "
        f"every layer, and looped. {BARS_CAPTION} Diamonds are values that the paper's text "
        "states, for larger models.",
        _draw_additions,
        (ALL, FOOTING),
        minimum_rows=2,
        extra_rows=SHORT,
        source=PAPER + "Fig. 2",
    ),
    "one_footing": Entry(
        "Schemes at three learning rates",
        "The choice of the learning rate: three layers, trained to 5 digits for the same number of "
        "steps, from one kind of initialisation, at three rates. Sums out of distribution are of "
        "the validation band, 6 and 7 digits; other figures have other seeds. Points are moved "
        f"sideways, so that equal values are visible. {LINES_CAPTION}",
        _draw_learning_rates,
        (name_rows("addition", SIX, RATES),),
        source="the profile tuning",
        profile="tuning",
    ),
    "scheme_by_lengths": Entry(
        "Schemes and architectures, for every pair of lengths",
        f"Exact match on sums by the lengths of both operands, {HEATMAPS_CAPTION}",
        _draw_heatmaps,
        (ALL, FOOTING),
        minimum_rows=2,
        extra_rows=SHORT,
        source=PAPER + "Fig. 10",
    ),
    "hints_by_region": Entry(
        "Index hints",
        "Index hints are letters before each digit; equal letters mark equal places. They are "
        "consecutive letters of a list, which may continue from its end to its beginning (cyclic) "
        f"or may not (ordered). A correct answer has correct hints. {BARS_CAPTION}",
        _draw_bars,
        (HINTED,),
        extra_rows=("addition_fire", "addition_abacus", "addition_abacus_short"),
        source=PAPER + "Fig. 18",
    ),
    "hints_left_out": Entry(
        "The digits of the same answers",
        f"The same models; a correct answer has correct digits. {BARS_CAPTION}",
        lambda tables: _draw_bars(tables, hits="digits_right"),
        (HINTED,),
        source=PAPER + "Fig. 18, digits alone",
        column="digits_right",
    ),
}

LOOPING = {
    "three_architectures": Entry(
        "Standard, injected, looped",
        "All have a depth of four layers: the standard decoder, the decoder that adds its embedded "
        "input again before every layer, and the decoder that runs two layers twice.",
        lambda tables: architectures.draw_architectures(),
        source=PAPER + "Fig. 19",
    ),
    "weights": Entry(
        "Numbers of parameters",
        "Parameters of models of the paper's size and of equal depth. A layer counts once, with "
        "any number of recurrences. Diamonds are the paper's values, in whole millions.",
        _draw_sizes,
        source=PAPER + "Table 3",
    ),
    "loops_by_region": Entry(
        "Abacus: fewer layers, more recurrences",
        "All models have one depth; an injected model runs its block once. "
        f"{BARS_CAPTION} Diamonds are values that the paper's text states, for larger models.",
        _draw_additions,
        (ABACUS_LOOPS,),
        minimum_rows=2,
        stand_ins=(SHORT[1:],),
        source=PAPER + "Fig. 3",
    ),
    "loops_by_lengths": Entry(
        "Abacus: fewer layers, more recurrences, for every pair of lengths",
        f"Exact match on sums by the lengths of both operands, {HEATMAPS_CAPTION}",
        _draw_heatmaps,
        (ABACUS_LOOPS,),
        minimum_rows=2,
        stand_ins=(SHORT[1:],),
        source=PAPER + "Fig. 12",
    ),
    "loops_without_abacus": Entry(
        "Loops without Abacus",
        f"Exact match on sums, for ids in plain order and for models without ids. {BARS_CAPTION}",
        _draw_bars,
        (WITHOUT_ABACUS, name_rows("addition", ("nope", "fire"), ARCHITECTURES, ("_longest",))),
        minimum_rows=2,
        source=PAPER + "Fig. 7",
    ),
    "depth": Entry(
        "Shallower and deeper",
        "Abacus, with a smaller and a larger depth (layers times recurrences); the models of one "
        f"heading have one depth. {BARS_CAPTION}",
        _draw_grouped(DEPTH_ROWS, DEPTHS),
        _add_endings(DEPTH_ROWS, DEPTHS),
        minimum_rows=2,
        stand_ins=tuple(
            (f"addition_abacus_{name}_short", f"addition_abacus_{name}_deep")
            for name in ("injected", "looped")
        ),
        source=PAPER + "Fig. 15",
    ),
    "injection_and_gradient": Entry(
        "Injection and gradient of loops",
        "Looped Abacus, the same with input injection only at the entrance of the block, with the "
        "gradient of the block divided by its recurrences, and with a LayerNorm of the sum of word "
        f"and Abacus embeddings. {BARS_CAPTION}",
        _draw_grouped(LOOPED, CHANGES),
        _add_endings(LOOPED, CHANGES),
        minimum_rows=2,
        stand_ins=(
            (LOOPED_SHORT, "addition_abacus_looped_divided", "addition_abacus_looped_norm"),
        ),
        source=PAPER + "Fig. 16",
    ),
}

TRAINING_LENGTH = {
    "training_length_by_region": Entry(
        "Longer sums in training",
        "Sums out of distribution are longer than in training, up to the longest tested length, so "
        "that a longer training leaves fewer of them; the last panel has the same sums for all "
        "rows. Points are moved sideways, so that equal values are visible. "
        f"{LINES_CAPTION}",
        _draw_training_lengths,
        (LONGER,),
        minimum_rows=2,
        any_training_length=True,
        source=PAPER + "Fig. 8",
    ),
    "training_length_by_lengths": Entry(
        "Longer sums in training, for every pair of lengths",
        f"Exact match on sums by the lengths of both operands, {HEATMAPS_CAPTION}",
        _draw_heatmaps,
        (LONGER,),
        minimum_rows=2,
        any_training_length=True,
        source=PAPER + "Fig. 11",
    ),
}

STARTING = (  # rows whose accuracy depends on the id at which a sum starts
    ("addition_abacus", "addition_coupled", "addition_coupled_turned"),
    ("addition_abacus_20", "addition_abacus_looped_20", "addition_coupled_30"),
)
FAR = {
    "papers_lengths": Entry(
        "Trained to the papers' lengths",
        "Exact match on sums of two operands of one length; Abacus is trained to 20 digits, "
        "coupling to 30, as in mcleish2024 and by Cho et al. 2024. The lengths of training are "
        "shaded; the validation band just beyond them is not scored. The other panels have the "
        "rows that change with the start of ids: the best single one, chosen on trained lengths, "
        f"or the mean of next-token probabilities over all. {MEDIANS_CAPTION}",
        _draw_far,
        (
            name_rows("addition", ("abacus",), ("_20", "_injected_20", "_looped_20")),
            ("addition_coupled_30",),
        ),
        any_training_length=True,
        stand_ins=(
            name_rows("addition", ("abacus",), ("_looped", "_looped_far", "_injected", "")),
        ),
        source=PAPER + "Fig. 9",
        profile="long",
    ),
    "what_takes_ids_far": Entry(
        "What takes absolute ids far",
        "Each line is one model, trained to 10 digits, with one change: Abacus looped, and "
        "coupled. The references have attention logits that grow with the length. Lengths are "
        "multiples of the trained one, and predictions are averaged over all starts. Dots are "
        "seeds, moved up and down to be visible; bars are their median.",
        ingredients.draw_variants,
        source="ours, on the profile tuning",
        profile="tuning",
    ),
    "logits_with_length": Entry(
        "Attention logits that grow with the length",
        "Exact match on sums of two operands of one length, by six schemes on one footing, with "
        "attention logits as in the papers and with logits that are multiplied by the logarithm of "
        "the number of tokens, in training and evaluation. The lengths of training are shaded. "
        f"{MEDIANS_CAPTION}",
        _draw_logarithm,
        tuple(LOGARITHM.items()),
        minimum_rows=2,
        any_training_length=True,
        source="ours, on the profile baselines",
    ),
    "accuracy_by_sharpness": Entry(
        "Sharper attention at evaluation",
        "Exact match on sums of two operands of one length, by a factor on the attention logits of "
        "trained models. A dotted line is the factor that is chosen on the validation band just "
        "beyond training, of which the dashed line is the whole; the titles say what it gives on "
        "longer sums, next to factor 1: medians of the seeds. Thin lines are seeds, thick lines "
        "their median. Starts are the papers', or the mean of next-token probabilities over all.",
        lambda tables: sharpness.draw_accuracy_by_sharpness(tables["accuracy_by_sharpness"]),
        tuple(LOGARITHM.items()),
        any_training_length=True,
        source="ours, on the profile baselines",
        table="accuracy_by_sharpness",
        profile="baselines",
    ),
    "accuracy_by_start": Entry(
        "The id at which a sum starts",
        "Exact match on sums of two operands of one length, by their first id. Starts are all from "
        "which the sums fit the table of ids, or an even part of them; the papers start at 1. Thin "
        "lines are seeds, thick lines their median.",
        lambda tables: starts.draw_accuracy_by_start(tables["accuracy_by_start"]),
        STARTING,
        any_training_length=True,
        source=PAPER + "3.1, by start",
        table="accuracy_by_start",
        profile="full",
    ),
    "errors_by_start": Entry(
        "Which digits are wrong, by start",
        "The share of wrong tokens of the answer, the least significant digit first, each after "
        "the true tokens before it, by the id at which the sum starts; all seeds together.",
        lambda tables: starts.draw_errors_by_start(tables["errors_by_start"]),
        STARTING,
        any_training_length=True,
        source="ours, mcleish2024, 3.1",
        table="errors_by_start",
        column="wrong",
        profile="full",
    ),
    "attention_by_start": Entry(
        "Attention to tokens without an id, by start",
        "The mean attention of tokens that write the answer to signs, which have id 0, by the id "
        "at which the sum starts. Of each seed the head is drawn that attends to them most. Thin "
        "lines are seeds, thick lines their median.",
        lambda tables: starts.draw_attention_by_start(tables["attention_by_start"]),
        STARTING,
        any_training_length=True,
        source="ours, mcleish2024, 3.1",
        table="attention_by_start",
        column="without_id",
        profile="full",
    ),
}

ELSE = {
    "bitwise_or": Entry(
        "Bitwise OR",
        "Each operand is a string of bits; the answer is their bitwise OR, with the length of the "
        f"longer. {BARS_CAPTION}",
        _draw_bars,
        (name_rows("bitwise_or", SCHEMES, ARCHITECTURES),),
        source=PAPER + "Fig. 4",
    ),
    "multiplication": Entry(
        "Multiplication",
        "All models are looped, with input injection only at the entrance of the block. Exact "
        f"match on products by the lengths of both operands, {HEATMAPS_CAPTION}",
        _draw_heatmaps,
        (name_rows("multiplication", ("abacus", "fire", "abacus_fire"), ("_looped",)),),
        source=PAPER + "Fig. 5",
    ),
    "sorting_schemes": Entry(
        "Sorting: schemes",
        f"Exact match on sorted lists, of standard decoders. {BARS_CAPTION} Diamonds are the "
        "paper's values, for larger models.",
        _draw_sorting(SORTING_STATED),
        (SORTING,),
        source=PAPER + "Table 1",
    ),
    "sorting_architectures": Entry(
        "Sorting: architectures",
        f"Exact match on sorted lists, of Abacus with FIRE. {BARS_CAPTION} Diamonds are the "
        "paper's values, for larger models.",
        _draw_sorting(SORTING_LOOPS_STATED),
        (SORTING_LOOPS,),
        source=PAPER + "Table 2",
    ),
    "sorting_minimum": Entry(
        "Sorting: the least number",
        f"Answers that begin with the least number. {BARS_CAPTION} Diamonds are the paper's "
        "values, for larger models.",
        _draw_sorting(SORTING_MINIMUM_STATED, "first_right"),
        (SORTING_LOOPS,),
        source=PAPER + "Table 2",
        column="first_right",
    ),
}

MIXING = {
    "mixes_by_lengths": Entry(
        "Abacus with FIRE and RoPE, for every pair of lengths",
        "Panels with equal frames are comparable. Exact match on sums by the lengths of both "
        f"operands, {HEATMAPS_CAPTION}",
        _draw_heatmaps,
        (MIXES,),
        minimum_rows=2,
        extra_rows=(STANDARD_SHORT,),
        source=PAPER + "Fig. 6",
    ),
    "mixes_by_region": Entry(
        "Abacus with FIRE and RoPE",
        f"The same with intervals. {BARS_CAPTION}",
        _draw_bars,
        (MIXES,),
        minimum_rows=2,
        extra_rows=(STANDARD_SHORT,),
        source=PAPER + "Fig. 6, with intervals",
    ),
}

BREAKING = {
    "loss_on_everything": Entry(
        "Loss on the question too",
        "Each row, and the same row with a loss on all tokens for the same number of steps. The "
        f"digits of a question are random. {BARS_CAPTION}",
        _draw_bars,
        _pair_rows(name_rows("addition", SCHEMES, ("", "_looped")), "_everything"),
        minimum_rows=2,
        stand_ins=((STANDARD_SHORT, "addition_abacus_everything"),),
        source=PAPER + "Fig. 14",
    ),
    "random_padding": Entry(
        "Random padding in training",
        "Each row, and the same row with random padding in its training problems. Test problems "
        f"have no padding. {BARS_CAPTION}",
        _draw_bars,
        _pair_rows(name_rows("addition", SCHEMES, ("", "_looped")), "_noise"),
        minimum_rows=2,
        stand_ins=(
            (STANDARD_SHORT, "addition_abacus_noise"),
            (LOOPED_SHORT, "addition_abacus_looped_noise"),
        ),
        source=PAPER + "Fig. 17",
    ),
}

BETWEEN_ROWS = (*LOOPED, LOOPED_SHORT, "addition_abacus_looped_20")
BETWEEN = {
    "answer_by_recurrence": Entry(
        "One answer after each recurrence",
        "The next token under teacher forcing, if the model stops after a recurrence; wrong tokens "
        "are orange. The dashed line is the number of recurrences in training.",
        lambda tables: recurrences.draw_answer_by_recurrence(tables["answers"]),
        (BETWEEN_ROWS,),
        source=PAPER + "Fig. 13",
        table="answers",
        column="predicted",
    ),
    "places_by_recurrence": Entry(
        "The order of places",
        "Correct digits by place and recurrence, over many problems and all seeds, at the longest "
        "tested operands. The dashed line is the number of recurrences in training.",
        lambda tables: recurrences.draw_places_by_recurrence(tables["recurrences"]),
        (BETWEEN_ROWS,),
        source=PAPER + "Fig. 13, over many problems",
        table="recurrences",
        column="correct",
    ),
    "answers_stay": Entry(
        "Do answers stay?",
        "By recurrence, above: correct answers; below: answers that are the same after the "
        "previous recurrence. Thin lines are seeds, thick lines their median. A dot marks the "
        "number of recurrences in training.",
        lambda tables: recurrences.draw_whole_answers_by_recurrence(tables["recurrences"]),
        (BETWEEN_ROWS,),
        source=PAPER + "A.6.1",
        table="recurrences",
        column="correct",
    ),
}

# The question and the entries of each notebook.
NOTEBOOKS = {
    "does_the_scheme_matter": ("Does the position scheme matter?", SCHEME),
    "do_loops_matter": ("Do loops matter?", LOOPING),
    "does_training_length_matter": ("Does the length of training matter?", TRAINING_LENGTH),
    "how_far": ("How far does it go?", FAR),
    "what_else_can_it_do": ("What else can it do?", ELSE),
    "which_encodings_does_it_mix_with": ("Which encodings does it mix with?", MIXING),
    "what_breaks_it": ("What breaks it?", BREAKING),
    "what_happens_between_recurrences": ("What happens between recurrences?", BETWEEN),
}
