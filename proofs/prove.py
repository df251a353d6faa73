"""Check the proofs by Coq, if it is installed; print each theorem, and all that they assume.

`make prove` and `make prove-all` run it, with --all for the proofs of proofs/long, too. It writes
weights that are missing or older than those of reports/models, compiles what has changed, and keeps
what Coq prints of NAME.v in NAME.out. With --all it records the theorems in reports/proofs.json.
A file of rows or long ends, for each theorem, with

    Check THEOREM.
    Print Assumptions THEOREM.

It needs Python alone, so that there is one line, and no environment, where Coq is missing.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent
MODELS = FOLDER.parent / "reports" / "models"
RECORD = FOLDER.parent / "reports" / "proofs.json"
LEAST, TRIED = (8, 16), "8.16"
WIDTH = 100
INSTALL = "`apt-get install coq libcoq-interval libcoq-flocq` or `opam install coq coq-interval`"
# Files of Coq's library with axioms: the real numbers, and the processor's floats and integers.
TRUSTED = "ClassicalDedekindReals Classical_Prop FunctionalExtensionality"
TRUSTED += " FloatAxioms PrimFloat PrimInt63 Uint63 Uint63Axioms"

# Compiled by another version of Coq, or by an interrupted one, a file is compiled again.
RULE = """
.DELETE_ON_ERROR:
%.vo: %.v .coq
\t@echo "coqc $<"
\t@coqc -q -w none -R . Carry $< > $*.out
"""


class Refusal(Exception):
    """One line."""


class Theorem(NamedTuple):
    """What Coq prints of a theorem."""

    name: str
    statement: str
    assumptions: list[str]


def find_version() -> str | None:
    """Return the version of Coq; None without one."""
    try:
        done = subprocess.run(["coqc", "--print-version"], capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return done.stdout.partition(" ")[0]


def read_weights_named(files: list[Path]) -> dict[str, Path]:
    """Return the models whose weights, ROW_SEED, proofs name, by that name."""
    words = {word for file in files for word in re.findall(r"\w+", file.read_text("utf-8"))}
    models = {
        path.parent.name + path.stem.replace("seed", ""): path
        for path in sorted(MODELS.glob("*/seed_*.safetensors"))
    }
    return {name: path for name, path in models.items() if name in words}


def export_weights(weights: dict[str, Path]) -> None:
    """Write the weights that are missing or older than the model."""
    rows = set()
    for name, model in weights.items():
        file = FOLDER / "weights" / f"{name}.v"
        if not file.exists() or file.stat().st_mtime < model.stat().st_mtime:
            rows.add(model.parent.name)
    if rows:
        subprocess.run(["carry", "export-coq", *sorted(rows)], check=True)


def compile_proofs(proofs: list[Path], weights: dict[str, Path], version: str) -> None:
    """Compile proofs and what they need, two files at once."""
    with open(FOLDER / ".coq", "a+", encoding="utf-8") as stamp:
        fcntl.flock(stamp, fcntl.LOCK_EX)  # another run would compile the same
        stamp.seek(0)
        if stamp.read() != version:
            stamp.truncate(0)
            stamp.write(version)
            stamp.flush()
        export_weights(weights)
        sources = [*FOLDER.glob("*.v"), *FOLDER.glob("tasks/*.v"), *proofs]
        for file in sources:
            output = file.with_suffix(".out")
            if not output.exists() or output.stat().st_mtime < file.stat().st_mtime:
                file.with_suffix(".vo").unlink(missing_ok=True)  # compiled otherwise
        names = sorted(path.relative_to(FOLDER).as_posix() for path in sources)
        targets = [path.relative_to(FOLDER).with_suffix(".vo").as_posix() for path in proofs]
        needed = [f"weights/{name}.v" for name in weights]
        run = {"cwd": FOLDER, "text": True, "check": True}
        coqdep = ["coqdep", "-R", ".", "Carry", *names, *needed]
        rules = subprocess.run(coqdep, stdout=subprocess.PIPE, **run).stdout
        # Not as a part of a make that called this program.
        run["env"] = {key: value for key, value in os.environ.items() if "MAKE" not in key}
        make = ["make", "-s", "-j", "2", "-f", "-"]
        subprocess.run([*make, *targets], input=RULE + rules, stdout=sys.stderr, **run)


def read_theorems(file: Path) -> list[Theorem]:
    """Return the theorems of a compiled file from what Coq printed."""
    where = file.relative_to(FOLDER)
    names = re.findall(r"Print Assumptions (\S+)\.(?=\s)", file.read_text("utf-8"))
    text = file.with_suffix(".out").read_text("utf-8")
    starts = [re.search(rf"^{re.escape(name)}\n +: ", text, re.M) for name in names]
    if None in starts or not names:
        name = names[starts.index(None)] if names else "THEOREM"
        raise Refusal(f"{where}: expected lines `Check {name}.` and `Print Assumptions {name}.`")
    theorems = []
    ends = [start.start() for start in starts[1:]] + [len(text)]
    for name, start, end in zip(names, starts, ends, strict=True):
        part = re.split(r"^Axioms:\n|^Closed under.*\n", text[start.end() : end], flags=re.M)
        statement, assumed = part
        assumptions = re.findall(r"^\S+", assumed, re.M)
        for assumption in assumptions:
            if assumption.partition(".")[0] not in TRUSTED.split():
                raise Refusal(
                    f"{where}: {name} assumes {assumption}; expected axioms of Coq's library alone"
                )
        theorems.append(Theorem(name, statement.strip(), assumptions))
    return theorems


def describe_theorems(proofs: dict[Path, list[Theorem]]) -> str:
    """Return the theorems of files, each statement once, and the set of their assumptions."""
    files, assumptions = {}, set()
    for file, theorems in proofs.items():
        for theorem in theorems:
            statement = textwrap.indent(f"{theorem.name}\n     : {theorem.statement}", "  ")
            files.setdefault(statement, []).append(
                file.relative_to(FOLDER).with_suffix("").as_posix()
            )
            assumptions.update(theorem.assumptions)
    lines = []
    for statement, names in files.items():
        lines += [*textwrap.wrap(f"{', '.join(names)}:", WIDTH), statement]
    count = sum(map(len, proofs.values()))
    title = "theorems are proved. All that they assume of Coq's library (types: proofs/*/*.out):"
    lines.append(f"{count} {title}")
    for module in TRUSTED.split():
        names = sorted(a.partition(".")[2] for a in assumptions if a.startswith(f"{module}."))
        if names:
            text = f"{module}: {' '.join(names)}"
            lines += textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ")
    return "\n".join(lines)


def hash_sources() -> str:
    """Return the SHA-256 of all sources but weights."""
    digest = hashlib.sha256()
    for file in sorted(FOLDER.glob("**/*.v")):
        if file.parent.name != "weights":
            digest.update(file.relative_to(FOLDER).as_posix().encode() + file.read_bytes())
    return digest.hexdigest()


def record_proofs(proofs: dict[Path, list[Theorem]], version: str) -> None:
    """Write what Coq has checked: theorems, and the models that they are about."""
    models, statements = [], {}
    for file, theorems in proofs.items():
        source = file.relative_to(FOLDER).as_posix()
        statements[source] = [theorem._asdict() for theorem in theorems]
        for name in read_weights_named([file]):
            text = (FOLDER / "weights" / f"{name}.v").read_text("utf-8")
            row, _, seed = name.rpartition("_")
            digest = re.search(r"\b[0-9a-f]{64}\b", text)[0]
            models.append({"row": row, "seed": int(seed), "weights": digest, "file": source})
    record = {"coq": version, "sources": hash_sources(), "models": models, "theorems": statements}
    partial = RECORD.with_suffix(".partial")
    partial.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    partial.replace(RECORD)


def main(arguments: list[str]) -> int:
    """Check the proofs; return the exit code."""
    version = find_version()
    if version is None:
        print(f"prove: no proof is checked, since Coq is not installed; to install it: {INSTALL}")
        return 0
    numbers = tuple(map(int, re.findall(r"\d+", version)[:2]))
    if numbers < LEAST:
        raise Refusal(f"prove: Coq {version} is not read; expected {TRIED} or newer; {INSTALL}")
    if not f"{version}.".startswith(f"{TRIED}."):
        print(f"prove: Coq {version}; the proofs were tried with {TRIED}", flush=True)
    began = time.monotonic()
    folders = ["rows", "long"] if "--all" in arguments else ["rows"]
    proofs = [file for folder in folders for file in sorted(FOLDER.glob(f"{folder}/*.v"))]
    compile_proofs(proofs, read_weights_named(proofs), version)
    theorems = {file: read_theorems(file) for file in proofs}
    print(describe_theorems(theorems))
    if "--all" in arguments:
        record_proofs(theorems, version)
    print(f"prove: {len(proofs)} files, {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Refusal as refusal:
        sys.exit(str(refusal))
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)  # it has printed why
    except KeyboardInterrupt:
        print("prove: interrupted; compiled files are kept", file=sys.stderr)
        sys.exit(130)
