"""Attention of a row on the problems of its `evaluation.attention_cell` (cho2025, 4.4 and Fig. 7).

The evaluate stage writes these tables next to the scores of the row (`write_attention`).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from carry.analyses import ANY, join_tables
from carry.config import paths, run_settings
from carry.evaluation import trained_models
from carry.interpretability.attention import COLUMNS, describe_attention

__all__ = ["COLUMNS", "TASK", "tables", "write_attention"]

TASK = ANY


def tables(row: str, profile: str, seeds: Iterable[int] | None = None) -> dict[str, pd.DataFrame]:
    """Average the attention of the seeds of a row (default: all) over problems of one cell.

    Returns:
        attention, heads, tokens: see `carry.interpretability.attention.describe_attention`; no
        tables if the row names no cell.

    Raises:
        SettingsError: if the row has no weights, or its format does not suit.
    """
    run = run_settings.load_run(row, profile)
    if run.evaluation.attention_cell is None:
        return {}
    parts = []
    for seed in range(run.seeds) if seeds is None else seeds:
        labels = {"row": row, "profile": profile, "seed": seed}
        system = trained_models.load_trained(profile, row, seed)
        parts.append(describe_attention(system, tuple(run.evaluation.attention_cell), labels))
    return join_tables(parts)


def write_attention(row: str, profile: str, seeds: Iterable[int] | None = None) -> Path | None:
    """Write the attention tables of a row next to its scores; remove them if it names no cell."""
    folder = paths.reports_path(profile, "results", profile, row)
    new = tables(row, profile, seeds)
    for name in COLUMNS:
        path = folder / f"{name}.parquet"
        if name not in new:
            path.unlink(missing_ok=True)  # of earlier settings
            continue
        with paths.write_atomically(path) as draft:
            new[name].to_parquet(draft, index=False)
    return folder if new else None
