"""The index of what the works number is complete, in order, and leads to figures that exist."""

import re
from itertools import pairwise

import nbformat
import pandas as pd
import pytest
import ruamel.yaml

from carry import claims
from carry.claims import load_claims
from carry.claims.claim_settings import PAPERS
from carry.claims.items import (
    COLUMNS,
    NUMBER,
    add_verdicts,
    load_items,
    render_index,
    summarise_claims,
)
from carry.config import paths
from carry.config.settings import SettingsError
from carry.plots import index
from carry.plots.index import list_figures

ITEMS = load_items()
FIGURES = list_figures()
NOTEBOOKS = index.find_figure_notebooks()
GOOD = {"item": "Fig. 1", "section": "2", "title": "Sums", "reason": "a drawing"}


def load(tmp_path, content, **notebooks):
    """Write a file of items and the notebooks of a work, each with a cell, and load the items."""
    path = tmp_path / "items.yaml"
    with path.open("w", encoding="utf-8") as file:
        ruamel.yaml.YAML().dump(content, file)
    folder = tmp_path / "notebooks" / "cho2025"
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in notebooks.items():
        cells = [nbformat.v4.new_markdown_cell(f"# {name}?"), nbformat.v4.new_code_cell(source)]
        nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / f"{name}.ipynb")
    return load_items(path, folder.parent)


def show(name, *answers, title="'Sums'"):
    """Return a cell that shows a figure."""
    answers = f", answers={[*answers]}" if answers else ""
    arguments = f'x, "{name}", t, title={title}, caption="A\\n b"{answers}'
    return f"%time 1\nplots.show()\nnotebook.show({arguments})"


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


def test_every_item_is_answered_or_has_a_reason():
    """An item has a figure, a notebook that prints it, or a reason why it has neither."""
    for item in ITEMS.itertuples():
        assert item.title and item.section
        assert {FIGURES[name].notebook for name in item.figures} <= {*item.notebooks}
        assert {*item.notebooks} <= {*NOTEBOOKS}


def test_figures_and_items_name_each_other():
    listed = ITEMS.explode("figures").set_index(["work", "item"])["figures"]
    for name, figure in FIGURES.items():
        for pair in figure.answers:
            assert name in [*listed.loc[[pair]]]


def test_a_figure_answers_items_of_its_work_and_of_others(tmp_path):
    content = {"cho2025": [GOOD, {**GOOD, "item": "Table 2"}], "fraknoi2024": [GOOD]}
    cells = {"b": show("late", "Fig. 1", "fraknoi2024 Fig. 1"), "a": show("soon", "Fig. 1")}
    items = load(tmp_path, content, **cells).set_index(["work", "item"])
    assert items.loc[("cho2025", "Fig. 1"), "figures"] == ["soon", "late"]
    assert items.loc[("fraknoi2024", "Fig. 1"), "notebooks"] == ["cho2025/b"]
    assert items.loc[("cho2025", "Table 2"), "figures"] == []


def test_a_printed_table_answers_an_item(tmp_path):
    item = {**GOOD, "notebook": "cho2025/a", "reason": ""}
    assert load(tmp_path, {"cho2025": [item]}, a=show("x"))["notebooks"][0] == ["cho2025/a"]
    both = load(tmp_path, {"cho2025": [item]}, a=show("x", "Fig. 1"))
    assert both["notebooks"][0] == ["cho2025/a"]


@pytest.mark.parametrize(
    ("work", "changes", "message"),
    [
        ("mcleish", {}, "items.mcleish: unknown work, did you mean 'mcleish2024'"),
        ("cho2025", {"titel": "x"}, "items.cho2025.Fig. 1.titel: unknown setting, did you mean"),
        ("cho2025", {"title": ""}, "Fig. 1.title: '' does not fit, expected a string"),
        ("cho2025", {"section": 2}, "items.cho2025.Fig. 1.section: 2 does not fit"),
        ("cho2025", {"item": "Figure 1"}, "Figure 1.item: 'Figure 1' is not a kind and a number"),
        ("cho2025", {"item": 1}, "items.cho2025.0.item: 1 does not fit, expected string"),
        (
            "cho2025",
            {"reason": ""},
            "items.cho2025.Fig. 1: no figure answers it; expected a figure",
        ),
        ("cho2025", {"notebook": "b"}, "Fig. 1.notebook: unknown notebook 'b', expected one of"),
    ],
)
def test_bad_items_are_refused_in_one_line(work, changes, message, tmp_path):
    with pytest.raises(SettingsError, match=re.escape(message)) as error:
        load(tmp_path, {work: [{**GOOD, **changes}]}, a="1")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (
            {"a": show("x", "Fig. 3")},
            "cho2025/a: x.answers: unknown item 'Fig. 3' of 'cho2025', did",
        ),
        ({"a": show("x", "mine2025 Fig. 1")}, "unknown item 'Fig. 1' of 'mine2025', expected one"),
        ({"a": show("x", title="f(1)")}, "cho2025/a: x.title: f(1) is not literal; expected text"),
        ({"a": show("x", title="None")}, "cho2025/a: x.title: missing; expected text"),
        ({"a": show("x"), "b": show("x")}, "cho2025/b: figure 'x' is in cho2025/a too; expected"),
    ],
)
def test_bad_figures_are_refused_in_one_line(cells, message, tmp_path):
    with pytest.raises(SettingsError, match=re.escape(message)) as error:
        load(tmp_path, {"cho2025": [GOOD]}, **cells)
    assert "\n" not in str(error.value)


def test_the_texts_of_a_figure_are_one_line(tmp_path):
    load(tmp_path, {"cho2025": [GOOD]}, a=show("x", "Fig. 1"))
    (figure,) = list_figures(tmp_path / "notebooks").values()
    assert figure == ("cho2025/a", "x", "Sums", "A b", (("cho2025", "Fig. 1"),))


def test_items_occur_once_in_a_work(tmp_path):
    assert len(load(tmp_path, {"cho2025": [GOOD], "fraknoi2024": [GOOD]})) == 2
    with pytest.raises(SettingsError, match=r"items.cho2025.1.item: 'Fig. 1' occurs twice"):
        load(tmp_path, {"cho2025": [GOOD, GOOD]})


@pytest.mark.parametrize("content", [{"cho2025": {"Fig. 1": GOOD}}, {"cho2025": None}])
def test_a_work_has_a_list_of_items(content, tmp_path):
    with pytest.raises(SettingsError, match=r"items.cho2025: .* is not valid; expected a list"):
        load(tmp_path, content)


def test_claims_lead_to_their_items():
    records = [
        {"paper": claim.paper, "id": claim.id, "section": claim.section, "verdict": "holds"}
        for claim in claims.load_claims()
    ]
    items = add_verdicts(ITEMS, records).set_index(["work", "item"])
    found = [record["id"] for record in items.loc[("mcleish2024", "Fig. 6"), "claims"]]
    assert found == ["abacus_fire_ahead_of_fire", "abacus_rope_ahead_of_rope"]
    numbered = re.compile(r"Fig\.|Table|Theorem|experiment")
    listed = {(work, one["id"]) for (work, _), of in items["claims"].items() for one in of}
    for record in records:
        if numbered.search(record["section"]):
            assert (record["paper"], record["id"]) in listed, record["section"]
        elif record["paper"] != "fraknoi2024":  # whose section 4 is an item
            assert (record["paper"], record["id"]) not in listed or ITEMS["claims"].map(len).any()


def test_an_item_may_name_claims_itself(tmp_path):
    items = load(tmp_path, {"cho2025": [{**GOOD, "claims": ["mine"]}]})
    record = {"paper": "cho2025", "id": "mine", "section": "2.1", "verdict": "fails"}
    assert add_verdicts(items, [record])["claims"][0] == [record]
    assert summarise_claims([record, record]) == "fails 2"
    assert add_verdicts(items, [])["claims"][0] == []  # an older ledger


def test_claims_of_items_are_claims_of_their_work():
    known = {(claim.paper, claim.id) for claim in load_claims()}
    for item in ITEMS.itertuples():
        assert {(item.work, name) for name in item.claims} <= known


def list_written(items):
    """Return what lines of a rendered index start with, for the items of a work."""
    return [line.partition(" |")[0] for line in render_index(items).splitlines()[2:]]


def test_the_rendered_index_leads_from_each_item_to_files_that_exist():
    for _, items in ITEMS.assign(claims=[[]] * len(ITEMS)).groupby("work"):
        table = render_index(items)
        assert all(line.count(" | ") == 5 for line in table.splitlines()[2:])
        for target in re.findall(r"\]\(([^)]+)\)", table):
            assert (paths.ROOT / "notebooks" / target).exists()
        for item in items.itertuples():
            for name in item.figures:
                place = f"(../reports/figures/{FIGURES[name].notebook}/{name}.svg)"
                assert f"[`{name}`]{place}" in table or f"`{name}` (not drawn)" in table


def test_every_item_is_in_one_line():
    """Items that differ in their titles alone share it: 'Tables 5 to 20'."""
    for _, items in ITEMS.assign(claims=[[]] * len(ITEMS)).groupby("work"):
        names, listed = [*items["item"]], []
        for line in list_written(items):
            name = re.search(r"\*\*(.+?)\*\*", line)[1]
            kind, *ends = re.split(r"s? (?=[A-Z\d])| and | to ", name)
            first, last = (
                [name] * 2 if name in names else [names.index(f"{kind} {end}") for end in ends]
            )
            listed += [name] if name in names else names[first : last + 1]
        assert listed == names


def test_a_line_of_several_items_names_the_first_and_the_last(tmp_path):
    tables = [{**GOOD, "item": f"Table {number}", "title": f"T{number}"} for number in range(4, 9)]
    tables[3]["stated"] = "90%"
    items = load(tmp_path, {"cho2025": [GOOD, *tables]}).assign(claims=[[]] * 6)
    assert list_written(items) == [
        "| **Fig. 1** Sums",
        '| **Tables 4 to 6** from "T4" to "T6"',
        "| **Table 7** T7",
        "| **Table 8** T8",
    ]


def test_an_item_has_the_number_of_its_first_claim_with_one():
    measured = {"measured": 0.25, "interval": [0.2, 0.3], "n": 10, "seeds": 1, "verdict": "holds"}
    none = {"id": "a", "measured": None, "reason": "needs a GPU", "verdict": "not tested"}
    records = [none, {"id": "b", "statistic": "mean_over_seeds, difference", **measured}]
    (item,) = ITEMS[(ITEMS["work"] == "mcleish2024") & (ITEMS["item"] == "Fig. 4")].to_dict(
        "records"
    )
    for claims_of_item, text in (
        (records, "+25.0 points (+20.0 to +30.0), n = 10, 1 seed: `b`"),
        ([none], "needs a GPU: `a`"),
    ):
        table = render_index(pd.DataFrame([{**item, "claims": claims_of_item}]))
        assert f" | {text} | " in table


def test_the_notebook_of_the_index_has_every_item():
    """nbval compares its tables; this says which line is missing, and that its jumps arrive."""
    notebook = nbformat.read(NOTEBOOKS["index"], as_version=4)
    shown = "".join(
        output["data"].get("text/markdown", "")
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "data" in output
    )
    for _, items in ITEMS.assign(claims=[[]] * len(ITEMS)).groupby("work"):
        for line in list_written(items):
            assert f"{line} |" in shown, "run `make notebooks`"
    headings = [
        cell.source.splitlines()[0] for cell in notebook.cells if cell.cell_type == "markdown"
    ]
    jumps = re.findall(r"\]\(#([^)]+)\)", notebook.cells[0].source)
    assert jumps == [*PAPERS] and {f"## {work}" for work in jumps} <= {*headings}
