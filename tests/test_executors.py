"""Jobs on a Dask cluster: the same weights, workers that die, and refusals in one line."""

import gc
import json
import os
import signal
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from carry.config.settings import SettingsError
from carry.jobs import Job, cluster, kept, run_jobs
from carry.jobs.tasks import Task
from carry.training.seeds import train_seed
from model_cases import run_of

RUN = run_of("abacus", steps=20, score_every=10, checkpoint_every=5)


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setenv("CARRY_PROGRESS", "off")
    monkeypatch.delenv("CARRY_EXECUTOR", raising=False)


@pytest.fixture(scope="module")
def scheduler():
    """Return the address of a scheduler with two worker processes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster, "find_gpus", lambda: ["0", "1"])
        with cluster._start_local_cluster(2) as local:
            yield local.scheduler_address.replace("tcp://", "dask://")


@pytest.fixture
def on_dask(monkeypatch, scheduler):
    monkeypatch.setenv("CARRY_EXECUTOR", scheduler)


def train_and_die(report, folder, run, seed, killed):
    """Train a seed; the first time, the process ends at the first score."""

    def report_or_die(share, text=""):
        if text and not killed.exists():
            killed.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        report(share, text)

    train_seed(report_or_die, folder, run, seed)


def describe_worker(report, folder):
    report(0.5, "half")
    kept.write_text(report, folder, "gpu.txt", os.environ["CUDA_VISIBLE_DEVICES"])


def fail(report, folder):
    raise ArithmeticError("one failed")


def train_jobs(seeds=2):
    return [Job(f"mine/seed_{seed}", train_seed, (RUN, seed), inputs="x") for seed in range(seeds)]


def read_files(places):
    """Return the files of results, without what they took."""
    return [
        {path.name: path.read_bytes() for path in place.iterdir() if path.name != "done.json"}
        for place in places
    ]


@pytest.fixture(scope="module")
def trained_here(tmp_path_factory):
    """Return the files that local processes write."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CARRY_PROGRESS", "off")
        patch.delenv("CARRY_EXECUTOR", raising=False)
        return read_files(run_jobs(train_jobs(), tmp_path_factory.mktemp("here"), ""))


def test_dask_trains_the_weights_of_local_processes_bit_for_bit(tmp_path, on_dask, trained_here):
    places = run_jobs(train_jobs(), tmp_path, "")
    assert read_files(places) == trained_here
    assert {"seed_0.safetensors", "curve.parquet"} <= {*trained_here[0]}
    assert run_jobs(train_jobs(), tmp_path, "") == places  # the results are kept


def test_a_job_whose_worker_is_killed_ends_elsewhere_with_the_same_weights(
    tmp_path, on_dask, trained_here
):
    killed, folder = tmp_path / "killed", tmp_path / "jobs"
    job = Job("mine/seed_0", train_and_die, (RUN, 0, killed))
    (place,) = run_jobs([job], folder, "")
    assert read_files([place]) == trained_here[:1]
    owner = (folder / "mine" / "seed_0" / "owner").read_text().split()[0]
    assert int(owner) not in (int(killed.read_text()), os.getpid())
    assert json.loads((place / "done.json").read_text())["share"] == 0.5  # from a checkpoint


def test_reports_come_from_workers_with_one_gpu_each(tmp_path, scheduler):
    tasks = [make_task(index, describe_worker, tmp_path) for index in range(4)]
    reports = []
    cluster.run_on_dask(tasks, lambda *values: reports.append(values), scheduler)
    assert {(index, 1.0) for index in range(4)} <= {values[:2] for values in reports}
    gpus = {(task.folder / task.key / "gpu.txt").read_text() for task in tasks}
    assert gpus <= {"0", "1"}


def make_task(index, work, folder, code=None):
    job = Job(f"job_{index}", work)
    return Task(index, job, folder / job.name, "0" * 16, code or kept.hash_code(job))


def test_the_error_of_a_job_is_raised_as_it_is(tmp_path, on_dask):
    with pytest.raises(ArithmeticError, match="^one failed$"):
        run_jobs([Job("bad", fail)], tmp_path, "")


def test_a_worker_with_other_code_refuses_a_job(tmp_path, scheduler):
    with pytest.raises(
        SettingsError, match=r"^jobs: worker \S+ on \S+ has other code for 'job_0'; expected the "
    ):
        cluster.run_on_dask([make_task(0, train_seed, tmp_path, "0" * 16)], print, scheduler)


def test_a_worker_with_other_versions_refuses_a_job(tmp_path, on_dask, monkeypatch):
    versions = {**kept.fingerprint.list_versions(), "torch": "0.1"}
    monkeypatch.setattr(kept.fingerprint, "list_versions", lambda: versions)
    with pytest.raises(
        SettingsError, match=r"^jobs: worker \S+ on \S+ has torch \S+; expected 0\.1$"
    ):
        run_jobs(train_jobs(1), tmp_path, "")


def test_a_worker_without_the_folder_refuses_a_job(tmp_path, on_dask, monkeypatch):
    monkeypatch.setattr(cluster, "MARKER_SECONDS", 0.0)
    monkeypatch.setattr(cluster, "_mark_folder", lambda tasks: nullcontext(tmp_path / "absent"))
    with pytest.raises(SettingsError, match=r"^jobs: worker \S+ on \S+ does not see the folder '"):
        run_jobs(train_jobs(1), tmp_path, "")


def test_a_worker_with_loaded_code_that_has_changed_or_with_two_threads_refuses_a_job(
    tmp_path, monkeypatch
):
    request = cluster.Request("", tmp_path, 0.0, {})
    task = make_task(0, train_seed, tmp_path)

    def check(threads):
        state = SimpleNamespace(nthreads=threads)
        cluster._check_worker(SimpleNamespace(address="x", state=state), task, request)

    check(1)
    with pytest.raises(SettingsError, match="has 2 threads; expected 1, as of `dask worker"):
        check(2)
    monkeypatch.setattr(cluster, "LOADED", {*list(cluster.LOADED)[:9]})
    with pytest.raises(SettingsError, match="started before the code of 'job_0' changed; expected"):
        check(1)


@pytest.mark.parametrize(
    ("executor", "message"),
    [
        ("dask://127.0.0.1:9", "the scheduler 'dask://127.0.0.1:9' does not answer within 0.5 s; "),
        ("dask://nowhere", "'dask://nowhere' is not valid; expected dask://HOST:PORT"),
        ("dusk", "'dusk' is unknown; expected processes, dask, dask://HOST:PORT, or the path of"),
        ("no/such.yaml", "'no/such.yaml' is unknown; expected processes, dask, dask://HOST:PORT"),
    ],
)
def test_an_executor_that_cannot_be_used_is_refused(tmp_path, monkeypatch, executor, message):
    monkeypatch.setenv("CARRY_EXECUTOR", executor)
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.5)
    with pytest.raises(SettingsError) as error:
        run_jobs(train_jobs(1), tmp_path, "")
    assert str(error.value).startswith(f"CARRY_EXECUTOR: {message}")


# dask-jobqueue leaves files and clusters open.
careless = pytest.mark.filterwarnings("ignore::ResourceWarning")
EXAMPLE = Path(__file__).parents[1] / "profiles" / "slurm.example.yaml"


@careless
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "slrum"}, "kind: 'slrum' is unknown, did you mean 'slurm'"),
        ({"jobs": 0}, "jobs: 0 does not fit, expected"),
        ({"wait": 1}, "wait: unknown setting"),
        ({"settings": {"cores": 1, "memry": "1GB"}}, "settings: "),
    ],
)
def test_wrong_settings_of_a_queue_are_refused(tmp_path, monkeypatch, change, message):
    pytest.importorskip("dask_jobqueue")
    path = tmp_path / "queue.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(EXAMPLE.read_text()), **change}))
    monkeypatch.setenv("CARRY_EXECUTOR", str(path))
    with pytest.raises(SettingsError) as error:
        run_jobs(train_jobs(1), tmp_path / "jobs", "")
    text = str(error.value)
    assert text.startswith(str(path)) and message in text and "\n" not in text
    del error
    gc.collect()


def test_the_example_of_slurm_asks_for_one_worker_with_one_gpu_a_job():
    pytest.importorskip("dask_jobqueue")
    chosen = cluster.load_queue_settings(EXAMPLE)
    make = cluster.find_queue_clusters()[chosen.kind]
    job = make.job_cls(scheduler="tcp://127.0.0.1:1", name="x", **chosen.settings)
    script = job.job_script()
    assert "#SBATCH --gres=gpu:1" in script and "--nthreads 1" in script
    assert chosen.settings["cores"] == 1


@careless
def test_the_workers_of_a_queue_run_jobs(tmp_path, monkeypatch):
    local = pytest.importorskip("dask_jobqueue.local")
    monkeypatch.setattr(cluster, "find_queue_clusters", lambda: {"local": local.LocalCluster})
    settings = {"cores": 1, "memory": "1GB", "scheduler_options": {"dashboard_address": ":0"}}
    path = tmp_path / "queue.yaml"
    path.write_text(yaml.safe_dump({"kind": "local", "jobs": 1, "settings": settings}))
    monkeypatch.setenv("CARRY_EXECUTOR", str(path))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    (place,) = run_jobs([Job("one", describe_worker)], tmp_path / "jobs", "")
    assert (place / "gpu.txt").read_text() == "7"
    gc.collect()
