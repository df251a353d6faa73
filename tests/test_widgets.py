"""The cells of the tour that show widgets say what the model does, with widgets and without."""

import ipywidgets
import pytest
import torch

from carry.config.settings import SettingsError
from carry.evaluation.ask import ask
from carry.evaluation.trained_models import load_committed
from carry.experiments.resolve import make_run
from carry.formats import to_text
from carry.interpretability.tracing import scan_starts, trace_answer
from carry.models.system import System
from carry.plots import widgets
from figure_checks import check_layout

pytestmark = pytest.mark.usefixtures("closed_figures")


@pytest.fixture(scope="module")
def adder():
    return load_committed("addition_abacus")


@pytest.fixture
def shown(monkeypatch):
    """Return the list of what is displayed."""
    found = []
    monkeypatch.setattr(widgets, "display", found.append)
    for host in widgets.HOSTS:
        monkeypatch.delenv(host, raising=False)
    return found


def show_controls(shown):
    """Return the controls that are displayed, and their output."""
    (box,) = (item for item in shown if isinstance(item, ipywidgets.VBox))
    return box.children[-1].children


def test_a_trace_has_the_answer_that_the_model_writes(adder):
    steps = ask(adder, "653", "49", start=2)
    trace = trace_answer(adder, 653, 49, start=2)
    assert list(trace.tokens[trace.start :]) == steps["predicted"].tolist()
    chances = trace.chances[trace.start - 1 : -1].max(-1).values
    assert chances.tolist() == pytest.approx(steps["probability"].tolist())
    assert trace.ids[:8] == [0, 2, 3, 4, 0, 2, 3, 0]


def test_no_token_attends_to_later_ones(adder):
    attention = trace_answer(adder, 653, 49).attention
    assert len(attention) == 8 and not attention.triu(1).any()
    assert torch.allclose(attention.sum(-1), torch.ones(attention.shape[:2]))


def test_starts_end_with_the_table(adder):
    table = scan_starts(adder, 653, 49)
    last = adder.largest_id(0) - 3  # the answer may have four digits
    assert table["start"].tolist() == list(range(1, last + 1))
    first = ask(adder, 653, 49, start=1)
    assert table["least"][0] == pytest.approx(first["probability"].min())
    with pytest.raises(SettingsError, match="past the largest"):
        scan_starts(adder, "9" * 40, 1)


def test_without_widgets_a_step_is_text_and_a_picture(adder, shown, capsys):
    widgets.watch_answer(adder, "653 + 49", 99)  # the last one
    assert capsys.readouterr().out == "after ^356+94=207 the model writes $ (100%), right\n"
    (figure,) = shown
    check_layout(figure)
    labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert labels[:3] == ["^\n0", "3\n1", "5\n2"] and len(labels) == 11


def test_without_widgets_a_start_is_text_and_a_picture(adder, shown, capsys):
    widgets.choose_start(adder, "653+49", 2)
    words = capsys.readouterr().out.splitlines()
    assert words[0].split()[1:] == list("^356+94=207") and words[2] == "answer 702, right"
    assert words[1].split()[1:] == ["0", "2", "3", "4", "0", "2", "3", "0", "2", "3", "4"]
    check_layout(*shown)


def test_with_widgets_a_sum_can_be_typed(adder, shown, capsys, monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", "tour.ipynb")
    widgets.watch_answer(adder, "653+49", 3)
    typed, slider, _ = show_controls(shown)
    slider.value = 1
    assert "after ^356+94= the model writes 2" in capsys.readouterr().out
    typed.value = "5+5"
    assert "after ^5+5= the model writes 0" in capsys.readouterr().out
    typed.value = "five"
    assert "is not a number that can be asked" in capsys.readouterr().out


def test_without_widgets_a_window_is_text_and_a_picture(shown, capsys):
    widgets.choose_window("sums, highest digit first", 2)
    words = capsys.readouterr().out.splitlines()
    assert words[0].endswith("the next token is not determined:")
    (one, then), (other, or_then) = (line.strip().split("  then ") for line in words[1:])
    assert one != other and then != or_then
    check_layout(*shown)


def test_with_widgets_a_window_can_be_moved(shown, capsys, monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", "where_does_it_end.ipynb")
    widgets.choose_window("sums, lowest digit first", 0)
    names, slider, _ = show_controls(shown)
    assert "is not determined" in capsys.readouterr().out
    slider.value = 1
    assert "each with one next token" in capsys.readouterr().out
    names.value = "parity of all bits, without steps"
    assert "is not determined" in capsys.readouterr().out


def test_a_looped_model_is_read_after_each_recurrence(shown, capsys):
    settings = {"model": {"layers": 1, "recurrences": 3, "width": 8, "heads": 1}}
    looped = System(make_run({"task": {"name": "addition"}, **settings}))
    trace = trace_answer(looped, 17, 25)
    assert len(trace.recurrences) == 3
    last = trace.chances.argmax(-1)
    assert trace.recurrences[-1] == to_text(last)
    widgets.watch_answer(looped, "17+25", 1)
    line = capsys.readouterr().out.splitlines()[1]
    assert line.split()[-3:] == [read[trace.start - 1] for read in trace.recurrences]
