"""Imports point one way, and each stage of the pipeline depends on just the layers it reaches.

A module is known by its layer: a folder of lib/carry, or a file directly in it. A folder is taken
as a whole, since it may find its parts by listing itself.
"""

import ast
import re

import nbformat
import pytest

from carry import params, paths

LIBRARY = paths.ROOT / "lib" / "carry"
SHARED = ["settings", "params", "paths", "run", "batch", "randomness", "progress", "processes"]
ORDER = ["tasks", "formats", "positions", "models", "training"]
ORDER += ["evaluation", "analysis", "figures", "claims", "numbers", "site"]
# The runner starts notebooks from outside. No layer knows it.
OUTSIDE = ["pipeline", "__main__"]


def imported(source):
    """Return the layers that a piece of Python imports, wherever the import stands.

    >>> sorted(imported("from carry import paths; import carry.tasks.addition as a, torch"))
    ['paths', 'tasks']
    """
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports say the whole name"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return {name.split(".")[1] for name in names if name.startswith("carry.")}


def layers():
    """Return the source files of each layer that is there."""
    found = {}
    for path in sorted(LIBRARY.rglob("*.py")):
        parts = path.relative_to(LIBRARY).with_suffix("").parts
        found.setdefault(parts[0], []).append(path)
    assert not imported(found.pop("__init__")[0].read_text()), "or every import would reach it"
    return found


IMPORTS = {
    layer: set.union(*(imported(path.read_text()) for path in files)) - {layer}
    for layer, files in layers().items()
}


@pytest.mark.parametrize("layer", IMPORTS)
def test_imports_point_one_way(layer):
    assert layer in SHARED + ORDER + OUTSIDE, "a new layer needs its place in the order"
    if layer in SHARED:
        allowed = set(SHARED)
    elif layer in ORDER:
        allowed = set(SHARED + ORDER[: ORDER.index(layer)])
    else:
        allowed = set(SHARED + OUTSIDE)
    assert IMPORTS[layer] <= allowed


def reached(start):
    """Return the layers that are reached from some, themselves included."""
    found, waiting = set(), set(start)
    while waiting:
        found |= waiting
        waiting = set().union(*(IMPORTS[layer] for layer in waiting)) - found
    return found


def stages():
    """Return, for each stage that runs a notebook or a layer, the Python that it runs."""
    for name, stage in params.read(paths.ROOT / "dvc.yaml")["stages"].items():
        stage = stage.get("do", stage)
        notebook = re.search(r"carry notebook (\w+)", str(stage["cmd"]))
        layer = re.search(r"-m carry\.(\w+)", str(stage["cmd"]))
        if notebook:
            yield pytest.param(code(notebook[1]), stage, id=name)
        elif layer:
            yield pytest.param(f"import carry.{layer[1]}", stage, id=name)


def code(notebook):
    """Return the Python of a notebook."""
    cells = nbformat.read(paths.ROOT / "notebooks" / f"{notebook}.ipynb", as_version=4).cells
    sources = [cell.source for cell in cells if cell.cell_type == "code"]
    lines = [line for source in sources for line in source.splitlines()]
    return "\n".join(line for line in lines if not line.lstrip().startswith(("%", "!")))


@pytest.mark.parametrize(("source", "stage"), list(stages()))
def test_a_stage_depends_on_what_it_reaches(source, stage):
    needed = {
        f"lib/carry/{layer}" + ("" if (LIBRARY / layer).is_dir() else ".py")
        for layer in reached(imported(source))
    }
    stated = {path for path in stage["deps"] if path.startswith("lib/")}
    assert stated == needed, f"missing {needed - stated}, superfluous {stated - needed}"
