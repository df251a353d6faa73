"""Leads of the due token in each context, with bounds on what float32 does to them.

`Model.bound_leads` computes each context in float64, and bounds how far float32 may be from it. For
vectors after attention this bound is one number, on the Euclidean norm of the error e = x' - x. A
step passes e on, and adds its own roundings:

* A linear map passes e on by its spectral norm. Its sums of n terms, in any order, err by at
  most gamma(n) times the sum of their magnitudes (Higham, Accuracy and Stability of Numerical
  Algorithms, 3.1).
* max(x, 0) passes on e where x > 0, and max(|e| - |x|, 0) elsewhere.
* A norm c / s with s^2 = |c|^2 / D + eps passes on |e| / s, and beyond its derivative at most
  1.5 |e|^2 / (sqrt(D) s'^2) for the smallest s' on the way, from its second derivative along and
  across c.

What precedes the output of attention depends on pairs of tokens alone. There weights p become
p exp(d) / sum p exp(d) with |d| <= t, and because p (v - o) sums to 0 the output moves by
sum p (exp(d) - 1) (v - o) / sum p exp(d), and 1 / sum p exp(d) <= sum p exp(t) (Cauchy-Schwarz).

Premises about the machine. Sums, products, quotients and roots of float32 are rounded to nearest,
fused or not; each may lose 2^-126 to underflow. Attention may round twice as often, and subtract
any maximum so far and rescale by exp(old - new), which is 1 if they are equal; exp is accurate to
32 ulp, to 4 where it rescales. A hidden token has the weight exp(-inf) = 0. A variance is computed
in two passes, from mean squares, or by merging the means and squares of parts in any order (Chan,
Golub & LeVeque 1983); `normalise` has what this may add. Nothing overflows: `rows` limits weights
and sizes, and vectors beyond `LARGEST` have no bound here. Weights are finite, so 0 times the value
of a hidden token is 0.
The computation in float64 has the same errors, 2^29 times as small; `FLOAT64` makes up for them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from certificates.independent.contexts import TOKEN_CODES, Contexts, Relation
from certificates.independent.rows import BIAS_SCALE, Refusal, Row
from certificates.independent.tasks import SIGNS

UNIT = 2.0**-24  # half the distance from 1 to the next number
TINY = 2.0**-60  # 2^-126 lost to underflow, times all that a step may multiply it with
EPSILON = 1e-5  # of norms
LARGEST = 1e15  # whose square is far from overflow
FLOAT64 = 1.01
CHUNK = 2048  # contexts; larger ones leave the processor's cache


def gamma(terms: int) -> float:
    """Return the relative error of so many roundings.

    >>> gamma(1) > UNIT, gamma(100) < 6e-6
    (True, True)
    """
    return terms * UNIT / (1 - terms * UNIT)


def rounding(terms: int, magnitude: np.ndarray) -> np.ndarray:
    """Return the error of a sum of terms whose magnitudes have this sum."""
    return gamma(terms) * magnitude + terms * TINY


def length(x: np.ndarray) -> np.ndarray:
    """Return the Euclidean norm of each row, as a column."""
    return np.sqrt(np.einsum("...d,...d->...", x, x))[..., None]


class Norm(NamedTuple):
    """A norm of rows x: its output, and what bounds the errors of its float32 results."""

    output: np.ndarray
    unit: np.ndarray  # c / s
    root: np.ndarray  # 1 / s
    change: np.ndarray  # the norm of (J e + remainder)
    remainder: np.ndarray  # its norm
    rounding: np.ndarray
    scale: np.ndarray  # the part of the rounding along c / s, relatively
    shift: np.ndarray  # and the part along the weights


def normalise(x: np.ndarray, error: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> Norm:
    """Return (x - mean) / sqrt(variance + eps) weight + bias, for x with errors of these norms.

    Rounding scales the result by a computed 1 / s, shifts it by a computed mean, and adds at most 8
    roundings of x, of the mean and of their difference, since x / s - mean / s is allowed.

    For u, gamma(1) to first order, and D numbers of mean square q: the mean has the error
    (D + 3 log2 D) u mean|x|, as each merger of parts adds 3 roundings of the smaller part's share.
    The variance has (D + 3) u q in two passes and (3 D + 5) u q from mean squares. Merging adds
    squares of differences of means, whose errors are 2 (D + 3 log2(D) sqrt(2 log2 D)) u q together
    by Cauchy-Schwarz, to the D + 8 roundings of such a sum. So 4 D + 96 is enough for all D.

    >>> norm = normalise(np.array([[1.0, 3.0]]), np.zeros((1, 1)), np.ones(2), np.zeros(2))
    >>> norm.output.round(3).tolist(), bool((norm.rounding < 1e-4).all())
    ([[-1.0, 1.0]], True)
    """
    width = x.shape[-1]
    magnitude = np.abs(x) + error
    mean_magnitude = magnitude.mean(-1, keepdims=True)
    c = x - x.mean(-1, keepdims=True)
    size = length(c)
    root = (size**2 / width + EPSILON) ** -0.5
    largest_root = (np.maximum(size - error, 0) ** 2 / width + EPSILON) ** -0.5
    unit, widest = c * root, np.abs(weight).max()
    remainder = widest * 1.5 / width**0.5 * (error * largest_root) ** 2
    variance_error = gamma(4 * width + 96) * (magnitude**2).mean(-1, keepdims=True)
    share = np.minimum(variance_error * largest_root**2, 1)
    with np.errstate(divide="ignore"):  # an unbounded error is a bound as well
        scale = (1 + gamma(16)) / np.sqrt(1 - share) - 1
    scale = np.where(magnitude.max(-1, keepdims=True) < LARGEST, scale, np.inf)
    shift = gamma(width + 48) * mean_magnitude * largest_root * (1 + scale)
    elements = gamma(8) * (magnitude + 2 * mean_magnitude) * largest_root * (1 + scale)
    along = scale * (np.abs(unit) + largest_root * error) + shift
    return Norm(
        unit * weight + bias,
        unit,
        root,
        widest * root * error + remainder,
        remainder,
        np.abs(weight) * (along + elements) + rounding(8, np.abs(bias)),
        scale,
        shift,
    )


class Model:
    """A model with one layer, and tables of what depends on pairs of tokens alone.

    V tokens, H heads of d numbers; width D, inner width I = H d, hidden width F.
    """

    def __init__(self, row: Row, weights: dict[str, np.ndarray], relations: list[Relation]) -> None:
        weights = {name: values.astype(np.float64) for name, values in weights.items()}
        block = {name[9:]: values for name, values in weights.items() if name[:9] == "blocks.0."}
        self.tokens, self.logits = weights["tokens.weight"], weights["logits.weight"]
        self.before, self.last = (
            (source[f"{name}.weight"], source[f"{name}.bias"])
            for source, name in ((block, "before.1"), (weights, "final_norm"))
        )
        self.output, self.up, self.down = (
            (block[f"{name}.weight"], block[f"{name}.bias"])
            for name in ("output", "feed_forward.up", "feed_forward.down")
        )
        self._tabulate_attention(row, weights, block, relations)
        self.output_norm, self.down_norm = (
            np.linalg.norm(matrix, 2) for matrix, _ in (self.output, self.down)
        )
        rows = self.logits * self.last[0]
        self.readers = rows - rows.mean(1, keepdims=True)

    def _tabulate_attention(
        self, row: Row, weights: dict, block: dict, relations: list[Relation]
    ) -> None:
        """Set the scores [V, codes, H] and the values [V, H, d], with bounds on their errors."""
        weight, bias = block["before.0.weight"], block["before.0.bias"]
        norm = normalise(self.tokens, np.zeros((len(self.tokens), 1)), weight, bias)
        width, heads, size = row.width, row.heads, row.head_width
        along = norm.rounding - np.abs(weight) * (norm.scale * np.abs(norm.unit) + norm.shift)

        def project(matrix: np.ndarray, offset: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            error = norm.scale * np.abs((norm.unit * weight) @ matrix.T)
            error += norm.shift * np.abs(matrix @ weight) + along @ np.abs(matrix).T
            magnitude = (np.abs(norm.output) + norm.rounding) @ np.abs(matrix).T + np.abs(offset)
            error += rounding(width + 2, magnitude)
            shape = len(self.tokens), heads, size
            return (norm.output @ matrix.T + offset).reshape(shape), error.reshape(shape)

        query, query_error = project(block["query.weight"], block["query.bias"])
        halves = (np.split(block[f"key_value.{part}"], 2) for part in ("weight", "bias"))
        (key, key_error), (self.value, self.value_error) = map(project, *halves)

        def multiply(queries: np.ndarray, keys: np.ndarray) -> np.ndarray:
            return size**-0.5 * np.einsum("ahd,bhd->abh", queries, keys)[:, None]

        score, key_size = multiply(query, key), np.abs(key) + key_error
        error = multiply(query_error, key_size) + multiply(np.abs(query), key_error)
        error += rounding(2 * size + 16, multiply(np.abs(query) + query_error, key_size))
        levels = range(len(relations[0]))
        tables = [BIAS_SCALE * weights[f"encodings.{level}.biases.0"] for level in levels]
        bias, bias_size = (
            sum(part(table)[at] for table, at in zip(tables, np.array(relations).T, strict=True))
            for part in (np.asarray, np.abs)
        )
        magnitude = np.abs(score) + error + 2 * bias_size[:, None]
        error = error + rounding(2 * size * (1 + len(tables)) + 20, magnitude)
        padding = (0, 0), (0, 0), (0, TOKEN_CODES - len(self.tokens)), (0, 0)
        shape = len(self.tokens), -1, heads
        self.score, self.score_error = (
            np.pad(table, padding).reshape(shape) for table in (score + bias[:, None], error)
        )

    def _attend(self, query: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the output of attention [N I], with a bound on its error."""
        there, code, keys = codes[:, :, None] >= 0, np.maximum(codes, 0), codes.shape[1]
        score = np.where(there, self.score[query[:, None], code], -np.inf)
        error = np.where(there, self.score_error[query[:, None], code], 0)
        size = np.where(there, np.abs(score), 0) + error
        error = error + 16 * UNIT * (size + size.max(1, keepdims=True)) + (64 + 10 * keys) * UNIT
        weight = np.exp(score - score.max(1, keepdims=True))
        weight /= weight.sum(1, keepdims=True)
        growth = (weight * np.exp(error)).sum(1, keepdims=True)
        moved = weight * np.expm1(error) * growth + there * (16 * keys * TINY)
        token = code % TOKEN_CODES
        value = self.value[token]
        output = np.einsum("nwh,nwhd->nhd", weight, value)
        # The errors of values, and the roundings of both sums and the quotient.
        inherited = (1 + gamma(4 * keys + 24)) * self.value_error
        inherited += rounding(4 * keys + 24, np.abs(self.value))
        weight *= growth * np.exp(error.max(1, keepdims=True))
        change = np.einsum("nwh,nwhd->nhd", weight, inherited[token])
        change += np.einsum("nwh,nwhd->nhd", moved, np.abs(value - output[:, None]))
        return output.reshape(len(query), -1), change.reshape(len(query), -1)

    def _run(self, query: np.ndarray, codes: np.ndarray) -> tuple[Norm, np.ndarray]:
        """Return the last norm in float64, and the norm of the error of its input."""
        attended, attended_error = self._attend(query, codes)
        matrix, bias = self.output
        x = self.tokens[query] + attended @ matrix.T + bias
        magnitude = (np.abs(attended) + attended_error) @ np.abs(matrix).T
        magnitude += np.abs(bias) + np.abs(self.tokens[query])
        x_error = self.output_norm * length(attended_error)
        x_error += length(rounding(matrix.shape[1] + 3, magnitude))
        norm = normalise(x, x_error, *self.before)
        up, bias = self.up
        hidden = norm.output @ up.T + bias
        size = np.abs(norm.output) + norm.rounding + norm.change
        up_rounding = rounding(up.shape[1] + 2, size @ np.abs(up).T + np.abs(bias))
        hidden_error = (norm.change + length(norm.rounding)) * length(up).T + up_rounding
        active = np.maximum(hidden, 0)
        active_error = np.where(hidden > 0, hidden_error, np.maximum(hidden_error + hidden, 0))
        down, bias = self.down
        y = x + active @ down.T + bias
        magnitude = (active + active_error) @ np.abs(down).T + np.abs(bias) + np.abs(x) + x_error
        y_error = x_error + self.down_norm * length(active_error)
        y_error += length(rounding(down.shape[1] + 3, magnitude))
        return normalise(y, y_error, *self.last), y_error

    def bound_leads(
        self, query: np.ndarray, due: np.ndarray, codes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the lead of the due token over each token, and a bound on the lead's error, [N V].

        The lead over itself is infinite.
        """
        (last, y_error), rows = self._run(query, codes), np.arange(len(due))
        logits = last.output @ self.logits.T
        lead = logits[rows, due][:, None] - logits
        lead[rows, due] = np.inf
        size = np.abs(last.output) + last.rounding + last.change
        error = rounding(size.shape[1] + 2, size @ np.abs(self.logits).T)
        error = error + error[rows, due][:, None]
        distance = length(self.logits[:, None] - self.logits)[due, :, 0]
        error += distance * (last.remainder + length(last.rounding))
        distance = length(self.readers[:, None] - self.readers)[due, :, 0]
        return lead, FLOAT64 * (error + distance * last.root * y_error)


class Verdict(NamedTuple):
    """What is known of a model: `proved`, `wrong` in a context, or `open`."""

    verdict: str
    contexts: int
    wrong: int  # contexts where another token leads, or leads as much, in exact arithmetic
    open: int  # contexts where float32 might let another token lead
    least_lead: float
    largest_error: float
    least_slack: float  # of a lead less its error
    worst: str  # the context with the least lead, or the least slack, and the token that is nearest


def check_model(row: Row, weights: dict[str, np.ndarray], contexts: Contexts) -> Verdict:
    """Return what is known of a model in all contexts of its row.

    Raises:
        Refusal: for a vocabulary without some token of the task.
    """
    tokens = contexts.codes[contexts.codes >= 0] % TOKEN_CODES
    last = max(part.max() for part in (contexts.query, contexts.due, tokens))
    if last >= len(weights["tokens.weight"]):
        symbols = len(weights["tokens.weight"])
        raise Refusal(f"tokens.weight: {symbols} tokens; expected at least {last + 1}")
    model, parts = Model(row, weights, contexts.relations), []
    with np.errstate(all="ignore"):  # what is infinite or no number is open
        for start in range(0, len(contexts.due), CHUNK):
            chunk = [part[start : start + CHUNK] for part in contexts[:3]]
            lead, error = model.bound_leads(*chunk)
            slack = lead - error
            parts.append([lead.min(1), lead.argmin(1), slack.min(1), slack.argmin(1), error.max(1)])
    lead, leader, slack, rival, error = map(np.concatenate, zip(*parts, strict=True))
    wrong = lead <= 0
    unsure = ~wrong & ~(slack > 0)  # also where a number is none
    verdict = "wrong" if wrong.any() else "open" if unsure.any() else "proved"
    at = int(lead.argmin() if wrong.any() else slack.argmin())
    token = SIGNS[leader[at] if wrong.any() else rival[at]]
    worst = f"{token} instead of {SIGNS[contexts.due[at]]} after {contexts.describe(at)}"
    counts = len(lead), int(wrong.sum()), int(unsure.sum())
    return Verdict(verdict, *counts, *map(float, (lead.min(), error.max(), slack.min())), worst)
