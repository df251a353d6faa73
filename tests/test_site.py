"""The site opens from disk: every link of it leads somewhere, and nothing comes from a network."""

import gzip
import html
import json
import re
from collections import Counter

import bs4
import pytest

from carry import claims
from carry.claims.errata import load_errata
from carry.claims.verdicts import SEEN
from carry.config import paths
from carry.config.paths import ROOT
from carry.config.settings import SettingsError
from carry.config.templates import fill_template
from carry.config.yaml_files import read_yaml
from carry.pages import readme, site
from carry.pages.site import content, links, works
from carry.plots import index
from made_up_site import FIGURES, ITEMS, ROWS, STAGES, STORY, caption, make_project, title

NOTEBOOKS = ["tour", *(name.rpartition("/")[2] for name in FIGURES)]
STORY_FILE = content.STORY  # before that of the made-up project takes its place


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:  # undone also where something below raises
        yield make_project(tmp_path_factory.mktemp("project"), patch)


@pytest.fixture(scope="module")
def first(home):
    return site.write_site()


@pytest.fixture(scope="module")
def texts(first):
    return {
        path.relative_to(first.parent).as_posix(): path.read_text(encoding="utf-8")
        for path in first.parent.rglob("*.html")
    }


def parse(text):
    return bs4.BeautifulSoup(text, "html.parser", multi_valued_attributes=None)


def records():
    return json.loads((paths.REPORTS / "claims.json").read_text())


def test_it_has_a_page_for_each_work_notebook_and_list(texts):
    written = [stage.replace("/", "_") for stage in STAGES]
    names = {"index", "figures", "ledger", "live"}
    names |= {f"works/{name}" for name in (*works.read_works(), works.OWN)}
    names |= {f"notebooks/{name}" for name in (*NOTEBOOKS, *written)}
    assert {*texts} == {f"{name}.html" for name in names}
    for name in NOTEBOOKS:
        assert "42" in texts[f"notebooks/{name}.html"]


def test_the_first_page_tells_the_story_with_numbers_from_the_results(texts):
    text = html.unescape(texts["index.html"])
    places = [text.index(chapter["question"]) for chapter in STORY["chapters"]]
    assert places == sorted(places)
    number = json.loads((paths.REPORTS / "numbers.json").read_text())["rows"]
    twice = readme.format_number(number["addition_nope"]["twice as long"])
    assert f"All begins here. NoPE: {twice}." in text
    assert "At 10 digits?" in text
    assert 'src="figures/ids.svg"' in text and "The unseen: not drawn" in text
    assert 'href="ledger.html#claim-certified_addition"' in text
    for work in works.read_works().values():
        assert work["title"] in text and work["citation"] in text
    assert '<th scope="row">NoPE</th>' in text, "a table"


def test_the_page_of_a_work_has_its_items_claims_and_figures_in_order(texts):
    text = html.unescape(texts["works/mcleish2024.html"])
    mine = [record for record in records() if record["paper"] == "mcleish2024"]
    for record in mine:
        assert text.count(f'ledger.html#claim-{record["id"]}"') == 1
    second, third = (text.index(f'id="{name}"') for name in ("fig-2", "fig-3"))
    assert second < text.index("claim-abacus_ahead_of_nope") < third
    assert third < text.index("claim-loops_help_at_equal_depth") < text.index('id="table-4"')
    assert text.index('id="claims-other"') < text.index("claim-abacus_in_distribution")
    assert "needs <more>" in text and "not run" in text
    for name in FIGURES["mcleish2024/how_far"]:
        assert f'id="figure-{name}"' in text and caption(name).replace("`code`", "") not in text
    assert "../notebooks/overview.html" in text, "it answers Fig. 2 too"
    assert 'id="figure-ids"' not in text
    own = html.unescape(texts["works/every_length.html"])
    assert "Not drawn" in own and "claims-is_it_proved" in own


def test_the_index_of_figures_has_all_items_and_all_figures(texts):
    text = html.unescape(texts["figures.html"])
    for work, items in ITEMS.items():
        for item in items:
            assert f">{item['item']}</a>" in text.split(f'<h2 id="{work}">')[1]
    for shown in FIGURES.values():
        for name, answers in shown.items():
            heading = re.search(rf'id="figure-{name}">\s*<h4>(.*?)</h4>', text, re.DOTALL)[1]
            assert title(name) in heading and all(answer in heading for answer in answers)


def test_the_ledger_is_a_plain_table_of_all_claims(texts):
    page = parse(texts["ledger.html"])
    rows = page.find_all("tr", id=True)
    assert [of["id"] for of in rows] == [f"claim-{record['id']}" for record in records()]
    assert {of["data-seen"] for of in rows} == {"same", "opposite", "not run"}
    options = [of.text for of in page.find("select", id="seen").find_all("option")]
    assert options == ["all", *SEEN]
    for row, record in zip(rows, records(), strict=True):
        assert ("Comparable: as in the work" in row.text) == (record["measured"] is not None)
    assert page.find("form", id="filters", hidden=True), "until its script runs"


def test_notebooks_lead_to_each_other_in_order_and_show_the_figures_of_the_site(texts):
    order = [*NOTEBOOKS, "claims"]
    for before, after in zip(order, order[1:], strict=False):
        pages = (parse(texts[f"notebooks/{name}.html"]) for name in (before, after))
        steps = [
            page.find("a", rel=rel)["href"]
            for page, rel in zip(pages, ("next", "prev"), strict=True)
        ]
        assert steps == [f"{after}.html", f"{before}.html"]
    text = texts["notebooks/how_far.html"]
    assert 'src="../figures/far.svg"' in text
    assert html.unescape(text).count("Sums, with far < 3 in <code>code</code>.") == 1
    targets = [of["href"] for of in parse(text).find_all("a")]
    assert {"../figures/far.svg", "../figures/far.csv.gz"} <= {*targets}
    (picture,) = parse(text).find_all("img", src=re.compile("^data:"))
    assert picture["alt"] == "Picture: What is how_far?"


def test_each_figure_says_how_it_is_drawn_again(texts):
    page = parse(texts["works/mcleish2024.html"])
    (lines,) = [one.find("details") for one in page.find_all("figure", id="figure-far")]
    assert lines.pre.text == "make setup && .venv/bin/carry figures mcleish2024"
    trained = "Settings, commit and machine of each trained seed: reports/results/{}/runs.parquet"
    assert " ".join(lines.p.text.split()) == (
        f"Its commit is unknown. {trained.format('addition_schemes')}."  # in no repository
    )
    figure = content.read_content().figures["far"]._replace(studies=("parity", "one_pass"))
    render = site.make_templates(content.read_content()).get_template("macros.html").module.origin
    for commit, state in {
        "0123456": "This picture is from commit 0123456.",
        "0123456+": "It has changed since commit 0123456.",
    }.items():
        lines = parse(render(figure._replace(commit=commit)))
        command = "git checkout 0123456 && make setup && .venv/bin/carry figures mcleish2024"
        assert lines.pre.text == command
        both = f"{trained.format('parity')}, reports/results/one_pass/runs.parquet."
        assert " ".join(lines.p.text.split()) == f"{state} {both}"


def test_long_tables_are_compressed(first):
    folder = first.parent / "figures"
    assert gzip.decompress((folder / "far.csv.gz").read_bytes()).startswith(b"row,accuracy\n")
    assert (folder / "steps.csv").exists() and not (folder / "far.csv").exists()
    assert not (folder / "unseen.svg").exists()


def test_it_loads_nothing_from_a_network_and_its_links_lead_somewhere(first, texts):
    assert links.check_links(first.parent) == []
    for name in (*site.SCRIPTS, "style.css"):
        text = (site.HERE / name).read_text(encoding="utf-8")
        assert not re.search(r"//\w+\.|\b(fetch|import|XMLHttpRequest|WebSocket)\b|url\(", text)
    tour = texts["notebooks/tour.html"]
    assert 'href="train.html"' not in tour and "README.md" not in tour  # no such pages
    assert 'href="https://example.org"' in tour  # a link that a reader may follow
    for name, text in texts.items():
        assert 'href="live.html"' in text or 'href="../live.html"' in text, name


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("a.html", '<script src="https://example.org/x.js"></script>', "a.html would load https"),
        ("a.html", '<a href="gone.html">x</a>', "links to gone.html, which does not exist"),
        ("a.html", '<a href="#gone">x</a>', "links to #gone, where no such place is"),
        ("a.html", '<a xml:lang="en" href="gone.html">x</a>', "links to gone.html, which does"),
        ("a.html", "<img src='//example.org/x'>", "a.html would load //example"),
    ],
)
def test_a_load_and_a_broken_link_are_found(name, content, fault, tmp_path):
    (tmp_path / name).write_text(content)
    (found,) = links.check_links(tmp_path)
    assert fault in found


def test_pictures_have_sizes_and_texts(texts):
    pictures = [(of, name) for name, text in texts.items() for of in parse(text).find_all("img")]
    assert len(pictures) > 20
    for of, name in pictures:
        assert of["src"].startswith("data:") or int(of["width"]) and int(of["height"]), name
        assert of["alt"].startswith(("The ", "Picture: ")), name
    alts = {of["src"].rpartition("/")[2]: of for of, _ in pictures}
    assert (alts["wide.svg"]["width"], alts["far.svg"]["width"]) == ("1152", "384")


def test_pages_can_be_read_without_seeing_them(texts):
    """One main part, headings in order, a name for each link and field, no id twice."""
    for name, text in texts.items():
        page = parse(text)
        levels = [int(tag.name[1]) for tag in page.find_all(re.compile(r"h\d"))]
        assert levels[0] == 1 and levels.count(1) == 1, name
        assert all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False))
        assert len(page.find_all("main")) == len(page.find_all("title")) == 1
        assert all("aria-label" in of.attrs for of in page.find_all("nav"))
        ids = Counter(of["id"] for of in page.find_all(id=True))
        assert not [one for one, count in ids.items() if count > 1], name
        for of in page.find_all(["a", "button"]):
            picture = of.get("class") == "picture"  # its alt text is its name
            assert of.text.strip() or picture or of.get("aria-label"), (name, of)
        labelled = {of.get("for") for of in page.find_all("label")}
        for of in page.find_all(["input", "select"]):
            assert of.get("id") in labelled or of.find_parent("label")
        assert page.html["lang"] == "en"
        assert page.a.attrs == {"class": "skip", "href": "#main"}
        for of in page.find_all("div", class_="wide"):
            assert of["tabindex"] == "0" and (of.attrs.keys() & {"aria-label", "aria-labelledby"})
        assert "notebooks/" in name or not page.find_all("th", scope=False)


def test_each_answer_has_a_colour():
    """That it can be read in light and in dark is checked by axe, in test_site_browser.py."""
    css = (site.HERE / "style.css").read_text(encoding="utf-8")
    for seen in SEEN:
        assert re.search(rf"\.{seen.replace(' ', '-')}\b", css)


def test_the_search_finds_questions_figures_items_and_claims(first, texts):
    script = (first.parent / "search_index.js").read_text(encoding="utf-8")
    entries = json.loads(script.removeprefix("const searchIndex = ").removesuffix(";\n"))
    kinds = Counter(entry["kind"] for entry in entries)
    items = sum(map(len, ITEMS.values()))
    assert kinds["Item"] == items and kinds["Figure"] == sum(map(len, FIGURES.values()))
    assert kinds["Claim"] == len(records()) and kinds["Notebook"] == len(NOTEBOOKS) + 4
    titles = [entry["title"] for entry in entries]
    (far,) = (entry for entry in entries if entry["title"] == "The far")
    assert far["text"].startswith("Answers Figure 2 of mcleish2024. Sums, with far")
    assert "Figure 2 of mcleish2024" in titles and "What is how_far?" in titles
    for entry in entries:
        page, _, anchor = entry["url"].partition("#")
        assert not anchor or f'id="{anchor}"' in texts[page], entry


def test_two_writings_are_the_same_and_leave_nothing_behind(first):
    before = {path: path.read_bytes() for path in first.parent.rglob("*.*")}
    for name in ("notebooks/train_gone.html", "works/gone.html", "figures/gone.svg"):
        (first.parent / name).write_text("old")
    site.write_site()
    assert {path: path.read_bytes() for path in first.parent.rglob("*.*")} == before


def test_a_notebook_that_has_not_run_here_is_shown_as_it_is_in_git(texts):
    missing = [name for name, text in texts.items() if "not run here, as it is in git" in text]
    assert {*missing} == {"notebooks/is_one_enough.html", "notebooks/tour.html"}


def test_the_story_names_figures_claims_and_numbers_that_exist():
    told, figures = read_yaml(STORY_FILE), index.list_figures(ROOT)
    names = {claim.id for claim in claims.load_claims()}
    numbers = json.loads((ROOT / "reports" / "numbers.json").read_text(encoding="utf-8"))
    values = readme.list_values(numbers)
    assert told["tables"].keys() == content.TABLES.keys()
    assert [*told["works"]] == [*works.read_works(), works.OWN] and len(told["chapters"]) == 6
    for chapter in told["chapters"]:
        assert chapter["figure"] in figures and {*chapter["claims"]} <= names
        assert chapter.get("table", "footing") in told["tables"]
        assert 2 <= len(chapter["text"]) <= 4 and 1 < len(chapter["claims"]) <= 6
        text = " ".join(chapter["text"])
        assert "{" not in fill_template(text, values)
        plain = re.sub("{{.*?}}", "", text)
        assert not re.search(r"%|\d\.\d", plain), "a number that was typed"


def test_numbers_are_filled_in_between_markers(home):
    found = json.loads((paths.REPORTS / "numbers.json").read_text())
    assert list(found["rows"]) == ROWS
    relative = found["rows"]["addition_relative"]["1000 digits"]
    assert relative == {**relative, "value": 1.0, "n": 300, "seeds": 3, "range": [1.0, 1.0]}
    certificates = {
        "addition_relative": {
            "trained": 10, "parameters": 5000, "contexts": 40000, "exact": 2, "seeds": 2,
            "coq": 1,
        },
        "copying_relative": {
            "trained": 10, "parameters": 5000, "contexts": 400, "exact": 0, "seeds": 1,
            "coq": 0,
        },
    }  # fmt: skip
    place = '("addition_relative", "100 digits")'
    text = (
        f"At 100: <!-- numbers:number{place} -->old<!-- /numbers -->, "
        f"<!-- numbers:basis{place} --><!-- /numbers -->. "
        "<!-- numbers:footing --><!-- /numbers --><!-- numbers:headlines --><!-- /numbers -->"
        "<!-- numbers:certificates --><!-- /numbers -->"
    )
    values = readme.list_values({**found, "certificates": certificates})
    filled = readme.fill_markers(text, values)
    assert f"<!-- numbers:number{place} -->100%<!-- /numbers -->" in filled
    assert f"numbers:basis{place} -->n = 3,000, 3 seeds<!-- /numbers -->" in filled
    footing, others = (part.split("<!-- /")[0] for part in filled.split("numbers:")[3:5])
    assert "| NoPE |" in footing and "| ours, one pass |" in others
    assert "1000 digits" not in footing, "columns without a number"
    # The papers' start and the others are lines of their own; a marker has the first.
    coupled, relative = (found["rows"][row] for row in ROWS[1:])
    assert coupled["start"] == "1" and [*coupled["starts"]] == ["all"]
    assert relative["start"] == "1" and relative["starts"] == {}
    mean = coupled["starts"]["all"]
    assert any(coupled[name]["value"] < mean[name]["value"] for name in mean)
    for start, numbers in (("1", coupled), ("all", mean)):
        number = readme.format_number(numbers["in distribution"])
        assert f"| Coupled, short | 10 digits | {start} | {number} |" in filled
    assert "| Addition | 10 | 5,000 | 40,000 | 2 of 2 seeds | 1 of 2 seeds |" in filled
    assert "With fewer than 10,000 contexts: Copying (0 of 1 seeds)." in filled
    names = ("claims", "errata", "works.cho2025")
    for file in readme.FILES:
        marked = (f"<!-- numbers:{name} -->gone<!-- /numbers -->" for name in names)
        (home / file).write_text("\n".join(marked))
    filled, *others = (file.read_text() for file in readme.fill_readme(home))
    assert "gone" not in filled and {*others} == {filled}
    assert f"](notebooks/{load_errata()[1].notebook}.ipynb)" in filled
    works = [record for record in records() if record["paper"] != "carry"]
    seen = json.loads((paths.REPORTS / "seen.json").read_text())
    assert f"Of the works' {len(works)} claims: {seen['same']} reproduced by models" in filled
    assert sum(seen.values()) == len(works)


@pytest.mark.parametrize("place", ["foting", 'number("gone", "far")', "number("])
def test_a_marker_with_an_unknown_name_is_refused_in_one_line(place, home):
    values = readme.list_values(json.loads((paths.REPORTS / "numbers.json").read_text()))
    with pytest.raises(SettingsError, match=f"^'{{{{ {re.escape(place)} }}}}': .*; expected"):
        readme.fill_markers(f"<!-- numbers:{place} --><!-- /numbers -->", values)
