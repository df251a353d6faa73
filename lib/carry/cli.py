"""The command line: `carry --help` lists the commands for users, then those of the pipeline."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import math
import os
import re
import sys
from pathlib import Path
from typing import Any, NoReturn

from carry.config import paths, tree
from carry.config.settings import (
    LARGEST_INTEGER,
    SettingsError,
    check_name,
    describe,
    suggest_name,
)
from carry.evaluation.questions import ADDER, CALCULATOR, SEVERAL
from carry.experiments.base import SCALES
from carry.runs.ask import print_table

# Modules that need torch or jupyter are imported by the commands: `carry --help` takes no second.

# Commands that read files of a clone; the others work wherever the library is installed.
IN_CLONE = ("certify", "export-certificate", "export-coq")
IN_CLONE += ("notebook", "figures", "readme", "site", "refresh")


def main(arguments: list[str] | None = None) -> None:
    """Run one command and exit; an error that a user can correct is printed as one line."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a locale without UTF-8 must not stop a message
            stream.reconfigure(errors="backslashreplace")
    try:
        code = run_command(arguments)
    except BrokenPipeError:  # the reader of a pipe, such as `head`, has closed it
        sys.stdout = None
        code = 0
    except (Exception, KeyboardInterrupt) as error:
        line, code = explain_error(error)
        if not line:
            raise
        print(line, file=sys.stderr)
    sys.exit(code)


def explain_error(error: BaseException) -> tuple[str, int]:
    """Return one line about an error that a user can correct, and the exit code."""
    kind, text = type(error).__name__, " ".join(str(error).split())[:300]
    if kind == "PapermillExecutionError" and error.ename != "KeyboardInterrupt":
        return str(error), 1  # the traceback of the cell
    if isinstance(error, KeyboardInterrupt) or kind == "PapermillExecutionError":
        return (
            "interrupted: finished files and the checkpoints of trainings (data/store) are "
            "kept; run the same command again to continue",
            130,
        )
    if isinstance(error, SettingsError):
        return str(error), 2
    if isinstance(error, ModuleNotFoundError) and not str(error.name).startswith("carry"):
        return f'{error.name}: not installed; expected `pip install "carry[pipeline]"`', 2
    if isinstance(error, OSError):
        name = os.fsdecode(str(error.filename or "a file"))
        reason = error.strerror or text
        return f"{name}: {reason}; expected a readable path and a writable disk", 1
    if kind == "SafetensorError":  # hides the operating system's error
        return f"weights: {text}; expected a writable disk", 1
    return "", 1


def run_command(arguments: list[str] | None = None) -> int:
    """Parse the arguments, run the command, and return the exit code."""
    options = vars(make_parser().parse_args(arguments))
    command, name = options.pop("run"), options.pop("command")
    if name in IN_CLONE and not tree.is_project(paths.ROOT):
        raise SettingsError(
            f"carry {name}: {paths.ROOT} is not in a clone of the project; expected the working "
            "directory in one"
        )
    if isinstance(command, str):
        module, function = command.split(":")
        command = getattr(importlib.import_module(module), function)
    code = command(**options)
    return code if isinstance(code, int) else 0


class Parser(argparse.ArgumentParser):
    """A parser that refuses wrong words in one line, with the nearest choice."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._negative_number_matcher = re.compile(r"-\W*\d")  # no option: "-5+3" is a question

    def error(self, message: str) -> NoReturn:
        """Raise the error for `main`."""
        raise SettingsError(f"{self.prog}: {message}; see `{self.prog} --help`")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            hint = suggest_name(value, action.choices)
            raise argparse.ArgumentError(action, f"{describe(value)} is unknown, {hint}")


def _parse_minutes(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 1 < float(text) < math.inf:  # no seed begins in the last minute
            return float(text)
    raise argparse.ArgumentTypeError(f"{describe(text)} is no such time; expected more than 1")


def _parse_seed(text: str) -> int:
    if text.isdecimal() and len(text) < 10:
        return int(text)
    raise argparse.ArgumentTypeError(f"{describe(text)} is no seed; expected an integer from 0")


def _parse_start(text: str) -> int | str:
    if text in ("all", "window"):
        return text
    if text.isdecimal() and 1 <= int(text[:10]) <= LARGEST_INTEGER and len(text) <= 10:
        return int(text)
    raise argparse.ArgumentTypeError(
        f"{describe(text)} is no first id; expected 'all', 'window' or an integer from 1"
    )


def make_parser() -> argparse.ArgumentParser:
    """Return the parser; commands of the pipeline (dvc.yaml, make) are listed last."""
    parser = Parser(
        prog="carry",
        description="Train, ask, evaluate and certify transformers that do arithmetic.",
    )
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", title="commands"
    )

    def add(name: str, run: Any, help: str) -> argparse.ArgumentParser:
        """Add a command that calls a function, or the one that "MODULE:FUNCTION" names."""
        command = commands.add_parser(name, description=help, help=help)
        command.set_defaults(run=run)
        return command

    scale = {"default": "laptop", "choices": SCALES, "metavar": "S"}
    scale["help"] = f"{', '.join(SCALES)} (default: laptop)"
    seed = {"type": _parse_seed, "default": 0, "metavar": "N", "help": "seed (0)"}
    start = {"type": _parse_start, "default": "all", "metavar": "S"}
    start["help"] = (
        "first id: a number, all, the mean over all (default), or window, id 1 with attention only "
        "to near ids (not for the default rows, which have windows)"
    )
    row = f"row ({ADDER} for sums, {SEVERAL} for more than two numbers, else {CALCULATOR})"

    command = add("ask", "carry.runs.ask:ask", 'let a trained model answer, such as "653+49"')
    command.add_argument(
        "question", nargs="*", help="numbers with the sign of the task between them"
    )
    command.add_argument("--file", metavar="FILE", help="score the questions of a file instead")
    command.add_argument("--row", help=row)
    command.add_argument("--scale", **scale)
    command.add_argument("--seed", **seed)
    command.add_argument("--start", **start)
    command.add_argument(
        "--trace", action="store_true", help="print each token with its probability"
    )

    command = add("score", "carry.runs.ask:score", "score a model on a file of questions")
    command.add_argument(
        "file", help="one question on each line, or CSV with a column question, and maybe answer"
    )
    command.add_argument(
        "--model",
        metavar="PATH",
        help="folder of `carry export`, or Python file, which is run",
    )
    command.add_argument("--row", help=row)
    command.add_argument("--scale", **scale)
    command.add_argument("--seed", **seed)
    command.add_argument("--start", **start)
    command.add_argument("--to", metavar="FILE", help="write all answers to a new CSV file")
    command.add_argument(
        "--certify", action="store_true",
        help="also prove or refute exactness at every length (up to minutes)",
    )  # fmt: skip

    add("rows", print_rows, "list the rows").add_argument("--scale", **scale)

    command = add("show", show_row, "print all settings of a row")
    command.add_argument("row")
    command.add_argument("--scale", **scale)
    command.add_argument("--against", metavar="S", help="print only what differs at this scale")

    command = add(
        "run", "carry.runs.run:run_rows", "train, score, analyse and certify rows or studies"
    )
    command.add_argument("names", nargs="+", metavar="NAME", help="rows or studies")
    command.add_argument("--scale", **scale)
    command.add_argument(
        "--seed", type=int, action="append", metavar="N", dest="seeds",
        help="only this seed; may be repeated",
    )  # fmt: skip
    command.add_argument("--minutes", type=_parse_minutes, metavar="N",
                         help="stop after this time; the next call goes on")  # fmt: skip

    command = add(
        "compare", "carry.pages.compare:compare_results", "say whether results are those in git"
    )
    command.add_argument("revision", nargs="?", default="HEAD", help="a commit (default: HEAD)")

    command = add("certify", certify, "verify the certificates in reports/certificates again")
    command.add_argument("names", nargs="*", metavar="ROW", help="all rows if none is named")
    command.add_argument(
        "--renew", action="store_true", help="replace the certificates of named rows"
    )

    command = add(
        "export-certificate",
        export_certificate,
        "write the contexts of a certificate with due tokens, leads and bounds",
    )
    command.add_argument("row")
    command.add_argument("--seed", **seed)
    command.add_argument(
        "--to", metavar="FOLDER", help="folder (default: data/exports/ROW/certificate_N)"
    )

    command = add("export-coq", export_coq, "write weights in git for the proofs in Coq, exactly")
    command.add_argument("rows", nargs="+", metavar="ROW")
    command.add_argument("--seed", **{**seed, "default": None, "help": "seed (default: all)"})
    command.add_argument("--to", metavar="FOLDER", help="folder (default: proofs/weights)")

    command = add("export", export, "write a trained row as a folder for model hubs")
    command.add_argument("row")
    command.add_argument("--scale", **scale)
    command.add_argument("--seed", **seed)
    command.add_argument("--to", metavar="FOLDER", help="folder (default: data/exports/ROW/seed_N)")
    command.add_argument(
        "--snapshots", action="store_true", help="also write the weights during training"
    )

    command = add("notebook", "carry.runs.notebooks:run_notebook", "execute a notebook as a stage")
    command.add_argument("name")
    command = add("figures", "carry.runs.notebooks:draw_figures", "execute the notebooks of a work")
    command.add_argument("work", nargs="?", help="work (all if none is named)")
    add("readme", "carry.pages.readme:fill_readme", "fill the numbers into the texts")
    add("site", write_site, "build the site from the executed notebooks")
    command = add("refresh", refresh, "execute notebooks in place with their default parameters")
    command.add_argument("names", nargs="*")
    return parser


def print_rows(scale: str) -> None:
    """Print one line for each row that has a scale."""
    from carry.experiments.resolve import list_rows, load_run
    from carry.results import format_lengths
    from carry.runs.tables import list_done

    lines = [("study", "row", "task", "positions", "trained", "seeds", "label", "weights")]
    for name in list_rows(scale=scale):
        run = load_run(name, scale)
        pairs = [f"{pair['ids']}/{pair['encoding']}" for pair in run.positions]
        weights = any(paths.models_folder(name).glob("seed_*.safetensors"))
        words = (run.study, name, run.task["name"], " + ".join(pairs) or "none")
        lengths = format_lengths(run.trained_lengths())
        seeds = f"{len(list_done(run))} of {run.seeds}"
        lines.append((*words, lengths, seeds, run.label or "", "in git" if weights else ""))
    print_table(lines)


def show_row(row: str, scale: str, against: str | None = None) -> None:
    """Print all settings of a row, or those that differ at another scale."""
    from carry.experiments.resolve import load_run, name_place
    from carry.models.identity import list_settings
    from carry.models.system import System

    run = load_run(row, scale)
    with name_place(row):
        System(run, device="meta")  # refuses parts that do not fit each other
    if against is not None:
        from carry.departures import list_departures

        _print_departures(list_departures(row, scale, against), against)
        return
    lines = [("setting", "value", "")]
    for place, value, default in list_settings(run):
        lines.append((place, json.dumps(value), "default" if value == default else ""))
    print_table(lines)


def _print_departures(departures: Any, against: str) -> None:
    """Print departures of kind, then those of size."""
    of_size = departures["kind"] == "size"
    for title, part in (("kind", departures[~of_size]), ("size alone", departures[of_size])):
        lines = [tuple(map(json.dumps, values)) for values in part[["here", against]].values]
        lines = [(name, *line) for name, line in zip(part["setting"], lines, strict=True)]
        print(f"of {title}: {len(lines)}")
        if lines:
            print_table([("setting", "here", against), *lines])


def certify(names: list[str], renew: bool = False) -> int:
    """Verify committed certificates, or renew them; return 1 if one of them fails."""
    from carry.certificates import committed

    committed.check_certified(names)  # of all, before minutes of work for the first
    if not renew:
        return 0 if committed.verify_certificates(names) else 1
    if not names:
        raise SettingsError("certify --renew: no row is named; expected ROW...")
    for row in names:
        committed.renew_certificate(row)
    return 0


def export_certificate(row: str, seed: int, to: str | None) -> None:
    """Write all contexts of a committed model, with leads and bounds, to a folder."""
    from carry.certificates.committed import export_tables

    check_name(row, "row")
    folder = Path(to) if to else paths.ROOT / "data" / "exports" / row / f"certificate_{seed}"
    export_tables(row, seed, folder)
    print(folder if to else paths.display_path(folder))


def export_coq(rows: list[str], seed: int | None, to: str | None) -> None:
    """Write the weights of rows as definitions of Coq, and print the files."""
    from carry.exports.coq import export_weights

    for row in rows:
        for file in export_weights(row, seed, Path(to) if to else None):
            print(file if to else paths.display_path(file))


def export(row: str, scale: str, seed: int, to: str | None, snapshots: bool) -> None:
    """Write the weights, the settings and the model card of one seed of a row to a folder."""
    from carry.evaluation.trained_models import load_seed
    from carry.experiments.resolve import load_run
    from carry.exports.card import export_model

    system = load_seed(load_run(row, scale), seed)
    default = paths.ROOT / "data" / "exports" / row / f"seed_{seed}"
    folder = export_model(system, to or default, snapshots)
    print(folder if to else paths.display_path(folder))


def write_site() -> None:
    """Build the site, and print its first page."""
    from carry.pages import site

    print(paths.display_path(site.write_site()))


def refresh(names: list[str]) -> None:
    """Execute notebooks in place."""
    from carry.config.notebooks import find_notebooks
    from carry.runs import notebooks

    sources = {name: notebooks.find_notebook(name) for name in names or find_notebooks()}
    for name, source in sources.items():
        print(f"refreshing {name}", flush=True)
        notebooks.refresh_notebook(source)
