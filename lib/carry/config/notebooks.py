"""Which notebooks belong to the project, and the form in which they are in git.

A notebook of the project says its own name: in `open_notebook("mcleish2024/how_far")`, or in the
heading of a stage, "# Stage `train`". Other files in notebooks/ are their user's. So is a copy,
which says the name of its original.

`python -m carry.config.notebooks` is git's clean filter (.gitattributes; `make setup` sets it up):
a saved notebook differs for git only where its cells or their outputs do. Git starts it once for
each notebook, so it imports neither nbformat nor torch.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from carry.config import paths

STAGES = "pipeline"  # the folder of notebooks that are stages
# In a file of JSON.
NAME = re.compile(r"""open_notebook\((?:\\"|')([^"'\\]+)|"# Stage `(\w+)`""")
WIDGET = "application/vnd.jupyter.widget-view+json"
# Without the version of Python, which differs between machines; nbconvert needs the rest.
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"file_extension": ".py", "name": "python", "nbconvert_exporter": "python"},
}


def find_notebooks(root: Path | None = None) -> dict[str, Path]:
    """Return the notebooks of the project by name, with their folder below notebooks/, if any.

    >>> [name for name in find_notebooks() if "/" not in name]
    ['index', 'overview', 'tour', 'try_your_own']
    """
    folder = (root or paths.ROOT) / "notebooks"
    # A dot begins the names of drafts that a refresh is writing.
    files = [*folder.glob("[!.]*.ipynb"), *folder.glob("[!.]*/[!.]*.ipynb")]
    names = {path.relative_to(folder).with_suffix("").as_posix(): path for path in sorted(files)}
    return {
        name: path
        for name, path in names.items()
        if path.is_file() and name in _read_names(path, path.stat().st_mtime_ns)
    }


@cache  # until the file is written again
def _read_names(path: Path, written: int) -> set[str]:
    """Return the names that a notebook says."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return {name or f"{STAGES}/{stage}" for name, stage in NAME.findall(text)}


def clean_notebook(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return a notebook without what editors add to it, and what differs between two runs.

    Cells keep their ids, tags, sources, attachments and outputs, but those of widgets. Cells that
    have run are counted from 1.

    >>> cell = {"cell_type": "code", "id": "a", "source": "1", "execution_count": 7}
    >>> cell |= {"outputs": [], "metadata": {"execution": {}, "tags": ["parameters"]}}
    >>> cells = clean_notebook({"cells": [cell], "metadata": {"widgets": {}}})["cells"]
    >>> cells[0]["metadata"], cells[0]["execution_count"]
    ({'tags': ['parameters']}, 1)
    """
    cells, count = [], 0
    for number, cell in enumerate(notebook["cells"], start=1):
        tags = cell["metadata"].get("tags")
        content = {key: cell[key] for key in ("cell_type", "source", "attachments") if key in cell}
        content |= {"id": cell.get("id", f"cell-{number}")}
        content |= {"metadata": {"tags": tags} if tags else {}}
        if cell["cell_type"] == "code":
            has_run = cell["execution_count"] is not None
            count += has_run
            content["execution_count"] = count if has_run else None
            content["outputs"] = _join_streams(
                {**output, "execution_count": count} if "execution_count" in output else output
                for output in cell["outputs"]
                if WIDGET not in output.get("data", {})
            )
        cells.append(content)
    return {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}


def _join_streams(outputs: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return outputs in which neighbouring texts are one: where a kernel cuts them is chance."""
    joined: list[dict[str, Any]] = []
    for output in outputs:
        if joined and output.get("name") and joined[-1].get("name") == output["name"]:
            texts = ["".join(each["text"]) for each in (joined.pop(), output)]
            output = {**output, "text": "".join(texts).splitlines(keepends=True)}
        joined.append(output)
    return joined


def clean_file(content: bytes) -> bytes:
    """Return the content of a notebook's file in the form of git; anything else as it is.

    >>> clean_file(b"<<<<<<< a conflict"), clean_file(b'{"cells": []}')[-26:]
    (b'<<<<<<< a conflict', b'4,\\n "nbformat_minor": 5\\n}\\n')
    """
    try:
        notebook = clean_notebook(json.loads(content))
        # As nbformat writes it.
        text = json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True)
        return f"{text}\n".encode()
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return content


if __name__ == "__main__":
    sys.stdout.buffer.write(clean_file(sys.stdin.buffer.read()))
