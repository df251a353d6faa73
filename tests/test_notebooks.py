"""The committed notebooks are fit to be compared: nbval passes over what was never run."""

import ast
import json
import re

import nbformat
import pytest

from carry.claims.items import load_items
from carry.claims.verdicts import VERDICTS
from carry.config import paths
from carry.experiments.resolve import list_rows
from carry.plots import index
from carry.runs.notebooks import UNDRAWN, find_notebook, find_notebooks

LONGEST = 15  # lines of a cell
FIGURES = [name for name in index.find_figure_notebooks() if name not in UNDRAWN]
NOTEBOOKS = list(find_notebooks().values())
MACHINE_PATH = re.compile(r"(?<![\w.])(?:/(?:home|Users|root|tmp|usr|opt|var|mnt)/|[A-Z]:\\)")
# "a and b hold" is the plural of a verdict.
VERDICT = re.compile(rf"\b({'|'.join(VERDICTS)}|hold|fail)\b")
TIME = re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\b\d\d:\d\d:\d\d\b|\bit/s\b|\bWall time\b")
WORKS = {*load_items()["work"]}


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return nbformat.read(request.param, as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs(notebook):
    return [output for cell in code_cells(notebook) for output in cell.outputs]


def texts(notebook):
    """Return every text that an output shows; pictures are left out."""
    for output in outputs(notebook):
        for kind, text in output.get("data", {"text": output.get("text", "")}).items():
            if kind.startswith("text") and isinstance(text, str):
                yield text


def test_only_the_first_code_cell_declares_parameters(notebook):
    tagged = ["parameters" in cell.metadata.get("tags", []) for cell in code_cells(notebook)]
    assert not any(tagged[1:])
    lines = ast.parse(code_cells(notebook)[0].source).body if tagged[0] else []
    assert all(isinstance(line, ast.Assign) for line in lines)
    assert all(ast.literal_eval(line.value) is not ... for line in lines), "plain values only"


@pytest.mark.parametrize("name", FIGURES)
def test_figures_have_no_parameters(name):
    cells = nbformat.read(find_notebook(name), as_version=4).cells
    assert not any("parameters" in cell.metadata.get("tags", []) for cell in cells)


def test_it_was_run_once_from_top_to_bottom(notebook):
    counts = [cell.execution_count for cell in code_cells(notebook)]
    assert counts == list(range(1, len(counts) + 1)), "run `make notebooks`"


def test_it_shows_no_error_and_no_warning(notebook):
    bad = [
        output
        for output in outputs(notebook)
        if output.output_type == "error" or output.get("name") == "stderr"
    ]
    assert not bad


def test_nbval_has_something_to_compare(notebook):
    assert any(text.strip() and "<Figure" not in text for text in texts(notebook))


def test_it_shows_no_machine_path_and_no_time(notebook):
    for text in texts(notebook):
        assert not MACHINE_PATH.search(text)
        assert not TIME.search(text)


def test_it_defines_nothing(notebook):
    """But one class, in the notebook that says how to write it."""
    if "own position scheme" in notebook.cells[0].source:
        return
    for cell in code_cells(notebook):
        for node in ast.walk(ast.parse(python(cell.source))):
            assert not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)


def test_cells_are_short(notebook):
    for cell in code_cells(notebook):
        assert len(cell.source.splitlines()) <= LONGEST, cell.source


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_notebook_shows_its_analysis(name):
    """It opens with a question, prints numbers after its figures, and ends with what was found."""
    cells = nbformat.read(find_notebook(name), as_version=4).cells
    code = [cell for cell in cells if cell.cell_type == "code"]
    assert re.match(r"# .+", cells[0].source)
    assert any("open_notebook" in cell.source for cell in code[:3]), "the set-up comes first"
    shown = [entry.name for entry in index.list_figures().values() if entry.notebook == name]
    assert shown, "a notebook has a figure"
    assert sum("# Change this" in cell.source for cell in code) == 1
    assert "**Found.**" in cells[-1].source
    printed = [cell for cell in code if has_numbers(cell) and "notebook.show(" not in cell.source]
    missing = any(
        "Without results: " in output.get("text", "") for cell in code for output in cell.outputs
    )
    assert printed or missing, "nbval compares a table of numbers, of rows that have results"


def has_numbers(cell):
    """Return whether a cell prints a table with numbers, which nbval compares."""
    ignored = "nbval-ignore-output" in cell.metadata.get("tags", [])
    tables = [output for output in cell.outputs if "text/html" in output.get("data", {})]
    return not ignored and any(re.search(r"\d", table["data"]["text/plain"]) for table in tables)


@pytest.mark.parametrize("name", [name for name in FIGURES if name.partition("/")[0] in WORKS])
def test_departures_from_the_paper_are_shown_where_it_has_the_rows(name):
    cells = nbformat.read(find_notebook(name), as_version=4).cells
    source = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    named = {node.value for node in ast.walk(ast.parse(python(source)))
             if isinstance(node, ast.Constant) and isinstance(node.value, str)}  # fmt: skip
    has_paper_rows = bool(named & {*list_rows(scale="paper")})
    assert not has_paper_rows or "tabulate_departures()" in source


def test_its_kernel_is_on_every_machine(notebook):
    assert notebook.metadata.kernelspec.name == "python3"
    assert "version" not in notebook.metadata.get("language_info", {}), "run `make notebooks`"


def python(source):
    """Return a cell's source without the lines that only IPython understands."""
    return "\n".join(
        line for line in source.splitlines() if not line.lstrip().startswith(("%", "!"))
    )


def list_quotes(text):
    """Return the claims, the p value and the verdict that each pair of parentheses quotes.

    >>> list_quotes("It is ahead (+5 points; corrected p 0.03; `nope` holds), see (`claims`).")
    [(['nope'], '0.03', 'holds'), (['claims'], None, None)]
    """
    quotes = []
    for part in re.findall(r"\(([^()]*`\w+`[^()]*)\)", " ".join(text.split())):
        p, verdicts = re.search(r"\bp (0\.\d+)", part), VERDICT.findall(part)
        verdict = verdicts[0] if len(verdicts) == 1 else None
        quotes.append((re.findall(r"`(\w+)`", part), p and p[1], verdict))
    return quotes


@pytest.mark.parametrize("name", FIGURES)
def test_findings_quote_the_ledger(name):
    """Corrected p values and verdicts in parentheses are those of the committed ledger."""
    ledger = json.loads((paths.ROOT / "reports" / "claims.json").read_text(encoding="utf-8"))
    ledger = {record["id"]: record for record in ledger}
    text = nbformat.read(find_notebook(name), as_version=4).cells[-1].source
    for quoted, p, verdict in list_quotes(text):
        for record in (ledger[claim] for claim in quoted if claim in ledger):
            if verdict:
                assert record["verdict"].startswith(verdict.removesuffix("s")), record["id"]
            if p and len(quoted) == 1:
                digits = len(p.removeprefix("0."))
                assert p in (f"{record[key]:.{digits}f}" for key in ("p_corrected", "p")), quoted
