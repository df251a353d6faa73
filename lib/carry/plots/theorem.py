"""How far the model of Theorem 4.1 holds (cho2025): at which widths, and how sharp it has to be."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from carry.plots import style

# Codes and number formats are no schemes: dark and light, filled and open.
CODES = {"theorem": ("as the theorem counts them", "#B2182B"), "spare": ("mended", "#4393C3")}
DTYPES = {"float64": ("-", "o", 3.5), "float32": (":", "x", 5.0)}

# A wrong key scores 2 * scale less than the first token, at least, so that T of them weigh
# e = T * exp(-2 * scale) beside it, at most. Where nothing else is to be found, in the sum of no
# operand, they make 27 e of a digit's sum, and 2.7 e of its carry; it is read wrong from 0.54 on.
# (Where two digits are found they may be 6.6 e too little, and are read wrong from 0.36 on.)
SLACK = 0.54 / (27 + 2.7)


@style.styled
def by_width(widths: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw which sums are right by the digits that are written, at the width of the theorem.

    Args:
        widths: `written` digits, `codes_are`, sums (`problems`), how many are `exact`, and `ids`
            that want one of so many `codes`.
    """
    figure, (axes,) = style.panels(1, 1, (7.4, 2.6))
    for number, (codes, (label, color)) in enumerate(CODES.items()):
        part = widths[widths["codes_are"] == codes]
        share = part["exact"] / part["problems"]
        axes.bar(
            part["written"] + 0.4 * (number - 0.5), share, 0.36, label=label, color=color,
            hatch="" if codes == "theorem" else "////", edgecolor="white",
        )  # fmt: skip
        axes.plot(part["written"] + 0.4 * (number - 0.5), share, "o", ms=3, color=color)
    counts = widths.drop_duplicates("written")
    names = [f"{of.written}\n{of.ids}\n{of.codes}" for of in counts.itertuples()]
    axes.set_xticks(counts["written"], names)
    axes.set_xlabel("digits written; ids that are compared; codes that there are")
    axes.set_ylabel("sums wholly right")
    axes.set_ylim(0, 1.03)
    axes.grid(visible=False, axis="x")
    style.percent(axes.yaxis)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right center")
    return figure, widths.reset_index(drop=True)


@style.styled
def by_sharpness(sharpness: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw which tokens are wrong by how sharp attention is, and how sharp it has to be by length.

    The dashed line is the sharpness that is enough whatever the codes are (see `SLACK`).

    Args:
        sharpness: of `n` response tokens how many are `wrong`, by `scale`, number format (`dtype`)
            and tokens of a `sequence`, in the cell of so many `operands` and `digits`.
    """
    figure, (left, right) = style.panels(2, 2, (4.2, 3.2))
    lengths = sorted(sharpness["sequence"].unique())
    shades = matplotlib.colormaps["viridis"](np.linspace(0.05, 0.8, len(lengths)))
    for length, color in zip(lengths, shades, strict=True):
        for dtype, (line, mark, size) in DTYPES.items():
            fits = (sharpness["sequence"] == length) & (sharpness["dtype"] == dtype)
            part = sharpness[fits].sort_values("scale")
            if part.empty:
                continue
            share, ends = part["wrong"] / part["n"], (1 - part["high"], 1 - part["low"])
            look = {"color": color, "linestyle": line, "marker": mark, "ms": size, "lw": 1.2}
            cell = f"{part['operands'].iloc[0]} x {part['digits'].iloc[0]}"
            label = f"{length:,} ({cell})" if dtype == "float64" else None
            left.plot(part["scale"], share, label=label, **look)
            left.fill_between(part["scale"], *ends, color=color, alpha=0.15, linewidth=0)
            right.plot([length], [least(part)], **{**look, "linestyle": "none", "ms": size + 2})
    reach = np.array([lengths[0], lengths[-1]], dtype=float)
    bound = np.log(reach / SLACK) / 2
    right.plot(reach, bound, color="#777777", linewidth=1, linestyle="--")
    right.text(reach[0], bound[-1], "enough for any codes", color="#555555", fontsize="small")
    left.set(xlabel="scale of the scores", ylabel="response tokens wrong", ylim=(-0.03, 1.03))
    style.percent(left.yaxis)
    right.set(xlabel="tokens of a problem", ylabel="least scale without an error", xscale="log")
    right.set_ylim(0, 1.12 * bound[-1])
    handles, labels = left.get_legend_handles_labels()
    for dtype, (line, mark, size) in DTYPES.items():
        (handle,) = left.plot([], [], color="#222222", linestyle=line, marker=mark, ms=size)
        handles, labels = [*handles, handle], [*labels, dtype]
    figure.legend(handles, labels, loc="outside right center", title="tokens (operands x digits)")
    return figure, sharpness.reset_index(drop=True)


def least(part: pd.DataFrame) -> float:
    """Return the least scale from which on nothing is wrong.

    >>> least(pd.DataFrame({"scale": [1.0, 2.0, 3.0], "wrong": [5, 0, 0]}))
    2.0
    """
    failing = part.loc[part["wrong"] > 0, "scale"].max()
    above = part.loc[~(part["scale"] <= failing), "scale"]
    return float(above.min())
