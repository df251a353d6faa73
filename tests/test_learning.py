"""What answers look like, told from strings; what is right by place, as the scores say it too."""

import math
from collections import Counter

import pytest
import torch

from carry import analyses
from carry.analyses import learning
from carry.config import paths
from carry.data import problem_sets
from carry.evaluation import trained_models
from carry.evaluation.scoring import score_system
from carry.experiments.resolve import load_run, make_run
from carry.formats import EOS, to_text, to_tokens
from carry.models.system import System
from carry.tasks import to_digits
from carry.training.jobs import train_runs
from mock_models import ForgetsCarries, Oracle

PLAIN = {"begin": "$", "reverse_operands": False, "reverse_answer": False}
FORMATS = {
    "plain": PLAIN,
    "reversed": {"begin": "$"},
    "padded": {**PLAIN, "pad_to": 6},
    "spaces": {"begin": "$", "spaces": 0.5},
    "worded": {"name": "worded", "begin": "$"},
}


def model(form, digits=4, **more):
    return make_run({
        "task": {"name": "addition", "sampling": "equal"}, "format": form, "seeds": 1,
        "positions": [{"ids": "index", "encoding": "learned", "table": 120}],
        "model": {"layers": 1, "width": 12, "heads": 2},
        "training": {"digits": digits, "steps": 4, "batch": 8, "snapshot_every": 2},
        "evaluation": {"digits": digits}, **more,
    }, "addition_equal_learned")  # fmt: skip


def asked(count=8, longest=4):
    """Return test problems of equally long numbers."""
    task = {"name": "addition", "sampling": "equal"}
    given = {"task": task, "equal": count, "longest": longest}
    return problem_sets.draw_problem_set("mine", problem_sets.ProblemSet.parse(given, "problems"))


@pytest.mark.parametrize(("written", "kind"), [
    ("1234$$9$", "right"), ("1134$", "wrong digits"), ("12345$", "longer"), ("1234", "longer"),
    ("$1234", "stops early"), ("123$", "stops early"), ("134$", "middle lost"), ("4$", "shorter"),
    ("234$", "shorter"),
])  # fmt: skip
def test_kinds_of_answers(written, kind):
    assert learning.classify_answer(written, "1234$") == kind


@pytest.mark.parametrize("form", FORMATS)
def test_digits_right_by_place_are_those_of_the_scores(form):
    system = System(model(FORMATS[form]), 0)
    system.network.eval()
    table = asked(count=40)
    cells, places, _ = score_system(system, table)
    cells, places = cells.set_index("i"), places.set_index(["digits", "place"])
    assert 0 < places["correct"].sum() < places["n"].sum()
    for digits, of in table.groupby("i"):
        loss, found = learning.score_answers(system, problem_sets.to_problems(of, system.task))
        expected = places.loc[digits][["n", "correct"]].astype(int)
        assert found.set_index("place").astype(int).to_dict() == expected.to_dict()
        assert (loss["n"], loss["exact"]) == tuple(cells.loc[digits, ["n", "exact"]])
        assert loss["loss"] > 0


def test_an_oracle_is_right_and_who_forgets_carries_has_the_ones():
    table = asked()
    of = {kind: kind(model(FORMATS["reversed"])) for kind in (Oracle, ForgetsCarries)}
    for digits, rows in table.groupby("i"):
        for kind, system in of.items():
            problems = problem_sets.to_problems(rows, system.task)
            loss, places = learning.score_answers(system, problems)
            assert loss["exact"] == len(rows) or kind is ForgetsCarries
            assert places["correct"].iloc[0] == places["n"].iloc[0] == len(rows)
            right = learning.count_kinds(system, problems).set_index("kind")["count"]["right"]
            carries = system.task.compute_steps(problems)["carry_used"].any(1).sum()
            assert right == len(rows) - (int(carries) if kind is ForgetsCarries else 0), digits


@pytest.mark.parametrize("form", FORMATS)
def test_next_tokens_are_those_of_one_problem_after_another(form):
    system, table = System(model(FORMATS[form], digits=3), 0), asked(count=5)
    system.network.eval()
    problems = problem_sets.to_problems(table[table["i"] == 4], system.task)
    longest = system.format.extent(3).tokens
    expected = Counter()
    for row in range(len(problems)):
        one = problems[row : row + 1]
        batch = system.format.write(one)
        start, tokens = int(batch.start), batch.tokens[0, : int(batch.length)].tolist()
        logits = system.logits(batch, system.ids(batch), torch.arange(len(tokens) - 1)[None])[0]
        for at in range(start, len(tokens)):
            chances = logits[at - 1].double().softmax(-1).tolist()
            token, best = tokens[at], max(range(len(chances)), key=chances.__getitem__)
            apart = max((t for t in range(len(chances)) if t != EOS), key=chances.__getitem__)
            kind = "digit" if token < 10 else "end" if token == EOS else "sign"
            key = (at - start + 1, kind, at >= longest, best == EOS)
            entropy = -sum(p * math.log(p) for p in chances) / math.log(len(chances))
            right = token < 10 and apart == token
            for name, value in zip(
                ("n", "entropy", "end", "correct", "right"),
                (1, entropy, chances[EOS], chances[token], right), strict=True,
            ):  # fmt: skip
                expected[*key, name] += value
    told = learning.score_next_tokens(system, problems)
    told = told.set_index(["token", "due", "new", "stops"]).stack().to_dict()
    assert told.keys() == expected.keys()
    assert told == pytest.approx(dict(expected), rel=1e-4)


def test_a_mixture_is_trained_on_sequences_of_all_its_parts():
    """`rev` and `ali` are longer than the sum: with them, fewer positions are new."""
    form = {"name": "sub_task", "prefix": "add", "reverse_answer": False}
    news = []
    for name in ("alone", "parts"):
        run = load_run(f"addition_equal_{name}")
        system = System(run.model_copy(update={"format": form}))
        problems = system.task.solve(*to_digits([[123456789012, 654321654321]]))
        news.append(int(learning.score_next_tokens(system, problems)["new"].sum()))
    assert news[0] > news[1]


@pytest.mark.parametrize("bar", [False, True])
def test_answers_are_compared_with_their_own_steps(bar, monkeypatch):
    """The first answer is wrong, the second agrees with wrong steps, the third has no end."""
    system, table = Oracle(model({**FORMATS["worded"], "bar": bar}, digits=4)), asked(count=4)
    problems = problem_sets.to_problems(table[table["i"] == 3], system.task)
    told = learning.score_scratchpads(system, problems)
    assert told.to_dict("records") == [{"answer": "right", "n": 4, "agree": 4, "steps_right": 4}]
    texts = [to_text(tokens) for tokens in learning.decode_greedily(system, problems, 1)]
    assert [learning.read_scratchpad(text) for text in texts] == [
        (str(sum(numbers)),) * 2 for numbers in (map(int, of.split()) for of in
                                                 table[table["i"] == 3]["operands"])
    ]  # fmt: skip
    spelled, sign = [learning.read_scratchpad(text)[0] for text in texts], " |"[bar]
    other = str(int(spelled[1][-1]) ^ 1)  # another digit in the ones, of the line and the answer
    line = texts[1].index("=", texts[1].index("c=0") + 3) + 1
    texts[0] = texts[0].replace(f"{sign}{spelled[0]}$", f"{sign}{int(spelled[0]) + 1}$", 1)
    texts[1] = f"{texts[1][:line]}{other}{texts[1][line + 1 :]}".replace(
        f"{sign}{spelled[1]}$", f"{sign}{spelled[1][:-1]}{other}$"
    )
    texts[2] = texts[2].replace("$", "1")
    written = torch.stack([to_tokens(text) for text in texts])
    monkeypatch.setattr(learning, "decode_greedily", lambda *_: written)
    told = learning.score_scratchpads(system, problems).set_index("answer")
    assert told.loc["right"].tolist() == [1, 1, 1]
    assert told.loc["wrong"].tolist() == [3, 1, 2]


@pytest.mark.parametrize("form", ["plain", "worded"])
def test_tables_of_a_trained_row(form, tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "STORE", tmp_path)
    run = model(FORMATS[form], digits=3, evaluation={"digits": 4})
    table = asked()
    monkeypatch.setattr(problem_sets, "load_questions", lambda of: table)
    train_runs([run])
    found = analyses.analyse_seeds(learning, run)
    assert ("scratchpads" in found) == (form == "worded")
    for name, of in found.items():
        assert (of["trained"] == 3).all()
        assert name == "next_tokens" or (of["low"] <= of["high"]).all()
    for name in ("losses", "order"):
        assert found[name]["step"].unique().tolist() == [2, 4]
        assert found[name]["digits"].unique().tolist() == [1, 2, 3, 4]
    known = found["losses"].groupby("digits")["seen"].unique().map(list).to_dict()
    assert known == {1: [True], 2: [True], 3: [True], 4: [False]}
    ones = found["order"].query("place == 0")
    assert (ones["n"] == 8).all() and (found["order"]["place"] <= found["order"]["digits"]).all()
    shares = found["answer_kinds"].groupby("digits")[["count", "accuracy"]].sum()
    assert (shares["count"] == 8).all() and shares["accuracy"].sub(1).abs().max() < 1e-9
    # What stands at the last step is what the last weights say.
    last, of = found["losses"].query("step == 4 and digits == 3"), table[table["i"] == 3]
    system = trained_models.load_seed(run)
    loss, _ = learning.score_answers(system, problem_sets.to_problems(of, system.task))
    assert last["loss"].item() == pytest.approx(loss["loss"], rel=1e-5)
