"""A pool of processes of this machine, each with one thread and at most one GPU."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import torch

from carry.config.settings import SettingsError
from carry.processes import count_cores, end_with_pipeline, one_thread

WORKERS_PER_GPU = 8  # small models leave a GPU idle most of the time
# The environment variable with the share of a GPU's memory that a worker may use.
GPU_SHARE = "CARRY_GPU_SHARE"

# In a worker: the queue to the process that shows progress, and the processes of all calls.
_reports: Any = None
_owners: Any = None


def map_processes(
    work: Callable[..., Any],
    arguments: Sequence[tuple],
    report: Callable[..., None] = lambda *values: None,
    names: Sequence[str] | None = None,
) -> list[Any]:
    """Return `work(report, *arguments)` for every tuple, each computed with one thread.

    A single call runs in this process, several run in worker processes, which start them in order.
    What a call passes to `report` reaches `report` here. Workers end when this process ends for any
    reason, and at once after an interrupt. After another error no further call starts, and running
    ones finish.

    Args:
        names: of the calls, for messages.

    Raises:
        SettingsError: for a worker that ended in the middle of a call.

    >>> reports = []
    >>> map_processes(lambda report, a, b: report(a) or a + b, [(1, 2)], reports.append), reports
    ([3], [1])
    """
    end_with_pipeline()
    if len(arguments) == 1:
        with one_thread():
            return [work(report, *arguments[0])]
    # A copy of this process could not use CUDA, and a new process would import everything again:
    # workers are copies of a process that has only imported the modules of the work.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_find_modules(work, arguments))
    reports, count = context.Queue(), min(len(arguments), count_workers())
    earlier, started = {*multiprocessing.active_children()}, set()
    # The process of each call that has started. The queue of reports cannot tell: a process that is
    # killed may not have sent what it put there.
    owners = context.Array("i", len(arguments))
    results: list[Any] = [None] * len(arguments)
    running: dict[Future, int] = {}
    gpus = find_gpus()
    share = 1 / max(1, -(-count // max(1, len(gpus))))
    options = (context, _start_worker, (reports, owners, context.Value("i"), gpus, share))
    listener = threading.Thread(target=_forward_reports, args=(reports, report), daemon=True)
    listener.start()
    with ProcessPoolExecutor(count, *options) as pool:
        try:
            for index, values in enumerate(arguments):
                if len(running) == count:
                    _collect(running, results)
                running[pool.submit(_call, work, index, values)] = index
                started |= {*multiprocessing.active_children()} - earlier
            while running:
                _collect(running, results)
        except BrokenProcessPool:
            raise SettingsError(_explain_death(started, [*owners], names)) from None
        except BaseException as error:
            if not isinstance(error, Exception):  # an interrupt
                for process in started:
                    process.terminate()
            raise
        finally:
            wait(running)
    # Only now: half a report of a worker that was ended would block the listener for ever.
    reports.put(None)
    listener.join()
    return results


def find_gpus() -> list[str]:
    """Return the names by which CUDA knows the GPUs that this process may use."""
    count = torch.cuda.device_count()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",")[:count] if visible else [str(index) for index in range(count)]


def count_workers() -> int:
    """Return how many processes work at once: one a core, and at most eight a GPU."""
    gpus = len(find_gpus())
    return min(count_cores(), WORKERS_PER_GPU * gpus) if gpus else count_cores()


def _find_modules(work: Callable[..., Any], arguments: Sequence[tuple]) -> list[str]:
    """Return the modules that workers need: of the work, and of the work of tasks."""
    jobs = [getattr(value, "job", None) for values in arguments for value in values]
    return sorted({work.__module__, *(job.work.__module__ for job in jobs if job is not None)})


def _collect(running: dict[Future, int], results: list[Any]) -> None:
    """Wait until a call has ended; keep its result, or raise its error."""
    for future in wait(running, return_when=FIRST_COMPLETED).done:
        results[running.pop(future)] = future.result()


def _explain_death(started: set[Any], owners: list[int], names: Sequence[str] | None) -> str:
    """Return one line on the worker that ended first: the others were ended by the pool."""
    for process in started:
        process.join(timeout=5)
    dead = [p for p in started if p.exitcode not in (None, 0, -signal.SIGTERM)]
    text, name = "a worker process ended", "?"
    for process in dead[:1]:
        indices = [index for index, owner in enumerate(owners) if owner == process.pid]
        name = repr(names[indices[-1]] if names else indices[-1]) if indices else "a job"
        code = process.exitcode
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        text = f"the worker process of {name} ended ({how})"
    return (
        f"jobs: {text}, perhaps for want of memory; finished jobs are kept; expected a machine "
        "with more memory, or fewer cores at once (taskset)"
    )


def _start_worker(reports: Any, owners: Any, counter: Any, gpus: list[str], share: float) -> None:
    global _reports, _owners
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers after an interrupt
    # A second thread of a busy core costs more than it computes.
    torch.set_num_threads(1)
    if gpus:
        with counter.get_lock():
            os.environ["CUDA_VISIBLE_DEVICES"] = gpus[counter.value % len(gpus)]
            counter.value += 1
        os.environ[GPU_SHARE] = str(share)
    _reports, _owners = reports, owners
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this worker when its parent ends, since nothing reads its results then."""
    multiprocessing.parent_process().join()
    os._exit(1)


def _call(work: Callable[..., Any], index: int, arguments: tuple) -> Any:
    _owners[index] = os.getpid()
    return work(lambda *values: _reports.put(values), *arguments)


def _forward_reports(reports: Any, report: Callable[..., None]) -> None:
    while (values := reports.get()) is not None:
        report(*values)
