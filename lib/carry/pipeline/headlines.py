"""The papers' headlines as the papers evaluate them, for the first table of the README.

Every number is from one greedy pass with ids from 1, and the exact match of whole answers; the
reading `window` has a column of its own. The rows are those of the study `headlines`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd

from carry import results
from carry.config import run_settings
from carry.pipeline.slices import read_runs
from carry.training.cost import count_step

PROFILE = "long"
READINGS = ("1", "window")


class Headline(NamedTuple):
    """A result of a paper: which sums of which row, and the operations of the paper's training.

    `least`, `most`: the longest operand of the sums. `pairs`: sums of every pair of lengths, in the
    grid; else of equal lengths. `worst`: the accuracy at the worst of the lengths.
    """

    row: str
    model: str
    sums: str
    paper: str
    operations: float | None
    least: int
    most: int
    pairs: bool = False
    worst: bool = False

    def select(self, cells: pd.DataFrame) -> pd.DataFrame:
        """Return the cells of these sums."""
        kind = cells["set"] == ("grid" if self.pairs else "equal")
        longest = cells[["i", "j"]].max(axis=1)
        return cells[(cells["row"] == self.row) & kind & longest.between(self.least, self.most)]


ABACUS, COUPLED = "Abacus, trained to 20 digits", "coupled, trained to 30 digits"
PAIRS = "all pairs of lengths to 100, one above 20"
EACH, BEYOND = "the worst equal length of 21 to 120", "equal lengths of 101 to 160"
LIMIT = 8e18  # of one training, the limit of mcleish2024 (A.7)
HEADLINES = (
    Headline("addition_abacus_20_jumps_longer", ABACUS, PAIRS, "92.9%", LIMIT, 21, 100, True),
    Headline("addition_abacus_injected_20_jumps_longer", f"{ABACUS}, injected", PAIRS, "", LIMIT,
             21, 100, True),
    Headline("addition_abacus_looped_20_jumps_longer", f"{ABACUS}, looped", PAIRS, "99.1%", LIMIT,
             21, 100, True),
    Headline("addition_abacus_looped_20_jumps_longer", f"{ABACUS}, looped", EACH, "95% or more",
             LIMIT, 21, 120, worst=True),
    Headline("addition_abacus_looped_20_jumps_longer", f"{ABACUS}, looped", BEYOND, "", LIMIT,
             101, 160),
    Headline("addition_coupled_30_jumps_longer", COUPLED, "equal lengths of 31 to 200", "solved",
             None, 31, 200),
    Headline("addition_coupled_30_jumps_longer", COUPLED, "the worst of them", "solved", None,
             31, 200, worst=True),
)  # fmt: skip


def summarise_headlines() -> list[dict[str, Any]]:
    """Return a record for each headline whose row has results.

    There is none without the results of the profile `long`, as in a home of tests.

    Of each reading a record has the mean, the lowest and the highest accuracy of the seeds, with
    the number of problems of a seed and of seeds; and the median of the core-minutes of a seed,
    where the trainings were recorded.
    """
    if not results.has_results(PROFILE):
        return []
    cells, runs, records = results.read_table(PROFILE, "cells"), read_runs(PROFILE), []
    for headline in HEADLINES:
        chosen = headline.select(cells)
        if chosen.empty:
            continue
        run = run_settings.load_run(headline.row, PROFILE)
        own = runs[runs["row"] == headline.row]
        minutes = own["core_seconds"].median() / 60 if "core_seconds" in own else float("nan")
        operations = count_step(run).operations * run.training.steps
        readings = {
            reading: _summarise(chosen[chosen["start"] == reading], headline.worst)
            for reading in READINGS
        }
        records.append(
            {
                "row": headline.row, "model": headline.model, "sums": headline.sums,
                "paper": headline.paper, **readings,
                "core_minutes": None if pd.isna(minutes) else round(float(minutes), 1),
                "less_computation": headline.operations and round(headline.operations / operations),
            }
        )  # fmt: skip
    return records


def _summarise(cells: pd.DataFrame, worst: bool) -> dict[str, Any]:
    keys = ["seed", "i"] if worst else ["seed"]
    counts = cells.groupby(keys)[["exact", "n"]].sum()
    accuracy = (counts["exact"] / counts["n"]).groupby("seed").min()
    return {
        "mean": round(float(accuracy.mean()), 6),
        "range": [round(float(accuracy.min()), 6), round(float(accuracy.max()), 6)],
        "n": int(counts["n"].groupby("seed").sum().max()),
        "seeds": len(accuracy),
    }


def tabulate_headlines(records: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Return the names of the columns of a table of headlines, and its lines as texts."""
    names = ["model", "sums", "paper", "ours, one pass", "with a window", "seeds, n of each"]
    names += ["core-minutes of a seed", "computation of the paper's"]
    lines = []
    for record in records:
        minutes, less = record["core_minutes"], record["less_computation"]
        lines.append(
            [
                *(record["model"], record["sums"], record["paper"] or "not stated"),
                *(_format_reading(record[reading]) for reading in READINGS),
                f"{record['1']['seeds']}, {record['1']['n']:,}",
                f"{minutes:.0f}" if minutes else "not recorded",
                f"1 / {less:,}" if less else "not stated",
            ]
        )
    return names, lines


def format_headlines(records: list[dict[str, Any]]) -> str:
    """Return a Markdown table of headlines: the paper's number, and ours in one pass."""
    names, lines = tabulate_headlines(records)
    rows = [names, ["---"] * len(names), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _format_reading(number: dict[str, Any]) -> str:
    mean, low, high = map(_format_share, (number["mean"], *number["range"]))
    return f"{mean}%" if low == high else f"{mean}% ({low} to {high})"


def _format_share(share: float) -> str:
    """Return a share in percent, near 1 with two decimals, in which models differ there."""
    if 0.99 <= share < 1.0:
        return f"{100 * share:.2f}" if share < 0.99995 else ">99.99"
    return format_percent(share)


def format_percent(share: float) -> str:
    """Return a share in percent; only one without any error is written as 100.

    >>> [format_percent(share) for share in (0.0, 0.0001, 0.985, 0.99999, 1.0)]
    ['0', '<0.1', '98.5', '>99.9', '100']
    """
    if share in (0.0, 1.0):
        return f"{100 * share:.0f}"
    return ">99.9" if share >= 0.9995 else "<0.1" if share < 0.0005 else f"{100 * share:.1f}"
