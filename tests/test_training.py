"""Training: the same weights however often it is killed, or in parts; schedules, bad losses."""

import math
import multiprocessing
from itertools import chain
from statistics import mean
from types import SimpleNamespace

import pytest
import torch

from carry.config import paths
from carry.config.settings import SettingsError
from carry.data.training_batches import TrainingBatches
from carry.experiments.run import Training
from carry.formats import to_text
from carry.jobs import pool
from carry.models.system import System
from carry.randomness import stream
from carry.training import checkpoint, loop
from carry.training import jobs as training_jobs
from carry.training.jobs import COLUMNS, find_trained, train_runs
from carry.training.loop import OutOfTime, Trainer, TrainingDiverged
from carry.training.schedule import compute_learning_rate
from made_up_project import run_here
from model_cases import loss_of, run_of

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture(autouse=True)
def device(request, monkeypatch):
    """Train on a CPU, also where there is a GPU, whose sums are not repeatable."""
    if not request.node.get_closest_marker("skipif"):
        monkeypatch.setattr(loop, "choose_device", lambda: torch.device("cpu"))


def weights(trainer):
    return trainer.system.network.state_dict()


def same(first, second):
    return all(torch.equal(first[name], second[name]) for name in first)


def batches_of(system):
    return TrainingBatches(system.run, system.task, system.format, stream(0, "problems"))


def ignore(*values):
    """Stand for a report."""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Keep what is trained in a temporary folder."""
    monkeypatch.setattr(paths, "STORE", tmp_path)
    monkeypatch.setenv("CARRY_PROGRESS", "off")
    return tmp_path


class Killed(Exception):
    """Stands for a signal that no one can catch."""


@pytest.mark.parametrize(
    ("positions", "model", "more"),
    [
        ("abacus_fire", "looped", {"progressive": 0.5}),
        ("coupled", "standard", {"optimizer": "muon", "batch_ramp": 0.6, "pool": 3}),
        (
            "randomized",
            "standard",
            {"form": "padded_to", "precision": "bf16", "loss": "everything"},
        ),
        ("abacus_shaw", "adaptive", {"progressive": 0.5}),
        (
            "abacus_fire",
            "looped",
            {"progressive": 0.5, "dropout": 0.2, "dropout_inside": 0.1, "dropout_embeddings": 0.1},
        ),
        ("levels", "standard", {"form": "steps_unpadded", "examples": 50}),
        ("abacus", "standard", {"problem_set": "1-3_digit", "examples": 60, "digits": 3}),
        (
            "learned",
            "both_gated",  # tied
            {"form": "spaced", "examples": 50, "random_padding": 0.1, "precision": "fp32"},
        ),
        # The means begin before the first kill, between two checkpoints, and never.
        ("abacus", "both_gated", {"average_weights": 0.7, "precision": "bf16"}),
        ("abacus", "standard", {"average_weights": 0.5, "optimizer": "muon"}),
        ("abacus", "standard", {"average_weights": 0.05}),
    ],
)
def test_a_killed_training_ends_with_the_same_weights(
    tmp_path, monkeypatch, positions, model, more
):
    run = run_of(positions, model, steps=9, checkpoint_every=2, score_every=3, **more)
    undisturbed = Trainer(run, 1, None).train()
    path = tmp_path / "seed_1.safetensors"
    for stop in (3, 4, 8):
        trainer = Trainer(run, 1, path)
        original = trainer._loss

        def until(*inputs, trainer=trainer, original=original, stop=stop):
            if trainer.step == stop:
                raise Killed
            return original(*inputs)

        monkeypatch.setattr(trainer, "_loss", until)
        with pytest.raises(Killed):
            trainer.train()
    resumed = Trainer(run, 1, path)
    assert resumed.step == 8
    resumed.train()
    assert same(weights(undisturbed), weights(resumed))
    assert undisturbed.curve == resumed.curve


def test_seeds_differ_and_each_is_repeatable():
    run = run_of("abacus")
    first, again, other = (Trainer(run, seed, None).train() for seed in (0, 0, 1))
    assert same(weights(first), weights(again)) and not same(weights(first), weights(other))


def test_dropout_draws_depend_on_seed_and_step_alone(monkeypatch):
    run = run_of("abacus", "looped", dropout=0.1, dropout_inside=0.2, dropout_embeddings=0.3)
    first, again, other = (Trainer(run, seed, None) for seed in (0, 0, 1))
    for trainer in (first, again, other):
        trainer.step = 5
    again.system.train_ids(again.held_out, again.id_draws)  # moves other streams
    made = []

    def spy(self, *inputs):
        draws = self.system.network.dropout.draws
        made.append((*self.system.network.dropout[:3], *torch.rand(4, generator=draws).tolist()))
        return self.system.network.tokens.weight.sum()

    monkeypatch.setattr(Trainer, "_loss", spy)
    for trainer in (first, again, other, first):
        trainer._update()
    assert {dropout[:3] for dropout in made} == {(0.1, 0.2, 0.3)}
    assert made[0] == made[1] and len({*made}) == 3


def test_dropout_is_for_training_steps_alone(monkeypatch):
    """Scores are without it, and it takes no numbers from other streams."""
    plain = Trainer(run_of("abacus", "read_out"), 0, None).train()
    none = Trainer(run_of("abacus", "read_out", dropout=1e-9), 0, None).train()
    assert same(weights(plain), weights(none)) and plain.curve == none.curve
    scored, score = [], loop.teacher_forced_pass

    def spy(system, *args, **options):
        scored.append(system.network.training)
        return score(system, *args, **options)

    monkeypatch.setattr(loop, "teacher_forced_pass", spy)
    trainer = Trainer(run_of("abacus", "read_out", dropout=0.3), 0, None).train()
    assert {*scored} == {False}
    assert not same(weights(plain), weights(trainer))


def test_training_learns():
    """A sum of one-digit numbers is learned in a few seconds."""
    run = run_of("coupled", form="padded", digits=1, steps=500, batch=64, learning_rate=0.01,
                 pool=4, score_every=100)  # fmt: skip
    curve = Trainer(run, 0, None).train().curve
    assert curve[-1]["loss"] < 0.3 * curve[0]["loss"] and curve[-1]["exact"] > 0.9


def test_a_loss_that_is_not_a_number_stops_with_step_and_checkpoint(tmp_path):
    path = tmp_path / "seed_0.safetensors"
    run = run_of("abacus", steps=8, checkpoint_every=2, score_every=4)
    trainer = Trainer(run, 0, path)
    original = trainer._loss
    trainer._loss = lambda *inputs: original(*inputs) * (math.nan if trainer.step == 3 else 1.0)
    with pytest.raises(TrainingDiverged, match=r"up to 4; last good checkpoint: step 2") as error:
        trainer.train()
    assert "\n" not in str(error.value)
    assert checkpoint.load_tensors(path)[1]["step"] == 2  # what was good is kept


def test_progressive_loss_is_a_convex_combination():
    run = run_of("abacus", "looped")
    batch = batches_of(System(run)).next(8)
    losses = {}
    for share in (0.0, 0.25, 1.0):
        of = run.model_copy(update={"training": run.training.model_copy(
            update={"progressive": share})})  # fmt: skip
        losses[share] = float(loss_of(Trainer(of, 0, None), batch).detach())
    assert losses[0.25] == pytest.approx(0.75 * losses[0.0] + 0.25 * losses[1.0], rel=1e-5)
    assert losses[0.0] != losses[1.0]


@pytest.mark.parametrize("loss", ["answer", "everything"])
@pytest.mark.parametrize("average", ["token", "sample"])
def test_losses_against_a_loop(loss, average):
    """Of the response or of all tokens, as a mean of tokens or of the means of problems."""
    trainer = Trainer(run_of("abacus", loss=loss, loss_average=average), 0, None)
    batch = trainer.batches.next(8)
    ids = trainer.system.train_ids(batch, stream(0, "ids"))
    logits, rows = trainer.system.logits(batch, ids).detach(), []
    for row in range(8):
        first = int(batch.start[row]) if loss == "answer" else 1
        rows.append([float(-logits[row, at - 1].log_softmax(0)[batch.tokens[row, at].long()])
                     for at in range(first, int(batch.length[row]))])  # fmt: skip
    assert len({*map(len, rows)}) > 1  # else both means are the same
    trainer.id_draws = stream(0, "ids")
    each = [mean(losses) for losses in rows] if average == "sample" else [*chain(*rows)]
    assert float(loss_of(trainer, batch).detach()) == pytest.approx(mean(each), rel=1e-4)


def test_the_result_is_the_mean_of_the_last_weights(tmp_path, monkeypatch):
    """Scores and snapshots before the last step have the weights of that step."""
    settings = {"steps": 8, "score_every": 3, "snapshot_every": 1}
    plain = Trainer(run_of("abacus", "both_gated", **settings), 0, None).train()
    trainer = Trainer(run_of("abacus", "both_gated", **settings, average_weights=0.5), 0, None)
    scored, score = {}, loop.teacher_forced_pass

    def spy(system, *args, **options):
        scored[trainer.step] = {n: x.clone() for n, x in system.network.state_dict().items()}
        return score(system, *args, **options)

    monkeypatch.setattr(loop, "teacher_forced_pass", spy)
    trainer.train().save_weights(tmp_path / "seed_0.safetensors")
    saved = checkpoint.load_tensors(tmp_path / "seed_0.safetensors")[0]
    for name, weight in saved.items():
        last = torch.stack([plain.snapshots[step][name].double() for step in (5, 6, 7, 8)])
        torch.testing.assert_close(weight, last.mean(0).float(), rtol=0.0, atol=1e-6)
        assert weight.dtype == torch.float32
    assert not same(saved, plain.snapshots[8])
    assert same(saved, trainer.snapshots[8]) and same(saved, scored[8])
    assert all(same(trainer.snapshots[step], plain.snapshots[step]) for step in range(1, 8))
    assert same(scored[6], plain.snapshots[6])
    assert trainer.curve[:-1] == plain.curve[:-1]
    assert trainer.curve[-1]["loss"] == plain.curve[-1]["loss"]


REFUSED = {
    "average_weights 0.5 does not fit batched_seeds true; expected 0.0": {
        **{"average_weights": 0.5, "batched_seeds": True, "examples": 9},
    },
    "keep_weights 'best' does not fit batched_seeds false": {
        **{"average_weights": 0.5, "keep_weights": "best"},
    },
    "dropout_inside 0.1 does not fit batched_seeds true; expected 0.0": {
        **{"dropout_inside": 0.1, "batched_seeds": True, "examples": 9},
    },
    "training.dropout: 1.0 does not fit": {"dropout": 1.0},
    "training.average_weights: 1.5 does not fit": {"average_weights": 1.5},
    "training.epsilon: 0.0 does not fit": {"epsilon": 0.0},
    "cooldown 0.6 does not fit warmup 0.5; expected a sum of at most 1": {
        **{"decay": "trapezoid", "warmup": 0.5, "cooldown": 0.6},
    },
}


@pytest.mark.parametrize("message", REFUSED)
def test_settings_that_do_not_go_together_are_refused_in_one_line(message):
    with pytest.raises(SettingsError) as error:
        run_of("abacus", **REFUSED[message])
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("decay", ["none", "cosine", "trapezoid"])
def test_schedules_warm_up_and_come_down(decay):
    plan = Training(steps=200, learning_rate=2.0, warmup=0.1, decay=decay, final_learning_rate=0.05)
    rates = [compute_learning_rate(step, plan) for step in range(200)]
    assert rates[:20] == pytest.approx([0.1 * (step + 1) for step in range(20)])
    assert max(rates) == pytest.approx(2.0)
    falling = rates[20:]
    assert all(b <= a + 1e-12 for a, b in zip(falling, falling[1:], strict=False))
    assert falling[-1] == pytest.approx(2.0 if decay == "none" else 0.1, abs=0.06)


def test_pools_cut_padding_and_keep_every_problem():
    system = System(run_of("abacus", digits=10, pool=16, batch=32))
    batches = batches_of(system)
    drawn = [batches.next(32) for _ in range(16)]
    slots = sum(batch.tokens.numel() for batch in drawn)
    real = sum(int(batch.length.sum()) for batch in drawn)
    assert slots < 1.12 * real
    problems = system.task.draw(32 * 16, 10, stream(0, "problems"))
    lengths = torch.cat([batch.length for batch in drawn]).sort().values
    assert torch.equal(lengths, system.format.write(problems).length.sort().values)


def test_a_fixed_data_set():
    run = run_of("abacus", examples=20)
    batches = Trainer(run, 0, None).batches
    batch = batches.format.write(batches.problems)
    allowed = {to_text(tokens[:end]) for tokens, end in zip(batch.tokens, batch.start, strict=True)}
    assert len(batch) == 20
    shown = set()
    for seed in (0, 1):  # all seeds have the same problems
        batch = Trainer(run, seed, None).batches.next(16)
        shown |= {to_text(batch.tokens[row, : batch.start[row]]) for row in range(16)}
    assert shown <= allowed and len(shown) > 10


@pytest.mark.parametrize("size", [1, 5, 16])
@pytest.mark.parametrize("average", ["token", "sample"])
def test_parts_of_a_batch_add_up(size, average):
    more = {"steps": 3, "progressive": 0.5, "loss_average": average, "longer": 8.0}
    whole = Trainer(run_of("abacus", "adaptive", **more), 0, None).train()
    parts = Trainer(run_of("abacus", "adaptive", **more), 0, None)
    parts.micro_batch = size
    parts.train()
    torch.testing.assert_close(weights(whole), weights(parts), rtol=0, atol=1e-4)
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
    assert same(weights(resumed.train(deadline=None)), weights(undisturbed))


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
    assert same(weights(expected), weights(parts))
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


def named(run, name, seeds=1, **training):
    changed = run.training.model_copy(update=training)
    return run.model_copy(update={"name": name, "seeds": seeds, "training": changed})


def load_weights(run, seed):
    return checkpoint.load_tensors(find_trained(run, seed) / f"seed_{seed}.safetensors")


def test_all_seeds_of_all_rows_are_one_pool_and_have_the_weights_of_one_process(home, monkeypatch):
    runs = [
        named(run_of("abacus", steps=20), "addition_abacus", 2),
        named(run_of("coupled", form="padded", steps=10), "addition_coupled", 2),
    ]
    pools, run_jobs = [], training_jobs.run_jobs
    monkeypatch.setattr(
        training_jobs, "run_jobs", lambda *given: pools.append(given[0]) or run_jobs(*given)
    )
    curves = train_runs(runs)
    assert [job.name for job in pools[0]] == [
        f"{run.name}, seed {seed}" for run in runs for seed in range(2)
    ]
    assert tuple(curves.columns) == COLUMNS["curves"]
    assert curves.groupby(["row", "seed"])["step"].max().tolist() == [20, 20, 10, 10]
    for run in runs:
        for seed in range(2):
            tensors, note = load_weights(run, seed)
            assert same(tensors, weights(Trainer(run, seed, None).train()))
            expected = {"row": run.name, "seed": seed, "steps": run.training.steps}
            assert expected.items() <= note.items()
    assert not [*home.rglob("checkpoints")] and not multiprocessing.active_children()


def test_a_changed_row_is_trained_alone_and_a_renamed_one_not_at_all(home, monkeypatch):
    monkeypatch.setattr(pool, "execute", run_here)
    trained, train = [], Trainer.train
    monkeypatch.setattr(
        Trainer,
        "train",
        lambda self, report, **options: (
            trained.append((self.run.name, self.seed)) or train(self, report, **options)
        ),
    )
    one, other = (named(run_of(), name, 2) for name in ("addition_abacus", "addition_coupled"))
    train_runs([one, other])  # of the same settings
    assert trained == [(one.name, 0), (one.name, 1)]
    table = train_runs([named(one, one.name, 1, steps=7), other])
    assert trained[2:] == [(one.name, 0)]
    assert table.groupby("row")["step"].max().tolist() == [7, 6]
    assert table.groupby("row")["seed"].nunique().tolist() == [1, 2]


def test_a_damaged_result_is_one_line_and_trained_again(home, capsys):
    run = named(run_of(), "addition_abacus")
    train_runs([run])
    kept = find_trained(run, 0) / "seed_0.safetensors"
    expected = kept.read_bytes()
    kept.write_bytes(expected[:-1])
    assert find_trained(run, 0) is None
    train_runs([run])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: addition_abacus, seed 0: ") and "damaged" in line
    assert kept.read_bytes() == expected


def test_each_seed_is_trained_and_scored_with_one_thread(home, monkeypatch):
    """Weights of several threads differ from those of one, which a worker has."""
    threads, loss, score = set(), Trainer._loss, loop.teacher_forced_pass

    def spy(function):
        return lambda *args, **options: (
            threads.add(torch.get_num_threads()) or function(*args, **options)
        )

    monkeypatch.setattr(Trainer, "_loss", spy(loss))
    monkeypatch.setattr(loop, "teacher_forced_pass", spy(score))
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        Trainer(run_of("abacus"), 0, None).train()
        train_runs([named(run_of("abacus"), "addition_abacus")])
        assert threads == {1} and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
