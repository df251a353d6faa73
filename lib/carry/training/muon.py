"""Muon: momentum, orthogonalised for each matrix (Jordan et al. 2024, Liu et al. 2025).

torch's Muon orthogonalises in bf16, which takes 40 times as long as fp32 on a CPU without bf16
instructions, and one matrix after another. Here the precision is that of the surrounding
`use_precision`, and matrices of equal size are one batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

MOMENTUM = 0.95
# The polynomial a x + b x^3 + c x^5, applied five times to each singular value (Jordan et al. 2024)
COEFFICIENTS = 3.4445, -4.7750, 2.0315
SMALLEST_NORM = 1e-7  # a gradient of zero stays zero
ADAMW_SCALE = 0.2  # updates have the size of AdamW's (Liu et al. 2025, section 2.2)


class Muon(torch.optim.Optimizer):
    """Muon with Nesterov momentum, decoupled weight decay, and updates of the size of AdamW's.

    The same updates as `torch.optim.Muon` with `adjust_lr_fn="match_rms_adamw"`, but for rounding.

    >>> weights = nn.Parameter(torch.eye(2))
    >>> weights.sum().backward()
    >>> Muon([weights], learning_rate=0.1, weight_decay=0.5).step()
    >>> bool((weights[0, 0] < 0.95) & (weights[0, 1] < 0))
    True
    """

    def __init__(
        self, matrices: Sequence[nn.Parameter], learning_rate: float, weight_decay: float
    ) -> None:
        super().__init__(matrices, {"lr": learning_rate, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """Update the matrices that have a gradient; `closure` is not used."""
        for group in self.param_groups:
            matrices = [matrix for matrix in group["params"] if matrix.grad is not None]
            if not matrices:
                continue
            if group["weight_decay"]:
                torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
            by_size: dict[tuple[int, ...], list[tuple[Tensor, Tensor]]] = {}
            for matrix, average in zip(matrices, self._average_gradients(matrices), strict=True):
                by_size.setdefault(tuple(sorted(matrix.shape)), []).append((matrix, average))
            for (_, longest), pairs in by_size.items():
                of_size, averages = zip(*pairs, strict=True)
                rate = group["lr"] * ADAMW_SCALE * math.sqrt(longest)
                torch._foreach_add_(of_size, orthogonalise(averages), alpha=-rate)

    def _average_gradients(self, matrices: list[nn.Parameter]) -> Sequence[Tensor]:
        """Return moving averages of the gradients, with Nesterov's look ahead."""
        for matrix in matrices:
            if "momentum_buffer" not in self.state[matrix]:
                self.state[matrix]["momentum_buffer"] = torch.zeros_like(matrix)
        averages = [self.state[matrix]["momentum_buffer"] for matrix in matrices]
        gradients = [matrix.grad for matrix in matrices]
        torch._foreach_lerp_(averages, gradients, 1 - MOMENTUM)
        return torch._foreach_lerp(gradients, averages, MOMENTUM)


def orthogonalise(matrices: Sequence[Float[Tensor, "_ _"]]) -> list[Float[Tensor, "_ _"]]:
    """Return U S V^T for each matrix with the singular vectors U, V, all of S about 0.7 to 1.2.

    The matrices have equal sizes, but may be wide or tall. The products are those of one batch.

    >>> matrix = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
    >>> wide, tall = orthogonalise([matrix, matrix.T])
    >>> bool(0.6 < torch.linalg.svdvals(wide).min()), torch.equal(wide, tall.T)
    (True, True)
    """
    tall = [matrix.shape[0] > matrix.shape[1] for matrix in matrices]
    x = torch.stack([matrix.T if t else matrix for matrix, t in zip(matrices, tall, strict=True)])
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=SMALLEST_NORM)  # singular values up to 1
    for iterations in _split_iterations(x):
        x = _iterate(x, iterations)
    return [matrix.T if t else matrix for matrix, t in zip(x, tall, strict=True)]


def _split_iterations(x: Float[Tensor, "N R C"]) -> Sequence[int]:
    """Return how many iterations use one Gram matrix, whose rounding grows twelvefold in each."""
    is_fp32 = not torch.is_autocast_enabled(x.device.type)
    return (3, 2) if is_fp32 and x.shape[2] >= 2 * x.shape[1] else (1, 1, 1, 1, 1)


def _iterate(x: Float[Tensor, "N R C"], iterations: int) -> Float[Tensor, "N R C"]:
    """Apply the polynomial to the singular values of each matrix, with few products of its columns.

    With the Gram matrix G = X X^T an iteration is X <- P X, where P = a + b G + c G^2. P and G
    commute, so G becomes P P G, and the product of all P is applied to X once.
    """
    a, b, c = COEFFICIENTS
    gram, product = x @ x.mT, None
    for remaining in reversed(range(iterations)):
        factor = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        factor.diagonal(dim1=1, dim2=2).add_(a)
        product = factor if product is None else factor @ product
        if remaining:
            gram = factor @ (factor @ gram)
    return product @ x
