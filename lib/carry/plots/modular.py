"""Modular addition: grokking, key frequencies, circles and similarity of representations."""

from __future__ import annotations

from typing import NamedTuple

import matplotlib
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from carry.plots import load, style

# Pairs, losses and encodings are not schemes: they have colours of their own (seaborn's safe ones).
BLUE, ORANGE, GREEN, RED, PURPLE = sns.color_palette("colorblind").as_hex()[:5]
SETS = {"trained": ("pairs of training", BLUE), "held out": ("other pairs", ORANGE)}
LOSSES = {
    ("trained", "loss"): ("pairs of training", BLUE, "-"),
    ("held out", "loss"): ("other pairs", ORANGE, "-"),
    ("all", "restricted"): ("all pairs, restricted", GREEN, "--"),
    ("trained", "excluded"): ("pairs of training, excluded", RED, "--"),
}
PHASES = {"memorisation": "#FFFFFF", "circuit formation": "#E8E8E8", "clean-up": "#D0D0D0"}
MEMORISED = 0.99  # accuracy on training pairs
FORMED = 0.1  # share of the restricted loss before training
MATRICES = {"embedding": "embedding", "neurons to logits": "neuron-to-logit map"}
ENCODINGS = {"one_hot": ("a symbol", "-"), "digits": ("digits", "--"), "binary": ("bits", ":")}
PLURAL = {"one_hot": "symbols", "digits": "digits", "binary": "bits"}
SHADES = dict(zip(ENCODINGS, (PURPLE, GREEN, "#555555"), strict=True))
KINDS = {
    "equal sums": "an equal sum",
    "other sums": "another sum",
    "their number": "its number",
    "other numbers": "another number",
}
MOST = 3  # drawn seeds


class Phases(NamedTuple):
    """Steps at which phases end, NaN where they do not (see `find_phases`)."""

    memorised: float
    formed: float


def find_phases(progress: pd.DataFrame) -> Phases:
    """Return the steps at which a model has memorised and at which its circuit has formed.

    Memorisation ends at the first snapshot with 99% accuracy on training pairs. From then on, the
    circuit has formed at the first snapshot with a restricted loss of a tenth of its start.
    The rest is clean-up. (Nanda et al. 2023 choose these steps by eye.)

    >>> step, parts = [0, 10, 20, 30], []
    >>> for of, accuracy, loss in (("trained", [0, 1, 1, 1], [4, 0, 0, 0]),
    ...                            ("all", [0, 0.3, 0.4, 1], [4, 3, 0.3, 0])):
    ...     columns = {"set": of, "step": step, "accuracy": accuracy, "restricted": loss}
    ...     parts += [pd.DataFrame(columns)]
    >>> find_phases(pd.concat(parts))
    Phases(memorised=10.0, formed=20.0)
    """
    by = {name: part.sort_values("step") for name, part in progress.groupby("set")}
    trained, all_pairs = by["trained"], by["all"]
    memorised = trained.loc[trained["accuracy"] >= MEMORISED, "step"].min()
    low = all_pairs["restricted"] <= FORMED * all_pairs["restricted"].iloc[0]
    formed = all_pairs.loc[low & (all_pairs["step"] >= memorised), "step"].min()
    return Phases(float(memorised), float(formed))


def tabulate_phases(progress: pd.DataFrame) -> pd.DataFrame:
    """Return accuracy and losses at the end of each phase, for models with waves.

    Columns: `seed`, `phase`, its last `step`, accuracy on training pairs (`trained`) and on others
    (`held out`), the `loss` of the others, the `restricted` loss of all pairs and the `excluded`
    loss of training pairs.
    """
    records, waves = [], progress[progress["restricted"].notna()]
    for seed, part in waves.groupby("seed"):
        ends = {**find_phases(part)._asdict(), "last step": float(part["step"].max())}
        for phase, step in ends.items():
            at = part[part["step"] == step].set_index("set")
            if len(at):
                right, key = at["accuracy"], (seed, phase, int(step))
                parts = at.loc["held out", "loss"], at.loc["all", "restricted"]
                values = (
                    right["trained"],
                    right["held out"],
                    *parts,
                    at.loc["trained", "excluded"],
                )
                records.append([*key, *values])
    names = ["seed", "phase", "step", "trained", "held out", "loss", "restricted", "excluded"]
    return pd.DataFrame(records, columns=names)


@style.use_style
def draw_grokking(progress: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy, losses and the sum of squared weights over training, one column for each seed.

    The table holds the phases of each model.
    """
    seeds = sorted(progress["seed"].unique())
    parts = [progress[progress["seed"] == seed] for seed in seeds]
    parts = [model.assign(**find_phases(model)._asdict()) for model in parts]
    count = min(MOST, len(parts))
    figure, panels = style.make_panels(3 * count, count, (7.2 / count + 0.6, 2.1), sharex=True)
    rows = [panels[line * count : (line + 1) * count] for line in range(3)]
    for part, (above, middle, below) in zip(parts, zip(*rows, strict=True), strict=False):
        for name, (label, color) in SETS.items():
            curve = part[part["set"] == name].sort_values("step")
            above.plot(curve["step"], curve["accuracy"], color=color, label=label)
            above.fill_between(
                curve["step"], curve["low"], curve["high"], color=color, alpha=0.2, lw=0
            )
        for (name, column), (label, color, line) in LOSSES.items():
            curve = part[part["set"] == name].sort_values("step")
            middle.plot(curve["step"], curve[column], color=color, linestyle=line, label=label)
        all_pairs = part[part["set"] == "all"].sort_values("step")
        below.plot(all_pairs["step"], all_pairs["norm"], color="#444444")
        for axes in (above, middle, below):
            _shade(axes, part)
        above.set(ylim=(-0.03, 1.03), title=f"seed {part['seed'].iloc[0]}")
        style.format_percent(above.yaxis)
        middle.set_yscale("log")
        middle.yaxis.set_major_locator(matplotlib.ticker.LogLocator(numticks=6))
        middle.yaxis.set_minor_locator(matplotlib.ticker.NullLocator())
        below.set(ylim=(0, None), xlabel="training step")
    for axes, name in zip(rows, ("accuracy", "loss", "sum of squared weights"), strict=True):
        axes[0].set_ylabel(name)
    _legends(figure, rows)
    return figure, pd.concat(parts, ignore_index=True)


def _shade(axes: Axes, part: pd.DataFrame) -> None:
    """Shade the phases that one model reaches."""
    ends = [0.0, part["memorised"].iloc[0], part["formed"].iloc[0], float(part["step"].max())]
    ends = [ends[-1] if np.isnan(end) else end for end in ends]
    for color, begin, end in zip(PHASES.values(), ends, ends[1:], strict=False):
        axes.axvspan(begin, end, color=color, linewidth=0, zorder=0)
    axes.set_xlim(0, ends[-1])
    axes.grid(visible=False)


def _legends(figure: Figure, rows: list[list[Axes]]) -> None:
    """Add the legend of lines and shades, once for all columns."""
    handles, labels = rows[1][0].get_legend_handles_labels()
    for name, color in PHASES.items():
        handles.append(matplotlib.patches.Patch(facecolor=color, edgecolor="#999999"))
        labels.append(name)
    figure.legend(
        handles, labels, loc="outside right center", title="answers and losses of", alignment="left"
    )


@style.use_style
def draw_frequencies(spectrum: pd.DataFrame, keys: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw the share of power at each frequency before and after training, a column for each seed.

    Args:
        keys: the key frequencies, which are labelled.
    """
    seeds = sorted(spectrum["seed"].unique())[:MOST]
    figure, panels = style.make_panels(
        2 * len(seeds), len(seeds), (7.6 / len(seeds) + 0.4, 2.3), sharex=True, sharey="row"
    )
    for line, (matrix, title) in enumerate(MATRICES.items()):
        for column, seed in enumerate(seeds):
            axes = panels[line * len(seeds) + column]
            part = spectrum[(spectrum["matrix"] == matrix) & (spectrum["seed"] == seed)]
            of_seed = sorted(keys.loc[keys["seed"] == seed, "frequency"])
            before = part[part["step"] == part["step"].min()]
            after = part[part["step"] == part["step"].max()].set_index("frequency")["share"]
            names = [at in of_seed for at in after.index]
            colors = np.where(names, RED, BLUE)
            axes.bar(after.index, after, 0.85, color=colors)
            axes.plot(before["frequency"], before["share"], color="#222222", lw=1.2)
            for at in of_seed:
                axes.annotate(
                    at, (at, after[at]), (0, 2), textcoords="offset points", ha="center",
                    fontsize="x-small", color=RED,
                )  # fmt: skip
            axes.margins(y=0.12)
            axes.grid(visible=False, axis="x")
            axes.yaxis.set_major_locator(matplotlib.ticker.MaxNLocator(5, steps=[1, 2, 5, 10]))
            style.format_percent(axes.yaxis)
            if line == 0:
                axes.set_title(f"seed {seed}")
            else:
                axes.set_xlabel("frequency")
            if column == 0:
                axes.set_ylabel(title)
    handles = [matplotlib.patches.Patch(color=color) for color in (RED, BLUE)]
    handles += [matplotlib.lines.Line2D([], [], color="#222222", lw=1.2)]
    labels = ["key frequency", "other frequency", "before training"]
    figure.legend(handles, labels, loc="outside right center")
    return figure, spectrum.reset_index(drop=True)


@style.use_style
def draw_circles(places: pd.DataFrame, keys: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw the numbers in the planes of the strongest key frequencies of the first seed.

    Above before training, below after. The colour is the expected angle of a number.
    """
    seed = places["seed"].min()
    strongest = keys[keys["seed"] == seed].sort_values("share", ascending=False, kind="stable")
    chosen = strongest["frequency"].head(4).tolist()
    places = places[(places["seed"] == seed) & places["frequency"].isin(chosen)]
    steps = sorted(places["step"].unique())
    figure, panels = style.make_panels(len(steps) * len(chosen), len(chosen), (2.2, 2.3))
    kinds = [(step, frequency) for step in steps for frequency in chosen]
    for axes, (step, frequency) in zip(panels, kinds, strict=True):
        part = places[(places["step"] == step) & (places["frequency"] == frequency)]
        part = part.sort_values("number")
        turn = part["number"] * frequency % len(part) / len(part)
        axes.scatter(part["x"], part["y"], c=turn, cmap="twilight_shifted", s=14, lw=0.3, ec="#555")
        for point in part.head(3).itertuples():
            axes.annotate(
                point.number,
                (point.x, point.y),
                (3, 3),
                textcoords="offset points",
                fontsize="x-small",
            )
        reach = 1.15 * max(1.3, float(part[["x", "y"]].abs().to_numpy().max()))
        axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xticks=[], yticks=[])
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        when = "before training" if step == steps[0] else f"after step {step:,}"
        axes.set_title(f"frequency {frequency},\n{when}", fontsize="small")
    return figure, places.reset_index(drop=True)


@style.use_style
def draw_number_encodings(progress: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy over training on training pairs and on others, by encoding of numbers."""
    figure, panels = style.make_panels(2, 2, (4.0, 3.2), sharey=True)
    table = progress[progress["set"].isin(SETS)].reset_index(drop=True)
    for axes, (name, (title, _)) in zip(panels, SETS.items(), strict=True):
        for row in load.list_rows(table):
            part = table[(table["row"] == row) & (table["set"] == name)]
            label, line = ENCODINGS[number_encoding(row)]
            line_style = {"color": SHADES[number_encoding(row)], "linestyle": line}
            for _, seed in part.groupby("seed"):
                axes.plot(seed["step"], seed["accuracy"], linewidth=0.7, alpha=0.5, **line_style)
                axes.fill_between(
                    seed["step"],
                    seed["low"],
                    seed["high"],
                    color=line_style["color"],
                    alpha=0.15,
                    lw=0,
                )
            median = part.groupby("step")["accuracy"].median()
            axes.plot(median, linewidth=2.2, label=label, **line_style)
        axes.set(title=title, xlabel="training step", ylim=(-0.03, 1.03))
        style.format_percent(axes.yaxis)
    panels[0].set_ylabel("exact match")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", title="a number is", handlelength=3)
    return figure, table


def number_encoding(row: str) -> str:
    """Return the encoding of numbers of a row.

    >>> number_encoding("modular_addition_1000_digits"), number_encoding("modular_addition_113")
    ('digits', 'one_hot')
    """
    return next((name for name in ENCODINGS if row.endswith(f"_{name}")), "one_hot")


@style.use_style
def draw_equal_sums(nearness: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw the similarity of a sum to other sums and to numbers, before and after training.

    One panel for each row. Bars are means over seeds, dots are seeds with their intervals.
    """
    rows = load.list_rows(nearness)
    figure, panels = style.make_panels(len(rows), 2, (4.2, 2.3), sharex=True)
    for axes, row in zip(panels, rows, strict=True):
        row_part = nearness[nearness["row"] == row]
        kinds = [kind for kind in KINDS if kind in set(row_part["kind"])]
        for index, (when, color) in enumerate((("before training", "#BBBBBB"), ("after", PURPLE))):
            part = row_part[
                row_part["step"] == (row_part["step"].max() if index else row_part["step"].min())
            ]
            mean = part.groupby("kind")["cosine"].mean().reindex(kinds)
            at = np.arange(len(kinds)) + 0.4 * index - 0.2
            axes.barh(at, mean, 0.38, color=color, label=when)
            for record in part.itertuples():
                place = at[kinds.index(record.kind)]
                axes.plot([record.low, record.high], [place, place], color="#222222", lw=1)
                axes.plot(record.cosine, place, "o", ms=2.6, color="#222222")
        modulus = int(row.removeprefix("modular_addition_").split("_")[0])
        axes.set_title(f"modulo {modulus:,}, numbers are {PLURAL[number_encoding(row)]}")
        axes.set_yticks(range(len(kinds)), [KINDS[kind] for kind in kinds])
        axes.set_ylim(len(kinds) - 0.5, -0.5)
        axes.axvline(0, color="#444444", lw=0.8)
        axes.grid(visible=False, axis="y")
    for axes in panels[-2:]:
        axes.set_xlabel("mean cosine of a sum and ...")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center")
    return figure, nearness.reset_index(drop=True)
