"""Damaged checkpoints, snapshots and weights: one line, and never used."""

import json
import shutil

import pytest
import safetensors.torch
import torch

from carry.config import paths
from carry.training.batched.trainer import BatchedTrainer
from carry.training.checkpoint import DamagedFile, load_tensors, save_tensors
from carry.training.loop import Trainer
from model_cases import run_of
from test_batched import run_of as batched_run_of

SMALL = {"steps": 6, "batch": 4, "pool": 2, "score_problems": 4, "checkpoint_every": 2}
RUNS = {
    "plain": run_of("abacus", **SMALL, snapshot_every=2, average_weights=0.5),
    "batched": batched_run_of(**{**SMALL, "pool": 8, "score_every": 2, "keep_weights": "best"}),
}


def make_trainer(kind, path, seeds=(0, 1), run=None):
    run = run or RUNS[kind]
    return Trainer(run, seeds[0], path) if kind == "plain" else BatchedTrainer(run, seeds, path)


def weights(trainer):
    if isinstance(trainer, Trainer):
        return trainer.system.network.state_dict()
    first, *more = trainer.weights()
    return first | {f"{i}{name}": x for i, state in enumerate(more) for name, x in state.items()}


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[n], second[n]) for n in first)


def change_bytes(change):
    def damage(path):
        path.write_bytes(change(path.read_bytes()))

    return damage


def rewrite(change):
    """Return a damage that changes tensors or note, and writes a right hash."""

    def damage(path):
        tensors, note = load_tensors(path)
        change(tensors, note)
        save_tensors(path, tensors, note)

    return damage


def change_model(change):
    def damage(tensors, note):
        name = min(name for name in tensors if name.startswith("model.") and "tokens" in name)
        tensors[name] = change(tensors[name])

    return rewrite(damage)


def without_hash(path):
    tensors, note = load_tensors(path)
    safetensors.torch.save_file(tensors, path, {"note": json.dumps(note)})


BYTE_DAMAGES = {
    "empty": change_bytes(lambda data: b""),
    "half": change_bytes(lambda data: data[: len(data) // 2]),
    "bytes added": change_bytes(lambda data: data + b"\0" * 64),
    "no hash": without_hash,
    "text": change_bytes(lambda data: b'{"step": 4}'),
    "pickle": lambda path: torch.save({"step": 4}, path),
}
DAMAGES = {
    "half": BYTE_DAMAGES["half"],
    "other shape": change_model(lambda x: x[..., :-1].clone()),
    "tensor missing": rewrite(lambda tensors, note: tensors.pop(next(iter(tensors)))),
    "generator missing": rewrite(
        lambda tensors, note: [tensors.pop(n) for n in [*tensors] if "draws" in n]
    ),
    "note of another kind": rewrite(lambda tensors, note: note.clear()),
}


@pytest.fixture(scope="module", params=RUNS)
def trained(request, tmp_path_factory):
    """Return kind, the folder of its last checkpoint, and the undisturbed weights."""
    kind, folder = request.param, tmp_path_factory.mktemp("checkpoints")
    path = folder / "a.safetensors"
    make_trainer(kind, path).train()
    expected = weights(make_trainer(kind, None).train())
    return kind, folder, expected


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_checkpoint_is_never_used(trained, tmp_path, capsys, name):
    kind, folder, expected = trained
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "a.safetensors"
    assert make_trainer(kind, path).step == 6 and not capsys.readouterr().err
    DAMAGES[name](path)
    trainer = make_trainer(kind, path)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and "damaged" in lines[0] and len(lines[0]) < 500, lines
    assert trainer.step == 0 and same(weights(trainer.train()), expected)
    assert make_trainer(kind, path).step == 6  # written again


@pytest.mark.parametrize("seeds", [(1, 0), (0, 2), (2, 0)])
def test_a_checkpoint_of_other_seeds_is_never_used(trained, tmp_path, capsys, seeds):
    kind, folder, _ = trained
    if kind == "plain" and seeds[0] == 0:
        pytest.skip("this is the same seed")
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    trainer = make_trainer(kind, tmp_path / "a.safetensors", seeds)
    assert "other seed" in capsys.readouterr().err and trainer.step == 0
    assert same(weights(trainer.train()), weights(make_trainer(kind, None, seeds).train()))


def test_a_checkpoint_of_other_settings_is_never_used(trained, tmp_path, capsys):
    kind, folder, _ = trained
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    run = RUNS[kind]
    training = run.training.model_copy(update={"learning_rate": 0.02})
    other = run.model_copy(update={"training": training})
    trainer = make_trainer(kind, tmp_path / "a.safetensors", run=other)
    assert "other settings" in capsys.readouterr().err and trainer.step == 0


@pytest.mark.parametrize("damage", ["half", "missing"])
def test_a_damaged_or_missing_snapshot_is_taken_again(trained, tmp_path, capsys, damage):
    kind, folder, expected = trained
    if kind == "batched":
        pytest.skip("has no snapshots")
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    snapshot = tmp_path / "a-2.safetensors"
    snapshot.unlink() if damage == "missing" else DAMAGES[damage](snapshot)
    trainer = make_trainer(kind, tmp_path / "a.safetensors")
    assert len(capsys.readouterr().err.splitlines()) == 1 and trainer.step == 0
    assert same(weights(trainer.train()), expected) and list(trainer.snapshots) == [2, 4, 6]


@pytest.mark.parametrize("name", BYTE_DAMAGES)
def test_damaged_tensors_are_refused_in_one_line(tmp_path, monkeypatch, name):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    path = tmp_path / "seed_0.safetensors"
    save_tensors(path, {"weights": torch.arange(3.0)}, {"step": 4})
    BYTE_DAMAGES[name](path)
    with pytest.raises(DamagedFile, match=r"^seed_0.safetensors: damaged \(") as error:
        load_tensors(path)
    assert "\n" not in str(error.value) and len(str(error.value)) < 500


def test_any_changed_bit_is_refused(tmp_path):
    path = tmp_path / "seed_0.safetensors"
    save_tensors(path, {"one": torch.arange(3.0), "two": torch.ones(2, 1)}, {"step": 4})
    data = path.read_bytes()
    for at in range(len(data)):
        changed = bytes([data[at] ^ 1 << at % 8])
        path.write_bytes(data[:at] + changed + data[at + 1 :])
        with pytest.raises(DamagedFile):
            load_tensors(path)


def test_the_same_content_makes_the_same_file(tmp_path):
    """DVC compares the bytes of files."""
    tensors = {name: torch.arange(3.0) for name in "zyxabc"}
    for index in range(8):
        save_tensors(tmp_path / f"{index}", tensors, {"b": 1, "a": [None, 0.1]})
    assert len({(tmp_path / f"{index}").read_bytes() for index in range(8)}) == 1
    assert load_tensors(tmp_path / "0")[1] == {"b": 1, "a": [None, 0.1]}


def test_a_missing_file_is_not_a_damaged_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_tensors(tmp_path / "nothing.safetensors")
