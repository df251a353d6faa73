"""A project folder made up for tests of the site: small notebooks, figures, claims and a story."""

import json
from functools import cache, partial

import nbformat
import pandas as pd
import ruamel.yaml

from carry import claims, results
from carry.claims import verdicts
from carry.config import paths
from carry.pages import readme
from carry.pages.items import load_items
from carry.pages.site import content, live, works
from made_up import results as write_results

ROWS = ["addition_nope", "addition_coupled_short", "addition_relative"]
STAGES = ["claims", "evaluate/addition_schemes", "problems", "train/addition_schemes"]
FIGURES = {  # by notebook: name, answers; those of the last have no results
    "overview": {"ids": [], "lengths": ["mcleish2024 Fig. 2"]},
    "mcleish2024/how_far": {"far": ["Fig. 2"], "wide": ["Fig. 3", "cho2025 Table 1"]},
    "cho2025/does_it_help": {"steps": ["Table 1"]},
    "fraknoi2024/is_one_enough": {"heads": ["Section 4"]},
    "ibrahimli2024/what_fails": {"spelling": ["Fig. 4.1"]},
    "every_length/is_it_proved": {"unseen": []},
}
ITEMS = {
    "mcleish2024": [
        {
            "item": "Fig. 2",
            "section": "3.1",
            "title": "Accuracy",
            "stated": "99.1%",
            "scale": "tiny",
        },
        {"item": "Fig. 3", "section": "3.2", "title": "Loops", "reason": "needs <more>"},
        {"item": "Table 4", "section": "A.7", "title": "Hours", "reason": "a GPU"},
        {"item": "Table 5", "section": "A.7", "title": "Sizes", "reason": "settings"},
    ],
    "cho2025": [
        {"item": "Table 1", "section": "B", "title": "Sums", "notebook": "cho2025/does_it_help"}
    ],
    "fraknoi2024": [{"item": "Section 4", "section": "4", "title": "Heads"}],
    "ibrahimli2024": [{"item": "Fig. 4.1", "section": "4", "title": "Formats"}],
}
STORY = {
    "title": "A story",
    "lead": ["It has a beginning."],
    "chapters": [
        {
            "question": "Where do digits stand?",
            "figure": "ids",
            "text": ["All begins here.", 'NoPE: {{ number("addition_nope", "twice as long") }}.'],
            "claims": ["abacus_ahead_of_nope"],
            "table": "footing",
        },
        {
            "question": "Does it end?",
            "figure": "unseen",
            "text": ['At {{ trained("addition_relative") }} digits?'],
            "claims": ["certified_addition"],
        },
    ],
    "tables": {"footing": {"title": "Schemes", "texts": 3, "note": "All."}},
    "works": {key: {"label": key, "about": f"On {key}."} for key in works.read_works()}
    | {works.OWN: {"label": "Ours", "about": "On ours.", "title": "Every length"}},
}
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="{}pt" height="216pt"></svg>'
PNG = (  # one pixel
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)


def make_record(number, claim):
    """Return a record of the ledger, as `claims.judge_claims` makes it; every third is not run."""
    seeds = number % 7
    record = verdicts.create_record(claim)
    record |= {"row": "addition_nope", "seeds": seeds, "sides": [seeds], "comparable": ""}
    if number % 3 == 0:
        return record | {"reason": "needs a GPU"}
    measured = round(0.9 - number / 1000, 3)
    found = {"measured": measured, "interval": [measured - 0.1, measured + 0.1], "n": 10 * number}
    found |= {"values": [measured], "statistic": "mean_over_seeds", "comparable": "as in the work"}
    return record | found | {"seen": ("opposite", "same")[number % 2]}


def write_notebook(path, question, figures=()):
    """Write an executed notebook that shows figures; that of `unseen` is not drawn."""
    new = nbformat.v4
    text = f"# {question}\n\n[train](train.ipynb) [far](../README.md) [out](https://example.org)"
    printed = [
        new.new_output("stream", name="stdout", text="42\n"),
        new.new_output("display_data", data={"text/html": "<table><tr><td>1</td></tr></table>"}),
        new.new_output("display_data", data={"image/png": PNG}),
    ]
    name = path.with_suffix("").as_posix().rpartition("/notebooks/")[2]
    cells = [
        new.new_markdown_cell(text),
        new.new_code_cell(f'plots.open_notebook("{name}")\nprint(6 * 7)', outputs=printed),
    ]
    for name in figures:
        parts = [{"image/png": PNG}, {"text/markdown": caption(name)}]
        outputs = [
            new.new_output("display_data", data=data, metadata={"figure": name}) for data in parts
        ]
        source = f'notebook.show(figure, "{name}", table, title="{title(name)}")'
        cells.append(new.new_code_cell(source, outputs=outputs if name != "unseen" else []))
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(new.new_notebook(cells=cells), path)


def title(name):
    return f"The {name}"


def caption(name):
    return f"Sums, with {name} < 3 in `code`."


def write_figures(notebook, figures):
    """Write the files of figures as a notebook does."""
    folder = paths.figures_folder(notebook)
    folder.mkdir(parents=True, exist_ok=True)
    for number, (name, answers) in enumerate(figures.items(), start=1):
        entry = {"notebook": notebook, "number": number, "name": name, "title": title(name)}
        entry |= {"caption": caption(name), "answers": answers}
        (folder / f"{name}.json").write_text(json.dumps(entry))
        if name != "unseen":
            (folder / f"{name}.svg").write_text(SVG.format(864 if name == "wide" else 288))
            lines = 9_000 if name == "far" else 2
            table = pd.DataFrame({"row": ["addition_nope"] * lines, "accuracy": 0.98765})
            table.to_parquet(folder / f"{name}.parquet")


def make_project(root, patch):
    """Make a project folder with all that the site is made from, and results of three rows."""
    runs = results.read_table("runs")
    models = {row: live.export_model(row) for row in live.ROWS}
    patch.setattr(live, "export_model", models.get)
    patch.setattr(results, "read_runs", cache(results.read_runs.__wrapped__))
    patch.setattr(paths, "ROOT", root)
    patch.setattr(paths, "REPORTS", root / "reports")
    for name, values in {"items": ITEMS, "story": STORY}.items():
        with (root / f"{name}.yaml").open("w", encoding="utf-8") as file:
            ruamel.yaml.YAML().dump(values, file)
    for module in (content, readme):
        patch.setattr(module, "load_items", partial(load_items, root / "items.yaml"))
    patch.setattr(content, "STORY", root / "story.yaml")
    write_results(root, ROWS)
    runs[runs["row"].isin(ROWS)].to_parquet(paths.results_folder("addition_schemes/runs.parquet"))
    notebooks = root / "notebooks"
    write_notebook(notebooks / "tour.ipynb", "Is it a tour?")
    write_notebook(notebooks / "index.ipynb", "Which?")
    for notebook, figures in FIGURES.items():
        question = f"What is {notebook.rpartition('/')[2]}?"
        write_notebook(notebooks / f"{notebook}.ipynb", question, figures)
        if notebook != "fraknoi2024/is_one_enough":  # it has not run here
            write_notebook(paths.executed_file(notebook), question, figures)
        write_figures(notebook, figures)
    for stage in [*STAGES, "train/parity.failed"]:
        write_notebook(root / "data" / "executed" / "pipeline" / f"{stage}.ipynb", stage)
    records = [make_record(number, claim) for number, claim in enumerate(claims.load_claims())]
    (paths.REPORTS / "claims.json").write_text(json.dumps(records))
    readme.write_numbers(paths.REPORTS)
    return root
