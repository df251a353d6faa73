"""The training of one seed, from its first step or from where it was killed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from carry.config.run_settings import Run
from carry.config.settings import SettingsError
from carry.data.batch import Batch
from carry.data.training_batches import TrainingBatches, draw_held_out
from carry.models.system import System
from carry.models.teacher_forcing import teacher_forced_pass
from carry.randomness import stream
from carry.training import checkpoint, precision
from carry.training.schedule import batch_at, rate_at

# Called with (steps done, loss, held-out exact match) as training goes on.
Report = Callable[[int, float, float], None]


class TrainingDiverged(RuntimeError):
    """The loss was not a number; the text names step and last good checkpoint."""


def device_of(run: Run) -> torch.device:
    """Return the device that the run asks for, or the best there is.

    Raises:
        SettingsError: if CUDA is asked for and there is none.
    """
    wanted = run.training.device
    if wanted == "cuda" and not torch.cuda.is_available():
        raise SettingsError(
            f"runs.{run.name}.training.device: 'cuda' does not fit, torch sees no GPU here; "
            "expected 'auto' or 'cpu'"
        )
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(wanted)


class Trainer:
    """One seed of one run: everything that a checkpoint has to bring back.

    >>> from carry.config.run_settings import make_run
    >>> run = make_run({"task": {"name": "addition"}, "training": {"steps": 2, "batch": 4}})
    >>> trainer = Trainer(run, seed=0, checkpoint_path=None)
    >>> trainer.train().step
    2
    """

    def __init__(self, run: Run, seed: int, checkpoint_path: Path | None) -> None:
        self.run, self.seed, self.path = run, seed, checkpoint_path
        self.device = device_of(run)
        self.system = System(run, seed, self.device)
        self.precision = precision.choose(run.training.precision, self.device)
        self.optimizers = make_optimizers(self.system.network, run)
        self.batches = TrainingBatches(self.system, stream(seed, "problems", device=self.device))
        self.draws = stream(seed, "ids", device=self.device)
        self.depths = stream(seed, "recurrences")
        self.held_out = self.system.format.write(draw_held_out(self.system)).to(self.device)
        self.step, self.curve, self.in_a_row = 0, [], 0
        self.snapshots: dict[int, dict[str, Tensor]] = {}  # weights, by step
        self._losses: list[Tensor] = []
        if self.path is not None and self.path.exists():
            self._resume()

    def train(self, report: Report = lambda step, loss, exact: None) -> Trainer:
        """Train until the last step, or until the held-out score asks to stop."""
        training, network = self.run.training, self.system.network
        network.train()
        while self.step < training.steps and not self._satisfied():
            with precision.training_in(self.precision, self.device):
                batch = self.batches.next(batch_at(self.step, training))
                loss = self._loss(batch)
                for optimizer in self.optimizers:
                    optimizer.zero_grad(set_to_none=True)
                loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), training.clip)
            for optimizer in self.optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = rate_at(self.step, training)
                optimizer.step()
            self._losses.append(loss.detach())
            self.step += 1
            ends = self.step == training.steps
            if ends or self.step % training.score_every == 0:
                self._score()
            if ends or self.step % training.checkpoint_every == 0:
                self._save()
            if training.snapshot_every and (ends or self.step % training.snapshot_every == 0):
                self._keep()
            if self.curve and (ends or self.step % 10 == 0):
                report(self.step, self.curve[-1]["loss"], self.curve[-1]["exact"])
        self._check_losses()
        return self

    def write(self, path: Path) -> None:
        """Write the weights of now."""
        weights = self.system.network.state_dict()
        save_weights(path, weights, self.run, self.seed, self.step, self.precision)

    def _loss(self, batch: Batch) -> Tensor:
        training, network = self.run.training, self.system.network
        ids = self.system.train_ids(batch, self.draws)
        if training.loss == "answer":
            at, target, real = batch.response()
        else:  # every token after the first, the question's too
            at, target = None, batch.tokens[:, 1:].long()
            steps = torch.arange(1, batch.tokens.shape[1], device=batch.length.device)
            real = steps < batch.length[:, None]

        def loss_at(recurrences: int | None) -> Tensor:
            loss, more = fit_at(recurrences), network.penalty(real)
            return loss if more is None else loss + more

        def fit_at(recurrences: int | None) -> Tensor:
            logits = network(batch.tokens, ids, at, recurrences)[:, : target.shape[1]]
            if training.loss_average == "token":
                return F.cross_entropy(logits[real].float(), target[real])
            losses = F.cross_entropy(logits[real].float(), target[real], reduction="none")
            share = real / real.sum(1, keepdim=True)  # a sample's mean first (mcleish2024, A.7)
            return (losses * share[real]).sum() / len(real)

        most = getattr(network.given, "recurrences", 1)
        if training.progressive == 0 or most == 1:
            return loss_at(None)
        # A convex combination with the loss at a smaller random depth (mcleish2024, A.4.1).
        fewer = int(torch.randint(1, most, (), generator=self.depths))
        return (1 - training.progressive) * loss_at(None) + training.progressive * loss_at(fewer)

    def _score(self) -> None:
        self._check_losses()
        network = self.system.network.eval()
        # Ids as training draws them: a score of what was trained, never of other ids or lengths.
        # In parts, since some schemes draw one offset for a batch, and one offset tells little.
        draws, right = stream(0, "held out", device=self.device), 0
        for rows in torch.arange(len(self.held_out)).chunk(16):
            some = self.held_out[rows.to(self.device)]
            ids = self.system.train_ids(some, draws)
            right += int(teacher_forced_pass(self.system, some, ids=ids).exact.sum())
        exact = right / len(self.held_out)
        network.train()
        loss = float(torch.stack(self._losses).mean())
        self._losses = []
        self.curve.append({"step": self.step, "loss": loss, "exact": exact,
                           "rate": rate_at(self.step - 1, self.run.training)})  # fmt: skip
        wanted = self.run.training.stop_at
        self.in_a_row = self.in_a_row + 1 if wanted is not None and exact >= wanted else 0

    def _satisfied(self) -> bool:
        training = self.run.training
        return training.stop_at is not None and self.in_a_row >= training.patience

    def _check_losses(self) -> None:
        if self._losses and not torch.stack(self._losses).isfinite().all():
            good = f"step {_step_of(self.path)}" if self.path and self.path.exists() else "none"
            raise TrainingDiverged(
                f"runs.{self.run.name}: the loss of seed {self.seed} is not a number within the "
                f"steps up to {self.step}; last good checkpoint: {good}; expected finite losses, "
                f"try a training.learning_rate below {self.run.training.learning_rate}"
            )

    def _save(self) -> None:
        self._check_losses()
        if self.path is None:
            return
        tensors = {f"model.{k}": v for k, v in self.system.network.state_dict().items()}
        for index, optimizer in enumerate(self.optimizers):
            tensors |= checkpoint.flatten(optimizer, f"optimizer{index}")
        tensors |= self.batches.state()
        tensors |= {"draws": self.draws.get_state(), "depths": self.depths.get_state()}
        if self._losses:
            tensors["losses"] = torch.stack(self._losses)
        note = {"step": self.step, "curve": self.curve, "in_a_row": self.in_a_row}
        checkpoint.save_tensors(self.path, tensors, note)

    def _keep(self) -> None:
        """Keep the weights of now, apart from the checkpoint, which is written often."""
        state = self.system.network.state_dict()
        self.snapshots[self.step] = {name: of.cpu().clone() for name, of in state.items()}
        if self.path is not None:
            checkpoint.save_tensors(self._kept(self.step), self.snapshots[self.step], {})

    def _kept(self, step: int) -> Path:
        return self.path.with_name(f"{self.path.stem}-{step}.safetensors")

    def _resume(self) -> None:
        tensors, note = checkpoint.load_tensors(self.path)
        model = {k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")}
        self.system.network.load_state_dict(model)
        for index, optimizer in enumerate(self.optimizers):
            checkpoint.unflatten(optimizer, f"optimizer{index}", tensors)
        self.batches.resume(tensors)
        self.draws.set_state(tensors["draws"])
        self.depths.set_state(tensors["depths"])
        losses = tensors.get("losses")
        self._losses = [] if losses is None else list(losses.to(self.device))
        self.step, self.curve = note["step"], note["curve"]
        self.in_a_row = note["in_a_row"]
        every, last = self.run.training.snapshot_every, self.run.training.steps
        for step in range(1, self.step + 1) if every else ():
            if step % every == 0 or step == last:
                self.snapshots[step] = checkpoint.load_tensors(self._kept(step))[0]


def make_optimizers(network: torch.nn.Module, run: Run) -> list[torch.optim.Optimizer]:
    """Return AdamW, or Muon for the matrices inside the layers with AdamW for the rest."""
    training = run.training
    inner = {id(p) for p in network.blocks.parameters() if p.ndim == 2}
    muon = training.optimizer == "muon"
    matrices = [p for p in network.parameters() if p.ndim >= 2 and not (muon and id(p) in inner)]
    vectors = [p for p in network.parameters() if p.ndim < 2]
    groups = [
        {"params": matrices, "weight_decay": training.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    adamw = torch.optim.AdamW(
        groups, lr=training.learning_rate, betas=tuple(training.betas), eps=1e-8, fused=True
    )
    if not muon:
        return [adamw]
    rest = [p for p in network.parameters() if id(p) in inner]
    return [
        torch.optim.Muon(
            rest,
            lr=training.learning_rate,
            weight_decay=training.weight_decay,
            adjust_lr_fn="match_rms_adamw",
        ),
        adamw,
    ]


def _step_of(path: Path) -> int:
    return checkpoint.load_tensors(path)[1]["step"]


def save_weights(
    path: Path, weights: dict[str, Tensor], run: Run, seed: int, steps: int, precision: str
) -> None:
    """Write trained weights, and where they come from, as safetensors."""
    note = {
        "row": run.name,
        "profile": run.profile,
        "seed": seed,
        "steps": steps,
        "precision": precision,
        "torch": torch.__version__.split("+")[0],
        "run": json.loads(run.model_dump_json(exclude={"evaluation"})),
    }
    checkpoint.save_tensors(path, weights, note)


def save_snapshots(path: Path, snapshots: dict[int, dict[str, Tensor]]) -> None:
    """Write the weights of several steps as safetensors, the first steps first."""
    steps = sorted(snapshots)
    names = snapshots[steps[0]]
    stacked = {name: torch.stack([snapshots[step][name] for step in steps]) for name in names}
    checkpoint.save_tensors(path, stacked, {"steps": steps})
