"""The index of what the works number is complete, in order, and leads to figures that exist."""

import json
import re

import nbformat
import pytest
import ruamel.yaml

from carry import claims
from carry.claims.claim_settings import OWN_CLAIMS
from carry.config import paths
from carry.config.settings import SettingsError
from carry.pages.items import COLUMNS, add_claims, load_items, render_index
from carry.plots import index
from carry.plots.index import list_figures

NUMBER = re.compile(
    r"(Fig\.|Table|Theorem|Corollary|Experiments?|Section|Appendix)"
    r" ((?:[A-Z]|\d+)(?:\.\d+)*)(?: to \d+)?"
)
ITEMS = load_items()
FIGURES = list_figures()
NOTEBOOKS = index.find_figure_notebooks()
GOOD = {"item": "Fig. 1", "section": "2", "title": "Sums", "reason": "a drawing"}


def load(tmp_path, content, figures=()):
    """Write items, notebooks of three works, and entries of figures, and load the items."""
    path = tmp_path / "items.yaml"
    with path.open("w", encoding="utf-8") as file:
        ruamel.yaml.YAML().dump(content, file)
    for name in ("cho2025/a", "cho2025/b", "fraknoi2024/c", "mcleish2024/d"):
        notebook = tmp_path / "notebooks" / f"{name}.ipynb"
        notebook.parent.mkdir(parents=True, exist_ok=True)
        heading = nbformat.v4.new_markdown_cell(f"# {name}?")
        opened = nbformat.v4.new_code_cell(f'plots.open_notebook("{name}")')
        nbformat.write(nbformat.v4.new_notebook(cells=[heading, opened]), notebook)
    for number, (notebook, name, answers) in enumerate(figures):
        folder = tmp_path / "reports" / "figures" / "cho2025" / notebook
        folder.mkdir(parents=True, exist_ok=True)
        entry = {"notebook": f"cho2025/{notebook}", "number": number, "name": name}
        entry |= {"title": "A", "caption": "B.", "answers": answers}
        (folder / f"{name}.json").write_text(json.dumps(entry), encoding="utf-8")
    return load_items(path, tmp_path)


def test_items_have_numbers_of_their_kind():
    assert list(ITEMS.columns) == list(COLUMNS)
    assert ITEMS["item"].str.fullmatch(NUMBER).all()


def test_a_figure_answers_items_of_its_work_and_of_others(tmp_path):
    content = {"cho2025": [GOOD, {**GOOD, "item": "Table 2"}], "fraknoi2024": [GOOD]}
    figures = [("b", "late", ["Fig. 1", "fraknoi2024 Fig. 1"]), ("a", "soon", ["Fig. 1"])]
    items = load(tmp_path, content, figures).set_index(["work", "item"])
    assert items.loc[("cho2025", "Fig. 1"), "figures"] == ["soon", "late"]
    assert items.loc[("fraknoi2024", "Fig. 1"), "notebooks"] == ["cho2025/b"]
    assert items.loc[("cho2025", "Table 2"), "figures"] == []


def test_a_printed_table_answers_an_item(tmp_path):
    item = {**GOOD, "notebook": "cho2025/a", "reason": ""}
    assert load(tmp_path, {"cho2025": [item]})["notebooks"][0] == ["cho2025/a"]
    both = load(tmp_path, {"cho2025": [item]}, [("a", "x", ["Fig. 1"])])
    assert both["notebooks"][0] == ["cho2025/a"]


@pytest.mark.parametrize(
    ("work", "changes", "message"),
    [
        ("mcleish", {}, "items: 'mcleish' is unknown, did you mean 'mcleish2024'"),
        ("cho2025", {"title": ""}, "Fig. 1.title: '' does not fit, expected a string"),
        ("cho2025", {"reason": ""}, "items.cho2025.Fig. 1: no figure answers it; expected a"),
        ("cho2025", {"notebook": "b"}, "Fig. 1.notebook: unknown notebook 'b', expected one of"),
    ],
)
def test_bad_items_are_refused_in_one_line(work, changes, message, tmp_path):
    with pytest.raises(SettingsError, match=re.escape(message)) as error:
        load(tmp_path, {work: [{**GOOD, **changes}]})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("Fig. 3", "cho2025/a: x.answers: unknown item 'cho2025 Fig. 3', did you mean"),
        ("mine2025 Fig. 1", "unknown item 'mine2025 Fig. 1', did you mean"),
    ],
)
def test_figures_that_answer_unknown_items_are_refused_in_one_line(answer, message, tmp_path):
    with pytest.raises(SettingsError, match=re.escape(message)) as error:
        load(tmp_path, {"cho2025": [GOOD]}, [("a", "x", [answer])])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [["cho2025"], {"cho2025": GOOD}, {"cho2025": ["Fig. 1"]}])
def test_a_file_without_lists_of_items_is_refused_in_one_line(content, tmp_path):
    with pytest.raises(SettingsError, match="^items: expected a list of items for each work$"):
        load(tmp_path, content)


def test_items_occur_once_in_a_work(tmp_path):
    assert len(load(tmp_path, {"cho2025": [GOOD], "fraknoi2024": [GOOD]})) == 2
    with pytest.raises(SettingsError, match=r"items.cho2025: 'Fig. 1' occurs twice"):
        load(tmp_path, {"cho2025": [GOOD, GOOD]})


NUMBERED = re.compile(r"(Fig\.|Table|Theorem|Corollary|[Ee]xperiments?) (\d+(?:\.\d+)*)")


def test_claims_name_the_items_that_their_section_numbers():
    for claim in claims.load_claims():
        numbered = [" ".join(match).capitalize() for match in NUMBERED.findall(claim.section)]
        named = [item.split(" to ")[0] for item in claim.items]
        assert claim.paper == OWN_CLAIMS or {*numbered} <= {*named}, claim.id


def test_items_have_the_records_of_their_claims():
    names = {"paper", "id", "items"}
    records = [claim.model_dump(include=names) for claim in claims.load_claims()]
    items = add_claims(ITEMS, records).set_index(["work", "item"])
    found = [record["id"] for record in items.loc[("mcleish2024", "Fig. 6"), "claims"]]
    assert found == ["abacus_fire_ahead_of_fire", "abacus_rope_ahead_of_rope"]
    assert items["claims"].map(len).sum() == sum(len(record["items"]) for record in records)


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
