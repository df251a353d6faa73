"""What a row needs: ablations, one ingredient changed at a time, by how far each variant goes."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from carry.evaluation.intervals import pool_cells
from carry.evaluation.mistakes import KINDS
from carry.plots import load, style
from carry.plots.entry import lacking

KEYS = ["ablation", "group", "variant", "row"]
TIMES = {1: "as long as in training", 2: "twice as long"}
SPREAD = 0.5  # of a line's height, over which its seeds are strewn, or equal ones would be one
NEVER, AWAY = "never", 1.45  # and how far away that is drawn, as a multiple of the most steps


@style.styled
def by_variant(tables: load.Tables) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy at each length, and the steps it took, a line for each variant."""
    if tables.variants.empty:
        return lacking("What the row needs", ["those of ablations"], profile="cpu")
    table = scores(tables)
    lines = _lines(table)
    times = sorted(table["times"].unique())
    size = (1.75, 0.19 * len(lines) + 1.3)
    figure, drawn = style.panels(len(times) + 1, len(times) + 1, size, sharey=True)
    for axes, many in zip(drawn, times, strict=False):
        _accuracy(axes, table[table["times"] == many], lines)
        axes.set_title(TIMES.get(many, f"{many:,} times as long"), fontsize="small")
    _steps(drawn[-1], table[table["times"] == times[0]], lines)
    drawn[0].set_yticks([at for at, _ in lines.values()], [said for _, said in lines.values()])
    for label, key in zip(drawn[0].get_yticklabels(), lines, strict=True):
        label.set_fontweight("bold" if key[-1] is None else "normal")
    drawn[0].set_ylim(len(lines) - 0.4, -0.6)
    for axes in drawn:
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        for (*_, variant), (at, _) in lines.items():
            if variant is None:
                axes.axhspan(at - 0.5, at + 0.5, color=style.SHADE, zorder=0, linewidth=0)
    for axes in drawn[:-1]:
        axes.set_xlabel("sums wholly right", fontsize="small")
    _legend(figure)
    return figure, table


def scores(tables: load.Tables) -> pd.DataFrame:
    """Return accuracy by variant and length, for each seed and (`seed`: all) for all together.

    Returns:
        With `median` and `worst` of the seeds, how many there are (`seeds`), the `steps` until
        99.9% of held-out problems are right (the median; `slowest`: the last seed), and how many
        seeds have come to that (`learned`). Where one is not asked, n is 0.
    """
    lengths = tables.variants
    keys = [*KEYS, "trained", "times", "digits"]
    of = {"median": "median", "worst": "min"}
    ranges = lengths.groupby(keys, sort=False)["accuracy"].agg(**of).reset_index()
    seeds = lengths.groupby(keys, sort=False)["seed"].nunique().rename("seeds").reset_index()
    steps = tables.trainings.groupby(KEYS, sort=False)["steps_to_999"]
    taken = pd.DataFrame({
        "steps": steps.agg(lambda of: of.fillna(np.inf).median()),
        "slowest": steps.agg(lambda of: of.fillna(np.inf).max()), "learned": steps.count(),
    }).replace(np.inf, np.nan).reset_index()  # fmt: skip
    whole = (
        pool_cells(lengths, keys).merge(ranges, on=keys).merge(seeds, on=keys).merge(taken, on=KEYS)
    )
    own = tables.trainings[[*KEYS, "seed", "steps_to_999"]].rename(
        columns={"steps_to_999": "steps"}
    )
    each = lengths[[*keys, "seed", "n", "exact", "accuracy", "low", "high"]]
    each = each.merge(own, on=[*KEYS, "seed"], how="left").astype({"seed": str})
    return pd.concat([whole.assign(seed="all"), each], ignore_index=True)


def summary(tables: load.Tables) -> pd.DataFrame:
    """Return accuracy of each variant by length, in words: of the median seed, and of the worst.

    Beside it the steps that the median seed took to learn held-out problems, and the slowest.
    """
    if tables.variants.empty:
        return pd.DataFrame()
    table = scores(tables).query("seed == 'all'")
    named = table.set_index(["ablation", "group", "variant", "times"])
    wide = named.apply(_said, axis=1).unstack("times").reindex(_variants(table))
    wide.columns = [f"{many:,}x" for many in wide]
    taken = named.groupby(level=[0, 1, 2], sort=False).first().apply(_taken, axis=1)
    return wide.assign(**{"steps to 99.9%": taken.reindex(wide.index)})


def why(tables: load.Tables, times: int = 2) -> pd.DataFrame:
    """Return where each variant's attention goes by length, how it errs, and what is proved of it.

    Args:
        times: the length at which errors are counted, as a multiple of the trained one.
    """
    if tables.variants.empty:
        return pd.DataFrame()
    by = ["ablation", "group", "variant"]
    near = tables.variants.dropna(subset="near").groupby([*by, "times"], sort=False)["near"]
    wide = near.mean().unstack("times").map(lambda of: f"{100 * of:.0f}%")
    wide.columns = [f"attention near, {many:,}x" for many in wide]
    part = tables.variants[tables.variants["times"] == times]
    wrong = part.groupby(by, sort=False)[list(KINDS)].sum().apply(_commonest, axis=1)
    proved = tables.trainings.dropna(subset="verdict").groupby(by, sort=False)["verdict"]
    proved = proved.agg(lambda of: f"{(of == 'exact').sum()} of {len(of)}")
    found = wide.reindex(_variants(tables.variants))
    return found.assign(**{f"errors, {times}x": wrong, "certified": proved}).fillna("")


def _commonest(counts: pd.Series) -> str:
    """Return the two kinds of faults that are most common, in words.

    >>> _commonest(pd.Series({"stopped_early": 3, "lost_carry": 1, "other": 0}))
    'stopped early 75%, lost carry 25%'
    """
    shares = (counts / max(1, counts.sum())).nlargest(2)
    return ", ".join(f"{kind.replace('_', ' ')} {of:.0%}" for kind, of in shares.items() if of)


def _variants(table: pd.DataFrame) -> pd.MultiIndex:
    return pd.MultiIndex.from_frame(table[["ablation", "group", "variant"]].drop_duplicates())


def _said(of: pd.Series) -> str:
    """Return the accuracy of the median seed and of the worst in words.

    >>> _said(pd.Series({"n": 50, "median": 0.98, "worst": 0.9}))
    '98% (90%)'
    """
    return f"{100 * of['median']:.3g}% ({100 * of['worst']:.3g}%)" if of["n"] else "not asked"


def _taken(of: pd.Series) -> str:
    """Return in words how many steps it took.

    >>> _taken(pd.Series({"steps": 600.0, "slowest": np.nan, "learned": 4, "seeds": 5}))
    '600 (4 of 5 seeds)'
    """
    some = f"{of['learned']:.0f} of {of['seeds']:.0f} seeds"
    if np.isnan(of["steps"]):
        return some if of["learned"] else NEVER
    return f"{of['steps']:.0f} ({some if np.isnan(of['slowest']) else round(of['slowest'])})"


def _lines(table: pd.DataFrame) -> dict[tuple, tuple[int, str]]:
    """Return the height and the name of each heading (whose variant is None) and each variant."""
    named = table[["ablation", "group", "variant"]].drop_duplicates()
    several, lines = named["ablation"].nunique() > 1, {}
    for (ablation, group), part in named.groupby(["ablation", "group"], sort=False):
        said = f"{ablation}: {group}" if several else group
        lines[ablation, group, None] = (len(lines), said.replace("_", " "))
        for variant in part["variant"]:
            lines[ablation, group, variant] = (len(lines), variant.replace("_", " "))
    return lines


def _places(part: pd.DataFrame, lines: dict[tuple, tuple[int, str]]) -> pd.Series:
    """Return how high each seed of a table is drawn: those of a variant beside each other."""
    names = zip(part["ablation"], part["group"], part["variant"], strict=True)
    middle = pd.Series([lines[name][0] for name in names], index=part.index, dtype=float)
    rank = part.groupby(["ablation", "group", "variant"]).cumcount()
    last = rank.groupby([part["ablation"], part["group"], part["variant"]]).transform("max")
    return middle + SPREAD * (rank / last.clip(lower=1) - 0.5) * (last > 0)


def _accuracy(axes: Axes, part: pd.DataFrame, lines: dict[tuple, tuple[int, str]]) -> None:
    """Draw all seeds of all variants at one length, and their medians."""
    whole, seeds = part[part["seed"] == "all"], part[part["seed"] != "all"]
    for of in whole.itertuples():
        at, color = lines[of.ablation, of.group, of.variant][0], style.look(of.row).color
        if of.n:
            axes.plot([of.median] * 2, [at - 0.36, at + 0.36], color="#222222", linewidth=1.8)
            own = seeds[(seeds["variant"] == of.variant) & (seeds["group"] == of.group)]
            own = own[own["ablation"] == of.ablation]
            axes.plot(own["accuracy"], _places(own, lines), "o", ms=3, color=color, alpha=0.75)
        else:
            axes.text(0.5, at, "not asked", ha="center", va="center", fontsize=6.5,
                      color="#777777")  # fmt: skip
    axes.set(xlim=(-0.06, 1.06), xticks=[0, 0.5, 1])
    style.percent(axes.xaxis)


def _steps(axes: Axes, part: pd.DataFrame, lines: dict[tuple, tuple[int, str]]) -> None:
    """Draw how many steps each seed took, those that never learned at the right."""
    seeds = part[part["seed"] != "all"].reset_index(drop=True)
    most = seeds["steps"].max() if seeds["steps"].notna().any() else 1.0
    at, done = _places(seeds, lines), seeds["steps"].notna()
    for row in load.rows(seeds):
        own, color = seeds["row"] == row, style.look(row).color
        axes.plot(seeds["steps"][own & done], at[own & done], "o", ms=3, color=color, alpha=0.75)
        axes.plot(AWAY * most + 0 * at[own & ~done], at[own & ~done], "x", ms=3.5, color=color)
    for of in part[part["seed"] == "all"].itertuples():
        height = lines[of.ablation, of.group, of.variant][0]
        if not np.isnan(of.steps):
            axes.plot([of.steps] * 2, [height - 0.36, height + 0.36], color="#222222", lw=1.8)
    axes.axvline((1 + AWAY) / 2 * most, color="#BBBBBB", linewidth=0.8)
    axes.set_xticks([0, most, AWAY * most], ["0", f"{most:,.0f}", NEVER])
    axes.set_xlim(0, 1.18 * AWAY * most)
    axes.set_title("until 99.9% right", fontsize="small")
    axes.set_xlabel("steps", fontsize="small")


def _legend(figure: Figure) -> None:
    mark = {"color": "#555555", "ls": "none"}
    handles = [
        Line2D([], [], marker="o", ms=4, label="a seed", **mark),
        Line2D([], [], marker="|", ms=9, mew=1.8, color="#222222", ls="none", label="their median"),
        Line2D([], [], marker="x", ms=4.5, label="a seed that never gets there", **mark),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=3)
