"""A run: all settings of a row at one scale, checked."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NoReturn

import pydantic
from pydantic import Field

from carry.config.settings import Settings, SettingsError, describe, match_words

Share = Annotated[float, Field(ge=0.0, le=1.0)]
ShareBelowOne = Annotated[float, Field(ge=0.0, lt=1.0)]
# Upper limits refuse what would exhaust the memory; each is at least ten times what any row uses.
Count = Annotated[int, Field(ge=1, le=10**8)]
BatchSize = Annotated[int, Field(ge=1, le=10**6)]
# Of operands: digits, or their number. A problem of the largest size is written to measure it.
Size = Annotated[int, Field(ge=1, le=100_000)]
Pair = Annotated[list[int], Field(min_length=2, max_length=2)]
Cell = Annotated[list[Size], Field(min_length=2, max_length=2)]  # sizes (i, j)
# Sizes i and j, or the least and the largest size, and the number of problems.
CountedSizes = Annotated[list[BatchSize], Field(min_length=3, max_length=3)]

# Prefixes of the sub-tasks that a mixture may contain (ibrahimli2024, 4.2.2): the sum, the aligned
# operands, the carries, the digit sums without carries, the reversed operands.
SUB_TASKS = ("add", "ali", "car", "mad", "rev")


class DataSet(Settings):
    """The part of a problem set that training uses (ibrahimli2024, 4.2.2, "Datasets")."""

    task: dict[str, Any]
    # Trained lengths of both operands, in digits.
    lengths: list[Count] = []
    # Problems of each length that are never trained.
    test: int = Field(default=0, ge=0)
    validation: int = Field(default=0, ge=0)
    # Shares of the sub-tasks in training, by prefix; without them no prefix is written.
    mixture: dict[Literal[SUB_TASKS], Annotated[float, Field(gt=0.0)]] = {}


class Training(Settings):
    """How a run is trained. The defaults suit a small model on a laptop."""

    digits: Size = 10  # largest size of an operand; 10 train in minutes on two cores
    steps: Count = 1000  # optimizer steps
    batch: BatchSize = 128  # problems in a step
    batched_seeds: bool = False  # train all seeds as one computation; for attention-only models
    examples: Count | None = None  # size of a fixed training set; null: fresh problems
    problem_set: str | None = None  # the data set of the examples; null: drawn as fresh problems
    # The random stream of examples without a data set; null: the row's name, so that a row with
    # another name keeps its examples if it names the stream that it had.
    stream: str | None = None
    random_padding: ShareBelowOne = 0.0  # chance of a pad before a question token (mcleish2024)
    packing: bool = False  # half of the batches have another problem before each one
    # In attention, tokens with farther ids than the next count several times, as in problems that
    # are longer. Each step draws a number, log-uniform from 1 to a limit that grows from 1 to this.
    longer: Annotated[float, Field(ge=1.0, le=1000.0)] = 1.0
    dropout: ShareBelowOne = 0.0  # of the outputs of attention and of feed-forward networks
    dropout_inside: ShareBelowOne = 0.0  # of attention weights and of hidden units
    dropout_embeddings: ShareBelowOne = 0.0  # of embeddings of tokens plus ids
    # How heads are dropped; see `carry.training.batched.head_halving`.
    halving: Literal["random", "masked", "svc", "shapley", "shapley_learned"] | None = None
    halving_accuracy: Share = 0.95  # held-out accuracy that starts a halving (fraknoi2024)
    loss: Literal["answer", "everything"] = "answer"  # tokens in the loss: response, or all
    loss_average: Literal["token", "sample"] = "token"  # mean of tokens, or of samples' means
    progressive: Share = 0.0  # weight of the loss at a random depth (mcleish2024)
    optimizer: Literal["adamw", "muon"] = "adamw"
    learning_rate: Annotated[float, Field(gt=0.0, le=10.0)] = 1e-3  # peak, after the warmup
    weight_decay: Annotated[float, Field(ge=0.0, le=1000.0)] = 0.0
    betas: list[ShareBelowOne] = Field(default=[0.9, 0.98], min_length=2, max_length=2)  # of Adam
    epsilon: Annotated[float, Field(gt=0.0, le=1.0)] = 1e-8  # of Adam, added to the root
    warmup: Share = 0.05  # share of steps with a rising learning rate
    decay: Literal["none", "cosine", "trapezoid"] = "cosine"  # after the warmup
    # Share of steps at the end of a trapezoid; null: a fifth of those after the warmup.
    cooldown: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    final_learning_rate: Share = 0.0  # share of the peak at the last step
    average_weights: Share = 0.0  # share of the last steps whose mean weights are the result
    batch_ramp: Share = 0.0  # share of steps until the batch has its full size
    clip: Annotated[float, Field(gt=0.0)] = 1.0  # largest norm of the gradient
    precision: Literal["auto", "fp32", "medium", "bf16"] = "auto"  # auto: the fastest real fp32
    pool: Annotated[int, Field(ge=1, le=10**4)] = 8  # batches drawn at once and sorted by length
    score_every: Count = 100  # steps between points of the learning curve
    score_problems: BatchSize = 256  # held-out problems in a point
    held_out: Cell | None = None  # smallest and largest held-out size; only with batched seeds
    keep_weights: Literal["last", "best"] = "last"  # best on held-out; only with batched seeds
    checkpoint_every: Count | None = 250  # steps; null: a minute; batched: from an epoch's end
    snapshot_every: Count | None = None  # steps between kept weights, for plots of learning

    @pydantic.model_validator(mode="after")
    def _check_trainer(self) -> Training:
        """Refuse settings that the chosen trainer would ignore, or cannot have."""
        batched = f"batched_seeds {str(self.batched_seeds).lower()}"
        for field in ONLY_SEPARATE if self.batched_seeds else ONLY_BATCHED:
            default = type(self).model_fields[field].default
            value = getattr(self, field)
            if value != default and (field, value) != ("precision", "fp32"):
                self._refuse(field, batched, repr(default))
        if self.batched_seeds and self.examples is None:
            self._refuse("examples", batched, "a number")
        if self.batched_seeds and self.loss == "everything" and self.dropout_embeddings:
            self._refuse("dropout_embeddings", f"{batched} and loss 'everything'", "0.0")
        return self

    @pydantic.model_validator(mode="after")
    def _check_pairs(self) -> Training:
        """Refuse settings that exclude each other, whichever trainer has them."""
        if self.packing and self.longer > 1.0:  # signs would look for the first of two problems
            self._refuse("longer", "packing true", "1.0")
        if self.warmup + (self.cooldown or 0.0) > 1.0:
            self._refuse("cooldown", f"warmup {self.warmup}", "a sum of at most 1")
        if self.held_out is not None and self.held_out[0] > self.held_out[1]:
            self._refuse("held_out", "its order", "[smallest, largest]")
        if self.problem_set is not None and self.examples is None:
            self._refuse("examples", f"problem_set {describe(self.problem_set)}", "a number")
        return self

    def _refuse(self, field: str, other: str, expected: str) -> NoReturn:
        value = describe(getattr(self, field))
        raise ValueError(f"{field} {value} does not fit {other}; expected {expected}")


# Settings of the trainer of batched seeds, and of the trainer of one seed.
ONLY_BATCHED = ("halving", "held_out", "keep_weights")
ONLY_SEPARATE = (
    *("problem_set", "random_padding", "packing", "longer", "loss_average", "progressive"),
    *("optimizer", "batch_ramp", "clip", "precision", "snapshot_every"),
    *("average_weights", "dropout_inside"),
)


class Evaluation(Settings):
    """The problems on which a run is scored, and the ids from which they start."""

    problem_set: str | None = None  # null: training's, else the one named after the task
    digits: Size = 30  # largest sizes (i, j) of the grid; three times the trained digits
    longest: Size | None = None  # largest size of problems with i = j; null: the grid's
    far: list[Size | Cell] = []  # cells beyond the grid
    # First ids: an id, or the mean of probabilities over all; or "window", id 1 with attention only
    # to ids as near as in problems of the trained lengths.
    starts: list[Size | Literal["all", "window"]] = Field(default=[1, "all"], min_length=1)
    band: bool = False  # True: the validation band chose the settings, so it is never scored
    attention_cell: Cell | None = None  # cell (i, j) of the averaged attention maps; null: no maps
    reach: list[CountedSizes] = []  # see `carry.analyses.reach`

    def largest_size(self) -> int:
        """Return the largest size of all scored problems.

        >>> Evaluation(digits=30, far=[100, [10, 30]]).largest_size()
        100
        """
        far = [size for cell in self.far_cells() for size in cell]
        return max([self.digits, self.longest or 0, *far])

    def far_cells(self) -> list[tuple[int, int]]:
        """Return the cells beyond the grid; one number stands for both sizes.

        >>> Evaluation(far=[100, [10, 30]]).far_cells()
        [(100, 100), (10, 30)]
        """
        pairs = [[size] * 2 if isinstance(size, int) else size for size in self.far]
        return [(i, j) for i, j in pairs]


class Run(Settings):
    """A run: task, format, positions and model, with its training and evaluation.

    `name`, `study`, `scale`, `label` and `seeds` say which run it is; they change no weights. The
    `analyses` are modules of `carry.analyses`; with `certify`, exactness at every length is proved
    or refuted; with `publish`, the weights are in git.

    >>> run = Run(name="mine", training=Training(digits=5))
    >>> run.task["name"], run.training.digits
    ('addition', 5)
    """

    name: str
    study: str = "mine"
    scale: str = "laptop"
    # Shown in figures and tables in place of the name.
    label: Annotated[str, match_words(r".{1,60}", "one line of 1 to 60 characters")] | None = None
    seeds: Annotated[int, Field(ge=1, le=10**5)] = 3  # the fewest with a median and a range
    analyses: list[str] = []
    certify: bool = False
    publish: bool = False
    task: dict[str, Any] = {"name": "addition"}
    format: dict[str, Any] = {}
    positions: list[dict[str, Any]] = []
    model: dict[str, Any] = {}
    training: Training = Training()
    evaluation: Evaluation = Evaluation()
    data_set: DataSet | None = None  # from `training.problem_set`; `make_run` fills it in

    def trained_lengths(self) -> list[int]:
        """Return the lengths of trained numbers: the data set's, else 1 to `digits`.

        Of a format with `sums_to` these are the lengths of sums, which are what is scored.

        >>> Run(name="mine", training=Training(digits=3)).trained_lengths()
        [1, 2, 3]
        """
        lengths = self.data_set.lengths if self.data_set else range(1, self.training.digits + 1)
        return [length for length in lengths if length <= self.format.get("sums_to", length)]

    def validation_band(self) -> range:
        """Return the validation band: sizes beyond training, up to 1.5 times as large.

        Settings are chosen on it, and it is not reported for rows whose settings were (`band`).

        >>> Run(name="mine").validation_band()
        range(11, 16)
        """
        digits = self.training.digits
        return range(digits + 1, digits + digits // 2 + 1)

    def example_stream(self) -> str | None:
        """Return the random stream of a fixed training set without a data set; None without one."""
        training = self.training
        if training.examples is None or self.data_set is not None:
            return None
        return training.stream or f"training {self.name}"

    def module_names(self) -> list[str]:
        """Return the modules that the settings choose, which are imported by name.

        >>> Run(name="mine").module_names()[0]
        'carry.tasks.addition'

        Raises:
            SettingsError: for a class in place of a name, which no hash and no worker knows.
        """
        for index, pair in enumerate(self.positions):
            for key in ("ids", "encoding"):
                if isinstance(pair.get(key), type):
                    raise SettingsError(
                        f"runs.{self.name}.positions.{index}.{key}: {pair[key].__name__} is a "
                        "class, which only `Trainer` trains; expected the name of its file in "
                        f"lib/carry/{'positions' if key == 'ids' else 'models/encodings'}"
                    )
        names = [
            f"carry.tasks.{self.task.get('name')}",
            f"carry.formats.{self.format.get('name', 'expression')}",
            f"carry.models.architectures.{self.model.get('name', 'transformer')}",
        ]
        for pair in self.positions:
            names += [f"carry.positions.{pair.get('ids')}"]
            names += [f"carry.models.encodings.{pair.get('encoding')}"]
        if self.training.batched_seeds:
            names += ["carry.training.batched.trainer"]
        return names
