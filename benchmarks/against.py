"""A training step against that of another commit: `python benchmarks/against.py COMMIT [ROW ...]`.

The commit must have lib/carry/experiments.

Two processes, one with each version of the library, take turns in each round; each times some steps
in CPU time, which includes drawing the batches. The median of the ratios of rounds is printed, and
the smallest and the largest; above 1 the step here is faster.
"""

from __future__ import annotations

import io
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROUNDS, STEPS = 31, 4  # short rounds: the speed of a shared machine drifts
ROWS = ["addition_abacus", "addition_coupled", "addition_relative", "copying_relative",
        "multi_operand_addition_relative_scratchpad", "addition_equal_abacus_adaptive"]  # fmt: skip
WORKER = """
import sys, time, torch
from carry.experiments.resolve import load_run
from carry.training.loop import Trainer
torch.set_num_threads(1)
trainers = {}
for line in sys.stdin:
    row, steps = line.split()
    if row not in trainers:
        trainers[row] = Trainer(load_run(row), 0, None)
        trainers[row].system.network.train()
    began = time.process_time()
    for _ in range(int(steps)):
        trainers[row]._update()
    print(time.process_time() - began, flush=True)
"""


def start_worker(root: Path) -> subprocess.Popen:
    """Start a process that times steps of the library of a checkout."""
    environment = {**os.environ, "PYTHONPATH": str(root / "lib"), "OMP_NUM_THREADS": "1"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", WORKER], env=environment, cwd=root, **pipes)


def time_steps(worker: subprocess.Popen, row: str, steps: int) -> float:
    """Return the CPU seconds of some steps."""
    worker.stdin.write(f"{row} {steps}\n")
    worker.stdin.flush()
    return float(worker.stdout.readline())


def compare(commit: str, rows: list[str]) -> None:
    """Print a line for each row."""
    with tempfile.TemporaryDirectory() as folder:
        archive = ["git", "archive", commit, "lib", "params.yaml"]
        content = subprocess.run(archive, cwd=ROOT, capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(content)) as files:
            files.extractall(folder, filter="data")
        workers = [start_worker(ROOT), start_worker(Path(folder))]
        for row in rows:
            for worker in workers:  # to warm up
                time_steps(worker, row, STEPS)
            rounds = []
            for turn in range(ROUNDS):
                order = workers if turn % 2 else workers[::-1]
                seconds = {id(worker): time_steps(worker, row, STEPS) for worker in order}
                rounds.append([seconds[id(worker)] for worker in workers])
            ratios = [there / here for here, there in rounds]
            step = 1e3 * statistics.median(here for here, _ in rounds) / STEPS
            print(
                f"{row}: {statistics.median(ratios):.3f} ({min(ratios):.2f} to {max(ratios):.2f}), "
                f"{step:.1f} ms a step here",
                flush=True,
            )
        for worker in workers:
            worker.stdin.close()
            worker.wait()


if __name__ == "__main__":
    compare(sys.argv[1], sys.argv[2:] or ROWS)
