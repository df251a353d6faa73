"""The training of one seed of one run, from its first step or from its last checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Integer
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from carry.config.settings import SettingsError
from carry.data.batch import Batch
from carry.data.training_batches import TrainingBatches, draw_held_out
from carry.experiments.run import Run
from carry.models.hooks import Dropout
from carry.models.identity import identify
from carry.models.system import System
from carry.models.teacher_forcing import teacher_forced_pass
from carry.processes import keep_freed_memory, one_thread
from carry.randomness import stream
from carry.training import checkpoint
from carry.training.inputs import StepInputs, make_inputs
from carry.training.optimizers import make_optimizers
from carry.training.precision import choose_precision, use_precision
from carry.training.schedule import compute_batch_size, compute_learning_rate

# Called during training with the steps done, the loss, and the exact match on held-out problems;
# the last two are None before the first score.
Report = Callable[[int, float | None, float | None], None]

CHECKPOINT_SECONDS = 60.0  # between checkpoints, if `checkpoint_every` is None


class TrainingDiverged(RuntimeError):
    """The loss is not finite. The text names the step and the last good checkpoint."""


class OutOfTime(SettingsError):
    """The time of a training has ended before its last step. Its checkpoint is written."""


def choose_device() -> torch.device:
    """Return the device of trainings and of trained models: CUDA if the machine has it."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Trainer:
    """The training of one seed.

    It continues from the file `checkpoint_path` if that is a checkpoint of this seed and these
    settings. A damaged checkpoint is reported with one line, and training starts from step 0.

    >>> from carry.experiments.resolve import make_run
    >>> run = make_run({"task": {"name": "addition"}, "training": {"steps": 2, "batch": 4}})
    >>> trainer = Trainer(run, seed=0, checkpoint_path=None)
    >>> trainer.train().step
    2
    """

    def __init__(self, run: Run, seed: int, checkpoint_path: Path | None) -> None:
        self.run, self.seed, self.checkpoint_path = run, seed, checkpoint_path
        self.device = choose_device()
        self._start()
        width = self.system.network.settings.width
        self.precision = choose_precision(run.training.precision, self.device, width)
        self.micro_batch: int | None = None  # sequences computed at once; None: all of a batch
        checkpoint.resume(checkpoint_path, self._restore, self._start)

    @property
    def finished(self) -> bool:
        """Whether all steps are done."""
        return self.step >= self.run.training.steps

    def train(
        self, report: Report = lambda step, loss, exact: None, deadline: float | None = None
    ) -> Trainer:
        """Train with one thread until the last step.

        Args:
            deadline: the time (`time.time()`) at which a training that is not finished ends, with
                a checkpoint.

        Raises:
            TrainingDiverged: for a loss that is not finite.
            OutOfTime: at the deadline.
        """
        self.system.network.train()
        keep_freed_memory()
        self._saved = time.monotonic()
        with one_thread():
            while not self.finished:
                if deadline is not None and time.time() >= deadline:
                    self._save_checkpoint()
                    raise OutOfTime(
                        f"runs.{self.run.name}: the time of seed {self.seed} ended at step "
                        f"{self.step} of {self.run.training.steps}; expected another call, which "
                        "goes on from there"
                    )
                self._update()
                self._record(report)
        self._check_losses()
        return self

    def save_weights(self, path: Path) -> None:
        """Write the present weights; at the last step they are the means of `average_weights`."""
        weights = self.system.network.state_dict()
        checkpoint.save_weights(path, weights, self.run, self.seed, self.step, self.precision)

    def _start(self) -> None:
        """Set everything that a checkpoint restores to its value before the first step."""
        run, seed = self.run, self.seed
        self.system = system = System(run, seed, self.device)
        self.optimizers = make_optimizers(system.network, run.training)
        # The mean of the weights of the last steps, the tail average of Polyak and Ruppert.
        self.averaged = round(run.training.average_weights * run.training.steps)
        self.average = AveragedModel(system.network, avg_fn=_move_mean) if self.averaged else None
        # Problems and ids are drawn on the CPU (see `carry.training.inputs`).
        self.batches = TrainingBatches(run, system.task, system.format, stream(seed, "problems"))
        self.id_draws = stream(seed, "ids")
        self.recurrence_draws = stream(seed, "recurrences")
        self.held_out = system.format.write(draw_held_out(run, system.task))
        self.step = 0
        self.curve: list[dict[str, float]] = []
        self.snapshots: dict[int, dict[str, Tensor]] = {}  # weights by step
        self._losses: list[Tensor] = []  # since the last score

    def _update(self) -> None:
        """Do one step of the optimizers."""
        training = self.run.training
        inputs = self._draw_inputs(self.batches.next(compute_batch_size(self.step, training)))
        fewer = self._draw_fewer_recurrences()
        with use_precision(self.precision, self.device), self._count_as_longer():
            self._losses.append(self._step(inputs, fewer))
        self.step += 1
        if self.average is not None and self.step > training.steps - self.averaged:
            self.average.update_parameters(self.system.network)

    def _count_as_longer(self) -> AbstractContextManager[None]:
        """Let far tokens of a step count several times, with `longer`."""
        training = self.run.training
        if training.longer == 1.0:
            return nullcontext()
        # Log-uniform below a limit that grows: counted as much from the start, the first digit is
        # not found at all. By seed and step alone, so that training can resume.
        share = torch.rand((), generator=stream(self.seed, "longer", self.step))
        times = training.longer ** (float(share) * self.step / training.steps)
        return self.system.count_as_longer(torch.tensor(times))

    def _draw_inputs(self, batch: Batch) -> StepInputs:
        """Return the inputs of a step on a batch, with new ids."""
        if self.run.training.packing and self.step % 2 and len(batch) > 1:
            batch, ids = self.system.pack(batch, self.id_draws)
            unknowable = None
        else:
            ids = self.system.train_ids(batch, self.id_draws)
            unknowable = self.system.unknowable(batch, ids)
        return make_inputs(batch, ids, self.run.training.loss, unknowable).to(self.device)

    def _step(self, inputs: StepInputs, fewer: int | None) -> Tensor:
        """Change the weights by one step, and return the loss."""
        training = self.run.training
        losses = self._losses_of_parts(inputs, fewer)
        while losses is None:  # not where the error is caught, which would keep its tensors
            self._halve_parts(len(inputs.tokens))
            losses = self._losses_of_parts(inputs, fewer)
        torch.nn.utils.clip_grad_norm_(self.system.network.parameters(), training.clip)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = compute_learning_rate(self.step, training)
            optimizer.step()
        return losses[0] if len(losses) == 1 else torch.stack(losses).sum()

    def _losses_of_parts(self, inputs: StepInputs, fewer: int | None) -> list[Tensor] | None:
        """Return the losses of parts of `micro_batch` sequences, and add up their gradients.

        It is None if the memory of a GPU is too small for such parts.
        """
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        training, losses = self.run.training, []
        self.system.network.dropout = Dropout(
            training.dropout,
            training.dropout_inside,
            training.dropout_embeddings,
            stream(self.seed, "dropout", self.step, device=self.device),
        )
        try:
            for part in inputs.split(self.micro_batch):
                loss = self._loss(part, inputs.real, fewer)
                loss.backward()
                losses.append(loss.detach())
        except torch.OutOfMemoryError:
            return None
        return losses

    def _halve_parts(self, size: int) -> None:
        """Compute half as many sequences at once as before, or half of a batch of this size."""
        size = min(size, self.micro_batch or size)
        if size == 1:
            raise SettingsError(
                f"runs.{self.run.name}: one problem at a time does not fit the memory of the GPU; "
                "expected a larger GPU, fewer processes on it, or a smaller model"
            )
        self.micro_batch = -(-size // 2)
        torch.cuda.empty_cache()

    def _record(self, report: Report) -> None:
        """Score, take a snapshot, write a checkpoint and report, each if this step needs it."""
        training = self.run.training
        if self.finished and self.average is not None:  # before the last score and checkpoint
            self.system.network.load_state_dict(self.average.module.state_dict())
        if self.finished or self.step % training.score_every == 0:
            self._score()
        every = training.snapshot_every
        if every and (self.finished or self.step % every == 0):
            self._take_snapshot()  # before the checkpoint, which lists the snapshots
        every = training.checkpoint_every
        since = time.monotonic() - self._saved
        due = since >= CHECKPOINT_SECONDS if every is None else self.step % every == 0
        if self.finished or due:
            self._save_checkpoint()
        if self.finished or self.step % 10 == 0:
            scores = self.curve[-1] if self.curve else {}
            report(self.step, scores.get("loss"), scores.get("exact"))

    def _loss(
        self, inputs: StepInputs, real: Bool[Tensor, "B A"], fewer: int | None
    ) -> Float[Tensor, ""]:
        """Return the loss of a part of a batch, of which `real` are the tokens of the whole."""
        training, network = self.run.training, self.system.network

        def loss_at(recurrences: int | None) -> Tensor:
            logits = network(inputs.tokens, inputs.ids, inputs.at, recurrences)
            average = training.loss_average
            loss = average_loss(logits, inputs.target, inputs.real, average, real)
            penalty = network.penalty(inputs.real)
            if penalty is None:
                return loss
            return loss + penalty * (inputs.real.sum() / real.sum())

        if fewer is None:
            return loss_at(None)
        # A convex combination with the loss at a smaller random depth (mcleish2024, A.4.1).
        return (1 - training.progressive) * loss_at(None) + training.progressive * loss_at(fewer)

    def _draw_fewer_recurrences(self) -> int | None:
        """Return the smaller depth of a progressive loss, if there is one."""
        most = self.system.network.recurrences
        if self.run.training.progressive == 0 or most == 1:
            return None
        return int(torch.randint(1, most, (), generator=self.recurrence_draws))

    def _score(self) -> None:
        """Add a point to the learning curve: mean loss, and exact match on held-out problems."""
        self._check_losses()
        network = self.system.network.eval()
        # Ids are drawn as in training, so the score is about trained ids and lengths only. Small
        # batches, because some schemes draw one offset for a batch, and one offset is no average.
        draws, correct = stream(0, "held out"), 0
        for rows in torch.arange(len(self.held_out)).chunk(16):
            batch = self.held_out[rows]
            ids = self.system.train_ids(batch, draws)
            unknowable = self.system.unknowable(batch, ids)
            result = teacher_forced_pass(self.system, batch, ids_by_start=[ids], ignored=unknowable)
            correct += int(result.exact.sum())
        exact = correct / len(self.held_out)
        network.train()
        loss = float(torch.stack(self._losses).mean())
        self._losses = []
        rate = compute_learning_rate(self.step - 1, self.run.training)
        self.curve.append({"step": self.step, "loss": loss, "exact": exact, "rate": rate})

    def _check_losses(self) -> None:
        if not self._losses or torch.stack(self._losses).isfinite().all():
            return
        saved = self.checkpoint_path is not None and self.checkpoint_path.exists()
        note = checkpoint.load_tensors(self.checkpoint_path)[1] if saved else {}
        last = f"step {note['step']}" if saved else "none"
        raise TrainingDiverged(
            f"runs.{self.run.name}: the loss of seed {self.seed} is not a number within the "
            f"steps up to {self.step}; last good checkpoint: {last}; expected finite losses, "
            f"try a training.learning_rate below {self.run.training.learning_rate}"
        )

    def _save_checkpoint(self) -> None:
        self._check_losses()
        if self.checkpoint_path is None:
            return
        network = self.system.network
        tensors = {f"model.{name}": tensor for name, tensor in network.state_dict().items()}
        for index, optimizer in enumerate(self.optimizers):
            tensors |= checkpoint.flatten_optimizer(optimizer, f"optimizer{index}")
        if self.average is not None:
            tensors |= {f"average.{name}": x for name, x in self.average.state_dict().items()}
        tensors |= self.batches.state()
        tensors["id_draws"] = self.id_draws.get_state()
        tensors["recurrence_draws"] = self.recurrence_draws.get_state()
        if self._losses:
            tensors["losses"] = torch.stack(self._losses)
        note = {
            "run": identify(self.run),
            "seed": self.seed,
            "step": self.step,
            "curve": self.curve,
            "snapshots": [*self.snapshots],
        }
        checkpoint.save_tensors(self.checkpoint_path, tensors, note)
        self._saved = time.monotonic()

    def _take_snapshot(self) -> None:
        """Keep the present weights, in a file of their own, which is written once."""
        state = self.system.network.state_dict()
        self.snapshots[self.step] = {name: value.cpu().clone() for name, value in state.items()}
        if self.checkpoint_path is not None:
            checkpoint.save_tensors(self._snapshot_path(self.step), self.snapshots[self.step], {})

    def _snapshot_path(self, step: int) -> Path:
        return self.checkpoint_path.with_name(f"{self.checkpoint_path.stem}-{step}.safetensors")

    def _restore(self) -> None:
        tensors, note = checkpoint.load_tensors(self.checkpoint_path)
        with checkpoint.report_damage(self.checkpoint_path):
            if (note["run"], note["seed"]) != (identify(self.run), self.seed):
                raise ValueError("it is of another seed or other settings")
            network = self.system.network
            weights = checkpoint.select_tensors(tensors, "model.")
            network.load_state_dict(weights)
            for index, optimizer in enumerate(self.optimizers):
                checkpoint.restore_optimizer(optimizer, f"optimizer{index}", tensors)
            if self.average is not None:
                self.average.load_state_dict(checkpoint.select_tensors(tensors, "average."))
            self.batches.resume(tensors)
            self.id_draws.set_state(tensors["id_draws"])
            self.recurrence_draws.set_state(tensors["recurrence_draws"])
            self._losses = [*tensors["losses"].to(self.device)] if "losses" in tensors else []
            self.step, self.curve = note["step"], note["curve"]
            for step in note["snapshots"]:
                path = self._snapshot_path(step)
                if not path.exists():
                    raise ValueError(f"its snapshot of step {step} is missing")
                self.snapshots[step] = checkpoint.load_tensors(path)[0]


def _move_mean(mean: Tensor, weights: Tensor, count: Tensor) -> Tensor:
    """Return the mean of `count` weights and these."""
    return mean.lerp(weights, 1 / (count + 1))


def average_loss(
    logits: Float[Tensor, "B A V"],
    target: Integer[Tensor, "B A"],
    real: Bool[Tensor, "B A"],
    average: str,
    all_real: Bool[Tensor, "C A"],
) -> Float[Tensor, ""]:
    """Return the mean cross-entropy of the real tokens, by `token` or by `sample`.

    `sample` first takes the mean of each sequence (mcleish2024, A.7). Of a part of a batch it is
    the share in the mean of the whole.

    Shapes: B sequences, A tokens, V symbols.

    Args:
        all_real: which tokens of the whole batch are real.

    >>> logits, target = torch.zeros(2, 2, 4), torch.zeros(2, 2, dtype=torch.long)
    >>> real = torch.tensor([[True, True], [True, False]])
    >>> parts = [average_loss(logits[i], target[i], real[i], "sample", real)
    ...          for i in (slice(0, 1), slice(1, 2))]
    >>> round(sum(parts).exp().item(), 3), round(parts[0].exp().item(), 3)
    (4.0, 2.0)
    """
    losses = F.cross_entropy(logits.float().flatten(0, 1), target.flatten(), reduction="none")
    losses = losses.unflatten(0, real.shape)
    if average == "token":
        return (losses * real).sum() / all_real.sum()
    return (losses * (real / real.sum(1, keepdim=True))).sum() / len(all_real)
