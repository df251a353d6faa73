"""A run: one row of params.yaml, made as large as a profile says."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal

import pydantic
from pydantic import Field

from carry.config import profiles
from carry.config.settings import Settings, SettingsError, suggest_name

Pair = Annotated[list[int], Field(min_length=2, max_length=2)]
Reach = Annotated[list[int], Field(min_length=3, max_length=3)]
Size = Annotated[int, Field(ge=1)]

# What a training problem of a mixture may ask for, by the prefixes that say so (ibrahimli2024,
# 4.2.2): the sum, its operands' digits in pairs, carries, sums of digits, operands reversed.
SUB_TASKS = ("add", "ali", "car", "mad", "rev")


class DataSet(Settings):
    """What a problem set keeps apart for training (ibrahimli2024, 4.2.2, "Datasets").

    `lengths`: of both operands, trained; `test` and `validation`: so many problems of each length
    that are never trained; `mixture`: the shares of sub-tasks in training, by prefix; none: no
    prefix is written.
    """

    task: dict[str, Any]
    lengths: list[Size] = []
    test: int = Field(default=0, ge=0)
    validation: int = Field(default=0, ge=0)
    mixture: dict[str, Annotated[float, Field(gt=0.0)]] = {}

    @pydantic.model_validator(mode="after")
    def _kept_apart(self) -> DataSet:
        if self.lengths:
            if len({*self.lengths}) < len(self.lengths):
                raise ValueError(f"lengths {self.lengths} do not fit, expected each of them once")
            if max(self.lengths) == 1:  # of one digit all are trained
                raise ValueError("lengths [1] leave none for validation, expected longer ones")
            for kind in ("test", "validation"):
                if not getattr(self, kind):
                    raise ValueError(f"{kind} 0 does not fit a set with lengths, expected some")
        for kind in ("test", "validation", "mixture"):
            if getattr(self, kind) and not self.lengths:
                raise ValueError(f"{kind} does not fit a set without lengths, expected lengths")
        for name in self.mixture:
            if name not in SUB_TASKS:
                raise ValueError(f"mixture: {name!r} is not there, {suggest_name(name, SUB_TASKS)}")
        if self.mixture and abs(sum(self.mixture.values()) - 1) > 1e-6:
            whole = sum(self.mixture.values())
            raise ValueError(f"mixture: shares add up to {whole:g}, expected 1")
        return self


class Training(Settings):
    """How a run is trained; defaults are a small model's on a laptop."""

    digits: int = Field(default=10, ge=1)
    steps: int = Field(default=1000, ge=1)
    batch: int = Field(default=128, ge=1)
    batched_seeds: bool = False  # all seeds as one computation, for layers of attention alone
    examples: int | None = Field(default=None, ge=1)  # so many problems; None: fresh ones for ever
    problem_set: str | None = (
        None  # the data set of which these are; default: drawn as fresh ones are
    )
    random_padding: float = Field(
        default=0.0, ge=0.0, lt=1.0
    )  # pads before so many question tokens
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)  # of what attention finds, if together
    dropout_embeddings: float = Field(default=0.0, ge=0.0, lt=1.0)
    halving: Literal["random", "masked", "svc", "shapley"] | None = None  # which heads are kept
    halving_accuracy: float = Field(default=0.95, ge=0.0, le=1.0)  # held-out accuracy
    loss: Literal["answer", "everything"] = "answer"
    loss_average: Literal["token", "sample"] = "token"  # of all, or of samples' means
    progressive: float = Field(default=0.0, ge=0.0, le=1.0)  # weight of the loss at random depth
    optimizer: Literal["adamw", "muon"] = "adamw"
    learning_rate: float = Field(default=1e-3, gt=0.0)
    weight_decay: float = Field(default=0.0, ge=0.0)
    betas: list[float] = Field(default=[0.9, 0.98], min_length=2, max_length=2)
    warmup: float = Field(default=0.05, ge=0.0, le=1.0)  # shares of all steps
    decay: Literal["none", "linear", "cosine", "trapezoid"] = "cosine"
    final_learning_rate: float = Field(default=0.0, ge=0.0, le=1.0)  # a share of the rate
    batch_ramp: float = Field(default=0.0, ge=0.0, le=1.0)  # share of steps to the full batch
    clip: float = Field(default=1.0, gt=0.0)
    precision: Literal["auto", "fp32", "medium", "bf16"] = "auto"
    pool: int = Field(default=8, ge=1)  # batches drawn at once and sorted by length
    score_every: int = Field(default=100, ge=1)
    score_problems: int = Field(default=256, ge=1)
    held_out: Pair | None = None  # their least and largest size, if together; default: training's
    keep_weights: Literal["last", "best"] = (
        "last"  # weights: the best on what is held out, if together
    )
    stop_at: float | None = Field(default=None, gt=0.0, le=1.0)  # held-out exact match
    patience: int = Field(default=3, ge=1)  # scores in a row that reach it
    checkpoint_every: int = Field(default=250, ge=1)
    snapshot_every: int | None = Field(
        default=None, ge=1
    )  # weights that are kept, every so many steps
    device: Literal["auto", "cpu", "cuda"] = "auto"

    @pydantic.model_validator(mode="after")
    def _all_of_it_acts(self) -> Training:
        """Refuse what the chosen trainer would pass over in silence."""
        for field in ONLY_SEPARATE if self.batched_seeds else ONLY_BATCHED:
            default = type(self).model_fields[field].default
            value = getattr(self, field)
            if value != default and (field, value) != ("precision", "fp32"):
                raise ValueError(
                    f"{field} {value!r} does not fit batched_seeds {str(self.batched_seeds).lower()}; "
                    f"expected {default!r}"
                )
        if self.problem_set is not None and self.examples is None:
            raise ValueError(
                f"examples None does not fit problem_set {self.problem_set!r}; expected a number"
            )
        return self


# What only models trained together have, and what only those trained apart.
ONLY_BATCHED = ("dropout", "dropout_embeddings", "halving", "held_out", "keep_weights")
ONLY_SEPARATE = (
    "problem_set", "random_padding", "loss", "loss_average", "progressive", "optimizer", "batch_ramp", "clip",
    "precision", "stop_at", "snapshot_every",
)  # fmt: skip


class Evaluation(Settings):
    """What a run is scored on, and from where its ids start."""

    problem_set: str | None = None  # the problem set; default: training's, or the task's by name
    digits: int = Field(default=30, ge=1)  # largest sizes (i, j) of the grid
    longest: int | None = Field(default=None, ge=1)  # where i = j; default: those of the grid
    far: list[int | Pair] = []  # sizes beyond the grid: (i, j), or one number for both
    starts: list[int | Literal["middle"]] = Field(default=[1, "middle"], min_length=1)
    recurrences: int | None = Field(default=None, ge=1)  # default: as trained
    attention_cell: Pair | None = None  # the cell (i, j) over which attention is averaged, if it is
    reach: list[Reach] = []  # sizes i and j, and how many problems, for one seed (see `reach`)

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

    >>> run = load_run("addition_relative", "notebook")
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
    data_set: DataSet | None = None  # what `training.problem_set` names; `make` fills it in

    def key(self) -> str:
        """Return a short hash of all that makes the weights what they are."""
        made_of = self.model_dump(exclude={"evaluation", "seeds"})
        return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()[:16]

    def lengths(self) -> list[int]:
        """Return the lengths of numbers that it is trained on: its data set's, or all up to digits.

        >>> load_run("addition_relative", "notebook").lengths()
        [1, 2, 3, 4, 5]
        >>> load_run("addition_equal_learned_gap", "cpu").lengths()
        [1, 2, 3, 4, 7]
        """
        return [*(self.data_set.lengths if self.data_set else range(1, self.training.digits + 1))]

    def parts(self) -> list[str]:
        """Return the modules of the library that the four choices name.

        >>> load_run("addition_relative", "notebook").parts()[-2:]
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


def list_rows(profile: str) -> list[str]:
    """Return the names of the rows that a profile runs."""
    return list(profiles.load_profile(profile)["rows"])


def load_run(name: str, profile: str) -> Run:
    """Return the run that a row of params.yaml describes, at the scale of a profile.

    Raises:
        SettingsError: for an unknown row or profile, or a setting that does not fit.
    """
    here, table = profiles.load_profile(profile), profiles.load_params()
    if name not in table["runs"]:
        raise SettingsError(f"runs: {name!r} is not there, {suggest_name(name, table['runs'])}")
    if name not in here["rows"]:
        raise SettingsError(f"row: {name!r} is not in profile {profile!r}, "
                            f"{suggest_name(name, here['rows'])}")  # fmt: skip
    chain = _chain(name, table["runs"])
    known, own = ([rows.get(row) for row in chain] for rows in (table["runs"], here["rows"]))
    merged = profiles.merge(table["base"], *known, here["scale"], *own)
    merged.pop("like", None)
    if "data_set" in merged:  # or its tests would be another set's
        raise SettingsError(f"runs.{name}.data_set: unknown setting; expected training.problem_set")
    return make_run(merged, name, profile)


def _chain(name: str, known: dict[str, Any]) -> list[str]:
    """Return the rows that a row is like, the furthest first, and the row itself.

    >>> _chain("c", {"a": {}, "b": {"like": "a"}, "c": {"like": "b"}})
    ['a', 'b', 'c']
    """
    chain = [name]
    while (like := (known[chain[0]] or {}).get("like")) is not None:
        if like not in known:
            raise SettingsError(
                f"runs.{chain[0]}.like: {like!r} is not there, {suggest_name(like, known)}"
            )
        if like in chain:
            raise SettingsError(f"runs.{chain[0]}.like: {like!r} is like it, expected another row")
        chain.insert(0, like)
    return chain


def make_run(settings: Any, name: str = "mine", profile: str = "notebook") -> Run:
    """Return a run from settings of your own.

    A data set that training names is looked up among the problem sets, unless it is given.

    >>> make_run({"task": {"name": "addition"}}).training.digits
    10
    """
    where = f"runs.{name}"
    if not isinstance(settings, dict):
        raise SettingsError(f"{where}: {settings!r} is not a mapping of settings")
    settings = dict(settings)
    for section, kind in (("training", Training), ("evaluation", Evaluation)):
        settings[section] = kind.parse(settings.get(section, {}), f"{where}.{section}")
    of = Run.parse({**settings, "name": name, "profile": profile}, where)
    if of.data_set is None and of.training.problem_set is not None:
        of = of.model_copy(update={"data_set": _data_set(of)})
    _check_data_set(of)
    return of


def _data_set(of: Run) -> DataSet:
    """Return what training needs to know of the problem set that it names."""
    name = of.training.problem_set
    given = profiles.load_problem_set(name, of.profile, f"runs.{of.name}.training.problem_set")
    known = {key: given[key] for key in DataSet.model_fields if key in given}
    return DataSet.parse(known, f"problems.{name}")


def _check_data_set(of: Run) -> None:
    """Refuse a data set that does not fit the run."""
    where, given, name = f"runs.{of.name}", of.data_set, of.training.problem_set
    if given is None:
        return
    if name is None or not given.lengths:
        raise SettingsError(
            f"{where}.training.problem_set: {name!r} has no lengths to train; "
            "expected the name of a set that has"
        )
    if given.task.get("name") != of.task.get("name"):
        raise SettingsError(
            f"{where}.training.problem_set: {name!r} has problems of {given.task.get('name')!r}, "
            f"expected some of {of.task.get('name')!r}"
        )
    if of.training.digits != max(given.lengths):
        raise SettingsError(
            f"{where}.training.digits: {of.training.digits} does not fit {name!r}, whose longest "
            f"trained numbers have {max(given.lengths)}; expected {max(given.lengths)}"
        )
    if of.evaluation.problem_set not in (None, name):
        raise SettingsError(
            f"{where}.evaluation.problem_set: {of.evaluation.problem_set!r} has problems that may be "
            f"trained; expected {name!r}"
        )
