"""The committed notebooks are fit to be compared: nbval passes over what was never run."""

import ast
import re

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell

from carry.config.notebooks import find_notebooks
from carry.experiments.resolve import list_rows
from carry.pages.items import load_items
from carry.plots import index
from carry.runs.notebooks import find_notebook, list_notebooks, list_works

LONGEST = 15  # lines of a cell
FIGURES = [name for work in list_works() for name in list_notebooks(work)]
NOTEBOOKS = list(find_notebooks().values())
MACHINE_PATH = re.compile(r"(?<![\w.])(?:/(?:home|Users|root|tmp|usr|opt|var|mnt)/|[A-Z]:\\)")
TIME = re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\b\d\d:\d\d:\d\d\b|\bit/s\b|\bWall time\b")
WORKS = {*load_items()["work"]}
REFUSERS = {  # calls that refuse wrong values in a line
    "check_number", "check_known", "ask", "make_problem", "parse_question",
    "load_committed", "load_run", "make_run", "build_format", "draw_ids_beyond_training",
}  # fmt: skip


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def find_inviting_cells(name):
    """Return the cells of a notebook that invite a change."""
    cells = code_cells(nbformat.read(find_notebook(name), as_version=4))
    return [cell for cell in cells if "# Change this" in cell.source]


INVITING = [name for name in find_notebooks() if find_inviting_cells(name)]


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return nbformat.read(request.param, as_version=4)


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


def python(source):
    """Return a cell's source without the lines that only IPython understands."""
    return "\n".join(
        line for line in source.splitlines() if not line.lstrip().startswith(("%", "!"))
    )


def find_checked_names(cell):
    """Return the names of a cell whose values are refused in a line if they cannot work.

    They reach a call of one of `REFUSERS`: as an argument, by way of another name, or one by one.
    """
    nodes = [*ast.walk(ast.parse(python(cell.source)))]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    calls = [call for call in calls if ast.unparse(call.func).split(".")[-1] in REFUSERS]
    checked = {name for call in calls for name in list_names(call)}
    for _ in range(3):  # names of names
        for node in nodes:
            if isinstance(node, ast.Assign) and checked & {*map(ast.unparse, node.targets)}:
                checked |= list_names(node.value)
            elif isinstance(node, ast.For) and checked & list_names(node.target):
                checked |= list_names(node.iter)
    return checked


def list_names(tree):
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


@pytest.mark.parametrize("name", INVITING)
def test_what_a_reader_is_invited_to_change_is_checked(name):
    (cell,) = find_inviting_cells(name)
    (line,) = [line for line in cell.source.splitlines() if "# Change this" in line]
    if line.startswith(" "):
        return  # in a function or class, the run of which refuses what does not work
    names = list_names(ast.parse(line).body[0].targets[0])
    assert names and names <= find_checked_names(cell), cell.source


@pytest.mark.parametrize("name", ["overview", "mcleish2024/does_the_scheme_matter"])
def test_numbers_of_any_length_are_answered_or_refused_in_a_line(name, monkeypatch, capsys):
    (cell,) = find_inviting_cells(name)
    line, rest = re.search(r"^(a, b = .*?)$(.*)", cell.source, re.DOTALL | re.MULTILINE).groups()
    assert "Change this" in line
    imports = [one.source for one in code_cells(nbformat.read(find_notebook(name), 4))[:1]]
    names = {}
    exec(
        "\n".join(re.findall(r"^(?:from|import) .*", imports[0] + "\n" + cell.source, re.M)), names
    )
    for a, b in (("0", "0"), ("9" * 34, "1"), ("7" * 60, "4" * 60), (653, 49), ("abc", -1)):
        exec(rest, names | {"a": a, "b": b})
        shown = capsys.readouterr().out.splitlines()
        assert len(shown) == 2 and all(line.startswith("addition_") for line in shown)
        refused = ["expected" in line for line in shown]
        assert sum(refused) == {60: 1, 3: 0 if a == 653 else 2}.get(len(str(a)), 0)


def test_a_cell_shows_a_refusal_as_one_line(capsys):
    shell = InteractiveShell()
    shell.run_cell(
        "from carry.config.settings import check_number\ncheck_number('digits', 40, 1, 34)"
    )
    shown = capsys.readouterr().out.strip()
    assert shown == "digits: 40 does not fit; expected a whole number from 1 to 34"
