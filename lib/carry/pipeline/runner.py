"""Run a notebook as a step of the pipeline: typed parameters in, a file that never varies out."""

from __future__ import annotations

import ast
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import papermill
from nbformat import NotebookNode
from papermill.exceptions import PapermillExecutionError
from traitlets.config import Config

from carry.config import paths, profiles
from carry.config.paths import ANALYSES, VARIANTS
from carry.config.settings import SettingsError, suggest_name

# Where a profile has the names of a notebook's rows; a notebook that is not here has no rows.
SECTIONS = {
    "problems": "problems",
    "train": "rows",
    "evaluate": "rows",
    "analyse": "analyses",
    "variants": "variant_sets",
    "certify": "certificates",
}

# For outputs that are compared: no bars, and one thread, since more may add in another order.
QUIET = {"CARRY_PROGRESS": "off", "OMP_NUM_THREADS": "1"}

WIDGET = "application/vnd.jupyter.widget-view+json"


def find_notebooks() -> dict[str, Path]:
    """Return the notebooks by name, with their folder if it is not the first.

    A draft, whose name begins with a dot while a notebook is being refreshed, is none.
    """
    folder = paths.ROOT / "notebooks"
    found = [*folder.glob("[!.]*.ipynb"), *folder.glob("[!.]*/[!.]*.ipynb")]
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in sorted(found)}


def find_notebook(notebook: str) -> Path:
    """Return where a notebook is.

    Raises:
        SettingsError: if there is none of that name, naming the nearest.
    """
    known = find_notebooks()
    if notebook not in known:
        raise SettingsError(f"notebook: {notebook!r} is not there, {suggest_name(notebook, known)}")
    return known[notebook]


def rows_of_notebook(notebook: str, profile: str) -> list[str]:
    """Return the rows that a notebook runs for in a profile, none if it runs just once."""
    settings = profiles.load_profile(profile)
    stage = notebook.removeprefix("pipeline/")
    return list(settings[SECTIONS[stage]]) if stage in SECTIONS else []


def run_notebook(notebook: str, profile: str, row: str | None = None, **more: Any) -> Path:
    """Run a notebook for a profile, and for one row where it has rows; return the executed copy.

    Raises:
        SettingsError: for an unknown notebook, profile, row or parameter, before anything runs.
    """
    original = find_notebook(notebook)
    known = rows_of_notebook(notebook, profile)
    if known and row is None:
        raise SettingsError(f"row: missing for notebook {notebook!r}; known: {', '.join(known)}")
    if row is not None and row not in known:
        hint = suggest_name(row, known) if known else f"notebook {notebook!r} has no rows"
        raise SettingsError(f"row: {row!r} is not in profile {profile!r}, {hint}")
    place = paths.data_path(profile, "executed", notebook)
    target = place / f"{row}.ipynb" if row else place.with_suffix(".ipynb")
    given = {"profile": profile, **({"row": row} if row else {}), **more}
    return execute_notebook(original, target, given)


def execute_notebook(source: Path, target: Path, parameters: dict[str, Any]) -> Path:
    """Run the notebook `source` with `parameters` and write it to `target`, once all went well.

    Until then it grows in `NAME.failed.ipynb` beside it, which stays behind if a cell fails. What
    the cells write to stderr (progress bars) goes to this process's stderr, not into the file.

    Raises:
        SettingsError: for a parameter that the notebook does not declare or has with another type.
    """
    notebook = strip_outputs(nbformat.read(source, as_version=4))
    check_parameters(parameters, declared_parameters(notebook), source.name)
    failed = target.with_name(f"{target.stem}.failed.ipynb")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    with set_environment(CARRY_PROGRESS=os.environ.get("CARRY_PROGRESS", "text")):
        done = _papermill(notebook, failed, parameters, paths.ROOT)
    _write(remove_varying_output(done, keep_stderr=False), failed)
    failed.replace(target)
    return target


def refresh_notebook(source: Path) -> Path:
    """Run a notebook where it stands, with its own small parameters, and keep the new outputs.

    It runs as JupyterLab and nbval run it, in its own folder, and without progress bars. A warning
    stays in the outputs, for the tests to find.
    """
    notebook = strip_outputs(nbformat.read(source, as_version=4))
    with paths.write_atomically(source) as draft, set_environment(**QUIET):
        done = _papermill(notebook, draft, {}, source.parent)
        _write(remove_varying_output(done, keep_stderr=True), draft)
    return source


def strip_outputs(notebook: NotebookNode) -> NotebookNode:
    """Return a notebook without outputs and without what an editor adds to its metadata."""
    cells = []
    for number, cell in enumerate(notebook.cells, start=1):
        tags = cell.metadata.get("tags")
        kept = {
            "cell_type": cell.cell_type,
            "id": cell.get("id", f"cell-{number}"),
            "metadata": {"tags": tags} if tags else {},
            "source": cell.source,
        }
        if cell.cell_type == "code":
            kept |= {"execution_count": None, "outputs": []}
        cells.append(kept)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    # Without the version of Python, which would change with the machine.
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return nbformat.from_dict(
        {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    )


def remove_varying_output(notebook: NotebookNode, keep_stderr: bool) -> NotebookNode:
    """Return an executed notebook without what differs from one run to the next."""
    clean = strip_outputs(notebook)
    for cell, executed in zip(clean.cells, notebook.cells, strict=True):
        if "injected-parameters" in cell.metadata.get("tags", []):
            cell.id = "injected-parameters"  # papermill draws a new one each time
        if cell.cell_type == "code":
            cell.execution_count = executed.execution_count
            cell.outputs = [
                output
                for output in executed.outputs
                if WIDGET not in output.get("data", {})
                and (keep_stderr or output.get("name") != "stderr")
            ]
    return clean


def notebook_code(notebook: NotebookNode) -> str:
    """Return the Python of a notebook."""
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    lines = [line for source in cells for line in source.splitlines()]
    return "\n".join(line for line in lines if not line.lstrip().startswith(("%", "!")))


def declared_parameters(notebook: NotebookNode) -> dict[str, Any]:
    """Return the parameters that a notebook declares in its `parameters` cell, with defaults.

    >>> cell = nbformat.v4.new_code_cell('profile = "notebook"', metadata={"tags": ["parameters"]})
    >>> declared_parameters(nbformat.v4.new_notebook(cells=[cell]))
    {'profile': 'notebook'}
    """
    found = {}
    for cell in notebook.cells:
        if "parameters" in cell.metadata.get("tags", []):
            for line in ast.parse(cell.source).body:
                if isinstance(line, ast.Assign):
                    found[ast.unparse(line.targets[0])] = ast.literal_eval(line.value)
    return found


def check_parameters(parameters: dict[str, Any], known: dict[str, Any], where: str) -> None:
    """Refuse parameters that a notebook does not declare, or declares with another type.

    >>> check_parameters({"step": 2}, {"steps": 1}, "train.ipynb")
    Traceback (most recent call last):
        ...
    carry.config.settings.SettingsError: train.ipynb: unknown parameter 'step', did you mean 'steps'? \
(known: steps)
    """
    for name, value in parameters.items():
        if name not in known:
            hint = suggest_name(name, known)
            raise SettingsError(f"{where}: unknown parameter {name!r}, {hint}")
        kind = type(known[name])
        if known[name] is not None and type(value) is not kind:
            raise SettingsError(
                f"{where}: {name} = {value!r}, expected a value like {known[name]!r}"
            )


def publish_weights(profile: str, row: str) -> Path:
    """Copy a trained row to reports/models/, which is committed: one seed, for notebooks.

    Of a row that is certified it is all seeds, so that anybody can certify them again.
    """
    source, target = (
        paths.data_path(profile, "runs", row),
        paths.reports_path(profile, "models", row),
    )
    target.mkdir(parents=True, exist_ok=True)
    seeds = "seed_*" if row in rows_of_notebook("certify", profile) else "seed_0"
    for path in (source / "run.json", *sorted(source.glob(f"{seeds}.safetensors"))):
        shutil.copyfile(path, target / path.name)
    return target


def prune_results(profile: str) -> list[Path]:
    """Delete what rows that are gone have left in the folders that later stages read whole.

    The rows that stay are written to rows.txt, for those stages to depend on.
    """
    results = paths.reports_path(profile, "results", profile)
    folders = {
        paths.data_path(profile, "executed", "pipeline", "problems"): rows_of_notebook(
            "problems", profile
        ),
        paths.data_path(profile, "executed", "pipeline", "train"): rows_of_notebook(
            "train", profile
        ),
        paths.data_path(profile, "executed", "pipeline", "evaluate"): rows_of_notebook(
            "evaluate", profile
        ),
        paths.data_path(profile, "executed", "pipeline", "analyse"): rows_of_notebook(
            "analyse", profile
        ),
        paths.data_path(profile, "executed", "pipeline", "variants"): rows_of_notebook(
            "variants", profile
        ),
        paths.data_path(profile, "executed", "pipeline", "certify"): rows_of_notebook(
            "certify", profile
        ),
        results: [*rows_of_notebook("evaluate", profile), ANALYSES, VARIANTS],
        results / ANALYSES: rows_of_notebook("analyse", profile),
        results / VARIANTS: rows_of_notebook("variants", profile),
        paths.reports_path(profile, "certificates"): rows_of_notebook("certify", profile),
    }
    gone = [
        path
        for folder, kept in folders.items()
        for path in sorted(folder.glob("*"))
        if path.name.split(".")[0] not in kept
    ]
    for path in gone:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    # Figures wait for this folder, which a profile without certificates would not have.
    paths.reports_path(profile, "certificates").mkdir(parents=True, exist_ok=True)
    with paths.write_atomically(paths.data_path(profile, "rows.txt")) as draft:
        draft.write_text("".join(f"{row}\n" for row in rows_of_notebook("evaluate", profile)))
    return gone


@contextmanager
def set_environment(**values: str) -> Iterator[None]:
    """Set variables for the kernels that start inside, and put them back."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def _papermill(
    notebook: NotebookNode, target: Path, parameters: dict[str, Any], folder: Path
) -> NotebookNode:
    with tempfile.TemporaryDirectory() as sockets:
        # Talk to the kernel through files: a free port may be taken before the kernel takes it.
        manager = {"transport": "ipc", "connection_file": f"{sockets}/kernel.json"}
        try:
            return papermill.execute_notebook(
                notebook,
                target,
                parameters,
                kernel_name="python3",
                cwd=folder,
                progress_bar=False,  # of cells; it would tear the bars of the cells
                stderr_file=sys.stderr,
                coalesce_streams=True,  # or text is cut anew each time, as the clock has it
                config=Config(KernelManager=manager),
                # The kernel's own log calls an ordinary shutdown an error.
                extra_arguments=["--IPKernelApp.log_level=CRITICAL"],
            )
        except PapermillExecutionError as error:
            if error.ename == SettingsError.__name__:
                raise SettingsError(error.evalue) from None
            raise


def _write(notebook: NotebookNode, path: Path) -> None:
    nbformat.validate(notebook)
    nbformat.write(notebook, path)
