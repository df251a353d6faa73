"""Attention logits times a factor: one function by every path, in training and in evaluation."""

import pytest
import torch

import slow
from carry.models.attention import AttentionContext
from carry.models.cache import Cache
from carry.models.hooks import Hooks
from carry.models.system import System
from carry.randomness import stream
from carry.training.loop import Trainer
from model_cases import run_of, written
from test_encodings import WINDOWS, as_if_trained

PATHS = [
    *((positions, "plain") for positions in ("nope", "abacus_fire", "abacus_shaw", *WINDOWS)),
    *((positions, "fused") for positions in ("abacus_rope", "t5", "levels_window")),
    *((positions, "gathered") for positions in WINDOWS),
]


def sharpened(positions, sharpness=1.5, model="standard", **changes):
    """Return a system in evaluation mode whose attention logits grow with the number of keys."""
    run = run_of(positions, model, "steps" if "levels" in positions else "reversed")
    changes = {"model": {**run.model, "attention_scale": "log", **changes}}
    changes["evaluation"] = run.evaluation.model_copy(update={"sharpness": sharpness})
    system = System(run.model_copy(update=changes))
    system.network.eval()
    return system


@pytest.mark.parametrize(("positions", "attention"), PATHS)
@torch.no_grad()
def test_every_path_is_the_formula(positions, attention):
    """In one pass, at some tokens, with hooks and with a cache; in float64."""
    system = sharpened(positions, attention=attention)
    network, batch = as_if_trained(system), written(system, 2)
    ids, at = system.ids(batch), batch.response()[0]
    logits, close = network(batch.tokens, ids), {"rtol": 1e-9, "atol": 1e-9}
    turned = "RoPE" in {type(of).__name__ for of in network.encodings}  # by angles in fp32
    rough = {"rtol": 1e-4, "atol": 1e-5} if turned else close
    for row, length in enumerate(batch.length.tolist()):
        own = [of[row % len(of), :length].tolist() for of in ids]
        expected = slow.logits(network, batch.tokens[row, :length].tolist(), own)
        torch.testing.assert_close(logits[row, :length], expected, **rough)
    some = logits.gather(1, at[..., None].expand(-1, -1, logits.shape[2]))
    torch.testing.assert_close(network(batch.tokens, ids, at), some, **close)
    torch.testing.assert_close(network(batch.tokens, ids, hooks=Hooks()), logits, **close)
    cache, parts = Cache(), batch.tokens.split([3, 1, 2, batch.tokens.shape[1] - 6], dim=1)
    decoded = [network(part, ids, None, None, cache) for part in parts]
    torch.testing.assert_close(torch.cat(decoded, dim=1), logits, **close)


@pytest.mark.parametrize("positions", WINDOWS)
def test_pairs_and_neighbours_count_the_same_keys(positions):
    system = sharpened(positions)
    batch = written(system)
    index = torch.arange(batch.tokens.shape[1])[None]
    context = AttentionContext(
        system.network.position_encodings(), index, system.ids(batch), index.shape[1]
    )
    by_pairs, by_neighbours = context.logit_factor(), context.logit_factor(dense=False)
    assert torch.equal(*torch.broadcast_tensors(by_pairs, by_neighbours))
    assert len(by_pairs.unique()) > 2 and (by_pairs[:, 0] == 1.5 / 6).all()


@pytest.mark.parametrize("attention", ["plain", "fused", "gathered"])
def test_the_only_key_has_all_attention(attention):
    """The first token sees itself alone: no factor changes its logits, and none is undefined."""
    system = sharpened("abacus_window_alone", attention=attention)
    batch = written(system)
    logits = system.logits(batch, system.ids(batch))
    system.network.sharpness = 90.0
    sharper = system.logits(batch, system.ids(batch))
    torch.testing.assert_close(sharper[:, 0], logits[:, 0])
    assert sharper.isfinite().all() and not torch.allclose(sharper, logits, atol=1e-3)


def test_sharpness_moves_attention_to_the_largest_logit():
    system = sharpened("abacus_fire")
    batch, hooks = written(system), Hooks(["*.pattern"])
    largest = []
    for sharpness in (0.01, 1.0, 100.0):
        system.network.sharpness = sharpness
        system.network(batch.tokens, system.ids(batch), hooks=hooks)
        largest.append(hooks["0.pattern"].amax(-1).mean())
    assert largest[0] < largest[1] < largest[2] and largest[2] > 0.9


@pytest.mark.parametrize("model", ["standard", "looped"])
def test_training_does_not_know_the_sharpness(model):
    """Neither its weights nor its held-out scores, which may stop it; the trained model does."""
    run, trained = run_of("abacus_fire", model), []
    for sharpness in (1.0, 5.0):
        evaluation = run.evaluation.model_copy(update={"sharpness": sharpness})
        run = run.model_copy(update={"evaluation": evaluation})
        trained.append(Trainer(run, 0, None).train())
    one, other = trained
    assert one.curve == other.curve and one.run.key() == other.run.key()
    for name, weights in one.system.network.state_dict().items():
        assert torch.equal(weights, other.system.network.state_dict()[name])
    batch = written(one.system)
    logits = [of.system.logits(batch, of.system.ids(batch)) for of in trained]
    assert torch.equal(*logits)  # both are in training mode
    for of in trained:
        of.system.network.eval()
    logits = [of.system.logits(batch, of.system.ids(batch)) for of in trained]
    assert not torch.allclose(*logits, atol=1e-4)


@pytest.mark.parametrize(("positions", "attention"), [
    ("abacus_fire", "plain"), ("abacus_fire", "fused"), ("levels_window", "gathered"),
])  # fmt: skip
def test_half_precision_gives_similar_logits_and_gradients(positions, attention):
    system = sharpened(positions, 1.0, "looped", attention=attention)
    batch = written(system)
    ids = system.train_ids(batch, stream(0, "ids"))
    whole = system.logits(batch, ids)
    with torch.autocast("cpu", torch.bfloat16):
        half = system.logits(batch, ids)
    torch.testing.assert_close(half.float(), whole, rtol=0.1, atol=0.1)
    half.float().square().mean().backward()
    assert all(of.grad.isfinite().all() for of in system.network.parameters())
