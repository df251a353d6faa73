"""Every encoding is its formula, written out slowly; and what the formulas promise."""

import math

import pytest
import torch

import slow
from carry.config.settings import list_modules
from carry.models.encodings.sinusoidal import compute_sinusoids
from carry.models.system import System
from model_cases import POSITIONS, run_of, written


@torch.no_grad()
def as_if_trained(system):
    """Return the network in float64, with biases of any size and FIRE on both sides of L."""
    network, generator = system.network.double(), torch.Generator().manual_seed(0)
    for name, parameter in network.encodings.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        parameter += 0.1 * noise - (4.5 if name.endswith("threshold") else 0.0)
    return network


WINDOWS = [name for name, pairs in POSITIONS.items() if any("window" in of for of in pairs)]


PLAIN = [name for name in POSITIONS if name != "levels"]


@pytest.mark.parametrize(("positions", "attention"), [
    *((name, "plain") for name in PLAIN),
    *((name, "fused") for name in PLAIN if not name.startswith("randomized")),
    *((name, "gathered") for name in WINDOWS),
])  # fmt: skip
def test_every_encoding_is_its_formula(positions, attention):
    """In float64; waves and rotations are worked out in fp32, and differ by so much."""
    run = run_of(positions, form="steps" if "levels" in positions else "reversed")
    system = System(run.model_copy(update={"model": {**run.model, "attention": attention}}))
    network, batch = as_if_trained(system), written(system, 2)
    ids = system.ids(batch, 3 if positions.startswith("abacus") else 1)
    with torch.no_grad():
        logits = network(batch.tokens, ids)
        rough = {type(of).__name__ for of in network.encodings} & {"RoPE", "Sinusoidal"}
        for row, length in enumerate(batch.length.tolist()):
            own = [of[row % len(of), :length].tolist() for of in ids]
            expected = slow.logits(network, batch.tokens[row, :length].tolist(), own)
            close = {"rtol": 1e-4, "atol": 1e-5} if rough else {"rtol": 1e-9, "atol": 1e-9}
            torch.testing.assert_close(logits[row, :length], expected, **close)


def test_buckets_of_t5_at_long_distances():
    """Those of the formula test are short."""
    t5, ids = System(run_of("t5")).network.encodings[0], torch.arange(300)[None]
    buckets = [slow.bucket_by(max(0, 299 - key), 32, 128) for key in range(300)]
    assert torch.equal(t5.bias(0, ids[:, 299:], ids)[0, :, 0], t5.biases[buckets].T)


def test_the_tour_has_every_encoding():
    named = {pair["encoding"] for pairs in POSITIONS.values() for pair in pairs}
    assert named == set(list_modules("carry.models.encodings"))


@pytest.mark.parametrize("name", ["alibi", "fire"])
def test_biases_are_worked_out_in_full_precision(name):
    """In bf16, distances of 300 and 301 would be equal."""
    encoding, ids = System(run_of(name)).network.encodings[0], torch.arange(400)[None]
    expected = encoding.bias(0, ids, ids)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(encoding.bias(0, ids, ids), expected)
    assert expected.dtype == torch.float32


def test_shaw_makes_no_vector_for_each_pair_of_tokens():
    system = System(run_of("shaw", "looped"))
    batch, sizes = written(system), []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda x: sizes.append(x.numel()) or x, lambda x: x
    ):
        system.logits(batch, system.ids(batch))
    rows, tokens = batch.tokens.shape
    assert max(sizes) < rows * tokens * tokens * 16  # features of one head


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


def test_sinusoids_without_a_base_are_orthogonal_within_the_width():
    """As long as the ids differ by less than the width; beyond it they begin again, turned over."""
    for width in (8, 32):
        felt = compute_sinusoids(torch.arange(2 * width + 1), width, None).double()
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


def test_turned_sinusoids_keep_products_in_other_directions():
    """Of two levels with the same waves no feature of one is one of the other."""
    given = {"encoding": "sinusoidal", "base": 100.0}
    pairs = [{"ids": "coupled", "level": level, "turned": True, "scale": 0.3, **given}
             for level in (1, 2)]  # fmt: skip
    run = run_of("levels", form="steps").model_copy(update={"positions": pairs})
    first, second = System(run, 0).network.encodings
    ids = torch.arange(1, 30)[None]
    plain = 0.3 * compute_sinusoids(ids[0], 32, 100.0)
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


@pytest.mark.parametrize(("base", "limit"), [(100.0, 40), (None, 20), (None, 200)])
def test_products_of_a_sinusoidal_table_depend_on_differences_only(base, limit):
    """The product of two rows stays the same when both ids move, before training.

    Without a base it is 0 within the width. In a longer table it is small at most differences, and
    at none -1, as it would be with even rates at a difference of the width.
    """
    pair = {"ids": "coupled", "encoding": "learned", "limit": limit, "initial": "sinusoidal"}
    run = run_of("coupled", form="padded")
    run = run.model_copy(update={"positions": [pair | {"base": base}]})
    rows = System(run).network.encodings[0].rows.weight.detach()[1:]
    products = rows @ rows.T / (rows.shape[1] / 2)
    torch.testing.assert_close(products[:-7, :-7], products[7:, 7:], rtol=1e-4, atol=1e-4)
    if base is None:
        others = (products - torch.eye(limit)).abs()
        is_short = limit <= rows.shape[1]
        assert others.max() < (6e-5 if is_short else 0.97)
        assert others.median() < (1e-4 if is_short else 0.1)
