"""What happens inside a model: every activation of a pass has a name, to be read or replaced by.

    embed                 tokens, with what encodings add to them     [B, T, D]
    0.resid_pre           the residual stream before layer 0          [B, T, D]
    0.q  0.k  0.v         queries, keys, values, as yet unturned      [B, H, T, d]
    0.pattern             attention weights, queries by keys          [B, H, T, T]
    0.z                   what each head finds                        [B, H, T, d]
    0.attn_out            what attention adds                         [B, T, D]
    0.resid_mid           the stream after attention                  [B, T, D]
    0.mlp_post            the feed-forward network's hidden units     [B, T, F]
    0.mlp_out             what that network adds                      [B, T, D]
    0.resid_post          the stream after layer 0                    [B, T, D]
    final                 what the logits are read from               [B, T, D]
    logits                                                            [B, T, V]

Layers are counted through all recurrences. A model without feed-forward networks has no `mlp`. The
names are those of TransformerLens (Nanda & Bloom 2022), shortened. That library has its own
transformers, and its hooks are modules, which our weights would have to be copied into; ours is a
mapping that the pass is given, so that decoding, loops and constructions have it too.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Mapping

from torch import Tensor

from carry.config.settings import SettingsError, suggest_name

Replacement = Tensor | Callable[[Tensor], Tensor]
Hook = Callable[[str, Tensor], Tensor]

OF_LAYER = ("resid_pre", "q", "k", "v", "pattern", "z", "attn_out", "resid_mid", "mlp_post",
            "mlp_out", "resid_post")  # fmt: skip


class Hooks(Mapping[str, Tensor]):
    """The activations of one pass by name, as they were after any replacement.

    Args:
        read: names to be kept, all by default; `*` stands for anything, as in `*.pattern`.
        replace: a tensor of the same shape for a name, or a function from what the pass worked out
            to what it goes on with.

    Raises:
        SettingsError: when the pass begins, for a name that the model does not have, with the
            nearest; and for a tensor of another shape than the activation's.

    >>> from carry.models.system import System
    >>> from carry.randomness import stream
    >>> from carry.config.run_settings import make_run
    >>> system = System(make_run({"task": {"name": "addition"}}))
    >>> batch = system.format.write(system.task.draw(5, digits=3, generator=stream(0, "doctest")))
    >>> inside = Hooks(["*.pattern"], replace={"0.z": lambda z: 0 * z})
    >>> logits = system.network(batch.tokens, system.ids(batch), inside=inside)
    >>> list(inside), inside["0.pattern"].shape
    (['0.pattern'], torch.Size([5, 4, 12, 12]))
    """

    def __init__(
        self, read: Iterable[str] = ("*",), replace: Mapping[str, Replacement] | None = None
    ) -> None:
        self.read, self.replace = list(read), dict(replace or {})
        self._kept: dict[str, Tensor] = {}
        self._wanted: set[str] = set()

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._kept:
            raise SettingsError(
                f"activation: {name!r} was not read, {suggest_name(name, self._kept)}"
            )
        return self._kept[name]

    def __iter__(self):
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, name: object) -> bool:
        return name in self._kept

    def each(self, part: str) -> list[Tensor]:
        """Return one activation of every layer that it was read of, through all recurrences."""
        return [value for name, value in self._kept.items() if name.partition(".")[2] == part]

    def begin(self, names: Iterable[str]) -> None:
        """Start a pass of a model that has these activations; forget what was read before."""
        names, self._kept, self._wanted = list(names), {}, set()
        for asked in self.read:
            found = fnmatch.filter(names, asked)
            if not found:
                raise SettingsError(
                    f"read: {asked!r} is no activation, {suggest_name(asked, names)}"
                )
            self._wanted.update(found)
        for asked in self.replace:
            if asked not in names:
                raise SettingsError(
                    f"replace: {asked!r} is no activation, {suggest_name(asked, names)}"
                )

    def wants(self, name: str) -> bool:
        """Say whether a pass has to work an activation out that it could do without."""
        return name in self._wanted or name in self.replace

    def take(self, name: str, value: Tensor) -> Tensor:
        """Take an activation down, and return what the pass is to go on with."""
        if name in self.replace:
            value = _replaced(name, value, self.replace[name])
        if name in self._wanted:
            self._kept[name] = value
        return value

    def layer(self, number: int) -> Hook:
        """Return `take` for the parts of one layer."""
        return lambda part, value: self.take(f"{number}.{part}", value)


def no_hook(part: str, value: Tensor) -> Tensor:
    """Return an activation as it is: the `take` of a pass that nobody looks into."""
    return value


def activation_names(steps: int, feed_forward: bool = True) -> list[str]:
    """Return the names of the activations of a model of so many layers, through all recurrences.

    >>> activation_names(1, feed_forward=False)[:3], len(activation_names(2))
    (['embed', '0.resid_pre', '0.q'], 25)
    """
    parts = [part for part in OF_LAYER if feed_forward or not part.startswith("mlp")]
    layers = [f"{step}.{part}" for step in range(steps) for part in parts]
    return ["embed", *layers, "final", "logits"]


def _replaced(name: str, value: Tensor, by: Replacement) -> Tensor:
    new = by if isinstance(by, Tensor) else by(value)
    if new.shape != value.shape:
        raise SettingsError(
            f"replace.{name}: shape {tuple(new.shape)} does not fit, expected {tuple(value.shape)}"
        )
    return new
