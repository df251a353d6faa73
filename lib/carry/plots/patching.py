"""Patching: which activations flip an answer when they come from a problem's twin."""

from __future__ import annotations

import re

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from carry.plots import load, style
from carry.plots.inside import (
    KEYS,
    add_color_bar,
    draw_heatmap,
    label_activation,
    order_activations,
)

CONTROL = "#888888"
MOST = 14  # labelled cells
NUMBERS = {"a": "first operand", "b": "second operand", "s": "sum"}


@style.use_style
def draw_flipped(tables: load.ResultTables, places: int = 3) -> tuple[Figure, pd.DataFrame]:
    """Draw the share of answers that each cell flips, for some places, rows side by side.

    At the longest trained length, means over seeds. Pairs with a wrong answer are left out.
    """
    table = tables["patches"][tables["patches"]["digits"] == tables["patches"]["trained"]]
    table = pool_patches(table, [*KEYS, "place", "activation", "token", "role"])
    rows = load.list_rows(table)
    chosen = {row: seed_range(table.loc[table["row"] == row, "place"], places) for row in rows}
    table = table[[record.place in chosen[record.row] for record in table.itertuples()]]
    lines = max(len(record) for record in chosen.values())
    points = table.groupby("row")["activation"].nunique().max()
    size = (max(3.2, 0.19 * (table["token"].max() + 1) + 1.2), 0.24 * points + 1.05)
    figure, panels = style.make_panels(lines * len(rows), len(rows), size)
    for number, axes in enumerate(panels):
        row = rows[number % len(rows)]
        place = chosen[row][number // len(rows)]
        part = table[(table["row"] == row) & (table["place"] == place)]
        picture = _cells(axes, part)
        pairs = f"carry into place {place}, {int(part['n'].max()):,} pairs"
        title = f"{style.choose_style(row).label}\n{pairs}"
        axes.set_title(title, fontsize="small")
        if number % len(rows):
            axes.tick_params(labelleft=False)
    figure.supxlabel("token (a, b: operands; s: their sum)", fontsize="medium")
    add_color_bar(figure, picture, panels, "answers flipped")
    return figure, table.reset_index(drop=True)


def _cells(axes: Axes, part: pd.DataFrame):
    """Draw one place: points of the residual stream by tokens; grey cells were not patched."""
    points = order_activations(part["activation"])
    roles = part.drop_duplicates("token").set_index("token")["role"].sort_index()
    square = part.pivot(index="activation", columns="token", values="accuracy")
    square = square.reindex(index=points, columns=roles.index)
    axes.set_xticks(range(len(roles)), roles.tolist(), fontsize=6)
    axes.set_yticks(range(len(points)), [label_activation(name) for name in points])
    return draw_heatmap(axes, square.to_numpy(dtype=float), "viridis", Normalize(0, 1))


@style.use_style
def draw_confirmed(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw how often the named cells flip the answers of other twins, and of control twins.

    Cells of all places with the same position relative to the carry are pooled, then averaged over
    the seeds that have them.
    """
    table = relative_place(tables["confirmed"])
    rows = load.list_rows(table)
    figure, panels = style.make_panels(len(rows), 2, (4.2, 0.22 * _names(table) + 1.1), sharex=True)
    for axes, row in zip(panels, rows, strict=True):
        part = table[(table["row"] == row) & (table["digits"] == table["trained"])]
        cells = part.loc[part["twins"] == "carry"].nlargest(MOST, "n", keep="first")
        _dots(axes, part, cells, row)
        digits = f", {part['trained'].max():.0f} digits" if len(part) else ""
        axes.set_title(style.choose_style(row).label + digits, fontsize="small")
        axes.set(xlim=(-0.03, 1.03), ylim=(max(1, len(cells)) - 0.4, -0.6))
        axes.set_xlabel("answers flipped")
        style.format_percent(axes.xaxis)
        if part.empty:
            axes.text(0.5, 0, "no cell was named", ha="center", va="center", color="#555555")
    dots = {"marker": "o", "ls": "none"}
    handles = [
        Line2D([], [], **dots, color="#333333", label="twins that differ in a carry"),
        Line2D([], [], **dots, mfc="white", mec=CONTROL, label="control twins, that do not"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure, table


def _names(table: pd.DataFrame) -> int:
    cells = table[(table["digits"] == table["trained"]) & (table["twins"] == "carry")]
    return min(MOST, int(cells.groupby("row").size().max())) if len(cells) else 1


def _dots(axes: Axes, part: pd.DataFrame, cells: pd.DataFrame, row: str) -> None:
    """Draw the named cells, the most frequent first."""
    names = []
    for line, cell in enumerate(cells.itertuples()):
        same = part[(part["activation"] == cell.activation) & (part["where"] == cell.where)]
        names.append(f"{cell.where}; {label_activation(cell.activation)} ({cell.named})")
        for record in same.itertuples():
            carry = record.twins == "carry"
            color = style.choose_style(row).color if carry else CONTROL
            at = line + (-0.12 if carry else 0.12)
            axes.plot([record.low, record.high], [at, at], color=color, lw=1.4)
            axes.plot(record.accuracy, at, "o", ms=5, color=color, mfc=color if carry else "white")
    axes.set_yticks(range(len(names)), names, fontsize=7)


def relative_place(table: pd.DataFrame) -> pd.DataFrame:
    """Return flips by the position of a token relative to the carry, over places and seeds.

    `named`: number of pairs of seed and place that have this cell.

    >>> two = pd.DataFrame({"row": "a", "trained": 3, "digits": 3, "seed": 0, "place": [1, 2],
    ...     "activation": "0.resid_mid", "role": ["s0", "s1"], "twins": "carry", "n": 10,
    ...     "flipped": [9, 10]})
    >>> relative_place(two)[["where", "n", "flipped", "named"]].values.tolist()
    [['sum, one place below', 20, 19, 2]]
    """
    where = [
        role_from_place(role, place)
        for role, place in zip(table["role"], table["place"], strict=True)
    ]
    keys = [*KEYS, "activation", "where", "twins"]
    table = table.assign(where=pd.Series(where, index=table.index, dtype=object))
    return pool_patches(table[table["n"] > 0], keys, named=("place", "size"))


def role_from_place(role: str, place: int) -> str:
    """Return the role of a token relative to a place.

    >>> role_from_place("a2", 2), role_from_place("b0", 2), role_from_place("=", 2)
    ('first operand, this place', 'second operand, 2 places below', 'the sign =')
    """
    match = re.fullmatch(r"([abs])(\d+)", role)
    if not match:
        return f"the sign {role}"
    by = int(match[2]) - place
    many = "one place" if abs(by) == 1 else f"{abs(by)} places"
    side = "this place" if by == 0 else f"{many} {'above' if by > 0 else 'below'}"
    return f"{NUMBERS[match[1]]}, {side}"


def pool_patches(table: pd.DataFrame, keys: list[str], **more: tuple[str, str]) -> pd.DataFrame:
    """Return the mean share of flips over seeds, with its interval and `more` aggregates."""
    means = load.average_seeds(table, keys, "flipped")
    return means.join(table.groupby(keys, sort=False).agg(**more), on=keys) if more else means


def seed_range(places: pd.Series, most: int) -> list[int]:
    """Return some places from the lowest to the highest, evenly spaced.

    >>> seed_range(pd.Series([1, 2, 3, 4, 5, 5]), 3), seed_range(pd.Series([1, 2]), 3)
    ([1, 3, 5], [1, 2])
    """
    there = sorted(places.unique())
    if len(there) <= most:
        return [int(place) for place in there]
    return [int(there[round(at * (len(there) - 1) / (most - 1))]) for at in range(most)]
