"""Heads of models of the noisy majority, alone and in sets (fraknoi2024, 5.4).

learned accuracy      of the model with only these heads, the others set to zero
separation accuracy   of a linear separator on the outputs of these heads
w01, w02              attention to a zero over attention to a one, and to a two

Separators are fitted on the training strings. Both accuracies are measured on the test strings.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Integer
from torch import Tensor

from carry.analyses import LABELS
from carry.data import problem_sets
from carry.data.training_batches import draw_training_set
from carry.models.system import System
from carry.training.batched.head_halving import HeadOutputs, compute_separation
from carry.training.batched.network import BatchedNetwork, measure_learned_accuracy
from carry.training.batched.trainer import compute_head_outputs

Counts = Integer[Tensor, "_ 3"]  # how often 0, 1 and 2 occur in each string

TASK = "noisy_majority"
MODEL = (*LABELS, "trained")
VALUES = [f"value_{token}_{feature}" for token in range(3) for feature in range(2)]
COLUMNS = {
    "separations": (
        *MODEL, "size", "heads", "learned", "separation", "part_learned", "part_separation", "n",
    ),
    "ratios": (*MODEL, "head", "w01", "w02", *VALUES, "separation", "n"),
    "outputs": (*MODEL, "zeros", "ones", "twos", "head", "x", "y", "n"),
    "by_hand": (*MODEL, "head", "w01", "w02", "separation", "n"),
}  # fmt: skip
SET_SEEDS, MAX_SET_HEADS = 10, 16  # only of these are sets of heads scored
SET_SIZES = (1, 2, 3)
OUTPUT_STRINGS = 400  # test strings in the table `outputs`
GRID = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)


def tables(system: System) -> dict[str, pd.DataFrame]:
    """Analyse the heads of a model of the noisy majority.

    Returns:
        separations: both accuracies of sets of heads (see `score_head_sets`); of single heads in
            all seeds, of larger sets in the first `SET_SEEDS`.
        ratios: the attention and the values of each head (see `measure_ratios`), and its
            separation accuracy.
        outputs: the first two features of each head's output on test strings, for seed 0.
        by_hand: separation accuracies of heads with given ratios (see `score_ratio_grid`).
        `n` is the number of test strings.
    """
    seed = system.seed
    system.network.to("cpu")  # a few thousand products of two features
    network = BatchedNetwork([system])
    training, test = _count_symbols(system)
    scores_sets = seed < SET_SEEDS and 1 < network.head_mask.shape[1] <= MAX_SET_HEADS
    sets = score_head_sets(network, training, test, SET_SIZES if scores_sets else (1,))
    single = sets[sets["size"] == 1]
    ratios = measure_ratios(network).assign(separation=single["separation"].to_numpy())
    tables = {"separations": sets, "ratios": ratios}
    if seed == 0:
        tables["outputs"] = _tabulate_outputs(network, test[:OUTPUT_STRINGS])
    if scores_sets:
        tables["by_hand"] = score_ratio_grid(network, training, test)
    return {name: table.assign(n=len(test)) for name, table in tables.items()}


def _count_symbols(system: System) -> list[Counts]:
    """Return the symbol counts of a row's training strings and test strings."""
    questions = problem_sets.load_questions(system.run)
    test = problem_sets.to_problems(questions[questions["set"] == "test"], system.task)
    problems = (draw_training_set(system.run, system.task)[0], test)
    return [system.task.count_symbols(part.operands, part.lengths) for part in problems]


def _tabulate_outputs(network: BatchedNetwork, counts: Counts) -> pd.DataFrame:
    """Return the output of each head: features `x` and `y`, by string."""
    outputs = compute_head_outputs(network, 0, counts).outputs
    parts = []
    for head in range(outputs.shape[1]):
        part = pd.DataFrame(counts.numpy(), columns=["zeros", "ones", "twos"])
        x, y = outputs[:, head, 0], outputs[:, head, min(1, outputs.shape[2] - 1)]
        parts.append(part.assign(head=head, x=x.numpy(), y=y.numpy()))
    return pd.concat(parts, ignore_index=True)


def measure_ratios(network: BatchedNetwork) -> pd.DataFrame:
    """Return w01 and w02 of the first model's heads, and their values of the tokens 0, 1 and 2.

    Columns: `head`, `w01`, `w02`, and `value_0_0` to `value_2_1`, by token and feature (the first
    two).

    >>> from carry.models.constructions.minimal_majority import build_minimal_majority
    >>> table = measure_ratios(BatchedNetwork([build_minimal_majority(8.0)]))
    >>> table.round(3)[["w01", "value_1_0"]].values.tolist()
    [[0.368, 9.0]]
    """
    with torch.no_grad():
        scores, values = network.scores_and_values()
    rows = []
    for head, symbol_scores in enumerate(scores[0, :, 0, 1:4]):
        zero, one, two = symbol_scores.double().tolist()
        row = {"head": head, "w01": np.exp(zero - one), "w02": np.exp(zero - two)}
        for token, feature in itertools.product(range(3), range(min(2, values.shape[-1]))):
            row[f"value_{token}_{feature}"] = float(values[0, head, 1 + token, feature])
        rows.append(row)
    return pd.DataFrame(rows)


def score_head_sets(
    network: BatchedNetwork, training: Counts, test: Counts, sizes: Iterable[int]
) -> pd.DataFrame:
    """Return both accuracies of all sets of heads of the given sizes, for the first model.

    Columns: `size`, `heads` (their numbers, separated by spaces), `learned`, `separation`, and the
    best accuracies of those smaller sets of these heads that are scored as well: `part_learned` and
    `part_separation` (none for single heads).

    Args:
        training: the strings on which separators are fitted.
        test: the strings on which both accuracies are measured.
    """
    heads = network.head_mask[0].nonzero()[:, 0].tolist()
    fitted, scored = (compute_head_outputs(network, 0, counts) for counts in (training, test))
    scores: dict[tuple[int, ...], tuple[float, float]] = {}
    rows = []
    for size in sorted(sizes):
        for head_set in itertools.combinations(heads, size):
            smaller = (itertools.combinations(head_set, count) for count in range(1, size))
            parts = [scores[part] for part in itertools.chain(*smaller) if part in scores]
            learned = float(measure_learned_accuracy(network, head_set, test)[0])
            separation = compute_separation(head_set, fitted, scored)
            scores[head_set] = learned, separation
            best = [max(of) for of in zip(*parts, strict=True)] or [np.nan, np.nan]
            names = " ".join(map(str, head_set))
            rows.append([size, names, learned, separation, *best])
    kinds = ("learned", "separation", "part_learned", "part_separation")
    return pd.DataFrame(rows, columns=["size", "heads", *kinds])


def attend_by_ratios(
    values: Float[Tensor, "3 W"], w01: float, w02: float, counts: Integer[Tensor, "S 3"]
) -> Float[Tensor, "S 1 W"]:
    """Return the output of a head with these values and attention ratios (fraknoi2024, Fig. 8).

    A zero has weight 1, a one 1 / w01, a two 1 / w02, every other token 0. The output for an empty
    string is 0.

    >>> values = torch.tensor([[1.0], [-1.0], [5.0]])
    >>> counts = torch.tensor([[3, 1, 9], [0, 0, 2]])
    >>> attend_by_ratios(values, 1.0, float("inf"), counts).flatten().tolist()
    [0.5, 0.0]
    """
    weights = counts.double() / torch.tensor([1.0, w01, w02], dtype=torch.float64)
    total = weights.sum(1, keepdim=True)
    shares = torch.where(total > 0, weights / total.clamp(min=1e-300), 0.0)
    return (shares @ values.double())[:, None]


def score_ratio_grid(network: BatchedNetwork, training: Counts, test: Counts) -> pd.DataFrame:
    """Return separation accuracies of heads with given ratios, as in both halves of Fig. 8.

    Columns: `head`, `w01`, `w02`, `separation`. First w02 is infinite and w01 is from `GRID`; then
    w01 is 1 and w02 is from the grid.
    """
    rows = []
    pairs = [(w01, float("inf")) for w01 in GRID] + [(1.0, w02) for w02 in GRID]
    with torch.no_grad():
        values = network.scores_and_values()[1][0, :, 1:4]
    for head, (w01, w02) in itertools.product(range(len(values)), pairs):
        outputs = [
            HeadOutputs(
                attend_by_ratios(values[head], w01, w02, counts), counts[:, 1] > counts[:, 0]
            )
            for counts in (training, test)
        ]
        accuracy = compute_separation([0], *outputs)
        rows.append({"head": head, "w01": w01, "w02": w02, "separation": accuracy})
    return pd.DataFrame(rows)
