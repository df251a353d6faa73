"""Commands of the pipeline: `python -m carry --help` lists them."""

from __future__ import annotations

import argparse
import sys

# nbformat imports jsonschema, which would spend a second of every stage on reading a grammar of web
# addresses, for a check that notebooks have no use for. Without that module it goes on without it.
sys.modules.setdefault("rfc3987_syntax", None)

import ruamel.yaml  # noqa: E402
from papermill.exceptions import PapermillExecutionError  # noqa: E402

from carry.config import paths, profiles
from carry.config.settings import SettingsError  # noqa: E402
from carry.pipeline import runner  # noqa: E402


def parameters(words: list[str]) -> dict:
    """Read `name=value` words; values are typed as in params.yaml, names are always text.

    >>> parameters(["profile=smoke", "row=01", "steps=20", "log=true"])
    {'profile': 'smoke', 'row': '01', 'steps': 20, 'log': True}
    """
    read = ruamel.yaml.YAML(typ="safe", pure=True).load
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise SettingsError(f"{word!r}: expected name=value")
        found[name] = value if name in ("profile", "row") else read(value)
    return found


def main(arguments: list[str] | None = None) -> None:
    """Run one command."""
    parser = argparse.ArgumentParser(prog="python -m carry", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    command = commands.add_parser("notebook", help="run a notebook as a stage of the pipeline")
    command.add_argument("name")
    command.add_argument("parameters", nargs="*", metavar="name=value")
    command = commands.add_parser("code", help="check all rows; write what code each stage reaches")
    command.add_argument("parameters", nargs=1, metavar="profile=NAME")
    command = commands.add_parser("questions", help="keep what each row is asked of its problems")
    command.add_argument("parameters", nargs=1, metavar="profile=NAME")
    command = commands.add_parser("models", help="copy the weights of a row to reports/models")
    command.add_argument("parameters", nargs=2, metavar="profile=NAME row=NAME")
    command = commands.add_parser("prune", help="delete what rows that are gone have left")
    command.add_argument("parameters", nargs=1, metavar="profile=NAME")
    command = commands.add_parser("certify", help="prove again what reports/certificates says")
    command.add_argument("names", nargs="*", help="all of them if none is named")
    command = commands.add_parser("refresh", help="run notebooks in place, with their defaults")
    command.add_argument("names", nargs="*", help="all of them if none is named")

    given = parser.parse_args(arguments)
    if given.command == "refresh":
        for name in given.names or sorted(runner.find_notebooks()):
            print(f"refreshing {name}", flush=True)
            runner.refresh_notebook(runner.find_notebook(name))
        return
    if given.command == "certify":
        from carry.certificates import files  # here, because it imports torch

        sys.exit(0 if files.verify_all(given.names) else 1)
    values = parameters(given.parameters)
    profile = values.pop("profile", "cpu")
    profiles.load_profile(profile)  # refuses an unknown one before anything is written
    if given.command == "notebook":
        runner.run_notebook(given.name, profile, **values)
    elif given.command == "code":
        from carry.pipeline import dependencies  # here, because it imports torch

        dependencies.check_rows(profile)
        dependencies.fingerprints(profile)
    elif given.command == "questions":
        from carry.data import problem_sets

        problem_sets.write_questions(profile)
    elif given.command == "models":
        runner.publish_weights(profile, values["row"])
    else:
        for path in runner.prune_results(profile):
            print(f"pruned {paths.display_path(path)}")


def command_line(arguments: list[str] | None = None) -> None:
    """Run one command; what a user can put right is said in one line, without a traceback."""
    try:
        main(arguments)
    except SettingsError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    except PapermillExecutionError as error:
        print(error, file=sys.stderr)  # the traceback of the cell; ours would say nothing more
        sys.exit(1)


if __name__ == "__main__":
    command_line()
