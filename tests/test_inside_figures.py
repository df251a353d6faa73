"""What is drawn of the inside of models, of parts and of depths, is what the tables say."""

import itertools

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from carry.plots.alignment import draw_alignment_scores

from carry.evaluation import differences
from carry.evaluation import thesis_runs as runs
from carry.evaluation.intervals import seed_interval
from carry.plots import (
    depths,
    gallery,
    lengths,
    load,
    parts,
    parts_by_size,
    patching,
    style,
    thesis_runs,
)
from carry.plots import ibrahimli2024_inside as entries
from made_up import tables as made_up_tables

matplotlib.use("Agg")
pytestmark = pytest.mark.usefixtures("every_row", "closed_figures")
ENTRIES = {name: of for _, some in entries.NOTEBOOKS.values() for name, of in some.items()}


@pytest.fixture(scope="module")
def tables():
    rows = [row for entry in ENTRIES.values() for row in (*entry.list_rows(), *entry.extra_rows)]
    return made_up_tables(list(dict.fromkeys(rows)), grid=14)


def test_the_lens_has_the_points_in_the_order_of_a_pass(tables):
    figure, table = gallery.draw_figure("lens_by_place", tables)
    assert [axes.get_title().split("\n") for axes in figure.axes[:4]] == [
        [name, said]
        for said in ("10 digits, the most of training", "11 digits, more than in training")
        for name in ("Abacus", "Learned index")
    ]
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == ["embedding", "1 attention", "1 feed-forward", "2 attention", "2 feed-forward"]
    shown = figure.axes[2].get_images()[0].get_array()
    own = tables["lens"].query("row == 'addition_equal_abacus' and digits == 11 and place == -1")
    assert shown[3, 3] == own.query("activation == '1.resid_mid'")["accuracy"].mean()
    assert set(table["seeds"]) == {2}


def test_probes_are_drawn_beside_those_before_training_and_the_commonest_value(tables):
    figure, table = gallery.draw_figure("probes_by_layer", tables)
    axes = figure.axes[1]
    of = table.query("row == 'addition_equal_abacus' and step == 'carry_used' and digits == 10")
    of = of[(of["seed"] == "all") & (of["model"] == "untrained")]
    ends = [line.get_ydata() for line in axes.lines if line.get_linestyle() in ("-.", ":")]
    assert ends[0].tolist() == of["accuracy"].tolist()
    assert ends[1].tolist() == (of["commonest"] / of["n"]).tolist()


def test_what_an_ablated_head_changes_is_counted_against_all_heads(tables):
    figure, table = gallery.draw_figure("heads_ablated", tables)
    for of in table.head(20).itertuples():
        own = tables["head_ablations"].query("digits == 10 and row == @of.row and seed == @of.seed")
        own = own[own["subtask"] == of.subtask].set_index(["layer", "head"])["correct"]
        assert of.change == (own[of.layer, of.head] - own[-1, -1]) / of.n
        assert of.low <= of.change <= of.high
    picture = figure.axes[0].get_images()[0]
    assert -picture.norm.vmin == picture.norm.vmax  # white is no change, on both sides alike
    assert len(picture.get_array()) == 2 * 4  # seeds, heads


def test_cells_that_are_not_read_are_grey_and_pairs_are_counted(tables):
    figure, table = gallery.draw_figure("carry_patched", tables)
    shown = figure.axes[0].get_images()[0].get_array()
    assert np.isnan(np.asarray(shown.filled(np.nan))[-1]).tolist() == [True] * 5 + [False]
    assert figure.axes[0].get_title() == "Abacus\ncarry into place 1, 80 pairs"
    assert set(table["place"]) == {1, 3, 4} and set(table["digits"]) == {10}
    cell = tables["patches"].query("row == 'addition_equal_abacus' and digits == 10 and place == 3")
    cell = cell.query("activation == '0.resid_pre' and token == 2")
    mean = cell["flipped"].sum() / cell["n"].sum()
    assert figure.axes[2].get_images()[0].get_array()[0, 2] == mean


def test_confirmed_cells_stand_beside_their_controls(tables):
    figure, table = gallery.draw_figure("carry_confirmed", tables)
    pairs = table.groupby(["row", "digits", "activation", "where"])["twins"].agg(set)
    assert (pairs == {"carry", "control"}).all()
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names[0] == "sum, one place below; 1 attention (2)" and len(names) == patching.MOST
    none = tables.with_tables(
        confirmed=tables["confirmed"].query("row != 'addition_equal_learned'")
    )
    whole = entries.WITHIN["carry_confirmed"].draw(none)[1]
    assert load.list_rows(whole) == ["addition_equal_abacus"]
    far = tables["confirmed"].assign(trained=11)  # of one row no cell was named at its own length
    kept = far["row"].eq("addition_equal_abacus") | far["digits"].eq(10)
    figure, _ = patching.draw_confirmed(tables.with_tables(confirmed=far[kept]))
    assert [text.get_text() for text in figure.axes[1].texts] == ["no cell was named"]


def test_heads_are_ranked_by_their_attention_on_the_digits_to_add(tables):
    figure, table = gallery.draw_figure("alignment_scores", tables)
    assert set(table["i"]) == {10, 11} and len(table) == len(draw_alignment_scores(tables))
    points = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    filled = [line.get_ydata()[0] for line in points if line.get_markerfacecolor() != "white"]
    for seed in range(2):
        own = filled[seed * 6 : seed * 6 + 6]
        assert own == sorted(own, reverse=True)
    figure, _ = gallery.draw_figure("digits_to_add", tables)
    titles = [axes.get_title(loc="left") for axes in figure.axes[:4]]
    assert titles[1] == "Abacus, layer 1, head 3\n11 digits: 20% on the digits to add"


def test_lengths_are_told_apart_by_what_was_trained(tables):
    rows = tables.select_rows(list(entries.LEARNED))
    compared = parts.compare_parts(lengths.make_length_table(rows)).set_index(["row", "lengths"])
    own = rows["cells"].query("row == 'addition_equal_alone' and start == '1'")
    n = own.groupby("i")["n"].sum()
    for kind, digits in {
        "trained": [1, 2, 4], "never trained, within": [3],
        "never trained, beyond": [5, 6], "never trained, all": [3, 5, 6],
    }.items():  # fmt: skip
        of = compared.loc[("addition_equal_alone", kind)]
        right = own[own["i"].isin(digits)].groupby("seed")[["exact", "n"]].sum()
        assert of["n"] == n[digits].sum() and of["seeds"] == 2
        assert of["accuracy"] == pytest.approx((right["exact"] / right["n"]).mean())
    told = compared["p"].groupby("lengths").nunique()
    assert (told == 1).all()  # that of the difference, beside both rows


def test_what_is_drawn_of_the_parts_is_the_difference_of_both_rows(tables):
    _, table = gallery.draw_figure("parts_differences", tables)
    for _, pair in table.groupby(["positions", "lengths"]):
        by_way = pair.set_index("way")["accuracy"]
        assert (pair["difference"] == by_way["parts"] - by_way["alone"]).all()
        assert (pair["low"] <= pair["difference"]).all() and pair["p"].between(0, 1).all()


def test_each_part_is_drawn_of_all_seeds_together(tables):
    figure, table = gallery.draw_figure("parts_each", tables)
    own = tables["parts"].query("row == 'addition_equal_abacus_parts' and part == 'mad'")
    drawn = table.query("row == 'addition_equal_abacus_parts' and part == 'mad'")
    assert set(table["part"]) == set(parts.PARTS) and set(table["seeds"]) == {2}
    both = own.groupby("digits")[["n", "exact"]].sum()
    drawn = drawn.set_index("digits")
    assert drawn["accuracy"].to_dict() == pytest.approx((both["exact"] / both["n"]).to_dict())
    assert [axes.get_title() for axes in figure.axes] == ["Learned index", "Abacus"]


def test_a_difference_has_the_interval_of_the_ledger_and_an_exact_test():
    """Against all ways to deal seeds out, one by one, and against seeds that are alike."""
    random = np.random.default_rng(3)
    for sizes in ((5, 5), (2, 3), (4, 2)):
        one, two = (random.integers(0, 100, size) / 100 for size in sizes)
        both, found = [*one, *two], []
        for chosen in itertools.combinations(range(len(both)), len(one)):
            first = [both[at] for at in chosen]
            rest = [both[at] for at in range(len(both)) if at not in chosen]
            found.append(abs(np.mean(first) - np.mean(rest)))
        seen = abs(one.mean() - two.mean())
        expected = np.mean([far >= seen - 1e-9 for far in found])
        assert differences.compute_permutation_p(one, two) == pytest.approx(expected)
    seeds = pd.DataFrame({"n": 1000, "exact": [900, 910, 905]})
    told = differences.compare_rows(seeds.assign(exact=seeds["exact"] - 500), seeds)
    assert told.measured == pytest.approx(-0.5) and told.p == pytest.approx(0.1) and told.n == 6000
    assert told.low < -0.51 and -0.49 < told.high < 0


def test_many_seeds_are_dealt_out_at_random():
    random = np.random.default_rng(4)
    one, two = random.normal(0, 1, 20), random.normal(0.7, 1, 20)
    found, again = (differences.compute_permutation_p(one, two) for _ in range(2))
    assert found == again and 0 < found < 0.5
    assert differences.compute_permutation_p(one, one) == 1


def test_the_grid_has_a_cell_for_each_width_and_number_of_problems(tables):
    figure, table = gallery.draw_figure("parts_by_size", tables)
    assert len(table) == 2 * 2 * 24 and set(table["lengths"]) == {"trained", "never trained, all"}
    shown = figure.axes[4].get_images()[0].get_array()
    cell = table.query("row == 'addition_equal_parts_100k_width_256'").set_index("lengths")
    assert shown.shape == (4, 6) and shown[1, 2] == cell.loc[parts.UNSEEN, "accuracy"]
    assert cell["problems"].tolist() == [100_000] * 2 and cell["width"].tolist() == [256] * 2
    certain = table.assign(p=0.01)
    axes = plt.subplots()[1]
    parts_by_size._certain(axes, certain.query("way == 'parts'"), [10_000, 100_000, 1_000_000,
                           10_000_000], [64, 128, 256, 512, 1024, 1536])  # fmt: skip
    assert len(axes.lines) == 48


def test_runs_of_the_thesis_stand_next_to_ours(tables):
    few = tables.select_rows(["addition_equal_alone", "addition_equal_parts"])
    table = thesis_runs.tabulate_runs(few)
    theirs = table[table["source"] == "thesis"]
    file = runs.read_runs()
    assert len(theirs) == 4 * len(file) == 4 * 189
    of = theirs.set_index(["task", "width", "problems", "seed", "lengths"])
    for name, kind in (("trained_lengths", "trained lengths"), ("8", "between them"),
                       ("11", "two digits beyond")):  # fmt: skip
        for run in file.sample(20, random_state=0).itertuples():
            one = of.loc[(run.task, run.width, run.problems, run.seed, kind)]
            assert one["exact"] == getattr(run, f"exact_{name}")
            assert one["loss"] == getattr(run, f"loss_{name}")
            assert one["learned"] == (run.exact_trained_lengths >= 0.99)
    ours = table.query("source == 'ours' and task == 'mix' and seed == 1").set_index("lengths")
    last = few["losses"].query("row == 'addition_equal_parts' and seed == 1 and step == 800")
    last = last.set_index("digits")
    for kind, digits in {"trained lengths": [1, 2, 4], "between them": [3],
                         "one digit beyond": [5], "two digits beyond": [6]}.items():  # fmt: skip
        assert ours.loc[kind, "loss"] == pytest.approx(last.loc[digits, "loss"].mean())
        exact = last.loc[digits, "exact"].sum() / last.loc[digits, "n"].sum()
        assert ours.loc[kind, "exact"] == exact
    assert ours[["width", "problems"]].drop_duplicates().values.tolist() == [[64, 100_000]]
    figure, _ = thesis_runs.draw_runs_by_width(few, "loss")
    titles = [axes.get_title() for axes in figure.axes[:5]]
    assert titles[0] == "thesis\n10,000" and titles[-1] == "ours\n100,000"


def test_pairs_that_are_drawn_are_those_of_the_ledger(tables):
    _, table = gallery.draw_figure("runs_paired", tables)
    pairs = runs.pair_runs(runs.read_runs())
    for score in ("exact", "loss"):
        for name, kind in (("8", "between them"), ("10", "one digit beyond")):
            for group in (pairs, runs.select_learned_pairs(pairs)):
                told = runs.compare_pairs(group, name, score)
                of = table[(table["score"] == score) & (table["lengths"] == kind)]
                of = of[of["pairs"].str.contains(f"{len(group)} pairs")].iloc[0]
                assert [of["lead"], of["low"], of["high"], of["p"]] == [
                    told.lead, told.low, told.high, told.p,
                ]  # fmt: skip
    assert table.groupby("source").size().to_dict() == {"ours": 8, "thesis": 16}
    alone = tables.select_rows(["addition_equal_alone"])
    assert set(thesis_runs.compare_all(alone)["source"]) == {"thesis"}


def test_losses_are_means_over_lengths(tables):
    _, table = gallery.draw_figure("parts_losses", tables)
    own = tables["losses"].query("row == 'addition_equal_parts' and seed == 1 and step == 400")
    drawn = table.query("row == 'addition_equal_parts' and seed == 1 and step == 400")
    for known, of in own.groupby("seen"):
        part = drawn[drawn["seen"] == known]
        assert part["loss"].item() == pytest.approx(of["loss"].mean())
        assert part["exact"].item() == of["exact"].sum() and part["n"].item() == of["n"].sum()


def test_depths_are_means_over_the_digits_of_a_seed_then_over_seeds():
    random = np.random.default_rng(5)
    digits = pd.DataFrame({
        "row": "addition_equal_abacus_adaptive", "trained": 6, "recurrences_trained": 4,
        "seed": random.integers(0, 2, 400), "digits": random.integers(2, 5, 400),
        "place": random.integers(0, 3, 400), "carry": random.integers(0, 2, 400),
        "cascade": random.integers(0, 2, 400),
        "recurrences_taken": random.integers(1, 5, 400).astype(float),
        "depth": random.random(400) + 1, "correct": random.integers(0, 2, 400),
    })  # fmt: skip
    keys = [*digits.columns[:8]]
    of = {name: (name, "mean") for name in ("recurrences_taken", "depth")}
    spread = {
        f"{name}_spread": (name, lambda of: of.std(ddof=0))
        for name in ("recurrences_taken", "depth")
    }
    grouped = digits.groupby(keys, as_index=False)
    cells = grouped.agg(n=("recurrences_taken", "size"), **of, **spread, correct=("correct", "sum"))
    table = depths.group_depths(cells)
    for of in table.itertuples():
        own = digits[digits[of.by] == of.value]
        own = own if of.seed == "all" else own[own["seed"] == int(of.seed)]
        assert (of.n, of.correct) == (len(own), own["correct"].sum())
        means = own.groupby("seed")["depth"].mean()
        assert of.depth == pytest.approx(means.mean())
        half = 1.96 * own["depth"].std(ddof=0) / len(own) ** 0.5
        ends = seed_interval(means) if of.seed == "all" else (of.depth - half, of.depth + half)
        assert (of.low, of.high) == pytest.approx(ends)
        assert of.recurrences_taken_high >= of.recurrences_taken
        right = own.groupby("seed")["correct"].mean().mean()
        assert of.right_low <= of.accuracy == pytest.approx(right) and right <= of.right_high
    assert set(table["by"]) == set(depths.BY) and set(table["seed"]) == {"0", "1", "all"}


def test_a_looped_row_stands_beside_the_adaptive_one(tables):
    figure, table = gallery.draw_figure("depth_allowed", tables)
    assert [axes.get_title().replace("\n", " ") for axes in figure.axes] == [
        "Abacus, adaptive", "Abacus, adaptive, higher ponder cost", "Abacus, looped"
    ]  # fmt: skip
    of = table.query("row == 'addition_equal_abacus_looped' and seed == 'all' and digits == 10")
    own = tables["recurrences"].query("row == 'addition_equal_abacus_looped' and place == -1")
    own = own.query("digits == 10").groupby("recurrence")["correct"].sum()
    assert of.set_index("recurrences")["exact"].to_dict() == own.to_dict()
    alone = tables.select_rows(["addition_equal_abacus_adaptive"])
    assert len(entries.DEEP["depth_allowed"].draw(alone)[0].axes) == 1


def test_rows_of_equal_lengths_have_the_colours_of_their_schemes():
    assert style.choose_style("addition_equal_abacus_adaptive").label == "Abacus, adaptive"
    colors = [style.choose_style(f"addition_equal_{name}").color for name in ("abacus", "learned")]
    assert colors == ["#0072B2", "#EDB120"]
