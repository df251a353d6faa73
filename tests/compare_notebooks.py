"""Run nbval on the notebooks of the project, or on those named, and exit with its code.

Their kernels have the environment of all kernels of the project (`carry.runs.notebooks`).
"""

import os
import subprocess
import sys
from pathlib import Path

from carry.config.notebooks import find_notebooks
from carry.runs.notebooks import COMPARED, kernel_environment

OPTIONS = ["-n", "2", "--dist", "loadfile", "--nbval", "--nbval-current-env"]
OPTIONS += ["--nbval-cell-timeout=120", "--nbval-sanitize-with"]
OPTIONS += [str(Path(__file__).with_name("nbval_sanitize.cfg"))]


def main():
    names = sys.argv[1:] or [os.path.relpath(path) for path in find_notebooks().values()]
    with kernel_environment(COMPARED):
        command = [sys.executable, "-m", "pytest", *OPTIONS, *names]
        sys.exit(subprocess.run(command, check=False).returncode)


if __name__ == "__main__":
    main()
