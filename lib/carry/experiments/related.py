"""Results of related works as rows: one core trains each, and one pass from id 1 answers.

Each row has the stated number of its work in a comment; RELATED_WORK.md says what differs.
"""

from __future__ import annotations

from carry.experiments.base import ids, row
from carry.experiments.cho2025 import COUPLED_30, tables
from carry.experiments.every_length import RELATIVE

STUDY = "related"
PASS = dict(starts=[1], band=False)

RELATIVE_5 = RELATIVE.but(
    "addition_relative_5", STUDY, "Abacus read relatively, 5 digits",
    training=dict(digits=5, snapshot_every=None), smoke={},
    evaluation=dict(digits=5, longest=30, far=[50, 500], reach=[], problem_set="addition_related", **PASS))

GROWING = row(
    "parity_growing", STUDY, "NoPE, loops that grow, parity",
    task=dict(name="parity"), model=dict(name="growing", layers=1, width=64, tokens_per_loop=1, injection="entrance"),
    training=dict(digits=10, steps=3000, batch=64, optimizer="adamw", learning_rate=0.001, pool=16),
    evaluation=dict(digits=20, longest=40, **PASS))
GROWING_SUMS = GROWING.but("addition_growing", task=dict(name="addition", radix=2, sampling="equal"),
    format=dict(pad=True, reverse_operands=False, reverse_answer=False),
    model=dict(tokens_per_loop=2),
    training=dict(digits=6),)
TRANSFER = row("addition_transfer", STUDY, "RoPE, longer parts",
    task=dict(name="addition", sampling="equal"), positions=[ids("index", "rope")],
    format=dict(name="transfer", prefix="add", sums_to=4, reverse_operands=True, reverse_answer=True),
    model=dict(layers=3, width=64),
    training=dict(problem_set="transfer_long", digits=8, examples=100_000, steps=4000, batch=128, learning_rate=0.004),
    evaluation=dict(digits=10, **PASS))
TRANSFER_SHORT = TRANSFER.but("addition_transfer_short", label="RoPE, parts as long as sums",
    training=dict(problem_set="transfer_short", digits=4))
TURING = row("addition_turing", STUDY, "Hard-ALiBi, Turing program",
    format=dict(name="turing"), positions=[ids("index", "hard_alibi", spans=[0, 1, 2, 3, 4, 6])],
    model=dict(layers=2, width=128, heads=8),
    training=dict(digits=10, steps=3000, batch=32, pool=32, optimizer="adamw", learning_rate=0.001),
    evaluation=dict(digits=20, **PASS))
IMPROVING = row("addition_abacus_improving", STUDY, "Abacus, self-improvement",
    positions=[ids("abacus", "learned", per_example=True, initial="sinusoidal", limit=104)],
    model=dict(layers=2, width=64), training=dict(digits=10, steps=1500, batch=128, learning_rate=0.003),
    analyses=["self_improvement"], evaluation=dict(digits=10, longest=30, **PASS))
ROWS = [IMPROVING, RELATIVE_5, GROWING, GROWING_SUMS, TRANSFER, TRANSFER_SHORT, TURING]
