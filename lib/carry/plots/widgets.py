"""Cells to click: a model writes a sum token by token, and answers from any start of its ids.

Without widgets, as in papermill and nbval, a cell shows its default as text and a picture.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import ipywidgets
import matplotlib.pyplot as plt
import seaborn as sns
from IPython.display import display
from matplotlib.figure import Figure

from carry.config.settings import SettingsError
from carry.formats import ALPHABET
from carry.interpretability.tracing import Trace, scan_starts, trace_answer
from carry.models.system import System

HOSTS = ("JPY_SESSION_NAME", "COLAB_RELEASE_TAG", "VSCODE_PID")  # set by what shows widgets
RIGHT, WRONG = "#0173B2", "#DE8F05"
SYMBOLS = "0123456789$"  # of an answer
LABELLED = 45  # tokens; more do not fit an axis


def has_widgets() -> bool:
    """Return whether the kernel belongs to a notebook that shows widgets."""
    return any(name in os.environ for name in HOSTS)


def watch_answer(system: System, text: str = "653+49", step: int = 3) -> None:
    """Show one step of a model's answer to a sum; with widgets, type the sum and play all steps."""
    player = ipywidgets.Play(value=step, min=1, max=30, interval=1200)
    slider = ipywidgets.IntSlider(value=step, min=1, max=30, description="token")
    ipywidgets.jslink((player, "value"), (slider, "value"))
    _show_controls(partial(show_step, system), text, "step", slider, player)


def choose_start(system: System, text: str = "653+49", start: int = 1) -> None:
    """Show a model's answer from one start of its ids; with widgets, move the start."""
    slider = ipywidgets.IntSlider(value=start, min=1, max=40, description="start id")
    _show_controls(partial(show_start, system), text, "start", slider)


def show_step(system: System, text: str, step: int) -> None:
    """Print and draw what a model predicts at one step of its answer, the last one at most."""
    trace = trace_answer(system, *_read_operands(text))
    at = min(trace.start + step, len(trace.tokens)) - 1  # of the written token
    written, chance = trace.tokens[at], trace.chances[at - 1].max()
    verdict = "right" if trace.target[at - trace.start :][:1] == written else "wrong"
    print(f"after {trace.tokens[:at]} the model writes {written} ({chance:.0%}), {verdict}")
    _show(_draw_step(trace, at))


def show_start(system: System, text: str, start: int) -> None:
    """Print and draw a model's answer from one start, the last possible at most, and from all."""
    table = scan_starts(system, *_read_operands(text))
    chosen = table[table["start"] <= start].iloc[-1]
    trace = trace_answer(system, *_read_operands(text), start=int(chosen["start"]))
    print("tokens", *(f"{token:>2}" for token in trace.tokens[:-1]))
    print("ids   ", *(f"{number:>2}" for number in trace.ids[:-1]))
    print(f"answer {chosen['answer']},", "right" if chosen["right"] else "wrong")
    figure, axes = plt.subplots(figsize=(7.5, 2.2), layout="constrained")
    colors = [RIGHT if right else WRONG for right in table["right"]]
    axes.bar(table["start"], table["least"], color=colors)
    axes.bar(chosen["start"], chosen["least"], fill=False, edgecolor="#222222", linewidth=2)
    axes.set(xlabel="start id (orange: wrong answers)", ylabel="least sure token", ylim=(0, 1))
    _show(figure)


def _draw_step(trace: Trace, at: int) -> Figure:
    """Draw the attention of all heads from the token before `at`, and the chances of the next."""
    width = 0.3 * min(at, LABELLED - 10)
    size = (max(7.0, width + 3), 0.9 + 0.24 * len(trace.heads))
    layout = {"figsize": size, "width_ratios": [width, 2.4], "layout": "constrained"}
    figure, (left, right) = plt.subplots(1, 2, **layout)
    names = [f"{trace.tokens[token]}\n{trace.ids[token]}" for token in range(at)]
    names = names if at <= LABELLED else False
    sns.heatmap(
        trace.attention[:, at - 1, :at], ax=left, vmin=0, vmax=1, cmap="rocket_r",
        xticklabels=names, yticklabels=trace.heads, cbar_kws={"label": "attention"},
    )  # fmt: skip
    left.set(xlabel="token, and its id", ylabel="layer.head")
    left.tick_params(length=0, rotation=0)
    chances = trace.chances[at - 1, [ALPHABET.index(symbol) for symbol in SYMBOLS]].numpy()
    sns.barplot(x=list(SYMBOLS), y=chances, ax=right, color=RIGHT)
    right.set(xlabel="next token", ylabel="probability", ylim=(0, 1))
    return figure


def _show_controls(
    show: Callable, text: str, name: str, slider: ipywidgets.IntSlider, *more: ipywidgets.Widget
) -> None:
    """Display controls, and below them what `show` makes of their values; or of their defaults."""
    if not has_widgets():
        return show(text, **{name: slider.value})
    typed = ipywidgets.Text(value=text, description="sum", continuous_update=False)
    slider.continuous_update, controls = False, {"text": typed, name: slider}
    output = ipywidgets.interactive_output(partial(_show_or_explain, show), controls)
    return display(ipywidgets.VBox([ipywidgets.HBox([typed, *more, slider]), output]))


def _show_or_explain(show: Callable[..., None], **values: str | int) -> None:
    try:
        show(**values)
    except SettingsError as error:  # not a sum, or one that the model cannot read
        print(error)


def _read_operands(text: str) -> list[str]:
    return [part.strip().lstrip("0") or "0" for part in text.split("+")]


def _show(figure: Figure) -> None:
    display(figure)
    plt.close(figure)
