"""Cells to click: a model writes a sum token by token, and answers from any start of its ids.

Others show what a window of attention hides, and what it mends in long sums.

Without widgets, as in papermill and nbval, a cell shows its default as text and a picture.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import ipywidgets
import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from IPython.display import display
from matplotlib.figure import Figure

from carry.certificates import window_limits
from carry.config.settings import SettingsError
from carry.formats import ALPHABET
from carry.interpretability.far_ids import measure_errors
from carry.interpretability.tracing import Trace, scan_starts, trace_answer
from carry.models.system import System

HOSTS = (  # set by what shows widgets
    "JPY_SESSION_NAME", "COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE", "VSCODE_PID",
)  # fmt: skip
CASES_BY_NAME = {case.name: case for case in window_limits.CASES}
HIDDEN_SHOWN = ["#ECECEC", "#44708C"]
RIGHT, WRONG = "#0173B2", "#DE8F05"
SYMBOLS = "0123456789$"  # of an answer
LABELLED = 45  # tokens; more do not fit an axis


def watch_answer(system: System, text: str, step: int) -> None:
    """Show one step of a model's answer to a sum; with widgets, type the sum and play all steps."""
    slider = _slide("token", step, 1, 30)
    player = ipywidgets.Play(value=step, min=1, max=30, interval=1200)
    ipywidgets.jslink((player, "value"), (slider, "value"))
    _show_controls(partial(_show_step, system), player, text=_ask_sum(text), step=slider)


def choose_start(system: System, text: str, start: int) -> None:
    """Show a model's answer from one start of its ids; with widgets, move the start."""
    slider = _slide("start id", start, 1, 40)
    _show_controls(partial(_show_start, system), text=_ask_sum(text), start=slider)


def choose_window(case: str, window: int) -> None:
    """Show what a window hides of a problem; with widgets, choose the task and move the window."""
    names = ipywidgets.Dropdown(options=list(CASES_BY_NAME), value=case, description="task")
    _show_controls(_show_window, case=names, window=_slide("window", window, 0, 5))


def choose_id_window(system: System, digits: int, window: int) -> None:
    """Show the errors in long sums with far ids hidden; with widgets, move length and window."""
    lengths = _slide("digits", digits, system.run.training.digits, 120)
    slider = _slide("window", window, 0, 120)
    _show_controls(partial(_show_id_window, system), digits=lengths, window=slider)


def _show_id_window(system: System, digits: int, window: int) -> None:
    """Print how many sums are right without and with a window, and draw where the others err."""
    tables = {"no window": measure_errors(system, digits)}
    tables[f"window {window}"] = measure_errors(system, digits, window)
    table = pd.concat(part.assign(reading=name) for name, part in tables.items())
    for line in table[table["part"] == "any"].itertuples():
        print(f"{line.reading}: {line.n - line.wrong} of {line.n} sums of {digits} digits right")
    table["share"] = table["wrong"] / table["n"]
    figure, axes = plt.subplots(figsize=(6, 2.4), layout="constrained")
    sns.barplot(table[table["part"] != "any"], x="part", y="share", hue="reading", ax=axes,
                palette=[WRONG, RIGHT])  # fmt: skip
    axes.set(xlabel="part of the answer", ylabel="answers wrong there", ylim=(0, 1))
    axes.legend(title=None)
    _show(figure)


def _show_step(system: System, text: str, step: int) -> None:
    """Print and draw what a model predicts at one step of its answer, the last one at most."""
    trace = trace_answer(system, *_read_operands(text))
    at = min(trace.start + step, len(trace.tokens)) - 1  # of the written token
    written, chance = trace.tokens[at], trace.chances[at - 1].max()
    verdict = "right" if trace.target[at - trace.start :][:1] == written else "wrong"
    print(f"after {trace.tokens[:at]} the model writes {written} ({chance:.0%}), {verdict}")
    if len(trace.recurrences) > 1:
        read = [predicted[at - 1] for predicted in trace.recurrences]
        print("read after each recurrence:", *read)
    _show(_draw_step(trace, at))


def _show_start(system: System, text: str, start: int) -> None:
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


def _show_window(case: str, window: int) -> None:
    """Draw what a window shows, and print two of 600 problems that it cannot tell apart, if any."""
    text, visible = window_limits.find_visible_tokens(CASES_BY_NAME[case], window)
    found = window_limits.find_limits((window,), 600, [CASES_BY_NAME[case]]).iloc[0]
    if found["context"] is None:
        print(f"{found['contexts']:,} contexts, each with one next token")
    else:
        print(f"after {found['context']} the next token is not determined:")
        print(f"    {found['one']}  then {found['then']}")
        print(f"    {found['other']}  then {found['or_then']}")
    size = (2 + 0.22 * len(text), 0.8 + 0.22 * len(visible))
    figure, axes = plt.subplots(figsize=size, layout="constrained")
    due = list(text[len(text) - len(visible) :])
    sns.heatmap(visible, ax=axes, cmap=HIDDEN_SHOWN, cbar=False, linewidths=1, linecolor="white")
    axes.set_xticks([at + 0.5 for at in range(len(text))], list(text), rotation=0)
    axes.set_yticks([at + 0.5 for at in range(len(due))], due, rotation=0)
    axes.set(xlabel="tokens; dark: visible", ylabel="next token")
    axes.tick_params(length=0)
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
    show: Callable[..., None], *more: ipywidgets.Widget, **controls: ipywidgets.ValueWidget
) -> None:
    """Display controls, and below them what `show` makes of their values; or of their defaults."""

    def show_or_explain(**values: str | int) -> None:
        try:
            show(**values)
        except SettingsError as error:  # not a sum, or one that the model cannot read
            print(error)

    if any(name in os.environ for name in HOSTS):
        shown = ipywidgets.interactive(show_or_explain, **controls)
        display(ipywidgets.VBox([*more, shown]))
    else:
        show(**{name: control.value for name, control in controls.items()})


def _ask_sum(text: str) -> ipywidgets.Text:
    return ipywidgets.Text(value=text, description="sum", continuous_update=False)


def _slide(name: str, value: int, least: int, most: int) -> ipywidgets.IntSlider:
    limits = {"value": value, "min": least, "max": most}
    return ipywidgets.IntSlider(**limits, description=name, continuous_update=False)


def _read_operands(text: str) -> list[str]:
    return [part.strip().lstrip("0") or "0" for part in text.split("+")]


def _show(figure: Figure) -> None:
    display(figure)
    plt.close(figure)
