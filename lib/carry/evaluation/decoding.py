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

With start "all" the model reads the question from several starts of ids (`list_first_ids`), and
writes the token with the highest mean probability, which all of them read next.

Scores use the same ids (`scoring.py`); therefore one teacher-forced pass gives the same result
(`carry.models.teacher_forcing`). Results are on the device of the problems.
"""

from __future__ import annotations

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.config.settings import SettingsError, describe
from carry.data.batch import Batch
from carry.data.problems import Problems
from carry.formats import EOS, Format
from carry.models.cache import Cache
from carry.models.system import Start, System
from carry.models.teacher_forcing import predict_tokens
from carry.training.precision import use_precision

MOST_STARTS = 16  # that "all" averages, with a pass for each; of more, an even subset

# Tokens in the caches of one batch, if a mean over starts needs a cache for each.
MAX_CACHED_TOKENS = 2**18


def list_first_ids(system: System, problems: Problems, start: Start) -> list[list[int]]:
    """Return the first id of every scheme, for each start whose probabilities are averaged.

    These are one start, or the last one from which the problems fit the tables of ids if that is
    earlier; or for "all" those from which they fit, `MOST_STARTS` at most: from 1 to the last one,
    evenly. Schemes with starts of their own (levels of coupling) move together. The starts depend
    on the shape of the problems only, which is that of their longest answers.

    >>> from carry.experiments.resolve import make_run
    >>> from carry.tasks import to_digits
    >>> positions = [{"ids": "abacus", "encoding": "learned", "table": 6}]
    >>> settings = {"task": {"name": "addition"}, "positions": positions}
    >>> settings |= {"training": {"digits": 3}, "evaluation": {"digits": 4}}
    >>> system = System(make_run(settings))
    >>> problems = system.task.solve(*to_digits([[123, 7]]))  # up to four places
    >>> [list_first_ids(system, problems, start) for start in (2, 5, "all")]
    [[[2]], [[3]], [[1], [2], [3]]]

    Raises:
        SettingsError: for a start that is neither "all" nor a positive integer.
    """
    if isinstance(start, str) and start != "all":
        raise SettingsError(
            f"start: {describe(start)} is not valid; expected 'all', 'window' or an integer from 1"
        )
    first_ids = system.first_ids(1 if start == "all" else start)
    if start == 1:
        return [first_ids]
    last = find_last_starts(system, problems)
    if start != "all":
        pairs = zip(first_ids, last, strict=True)
        return [[first if end is None else min(first, end) for first, end in pairs]]
    ends = [end or 1 for end in last]  # without a table all starts are alike
    count = min(MOST_STARTS, max(ends, default=1))
    ids = [spread_evenly(end, count) for end in ends]
    return [[of_scheme[step] for of_scheme in ids] for step in range(count)]


def find_last_starts(system: System, problems: Problems) -> list[int | None]:
    """Return for each scheme the last start from which problems of one shape fit; None: any."""
    form, schemes = system.format, system.schemes
    if form.variable_length:  # of the longest question, so that spaces and text change nothing
        operands = 1 if system.task.operand_count else int((problems.lengths > 0).sum(1).max())
        extent = form.extent(max(int(problems.lengths.max()), operands))
        needed = [scheme.required_ids(extent) for scheme in schemes]
    else:
        written = form.write_open_ended(problems)
        needed = [system.needed_ids(index, written) for index in range(len(schemes))]
    return [system.last_start(index, count) for index, count in enumerate(needed)]


def spread_evenly(last: int, count: int) -> list[int]:
    """Return `count` numbers from 1 to `last`, evenly; some are equal if `last` is smaller.

    >>> spread_evenly(3, 3), spread_evenly(100, 4), spread_evenly(2, 4), spread_evenly(9, 1)
    ([1, 2, 3], [1, 34, 67, 100], [1, 1, 2, 2], [1])
    """
    gaps = max(1, count - 1)
    return [1 + (2 * step * (last - 1) + gaps) // (2 * gaps) for step in range(count)]


def compute_decoding_ids(
    system: System, problems: Problems, written: Batch, start: Start
) -> list[list[Integer[Tensor, "_ S"]]]:
    """Return the ids that decoding uses while it writes `written`, for problems of one shape.

    There is a list for each start (`list_first_ids`), with a tensor for each scheme. If marks
    depend on the question only, ids reach to the end of the longest answer, whatever is written;
    operands with equal lengths in all rows then share one row of ids, unless the format has
    variable length.

    >>> from carry.experiments.resolve import make_run
    >>> from carry.tasks import to_digits
    >>> positions = [{"ids": "abacus", "encoding": "relative", "window": 1}]
    >>> system = System(make_run({"task": {"name": "addition"}, "positions": positions}))
    >>> problems = system.task.solve(*to_digits([[12, 7], [95, 6]]))  # answers 19 and 101
    >>> compute_decoding_ids(system, problems, system.format.write(problems), 1)[0][0].tolist()
    [[0, 1, 2, 0, 1, 0, 1, 2, 3, 0]]
    """
    form = system.format
    if form.marks_known_from_question:
        equal = (problems.lengths == problems.lengths[:1]).all() and not form.variable_length
        written = form.write_open_ended(problems[:1] if equal else problems)
    return [system.ids_from(written, first) for first in list_first_ids(system, problems, start)]


def select_rows(
    ids_by_start: list[list[Integer[Tensor, "_ S"]]], rows: Tensor
) -> list[list[Integer[Tensor, "_ S"]]]:
    """Return the ids of some rows; one row of ids that serves all stays."""
    return [
        [values if len(values) == 1 else values[rows] for values in ids] for ids in ids_by_start
    ]


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
def decode_greedily(system: System, problems: Problems, start: Start = 1) -> Integer[Tensor, "B A"]:
    """Return the response tokens that the model writes, with EOS after an end.

    A response without an end is cut where the longest answer ends.

    >>> from carry.evaluation.trained_models import load_committed
    >>> from carry.formats import to_text
    >>> from carry.tasks import to_digits
    >>> system = load_committed("addition_relative")
    >>> problems = system.task.solve(*to_digits([[5, 7], [2, 30]]))
    >>> [to_text(row) for row in decode_greedily(system, problems)]
    ['21$$', '23$$']
    """
    device, problems = problems.operands.device, problems.to(system.device)
    system.network.eval()
    groups = group_by_shape(problems, system.format)
    with use_precision("fp32", system.device), system.read_from(start) as first:
        parts = [_decode_group(system, problems[rows].trim(), first) for rows in groups]
    longest = max(part.shape[1] for part in parts)
    response = torch.full((len(problems), longest), EOS, device=system.device)
    for rows, part in zip(groups, parts, strict=True):
        response[rows, : part.shape[1]] = part
    return response.to(device)


def _decode_group(system: System, problems: Problems, start: Start) -> Integer[Tensor, "B A"]:
    """Decode problems of one shape."""
    written = system.format.write_open_ended(problems)
    first_ids = list_first_ids(system, problems, start)
    at_once = MAX_CACHED_TOKENS // (len(first_ids) * written.tokens.shape[1])
    if len(first_ids) > 1 and len(problems) > max(1, at_once):
        parts = torch.arange(len(problems)).split(max(1, at_once))
        return torch.cat([_decode_group(system, problems[part], start) for part in parts])
    ids_by_start = compute_decoding_ids(system, problems, written, start)
    question_length = int(written.start[0])
    slots = int(written.length.max()) - question_length
    active = torch.arange(len(problems), device=written.start.device)  # rows without an end so far
    response = torch.full((len(active), slots), EOS, device=active.device)
    tokens, caches = written.tokens[:, :question_length], [Cache() for _ in first_ids]
    for slot in range(slots):
        if not system.format.marks_known_from_question:
            marked = system.format.mark_continuation(
                problems[active], written[active], response[active, :slot]
            )
            ids_by_start = [system.ids_from(marked, first) for first in first_ids]
        predicted = predict_tokens(
            system.network.next_logits(tokens, ids, None, cache)
            for ids, cache in zip(ids_by_start, caches, strict=True)
        )
        response[active, slot] = predicted
        continues = predicted != EOS
        if not continues.any():
            break
        if not continues.all():
            active, predicted = active[continues], predicted[continues]
            ids_by_start = select_rows(ids_by_start, continues)
            for cache in caches:
                cache.keep_rows(continues)
        tokens = predicted[:, None]
    return response
