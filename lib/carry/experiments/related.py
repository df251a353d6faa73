"""Results of related works as rows: one core trains each, and one pass with ids from 1 answers.

Each row has the stated number of its work in a comment. RELATED_WORK.md says what is comparable.
"""

from __future__ import annotations

from typing import Any

from carry.experiments.base import Row, Settings, ids, merge, row
from carry.experiments.cho2025 import COUPLED_30, PAPER, tables
from carry.experiments.every_length import RELATIVE

STUDY = "related"
ONE_PASS = dict(starts=[1], band=False)

# ---- Sums to 5 digits, relative to places (Sabbaghi et al. 2024: 50 digits) ----------------------

# `all`: without the window. Products from 5 digits: `multiplication_relative_scratchpad`, which is
# certified at every length.
RELATIVE_5 = RELATIVE.but(
    "addition_relative_5", STUDY, "Abacus read relatively, 5 digits", seeds=5,
    training=dict(digits=5, snapshot_every=None),
    evaluation=dict(problem_set="addition_related", digits=10, longest=30, far=[50, 100, 500],
                    reach=[], **ONE_PASS))
ROWS = [
    RELATIVE_5,
    RELATIVE_5.but("addition_relative_5_all", label="Abacus read relatively, 5 digits, no window",
                   positions=[ids("abacus", "relative", clip=3)]),
]

# ---- One layer of four heads, coupled ids (Cho et al. 2024: 30 -> 200 digits) --------------------

# The released settings, at a width of 128 instead of 512, with 10,000 steps of 128 sums instead of
# 50,000 of 1,000, and at ten times the rate. Sums are new in every step.
ROWS += [
    COUPLED_30.but(
        "addition_coupled_30_released", STUDY, "Coupled, 30 digits, released settings",
        positions=tables(202),
        model=merge(PAPER["model"], dict(layers=1, heads=4, width=128, hidden=512,
                                         attention_scale="constant")),
        training=dict(steps=10_000, pool=16, optimizer="adamw", learning_rate=0.001,
                      betas=[0.9, 0.999], weight_decay=0.0, warmup=0.01, decay="cosine",
                      cooldown=None, final_learning_rate=0.1),
        evaluation=dict(problem_set="addition_to_200", longest=200, far=[], **ONE_PASS)),
]

# ---- Loops that grow with the length, without positions (Fan et al. 2024: 20 -> 30 and more) -----

LOOPS: Settings = dict(
    seeds=5, model=dict(name="growing", layers=1, width=64, injection="entrance"),
    training=dict(steps=3000, batch=64, optimizer="adamw", learning_rate=0.001, pool=16))


def loops(name: str, label: str, fixed: int, per_loop: int, **settings: Any) -> list[Row]:
    """Return a row whose loops grow, and one with as many as the longest trained problem has."""
    settings = merge(LOOPS, settings, dict(model=dict(tokens_per_loop=per_loop)))
    growing = row(name, STUDY, f"NoPE, loops that grow, {label}", **settings)
    # No question has so many tokens: the block is run `recurrences` times.
    same = dict(recurrences=fixed, tokens_per_loop=10**6)
    return [growing, growing.but(f"{name}_fixed", label=f"NoPE, {fixed} loops, {label}",
                                 model=same)]


ROWS += loops(
    "parity_growing", "parity", fixed=12, per_loop=1, task=dict(name="parity"),
    training=dict(digits=10),
    evaluation=dict(problem_set="parity_related", digits=20, longest=40, **ONE_PASS))
# Numbers of equal lengths in base 2, least significant bit first: with the most significant one
# first, a seed had 77% of the sums of up to 6 bits after 3,000 steps.
ROWS += loops(
    "addition_growing", "binary sums", fixed=7, per_loop=2,
    task=dict(name="addition", radix=2, sampling="equal"),
    format=dict(pad=True), training=dict(digits=5, steps=5000, learning_rate=0.002),
    evaluation=dict(problem_set="binary_related", digits=5, longest=12, **ONE_PASS))

# ---- Sub-tasks longer than sums (Cai et al. 2025: sums to 16, the others to 32, sums of 32) ------

# Sums to 4 digits; carries and digit sums to 8, or also to 4.
TRANSFER = row(
    "addition_transfer", STUDY, "RoPE, sums to 4, parts to 8", seeds=5,
    task=dict(sampling="equal"), positions=[ids("index", "rope")],
    format=dict(name="transfer", prefix="add", sums_to=4, reverse_operands=True,
                reverse_answer=True),
    model=dict(layers=3, width=64),
    training=dict(problem_set="transfer_long", digits=8, examples=100_000, steps=4000,
                  learning_rate=0.004),
    evaluation=dict(digits=10, longest=10, **ONE_PASS))
ROWS += [
    TRANSFER,
    TRANSFER.but("addition_transfer_short", label="RoPE, sums and parts to 4",
                 training=dict(problem_set="transfer_short", digits=4)),
]

# ---- Turing programs (Hou et al. 2024: 50 -> 100 digits, 98%) ------------------------------------

# Eight heads see up to so many tokens before the query, four see all. `constant`: attention logits
# that do not grow with the length, as in the source.
TURING = row(
    "addition_turing_10", STUDY, "Hard-ALiBi, Turing program", seeds=5,
    format=dict(name="turing"),
    positions=[ids("index", "hard_alibi", spans=[1, 2, 3, 4, 5, 6, 7, 8])],
    model=dict(layers=2, width=64, heads=12, head_width=16, attention_scale="log"),
    training=dict(digits=10, steps=3000, batch=32, pool=32, learning_rate=0.004),
    evaluation=dict(problem_set="addition_related", digits=10, longest=20, **ONE_PASS))
ROWS += [
    TURING,
    TURING.but("addition_turing_10_constant", label="Hard-ALiBi, Turing program, plain logits",
               model=dict(attention_scale="constant")),
]

# ---- Self-improvement (Lee et al. 2025: 10 -> 100 digits) ----------------------------------------

# The rounds are those of the analysis, and so are their scores. The table ends where sums of 100
# digits have four starts.
ROWS += [
    row("addition_abacus_improving", STUDY, "Abacus, before self-improvement", seeds=5,
        positions=[ids("abacus", "learned", per_example=True, initial="sinusoidal", limit=104)],
        training=dict(steps=2000, learning_rate=0.001), analyses=["self_improvement"],
        evaluation=dict(problem_set="addition_related", digits=10, longest=30, far=[40, 50, 100],
                        **ONE_PASS)),
]
