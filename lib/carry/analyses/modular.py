"""Training of modular addition, step by step (fraknoi2024, section 4).

progress          loss and accuracy on trained and other pairs; with all pairs, also the losses of
                  restricted and of excluded logits (see `carry.interpretability.fourier`)
spectrum          frequencies of the embedding and of the neuron-to-logit map, before and after
key_frequencies   the few frequencies of the logits
circles           coordinates of the numbers in the plane of each key frequency, before and after
nearness          cosines between 123 + 456, 291 + 288 and 579, before and after
grid              how far numbers of several digits are a grid of their digits, before and after
plane             the first two principal components of these numbers, before and after

Step 0 is the model before training, built from its seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Float, Integer
from torch import Tensor

from carry.analyses import INTERVAL, LABELS
from carry.config.settings import SettingsError
from carry.data.batch import Batch
from carry.data.tables import concat_by_name
from carry.evaluation import trained_models
from carry.evaluation.intervals import add_interval
from carry.formats import FIRST_LETTER, PLUS
from carry.formats.expression import Expression
from carry.formats.one_hot import OneHot
from carry.interpretability import fourier, number_grid
from carry.models.hooks import Hooks
from carry.models.system import System
from carry.models.teacher_forcing import teacher_forced_pass
from carry.randomness import stream
from carry.tasks import to_digits

TASK = "modular_addition"
COLUMNS = {
    "progress": (
        *LABELS, "step", "set", "n", "correct", "norm", "loss", "restricted", "excluded",
        *INTERVAL,
    ),
    "spectrum": (*LABELS, "step", "matrix", "frequency", "share"),
    "key_frequencies": (*LABELS, "n", "frequency", "share", "explained"),
    "circles": (*LABELS, "step", "frequency", "number", "x", "y"),
    "nearness": (*LABELS, "step", "kind", "n", "cosine", "low", "high"),
    "grid": (*LABELS, "step", "n", "place", "share", "line", "circle", "frequency"),
    "plane": (*LABELS, "step", "number", "x", "y"),
}  # fmt: skip
MAX_PAIRS = 2**15  # up to this number all pairs are scored; else `SAMPLED_PAIRS` of each set
SAMPLED_PAIRS = 1000
BATCH = 4096
EMBEDDING, NEURONS = "embedding", "neurons to logits"  # of the numbers

Pairs = Integer[Tensor, " B"]  # (a, b) as a * modulus + b


@torch.no_grad()
def tables(system: System) -> dict[str, pd.DataFrame]:
    """Analyse the snapshots of a model.

    Returns:
        The tables of the module's docstring; without `spectrum`, `key_frequencies` and `circles`
        for a row whose format or modulus does not allow them, and with `grid` and `plane` for
        numbers that are written as decimal digits. `plane` is of seed 0.

    Raises:
        SettingsError: for a row without snapshots.
    """
    run = system.run
    if not run.training.snapshot_every:
        raise SettingsError(
            f"runs.{run.name}.training.snapshot_every: {run.training.snapshot_every} does not fit "
            "analysis 'modular'; expected a number of steps"
        )
    snapshots = trained_models.load_snapshots(run, system.seed)
    stages = {0: System(run, system.seed).network.state_dict(), **snapshots}
    system.network.to("cpu").load_state_dict(stages[max(stages)])
    scores_all = isinstance(system.format, OneHot) and system.task.modulus**2 <= MAX_PAIRS
    pairs = choose_pairs(system)
    parts: list[dict[str, pd.DataFrame]] = []
    keys: list[int] = []
    if scores_all:
        batch = write_pairs(system, torch.arange(system.task.modulus**2))
        explained = fourier.explained_variance(compute_number_logits(system, batch))
        keys = fourier.find_key_frequencies(explained)
    for step, weights in stages.items():
        system.network.load_state_dict(weights)
        score = _score_all(system, pairs, batch, keys) if scores_all else _score(system, pairs)
        new = {"progress": score}
        if step in (0, max(stages)):
            new["nearness"] = measure_nearness(system)
            if isinstance(system.format, Expression):
                vectors = embed_numbers(system)
                table = number_grid.describe_grid(vectors)
                new["grid"] = table.assign(n=vectors[..., 0].numel())
                if system.seed == 0:
                    new["plane"] = _plane(vectors)
            if scores_all:
                new |= {"spectrum": _spectrum(system), "circles": _circles(system, keys)}
        parts.append({name: table.assign(step=step) for name, table in new.items()})
    if scores_all:
        parts.append({"key_frequencies": _key_frequencies(system, keys, explained)})
    joined = concat_by_name(parts)
    return {**joined, "progress": add_interval(joined["progress"], "correct")}


# ---- Scores --------------------------------------------------------------------------------------


def choose_pairs(system: System) -> dict[str, Pairs]:
    """Return the sets of pairs `trained` and `held out`: complete, or sampled if there are many."""
    is_trained = system.task.trained_pairs()
    sets = {"trained": is_trained.nonzero()[:, 0], "held out": (~is_trained).nonzero()[:, 0]}
    if len(is_trained) <= MAX_PAIRS:
        return sets
    generator = stream(0, "analysis", "progress")
    order = {key: torch.randperm(len(pairs), generator=generator) for key, pairs in sets.items()}
    return {key: pairs[order[key][:SAMPLED_PAIRS]] for key, pairs in sets.items()}


def write_pairs(system: System, pairs: Pairs) -> Batch:
    """Return pairs and their answers in the model's format."""
    modulus = system.task.modulus
    numbers = torch.stack([pairs // modulus, pairs % modulus], dim=1)
    return system.format.write(system.task.solve(*to_digits(numbers.tolist())))


@torch.no_grad()
def compute_number_logits(system: System, batch: Batch) -> Float[Tensor, "B P"]:
    """Return the logits of all numbers as the answer to every pair; each number is a symbol."""
    modulus = system.task.modulus
    at = batch.response()[0][:1, :1]
    parts = [
        system.logits(part, system.ids(part), at)[:, 0, FIRST_LETTER : FIRST_LETTER + modulus]
        for part in (batch[rows] for rows in torch.arange(modulus**2).split(BATCH))
    ]
    return torch.cat(parts).double()


def _score_all(
    system: System, sets: dict[str, Pairs], batch: Batch, keys: Sequence[int]
) -> pd.DataFrame:
    """Score the answers (not end tokens) to all pairs, with losses of parts of the logits."""
    logits = compute_number_logits(system, batch)
    answers = fourier.modular_sums(system.task.modulus)
    kinds = {
        "loss": logits,
        "restricted": fourier.project_on_waves(logits, [0, *keys]),
        "excluded": logits - fourier.project_on_waves(logits, keys),
    }
    losses = {kind: F.cross_entropy(of, answers, reduction="none") for kind, of in kinds.items()}
    correct = logits.argmax(1) == answers
    rows = []
    for name, pairs in {**sets, "all": torch.arange(len(answers))}.items():
        if len(pairs):
            counts = {"set": name, "n": len(pairs), "correct": int(correct[pairs].sum())}
            means = {kind: float(loss[pairs].mean()) for kind, loss in losses.items()}
            rows.append({**counts, "norm": _norm(system), **means})
    return pd.DataFrame(rows)


def _score(system: System, sets: dict[str, Pairs]) -> pd.DataFrame:
    """Score the pairs of each set, with the loss of the complete response."""
    rows = []
    for name, pairs in sets.items():
        batch = write_pairs(system, pairs)
        result = teacher_forced_pass(system, batch, keep_logits=True)
        loss = F.cross_entropy(result.logits.transpose(1, 2), result.target, reduction="none")
        counts = {"set": name, "n": len(pairs), "correct": int(result.exact.sum())}
        loss = float((loss * result.real).sum(1).double().mean())
        losses = {"loss": loss, "restricted": math.nan, "excluded": math.nan}
        rows.append({**counts, "norm": _norm(system), **losses})
    return pd.DataFrame(rows)


def _norm(system: System) -> float:
    """Return the sum of the squares of all weights, which weight decay reduces."""
    return sum(float(weight.double().square().sum()) for weight in system.network.parameters())


# ---- Frequencies ---------------------------------------------------------------------------------


def number_matrices(system: System) -> dict[str, Float[Tensor, "P _"]]:
    """Return the embedding of the numbers, and the neuron-to-logit map of the last layer."""
    numbers = slice(FIRST_LETTER, FIRST_LETTER + system.task.modulus)
    network = system.network
    down = network.blocks[-1].feed_forward.down.weight
    embedding, logits = network.tokens.weight[numbers], network.logits.weight[numbers]
    return {EMBEDDING: embedding.detach(), NEURONS: (logits @ down).detach()}


def _spectrum(system: System) -> pd.DataFrame:
    parts = []
    for name, matrix in number_matrices(system).items():
        share = fourier.compute_spectrum(matrix)
        frequency = range(1, len(share) + 1)
        parts.append(pd.DataFrame({"matrix": name, "frequency": frequency, "share": share}))
    return pd.concat(parts)


def _key_frequencies(
    system: System, keys: list[int], explained: Float[Tensor, " K"]
) -> pd.DataFrame:
    """Return the share of each key frequency in the neuron-to-logit map and in the logits."""
    at = torch.tensor(keys) - 1
    spectrum = fourier.compute_spectrum(number_matrices(system)[NEURONS])
    shares = {"share": spectrum[at], "explained": explained[at]}
    return pd.DataFrame({"n": system.task.modulus**2, "frequency": keys, **shares})


def _circles(system: System, keys: list[int]) -> pd.DataFrame:
    embedding = number_matrices(system)[EMBEDDING]
    parts = []
    for frequency in keys:
        x, y = fourier.project_on_circle(embedding, frequency).T
        number = range(len(embedding))
        parts.append(pd.DataFrame({"frequency": frequency, "number": number, "x": x, "y": y}))
    return pd.concat(parts)


# ---- Cosines -------------------------------------------------------------------------------------


def measure_nearness(system: System) -> pd.DataFrame:
    """Return mean cosines between the residual streams of held-out pairs at `=`.

    Each kind has `n` cosines and a 95% interval of their mean. "equal sums": 123 + 456 and
    291 + 288, never 456 + 123; "other sums": 123 + 456 and the pair of the next problem. If numbers
    are symbols, also "their number": 123 + 456 and the embedding of 579, and "other numbers": the
    embedding of the next problem's answer. Streams come from the last layer; the mean of all
    streams and of all embeddings is subtracted first, since all streams have much in common.
    """
    one, two, answers = draw_equal_sums(system)
    streams = stream_at_equals(system, torch.cat([one, two]))
    streams = streams - streams.mean(0)
    first, second = streams.chunk(2)
    differ = answers != answers.roll(1)
    kinds = {
        "equal sums": (first, second),
        "other sums": (first[differ], second.roll(1, 0)[differ]),
    }
    if isinstance(system.format, OneHot):
        numbers = number_matrices(system)[EMBEDDING].double()
        embedded = (numbers - numbers.mean(0))[answers]
        kinds["their number"] = (first, embedded)
        kinds["other numbers"] = (first[differ], embedded.roll(1, 0)[differ])
    rows = []
    for kind, (left, right) in kinds.items():
        cosine = F.cosine_similarity(left, right)
        mean, margin = float(cosine.mean()), 1.96 * float(cosine.std()) / math.sqrt(len(cosine))
        interval = {"cosine": mean, "low": mean - margin, "high": mean + margin}
        rows.append({"kind": kind, "n": len(cosine), **interval})
    return pd.DataFrame(rows)


def draw_equal_sums(system: System) -> tuple[Pairs, Pairs, Integer[Tensor, " B"]]:
    """Return held-out pairs, other held-out pairs with equal sums, and the sums.

    No pair has a number of its partner. All have the most common length of the question, since the
    stream at `=` depends on its position.
    """
    task, generator = system.task, stream(0, "analysis", "nearness")
    modulus, held_out = task.modulus, ~task.trained_pairs()
    candidates = held_out.nonzero()[:, 0]
    one = candidates[torch.randint(len(candidates), (8 * SAMPLED_PAIRS,), generator=generator)]
    a, b = one // modulus, one % modulus
    other = torch.randint(modulus, a.shape, generator=generator)
    two = other * modulus + (a + b - other) % modulus
    fits = (held_out[two] & (other != a) & (other != b)).nonzero()[:, 0]
    starts = torch.stack([write_pairs(system, pairs[fits]).start for pairs in (one, two)])
    fits = fits[(starts == starts.flatten().mode().values).all(0)][:SAMPLED_PAIRS]
    return one[fits], two[fits], ((a + b) % modulus)[fits]


@torch.no_grad()
def stream_at_equals(system: System, pairs: Pairs) -> Float[Tensor, "B D"]:
    """Return the residual stream after the last layer at `=`, the token before the answer."""
    last = system.network.activation_names()[-3]
    batch, hooks = write_pairs(system, pairs), Hooks([last])
    at = batch.response()[0][:, :1]
    system.network(batch.tokens, system.ids(batch), at, hooks=hooks)
    return hooks[last][:, 0].double()


# ---- Grids of digits -----------------------------------------------------------------------------


@torch.no_grad()
def embed_numbers(system: System) -> Float[Tensor, "*P D"]:
    """Return the residual stream after the last layer at the last token of each number.

    The numbers are the longest ones below the modulus, with each first digit that has all its
    numbers: from 100 to 999 for the modulus 1,000. They are first operands, so the model has read
    nothing else. There is an axis for each place, the most significant first, and one for the
    features.
    """
    modulus, last = system.task.modulus, system.network.activation_names()[-3]
    size = 10 ** (len(str(modulus // 2)) - 1)  # the smallest number; 2 size is at most the modulus
    firsts = min(9, modulus // size - 1)
    numbers = torch.arange(size, (firsts + 1) * size)
    batch, hooks = write_pairs(system, numbers * modulus), Hooks([last])
    at = (batch.tokens[:1] == PLUS).int().argmax(1, keepdim=True) - 1
    system.network(batch.tokens, system.ids(batch), at, hooks=hooks)
    return hooks[last][:, 0].double().unflatten(0, (firsts, *[10] * (len(str(size)) - 1)))


def _plane(vectors: Float[Tensor, "*P D"]) -> pd.DataFrame:
    """Return the first two principal components of the numbers."""
    x, y = number_grid.project_on_plane(vectors.flatten(0, -2)).T
    first = 10 ** (vectors.ndim - 2)
    return pd.DataFrame({"number": range(first, first + len(x)), "x": x, "y": y})
