"""Ask a model one question, and show its answer token by token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from carry.config.settings import SettingsError, describe
from carry.data.batch import Batch
from carry.data.problems import Problems
from carry.evaluation.decoding import compute_decoding_ids, decode_greedily
from carry.formats import ALPHABET, EOS, to_text
from carry.models.system import Start, System
from carry.randomness import stream
from carry.tasks import DIGIT_SYMBOLS, Task, to_digits
from carry.training.precision import use_precision

# A cached step over 10,000 digits takes milliseconds; longer questions fill the memory.
MAX_DIGITS, MAX_OPERANDS = 10_000, 1_000


def ask(system: System, *operands: str | int, start: Start = "all") -> Any:
    """Return a table of the tokens that the model writes after a question of its task.

    Args:
        start: the first id; "all" for the mean of next-token probabilities over all starts; or
            "window" for id 1, with attention only to ids as near as in problems of the trained
            lengths.

    Columns: the `context` before a token, the token that the model has `predicted`, its
    `probability`, and the `target`, the correct token.

    >>> from carry.evaluation.trained_models import load_committed
    >>> ask(load_committed("addition_relative"), 17, 25)["predicted"].tolist()
    ['2', '4', '$']

    Raises:
        SettingsError: for operands that the model cannot read, and for an invalid start.
    """
    import pandas as pd  # here, because `write_steps` needs no pipeline

    return pd.DataFrame(write_steps(system, *operands, start=start))


@torch.inference_mode()
def write_steps(
    system: System, *operands: str | int, start: Start = "all"
) -> dict[str, list[str | float]]:
    """Return the columns of the table of `ask`."""
    problem = make_problem(system.task, operands).to(system.device)
    written = system.format.write_open_ended(problem)
    check_ids(system, written, int(problem.lengths.max()), start)
    response = decode_greedily(system, problem, start)
    question_length = int(written.start[0])
    ends = (response[0] == EOS).nonzero()
    slots = int(ends[0]) + 1 if len(ends) else response.shape[1]
    response = response[:, :slots]
    tokens = torch.cat([written.tokens[:, :question_length], response], dim=1)
    if not system.format.marks_known_from_question:
        written = system.format.mark_continuation(problem, written, response)
    with use_precision("fp32", tokens.device), system.read_from(start) as first:
        ids_by_start = compute_decoding_ids(system, problem, written, first)
        logits = torch.cat([system.network(tokens, ids) for ids in ids_by_start])
    probabilities = logits[:, question_length - 1 : -1].softmax(-1).mean(0)
    target = system.format.write(problem).tokens[0, question_length:].tolist()
    target = [ALPHABET[token] for token in target[:slots]]
    return {
        "context": [to_text(tokens[0, : question_length + slot]) for slot in range(slots)],
        "predicted": [ALPHABET[token] for token in response[0].tolist()],
        "probability": probabilities.gather(1, response[0, :, None])[:, 0].tolist(),
        "target": target + [""] * (slots - len(target)),
    }


def make_problem(task: Task, operands: Sequence[str | int]) -> Problems:
    """Check the number and the digits of the operands of a question, and solve it."""
    texts = [str(number) for number in operands]
    digits = DIGIT_SYMBOLS[: task.base]
    for index, text in enumerate(texts):
        if not text or {*text} - {*digits} or len(text) > MAX_DIGITS:
            raise SettingsError(
                f"operands.{index}: {describe(text)} is not a number that can be asked; "
                f"expected 1 to {MAX_DIGITS} digits 0 to {digits[-1]}"
            )
    # A list task takes at least the operands of its smallest cell.
    cell = torch.tensor([task.smallest_cell])
    least = task.draw_operands(cell, stream(0, "smallest cell"))[0].shape[1]
    most = task.operand_count or MAX_OPERANDS
    if not least <= len(texts) <= most:
        expected = f"{least}" if least == most else f"{least} to {most}"
        raise SettingsError(f"operands: {len(texts)} do not fit {task.label}; expected {expected}")
    if not task.keeps_leading_zeros:
        texts = [text.lstrip("0") or "0" for text in texts]
    task.check_question(texts)
    return task.solve(*to_digits([texts], task.base))


def check_ids(system: System, written: Batch, digits: int, start: Start) -> None:
    """Refuse a question whose ids exceed a table."""
    system.first_ids(1 if isinstance(start, str) else start)
    for index in range(len(system.schemes)):
        largest = system.largest_id(index)
        last = system.last_id(index, system.needed_ids(index, written), start)
        if largest is not None and last > largest:
            raise SettingsError(
                f"operands: {digits} digits need id {last} of positions.{index}, past the largest, "
                f"{largest}; expected shorter operands or a smaller start"
            )


def check_start(system: System, start: Start) -> None:
    """Refuse a first id from which the model was never trained."""
    extent = system.training_extent()
    moved = [scheme for scheme in system.schemes if not scheme.start_is_fixed]
    trained = max((scheme.largest_id(extent) for scheme in moved), default=1)
    if not isinstance(start, str) and start > trained:
        expected = "1" if trained == 1 else f"an integer from 1 to {trained}"
        raise SettingsError(
            f"start: {system.run.name} was never trained from id {start}; expected 'all' or "
            f"{expected}"
        )


def read_answer(system: System, steps: Any) -> str:
    """Return the answer in the steps of `ask`, most significant digit first.

    For a task or format whose response is not a number, return the response without its end.

    >>> from carry.evaluation.trained_models import load_committed
    >>> system = load_committed("addition_relative")
    >>> read_answer(system, ask(system, 999, 2))
    '1001'
    """
    response = torch.tensor([[ALPHABET.index(token) for token in steps["predicted"]]])
    symbols = [ALPHABET[token] for token in system.format.read(response)[0].tolist()]
    symbols = [symbol for symbol in symbols if symbol != ALPHABET[EOS]]
    if not system.task.answer_is_number or not system.format.writes_answer:
        return "".join(symbols)
    number = "".join(reversed(symbols))
    return number if system.task.keeps_leading_zeros else number.lstrip("0") or "0"
