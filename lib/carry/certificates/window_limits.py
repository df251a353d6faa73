"""Limits of windows: two problems that share a context and have different next tokens.

A model with these windows predicts the same token in both problems, so it is wrong in one of them,
however it is trained. If no such pair is found, each context determines the next token in all
problems of the sample; `carry.certificates.coverings` has the cases in which this is proved.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pandas as pd
import torch
from jaxtyping import Bool
from torch import Tensor

from carry import formats, progress
from carry.certificates.contexts import (
    ConflictingContexts,
    Contexts,
    iterate_contexts,
    unique_contexts,
)
from carry.certificates.verification import render_context
from carry.data.problems import Problems
from carry.experiments.resolve import make_run
from carry.models.hooks import Hooks
from carry.models.system import System
from carry.randomness import stream

PROBLEMS = 3_000  # in each case, with up to `Case.max_digits` digits
SHORT = 3  # digits of the problem whose visible tokens are shown
HIGHEST_FIRST = {"reverse_operands": False, "reverse_answer": False}


class Case(NamedTuple):
    """A task, a format, and the ids that relative encodings use."""

    name: str
    task: dict[str, Any]
    format: dict[str, Any]
    ids: list[dict[str, Any]]
    max_digits: int = 16


PLACES, ABACUS = [{"ids": "coupled"}], [{"ids": "abacus"}]
LEVELS = [{"ids": "coupled", "level": level} for level in (1, 2, 3, 4)]
ROWS = LEVELS[:2]
ADDITION, PRODUCT = {"name": "addition"}, {"name": "multiplication"}
SEVERAL = {"name": "multi_operand_addition"}
STEPS, REVERSED = {"name": "scratchpad"}, {"name": "sub_task", "prefix": "rev"}

CASES = [
    Case("sums, lowest digit first", ADDITION, {}, ABACUS),
    Case("sums, highest digit first", ADDITION, {**HIGHEST_FIRST, "pad": True}, PLACES),
    Case("sums, lowest digit first, random spaces", ADDITION, {"spaces": 0.5}, ABACUS),
    Case("products, lowest digit first", PRODUCT, {}, PLACES),
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
    Case("next operand of a sorted list", {"name": "sorting"}, {"name": "labelled"}, ABACUS, 8),
    Case("lists sorted by insertion", {"name": "sorting"}, {"name": "insertion_sort"}, LEVELS, 5),
    Case("both numbers reversed, by place", ADDITION, REVERSED, PLACES),
    Case("both numbers reversed, by place and number", ADDITION, REVERSED, ROWS),
]


def find_limits(
    windows: tuple[int, ...] = (0, 1, 2, 3, 5),
    problems: int = PROBLEMS,
    cases: Sequence[Case] = CASES,
) -> pd.DataFrame:
    """Search for two problems that share a context and go on differently, by case and window.

    Returns:
        One row for each `case` and `window` (the same at each level): the number of `problems`, the
        number of `contexts` if each determines the next token, and otherwise the shared `context`,
        the two problems (`one`, `other`) and the next token of each (`then`, `or_then`).
    """
    rows = []
    with progress.progress_bar(len(cases) * len(windows), "limits", unit="window") as bar:
        for case, window in itertools.product(cases, windows):
            system = _build_system(case, window)
            row = {"case": case.name, "window": window, "problems": problems}
            rows.append(row | _find_conflict(system, _draw_problems(system, case, problems)))
            bar.update(1)
    return pd.DataFrame(rows)


@torch.inference_mode()
def find_visible_tokens(case: Case, window: int) -> tuple[str, Bool[Tensor, "A T"]]:
    """Return a short problem as text, and which of its tokens each token of the response sees.

    >>> text, visible = find_visible_tokens(CASES[0], 0)
    >>> "".join(token for token, seen in zip(text, visible[0]) if seen)
    '^+='
    """
    system = _build_system(case, window)
    problem = system.task.draw(1, min(SHORT, case.max_digits), stream(0, "visible tokens"))
    batch, hooks = system.format.write(problem), Hooks(["*.pattern"])
    system.network(batch.tokens, system.ids(batch), hooks=hooks)
    weights = hooks.all_layers("pattern")[0][0].amax(0)  # 0 where a token is hidden
    return formats.to_text(batch.tokens[0]), weights[int(batch.start[0]) - 1 : -1] > 0


def _build_system(case: Case, window: int) -> System:
    pairs = [{**pair, "encoding": "relative", "window": window} for pair in case.ids]
    settings = {
        "task": case.task,
        "format": case.format,
        "positions": pairs,
        "model": {"layers": 1, "width": 8, "heads": 1},
        "evaluation": {"digits": case.max_digits},
    }
    return System(make_run(settings))


def _find_conflict(system: System, problems: Problems) -> dict[str, Any]:
    try:
        contexts = unique_contexts(system, iterate_contexts(system, problems))
        return {"contexts": len(contexts), "context": None}
    except ConflictingContexts as conflict:
        first, second = conflict.first, conflict.second
    return {
        "contexts": None,
        "context": render_context(first.tokens[0]),
        "one": _render_tokens_so_far(system, problems, first),
        "then": formats.to_text(first.target),
        "other": _render_tokens_so_far(system, problems, second),
        "or_then": formats.to_text(second.target),
    }


def _draw_problems(system: System, case: Case, count: int) -> Problems:
    """Return random problems; half of them have the digits 0 and 9 only, for long carries."""
    drawn = system.task.draw(count, case.max_digits, stream(0, "limits"))
    if int(drawn.operands.max()) <= 1:
        return drawn
    zeros_and_nines = drawn.operands % 2 * 9
    top = (drawn.lengths - 1).clamp(min=0)[:, :, None]
    is_long = (drawn.lengths > 1)[:, :, None]  # no number may begin with a zero
    zeros_and_nines = torch.where(is_long, zeros_and_nines.scatter(2, top, 9), zeros_and_nines)
    is_even = (torch.arange(count) % 2 == 0)[:, None, None]
    operands = torch.where(is_even, zeros_and_nines, drawn.operands)
    return replace(system.task.solve(operands, drawn.lengths), label=drawn.label)


def _render_tokens_so_far(system: System, problems: Problems, context: Contexts) -> str:
    """Return the text up to the query of a context."""
    number = int(context.problem[0])
    batch = system.format.write(problems[number : number + 1].trim())
    return formats.to_text(batch.tokens[0, : int(batch.start[0]) + int(context.slot[0])])
