"""Jobs on Dask workers with one thread each, which share the project's folder.

The environment variable CARRY_EXECUTOR says where they run:

(empty)             this machine: one worker a core, or up to eight a GPU
dask://HOST:PORT    a Dask scheduler that runs, on a cluster too (benchmarks/slurm.example.py)
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import socket
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import spawn, util
from pathlib import Path
from typing import Any

import dask
import distributed
import torch
import tqdm

from carry.config import paths
from carry.config.settings import SettingsError, describe
from carry.jobs import store
from carry.jobs.store import Job
from carry.processes import allow_open_files, count_cores

ADDRESS = re.compile(r"dask://([\w.-]+|\[[\da-fA-F:]+\]):(\d{1,5})")
CONNECT_SECONDS = 10.0
WAIT_SECONDS = 2.0  # between looks for new workers
LOCK_SECONDS = 60.0  # until a lost worker must have ended, before its job starts elsewhere
FOLDER_SECONDS = 10.0  # until a network file system must show a new folder
REPORT_SECONDS = 1.0  # between reports of a job
FILES, FILES_PER_WORKER = 128, 16  # that this process opens, most of them sockets
WORKERS_PER_GPU = 8  # small models leave a GPU idle most of the time

Report = Callable[..., None]  # called with the number of a job, the share that is done, and a note


def execute(jobs: Sequence[Job], report: Report) -> None:
    """Run jobs in this order; one alone runs in this process, if no executor is named.

    A job whose worker died starts again on another worker, from its last checkpoint. Dask gives up
    after `distributed.scheduler.allowed-failures` deaths. A job that raises stops the pool: no
    further job starts, running ones finish, and its error is raised.

    Raises:
        SettingsError: for a cluster that cannot be used, and for a worker that refuses a job.
    """
    executor = os.environ.get("CARRY_EXECUTOR", "")
    if len(jobs) == 1 and not executor:
        store.perform(lambda *values: report(0, *values), jobs[0], jobs[0].place)
        return
    with _connect(executor, len(jobs)) as client:
        topic = f"carry-{uuid.uuid4().hex}"
        client.subscribe_topic(topic, lambda event: report(*event[1]))
        if executor and client.dashboard_link:
            tqdm.tqdm.write(f"Dask's dashboard: {client.dashboard_link}", file=sys.stderr)
        try:
            _run_all(client, jobs, topic, report)
        finally:
            client.unsubscribe_topic(topic)


def perform_remotely(job: Job, index: int, place: Path, topic: str) -> None:
    """Run a job on this worker, and report to a topic.

    Args:
        place: the folder of its result, by the code and the versions of who submits it; it exists.
    """
    worker = distributed.get_worker()
    _check_worker(worker, job, place)
    key, sent = worker.get_current_task(), 0.0

    def report(share: float, note: str = "") -> None:
        nonlocal sent
        state = worker.state.tasks.get(key)
        if state is None or state.state == "cancelled":  # nobody waits for it any more
            raise distributed.CancelledError(job.name)
        if time.monotonic() - sent > REPORT_SECONDS or share == 1:
            sent = time.monotonic()
            worker.log_event(topic, (index, share, note))

    store.perform(report, job, place, LOCK_SECONDS)


def _check_worker(worker: distributed.Worker, job: Job, place: Path) -> None:
    where = f"jobs: worker {worker.address} on {socket.gethostname()}"
    if worker.state.nthreads != 1:
        # torch's precision of products is a setting of the whole process.
        raise SettingsError(
            f"{where} has {worker.state.nthreads} threads; expected 1, as of "
            "`dask worker --nthreads 1`"
        )
    if job.place.name != place.name:
        raise SettingsError(
            f"{where} has other code for {job.name!r}, or another version of Python, torch or "
            "numpy; expected those of the process that submits it"
        )
    end = time.monotonic() + FOLDER_SECONDS
    while not place.exists():
        if time.monotonic() > end:
            raise SettingsError(
                f"{where} does not see {str(place)!r}; expected a file system that all workers "
                "share, at the same path"
            )
        time.sleep(0.2)
        with contextlib.suppress(OSError):
            os.listdir(place.parent)  # a network file system then looks again


def _run_all(client: distributed.Client, jobs: Sequence[Job], topic: str, report: Report) -> None:
    """Submit a job whenever a worker is free, so that the order stays and an error stops all."""
    waiting, running = list(reversed(range(len(jobs)))), {}
    try:
        while waiting or running:
            free = max(1, len(client.nthreads())) - len(running)
            for _ in range(min(free, len(waiting))):
                index = waiting.pop()
                job = jobs[index]
                key = f"{job.name}-{uuid.uuid4().hex}"
                job.place.mkdir(parents=True, exist_ok=True)  # a worker looks whether it sees it
                given = (job, index, job.place, topic)
                running[client.submit(perform_remotely, *given, key=key)] = index
            with contextlib.suppress(distributed.TimeoutError):
                distributed.wait([*running], timeout=WAIT_SECONDS, return_when="FIRST_COMPLETED")
            for future in [future for future in running if future.done()]:
                index = running.pop(future)
                error = future.exception()
                if isinstance(error, distributed.KilledWorker):
                    raise SettingsError(
                        f"jobs: {jobs[index].name!r} was started again and again, and each time "
                        "its worker ended, perhaps for want of memory; finished jobs are kept; "
                        "expected a machine with more memory, or fewer workers at once (taskset)"
                    )
                if error is not None:
                    raise error
                report(index, 1.0)
    except Exception:
        distributed.wait([*running])  # running jobs finish
        raise
    except BaseException:  # an interrupt: jobs end at their next report
        client.cancel([*running], force=True)
        raise


@contextlib.contextmanager
def _connect(executor: str, jobs: int) -> Iterator[distributed.Client]:
    with contextlib.ExitStack() as stack:
        if not executor:
            address = stack.enter_context(_start_local_cluster(jobs))
        elif ADDRESS.fullmatch(executor):
            address = executor.replace("dask://", "tcp://")
        else:
            raise SettingsError(
                f"CARRY_EXECUTOR: {describe(executor)} is not valid; expected dask://HOST:PORT"
            )
        try:
            client = distributed.Client(address, timeout=CONNECT_SECONDS)
        except (OSError, ValueError):
            raise SettingsError(
                f"CARRY_EXECUTOR: the scheduler {executor!r} does not answer within "
                f"{CONNECT_SECONDS:g} s; expected one that runs (`dask scheduler`)"
            ) from None
        yield stack.enter_context(client)


@contextlib.contextmanager
def _start_local_cluster(jobs: int) -> Iterator[Any]:
    """Start workers on this machine: one for each core, or up to eight for each GPU."""
    gpus = find_gpus()
    count = min(jobs, count_cores(), WORKERS_PER_GPU * len(gpus) or jobs)
    allow_open_files(FILES + FILES_PER_WORKER * count)
    workers = {}
    for index in range(count):
        # Dask's own memory limit would pause a worker; the machine's is enough.
        options = {"nthreads": 1, "memory_limit": 0, "silence_logs": logging.CRITICAL}
        options["preload"] = [__name__]  # else the first job would block the worker's heartbeat
        options["env"] = {"OMP_NUM_THREADS": "1"}
        if gpus:
            share = 0.9 / -(-count // len(gpus))  # CUDA itself takes some memory
            limit = f"per_process_memory_fraction:{share:.4f}"
            options["env"] |= {"CUDA_VISIBLE_DEVICES": gpus[index % len(gpus)],
                               "PYTORCH_CUDA_ALLOC_CONF": limit}  # fmt: skip
        workers[index] = {"cls": distributed.Nanny, "options": options}
    # Two schedulers would compete for Dask's usual port, which also other machines could reach.
    local = {"host": "127.0.0.1", "port": 0, "dashboard_address": "127.0.0.1:0"}
    scheduler = {"cls": distributed.Scheduler, "options": local}
    _place_sockets()
    with (
        _leave_out_script(),
        dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}),
        distributed.SpecCluster(workers, scheduler, silence_logs=logging.ERROR) as cluster,
    ):
        yield cluster


def _place_sockets() -> None:
    """Let processes meet where the names of sockets are short enough, whatever TMPDIR is."""
    before, tempfile.tempdir = tempfile.tempdir, paths.socket_folder()
    try:
        util.get_temp_dir()  # which remembers its first answer
    finally:
        tempfile.tempdir = before


@contextlib.contextmanager
def _leave_out_script() -> Iterator[None]:
    """Let new processes not import the caller's script, which would run it again."""
    prepare = spawn.get_preparation_data

    def leave_out(name: str) -> dict[str, Any]:
        data = prepare(name)
        return {key: value for key, value in data.items() if not key.startswith("init_main_from")}

    spawn.get_preparation_data = leave_out
    try:
        yield
    finally:
        spawn.get_preparation_data = prepare


def dask_setup(worker: Any) -> None:
    """Ignore interrupts in a worker: the process that started it ends it. Dask calls this."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def find_gpus() -> list[str]:
    """Return the names by which CUDA knows the GPUs that this process may use."""
    count = torch.cuda.device_count()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",")[:count] if visible else [str(index) for index in range(count)]
