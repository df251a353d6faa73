"""Additions alone, or mixed with their parts: accuracy by length, whether it differs, and losses.

Training leaves lengths out (see `carry.plots.lengths`): some lie within its range, some beyond.
"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from carry.evaluation.differences import difference
from carry.evaluation.intervals import add_interval
from carry.plots import lengths, load, style

WAYS = {"alone": "additions alone", "parts": "with their parts"}
LOOKS = {"alone": {"ls": "-"}, "parts": {"ls": "--", "mfc": "white"}}
# In the order in which they build upon each other; colours of Okabe & Ito 2008.
PARTS = {
    "rev": {"label": "reversing", "color": "#009E73", "marker": "s"},
    "ali": {"label": "aligning", "color": "#56B4E9", "marker": "^"},
    "car": {"label": "carries made", "color": "#E69F00", "marker": "D"},
    "mad": {"label": "digits mod 10", "color": "#CC79A7", "marker": "v"},
    "add": {"label": "the sum", "color": "#333333", "marker": "o"},
}
SHIFTS = (-0.16, -0.08, 0.0, 0.08, 0.16)  # so that markers lie beside each other
SEEN, UNSEEN = "trained", "never trained, all"
SAID = {
    lengths.TRAINED: SEEN,
    lengths.WITHIN: "never trained, within",
    lengths.BEYOND: "never trained, beyond",
}


def named(row: str) -> tuple[str, str]:
    """Return what a row has for positions, and whether it has additions alone or their parts.

    >>> named("addition_equal_parts"), named("addition_equal_abacus_alone")
    (('learned', 'parts'), ('abacus', 'alone'))
    """
    positions, _, way = row.removeprefix("addition_equal_").rpartition("_")
    return positions or "learned", way


@style.styled
def by_digits(tables: load.Tables) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy by number of digits, a panel for each kind of positions."""
    table = lengths.length_table(tables)
    table = table.assign(positions=[named(row)[0] for row in table["row"]])
    kinds = list(dict.fromkeys(table["positions"]))
    figure, drawn = style.panels(len(kinds), 2, (3.7, 2.9), sharey=True)
    for axes, kind in zip(drawn, kinds, strict=True):
        part = table[table["positions"] == kind]
        lengths.shade(axes, part)
        for shift, row in zip((-0.07, 0.07), sorted(load.rows(part)), strict=False):
            _line(axes, part[part["row"] == row], row, shift)
        axes.set(ylim=(-0.03, 1.03), xlabel="digits of both numbers")
        axes.set_title(style.look(f"addition_{kind}").label, fontsize="medium")
        style.percent(axes.yaxis)
    drawn[0].set_ylabel("sums wholly right")
    lengths.name_regions(figure, table, _handles())
    return figure, table


def _line(axes: Axes, part: pd.DataFrame, row: str, shift: float) -> None:
    kind, way = named(row)
    color = style.look(f"addition_{kind}").color
    whole = part[part["seed"] == "all"].sort_values("digits")
    seeds = part[part["seed"] != "all"]
    ends = [whole["accuracy"] - whole["low"], whole["high"] - whole["accuracy"]]
    more = {"mfc": color, **LOOKS[way]}
    axes.plot(seeds["digits"] + shift, seeds["accuracy"], "o", ms=2, color=color, alpha=0.6)
    axes.errorbar(
        whole["digits"] + shift, whole["accuracy"], ends, marker="o", ms=4.5, color=color,
        elinewidth=1, **more,
    )  # fmt: skip


def _handles(marker: str = "o") -> tuple[Line2D, ...]:
    """Return what a legend says of both ways."""
    dark = {"marker": marker, "ms": 4.5, "color": "#333333"}
    return tuple(Line2D([], [], label=WAYS[way], **dark, **look) for way, look in LOOKS.items())


@style.styled
def each(tables: load.Tables) -> tuple[Figure, pd.DataFrame]:
    """Draw how many responses to each part are right, a panel for each row that mixes them."""
    known = lengths.seen(tables)
    table = lengths.batched_seeds(tables.parts, ["row", "trained", "part", "digits"], "exact")
    table = lengths.with_region(table, known)
    rows = load.rows(table)
    figure, drawn = lengths.grid(len(rows), 2, (3.7, 2.9), sharey=True)
    for axes, row in zip(drawn, rows, strict=True):
        part = table[table["row"] == row]
        lengths.shade(axes, part)
        for shift, (prefix, look) in zip(SHIFTS, PARTS.items(), strict=True):
            of = part[part["part"] == prefix].sort_values("digits")
            ends = [of["accuracy"] - of["low"], of["high"] - of["accuracy"]]
            axes.errorbar(of["digits"] + shift, of["accuracy"], ends, elinewidth=1, ms=4.5, **look)
        axes.set(ylim=(-0.03, 1.03), xlabel="digits of both numbers")
        axes.set_title(style.look(f"addition_{named(row)[0]}").label, fontsize="medium")
        style.percent(axes.yaxis)
    drawn[0].set_ylabel("responses wholly right")
    lengths.name_regions(figure, table)
    handles = [Line2D([], [], ms=4.5, **look) for look in PARTS.values()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure, table


@style.styled
def differences(tables: load.Tables) -> tuple[Figure, pd.DataFrame]:
    """Draw by how much the parts help, on trained lengths and on those that never were."""
    table = compared(lengths.length_table(tables))
    kinds = list(dict.fromkeys(table["positions"]))
    figure, drawn = style.panels(len(kinds), 2, (4.0, 2.1), sharex=True, sharey=True)
    for axes, kind in zip(drawn, kinds, strict=True):
        part = table[(table["positions"] == kind) & (table["way"] == "parts")]
        color = style.look(f"addition_{kind}").color
        axes.axvline(0, color="#777777", linewidth=1, zorder=0)
        for at, of in enumerate(part.itertuples()):
            axes.plot([of.low, of.high], [at, at], color=color, linewidth=1.6)
            axes.plot(of.difference, at, "o", ms=6, color=color)
            text = f"{100 * of.difference:+.1f}, p = {of.p:.2g}"
            look = {"ha": "center", "va": "bottom", "fontsize": 7}
            axes.text(of.difference, at - 0.2, text, bbox={"color": "white", "pad": 0.5}, **look)
        axes.set_yticks(range(len(part)), part["lengths"])
        axes.set(ylim=(len(part) - 0.5, -0.7), xlabel="with their parts, less additions alone")
        axes.set_title(style.look(f"addition_{kind}").label, fontsize="medium")
        axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:+.0f}")
        axes.margins(x=0.15)
    return figure, table


def compared(table: pd.DataFrame, name: Callable[[str], tuple[str, str]] = named) -> pd.DataFrame:
    """Return what rows of both ways have right of some lengths, and what the parts change.

    `name`: tells of a row what it shares with the one it is compared with, and its way.

    `p` is that of a permutation test over seeds (see `carry.evaluation.differences`), `low` and
    `high` are the ends of the `difference`; all three stand beside both rows.
    """
    table = table[table["seed"] != "all"].rename(columns={"right": "exact"})
    table = table.assign(lengths=table["region"].map(SAID))
    other = table[table["region"] != lengths.TRAINED].assign(lengths=UNSEEN)
    keys, both = ["row", "trained", "lengths", "seed"], [table, other]
    seeds = pd.concat(both).groupby(keys, as_index=False, sort=False)[["n", "exact"]].sum()
    names = pd.DataFrame([name(row) for row in seeds["row"]], columns=["positions", "way"])
    seeds, found = pd.concat([seeds, names], axis=1), []
    for kind in dict.fromkeys(seeds["positions"]):
        for which in (*SAID.values(), UNSEEN):
            part = seeds[(seeds["positions"] == kind) & (seeds["lengths"] == which)]
            ways = dict(iter(part.groupby("way")))
            if len(ways) < len(WAYS):
                continue
            told = difference(ways["parts"], ways["alone"])
            ends = {"difference": told.measured, "low": told.low, "high": told.high, "p": told.p}
            found += [{**_sum(of), **ends} for of in ways.values()]
    return pd.DataFrame(found)


def _sum(seeds: pd.DataFrame) -> dict[str, object]:
    """Return the mean accuracy of some seeds of one row, with all that they have counted."""
    first = seeds.iloc[0][["row", "positions", "way", "lengths", "trained"]].to_dict()
    mean = float((seeds["exact"] / seeds["n"]).mean())
    counts = {"n": int(seeds["n"].sum()), "exact": int(seeds["exact"].sum())}
    return {**first, "seeds": len(seeds), **counts, "accuracy": mean}


@style.styled
def losses(tables: load.Tables) -> tuple[Figure, pd.DataFrame]:
    """Draw losses over training, of trained lengths and of others, a line by positions."""
    keys = ["row", "trained", "seed", "step", "seen"]
    grouped = tables.losses.groupby(keys, as_index=False, sort=False)
    table = add_interval(grouped.agg(n=("n", "sum"), exact=("exact", "sum"), loss=("loss", "mean")))
    kinds = list(dict.fromkeys(named(row)[0] for row in load.rows(table)))
    columns = [
        ("loss", True, "loss, trained lengths"),
        ("loss", False, "loss, lengths never trained"),
        ("accuracy", False, "right, lengths never trained"),
    ]
    size = (2.9, 2.4)
    figure, drawn = style.panels(3 * len(kinds), 3, size, sharex="row")
    for number, axes in enumerate(drawn):
        kind, (column, known, title) = kinds[number // 3], columns[number % 3]
        for row in load.rows(table):
            part = table[(table["row"] == row) & (table["seen"] == known)]
            if named(row)[0] == kind and len(part):
                _curve(axes, part, row, column)
        axes.set_title(title if number < 3 else "", fontsize="medium")
        if column == "loss":
            axes.set_yscale("log")
            _few_ticks(axes)
        else:
            axes.set_ylim(-0.03, 1.03)
            style.percent(axes.yaxis)
        if number % 3 == 0:
            axes.set_ylabel(style.look(f"addition_{kind}").label)
        if number >= 3 * (len(kinds) - 1):
            axes.set_xlabel("training step")
    figure.legend(handles=_handles(""), loc="outside lower center", ncols=2)
    return figure, table


def _few_ticks(axes: Axes) -> None:
    """Write plain numbers on a logarithmic axis, also where it has no power of ten."""
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0) if high < 100 * low else (1.0,)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def _curve(axes: Axes, part: pd.DataFrame, row: str, column: str) -> None:
    """Draw a thin line for each seed, and a thick one for their median."""
    kind, way = named(row)
    look = {"color": style.look(f"addition_{kind}").color, "ls": LOOKS[way]["ls"]}
    wide = part.pivot(index="step", columns="seed", values=column).sort_index()
    for seed in wide:
        axes.plot(wide[seed].dropna(), linewidth=0.6, alpha=0.45, **look)
    axes.plot(wide.dropna().median(axis=1), linewidth=2, **look)
