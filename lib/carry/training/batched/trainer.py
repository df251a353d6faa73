"""All seeds of a run as one computation: models so small that each alone would leave a core idle.

Each seed has weights, an order of problems and a dropout of its own, and ends as it would alone. A
step is one batch of every model; an epoch is all problems once, in an order that is drawn for it.
When a model is right on `halve_at` of the problems held out, it may lose half of its heads
(fraknoi2024, 5.5).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Integer
from torch import Tensor

from carry.config.run_settings import Run
from carry.data.problems import Problems
from carry.data.training_batches import TrainingBatches
from carry.formats import EOS
from carry.models.system import System
from carry.randomness import stream
from carry.training import checkpoint
from carry.training.batched.head_halving import HeadOutputs, select_heads
from carry.training.batched.network import BatchedNetwork, StringCounts, count_strings
from carry.training.schedule import rate_at

# Called with (seed, steps done, loss, held-out accuracy) as training goes on.
Report = Callable[[int, int, float, float], None]


class BatchedTrainer:
    """The models of some seeds, and all that a checkpoint has to bring back.

    >>> from carry.config.run_settings import make_run
    >>> model = {"width": 4, "heads": 2, "feed_forward": False, "output": False}
    >>> training = {"together": True, "steps": 4, "batch": 8, "fixed": 16, "score_every": 2}
    >>> run = make_run({"task": {"name": "noisy_majority"}, "model": model, "training": training})
    >>> trainer = BatchedTrainer(run, [0, 1], None).train()
    >>> [(row["seed"], row["step"]) for row in trainer.curve]
    [(0, 2), (1, 2), (0, 4), (1, 4)]
    """

    def __init__(self, run: Run, seeds: Sequence[int], checkpoint_path: Path | None) -> None:
        self.run, self.seeds, self.path = run, list(seeds), checkpoint_path
        self.systems = [System(run, seed) for seed in self.seeds]
        self.network, system = BatchedNetwork(self.systems), self.systems[0]
        training = run.training
        self.optimizer = torch.optim.AdamW(
            self.network.weights.parameters(), lr=training.learning_rate, betas=tuple(training.betas),
            eps=1e-8, weight_decay=training.weight_decay, fused=True,
        )  # fmt: skip
        problems = TrainingBatches(system, stream(0, "problems")).fixed
        self.learned = system.task.counts(problems.operands, problems.lengths)
        self.written = system.format.write(problems)
        # Behind `=` and behind the answer, next to each other, and what is due there.
        both = zip(
            count_strings(self.learned), count_strings(self.learned, second=True), strict=True
        )
        strings = StringCounts(*(torch.stack(pair, dim=2)[0] for pair in both))
        self.spread = strings.spread()
        said = count_strings(self.learned).due[0]
        self.due = torch.stack([said, torch.full_like(said, EOS)], dim=1)
        held_out = self._held_out()
        self.held_out = system.task.counts(held_out.operands, held_out.lengths)
        self.draws = [stream(seed, "problems") for seed in self.seeds]
        self.drops = [stream(seed, "dropout") for seed in self.seeds]
        self.choices = [stream(seed, "heads") for seed in self.seeds]
        self.step, self.curve = 0, []
        self.best = torch.full((len(self.seeds),), -1.0)
        self.kept = [of.detach().clone() for of in self.network.weights.values()]
        self._losses: list[Tensor] = []
        if training.halving == "masked":
            for index in range(len(self.seeds)):
                self._keep(index, [0])
        if self.path is not None and self.path.exists():
            self._resume()

    def train(self, report: Report = lambda seed, step, loss, exact: None) -> BatchedTrainer:
        """Train all models until the last step."""
        training = self.run.training
        while self.step < training.steps:
            losses = self._losses_of(*self._next_batch())
            self.optimizer.zero_grad(set_to_none=True)
            losses.sum().backward()
            for group in self.optimizer.param_groups:
                group["lr"] = rate_at(self.step, training)
            self.optimizer.step()
            self._losses.append(losses.detach())
            self.step += 1
            ends = self.step == training.steps
            if ends or self.step % training.score_every == 0:
                self._score()
                for row in self.curve[-len(self.seeds) :]:
                    report(row["seed"], row["step"], row["loss"], row["exact"])
            if ends or self.step % training.checkpoint_every == 0:
                self._save()
        return self

    def weights(self) -> list[dict[str, Tensor]]:
        """Return the weights of each seed, those that were `kept`, by their names in its model."""
        if self.run.training.keep_weights == "last":
            return [self.network.state_of(index) for index in range(len(self.seeds))]
        now = [of.detach().clone() for of in self.network.weights.values()]
        self._put(self.kept)
        found = [self.network.state_of(index) for index in range(len(self.seeds))]
        self._put(now)
        return found

    @torch.no_grad()
    def _put(self, values: Sequence[Tensor]) -> None:
        for of, value in zip(self.network.weights.values(), values, strict=True):
            of.copy_(value)

    def _held_out(self) -> Problems:
        """Return the problems by which models are chosen, the same for all seeds."""
        training, task = self.run.training, self.systems[0].task
        low, high = training.held_out or (min(task.least), training.digits)
        generator = stream(0, "held out")
        lengths = torch.randint(low, high + 1, (training.score_problems,), generator=generator)
        return task.sample(lengths[:, None].expand(-1, 2), generator)

    def _begin_epoch(self) -> None:
        """Draw an order of all problems for each model, and what dropout leaves of each batch."""
        self._begun = {name: _states(streams) for name, streams in self._streams().items()}
        count, training = len(self.learned), self.run.training
        self._order = torch.stack([torch.randperm(count, generator=draw) for draw in self.draws])
        self._kept = None
        if training.dropout:
            size = (count, 2, self.network.given.width)  # behind `=`, and behind the answer
            kept = [torch.rand(size, generator=drop) >= training.dropout for drop in self.drops]
            self._kept = torch.stack(kept)

    def _next_batch(self) -> tuple[Integer[Tensor, "M b"], Float[Tensor, "M _ D"] | None]:
        """Return the problems of the next batch of every model, and what dropout multiplies by."""
        size = self.run.training.batch
        at = self.step % -(-len(self.learned) // size)
        if at == 0:
            self._begin_epoch()
        batch = slice(at * size, (at + 1) * size)
        if self._kept is None:
            return self._order[:, batch], None
        kept = self._kept[:, batch].flatten(1, 2) / (1 - self.run.training.dropout)
        return self._order[:, batch], kept

    def _losses_of(
        self, rows: Integer[Tensor, "M b"], kept: Float[Tensor, "M _ D"] | None
    ) -> Float[Tensor, " M"]:
        """Return each model's mean loss on the tokens of its responses: the answer, and the end."""
        if self.run.training.dropout_embeddings:
            logits = self._by_tokens(rows, kept)
        else:
            logits = self.network.by_products(_picked(self.spread, rows).flatten(1, 2), kept)
        # Symbols go first: over a short last dimension the softmax is several times slower.
        logits, target = logits.transpose(1, 2).contiguous(), _picked(self.due, rows).flatten(1)
        return F.cross_entropy(logits, target, reduction="none").mean(1)

    def _by_tokens(self, rows: Tensor, kept: Tensor | None) -> Float[Tensor, "M _ V"]:
        """Return what `by_counts` does, with dropout on the embedding of each token too."""
        written = self.written[rows.flatten()].trim()
        tokens = written.tokens.unflatten(0, rows.shape)
        at = (written.start[:, None] + torch.tensor([-1, 0])).unflatten(0, rows.shape)
        share = self.run.training.dropout_embeddings
        size = (*tokens.shape[1:], self.network.given.width)
        drawn = torch.stack([torch.rand(size, generator=drop) for drop in self.drops])
        kept = None if kept is None else kept.unflatten(1, (-1, 2))
        logits = self.network.by_tokens(tokens, at, (drawn >= share) / (1 - share), kept)
        return logits.flatten(1, 2)

    @torch.no_grad()
    def _score(self) -> None:
        exact = self.right(count_strings(self.held_out)).float().mean(1)
        loss, self._losses = torch.stack(self._losses).mean(0), []
        better = exact > self.best
        self.best = torch.where(better, exact, self.best)
        for kept, now in zip(self.kept, self.network.weights.values(), strict=True):
            kept[better] = now[better]
        rate = rate_at(self.step - 1, self.run.training)
        for index, seed in enumerate(self.seeds):
            heads = int(self.network.heads[index].sum())
            news = {"loss": float(loss[index]), "exact": float(exact[index]), "heads": heads}
            self.curve.append({"seed": seed, "step": self.step, **news, "rate": rate})
            if self._halves and heads > 1 and exact[index] >= self.run.training.halving_accuracy:
                self._halve(index)

    @property
    def _halves(self) -> bool:
        return self.run.training.halving not in (None, "masked")

    def right(self, strings: StringCounts) -> Bool[Tensor, "M S"]:
        """Return whether each model says what the majority is."""
        logits = self.network.by_products(strings.spread())
        if not logits.isfinite().all():
            logits = self.network.by_counts(strings)
        return logits.argmax(-1) == strings.due

    def _halve(self, index: int) -> None:
        """Drop half of a model's heads; models with more heads do not count from here on."""
        found = [head_outputs(self.network, index, of) for of in (self.learned, self.held_out)]
        active = self.network.heads[index].nonzero()[:, 0].tolist()
        strategy = self.run.training.halving
        self._keep(index, select_heads(strategy, active, *found, self.choices[index]))

    def _keep(self, index: int, heads: Sequence[int]) -> None:
        self.network.heads[index] = 0.0
        self.network.heads[index, list(heads)] = 1.0
        self.best[index] = -1.0

    def _save(self) -> None:
        if self.path is None:
            return
        names = list(self.network.weights)
        tensors = {f"model.{name}": of for name, of in self.network.weights.items()}
        tensors |= {f"kept.{name}": of for name, of in zip(names, self.kept, strict=True)}
        tensors |= checkpoint.flatten(self.optimizer, "optimizer")
        tensors |= {"heads": self.network.heads, "best": self.best}
        for name, streams in self._streams().items():
            tensors |= {f"begun.{name}": self._begun[name], f"now.{name}": _states(streams)}
        if self._losses:
            tensors["losses"] = torch.stack(self._losses)
        checkpoint.save_tensors(self.path, tensors, {"step": self.step, "curve": self.curve})

    def _resume(self) -> None:
        tensors, note = checkpoint.load_tensors(self.path)
        names = list(self.network.weights)
        self._put([tensors[f"model.{name}"] for name in names])
        self.kept = [tensors[f"kept.{name}"] for name in names]
        checkpoint.unflatten(self.optimizer, "optimizer", tensors)
        self.network.heads.copy_(tensors["heads"])
        self.best = tensors["best"]
        self._losses = list(tensors["losses"]) if "losses" in tensors else []
        self.step, self.curve = note["step"], note["curve"]
        for when in ("begun", "now"):
            for name, streams in self._streams().items():
                for of, state in zip(streams, tensors[f"{when}.{name}"], strict=True):
                    of.set_state(state.clone())  # a generator takes no view
            if when == "begun":  # what was drawn then is drawn again
                self._begin_epoch()

    def _streams(self) -> dict[str, list[torch.Generator]]:
        return {"draws": self.draws, "drops": self.drops, "choices": self.choices}


def _picked(of: Tensor, rows: Integer[Tensor, "M b"]) -> Tensor:
    return of.index_select(0, rows.flatten()).unflatten(0, rows.shape)


def _states(streams: Sequence[torch.Generator]) -> Tensor:
    return torch.stack([of.get_state() for of in streams])


@torch.no_grad()
def head_outputs(
    network: BatchedNetwork, index: int, counts: Integer[Tensor, "S 3"]
) -> HeadOutputs:
    """Return what one model's heads find behind `=` in some strings, and what the majority is."""
    strings = count_strings(counts)
    return HeadOutputs(network.head_outputs(strings)[index], strings.ones[0])
