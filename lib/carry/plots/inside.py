"""Interpretability of adders: logit lens, probes and head ablations, layer by layer.

Each at two lengths: the longest trained length and one digit more. Rows are side by side in the
colours of their schemes.
"""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from statsmodels.stats.proportion import confint_proportions_2indep

from carry.evaluation.intervals import LEVEL
from carry.plots import load, style
from carry.plots.subtasks import SUBTASKS

STEPS = {
    "digit_sum": "digit sum",
    "carry_used": "carry that comes in",
    "carry_made": "carry that goes out",
    "cascade": "carry goes through",
    "answer": "digit of the answer",
}
PARTS = {"resid_pre": "input", "resid_mid": "attention", "resid_post": "feed-forward"}
KEYS = ["row", "trained", "digits"]
NO_HEAD = -1
WRITTEN = 150  # cells of a heatmap; numbers fit in up to this many
CHANGES = matplotlib.colormaps["RdBu"]
NOT_THERE = "#E0E0E0"


def label_activation(activation: str) -> str:
    """Return the label of a point of the residual stream.

    >>> [label_activation(name) for name in ("0.resid_pre", "1.resid_pre", "1.resid_mid")]
    ['embedding', '2 input', '2 attention']
    """
    layer, part = activation.split(".")
    if activation == "0.resid_pre":
        return "embedding"
    return f"{int(layer) + 1} {PARTS[part]}"


def order_activations(activations: pd.Series) -> list[str]:
    """Return the points of the residual stream in the order of the forward pass."""
    numbered = [name.split(".") for name in activations.unique()]
    ranked = sorted(numbered, key=lambda parts: (int(parts[0]), list(PARTS).index(parts[1])))
    return [".".join(parts) for parts in ranked]


def label_length(digits: int, trained: int) -> str:
    """Return the label of a length: trained, or how far beyond.

    >>> label_length(6, 6), label_length(7, 6)
    ('6 digits, the most of training', '7 digits, more than in training')
    """
    return f"{digits} digits, {'the most of' if digits == trained else 'more than in'} training"


@style.use_style
def draw_lens(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw the accuracy of digits read from each point of the residual stream, by place."""
    table = load.average_seeds(tables["lens"], [*KEYS, "activation", "place"], "correct")
    rows, count = load.list_rows(table), int(table.groupby("row")["digits"].nunique().max())
    lines = table.groupby("row")["activation"].nunique().max()
    width = table.groupby(["row", "digits"])["place"].nunique().max()
    size = (max(2.9, 0.34 * width + 1.2), 0.24 * lines + 0.9)
    figure, panels = style.make_panels(count * len(rows), len(rows), size)
    for line in range(count):
        for column, row in enumerate(rows):
            part = table[table["row"] == row]
            digits = sorted(map(int, part["digits"].unique()))[line]
            axes = panels[line * len(rows) + column]
            picture = _lens(axes, part[part["digits"] == digits])
            length_label = label_length(digits, int(part["trained"].iloc[0]))
            axes.set_title(f"{style.choose_style(row).label}\n{length_label}", fontsize="small")
            if column:
                axes.tick_params(labelleft=False)
    figure.supxlabel("place in the answer (0: the ones)", fontsize="medium")
    add_color_bar(figure, picture, panels, "digits right if read there")
    return figure, table


def _lens(axes: Axes, part: pd.DataFrame):
    points = order_activations(part["activation"])
    places = sorted(part["place"].unique(), key=lambda place: (place < 0, place))
    square = part.pivot(index="activation", columns="place", values="accuracy")
    square = square.reindex(index=points, columns=places)
    axes.set_xticks(range(len(places)), ["end" if at < 0 else str(at) for at in places])
    axes.set_yticks(range(len(points)), [label_activation(name) for name in points])
    return draw_heatmap(axes, square.to_numpy(dtype=float), "viridis", Normalize(0, 1))


@style.use_style
def draw_probes(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw the accuracy of linear probes for each step, by point of the stream, for each row."""
    keys = [*KEYS, "model", "activation", "step"]
    table, commonest = (
        load.score_seeds(tables["probes"], keys, hits) for hits in ("correct", "commonest")
    )
    table = table.assign(commonest=commonest["commonest"])
    rows = load.list_rows(table)
    figure, panels = style.make_panels(
        len(rows) * len(STEPS), len(STEPS), (1.95, 2.1), sharey=True, sharex="row"
    )
    for number, axes in enumerate(panels):
        row, step = rows[number // len(STEPS)], list(STEPS)[number % len(STEPS)]
        _probes(axes, table[(table["row"] == row) & (table["step"] == step)], row)
        axes.set_title(STEPS[step] if number < len(STEPS) else "", fontsize="small")
        if number % len(STEPS) == 0:
            axes.set_ylabel(f"{style.choose_style(row).label}\ndigits right", fontsize="small")
        if number < len(STEPS) * (len(rows) - 1):
            axes.tick_params(labelbottom=False)
    dark = {"color": "#333333"}
    handles = [
        Line2D([], [], marker="o", ms=4, label="trained, its longest length", **dark),
        Line2D([], [], marker="o", ms=4, mfc="white", ls="--", label="one digit more", **dark),
        Line2D([], [], color="#888888", ls="-.", label="before training"),
        Line2D([], [], color="#888888", ls=":", label="the commonest value"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure, table


def _probes(axes: Axes, part: pd.DataFrame, row: str) -> None:
    """Draw one step of one row: the mean, and each seed of the trained model."""
    points, trained = order_activations(part["activation"]), part["trained"].iloc[0]
    at = part["activation"].map(points.index)
    part = part.assign(at=at).sort_values("at")
    mean, color = part["seed"] == "all", style.choose_style(row).color
    for digits, more in (
        (trained, {"ls": "-", "mfc": color}),
        (trained + 1, {"ls": "--", "mfc": "white"}),
    ):
        trained_part = part[(part["model"] == "trained") & (part["digits"] == digits)]
        if trained_part.empty:
            continue
        seeds, trained_part = (
            trained_part[trained_part["seed"] != "all"],
            trained_part[trained_part["seed"] == "all"],
        )
        ends = [
            (trained_part["accuracy"] - trained_part["low"]).clip(lower=0),
            (trained_part["high"] - trained_part["accuracy"]),
        ]
        axes.plot(seeds["at"], seeds["accuracy"], "o", ms=1.8, color=color, alpha=0.6)
        axes.errorbar(
            trained_part["at"],
            trained_part["accuracy"],
            ends,
            marker="o",
            ms=4,
            color=color,
            elinewidth=1,
            **more,
        )
    before = part[(part["model"] == "untrained") & (part["digits"] == trained) & mean]
    axes.plot(before["at"], before["accuracy"], color="#888888", ls="-.", zorder=1)
    axes.plot(before["at"], before["commonest"] / before["n"], color="#888888", ls=":", zorder=1)
    names = [label_activation(name).replace(" ", "\n", 1) for name in points]
    names = names if len(points) <= 7 else [name.split("\n")[0] for name in names]
    turned = {} if len(points) <= 3 else {"rotation": 90}
    axes.set_xticks(range(len(points)), names, fontsize=6, **turned)
    axes.set_ylim(-0.03, 1.03)
    style.format_percent(axes.yaxis)


@style.use_style
def draw_head_ablations(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw the loss of digit accuracy without each head, by sub-task."""
    table = compare_to_full_model(tables["head_ablations"])
    rows, kinds = load.list_rows(table), [*SUBTASKS, "all"]
    lines = table.groupby("row")[["seed", "layer", "head"]].apply(
        lambda heads: len(heads.value_counts())
    )
    size = (3.4, 0.17 * lines.max() + 1.1)
    figure, panels = style.make_panels(len(rows), 2, size)
    most = max(
        0.05, float(table["change"].abs().max())
    )  # a smaller range would exaggerate small changes
    norm = Normalize(-most, most)
    for axes, row in zip(panels, rows, strict=True):
        part = table[table["row"] == row]
        square = part.pivot(index=["seed", "layer", "head"], columns="subtask", values="change")
        square = square.sort_index().reindex(columns=kinds)
        names = [f"seed {seed}: {layer + 1}.{head + 1}" for seed, layer, head in square.index]
        few = len(names) <= 40
        axes.set_yticks(range(len(names)) if few else [], names if few else [], fontsize=6)
        axes.set_xticks(
            range(len(kinds)), [SUBTASKS.get(heads, heads).replace(" ", "\n") for heads in kinds]
        )
        axes.tick_params(axis="x", labelsize=6.5)
        picture = draw_heatmap(axes, square.to_numpy(dtype=float), CHANGES, norm, "{:+.0f}")
        for seed in range(1, part["seed"].nunique()):
            axes.axhline(seed * len(names) / part["seed"].nunique() - 0.5, color="white", lw=2)
        digits = part["digits"].iloc[0]
        axes.set_title(f"{style.choose_style(row).label}, {digits} digits", fontsize="small")
    figure.supylabel("layer.head", fontsize="medium")
    bar = add_color_bar(figure, picture, panels, "change in digits right (points)")
    bar.ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:+.0f}")
    return figure, table


def compare_to_full_model(table: pd.DataFrame) -> pd.DataFrame:
    """Return accuracy without each head minus accuracy with all heads, at the longest length.

    The interval is Newcombe's (95%) for independent samples. The problems are the same, so it is
    conservative.

    >>> two = pd.DataFrame({"row": "a", "trained": 3, "digits": 3, "seed": 0, "subtask": "all",
    ...                     "layer": [-1, 0], "head": [-1, 0], "n": 100, "correct": [90, 40]})
    >>> compare_to_full_model(two)[["change", "low", "high"]].round(2).values.tolist()
    [[-0.5, -0.6, -0.38]]
    """
    keys = [*KEYS, "seed", "subtask"]
    table = table[(table["digits"] == table["trained"]) & (table["n"] > 0)]
    full = table[table["head"] == NO_HEAD].rename(columns={"correct": "correct_full"})
    without = table[table["head"] != NO_HEAD].merge(full[[*keys, "correct_full"]], on=keys)
    ends = [
        confint_proportions_2indep(
            record.correct,
            record.n,
            record.correct_full,
            record.n,
            method="newcomb",
            compare="diff",
            alpha=1 - LEVEL,
        )
        for record in without.itertuples()
    ]
    change = (without["correct"] - without["correct_full"]) / without["n"]
    low, high = np.array(ends, dtype=float).reshape(-1, 2).T
    columns = [*KEYS, "seed", "layer", "head", "subtask", "n", "correct", "correct_full"]
    return without[columns].assign(change=change, low=low, high=high).reset_index(drop=True)


def draw_heatmap(axes: Axes, square: np.ndarray, colors, norm, number: str = "{:.0f}"):
    """Draw a matrix of shares, with numbers in percent where they fit."""
    shades = matplotlib.colormaps[colors] if isinstance(colors, str) else colors
    shades = shades.with_extremes(bad=NOT_THERE)
    picture = axes.imshow(square, cmap=shades, norm=norm, aspect="auto", interpolation="none")
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    if square.size <= WRITTEN:
        for (line, column), value in np.ndenumerate(square):
            if not np.isnan(value):
                red, green, blue, _ = shades(norm(value))
                dark = 0.3 * red + 0.59 * green + 0.11 * blue < 0.5
                label = number.format(round(100 * value)) if round(100 * value) else "0"
                axes.text(
                    column, line, label, ha="center", va="center", fontsize=6.5,
                    color="white" if dark else "#222222",
                )  # fmt: skip
    return picture


def add_color_bar(figure: Figure, picture, panels: list[Axes], label: str):
    """Add a colour bar in percent, and return it."""
    bar = figure.colorbar(picture, ax=panels, shrink=0.8, aspect=30, label=label)
    bar.outline.set_visible(False)
    style.format_percent(bar.ax.yaxis)
    return bar
