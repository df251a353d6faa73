"""Commands of the pipeline: `python -m carry --help` lists them."""

from __future__ import annotations

import argparse
import sys

# nbformat imports jsonschema, which would spend a second of every stage on reading a grammar of web
# addresses, for a check that notebooks have no use for. Without that module it goes on without it.
sys.modules.setdefault("rfc3987_syntax", None)

import ruamel.yaml  # noqa: E402
from papermill.exceptions import PapermillExecutionError  # noqa: E402

from carry import params, paths, pipeline  # noqa: E402
from carry.settings import SettingsError  # noqa: E402


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
        for name in given.names or sorted(pipeline.sources()):
            print(f"refreshing {name}", flush=True)
            pipeline.refresh(pipeline.source(name))
        return
    if given.command == "certify":
        from carry.certificates import kept  # here, because it imports torch

        sys.exit(0 if kept.verify_all(given.names) else 1)
    values = parameters(given.parameters)
    profile = values.pop("profile", "cpu")
    params.load_profile(profile)  # refuses an unknown one before anything is written
    if given.command == "notebook":
        pipeline.run(given.name, profile, **values)
    elif given.command == "code":
        from carry import sources  # here, because it imports torch, which takes a second

        sources.check_rows(profile)
        sources.fingerprints(profile)
    elif given.command == "questions":
        from carry import problem_sets

        problem_sets.write_questions(profile)
    elif given.command == "models":
        pipeline.publish(profile, values["row"])
    else:
        for path in pipeline.prune(profile):
            print(f"pruned {paths.shown(path)}")


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
