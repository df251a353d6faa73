"""Checks of figures that several tests share."""

import matplotlib


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
