"""The figures and tables of mcleish2024, each drawn from what was measured here.

A profile has some of the rows that an entry names; what is not there is said in the picture. The
paper's own pictures cannot be copied: a value of its is drawn only where its text states it.
"""

from __future__ import annotations

from carry.plots import (
    accuracy,
    architectures,
    heatmaps,
    load,
    numbering,
    rates,
    recurrences,
    regions,
)
from carry.plots import sizes as weights
from carry.plots.entry import BARS, Drawing, Entry, Rows, lacking, names

SCHEMES, ARCHITECTURES = ("nope", "fire", "abacus"), ("", "_injected", "_looped")
LENGTHS = ("_short", "", "_middle", "_long", "_longest")
LOOPS = ("_injected", "_looped", "_looped_4", "_looped_8", "_looped_16")

ALL = names("addition", SCHEMES, ARCHITECTURES)
ABACUS_LOOPS = names("addition", ("abacus",), LOOPS)
LONGER = names("addition", SCHEMES, ARCHITECTURES, LENGTHS)
WITHOUT_ABACUS = names("addition", ("nope", "fire"), ARCHITECTURES)
DEPTHS = {"_shallow": "shallow", "": "of the usual depth", "_deep": "deep"}
DEPTH_ROWS = names("addition", ("abacus",), LOOPS[:-1])
CHANGES = {
    "": "embedded input added before every layer",
    "_entrance": "added at the entrance of the block alone",
    "_divided": "gradient divided by the number of recurrences",
}
LOOPED = names("addition", ("abacus",), LOOPS[1:])
MIXES = names("addition", ("fire", "abacus_fire", "rope", "abacus_rope", "abacus"))
HINTED = names("addition", ("randomized_fire_hints",), ("", "_ordered"))
SORTING = names("sorting", ("fire", "abacus", "abacus_fire"))
SORTING_LOOPS = names("sorting", ("abacus_fire",), ARCHITECTURES)

# What the text of the paper states, by row and region. Of addition: trained to 20 digits, scored to
# 100; of sorting: trained to 10 numbers of 10 digits.
ADDED = {
    ("addition_abacus", "out of distribution"): 0.929,
    ("addition_abacus_looped", "out of distribution"): 0.991,
}
LONG, MANY = "10 numbers\nof 30 digits", "30 numbers\nof 10 digits"
BOTH, HALF = "30 numbers\nof 30 digits", "20 numbers\nof 20 digits"
SORTED = {
    ("sorting_fire", LONG): 0.5532, ("sorting_abacus", LONG): 0.6863,
    ("sorting_abacus_fire", LONG): 0.6728,
    ("sorting_fire", MANY): 0.2135, ("sorting_abacus", MANY): 0.0967,
    ("sorting_abacus_fire", MANY): 0.2111,
    ("sorting_fire", BOTH): 0.0373, ("sorting_abacus", BOTH): 0.0265,
    ("sorting_abacus_fire", BOTH): 0.0448,
    ("sorting_fire", HALF): 0.1465, ("sorting_abacus", HALF): 0.0978,
    ("sorting_abacus_fire", HALF): 0.1691,
}  # fmt: skip
SORTED_LOOPS = {
    ("sorting_abacus_fire", BOTH): 0.0448,
    ("sorting_abacus_fire_injected", BOTH): 0.0384,
    ("sorting_abacus_fire_looped", BOTH): 0.0260,
}
SORTED_MINIMUM = {
    ("sorting_abacus_fire", BOTH): 0.4973,
    ("sorting_abacus_fire_injected", BOTH): 0.6009,
    ("sorting_abacus_fire_looped", BOTH): 0.6851,
}
MILLIONS = {1: 122, 2: 64, 4: 34, 8: 19, 16: 12}


def _bars(tables: load.Tables, **more) -> Drawing:
    return regions.by_region(tables.cells, **more)


def _squares(tables: load.Tables) -> Drawing:
    return heatmaps.by_lengths(tables.cells)


def _added(tables: load.Tables) -> Drawing:
    """Draw bars, with the paper's values where they are of sums as long as these."""
    cells = tables.cells
    alike = (cells["trained"] == 20).all() and cells.loc[cells["set"] == "grid", "i"].max() == 100
    return regions.by_region(cells, stated=ADDED if alike else None)


def _sorted(stated: dict, hits: str = "exact"):
    def picture(tables: load.Tables) -> Drawing:
        alike = (tables.cells["trained"] == 10).all()
        return regions.by_region(tables.cells, hits, stated=stated if alike else None)

    return picture


def _grouped(headings: dict[str, str]):
    """Return a drawing of bars under a heading for each ending of a row's name, in their order."""
    longest_first = sorted(headings, key=len, reverse=True)  # the empty ending fits every name

    def picture(tables: load.Tables) -> Drawing:
        rows = load.rows(tables.cells)
        ends = {row: next(end for end in longest_first if row.endswith(end)) for row in rows}
        order = sorted(rows, key=lambda row: list(headings).index(ends[row]))
        groups = {row: headings[ends[row]] for row in rows}
        return regions.by_region(tables.of(order).cells, groups=groups)

    return picture


def _lengths(tables: load.Tables) -> Drawing:
    ends = [end for end in LENGTHS if end]
    families = {
        row: next((row.removesuffix(end) for end in ends if row.endswith(end)), row)
        for row in load.rows(tables.cells)
    }
    return regions.by_training_length(tables.cells, families)


def _far(tables: load.Tables) -> Drawing:
    figure, table = accuracy.by_length(tables.cells, far=True)
    if (table["trained"] == 20).all():
        for axes in figure.axes:
            axes.hlines(0.95, 20, 120, color="#222222", linewidth=1, linestyle=":")
            axes.text(21, 0.94, "the paper, to 120: at least 95%", va="top", fontsize="small")
    return figure, table


def _footing(tables: load.Tables) -> Drawing:
    if tables.footing.empty:
        rows = ["those of the profile baselines"]
        return lacking("The schemes on one footing", rows, profile="baselines")
    families = {row: "_".join(row.split("_")[:2]) for row in load.rows(tables.footing)}
    return rates.by_rate(tables.footing, families)


def _weights(tables: load.Tables) -> Drawing:
    if tables.sizes.empty:
        return lacking("mcleish2024, Table 3", ["counts of weights, as its notebook makes them"])
    return weights.by_recurrences(tables.sizes, MILLIONS)


def _with(rows: Rows, end: str) -> tuple[Rows, ...]:
    """Pair each row with the one that differs from it by an ending."""
    return tuple((row, row + end) for row in rows)


def _endings(rows: Rows, ends) -> tuple[Rows, ...]:
    return tuple(tuple(row + end for end in ends) for row in rows)


PAPER = "mcleish2024, "

SCHEME = {
    "abacus_ids": Entry(
        "How a sum is numbered",
        "Plain order counts tokens, Abacus counts the digits of each number from its ones; in "
        "training it starts from an id drawn at random, so that larger ids are learnt as well.",
        lambda tables: numbering.of_a_sum(4820, 197, ("index", "abacus")),
        source=PAPER + "Fig. 1",
    ),
    "scheme_by_region": Entry(
        "Schemes and architectures",
        "Sums wholly right, for every scheme as a standard decoder, with its input injected again "
        f"before every layer, and looped as well. {BARS} Diamonds are values that the paper's "
        "text gives, for larger models.",
        _added,
        (ALL,),
        least=2,
        source=PAPER + "Fig. 2",
    ),
    "one_footing": Entry(
        "On one footing",
        "Three layers, trained to 5 digits for as many steps, from one kind of initialisation, at "
        "three learning rates each, five seeds; tested to 15 digits. Lines count all seeds "
        "together, with Wilson intervals (95%); small dots are the seeds. All is moved a little "
        "to the side, so that equal values can be told apart.",
        _footing,
        source="the profile baselines",
    ),
    "scheme_by_lengths": Entry(
        "Schemes and architectures, for every pair of lengths",
        "Sums wholly right, the mean over seeds, by the lengths of both operands. The frame holds "
        "the lengths of training.",
        _squares,
        (ALL,),
        least=2,
        source=PAPER + "Fig. 10",
    ),
    "hints_by_region": Entry(
        "Letters that say which digits belong together",
        "Index hints are letters before each digit; equal letters mark equal places. They are a "
        "run of a list of letters that may go on from its end to its beginning, or (ordered) may "
        f"not. An answer is right only if its hints are too. {BARS}",
        _bars,
        (HINTED,),
        beside=("addition_fire", "addition_abacus", "addition_abacus_short"),
        source=PAPER + "Fig. 18",
    ),
    "hints_left_out": Entry(
        "The same answers without their letters",
        f"As above, but only the digits have to be right. {BARS}",
        lambda tables: _bars(tables, hits="digits_right"),
        (HINTED,),
        source=PAPER + "Fig. 18, beside it",
        column="digits_right",
    ),
}

LOOPING = {
    "three_architectures": Entry(
        "Standard, injected, looped",
        "Four layers deep each: the standard decoder, the same with its embedded input added "
        "again before every layer, and half the layers run twice.",
        lambda tables: architectures.side_by_side(),
        source=PAPER + "Fig. 19",
    ),
    "weights": Entry(
        "How many weights",
        "Weights of models of the paper's size and equal depth, each counted once however often "
        "its layer is run. Diamonds are the paper's, to the nearest million.",
        _weights,
        source=PAPER + "Table 3",
    ),
    "loops_by_region": Entry(
        "Abacus: fewer layers, run more often",
        f"All are equally deep; injected is a block that is run once. {BARS} Diamonds are values "
        "that the paper's text gives, for larger models.",
        _added,
        (ABACUS_LOOPS,),
        least=2,
        source=PAPER + "Fig. 3",
    ),
    "loops_by_lengths": Entry(
        "Abacus: fewer layers, run more often, for every pair of lengths",
        "Sums wholly right, the mean over seeds, by the lengths of both operands. The frame holds "
        "the lengths of training.",
        _squares,
        (ABACUS_LOOPS,),
        least=2,
        source=PAPER + "Fig. 12",
    ),
    "loops_without_abacus": Entry(
        "Loops without Abacus",
        f"Sums wholly right, for schemes in plain order or without ids. {BARS}",
        _bars,
        (WITHOUT_ABACUS, names("addition", ("nope", "fire"), ARCHITECTURES, ("_longest",))),
        least=2,
        source=PAPER + "Fig. 7",
    ),
    "depth": Entry(
        "Shallower and deeper",
        "Abacus, with fewer and more layers worked through in all; within a heading they are as "
        f"many. {BARS}",
        _grouped(DEPTHS),
        _endings(DEPTH_ROWS, DEPTHS),
        least=2,
        source=PAPER + "Fig. 15",
    ),
    "injection_and_gradient": Entry(
        "What loops need",
        "Looped Abacus as it is, with its input injected only where the block is entered, and "
        f"with the gradient of the block divided by how often it is run. {BARS}",
        _grouped(CHANGES),
        _endings(LOOPED, CHANGES),
        least=2,
        source=PAPER + "Fig. 16",
    ),
}

TRAINING_LENGTH = {
    "training_length_by_region": Entry(
        "Longer sums in training",
        "Out of distribution is what is longer than in training, so that it is less the longer "
        "that was, and ends where a row is tested to; the last panel has the same sums for all. "
        "Lines count all seeds together, with Wilson intervals (95%); small dots are the seeds. "
        "All is moved a little to the side, so that equal values can be told apart.",
        _lengths,
        (LONGER,),
        least=2,
        across=True,
        source=PAPER + "Fig. 8",
    ),
    "training_length_by_lengths": Entry(
        "Longer sums in training, for every pair of lengths",
        "Sums wholly right, the mean over seeds, by the lengths of both operands. The frame holds "
        "the lengths of training.",
        _squares,
        (LONGER,),
        least=2,
        across=True,
        source=PAPER + "Fig. 11",
    ),
}

FAR = {
    "far_beyond": Entry(
        "Equal lengths, far beyond",
        "Sums wholly right, both operands of one length. Thin lines are seeds, thick ones their "
        "median; shaded: the lengths of training. A second panel has the rows that change when "
        "ids start in the middle of their table.",
        _far,
        (names("addition", ("abacus",), ("_looped", "_looped_far", "_injected", "")),),
        source=PAPER + "Fig. 9",
    ),
}

ELSE = {
    "bitwise_or": Entry(
        "Bitwise OR",
        "Two strings of bits with a single one between them; the answer is as long as the longer, "
        f"with the one in its place. {BARS}",
        _bars,
        (names("bitwise_or", SCHEMES, ARCHITECTURES),),
        source=PAPER + "Fig. 4",
    ),
    "multiplication": Entry(
        "Multiplication",
        "Products wholly right, the mean over seeds, by the lengths of both operands. The frame "
        "holds the lengths of training. All are looped, with their input injected only where the "
        "block is entered.",
        _squares,
        (names("multiplication", ("abacus", "fire", "abacus_fire"), ("_looped",)),),
        source=PAPER + "Fig. 5",
    ),
    "sorting_schemes": Entry(
        "Sorting: schemes",
        f"Lists sorted without a fault, by standard decoders. {BARS} Diamonds are the paper's "
        "values, for larger models.",
        _sorted(SORTED),
        (SORTING,),
        source=PAPER + "Table 1",
    ),
    "sorting_architectures": Entry(
        "Sorting: architectures",
        f"Lists sorted without a fault, by Abacus with FIRE. {BARS} Diamonds are the paper's "
        "values, for larger models.",
        _sorted(SORTED_LOOPS),
        (SORTING_LOOPS,),
        source=PAPER + "Table 2",
    ),
    "sorting_minimum": Entry(
        "Sorting: the least number alone",
        f"Answers that begin with the least number, whatever follows. {BARS} Diamonds are the "
        "paper's values, for larger models.",
        _sorted(SORTED_MINIMUM, "first_right"),
        (SORTING_LOOPS,),
        source=PAPER + "Table 2",
        column="first_right",
    ),
}

MIXING = {
    "mixes_by_lengths": Entry(
        "Abacus beside FIRE and RoPE, for every pair of lengths",
        "Sums wholly right, the mean over seeds, by the lengths of both operands. The frame holds "
        "the lengths of training; only panels of equal frames compare.",
        _squares,
        (MIXES,),
        least=2,
        source=PAPER + "Fig. 6",
    ),
    "mixes_by_region": Entry(
        "Abacus beside FIRE and RoPE",
        f"The same with intervals. {BARS}",
        _bars,
        (MIXES,),
        least=2,
        source=PAPER + "Fig. 6, beside it",
    ),
}

BREAKING = {
    "loss_on_everything": Entry(
        "Loss on the question too",
        "Each row beside itself with the question in its loss, for as many steps, though a "
        f"question's digits cannot be foretold. {BARS}",
        _bars,
        _with(names("addition", SCHEMES, ("", "_looped")), "_everything"),
        least=2,
        source=PAPER + "Fig. 14",
    ),
    "random_padding": Entry(
        "Random padding in training",
        "Each row beside itself with padding strewn at random among its training problems. Scored "
        f"on problems without any. {BARS}",
        _bars,
        _with(names("addition", SCHEMES, ("", "_looped")), "_noise"),
        least=2,
        source=PAPER + "Fig. 17",
    ),
}

BETWEEN = {
    "answer_by_recurrence": Entry(
        "One answer after each recurrence",
        "What the model says next, given the truth before it, if it stops there; what is wrong is "
        "orange. The dashed line is how often the block was run in training.",
        lambda tables: recurrences.of_a_problem(tables.answers),
        (LOOPED,),
        source=PAPER + "Fig. 13",
        table="answers",
        column="said",
    ),
    "places_by_recurrence": Entry(
        "Which places come first",
        "Digits right by place and recurrence, many problems and all seeds together, at the "
        "longest operands that were tried. The dashed line is how often the block was run in "
        "training.",
        lambda tables: recurrences.by_place(tables.recurrences),
        (LOOPED,),
        source=PAPER + "Fig. 13, over many problems",
        table="recurrences",
        column="correct",
    ),
    "answers_stay": Entry(
        "Do answers stay?",
        "By recurrence, above: answers wholly right; below: answers that are wholly as they were "
        "after the recurrence before. Thin lines are seeds, thick ones their median. A dot is how "
        "often the block was run in training.",
        lambda tables: recurrences.whole_answers(tables.recurrences),
        (LOOPED,),
        source=PAPER + "A.6.1",
        table="recurrences",
        column="correct",
    ),
}

# By notebook: the question that it asks, and its entries.
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
