"""The site opens from disk: every link of it leads somewhere, and nothing comes from a network."""

import html
import json
import shutil

import nbformat
import pytest

from carry import claims
from carry.config import paths, profiles
from carry.config.settings import SettingsError
from carry.pipeline import readme_numbers, site
from carry.pipeline.site import live
from carry.pipeline.stages import STAGES, find_executed
from carry.plots import gallery, load
from made_up import certificates, results

ROWS = ["addition_nope", "addition_coupled_short", "addition_relative"]


def executed(path, code="print(6 * 7)"):
    """Write a notebook as if it had run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = nbformat.v4
    text = "# What is it?\n\n[train](train.ipynb) [far](../README.md) [out](https://example.org)"
    shown = [
        new.new_output("stream", name="stdout", text="42\n"),
        new.new_output("display_data", data={"text/html": "<table><tr><td>1</td></tr></table>"}),
    ]
    cells = [new.new_markdown_cell(text), new.new_code_cell(code, outputs=shown)]
    nbformat.write(new.new_notebook(cells=cells), path)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Make a project folder with all that the site is made from, in a profile of three rows."""
    root = tmp_path_factory.mktemp("project")
    real = profiles.load_profile  # a claim counts the weights of the paper's profile
    cpu = real("cpu")
    few = {"rows": {row: cpu["rows"].get(row, {}) for row in ROWS}, "problems": {"addition": {}}}
    few["studies"] = {"addition_schemes": ROWS}
    none = {"analyses": {}, "variant_sets": {}, "certificates": [], "others": None}

    def load_profile(profile):
        return {**cpu, **few, **none} if profile == "cpu" else real(profile)

    with pytest.MonkeyPatch.context() as patch:  # undone also where something below raises
        patch.setattr(paths, "ROOT", root)
        patch.setattr(profiles, "load_profile", load_profile)
        patch.setattr(load, "read_certificates", lambda profile: certificates())
        results(root, ROWS)
        for row in live.ROWS:  # models that the live page runs
            study = profiles.find_study(row)
            for place in (
                paths.models_folder(paths.PUBLISHED, study, row) / "seed_0.safetensors",
                paths.certificate_file(paths.PUBLISHED, study, row),
            ):
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(profiles.ROOT / place.relative_to(root), place)
        for drawn in gallery.NOTEBOOKS.values():
            figures = paths.figures_folder("cpu", drawn.source)
            figures.mkdir(parents=True)
            for name in drawn.entries:  # what is in them is for test_figures.py to look at
                for ending in ("svg", "csv"):
                    (figures / f"{name}.{ending}").write_text(f"{name}.{ending}")
        claims.write_ledger("cpu")
        readme_numbers.write_numbers("cpu")
        for stage in STAGES.values():
            executed(stage.executed("cpu", "addition_schemes" if stage.parameter else None))
        for page in site.list_pages("cpu"):
            executed(page.source)
        executed(root / "notebooks" / "tour.ipynb")
        yield root


@pytest.fixture(scope="module")
def first(home):
    return site.write_site("cpu")


def test_it_has_all_figures_claims_and_notebooks(first):
    text = first.read_text()
    for name in gallery.FIGURES:
        assert f'src="figures/{name}.svg"' in text
    for record in json.loads(paths.reports_path("cpu", "claims.json").read_text()):
        assert f'id="claim-{record["id"]}"' in text
    for page in site.list_pages("cpu"):
        assert "42" in (first.parent / "notebooks" / f"{page.name}.html").read_text()
    assert len(site.list_pages("cpu")) == 1 + len(gallery.NOTEBOOKS) + 2 + 2
    names = [page.name for page in site.list_pages("cpu")]
    assert len(set(names)) == len(names)


def test_figures_stand_under_their_questions_with_their_source_and_what_is_missing(first):
    text = html.unescape(first.read_text())
    for place, drawn in gallery.NOTEBOOKS.items():
        part = text.split(f'<h3 id="{place}">')[1].split("<h3")[0]
        assert drawn.question in part
        assert [name for name in gallery.FIGURES if f'id="figure-{name}"' in part] == list(
            drawn.entries
        )
        for entry in drawn.entries.values():
            assert (
                entry.source in part
                and entry.write_caption(dict.fromkeys(ROWS, "cpu"), "cpu") in part
            )
    assert "mcleish2024, Fig. 2" in text and "addition_abacus_looped_16" in text


def test_it_loads_nothing_from_a_network_and_its_links_lead_somewhere(first):
    assert site.check_links(first.parent) == []
    tour = (first.parent / "notebooks" / "tour.html").read_text()
    assert 'href="train.html"' not in tour and "README.md" not in tour  # no such pages
    assert 'href="https://example.org"' in tour  # a link that a reader may follow
    for path in first.parent.rglob("*.html"):
        assert ("<script" in path.read_text()) == (path.name == "live.html")
    assert 'href="live.html"' in first.read_text()


def test_two_writings_are_the_same_and_leave_nothing_behind(first):
    before = {path: path.read_bytes() for path in first.parent.rglob("*.*")}
    (first.parent / "notebooks" / "train_gone.html").write_text("old")
    site.write_site("cpu")
    assert {path: path.read_bytes() for path in first.parent.rglob("*.*")} == before


def test_a_script_from_a_network_is_refused(home, first):
    bad = '<script src="https://example.org/x.js"></script><a href="gone.html">x</a>'
    page = first.parent / "bad.html"
    page.write_text(bad)
    faults = site.check_links(first.parent)
    page.unlink()
    assert len(faults) == 2 and "network" in faults[0] and "gone.html" in faults[1]
    bad = first.parent / "bad.js"
    bad.write_text('fetch("x.json")')
    assert site.check_links(first.parent) == ["bad.js would load another file"]
    bad.unlink()


def test_a_notebook_of_figures_must_be_there_and_one_of_a_stage_may_be_missing(home, first):
    path = find_executed("cho2025/how_small_can_it_be", "cpu")
    kept = path.read_bytes()
    path.unlink()
    with pytest.raises(SettingsError, match="cho2025/how_small_can_it_be.ipynb is not there"):
        site.write_site("cpu")
    path.write_bytes(kept)
    path = STAGES["train"].executed("cpu", "addition_schemes")
    kept = path.read_bytes()
    path.unlink()
    site.write_site("cpu")
    assert not (first.parent / "notebooks" / "train_addition_schemes.html").exists()
    path.write_bytes(kept)
    site.write_site("cpu")


def test_numbers_are_filled_in_between_markers(home):
    found = json.loads(paths.reports_path("cpu", "numbers.json").read_text())
    assert list(found["rows"]) == ROWS
    relative = found["rows"]["addition_relative"]["1000 digits"]
    assert relative == {**relative, "value": 1.0, "n": 300, "seeds": 3, "range": [1.0, 1.0]}
    assert relative["interval"][0] < 1.0
    readme = home / "README.md"
    marker = "<!-- numbers:addition_relative.100 digits -->"
    readme.write_text(
        f"At 100: {marker}old<!-- /numbers -->. <!-- numbers:footing --><!-- /numbers -->"
        "<!-- numbers:accuracy --><!-- /numbers -->"
        "<!-- numbers:certificates --><!-- /numbers -->"
    )
    text = readme_numbers.fill_readme(readme).read_text()
    assert f"{marker}100%<!-- /numbers -->" in text
    footing, others = (part.split("<!-- /")[0] for part in text.split("numbers:")[2:4])
    assert "| NoPE |" in footing and "| Abacus read relatively |" in others
    assert "1000 digits" in others and "1000 digits" not in footing, "columns without a number"
    # The papers' start and the others are lines of their own; a marker has the first.
    coupled, relative = (found["rows"][row] for row in ROWS[1:])
    assert coupled["start"] == "1" and [*coupled["starts"]] == ["best", "all"]
    assert relative["start"] == "1" and relative["starts"] == {}
    best = coupled["starts"]["best"]
    assert any(coupled[name]["value"] < best[name]["value"] for name in best)
    for start, numbers in (("1", coupled), ("best", best)):
        number = readme_numbers.format_number(numbers["in distribution"])
        assert f"| Coupled, short | 10 digits | {start} | {number} |" in text
    assert "| Addition | 10 | 5,000 | 400 | 2 of 2 seeds |" in text
    assert "| Copying | 10 | 5,000 | 400 | 0 of 1 seeds |" in text
    assert readme_numbers.fill_readme(readme).read_text() == text
    with pytest.raises(SettingsError, match="did you mean 'accuracy'"):
        readme_numbers.fill_numbers("<!-- numbers:acuracy --><!-- /numbers -->", found)
