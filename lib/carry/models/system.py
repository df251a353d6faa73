"""A run made real: its task, its format, its position schemes and its model, checked together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Float, Integer
from torch import Tensor, nn

from carry import formats, positions, tasks
from carry.config.run_settings import Run
from carry.config.settings import SettingsError, suggest_name
from carry.data import data_sets
from carry.data.batch import Batch
from carry.models import architectures, encodings
from carry.positions import Scheme
from carry.randomness import stream

Start = int | Literal["middle"]


class System:
    """All that a run's settings build; what does not fit together is refused here, before work.

    >>> from carry.config.run_settings import make_run
    >>> positions = [{"ids": "abacus", "encoding": "learned", "offset": 25}]
    >>> system = System(make_run({"task": {"name": "addition"}, "positions": positions}))
    >>> system.network.encodings[0].limit
    35

    Raises:
        SettingsError: with one line that names row, field, value and what was expected.
    """

    def __init__(self, run: Run, seed: int = 0, device: str | torch.device = "cpu") -> None:
        where = f"runs.{run.name}"
        self.run, self.seed = run, seed
        self.task = tasks.build(run.task, f"{where}.task")
        self.format = formats.build(run.format, self.task, f"{where}.format")
        self._check_data_set(where)
        kind, given = architectures.choose(run.model, f"{where}.model")
        shape = kind.shape(given)
        self.schemes: list[Scheme] = []
        felt: list[encodings.Encoding] = []
        # Weights depend on the seed alone, whatever was drawn in this process before.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(stream(seed, "weights").initial_seed())
            for index, pair in enumerate(run.positions):
                scheme, encoding = self._pair(pair, f"{where}.positions.{index}", shape)
                self.schemes.append(scheme)
                felt.append(encoding)
            self.network: nn.Module = kind(given, self.format.symbols(), felt, shape)
        self.network.to(device)
        self._check_lengths(where)

    def _pair(self, pair: dict, where: str, shape: encodings.Shape):
        """Return scheme and encoding of one pair, whose settings stand in one mapping."""
        for key in ("ids", "encoding"):
            if key not in pair:
                raise SettingsError(f"{where}.{key}: missing; expected a name")
        scheme_kind = positions.choose(pair["ids"], f"{where}.ids")
        kind = encodings.choose(pair["encoding"], f"{where}.encoding")
        scheme_keys, own_keys = scheme_kind.model_fields, kind.Settings.model_fields
        for key in pair:
            if key not in {"ids", "encoding", *scheme_keys, *own_keys}:
                known = ["ids", "encoding", *scheme_keys, *own_keys]
                raise SettingsError(f"{where}.{key}: unknown setting, {suggest_name(key, known)}")
        scheme = scheme_kind.parse({k: v for k, v in pair.items() if k in scheme_keys}, where)
        why = scheme.incompatibility(self.format)
        if why is not None:
            raise SettingsError(f"{where}.ids: {why}")
        encodings.check(kind, scheme, where)
        given = kind.Settings.parse({k: v for k, v in pair.items() if k in own_keys}, where)
        encodings.check_window(given, scheme, where)
        ids = encodings.Ids(scheme.largest(self.training_extent()), scheme.absent)
        try:
            return scheme, kind(given, shape, ids)
        except SettingsError as error:  # an encoding does not know its place in the run
            raise SettingsError(f"{where}: {error}") from None

    def training_extent(self) -> formats.Extent:
        """Return how large the problems of training are when written.

        Raises:
            SettingsError: for problems that the format cannot write.
        """
        training, mixture = self.run.training, self._mixture()
        extent = self._extent(training.digits, mixture)
        if training.random_padding:  # a pad may stand before every token
            return extent._replace(tokens=2 * extent.tokens)
        return extent

    def _mixture(self) -> list[str]:
        """Return the prefixes of the sub-tasks that training mixes, if it does."""
        return list(self.run.data_set.mixture) if self.run.data_set else []

    def _check_data_set(self, where: str) -> None:
        """Refuse a data set with fewer problems than asked for, or of what is never written."""
        of, training = self.run.data_set, self.run.training
        if of is None:
            return
        data_sets.check(training.problem_set, of, training.examples, f"{where}.training.examples")
        if of.mixture and not self.format.has_task_prefix:
            raise SettingsError(
                f"{where}.format: {self.run.format.get('name', 'expression')!r} writes no prefix, "
                f"and {training.problem_set!r} mixes {', '.join(of.mixture)}; expected a format of "
                "sub-tasks"
            )

    def _extent(self, digits: int, mixture: Sequence[str] = ()) -> formats.Extent:
        try:
            with torch.device("cpu"):  # numbers are wanted, also where weights are but shapes
                if mixture:
                    return self.format.extent_of(digits, mixture)
                return self.format.extent(digits)
        except SettingsError as error:  # a format does not know its place in the run
            raise SettingsError(f"runs.{self.run.name}.{error}") from None

    def _check_lengths(self, where: str) -> None:
        """Refuse ids that would run past a table at training or at evaluation lengths."""
        training, evaluation = self.run.training, self.run.evaluation
        longest = max(training.digits, evaluation.largest())
        trained, scored = self.training_extent(), self._extent(longest)
        for index, scheme in enumerate(self.schemes):
            limit, table = self.network.encodings[index].limit, self.largest_id(index)
            if table is None:
                continue
            shown = scheme.largest(trained)
            place = f"{where}.positions.{index}"
            if limit is not None and shown > limit:
                raise SettingsError(
                    f"{place}.table: {limit} is too small, training to {training.digits} digits "
                    f"shows id {shown}; expected at least {shown}"
                )
            for start in evaluation.starts:
                first = start if isinstance(start, int) and scheme.movable else 1
                last = first - 1 + scheme.span(scored)
                if last > table:
                    raise SettingsError(
                        f"{place}: a problem of {longest} digits from id {first} needs id {last}, "
                        f"past the largest, {table}; expected a larger table, offset, limit, range"
                    )

    def train_ids(self, batch: Batch, generator: torch.Generator) -> list[Integer[Tensor, "_ T"]]:
        """Return the ids of every scheme as training draws them."""
        return [scheme.train_ids(batch, generator) for scheme in self.schemes]

    def ids(self, batch: Batch, start: Start = 1) -> list[Integer[Tensor, "_ T"]]:
        """Return the ids of every scheme from a start: an id, or "middle" of each table."""
        return self.ids_from(batch, self.first_ids(batch, start))

    def first_ids(self, batch: Batch, start: Start) -> list[int]:
        """Return the id at which each scheme starts, so that the batch sits mid-table if asked."""
        return [self.first_id(index, batch, start) for index in range(len(self.schemes))]

    def ids_from(self, batch: Batch, first: Sequence[int]) -> list[Integer[Tensor, "_ T"]]:
        """Return the ids of every scheme from a first id of its own."""
        return [of.ids(batch, start) for of, start in zip(self.schemes, first, strict=True)]

    def first_id(self, index: int, batch: Batch, start: Start) -> int:
        """Return the id at which a scheme starts."""
        scheme, limit = self.schemes[index], self.largest_id(index)
        if not scheme.movable:
            return 1
        if start != "middle":
            return start
        if limit is None:  # nothing has an edge here
            return 1
        needed = int(scheme.ids(batch).max())
        return 1 + max(0, (limit - needed) // 2)

    def largest_id(self, index: int) -> int | None:
        """Return the largest id that a pair can give and feel; None: any."""
        ends = (self.network.encodings[index].limit, self.schemes[index].fixed_range())
        return min((end for end in ends if end is not None), default=None)

    def different(self, starts: Sequence[Start]) -> list[Start]:
        """Return the starts that differ: all of them if ids move within some range, else only 1."""
        move = any(
            scheme.movable and self.largest_id(index) is not None
            for index, scheme in enumerate(self.schemes)
        )
        return list(starts) if move else [1]

    def logits(
        self,
        batch: Batch,
        ids: Sequence[Integer[Tensor, "_ S"]],
        at: Integer[Tensor, "_ A"] | None = None,
        recurrences: int | None = None,
    ) -> Float[Tensor, "B _ V"]:
        """Return the logits of the next token, at all tokens or at those asked for."""
        return self.network(batch.tokens, ids, at, recurrences)

    def logits_by_recurrence(
        self,
        batch: Batch,
        ids: Sequence[Integer[Tensor, "_ S"]],
        at: Integer[Tensor, "_ A"] | None = None,
        recurrences: int | None = None,
    ) -> Float[Tensor, "R B _ V"]:
        """Return `logits` as if the model ended after each recurrence, without gradients."""
        return self.network.each_recurrence(batch.tokens, ids, at, recurrences)
