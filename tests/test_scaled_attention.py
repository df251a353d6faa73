"""Attention logits that grow with the number of keys: one function by every path."""

import pytest
import torch

import slow
from carry.models.attention import AttentionContext
from carry.models.cache import Cache
from carry.models.hooks import Hooks
from carry.models.system import System
from carry.randomness import stream
from model_cases import run_of, written
from test_encodings import WINDOWS, as_if_trained

PATHS = [
    *((positions, "plain") for positions in ("nope", "abacus_fire", "abacus_shaw", *WINDOWS)),
    *((positions, "fused") for positions in ("abacus_rope", "t5", "levels_window")),
    *((positions, "gathered") for positions in WINDOWS),
]


def scaled(positions, model="standard", **changes):
    """Return a system whose attention logits grow with the number of keys."""
    run = run_of(positions, model, "steps" if "levels" in positions else "reversed")
    changes = {**run.model, "attention_scale": "log", **changes}
    return System(run.model_copy(update={"model": changes}))


@pytest.mark.parametrize(("positions", "attention"), PATHS)
@torch.no_grad()
def test_every_path_is_the_formula(positions, attention):
    """In one pass, at some tokens, with hooks and with a cache; in float64."""
    system = scaled(positions, attention=attention)
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
    system = scaled(positions)
    batch = written(system)
    index = torch.arange(batch.tokens.shape[1])[None]
    context = AttentionContext(
        system.network.encodings, index, system.ids(batch), index.shape[1], log_scale=True
    )
    by_pairs, by_neighbours = context.logit_factor(), context.logit_factor(dense=False)
    assert torch.equal(*torch.broadcast_tensors(by_pairs, by_neighbours))
    assert len(by_pairs.unique()) > 2 and ((by_pairs[:, 0] - 1 / 6).abs() < 1e-9).all()


@pytest.mark.parametrize(("positions", "attention"), [
    ("abacus_fire", "plain"), ("abacus_fire", "fused"), ("levels_window", "gathered"),
    ("alibi", "fused"), ("t5", "plain"), ("randomized_shaw", "fused"),
])  # fmt: skip
def test_half_precision_gives_similar_logits_and_finite_gradients(positions, attention):
    system = scaled(positions, "looped", attention=attention)
    batch = written(system)
    ids = system.train_ids(batch, stream(0, "ids"))
    whole = system.logits(batch, ids)
    with torch.autocast("cpu", torch.bfloat16):
        half = system.logits(batch, ids)
    torch.testing.assert_close(half.float(), whole, rtol=0.1, atol=0.1)
    half.float().square().mean().backward()
    assert all(weights.grad.isfinite().all() for weights in system.network.parameters())
