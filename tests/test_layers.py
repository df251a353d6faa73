"""Imports point one way, from package to package of lib/carry."""

import ast
import graphlib

import pytest

from carry import fingerprint

BASE = ["randomness", "progress", "processes", "fingerprint"]  # at most config is below them
ORDER = ["experiments", "jobs", "problems", "tasks", "formats", "positions", "ids", "data"]
ORDER = ["config", *ORDER, "models", "labels", "departures", "training", "evaluation"]
ORDER += ["certificates", "exports", "interpretability", "analyses", "results", "runs", "claims"]
ORDER += ["plots", "pages", "cli", "__main__"]
# Two files of carry.data hold the tensors that tasks and formats return: a layer of their own.
PROBLEMS = {"carry.data.problems", "carry.data.batch"}

MODULES = fingerprint.list_modules()


def layer_of(module):
    return "problems" if module in PROBLEMS else module.split(".")[1]


def imports():
    """Return the layers that each layer imports."""
    layers = {}
    for name, path in MODULES.items():
        # A module's own package, and `carry` itself, say nothing of the layers below.
        packages = {name.rpartition(".")[0], "carry", "carry.data"}
        reached = fingerprint.find_imports(path.read_text(encoding="utf-8")) & {*MODULES}
        if name != "carry":
            imported = {layer_of(module) for module in reached - packages}
            layers.setdefault(layer_of(name), set()).update(imported)
        else:
            assert not reached - packages, "every import of the library would import it"
    return {layer: imported - {layer} for layer, imported in layers.items()}


IMPORTS = imports()


@pytest.mark.parametrize("layer", IMPORTS)
def test_imports_point_one_way(layer):
    assert layer in BASE + ORDER, "a new package needs its place in the order"
    lower = ["config"] if layer in BASE else ORDER[: ORDER.index(layer)]
    assert IMPORTS[layer] <= {*BASE, *lower}


def test_no_files_import_each_other():
    """Imports by name, inside functions, count: they too would hide a circle."""
    graph = {}
    for module, path in MODULES.items():
        reached = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                reached |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
                reached.add(getattr(node.args[0], "value", None))
        graph[module] = reached & {*MODULES} - {module, module.rpartition(".")[0]}
    graphlib.TopologicalSorter(graph).prepare()  # raises for a circle, and names its files


def test_data_has_no_other_contents_of_its_own():
    """Else what tasks import with `carry.data` would be more than the two files."""
    tree = ast.parse(MODULES["carry.data"].read_text(encoding="utf-8"))
    assert [type(node) for node in tree.body] == [ast.Expr]


@pytest.mark.parametrize("module", MODULES)
def test_imports_use_absolute_names(module):
    """Fingerprints and the test above do not follow relative imports."""
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert all(node.level == 0 for node in imports)
