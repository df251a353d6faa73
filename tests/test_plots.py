"""What is drawn is what the tables say, it is drawn the same each time, and told apart by all."""

import io
import itertools
import re
import sys
import types

import matplotlib
import matplotlib.colors
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from carry import positions
from carry.claims.gates import NotLearned, describe_footing, find_learned_seeds
from carry.claims.measurements import summarise_seeds
from carry.config import paths, profiles, run_settings, settings
from carry.config.settings import SettingsError, list_modules
from carry.data import problem_sets
from carry.evaluation.intervals import seed_interval
from carry.evaluation.regions import LEARNED, add_region
from carry.evaluation.scoring import score_system
from carry.interpretability import attention as inside
from carry.interpretability.majority_constructions import score_majority as majority_by_hand
from carry.models.constructions.adder import build_adder
from carry.plots import (
    accuracy,
    cho2025,
    constructed_models,
    errors,
    gallery,
    heatmaps,
    load,
    numbering,
    recurrences,
    regions,
    scorings,
    style,
    theorem,
)
from carry.plots import attention as attention_drawn
from carry.plots import curves as learning
from carry.plots.entry import join_names
from figure_checks import check_files, check_layout, texts
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


SIZES = pd.DataFrame({"layers": [4, 2, 1], "recurrences": [1, 2, 4], "weights": [9e6, 5e6, 3e6]})
WITH_ROWS = {name: entry for name, entry in gallery.FIGURES.items() if entry.rows}
ALL_ROWS = list(
    dict.fromkeys(
        [
            *ROWS,
            *(row for entry in WITH_ROWS.values() for row in entry.list_rows()),
            *(row for entry in WITH_ROWS.values() for row in entry.extra_rows),
        ]
    )
)
# Tables without counts: means, outputs, parameters, one answer.
NO_COUNTS = (
    "answers", "attention", "heads", "curves", "outputs", "by_hand", "spectrum", "circles",
    "attention_places", "attention_by_start",
)  # fmt: skip


@pytest.fixture(scope="module")
def added():
    """Return the tables that only notebooks add."""
    tables = {"sizes": SIZES, "footing": footing(), "widths": widths(), "sharpness": sharpness()}
    tables |= {"majority_range": majority_range(), "circuit_steps": circuit_steps()}
    tables |= {"circuit_bits": circuit_bits(), **variants()}
    return tables | {"certificates": certificates(), "limits": limits()}


@pytest.fixture(scope="module")
def every(added):
    """Return the tables of a profile with all rows of all figures."""
    return made_up_tables(ALL_ROWS, grid=22).with_tables(**added)


@pytest.fixture(scope="module")
def tables(added):
    """Return the tables of a few rows of the overview."""
    written = {"cells": cells(ROWS), "places": places(ROWS), "curves": curves(ROWS)}
    return load.create_empty_results().with_tables(**written, **added)


@pytest.mark.usefixtures("every_row")
@pytest.mark.parametrize("name", gallery.FIGURES)
def test_each_figure_shows_its_rows(name, every):
    entry = gallery.FIGURES[name]
    figure, table = gallery.draw_figure(name, every)
    check_layout(figure)
    assert "needs" not in table
    caption = gallery.write_caption(name, every)
    assert entry.source in caption and "Not in this profile" not in caption
    assert ("worst cell" in texts(figure)) == ("worst cell" in entry.caption)
    if entry.rows:
        drawn = entry.choose_rows(every)
        assert set(entry.list_rows()) <= set(drawn)
        if entry.table == "cells" and "row" in table:
            assert set(table["row"]) == set(drawn) or name == "every_length_schemes"
        if entry.table not in NO_COUNTS:
            assert {"n", "low", "high"} <= set(table) and {"seed", "seeds"} & set(table)
            assert not (table["low"] > table["high"]).any()  # a single seed has no interval


@pytest.mark.parametrize("name", ["accuracy", "heatmaps", "numbering", "ingredients"])
def test_a_figure_is_saved_with_its_table_and_twice_as_the_same_bytes(name, tables, tmp_path):
    for folder in ("one", "two"):
        _, table = gallery.save_figure(name, tables, tmp_path / folder)
    check_files(tmp_path / "one", name, table)
    for one in (tmp_path / "one").iterdir():
        assert one.read_bytes() == (tmp_path / "two" / one.name).read_bytes()


INCOMPLETE = ["mixes_by_region", "sums_by_format", "training_length_by_region", "one_or_many"]


@pytest.mark.usefixtures("every_row")
@pytest.mark.parametrize("name", INCOMPLETE)
def test_a_figure_names_the_rows_without_results(name):
    entry = gallery.FIGURES[name]
    rows = entry.list_rows()[:-1]
    here = made_up_tables(rows, grid=12)
    figure, table = gallery.draw_figure(name, here)
    check_layout(figure)
    assert set(table["row"]) == set(entry.choose_rows(here)) == set(rows)
    assert f"Not in this profile: {entry.list_rows()[-1]}." in gallery.write_caption(name, here)


@pytest.mark.parametrize("name", [*INCOMPLETE, "weights", "one_footing", "lens_by_place"])
def test_a_figure_without_results_names_its_rows_and_a_command(name):
    entry = gallery.FIGURES[name]
    figure, table = gallery.draw_figure(name, made_up_tables(["parity_nope"], grid=12))
    check_layout(figure)
    assert list(table) == ["needs"]
    assert not entry.rows or table["needs"].tolist() == entry.list_rows()
    assert join_names(table["needs"].tolist()) in texts(figure)
    assert "make repro PROFILE=" in texts(figure) and entry.source in texts(figure)


@pytest.mark.parametrize("name", gallery.OVERVIEW)
def test_the_overview_of_a_profile_without_additions_or_grid_is_drawn(name):
    """Bug 18: rows of parity have no grid, and a row without a known task is no addition."""
    parity = paper_cells(["parity_nope", "parity_rope"])
    unknown = parity.assign(row="my_new_idea")
    here = made_up_tables(["parity_nope"]).with_tables(cells=pd.concat([parity, unknown]))
    figure, table = gallery.draw_figure(name, here)
    check_layout(figure)
    assert name in ("numbering", "architectures") or list(table) == ["needs"]
    assert gallery.select_overview_rows(["my_new_idea", "parity_nope", "addition_rope"]) == [
        "addition_rope"
    ]


def test_rows_that_were_trained_to_other_lengths_stand_in_other_groups(tables):
    short = paper_cells(["addition_nope_short", "addition_abacus_short"])
    figure, table = regions.draw_accuracy_by_region(pd.concat([tables["cells"], short]))
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    labels = [label.removesuffix(", not learned") for label in labels]
    assert labels[:3] == ["trained to 5 digits, tested to 30", "NoPE, short", "Abacus, short"]
    assert labels[3] == "trained to 10 digits, tested to 30" and len(labels) == 4 + len(ROWS)
    assert set(table["trained"]) == {5, 10}
    less = (short["row"] == "addition_nope_short") & (short[["i", "j"]].max(axis=1) > 15)
    figure, _ = regions.draw_accuracy_by_region(
        short[~less]
    )  # nor where they are tested to other lengths
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels[0] == "trained to 5 digits, tested to 15" and len(labels) == 4


def trained_to(tables, lengths):
    """Return tables whose rows were trained to other lengths than their names say."""
    trained = tables["cells"]["row"].map(lengths).fillna(tables["cells"]["trained"]).astype(int)
    return tables.with_tables(cells=tables["cells"].assign(trained=trained))


def test_a_short_row_is_drawn_where_it_was_trained_as_far_as_another():
    of = gallery.FIGURES["scheme_by_region"]
    usual, short = ["addition_nope", "addition_abacus"], "addition_abacus_short"
    here = made_up_tables([*usual, short], grid=12)
    assert of.choose_rows(here) == usual
    assert of.choose_rows(trained_to(here, {usual[0]: 5})) == [usual[0], short]


def test_a_comparison_needs_two_that_were_trained_alike_or_all_stand_ins():
    loops, pairs = (gallery.FIGURES[name] for name in ("loops_by_region", "random_padding"))
    alone = made_up_tables(["addition_abacus_looped", "addition_nope_noise"], grid=12)
    assert not loops.choose_rows(alone) and not pairs.choose_rows(alone)
    short = ["addition_abacus_injected_short", "addition_abacus_looped_short"]
    assert loops.choose_rows(made_up_tables(["addition_abacus_looped", *short], grid=12)) == short
    assert not loops.choose_rows(made_up_tables(short[:1], grid=12))
    usual = ["addition_abacus_injected", "addition_abacus_looped"]
    assert loops.choose_rows(made_up_tables([*usual, *short], grid=12)) == usual
    rows = ["addition_abacus", "addition_abacus_short", "addition_abacus_noise", "addition_fire"]
    both = made_up_tables(rows, grid=12)
    assert pairs.choose_rows(both) == [rows[0], rows[2]]
    assert pairs.choose_rows(trained_to(both, {rows[2]: 5})) == rows[1:3]


# What rows of one group share, in the profiles that two cores train; of `sums_by_training`, the one
# with shorter sums in training has the model of the other.
FOOTINGS = {
    "sums_by_step": 3, "sums_unpadded": 2, "sums_by_format": 2, "sums_by_training": 2,
    "training_sets": 2, "scheme_by_region": 10, "scheme_by_lengths": 10, "mixes_by_region": 5,
    "loops_by_region": 2, "loss_on_everything": 2,
}  # fmt: skip


@pytest.mark.parametrize("name", FOOTINGS)
def test_drawn_rows_of_the_full_profile_are_on_one_footing(name, monkeypatch):
    runs = {
        row: run_settings.load_run(row, source)
        for row, source in profiles.find_sources("full").items()
    }
    lengths = {row: run.training.digits for row, run in runs.items()}
    entry = gallery.FIGURES[name]
    monkeypatch.setattr(type(entry), "_find_lengths", lambda self, tables: lengths)
    drawn = entry.choose_rows(None)
    assert len(drawn) == FOOTINGS[name]
    shared = ("head_width", "heads", "norm_place")
    footings = [
        {**describe_footing(runs[row]), **{key: runs[row].model.get(key) for key in shared}}
        | {"steps": runs[row].training.steps}
        for row in drawn
    ]
    if name == "training_sets":  # which is what it changes
        footings = [{**footing, "problems": 0} for footing in footings]
    assert footings == footings[:1] * len(footings)


def test_a_stand_in_has_the_title_of_the_row_for_which_it_stands():
    here = made_up_tables([cho2025.ONE_LAYER, f"{cho2025.BASE}_unpadded"], grid=12)
    for name, titles in {
        "sums_unpadded": ["leading zeros", "no leading zeros"],
        "sums_by_format": ["answer reversed", "answer reversed, no zeros"],
    }.items():
        figure, _ = gallery.draw_figure(name, here)
        drawn = [" ".join(axes.get_title().split()) for axes in figure.axes[:2]]
        assert [re.split(", not learned| worst", title)[0] for title in drawn] == titles


def test_what_the_paper_states_is_drawn_beside_what_is_like_it(every):
    _, table = gallery.draw_figure("sorting_schemes", every)
    of = table.query("row == 'sorting_abacus' and seed == 'all'").set_index("region")["stated"]
    assert of["10 numbers\nof 30 digits"] == 0.6863 and of.isna().sum() == 1
    _, table = gallery.draw_figure("scheme_by_region", every)  # trained to 10 digits, not to 20
    assert table["stated"].isna().all()
    _, table = gallery.draw_figure("weights", every)
    assert table["stated"].tolist() == [122e6, 64e6, 34e6]


def test_regions_beyond_the_grid_say_their_lengths_and_a_row_has_all_of_one_or_nothing():
    here = pd.concat([cells(["addition_relative"], grid=30), paper_cells(ROWS[:2])])
    table = regions.make_region_table(here)
    assert list(dict.fromkeys(table["region"])) == [
        "in distribution", "out of distribution", "31 to 32 digits", "33 to 35 digits",
        "100 digits", "1,000 digits",
    ]  # fmt: skip
    pooled = table[table["seed"] == "all"]
    of = pooled[pooled["region"] == "31 to 32 digits"]
    assert set(of["row"]) == set(ROWS[:2]) and set(of["n"]) == {2 * 2 * 10}
    assert set(pooled[pooled["region"] == "33 to 35 digits"]["row"]) == {"addition_nope"}
    unlike = here.assign(j=here["j"].mask(here["i"] == 100, 7))
    assert "100 x 7 digits" in set(regions.make_region_table(unlike)["region"])


def test_hits_may_be_counted_in_another_column_that_some_rows_lack(every):
    here = every
    table = regions.make_region_table(
        here["cells"][here["cells"]["row"] != "addition_nope"], "digits_right"
    )
    assert set(table["row"]) == set(gallery.FIGURES["hints_left_out"].list_rows())
    assert (table["digits_right"] <= table["n"]).all()


def test_training_lengths_are_compared_on_the_same_problems(every):
    rows = ["addition_abacus_short", "addition_abacus"]
    here = every.select_rows(rows)["cells"]
    known = (here["start"] == "1") & (here["i"] <= here["trained"]) & (here["set"] == "grid")
    here = here.assign(exact=here["exact"].mask(known, here["exact"] // 2))
    assert load.choose_starts(here)["addition_abacus"] == "best"  # or the next would prove little
    _, table = regions.draw_accuracy_by_training_length(
        here, dict.fromkeys(rows, "addition_abacus")
    )
    same = table[
        (table["region"] == "11 to 22 digits,\nthe same for all") & (table["seed"] == "all")
    ]
    assert set(same["trained"]) == {5, 10} and same["n"].nunique() == 1
    usual = table.query("region == 'out of distribution' and seed == 'all' and trained == 10")
    columns = ["row", "start", "n", "exact"]
    assert usual[columns].values.tolist() == same.query("trained == 10")[columns].values.tolist()


def test_one_answer_is_that_of_the_row_that_is_looped_most_often():
    made = answers(["addition_abacus_looped", "addition_abacus_looped_8"])
    figure, table = recurrences.draw_answer_by_recurrence(made)
    assert set(table["row"]) == {"addition_abacus_looped_8"}
    image = figure.axes[0].get_images()[0].get_array()
    wrong = table[table["predicted"] != table["target"]]
    assert image.sum() == len(wrong) and image.shape == (16, 21)
    assert [image[of.recurrence - 1, of.slot] for of in wrong.itertuples()] == [1] * len(wrong)


def test_a_long_answer_goes_on_in_another_panel():
    figure, table = recurrences.draw_answer_by_recurrence(
        answers(["addition_abacus_looped"], digits=130)
    )
    images = [axes.get_images()[0].get_array() for axes in figure.axes]
    assert len(images) == 3 and sum(image.shape[1] for image in images) == 131
    assert sum(image.sum() for image in images) == (table["predicted"] != table["target"]).sum()
    check_layout(figure)
    check_layout(
        recurrences.draw_answer_by_recurrence(answers(["addition_abacus_looped"], digits=3))[0]
    )


def test_declared_columns_are_those_that_evaluation_writes():
    system, names = build_adder(2, 2), ["row", "profile", "seed"]
    drawn = problem_sets.ProblemSet.parse({"task": system.run.task, "equal": 1, "longest": 2}, "x")
    problems = problem_sets.draw_problem_set("mine", drawn)
    cell_table, place_table, steps = score_system(system, problems)
    looked = inside.describe_attention(system, (2, 2), dict.fromkeys(names), count=2)
    tables = {name: [*of.columns] for name, of in looked.items()}
    tables["tokens"] = [name for name in tables["tokens"] if "level" not in name]  # as many as are
    tables |= {"cells": [*cell_table.columns], "places": [*place_table.columns]}
    tables["steps"] = [*steps.columns]  # for the tables of analyses see their tests
    declared = load.find_declared_columns()
    assert {name: {*of} for name, of in tables.items()} == {
        name: {*declared[name]} for name in tables
    }


def test_places_by_recurrence_are_means_over_seeds():
    made = made_recurrences(["addition_abacus_looped_4"])
    figure, table = recurrences.draw_places_by_recurrence(made)
    image = figure.axes[0].get_images()[0].get_array()
    own = made.query("digits == 20 and recurrence == 2 and place == 7")
    assert image[1, 7] == own["accuracy"].mean() and set(table["seeds"]) == {2}
    assert set(table["digits"]) == {20} and table["place"].min() == 0


def test_every_entry_of_a_notebook_is_drawn_once():
    names = [name for of in gallery.NOTEBOOKS.values() for name in of.entries]
    assert len(names) == len(set(names)) == len(gallery.FIGURES)
    for of in gallery.NOTEBOOKS.values():
        source = paths.ROOT / "notebooks" / f"{of.source}.ipynb"
        text = source.read_text(encoding="utf-8")
        drawn = [name for name in gallery.FIGURES if f'gallery.save_figure(\\"{name}\\", ' in text]
        assert set(drawn) == set(of.entries), of.source
        assert f'figures_folder(profile, \\"{of.source}\\")' in text


def test_a_notebook_has_the_sources_of_the_rows_that_its_figures_show(every):
    for name, of in gallery.NOTEBOOKS.items():
        sources = gallery.find_sources(name, every)
        rows = {row for entry in of.entries.values() for row in entry.list_rows()}
        assert rows <= {*sources} and {*sources.values()} <= {"cpu"}, name


def test_every_figure_and_table_of_the_papers_is_in_the_gallery():
    sources = {of.source for of in gallery.FIGURES.values()}
    wanted = [f"mcleish2024, Fig. {n}" for n in range(1, 20)]
    wanted += [f"mcleish2024, Table {n}" for n in range(1, 4)]
    wanted += [f"cho2025, Fig. {n}" for n in range(1, 15) if n != 7]
    wanted += ["cho2025, Fig. 7a", "cho2025, Fig. 7b"]
    assert [name for name in wanted if name not in sources] == []


def test_regions_are_recounted_from_the_cells(tables):
    table = regions.make_region_table(tables["cells"])
    of = tables["cells"].query("row == 'addition_nope' and set == 'grid' and i <= 10 and j <= 10")
    drawn = table.query("row == 'addition_nope' and region == 'in distribution'")
    assert drawn.set_index("seed")["exact"].to_dict() == {
        "all": of["exact"].sum(), **{str(s): part["exact"].sum() for s, part in of.groupby("seed")}
    }  # fmt: skip
    far = table[table["region"] == "1,000 digits"]
    assert (
        set(far["row"]) == {"addition_relative"} and far.query("seed == 'all'")["n"].item() == 300
    )
    assert (table["low"] <= table["accuracy"]).all() and (table["accuracy"] <= table["high"]).all()


def test_intervals_have_the_seed_as_their_unit():
    """Ten times the problems of the same seeds tell no more; one seed tells nothing of others."""
    made = pd.DataFrame({"row": "a", "seed": range(3), "n": 40, "exact": [30, 34, 37]})
    few, many = (
        load.average_seeds(table, ["row"])
        for table in (made, made.assign(n=400, exact=10 * made["exact"]))
    )
    ends = ["accuracy", "low", "high"]
    assert few[ends].equals(many[ends]) and many["n"].item() == 10 * few["n"].item() == 1200
    accuracies = made["exact"] / made["n"]
    claimed = summarise_seeds(made.assign(accuracy=accuracies), "mean_over_seeds")
    low, high = seed_interval(accuracies)
    assert few[ends].iloc[0].tolist() == [accuracies.mean(), low, 1.0] and high > 1
    assert claimed[:3] == tuple(few[ends].iloc[0])
    both = load.score_seeds(made.query("seed == 1"), ["row"]).set_index("seed")
    assert both["accuracy"].tolist() == [34 / 40] * 2
    assert both.loc["1", "low"] < 34 / 40 and both.loc["all", ["low", "high"]].isna().all()


def test_a_row_has_not_learned_if_claims_would_not_measure_it():
    random = np.random.default_rng(3)
    made = cells(ROWS[:2], grid=12, each=1, equal=1, seeds=4, share=lambda *_: 1.0)
    for _ in range(20):
        share = made.groupby(["row", "seed"])["n"].transform(lambda _: random.choice([0, 1]))
        table = made.assign(exact=made["n"] * share.astype(int))
        unlearned = load.find_unlearned(table, "1")
        refused = set()
        for row in ROWS[:2]:
            try:
                find_learned_seeds(add_region(table), row, "1", LEARNED, {})
            except NotLearned:
                refused.add(row)
        assert unlearned == refused
    beyond = made[made["i"] > made["trained"]]
    assert load.find_unlearned(beyond.assign(exact=0), "1") == set()  # of these it is not known


def test_rows_that_have_not_learned_are_hollow_and_say_so(stepped):
    rows = ["addition_nope", "addition_fire"]
    made = cells(rows, grid=12, share=lambda row, *_: float(row == rows[0]))
    labels = ["NoPE", "FIRE, not learned"]
    figure, _ = regions.draw_accuracy_by_region(made)
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()][1:] == labels
    assert [patch.get_facecolor()[3] > 0 for patch in axes.patches] == [True, False]
    figure, _ = heatmaps.draw_accuracy_heatmaps(made)
    assert [panel.get_title().split("\n")[0] for panel in figure.axes[:2]] == labels
    figure, _ = accuracy.draw_accuracy_by_length(made)
    handles = figure.legends[0].legend_handles
    assert [handle.get_label() for handle in handles] == labels
    assert [handle.get_marker() for handle in handles] == ["None", "o"]
    lines = [line for line in figure.axes[0].lines if line.get_linewidth() > 2]
    assert [line.get_marker() for line in lines] == ["None", "o"]
    lost = stepped["cells"].assign(exact=0)
    figure, _ = gallery.draw_figure("sums_by_step", stepped.with_tables(cells=lost))
    drawn = [text.get_text() for text in figure.legends[0].get_texts()]
    assert drawn and all(text.endswith(", not learned") for text in drawn)


def test_the_bar_of_a_single_seed_has_no_interval():
    one, three = (
        regions.draw_accuracy_by_region(cells(["addition_nope"], grid=12, seeds=seeds))[0].axes[0]
        for seeds in (1, 3)
    )
    assert [len(axes.collections[0].get_segments()[0]) for axes in (one, three)] == [0, 2]


def test_further_panels_have_the_rows_that_a_start_changes(tables):
    figure, table = accuracy.draw_accuracy_by_length(tables["cells"])
    assert len(figure.axes) == 3
    for start in ("best", "all"):
        part = table[table["start"] == start]
        assert set(part["row"]) == {"addition_abacus", "addition_coupled"}
    figure, _ = accuracy.draw_accuracy_by_length(tables["cells"][tables["cells"]["start"] == "1"])
    assert len(figure.axes) == 1


def test_the_start_is_chosen_in_distribution_alone():
    def share(row, longest, seed, start):
        return (0.9 if start == "best" else 0.5) if longest <= 10 else start == "1"

    two = cells(["addition_abacus", "addition_nope"], grid=20, share=share)
    assert load.choose_starts(two) == {"addition_abacus": "best", "addition_nope": "1"}
    tied = cells(["addition_abacus"], grid=20, share=lambda *of: 1.0 if of[1] <= 10 else 0.0)
    assert load.choose_starts(tied) == {"addition_abacus": "1"}


def test_a_start_is_not_chosen_for_a_few_sums_more():
    def share(row, longest, seed, start):
        return 0.995 if start == "1" and longest == 10 and seed == 0 else 1.0

    near = cells(["addition_abacus"], grid=20, share=share)
    right = near[near["i"] <= 10].groupby("start")["exact"].sum()
    assert right["best"] > right["1"] and load.choose_starts(near) == {"addition_abacus": "1"}
    alone = near[near["start"] == "best"]
    assert load.choose_starts(alone) == {"addition_abacus": "best"}


def test_all_rows_of_a_figure_have_one_start():
    """Also a row that is as good from another one, and with results of an older kind none has."""

    def share(row, longest, seed, start):
        return 0.5 if start == "1" and row == "addition_coupled" else 1.0

    rows = ["addition_abacus", "addition_coupled", "addition_nope"]
    three = cells(rows, grid=20, share=share)
    found = load.choose_starts(three)
    assert found == dict(zip(rows, ("best", "best", "1"), strict=True))  # NoPE has no other
    assert load.choose_starts(load.select_rows(three, rows[:1])) == {"addition_abacus": "1"}
    older = (three["row"] == "addition_abacus") & (three["start"] != "1")
    mixed = three.assign(start=three["start"].mask(older, "middle"))
    assert set(load.choose_starts(mixed).values()) == {"1"}
    for table, label in ((three, "correct sums, from the best single start"),
                         (mixed, "correct sums")):  # fmt: skip
        figure, drawn = regions.draw_accuracy_by_region(table)
        assert figure.get_supxlabel() == label
        assert len(set(drawn.loc[drawn["row"] != "addition_nope", "start"])) == 1


def test_the_mean_over_starts_is_no_choice_of_a_single_start():
    def share(row, longest, seed, start):
        return 1.0 if start == "all" else 0.5

    assert load.choose_starts(cells(["addition_abacus"], grid=20, share=share)) == {
        "addition_abacus": "1"
    }


def test_accuracy_by_start_has_a_line_for_each_length(every):
    figure, table = gallery.draw_figure("accuracy_by_start", every)
    check_layout(figure)
    lines = figure.axes[0].lines  # two seeds and their median, three times
    assert len(lines) == 9 and set(table["times"]) == {1.0, 2.0, 5.0}
    drawn = lines[2].get_xydata()
    own = table[(table["row"] == table["row"].iloc[0]) & (table["times"] == 1)]
    assert drawn[:, 0].tolist() == [*range(1, 10)]
    assert drawn[:, 1].tolist() == own.groupby("id")["accuracy"].median().tolist()


def test_heatmaps_are_means_over_seeds_and_pixels_in_the_svg(tables, tmp_path):
    figure, table = heatmaps.draw_accuracy_heatmaps(tables["cells"], start="1")
    own = tables["cells"].query("row == 'addition_abacus' and start == '1' and set == 'grid'")
    cell = table.query("row == 'addition_abacus' and i == 14 and j == 13")
    assert cell["accuracy"].item() == own.query("i == 14 and j == 13")["accuracy"].mean()
    image = figure.axes[1].get_images()[0].get_array()
    assert image[13, 12] == cell["accuracy"].item()  # row i, column j
    svg = style.save_figure(figure, "heatmaps", table, tmp_path)
    assert svg.stat().st_size < 200_000 and "data:image/png" in svg.read_text()


def test_kinds_of_error_add_up(tables):
    _, table = errors.draw_mistake_kinds(tables["cells"])
    assert (table[list(errors.KINDS)].sum(axis=1) == table["n"]).all()


def test_a_median_ends_where_the_first_seed_has_stopped(tables):
    figure, _ = learning.draw_learning_curves(
        tables["curves"][tables["curves"]["row"] == "addition_nope"]
    )
    ends = [line.get_xdata()[-1] for line in figure.axes[0].lines]
    assert ends == [1500, 1500, 1200, 1200]


@pytest.fixture(scope="module")
def stepped():
    """Return tables of the rows of cho2025's Fig. 1 and 3, and what is set by hand."""
    made = {"attention": attention, "heads": heads, "tokens": tokens}
    by_hand = {name: of([load.CONSTRUCTION], seeds=1) for name, of in made.items()}
    return made_up_tables([*cho2025.ADDED, *cho2025.PARITY], grid=13).append_tables(by_hand)


def test_phases_are_shaded_where_each_seed_comes_to_them(every):
    figure, table = gallery.draw_figure("grokking", every)
    ends = table.groupby("seed")[["memorised", "formed"]].first()
    assert (ends["memorised"] < ends["formed"]).all()
    for column, seed in enumerate(ends.index):
        spans = [of.get_x() for of in figure.axes[column].patches]
        assert spans == [0, *ends.loc[seed]]


def test_medians_and_ranges_are_those_of_the_seeds(stepped):
    row = "multi_operand_addition_coupled_scratchpad"
    own = stepped["cells"][(stepped["cells"]["row"] == row) & (stepped["cells"]["set"] == "grid")]
    figure, table = gallery.draw_figure("sums_by_sizes", stepped)
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
    spread = gallery.draw_figure("sums_spread", stepped)[1]
    assert (spread["spread"] == spread["highest"] - spread["lowest"]).all()


def test_an_answer_is_counted_in_three_ways(stepped):
    table = scorings.make_scoring_table(stepped["cells"], stepped["places"])
    assert list(dict.fromkeys(table["scoring"])) == list(scorings.SCORINGS)
    rows = load.list_rows(stepped["cells"])
    for (way, row), part in table.groupby(["scoring", "row"]):
        own = stepped["cells"].query("row == @row and set == 'equal'")
        last = stepped["places"].query("row == @row and place == digits")
        steps = "scratchpad" in row
        right = {"teacher forced": last["correct"], "all tokens": own["exact"]}
        right["decoded"] = own["digits_right" if steps else "exact"]
        assert sorted(part["right"]) == sorted(right[way].astype(int))
        assert (part["accuracy"] == part["right"] / part["n"]).all()
    assert load.list_rows(table[table["scoring"] == "all tokens"]) == rows
    together = scorings.make_scoring_table(stepped["cells"], stepped["places"], width=5)
    assert {5, 10, 15} <= set(together["digits"]) <= {*range(5, 31, 5)}
    for column in ("n", "right"):
        assert together[column].sum() == table[column].sum()


def test_first_errors_by_step_add_up_to_all_responses_with_one(stepped):
    _, table = gallery.draw_figure("sums_by_step", stepped)
    added = table.groupby(["row", "seed", "digits"])[["first", "first_wrong"]].sum()
    assert set(table["digits"]) == {10, 13} and (added["first"] <= 1).all()
    lost = stepped["steps"].groupby(["row", "seed", "digits"])["first_wrong"].sum()
    assert added["first_wrong"].to_dict() == lost.loc[added.index].to_dict()
    assert (table["first_low"] <= table["first"]).all()
    assert (table["first"] <= table["first_high"]).all()


def test_maps_show_the_heads_that_look_most_at_what_they_need(stepped):
    figure, table = gallery.draw_figure("attention_with_steps", stepped)
    row = "multi_operand_addition_coupled_scratchpad"
    drawn = table[["row", "seed", "layer", "head"]].drop_duplicates()
    best = {(layer, head) for layer in (0, 1) for head in (1, 2)}
    assert set(map(tuple, drawn.query("row == @row")[["layer", "head"]].values)) == best
    assert set(drawn["seed"]) == {0} and set(drawn["row"]) == {row, load.CONSTRUCTION}
    titles = [axes.get_title(loc="left") for axes in figure.axes[:8]]
    assert [title.startswith("Theorem") for title in titles] == [False, True] * 4
    assert (table["weight"] >= 0.01).all() and (table["query"] >= WRITTEN.index("=")).all()
    image = figure.axes[0].get_images()[0].get_array()
    assert image.shape == (WRITTEN.count("") - 2 - WRITTEN.index("="), len(WRITTEN))
    assert image.mask[0, 2] and image[0, 0] == table["weight"].iloc[0]  # black where it is less
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == list(WRITTEN)


def test_shares_of_attention_are_those_of_every_head(stepped):
    figure, table = gallery.draw_figure("attention_shares", stepped)
    assert load.list_rows(table)[0] == load.CONSTRUCTION
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
    figure, table = numbering.draw_ids_of_scratchpad(task, *operands)
    check_layout(figure)
    for level, expected in enumerate(ids, start=1):
        part = table[table["level"] == level].iloc[1:-1]  # between the first token and the end
        assert "".join(part["token"]) == signs
        assert "".join(map(str, part["id"])) == expected
    assert set(numbering.SCRATCHPADS) == set(DRAWN)


def test_where_there_is_no_grid_equal_lengths_choose_the_start():
    def share(row, longest, seed, start):
        return (0.9 if start == "best" else 0.5) if longest <= 10 else start == "1"

    two = cells(["addition_abacus"], grid=20, share=share)
    assert load.choose_starts(two[two["set"] == "equal"]) == {"addition_abacus": "best"}


def test_what_is_made_by_hand_is_kept_beside_any_row(stepped):
    some = stepped.select_rows(["parity_nope"])
    assert load.list_rows(some["cells"]) == ["parity_nope"] and load.list_rows(some["heads"]) == [
        load.CONSTRUCTION
    ]
    assert load.list_rows(
        load.create_empty_results().append_tables({"heads": some["heads"]})["heads"]
    ) == [load.CONSTRUCTION]


def test_rows_of_steps_are_called_by_what_they_are():
    names = {row: style.choose_style(row).label for row in (*cho2025.ADDED, *cho2025.PARITY)}
    assert len(set(names.values())) == 8 and names["parity_rope_scratchpad"] == "RoPE, scratchpad"
    assert (
        style.choose_style("parity_relative_scratchpad").label
        == "Coupled read relatively, scratchpad"
    )
    assert style.choose_style("addition_relative").label == "Abacus read relatively"
    assert (
        style.describe_training_length("multi_operand_addition_nope", 5)
        == "trained to 5 operands of 5 digits"
    )


def test_the_least_scale_is_above_every_one_that_fails():
    part = sharpness().query("sequence == 20 and dtype == 'float32'")
    assert part["wrong"].tolist() == [50, 10, 0] and theorem.least_sharpness(part) == 3.0
    gap = pd.DataFrame({"scale": [1.0, 2.0, 3.0, 4.0], "wrong": [5, 0, 1, 0]})
    assert theorem.least_sharpness(gap) == 4.0


BY_HAND = ("majority_range", "circuit_steps", "circuit_bits")


@pytest.mark.parametrize("name", BY_HAND)
def test_what_only_a_notebook_adds_is_asked_for(name):
    figure, table = gallery.draw_figure(name, load.create_empty_results())
    assert "constructed models from their notebook" in texts(figure)
    check_layout(figure)
    assert len(table) == 1


def test_what_is_wrong_with_a_majority_by_hand_is_told_by_its_colour(tables):
    figure, table = gallery.draw_figure("majority_range", tables)
    assert {"n", "low", "high"} <= set(table) and len(figure.axes) == 4
    told = table.assign(fault=constructed_models.classify_faults(table))
    of = told.query("length == 40 and dtype == 'float32' and threshold == 'thesis'")["fault"]
    assert [text.split(":")[0] for text in of] == ["N too small", "noise", "no fault", "rounding"]
    drawn = figure.axes[0].collections[0].get_array().reshape(2, 4)
    assert [list(constructed_models.FAULTS)[int(kind)] for kind in drawn[1]] == of.tolist()


def test_noise_is_borne_just_as_far_as_the_model_shows():
    """The formula agrees with the strings themselves, wherever nothing is lost in rounding."""
    larges, lengths = [3.0, 3.5, 4.0, 4.5, 5.0, 6.0], [1, 2, 3, 5, 8, 13, 21]
    found = majority_by_hand(larges, lengths, dtypes=["float64"])
    for threshold, part in found.groupby("threshold"):
        of = part["large"].to_numpy(), part["length"].to_numpy()
        borne = constructed_models.threshold_holds(*of, mended=threshold == "mended")
        assert 0 < borne.sum() < len(part) and (borne == (part["ones"] == 0)).all()


def test_marks_stand_where_heads_look(tables):
    figure, table = gallery.draw_figure("circuit_steps", tables)
    first, second = figure.axes[0].collections
    for marks, head in ((first, "first"), (second, "second")):
        shown = marks.get_offsets()[marks.get_sizes() > 0].tolist()
        assert shown == table.loc[table[head] > 0, ["wire", "step"]].values.tolist()
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert [label.split() for label in labels] == [
        ["w3", "=", "a", "and", "b", "→", "1"], ["w4", "=", "not", "w3", "→", "0"]
    ]  # fmt: skip


def test_numbers_that_are_refused_stand_at_the_right(tables):
    figure, table = gallery.draw_figure("circuit_bits", tables)
    assert {"n", "low", "high"} <= set(table)
    labels = [label.get_text().split("\n")[0] for label in figure.axes[0].get_xticklabels()]
    assert labels == ["3", "2", "8"] and "refused" in texts(figure)
    shown = figure.axes[0].get_images()[0].get_array()
    assert shown.tolist() == [[0.0, 0.3, 0.3]] * 2


def test_ids_are_those_of_the_schemes():
    _, table = numbering.draw_ids_of_sum(653, 49)
    coupled = table[table["scheme"] == "coupled"]
    drawn = positions.show_ids(positions.choose_scheme("coupled")(), "653", "49", pad=True,
                            reverse_operands=False)  # fmt: skip
    spelt = f"{' '.join(coupled['token'])} | {' '.join(map(str, coupled['id']))}"
    assert spelt == drawn
    assert set(table["scheme"]) == set(list_modules("carry.positions"))  # each has to be drawn


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
    params = profiles.load_params()
    pair = {"ids": "zigzag", "encoding": "learned"}
    params["runs"] |= {
        "sorting_mine": {"like": "sorting_fire", "positions": [pair]},
        "sorting_mine_rope": {"like": "sorting_mine", "positions": [{**pair, "encoding": "rope"}]},
        "sorting_mine_best": {"like": "sorting_mine", "label": "Zigzag, at its best"},
        "coupled_mine": {"like": "addition_coupled", "label": "Coupled, mine"},
    }
    monkeypatch.setattr(profiles, "load_params", lambda: params)
    rows = ["sorting_mine", "sorting_mine_rope", "sorting_mine_best", "coupled_mine"]
    names = ["Zigzag order", "Zigzag order RoPE", "Zigzag, at its best", "Coupled, mine"]
    styles = [style.choose_style(row) for row in rows]
    assert [row_style.label for row_style in styles] == names
    assert [row_style.color for row_style in styles[:3]] == [style.OTHER_COLOR] * 3
    assert styles[3].color == style.choose_style("addition_coupled").color
    assert style.name_problems(rows[:3]) == "lists"
    assert style.describe_training_length(rows[0], 7) == "trained to 7 numbers of 7 digits"
    made = cells(rows, grid=12, each=1, equal=5, share=lambda *_: 1.0)
    figure, table = accuracy.draw_accuracy_by_length(made)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == names
    assert load.list_rows(table) == rows


def test_rows_of_params_are_told_apart_in_each_figure():
    """Rows of one figure have different labels, unless the figure gives titles of its own."""
    for name in ("scheme_by_region", "loops_by_region", "papers_lengths", "encodings_by_length"):
        rows = gallery.FIGURES[name].list_rows()
        styles = [style.choose_style(row) for row in rows]
        assert len({row_style.label for row_style in styles}) == len(rows)
        assert len({row_style[1:3] for row_style in styles}) == len(rows)


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


def test_tables_are_read_in_the_order_of_the_profile(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    rows = ["addition_rope", "addition_nope", "parity_rope"]
    results(tmp_path, [*rows, "addition_fire"])  # another row has left its results
    sources = dict.fromkeys(rows, "cpu")
    monkeypatch.setattr(profiles, "find_sources", lambda profile: sources)
    tables = load.open_results("cpu")
    for name in ("cells", "places", "curves"):
        assert load.list_rows(tables[name]) == rows
    assert tables["answers"].empty and "predicted" in tables["answers"]
    with pytest.raises(SettingsError, match="unknown table 'answer', did you mean 'answers'"):
        tables["answer"]
    folder = tmp_path / "reports/results/cpu/addition_schemes"
    answers(["addition_rope"]).to_parquet(folder / "answers.parquet")
    assert load.list_rows(load.open_results("cpu")["answers"]) == ["addition_rope"]
    sources["addition_abacus"] = "cpu"  # the committed results lag behind
    assert load.list_rows(load.open_results("cpu")["cells"]) == rows
    for file in folder.parent.rglob("cells.parquet"):
        file.unlink()
    with pytest.raises(SettingsError) as error:
        load.open_results("cpu")["places"]
    assert str(error.value) == (
        "results: reports/results/cpu is missing; "
        "expected the evaluate stages of profile 'cpu' to have run"
    )


def test_rows_that_a_profile_does_not_train_come_from_its_others(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    results(tmp_path, ["addition_nope"])
    results(tmp_path, ["addition_nope", "addition_rope", "parity_rope"], "full")
    sources = {"addition_nope": "cpu", "parity_rope": "full", "addition_rope": "full"}
    monkeypatch.setattr(profiles, "find_sources", lambda profile: sources)
    tables = load.open_results("cpu")
    origins = tables["cells"].groupby("row", sort=False)["profile"].unique().map(list)
    assert list(origins.items()) == [(row, [source]) for row, source in sources.items()]
    captions = [gallery.write_caption(name, tables) for name in ("accuracy", "numbering")]
    assert captions[0].endswith(
        " Trained here: addition_nope; from the committed results of `full`: addition_rope."
    )
    assert "committed" not in captions[1]


def test_drawing_leaves_the_settings_of_matplotlib_alone(tables):
    before = dict(matplotlib.rcParams)
    figure, table = learning.draw_learning_curves(tables["curves"])
    figure.savefig(io.BytesIO())
    assert dict(matplotlib.rcParams) == before
    assert set(REACH) >= set(load.list_rows(table))


def footing():
    """Return made-up cells of the profile baselines, better the faster they learn."""
    parts = []
    for number, end in enumerate(("_slow", "_medium", "_fast")):
        rows = [row for row in gallery.FIGURES["one_footing"].list_rows() if row.endswith(end)]
        share = 0.2 + 0.3 * number
        part = cells(rows, trained=5, grid=7, each=4, share=lambda *_, share=share: share)
        parts.append(part.assign(rate=0.002 * 2**number))
    return pd.concat(parts, ignore_index=True)


def test_one_footing_has_every_seed_and_all_together(every):
    figure, table = gallery.draw_figure("one_footing", every)
    plt.close(figure)
    assert set(table["seed"]) == {"0", "1", "2", "all"}
    whole = table[table["seed"] == "all"]
    assert len(whole) == 2 * 3 * 6 and whole["family"].nunique() == 6
    assert ((whole["low"] <= whole["accuracy"]) & (whole["accuracy"] <= whole["high"])).all()
    rising = whole.groupby(["region", "family"])["accuracy"].apply(
        lambda of: of.is_monotonic_increasing
    )
    assert rising.all()


def test_committed_results_bring_their_learning_rates(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    results(tmp_path, run_settings.list_rows("tuning"), "tuning")
    cells = load.read_cells_with_rates("tuning")
    rates = cells.groupby("row")["rate"].unique().map(list)
    assert rates["addition_fire_slow"] == [0.002] and rates["addition_fire_fast"] == [0.008]
