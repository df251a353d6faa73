"""Noisy majority by attention alone, and modular addition (fraknoi2024)."""

from __future__ import annotations

from typing import Any

from carry.experiments.base import SMOKE, Row, Settings, ids, merge, row

# ---- Noisy majority (section 5) ------------------------------------------------------------------

# 900 epochs, the best weights by validation. Of 10,000 strings the thesis uses 75, 15 and 15% for
# training, validation and test; here 70, 15 and 15%. All rows have the same strings, of 1 to 100
# symbols for training. Validation is every fourth epoch.
STRINGS = dict(
    batched_seeds=True, digits=100, examples=7000, stream="noisy majority", batch=128, steps=49500,
    optimizer="adamw", learning_rate=0.001, weight_decay=0.01, betas=[0.9, 0.999], warmup=0.0404,
    decay="none", dropout=0.1, keep_weights="best", score_every=220, score_problems=1500,
    held_out=[101, 150], checkpoint_every=5500)
# Dropout on embeddings, too (2.8). It needs the single tokens, not their counts, which takes 40
# times as long.
PAPER = dict(
    seeds=100,
    training=dict(dropout_embeddings=0.1, precision="fp32", pool=2),
    evaluation=dict(longest=200, starts=[1]))


def majority(width: int, heads: int, **changes: Any) -> Row:
    """Return a row of attention alone, without feed-forward networks and output maps.

    Its norm divides by the variance, as printed (2.2), and its first weights have rules of their
    own (2.7). From counts, a model takes 5 to 15 core-seconds.
    """
    model = dict(name="fraknoi2024", layers=1, width=width, heads=heads, feed_forward=False,
                 output=False, final_norm=False, biases=False, logit_bias=True)
    label = f"{width} features, {heads} head{'s' if heads > 1 else ''}"
    return row(f"noisy_majority_d{width}_a{heads}", "majority_sizes", label,
               task=dict(name="noisy_majority"), training=STRINGS, evaluation=dict(digits=200),
               **merge(dict(model=model), changes))


# 5.2, 5.3, Fig. 2 and 9, Table 1.
HEADS = ["heads"]
D8_A4 = majority(8, 4, seeds=100, analyses=HEADS, paper=PAPER)
D2_A1 = majority(2, 1, seeds=100, analyses=HEADS, paper=PAPER)
D32_A16 = majority(32, 16, seeds=40, analyses=HEADS, paper=PAPER)
# The outputs of 64 heads are projected back to two features.
D2_A64 = majority(2, 64, seeds=30, analyses=HEADS, model=dict(head_width=2, output=True),
                  paper=PAPER)
ROWS = [D8_A4, D2_A1, majority(4, 2, seeds=30), majority(16, 8, seeds=30), D32_A16, D2_A64]

# 5.5, Fig. 11. `masked`: all but one head are masked from the start. Others: half of the heads are
# dropped at 95% accuracy. Shapley values of 16 heads take too long.
HALVINGS = {"masked": "masked", "random": "halved at random", "svc": "halved by SVC",
            "shapley": "halved by Shapley values",
            "shapley_learned": "halved by learned accuracy"}
ONE_HALVING = merge(SMOKE, dict(
    seeds=2, analyses=HEADS, training=dict(examples=200, held_out=[4, 6], halving_accuracy=0.3)))


def halving(parent: Row, kind: str, **scales: Settings) -> Row:
    """Return a row in which heads are dropped."""
    return parent.but(f"{parent.name}_{kind}", "majority_halving",
                      f"{parent.label}, {HALVINGS[kind]}", training=dict(halving=kind), paper={},
                      **scales)


ROWS += [
    *(halving(D8_A4, kind, **(dict(smoke=ONE_HALVING) if kind == "shapley" else {}))
      for kind in HALVINGS),
    *(halving(D32_A16, kind) for kind in ("masked", "svc")),
]

# Fig. 3: one head with other learning rates.
ROWS += [
    D2_A1.but(f"{D2_A1.name}_rate_{name}", "majority_rates", f"{D2_A1.label}, rate {rate}",
              seeds=30, training=dict(learning_rate=rate), paper={})
    for name, rate in (("3e_4", 0.0003), ("3e_3", 0.003), ("1e_2", 0.01), ("3e_2", 0.03))
]

# Other readings of the thesis. `unit`: a norm whose output has unit variance, as its text says.
# `everything`: the loss of all tokens, as in 2.6; most are drawn at random, so learning takes
# longer, 3 core-minutes a model. `short`: 200 epochs, without and with dropout on embeddings.
READINGS = "majority_readings"
SHORT = D8_A4.but(
    f"{D8_A4.name}_short", READINGS, f"{D8_A4.label}, 200 epochs", seeds=30,
    training=dict(steps=11000, warmup=0.182, score_every=55, checkpoint_every=1100))
ROWS += [
    *(parent.but(f"{parent.name}_unit", READINGS, f"{parent.label}, unit variance",
                 model=dict(norm_root=True), analyses=HEADS)
      for parent in (D8_A4, D2_A1, D32_A16)),
    *(parent.but(f"{parent.name}_everything", READINGS, f"{parent.label}, loss of all tokens",
                 seeds=seeds, training=dict(loss="everything"))
      for parent, seeds in ((D8_A4, 30), (D2_A1, 20))),
    SHORT,
    SHORT.but(f"{SHORT.name}_dropout", label=f"{SHORT.label}, dropout on embeddings",
              training=dict(dropout_embeddings=0.1)),
]

# ---- Sums (section 4) ----------------------------------------------------------------------------

# Sub-tasks of five-digit addition: the most significant digit is written before its carry.
ROWS += [row(
    "addition_five_digits", "addition_subtasks", seeds=2, task=dict(sampling="longest"),
    format=dict(pad=True, reverse_operands=False, reverse_answer=False), analyses=["subtasks"],
    positions=[ids("index", "learned", table=24)],
    model=dict(layers=1, width=96, heads=3),
    training=dict(digits=5, steps=2000, snapshot_every=50), evaluation=dict(digits=5))]

# Modulo 113 with one symbol for each number. Nanda et al. 2023, and the scale `gpu`, train 40,000
# steps of AdamW with a weight decay of 1.0 on all training pairs, here drawn with replacement. Muon
# needs 1,500 steps with batches of a seventh of the pairs.
MODULAR = dict(
    analyses=["modular"], format=dict(name="one_hot"), positions=[ids("index", "learned")],
    model=dict(layers=1, hidden=512, biases=False))
SNAPSHOTS = dict(digits=3, decay="trapezoid", score_every=50, snapshot_every=50)
ADAMW = dict(
    optimizer="adamw", learning_rate=0.001, weight_decay=1.0, decay="none", score_every=500,
    snapshot_every=500, precision="fp32", checkpoint_every=None)
ROWS += [row(
    "modular_addition_113", "modular_addition", "Modulo 113", seeds=5,
    **merge(MODULAR, dict(model=dict(norm="none"))),
    task=dict(name="modular_addition", modulus=113, share=0.3),
    training=SNAPSHOTS | dict(examples=3830, batch=512, learning_rate=0.005, weight_decay=0.5),
    evaluation=dict(problem_set="modular_addition_113", digits=3),
    gpu=dict(training=ADAMW | dict(steps=40000, batch=3830, clip=1000.0, warmup=0.00025),
             evaluation=dict(longest=3, starts=[1])))]
# Modulo 1,000 in three formats: one symbol for each number, its digits, its bits. All train on the
# same hundredth of the pairs, which a laptop can memorize with one symbol for each number.
ONE_HOT = row(
    "modular_addition_1000_one_hot", "modular_addition", "Modulo 1,000, one-hot", seeds=5,
    **MODULAR,
    task=dict(name="modular_addition", modulus=1000, share=0.01),
    training=SNAPSHOTS | dict(examples=10000, batch=256, steps=4000, learning_rate=0.006,
                              weight_decay=0.1),
    evaluation=dict(problem_set="modular_addition_1000", digits=3),
    gpu=dict(seeds=3, task=dict(share=0.1),
             training=ADAMW | dict(examples=100000, steps=20000, batch=8192, warmup=0.01, pool=4),
             evaluation=dict(longest=3, starts=[1])))
ROWS += [
    ONE_HOT,
    ONE_HOT.but("modular_addition_1000_digits", label="Modulo 1,000, digits", seeds=10,
                format=dict(name="expression"), training=dict(steps=800),
                analyses=["modular"], gpu={}),
    ONE_HOT.but("modular_addition_1000_binary", label="Modulo 1,000, binary", seeds=5,
                format=dict(name="binary"), training=dict(steps=2500),
                analyses=["modular"], gpu={}),
]
