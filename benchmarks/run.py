"""Speed, as ratios of variants run in turn: `python benchmarks/run.py [NAME ...]`.

Machines are shared and their clocks drift, so variants take turns within each round, and the
median of the per-round ratios is what counts. Each round also times one matrix product.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from minimal_decoder import Decoder

from carry import tasks
from carry.data import problem_sets
from carry.data.batch import Batch
from carry.evaluation.scoring import score_system
from carry.experiments.problems import ProblemSet
from carry.experiments.resolve import list_rows, load_run, make_run
from carry.formats import build_format
from carry.models.system import System
from carry.models.teacher_forcing import teacher_forced_pass
from carry.processes import keep_freed_memory
from carry.progress import progress_bar
from carry.randomness import stream
from carry.training import precision
from carry.training.batched.trainer import BatchedTrainer
from carry.training.loop import Trainer

# Tasks at the sizes that mcleish2024 trains them to, and the longest that it sorts.
DRAWN = [("addition", 20), ("multiplication", 15), ("bitwise_or", 20), ("sorting", 10),
         ("sorting", 30)]  # fmt: skip
SIZE = {"layers": 2, "width": 128, "heads": 4}


def in_turn(variants: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Return CPU seconds of every variant in every round, after one round to warm up."""
    taken: dict[str, list[float]] = {name: [] for name in variants}
    for turn in range(rounds + 1):
        for name, work in variants.items():
            began = time.process_time()
            work()
            if turn:
                taken[name].append(time.process_time() - began)
    return taken


def ratio(taken: dict[str, list[float]], of: str, over: str) -> float:
    """Return how many times faster `of` is than `over`: the median of the rounds."""
    pairs = zip(taken[over], taken[of], strict=True)
    return round(statistics.median(slow / fast for slow, fast in pairs), 2)


def training(rounds: int = 15) -> dict:
    """Time a training step, width 128, 2 layers, batch 256, T = 32, against a minimal decoder."""
    torch.set_num_threads(1)
    keep_freed_memory()  # for all variants, as in training
    shape = torch.full((256, 2), 9)  # ^ 9 digits + 9 digits = 9 or 10 digits $: 31 or 32 tokens
    settings = {"task": {"name": "addition"}, "model": SIZE,
                "positions": [{"ids": "index", "encoding": "learned", "table": 100}]}  # fmt: skip

    def ours(name: str) -> Callable[[], None]:
        trainer = Trainer(make_run({**settings, "training": {"precision": name}}), 0, None)
        problems = trainer.system.task.draw_for_cells(shape, stream(0, "benchmark"))
        batch: Batch = trainer.system.format.write(problems)

        def step() -> None:
            with precision.use_precision(trainer.precision, trainer.device):
                trainer._step(trainer._draw_inputs(batch), None)

        return step

    system = System(make_run(settings))
    plain = Decoder(
        system.format.vocabulary_size(), 64, SIZE["width"], SIZE["heads"], SIZE["layers"]
    )
    optimizer = torch.optim.AdamW(plain.parameters(), lr=1e-3, fused=True)
    batch = system.format.write(system.task.draw_for_cells(shape, stream(0, "benchmark")))
    tokens = batch.tokens.long()
    answer = torch.arange(1, tokens.shape[1]) >= batch.start[:, None]
    answer &= torch.arange(1, tokens.shape[1]) < batch.length[:, None]

    def minimal() -> None:
        optimizer.zero_grad(set_to_none=True)
        logits = plain(tokens[:, :-1])
        F.cross_entropy(logits[answer], tokens[:, 1:][answer]).backward()
        torch.nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
        optimizer.step()

    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    variants = {"minimal": minimal, "fp32": ours("fp32"), "default": ours("auto"),
                "bf16": ours("bf16"), "product": lambda: a @ b}  # fmt: skip
    taken = in_turn(variants, rounds)
    return {
        "tokens": tokens.shape[1],
        "default precision": precision.choose_precision(
            "auto", torch.device("cpu"), SIZE["width"]
        ),
        "error of a product under medium": precision.measure_product_error(),
        **{f"{name} over minimal": ratio(taken, name, "minimal")
           for name in ("fp32", "default", "bf16")},
        "CPU milliseconds": {k: round(1e3 * statistics.median(v), 1) for k, v in taken.items()},
    }  # fmt: skip


def data(rounds: int = 9) -> dict:
    """Time drawing problems, and writing sums of 20 digits, tokens and marks included."""
    torch.set_num_threads(1)
    task, generator = tasks.build_task({"name": "addition"}), stream(0, "benchmark")
    formats = {
        "unpadded": build_format({}, task),
        "padded": build_format({"pad": True, "reverse_operands": False}, task),
    }
    count = 8192
    variants = {
        f"addition, 20 digits, written {name}":
            lambda form=form: form.write(task.draw(count, 20, generator))
        for name, form in formats.items()
    }  # fmt: skip
    for name, size in DRAWN:
        of = tasks.build_task({"name": name})
        variants[f"{name}, sizes to {size}, drawn"] = lambda of=of, size=size: of.draw(
            count, size, generator
        )
    taken = in_turn(variants, rounds)
    return {f"{k}, problems a second": int(count / statistics.median(v)) for k, v in taken.items()}


def evaluation(digits: int = 100, each: int = 20) -> dict:
    """Time the single pass over all pairs of lengths to 100, for the rows of `addition_schemes`.

    They are untrained, which costs as much, and their ids reach as far as 100 digits need.
    """
    torch.set_num_threads(2)
    given = {"task": {"name": "addition"}, "grid": digits, "each": each}
    table = problem_sets.draw_problem_set("benchmark", ProblemSet.parse(given, "problems"))
    reach = {"table": 310, "offset": 100, "limit": 120}
    found, rows = {}, list_rows("addition_schemes")
    with progress_bar(len(rows), "evaluation") as shown:
        for row in rows:
            of = load_run(row)
            wide = [{**pair, **{k: reach[k] for k in reach.keys() & pair}} for pair in of.positions]
            system = System(of.model_copy(update={"positions": wide}))
            began = time.perf_counter()
            score_system(system, table)
            found[f"{row}, seconds"] = round(time.perf_counter() - began, 1)
            shown.update()
    return {"problems": len(table), **found}


def together(models: int = 100, steps: int = 55, rounds: int = 5) -> dict:
    """Time 100 models of the noisy majority (d = 8, a = 4) as one computation, and one by one.

    One by one a model takes the same fast path by counts, or that of any other row, by tokens.
    """
    torch.set_num_threads(1)
    row = load_run("noisy_majority_d8_a4")
    never = {"steps": 10**6, "score_every": 10**6, "checkpoint_every": 10**6}
    many = row.training.model_copy(update=never)
    apart = {"batched_seeds": False, "held_out": None, "keep_weights": "last", "dropout": 0.0}
    trainers = {
        "together": BatchedTrainer(row.model_copy(update={"training": many}), range(models), None),
        "alone": BatchedTrainer(row.model_copy(update={"training": many}), [0], None),
        "alone, by tokens": Trainer(
            row.model_copy(update={"training": many.model_copy(update=apart)}), 0, None
        ),
    }

    def some(trainer: Trainer | BatchedTrainer) -> None:
        ends = trainer.run.training.model_copy(update={"steps": trainer.step + steps})
        trainer.run = trainer.run.model_copy(update={"training": ends})
        trainer.train()

    taken = in_turn({name: lambda of=of: some(of) for name, of in trainers.items()}, rounds)
    times = {name: round(1e3 * statistics.median(of) / steps, 2) for name, of in taken.items()}
    return {
        "models": models,
        **{f"{models} models together, times faster than {name}": round(
            models * ratio(taken, "together", name), 1) for name in list(trainers)[1:]},
        "CPU milliseconds a step": times,
    }  # fmt: skip


def long(rounds: int = 5) -> dict:
    """Time attention to neighbours alone, against attention to all tokens, by length."""
    torch.set_num_threads(2)
    given = {"task": {"name": "addition"}, "model": {"layers": 1, "width": 64, "heads": 4}}
    given["positions"] = [{"ids": "abacus", "encoding": "relative", "window": [0, 1]}]
    found: dict = {}

    def passed(attention: str, digits: int) -> Callable[[], object]:
        of = {**given, "model": {**given["model"], "attention": attention}}
        system = System(make_run(of))
        cells = torch.full((1, 2), digits)
        batch = system.format.write(system.task.draw_for_cells(cells, stream(0, "benchmark")))
        ids = system.ids(batch)
        return lambda: teacher_forced_pass(system, batch, ids_by_start=[ids])

    for digits in (100, 300, 1000, 3000):
        variants = {name: passed(name, digits) for name in ("fused", "gathered")}
        taken = in_turn(variants, rounds)
        found[f"{digits} digits, times faster"] = ratio(taken, "gathered", "fused")
    return found


def machine() -> dict:
    """Return what the numbers were taken on."""
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "torch": torch.__version__,
        "matmul": torch.get_float32_matmul_precision(),
    }


if __name__ == "__main__":
    known = {"training": training, "data": data, "evaluation": evaluation, "together": together,
             "long": long}  # fmt: skip
    chosen = sys.argv[1:] or list(known)
    if set(chosen) - set(known):
        sys.exit(f"benchmark: {chosen} does not fit, expected some of {', '.join(known)}")
    print(json.dumps({"machine": machine(), **{name: known[name]() for name in chosen}}, indent=2))
