"""A looped decoder that decides for each token how deep to go (Graves 2016, Dehghani et al. 2018).

embedding -> [ block ] -> x1 -> [ block ] -> x2 -> [ block ] -> x3
                           |                  |                  |
                          p1 x1       +      p2 x2       +      what is left, times x3 -> logits
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pydantic
import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor, nn

from carry.models.architectures.transformer import Transformer, pick_tokens
from carry.models.cache import Cache
from carry.models.encodings import Encoding, Shape
from carry.models.hooks import Hooks


class Adaptive(Transformer):
    """A decoder whose block is run up to `recurrences` times, and where each token halts by itself.

    After recurrence t a learned unit reads a token's residual stream x_t: p_t = sigmoid(w x_t + b).
    The token halts where the sum of these reaches 1 - `epsilon`, at the last recurrence at latest,
    and its logits are read off the sum of p_t x_t, in which x_t of that recurrence has the weight
    that is left to 1 (Graves 2016, section 2). Its stream goes on being worked out, for others to
    look at, as in the released code of the Universal Transformer (which reads p_t off x_(t-1)).

    `ponder`: the weight in the loss of the recurrences taken and the weight left when halting
    (2.1 there). `halting_bias`: the first b; tokens halt sooner where it is larger.
    """

    class Settings(Transformer.Settings):
        """The settings of this kind."""

        recurrences: int = pydantic.Field(default=4, ge=2)
        ponder: float = pydantic.Field(default=0.01, ge=0.0, allow_inf_nan=False)
        epsilon: float = pydantic.Field(default=0.01, gt=0.0, lt=1.0)
        halting_bias: float = pydantic.Field(default=1.0, allow_inf_nan=False)

    def __init__(
        self, given: Settings, symbols: int, encodings: Sequence[Encoding], shape: Shape
    ) -> None:
        super().__init__(given, symbols, encodings, shape)
        self.halting = nn.Linear(given.width, 1)  # drawn last, so that the rest is as without it
        nn.init.normal_(self.halting.weight, std=given.width**-0.5)
        nn.init.constant_(self.halting.bias, given.halting_bias)
        self._cost: Tensor | None = None  # of each token asked, in the last pass in training

    def forward(
        self,
        tokens: Integer[Tensor, "B T"],
        ids: Sequence[Integer[Tensor, "_ S"]],
        at: Integer[Tensor, "_ A"] | None = None,
        recurrences: int | None = None,
        cache: Cache | None = None,
        inside: Hooks | None = None,
    ) -> Float[Tensor, "B _ V"]:
        """Return logits for the next token; takes and raises what a `Transformer` does."""
        rounds, mixture = self._rounds(recurrences), self._mixture(tokens, at)
        for x, chance in self._recurrences(tokens, ids, at, rounds, cache, inside):
            mixture.add(x, chance)
        if self.training and torch.is_grad_enabled():
            self._cost = mixture.cost
        return self.read(mixture.sum, inside)

    @torch.no_grad()
    def each_recurrence(
        self,
        tokens: Integer[Tensor, "B T"],
        ids: Sequence[Integer[Tensor, "_ S"]],
        at: Integer[Tensor, "_ A"] | None = None,
        recurrences: int | None = None,
    ) -> Float[Tensor, "R B _ V"]:
        """Return logits as if the model ended after each recurrence, where all that go on halt.

        Raises:
            SettingsError: for less than one recurrence.
        """
        rounds, mixture, logits = self._rounds(recurrences), self._mixture(tokens, at), []
        for x, chance in self._recurrences(tokens, ids, at, rounds):
            logits.append(self.read(mixture.if_ended(x)))
            mixture.add(x, chance)
        return torch.stack(logits)

    @torch.no_grad()
    def recurrences_taken(
        self,
        tokens: Integer[Tensor, "B T"],
        ids: Sequence[Integer[Tensor, "_ S"]],
        at: Integer[Tensor, "_ A"] | None = None,
        recurrences: int | None = None,
    ) -> Taken:
        """Return how deep tokens go before their successors are said; takes what `forward` does.

        Raises:
            SettingsError: for less than one recurrence.

        >>> from carry.randomness import stream
        >>> from carry.models.system import System
        >>> from carry.config.run_settings import make_run
        >>> model = {"name": "adaptive", "recurrences": 3, "width": 8, "halting_bias": 9.0}
        >>> system = System(make_run({"task": {"name": "addition"}, "model": model}))
        >>> batch = system.format.write(system.task.draw(1, 1, stream(0, "doctest")))
        >>> taken = system.network.recurrences_taken(batch.tokens, [], batch.response()[0])
        >>> taken.count.tolist(), taken.mean.tolist()
        ([[1, 1, 1]], [[1.0, 1.0, 1.0]])
        """
        rounds, mixture = self._rounds(recurrences), self._mixture(tokens, at)
        for x, chance in self._recurrences(tokens, ids, at, rounds):
            mixture.add(x, chance)
        weights = torch.stack(mixture.weights, dim=-1)
        depths = torch.arange(1, rounds + 1, device=weights.device).to(weights.dtype)
        return Taken(mixture.taken, weights @ depths)

    def penalty(self, real: Bool[Tensor, "B A"]) -> Float[Tensor, ""] | None:
        """Return the ponder cost of the last pass in training, a mean over the tokens `real`."""
        cost, self._cost = self._cost, None
        return None if cost is None else self.given.ponder * cost[:, : real.shape[1]][real].mean()

    def _mixture(self, tokens: Tensor, at: Tensor | None) -> Mixture:
        asked = tokens if at is None else at.expand(len(tokens), -1)
        spent = torch.zeros_like(asked, dtype=self.halting.weight.dtype)
        return Mixture(spent, self.given.epsilon)

    def _recurrences(
        self,
        tokens: Tensor,
        ids: Sequence[Tensor],
        at: Tensor | None,
        rounds: int,
        cache: Cache | None = None,
        inside: Hooks | None = None,
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the streams of the tokens asked after each recurrence, and the chance to halt."""
        streams = self._streams(tokens, ids, at, rounds, cache, inside)
        for recurrence, x in enumerate(streams, start=1):
            final = recurrence == rounds
            x = self._scaled(x if final or at is None else pick_tokens(x, at), 1 / rounds)
            yield x, self._chance(x, final)

    def _chance(self, x: Tensor, final: bool) -> Tensor:
        weight = self.halting.weight
        if final:  # whatever is left is spent
            return torch.ones(x.shape[:2], dtype=weight.dtype, device=x.device)
        with torch.autocast(x.device.type, enabled=False):  # thresholds are no place for bf16
            return self.halting(x.to(weight.dtype))[..., 0].sigmoid()


class Taken(NamedTuple):
    """How deep tokens go: in how many recurrences, and their mean by the weights of the streams."""

    count: Integer[Tensor, "B A"]
    mean: Float[Tensor, "B A"]


class Mixture:
    """The weighted sum of the residual streams of tokens, as recurrences go on until all halt.

    >>> mixture = Mixture(torch.zeros(1, 2), epsilon=0.01)
    >>> for chance in ([0.25, 0.5], [0.5, 0.75], [1.0, 1.0]):
    ...     mixture.add(torch.ones(1, 2, 4), torch.tensor([chance]))
    >>> [weight.tolist() for weight in mixture.weights]
    [[[0.25, 0.5]], [[0.5, 0.5]], [[0.25, 0.0]]]
    >>> mixture.taken.tolist(), mixture.cost.tolist()
    ([[3, 2]], [[3.25, 2.5]])
    """

    def __init__(self, spent: Float[Tensor, "B A"], epsilon: float) -> None:
        self.spent, self.epsilon = spent, epsilon  # what recurrences before that of halting have
        self.going = torch.ones_like(spent, dtype=torch.bool)
        self.taken = torch.zeros_like(spent, dtype=torch.long)
        self.weights: list[Tensor] = []
        self.sum: Tensor | float = 0.0

    def add(self, x: Float[Tensor, "B A D"], chance: Float[Tensor, "B A"]) -> None:
        """Add the streams of one more recurrence, at which each token has a chance to halt."""
        halts = self.going & (self.spent + chance >= 1 - self.epsilon)
        stays = self.going & ~halts
        weight = torch.where(halts, 1 - self.spent, chance * stays)
        self.sum = self.sum + weight[..., None] * x
        self.weights.append(weight.detach())
        self.taken = self.taken + self.going
        self.spent, self.going = self.spent + chance * stays, stays

    def if_ended(self, x: Float[Tensor, "B A D"]) -> Float[Tensor, "B A D"]:
        """Return the sum as it would be if all tokens that go on halted at this recurrence."""
        return self.sum + ((1 - self.spent) * self.going)[..., None] * x

    @property
    def cost(self) -> Float[Tensor, "B A"]:
        """The ponder cost once all have halted: recurrences taken, and what was left at the end."""
        return self.taken + (1 - self.spent)
