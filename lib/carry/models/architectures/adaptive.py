"""A looped decoder that chooses the depth of each token (Graves 2016, Dehghani et al. 2018).

embedding -> [ block ] -> x1 -> [ block ] -> x2 -> [ block ] -> x3
                           |                  |                  |
                          p1 x1       +      p2 x2       +   (1 - p1 - p2) x3 -> logits
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pydantic
import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor, nn

from carry.models.architectures.transformer import Transformer
from carry.models.encodings import Encoding, ModelShape

EPSILON = 0.01  # lets a token halt after its first recurrence (Graves 2016, 2.1)


class Adaptive(Transformer):
    """A decoder whose block is run up to `recurrences` times, and in which each token halts.

    After recurrence t a learned unit reads a token's residual stream x_t: p_t = sigmoid(w x_t + b).
    The token halts when the sum of these probabilities reaches 1 - `EPSILON`, or at the last
    recurrence. Its logits are read from the sum of p_t x_t, in which the last x_t has the remaining
    weight to 1 (Graves 2016, section 2). The stream of a halted token is still computed, so that
    other tokens can attend to it, as in the released code of the Universal Transformer (which
    reads p_t from x_(t-1)).

    `ponder`: the weight in the loss of the recurrences taken plus the remaining weight
    (2.1 there). `halting_bias`: the first b; tokens halt sooner with a larger one.
    """

    class Settings(Transformer.Settings):
        """The settings of a transformer, and of adaptive depth."""

        recurrences: int = pydantic.Field(default=4, ge=2)
        ponder: float = pydantic.Field(default=0.01, ge=0.0, allow_inf_nan=False)
        halting_bias: float = pydantic.Field(default=1.0, allow_inf_nan=False)

    def __init__(
        self, settings: Settings, symbols: int, encodings: Sequence[Encoding], shape: ModelShape
    ) -> None:
        super().__init__(settings, symbols, encodings, shape)
        # Drawn last, so that the other weights equal a looped model's.
        self.halting = nn.Linear(settings.width, 1)
        nn.init.normal_(self.halting.weight, std=settings.width**-0.5)
        nn.init.constant_(self.halting.bias, settings.halting_bias)
        self._ponder_cost: Tensor | None = None  # of each token in the last training pass

    @torch.no_grad()
    def recurrences_taken(
        self,
        tokens: Integer[Tensor, "B T"],
        ids: Sequence[Integer[Tensor, "_ S"]],
        at: Integer[Tensor, "_ A"] | None = None,
        recurrences: int | None = None,
    ) -> RecurrencesTaken:
        """Return the depth of each token `at`; the arguments are as in `forward`.

        >>> from carry.randomness import stream
        >>> from carry.models.system import System
        >>> from carry.experiments.resolve import make_run
        >>> model = {"name": "adaptive", "recurrences": 3, "width": 8, "halting_bias": 9.0}
        >>> system = System(make_run({"task": {"name": "addition"}, "model": model}))
        >>> batch = system.format.write(system.task.draw(1, 1, stream(0, "doctest")))
        >>> taken = system.network.recurrences_taken(batch.tokens, [], batch.response()[0])
        >>> taken.count.tolist(), taken.mean.tolist()
        ([[1, 1, 1]], [[1.0, 1.0, 1.0]])
        """
        mixtures = self._mixtures(tokens, ids, at, recurrences)
        (mixture,) = collections.deque(mixtures, maxlen=1)  # the last one
        weights = torch.stack(mixture.weights, dim=-1)
        depths = torch.arange(1, weights.shape[-1] + 1, device=weights.device).to(weights.dtype)
        return RecurrencesTaken(mixture.taken, weights @ depths)

    def penalty(self, real: Bool[Tensor, "B A"]) -> Float[Tensor, ""] | None:
        """Return the mean ponder cost of the last training pass over the tokens `real`."""
        cost, self._ponder_cost = self._ponder_cost, None
        if cost is None:
            return None
        cost = cost[:, : real.shape[1]] * real  # no index by `real`, whose size a GPU would tell
        return self.settings.ponder * (cost.sum() / real.sum())

    def _ends(self, *inputs: Any, each: bool = False) -> Iterator[Tensor]:
        """Yield the mixed streams, as if all running tokens halted, after each recurrence."""
        for mixture in self._mixtures(*inputs):
            yield mixture.end

    def _mixtures(
        self,
        tokens: Tensor,
        ids: Sequence[Tensor],
        at: Tensor | None,
        recurrences: int | None,
        *more: Any,
    ) -> Iterator[HaltingMixture]:
        """Yield the mixture of streams after each recurrence: always the same object, which grows.

        Args:
            more: the cache and the hooks, as in `forward`.
        """
        count, mixture = recurrences or self.recurrences, None
        ends = super()._ends(tokens, ids, at, count, *more, each=True)
        for recurrence, x in enumerate(ends, start=1):
            probability = self._halting_probability(x, recurrence == count)
            if mixture is None:
                mixture = HaltingMixture(torch.zeros_like(probability))
            mixture.add(x, probability)
            yield mixture
        if self.training and torch.is_grad_enabled():
            self._ponder_cost = mixture.ponder_cost

    def _halting_probability(self, x: Tensor, final: bool) -> Tensor:
        weight = self.halting.weight
        if final:  # all remaining tokens halt
            return torch.ones(x.shape[:2], dtype=weight.dtype, device=x.device)
        with torch.autocast(x.device.type, enabled=False):  # bf16 is too coarse for a threshold
            return self.halting(x.to(weight.dtype))[..., 0].sigmoid()


class RecurrencesTaken(NamedTuple):
    """The recurrences of each token, and their mean by the weights of the streams."""

    count: Integer[Tensor, "B A"]
    mean: Float[Tensor, "B A"]


class HaltingMixture:
    """The weighted sum of residual streams over recurrences, until all tokens have halted.

    `weights` has the weights of each recurrence, `taken` the recurrences of each token, and `end`
    the sum as if all running tokens halted at the last recurrence.

    >>> mixture = HaltingMixture(torch.zeros(1, 2))
    >>> for probability in ([0.25, 0.5], [0.5, 0.75], [1.0, 1.0]):
    ...     mixture.add(torch.ones(1, 2, 4), torch.tensor([probability]))
    >>> [weight.tolist() for weight in mixture.weights]
    [[[0.25, 0.5]], [[0.5, 0.5]], [[0.25, 0.0]]]
    >>> mixture.taken.tolist(), mixture.ponder_cost.tolist()
    ([[3, 2]], [[3.25, 2.5]])
    """

    def __init__(self, used: Float[Tensor, "B A"]) -> None:
        self.used = used  # the sum of weights before the halting recurrence
        self.running = torch.ones_like(used, dtype=torch.bool)
        self.taken = torch.zeros_like(used, dtype=torch.long)
        self.weights: list[Tensor] = []
        self.sum: Tensor | float = 0.0
        self.end: Tensor | float = 0.0

    def add(self, x: Float[Tensor, "B A D"], probability: Float[Tensor, "B A"]) -> None:
        """Add the streams of one recurrence, at which each token may halt."""
        halts = self.running & (self.used + probability >= 1 - EPSILON)
        stays = self.running & ~halts
        weight = torch.where(halts, 1 - self.used, probability * stays)
        self.end = self.sum + ((1 - self.used) * self.running)[..., None] * x
        self.sum = self.sum + weight[..., None] * x
        self.weights.append(weight.detach())
        self.taken = self.taken + self.running
        self.used, self.running = self.used + probability * stays, stays

    @property
    def ponder_cost(self) -> Float[Tensor, "B A"]:
        """The cost of each token: recurrences taken, plus the weight of the last one."""
        return self.taken + (1 - self.used)
