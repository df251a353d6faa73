"""Greedy decoding, token by token; the model reads the question only.

The model decides where the answer ends, so decoding does not depend on the true answer. Marks and
ids are those of the longest possible answer (`Format.write_open_ended`); every shorter sequence
uses their first part:

    question, 5 + 7     ^ 5 + 7 =
    longest answer      ^ 5 + 7 = 0 0 $       marks and ids come from this
    model may write     ^ 5 + 7 = 2 1 $       the token in the last slot is read, never fed back
    or stop early       ^ 5 + 7 = 2 $

In a scratchpad without padding the model decides where numbers end, so marks depend on the written
tokens (`Format.mark_continuation`).

Scores use the same ids (`scoring.py`); therefore one teacher-forced pass gives the same result
(`carry.models.teacher_forcing`). Results are on the device of the problems.
"""

from __future__ import annotations

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.data.batch import Batch
from carry.data.problems import Problems
from carry.formats import EOS, Format
from carry.models.cache import Cache
from carry.models.system import Start, System
from carry.training.precision import use_precision


def compute_question_ids(
    system: System, problems: Problems, start: Start
) -> list[Integer[Tensor, "_ S"]]:
    """Return the ids from the question to the longest answer, for problems of one shape.

    Operands with equal lengths in all rows share one row of ids. In a format with variable length
    each row has its ids, from a first id that does not depend on the variable part.

    >>> from carry.config.run_settings import make_run
    >>> from carry.tasks import to_digits
    >>> positions = [{"ids": "abacus", "encoding": "relative", "window": 1}]
    >>> system = System(make_run({"task": {"name": "addition"}, "positions": positions}))
    >>> problems = system.task.solve(*to_digits([[12, 7], [95, 6]]))  # answers 19 and 101
    >>> compute_question_ids(system, problems, 1)[0].tolist()
    [[0, 1, 2, 0, 1, 0, 1, 2, 3, 0]]
    """
    form = system.format
    if form.variable_length:
        unpadded = form.without_padding().write_open_ended(problems[:1])
        return system.ids_from(form.write_open_ended(problems), system.first_ids(unpadded, start))
    equal = (problems.lengths == problems.lengths[:1]).all()
    return system.ids(form.write_open_ended(problems[:1] if equal else problems), start)


def compute_decoding_ids(
    system: System, problems: Problems, written: Batch, start: Start
) -> list[Integer[Tensor, "_ S"]]:
    """Return the ids that decoding uses while it writes `written`, for problems of one shape.

    They depend on the question only, or also on the written tokens if marks do.

    >>> from carry.config.run_settings import make_run
    >>> from carry.tasks import to_digits
    >>> positions = [{"ids": "coupled", "encoding": "relative", "window": 1}]
    >>> settings = {"task": {"name": "multi_operand_addition"}, "positions": positions}
    >>> settings["format"] = {"name": "scratchpad", "pad": False}
    >>> system = System(make_run(settings))
    >>> problems = system.task.solve(*to_digits([[5, 7]]))
    >>> compute_decoding_ids(system, problems, system.format.write(problems), 1)[0].tolist()
    [[0, 2, 1, 2, 1, 2, 1, 2, 1, 2, 3, 0]]
    """
    if system.format.marks_known_from_question:
        return compute_question_ids(system, problems, start)
    first_ids = system.first_ids(system.format.write_open_ended(problems), start)
    return system.ids_from(written, first_ids)


def group_by_shape(problems: Problems, form: Format | None = None) -> list[Integer[Tensor, " _"]]:
    """Group the rows of problems whose questions and longest answers have equal numbers of tokens.

    Two operands need equal lengths in all rows. Longer lists have too many combinations of lengths;
    they need equal numbers of operands and of digits, and equally long longest operands. In a
    format with variable length the questions are also equally long.

    >>> from carry import formats, tasks
    >>> task = tasks.build_task({"name": "addition"})
    >>> problems = task.solve(*tasks.to_digits([[12, 7], [95, 6], [3, 4]]))
    >>> groups = group_by_shape(problems, formats.build_format({}, task))
    >>> [rows.tolist() for rows in groups]
    [[2], [0, 1]]
    """
    shape = problems.lengths
    if shape.shape[1] > 2:
        operands = (shape > 0).sum(1)
        shape = torch.stack([operands, shape.sum(1), shape.amax(1)], dim=1)
    if form is not None and form.variable_length:
        shape = torch.cat([shape, form.write_open_ended(problems).start[:, None]], dim=1)
    _, group = torch.unique(shape, dim=0, return_inverse=True)
    order = group.argsort(stable=True)
    return list(order.split(group.bincount().tolist()))


@torch.inference_mode()
def decode_greedily(
    system: System, problems: Problems, start: Start = 1, recurrences: int | None = None
) -> Integer[Tensor, "B A"]:
    """Return the response tokens that the model writes, with EOS after an end.

    A response without an end is cut where the longest answer ends.

    >>> from carry.evaluation.mock_models import Oracle
    >>> from carry.formats import to_text
    >>> from carry.config.run_settings import make_run
    >>> from carry.tasks import to_digits
    >>> oracle = Oracle(make_run({"task": {"name": "addition"}}))
    >>> problems = oracle.task.solve(*to_digits([[5, 7], [2, 30]]))
    >>> [to_text(row) for row in decode_greedily(oracle, problems)]
    ['21$$', '23$$']
    """
    device, problems = problems.operands.device, problems.to(system.device)
    system.network.eval()
    groups = group_by_shape(problems, system.format)
    with use_precision("fp32", system.device):
        parts = [
            _decode_group(system, problems[rows].trim(), start, recurrences) for rows in groups
        ]
    longest = max(part.shape[1] for part in parts)
    response = torch.full((len(problems), longest), EOS, device=system.device)
    for rows, part in zip(groups, parts, strict=True):
        response[rows, : part.shape[1]] = part
    return response.to(device)


def _decode_group(
    system: System, problems: Problems, start: Start, recurrences: int | None
) -> Integer[Tensor, "B A"]:
    """Decode problems of one shape."""
    written = system.format.write_open_ended(problems)
    ids = compute_question_ids(system, problems, start)
    first_ids = system.first_ids(written, start)
    question_length = int(written.start[0])
    slots = int(written.length.max()) - question_length
    active = torch.arange(len(problems), device=written.start.device)  # rows without an end so far
    response = torch.full((len(active), slots), EOS, device=active.device)
    tokens, cache = written.tokens[:, :question_length], Cache()
    for slot in range(slots):
        if not system.format.marks_known_from_question:
            marked = system.format.mark_continuation(
                problems[active], written[active], response[active, :slot]
            )
            ids = system.ids_from(marked, first_ids)
        predicted = system.network.next_logits(tokens, ids, recurrences, cache).argmax(-1)
        response[active, slot] = predicted
        continues = predicted != EOS
        if not continues.any():
            break
        if not continues.all():
            active, predicted = active[continues], predicted[continues]
            ids = [values if len(values) == 1 else values[continues] for values in ids]
            cache.keep_rows(continues)
        tokens = predicted[:, None]
    return response
