"""What single heads know of a majority, and what they know together (fraknoi2024, 5.4).

learned accuracy      what the model says with only these heads, the others zeroed
separation accuracy   what a linear separator could say from what these heads find
w01, w02              how much more a zero is looked at than a one, and than a two

Separators are fitted on the strings of training; both accuracies are those on the test strings.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Integer
from torch import Tensor

from carry import processes, progress
from carry.config import run_settings
from carry.config.run_settings import Run
from carry.config.settings import SettingsError
from carry.data import problem_sets
from carry.data.training_batches import training_set_table
from carry.evaluation import trained_models
from carry.models.system import System
from carry.training.batched.head_halving import HeadOutputs, separation
from carry.training.batched.network import BatchedNetwork, count_strings
from carry.training.batched.trainer import head_outputs

Counts = Integer[Tensor, "_ 3"]  # of 0, 1 and 2 in each of some strings

TASK = "noisy_majority"
# Of how many seeds more than single heads are looked at, and in models of how many heads.
SEEDS, HEADS = 3, 16
SIZES = ((1, 2, 3), (1, 2), (1, 2))  # of sets of heads, by seed; there are many of three
DRAWN = 400  # test strings of which the outputs of heads are kept
GRID = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)


class Split(NamedTuple):
    """How often 0, 1 and 2 are in the strings of training and of the test."""

    learned: Counts
    tested: Counts


def tables(row: str, profile: str) -> dict[str, pd.DataFrame]:
    """Look into the heads of a trained row of the noisy majority (fraknoi2024, 5.4).

    All tables name `row`, `profile` and `seed`; `n` is how many test strings there are.

    Returns:
        separations: both accuracies of sets of heads (see `subsets`), of single ones in all seeds.
        ratios: where each head looks and what it reads (see `ratios`), with its separation.
        outputs: what each head of seed 0 finds in some test strings, in its first two features.
        by_hand: separations of heads whose attention is set (see `separations_by_hand`).
    """
    asked = run_settings.load_run(row, profile)
    seeds = range(asked.seeds)
    with progress.progress_bar(len(seeds), row, unit="seed") as shown:
        jobs = [(row, profile, seed) for seed in seeds]
        found = processes.run_jobs(_tables_of, jobs, shown.update)
    names = dict.fromkeys(name for of in found for name in of)
    return {
        name: pd.concat([of[name] for of in found if name in of], ignore_index=True)
        for name in names
    }


def _tables_of(report: Any, row: str, profile: str, seed: int) -> dict[str, pd.DataFrame]:
    system = trained_models.load_trained(profile, row, seed)
    system.network.to("cpu")  # a few thousand products of two features
    network, strings = (
        BatchedNetwork([system]),
        _strings(system, run_settings.load_run(row, profile)),
    )
    heads = network.heads.shape[1]
    more = seed < SEEDS and 1 < heads <= HEADS
    sets = subsets(network, 0, *strings, sizes=SIZES[seed] if more else (1,))
    single = sets[sets["size"] == 1]
    looks = ratios(network).assign(separation=single["separation"].to_numpy())
    found = {"separations": sets, "ratios": looks.drop(columns="model")}
    if seed == 0:
        found["outputs"] = _outputs(network, strings.tested[:DRAWN])
    if more:
        by_hand = separations_by_hand(network, *strings, GRID)
        found["by_hand"] = by_hand.drop(columns="model")
    report(1)
    names = {"row": row, "profile": profile, "seed": seed, "trained": system.run.training.digits}
    return {
        name: pd.concat([pd.DataFrame(names, table.index), table], axis=1).assign(
            n=len(strings.tested)
        )
        for name, table in found.items()
    }


def _strings(system: System, of: Run) -> Split:
    """Return the strings that a row learned from, and those that it is tested on."""
    asked = problem_sets.read_questions(of)
    given = (training_set_table(system), asked[asked["set"] == "test"])
    both = (problem_sets.to_problems(table, system.task) for table in given)
    return Split(*(system.task.counts(of.operands, of.lengths) for of in both))


def _outputs(network: BatchedNetwork, counts: Counts) -> pd.DataFrame:
    """Return what each head of one model finds in some strings: `x` and `y`, by `head`."""
    outputs = head_outputs(network, 0, counts).outputs
    parts = []
    for head in range(outputs.shape[1]):
        part = pd.DataFrame(counts.numpy(), columns=["zeros", "ones", "twos"])
        x, y = outputs[:, head, 0], outputs[:, head, min(1, outputs.shape[2] - 1)]
        parts.append(part.assign(head=head, x=x.numpy(), y=y.numpy()))
    return pd.concat(parts, ignore_index=True)


@torch.no_grad()
def learned_accuracy(
    network: BatchedNetwork, heads: Sequence[int], counts: Counts
) -> Float[Tensor, " M"]:
    """Return the share of right answers of each model with these heads alone (Definition 5.1).

    Raises:
        SettingsError: for a head that is not there.

    >>> from carry.models.constructions.minimal_majority import minimal_majority
    >>> alone = BatchedNetwork([minimal_majority(dtype=torch.float32)])
    >>> counts = torch.tensor([[3, 1, 0], [1, 3, 0]])
    >>> learned_accuracy(alone, [0], counts).tolist(), learned_accuracy(alone, [], counts).tolist()
    ([1.0], [0.5])
    """
    there = network.heads.shape[1]
    if not all(0 <= head < there for head in heads):
        raise SettingsError(f"heads: {list(heads)} do not fit; expected some of 0 to {there - 1}")
    strings = count_strings(counts)
    kept = torch.zeros_like(network.heads)
    kept[:, list(heads)] = 1.0
    said = network.by_counts(strings, heads=kept * network.heads).argmax(-1)
    return (said == strings.due).float().mean(1)


def ratios(network: BatchedNetwork) -> pd.DataFrame:
    """Return w01 and w02 of each model's heads, with the values of the tokens 0, 1 and 2.

    Columns: `model`, `head`, `w01`, `w02`, and `value_0_0` to `value_2_1` (the token, and the
    feature; of the first two).

    >>> from carry.models.constructions.minimal_majority import minimal_majority
    >>> ratios(BatchedNetwork([minimal_majority(8.0)])).round(3)[["w01", "value_1_0"]].values.tolist()
    [[0.368, 9.0]]
    """
    with torch.no_grad():
        scores, values = network.scores()
    behind = scores[:, :, 0, 1:4]
    rows = []
    for model, head in itertools.product(range(len(network)), range(behind.shape[1])):
        zero, one, two = behind[model, head].double().tolist()
        row = {"model": model, "head": head, "w01": np.exp(zero - one), "w02": np.exp(zero - two)}
        for token, feature in itertools.product(range(3), range(min(2, values.shape[-1]))):
            row[f"value_{token}_{feature}"] = float(values[model, head, 1 + token, feature])
        rows.append(row)
    return pd.DataFrame(rows)


def subsets(
    network: BatchedNetwork,
    index: int,
    learned: Counts,
    tested: Counts,
    sizes: Iterable[int] = (1, 2),
) -> pd.DataFrame:
    """Return both accuracies of all sets of heads of some sizes of one model.

    Columns: `size`, `heads` (their numbers, a space between them), `learned`, `separation`.

    Args:
        learned: the strings on which separators are fitted.
        tested: those on which both accuracies are taken.
    """
    there = network.heads[index].nonzero()[:, 0].tolist()
    known, asked = (head_outputs(network, index, counts) for counts in (learned, tested))
    rows = []
    for size in sizes:
        for some in itertools.combinations(there, size):
            rows.append({
                "size": size,
                "heads": " ".join(map(str, some)),
                "learned": float(learned_accuracy(network, some, tested)[index]),
                "separation": separation(some, known, asked),
            })  # fmt: skip
    return pd.DataFrame(rows)


def by_hand(
    values: Float[Tensor, "3 W"], w01: float, w02: float, counts: Integer[Tensor, "S 3"]
) -> Float[Tensor, "S 1 W"]:
    """Return what a head of these values finds if it looked as told (fraknoi2024, Fig. 8).

    A zero counts 1, a one 1 / w01 and a two 1 / w02; all else counts nothing. Of an empty string
    nothing is found.

    >>> values = torch.tensor([[1.0], [-1.0], [5.0]])
    >>> by_hand(values, 1.0, float("inf"), torch.tensor([[3, 1, 9], [0, 0, 2]])).flatten().tolist()
    [0.5, 0.0]
    """
    weights = counts.double() / torch.tensor([1.0, w01, w02], dtype=torch.float64)
    total = weights.sum(1, keepdim=True)
    shares = torch.where(total > 0, weights / total.clamp(min=1e-300), 0.0)
    return (shares @ values.double())[:, None]


def separations_by_hand(
    network: BatchedNetwork,
    learned: Counts,
    tested: Counts,
    grid: Sequence[float],
) -> pd.DataFrame:
    """Return separation accuracies of heads whose attention is set, as in both halves of Fig. 8.

    Columns: `model`, `head`, `w01`, `w02`, `separation`: w02 without end and w01 from the grid,
    then w01 of 1 and w02 from the grid.
    """
    rows: list[dict[str, Any]] = []
    endless = float("inf")
    pairs = [(w01, endless) for w01 in grid] + [(1.0, w02) for w02 in grid]
    with torch.no_grad():
        values = network.scores()[1][:, :, 1:4]
    ones = [counts[:, 1] > counts[:, 0] for counts in (learned, tested)]
    for model, head in itertools.product(range(len(network)), range(values.shape[1])):
        for w01, w02 in pairs:
            both = [
                HeadOutputs(by_hand(values[model, head], w01, w02, counts), of)
                for counts, of in zip((learned, tested), ones, strict=True)
            ]
            share = separation([0], *both)
            rows.append({"model": model, "head": head, "w01": w01, "w02": w02, "separation": share})
    return pd.DataFrame(rows)
