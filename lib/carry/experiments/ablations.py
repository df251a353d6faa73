"""One setting changed at a time: what our row needs, and what takes absolute ids far (ours).

All rows of a study solve the same sums, at multiples of their trained length.
"""

from __future__ import annotations

import re
from typing import Any

from carry.experiments.base import Row, Settings, ids
from carry.experiments.cho2025 import COUPLED
from carry.experiments.every_length import NEXT, RELATIVE
from carry.experiments.mcleish2024 import LOOPED_10, WAVES

# For each changed row, the row that it changes (its reference) and the changed setting.
CHANGES: dict[str, tuple[str, str]] = {}


def ablation(parent: Row, group: str, name: str, label: str = "", **changes: Any) -> Row:
    """Return a row that changes one setting of its parent; by default its label says which."""
    label = label or str(parent.label).replace("unchanged", f"{group}: {name}".replace("_", " "))
    row = parent.but(re.sub(r"\W", "_", f"{parent.name}_{group}_{name}"), label=label, **changes)
    CHANGES[row.name] = (parent.name, group)
    return row


# ---- What our row needs --------------------------------------------------------------------------


def lengths(digits: int) -> Settings:
    """Return the evaluation of a row that is trained to some digits, on sums to 100 times these."""
    return dict(digits=digits, far=[digits, 2 * digits, 10 * digits, 100 * digits])


# These models train in seconds. `faults` enumerates contexts.
ANALYSES = ["locality", "faults"]
REFERENCE = RELATIVE.but(
    "ablation", "ablations", "the row", seeds=5, analyses=ANALYSES, model=dict(hidden=128),
    training=dict(steps=800, batch=64, learning_rate=0.004, score_every=50, snapshot_every=None),
    evaluation=dict(problem_set="ablations", starts=[1], reach=[], **lengths(10)))


def needed(group: str, name: str, label: str, enumerated: bool = True, **changes: Any) -> Row:
    """Return the reference with one change; `enumerated`: its contexts can be, in seconds."""
    analyses = ANALYSES if enumerated else ANALYSES[:1]
    return ablation(REFERENCE, group, name, label, analyses=analyses, **changes)


def relative(**settings: Any) -> Settings:
    """Return Abacus ids that are read relatively, with other settings."""
    return dict(positions=[ids("abacus", "relative", **settings)])


def cyclic(count: int) -> Settings:
    """Return learned embeddings of a cycle of ids."""
    return dict(positions=[ids("abacus", "learned", table=count, ring=True, window=NEXT)])


ROWS = [
    REFERENCE,
    needed("ids", "index", "index ids", False, positions=[ids("index", "relative")]),
    needed("ids", "index_window", "index ids, window of 24 tokens", False,
           positions=[ids("index", "relative", window=[24, 0])]),
    needed("ids", "coupled", "coupled ids", positions=[ids("coupled", "relative", window=NEXT)]),
    needed("reading", "table", "learned embeddings", False,
           positions=[ids("abacus", "learned", window=NEXT)], evaluation=dict(far=[10])),
    needed("reading", "ring", "64 cyclic ids", False, **cyclic(64)),
    # Fewer ids than trained lengths, so that all embeddings are trained.
    needed("reading", "small_ring", "8 cyclic ids", False, **cyclic(8)),
    needed("reading", "rope", "rotations (RoPE)", False,
           positions=[ids("abacus", "rope", window=NEXT)]),
    needed("reading", "none", "no encoding", positions=[ids("abacus", "none", window=NEXT)]),
    # Biases beyond `clip` are equal.
    needed("window", "none", "no window", False, **relative()),
    needed("window", "soft", "soft window", False, **relative(clip=2)),
    needed("window", "1", "window of one place", **relative(window=1)),
    needed("window", "5", "window of five places", False, **relative(window=5)),
    needed("first", "hidden", "first token hidden", **relative(window=NEXT, first=False)),
    needed("biases", "scale_1", "smaller scale of biases", **relative(window=NEXT, scale=1.0)),
    needed("biases", "scale_32", "larger scale of biases", **relative(window=NEXT, scale=32.0)),
    needed("biases", "noise", "random initial biases", **relative(window=NEXT, spread=1.0)),
    needed("depth", "2", "two layers", False, model=dict(layers=2)),
]
ROWS += [
    needed("digits", str(digits), f"trained to {digits} digits",
           training=dict(digits=digits), evaluation=lengths(digits))
    for digits in (2, 3, 5, 20)
]
ROWS += [
    needed("digits", f"{digits}_longer", f"trained to {digits} digits, 4,000 steps",
           training=dict(digits=digits, steps=4000), evaluation=lengths(digits))
    for digits in (2, 3)
]
ROWS += [needed("rate", str(rate), f"learning rate {rate}", training=dict(learning_rate=rate))
         for rate in (0.001, 0.016)]

# ---- What takes absolute ids far -----------------------------------------------------------------

# Accuracy in the validation band, 11 to 15 digits, and at multiples of 10 digits selected the
# settings of the rows that are trained to the papers' lengths, which do not report these lengths.
# Attention logits of the references are scaled by the logarithm of the length. The second round
# starts from the values that the first one selected. It changes the rates of the waves (`base`),
# since long numbers compare ids that no training problem contains together.
FAR = [*range(10, 16), 20, 30, 50]
LATE_DECAY = dict(decay="trapezoid", cooldown=0.2)
IDS_60 = ids("abacus", "learned", offset=60, **WAVES)  # for sums of 50 digits
EVEN = IDS_60 | dict(even=True)
IDS_120 = ids("coupled", "sinusoidal", base=100.0, limit=120)
TURNED = IDS_120 | dict(turned=True)  # tokens without a place have zero embeddings, unlike id 1
CONSTANT = dict(attention_scale="constant")


def start_round(parent: Row, name: str, label: str, far: list[int], **changes: Any) -> Row:
    """Return the reference of a round."""
    evaluation = dict(problem_set="selection", digits=10, far=far, starts=["all"])
    return parent.but(f"selection_{name}", "selection", f"{label}, unchanged", seeds=5,
                      evaluation=evaluation, **changes)


ABACUS = start_round(LOOPED_10, "abacus", "Abacus", FAR, positions=[IDS_60],
                     model=dict(attention_scale="log"))
ROWS += [
    ABACUS,
    ablation(ABACUS, "attention_scale", "constant", model=CONSTANT),
    ablation(ABACUS, "weight_decay", "0.1", training=dict(weight_decay=0.1)),
    ablation(ABACUS, "average_weights", "0.5", training=dict(average_weights=0.5)),
    ablation(ABACUS, "steps", "2600", training=dict(steps=2600)),
    ablation(ABACUS, "schedule", "trapezoid_0.2", training=LATE_DECAY),
    ablation(ABACUS, "precision", "bf16", training=dict(precision="bf16")),
    ablation(ABACUS, "head_width", "64", model=dict(head_width=64)),
    ablation(ABACUS, "starts", "even", positions=[EVEN]),
]
COUPLED_10 = start_round(COUPLED, "coupled", "Coupled", [*FAR, 80], positions=[IDS_120],
                         model=dict(attention_scale="log"))
ROWS += [
    COUPLED_10,
    ablation(COUPLED_10, "attention_scale", "constant", model=CONSTANT),
    ablation(COUPLED_10, "weight_decay", "0.5", training=dict(weight_decay=0.5)),
    ablation(COUPLED_10, "average_weights", "0.5", training=dict(average_weights=0.5)),
    ablation(COUPLED_10, "steps", "3400", training=dict(steps=3400)),
    ablation(COUPLED_10, "schedule", "trapezoid_0.2", training=LATE_DECAY),
    ablation(COUPLED_10, "base", "300", positions=[IDS_120 | dict(base=300.0)]),
    ablation(COUPLED_10, "starts", "even", positions=[IDS_120 | dict(even=True)]),
    # No id is at an edge.
    ablation(COUPLED_10, "starts", "ring", positions=[IDS_120 | dict(ring=True)]),
    ablation(COUPLED_10, "starts", "turned", positions=[TURNED]),
    ablation(COUPLED_10, "precision", "bf16", training=dict(precision="bf16")),
    ablation(COUPLED_10, "head_width", "32", model=dict(head_width=32)),
]
ABACUS_2 = start_round(
    LOOPED_10, "abacus_2", "Abacus, round 2", FAR, positions=[EVEN],
    model=dict(attention_scale="log", head_width=64), training=LATE_DECAY | dict(precision="bf16"))
ROWS += [
    ABACUS_2,
    ablation(ABACUS_2, "base", "30", positions=[EVEN | dict(base=30.0)]),
    ablation(ABACUS_2, "base", "uniform", positions=[EVEN | dict(base=None)]),
    ablation(ABACUS_2, "weight_decay", "0.1", training=dict(weight_decay=0.1)),
    ablation(ABACUS_2, "head_width", "128", model=dict(head_width=128)),
]
COUPLED_2 = start_round(
    COUPLED, "coupled_2", "Coupled, round 2", [*FAR, 80], positions=[TURNED],
    model=dict(attention_scale="log", head_width=32), training=LATE_DECAY | dict(weight_decay=0.5))
ROWS += [
    COUPLED_2,
    ablation(COUPLED_2, "base", "300", positions=[TURNED | dict(base=300.0)]),
    ablation(COUPLED_2, "base", "uniform", positions=[TURNED | dict(base=None)]),
    ablation(COUPLED_2, "starts", "even", positions=[TURNED | dict(even=True)]),
    ablation(COUPLED_2, "precision", "bf16", training=dict(precision="bf16")),
]
