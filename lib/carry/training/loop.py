"""The training of one seed of one run, from its first step or from its last checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from carry.config.run_settings import Run
from carry.config.settings import SettingsError
from carry.data.batch import Batch
from carry.data.training_batches import TrainingBatches, draw_held_out
from carry.models.dropout import Dropout
from carry.models.system import System
from carry.models.teacher_forcing import teacher_forced_pass
from carry.processes import one_thread
from carry.progress import print_warning
from carry.randomness import stream
from carry.training import checkpoint
from carry.training.averages import WeightAverage
from carry.training.memory import keep_freed_memory
from carry.training.optimizers import make_optimizers
from carry.training.precision import choose_precision, use_precision
from carry.training.schedule import compute_batch_size, compute_learning_rate

# Called during training with the steps done, the loss, and the exact match on held-out problems;
# the last two are None before the first score.
Report = Callable[[int, float | None, float | None], None]


class TrainingDiverged(RuntimeError):
    """The loss is not finite. The text names the step and the last good checkpoint."""


def choose_device(run: Run) -> torch.device:
    """Return the device that a run names; `auto` is CUDA if the machine has it.

    Raises:
        SettingsError: for CUDA on a machine without it.
    """
    name = run.training.device
    if name == "cuda" and not torch.cuda.is_available():
        raise SettingsError(
            f"runs.{run.name}.training.device: 'cuda' does not fit, torch sees no GPU here; "
            "expected 'auto' or 'cpu'"
        )
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


class Trainer:
    """The training of one seed.

    It continues from the file `checkpoint_path` if that is a checkpoint of this seed and these
    settings. A damaged checkpoint is reported with one line, and training starts from step 0.

    >>> from carry.config.run_settings import make_run
    >>> run = make_run({"task": {"name": "addition"}, "training": {"steps": 2, "batch": 4}})
    >>> trainer = Trainer(run, seed=0, checkpoint_path=None)
    >>> trainer.train().step
    2
    """

    def __init__(self, run: Run, seed: int, checkpoint_path: Path | None) -> None:
        self.run, self.seed, self.checkpoint_path = run, seed, checkpoint_path
        self.device = choose_device(run)
        self._start()
        network = self.system.network
        width = network.shape(network.settings).width
        self.precision = choose_precision(run.training.precision, self.device, width)
        if checkpoint_path is not None and checkpoint_path.exists():
            try:
                self._restore()
            except checkpoint.DamagedFile as error:
                print_warning(f"{error}; training starts again from step 0")
                self._start()

    @property
    def finished(self) -> bool:
        """Whether all steps are done, or the held-out exact match has reached `stop_at`."""
        training = self.run.training
        stopped = training.stop_at is not None and self.good_scores >= training.patience
        return stopped or self.step >= training.steps

    def train(self, report: Report = lambda step, loss, exact: None) -> Trainer:
        """Train with one thread until `finished`.

        Raises:
            TrainingDiverged: for a loss that is not finite.
        """
        self.system.network.train()
        keep_freed_memory()
        with one_thread():
            while not self.finished:
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
        self.average = WeightAverage(system.network, run.training)
        draws = stream(seed, "problems", device=self.device)
        self.batches = TrainingBatches(run, system.task, system.format, draws)
        self.id_draws = stream(seed, "ids", device=self.device)
        self.recurrence_draws = stream(seed, "recurrences")
        self.held_out = system.format.write(draw_held_out(run, system.task)).to(self.device)
        self.step = 0
        self.curve: list[dict[str, float]] = []
        self.good_scores = 0  # the number of last scores in a row that reach `stop_at`
        self.snapshots: dict[int, dict[str, Tensor]] = {}  # weights by step
        self._losses: list[Tensor] = []  # since the last score

    def _update(self) -> None:
        """Do one step of the optimizers."""
        training, network = self.run.training, self.system.network
        with use_precision(self.precision, self.device):
            batch = self.batches.next(compute_batch_size(self.step, training))
            network.dropout = self._make_dropout()
            loss = self._loss(batch)
            network.dropout = None
            for optimizer in self.optimizers:
                optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), training.clip)
            for optimizer in self.optimizers:  # inside, as Muon computes products
                for group in optimizer.param_groups:
                    group["lr"] = compute_learning_rate(self.step, training)
                optimizer.step()
        self._losses.append(loss.detach())
        self.step += 1
        self.average.update(self.step)

    def _record(self, report: Report) -> None:
        """Score, take a snapshot, write a checkpoint and report, each if this step needs it."""
        training = self.run.training
        if self.step == training.steps:
            self.average.copy_to_network()  # before the last score, snapshot and checkpoint
        if self.step == training.steps or self.step % training.score_every == 0:
            self._score()
        every = training.snapshot_every
        if every and (self.finished or self.step % every == 0):
            self._take_snapshot()  # before the checkpoint, which lists the snapshots
        if self.finished or self.step % training.checkpoint_every == 0:
            self._save_checkpoint()
        if self.finished or self.step % 10 == 0:
            scores = self.curve[-1] if self.curve else {}
            report(self.step, scores.get("loss"), scores.get("exact"))

    def _loss(self, batch: Batch) -> Tensor:
        training, network = self.run.training, self.system.network
        ids = self.system.train_ids(batch, self.id_draws)
        tokens = batch.tokens[:, :-1]  # nothing follows the last one
        if training.loss == "answer":
            at, target, real = batch.response()
        else:  # all tokens after the first, those of the question too
            at, target = None, batch.tokens[:, 1:].long()
            index = torch.arange(1, batch.tokens.shape[1], device=batch.length.device)
            real = index < batch.length[:, None]

        def loss_at(recurrences: int | None) -> Tensor:
            logits = network(tokens, ids, at, recurrences)
            loss = average_loss(logits, target, real, training.loss_average)
            penalty = network.penalty(real)
            return loss if penalty is None else loss + penalty

        if training.progressive == 0 or network.recurrences == 1:
            return loss_at(None)
        # A convex combination with the loss at a smaller random depth (mcleish2024, A.4.1).
        fewer = int(torch.randint(1, network.recurrences, (), generator=self.recurrence_draws))
        return (1 - training.progressive) * loss_at(None) + training.progressive * loss_at(fewer)

    def _make_dropout(self) -> Dropout | None:
        """Return the dropout of this step; its draws depend on seed and step alone."""
        shares = self.run.training.dropout_shares().values()
        if not any(shares):
            return None
        return Dropout(*shares, stream(self.seed, "dropout", self.step, device=self.device))

    def _score(self) -> None:
        """Add a point to the learning curve: mean loss, and exact match on held-out problems."""
        self._check_losses()
        network = self.system.network.eval()
        sharpness, network.sharpness = network.sharpness, 1.0  # the curve is one of training
        # Ids are drawn as in training, so the score is about trained ids and lengths only. Small
        # batches, because some schemes draw one offset for a batch, and one offset is no average.
        draws, correct = stream(0, "held out", device=self.device), 0
        for rows in torch.arange(len(self.held_out)).chunk(16):
            batch = self.held_out[rows.to(self.device)]
            ids = self.system.train_ids(batch, draws)
            correct += int(teacher_forced_pass(self.system, batch, ids=ids).exact.sum())
        exact = correct / len(self.held_out)
        network.sharpness = sharpness
        network.train()
        loss = float(torch.stack(self._losses).mean())
        self._losses = []
        training = self.run.training
        rate = compute_learning_rate(self.step - 1, training)
        self.curve.append({"step": self.step, "loss": loss, "exact": exact, "rate": rate})
        good = training.stop_at is not None and exact >= training.stop_at
        self.good_scores = self.good_scores + 1 if good else 0

    def _check_losses(self) -> None:
        if not self._losses or torch.stack(self._losses).isfinite().all():
            return
        saved = self.checkpoint_path is not None and self.checkpoint_path.exists()
        last = f"step {checkpoint.load_note(self.checkpoint_path)['step']}" if saved else "none"
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
        tensors |= {f"average.{name}": mean for name, mean in self.average.means.items()}
        tensors |= self.batches.state()
        tensors["id_draws"] = self.id_draws.get_state()
        tensors["recurrence_draws"] = self.recurrence_draws.get_state()
        if self._losses:
            tensors["losses"] = torch.stack(self._losses)
        note = {
            "run": self.run.key(),
            "seed": self.seed,
            "step": self.step,
            "curve": self.curve,
            "good_scores": self.good_scores,
            "snapshots": [*self.snapshots],
        }
        checkpoint.save_tensors(self.checkpoint_path, tensors, note)

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
            if (note["run"], note["seed"]) != (self.run.key(), self.seed):
                raise ValueError("it is of another seed or other settings")
            network = self.system.network
            weights = checkpoint.select_tensors(tensors, "model.")
            network.load_state_dict(checkpoint.check_tensors(weights, network.state_dict()))
            for index, optimizer in enumerate(self.optimizers):
                checkpoint.restore_optimizer(optimizer, f"optimizer{index}", tensors)
            self.average.restore(checkpoint.select_tensors(tensors, "average."), note["step"])
            self.batches.resume(tensors)
            self.id_draws.set_state(tensors["id_draws"])
            self.recurrence_draws.set_state(tensors["recurrence_draws"])
            self._losses = [*tensors["losses"].to(self.device)] if "losses" in tensors else []
            self.step, self.curve = note["step"], note["curve"]
            self.good_scores = note["good_scores"]
            for step in note["snapshots"]:
                path = self._snapshot_path(step)
                if not path.exists():
                    raise ValueError(f"its snapshot of step {step} is missing")
                self.snapshots[step] = checkpoint.load_tensors(path)[0]


def average_loss(logits: Tensor, target: Tensor, real: Tensor, average: str) -> Tensor:
    """Return the mean cross-entropy of the real tokens, by `token` or by `sample`.

    Shapes: B sequences, A tokens, V symbols; logits [B A V], target and real [B A]. `sample` first
    takes the mean of each sequence (mcleish2024, A.7).
    """
    if average == "token":
        return F.cross_entropy(logits[real].float(), target[real])
    losses = F.cross_entropy(logits[real].float(), target[real], reduction="none")
    share = real / real.sum(1, keepdim=True)
    return (losses * share[real]).sum() / len(real)
