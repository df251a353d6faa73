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
ITERATIONS = 5
SMALLEST_NORM = 1e-7  # a gradient of zero stays zero
ADAMW_SCALE = 0.2  # updates have the size of AdamW's (Liu et al. 2025, section 2.2)


class Muon(torch.optim.Optimizer):
    """Muon with Nesterov momentum, decoupled weight decay, and updates of the size of AdamW's.

    The same updates as `torch.optim.Muon` with `adjust_lr_fn="match_rms_adamw"`, but for rounding.

    Raises:
        ValueError: for a parameter that is not a matrix.

    >>> weights = nn.Parameter(torch.eye(2))
    >>> weights.sum().backward()
    >>> Muon([weights], learning_rate=0.1, weight_decay=0.5).step()
    >>> bool((weights[0, 0] < 0.95) & (weights[0, 1] < 0))
    True
    """

    def __init__(
        self, matrices: Sequence[nn.Parameter], learning_rate: float, weight_decay: float
    ) -> None:
        for matrix in matrices:
            if matrix.ndim != 2:
                raise ValueError(
                    f"matrices: shape {tuple(matrix.shape)} does not fit; expected 2 dimensions"
                )
        super().__init__(matrices, {"lr": learning_rate, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """Update the matrices that have a gradient; `closure` is not used."""
        for group in self.param_groups:
            by_size: dict[tuple[int, ...], list[nn.Parameter]] = {}
            for matrix in group["params"]:
                if matrix.grad is not None:
                    by_size.setdefault(tuple(sorted(matrix.shape)), []).append(matrix)
            for (_, longest), matrices in by_size.items():
                updates = orthogonalise([self._average_gradient(matrix) for matrix in matrices])
                rate = group["lr"] * ADAMW_SCALE * math.sqrt(longest)
                for matrix, update in zip(matrices, updates, strict=True):
                    matrix.mul_(1 - group["lr"] * group["weight_decay"])
                    matrix.add_(update, alpha=-rate)

    def _average_gradient(self, matrix: nn.Parameter) -> Tensor:
        """Return the moving average of the gradient, with Nesterov's look ahead."""
        state = self.state[matrix]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(matrix)
        average = state["momentum_buffer"].lerp_(matrix.grad, 1 - MOMENTUM)
        return matrix.grad.lerp(average, MOMENTUM)


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
    a, b, c = COEFFICIENTS
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return [matrix.T if t else matrix for matrix, t in zip(x, tall, strict=True)]
