"""The front door: its Python runs, its files exist, and its numbers are those of the pipeline."""

import json
import re

import pytest
import yaml

from carry import cli
from carry.config.paths import ROOT
from carry.pages import readme
from carry.plots.index import list_figures

README, CONTRIBUTING = (
    (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "CONTRIBUTING.md")
)
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "RELATED_WORK.md")
RECIPE = re.compile(r"`[\w/.]+\.py`:$")  # the place of a file, see test_recipes.py


def split_blocks(text):
    """Return each block of Python with the line before it."""
    return re.findall(r"^([^\n]*)\n\n```python\n(.*?)```", text, re.MULTILINE | re.DOTALL)


def read_section(text, title):
    """Return a section of a page, without those after it."""
    (section,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return section


def read_yaml(*parts):
    return yaml.safe_load(ROOT.joinpath(*parts).read_text(encoding="utf-8"))


def test_examples_run(tmp_path, monkeypatch):
    """Examples build on each other, as a reader meets them; recipes are files of their own."""
    folder = (
        "data/exports/addition_relative/seed_0"  # where `carry export addition_relative` writes
    )
    cli.run_command(["export", "addition_relative", "--to", str(tmp_path / folder)])
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    examples = [code for line, code in split_blocks(CONTRIBUTING) if not RECIPE.search(line)]
    assert len(examples) == 5 and not split_blocks(README)
    for example in examples:
        exec(compile(example, "CONTRIBUTING.md", "exec"), names)
    assert names["logits"].shape[0] == 8


def test_every_file_of_the_trees_exists():
    for section, folder in (
        (read_section(README, "Where things are"), ROOT),
        (read_section(CONTRIBUTING, "Packages of the library"), ROOT / "lib" / "carry"),
    ):
        tree = section.split("```")[1].strip()
        for line in tree.splitlines():
            assert (folder / line.split()[0]).exists(), line


def test_the_packages_are_complete():
    """Every package of the library is in the list."""
    listed = read_section(CONTRIBUTING, "Packages of the library")
    packages = (path.parent.name for path in (ROOT / "lib" / "carry").glob("*/__init__.py"))
    assert not [name for name in packages if f"\n{name}/ " not in listed]


def test_the_glossaries_define_each_term_once():
    sections = read_section(README, "Glossary") + read_section(CONTRIBUTING, "More terms")
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", sections, re.MULTILINE)
    terms = [term for names, _ in rows if names != "term" for term in names.split(", ")]
    assert terms and len(set(terms)) == len(terms)


@pytest.mark.parametrize("page", PAGES)
def test_links_and_pictures_exist(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)]+)\)", text):
        path, _, anchor = target.partition("#")
        if target.startswith("http"):
            continue
        assert (ROOT / path).exists(), target
        linked = (ROOT / (path or page)).read_text(encoding="utf-8") if anchor else ""
        titles = re.findall(r"^#+ (.+)$", linked, re.MULTILINE)
        assert not anchor or anchor in {
            re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles
        }, target


def test_alternative_texts_are_those_of_the_figures():
    """A picture is described by its title and the first sentences of its caption."""
    pictures = re.findall(r"!\[([^]]*)\]\(reports/figures/(.+)/(\w+)\.png\)", README)
    assert pictures
    for text, notebook, name in pictures:
        figure = list_figures()[name]  # whose texts the notebook writes to NAME.json
        sentences = re.split(r"(?<=\.) ", figure.caption)
        texts = [f"{figure.title}. {' '.join(sentences[:n])}" for n in range(1, len(sentences) + 1)]
        assert figure.notebook == notebook and text in texts


def test_every_command_is_described():
    """`carry --help` and the pages agree on the commands of users."""
    commands = re.findall(r"^    (\w+) +\S", cli.make_parser().format_help(), re.MULTILINE)
    assert {"ask", "export", "run"} <= set(commands)
    listed = read_section(CONTRIBUTING, "Commands")
    for name in commands[: commands.index("notebook")]:  # those of the pipeline are last
        assert f"\ncarry {name} " in listed, name
        assert re.search(rf"\b{name}\b", read_section(README, "Where things are")), name


def test_numbers_are_those_of_the_pipeline():
    numbers = json.loads((ROOT / "reports" / "numbers.json").read_text(encoding="utf-8"))
    for name in readme.FILES:
        text = (ROOT / name).read_text(encoding="utf-8")
        assert readme.fill_markers(text, readme.list_values(numbers)) == text, name


def test_the_citation_has_the_project_and_the_four_works():
    citation = read_yaml("CITATION.cff")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{citation["version"]}"' in project and citation["license"] == "MIT"
    (author,) = citation["authors"]
    assert f"Copyright (c) 2026 {author['name']}" in (ROOT / "LICENSE").read_text("utf-8")
    works = read_section(README, "The works")
    assert len(citation["references"]) == 4
    for work in citation["references"]:
        assert work["title"] in works and work["authors"] and work["year"]
        assert f"({work['url']})" in works if "url" in work else "thesis" in work["type"]


def test_the_workflow_tests_each_python_and_makes_targets_that_exist():
    workflow = read_yaml(".github", "workflows", "ci.yml")
    jobs = workflow["jobs"]
    supported = re.search(
        r'requires-python = ">=3\.(\d+),<3\.(\d+)"', (ROOT / "pyproject.toml").read_text("utf-8")
    )
    versions = [f"3.{minor}" for minor in range(int(supported[1]), int(supported[2]))]
    assert jobs["test"]["strategy"]["matrix"]["python"] == versions
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    (axe,) = (command for command in commands if "axe-core" in command)
    (set_by,) = re.findall(r'"(\w+)=\S+axe\.min\.js" >> "\$GITHUB_ENV"', axe)
    assert f'"{set_by}"' in (ROOT / "tests" / "test_site_browser.py").read_text(encoding="utf-8")
    targets = {target for command in commands for target in re.findall(r"make (\w+)", command)}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert targets >= {"test", "site"}
    for target in targets:
        assert f"\n{target}: " in makefile
