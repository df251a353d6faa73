"""How much of the prior may be learned? `python benchmarks/weaker_priors.py [EXPERIMENT ...]`.

Sums of up to 10 digits, `SEEDS` seeds each, on all cores:

span          the window is learned: keys fade out beyond a learned span (Sukhbaatar et al. 2019,
              section 2), whose size is part of the loss in the second half of training. Then the
              window is fixed to what the span shows, training goes on, and the model is certified.
cheap_span    the same, with a tenth of the cost.
table         Abacus ids are read from a table; then also relatively within the usual window, while
              the table fades to 0. The model without the table is certified.
order         no place ids at all: the tokens of a sum alternate, a0 b0 s0 a1 b1 s1 ..., and a token
              attends to the four tokens before it and to the first one. The model writes each s.
              It is run in all 20,100 contexts; rounding errors are not bounded.

Results are rows of weaker_priors.csv; seeds that it has are skipped, so the script can be stopped
and started at any time. With `summary` it trains nothing, and prints medians over seeds.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from missing_jobs import run_missing
from torch import Tensor, nn

from carry.certificates.verification import certify_model, find_contexts_or_conflict
from carry.evaluation.decoding import compute_decoding_ids
from carry.experiments.resolve import make_run
from carry.experiments.run import Run
from carry.formats import EQUALS
from carry.models.encodings import IdRange, ModelSettings
from carry.models.encodings.relative import Relative
from carry.models.system import Start, System
from carry.models.teacher_forcing import teacher_forced_pass
from carry.randomness import stream
from carry.training.loop import Trainer
from carry.training.optimizers import make_optimizers

FILE = Path(__file__).with_suffix(".csv")
SEEDS = 5
DIGITS = 10  # of trained sums
ASKED = 200  # sums of each length that is scored
FAR = (10, 20, 100, 1000)  # lengths at which certified models are scored

STEPS = 2000  # of the first training
TABLE_STEPS = 8000  # of a table of ids, which learns later
WIDEST = 16  # ids of the first span on both sides, which hides nothing in training
SPAN_COST = 0.01  # of an id in the span
SPAN_RATE = 4  # times the learning rate: with 1, a training of this length moves 12 ids at most

LEARNED = {"ids": "abacus", "encoding": "learned", "per_example": True, "initial": "sinusoidal"}
RELATIVE = {"ids": "abacus", "encoding": "relative"}
NEAR = {"ids": "index", "encoding": "relative", "window": [4, 0]}  # tokens, for `order`
ONE_LAYER = {"layers": 1, "width": 64}  # as in the row `addition_relative`
TWO_LAYERS = {"layers": 2, "width": 128}  # as in the row `addition_abacus`
Result = tuple[str, int, Any]  # a measure, its length of sums or 0, and the value


class LearnedSpan(Relative):
    """Relative biases plus the logarithm of a weight that falls to 0 beyond a learned span.

    The weight of a key at distance d is span + 1 - d, between 0 and 1, with one span for lower ids
    and one for higher ids. The first token keeps its weight.
    """

    def __init__(self, model: ModelSettings) -> None:
        super().__init__(Relative.Settings(clip=WIDEST), model, IdRange(DIGITS + 1))
        self.changes = nn.Parameter(torch.zeros(2))  # in shares of WIDEST

    def spans(self) -> Tensor:
        """Return the spans for lower and for higher ids."""
        return (WIDEST * (1 + SPAN_RATE * self.changes)).clamp(min=0)

    def bias(self, layer: int, query: Tensor, key: Tensor) -> Tensor:
        """Return the biases, minus infinity where the weight is 0."""
        difference = key[:, None, :] - query[:, :, None]
        lower, upper = self.spans()
        weight = torch.where(difference < 0, lower, upper) + 1 - difference.abs()
        faded = torch.where(weight > 0, weight.clamp(1e-6, 1.0).log(), -math.inf)
        faded = torch.nn.functional.pad(faded[:, :, 1:], (1, 0))
        return super().bias(layer, query, key) + faded[:, None]


def make_sums(positions: list[dict], model: dict = ONE_LAYER, **training: Any) -> Run:
    """Return a run of sums up to `DIGITS` digits."""
    training = {"digits": DIGITS, "optimizer": "adamw", **training}
    task = {"name": "addition"}
    return make_run({"task": task, "positions": positions, "model": model, "training": training})


def start_training(run: Run, seed: int, weights: dict[str, Tensor]) -> Trainer:
    """Return a training that starts from those of the weights that the model has."""
    trainer = Trainer(run, seed, None)
    trainer.system.network.load_state_dict(weights, strict=False)
    return trainer


def learn_span(seed: int, cost: float = SPAN_COST) -> Iterator[Result]:
    """Yield the learned window, and the verdict on the model with this window."""
    half = STEPS // 2
    trainer = Trainer(make_sums([RELATIVE], steps=STEPS, learning_rate=0.003), seed, None)
    network = trainer.system.network
    span = network.encodings[0] = LearnedSpan(network.settings)
    network.penalty = lambda real: cost * span.spans().sum() * (trainer.step >= half)
    trainer.optimizers = make_optimizers(network, trainer.run.training)
    trainer.train()
    window = span.spans().ceil().int().tolist()
    yield from (("lower", 0, window[0]), ("upper", 0, window[1]))
    weights, clip = network.state_dict(), min(max(window) + 1, WIDEST)
    biases = weights["encodings.0.biases.0"]
    weights["encodings.0.biases.0"] = biases[WIDEST - clip : WIDEST + clip + 1]
    run = make_sums([{**RELATIVE, "window": window, "clip": clip}], steps=half)
    yield from certify(start_training(run, seed, weights).train().system)


def fade_table(seed: int) -> Iterator[Result]:
    """Yield the verdict on a model that had learned a table of ids, which faded."""
    table, windowed = {**LEARNED, "offset": 25}, {**RELATIVE, "window": [0, 1]}
    first = make_sums([table], steps=TABLE_STEPS, learning_rate=0.003)
    system = Trainer(first, seed, None).train().system
    yield from score("accuracy of the table", system, [DIGITS], "all")
    run = make_sums([table, windowed], steps=STEPS)
    trainer = start_training(run, seed, system.network.state_dict())
    rows = trainer.system.network.encodings[0].rows.weight.requires_grad_(False)
    learned = rows.clone()

    def fade(step: int, loss: float | None, exact: float | None) -> None:  # every tenth step
        rows.copy_(learned * max(0.0, 1.0 - 2 * step / STEPS))

    weights = trainer.train(fade).system.network.state_dict()
    weights = {name.replace("encodings.1", "encodings.0"): weights[name] for name in weights}
    alone = start_training(make_sums([windowed]), seed, weights).system
    yield from certify(alone)


def read_order(seed: int) -> Iterator[Result]:
    """Yield in how many contexts a model is wrong that has the order of tokens alone."""
    run = make_sums([NEAR], steps=STEPS // 2, learning_rate=0.003)
    network, draws = System(run, seed).network, stream(seed, "order")
    (optimizer,) = make_optimizers(network, run.training)
    decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, run.training.steps)
    for _ in range(run.training.steps):
        tokens = alternate(*draw_digits(64, DIGITS, draws))
        logits = network(tokens, [torch.arange(tokens.shape[1]).expand_as(tokens)])
        loss = nn.functional.cross_entropy(
            logits[:, 2:-1:3].flatten(0, 1), tokens[:, 3::3].flatten()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        decay.step()
    network.eval()
    # The last sum of every reachable context, at the first place and at a later one: the tokens of
    # the places before the previous one are hidden, so that one choice of them stands for all.
    one = torch.cartesian_prod(*[torch.arange(10)] * 2)
    later = torch.cartesian_prod(torch.arange(2), *[torch.arange(10)] * 4)
    spread = later[:, 0] * 5  # 5 + 5 carries into the previous place
    low, high = later[:, 1:3], later[:, 3:5]
    first = alternate(one[:, :1], one[:, 1:])
    then = alternate(*(torch.stack([spread, low[:, at], high[:, at]], 1) for at in range(2)))
    leads = torch.cat([find_leads(network, tokens) for tokens in (first, then)])
    yield from (("contexts", 0, len(leads)), ("wrong", 0, int((leads <= 0).sum())))
    yield "least lead", 0, float(leads.min())
    for digits in FAR:
        tokens = alternate(*draw_digits(min(ASKED, 20_000 // digits), digits, draws))
        exact = (write_sums(network, tokens).argmax(-1) == tokens[:, 3::3]).all(1)
        yield "accuracy", digits, float(exact.float().mean())


def draw_digits(count: int, digits: int, draws: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return the digits of two numbers; three places in ten add to 9, so that carries are long."""
    first, second = torch.randint(10, (2, count, digits), generator=draws)
    passes = torch.rand(count, digits, generator=draws) < 0.3
    return first, torch.where(passes, 9 - first, second)


def alternate(first: Tensor, second: Tensor) -> Tensor:
    """Return `=` and the digits of two numbers and their sum by place, least significant first.

    Shapes: [B N] each; returns [B 1+3N]. The last carry is not written.
    """
    carry, tokens = torch.zeros_like(first[:, 0]), [torch.full_like(first[:, 0], EQUALS)]
    for a, b in zip(first.T, second.T, strict=True):
        total = a + b + carry
        carry = total // 10
        tokens += [a, b, total % 10]
    return torch.stack(tokens, 1)


def write_sums(network: nn.Module, tokens: Tensor) -> Tensor:
    """Return the logits at the second digit of each place, where the sum is written [B N V]."""
    return network(tokens, [torch.arange(tokens.shape[1]).expand_as(tokens)])[:, 2:-1:3]


@torch.inference_mode()
def find_leads(network: nn.Module, tokens: Tensor) -> Tensor:
    """Return by how much the logit of the last sum's token leads over the others [B]."""
    logits, due = write_sums(network, tokens)[:, -1], tokens[:, -1:]
    others = logits.scatter(1, due, -math.inf).amax(1)
    return logits.gather(1, due)[:, 0] - others


def certify(system: System) -> Iterator[Result]:
    """Yield the verdict on a model, its contexts, and its accuracy beyond trained lengths."""
    system.network.eval()
    certificate = certify_model(system, find_contexts_or_conflict(system))
    yield from ((name, 0, certificate.get(name)) for name in ("verdict", "contexts", "wrong"))
    yield from score("accuracy", system, FAR)


def score(
    measure: str, system: System, lengths: Sequence[int], start: Start = 1
) -> Iterator[Result]:
    """Yield the share of sums of two numbers of each length that are right."""
    system.network.eval()
    for digits in lengths:
        count = min(ASKED, 20_000 // digits)
        cells = torch.tensor([[digits, digits]]).expand(count, -1)
        problems = system.task.draw_for_cells(cells, stream(0, "asked", digits))
        batch = system.format.write(problems)
        ids = compute_decoding_ids(system, problems, batch, start)
        exact = teacher_forced_pass(system, batch, ids_by_start=ids).exact
        yield measure, digits, float(exact.float().mean())


EXPERIMENTS: dict[str, Callable[[int], Iterator[Result]]] = {
    "span": learn_span, "cheap_span": partial(learn_span, cost=SPAN_COST / 10),
    "table": fade_table, "order": read_order,
}  # fmt: skip


def run_experiment(name: str, seed: int) -> pd.DataFrame:
    """Return the results of one seed as rows of the file, one for each length of sums."""
    found = pd.DataFrame(EXPERIMENTS[name](seed), columns=["measure", "at", "value"])
    found = found.pivot(index="at", columns="measure", values="value").reset_index()
    return found.assign(experiment=name, seed=seed)


def main() -> None:
    """Run what is missing, seed by seed, and print medians over seeds."""
    names = sys.argv[1:] or [*EXPERIMENTS]
    if {*names} - {*EXPERIMENTS, "summary"}:
        sys.exit(f"{' '.join(names)}: expected some of {' '.join(EXPERIMENTS)} summary")
    jobs = [(name, seed) for seed in range(SEEDS) for name in names if name != "summary"]
    results = run_missing(FILE, ("experiment", "seed"), jobs, run_experiment)
    groups = results.drop(columns="seed").groupby(["experiment", "at"])
    print(groups.median(numeric_only=True).to_string(na_rep=""))
    print(results.groupby(["experiment", "seed"])["verdict"].first().dropna().to_string())


if __name__ == "__main__":
    main()
