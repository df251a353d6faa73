"""Whether attention finds the digits to add, place by place (ibrahimli2024, 4.3.2, Fig. 4.4).

A map of attention from token to token needs problems of one layout, which random spaces take away.
Places of digits are the same in all formats: for each digit that is written, attention is summed
over the digits of the operands by their places.
"""

from __future__ import annotations

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from carry.analyses import LABELS
from carry.data import problem_sets
from carry.data.problems import Problems
from carry.data.tables import concat_by_name
from carry.evaluation.scoring import locate_digits
from carry.interpretability.attention import read_attention
from carry.models.system import System
from carry.training.precision import use_precision

TASK = "addition"
MODEL = (*LABELS, "trained", "digits", "layer", "head")
COLUMNS = {
    "alignment": (*MODEL, "writes", "operand", "place", "n", "weight"),
    "aligned": (*MODEL, "best", "n", "share"),
}
PROBLEMS = 100  # of each length


def tables(system: System) -> dict[str, pd.DataFrame]:
    """Measure the attention of a model at its longest trained length, and at all untrained ones.

    Returns:
        alignment: for each place that is written (`writes`; 0: least significant), and each
            `operand` and `place` of its digits, the mean `weight` of the attention of a `layer` and
            `head` (over `n` written digits). Layers are counted through all recurrences.
        aligned: of each layer and head, over `n` written digits of the operands' places, the sum of
            the attention on the two digits with the same place (`share`), and whether it is the
            `best` of the model at this length.
    """
    questions, trained = problem_sets.load_questions(system.run), system.run.trained_lengths()
    parts = []
    with use_precision("fp32", system.device):
        for digits, part in questions[questions["set"] == "equal"].groupby("i"):
            if digits in trained and digits != max(trained):
                continue
            problems = problem_sets.to_problems(part[:PROBLEMS], system.task).to(system.device)
            weights, counts = average_by_place(system, problems)
            parts.append(
                {name: table.assign(digits=digits) for name, table in tabulate(weights, counts)}
            )
    return concat_by_name(parts)


@torch.inference_mode()
def average_by_place(
    system: System, problems: Problems
) -> tuple[Float[Tensor, "L H P 2 P"], Float[Tensor, " P"]]:
    """Return mean attention by written place, operand and its place, and counts of written digits.

    The problems have operands of one length, P; digits of higher places of the answer do not count.

    >>> from carry.models.constructions.adder import build_adder
    >>> from carry.tasks import to_digits
    >>> model = build_adder(2, 2)  # its scratchpad writes the operands, too
    >>> weights, counts = average_by_place(model, model.task.solve(*to_digits([[57, 38]])))
    >>> weights.shape, counts.tolist()
    (torch.Size([1, 4, 2, 2, 2]), [1.0, 1.0])
    """
    batch, digits = system.format.write(problems), int(problems.lengths.max())
    place, is_digit = locate_digits(batch)
    written = torch.stack([is_digit & (place == own) for own in range(digits)], dim=2).float()
    read = torch.stack(
        [
            (batch.number == operand) & (batch.place == own)
            for operand in (1, 2)
            for own in range(digits)
        ],
        dim=2,
    ).float()
    at, counts = batch.slots() - 1, written.sum((0, 1))
    row, sums = torch.arange(len(at), device=at.device)[:, None], []
    for pattern in read_attention(system, batch):
        rows = pattern.transpose(1, 2)[row, at]  # [B A H T]
        sums.append(torch.einsum("baht,bap,btk->hpk", rows.float(), written, read))
    weights = torch.stack(sums) / counts.clamp(min=1)[:, None]
    return weights.unflatten(3, (2, digits)).cpu(), counts.cpu()


def tabulate(
    weights: Float[Tensor, "L H P 2 P"], counts: Float[Tensor, " P"]
) -> list[tuple[str, pd.DataFrame]]:
    """Return the tables of one length, see `tables`."""
    names = ["layer", "head", "writes", "operand", "place"]
    index = pd.MultiIndex.from_product([range(size) for size in weights.shape], names=names)
    rows = pd.DataFrame({"weight": weights.flatten().numpy().round(4)}, index).reset_index()
    rows["operand"] += 1
    rows["n"] = counts.int().numpy()[rows["writes"]]
    own = rows[rows["writes"] == rows["place"]].assign(share=lambda row: row["weight"] * row["n"])
    heads = own.groupby(["layer", "head"], as_index=False).agg({"n": "sum", "share": "sum"})
    heads["n"] //= 2  # each written digit has two to find
    heads["best"] = heads.index == heads["share"].idxmax()
    return [("alignment", rows), ("aligned", heads)]
