"""Bad input gets one clear line that names row, field, value and what was expected."""

import pytest
import torch

from carry import params, problem_sets, run
from carry.models.system import System
from carry.run import make
from carry.settings import SettingsError, nearest
from carry.training.seeds import train_seeds
from variants import run_of

ADDITION = {"task": {"name": "addition"}}


def positions(*pairs, **more):
    return {**ADDITION, "positions": list(pairs), **more}


LEARNED = {"ids": "index", "encoding": "learned", "table": 100}
COUPLED = {"ids": "coupled", "encoding": "learned", "limit": 35}

# Settings, and words that the one line must hold.
CASES = {
    "unknown section": ({**ADDITION, "trainning": {}}, ["trainning", "training"]),
    "no task": ({}, ["task", "missing"]),
    "task without a name": ({"task": {}}, ["task.name", "missing"]),
    "unknown task": ({"task": {"name": "additon"}}, ["'additon'", "'addition'"]),
    "unknown task setting": (
        {"task": {"name": "addition", "samplng": "equal"}},
        ["task.samplng", "'sampling'"],
    ),
    "unknown sampling": (
        {"task": {"name": "addition", "sampling": "equl"}},
        ["task.sampling", "'equl'", "'equal'"],
    ),
    "unknown format": ({**ADDITION, "format": {"name": "expresion"}}, ["'expression'"]),
    "unknown format setting": ({**ADDITION, "format": {"padd": True}}, ["format.padd", "'pad'"]),
    "format setting of wrong type": (
        {**ADDITION, "format": {"pad": "yes"}},
        ["format.pad", "'yes'", "boolean"],
    ),
    "unknown scheme": (
        positions({"ids": "abcus", "encoding": "learned"}),
        ["positions.0.ids", "'abcus'", "'abacus'"],
    ),
    "unknown encoding": (
        positions({"ids": "index", "encoding": "ropes"}),
        ["positions.0.encoding", "'ropes'", "'rope'"],
    ),
    "pair without ids": (positions({"encoding": "rope"}), ["positions.0.ids", "missing"]),
    "pair without encoding": (positions({"ids": "index"}), ["positions.0.encoding", "missing"]),
    "setting that neither of a pair knows": (
        positions({"ids": "abacus", "encoding": "learned", "ofset": 5}),
        ["positions.0.ofset", "'offset'"],
    ),
    "randomized without a range": (
        positions({"ids": "randomized", "encoding": "fire"}),
        ["positions.0.range", "missing"],
    ),
    "range shorter than the sequences": (
        positions({"ids": "randomized", "encoding": "fire", "range": 50}),
        ["positions.0", "50", "30 digits"],
    ),
    "offset of zero": (
        positions({"ids": "abacus", "encoding": "learned", "offset": 0}),
        ["positions.0.offset", "0", "greater than or equal to 1"],
    ),
    "window below zero": (
        positions({"ids": "abacus", "encoding": "relative", "window": -1}),
        ["positions.0.window", "-1"],
    ),
    "positions that are not a list": (
        {**ADDITION, "positions": {"ids": "index", "encoding": "rope"}},
        ["positions", "list"],
    ),
    "FIRE over ids that go back": (
        positions({"ids": "coupled", "encoding": "fire"}),
        ["positions.0.encoding", "'coupled'", "index"],
    ),
    "table too small for training": (
        positions({**LEARNED, "table": 20}),
        ["positions.0.table", "20", "10 digits"],
    ),
    "table too small for evaluation": (
        positions({"ids": "abacus", "encoding": "learned", "offset": 5}),
        ["positions.0", "30 digits", "id 31", "15"],
    ),
    "limit too small for training": (
        positions({**COUPLED, "limit": 9}, evaluation={"digits": 4}),
        ["positions.0", "10 digits", "past the largest, 9"],
    ),
    "start too late for the table": (
        positions(COUPLED, evaluation={"starts": [9]}),
        ["positions.0", "id 9", "past the largest"],
    ),
    "far lengths past the table": (
        positions(COUPLED, evaluation={"far": [100]}),
        ["positions.0", "100 digits"],
    ),
    "ids that would tell the answer's length": (
        positions(COUPLED, format={"reverse_answer": False}),
        ["positions.0.ids", "reverse_answer: false", "pad"],
    ),
    "unknown architecture": (
        {**ADDITION, "model": {"name": "transfomer"}},
        ["model.name", "'transformer'"],
    ),
    "unknown model setting": ({**ADDITION, "model": {"layer": 2}}, ["model.layer", "'layers'"]),
    "model size as text": ({**ADDITION, "model": {"width": "128"}}, ["model.width", "'128'"]),
    "recurrences of zero": ({**ADDITION, "model": {"recurrences": 0}}, ["recurrences", "0"]),
    "heads that do not divide": (
        {**ADDITION, "model": {"width": 30, "heads": 4}},
        ["width 30", "heads 4"],
    ),
    "odd head width with RoPE": (
        positions({"ids": "index", "encoding": "rope"}, model={"head_width": 7}),
        ["head_width", "7", "even"],
    ),
    "unknown injection": (
        {**ADDITION, "model": {"injection": "every"}},
        ["model.injection", "'every'", "'every_layer'"],
    ),
    "recurrences of zero at evaluation": (
        {**ADDITION, "evaluation": {"recurrences": 0}},
        ["evaluation.recurrences", "0", "greater than or equal to 1"],
    ),
    "array longer than there are labels": (
        {"task": {"name": "sorting"}, "format": {"name": "labelled"}, "evaluation": {"digits": 60}},
        ["format", "60 numbers", "52 names"],
    ),
    "hints for more places than there are letters": (
        {**ADDITION, "format": {"hints": "cyclic"}, "evaluation": {"far": [150]}},
        ["format.hints", "151 places", "102 letters"],
    ),
    "an array as an expression": (
        {"task": {"name": "sorting"}},
        ["format", "'expression'", "'labelled'"],
    ),
    "offset and length past the table": (
        positions({"ids": "abacus", "encoding": "learned", "offset": 80, "table": 60}),
        ["positions.0.table", "60", "shows id 90"],
    ),
    "noise past a table of ids": (
        positions({**LEARNED, "table": 50}, training={"noise": 0.2}, evaluation={"digits": 10}),
        ["positions.0.table", "50", "at least 69"],
    ),
    "noise everywhere": ({**ADDITION, "training": {"noise": 1.0}}, ["training.noise", "1.0"]),
    "a cell of three sizes": (
        {**ADDITION, "evaluation": {"far": [[10, 20, 30]]}},
        ["evaluation.far", "[10, 20, 30]"],
    ),
    "unknown training setting": (
        {**ADDITION, "training": {"stpes": 10}},
        ["runs.mine.training.stpes", "'steps'"],
    ),
    "steps of zero": ({**ADDITION, "training": {"steps": 0}}, ["training.steps", "0"]),
    "rate as text": ({**ADDITION, "training": {"rate": "1e-3"}}, ["training.rate", "'1e-3'"]),
    "share above one": ({**ADDITION, "training": {"progressive": 1.5}}, ["progressive", "1.5"]),
    "unknown optimizer": (
        {**ADDITION, "training": {"optimizer": "adam"}},
        ["training.optimizer", "'adam'", "'adamw'"],
    ),
    "unknown decay": (
        {**ADDITION, "training": {"decay": "cosin"}},
        ["training.decay", "'cosin'", "'cosine'"],
    ),
    "fixed data set of no problems": (
        {**ADDITION, "training": {"fixed": 0}},
        ["training.fixed", "0"],
    ),
    "unknown start": (
        {**ADDITION, "evaluation": {"starts": ["centre"]}},
        ["evaluation.starts", "'centre'"],
    ),
    "no start": ({**ADDITION, "evaluation": {"starts": []}}, ["evaluation.starts"]),
    "seeds of zero": ({**ADDITION, "seeds": 0}, ["seeds", "0"]),
    "settings that are no mapping": (["addition"], ["runs.mine", "mapping"]),
}


@pytest.mark.parametrize("settings, words", CASES.values(), ids=CASES)
def test_one_clear_line_before_any_work(settings, words):
    with pytest.raises(SettingsError) as error:
        train_seeds(make(settings), 1)
    message = str(error.value)
    assert "\n" not in message and message.startswith("runs.mine")
    for word in words:
        assert word in message, message


def test_there_are_enough_cases():
    assert len(CASES) >= 30


def test_unknown_profile_and_row():
    with pytest.raises(SettingsError, match="profile: 'smok' is not there, did you mean 'smoke'"):
        run.load("addition_nope", "smok")
    with pytest.raises(SettingsError, match="did you mean 'addition_nope'"):
        run.load("addition_nop", "cpu")


def test_problem_sets():
    with pytest.raises(SettingsError, match="'addtion' is not there, did you mean 'addition'"):
        problem_sets.load("addtion", "cpu")
    with pytest.raises(SettingsError, match="problems.mine.grid: -1"):
        problem_sets.ProblemSet.parse({**ADDITION, "grid": -1}, "problems.mine")
    with pytest.raises(SettingsError, match="expected the problems stage of profile 'paper'"):
        problem_sets.read_table("paper", "addition")
    far = {**ADDITION, "far": [{"digits": 5, "i": 3, "each": 1}]}
    with pytest.raises(SettingsError, match="far.0: digits 5, i 3, j None do not fit; expected"):
        problem_sets.ProblemSet.parse(far, "problems.mine")


def test_a_run_and_its_problem_set():
    """The name is the task's unless said otherwise, and the problems have to be the task's."""
    mine = make({**ADDITION, "evaluation": {"problems": "additoin"}})
    with pytest.raises(SettingsError, match="evaluation.problems: 'additoin' is not there, did"):
        problem_sets.check(mine, "cpu")
    mine = make({"task": {"name": "sorting"}, "evaluation": {"problems": "addition"}})
    with pytest.raises(SettingsError, match="'addition' has problems of 'addition', expected some"):
        problem_sets.check(mine, "cpu")
    problem_sets.check(make(ADDITION), "cpu")
    with pytest.raises(SettingsError, match="expected the questions stage of profile 'paper'"):
        problem_sets.read_questions(run.load("addition_abacus", "paper"))


def test_cuda_where_there_is_none(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(SettingsError, match="runs.mine.training.device: 'cuda'"):
        train_seeds(run_of(device="cuda"), 1)


def test_nothing_is_hidden_by_a_good_row():
    """Every row of every profile is accepted as it stands."""
    for profile in params.profiles():
        for row in run.rows(profile):
            with torch.device("meta"):
                System(run.load(row, profile), device="meta")


def test_the_hint_names_all_when_nothing_is_near():
    assert nearest("zzz", ["b", "a"]) == "(known: a, b)"
