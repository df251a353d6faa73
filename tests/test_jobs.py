"""Kept results, the order of a pool, errors, workers that die or refuse, and its progress."""

import contextlib
import json
import os
import signal
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from carry import jobs, processes
from carry.config import paths
from carry.config.settings import SettingsError
from carry.jobs import Job, pool, run_jobs, store
from carry.training.jobs import train_seed
from model_cases import run_of

RUN = run_of("abacus", steps=20, score_every=10, checkpoint_every=5)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "STORE", tmp_path / "store")
    monkeypatch.setenv("CARRY_PROGRESS", "off")
    monkeypatch.delenv("CARRY_EXECUTOR", raising=False)
    return tmp_path


def note(report, folder, log, text):
    """Write a text, and note in a log that all jobs share that it was written."""
    report(0.5, text)
    with open(log, "a", encoding="utf-8") as file:
        file.write(f"{text}\n")
    (folder / "text.txt").write_text(text)


def fail(report, folder, log):
    note(report, folder, log, "failed")
    raise ArithmeticError("one failed")


def die(report, folder):
    os.kill(os.getpid(), signal.SIGKILL)


def count_in_steps(report, folder, log, stop):
    """Count to 4, and fail at `stop`; a checkpoint has the last count."""
    checkpoint = folder / "checkpoints" / "count"
    done = int(checkpoint.read_text()) if checkpoint.exists() else 0
    report(done / 4)
    for step in range(done, 4):
        if step == stop:
            raise ArithmeticError("stopped")
        with open(log, "a", encoding="utf-8") as file:
            file.write(f"{step}\n")
        checkpoint.parent.mkdir(exist_ok=True)
        checkpoint.write_text(str(step + 1))
        report((step + 1) / 4)
    (folder / "count.txt").write_text("4")


def name_gpu(report, folder):
    report(0.5, "half")
    (folder / "gpu.txt").write_text(os.environ["CUDA_VISIBLE_DEVICES"])


def train_and_die(report, folder, run, seed, killed):
    """Train a seed; the first time, the process ends at the first score."""

    def report_or_die(share, text=""):
        if text and not killed.exists():
            killed.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        report(share, text)

    train_seed(report_or_die, folder, run, seed)


@pytest.fixture
def texts(home):
    """Return a function that runs jobs which note texts, and one that reads what has run."""
    log = home / "log"

    def run(*texts, **options):
        made = [Job(text, "texts", note, (log, text), text, **options) for text in texts]
        return run_jobs(made, "texts")

    def read():
        lines = log.read_text().split() if log.exists() else []
        log.unlink(missing_ok=True)
        return lines

    return run, read


def test_a_kept_result_is_not_made_again_and_equal_work_is_done_once(texts):
    run, read = texts
    (first,) = run("a")
    assert read() == ["a"] and (first / "text.txt").read_text() == "a"
    assert run("a", "a") == [first, first] and read() == []
    assert [(place / "text.txt").read_text() for place in run("a", "b", "b")] == ["a", "b", "b"]
    assert read() == ["b"]


def test_the_key_has_no_name_and_nothing_is_removed(home):
    def run(name, inputs, modules=()):
        return run_jobs([Job(name, "x", note, (home / "log", "a"), inputs, modules)], "")[0]

    one, renamed, other = run("one", "1"), run("two", "1"), run("one", "2")
    assert one == renamed != other
    assert run("one", "1", ("carry.tasks.addition",)) not in (one, other)
    assert (one / "done.json").exists()


def test_other_versions_make_a_result_again(monkeypatch, texts):
    run, read = texts
    run("a")
    monkeypatch.setattr(store.fingerprint, "list_versions", lambda: {"torch": "0"})
    run("a")
    assert read() == ["a", "a"]


def spoil_text(place):
    (place / "text.txt").write_text("b")


def spoil_key(place):
    done = json.loads((place / "done.json").read_text())
    (place / "done.json").write_text(json.dumps({**done, "key": "0" * 16}))


@pytest.mark.parametrize(
    "spoil",
    [
        spoil_text,
        spoil_key,
        lambda place: (place / "text.txt").unlink(),
        lambda place: (place / "done.json").write_text("{"),
        lambda place: (place / "done.json").write_bytes(b"\xff"),
        lambda place: (place / "done.json").write_text("[]"),
    ],
)
def test_a_damaged_result_is_reported_and_made_again(texts, capsys, spoil):
    run, read = texts
    (place,) = run("a")
    spoil(place)
    assert run("a") == [place] and read() == ["a", "a"]
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 1 and errors[0].startswith("warning: a: its kept result is damaged")
    assert not store.find_fault(place) and (place / "text.txt").read_text() == "a"


def test_a_stopped_job_goes_on_from_its_checkpoint(home):
    log = home / "log"

    def count(stop):
        return run_jobs([Job("count", "x", count_in_steps, (log, stop))], "")

    with pytest.raises(ArithmeticError, match="^stopped$"):
        count(2)
    (place,) = count(None)
    assert log.read_text().split() == ["0", "1", "2", "3"]
    assert sorted(path.name for path in place.iterdir()) == ["count.txt", "done.json"]
    assert json.loads((place / "done.json").read_text())["share"] == 0.5


def test_checkpoints_that_a_kill_left_behind_are_removed(texts):
    run, read = texts
    (place,) = run("a")
    (place / store.CHECKPOINTS).mkdir()
    run("a")
    assert read() == ["a"] and not (place / store.CHECKPOINTS).exists()


def test_a_marker_says_what_a_job_took(texts):
    (place,) = texts[0]("a")
    done = store.read_done(place)
    assert done["job"] == "a" and [*done["files"]] == ["text.txt"]
    assert done["core_seconds"] >= 0 and done["device"] and done["commit"]
    assert [*done["versions"]] == ["python", "torch", "numpy"]


def test_a_job_runs_in_one_process_at_a_time(home, texts):
    run, read = texts
    place = Job("a", "texts", note, (home / "log", "a"), "a").place
    message = rf"^jobs: process {os.getpid()} on \S+ runs 'a' already; "
    with processes.hold_lock(place, "a"), pytest.raises(SettingsError, match=message):
        run("a")
    assert read() == []
    run("a")
    assert read() == ["a"]


def test_the_highest_cost_comes_first(monkeypatch):
    order = []
    monkeypatch.setattr(pool, "execute", lambda jobs, report: order.extend(j.name for j in jobs))
    costs = zip("abc", (1, 3, 2), strict=True)
    run_jobs([Job(name, "x", note, inputs=name, cost=cost) for name, cost in costs], "")
    assert order == ["b", "c", "a"]


class Bar:
    """Stands for a progress bar."""

    def __init__(self):
        self.n, self.initial, self.disable, self.texts = 0.0, 0.0, False, []

    def set_postfix_str(self, text, refresh):
        self.texts.append(text)

    def update(self, count):
        self.n += count


def test_progress_is_a_share_of_the_cost_and_leaves_out_what_was_done_before():
    made = [Job("a", "x", note, cost=4e16), Job("b", "x", note, cost=2e16)]
    bar = Bar()
    progress = jobs._Progress(bar, made)
    progress.report(0, 0.25, "loss 1.000, exact 2%")  # from a checkpoint
    assert (bar.n, bar.initial) == pytest.approx((1 / 6, 1 / 6))
    progress.report(1, 0.0)
    progress.report(1, 1.0)
    progress.report(1, 0.5, "late")
    progress.report(0, 0.75)
    assert (bar.n, bar.initial) == pytest.approx((5 / 6, 1 / 6))
    assert bar.texts == ["0 of 2 jobs, a: loss 1.000, exact 2%", "0 of 2 jobs, b", "1 of 2 jobs, b",
                         "1 of 2 jobs, a"]  # fmt: skip


# ---- Workers -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scheduler():
    """Return the address of a scheduler with two worker processes that see a GPU each."""
    with contextlib.ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pool, "find_gpus", lambda: ["3", "GPU-a"])
            patch.setattr(pool, "count_cores", lambda: 2)
            local = stack.enter_context(pool._start_local_cluster(2))
        yield local.scheduler_address.replace("tcp://", "dask://")


@pytest.fixture
def on_dask(monkeypatch, scheduler):
    monkeypatch.setenv("CARRY_EXECUTOR", scheduler)


def train_jobs(seeds=2):
    return [
        Job(f"seed {seed}", "train", train_seed, (RUN, seed), f"{seed}") for seed in range(seeds)
    ]


def read_files(places):
    """Return the files of results, without what they took."""
    return [
        {path.name: path.read_bytes() for path in place.iterdir() if path.name != "done.json"}
        for place in places
    ]


@pytest.fixture(scope="module")
def trained_here(tmp_path_factory):
    """Return the files that this process writes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CARRY_PROGRESS", "off")
        patch.delenv("CARRY_EXECUTOR", raising=False)
        patch.setattr(paths, "STORE", tmp_path_factory.mktemp("here"))
        return read_files(place for job in train_jobs() for place in run_jobs([job], ""))


def test_workers_train_the_weights_of_this_process_bit_for_bit(on_dask, trained_here):
    places = run_jobs(train_jobs(), "")
    assert read_files(places) == trained_here
    assert {"seed_0.safetensors", "curve.parquet"} <= {*trained_here[0]}
    assert run_jobs(train_jobs(), "") == places  # the results are kept


def test_a_job_whose_worker_is_killed_ends_elsewhere_with_the_same_weights(
    home, on_dask, trained_here
):
    killed = home / "killed"
    (place,) = run_jobs([Job("seed 0", "train", train_and_die, (RUN, 0, killed))], "")
    assert read_files([place]) == trained_here[:1]
    owner = place.with_suffix(".owner").read_text().split()[0]
    assert int(owner) not in (int(killed.read_text()), os.getpid())
    assert store.read_done(place)["share"] == 0.5  # from a checkpoint


def test_reports_come_from_workers_with_one_gpu_each(on_dask):
    reports = []
    made = [Job(f"{index}", "x", name_gpu, inputs=f"{index}") for index in range(4)]
    pool.execute(made, lambda *values: reports.append(values))
    assert {(index, 1.0) for index in range(4)} <= {values[:2] for values in reports}
    assert {(job.place / "gpu.txt").read_text() for job in made} <= {"3", "GPU-a"}


def test_after_an_error_no_job_starts_and_running_ones_finish(home, on_dask):
    log = home / "log"
    made = [Job("bad", "x", fail, (log,), "bad", cost=9.0)]
    made += [Job(text, "x", note, (log, text), text, cost=1.0) for text in "abcdefgh"]
    with pytest.raises(ArithmeticError, match="^one failed$"):
        run_jobs(made, "")
    assert "h" not in log.read_text().split()


def test_a_job_that_always_kills_its_worker_is_named_in_one_line(on_dask, monkeypatch):
    with pytest.raises(SettingsError, match="^jobs: 'bad' was started again and again, and each"):
        run_jobs([Job("bad", "x", die)], "")


@pytest.mark.parametrize(
    ("cores", "visible", "devices", "gpus", "workers"),
    [
        (6, None, 0, [], 6),
        (16, None, 1, ["0"], 8),
        (16, "2,GPU-a", 2, ["2", "GPU-a"], 16),
        (4, "1", 1, ["1"], 4),
        (4, "", 0, [], 4),
    ],
)
def test_workers_are_counted_by_cores_and_gpus(monkeypatch, cores, visible, devices, gpus, workers):
    monkeypatch.setattr(pool, "count_cores", lambda: cores)
    monkeypatch.setattr(pool.torch.cuda, "device_count", lambda: devices)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    started = {}
    monkeypatch.setattr(
        pool.distributed, "SpecCluster", lambda specs, *a, **k: nullcontext(started.update(specs))
    )
    with pool._start_local_cluster(100):
        assert pool.find_gpus() == gpus and len(started) == workers
    seen = {spec["options"]["env"].get("CUDA_VISIBLE_DEVICES") for spec in started.values()}
    assert seen == ({*gpus} or {None})


def test_a_worker_of_another_kind_refuses_a_job(home, monkeypatch):
    monkeypatch.setattr(pool, "FOLDER_SECONDS", 0.0)
    job = Job("one", "x", note, modules=("carry.tasks.addition",))
    for threads, place, message in (
        (2, job.place, "has 2 threads; expected 1, as of `dask worker"),
        (1, home / ("0" * 16), "has other code for 'one', or another version of"),
        (1, job.place, "does not see '.*'; expected a file system"),
    ):
        worker = SimpleNamespace(address="x", state=SimpleNamespace(nthreads=threads))
        with pytest.raises(SettingsError, match=rf"^jobs: worker x on \S+ {message}"):
            pool._check_worker(worker, job, place)


@pytest.mark.parametrize(
    ("executor", "message"),
    [
        ("dask://127.0.0.1:9", "the scheduler 'dask://127.0.0.1:9' does not answer within 0.5 s; "),
        ("dask://nowhere", "'dask://nowhere' is not valid; expected dask://HOST:PORT"),
    ],
)
def test_an_executor_that_cannot_be_used_is_refused(monkeypatch, executor, message):
    monkeypatch.setenv("CARRY_EXECUTOR", executor)
    monkeypatch.setattr(pool, "CONNECT_SECONDS", 0.5)
    with pytest.raises(SettingsError) as error:
        run_jobs(train_jobs(1), "")
    assert str(error.value).startswith(f"CARRY_EXECUTOR: {message}")
