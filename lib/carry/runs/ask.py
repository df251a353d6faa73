"""The commands `carry ask` and `carry score`: one question, or a file of them.

Questions and options are checked before torch is imported, so a refusal takes no second.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from carry.config import paths
from carry.config.settings import SettingsError, describe
from carry.evaluation.questions import choose_row, name_line, read_file, read_question
from carry.experiments.resolve import load_run

if TYPE_CHECKING:
    from carry.models.system import Start, System

LONG = 5000  # tokens of a response from which on its progress is shown at once
CONTEXT = 40  # tokens of a line of --trace


def ask(
    question: Sequence[str],
    row: str | None,
    scale: str,
    seed: int,
    start: Start,
    trace: bool,
    file: str | None = None,
) -> None:
    """Print the answer of a trained model to one question, or the scores of a file of them.

    A wrong answer is printed with the right one. The exit status stays 0, because the command has
    done what it was asked; only a refusal has another.
    """
    if file is not None:
        if question or trace:
            given = "a question" if question else "--trace"
            raise SettingsError(f"ask: --file does not fit {given}; expected one of both")
        score(file, None, row, scale, seed, start)
        return
    text = " ".join(question)
    default = choose_row([read_question(text)]) if row is None else None
    system = _load_row(row or default, scale, seed, start)

    from carry.evaluation.ask import describe_answer, make_problem, read_operands, write_answer
    from carry.formats import to_text
    from carry.progress import progress_bar

    try:
        problem = make_problem(system.task, read_operands(system.task, text))
    except SettingsError as error:
        raise SettingsError(f"{error}{_suggest_row(text, row)}") from None
    with contextlib.ExitStack() as stack:
        bar = None

        def report(known: int, expected: int) -> None:
            nonlocal bar
            if bar is None:
                delay = 0.0 if expected >= LONG else 1.0
                options = {"unit": " tokens", "leave": False, "delay": delay, "mininterval": 0.5}
                bar = stack.enter_context(progress_bar(expected, "answer", **options))
            bar.update(max(0, known - bar.n))

        answer = write_answer(system, problem, start, report)
    if trace:
        print(answer.tabulate(CONTEXT).to_string(index=False))
    elif rows := system.format.describe_rows(to_text(answer.response)):
        print(rows)
    print(describe_answer(system, answer))


def _suggest_row(text: str, row: str | None) -> str:
    """Return a hint, if another row than the named one answers a question."""
    if row is not None:
        with contextlib.suppress(SettingsError):
            other = choose_row([read_question(text)])
            if other != row:
                return f", or --row {other}"
    return ""


def _load_row(row: str, scale: str, seed: int, start: Start) -> System:
    """Return a trained seed of a row; an unknown one is refused before torch is imported."""
    run = load_run(row, scale)
    if not 0 <= seed < run.seeds:
        raise SettingsError(
            f"seed: {row} has no seed {seed}; expected an integer from 0 to {run.seeds - 1}"
        )
    from carry.evaluation.ask import check_start
    from carry.evaluation.trained_models import load_seed

    system = load_seed(run, seed)
    check_start(system, start)
    return system


def score(
    file: str,
    model: str | None,
    row: str | None,
    scale: str,
    seed: int,
    start: Start,
    to: str | None = None,
    certify: bool = False,
) -> None:
    """Print how many questions of a file a model answers, by size, and its errors by kind.

    All lines are checked before the first one is scored.
    """
    if model is not None and row is not None:
        raise SettingsError(f"score: --model does not fit --row {row}; expected one of both")
    if to is not None and Path(to).exists():
        raise SettingsError(f"to: {describe(to)} exists; expected the name of a new file")
    lines = read_file(file)
    if row is None and model is None:
        questions = []
        for line in lines:
            with name_line(Path(file), line):
                questions.append(read_question(line.question))
        row = choose_row(questions)
    if model is None:
        system, name = _load_row(row, scale, seed, start), f"{row}, seed {seed}"
    else:
        system, name = _load_model(model, start), model

    from carry.evaluation import question_scores as scores
    from carry.progress import progress_bar

    questions = scores.read_questions(system, lines, file, start)
    with progress_bar(len(questions), "score", unit=" questions", delay=1.0, leave=False) as bar:
        scored = scores.score_questions(system, questions, start, bar.update, to is not None)
    if model is not None:
        from carry.exports.own_models import check_right_answers

        check_right_answers(system, scored)
    if to is not None:
        names = {"answer": "right", "written": "answer"}
        table = scored[["question", "written", "answer", "error"]].rename(columns=names)
        with paths.write_atomically(Path(to)) as draft:
            table.to_csv(draft, index=False)
    print(f"{name}: {len(scored)} questions of {file}")
    print_table(scores.tabulate_sizes(scored))
    _print_errors(system, scored, start)
    if certify:
        _certify(system)


def _load_model(path: str, start: Start) -> System:
    from carry.evaluation.ask import check_start
    from carry.exports.own_models import load_model

    system = load_model(path)
    check_start(system, start)
    return system


def _print_errors(system: System, scored: object, start: Start) -> None:
    """Print how many first errors have each kind, with the first line of each."""
    from carry.evaluation.ask import describe_answer, make_problem, shorten, write_answer

    wrong = scored[~scored["exact"]]
    if wrong.empty:
        print("errors: none")
        return
    lines = [("errors", "n", "first")]
    for kind, part in wrong.groupby("error", sort=False):
        first = part.iloc[0]
        problem = make_problem(system.task, first["operands"])
        answer = describe_answer(system, write_answer(system, problem, start), shorten)
        question = shorten(first["question"])
        lines.append((kind, str(len(part)), f"line {first['line']}: {question} = {answer}"))
    print_table(lines)


def _certify(system: System) -> None:
    """Print the certificate of a model, or why it has none."""
    from carry.certificates.committed import describe_certificate
    from carry.certificates.contexts import ConflictingContexts, require_bounded_contexts
    from carry.certificates.verification import certify_model, find_contexts_or_conflict
    from carry.progress import progress_bar

    try:
        require_bounded_contexts(system)
    except SettingsError as error:
        print(f"no certificate: {error}")
        return
    with progress_bar(1, "list contexts", leave=False) as bar:
        enumerated = find_contexts_or_conflict(system)
        bar.update()
    conflict = isinstance(enumerated, ConflictingContexts)
    total = 1 if conflict else len(enumerated.contexts)
    with progress_bar(total, "certify", unit=" contexts", leave=False) as bar:
        certificate = certify_model(system, enumerated, bar.update)
    print(f"certificate: {describe_certificate(certificate)}")


def print_table(lines: Sequence[tuple[str, ...]]) -> None:
    """Print lines of cells in columns."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())
