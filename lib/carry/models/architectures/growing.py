"""A looped decoder whose depth grows with the question, and that answers at once (Fan et al. 2024).

question and slots      ^  1  0  1  +  1  1  0  =  =  =  =  =
tokens of the question  1  2  3  4  5  6  7  8  9  9  9  9  9     up to each token
loops, 2 tokens each    1  1  2  2  3  3  4  4  5  5  5  5  5
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pydantic
import torch
import torch.nn.functional as F
from torch import Tensor

from carry.formats import EQUALS
from carry.models.architectures import Architecture
from carry.models.architectures.transformer import Transformer
from carry.models.cache import Cache
from carry.models.hooks import Hooks


class Growing(Transformer):
    """A decoder that runs its block more often for a longer question.

    For every `tokens_per_loop` tokens of the question, the last ones included, the block is run
    `recurrences` times. A token counts the tokens up to itself, so that no logits depend on later
    tokens; those of the response, up to the first `=`. Its logits are read after its own loops.

    The model reads `=` in place of every token after the first `=`: the tokens of the response do
    not depend on each other, and one pass writes all of them (full-answer prediction; Fan et al.
    2024, arXiv:2409.15647).
    """

    class Settings(Transformer.Settings):
        """The settings of a transformer, and of the growth."""

        tokens_per_loop: int = pydantic.Field(default=2, ge=1)

    # Decoding keeps tokens instead of keys and values, of which more loops would need more. Hooks
    # are refused, since the layers that they would name depend on the question.
    next_logits = Architecture.next_logits
    activation_names = Architecture.activation_names

    def _initial_depth(self) -> int:
        """Return the layers alone: a block starts alike, whatever the number of its loops."""
        return self.settings.layers

    def _ends(
        self,
        tokens: Tensor,
        ids: Sequence[Tensor],
        at: Tensor | None,
        recurrences: int | None,
        cache: Cache | None = None,
        hooks: Hooks | None = None,
        each: bool = False,
    ) -> Iterator[Tensor]:
        """Yield the streams that logits are read from: of each token after its own loops.

        They are those of the model with so many `recurrences`, or with each number up to it.
        """
        in_response = F.pad((tokens == EQUALS).cumsum(1), (1, 0))[:, :-1] > 0
        tokens = torch.where(in_response, EQUALS, tokens)
        loops = -(-(~in_response).cumsum(1) // self.settings.tokens_per_loop)  # rounded up
        if at is not None:
            loops = loops.gather(1, at.expand(len(tokens), -1))
        most = recurrences or self.recurrences
        wanted = range(1, most + 1) if each else (most,)
        passes = super()._ends(tokens, ids, at, most * int(loops.max()), cache, hooks, each=True)
        ends: list[Tensor | None] = [None for _ in wanted]
        for step, x in enumerate(passes, start=1):
            for index, recurrence in enumerate(wanted):
                end, ends_here = ends[index], (recurrence * loops == step)[..., None]
                ends[index] = x if end is None else torch.where(ends_here, x, end)
        yield from ends
