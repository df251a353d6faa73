"""A kernel that is forked with its libraries imported is otherwise as any kernel."""

import os
from multiprocessing import forkserver

import pytest
from jupyter_client.manager import KernelManager

CODE = """
import os, sys
loaded = {"torch", "seaborn"} & {*sys.modules}
import matplotlib.pyplot as plt
import pandas as pd
print(sorted(loaded), os.getcwd(), os.environ["PLACE"], os.getpgrp() == os.getpid())
print(plt.get_backend(), pd.get_option("display.max_columns"), __name__)
"""


@pytest.fixture
def manager():
    forkserver._forkserver._stop()  # one that another test has started has other libraries
    manager = KernelManager(kernel_name="python3")
    manager.kernel_spec.metadata["kernel_provisioner"] = {"provisioner_name": "carry"}
    yield manager
    manager.shutdown_kernel(now=True)


def run_cell(client, code):
    """Return what a cell prints, and the name of the error that ended it."""
    texts = []
    reply = client.execute_interactive(
        code, timeout=60, output_hook=lambda m: texts.append(m["content"].get("text", ""))
    )
    return "".join(texts).split(), reply["content"].get("ename")


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # sockets of the client
def test_a_forked_kernel_runs_cells_is_interrupted_and_ends(manager, tmp_path):
    manager.start_kernel(cwd=str(tmp_path), env={**os.environ, "PLACE": "here"})
    client = manager.blocking_client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    printed, _ = run_cell(client, CODE)
    assert printed == [
        "['seaborn',", "'torch']", str(tmp_path), "here", "True",
        "module://matplotlib_inline.backend_inline", "20", "__main__",
    ]  # fmt: skip

    client.execute("import time; print('begun'); time.sleep(600)")
    while client.get_iopub_msg(timeout=60)["content"].get("text") != "begun\n":
        pass
    manager.interrupt_kernel()
    assert client.get_shell_msg(timeout=60)["content"]["ename"] == "KeyboardInterrupt"

    pid = manager.provisioner.pid
    client.stop_channels()
    manager.shutdown_kernel(now=True)
    assert not manager.is_alive() and not os.path.exists(f"/proc/{pid}/cmdline")
