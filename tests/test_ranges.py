"""Ranges show the length that more than half of the seeds reach, and each seed."""

import pandas as pd
import pytest
from matplotlib.colors import to_rgba

from carry.plots import ranges
from figure_checks import check_layout, texts

pytestmark = pytest.mark.usefixtures("closed_figures")
REACHED = {"addition_nope": [5, 5, 5], "addition_relative": [8, 10, 12, 12]}
DIGITS = (1, 3, 5, 8, 10, 12, 20)


def scores():
    """Return accuracies of two rows: each seed fails at one length and solves the next."""
    lines = []
    for row, lengths in REACHED.items():
        for seed, reached in enumerate(lengths):
            fails = DIGITS[DIGITS.index(reached) + 1]
            for digits in DIGITS:
                lines.append([row, row, seed, digits, 0.5 if digits == fails else 0.95])
    table = pd.DataFrame(lines, columns=["row", "label", "seed", "digits", "accuracy"])
    return table.assign(panel="trained to 5", trained=5)


def test_a_seed_reaches_the_length_before_its_first_failure():
    reach = ranges.find_reach(scores())
    assert reach.groupby("row", sort=False)["reach"].agg(list).to_dict() == REACHED


def test_failures_at_lengths_below_the_trained_one_do_not_count():
    table = scores()
    table.loc[table["digits"] == 3, "accuracy"] = 0.0
    assert ranges.find_reach(table)["reach"].tolist() == [*REACHED["addition_nope"], 8, 10, 12, 12]


def test_bars_dots_and_the_arrow():
    figure = ranges.draw_ranges(scores(), proved={"addition_relative"})
    check_layout(figure)
    (axes,) = figure.axes
    grey = to_rgba(ranges.TRAINED)
    bars = [(bar.get_x() + bar.get_width(), bar.get_facecolor() == grey) for bar in axes.patches]
    assert [end for end, is_grey in bars if is_grey] == [5, 5]
    assert [end for end, is_grey in bars if not is_grey] == [5, 10]  # three of four reach 10
    dots = [list(dots.get_offsets()[:, 0]) for dots in axes.collections]
    assert dots == [*REACHED.values()]
    assert texts(figure).count("every length: proved") == 1


def test_a_bar_that_ends_at_the_longest_tested_length_says_so():
    table = scores()
    table = table[(table["row"] == "addition_nope") | (table["digits"] <= 8)]
    shown = texts(ranges.draw_ranges(table))
    assert "5" in shown and "8 (longest tested)" in shown


def test_a_row_that_does_not_reach_its_trained_length_has_no_coloured_bar():
    figure = ranges.draw_ranges(scores().assign(accuracy=0.0, trained=1))
    check_layout(figure)
    assert all(bar.get_width() == 0 for bar in figure.axes[0].patches)
