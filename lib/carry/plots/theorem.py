"""The construction of Theorem 4.1 (cho2025): required width and sharpness of attention."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from carry.plots import style

# Codes and number formats are not schemes: dark and light, filled and open.
CODES = {"theorem": ("as the theorem counts them", "#B2182B"), "spare": ("mended", "#4393C3")}
DTYPES = {"float64": ("-", "o", 3.5), "float32": (":", "x", 5.0)}

# A wrong key scores 2 * scale less than the first token, at least, so that T of them weigh
# at most e = T * exp(-2 * scale) relative to it. In the sum of no operand, where nothing else has
# weight, they add 27 e to a digit's sum and 2.7 e to its carry; the result is wrong from 0.54 on.
# (With two digits the error is at most 6.6 e, and the result is wrong from 0.36 on.)
SLACK = 0.54 / (27 + 2.7)


@style.use_style
def draw_theorem_by_width(widths: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy by the number of written digits, at the width of the theorem.

    Args:
        widths: `written` digits, kind of `codes_are`, number of `problems`, `exact` ones, and
            the `ids` that share the available `codes`.
    """
    figure, (axes,) = style.make_panels(1, 1, (7.4, 2.6))
    for number, (codes, (label, color)) in enumerate(CODES.items()):
        part = widths[widths["codes_are"] == codes]
        share = part["exact"] / part["problems"]
        axes.bar(
            part["written"] + 0.4 * (number - 0.5), share, 0.36, label=label, color=color,
            hatch="" if codes == "theorem" else "////", edgecolor="white",
        )  # fmt: skip
        axes.plot(part["written"] + 0.4 * (number - 0.5), share, "o", ms=3, color=color)
    counts = widths.drop_duplicates("written")
    names = [f"{record.written}\n{record.ids}\n{record.codes}" for record in counts.itertuples()]
    axes.set_xticks(counts["written"], names)
    axes.set_xlabel("digits written; ids that are compared; codes that there are")
    axes.set_ylabel("exact match")
    axes.set_ylim(0, 1.03)
    axes.grid(visible=False, axis="x")
    style.format_percent(axes.yaxis)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right center")
    return figure, widths.reset_index(drop=True)


@style.use_style
def draw_theorem_by_sharpness(sharpness: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw wrong tokens by sharpness of attention, and the required sharpness by length.

    The dashed line is the sharpness that suffices for every choice of codes (see `SLACK`).

    Args:
        sharpness: `wrong` of `n` response tokens, by `scale`, number format (`dtype`) and tokens
            of a `sequence`, for a cell of `operands` and `digits`.
    """
    figure, (left, right) = style.make_panels(2, 2, (4.2, 3.2))
    lengths = sorted(sharpness["sequence"].unique())
    shades = matplotlib.colormaps["viridis"](np.linspace(0.05, 0.8, len(lengths)))
    for length, color in zip(lengths, shades, strict=True):
        for dtype, (line, mark, size) in DTYPES.items():
            fits = (sharpness["sequence"] == length) & (sharpness["dtype"] == dtype)
            part = sharpness[fits].sort_values("scale")
            if part.empty:
                continue
            share, ends = part["wrong"] / part["n"], (1 - part["high"], 1 - part["low"])
            line_style = {"color": color, "linestyle": line, "marker": mark, "ms": size, "lw": 1.2}
            cell = f"{part['operands'].iloc[0]} x {part['digits'].iloc[0]}"
            label = f"{length:,} ({cell})" if dtype == "float64" else None
            left.plot(part["scale"], share, label=label, **line_style)
            left.fill_between(part["scale"], *ends, color=color, alpha=0.15, linewidth=0)
            right.plot(
                [length],
                [least_sharpness(part)],
                **{**line_style, "linestyle": "none", "ms": size + 2},
            )
    reach = np.array([lengths[0], lengths[-1]], dtype=float)
    bound = np.log(reach / SLACK) / 2
    right.plot(reach, bound, color="#777777", linewidth=1, linestyle="--")
    right.text(reach[0], bound[-1], "enough for any codes", color="#555555", fontsize="small")
    left.set(xlabel="scale of the scores", ylabel="response tokens wrong", ylim=(-0.03, 1.03))
    style.format_percent(left.yaxis)
    right.set(xlabel="tokens of a problem", ylabel="least scale without an error", xscale="log")
    right.set_ylim(0, 1.12 * bound[-1])
    handles, labels = left.get_legend_handles_labels()
    for dtype, (line, mark, size) in DTYPES.items():
        (handle,) = left.plot([], [], color="#222222", linestyle=line, marker=mark, ms=size)
        handles, labels = [*handles, handle], [*labels, dtype]
    figure.legend(handles, labels, loc="outside right center", title="tokens (operands x digits)")
    return figure, sharpness.reset_index(drop=True)


def least_sharpness(part: pd.DataFrame) -> float:
    """Return the least scale from which on nothing is wrong.

    >>> least_sharpness(pd.DataFrame({"scale": [1.0, 2.0, 3.0], "wrong": [5, 0, 0]}))
    2.0
    """
    failing = part.loc[part["wrong"] > 0, "scale"].max()
    above = part.loc[~(part["scale"] <= failing), "scale"]
    return float(above.min())
