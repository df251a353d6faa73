"""Hashes of the code that a job depends on, and what else its results came from.

Code counts by its syntax tree, without comments and docstrings. Settings, paths, messages and
progress do not count: what they change is in the settings of a job.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import platform
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

LIBRARY = Path(__file__).parent
UNCOUNTED = ("carry.config", "carry.experiments", "carry.jobs", "carry.fingerprint",
             "carry.processes", "carry.progress")  # fmt: skip
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def list_versions() -> dict[str, str]:
    """Return the versions of Python, torch and numpy, with which results change.

    >>> [*list_versions()]
    ['python', 'torch', 'numpy']
    """
    versions = {name: importlib.metadata.version(name) for name in ("torch", "numpy")}
    return {"python": platform.python_version(), **versions}


@cache
def find_commit() -> str:
    """Return the commit of the project, with `+` if files have changed; `unknown` without git."""
    try:
        run = {"cwd": LIBRARY.parents[1], "capture_output": True, "text": True, "check": True}
        tree = subprocess.run(["git", "rev-parse", "--show-prefix", "HEAD"], **run)
        changed = subprocess.run(["git", "status", "--porcelain", "lib", "params.yaml"], **run)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    prefix, commit = tree.stdout.splitlines()
    if prefix:  # an archive that was unpacked inside another repository
        return "unknown"
    return commit[:12] + ("+" if changed.stdout.strip() else "")


def find_last_commits(folder: Path) -> dict[str, str]:
    """Return the commit that last changed each file below a folder, by its path in the folder.

    A `+` follows if the file has changed since. Files in no commit are left out; without git, all.

    >>> find_last_commits(Path("no such folder"))
    {}
    """
    run = {"cwd": folder, "capture_output": True, "text": True, "check": True}
    # A merge counts as the change of its branch: its tree is the first that has all of it.
    log = ["git", "log", "--first-parent", "-m", "--relative", "--name-only", "--format=commit %h"]
    try:
        lines = subprocess.run([*log, "--", "."], **run).stdout.splitlines()
        diff = ["git", "diff", "--relative", "--name-only", "HEAD", "--", "."]
        changed = set(subprocess.run(diff, **run).stdout.splitlines())
    except (OSError, subprocess.CalledProcessError):
        return {}
    commits: dict[str, str] = {}
    commit = ""
    for line in filter(None, lines):
        if line.startswith("commit "):
            commit = line.removeprefix("commit ")
        else:
            commits.setdefault(line, commit + "+" * (line in changed))
    return commits


@cache
def name_processor() -> str:
    """Return the model of this machine's processor; only its architecture where that is all."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def list_modules() -> dict[str, Path]:
    """Return the files of the library by the names of their modules.

    >>> list_modules()["carry.tasks"].name, list_modules()["carry.tasks.addition"].name
    ('__init__.py', 'addition.py')
    """
    modules = {}
    for path in sorted(LIBRARY.rglob("*.py")):
        name = ".".join(path.relative_to(LIBRARY.parent).with_suffix("").parts)
        modules[name.removesuffix(".__init__")] = path
    return modules


@cache  # many rows and stages depend on the same files
def find_imports(source: str) -> frozenset[str]:
    """Return the modules that a piece of Python imports, also inside functions; with packages.

    >>> sorted(find_imports("from carry.tasks import addition; import torch"))
    ['carry', 'carry.tasks', 'carry.tasks.addition', 'torch']
    """
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return frozenset(part for name in names for part in _with_packages(name))


def find_reachable_files(modules: Iterable[str]) -> dict[str, Path]:
    """Return the files of modules and of their direct and indirect imports.

    Imports by name at run time (`importlib.import_module`) are not seen: the caller adds them,
    see `carry.experiments.run.Run.module_names`.

    >>> list(find_reachable_files(["carry.config.tree"]))
    ['carry', 'carry.config', 'carry.config.settings', 'carry.config.tree']
    """
    files = list_modules()
    reached: set[str] = set()
    new = {part for name in modules for part in _with_packages(name)} & {*files}
    while new:
        reached |= new
        sources = [files[name].read_text(encoding="utf-8") for name in new]
        new = (set().union(*map(find_imports, sources)) & {*files}) - reached
    return {name: files[name] for name in sorted(reached)}


def hash_code(modules: Iterable[str]) -> str:
    """Return a hash of the code of all files that modules reach.

    >>> len(hash_code(["carry.tasks.addition"]))
    16
    """
    files = find_reachable_files(modules)
    counted = {name: path for name, path in files.items() if not name.startswith(UNCOUNTED)}
    lines = [f"{name} {hash_source(path.read_text('utf-8'))}" for name, path in counted.items()]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


@cache
def hash_source(source: str) -> str:
    """Return a hash of a file's syntax tree without comments and docstrings.

    >>> hash_source("x = 1  # one") == hash_source("x = 1")
    True
    >>> hash_source("def f(): 'Say.'; return 1") == hash_source("def f(): return 1")
    True
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:16]


def _with_packages(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts) + 1)]
