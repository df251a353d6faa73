"""Several seeds as one computation: models so small that one of them cannot use a core.

Each seed has its own weights, order of problems and dropout, and ends as it would alone, up to
rounding. A step is one batch for each model. An epoch is all problems once, in a random order. A
model that reaches `halving_accuracy` on held-out problems may lose half of its heads (fraknoi2024,
5.5).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float, Integer
from torch import Tensor

from carry.data.problems import Problems
from carry.data.training_batches import draw_training_set
from carry.experiments.run import Run
from carry.formats import EOS
from carry.models.identity import identify
from carry.models.system import System
from carry.processes import one_thread
from carry.randomness import stream
from carry.training import checkpoint
from carry.training.batched.head_halving import HeadOutputs, select_heads
from carry.training.batched.network import (
    BatchedNetwork,
    SectionedCounts,
    StringCounts,
    check_system,
    count_prefixes,
    make_string_counts,
    measure_learned_accuracy,
    split_by_section,
)
from carry.training.optimizers import make_adamw
from carry.training.schedule import compute_learning_rate

# Matrix products of another number of models round differently, so the groups depend on the number
# of seeds only, never on the number of cores.
GROUPS = 2
NO_TARGET = -100

# Called during training with the seed, the steps done, the loss and the held-out accuracy.
Report = Callable[[int, int, float, float], None]


def list_groups(run: Run) -> list[range]:
    """Return the seeds of each group of a run; refuse one that cannot be trained this way."""
    check_system(System(run))
    groups = [range(run.seeds)[start::GROUPS] for start in range(GROUPS)]
    return [seeds for seeds in groups if seeds]


def train_group(report: Callable[..., None], folder: Path, run: Run, seeds: range) -> None:
    """Train some seeds as one computation, and write their files; see `train_seed`.

    The learning curves of all seeds are one table.
    """
    steps = run.training.steps
    file = folder / "checkpoints" / f"group_{seeds[0]}.safetensors"
    trainer = BatchedTrainer(run, seeds, file)
    report(trainer.step / steps)
    trainer.train(
        lambda seed, step, *scores: report(step / steps, checkpoint.describe_scores(*scores))
    )
    for seed, weights in zip(seeds, trainer.weights(), strict=True):
        path = folder / f"seed_{seed}.safetensors"
        checkpoint.save_weights(path, weights, run, seed, trainer.step, "fp32")
    checkpoint.write_curve(folder, trainer.curve)


class BatchedTrainer:
    """The training of several seeds as one computation.

    It continues from the file `checkpoint_path` if that is a checkpoint of these seeds and these
    settings, which it writes at the ends of epochs. A damaged checkpoint is reported with one line,
    and training starts from step 0.

    Shapes: M models of width D, batches of b problems, S strings.

    >>> from carry.experiments.resolve import make_run
    >>> model = {"width": 4, "heads": 2, "feed_forward": False, "output": False}
    >>> training = {"batched_seeds": True, "steps": 4, "batch": 8, "examples": 16, "score_every": 2}
    >>> run = make_run({"task": {"name": "noisy_majority"}, "model": model, "training": training})
    >>> trainer = BatchedTrainer(run, [0, 1], None).train()
    >>> [(row["seed"], row["step"]) for row in trainer.curve]
    [(0, 2), (1, 2), (0, 4), (1, 4)]
    """

    def __init__(self, run: Run, seeds: Sequence[int], checkpoint_path: Path | None) -> None:
        self.run, self.seeds, self.checkpoint_path = run, list(seeds), checkpoint_path
        self._start()
        checkpoint.resume(checkpoint_path, self._restore, self._start)

    def train(self, report: Report = lambda seed, step, loss, exact: None) -> BatchedTrainer:
        """Train all models with one thread until the last step."""
        training, saved = self.run.training, self.step
        with one_thread():
            while self.step < training.steps:
                self._update()
                last = self.step == training.steps
                if last or self.step % training.score_every == 0:
                    self._score()
                    for row in self.curve[-len(self.seeds) :]:
                        report(row["seed"], row["step"], row["loss"], row["exact"])
                ends_epoch = self.step % self.epoch_steps == 0
                if last or (ends_epoch and self.step - saved >= (training.checkpoint_every or 0)):
                    self._save_checkpoint()
                    saved = self.step
        return self

    def weights(self) -> list[dict[str, Tensor]]:
        """Return the weights of each seed that `keep_weights` chooses, named as in its model."""
        is_best = self.run.training.keep_weights == "best"
        weights = self.best_weights if is_best else self.network.weights
        return [self.network.model_state(index, weights) for index in range(len(self.seeds))]

    def _start(self) -> None:
        """Set everything that a checkpoint restores to its value before the first step."""
        run, training = self.run, self.run.training
        self.systems = [System(run, seed) for seed in self.seeds]
        self.network, system = BatchedNetwork(self.systems), self.systems[0]
        self.optimizer = make_adamw([*self.network.weights.values()], training)
        self._make_data(draw_training_set(run, system.task)[0])
        held_out = self._draw_held_out()
        self.held_out_counts = system.task.count_symbols(held_out.operands, held_out.lengths)
        self.draws = {
            purpose: [stream(seed, purpose) for seed in self.seeds]
            for purpose in ("problems", "dropout", "heads")
        }
        self.step = 0
        self.curve: list[dict[str, float]] = []
        self.best_scores = torch.full((len(self.seeds),), -1.0)
        self.best_weights = {
            n: weight.detach().clone() for n, weight in self.network.weights.items()
        }
        self._losses: list[Tensor] = []  # since the last score
        if training.halving == "masked":
            for index in range(len(self.seeds)):
                self._keep_heads(index, [0])

    def _make_data(self, problems: Problems) -> None:
        """Prepare the training problems: both queries of each, `=` and the answer, as two rows."""
        system = self.systems[0]
        self.training_counts = system.task.count_symbols(problems.operands, problems.lengths)
        self.training_batch = system.format.write(problems)
        self.epoch_steps = -(-len(problems) // self.run.training.batch)
        both = zip(
            make_string_counts(self.training_counts),
            make_string_counts(self.training_counts, after_answer=True),
            strict=True,
        )
        strings = StringCounts(*(torch.stack(pair, dim=2).flatten(1, 2) for pair in both))
        self.strings = strings.by_section()
        answers = make_string_counts(self.training_counts).target[0]
        self.targets = torch.stack([answers, torch.full_like(answers, EOS)], dim=1)
        if self.run.training.loss == "everything":
            counts, last, follows, numbers = count_prefixes(self.training_batch.tokens)
            # The last row is for padding: it is that of a `^`, and has no target.
            self.prefix_strings = split_by_section(
                torch.cat([counts, counts[:1]]), F.pad(last, (0, 1))
            )
            self.prefix_targets = F.pad(follows, (0, 1), value=NO_TARGET)
            self.prefixes = [*torch.arange(len(follows)).split(numbers.tolist())]

    def _draw_held_out(self) -> Problems:
        """Draw the problems that choose the best weights, the same for all seeds."""
        training, task = self.run.training, self.systems[0].task
        low, high = training.held_out or (min(task.smallest_cell), training.digits)
        generator = stream(0, "held out")
        lengths = torch.randint(low, high + 1, (training.score_problems,), generator=generator)
        return task.draw_for_cells(lengths[:, None].expand(-1, 2), generator)

    def _update(self) -> None:
        """Do one step of the optimizer."""
        losses = self._compute_losses(*self._next_batch())
        self.optimizer.zero_grad(set_to_none=True)
        losses.sum().backward()
        for group in self.optimizer.param_groups:
            group["lr"] = compute_learning_rate(self.step, self.run.training)
        self.optimizer.step()
        self._losses.append(losses.detach())
        self.step += 1

    def _start_epoch(self) -> None:
        """Draw for each model an order of all problems and the dropout of the epoch."""
        count, share = len(self.training_counts), self.run.training.dropout
        orders = [torch.randperm(count, generator=draw) for draw in self.draws["problems"]]
        self._order, self._kept = torch.stack(orders), None
        if share and self.run.training.loss == "answer":
            size = (count, 2, self.network.settings.width)  # after `=`, and after the answer
            kept = [torch.rand(size, generator=draw) >= share for draw in self.draws["dropout"]]
            self._kept = torch.stack(kept)

    def _next_batch(self) -> tuple[Integer[Tensor, "M b"], Float[Tensor, "M _ D"] | None]:
        """Return the next problems of each model, and the dropout factors of attention outputs."""
        size = self.run.training.batch
        at = self.step % self.epoch_steps
        if at == 0:
            self._start_epoch()
        batch = slice(at * size, (at + 1) * size)
        if self._kept is None:
            return self._order[:, batch], None
        kept = self._kept[:, batch].flatten(1, 2) / (1 - self.run.training.dropout)
        return self._order[:, batch], kept

    def _compute_losses(
        self, rows: Integer[Tensor, "M b"], kept: Float[Tensor, "M _ D"] | None
    ) -> Float[Tensor, " M"]:
        """Return for each model the mean loss of the response tokens: the answer and the end."""
        if self.run.training.loss == "everything":
            return self._compute_losses_of_prefixes(rows)
        if self.run.training.dropout_embeddings:
            logits = self._logits_from_tokens(rows, kept)
        else:
            both = torch.stack([2 * rows, 2 * rows + 1], dim=2).flatten(1)
            logits = self.network.logits_from_products(_select_strings(self.strings, both), kept)
        # Symbols first: softmax over a short last dimension is several times slower.
        logits, targets = logits.transpose(1, 2).contiguous(), _select_rows(self.targets, rows)
        return F.cross_entropy(logits, targets.flatten(1), reduction="none").mean(1)

    def _compute_losses_of_prefixes(self, rows: Integer[Tensor, "M b"]) -> Float[Tensor, " M"]:
        """Return for each model the mean loss of all tokens but the first, as from 2.6."""
        share, width = self.run.training.dropout, self.network.settings.width
        own = [torch.cat([self.prefixes[row] for row in of]) for of in rows.tolist()]
        numbers = torch.tensor([len(of) for of in own])
        room = [int(numbers.max() - number) for number in numbers]
        last, kept = len(self.prefix_targets) - 1, None
        at = torch.stack([F.pad(x, (0, pad), value=last) for x, pad in zip(own, room, strict=True)])
        if share:
            drawn = [
                F.pad(torch.rand(len(of), width, generator=draw), (0, 0, 0, pad))
                for of, pad, draw in zip(own, room, self.draws["dropout"], strict=True)
            ]
            kept = (torch.stack(drawn) >= share) / (1 - share)
        logits = self.network.logits_from_products(_select_strings(self.prefix_strings, at), kept)
        targets = _select_rows(self.prefix_targets, at)
        losses = F.cross_entropy(
            logits.transpose(1, 2).contiguous(), targets, ignore_index=NO_TARGET, reduction="none"
        )
        return losses.sum(1) / numbers

    def _logits_from_tokens(self, rows: Tensor, kept: Tensor | None) -> Float[Tensor, "M _ V"]:
        """Return the logits with dropout of the embedding of each token too."""
        batch = self.training_batch[rows.flatten()].trim()
        tokens = batch.tokens.unflatten(0, rows.shape)
        at = (batch.start[:, None] + torch.tensor([-1, 0])).unflatten(0, rows.shape)
        share = self.run.training.dropout_embeddings
        size = (*tokens.shape[1:], self.network.settings.width)
        drawn = torch.stack([torch.rand(size, generator=draw) for draw in self.draws["dropout"]])
        kept = None if kept is None else kept.unflatten(1, (-1, 2))
        kept_embeddings = (drawn >= share) / (1 - share)
        return self.network.logits_from_tokens(tokens, at, kept_embeddings, kept).flatten(1, 2)

    @torch.no_grad()
    def _score(self) -> None:
        """Add a point to each learning curve, keep the best weights, and drop heads."""
        training = self.run.training
        strings = make_string_counts(self.held_out_counts)
        logits = self.network.logits_from_products(strings.by_section())
        exact = (logits.argmax(-1) == strings.target).float().mean(1)
        loss, self._losses = torch.stack(self._losses).mean(0), []
        better = exact > self.best_scores
        self.best_scores = torch.where(better, exact, self.best_scores)
        for name, best in self.best_weights.items():
            best[better] = self.network.weights[name][better]
        rate = compute_learning_rate(self.step - 1, training)
        for index, seed in enumerate(self.seeds):
            heads = int(self.network.head_mask[index].sum())
            scores = {"loss": float(loss[index]), "exact": float(exact[index]), "heads": heads}
            self.curve.append({"seed": seed, "step": self.step, **scores, "rate": rate})
            halves = training.halving not in (None, "masked")
            if halves and heads > 1 and exact[index] >= training.halving_accuracy:
                self._halve_heads(index)

    def _halve_heads(self, index: int) -> None:
        """Drop half of a model's heads."""
        outputs = [
            compute_head_outputs(self.network, index, counts)
            for counts in (self.training_counts, self.held_out_counts)
        ]
        heads = self.network.head_mask[index].nonzero()[:, 0].tolist()
        strategy, draws = self.run.training.halving, self.draws["heads"][index]

        def learned(team: tuple[int, ...]) -> float:
            return float(measure_learned_accuracy(self.network, team, self.held_out_counts)[index])

        self._keep_heads(index, select_heads(strategy, heads, *outputs, draws, learned))

    def _keep_heads(self, index: int, heads: Sequence[int]) -> None:
        """Mask all other heads; earlier weights, with more heads, are no longer the best."""
        self.network.head_mask[index] = 0.0
        self.network.head_mask[index, list(heads)] = 1.0
        self.best_scores[index] = -1.0

    def _save_checkpoint(self) -> None:
        if self.checkpoint_path is None:
            return
        tensors = checkpoint.flatten_optimizer(self.optimizer, "optimizer")
        tensors |= {f"model.{name}": weight for name, weight in self.network.weights.items()}
        tensors |= {f"best.{name}": weight for name, weight in self.best_weights.items()}
        tensors |= {"head_mask": self.network.head_mask, "best_scores": self.best_scores}
        for name, draws in self.draws.items():
            tensors[f"draws.{name}"] = torch.stack([draw.get_state() for draw in draws])
        if self._losses:
            tensors["losses"] = torch.stack(self._losses)
        note = {"run": identify(self.run), "seeds": self.seeds}
        note |= {"step": self.step, "curve": self.curve}
        checkpoint.save_tensors(self.checkpoint_path, tensors, note)

    def _restore(self) -> None:
        tensors, note = checkpoint.load_tensors(self.checkpoint_path)
        with checkpoint.report_damage(self.checkpoint_path):
            if (note["run"], note["seeds"]) != (identify(self.run), self.seeds):
                raise ValueError("it is of other seeds or other settings")
            for name, weight in self.network.weights.items():
                weight.data.copy_(tensors[f"model.{name}"])
                self.best_weights[name].copy_(tensors[f"best.{name}"])
            checkpoint.restore_optimizer(self.optimizer, "optimizer", tensors)
            self.network.head_mask.copy_(tensors["head_mask"])
            self.best_scores = tensors["best_scores"]
            self._losses = [*tensors["losses"]] if "losses" in tensors else []
            self.step, self.curve = note["step"], note["curve"]
            for name, draws in self.draws.items():
                for draw, state in zip(draws, tensors[f"draws.{name}"], strict=True):
                    draw.set_state(state.clone())  # a generator refuses a view


@torch.no_grad()
def compute_head_outputs(
    network: BatchedNetwork, index: int, counts: Integer[Tensor, "S 3"]
) -> HeadOutputs:
    """Return the outputs of one model's heads after `=` in strings, and the strings' majorities."""
    strings = make_string_counts(counts)
    return HeadOutputs(network.head_outputs(strings)[index], strings.ones_win[0])


def _select_rows(table: Tensor, rows: Integer[Tensor, "M b"]) -> Tensor:
    return table.index_select(0, rows.flatten()).unflatten(0, rows.shape)


def _select_strings(strings: SectionedCounts, rows: Integer[Tensor, "M b"]) -> SectionedCounts:
    return strings._replace(counts=_select_rows(strings.counts[0], rows))
