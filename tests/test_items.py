"""The index of what the works number is complete, in order, and leads to figures that exist."""

import re
from itertools import pairwise

import pytest
import ruamel.yaml

from carry.claims.claim_settings import PAPERS
from carry.claims.items import COLUMNS, FIGURES, NUMBER, load_items
from carry.config import profiles
from carry.config.settings import SettingsError
from carry.plots import gallery

ITEMS = load_items()
SOURCE = re.compile(r"(\w+), (Fig\.|Table|Theorem) (\d+(?:\.\d+)*)")
GOOD = {"item": "Fig. 1", "section": "2", "title": "Sums", "figures": ["sum_ids"]}


def load(tmp_path, content):
    """Write a file of items, and load it."""
    path = tmp_path / "items.yaml"
    with path.open("w", encoding="utf-8") as file:
        ruamel.yaml.YAML().dump(content, file)
    return load_items(path)


def make_key(number):
    """Return a key that sorts numbers as works do: 2 before 10, and appendices last."""
    return [(part.isalpha(), part.zfill(3)) for part in number.split(".")]


def list_numbers(kind):
    """Return the numbers of a kind of items in each work, in the order of the file."""
    parts = ITEMS["item"].str.extract(NUMBER)
    return [
        list(parts.loc[(ITEMS["work"] == work) & parts[0].str.startswith(kind), 1])
        for work in PAPERS
    ]


def test_works_are_in_the_order_of_the_ledger():
    assert list(ITEMS["work"].unique()) == list(PAPERS)
    assert list(ITEMS.columns) == list(COLUMNS)


@pytest.mark.parametrize(
    "kind", ["Fig.", "Table", "Theorem", "Corollary", "Experiment", "Section", "Appendix"]
)
def test_items_of_a_kind_are_in_order(kind):
    for numbers in list_numbers(kind):
        keys = [make_key(number) for number in numbers]
        assert all(before < after for before, after in pairwise(keys)), numbers


@pytest.mark.parametrize("kind", ["Fig.", "Table"])
def test_no_figure_and_no_table_is_left_out(kind):
    """Numbers count from 1, in works with chapters from 1 in each chapter that has any."""
    for numbers in list_numbers(kind):
        chapters = {}
        for number in numbers:
            chapter, _, count = number.rpartition(".")
            chapters.setdefault(chapter, []).append(int(count))
        assert chapters and all(
            counts == list(range(1, len(counts) + 1)) for counts in chapters.values()
        )


def test_a_figure_is_listed_where_its_source_says():
    listed = ITEMS.set_index(["work", "item"])["figures"]
    numbered = {name: SOURCE.match(entry.source) for name, entry in gallery.FIGURES.items()}
    assert any(numbered.values())
    for name, source in numbered.items():
        if source:
            work, kind, number = source.groups()
            assert name in listed[work, f"{kind} {number}"]


def test_every_figure_of_a_work_is_listed_in_it():
    for work, items in ITEMS.groupby("work"):
        figures = {name for name, entry in gallery.FIGURES.items() if entry.source.startswith(work)}
        assert figures and figures <= {name for names in items["figures"] for name in names}


def test_every_item_is_answered_or_has_a_reason():
    for item in ITEMS.itertuples():
        assert item.title and item.section
        assert item.notebooks or item.reason
        assert len(set(item.figures)) == len(item.figures)
        assert {FIGURES[name] for name in item.figures} <= set(item.notebooks)


def test_reasons_name_the_profile_gpu_only_for_rows_that_it_alone_has():
    here, there = profiles.find_sources("cpu"), profiles.load_profile("gpu")["rows"]
    named = ITEMS[ITEMS["reason"].str.contains("profile gpu")]
    assert len(named)
    for item in named.itertuples():
        rows = [row for name in item.figures for row in gallery.FIGURES[name].list_rows()]
        assert any(row in there and row not in here for row in rows), item.item


@pytest.mark.parametrize(
    ("work", "changes", "message"),
    [
        ("mcleish", {}, "items.mcleish: unknown work, did you mean 'mcleish2024'"),
        ("cho2025", {"titel": "x"}, "items.cho2025.Fig. 1.titel: unknown setting, did you mean"),
        ("cho2025", {"title": ""}, "Fig. 1.title: '' does not fit, expected a string"),
        ("cho2025", {"section": 2}, "items.cho2025.Fig. 1.section: 2 does not fit"),
        ("cho2025", {"item": "Figure 1"}, "Figure 1.item: 'Figure 1' is not a kind and a number"),
        ("cho2025", {"item": 1}, "items.cho2025.0.item: 1 does not fit, expected string"),
        ("cho2025", {"figures": ["sum_id"]}, "figures: unknown figure 'sum_id', did you mean"),
        ("cho2025", {"figures": []}, "items.cho2025.Fig. 1: figures [] without a reason; expected"),
        ("cho2025", {"notebook": "tuor"}, "Fig. 1.notebook: unknown notebook 'tuor', expected one"),
    ],
)
def test_bad_items_are_refused_in_one_line(work, changes, message, tmp_path):
    with pytest.raises(SettingsError, match=re.escape(message)) as error:
        load(tmp_path, {work: [{**GOOD, **changes}]})
    assert "\n" not in str(error.value)


def test_items_occur_once_in_a_work(tmp_path):
    assert len(load(tmp_path, {"cho2025": [GOOD], "fraknoi2024": [GOOD]})) == 2
    with pytest.raises(SettingsError, match=r"items.cho2025.1.item: 'Fig. 1' occurs twice"):
        load(tmp_path, {"cho2025": [GOOD, GOOD]})


@pytest.mark.parametrize("content", [{"cho2025": {"Fig. 1": GOOD}}, {"cho2025": None}])
def test_a_work_has_a_list_of_items(content, tmp_path):
    with pytest.raises(SettingsError, match=r"items.cho2025: .* is not valid; expected a list"):
        load(tmp_path, content)


def test_a_printed_table_answers_an_item(tmp_path):
    item = {**GOOD, "figures": [], "notebook": "cho2025/is_it_possible_at_all"}
    assert load(tmp_path, {"cho2025": [item]})["notebooks"][0] == [item["notebook"]]
