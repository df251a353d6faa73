"""Pools of processes with one thread each."""

from __future__ import annotations

import functools
import multiprocessing
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

import psutil
import torch

# Up to 8 seeds start at once even on fewer cores: no core idles while the last seed trains alone.
MAX_WORKERS = 8
POLL_SECONDS = 0.25

_reports: Any = None  # in a worker: the queue to the process that shows progress


def run_jobs(
    work: Callable[..., Any],
    jobs: Sequence[tuple],
    report: Callable[..., None],
    max_workers: int = MAX_WORKERS,
) -> list[Any]:
    """Return `work(report, *job)` for every job, each computed with one thread.

    A single job runs in this process, several jobs in worker processes, at most `max_workers` at a
    time. The arguments of a job's calls of `report` reach `report` here. Workers end when this
    process ends for any reason. After an interrupt they end at once. After another error no further
    job starts, and running jobs finish.

    >>> reports = []
    >>> run_jobs(lambda report, a, b: report(a) or a + b, [(1, 2)], reports.append), reports
    ([3], [1])
    """
    end_with_pipeline()
    if len(jobs) == 1:
        with one_thread():
            return [work(report, *jobs[0])]
    # A copy of this process could not use CUDA, and a new process would import everything again:
    # workers are copies of a process that has only imported the modules of the work.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([work.__module__])
    reports = context.Queue()
    earlier = {*multiprocessing.active_children()}
    with ProcessPoolExecutor(
        min(len(jobs), max_workers), context, _start_worker, (reports,)
    ) as pool:
        futures = [pool.submit(_run_job, work, job) for job in jobs]
        stopped = threading.Event()
        listener = threading.Thread(
            target=_forward_reports, args=(reports, futures, report, stopped), daemon=True
        )
        listener.start()
        try:
            return [future.result() for future in futures]
        except BaseException as error:
            for future in futures:
                future.cancel()
            if not isinstance(error, Exception):  # an interrupt
                stopped.set()
                for process in {*multiprocessing.active_children()} - earlier:
                    process.terminate()
            raise
        finally:
            wait(futures)
            if not stopped.is_set():  # else an ended worker's half report may block the listener
                listener.join()


def count_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread inside the block: sums of several threads round differently.

    >>> with one_thread():
    ...     torch.get_num_threads()
    1
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@functools.cache
def end_with_pipeline() -> None:
    """End this process soon after a process ends that leads from it up to DVC.

    DVC marks the environment of its commands. Without DVC this does nothing.
    """
    ancestors = find_pipeline_processes()
    if ancestors:
        threading.Thread(target=_end_with, args=(ancestors,), daemon=True).start()


def find_pipeline_processes() -> list[psutil.Process]:
    """Return the ancestors of this process up to DVC, or none if DVC did not start it."""
    ancestors = []
    process = psutil.Process()
    try:
        while process is not None and "DVC_STAGE" in process.environ():
            process = process.parent()
            ancestors.append(process)
    except psutil.Error:  # the environment of another user's process is private
        pass
    return [process for process in ancestors if process is not None]


def _end_with(processes: Sequence[psutil.Process]) -> None:
    while all(_is_alive(process) for process in processes):
        time.sleep(POLL_SECONDS)
    os._exit(1)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _start_worker(reports: Any) -> None:
    global _reports
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers after an interrupt
    # A second thread of a busy core costs more than it computes.
    torch.set_num_threads(1)
    _reports = reports
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this worker when its parent ends, since nothing reads its results then."""
    multiprocessing.parent_process().join()
    os._exit(1)


def _run_job(work: Callable[..., Any], job: tuple) -> Any:
    return work(_send_report, *job)


def _send_report(*values: Any) -> None:
    _reports.put(values)


def _forward_reports(
    reports: Any, futures: list[Future], report: Callable[..., None], stopped: threading.Event
) -> None:
    while not stopped.is_set():
        try:
            report(*reports.get(timeout=0.5))
        except queue.Empty:
            if all(future.done() for future in futures):
                return
