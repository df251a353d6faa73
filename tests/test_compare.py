"""`carry compare`: which results differ from those in git, and whether by more than chance."""

import itertools
import json
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest

from carry import cli
from carry.certificates.files import write_certificate
from carry.claims import load_claims
from carry.config import paths
from carry.config.settings import SettingsError
from carry.evaluation.differences import ALPHA
from carry.experiments.resolve import load_run
from carry.models.identity import describe_run
from carry.pages import compare
from carry.pages.compare import Compared, compute_outside_p
from carry.pages.headlines import HEADLINES
from carry.results import read_runs
from carry.runs.tables import add_lines
from made_up_project import move_project

ROW, OTHER, CERTIFIED = "addition_nope", "addition_fire", "addition_relative"
CLAIM = "relative_beyond"  # that row makes no error at 12 digits
LENGTHS = [(10, "grid"), (12, "grid"), (20, "equal"), (30, "equal")]


def git(*words):
    name = ["-c", "user.name=me", "-c", "user.email=me@localhost"]
    subprocess.run(["git", *name, *words], cwd=paths.ROOT, check=True, capture_output=True)


def add(row, seed, right, seconds=1.0, **settings):
    """Write a seed of a row, with its right answers of 100 at each of the LENGTHS."""
    run = load_run(row).model_copy(update=settings)
    labels = {"row": row, "scale": "laptop", "seed": seed}
    cells = pd.DataFrame(LENGTHS, columns=["i", "set"]).assign(**labels, trained=10, start="1")
    cells = cells.assign(j=cells["i"], n=100, exact=right, first_right=100)
    runs = pd.DataFrame([{**describe_run(run, seed), "seconds": seconds}])
    folder = paths.results_folder("tests")
    add_lines({"cells": cells, "runs": runs}, folder, {tuple(labels.values())})


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Go to a project with two rows of four seeds, which differ at 20 digits, in git."""
    claims = [claim for claim in load_claims() if claim.id == CLAIM]
    monkeypatch.setattr(compare, "load_claims", lambda: claims)
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"):  # of a hook that runs the tests
        monkeypatch.delenv(name, raising=False)
    move_project(monkeypatch, tmp_path)
    read_runs.cache_clear()
    for row, seed in itertools.product((ROW, OTHER), range(4)):
        add(row, seed, [100, 90, 40 + 5 * seed, 0])
    records = [{"id": name, "seen": "not run"} for name in (CLAIM, "of_an_earlier_version")]
    paths.write_file(paths.REPORTS / "claims.json", json.dumps(records))
    git("init", "-q")
    git("add", "reports")
    git("commit", "-qm", "results")
    yield tmp_path
    read_runs.cache_clear()


def run_compare(capsys, revision="HEAD"):
    """Return the exit code, and the lines that are printed."""
    code = cli.run_command(["compare", revision])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    return code, lines


def test_without_other_results_nothing_differs(project, capsys):
    add(ROW, 0, [100, 90, 40, 0])  # the same again
    line = "Nothing differs: each seed in reports/results is as in HEAD."
    assert run_compare(capsys) == (0, [line])


def test_a_seed_with_equal_numbers_is_reproduced(project, capsys):
    """It has other seconds of training, so it was trained again."""
    add(ROW, 2, [100, 90, 50, 0], seconds=2.0)
    code, lines = run_compare(capsys)
    assert code == 0 and lines[0] == f"{ROW} (laptop): your seed 2, 4 in HEAD"
    assert [line.split()[-1] for line in lines[2:6]] == ["inside"] * 4
    text = " ".join(lines)
    assert OTHER not in text and "To undo what is not committed: git checkout reports" in text
    assert "Reproduced: 4 of 4 numbers of 1 row are inside the range of the seeds in HEAD, " in text
    assert "and all 1 verdicts are the same." in text and "chance" not in text


def test_each_number_says_how_far_outside_it_is(project, capsys):
    add(ROW, 0, [100, 90, 57, 0])
    add(OTHER, 1, [98, 90, 33, 0])
    add(OTHER, 2, [100, 90, 50, 0], seconds=2.0)
    code, lines = run_compare(capsys)
    numbers = {" ".join(line.split()) for line in lines}
    assert code == 0 and f"{ROW} (laptop): your seed 0, 4 in HEAD" in numbers
    assert "twice as long 57 40 to 55 2 above" in numbers
    assert f"{OTHER} (laptop): your seeds 1 and 2, 4 in HEAD" in numbers
    assert "in distribution 98 to 100 100 1 of 2 outside" in numbers
    assert "twice as long 33 to 50 40 to 55 1 of 2 outside" in numbers
    text = " ".join(lines)
    assert "Undecided: 9 of 12 numbers of 2 rows are inside" in text
    assert f"The largest difference: {OTHER}, twice as long, 7 points below the range." in text
    assert "So few seeds cannot show a difference" in text


def test_what_is_no_longer_there_is_named(project, capsys):
    folder = paths.results_folder("tests")
    for path in folder.glob("*.parquet"):
        table = pd.read_parquet(path)
        table[(table["row"] != ROW) | (table["seed"] > 1)].to_parquet(path)
    line = "Nothing else differs: each seed in reports/results is as in HEAD."
    gone = f"{ROW} (laptop): seeds 0 and 1 in HEAD, not in reports/results"
    assert run_compare(capsys) == (1, [gone, line])
    shutil.rmtree(folder)
    gone = [f"{row} (laptop): seeds 0, 1, 2 and 3 in HEAD, not in reports/results"
            for row in (ROW, OTHER)]  # fmt: skip
    assert run_compare(capsys) == (1, [*gone, line])


def test_results_of_another_kind_are_not_reproduced(project, capsys):
    for row, seed in itertools.product((ROW, OTHER), range(4)):
        add(row, seed, [100, 80, 10 + seed, 0])
    code, lines = run_compare(capsys)
    assert code == 1 and "Not reproduced: 16 of 32 numbers of 2 rows" in " ".join(lines)
    git("commit", "-qam", "mine")
    assert "Nothing differs" in run_compare(capsys)[1][0]
    assert run_compare(capsys, "HEAD~1")[0] == 1


def test_a_verdict_that_differs_is_named(project, capsys):
    add(ROW, 2, [100, 90, 50, 0], seconds=2.0)
    add(CERTIFIED, 0, [100, 100, 100, 100])
    code, lines = run_compare(capsys)
    assert code == 1 and f"  {CLAIM}: not run, yours counted" in lines
    assert "Reproduced in part: 4 of 4 numbers" in " ".join(lines)
    assert "but 1 of 1 verdicts differ." in " ".join(lines)


def test_certificates_of_my_seeds_are_compared(project, capsys):
    def certify(folder, *verdicts):
        seeds = [
            {"seed": seed, "verdict": verdict, "weights": f"those of seed {seed}"}
            for seed, verdict in enumerate(verdicts)
        ]
        write_certificate(folder / f"{CERTIFIED}.json", {"row": CERTIFIED, "seeds": seeds})

    for seed in range(3):
        add(CERTIFIED, seed, [100, 99, 100, 100])  # an error: the opposite of the claim
    certify(paths.REPORTS / "certificates", "exact", "exact", "wrong")
    known = [{"id": CLAIM, "seen": "opposite"}, {"id": "of_an_earlier_version", "verdict": "holds"}]
    paths.write_file(paths.REPORTS / "claims.json", json.dumps(known))
    git("add", "reports")
    git("commit", "-qm", "certificates")
    for seed in range(2):
        add(CERTIFIED, seed, [100, 99, 100, 100], seconds=2.0)
    assert "all 3 verdicts are the same" in " ".join(run_compare(capsys)[1])
    certify(paths.ROOT / "data" / "certificates", "exact", "open")  # of make repro
    code, lines = run_compare(capsys)
    assert code == 1
    assert f"  certificate of {CERTIFIED}, seed 1: exact, yours open" in lines


def test_what_cannot_be_compared_says_why(project, capsys):
    """Other settings, one seed in git, and a row that git does not have."""
    run = load_run(ROW)
    changed = run.training.model_copy(update={"steps": 7})
    add(ROW, 0, [0, 0, 0, 0], training=changed)
    add(CERTIFIED, 0, [100, 90, 0, 0])
    code, lines = run_compare(capsys)
    text = " ".join(lines)
    assert f"training.steps 7, not {run.training.steps}" in text and " inside" not in lines[0]
    assert f"{CERTIFIED} (laptop): your seed 0, not compared: HEAD has no seed with these" in text
    assert "Undecided: no row of yours has two seeds with its settings in HEAD, " in text
    git("add", "reports")
    git("commit", "-qm", "mine")
    add(CERTIFIED, 1, [100, 80, 0, 0])
    lines = run_compare(capsys)[1]
    assert lines[0] == f"{CERTIFIED} (laptop): your seed 1, 1 in HEAD, which is no range"
    assert ["out", "of", "distribution", "80", "90", "10", "below"] in map(str.split, lines)
    assert "Undecided: no row of yours" in " ".join(lines)


def test_the_longest_names_and_ranges_fit_the_width():
    shares = pd.DataFrame({max((line.problems for line in HEADLINES), key=len): [0.9972, 0.99985]})
    row = Compared(max((line.row for line in HEADLINES), key=len), "laptop", shares, shares - 0.001)
    assert max(map(len, compare.describe_row(row, "origin/main"))) <= 100


def test_a_commit_without_results_is_refused(project):
    with pytest.raises(SettingsError, match='^compare.revision: "HEAD~9" is unknown; expected'):
        compare.compare_results("HEAD~9")
    git("rm", "-q", "--cached", "reports/claims.json")
    git("commit", "-qm", "without")
    with pytest.raises(SettingsError, match='^compare.revision: "HEAD" has no reports/claims.json'):
        compare.compare_results()


def test_without_git_one_line_says_what_is_missing(project, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(project.parent))
    (project / ".git").rename(project / "unpacked")
    with pytest.raises(SettingsError, match="^compare: not a git repo.*; expected a clone, whose"):
        compare.compare_results()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SettingsError, match="^compare: git is not installed; expected a clone"):
        compare.compare_results()


def test_make_repro_ends_with_it_and_does_not_fail_by_it():
    makefile = (paths.ROOT / "Makefile").read_text(encoding="utf-8")
    assert "\n\tdvc repro\n\t@carry compare || true\n" in makefile


# ---- The test of chance --------------------------------------------------------------------------


def draw_rows(random, rows, mine, theirs, shift=0.0):
    """Return rows of seeds that are drawn alike, but mine `shift` lower.

    A row has a level; its four numbers hang together and are skew near 1, as accuracies are, and
    equal in many seeds.
    """
    made = []
    for _ in range(rows):
        seeds = random.beta(random.uniform(1, 30), 1, size=(mine + theirs, 1))
        values = np.clip(seeds + random.normal(0, 0.05, size=(mine + theirs, 4)), 0, 1)
        values[:mine] -= shift
        table = pd.DataFrame(values.clip(0, 1).round(2), columns=list("abcd"))
        made.append(Compared("row", "laptop", table[:mine], table[mine:]))
    return made


@pytest.mark.parametrize(("rows", "mine", "theirs"), [(8, 1, 6), (3, 2, 5), (1, 5, 5)])
def test_seeds_that_are_alike_are_rarely_called_different(rows, mine, theirs):
    """At most 5% of the time, though a number is outside in most cases."""
    random = np.random.default_rng(0)
    drawn = [draw_rows(random, rows, mine, theirs) for _ in range(250)]
    alarms = np.mean([compute_outside_p(made)[0] <= ALPHA for made in drawn])
    assert 0.004 <= alarms <= 0.08  # at most 5%, and two standard errors of 250 draws
    outside = [any(row.find_outside(name).any() for row in made for name in row.numbers)
               for made in drawn]  # fmt: skip
    assert np.mean(outside) > 0.5
    moved = [draw_rows(random, rows, mine, theirs, shift=0.4) for _ in range(20)]
    assert np.mean([compute_outside_p(made)[0] <= ALPHA for made in moved]) > 0.8


def test_of_one_new_seed_a_number_is_outside_as_often_as_stated():
    """With k seeds in git in 2 of k + 1 cases, where no two seeds are equal."""
    random = np.random.default_rng(0)
    made = [pd.DataFrame({"x": random.normal(size=7)}) for _ in range(1000)]
    rows = [Compared("row", "laptop", seeds[:1], seeds[1:]) for seeds in made]
    assert np.mean([row.find_outside("x").any() for row in rows]) == pytest.approx(2 / 7, abs=0.04)


def test_p_is_the_share_of_choices_with_as_many_outside():
    """Against all choices of my seeds in both rows, one by one."""

    def count(values, mine):
        theirs = np.delete(values, mine, axis=0)
        lowest, highest = theirs.min(axis=0), theirs.max(axis=0)
        return sum(((values[at] < lowest) | (values[at] > highest)).sum() for at in mine)

    random = np.random.default_rng(1)
    for _ in range(3):
        values = [random.integers(0, 5, size=(seeds, 3)) for seeds in (5, 4)]
        rows = [
            Compared("row", "laptop", pd.DataFrame(of[:2]), pd.DataFrame(of[2:])) for of in values
        ]
        choices = [map(list, itertools.combinations(range(len(of)), 2)) for of in values]
        totals = [sum(map(count, values, chosen)) for chosen in itertools.product(*choices)]
        real = sum(count(of, [0, 1]) for of in values)
        expected = [np.mean([total >= least for total in totals]) for least in (real, max(totals))]
        assert compute_outside_p(rows) == pytest.approx(tuple(expected))


def test_many_choices_are_sampled_always_the_same():
    """Of 12 and 12 seeds there are 2.7 million; mine are all outside."""
    apart = Compared("row", "laptop", pd.DataFrame({"x": np.arange(12.0)}),
                     pd.DataFrame({"x": np.arange(20.0, 32.0)}))  # fmt: skip
    p = compute_outside_p([apart])
    assert p == compute_outside_p([apart]) and 1 / compare.MAX_CHOICES <= p[0] < 0.001
