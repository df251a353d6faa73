"""Departures of a row from its paper: what counts as one, of which kind, and how it is printed."""

import pytest

from carry import cli, departures
from carry.departures import (
    COUNTERPARTS,
    compare_runs,
    find_counterpart,
    label_setting,
    list_departures,
    resolve_settings,
    tabulate_departures,
)
from carry.experiments import load_rows
from carry.experiments.base import merge
from carry.experiments.resolve import list_rows, load_run, make_run

ABACUS = {"ids": "abacus", "encoding": "learned"}
BASE = {"task": {"name": "addition"}, "positions": [ABACUS], "model": {"width": 64, "heads": 4}}


def compare(here, there):
    """Return the departures of made-up settings from other made-up settings."""
    return compare_runs(make_run(here), make_run(there))


def changed(**sections):
    """Return the base with changed settings."""
    return merge(BASE, sections)


@pytest.mark.parametrize(
    ("change", "departure"),
    [
        ({"model": {"width": 32}}, ("width", 32, 64, "size")),
        ({"training": {"steps": 10}}, ("steps", 10, 1000, "size")),
        ({"training": {"optimizer": "muon"}}, ("optimizer", "muon", "adamw", "optimizer")),
        ({"training": {"weight_decay": 0.5}}, ("weight decay", 0.5, 0.0, "optimizer")),
        ({"model": {"norm_place": "post"}}, ("norm place", "post", "pre", "model")),
        ({"model": {"norm_epsilon": 1e-12}}, ("norm epsilon", 1e-12, 1e-5, "model")),
        ({"model": {"norm": "rms"}}, ("norm", "rms", "layer", "model")),
        ({"training": {"dropout_inside": 0.1}}, ("dropout inside", 0.1, 0.0, "optimizer")),
        ({"format": {"pad": True}}, ("format pad", True, False, "data")),
        ({"model": {"recurrences": 2}}, ("recurrences", 2, 1, "size")),
        ({"evaluation": {"band": True}}, ("evaluation band", True, False, "evaluation")),
        ({"positions": [{**ABACUS, "even": True}]}, ("position 1 even", True, False, "model")),
        ({"positions": [{**ABACUS, "offset": 25}]}, ("position 1 offset", 25, 1, "size")),
    ],
)
def test_one_change_is_one_departure_of_its_kind(change, departure):
    table = compare(changed(**change), BASE).set_index("setting")
    follows = {"width": ["head width", "hidden"]}.get(departure[0], [])
    assert table.drop(index=follows).reset_index().values.tolist() == [[*departure]]
    assert set(table.loc[follows, "kind"]) <= {"size"}


@pytest.mark.parametrize(
    "change",
    [
        {"model": {"head_width": 16, "hidden": 256, "norm": "layer", "norm_epsilon": 1e-5}},
        {"training": {"cooldown": 0.1, "progressive": 0.5}},
        {"training": {"score_every": 7, "snapshot_every": 5, "pool": 3}},
        {"training": {"precision": "fp32"}},
        {"evaluation": {"longest": 30, "starts": [1]}},
        {"positions": [{**ABACUS, "base": 7.0}]},
    ],
)
def test_settings_without_effect_are_no_departures(change):
    assert compare(changed(**change), BASE).empty


def test_a_setting_has_an_effect_where_another_one_lets_it():
    looped = {"model": {**BASE["model"], "recurrences": 2}}
    found = [
        compare(changed(**part, training=training), changed(**part, training={"decay": decay}))
        for part, decay, training in (
            (looped, "cosine", {"decay": "cosine", "progressive": 0.5}),
            ({}, "trapezoid", {"decay": "trapezoid", "cooldown": 0.1}),
        )
    ]
    assert [list(table["setting"]) for table in found] == [["progressive"], ["cooldown"]]


def test_a_setting_counts_where_both_sides_use_it():
    waves = {**ABACUS, "initial": "sinusoidal", "base": 7.0}
    change = changed(positions=[waves], training={"decay": "trapezoid", "cooldown": 0.1})
    assert compare(change, BASE)["setting"].tolist() == ["position 1 initial", "decay"]


def test_other_encodings_and_missing_ones_are_named_alone():
    relative = {"ids": "abacus", "encoding": "relative", "window": 1, "offset": 5}
    table = compare(changed(positions=[relative]), BASE).set_index("setting")
    assert table["here"].to_dict() == {
        "position 1 offset": 5,
        "position 1 encoding": "relative",
        "position 1 window": [1, 1],
    }
    fire = {"ids": "index", "encoding": "fire"}
    table = compare(changed(positions=[ABACUS, fire]), BASE).set_index("setting")
    assert table["here"].to_dict() == {"position 2 ids": "index", "position 2 encoding": "fire"}
    assert table["paper"].tolist() == [None, None]


def test_sizes_come_last_and_the_columns_are_always_there():
    change = {"model": {"width": 32, "norm": "rms"}, "training": {"steps": 9, "betas": [0.9, 0.9]}}
    kinds = compare(changed(**change), BASE)["kind"].tolist()
    assert kinds == [*(kind for kind in kinds if kind != "size"), *["size"] * kinds.count("size")]
    assert {"model", "optimizer", "size"} == {*kinds}
    empty = compare(BASE, BASE)
    assert empty.empty and empty.columns.tolist() == ["setting", "here", "paper", "kind"]


COLUMNS = ["model", "optimizer", "data", "evaluation", "size"]


def test_a_line_of_the_table_has_all_rows_with_its_departures():
    runs = {row: load_run(row) for row in list_rows()}
    table = tabulate_departures(runs)
    assert [*table] == COLUMNS and not table.duplicated().any()
    listed = [row for names in table.index for row in names.split(", ")]
    assert sorted(listed) == sorted(runs)
    alone = table.index[-1].split(", ")
    assert {*alone} == {row for row in runs if find_counterpart(row) is None}
    assert table.iloc[-1].tolist() == ["no counterpart in the paper", "", "", "", ""]
    for names, line in table.iloc[:-1].iterrows():
        kinds = line.drop("size")
        shown = [part.split(":")[0] for text in kinds for part in text.split("; ") if text]
        for row in names.split(", "):
            listed = list_departures(row).set_index("setting")
            assert shown == listed.index[listed["kind"] != "size"].tolist()
            for name in ("digits", "steps", "batch"):
                assert (f"{name} " in line["size"]) == (name in listed.index)
                if name in listed.index:
                    here, there = listed.loc[name, ["here", "paper"]]
                    assert f"{name} {here:,} for {there:,}" in line["size"]


@pytest.fixture
def tabulate(monkeypatch):
    """Return the table of rows with made-up settings; `four` has no counterpart."""

    def tabulate(here, there, rows=("one",)):
        paper = make_run(there, scale="paper")
        monkeypatch.setattr(
            departures, "find_counterpart", lambda row: None if row == "four" else paper
        )
        runs = {row: make_run(here) for row in rows}
        return tabulate_departures({**runs, "three": paper})

    return tabulate


@pytest.mark.parametrize(
    ("here", "there", "text"),
    [
        ({"layers": 3, "width": 96}, {"layers": 16, "width": 1024}, "3 layers x 96 for 16 x 1,024"),
        ({"recurrences": 3}, {"layers": 8, "recurrences": 2},
         "1 layer x 3 recurrences x 64 for 8 x 2 x 64"),
        ({"layers": 2}, {"recurrences": 2}, "2 layers x 1 recurrence x 64 for 1 x 2 x 64"),
        ({"hidden": 32, "norm": "rms"}, {}, ""),
    ],
)  # fmt: skip
def test_the_shape_of_the_model_is_one_size(tabulate, here, there, text):
    assert tabulate(changed(model=here), changed(model=there))["size"].tolist() == [text]


def test_the_table_has_both_values_of_each_setting(tabulate):
    change = {"norm_place": "post", "norm_epsilon": 0.5, "width": 32}
    training, evaluation = {"betas": [0.9, 0.95], "steps": 9}, {"band": True}
    here = changed(model=change, training=training, evaluation=evaluation)
    table = tabulate(here, BASE, ("one", "two", "four"))
    assert table.index.tolist() == ["one, two", "four"]
    assert sorted(table["model"].iloc[0].split("; ")) == [
        "norm epsilon: 0.5, not 1e-05",
        "norm place: post, not pre",
    ]
    assert table.drop(columns="model").iloc[0].tolist() == [
        "betas: [0.9, 0.95], not [0.9, 0.98]", "", "evaluation band: true, not false",
        "1 layer x 32 for 1 x 64; steps 9 for 1,000",
    ]  # fmt: skip
    here = changed(training={"batch": 9}, evaluation={"starts": [1]})
    assert tabulate(here, BASE).values.tolist() == [[*[""] * 4, "batch 9 for 128"]]


def test_counterparts_are_of_rows_that_have_none_of_their_own():
    rows = load_rows()
    for row, counterpart in COUNTERPARTS.items():
        assert "paper" not in rows[row].scales and "paper" in rows[counterpart].scales


def test_the_other_side_has_the_same_departures():
    one = list_departures("addition_abacus")
    other = list_departures("addition_abacus", "paper", "laptop")
    assert one["setting"].tolist() == other["setting"].tolist()
    assert one["here"].tolist() == other["laptop"].tolist()
    assert list_departures("addition_abacus", "paper").empty


def test_settings_have_names_of_their_own():
    for row in list_rows(scale="paper"):
        names = [label_setting(place) for place in resolve_settings(load_run(row, "paper"))]
        assert len({*names}) == len(names) or "adaptive" in row, row


def test_show_prints_departures_of_kind_and_of_size(capsys):
    words = ["show", "addition_abacus", "--against", "paper"]
    assert cli.run_command(words) == 0
    of_kind, of_size = capsys.readouterr().out.split("of size alone: ")
    table = list_departures("addition_abacus")
    counts = [int(part.split()[index]) for part, index in ((of_kind, 2), (of_size, 0))]
    assert counts == [(table["kind"] != "size").sum(), (table["kind"] == "size").sum()]
    assert "norm place" in of_kind and '"post"' in of_kind and "\ndigits " in of_size
