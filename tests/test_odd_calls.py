"""Functions that CONTRIBUTING.md names refuse odd arguments in one line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

COUNT = int(os.environ.get("CARRY_FUZZ", 400))
SHARES = 2


@pytest.mark.parametrize("seed", range(SHARES))
def test_odd_calls_are_refused_in_one_line(seed):
    script = Path(__file__).with_name("odd_calls.py")
    command = [sys.executable, "-W", "ignore", script, str(COUNT // SHARES), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
