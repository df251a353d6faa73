"""Variants of a row, one setting changed at a time: accuracy by length and steps to learn."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from carry.evaluation.mistakes import KINDS
from carry.plots import load, style
from carry.plots.entry import draw_missing

KEYS = ["variant_set", "group", "variant", "row"]
TIMES = {1: "as long as in training", 2: "twice as long"}
SPREAD = 0.5  # share of a line's height over which its seeds are spread, so that none hides
NEVER, NEVER_AT = "never", 1.45  # its position on the axis, as a multiple of the most steps


@style.use_style
def draw_variants(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw for each variant its accuracy at each length and the steps until it has learned."""
    if not tables.has_rows("variants"):
        return draw_missing("Variants of a row", ["the stage `variants`"], profile="full")
    table = score_variants(tables)
    lines = _lines(table)
    times = sorted(table["times"].unique())
    size = (1.75, 0.19 * len(lines) + 1.3)
    figure, panels = style.make_panels(len(times) + 1, len(times) + 1, size, sharey=True)
    for axes, multiple in zip(panels, times, strict=False):
        _draw_accuracy(axes, table[table["times"] == multiple], lines)
        axes.set_title(TIMES.get(multiple, f"{multiple:,} times as long"), fontsize="small")
    _draw_steps(panels[-1], table[table["times"] == times[0]], lines)
    panels[0].set_yticks([at for at, _ in lines.values()], [name for _, name in lines.values()])
    for label, key in zip(panels[0].get_yticklabels(), lines, strict=True):
        label.set_fontweight("bold" if key[-1] is None else "normal")
    panels[0].set_ylim(len(lines) - 0.4, -0.6)
    for axes in panels:
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        for (*_, variant), (at, _) in lines.items():
            if variant is None:
                axes.axhspan(at - 0.5, at + 0.5, color=style.TRAINED_COLOR, zorder=0, linewidth=0)
    for axes in panels[:-1]:
        axes.set_xlabel("exact match", fontsize="small")
    _legend(figure)
    return figure, table


def score_variants(tables: load.ResultTables) -> pd.DataFrame:
    """Return accuracy by variant and length, for each seed and their mean (`seed`: all).

    Returns:
        Means also hold the `median` and `worst` seed, the number of `seeds`, the `steps`
        until 99.9% of held-out problems are right (median; `slowest`: the slowest seed), and the
        number of seeds that reach 99.9% (`learned`). n is 0 where a variant cannot be scored.
    """
    lengths = tables["variants"]
    keys = [*KEYS, "trained", "times", "digits"]
    accuracy = lengths.groupby(keys, sort=False)["accuracy"]
    ranges = accuracy.agg(median="median", worst="min").reset_index()
    steps = tables["trainings"].groupby(KEYS, sort=False)["steps_to_999"]
    durations = pd.DataFrame(
        {
            "steps": steps.agg(lambda values: values.fillna(np.inf).median()),
            "slowest": steps.agg(lambda values: values.fillna(np.inf).max()),
            "learned": steps.count(),
        }
    )
    durations = durations.replace(np.inf, np.nan).reset_index()
    means = load.average_seeds(lengths, keys).merge(ranges, on=keys).merge(durations, on=KEYS)
    seed_steps = tables["trainings"][[*KEYS, "seed", "steps_to_999"]]
    seed_steps = seed_steps.rename(columns={"steps_to_999": "steps"})
    seed_rows = lengths[[*keys, "seed", "n", "exact", "accuracy", "low", "high"]]
    seed_rows = seed_rows.merge(seed_steps, on=[*KEYS, "seed"], how="left").astype({"seed": str})
    return pd.concat([means.assign(seed="all"), seed_rows], ignore_index=True)


def summarise_variants(tables: load.ResultTables) -> pd.DataFrame:
    """Return as text the median (worst) accuracy of each variant by length, and its steps."""
    if not tables.has_rows("variants"):
        return pd.DataFrame()
    table = score_variants(tables).query("seed == 'all'")
    indexed = table.set_index(["variant_set", "group", "variant", "times"])
    wide = indexed.apply(_format_accuracy, axis=1).unstack("times").reindex(_index_variants(table))
    wide.columns = [f"{multiple:,}x" for multiple in wide]
    steps = indexed.groupby(level=[0, 1, 2], sort=False).first().apply(_format_steps, axis=1)
    return wide.assign(**{"steps to 99.9%": steps.reindex(wide.index)})


def explain_variants(tables: load.ResultTables, times: int = 2) -> pd.DataFrame:
    """Return for each variant the attention to nearby tokens, its mistakes and its certificates.

    Args:
        times: the length at which errors are counted, as a multiple of the trained one.
    """
    if not tables.has_rows("variants"):
        return pd.DataFrame()
    by = ["variant_set", "group", "variant"]
    shares = (
        tables["variants"]
        .dropna(subset="local_attention")
        .groupby([*by, "times"], sort=False)["local_attention"]
    )
    wide = shares.mean().unstack("times").map(lambda share: f"{100 * share:.0f}%")
    wide.columns = [f"attention near, {multiple:,}x" for multiple in wide]
    part = tables["variants"][tables["variants"]["times"] == times]
    wrong = part.groupby(by, sort=False)[list(KINDS)].sum().apply(_format_mistakes, axis=1)
    verdicts = tables["trainings"].dropna(subset="verdict").groupby(by, sort=False)["verdict"]
    certified = verdicts.agg(lambda seeds: f"{(seeds == 'exact').sum()} of {len(seeds)}")
    table = wide.reindex(_index_variants(tables["variants"]))
    return table.assign(**{f"errors, {times}x": wrong, "certified": certified}).fillna("")


def _format_mistakes(counts: pd.Series) -> str:
    """Return the two most frequent kinds of mistakes as text.

    >>> _format_mistakes(pd.Series({"stopped_early": 3, "lost_carry": 1, "other": 0}))
    'stopped early 75%, lost carry 25%'
    """
    shares = (counts / max(1, counts.sum())).nlargest(2)
    names = [f"{kind.replace('_', ' ')} {share:.0%}" for kind, share in shares.items() if share]
    return ", ".join(names)


def _index_variants(table: pd.DataFrame) -> pd.MultiIndex:
    return pd.MultiIndex.from_frame(table[["variant_set", "group", "variant"]].drop_duplicates())


def _format_accuracy(scores: pd.Series) -> str:
    """Return the accuracy of the median and of the worst seed as text.

    >>> _format_accuracy(pd.Series({"n": 50, "median": 0.98, "worst": 0.9}))
    '98% (90%)'
    """
    if not scores["n"]:
        return "not scored"
    return f"{100 * scores['median']:.3g}% ({100 * scores['worst']:.3g}%)"


def _format_steps(scores: pd.Series) -> str:
    """Return the steps of the median seed and of the slowest as text.

    >>> _format_steps(pd.Series({"steps": 600.0, "slowest": np.nan, "learned": 4, "seeds": 5}))
    '600 (4 of 5 seeds)'
    """
    learned = f"{scores['learned']:.0f} of {scores['seeds']:.0f} seeds"
    if np.isnan(scores["steps"]):
        return learned if scores["learned"] else NEVER
    slowest = learned if np.isnan(scores["slowest"]) else round(scores["slowest"])
    return f"{scores['steps']:.0f} ({slowest})"


def _lines(table: pd.DataFrame) -> dict[tuple, tuple[int, str]]:
    """Return height and label of each heading (its variant is None) and of each variant."""
    unique = table[["variant_set", "group", "variant"]].drop_duplicates()
    several, lines = unique["variant_set"].nunique() > 1, {}
    for (ablation, group), part in unique.groupby(["variant_set", "group"], sort=False):
        heading = f"{ablation}: {group}" if several else group
        lines[ablation, group, None] = (len(lines), heading.replace("_", " "))
        for variant in part["variant"]:
            lines[ablation, group, variant] = (len(lines), variant.replace("_", " "))
    return lines


def _spread_seeds(part: pd.DataFrame, lines: dict[tuple, tuple[int, str]]) -> pd.Series:
    """Return the height of each seed, with the seeds of a variant side by side."""
    names = zip(part["variant_set"], part["group"], part["variant"], strict=True)
    middle = pd.Series([lines[name][0] for name in names], index=part.index, dtype=float)
    rank = part.groupby(["variant_set", "group", "variant"]).cumcount()
    last = rank.groupby([part["variant_set"], part["group"], part["variant"]]).transform("max")
    return middle + SPREAD * (rank / last.clip(lower=1) - 0.5) * (last > 0)


def _draw_accuracy(axes: Axes, part: pd.DataFrame, lines: dict[tuple, tuple[int, str]]) -> None:
    """Draw all seeds of all variants at one length, and their medians."""
    pooled, seeds = part[part["seed"] == "all"], part[part["seed"] != "all"]
    for record in pooled.itertuples():
        key = (record.variant_set, record.group, record.variant)
        at, color = lines[key][0], style.choose_style(record.row).color
        if not record.n:
            axes.text(0.5, at, "not scored", ha="center", va="center", size=6.5, color="#777777")
            continue
        axes.plot([record.median] * 2, [at - 0.36, at + 0.36], color="#222222", linewidth=1.8)
        same = seeds[(seeds[["variant_set", "group", "variant"]] == list(key)).all(axis=1)]
        heights = _spread_seeds(same, lines)
        axes.plot(same["accuracy"], heights, "o", ms=3, color=color, alpha=0.75)
    axes.set(xlim=(-0.06, 1.06), xticks=[0, 0.5, 1])
    style.format_percent(axes.xaxis)


def _draw_steps(axes: Axes, part: pd.DataFrame, lines: dict[tuple, tuple[int, str]]) -> None:
    """Draw the steps of each seed, with the seeds that never learn on the right."""
    seeds = part[part["seed"] != "all"].reset_index(drop=True)
    most = seeds["steps"].max() if seeds["steps"].notna().any() else 1.0
    heights, learned = _spread_seeds(seeds, lines), seeds["steps"].notna()
    for row in load.list_rows(seeds):
        color = style.choose_style(row).color
        points = heights[(seeds["row"] == row) & learned]
        axes.plot(seeds["steps"][points.index], points, "o", ms=3, color=color, alpha=0.75)
        points = heights[(seeds["row"] == row) & ~learned]
        axes.plot([NEVER_AT * most] * len(points), points, "x", ms=3.5, color=color)
    for record in part[part["seed"] == "all"].itertuples():
        height = lines[record.variant_set, record.group, record.variant][0]
        if not np.isnan(record.steps):
            axes.plot([record.steps] * 2, [height - 0.36, height + 0.36], color="#222222", lw=1.8)
    axes.axvline((1 + NEVER_AT) / 2 * most, color="#BBBBBB", linewidth=0.8)
    axes.set_xticks([0, most, NEVER_AT * most], ["0", f"{most:,.0f}", NEVER])
    axes.set_xlim(0, 1.18 * NEVER_AT * most)
    axes.set_title("until 99.9% right", fontsize="small")
    axes.set_xlabel("steps", fontsize="small")


def _legend(figure: Figure) -> None:
    mark = {"color": "#555555", "ls": "none"}
    handles = [
        Line2D([], [], marker="o", ms=4, label="seed", **mark),
        Line2D([], [], marker="|", ms=9, mew=1.8, color="#222222", ls="none", label="median"),
        Line2D([], [], marker="x", ms=4.5, label="seed that never learns", **mark),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=3)
