"""Where heads look: attention averaged over problems of one cell (cho2025, 4.4 and Fig. 7).

What a sum needs, to write the digit at place p of a running sum:

    operand      the operand that is added, at place p
    sum so far   the running sum before it, at place p
    carry        both of them, and what has just been written, at place p - 1
    first token  nothing: attention has to go somewhere, and the first token is always there

Without a scratchpad the operands are all needed at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from carry.config import paths, run_settings
from carry.config.settings import SettingsError
from carry.data.batch import Batch
from carry.evaluation import trained_models
from carry.formats import ALPHABET
from carry.models.hooks import Hooks
from carry.models.system import System
from carry.randomness import stream
from carry.training.precision import training_in

PROBLEMS = 200
NEEDED = ("operand", "sum so far", "carry", "first token", "other")
TABLES = ("attention", "heads", "tokens")


@torch.inference_mode()
def averaged(
    system: System, cell: tuple[int, int], count: int = PROBLEMS
) -> tuple[Batch, Float[Tensor, "L H T T"]]:
    """Return one problem of a cell, and the mean attention over `count` of them.

    The layers are counted through all recurrences; ids start at 1.

    Raises:
        SettingsError: where problems of one cell are not all written alike.

    >>> from carry.models.constructions.adder import adder
    >>> batch, weights = averaged(adder(3, 2), (2, 3), count=4)
    >>> weights.shape, bool((weights.sum(-1) - 1).abs().max() < 1e-9)
    (torch.Size([1, 4, 29, 29]), True)
    """
    device = system.network.tokens.weight.device
    cells = torch.tensor([cell] * count, device=device)
    problems = system.task.sample(cells, stream(0, "attention", device=device))
    batch = system.format.write(problems)
    even = (batch.length == batch.length[0]).all() and (batch.start == batch.start[0]).all()
    if system.format.variable_length or not even:
        raise SettingsError(
            f"runs.{system.run.name}.evaluation.attention_cell: {list(cell)} does not fit, problems of "
            "one cell are not written alike; expected a format with pad: true, and no spaces"
        )
    system.network.eval()
    with training_in("fp32", device):
        return batch[:1], mean(system, batch)


@torch.inference_mode()
def mean(system: System, batch: Batch) -> Float[Tensor, "L H T T"]:
    """Return the mean attention over problems that are written alike, layer by layer."""
    inside = Hooks(["*.pattern"])
    system.network(batch.tokens, system.ids(batch), inside=inside)
    return torch.stack([of.mean(0) for of in inside.each("pattern")])


def needed(system: System, batch: Batch) -> tuple[list[int], Bool[Tensor, "G A T"]]:
    """Return the queries of one problem that write digits of sums, and what each of them needs.

    The groups are those of `NEEDED` but the last, in that order; the first that fits is taken.

    >>> from carry.models.constructions.adder import adder
    >>> from carry.tasks import to_digits
    >>> model = adder(3, 2)
    >>> batch = model.format.write(model.task.solve(*to_digits([[57, 48, 96]])))
    >>> queries, groups = needed(model, batch)
    >>> from carry.formats import text
    >>> def seen(group, at): return [i for i, of in enumerate(group[at].tolist()) if of]
    >>> at = len(queries) - 2  # the query that writes the middle digit of 102
    >>> [seen(group, at) for group in groups[:3]]
    [[10], [22], [11, 21, 25]]
    """
    number, place = batch.number[0].long(), batch.place[0].long()
    operands = int(number[: int(batch.start[0])].max())
    steps = system.format.has_steps
    queries, found = [], []
    for at in range(int(batch.start[0]) - 1, int(batch.length[0]) - 1):
        step, where = int(number[at + 1]) - operands - 1, int(place[at + 1])
        if where < 0 or (steps and step == 0):
            continue
        added = (number == step) if steps else (number > 0) & (number <= operands)
        before = number == (operands + step if steps else -1)
        own = number == operands + 1 + step
        past = torch.arange(len(number), device=number.device) <= at
        group = [
            added & (place == where),
            before & (place == where),
            (added | before | own) & (place == where - 1),
            torch.arange(len(number), device=number.device) == 0,
        ]
        queries.append(at)
        found.append(torch.stack(group) & past)
    return queries, torch.stack(found, dim=1)


def shares(system: System, batch: Batch, weights: Float[Tensor, "L H T T"]) -> pd.DataFrame:
    """Return for each head the mean share of its attention on what is `needed` of each kind.

    >>> from carry.models.constructions.adder import adder
    >>> model = adder(3, 2)
    >>> table = shares(model, *averaged(model, (2, 3), count=4))
    >>> table[table["head"] == 0].round(2)[["needed", "share"]].values.tolist()[:2]
    [['operand', 0.33], ['sum so far', 0.33]]
    """
    queries, groups = needed(system, batch)
    rows = weights[:, :, queries]
    on = torch.einsum("lhat,gat->lhg", rows, groups.to(rows)) / len(queries)
    on = torch.cat([on, 1 - on.sum(-1, keepdim=True)], dim=-1)
    return pd.DataFrame(
        [
            {"layer": layer, "head": head, "needed": name, "share": float(on[layer, head, index])}
            for layer in range(on.shape[0])
            for head in range(on.shape[1])
            for index, name in enumerate(NEEDED)
        ]
    )


def maps(weights: Float[Tensor, "L H T T"]) -> pd.DataFrame:
    """Return mean attention as a table, one row for each layer, head, query and key before it.

    >>> maps(torch.eye(2)[None, None])["weight"].tolist()
    [1.0, 0.0, 1.0]
    """
    layers, heads, width, _ = weights.shape
    query, key = torch.tril_indices(width, width)
    of = weights[:, :, query, key].flatten().cpu().float().numpy().round(4)
    index = pd.MultiIndex.from_product([range(layers), range(heads), range(len(query))])
    at = index.get_level_values(2)
    return pd.DataFrame(
        {
            "layer": index.get_level_values(0).astype("int16"),
            "head": index.get_level_values(1).astype("int16"),
            "query": query.numpy()[at].astype("int16"),
            "key": key.numpy()[at].astype("int16"),
            "weight": of,
        }
    )


def tokens(batch: Batch) -> pd.DataFrame:
    """Return what stands at each place of one problem: token, number, place and levels.

    >>> from carry.models.constructions.adder import adder
    >>> table = tokens(averaged(adder(3, 2), (2, 3), count=1)[0])
    >>> "".join(table["token"])[:10], table["level_2"].tolist()[:6]
    ('^015+017+0', [-1, 0, 0, 0, 0, 1])
    """
    table = pd.DataFrame(
        {
            "at": range(batch.tokens.shape[1]),
            "token": [ALPHABET[token] for token in batch.tokens[0].tolist()],
            "number": batch.number[0].tolist(),
            "place": batch.place[0].tolist(),
        }
    )
    for level in range(batch.levels.shape[2]):
        table[f"level_{level + 1}"] = batch.levels[0, :, level].tolist()
    return table


def look(
    system: System, cell: tuple[int, int], labels: dict[str, Any], count: int = PROBLEMS
) -> dict[str, pd.DataFrame]:
    """Return where the heads of a model look, as `TABLES`, labelled with the cell (`i`, `j`) too.

    >>> from carry.models.constructions.adder import adder
    >>> heads = look(adder(3, 2), (2, 3), {"row": "mine"}, 4)["heads"]
    >>> heads.loc[0, ["row", "needed"]].tolist(), heads[["i", "j", "n"]].values[0].tolist()
    (['mine', 'operand'], [2, 3, 4])
    """
    batch, weights = averaged(system, cell, count)
    made = (maps(weights), shares(system, batch, weights), tokens(batch))
    labels = {**labels, "i": cell[0], "j": cell[1], "n": count}
    return {
        name: table.assign(**labels)[[*labels, *table.columns]]
        for name, table in zip(TABLES, made, strict=True)
    }


def analyse(row: str, profile: str, seeds: Iterable[int] | None = None) -> Path | None:
    """Average the attention of a row's seeds over the cell that it asks for, and keep the tables.

    They are `attention.parquet` (see `maps`), `heads.parquet` (see `shares`) and `tokens.parquet`,
    beside the row's scores; nothing is kept for a row that asks for none.
    """
    asked = run_settings.load_run(row, profile)
    target = paths.reports_path(profile, "results", profile, row)
    if asked.evaluation.attention_cell is None:
        for name in TABLES:  # the row may have had some before
            (target / f"{name}.parquet").unlink(missing_ok=True)
        return None
    found: dict[str, list[pd.DataFrame]] = {name: [] for name in TABLES}
    for seed in range(asked.seeds) if seeds is None else seeds:
        labels = {"row": row, "profile": profile, "seed": seed}
        system, cell = (
            trained_models.load_trained(profile, row, seed),
            tuple(asked.evaluation.attention_cell),
        )
        for name, table in look(system, cell, labels).items():
            found[name].append(table)
    for name, parts in found.items():
        with paths.write_atomically(target / f"{name}.parquet") as draft:
            pd.concat(parts, ignore_index=True).to_parquet(draft, index=False)
    return target
