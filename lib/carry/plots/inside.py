"""What a model that adds knows layer by layer, and what its answers are without a head.

All of it at two lengths: the longest that was trained, and one digit more. Rows stand side by side
and have the colours of their schemes.
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

from carry.evaluation.intervals import LEVEL, add_interval
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
WRITTEN = 150  # cells of a heatmap in which there is room for numbers
CHANGES = matplotlib.colormaps["RdBu"]
NOT_THERE = "#E0E0E0"


def point(activation: str) -> str:
    """Return what a point of the residual stream is called.

    >>> point("0.resid_pre"), point("1.resid_pre"), point("1.resid_mid")
    ('embedding', '2 input', '2 attention')
    """
    layer, part = activation.split(".")
    if activation == "0.resid_pre":
        return "embedding"
    return f"{int(layer) + 1} {PARTS[part]}"


def order(activations: pd.Series) -> list[str]:
    """Return the points of the residual stream in the order in which a pass comes to them."""
    numbered = [name.split(".") for name in activations.unique()]
    ranked = sorted(numbered, key=lambda of: (int(of[0]), list(PARTS).index(of[1])))
    return [".".join(of) for of in ranked]


def length(digits: int, trained: int) -> str:
    """Return what a length is to a model.

    >>> length(6, 6), length(7, 6)
    ('6 digits, the most of training', '7 digits, more than in training')
    """
    return f"{digits} digits, {'the most of' if digits == trained else 'more than in'} training"


@style.styled
def lens(tables: load.Tables) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy of digits read off each point of the residual stream, by place."""
    table = load.over_seeds(tables.lens, [*KEYS, "activation", "place"], "correct")
    rows, count = load.rows(table), int(table.groupby("row")["digits"].nunique().max())
    lines = table.groupby("row")["activation"].nunique().max()
    width = table.groupby(["row", "digits"])["place"].nunique().max()
    size = (max(2.9, 0.34 * width + 1.2), 0.24 * lines + 0.9)
    figure, drawn = style.panels(count * len(rows), len(rows), size)
    for line in range(count):
        for column, row in enumerate(rows):
            part = table[table["row"] == row]
            digits = sorted(map(int, part["digits"].unique()))[line]
            axes = drawn[line * len(rows) + column]
            picture = _lens(axes, part[part["digits"] == digits])
            said = length(digits, int(part["trained"].iloc[0]))
            axes.set_title(f"{style.look(row).label}\n{said}", fontsize="small")
            if column:
                axes.tick_params(labelleft=False)
    figure.supxlabel("place in the answer (0: the ones)", fontsize="medium")
    color_bar(figure, picture, drawn, "digits right if read there")
    return figure, table


def _lens(axes: Axes, part: pd.DataFrame):
    points = order(part["activation"])
    places = sorted(part["place"].unique(), key=lambda place: (place < 0, place))
    square = part.pivot(index="activation", columns="place", values="accuracy")
    square = square.reindex(index=points, columns=places)
    axes.set_xticks(range(len(places)), ["end" if at < 0 else str(at) for at in places])
    axes.set_yticks(range(len(points)), [point(name) for name in points])
    return heatmap(axes, square.to_numpy(dtype=float), "viridis", Normalize(0, 1))


@style.styled
def probes(tables: load.Tables) -> tuple[Figure, pd.DataFrame]:
    """Draw what linear probes tell of each step, point by point, for each row."""
    table = _pooled(tables.probes, ["of", "activation", "step"], "correct", "commonest")
    rows = load.rows(table)
    figure, drawn = style.panels(
        len(rows) * len(STEPS), len(STEPS), (1.95, 2.1), sharey=True, sharex="row"
    )
    for number, axes in enumerate(drawn):
        row, step = rows[number // len(STEPS)], list(STEPS)[number % len(STEPS)]
        _probes(axes, table[(table["row"] == row) & (table["step"] == step)], row)
        axes.set_title(STEPS[step] if number < len(STEPS) else "", fontsize="small")
        if number % len(STEPS) == 0:
            axes.set_ylabel(f"{style.look(row).label}\ndigits right", fontsize="small")
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
    """Draw one step of one row: all seeds together, and of the trained model each seed."""
    points, trained = order(part["activation"]), part["trained"].iloc[0]
    at = part["activation"].map(points.index)
    part = part.assign(at=at).sort_values("at")
    whole, color = part["seed"] == "all", style.look(row).color
    for digits, more in (
        (trained, {"ls": "-", "mfc": color}),
        (trained + 1, {"ls": "--", "mfc": "white"}),
    ):
        of = part[(part["of"] == "trained") & (part["digits"] == digits)]
        if of.empty:
            continue
        seeds, of = of[of["seed"] != "all"], of[of["seed"] == "all"]
        ends = [(of["accuracy"] - of["low"]).clip(lower=0), (of["high"] - of["accuracy"])]
        axes.plot(seeds["at"], seeds["accuracy"], "o", ms=1.8, color=color, alpha=0.6)
        axes.errorbar(
            of["at"], of["accuracy"], ends, marker="o", ms=4, color=color, elinewidth=1, **more
        )
    before = part[(part["of"] == "untrained") & (part["digits"] == trained) & whole]
    axes.plot(before["at"], before["accuracy"], color="#888888", ls="-.", zorder=1)
    axes.plot(before["at"], before["commonest"] / before["n"], color="#888888", ls=":", zorder=1)
    names = [point(name).replace(" ", "\n", 1) for name in points]
    names = names if len(points) <= 7 else [name.split("\n")[0] for name in names]
    turned = {} if len(points) <= 3 else {"rotation": 90}
    axes.set_xticks(range(len(points)), names, fontsize=6, **turned)
    axes.set_ylim(-0.03, 1.03)
    style.percent(axes.yaxis)


@style.styled
def ablations(tables: load.Tables) -> tuple[Figure, pd.DataFrame]:
    """Draw by how much fewer digits are right without each head, by what they take."""
    table = changes(tables.ablations)
    rows, kinds = load.rows(table), [*SUBTASKS, "all"]
    lines = table.groupby("row")[["seed", "layer", "head"]].apply(lambda of: len(of.value_counts()))
    size = (3.4, 0.17 * lines.max() + 1.1)
    figure, drawn = style.panels(len(rows), 2, size)
    most = max(0.05, float(table["change"].abs().max()))  # or a little more would look like much
    norm = Normalize(-most, most)
    for axes, row in zip(drawn, rows, strict=True):
        part = table[table["row"] == row]
        square = part.pivot(index=["seed", "layer", "head"], columns="subtask", values="change")
        square = square.sort_index().reindex(columns=kinds)
        names = [f"seed {seed}: {layer + 1}.{head + 1}" for seed, layer, head in square.index]
        few = len(names) <= 40
        axes.set_yticks(range(len(names)) if few else [], names if few else [], fontsize=6)
        axes.set_xticks(
            range(len(kinds)), [SUBTASKS.get(of, of).replace(" ", "\n") for of in kinds]
        )
        axes.tick_params(axis="x", labelsize=6.5)
        picture = heatmap(axes, square.to_numpy(dtype=float), CHANGES, norm, "{:+.0f}")
        for seed in range(1, part["seed"].nunique()):
            axes.axhline(seed * len(names) / part["seed"].nunique() - 0.5, color="white", lw=2)
        digits = part["digits"].iloc[0]
        axes.set_title(f"{style.look(row).label}, {digits} digits", fontsize="small")
    figure.supylabel("layer.head", fontsize="medium")
    bar = color_bar(figure, picture, drawn, "change in digits right (points)")
    bar.ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:+.0f}")
    return figure, table


def changes(table: pd.DataFrame) -> pd.DataFrame:
    """Return accuracy without each head less that with all, at the longest trained length.

    With Newcombe's interval of the difference (95%), as if both had been asked other problems: it
    is wider than it need be.

    >>> two = pd.DataFrame({"row": "a", "trained": 3, "digits": 3, "seed": 0, "subtask": "all",
    ...                     "layer": [-1, 0], "head": [-1, 0], "n": 100, "correct": [90, 40]})
    >>> changes(two)[["change", "low", "high"]].round(2).values.tolist()
    [[-0.5, -0.6, -0.38]]
    """
    keys = [*KEYS, "seed", "subtask"]
    table = table[(table["digits"] == table["trained"]) & (table["n"] > 0)]
    whole = table[table["head"] == NO_HEAD].rename(columns={"correct": "correct_whole"})
    without = table[table["head"] != NO_HEAD].merge(whole[[*keys, "correct_whole"]], on=keys)
    ends = [
        confint_proportions_2indep(
            of.correct, of.n, of.correct_whole, of.n, method="newcomb", compare="diff",
            alpha=1 - LEVEL,
        )
        for of in without.itertuples()
    ]  # fmt: skip
    change = (without["correct"] - without["correct_whole"]) / without["n"]
    low, high = np.array(ends, dtype=float).reshape(-1, 2).T
    columns = [*KEYS, "seed", "layer", "head", "subtask", "n", "correct", "correct_whole"]
    return without[columns].assign(change=change, low=low, high=high).reset_index(drop=True)


def heatmap(axes: Axes, square: np.ndarray, colors, norm, number: str = "{:.0f}"):
    """Draw a matrix of shares, with its numbers in percent where there is room."""
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
                said = number.format(round(100 * value)) if round(100 * value) else "0"
                axes.text(
                    column, line, said, ha="center", va="center", fontsize=6.5,
                    color="white" if dark else "#222222",
                )  # fmt: skip
    return picture


def _pooled(table: pd.DataFrame, by: list[str], hits: str, *more: str) -> pd.DataFrame:
    """Return counts of each seed and of all together (`seed`: all), with their intervals."""
    keys = [*KEYS, *by]
    pooled = table.groupby(keys, as_index=False, sort=False)[["n", hits, *more]].sum()
    both = [table[["seed", *keys, "n", hits, *more]].astype({"seed": str}), pooled]
    found = pd.concat(both, ignore_index=True).fillna({"seed": "all"})
    return add_interval(found, hits)


def color_bar(figure: Figure, picture, drawn: list[Axes], label: str):
    """Add a bar of shares in percent, and return it."""
    bar = figure.colorbar(picture, ax=drawn, shrink=0.8, aspect=30, label=label)
    bar.outline.set_visible(False)
    style.percent(bar.ax.yaxis)
    return bar
