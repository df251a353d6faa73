"""Position coupling: sums of two and of many numbers, parity and products (cho2025).

`scratchpad`: the response contains the steps. `coupled`: one level of ids without steps, and all
levels of the task with steps.
"""

from __future__ import annotations

from typing import Any

from carry.experiments.base import SMOKE, Row, Settings, ids, merge, row

# The laptop's models, most of them twice as wide, in larger batches.
GPU = dict(
    seeds=3, model=dict(width=128),
    training=dict(digits=10, steps=6000, batch=128, pool=16, precision="bf16", score_every=500,
                  checkpoint_every=None),
    evaluation=dict(digits=30, longest=30))
# Table 2, for sums of many numbers. `tied`, `betas` and `clip` (1.0, also our default) are those of
# the released code.
PAPER = dict(
    seeds=8,
    model=dict(layers=6, heads=8, width=1024, head_width=None, hidden=2048,
               activation="gated_gelu_tanh", norm="rms", norm_place="pre_and_post", biases=False,
               tied=True, initialisation="t5"),
    training=dict(digits=10, examples=500_000, steps=50000, batch=400, pool=32, optimizer="adamw",
                  learning_rate=3e-5, betas=[0.9, 0.95], weight_decay=0.0, warmup=0.01,
                  final_learning_rate=0.1, precision="bf16", score_every=500,
                  checkpoint_every=None),
    evaluation=dict(digits=30, longest=30, starts=[1]))

FIRE = [ids("index", "fire")]
ROPE = [ids("index", "rope")]
NARROW = 0.18  # the scale of waves for models of width 64


def waves(*limits: int, scale: float = 0.125, **settings: Any) -> list[Settings]:
    """Return a level of coupled ids for each limit, with sinusoidal embeddings.

    Frequencies are evenly spaced, so that inner products separate one difference of ids from all
    others; a rotation separates the levels. A learned table with a random start generalized to
    shorter lengths. With the default scale, ids have features of length 1 at width 128.
    """
    return [
        ids("coupled", "sinusoidal", level=level, limit=limit, base=None, turned=True, even=True,
            scale=scale, **settings)
        for level, limit in enumerate(limits, 1)
    ]


def tables(*limits: int) -> list[Settings]:
    """Return a level of coupled ids for each limit, with learned tables, as in the paper."""
    return [ids("coupled", "learned", level=level, limit=limit)
            for level, limit in enumerate(limits, 1)]


# ---- Sums of two numbers (Cho et al. 2024) -------------------------------------------------------

# The id of a digit is its power of ten; leading zeros give both operands the same length.
# Sinusoidal embeddings of the id replace a learned table, some rows of which would rarely be
# trained. Fewer than 9 seeds cannot decide a claim within one row. `paper`: by the first version of
# the released code.
COUPLED = row(
    "addition_coupled", "addition_schemes", seeds=9,
    format=dict(pad=True, reverse_operands=False),
    positions=[ids("coupled", "sinusoidal", base=100.0, limit=72)],
    model=dict(layers=1, head_width=64), training=dict(steps=1700),
    paper=merge(PAPER, dict(
        positions=tables(202), model=dict(layers=1, heads=4, width=512),
        training=dict(digits=30, examples=1_000_000, batch=1000, pool=16, learning_rate=1e-4),
        evaluation=dict(digits=100, longest=160, far=[200]))))
# To the paper's 30 digits on a laptop; at the scale `paper` it has the settings of the row above.
COUPLED_30 = COUPLED.but(
    "addition_coupled_30", "papers_lengths", "Coupled, 30 digits", seeds=5,
    positions=waves(320, scale=1.0), model=dict(head_width=32, attention_scale="log"),
    training=dict(digits=30, steps=8000, precision="bf16", weight_decay=0.5, decay="trapezoid",
                  cooldown=0.2),
    evaluation=dict(problem_set="addition_papers_lengths", digits=30, band=True,
                    far=[60, 100, 120, 150, 200]),
    paper=dict(model=dict(attention_scale="constant"),
               training=dict(decay="cosine", cooldown=None),
               evaluation=dict(problem_set=None, band=False)))
ROWS = [
    COUPLED,
    # Tokens without a place have zero embeddings, unlike id 1.
    COUPLED.but(
        "addition_coupled_turned", label="Coupled, waves for places alone", seeds=5,
        positions=[ids("coupled", "sinusoidal", base=100.0, limit=72, turned=True)]),
    COUPLED_30,
]

# ---- Sums of many numbers (section 4) ------------------------------------------------------------

# Fig. 1: six rows trained to 3 numbers of 3 digits with equal settings; with coupled ids and a
# scratchpad that row is `short` (below). NoPE learns the trained sizes in three of four seeds, and
# claims need five. The rows of this study have one width, norm and learning rate. Rows without
# coupled ids need three layers and narrow heads: with wide heads they did not learn in these steps.
ATTENDED = ["attended"]  # Fig. 7: one layer of 4 heads with coupled ids and steps, FIRE without
SUMS = row(
    "multi_operand_addition_nope", "multi_operand_schemes", seeds=8,
    task=dict(name="multi_operand_addition"), format=dict(pad=True, reverse_operands=False),
    model=dict(layers=3, width=64, head_width=16, norm="rms", norm_place="pre_and_post"),
    training=dict(digits=3, steps=6500, batch=32, pool=16, learning_rate=0.004),
    evaluation=dict(digits=9, attention_cell=[4, 4]),
    gpu=merge(GPU, dict(evaluation=dict(attention_cell=[6, 6]))),
    paper=merge(PAPER, dict(evaluation=dict(attention_cell=[6, 6]))))
COUPLED_SUMS = SUMS.but(
    "multi_operand_addition_coupled", seeds=10, positions=waves(20, scale=NARROW),
    gpu=dict(positions=waves(40)), paper=dict(positions=tables(40)))
SUMS_STEPS = SUMS.but(
    "multi_operand_addition_nope_scratchpad", seeds=5, format=dict(name="scratchpad"),
    gpu=dict(evaluation=dict(attention_cell=[11, 11])),
    paper=dict(evaluation=dict(attention_cell=[11, 11])))
# To 5 numbers of 5 digits. Coupled ids need one layer.
SCRATCHPAD = SUMS_STEPS.but(
    "multi_operand_addition_coupled_scratchpad", seeds=10, positions=waves(20, 20, scale=NARROW),
    model=dict(layers=1, head_width=64), training=dict(digits=5, steps=2400),
    evaluation=dict(digits=15, attention_cell=[6, 6]),
    smoke=merge(SMOKE, dict(seeds=2, evaluation=dict(attention_cell=[2, 2]))),
    gpu=dict(positions=waves(40, 40), model=dict(layers=2), training=dict(steps=8000)),
    paper=dict(positions=tables(40, 40)))
# Ours: `spare` zeros before each number, since sums of more numbers have more digits; and the same
# ids with relative biases and a window at both levels. Four of five seeds learn the trained sizes.
RELATIVE = SUMS_STEPS.but(
    "multi_operand_addition_relative_scratchpad_spare",
    label="Coupled read relatively, scratchpad, spare zeros", seeds=8, task=dict(spare=2),
    positions=[ids("coupled", "relative", level=level, window=1) for level in (1, 2)],
    model=dict(layers=1), training=dict(digits=5, steps=600),
    evaluation=dict(digits=15, attention_cell=[6, 6]), gpu=dict(model=dict(head_width=64)))
ROWS += [
    SUMS,
    SUMS.but("multi_operand_addition_fire", seeds=7, positions=FIRE, analyses=ATTENDED,
             gpu={}, paper={}),
    COUPLED_SUMS,
    SUMS_STEPS,
    SUMS_STEPS.but("multi_operand_addition_fire_scratchpad", seeds=7, positions=FIRE,
                   gpu={}, paper={}),
    SCRATCHPAD,
    SCRATCHPAD.but("multi_operand_addition_coupled_scratchpad_spare",
                   label="Coupled, scratchpad, spare zeros", seeds=7, task=dict(spare=2),
                   gpu={}),
    RELATIVE,
]

# The same to 2 or 3 numbers of 6 digits: from 3 digits neither reaches a fourth.
ONE_MORE = dict(
    study="multi_operand_one_more", seeds=5, task=dict(most_operands=3),
    training=dict(digits=6, steps=6000),
    evaluation=dict(problem_set="multi_operand_addition_of_three", digits=3, attention_cell=None,
                    far=[[6, 2], [6, 3], [7, 2], [7, 3], [8, 2], [8, 3], [3, 4], [6, 4]]))
ROWS += [
    parent.but(f"{parent.name.replace('nope', name)}_6", positions=positions, **ONE_MORE)
    for parent in (SUMS, SUMS_STEPS)
    for name, positions in (("nope", []), ("fire", FIRE))
]

# Lengths, formats and sizes: on a laptop to 4 numbers of 4 digits, tested to three times that, as
# in the paper. From 3 numbers, six layers do not reach a fourth, whatever their heads.
SMALL = SCRATCHPAD.but(
    SCRATCHPAD.name, "multi_operand_sizes", "Coupled, scratchpad", training=dict(digits=4),
    evaluation=dict(digits=12, attention_cell=None, starts=[1]), gpu={}, paper={})


def variant(
    parent: Row, name: str, label: str, study: str | None = None, seeds: int | None = None,
    **changes: Any,
) -> Row:
    """Return a variant of a row for large scales and, if it has seeds, for a laptop."""
    laptop = dict(seeds=seeds) if seeds else dict(laptop=None)
    return parent.but(f"{parent.name}_{name}", study, f"{parent.label}, {label}",
                      **merge(dict(gpu={}, paper={}), laptop, changes))


# Fig. 5, with at least four runs: trained lengths, on a laptop 3, 4 and 5 (`to_3`, `1l4h` and the
# row without a suffix); there `short` has the settings of Fig. 1.
# Fig. 6, 14 and footnote 3: formats; where the question is reversed or nothing is, the released
# code has other ids for signs. A sixth format, plain without zeros, is refused: its ids would
# reveal the length of a number before it is written. One layer does not learn sums from the first
# operand: in the first, it has nothing to add.
NO_CELL = dict(evaluation=dict(attention_cell=None))
FORMATS = "multi_operand_formats"
ROWS += [
    variant(SMALL, "short", "short", FORMATS, seeds=10, model=dict(layers=3, head_width=16),
            training=dict(digits=3, steps=6500),
            evaluation=dict(digits=9, attention_cell=[4, 4], starts=[1, "all"]),
            gpu=dict(model=dict(head_width=64), training=dict(digits=7)),
            paper=dict(seeds=4, training=dict(digits=7, batch=200))),
    SMALL.but(f"{SMALL.name}_to_3", FORMATS, f"{SMALL.label}, to 3", seeds=10,
              training=dict(digits=3)),
    variant(SMALL, "long", "long", FORMATS, gpu=dict(training=dict(digits=13)),
            paper=dict(seeds=4, training=dict(digits=13, batch=200))),
    variant(SMALL, "reversed", "question reversed", FORMATS, seeds=5,
            format=dict(reverse_operands=True, signs="lowest")),
    variant(SMALL, "plain", "nothing reversed", FORMATS, seeds=5,
            format=dict(reverse_answer=False, signs="lowest"), training=dict(steps=4800)),
    variant(SMALL, "unpadded", "no leading zeros", FORMATS, seeds=10, format=dict(pad=False),
            training=dict(steps=4800), gpu=NO_CELL, paper=NO_CELL),
    variant(SMALL, "unpadded_reversed", "no leading zeros, question reversed", FORMATS, seeds=5,
            format=dict(pad=False, reverse_operands=True, signs="lowest"),
            training=dict(steps=4800), gpu=NO_CELL, paper=NO_CELL),
    variant(SMALL, "from_first", "sums from the first operand", FORMATS, seeds=10,
            format=dict(from_zero=False), model=dict(layers=2)),
]


# Sizes: Fig. 10 has six seeds, Fig. 11 to 14 have eight. On a laptop, small differences of shape
# and of the size of the training set need more seeds.
HEADS_WIDTH = 256  # of all heads of a layer, as the paper's 1,024: fewer heads are wider


def size(layers: int, heads: int, seeds: int | None = None, **changes: Any) -> Row:
    """Return a row with another shape (Fig. 10)."""
    shape = dict(layers=layers, heads=heads)
    small = dict(model=shape | dict(head_width=HEADS_WIDTH // heads))
    label = f"{layers} layer{'s' if layers > 1 else ''} of {heads} heads"
    return variant(SMALL, f"{layers}l{heads}h", label, seeds=seeds, **small, gpu=small,
                   paper=dict(seeds=6, model=shape), **changes)


def width(features: int, seeds: int | None = None) -> Row:
    """Return a row with narrower embeddings and heads (Fig. 12); ids keep features of length 1."""
    small = dict(model=dict(width=features, head_width=features // 4))
    return variant(FOUR_HEADS, f"width_{features}", f"width {features}", seeds=seeds, **small,
                   positions=waves(20, 20, scale=(2 / features) ** 0.5), gpu=small,
                   paper=dict(seeds=8, model=dict(width=features, hidden=4 * features)))


def examples(name: str, words: str, count: int, seeds: int | None = None) -> Row:
    """Return a row with another number of training problems (Fig. 13)."""
    training = dict(training=dict(examples=count))
    return variant(SMALL, name, f"{words} problems", seeds=seeds, **training, paper=training)


FOUR_HEADS = size(1, 4, seeds=10, analyses=ATTENDED)
EIGHT_HEADS = size(1, 8, seeds=10)
ROWS += [
    size(1, 2, seeds=10), FOUR_HEADS,
    # Ours: x + N2(f(N1 x)), the norm of the branch.
    FOUR_HEADS.but("multi_operand_addition_coupled_scratchpad_branch",
                   label="Coupled, scratchpad, norm of the branch", seeds=5,
                   model=dict(norm_place="pre_and_branch"), gpu={}),
    EIGHT_HEADS,
    size(2, 2, seeds=10), size(2, 4, seeds=10), size(2, 8, seeds=5),
    size(4, 2, seeds=5), size(4, 4, seeds=5), size(4, 8, seeds=5),
    size(6, 2, seeds=5), size(6, 4, seeds=5),
    # At the paper's scale this shape is the row without a suffix.
    SMALL.but(f"{SMALL.name}_6l8h", label=f"{SMALL.label}, 6 layers of 8 heads", seeds=5,
              model=dict(layers=6, heads=8, head_width=HEADS_WIDTH // 8)),
    # Fig. 11: heads of half and twice the width.
    variant(FOUR_HEADS, "narrow_heads", "heads half as wide", seeds=10, model=dict(head_width=32),
            paper=dict(seeds=8, model=dict(head_width=128))),
    variant(EIGHT_HEADS, "wide_heads", "heads twice as wide", seeds=10, model=dict(head_width=64),
            gpu=dict(model=dict(head_width=64)), paper=dict(seeds=8, model=dict(head_width=256))),
    width(64, seeds=5), width(128, seeds=5), width(256, seeds=5), width(512),
    # Of the paper's sizes a laptop's 77,000 training problems repeat 20,000 alone; the paper's 20
    # million repeat its smallest set 1,000 times. Two smaller sets repeat as well.
    *(SMALL.but(f"{SMALL.name}_{count // 1000}k", label=f"{SMALL.label}, {count:,} problems",
                seeds=5, training=dict(examples=count)) for count in (1000, 5000)),
    examples("20k", "20,000", 20_000, seeds=10), examples("100k", "100,000", 100_000, seeds=5),
    examples("2m", "2 million", 2_000_000), examples("10m", "10 million", 10_000_000, seeds=10),
]

# ---- Parity (section 3, Table 1) -----------------------------------------------------------------

# 10,000 training strings, which all rows of the paper share. Without a scratchpad the longest
# trained strings are learned last.
BITS = dict(analyses=["last_bits"])
PARITY = row(
    "parity_nope", "parity", seeds=5, task=dict(name="parity"), **BITS,
    model=dict(layers=3, width=64, head_width=16),
    training=dict(digits=20, examples=10_000, stream="training parity_coupled_scratchpad",
                  steps=12000, batch=64, learning_rate=0.004),
    evaluation=dict(digits=100),
    gpu=merge(GPU, dict(model=dict(width=64), training=dict(digits=20, steps=4000, batch=256),
                        evaluation=dict(digits=100, longest=100))),
    paper=merge(PAPER, dict(model=dict(width=512),
                            training=dict(digits=20, examples=10_000, batch=20),
                            evaluation=dict(digits=100, longest=100))))
PARITY_STEPS = PARITY.but(
    "parity_nope_scratchpad", seeds=5, **BITS,
    format=dict(name="scratchpad", reverse_operands=True), training=dict(steps=3000, batch=32),
    gpu={}, paper={})
PARITY_SCRATCHPAD = PARITY_STEPS.but(
    "parity_coupled_scratchpad", seeds=9, positions=waves(101, scale=NARROW),
    model=dict(layers=1, head_width=64), training=dict(steps=2000, batch=64, weight_decay=1.0,
                                                       stream=None),
    gpu={}, paper=dict(positions=tables(101)))
ROWS += [
    PARITY,
    PARITY.but("parity_rope", **BITS, positions=ROPE, gpu={}, paper={}),
    PARITY.but("parity_fire", **BITS, positions=FIRE, gpu={}, paper={}),
    PARITY_STEPS,
    PARITY_STEPS.but("parity_rope_scratchpad", seeds=5, **BITS, positions=ROPE,
                     training=dict(steps=2200), gpu={}, paper={}),
    PARITY_STEPS.but("parity_fire_scratchpad", **BITS, positions=FIRE, training=dict(steps=2600),
                     gpu={}, paper={}),
    PARITY_SCRATCHPAD,
]

# ---- Products (section 5, Fig. 9, Table 3) -------------------------------------------------------

# Without a scratchpad a laptop trains to the paper's 10 digits, for a claim about the trained
# lengths. Only the answer is zero-padded, as in the released code, which has batches of 250 and
# tables of 70 and 35 ids.
PRODUCTS = row(
    "multiplication_nope", "multiplication_schemes", seeds=5, task=dict(name="multiplication"),
    format=dict(reverse_operands=False, pad="answer"),
    model=dict(layers=3, width=128, head_width=64, norm="rms", norm_place="pre_and_post"),
    training=dict(digits=10, steps=6000, batch=64, pool=16, learning_rate=0.004, precision="bf16"),
    evaluation=dict(problem_set="multiplication_to_20", digits=10),
    gpu=merge(GPU, dict(evaluation=dict(problem_set=None))),
    paper=merge(PAPER, dict(seeds=4, training=dict(batch=200, learning_rate=5e-5),
                            evaluation=dict(problem_set=None))))
# To 3 digits.
PRODUCTS_STEPS = PRODUCTS.but(
    "multiplication_nope_scratchpad", seeds=6, format=dict(name="scratchpad", pad=True),
    model=dict(width=64), training=dict(digits=3, steps=8000, batch=32, precision="auto"),
    evaluation=dict(problem_set=None, digits=9), gpu={}, paper={})
# With one layer it writes the products of single digits long before their running sums. Running
# sums are learned in the cooldown; with a cosine, 2 of 5 seeds learned the trained lengths.
PRODUCTS_SCRATCHPAD = PRODUCTS_STEPS.but(
    "multiplication_coupled_scratchpad", seeds=5, positions=waves(14, 12, 24),
    model=dict(layers=2, width=128),
    training=dict(steps=7000, learning_rate=0.003, weight_decay=0.1, decay="trapezoid",
                  cooldown=0.4),
    gpu=dict(positions=waves(64, 32, 64), training=dict(steps=8000)),
    paper=dict(positions=tables(64, 32, 64), training=dict(decay="cosine", cooldown=None)))
PRODUCTS_FIRE = PRODUCTS.but(
    "multiplication_fire", positions=FIRE, model=dict(layers=2), gpu={}, paper={})
PRODUCTS_COUPLED = PRODUCTS.but(
    "multiplication_coupled", positions=waves(40), model=dict(layers=2),
    gpu=dict(positions=waves(64)), paper=dict(positions=tables(64)))
# To 5 digits, products by one digit are learned, so that longer ones can be tested (5.3).
TO_5 = dict(seeds=5, training=dict(digits=5, precision="auto"))
ROWS += [
    PRODUCTS, PRODUCTS_FIRE, PRODUCTS_COUPLED,
    PRODUCTS_FIRE.but("multiplication_fire_5", **TO_5),
    PRODUCTS_COUPLED.but("multiplication_coupled_5", **TO_5),
    PRODUCTS_STEPS,
    PRODUCTS_STEPS.but("multiplication_fire_scratchpad", positions=FIRE, model=dict(layers=2),
                       gpu={}, paper={}),
    PRODUCTS_SCRATCHPAD,
]

# ---- The paper's 10 numbers of 10 digits, and 10 by 10 digits ------------------------------------

TO_10 = dict(
    seeds=3, model=dict(layers=2, width=128, head_width=64, attention_scale="log"),
    training=dict(digits=10, learning_rate=0.003, weight_decay=0.1, precision="bf16",
                  decay="trapezoid", cooldown=0.2))
SCRATCHPAD_10 = SCRATCHPAD.but(
    "multi_operand_addition_coupled_scratchpad_10", "papers_operands", "Coupled, scratchpad",
    **merge(TO_10, dict(positions=waves(40, 40), training=dict(steps=12000),
                        evaluation=dict(problem_set="multi_operand_addition_to_30", digits=30,
                                        far=[30], attention_cell=None))))
TWO_HEADS_10 = SCRATCHPAD_10.but(
    "multi_operand_addition_coupled_scratchpad_10_2l2h", "papers_two_heads",
    "Coupled, scratchpad, 2 heads", model=dict(heads=2), training=dict(steps=8000))
PRODUCTS_10 = PRODUCTS_SCRATCHPAD.but(
    "multiplication_coupled_scratchpad_10", "papers_operands", "Coupled, scratchpad",
    **merge(TO_10, dict(positions=waves(40, 32, 48), training=dict(steps=6000, batch=64),
                        evaluation=dict(problem_set="multiplication_to_20", digits=20,
                                        far=[[20, 15]]))))
ROWS += [
    SCRATCHPAD_10,
    COUPLED_SUMS.but(
        "multi_operand_addition_coupled_10", "papers_operands", "Coupled",
        **merge(TO_10, dict(positions=waves(40), training=dict(steps=6000, batch=64),
                            evaluation=dict(problem_set="multi_operand_addition_to_30", digits=30,
                                            starts=[1], attention_cell=None)))),
    PRODUCTS_10,
    TWO_HEADS_10,
]
