"""Batches in parts, checkpoints by time, and the memory of a step."""

import math
from types import SimpleNamespace

import pytest
import torch

from carry.config.settings import SettingsError
from carry.training import loop
from carry.training.loop import OutOfTime, Trainer
from model_cases import run_of

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture(autouse=True)
def device(request, monkeypatch):
    """Train on a CPU, also where there is a GPU, whose sums are not repeatable."""
    if not request.node.get_closest_marker("skipif"):
        monkeypatch.setattr(loop, "choose_device", lambda: torch.device("cpu"))


def weights(trainer):
    return trainer.system.network.state_dict()


def differ(one, other):
    return max(float((one[name] - other[name]).abs().max()) for name in one)


@pytest.mark.parametrize("size", [1, 5, 16])
@pytest.mark.parametrize("average", ["token", "sample"])
def test_parts_of_a_batch_add_up(size, average):
    more = {"steps": 3, "progressive": 0.5, "loss_average": average, "longer": 8.0}
    whole = Trainer(run_of("abacus", "adaptive", **more), 0, None).train()
    parts = Trainer(run_of("abacus", "adaptive", **more), 0, None)
    parts.micro_batch = size
    parts.train()
    assert differ(weights(whole), weights(parts)) < 1e-4
    assert whole.curve[-1]["loss"] == pytest.approx(parts.curve[-1]["loss"], rel=1e-4)


def test_checkpoints_by_time(tmp_path, monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(loop.time, "monotonic", lambda: clock.now)
    saved = []
    trainer = Trainer(run_of("abacus", steps=9, checkpoint_every=None), 0, tmp_path / "a")
    save = trainer._save_checkpoint
    monkeypatch.setattr(trainer, "_save_checkpoint", lambda: saved.append(trainer.step) or save())

    def tick(*scores):
        clock.now += 25.0

    loss = trainer._loss
    monkeypatch.setattr(trainer, "_loss", lambda *inputs: tick() or loss(*inputs))
    trainer.train()
    assert saved == [3, 6, 9]


def test_a_training_ends_at_its_deadline_and_goes_on(tmp_path, monkeypatch):
    run, path = run_of("abacus", steps=9, checkpoint_every=100), tmp_path / "seed_0"
    undisturbed = Trainer(run, 0, None).train()
    clock = SimpleNamespace(now=0.0)

    def tell():
        clock.now += 1.0
        return clock.now

    monkeypatch.setattr(loop.time, "time", tell)
    with pytest.raises(OutOfTime, match="seed 0 ended at step 4 of 9; expected another call"):
        Trainer(run, 0, path).train(deadline=5.0)
    resumed = Trainer(run, 0, path)
    assert resumed.step == 4
    assert differ(weights(resumed.train(deadline=None)), weights(undisturbed)) == 0.0


def test_a_batch_that_does_not_fit_is_computed_in_parts(monkeypatch):
    """The memory of a GPU is not known before a step; what a failed step has done is forgotten."""
    plan, loss, sizes = {"steps": 4, "dropout": 0.2}, Trainer._loss, []
    run = run_of("abacus", "looped", **plan)
    expected = Trainer(run, 0, None)
    expected.micro_batch = 4
    expected.train()

    def fit(most):
        def lose(trainer, inputs, *more):
            sizes.append(len(inputs.tokens))
            computed = loss(trainer, inputs, *more)
            if sizes[-1] > most:
                raise torch.OutOfMemoryError
            return computed

        monkeypatch.setattr(Trainer, "_loss", lose)

    fit(5)
    parts = Trainer(run, 0, None).train()
    assert sizes == [16, 8, *[4] * 16] and parts.micro_batch == 4
    assert differ(weights(expected), weights(parts)) == 0.0
    fit(0)
    with pytest.raises(SettingsError, match=r"one problem at a time does not fit .*; expected"):
        Trainer(run, 0, None).train()


@needs_gpu
def test_a_batch_beyond_the_memory_of_a_gpu_is_computed_in_parts():
    torch.cuda.set_per_process_memory_fraction(2**28 / torch.cuda.mem_get_info()[1])
    run = run_of("abacus_fire", "looped", steps=12, batch=4096, pool=1)
    trainer = Trainer(run, 0, None).train()
    torch.cuda.set_per_process_memory_fraction(1.0)
    assert trainer.micro_batch < 4096 and math.isfinite(trainer.curve[-1]["loss"])


@needs_gpu
@pytest.mark.parametrize("positions", ["nope", "abacus_fire", "rope", "abacus_window"])
def test_a_gpu_has_the_losses_of_the_cpu(monkeypatch, positions):
    losses = []
    for device in ("cpu", "cuda"):
        monkeypatch.setattr(loop, "choose_device", lambda device=device: torch.device(device))
        trainer = Trainer(run_of(positions, precision="fp32"), 0, None)
        batch = trainer.batches.next(8)
        trainer.system.network.train()
        inputs = trainer._draw_inputs(batch)
        losses.append(float(trainer._loss(inputs, inputs.real, None)))
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
