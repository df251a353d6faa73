"""The README's Python runs, its files exist, and its numbers are those of the pipeline."""

import json
import re

from carry.config.paths import ROOT
from carry.pipeline import readme_numbers

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_examples_run():
    """They build on each other, as a reader meets them."""
    names: dict = {}
    examples = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(examples) == 5
    for example in examples:
        exec(compile(example, "README.md", "exec"), names)
    assert names["logits"].shape[0] == 8


def test_every_file_of_the_tree_exists():
    (tree,) = re.findall(r"## Where things are\n\n```\n(.*?)```", README, re.DOTALL)
    places, made = [], {"data/"}
    for line in tree.splitlines():
        name = line.split()[0]
        inside = line.startswith("  ")
        places.append("lib/carry/" + name if inside else name)
    assert [place for place in places if place not in made and not (ROOT / place).exists()] == []


def test_links_and_pictures_exist():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert target.startswith("http") or (ROOT / target).exists(), target


def test_numbers_are_those_of_the_pipeline():
    quoted = json.loads((ROOT / "reports" / "numbers.json").read_text(encoding="utf-8"))
    assert readme_numbers.fill(README, quoted) == README
