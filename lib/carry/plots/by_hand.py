"""What weights set by hand can do (fraknoi2024): where a majority is right, and how circuits go."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from carry.plots import style

# What is wrong in a cell, the last that fits; light for right, and told apart by lightness too.
FAULTS = {
    "all right": "#EDEDED",
    "noise: ones are missed": "#F0B84C",
    "rounding: ties are missed": "#4393C3",
    "rounding: ones are missed": "#1B3A6B",
    "N too small: the end is missed": "#B2182B",
}
THRESHOLDS = {"thesis": "threshold of the thesis", "mended": "mended threshold"}
TYPES = {"float64": np.float64, "float32": np.float32}
FIRST, SECOND = "#D55E00", "#0072B2"  # two heads

# For a tie the model finds N + TIE; for one more one at least 2 RISE / (length + 1) more.
TIE, RISE = np.e / (1 + np.e), np.e / (1 + np.e) ** 2


def bears(large: np.ndarray, length: np.ndarray, mended: bool) -> np.ndarray:
    """Return whether one more one is seen in all strings up to a length, if nothing is rounded.

    Behind k zeros, k + 1 ones and t twos the model finds more than its threshold a if and only if
    e^N (k (N - a) + (k + 1) e (N + 1 - a)) + e > a (1 + e + t). The more zeros, the less room for
    twos, and both sides are linear in k: it is enough to look at none, and at as many as fit.

    >>> bears(np.array([8.0]), np.array([247.0, 248.0]), mended=False).tolist()
    [True, False]
    """
    rise = RISE / (length + 1) if mended else 0.0
    seen = True
    for zeros in (0.0, np.maximum(length - 1, 0) / 2):
        with np.errstate(over="ignore"):
            weight = np.exp(large) * (zeros * (-TIE - rise) + (zeros + 1) * np.e * (1 - TIE - rise))
        noise = (large + TIE + rise) * (np.e + np.maximum(length - 2 * zeros, 1))
        seen = seen & (weight + np.e > noise)
    return seen


def last_place(large: np.ndarray, dtype: str, threshold: str) -> np.ndarray:
    """Return the length from which on floating point has no number between the threshold and a tie.

    What is found is about N, where numbers are a step apart. With the threshold of the thesis a tie
    of k lies below by what leaks, N e^-N / k; with the mended one by 0.2 / (length + 1).

    >>> last_place(np.array([1000.0]), "float32", "mended").round().tolist()
    [3220.0]
    """
    step = np.spacing(large.astype(TYPES[dtype])).astype(float)
    if threshold == "mended":
        return RISE / step - 1
    return 2 * large * np.exp(-large) / step


@style.styled
def majority_range(found: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw for which N and up to which length the minimal model is right, and else what is wrong.

    Args:
        found: of `n` strings how many are `wrong`, as `ties`, `ones` or at the `end`, by `large`
            (N), `length`, `dtype` and `threshold`.
    """
    dtypes = [name for name in TYPES if name in set(found["dtype"])]
    figure, drawn = style.panels(2 * len(dtypes), 2, (4.1, 2.7), sharex=True, sharey=True)
    places = [(dtype, threshold) for dtype in dtypes for threshold in THRESHOLDS]
    for axes, (dtype, threshold) in zip(drawn, places, strict=True):
        part = found[(found["dtype"] == dtype) & (found["threshold"] == threshold)]
        _map(axes, part)
        limits = axes.get_xlim(), axes.get_ylim()
        larges, lengths = (np.geomspace(*ends, 500) for ends in limits)
        seen = bears(larges, lengths[:, None], threshold == "mended")
        look = {"colors": "k", "linewidths": 1.2}
        axes.contour(larges, lengths, seen.astype(float), [0.5], linestyles="--", **look)
        axes.plot(larges, last_place(larges, dtype, threshold), "k:", linewidth=1.2)
        axes.set(xlim=limits[0], ylim=limits[1], title=f"{dtype}, {THRESHOLDS[threshold]}")
    for axes in drawn[-2:]:
        axes.set_xlabel("N")
    for axes in drawn[::2]:
        axes.set_ylabel("longest strings")
    seen = set(faults(found))
    handles = [
        Patch(facecolor=color, edgecolor="#AAAAAA", label=label)
        for label, color in FAULTS.items()
        if label in seen
    ]
    handles.append(Line2D([], [], color="k", ls="--", label="noise that it can bear"))
    handles.append(Line2D([], [], color="k", ls=":", label="one step of floating point"))
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure, found.reset_index(drop=True)


def _map(axes: Axes, part: pd.DataFrame) -> None:
    """Colour a panel by what goes wrong for each N and length."""
    kinds = faults(part).map({label: number for number, label in enumerate(FAULTS)})
    wide = part.assign(kind=kinds).pivot(index="length", columns="large", values="kind")
    axes.pcolormesh(
        _edges(wide.columns), _edges(wide.index), wide.to_numpy(),
        cmap=ListedColormap([*FAULTS.values()]), vmin=-0.5, vmax=len(FAULTS) - 0.5,
        edgecolor="white", linewidth=0.4,
    )  # fmt: skip
    axes.set(xscale="log", yscale="log")
    axes.grid(visible=False)


def faults(found: pd.DataFrame) -> pd.Series:
    """Return what is wrong in each row, one of the `FAULTS`.

    >>> made = pd.DataFrame({"ties": [0, 2, 0, 5, 0], "ones": [0, 0, 3, 1, 9], "end": 0})
    >>> made = made.assign(large=[12.0, 80.0, 5.0, 80.0, 2.0], length=90, threshold="thesis")
    >>> made.loc[4, "end"] = 1
    >>> [text.split(":")[0] for text in faults(made)]
    ['all right', 'rounding', 'noise', 'rounding', 'N too small']
    """
    right, noise, ties, ones, end = FAULTS
    large, length = found["large"].to_numpy(float), found["length"].to_numpy(float)
    mended = bears(large, length, mended=True)
    seen = np.where(found["threshold"] == "mended", mended, bears(large, length, mended=False))
    said = pd.Series(right, index=found.index)
    said = said.mask(found["ties"] > 0, ties)
    said = said.mask((found["ones"] > 0) & seen, ones)
    said = said.mask((found["ones"] > 0) & ~seen, noise)
    return said.mask(found["end"] > 0, end)


def _edges(values: pd.Index) -> np.ndarray:
    """Return the ends of cells around values on a logarithmic axis.

    >>> _edges(pd.Index([1.0, 4.0])).tolist()
    [0.5, 2.0, 8.0]
    """
    logs = np.log(values.to_numpy(dtype=float))
    if len(logs) == 1:
        return np.exp([logs[0] - 0.5, logs[0] + 0.5])
    inner = (logs[1:] + logs[:-1]) / 2
    ends = 2 * logs[0] - inner[0], 2 * logs[-1] - inner[-1]
    return np.exp([ends[0], *inner, ends[1]]).round(12)


@style.styled
def circuit_steps(steps: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw a chain of thought: a row for each step, a column for each wire that is there.

    Args:
        steps: attention of the `first` and the `second` head on each `wire`, its `value`, and what
            is `said` of the `gate`, by `step`.
    """
    count, wires = steps["step"].max(), steps["wire"].max()
    figure, (axes,) = style.panels(1, 1, (max(5.5, 1.9 + 0.3 * wires), 0.9 + 0.26 * count))
    for row in steps.itertuples():
        color = "#333333" if row.value else "#AAAAAA"
        axes.text(row.wire, row.step, row.value, ha="center", va="center", color=color, fontsize=8)
    looks = {"first": ("o", FIRST, 190), "second": ("s", SECOND, 120)}
    for head, (mark, color, size) in looks.items():
        axes.scatter(
            steps["wire"], steps["step"], s=size * steps[head].where(steps[head] > 0.01, 0.0),
            marker=mark, facecolor="none", edgecolor=color, linewidth=1.6,
        )  # fmt: skip
    each = steps.drop_duplicates("step")
    axes.set_yticks(each["step"], [f"{of.gate}  →  {of.said}" for of in each.itertuples()])
    named = steps.drop_duplicates("wire").sort_values("wire")
    axes.set_xticks(named["wire"], named["name"], fontsize=7)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set(xlim=(0.4, wires + 0.6), ylim=(count + 0.6, 0.4))
    handles = [
        Line2D([], [], linestyle="none", marker=mark, color=color, markerfacecolor="none",
               markeredgewidth=1.6, markersize=9, label=f"{head} head looks here")
        for head, (mark, color, _) in looks.items()
    ]  # fmt: skip
    figure.legend(handles=handles, loc="outside lower right", ncols=2)
    return figure, steps.reset_index(drop=True)


@style.styled
def circuit_bits(found: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw the share of gates that are wrong by circuit, and by how many bits a number has.

    Args:
        found: of `n` gates how many are `wrong`, by `circuit` and `bits` with `fraction` of them
            behind the point; the `largest` number, what `leaks`, and whether that is `refused`.
    """
    found = found.sort_values(["refused", "bits", "fraction"], kind="stable")
    formats = found.drop_duplicates(["bits", "fraction"])
    names = list(dict.fromkeys(found["circuit"]))
    keys = pd.MultiIndex.from_frame(formats[["bits", "fraction"]])
    share = found.assign(share=found["wrong"] / found["n"]).pivot(
        index="circuit", columns=["bits", "fraction"], values="share"
    )
    shown = share.loc[names, keys].to_numpy()
    figure, (axes,) = style.panels(
        1, 1, (max(7.5, 2.4 + 0.62 * len(formats)), 1.5 + 0.34 * len(names))
    )
    axes.imshow(shown, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for (row, column), value in np.ndenumerate(shown):
        text = "0" if value == 0 else f"{100 * value:.1f}%"
        color = "white" if value > 0.6 else "#222222"
        axes.text(column, row, text, ha="center", va="center", color=color, fontsize=8)
    sizes = found.drop_duplicates("circuit").set_index("circuit")["gates"]
    axes.set_yticks(range(len(names)), [f"{name} ({sizes[name]} gates)" for name in names])
    of_each = formats.round(3).itertuples()
    labels = [f"{of.bits}\n{of.fraction}\n{of.largest:g}\n{of.leaks:g}" for of in of_each]
    axes.set_xticks(range(len(formats)), labels, fontsize=8)
    axes.set_xlabel("bits; of these behind the point; the largest number; what a wrong key leaks")
    axes.grid(visible=False)
    first = int((~formats["refused"]).sum())
    axes.axvline(first - 0.5, color="#B2182B", linewidth=1.6)
    axes.set_title("refused  →" if first < len(formats) else "", loc="right", color="#B2182B")
    return figure, found.reset_index(drop=True)
