"""The profiles: rows on one footing, and whose results stand for the rows of another profile."""

import shutil
from pathlib import Path

import pytest

from carry import labels
from carry.config import paths, profiles
from carry.config.run_settings import list_rows, load_run
from carry.config.settings import SettingsError

SCHEMES = ("nope", "learned", "rope", "fire", "abacus", "coupled")
RATES = {"slow": 0.002, "medium": 0.004, "fast": 0.008}
# Rows of `baselines` that have other steps or trained lengths, for a reason.
LONGER = {"addition_abacus_noise": 2000, "addition_abacus_looped_noise": 2000}
LENGTHS = {"addition_abacus_middle": 8}
STUDIES = ("schemes", "loops", "depths", "lengths", "harms")


def find_footing(scheme):
    short = "_short" if scheme in ("abacus", "coupled") else ""
    return load_run(f"addition_{scheme}{short}", "baselines")


def dump(run, **other):
    """Return what is trained, wherever it is; `other` names sections to leave out."""
    return run.model_dump(exclude={"name", "profile", "seeds", "evaluation", *other})


def test_six_schemes_differ_in_their_ids_alone():
    runs = [find_footing(scheme) for scheme in SCHEMES]
    nope = dump(runs[0], positions=True)
    for run in runs:
        assert dump(run, positions=True) == nope and run.evaluation == runs[0].evaluation
        assert run.evaluation.band and run.seeds == 6
        tables = [pair for pair in run.positions if pair["encoding"] == "learned"]
        assert all(pair["initial"] == "sinusoidal" for pair in tables)
    assert len({str(run.positions) for run in runs}) == len(SCHEMES)


def test_what_is_compared_with_them_has_their_footing():
    nope = find_footing("nope")
    for study in STUDIES:
        for row in {*list_rows("baselines", f"addition_{study}")} - {"addition_relative"}:
            run = load_run(row, "baselines")
            depth = run.model["layers"] * run.model.get("recurrences", 1)
            assert depth == nope.model["layers"] * (2 if row.endswith("_deep") else 1)
            assert run.model["width"] == nope.model["width"] and run.seeds >= 5
            same = {"steps": LONGER.get(row, nope.training.steps), "digits": LENGTHS.get(row, 5)}
            changed = {*same, "loss", "random_padding"}
            for name, value in nope.training.model_copy(update=same).model_dump().items():
                assert getattr(run.training, name) == value or name in changed - {*same}, row
            assert run.evaluation.band == (row not in LENGTHS)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_rate_is_chosen_by_other_rows_that_end_with_the_band(scheme):
    chosen = find_footing(scheme)
    assert chosen.training.learning_rate in RATES.values()
    for ending, rate in RATES.items():
        run = load_run(f"addition_{scheme}_{ending}", "tuning")
        training = chosen.training.model_copy(update={"learning_rate": rate})
        assert dump(run) == dump(chosen.model_copy(update={"training": training}))
        assert run.evaluation.largest_size() == chosen.validation_band()[-1]
        assert not run.evaluation.band


def test_the_default_profile_trains_the_same_six():
    for scheme in SCHEMES:
        run = find_footing(scheme)
        assert dump(load_run(run.name, "cpu")) == dump(run)


def test_panels_of_one_figure_are_trained_alike():
    """Six of cho2025, Fig. 1, and its three of Fig. 9 with scratchpads; larger sums stay."""
    sums = "multi_operand_addition"
    names = [f"{sums}_{scheme}" for scheme in ("nope", "fire", "coupled")]
    names += [f"{sums}_{scheme}_scratchpad" for scheme in ("nope", "fire", "coupled")]
    names[-1] += "_short"
    runs = [load_run(name, "baselines") for name in names]
    assert [run.seeds for run in runs] == [8, 7, 5, 5, 7, 5]  # NoPE has seeds to spare
    assert {run.training.digits for run in runs} == {3}
    assert all(run.training == runs[0].training and run.model == runs[0].model for run in runs)
    names = list_rows("baselines", "multiplication_schemes")
    products = [load_run(name, "baselines") for name in names]
    assert {(run.training.digits, run.training.steps) for run in products} == {(3, 8000)}
    for ending in ("", "_spare"):
        run = load_run(f"{sums}_coupled_scratchpad{ending}", "baselines")
        assert (run.training.digits, run.training.steps, run.evaluation.digits) == (5, 2400, 15)
    for row, profile, steps in (("spare", "baselines", 600), ("padded", "full", 1000)):
        run = load_run(f"{sums}_relative_scratchpad_{row}", profile)
        assert (run.training.digits, run.training.steps, run.evaluation.digits) == (5, steps, 15)


def test_rows_of_a_profile_have_results_of_its_others_and_of_theirs():
    sources = profiles.find_sources("cpu")
    for profile in ("long", "baselines", "full", "cpu"):  # the last one wins
        rows = list_rows(profile)
        assert {*rows} <= {*sources}
        assert profile in {sources[row] for row in rows}
    assert all(sources[row] == "cpu" for row in list_rows("cpu"))
    assert profiles.find_sources("full", "variant_sets") == {"addition_relative": "baselines"}
    assert {*profiles.find_sources("full").values()} == {"full", "baselines", "long"}
    assert "tuning" not in sources.values()  # it chooses settings, and its results are no others'


def test_others_that_lead_back_are_refused(tmp_path, monkeypatch):
    shutil.copy(profiles.ROOT / "params.yaml", tmp_path)
    for name, other in ("ab", "ba"):
        (tmp_path / "profiles" / name).mkdir(parents=True)
        text = f"profile: {name}\nscale: {{}}\ntrain: {{parity: all}}\nproblems: {{}}\n"
        (tmp_path / "profiles" / name / "profile.yaml").write_text(text + f"others: {other}\n")
    monkeypatch.setattr(profiles, "ROOT", tmp_path)
    with pytest.raises(SettingsError, match="others: 'a' leads back to it, expected another"):
        profiles.load_profile("a")


def test_an_installed_copy_finds_the_project_above_the_working_directory(tmp_path, monkeypatch):
    package = tmp_path / "site-packages" / "carry" / "config" / "paths.py"
    folder = tmp_path / "clone" / "notebooks"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    assert paths.find_root(package) == folder
    (tmp_path / "clone" / "params.yaml").touch()
    assert paths.find_root(package) == tmp_path / "clone"
    assert paths.find_root(Path(paths.__file__)) == paths.ROOT


@pytest.mark.parametrize(
    ("use", "arguments"),
    [
        (profiles.load_params, ()),
        (profiles.find_profiles, ()),
        (profiles.load_profile, ("cpu",)),
        (profiles.find_study, ("parity_nope",)),
        (profiles.read_yaml, (Path("CITATION.cff"),)),
        (labels.describe_row, ("parity_nope",)),
    ],
)
def test_without_a_project_its_first_use_says_so(use, arguments, tmp_path, monkeypatch):
    monkeypatch.setattr(profiles, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError, match="params.yaml: not in .* in a clone of the project"):
        use(*arguments)
