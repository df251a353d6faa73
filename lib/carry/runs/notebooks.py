"""Execute a notebook as a stage: typed parameters in, a file that never varies out."""

from __future__ import annotations

import multiprocessing
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import papermill
from nbformat import NotebookNode
from papermill.exceptions import PapermillExecutionError
from traitlets.config import Config

from carry import processes
from carry.config import params, paths
from carry.config.notebooks import STAGES, clean_notebook, find_notebooks
from carry.config.settings import SettingsError, check_known

OVERVIEW = "overview"  # the notebook whose figures belong to no folder
# Of runs whose outputs are compared: no bars, and one thread, since several add in another order.
COMPARED = {"CARRY_PROGRESS": "off", "OMP_NUM_THREADS": "1"}
# Settings of a user that change what a kernel computes, draws or prints, or which kernel starts;
# not those that say where modules are.
OF_USER = re.compile(r"(PYTHON(?!(PATH|HOME|USERBASE|NOUSERSITE)$)|IPYTHON|JUPYTER|MPL|MATPLOTLIB)")
LOCKS = paths.STORE / "notebooks"


def find_notebook(name: str) -> Path:
    """Return the path of a notebook, also of one that is not the project's; refuse a missing one.

    >>> paths.display_path(find_notebook("mcleish2024/how_far"))
    'notebooks/mcleish2024/how_far.ipynb'
    """
    path = paths.ROOT / "notebooks" / f"{name}.ipynb"
    if not path.is_file():
        check_known(name, find_notebooks(), "notebook")
    return path


def list_works() -> list[str]:
    """Return the works that have figures: the folders of notebooks but for stages, and `overview`.

    >>> list_works()[:2], list_works()[-1]
    (['cho2025', 'every_length'], 'overview')
    """
    names = find_notebooks()
    works = {name.rpartition("/")[0] for name in names} - {"", STAGES}
    return sorted(works) + [name for name in names if name == OVERVIEW]


def list_notebooks(work: str) -> list[str]:
    """Return the names of the notebooks with the figures of a work.

    >>> list_notebooks("overview"), len(list_notebooks("cho2025"))
    (['overview'], 6)
    """
    check_known(work, list_works(), "figures")
    return [name for name in find_notebooks() if (name.rpartition("/")[0] or name) == work]


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
        return execute_notebook(source, target, parameters, name)


def draw_figures(work: str | None = None) -> list[Path]:
    """Execute all notebooks of a work, as many at a time as there are cores; return the copies.

    Without a work, those of all works, one after another. Figures of earlier notebooks are removed
    after all of a work have succeeded; those that failed are named.
    """
    if work is None:
        return [path for each in list_works() for path in draw_figures(each)]
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


def execute_notebook(
    source: Path, target: Path, parameters: dict[str, Any], name: str = ""
) -> Path:
    """Execute the notebook `source` with `parameters`; write `target` only on success.

    While it runs, the output grows in `NAME.failed.ipynb` next to the target; that file remains
    if a cell fails. What cells write to stderr (progress bars) goes to this process's stderr, not
    into the file. A notebook that runs under its own `name` saves its figures (`Notebook.show`).
    """
    draft = target.with_name(f"{target.stem}.failed.ipynb")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    variables = {"CARRY_PROGRESS": os.environ.get("CARRY_PROGRESS", "text"), "CARRY_NOTEBOOK": name}
    _run_papermill(source, draft, parameters, paths.ROOT, variables, keep_stderr=False)
    draft.replace(target)
    return target


def refresh_notebook(source: Path) -> Path:
    """Execute a notebook in place with its own small parameters, and keep the new outputs.

    It runs as nbval runs it: in its own folder, without progress bars, and with one thread.
    Warnings stay in the outputs, where a test finds them.
    """
    with paths.write_atomically(source) as draft:
        _run_papermill(source, draft, {}, source.parent, COMPARED, keep_stderr=True)
    return source


@contextmanager
def kernel_environment(variables: dict[str, str]) -> Iterator[Path]:
    """Set this process's environment to that of kernels inside the block, and yield a folder.

    Kernels inherit it. It has the given variables, and no settings of the user: no profile of
    IPython, no matplotlibrc, no folders of Jupyter, no variables of Python. The folder is empty,
    and for their sockets and files.

    >>> os.environ["MPLBACKEND"] = "Agg"
    >>> with kernel_environment({"CARRY_PROGRESS": "off"}):
    ...     os.environ.get("MPLBACKEND"), os.environ["CARRY_PROGRESS"]
    (None, 'off')
    >>> os.environ.pop("MPLBACKEND")
    'Agg'
    """
    before = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="carry-", dir=paths.socket_folder()) as folder:
        named = ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
        own = {**dict.fromkeys([*named, "MPLCONFIGDIR"], folder), "MATPLOTLIBRC": os.devnull}
        kept = {name: text for name, text in before.items() if not OF_USER.match(name)}
        try:
            os.environ.clear()
            os.environ.update(kept | own | {"JUPYTER_PREFER_ENV_PATH": "1"} | variables)
            yield Path(folder)
        finally:
            os.environ.clear()
            os.environ.update(before)


def strip_outputs(notebook: NotebookNode) -> NotebookNode:
    """Return a notebook without outputs and without the metadata that editors add."""
    stripped = nbformat.from_dict(clean_notebook(notebook))
    for cell in stripped.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return stripped


def remove_varying_output(notebook: NotebookNode, keep_stderr: bool) -> NotebookNode:
    """Return an executed notebook without what differs between two runs."""
    clean = nbformat.from_dict(clean_notebook(notebook))
    for cell in clean.cells:
        if "injected-parameters" in cell.metadata.get("tags", []):
            cell.id = "injected-parameters"  # papermill draws a random id
        if cell.cell_type == "code" and not keep_stderr:
            cell.outputs = [each for each in cell.outputs if each.get("name") != "stderr"]
    return clean


def _run_papermill(
    source: Path,
    target: Path,
    parameters: dict[str, Any],
    folder: Path,
    variables: dict[str, str],
    keep_stderr: bool,
) -> None:
    """Execute a notebook in a folder, and write it without what differs between two runs."""
    notebook = strip_outputs(nbformat.read(source, as_version=4))
    with kernel_environment(variables) as sockets:
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
