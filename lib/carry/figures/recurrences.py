"""What a looped model would answer after each of its recurrences, and after more than it learnt."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from carry.figures import load, style

RIGHT, WRONG, INK = "#D6E6F4", "#E8743B", "#1D1F21"
WHOLE = -1  # the place that stands for the whole answer


@style.styled
def of_a_problem(answers: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw one answer as it stands after each recurrence, of the row that is looped most often."""
    answers = answers[answers["recurrences_trained"] == answers["recurrences_trained"].max()]
    answers = answers[answers["row"] == answers["row"].iloc[0]]
    answers = answers[answers["seed"] == answers["seed"].min()]
    table = answers[answers["digits"] == answers["digits"].max()].reset_index(drop=True)
    order = list(dict.fromkeys(table["place"]))  # as written; the end of the answer has no digit
    said = table.pivot(index="recurrence", columns="place", values="said")[order]
    due = table.drop_duplicates("place").set_index("place")["due"][order]
    wrong = said.ne(due, axis="columns")
    width = min(0.2, 10 / len(order))
    size = (width * len(order) + 1.6, 0.19 * (len(said) + 1) + 0.9)
    figure, (axes,) = style.panels(1, 1, size)
    axes.imshow(
        wrong.to_numpy(dtype=float), cmap=ListedColormap([RIGHT, WRONG]), vmin=0, vmax=1,
        aspect="auto", interpolation="none",
        extent=(-0.5, len(order) - 0.5, len(said) + 0.5, 0.5),
    )  # fmt: skip
    _characters(axes, 0, due, 45 * width)
    for height, (_, line) in enumerate(said.iterrows(), start=1):
        _characters(axes, height, line, 45 * width)
    trained = table["recurrences_trained"].iloc[0]
    axes.axhline(trained + 0.5, color=INK, linewidth=1.2, linestyle="--")
    axes.set(xlim=(-0.5, len(order) - 0.5), ylim=(len(said) + 0.5, -0.6))
    axes.set_yticks(range(len(said) + 1), ["due", *said.index], fontsize="small")
    axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))
    axes.set(xlabel="place in the answer, the ones first", ylabel="recurrence")
    label = style.look(table["row"].iloc[0]).label
    axes.set_title(f"{label}: {table['digits'].iloc[0]} digits", fontsize="medium", loc="left")
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    return figure, table


def _characters(axes: Axes, height: int, line: pd.Series, size: float) -> None:
    look = {"ha": "center", "va": "center_baseline", "family": "monospace", "fontsize": size}
    for at, character in enumerate(line):
        text = axes.text(at, height, str(character), color=INK, parse_math=False, **look)
        text.set_in_layout(False)  # it is inside the panel, and there are thousands


@style.styled
def by_place(
    recurrences: pd.DataFrame, start: str | dict[str, str] = "1"
) -> tuple[Figure, pd.DataFrame]:
    """Draw the share of right digits by place and recurrence, at the most digits of each row.

    Args:
        recurrences: accuracy by place and recurrence.
        start: where ids start, for all rows or for each one (as `load.starts` gives them).
    """
    here = load.at_start(recurrences, start)
    here = here[here["place"] != WHOLE]
    here = here[here["digits"] == here.groupby("row")["digits"].transform("max")]
    keys = ["row", "start", "trained", "recurrences_trained", "digits", "recurrence", "place"]
    table = load.over_seeds(here, keys, "correct")
    rows = load.rows(table)
    figure, drawn = style.panels(len(rows), 3, (3.3, 2.6))
    for axes, row in zip(drawn, rows, strict=True):
        part = table[table["row"] == row]
        shares = part.pivot(index="recurrence", columns="place", values="accuracy").sort_index()
        first, last = shares.index.min(), shares.index.max()
        picture = axes.imshow(
            shares.to_numpy(dtype=float), vmin=0, vmax=1, cmap="viridis", aspect="auto",
            interpolation="none",
            extent=(-0.5, shares.shape[1] - 0.5, last + 0.5, first - 0.5),
        )  # fmt: skip
        for color, dashes in (("white", "-"), ("#D00000", (0, (3, 2)))):
            height = part["recurrences_trained"].iloc[0] + 0.5
            axes.axhline(height, color=color, linestyle=dashes, linewidth=1.4)
        length = style.reached(row, load.lengths(part)[row])
        title = f"{style.look(row).label}\n{length}; here {part['digits'].iloc[0]}"
        axes.set_title(title, fontsize="small")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(6, integer=True))
        axes.grid(visible=False)
    figure.supxlabel("place in the answer (0 is the ones)", fontsize="medium")
    figure.supylabel("recurrence", fontsize="medium")
    bar = figure.colorbar(picture, ax=drawn, shrink=0.8, aspect=25)
    bar.set_label("digits right")
    bar.outline.set_visible(False)
    style.percent(bar.ax.yaxis)
    return figure, table


@style.styled
def whole_answers(
    recurrences: pd.DataFrame, start: str | dict[str, str] = "1"
) -> tuple[Figure, pd.DataFrame]:
    """Draw the share of problems wholly right by recurrence; a dot is the number of training.

    Args:
        recurrences: accuracy by place and recurrence.
        start: where ids start, for all rows or for each one (as `load.starts` gives them).
    """
    here = load.at_start(recurrences, start)
    table = here[here["place"] == WHOLE].drop(columns=["profile", "place"]).reset_index(drop=True)
    lengths = sorted(table["digits"].unique())
    figure, drawn = style.panels(len(lengths), 3, (3.1, 2.8), sharey=True)
    for axes, length in zip(drawn, lengths, strict=True):
        for row in load.rows(table):
            part = table[(table["row"] == row) & (table["digits"] == length)]
            if part.empty:
                continue
            style.seeds_and_median(axes, part, row, "recurrence", "accuracy")
            trained = part[part["recurrence"] == part["recurrences_trained"]]
            color = style.look(row).color
            axes.plot(trained["recurrence"].iloc[:1], [trained["accuracy"].median()], "o", ms=6,
                      color=color, markeredgecolor="white", zorder=4)  # fmt: skip
        axes.set(title=f"{length} digits", ylim=(-0.03, 1.03))
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        style.percent(axes.yaxis)
    problems = style.problems(load.rows(table))
    figure.supylabel(f"{problems} wholly right", fontsize="medium")
    figure.supxlabel("recurrence", fontsize="medium")
    style.legend(figure, load.rows(table), trained=load.lengths(table))
    return figure, table
