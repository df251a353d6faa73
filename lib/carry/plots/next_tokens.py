"""Certainty of next tokens: their entropy, and the probabilities of the correct one and the end."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from carry.plots import lengths, load, style

# Column, label, colour and dashes. The colours are of no scheme.
CURVES = {
    "correct": ("probability of the correct digit", "#44BB99", "-"),
    "end": ("probability of the end", "#EE8866", "--"),
    "entropy": ("entropy (share of the largest)", "#222222", ":"),
}
KEYS = ["row", "trained", "digits", "token"]
NEW_POSITION = "#DCEBF8"


@style.use_style
def draw_next_tokens(
    tables: load.ResultTables, names: Mapping[str, str] | None = None
) -> tuple[Figure, pd.DataFrame]:
    """Draw how certain the next token is wherever a digit is due, by token of the answer.

    Lines are means over seeds, and bands reach from the lowest seed to the highest. A line of
    panels is a row; its panels are the longest trained length, the next one and the longest tested.

    Args:
        tables: holds the table `next_tokens`.
        names: labels of rows in this figure, if other than their usual labels.
    """
    trained, learned = lengths.find_trained_lengths(tables), lengths.count_learned(tables)
    table = make_token_table(tables["next_tokens"])
    rows = load.list_rows(table)
    figure, panels = style.make_panels(3 * len(rows), 3, (2.9, 1.95), sharey=True)
    chosen = table.groupby("row", sort=False)["digits"].unique().to_dict()
    for number, axes in enumerate(panels):
        row = rows[number // 3]
        if number % 3 >= len(chosen[row]):
            axes.axis("off")
            continue
        digits = chosen[row][number % 3]
        _draw_panel(axes, table[(table["row"] == row) & (table["digits"] == digits)])
        title = lengths.make_panel_title(row, trained[row], names, learned)
        axes.set_title(f"{title}\n" * (number % 3 == 0) + f"{digits} digits", fontsize="small")
    for axes in panels[::3]:
        axes.set_ylabel("mean of digits")
    figure.supxlabel("digit of the answer, in the order of writing", fontsize="medium")
    handles = [
        Line2D([], [], color=color, linestyle=dashes, linewidth=1.8, label=label)
        for label, color, dashes in CURVES.values()
    ]
    handles.append(Patch(facecolor=NEW_POSITION, label="position that training has not shown"))
    figure.legend(handles=handles, loc="outside upper center", ncols=2)
    return figure, table


def make_token_table(tokens: pd.DataFrame) -> pd.DataFrame:
    """Return the means of digits at each token, over seeds, at up to three lengths of each row.

    Columns: `quantity` (of `CURVES`), its `value`, and its `low` and `high` over `seeds`; `new`,
    the share of the `n` digits whose position training has not shown.
    """
    tokens = tokens[tokens["due"] == "digit"]
    longest = tokens.groupby("row")["digits"].transform("max")
    wanted = (tokens["digits"] - tokens["trained"]).isin([0, 1]) | (tokens["digits"] == longest)
    tokens = tokens[wanted & (tokens["digits"] >= tokens["trained"])]
    tokens = tokens.assign(new=tokens["new"] * tokens["n"])
    sums = tokens.groupby([*KEYS, "seed"], sort=False)[["n", "new", *CURVES]].sum().reset_index()
    parts = []
    for quantity in CURVES:
        means = sums.assign(value=sums[quantity] / sums["n"]).groupby(KEYS, sort=False)
        aggregates = {"value": ("value", "mean"), "low": ("value", "min"), "high": ("value", "max")}
        counts = {"n": ("n", "sum"), "new": ("new", "sum"), "seeds": ("seed", "nunique")}
        parts.append(means.agg(**aggregates, **counts).reset_index().assign(quantity=quantity))
    table = pd.concat(parts, ignore_index=True)
    table["new"] /= table["n"]
    order = {row: number for number, row in enumerate(load.list_rows(sums))}
    table = table.sort_values(
        ["row", "digits"], key=lambda column: column.map(order) if column.name == "row" else column,
        kind="stable",
    )  # fmt: skip
    return table[[*KEYS, "quantity", "value", "low", "high", "n", "seeds", "new"]].reset_index(
        drop=True
    )


def _draw_panel(axes: Axes, part: pd.DataFrame) -> None:
    for quantity, (_, color, dashes) in CURVES.items():
        curve = part[part["quantity"] == quantity].sort_values("token")
        axes.fill_between(
            curve["token"], curve["low"], curve["high"], color=color, alpha=0.2, linewidth=0
        )
        axes.plot(
            curve["token"], curve["value"], color=color, linestyle=dashes, marker="o", ms=3, lw=1.8
        )
    for token in part.loc[part["new"] > 0.5, "token"].unique():
        axes.axvspan(token - 0.5, token + 0.5, color=NEW_POSITION, linewidth=0, zorder=0)
    tokens = sorted(part["token"].unique())
    axes.set_xticks(tokens[:: lengths.choose_tick_step(len(tokens))])
    axes.set(ylim=(-0.04, 1.04), xlim=(tokens[0] - 0.5, tokens[-1] + 0.5))
    axes.grid(visible=False, axis="x")
    style.format_percent(axes.yaxis)
