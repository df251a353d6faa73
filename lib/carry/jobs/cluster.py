"""Jobs on a Dask cluster: workers with one thread each that share the project's folder."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import socket
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import dask
import distributed
import pydantic
import tqdm

from carry import fingerprint
from carry.config import profiles
from carry.config.settings import Settings, SettingsError, describe, suggest_name
from carry.jobs import kept
from carry.jobs.local import find_gpus
from carry.jobs.tasks import Task
from carry.processes import count_cores, end_with_pipeline

ADDRESS = re.compile(r"dask://([\w.-]+|\[[\da-fA-F:]+\]):(\d{1,5})")
CONNECT_SECONDS = 10.0
WAIT_SECONDS = 2.0  # between looks for new workers
LOCK_SECONDS = 60.0  # until a lost worker must have ended, before its job starts elsewhere
MARKER_SECONDS = 10.0  # until a network file system must show a new file
REPORT_SECONDS = 1.0  # between reports of a job

# The library as this process has loaded it: later changes of its files do not reach this process.
LOADED = {*fingerprint.hash_code(fingerprint.list_modules()).splitlines()}


class QueueSettings(Settings):
    """Settings of a cluster whose workers are jobs of a queue, such as SLURM's."""

    kind: str  # of dask-jobqueue: slurm, pbs, sge, lsf, ...
    jobs: Annotated[int, pydantic.Field(ge=1, le=10_000)]  # of the queue, at most
    settings: dict[str, Any]  # of dask-jobqueue's cluster: cores, memory, walltime, ...


def run_on_dask(tasks: Sequence[Task], report: Callable[..., None], executor: str) -> None:
    """Run jobs in this order on a Dask cluster; `report` is called in this process.

    A job whose worker died starts again on another worker, from its last checkpoint. Dask gives up
    after `distributed.scheduler.allowed-failures` deaths.

    Args:
        executor: `dask`, `dask://HOST:PORT`, or the path of a file with `QueueSettings`.

    Raises:
        SettingsError: for a cluster that cannot be used, and for a worker that refuses a job.
    """
    end_with_pipeline()
    with _connect(executor, len(tasks)) as client, _mark_folder(tasks) as marker:
        topic = f"carry-{uuid.uuid4().hex}"
        client.subscribe_topic(topic, lambda event: report(*event[1]))
        _print_dashboard(client)
        request = Request(topic, marker, MARKER_SECONDS, fingerprint.list_versions())
        try:
            _run_all(client, tasks, request, report)
        finally:
            client.unsubscribe_topic(topic)


class Request(NamedTuple):
    """What a worker needs besides a task."""

    topic: str  # of the job's reports
    marker: Path  # a file that every worker must see
    seconds: float  # until it must see it
    versions: dict[str, str]


def perform_remotely(task: Task, request: Request) -> None:
    """Run a job on this worker.

    Raises:
        SettingsError: for a worker with several threads, with other code or versions, or without
            the project's folder.
    """
    worker = distributed.get_worker()
    _check_worker(worker, task, request)
    key, sent = worker.get_current_task(), 0.0

    def report(share: float, note: str = "") -> None:
        nonlocal sent
        state = worker.state.tasks.get(key)
        if state is None or state.state == "cancelled":  # nobody waits for it any more
            raise distributed.CancelledError(task.job.name)
        if time.monotonic() - sent > REPORT_SECONDS or share == 1:
            sent = time.monotonic()
            worker.log_event(request.topic, (task.index, share, note))

    kept.perform(report, task.job, task.folder, task.key, LOCK_SECONDS)


def _check_worker(worker: distributed.Worker, task: Task, request: Request) -> None:
    where = f"jobs: worker {worker.address} on {socket.gethostname()}"
    if worker.state.nthreads != 1:
        # torch's precision of products is a setting of the whole process.
        raise SettingsError(
            f"{where} has {worker.state.nthreads} threads; expected 1, as of "
            "`dask worker --nthreads 1`"
        )
    end = time.monotonic() + request.seconds
    while not request.marker.exists():
        if time.monotonic() > end:
            raise SettingsError(
                f"{where} does not see the folder {str(task.folder)!r}; expected a file system "
                "that all workers share, at the same path"
            )
        time.sleep(0.2)
        with contextlib.suppress(OSError):
            os.listdir(request.marker.parent)  # a network file system then looks again
    versions = fingerprint.list_versions()
    for name, expected in request.versions.items():
        if versions[name] != expected:
            raise SettingsError(f"{where} has {name} {versions[name]}; expected {expected}")
    text = fingerprint.hash_code(task.modules())
    if hashlib.sha256(text.encode()).hexdigest()[:16] != task.code:
        raise SettingsError(
            f"{where} has other code for {task.job.name!r}; expected the code of this process "
            f"(hash {task.code})"
        )
    if not {*text.splitlines()} <= LOADED:
        raise SettingsError(
            f"{where} started before the code of {task.job.name!r} changed; expected a worker that "
            "was started after that"
        )


def _run_all(
    client: distributed.Client,
    tasks: Sequence[Task],
    request: Request,
    report: Callable[..., None],
) -> None:
    """Submit a task whenever a worker is free, so that the order stays and an error stops all."""
    waiting, running = list(reversed(tasks)), {}
    try:
        while waiting or running:
            free = max(1, len(client.nthreads())) - len(running)
            for _ in range(min(free, len(waiting))):
                task = waiting.pop()
                key = f"{task.job.name}-{uuid.uuid4().hex}"
                running[client.submit(perform_remotely, task, request, key=key)] = task
            with contextlib.suppress(distributed.TimeoutError):
                distributed.wait([*running], timeout=WAIT_SECONDS, return_when="FIRST_COMPLETED")
            for future in [future for future in running if future.done()]:
                task = running.pop(future)
                _raise_error(future, task)
                report(task.index, 1.0)
    except Exception:
        distributed.wait([*running])  # running jobs finish
        raise
    except BaseException:  # an interrupt: jobs end at their next report
        client.cancel([*running], force=True)
        raise


def _raise_error(future: distributed.Future, task: Task) -> None:
    """Raise the error of a finished job, if it has one."""
    error = future.exception()
    if isinstance(error, distributed.KilledWorker):
        raise SettingsError(
            f"jobs: {task.job.name!r} was started again and again, and each time its worker ended, "
            "perhaps for want of memory; finished jobs are kept; expected workers with more memory"
        )
    if isinstance(error, ModuleNotFoundError):
        raise SettingsError(
            f"jobs: a worker has no module {error.name!r}, which {task.job.name!r} needs; expected "
            "workers in the project's environment"
        )
    if error is not None:
        raise error


@contextlib.contextmanager
def _mark_folder(tasks: Sequence[Task]) -> Iterator[Path]:
    """Write a file that a worker sees if it shares the folder of the results."""
    folder = tasks[0].folder
    marker = folder / f"pool-{uuid.uuid4().hex}"
    folder.mkdir(parents=True, exist_ok=True)
    marker.touch()
    try:
        yield marker
    finally:
        marker.unlink(missing_ok=True)


@contextlib.contextmanager
def _connect(executor: str, jobs: int) -> Iterator[distributed.Client]:
    with contextlib.ExitStack() as stack:
        if executor == "dask":
            address = stack.enter_context(_start_local_cluster(jobs))
        elif executor.startswith("dask:"):
            if not ADDRESS.fullmatch(executor):
                raise SettingsError(
                    f"CARRY_EXECUTOR: {describe(executor)} is not valid; expected dask://HOST:PORT"
                )
            address = executor.replace("dask://", "tcp://")
        else:
            address = stack.enter_context(_start_queue_cluster(Path(executor), jobs))
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
    """Start one worker for each GPU of this machine, or for each core."""
    gpus = find_gpus()
    count = min(jobs, len(gpus) or count_cores())
    workers = {}
    for index in range(count):
        # Dask's own memory limit would pause a worker; the machine's is enough.
        options = {"nthreads": 1, "memory_limit": 0, "silence_logs": logging.CRITICAL}
        options["preload"] = [__name__]  # else the first job would block the worker's heartbeat
        if gpus:
            options["env"] = {"CUDA_VISIBLE_DEVICES": gpus[index % len(gpus)]}
        workers[index] = {"cls": distributed.Nanny, "options": options}
    local = {"host": "127.0.0.1", "port": 0, "dashboard_address": "127.0.0.1:0"}
    scheduler = {"cls": distributed.Scheduler, "options": local}
    # Copies of a process that has only imported Dask: `spawn` would run the caller's script again.
    with (
        dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}),
        distributed.SpecCluster(workers, scheduler, silence_logs=logging.ERROR) as cluster,
    ):
        yield cluster


@contextlib.contextmanager
def _start_queue_cluster(path: Path, jobs: int) -> Iterator[Any]:
    """Start a cluster of dask-jobqueue, whose workers are jobs of a queue."""
    chosen = load_queue_settings(path)
    make = find_queue_clusters()[chosen.kind]
    try:
        cluster = make(**chosen.settings)
    except (TypeError, ValueError) as error:
        raise SettingsError(f"{path}: settings: {error}") from None
    with cluster:
        cluster.scale(jobs=min(chosen.jobs, jobs))
        yield cluster


def load_queue_settings(path: Path) -> QueueSettings:
    """Return the settings of a file.

    Raises:
        SettingsError: for a file that does not exist, for unknown settings, and for an unknown kind
            of queue.
    """
    if not path.is_file():
        raise SettingsError(
            f"CARRY_EXECUTOR: {describe(str(path))} is unknown; expected processes, dask, "
            "dask://HOST:PORT, or the path of a YAML file with the settings of a queue"
        )
    chosen = QueueSettings.parse(profiles.read_yaml(path), str(path))
    kinds = find_queue_clusters()
    if chosen.kind not in kinds:
        raise SettingsError(
            f"{path}: kind: {describe(chosen.kind)} is unknown, {suggest_name(chosen.kind, kinds)}"
        )
    return chosen


def find_queue_clusters() -> dict[str, Any]:
    """Return the classes of dask-jobqueue by the names of their queues.

    Raises:
        SettingsError: without dask-jobqueue.
    """
    try:
        import dask_jobqueue
    except ImportError:
        raise SettingsError(
            "CARRY_EXECUTOR: dask-jobqueue is not installed; expected `pip install "
            "'carry[cluster]'`"
        ) from None
    return {
        name.removesuffix("Cluster").lower(): kind
        for name, kind in vars(dask_jobqueue).items()
        if name.endswith("Cluster") and kind is not dask_jobqueue.JobQueueCluster
    }


_printed: set[str] = set()


def _print_dashboard(client: distributed.Client) -> None:
    """Print the address of Dask's dashboard, once."""
    link = client.dashboard_link
    if link and link not in _printed:
        _printed.add(link)
        tqdm.tqdm.write(f"Dask's dashboard: {link}", file=sys.stderr)
