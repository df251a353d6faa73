"""Models that are right at every length (ours): relative ids and windows."""

from __future__ import annotations

from typing import Any

from carry.experiments.base import NOTEBOOK, SMOKE, Row, Settings, ids, merge, row

# Windows of ids before and after the own one: up to the next id, and from the previous id.
NEXT, PREVIOUS = [0, 1], [1, 0]
# Exactness at every length is proved; all weights are in git.
PROVED = dict(certify=True, publish=True)
REACH = dict(analyses=["reach"], **PROVED)
# A token attends to digits of its own place and of the next higher place.
ABACUS = [ids("abacus", "relative", window=NEXT)]


def levels(*windows: int | list[int]) -> list[Settings]:
    """Return coupled ids, with a window for each level of them.

    >>> levels([0, 1])
    [{'ids': 'coupled', 'encoding': 'relative', 'level': 1, 'window': [0, 1]}]
    """
    return [
        ids("coupled", "relative", level=level, window=window)
        for level, window in enumerate(windows, start=1)
    ]


# ---- Small models --------------------------------------------------------------------------------

# The lengths, steps and batches that mcleish2024 has at these scales.
LARGE = dict(
    seeds=3, model=dict(width=128),
    training=dict(digits=20, learning_rate=0.0005, precision="bf16", score_every=500,
                  checkpoint_every=None),
    evaluation=dict(digits=100, longest=160, far=[1000], starts=[1]))
PAPER = merge(LARGE, dict(training=dict(steps=24_000, batch=8192, pool=2)))
GPU = merge(LARGE, dict(training=dict(steps=9800, batch=512, pool=16)))
RELATIVE = row(
    "addition_relative", "addition_schemes", seeds=10, positions=ABACUS, **PROVED,
    analyses=["reach", "local_adder", "faults"],
    model=dict(layers=1, width=64),
    training=dict(steps=1000, optimizer="adamw", snapshot_every=50),
    evaluation=dict(far=[100, 1000], reach=[[1000, 1000, 1000], [100_000, 100_000, 10]]),
    smoke=merge(SMOKE, dict(seeds=2, evaluation=dict(far=[40], reach=[[50, 50, 20]]))),
    notebook=merge(NOTEBOOK, dict(evaluation=dict(reach=[]))), gpu=GPU, paper=PAPER)
COPYING = row(
    "copying_relative", "small_models", task=dict(name="copying"), positions=levels(NEXT), **REACH,
    model=dict(layers=1, width=32, heads=2),
    training=dict(steps=300, batch=64, optimizer="adamw", learning_rate=0.004),
    evaluation=dict(reach=[[100_000, 100_000, 10]]))
ROWS = [
    RELATIVE,
    # 608 parameters; smaller models were certified only in single seeds.
    RELATIVE.but("addition_relative_small", "small_models", "Abacus read relatively, small",
                 seeds=3, model=dict(width=6, heads=2, hidden=16), **PROVED,
                 training=dict(steps=20_000, batch=64, learning_rate=0.01, score_every=1000,
                               snapshot_every=None)),
    COPYING,
    # Places decrease.
    COPYING.but("reversing_relative", task=dict(name="reversing"), positions=levels(PREVIOUS),
                **REACH),
    COPYING.but("bitwise_or_relative", task=dict(name="bitwise_or"), positions=ABACUS,
                evaluation=dict(digits=16), **PROVED),
    # With the training strings of cho2025 (section 3, Table 1).
    COPYING.but("parity_relative_scratchpad", task=dict(name="parity"),
                format=dict(name="scratchpad", reverse_operands=True), model=dict(head_width=16),
                training=dict(digits=20, examples=10_000, steps=200), evaluation=dict(digits=100),
                **REACH, smoke=merge(SMOKE, dict(analyses=[]))),
]


def sub_task(name: str, label: str, prefix: str, steps: int = 600, **changes: Any) -> Row:
    """Return a row of a sub-task of addition."""
    style = dict(name="sub_task", prefix=prefix, reverse_operands=True, reverse_answer=True)
    return COPYING.but(f"addition_relative_{name}", label=f"Coupled read relatively, {label}",
                       task=dict(name="addition"), training=dict(steps=steps),
                       **PROVED, **merge(dict(format=style), changes))


# The carries of digit pairs, the digit sums without carries, both operands reversed, and both
# digit by digit. In the last two the second level of ids distinguishes the operands.
OPERANDS = levels(NEXT, PREVIOUS)
ROWS += [
    sub_task("carries", "carries alone", "car", steps=400),
    sub_task("digits", "digit sums alone", "mad"),
    sub_task("backwards", "numbers reversed", "rev", format=dict(reverse_operands=False),
             positions=OPERANDS),
    sub_task("aligned", "digits in pairs", "ali", positions=OPERANDS),
]

# ---- Scratchpads ---------------------------------------------------------------------------------

# `local`: the next token depends only on tokens at the same place or the next, in the same line or
# the line before.
SCRATCHPAD = row(
    "scratchpad", "local_scratchpads", format=dict(name="scratchpad"),
    model=dict(layers=1, width=64),
    training=dict(digits=5, batch=32, pool=16, optimizer="adamw"))
ROWS += [
    SCRATCHPAD.but(
        "multi_operand_addition_relative_scratchpad",
        task=dict(name="multi_operand_addition", local=True, most_operands=3),
        format=dict(pad=False), positions=levels(NEXT, PREVIOUS), **REACH,
        evaluation=dict(digits=15, reach=[[30, 29, 1000], [100, 100, 10]])),
    # Not local: a row of cho2025, read relatively. As in the paper it has no spare zeros.
    SCRATCHPAD.but(
        "multi_operand_addition_relative_scratchpad_padded",
        label="Coupled read relatively, scratchpad, leading zeros",
        seeds=6,  # four of six learn the trained sizes
        analyses=["faults"],
        task=dict(name="multi_operand_addition", spare=0),
        format=dict(pad=True, reverse_operands=False), positions=levels(1, 1),
        model=dict(head_width=16, norm="rms", norm_place="pre_and_post"),
        training=dict(steps=1000, optimizer="muon", learning_rate=0.004),
        evaluation=dict(digits=15, attention_cell=[6, 6])),
    SCRATCHPAD.but(
        "multiplication_relative_scratchpad", task=dict(name="multiplication", local=True),
        positions=levels(NEXT, PREVIOUS, NEXT, PREVIOUS), model=dict(width=128, heads=8),
        training=dict(steps=5000), **REACH,
        evaluation=dict(digits=10, reach=[[20, 15, 1000], [30, 30, 1000], [100, 100, 3]])),
    # Insertion sort; the format explains its levels.
    SCRATCHPAD.but(
        "sorting_relative_scratchpad", task=dict(name="sorting"),
        format=dict(name="insertion_sort"), positions=levels([1, 3], [2, 0], PREVIOUS, 0),
        training=dict(digits=4), **REACH,
        evaluation=dict(digits=5, reach=[[8, 8, 1000], [10, 30, 200], [20, 20, 100],
                                         [100, 100, 1]])),
]

# ---- Further tasks -------------------------------------------------------------------------------

# One model adds, subtracts, multiplies and divides, told apart by the first token; the format
# explains its levels. Pairs of numbers are drawn with a longest one: shifts of long remainders are
# rare in other pairs.
CALCULATOR = row(
    "calculator_relative_longhand", "further_tasks", **REACH,
    task=dict(name="calculator", sampling="longest"), format=dict(name="longhand"),
    positions=levels(NEXT, [5, 0], NEXT), model=dict(layers=1, width=32, hidden=256),
    training=dict(digits=5, steps=20_000, batch=32, pool=16, optimizer="adamw",
                  learning_rate=0.003),
    evaluation=dict(digits=6, reach=[[10, 10, 100], [50, 20, 10], [100, 50, 1]]))
ROWS += [CALCULATOR]
# Fewer operations. No scale trains these rows; tests list the contexts of untrained models.
FEWER = [("sums", "sums and signed differences", "+-",
          dict(reach=[[100, 100, 100], [1000, 1000, 20]])),
         ("products", "products", "*", {}), ("quotients", "quotients", "/", {})]
ROWS += [
    CALCULATOR.but(f"{CALCULATOR.name}_{name}", label=f"Longhand, {label}", laptop=None,
                   task=dict(operations=operations),
                   evaluation=dict(problem_set=f"calculator_{name}", **reach))
    for name, label, operations, reach in FEWER
]

# Numbers of which one is subtracted from the other or compared with it: the second level of ids
# tells them apart.
SUBTRACTION = row(
    "subtraction_relative_scratchpad", "further_tasks", **REACH, task=dict(name="subtraction"),
    format=dict(name="scratchpad", reverse_operands=True), positions=levels(NEXT, [2, 0]),
    model=dict(layers=1, width=32),
    training=dict(digits=5, steps=3000, batch=64, optimizer="adamw", learning_rate=0.004),
    evaluation=dict(reach=[[1000, 1000, 100]]))
# The numbers after and before a number.
INCREMENT = COPYING.but(
    "increment_relative", "further_tasks", **REACH, task=dict(name="increment"),
    training=dict(digits=5, steps=1000), evaluation=dict(reach=[[1000, 1000, 100]]))
ROWS += [
    SUBTRACTION,
    SUBTRACTION.but("comparison_relative_scratchpad", task=dict(name="comparison"),
                    training=dict(steps=800), **REACH),
    INCREMENT,
    INCREMENT.but("increment_relative_down", label="Coupled read relatively, the number before",
                  task=dict(down=True), format=dict(pad="answer"),
                  evaluation=dict(problem_set="decrement"), **REACH),
]


def sums(name: str, radix: int, **changes: Any) -> Row:
    """Return a row of sums in another base."""
    return INCREMENT.but(f"addition_relative_{name}",
                         label=f"Coupled read relatively, base {radix}",
                         task=dict(name="addition", radix=radix),
                         evaluation=dict(problem_set=f"addition_base_{radix}"), **REACH,
                         **changes)


WIDER = dict(width=64, heads=4)
ROWS += [
    sums("binary", 2),
    sums("hexadecimal", 16, model=WIDER, training=dict(steps=4000)),
    # One seed: the certificate has 7 million contexts.
    sums("sexagesimal", 60, seeds=1, model=WIDER, training=dict(steps=40_000, batch=128)),
]

# ---- Sums inside a line of text ------------------------------------------------------------------


def line(
    name: str, label: str, positions: list[Settings], one_sum: bool = False, proved: bool = False,
    **model: Any,
) -> Row:
    """Return a row of sums in a line: one or two of them, or always one."""
    return row(
        f"addition_line_{name}" + "_text" * one_sum, "addition_lines",
        f"{label} read relatively, in a line" + " with one sum" * one_sum,
        format=dict(name="line", text=[0, 10], sums=1 if one_sum else [1, 2]), positions=positions,
        model=dict(layers=1, width=64, **model), analyses=["lines"], certify=proved, publish=proved,
        training=dict(digits=6, steps=1000, optimizer="adamw"),
        evaluation=dict(digits=8, reach=[[6, 6, 200], [30, 30, 200], [100, 100, 100]]))


# Up to 10 letters and spaces stand before each of one or two sums; the last sum is the question.
# Abacus ids are 0 for all letters and for `=`, which therefore attends to all letters (too many to
# gather, so attention is `plain`). Coupled ids do not count letters. Ids of places are the same in
# both sums; `rows` adds a level that distinguishes the sums. `text`: one sum.
ROWS += [
    line("abacus_relative", "Abacus", ABACUS, attention="plain"),
    line("abacus_relative", "Abacus", ABACUS, one_sum=True, attention="plain"),
    line("relative", "Coupled", levels(NEXT)),
    line("relative", "Coupled", levels(NEXT), one_sum=True, proved=True),
    line("rows_relative", "Coupled rows", levels(NEXT, 0), proved=True),
]
