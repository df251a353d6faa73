"""The runs of ibrahimli2024's experiment 27 next to ours: by width, and paired."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

from carry.config import run_settings
from carry.evaluation import thesis_runs
from carry.evaluation.differences import compute_permutation_p, compute_welch_interval
from carry.evaluation.regions import LEARNED
from carry.plots import load, parts, style

ROW = re.compile(r"addition_equal_(alone|parts)(_\d+[km]_width_\d+)?")
TASKS = {"alone": "add", "parts": "mix"}  # ours, by the names of the thesis
# Lengths of the thesis, and what they are to training on 1 to 7 and 9 digits.
LENGTHS = {
    "trained_lengths": "trained lengths",
    "8": "between them",
    "10": "one digit beyond",
    "11": "two digits beyond",
}
SCORES = {"exact": "exact match", "loss": "loss of a token"}
COLORS = {"add": "#EDB120", "mix": "#7A5195"}  # the first is that of learned ids
LOOKS = {"add": {"ls": "-"}, "mix": {"ls": "--"}}
NAMES = {"add": parts.WAYS["alone"], "mix": parts.WAYS["parts"]}
KEYS = ["source", "task", "width", "problems", "seed", "lengths"]
THESIS, OURS = "thesis", "ours"
TICKS = (16, 128, 1024)


class Compared(NamedTuple):
    """How far mixtures are ahead: the mean over pairs, or over seeds; `single` has each pair."""

    pairs: str
    single: np.ndarray
    lead: float
    low: float
    high: float
    p: float


def tabulate_runs(tables: load.ResultTables) -> pd.DataFrame:
    """Return loss and exact match of the thesis' runs and of ours, by run and kind of length.

    Ours have their last step, and the mean over trained lengths. `learned` says whether a run has
    learned these (99%).
    """
    runs = [*_melt_thesis(), *_score_ours(tables["losses"])]
    table = pd.DataFrame(runs, columns=[*KEYS, "loss", "exact"])
    known = table[table["lengths"] == LENGTHS["trained_lengths"]]
    keys = [key for key in KEYS if key != "lengths"]
    known = known[known["exact"] >= LEARNED][keys].assign(learned=True)
    table = table.merge(known, how="left", on=keys)
    return table.assign(learned=table["learned"].notna())


def _melt_thesis() -> Iterator[tuple]:
    for run in thesis_runs.read_runs().to_dict("records"):
        for length, name in LENGTHS.items():
            scores = (run[f"{score}_{length}"] for score in ("loss", "exact"))
            yield (THESIS, *(run[key] for key in KEYS[1:5]), name, *scores)


def _score_ours(losses: pd.DataFrame) -> Iterator[tuple]:
    """Return the last losses of our rows, as runs of the thesis."""
    losses = losses[losses["row"].map(lambda row: ROW.fullmatch(row) is not None).astype(bool)]
    last = losses[losses["step"] == losses.groupby("row")["step"].transform("max")]
    for (row, profile, seed), part in last.groupby(["row", "profile", "seed"], sort=False):
        run = run_settings.load_run(row, profile)
        size = run.model["width"], run.training.examples
        beyond = (9 + part["digits"] - run.training.digits).astype(str)  # of 9 digits, as there
        kinds = beyond.where(part["digits"] > run.training.digits, "8")
        kinds = kinds.mask(part["digits"].isin(run.trained_lengths()), "trained_lengths")
        for length, name in LENGTHS.items():
            scored = part[kinds == length]
            if len(scored):
                exact = scored["exact"].sum() / scored["n"].sum()
                task = TASKS[ROW.fullmatch(row)[1]]
                yield (OURS, task, *size, seed, name, scored["loss"].mean(), exact)


@style.use_style
def draw_runs_by_width(
    tables: load.ResultTables, score: str = "exact"
) -> tuple[Figure, pd.DataFrame]:
    """Draw exact match or loss by width, one column for each number of problems, then ours.

    Points are runs, lines join the means over the seeds of each width (of the loss, geometric).

    Args:
        tables: result tables; ours are those with losses.
        score: "exact" or "loss".
    """
    table = tabulate_runs(tables)
    columns = list(table.groupby(["source", "problems"]).groups)
    columns.sort(key=lambda column: (column[0] == OURS, column[1]))
    size, lines = (8.8 / len(columns), 1.75), list(LENGTHS.values())
    count = len(columns) * len(lines)
    figure, panels = style.make_panels(count, len(columns), size, sharex=True, sharey="row")
    for number, axes in enumerate(panels):
        source, problems = columns[number % len(columns)]
        kind = lines[number // len(columns)]
        part = table[(table["source"] == source) & (table["problems"] == problems)]
        for task in NAMES:
            _draw_runs(axes, part[(part["task"] == task) & (part["lengths"] == kind)], task, score)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(FixedLocator(TICKS))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter("{x:.0f}")
        if number < len(columns):
            axes.set_title(f"{source}\n{problems:,}", fontsize="small")
        if number % len(columns) == 0:
            axes.set_ylabel(kind, fontsize="small")
            _format_score(axes, score)
    figure.supxlabel("width of the model", fontsize="medium")
    figure.supylabel(SCORES[score], fontsize="medium")
    figure.legend(handles=_make_handles(), loc="outside upper center", ncols=4)
    return figure, table


def _draw_runs(axes: Axes, runs: pd.DataFrame, task: str, score: str) -> None:
    """Draw the runs of one task: open circles have learned, crosses have not."""
    color = COLORS[task]
    for learned, mark in ((True, {"marker": "o", "mfc": "white"}), (False, {"marker": "x"})):
        some = runs[runs["learned"] == learned]
        axes.plot(some["width"], some[score], ls="none", ms=3.2, color=color, alpha=0.8, **mark)
    by_width = runs.groupby("width")[score]
    means = by_width.mean() if score == "exact" else by_width.agg(lambda of: _mean_loss(of))
    mark = {"marker": "_", "ms": 10} if len(means) == 1 else {}  # one point has no line
    axes.plot(means.index, means, color=color, linewidth=1.3, **LOOKS[task], **mark)


def _mean_loss(losses: pd.Series) -> float:
    """Return the geometric mean of losses; the file has six decimals."""
    return float(np.exp(np.log(losses.clip(lower=thesis_runs.SMALLEST_LOSS)).mean()))


def _format_score(axes: Axes, score: str) -> None:
    if score == "exact":
        axes.set_ylim(-0.06, 1.06)
        style.format_percent(axes.yaxis)
    else:
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())


def _make_handles() -> list[Line2D]:
    lines = [
        Line2D([], [], color=COLORS[task], label=name, **LOOKS[task])
        for task, name in NAMES.items()
    ]
    marks = {"o": "a run that has learned", "x": "one that has not"}
    return lines + [
        Line2D([], [], ls="none", marker=mark, ms=4, mfc="white", color="#444444", label=text)
        for mark, text in marks.items()
    ]


@style.use_style
def draw_pairs(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw how far mixtures are ahead of additions alone, pair by pair, in exact match and loss.

    The runs of the thesis of one width, number of problems and seed are a pair. Ours are compared
    as two groups of seeds, and only seeds that have learned count.
    """
    table = compare_all(tables)
    lines = list(table.groupby(["lengths", "pairs"], sort=False).groups)
    figure, panels = style.make_panels(2, 2, (4.5, 0.3 * len(lines) + 0.9), sharey=True)
    for axes, score in zip(panels, SCORES, strict=True):
        axes.axvline(0, color="#777777", linewidth=1, zorder=0)
        for record in table[table["score"] == score].itertuples():
            at = lines.index((record.lengths, record.pairs))
            color = COLORS["mix"] if record.source == THESIS else "#222222"
            axes.plot(record.single, [at] * len(record.single), "|", ms=6, color=color, alpha=0.3)
            axes.plot([record.low, record.high], [at, at], color=color, linewidth=2)
            axes.plot(record.lead, at, "o", ms=5.5, color=color)
            axes.text(1.01, at, f"p = {record.p:.2g}", transform=axes.get_yaxis_transform(),
                      va="center", fontsize=7)  # fmt: skip
        for at in range(1, len(lines)):
            if lines[at][0] != lines[at - 1][0]:
                axes.axhline(at - 0.5, color="#DDDDDD", linewidth=0.8)
        axes.set(ylim=(len(lines) - 0.5, -0.5))
        axes.grid(visible=False, axis="y")
    panels[0].set_yticks(range(len(lines)), [f"{kind}: {pairs}" for kind, pairs in lines])
    panels[0].set_xlabel("exact match, points more with their parts")
    panels[0].xaxis.set_major_formatter(lambda value, _: f"{100 * value:+.0f}")
    panels[1].set_xlabel("loss, powers of ten less with their parts")
    return figure, table.drop(columns="single")


def compare_all(tables: load.ResultTables) -> pd.DataFrame:
    """Return how far mixtures are ahead at each kind of length: all pairs, learned ones, ours.

    `p` belongs to the one-sided permutation test that they are ahead; the interval is t over pairs,
    of ours Welch's over seeds.
    """
    pairs = thesis_runs.pair_runs(thesis_runs.read_runs())
    learned = thesis_runs.select_learned_pairs(pairs)
    ours = tabulate_runs(tables).query("source == @OURS and learned")
    records = []
    for score in SCORES:
        for length, kind in LENGTHS.items():
            found = [
                _compare_pairs(pairs, length, score, "all {} pairs"),
                _compare_pairs(learned, length, score, "{} pairs, both learned"),
                _compare_seeds(ours[ours["lengths"] == kind], score),
            ]
            for source, compared in zip((THESIS, THESIS, OURS), found, strict=True):
                if compared is not None:
                    records.append((score, kind, source, *compared))
    return pd.DataFrame(records, columns=["score", "lengths", "source", *Compared._fields])


def _compare_pairs(pairs: pd.DataFrame, length: str, score: str, name: str) -> Compared:
    told = thesis_runs.compare_pairs(pairs, length, score)
    add, mix = (_scale(pairs[f"{score}_{length}_{task}"], score) for task in ("add", "mix"))
    return Compared(name.format(len(pairs)), mix - add, told.lead, told.low, told.high, told.p)


def _compare_seeds(runs: pd.DataFrame, score: str) -> Compared | None:
    """Return the comparison of our seeds, of rows of one size; none without both."""
    sizes = runs.groupby(["width", "problems"])["task"].nunique()
    if not (sizes == 2).any():
        return None
    width, problems = sizes[sizes == 2].index[0]
    of = runs[(runs["width"] == width) & (runs["problems"] == problems)]
    add, mix = (_scale(of.loc[of["task"] == task, score], score) for task in ("add", "mix"))
    name = f"ours, {len(add)} and {len(mix)} seeds"
    lead, ends = float(mix.mean() - add.mean()), compute_welch_interval(mix, add)
    return Compared(name, np.array([]), lead, *ends, compute_permutation_p(mix, add, "greater"))


def _scale(scores: pd.Series, score: str) -> np.ndarray:
    """Return scores of which the larger is the better: losses as powers of ten."""
    values = scores.to_numpy(dtype=float)
    return values if score == "exact" else -np.log10(np.maximum(values, thesis_runs.SMALLEST_LOSS))
