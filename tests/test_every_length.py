"""What is drawn of models that carry on to every length is what the tables say."""

import matplotlib
import numpy as np
import pandas as pd
import pytest

from carry.analyses import local_adder
from carry.config.run_settings import load_run as settings
from carry.models.system import System
from carry.plots import adders, every_length, gallery, ingredients, load, reaches, style
from figure_checks import check_layout, texts
from made_up import VARIED, cells, certificates, limits, variants
from made_up import tables as made_up_tables

matplotlib.use("Agg")
pytestmark = pytest.mark.usefixtures("every_row", "closed_figures")
ENTRIES = {
    name: of
    for _, some in gallery.OWN_NOTEBOOKS["every_length"].values()
    for name, of in some.items()
}
ALONE = [name for name, of in ENTRIES.items() if of.rows]  # those that need rows
RELATIVE = "addition_relative"


@pytest.fixture(scope="module")
def tables():
    rows = dict.fromkeys(row for of in ENTRIES.values() for row in of.list_rows())
    more = {**variants(), "certificates": certificates(), "limits": limits()}
    return made_up_tables(list(rows), grid=14).with_tables(**more)


@pytest.mark.parametrize("name", ALONE[:2])
def test_a_profile_without_results_says_so_in_a_line(name):
    figure, table = gallery.draw_figure(name, made_up_tables(["sorting_fire"], grid=12))
    check_layout(figure)
    assert set(table) == {"needs"} and texts(figure).endswith("make repro PROFILE=full")


def test_tables_have_the_columns_that_analyses_write():
    found = local_adder.adder_tables(System(settings(RELATIVE, "cpu")))
    for name, table in found.items():
        assert set(load.create_empty_table(name)) == {"row", "profile", "seed", *table.columns}


def test_why_a_variant_fails(tables):
    """None is proved of what never learns; all that errs stops early, and looks elsewhere."""
    table = ingredients.explain_variants(tables)
    row = table.loc[("mine", "window", "none")]
    assert row["errors, 2x"] == "stopped early 100%" and row["attention near, 2x"] == "45%"
    assert row["certified"] == "3 of 3"
    assert table.loc[("mine", "depth", "none"), "certified"] == ""
    assert ingredients.explain_variants(load.create_empty_results()).empty


def test_no_part_of_a_sum_and_no_other_task_is_in_the_overview():
    assert gallery.select_overview_rows(every_length.RELATIVE) == [RELATIVE]
    assert set(gallery.OVERVIEW_ROWS) <= set(gallery.select_overview_rows(gallery.OVERVIEW_ROWS))


def test_rows_are_named_by_the_ids_that_are_read():
    labels = {row: style.choose_style(row).label for row in every_length.RELATIVE}
    assert labels["copying_relative"] == "Coupled read relatively"
    assert labels["addition_relative_carries"] == "Coupled read relatively, carries alone"
    assert labels["bitwise_or_relative"] == labels[RELATIVE] == "Abacus read relatively"


# ---- How far -------------------------------------------------------------------------------------


def test_the_longest_sums_of_one_seed_count_with_those_of_all(tables):
    figure, table = gallery.draw_figure("every_length_schemes", tables)
    of = table[table["row"] == RELATIVE].set_index(["digits", "seed"])["n"]
    near = tables["cells"].query("row == @RELATIVE and set == 'far' and i == 1000 and seed == 0")
    assert of[1000, 0] == near["n"].sum() + 50 and of[1000, 1] == near["n"].sum()
    assert of[100_000].to_dict() == {0: 10}
    axes = figure.axes[0]
    assert axes.get_xscale() == "log" and axes.get_xlim()[1] > 100_000
    assert "10 of 10 right, one seed" in texts(figure)


def test_names_stand_in_the_order_of_how_far_rows_go(tables):
    _, table = gallery.draw_figure("every_length_schemes", tables)
    figure, _ = reaches.draw_reach_by_length(
        tables.select_rows(["addition_nope", RELATIVE, "addition_coupled"])
    )
    (legend,) = [axes.get_legend() for axes in figure.axes]  # there is room beside the lines
    names = [text.get_text() for text in legend.get_texts()]
    assert names[0] == "Abacus read relatively (to 10): all at 100,000 digits, not tested further"
    assert names[1].startswith("Coupled (to 10)") and "not tested further" in names[1]
    nope = table[table["row"] == "addition_nope"].groupby("digits")["accuracy"].median()
    half = nope.index[nope >= 0.5].max()
    assert names[2] == f"NoPE, not learned (to 10): half right to {half} digits"


def test_names_stand_beside_lines_that_all_go_as_far():
    figure, _ = reaches.draw_reach_by_length(
        load.create_empty_results().with_tables(cells=cells(["addition_nope"]))
    )
    assert figure.axes[0].get_legend() is None and len(figure.legends) == 1
    check_layout(figure)


def test_a_row_that_is_never_half_right_is_last():
    part = pd.DataFrame({"row": "a", "digits": [1, 2], "accuracy": [0.2, 0.1]})
    assert reaches.describe_reach(part) == (0.0, "never half right")


def test_every_task_has_its_largest_sizes_with_counts_and_errors(tables):
    figure, table = gallery.draw_figure("every_length_tasks", tables)
    assert load.list_rows(table) == list(every_length.RELATIVE)
    assert set(table["problems"]) == {name for name, _ in reaches.PROBLEMS.values()}
    one = table[table["tokens"].notna()]
    assert len(one) == 2 * len(every_length.RELATIVE) and set(one["seeds"]) == {1}
    assert set(table.loc[table["tokens"].isna(), "seeds"]) == {2}
    wrong = table[table["problems"] == "products"]["wrong"].dropna()
    assert wrong.tolist() == [3, 3] and "1 of 10 wrong" in texts(figure)
    sizes = table.set_index("row")["size"]
    assert sizes["multiplication_relative_scratchpad"].iloc[-1] == "100,000 by 100,000 digits"


# ---- What buys it --------------------------------------------------------------------------------


def test_every_variant_of_every_group_has_a_line_below_its_heading(tables):
    figure, table = gallery.draw_figure("ingredients", tables)
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == [
        "mine: reference", "row", "mine: window", "none", "two places", "mine: depth", "none", "4",
        "yours: reference", "row", "yours: batch size", "32",
    ]  # fmt: skip
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["as long as in training", "twice as long", "100 times as long",
                      "until 99.9% right"]  # fmt: skip
    one = tables["variants"][tables["variants"]["variant_set"] == "yours"]
    figure, _ = ingredients.draw_variants(tables.with_tables(variants=one))
    assert figure.axes[0].get_yticklabels()[0].get_text() == "reference"


def test_variants_have_the_median_and_the_worst_of_their_seeds(tables):
    table = ingredients.score_variants(tables)
    for (*of, many), part in tables["variants"].groupby(
        ["variant_set", "group", "variant", "times"]
    ):
        keys = ["variant_set", "group", "variant", "times", "seed"]
        whole = table.set_index(keys).loc[(*of, many, "all")]
        assert whole["seeds"] == 3 and whole["n"] == part["n"].sum()
        if whole["n"]:
            assert whole["median"] == part["accuracy"].median()
            assert whole["worst"] == part["accuracy"].min()
        else:
            assert of == ["mine", "depth", "4"] and np.isnan(whole["median"])
    learned = table.query("seed == 'all' and times == 1").set_index(["group", "variant"])["learned"]
    assert learned["depth", "4"] == 2 and learned["depth", "none"] == 0
    own = table[table["seed"] == "1"]
    assert set(own["steps"].dropna()) == {150.0}


def test_the_table_says_what_cannot_be_asked_and_what_never_learns(tables):
    words = ingredients.summarise_variants(tables)
    assert len(words) == sum(len(of) for groups in VARIED.values() for of in groups.values())
    assert words.loc["mine", "depth", "4"].tolist() == [
        "95% (90%)", "95% (90%)", "not scored", "150 (2 of 3 seeds)"]  # fmt: skip
    assert words.loc["mine", "depth", "none"].tolist()[-1] == "never"
    assert words.loc["yours", "reference", "row"].tolist()[-1] == "150 (200)"
    assert ingredients.summarise_variants(load.create_empty_results()).empty


def test_seeds_of_a_variant_stand_beside_each_other_on_its_line(tables):
    figure, _ = gallery.draw_figure("ingredients", tables)
    dots = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert len(dots) == 7
    heights = dots[0].get_ydata()
    assert len(set(heights)) == 3 and abs(np.mean(heights) - 1) < 1e-9
    never = [line for line in figure.axes[-1].lines if line.get_marker() == "x"]
    assert sum(len(line.get_xdata()) for line in never) == 4


# ---- What it computes ----------------------------------------------------------------------------


def test_heads_are_ordered_by_their_share_on_the_place_just_written(tables):
    looked, lost = (
        gallery.draw_figure(name, tables)[1] for name in ("adder_looks", "adder_without")
    )
    first = looked[(looked["rank"] == 0) & (looked["seed"] == 0)]
    assert set(first["head"]) == {3}
    assert first.set_index("where")["share"].to_dict() == pytest.approx(
        {"the first token": 0.2, adders.BELOW: 0.3, "digits of the next place": 0.4, "itself": 0.1}
    )
    assert looked.groupby(["seed", "head"])["share"].sum().tolist() == pytest.approx([1.0] * 8)
    assert lost[lost["seed"] == 0]["head"].tolist() == [-1, 3, 2, 1, 0]
    assert (lost[["right", "carry", "other"]].sum(axis=1) == lost["n"]).all()
    assert set(lost["trained"]) == {10}


def test_bars_without_a_head_are_shares_of_all_contexts(tables):
    figure, _ = gallery.draw_figure("adder_without", tables)
    axes = figure.axes[0]
    said = [label.get_text() for label in axes.get_yticklabels()]
    assert said == ["all heads", "no head 4", "no head 3", "no head 2", "no head 1"]
    widths = [patch.get_width() for patch in axes.patches]
    assert widths[:5] == [1.0, 0.5, 0.5, 0.5, 0.5]  # right
    assert widths[5:10] == pytest.approx([0, 0.5, 5 / 60, 5 / 60, 5 / 60])  # wrong by a carry


def test_a_carry_is_counted_where_it_is_added_or_not(tables):
    figure, table = gallery.draw_figure("adder_carries", tables)
    assert len(figure.axes) == 1 + 2 + 1  # all seeds, each, and the bar
    titles = [axes.get_title() for axes in figure.axes[:3]]
    assert titles == ["mean of 2 seeds: changes at 5.0", "seed 0: changes at 4.5",
                      "seed 1: changes at 5.5"]  # fmt: skip
    at = table.set_index(["seed", "below", "written"])
    whole, own = at.loc[("all", 18, 0)], at.loc[("1", 18, 0)]
    assert whole["n"] == 10 and whole["contexts"] == 16 and whole["neither"] == 6
    assert own["accuracy"] == 1.0 and at.loc[("0", 5, 0), "accuracy"] == 1.0
    assert at.loc[("1", 5, 0), "accuracy"] == 0.0 and at.loc[("all", 5, 0), "accuracy"] == 0.5
    image = figure.axes[0].get_images()[0].get_array()
    assert image.shape == (10, 19) and image[0, 5] == 0.5  # d upwards, a + b to the right
    frames = [(of.get_x() + 0.5, of.get_y() + 0.5) for of in figure.axes[0].patches]
    assert len(frames) == 38 and (9, 0) in frames and (9, 9) in frames and (9, 1) not in frames


def test_differences_of_a_sum_have_four_values(tables):
    figure, table = gallery.draw_figure("adder_difference", tables)
    possible = tables["carries"].query("possible")
    seen = set(possible["below"] - possible["written"])
    assert seen == {value for values in adders.POSSIBLE.values() for value in values}
    assert (table["carry"] <= table["n"]).all()
    assert (table["n"] + table["neither"] == table["contexts"]).all()
    assert "cho2025" in texts(figure)


def test_the_construction_would_change_where_its_digits_have_as_much():
    def unit(digit, x):  # cho2025, D.6.1
        ramp = [x - (digit - 0.5), x - digit, x - (digit + 0.5), x - (digit + 1)]
        return 2 * np.dot(np.maximum(ramp, 0), [1, -1, -1, 1])

    for digits in range(9):
        less, more = (digits + (adders.THEOREM + by) / 10 + 0.21 for by in (-0.1, 0.1))
        assert unit(digits, less) > unit(digits + 1, less)
        assert unit(digits, more) < unit(digits + 1, more)


def test_what_is_read_is_counted_over_all_seeds_and_each(tables):
    _, table = gallery.draw_figure("adder_read", tables)
    of = table.set_index(["seed", "where", "what"])
    assert of.loc[("all", adders.WHERE[1], "sum"), ["n", "right"]].tolist() == [80, 77]
    assert of.loc[("1", adders.WHERE[0], "answer"), "accuracy"] == 11 / 40
    assert len(table) == 3 * 2 * 3


def test_a_model_that_never_carries_has_no_line(tables):
    none = tables["carries"].assign(none=lambda of: of["carry"] + of["none"], carry=0)
    figure, _ = adders.draw_carries(tables.with_tables(carries=none))
    assert figure.axes[0].get_title() == "mean of 2 seeds: no change"
