"""The problem with its steps; the last step is the answer: `^57+48=000>750>501$`."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.config.settings import SettingsError
from carry.data.batch import NO_PLACE, Batch
from carry.data.problems import Problems
from carry.formats import (
    ALPHABET,
    BOS,
    EOS,
    EQUALS,
    PAD,
    Extent,
    Format,
    Piece,
    compute_coupling_numbers,
    join_pieces,
    read_after_last,
    sign_piece,
)
from carry.formats.expression import least_significant_first, number_piece
from carry.tasks import Coupling, ScratchpadStage
from carry.tasks.multi_operand_addition import MultiOperandAddition

# With several operands, the tokens of all steps grow with the square of the digits or faster.
LONGEST = 500


class Scratchpad(Format):
    """The task's scratchpad stages, separated by `=` (cho2025, Fig. 2, 4 and 8).

    `reverse_operands`, `reverse_answer`: write the least significant digit first, in the question
    and in the response. `pad`: zeros make each number as long as its room, which the question
    determines. `from_zero`: running sums start with 0 (cho2025, 4.1).

    In the question, a sign is coupled with the number before it, one below place 0. In the
    response, a sign is coupled with the number after it. `signs`: `next` to the digit that follows,
    one below place 0 or one above the most significant digit; or `lowest`, always one below place
    0, where signs of a reversed question are coupled with the number after them (cho2025, Fig. 14,
    by its released code). The two differ for reversed questions and for plain responses only.

    >>> from carry.formats import build_format
    >>> from carry.tasks import build_task
    >>> for name, numbers in (("multi_operand_addition", [57, 48]), ("multiplication", [37, 92])):
    ...     form = build_format({"name": "scratchpad"}, build_task({"name": name}))
    ...     print(form.write_text(*numbers))
    ^057+048=000>750>501$
    ^37*92=470+333=4700>4043$
    """

    has_steps = True

    reverse_operands: bool = False
    reverse_answer: bool = True
    pad: bool = True
    from_zero: bool = True
    signs: Literal["next", "lowest"] = "next"

    @property
    def level_count(self) -> int:
        """The number of levels at which the task couples its steps."""
        return self.task.scratchpad_levels

    @property
    def hides_answer_length(self) -> bool:
        """An id of the most significant digit would tell the length of an unpadded number."""
        return self.reverse_answer or self.pad

    @property
    def marks_known_from_question(self) -> bool:
        """Without padding, the model decides the length of each number."""
        return self.pad or self.task.answer_is_last_digit

    def incompatibility(self) -> str | None:
        """Refuse a task without a scratchpad, and settings that do not fit it."""
        if not self.task.scratchpad_levels:
            name = type(self.task).__name__
            return f"'scratchpad' writes steps, and {name} has none; expected 'expression'"
        if not (self.from_zero or isinstance(self.task, MultiOperandAddition)):
            return "from_zero false does not fit a task without sums; expected true"
        if self.task.answer_is_last_digit and not self.reverse_answer:
            return (
                "reverse_answer false does not fit, the last step would come first; expected true"
            )
        return None

    def vocabulary_size(self) -> int:
        """Return the digits and the signs up to `>`, or to the sign of the task."""
        return max(map(ALPHABET.index, f">{self.task.sign}")) + 1

    def extent(self, digits: int) -> Extent:
        """Write the largest problem and return its sizes."""
        if self.task.scratchpad_levels > 1 and digits > LONGEST:
            raise SettingsError(
                f"format: the steps of {digits} digits are too long; expected at most {LONGEST}"
            )
        return super().extent(digits)

    def write(self, problems: Problems) -> Batch:
        """Write problems as tokens and marks."""
        return self.write_stages(self.scratchpad_stages(problems), self.pad)

    def write_open_ended(self, problems: Problems) -> Batch:
        """Write the questions, followed by numbers of the longest possible lengths."""
        return self.write_stages(self.scratchpad_stages(problems), padded=True)

    def scratchpad_stages(self, problems: Problems) -> list[ScratchpadStage]:
        """Return the stages that are written: the question, then the steps."""
        return self.task.scratchpad_stages(problems, self.from_zero)

    def write_stages(self, stages: list[ScratchpadStage], padded: bool) -> Batch:
        """Write stages, correct or not; `padded`: response numbers are as long as their room.

        Certificates write numbers that no problem has, in order to test each step alone.
        """
        count, device = len(stages[0].lengths), stages[0].lengths.device
        question, response = [sign_piece(BOS, device)], list[Piece]()
        pieces, couplings = question, list[tuple[Coupling, ...]]()
        # Signs with couplings of their own are numbers after all digits' numbers.
        sign_couplings = list[tuple[Coupling, ...]]()
        first_sign = sum(len(stage.couplings) for stage in stages)
        for order, stage in enumerate(stages):
            lengths = stage.room if (padded if order else self.pad) else stage.lengths
            reverse = self.reverse_answer if order else self.reverse_operands
            for index in range(lengths.shape[1]):
                length = lengths[:, index]
                present = (length > 0)[:, None]
                number = len(couplings) + 1
                lowest = self.signs == "lowest"
                sign_place = NO_PLACE if reverse or lowest else length[:, None]
                if order and not index:
                    pieces.append(sign_piece(EQUALS, device, None, number, sign_place))
                    pieces = response
                elif stage.sign and index:
                    coupled_with = (number - 1, NO_PLACE)
                    if order or (reverse and lowest):
                        coupled_with = (number, sign_place)
                    if stage.sign_couplings is not None:
                        sign_couplings.append(stage.sign_couplings[index - 1])
                        coupled_with = (first_sign + len(sign_couplings), NO_PLACE)
                    sign = ALPHABET.index(stage.sign)
                    pieces.append(sign_piece(sign, device, present, *coupled_with))
                pieces.append(number_piece(stage.numbers[:, index], length, number, reverse))
                couplings.append(stage.couplings[index])
        return join_pieces(question, response, count, couplings + sign_couplings)

    def mark_continuation(
        self, problems: Problems, question: Batch, response: Integer[Tensor, "B A"]
    ) -> Batch:
        """Append response tokens to questions, with marks computed from the tokens.

        Places are counted from the last sign on. They are unknown, and absent, if the most
        significant digit is written first.
        """
        start = int(question.start[0])
        stages = self.scratchpad_stages(problems)
        first = stages[0].lengths.shape[1] + 1
        couplings = [levels for stage in stages for levels in stage.couplings]
        index = torch.arange(response.shape[1], device=response.device)
        is_sign = (response > 9) & (response < PAD) | (response > PAD)
        number = (first + is_sign.cumsum(1)).clamp(max=len(couplings))
        number_start = torch.where(is_sign, index + 1, 0).cummax(1).values
        # All digits of a number that is too long share its highest place.
        highest = torch.cat([stage.room for stage in stages], dim=1).gather(1, number - 1) - 1
        place = torch.where(is_sign, NO_PLACE, torch.minimum(index - number_start, highest))
        if not self.reverse_answer:
            place = torch.full_like(place, NO_PLACE)
        levels = compute_coupling_numbers(number, place, couplings)
        marks = [torch.where(is_sign, 0, number).int(), place.int(), levels]
        before = [mark[:, :start] for mark in (question.number, question.place, question.levels)]
        marks = [torch.cat(pair, dim=1) for pair in zip(before, marks, strict=True)]
        tokens = torch.cat([question.tokens[:, :start], response.int()], dim=1)
        length = torch.full_like(question.start, tokens.shape[1])
        return Batch(tokens, *marks, question.start, length)

    def read(self, response: Integer[Tensor, "B A"]) -> Integer[Tensor, "B A"]:
        """Return the last number, least significant digit first, followed by EOS."""
        number, kept = read_after_last(response, response > 9)
        if self.task.answer_is_last_digit:
            last = least_significant_first(number, kept, reversed_answer=False)
            return torch.cat([last[:, :1], torch.full_like(last[:, 1:], EOS)], dim=1)
        return least_significant_first(number, kept, self.reverse_answer)
