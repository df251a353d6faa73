"""Models that were not trained here: a folder of `carry export`, or a Python file.

A Python file has settings, and a function from tokens to logits (examples/own_model.py):

    SETTINGS = {"task": {"name": "addition"}, "format": {"reverse_operands": True}}

    def logits(tokens):  # integers [B, T]
        ...
        return values  # floats [B, T, symbols]: of the token after each of the T tokens

Task and format are those of a row (`carry show ROW` prints some). Token k is the k-th symbol of
`carry.formats.ALPHABET`; there are as many symbols as the format uses. A line of B is a problem
with its response, `^356+94=207$`, followed by padding, `_`. The function may use any library and
device. Its values at a token must not depend on later tokens: some are computed again without
these. Loading the file executes it.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Integer
from torch import Tensor, nn

from carry.config.settings import SettingsError, describe
from carry.evaluation.ask import make_problem
from carry.experiments.resolve import make_run
from carry.exports import load_exported
from carry.formats import ALPHABET
from carry.models.architectures import Architecture, ModelSettings
from carry.models.architectures.transformer import pick_tokens
from carry.models.hooks import Hooks
from carry.models.system import System
from carry.randomness import stream

if TYPE_CHECKING:
    import pandas as pd

SECTIONS = ("task", "format")  # of the settings: the file is the rest of the model
TOLERANCE = 1e-2  # of logits at one token that are computed with and without later tokens
CHECKED = 8  # tokens of a right answer that are predicted again without later tokens


class FunctionNetwork(Architecture):
    """A function from tokens to logits as a network; each call checks what it returns."""

    def __init__(self, function: Callable[[Tensor], Tensor], symbols: int, path: Path) -> None:
        super().__init__(ModelSettings(), symbols, [])
        self.function, self.symbols, self.path = function, symbols, path

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.path.name

    def hidden_matrices(self) -> list[nn.Parameter]:
        """Return nothing: a function is not trained here."""
        return []

    def forward(
        self,
        tokens: Integer[Tensor, "B T"],
        ids: Sequence[Integer[Tensor, "_ S"]],
        at: Integer[Tensor, "_ A"] | None = None,
        recurrences: int | None = None,
        *,
        hooks: Hooks | None = None,
    ) -> Float[Tensor, "B _ V"]:
        """Return the logits of the function, at all tokens or at the tokens `at`.

        Raises:
            SettingsError: for an error in the function, and a result that is no logits.
        """
        self.start_hooks(hooks)
        with _name_errors(self.path):
            values = self.function(tokens.long())
        where, expected = f"{self.path}: logits", (*tokens.shape, self.symbols)
        if not isinstance(values, Tensor) or not values.is_floating_point():
            kind = values.dtype if isinstance(values, Tensor) else type(values).__name__
            raise SettingsError(f"{where}: the result is {kind}; expected a tensor of floats")
        if tuple(values.shape) != expected:
            raise SettingsError(
                f"{where}: shape {tuple(values.shape)} for tokens {tuple(tokens.shape)}; expected "
                f"{expected}, a logit for each of {describe(ALPHABET[: self.symbols])}"
            )
        if values.isnan().any():
            raise SettingsError(f"{where}: {int(values.isnan().sum())} are nan; expected numbers")
        values = values.to(tokens.device)
        return values if at is None else pick_tokens(values, at)


def load_model(path: str | Path) -> System:
    """Return the model in a folder of `carry export`, or in a Python file, to the CPU.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "mine.py"
    >>> code = ['SETTINGS = {"task": {"name": "addition"}}', "def logits(tokens): return 1"]
    >>> _ = path.write_text("\\n".join(code), encoding="utf-8")
    >>> load_model(path)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    carry.config.settings.SettingsError: ...: logits: the result is int; expected a tensor of floats

    Raises:
        SettingsError: for another path, a damaged folder, a file without settings or function, an
            error in it, and a function whose result does not fit or depends on later tokens.
    """
    path = Path(path)
    if path.is_dir():
        return load_exported(path)
    if not path.is_file() or path.suffix != ".py":
        state = "is no Python file" if path.exists() else "does not exist"
        raise SettingsError(
            f"model: {describe(str(path))} {state}; expected a folder of `carry export`, or a "
            "Python file with SETTINGS and logits"
        )
    module = _import_file(path)
    settings, function = (getattr(module, name, None) for name in ("SETTINGS", "logits"))
    if not isinstance(settings, dict) or {*settings} - {*SECTIONS} or "task" not in settings:
        raise SettingsError(
            f"{path}: SETTINGS: {describe(settings)} does not fit; expected a mapping with task, "
            "and maybe format, alone"
        )
    if not callable(function):
        raise SettingsError(f"{path}: logits: {describe(function)}; expected a function of tokens")
    try:
        # Its network is replaced.
        system = System(make_run(settings, re.sub(r"\W", "_", path.stem)[:50]), device="meta")
    except SettingsError as error:
        text = str(error).partition(".")[2].partition(".")[2]  # without the name of the run
        raise SettingsError(f"{path}: SETTINGS: {text}") from None
    symbols = system.format.vocabulary_size()
    system.network = FunctionNetwork(function, symbols, path).eval()
    _check_function(system)
    return system


def _check_function(system: System) -> None:
    """Call the function, and refuse values that depend on later tokens: it could read answers."""
    cell = torch.tensor([[max(3, *system.task.smallest_cell)] * 2])
    problem = system.task.draw_for_cells(cell, stream(0, "own model"))
    tokens = system.format.write(problem).tokens.long()
    with torch.inference_mode():
        whole = system.network(tokens, [])
        for end in range(1, tokens.shape[1]):
            part = system.network(tokens[:, :end], [])[:, -1]
            if not torch.allclose(part, whole[:, end - 1], rtol=TOLERANCE, atol=TOLERANCE):
                raise SettingsError(
                    f"{system.network.path}: logits: those after {end} tokens change with later "
                    "tokens; expected a function of the tokens so far"
                )


@torch.inference_mode()
def check_right_answers(system: System, scored: pd.DataFrame) -> None:
    """Refuse a function that is right only where it reads what follows, by one answer of each size.

    The check in `load_model` sees neither longer questions nor differences below its tolerance.

    Args:
        scored: of `carry.evaluation.question_scores.score_questions`.
    """
    if not isinstance(system.network, FunctionNetwork):
        return
    for line in scored[scored["exact"]].drop_duplicates("digits").itertuples():
        problem = make_problem(system.task, line.operands).to(system.device)
        batch = system.format.write(problem)
        tokens, start = batch.tokens.long(), int(batch.start[0])
        for end in range(start, tokens.shape[1], -(-(tokens.shape[1] - start) // CHECKED)):
            if system.network(tokens[:, :end], [])[0, -1].argmax() != tokens[0, end]:
                raise SettingsError(
                    f"{system.network.path}: logits: those after {end} tokens of line {line.line} "
                    "are right only with later tokens; expected a function of the tokens so far"
                )


def _import_file(path: Path) -> ModuleType:
    """Execute a Python file, which may import its neighbours, and return its module."""
    spec = importlib.util.spec_from_file_location(f"own_model_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))  # for good: functions may import, too
    sys.modules[spec.name] = module  # which dataclasses look up
    with _name_errors(path):
        spec.loader.exec_module(module)
    return module


@contextmanager
def _name_errors(path: Path) -> Iterator[None]:
    """Turn an error of the reader's file into one line with its last line in this file."""
    try:
        yield
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        numbers = [f.lineno for f in frames if Path(f.filename).resolve() == path.resolve()]
        number = numbers[-1] if numbers else getattr(error, "lineno", None)
        where = f"{path}" if number is None else f"{path} line {number}"
        raise SettingsError(
            f"{where}: {type(error).__name__}: {error}; expected code that runs"
        ) from error
