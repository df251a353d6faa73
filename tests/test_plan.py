"""The plan of a campaign: its sums, and measured jobs in place of estimates."""

import json

import pytest

from carry import cli
from carry.config import paths, run_settings
from carry.config.settings import SettingsError
from carry.pages import plan
from carry.training import cost
from model_cases import run_of

PROFILE = "smoke"


@pytest.fixture
def jobs(tmp_path, monkeypatch):
    """Return a function that keeps the result of a job, and says what it took."""
    monkeypatch.setattr(paths, "jobs_folder", lambda profile, stage: tmp_path / profile / stage)

    def keep(stage, name, seconds, share=1.0, gpu=0):
        place = tmp_path / PROFILE / stage / name / "0123456789abcdef"
        place.mkdir(parents=True)
        done = {"share": share, "core_seconds": seconds, "seconds": 2 * seconds}
        done |= {"peak_memory": 7e9, "peak_gpu_memory": gpu}
        (place / "done.json").write_text(json.dumps(done))

    return keep


def planned(device=None, workers=2):
    table, notes = plan.plan_campaign(PROFILE, workers, device)
    return table.set_index("study"), notes


def test_studies_add_up(jobs):
    table, notes = planned()
    parts, total = table.drop("all"), table.loc["all"]
    for column in ("rows", "jobs", "hours", "wall", "storage"):
        assert total[column] == pytest.approx(parts[column].sum())
    assert total["longest"] == parts["longest"].max() and total["memory"] == parts["memory"].max()
    assert (parts["wall"] / parts["hours"]).between(0.5 - 1e-9, 1 + 1e-9).all()
    assert notes == {"device": "cpu", "measured_jobs": 0, "measured_rates": True}
    assert planned(workers=1)[0]["wall"].tolist() == pytest.approx(table["hours"].tolist())


def test_a_measured_job_counts_as_measured_and_corrects_the_others_of_its_stage(jobs):
    before, _ = planned()
    row = run_settings.list_rows(PROFILE)[0]
    estimate = cost.estimate_training_seconds(run_settings.load_run(row, PROFILE))
    jobs("train", f"{row}/seed_0", 1.5 * estimate, share=0.5)  # the whole: three times as long
    after, notes = planned()
    assert notes["measured_jobs"] == 1 and after.loc["all", "memory"] == 7.0
    tripled = [job for job in plan._plan_rows(PROFILE, "cpu") if job.stage == "train"]
    more = 2 * sum(job.seconds for job in tripled) / 3600
    assert after.loc["all", "hours"] == pytest.approx(before.loc["all", "hours"] + more)


def test_a_job_measured_on_another_device_or_damaged_is_not_counted(jobs, tmp_path):
    row = run_settings.list_rows(PROFILE)[0]
    jobs("train", f"{row}/seed_0", 100.0)
    assert planned("gpu")[1] == {"device": "gpu", "measured_jobs": 0, "measured_rates": False}
    (marker,) = tmp_path.rglob("done.json")
    marker.write_text("{")
    assert planned("cpu")[1]["measured_jobs"] == 0
    marker.unlink()
    marker.parent.rmdir()
    jobs("train", f"{row}/seed_0", 100.0, gpu=3e9)
    table, notes = planned("gpu")
    assert notes["measured_jobs"] == 1 and table.loc["all", "longest"] >= 200 / 3600  # wall time
    assert planned("cpu")[1]["measured_jobs"] == 0


def test_more_of_anything_costs_more():
    base = cost.estimate_training_seconds(run_of("abacus"))
    for change in ({"steps": 60}, {"batch": 160}, {"digits": 8}, {"optimizer": "muon"}):
        assert cost.estimate_training_seconds(run_of("abacus", **change)) > base
    looped = run_of("abacus", model="looped")
    assert cost.estimate_training_seconds(looped) > base


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_every_row_of_a_profile_has_a_cost(device):
    for row in run_settings.list_rows(PROFILE):
        assert 0 < cost.estimate_training_seconds(run_settings.load_run(row, PROFILE), device) < 60


def test_dropout_of_embeddings_costs_the_tokens_that_counts_save():
    plain = run_settings.load_run("noisy_majority_d8_a4", "full")
    assert cost.count_batched_step(plain)[2] == 0
    dropped = run_settings.load_run("noisy_majority_d8_a4_dropout", "long")
    dropped = dropped.model_copy(update={"seeds": plain.seeds})
    short = dropped.model_copy(update={"training": plain.training.model_copy(
        update={"dropout_embeddings": 0.1, "digits": 10})})  # fmt: skip
    seconds = [cost.estimate_training_seconds(run) for run in (plain, short, dropped)]
    assert seconds == sorted(set(seconds))


def test_the_cost_of_a_wide_model_is_counted():
    assert cost.count_step(run_settings.load_run("addition_abacus", "paper")).operations > 1e12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("smoke", 0), "workers: 0 does not fit; expected 1 to 100000"),
        (("smoke", 2, "tpu"), "device: 'tpu' is unknown, did you mean 'gpu'"),
        (("smok", 2), "profile: 'smok' is unknown, did you mean 'smoke'"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(SettingsError) as error:
        plan.plan_campaign(*arguments)
    assert str(error.value).startswith(message)


def test_the_command_prints_what_the_numbers_are_based_on(jobs, capsys):
    assert cli.run_command(["plan", "--profile", PROFILE, "--workers", "8", "--device", "gpu"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "profile smoke on 8 workers with a GPU each; hours, GB"
    assert "GPU-hours" in lines[1] and lines[-3].split()[0] == "all"
    assert lines[-2].startswith("0 of ") and lines[-2].endswith("nobody has measured them")
