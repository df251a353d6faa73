"""What a single pass needs beyond training, and the papers' headlines evaluated in one pass.

A query of a long sum meets ids that are farther away than in any training problem, and more keys.
Remedies in training: ids that jump, ids with gaps, a second problem in the sequence (`packed`), and
far tokens that count several times (`longer`).
"""

from __future__ import annotations

from typing import Any

from carry.experiments.base import SMOKE, Row, Settings, ids, merge
from carry.experiments.cho2025 import (
    COUPLED_30,
    NARROW,
    PARITY_SCRATCHPAD,
    PRODUCTS_10,
    TWO_HEADS_10,
    waves,
)
from carry.experiments.mcleish2024 import ABACUS_20, GPU, IDS_20

# ---- Remedies, trained to 10 digits --------------------------------------------------------------

# Settings were chosen with models that are trained to 6 digits.
REMEDIES: dict[str, tuple[str, Settings, Settings]] = {  # words; ids in training; training
    "": ("10 digits", {}, {}),
    "_jump": ("one jump", dict(jumps=1), {}),
    "_jumps": ("up to three jumps", dict(jumps=3), {}),
    "_gaps": ("increasing ids", dict(gaps=True), {}),
    "_packed": ("packed", {}, dict(packing=True)),
    "_longer": ("counted as longer", {}, dict(longer=24.0)),
    "_jumps_longer": ("up to three jumps, counted as longer", dict(jumps=3), dict(longer=24.0)),
}
ABACUS_10 = merge(IDS_20, dict(offset=51))
TO_10 = dict(digits=10, longest=30, far=[40], starts=[1, "window", 5, 10, 20])


def remedies(parent: Row, name: str, label: str, positions: Settings, **changes: Any) -> list[Row]:
    """Return a row for each remedy."""
    return [
        parent.but(f"{name}{remedy}", "one_pass", f"{label}, {words}",
                   positions=[positions | moves], **merge(changes, dict(training=training)))
        for remedy, (words, moves, training) in REMEDIES.items()
    ]


ABACUS = remedies(ABACUS_20, "addition_abacus_10", "Abacus", ABACUS_10, seeds=5,
                  training=dict(digits=10, steps=1500), evaluation=TO_10)
LOOPED = remedies(ABACUS[0], "addition_abacus_looped_10", "Abacus, looped", ABACUS_10,
                  model=dict(injection="every_layer", layers=1, recurrences=3))
ROWS = [*ABACUS, *LOOPED]
# From the paper's ids and logits (one offset for a batch, a table that starts as noise, logits of
# the plain scale) to ours, one part at a time; and its progressive loss.
NOISE = ids("abacus", "learned", offset=51)
CONSTANT = dict(model=dict(attention_scale="constant"))
ROWS += [
    LOOPED[0].but(f"addition_abacus_looped_10_{name}", label=f"Abacus, looped, {label}", **changes)
    for name, label, changes in (
        ("published", "published ids and logits", CONSTANT | dict(positions=[NOISE])),
        ("offsets", "even offsets",
         CONSTANT | dict(positions=[NOISE | dict(per_example=True, even=True)])),
        ("waves", "table of waves", CONSTANT))
]
ROWS += [LOOPED[-1].but("addition_abacus_looped_10_progressive",
                        label="Abacus, looped, progressive loss", training=dict(progressive=0.5))]
ROWS += remedies(
    COUPLED_30, "addition_coupled_10", "Coupled",
    ids("coupled", "sinusoidal", base=None, limit=96, even=True, turned=True),
    training=dict(digits=10, steps=3000),
    evaluation=merge(TO_10, dict(far=[40, 60, 80], starts=[1, "window", 5, 10, 14])))

# ---- The papers' headlines -----------------------------------------------------------------------

# With the remedies above. Steps, cooldown and the number of ids of longer rows, layers and steps of
# looped ones, and the table of coupled ids were chosen after first seeds, at lengths that are
# tested. Looped rows have two recurrences, as in the paper; `published` has the paper's ids and
# logits. Coupled ids of 30 digits have a learned table: with fixed waves, in fewer features than
# there are ids, single ids are confused whatever the training. Sums of many operands and products
# may have one jump at each level.
PAPERS = "headlines"
HEADLINE = "jumps, counted as longer"
FAR = dict(starts=[1], band=False)
SMALL = merge(SMOKE, dict(evaluation=dict(longest=None)))
# One GPU trains the same models in larger batches.
LARGE = merge(GPU, dict(training=dict(cooldown=0.5),
                        evaluation=FAR | dict(problem_set="addition_to_160")))
STANDARD = ABACUS_20.but(
    "addition_abacus_20_jumps_longer", PAPERS, f"Abacus, 20 digits, {HEADLINE}", seeds=5,
    positions=[IDS_20 | dict(offset=540, jumps=3)],
    training=dict(steps=7000, longer=40.0, cooldown=0.5),
    evaluation=FAR | dict(problem_set="addition_to_160", digits=100, longest=160,
                          far=[200, 300, 400, 500]),
    smoke=SMALL, gpu=LARGE)
INJECTED = STANDARD.but(
    "addition_abacus_injected_20_jumps_longer", PAPERS, f"Abacus, injected, 20 digits, {HEADLINE}",
    model=dict(injection="every_layer"), gpu={})
LOOPED_20 = INJECTED.but(
    "addition_abacus_looped_20_jumps_longer", PAPERS, f"Abacus, looped, 20 digits, {HEADLINE}",
    model=dict(layers=2, recurrences=2), training=dict(steps=6000), publish=True,
    gpu=dict(model=dict(layers=2)))
TWO_HEADS = TWO_HEADS_10.but(
    "multi_operand_addition_coupled_scratchpad_10_2l2h_jump_longer", PAPERS,
    f"Coupled, scratchpad, 2 heads, {HEADLINE}", seeds=5, positions=waves(40, 40, jumps=1),
    training=dict(steps=10000, longer=8.0), evaluation=dict(starts=[1]))
ROWS += [
    STANDARD, INJECTED, LOOPED_20,
    LOOPED_20.but(
        "addition_abacus_looped_20_published", PAPERS,
        "Abacus, looped, 20 digits, published ids and logits",
        positions=[ids("abacus", "learned", offset=150)], model=dict(attention_scale="constant"),
        training=dict(longer=1.0), evaluation=dict(far=[])),
    COUPLED_30.but(
        "addition_coupled_30_jumps_longer", PAPERS, f"Coupled, 30 digits, {HEADLINE}",
        positions=[ids("coupled", "learned", limit=1040, even=True, jumps=3)],
        training=dict(steps=16000, longer=40.0, cooldown=0.5),
        evaluation=FAR | dict(problem_set="addition_to_200", longest=200,
                              far=[300, 400, 500, 600, 800, 1000]),
        smoke=SMALL, gpu=merge(LARGE, dict(model=dict(layers=1, head_width=32),
                              training=dict(digits=30, steps=16000),
                              evaluation=dict(problem_set="addition_to_200", digits=30,
                                              longest=200)))),
    TWO_HEADS,
    TWO_HEADS.but(
        "multi_operand_addition_coupled_scratchpad_10_1l4h_jump_longer", PAPERS,
        f"Coupled, scratchpad, one layer, {HEADLINE}", model=dict(layers=1, heads=4)),
    # The paper's worst shape (Fig. 10).
    TWO_HEADS.but(
        "multi_operand_addition_coupled_scratchpad_10_1l2h_jump_longer", PAPERS,
        f"Coupled, scratchpad, 1 x 2 heads, {HEADLINE}", model=dict(layers=1)),
    PRODUCTS_10.but(
        "multiplication_coupled_scratchpad_10_jump_longer", PAPERS,
        f"Coupled, scratchpad, {HEADLINE}", seeds=5, positions=waves(40, 32, 48, jumps=1),
        training=dict(longer=8.0, cooldown=0.5), evaluation=dict(starts=[1])),
    PARITY_SCRATCHPAD.but(
        "parity_coupled_scratchpad_jumps_longer", PAPERS, f"Coupled, scratchpad, {HEADLINE}",
        seeds=5, positions=waves(140, scale=NARROW, jumps=3), training=dict(longer=24.0),
        evaluation=dict(starts=[1])),
    STANDARD.but(
        "bitwise_or_abacus_jumps_longer", PAPERS, f"Abacus, {HEADLINE}",
        task=dict(name="bitwise_or"), model=dict(layers=2, width=64, head_width=32),
        training=dict(steps=5000),
        evaluation=dict(problem_set="bitwise_or_to_100", longest=100, far=[])),
]
