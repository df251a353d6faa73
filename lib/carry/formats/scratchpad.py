"""The problem with its steps written out: `^57+48=000>750>501$`, the last of them the answer."""

from __future__ import annotations

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.data.batch import NO_PLACE, Batch
from carry.data.problems import Problems
from carry.formats import ALPHABET, BOS, EOS, EQUALS, PAD, Extent, Format, join, symbol
from carry.formats import levels as levels_of
from carry.formats.expression import number
from carry.tasks import Line, Stage


class Scratchpad(Format):
    """The stages that the task has, with `=` between them (cho2025, Fig. 2, 4 and 8).

    `reverse_operands`, `reverse_answer`: write the ones first, in the question and behind it.
    `pad`: zeros make each number as long as the question lets it be. `from_zero`: running sums
    begin with 0 (cho2025, 4.1); None as the task has it in the paper.

    A sign goes with the number behind it, one below its ones, or one above its highest digit where
    that one is written first; in the question with the number before it.

    >>> from carry.formats import build, text
    >>> from carry.tasks import build as build_task, to_digits
    >>> for name, numbers in (("multi_operand_addition", [57, 48]), ("multiplication", [37, 92])):
    ...     task = build_task({"name": name})
    ...     problems = task.solve(*to_digits([numbers]))
    ...     print(text(build({"name": "scratchpad"}, task).write(problems).tokens[0]))
    ^057+048=000>750>501$
    ^37*92=470+333=4700>4043$
    """

    reverse_operands: bool = False
    reverse_answer: bool = True
    pad: bool = True
    from_zero: bool | None = None

    @property
    def has_steps(self) -> bool:
        """Steps stand before the answer."""
        return True

    @property
    def levels(self) -> int:
        """The levels at which the task's steps are coupled."""
        return self.task.levels

    @property
    def marks_known_from_question(self) -> bool:
        """Without padding, where a number ends is for the model to say."""
        return self.pad or self.task.answer_is_last_digit

    def incompatibility(self) -> str | None:
        """Refuse a task without steps, zeros where there are no sums, and steps in disorder."""
        if not self.task.levels:
            name = type(self.task).__name__
            return f"'scratchpad' writes steps, and {name} has none; expected 'expression'"
        if self.from_zero is not None and self.task.from_zero is None:
            return f"from_zero {self.from_zero} does not fit, no sums begin here; expected none"
        if self.task.answer_is_last_digit and not self.reverse_answer:
            return (
                "reverse_answer false does not fit, the last step would come first; expected true"
            )
        return None

    def symbols(self) -> int:
        """Return the whole alphabet but its letters."""
        return ALPHABET.index(">") + 1

    def extent(self, digits: int) -> Extent:
        """Return the longest number, the tokens of the longest problem, and how far levels count.

        That problem is written down and measured; all its digits are nines.
        """
        lengths = self.task.largest(digits)
        nine = 1 if self.task.answer_is_last_digit else 9
        digit = torch.full((*lengths.shape, int(lengths.max())), nine, dtype=torch.uint8)
        batch = self.write_open_ended(self.task.solve(digit, lengths))
        counted = tuple((batch.levels[0].amax(0) + 1).tolist())
        return Extent(int(batch.place.max()) + 1, int(batch.length), counted)

    def write(self, problems: Problems) -> Batch:
        """Write problems as tokens and marks."""
        return self._written(problems, padded=self.pad)

    def write_open_ended(self, problems: Problems) -> Batch:
        """Write the questions, and behind them numbers that are as long as they could be."""
        return self._written(problems, padded=True)

    def stages(self, problems: Problems) -> list[Stage]:
        """Return what is written: the question, then the steps."""
        from_zero = self.task.from_zero if self.from_zero is None else self.from_zero
        return self.task.stages(problems, bool(from_zero))

    def _written(self, problems: Problems, padded: bool) -> Batch:
        return self.laid_out(self.stages(problems), padded)

    def laid_out(self, stages: list[Stage], padded: bool) -> Batch:
        """Write stages, true or not; those behind the question are `padded` to their room or not.

        A certificate writes numbers that no problem has, to look at each step by itself.
        """
        count, device = len(stages[0].lengths), stages[0].lengths.device
        pieces, lines = [symbol(BOS, device)], list[tuple[Line, ...]]()
        numbers = sum(len(stage.lines) for stage in stages)
        signs, question = list[tuple[Line, ...]](), torch.zeros(count, dtype=torch.long)
        for order, stage in enumerate(stages):
            lengths = stage.room if (padded if order else self.pad) else stage.lengths
            reverse = self.reverse_answer if order else self.reverse_operands
            for index in range(lengths.shape[1]):
                length = lengths[:, index]
                there = (length > 0)[:, None]
                part = len(lines) + 1
                above = NO_PLACE if reverse else length[:, None]
                if order and not index:
                    pieces += [symbol(EQUALS, device, None, part, above)]
                elif stage.sign and index:
                    tied = (part, above) if order else (part - 1, NO_PLACE)
                    if stage.signs is not None:  # with a line of its own, behind those of numbers
                        signs.append(stage.signs[index - 1])
                        tied = (numbers + len(signs), NO_PLACE)
                    pieces += [symbol(ALPHABET.index(stage.sign), device, there, *tied)]
                pieces += [number(stage.numbers[:, index], length, part, reverse)]
                lines.append(stage.lines[index])
            if not order:
                question = sum(piece.present.sum(1) for piece in pieces) + 1
        pieces += [symbol(EOS, device)]
        tokens, marks, total = join(pieces, count, device, lines + signs)
        return Batch(tokens, *marks, question.expand(count), total)

    def continued(
        self, problems: Problems, question: Batch, response: Integer[Tensor, "B A"]
    ) -> Batch:
        """Return questions with what has been written behind them, marked by what it says.

        For formats that are not settled by the question. A place is counted from the last sign
        on; where the highest digit is written first it is not known, and there is none.
        """
        asked = int(question.start[0])
        stages = self.stages(problems)
        first = stages[0].lengths.shape[1] + 1
        lines = [line for stage in stages for line in stage.lines]
        at = torch.arange(response.shape[1], device=response.device)
        sign = (response > 9) & (response < PAD) | (response > PAD)
        part = (first + sign.cumsum(1)).clamp(max=len(lines))
        behind = torch.where(sign, at + 1, 0).cummax(1).values
        # Of a number that goes on for too long, all that is too much stands at the highest place.
        highest = torch.cat([stage.room for stage in stages], dim=1).gather(1, part - 1) - 1
        place = torch.where(sign, NO_PLACE, torch.minimum(at - behind, highest))
        if not self.reverse_answer:
            place = torch.full_like(place, NO_PLACE)
        level = levels_of(part, place, lines)
        marks = [torch.where(sign, 0, part).int(), place.int(), level]
        before = [of[:, :asked] for of in (question.number, question.place, question.levels)]
        marks = [torch.cat(pair, dim=1) for pair in zip(before, marks, strict=True)]
        tokens = torch.cat([question.tokens[:, :asked], response.int()], dim=1)
        return Batch(
            tokens, *marks, question.start, torch.full_like(question.start, tokens.shape[1])
        )

    def read(self, response: Integer[Tensor, "B A"]) -> Integer[Tensor, "B A"]:
        """Return the answer with the ones first, from the end; what stands behind it is EOS."""
        at = torch.arange(response.shape[1], device=response.device)
        ended = (response == EOS).cumsum(1) > 0
        length = (~ended).sum(1, keepdim=True)
        sign = ~ended & (response > 9)
        begins = torch.where(sign, at + 1, 0).amax(1, keepdim=True)
        if self.task.answer_is_last_digit:
            begins = torch.maximum(begins, length - 1)
        inside = at < length - begins
        source = begins + at if self.reverse_answer else length - 1 - at
        return torch.where(inside, response.gather(1, source.clamp(0, len(at) - 1)), EOS)
