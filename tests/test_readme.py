"""The README's Python runs, its files exist, and its numbers are those of the pipeline."""

import json
import re

from carry.config.paths import ROOT
from carry.pipeline import readme_numbers

README = (ROOT / "README.md").read_text(encoding="utf-8")
RECIPE = re.compile(r"`[\w/.]+\.py`:$")  # the place of a file, see test_recipes.py


def split_blocks(text):
    """Return each block of Python with the line before it."""
    return re.findall(r"^([^\n]*)\n\n```python\n(.*?)```", text, re.MULTILINE | re.DOTALL)


def test_examples_run():
    """Examples build on each other, as a reader meets them; recipes are files of their own."""
    names: dict = {}
    examples = [code for line, code in split_blocks(README) if not RECIPE.search(line)]
    assert len(examples) == 3
    for example in examples:
        exec(compile(example, "README.md", "exec"), names)
    assert names["logits"].shape[0] == 8


def test_every_file_of_the_tree_exists():
    (tree,) = re.findall(r"## Where things are\n\n```\n(.*?)```", README, re.DOTALL)
    for line in tree.splitlines():
        name = line.split()[0]
        place = "lib/carry/" + name if line.startswith("  ") else name
        assert name == "data/" or (ROOT / place).exists(), place


def test_the_glossary_is_short_and_defines_each_term_once():
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", README.split("## Glossary")[1].split("##")[0], re.M)
    terms = [term for term, _ in rows[1:]]
    assert 10 < len(terms) <= 30 and len(set(terms)) == len(terms)


def test_links_and_pictures_exist():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert target.startswith("http") or (ROOT / target).exists(), target


def test_numbers_are_those_of_the_pipeline():
    quoted = json.loads((ROOT / "reports" / "numbers.json").read_text(encoding="utf-8"))
    assert readme_numbers.fill_numbers(README, quoted) == README
