"""Check committed weights, and compare the verdicts with the committed certificates.

    python -m certificates.independent [ROW...]

Two processes share the contexts of each model. Prints a line for each model, and for each
certificate that differs; returns 1 if there is one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

for _kernel in ("OPENBLAS", "OMP", "MKL"):  # before numpy: one thread for each process
    os.environ.setdefault(f"{_kernel}_NUM_THREADS", "1")

import numpy as np  # noqa: E402

from certificates.independent.contexts import Contexts, enumerate_contexts  # noqa: E402
from certificates.independent.leads import Verdict, check_model  # noqa: E402
from certificates.independent.rows import (  # noqa: E402
    Refusal,
    Row,
    hash_weights,
    read_json,
    read_row,
    read_weights,
)
from certificates.independent.tables import hash_contexts  # noqa: E402

REPORTS = Path(__file__).parents[2] / "reports"
VERDICTS = {"proved": "exact", "wrong": "wrong", "open": "open"}  # as certificates call them
VERSION = 2  # of certificates
TOLERANCE = 1e-3  # of leads, which certificates round
PARTS = min(2, os.cpu_count() or 1)  # processes, each with a part of the contexts of every model


def read_certificate(path: Path) -> dict[str, Any]:
    """Return a certificate.

    Raises:
        Refusal: for a damaged file, a certificate of another version, or settings that cannot be
            checked.
    """
    certificate = read_json(path)
    version = certificate.get("version")
    if version != VERSION:
        raise Refusal(f"{path}: version {version!r}; expected {VERSION}")
    stored = certificate.pop("sha256", None)
    actual = hashlib.sha256(json.dumps(certificate, sort_keys=True).encode()).hexdigest()
    if stored != actual:
        raise Refusal(f"{path}: sha256 {stored}; expected {actual}")
    read_row(certificate)
    seeds = certificate.get("seeds")
    if not (isinstance(seeds, list) and seeds and all(isinstance(seed, dict) for seed in seeds)):
        raise Refusal(f"{path}: seeds {seeds!r}; expected a list of mappings")
    return certificate


class Checked(NamedTuple):
    """What the checker found out about the weights in a file."""

    name: str
    weights: str  # their hash
    contexts: str  # the hash of the contexts
    verdict: Verdict
    seconds: float

    def fields(self) -> dict[str, Any]:
        """Return the fields by which certificates are compared, but leads."""
        names = ("contexts", "wrong", "open")
        counts = {name: getattr(self.verdict, name) for name in names}
        verdict = VERDICTS[self.verdict.verdict]
        return {"verdict": verdict, **counts, "contexts_sha256": self.contexts}


@lru_cache(1)
def load_contexts(path: Path) -> tuple[Row, Contexts, str]:
    """Return the row of a certificate, its contexts, and their hash.

    The last ones are kept, as all models of a row have the same.

    Raises:
        Refusal: for settings that cannot be checked.
    """
    row = read_row(read_json(path))
    contexts = enumerate_contexts(row.definition)
    return row, contexts, hash_contexts(contexts)


def check_weights(path: Path, certificate: Path, part: int = 0, parts: int = 1) -> Checked:
    """Return what is found out about a file of weights, in one of several parts of the contexts.

    Args:
        certificate: the file with the settings.

    Raises:
        Refusal: for settings or weights that cannot be checked.
    """
    start = time.process_time()
    row, contexts, digest = load_contexts(certificate)
    weights = read_weights(path, row)
    query, due, codes = (values[part::parts] for values in contexts[:3])
    verdict = check_model(row, weights, contexts._replace(query=query, due=due, codes=codes))
    seconds = time.process_time() - start
    return Checked(path.stem, hash_weights(weights), digest, verdict, seconds)


def merge(parts: list[Checked]) -> Checked:
    """Return what is found out about weights in all parts of the contexts.

    >>> wrong = Verdict("wrong", 7, 1, 0, -1.0, 0.1, -1.1, "a")
    >>> proved = Verdict("proved", 7, 0, 0, 6.5, 0.2, 6.3, "b")
    >>> merge([Checked("seed_0", "ab", "cd", part, 0.5) for part in (proved, wrong)]).verdict[:6]
    ('wrong', 14, 1, 0, -1.0, 0.2)
    """
    verdicts = [part.verdict for part in parts]
    verdict = max((each.verdict for each in verdicts), key=["proved", "open", "wrong"].index)
    contexts, wrong, unsure = (sum(each[field] for each in verdicts) for field in (1, 2, 3))
    leads, errors, slacks = (np.array([each[field] for each in verdicts]) for field in (4, 5, 6))
    worst = verdicts[int((leads if verdict == "wrong" else slacks).argmin())].worst
    bounds = map(float, (leads.min(), errors.max(), slacks.min()))
    merged = Verdict(verdict, contexts, wrong, unsure, *bounds, worst)
    return parts[0]._replace(verdict=merged, seconds=sum(part.seconds for part in parts))


def find_differences(certificate: dict[str, Any], checked: list[Checked]) -> Iterator[str]:
    """Yield a line for each field in which a certificate differs from what the checker found.

    >>> verdict = Verdict("proved", 14, 0, 0, 6.5471, 0.1, 6.4, "")
    >>> checked = Checked("seed_0", "ab", "cd", verdict, 0.1)
    >>> seed = {"weights": "ab", **checked.fields(), "open": 1, "least_lead": 6.547}
    >>> list(find_differences({"seeds": [seed]}, [checked]))
    ['seeds.0.open: 1; expected 0']
    """
    by_weights = {found.weights: found for found in checked}
    for index, seed in enumerate(certificate["seeds"]):
        found = by_weights.get(seed.get("weights"))
        if found is None:
            yield f"seeds.{index}.weights: {seed.get('weights')}; expected a hash of the weights"
            continue
        for field, expected in found.fields().items():
            if seed.get(field) != expected:
                yield f"seeds.{index}.{field}: {seed.get(field)!r}; expected {expected!r}"
        stored, lead = seed.get("least_lead"), found.verdict.least_lead
        if not (stored and abs(stored - lead) <= TOLERANCE * abs(stored)):
            yield f"seeds.{index}.least_lead: {stored}; expected {lead:.4g}"


def describe(verdict: Verdict) -> str:
    """Return a verdict in words."""
    bounds = f"least lead {verdict.least_lead:.4g}, least slack {verdict.least_slack:.4g}"
    text = f"{verdict.verdict}: {verdict.contexts:,} contexts, {bounds}"
    if verdict.verdict == "proved":
        return text
    return f"{text}, {verdict.wrong:,} wrong, {verdict.open:,} open: {verdict.worst}"


def main(arguments: list[str]) -> int:
    """Check the named rows, by default all that have a certificate."""
    parser = argparse.ArgumentParser("python -m certificates.independent", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW")
    names = parser.parse_args(arguments).rows
    known = {path.stem: path for path in sorted(REPORTS.glob("certificates/*.json"))}
    for name in names:
        if name not in known:
            print(f"ROW: {name!r} has no certificate; expected {', '.join(sorted(known))}")
            return 2
    faults = []
    with ProcessPoolExecutor(PARTS) as pool:
        jobs = {
            name: [
                [pool.submit(check_weights, path, file, part, PARTS) for part in range(PARTS)]
                for path in _list_weights(name)
            ]
            for name, file in sorted(known.items(), key=lambda item: -_cost(item[1]))
            if not names or name in names
        }
        for name, models in jobs.items():
            try:
                checked = [merge([part.result() for part in parts]) for parts in models]
                for model in checked:
                    text = f"{describe(model.verdict)}; {model.seconds:.1f} s"
                    print(f"{name}, {model.name}: {text}", flush=True)
                differences = find_differences(read_certificate(known[name]), checked)
                faults += [f"{name}: {line}" for line in differences]
            except Refusal as refusal:
                faults.append(f"{name}: {refusal}")
    for fault in faults:
        print(fault)
    result = "they agree" if not faults else f"{len(faults)} differences"
    print(f"{len(jobs)} certificates: {result}")
    return 1 if faults else 0


def _list_weights(name: str) -> list[Path]:
    """Return the files of a row's weights; if there is none, the one whose absence is refused."""
    folder = REPORTS / "models" / name
    return sorted(folder.glob("seed_*.safetensors")) or [folder / "seed_0.safetensors"]


def _cost(path: Path) -> int:
    """Return a measure of the time of a row, so that long ones start first: its levels of ids."""
    try:
        return len(read_json(path).get("positions") or [])
    except Refusal:
        return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
