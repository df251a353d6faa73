"""Greedy decoding, token by token, as a user meets a model: it sees the question and no more.

Where the answer ends is for the model to say, so nothing here may depend on it. Marks and ids are
those of the longest answer that the question could have (`Format.open_ended`); what a sequence
needs of them is its beginning:

    question, 5 + 7     ^ 5 + 7 =
    longest answer      ^ 5 + 7 = 0 0 $       marks and ids come from this
    model may write     ^ 5 + 7 = 2 1 $       the token in the last slot is read, never fed back
    or stop early       ^ 5 + 7 = 2 $

In a scratchpad without padding numbers end where the model says, and marks are made of what it has
written (`Format.continued`).

Scores are worked out from the same ids (`scoring.py`), which is what makes one pass over the truth
tell the same (`carry.models.teacher_forcing`).
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
from carry.training.precision import training_in


def question_ids(system: System, problems: Problems, start: Start) -> list[Integer[Tensor, "_ S"]]:
    """Return the ids that questions settle up to the longest answer, for problems that are alike.

    Where operands have the same lengths in all of them b = 1: the ids are those of all rows. Those
    of a `ragged` format are each row's own, from an id that does not depend on what is ragged.

    >>> from carry.config.run_settings import make_run
    >>> from carry.tasks import to_digits
    >>> positions = [{"ids": "abacus", "encoding": "relative", "window": 1}]
    >>> system = System(make_run({"task": {"name": "addition"}, "positions": positions}))
    >>> problems = system.task.solve(*to_digits([[12, 7], [95, 6]]))  # answers 19 and 101
    >>> question_ids(system, problems, 1)[0].tolist()
    [[0, 1, 2, 0, 1, 0, 1, 2, 3, 0]]
    """
    form = system.format
    if form.variable_length:
        first = system.first_ids(form.without_padding().write_open_ended(problems[:1]), start)
        return system.ids_from(form.write_open_ended(problems), first)
    same = (problems.lengths == problems.lengths[:1]).all()
    return system.ids(form.write_open_ended(problems[:1] if same else problems), start)


def written_ids(
    system: System, problems: Problems, written: Batch, start: Start
) -> list[Integer[Tensor, "_ S"]]:
    """Return the ids that decoding takes while it writes just this, for problems that are alike.

    The question settles them, or else what is written does.

    >>> from carry.config.run_settings import make_run
    >>> from carry.tasks import to_digits
    >>> positions = [{"ids": "coupled", "encoding": "relative", "window": 1}]
    >>> given = {"task": {"name": "multi_operand_addition"}, "positions": positions}
    >>> system = System(make_run({**given, "format": {"name": "scratchpad", "pad": False}}))
    >>> problems = system.task.solve(*to_digits([[5, 7]]))
    >>> written_ids(system, problems, system.format.write(problems), 1)[0].tolist()
    [[0, 2, 1, 2, 1, 2, 1, 2, 1, 2, 3, 0]]
    """
    if system.format.marks_known_from_question:
        return question_ids(system, problems, start)
    return system.ids_from(
        written, system.first_ids(system.format.write_open_ended(problems), start)
    )


def group_by_shape(problems: Problems, form: Format | None = None) -> list[Integer[Tensor, " _"]]:
    """Return the rows of problems that are written with as many tokens, for all such numbers.

    Pairs have operands of the same lengths; of longer lists these would be too many to tell apart,
    and it is as many operands with as many digits in all, and in the longest. If the format is
    `ragged`, their questions are as long, too.

    >>> from carry import formats, tasks
    >>> task = tasks.build({"name": "addition"})
    >>> problems = task.solve(*tasks.to_digits([[12, 7], [95, 6], [3, 4]]))
    >>> [rows.tolist() for rows in group_by_shape(problems, formats.build({}, task))]
    [[2], [0, 1]]
    """
    lengths = problems.lengths
    if lengths.shape[1] > 2:
        count = (lengths > 0).sum(1)
        lengths = torch.stack([count, lengths.sum(1), lengths.amax(1)], dim=1)
    if form is not None and form.variable_length:
        lengths = torch.cat([lengths, form.write_open_ended(problems).start[:, None]], dim=1)
    _, shape = torch.unique(lengths, dim=0, return_inverse=True)
    order = shape.argsort(stable=True)
    return list(order.split(shape.bincount().tolist()))


@torch.inference_mode()
def decode_greedily(
    system: System, problems: Problems, start: Start = 1, recurrences: int | None = None
) -> Integer[Tensor, "B A"]:
    """Return the response tokens that the model writes; what follows an end is EOS.

    A row that never ends is cut where the longest answer would have ended.

    >>> from carry.evaluation.mock_models import Oracle
    >>> from carry.formats import text
    >>> from carry.config.run_settings import make_run
    >>> from carry.tasks import to_digits
    >>> oracle = Oracle(make_run({"task": {"name": "addition"}}))
    >>> [text(row) for row in decode_greedily(oracle, oracle.task.solve(*to_digits([[5, 7], [2, 30]])))]
    ['21$$', '23$$']
    """
    device = problems.operands.device
    system.network.eval()
    parts = []
    with training_in("fp32", device):
        for rows in group_by_shape(problems, system.format):
            some = problems[rows].trim()
            parts.append((rows, _decode(system, some, start, recurrences)))
    longest = max(response.shape[1] for _, response in parts)
    whole = torch.full((len(problems), longest), EOS, device=device)
    for rows, response in parts:
        whole[rows, : response.shape[1]] = response
    return whole


def _decode(
    system: System, problems: Problems, start: Start, recurrences: int | None
) -> Integer[Tensor, "B A"]:
    """Decode problems that are alike."""
    written, ids = system.format.write_open_ended(problems), question_ids(system, problems, start)
    settled, first = system.format.marks_known_from_question, system.first_ids(written, start)
    asked = int(written.start[0])
    slots = int(written.length.max()) - asked
    live = torch.arange(len(problems), device=written.start.device)
    response = torch.full((len(live), slots), EOS, device=live.device)
    tokens, cache = written.tokens[:, :asked], Cache()
    for slot in range(slots):
        if not settled:
            marked = system.format.continued(problems[live], written[live], response[live, :slot])
            ids = system.ids_from(marked, first)
        logits = system.network(tokens, ids, None, recurrences, cache)[:, -1]
        cache.advance(tokens.shape[1])
        said = logits.argmax(-1)
        response[live, slot] = said
        going = said != EOS
        if not going.any():
            break
        if not going.all():
            live, said = live[going], said[going]
            ids = [of if len(of) == 1 else of[going] for of in ids]
            cache.keep(going)
        tokens = said[:, None]
    return response
