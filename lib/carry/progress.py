"""Progress bars and warnings for terminals and notebooks."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import tqdm
import tqdm.auto


def progress_bar(total: int, label: str, **options: Any) -> tqdm.tqdm:
    """Return a tqdm bar: a widget in JupyterLab, text in a terminal and in the pipeline.

    The environment variable CARRY_PROGRESS chooses: `auto` (default), `text`, or `off` for
    notebooks whose outputs are committed and compared.

    >>> with progress_bar(2, "steps", disable=True) as bar:
    ...     _ = bar.update(2)
    """
    mode = os.environ.get("CARRY_PROGRESS", "auto")
    if mode == "off":
        options["disable"] = True
    if not sys.stderr.isatty() and mode != "auto":
        options.setdefault("mininterval", 5.0)  # ten lines a second would fill a log
    kind = tqdm.tqdm if mode == "text" else tqdm.auto.tqdm
    return kind(total=total, desc=label, dynamic_ncols=True, **options)


def print_warning(message: str) -> None:
    """Print one line on standard error, above a progress bar."""
    tqdm.tqdm.write(f"warning: {message}", file=sys.stderr)


def count_progress(report: Callable[..., None], total: int, noun: str) -> Callable[[int], None]:
    """Return a function that adds to what is done, and reports its share of the total.

    >>> count = count_progress(print, 4_000, "problems")
    >>> count(1_000), count(2_000)
    0.25 1,000 of 4,000 problems
    0.75 3,000 of 4,000 problems
    (None, None)
    """
    done = 0

    def count(more: int) -> None:
        nonlocal done
        done += more
        report(min(1.0, done / total), f"{done:,} of {total:,} {noun}")

    return count
