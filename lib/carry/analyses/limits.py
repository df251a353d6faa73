"""What no window can decide: two problems with one context that go on differently.

A model whose attention is local in place says the same in both, so it is wrong in one of them,
however it is trained. Where no such pair is found, contexts tell what is due in all problems that
were tried; `carry.certificates.coverings` has those for which that is proved.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import pandas as pd
import torch

from carry import formats, processes, progress
from carry.certificates.contexts import Contexts, Undetermined, distinct, of_problems
from carry.certificates.verification import shown
from carry.config.run_settings import make_run
from carry.data.problems import Problems
from carry.models.system import System
from carry.randomness import stream

PROBLEMS = 3_000  # that are tried, of sizes up to `Case.most`
PLAIN = {"reverse_operands": False, "reverse_answer": False}


class Case(NamedTuple):
    """A task, how it is written, and which ids are read relatively."""

    name: str
    task: dict[str, Any]
    format: dict[str, Any]
    ids: list[dict[str, Any]]
    most: int = 16


PLACES, ABACUS = [{"ids": "coupled"}], [{"ids": "abacus"}]
LEVELS = [{"ids": "coupled", "level": level} for level in (1, 2, 3, 4)]
ROWS = LEVELS[:2]
ADDITION, PRODUCT = {"name": "addition"}, {"name": "multiplication"}
SEVERAL = {"name": "multi_operand_addition"}
STEPS, REVERSED = {"name": "scratchpad"}, {"name": "sub_task", "prefix": "rev"}

CASES = [
    Case("sums, the ones first", ADDITION, {}, ABACUS),
    Case("sums, the highest digit first", ADDITION, {**PLAIN, "pad": True}, PLACES),
    Case("sums, the ones first, random spaces", ADDITION, {"spaces": 0.5}, ABACUS),
    Case("products, the ones first", PRODUCT, {}, PLACES),
    Case("products by the paper's steps", PRODUCT, STEPS, LEVELS[:3], 8),
    Case("products by local steps", {**PRODUCT, "local": True}, STEPS, LEVELS, 6),
    Case("sums of up to 8 numbers, without steps", SEVERAL, {"pad": True}, PLACES, 8),
    Case("sums of up to 14 numbers, without steps", SEVERAL, {"pad": True}, PLACES, 14),
    Case("running sums, without zeros", SEVERAL, {**STEPS, "pad": False}, ROWS, 6),
    Case("local running sums", {**SEVERAL, "local": True}, {**STEPS, "pad": False}, ROWS, 6),
    Case("copying, places counted in each string", {"name": "copying"}, {}, ABACUS),
    Case("reversing, places counted in each string", {"name": "reversing"}, {}, ABACUS),
    Case("reversing, places counted down", {"name": "reversing"}, {}, PLACES),
    Case("parity of all bits, without steps", {"name": "parity"}, {}, PLACES),
    Case("parity by prefixes", {"name": "parity"}, {**STEPS, "reverse_operands": True}, PLACES),
    Case("which operand is next, of a sorted list", {"name": "sorting"},
         {"name": "labelled"}, ABACUS, 8),
    Case("lists sorted by insertion", {"name": "sorting"}, {"name": "insertion_sort"}, LEVELS, 5),
    Case("both numbers reversed, by place", ADDITION, REVERSED, PLACES),
    Case("both numbers reversed, by place and number", ADDITION, REVERSED, ROWS),
]  # fmt: skip


def limits(windows: tuple[int, ...] = (0, 1, 2, 3, 5), problems: int = PROBLEMS) -> pd.DataFrame:
    """Look for two problems with one context, in each case and for each window.

    Returns:
        For each `case` and `window` (the same at each level) how many `problems` were tried, how
        many `contexts` they had until two had one, if two did; and then the `context`, and of both
        problems what they are (`one`, `other`) and what is due there (`then`, `or_then`).
    """
    jobs = [(case, window, problems) for case in CASES for window in windows]
    with progress.progress_bar(len(jobs), "limits", unit="window") as shown:
        return pd.DataFrame(processes.run_jobs(_found, jobs, shown.update, processes.count_cores()))


def _found(report: Any, case: Case, window: int, problems: int) -> dict[str, Any]:
    found = _conflict(_system(case, window), case, problems)
    report(1)
    return {"case": case.name, "window": window, "problems": problems, **found}


def _system(case: Case, window: int) -> System:
    pairs = [{**pair, "encoding": "relative", "window": window} for pair in case.ids]
    given = {"task": case.task, "format": case.format, "positions": pairs}
    model = {"layers": 1, "width": 8, "heads": 1}
    evaluation = {"digits": case.most}
    return System(make_run({**given, "model": model, "evaluation": evaluation}))


def _conflict(system: System, case: Case, count: int) -> dict[str, Any]:
    drawn = _tried(system, case, count)
    try:
        return {"contexts": len(distinct(system, of_problems(system, drawn))), "context": None}
    except Undetermined as found:
        one, other = found.one, found.other
    return {
        "contexts": None,
        "context": shown(one.tokens[0]),
        "one": _written(system, drawn, one),
        "then": formats.text(one.target),
        "other": _written(system, drawn, other),
        "or_then": formats.text(other.target),
    }


def _tried(system: System, case: Case, count: int) -> Problems:
    """Return random problems, in half of which digits are 0 or 9: there carries go far."""
    drawn = system.task.draw(count, case.most, stream(0, "limits"))
    half = torch.arange(count) % 2 == 0
    if int(drawn.operands.max()) > 1:
        few = drawn.operands % 2 * 9
        top = (drawn.lengths - 1).clamp(min=0)[:, :, None]
        long = (drawn.lengths > 1)[:, :, None]
        few = torch.where(long, few.scatter(2, top, 9), few)  # no number begins with a zero
        operands = torch.where(half[:, None, None], few, drawn.operands)
        return replace(system.task.solve(operands, drawn.lengths), label=drawn.label)
    return drawn


def _written(system: System, drawn: Any, of: Contexts) -> str:
    """Return a problem as far as it has been written when its context is met."""
    number = int(of.problem[0])
    batch = system.format.write(drawn[number : number + 1].trim())
    return formats.text(batch.tokens[0, : int(batch.start[0]) + int(of.slot[0])])
