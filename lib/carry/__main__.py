"""Run the command line as `python -m carry`."""

from carry.cli import main

if __name__ == "__main__":
    main()
