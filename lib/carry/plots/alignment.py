"""Alignment: do heads attend to the digits to add, at trained lengths and one digit beyond?

The score of a head is its attention on the digits of the written place, in both operands, at the
token that predicts the digit (see `carry.interpretability.attention`).
"""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from carry.plots import attention, load, style

HEAD = ["seed", "layer", "head"]
OPERAND = "operand"


@style.use_style
def draw_alignment_maps(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw the attention of the best head of each row's first seed, at both lengths."""
    scored = draw_alignment_scores(tables)
    by_row = {row: scored[scored["row"] == row] for row in load.list_rows(scored)}
    chosen = {row: _best(head_rows) for row, head_rows in by_row.items()}
    lengths = {
        row: sorted(map(int, head_rows["i"].unique()))[:2] for row, head_rows in by_row.items()
    }
    cells = [(row, digits) for row, both in lengths.items() for digits in both]
    columns = max(len(head_rows) for head_rows in lengths.values())
    tokens_of_cell = {cell: _tokens(tables, *cell, chosen[cell[0]]["seed"]) for cell in cells}
    width, height = (
        max(map(len, tokens_of_cell.values())),
        max(_asked(head_rows) for head_rows in tokens_of_cell.values()),
    )
    size = (max(2.6, 0.115 * width + 0.6), max(1.3, 0.115 * height + 0.65))
    figure, panels = style.make_panels(len(cells), columns, size)
    parts = []
    for axes, (row, digits) in zip(panels, cells, strict=True):
        signs, head = tokens_of_cell[row, digits], chosen[row]
        parts.append(_looks(tables["attention"], row, digits, head, signs))
        picture = attention.draw_attention_map(axes, parts[-1], signs, signs.index("="), size=6.0)
        share = _of(by_row[row], digits, head)["share"].item()
        title = (
            f"{style.choose_style(row).label}, layer {head['layer'] + 1}, head {head['head'] + 1}"
        )
        share_label = f"{digits} digits: {share:.0%} on the digits to add"
        axes.set_title(f"{title}\n{share_label}", fontsize="small", loc="left")
    bar = figure.colorbar(picture, ax=panels, shrink=0.6, aspect=30, label="mean attention")
    bar.outline.set_visible(False)
    style.format_percent(bar.ax.yaxis)
    table = pd.concat(parts)
    return figure, table[table["weight"] >= attention.CLIPPED].reset_index(drop=True)


def _best(heads: pd.DataFrame) -> dict[str, int]:
    """Return seed, layer and number of the best head of the first seed."""
    first = heads["seed"] == heads["seed"].min()
    candidates = heads[first & (heads["i"] == heads["i"].min())]
    return {
        name: int(number)
        for name, number in candidates.loc[candidates["share"].idxmax(), HEAD].items()
    }


def _of(table: pd.DataFrame, digits: int, head: dict[str, int]) -> pd.DataFrame:
    """Return the rows of a table for one head at one length."""
    same = (table[HEAD] == pd.Series(head)).all(axis=1)
    return table[same & (table["i"] == digits)]


def _tokens(tables: load.ResultTables, row: str, digits: int, seed: int) -> list[str]:
    tokens = tables["tokens"][tables["tokens"]["row"] == row]
    tokens = tokens[(tokens["i"] == digits) & (tokens["seed"] == seed)]
    return tokens.sort_values("at")["token"].tolist()


def _asked(signs: list[str]) -> int:
    return len(signs) - signs.index("=")


def _looks(
    table: pd.DataFrame, row: str, digits: int, head: dict[str, int], signs: list[str]
) -> pd.DataFrame:
    """Return the attention of one head at the tokens that predict the answer."""
    weights = _of(table[table["row"] == row], digits, head)
    return weights[(weights["query"] >= signs.index("=")) & (weights["query"] < len(signs) - 1)]


def draw_alignment_scores(tables: load.ResultTables) -> pd.DataFrame:
    """Return the score of each head by number of digits, `i`."""
    table = tables["heads"][tables["heads"]["needed"] == OPERAND]
    return table[["row", "i", *HEAD, "n", "share"]].reset_index(drop=True)


@style.use_style
def rank_heads(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw the score of every head at both lengths, the best head of each seed first."""
    table = draw_alignment_scores(tables)
    rows, seeds = load.list_rows(table), sorted(table["seed"].unique())
    figure, panels = style.make_panels(len(rows), 2, (3.8, 2.6), sharey=True)
    for axes, row in zip(panels, rows, strict=True):
        part = table[table["row"] == row]
        for seed in seeds:
            _seed(axes, part[part["seed"] == seed], row, seeds.index(seed) / len(seeds) * 0.5)
        title = f"{style.choose_style(row).label}, trained to {part['i'].min()} digits"
        axes.set(xlabel="heads of each seed, the best first", ylim=(-0.03, 1.03), title=title)
        style.format_percent(axes.yaxis)
    panels[0].set_ylabel("attention on the digits to add")
    dots = {"marker": "o", "ls": "none", "ms": 5, "mec": "#333333"}
    handles = [
        Line2D([], [], mfc="#333333", label="as many digits as in training", **dots),
        Line2D([], [], mfc="white", label="one digit more", **dots),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure, table


def _seed(axes: Axes, part: pd.DataFrame, row: str, shift: float) -> None:
    """Draw the heads of one seed, with a line from the trained length to the longer one."""
    wide = part.pivot(index=["layer", "head"], columns="i", values="share")
    wide = wide.sort_values(wide.columns[0], ascending=False, kind="stable")
    color = style.choose_style(row).color
    for at, (_, shares) in enumerate(wide.iterrows()):
        axes.plot([at + shift] * len(shares), shares, color=color, linewidth=0.8, zorder=1)
        for share, fill in zip(shares, (color, "white"), strict=False):
            axes.plot(at + shift, share, "o", ms=4.5, color=color, mfc=fill)
    axes.set_xticks(range(len(wide)), range(1, len(wide) + 1))
