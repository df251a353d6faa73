"""What is drawn is what the tables say, it is drawn the same each time, and told apart by all."""

import io
import itertools

import matplotlib
import matplotlib.colors
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from carry import paths, positions, run
from carry.figures import accuracy, errors, gallery, heatmaps, load, numbering, style
from carry.figures import curves as learning
from carry.settings import SettingsError, parts
from made_up import REACH, cells, curves, places, results

matplotlib.use("Agg")
ROWS = ["addition_nope", "addition_abacus", "addition_coupled", "addition_relative"]


@pytest.fixture(scope="module")
def tables():
    return load.Tables(cells(ROWS), places(ROWS), curves(ROWS))


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


@pytest.mark.parametrize("name", gallery.FIGURES)
def test_two_drawings_are_the_same_bytes_and_the_csv_is_the_table(name, tables, tmp_path):
    for folder in ("one", "two"):
        _, table = gallery.write(name, tables, tmp_path / folder)
    for ending in ("svg", "png", "csv"):
        one, two = (tmp_path / folder / f"{name}.{ending}" for folder in ("one", "two"))
        assert one.read_bytes() == two.read_bytes()
        assert one.stat().st_size > 50
    read = pd.read_csv(tmp_path / "one" / f"{name}.csv", dtype={"start": str, "seed": str})
    expected = table.astype({c: str for c in ("start", "seed") if c in table})
    pd.testing.assert_frame_equal(read, expected, check_dtype=False, rtol=1e-5)
    assert str(tmp_path) not in (tmp_path / "one" / f"{name}.svg").read_text()


@pytest.mark.parametrize("name", gallery.FIGURES)
def test_no_label_is_cut_off_and_no_panel_is_empty(name, tables):
    figure, _ = gallery.draw(name, tables)
    figure.canvas.draw()
    box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()  # of all that shows
    assert box.x0 > -0.01 and box.x1 < width + 0.01
    assert box.y0 > -0.01 and box.y1 < height + 0.01
    for axes in figure.axes:
        assert axes.has_data() or axes.patches or axes.texts


def test_regions_are_recounted_from_the_cells(tables):
    table = accuracy.region_table(tables.cells)
    of = tables.cells.query("row == 'addition_nope' and set == 'grid' and i <= 10 and j <= 10")
    drawn = table.query("row == 'addition_nope' and region == 'in distribution'")
    assert drawn.set_index("seed")["exact"].to_dict() == {
        "all": of["exact"].sum(), **{str(s): part["exact"].sum() for s, part in of.groupby("seed")}
    }  # fmt: skip
    far = table[table["region"] == "1,000 digits"]
    assert (
        set(far["row"]) == {"addition_relative"} and far.query("seed == 'all'")["n"].item() == 300
    )
    assert (table["low"] <= table["accuracy"]).all() and (table["accuracy"] <= table["high"]).all()


def test_a_second_panel_has_the_rows_that_a_start_changes(tables):
    figure, table = accuracy.by_length(tables.cells)
    assert len(figure.axes) == 2
    assert set(table[table["start"] == "middle"]["row"]) == {"addition_abacus", "addition_coupled"}
    figure, _ = accuracy.by_length(tables.cells[tables.cells["start"] == "1"])
    assert len(figure.axes) == 1


def test_the_start_is_chosen_in_distribution_alone():
    def share(row, longest, seed, start):
        return (0.9 if start == "middle" else 0.5) if longest <= 10 else start == "1"

    two = cells(["addition_abacus", "addition_nope"], grid=20, share=share)
    assert load.starts(two) == {"addition_abacus": "middle", "addition_nope": "1"}
    tied = cells(["addition_abacus"], grid=20, share=lambda *of: 1.0 if of[1] <= 10 else 0.0)
    assert load.starts(tied) == {"addition_abacus": "1"}


def test_heatmaps_are_means_over_seeds_and_pixels_in_the_svg(tables, tmp_path):
    figure, table = heatmaps.by_lengths(tables.cells, start="1")
    own = tables.cells.query("row == 'addition_abacus' and start == '1' and set == 'grid'")
    cell = table.query("row == 'addition_abacus' and i == 14 and j == 13")
    assert cell["accuracy"].item() == own.query("i == 14 and j == 13")["accuracy"].mean()
    image = figure.axes[1].get_images()[0].get_array()
    assert image[13, 12] == cell["accuracy"].item()  # row i, column j
    svg = style.save(figure, "heatmaps", table, tmp_path)
    assert svg.stat().st_size < 200_000 and "data:image/png" in svg.read_text()


def test_kinds_of_error_add_up(tables):
    _, table = errors.by_kind(tables.cells)
    assert (table[list(errors.KINDS)].sum(axis=1) == table["n"]).all()


def test_a_median_ends_where_the_first_seed_has_stopped(tables):
    figure, _ = learning.by_step(tables.curves[tables.curves["row"] == "addition_nope"])
    ends = [line.get_xdata()[-1] for line in figure.axes[0].lines]
    assert ends == [1500, 1500, 1200, 1200]


def test_ids_are_those_of_the_schemes():
    _, table = numbering.of_a_sum(653, 49)
    coupled = table[table["scheme"] == "coupled"]
    drawn = positions.drawn(positions.choose("coupled")(), "653", "49", pad=True,
                            reverse_operands=False)  # fmt: skip
    spelt = f"{' '.join(coupled['token'])} | {' '.join(map(str, coupled['id']))}"
    assert spelt == drawn
    assert set(table["scheme"]) == set(parts("carry.positions"))  # each has to be drawn


def test_a_new_row_is_drawn_without_a_change_of_code():
    rows = ["addition_brand_new", "addition_coupled_wide"]
    figure, table = accuracy.by_length(cells(rows, grid=12, each=1, equal=5))
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["Brand new", "Coupled, wide"] and load.rows(table) == rows
    assert style.look("addition_coupled_wide").color == style.look("addition_coupled").color


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
    for name, (_, color) in style.SCHEMES.items():
        rgb = np.array(matplotlib.colors.to_rgb(color))
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        seen[name] = lab(np.clip(SIGHT[sight] @ linear, 0, 1))
    distances = [np.linalg.norm(a - b) for a, b in itertools.combinations(seen.values(), 2)]
    assert min(distances) > 13


def test_tables_are_read_in_the_order_of_the_profile(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    rows = ["addition_rope", "addition_nope"]
    results(tmp_path, [*rows, "addition_fire"])
    monkeypatch.setattr(run, "rows", lambda profile: rows)  # another row has left its files
    tables = load.tables("cpu")
    assert [load.rows(table) for table in tables] == [rows] * 3
    (tmp_path / "reports/results/cpu/addition_nope/places.parquet").unlink()
    with pytest.raises(SettingsError) as error:
        load.tables("cpu")
    assert str(error.value) == (
        "results.addition_nope: reports/results/cpu/addition_nope/places.parquet is not there; "
        "expected the evaluate stage of profile 'cpu' to have run"
    )


def test_drawing_leaves_the_settings_of_matplotlib_alone(tables):
    before = dict(matplotlib.rcParams)
    figure, table = learning.by_step(tables.curves)
    figure.savefig(io.BytesIO())
    assert dict(matplotlib.rcParams) == before
    assert set(REACH) >= set(load.rows(table))
