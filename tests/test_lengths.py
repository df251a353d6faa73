"""Pictures of lengths that were trained and of others are what the tables say (ibrahimli2024)."""

import matplotlib
import pandas as pd
import pytest

import made_up_lengths as made
from carry.analyses import learning as analysis
from carry.plots import (
    answers,
    gallery,
    ibrahimli2024,
    learning,
    lengths,
    load,
    numbering,
    positions_and_formats,
    worded_steps,
)
from carry.plots import spellings as spelt
from made_up import tables as made_up_tables

matplotlib.use("Agg")
pytestmark = pytest.mark.usefixtures("every_row", "closed_figures")
ENTRIES = [name for _, of in ibrahimli2024.NOTEBOOKS.values() for name in of]
DRAWN = [name for name in ENTRIES if gallery.FIGURES[name].rows]
LEARNED, WORDED, ABACUS = (
    f"addition_equal_{of}" for of in ("learned", "learned_worded", "abacus_no_gap")
)
PLAIN, REVERSED = f"{LEARNED}_plain", f"{LEARNED}_reversed"  # without a gap, to 4 digits


@pytest.fixture(scope="module")
def tables():
    rows = [row for name in DRAWN for row in gallery.FIGURES[name].list_rows()]
    return made_up_tables(list(dict.fromkeys(rows)))


def test_trained_lengths_are_those_of_the_settings(tables):
    rows = load.list_rows(tables["cells"])
    assert lengths.find_trained_lengths(tables) == {row: made.seen(row) for row in rows}


def test_answers_by_length_are_recounted_from_the_cells(tables):
    some = tables.select_rows([LEARNED, ABACUS, WORDED])
    figure, table = lengths.draw_accuracy_by_length(some)
    regions = table[table["row"] == LEARNED].groupby("digits")["region"].first()
    assert regions[5] == "within" and regions[7] == regions[8] == "beyond"
    assert (regions[[1, 2, 3, 4, 6]] == "trained").all()
    begun = load.choose_starts(some["cells"])
    for row in (LEARNED, ABACUS, WORDED):
        cells = some["cells"][
            (some["cells"]["row"] == row) & (some["cells"]["start"] == begun[row])
        ]
        hits = "digits_right" if row == WORDED else "exact"
        pooled = table[(table["row"] == row) & (table["seed"] == "all")].set_index("digits")
        assert pooled["right"].to_dict() == cells.groupby("i")[hits].sum().to_dict()
        assert pooled["n"].to_dict() == cells.groupby("i")["n"].sum().to_dict()
    bars = [bar.get_height() for bar in figure.axes[0].containers[0]]
    first = table[(table["row"] == LEARNED) & (table["seed"] == "all")]
    assert bars == first["accuracy"].tolist()


def test_first_errors_and_right_answers_are_all_answers(tables):
    rows = [LEARNED, *ibrahimli2024.ALIGNED]
    _, table = answers.draw_first_wrong_places(
        tables.select_rows(rows), ibrahimli2024.HIGHEST_FIRST
    )
    chosen = table.groupby(["row", "region"])["digits"].unique()
    assert [chosen[LEARNED][of].tolist() for of in ("within", "beyond")] == [[5], [7]]
    assert {of: digits.tolist() for of, digits in chosen[PLAIN].items()} == {"beyond": [5]}
    first = table[table["counted"] == answers.FIRST_WRONG]
    by_length = lengths.make_length_table(tables)
    right = by_length[by_length["seed"] == "all"].set_index(["row", "digits"])
    for key, of in first.groupby(["row", "digits"]):
        assert of["count"].sum() + right.loc[key, "right"] == right.loc[key, "n"]
        assert of["n"].unique() == right.loc[key, "n"] and answers.END in set(of["place"])


def test_places_are_drawn_in_the_order_of_writing(tables):
    rows = [REVERSED, PLAIN]
    figure, _ = answers.draw_first_wrong_places(
        tables.select_rows(rows), ibrahimli2024.HIGHEST_FIRST
    )
    ticks = [[of.get_text() for of in axes.get_xticklabels()] for axes in figure.axes[:2]]
    assert ticks == [[*"012345", "end"], [*"543210", "end"]]


def test_what_is_written_adds_up_and_each_kind_is_drawn(tables):
    _, table = gallery.draw_figure("kinds_of_answers", tables)
    added = table.groupby(["row", "digits"]).agg(count=("count", "sum"), n=("n", "first"))
    assert (added["count"] == added["n"]).all() and (table["seeds"] == 2).all()
    assert list(answers.KINDS) == list(analysis.KINDS)


def test_each_place_is_drawn_at_the_longest_trained_length(tables):
    figure, table = gallery.draw_figure("order_by_place", tables)
    longest = {row: max(made.seen(row)) for row in load.list_rows(table)}
    assert (table["digits"] == table["row"].map(longest)).all()
    assert (table["place"] <= table["digits"]).all()
    of = table.query("row == @REVERSED and place == 2")
    own = tables["order"].query("row == @REVERSED and place == 2 and digits == 4")
    assert of["correct"].tolist() == own.groupby("step")["correct"].sum().tolist()
    dashes = [line.get_linestyle() for line in figure.axes[0].lines]
    assert dashes == ["-"] * 4 + ["--"]


def test_a_place_is_learned_when_it_stays_so(tables):
    _, table = gallery.draw_figure("order_reached", tables)
    plain = table[table["row"] == PLAIN].set_index(["seed", "place"])["step"]
    assert plain.xs(0, level="place").isna().all() and plain.xs(4, level="place").notna().all()
    for _, of in table[table["row"] == REVERSED].groupby("seed"):
        steps = of.sort_values("place")["step"].dropna()
        assert steps.is_monotonic_decreasing  # as made up: the highest first
    given = {"row": "a", "trained": 1, "digits": 1, "seed": 0, "place": 0, "low": 0, "high": 1}
    once = pd.DataFrame({**given, "step": [1, 2, 3], "n": 9, "accuracy": [0.1, 0.95, 0.2]})
    assert learning.tabulate_learned_steps(once)["step"].isna().all()


def test_losses_are_means_over_seeds_between_the_lowest_and_the_highest(tables):
    _, table = gallery.draw_figure("losses_by_length", tables)
    of = table.query("row == @REVERSED and digits == 2 and step == 160").iloc[0]
    own = tables["losses"].query("row == @REVERSED and digits == 2 and step == 160")["loss"]
    assert (of["loss"], of["low"], of["high"]) == (own.mean(), own.min(), own.max())
    assert of["seeds"] == 2 and of["n"] == 100 and of["region"] == "trained"


def test_one_digit_more_leaves_nothing_where_it_was():
    _, table = numbering.draw_ids_beyond_training()
    known, beyond = (of for _, of in table.groupby("sum", sort=False))
    assert set(known["new"]) == {"nothing"}
    assert beyond["new"].tolist() == ["nothing"] + ["meaning"] * 13 + ["id"] * 2
    # So it is with a length that was left out; but then there is no id that was never met.
    _, table = numbering.draw_ids_beyond_training((1, 2, 3, 5), ((1234, 5678),))
    assert table["new"].tolist() == ["nothing"] + ["meaning"] * 15


def test_next_tokens_are_means_over_seeds_where_a_digit_is_due(tables):
    _, table = gallery.draw_figure("next_tokens", tables)
    chosen = table.groupby("row")["digits"].unique().map(list).to_dict()
    assert chosen[LEARNED] == [6, 7, 8] and chosen[f"{LEARNED}_spaces"] == [4, 5, 6]
    own = tables["next_tokens"].query("row == @LEARNED and digits == 7 and token == 3")
    own = own[own["due"] == "digit"]
    by_seed = own.groupby("seed")[["end", "n"]].sum()
    means = by_seed["end"] / by_seed["n"]
    of = table.query("row == @LEARNED and digits == 7 and token == 3 and quantity == 'end'").iloc[0]
    assert [of["value"], of["low"], of["high"]] == pytest.approx(
        [means.mean(), means.min(), means.max()]
    )
    assert means.nunique() == of["seeds"] == 2 and of["n"] == own["n"].sum()
    assert (table["new"] == (table["token"] > table["trained"] - table["digits"] + 5)).all()


def test_steps_and_answers_are_recounted(tables):
    _, table = gallery.draw_figure("worded_steps", tables)
    steps = tables["steps"].query("row == @WORDED and digits == 4")
    of = table.query("digits == 4 and seed == 'all'").set_index("counted")
    for counted, column in (("first wrong", "first_wrong"), ("right", "correct")):
        assert of.loc[counted, "count"].tolist() == steps.groupby("step")[column].sum().tolist()
    assert set(table.dropna(subset="step")["digits"]) == {3, 4}
    read = tables["scratchpads"].query("digits == 4")
    told = of.loc[[*worded_steps.DECODED]]
    right = read.loc[read["answer"] == "right", "n"].sum()
    assert told["count"].tolist() == [right, read["steps_right"].sum(), read["agree"].sum()]
    assert (told["n"] == read["n"].sum()).all() and told["count"].nunique() == 3


def test_the_thesis_stands_above_ours(tables):
    figure, table = gallery.draw_figure("positions_and_formats", tables)
    stated = table[table["source"] == "thesis"].groupby("row", sort=False)["accuracy"].apply(tuple)
    assert stated.to_dict() == {
        f"addition_equal_{name}": of for name, of in positions_and_formats.STATED.items()
    }
    ours = lengths.make_length_table(tables.select_rows([PLAIN])).set_index(["digits", "seed"])
    for of in table.query("source == 'ours' and row == @PLAIN").itertuples():
        assert of.accuracy == ours.loc[(int(of.digits), of.seed), "accuracy"]
    assert len(figure.axes) == 12 and figure.axes[5].get_title() == "Abacus"
    assert figure.axes[8].get_title().startswith("trained on 1 to 3 digits")


def test_seeds_that_have_not_learned_are_counted_in_titles(tables):
    cells = tables["cells"].query("row == @PLAIN").copy()
    known = cells["i"] <= 4
    cells.loc[known, "exact"] = cells.loc[known, "n"]
    few = tables.with_tables(cells=cells)
    assert lengths.count_learned(few) == {PLAIN: (2, 2)}
    cells.loc[known & (cells["seed"] == 1) & (cells["i"] == 3), "exact"] -= 5
    assert lengths.count_learned(few) == {PLAIN: (1, 2)}
    figure, _ = lengths.draw_accuracy_by_length(few)
    assert (
        figure.axes[0].get_title().endswith("trained on 1 to 4 digits\nnot learned by 1 of 2 seeds")
    )


def test_spellings_are_those_of_the_source():
    _, table = spelt.draw_sum_in_formats()
    text = table.set_index("spelling")["text"]
    plain = "$123+456=579$"
    assert text["plain"] == text["random spaces"].replace(" ", "") == plain
    assert text["random spaces"].count(" ") > 0
    assert text["leading zeros, to 5 digits"] == "$00123+00456=00579$"
    assert text["operands reversed"] == "$321+654=579$"
    assert text["answer reversed"] == "$123+456=975$"
    assert text["operands and answer reversed"] == "$321+654=975$"
    assert text["a sub-task after its prefix"] == "rev$123+456=321+654$"
