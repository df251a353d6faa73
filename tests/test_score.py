"""`carry score`: files of questions, for a row, an export, or a model in a Python file."""

import re
from pathlib import Path

import pandas as pd
import pytest
import torch

from carry import cli
from carry.config.settings import SettingsError
from carry.evaluation.ask import make_problem, read_response, write_answer
from carry.evaluation.question_scores import read_questions, score_questions, tabulate_sizes
from carry.evaluation.questions import Line, read_file
from carry.evaluation.trained_models import load_committed
from carry.exports import write_model
from carry.exports.own_models import load_model

EXAMPLE = Path(__file__).parent.parent / "examples" / "own_model.py"


def run(capsys, *words):
    """Run a command; return its exit code, its output and its errors."""
    with pytest.raises(SystemExit) as exit:
        cli.main([*map(str, words)])
    output = capsys.readouterr()
    return exit.value.code, output.out, output.err


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a file and returns its path."""

    def write(name, text):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    return write


SAME = [
    "653+49\n1,000+2\n",
    "\ufeff653+49\r\n\r\n1,000+2",
    'question\n653+49\n"1,000+2"\n',
    'id,Question ,note\n1,653+49,a\n2,"1,000+2",b\n',
    '653+49\n"1,000+2"\n',
]


@pytest.mark.parametrize("text", SAME)
def test_files_of_all_kinds_have_the_same_questions(write, text):
    lines = read_file(write("sums", text))
    assert [line.question for line in lines] == ["653+49", "1,000+2"]
    rows = text.splitlines()
    assert all(line.question in rows[line.number - 1] for line in lines)


REFUSED = {
    "": "sums.csv: no questions; expected one on each line",
    "question,answer\n": "sums.csv: no questions",
    "653+49,702\n1+2,3\n": "sums.csv line 1: '653.49,702' has a comma after a question",
    "question,answer\n1,000+2,1002\n": "sums.csv line 2: the number of cells .* is 3; expected 2",
    "question,answer\n1+2,3\n3+4,8\n": "sums.csv line 3: answer: '8' is wrong for '3[+]4'; .* '7'",
    "1+2\n\n3+x\n": "sums.csv line 3: question: 'x' in '3[+]x' is neither a digit nor a sign; exp",
    "1+2\n7/0\n": "sums.csv line 2: question: '7/0' has no result; expected",
    "1+2+3\n4*5\n": "no row answers both '4[*]5' and '1[+]2[+]3'; expected",
}


@pytest.mark.parametrize("text", REFUSED)
def test_files_are_refused_with_their_line_before_any_work(capsys, monkeypatch, write, text):
    monkeypatch.setattr("carry.evaluation.question_scores.score_questions", None)
    for words in (["score"], ["ask", "--file"]):
        code, out, err = run(capsys, *words, write("sums.csv", text))
        assert (code, out) == (2, "") and err.count("\n") == 1
        assert re.search(REFUSED[text], err), err


def test_files_that_cannot_be_read_are_one_line(capsys, tmp_path, write):
    (tmp_path / "binary").write_bytes(b"\xff\xfe1+2")
    present = write("there.csv", "1+2\n")
    for words, message in (
        ([tmp_path / "binary"], "byte 0 is no UTF-8"),
        ([tmp_path / "none.csv"], "none.csv: No such file"),
        ([tmp_path], "directory"),
        ([present, "--to", present], "exists; expected the name of a new file"),
        ([present, "--model", "x.py", "--row", "y"], "--model does not fit --row y"),
        ([present, "--row", "addition_nop"], "did you mean 'addition_nope'"),
    ):
        code, out, err = run(capsys, "score", *words)
        assert code in (1, 2) and out == "" and err.count("\n") == 1 and message in err, err
    assert present.read_text(encoding="utf-8") == "1+2\n"


def test_other_rows_name_the_line_of_a_question_that_they_cannot_read():
    abacus = load_committed("addition_abacus")
    lines = [Line(1, "1+2"), Line(4, "9" * 60 + "+1")]
    with pytest.raises(
        SettingsError, match="^sums line 4: operands: 60 digits need id .*; expected"
    ):
        read_questions(abacus, lines, "sums", 1)
    with pytest.raises(SettingsError, match="^sums line 2: operands: 3 do not fit Addition"):
        read_questions(abacus, [Line(2, "1+2+3")], "sums", 1)


@pytest.mark.parametrize(("row", "question", "answers", "wrong"), [
    ("addition_relative", "653+49", ["702", " 0702", "", None], ["712", "7O2"]),
    ("addition_relative", "999+1", ["1,000", "1000"], ["1,00"]),
    ("calculator_relative_longhand", "37-52", ["-15", "−15"], ["15"]),
    ("calculator_relative_longhand", "85/7", ["12r1", "12r1 "], ["12"]),
    ("reversing_relative", "0120", ["0210"], ["210"]),
])  # fmt: skip
def test_answers_of_a_file_are_compared_with_the_right_one(row, question, answers, wrong):
    system = load_committed(row)
    for answer in answers:
        table = read_questions(system, [Line(1, question, answer)], "sums", 1)
        assert len(table) == 1
    for answer in wrong:
        with pytest.raises(
            SettingsError, match="sums line 1: answer: .* is wrong for .*; expected"
        ):
            read_questions(system, [Line(1, question, answer)], "sums", 1)


@pytest.mark.parametrize("row", ["addition_abacus", "calculator_relative_longhand"])
def test_scores_agree_with_what_the_model_writes(row):
    """In the order of the file, whatever the sizes."""
    system = load_committed(row)
    if row != "addition_abacus":
        with torch.no_grad():
            system.network.logits.weight[9] *= -1
    lines = [Line(n, f"{7 ** (n % 23 + 5)}+{3 ** (n * 7 % 40)}") for n in range(1, 30)]
    questions = read_questions(system, lines, "sums", 1)
    scored = score_questions(system, questions, 1, decode=True)
    assert scored["line"].tolist() == [*range(1, 30)]
    assert {*scored["exact"]} == {True, False} and scored["error"].eq("").equals(scored["exact"])
    for line in scored.itertuples():
        answer = write_answer(system, make_problem(system.task, line.operands), 1)
        assert answer.exact == line.exact
        assert line.digits == max(len(number) for number in line.operands)
        a, b = map(int, line.question.split("+"))
        assert line.answer == str(a + b)
        assert line.written == read_response(system, answer.response)


def test_many_sizes_share_lines():
    sizes = [size for size in range(1, 101) for _ in range(3)]
    scored = pd.DataFrame({"digits": sizes, "exact": [size % 2 == 0 for size in sizes]})
    header, *lines, total = tabulate_sizes(scored)
    assert len(lines) == 20 and lines[0][0] == "1 to 5" and lines[-1][0] == "96 to 100"
    assert sum(int(line[1]) for line in lines) == int(total[1]) == 300
    assert sum(int(line[2]) for line in lines) == int(total[2]) == 150


def test_the_command_prints_accuracy_and_writes_all_answers(capsys, tmp_path, write):
    file = write("sums.csv", "question,answer\n653+49,702\n" + "9" * 30 + "+1,\n1+2,3\n")
    out_file = tmp_path / "answers.csv"
    words = ["--row", "addition_abacus", "--start", "1", "--to", out_file]
    code, out, err = run(capsys, "score", file, *words)
    assert (code, err) == (0, "") and f"addition_abacus, seed 0: 3 questions of {file}\n" in out
    lines = [line.split() for line in out.splitlines()]
    assert lines[1] == ["digits", "n", "right", "accuracy"]
    assert lines[2][:4] == ["1", "1", "1", "100%"] and lines[4][:4] == ["30", "1", "0", "0%"]
    assert lines[5][:3] == ["all", "3", "2"]
    assert "line 3: 999999999999999999999999999999+1 = " in out and ", wrong: 1000000" in out
    table = pd.read_csv(out_file, dtype=str, keep_default_na=False)
    assert table["question"].tolist() == ["653+49", "9" * 30 + "+1", "1+2"]
    assert table["right"].tolist() == ["702", "1" + "0" * 30, "3"]
    assert (table["answer"] == table["right"]).tolist() == [True, False, True]
    assert table["error"].eq("").tolist() == [True, False, True]
    same = run(capsys, "ask", "--file", file, "--row", "addition_abacus", "--start", "1")
    assert same == (0, out, "")


def test_the_example_errs_in_carries_that_come_from_far(capsys, write):
    """By its rule, also where teacher forcing shows it the right digits before."""
    near = [f"{7**n}+{5**n}" for n in range(1, 8)] + ["99+1", "999+1"]
    far = ["9999+1", "19999+1", "123456+876544"]
    file = write("sums.txt", "\n".join(near + far))
    code, out, _ = run(capsys, "score", file, "--model", EXAMPLE, "--certify")
    assert code == 0 and f"{EXAMPLE}: 12 questions" in out
    lines = out.splitlines()
    assert next(line for line in lines if line.startswith("all")).split()[1:3] == ["12", "9"]
    kinds = lines[lines.index(next(line for line in lines if line.startswith("errors"))) + 1 :]
    assert [re.split("  +", line)[:2] for line in kinds[:-1]] == [
        ["stopped early", "1"], ["lost carry", "2"],
    ]  # fmt: skip
    assert kinds[1].endswith("line 11: 19999+1 = 10000, wrong: 20000")
    assert kinds[-1].startswith("no certificate: ") and "own_model.py" in kinds[-1]
    system = load_model(EXAMPLE)
    written = score_questions(
        system, read_questions(system, read_file(file), file, "all"), decode=True
    )
    assert written["exact"].tolist() == [True] * 9 + [False] * 3


def export(row, folder):
    system = load_committed(row)
    write_model(system, folder)
    return system


def test_an_export_is_scored_and_certified(capsys, tmp_path, write):
    file = write("sums.txt", "653+49\n")
    system = export("addition_relative_small", tmp_path / "export")
    code, out, _ = run(capsys, "score", file, "--model", tmp_path / "export", "--certify")
    assert (
        code == 0
        and "errors: none\ncertificate: exact at every length: correct in all 11,124" in out
    )
    with torch.no_grad():
        system.network.logits.weight[3] *= -1
    write_model(system, tmp_path / "export")
    code, out, _ = run(capsys, "score", file, "--model", tmp_path / "export", "--certify")
    assert code == 0 and re.search("certificate: wrong in [0-9,]+ of 11,124 contexts: after", out)
    export("addition_abacus", tmp_path / "abacus")
    code, out, _ = run(capsys, "score", file, "--model", tmp_path / "abacus", "--certify")
    assert code == 0 and "\nno certificate: runs.addition_abacus.model.layers: 2 has" in out


GOOD = 'SETTINGS = {"task": {"name": "addition"}}\nimport torch\n'
BAD_MODELS = {
    "x = (\n": r"mine.py line 1: SyntaxError",
    "import nothing_of_this_name\n": "mine.py line 1: ModuleNotFoundError",
    "raise SystemExit(3)\n": "mine.py line 1: SystemExit",
    "x = 1\n": "SETTINGS: None does not fit; expected a mapping with task",
    'SETTINGS = {"task": {"name": "additon"}}\ndef logits(t): pass\n': "did you mean 'addition'",
    'SETTINGS = {"task": {"name": "addition"}, "model": {}}\n': "SETTINGS: .* does not fit; ex",
    GOOD: "logits: None; expected a function of tokens",
    GOOD + "def logits(t): return 1\n": "the result is int; expected a tensor of floats",
    GOOD + "def logits(t): return t\n": "the result is torch.int64; expected a tensor of floats",
    GOOD
    + "def logits(t): return torch.zeros(*t.shape, 10)\n": r"shape .*; expected \(1, .*, 15\), a",
    GOOD + "def logits(t): return torch.full((*t.shape, 15), torch.nan)\n": "are nan; expected",
    GOOD + "\ndef logits(t):\n    return t / [0]\n": "mine.py line 5: TypeError",
    GOOD
    + "def logits(t): return torch.eye(15)[t.roll(-1, dims=1)]\n": "1 tokens change with later",
    GOOD + "def logits(t): return 0.009 * torch.eye(15)[t.roll(-1, dims=1)]\n": "after 5 tokens of "
    "line 1 are right only with later tokens; expected a function",
}


def test_a_question_may_be_longer_than_a_cell_of_csv(write):
    question = "+".join(["9" * 10_000] * 20)
    assert read_file(write("sums", question)) == [Line(1, question)]


@pytest.mark.parametrize("code", BAD_MODELS)
def test_models_that_do_not_fit_are_refused_in_one_line(capsys, write, code):
    file = write("sums.txt", "1+2\n")
    exit_code, out, err = run(capsys, "score", file, "--model", write("mine.py", code))
    assert (exit_code, out) == (2, "") and err.count("\n") == 1, err
    assert re.search(BAD_MODELS[code], err), err


def test_paths_that_are_no_models_are_refused(capsys, tmp_path, write):
    file = write("sums.txt", "1+2\n")
    for path, message in (
        (tmp_path / "none.py", "does not exist; expected a folder of `carry export`, or a Python"),
        (write("model.safetensors", ""), "is no Python file; expected"),
        (tmp_path, "config.json': missing; expected a folder of `carry export`"),
    ):
        code, out, err = run(capsys, "score", file, "--model", path)
        assert (code, out) == (2, "") and err.count("\n") == 1 and message in err, err


DATACLASS = """from __future__ import annotations
from dataclasses import dataclass

@dataclass
class Config:
    symbols: int = 15
"""


def test_a_model_may_have_classes_and_import_its_neighbours(write):
    write("neighbour_of_mine.py", DATACLASS)
    code = "def logits(t):\n    from neighbour_of_mine import Config\n"
    code += "    return torch.zeros(*t.shape, Config().symbols)\n"
    system = load_model(write("mine.py", DATACLASS + GOOD + code))
    questions = read_questions(system, [Line(1, "1+2")], "sums", 1)
    assert score_questions(system, questions)["error"].tolist() != [""]
