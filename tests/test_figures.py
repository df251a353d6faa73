"""What is drawn is what the tables say, it is drawn the same each time, and told apart by all."""

import io
import itertools

import matplotlib
import matplotlib.colors
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from carry import positions
from carry.config import paths, run_settings
from carry.config.settings import SettingsError, list_modules
from carry.data import problem_sets
from carry.evaluation import recurrences as written
from carry.evaluation.scoring import score_system
from carry.interpretability import attention as inside
from carry.interpretability.majority_constructions import majority_range as majority_by_hand
from carry.models.constructions.adder import adder
from carry.plots import (
    accuracy,
    by_hand,
    cho2025,
    counted,
    errors,
    fraknoi2024,
    gallery,
    heatmaps,
    load,
    numbering,
    recurrences,
    regions,
    style,
    theorem,
)
from carry.plots import attention as attention_drawn
from carry.plots import curves as learning
from carry.plots.entry import listed
from made_up import (
    REACH,
    WRITTEN,
    answers,
    attention,
    cells,
    certificates,
    circuit_bits,
    circuit_steps,
    curves,
    heads,
    limits,
    majority_range,
    paper_cells,
    places,
    results,
    sharpness,
    tokens,
    variants,
    widths,
)
from made_up import recurrences as made_recurrences
from made_up import tables as made_up_tables

matplotlib.use("Agg")
pytestmark = pytest.mark.usefixtures("closed_figures")
ROWS = ["addition_nope", "addition_abacus", "addition_coupled", "addition_relative"]


PAPER = {name: of for name, of in gallery.FIGURES.items() if of.rows}
SIZES = pd.DataFrame({"layers": [4, 2, 1], "recurrences": [1, 2, 4], "weights": [9e6, 5e6, 3e6]})


def some_rows(share):
    """Return all rows that entries of papers name, or some of them, beside those of ROWS."""
    named = dict.fromkeys(row for of in PAPER.values() for row in (*of.wanted(), *of.beside))
    shown = {"all": list(named), "some": list(named)[::3], "none": []}[share]
    return list(dict.fromkeys(ROWS + shown if share != "none" else ROWS[2:]))


@pytest.fixture(scope="module")
def shares():
    """Return the tables of a profile that has all rows of the papers, some, or none of them."""
    return {
        share: made_up_tables(some_rows(share), grid=22)._replace(sizes=SIZES)
        for share in ("all", "some", "none")
    }


@pytest.fixture(scope="module")
def tables():
    more = {"sizes": SIZES, "footing": footing(), "widths": widths(), "sharpness": sharpness()}
    more |= {"majority_range": majority_range(), "circuit_steps": circuit_steps()}
    more |= {"circuit_bits": circuit_bits(), **variants()}
    more |= {"certificates": certificates(), "limits": limits()}
    written = cells(ROWS), places(ROWS), curves(ROWS), made_recurrences([]), answers([])
    return load.Tables(*written, **more)


def check_layout(figure):
    """No label is cut off, and no panel is empty."""
    figure.draw_without_rendering()  # a figure that was closed has a canvas that draws nothing
    box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()  # of all that shows
    assert box.x0 > -0.01 and box.x1 < width + 0.01
    assert box.y0 > -0.01 and box.y1 < height + 0.01
    for axes in figure.axes:
        assert axes.has_data() or axes.patches or axes.texts


# Entries of no rows, or of some that `tables` has: the others only say which rows are not there,
# all alike. Many of those are drawn twice, with their rows, further down and in test_lengths.py and
# test_inside_figures.py.
TWICE = [name for name, of in gallery.FIGURES.items() if not of.rows or {*of.wanted()} & {*ROWS}]


@pytest.mark.parametrize("name", TWICE)
def test_two_drawings_are_the_same_bytes_and_the_csv_is_the_table(name, tables, tmp_path):
    for folder in ("one", "two"):
        figure, table = gallery.write(name, tables, tmp_path / folder)
    check_layout(figure)
    for ending in ("svg", "png", "csv"):
        one, two = (tmp_path / folder / f"{name}.{ending}" for folder in ("one", "two"))
        assert one.read_bytes() == two.read_bytes()
        assert one.stat().st_size > 20
    read = pd.read_csv(tmp_path / "one" / f"{name}.csv", dtype={"start": str, "seed": str})
    expected = table.astype({c: str for c in ("start", "seed") if c in table})
    pd.testing.assert_frame_equal(read, expected, check_dtype=False, rtol=1e-5)
    assert str(tmp_path) not in (tmp_path / "one" / f"{name}.svg").read_text()


def texts(figure):
    """Return all that is said in a figure, in one line."""
    said = [text.get_text() for text in figure.findobj(matplotlib.text.Text)]
    return " ".join(" ".join(said).split())


# All but the one answer, which is shown whole, and what is no count: means, outputs, weights.
NO_COUNTS = (
    "answers", "attention", "heads", "curves", "outputs", "by_hand", "spectrum", "circles", "looks",
)  # fmt: skip
MEANS = {name for name, of in PAPER.items() if of.table in NO_COUNTS}


@pytest.mark.usefixtures("every_row")
@pytest.mark.parametrize("share", ["all", "some", "none"])
@pytest.mark.parametrize("name", PAPER)
def test_an_entry_draws_the_rows_that_are_there_and_names_those_that_are_not(name, share, shares):
    of, here = PAPER[name], shares[share]
    figure, table = gallery.draw(name, here)
    check_layout(figure)
    drawn = of.chosen(here)
    missing = [row for row in of.wanted() if row not in some_rows(share)]
    caption = gallery.caption(name, here)
    assert of.source in caption and listed(missing) in caption
    assert ("Not in this profile" in caption) == bool(missing)
    assert ("the first id of a number" in texts(figure)) == (
        name == "sums_by_format" and any(drawn)
    )
    if not drawn:
        (text,) = figure.axes[0].texts
        assert set(table["needs"]) >= set(missing)
        words = text.get_text().split()
        assert listed(table["needs"].tolist()) in " ".join(words)
        assert words[-1] == f"PROFILE={of.profile}"
        assert (of.source or of.title) in " ".join(words)
    elif of.table == "cells":
        assert set(table["row"]) == set(drawn)
        assert ("worst cell" in texts(figure)) == ("worst cell" in of.caption)
        assert {"n", "low", "high", "trained"} <= set(table)
    if share == "all":
        assert set(of.wanted()) <= set(drawn)
        if name not in MEANS:
            assert {"n", "low", "high"} <= set(table) and {"seed", "seeds"} & set(table)
            assert (table["low"] <= table["high"]).all()
    if share == "none":
        assert not drawn or {*of.wanted()} & {*ROWS[2:]}


def test_rows_that_were_trained_to_other_lengths_stand_in_other_groups(tables):
    short = paper_cells(["addition_nope_short", "addition_abacus_short"])
    figure, table = regions.by_region(pd.concat([tables.cells, short]))
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels[:3] == ["trained to 5 digits, tested to 30", "NoPE, short", "Abacus, short"]
    assert labels[3] == "trained to 10 digits, tested to 30" and len(labels) == 4 + len(ROWS)
    assert set(table["trained"]) == {5, 10}
    less = (short["row"] == "addition_nope_short") & (short[["i", "j"]].max(axis=1) > 15)
    figure, _ = regions.by_region(short[~less])  # nor where they are tested to other lengths
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels[0] == "trained to 5 digits, tested to 15" and len(labels) == 4


def trained_to(tables, lengths):
    """Return tables whose rows were trained to other lengths than their names say."""
    trained = tables.cells["row"].map(lengths).fillna(tables.cells["trained"]).astype(int)
    return tables._replace(cells=tables.cells.assign(trained=trained))


def test_a_short_row_is_drawn_where_it_was_trained_as_far_as_another():
    of = gallery.FIGURES["scheme_by_region"]
    usual, short = ["addition_nope", "addition_abacus"], "addition_abacus_short"
    here = made_up_tables([*usual, short], grid=12)
    assert of.chosen(here) == usual
    assert of.chosen(trained_to(here, {usual[0]: 5})) == [usual[0], short]


def test_a_comparison_needs_two_that_were_trained_alike_or_two_short_ones():
    loops, pairs = (gallery.FIGURES[name] for name in ("loops_by_region", "random_padding"))
    alone = made_up_tables(["addition_abacus_looped", "addition_nope_noise"], grid=12)
    assert not loops.chosen(alone) and not pairs.chosen(alone)
    short = ["addition_abacus_injected_short", "addition_abacus_looped_short"]
    assert loops.chosen(made_up_tables(["addition_abacus_looped", *short], grid=12)) == short
    rows = ["addition_abacus", "addition_abacus_short", "addition_abacus_noise", "addition_fire"]
    both = made_up_tables(rows, grid=12)
    assert pairs.chosen(both) == [rows[0], rows[2]]
    assert pairs.chosen(trained_to(both, {rows[2]: 5})) == rows[1:3]


def test_what_the_paper_states_is_drawn_beside_what_is_like_it(shares):
    _, table = gallery.draw("sorting_schemes", shares["all"])
    of = table.query("row == 'sorting_abacus' and seed == 'all'").set_index("region")["stated"]
    assert of["10 numbers\nof 30 digits"] == 0.6863 and of.isna().sum() == 1
    _, table = gallery.draw("scheme_by_region", shares["all"])  # trained to 10 digits, not to 20
    assert table["stated"].isna().all()
    _, table = gallery.draw("weights", shares["all"])
    assert table["stated"].tolist() == [122e6, 64e6, 34e6]


def test_regions_beyond_the_grid_say_their_lengths_and_a_row_has_all_of_one_or_nothing():
    here = pd.concat([cells(["addition_relative"], grid=30), paper_cells(ROWS[:2])])
    table = regions.region_table(here)
    assert list(dict.fromkeys(table["region"])) == [
        "in distribution", "out of distribution", "31 to 32 digits", "33 to 35 digits",
        "100 digits", "1,000 digits",
    ]  # fmt: skip
    pooled = table[table["seed"] == "all"]
    of = pooled[pooled["region"] == "31 to 32 digits"]
    assert set(of["row"]) == set(ROWS[:2]) and set(of["n"]) == {2 * 2 * 10}
    assert set(pooled[pooled["region"] == "33 to 35 digits"]["row"]) == {"addition_nope"}
    unlike = here.assign(j=here["j"].mask(here["i"] == 100, 7))
    assert "100 x 7 digits" in set(regions.region_table(unlike)["region"])


def test_hits_may_be_counted_in_another_column_that_some_rows_lack(shares):
    here = shares["all"]
    table = regions.region_table(here.cells[here.cells["row"] != "addition_nope"], "digits_right")
    assert set(table["row"]) == set(gallery.FIGURES["hints_left_out"].wanted())
    assert (table["digits_right"] <= table["n"]).all()


def test_training_lengths_are_compared_on_the_same_problems(shares):
    rows = ["addition_abacus_short", "addition_abacus"]
    here = shares["all"].of(rows).cells
    known = (here["start"] == "1") & (here["i"] <= here["trained"]) & (here["set"] == "grid")
    here = here.assign(exact=here["exact"].mask(known, here["exact"] // 2))
    assert load.starts(here)["addition_abacus"] == "middle"  # or the next would prove little
    _, table = regions.by_training_length(here, dict.fromkeys(rows, "addition_abacus"))
    same = table[
        (table["region"] == "11 to 22 digits,\nthe same for all") & (table["seed"] == "all")
    ]
    assert set(same["trained"]) == {5, 10} and same["n"].nunique() == 1
    usual = table.query("region == 'out of distribution' and seed == 'all' and trained == 10")
    columns = ["row", "start", "n", "exact"]
    assert usual[columns].values.tolist() == same.query("trained == 10")[columns].values.tolist()


def test_one_answer_is_that_of_the_row_that_is_looped_most_often():
    made = answers(["addition_abacus_looped", "addition_abacus_looped_8"])
    figure, table = recurrences.of_a_problem(made)
    assert set(table["row"]) == {"addition_abacus_looped_8"}
    image = figure.axes[0].get_images()[0].get_array()
    wrong = table[table["said"] != table["due"]]
    assert image.sum() == len(wrong) and image.shape == (16, 21)
    assert [image[of.recurrence - 1, of.slot] for of in wrong.itertuples()] == [1] * len(wrong)


def test_a_long_answer_goes_on_in_another_panel():
    figure, table = recurrences.of_a_problem(answers(["addition_abacus_looped"], digits=130))
    images = [axes.get_images()[0].get_array() for axes in figure.axes]
    assert len(images) == 3 and sum(image.shape[1] for image in images) == 131
    assert sum(image.sum() for image in images) == (table["said"] != table["due"]).sum()
    check_layout(figure)
    check_layout(recurrences.of_a_problem(answers(["addition_abacus_looped"], digits=3))[0])


def test_optional_tables_have_the_columns_that_evaluation_writes():
    system, names = adder(2, 2), ["row", "profile", "seed"]
    drawn = problem_sets.ProblemSet.parse({"task": system.run.task, "equal": 1, "longest": 2}, "x")
    steps = score_system(system, problem_sets.draw_problem_set("mine", drawn))[2]
    looked = inside.look(system, (2, 2), dict.fromkeys(names), count=2)
    tables = {name: [*of.columns] for name, of in looked.items()}
    tables["tokens"] = [name for name in tables["tokens"] if "level" not in name]  # as many as are
    tables |= {"recurrences": written.RECURRENCES, "answers": written.ANSWERS}
    tables["steps"] = [*steps.columns]  # those of analyses: see their own tests
    assert tables == {name: load.OPTIONAL[name] for name in tables}


def test_places_by_recurrence_are_means_over_seeds():
    made = made_recurrences(["addition_abacus_looped_4"])
    figure, table = recurrences.by_place(made)
    image = figure.axes[0].get_images()[0].get_array()
    own = made.query("digits == 20 and recurrence == 2 and place == 7")
    assert image[1, 7] == own["accuracy"].mean() and set(table["seeds"]) == {2}
    assert set(table["digits"]) == {20} and table["place"].min() == 0


def test_every_entry_of_a_notebook_is_drawn_once():
    names = [name for of in gallery.NOTEBOOKS.values() for name in of.entries]
    assert len(names) == len(set(names)) == len(gallery.FIGURES)
    for folder, of in gallery.NOTEBOOKS.items():
        source = paths.ROOT / "notebooks" / f"{of.source}.ipynb"
        text = source.read_text()
        drawn = [name for name in gallery.FIGURES if f'gallery.write(\\"{name}\\", ' in text]
        assert set(drawn) == set(of.entries), folder
        assert f'\\"figures\\", \\"{folder}\\")' in text


def test_every_figure_and_table_of_the_papers_is_in_the_gallery():
    sources = {of.source for of in gallery.FIGURES.values()}
    wanted = [f"mcleish2024, Fig. {n}" for n in range(1, 20)]
    wanted += [f"mcleish2024, Table {n}" for n in range(1, 4)]
    wanted += [f"cho2025, Fig. {n}" for n in range(1, 15) if n != 7]
    wanted += ["cho2025, Fig. 7a", "cho2025, Fig. 7b"]
    assert [name for name in wanted if name not in sources] == []


def test_regions_are_recounted_from_the_cells(tables):
    table = regions.region_table(tables.cells)
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


def test_a_start_is_not_chosen_for_a_few_sums_more():
    def share(row, longest, seed, start):
        return 0.995 if start == "1" and longest == 10 and seed == 0 else 1.0

    near = cells(["addition_abacus"], grid=20, share=share)
    right = near[near["i"] <= 10].groupby("start")["exact"].sum()
    assert right["middle"] > right["1"] and load.starts(near) == {"addition_abacus": "1"}
    alone = near[near["start"] == "middle"]
    assert load.starts(alone) == {"addition_abacus": "middle"}


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


@pytest.fixture(scope="module")
def stepped():
    """Return tables of the rows of cho2025's Fig. 1 and 3, and what is set by hand."""
    made = {"attention": attention, "heads": heads, "tokens": tokens}
    by_hand = {name: of([load.BY_HAND], seeds=1) for name, of in made.items()}
    return made_up_tables([*cho2025.ADDED, *cho2025.PARITY], grid=13).beside(by_hand)


@pytest.mark.parametrize("name", fraknoi2024.GROKS)
def test_pictures_of_modular_addition_are_the_same_bytes(name, shares, tmp_path):
    for folder in ("one", "two"):
        check_layout(gallery.write(name, shares["all"], tmp_path / folder)[0])
    for ending in ("svg", "png", "csv"):
        one, two = (tmp_path / folder / f"{name}.{ending}" for folder in ("one", "two"))
        assert one.read_bytes() == two.read_bytes() and one.stat().st_size > 500


def test_phases_are_shaded_where_each_seed_comes_to_them(shares):
    figure, table = gallery.draw("grokking", shares["all"])
    ends = table.groupby("seed")[["memorised", "formed"]].first()
    assert (ends["memorised"] < ends["formed"]).all()
    for column, seed in enumerate(ends.index):
        spans = [of.get_x() for of in figure.axes[column].patches]
        assert spans == [0, *ends.loc[seed]]


DRAWN_OF_STEPS = ["sums_by_sizes", "sums_spread", "parity_by_length", "sums_by_step"]
DRAWN_OF_STEPS += ["attention_with_steps", "attention_shares"]


@pytest.mark.parametrize("name", DRAWN_OF_STEPS)
def test_pictures_of_steps_and_heads_are_the_same_bytes(name, stepped, tmp_path):
    for folder in ("one", "two"):
        check_layout(gallery.write(name, stepped, tmp_path / folder)[0])
    for ending in ("svg", "png", "csv"):
        one, two = (tmp_path / folder / f"{name}.{ending}" for folder in ("one", "two"))
        assert one.read_bytes() == two.read_bytes() and one.stat().st_size > 500


def test_medians_and_ranges_are_those_of_the_seeds(stepped):
    row = "multi_operand_addition_coupled_scratchpad"
    own = stepped.cells[(stepped.cells["row"] == row) & (stepped.cells["set"] == "grid")]
    figure, table = gallery.draw("sums_by_sizes", stepped)
    of = table[table["row"] == row].set_index(["i", "j"])
    by_cell = own.groupby(["i", "j"])["accuracy"]
    assert of["median"].to_dict() == by_cell.median().to_dict()
    assert of["lowest"].to_dict() == by_cell.min().to_dict()
    assert of["highest"].to_dict() == by_cell.max().to_dict()
    worst = by_cell.median().idxmin()
    ends = [round(100 * of.loc[worst, name]) for name in ("median", "lowest", "highest")]
    said = f"worst cell {ends[0]}% ({ends[1]} to {ends[2]})"
    assert [said in axes.get_title() for axes in figure.axes[:6]][5]
    image = figure.axes[5].get_images()[0]
    assert image.get_array().shape == (13, 12)  # i from 1 on, j from 2
    assert image.get_extent() == [1.5, 13.5, 0.5, 13.5]
    assert image.get_array()[7, 3] == of.loc[(8, 5), "median"]
    frame = figure.axes[5].patches[-1]
    assert (frame.get_x(), frame.get_y()) == (1.5, 0.5)
    assert (frame.get_width(), frame.get_height()) == (9, 10)  # to 10 operands of 10 digits
    spread = gallery.draw("sums_spread", stepped)[1]
    assert (spread["spread"] == spread["highest"] - spread["lowest"]).all()


def test_an_answer_is_counted_in_three_ways(stepped):
    table = counted.ways(stepped.cells, stepped.places)
    assert list(dict.fromkeys(table["counted"])) == list(counted.COUNTED)
    rows = load.rows(stepped.cells)
    for (way, row), part in table.groupby(["counted", "row"]):
        own = stepped.cells.query("row == @row and set == 'equal'")
        last = stepped.places.query("row == @row and place == digits")
        steps = "scratchpad" in row
        right = {"given": last["correct"], "whole": own["exact"]}
        right["decoded"] = own["digits_right" if steps else "exact"]
        assert sorted(part["right"]) == sorted(right[way].astype(int))
        assert (part["accuracy"] == part["right"] / part["n"]).all()
    assert load.rows(table[table["counted"] == "whole"]) == rows
    together = counted.ways(stepped.cells, stepped.places, width=5)
    assert {5, 10, 15} <= set(together["digits"]) <= {*range(5, 31, 5)}
    for column in ("n", "right"):
        assert together[column].sum() == table[column].sum()


def test_first_errors_by_step_add_up_to_all_responses_with_one(stepped):
    _, table = gallery.draw("sums_by_step", stepped)
    added = table.groupby(["row", "seed", "digits"])[["first", "first_wrong"]].sum()
    assert set(table["digits"]) == {10, 13} and (added["first"] <= 1).all()
    lost = stepped.steps.groupby(["row", "seed", "digits"])["first_wrong"].sum()
    assert added["first_wrong"].to_dict() == lost.loc[added.index].to_dict()
    assert (table["first_low"] <= table["first"]).all()
    assert (table["first"] <= table["first_high"]).all()


def test_maps_show_the_heads_that_look_most_at_what_they_need(stepped):
    figure, table = gallery.draw("attention_with_steps", stepped)
    row = "multi_operand_addition_coupled_scratchpad"
    drawn = table[["row", "seed", "layer", "head"]].drop_duplicates()
    best = {(layer, head) for layer in (0, 1) for head in (1, 2)}
    assert set(map(tuple, drawn.query("row == @row")[["layer", "head"]].values)) == best
    assert set(drawn["seed"]) == {0} and set(drawn["row"]) == {row, load.BY_HAND}
    titles = [axes.get_title(loc="left") for axes in figure.axes[:8]]
    assert [title.startswith("Theorem") for title in titles] == [False, True] * 4
    assert (table["weight"] >= 0.01).all() and (table["query"] >= WRITTEN.index("=")).all()
    image = figure.axes[0].get_images()[0].get_array()
    assert image.shape == (WRITTEN.count("") - 2 - WRITTEN.index("="), len(WRITTEN))
    assert image.mask[0, 2] and image[0, 0] == table["weight"].iloc[0]  # black where it is less
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == list(WRITTEN)


def test_shares_of_attention_are_those_of_every_head(stepped):
    figure, table = gallery.draw("attention_shares", stepped)
    assert load.rows(table)[0] == load.BY_HAND
    sums = table.groupby(["row", "seed", "layer", "head"])["share"].sum()
    assert sums.sub(1).abs().max() < 1e-9
    bars = [patch for patch in figure.axes[1].patches if patch.get_width() > 0]
    assert len(bars) <= 2 * 2 * 3 * 5 and set(attention_drawn.NEEDED) == set(inside.NEEDED)


# What cho2025 draws in its Fig. 2, 4 and 8, by task: tokens, and ids by level.
DRAWN = {
    "parity": (["1010"], "0101=0110", ["234512345"]),
    "multi_operand_addition": (
        [57, 48, 96],
        "057+048+096=000>750>501>102",
        ["432143214321234123412341234", "111122223331111222233334444"],
    ),
    "multiplication": (
        [37, 925],
        "37*925=581+470+333=58100>52900>52243",
        [
            "320000123412341234000000000000000000",
            "000321111122223333111111222222333333",
            "000000123423453456123456123456123456",
        ],
    ),
}


@pytest.mark.parametrize("task", DRAWN)
def test_steps_are_numbered_as_the_paper_draws_them(task):
    operands, signs, ids = DRAWN[task]
    figure, table = numbering.of_steps(task, *operands)
    check_layout(figure)
    for level, expected in enumerate(ids, start=1):
        part = table[table["level"] == level].iloc[1:-1]  # between the first token and the end
        assert "".join(part["token"]) == signs
        assert "".join(map(str, part["id"])) == expected
    assert set(numbering.STEPS) == set(DRAWN)


def test_where_there_is_no_grid_equal_lengths_choose_the_start():
    def share(row, longest, seed, start):
        return (0.9 if start == "middle" else 0.5) if longest <= 10 else start == "1"

    two = cells(["addition_abacus"], grid=20, share=share)
    assert load.starts(two[two["set"] == "equal"]) == {"addition_abacus": "middle"}


def test_what_is_made_by_hand_is_kept_beside_any_row(stepped):
    some = stepped.of(["parity_nope"])
    assert load.rows(some.cells) == ["parity_nope"] and load.rows(some.heads) == [load.BY_HAND]
    assert load.rows(load.empty().beside({"heads": some.heads}).heads) == [load.BY_HAND]


def test_rows_of_steps_are_called_by_what_they_are():
    names = {row: style.look(row).label for row in (*cho2025.ADDED, *cho2025.PARITY)}
    assert len(set(names.values())) == 8 and names["parity_rope_scratchpad"] == "RoPE, scratchpad"
    assert style.look("parity_relative_scratchpad").label == "Coupled read relatively, scratchpad"
    assert style.look("addition_relative").label == "Abacus read relatively"
    assert style.reached("multi_operand_addition_nope", 5) == "trained to 5 operands of 5 digits"


def test_the_least_scale_is_above_every_one_that_fails():
    part = sharpness().query("sequence == 20 and dtype == 'float32'")
    assert part["wrong"].tolist() == [50, 10, 0] and theorem.least(part) == 3.0
    gap = pd.DataFrame({"scale": [1.0, 2.0, 3.0, 4.0], "wrong": [5, 0, 1, 0]})
    assert theorem.least(gap) == 4.0


BY_HAND = ("majority_range", "circuit_steps", "circuit_bits")


@pytest.mark.parametrize("name", BY_HAND)
def test_what_only_a_notebook_adds_is_asked_for(name):
    figure, table = gallery.draw(name, load.empty())
    assert "as their notebook makes them" in texts(figure)
    check_layout(figure)
    assert len(table) == 1


def test_what_is_wrong_with_a_majority_by_hand_is_told_by_its_colour(tables):
    figure, table = gallery.draw("majority_range", tables)
    assert {"n", "low", "high"} <= set(table) and len(figure.axes) == 4
    told = table.assign(fault=by_hand.faults(table))
    of = told.query("length == 40 and dtype == 'float32' and threshold == 'thesis'")["fault"]
    assert [text.split(":")[0] for text in of] == ["N too small", "noise", "all right", "rounding"]
    drawn = figure.axes[0].collections[0].get_array().reshape(2, 4)
    assert [list(by_hand.FAULTS)[int(kind)] for kind in drawn[1]] == of.tolist()


def test_noise_is_borne_just_as_far_as_the_model_shows():
    """The formula agrees with the strings themselves, wherever nothing is lost in rounding."""
    larges, lengths = [3.0, 3.5, 4.0, 4.5, 5.0, 6.0], [1, 2, 3, 5, 8, 13, 21]
    found = majority_by_hand(larges, lengths, dtypes=["float64"])
    for threshold, part in found.groupby("threshold"):
        of = part["large"].to_numpy(), part["length"].to_numpy()
        borne = by_hand.bears(*of, mended=threshold == "mended")
        assert 0 < borne.sum() < len(part) and (borne == (part["ones"] == 0)).all()


def test_marks_stand_where_heads_look(tables):
    figure, table = gallery.draw("circuit_steps", tables)
    first, second = figure.axes[0].collections
    for marks, head in ((first, "first"), (second, "second")):
        shown = marks.get_offsets()[marks.get_sizes() > 0].tolist()
        assert shown == table.loc[table[head] > 0, ["wire", "step"]].values.tolist()
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert [label.split() for label in labels] == [
        ["w3", "=", "a", "and", "b", "→", "1"], ["w4", "=", "not", "w3", "→", "0"]
    ]  # fmt: skip


def test_numbers_that_are_refused_stand_at_the_right(tables):
    figure, table = gallery.draw("circuit_bits", tables)
    assert {"n", "low", "high"} <= set(table)
    labels = [label.get_text().split("\n")[0] for label in figure.axes[0].get_xticklabels()]
    assert labels == ["3", "2", "8"] and "refused" in texts(figure)
    shown = figure.axes[0].get_images()[0].get_array()
    assert shown.tolist() == [[0.0, 0.3, 0.3]] * 2


def test_ids_are_those_of_the_schemes():
    _, table = numbering.of_a_sum(653, 49)
    coupled = table[table["scheme"] == "coupled"]
    drawn = positions.drawn(positions.choose("coupled")(), "653", "49", pad=True,
                            reverse_operands=False)  # fmt: skip
    spelt = f"{' '.join(coupled['token'])} | {' '.join(map(str, coupled['id']))}"
    assert spelt == drawn
    assert set(table["scheme"]) == set(list_modules("carry.positions"))  # each has to be drawn


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
    monkeypatch.setattr(
        run_settings, "list_rows", lambda profile: rows
    )  # another row has left its files
    tables = load.tables("cpu")
    assert [load.rows(getattr(tables, name)) for name in load.WRITTEN[:3]] == [rows] * 3
    assert tables.answers.empty and list(tables.answers) == load.OPTIONAL["answers"]
    answers(["addition_rope"]).to_parquet(
        tmp_path / "reports/results/cpu/addition_rope/answers.parquet"
    )
    assert load.rows(load.tables("cpu").answers) == ["addition_rope"]
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


def footing():
    """Return made-up cells of the profile baselines, better the faster they learn."""
    parts = []
    for number, end in enumerate(("_slow", "", "_fast")):
        rows = [f"addition_{scheme}{end}" for scheme in ("nope", "fire", "abacus")]
        share = 0.2 + 0.3 * number
        part = cells(rows, trained=5, grid=7, each=4, share=lambda *_, share=share: share)
        parts.append(part.assign(rate=0.001 * 2**number))
    return pd.concat(parts, ignore_index=True)


def test_one_footing_has_every_seed_and_all_together(tables):
    figure, table = gallery.draw("one_footing", tables)
    plt.close(figure)
    assert set(table["seed"]) == {"0", "1", "2", "all"}
    whole = table[table["seed"] == "all"]
    assert len(whole) == 2 * 3 * 3 and set(whole["family"]) == {
        "addition_nope", "addition_fire", "addition_abacus"}  # fmt: skip
    assert ((whole["low"] <= whole["accuracy"]) & (whole["accuracy"] <= whole["high"])).all()
    rising = whole.groupby(["region", "family"])["accuracy"].apply(
        lambda of: of.is_monotonic_increasing
    )
    assert rising.all()


def test_committed_results_bring_their_learning_rates(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    assert load.committed("baselines").empty
    results(tmp_path, ["addition_fire_slow", "addition_fire_fast"], "baselines")
    rates = load.committed("baselines").groupby("row")["rate"].unique().map(list).to_dict()
    assert rates == {"addition_fire_slow": [0.001], "addition_fire_fast": [0.004]}
