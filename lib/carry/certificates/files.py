"""Certificates as files: written from trained weights, and checked against committed ones."""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path
from typing import Any

import safetensors.torch

from carry import processes
from carry.certificates.contexts import Contexts, Undetermined
from carry.certificates.verification import Enumerated, certificate, digest, found
from carry.config import paths, run_settings
from carry.config.run_settings import Run
from carry.config.settings import SettingsError, suggest_name
from carry.evaluation import trained_models
from carry.models.architectures.transformer import parameters
from carry.progress import progress_bar

CLOSE = 0.02  # a bound may differ by so much between machines, relatively
OF_EACH = ("tokens", "target", "problem", "slot")  # what contexts have beside ids
EXACT = ("seed", "weights", "verdict", "problems", "contexts", "wrong", "open")


def folder(profile: str) -> Path:
    """Return where certificates are kept.

    >>> paths.display_path(folder("cpu"))
    'reports/certificates'
    """
    return paths.reports_path(profile, "certificates")


def certify(row: str, profile: str) -> dict[str, Any]:
    """Certify all seeds of a trained row, write `ROW.json`, and return what it holds.

    Raises:
        SettingsError: for a row whose contexts cannot be enumerated, or without weights.
    """
    seeds = range(run_settings.load_run(row, profile).seeds)
    weights = {seed: trained_models.weights_file(profile, row, seed) for seed in seeds}
    certified = _certified(trained_models.trained_run(profile, row, weights[0]), weights)
    with paths.write_atomically(folder(profile) / f"{row}.json") as draft:
        draft.write_text(json.dumps(certified, indent=1) + "\n")
    return certified


def verify(row: str) -> dict[str, Any]:
    """Certify a row once more from its committed weights; return what is found.

    Raises:
        SettingsError: for a row without a certificate or without weights, or where either differs
            from what is found, naming the first difference.
    """
    known = committed()
    if row not in known:
        raise SettingsError(f"certificate: {row!r} is not there, {suggest_name(row, known)}")
    stored, where = json.loads(known[row].read_text()), paths.display_path(known[row])
    of, seeds = (
        run_settings.load_run(row, stored["profile"]),
        [own["seed"] for own in stored["seeds"]],
    )
    weights = {
        seed: trained_models.weights_file(trained_models.COMMITTED, row, seed) for seed in seeds
    }
    for own in stored["seeds"]:
        now = digest(trained_models.restore_system(weights[own["seed"]], of, own["seed"]))
        if now != own["weights"]:
            raise SettingsError(
                f"{where}: the weights of seed {own['seed']} are {now[:16]}..., not those that "
                f"were certified; expected {own['weights'][:16]}..."
            )
    certified = _certified(of, weights)
    for now, then in zip(certified["seeds"], stored["seeds"], strict=True):
        for field in (*EXACT, "margin", "error"):
            one, other = now.get(field), then.get(field)
            alike = one == other if field in EXACT else math.isclose(one, other, rel_tol=CLOSE)
            if not alike:
                raise SettingsError(
                    f"{where}: {field} of seed {then['seed']} is {one!r}; expected {other!r}"
                )
    return certified


def committed() -> dict[str, Path]:
    """Return the certificates that are in git, by row."""
    return {path.stem: path for path in sorted(folder("cpu").glob("*.json"))}


def verify_all(names: list[str]) -> bool:
    """Certify rows once more (default: all that have a certificate), and print what is found.

    Returns:
        Whether all are exact.
    """
    exact = True
    for row in names or committed():
        for own in verify(row)["seeds"]:
            exact &= own["verdict"] == "exact"
            print(f"{row}, seed {own['seed']}: {said(own)}", flush=True)
    return exact


def said(own: dict[str, Any]) -> str:
    """Return what one certificate says, in words.

    >>> said({"verdict": "exact", "contexts": 14, "margin": 3.0, "error": 0.5})
    'exact at every length: right in all 14 contexts, by 3 or more, which rounding changes by 0.5'
    """
    if own["verdict"] == "impossible":
        return "impossible: a context has two next tokens"
    count, lead = f"{own['contexts']:,}", f"by {own['margin']:.3g}"
    rounding = f"rounding changes by {own['error']:.3g}"
    if own["verdict"] == "wrong":
        told = own["counterexample"]
        shown = f"after {told['context']} it says {told['said']} where {told['due']} is due"
        if "problem" in told:
            shown += f"; {told['problem']} becomes {told['written']} instead of {told['right']}"
        return f"wrong in {own['wrong']:,} of {count} contexts: {shown}"
    if own["verdict"] == "open":
        return f"open in {own['open']:,} of {count} contexts, where it leads {lead}, and {rounding}"
    told = "exact at every length" if own["verdict"] == "exact" else "sampled, not proved"
    return f"{told}: right in all {count} contexts, {lead} or more, which {rounding}"


def _certified(of: Run, weights: dict[int, Path]) -> dict[str, Any]:
    first = trained_models.restore_system(next(iter(weights.values())), of, next(iter(weights)))
    with progress_bar(0, f"{of.name}, looking for contexts", unit="problem") as shown:
        known = found(first, shown.update)
    with tempfile.TemporaryDirectory() as place:
        count, kept = 0, known
        if isinstance(known, Enumerated):
            count, kept = len(known.contexts) * len(weights), _kept(known, Path(place))
        jobs = [(of, path, seed, kept) for seed, path in weights.items()]
        with progress_bar(count, of.name, unit="context") as shown:
            each = processes.run_jobs(_job, jobs, shown.update)
    given = of.model_dump()
    described = {name: given[name] for name in ("task", "format", "positions", "model")}
    return {
        "row": of.name,
        "profile": of.profile,
        **described,
        "trained": of.training.digits,
        "parameters": parameters(first.network),
        "seeds": each,
    }


def _kept(found: Enumerated, place: Path) -> Path:
    """Write contexts where all processes can read them without a copy each."""
    path, some = place / "contexts.safetensors", found.contexts
    tensors = {f"ids.{index}": of for index, of in enumerate(some.ids)}
    tensors |= {name: getattr(some, name) for name in OF_EACH}
    about = {"problems": str(found.problems), "complete": str(int(found.complete))}
    safetensors.torch.save_file({k: v.contiguous() for k, v in tensors.items()}, path, about)
    return path


def _read(path: Path) -> Enumerated:
    with safetensors.safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        about = file.metadata()
    ids = [tensors[f"ids.{index}"] for index in range(len(tensors) - len(OF_EACH))]
    own = {name: tensors[name] for name in OF_EACH}
    return Enumerated(
        Contexts(ids=ids, **own), int(about["problems"]), bool(int(about["complete"]))
    )


def _job(report: Any, of: Run, path: Path, seed: int, found: Path | Undetermined) -> dict[str, Any]:
    """Certify one seed."""
    known = _read(found) if isinstance(found, Path) else found
    return certificate(trained_models.restore_system(path, of, seed), known, report)
