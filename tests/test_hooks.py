"""Hooks: every activation of every architecture is read unchanged, and can be replaced."""

import pytest
import torch

from carry.config.settings import SettingsError
from carry.models.architectures.adaptive import Adaptive
from carry.models.cache import Cache
from carry.models.hooks import Hooks
from carry.models.system import System
from carry.randomness import stream
from model_cases import FEW_CASES, run_of


@pytest.fixture(params=FEW_CASES, ids="-".join)
def system(request):
    return System(run_of(*request.param))


def written(system, count=6, digits=4):
    problems = system.task.draw(count, digits, stream(0, "inside"))
    return system.format.write(problems)


@torch.no_grad()
def passed(system, batch, *given, **more):
    """Return the logits of a pass, and what was read."""
    hooks = Hooks(*given, **more)
    return system.network(batch.tokens, system.ids(batch), hooks=hooks), hooks


def test_all_names_are_read_in_order_and_in_shape(system):
    batch, given = written(system), system.network.settings
    logits, hooks = passed(system, batch)
    assert list(hooks) == system.network.activation_names()
    torch.testing.assert_close(
        logits, system.logits(batch, system.ids(batch)), rtol=1e-4, atol=1e-5
    )
    assert torch.equal(hooks["logits"], logits)
    (count, width), features = batch.tokens.shape, given.width
    head = given.head_width or features // given.heads
    by_head = (count, given.heads, width, head)
    shapes = {"q": by_head, "k": by_head, "v": by_head, "z": by_head,
              "pattern": (count, given.heads, width, width),
              "mlp_post": (count, width, given.hidden or 4 * features)}  # fmt: skip
    for name, value in hooks.items():
        part = name.rpartition(".")[2]
        expected = logits.shape if name == "logits" else (count, width, features)
        assert value.shape == shapes.get(part, expected), name


def test_the_residual_stream_goes_from_layer_to_layer(system):
    """It begins as the embedding, is handed on (with what is injected), and ends in the logits."""
    network, batch = system.network, written(system)
    logits, hooks = passed(system, batch)
    given, ids = network.settings, system.ids(batch)
    embedded = network.tokens(batch.tokens)
    for encoding, of in zip(network.encodings, ids, strict=True):
        felt = encoding.embed(of)
        embedded = embedded if felt is None else embedded + felt
    embedded = network.embedding_norm(embedded)
    torch.testing.assert_close(hooks["embed"], embedded)
    torch.testing.assert_close(hooks["0.resid_pre"], embedded)
    steps = given.layers * given.recurrences
    for step in range(1, steps):
        before, entrance = hooks[f"{step - 1}.resid_post"], step % given.layers == 0
        injects = given.injection == "every_layer" or (given.injection == "entrance" and entrance)
        torch.testing.assert_close(
            hooks[f"{step}.resid_pre"], before + embedded if injects else before
        )
    if isinstance(network, Adaptive):  # whose logits are read off a sum of streams
        return
    last = hooks[f"{steps - 1}.resid_post"]
    assert torch.equal(network.read_logits(last), logits)
    final = network.logit_scale * network.read_out(network.final_norm(last))
    torch.testing.assert_close(final, hooks["final"])


def test_replacing_activations_by_themselves_changes_nothing(system):
    batch = written(system)
    logits, whole = passed(system, batch)
    again, _ = passed(system, batch, replace=dict(whole))
    assert torch.equal(again, logits)


def test_every_replacement_changes_later_logits_and_no_earlier_ones(system):
    """Each activation in turn, at one token: later logits move, and none before it does."""
    batch = written(system)
    logits, whole = passed(system, batch)
    at = int(batch.start[0]) - 1
    for name, value in whole.items():
        by_head = value.ndim == 4
        if name.endswith("pattern"):  # all looks at the first token instead
            moved = value.clone()
            moved[:, :, at] = 0
            moved[:, :, at, 0] = 1
        else:
            moved = value.clone()
            some = moved[:, :, at] if by_head else moved[:, at]
            some += torch.randn(some.shape, generator=stream(0, "noise", name))
        new, _ = passed(system, batch, replace={name: moved})
        assert torch.equal(new[:, :at], logits[:, :at]), name
        # After all tokens have halted, later activations change nothing.
        if not isinstance(system.network, Adaptive) or name.startswith(("embed", "0.")):
            assert not torch.allclose(new[:, at:], logits[:, at:], atol=1e-6), name


def test_activations_of_a_layer_follow_its_formulas():
    """Of a bare layer, whose residual stream is a plain sum: each step by its own formula."""
    system = System(run_of("levels", "bare", "steps"))
    network, batch = system.network.double(), written(system)
    logits, hooks = passed(system, batch)
    for layer, block in enumerate(network.blocks):
        of = {part: hooks[f"{layer}.{part}"] for part in names_parts(layer, hooks)}
        value = block.key_value(of["resid_pre"]).chunk(2, dim=-1)[1].unflatten(2, (2, -1))
        torch.testing.assert_close(of["v"], value.transpose(1, 2))
        scores = of["q"] @ of["k"].mT / of["q"].shape[-1] ** 0.5
        causal = torch.ones(scores.shape[-2:]).triu(1).bool()
        torch.testing.assert_close(of["pattern"], scores.masked_fill(causal, -1e9).softmax(-1))
        torch.testing.assert_close(of["z"], of["pattern"] @ of["v"])
        torch.testing.assert_close(of["attn_out"], block.output(of["z"].transpose(1, 2).flatten(2)))
        torch.testing.assert_close(of["resid_mid"], of["resid_pre"] + of["attn_out"])
        torch.testing.assert_close(of["mlp_post"], block.feed_forward.up(of["resid_mid"]).relu())
        torch.testing.assert_close(of["mlp_out"], block.feed_forward.down(of["mlp_post"]))
        torch.testing.assert_close(of["resid_post"], of["resid_mid"] + of["mlp_out"])
    torch.testing.assert_close(network.logits(hooks["1.resid_post"]), logits)


def names_parts(layer, hooks):
    return [name.partition(".")[2] for name in hooks if name.startswith(f"{layer}.")]


def test_hooks_at_some_tokens():
    """The last layer is worked out for these alone, and so is what is seen of it."""
    system, some, whole = System(run_of("abacus_fire", "standard")), Hooks(), Hooks()
    batch = written(system)
    ids, at = system.ids(batch), batch.response()[0]
    with torch.no_grad():
        system.network(batch.tokens, ids, at, hooks=some)
        system.network(batch.tokens, ids, hooks=whole)
    torch.testing.assert_close(some["0.pattern"], whole["0.pattern"])
    rows = at[:, None, :, None].expand(-1, 2, -1, batch.tokens.shape[1])
    torch.testing.assert_close(some["1.pattern"], whole["1.pattern"].gather(2, rows))
    picked = whole["1.resid_post"].gather(1, at[:, :, None].expand(-1, -1, 32))
    torch.testing.assert_close(some["1.resid_post"], picked, rtol=1e-4, atol=1e-5)


def test_hooks_in_decoding():
    """With a cache each step shows its own tokens; together they are those of one pass."""
    system, cache = System(run_of("abacus_fire", "looped")), Cache()
    batch = written(system)
    ids, seen = system.ids(batch), []
    with torch.no_grad():
        for token in range(batch.tokens.shape[1]):
            step = Hooks(["*.z"])
            system.network(batch.tokens[:, token : token + 1], ids, cache=cache, hooks=step)
            seen.append(step)
    _, whole = passed(system, batch, ["*.z"])
    for name in whole:
        steps = torch.cat([step[name] for step in seen], dim=2)
        torch.testing.assert_close(steps, whole[name], rtol=1e-4, atol=1e-5)


def test_only_requested_activations_are_kept():
    system = System(run_of("abacus", "looped"))
    _, hooks = passed(system, written(system), ["*.resid_post", "0.pattern"])
    assert list(hooks) == ["0.pattern", *(f"{step}.resid_post" for step in range(6))]
    with pytest.raises(SettingsError, match=r"^activation: '1.pattern' was not read, did you mean"):
        hooks["1.pattern"]


@pytest.mark.parametrize(("given", "message"), [
    ({"read": ["0.patern"]}, r"^read: '0.patern' is no activation, did you mean '0.pattern'\?"),
    ({"read": ["7.pattern"]}, r"^read: '7.pattern' is no activation, did you mean '\d.pattern'\?"),
    ({"replace": {"0.mlp": torch.zeros(1)}}, r"^replace: '0.mlp' is no activation, did you mean"),
    ({"replace": {"*.z": torch.zeros_like}}, r"^replace: '\*.z' is no activation, did you mean"),
    ({"replace": {"1.z": torch.zeros(2, 3)}},
     r"^replace.1.z: shape \(2, 3\) does not fit, expected \(6, 2, \d+, 16\)$"),
    ({"replace": {"1.z": lambda z: z[:1]}},
     r"^replace.1.z: shape \(1, 2, \d+, 16\) does not fit, expected \(6, 2, \d+, 16\)$"),
])  # fmt: skip
def test_unknown_names_and_other_shapes_are_refused(given, message):
    system = System(run_of("abacus", "standard"))
    with pytest.raises(SettingsError, match=message):
        passed(system, written(system), **given)
