"""Imports point one way. A module is known by its layer: a folder of lib/carry, or a file in it."""

import ast

import pytest

from carry import fingerprint

SHARED = ["settings", "params", "paths", "run", "batch", "randomness", "progress", "processes"]
SHARED += ["fingerprint"]
ORDER = ["tasks", "data_sets", "problem_sets", "formats", "positions", "models", "training"]
ORDER += ["evaluation", "certificates", "analysis", "ablations", "figures", "claims"]
ORDER += ["numbers", "site"]
# The runner starts notebooks from outside; no layer knows it, and it knows none, since all that it
# imports is waited for in every stage. `sources` and `questions` are stages of their own.
COMMANDS = ["problem_sets", "certificates"]  # that need no notebook
OUTSIDE = ["pipeline", "sources", "__main__"]


def imports():
    """Return the layers that each layer imports."""
    known = fingerprint.library_modules()
    found = {}
    for name, path in known.items():
        reached = fingerprint.imported_modules(path.read_text(), known) - {"carry"}
        layer = ".".join(name.split(".")[1:2])
        found.setdefault(layer, set()).update(module.split(".")[1] for module in reached)
    assert not found.pop(""), "or every import would reach it"
    return {layer: of - {layer} for layer, of in found.items()}


IMPORTS = imports()


@pytest.mark.parametrize("layer", IMPORTS)
def test_imports_point_one_way(layer):
    assert layer in SHARED + ORDER + OUTSIDE, "a new layer needs its place in the order"
    if layer in SHARED:
        allowed = set(SHARED)
    elif layer in ORDER:
        allowed = set(SHARED + ORDER[: ORDER.index(layer)])
    else:
        known = ORDER if layer == "sources" else COMMANDS if layer == "__main__" else []
        allowed = set(SHARED + OUTSIDE + known)
    assert IMPORTS[layer] <= allowed


@pytest.mark.parametrize("module", fingerprint.library_modules())
def test_imports_say_the_whole_name(module):
    """A relative import would be missed by fingerprints, and by the test above."""
    tree = ast.parse(fingerprint.library_modules()[module].read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert all(node.level == 0 for node in imports)
