"""Contexts are all that there are, and all that the next token depends on; certificates say so."""

import functools
import json
import pickle

import pytest
import torch

from carry.certificates import coverings, files
from carry.certificates.contexts import (
    FAR,
    Undetermined,
    check,
    contexts,
    distinct,
    joined,
    keys,
    of_problems,
    reach,
)
from carry.certificates.verification import Judged, certificate, digest, enumerated, judged, sampled
from carry.config import paths
from carry.config.run_settings import load_run, make_run
from carry.config.settings import SettingsError
from carry.evaluation.decoding import decode_greedily
from carry.formats import EOS, encode, text
from carry.models.system import System
from carry.models.teacher_forcing import teacher_forced_pass
from carry.randomness import stream
from carry.training.loop import Trainer

ROWS = [
    "addition_relative",
    "addition_relative_carries",
    "addition_relative_digits",
    "addition_relative_backwards",
    "addition_relative_aligned",
    "addition_line_rows_relative",
    "bitwise_or_relative",
    "copying_relative",
    "reversing_relative",
    "parity_relative_scratchpad",
    "sorting_relative_scratchpad",
    "multi_operand_addition_relative_scratchpad",
    "multiplication_relative_scratchpad",
]
LARGE = ROWS[-2:]  # whose contexts are some millions


def system_of(row, **changes):
    run = load_run(row, "cpu")
    for name, change in changes.items():
        own = getattr(run, name)
        run = run.model_copy(update={name: {**own, **change} if isinstance(own, dict) else change})
    return System(run)


def excited(system, seed=0):
    """Give a model weights with which attention is far from even."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for of in system.network.parameters():
            of += 0.3 * torch.randn(of.shape, generator=generator)
    return system


def problems_of(system, sizes=((1, 2), (2, 2), (3, 2), (5, 5), (9, 4), (4, 11), (12, 12))):
    for i, j in sizes:
        least = system.task.least
        cell = [max(i, least[0]), max(j, least[1])]
        cell = cell if len(system.task.largest(2)[0]) > 1 else [i, i]
        count = 40 if i * j < 36 else 8  # for a sort of twelve long numbers has 2,000 tokens
        yield system.task.sample(torch.tensor([cell] * count), stream(0, "contexts", i, j))


def contexts_of(system, problems):
    return joined(list(of_problems(system, problems)))


def known_by(system, some):
    """Return keys of contexts, whatever padding they have."""
    return {tuple(row[row >= 0].tolist()) for row in keys(system, some)}


def without_digits(some):
    """Return contexts with one digit for all: which numbers are there, and where they end."""
    tokens = torch.where(some.tokens < 10, 0, some.tokens)
    target = torch.where(some.target < 10, 0, some.target)
    return type(some)(tokens, some.ids, target, some.problem, some.slot)


@pytest.mark.parametrize("row", ROWS[:-2])
def test_no_long_problem_has_a_context_that_is_not_enumerated(row):
    system = system_of(row)
    found = enumerated(system)
    known = known_by(system, found.contexts)
    assert found.complete and len(known) == len(found.contexts)
    shown = set()
    for problems in problems_of(system):
        own = known_by(system, contexts_of(system, problems))
        assert own <= known
        shown |= own
    assert len(shown) > min(100, 0.9 * len(known))  # and what is enumerated is met


@pytest.mark.parametrize("row", LARGE)
def test_no_long_problem_ends_in_a_way_that_is_not_enumerated(row, monkeypatch):
    """Of millions of contexts those of few digits, with all digits taken for one."""
    monkeypatch.setattr(coverings, "DIGITS", (0, 1, 9))
    system = system_of(row)
    parts = [contexts(system, of.batch, of.wanted) for of in coverings.cover(system)]
    known = known_by(system, without_digits(joined(parts)))
    for problems in problems_of(system):
        assert known_by(system, without_digits(contexts_of(system, problems))) <= known


@pytest.mark.parametrize("row", LARGE)
def test_every_digit_is_tried_where_a_step_looks(row, monkeypatch):
    """Of numbers with few digits all contexts are enumerated whose sums have such digits, too."""
    few = (0, 2, 7)
    monkeypatch.setattr(coverings, "DIGITS", few)
    system = system_of(row)
    parts = [contexts(system, of.batch, of.wanted) for of in coverings.cover(system)]
    known, met = known_by(system, joined(parts)), 0
    for problems in problems_of(system, ((2, 2), (4, 3), (6, 5))):
        digits = torch.tensor(few)[problems.operands.long() % 3]
        lengths, place = problems.lengths[:, :, None], torch.arange(digits.shape[2])
        digits = torch.where(place == lengths - 1, 7, torch.where(place < lengths, digits, 0))
        own = contexts_of(system, system.task.solve(digits.to(torch.uint8), problems.lengths))
        seen = own.tokens[:, 1:-1]
        familiar = ((seen >= 10) | (seen[:, :, None] == torch.tensor(few)).any(2)).all(1)
        if len(own.ids) > 2:  # products of digits: whatever is seen of the row before is tried
            familiar |= own.ids[0][:, -1] > 0
        shown = known_by(system, own[familiar])
        assert shown <= known
        met += len(shown)
    assert met > 300


@pytest.mark.parametrize("row", ROWS)
def test_a_context_has_the_logits_of_the_whole_problem(row):
    """What is hidden makes no difference, through two layers as well."""
    for layers in (1, 2):
        system = excited(system_of(row, model={"layers": layers}))
        for problems in problems_of(system, ((3, 3), (6, 4))):
            batch = system.format.write(problems[:5])
            at, _, real = batch.response()
            some = contexts(system, batch, real).long()
            with torch.inference_mode():
                whole = system.network.eval()(batch.tokens, system.ids(batch), at)[real]
                last = torch.full((1, 1), some.tokens.shape[1] - 1)
                alone = system.network(some.tokens, some.ids, last)[:, 0]
            torch.testing.assert_close(alone, whole, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("row", ["addition_relative", "multiplication_relative_scratchpad"])
def test_contexts_with_one_key_have_the_same_logits(row):
    system = excited(system_of(row))
    some = joined([contexts_of(system, of) for of in problems_of(system)]).long()
    with torch.inference_mode():
        last = torch.full((1, 1), some.tokens.shape[1] - 1)
        logits = system.network.eval()(some.tokens, some.ids, last)[:, 0]
    of_key = {}
    for key, own in zip(map(bytes, keys(system, some)), logits, strict=True):
        of_key.setdefault(key, []).append(own)
    apart = [torch.stack(own).std(0).max() for own in of_key.values() if len(own) > 1]
    firsts = torch.stack([own[0] for own in of_key.values()])
    assert len(apart) > 20 and max(apart) < 1e-4
    assert len(firsts.round(decimals=3).unique(dim=0)) > 0.99 * len(firsts)  # and others have not


def test_what_no_window_can_decide_is_found():
    """With the highest digit first, a carry comes from as far as it likes."""
    plain = {"reverse_operands": False, "reverse_answer": False}
    pair = {"ids": "coupled", "encoding": "relative", "window": 1}
    run = make_run(
        {"task": {"name": "addition"}, "format": {**plain, "pad": True}, "positions": [pair]}
    )
    system = System(run)
    with pytest.raises(Undetermined) as found:
        distinct(system, (contexts_of(system, of) for of in problems_of(system)))
    one, other = found.value.one, found.value.other
    both = joined([one, other])
    assert len({bytes(key) for key in keys(system, both)}) == 1
    assert one.target.item() != other.target.item()
    assert certificate(system, found.value)["verdict"] == "impossible"


def test_sums_that_end_far_from_the_next_number_are_undetermined():
    """Without a plus that stands at no place, whether more is to be added cannot be seen."""
    system = system_of("multi_operand_addition_relative_scratchpad", task={"local": False})
    with pytest.raises(Undetermined) as found:
        distinct(system, (contexts_of(system, of) for of in problems_of(system)))
    ends = {text(of.target) for of in (found.value.one, found.value.other)}
    assert ends == {">", "$"}


@functools.cache
def trained(row, steps, seed=0):
    run = load_run(row, "cpu")
    training = {"steps": steps, "digits": 6, "score_problems": 32, "score_every": steps}
    trainer = Trainer(run.model_copy(update={"training": run.training.model_copy(update=training)}),
                      seed, None).train()  # fmt: skip
    return trainer.system


def test_a_model_that_is_right_is_certified_and_right_on_long_problems():
    system = trained("parity_relative_scratchpad", 120)
    found = enumerated(system)
    own = certificate(system, found)
    assert own["verdict"] == "exact" and own["wrong"] == own["open"] == 0
    assert own["margin"] > own["error"] > 0
    problems = system.task.sample(torch.tensor([[500, 500]] * 5), stream(0, "long"))
    assert teacher_forced_pass(system, system.format.write(problems)).exact.all()


def shows_a_fault(system, told):
    """Say whether a counterexample is one, by decoding as a user would."""
    asked = encode(told["problem"])
    digits = text(asked[1:-1]).split(system.task.sign) if system.task.sign else [text(asked[1:-1])]
    turn = -1 if system.format.reverse_operands else 1
    from carry.tasks import to_digits

    problem = system.task.solve(*to_digits([[number[::turn] for number in digits]]))
    said = decode_greedily(system, problem)[0]
    end = int((said == EOS).int().argmax()) + 1 if (said == EOS).any() else len(said)
    batch = system.format.write(problem)
    due = text(batch.tokens[0, batch.start[0] : batch.length[0]])
    return text(said[:end]) == told["written"] != told["right"] == due


@pytest.mark.parametrize("row", ["parity_relative_scratchpad", "copying_relative"])
def test_a_model_that_was_stopped_early_is_not_certified(row):
    system = trained(row, 12)
    own = certificate(system, enumerated(system))
    assert own["verdict"] == "wrong" and own["wrong"] > 0
    assert shows_a_fault(system, own["counterexample"])


def test_perturbed_weights_are_found_out():
    system = System(trained("parity_relative_scratchpad", 120).run)
    system.network.load_state_dict(trained("parity_relative_scratchpad", 120).network.state_dict())
    found, verdicts = enumerated(system), []
    generator = torch.Generator().manual_seed(0)
    for _ in range(12):
        own = certificate(system, found)
        verdicts.append(own["verdict"])
        if own["verdict"] == "wrong":
            break
        with torch.no_grad():
            for of in system.network.parameters():
                of += 0.08 * torch.randn(of.shape, generator=generator)
    assert verdicts[0] == "exact" and verdicts[-1] == "wrong"
    assert shows_a_fault(system, own["counterexample"])


def test_a_model_that_never_saw_a_carry_go_on_is_wrong_there(monkeypatch):
    """Trained on sums in which no carry comes into a place whose digits make nine."""
    run = load_run("addition_relative", "cpu")
    training = {"steps": 350, "digits": 4, "batch": 64, "rate": 0.005, "score_every": 350}
    model = {**run.model, "width": 32}
    trainer = Trainer(
        run.model_copy(
            update={"training": run.training.model_copy(update=training), "model": model}
        ),
        0, None,
    )  # fmt: skip
    task, draw = type(trainer.system.task), type(trainer.system.task).draw

    def passes_on(self, problems):
        steps = self.steps(problems)
        return ((steps["digit_sum"] == 9) & (steps["carry_used"] > 0)).any(1)

    def only_short_carries(self, count, digits, generator):
        problems = draw(self, 3 * count, digits, generator)
        return problems[~passes_on(self, problems)][:count]

    monkeypatch.setattr(task, "draw", only_short_carries)
    trainer.train()
    monkeypatch.undo()
    system = trainer.system
    own = certificate(system, enumerated(system))
    assert own["verdict"] == "wrong" and own["wrong"] < 0.2 * own["contexts"]
    assert shows_a_fault(system, own["counterexample"])
    found = enumerated(system).contexts
    wrong = judged(system, found).wrong
    tokens = found.tokens[wrong]
    assert len(tokens) and (tokens[:, -1] < 10).any()


def test_too_many_contexts_are_sampled_and_that_is_said():
    system = excited(system_of("addition_relative", model={"layers": 3}))
    monkey = enumerated(system)
    assert not monkey.complete and monkey.problems == len(sampled(system))
    assert certificate(system, monkey)["verdict"] == "wrong"
    assert reach(system) == [(0, 3)]


# Formats whose numbers end elsewhere, or whose ids are others: nobody has shown their contexts.
NOT_ENUMERATED = {
    "padded sums": ("multi_operand_addition_relative_scratchpad", {"format": {"pad": True}}),
    "sums to a length": ("addition_relative", {"format": {"pad_to": 1000}}),
    "padded addends": ("addition_relative", {"format": {"pad": True}}),
    "zeros to spare": ("multi_operand_addition_relative_scratchpad", {"task": {"spare": 1}}),
    "unpadded products": ("multiplication_relative_scratchpad", {"format": {"pad": False}}),
    "levels in another order": (
        "multi_operand_addition_relative_scratchpad",
        {
            "positions": [
                {"ids": "coupled", "level": level, "encoding": "relative", "window": window}
                for level, window in ((2, [1, 0]), (1, [0, 1]))
            ]
        },
    ),
    "lists by names": (
        "sorting_relative_scratchpad",
        {
            "format": {"name": "labelled"},
            "positions": [{"ids": "abacus", "encoding": "relative", "window": [0, 1]}],
        },
    ),
    "steps in words": ("addition_relative", {"format": {"name": "worded"}}),
    "lists of which more is seen": (
        "sorting_relative_scratchpad",
        {
            "positions": [
                {"ids": "coupled", "level": level, "encoding": "relative", "window": window}
                for level, window in ((1, [1, 3]), (2, [2, 0]), (3, 1), (4, 0))
            ]
        },
    ),
}


@pytest.mark.parametrize("name", NOT_ENUMERATED)
def test_what_nobody_has_enumerated_is_never_said_to_be_exact(name):
    row, changes = NOT_ENUMERATED[name]
    with pytest.raises(coverings.TooMany):
        list(coverings.cover(system_of(row, **changes)))


def test_a_lead_that_is_no_number_proves_nothing():
    system = system_of("copying_relative")
    with torch.no_grad():
        next(system.network.parameters()).fill_(torch.nan)
    assert certificate(system, enumerated(system))["verdict"] != "exact"


def test_what_the_pass_itself_says_counts():
    """Where rounding turns a lead that is there in exact arithmetic."""
    lead, error = torch.ones(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    own = Judged(torch.tensor([1, 2, 3]), torch.tensor([1, 2, 4]), lead, error)
    assert own.wrong.tolist() == [False, False, True] and not own.open.any()


def test_an_undetermined_pair_travels_to_another_process():
    system = system_of("copying_relative")
    some = enumerated(system).contexts
    told = pickle.loads(pickle.dumps(Undetermined(some[:1], some[1:2])))
    assert torch.equal(told.one.tokens, some[:1].tokens) and len(told.other) == 1


REFUSED = {
    "a table of ids": (
        {"positions": [{"ids": "abacus", "encoding": "learned", "table": 99}]},
        "positions.0.encoding: Learned tells where a token stands",
    ),
    "no window": (
        {"positions": [{"ids": "abacus", "encoding": "relative"}]},
        "positions.0.window: none, so that a token sees others however far",
    ),
    "no ids": ({"positions": []}, "positions: none, so that a token sees all before it"),
    "loops": (
        {"model": {"layers": 1, "width": 32, "recurrences": 2, "injection": "every_layer"}},
        "model.recurrences: 2 with injection 'every_layer' does not fit a certificate",
    ),
    "tokens that halt": ({"model": {"name": "adaptive", "width": 32}}, "model.name: 'adaptive'"),
    "a task that nobody has enumerated": (
        {"task": {"name": "noisy_majority"}, "format": {}},
        "task.name: 'noisy_majority' has no covering",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_certified_is_refused_in_one_line(name):
    changes, said = REFUSED[name]
    pair = {"ids": "abacus", "encoding": "relative", "window": [0, 1]}
    given = {"task": {"name": "addition"}, "positions": [pair], **changes}
    with pytest.raises(SettingsError) as error:
        enumerated(System(make_run(given)))
    assert said in str(error.value) and "\n" not in str(error.value)
    assert any(word in str(error.value) for word in ("expected", "known: "))


def test_a_neighbourhood_is_checked_before_anything_is_enumerated():
    check(system_of("addition_relative"))


@pytest.fixture
def committed(tmp_path, monkeypatch):
    """A row's weights and its certificate, as they are in git, in a place of its own."""
    system = trained("parity_relative_scratchpad", 120)
    row, run = "parity_relative_scratchpad", system.run
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    from carry.training import loop

    place = paths.reports_path("cpu", "models", row) / "seed_0.safetensors"
    place.parent.mkdir(parents=True)
    loop.save_weights(place, system.network.state_dict(), run, 0, 120, "fp32")
    monkeypatch.setattr(
        files.run_settings, "load_run", lambda name, profile: run.model_copy(update={"seeds": 1})
    )
    folder = paths.data_path("cpu", "runs", row)
    folder.mkdir(parents=True)
    (folder / place.name).write_bytes(place.read_bytes())
    files.certify(row, "cpu")
    return row, place


def test_a_certificate_is_proved_again(committed, capsys):
    row, _ = committed
    assert files.verify(row)["seeds"][0]["verdict"] == "exact"
    assert files.verify_all([])
    assert "exact at every length: right in all 14 contexts" in capsys.readouterr().out


def test_weights_that_do_not_match_are_refused(committed):
    row, place = committed
    system = excited(trained_again(row))
    from carry.training import loop

    loop.save_weights(place, system.network.state_dict(), system.run, 0, 120, "fp32")
    with pytest.raises(
        SettingsError, match=r"parity_relative_scratchpad.json: the weights of seed"
    ):
        files.verify(row)


def test_a_certificate_without_weights_is_refused(committed):
    row, place = committed
    place.unlink()
    with pytest.raises(SettingsError, match="seed_0.safetensors is not there; expected"):
        files.verify(row)


def trained_again(row):
    system = System(trained(row, 120).run)
    system.network.load_state_dict(trained(row, 120).network.state_dict())
    return system


def test_a_certificate_that_says_too_much_is_refused(committed):
    row, _ = committed
    path = files.folder("cpu") / f"{row}.json"
    stored = json.loads(path.read_text())
    stored["seeds"][0]["contexts"] += 1
    path.write_text(json.dumps(stored))
    with pytest.raises(SettingsError, match="contexts of seed 0 is 14; expected 15"):
        files.verify(row)
    with pytest.raises(SettingsError, match="'mine' is not there"):
        files.verify("mine")


def test_weights_are_known_by_their_values_alone():
    one = System(make_run({"task": {"name": "addition"}}))
    assert digest(one) == digest(System(make_run({"task": {"name": "addition"}})))
    with torch.no_grad():
        one.network.logits.weight[0, 0] += 1e-6
    assert digest(one) != digest(System(make_run({"task": {"name": "addition"}})))


def test_padding_of_contexts_is_far_from_everything():
    system = system_of("addition_relative")
    some = joined([contexts_of(system, of) for of in problems_of(system, ((1, 1), (5, 5)))])
    padded = some.tokens == 14
    assert padded.any() and (some.ids[0][padded] == FAR).all()
