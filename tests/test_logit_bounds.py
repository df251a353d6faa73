"""Float32 results stay within the bounds, for every order of summation."""

import copy
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from carry.certificates import rounding
from carry.certificates.contexts import FREE_SETTINGS
from carry.certificates.logit_bounds import bound_logits
from carry.certificates.rounding import BoundedTensor
from carry.config.settings import SettingsError
from carry.models.system import System
from model_cases import run_of

LAYERS = {
    "pre": {},
    "post": {"norm_place": "post", "logit_bias": True},
    "both_rms": {"norm": "rms", "norm_place": "pre_and_post"},
    "branch": {"norm": "rms", "norm_place": "pre_and_branch", "final_norm": False},
    "bare": {"norm": "none", "biases": False},
    "sizes": {"head_width": 20, "hidden": 50, "norm_epsilon": 0.1, "embedding_std": 2.0,
              "divide_gradient": True},
}  # fmt: skip
POSITIONS = ["nope", "none", "index_relative", "abacus_window", "coupled_window"]
CASES = [("abacus_window", layers) for layers in LAYERS]
CASES += [(positions, "both_rms") for positions in POSITIONS if positions != "abacus_window"]


@torch.no_grad()
def network_of(positions, seed=0, attention="auto", **model):
    """Return a network as if trained: biases, norms and attention scores have an effect."""
    run = run_of(positions)
    model = {"width": 64, "heads": 4, "attention": attention, **model}
    network = System(run.model_copy(update={"model": model}), seed).network
    generator = torch.Generator().manual_seed(seed)
    for name, weights in network.named_parameters():
        noise = torch.randn(weights.shape, generator=generator)
        weights += noise * (0.04 if weights.dim() == 2 and "encodings" not in name else 0.2)
    return network.eval()


def contexts(network, rows=48, width=12, seed=0):
    """Return contexts and small ids, where 0 is the id of uncounted tokens."""
    generator = torch.Generator().manual_seed(seed)
    symbols = network.tokens.num_embeddings
    tokens = torch.randint(symbols, (rows, width), generator=generator)
    return tokens, [torch.randint(5, (rows, width), generator=generator) for _ in network.encodings]


@torch.no_grad()
def float32_logits(network, tokens, ids):
    """Return the float32 logits of the last tokens."""
    at = torch.tensor([[tokens.shape[1] - 1]])
    return network(tokens, ids, at)[:, -1].double()


def assert_within(actual, bounded):
    assert bounded.error.isfinite().all()
    excess = (actual.double() - bounded.value).abs() - bounded.error
    assert (excess <= 0).all(), f"{excess.max()} beyond the bound"


def test_each_setting_that_may_have_any_value_has_a_case():
    """Else a certificate could rest on bounds that nobody has compared with a float32 pass."""
    compared = {name for settings in LAYERS.values() for name in settings}
    assert compared | {"width", "heads", "attention"} == FREE_SETTINGS  # these in `network_of`


@pytest.mark.parametrize(("positions", "layers"), CASES)
def test_the_value_is_exact_and_float32_stays_within(positions, layers):
    network = network_of(positions, **LAYERS[layers])
    tokens, ids = contexts(network)
    close = bound_logits(network, tokens, ids)
    quick = bound_logits(network, tokens, ids, backward=False)
    with torch.no_grad():
        exact = copy.deepcopy(network).double()(tokens, ids)[:, -1]
    for bounded in (close, quick):
        torch.testing.assert_close(bounded.value, exact, rtol=1e-9, atol=1e-9)
    assert (close.error <= quick.error * (1 + 1e-6)).all()
    off = (float32_logits(network, tokens, ids) - close.value).abs()
    assert (off <= close.error).all() and (off > 0).any()
    assert close.error.isfinite().all()
    assert close.error.median() < 2e-2 * max(1.0, exact.abs().max() / 4)
    assert close.error.median() < 2e4 * off.max()


@pytest.mark.parametrize(("layers", "seed"), [("pre", 0), ("post", 1), ("both_rms", 1)])
def test_the_order_of_visible_tokens_does_not_matter(layers, seed):
    """All tokens but the first and the last may be permuted."""
    network = network_of("abacus_window", seed, **LAYERS[layers])
    tokens, ids = contexts(network, seed=seed)
    bounded = bound_logits(network, tokens, ids)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(4):
        middle = 1 + torch.randperm(tokens.shape[1] - 2, generator=generator)
        order = torch.cat([torch.tensor([0]), middle, torch.tensor([tokens.shape[1] - 1])])
        assert_within(
            float32_logits(network, tokens[:, order], [of[:, order] for of in ids]), bounded
        )


def among_others(network, tokens, ids, total, seed=0):
    """Return contexts with other tokens in between, which all windows hide."""
    generator = torch.Generator().manual_seed(seed)
    (rows, width), symbols = tokens.shape, network.tokens.num_embeddings
    at = 1 + torch.randperm(total - 2, generator=generator)[: width - 2].sort().values
    at = torch.cat([torch.tensor([0]), at, torch.tensor([total - 1])])
    longer = torch.randint(symbols, (rows, total), generator=generator)
    far = [torch.randint(50, 90, (rows, total), generator=generator) for _ in ids]
    longer[:, at] = tokens
    for of, own in zip(far, ids, strict=True):
        of[:, at] = own
    return longer, far


@pytest.mark.parametrize("attention", ["auto", "plain", "fused", "gathered"])
@pytest.mark.parametrize("positions", ["abacus_window", "coupled_window"])
def test_contexts_stand_in_sequences_of_any_length(positions, attention):
    network = network_of(positions, attention=attention)
    tokens, ids = contexts(network, rows=16)
    bounded = bound_logits(network, tokens, ids)
    for total in (12, 13, 90, 500):
        actual = float32_logits(network, *among_others(network, tokens, ids, total))
        assert_within(actual, bounded)
    if attention == "auto":  # which gathers from here on
        assert_within(float32_logits(network, *among_others(network, tokens, ids, 1100)), bounded)


def test_large_scores_stay_within():
    """Nearly all attention is on one token, or on two."""
    network = network_of("abacus_window")
    tokens, ids = contexts(network)
    with torch.no_grad():
        for factor in (4.0, 30.0):
            network.blocks[0].query.weight *= factor
            bounded = bound_logits(network, tokens, ids)
            actual = float32_logits(network, tokens, ids)
            assert ((actual - bounded.value).abs() <= bounded.error).all()


# Primitives, in float32 by several orders of summation.


def one_by_one(terms):
    total = np.float32(0)
    for term in terms:
        total = np.float32(total + term)
    return total


def in_pairs(terms):
    terms = list(terms)
    while len(terms) > 1:
        pairs = [np.float32(a + b) for a, b in zip(terms[::2], terms[1::2], strict=False)]
        terms = pairs + (terms[-1:] if len(terms) % 2 else [])
    return terms[0]


SUMS = {
    "one_by_one": one_by_one,
    "ascending": lambda terms: one_by_one(sorted(terms)),
    "descending": lambda terms: one_by_one(sorted(terms)[::-1]),
    "by_size": lambda terms: one_by_one(sorted(terms, key=abs)),
    "by_size_descending": lambda terms: one_by_one(sorted(terms, key=abs)[::-1]),
    "in_pairs": in_pairs,
}


def rows_of(kind, width=33, rows=6, seed=0):
    """Return float32 rows that are easy or hard to sum."""
    random = np.random.default_rng(seed)
    noise = random.standard_normal((rows, width))
    made = {
        "ordinary": noise,
        "positive": np.abs(noise) + 1,
        "cancelling": np.where(np.arange(width) % 2, 1e4, -1e4) + noise,
        "hardly_varying": 30 + 1e-4 * noise,
        "any_size": noise * 10.0 ** random.integers(-6, 6, (rows, width)),
        "large": 1e6 * noise,
    }[kind]
    return made.astype(np.float32)


KINDS = ["ordinary", "positive", "cancelling", "hardly_varying", "any_size", "large"]


@pytest.mark.parametrize("order", SUMS)
@pytest.mark.parametrize("kind", KINDS)
def test_sums_of_products(kind, order):
    """Compare with fractions."""
    x, weight = rows_of(kind), rows_of("any_size", rows=3, seed=1)
    bias = np.float32([1.0, -3.0, 1e5])
    product = rounding.linear(
        BoundedTensor.exact(torch.tensor(x)), torch.tensor(weight), torch.tensor(bias)
    )
    for row, numbers in enumerate(x):
        for column, weights in enumerate(weight):
            pairs = list(zip(numbers.tolist(), weights.tolist(), strict=True))
            exact = sum(
                (Fraction(a) * Fraction(b) for a, b in pairs), Fraction(float(bias[column]))
            )
            actual = SUMS[order]([*(numbers * weights), bias[column]])
            error = abs(Fraction(float(actual)) - exact)
            assert error <= Fraction(product.error[row, column].item()) * Fraction(101, 100)


def with_error(x, share=1e-4, seed=0):
    """Return numbers with a relative error, and their bounds."""
    x = torch.tensor(x)
    error = share * x.double().abs()
    signs = torch.rand(x.shape, generator=torch.Generator().manual_seed(seed)).double() * 2 - 1
    return (x.double() + signs * error).float(), BoundedTensor(
        x.double(), error * (1 + 1e-2) + 1e-30
    )


@pytest.mark.parametrize("kind", KINDS)
def test_errors_of_inputs_get_through(kind):
    """Apply every function in exact arithmetic to inputs with errors."""
    x, bounded = with_error(rows_of(kind, width=32))
    x = x.double()
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(5, 32, generator=generator).double()
    gain, bias = torch.randn(2, 32, generator=generator).double()
    pairs = [
        (F.linear(x, weight), rounding.linear(bounded, weight)),
        (F.layer_norm(x, (32,), gain, bias, 1e-5),
         rounding.layer_norm(bounded, gain, bias, 1e-5)),
        (F.rms_norm(x, (32,), gain, 1e-6), rounding.rms_norm(bounded, gain, 1e-6)),
        (F.relu(x), rounding.relu(bounded)),
        (x + x.flip(1), rounding.add(bounded, bounded.map(lambda of: of.flip(1)))),
    ]  # fmt: skip
    for actual, bound in pairs:
        assert ((actual - bound.value).abs() <= 1.01 * bound.error + 1e-25).all()
        length = torch.linalg.vector_norm(actual - bound.value, dim=1, keepdim=True)
        assert (length <= 1.01 * bound.error_norm + 1e-25).all()


def variances(numbers, total):
    """Yield mean and variance by two passes, by E[x^2] - E[x]^2, and by Welford's updates."""
    count = np.float32(len(numbers))
    mean = total(numbers) / count
    yield mean, total((numbers - mean) ** 2) / count
    yield mean, max(np.float32(0), total(numbers**2) / count - mean * mean)
    mean = squares = np.float32(0)
    for at, number in enumerate(numbers):
        away = np.float32(number - mean)
        mean = np.float32(mean + away / np.float32(at + 1))
        squares = np.float32(squares + away * np.float32(number - mean))
    yield mean, np.float32(squares / count)


@pytest.mark.parametrize("kind", KINDS)
def test_norms_by_any_variance(kind):
    x, (gain, bias) = rows_of(kind), rows_of("ordinary", rows=2, seed=2)
    tensors = torch.tensor(x), torch.tensor(gain), torch.tensor(bias)
    layer = rounding.layer_norm(BoundedTensor.exact(tensors[0]), *tensors[1:], 1e-5)
    root = rounding.rms_norm(BoundedTensor.exact(tensors[0]), tensors[1], 1e-6)
    exact = F.layer_norm(tensors[0].double(), (33,), *(of.double() for of in tensors[1:]), 1e-5)
    torch.testing.assert_close(layer.value, exact, rtol=1e-7, atol=1e-7)
    assert_within(F.layer_norm(tensors[0], (33,), *tensors[1:], 1e-5), layer)
    assert_within(F.rms_norm(tensors[0], (33,), tensors[1], 1e-6), root)
    one = np.float32(1)
    for row, numbers in enumerate(x):
        for total in SUMS.values():
            for mean, variance in variances(numbers, total):
                inverse = one / np.sqrt(variance + np.float32(1e-5))
                for made in (
                    (numbers - mean) * inverse * gain + bias,
                    (numbers * inverse + (-mean * inverse)) * gain + bias,
                    numbers * (inverse * gain) + (bias - mean * (inverse * gain)),
                ):
                    assert_within(torch.tensor(made), layer.map(lambda of, row=row: of[row]))
            square = total(numbers**2) / np.float32(33)
            made = numbers * (one / np.sqrt(square + np.float32(1e-6))) * gain
            assert_within(torch.tensor(made), root.map(lambda of, row=row: of[row]))


def softmax_by_steps(scores, values, block=1):
    """Return the output of an online softmax over blocks of keys, in base 2."""
    base = np.float32(math.log2(math.e))
    highest, total, found = np.float32(-np.inf), np.float32(0), np.zeros_like(values[0])
    for at in range(0, len(scores), block):
        some = scores[at : at + block] * base
        before, highest = highest, max(highest, some.max())
        if highest == -np.inf:
            continue
        weights, old = np.exp2(some - highest), np.exp2(np.float32(before - highest))
        total = np.float32(total * old + one_by_one(weights))
        found = found * old
        for weight, value in zip(weights, values[at : at + block], strict=True):
            found = found + weight * value
    return found * (np.float32(1) / total)


@pytest.mark.parametrize("size", [0.1, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("kind", ["ordinary", "cancelling", "any_size", "large"])
def test_attention_by_any_kernel(kind, size):
    """Scores and values of any size: plain, fused and online attention, in any order of keys."""
    generator = torch.Generator().manual_seed(0)
    query, key = (size * torch.randn(4, of, 16, generator=generator) for of in (3, 11))
    value = torch.tensor(np.stack([rows_of(kind, 16, 11, seed) for seed in range(4)]))
    added = torch.randn(4, 3, 11, generator=generator)
    visible = torch.rand(4, 3, 11, generator=generator) < 0.7
    visible[..., 4] = True
    exact = [BoundedTensor.exact(of) for of in (query, key, value, added)]
    products = rounding.attention_scores(*exact[:2], 0.25)
    score = rounding.sum_scores([products, exact[3]], 16)
    bounded = rounding.softmax_average(score, exact[2], visible).output
    double = F.scaled_dot_product_attention(
        query.double(), key.double(), value.double(),
        attn_mask=torch.where(visible, added, -math.inf).double(), scale=0.25,
    )  # fmt: skip
    torch.testing.assert_close(bounded.value, double, rtol=1e-9, atol=1e-9)
    for order in (torch.arange(11), torch.arange(11).flip(0), added[0, 0].argsort()):
        k, v, mask = key[:, order], value[:, order], torch.where(visible, added, -math.inf)
        mask = mask[..., order]
        plain = (query * 0.25) @ k.mT + mask
        assert_within(plain.softmax(-1) @ v, bounded)
        fused = F.scaled_dot_product_attention(query, k, v, attn_mask=mask, scale=0.25)
        assert_within(fused, bounded)
        scores = plain.numpy()
        for row, at, block in ((0, 0, 1), (1, 2, 4), (3, 1, 2)):
            actual = softmax_by_steps(scores[row, at], v[row].numpy(), block=block)
            own = bounded.map(lambda of, row=row, at=at: of[row, at])
            assert_within(torch.tensor(actual), own)


def test_errors_of_scores_and_values_get_through():
    """With the largest errors in the worst direction: each score and its value together."""
    generator = torch.Generator().manual_seed(0)
    score, value = 2 * torch.randn(50, 1, 7, generator=generator), torch.rand(50, 7, 1)
    score, value = score.double(), value.double()
    visible = torch.ones(1, 1, 7, dtype=torch.bool)
    for error in (1e-6, 1e-3, 0.1, 1.0):
        wrong = BoundedTensor(score, torch.full_like(score, error))
        bounded = rounding.softmax_average(
            wrong, BoundedTensor(value, torch.full_like(value, error)), visible
        ).output
        for sign in (-1, 1):
            up = torch.where(value > bounded.value, error, -error).mT * sign
            actual = (score + up).softmax(-1) @ (value + sign * error)
            off = (actual - bounded.value).abs()
            assert (off <= bounded.error).all()
            if error < 0.1:
                assert (bounded.error < 2 * off + 1e-4).all()


def test_weights_of_other_precision_are_refused():
    network = network_of("nope").double()
    with pytest.raises(SettingsError, match="torch.float64 does not fit; expected torch.float32"):
        bound_logits(network, *contexts(network))
