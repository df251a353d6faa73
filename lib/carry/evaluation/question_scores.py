"""Score a model on questions of a reader: right or wrong, and the kind of each first error.

A question is right if every token of the response is (exact match), the steps of a scratchpad too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pandas as pd

from carry.config.settings import SettingsError, describe
from carry.data.problems import Problems
from carry.evaluation import mistakes
from carry.evaluation.ask import read_operands, read_response, write_problem
from carry.evaluation.decoding import decode_greedily
from carry.evaluation.intervals import add_interval, format_percent
from carry.evaluation.questions import Line, name_line, spell
from carry.evaluation.scoring import score
from carry.models.system import Start, System
from carry.tasks import Task, to_digits

MAX_TOKENS = 2**18  # of the questions that are written at once
MOST_SIZES = 20  # lines of a table by size


def read_questions(
    system: System, lines: Sequence[Line], path: str | Path, start: Start
) -> pd.DataFrame:
    """Return the questions of a file for a model, and the right answers.

    Columns: `line`, its number, `question`, `operands` and `answer`.

    Raises:
        SettingsError: with the file and the line, for a question that the model cannot read, and
            for an answer in the file that is not the right one.
    """
    path, task = Path(path), system.task
    operands, shapes = [], set[tuple[int, ...]]()
    for line in lines:
        with name_line(path, line):
            operands.append(read_operands(task, line.question))
            shape = tuple(map(len, operands[-1]))
            if shape not in shapes:
                write_problem(system, _solve(system, operands[-1:]), start)  # or refuse it
            shapes.add(shape)
    names = {"line": [line.number for line in lines], "question": [line.question for line in lines]}
    table = pd.DataFrame({**names, "operands": operands, "answer": ""})
    for rows, problems in _split(system, table):
        batch = system.format.write(problems)
        _, target, real = batch.response()
        responses = zip(target, real.sum(1).tolist(), strict=True)
        answers = [read_response(system, tokens[:end]) for tokens, end in responses]
        table.loc[rows, "answer"] = answers
        for row, answer in zip(rows, answers, strict=True):
            given = lines[row].answer
            with name_line(path, lines[row]):
                if given and given.strip() and _normalise(task, given) != answer:
                    raise SettingsError(
                        f"answer: {describe(given)} is wrong for {describe(lines[row].question)}; "
                        f"expected {describe(answer)}"
                    )
    return table


def _normalise(task: Task, answer: str) -> str:
    """Return an answer of a file as `carry ask` would print it."""
    with contextlib.suppress(SettingsError):  # no number: it differs as it is
        answer = spell(answer, letters=True, lists=not task.answer_is_number)
    if not task.answer_is_number or task.keeps_leading_zeros:
        return answer
    return answer.lstrip("0") or answer[-1:]


def score_questions(
    system: System,
    questions: pd.DataFrame,
    start: Start = "all",
    report: Callable[[int], None] = lambda count: None,
    decode: bool = False,
) -> pd.DataFrame:
    """Return the table of `read_questions` with scores, on one row each.

    Args:
        start: as in `carry.evaluation.ask`.
        report: called with the number of questions scored since its last call.
        decode: whether wrong answers are decoded to their end, which takes longer.

    Columns added: `digits`, of the longest operand; whether the response is `exact`; the kind of
    its first `error` (see `carry.evaluation.mistakes`; empty if there is none); and what the model
    has `written`, if wrong answers are decoded.

    >>> from carry.evaluation.trained_models import load_committed
    >>> system = load_committed("addition_abacus")
    >>> lines = [Line(1, "653+49"), Line(2, "9" * 30 + "+1")]
    >>> table = score_questions(system, read_questions(system, lines, "sums.txt", 1), 1)
    >>> table[["line", "digits", "exact", "error"]].values.tolist()
    [[1, 3, True, ''], [2, 30, False, 'other']]
    """
    table = questions.assign(digits=_count_digits(questions), exact=False, error="")
    if decode:
        table["written"] = table["answer"]
    names = [*(kind.replace("_", " ") for kind in mistakes.KINDS), ""]
    for rows, problems in _split(system, table):
        result = score(system, problems, start, report)
        batch = system.format.write(problems)
        kinds = mistakes.classify_errors(system.format, problems, batch, result)
        table.loc[rows, "exact"] = result.exact.tolist()
        table.loc[rows, "error"] = [names[kind] for kind in kinds.tolist()]  # -1: none
        wrong = (~result.exact).nonzero()[:, 0]
        if decode and len(wrong):
            responses = decode_greedily(system, problems[wrong], start)
            written = [read_response(system, response) for response in responses]
            table.loc[[rows[index] for index in wrong.tolist()], "written"] = written
    return table


def _count_digits(table: pd.DataFrame) -> list[int]:
    return [max(map(len, numbers)) for numbers in table["operands"]]


def _solve(system: System, operands: list[list[str]]) -> Problems:
    return system.task.solve(*to_digits(operands, system.task.base)).to(system.device)


def _split(system: System, table: pd.DataFrame) -> Iterator[tuple[list[int], Problems]]:
    """Yield the rows of questions of one size, so many that they fit the memory, and problems."""
    digits = pd.Series(_count_digits(table))
    for _, of_size in digits.groupby(digits):
        rows = of_size.index.tolist()
        longest = max(table["operands"][rows], key=lambda numbers: sum(map(len, numbers)))
        written = system.format.write_open_ended(_solve(system, [longest]))
        count = max(1, MAX_TOKENS // written.tokens.shape[1])
        for index in range(0, len(rows), count):
            part = rows[index : index + count]
            yield part, _solve(system, table["operands"][part].tolist())


def tabulate_sizes(scored: pd.DataFrame) -> list[tuple[str, ...]]:
    """Return the lines of a table of accuracy by size, with Wilson's interval (95%), and of all.

    Many sizes share a line.

    >>> scored = pd.DataFrame({"digits": [3, 3, 30], "exact": [True, False, True]})
    >>> for line in tabulate_sizes(scored):
    ...     print(*line, sep=" | ")
    digits | n | right | accuracy
    3 | 2 | 1 | 50.0% (9.5 to 90.5)
    30 | 1 | 1 | 100% (20.7 to 100)
    all | 3 | 2 | 66.7% (20.8 to 93.9)
    """
    sizes = sorted({*scored["digits"]})
    each = -(-len(sizes) // MOST_SIZES)
    groups = {}
    for index in range(0, len(sizes), each):
        part = sizes[index : index + each]
        name = f"{part[0]}" if len(part) == 1 else f"{part[0]} to {part[-1]}"
        groups[name] = scored[scored["digits"].isin(part)]
    if len(groups) > 1:
        groups["all"] = scored
    counts = pd.DataFrame(
        [(name, len(part), int(part["exact"].sum())) for name, part in groups.items()],
        columns=["digits", "n", "exact"],
    )
    lines = [("digits", "n", "right", "accuracy")]
    for line in add_interval(counts).itertuples():
        percent, low, high = map(format_percent, (line.accuracy, line.low, line.high))
        lines.append((line.digits, str(line.n), str(line.exact), f"{percent}% ({low} to {high})"))
    return lines
