"""Addition trained alone or mixed with its sub-tasks: accuracy by length, differences, losses.

Training leaves out some lengths, within its range or beyond (see `carry.plots.lengths`).
"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from carry.evaluation.differences import compare_rows
from carry.evaluation.intervals import add_interval
from carry.plots import lengths, load, style

WAYS = {"alone": "additions alone", "parts": "with their parts"}
LOOKS = {"alone": {"ls": "-"}, "parts": {"ls": "--", "mfc": "white"}}
# In the order in which one builds on the other; colours of Okabe & Ito 2008.
PARTS = {
    "rev": {"label": "reversing", "color": "#009E73", "marker": "s"},
    "ali": {"label": "aligning", "color": "#56B4E9", "marker": "^"},
    "car": {"label": "carries made", "color": "#E69F00", "marker": "D"},
    "mad": {"label": "digits mod 10", "color": "#CC79A7", "marker": "v"},
    "add": {"label": "the sum", "color": "#333333", "marker": "o"},
}
SHIFTS = (-0.16, -0.08, 0.0, 0.08, 0.16)  # horizontal shifts of the markers of one length
SEEN, UNSEEN = "trained", "never trained, all"
REGION_LABELS = {
    lengths.TRAINED: SEEN,
    lengths.WITHIN: "never trained, within",
    lengths.BEYOND: "never trained, beyond",
}


def parse_row(row: str) -> tuple[str, str]:
    """Return the position encoding of a row, and whether it trains on addition alone or with parts.

    >>> parse_row("addition_equal_parts"), parse_row("addition_equal_abacus_alone")
    (('learned', 'parts'), ('abacus', 'alone'))
    """
    positions, _, way = row.removeprefix("addition_equal_").rpartition("_")
    return positions or "learned", way


@style.use_style
def draw_parts_by_digits(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy by number of digits, one panel for each position encoding."""
    table = lengths.make_length_table(tables)
    table = table.assign(positions=[parse_row(row)[0] for row in table["row"]])
    kinds = list(dict.fromkeys(table["positions"]))
    figure, panels = style.make_panels(len(kinds), 2, (3.7, 2.9), sharey=True)
    for axes, kind in zip(panels, kinds, strict=True):
        part = table[table["positions"] == kind]
        lengths.shade_lengths(axes, part)
        for shift, row in zip((-0.07, 0.07), sorted(load.list_rows(part)), strict=False):
            _line(axes, part[part["row"] == row], row, shift)
        axes.set(ylim=(-0.03, 1.03), xlabel="digits of both numbers")
        axes.set_title(style.choose_style(f"addition_{kind}").label, fontsize="medium")
        style.format_percent(axes.yaxis)
    panels[0].set_ylabel("exact match")
    lengths.draw_region_legend(figure, table, _handles())
    return figure, table


def _line(axes: Axes, part: pd.DataFrame, row: str, shift: float) -> None:
    kind, way = parse_row(row)
    color = style.choose_style(f"addition_{kind}").color
    pooled = part[part["seed"] == "all"].sort_values("digits")
    seeds = part[part["seed"] != "all"]
    ends = [pooled["accuracy"] - pooled["low"], pooled["high"] - pooled["accuracy"]]
    more = {"mfc": color, **LOOKS[way]}
    axes.plot(seeds["digits"] + shift, seeds["accuracy"], "o", ms=2, color=color, alpha=0.6)
    axes.errorbar(
        pooled["digits"] + shift, pooled["accuracy"], ends, marker="o", ms=4.5, color=color,
        elinewidth=1, **more,
    )  # fmt: skip


def _handles(marker: str = "o") -> tuple[Line2D, ...]:
    """Return the legend handles of both ways of training."""
    dark = {"marker": marker, "ms": 4.5, "color": "#333333"}
    return tuple(
        Line2D([], [], label=WAYS[way], **dark, **line_style) for way, line_style in LOOKS.items()
    )


@style.use_style
def draw_each_part(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw the exact match of each sub-task, one panel for each row that mixes them."""
    trained_lengths = lengths.find_trained_lengths(tables)
    table = load.average_seeds(tables["parts"], ["row", "trained", "part", "digits"], "exact")
    table = lengths.add_region_column(table, trained_lengths)
    rows = load.list_rows(table)
    figure, panels = lengths.make_wide_panels(len(rows), 2, (3.7, 2.9), sharey=True)
    for axes, row in zip(panels, rows, strict=True):
        part = table[table["row"] == row]
        lengths.shade_lengths(axes, part)
        for shift, (prefix, line_style) in zip(SHIFTS, PARTS.items(), strict=True):
            curve = part[part["part"] == prefix].sort_values("digits")
            ends = [curve["accuracy"] - curve["low"], curve["high"] - curve["accuracy"]]
            axes.errorbar(
                curve["digits"] + shift, curve["accuracy"], ends, elinewidth=1, ms=4.5, **line_style
            )
        axes.set(ylim=(-0.03, 1.03), xlabel="digits of both numbers")
        axes.set_title(style.choose_style(f"addition_{parse_row(row)[0]}").label, fontsize="medium")
        style.format_percent(axes.yaxis)
    panels[0].set_ylabel("exact match")
    lengths.draw_region_legend(figure, table)
    handles = [Line2D([], [], ms=4.5, **line_style) for line_style in PARTS.values()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure, table


@style.use_style
def draw_differences(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw the effect of the sub-tasks on trained and on untrained lengths."""
    table = compare_parts(lengths.make_length_table(tables))
    kinds = list(dict.fromkeys(table["positions"]))
    figure, panels = style.make_panels(len(kinds), 2, (4.0, 2.1), sharex=True, sharey=True)
    for axes, kind in zip(panels, kinds, strict=True):
        part = table[(table["positions"] == kind) & (table["way"] == "parts")]
        color = style.choose_style(f"addition_{kind}").color
        axes.axvline(0, color="#777777", linewidth=1, zorder=0)
        for at, record in enumerate(part.itertuples()):
            axes.plot([record.low, record.high], [at, at], color=color, linewidth=1.6)
            axes.plot(record.difference, at, "o", ms=6, color=color)
            text = f"{100 * record.difference:+.1f}, p = {record.p:.2g}"
            text_style = {"ha": "center", "va": "bottom", "fontsize": 7}
            axes.text(
                record.difference, at - 0.2, text, bbox={"color": "white", "pad": 0.5}, **text_style
            )
        axes.set_yticks(range(len(part)), part["lengths"])
        axes.set(ylim=(len(part) - 0.5, -0.7), xlabel="with their parts, less additions alone")
        axes.set_title(style.choose_style(f"addition_{kind}").label, fontsize="medium")
        axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:+.0f}")
        axes.margins(x=0.15)
    return figure, table


def compare_parts(
    table: pd.DataFrame, name: Callable[[str], tuple[str, str]] = parse_row
) -> pd.DataFrame:
    """Return accuracy with and without sub-tasks at some lengths, and their difference.

    `name` maps a row to the key that it shares with its counterpart, and to its way of training.

    `p` belongs to a permutation test over seeds (see `carry.evaluation.differences`); `low` and
    `high` are the ends of the interval of the `difference`. Both rows of a pair hold all three.
    """
    table = table[table["seed"] != "all"].rename(columns={"right": "exact"})
    table = table.assign(lengths=table["region"].map(REGION_LABELS))
    other = table[table["region"] != lengths.TRAINED].assign(lengths=UNSEEN)
    keys, both = ["row", "trained", "lengths", "seed"], [table, other]
    seeds = pd.concat(both).groupby(keys, as_index=False, sort=False)[["n", "exact"]].sum()
    names = pd.DataFrame([name(row) for row in seeds["row"]], columns=["positions", "way"])
    seeds, records = pd.concat([seeds, names], axis=1), []
    for kind in dict.fromkeys(seeds["positions"]):
        for which in (*REGION_LABELS.values(), UNSEEN):
            part = seeds[(seeds["positions"] == kind) & (seeds["lengths"] == which)]
            ways = dict(iter(part.groupby("way")))
            if len(ways) < len(WAYS):
                continue
            comparison = compare_rows(ways["parts"], ways["alone"])
            ends = {
                "difference": comparison.measured,
                "low": comparison.low,
                "high": comparison.high,
                "p": comparison.p,
            }
            records += [{**_sum(rows), **ends} for rows in ways.values()]
    return pd.DataFrame(records)


def _sum(seeds: pd.DataFrame) -> dict[str, object]:
    """Return the mean accuracy over seeds of one row, with the sums of its counts."""
    first = seeds.iloc[0][["row", "positions", "way", "lengths", "trained"]].to_dict()
    mean = float((seeds["exact"] / seeds["n"]).mean())
    counts = {"n": int(seeds["n"].sum()), "exact": int(seeds["exact"].sum())}
    return {**first, "seeds": len(seeds), **counts, "accuracy": mean}


@style.use_style
def draw_losses_of_parts(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw the losses of trained and untrained lengths over training, by position encoding."""
    keys = ["row", "trained", "seed", "step", "seen"]
    grouped = tables["losses"].groupby(keys, as_index=False, sort=False)
    table = add_interval(grouped.agg(n=("n", "sum"), exact=("exact", "sum"), loss=("loss", "mean")))
    kinds = list(dict.fromkeys(parse_row(row)[0] for row in load.list_rows(table)))
    columns = [
        ("loss", True, "loss, trained lengths"),
        ("loss", False, "loss, lengths never trained"),
        ("accuracy", False, "right, lengths never trained"),
    ]
    size = (2.9, 2.4)
    figure, panels = style.make_panels(3 * len(kinds), 3, size, sharex="row")
    for number, axes in enumerate(panels):
        kind, (column, split, title) = kinds[number // 3], columns[number % 3]
        for row in load.list_rows(table):
            part = table[(table["row"] == row) & (table["seen"] == split)]
            if parse_row(row)[0] == kind and len(part):
                _curve(axes, part, row, column)
        axes.set_title(title if number < 3 else "", fontsize="medium")
        if column == "loss":
            axes.set_yscale("log")
            _few_ticks(axes)
        else:
            axes.set_ylim(-0.03, 1.03)
            style.format_percent(axes.yaxis)
        if number % 3 == 0:
            axes.set_ylabel(style.choose_style(f"addition_{kind}").label)
        if number >= 3 * (len(kinds) - 1):
            axes.set_xlabel("training step")
    figure.legend(handles=_handles(""), loc="outside lower center", ncols=2)
    return figure, table


def _few_ticks(axes: Axes) -> None:
    """Write plain numbers on a logarithmic axis, even without a power of ten on it."""
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0) if high < 100 * low else (1.0,)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def _curve(axes: Axes, part: pd.DataFrame, row: str, column: str) -> None:
    """Draw a thin line for each seed, and a thick one for their median."""
    kind, way = parse_row(row)
    line_style = {"color": style.choose_style(f"addition_{kind}").color, "ls": LOOKS[way]["ls"]}
    wide = part.pivot(index="step", columns="seed", values=column).sort_index()
    for seed in wide:
        axes.plot(wide[seed].dropna(), linewidth=0.6, alpha=0.45, **line_style)
    axes.plot(wide.dropna().median(axis=1), linewidth=2, **line_style)
