"""Position encodings and formats for sums of two numbers of equal length (ibrahimli2024)."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

from carry.experiments.base import SMOKE, Row, Settings, ids, merge, row


def steps(count: int, snapshots: int) -> Settings:
    """Return steps with a number of snapshots for plots of learning."""
    return dict(steps=count, snapshot_every=count // snapshots)


def both(**changes: Any) -> dict[str, Settings]:
    """Return changes at both scales of the thesis."""
    return dict(paper=changes, gpu=changes)


def scored(digits: int) -> Settings:
    """Return the largest scored size at the scales of the thesis."""
    return dict(digits=digits, longest=digits)


# 4.2.4, and its released code: experiment 29 for positions and formats, 28 for the gap, 1 and 15
# for the baselines, 27 for sub-tasks. Warmups have 100 steps. Tied embeddings have the initial
# values of PyTorch, and dropout is that of PyTorch's layer.
PAPER = dict(
    seeds=3,
    model=dict(layers=3, width=128, activation="gelu", norm_place="post", tied=True,
               logit_scale=1.0, embedding_std=1.0),
    training=dict(problem_set="generalize_to_longer_mini", digits=9, examples=100_000,
                  **steps(100_000, 20), batch=256, pool=16, optimizer="adamw", learning_rate=0.0003,
                  betas=[0.9, 0.999], weight_decay=0.1, warmup=0.001, final_learning_rate=0.1,
                  dropout=0.1, dropout_inside=0.1, dropout_embeddings=0.1, precision="fp32",
                  score_every=500, checkpoint_every=None),
    evaluation=dict(**scored(12), starts=[1]))
# Fewer steps with larger batches; warmups have the same share of them.
GPU = merge(PAPER, dict(training=dict(batch=512, **steps(25_000, 20))))
# Of baselines; a GPU has half of their width.
SIX_LAYERS = dict(paper=dict(model=dict(layers=6, width=768)),
                  gpu=dict(model=dict(layers=6, width=384)))
# Embeddings have dropout only where the released code has learned or sinusoidal positions.
UNDROPPED = both(training=dict(dropout_embeddings=0.0))
# Abacus ids as in the thesis, and those of a laptop, whose offsets are drawn for each example and
# whose tables begin with sine waves, so that a short training teaches every id.
ABACUS = merge(UNDROPPED, both(positions=[ids("abacus", "learned", offset=31, table=127)]))
ABACUS_LAPTOP = ids("abacus", "learned", per_example=True, initial="sinusoidal")

# What all rows share. Operands come from a data set; a laptop has a smaller set and fewer
# problems.
EQUAL = row(
    "addition_equal", "equal", task=dict(sampling="equal"),
    positions=[ids("index", "learned", table=260)], model=dict(width=64),
    training=dict(learning_rate=0.004), paper=PAPER, gpu=GPU)

# ---- Formats (Table 4.1, 4.4) --------------------------------------------------------------------

# Answers are reversed, which is learned fastest. Claims within one row need 8 seeds.
LEARNED = EQUAL.but(
    "addition_equal_learned", "equal_formats", seeds=9,
    format=dict(begin="$", reverse_operands=False),
    training=dict(problem_set="generalize_to_longer_tiny", digits=6, examples=10_000,
                  **steps(1600, 20)),
    evaluation=dict(digits=8), **both(),
    smoke=merge(SMOKE, dict(seeds=2, training=dict(examples=300, snapshot_every=10),
                            evaluation=dict(digits=4))))
# Failure one digit beyond training, and a gap within the trained lengths (4.3.1, 4.3.3). The first
# set has 9,100 problems; of the three, the thesis reverses only its answers.
BASELINE = LEARNED.but(
    "addition_equal_learned_baseline", label="Learned index, short training lengths", seeds=5,
    training=dict(problem_set="1_and_3_digit", digits=3, examples=9100),
    evaluation=dict(digits=4),
    **merge(SIX_LAYERS, both(
        training=dict(problem_set="1-3_digit", digits=3, examples=9100, **steps(10_000, 20),
                      warmup=0.01),
        evaluation=scored(4))))
LONGER = dict(problem_set="generalize_to_longer", digits=19, examples=1_000_000)
ROWS = [
    LEARNED,
    BASELINE,
    # Fig. 4.2: encoder and decoder, each one layer 3 times; the thesis has width 384, 6 heads. All
    # of 100 sums of 3 digits are right after 300 steps.
    BASELINE.but(
        "addition_equal_universal", label="Universal transformer", seeds=5,
        positions=[ids("restarted", "learned", table=260)],
        model=dict(name="universal", layers=1, recurrences=3, ponder=0.01, halting_bias=-1.0),
        training=steps(800, 10),
        **both(model=dict(width=384, heads=6, layers=1))),
    LEARNED.but(
        "addition_equal_learned_gap", label="Learned index, a larger gap", seeds=5,
        training=dict(problem_set="generalize_to_longer_tiny_gap", digits=7, snapshot_every=150),
        evaluation=dict(digits=9),
        **both(format=dict(reverse_answer=False),
               training=dict(problem_set="generalize_to_longer_mini_gap", digits=11),
               evaluation=scored(13))),
    # `long` has the lengths of the thesis.
    LEARNED.but(
        "addition_equal_learned_longer", label="Learned index, no gap", seeds=5,
        model=dict(layers=4),
        training=dict(problem_set="1-7_digit", digits=7, examples=100_000, **steps(6000, 20)),
        evaluation=dict(digits=8),
        long=dict(seeds=2, model=dict(layers=4, width=128),
                  training=LONGER | steps(20_000, 10), evaluation=dict(digits=20)),
        **merge(SIX_LAYERS,
                both(format=dict(reverse_answer=False), evaluation=scored(20),
                     training=dict(**LONGER, warmup=0.000333333)),
                dict(paper=dict(training=steps(300_000, 20))))),
]

# The comparison of encodings and formats (4.3.4), at the lengths of the thesis: 1 to 7 and 9 digits
# around a gap of 8. Plain answers are learned place by place, which needs the most steps; snapshots
# are close enough to see it.
PLAIN = LEARNED.but(
    "addition_equal_learned_plain", label="Learned index, nothing reversed", seeds=5,
    format=dict(reverse_answer=False), model=dict(layers=4),
    training=dict(problem_set="generalize_to_longer_mini", digits=9, examples=100_000,
                  **steps(9000, 90)),
    evaluation=dict(digits=12), **both())
REVERSED = PLAIN.but(
    "addition_equal_learned_reversed", label="Learned index, answer reversed", seeds=5,
    format=dict(reverse_answer=True), training=steps(6000, 60), **both())
BOTH = REVERSED.but(
    "addition_equal_learned_both", label="Learned index, both reversed", seeds=5,
    format=dict(reverse_operands=True), **both())
SPACES = PLAIN.but(
    "addition_equal_learned_spaces", label="Learned index, random spaces", seeds=5,
    format=dict(spaces=0.5), training=steps(6000, 60), **both())
ROWS += [
    PLAIN,
    REVERSED,
    BOTH,
    # Zeros align the places, so that the trained lengths are learned after 1,000 steps.
    PLAIN.but("addition_equal_learned_padded", seeds=5,
              label="Learned index, nothing reversed, leading zeros",
              format=dict(pad_to=13), model=dict(layers=3), training=steps(2000, 20), **both()),
    PLAIN.but("addition_equal_learned_operands", label="Learned index, operands reversed",
              laptop=None, format=dict(reverse_operands=True), **both()),
    SPACES,
    EQUAL.but("addition_equal_learned_worded", "equal_formats", "Learned index, steps in words",
              seeds=5, format=dict(name="worded", begin="$"),
              training=dict(problem_set="1-3_digit", digits=3, examples=10_000, **steps(1000, 10),
                            batch=64),
              evaluation=dict(digits=4),
              **both(format=dict(bar=True), positions=[ids("index", "learned", table=511)])),
]

# ---- Position encodings (2.1.4, 4.3.4) -----------------------------------------------------------

# Abacus ids count from the least significant digit if it is first.
EQUAL_ABACUS = LEARNED.but(
    "addition_equal_abacus", "equal_schemes", seeds=5, format=dict(reverse_operands=True),
    positions=[ABACUS_LAPTOP | dict(offset=25)], **ABACUS)
ABACUS_TO_9 = BOTH.but(
    "addition_equal_abacus_to_9", "equal_schemes", seeds=5, model=dict(layers=2),
    training=steps(2000, 20), positions=[ABACUS_LAPTOP | dict(limit=30)], **ABACUS)
ALIGNED = (PLAIN, SPACES, ABACUS_TO_9)
ROWS += [EQUAL_ABACUS, ABACUS_TO_9]
# One seed of NoPE and of ALiBi had learned the trained lengths after 2,500 steps. RoPE of width 64,
# with the learning rate of `PLAIN`, has 5 digits after 3,000 steps and not 7.
ENOUGH = dict(nope=3000, alibi=4000, randomized=4000)
for name in ("sinusoidal", "randomized", "shaw", "t5", "alibi", "rope", "fire", "nope"):
    positions = dict(nope=[], randomized=[ids("randomized", "learned", range=260,
                                              per_example=True)])
    ROWS.append(BOTH.but(
        f"addition_equal_{name}", "equal_schemes", seeds=5,
        positions=positions.get(name, [ids("index", name)]), model=dict(layers=3, width=96),
        training=dict(**steps(ENOUGH.get(name, 6000), 20), learning_rate=0.002),
        **(both() if name in ("sinusoidal", "randomized") else UNDROPPED)))

# `adaptive`: each token chooses its depth (2.1.3). `looped`: all tokens have the same depth, which
# is that of the other rows at the scales of the thesis.
LOOPED = EQUAL_ABACUS.but(
    "addition_equal_abacus_looped", laptop=None,
    model=dict(layers=1, recurrences=4, injection="every_layer"),
    **both(model=dict(layers=1, recurrences=3)))
ADAPTIVE = LOOPED.but(
    "addition_equal_abacus_adaptive", seeds=2,
    model=dict(name="adaptive", ponder=0.01, halting_bias=-1.0), training=dict(steps=4500),
    **both())
DEAR = ADAPTIVE.but(
    "addition_equal_abacus_adaptive_dear", label="Abacus, adaptive, higher ponder cost",
    laptop=None, model=dict(ponder=0.05), **both())
ROWS += [LOOPED, ADAPTIVE, DEAR]

# ---- Sub-tasks (4.5) -----------------------------------------------------------------------------

# `alone`: additions only. `parts`: the same number of problems from five sub-tasks. Answers are
# plain, and questions have random spaces. After 5,000 steps additions alone solve 8 digits; the
# thesis compares where they do not.
ALONE = EQUAL.but(
    "addition_equal_alone", "equal_parts", "Learned index, additions alone", seeds=10,
    format=dict(name="sub_task", prefix="add", reverse_answer=False, spaces=0.5),
    model=dict(layers=4),
    training=dict(problem_set="generalize_to_longer_mini", digits=9, examples=100_000,
                  **steps(3000, 20)),
    evaluation=dict(digits=11),
    **merge(both(model=dict(layers=6, width=256, heads=8), training=dict(warmup=0.003125),
                 evaluation=scored(11)),
            dict(paper=dict(training=steps(32_000, 20)), gpu=dict(training=steps(16_000, 20)))))
MIXED = dict(training=dict(problem_set="generalize_to_longer_mini_multitask"))
FIVE = merge(MIXED, both(**MIXED))
PARTS = ALONE.but("addition_equal_parts", label="Learned index, with parts", **FIVE)
# Ours: the same with Abacus ids, which align the digits. They need the least significant digit
# first, and no spaces, because ids restart at a space.
ABACUS_ALONE = ALONE.but(
    "addition_equal_abacus_alone", label="Abacus, additions alone", laptop=None,
    format=dict(reverse_operands=True, reverse_answer=True, spaces=0.0), **ABACUS)
ROWS += [
    ALONE, PARTS, ABACUS_ALONE,
    ABACUS_ALONE.but("addition_equal_abacus_parts", label="Abacus, with parts", laptop=None,
                     **FIVE),
]

# Numbers of problems and widths, on a GPU.
COUNTS = {"10k": 10_000, "100k": 100_000, "1m": 1_000_000, "10m": 10_000_000}
WIDTHS = (64, 128, 256, 512, 1024, 1536)
for (name, count), width, parent in product(COUNTS.items(), WIDTHS, (ALONE, PARTS)):
    size = dict(model=dict(width=width), training=dict(examples=count))
    small = count <= 100_000 and width <= 256
    ROWS.append(parent.but(
        f"{parent.name}_{name}_width_{width}", "equal_sizes", seeds=3, **size,
        laptop=None, gpu=size if small and width != 128 else None, paper=size))


# What is learned in which order; of some rows also what attention computes, and whether it finds
# the digits to add (Fig. 4.4); and how deep each token goes.
def analyse(parent: Row) -> Row:
    """Return a row with its analyses."""
    if parent.study == "equal_sizes" or parent is LOOPED:
        return parent
    analyses = ["depths"] if parent in (ADAPTIVE, DEAR) else ["learning"]
    analyses += ["mechanism"] * (parent in (LEARNED, EQUAL_ABACUS))
    analyses += ["milestones"] * (parent in (PLAIN, REVERSED))
    analyses += ["alignment"] * (parent in ALIGNED)
    return replace(parent, settings=parent.settings | dict(analyses=analyses))


ROWS = [analyse(parent) for parent in ROWS]
