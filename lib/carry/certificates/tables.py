"""Certificates for third parties: all contexts, what is due, leads and bounds, as plain arrays.

    FOLDER/certificate.json   the certificate of one model, and what the arrays mean
           contexts.npz       arrays with a row for each context:
               due, query     the token that is due, and the one that it follows
               codes          what the query sees, from the largest code on; -1 is nothing
               lead           the smallest lead of the due token's logit, in exact arithmetic
               error          the largest bound on the float32 error of a lead
               slack          the smallest difference of a lead and its bound, which decides

A code has the token, then for each level of ids the id of the key less the query's id, clipped, or
which of both has none. `carry export-certificate ROW` writes such a folder.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from carry import formats
from carry.certificates.contexts import Contexts, compute_context_keys
from carry.certificates.files import VERSION
from carry.certificates.verification import check_contexts, enumerate_contexts, hash_weights
from carry.config import paths
from carry.config.settings import SettingsError
from carry.models.system import System
from carry.progress import progress_bar

HEADER, ARRAYS = "certificate.json", "contexts.npz"


class ContextTable(NamedTuple):
    """Contexts in an order that depends on their content alone."""

    rows: np.ndarray  # [N 2+W]: the due token, the query's token, and codes
    order: np.ndarray  # [N]: the contexts from which the rows come


def tabulate_contexts(system: System, contexts: Contexts) -> ContextTable:
    """Return contexts as sorted rows of integers.

    Attention does not depend on the order of what it sees, so the codes of a row are sorted.

    >>> from carry.certificates.verification import enumerate_contexts
    >>> from carry.experiments.resolve import make_run
    >>> pair = {"ids": "coupled", "encoding": "relative", "window": [0, 1]}
    >>> system = System(make_run({"task": {"name": "copying"}, "positions": [pair]}))
    >>> table = tabulate_contexts(system, enumerate_contexts(system).contexts)
    >>> table.rows.shape, table.rows[0].tolist()
    ((120, 6), [0, 0, 101, 3, 2, 2])
    """
    codes = -np.sort(-compute_context_keys(system, contexts), axis=1)
    codes = codes[:, (codes >= 0).any(0)]
    rows = np.column_stack([contexts.target.numpy(), contexts.tokens[:, -1].numpy(), codes])
    rows = rows.astype(codes.dtype.newbyteorder("<"))
    order = np.lexsort(rows.T[::-1])
    return ContextTable(rows[order], order)


def hash_contexts(table: ContextTable) -> str:
    """Return the SHA-256 of contexts, each with the token that is due.

    >>> rows = np.zeros((2, 3), "<i4")
    >>> hash_contexts(ContextTable(rows, np.arange(2)))[:16]
    '910238ea1f5f785d'
    """
    rows = table.rows
    return hashlib.sha256(str(rows.shape).encode() + rows.tobytes()).hexdigest()


def write_tables(system: System, certificate: dict[str, Any], folder: Path) -> None:
    """Write the contexts of a model with their leads and bounds, and its certificate.

    Args:
        certificate: the certificate of the row, as `read_certificate` returns it.
        folder: is made if it is missing; earlier files in it are replaced.

    Raises:
        SettingsError: for a model that the certificate does not have, and contexts other than those
            of the certificate.
    """
    where = f"certificates.{system.run.name}"
    weights = hash_weights(system)
    model = {"seed": system.seed, "weights": weights}
    seed = next((seed for seed in certificate["seeds"] if model.items() <= seed.items()), None)
    if seed is None:
        raise SettingsError(
            f"{where}.seeds: none has seed {system.seed} and the weights {weights[:16]!r}; "
            "expected a model with a certificate"
        )
    contexts = enumerate_contexts(system).contexts
    table = tabulate_contexts(system, contexts)
    stored, actual = str(seed.get("contexts_sha256")), hash_contexts(table)
    if stored != actual:
        raise SettingsError(
            f"{where}.contexts_sha256: {stored[:16]!r} differs; expected {actual[:16]!r}"
        )
    with progress_bar(len(contexts), "contexts") as bar:
        checks = check_contexts(system, contexts[torch.from_numpy(table.order)], bar.update)
    arrays = {name: getattr(checks, name).numpy() for name in ("lead", "error", "slack")}
    due, query = table.rows[:, :2].astype("<u2").T
    clips = [getattr(encoding, "clip", 0) for encoding in system.network.encodings]
    header = {
        "version": VERSION,
        **certificate,
        "seeds": [seed],
        "tokens": formats.ALPHABET[: system.format.vocabulary_size()],
        "levels": [{"clip": clip, "base": 2 * clip + 4} for clip in clips],
        "code": "token * b1 * b2 ... + step1 * b2 ... + ..., for the base b of each level; step is "
        "clip + id of the key - id of the query, clipped to 0 ... 2 clip; or 2 clip + 1 if the key "
        "has no id, 2 clip + 2 if the query has none, 2 clip + 3 if both have none",
    }
    with paths.write_atomically(folder / ARRAYS) as draft:
        np.savez_compressed(draft, due=due, query=query, codes=table.rows[:, 2:], **arrays)
    with paths.write_atomically(folder / HEADER) as draft:
        draft.write_text(json.dumps(header, indent=1) + "\n", encoding="utf-8")
