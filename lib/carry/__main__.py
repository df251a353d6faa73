"""The command `carry`; also as `python -m carry`."""

import sys

from carry.config.tree import OtherTreeError, run_there


def main() -> None:
    """Run the command with the package of the clone that it is called in."""
    try:
        from carry.cli import main as run
    except OtherTreeError as error:
        run_there(error, sys.argv[1:])
    run()


if __name__ == "__main__":
    main()
