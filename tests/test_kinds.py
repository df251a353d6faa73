"""Figures show what the tables say: all seeds, medians, intervals, and what is not learned."""

import json
from functools import partial

import matplotlib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_hex

from carry import plots, results
from carry.config.settings import SettingsError
from carry.evaluation.intervals import seed_interval
from carry.experiments.resolve import load_run
from carry.plots import attention_maps, index, matrices, panels, ranges, style
from carry.plots import notebook as shared
from figure_checks import check_layout, texts
from made_up import cells, curves

pytestmark = pytest.mark.usefixtures("closed_figures")
SCALES = {"addition_nope": "laptop", "addition_abacus": "long"}
ROWS = list(SCALES)


@pytest.fixture(scope="module")
def labelled():
    """Return cells of a row that has learned its lengths, and of one that has not."""
    table = cells(ROWS, grid=12, each=5, share=lambda row, longest, *_: _share(row, longest))
    return results.add_labels(table, table)


def _share(row, longest):
    return 0.5 if row == ROWS[0] else float(longest <= 10)


def test_bars_are_means_with_the_interval_over_seeds(labelled):
    scores = results.score_regions(labelled)
    grid = plots.draw_bars(scores)
    check_layout(grid.figure)
    assert list(grid.axes_dict) == ["in distribution", "out of distribution"]
    axes = grid.axes_dict["in distribution"]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["NoPE, not learned", "Abacus"]
    seeds = scores.query("region == 'in distribution' and row == 'addition_nope'")["accuracy"]
    bars = sorted(axes.patches, key=lambda patch: patch.get_y())
    assert bars[0].get_width() == pytest.approx(seeds.mean())
    ends = [line.get_xdata() for line in axes.lines if len(line.get_xdata()) == 2]
    assert any(np.allclose(sorted(pair), seed_interval(seeds)) for pair in ends)
    dots = sum(len(dots.get_offsets()) for dots in axes.collections)
    assert dots == 2 * 3


def test_a_row_that_has_not_learned_is_pale(labelled):
    colors = plots.choose_colors(labelled)
    assert colors["Abacus"] == style.COLORS["Abacus"]
    assert colors["NoPE, not learned"] != to_hex(style.COLORS["NoPE"])


def test_stated_values_are_marked_where_the_paper_has_them(labelled):
    scores = results.score_regions(labelled)
    grid = plots.draw_bars(scores, stated={("addition_abacus", "out of distribution"): 0.929})
    marks = {
        panel: [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "D"]
        for panel, axes in grid.axes_dict.items()
    }
    assert marks == {"in distribution": [], "out of distribution": [0.929]}


def test_lines_have_each_seed_and_their_median(labelled):
    scores = results.score_lengths(labelled)
    grid = plots.draw_lines(scores, x="digits", shade=True)
    check_layout(grid.figure)
    lines = [line for line in grid.ax.lines if len(line.get_xdata()) == 12]
    assert len(lines) == 2 * 3 + 2
    median = scores.groupby(["row", "digits"])["accuracy"].median()
    drawn = [line.get_ydata().tolist() for line in lines]
    for row in ROWS:
        assert median[row].tolist() in drawn
    assert "NoPE, not learned" in texts(grid.figure) and "to 10" in texts(grid.figure)


def test_a_median_ends_where_the_first_seed_has_stopped():
    table = curves(["addition_nope"]).assign(label="NoPE")
    grid = plots.draw_lines(table, x="step", y="loss", percent=False)
    ends = sorted(line.get_xdata()[-1] for line in grid.ax.lines if len(line.get_xdata()))
    assert ends == [1200, 1200, 1500, 1500]


def test_heatmaps_are_pixels_of_the_pairs(labelled, tmp_path):
    pairs = results.score_pairs(labelled)
    grid = plots.draw_heatmaps(pairs)
    check_layout(grid.figure)
    square = grid.axes_dict["NoPE, not learned"].get_images()[0].get_array()
    cell = pairs.query("row == 'addition_nope' and i == 11 and j == 3")
    assert square[10, 2] == cell["accuracy"].item()  # row i, column j
    svg = style.save_figure(grid.figure, "heatmaps", pairs, tmp_path)
    assert svg.stat().st_size < 200_000 and "data:image/png" in svg.read_text()


def test_noise_of_a_processor_changes_no_figure(labelled, tmp_path):
    scores = results.score_lengths(labelled).assign(rest=0.0)
    files = []
    for noise in (0, 1e-12):
        noisy = scores.assign(accuracy=scores["accuracy"] * (1 - noise), rest=noise / 1e4)
        grid = plots.draw_lines(noisy, x="digits", shade=True)
        svg = style.save_figure(grid.figure, "lines", noisy, tmp_path)
        files.append([path.read_bytes() for path in (svg, svg.with_suffix(".parquet"))])
    assert files[0] == files[1]


def test_sizes_that_are_not_scored_stay_empty_in_heatmaps(labelled):
    pairs = results.score_pairs(labelled).query("not 6 <= i <= 7")
    for axes in plots.draw_heatmaps(pairs).axes.flat:
        image = axes.get_images()[0]
        assert image.get_extent() == [0.5, 12.5, 0.5, 12.5] and image.get_array().shape == (12, 12)
        assert np.isnan(np.ma.filled(image.get_array(), np.nan)).all(axis=1).tolist() == [
            i in (6, 7) for i in range(1, 13)
        ]


def test_dots_have_a_bar_for_the_median():
    table = pd.DataFrame({"change": ["a"] * 3 + ["b"] * 3, "times": [1, 2, 5, 4, 4, 9]})
    grid = plots.draw_dots(table, x="times", y="change")
    bars = [path.vertices[0, 0] for lines in grid.ax.collections for path in lines.get_paths()
            if len(path.vertices) == 2]  # fmt: skip
    assert bars == [2, 4]


@pytest.mark.parametrize("draw", [
    plots.draw_bars,
    plots.draw_heatmaps,
    partial(plots.draw_lines, x="i"),
    partial(plots.draw_dots, x="i", y="j"),
    panels.draw_columns,
    panels.draw_answer_kinds,
    partial(panels.draw_curves, x="i", y="j", hue="label", dash="label", dashes={}),
    partial(matrices.draw_matrices, x="i", y="j", value="accuracy", title="", col="label"),
    attention_maps.draw_attention_shares,
    partial(attention_maps.draw_attention_maps, tokens=None, height=2),
    ranges.draw_ranges,
])  # fmt: skip
def test_an_empty_table_gives_no_figure(draw, labelled):
    assert draw(labelled.iloc[:0]) is None


@pytest.fixture
def notebook(monkeypatch, tmp_path, labelled):
    """Return a notebook whose tables are made up."""
    table = labelled.drop(columns=["label", "learned"])
    table["scale"] = table["row"].map(SCALES)
    tables = results.ResultTables(results.create_empty_table, cells=table)
    runs = {
        pair: load_run(pair[0]).model_copy(update={"scale": pair[1]}) for pair in SCALES.items()
    }
    monkeypatch.setattr(results, "read_runs", lambda: runs)
    monkeypatch.setattr(results, "open_results", lambda: tables)
    monkeypatch.setattr(shared.paths, "REPORTS", tmp_path / "reports")
    monkeypatch.setattr(shared, "display", lambda *_, **__: None)
    monkeypatch.setenv("CARRY_NOTEBOOK", "mcleish2024/how_far")
    return plots.open_notebook("mcleish2024/how_far")


def test_a_notebook_reads_rows_in_order_and_names_those_without_results(notebook, capsys):
    table = notebook.read("cells", "addition_abacus", "addition_abacus_looped_8", "addition_nope")
    assert results.list_rows(table) == ["addition_abacus", "addition_nope"]
    assert list(dict.fromkeys(table["label"])) == ["Abacus", "NoPE, not learned"]
    printed = "Without results: addition_abacus_looped_8 (scale gpu).\n"
    assert capsys.readouterr().out == printed + "Results of earlier settings: addition_abacus.\n"
    assert {row: run.scale for row, run in notebook.runs.items()} == SCALES
    assert set(notebook.tabulate_departures().columns) >= {"model", "optimizer", "size"}


def test_a_notebook_reads_rows_of_another_scale_with_the_labels_of_that(notebook, monkeypatch):
    other = notebook.tables["cells"].assign(scale="long", exact=0)
    tables = {"long": results.ResultTables(results.create_empty_table, cells=other)}
    monkeypatch.setattr(results, "open_results", tables.__getitem__)
    table = notebook.read("cells", "addition_abacus", scale="long")
    assert set(table["scale"]) == {"long"}
    assert set(table["label"]) == {"Abacus, not learned"}


def test_a_figure_is_saved_with_its_numbers_and_texts_and_twice_as_the_same_bytes(
    notebook, monkeypatch
):
    shown = []
    monkeypatch.setattr(shared, "display", lambda *parts, **_: shown.append(parts[-1].data))
    scores = results.score_regions(notebook.read("cells", *ROWS))
    saved = []
    for _ in range(2):
        np.random.seed(0)  # as `open_notebook` does
        grid = plots.draw_bars(scores)
        notebook.show(
            grid, "bars", scores, title="Bars", caption="Two\n  rows.", answers=["Fig. 2"]
        )
        files = [notebook.folder / f"bars.{end}" for end in ("svg", "parquet", "json")]
        saved.append([file.read_bytes() for file in files])
        assert not matplotlib.pyplot.fignum_exists(grid.figure.number)
    assert saved[0] == saved[1]
    read = pd.read_parquet(notebook.folder / "bars.parquet")
    pd.testing.assert_frame_equal(read, scores, check_dtype=False, rtol=1e-5)
    assert 500 < len(saved[0][0]) < 1_500_000 and str(notebook.folder).encode() not in saved[0][0]
    caption, _, origin = shown[0].split("\n")
    assert caption == json.loads(saved[0][2])["caption"] and shown[1] == shown[0]
    assert origin == (
        "`carry figures mcleish2024` draws it; "
        "`git log -1 reports/figures/mcleish2024/how_far/bars.svg` has its commit."
    )
    assert json.loads(saved[0][2]) == {
        "notebook": "mcleish2024/how_far",
        "number": 1,
        "name": "bars",
        "title": "Bars",
        "caption": "Two rows. Results of the scale `long`: addition_abacus.",
        "answers": ["Fig. 2"],
    }


def test_figures_are_listed_however_they_are_shown_in_the_order_of_the_notebook(notebook, tmp_path):
    texts = {"title": "A", "caption": "B."}
    notebook.show(figure=None, name="last", table=pd.DataFrame(), **texts)
    name = "a computed " + "name"
    notebook.show(None, name, pd.DataFrame(), "A", "B.", ("cho2025 Fig. 3",))
    listed = index.list_figures(tmp_path)
    assert list(listed) == ["last", name]
    assert {file.suffix for file in notebook.folder.iterdir()} == {".json"}  # without a figure
    assert listed[name] == ("mcleish2024/how_far", 2, name, "A", "B.", (("cho2025", "Fig. 3"),))


def test_a_notebook_that_does_not_run_as_a_stage_saves_nothing(notebook, monkeypatch):
    """In JupyterLab, or as a copy, which says the name of its original."""
    table = results.score_regions(notebook.read("cells", *ROWS))
    for running in ("", "mcleish2024/how_far-Copy1"):
        monkeypatch.setenv("CARRY_NOTEBOOK", running)
        notebook.show(plots.draw_bars(table), "bars", table, title="A", caption="B.")
        assert not notebook.folder.exists()


def test_two_figures_have_two_names(notebook, tmp_path, monkeypatch):
    for name in ("cho2025/a", "cho2025/b"):
        monkeypatch.setenv("CARRY_NOTEBOOK", name)
        plots.open_notebook(name).show(None, "x", pd.DataFrame(), "A", "B.")
    with pytest.raises(SettingsError, match="cho2025/b: figure 'x' is in cho2025/a too; expected"):
        index.list_figures(tmp_path)


def test_a_damaged_entry_is_named(notebook, tmp_path):
    notebook.show(None, "x", pd.DataFrame(), "A", "B.")
    entry = notebook.folder / "x.json"
    whole = entry.read_text()
    for damaged in ("<<<<<<< HEAD\n" + whole, "[]", '{"name": "x"}', whole.replace("title", "t")):
        entry.write_text(damaged)
        with pytest.raises(
            SettingsError, match=r"^reports/figures/\S+/x\.json: damaged .* `carry figures` writes"
        ):
            index.list_figures(tmp_path)


def test_rows_of_equal_values_can_be_one_grey_line(labelled):
    scores = results.score_lengths(labelled).assign(learned=True)
    scores = plots.merge_rows(scores, ROWS, "both")
    grid = plots.draw_lines(scores, "digits", dashes={"both": (2, 2)})
    thin = [line for line in grid.ax.lines if line.get_linewidth() == 0.7]
    assert len(thin) == scores["seed"].nunique() == len(ROWS) * labelled["seed"].nunique()
    assert {to_hex(line.get_color()) for line in thin} == {style.OTHER_COLOR}
    (handle,) = grid.figure.legends[0].legend_handles
    assert handle.get_label() == "both" and handle.is_dashed()


@given(st.lists(st.sampled_from(["a", "few words", "to 5 (1 to 4 and 6)", "not learned"])))
def test_a_title_breaks_at_spaces_outside_of_parentheses(parts):
    title = ", ".join(parts)
    lines = style.wrap_title(title, 12).split("\n")
    assert " ".join(lines) == title
    assert all(line.count("(") == line.count(")") for line in lines)
