"""The figures of cho2025, drawn from our results.

A profile has some rows of an entry; the caption names the others. The text of the paper states few
values of its figures.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from carry.plots import attention, heatmaps, load, numbering, regions, scorings, steps, theorem
from carry.plots.entry import (
    BARS_CAPTION,
    LEARNED_CAPTION,
    MEDIANS_CAPTION,
    Drawing,
    Entry,
    Rows,
    draw_missing,
    name_rows,
)

PAPER = "cho2025, "
SUMS, PRODUCTS = "multi_operand_addition", "multiplication"
SCHEMES, WAYS = ("nope", "fire", "coupled"), ("", "_scratchpad")
BASE = f"{SUMS}_coupled_scratchpad"

ADDED = name_rows(SUMS, SCHEMES, ("",)) + name_rows(SUMS, SCHEMES, ("_scratchpad",))
STEPPED = name_rows(SUMS, SCHEMES, ("_scratchpad",))
PARITY = name_rows("parity", ("nope", "rope", "fire"), WAYS) + ("parity_coupled_scratchpad",)
PARITY_STEPPED = tuple(row for row in PARITY if row.endswith("_scratchpad"))
MULTIPLIED = name_rows(PRODUCTS, SCHEMES, ("",)) + name_rows(PRODUCTS, SCHEMES, ("_scratchpad",))
MULTIPLIED_STEPPED = name_rows(PRODUCTS, SCHEMES, ("_scratchpad",))

# The profile `full` trains BASE to longer sums than other rows, with one layer. FOOTING has layers,
# steps and sums of the other ways to write and number sums; ONE_LAYER is BASE with shorter sums.
FOOTING, ONE_LAYER = f"{BASE}_short", f"{BASE}_1l4h"

# Our rows: with spare zeros; and the same ids read relatively, with windows.
OUR_SUMS = (f"{BASE}_spare", f"{SUMS}_relative_scratchpad_spare")
OUR_PARITY = ("parity_relative_scratchpad",)

# Titles of coupled rows with a scratchpad, by the ending of the row's name.
LENGTHS = {"_short": "shorter", "": "as usual", "_long": "longer"}
ZEROS = {"": "leading zeros", "_unpadded": "no leading zeros"}
WRITTEN = {
    "": "answer reversed",
    "_reversed": "both reversed",
    "_plain": "nothing reversed",
    "_unpadded": "answer reversed, no zeros",
    "_unpadded_reversed": "both reversed, no zeros",
}
REFUSED = {
    "nothing reversed, no zeros": "refused: the first id of a number would reveal its length "
    "before the number is written"
}
FROM = {"": "sums from nothing", "_from_first": "sums from the first operand"}
SHAPES = {
    f"_{layers}l{heads}h": f"{layers} layer{'s' * (layers > 1)}, {heads} heads"
    for layers in (1, 2, 4, 6)
    for heads in (2, 4, 8)
}
SHAPES = {"" if ending == "_6l8h" else ending: title for ending, title in SHAPES.items()}
HEADS = {
    "_1l4h_narrow_heads": "4 heads, half as wide",
    "_1l4h": "4 heads",
    "_1l8h": "8 heads",
    "_1l8h_wide_heads": "8 heads, twice as wide",
}
WIDTHS = {f"_1l4h_width_{width}": f"width {width}" for width in (64, 128, 256, 512)}
PROBLEMS = {
    "_20k": "20,000 problems",
    "_100k": "100,000 problems",
    "": "the usual number of problems",
    "_2m": "2 million problems",
    "_10m": "10 million problems",
}

SIZES = ("digits of each operand, i", "operands, j")
MEDIAN = (
    "the median of the seeds. The frame contains the sizes of training; the title of each panel "
    f"has its worst cell, with the lowest and the highest seed. {LEARNED_CAPTION}"
)
SPREAD = "The same cells: accuracy of the best seed minus the worst."


def _make_group(titles: Mapping[str, str]) -> tuple[Rows]:
    """Return the rows of sums with given endings, as one group."""
    return (tuple(BASE + ending for ending in titles),)


def _draw_sums(titles: Mapping[str, str] | None = None, columns: int = 3, **settings):
    """Return a drawing function for heatmaps of sums, with titles by the ending of a row."""
    by_row = {BASE + ending: title for ending, title in (titles or {}).items()}
    settings = {"statistic": "median", "sizes": SIZES, "titles": by_row, **settings}

    def picture(tables: load.ResultTables) -> Drawing:
        return heatmaps.draw_accuracy_heatmaps(tables["cells"], columns=columns, **settings)

    return picture


def _draw_products(statistic: str):
    return lambda tables: heatmaps.draw_accuracy_heatmaps(
        tables["cells"], columns=3, statistic=statistic
    )


def _draw_bars(tables: load.ResultTables) -> Drawing:
    return regions.draw_accuracy_by_region(tables["cells"])


def _draw_shapes(tables: load.ResultTables) -> Drawing:
    titles = {BASE + ending: title for ending, title in SHAPES.items()}
    return regions.draw_accuracy_by_region(tables["cells"], titles=titles)


def _draw_steps(**settings):
    """Return a drawing function for accuracy by step."""

    def picture(tables: load.ResultTables) -> Drawing:
        starts = load.choose_starts(tables["cells"])
        unlearned = load.find_unlearned(tables["cells"], starts)
        return steps.draw_accuracy_by_step(tables["steps"], starts, unlearned=unlearned, **settings)

    return picture


def _draw_bits(tables: load.ResultTables) -> Drawing:
    """Draw accuracy by step, where each bit of a response is a step."""
    bits = tables["places"].rename(columns={"place": "step"})
    settings = {"length": "{0} bits", "times": (1.0, 1.75, 3.0, 5.0)}
    starts = load.choose_starts(tables["cells"])
    unlearned = load.find_unlearned(tables["cells"], starts)
    return steps.draw_accuracy_by_step(bits, starts, "bit", unlearned=unlearned, **settings)


def _draw_widths(tables: load.ResultTables) -> Drawing:
    if not tables.has_rows("widths"):
        return draw_missing(PAPER + "Theorem 4.1", ["constructed models from its notebook"])
    return theorem.draw_theorem_by_width(tables["widths"])


def _draw_sharpness(tables: load.ResultTables) -> Drawing:
    if not tables.has_rows("sharpness"):
        return draw_missing(PAPER + "Theorem 4.1", ["constructed models from its notebook"])
    return theorem.draw_theorem_by_sharpness(tables["sharpness"])


SCRATCHPAD = {
    "parity_ids": Entry(
        "A string, its parities, and their ids",
        "After the string, each step is the parity of all bits up to one bit; the last parity is "
        "the answer. A parity has the id of its last bit.",
        lambda tables: numbering.draw_ids_of_scratchpad("parity", "1010"),
        source=PAPER + "Fig. 2",
    ),
    "parity_by_length": Entry(
        "Parity, in three scores",
        "Left, the score of the paper: the last bit under teacher forcing. Middle: the last bit of "
        "the decoded response. Right: every token of the decoded response. Without a scratchpad "
        "the three are equal. Five lengths are pooled; those of training are shaded; dotted: a "
        f"guess. {MEDIANS_CAPTION}",
        lambda tables: scorings.draw_accuracy_by_scoring(
            tables["cells"], tables["places"], "bits of the string, up to", guess=0.5, width=5
        ),
        (PARITY,),
        extra_rows=OUR_PARITY,
        source=PAPER + "Fig. 3",
    ),
    "parity_by_place": Entry(
        "Where a long string goes wrong",
        "Above: correct parities under teacher forcing, by bit. Below: the share of strings with "
        f"their first error at this bit. {MEDIANS_CAPTION}",
        _draw_bits,
        (PARITY_STEPPED,),
        extra_rows=OUR_PARITY,
        source=PAPER + "Fig. 3, with details",
        table="places",
        column="correct",
    ),
    "sums_by_step": Entry(
        "Where a long sum goes wrong",
        "Above: correct running sums under teacher forcing; the first is the sum of no operand. "
        f"Below: the share of responses with their first error in this sum. {MEDIANS_CAPTION}",
        _draw_steps(step="running sum"),
        (STEPPED,),
        minimum_rows=2,
        extra_rows=(FOOTING, *OUR_SUMS),
        source=PAPER + "Fig. 1, with details",
        table="steps",
        column="correct",
    ),
}

COUPLING = {
    "sum_ids": Entry(
        "A sum, its running sums, and their ids",
        "At one level the digits of one place share an id, at the other an operand shares its id "
        "with the sum to which it is added. Signs have the id below the least significant digit.",
        lambda tables: numbering.draw_ids_of_scratchpad(SUMS, 57, 48, 96),
        source=PAPER + "Fig. 4",
    ),
    "sums_by_sizes": Entry(
        "Schemes, without and with steps",
        f"Exact match on responses, steps included: {MEDIAN}",
        _draw_sums(),
        (ADDED,),
        extra_rows=(FOOTING, *OUR_SUMS),
        source=PAPER + "Fig. 1",
    ),
    "sums_spread": Entry(
        "Differences between seeds",
        SPREAD,
        _draw_sums(statistic="spread"),
        (ADDED,),
        extra_rows=(FOOTING, *OUR_SUMS),
        source=PAPER + "Fig. 1, with details",
    ),
    "sums_by_region": Entry(
        "Schemes, with intervals",
        f"Exact match on responses, steps included. {BARS_CAPTION}",
        _draw_bars,
        (ADDED,),
        extra_rows=(FOOTING, *OUR_SUMS),
        source=PAPER + "Fig. 1, with details",
    ),
    "sums_by_training": Entry(
        "Longer sums in training, and more operands",
        f"Exact match on responses: {MEDIAN}",
        _draw_sums(LENGTHS | {"_1l4h": LENGTHS["_short"]}),
        _make_group(LENGTHS),
        minimum_rows=3,
        any_training_length=True,
        stand_ins=((ONE_LAYER, BASE),),
        source=PAPER + "Fig. 5",
    ),
    "sums_unpadded": Entry(
        "Without leading zeros",
        f"Exact match on responses: {MEDIAN} Without leading zeros the model has to predict the "
        "end of each number.",
        _draw_sums(ZEROS | {"_1l4h": ZEROS[""]}),
        _make_group(ZEROS),
        minimum_rows=2,
        stand_ins=((ONE_LAYER, f"{BASE}_unpadded"),),
        source=PAPER + "Fig. 6",
    ),
    "sums_by_format": Entry(
        "Six formats",
        f"Exact match on responses: {MEDIAN} Leading zeros give all numbers the length of the "
        "longest possible answer. The sixth format, nothing reversed and no zeros, is refused: the "
        "first id of a number would reveal its length before the number is written.",
        _draw_sums(WRITTEN | {"_1l4h": WRITTEN[""]}, empty=REFUSED),
        _make_group(WRITTEN),
        minimum_rows=2,
        stand_ins=((ONE_LAYER, f"{BASE}_unpadded"),),
        source=PAPER + "Fig. 14",
    ),
    "sums_from_first": Entry(
        "The first running sum",
        f"Exact match on responses: {MEDIAN} The steps begin with the sum of no operand, or with "
        "the first operand.",
        _draw_sums(FROM),
        _make_group(FROM),
        minimum_rows=2,
        source=PAPER + "4.1",
    ),
}

MULTIPLYING = {
    "product_ids": Entry(
        "A product, in two stages, and its ids",
        "First the product with each digit of the second number, then the running sums of these "
        "products, each shifted by one place. Three levels of ids couple the digits.",
        lambda tables: numbering.draw_ids_of_scratchpad(PRODUCTS, 37, 925),
        source=PAPER + "Fig. 8",
    ),
    "products_by_lengths": Entry(
        "Schemes, without and with steps",
        f"Exact match on responses, steps included: {MEDIAN}",
        _draw_products("median"),
        (MULTIPLIED,),
        source=PAPER + "Fig. 9",
    ),
    "products_spread": Entry(
        "Differences between seeds",
        SPREAD,
        _draw_products("spread"),
        (MULTIPLIED,),
        source=PAPER + "Fig. 9, with details",
    ),
    "products_by_region": Entry(
        "Schemes, with intervals",
        f"Exact match on responses, steps included. {BARS_CAPTION}",
        _draw_bars,
        (MULTIPLIED,),
        source=PAPER + "Fig. 9, with details",
    ),
    "products_by_step": Entry(
        "Where a long product goes wrong",
        "Above: correct numbers under teacher forcing. Below: the share of responses with their "
        f"first error in this number. The dotted line separates the stages. {MEDIANS_CAPTION}",
        _draw_steps(
            step="written number",
            length="{0} x {0} digits",
            halves=("products with one digit", "running sums"),
        ),
        (MULTIPLIED_STEPPED,),
        source=PAPER + "Fig. 9, with details",
        table="steps",
        column="correct",
    ),
}

SMALL = {
    "shapes": Entry(
        "Layers and heads",
        f"Exact match on sums with their steps: {MEDIAN} From above 1, 2, 4 and 6 layers, from the "
        "left 2, 4 and 8 heads that share the width.",
        _draw_sums(SHAPES),
        _make_group(SHAPES),
        minimum_rows=2,
        source=PAPER + "Fig. 10",
    ),
    "shapes_by_region": Entry(
        "Layers and heads, with intervals",
        f"Exact match on sums with their steps. {BARS_CAPTION}",
        _draw_shapes,
        _make_group(SHAPES),
        minimum_rows=2,
        source=PAPER + "Fig. 10, with details",
    ),
    "head_widths": Entry(
        "Wide heads, or many heads",
        f"Exact match on sums with their steps: {MEDIAN} One layer. The first and third model have "
        "heads of one width, and so have the second and fourth.",
        _draw_sums(HEADS, columns=4),
        _make_group(HEADS),
        minimum_rows=2,
        source=PAPER + "Fig. 11",
    ),
    "widths": Entry(
        "Wide embeddings",
        f"Exact match on sums with their steps: {MEDIAN} One layer of 4 heads that share the "
        "width.",
        _draw_sums(WIDTHS, columns=4),
        _make_group(WIDTHS),
        minimum_rows=2,
        source=PAPER + "Fig. 12",
    ),
    "training_sets": Entry(
        "Sizes of the training set",
        f"Exact match on sums with their steps: {MEDIAN} All have one number of training steps.",
        _draw_sums(PROBLEMS, columns=5),
        _make_group(PROBLEMS),
        minimum_rows=2,
        source=PAPER + "Fig. 13",
    ),
}

MAPS = (
    "Rows are the tokens of the response, which predict the next token; columns are the tokens "
    "that they attend to; brighter is more. Attention is averaged over many sums of one size; the "
    "axes show one of them. Shares below 1% are black. Drawn are the four heads of the first seed "
    "with most attention on the tokens that they need."
)
ATTENTION = {
    "attention_with_steps": Entry(
        "With steps, coupled",
        f"{MAPS} On the right the four heads of Theorem 4.1, with constructed weights.",
        lambda tables: attention.draw_attention_maps(
            tables["attention"], tables["heads"], tables["tokens"]
        ),
        ((BASE,),),
        source=PAPER + "Fig. 7a",
        table="attention",
        column="weight",
    ),
    "attention_without_steps": Entry(
        "Without steps, FIRE",
        MAPS,
        lambda tables: attention.draw_attention_maps(*_select_trained(tables)),
        ((f"{SUMS}_fire",),),
        source=PAPER + "Fig. 7b",
        table="attention",
        column="weight",
    ),
    "attention_shares": Entry(
        "Attention on the needed tokens",
        "Attention of the tokens that predict digits of running sums (without the sum of no "
        "operand): the share of each head on the digits to add, on the digits one place lower, "
        "which decide the carry, and on others. All seeds; heads of two seeds with one number are "
        "unrelated.",
        lambda tables: attention.draw_attention_shares(tables["heads"]),
        (name_rows(SUMS, ("coupled", "fire", "nope"), ("_scratchpad",)) + (f"{SUMS}_fire",),),
        extra_rows=(FOOTING, *OUR_SUMS),
        source=PAPER + "Fig. 7, over all heads",
        table="heads",
        column="share",
    ),
}


def _select_trained(tables: load.ResultTables) -> list[pd.DataFrame]:
    """Return the attention tables of trained models."""
    names = ("attention", "heads", "tokens")
    return [tables[name][tables[name]["row"] != load.CONSTRUCTION] for name in names]


POSSIBLE = {
    "theorem_width": Entry(
        "The width of the theorem",
        "Sums of two operands by constructed models of the width in Theorem 4.1. If two ids share "
        "a code, all sums fail; if two ids that need no code get none, the codes suffice.",
        _draw_widths,
        source=PAPER + "Theorem 4.1",
    ),
    "theorem_sharpness": Entry(
        "The sharpness of attention",
        "Left: wrong response tokens by the sharpness of attention; bands are Wilson intervals "
        "(95%). Right: the least sharpness without an error, by the length of a problem. The "
        "dashed line would suffice if all wrong keys were as similar as possible; most of them "
        "differ in more than one bit.",
        _draw_sharpness,
        source=PAPER + "appendix D",
    ),
}

# The question and the entries of each notebook.
NOTEBOOKS = {
    "does_a_scratchpad_help": ("Does a scratchpad help?", SCRATCHPAD),
    "does_coupling_help": ("Does coupling help?", COUPLING),
    "both_lengths_of_a_product": ("Both lengths of a product?", MULTIPLYING),
    "how_small_can_it_be": ("How small can it be?", SMALL),
    "what_does_each_head_look_at": ("What does each head look at?", ATTENTION),
    "is_it_possible_at_all": ("Is it possible at all?", POSSIBLE),
}
