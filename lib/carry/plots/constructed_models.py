"""Models with constructed weights (fraknoi2024): the minimal majority model, and circuits."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from carry.plots import style

# Kinds of faults in a cell; a later kind overrides an earlier one. The colours differ in lightness.
FAULTS = {
    "no fault": "#EDEDED",
    "noise: ones missed": "#F0B84C",
    "rounding: ties missed": "#4393C3",
    "rounding: ones missed": "#1B3A6B",
    "N too small: end missed": "#B2182B",
}
THRESHOLDS = {"thesis": "threshold of the thesis", "mended": "corrected threshold"}
TYPES = {"float64": np.float64, "float32": np.float32}
FIRST, SECOND = "#D55E00", "#0072B2"  # two heads

# At a tie the model computes N + TIE; with one more 1 at least 2 RISE / (length + 1) more.
TIE, RISE = np.e / (1 + np.e), np.e / (1 + np.e) ** 2


def threshold_holds(large: np.ndarray, length: np.ndarray, mended: bool) -> np.ndarray:
    """Return whether exact arithmetic detects one more 1 in all strings up to a length.

    After k zeros, k + 1 ones and t twos the model exceeds its threshold a if and only if
    e^N (k (N - a) + (k + 1) e (N + 1 - a)) + e > a (1 + e + t). More zeros leave less room for
    twos, and both sides are linear in k: testing k = 0 and the largest k suffices.

    >>> threshold_holds(np.array([8.0]), np.array([247.0, 248.0]), mended=False).tolist()
    [True, False]
    """
    rise = RISE / (length + 1) if mended else 0.0
    detected = True
    for zeros in (0.0, np.maximum(length - 1, 0) / 2):
        with np.errstate(over="ignore"):
            weight = np.exp(large) * (zeros * (-TIE - rise) + (zeros + 1) * np.e * (1 - TIE - rise))
        noise = (large + TIE + rise) * (np.e + np.maximum(length - 2 * zeros, 1))
        detected = detected & (weight + np.e > noise)
    return detected


def rounding_length(large: np.ndarray, dtype: str, threshold: str) -> np.ndarray:
    """Return the length beyond which no floating point number separates threshold and tie.

    The computed value is about N, where neighbouring numbers differ by one step. With the
    threshold of the thesis, a tie of k is lower by the leaked attention, N e^-N / k; with the
    corrected threshold by 0.2 / (length + 1).

    >>> rounding_length(np.array([1000.0]), "float32", "mended").round().tolist()
    [3220.0]
    """
    step = np.spacing(large.astype(TYPES[dtype])).astype(float)
    if threshold == "mended":
        return RISE / step - 1
    return 2 * large * np.exp(-large) / step


@style.use_style
def draw_majority_range(counts: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw for each N and length whether the minimal model is exact, or its kind of fault.

    Args:
        counts: number `wrong` of `n` strings, split into `ties`, `ones` and `end`, by `large` (N),
            `length`, `dtype` and `threshold`.
    """
    dtypes = [name for name in TYPES if name in set(counts["dtype"])]
    figure, panels = style.make_panels(2 * len(dtypes), 2, (4.1, 2.7), sharex=True, sharey=True)
    places = [(dtype, threshold) for dtype in dtypes for threshold in THRESHOLDS]
    for axes, (dtype, threshold) in zip(panels, places, strict=True):
        part = counts[(counts["dtype"] == dtype) & (counts["threshold"] == threshold)]
        _color_faults(axes, part)
        limits = axes.get_xlim(), axes.get_ylim()
        larges, lengths = (np.geomspace(*ends, 500) for ends in limits)
        holds = threshold_holds(larges, lengths[:, None], threshold == "mended").astype(float)
        axes.contour(larges, lengths, holds, [0.5], linestyles="--", colors="k", linewidths=1.2)
        axes.plot(larges, rounding_length(larges, dtype, threshold), "k:", linewidth=1.2)
        axes.set(xlim=limits[0], ylim=limits[1], title=f"{dtype}, {THRESHOLDS[threshold]}")
    for axes in panels[-2:]:
        axes.set_xlabel("N")
    for axes in panels[::2]:
        axes.set_ylabel("longest strings")
    present = set(classify_faults(counts))
    handles = [
        Patch(facecolor=color, edgecolor="#AAAAAA", label=label)
        for label, color in FAULTS.items()
        if label in present
    ]
    handles.append(Line2D([], [], color="k", ls="--", label="largest tolerated noise"))
    handles.append(Line2D([], [], color="k", ls=":", label="one step of floating point"))
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure, counts.reset_index(drop=True)


def _color_faults(axes: Axes, part: pd.DataFrame) -> None:
    """Colour a panel by the kind of fault for each N and length."""
    kinds = classify_faults(part).map({label: number for number, label in enumerate(FAULTS)})
    wide = part.assign(kind=kinds).pivot(index="length", columns="large", values="kind")
    axes.pcolormesh(
        _edges(wide.columns), _edges(wide.index), wide.to_numpy(),
        cmap=ListedColormap([*FAULTS.values()]), vmin=-0.5, vmax=len(FAULTS) - 0.5,
        edgecolor="white", linewidth=0.4,
    )  # fmt: skip
    axes.set(xscale="log", yscale="log")
    axes.grid(visible=False)


def classify_faults(counts: pd.DataFrame) -> pd.Series:
    """Return the kind of fault of each row, one of the keys of `FAULTS`.

    >>> counts = pd.DataFrame({"ties": [0, 2, 0, 5, 0], "ones": [0, 0, 3, 1, 9], "end": 0})
    >>> counts = counts.assign(large=[12.0, 80.0, 5.0, 80.0, 2.0], length=90, threshold="thesis")
    >>> counts.loc[4, "end"] = 1
    >>> [text.split(":")[0] for text in classify_faults(counts)]
    ['no fault', 'rounding', 'noise', 'rounding', 'N too small']
    """
    none, noise, ties, ones, end = FAULTS
    large, length = counts["large"].to_numpy(float), counts["length"].to_numpy(float)
    holds = np.where(
        counts["threshold"] == "mended",
        threshold_holds(large, length, mended=True),
        threshold_holds(large, length, mended=False),
    )
    faults = pd.Series(none, index=counts.index)
    faults = faults.mask(counts["ties"] > 0, ties)
    faults = faults.mask((counts["ones"] > 0) & holds, ones)
    faults = faults.mask((counts["ones"] > 0) & ~holds, noise)
    return faults.mask(counts["end"] > 0, end)


def _edges(values: pd.Index) -> np.ndarray:
    """Return the edges of cells around values on a logarithmic axis.

    >>> _edges(pd.Index([1.0, 4.0])).tolist()
    [0.5, 2.0, 8.0]
    """
    logs = np.log(values.to_numpy(dtype=float))
    if len(logs) == 1:
        return np.exp([logs[0] - 0.5, logs[0] + 0.5])
    inner = (logs[1:] + logs[:-1]) / 2
    ends = 2 * logs[0] - inner[0], 2 * logs[-1] - inner[-1]
    return np.exp([ends[0], *inner, ends[1]]).round(12)


@style.use_style
def draw_circuit_steps(steps: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw a chain of thought: one line for each step, one column for each wire.

    Args:
        steps: for each `step` and `wire` the attention of the `first` and the `second` head, the
            `value` of the wire, and the predicted output of the `gate`.
    """
    count, wires = steps["step"].max(), steps["wire"].max()
    figure, (axes,) = style.make_panels(1, 1, (max(5.5, 1.9 + 0.3 * wires), 0.9 + 0.26 * count))
    for row in steps.itertuples():
        color = "#333333" if row.value else "#AAAAAA"
        axes.text(row.wire, row.step, row.value, ha="center", va="center", color=color, fontsize=8)
    markers = {"first": ("o", FIRST, 190), "second": ("s", SECOND, 120)}
    for head, (mark, color, size) in markers.items():
        axes.scatter(
            steps["wire"], steps["step"], s=size * steps[head].where(steps[head] > 0.01, 0.0),
            marker=mark, facecolor="none", edgecolor=color, linewidth=1.6,
        )  # fmt: skip
    gates = steps.drop_duplicates("step")
    axes.set_yticks(
        gates["step"], [f"{gate.gate}  →  {gate.predicted}" for gate in gates.itertuples()]
    )
    columns = steps.drop_duplicates("wire").sort_values("wire")
    axes.set_xticks(columns["wire"], columns["name"], fontsize=7)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set(xlim=(0.4, wires + 0.6), ylim=(count + 0.6, 0.4))
    handles = [
        Line2D([], [], linestyle="none", marker=mark, color=color, markerfacecolor="none",
               markeredgewidth=1.6, markersize=9, label=f"{head} head attends here")
        for head, (mark, color, _) in markers.items()
    ]  # fmt: skip
    figure.legend(handles=handles, loc="outside lower right", ncols=2)
    return figure, steps.reset_index(drop=True)


@style.use_style
def draw_circuit_bits(counts: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw the share of wrong gates by circuit and number format.

    Args:
        counts: number `wrong` of `n` gates, by `circuit`, `bits` and `fraction` bits; with the
            `largest` number of the format, the attention that `leaks`, and whether it is `refused`.
    """
    counts = counts.sort_values(["refused", "bits", "fraction"], kind="stable")
    formats = counts.drop_duplicates(["bits", "fraction"])
    names = list(dict.fromkeys(counts["circuit"]))
    keys = pd.MultiIndex.from_frame(formats[["bits", "fraction"]])
    shares = counts.assign(share=counts["wrong"] / counts["n"]).pivot(
        index="circuit", columns=["bits", "fraction"], values="share"
    )
    matrix = shares.loc[names, keys].to_numpy()
    figure, (axes,) = style.make_panels(
        1, 1, (max(7.5, 2.4 + 0.62 * len(formats)), 1.5 + 0.34 * len(names))
    )
    axes.imshow(matrix, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for (row, column), value in np.ndenumerate(matrix):
        text = "0" if value == 0 else f"{100 * value:.1f}%"
        color = "white" if value > 0.6 else "#222222"
        axes.text(column, row, text, ha="center", va="center", color=color, fontsize=8)
    sizes = counts.drop_duplicates("circuit").set_index("circuit")["gates"]
    axes.set_yticks(range(len(names)), [f"{name} ({sizes[name]} gates)" for name in names])
    labels = [
        f"{entry.bits}\n{entry.fraction}\n{entry.largest:g}\n{entry.leaks:g}"
        for entry in formats.round(3).itertuples()
    ]
    axes.set_xticks(range(len(formats)), labels, fontsize=8)
    axes.set_xlabel("bits, fraction bits, largest number, attention leaked to wrong keys")
    axes.grid(visible=False)
    first = int((~formats["refused"]).sum())
    axes.axvline(first - 0.5, color="#B2182B", linewidth=1.6)
    axes.set_title("refused  →" if first < len(formats) else "", loc="right", color="#B2182B")
    return figure, counts.reset_index(drop=True)
