"""Modular addition: how it is learnt, by which waves, and what becomes near to what."""

from __future__ import annotations

from typing import NamedTuple

import matplotlib
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from carry.plots import load, style

# Pairs, losses and encodings are no schemes: colours of their own, as seaborn's safe ones are.
BLUE, ORANGE, GREEN, RED, PURPLE = sns.color_palette("colorblind").as_hex()[:5]
SETS = {"trained": ("pairs of training", BLUE), "held out": ("other pairs", ORANGE)}
LOSSES = {
    ("trained", "loss"): ("pairs of training", BLUE, "-"),
    ("held out", "loss"): ("other pairs", ORANGE, "-"),
    ("all", "restricted"): ("all pairs, restricted", GREEN, "--"),
    ("trained", "excluded"): ("pairs of training, excluded", RED, "--"),
}
PHASES = {"memorisation": "#FFFFFF", "circuit formation": "#E8E8E8", "clean-up": "#D0D0D0"}
MEMORISED = 0.99  # of the pairs of training
FORMED = 0.1  # of the restricted loss before training
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
MOST = 3  # seeds that are drawn side by side


class Phases(NamedTuple):
    """The steps at which phases end, missing where they do not: see `phases`."""

    memorised: float
    formed: float


def phases(progress: pd.DataFrame) -> Phases:
    """Return when one model has memorised, and when its circuit has formed.

    It has memorised at the first snapshot with 99% of the pairs of training right, and its circuit
    has formed at the first from then on where key frequencies alone would have a tenth of the loss
    that they began with. What is left is clean-up. (Nanda et al. 2023 set their dates by eye.)

    >>> step, parts = [0, 10, 20, 30], []
    >>> for of, accuracy, loss in (("trained", [0, 1, 1, 1], [4, 0, 0, 0]),
    ...                            ("all", [0, 0.3, 0.4, 1], [4, 3, 0.3, 0])):
    ...     columns = {"set": of, "step": step, "accuracy": accuracy, "restricted": loss}
    ...     parts += [pd.DataFrame(columns)]
    >>> phases(pd.concat(parts))
    Phases(memorised=10.0, formed=20.0)
    """
    by = {name: of.sort_values("step") for name, of in progress.groupby("set")}
    known, whole = by["trained"], by["all"]
    memorised = known.loc[known["accuracy"] >= MEMORISED, "step"].min()
    low = whole["restricted"] <= FORMED * whole["restricted"].iloc[0]
    formed = whole.loc[low & (whole["step"] >= memorised), "step"].min()
    return Phases(float(memorised), float(formed))


def at_ends(progress: pd.DataFrame) -> pd.DataFrame:
    """Return what models with waves know when a phase ends, and at last; nothing of other models.

    Columns: `seed`, `phase` and the `step` of its end; how much is right of pairs of training
    (`trained`) and of others (`held out`), and as figures have them the losses of the latter, of
    all pairs `restricted` and of the former `excluded`.
    """
    found, waves = [], progress[progress["restricted"].notna()]
    for seed, part in waves.groupby("seed"):
        ends = {**phases(part)._asdict(), "last step": float(part["step"].max())}
        for phase, step in ends.items():
            at = part[part["step"] == step].set_index("set")
            if len(at):
                right, known = at["accuracy"], (seed, phase, int(step))
                parts = at.loc["held out", "loss"], at.loc["all", "restricted"]
                own = (right["trained"], right["held out"], *parts, at.loc["trained", "excluded"])
                found.append([*known, *own])
    names = ["seed", "phase", "step", "trained", "held out", "loss", "restricted", "excluded"]
    return pd.DataFrame(found, columns=names)


@style.styled
def grokking(progress: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy, losses and the sum of squared weights by step, a column for each seed.

    The table has each model's `phases` beside its progress.
    """
    seeds = sorted(progress["seed"].unique())
    parts = [progress[progress["seed"] == seed] for seed in seeds]
    parts = [of.assign(**phases(of)._asdict()) for of in parts]
    count = min(MOST, len(parts))
    figure, drawn = style.panels(3 * count, count, (7.2 / count + 0.6, 2.1), sharex=True)
    rows = [drawn[line * count : (line + 1) * count] for line in range(3)]
    for part, (above, middle, below) in zip(parts, zip(*rows, strict=True), strict=False):
        for name, (label, color) in SETS.items():
            own = part[part["set"] == name].sort_values("step")
            above.plot(own["step"], own["accuracy"], color=color, label=label)
            above.fill_between(own["step"], own["low"], own["high"], color=color, alpha=0.2, lw=0)
        for (name, column), (label, color, line) in LOSSES.items():
            own = part[part["set"] == name].sort_values("step")
            middle.plot(own["step"], own[column], color=color, linestyle=line, label=label)
        whole = part[part["set"] == "all"].sort_values("step")
        below.plot(whole["step"], whole["norm"], color="#444444")
        for axes in (above, middle, below):
            _shade(axes, part)
        above.set(ylim=(-0.03, 1.03), title=f"seed {part['seed'].iloc[0]}")
        style.percent(above.yaxis)
        middle.set_yscale("log")
        middle.yaxis.set_major_locator(matplotlib.ticker.LogLocator(numticks=6))
        middle.yaxis.set_minor_locator(matplotlib.ticker.NullLocator())
        below.set(ylim=(0, None), xlabel="training step")
    for axes, name in zip(rows, ("answers right", "loss", "sum of squared weights"), strict=True):
        axes[0].set_ylabel(name)
    _legends(figure, rows)
    return figure, pd.concat(parts, ignore_index=True)


def _shade(axes: Axes, part: pd.DataFrame) -> None:
    """Shade the phases of one model, those that it came to."""
    ends = [0.0, part["memorised"].iloc[0], part["formed"].iloc[0], float(part["step"].max())]
    ends = [ends[-1] if np.isnan(end) else end for end in ends]
    for color, begin, end in zip(PHASES.values(), ends, ends[1:], strict=False):
        axes.axvspan(begin, end, color=color, linewidth=0, zorder=0)
    axes.set_xlim(0, ends[-1])
    axes.grid(visible=False)


def _legends(figure: Figure, rows: list[list[Axes]]) -> None:
    """Say what lines and shades are, once for all columns."""
    handles, labels = rows[1][0].get_legend_handles_labels()
    for name, color in PHASES.items():
        handles.append(matplotlib.patches.Patch(facecolor=color, edgecolor="#999999"))
        labels.append(name)
    figure.legend(
        handles, labels, loc="outside right center", title="answers and losses of", alignment="left"
    )


@style.styled
def frequencies(spectrum: pd.DataFrame, keys: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw the share of power at each frequency, before training and after, a column for each seed.

    Args:
        keys: the key frequencies, which are named.
    """
    seeds = sorted(spectrum["seed"].unique())[:MOST]
    figure, drawn = style.panels(
        2 * len(seeds), len(seeds), (7.6 / len(seeds) + 0.4, 2.3), sharex=True, sharey="row"
    )
    for line, (matrix, title) in enumerate(MATRICES.items()):
        for column, seed in enumerate(seeds):
            axes = drawn[line * len(seeds) + column]
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
            style.percent(axes.yaxis)
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


@style.styled
def circles(places: pd.DataFrame, keys: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw where the numbers stand in the planes of the first seed's strongest key frequencies.

    Above before training, below after. The colour is where a number should be on the circle.
    """
    seed = places["seed"].min()
    own = keys[keys["seed"] == seed].sort_values("share", ascending=False, kind="stable")
    chosen = own["frequency"].head(4).tolist()
    places = places[(places["seed"] == seed) & places["frequency"].isin(chosen)]
    steps = sorted(places["step"].unique())
    figure, drawn = style.panels(len(steps) * len(chosen), len(chosen), (2.2, 2.3))
    kinds = [(step, frequency) for step in steps for frequency in chosen]
    for axes, (step, frequency) in zip(drawn, kinds, strict=True):
        part = places[(places["step"] == step) & (places["frequency"] == frequency)]
        part = part.sort_values("number")
        turn = part["number"] * frequency % len(part) / len(part)
        axes.scatter(part["x"], part["y"], c=turn, cmap="twilight_shifted", s=14, lw=0.3, ec="#555")
        for of in part.head(3).itertuples():
            axes.annotate(
                of.number, (of.x, of.y), (3, 3), textcoords="offset points", fontsize="x-small"
            )
        reach = 1.15 * max(1.3, float(part[["x", "y"]].abs().to_numpy().max()))
        axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xticks=[], yticks=[])
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        when = "before training" if step == steps[0] else f"after step {step:,}"
        axes.set_title(f"frequency {frequency},\n{when}", fontsize="small")
    return figure, places.reset_index(drop=True)


@style.styled
def encodings(progress: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw what is right by step, of pairs of training and of others, by how numbers look."""
    figure, drawn = style.panels(2, 2, (4.0, 3.2), sharey=True)
    table = progress[progress["set"].isin(SETS)].reset_index(drop=True)
    for axes, (name, (title, _)) in zip(drawn, SETS.items(), strict=True):
        for row in load.rows(table):
            part = table[(table["row"] == row) & (table["set"] == name)]
            label, line = ENCODINGS[encoding(row)]
            look = {"color": SHADES[encoding(row)], "linestyle": line}
            for _, seed in part.groupby("seed"):
                axes.plot(seed["step"], seed["accuracy"], linewidth=0.7, alpha=0.5, **look)
                axes.fill_between(
                    seed["step"], seed["low"], seed["high"], color=look["color"], alpha=0.15, lw=0
                )
            median = part.groupby("step")["accuracy"].median()
            axes.plot(median, linewidth=2.2, label=label, **look)
        axes.set(title=title, xlabel="training step", ylim=(-0.03, 1.03))
        style.percent(axes.yaxis)
    drawn[0].set_ylabel("answers wholly right")
    handles, labels = drawn[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", title="a number is", handlelength=3)
    return figure, table


def encoding(row: str) -> str:
    """Return how a row writes numbers, from its name.

    >>> encoding("modular_addition_1000_digits"), encoding("modular_addition_113")
    ('digits', 'one_hot')
    """
    return next((name for name in ENCODINGS if row.endswith(f"_{name}")), "one_hot")


@style.styled
def equal_sums(nearness: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw how near a sum is to others and to numbers, before training and after, a panel a row.

    Bars are means over seeds, dots are seeds with their intervals.
    """
    rows = load.rows(nearness)
    figure, drawn = style.panels(len(rows), 2, (4.2, 2.3), sharex=True)
    for axes, row in zip(drawn, rows, strict=True):
        own = nearness[nearness["row"] == row]
        kinds = [kind for kind in KINDS if kind in set(own["kind"])]
        for index, (when, color) in enumerate((("before training", "#BBBBBB"), ("after", PURPLE))):
            part = own[own["step"] == (own["step"].max() if index else own["step"].min())]
            mean = part.groupby("kind")["cosine"].mean().reindex(kinds)
            at = np.arange(len(kinds)) + 0.4 * index - 0.2
            axes.barh(at, mean, 0.38, color=color, label=when)
            for of in part.itertuples():
                place = at[kinds.index(of.kind)]
                axes.plot([of.low, of.high], [place, place], color="#222222", lw=1)
                axes.plot(of.cosine, place, "o", ms=2.6, color="#222222")
        modulus = int(row.removeprefix("modular_addition_").split("_")[0])
        axes.set_title(f"modulo {modulus:,}, numbers are {PLURAL[encoding(row)]}")
        axes.set_yticks(range(len(kinds)), [KINDS[kind] for kind in kinds])
        axes.set_ylim(len(kinds) - 0.5, -0.5)
        axes.axvline(0, color="#444444", lw=0.8)
        axes.grid(visible=False, axis="y")
    for axes in drawn[-2:]:
        axes.set_xlabel("mean cosine of a sum and ...")
    handles, labels = drawn[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center")
    return figure, nearness.reset_index(drop=True)
