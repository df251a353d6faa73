"""The evaluation is tested: an oracle, mock models with a known fault, and counts that add up."""

import re
import shutil

import numpy as np
import pandas as pd
import pytest
import torch

import mock_models
from carry import tasks
from carry.config import paths
from carry.config.settings import SettingsError
from carry.data import problem_sets
from carry.data.problem_sets import ProblemSet, draw_problem_set
from carry.evaluation import (
    decoding,
    mistakes,
    scoring,
    trained_models,
)
from carry.evaluation.ask import ask, read_answer
from carry.evaluation.jobs import evaluate_runs, list_evaluation_jobs
from carry.evaluation.starts import choose_part
from carry.experiments.resolve import load_run, make_run
from carry.formats import EOS, HINT_LETTERS
from carry.models.system import System
from carry.models.teacher_forcing import TeacherForcedPass
from carry.tasks import to_digits
from carry.training.loop import Trainer
from made_up_project import move_project

TASK = {"name": "addition"}
ABACUS = {"ids": "abacus", "encoding": "learned", "table": 60}
FORMATS = {
    "reversed": {},
    "padded": {"pad": True, "reverse_operands": False},
    "plain": {"reverse_operands": False, "reverse_answer": False},
    "padded_to": {"reverse_operands": False, "pad_to": 20, "begin": "$"},
    "spaced": {"spaces": 0.5},
    "line": {"name": "line", "text": [0, 3], "sums": [1, 3]},
}
FAULTY = {
    "lost_carry": mock_models.ForgetsCarries,
    "carry_from_nowhere": mock_models.InventsCarries,
    "misaligned": mock_models.OffByOnePlace,
    "stopped_early": mock_models.StopsEarly,
    "stopped_late": mock_models.StopsLate,
}
LABELS = ["row", "scale", "seed", "trained", "start", "set"]


@pytest.fixture(autouse=True)
def few_starts(monkeypatch):
    """Average three starts where "all" would be many."""
    monkeypatch.setattr(decoding, "MOST_STARTS", 3)


def build(kind=System, form=(), positions=None, **model):
    settings = {
        "task": TASK,
        "format": dict(form),
        "positions": [ABACUS] if positions is None else positions,
        "model": {"layers": 1, "width": 16, "heads": 2, **model},
        "training": {"digits": 3},
        "evaluation": {"digits": 5, "far": [20]},
    }
    return kind(make_run(settings))


@pytest.fixture(scope="module")
def table():
    far = [[20, 20, 7]]
    given = {"task": TASK, "grid": 5, "each": 4, "equal": 12, "far": far}
    return draw_problem_set("test", ProblemSet.parse(given, "problems.test"))


def of_numbers(numbers):
    """Return a problem set of given pairs."""
    a, b = ([str(pair[index]) for pair in numbers] for index in (0, 1))
    operands = [f"{one} {other}" for one, other in zip(a, b, strict=True)]
    columns = {"set": "grid", "i": [*map(len, a)], "j": [*map(len, b)], "operands": operands}
    return pd.DataFrame(columns).assign(label=0)


STEPS = {"name": "scratchpad"}
ADDING = "multi_operand_addition"
SCRATCHPADS = {
    "sums_steps": (ADDING, STEPS),
    "sums_steps_unpadded": (ADDING, {**STEPS, "pad": False, "reverse_operands": True}),
    "sums_steps_plain": (ADDING, {**STEPS, "reverse_answer": False, "from_zero": False}),
    "products_steps": ("multiplication", STEPS),
    "products_steps_unpadded": ("multiplication", {**STEPS, "pad": False}),
    "parity_steps": ("parity", {**STEPS, "reverse_operands": True}),
}
OTHERS = {
    **{name: ("addition", form) for name, form in FORMATS.items()},
    "products": ("multiplication", {}),
    "or": ("bitwise_or", {"hints": "ordered"}),
    "sorting": ("sorting", {"name": "labelled"}),
    "sorting_steps": ("sorting", {"name": "insertion_sort"}),
    "sums_of_two": ("addition", {"hints": "cyclic", "reverse_answer": False}),
    "sums": (ADDING, {}),
    "sums_padded": (ADDING, {"pad": True, "reverse_operands": False}),
    "reversing": ("reversing", {}),
    "parity": ("parity", {}),
    "products_spaced": ("multiplication", {"spaces": 0.5, "pad_to": 12, "reverse_answer": False}),
    "sums_hinted_padded_to": ("addition", {"hints": "ordered", "pad_to": 12}),
    "worded": ("addition", {"name": "worded"}),
    "alignment": ("addition", {"name": "sub_task", "prefix": "ali"}),
    **SCRATCHPADS,
}


def other(kind, task, form, **more):
    """Return a hand-made model of another task, or another format, and problems of it."""
    given = {"task": {"name": task}, "grid": 4, "each": 1, "equal": 4,
             "far": [[3, 9, 2]]}  # fmt: skip
    evaluation = {"digits": 4, "far": [[3, 9]]}
    if task in ("parity", "reversing"):  # of one operand
        given |= {"grid": 0, "longest": 5, "far": []}
        evaluation = {"digits": 5}
    made = make_run({"task": {"name": task}, "format": form, "evaluation": evaluation, **more})
    return kind(made), draw_problem_set("test", ProblemSet.parse(given, "problems.test"))


@pytest.mark.parametrize(("task", "form"), OTHERS.values(), ids=OTHERS)
def test_every_task_has_its_oracle_and_its_faulty_models(task, form):
    starts = [1, "all"] if form in FORMATS.values() else [1]
    positions = {"positions": [ABACUS]} if len(starts) > 1 else {}
    made = other(mock_models.Oracle, task, form, **positions)
    cells, places, steps = scoring.score_system(*made, starts)
    assert (cells["exact"] == cells["n"]).all() and (cells["first_right"] == cells["n"]).all()
    assert cells["start"].unique().tolist() == [*map(str, starts)]
    assert not cells[list(mistakes.KINDS)].any(axis=None)
    for of in (places, steps):
        assert (of["correct"] == of["n"]).all() and (of["first_wrong"] == 0).all()
    assert places.empty == (form.get("name") == "labelled")  # names have no places
    written = form.get("name") in ("scratchpad", "worded", "insertion_sort")
    assert steps.empty == (not written)
    # Decoding steps takes long, and is done for equal sizes only.
    decoded = np.where(written, cells["set"] == "equal", "hints" in form)
    assert (cells["digits_right"] == cells["n"])[decoded].all()
    assert cells["digits_right"][~decoded].isna().all()
    for name in ("stopped_early", "stopped_late")[len(str(form)) % 2 :][:1]:
        faulty, table = other(FAULTY[name], task, form)
        some = table[table["set"] != "grid"]
        if form.get("name") == "insertion_sort":  # a single number is sorted as it stands
            some = some[some["i"] > 1]
        cells, _, _ = scoring.score_system(faulty, some)
        assert (cells[name] == cells["n"]).all()


def test_wrong_hints_and_right_digits():
    """With the hints nothing is right, without them everything."""

    class WrongHints(mock_models.Oracle):
        def respond(self, question):
            said = super().respond(question)
            return "".join("a" if symbol in HINT_LETTERS else symbol for symbol in said)

    system, table = other(WrongHints, "addition", {"hints": "ordered"})
    table = table[table["label"] > 10_000]  # so that no hint is an a
    cells, _, _ = scoring.score_system(system, table)
    assert (cells["exact"] == 0).all() and (cells["digits_right"] == cells["n"]).all()
    assert (cells["first_right"] == 0).all() and (cells["other"] == cells["n"]).all()


def numbers_of(said):
    """Return the numbers that a response writes, and the signs before them, the first's empty."""
    parts = re.split("([=>+])", said.removesuffix("$"))
    return parts[::2], ["", *parts[1::2]]


def other_digits(number):
    """Return as many digits, none of them the same."""
    return "".join(str((int(digit) + 1) % 10) for digit in number)


class WrongStep(mock_models.Oracle):
    """Writes other digits in step 2, or from there on, or another sign before it."""

    how = "digits"

    def respond(self, question):
        numbers, signs = numbers_of(super().respond(question))
        for step in range(2, len(numbers)):
            if self.how == "sign" and step == 2:
                signs[step] = "*"
            elif self.how == "from" or (self.how == "digits" and step == 2):
                numbers[step] = other_digits(numbers[step])
        said = [sign + number for sign, number in zip(signs, numbers, strict=True)]
        return "".join(said) + "$"


@pytest.mark.parametrize("how", ["digits", "from", "sign"])
@pytest.mark.parametrize("name", ["sums_steps_unpadded", "sums_steps_plain", "products_steps"])
def test_a_wrong_step_shows_where_it_is(name, how):
    """What follows is judged as if all before it were right; a sign goes with what follows it."""
    task, form = SCRATCHPADS[name]
    system, table = other(WrongStep, task, form)
    system.how = how
    some = table[table["set"] == "equal"].groupby("i").head(2)
    cells, places, steps = scoring.score_system(system, some)
    exact = cells.set_index("i")["exact"]
    for digits, of in steps.groupby("digits"):
        first = 0 if form.get("from_zero", True) else 1
        count = 2 * digits if task == "multiplication" else digits + 1 - first
        assert of["step"].tolist() == [*range(count)] and (of["n"] == 2).all()
        wrong = (of["step"] >= 2) if how == "from" else (of["step"] == 2)
        assert of["correct"].tolist() == (2 * ~wrong).tolist()
        assert of["first_wrong"].tolist() == (2 * (of["step"] == 2)).tolist()
        assert exact[digits] == 2 * (count <= 2)
        last = places[places["digits"] == digits]
        touched = how == "from" and count > 2 or how == "digits" and count == 3
        assert (last["correct"] == (0 if touched else last["n"])).all()
        kinds = cells.set_index("i").loc[digits, list(mistakes.KINDS)]
        assert kinds["other"] == 2 - exact[digits] == kinds.sum()


def test_an_end_goes_with_the_last_step():
    for name in ("stopped_early", "stopped_late"):
        cells, _, steps = scoring.score_system(*other(FAULTY[name], *SCRATCHPADS["sums_steps"]))
        last = steps.groupby("digits")["step"].transform("max") == steps["step"]
        assert (steps["first_wrong"] == 4 * last).all() and (steps["correct"] == 4 * ~last).all()
        assert (cells[name] == cells["n"]).all()


class Mixed(mock_models.Oracle):
    """Errs in its steps, in its answer, in both or in neither, by the length of the question."""

    def respond(self, question):
        numbers, signs = numbers_of(super().respond(question))
        kind = sum(map(int, re.findall("[0-9]", question))) % 4
        if kind % 2:
            numbers[0] = other_digits(numbers[0][:1]) + numbers[0][1:]
        if kind // 2:
            end = numbers[-1]
            numbers[-1] = end[:-1] + other_digits(end[-1])
        said = [sign + number for sign, number in zip(signs, numbers, strict=True)]
        return "".join(said) + "$"


@pytest.mark.parametrize(("task", "form"), SCRATCHPADS.values(), ids=SCRATCHPADS)
def test_wrong_steps_and_right_answers(task, form):
    """A response is exact if all is right, and its digits are if the last number is."""
    system, table = other(Mixed, task, form)
    table = table[(table["set"] == "equal") & (table["i"] > 1)]
    cells, places, steps = scoring.score_system(system, table)
    kinds = table["operands"].map(lambda of: sum(map(int, re.findall("[0-9]", of))) % 4)
    assert set(kinds) == {0, 1, 2, 3}
    for i, of in kinds.groupby(table["i"]):
        row = cells[cells["i"] == i].iloc[0]
        assert row["exact"] == (of == 0).sum() and row["digits_right"] == (of < 2).sum()
        assert row["first_right"] == (of % 2 == 0).sum()
        assert row["other"] == (of > 0).sum()
        step = steps[steps["digits"] == i].set_index("step")
        ends = step.index.max()
        assert step.loc[0, "correct"] == ((of == 0) if ends == 0 else (of % 2 == 0)).sum()
        assert step.loc[ends, "correct"] == ((of == 0) if ends == 0 else (of < 2)).sum()


def coupled(task, **more):
    """Return ids at all levels that the steps of a task have, as `other` takes them."""
    count = tasks.build_task({"name": task}).scratchpad_levels
    pairs = [{"ids": "coupled", "level": level, "encoding": "learned", "limit": 20}
             for level in range(1, count + 1)]  # fmt: skip
    model = {"layers": 1, "width": 16, "heads": 2}
    return {"positions": pairs, "model": model, "training": {"digits": 3}, **more}


def assert_grouping_changes_nothing(monkeypatch, system, table, starts):
    """Score problems together, and one by one in another order; return the tables."""
    together = scoring.score_system(system, table, starts)
    monkeypatch.setattr(scoring, "MAX_ATTENTION_SCORES", 1)
    order = np.random.default_rng(0).permutation(len(table))
    alone = scoring.score_system(system, table.iloc[order], starts)
    keys = (["start", "set", "i", "j"], ["start", "digits", "place"], ["start", "digits", "step"])
    for pair, by in zip(zip(together, alone, strict=True), keys, strict=True):
        one, other_ = (t.sort_values(by).reset_index(drop=True) for t in pair)
        pd.testing.assert_frame_equal(one, other_)
    return together


@pytest.mark.parametrize("name", ["sums_steps", "sums_steps_unpadded", "products_steps_unpadded"])
def test_how_problems_with_steps_are_grouped_changes_nothing(monkeypatch, name):
    task, form = SCRATCHPADS[name]
    system, table = other(System, task, form, **coupled(task))
    table = table.groupby(["set", "i", "j"]).head(2).iloc[::2].reset_index(drop=True)
    table = table[(table["i"] != 4) & (table["j"] < 4)]
    cells, _, steps = assert_grouping_changes_nothing(monkeypatch, system, table, ["all"])
    assert steps.columns[:6].tolist() == LABELS and not steps.empty
    assert ((steps["low"] <= steps["accuracy"]) & (steps["accuracy"] <= steps["high"])).all()
    equal = cells[cells["set"] == "equal"].set_index(["start", "i"])
    assert (equal["digits_right"] >= equal["exact"]).all()
    assert cells.loc[cells["set"] != "equal", "digits_right"].isna().all()
    of = steps.groupby(["start", "digits"])
    wrong = (equal["n"] - equal["exact"]).sort_index()
    assert of["first_wrong"].sum().sort_index().tolist() == wrong.tolist()
    assert (of["n"].min() == of["n"].max()).all()
    assert of["n"].max().sort_index().tolist() == equal["n"].sort_index().tolist()


ASKED = ["sums", "products_spaced", "sums_hinted_padded_to", "worded", "alignment", "line",
         *SCRATCHPADS]  # fmt: skip


@pytest.mark.parametrize("name", ASKED)
def test_asking_reads_as_decoding_does(name):
    """What a model writes is what it is surest of, in the last pass from each start."""
    task, form = OTHERS[name]
    system, table = other(System, task, form, **(coupled(task) if name in SCRATCHPADS else {}))
    seen = []
    system.network.register_forward_hook(lambda *call: seen.append(call[2]))
    shown = ask(system, *table.loc[table["set"] == "equal", "operands"].iloc[-1].split())
    passes = torch.cat(seen[-3 if name in SCRATCHPADS else -1 :])
    surest = passes[:, : len(shown)].softmax(-1).mean(0).max(-1).values
    assert shown["probability"].to_numpy() == pytest.approx(surest.numpy(), abs=1e-6)


@pytest.mark.parametrize("name", [name for name in ASKED if name != "alignment"])
def test_asking_shows_steps_and_answer(name):
    task, form = OTHERS[name]
    system, table = other(mock_models.Oracle, task, form)
    for row in table[table["set"] == "equal"].tail(2).itertuples():
        shown = ask(system, *row.operands.split())
        assert shown["predicted"].equals(shown["target"]) and (shown["probability"] < 1).all()
        assert read_answer(system, shown) == row.answer
        assert shown["context"].iloc[-1][-1] == shown["predicted"].iloc[-2]
        assert shown["predicted"].iloc[-1] == "$"


def test_carries_of_more_than_one_can_be_lost():
    """99 x 99: the tens sum 81 twice and use 8; without it they are 2, not 0."""
    task = tasks.build_task({"name": "multiplication"})
    problems = task.solve(*to_digits([[99, 99]]))
    kinds = dict(mistakes.compute_mistaken_digits(task, problems)[:2])
    assert task.compute_steps(problems)["carry_used"].tolist() == [[0, 8, 17, 9]]
    assert problems.answer.tolist() == [[1, 0, 8, 9]]
    assert kinds["lost_carry"].tolist() == [[-1, 2, 1, 0]]


@pytest.mark.parametrize(("fault", "form"), [
    *((name, "reversed") for name in FAULTY if name != "misaligned"),
    ("lost_carry", "padded"), ("carry_from_nowhere", "plain"), ("stopped_early", "padded_to"),
    ("stopped_late", "spaced"), ("lost_carry", "line"),
])  # fmt: skip
def test_each_fault_is_found(table, fault, form):
    """The wrong answers are exactly those that the fault affects."""
    table = table.iloc[::2]
    cells, _, _ = scoring.score_system(build(FAULTY[fault], FORMATS[form]), table)
    assert (cells[fault] == cells["n"] - cells["exact"]).all()
    total = cells[["n", "exact"]].sum()
    if fault == "lost_carry":
        task = build().task
        problems = problem_sets.to_problems(table, task)
        touched = task.compute_steps(problems)["carry_used"].any(1).sum()
        assert total["n"] - total["exact"] == touched and touched < len(table)
    else:
        assert total["exact"] == 0


@pytest.mark.parametrize("form", FORMATS)
def test_an_operand_off_by_a_place_is_found(form):
    """Even digits below 5 keep what it writes an even step from the truth: never a carry's fault.

    On any problems its digit may chance to be a carry's, which is then named: the first that fits.
    """
    even = [n for n in range(250) if set(str(n)) <= set("024")]
    table = of_numbers([(a, b) for a in even for b in even])
    cells, _, _ = scoring.score_system(build(mock_models.OffByOnePlace, FORMATS[form]), table)
    wrong = cells["n"] - cells["exact"]
    assert (cells["misaligned"] == wrong).all()
    # Right where the second number is 0, and where all that differs is cut off at the top.
    expected = sum(_differ(a, b, FORMATS[form]) for a in even for b in even)
    assert wrong.sum() == expected > 0.9 * len(table)


def _differ(a, b, form):
    longest = max(len(str(a)), len(str(b))) + 1 if form.get("pad") else len(str(a + b))
    return (a + b - a - 10 * b) % 10**longest != 0


def test_a_fault_is_named_from_the_first_wrong_token():
    form = build().format
    # Ones first: digits 4 8 1 1, carries used 0 1 0 1.
    problems = form.task.solve(*to_digits([[718, 466]] * 9))
    batch = form.write(problems)
    _, target, real = batch.response()
    said = target.clone()
    other = {1: 7, 0: 5}  # 8 less its carry, 4 with one that is not there
    said[1, 1], said[2, 0] = other[1], other[0]
    said[3, 2], said[4, 4] = EOS, 1
    said[5, 0] = 10  # a plus
    said[6, 1], said[6, 2] = 7, EOS  # only the first counts
    said[7, 3] = 0  # the carry out of the highest place
    said[8, 1] = 9  # 8 and one more: it has its carry already
    seen = TeacherForcedPass(said, target, real)
    kinds = [*mistakes.KINDS, "none"]
    found = mistakes.classify_errors(form, problems, batch, seen)
    named = [kinds[kind] for kind in found.tolist()]
    assert named[:8] == ["none", "lost_carry", "carry_from_nowhere", "stopped_early",
                         "stopped_late", "other", "lost_carry", "lost_carry"]  # fmt: skip
    assert named[8] in ("misaligned", "other")


def test_of_nine_wrong_digits_one_is_a_carry():
    """At every place, which the module says of digits drawn at random."""
    task = build().task
    problems = task.draw(200, 6, torch.Generator().manual_seed(0))
    true = problems.answer
    kinds = dict(mistakes.compute_mistaken_digits(task, problems)[:2])
    fits = sum((kinds[name] >= 0).int() for name in ("lost_carry", "carry_from_nowhere"))
    assert (fits == 1).all()
    for digits in kinds.values():
        assert not ((digits == true) & (digits >= 0)).any()


@pytest.mark.parametrize("positions", [None, [], [{"ids": "index", "encoding": "fire"}]])
def test_counts_add_up(table, positions):
    system = build(positions=positions)
    cells, places, _ = scoring.score_system(system, table, [1, "all"])
    assert (cells[["exact", *mistakes.KINDS]].sum(axis=1) == cells["n"]).all()
    names = ["1", "all"] if positions is None else ["1"]
    assert cells["start"].unique().tolist() == names
    assert cells.columns[:6].tolist() == places.columns[:6].tolist() == LABELS
    for _, of in cells.groupby("start"):
        counted = of.set_index(["set", "i", "j"])["n"].sort_index()
        wanted = table.groupby(["set", "i", "j"]).size().sort_index()
        pd.testing.assert_series_equal(counted, wanted, check_names=False, check_dtype=False)
    # A first wrong token is at a place, or is the end; and every answer has ones.
    wrong = (cells["n"] - cells["exact"])[cells["set"] == "equal"].groupby(cells["i"]).sum()
    first = places.groupby("digits")["first_wrong"].sum()
    late = cells.loc[cells["set"] == "equal"].groupby("i")["stopped_late"].sum()
    assert (first <= wrong).all() and (wrong - first <= len(names) * 12).all()
    assert ((wrong - first) >= late).all()
    assert (places.loc[places["place"] == 0, "n"] == 12).all()
    for of in (cells, places):
        assert ((of["low"] <= of["accuracy"]) & (of["accuracy"] <= of["high"])).all()


@pytest.mark.parametrize(
    ("positions", "form"),
    [
        (None, "spaced"),
        ([{"ids": "abacus", "encoding": "relative", "window": 1}], "reversed"),
        ([{"ids": "randomized", "encoding": "learned", "range": 99}], "spaced"),
        ([{"ids": "index", "encoding": "fire"}, {"ids": "index", "encoding": "rope"}], "reversed"),
    ],
)
def test_how_problems_are_grouped_changes_nothing(table, monkeypatch, positions, form):
    system = build(form=FORMATS[form], positions=positions)
    assert_grouping_changes_nothing(monkeypatch, system, table.iloc[::6], [1, "all"])


def test_scores_are_plain_fp32_and_leave_the_precision_as_it_was(table):
    found = []

    class Spy(mock_models.Oracle):
        def respond(self, question):
            found.append(torch.get_float32_matmul_precision())
            return super().respond(question)

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        scoring.score_system(build(Spy), table.head(3))
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)
    assert set(found) == {"highest"}


@pytest.fixture
def keep(tmp_path, monkeypatch):
    """Return what keeps the untrained weights of a run where git has them, in another project."""
    move_project(monkeypatch, tmp_path)

    def keep(run, seed=0):
        file = paths.models_folder(run.name) / "seed_0.safetensors"
        Trainer(run, seed=seed, checkpoint_path=None).save_weights(file)
        return run

    return keep


@pytest.fixture
def home(keep):
    """Return a row of additions, at the scale `smoke`, whose weights are kept."""
    return keep(load_run("addition_nope", "smoke"))


def test_trained_weights_come_back(home):
    system = trained_models.load_seed(home)
    fresh = System(home, 0)
    for name, value in fresh.network.state_dict().items():
        assert torch.equal(system.network.state_dict()[name].cpu(), value)


def test_weights_that_are_absent(home):
    with pytest.raises(
        SettingsError, match=rf"^runs.{home.name}: seed 7 is not .*seed_7.* expected"
    ):
        trained_models.load_seed(home, seed=7)


def test_weights_of_a_row_that_has_changed(home):
    changed = home.model_copy(update={"model": {**home.model, "width": 48}, "scale": "gpu"})
    place, command = rf"^runs.{home.name}.model.width", f"`carry run {home.name} --scale gpu`"
    with pytest.raises(SettingsError, match=rf"{place}: 48 is not what .* with, \d+; .*{command}"):
        trained_models.load_seed(changed)
    default = home.model_copy(update={"training": home.training.model_copy(update={"clip": 0.5})})
    with pytest.raises(SettingsError, match=r"training.clip: 0.5 is not what .* with, 1.0; exp"):
        trained_models.load_seed(default)


def test_seeds_and_evaluation_may_change(home):
    evaluation = home.evaluation.model_copy(update={"starts": [1]})
    changed = home.model_copy(update={"seeds": 9, "evaluation": evaluation})
    assert trained_models.load_seed(changed).run.evaluation.starts == [1]


def ask_problems(monkeypatch, **settings):
    """Let all rows be scored on what their settings select of a small problem set."""
    table = draw_problem_set("mine", ProblemSet.parse(settings, "problems.mine"))
    monkeypatch.setattr(
        problem_sets, "load_questions", lambda run: problem_sets.select_questions(run, table)
    )


def test_rows_are_scored_on_the_problems_that_they_select(home, monkeypatch):
    ask_problems(monkeypatch, task=TASK, grid=2, each=3, equal=3, far=[[999, 999, 1]])
    tables = evaluate_runs([home])
    assert {*tables} == {"cells", "places"}
    cells = tables["cells"]
    assert set(cells["set"]) == {"grid", "equal"} and set(cells["row"]) == {home.name}
    assert cells.groupby("start")["n"].sum().tolist() == [2**2 * 3 + 2 * 3]
    monkeypatch.setattr("carry.evaluation.jobs.score_system", None)  # is not called again
    shutil.copytree(paths.models_folder(home.name), paths.models_folder("mine"))
    both = evaluate_runs([home, home.model_copy(update={"name": "mine", "scale": "gpu"})])
    for name, table in both.items():
        own, other = (part.reset_index(drop=True) for _, part in table.groupby("row", sort=False))
        pd.testing.assert_frame_equal(own, tables[name])
        pd.testing.assert_frame_equal(other, own.assign(row="mine", scale="gpu"))


@pytest.fixture
def scratchpad(keep, monkeypatch):
    """Return an untrained row with steps, attention and two starts, whose weights are kept."""
    given = {"task": {"name": ADDING}, "format": STEPS, **coupled(ADDING), "seeds": 1,
             "evaluation": {"digits": 3, "attention_cell": [2, 2]}}  # fmt: skip
    ask_problems(monkeypatch, task={"name": ADDING}, grid=3, each=7, equal=6)
    return keep(make_run(given))


def test_a_job_scores_steps_and_attention_and_later_starts_on_a_fifth(scratchpad):
    tables = evaluate_runs([scratchpad])
    assert {*tables} == {"cells", "places", "steps", "attention", "heads", "tokens"}
    for table in tables.values():
        assert set(table["row"]) == {scratchpad.name} and set(table["seed"]) == {0}
    steps = tables["steps"]
    assert set(steps["digits"]) == {2, 3} and set(steps["start"]) == {"1", "all"}
    by_start = tables["cells"].groupby(["start", "set"])["n"].unique()
    assert by_start["1"].map(list).to_dict() == {"equal": [6], "grid": [7]}
    assert by_start["all"].map(list).to_dict() == {"equal": [6], "grid": [2]}


def test_a_part_has_a_fifth_of_each_cell():
    """Off the grid it has no less than 20 problems, if there are as many."""
    sizes = {("grid", 1): 2, ("grid", 2): 7, ("grid", 3): 20, ("equal", 3): 12, ("equal", 4): 30,
             ("far", 9): 101, ("equal", 5): 1000}  # fmt: skip
    keys = [key for key, n in sizes.items() for _ in range(n)]
    questions = pd.DataFrame(keys, columns=["set", "i"]).assign(j=1).sample(frac=1, random_state=0)
    counts = choose_part(questions).groupby(["set", "i"]).size().to_dict()
    assert counts == {("grid", 1): 1, ("grid", 2): 2, ("grid", 3): 4, ("equal", 3): 12,
                      ("equal", 4): 20, ("far", 9): 21, ("equal", 5): 200}  # fmt: skip
    assert choose_part(questions).index.isin(questions.index).all()


def test_a_part_has_a_fifth_of_each_row_and_column_of_single_problems():
    questions = pd.DataFrame(
        [(i, j) for i in range(1, 11) for j in range(1, 11)], columns=["i", "j"]
    )
    part = choose_part(questions.assign(set="grid"))
    assert (part["i"].value_counts() == 2).all() and (part["j"].value_counts() == 2).all()
    assert len(part) == 20


def test_a_seed_is_scored_again_if_its_weights_problems_or_evaluation_change(
    scratchpad, keep, monkeypatch
):
    def key(run=scratchpad):
        (job,) = list_evaluation_jobs(run)
        return job.place

    def with_evaluation(**changes):
        evaluation = scratchpad.evaluation.model_copy(update=changes)
        return scratchpad.model_copy(update={"evaluation": evaluation})

    first = key()
    assert key(scratchpad.model_copy(update={"label": "Another"})) == first
    assert key(with_evaluation(starts=[1])) != first
    keep(scratchpad, seed=1)
    second = key()
    ask_problems(monkeypatch, task={"name": ADDING}, grid=3, each=7, equal=5)
    assert len({first, second, key()}) == 3


ADD, SUM, SORT = {"name": "addition"}, {"name": ADDING}, {"name": "sorting"}
STRING = {"name": "noisy_majority"}
REFUSED = [
    (ADD, (), {}, "operands: 0 do not fit Addition; expected 2"),
    (ADD, (5, 6, 7), {}, "operands: 3 do not fit Addition; expected 2"),
    (SUM, (5,), {}, "operands: 1 do not fit .*; expected 2 to"),
    (SORT, (), {}, "operands: 0 do not fit Sorting; expected 1 to"),
    (STRING, ("01", "10"), {}, "operands: 2 do not fit .*; expected 1"),
    (STRING, ("013",), {}, "operands.0: '013' is not a number .* digits 0 to 2"),
    (ADD, (5, -6), {}, "operands.1: '-6' is not a number .*; expected"),
    (ADD, ("5", ""), {}, "operands.1: '' is not a number .*; expected"),
    (ADD, ("٣", "5"), {}, "operands.0: .* is not a number .*; expected"),
    (ADD, ("9" * 20_000, 5), {}, "operands.0: .*; expected 1 to 10000 digits"),
    (ADD, (10**60, 5), {}, "operands: 61 digits need id .*, past the largest, 60; expected"),
    (ADD, (5, 6), {"start": 0}, "start: 0 is not valid; expected an integer from 1"),
    (ADD, (5, 6), {"start": "end"}, "start: 'end' is not valid; expected 'all', 'window'"),
    (ADD, (5, 6), {"start": 60}, "operands: 1 digits need id .*, past the largest, 60; expected"),
    (ADD, (5, 6), {"start": 10**12}, "start: 1000000000000 is not valid; expected an integer"),
]


@pytest.mark.parametrize(("task", "operands", "options", "message"), REFUSED)
def test_questions_that_cannot_be_asked(task, operands, options, message):
    form = {"name": "labelled"} if task is SORT else {}
    positions = [ABACUS] if task is ADD else []
    system = System(make_run({"task": task, "format": form, "positions": positions,
                              "model": {"layers": 1, "width": 16, "heads": 2},
                              "evaluation": {"digits": 10, "starts": [1]}}))  # fmt: skip
    with pytest.raises(SettingsError, match=message) as caught:
        ask(system, *operands, **options)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500
