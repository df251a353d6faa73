"""A run's task, format, position schemes and model, built and checked against each other."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Literal

import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor

from carry import formats, positions, tasks
from carry.config.settings import LARGEST_INTEGER, SettingsError, describe, suggest_name
from carry.data import data_sets
from carry.data.batch import Batch, pack_columns, pack_pairs
from carry.experiments.run import Run
from carry.formats.sub_task import SubTask
from carry.models import architectures, encodings
from carry.models.attention import FarKeys
from carry.positions import RandomStart, Scheme
from carry.randomness import stream

# The first id; "all": next-token probabilities are averaged over starts (`evaluation.decoding`);
# "window": from id 1, with keys hidden whose ids are farther away than in problems of the trained
# lengths.
Start = int | Literal["all", "window"]
OTHER_STARTS = "'all' or an integer from 1"


class System:
    """The task, format, schemes and network of a run. Settings that do not fit are refused here.

    On the device `meta` the network has shapes and no numbers, whatever its size.

    >>> from carry.experiments.resolve import make_run
    >>> positions = [{"ids": "abacus", "encoding": "learned", "offset": 25}]
    >>> system = System(make_run({"task": {"name": "addition"}, "positions": positions}))
    >>> system.network.encodings[0].limit
    35

    Raises:
        SettingsError: for settings that do not fit together, with row, field and value.
    """

    def __init__(self, run: Run, seed: int = 0, device: str | torch.device = "cpu") -> None:
        where = f"runs.{run.name}"
        self.run, self.seed = run, seed
        self.task = tasks.build_task(run.task, f"{where}.task")
        self.format = formats.build_format(run.format, self.task, f"{where}.format")
        self._check_data_set(where)
        kind, settings = architectures.choose_architecture(run.model, f"{where}.model")
        self.schemes: list[Scheme] = []
        position_encodings: list[encodings.Encoding] = []
        # Weights depend on the seed alone, not on earlier draws of this process, or on a GPU.
        drawn_on = device if torch.device(device).type == "meta" else "cpu"
        with torch.random.fork_rng(devices=[]), torch.device(drawn_on):
            torch.manual_seed(stream(seed, "weights").initial_seed())
            for index, pair in enumerate(run.positions):
                scheme, encoding = self._build_pair(pair, f"{where}.positions.{index}", settings)
                self.schemes.append(scheme)
                position_encodings.append(encoding)
            self.network: architectures.Architecture = kind(
                settings, self.format.vocabulary_size(), position_encodings
            )
        self.network.to(device)
        self._check_lengths(where)
        if run.training.packing:
            self._check_packing(where)
        if run.training.longer > 1.0:
            self._check_far(f"{where}.training.longer: {run.training.longer}", "1.0")
        if "window" in run.evaluation.starts:
            self._check_far(f"{where}.evaluation.starts: 'window'", OTHER_STARTS)

    def _build_pair(
        self, pair: dict, where: str, model: encodings.ModelSettings
    ) -> tuple[Scheme, encodings.Encoding]:
        """Return the scheme and the encoding of one pair, whose settings share one mapping."""
        for key in ("ids", "encoding"):
            if key not in pair:
                raise SettingsError(f"{where}.{key}: missing; expected a name")
        scheme_kind = positions.choose_scheme(pair["ids"], f"{where}.ids")
        kind = encodings.choose_encoding(pair["encoding"], f"{where}.encoding")
        scheme_keys, encoding_keys = scheme_kind.model_fields, kind.Settings.model_fields
        keys = ["ids", "encoding", *scheme_keys, *encoding_keys]
        for key in pair:
            if key not in keys:
                raise SettingsError(f"{where}.{key}: unknown setting, {suggest_name(key, keys)}")
        scheme = scheme_kind.parse({k: v for k, v in pair.items() if k in scheme_keys}, where)
        reason = scheme.incompatibility(self.format)
        if reason is not None:
            raise SettingsError(f"{where}.ids: {reason}")
        settings = kind.Settings.parse({k: v for k, v in pair.items() if k in encoding_keys}, where)
        if kind.needs_order and not scheme.increasing:
            raise SettingsError(
                f"{where}.encoding: {kind.__name__} needs ids that grow from left to right, unlike "
                f"ids {pair['ids']!r}; expected ids 'index' or 'randomized'"
            )
        if settings.window is not None and not scheme.ids_measure_distance:
            raise SettingsError(
                f"{where}.window: {settings.window} does not fit ids {pair['ids']!r}, whose "
                "differences are not distances; expected 'index', 'coupled' without ring, or "
                "'abacus' of offset 1"
            )
        ids = encodings.IdRange(scheme.largest_id(self.training_extent()), scheme.uncounted_id)
        try:
            return scheme, kind(settings, model, ids)
        except SettingsError as error:  # an encoding does not know the row
            raise SettingsError(f"{where}: {error}") from None

    @property
    def device(self) -> torch.device:
        """The device of the weights, where batches and ids have to be."""
        return self.network.device

    def training_extent(self) -> formats.Extent:
        """Return the largest sizes of written training problems."""
        training, data_set = self.run.training, self.run.data_set
        extent = self._extent(training.digits, [*data_set.mixture] if data_set else [])
        if training.random_padding or training.packing:  # pads between tokens; a second problem
            return extent._replace(tokens=2 * extent.tokens)
        return extent

    def _check_packing(self, where: str) -> None:
        """Refuse schemes without random starts, and batches and tables too small for pairs."""
        extent = self.training_extent()
        if self.run.training.batch < 2:
            raise SettingsError(
                f"{where}.training.batch: 1 does not fit packing true; expected 2 or more"
            )
        for index, scheme in enumerate(self.schemes):
            place, is_line = f"{where}.positions.{index}", isinstance(scheme, RandomStart)
            if not is_line or scheme.start_is_fixed or scheme.wraps or scheme.has_skips:
                raise SettingsError(
                    f"{place}.ids: {self.run.positions[index]['ids']!r} does not fit training."
                    "packing true, expected ids with a limit or an offset, no ring, jumps or gaps"
                )
            needed, largest = 2 * scheme.required_ids(extent) + 1, scheme.largest_id(extent)
            if needed > largest:
                raise SettingsError(
                    f"{place}: ids up to {largest} do not fit training.packing true; "
                    f"expected {needed} for two problems"
                )

    def _check_far(self, where: str, expected: str) -> None:
        """Refuse models in which no key can be far from a query, or windows hide far keys."""
        if not any(scheme.accepts_start for scheme in self.schemes):
            found = "a model without ids of places"
        elif any(scheme.wraps for scheme in self.schemes):
            found = "ids on a ring"
        elif any(encoding.window is not None for encoding in self.network.encodings):
            found = "a model with windows of its own"
        else:
            return
        raise SettingsError(f"{where} does not fit {found}; expected {expected}")

    def _check_data_set(self, where: str) -> None:
        """Refuse a data set with too few problems, or sub-tasks that the format does not write."""
        data_set, training = self.run.data_set, self.run.training
        if data_set is None:
            return
        data_sets.check_example_count(data_set, training.examples, f"{where}.training.examples")
        if data_set.mixture and not isinstance(self.format, SubTask):
            raise SettingsError(
                f"{where}.format: {self.run.format.get('name', 'expression')!r} writes no prefix, "
                f"and {training.problem_set!r} mixes {', '.join(data_set.mixture)}; expected "
                "a format of sub-tasks"
            )

    def _extent(self, digits: int, mixture: Sequence[str] = ()) -> formats.Extent:
        try:
            with torch.device("cpu"):  # weights may be on `meta`, but sizes are numbers
                if mixture:
                    return self.format.mixed_extent(digits, mixture)
                return self.format.extent(digits)
        except SettingsError as error:  # a format does not know the row
            raise SettingsError(f"runs.{self.run.name}.{error}") from None

    def _check_lengths(self, where: str) -> None:
        """Refuse training or evaluation lengths that need ids beyond a table."""
        training, evaluation = self.run.training, self.run.evaluation
        longest = max(training.digits, evaluation.largest_size())
        for name, cells in (
            ("attention_cell", [evaluation.attention_cell] if evaluation.attention_cell else []),
            ("far", evaluation.far_cells()),
            ("reach", [cell[:2] for cell in evaluation.reach]),
        ):
            for cell in cells:
                self.task.check_cell(tuple(cell), f"{where}.evaluation.{name}")
        trained, scored = self.training_extent(), self._extent(longest)
        for index, scheme in enumerate(self.schemes):
            limit, table = self.network.encodings[index].limit, self.largest_id(index)
            if table is None:
                continue
            largest = scheme.largest_id(trained)
            place = f"{where}.positions.{index}"
            if limit is not None and largest > limit:
                raise SettingsError(
                    f"{place}.table: {limit} is too small, training to {training.digits} digits "
                    f"shows id {largest}; expected at least {largest}"
                )
            needed = scheme.required_ids(scored)
            for start in evaluation.starts:
                last = self.last_id(index, needed, start)
                if last > table:
                    raise SettingsError(
                        f"{place}: a problem of {longest} digits from id {last - needed + 1} needs "
                        f"id {last}, past the largest, {table}; expected a larger table, offset, "
                        "limit, range"
                    )

    def train_ids(self, batch: Batch, generator: torch.Generator) -> list[Integer[Tensor, "_ T"]]:
        """Return the ids of every scheme, drawn for training."""
        return [scheme.train_ids(batch, generator) for scheme in self.schemes]

    def pack(
        self, batch: Batch, generator: torch.Generator
    ) -> tuple[Batch, list[Integer[Tensor, "_ T"]]]:
        """Return pairs of problems as sequences, with training ids that do not overlap."""
        half = len(batch) // 2
        # In random order: batches are sorted by length, and only the second problems are scored.
        order = torch.randperm(len(batch), generator=generator)
        first, second = batch[order[:half]].trim(), batch[order[half : 2 * half]].trim()
        ids = [
            pack_columns(*scheme.pack_ids(first, second, generator), first.length)
            for scheme in self.schemes
        ]
        return pack_pairs(first, second), ids

    def unknowable(
        self, batch: Batch, ids: Sequence[Integer[Tensor, "_ T"]]
    ) -> Bool[Tensor, "_ T"] | None:
        """Return the tokens that training ids of any scheme make unpredictable; None: none."""
        pairs = zip(self.schemes, ids, strict=True)
        found = [mask for s, values in pairs if (mask := s.unknowable(batch, values)) is not None]
        return functools.reduce(torch.logical_or, found) if found else None

    def ids(self, batch: Batch, start: int = 1) -> list[Integer[Tensor, "_ T"]]:
        """Return the ids of every scheme from one start."""
        return self.ids_from(batch, self.first_ids(start))

    def first_ids(self, start: int) -> list[int]:
        """Return the first id of each scheme from one start: 1 if it accepts no other.

        Raises:
            SettingsError: for a start that is not a positive integer.
        """
        if not (isinstance(start, int) and 1 <= start <= LARGEST_INTEGER):
            raise SettingsError(
                f"start: {describe(start)} is not valid; expected an integer from 1"
            )
        return [start if scheme.accepts_start else 1 for scheme in self.schemes]

    @contextmanager
    def read_from(self, start: Start) -> Iterator[int | Literal["all"]]:
        """Yield the start of ids; for "window" it is 1, and attention is restricted meanwhile.

        A token then sees only digits whose ids differ from its own by no more than in problems of
        the trained lengths, and all signs.

        Raises:
            SettingsError: for "window" and a model in which no key can be far.
        """
        if start != "window":
            yield start
            return
        self._check_far(f"start: 'window' of {self.run.name}", OTHER_STARTS)
        extent = self.training_extent()
        windows = [
            scheme.required_ids(extent) - 1 if scheme.accepts_start else None
            for scheme in self.schemes
        ]
        with self.count_far(windows, 0.0):
            yield 1

    @contextmanager
    def count_far(
        self,
        windows: Sequence[int | None],
        times: Float[Tensor, ""] | float,
        near: range = formats.SIGN_TOKENS,
    ) -> Iterator[None]:
        """Let keys whose ids differ by more than a scheme's window count several times, or never.

        Tokens with id 0 count once. Of several schemes, each makes keys far.

        Args:
            windows: for each scheme; None: it makes no key far.
            times: 0 hides the far keys.
            near: tokens that count once at any distance; the signs, unless said otherwise.

        Raises:
            SettingsError: for windows, if the model has no ids of places, ids on a
                ring, or windows of its own.
        """
        if any(window is not None for window in windows):
            self._check_far(f"window: {[*windows]}", "None")
        before = self.network.far_keys
        self.network.far_keys = FarKeys([*windows], times, near)
        try:
            yield
        finally:
            self.network.far_keys = before

    def count_as_longer(self, times: Float[Tensor, ""]) -> AbstractContextManager[None]:
        """Let all tokens but those of the same and of neighbouring ids count several times.

        Signs that have ids count several times, too: coupled ids are learned better so.
        """
        windows = [1 if scheme.accepts_start else None for scheme in self.schemes]
        return self.count_far(windows, times, near=range(0))

    def ids_from(self, batch: Batch, first: Sequence[int]) -> list[Integer[Tensor, "_ T"]]:
        """Return the ids of every scheme from its first id."""
        return [scheme.ids(batch, start) for scheme, start in zip(self.schemes, first, strict=True)]

    def needed_ids(self, index: int, batch: Batch) -> int:
        """Return how many ids of a scheme a batch needs: the largest id from start 1, on a line."""
        scheme = self.schemes[index]
        if scheme.wraps:
            scheme = scheme.model_copy(update={"ring": False})
        return int(scheme.ids(batch).max())

    def last_id(self, index: int, needed: int, start: Start) -> int:
        """Return the last of `needed` ids of a scheme from a start, which its table has to have.

        Problems fit from "all" if they fit from 1. On a ring, where id 1 follows the
        largest one, no id is missing from any start if they fit from 1.
        """
        scheme = self.schemes[index]
        moves = isinstance(start, int) and scheme.accepts_start and not scheme.wraps
        return needed + (start - 1 if moves else 0)

    def last_start(self, index: int, needed: int) -> int | None:
        """Return the last start from which `needed` ids of a scheme fit its table; None: any.

        On a ring all ids are starts. A problem that fits from no start has 1.
        """
        scheme, largest = self.schemes[index], self.largest_id(index)
        if not scheme.accepts_start:
            return None
        if largest is None or scheme.wraps:
            return largest
        return max(1, largest - needed + 1)

    def largest_id(self, index: int) -> int | None:
        """Return the largest id of a pair of scheme and encoding; None: any id."""
        limits = (self.network.encodings[index].limit, self.schemes[index].id_limit())
        return min((limit for limit in limits if limit is not None), default=None)

    def distinct_starts(self, starts: Sequence[int | str]) -> list[int | str]:
        """Return the starts that differ: all if a table limits the ids, else 1 and "window"."""
        limited = any(
            scheme.accepts_start and self.largest_id(index) is not None
            for index, scheme in enumerate(self.schemes)
        )
        alike = [start if limited or start == "window" else 1 for start in starts]
        return list(dict.fromkeys(alike))

    def logits(
        self,
        batch: Batch,
        ids: Sequence[Integer[Tensor, "_ S"]],
        at: Integer[Tensor, "_ A"] | None = None,
        recurrences: int | None = None,
    ) -> Float[Tensor, "B _ V"]:
        """Return the logits of the next token, at all tokens or at the tokens `at`.

        They are computed on the device of the model, and returned on the device of the batch.
        """
        ids = [values.to(self.device) for values in ids]
        at = None if at is None else at.to(self.device)
        logits = self.network(batch.tokens.to(self.device), ids, at, recurrences)
        return logits.to(batch.tokens.device)
