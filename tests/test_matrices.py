"""Matrices show the cells of a table in its order."""

import matplotlib
import numpy as np
import pandas as pd
import pytest

from carry.plots.matrices import MISSING, draw_matrices

pytestmark = pytest.mark.usefixtures("closed_figures")


def make_table():
    cells = [("b", "low", 0.25), ("a", "low", 1.0), ("b", "high", 0.0)]
    parts = [pd.DataFrame(cells, columns=["x", "y", "share"]).assign(panel=name) for name in "pq"]
    return pd.concat(parts, ignore_index=True)


def test_cells_are_in_the_order_of_the_table_with_their_numbers():
    grid = draw_matrices(make_table(), "x", "y", "share", "right", col="panel")
    for name, axes in grid.axes_dict.items():
        image = axes.images[0].get_array()
        assert np.ma.filled(image, -1).tolist() == [[0.25, 1.0], [0.0, -1]]
        assert [label.get_text() for label in axes.get_xticklabels()] == ["b", "a"]
        assert [label.get_text() for label in axes.get_yticklabels()] == ["low", "high"]
        assert [text.get_text() for text in axes.texts] == ["25", "100", "0"]
        assert axes.get_title() == name
        missing = matplotlib.colors.to_hex(axes.images[0].cmap.get_bad())
        assert missing == MISSING.lower()


def test_many_cells_have_no_numbers():
    big = pd.DataFrame({"x": range(200), "y": 0, "share": 0.5})
    assert not draw_matrices(big, "x", "y", "share", "right").ax.texts
