"""`carry ask`: what is read as a question, what is refused, and answers in few passes."""

import subprocess
import sys

import pytest
import torch

from carry import cli
from carry.config.settings import SettingsError
from carry.evaluation import ask as asking
from carry.evaluation.ask import ask, describe_answer, make_problem, read_operands, write_answer
from carry.evaluation.decoding import decode_greedily
from carry.evaluation.questions import (
    ADDER,
    CALCULATOR,
    SEVERAL,
    choose_row,
    read_question,
    spell,
)
from carry.evaluation.trained_models import load_committed
from carry.experiments.resolve import load_run
from carry.formats import EOS
from carry.models.system import System
from carry.runs import ask as commands
from carry.tasks import build_task


def run(capsys, *words):
    """Run `carry ask`; return its exit code, its output and its errors."""
    with pytest.raises(SystemExit) as exit:
        cli.main(["ask", *words])
    output = capsys.readouterr()
    return exit.value.code, output.out, output.err


def add_noise(system, share):
    """Return a system whose weights are changed, so that it errs."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weights in system.network.parameters():
            noise = torch.randn(weights.shape, generator=generator)
            weights += share * weights.std() * noise
    return system


def count_passes(system, problem, **options):
    """Return what a model answers, and how often its network has run."""
    passes = []
    handle = system.network.register_forward_hook(lambda *_: passes.append(1))
    answer = write_answer(system, problem, **options)
    handle.remove()
    return answer, len(passes)


READ = {
    "653 + 49": ("653+49", ADDER),
    "653+49=": ("653+49", ADDER),
    "653+49 = ?": ("653+49", ADDER),
    "1,000+2": ("1000+2", ADDER),
    "1,234,567 ＋ ８９": ("1234567+89", ADDER),
    "1+2+3": ("1+2+3", SEVERAL),
    "12345x67": ("12345*67", CALCULATOR),
    "12345 X 67": ("12345*67", CALCULATOR),
    "12345 × 67": ("12345*67", CALCULATOR),
    "12345 ⋅ 67": ("12345*67", CALCULATOR),
    "8 ÷ 2": ("8/2", CALCULATOR),
    "8:2": ("8/2", CALCULATOR),
    "5 − 3": ("5-3", CALCULATOR),
    "5–3": ("5-3", CALCULATOR),
    "5\N{NO-BREAK SPACE}-\N{NO-BREAK SPACE}3": ("5-3", CALCULATOR),
}
REFUSED = {
    "": "'' is empty; expected numbers with one of [+] - [*] / between them, such as 653[+]49",
    " = ": "is empty",
    "653": "'653' has one number; expected .* such as 653[+]49",
    "12 3 4": "'12 3 4' has no sign between '12' and '3'; expected one",
    "1 000+2": "no sign between '1' and '000'; expected one, and no spaces inside a number",
    "653 README.md 49": "quotes around [*], which a shell replaces",
    "-5+3": "'-5[+]3' begins with a sign; expected natural numbers, such as 3-5",
    "+5": "begins with a sign",
    "5+": "has no number after '[+]'",
    "5+-3": r"'\+-' in '5\+-3' is no sign",
    "2**3": "is no sign",
    "12.5+1": "'12.5' in '12.5[+]1' is no natural number; expected digits",
    "1+1,00": "'1,00' in '1[+]1,00' is no natural number; .* 1,000",
    "12+x": "'x' in '12[+]x' is neither a digit nor a sign; expected",
    "٣+5": "'٣' in .* is neither a digit",
    "(1+2)": r"'\(' in .* is neither",
    "1+2*3": "has different signs, [+] and [*]; expected one kind",
    "1-2-3": "has 3 numbers with '-'; expected 2",
    "7/00": "has no result; expected a divisor from 1",
    "9" * 10_001 + "+1": "has a number of 10001 digits; expected at most 10000",
    "1" + "+1" * 1000: "has 1001 numbers; expected at most 1000",
}


@pytest.mark.parametrize("text", READ)
def test_questions_are_read_as_they_are_typed_and_pasted(text):
    question = read_question(text)
    assert (question.text, choose_row([question])) == READ[text]
    assert question.sign.join(question.numbers) == question.text


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_question_is_refused_in_one_line(text):
    with pytest.raises(SettingsError, match="^question: .*" + REFUSED[text]) as caught:
        read_question(text)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


def test_letters_are_digits_and_commas_separate_numbers_where_a_task_says_so():
    hexadecimal = build_task({"name": "addition", "radix": 34})
    assert read_operands(hexadecimal, "1x2 + a") == ["1x2", "a"]
    assert read_operands(build_task({"name": "sorting"}), "1,000, 2") == ["1", "0", "2"]
    assert read_operands(build_task({"name": "calculator"}), "1,000 × 2") == ["1000", "2", "2"]
    assert spell("1x2") == "1*2" and spell("1x2", letters=True) == "1x2"


def test_refusals_do_not_import_torch():
    """Nor do questions that are refused by their row, seed or start, or in a file."""
    code = """
import contextlib, io, pathlib, sys, tempfile
from carry import cli
file = pathlib.Path(tempfile.mkdtemp()) / "bad.txt"
file.write_text("1+2\\n1+x\\n", encoding="utf-8")
for words in (["-5+3"], ["12", "3", "4"], [""], ["1+2", "--seed", "x"], ["1+2", "--seed", "99"],
              ["1+2", "--start", "x"], ["1+2", "--row", "addition_relativ"], ["--file", str(file)]):
    with contextlib.redirect_stderr(io.StringIO()) as errors:
        try:
            cli.main(["ask", *words])
        except SystemExit as exit:
            assert exit.code == 2, words
    assert errors.getvalue().count("\\n") == 1, errors.getvalue()
assert "torch" not in sys.modules and "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["653", "+", "49"], "702\n"),
        (["653", "-", "700"], "-47\n"),
        (["12", "×", "3"], "36\n"),
        (["1+2+3+4"], "10\n"),
        (["1,000+2"], "1002\n"),
        (["5", "-3"], "2\n"),
    ],
)
def test_words_without_quotes_are_one_question(capsys, words, answer):
    code, out, err = run(capsys, *words)
    assert (code, err) == (0, "") and out.endswith(answer)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-5+3"], "such as 3-5"),
        (["- 5", "+ 3"], "such as 3-5"),
        (["1+2", "--seed", "x"], "--seed: 'x' is no seed; expected an integer from 0"),
        (["1+2", "--seed", "-1"], "--seed: '-1' is no seed; expected an integer from 0"),
        (["1+2", "--start", "x"], "--start: 'x' is no first id; expected 'all', 'window' or an in"),
        (["1+2", "--start", "0"], "--start: '0' is no first id; expected 'all', 'window' or an in"),
        (["1+2+3", "--row", ADDER], f"3 do not fit Addition; expected 2, or --row {SEVERAL}"),
        (["1-2", "--row", ADDER], f"or --row {CALCULATOR}"),
        (["1+2", "--file", "sums.csv"], "--file does not fit a question; expected one of both"),
        (["--trace", "--file", "sums.csv"], "--file does not fit --trace"),
    ],
)
def test_refusals_name_what_fits(capsys, words, message):
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "") and err.count("\n") == 1
    assert message in err, err


def test_a_wrong_answer_is_called_wrong(capsys, monkeypatch):
    system = load_committed("addition_abacus")
    monkeypatch.setattr("carry.evaluation.trained_models.load_seed", lambda *given: system)
    sum_of_long = str(10**29 + 1)
    code, out, _ = run(capsys, sum_of_long + "+" + "9" * 30)
    assert code == 0 and out.endswith(f", wrong: {int(sum_of_long) + int('9' * 30)}\n")
    problem = make_problem(system.task, [653, 49])
    answer = write_answer(system, problem)
    for response, text in (
        ([2, 0, 7, EOS], "702"),
        ([2, 9, 6, EOS], "692, wrong: 702"),
        ([EOS], "0, wrong: 702"),
        ([2, 0, 7, 0, EOS], "702, right, but not every written token is"),
    ):
        given = answer._replace(response=torch.tensor(response))
        assert describe_answer(system, given) == text


CASES = [  # a row, a question with errors, and how much its weights are changed
    ("addition_relative", "98765432109876543210+12345678901234567890", 0.4),
    ("addition_relative", "98765432109876543210+12345678901234567890", 1.0),
    ("calculator_relative_longhand", "987*654", 0.1),
    ("calculator_relative_longhand", "98765/43", 0.2),
    ("multi_operand_addition_relative_scratchpad", "987+654+321+98", 0.4),
    ("multiplication_relative_scratchpad", "987*65", 0.3),
    ("sorting_relative_scratchpad", "57,8,120,3", 0.3),
    ("addition_abacus", "9876543210987654+1234567890123456", 0.0),
    ("addition_abacus_looped_20", "98765432109876543210+1", 0.3),
]


@pytest.mark.parametrize("start", [1, "all"])
@pytest.mark.parametrize(("row", "text", "noise"), CASES)
def test_passes_write_what_greedy_decoding_writes(monkeypatch, row, text, noise, start):
    """Passes alone, and with decoding after the first one that finds few tokens."""
    system = add_noise(load_committed(row), noise)
    problem = make_problem(system.task, read_operands(system.task, text))
    slow = decode_greedily(system, problem, start)[0]
    for least in (0, 10**9):
        monkeypatch.setattr(asking, "LEAST_GAIN", least)
        known = []
        answer = write_answer(
            system, problem, start, lambda now, due, known=known: known.append(now)
        )
        written = len(answer.response)
        assert torch.equal(answer.response, slow[:written].long())
        assert (slow[written:] == EOS).all() and not (answer.response[:-1] == EOS).any()
        assert known == sorted(known) or least  # decoding begins again
        table = answer.tabulate()
        assert table["context"].iloc[-1].endswith("".join(table["predicted"][:-1]))


@pytest.mark.parametrize(("noise", "decodes"), [(0.2, False), (1.0, True)])
def test_a_long_question_is_decoded_where_most_tokens_are_wrong(monkeypatch, noise, decodes):
    system = add_noise(load_committed("addition_relative"), noise)
    calls = []
    monkeypatch.setattr(asking, "FROM_TOKENS", 0)
    monkeypatch.setattr(asking, "MOST_PASSES", 10)
    monkeypatch.setattr(
        asking, "decode_greedily", lambda *words: calls.append(1) or decode_greedily(*words)
    )
    problem = make_problem(system.task, ["9" * 200, "1" * 200])
    written = write_answer(system, problem, 1).response
    assert torch.equal(written, decode_greedily(system, problem, 1)[0, : len(written)].long())
    assert bool(calls) == decodes


def test_few_passes_find_a_long_answer_with_local_errors():
    system = add_noise(load_committed("addition_relative"), 0.2)
    problem = make_problem(system.task, [7**1700, 3**3000])
    answer, passes = count_passes(system, problem)
    assert not answer.exact and len(answer.response) > 100 and passes < 60
    assert torch.equal(answer.response, decode_greedily(system, problem)[0, : len(answer.response)])


@pytest.mark.parametrize(
    ("row", "operands"),
    [
        (ADDER, ["9" * 10_000, "1"]),
        (CALCULATOR, ["9" * 30, "8" * 30, "2"]),
        (SEVERAL, ["9" * 50] * 20),
    ],
)
def test_a_right_answer_takes_one_pass(row, operands):
    system = load_committed(row)
    known = []
    answer, passes = count_passes(
        system, make_problem(system.task, operands), report=lambda *counts: known.append(counts)
    )
    due = len(answer.target)
    assert answer.exact and passes == 1 and known == [(0, due), (due, due)]


def test_no_pass_reads_too_many_tokens():
    system = load_committed(SEVERAL)
    with pytest.raises(SettingsError, match="have 2,0.* tokens; expected at most 1,048,576"):
        write_answer(system, make_problem(system.task, ["9" * 1000] * 1000))


def test_contexts_of_long_answers_can_be_short():
    answer = write_answer(
        load_committed(ADDER), make_problem(build_task({"name": "addition"}), [9] * 2)
    )
    for width in (1, 3, 5, 100):
        contexts = answer.tabulate(width)["context"]
        assert contexts.str.len().max() <= width
    table = ask(load_committed(ADDER), 9, 9)
    assert answer.tabulate().equals(table) and table["context"].tolist()[0] == "^9+9="


@pytest.mark.parametrize("long", [0, 10**9])
def test_progress_of_long_answers_goes_to_standard_error(capsys, monkeypatch, long):
    monkeypatch.setenv("CARRY_PROGRESS", "text")
    monkeypatch.setattr(commands, "LONG", long)
    code, out, err = run(capsys, "12*34")
    assert code == 0 and out.endswith("\n408\n")
    assert ("answer" in err and "tokens" in err) == (long == 0)


def test_an_untrained_model_is_asked_like_any_other():
    system = System(load_run("addition_nope"))
    problem = make_problem(system.task, [123456, 654321])
    answer = write_answer(system, problem)
    assert torch.equal(answer.response, decode_greedily(system, problem)[0, : len(answer.response)])
