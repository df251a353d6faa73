"""Panels of rows that are trained on some lengths only: what is drawn of made-up tables."""

import numpy as np
import pandas as pd
import pytest

import made_up_lengths as made_up
from carry import results
from carry.plots import panels

pytestmark = pytest.mark.usefixtures("closed_figures")
LEARNED, GAP = "addition_equal_learned", "addition_equal_learned_gap"


def cells(*rows, seeds=3):
    """Return cells with labels; all problems of trained lengths are right."""
    table = pd.concat([made_up.cells(row, seeds) for row in rows], ignore_index=True)
    known = [i in made_up.seen(row) for row, i in zip(table["row"], table["i"], strict=True)]
    right = np.where(known, table["n"], 0)
    table = table.assign(scale="laptop", exact=right, accuracy=right / table["n"])
    return results.add_labels(table, table)


def test_a_length_between_the_trained_ones_is_not_one_of_training():
    table = cells(LEARNED, GAP)
    labels = ["Learned index (1 to 4 and 6)", "Learned index, a larger gap (1 to 4 and 7)"]
    assert list(table["label"].unique()) == labels
    lengths = results.score_lengths(table)
    assert lengths.query("region == 'in distribution'")["accuracy"].eq(1).all()
    between = lengths.query("region == 'interpolation'")
    digits = between.groupby("row")["digits"].unique().map(list).to_dict()
    assert digits == {LEARNED: [5], GAP: [5, 6]}
    forgotten = table.assign(exact=0)
    assert results.add_labels(forgotten, forgotten)["label"].str.endswith("not learned").all()


def test_columns_are_means_and_every_seed_has_a_dot():
    lengths = results.score_lengths(cells(LEARNED, GAP))
    grid = panels.draw_columns(lengths)
    for label, axes in grid.axes_dict.items():
        part = lengths[lengths["label"] == label]
        heights = sorted(round(bar.get_height(), 6) for bar in axes.patches)
        assert heights == sorted(part.groupby("digits")["accuracy"].mean().round(6))
        dots = np.concatenate([dots.get_offsets() for dots in axes.collections])
        assert sorted(dots[:, 1].round(6)) == sorted(part["accuracy"].round(6))


def test_columns_of_rows_that_have_not_learned_are_pale():
    lengths = results.score_lengths(cells(LEARNED, GAP))
    lengths["learned"] = lengths["row"] == LEARNED
    drawn = panels.draw_columns(lengths).axes_dict.values()
    learned, unlearned = ({bar.get_alpha() for bar in axes.patches} for axes in drawn)
    assert max(unlearned) < min(learned)


def test_shares_fill_each_column():
    kinds = pd.concat([made_up.written([row]) for row in (LEARNED, GAP)]).assign(scale="laptop")
    kinds = kinds.groupby(["row", "scale", "trained", "digits", "kind"], as_index=False)
    kinds = results.add_length_regions(kinds["accuracy"].mean())
    kinds["label"] = kinds["row"]
    grid = panels.draw_answer_kinds(kinds)
    for row, axes in grid.axes_dict.items():
        bars = [bar for bar in axes.patches if bar.get_width() < 0.9 and bar.get_height()]
        tops = pd.Series([bar.get_y() + bar.get_height() for bar in bars])
        middles = pd.Series([round(bar.get_x() + bar.get_width() / 2) for bar in bars])
        assert np.allclose(tops.groupby(middles).max(), 1)
        assert sorted(middles.unique()) == sorted(kinds.loc[kinds["row"] == row, "digits"].unique())


def test_curves_have_a_line_for_each_seed_and_a_median():
    losses = made_up.losses([LEARNED], seeds=3).assign(scale="laptop", label="mine")
    losses = results.add_length_regions(losses[losses["digits"].isin([4, 5])])
    dashes = {"in distribution": "", "interpolation": (1, 1), "extrapolation": (4, 2)}
    grid = panels.draw_curves(losses, "step", "loss", "digits", "region", dashes)
    widths = [line.get_linewidth() for line in grid.axes.flat[0].lines if len(line.get_xdata())]
    assert widths.count(0.6) == 6 and widths.count(2.2) == 2
