"""Every encoding and architecture: causal, local where it says so, and equal to its formula."""

import math

import pytest
import torch

from carry import params
from carry.models.architectures import choose
from carry.models.architectures.transformer import Inside, Transformer, parameters
from carry.models.encodings.learned import Learned
from carry.models.encodings.sinusoidal import Sinusoidal, waves
from carry.models.single_pass import single_pass
from carry.models.system import System
from carry.randomness import stream
from carry.settings import SettingsError
from variants import FORMATS, MODELS, POSITIONS, run_of

COMBINATIONS = [(name, "standard", "steps" if name == "levels" else "reversed")
                for name in POSITIONS]  # fmt: skip
COMBINATIONS += [(name, model, "reversed") for model in MODELS for name in ("abacus_fire", "rope")]
COMBINATIONS += [(name, "looped", form) for form in FORMATS for name in ("abacus", "learned")]
COMBINATIONS += [("coupled", "looped", "padded"), ("levels", "bare", "steps_unpadded")]


@pytest.fixture(params=COMBINATIONS, ids="-".join)
def system(request):
    return System(run_of(*request.param))


def written(system, count=6, seed=0):
    problems = system.task.draw(count, 4, stream(seed, "models"))
    return system.format.write(problems)


def test_causality_by_gradient(system):
    """The logits of a token depend on no later token: the gradient there is exactly zero."""
    batch, network = written(system), system.network
    felt = []
    hook = network.tokens.register_forward_hook(lambda *a: felt.append(a[2].requires_grad_()))
    logits = network(batch.tokens, system.ids(batch))
    hook.remove()
    at = batch.tokens.shape[1] // 2
    (gradient,) = torch.autograd.grad(logits[:, at].square().sum(), felt[0])
    assert gradient[:, at + 1 :].abs().max() == 0
    assert gradient[:, : at + 1].abs().sum() > 0


def test_the_last_layer_where_it_is_wanted_gives_the_same_logits(system):
    batch = written(system)
    at, _, real = batch.response()
    whole = system.logits(batch, system.ids(batch))
    some = system.logits(batch, system.ids(batch), at)
    expected = whole.gather(1, at[..., None].expand(-1, -1, whole.shape[2]))
    torch.testing.assert_close(some[real], expected[real], rtol=1e-4, atol=1e-5)


def test_padding_changes_nothing(system):
    if "Randomized" in {type(scheme).__name__ for scheme in system.schemes}:
        pytest.skip("a subset is drawn for the whole sequence")
    batch = written(system, 12)
    together = system.logits(batch, system.ids(batch))
    for row in range(12):
        alone = batch[row : row + 1].trim()
        logits = system.logits(alone, system.ids(alone))
        length = int(batch.length[row])
        torch.testing.assert_close(logits[0], together[row, :length], rtol=1e-4, atol=1e-5)


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


def test_fire_against_its_formula():
    """Li et al. 2023, equation of section 3.1, written out in float64."""
    network = System(run_of("fire")).network.double()
    fire = network.encodings[0]
    with torch.no_grad():
        fire.log_c += torch.tensor([0.3, -0.2]).double()
        fire.log_threshold -= torch.tensor([5.0, 4.0]).double()
    ids = torch.arange(20)[None]
    for layer in range(2):
        c = 0.1 * math.exp(fire.log_c[layer].item())
        threshold = 512 * math.exp(fire.log_threshold[layer].item())
        felt = fire.bias(layer, ids, ids)
        for i in range(20):
            for j in range(i + 1):
                share = math.log(c * (i - j) + 1) / math.log(c * max(i, threshold) + 1)
                expected = fire.networks[layer](torch.tensor([share]).double())
                torch.testing.assert_close(felt[0, :, i, j], expected)


def test_fire_tells_neighbours_apart_under_bf16():
    fire = System(run_of("fire")).network.encodings[0]
    ids = torch.arange(400)[None]
    with torch.autocast("cpu", torch.bfloat16):
        felt = fire.bias(0, ids, ids)
    assert torch.equal(felt, fire.bias(0, ids, ids))


def test_fire_learns_c_and_threshold_in_every_layer():
    system = System(run_of("fire"))
    with torch.no_grad():
        system.network.encodings[0].log_threshold -= 4.5  # to about 6: both sides of the maximum
    batch = written(system, 32)
    system.logits(batch, system.ids(batch))[..., 3].square().mean().backward()
    fire = system.network.encodings[0]
    for parameter in fire.parameters():
        assert (parameter.grad.reshape(parameter.shape[0], -1).abs().sum(1) > 0).any()
    assert (fire.log_c.grad != 0).all() and (fire.log_threshold.grad != 0).all()


def test_rope_tells_differences_only():
    """A product of a turned query and a turned key changes not when both ids move."""
    rope = System(run_of("rope")).network.encodings[0]
    query, key = torch.randn(2, 1, 2, 5, 16, generator=torch.Generator().manual_seed(0))
    ids = torch.tensor([[0, 3, 1, 7, 2]])
    plain = rope.rotate(query, ids) @ rope.rotate(key, ids).mT
    moved = rope.rotate(query, ids + 40) @ rope.rotate(key, ids + 40).mT
    torch.testing.assert_close(plain, moved, rtol=1e-4, atol=1e-4)


def test_sinusoidal_against_its_formula():
    encoding = System(run_of("sinusoidal")).network.encodings[0]
    felt = encoding.embed(torch.tensor([[0, 1, 17]]))[0]
    for row, place in enumerate([0, 1, 17]):
        for k in range(16):
            angle = place / 10_000 ** (2 * k / 32)
            assert felt[row, 2 * k] == pytest.approx(math.sin(angle), abs=1e-5)
            assert felt[row, 2 * k + 1] == pytest.approx(math.cos(angle), abs=1e-5)


def test_waves_without_a_base_are_orthogonal_within_the_width():
    """As long as the ids differ by less than the width; beyond it they begin again, turned over."""
    for width in (8, 32):
        felt = waves(torch.arange(2 * width + 1), width, None).double()
        products = felt @ felt.T
        difference = torch.arange(2 * width + 1)[:, None] - torch.arange(2 * width + 1)
        expected = torch.where(difference == 0, width / 2, 0.0).double()
        expected[difference.abs() == width] = -width / 2
        expected[difference.abs() == 2 * width] = width / 2
        torch.testing.assert_close(products, expected, rtol=0, atol=1e-4)
        for k in range(width // 2):
            angle = math.pi * (k + 0.5) / (width / 2)
            assert felt[1, 2 * k] == pytest.approx(math.sin(angle), abs=1e-6)
            assert felt[1, 2 * k + 1] == pytest.approx(math.cos(angle), abs=1e-6)


def test_turned_waves_keep_products_and_lie_elsewhere():
    """Of two levels with the same waves no feature of one is one of the other."""
    given = {"encoding": "sinusoidal", "base": 100.0}
    pairs = [{"ids": "coupled", "level": level, "turned": True, "scale": 0.3, **given}
             for level in (1, 2)]  # fmt: skip
    run = run_of("levels", form="steps").model_copy(update={"positions": pairs})
    first, second = System(run, 0).network.encodings
    ids = torch.arange(1, 30)[None]
    plain = 0.3 * waves(ids[0], 32, 100.0)
    felt = [encoding.embed(ids)[0] for encoding in (first, second)]
    for turned in felt:
        torch.testing.assert_close(turned @ turned.T, plain @ plain.T, rtol=1e-4, atol=1e-5)
        assert (turned - plain).norm(dim=1).min() > 0.5
    assert (felt[0] - felt[1]).norm(dim=1).min() > 0.5
    assert not first.embed(torch.zeros(1, 1, dtype=torch.int64)).any()  # what has no place
    # They are kept with the weights, and drawn by the seed alone.
    again, other = System(run, 0), System(run, 1)
    rotation = "encodings.0.rotation"
    assert torch.equal(again.network.state_dict()[rotation], first.rotation)
    assert not torch.equal(other.network.state_dict()[rotation], first.rotation)
    other.network.load_state_dict(again.network.state_dict())
    assert torch.equal(other.network.encodings[0].embed(ids), first.embed(ids))
    assert not any(parameter is first.rotation for parameter in again.network.parameters())


def test_waves_are_as_large_as_they_are_said_to_be():
    shape, ids = Transformer.shape(Transformer.Settings(width=16)), torch.arange(5)[None]
    small, large = (Sinusoidal(Sinusoidal.Settings(scale=of), shape, 9) for of in (0.5, 2.0))
    torch.testing.assert_close(4 * small.embed(ids), large.embed(ids))
    assert small.state_dict() == {} and small.limit is None


def test_a_table_of_waves_tells_differences_only():
    """The product of two rows changes not when both ids move, before training."""
    pair = {"ids": "coupled", "encoding": "learned", "limit": 40, "initial": "sinusoidal"}
    run = run_of("coupled", form="padded").model_copy(update={"positions": [pair]})
    rows = System(run).network.encodings[0].rows.weight.detach()[1:]
    products = rows @ rows.T
    torch.testing.assert_close(products[:-7, :-7], products[7:, 7:], rtol=1e-4, atol=1e-4)


def test_a_window_hides_far_places_and_never_the_first_token():
    """One layer with window 1: only tokens with ids within 1, and the first, are felt."""
    system = System(run_of("abacus_window", "wide_heads"))
    batch, network = written(system, 1, seed=3), system.network
    ids = system.ids(batch)
    felt = []
    network.tokens.register_forward_hook(lambda *a: felt.append(a[2].requires_grad_()))
    logits = network(batch.tokens, ids)
    for at in range(int(batch.length[0])):
        (gradient,) = torch.autograd.grad(logits[0, at].square().sum(), felt[0], retain_graph=True)
        near = (ids[0][0] - ids[0][0, at]).abs() <= 1
        near[0] = True
        near[at + 1 :] = False
        assert torch.equal(gradient[0].abs().sum(1) > 0, near)


def test_relative_biases_are_clipped_differences():
    relative = System(run_of("coupled_window")).network.encodings[0]
    with torch.no_grad():
        relative.biases[0].copy_(torch.arange(7.0)[:, None].expand(-1, 2))
    felt = relative.bias(0, torch.tensor([[4]]), torch.tensor([[0, 2, 3, 4, 5, 9]]))
    assert felt[0, 0, 0].tolist() == [48.0, 40.0, 32.0, 24.0, 16.0, 0.0]  # 8 x index of -3 .. 3


def test_one_recurrence_without_injection_is_the_standard_model():
    standard = System(run_of("abacus", "standard"))
    looped = System(run_of("abacus", "looped"))
    looped.network.load_state_dict(standard.network.state_dict())
    batch = written(standard)
    ids = standard.ids(batch)
    plain = standard.logits(batch, ids)
    assert not torch.equal(plain, looped.logits(batch, ids))
    deep, shallow = looped.logits(batch, ids, None, 5), looped.logits(batch, ids, None, 1)
    assert not torch.equal(deep, shallow)  # recurrences at evaluation are free


def test_fused_attention_agrees_with_plain():
    run = run_of("abacus_fire", "looped")
    fused = run.model_copy(update={"model": {**run.model, "attention": "fused"}})
    batch = written(System(run))
    first, second = (System(of).logits(batch, System(of).ids(batch)) for of in (run, fused))
    torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("positions", "model", "form"), [
    ("abacus_fire", "looped", "reversed"), ("rope", "both_gated", "reversed"),
    ("abacus_window", "post_rms", "reversed"), ("levels", "bare", "steps"),
    ("fire", "looped_entrance", "padded"), ("learned", "wide_heads", "plain"),
])  # fmt: skip
def test_what_a_model_does_inside(positions, model, form):
    """Attention sums to one and sees no later token; streams end in the logits."""
    system, inside = System(run_of(positions, model, form)), Inside()
    network, batch = system.network, written(system)
    ids, given = system.ids(batch), network.given
    with torch.no_grad():
        logits = network(batch.tokens, ids, inside=inside)
        expected = system.logits(batch, ids)  # without looking, by a quicker way
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-5)
    count, width = batch.tokens.shape
    passed = given.layers * given.recurrences
    entrances = 1 if given.injection == "none" else given.recurrences
    assert len(inside.attention) == passed
    for weights in inside.attention:
        assert weights.shape == (count, given.heads, width, width)
        sums = weights.sum(-1)
        torch.testing.assert_close(sums, torch.ones_like(sums))
        assert weights.min() >= 0 and not weights.triu(1).any()
        assert (weights[:, :, 0, 0] == 1).all()
    assert len(inside.streams) == 2 * passed + entrances
    for stream_ in inside.streams:
        assert stream_.shape == (count, width, given.width)
    # What goes in is the embedding; what comes out last is what the logits are read from.
    embedded = network.tokens(batch.tokens)
    for encoding, of in zip(network.encodings, ids, strict=True):
        felt = encoding.embed(of)
        embedded = embedded if felt is None else embedded + felt
    torch.testing.assert_close(inside.streams[0], embedded)
    read = network.logits(network.read_out(network.final_norm(inside.streams[-1])))
    assert torch.equal(read, logits)


def test_looking_inside_at_some_tokens():
    """The last layer is worked out for these alone, and so is what is seen of it."""
    system, some, whole = System(run_of("abacus_fire", "standard")), Inside(), Inside()
    batch = written(system)
    ids, at = system.ids(batch), batch.response()[0]
    with torch.no_grad():
        system.network(batch.tokens, ids, at, inside=some)
        system.network(batch.tokens, ids, inside=whole)
    torch.testing.assert_close(some.attention[0], whole.attention[0])
    rows = at[:, None, :, None].expand(-1, 2, -1, batch.tokens.shape[1])
    torch.testing.assert_close(some.attention[1], whole.attention[1].gather(2, rows))
    picked = whole.streams[-1].gather(1, at[:, :, None].expand(-1, -1, 32))
    torch.testing.assert_close(some.streams[-1], picked, rtol=1e-4, atol=1e-5)


def test_what_an_attention_head_adds_is_what_it_reads():
    """Of a bare layer, whose residual stream is a plain sum: each step by its own formula."""
    system, inside = System(run_of("levels", "bare", "steps")), Inside()
    network, batch = system.network.double(), written(system)
    with torch.no_grad():
        network(batch.tokens, system.ids(batch), inside=inside)
        for layer, block in enumerate(network.blocks):
            before, between, after = inside.streams[2 * layer : 2 * layer + 3]
            value = block.key_value(before).chunk(2, dim=-1)[1].unflatten(2, (2, -1))
            mixed = torch.einsum("bhqk,bkhd->bqhd", inside.attention[layer], value).flatten(2)
            torch.testing.assert_close(between, before + block.output(mixed))
            hidden = block.feed_forward.up(between).clamp(min=0)
            torch.testing.assert_close(after, between + block.feed_forward.down(hidden))
        torch.testing.assert_close(network(batch.tokens, system.ids(batch)), network.logits(after))


@pytest.mark.parametrize("form", ["reversed", "steps"])
@pytest.mark.parametrize("most", [1, 3, 1000])
def test_a_pass_in_parts_tells_the_same(form, most):
    """Whether responses begin at one token in all rows or not."""
    for positions in ("abacus_fire", "rope"):
        system = System(run_of(positions, "standard", form))
        batch = written(system, 6)
        for some in (batch, batch[batch.start == batch.start.mode().values].trim()):
            whole, parts = single_pass(system, some), single_pass(system, some, most=most)
            for name in ("predicted", "target", "real"):
                given = getattr(whole, name)[whole.real], getattr(parts, name)[whole.real]
                assert torch.equal(*given), name


def test_without_norms_there_is_no_weight_of_one():
    bare, normed = (System(run_of("nope", model)).network for model in ("bare", "standard"))
    names = {name for name, _ in normed.named_parameters()}
    assert {name for name, _ in bare.named_parameters()} == {
        name for name in names if "norm" not in name and "before" not in name
    }
    x = torch.randn(3, 32, generator=torch.Generator().manual_seed(0))
    assert torch.equal(bare.final_norm(x), x)


def test_settings_of_the_model_are_found_by_name():
    assert choose({"recurrences": 2})[1].recurrences == 2


def test_recurrences_below_one_are_refused():
    system = System(run_of("abacus", "looped"))
    batch = written(system)
    for few in (0, -1):
        expected = f"^recurrences: {few} does not fit, expected at least 1$"
        with pytest.raises(SettingsError, match=expected):
            system.logits(batch, system.ids(batch), None, few)
        with pytest.raises(SettingsError, match=expected):
            system.network.each_recurrence(batch.tokens, system.ids(batch), None, few)


@pytest.mark.parametrize("model", ["looped", "looped_entrance", "divided", "standard"])
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
        assert len(trained) == system.network.given.recurrences
    if not everywhere:  # one row of tokens for all sequences
        shared = system.network.each_recurrence(batch.tokens, ids, at[:1], 2)
        expected = system.network.each_recurrence(batch.tokens, ids, at[:1].expand(len(at), -1), 2)
        torch.testing.assert_close(shared, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model", ["looped", "looped_entrance"])
@pytest.mark.parametrize("positions", ["abacus_fire", "coupled_window"])
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


@pytest.mark.parametrize(
    ("layers", "recurrences", "millions"),
    [(16, 1, 122), (8, 2, 64), (4, 4, 34), (2, 8, 19), (1, 16, 12)],
)
def test_parameters_of_the_paper(layers, recurrences, millions):
    """mcleish2024, Table 3, for the paper profile with the symbols and ids of the released code."""
    shared = params.load_profile("paper")["scale"]["model"]
    settings = {**shared, "layers": layers, "recurrences": recurrences, "injection": "every_layer"}
    given = Transformer.Settings.parse(settings, "model")
    shape = Transformer.shape(given)
    with torch.device("meta"):
        abacus = Learned(Learned.Settings(table=511), shape, 511)
        network = Transformer(given, 19, [abacus], shape)
    assert round(parameters(network) / 1e6) == millions
    width, hidden = 1024, 1024  # the paper's intermediate size, 2048, counts both halves of a gate
    attention, feed_forward, norm = 4 * width**2, 3 * width * hidden, 2 * width
    parts = {
        "layers": layers * (attention + feed_forward + 2 * norm),
        "read_out": feed_forward + norm + width**2,
        "tokens and logits": 2 * 19 * width,
        "ids": 512 * width,
    }
    assert parameters(network) == sum(parts.values())
