"""Attention averaged over problems of one cell, and its share on needed tokens (cho2025, Fig. 7).

To write the digit at place p of a running sum, a model needs:

    operand      the added operand at place p
    sum so far   the previous running sum at place p
    carry        both of them, and the last written digit, at place p - 1
    first token  nothing: attention sums to one, and the first token is in every context

Without a scratchpad a model needs all operands at once.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from carry.config.settings import SettingsError
from carry.data.batch import Batch
from carry.formats import ALPHABET
from carry.models.hooks import Hooks
from carry.models.system import System
from carry.randomness import stream
from carry.training.precision import use_precision

PROBLEMS = 200
NEEDED = ("operand", "sum so far", "carry", "first token", "other")
LABELS = ("row", "scale", "seed", "i", "j", "n")
COLUMNS = {
    "attention": (*LABELS, "layer", "head", "query", "key", "weight"),
    "heads": (*LABELS, "layer", "head", "needed", "share"),
    "tokens": (*LABELS, "at", "token", "number", "place"),
}


@torch.inference_mode()
def read_attention(system: System, batch: Batch) -> list[Float[Tensor, "B H T T"]]:
    """Return the attention of each layer, through all recurrences."""
    hooks = Hooks(["*.pattern"])
    system.network.eval()(batch.tokens, system.ids(batch), hooks=hooks)
    return hooks.all_layers("pattern")


def check_same_layout(system: System, *batches: Batch) -> None:
    """Refuse problems that are not written with the same layout, token by token.

    Raises:
        SettingsError: with the numbers of tokens.
    """
    lengths, starts = (
        torch.cat([getattr(batch, mark) for batch in batches]) for mark in ("length", "start")
    )
    same = (lengths == lengths[0]).all() and (starts == starts[0]).all()
    if same:
        places = torch.cat([batch.place[:, : lengths[0]] for batch in batches])
        same = (places == places[0]).all()
    if not same:
        raise SettingsError(
            f"runs.{system.run.name}.format: its problems of {int(lengths.min())} to "
            f"{int(lengths.max())} tokens have different layouts; expected pad: true and no spaces"
        )


def _find_needed_tokens(system: System, batch: Batch) -> tuple[list[int], Bool[Tensor, "G A T"]]:
    """Return the queries of one problem that write digits of sums, and the tokens each needs.

    The groups are those of `NEEDED` without the last one, in this order.

    >>> from carry.models.constructions.adder import build_adder
    >>> from carry.tasks import to_digits
    >>> model = build_adder(3, 2)
    >>> batch = model.format.write(model.task.solve(*to_digits([[57, 48, 96]])))
    >>> queries, groups = _find_needed_tokens(model, batch)
    >>> middle = len(queries) - 2  # the query that writes the middle digit of 102
    >>> [group[middle].nonzero().flatten().tolist() for group in groups[:3]]
    [[10], [22], [11, 21, 25]]
    """
    number, place = batch.number[0].long(), batch.place[0].long()
    operands = int(number[: int(batch.start[0])].max())
    steps = system.format.has_steps
    at = torch.arange(len(number), device=number.device)
    queries, groups = [], []
    for query in range(int(batch.start[0]) - 1, int(batch.length[0]) - 1):
        step, target_place = int(number[query + 1]) - operands - 1, int(place[query + 1])
        if target_place < 0 or (steps and step == 0):
            continue
        added = (number == step) if steps else (number > 0) & (number <= operands)
        before = number == (operands + step if steps else -1)
        written = number == operands + 1 + step
        group = [
            added & (place == target_place),
            before & (place == target_place),
            (added | before | written) & (place == target_place - 1),
            at == 0,
        ]
        queries.append(query)
        groups.append(torch.stack(group) & (at <= query))
    return queries, torch.stack(groups, dim=1)


@torch.inference_mode()
def describe_batch(system: System, batch: Batch) -> dict[str, pd.DataFrame]:
    """Return the mean attention of a model over problems of one layout, as tables.

    Layers are counted through all recurrences.

    Returns:
        attention: the mean `weight` of each `layer`, `head`, `query` and earlier `key`.
        heads: the mean `share` of each `layer` and `head` on each group of `NEEDED` tokens.
        tokens: the tokens of the first problem and their marks: `number` and `place`.

    Raises:
        SettingsError: for problems of different layouts.

    >>> from carry.models.constructions.adder import build_adder
    >>> from carry.tasks import to_digits
    >>> model = build_adder(3, 2)
    >>> problem = model.task.solve(*to_digits([[57, 48, 96]]))
    >>> tables = describe_batch(model, model.format.write(problem))
    >>> heads = tables["heads"].query("head == 0").round(2)
    >>> heads[["needed", "share"]].values.tolist()[:2]
    [['operand', 0.33], ['sum so far', 0.33]]
    >>> "".join(tables["tokens"]["token"])[:4], tables["tokens"]["number"].tolist()[:6]
    ('^057', [0, 1, 1, 1, 0, 2])
    """
    check_same_layout(system, batch)
    weights = torch.stack([pattern.mean(0) for pattern in read_attention(system, batch)])
    return {
        "attention": _tabulate_attention(weights),
        "heads": _tabulate_needed_shares(system, batch, weights),
        "tokens": _tabulate_tokens(batch),
    }


def _tabulate_needed_shares(
    system: System, batch: Batch, weights: Float[Tensor, "L H T T"]
) -> pd.DataFrame:
    queries, groups = _find_needed_tokens(system, batch)
    rows = weights[:, :, queries]
    shares = torch.einsum("lhat,gat->lhg", rows, groups.to(rows)) / len(queries)
    shares = torch.cat([shares, 1 - shares.sum(-1, keepdim=True)], dim=-1)
    return pd.DataFrame(
        [
            {"layer": layer, "head": head, "needed": name, "share": float(shares[layer, head, at])}
            for layer in range(shares.shape[0])
            for head in range(shares.shape[1])
            for at, name in enumerate(NEEDED)
        ]
    )


def _tabulate_attention(weights: Float[Tensor, "L H T T"]) -> pd.DataFrame:
    layers, heads, width, _ = weights.shape
    query, key = torch.tril_indices(width, width)
    index = pd.MultiIndex.from_product([range(layers), range(heads), range(len(query))])
    pair = index.get_level_values(2)
    return pd.DataFrame(
        {
            "layer": index.get_level_values(0).astype("int16"),
            "head": index.get_level_values(1).astype("int16"),
            "query": query.numpy()[pair].astype("int16"),
            "key": key.numpy()[pair].astype("int16"),
            "weight": weights[:, :, query, key].flatten().cpu().float().numpy().round(4),
        }
    )


def _tabulate_tokens(batch: Batch) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "at": range(batch.tokens.shape[1]),
            "token": [ALPHABET[token] for token in batch.tokens[0].tolist()],
            "number": batch.number[0].tolist(),
            "place": batch.place[0].tolist(),
        }
    )


def describe_attention(
    system: System, cell: tuple[int, int], labels: dict[str, Any]
) -> dict[str, pd.DataFrame]:
    """Return `describe_batch` of `PROBLEMS` problems of a cell, with `labels` and the cell.

    >>> from carry.models.constructions.adder import build_adder
    >>> heads = describe_attention(build_adder(3, 2), (2, 3), {"row": "mine"})["heads"]
    >>> heads.loc[0, ["row", "needed"]].tolist(), heads[["i", "j", "n"]].values[0].tolist()
    (['mine', 'operand'], [2, 3, 200])
    """
    generator, cells = stream(0, "attention", device=system.device), torch.tensor([cell] * PROBLEMS)
    problems = system.task.draw_for_cells(cells.to(system.device), generator)
    batch = system.format.write(problems)
    with use_precision("fp32", system.device):
        tables = describe_batch(system, batch)
    labels = {**labels, "i": cell[0], "j": cell[1], "n": PROBLEMS}
    return {
        name: table.assign(**labels)[[*labels, *table.columns]] for name, table in tables.items()
    }
