"""Killed trainings: at every file operation, by signals, with workers."""

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest

from carry.config import paths
from carry.training.batched import trainer
from carry.training.jobs import train_runs
from model_cases import run_of
from test_batched import run_of as batched_run_of

KILLED = 9
# Operations that change files; reads, syncs and changes of permissions leave them as they are.
EVENTS = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree"}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
SMALL = {"steps": 4, "batch": 4, "pool": 1, "score_problems": 4, "checkpoint_every": 2}
CHECKPOINTS = "store/train/*/checkpoints/seed_?.safetensors"
STRIDE = 1 if os.environ.get("CARRY_TEST_ALL") else 7  # operations from kill to kill
BATCHED = {**SMALL, "pool": 8, "examples": 12, "score_every": 2, "dropout": 0.1,
           "dropout_embeddings": 0.1, "keep_weights": "best", "halving": "random",
           "halving_accuracy": 0.3}  # fmt: skip
RUNS = {
    "plain": (run_of("abacus", **SMALL), 1),
    "snapshots": (run_of("abacus", **SMALL, snapshot_every=2, examples=8, average_weights=0.75), 1),
    "batched": (batched_run_of(**BATCHED), 2),
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "STORE", tmp_path / "store")
    monkeypatch.setattr(trainer, "GROUPS", 1)  # in this process
    monkeypatch.setenv("CARRY_PROGRESS", "off")
    return tmp_path


def hashes(folder):
    """Return the hashes of the files of jobs, without what they took and their locks."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.glob("train/*/*")
        if path.is_file() and path.name != "done.json"
    }


def train_in_child(project, run, last):
    """Train in a copy of this process that ends at file operation `last`; return its exit code."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    operations = 0

    def count_operation(event, args):
        nonlocal operations
        if event not in EVENTS or not str(args[0]).startswith(str(project)):
            return
        if event == "open" and not args[2] & WRITES:
            return
        operations += 1
        if operations == last:
            os._exit(KILLED)

    code = 1
    with contextlib.suppress(BaseException):
        sys.addaudithook(count_operation)
        train_runs([run])
        code = 0
    os._exit(code)


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning")
@pytest.mark.parametrize("kind", RUNS)
def test_a_training_killed_at_any_file_operation_can_be_repeated(project, kind):
    run, count = RUNS[kind]
    run = run.model_copy(update={"seeds": count})
    train_runs([run])
    undisturbed, last, code = hashes(paths.STORE), 0, KILLED
    shutil.rmtree(paths.STORE)
    while code == KILLED:
        last += STRIDE
        code = train_in_child(project, run, last)
        if code == KILLED:
            train_runs([run])
        assert code in (0, KILLED) and hashes(paths.STORE) == undisturbed, last
        shutil.rmtree(paths.STORE)
    assert last > 20


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning")
def test_a_killed_training_leaves_neither_checkpoints_nor_drafts_once_it_is_done(project):
    run = RUNS["plain"][0].model_copy(update={"seeds": 1})
    assert train_in_child(project, run, 20) == KILLED
    assert [*project.rglob("checkpoints")]
    train_runs([run])
    left = [path for path in project.rglob("*") if path.name.startswith(".")]
    assert not left and not [*project.rglob("checkpoints")]


# A kernel that trains, and its workers.
KERNEL = """
import signal
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from carry.config import paths
from carry.jobs import pool
from carry.training.jobs import train_runs
from model_cases import run_of
paths.STORE = Path({root!r}) / "store"
pool.count_cores = lambda: 2  # also on one core
signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background ignore it
if __name__ == "__main__":  # workers import this file
    run = run_of("abacus", steps=10**6, checkpoint_every=10, score_every=1000)
    train_runs([run.model_copy(update={{"seeds": 2}})])
"""


def wait_for(condition, seconds):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def is_gone(process):
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_an_interrupt_ends_the_workers_quietly_and_keeps_the_checkpoints(tmp_path):
    kernel = tmp_path / "kernel.py"
    kernel.write_text(KERNEL.format(tests=os.path.dirname(__file__), root=str(tmp_path)), "utf-8")
    with subprocess.Popen(
        [sys.executable, kernel], stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        wait_for(lambda: process.poll() or len([*tmp_path.glob(CHECKPOINTS)]) == 2, 60)
        assert process.poll() is None, process.stderr.read()
        workers = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the workers get it too
        try:
            errors = process.communicate(timeout=10)[1]
        finally:  # a test that fails must not wait for the training to end
            process.kill()
            for worker in workers:
                with contextlib.suppress(psutil.NoSuchProcess):
                    worker.kill()
    assert process.returncode != 0 and wait_for(lambda: all(map(is_gone, workers)), 2.0)
    assert errors.count("Traceback") == 1 and errors.rstrip().endswith("KeyboardInterrupt")
    assert len([*tmp_path.glob(CHECKPOINTS)]) == 2
