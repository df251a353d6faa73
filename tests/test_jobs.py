"""Kept results, the order of a pool, errors, workers that die, GPUs, and the progress of a pool."""

import json
import os
import signal
import time
from multiprocessing import current_process

import pytest

from carry import jobs
from carry.config.settings import SettingsError
from carry.jobs import Job, executors, kept, local, run_jobs


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setenv("CARRY_PROGRESS", "off")
    monkeypatch.delenv("CARRY_EXECUTOR", raising=False)


def note(report, folder, log, text):
    """Write a text, and note in a log that all jobs share that it was written."""
    report(0.5, text)
    with open(log, "a", encoding="utf-8") as file:
        file.write(f"{text}\n")
    kept.write_text(report, folder, "text.txt", text)


def fail(report, folder, log):
    note(report, folder, log, "failed")
    raise ArithmeticError("one failed")


def die(report, folder):
    report(0.5)
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
    kept.write_text(report, folder, "count.txt", "4")


def meet(report, folder, place, count):
    """Write the visible GPU once `count` processes have come to a place."""
    (place / str(os.getpid())).touch()
    end = time.monotonic() + 60
    while len([*place.iterdir()]) < count:
        assert time.monotonic() < end
        time.sleep(0.01)
    name = current_process().name
    kept.write_text(report, folder, "gpu.txt", f"{os.environ['CUDA_VISIBLE_DEVICES']} {name}")


@pytest.fixture
def pool(tmp_path):
    """Return a function that runs jobs which note texts, and the log of what has run."""
    log = tmp_path / "log"

    def run(*texts, **options):
        made = [Job(f"group/{text}", note, (log, text), inputs=text, **options) for text in texts]
        return run_jobs(made, tmp_path / "jobs", "texts")

    def read():
        lines = log.read_text().split() if log.exists() else []
        log.unlink(missing_ok=True)
        return lines

    return run, read


def test_a_kept_result_is_not_made_again(pool):
    run, read = pool
    first = run("a", "b")
    assert sorted(read()) == ["a", "b"]
    assert [(place / "text.txt").read_text() for place in first] == ["a", "b"]
    assert run("b", "a") == first[::-1] and read() == []
    run("a", "b", "c")
    assert read() == ["c"]


def test_a_result_of_other_settings_is_made_again_and_replaces_the_earlier(tmp_path, pool):
    log, folder = tmp_path / "log", tmp_path / "jobs"
    made = [run_jobs([Job("one", note, (log, "x"), inputs=text)], folder, "") for text in "ab"]
    assert made[0] != made[1]
    assert [path.name for path in (folder / "one").iterdir() if path.is_dir()] == [made[1][0].name]
    again = run_jobs([Job("one", note, (log, "x"), inputs="b", modules=("carry.cli",))], folder, "")
    assert again != made[1]  # the code of a module that settings choose


def test_other_versions_make_a_result_again(monkeypatch, pool):
    run, read = pool
    run("a")
    monkeypatch.setattr(kept.fingerprint, "list_versions", lambda: {"torch": "0"})
    run("a")
    assert read() == ["a", "a"]


def spoil_text(place):
    (place / "text.txt").write_text("b")


def spoil_key(place):
    done = json.loads((place / "done.json").read_text())
    (place / "done.json").write_text(json.dumps({**done, "key": "0" * 16}))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (spoil_text, "text.txt in its kept result is damaged; its hash does not match"),
        (spoil_key, "its kept result belongs to '0000000000000000', not to"),
        (lambda place: (place / "text.txt").unlink(), "text.txt is missing in its kept result"),
        (lambda place: (place / "done.json").write_text("{"), "done.json of its kept result is da"),
        (lambda place: (place / "done.json").write_bytes(b"\xff"), "done.json of its kept result"),
        (lambda place: (place / "done.json").write_text("[]"), "done.json of its kept result is"),
    ],
)
def test_a_kept_result_that_is_not_the_jobs_own_is_reported_and_made_again(
    pool, capsys, spoil, message
):
    run, read = pool
    (place,) = run("a")
    spoil(place)
    assert run("a") == [place] and read() == ["a", "a"]
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 1 and errors[0].startswith(f"warning: group/a: {message}")
    assert not kept.find_fault(place) and (place / "text.txt").read_text() == "a"


def test_a_stopped_job_goes_on_from_its_checkpoint(tmp_path):
    log = tmp_path / "log"

    def count(stop):
        return run_jobs([Job("count", count_in_steps, (log, stop))], tmp_path / "jobs", "")

    with pytest.raises(ArithmeticError, match="^stopped$"):
        count(2)
    (place,) = count(None)
    assert log.read_text().split() == ["0", "1", "2", "3"]
    assert sorted(path.name for path in place.iterdir()) == ["count.txt", "done.json"]
    assert json.loads((place / "done.json").read_text())["share"] == 0.5


def test_checkpoints_that_a_kill_left_beside_a_result_are_no_part_of_it(pool):
    run, read = pool
    (place,) = run("a")
    (place / "checkpoints").mkdir()
    assert run("a") == [place] and read() == ["a"]


def test_a_marker_says_what_a_job_took(pool):
    (place,) = pool[0]("a")
    done = json.loads((place / "done.json").read_text())
    assert done["job"] == "group/a" and [*done["files"]] == ["text.txt"]
    assert done["core_seconds"] >= 0 and 10**7 < done["peak_memory"] < 10**11  # bytes
    assert [*done["versions"]] == ["python", "torch", "numpy"]


def test_a_job_runs_in_one_process_at_a_time(tmp_path, pool):
    with (
        kept.lock_job("group/a", tmp_path / "jobs" / "group" / "a"),
        pytest.raises(
            SettingsError, match=rf"^jobs: process {os.getpid()} on \S+ runs 'group/a' already; "
        ),
    ):
        pool[0]("a")
    assert pool[1]() == []
    pool[0]("a")
    assert pool[1]() == ["a"]


def test_the_highest_cost_comes_first(tmp_path, monkeypatch):
    order = []
    monkeypatch.setattr(
        executors, "execute", lambda tasks, report: order.extend(task.job.name for task in tasks)
    )
    run_jobs(
        [Job(name, note, cost=cost) for name, cost in zip("abc", (1, 3, 2), strict=True)],
        tmp_path,
        "",
    )
    assert order == ["b", "c", "a"]


def test_after_an_error_no_job_starts_and_running_ones_finish(tmp_path, monkeypatch):
    log, folder = tmp_path / "log", tmp_path / "jobs"
    made = [Job("bad", fail, (log,), cost=9.0)]
    made += [Job(text, note, (log, text)) for text in "abcd"]
    monkeypatch.setattr(local, "count_workers", lambda: 1)
    with pytest.raises(ArithmeticError, match="^one failed$"):
        run_jobs(made, folder, "")
    assert log.read_text().split() == ["failed"]


def test_a_worker_that_dies_is_named_in_one_line_and_finished_jobs_stay(tmp_path, monkeypatch):
    log, folder = tmp_path / "log", tmp_path / "jobs"
    made = [Job("a", note, (log, "a"), cost=9.0), Job("bad", die)]
    monkeypatch.setattr(local, "count_workers", lambda: 1)
    with pytest.raises(SettingsError) as error:
        run_jobs(made, folder, "")
    assert str(error.value).startswith("jobs: the worker process of 'bad' ended (SIGKILL), ")
    run_jobs(made[:1], folder, "")
    assert log.read_text().split() == ["a"]


def test_each_worker_sees_one_gpu(tmp_path, monkeypatch):
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.setattr(local, "find_gpus", lambda: ["3", "GPU-a"])
    monkeypatch.setattr(local, "count_workers", lambda: 4)
    made = [Job(str(index), meet, (place, 4)) for index in range(4)]
    gpus = [(done / "gpu.txt").read_text() for done in run_jobs(made, tmp_path / "jobs", "")]
    assert len({*gpus}) == 4
    assert sorted(gpu.split()[0] for gpu in gpus) == ["3", "3", "GPU-a", "GPU-a"]


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
    monkeypatch.setattr(local, "count_cores", lambda: cores)
    monkeypatch.setattr(local.torch.cuda, "device_count", lambda: devices)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert local.find_gpus() == gpus
    assert local.count_workers() == workers


@pytest.mark.parametrize("names", [("a", "a"), ("../a",), ("/a",), ("",), ("a/",), ("a b",)])
def test_names_that_are_no_folders_of_their_own_are_refused(tmp_path, names):
    with pytest.raises(SettingsError, match=r"^jobs: '.*' is (not a name|the name of two jobs); "):
        run_jobs([Job(name, note) for name in names], tmp_path, "")
    assert not [*tmp_path.iterdir()]


class Bar:
    """Stands for a progress bar."""

    def __init__(self):
        self.n, self.initial, self.disable, self.texts = 0.0, 0.0, False, []

    def set_postfix_str(self, text, refresh):
        self.texts.append(text)

    def update(self, count):
        self.n += count


def test_progress_is_in_units_of_cost_and_leaves_out_what_was_done_before():
    made = [Job(name, note, cost=cost) for name, cost in zip("abc", (4.0, 2.0, 2.0), strict=True)]
    bar = Bar()
    progress = jobs._Progress(bar, made, [0, 1])  # the result of c is kept
    assert (bar.n, bar.initial) == (2.0, 2.0)
    progress.report(0, 0.25, "loss 1.000, exact 2%")  # from a checkpoint
    assert (bar.n, bar.initial) == (3.0, 3.0)
    progress.report(1, 0.0)
    progress.report(1, 1.0)
    progress.report(1, 0.5, "late")
    progress.report(0, 0.75)
    assert (bar.n, bar.initial) == (7.0, 3.0)
    assert bar.texts[:2] == ["1 of 3 jobs", "1 of 3 jobs, a: loss 1.000, exact 2%"]
    assert bar.texts[-2:] == ["2 of 3 jobs, b", "2 of 3 jobs, a"]


def test_values_of_processes_come_in_order():
    reports = []
    values = local.map_processes(divide, [(6, 2), (9, 3), (8, 2)], reports.append)
    assert values == [3, 3, 4] and sorted(reports) == [6, 8, 9]


def divide(report, a, b):
    report(a)
    return a // b
