"""One progress bar for terminals and notebooks alike."""

from __future__ import annotations

import os
import sys
from typing import Any

import tqdm
import tqdm.auto


def progress_bar(total: int, label: str, **more: Any) -> tqdm.tqdm:
    """Return a tqdm bar: a widget in JupyterLab, text in a terminal or under the pipeline.

    The variable CARRY_PROGRESS chooses: `auto` (default), `text`, or `off` for notebooks whose
    outputs are committed and compared.

    >>> with progress_bar(2, "steps", disable=True) as steps:
    ...     _ = steps.update(2)
    """
    mode = os.environ.get("CARRY_PROGRESS", "auto")
    if mode == "off":
        more["disable"] = True
    kind = tqdm.tqdm if mode == "text" else tqdm.auto.tqdm
    # Written to a pipe or a log, a bar that redraws ten times a second is noise.
    quiet = {} if sys.stderr.isatty() or mode == "auto" else {"mininterval": 5.0}
    return kind(total=total, desc=label, dynamic_ncols=True, **{**quiet, **more})
