"""Checks of figures that several tests share."""

import matplotlib
import pandas as pd

from carry.plots import style


def check_layout(figure):
    """No label is cut off, and no panel is empty."""
    figure.get_layout_engine().execute(figure)
    box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert box.x0 > -0.01 and box.x1 < width + 0.01
    assert box.y0 > -0.01 and box.y1 < height + 0.01
    for axes in figure.axes:
        assert axes.has_data() or axes.patches or axes.texts


def texts(figure):
    """Return all texts of a figure in one line."""
    words = [text.get_text() for text in figure.findobj(matplotlib.text.Text)]
    return " ".join(" ".join(words).split())


def check_files(folder, name, table):
    """The saved csv is the table, and the pictures are there, small and without paths."""
    read = pd.read_csv(folder / f"{name}.csv", dtype={"start": str, "seed": str})
    expected = table.astype({c: str for c in ("start", "seed") if c in table})
    pd.testing.assert_frame_equal(read, expected, check_dtype=False, rtol=1e-5)
    svg = (folder / f"{name}.svg").read_text(encoding="utf-8")
    assert 500 < len(svg) < 1_500_000 and str(folder) not in svg
    shown = folder / f"{name}.png"
    assert shown.stat().st_size > 500 if name in style.README_FIGURES else not shown.exists()
