"""The certificate of a trained model: correct in every local context, so at every length.

Theorem. Suppose that in every local context of a task the correct next token has the largest logit.
Then greedy decoding writes the correct response to every problem of any size.

Proof. By induction over the response. Suppose that its first t tokens are correct. The tokens so
far are then the beginning of a correct response, so the context of the last token is among the
enumerated ones (1). The logits depend on the context only (2): hidden tokens have attention weight
0, and visible tokens contribute through their values and through differences of ids. In exact
arithmetic the correct token has the computed lead. Float32 results, in any order of summation,
differ from that by at most the error bound (3), which is smaller. So token t + 1 is correct. This
includes the token that ends the response.

(1) `coverings` tries all digits in the window of a step, and every carry into that window.
(2) `require_bounded_contexts` refuses models that depend on more. `unique_contexts` finds two
    problems with one context and different next tokens, if they exist: then every model with these
    windows is wrong in one of them.
(3) `logit_bounds` holds in float32 for any order of summation. A sum over n visible tokens has the
    error of n terms, because hidden tokens add exact zeros.

`tests/test_certificates.py` and `tests/test_logit_bounds.py` test each of these.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor

from carry import formats
from carry.certificates.contexts import (
    ConflictingContexts,
    Contexts,
    extract_contexts,
    iterate_contexts,
    require_bounded_contexts,
    unique_contexts,
)
from carry.certificates.coverings import TooManyContexts, generate_covering_problems
from carry.certificates.logit_bounds import bound_logits
from carry.config.settings import SettingsError
from carry.data.problems import Problems
from carry.evaluation.decoding import decode_greedily
from carry.models.architectures.transformer import Transformer
from carry.models.system import System
from carry.models.teacher_forcing import teacher_forced_pass
from carry.randomness import stream
from carry.training.precision import use_precision

CONTEXTS_PER_CHUNK = 20_000
SAMPLED_PROBLEMS, SAMPLED_DIGITS = 400, 12  # where there are too many contexts to enumerate
COUNTEREXAMPLE_PROBLEMS = 2_000  # random problems among which a counterexample is searched

Report = Callable[[int], None]  # of the number of contexts that were checked since its last call


class EnumeratedContexts(NamedTuple):
    """The contexts of a task and a format for the windows of a model."""

    contexts: Contexts
    problems: int  # the number of problems that they come from
    complete: bool  # all contexts of the task; otherwise a sample


class ContextChecks(NamedTuple):
    """The predictions of a model in each context, and the leads of the target over other tokens."""

    predicted: Integer[Tensor, " N"]
    target: Integer[Tensor, " N"]
    lead: Float[Tensor, " N"]  # the smallest lead of the target's logit, in exact arithmetic
    error: Float[Tensor, " N"]  # the largest bound on the float32 error of a lead
    slack: Float[Tensor, " N"]  # the smallest difference of a lead and its error bound

    @property
    def wrong(self) -> Bool[Tensor, " N"]:
        """Contexts in which another token is predicted, in exact arithmetic or in float32."""
        return (self.lead <= 0) | (self.predicted != self.target)

    @property
    def open(self) -> Bool[Tensor, " N"]:
        """Contexts in which a lead may be smaller than its rounding error, or is not a number."""
        return ~self.wrong & ~(self.slack > 0)


def enumerate_contexts(system: System) -> EnumeratedContexts:
    """Return every context of a run's task and format, or a sample if there are too many.

    Raises:
        SettingsError: for a model or a task whose contexts cannot be enumerated.
        ConflictingContexts: if a context has two correct next tokens.

    >>> from carry.experiments.resolve import make_run
    >>> pair = {"ids": "coupled", "encoding": "relative", "window": [0, 1]}
    >>> parity = {"task": {"name": "parity"}, "format": {"name": "scratchpad"}}
    >>> parity["format"]["reverse_operands"] = True
    >>> enumerated = enumerate_contexts(System(make_run({**parity, "positions": [pair]})))
    >>> len(enumerated.contexts), enumerated.complete
    (14, True)
    """
    require_bounded_contexts(system)
    problems = 0

    def covering_contexts() -> Iterator[Contexts]:
        nonlocal problems
        for covering in generate_covering_problems(system):
            yield extract_contexts(system, covering.batch, covering.selected, problems)
            problems += len(covering.batch)

    try:
        return EnumeratedContexts(unique_contexts(system, covering_contexts()), problems, True)
    except TooManyContexts:
        sample = sample_problems(system)
    contexts = unique_contexts(system, iterate_contexts(system, sample))
    return EnumeratedContexts(contexts, len(sample), False)


def find_contexts_or_conflict(system: System) -> EnumeratedContexts | ConflictingContexts:
    """Return the result of `enumerate_contexts`, or the conflict that it raises."""
    try:
        return enumerate_contexts(system)
    except ConflictingContexts as conflict:
        return conflict


def sample_problems(system: System) -> Problems:
    """Return random problems of different sizes, the same ones for all models of a task."""
    generator = stream(0, "contexts")
    smallest = torch.tensor(system.task.smallest_cell)
    shares = torch.rand(SAMPLED_PROBLEMS, 2, generator=generator)
    cells = smallest + (shares * (SAMPLED_DIGITS - smallest)).long()
    if len(system.task.largest_lengths(2)[0]) == 1:  # one operand
        cells[:, 1] = cells[:, 0]
    return system.task.draw_for_cells(cells, generator)


@torch.inference_mode()
def predict_tokens(system: System, contexts: Contexts) -> Integer[Tensor, " N"]:
    """Return the token that a model predicts in each context, by its forward pass on the CPU."""
    network, predicted = _move_to_cpu(system).network.eval(), []
    for rows in torch.arange(len(contexts)).split(CONTEXTS_PER_CHUNK):
        chunk = contexts[rows].long()
        last = torch.full((1, 1), chunk.tokens.shape[1] - 1)
        with use_precision("fp32", torch.device("cpu")):
            predicted.append(network(chunk.tokens, chunk.ids, last)[:, 0].argmax(-1))
    return torch.cat(predicted)


@torch.inference_mode()
def check_contexts(
    system: System, contexts: Contexts, report: Report = lambda contexts: None
) -> ContextChecks:
    """Run a model's forward pass on contexts, and bound its rounding errors; always on the CPU."""
    network, checks = system.network.eval(), []
    for rows in torch.arange(len(contexts)).split(CONTEXTS_PER_CHUNK):
        chunk = contexts[rows].long()
        leads = _compute_leads(network, chunk, backward=False)
        uncertain = ((leads[0] > 0) & ~(leads[2] > 0)).nonzero()[:, 0]
        if len(uncertain):  # the closer bound takes five times as long
            closer = _compute_leads(network, chunk[uncertain], backward=True)
            for values, closer_values in zip(leads, closer, strict=True):
                values[uncertain] = closer_values
        checks.append(ContextChecks(predict_tokens(system, chunk), chunk.target, *leads))
        report(len(chunk))
    return ContextChecks(*(torch.cat(parts) for parts in zip(*checks, strict=True)))


def _compute_leads(
    network: Transformer, contexts: Contexts, backward: bool
) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"], Float[Tensor, " N"]]:
    """Return lead, error and slack of each context (see `ContextChecks`)."""
    logits = bound_logits(network, contexts.tokens, contexts.ids, backward=backward)
    target = contexts.target[:, None]
    lead = logits.value.gather(1, target) - logits.value
    error = logits.error.gather(1, target) + logits.error
    is_target = torch.zeros_like(lead, dtype=torch.bool).scatter_(1, target, True)
    least_lead, least_slack = (
        values.masked_fill(is_target, torch.inf).amin(1) for values in (lead, lead - error)
    )
    return least_lead, error.masked_fill(is_target, 0.0).amax(1), least_slack


def _move_to_cpu(system: System) -> System:
    """Return a system with its weights on the CPU; the original one stays on its device."""
    if all(weights.device.type == "cpu" for weights in system.network.parameters()):
        return system
    moved = copy.copy(system)
    moved.network = copy.deepcopy(system.network).to("cpu")
    return moved


def certify_model(
    system: System,
    enumerated: EnumeratedContexts | ConflictingContexts,
    report: Report = lambda contexts: None,
) -> dict[str, Any]:
    """Check a model in every context, and return its certificate for JSON; always on the CPU.

    Returns:
        `seed`, and `weights`, their hash.
        `verdict`: "exact" at every length; "wrong" in a context; "open" if rounding might change a
            prediction; "sampled" if all contexts are correct, but they are a sample; "impossible"
            if no model with these windows can be correct.
        `problems` and `contexts`, their numbers; and how many contexts are `wrong` or `open`.
        `least_lead`: the smallest lead of the correct token's logit over another one.
        `largest_error`: the largest bound on the float32 error of such a lead.
        `least_slack`: the smallest difference of lead and error bound in one context; it decides.
        `counterexample` of a wrong model: `context`, `target` and `predicted`; and, if a problem
            was found, `problem`, the `right` response and the one `written`.

    Raises:
        SettingsError: if there are no contexts.
    """
    system = _move_to_cpu(system)
    model = {"seed": system.seed, "weights": hash_weights(system)}
    if isinstance(enumerated, ConflictingContexts):
        return {**model, "verdict": "impossible", "contexts": 0}
    if not len(enumerated.contexts):
        raise SettingsError(f"runs.{system.run.name}: no contexts; expected at least one")
    checks = check_contexts(system, enumerated.contexts, report)
    wrong, unsure = int(checks.wrong.sum()), int(checks.open.sum())
    correct = "exact" if enumerated.complete else "sampled"
    certificate = {
        **model,
        "verdict": "wrong" if wrong else "open" if unsure else correct,
        "problems": enumerated.problems,
        "contexts": len(enumerated.contexts),
        "wrong": wrong,
        "open": unsure,
        "least_lead": _round_number(checks.lead.min()),
        "largest_error": _round_number(checks.error.max()),
        "least_slack": _round_number(checks.slack.min()),
    }
    if wrong:
        certificate["counterexample"] = _find_counterexample(system, enumerated, checks)
    return certificate


def _round_number(number: Tensor) -> float | None:
    """Return a number with four significant digits; None if it is not finite, as JSON needs."""
    return float(f"{float(number):.4g}") if number.isfinite() else None


def _find_counterexample(
    system: System, enumerated: EnumeratedContexts, checks: ContextChecks
) -> dict[str, Any]:
    """Return the wrong context with the smallest lead, and a problem with it or a random one."""
    contexts, rows = enumerated.contexts, checks.wrong.nonzero()[:, 0]
    worst = rows[checks.lead[rows].argmin()]
    counterexample = {
        "context": render_context(contexts.tokens[worst]),
        "target": formats.to_text(contexts.target[worst][None]),
        "predicted": formats.to_text(checks.predicted[worst][None]),
    }
    problem = _get_problem(system, enumerated, int(contexts.problem[worst]))
    if problem is None or _find_exact(system, problem).all():
        problem = _search_wrong_problem(system)
    if problem is None:
        return counterexample
    batch, response = system.format.write(problem), decode_greedily(system, problem)[0]
    start, end = int(batch.start[0]), int(batch.length[0])
    is_end = (response == formats.EOS).int()
    return {
        **counterexample,
        "problem": formats.to_text(batch.tokens[0, :start]),
        "right": formats.to_text(batch.tokens[0, start:end]),
        "written": formats.to_text(response[: int(is_end.argmax()) + 1 if is_end.any() else None]),
    }


def render_context(tokens: Integer[Tensor, " W"]) -> str:
    """Return a context as text, without its padding."""
    return formats.to_text(tokens[tokens != formats.PAD])


def _get_problem(system: System, enumerated: EnumeratedContexts, number: int) -> Problems | None:
    """Return the problem with a number; None if it was constructed from its parts."""
    if not enumerated.complete:
        return sample_problems(system)[number : number + 1].trim()
    for covering in generate_covering_problems(system):
        if number < len(covering.batch):
            problems = covering.problems
            return None if problems is None else problems[number : number + 1]
        number -= len(covering.batch)
    return None


def _find_exact(system: System, problems: Problems) -> Bool[Tensor, " B"]:
    return teacher_forced_pass(system, system.format.write(problems)).exact


def _search_wrong_problem(system: System) -> Problems | None:
    digits = max(2, system.run.training.digits + 5)
    problems = system.task.draw(COUNTEREXAMPLE_PROBLEMS, digits, stream(0, "fault"))
    for rows in torch.arange(COUNTEREXAMPLE_PROBLEMS).split(100):
        chunk = problems[rows]
        exact = _find_exact(system, chunk)
        if not exact.all():
            return chunk[~exact][:1].trim()
    return None


def hash_weights(system: System) -> str:
    """Return a SHA-256 of a model's weights: their names, shapes and values."""
    digest = hashlib.sha256()
    for name, weights in sorted(system.network.state_dict().items()):
        digest.update(f"{name} {tuple(weights.shape)} {weights.dtype}".encode())
        digest.update(weights.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
