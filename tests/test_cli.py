"""The command line: help for users first, answers, and one line for each error."""

import ast
import errno
import os
import subprocess
import sys

import pytest

from carry import cli
from carry.config import paths, profiles, run_settings
from carry.config.settings import SettingsError


def run(capsys, *words):
    """Run a command; return its exit code, its output and its errors."""
    with pytest.raises(SystemExit) as exit:
        cli.main([*words])
    output = capsys.readouterr()
    return exit.value.code, output.out, output.err


def fail(capsys, *words):
    """Run a command that is refused; return its one line."""
    code, out, err = run(capsys, *words)
    assert code == 2 and out == "" and err.count("\n") == 1 and len(err) <= 500, (code, out, err)
    return err


def test_help_lists_the_commands_of_users_first(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    out = out.replace("    ", "  ")
    places = [out.index(f"\n  {name} ") for name in ("ask", "rows", "show", "certify", "notebook")]
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


def test_ask_refuses_in_one_line(capsys):
    assert "operand" in fail(capsys, "ask", "12+x")
    assert "operands" in fail(capsys, "ask", "1+2+3")
    assert "start" in fail(capsys, "ask", "1+2", "--start", "-4")
    assert "start" in fail(capsys, "ask", "1+2", "--start", "centre")
    assert "did you mean 'addition_relative'" in fail(
        capsys, "ask", "1+2", "--row", "addition_relativ"
    )
    assert "not a name" in fail(capsys, "ask", "1+2", "--row", "../models")
    assert "expected seed 0" in fail(capsys, "ask", "1+2", "--seed", "99")
    assert "'smok' is unknown" in fail(capsys, "ask", "1+2", "--profile", "smok")


def test_rows_and_show(capsys):
    code, out, _ = run(capsys, "rows", "--profile", "notebook")
    lines = [line.split() for line in out.splitlines()]
    names = ["study", "row", "task", "positions", "trained", "label", "weights"]
    assert code == 0 and lines[0] == names
    (line,) = (line for line in lines if line[1] == "addition_relative")
    assert line[0] == "addition_schemes" and line[-1] == "committed"
    assert line[2:5] == ["addition", "abacus/relative", "1-5"]
    code, out, _ = run(capsys, "show", "addition_relative_small", "--profile", "full")
    rows = {line.split()[0]: line.split(maxsplit=1)[1] for line in out.splitlines()}
    assert rows["training.steps"].split() == ["20000", "runs.addition_relative_small"]
    assert rows["model.layers"].split() == ["1", "runs.addition_relative"]
    assert rows["training.digits"].split() == ["10", "base"]
    assert rows["seeds"].split(maxsplit=1) == ["3", "full: rows.addition_relative_small"]
    assert rows["training.clip"].split() == ["1.0", "default"]
    assert rows["format.pad"].split() == ["false", "default"]
    assert rows["positions.0.ids"].split() == ['"abacus"', "runs.addition_relative"]
    assert rows["positions.0.offset"].split() == ["1", "default"]
    assert "did you mean 'addition_nope'" in fail(capsys, "show", "addition_nop")


def test_the_origin_of_scale_and_data_set():
    settings = {s.place: s for s in run_settings.explain_run("addition_equal_learned", "smoke")}
    assert settings["model.width"].origin == "smoke: scale"
    assert settings["training.examples"].origin == "smoke: rows.addition_equal_learned"
    assert settings["data_set.lengths"].origin == "problems.generalize_to_longer_tiny"
    assert settings["training.learning_rate"].origin == "runs.addition_equal_learned"


@pytest.mark.parametrize("name", ["a b", "$(ls)", "a;b", "../up", "a.b", "", "-x", "naïve"])
def test_names_of_rows_do_not_reach_a_shell(capsys, name):
    assert "not a name" in fail(capsys, "models", f"profile={name}", "study=parity")
    assert "not a name" in fail(capsys, "notebook", "pipeline/train", f"study={name}")


def test_parameters_are_refused_in_one_line(capsys):
    assert "expected name=value" in fail(capsys, "notebook", "pipeline/train", "smoke")
    assert "'cpu_' is unknown" in fail(capsys, "models", "profile=cpu_", "study=parity")
    assert "study 'parity' has none" in fail(capsys, "models", "profile=cpu", "study=parity")
    assert "did you mean 'overview'" in fail(capsys, "figures", "ovrview", "profile=smoke")
    fail(capsys, "notebook", "pipeline/train", "profile=smoke", "study=parity", "x=[1")


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
    def stop(*_):
        raise error

    monkeypatch.setattr(run_settings, "list_rows", stop)
    exit_code, out, err = run(capsys, "rows")
    assert exit_code == code and out == "" and err.count("\n") == 1
    assert all(word in err for word in words), err


def test_other_errors_keep_their_traceback(monkeypatch):
    monkeypatch.setattr(run_settings, "list_rows", lambda profile: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cli.main(["rows"])


def test_a_folder_with_letters_beyond_ascii_and_a_plain_locale(tmp_path):
    """Settings are read as UTF-8, and messages printed, whatever the locale."""
    root = tmp_path / "Zähler – 数"
    names = ("cpu", "full", "baselines", "long")
    for name in names:
        (root / "profiles" / name).mkdir(parents=True)
    (root / "lib").symlink_to(paths.ROOT / "lib")
    for name in ("params.yaml", *(f"profiles/{name}/profile.yaml" for name in names)):
        text = (paths.ROOT / name).read_text(encoding="utf-8")
        (root / name).write_text(f"# Zähler – 数\n{text}", encoding="utf-8")
    code = (
        "import sys, pathlib; from carry.config import paths, profiles; from carry import cli; "
        "paths.ROOT = profiles.ROOT = pathlib.Path(sys.argv[1]); cli.main(sys.argv[2:])"
    )
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for words, expected in ((["rows"], 0), (["show", "naïve"], 2)):
        done = subprocess.run(
            [sys.executable, "-c", code, root, *words], env=environment, capture_output=True
        )
        assert done.returncode == expected, done.stderr
        assert b"Traceback" not in done.stderr and done.stderr.count(b"\n") == expected // 2
    with pytest.raises(SettingsError, match="expected text in UTF-8"):
        (root / "latin.yaml").write_bytes("größe: 1\n".encode("latin-1"))
        profiles.read_yaml(root / "latin.yaml")


def test_text_files_are_read_and_written_with_an_encoding():
    """Without one, Python uses the encoding of the locale."""
    missing = []
    for path in (paths.ROOT / "lib").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            opens = name == "open" or name.endswith((".read_text", ".write_text", ".open"))
            if not opens or name == "os.open":
                continue
            binary = any("b" in ast.unparse(value) for value in node.args if name[-4:] == "open")
            if not binary and "encoding" not in {keyword.arg for keyword in node.keywords}:
                missing.append(f"{path.relative_to(paths.ROOT)}:{node.lineno}: {name}")
    assert not missing


def test_a_read_only_folder_is_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    (tmp_path / "data").write_text("a file where a folder should be", encoding="utf-8")

    def write(*_):
        with paths.write_atomically(paths.data_path("cpu", "x.txt")):
            pass

    monkeypatch.setattr(run_settings, "list_rows", write)
    code, _, err = run(capsys, "rows")
    assert code == 1 and err.count("\n") == 1 and "data" in err


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
