"""The contract of an architecture, for every file in the package and for CONTRIBUTING's GRU.

`make test` runs these tests with shapes and types checked at run time (see conftest.py).
"""

import gc
import importlib
import sys
import weakref
from pathlib import Path

import pytest
import torch

from carry.config.settings import SettingsError, list_modules
from carry.data.problem_sets import ProblemSet, draw_problem_set
from carry.evaluation.decoding import decode_greedily
from carry.evaluation.recurrences import score_by_recurrence
from carry.evaluation.scoring import score_system
from carry.experiments.resolve import make_run
from carry.interpretability.attention import describe_batch
from carry.interpretability.lens import apply_logit_lens
from carry.models import architectures, attention
from carry.models.cache import Cache
from carry.models.hooks import Hooks
from carry.models.system import System
from carry.models.teacher_forcing import teacher_forced_pass
from carry.randomness import stream
from carry.training.batched.network import BatchedNetwork
from carry.training.loop import Trainer
from test_recipes import EXTENSIONS, RECIPE

pytestmark = pytest.mark.contract

GRU = dict(RECIPE.findall(EXTENSIONS))["lib/carry/models/architectures/recurrent.py"]
NAMES = sorted({*list_modules("carry.models.architectures"), "recurrent"})
SIZES = {"layers": 2, "width": 16, "heads": 2, "recurrences": 3, "halting_bias": -0.5}
POSITIONS = {
    "learned": [{"ids": "index", "encoding": "learned", "table": 100}],
    "scratchpad": [
        {"ids": "coupled", "level": 1, "encoding": "sinusoidal"},
        {"ids": "coupled", "level": 2, "encoding": "learned", "limit": 40},
    ],
}


@pytest.fixture(autouse=True)
def extra_architecture(tmp_path, monkeypatch):
    """Let the package have the file of the recipe too, as if it were one of its own."""
    (tmp_path / "recurrent.py").write_text(GRU, encoding="utf-8")
    folders = [str(Path(architectures.__file__).parent), str(tmp_path)]
    monkeypatch.setattr(architectures, "__path__", folders)
    importlib.invalidate_caches()
    yield
    sys.modules.pop("carry.models.architectures.recurrent", None)


def run_of(name, positions="learned", **training):
    kind, _ = architectures.choose_architecture({"name": name})
    sizes = {key: value for key, value in SIZES.items() if key in kind.Settings.model_fields}
    steps = positions == "scratchpad"
    return make_run(
        {
            "task": {"name": "multi_operand_addition" if steps else "addition"},
            "format": {"name": "scratchpad"} if steps else {},
            "positions": POSITIONS[positions],
            "model": {"name": name, **sizes},
            "training": {"digits": 2, "steps": 20, "batch": 16, "score_every": 20, **training},
            "evaluation": {"digits": 4},
        }
    )


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


@pytest.fixture(params=POSITIONS)
def system(request, name):
    return System(run_of(name, request.param))


def written(system, count=6):
    return system.format.write(system.task.draw(count, 2, stream(0, "contract")))


def refused(call, *args):
    """Return the refusal of a call in one line, or None if it works."""
    try:
        call(*args)
    except SettingsError as error:
        assert "expected" in str(error) and len(str(error)) < 500 and "\n" not in str(error)
        return str(error)
    return None


def test_decoding_agrees_with_one_pass(system):
    """Up to the first error, and in the response that the model itself writes."""
    problems = system.task.draw(12, 2, stream(0, "contract"))
    problems = problems[(problems.lengths == problems.lengths[:1]).all(1)]
    batch, decoded = system.format.write(problems), decode_greedily(system, problems)
    ids = system.ids(system.format.write_open_ended(problems))
    seen = teacher_forced_pass(system, batch, ids_by_start=[ids])
    for row, first in enumerate(seen.first_wrong.tolist()):
        length = int(seen.real[row].sum()) if first < 0 else first + 1
        assert decoded[row, :length].tolist() == seen.predicted[row, :length].tolist()


def test_logits_in_decoding_are_those_of_one_pass(system):
    """In steps of several tokens and of one, and after other sequences have ended."""
    batch, cache, kept = written(system), Cache(), torch.tensor([0, 2, 3])
    ids, tokens, start = system.ids(batch), batch.tokens, 0
    with torch.inference_mode():
        logits = system.network.eval()(tokens, ids)
        for step, end in enumerate([3, 4, 6, tokens.shape[1]]):
            if step == 2:
                cache.keep_rows(kept)
                tokens, logits = tokens[kept], logits[kept]
                ids = [own if len(own) == 1 else own[kept] for own in ids]
            new = system.network.next_logits(tokens[:, start:end], ids, None, cache)
            torch.testing.assert_close(new, logits[:, end - 1], rtol=1e-4, atol=1e-5)
            start = end


def test_logits_at_some_tokens_and_no_later_token(system):
    batch, network = written(system), system.network
    at, embedded = batch.response()[0], []
    handle = network.tokens.register_forward_hook(
        lambda *args: embedded.append(args[2].requires_grad_())
    )
    logits = network(batch.tokens, system.ids(batch))
    handle.remove()
    some = network(batch.tokens, system.ids(batch), at)
    expected = logits.gather(1, at[..., None].expand(-1, -1, logits.shape[2]))
    torch.testing.assert_close(some, expected, rtol=1e-4, atol=1e-5)
    (gradient,) = torch.autograd.grad(logits[:, 4].square().sum(), embedded[0])
    assert not gradient[:, 5:].any() and (gradient[:, :5].abs().sum((0, 2)) > 0).all()


def test_hooks_read_all_names_or_are_refused(system):
    batch, hooks = written(system), Hooks()
    reason = refused(lambda: system.network(batch.tokens, system.ids(batch), hooks=hooks))
    if reason is None:
        assert list(hooks) == system.network.activation_names()
    else:
        assert reason == refused(system.network.activation_names)
        assert reason == refused(apply_logit_lens, system, system.task.draw(2, 2, stream(0, "x")))


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_training_and_evaluation(name, optimizer):
    run = run_of(name, optimizer=optimizer, score_every=10)
    trainer = Trainer(run, 0, None).train()
    assert trainer.step == 20 and trainer.curve[-1]["loss"] < trainer.curve[0]["loss"] < 4
    settings = {"task": run.task, "grid": 3, "equal": 4}
    table = draw_problem_set("mine", ProblemSet.parse(settings, "problems.mine"))
    cells, places, _ = score_system(trainer.system, table)
    assert cells["n"].sum() == len(table) and len(places)
    counts, _ = score_by_recurrence(trainer.system, table)
    assert counts.empty == (trainer.system.network.recurrences == 1)


def test_a_certificate_is_given_or_refused(name):
    from carry.certificates.contexts import require_bounded_contexts

    system = System(run_of(name))
    assert refused(require_bounded_contexts, system).startswith("runs.mine.")


def test_tools_for_transformers_refuse_a_recurrent_network_in_one_line():
    system = System(run_of("recurrent"))
    assert refused(describe_batch, system, written(system))
    assert refused(BatchedNetwork, [system])


@pytest.mark.parametrize("gathered", [False, True])
def test_attention_contexts_are_freed_after_the_pass(gathered, monkeypatch):
    """Without the garbage collector: a reference cycle would keep their tensors alive."""
    system = System(
        make_run(
            {
                "task": {"name": "addition"},
                "positions": [{"ids": "abacus", "encoding": "relative", "window": 1}],
                "model": {"layers": 2, "recurrences": 2, "attention": "auto"},
            }
        )
    )
    contexts, batch, init = [], written(system), attention.AttentionContext.__init__
    monkeypatch.setattr(attention, "GATHER_FROM_LENGTH", 1 if gathered else 1000)
    monkeypatch.setattr(
        attention.AttentionContext,
        "__init__",
        lambda self, *args, **options: (
            contexts.append(weakref.ref(self)) or init(self, *args, **options)
        ),
    )
    gc.disable()
    try:
        system.logits(batch, system.ids(batch), batch.response()[0]).sum().backward()
        decode_greedily(system, system.task.draw(3, 2, stream(0, "contract")))
        assert len(contexts) > 3 and all(context() is None for context in contexts)
    finally:
        gc.enable()
