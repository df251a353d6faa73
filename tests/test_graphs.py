"""Recorded steps, batches in parts, checkpoints by time, and the memory of a step.

On a CPU a recorded step is run again on the same memory, by the code that replays graphs on a GPU.
"""

import math
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from carry.config.settings import SettingsError
from carry.training import graphs, loop, memory
from carry.training.inputs import make_inputs
from carry.training.loop import OutOfTime, Trainer
from model_cases import FEW_CASES, run_of

LARGE = {"steps": 14, "batch": 16, "pool": 2, "score_every": 7}
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


@pytest.mark.parametrize(
    ("positions", "model", "more"),
    [
        ("abacus", "standard", {"optimizer": "muon"}),
        ("abacus_fire", "looped", {"progressive": 0.5}),
        ("randomized", "standard", {"loss": "everything"}),
        ("abacus", "looped", {"longer": 8.0}),
        ("abacus", "looped", {"dropout": 0.2, "dropout_inside": 0.1, "random_padding": 0.1}),
        ("abacus_shaw", "adaptive", {"weight_decay": 0.1, "average_weights": 0.5}),
    ],
)
def test_recorded_steps_end_with_the_same_weights(monkeypatch, positions, model, more):
    """Bit for bit those of the same steps that are not recorded."""
    run = run_of(positions, model, **LARGE, **more, graphs=True)
    recorded = Trainer(run, 0, None).train()
    monkeypatch.setattr(graphs, "MOST_GRAPHS", 0)
    plain = Trainer(run, 0, None).train()
    assert recorded.graphs.recorded and not plain.graphs.recorded
    assert differ(weights(plain), weights(recorded)) == 0.0
    assert plain.curve == recorded.curve


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_learning_rate_in_memory_is_that_in_python(optimizer):
    more = {"steps": 4, "warmup": 0.5, "weight_decay": 0.1, "optimizer": optimizer}
    plain, recorded = (
        Trainer(run_of("abacus", **more, graphs=graphed), 0, None) for graphed in (False, True)
    )
    for trainer in (plain, recorded):
        trainer.system.network.double()
        trainer.graphs = None  # no padding, whose rounding differs
        trainer.train()
    assert differ(weights(plain), weights(recorded)) < 1e-6


def test_each_shape_is_recorded_once_after_its_first_steps(monkeypatch):
    run = run_of("abacus", **{**LARGE, "steps": 40}, graphs=True)
    steps, trainer = [], Trainer(run, 0, None)
    step = trainer.graphs.step
    monkeypatch.setattr(
        trainer.graphs, "step", lambda inputs, fewer: steps.append(inputs) or step(inputs, fewer)
    )
    trainer.train()
    assert len(steps) == 40
    by_shape = {}
    for inputs in steps:
        by_shape.setdefault(inputs.shapes(), []).append(inputs)
    for of_shape in by_shape.values():
        memories = [inputs.tokens.data_ptr() for inputs in of_shape[graphs.WARM_UP :]]
        assert len({*memories}) <= 1  # the memory of its graph
    widths = {shapes[0][1] for shapes in by_shape}
    assert all(width % 16 == 0 for width in widths) and len(by_shape) <= 4


def test_shapes_beyond_the_most_are_not_recorded(monkeypatch):
    monkeypatch.setattr(graphs, "MOST_GRAPHS", 1)
    trainer = Trainer(run_of("abacus", **{**LARGE, "steps": 30}, graphs=True), 0, None).train()
    assert len(trainer.graphs.recorded) == 1 and trainer.step == 30


@pytest.mark.parametrize(("positions", "model", "form"), FEW_CASES)
def test_padding_changes_no_loss(positions, model, form):
    run = run_of(positions, model, form)
    trainer = Trainer(run, 0, None)
    batch = trainer.batches.next(8)
    inputs = make_inputs(batch, trainer.system.train_ids(batch, trainer.id_draws), "answer")
    padded = inputs.pad()
    assert padded.tokens.shape[1] % 16 == 0 and padded.target.shape[1] % 8 == 0
    trainer.system.network.double()
    losses = [trainer._loss(of, of.real, None) for of in (inputs, padded)]
    torch.testing.assert_close(*losses, rtol=1e-6, atol=1e-6)  # a mean in fp32


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


def test_a_process_uses_its_share_of_a_gpu(monkeypatch):
    limits, properties = [], SimpleNamespace(total_memory=80e9)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(
        torch.cuda, "set_per_process_memory_fraction", lambda share, device: limits.append(share)
    )
    for share, device in (("0.25", "cuda"), ("0.25", "cpu"), ("0.01", "cuda")):
        monkeypatch.setenv(memory.GPU_SHARE, share)
        memory.limit_gpu_memory(torch.device(device))
    assert limits == [0.2375, 0.0]  # less what CUDA itself takes, and never below 0


@needs_gpu
@pytest.mark.parametrize(
    ("positions", "model", "more"),
    [
        ("abacus", "standard", {"optimizer": "muon"}),
        ("abacus_fire", "looped", {"progressive": 0.5}),
        ("randomized", "standard", {"loss": "everything"}),
        ("abacus", "looped", {"dropout": 0.2, "dropout_inside": 0.1}),
        ("coupled", "both_gated", {"precision": "bf16", "longer": 8.0}),
        ("abacus_window", "standard", {"precision": "bf16"}),
    ],
)
@pytest.mark.parametrize("recorded", [False, True])
def test_no_step_waits_on_a_gpu(positions, model, more, recorded):
    run = run_of(positions, model, **LARGE, **more, graphs=recorded)
    trainer = Trainer(run, 0, None)
    trainer.system.network.train()
    with trainer.graphs.use_stream() if recorded else nullcontext():
        for _ in range(12):
            trainer._update()
        torch.cuda.set_sync_debug_mode("error")
        try:
            for _ in range(6):
                trainer._update()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert torch.stack(trainer._losses).isfinite().all()


@needs_gpu
@pytest.mark.parametrize("recorded", [False, True])
def test_a_batch_beyond_the_memory_of_a_gpu_is_computed_in_parts(monkeypatch, recorded):
    monkeypatch.setattr(memory, "CONTEXT_BYTES", torch.cuda.mem_get_info()[1] - 2**28)  # 256 MiB
    more = {"steps": 12, "batch": 4096, "pool": 1, "graphs": recorded}
    trainer = Trainer(run_of("abacus_fire", "looped", **more), 0, None).train()
    assert trainer.micro_batch < 4096 and math.isfinite(trainer.curve[-1]["loss"])


@needs_gpu
@pytest.mark.parametrize("more", [{"optimizer": "muon"}, {"dropout": 0.2}, {"progressive": 0.5}])
def test_graphs_have_the_losses_of_steps_without(more):
    """Not the same weights: those without a gradient but rounding, as biases of keys, differ."""
    more = {**LARGE, "steps": 40, "precision": "fp32", **more}
    run = run_of("abacus_fire", "looped", **more)
    plain = Trainer(run, 0, None).train()
    training = run.training.model_copy(update={"graphs": True})
    recorded = Trainer(run.model_copy(update={"training": training}), 0, None).train()
    assert recorded.graphs.recorded
    losses = [[point["loss"] for point in trainer.curve] for trainer in (plain, recorded)]
    assert losses[0] == pytest.approx(losses[1], rel=2e-3)


@needs_gpu
@pytest.mark.parametrize("positions", ["nope", "abacus_fire", "rope", "abacus_window"])
def test_a_gpu_has_the_losses_of_the_cpu(monkeypatch, positions):
    losses = []
    for device in ("cpu", "cuda"):
        monkeypatch.setattr(loop, "choose_device", lambda device=device: torch.device(device))
        trainer = Trainer(run_of(positions, precision="fp32"), 0, None)
        batch = trainer.batches.next(8)
        trainer.system.network.train()
        inputs = trainer._draw_inputs(batch).send(trainer.device)
        losses.append(float(trainer._loss(inputs, inputs.real, None)))
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
