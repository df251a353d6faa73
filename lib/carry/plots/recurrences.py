"""What a looped model would answer after each of its recurrences, and after more than it learnt."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from carry.plots import load, style

RIGHT, WRONG, INK = "#D6E6F4", "#E8743B", "#1D1F21"
WHOLE = -1  # the place that stands for the whole answer
WIDEST = 64  # tokens side by side; longer answers go on below


@style.styled
def of_a_problem(answers: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw one answer as it stands after each recurrence, of the row that is looped most often."""
    answers = answers[answers["recurrences_trained"] == answers["recurrences_trained"].max()]
    answers = answers[answers["row"] == answers["row"].iloc[0]]
    answers = answers[answers["seed"] == answers["seed"].min()]
    table = answers[answers["digits"] == answers["digits"].max()].reset_index(drop=True)
    said = table.pivot(index="recurrence", columns="slot", values="said").sort_index()
    due = table.drop_duplicates("slot").set_index("slot")["due"]
    lines = -(-said.shape[1] // WIDEST)
    width = -(-said.shape[1] // lines)
    size = (max(4.6, 0.17 * width + 1.2), 0.19 * (len(said) + 1) + 0.8)  # room for the title
    figure, drawn = style.panels(lines, 1, size)
    for number, axes in enumerate(drawn):
        part = said.iloc[:, number * width : (number + 1) * width]
        _strip(axes, part, due[part.columns], int(table["recurrences_trained"].iloc[0]))
        axes.set_xlim(-0.5, width - 0.5)
    row = table["row"].iloc[0]
    length = style.reached(row, load.lengths(table)[row])
    title = f"{style.look(row).label}, {length}; here {table['digits'].iloc[0]}"
    drawn[0].set_title(title, fontsize="medium", loc="left")
    figure.supxlabel("token of the answer, the ones first", fontsize="medium")
    figure.supylabel("recurrence", fontsize="medium")
    return figure, table


def _strip(axes: Axes, said: pd.DataFrame, due: pd.Series, trained: int) -> None:
    """Draw a stretch of the answer: what is due, and below it what is said each time."""
    wrong, width = said.ne(due, axis="columns"), len(due)
    axes.imshow(
        wrong.to_numpy(dtype=float), cmap=ListedColormap([RIGHT, WRONG]), vmin=0, vmax=1,
        aspect="auto", interpolation="none",
        extent=(-0.5, width - 0.5, len(said) + 0.5, 0.5),
    )  # fmt: skip
    look = {"ha": "center", "va": "center_baseline", "family": "monospace", "fontsize": 7.5}
    for height, characters in enumerate([due.tolist(), *said.to_numpy().tolist()]):
        for at, character in enumerate(characters):
            text = axes.text(at, height, character, color=INK, parse_math=False, **look)
            text.set_in_layout(False)  # it is inside the panel, and there are thousands
    axes.axhline(trained + 0.5, color=INK, linewidth=1.2, linestyle="--")
    axes.set_ylim(len(said) + 0.5, -0.6)
    axes.set_yticks(range(len(said) + 1), ["due", *said.index], fontsize="small")
    every = 10 if width > 20 else 2
    ticks = [at for at, slot in enumerate(due.index) if slot % every == 0]
    axes.set_xticks(ticks, [due.index[at] for at in ticks])
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)


@style.styled
def by_place(recurrences: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw the share of right digits by place and recurrence, at the most digits of each row."""
    here = recurrences[recurrences["place"] != WHOLE]
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
def whole_answers(recurrences: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw how many answers are wholly right by recurrence, and how many are as they were before.

    A dot is the number of recurrences in training.
    """
    table = recurrences[recurrences["place"] == WHOLE].drop(columns=["profile", "place"])
    table = table.assign(stayed=table["same"] / table["n"]).reset_index(drop=True)
    lengths, rows = sorted(table["digits"].unique()), load.rows(table)
    drawn_as = {"accuracy": f"{style.problems(rows)} wholly right", "stayed": "said as before"}
    size = (2.6, 2.5)
    figure, drawn = style.panels(2 * len(lengths), len(lengths), size, sharey=True, sharex="col")
    for number, axes in enumerate(drawn):
        column, length = list(drawn_as)[number // len(lengths)], lengths[number % len(lengths)]
        for row in rows:
            part = table[(table["row"] == row) & (table["digits"] == length)]
            part = part.dropna(subset=[column])
            if not part.empty:
                style.seeds_and_median(axes, part, row, "recurrence", column)
                trained = part[part["recurrence"] == part["recurrences_trained"]]
                axes.plot(trained["recurrence"].iloc[:1], [trained[column].median()], "o", ms=6,
                          color=style.look(row).color, mec="white", zorder=4)  # fmt: skip
        axes.set(title=f"{length} digits" if column == "accuracy" else "", ylim=(-0.03, 1.03))
        axes.set_ylabel(drawn_as[column] if number % len(lengths) == 0 else "")
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        style.percent(axes.yaxis)
    figure.supxlabel("recurrence", fontsize="medium")
    style.legend(figure, rows, trained=load.lengths(table))
    return figure, table
