"""Optimizers: Muon gives the updates of torch's in any precision, and resumes bit for bit."""

from unittest import mock

import pytest
import torch
from torch import nn

from carry.experiments.run import Training
from carry.models.system import System
from carry.training import checkpoint
from carry.training.muon import MOMENTUM, Muon, orthogonalise
from carry.training.optimizers import make_optimizers
from carry.training.precision import use_precision
from model_cases import run_of

# Square, tall, wide, and both of one size; a row and a column.
SHAPES = [(8, 8), (8, 8), (24, 8), (8, 24), (12, 6), (1, 5), (5, 1)]
CPU = torch.device("cpu")


def draw_matrices(shapes=SHAPES):
    """Equal matrices at each call."""
    draws = torch.Generator().manual_seed(1)
    return [nn.Parameter(torch.randn(shape, generator=draws)) for shape in shapes]


def make_muon(matrices, kind=Muon):
    if kind is Muon:
        return Muon(matrices, learning_rate=0.02, weight_decay=0.1)
    return kind(matrices, lr=0.02, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")


def take_steps(optimizer, matrices, steps, precision="fp32"):
    """Take steps with gradients that depend on the step alone."""
    for step in steps:
        draws = torch.Generator().manual_seed(step)
        for matrix in matrices:
            matrix.grad = torch.randn(matrix.shape, generator=draws)
        with use_precision(precision, CPU):
            optimizer.step()
    return [matrix.detach().clone() for matrix in matrices]


def largest_error(precision="fp32"):
    """The difference from torch's Muon after three steps, as a share of a matrix's change."""
    ours, theirs, start = draw_matrices(), draw_matrices(), [m.detach() for m in draw_matrices()]
    found = take_steps(make_muon(ours), ours, range(3), precision)
    expected = take_steps(make_muon(theirs, torch.optim.Muon), theirs, range(3))
    return max(
        float((a - b).norm() / (b - c).norm())
        for a, b, c in zip(found, expected, start, strict=True)
    )


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_muon_is_torchs_but_for_its_bf16(precision):
    assert largest_error(precision) < 0.05


def test_muon_is_torchs_in_equal_precision():
    with mock.patch.object(torch.Tensor, "bfloat16", torch.Tensor.clone):
        assert largest_error() < 1e-4


@pytest.mark.parametrize("shapes", [[(6, 9), (9, 6), (6, 9)], [(8, 8)] * 3])
def test_a_batch_gives_the_updates_of_single_matrices(shapes):
    batch = draw_matrices(shapes)
    singles = [orthogonalise([matrix])[0] for matrix in batch]
    for a, b in zip(orthogonalise(batch), singles, strict=True):
        assert torch.allclose(a, b, atol=1e-6)


def test_muon_resumes_bit_for_bit():
    matrices = draw_matrices()
    optimizer = make_muon(matrices)
    take_steps(optimizer, matrices, range(2))
    tensors = checkpoint.flatten_optimizer(optimizer, "optimizer0")
    resumed = [nn.Parameter(matrix.detach().clone()) for matrix in matrices]
    again = make_muon(resumed)
    checkpoint.restore_optimizer(again, "optimizer0", {k: v.clone() for k, v in tensors.items()})
    wanted = take_steps(optimizer, matrices, range(2, 5))
    found = take_steps(again, resumed, range(2, 5))
    assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_a_matrix_without_gradient_stays_and_one_of_zeros_decays():
    still, zero = draw_matrices([(4, 4), (4, 4)])
    before = still.detach().clone(), zero.detach().clone()
    zero.grad = torch.zeros(4, 4)
    make_muon([still, zero]).step()
    assert torch.equal(still, before[0])
    assert torch.allclose(zero, before[1] * (1 - 0.02 * 0.1))
    assert torch.optim.Muon([still]).defaults["momentum"] == MOMENTUM


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_epsilon_is_added_to_the_root(optimizer):
    """Of the first step of Adam, which is rate * gradient / (|gradient| + epsilon)."""
    network = System(run_of("abacus")).network
    settings = Training(optimizer=optimizer, learning_rate=0.1, epsilon=0.5)
    adamw = make_optimizers(network, settings)[-1]
    weight = network.tokens.weight
    before, weight.grad = weight.detach().clone(), torch.full_like(weight, 0.5)
    adamw.step()
    torch.testing.assert_close(before - weight.detach(), torch.full_like(weight, 0.05))
    assert make_optimizers(network, Training())[0].defaults["eps"] == 1e-8


def test_each_parameter_has_one_optimizer_and_vectors_do_not_decay():
    network = System(run_of("abacus_fire", "looped")).network
    optimizers = make_optimizers(network, Training(optimizer="muon", weight_decay=0.1))
    trained = [
        id(parameter)
        for optimizer in optimizers
        for group in optimizer.param_groups
        for parameter in group["params"]
    ]
    assert sorted(trained) == sorted(id(parameter) for parameter in network.parameters())
    assert isinstance(optimizers[0], Muon)
    for group in optimizers[1].param_groups:
        decays = group["weight_decay"] > 0
        assert all((parameter.ndim >= 2) == decays for parameter in group["params"])
