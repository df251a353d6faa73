"""Whether heads find the digits that are to be added, at the trained lengths and one digit beyond.

The score of a head is how much of its attention is on the digits of the place that is written, in
both operands, where that digit is due (see `carry.interpretability.attention`).
"""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from carry.plots import attention, load, style

HEAD = ["seed", "layer", "head"]
OPERAND = "operand"


@style.styled
def maps(tables: load.Tables) -> tuple[Figure, pd.DataFrame]:
    """Draw where the head that scores best looks, of each row's first seed, at both lengths."""
    scored = scores(tables)
    by_row = {row: scored[scored["row"] == row] for row in load.rows(scored)}
    chosen = {row: _best(of) for row, of in by_row.items()}
    lengths = {row: sorted(map(int, of["i"].unique()))[:2] for row, of in by_row.items()}
    cells = [(row, digits) for row, both in lengths.items() for digits in both]
    columns = max(len(of) for of in lengths.values())
    known = {cell: _tokens(tables, *cell, chosen[cell[0]]["seed"]) for cell in cells}
    width, height = max(map(len, known.values())), max(_asked(of) for of in known.values())
    size = (max(2.6, 0.115 * width + 0.6), max(1.3, 0.115 * height + 0.65))
    figure, drawn = style.panels(len(cells), columns, size)
    parts = []
    for axes, (row, digits) in zip(drawn, cells, strict=True):
        signs, head = known[row, digits], chosen[row]
        parts.append(_looks(tables.attention, row, digits, head, signs))
        picture = attention.draw(axes, parts[-1], signs, signs.index("="), size=6.0)
        share = _of(by_row[row], digits, head)["share"].item()
        title = f"{style.look(row).label}, layer {head['layer'] + 1}, head {head['head'] + 1}"
        said = f"{digits} digits: {share:.0%} on the digits to add"
        axes.set_title(f"{title}\n{said}", fontsize="small", loc="left")
    bar = figure.colorbar(picture, ax=drawn, shrink=0.6, aspect=30, label="mean attention")
    bar.outline.set_visible(False)
    style.percent(bar.ax.yaxis)
    table = pd.concat(parts)
    return figure, table[table["weight"] >= attention.CLIPPED].reset_index(drop=True)


def _best(heads: pd.DataFrame) -> dict[str, int]:
    """Return seed, layer and number of the first seed's head that scores best."""
    first = heads["seed"] == heads["seed"].min()
    own = heads[first & (heads["i"] == heads["i"].min())]
    return {name: int(of) for name, of in own.loc[own["share"].idxmax(), HEAD].items()}


def _of(table: pd.DataFrame, digits: int, head: dict[str, int]) -> pd.DataFrame:
    """Return what a table has of one head at one length."""
    same = (table[HEAD] == pd.Series(head)).all(axis=1)
    return table[same & (table["i"] == digits)]


def _tokens(tables: load.Tables, row: str, digits: int, seed: int) -> list[str]:
    own = tables.tokens[tables.tokens["row"] == row]
    own = own[(own["i"] == digits) & (own["seed"] == seed)]
    return own.sort_values("at")["token"].tolist()


def _asked(signs: list[str]) -> int:
    return len(signs) - signs.index("=")


def _looks(
    table: pd.DataFrame, row: str, digits: int, head: dict[str, int], signs: list[str]
) -> pd.DataFrame:
    """Return the attention of one head where the answer is written."""
    own = _of(table[table["row"] == row], digits, head)
    return own[(own["query"] >= signs.index("=")) & (own["query"] < len(signs) - 1)]


def scores(tables: load.Tables) -> pd.DataFrame:
    """Return the score of each head by number of digits, `i`."""
    table = tables.heads[tables.heads["needed"] == OPERAND]
    return table[["row", "i", *HEAD, "n", "share"]].reset_index(drop=True)


@style.styled
def ranked(tables: load.Tables) -> tuple[Figure, pd.DataFrame]:
    """Draw the score of every head, the best of each seed first, at both lengths."""
    table = scores(tables)
    rows, seeds = load.rows(table), sorted(table["seed"].unique())
    figure, drawn = style.panels(len(rows), 2, (3.8, 2.6), sharey=True)
    for axes, row in zip(drawn, rows, strict=True):
        part = table[table["row"] == row]
        for seed in seeds:
            _seed(axes, part[part["seed"] == seed], row, seeds.index(seed) / len(seeds) * 0.5)
        title = f"{style.look(row).label}, trained to {part['i'].min()} digits"
        axes.set(xlabel="heads of each seed, the best first", ylim=(-0.03, 1.03), title=title)
        style.percent(axes.yaxis)
    drawn[0].set_ylabel("attention on the digits to add")
    dots = {"marker": "o", "ls": "none", "ms": 5, "mec": "#333333"}
    handles = [
        Line2D([], [], mfc="#333333", label="as many digits as in training", **dots),
        Line2D([], [], mfc="white", label="one digit more", **dots),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure, table


def _seed(axes: Axes, part: pd.DataFrame, row: str, shift: float) -> None:
    """Draw the heads of one seed, with a line from what each does to what it does beyond."""
    wide = part.pivot(index=["layer", "head"], columns="i", values="share")
    wide = wide.sort_values(wide.columns[0], ascending=False, kind="stable")
    color = style.look(row).color
    for at, (_, shares) in enumerate(wide.iterrows()):
        axes.plot([at + shift] * len(shares), shares, color=color, linewidth=0.8, zorder=1)
        for share, fill in zip(shares, (color, "white"), strict=False):
            axes.plot(at + shift, share, "o", ms=4.5, color=color, mfc=fill)
    axes.set_xticks(range(len(wide)), range(1, len(wide) + 1))
