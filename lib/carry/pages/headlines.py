"""The papers' headlines as the papers evaluate them, for the first table of the README.

Every number is from one greedy pass with ids from 1, and the exact match of whole answers. The rows
are those of the study `headlines`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd

from carry import results
from carry.evaluation.intervals import format_percent
from carry.training.cost import count_training_operations


class Headline(NamedTuple):
    """A result of a paper: which problems of which row, and how they are scored.

    The score is of `all` problems together, those of the `worst` cell, or the share of `solved`
    cells, of which the median model solves `level`, as in cho2025.
    """

    row: str
    model: str
    problems: str
    paper: str
    operations: float | None  # of the paper's training
    least: int  # the larger size of the problems
    most: int
    kind: str = "equal"  # both sizes are equal; or "grid", every pair of sizes; or "far"
    score: str = "all"
    level: float = 0.9
    second: int | None = None  # the largest second size, if it is not `most`

    def select(self, cells: pd.DataFrame) -> pd.DataFrame:
        """Return the cells of these problems."""
        chosen = (cells["row"] == self.row) & (cells["set"] == self.kind) & (cells["start"] == "1")
        chosen &= cells[["i", "j"]].max(axis=1).between(self.least, self.most)
        return cells[chosen & (cells["j"] <= (self.second or self.most))]

    def summarise(self, cells: pd.DataFrame) -> dict[str, Any]:
        """Return the score, that of the lowest and of the highest seed, and the numbers behind it.

        The score is the mean over seeds; of solved cells it is that of the median in each cell. `n`
        is the number of problems of a seed, where cells are judged one by one that of a cell.
        """
        counts, scores = _count_cells(cells), self.score_seeds(cells)
        medians = (counts["exact"] / counts["n"]).groupby(["i", "j"]).median()
        score = (medians >= self.level).mean() if self.score == "solved" else scores.mean()
        return {
            "score": round(float(score), 6),
            "range": [round(float(scores.min()), 6), round(float(scores.max()), 6)],
            "n": int((counts.groupby("seed").sum() if self.score == "all" else counts)["n"].max()),
            "seeds": len(scores),
        }

    def score_seeds(self, cells: pd.DataFrame) -> pd.Series:
        """Return the score of each seed."""
        counts = _count_cells(cells)
        accuracy, seeds = counts["exact"] / counts["n"], counts.groupby("seed").sum()
        return {
            "all": seeds["exact"] / seeds["n"],
            "worst": accuracy.groupby("seed").min(),
            "solved": (accuracy >= self.level).groupby("seed").mean(),
        }[self.score]


def _count_cells(cells: pd.DataFrame) -> pd.DataFrame:
    return cells.groupby(["seed", "i", "j"])[["exact", "n"]].sum()


ABACUS, COUPLED = "Abacus, trained to 20 digits", "coupled, trained to 30 digits"
PAIRS = "all pairs of lengths to 100, at least one above 20"
EACH = "the worst equal length of 21 to 120"
LIMIT = 8e18  # of one training, the limit of mcleish2024 (A.7)
SIZES = "sizes to 30 by 30 with a median of 90% or more"
SUMS, PARITY = "sums of up to 10 operands of 10 digits", "parity to 20 bits"
HEADLINES = (
    Headline("addition_abacus_20_jumps_longer", ABACUS, PAIRS, "92.9%", LIMIT, 21, 100, "grid"),
    Headline("addition_abacus_20_jumps_longer", ABACUS, "500 digits", "", LIMIT, 500, 500, "far"),
    Headline("addition_abacus_injected_20_jumps_longer", f"{ABACUS}, injected", PAIRS, "", LIMIT,
             21, 100, "grid"),
    Headline("addition_abacus_looped_20_jumps_longer", f"{ABACUS}, looped", PAIRS, "99.1%", LIMIT,
             21, 100, "grid"),
    Headline("addition_abacus_looped_20_jumps_longer", f"{ABACUS}, looped", EACH, "95% or more",
             LIMIT, 21, 120, score="worst"),
    Headline("addition_coupled_30_jumps_longer", COUPLED, "the worst equal length of 31 to 200",
             "solved", None, 31, 200, score="worst"),
    Headline("addition_coupled_30_jumps_longer", COUPLED, "1,000 digits", "", None, 1000, 1000,
             "far"),
    Headline("multi_operand_addition_coupled_scratchpad_10_2l2h_jump_longer", f"coupled, {SUMS}",
             SIZES, "all", None, 11, 30, "grid", "solved"),
    Headline("multi_operand_addition_coupled_scratchpad_10_1l4h_jump_longer",
             f"coupled, one layer of four heads, {SUMS}", SIZES, "", None, 11, 30, "grid",
             "solved"),
    Headline("multiplication_coupled_scratchpad_10_jump_longer",
             "coupled, products of up to 10 by 10 digits",
             "sizes to 20 by 15 with a median of 78.55% or more", "all", None, 11, 20, "grid",
             "solved", 0.7855, 15),
    Headline("parity_coupled_scratchpad_jumps_longer", f"coupled, {PARITY}", "21 to 100 bits",
             "near perfect", None, 21, 100),
    Headline("bitwise_or_abacus_jumps_longer", "Abacus, bitwise OR to 20 bits", PAIRS, "", LIMIT,
             21, 100, "grid"),
)  # fmt: skip


def summarise_headlines(cells: pd.DataFrame, times: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a record for each headline whose row has results.

    A record has what `Headline.summarise` returns, and the median of the core-minutes of a seed,
    where the table `runs` of `times` has them.
    """
    runs, records = results.find_runs(cells), []
    for headline in HEADLINES:
        chosen = headline.select(cells)
        if chosen.empty:
            continue
        row, limit = headline.row, headline.operations
        minutes = times.loc[times["row"] == row, "core_seconds"].median() / 60
        record = {name: getattr(headline, name) for name in ("row", "model", "problems", "paper")}
        record |= headline.summarise(chosen)
        record["core_minutes"] = None if pd.isna(minutes) else round(float(minutes), 1)
        record["less_computation"] = limit and round(limit / count_training_operations(runs[row]))
        records.append(record)
    return records


def tabulate_headlines(numbers: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return the table of headlines, the paper's number and ours: its columns and its lines."""
    names = ["model", "problems", "paper", "ours, one pass", "seeds, n of each"]
    names += ["core-minutes of a seed", "computation, of the paper's limit"]
    lines = [
        [
            record["model"],
            record["problems"],
            record["paper"] or "not stated",
            _format_score(record),
            f"{record['seeds']}, {record['n']:,}",
            f"{record['core_minutes']:.0f}" if record["core_minutes"] else "not recorded",
            f"1 / {record['less_computation']:,}" if record["less_computation"] else "not stated",
        ]
        for record in numbers["headlines"]
    ]
    return names, lines


def _format_score(record: dict[str, Any]) -> str:
    # Where models are nearly perfect, they differ in the second decimal.
    format_share = _format_nearly_one if record["score"] >= 0.99 else format_percent
    score, low, high = map(format_share, (record["score"], *record["range"]))
    return f"{score}%" if low == high else f"{score}% ({low} to {high})"


def _format_nearly_one(share: float) -> str:
    if share == 1.0:
        return "100"
    return f"{100 * share:.2f}" if share < 0.99995 else ">99.99"
