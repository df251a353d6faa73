"""Ids that differ more than any in training: who attends to them, and which tokens go wrong.

In training, a query of a sum of N digits meets ids that differ from its own by N at most. In a
longer sum there are many more, and no training problem has shown their products with the query.
Most queries do not mind: the digits that they look for exist and attract them more. A query that
looks for what does not exist, such as the one after the last digit, has no such digit.
"""

from __future__ import annotations

import pandas as pd
import torch

from carry import formats
from carry.data.batch import Batch
from carry.evaluation.ask import check_ids
from carry.evaluation.scoring import PARTS, find_wrong_parts
from carry.interpretability.attention import read_attention
from carry.models.system import System
from carry.models.teacher_forcing import teacher_forced_pass
from carry.randomness import stream
from carry.training.precision import use_precision

COUNT = 50  # problems of a length


def measure_errors(system: System, digits: int, window: int | None = None) -> pd.DataFrame:
    """Count in which parts of the responses to problems of one length a model errs.

    The tokens before each token are the true ones, ids start at 1, and keys are hidden whose ids
    differ from the query's by more than `window` (None: no keys).

    Returns:
        For each `part` ("first", "inside", "final": the token before the end, "end"; and "any"):
        the number of `n` responses in which it is `wrong`.

    Raises:
        SettingsError: for problems that need an id past the table of the model.

    >>> from carry.evaluation.trained_models import load_committed
    >>> measure_errors(load_committed("addition_abacus"), 5)["wrong"].tolist()
    [0, 0, 0, 0, 0]
    """
    batch = _draw(system, digits)
    with (
        use_precision("fp32", system.device),
        system.count_far([window] * len(system.schemes), 0.0),
    ):
        result = teacher_forced_pass(system, batch)
    wrong = [*find_wrong_parts(result).sum(1).tolist(), int((~result.exact).sum())]
    parts = [*(name.removesuffix("_right") for name in PARTS), "any"]
    return pd.DataFrame({"digits": digits, "part": parts, "n": COUNT, "wrong": wrong})


@torch.inference_mode()
def measure_last_attention(system: System, digits: int) -> pd.DataFrame:
    """Measure what the query before the end of a response attends to, by difference of ids.

    Ids are those of the first scheme, from start 1.

    Raises:
        SettingsError: for problems that need an id past the table of the model.

    Returns:
        For each `layer`, counted through all recurrences, and `head`, both from 1, the mean
        `attention` to all tokens whose id is higher than the query's by `difference` (missing:
        signs, and tokens without an id).

    >>> from carry.experiments.resolve import make_run
    >>> run = make_run({"task": {"name": "addition"}, "model": {"layers": 1, "heads": 2},
    ...                 "positions": [{"ids": "abacus", "encoding": "learned"}],
    ...                 "evaluation": {"digits": 10}})
    >>> table = measure_last_attention(System(run), 3)
    >>> table.groupby("head")["attention"].sum().round(3).tolist(), int(table["difference"].max())
    ([1.0, 1.0], 0)
    """
    batch = _draw(system, digits)
    with use_precision("fp32", system.device):
        layers = read_attention(system, batch)
    rows, query = torch.arange(len(batch)), batch.length - 2
    of_token = system.ids(batch)[0].expand(len(batch), -1)
    difference = (of_token - of_token[rows, query][:, None]).double()
    is_sign = torch.isin(batch.tokens, torch.tensor([*formats.SIGN_TOKENS]))
    difference[is_sign | (of_token == 0)] = torch.nan
    exists = torch.arange(batch.tokens.shape[1]) <= query[:, None]
    tables = []
    for layer, pattern in enumerate(layers, start=1):
        for head, attention in enumerate(pattern[rows, :, query].unbind(1), start=1):
            columns = {"difference": difference[exists], "attention": attention[exists].double()}
            summed = pd.DataFrame({name: values.numpy() for name, values in columns.items()})
            summed = summed.groupby("difference", dropna=False, as_index=False).sum()
            summed["attention"] /= len(batch)
            tables.append(summed.assign(digits=digits, layer=layer, head=head))
    return pd.concat(tables, ignore_index=True)


def group_differences(table: pd.DataFrame, trained: int) -> pd.DataFrame:
    """Sum the attention of each head to signs, near ids, farther ones, and those beyond training.

    Four decimals are kept: those that are the same on each processor.

    Args:
        table: of `measure_last_attention`.
        trained: the largest difference of ids in training.

    >>> table = {"digits": 9, "layer": 1, "head": 1, "difference": [-8.0, -3.0, 0.0, float("nan")]}
    >>> table = group_differences(pd.DataFrame({**table, "attention": [0.4, 0.3, 0.2, 0.1]}), 5)
    >>> table.set_index("to")["attention"].to_dict()
    {'signs': 0.1, 'same or neighbouring id': 0.2, 'as far as in training': 0.3, 'farther': 0.4}
    """
    far = table["difference"].abs()
    to = pd.Series("farther", index=table.index)
    near, trained_far = "same or neighbouring id", "as far as in training"
    to = to.mask(far <= trained, trained_far).mask(far <= 1, near).mask(far.isna(), "signs")
    to = pd.Categorical(to, ["signs", near, trained_far, "farther"])
    keys = ["digits", "layer", "head", "to"]
    groups = table.assign(to=to).groupby(keys, observed=True, as_index=False)
    return groups["attention"].sum().round(4)


def _draw(system: System, digits: int) -> Batch:
    """Return written problems whose sizes are all `digits`; refuse ids past a table."""
    cells = torch.full((COUNT, 2), digits)
    batch = system.format.write(system.task.draw_for_cells(cells, stream(0, "far ids", digits)))
    check_ids(system, batch, digits, 1)
    return batch
