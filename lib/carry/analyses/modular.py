"""How a model comes to add modulo a number (fraknoi2024, section 4): what it knows, step by step.

progress          loss and accuracy on pairs of training and on others; where all pairs are asked,
                  also the losses of restricted and of excluded logits (`carry.interpretability.fourier`)
spectrum          the waves of the embedding and of the neuron-to-logit map, before and after
key_frequencies   the few of them that the logits are made of
circles           where numbers stand in the plane of such a wave, before and after
nearness          how near to each other 123 + 456, 291 + 288 and 579 are, before and after

Step 0 is the model as it was before training, made again from its seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Float, Integer
from torch import Tensor

from carry.config import run_settings
from carry.config.settings import SettingsError
from carry.data.batch import Batch
from carry.evaluation import trained_models
from carry.evaluation.intervals import add_interval
from carry.formats import FIRST_LETTER
from carry.interpretability import fourier
from carry.models.hooks import Hooks
from carry.models.system import System
from carry.randomness import stream
from carry.tasks import to_digits

TASK = "modular_addition"
FEW = 2**15  # pairs that are all asked; of more, `ASKED` of each set
ASKED = 1000
AT_ONCE = 4096
MATRICES = ("embedding", "neurons to logits")

Pairs = Integer[Tensor, " B"]  # counted a * modulus + b
Stages = list[tuple[int, dict[str, Tensor]]]  # weights by step


def tables(row: str, profile: str) -> dict[str, pd.DataFrame]:
    """Return the tables of all seeds of a row that was trained with snapshots.

    Raises:
        SettingsError: for a row without snapshots or weights.
    """
    given = run_settings.load_run(row, profile)
    if not given.training.snapshot_every:
        raise SettingsError(
            f"runs.{row}.training.snapshot_every: {given.training.snapshot_every} does not fit analysis "
            "'modular'; expected a number of steps"
        )
    parts = [of_seed(*stages(row, profile, seed)) for seed in range(given.seeds)]
    return {name: pd.concat([of[name] for of in parts], ignore_index=True) for name in parts[0]}


def stages(row: str, profile: str, seed: int) -> tuple[System, Stages]:
    """Return a trained system, and its weights from before training to the last snapshot."""
    system = trained_models.load_trained(profile, row, seed)
    system.network.to("cpu")
    kept = trained_models.load_snapshots(profile, row, seed)
    before = System(system.run, seed).network.state_dict()
    return system, [(0, before), *kept.items()]


@torch.no_grad()
def of_seed(system: System, stages: Stages) -> dict[str, pd.DataFrame]:
    """Return the tables of one model: all of them, or those that its format and modulus allow.

    Waves are looked for where each number is a symbol and all pairs can be asked.
    """
    system.network.load_state_dict(stages[-1][1])
    whole, asked = system.format.whole and system.task.modulus**2 <= FEW, pick(system, "progress")
    keys = []
    if whole:
        batch = written(system, torch.arange(system.task.modulus**2))
        explained = fourier.explained(number_logits(system, batch))
        keys = fourier.key_frequencies(explained)
    by_step, ends = [], {"nearness": []} | ({"spectrum": [], "circles": []} if whole else {})
    for step, weights in stages:
        system.network.load_state_dict(weights)
        known = _of_all(system, asked, batch, keys) if whole else _of_some(system, asked)
        by_step.append(known.assign(step=step))
        if step in (stages[0][0], stages[-1][0]):
            ends["nearness"].append(nearness(system).assign(step=step))
            if whole:
                ends["spectrum"].append(_spectrum(system).assign(step=step))
                ends["circles"].append(_circles(system, keys).assign(step=step))
    found = {"progress": pd.concat(by_step)} | {name: pd.concat(of) for name, of in ends.items()}
    if whole:
        found["key_frequencies"] = _key_frequencies(system, keys, explained)
    return {name: _labelled(system, name, table) for name, table in found.items()}


# ---- What it knows -------------------------------------------------------------------------------


def pick(system: System, name: str) -> dict[str, Pairs]:
    """Return pairs by set, `trained` and `held out`: all there are, or some where they are many."""
    seen = system.task.seen()
    found = {"trained": seen.nonzero()[:, 0], "held out": (~seen).nonzero()[:, 0]}
    if len(seen) <= FEW:
        return found
    generator = stream(0, "analysis", name)
    order = {of: torch.randperm(len(pairs), generator=generator) for of, pairs in found.items()}
    return {of: pairs[order[of][:ASKED]] for of, pairs in found.items()}


def written(system: System, pairs: Pairs) -> Batch:
    """Return pairs as the model's format writes them, with their answers."""
    modulus = system.task.modulus
    numbers = torch.stack([pairs // modulus, pairs % modulus], dim=1)
    return system.format.write(system.task.solve(*to_digits(numbers.tolist())))


@torch.no_grad()
def number_logits(system: System, batch: Batch) -> Float[Tensor, "B P"]:
    """Return the logits of all numbers as the answer to every pair, each number a symbol."""
    modulus = system.task.modulus
    at = batch.response()[0][:1, :1]
    parts = [
        system.logits(some, system.ids(some), at)[:, 0, FIRST_LETTER : FIRST_LETTER + modulus]
        for some in (batch[rows] for rows in torch.arange(modulus**2).split(AT_ONCE))
    ]
    return torch.cat(parts).double()


def _of_all(
    system: System, asked: dict[str, Pairs], batch: Batch, keys: Sequence[int]
) -> pd.DataFrame:
    """Return what is known of all pairs, with restricted and excluded logits.

    The answer alone is judged, among the numbers; that an answer ends is no part of it.
    """
    logits, answers = number_logits(system, batch), fourier.sums(system.task.modulus)
    known = {
        "loss": fourier.losses(logits, answers),
        "restricted": fourier.losses(fourier.restricted(logits, keys), answers),
        "excluded": fourier.losses(fourier.excluded(logits, keys), answers),
    }
    right, every = logits.argmax(1) == answers, {"all": torch.arange(len(answers))}
    rows = [
        {"set": name, "n": len(pairs), "correct": int(right[pairs].sum()), "norm": _norm(system)}
        | {of: float(loss[pairs].mean()) for of, loss in known.items()}
        for name, pairs in (asked | every).items() if len(pairs)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def _of_some(system: System, asked: dict[str, Pairs]) -> pd.DataFrame:
    """Return what is known of some pairs of each set; the loss is that of the whole response."""
    rows = []
    for name, pairs in asked.items():
        batch = written(system, pairs)
        at, target, real = batch.response()
        logits = system.logits(batch, system.ids(batch), at)
        loss = F.cross_entropy(logits.transpose(1, 2), target, reduction="none")
        right = ((logits.argmax(-1) == target) | ~real).all(1)
        rows.append({
            "set": name, "n": len(pairs), "correct": int(right.sum()), "norm": _norm(system),
            "loss": float((loss * real).sum(1).double().mean()),
            "restricted": math.nan, "excluded": math.nan,
        })  # fmt: skip
    return pd.DataFrame(rows)


def _norm(system: System) -> float:
    """Return the sum of all weights' squares, which weight decay makes small."""
    return sum(float(of.double().square().sum()) for of in system.network.parameters())


# ---- How its insides turn ------------------------------------------------------------------------


def maps(system: System) -> tuple[Float[Tensor, "P D"], Float[Tensor, "P M"]]:
    """Return the embedding of the numbers, and what each neuron of the last layer adds to each."""
    numbers = slice(FIRST_LETTER, FIRST_LETTER + system.task.modulus)
    network = system.network
    down = network.blocks[-1].feed_forward.down.weight
    embedding, logits = network.tokens.weight[numbers], network.logits.weight[numbers]
    return embedding.detach(), (logits @ down).detach()


def spectra(system: System) -> list[Float[Tensor, " K"]]:
    """Return the share of power at each frequency, of both `MATRICES`."""
    return [fourier.spectrum(of) for of in maps(system)]


def _spectrum(system: System) -> pd.DataFrame:
    parts = [
        pd.DataFrame({"matrix": name, "frequency": range(1, len(share) + 1), "share": share})
        for name, share in zip(MATRICES, spectra(system), strict=True)
    ]
    return pd.concat(parts)


def _key_frequencies(
    system: System, keys: list[int], explained: Float[Tensor, " K"]
) -> pd.DataFrame:
    """Return each key frequency's share of the neuron-to-logit map and of the logits' variance."""
    at = torch.tensor(keys) - 1
    columns = {"n": system.task.modulus**2, "frequency": keys, "share": spectra(system)[1][at]}
    return pd.DataFrame({**columns, "explained": explained[at]})


def _circles(system: System, keys: list[int]) -> pd.DataFrame:
    embedding = maps(system)[0]
    parts = []
    for frequency in keys:
        x, y = fourier.on_circle(embedding, frequency).T
        number = range(len(embedding))
        parts.append(pd.DataFrame({"frequency": frequency, "number": number, "x": x, "y": y}))
    return pd.concat(parts)


# ---- What is near to what ------------------------------------------------------------------------


def nearness(system: System) -> pd.DataFrame:
    """Return mean cosines between what the model has at `=` for pairs that it was not trained on.

    Of each kind there are `n` cosines with a 95% interval of their mean. "equal sums": 123 + 456
    and 291 + 288, never 456 + 123; "other sums": 123 + 456 and the next problem's pair; and where a
    number is a symbol, "their number": 123 + 456 and the embedding of 579, "other numbers": of the
    next problem's. What is at `=` is the residual stream behind the last layer; means are taken off
    first, of streams and of embeddings, since all streams have much in common.
    """
    one, two, answers = equal_sums(system)
    streams = at_equals(system, torch.cat([one, two]))
    streams = streams - streams.mean(0)
    first, second = streams.chunk(2)
    differ = answers != answers.roll(1)
    pairs = {
        "equal sums": (first, second),
        "other sums": (first[differ], second.roll(1, 0)[differ]),
    }
    if system.format.whole:
        numbers = maps(system)[0].double()
        own = (numbers - numbers.mean(0))[answers]
        pairs["their number"] = (first, own)
        pairs["other numbers"] = (first[differ], own.roll(1, 0)[differ])
    rows = []
    for kind, (left, right) in pairs.items():
        cosine = F.cosine_similarity(left, right)
        mean, spread = float(cosine.mean()), 1.96 * float(cosine.std()) / math.sqrt(len(cosine))
        found = {"cosine": mean, "low": mean - spread, "high": mean + spread}
        rows.append({"kind": kind, "n": len(cosine), **found})
    return pd.DataFrame(rows)


def equal_sums(system: System) -> tuple[Pairs, Pairs, Integer[Tensor, " B"]]:
    """Return held-out pairs, others with the same sums that are not their mirrors, and the sums.

    All are as long as most when written, since what is at `=` depends on where it stands.
    """
    task, generator = system.task, stream(0, "analysis", "nearness")
    modulus, held_out = task.modulus, ~task.seen()
    known = held_out.nonzero()[:, 0]
    one = known[torch.randint(len(known), (8 * ASKED,), generator=generator)]
    a, b = one // modulus, one % modulus
    other = torch.randint(modulus, a.shape, generator=generator)
    two = other * modulus + (a + b - other) % modulus
    fits = (held_out[two] & (other != a) & (other != b)).nonzero()[:, 0]
    begins = torch.stack([written(system, pairs[fits]).start for pairs in (one, two)])
    fits = fits[(begins == begins.flatten().mode().values).all(0)][:ASKED]
    return one[fits], two[fits], ((a + b) % modulus)[fits]


@torch.no_grad()
def at_equals(system: System, pairs: Pairs) -> Float[Tensor, "B D"]:
    """Return the residual stream behind the last layer where the answer begins."""
    last = system.network.activations()[-3]
    batch, inside = written(system, pairs), Hooks([last])
    at = batch.response()[0][:, :1]
    system.network(batch.tokens, system.ids(batch), at, inside=inside)
    return inside[last][:, 0].double()


# ---- Tables --------------------------------------------------------------------------------------


def _labelled(system: System, name: str, table: pd.DataFrame) -> pd.DataFrame:
    """Return a table that names its model; with shares that are right, where they are counted."""
    labels = {"row": system.run.name, "profile": system.run.profile, "seed": system.seed}
    if name == "progress":
        table = add_interval(table.reset_index(drop=True), "correct")
    left = [of for of in ("step", "set", "kind", "n") if of in table]
    order = [*labels, *left, *table.columns.drop(left)]
    return table.assign(**labels)[order].reset_index(drop=True)
