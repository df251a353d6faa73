"""What an experiment is: a row, with its settings on a laptop and what other scales change.

An experiment file lists rows in `ROWS`. What you read there is what runs: a family of rows is a
function, a grid is a loop, and a row that changes another one says so (`Row.but`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Settings = dict[str, Any]

OWN = ("analyses", "certify", "publish")
# `laptop`: minutes on two cores; `long`: up to hours there. `notebook` and `smoke`: seconds, for
# notebooks that run alone and for tests. `gpu`: a data-centre GPU. `paper`: the papers' settings.
SCALES = ("laptop", "long", "notebook", "smoke", "gpu", "paper")

BASE = dict(
    seeds=3, task=dict(name="addition"), model=dict(layers=2, width=128, heads=4),
    training=dict(digits=10, steps=1500, batch=128, optimizer="muon", learning_rate=0.002),
    evaluation=dict(digits=30))
SMOKE = dict(
    seeds=1, model=dict(width=32),
    training=dict(digits=3, steps=20, batch=32, score_every=10, score_problems=32),
    evaluation=dict(problem_set=None, digits=6, far=[]))
NOTEBOOK = dict(
    seeds=1, training=dict(digits=5, steps=80, batch=64, score_every=20, score_problems=64),
    evaluation=dict(problem_set=None, digits=12, far=[100]))


def ids(scheme: str, encoding: str, **settings: Any) -> Settings:
    """Return a position scheme and how the model reads its ids.

    >>> ids("abacus", "learned", offset=25)
    {'ids': 'abacus', 'encoding': 'learned', 'offset': 25}
    """
    return dict(ids=scheme, encoding=encoding, **settings)


def merge(*layers: Settings) -> Settings:
    """Merge mappings key by key; later ones win, and lists are replaced.

    >>> merge({"model": {"width": 64, "layers": 1}}, {"model": {"layers": 2}})
    {'model': {'width': 64, 'layers': 2}}
    """
    merged: Settings = {}
    for layer in layers:
        for key, value in layer.items():
            before = merged.get(key)
            nested = isinstance(before, dict) and isinstance(value, dict)
            merged[key] = merge(before, value) if nested else value
    return merged


@dataclass(frozen=True)
class Row:
    """One experiment. Its name is a label for tables; no code reads meaning from it.

    Attributes:
        settings: what differs from `BASE`.
        scales: what each scale changes; a row has only the scales that are listed.
        label: its name in figures, if its position encodings and architecture do not suffice.
    """

    name: str
    study: str
    settings: Settings
    scales: dict[str, Settings] = field(default_factory=dict)
    label: str | None = None

    def resolve(self, scale: str = "laptop") -> Settings:
        """Return all settings at a scale that are not defaults of the library.

        >>> row("mine", "tests", seeds=5, smoke={"seeds": 1}).resolve("smoke")["seeds"]
        1

        Raises:
            KeyError: for a scale that the row does not have.
        """
        return merge(BASE, self.settings, self.scales[scale])

    def but(
        self, name: str, study: str | None = None, label: str | None = None, **changes: Any
    ) -> Row:
        """Return another row with some settings changed.

        It has the scales that are named among the changes, each with what this row has there; and
        that of a laptop, unless `laptop` is None. What is done with trained weights (`OWN`) is not
        passed on.

        >>> parent = row("mine", "tests", model={"width": 8}, gpu={"model": {"layers": 8}})
        >>> child = parent.but("wider", model={"width": 64}, gpu={})
        >>> child.resolve("gpu")["model"]
        {'layers': 8, 'width': 64, 'heads': 4}
        >>> [*parent.but("deeper", laptop=None, gpu={}).scales]
        ['gpu']
        """
        named = {scale: changes.pop(scale, {} if scale == "laptop" else None) for scale in SCALES}
        scales = {
            scale: merge(self.scales.get(scale, {}), change)
            for scale, change in named.items()
            if change is not None
        }
        passed_on = {key: value for key, value in self.settings.items() if key not in OWN}
        return Row(name, study or self.study, merge(passed_on, changes), scales, label)


def row(name: str, study: str, label: str | None = None, **settings: Any) -> Row:
    """Return a row; settings with the name of a scale are what that scale changes.

    >>> row("mine", "tests", model={"width": 8}).resolve()["model"]
    {'layers': 2, 'width': 8, 'heads': 4}
    """
    return Row(name, study, {}).but(name, study, label, **settings)
