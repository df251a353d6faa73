"""The figures of cho2025, each drawn from what was measured here.

A profile has some of the rows that an entry names; what is not there is said in the picture. The
paper's own pictures cannot be copied, and its text states few of their values.
"""

from __future__ import annotations

from collections.abc import Mapping

from carry.plots import attention, counted, heatmaps, load, numbering, regions, steps, theorem
from carry.plots.entry import BARS, Drawing, Entry, Rows, lacking, names

PAPER = "cho2025, "
SUMS, PRODUCTS = "multi_operand_addition", "multiplication"
SCHEMES, WAYS = ("nope", "fire", "coupled"), ("", "_scratchpad")
BASE = f"{SUMS}_coupled_scratchpad"

ADDED = names(SUMS, SCHEMES, ("",)) + names(SUMS, SCHEMES, ("_scratchpad",))
STEPPED = names(SUMS, SCHEMES, ("_scratchpad",))
PARITY = names("parity", ("nope", "rope", "fire"), WAYS) + ("parity_coupled_scratchpad",)
PARITY_STEPPED = tuple(row for row in PARITY if row.endswith("_scratchpad"))
MULTIPLIED = names(PRODUCTS, SCHEMES, ("",)) + names(PRODUCTS, SCHEMES, ("_scratchpad",))
MULTIPLIED_STEPPED = names(PRODUCTS, SCHEMES, ("_scratchpad",))

# Ours, of no paper: with zeros to spare; and the same ids read relatively, attention kept local.
OURS = (f"{BASE}_spare", f"{SUMS}_relative_scratchpad_spare")
OUR_PARITY = ("parity_relative_scratchpad",)

# By the ending of a row of sums that are coupled and stepped, what is other than usual.
LENGTHS = {"_short": "shorter", "": "as usual", "_long": "longer"}
ZEROS = {"": "zeros in front", "_unpadded": "no zeros in front"}
WRITTEN = {
    "": "answer reversed",
    "_reversed": "both reversed",
    "_plain": "nothing reversed",
    "_unpadded": "answer reversed, no zeros",
    "_unpadded_reversed": "both reversed, no zeros",
}
REFUSED = {
    "nothing reversed, no zeros": "refused: the first id of a number would tell how long it is "
    "before it is written"
}
FROM = {"": "sums from nothing", "_from_first": "sums from the first operand"}
SHAPES = {
    "" if (layers, heads) == (6, 8) else f"_{layers}l{heads}h": f"{layers} "
    + ("layer" if layers == 1 else "layers")
    + f", {heads} heads"
    for layers in (1, 2, 4, 6)
    for heads in (2, 4, 8)
}
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
    "": "as many as usual",
    "_2m": "2 million problems",
    "_10m": "10 million problems",
}

SIZES = ("digits of each operand, i", "operands, j")
MEDIAN = (
    "the median of the seeds. The frame holds the sizes of training; above each panel its worst "
    "cell, with its lowest and its highest seed."
)
SPREAD = "The same cells: how much more the best seed has right than the worst."


def _ends(ends: Mapping[str, str]) -> tuple[Rows]:
    """Return the rows of sums with these endings, as a group."""
    return (tuple(BASE + end for end in ends),)


def _sums(ends: Mapping[str, str] | None = None, columns: int = 3, **more):
    """Return a drawing of sums by operands and their digits, under titles of their own."""
    titles = {BASE + end: title for end, title in (ends or {}).items()}

    def picture(tables: load.Tables) -> Drawing:
        given = {"shown": "median", "sizes": SIZES, "titles": titles, **more}
        return heatmaps.by_lengths(tables.cells, columns=columns, **given)

    return picture


def _products(shown: str):
    return lambda tables: heatmaps.by_lengths(tables.cells, columns=3, shown=shown)


def _bars(tables: load.Tables) -> Drawing:
    return regions.by_region(tables.cells)


def _shapes(tables: load.Tables) -> Drawing:
    titles = {BASE + end: title for end, title in SHAPES.items()}
    return regions.by_region(tables.cells, titles=titles)


def _steps(**given):
    return lambda tables: steps.by_step(tables.steps, load.starts(tables.cells), **given)


def _places(tables: load.Tables) -> Drawing:
    """Draw the bits of a response as steps: each is one."""
    bits = tables.places
    given = {"length": "{0} bits", "times": (1.0, 1.75, 3.0, 5.0)}
    starts = load.starts(tables.cells)
    return steps.by_step(bits.rename(columns={"place": "step"}), starts, "bit", **given)


def _widths(tables: load.Tables) -> Drawing:
    if tables.widths.empty:
        return lacking(PAPER + "Theorem 4.1", ["models of its width, as its notebook makes them"])
    return theorem.by_width(tables.widths)


def _sharpness(tables: load.Tables) -> Drawing:
    if tables.sharpness.empty:
        return lacking(PAPER + "Theorem 4.1", ["models of its kind, as its notebook makes them"])
    return theorem.by_sharpness(tables.sharpness)


SCRATCHPAD = {
    "parity_ids": Entry(
        "A string, its parities, and their ids",
        "Behind the string stands for each bit the parity of all bits so far; the last is the "
        "answer. A parity shares its id with the bit that it takes in.",
        lambda tables: numbering.of_steps("parity", "1010"),
        source=PAPER + "Fig. 2",
    ),
    "parity_by_length": Entry(
        "Parity, counted in three ways",
        "Left, what the paper reports: the last bit, given all parities before it as they should "
        "be. Middle: the last bit of what the model writes by itself. Right: all that it writes. "
        "Without a scratchpad these are the same. Five lengths are counted together. Thin lines "
        "are seeds, thick ones their median; shaded: the lengths of training; dotted: a guess.",
        lambda tables: counted.by_length(
            tables.cells, tables.places, "bits of the string, up to", guess=0.5, width=5
        ),
        (PARITY,),
        beside=OUR_PARITY,
        source=PAPER + "Fig. 3",
    ),
    "parity_by_place": Entry(
        "Where a long string goes wrong",
        "Above: parities that are right, given those before, bit by bit. Below: of all strings, "
        "the share whose first error is at this bit. Thin lines are seeds, thick ones their "
        "median.",
        _places,
        (PARITY_STEPPED,),
        beside=OUR_PARITY,
        source=PAPER + "Fig. 3, beside it",
        table="places",
        column="correct",
    ),
    "sums_by_step": Entry(
        "Where a long sum goes wrong",
        "Above: running sums that are right, given those before; the first is that of no operand. "
        "Below: of all responses, the share whose first error is in this sum. Thin lines are "
        "seeds, thick ones their median.",
        _steps(step="running sum"),
        (STEPPED,),
        beside=OURS,
        source=PAPER + "Fig. 1, beside it",
        table="steps",
        column="correct",
    ),
}

COUPLING = {
    "sum_ids": Entry(
        "A sum, its running sums, and their ids",
        "At one level digits of one place share an id, at the other an operand and the sum that "
        "it is added to. Signs stand below the ones.",
        lambda tables: numbering.of_steps(SUMS, 57, 48, 96),
        source=PAPER + "Fig. 4",
    ),
    "sums_by_sizes": Entry(
        "Schemes, without steps and with them",
        f"Responses wholly right, steps included, {MEDIAN}",
        _sums(),
        (ADDED,),
        beside=OURS,
        source=PAPER + "Fig. 1",
    ),
    "sums_spread": Entry(
        "How much seeds differ",
        SPREAD,
        _sums(shown="spread"),
        (ADDED,),
        beside=OURS,
        source=PAPER + "Fig. 1, beside it",
    ),
    "sums_by_region": Entry(
        "Schemes, with intervals",
        f"Responses wholly right, steps included. {BARS}",
        _bars,
        (ADDED,),
        beside=OURS,
        source=PAPER + "Fig. 1, beside it",
    ),
    "sums_by_training": Entry(
        "Longer sums in training, and more operands",
        f"Responses wholly right, {MEDIAN}",
        _sums(LENGTHS),
        _ends(LENGTHS),
        least=2,
        across=True,
        source=PAPER + "Fig. 5",
    ),
    "sums_unpadded": Entry(
        "Without zeros in front",
        f"Responses wholly right, {MEDIAN} Without zeros a number is as long as it is, and where "
        "it ends is for the model to say.",
        _sums(ZEROS),
        _ends(ZEROS),
        least=2,
        source=PAPER + "Fig. 6",
    ),
    "sums_by_format": Entry(
        "Six ways to write it",
        f"Responses wholly right, {MEDIAN} Zeros make all numbers as long as the answer could be, "
        "or there are none. The sixth way, nothing reversed and no zeros, is refused: a digit's "
        "first id would tell how long its number is before it is written.",
        _sums(WRITTEN, without=REFUSED),
        _ends(WRITTEN),
        least=2,
        source=PAPER + "Fig. 14",
    ),
    "sums_from_first": Entry(
        "Where running sums begin",
        f"Responses wholly right, {MEDIAN} The steps begin with the sum of no operand, or with "
        "the first of them.",
        _sums(FROM),
        _ends(FROM),
        least=2,
        source=PAPER + "4.1",
    ),
}

MULTIPLYING = {
    "product_ids": Entry(
        "A product, in two stages, and its ids",
        "First the product with each digit of the second number, then their sums, each moved up "
        "by a place. Three levels of ids say what belongs together.",
        lambda tables: numbering.of_steps(PRODUCTS, 37, 925),
        source=PAPER + "Fig. 8",
    ),
    "products_by_lengths": Entry(
        "Schemes, without steps and with them",
        f"Responses wholly right, steps included, {MEDIAN}",
        _products("median"),
        (MULTIPLIED,),
        source=PAPER + "Fig. 9",
    ),
    "products_spread": Entry(
        "How much seeds differ",
        SPREAD,
        _products("spread"),
        (MULTIPLIED,),
        source=PAPER + "Fig. 9, beside it",
    ),
    "products_by_region": Entry(
        "Schemes, with intervals",
        f"Responses wholly right, steps included. {BARS}",
        _bars,
        (MULTIPLIED,),
        source=PAPER + "Fig. 9, beside it",
    ),
    "products_by_step": Entry(
        "Where a long product goes wrong",
        "Above: numbers that are right, given those before. Below: of all responses, the share "
        "whose first error is in this number. The dots part both stages. Thin lines are seeds, "
        "thick ones their median.",
        _steps(
            step="number that is written",
            length="{0} x {0} digits",
            halves=("products with one digit", "running sums"),
        ),
        (MULTIPLIED_STEPPED,),
        source=PAPER + "Fig. 9, beside it",
        table="steps",
        column="correct",
    ),
}

SMALL = {
    "shapes": Entry(
        "Layers and heads",
        f"Sums with their steps wholly right, {MEDIAN} From above 1, 2, 4 and 6 layers, from the "
        "left 2, 4 and 8 heads that share the width.",
        _sums(SHAPES),
        _ends(SHAPES),
        least=2,
        source=PAPER + "Fig. 10",
    ),
    "shapes_by_region": Entry(
        "Layers and heads, with intervals",
        f"Sums with their steps wholly right. {BARS}",
        _shapes,
        _ends(SHAPES),
        least=2,
        source=PAPER + "Fig. 10, beside it",
    ),
    "head_widths": Entry(
        "Wide heads, or many",
        f"Sums with their steps wholly right, {MEDIAN} One layer; the outer models have as much "
        "width in a head as the inner one that is not beside them.",
        _sums(HEADS, columns=4),
        _ends(HEADS),
        least=2,
        source=PAPER + "Fig. 11",
    ),
    "widths": Entry(
        "Wide embeddings",
        f"Sums with their steps wholly right, {MEDIAN} One layer of 4 heads that share the width.",
        _sums(WIDTHS, columns=4),
        _ends(WIDTHS),
        least=2,
        source=PAPER + "Fig. 12",
    ),
    "training_sets": Entry(
        "How many problems to learn from",
        f"Sums with their steps wholly right, {MEDIAN} As many training steps for all.",
        _sums(PROBLEMS, columns=5),
        _ends(PROBLEMS),
        least=2,
        source=PAPER + "Fig. 13",
    ),
}

LOOKED = (
    "Rows are tokens from which the next one is predicted, those of the question left out; "
    "columns are what they look at, and the brighter, the more. It is the mean over many sums of "
    "as many operands as digits; on the axes stands one of them. What is below 1% is black. Of "
    "the first seed the four heads that look most at what they need."
)
LOOKING = {
    "attention_with_steps": Entry(
        "With steps, coupled",
        f"{LOOKED} Beside them the four heads of Theorem 4.1, whose weights are set by hand.",
        lambda tables: attention.maps(tables.attention, tables.heads, tables.tokens),
        ((BASE,),),
        source=PAPER + "Fig. 7a",
        table="attention",
        column="weight",
    ),
    "attention_without_steps": Entry(
        "Without steps, FIRE",
        LOOKED,
        lambda tables: attention.maps(*_learned(tables)),
        ((f"{SUMS}_fire",),),
        source=PAPER + "Fig. 7b",
        table="attention",
        column="weight",
    ),
    "attention_shares": Entry(
        "How much is on what is needed",
        "Where digits of sums are predicted (that of no operand left out): the share of each "
        "head's attention on the digits that are to be added, on those below, where a carry comes "
        "from, and on others. Every seed; their heads have nothing in common but their numbers.",
        lambda tables: attention.shares(tables.heads),
        (names(SUMS, ("coupled", "fire", "nope"), ("_scratchpad",)) + (f"{SUMS}_fire",),),
        beside=OURS,
        source=PAPER + "Fig. 7, over all heads",
        table="heads",
        column="share",
    ),
}


def _learned(tables: load.Tables) -> list:
    """Return where heads look that were trained."""
    of = (tables.attention, tables.heads, tables.tokens)
    return [table[table["row"] != load.BY_HAND] for table in of]


POSSIBLE = {
    "theorem_width": Entry(
        "As wide as the theorem says",
        "Sums of two operands by models whose weights are set by hand, each as wide as Theorem "
        "4.1 says. Where ids have to share a code, all sums fail; given no code to two ids that "
        "need none, as many codes are enough.",
        _widths,
        source=PAPER + "Theorem 4.1",
    ),
    "theorem_sharpness": Entry(
        "As sharp as it has to be",
        "Left: response tokens that are wrong by how much attention is sharpened; bands are "
        "Wilson intervals (95%). Right: the least sharpness without an error, over the length of a "
        "problem. The dashed line is what would do if all wrong keys came as near as one can; most "
        "differ in more bits than one.",
        _sharpness,
        source=PAPER + "appendix D",
    ),
}

# By notebook: the question that it asks, and its entries.
NOTEBOOKS = {
    "does_a_scratchpad_help": ("Does a scratchpad help?", SCRATCHPAD),
    "does_coupling_help": ("Does coupling help?", COUPLING),
    "both_lengths_of_a_product": ("Both lengths of a product?", MULTIPLYING),
    "how_small_can_it_be": ("How small can it be?", SMALL),
    "what_does_each_head_look_at": ("What does each head look at?", LOOKING),
    "is_it_possible_at_all": ("Is it possible at all?", POSSIBLE),
}
