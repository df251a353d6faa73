"""Coverings contain every context, contexts determine the logits, and certificates are checked."""

import functools
import json
import pickle

import numpy as np
import pytest
import torch

from carry import cli
from carry.certificates import certify, coverings, files, seeds, tables, verification
from carry.certificates.contexts import (
    HIDDEN_ID,
    ConflictingContexts,
    compute_context_keys,
    compute_id_reach,
    concatenate_contexts,
    extract_contexts,
    iterate_contexts,
    require_bounded_contexts,
    unique_contexts,
)
from carry.certificates.verification import (
    ContextChecks,
    EnumeratedContexts,
    certify_model,
    check_contexts,
    enumerate_contexts,
    hash_weights,
    sample_problems,
)
from carry.config import paths, profiles, run_settings
from carry.config.run_settings import load_run, make_run
from carry.config.settings import SettingsError
from carry.evaluation import trained_models
from carry.evaluation.decoding import decode_greedily
from carry.formats import EOS, PAD, to_text, to_tokens
from carry.models.system import System
from carry.models.teacher_forcing import teacher_forced_pass
from carry.randomness import stream
from carry.tasks import to_digits
from carry.training import checkpoint
from carry.training.loop import Trainer

# Between them they have every covering, each scheme of ids, lines of text, and sub-tasks.
ROWS = [
    "addition_relative",
    "addition_relative_carries",
    "addition_relative_backwards",
    "addition_relative_aligned",
    "addition_line_rows_relative",
    "bitwise_or_relative",
    "reversing_relative",
    "parity_relative_scratchpad",
    "sorting_relative_scratchpad",
    "multi_operand_addition_relative_scratchpad",
    "multiplication_relative_scratchpad",
]
LARGE = ROWS[-3:]  # with many contexts
PARITY = "parity_relative_scratchpad"
STUDY = profiles.find_study(PARITY)


def system_of(row, **changes):
    run = load_run(row, "full")
    for name, change in changes.items():
        current = getattr(run, name)
        change = {**current, **change} if isinstance(current, dict) else change
        run = run.model_copy(update={name: change})
    return System(run)


def with_noise(system, size=0.3, seed=0):
    """Disturb the weights, so that attention is far from uniform."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weights in system.network.parameters():
            weights += size * torch.randn(weights.shape, generator=generator)
    return system


def problems_of(system, sizes=((1, 2), (2, 2), (3, 2), (5, 5), (9, 4), (4, 11), (12, 12))):
    for i, j in sizes:
        smallest = system.task.smallest_cell
        cell = [max(i, smallest[0]), max(j, smallest[1])]
        cell = cell if len(system.task.largest_lengths(2)[0]) > 1 else [i, i]
        count = 40 if i * j < 36 else 8 if i * j < 100 else 3  # a sort then has 2,000 tokens
        yield system.task.draw_for_cells(torch.tensor([cell] * count), stream(0, "contexts", i, j))


def contexts_of(system, problems):
    return concatenate_contexts(list(iterate_contexts(system, problems)))


def keys_of(system, contexts):
    """Return keys of contexts, without their padding."""
    return {tuple(row[row >= 0].tolist()) for row in compute_context_keys(system, contexts)}


def covering_keys(system, change=lambda contexts: contexts):
    parts = [
        extract_contexts(system, covering.batch, covering.selected)
        for covering in coverings.generate_covering_problems(system)
    ]
    return keys_of(system, change(concatenate_contexts(parts)))


@functools.cache
def enumerated_of(row):
    return enumerate_contexts(system_of(row))


@pytest.mark.parametrize("row", ROWS[:-3])
def test_long_problems_have_no_other_contexts(row):
    system, enumerated = system_of(row), enumerated_of(row)
    known = keys_of(system, enumerated.contexts)
    assert enumerated.complete and len(known) == len(enumerated.contexts)
    met = set()
    for problems in problems_of(system):
        keys = keys_of(system, contexts_of(system, problems))
        assert keys <= known
        met |= keys
    assert len(met) > min(100, 0.9 * len(known))


def without_digits(contexts):
    """Return contexts with 0 for every digit: the numbers that are visible, and their ends."""
    tokens = torch.where(contexts.tokens < 10, 0, contexts.tokens)
    target = torch.where(contexts.target < 10, 0, contexts.target)
    return type(contexts)(tokens, contexts.ids, target, contexts.problem, contexts.slot)


@pytest.mark.parametrize("row", LARGE)
def test_long_problems_end_in_no_other_way(row, monkeypatch):
    """Of millions of contexts, use those of few digits, and ignore which digits they are."""
    monkeypatch.setattr(coverings, "DIGITS", (0, 1, 9))
    system = system_of(row)
    known = covering_keys(system, without_digits)
    for problems in problems_of(system):
        assert keys_of(system, without_digits(contexts_of(system, problems))) <= known


@pytest.mark.parametrize("row", LARGE)
def test_coverings_have_all_digits_in_the_window(row, monkeypatch):
    """Of numbers with few digits, all contexts are covered whose sums have these digits, too."""
    few = (0, 2, 7)
    monkeypatch.setattr(coverings, "DIGITS", few)
    system = system_of(row)
    known, met = covering_keys(system), 0
    for problems in problems_of(system, ((2, 2), (4, 3), (6, 5))):
        digits = torch.tensor(few)[problems.operands.long() % 3]
        lengths, place = problems.lengths[:, :, None], torch.arange(digits.shape[2])
        digits = torch.where(place == lengths - 1, 7, torch.where(place < lengths, digits, 0))
        contexts = contexts_of(system, system.task.solve(digits.to(torch.uint8), problems.lengths))
        tokens = contexts.tokens[:, 1:-1]
        familiar = ((tokens >= 10) | (tokens[:, :, None] == torch.tensor(few)).any(2)).all(1)
        if len(contexts.ids) > 2:  # products of digits cover all digits of the previous row
            familiar |= contexts.ids[0][:, -1] > 0
        keys = keys_of(system, contexts[familiar])
        assert keys <= known
        met += len(keys)
    assert met > 300


@pytest.mark.parametrize(("row", "layers", "scale"), [
    *((row, 1 + at % 2, "constant") for at, row in enumerate(ROWS)),
    ("addition_relative", 2, "log"),
    (ROWS[-2], 1, "log"),
])  # fmt: skip
def test_a_context_has_the_logits_of_its_sequence(row, layers, scale):
    """Hidden tokens have no effect, through two layers as well, and are not counted."""
    system = with_noise(system_of(row, model={"layers": layers, "attention_scale": scale}))
    for problems in problems_of(system, ((3, 3), (6, 4))):
        batch = system.format.write(problems[:5])
        index, _, real = batch.response()
        contexts = extract_contexts(system, batch, real).long()
        with torch.inference_mode():
            logits = system.network.eval()(batch.tokens, system.ids(batch), index)[real]
            last = torch.full((1, 1), contexts.tokens.shape[1] - 1)
            alone = system.network(contexts.tokens, contexts.ids, last)[:, 0]
        torch.testing.assert_close(alone, logits, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("row", ["addition_relative", "multiplication_relative_scratchpad"])
def test_contexts_with_one_key_have_the_same_logits(row):
    system = with_noise(system_of(row))
    contexts = concatenate_contexts([contexts_of(system, part) for part in problems_of(system)])
    contexts = contexts.long()
    with torch.inference_mode():
        last = torch.full((1, 1), contexts.tokens.shape[1] - 1)
        logits = system.network.eval()(contexts.tokens, contexts.ids, last)[:, 0]
    by_key = {}
    keys = map(bytes, compute_context_keys(system, contexts))
    for key, context_logits in zip(keys, logits, strict=True):
        by_key.setdefault(key, []).append(context_logits)
    spreads = [torch.stack(group).std(0).max() for group in by_key.values() if len(group) > 1]
    firsts = torch.stack([group[0] for group in by_key.values()])
    assert len(spreads) > 20 and max(spreads) < 1e-4
    assert len(firsts.round(decimals=3).unique(dim=0)) > 0.99 * len(firsts)  # other keys differ


def test_conflicting_contexts_are_found():
    """With the most significant digit first, a carry comes from any distance."""
    plain = {"reverse_operands": False, "reverse_answer": False, "pad": True}
    pair = {"ids": "coupled", "encoding": "relative", "window": 1}
    system = System(make_run({"task": {"name": "addition"}, "format": plain, "positions": [pair]}))
    with pytest.raises(ConflictingContexts) as conflict:
        unique_contexts(system, (contexts_of(system, part) for part in problems_of(system)))
    first, second = conflict.value.first, conflict.value.second
    both = concatenate_contexts([first, second])
    assert len({bytes(key) for key in compute_context_keys(system, both)}) == 1
    assert first.target.item() != second.target.item()
    certificate = certify_model(system, conflict.value)
    assert certificate["verdict"] == "impossible"
    assert certify.describe_certificate(certificate).startswith("impossible: a context has two")


@pytest.mark.parametrize(("row", "window"), [
    *((row, [1, 0]) for row in ("copying_relative", "addition_relative", PARITY)),
    ("increment_relative", [1, 0]),
    ("reversing_relative", [0, 0]),  # its next place is below
])  # fmt: skip
def test_a_window_without_the_next_place_is_impossible(row, window):
    """Coverings without it had one next token in each context: that after the end of a number."""
    pairs = [{**pair, "window": window} for pair in load_run(row, "full").positions]
    with pytest.raises(ConflictingContexts):
        enumerate_contexts(system_of(row, positions=pairs))


def test_the_end_of_a_sum_needs_a_visible_plus():
    """If `+` stands at a place of its own, a step cannot see whether another number follows."""
    system = system_of("multi_operand_addition_relative_scratchpad", task={"local": False})
    with pytest.raises(ConflictingContexts) as conflict:
        unique_contexts(system, (contexts_of(system, part) for part in problems_of(system)))
    targets = {to_text(part.target) for part in (conflict.value.first, conflict.value.second)}
    assert targets == {">", "$"}


@functools.cache
def trained(row, steps, seed=0):
    run = load_run(row, "full")
    training = {"steps": steps, "digits": 6, "score_problems": 32, "score_every": steps}
    training = run.training.model_copy(update=training)
    return Trainer(run.model_copy(update={"training": training}), seed, None).train().system


def trained_copy(row, steps=120):
    """Return a trained system whose weights a test may change."""
    system = System(trained(row, steps).run)
    system.network.load_state_dict(trained(row, steps).network.state_dict())
    return system


def test_a_correct_model_is_certified_and_answers_long_problems():
    system = trained(PARITY, 120)
    enumerated = enumerate_contexts(system)
    certificate = certify_model(system, enumerated)
    assert certificate["verdict"] == "exact"
    assert certificate["wrong"] == certificate["open"] == 0
    problems = system.task.draw_for_cells(torch.tensor([[500, 500]] * 5), stream(0, "long"))
    assert teacher_forced_pass(system, system.format.write(problems)).exact.all()


def test_a_certificate_has_the_least_lead_the_largest_error_and_the_least_slack():
    """The least lead is not that of the context with the least slack, as it once was."""
    system = trained_copy(PARITY)
    with_noise(system, 0.02)
    enumerated = enumerate_contexts(system)
    contexts = enumerated.contexts.long()
    certificate, checks = certify_model(system, enumerated), check_contexts(system, contexts)
    with torch.inference_mode():
        last = torch.full((1, 1), contexts.tokens.shape[1] - 1)
        logits = system.network.double()(contexts.tokens, contexts.ids, last)[:, 0]
    target = contexts.target[:, None]
    others = logits.scatter(1, target, -torch.inf)
    leads = logits.gather(1, target)[:, 0] - others.amax(1)
    torch.testing.assert_close(checks.lead, leads, rtol=1e-6, atol=1e-6)
    assert certificate["least_lead"] == pytest.approx(leads.min().item(), rel=1e-3)
    assert certificate["largest_error"] == pytest.approx(checks.error.max().item(), rel=1e-3)
    assert certificate["least_slack"] == pytest.approx(checks.slack.min().item(), rel=1e-3)
    bound = certificate["least_lead"] - certificate["largest_error"]
    assert bound * 0.999 <= certificate["least_slack"] < certificate["least_lead"]
    assert not torch.equal(checks.lead.argmin(), checks.error.argmax())  # they are two contexts


def test_leads_and_errors_are_those_of_all_contexts(monkeypatch):
    """Two contexts: one with the least lead and slack, another one with the largest error."""
    leads, errors = torch.tensor([1.0, 5.0]).double(), torch.tensor([0.1, 3.0]).double()
    checks = ContextChecks(
        torch.zeros(2).long(), torch.zeros(2).long(), leads, errors, leads - errors
    )
    monkeypatch.setattr(verification, "check_contexts", lambda *arguments: checks)
    system = trained(PARITY, 120)
    certificate = certify_model(system, enumerate_contexts(system))
    assert certificate["verdict"] == "exact"
    values = [certificate[name] for name in ("least_lead", "largest_error", "least_slack")]
    assert values == [1.0, 3.0, 0.9]
    assert certify.describe_certificate(certificate).endswith(
        "(least lead 1, largest error 3, least slack 0.9)"
    )


def shows_a_fault(system, counterexample):
    """Return whether a counterexample is one, by decoding as a user would."""
    question = to_tokens(counterexample["problem"])
    sign, text = system.task.sign, to_text(question[1:-1])
    turn = -1 if system.format.reverse_operands else 1
    numbers = [number[::turn] for number in (text.split(sign) if sign else [text])]
    problem = system.task.solve(*to_digits([numbers]))
    response = decode_greedily(system, problem)[0]
    ends = response == EOS
    end = int(ends.int().argmax()) + 1 if ends.any() else len(response)
    batch = system.format.write(problem)
    right = to_text(batch.tokens[0, batch.start[0] : batch.length[0]])
    written = counterexample["written"]
    return to_text(response[:end]) == written != counterexample["right"] == right


@pytest.mark.parametrize("row", [PARITY, "copying_relative"])
def test_a_model_that_was_stopped_early_is_not_certified(row):
    system = trained(row, 12)
    certificate = certify_model(system, enumerate_contexts(system))
    assert certificate["verdict"] == "wrong" and certificate["wrong"] > 0
    assert shows_a_fault(system, certificate["counterexample"])
    text = certify.describe_certificate(certificate)
    assert text.startswith("wrong in ") and " becomes " in text


def test_a_counterexample_is_searched_among_random_problems(monkeypatch):
    """Some contexts belong to no real problem."""
    system = trained(PARITY, 12)
    monkeypatch.setattr(verification, "_get_problem", lambda *arguments: None)
    certificate = certify_model(system, enumerate_contexts(system))
    assert shows_a_fault(system, certificate["counterexample"])
    monkeypatch.setattr(verification, "_search_wrong_problem", lambda system: None)
    certificate = certify_model(system, enumerate_contexts(system))
    assert set(certificate["counterexample"]) == {"context", "target", "predicted"}
    assert certify.describe_certificate(certificate).startswith("wrong in ")


def test_disturbed_weights_are_refused():
    system = trained_copy(PARITY)
    enumerated, verdicts = enumerate_contexts(system), []
    for seed in range(12):
        certificate = certify_model(system, enumerated)
        verdicts.append(certificate["verdict"])
        if certificate["verdict"] == "wrong":
            break
        with_noise(system, 0.08, seed)
    assert verdicts[0] == "exact" and verdicts[-1] == "wrong"
    assert shows_a_fault(system, certificate["counterexample"])


def test_a_model_that_never_saw_a_long_carry_is_wrong_there(monkeypatch):
    """Train on sums in which no carry enters a place whose digits add up to nine."""
    run = load_run("addition_relative", "full")
    training = {"steps": 350, "digits": 4, "batch": 64, "learning_rate": 0.005, "score_every": 350}
    training = run.training.model_copy(update=training)
    model = {**run.model, "width": 32}
    trainer = Trainer(run.model_copy(update={"training": training, "model": model}), 0, None)
    task, draw = type(trainer.system.task), type(trainer.system.task).draw

    def has_long_carry(self, problems):
        steps = self.compute_steps(problems)
        return ((steps["digit_sum"] == 9) & (steps["carry_used"] > 0)).any(1)

    def draw_short_carries(self, count, digits, generator):
        problems = draw(self, 3 * count, digits, generator)
        return problems[~has_long_carry(self, problems)][:count]

    monkeypatch.setattr(task, "draw", draw_short_carries)
    trainer.train()
    monkeypatch.undo()
    system, enumerated = trainer.system, enumerated_of("addition_relative")
    certificate = certify_model(system, enumerated)
    assert certificate["verdict"] == "wrong"
    assert certificate["wrong"] < 0.2 * certificate["contexts"]
    assert shows_a_fault(system, certificate["counterexample"])


def test_too_many_contexts_are_sampled(monkeypatch):
    monkeypatch.setattr(verification, "SAMPLED_PROBLEMS", 40)
    system = with_noise(system_of("addition_relative", model={"layers": 3}))
    enumerated = enumerate_contexts(system)
    assert not enumerated.complete and enumerated.problems == len(sample_problems(system))
    assert certify_model(system, enumerated)["verdict"] == "wrong"
    assert compute_id_reach(system) == [(0, 3)]


def test_a_sample_is_not_a_proof():
    system = trained(PARITY, 120)
    sample = enumerate_contexts(system)._replace(complete=False)
    certificate = certify_model(system, sample)
    assert certificate["verdict"] == "sampled"
    assert certify.describe_certificate(certificate).startswith("sampled, not proved: correct in")


def levels_of(*pairs):
    return [
        {"ids": "coupled", "level": level, "encoding": "relative", "window": window}
        for level, window in pairs
    ]


# Formats whose numbers end elsewhere, and other ids: nobody has proved a covering for them.
NOT_PROVED = {
    "padded sums": ("multi_operand_addition_relative_scratchpad", {"format": {"pad": True}}),
    "sums of one length": ("addition_relative", {"format": {"pad_to": 1000}}),
    "padded operands": ("addition_relative", {"format": {"pad": True}}),
    "padded answers": ("addition_relative", {"format": {"pad": "answer"}}),
    "signs without Abacus ids": (
        "addition_relative_carries",
        {"positions": [{"ids": "abacus", "encoding": "relative", "window": [0, 1]}]},
    ),
    "spare zeros": ("multi_operand_addition_relative_scratchpad", {"task": {"spare": 1}}),
    "products without padding": ("multiplication_relative_scratchpad", {"format": {"pad": False}}),
    "levels in another order": (
        "multi_operand_addition_relative_scratchpad",
        {"positions": levels_of((2, [1, 0]), (1, [0, 1]))},
    ),
    "lists by names": (
        "sorting_relative_scratchpad",
        {
            "format": {"name": "labelled"},
            "positions": [{"ids": "abacus", "encoding": "relative", "window": [0, 1]}],
        },
    ),
    "steps in words": ("addition_relative", {"format": {"name": "worded"}}),
    "lists with larger windows": (
        "sorting_relative_scratchpad",
        {"positions": levels_of((1, [1, 3]), (2, [2, 0]), (3, 1), (4, 0))},
    ),
}


@pytest.mark.parametrize("name", NOT_PROVED)
def test_formats_without_a_proof_are_never_exact(name):
    row, changes = NOT_PROVED[name]
    with pytest.raises(coverings.TooManyContexts):
        list(coverings.generate_covering_problems(system_of(row, **changes)))


def test_weights_that_are_not_numbers_prove_nothing():
    system = system_of("copying_relative")
    with torch.no_grad():
        next(system.network.parameters()).fill_(torch.nan)
    certificate = certify_model(system, enumerate_contexts(system))
    assert certificate["verdict"] != "exact" and certificate["least_lead"] is None
    json.dumps(certificate, allow_nan=False)


def test_the_float32_prediction_counts():
    """Rounding may change a prediction although the target leads in exact arithmetic."""
    lead, error = torch.ones(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    checks = ContextChecks(torch.tensor([1, 2, 3]), torch.tensor([1, 2, 4]), lead, error, lead)
    assert checks.wrong.tolist() == [False, False, True] and not checks.open.any()


def test_a_lead_below_its_error_is_open():
    system, lead = trained(PARITY, 120), torch.ones(2, dtype=torch.float64)
    checks = ContextChecks(torch.ones(2).long(), torch.ones(2).long(), lead, lead, lead - lead)
    assert checks.open.all() and not checks.wrong.any()
    certificate = {
        **certify_model(system, enumerate_contexts(system)),
        "verdict": "open",
        "open": 2,
    }
    assert certify.describe_certificate(certificate).startswith("open in 2 of 14 contexts (least")


def test_no_contexts_prove_nothing():
    system = trained(PARITY, 120)
    enumerated = enumerate_contexts(system)
    with pytest.raises(SettingsError, match="no contexts; expected at least one"):
        certify_model(system, EnumeratedContexts(enumerated.contexts[:0], 0, True))


def test_a_conflict_is_pickled_with_its_contexts():
    system = system_of("copying_relative")
    contexts = enumerate_contexts(system).contexts
    conflict = pickle.loads(pickle.dumps(ConflictingContexts(contexts[:1], contexts[1:2])))
    assert torch.equal(conflict.first.tokens, contexts[:1].tokens) and len(conflict.second) == 1


REFUSED = {
    "a table of ids": (
        {"positions": [{"ids": "abacus", "encoding": "learned", "table": 99}]},
        "positions.0.encoding: Learned encodes absolute positions",
    ),
    "no window": (
        {"positions": [{"ids": "abacus", "encoding": "relative"}]},
        "positions.0.window: none, so contexts are unbounded",
    ),
    "no ids": ({"positions": []}, "positions: none, so contexts are unbounded"),
    "loops": (
        {"model": {"layers": 1, "width": 32, "recurrences": 2, "injection": "every_layer"}},
        "model.recurrences: 2 with injection 'every_layer' does not fit a certificate",
    ),
    "adaptive depth": ({"model": {"name": "adaptive", "width": 32}}, "model.name: 'adaptive'"),
    "a task without a covering": (
        {"task": {"name": "noisy_majority"}, "format": {}},
        "task.name: 'noisy_majority' has no covering",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_models_without_bounded_contexts_are_refused_in_one_line(name):
    changes, message = REFUSED[name]
    pair = {"ids": "abacus", "encoding": "relative", "window": [0, 1]}
    settings = {"task": {"name": "addition"}, "positions": [pair], **changes}
    with pytest.raises(SettingsError) as error:
        enumerate_contexts(System(make_run(settings)))
    assert message in str(error.value) and "\n" not in str(error.value)
    assert any(word in str(error.value) for word in ("expected", "known: "))


def test_models_with_bounded_contexts_are_accepted():
    require_bounded_contexts(system_of("addition_relative"))


@pytest.fixture
def committed(tmp_path, monkeypatch):
    """The weights of two seeds of a row and their certificate, in a folder of their own."""
    system, run = trained(PARITY, 120), trained(PARITY, 120).run
    run = run.model_copy(update={"seeds": 2})
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    monkeypatch.setattr(run_settings, "load_run", lambda name, profile: run)
    rows = {"full": [PARITY]}
    monkeypatch.setattr(
        profiles,
        "load_profile",
        lambda name: {"certificates": rows.get(name, []), "studies": {STUDY: [PARITY]}},
    )
    folders = [paths.models_folder("full", STUDY, PARITY), paths.run_folder("full", STUDY, PARITY)]
    for seed in range(2):
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"seed_{seed}.safetensors"
            checkpoint.save_weights(path, system.network.state_dict(), run, seed, 120, "fp32")
    certificates = certify.certify_study(STUDY, "full")
    assert certificates == {PARITY: files.read_certificate(certificate_file())}
    return folders[0]


def certificate_file():
    return paths.certificate_file("full", STUDY, PARITY)


def test_a_certificate_is_verified_again_on_the_cpu(committed, monkeypatch, capsys):
    monkeypatch.setattr(trained_models, "choose_device", lambda run: torch.device("meta"))
    assert certify.verify_certificates([])
    output = capsys.readouterr().out
    assert f"{PARITY}, seed 1: exact at every length: correct in all 14 contexts" in output


def test_a_certificate_is_kept_until_weights_change(committed, monkeypatch):
    made = []
    find = seeds.find_contexts_or_conflict
    monkeypatch.setattr(
        seeds, "find_contexts_or_conflict", lambda *given: made.append(1) or find(*given)
    )
    before = certify.certify_study(STUDY, "full")
    assert not made
    system = with_noise(trained_copy(PARITY))
    path = paths.run_folder("full", STUDY, PARITY) / "seed_1.safetensors"
    run = system.run.model_copy(update={"seeds": 2})
    checkpoint.save_weights(path, system.network.state_dict(), run, 1, 120, "fp32")
    after = certify.certify_study(STUDY, "full")
    assert made == [1], "the contexts are enumerated once for all seeds"
    assert [
        one == other
        for one, other in zip(before[PARITY]["seeds"], after[PARITY]["seeds"], strict=True)
    ] == [True, False]


def test_a_certificate_is_renewed(committed):
    path = certificate_file()
    before = path.read_bytes()
    path.unlink()
    assert cli.certify([PARITY]) == 1
    certify.renew_certificate(PARITY)
    assert path.read_bytes() == before
    path.unlink()
    assert cli.certify([PARITY], renew=True) == cli.certify([PARITY]) == 0
    with pytest.raises(SettingsError, match="no row is named; expected ROW"):
        cli.certify([], renew=True)
    with pytest.raises(SettingsError, match="certificates: 'mine' is not certified"):
        certify.renew_certificate("mine")


def refused(capsys):
    """Return the one line that says why the certificate is not valid."""
    assert not certify.verify_certificates([PARITY])
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{PARITY}: ")
    return line


def change_seed(**fields):
    return lambda stored: stored["seeds"][1].update(fields)


TAMPERED = {
    "seeds: 1 entries differ; expected 2": lambda stored: stored["seeds"].pop(),
    "seeds: 0 entries differ; expected 2": lambda stored: stored["seeds"].clear(),
    'row: "copying_relative" differs': lambda stored: stored.update(row="copying_relative"),
    'profile: "gpu" differs; expected "full"': lambda stored: stored.update(profile="gpu"),
    'task.name: "copying" differs': lambda stored: stored["task"].update(name="copying"),
    "format.reverse_answer: ": lambda stored: stored["format"].update(reverse_answer="no"),
    "positions.0.window": lambda stored: stored["positions"][0].update(window=[0, 9]),
    "model.width: 9 differs": lambda stored: stored["model"].update(width=9),
    "trained: 500 differs; expected 6": lambda stored: stored.update(trained=500),
    "parameters: 1 differs": lambda stored: stored.update(parameters=1),
    "parameters: null differs": lambda stored: stored.pop("parameters"),
    'note: "more" differs; expected null': lambda stored: stored.update(note="more"),
    "seeds.1.seed: 7 differs; expected 1": change_seed(seed=7),
    'seeds.1.weights: "0" differs': change_seed(weights="0"),
    "seeds.1.contexts: 15 differs; expected 14": change_seed(contexts=15),
    "seeds.1.problems: 1 differs": change_seed(problems=1),
    'seeds.1.verdict: "impossible" differs; expected "exact"': change_seed(verdict="impossible"),
    "seeds.1.wrong: 2 differs; expected 0": change_seed(wrong=2),
    "seeds.1.least_lead: 100.0 differs": change_seed(least_lead=100.0),
    "seeds.1.largest_error: null differs": change_seed(largest_error=None),
    "seeds.1.counterexample: {} differs; expected null": change_seed(counterexample={}),
    "seeds.1.verdict: null differs": lambda stored: stored["seeds"].__setitem__(
        1, {field: stored["seeds"][1][field] for field in ("seed", "weights")}
    ),
}


def test_any_change_of_a_certificate_is_refused_in_one_line(committed, capsys):
    """With a valid hash, so that the content itself is compared."""
    path = certificate_file()
    original = files.read_certificate(path)
    for message, change in TAMPERED.items():
        stored = json.loads(json.dumps(original))
        change(stored)
        files.write_certificate(path, stored)
        line = refused(capsys)
        assert message in line and len(line) < 500, message
    assert f"{PARITY}: reports/certificates/full/{STUDY}/{PARITY}.json.seeds.1" in line


@pytest.mark.parametrize("version", [None, 1, 3, "2"])
def test_a_certificate_of_another_version_is_refused_in_one_line(committed, version, capsys):
    path = certificate_file()
    stored = json.loads(path.read_text())
    stored["version"] = version
    path.write_text(json.dumps(stored))
    assert f".version: {json.dumps(version)} is not read; expected 2" in refused(capsys)


def test_a_certificate_holds_hashes_of_all_that_it_depends_on(committed):
    stored = files.read_certificate(certificate_file())
    settings = {field: stored[field] for field in seeds.RUN_FIELDS}
    assert stored["settings_sha256"] == files.hash_json(settings)
    hashes = stored["code_sha256"], *(seed["contexts_sha256"] for seed in stored["seeds"])
    assert all(len(bytes.fromhex(digest)) == 32 for digest in hashes)


def test_the_code_of_a_certificate_is_not_compared(committed):
    path = certificate_file()
    files.write_certificate(path, {**files.read_certificate(path), "code_sha256": "0"})
    assert certify.verify_certificates([PARITY])


def test_a_certificate_is_exported_with_its_contexts(committed, tmp_path, capsys):
    cli.export_certificate(PARITY, 1, str(tmp_path / "to"))
    header = json.loads((tmp_path / "to" / tables.HEADER).read_text())
    arrays = np.load(tmp_path / "to" / tables.ARRAYS)
    (seed,) = header["seeds"]
    assert (header["row"], seed["seed"], header["tokens"][11]) == (PARITY, 1, "=")
    assert {len(array) for array in arrays.values()} == {seed["contexts"]} == {14}
    assert (arrays["slack"] >= arrays["lead"] - arrays["error"] - 1e-9).all()
    for name, least in (("lead", np.min), ("error", np.max), ("slack", np.min)):
        field = f"largest_{name}" if name == "error" else f"least_{name}"
        assert least(arrays[name]) == pytest.approx(seed[field], rel=1e-3)
    # Each code is a token and a step, here with one level: the query sees itself at step `clip`.
    (level,) = header["levels"]
    token, step = np.divmod(arrays["codes"], level["base"])
    itself = (token == arrays["query"][:, None]) & (step == level["clip"])
    assert itself.any(1).all() and (arrays["codes"] >= -1).all()


def test_an_export_of_another_certificate_is_refused(committed, tmp_path):
    path = certificate_file()
    original = files.read_certificate(path)
    messages = {"weights": "none has seed 0 and the weights", "contexts_sha256": "'0' differs"}
    for field, message in messages.items():
        stored = json.loads(json.dumps(original))
        stored["seeds"][0][field] = stored["seeds"][1][field] = "0"
        files.write_certificate(path, stored)
        with pytest.raises(SettingsError, match=message):
            certify.export_tables(PARITY, 0, tmp_path / "to")
    with pytest.raises(SettingsError, match="seed: 2 has no certificate; expected 0 to 1"):
        certify.export_tables(PARITY, 2, tmp_path / "to")
    with pytest.raises(SettingsError, match="'mine' is not certified"):
        certify.export_tables("mine", 0, tmp_path / "to")
    assert not (tmp_path / "to").exists()


def test_leads_of_other_machines_may_differ_slightly(committed):
    path = certificate_file()
    stored = files.read_certificate(path)
    stored["seeds"][0]["least_lead"] *= 1.01
    files.write_certificate(path, stored)
    assert certify.verify_certificates([PARITY])


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", b"\xff\xfe\x00", b'{"seeds": []}', b'{"seeds": 1}', b"null"],
)
def test_a_damaged_certificate_is_refused_in_one_line(committed, content, capsys):
    path = certificate_file()
    for damaged in (content, path.read_bytes().replace(b"exact", b"wrong")):
        path.write_bytes(damaged)
        assert f"{PARITY}.json" in refused(capsys)


def test_all_rows_of_the_profile_need_a_certificate(committed, capsys):
    path = certificate_file()
    unused = path.with_name("mine.json")
    unused.write_bytes(path.read_bytes())
    assert files.find_unused_certificates() == [unused]
    assert not certify.verify_certificates([])
    assert "mine.json: its profile does not certify this row" in capsys.readouterr().out
    unused.unlink()
    path.unlink()
    assert f"{PARITY}.json: missing; expected" in refused(capsys)
    assert not certify.verify_certificates(["mine"])
    assert "mine: certificates: 'mine' is not certified" in capsys.readouterr().out


def test_a_certificate_of_other_weights_is_refused(committed, capsys):
    system = with_noise(trained_copy(PARITY))
    path = committed / "seed_0.safetensors"
    run = system.run.model_copy(update={"seeds": 2})
    checkpoint.save_weights(path, system.network.state_dict(), run, 0, 120, "fp32")
    line = refused(capsys)
    assert f"{PARITY}.json.seeds.0.weights: " in line and " differs" in line


def test_a_certificate_without_weights_is_refused(committed, capsys):
    (committed / "seed_1.safetensors").unlink()
    assert "seed_1.safetensors is missing" in refused(capsys)


def test_the_hash_of_weights_depends_on_their_values_alone():
    first = System(make_run({"task": {"name": "addition"}}))
    assert hash_weights(first) == hash_weights(System(make_run({"task": {"name": "addition"}})))
    before = hash_weights(first)
    with torch.no_grad():
        first.network.logits.weight[0, 0] += 1e-6
    assert hash_weights(first) != before


def test_the_padding_of_contexts_is_hidden():
    system = system_of("addition_relative")
    parts = [contexts_of(system, part) for part in problems_of(system, ((1, 1), (5, 5)))]
    contexts = concatenate_contexts(parts)
    padded = contexts.tokens == PAD
    assert padded.any() and (contexts.ids[0][padded] == HIDDEN_ID).all()
