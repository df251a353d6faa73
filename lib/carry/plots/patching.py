"""Where the carry lives: which activations flip an answer if they are those of a problem's twin."""

from __future__ import annotations

import re

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from carry.evaluation.intervals import add_interval
from carry.plots import load, style
from carry.plots.inside import KEYS, color_bar, heatmap, order, point

CONTROL = "#888888"
MOST = 14  # cells with a name of their own
NUMBERS = {"a": "first operand", "b": "second operand", "s": "sum"}


@style.styled
def flipped(tables: load.Tables, places: int = 3) -> tuple[Figure, pd.DataFrame]:
    """Draw the share of answers that each cell flips, for some places, rows side by side.

    At the longest trained length. All seeds together: those that are wrong about a pair of twins
    do not count it.
    """
    table = tables.patches[tables.patches["digits"] == tables.patches["trained"]]
    table = pool(table, [*KEYS, "place", "activation", "token", "role"])
    rows = load.rows(table)
    chosen = {row: spread(table.loc[table["row"] == row, "place"], places) for row in rows}
    table = table[[of.place in chosen[of.row] for of in table.itertuples()]]
    lines = max(len(of) for of in chosen.values())
    points = table.groupby("row")["activation"].nunique().max()
    size = (max(3.2, 0.19 * (table["token"].max() + 1) + 1.2), 0.24 * points + 1.05)
    figure, drawn = style.panels(lines * len(rows), len(rows), size)
    for number, axes in enumerate(drawn):
        row = rows[number % len(rows)]
        place = chosen[row][number // len(rows)]
        part = table[(table["row"] == row) & (table["place"] == place)]
        picture = _cells(axes, part)
        title = f"{style.look(row).label}\ncarry into place {place}, {int(part['n'].max()):,} pairs"
        axes.set_title(title, fontsize="small")
        if number % len(rows):
            axes.tick_params(labelleft=False)
    figure.supxlabel("token (a, b: operands; s: their sum)", fontsize="medium")
    color_bar(figure, picture, drawn, "answers flipped")
    return figure, table.reset_index(drop=True)


def _cells(axes: Axes, part: pd.DataFrame):
    """Draw one place: points of the residual stream by tokens; grey is what is not read."""
    points = order(part["activation"])
    roles = part.drop_duplicates("token").set_index("token")["role"].sort_index()
    square = part.pivot(index="activation", columns="token", values="accuracy")
    square = square.reindex(index=points, columns=roles.index)
    axes.set_xticks(range(len(roles)), roles.tolist(), fontsize=6)
    axes.set_yticks(range(len(points)), [point(name) for name in points])
    return heatmap(axes, square.to_numpy(dtype=float), "viridis", Normalize(0, 1))


@style.styled
def confirmed(tables: load.Tables) -> tuple[Figure, pd.DataFrame]:
    """Draw how often the cells that were named flip answers of other twins, and of control twins.

    Cells of all places and seeds that are the same seen from the place where the carry comes in
    are counted together.
    """
    table = relative(tables.confirmed)
    rows = load.rows(table)
    figure, drawn = style.panels(len(rows), 2, (4.2, 0.22 * _names(table) + 1.1), sharex=True)
    for axes, row in zip(drawn, rows, strict=True):
        part = table[(table["row"] == row) & (table["digits"] == table["trained"])]
        cells = part.loc[part["twins"] == "carry"].nlargest(MOST, "n", keep="first")
        _dots(axes, part, cells, row)
        axes.set_title(f"{style.look(row).label}, {part['trained'].max():.0f} digits"
                       if len(part) else style.look(row).label, fontsize="small")  # fmt: skip
        axes.set(xlim=(-0.03, 1.03), ylim=(max(1, len(cells)) - 0.4, -0.6))
        axes.set_xlabel("answers flipped")
        style.percent(axes.xaxis)
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
    own = table[(table["digits"] == table["trained"]) & (table["twins"] == "carry")]
    return min(MOST, int(own.groupby("row").size().max())) if len(own) else 1


def _dots(axes: Axes, part: pd.DataFrame, cells: pd.DataFrame, row: str) -> None:
    """Draw the named cells, those that were named most often first."""
    names = []
    for line, cell in enumerate(cells.itertuples()):
        same = part[(part["activation"] == cell.activation) & (part["where"] == cell.where)]
        names.append(f"{cell.where}; {point(cell.activation)} ({cell.named})")
        for of in same.itertuples():
            carry = of.twins == "carry"
            color = style.look(row).color if carry else CONTROL
            at = line + (-0.12 if carry else 0.12)
            axes.plot([of.low, of.high], [at, at], color=color, lw=1.4)
            axes.plot(of.accuracy, at, "o", ms=5, color=color, mfc=color if carry else "white")
    axes.set_yticks(range(len(names)), names, fontsize=7)


def relative(table: pd.DataFrame) -> pd.DataFrame:
    """Return flips by what a token is to the place of the carry, of all places and seeds.

    `named`: how many pairs of a seed and a place have this cell.

    >>> two = pd.DataFrame({"row": "a", "trained": 3, "digits": 3, "seed": 0, "place": [1, 2],
    ...     "activation": "0.resid_mid", "role": ["s0", "s1"], "twins": "carry", "n": 10,
    ...     "flipped": [9, 10]})
    >>> relative(two)[["where", "n", "flipped", "named"]].values.tolist()
    [['sum, one place below', 20, 19, 2]]
    """
    where = [
        seen_from(role, place) for role, place in zip(table["role"], table["place"], strict=True)
    ]
    keys = [*KEYS, "activation", "where", "twins"]
    table = table.assign(where=pd.Series(where, index=table.index, dtype=object))
    return pool(table[table["n"] > 0], keys, named=("place", "size"))


def seen_from(role: str, place: int) -> str:
    """Return what a token is, seen from a place.

    >>> seen_from("a2", 2), seen_from("b0", 2), seen_from("=", 2)
    ('first operand, this place', 'second operand, 2 places below', 'the sign =')
    """
    found = re.fullmatch(r"([abs])(\d+)", role)
    if not found:
        return f"the sign {role}"
    by = int(found[2]) - place
    many = "one place" if abs(by) == 1 else f"{abs(by)} places"
    side = "this place" if by == 0 else f"{many} {'above' if by > 0 else 'below'}"
    return f"{NUMBERS[found[1]]}, {side}"


def pool(table: pd.DataFrame, keys: list[str], **more: tuple[str, str]) -> pd.DataFrame:
    """Return flips of all seeds together, with their interval."""
    counts = {"n": ("n", "sum"), "flipped": ("flipped", "sum"), "seeds": ("seed", "nunique")}
    found = table.groupby(keys, as_index=False, sort=False).agg(**counts, **more)
    return add_interval(found, "flipped")


def spread(places: pd.Series, most: int) -> list[int]:
    """Return some places from the lowest to the highest, evenly.

    >>> spread(pd.Series([1, 2, 3, 4, 5, 5]), 3), spread(pd.Series([1, 2]), 3)
    ([1, 3, 5], [1, 2])
    """
    there = sorted(places.unique())
    if len(there) <= most:
        return [int(place) for place in there]
    return [int(there[round(at * (len(there) - 1) / (most - 1))]) for at in range(most)]
