"""Answers of a looped model after each recurrence, and after more recurrences than in training."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from carry.evaluation.recurrences import WHOLE_ANSWER
from carry.plots import load, style

CORRECT, WRONG, INK = "#D6E6F4", "#E8743B", "#1D1F21"
MAX_TOKENS = 64  # in a line; a longer answer continues in the next panel


@style.use_style
def draw_answer_by_recurrence(answers: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw one answer after each recurrence, of the row with most recurrences and longest sums."""
    for column in ("recurrences_trained", "trained"):
        answers = answers[answers[column] == answers[column].max()]
    answers = answers[answers["row"] == answers["row"].iloc[0]]
    answers = answers[answers["seed"] == answers["seed"].min()]
    table = answers[answers["digits"] == answers["digits"].max()].reset_index(drop=True)
    predicted = table.pivot(index="recurrence", columns="slot", values="predicted").sort_index()
    target = table.drop_duplicates("slot").set_index("slot")["target"]
    lines = -(-predicted.shape[1] // MAX_TOKENS)
    width = -(-predicted.shape[1] // lines)
    size = (max(4.6, 0.17 * width + 1.2), 0.19 * (len(predicted) + 1) + 0.8)  # room for the title
    figure, panels = style.make_panels(lines, 1, size)
    for number, axes in enumerate(panels):
        part = predicted.iloc[:, number * width : (number + 1) * width]
        _draw_strip(axes, part, target[part.columns], int(table["recurrences_trained"].iloc[0]))
        axes.set_xlim(-0.5, width - 0.5)
    row = table["row"].iloc[0]
    length = style.describe_training_length(row, load.find_training_lengths(table)[row])
    title = f"{style.choose_style(row).label}, {length}; here {table['digits'].iloc[0]}"
    panels[0].set_title(title, fontsize="medium", loc="left")
    label = "token of the answer, least significant digit first"
    label += load.describe_starts(table["start"].unique())
    figure.supxlabel(label, fontsize="medium")
    figure.supylabel("recurrence", fontsize="medium")
    return figure, table


def _draw_strip(axes: Axes, predicted: pd.DataFrame, target: pd.Series, trained: int) -> None:
    """Draw a part of the answer: the target, and below it the prediction of each recurrence."""
    wrong, width = predicted.ne(target, axis="columns"), len(target)
    axes.imshow(
        wrong.to_numpy(dtype=float),
        cmap=ListedColormap([CORRECT, WRONG]),
        vmin=0,
        vmax=1,
        aspect="auto",
        interpolation="none",
        extent=(-0.5, width - 0.5, len(predicted) + 0.5, 0.5),
    )
    font = {"ha": "center", "va": "center_baseline", "family": "monospace", "fontsize": 7.5}
    for height, characters in enumerate([target.tolist(), *predicted.to_numpy().tolist()]):
        for at, character in enumerate(characters):
            text = axes.text(at, height, character, color=INK, parse_math=False, **font)
            text.set_in_layout(False)  # thousands of texts, all inside the panel
    axes.axhline(trained + 0.5, color=INK, linewidth=1.2, linestyle="--")
    axes.set_ylim(len(predicted) + 0.5, -0.6)
    axes.set_yticks(range(len(predicted) + 1), ["target", *predicted.index], fontsize="small")
    every = 10 if width > 20 else 2
    ticks = [at for at, slot in enumerate(target.index) if slot % every == 0]
    axes.set_xticks(ticks, [target.index[at] for at in ticks])
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)


@style.use_style
def draw_places_by_recurrence(recurrences: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw the share of correct digits by place and recurrence, at the longest length of a row."""
    by_place = recurrences[recurrences["place"] != WHOLE_ANSWER]
    longest = by_place.groupby("row")["digits"].transform("max")
    keys = ["row", "start", "trained", "recurrences_trained", "digits", "recurrence", "place"]
    table = load.average_seeds(by_place[by_place["digits"] == longest], keys, "correct")
    rows = load.list_rows(table)
    figure, panels = style.make_panels(len(rows), 3, (3.3, 2.6))
    for axes, row in zip(panels, rows, strict=True):
        part = table[table["row"] == row]
        shares = part.pivot(index="recurrence", columns="place", values="accuracy").sort_index()
        first, last = shares.index.min(), shares.index.max()
        picture = axes.imshow(
            shares.to_numpy(dtype=float),
            vmin=0,
            vmax=1,
            cmap="viridis",
            aspect="auto",
            interpolation="none",
            extent=(-0.5, shares.shape[1] - 0.5, last + 0.5, first - 0.5),
        )
        for color, dashes in (("white", "-"), ("#D00000", (0, (3, 2)))):
            height = part["recurrences_trained"].iloc[0] + 0.5
            axes.axhline(height, color=color, linestyle=dashes, linewidth=1.4)
        length = style.describe_training_length(row, load.find_training_lengths(part)[row])
        title = f"{style.choose_style(row).label}\n{length}; here {part['digits'].iloc[0]}"
        axes.set_title(title, fontsize="small")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(6, integer=True))
        axes.grid(visible=False)
    label = "place in the answer (0: least significant)"
    label += load.describe_starts(table["start"].unique())
    figure.supxlabel(label, fontsize="medium")
    figure.supylabel("recurrence", fontsize="medium")
    bar = figure.colorbar(picture, ax=panels, shrink=0.8, aspect=25)
    bar.set_label("correct digits")
    bar.outline.set_visible(False)
    style.format_percent(bar.ax.yaxis)
    return figure, table


@style.use_style
def draw_whole_answers_by_recurrence(recurrences: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw correct answers by recurrence, and answers that the last recurrence did not change.

    Of each row it draws at most three lengths: the trained one, the longest, and one between. A dot
    marks the number of recurrences in training.
    """
    table = recurrences[recurrences["place"] == WHOLE_ANSWER].drop(columns=["profile", "place"])
    table = pd.concat([_choose_lengths(part) for _, part in table.groupby("row", sort=False)])
    table = table.assign(unchanged=table["same"] / table["n"]).reset_index(drop=True)
    lengths, rows = sorted(table["digits"].unique()), load.list_rows(table)
    labels = {"accuracy": f"correct {style.name_problems(rows)}", "unchanged": "unchanged"}
    count, size = len(labels) * len(lengths), (min(2.6, 11 / len(lengths)), 2.5)
    figure, panels = style.make_panels(count, len(lengths), size, sharey=True, sharex="col")
    for number, axes in enumerate(panels):
        column, length = list(labels)[number // len(lengths)], lengths[number % len(lengths)]
        for row in rows:
            part = table[(table["row"] == row) & (table["digits"] == length)]
            part = part.dropna(subset=[column])
            if not part.empty:
                style.draw_seeds_and_median(axes, part, row, "recurrence", column)
                _mark_training(axes, part, row, column)
        axes.set(title=f"{length} digits" if column == "accuracy" else "", ylim=(-0.03, 1.03))
        axes.set_ylabel(labels[column] if number % len(lengths) == 0 else "")
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        style.format_percent(axes.yaxis)
    label = "recurrence" + load.describe_starts(table["start"].unique())
    figure.supxlabel(label, fontsize="medium")
    style.draw_legend(figure, rows, trained=load.find_training_lengths(table))
    return figure, table


def _choose_lengths(part: pd.DataFrame) -> pd.DataFrame:
    lengths = sorted(part["digits"].unique())
    return part[part["digits"].isin([lengths[0], lengths[len(lengths) // 2], lengths[-1]])]


def _mark_training(axes: Axes, part: pd.DataFrame, row: str, column: str) -> None:
    """Draw a dot at the number of recurrences in training."""
    trained = part[part["recurrence"] == part["recurrences_trained"]]
    dot = {"color": style.choose_style(row).color, "mec": "white", "ms": 6, "zorder": 4}
    axes.plot(trained["recurrence"].iloc[:1], [trained[column].median()], "o", **dot)
