"""Position ids for a model of your own: Abacus and coupled ids, from which tokens are digits.

    tokens     ^ 3 5 6 + 9 4 = 2 0 7 $     653 + 49 = 702, least significant digits first
    abacus     0 1 2 3 0 1 2 0 1 2 3 0     the order inside each number
    coupled    0 2 3 4 1 2 3 1 2 3 4 0     the place, also of numbers that are not reversed

The functions take masks of tokens, as tensors, arrays or lists, and return ids of the same shape,
for `nn.Embedding` or `position_ids`. With a `generator` the ids are those of training, from a
random start for each problem; without, those of evaluation, from 1 on.

They are the ids of the schemes in `carry.positions`, which read the marks of our own formats.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from carry.config.settings import SettingsError, describe
from carry.data.batch import NO_LEVEL, NO_PLACE, Batch
from carry.formats import PLUS
from carry.positions import RandomStart
from carry.positions.abacus import Abacus
from carry.positions.coupled import Coupled


def abacus(
    is_digit: Any, offset: int = 1, jumps: int = 0, generator: torch.Generator | None = None
) -> Integer[Tensor, "*B T"]:
    """Return Abacus ids (McLeish et al. 2024): the order inside each run of digits; else 0.

    Args:
        is_digit: which tokens are digits, of problems with T tokens; `torch.isin(tokens, digits)`.
        offset: in training, the first id of a problem is uniform from 1 to this (k in the paper,
            which draws one for each batch). The largest id is that of the longest number, plus
            `offset` - 1.
        jumps: in training, up to so many random cuts divide the places of a problem into pieces,
            whose ids do not overlap (positional skip-wise training). Leave what is `unknowable`
            out of the loss.
        generator: for ids of training; they are the same for each kind of device.

    >>> is_digit = [[character.isdigit() for character in "356+94=207$"]]
    >>> abacus(is_digit).tolist()
    [[1, 2, 3, 0, 1, 2, 0, 1, 2, 3, 0]]
    >>> abacus(is_digit, offset=90, generator=torch.Generator().manual_seed(0)).tolist()
    [[45, 46, 47, 0, 45, 46, 0, 45, 46, 47, 0]]

    Raises:
        SettingsError: for a mask that is none, for numbers that do not fit, and for training ids
            without a generator.
    """
    settings = {"offset": offset, "jumps": jumps}
    scheme = Abacus.parse({**settings, "per_example": True}, "abacus")
    _check_generator("abacus", settings, generator, offset > 1 or jumps > 0)
    is_digit = _read_mask("is_digit", is_digit)
    return _draw_ids(scheme, is_digit, NO_LEVEL + 0 * is_digit.long(), generator)


def coupled(
    is_digit: Any,
    is_sign: Any = None,
    reverse: Any = True,
    limit: int | None = None,
    jumps: int = 0,
    generator: torch.Generator | None = None,
) -> Integer[Tensor, "*B T"]:
    """Return coupled ids (Cho et al. 2024): 2 for units, 3 for tens, ...; 1 for signs; else 0.

    If all numbers are reversed, ids of the first tokens do not depend on those that follow. Those
    of a plain number depend on all of its digits: the id of its first one tells its length.

    Args:
        is_digit: which tokens are digits, of problems with T tokens.
        is_sign: which tokens are signs between numbers, such as `+` and `=`.
        reverse: which tokens belong to numbers with the least significant digit first; True or
            False for all. In cho2025 these are the tokens of the answer.
        limit: in training, each problem starts at a random id, such that its last id is at most
            this.
        jumps: as in `abacus`.
        generator: as in `abacus`.

    >>> text = "653+049=2070$"
    >>> is_digit, is_sign = ([at in kind for at in text] for kind in ("0123456789", "+="))
    >>> in_answer = [place > text.index("=") for place in range(len(text))]
    >>> coupled(is_digit, is_sign, reverse=in_answer).tolist()
    [4, 3, 2, 1, 4, 3, 2, 1, 2, 3, 4, 5, 0]

    Raises:
        SettingsError: as `abacus`, and for a token that is a digit and a sign.
    """
    settings = {"limit": limit, "jumps": jumps}
    scheme = Coupled.parse(settings, "coupled")
    _check_generator("coupled", settings, generator, limit is not None)
    is_digit = _read_mask("is_digit", is_digit)
    is_sign = _read_mask("is_sign", False if is_sign is None else is_sign, is_digit)
    reverse = _read_mask("reverse", reverse, is_digit)
    if (is_digit & is_sign).any():
        raise SettingsError("is_sign: a token is a digit too; expected `+`, `=` and other signs")
    after = _count_in_run(is_digit.flip(-1)).flip(-1)
    place = torch.where(reverse, _count_in_run(is_digit), after) - 1
    level = torch.where(is_digit, place + 1, torch.where(is_sign, 0, NO_LEVEL))
    needed = int(level.amax()) + 1 if level.numel() else 0
    if limit is not None and limit < needed:
        raise SettingsError(f"coupled.limit: {limit} is too small; expected at least {needed}")
    return _draw_ids(scheme, is_digit, level, generator)


def unknowable(plain: Any, ids: Any) -> Bool[Tensor, "*B T"]:
    """Return the tokens that no model can know with `jumps`: leave them out of the loss.

    A token is predicted from ids of the tokens before it. These do not tell where the ids go on
    after a jump.

    Args:
        plain: the ids of evaluation of the same tokens.
        ids: the ids of training.

    >>> unknowable([1, 2, 3, 0, 1, 2, 0, 1, 2, 3], [7, 8, 2, 0, 7, 8, 0, 7, 8, 2]).int().tolist()
    [0, 0, 1, 0, 0, 0, 0, 0, 0, 1]

    Raises:
        SettingsError: for ids that are no integers, and for others than those of the same tokens.
    """
    plain, ids = _read_ids("plain", plain), _read_ids("ids", ids)
    if plain.shape != ids.shape:
        raise SettingsError(f"ids: {_shape(ids)} tokens do not fit; expected {_shape(plain)}")
    batch = _make_batch(plain > 0, plain - 1)
    marked = Coupled(limit=1, jumps=1).unknowable(batch, ids.reshape(batch.tokens.shape))
    return marked.reshape(ids.shape)


def find_digits(tokens: Integer[Tensor, "*B T"], tokenizer: Any) -> Bool[Tensor, "*B T"]:
    """Return which tokens are digits, by the vocabulary of a tokenizer of Hugging Face.

    Raises:
        SettingsError: for a token with a digit and another character, such as `12` or a digit with
            the space before it: no id counts its digits.
    """
    tokens = torch.as_tensor(tokens)
    if tokens.dtype == torch.bool or tokens.is_floating_point():
        raise SettingsError(f"tokens: {_name_type(tokens)} are no tokens; expected integers")
    kinds, index = tokens.unique(return_inverse=True)
    is_digit = torch.zeros_like(kinds, dtype=torch.bool)
    for at, token in enumerate(kinds.tolist()):
        if token in tokenizer.all_special_ids or not {*tokenizer.decode([token])} & {*"0123456789"}:
            continue
        text = tokenizer.convert_ids_to_tokens(token)
        if len(text) > 1:
            raise SettingsError(
                f"tokens: {describe(text)} is one token; expected a tokenizer that splits numbers "
                "into digits, without spaces"
            )
        is_digit[at] = True
    return is_digit[index]


def _check_generator(
    name: str, settings: dict[str, Any], generator: torch.Generator | None, is_random: bool
) -> None:
    """Refuse what is no generator, and random ids without one: training would have one start."""
    if generator is not None and not isinstance(generator, torch.Generator):
        raise SettingsError(
            f"{name}.generator: {describe(generator)} is none; expected a torch.Generator"
        )
    if is_random and generator is None:
        given = ", ".join(f"{key} {value}" for key, value in settings.items() if value)
        raise SettingsError(
            f"{name}: {given} without a generator; expected generator=torch.Generator() in "
            "training, and none of these settings in evaluation"
        )


def _read_mask(name: str, mask: Any, like: Tensor | None = None) -> Bool[Tensor, "*B T"]:
    """Return a mask as a tensor, of the shape and on the device of another one."""
    try:
        mask = torch.as_tensor(mask)
    except (ValueError, TypeError, RuntimeError):
        raise SettingsError(f"{name}: {describe(mask)} is no mask; expected a tensor") from None
    if mask.dtype != torch.bool:
        raise SettingsError(
            f"{name}: {_name_type(mask)} is no mask; expected bool, as `torch.isin(tokens, digits)`"
        )
    if like is None:
        if not mask.ndim or not mask.shape[-1]:
            raise SettingsError(f"{name}: no tokens; expected a value for each token")
        return mask
    try:
        return mask.to(like.device).expand(like.shape)
    except RuntimeError:
        raise SettingsError(
            f"{name}: {_shape(mask)} tokens do not fit; expected {_shape(like)}, as in is_digit"
        ) from None


def _read_ids(name: str, ids: Any) -> Integer[Tensor, "*B T"]:
    try:
        ids = torch.as_tensor(ids)
    except (ValueError, TypeError, RuntimeError):
        raise SettingsError(f"{name}: {describe(ids)} are no ids; expected a tensor") from None
    if ids.dtype == torch.bool or ids.is_floating_point() or not ids.ndim or not ids.shape[-1]:
        found = f"{_name_type(ids)}, {_shape(ids) or 'no'} tokens"
        raise SettingsError(f"{name}: {found}; expected integers, an id for each token")
    return ids.long()


def _name_type(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _shape(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape))


def _count_in_run(is_digit: Bool[Tensor, "*B T"]) -> Integer[Tensor, "*B T"]:
    """Return the digits of a run up to each token; 0 for other tokens."""
    index = torch.arange(is_digit.shape[-1], device=is_digit.device).expand(is_digit.shape)
    before = torch.where(is_digit, -1, index).cummax(-1).values
    return torch.where(is_digit, index - before, 0)


def _draw_ids(
    scheme: RandomStart,
    is_digit: Bool[Tensor, "*B T"],
    level: Integer[Tensor, "*B T"],
    generator: torch.Generator | None,
) -> Integer[Tensor, "*B T"]:
    """Return the ids of a scheme; ids of training are drawn where the generator is."""
    batch = _make_batch(is_digit, level)
    if generator is None:
        ids = scheme.ids(batch)
    else:
        ids = scheme.train_ids(batch.to(generator.device), generator)
    return ids.reshape(is_digit.shape).to(is_digit.device)


def _make_batch(is_digit: Bool[Tensor, "*B T"], level: Integer[Tensor, "*B T"]) -> Batch:
    """Return the marks that schemes read: each run of digits is a number."""
    is_digit, level = (each.reshape(-1, each.shape[-1]) for each in (is_digit, level))
    first = is_digit & ~torch.nn.functional.pad(is_digit[:, :-1], (1, 0))
    number = torch.where(is_digit, first.cumsum(1), 0)
    nothing = torch.full_like(number, NO_PLACE)
    length = torch.full_like(number[:, 0], number.shape[1])
    return Batch(torch.where(is_digit, 0, PLUS), number, nothing, level[..., None], length, length)
