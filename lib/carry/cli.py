"""The command line: `carry --help` lists the commands for users, then those of the pipeline."""

from __future__ import annotations

import argparse
import builtins
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from carry.config import paths, profiles, run_settings
from carry.config.settings import (
    PROBLEM_SET_NAME,
    SettingsError,
    check_name,
    describe,
)
from carry.experiments.run import ResolvedSetting

# Modules that need torch or jupyter are imported by the commands: `carry --help` takes no second.

COMMITTED = "committed"  # the weights in reports/models/
ADDER, CALCULATOR = "addition_relative", "calculator_relative_longhand"  # rows that answer

PIPELINE_COMMANDS = """\
pipeline commands (used by dvc.yaml and make):
  code profile=NAME              check all rows, and write the code hashes of all stages
  notebook NAME name=value ...   execute a notebook as a stage
  models profile=NAME study=NAME copy weights to reports/models
  figures WORK profile=NAME      execute the notebooks of a work
  site profile=NAME              build the site from the executed notebooks
  refresh [NAME ...]             execute notebooks in place with their default parameters
"""


def main(arguments: list[str] | None = None) -> None:
    """Run one command and exit; an error that a user can correct is printed as one line."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a locale without UTF-8 must not stop a message
            stream.reconfigure(errors="backslashreplace")
    try:
        code = run_command(arguments)
    except KeyboardInterrupt:
        code = _fail(_interrupted(), 130)
    except SettingsError as error:
        code = _fail(str(error), 2)
    except BrokenPipeError:  # the reader of a pipe, such as `head`, has closed it
        sys.stdout = None
        code = 0
    except OSError as error:
        code = _fail(_file_error(error), 1)
    except Exception as error:
        line = _notebook_error(error)
        if line is None:
            raise
        code = _fail(*line)
    sys.exit(code)


def run_command(arguments: list[str] | None = None) -> int:
    """Parse the arguments, run the command, and return the exit code."""
    options = vars(make_parser().parse_args(arguments))
    command = options.pop("run")
    del options["command"]
    return command(**options) or 0


def make_parser() -> argparse.ArgumentParser:
    """Return the parser; commands of the pipeline are listed last."""
    parser = argparse.ArgumentParser(
        prog="carry",
        description="Train, ask, evaluate and certify transformers that do arithmetic.",
        epilog=PIPELINE_COMMANDS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", title="commands"
    )

    def add(name: str, run: Any, **options: Any) -> argparse.ArgumentParser:
        command = commands.add_parser(name, description=options.get("help"), **options)
        command.set_defaults(run=run)
        return command

    profile = {"default": "cpu", "metavar": "P", "help": "profile (default: cpu)"}
    weights = {"default": COMMITTED, "metavar": "P"}
    weights["help"] = "whose weights (default: reports/models)"
    seed = {"type": int, "default": 0, "metavar": "N", "help": "seed (0)"}

    command = add("ask", ask_model, help='let a trained model answer, such as "653+49"')
    command.add_argument("question", help="operands with the sign of the task between them")
    command.add_argument("--row", help=f"row ({ADDER} for sums, else {CALCULATOR})")
    command.add_argument("--profile", **weights)
    command.add_argument("--seed", **seed)
    command.add_argument(
        "--start",
        default="all",
        metavar="S",
        help='first id: a number, "all", the mean over all (default), or "window", id 1 with '
        "attention only to near ids (not for the default rows, which have windows)",
    )
    command.add_argument(
        "--trace", action="store_true", help="print each token with its probability"
    )

    command = add("rows", print_rows, help="list the rows of a profile")
    command.add_argument("--profile", **profile)

    command = add("show", show_row, help="print all settings of a row and the origin of each")
    command.add_argument("row")
    command.add_argument("--profile", **profile)
    command.add_argument(
        "--against", metavar="P", help="print only what differs from this profile, such as paper"
    )

    command = add("train", train_row, help="train all seeds of a row, or continue its training")
    command.add_argument("row")
    command.add_argument("--profile", **profile)

    command = add("evaluate", evaluate_row, help="score the trained seeds of a row")
    command.add_argument("row")
    command.add_argument("--profile", **profile)

    command = add("certify", certify, help="verify the certificates in reports/certificates again")
    command.add_argument("names", nargs="*", metavar="ROW", help="all rows if none is named")
    command.add_argument(
        "--renew", action="store_true", help="replace the certificates of named rows"
    )

    command = add(
        "export-certificate",
        export_certificate,
        help="write the contexts of a certificate with due tokens, leads and bounds",
    )
    command.add_argument("row")
    command.add_argument("--seed", **seed)
    command.add_argument(
        "--to", metavar="FOLDER", help="folder (default: data/exports/ROW/certificate_N)"
    )

    command = add("export", export, help="write a trained row as a folder for model hubs")
    command.add_argument("row")
    command.add_argument("--profile", **weights)
    command.add_argument("--seed", **seed)
    command.add_argument("--to", metavar="FOLDER", help="folder (default: data/exports/ROW/seed_N)")

    command = add("plan", plan, help="estimate the hours, memory and storage of a profile")
    command.add_argument("--profile", **profile)
    command.add_argument(
        "--workers", type=int, default=2, metavar="N", help="number of cores or GPUs (2)"
    )
    command.add_argument("--device", metavar="D", help="cpu or gpu (default: by profile)")
    command.add_argument(
        "--memory", action="store_true", help="print the memory of each row on a GPU instead"
    )

    command = add("slice", run_slice, help="train and score seeds for some minutes")
    command.add_argument("rows", nargs="*", metavar="row", help="(default: all rows)")
    command.add_argument("--profile", metavar="P", default="gpu", help="profile (default: gpu)")
    command.add_argument("--minutes", type=float, default=8.0, metavar="N", help="(default: 8)")

    # The pipeline's commands have no help here; `PIPELINE_COMMANDS` lists them.
    command = add("notebook", run_notebook)
    command.add_argument("name")
    command.add_argument("words", nargs="*", metavar="name=value")
    for name, run in (("code", write_code), ("site", write_site)):
        add(name, run).add_argument("words", nargs=1, metavar="profile=NAME")
    add("models", publish).add_argument("words", nargs=2, metavar="profile=NAME study=NAME")
    command = add("figures", draw_figures)
    command.add_argument("work")
    command.add_argument("words", nargs=1, metavar="profile=NAME")
    add("refresh", refresh).add_argument("names", nargs="*")
    return parser


def parse_parameters(words: Iterable[str]) -> dict[str, Any]:
    """Parse `name=value` words. Values have types as in params.yaml; names of studies are text.

    >>> parse_parameters(["profile=smoke", "study=01", "steps=20", "log=true"])
    {'profile': 'smoke', 'study': '01', 'steps': 20, 'log': True}

    Raises:
        SettingsError: for a word without `=`, or a name that is not allowed.
    """
    parameters = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise SettingsError(f"{describe(word)} is not a parameter; expected name=value")
        if name in ("profile", "study", "variant_set"):
            check_name(value, name, PROBLEM_SET_NAME)
            parameters[name] = value
        else:
            parameters[name] = profiles.parse_yaml(value, name)
    return parameters


def ask_model(
    question: str, row: str | None, profile: str, seed: int, start: str, trace: bool
) -> None:
    """Print the answer of a trained model to one question."""
    from carry.evaluation import ask

    question = question.replace(" ", "").removesuffix("=")
    row = row or (CALCULATOR if {*question} & {*"-*/"} else ADDER)
    system = _load_model(row, profile, seed)
    operands = system.task.parse_question(question)
    steps = ask.ask(system, *operands, start=_number(start))
    if trace:
        print(steps.to_string(index=False))
    elif rows := system.format.describe_rows("".join(steps["predicted"])):
        print(rows)
    print(ask.read_answer(system, steps))


def _number(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text


def _load_model(row: str, profile: str, seed: int) -> Any:
    """Return one seed of a row with its weights from a profile, or the committed ones."""
    from carry.evaluation import committed_models, trained_models

    if profile != COMMITTED:
        run_settings.load_run(row, profile)  # refuses an unknown profile or row
        return trained_models.load_trained(profile, row, seed)
    check_name(row, "row")
    return committed_models.load_committed(row, seed, device=None)


def print_rows(profile: str) -> None:
    """Print one line for each row of a profile."""
    lines = [("study", "row", "task", "positions", "trained", "label", "weights")]
    for name in run_settings.list_rows(profile):
        run = run_settings.load_run(name, profile)
        pairs = [f"{pair.get('ids')}/{pair.get('encoding')}" for pair in run.positions]
        lines.append(
            (
                profiles.find_study(name),
                name,
                str(run.task.get("name")),
                " + ".join(pairs) or "none",
                _ranges(run.trained_lengths()),
                run.label or "",
                _weights(name, profile),
            )
        )
    _print_table(lines)


def _ranges(lengths: list[int]) -> str:
    """Return lengths as ranges.

    >>> _ranges([1, 2, 3, 4, 7])
    '1-4, 7'
    """
    ranges: list[list[int]] = []
    for length in sorted(lengths):
        if ranges and ranges[-1][-1] == length - 1:
            ranges[-1] = [ranges[-1][0], length]
        else:
            ranges.append([length])
    return ", ".join("-".join(map(str, ends)) for ends in ranges)


def _weights(row: str, profile: str) -> str:
    """Return where weights of a row are: of this profile, committed, or nowhere."""
    study = profiles.find_study(row)
    folders = {"trained": [paths.run_folder(profile, study, row)]}
    folders[COMMITTED] = [paths.models_folder(name, study, row) for name in paths.COMMITTED]
    return ", ".join(
        name
        for name, places in folders.items()
        if any(any(place.glob("seed_*.safetensors")) for place in places)
    )


def _print_table(lines: list[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())


def show_row(row: str, profile: str, against: str | None = None) -> None:
    """Print all settings of a row, or those that differ from the same row in another profile."""
    from carry.departures import list_departures, list_part_defaults
    from carry.models.system import System

    run = run_settings.load_run(row, profile)
    System(run, device="meta")  # refuses parts that do not fit each other
    if against is not None:
        _print_departures(list_departures(row, profile, against), against)
        return
    settings = run_settings.explain_run(row, profile)
    places = {setting.place for setting in settings}
    settings += [
        ResolvedSetting(place, value, "default")
        for place, value in list_part_defaults(run).items()
        if place not in places
    ]
    sections = ["label", "seeds", "task", "format", "positions", "model", "training", "evaluation"]
    sections += ["data_set"]
    settings.sort(key=lambda setting: _section(setting.place, sections))
    lines = [("setting", "value", "origin")]
    lines += [(place, json.dumps(value), origin) for place, value, origin in settings]
    _print_table(lines)


def _print_departures(departures: Any, against: str) -> None:
    """Print departures of kind, then those of size."""
    of_size = departures["kind"] == "size"
    for title, part in (("kind", departures[~of_size]), ("size alone", departures[of_size])):
        lines = [tuple(map(json.dumps, values)) for values in part[["here", against]].values]
        lines = [(name, *line) for name, line in zip(part["setting"], lines, strict=True)]
        print(f"of {title}: {len(lines)}")
        if lines:
            _print_table([("setting", "here", against), *lines])


def _section(place: str, sections: list[str]) -> tuple[int, str]:
    """Return the order of a setting: by section, and of positions by pair."""
    parts = place.split(".")
    return sections.index(parts[0]), parts[1] if parts[0] == "positions" and parts[1:] else ""


def train_row(row: str, profile: str) -> None:
    """Train all seeds of a row, or continue from their checkpoints."""
    from carry.training import rows

    run = run_settings.load_run(row, profile)
    rows.train_rows([row], profile)
    folder = paths.run_folder(profile, profiles.find_study(run.name), row)
    print(f"weights: {paths.display_path(folder)}")


def evaluate_row(row: str, profile: str) -> None:
    """Score the trained seeds of a row on its problem set, and print the accuracy by region."""
    from carry.evaluation import rows
    from carry.evaluation.intervals import pool_cells
    from carry.evaluation.regions import add_region

    cells = add_region(rows.evaluate_rows([row], profile)["cells"])
    print(pool_cells(cells, ["seed", "start", "region"]).round(3).to_string(index=False))


def certify(names: list[str], renew: bool = False) -> int:
    """Verify committed certificates, or renew them; return 1 if one of them fails."""
    from carry.certificates.certify import renew_certificate, verify_certificates

    if not renew:
        return 0 if verify_certificates(names) else 1
    if not names:
        raise SettingsError("certify --renew: no row is named; expected ROW...")
    for row in names:
        renew_certificate(row)
    return 0


def export_certificate(row: str, seed: int, to: str | None) -> None:
    """Write all contexts of a committed model, with leads and bounds, to a folder."""
    from carry.certificates.certify import export_tables

    check_name(row, "row")
    folder = Path(to) if to else paths.data_path("exports", row, f"certificate_{seed}")
    export_tables(row, seed, folder)
    print(folder if to else paths.display_path(folder))


def export(row: str, profile: str, seed: int, to: str | None) -> None:
    """Write the weights, the settings and the model card of one seed of a row to a folder."""
    from carry.exports.card import export_model

    system = _load_model(row, profile, seed)
    folder = export_model(system, to or paths.data_path("exports", row, f"seed_{seed}"))
    print(folder if to else paths.display_path(folder))


def plan(profile: str, workers: int, device: str | None, memory: bool) -> None:
    """Print what training and scoring a profile takes, or the memory of its rows on a GPU."""
    from carry.pipeline.plan import print_memory, print_plan

    if memory:
        print_memory(profile)
    else:
        print_plan(profile, workers, device)


def run_slice(rows: list[str], profile: str, minutes: float) -> None:
    """Train and score seeds of a profile for some minutes, and add their results."""
    from carry.pipeline import slices

    slices.run_slice(minutes, profile, rows)


def run_notebook(name: str, words: list[str]) -> None:
    """Execute a notebook as a stage of the pipeline."""
    parameters = _with_profile(words)
    _runner().run_notebook(name, parameters.pop("profile"), **parameters)


def write_code(words: list[str]) -> None:
    """Check all rows of a profile, prune old results, and write the code hashes of all stages."""
    from carry.pipeline import dependencies, files

    profile = _with_profile(words)["profile"]
    dependencies.check_rows(profile)
    for path in files.prune_results(profile):
        print(f"pruned {paths.display_path(path)}")
    dependencies.write_fingerprints(profile)


def publish(words: list[str]) -> None:
    """Copy the weights of a study to the published models."""
    from carry.pipeline import files

    parameters = _with_profile(words)
    if "study" not in parameters:
        raise SettingsError("study: missing; expected study=NAME")
    files.publish_weights(parameters["profile"], parameters["study"])


def draw_figures(work: str, words: list[str]) -> None:
    """Execute all notebooks of a work."""
    parameters = _with_profile(words)
    _runner().draw_figures(work, parameters["profile"])


def write_site(words: list[str]) -> None:
    """Build the site of a profile, and print its first page."""
    from carry.pipeline import site

    print(paths.display_path(site.write_site(_with_profile(words)["profile"])))


def refresh(names: list[str]) -> None:
    """Execute notebooks in place."""
    runner = _runner()
    for name in names or sorted(runner.find_notebooks()):
        print(f"refreshing {name}", flush=True)
        runner.refresh_notebook(runner.find_notebook(name))


def _with_profile(words: list[str]) -> dict[str, Any]:
    """Return parameters with a profile that exists."""
    parameters = {"profile": "cpu", **parse_parameters(words)}
    profiles.load_profile(parameters["profile"])  # before anything is written
    return parameters


def _runner() -> Any:
    # nbformat imports jsonschema, which reads a grammar of web addresses for a second. Notebooks do
    # not need that check, and jsonschema works without the module.
    sys.modules.setdefault("rfc3987_syntax", None)
    from carry.pipeline import runner

    return runner


def _fail(line: str, code: int) -> int:
    print(line, file=sys.stderr)
    return code


def _interrupted() -> str:
    return (
        "interrupted: finished files and the checkpoints of trainings (data/PROFILE/jobs) "
        "are kept; run the same command again to continue"
    )


def _file_error(error: OSError) -> str:
    """Return one line about a file that cannot be read or written."""
    name = error.filename if error.filename is not None else "a file"
    reason = error.strerror or " ".join(str(error).split())[:300]
    return f"{os.fsdecode(str(name))}: {reason}; expected a readable path and a writable disk"


def _notebook_error(error: Exception) -> tuple[str, int] | None:
    """Return a line and an exit code for an error inside a notebook or a file library, if known."""
    kind = type(error).__name__
    if kind == "SafetensorError":  # hides the operating system's error
        return f"weights: {' '.join(str(error).split())[:300]}; expected a writable disk", 1
    if kind != "PapermillExecutionError":
        return None
    if error.ename == "KeyboardInterrupt":
        return _interrupted(), 130
    cause = getattr(builtins, error.ename, None)
    if isinstance(cause, type) and issubclass(cause, OSError):
        return f"{error.ename}: {' '.join(error.evalue.split())[:400]}", 1
    return str(error), 1  # the traceback of the cell
