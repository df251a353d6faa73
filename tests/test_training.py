"""Training: the same weights however often it is killed, schedules as stated, bad losses found."""

import io
import math
import multiprocessing
from types import SimpleNamespace

import pandas as pd
import pytest
import torch
from tqdm import tqdm

from carry.config import paths
from carry.config.run_settings import Training
from carry.data.training_batches import TrainingBatches
from carry.formats import text
from carry.models.system import System
from carry.randomness import stream
from carry.training import checkpoint, loop, precision, seeds
from carry.training.loop import Trainer, TrainingDiverged
from carry.training.schedule import batch_at, rate_at
from model_cases import run_of


def weights(trainer):
    return trainer.system.network.state_dict()


def same(first, second):
    return all(torch.equal(first[name], second[name]) for name in first)


class Killed(Exception):
    """Stands for a signal that no one can catch."""


@pytest.mark.parametrize(
    ("positions", "model", "more"),
    [
        ("abacus_fire", "looped", {"progressive": 0.5}),
        ("coupled", "standard", {"optimizer": "muon", "batch_ramp": 0.6, "pool": 3}),
        ("randomized", "standard", {"precision": "bf16", "loss": "everything"}),
        ("abacus_window", "standard", {}),
        ("abacus_shaw", "adaptive", {"progressive": 0.5}),
        ("levels", "standard", {"form": "steps_unpadded", "fixed": 50}),
        ("abacus", "standard", {"problems": "1-3_digit", "fixed": 60, "digits": 3}),
        ("learned", "standard", {"form": "spaced", "fixed": 50, "noise": 0.1}),
        ("abacus_window", "standard", {"form": "padded_to", "loss": "everything"}),
        ("rope", "standard", {"form": "sub_task"}),
        ("randomized_fire", "standard", {"form": "worded"}),
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

        def until(batch, trainer=trainer, original=original, stop=stop):
            if trainer.step == stop:
                raise Killed
            return original(batch)

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


def test_training_learns():
    """A sum of one-digit numbers is learned in a few seconds."""
    run = run_of("coupled", form="padded", digits=1, steps=500, batch=64, rate=0.01, pool=4,
                 score_every=100)  # fmt: skip
    curve = Trainer(run, 0, None).train().curve
    assert curve[-1]["loss"] < 0.3 * curve[0]["loss"] and curve[-1]["exact"] > 0.9


def test_a_loss_that_is_not_a_number_stops_with_step_and_checkpoint(tmp_path):
    path = tmp_path / "seed_0.safetensors"
    run = run_of("abacus", steps=8, checkpoint_every=2, score_every=4)
    trainer = Trainer(run, 0, path)
    original = trainer._loss
    trainer._loss = lambda batch: original(batch) * (math.nan if trainer.step == 3 else 1.0)
    with pytest.raises(TrainingDiverged, match=r"up to 4; last good checkpoint: step 2") as error:
        trainer.train()
    assert "\n" not in str(error.value)
    assert checkpoint.load_tensors(path)[1]["step"] == 2  # what was good is kept


def test_early_stop_on_the_held_out_score(monkeypatch):
    run = run_of("abacus", steps=50, score_every=5, stop_at=0.5, patience=2)
    always = SimpleNamespace(exact=torch.ones(16))
    monkeypatch.setattr(loop, "teacher_forced_pass", lambda *given, **more: always)
    assert Trainer(run, 0, None).train().step == 10


def test_progressive_loss_is_a_convex_combination():
    run = run_of("abacus", "looped")
    batch = TrainingBatches(System(run), stream(0, "problems")).next(8)
    losses = {}
    for share in (0.0, 0.25, 1.0):
        of = run.model_copy(update={"training": run.training.model_copy(
            update={"progressive": share})})  # fmt: skip
        losses[share] = float(Trainer(of, 0, None)._loss(batch).detach())
    assert losses[0.25] == pytest.approx(0.75 * losses[0.0] + 0.25 * losses[1.0], rel=1e-5)
    assert losses[0.0] != losses[1.0]


@pytest.mark.parametrize("loss", ["answer", "everything"])
def test_mean_of_samples_against_a_loop(loss):
    run = run_of("abacus", loss=loss, mean="sample")
    trainer = Trainer(run, 0, None)
    batch = trainer.batches.next(8)
    logits = trainer.system.logits(batch, trainer.system.train_ids(batch, stream(0, "ids")))
    means = []
    for row in range(8):
        first = int(batch.start[row]) if loss == "answer" else 1
        losses = [-logits[row, at - 1].log_softmax(0)[batch.tokens[row, at].long()]
                  for at in range(first, int(batch.length[row]))]  # fmt: skip
        means.append(torch.stack(losses).mean())
    assert len({int(n) for n in batch.length - batch.start}) > 1  # else both means are the same
    trainer.draws = stream(0, "ids")
    expected = float(torch.stack(means).mean().detach())
    assert float(trainer._loss(batch).detach()) == pytest.approx(expected, rel=1e-5)


def test_a_progressive_loss_divides_each_of_its_gradients_by_its_own_recurrences():
    def gradients(progressive, divide):
        run = run_of("abacus_fire", "looped", progressive=progressive)
        more = {"recurrences": 6, "divide_gradient": divide}
        trainer = Trainer(run.model_copy(update={"model": {**run.model, **more}}), 0, None)
        trainer.system.network.double()
        trainer._loss(trainer.batches.next(8)).backward()
        return {n: p.grad for n, p in trainer.system.network.named_parameters()}

    fewer = int(torch.randint(1, 6, (), generator=stream(0, "recurrences")))
    assert fewer > 1
    whole, short, both = gradients(0.0, False), gradients(1.0, False), gradients(0.25, True)
    for name in whole:
        one, other = (6, fewer) if name.startswith("blocks.") else (1, 1)
        expected = 0.75 * whole[name] / one + 0.25 * short[name] / other
        torch.testing.assert_close(both[name], expected, rtol=1e-4, atol=1e-7)


def test_loss_on_everything_covers_the_question_too():
    run = run_of("abacus", loss="everything")
    trainer = Trainer(run, 0, None)
    batch = trainer.batches.next(8)
    logits = trainer.system.logits(batch, trainer.system.train_ids(batch, stream(0, "ids")))
    expected, count = 0.0, 0
    for row in range(8):
        for at in range(1, int(batch.length[row])):
            expected -= logits[row, at - 1].log_softmax(0)[batch.tokens[row, at].long()]
            count += 1
    trainer.draws = stream(0, "ids")
    assert float(trainer._loss(batch).detach()) == pytest.approx(
        float(expected.detach() / count), rel=1e-4
    )


@pytest.mark.parametrize("decay", ["none", "linear", "cosine", "trapezoid"])
def test_schedules_warm_up_and_come_down(decay):
    plan = Training(steps=200, learning_rate=2.0, warmup=0.1, decay=decay, final_learning_rate=0.05)
    rates = [rate_at(step, plan) for step in range(200)]
    assert rates[:20] == pytest.approx([0.1 * (step + 1) for step in range(20)])
    assert max(rates) == pytest.approx(2.0)
    falling = rates[20:]
    assert all(b <= a + 1e-12 for a, b in zip(falling, falling[1:], strict=False))
    assert falling[-1] == pytest.approx(2.0 if decay == "none" else 0.1, abs=0.06)


def test_batch_ramp_reaches_the_full_batch():
    plan = Training(steps=100, batch=40, batch_ramp=0.5)
    sizes = [batch_at(step, plan) for step in range(100)]
    assert sizes == sorted(sizes) and sizes[0] == 1 and set(sizes[50:]) == {40}


def test_pools_cut_padding_and_keep_every_problem():
    system = System(run_of("abacus", digits=10, pool=16, batch=32))
    batches = TrainingBatches(system, stream(0, "problems"))
    drawn = [batches.next(32) for _ in range(16)]
    slots = sum(batch.tokens.numel() for batch in drawn)
    real = sum(int(batch.length.sum()) for batch in drawn)
    assert slots < 1.12 * real
    problems = system.task.draw(32 * 16, 10, stream(0, "problems"))
    lengths = torch.cat([batch.length for batch in drawn]).sort().values
    assert torch.equal(lengths, system.format.write(problems).length.sort().values)


def test_a_fixed_data_set(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    run = run_of("abacus", fixed=20)
    seeds.train_seeds(run, 1)
    table = pd.read_parquet(paths.data_path("notebook", "runs", "mine", "problems.parquet"))
    assert len(table) == 20
    pairs = table["operands"].str.split()
    allowed = {f"^{a[::-1]}+{b[::-1]}=" for a, b in pairs}
    shown = set()
    for seed in (0, 1):  # all seeds have the same problems
        batch = Trainer(run, seed, None).batches.next(16)
        shown |= {text(batch.tokens[row, : batch.start[row]]) for row in range(16)}
    assert shown <= allowed and len(shown) > 10


def test_seeds_side_by_side_write_everything_and_clean_up(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    run = run_of("abacus")
    curves = seeds.train_seeds(run, 1)
    folder = paths.data_path("notebook", "runs", "mine")
    tensors, note = checkpoint.load_tensors(folder / "seed_0.safetensors")
    assert same(tensors, weights(Trainer(run, 0, None).train()))
    assert note["row"] == "mine" and note["seed"] == 0 and note["steps"] == 6
    assert pd.read_parquet(folder / "curves.parquet").equals(curves)
    assert (folder / "live/seed_0/plots/metrics/loss.tsv").exists()
    assert (folder / "run.json").exists() and not checkpoint.checkpoint_folder(run).exists()


def test_processes_train_what_one_process_trains(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    run, heard = run_of("abacus", steps=20), []
    monkeypatch.setattr(seeds._Progress, "report", lambda self, *news: heard.append(news))
    seeds.train_seeds(run, 2)
    for seed in range(2):
        path = paths.data_path("notebook", "runs", "mine", f"seed_{seed}.safetensors")
        assert same(checkpoint.load_tensors(path)[0], weights(Trainer(run, seed, None).train()))
    assert {news[:2] for news in heard} == {(seed, step) for seed in (0, 1) for step in (10, 20)}
    assert not multiprocessing.active_children()


def test_progress_counts_the_steps_of_all_seeds():
    with tqdm(total=20, disable=False, file=io.StringIO()) as shown:
        progress = seeds._Progress(shown, 2)
        for seed, step in ((0, 4), (1, 7), (0, 8)):
            progress.report(seed, step, 1.5, 0.25)
        assert shown.n == 15 and "loss 1.500, exact 25%" in shown.postfix


def test_precision_is_checked_and_put_back():
    before = torch.get_float32_matmul_precision()
    with precision.training_in("medium", torch.device("cpu")):
        assert torch.get_float32_matmul_precision() == "medium"
    assert torch.get_float32_matmul_precision() == before
    assert precision.product_error("highest") < 1e-5
    assert precision.choose("auto", torch.device("cpu")) in {"bf16", "fp32"}
