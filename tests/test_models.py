"""Every encoding and architecture: causal, the same in parts, and open to a look inside."""

import math
from functools import partial

import pytest
import torch
from torch import nn

from carry.experiments.resolve import list_rows, load_run
from carry.models.architectures.transformer import Transformer
from carry.models.encodings import IdRange
from carry.models.encodings.learned import Learned
from carry.models.hooks import Dropout, Hooks
from carry.models.parameter_counts import count_network_parameters
from carry.models.system import System
from carry.randomness import stream
from model_cases import CASES, run_of, written

# With the norms N and M before and behind attention or a feed-forward network f.
NORM_PLACES = {
    "pre": lambda x, f, N, M: x + f(N(x)),
    "post": lambda x, f, N, M: M(x + f(x)),
    "pre_and_post": lambda x, f, N, M: M(x + f(N(x))),  # cho2025
    "pre_and_branch": lambda x, f, N, M: x + M(f(N(x))),
}


@pytest.fixture(params=CASES, ids="-".join)
def system(request):
    return System(run_of(*request.param))


def test_some_tokens_alone_and_no_later_token(system):
    """The last layer where it is wanted gives the same logits, which depend on no later token."""
    batch, network, embedded = written(system), system.network, []
    at, _, real = batch.response()
    hook = network.tokens.register_forward_hook(lambda *a: embedded.append(a[2].requires_grad_()))
    whole = network(batch.tokens, system.ids(batch))
    hook.remove()
    some = system.logits(batch, system.ids(batch), at)
    expected = whole.gather(1, at[..., None].expand(-1, -1, whole.shape[2]))
    torch.testing.assert_close(some[real], expected[real], rtol=1e-4, atol=1e-5)
    middle = batch.tokens.shape[1] // 2
    (gradient,) = torch.autograd.grad(whole[:, middle].square().sum(), embedded[0])
    assert not gradient[:, middle + 1 :].any() and gradient[:, : middle + 1].any()


def test_padding_changes_nothing(system):
    if "Randomized" in {type(scheme).__name__ for scheme in system.schemes}:
        pytest.skip("a subset is drawn for the whole sequence")
    batch = written(system, 6)
    together = system.logits(batch, system.ids(batch))
    for row in range(6):
        alone = batch[row : row + 1].trim()
        logits = system.logits(alone, system.ids(alone))
        length = int(batch.length[row])
        torch.testing.assert_close(logits[0], together[row, :length], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("row", list_rows(scale="smoke"))
def test_a_model_on_meta_has_every_shape_and_no_number(row):
    run = load_run(row, "smoke")
    shapes, made = (System(run, device=device).network.state_dict() for device in ("meta", "cpu"))
    assert all(tensor.is_meta for tensor in shapes.values())
    assert {name: tensor.shape for name, tensor in shapes.items()} == {
        name: tensor.shape for name, tensor in made.items()
    }


def test_evaluation_is_deterministic_and_weights_depend_on_the_seed_alone():
    run = run_of("abacus_fire", "looped")
    first, again, other = System(run, 0), System(run, 0), System(run, 1)
    batch = written(first)
    ids = first.ids(batch)
    assert torch.equal(first.logits(batch, ids), again.logits(batch, ids))
    assert not torch.equal(first.logits(batch, ids), other.logits(batch, ids))


def test_every_parameter_gets_a_gradient(system):
    batch = written(system, 32)
    logits = system.logits(batch, system.train_ids(batch, stream(0, "ids")))
    logits.log_softmax(-1)[..., 3].mean().backward()
    for name, parameter in system.network.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
        silent = parameter.grad.abs().sum() == 0
        assert not silent or "threshold" in name, name  # max() picks one side at a time


@pytest.mark.parametrize("model", ["looped", "looped_entrance", "divided", "adaptive", "standard"])
@pytest.mark.parametrize("everywhere", [True, False])
def test_logits_after_each_recurrence_are_those_of_a_model_that_ends_there(model, everywhere):
    system = System(run_of("abacus_fire", model))
    batch = written(system)
    ids, at = system.ids(batch), None if everywhere else batch.response()[0]
    each = system.network.each_recurrence(batch.tokens, ids, at, 5)
    with torch.no_grad():
        for index, logits in enumerate(each):
            alone = system.logits(batch, ids, at, index + 1)
            torch.testing.assert_close(logits, alone, rtol=1e-4, atol=1e-5)
        assert torch.equal(each[-1], alone) and len(each) == 5
        assert not torch.equal(each[0], each[1])
        trained = system.network.each_recurrence(batch.tokens, ids, at)
        assert len(trained) == system.network.settings.recurrences
    if not everywhere:  # one row of tokens for all sequences
        shared = system.network.each_recurrence(batch.tokens, ids, at[:1], 2)
        expected = system.network.each_recurrence(batch.tokens, ids, at[:1].expand(len(at), -1), 2)
        torch.testing.assert_close(shared, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model", ["looped", "looped_entrance", "adaptive"])
@pytest.mark.parametrize("positions", ["abacus_fire", "coupled_window", "abacus_shaw"])
@pytest.mark.parametrize("recurrences", [1, 3, 4])
def test_a_divided_gradient_is_that_of_the_layers_alone(model, positions, recurrences):
    run = run_of(positions, model, "padded")
    divided = run.model_copy(update={"model": {**run.model, "divide_gradient": True}})
    plain, other = System(run), System(divided)
    for of in (plain, other):
        of.network.double()
    batch = written(plain, 32)
    logits = [of.logits(batch, of.ids(batch), None, recurrences) for of in (plain, other)]
    assert torch.equal(*logits)
    for each in logits:
        each.square().mean().backward()
    theirs = dict(other.network.named_parameters())
    for name, parameter in plain.network.named_parameters():
        by = recurrences if name.startswith("blocks.") else 1
        if parameter.grad is None:  # after one recurrence all halt, whatever the chances
            assert name.startswith("halting") and recurrences == 1
            continue
        torch.testing.assert_close(theirs[name].grad * by, parameter.grad, rtol=1e-9, atol=1e-12)


def test_a_read_out_has_no_residual_and_its_weights_are_not_made_smaller():
    network = System(run_of("abacus", "read_out", "padded")).network
    read_out, x = network.read_out, torch.randn(4, 32, generator=torch.Generator().manual_seed(0))
    gate, value = (x @ read_out.feed_forward.up.weight.T).chunk(2, dim=1)
    inner = torch.nn.functional.gelu(gate) * value @ read_out.feed_forward.down.weight.T
    normed = (inner - inner.mean(1, keepdim=True)) / inner.std(1, correction=0, keepdim=True)
    expected = normed @ read_out.square.weight.T
    torch.testing.assert_close(read_out(x), expected, rtol=1e-3, atol=1e-3)
    maps = [of.feed_forward.down.weight.detach() for of in (read_out, network.blocks[0])]
    down, smaller = (weights.std() for weights in maps)
    assert float(down / smaller) == pytest.approx(2.0, rel=0.1)  # sqrt(2 x 2 layers)


@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("place", NORM_PLACES)
@torch.no_grad()
def test_norms_stand_where_their_formula_has_them(place, norm):
    run = run_of("abacus")
    model = {**run.model, "norm": norm, "norm_place": place, "biases": False}
    system = System(run.model_copy(update={"model": model}))
    network, batch, hooks = system.network.double(), written(system), Hooks()
    for weights in network.parameters():
        weights += 0.3 * torch.randn(weights.shape, generator=stream(0, "norms", *weights.shape))
    network(batch.tokens, system.ids(batch), hooks=hooks)
    for layer, block in enumerate(network.blocks):
        of = {part: hooks[f"{layer}.{part}"] for part in ("resid_pre", "resid_mid", "resid_post")}

        def normed(part, norms, x):
            if norm == "rms":
                return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * norms[part].weight
            x = (x - x.mean(-1, keepdim=True)) / (x.var(-1, False, keepdim=True) + 1e-5).sqrt()
            return x * norms[part].weight + norms[part].bias

        def feed_forward(x, layer=block.feed_forward):
            return (x @ layer.up.weight.T).relu() @ layer.down.weight.T

        def attend(x, layer=layer, block=block):
            queries = (x @ block.query.weight.T).unflatten(2, (2, -1)).transpose(1, 2)
            torch.testing.assert_close(hooks[f"{layer}.q"], queries, rtol=1e-9, atol=1e-9)
            return hooks[f"{layer}.attn_out"]

        for part, (f, begin, end) in enumerate(
            [(attend, "resid_pre", "resid_mid"), (feed_forward, "resid_mid", "resid_post")]
        ):
            first, second = (partial(normed, part, of) for of in (block.before, block.after))
            expected = NORM_PLACES[place](of[begin], f, first, second)
            torch.testing.assert_close(of[end], expected, rtol=1e-9, atol=1e-9)
    assert (place == "post") == isinstance(network.final_norm, torch.nn.Identity)


def first_network(**model):
    run = run_of("abacus")
    return System(run.model_copy(update={"model": {"layers": 1, "width": 256, **model}})).network


def test_deepnorm_makes_the_read_out_smaller_too():
    """mcleish2024, released code: one gain for all linear maps but queries and keys."""
    network = first_network(initialisation="deepnorm", read_out=True, layers=4, recurrences=4)
    maps = [network.read_out.feed_forward.up, network.read_out.feed_forward.down]
    for linear in (*maps, network.read_out.square, network.logits, network.blocks[3].output):
        expected = (8 * 16) ** -0.25 * (2 / sum(linear.weight.shape)) ** 0.5
        assert float(linear.weight.detach().std()) == pytest.approx(expected, rel=0.05)


@torch.no_grad()
@pytest.mark.parametrize(("norm", "default"), [("layer", 1e-5), ("rms", 1e-6)])
def test_every_norm_has_the_epsilon_of_the_settings(norm, default):
    given = {"norm": norm, "norm_place": "pre_and_post", "embedding_norm": True, "read_out": True}
    x = 1e-5 * torch.randn(50, 256, generator=stream(0, "epsilon"))
    for more, expected in (({}, default), ({"norm_epsilon": 1e-12}, 1e-12)):
        network = first_network(**given, **more)
        norms = [of for of in network.modules() if isinstance(of, nn.LayerNorm | nn.RMSNorm)]
        assert len(norms) == 7 and {of.eps for of in norms} == {expected}
        spread = (1e-10 / (1e-10 + expected)) ** 0.5
        assert all(float(of(x).std()) == pytest.approx(spread, rel=0.05) for of in norms)


@torch.no_grad()
def test_tanh_in_a_gated_unit():
    """As in the released code of cho2025: near GELU, and not equal."""
    networks = (first_network(activation=name) for name in ("gated_gelu_tanh", "gated_gelu"))
    layer, exact = (network.blocks[0].feed_forward for network in networks)
    x = torch.randn(8, 256, generator=stream(0, "tanh"))
    gate, value = layer.up(x).chunk(2, dim=1)
    inner = 0.5 * gate * (1 + ((2 / math.pi) ** 0.5 * (gate + 0.044715 * gate**3)).tanh())
    torch.testing.assert_close(layer(x), layer.down(inner * value))
    assert 0 < float((layer(x) - exact(x)).abs().max()) < 0.01


DROPPED = [(0, "0.attn_out", "0.mlp_out"), (1, "0.pattern", "0.mlp_post"), (2, "embed", None)]


@torch.no_grad()
@pytest.mark.parametrize(("which", "first", "later"), DROPPED)
def test_dropout_sets_activations_to_0_and_keeps_their_mean(which, first, later):
    """Those that it names and no others, before hooks see them."""
    system = System(run_of("abacus_fire", "wide_heads"))  # GELU, which is nowhere 0
    network, batch, shares = system.network, written(system, 64), [0.0, 0.0, 0.0]
    ids, plain, dropped = system.ids(batch), Hooks(), Hooks()
    network(batch.tokens, ids, hooks=plain)
    shares[which] = 0.25
    network.dropout = Dropout(*shares, stream(0, "dropout"))
    network(batch.tokens, ids, hooks=dropped)
    names = [*plain]
    for name in names[: names.index(first)]:
        assert torch.equal(dropped[name], plain[name])
    kept = dropped[first] != 0
    expected = torch.where(kept, plain[first] / 0.75, 0.0)
    torch.testing.assert_close(dropped[first], expected)
    for _, *places in DROPPED:
        for name in filter(None, places):
            zeros = float((dropped[name] == 0)[plain[name] != 0].float().mean())
            assert abs(zeros - 0.25) < 0.02 if name in (first, later) else zeros < 0.05, name


@torch.no_grad()
def test_dropout_is_off_in_evaluation_and_its_draws_are_its_own():
    system = System(run_of("abacus_fire", "looped"))
    network, batch = system.network, written(system)
    ids = system.ids(batch)

    def dropped(purpose):
        network.dropout = Dropout(0.2, 0.2, 0.2, stream(0, purpose))
        return system.logits(batch, ids)

    plain, first, again, other = system.logits(batch, ids), *map(dropped, "aab")
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert not torch.equal(first, plain)
    network.eval()
    assert torch.equal(dropped("a"), plain)
    torch.testing.assert_close(network.each_recurrence(batch.tokens, ids)[-1], plain)


@torch.no_grad()
@pytest.mark.parametrize("shares", [(0.2, 0.0, 0.2), (0.2, 0.2, 0.2)], ids=str)
def test_dropout_is_the_same_however_attention_is_computed(shares):
    run, logits = run_of("abacus_window"), []
    for attention in ("plain", "fused", "gathered"):
        system = System(run.model_copy(update={"model": {**run.model, "attention": attention}}))
        batch = written(system)
        system.network.dropout = Dropout(*shares, stream(0, "dropout"))
        logits.append(system.logits(batch, system.ids(batch)))
    for other in logits[1:]:
        torch.testing.assert_close(other, logits[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model", [
    {"initialisation": "t5"}, {"initialisation": "t5", "norm_place": "pre_and_post"}, {},
    {"embedding_std": 0.5},
])  # fmt: skip
def test_first_logits_of_tied_embeddings_are_of_order_one(model):
    """So that the first loss is near that of chance; a `logit_scale` is used as it is."""
    network, scaled = (first_network(tied=True, **model, **more) for more in
                       ({}, {"logit_scale": 3.0}))  # fmt: skip
    x = torch.randn(500, 256, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        logits, others = network.read_logits(x), scaled.read_logits(x)
    assert float(logits.std()) == pytest.approx(1.0, rel=0.1)
    ratio = 3.0 / network.logit_scale
    torch.testing.assert_close(others, ratio * logits, rtol=1e-4, atol=1e-4)
    assert network.logits.weight is network.tokens.weight


@pytest.mark.parametrize(
    ("layers", "recurrences", "millions"),
    [(16, 1, 122), (8, 2, 64), (4, 4, 34), (2, 8, 19), (1, 16, 12)],
)
def test_parameters_of_the_paper(layers, recurrences, millions):
    """mcleish2024, Table 3, at the scale `paper`, with the symbols and ids of the released code."""
    shared = load_run("addition_abacus", "paper").model
    settings = {**shared, "layers": layers, "recurrences": recurrences, "injection": "every_layer"}
    given = Transformer.Settings.parse(settings, "model")
    with torch.device("meta"):
        abacus = Learned(Learned.Settings(table=511), given, IdRange(511))
        network = Transformer(given, 19, [abacus])
    assert round(count_network_parameters(network) / 1e6) == millions
    width, hidden = 1024, 1024  # the paper's intermediate size, 2048, counts both halves of a gate
    attention, feed_forward, norm = 4 * width**2, 3 * width * hidden, 2 * width
    parts = {
        "layers": layers * (attention + feed_forward + 2 * norm),
        "read_out": feed_forward + norm + width**2,
        "tokens and logits": 2 * 19 * width,
        "ids": 512 * width,
        "embedding norm": norm,
    }
    assert count_network_parameters(network) == sum(parts.values())
