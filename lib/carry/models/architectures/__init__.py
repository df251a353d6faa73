"""Architectures: tokens and ids become logits."""

from __future__ import annotations

from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor, nn

from carry.config import settings


class Architecture(nn.Module):
    """An architecture; its settings are `Settings`, and its name is its file's."""

    class Settings(settings.Settings):
        """The settings of this kind."""

    def penalty(self, real: Bool[Tensor, "B A"]) -> Float[Tensor, ""] | None:
        """Return what the last pass in training adds to the loss, if anything; asked once.

        Args:
            real: which of the tokens that were asked for are not padding.
        """
        return None


def choose(given: dict[str, Any], where: str = "model") -> tuple[type[Architecture], Any]:
    """Return the architecture that the settings name (`transformer` by default), and its settings.

    >>> kind, given = choose({"layers": 2, "width": 64})
    >>> kind.__name__, given.layers
    ('Transformer', 2)
    """
    given = dict(given)
    name = given.pop("name", "transformer")
    kind = settings.choose_class("carry.models.architectures", Architecture, name, f"{where}.name")
    return kind, kind.Settings.parse(given, where)
