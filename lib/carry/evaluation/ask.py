"""Ask a model one question, and show its answer token by token.

The answer is that of greedy decoding, found in few passes instead of one for each token. A pass
reads the question and a guess of the response, at first the right one, and predicts the token after
each place. Up to the first place where guess and prediction differ the model has read what it
writes itself, so by induction (see `carry.models.teacher_forcing`) the predictions up to and at
this place are what greedy decoding writes. All predictions are the next guess. A model that is
right needs one pass. A wrong one needs as many as its errors have consequences of consequences:
few, if windows limit what depends on an error. Where a pass finds few tokens, greedy decoding with
a cache takes over (`carry.evaluation.decoding`), unless its cost at long questions is higher.

What is guaranteed: in exact arithmetic the response is that of greedy decoding, for every model
whose next token depends on the question and on the tokens so far alone. In float32 a pass sums in
another order than decoding with a cache: logits of models in git differ by up to 3 millionths of
the largest one. So both may write another token where two logits are as close as that, and none
where a model is certified: its leads are larger than rounding errors in any order of summation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import torch
from jaxtyping import Float, Integer
from torch import Tensor

from carry.config.settings import SettingsError, describe
from carry.data.batch import Batch
from carry.data.problems import Problems
from carry.evaluation.decoding import compute_decoding_ids, decode_greedily, list_first_ids
from carry.evaluation.questions import MAX_DIGITS, MAX_OPERANDS, spell
from carry.formats import ALPHABET, EOS, to_text, to_tokens
from carry.models.system import Start, System
from carry.models.teacher_forcing import predict_tokens
from carry.randomness import stream
from carry.tasks import DIGIT_SYMBOLS, Task, to_digits
from carry.training.precision import use_precision

if TYPE_CHECKING:
    import pandas as pd

MAX_TOKENS = 2**20  # of a question and its right response; a pass over so many takes gigabytes
LEAST_GAIN = 16  # tokens that a pass finds, or else decoding with a cache is faster
# From so many on it is slower, if windows hide most of what the cache holds, unless so many passes
# find few tokens: the model is wrong at most of them.
FROM_TOKENS, MOST_PASSES = 4096, 64

Report = Callable[[int, int], None]  # of the tokens known so far, and those of the right response


class Answer(NamedTuple):
    """A question, the response that a model has written, and the right one, as tokens."""

    question: Integer[Tensor, " Q"]
    response: Integer[Tensor, " A"]  # with its end, unless the model has not ended it
    probability: Float[Tensor, " A"]  # of each written token
    target: Integer[Tensor, " C"]

    @property
    def exact(self) -> bool:
        """Whether every token of the response is right."""
        return torch.equal(self.response, self.target)

    def tabulate(self, width: int | None = None) -> pd.DataFrame:
        """Return the table of `ask`; contexts show their last tokens, if there is a width.

        >>> answer = Answer(*map(torch.tensor, ([5, 11], [6, 13], [0.9, 0.8], [5, 13])))
        >>> answer.tabulate()["context"].tolist(), answer.tabulate(2)["context"].tolist()
        (['5=', '5=6'], ['5=', '…6'])
        """
        import pandas as pd  # here, because an answer alone needs no pipeline

        text, asked = to_text(torch.cat([self.question, self.response])), len(self.question)
        contexts = []
        for end in range(asked, len(text)):
            first = 0 if width is None or end <= width else end - width + 1
            contexts.append("…" * (first > 0) + text[first:end])
        target = [ALPHABET[token] for token in self.target.tolist()[: len(self.response)]]
        return pd.DataFrame(
            {
                "context": contexts,
                "predicted": [ALPHABET[token] for token in self.response.tolist()],
                "probability": self.probability.tolist(),
                "target": target + [""] * (len(self.response) - len(target)),
            }
        )


def ask(system: System, *operands: str | int, start: Start = "all") -> pd.DataFrame:
    """Return the tokens that the model writes after a question of its task.

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
    return write_answer(system, make_problem(system.task, operands), start).tabulate()


@torch.inference_mode()
def write_answer(
    system: System, problem: Problems, start: Start = "all", report: Report = lambda *counts: None
) -> Answer:
    """Let the model answer one problem, as greedy decoding does; results are on the CPU.

    Args:
        start: as in `ask`.
        report: called with the number of tokens that are known, and that of the right response.

    >>> from carry.evaluation.trained_models import load_committed
    >>> system = load_committed("addition_relative")
    >>> write_answer(system, make_problem(system.task, ["9" * 1000, 1]), report=print).exact
    0 1002
    1002 1002
    True

    Raises:
        SettingsError: for a problem that is too long, or has ids past a table; an invalid start.
    """
    problem, form = problem.to(system.device), system.format
    right, written = write_problem(system, problem, start)
    asked = int(written.start[0])
    question, target = written.tokens[:, :asked], right.tokens[0, asked:].long()
    slots = int(written.length[0]) - asked
    report(0, len(target))
    system.network.eval()

    def read(guess: Integer[Tensor, " A"]) -> tuple[Tensor, Tensor]:
        """Return what follows the question and each place of the guess, and its probabilities."""
        tokens = torch.cat([question, guess[None].to(question.dtype)], dim=1)
        marked = written
        if not form.marks_known_from_question:
            marked = form.mark_continuation(problem, written, tokens[:, asked:])
        at = torch.arange(asked - 1, tokens.shape[1] - 1, device=tokens.device)[None]
        with use_precision("fp32", tokens.device), system.read_from(start) as first:
            ids_by_start = compute_decoding_ids(system, problem, marked, first)
            logits = [system.network(tokens, ids, at)[0] for ids in ids_by_start]
        probabilities = torch.stack([values.softmax(-1) for values in logits]).mean(0)
        return predict_tokens(logits), probabilities

    has_windows = any(encoding.window is not None for encoding in system.network.encodings)
    passes_left = MOST_PASSES if has_windows and asked + slots >= FROM_TOKENS else 0
    guess, known = target, 0
    while True:
        response, probabilities = read(guess)
        differ = (response != guess).nonzero()[:1, 0].tolist()
        found = differ[0] + 1 if differ else len(guess)
        report(found, len(target))
        if response[found - 1] == EOS or found == slots:
            response = response[:found]
            break
        passes_left -= found - known < LEAST_GAIN
        if passes_left < 0:
            with _report_steps(system, problem, start, lambda now: report(now, len(target))):
                response = _cut_end(decode_greedily(system, problem, start)[0])
            _, probabilities = read(response)
            break
        guess, known = _cut_end(response), found
        if guess[-1] != EOS and len(guess) < slots:
            guess = torch.nn.functional.pad(guess, (0, 1), value=EOS)
    probability = probabilities.gather(1, response[:, None].long())[:, 0]
    return Answer(*(part.cpu() for part in (question[0].long(), response, probability, target)))


def write_problem(system: System, problem: Problems, start: Start) -> tuple[Batch, Batch]:
    """Return one problem with its right response, and with the longest possible one.

    Raises:
        SettingsError: for a problem that is too long, or has ids past a table; an invalid start.
    """
    right = system.format.write(problem)
    if right.tokens.shape[1] > MAX_TOKENS:
        raise SettingsError(
            f"operands: the question and its response have {right.tokens.shape[1]:,} tokens; "
            f"expected at most {MAX_TOKENS:,}, of shorter operands"
        )
    written = system.format.write_open_ended(problem)
    check_ids(system, written, int(problem.lengths.max()), start)
    return right, written


def _cut_end(response: Integer[Tensor, " A"]) -> Integer[Tensor, " _"]:
    """Return a response without what follows its end."""
    ends = (response == EOS).nonzero()[:1, 0].tolist()
    return response[: ends[0] + 1] if ends else response


@contextmanager
def _report_steps(
    system: System, problem: Problems, start: Start, report: Callable[[int], None]
) -> Iterator[None]:
    """Report the number of tokens that are decoded inside the block."""
    with system.read_from(start) as first:
        starts = len(list_first_ids(system, problem, first))
    passes = 0

    def count(*_: object) -> None:
        nonlocal passes
        passes += 1
        report(passes // starts)

    handle = system.network.register_forward_hook(count)
    try:
        yield
    finally:
        handle.remove()


def make_problem(task: Task, operands: Sequence[str | int]) -> Problems:
    """Check the number and the digits of the operands of a question, and solve it."""
    return task.solve(*to_digits([check_operands(task, operands)], task.base))


def read_operands(task: Task, text: str) -> list[str]:
    """Return the operands of a question of any task, as text that a reader wrote.

    >>> from carry.tasks import build_task
    >>> read_operands(build_task({"name": "multiplication"}), "1,000 × 67")
    ['1000', '67']
    >>> read_operands(build_task({"name": "sorting"}), "57, 8, 120")
    ['57', '8', '120']

    Raises:
        SettingsError: for a text that is no question of the task.
    """
    # The calculator has a comma between its operands, and a sign in its questions.
    lists = task.sign == "," and task.operand_count is None
    plain = spell(text, letters=task.base > 10, lists=lists)
    return check_operands(task, task.parse_question(plain))


def check_operands(task: Task, operands: Sequence[str | int]) -> list[str]:
    """Return the operands of a question without leading zeros, where these say nothing.

    >>> from carry.tasks import build_task
    >>> check_operands(build_task({"name": "addition"}), ["007", 12])
    ['7', '12']

    Raises:
        SettingsError: for operands that are no numbers, too long or too many, and for a question
            without an answer.
    """
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
    return texts


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


def read_answer(system: System, steps: pd.DataFrame) -> str:
    """Return the answer in the steps of `ask`, most significant digit first.

    For a task or format whose response is not a number, return the response without its end.

    >>> from carry.evaluation.trained_models import load_committed
    >>> system = load_committed("addition_relative")
    >>> read_answer(system, ask(system, 999, 2))
    '1001'
    """
    return read_response(system, to_tokens("".join(steps["predicted"])))


def read_response(system: System, response: Integer[Tensor, " A"]) -> str:
    """Return the answer in the tokens of a response (see `read_answer`)."""
    symbols = to_text(system.format.read(response[None])[0]).replace(ALPHABET[EOS], "")
    if not system.task.answer_is_number or not system.format.writes_answer:
        return symbols
    number = symbols[::-1]
    return number if system.task.keeps_leading_zeros else number.lstrip("0") or "0"


def shorten(text: str) -> str:
    """Return a number or a question that fits a table, without its middle.

    >>> shorten("1" * 100)
    '11111111111111111111...11111111111111111111'
    """
    return text if len(text) <= 60 else f"{text[:20]}...{text[-20:]}"


def describe_answer(system: System, answer: Answer, show: Callable[[str], str] = str) -> str:
    """Return the answer that a model has written, and whether it is wrong, on one line.

    Args:
        show: writes an answer, such as `shorten`.

    >>> from carry.evaluation.trained_models import load_committed
    >>> system = load_committed("addition_relative")
    >>> answer = write_answer(system, make_problem(system.task, [653, 49]))
    >>> describe_answer(system, answer)
    '702'
    >>> describe_answer(system, answer._replace(response=torch.tensor([2, 9, 6, EOS])))
    '692, wrong: 702'
    """
    written, right = (
        show(read_response(system, tokens)) for tokens in (answer.response, answer.target)
    )
    if written != right:
        return f"{written or 'no answer'}, wrong: {right}"
    return written if answer.exact else f"{written}, right, but not every written token is"
