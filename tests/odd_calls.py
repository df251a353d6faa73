"""Call the functions that CONTRIBUTING.md names with odd arguments; print each that fails oddly.

    python odd_calls.py COUNT SEED

A call may succeed, or raise `SettingsError` in one line of fewer than 500 characters. This runs in
a process of its own, since the tests' own check of types and shapes would answer first.
"""

import faulthandler
import random
import sys
import time
import traceback
from collections import Counter

import torch

from carry.certificates.verification import certify_model, enumerate_contexts
from carry.experiments.resolve import load_run, make_run
from carry.config.settings import SettingsError
from carry.evaluation.ask import ask, read_answer
from carry.evaluation.rows import evaluate_rows
from carry.evaluation.trained_models import load_trained
from carry.exports import load_exported
from carry.models.hooks import Hooks
from carry.models.system import System
from carry.positions import show_ids
from carry.randomness import stream
from carry.tasks import build_task

torch.set_num_threads(1)
ADDITION = {"name": "addition"}
POSITIONS = [{"ids": "abacus", "encoding": "learned", "offset": 9}]
MODEL = {"layers": 1, "width": 16, "heads": 2}
RUN = make_run({"task": ADDITION, "positions": POSITIONS, "model": MODEL,
                "evaluation": {"digits": 10, "starts": [1]}})  # fmt: skip
PAIR = {"ids": "coupled", "encoding": "relative", "window": [0, 1]}
PARITY = make_run({"task": {"name": "parity"}, "model": MODEL, "positions": [PAIR],
                   "format": {"name": "scratchpad", "reverse_operands": True}})  # fmt: skip
SYSTEM, CERTIFIED = System(RUN), System(PARITY)
PROBLEMS = SYSTEM.task.draw(4, digits=3, generator=stream(0, "odd"))
BATCH = SYSTEM.format.write(PROBLEMS)
IDS = SYSTEM.ids(BATCH)
STEPS = ask(SYSTEM, 1, 2)
CONTEXTS = enumerate_contexts(CERTIFIED)


def unhashable(value):
    try:
        hash(value)
    except TypeError:
        return True
    return False


ODD = [
    None, True, False, 0, -1, -(10**20), 10**12, 10**30, 1.5, float("nan"), float("inf"), "", "a",
    "-3", "1.5", "x" * 5000, "\n", "é", b"7", [], [None], [1, 2], {}, {"name": "addition"}, (),
    {1, 2}, object(), lambda *_: None, torch.tensor(3), torch.zeros(0), torch.zeros(2, 3),
    torch.full((2, 3), -7), torch.zeros(4, 7, dtype=torch.long), torch.tensor([[10**9]]),
    torch.Generator(), "cuda", "meta", torch.device("meta"), PROBLEMS, BATCH, RUN, SYSTEM,
]  # fmt: skip

# Each function with arguments that are right, by name; some are replaced by odd values.
CALLS = {
    "build_task": (lambda settings, where: build_task(settings, where),
                   {"settings": ADDITION, "where": "task"}),
    "draw": (SYSTEM.task.draw, {"count": 3, "digits": 2, "generator": stream(0, "draw")}),
    "draw_sorting": (build_task({"name": "sorting"}).draw,
                     {"count": 3, "digits": 2, "generator": stream(0, "draw")}),
    "solve_text": (lambda a, b: SYSTEM.task.solve_text(a, b), {"a": "999", "b": "1"}),
    "solve_text_count": (lambda more: SYSTEM.task.solve_text(more, more, more), {"more": "9"}),
    "solve_text_string": (lambda a: CERTIFIED.task.solve_text(a), {"a": "101"}),
    "stream": (lambda seed, purpose, device: stream(seed, purpose, device=device),
               {"seed": 0, "purpose": "mine", "device": "cpu"}),
    "show_ids": (lambda scheme, a, b: show_ids(scheme, a, b),
                 {"scheme": SYSTEM.schemes[0], "a": "12", "b": "7"}),
    "make_run": (make_run, {"settings": {"task": ADDITION}, "name": "mine", "profile": "smoke"}),
    "System": (System, {"run": RUN, "seed": 0, "device": "cpu"}),
    "write": (SYSTEM.format.write, {"problems": PROBLEMS}),
    "write_scratchpad": (CERTIFIED.format.write,
                         {"problems": CERTIFIED.task.draw(2, 3, stream(0, "parity"))}),
    "ids": (SYSTEM.ids, {"batch": BATCH, "start": 1}),
    "logits": (SYSTEM.logits, {"batch": BATCH, "ids": IDS, "at": None, "recurrences": None}),
    "network": (SYSTEM.network, {"tokens": BATCH.tokens, "ids": IDS, "at": None,
                                 "recurrences": None, "hooks": None}),
    "hooks": (lambda read, replace: SYSTEM.network(BATCH.tokens, IDS, hooks=Hooks(read, replace)),
              {"read": ["*.pattern"], "replace": {"0.z": torch.zeros_like}}),
    "hooks_replace": (lambda name, value: SYSTEM.network(
        BATCH.tokens, IDS, hooks=Hooks(["*"], {"0.z" if unhashable(name) else name: value})),
        {"name": "0.z", "value": torch.zeros_like}),
    "all_layers": (Hooks().all_layers, {"part": "pattern"}),
    "load_trained": (load_trained, {"profile": "smoke", "row": "addition_abacus", "seed": 0,
                                    "device": "cpu"}),
    "load_exported": (load_exported, {"folder": "nothing", "device": "cpu"}),
    "load_run": (load_run, {"name": "addition_abacus", "profile": "smoke"}),
    "ask": (lambda a, b, start: ask(SYSTEM, a, b, start=start), {"a": 1, "b": "2", "start": 1}),
    "ask_system": (lambda system, a: ask(system, a, 2), {"system": SYSTEM, "a": 3}),
    "read_answer": (read_answer, {"system": SYSTEM, "steps": STEPS}),
    "evaluate_rows": (evaluate_rows, {"rows": ["addition_abacus"], "profile": "smoke"}),
    "evaluate_row": (lambda row: evaluate_rows([row], "smoke"), {"row": "addition_abacus"}),
    "enumerate_contexts": (enumerate_contexts, {"system": CERTIFIED}),
    "certify_model": (certify_model, {"system": CERTIFIED, "enumerated": CONTEXTS}),
}  # fmt: skip


def main(count, seed):
    drawn, failed = random.Random(seed), Counter()
    faulthandler.dump_traceback_later(600, exit=True)
    for number in range(count):
        name = list(CALLS)[number % len(CALLS)]
        function, arguments = CALLS[name]
        arguments = dict(arguments)
        for key in drawn.sample(list(arguments), drawn.randint(1, min(2, len(arguments)))):
            arguments[key] = drawn.choice(ODD)
        before = time.perf_counter()
        try:
            with torch.random.fork_rng(devices=[]):
                function(**arguments)
        except SettingsError as error:
            if "\n" in str(error) or len(str(error)) >= 500:
                failed[name, "long"] += 1
                print(name, "LONG", str(error)[:200])
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            failed[name, type(error).__name__] += 1
            shown = {key: repr(value)[:50].replace("\n", " ") for key, value in arguments.items()}
            place = f"{last.filename.rpartition('/')[2]}:{last.lineno}"
            print(name, shown, f"{type(error).__name__} at {place}: {str(error)[:80]!r}")
        if time.perf_counter() - before > 5:
            failed[name, "slow"] += 1
            print(name, "SLOW", {key: repr(value)[:80] for key, value in arguments.items()})
    print(f"{count} calls, {failed.total()} failed")
    return failed


if __name__ == "__main__":
    sys.exit(bool(main(int(sys.argv[1]), int(sys.argv[2]))))
