"""The site opens from disk: every link of it leads somewhere, and nothing comes from a network."""

import gzip
import html
import json
import re
from collections import Counter
from html.parser import HTMLParser

import pytest

from carry import claims
from carry.config import paths, profiles
from carry.config.settings import SettingsError
from carry.pages import readme, site
from carry.pages.site import content, figures, links, live, story, works
from carry.pipeline.stages import STAGES, find_executed
from carry.plots import index
from made_up_site import FIGURES, ITEMS, ROWS, STORY, caption, make_project, title

NOTEBOOKS = ["tour", *(name.rpartition("/")[2] for name in FIGURES)]
VOID = {"area", "br", "col", "hr", "img", "input", "link", "meta", "wbr"}
READABLE = 4.5  # the least contrast of text, WCAG 2 AA
LARGEST_SITE = 12_000_000


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:  # undone also where something below raises
        models = {row: live.export_model(row) for row in live.ROWS}  # once: it takes seconds
        patch.setattr(live, "export_model", models.get)
        yield make_project(tmp_path_factory.mktemp("project"), patch)


@pytest.fixture(scope="module")
def first(home):
    return site.write_site("cpu")


@pytest.fixture(scope="module")
def texts(first):
    return {
        path.relative_to(first.parent).as_posix(): path.read_text(encoding="utf-8")
        for path in first.parent.rglob("*.html")
    }


class Page(HTMLParser):
    """A page as a list of tags: name, attributes and text inside."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs), []))
        if tag not in VOID:
            self.open.append(self.tags[-1])

    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        for _, _, inside in self.open:
            inside.append(data)

    def find(self, *names):
        return [(tag, of, " ".join("".join(t).split())) for tag, of, t in self.tags if tag in names]


def records():
    return json.loads(paths.reports_path("cpu", "claims.json").read_text())


def test_it_has_a_page_for_each_work_notebook_and_list(texts):
    stages = [name if not stage.parameter else f"{name}_addition_schemes"
              for name, stage in STAGES.items()]  # fmt: skip
    written = [name for name in stages if f"notebooks/{name}.html" in texts]
    assert written == ["problems", "train_addition_schemes", "evaluate_addition_schemes", "claims"]
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
    number = json.loads(paths.reports_path("cpu", "numbers.json").read_text())["rows"]
    twice = readme_numbers.format_number(number["addition_nope"]["twice as long"])
    assert f"All begins here. NoPE: {twice}." in text
    assert "Never" not in text, "the row has no results"
    (record,) = (one for one in records() if one["id"] == "abacus_ahead_of_nope")
    assert record["measured"] and f"{record['measured']:.1%}" in text
    assert 'src="figures/ids.svg"' in text and "The unseen: not drawn" in text
    assert 'href="ledger.html#claim-certified_addition"' in text
    for work in works.read_works().values():
        assert work["title"] in text and html.unescape(work["bibtex"]) in text
    assert text.count("@") >= 5 and '<th scope="row"><span' in text, "citations and a table"


def test_the_page_of_a_work_has_its_items_claims_and_figures_in_order(texts):
    text = html.unescape(texts["works/mcleish2024.html"])
    mine = [record for record in records() if record["paper"] == "mcleish2024"]
    for record in mine:
        assert text.count(f'ledger.html#claim-{record["id"]}"') == 1
    second, third = (text.index(f'id="{name}"') for name in ("fig-2", "fig-3"))
    assert second < text.index("claim-abacus_ahead_of_nope") < third
    assert third < text.index("claim-loops_help_at_equal_depth") < text.index('id="table-4"')
    assert text.index('id="claims-other"') < text.index("claim-abacus_20_to_100")
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
    page = Page(texts["ledger.html"])
    rows = [of for tag, of, _ in page.find("tr") if of.get("id")]
    assert [of["id"] for of in rows] == [f"claim-{record['id']}" for record in records()]
    assert {of["data-verdict"] for of in rows} == {"holds", "fails", "not tested"}
    (form,) = (of for tag, of, _ in page.find("form") if of["id"] == "filters")
    assert "hidden" in form, "until its script runs"


def test_notebooks_lead_to_each_other_in_order_and_show_the_figures_of_the_site(texts, first):
    order = [*NOTEBOOKS, "problems"]
    for before, after in zip(order, order[1:], strict=False):
        page = Page(texts[f"notebooks/{before}.html"])
        steps = {of["rel"]: of["href"] for tag, of, _ in page.find("a") if "rel" in of}
        assert steps["next"] == f"{after}.html" and before in (order[0], *order)
        back = Page(texts[f"notebooks/{after}.html"])
        assert ("prev", f"{before}.html") in [
            (of.get("rel"), of["href"]) for _, of, _ in back.find("a")
        ]
    text = texts["notebooks/how_far.html"]
    assert 'src="../figures/far.svg"' in text and "base64" not in text
    assert html.unescape(text).count("Sums, with far < 3 in <code>code</code>.") == 1
    links = [of["href"] for _, of, _ in Page(text).find("a")]
    assert {"../figures/far.svg", "../figures/far.csv.gz", "how_far_1.png"} <= {*links}
    (picture,) = (of for _, of, _ in Page(text).find("img") if of["src"] == "how_far_1.png")
    assert (picture["alt"], picture["width"]) == ("Picture: What is how_far?", "1")
    assert (first.parent / "notebooks" / "how_far_1.png").exists()


def test_long_tables_are_compressed(first):
    folder = first.parent / "figures"
    assert gzip.decompress((folder / "far.csv.gz").read_bytes()).startswith(b"label,accuracy\n")
    assert (folder / "steps.csv").exists() and not (folder / "far.csv").exists()
    assert not (folder / "unseen.svg").exists()


def test_it_loads_nothing_from_a_network_and_its_links_lead_somewhere(first, texts):
    assert site.check_links(first.parent) == []
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
        ("a.js", 'fetch("x.json")', "a.js would load another file"),
        ("a.js", 'const a = [1]; fetch("x.json");\n', "a.js would load another file"),
        ("a.css", "@import 'b.css';", "a.css would load another file"),
    ],
)
def test_a_load_and_a_broken_link_are_found(name, content, fault, tmp_path):
    (tmp_path / name).write_text(content)
    (tmp_path / "data.js").write_text('const a = ["fetch // x.y"];\n')
    (found,) = links.check_links(tmp_path)
    assert fault in found


def test_pictures_have_sizes_and_texts_from_their_data(texts):
    pictures = [(of, name) for name, text in texts.items() for _, of, _ in Page(text).find("img")]
    assert len(pictures) > 20
    for of, name in pictures:
        assert of["loading"] == "lazy" and int(of["width"]) and int(of["height"]), name
        assert of["alt"].startswith(("The ", "Picture: ")), name
    alts = {of["src"].rpartition("/")[2]: of for of, _ in pictures}
    numbers = "Its numbers: NoPE, accuracy 0.988; NoPE, accuracy 0.988."
    assert alts["steps.svg"]["alt"] == f"The steps. Sums, with steps < 3 in code. {numbers}"
    assert "numbers" not in alts["far.svg"]["alt"]
    assert (alts["wide.svg"]["width"], alts["far.svg"]["width"]) == ("1152", "384")


def test_pages_can_be_read_without_seeing_them(texts):
    """One main part, headings in order, a name for each link and field, no id twice."""
    for name, text in texts.items():
        page = Page(text)
        levels = [int(tag[1]) for tag, _, _ in page.find("h1", "h2", "h3", "h4", "h5")]
        assert levels[0] == 1 and levels.count(1) == 1, name
        assert all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False))
        assert len(page.find("main")) == len(page.find("title")) == 1
        assert all("aria-label" in of for _, of, _ in page.find("nav"))
        ids = Counter(of["id"] for _, of, _ in page.tags if "id" in of)
        assert not [one for one, count in ids.items() if count > 1], name
        for _, of, inside in page.find("a", "button"):
            picture = of.get("class") == "picture"  # its alt text is its name
            assert inside or picture or of.get("aria-label"), (name, of)
        labelled = {of.get("for") for _, of, _ in page.find("label")}
        within = "".join(re.findall(r"<label>.*?</label>", text, re.DOTALL))
        for _, of, _ in page.find("input", "select"):
            assert of.get("id") in labelled or f'"{of.get("id", of.get("value"))}"' in within
        assert page.find("html")[0][1]["lang"] == "en"
        assert page.find("a")[0][1] == {"class": "skip", "href": "#main"}
        for _, of, _ in page.find("div"):
            if of.get("class") == "wide":
                assert of["tabindex"] == "0" and (of.keys() & {"aria-label", "aria-labelledby"})
        for _, of, _ in page.find("th"):
            assert "scope" in of or "notebooks/" in name


def luminance(color):
    parts = [int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_texts_stand_out_in_light_and_in_dark(first):
    """Pairs of colours that stand on each other, and those of highlighted code."""
    css = (site.HERE / "style.css").read_text(encoding="utf-8")
    light, dark = (
        dict(re.findall(r"--([\w-]+): (#\w{6})", block))
        for block in re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    )
    assert light.keys() == dark.keys()
    for colors in (light, dark):
        for text, ground in [
            *((text, ground) for text in ("ink", "faint", "link") for ground in ("paper", "code")),
            ("ink", "mark"), ("link", "mark"), ("faint", "mark"), ("paper", "link"),
        ]:  # fmt: skip
            assert contrast(colors[text], colors[ground]) >= READABLE, (text, ground)
    for ground in re.findall(r"^\.\w[^{]*\{ background: (#\w{6}); \}", css, re.MULTILINE):
        assert contrast("#ffffff", ground) >= READABLE, ground
    for verdict in claims.VERDICTS:
        assert re.search(rf"\.{verdict.replace(' ', '-')}\b", css)
    code = (first.parent / "style.css").read_text(encoding="utf-8").removeprefix(css)
    for colors, part in zip((light, dark), code.split("@media"), strict=True):
        for color, others in re.findall(r"\.highlight \.\w+ \{ color: (#\w{6})(.*)", part):
            assert "background" in others or contrast(color, colors["code"]) >= READABLE


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
    site.write_site("cpu")
    assert {path: path.read_bytes() for path in first.parent.rglob("*.*")} == before


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("reports/claims.json", "reports/claims.json is not there; expected the stages before"),
        ("data/cpu/executed/cho2025/does_it_help.ipynb", "cho2025/does_it_help.ipynb is not there"),
        ("reports/figures/mcleish2024/how_far/far.svg", "how_far/far.svg is not there"),
        ("reports/figures/mcleish2024/how_far/far.csv", "how_far/far.csv is not there"),
        ("reports/figures/mcleish2024/how_far/far.json", "how_far/far.json is not there"),
    ],
)
def test_what_is_missing_is_named_in_one_line(home, place, message):
    path = home / place
    kept = path.read_bytes()
    path.unlink()
    with pytest.raises(SettingsError, match=f"^site: .*{message}") as error:
        content.read_content("cpu")
    path.write_bytes(kept)
    assert "\n" not in str(error.value)


def test_a_notebook_that_was_run_before_it_changed_is_refused(home):
    path = find_executed("cho2025/does_it_help", "cpu")
    kept = path.read_text()
    path.write_text(kept.replace("steps", "others"))
    with pytest.raises(SettingsError, match="does not show the figure 'steps'; expected the noteb"):
        content.read_content("cpu")
    path.write_text(kept)


def test_a_notebook_of_a_stage_may_be_missing(home):
    path = STAGES["train"].executed("cpu", "addition_schemes")
    kept = path.read_bytes()
    path.unlink()
    names = [page.name for page in content.read_content("cpu").pages]
    path.write_bytes(kept)
    assert "train_addition_schemes" not in names and "evaluate_addition_schemes" in names


def test_a_profile_may_draw_the_figures_of_a_few_works(home, monkeypatch, tmp_path):
    known = profiles.load_profile("cpu")
    monkeypatch.setattr(profiles, "load_profile", lambda name: {**known, "figures": ["overview"]})
    text = html.unescape(site.write_site("cpu", tmp_path).read_text(encoding="utf-8"))
    assert "The unseen: not drawn" in text and "is_it_proved.html" not in text
    assert (tmp_path / "works" / "cho2025.html").exists()
    assert not (tmp_path / "notebooks" / "does_it_help.html").exists()


KNOWN = (["ids", "unseen"], ["abacus_ahead_of_nope", "certified_addition", "relative_1000_digits"])


def load_story(tmp_path, **changes):
    """Load the made-up story with changes of its first chapter."""
    chapters = [{**STORY["chapters"][0], **changes}, *STORY["chapters"][1:]]
    path = tmp_path / "story.yaml"
    path.write_text(json.dumps({**STORY, "chapters": chapters}))  # JSON is YAML
    return story.load_story(*KNOWN, [*STORY["works"]], path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"figure": "idz"}, "story.chapters.0.figure: unknown figure 'idz', did you mean 'ids'"),
        ({"claims": ["gone"]}, "story.chapters.0.claims: unknown claim 'gone', expected one of"),
        ({"table": "foot"}, "story.chapters.0.table: unknown table 'foot', did you mean 'footing'"),
        ({"txt": "a"}, "story.chapters.0.txt: unknown setting; expected none"),
        ({"text": ["{claim gone}"]}, "story: unknown claim 'gone', expected one of"),
        ({"text": ["{number gone, trained}"]}, "story: unknown row 'gone', expected one of"),
        ({"text": ["{number addition_nope, far}"]}, "unknown number of addition_nope 'far'"),
        ({"text": ["{number addition_nope, trained, 2}"]}, "story: unknown start '2', expected"),
        ({"text": ["{percent addition_nope, far}"]}, "story: unknown kind of number 'percent'"),
        ({"text": ["all {of it"]}, "story: 'all {of it' is not valid; expected {kind name}"),
    ],
)
def test_a_story_with_unknown_names_is_refused_in_one_line(changes, message, tmp_path):
    with pytest.raises(SettingsError, match=re.escape(message)) as error:
        load_story(tmp_path, **changes)
    assert "\n" not in str(error.value)


def test_a_story_has_all_works_in_their_order(tmp_path):
    (tmp_path / "story.yaml").write_text(json.dumps(STORY))
    with pytest.raises(SettingsError, match=r"story.works: .*; expected cho2025, mine"):
        story.load_story(*KNOWN, ["cho2025", "mine"], tmp_path / "story.yaml")


def test_the_story_names_figures_and_claims_that_exist():
    names = [claim.id for claim in claims.load_claims()]
    chapters = profiles.read_yaml(story.FILE)["chapters"]
    known = index.list_figures(profiles.ROOT / "notebooks")
    missing = {chapter["figure"] for chapter in chapters} - {*known}
    if missing:
        pytest.skip(f"notebooks that are not converted yet have {missing}")
    told = story.load_story(known, names, (*works.read_works(), works.OWN))
    assert len(told.chapters) == 6
    for chapter in told.chapters:
        assert 2 <= len(chapter.text) <= 4 and 1 < len(chapter.claims) <= 6
        plain = story.PLACE.sub("", " ".join(chapter.text))
        assert not re.search(r"%|\d\.\d", plain), "a number that was typed"


def test_a_shortened_picture_has_the_same_styles():
    (first, *_) = sorted((profiles.ROOT / "reports" / "figures").rglob("*.svg"))
    text = first.read_text(encoding="utf-8")
    short = figures.shorten_svg(text)
    names = dict(re.findall(r"\.(s\d+)\{([^}]*)\}", short))
    long = re.sub(r' class="(s\d+)"', lambda match: f' style="{names[match[1]]}"', short)
    assert len(short) < len(text) and figures.STYLE.findall(long) == figures.STYLE.findall(text)


def test_the_committed_figures_leave_room_for_the_other_pages():
    folder = profiles.ROOT / "reports" / "figures"
    assert [*folder.rglob("*.svg")]
    sizes = [
        len(figures.pack_file(path.name + ".gz" * (path.suffix == ".csv"), path.parent))
        for path in folder.rglob("*.*")
        if path.suffix in (".svg", ".csv")
    ]
    assert sum(sizes) < 0.75 * LARGEST_SITE


def test_numbers_are_filled_in_between_markers(home):
    found = json.loads(paths.reports_path("cpu", "numbers.json").read_text())
    assert list(found["rows"]) == ROWS
    relative = found["rows"]["addition_relative"]["1000 digits"]
    assert relative == {**relative, "value": 1.0, "n": 300, "seeds": 3, "range": [1.0, 1.0]}
    low, high = relative["interval"]
    assert low <= high <= 1.0
    certificates = {
        "addition_relative": {
            "trained": 10, "parameters": 5000, "contexts": 40000, "exact": 2, "seeds": 2,
        },
        "copying_relative": {
            "trained": 10, "parameters": 5000, "contexts": 400, "exact": 0, "seeds": 1,
        },
    }  # fmt: skip
    text = (
        "At 100: <!-- numbers:addition_relative.100 digits -->old<!-- /numbers -->, "
        "<!-- numbers:addition_relative.100 digits.basis --><!-- /numbers -->. "
        "<!-- numbers:footing --><!-- /numbers --><!-- numbers:headlines --><!-- /numbers -->"
        "<!-- numbers:certificates --><!-- /numbers -->"
    )
    filled = readme_numbers.fill_numbers(text, {**found, "certificates": certificates})
    assert "<!-- numbers:addition_relative.100 digits -->100%<!-- /numbers -->" in filled
    basis = readme_numbers.format_basis(found["rows"]["addition_relative"]["100 digits"])
    assert f".basis -->{basis}<!-- /numbers -->" in filled
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
        number = readme_numbers.format_number(numbers["in distribution"])
        assert f"| Coupled, short | 10 digits | {start} | {number} |" in filled
    assert "| Addition | 10 | 5,000 | 40,000 | 2 of 2 seeds |" in filled
    assert "With fewer than 10,000 contexts: Copying (0 of 1 seeds)." in filled
    with pytest.raises(SettingsError, match="did you mean 'footing'"):
        readme_numbers.fill_numbers("<!-- numbers:foting --><!-- /numbers -->", found)
    readme = home / "README.md"
    readme.write_text("<!-- numbers:claims -->gone<!-- /numbers -->")
    assert "gone" not in readme_numbers.fill_readme(readme).read_text()
