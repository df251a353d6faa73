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
from carry.models.encodings import Encoding

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

    def __init__(self, settings: Settings, symbols: int, encodings: Sequence[Encoding]) -> None:
        super().__init__(settings, symbols, encodings)
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
        ((_, weights, taken),) = collections.deque(mixtures, maxlen=1)  # the last one
        weights = torch.stack(weights, dim=-1)
        depths = torch.arange(1, weights.shape[-1] + 1, device=weights.device).to(weights.dtype)
        return RecurrencesTaken(taken, weights @ depths)

    def penalty(self, real: Bool[Tensor, "B A"]) -> Float[Tensor, ""] | None:
        """Return the mean ponder cost of the last training pass over the tokens `real`."""
        cost, self._ponder_cost = self._ponder_cost, None
        if cost is None:
            return None
        cost = cost[:, : real.shape[1]] * real  # no index by `real`, whose size a GPU would tell
        return self.settings.ponder * (cost.sum() / real.sum())

    def _ends(self, *inputs: Any, each: bool = False) -> Iterator[Tensor]:
        """Yield the mixed streams, as if all running tokens halted, after each recurrence."""
        for end, _, _ in self._mixtures(*inputs):
            yield end

    def _mixtures(
        self,
        tokens: Tensor,
        ids: Sequence[Tensor],
        at: Tensor | None,
        recurrences: int | None,
        *more: Any,
    ) -> Iterator[tuple[Tensor, list[Tensor], Tensor]]:
        """Yield three results after each recurrence, for each token.

        They are the mixed stream as if all running tokens halted, the weights of the recurrences so
        far, and the recurrences taken.

        Args:
            more: the cache and the hooks, as in `forward`.
        """
        count, weights = recurrences or self.recurrences, []
        mixed, taken = 0.0, 0
        ends = super()._ends(tokens, ids, at, count, *more, each=True)
        for recurrence, x in enumerate(ends, start=1):
            probability = self._halting_probability(x, recurrence == count)
            if recurrence == 1:
                used = torch.zeros_like(probability)  # the sum of weights before a token halts
                running = torch.ones_like(probability, dtype=torch.bool)
            halts = running & (used + probability >= 1 - EPSILON)
            stays = running & ~halts
            weight = torch.where(halts, 1 - used, probability * stays)
            end = mixed + ((1 - used) * running)[..., None] * x
            mixed = mixed + weight[..., None] * x
            weights.append(weight.detach())
            taken = taken + running
            used, running = used + probability * stays, stays
            yield end, weights, taken
        if self.training and torch.is_grad_enabled():
            self._ponder_cost = taken + (1 - used)  # recurrences, and the weight of the last one

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
