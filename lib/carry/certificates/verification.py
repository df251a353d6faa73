"""The certificate of a trained model: right in every local context, so right at every length.

Claim: if in every local context of a task the largest logit is that of the token that is due,
greedy decoding writes the right response to every problem of any size.

Proof. By induction over the response. Let its first t tokens be right. Then what the model has
read is the beginning of a right response, and the context of its last token is one of those that
were enumerated (1). The logits are a function of the context (2): hidden tokens have weight 0 in
the attention, and what is seen is felt by its token and by differences of ids alone. In exact
arithmetic the token that is due leads by the margin found there; what is computed, in whatever
order sums are taken, differs by the bound at most (3), which is smaller. So token t + 1 is right,
and at the end the model ends.

(1) `covering`: all digits are tried where a step looks, and every carry that can come in.
(2) `contexts.check` refuses models that feel more, and `distinct` finds two problems that share
    a context and go on differently, if there are any: then no model with such a window is right.
(3) `bound`: of float32, for any order of summation; a sum over n seen tokens has the error of n
    terms, however many hidden ones add their exact zeros.

Each is tested in `tests/test_certificates.py`.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor

from carry import formats
from carry.certificates.contexts import (
    Contexts,
    Report,
    Undetermined,
    check,
    contexts,
    distinct,
    of_problems,
)
from carry.certificates.coverings import TooMany, cover
from carry.certificates.logit_bounds import bounded_logits
from carry.data.problems import Problems
from carry.evaluation.decoding import decode_greedily
from carry.models.architectures.transformer import Transformer
from carry.models.system import System
from carry.models.teacher_forcing import teacher_forced_pass
from carry.randomness import stream
from carry.training.precision import training_in

CHUNK = 20_000  # contexts that are read at once
SAMPLED = 400, 12  # problems of sizes up to this, where there are too many contexts
SOUGHT = 2_000  # problems among which one is sought that shows a fault


class Enumerated(NamedTuple):
    """The contexts of a task in a format, as a model's windows show them."""

    contexts: Contexts
    problems: int  # in which they were found
    complete: bool  # there are no others; or else they are a sample


class Judged(NamedTuple):
    """What a model says in each context."""

    said: Integer[Tensor, " N"]
    due: Integer[Tensor, " N"]
    margin: Float[Tensor, " N"]  # of the token that is due over the best other, in exact arithmetic
    error: Float[Tensor, " N"]  # by which float32 may change that difference

    @property
    def wrong(self) -> Bool[Tensor, " N"]:
        """Where another token leads, in exact arithmetic or in the model's own pass."""
        return (self.margin <= 0) | (self.said != self.due)

    @property
    def open(self) -> Bool[Tensor, " N"]:
        """Where it is not certain that the lead is larger than what rounding may do."""
        return ~self.wrong & ~(self.margin > self.error)  # which a lead that is no number is not


def enumerated(system: System, report: Report = lambda problems: None) -> Enumerated:
    """Return every context of a run's task and format, or a sample where they are too many.

    Args:
        report: called with how many problems have been looked at since its last call.

    Raises:
        SettingsError: for a model or a task that has no contexts to enumerate.
        Undetermined: if a context has two next tokens.

    >>> from carry.config.run_settings import make_run
    >>> pair = {"ids": "coupled", "encoding": "relative", "window": [0, 1]}
    >>> parity = {"task": {"name": "parity"}, "format": {"name": "scratchpad"}}
    >>> parity["format"]["reverse_operands"] = True
    >>> found = enumerated(System(make_run({**parity, "positions": [pair]})))
    >>> len(found.contexts), found.complete
    (14, True)
    """
    check(system)
    problems = 0

    def parts():
        nonlocal problems
        for covered in cover(system):
            yield contexts(system, covered.batch, covered.wanted, problems)
            problems += len(covered.batch)
            report(len(covered.batch))

    try:
        return Enumerated(distinct(system, parts()), problems, True)
    except TooMany:
        some = sampled(system)
    return Enumerated(distinct(system, of_problems(system, some, report)), len(some), False)


def found(system: System, report: Report = lambda problems: None) -> Enumerated | Undetermined:
    """Return what `enumerated` does, or the pair of contexts for which no model can be right."""
    try:
        return enumerated(system, report)
    except Undetermined as pair:
        return pair


def sampled(system: System) -> Problems:
    """Return problems of many sizes, the same for all models of a task."""
    count, most = SAMPLED
    generator = stream(0, "contexts")
    least = torch.tensor(system.task.least)
    cells = least + (torch.rand(count, 2, generator=generator) * (most - least)).long()
    if len(system.task.largest(2)[0]) == 1:  # one operand
        cells[:, 1] = cells[:, 0]
    return system.task.sample(cells, generator)


@torch.inference_mode()
def said(
    system: System, some: Contexts, report: Report = lambda contexts: None
) -> Integer[Tensor, " N"]:
    """Return what a model says in each context, by its own forward pass."""
    network, parts = system.network.eval(), []
    for rows in torch.arange(len(some)).split(CHUNK):
        part = some[rows].long()
        last = torch.full((1, 1), part.tokens.shape[1] - 1)
        with training_in("fp32", torch.device("cpu")):
            parts.append(network(part.tokens, part.ids, last)[:, 0].argmax(-1))
        report(len(part))
    return torch.cat(parts)


@torch.inference_mode()
def judged(system: System, some: Contexts, report: Report = lambda contexts: None) -> Judged:
    """Run a model's own forward pass on contexts, and bound what float32 may do to it."""
    network, parts = system.network.eval(), []
    for rows in torch.arange(len(some)).split(CHUNK):
        part = some[rows].long()
        margin, error = _lead(network, part, close=False)
        unsure = ((margin > 0) & (margin <= error)).nonzero()[:, 0]
        if len(unsure):  # a closer bound takes five times as long
            margin[unsure], error[unsure] = _lead(network, part[unsure], close=True)
        parts.append(Judged(said(system, part), part.target, margin, error))
        report(len(part))
    return Judged(*(torch.cat(of) for of in zip(*parts, strict=True)))


def _lead(network: Transformer, some: Contexts, close: bool) -> tuple[Tensor, Tensor]:
    """Return by how much the token that is due leads, and what float32 may change of that.

    Of all other tokens the one is taken for which the lead exceeds its bound by least.
    """
    logits = bounded_logits(network, some.tokens, some.ids, close=close)
    due = some.target[:, None]
    lead = logits.value.gather(1, due) - logits.value
    error = logits.error.gather(1, due) + logits.error
    others = torch.ones_like(lead, dtype=torch.bool).scatter_(1, due, False)
    closest = torch.where(others, lead - error, torch.inf).argmin(1, keepdim=True)
    margin, error = (of.gather(1, closest)[:, 0] for of in (lead, error))
    return margin, error


def certificate(
    system: System, found: Enumerated | Undetermined, report: Report = lambda contexts: None
) -> dict[str, Any]:
    """Return what is certain of a model, as JSON has it.

    `verdict`: "exact" at every length; "wrong" in some context; "open" where rounding might change
    what is said; "sampled" if right in all contexts that were tried, which are not all;
    "impossible" for any model whose windows show no more.
    `margin` and `error` are of the context where the lead exceeds what rounding may do by least.
    """
    named = {"seed": system.seed, "weights": digest(system)}
    if isinstance(found, Undetermined):
        return {**named, "verdict": "impossible", "contexts": 0}
    seen = judged(system, found.contexts, report)
    wrong, unsure = int(seen.wrong.sum()), int(seen.open.sum())
    right, closest = "exact" if found.complete else "sampled", (seen.margin - seen.error).argmin()
    counted = {
        "verdict": "wrong" if wrong else "open" if unsure else right,
        "problems": found.problems,
        "contexts": len(found.contexts),
        "wrong": wrong,
        "open": unsure,
        "margin": float(f"{float(seen.margin[closest]):.4g}"),
        "error": float(f"{float(seen.error[closest]):.4g}"),
    }
    if wrong:
        counted["counterexample"] = counterexample(system, found, seen)
    return {**named, **counted}


def counterexample(system: System, found: Enumerated, seen: Judged) -> dict[str, Any]:
    """Return a context in which a model is wrong, and a full problem that shows it, if there is.

    That is the problem in which the context was found, or else one of many random ones.
    """
    some, rows = found.contexts, seen.wrong.nonzero()[:, 0]
    worst = rows[seen.margin[rows].argmin()]
    told = {
        "context": shown(some.tokens[worst]),
        "due": formats.text(some.target[worst][None]),
        "said": formats.text(seen.said[worst][None]),
    }
    problem = _problem(system, found, int(some.problem[worst]))
    if problem is None or _right(system, problem):
        problem = _sought(system)
    if problem is None:
        return told
    batch, said = system.format.write(problem), decode_greedily(system, problem)[0]
    start, end = int(batch.start[0]), int(batch.length[0])
    ended = (said == formats.EOS).int()
    return {
        **told,
        "problem": formats.text(batch.tokens[0, :start]),
        "right": formats.text(batch.tokens[0, start:end]),
        "written": formats.text(said[: int(ended.argmax()) + 1] if ended.any() else said),
    }


def shown(tokens: Integer[Tensor, " W"]) -> str:
    """Return a context as text, without its padding."""
    return formats.text(tokens[tokens != formats.PAD])


def _problem(system: System, found: Enumerated, number: int) -> Problems | None:
    """Return a problem in which contexts were found by its number; None if it was made up."""
    if not found.complete:
        return sampled(system)[number : number + 1].trim()
    for covered in cover(system):
        if number < len(covered.batch):
            return None if covered.problems is None else covered.problems[number : number + 1]
        number -= len(covered.batch)
    return None


def _right(system: System, problem: Problems) -> bool:
    return bool(teacher_forced_pass(system, system.format.write(problem)).exact)


def _sought(system: System) -> Problems | None:
    generator = stream(0, "fault")
    problems = system.task.draw(SOUGHT, max(2, system.run.training.digits + 5), generator)
    for rows in torch.arange(SOUGHT).split(100):
        some = problems[rows]
        exact = teacher_forced_pass(system, system.format.write(some)).exact
        if not exact.all():
            return some[~exact][:1].trim()
    return None


def digest(system: System) -> str:
    """Return a hash of a model's weights: of their names, shapes and values."""
    whole = hashlib.sha256()
    for name, of in sorted(system.network.state_dict().items()):
        whole.update(f"{name} {tuple(of.shape)} {of.dtype}".encode())
        whole.update(of.detach().cpu().contiguous().numpy().tobytes())
    return whole.hexdigest()
