"""The same work for several seeds side by side: a process each, a thread each."""

from __future__ import annotations

import multiprocessing
import os
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from typing import Any

import torch

MOST = 8  # at once, of a row's few seeds: of some more than there are cores all end together

_news: Any = None  # a worker's queue to the process that shows progress


def run_jobs(
    work: Callable[..., Any], jobs: Sequence[tuple], report: Callable[..., None], most: int = MOST
) -> list[Any]:
    """Return `work(report, *job)` for every job; a job alone is done in this process.

    Of more than `most` some wait until others are done. What the jobs call `report` with, it is
    called with here. Workers end when this process does, however it went.

    >>> heard = []
    >>> run_jobs(lambda report, a, b: report(a) or a + b, [(1, 2)], heard.append), heard
    ([3], [1])
    """
    if len(jobs) == 1:
        return [work(report, *jobs[0])]
    # Workers are copies of a process that has imported what they need, and done nothing else: a
    # copy of this one could not use CUDA, and fresh ones would import it all again, each.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([work.__module__])
    news = context.Queue()
    with ProcessPoolExecutor(min(len(jobs), most), context, _start, (news,)) as pool:
        futures = [pool.submit(_call, work, job) for job in jobs]
        listener = threading.Thread(target=_listen, args=(news, futures, report))
        listener.start()
        try:
            return [future.result() for future in futures]
        finally:
            for future in futures:
                future.cancel()
            wait(futures)
            listener.join()


def count_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _start(news: Any) -> None:
    global _news
    # One thread each: two half-busy threads lose more than a third process costs.
    torch.set_num_threads(1)
    _news = news
    threading.Thread(target=_follow, daemon=True).start()


def _follow() -> None:
    """End this worker when the process that started it is gone: no one would read its work."""
    multiprocessing.parent_process().join()
    os._exit(1)


def _call(work: Callable[..., Any], job: tuple) -> Any:
    return work(_tell, *job)


def _tell(*news: Any) -> None:
    _news.put(news)


def _listen(news: Any, futures: list[Future], report: Callable[..., None]) -> None:
    while True:
        try:
            report(*news.get(timeout=0.5))
        except queue.Empty:
            if all(future.done() for future in futures):
                return
