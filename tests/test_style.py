"""Rows have labels and colours of their own, and files of figures are small and always the same."""

import itertools
import sys
import types

import matplotlib.colors
import numpy as np
import pytest

from carry import labels, positions, results
from carry.config import settings
from carry.config.settings import list_modules
from carry.experiments import load_rows
from carry.experiments.base import Row
from carry.experiments.resolve import make_run
from carry.labels import describe_run
from carry.plots import index, numbering, style

pytestmark = pytest.mark.usefixtures("closed_figures")


def test_ids_are_those_of_the_schemes():
    _, table = numbering.draw_ids_of_sum(653, 49)
    coupled = table[table["scheme"] == "coupled"]
    drawn = positions.show_ids(positions.choose_scheme("coupled")(), "653", "49", pad=True,
                            reverse_operands=False)  # fmt: skip
    spelt = f"{' '.join(coupled['token'])} | {' '.join(map(str, coupled['id']))}"
    assert spelt == drawn
    assert set(table["scheme"]) == set(list_modules("carry.positions"))  # each has to be drawn


def test_a_row_without_scales_is_called_by_its_name(monkeypatch):
    monkeypatch.setattr(labels, "load_rows", lambda: {"my_idea": Row("my_idea", "tests", {})})
    assert labels.find_run("my_idea") is None and labels.describe_row("my_idea") == "My idea"


def test_a_new_row_with_a_new_scheme_needs_no_list(monkeypatch):
    """Its label is the scheme's, its colour is grey, and nouns and units are the task's."""
    module = types.ModuleType("carry.positions.zigzag")

    class Zigzag(positions.Scheme):
        label = "Zigzag order"

    Zigzag.__module__ = module.__name__
    module.Zigzag = Zigzag
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(
        settings, "list_modules", lambda package: [*list_modules(package), "zigzag"]
    )
    known, pair = load_rows(), {"ids": "zigzag", "encoding": "learned"}
    lists, coupled = known["sorting_fire"], known["addition_coupled"]
    mine = [
        lists.but("sorting_mine", positions=[pair]),
        lists.but("sorting_mine_rope", positions=[{**pair, "encoding": "rope"}]),
        lists.but("sorting_mine_best", label="Zigzag, at its best", positions=[pair]),
        coupled.but("coupled_mine", label="Coupled, mine"),
    ]
    runs = {row.name: make_run(row.resolve(), row.name, label=row.label) for row in mine}
    monkeypatch.setattr(
        results, "read_runs", lambda: {(row, "laptop"): run for row, run in runs.items()}
    )
    rows = ["sorting_mine", "sorting_mine_rope", "sorting_mine_best", "coupled_mine"]
    names = ["Zigzag order", "Zigzag order RoPE", "Zigzag, at its best", "Coupled, mine"]
    assert [describe_run(runs[row]) for row in rows] == names
    assert [style.choose_color(row) for row in rows[:3]] == [style.OTHER_COLOR] * 3
    assert style.choose_color(rows[3]) == style.COLORS["Coupled"]
    assert style.name_problems(rows[:3]) == "lists"


# Machado, Oliveira and Fernandes 2009, at full severity, on linear RGB.
SIGHT = {
    "usual": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}


def lab(rgb):
    """Return CIELAB of linear RGB."""
    to_xyz = np.array([[0.412, 0.358, 0.180], [0.213, 0.715, 0.072], [0.019, 0.119, 0.950]])
    x, y, z = np.cbrt(np.clip(to_xyz @ rgb / [0.950, 1.0, 1.089], 0.008856, None))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("sight", SIGHT)
def test_colours_are_told_apart(sight):
    seen = {}
    for color in set(style.COLORS.values()):
        rgb = np.array(matplotlib.colors.to_rgb(color))
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        seen[color] = lab(np.clip(SIGHT[sight] @ linear, 0, 1))
    distances = [np.linalg.norm(a - b) for a, b in itertools.combinations(seen.values(), 2)]
    assert min(distances) > 13


def test_pictures_of_the_readme_are_figures():
    assert {*style.README_FIGURES} <= {*index.list_figures()}


def test_one_digit_more_leaves_nothing_where_it_was():
    _, table = numbering.draw_ids_beyond_training()
    known, beyond = (of for _, of in table.groupby("sum", sort=False))
    assert set(known["new"]) == {"nothing"}
    assert beyond["new"].tolist() == ["nothing"] + ["meaning"] * 13 + ["id"] * 2
    # So it is with a length that was left out; but then there is no id that was never met.
    _, table = numbering.draw_ids_beyond_training((1, 2, 3, 5), ((1234, 5678),))
    assert table["new"].tolist() == ["nothing"] + ["meaning"] * 15
