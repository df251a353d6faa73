"""Which files of the library a piece of work reaches, so that no other file makes it run again."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

LIBRARY = Path(__file__).parent


def library_modules() -> dict[str, Path]:
    """Return the files of the library by the names of their modules.

    >>> library_modules()["carry.tasks"].name, library_modules()["carry.tasks.addition"].name
    ('__init__.py', 'addition.py')
    """
    found = {}
    for path in sorted(LIBRARY.rglob("*.py")):
        name = ".".join(path.relative_to(LIBRARY.parent).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


def imported_modules(source: str, known: Iterable[str]) -> set[str]:
    """Return the modules that a piece of Python imports, wherever the import stands.

    A module brings the packages that it lies in.

    >>> known = ["carry", "carry.tasks", "carry.tasks.addition", "carry.config.paths"]
    >>> sorted(imported_modules("from carry.tasks import addition, build; import torch", known))
    ['carry', 'carry.tasks', 'carry.tasks.addition']
    """
    return {part for name in _names(source) for part in _within(name)} & set(known)


@cache
def _names(source: str) -> tuple[str, ...]:  # many rows and stages reach the same files
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return tuple(names)


def reachable_files(start: Iterable[str]) -> dict[str, Path]:
    """Return the files of the modules that some modules reach by imports, their own included.

    Modules that are chosen by name at run time (`carry.config.settings.choose_class`) are for the caller to add.

    >>> list(reachable_files(["carry.config.paths"]))
    ['carry', 'carry.config.paths']
    """
    known = library_modules()
    found: set[str] = set()
    waiting = {part for name in start for part in _within(name)} & set(known)
    while waiting:
        found |= waiting
        sources = [known[name].read_text() for name in waiting]
        waiting = set().union(*(imported_modules(source, known) for source in sources)) - found
    return {name: known[name] for name in sorted(found)}


def hash_code(start: Iterable[str]) -> str:
    """Return one line for each file that is reached: a hash of its content, and its path."""
    return "".join(hash_line(path.read_bytes(), path) for path in reachable_files(start).values())


def hash_line(content: bytes, path: Path) -> str:
    """Return the line of one file.

    >>> hash_line(b"", LIBRARY / "mine.py")
    'e3b0c44298fc1c14  lib/carry/mine.py\\n'
    """
    root = LIBRARY.parent.parent
    return f"{hashlib.sha256(content).hexdigest()[:16]}  {path.relative_to(root).as_posix()}\n"


def _within(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts) + 1)]
