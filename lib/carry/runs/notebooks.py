"""Execute a notebook as a stage: typed parameters in, a file that never varies out."""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import nbformat
import papermill
from nbformat import NotebookNode
from papermill.exceptions import PapermillExecutionError
from traitlets.config import Config

from carry import processes
from carry.config import params, paths
from carry.config.settings import SettingsError, check_known

WIDGET = "application/vnd.jupyter.widget-view+json"
LOCKS = paths.STORE / "notebooks"


def find_notebooks() -> dict[str, Path]:
    """Return the notebooks by name; a name holds the folder below notebooks/, if any.

    Files whose name starts with a dot are drafts that a refresh is writing; they are left out.
    """
    folder = paths.ROOT / "notebooks"
    files = [*folder.glob("[!.]*.ipynb"), *folder.glob("[!.]*/[!.]*.ipynb")]
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in sorted(files)}


def find_notebook(name: str) -> Path:
    """Return the path of a notebook; refuse an unknown name."""
    notebooks = find_notebooks()
    check_known(name, notebooks, "notebook")
    return notebooks[name]


def list_notebooks(work: str) -> list[str]:
    """Return the names of the notebooks with the figures of a work.

    >>> list_notebooks("overview"), len(list_notebooks("cho2025"))
    (['overview'], 6)
    """
    notebooks = find_notebooks()
    works = {name.rpartition("/")[0] or name for name in notebooks} - {"pipeline", "tour", "index"}
    check_known(work, works, "figures")
    return [name for name in notebooks if (name.rpartition("/")[0] or name) == work]


def run_notebook(name: str) -> Path:
    """Execute a notebook as a stage, and return the executed copy.

    A notebook with the parameter `scale` gets that of params.yaml. An unknown notebook is refused,
    and so is one that another process executes.
    """
    paths.require_writable()
    if (paths.ROOT / "data").is_symlink() and (paths.ROOT / ".git").exists():
        raise SettingsError("data: a link leads out of the git repository, and DVC keeps nothing "
                            "there; expected a folder, in which `store` may be a link")  # fmt: skip
    source, target = find_notebook(name), paths.executed_file(name)
    has_scale = "scale" in papermill.inspect_notebook(source)
    parameters = {"scale": params.load_params().scale} if has_scale else {}
    with processes.hold_lock(LOCKS / name.replace("/", "_"), name):
        return execute_notebook(source, target, parameters)


def draw_figures(work: str) -> list[Path]:
    """Execute all notebooks of a work, as many at a time as there are cores; return the copies.

    Figures of earlier notebooks are removed after all have succeeded; those that failed are named.
    """
    names = list_notebooks(work)
    folder = paths.figures_folder(work)
    with processes.hold_lock(LOCKS / f"figures_{work}", f"carry figures {work}"):
        before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
        # Spawned: a copy of this process, whose threads hold locks, could wait for ever.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(min(len(names), processes.count_cores()), context) as pool:
            faults = list(pool.map(_run_one, names))
        failed = [f"{name}: {fault}" for name, fault in zip(names, faults, strict=True) if fault]
        if failed:
            raise SettingsError("; ".join(failed))
        for path, written in before.items():
            if path.exists() and path.stat().st_mtime_ns == written:
                path.unlink()
    return [paths.executed_file(name) for name in names]


def _run_one(name: str) -> str:
    """Execute a notebook; print the traceback of a failed cell and return its error in a line."""
    try:
        run_notebook(name)
    except SettingsError as error:
        return str(error)
    except PapermillExecutionError as error:  # it cannot be sent to another process
        print(f"{name}: {error}", file=sys.stderr)
        return f"{error.ename}: {error.evalue}"
    return ""


def execute_notebook(source: Path, target: Path, parameters: dict[str, Any]) -> Path:
    """Execute the notebook `source` with `parameters`; write `target` only on success.

    While it runs, the output grows in `NAME.failed.ipynb` next to the target; that file remains
    if a cell fails. What cells write to stderr (progress bars) goes to this process's stderr, not
    into the file.
    """
    os.environ.setdefault("CARRY_PROGRESS", "text")
    draft = target.with_name(f"{target.stem}.failed.ipynb")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    _run_papermill(source, draft, parameters, paths.ROOT, keep_stderr=False)
    draft.replace(target)
    return target


def refresh_notebook(source: Path) -> Path:
    """Execute a notebook in place with its own small parameters, and keep the new outputs.

    It runs as nbval runs it: in its own folder, without progress bars, and with one thread, since
    several may add in another order. Warnings stay in the outputs, where a test finds them.
    """
    os.environ |= {"CARRY_PROGRESS": "off", "OMP_NUM_THREADS": "1"}
    with paths.write_atomically(source) as draft:
        _run_papermill(source, draft, {}, source.parent, keep_stderr=True)
    return source


def strip_outputs(notebook: NotebookNode) -> NotebookNode:
    """Return a notebook without outputs and without the metadata that editors add."""
    cells = []
    for number, cell in enumerate(notebook.cells, start=1):
        tags = cell.metadata.get("tags")
        content = {
            "cell_type": cell.cell_type,
            "id": cell.get("id", f"cell-{number}"),
            "metadata": {"tags": tags} if tags else {},
            "source": cell.source,
        }
        if cell.cell_type == "code":
            content |= {"execution_count": None, "outputs": []}
        cells.append(content)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    # Without the version of Python, which differs between machines.
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return nbformat.from_dict(
        {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    )


def remove_varying_output(notebook: NotebookNode, keep_stderr: bool) -> NotebookNode:
    """Return an executed notebook without what differs between two runs."""
    clean = strip_outputs(notebook)
    for cell, executed in zip(clean.cells, notebook.cells, strict=True):
        if "injected-parameters" in cell.metadata.get("tags", []):
            cell.id = "injected-parameters"  # papermill draws a random id
        if cell.cell_type == "code":
            cell.execution_count = executed.execution_count
            cell.outputs = [
                output
                for output in executed.outputs
                if WIDGET not in output.get("data", {})
                and (keep_stderr or output.get("name") != "stderr")
            ]
    return clean


def _run_papermill(
    source: Path, target: Path, parameters: dict[str, Any], folder: Path, keep_stderr: bool
) -> None:
    """Execute a notebook in a folder, and write it without what differs between two runs."""
    processes.require_sockets()
    notebook = strip_outputs(nbformat.read(source, as_version=4))
    with tempfile.TemporaryDirectory() as sockets:
        # Talk to the kernel through files: another process may take a free port first.
        manager = {"transport": "ipc", "connection_file": f"{sockets}/kernel.json"}
        try:
            executed = papermill.execute_notebook(
                notebook,
                target,
                parameters,
                kernel_name="python3",
                cwd=folder,
                progress_bar=False,  # a bar of cells would tear the bars that the cells draw
                stderr_file=sys.stderr,
                coalesce_streams=True,  # otherwise text is split differently on every run
                shutdown_kernel="immediate",  # a graceful one takes three seconds
                config=Config(KernelManager=manager),
                # The kernel's own log calls an ordinary shutdown an error.
                extra_arguments=["--IPKernelApp.log_level=CRITICAL"],
            )
        except PapermillExecutionError as error:
            if error.ename == SettingsError.__name__:
                raise SettingsError(error.evalue) from None
            raise
    clean = remove_varying_output(executed, keep_stderr)
    nbformat.validate(clean)
    nbformat.write(clean, target)
