"""Kernels that start with the libraries of figures already imported.

A kernel takes half a second to start, and then three seconds to import torch, pandas and seaborn
and to read the settings. Notebooks that draw figures do little else, so where many run one after
the other, one process does this (`preloaded`) and each kernel is forked from it. Jupyter finds the
class by the entry point `carry` in pyproject.toml, if JUPYTER_DEFAULT_PROVISIONER_NAME=carry.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from multiprocessing import resource_tracker
from typing import Any

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning import LocalProvisioner

PRELOADED = "carry.pipeline.preloaded"


class ForkedProvisioner(LocalProvisioner):
    """Forks a kernel from a process with imported libraries."""

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Start the kernel of a command such as `python -m ipykernel_launcher -f FILE`."""
        launcher = "ipykernel_launcher"
        if launcher not in cmd or sys.platform != "linux":  # elsewhere libraries may not be forked
            return await super().launch_kernel(cmd, **kwargs)
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([PRELOADED])  # of no effect once the server runs
        arguments = cmd[cmd.index(launcher) + 1 :]
        self.process = ForkedKernel(
            context.Process(target=run_kernel, args=(arguments, kwargs["env"], kwargs.get("cwd")))
        )
        self.pid = self.pgid = self.process.pid  # see run_kernel
        self.cwd = kwargs.get("cwd", os.getcwd())
        return self.connection_info


class ForkedKernel:
    """The members of `subprocess.Popen` that a provisioner uses, for a forked process."""

    stdin = stdout = stderr = None

    def __init__(self, process: Any) -> None:
        """Start the process."""
        process.start()
        self.process, self.pid = process, process.pid

    def poll(self) -> int | None:
        """Return the exit code; None while it runs."""
        return self.process.exitcode

    def wait(self) -> int | None:
        """Wait for its end, and return the exit code."""
        self.process.join()
        return self.process.exitcode

    def send_signal(self, signum: int) -> None:
        """Send a signal."""
        os.kill(self.pid, signum)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


def run_kernel(arguments: list[str], environment: dict[str, str], folder: str | None) -> None:
    """Be a kernel, in a forked process, as `ipykernel_launcher` is in one of its own."""
    import matplotlib
    import pandas as pd
    from ipykernel.kernelapp import IPKernelApp

    os.setsid()  # a signal to its group reaches the processes that it starts
    # The other process's would warn of what a killed kernel has not returned.
    resource_tracker._resource_tracker._fd = None
    os.environ.clear()
    os.environ.update(environment)
    # What libraries set when they are imported, and that is different in a kernel.
    matplotlib.rcParams["backend"] = "module://matplotlib_inline.backend_inline"
    pd.set_option("display.max_columns", 20)
    if folder:
        os.chdir(folder)
    sys.argv = ["ipykernel_launcher", *arguments]
    IPKernelApp.launch_instance(parent_handle=os.getppid())  # it ends when its parent does
