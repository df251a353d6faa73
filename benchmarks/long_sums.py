"""How long may a sum be? `python benchmarks/long_sums.py [digits SIZE | operands SIZE]`.

A committed model adds two numbers of SIZE digits (default: a million), another one adds SIZE
numbers of three digits (default: 100,000). Each reads its problem and writes the whole response in
one pass, which is right exactly when greedy decoding is (`carry.models.teacher_forcing`). Printed
are the verdict, the CPU seconds of drawing and writing the problem and of the pass, and the largest
memory of the process.
"""

from __future__ import annotations

import argparse
import decimal
import resource
import subprocess
import sys
import time

import torch

from carry.data.problems import Problems
from carry.evaluation.scoring import score
from carry.evaluation.trained_models import load_committed
from carry.randomness import stream

DIGITS_OF_OPERANDS = 3
# The row that adds, and the default size.
CASES = {
    "digits": ("addition_relative_small", 1_000_000),
    "operands": ("multi_operand_addition_relative_scratchpad", 100_000),
}


def measure(case: str, size: int) -> None:
    """Add numbers of one size, and print the verdict, the seconds and the memory."""
    system, began = load_committed(CASES[case][0]), time.process_time()
    cell = [size, size] if case == "digits" else [DIGITS_OF_OPERANDS, size]
    problems = system.task.draw_for_cells(torch.tensor([cell]), stream(0, "long sums"))
    batch, written = system.format.write(problems), time.process_time()
    exact = bool(score(system, problems).exact)
    ended = time.process_time()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    verdict = "right" if exact and check_answer(problems) else "wrong"
    print(
        f"{case} {size}: {verdict}, {int(batch.length)} tokens, {written - began:.1f} CPU s to "
        f"write them, {ended - written:.1f} CPU s to add, {memory:.2f} GiB"
    )


def check_answer(problems: Problems) -> bool:
    """Return whether decimal numbers of any length confirm the answer of one problem."""
    texts = [
        "".join(map(str, digits[:length].flip(0).tolist()))
        for digits, length in zip(problems.operands[0], problems.lengths[0], strict=True)
    ]
    answer = problems.answer[0, : problems.answer_length[0]].flip(0).tolist()
    with decimal.localcontext(decimal.Context(len(answer) + 1, Emax=decimal.MAX_EMAX)):
        return sum(map(decimal.Decimal, texts)) == decimal.Decimal("".join(map(str, answer)))


def main() -> None:
    """Measure one case, or both in processes of their own, whose memory is then known."""
    parser = argparse.ArgumentParser(description=__doc__.partition("?")[0])
    parser.add_argument("case", nargs="?", choices=CASES)
    parser.add_argument("size", nargs="?", type=int)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.case:
        measure(arguments.case, arguments.size or CASES[arguments.case][1])
    else:
        for case in CASES:
            subprocess.run([sys.executable, __file__, case], check=True)


if __name__ == "__main__":
    main()
