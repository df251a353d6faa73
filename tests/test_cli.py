"""The command line: help for users first, answers, and one line for each error."""

import errno
import os
import subprocess
import sys

import pytest

from carry import cli
from carry.config import paths
from carry.config.settings import SettingsError
from carry.experiments import resolve


def run(capsys, *words):
    """Run a command; return its exit code, its output and its errors."""
    with pytest.raises(SystemExit) as exit:
        cli.main([*words])
    output = capsys.readouterr()
    return exit.value.code, output.out, output.err


def test_help_lists_the_commands_of_users_first(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    out = out.replace("    ", "  ")
    places = [
        out.index(f"\n  {name} ") for name in ("ask", "rows", "show", "run", "certify", "notebook")
    ]
    assert places == sorted(places)


def test_help_is_fast_because_it_does_not_import_torch():
    code = "import sys, carry.cli; sys.exit(any(m in sys.modules for m in ('torch', 'nbformat')))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_ask_answers_with_the_committed_weights(capsys):
    assert run(capsys, "ask", "653+49")[:2] == (0, "702\n")
    assert run(capsys, "ask", "85 / 7")[1].endswith("3:  94 -\n2:  01\n12r1\n")  # the calculator
    code, out, _ = run(capsys, "ask", "12 + 34 =", "--trace", "--start", "1")
    assert code == 0 and out.endswith("\n46\n") and "0.99" in out
    assert run(capsys, "ask", "0120", "--row", "reversing_relative")[1] == "0210\n"


def test_rows_and_show(capsys):
    code, out, _ = run(capsys, "rows", "--scale", "smoke")
    lines = [line.split() for line in out.splitlines()]
    assert code == 0
    head = ["study", "row", "task", "positions", "trained", "seeds", "label", "weights"]
    assert lines[0] == head
    (line,) = (line for line in lines if line[1] == "addition_relative")
    assert " ".join(line).endswith("1 to 3 0 of 2 in git")  # the seeds are those of the scale
    assert line[0] == "addition_schemes" and line[-2:] == ["in", "git"]
    assert line[2:5] == ["addition", "abacus/relative", "1"]
    code, out, _ = run(capsys, "show", "addition_relative_small")
    rows = {line.split()[0]: line.split(maxsplit=1)[1].split() for line in out.splitlines()}
    assert rows["training.steps"] == ["20000"] and rows["positions.0.ids"] == ['"abacus"']
    assert rows["training.clip"] == ["1.0", "default"]
    assert rows["positions.0.offset"] == ["1", "default"]


REFUSED = {
    "ask 12+x": "question: 'x' in '12+x'",
    "ask 1+2 --start -4": "start",
    "ask 1+2 --start centre": "start",
    "ask 1+2 --start 7": "addition_relative was never trained from id 7; expected 'all' or 1",
    "ask 1+2 --row addition_relativ": "did you mean 'addition_relative'",
    "ask 1+2 --row ../models": "row: '../models' is unknown",
    "ask 1+2 --seed 99": "addition_relative has no seed 99; expected an integer from 0 to 9",
    "ask 1+2 --row addition_nope": "seed 0 is not trained here",
    "ask 1+2 --scale smok": "'smok' is unknown, did you mean 'smoke'",
    "rows --scale smok": "'smok' is unknown, did you mean 'smoke'",
    "show addition_nop": "row: 'addition_nop' is unknown, did you mean 'addition_nope'",
    "show addition_nope --against smok": "scale: 'smok' is unknown, did you mean 'smoke'",
    "show sorting_fire --scale long": "sorting_fire: scale: 'long' is unknown",
    "show addition_hints": "row: 'addition_hints' is a study; expected one of its rows: "
    "addition_randomized_fire_hints, addition_randomized_fire_hints_ordered",
    "ask 1+2 --row small_models": "row: 'small_models' is a study; expected one of its rows: ",
    "run addition_nop": "is unknown, did you mean 'addition_nope'",
    "run addition_scheme": "is unknown, did you mean 'addition_schemes'",
    "run one_pass --scale long": "run: no row of 'one_pass' has the scale 'long'; "
    "expected one of laptop",
    "run addition_nope --seed 99": "addition_nope: no seed 99; expected 0 to 10",
    "run addition_nope --minutes 0": "'0' is no such time; expected more than 1",
    "run addition_nope --minutes 1": "'1' is no such time; expected more than 1",
    "run": "required: NAME",
    "export addition_nop": "did you mean 'addition_nope'",
    "export-certificate addition_relativ": "did you mean 'addition_relative'",
    "export-coq": "required: ROW",
    "export-coq addition_relativ": "is not certified, did you mean 'addition_relative'",
    "certify addition_relativ": "is not certified, did you mean 'addition_relative'",
    "certify --renew addition_relative addition_nope": "'addition_nope' is not certified",
    "certify --renew": "no row is named",
    "refresh ovreview": "did you mean 'overview'",
    "figures ovrview": "did you mean 'overview'",
    "notebook ovreview": "did you mean 'overview'",
    "notebook pipeline/train smoke": "unrecognized arguments: smoke",
    "shwo addition_nope": "'shwo' is unknown, did you mean 'show'",
    "rows --scal smoke --x": "unrecognized arguments: --x",
}


@pytest.mark.parametrize("words", REFUSED)
def test_words_are_refused_in_one_line(capsys, words):
    code, out, err = run(capsys, *words.split())
    assert code == 2 and out == "" and err.count("\n") == 1 and len(err) <= 500, (code, out, err)
    assert REFUSED[words] in err, err


@pytest.mark.parametrize(
    "error, code, words",
    [
        (KeyboardInterrupt(), 130, ["kept", "again"]),
        (OSError(errno.ENOSPC, "No space left on device", "data/x"), 1, ["data/x", "No space"]),
        (PermissionError(errno.EACCES, "Permission denied", "data/x"), 1, ["Permission denied"]),
        (OSError("disk quota exceeded"), 1, ["disk quota exceeded"]),
        (SettingsError("runs.x: bad\nlines"), 2, ["runs.x: bad lines"]),
    ],
)
def test_errors_of_the_machine_are_one_line(capsys, monkeypatch, error, code, words):
    def stop(**_):
        raise error

    monkeypatch.setattr(resolve, "list_rows", stop)
    exit_code, out, err = run(capsys, "rows")
    assert exit_code == code and out == "" and err.count("\n") == 1
    assert all(word in err for word in words), err


def test_other_errors_keep_their_traceback(monkeypatch):
    monkeypatch.setattr(resolve, "list_rows", lambda scale: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cli.main(["rows"])


def test_a_folder_with_letters_beyond_ascii_and_a_plain_locale(tmp_path):
    """Settings are read as UTF-8, and messages printed, whatever the locale."""
    root = tmp_path / "Zähler – 数"
    root.mkdir()
    (root / "lib").symlink_to(paths.ROOT / "lib")
    text = (paths.ROOT / "params.yaml").read_text(encoding="utf-8")
    (root / "params.yaml").write_text(f"# Zähler – 数\n{text}", encoding="utf-8")
    code = (
        "import sys, pathlib; from carry.config import params, paths; from carry import cli; "
        "paths.ROOT = params.ROOT = pathlib.Path(sys.argv[1]); cli.main(sys.argv[2:])"
    )
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for words, expected in ((["rows"], 0), (["show", "naïve"], 2)):
        done = subprocess.run(
            [sys.executable, "-c", code, root, *words], env=environment, capture_output=True
        )
        assert done.returncode == expected, done.stderr
        assert b"Traceback" not in done.stderr and done.stderr.count(b"\n") == expected // 2


def test_files_are_synced_before_they_replace_others(tmp_path, monkeypatch):
    events = []
    for name in ("fsync", "replace"):
        original = getattr(os, name)

        def record(*arguments, name=name, original=original):
            events.append(name)
            return original(*arguments)

        monkeypatch.setattr(os, name, record)
    with paths.write_atomically(tmp_path / "note.txt") as draft:
        draft.write_text("complete", encoding="utf-8")
    assert events == ["fsync", "replace", "fsync"]
    with (
        pytest.raises(OSError, match="full"),
        paths.write_atomically(tmp_path / "note.txt") as draft,
    ):
        draft.write_text("half", encoding="utf-8")
        raise OSError("full")
    assert [path.name for path in tmp_path.iterdir()] == ["note.txt"]
    assert (tmp_path / "note.txt").read_text(encoding="utf-8") == "complete"
