"""A run: one row of params.yaml, made as large as a profile says."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal

import pydantic
from pydantic import Field

from carry import params
from carry.settings import Settings, SettingsError, nearest

Pair = Annotated[list[int], Field(min_length=2, max_length=2)]


class Training(Settings):
    """How a run is trained; defaults are a small model's on a laptop."""

    digits: int = Field(default=10, ge=1)
    steps: int = Field(default=1000, ge=1)
    batch: int = Field(default=128, ge=1)
    together: bool = False  # all seeds as one computation, for layers of attention alone
    fixed: int | None = Field(default=None, ge=1)  # so many problems; None: fresh ones for ever
    noise: float = Field(default=0.0, ge=0.0, lt=1.0)  # pads before so many question tokens
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)  # of what attention finds, if together
    dropout_embeddings: float = Field(default=0.0, ge=0.0, lt=1.0)
    halving: Literal["random", "masked", "svc", "shapley"] | None = None  # which heads are kept
    halve_at: float = Field(default=0.95, ge=0.0, le=1.0)  # held-out accuracy
    loss: Literal["answer", "everything"] = "answer"
    mean: Literal["token", "sample"] = "token"  # of all, or of samples' means
    progressive: float = Field(default=0.0, ge=0.0, le=1.0)  # weight of the loss at random depth
    optimizer: Literal["adamw", "muon"] = "adamw"
    rate: float = Field(default=1e-3, gt=0.0)
    weight_decay: float = Field(default=0.0, ge=0.0)
    betas: list[float] = Field(default=[0.9, 0.98], min_length=2, max_length=2)
    warmup: float = Field(default=0.05, ge=0.0, le=1.0)  # shares of all steps
    decay: Literal["none", "linear", "cosine", "trapezoid"] = "cosine"
    final_rate: float = Field(default=0.0, ge=0.0, le=1.0)  # a share of the rate
    batch_ramp: float = Field(default=0.0, ge=0.0, le=1.0)  # share of steps to the full batch
    clip: float = Field(default=1.0, gt=0.0)
    precision: Literal["auto", "fp32", "medium", "bf16"] = "auto"
    pool: int = Field(default=8, ge=1)  # batches drawn at once and sorted by length
    score_every: int = Field(default=100, ge=1)
    score_problems: int = Field(default=256, ge=1)
    held_out: Pair | None = None  # their least and largest size, if together; default: training's
    keep: Literal["last", "best"] = "last"  # weights: the best on what is held out, if together
    stop_at: float | None = Field(default=None, gt=0.0, le=1.0)  # held-out exact match
    patience: int = Field(default=3, ge=1)  # scores in a row that reach it
    checkpoint_every: int = Field(default=250, ge=1)
    snapshots: int | None = Field(default=None, ge=1)  # weights that are kept, every so many steps
    device: Literal["auto", "cpu", "cuda"] = "auto"

    @pydantic.model_validator(mode="after")
    def _all_of_it_acts(self) -> Training:
        """Refuse what the chosen trainer would pass over in silence."""
        for field in APART if self.together else TOGETHER:
            default = type(self).model_fields[field].default
            value = getattr(self, field)
            if value != default and (field, value) != ("precision", "fp32"):
                raise ValueError(
                    f"{field} {value!r} does not fit together {str(self.together).lower()}; "
                    f"expected {default!r}"
                )
        return self


# What only models trained together have, and what only those trained apart.
TOGETHER = ("dropout", "dropout_embeddings", "halving", "held_out", "keep")
APART = (
    "noise", "loss", "mean", "progressive", "optimizer", "batch_ramp", "clip", "precision",
    "stop_at", "snapshots",
)  # fmt: skip


class Evaluation(Settings):
    """What a run is scored on, and from where its ids start."""

    problems: str | None = None  # the problem set; default: the one with the task's name
    digits: int = Field(default=30, ge=1)  # largest sizes (i, j) of the grid
    longest: int | None = Field(default=None, ge=1)  # where i = j; default: those of the grid
    far: list[int | Pair] = []  # sizes beyond the grid: (i, j), or one number for both
    starts: list[int | Literal["middle"]] = Field(default=[1, "middle"], min_length=1)
    recurrences: int | None = Field(default=None, ge=1)  # default: as trained
    attention: Pair | None = None  # the cell (i, j) over which attention is averaged, if it is

    def largest(self) -> int:
        """Return the largest size of all.

        >>> Evaluation(digits=30, far=[100, [10, 30]]).largest()
        100
        """
        far = [size for cell in self.far_cells() for size in cell]
        return max([self.digits, self.longest or 0, *far])

    def far_cells(self) -> list[tuple[int, int]]:
        """Return the sizes beyond the grid as pairs.

        >>> Evaluation(far=[100, [10, 30]]).far_cells()
        [(100, 100), (10, 30)]
        """
        pairs = [[size] * 2 if isinstance(size, int) else size for size in self.far]
        return [(i, j) for i, j in pairs]


class Run(Settings):
    """A run names its four choices (task, format, positions, model), and how it is made.

    >>> run = load("addition_relative", "notebook")
    >>> run.positions[0]["ids"], run.model["layers"]
    ('abacus', 1)
    """

    name: str
    profile: str
    seeds: int = Field(default=3, ge=1)
    task: dict[str, Any]
    format: dict[str, Any] = {}
    positions: list[dict[str, Any]] = []
    model: dict[str, Any] = {}
    training: Training = Training()
    evaluation: Evaluation = Evaluation()

    def key(self) -> str:
        """Return a short hash of all that makes the weights what they are."""
        made_of = self.model_dump(exclude={"evaluation", "seeds"})
        return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()[:16]

    def parts(self) -> list[str]:
        """Return the modules of the library that the four choices name.

        >>> load("addition_relative", "notebook").parts()[-2:]
        ['carry.positions.abacus', 'carry.models.encodings.relative']
        """
        found = [
            f"carry.tasks.{self.task.get('name')}",
            f"carry.formats.{self.format.get('name', 'expression')}",
            f"carry.models.architectures.{self.model.get('name', 'transformer')}",
        ]
        for pair in self.positions:
            found += [f"carry.positions.{pair.get('ids')}"]
            found += [f"carry.models.encodings.{pair.get('encoding')}"]
        return found


def rows(profile: str) -> list[str]:
    """Return the names of the rows that a profile runs."""
    return list(params.load_profile(profile)["rows"])


def load(name: str, profile: str) -> Run:
    """Return the run that a row of params.yaml describes, at the scale of a profile.

    Raises:
        SettingsError: for an unknown row or profile, or a setting that does not fit.
    """
    here, table = params.load_profile(profile), params.load()
    if name not in table["runs"]:
        raise SettingsError(f"runs: {name!r} is not there, {nearest(name, table['runs'])}")
    if name not in here["rows"]:
        raise SettingsError(f"row: {name!r} is not in profile {profile!r}, "
                            f"{nearest(name, here['rows'])}")  # fmt: skip
    chain = _chain(name, table["runs"])
    known, own = ([rows.get(row) for row in chain] for rows in (table["runs"], here["rows"]))
    merged = params.merge(table["base"], *known, here["scale"], *own)
    merged.pop("like", None)
    return make(merged, name, profile)


def _chain(name: str, known: dict[str, Any]) -> list[str]:
    """Return the rows that a row is like, the furthest first, and the row itself.

    >>> _chain("c", {"a": {}, "b": {"like": "a"}, "c": {"like": "b"}})
    ['a', 'b', 'c']
    """
    chain = [name]
    while (like := (known[chain[0]] or {}).get("like")) is not None:
        if like not in known:
            raise SettingsError(
                f"runs.{chain[0]}.like: {like!r} is not there, {nearest(like, known)}"
            )
        if like in chain:
            raise SettingsError(f"runs.{chain[0]}.like: {like!r} is like it, expected another row")
        chain.insert(0, like)
    return chain


def make(settings: Any, name: str = "mine", profile: str = "notebook") -> Run:
    """Return a run from settings of your own.

    >>> make({"task": {"name": "addition"}}).training.digits
    10
    """
    where = f"runs.{name}"
    if not isinstance(settings, dict):
        raise SettingsError(f"{where}: {settings!r} is not a mapping of settings")
    settings = dict(settings)
    for section, kind in (("training", Training), ("evaluation", Evaluation)):
        settings[section] = kind.parse(settings.get(section, {}), f"{where}.{section}")
    return Run.parse({**settings, "name": name, "profile": profile}, where)
