"""Coverings contain every context, contexts determine the logits, and certificates are checked."""

import functools
import json

import numpy as np
import pytest
import torch

from carry import cli
from carry.certificates import committed, coverings, files, jobs, tables, verification
from carry.certificates.contexts import (
    ConflictingContexts,
    compute_context_keys,
    concatenate_contexts,
    extract_contexts,
    iterate_contexts,
    unique_contexts,
)
from carry.certificates.verification import (
    ContextChecks,
    EnumeratedContexts,
    certify_model,
    enumerate_contexts,
    sample_problems,
)
from carry.config import paths
from carry.config.settings import SettingsError
from carry.evaluation import trained_models
from carry.evaluation.decoding import decode_greedily
from carry.experiments.resolve import load_run, make_run
from carry.formats import EOS, to_text, to_tokens
from carry.formats.expression import Expression
from carry.models.system import System
from carry.models.teacher_forcing import teacher_forced_pass
from carry.randomness import stream
from carry.tasks import to_digits
from carry.training import checkpoint
from carry.training.loop import Trainer
from made_up_project import move_project

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
    "subtraction_relative_scratchpad",
    "comparison_relative_scratchpad",
    "increment_relative",
    "increment_relative_down",
    "addition_relative_binary",
    "sorting_relative_scratchpad",
    "multi_operand_addition_relative_scratchpad",
    "multiplication_relative_scratchpad",
]
LARGE = ROWS[-3:]  # with many contexts
PARITY = "parity_relative_scratchpad"


def system_of(row, **changes):
    run = load_run(row)
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


@pytest.mark.parametrize("row", ROWS)
def test_a_context_has_the_logits_of_its_sequence(row):
    """Hidden tokens have no effect."""
    system = with_noise(system_of(row))
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
    assert committed.describe_certificate(certificate).startswith("impossible: a context has two")


@pytest.mark.parametrize(("row", "window"), [
    *((row, [1, 0]) for row in ("copying_relative", "addition_relative", PARITY)),
    ("increment_relative", [1, 0]),
    ("reversing_relative", [0, 0]),  # its next place is below
])  # fmt: skip
def test_a_window_without_the_next_place_is_impossible(row, window):
    """Coverings without it had one next token in each context: that after the end of a number."""
    pairs = [{**pair, "window": window} for pair in load_run(row).positions]
    with pytest.raises(ConflictingContexts):
        enumerate_contexts(system_of(row, positions=pairs))


@functools.cache
def trained(row, steps, seed=0):
    run = load_run(row)
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
    assert committed.describe_certificate(certificate).endswith(
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
    text = committed.describe_certificate(certificate)
    assert text.startswith("wrong in ") and " becomes " in text


def test_a_counterexample_is_searched_among_random_problems(monkeypatch):
    """Some contexts belong to no real problem."""
    system = trained(PARITY, 12)
    monkeypatch.setattr(verification, "_get_problem", lambda *arguments: None)
    certificate = certify_model(system, enumerate_contexts(system))
    assert shows_a_fault(system, certificate["counterexample"])


def test_too_many_contexts_are_sampled(monkeypatch):
    monkeypatch.setattr(verification, "SAMPLED_PROBLEMS", 40)
    pair = {"ids": "abacus", "encoding": "relative", "window": [0, 3]}
    system = with_noise(system_of("addition_relative", positions=[pair]))
    enumerated = enumerate_contexts(system)
    assert not enumerated.complete and enumerated.problems == len(sample_problems(system))
    assert certify_model(system, enumerated)["verdict"] == "wrong"


def test_a_sample_is_not_a_proof():
    system = trained(PARITY, 120)
    sample = enumerate_contexts(system)._replace(complete=False)
    certificate = certify_model(system, sample)
    assert certificate["verdict"] == "sampled"
    assert committed.describe_certificate(certificate).startswith("sampled, not proved: correct in")


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
    "sums from the first number on": (
        "multi_operand_addition_relative_scratchpad",
        {"format": {"from_zero": False}},
    ),
    "parities without steps": (PARITY, {"format": {"name": "expression"}}),
    "comparisons without steps": (
        "comparison_relative_scratchpad",
        {"format": {"name": "expression"}, "positions": levels_of((1, 0))},
    ),
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


def test_a_format_of_ones_own_has_no_proof():
    class Mine(Expression):
        """Might write numbers in any way."""

    system = system_of("addition_relative")
    assert next(coverings.generate_covering_problems(system))
    system.format, system.format._task = Mine(), system.task
    with pytest.raises(coverings.TooManyContexts):
        next(coverings.generate_covering_problems(system))


def test_weights_that_are_not_numbers_prove_nothing():
    system = system_of("copying_relative")
    with torch.no_grad():
        next(system.network.parameters()).fill_(torch.nan)
    certificate = certify_model(system, enumerate_contexts(system))
    assert certificate["verdict"] != "exact" and certificate["least_lead"] is None
    json.dumps(certificate, allow_nan=False)


def test_a_lead_below_its_error_is_open_and_the_float32_prediction_counts():
    """Rounding may change a prediction although the target leads in exact arithmetic."""
    lead, error = torch.ones(3, dtype=torch.float64), torch.tensor([0.0, 1.0, 0.0]).double()
    predicted, target = torch.tensor([1, 2, 3]), torch.tensor([1, 2, 4])
    checks = ContextChecks(predicted, target, lead, error, lead - error)
    assert checks.wrong.tolist() == [False, False, True]
    assert checks.open.tolist() == [False, True, False]


def test_no_contexts_prove_nothing():
    system = trained(PARITY, 120)
    enumerated = enumerate_contexts(system)
    with pytest.raises(SettingsError, match="no contexts; expected at least one"):
        certify_model(system, EnumeratedContexts(enumerated.contexts[:0], 0, True))


REFUSED = {
    "a table of ids": (
        {"positions": [{"ids": "abacus", "encoding": "learned", "table": 99}]},
        "positions.0.encoding: Learned has no certificate",
    ),
    "no window": (
        {"positions": [{"ids": "abacus", "encoding": "relative"}]},
        "positions.0.window: none, so contexts are unbounded",
    ),
    "no ids": ({"positions": []}, "positions: none, so contexts are unbounded"),
    "loops": (
        {"model": {"layers": 1, "width": 32, "recurrences": 2, "injection": "every_layer"}},
        "model.recurrences: 2 has no certificate; expected 1",
    ),
    "two layers": ({"model": {"layers": 2}}, "model.layers: 2 has no certificate; expected 1"),
    "another activation": ({"model": {"activation": "gelu"}}, "model.activation: 'gelu' has no"),
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


@pytest.fixture
def in_git(tmp_path, monkeypatch):
    """Return the folder with the weights of two seeds of a row, which have a certificate."""
    system, run = trained(PARITY, 120), trained(PARITY, 120).run
    run = run.model_copy(update={"seeds": 2})
    move_project(monkeypatch, tmp_path)
    monkeypatch.setattr(committed, "load_run", lambda name: run)
    monkeypatch.setattr(committed, "list_rows", lambda: [PARITY])
    for seed in range(2):
        save(system, run, seed)
    committed.renew_certificate(PARITY)
    return paths.models_folder(PARITY)


def save(system, run, seed):
    path = paths.models_folder(PARITY) / f"seed_{seed}.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)
    checkpoint.save_weights(path, system.network.state_dict(), run, seed, 120, "fp32")
    return path


def certificate_file():
    return paths.certificate_file(PARITY)


def test_a_certificate_is_verified_again_on_the_cpu(in_git, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(trained_models, "choose_device", lambda: torch.device("meta"))
    monkeypatch.setattr(paths, "STORE", tmp_path / "empty")
    assert committed.verify_certificates([])
    output = capsys.readouterr().out
    assert f"{PARITY}, seed 1: exact at every length: correct in all 14 contexts" in output


def test_a_certificate_is_kept_until_weights_change(in_git, monkeypatch):
    made = []
    find = jobs.find_contexts_or_conflict
    monkeypatch.setattr(
        jobs, "find_contexts_or_conflict", lambda *given: made.append(1) or find(*given)
    )
    before = files.read_certificate(certificate_file())["seeds"]
    committed.renew_certificate(PARITY)
    assert not made
    system = with_noise(trained_copy(PARITY))
    save(system, system.run, 1)
    committed.renew_certificate(PARITY)
    after = files.read_certificate(certificate_file())["seeds"]
    assert made == [1]
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, False]


def test_a_certificate_is_renewed(in_git):
    path = certificate_file()
    before = path.read_bytes()
    path.unlink()
    assert cli.certify([PARITY]) == 1
    committed.renew_certificate(PARITY)
    assert path.read_bytes() == before
    path.unlink()
    assert cli.certify([PARITY], renew=True) == cli.certify([PARITY]) == 0
    with pytest.raises(SettingsError, match="no row is named; expected ROW"):
        cli.certify([], renew=True)
    with pytest.raises(SettingsError, match="certificates: 'mine' is not certified"):
        committed.renew_certificate("mine")


def refused(capsys):
    """Return the one line that says why the certificate is not valid."""
    assert not committed.verify_certificates([PARITY])
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{PARITY}: ")
    return line


def change_seed(**fields):
    return lambda stored: stored["seeds"][1].update(fields)


TAMPERED = {
    "seeds: 1 entries differ; expected 2": lambda stored: stored["seeds"].pop(),
    'row: "copying_relative" differs': lambda stored: stored.update(row="copying_relative"),
    "'scratchpad' writes steps, and Copying": lambda stored: stored["task"].update(name="copying"),
    "format.reverse_answer: 'maybe'": lambda stored: stored["format"].update(
        reverse_answer="maybe"
    ),
    "damaged ('task')": lambda stored: stored.pop("task"),
    "positions.0.window": lambda stored: stored["positions"][0].update(window=[0, 9]),
    "model.width: 9 differs": lambda stored: stored["model"].update(width=9),
    "parameters: 1 differs": lambda stored: stored.update(parameters=1),
    'note: "more" differs; expected null': lambda stored: stored.update(note="more"),
    "seeds.1.seed: 7 differs; expected 1": change_seed(seed=7),
    'seeds.1.weights: "0" differs': change_seed(weights="0"),
    "seeds.1.contexts: 15 differs; expected 14": change_seed(contexts=15),
    'seeds.1.verdict: "impossible" differs; expected "exact"': change_seed(verdict="impossible"),
    "seeds.1.least_lead: 100.0 differs": change_seed(least_lead=100.0),
    "seeds.1.largest_error: null differs": change_seed(largest_error=None),
    "seeds.1.verdict: null differs": lambda stored: stored["seeds"].__setitem__(
        1, {field: stored["seeds"][1][field] for field in ("seed", "weights")}
    ),
}


def test_any_change_of_a_certificate_is_refused_in_one_line(in_git, capsys):
    """With a valid hash, so that the content itself is compared."""
    path = certificate_file()
    original = files.read_certificate(path)
    for message, change in TAMPERED.items():
        stored = json.loads(json.dumps(original))
        change(stored)
        files.write_certificate(path, stored)
        line = refused(capsys)
        assert message in line and len(line) < 500, message
    assert f"{PARITY}: reports/certificates/{PARITY}.json.seeds.1" in line


def test_code_scale_defaults_and_small_differences_are_not_compared(in_git):
    path = certificate_file()
    stored = files.read_certificate(path)
    stored["positions"][0].pop("level")  # the first is the default
    stored |= {"code_sha256": "0", "settings_sha256": "0", "scale": "gpu"}
    stored["seeds"][0]["least_lead"] *= 1.01  # another machine
    files.write_certificate(path, {**stored, "model": {**stored["model"], "norm": "layer"}})
    assert committed.verify_certificates([PARITY])


def test_a_certificate_is_exported_with_its_contexts(in_git, tmp_path, capsys):
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


def test_an_export_of_another_certificate_is_refused(in_git, tmp_path):
    path = certificate_file()
    original = files.read_certificate(path)
    messages = {"weights": "none has seed 0 and the weights", "contexts_sha256": "'0' differs"}
    for field, message in messages.items():
        stored = json.loads(json.dumps(original))
        stored["seeds"][0][field] = stored["seeds"][1][field] = "0"
        files.write_certificate(path, stored)
        with pytest.raises(SettingsError, match=message):
            committed.export_tables(PARITY, 0, tmp_path / "to")
    with pytest.raises(SettingsError, match="seed: 2 has no certificate; expected 0 to 1"):
        committed.export_tables(PARITY, 2, tmp_path / "to")
    with pytest.raises(SettingsError, match="'mine' is not certified"):
        committed.export_tables("mine", 0, tmp_path / "to")
    assert not (tmp_path / "to").exists()


def test_a_damaged_certificate_is_refused_in_one_line(in_git, capsys):
    path = certificate_file()
    for version in (None, 1, 3, "2"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "version": version}))
        assert f".version: {json.dumps(version)} is not read; expected 2" in refused(capsys)
    changed = path.read_bytes().replace(b"exact", b"wrong")
    for damaged in (changed, b"", b"{", b"[]", b"{}", b"\xff\xfe\x00", b'{"seeds": []}', b"null"):
        path.write_bytes(damaged)
        assert f"{PARITY}.json" in refused(capsys)


def test_all_certified_rows_need_a_certificate(in_git, capsys):
    path = certificate_file()
    unused = path.with_name("mine.json")
    unused.write_bytes(path.read_bytes())
    assert not committed.verify_certificates([])
    assert "mine: it has a certificate, and no experiment certifies it" in capsys.readouterr().out
    unused.unlink()
    path.unlink()
    assert f"{PARITY}.json: missing; expected" in refused(capsys)
    assert not committed.verify_certificates(["mine"])
    assert "mine: certificates: 'mine' is not certified" in capsys.readouterr().out


def test_a_certificate_without_weights_is_refused(in_git, capsys):
    (in_git / "seed_1.safetensors").unlink()
    assert "seed_1.safetensors is missing" in refused(capsys)
