"""The index of the site's search: a script that names a list of questions, figures and claims."""

from __future__ import annotations

import json

from carry.pages.site.content import Content, name_anchor


def write_index(content: Content) -> str:
    """Return a script with an entry for each notebook, figure, item and claim.

    An entry has a `kind`, a `title`, a `text`, of which both are searched, and a `url` from the top
    of the site.
    """
    entries = [
        ("Notebook", page.title, page.group, f"notebooks/{page.name}.html")
        for page in content.pages
    ]
    for item in content.items.itertuples():
        text = "; ".join(filter(None, [item.title, item.stated]))
        place = f"works/{item.work}.html#{name_anchor(item.item)}"
        entries.append(("Item", name_item(item.work, item.item), text, place))
    for figure in content.figures.values():
        answers = [name_item(*answer) for answer in figure.answers]
        text = f"Answers {', '.join(answers)}. {figure.caption}" if answers else figure.caption
        entries.append(("Figure", figure.title, text, figure.url))
    for record in content.records:
        text = f"{record['seen']}; {record['paper']}, {record['section']}, {record['id']}"
        entries.append(("Claim", record["statement"], text, f"ledger.html#claim-{record['id']}"))
    names = ("kind", "title", "text", "url")
    lines = [
        json.dumps(dict(zip(names, entry, strict=True)), ensure_ascii=False) for entry in entries
    ]
    return "const searchIndex = [\n" + ",\n".join(lines) + "\n];\n"


def name_item(work: str, item: str) -> str:
    """Return the name of an item as a reader may write it.

    >>> name_item("mcleish2024", "Fig. 5")
    'Figure 5 of mcleish2024'
    """
    return f"{item.replace('Fig.', 'Figure')} of {work}"
