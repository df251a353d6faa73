"""The validation band: sizes just beyond training, which choose settings and are not reported."""

import pytest

from carry.config.settings import SettingsError
from carry.data import problem_sets
from carry.experiments.resolve import make_run

TRAINED = 4  # the band is 5 and 6


def run_of(band=True, digits=TRAINED, **evaluation):
    training, evaluation = {"digits": digits}, {"band": band, "digits": 9, **evaluation}
    task = {"name": "addition"}
    return make_run({"task": task, "training": training, "evaluation": evaluation})


def table_of(**settings):
    settings = {"task": {"name": "addition"}, **settings}
    return problem_sets.draw_problem_set(
        "mine", problem_sets.ProblemSet.parse(settings, "problems.mine")
    )


@pytest.mark.parametrize(
    ("digits", "band"),
    [(1, []), (2, [3]), (3, [4]), (10, [11, 12, 13, 14, 15]), (20, range(21, 31))],
)
def test_it_goes_up_to_one_and_a_half_times_training(digits, band):
    assert [*run_of(digits=digits).validation_band()] == [*band]


def test_a_run_that_was_chosen_on_it_is_not_scored_on_it():
    table = table_of(grid=9, each=1, equal=2, far=[[20, 20, 3]])
    scored = {
        band: problem_sets.select_questions(run_of(band, far=[20]), table) for band in (False, True)
    }
    size = scored[False][["i", "j"]].max(axis=1)
    assert {*size} == {*range(1, 10), 20}
    assert scored[True].equals(scored[False][~size.isin([5, 6])])


@pytest.mark.parametrize(
    ("evaluation", "place"),
    [
        ({"far": [20, 5]}, "far: (5, 5)"),
        ({"far": [[2, 6]]}, "far: (2, 6)"),
        ({"attention_cell": [6, 1]}, "attention_cell: (6, 1)"),
        ({"reach": [[100, 100, 1], [3, 5, 10]]}, "reach: (3, 5)"),
    ],
)
def test_cells_in_it_are_refused_before_any_work(evaluation, place):
    with pytest.raises(SettingsError) as error:
        run_of(**evaluation)
    assert str(error.value).startswith(f"runs.mine.evaluation.{place} is in the validation band")
    assert str(error.value).endswith("expected no size from 5 to 6")
    run_of(False, **evaluation)
