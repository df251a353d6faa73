"""The site in a browser: no error, no horizontal scroll on a phone, filters, sorting and search."""

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from carry import claims
from carry.pages import site
from made_up_site import make_project

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
AXE = os.environ.get("CARRY_AXE")  # a file axe.min.js: checks of accessibility beyond ours
PHONE, SCREEN = 390, 1440  # pixels
PAGES = (
    "index.html",
    "works/mcleish2024.html",
    "figures.html",
    "ledger.html",
    "live.html",
    "notebooks/how_far.html",
    "notebooks/train_addition_schemes.html",
)
PLACES = [*((name, PHONE) for name in PAGES), ("index.html", SCREEN)]

# Run by each page itself, in a frame, after its own scripts.
PROBE = """
{
  const errors = [], key = window.name; // the frame's
  addEventListener("error", (event) => errors.push(event.message ?? event.target.src), true);
  addEventListener("unhandledrejection", ({ reason }) => errors.push(String(reason)));
  const known = console.error;
  console.error = (...parts) => { errors.push(parts.join(" ")); known(...parts); };
  const press = (key, target = document.activeElement) =>
    target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  const write = (id, text) => {
    const field = document.getElementById(id);
    field.value = text;
    field.dispatchEvent(new Event("input", { bubbles: true }));
  };
  const wait = () => new Promise((done) => setTimeout(done, 20));
  const focused = () => document.activeElement.id || document.activeElement.textContent;

  function measure() {
    const boxes = [...document.querySelectorAll("main *")].filter((box) =>
      box.scrollWidth > box.clientWidth + 1 && box.clientWidth &&
      /auto|scroll/.test(getComputedStyle(box).overflowX));
    return {
      widths: [document.documentElement.scrollWidth, innerWidth],
      unreachable: boxes.filter((box) => box.tabIndex < 0).map((box) => box.outerHTML.slice(0, 99)),
    };
  }

  async function search() {
    const report = {};
    press("/", document.body);
    report.focus = focused();
    write("query", "figure 2 of McLeish");
    const links = [...document.querySelectorAll("#results a")];
    report.results = links.map((link) => link.textContent);
    report.place = links[0]?.href;
    const { left, right } = document.getElementById("results").getBoundingClientRect();
    report.inside = left >= 0 && right <= innerWidth;
    press("ArrowDown");
    report.first = focused();
    press("ArrowUp");
    report.back = focused();
    addEventListener("click", (event) => {
      report.opened = event.target.closest("a")?.href;
      event.preventDefault();
    }, { once: true });
    document.getElementById("search").requestSubmit();
    write("query", "zzz");
    report.nothing = document.getElementById("found").textContent;
    write("query", "sums");
    press("Escape");
    report.closed = document.getElementById("results").hidden;
    return report;
  }

  const readLedger = () => ({
    shown: [...document.querySelectorAll("#claims tbody tr:not([hidden])")].map((row) => row.id),
    count: document.getElementById("count").textContent,
    hash: location.hash,
    sorted: [...document.querySelectorAll("#claims th")].map((head) => head.ariaSort ?? ""),
  });

  async function filter() {
    const report = { start: readLedger() };
    write("work", "cho2025");
    write("seen", "same");
    report.filtered = readLedger();
    write("text", "PRODUCTS nope");
    report.text = readLedger();
    document.querySelector("#filters button").click();
    await wait();
    report.all = readLedger();
    const [button] = document.querySelectorAll("th[data-key=ours] button");
    button.click();
    report.up = readLedger();
    button.click();
    report.down = readLedger();
    button.click();
    report.unsorted = readLedger();
    location.hash = "#work=carry&sort=n&order=down";
    await wait();
    report.address = readLedger();
    location.hash = "#claim-coupled_20_digits";
    await wait();
    report.claim = [document.querySelector(":target").id, document.querySelector(":target").hidden];
    return report;
  }

  addEventListener("load", async () => {
    await wait();
    const [name] = key.split(" "), report = { key, ...measure() };
    try {
      if (name === "index.html") report.search = await search();
      if (name === "ledger.html") report.ledger = await filter();
    } catch (error) {
      errors.push(error.stack);
    }
    if (globalThis.axe) {
      const { violations } = await axe.run(document, { resultTypes: ["violations"] });
      report.violations = violations.map(({ id, impact, nodes }) =>
        [impact, id, nodes.length, nodes[0].html.slice(0, 200)]);
    }
    parent.postMessage({ ...report, errors }, "*");
  });
}
"""
FRAME = """<!doctype html><pre id="report"></pre><script>
const reports = {};
onmessage = ({ data }) => {
  reports[data.key] = data;
  if (Object.keys(reports).length === COUNT)
    document.getElementById("report").textContent = JSON.stringify(reports);
};
</script>
"""


def read_report(page: Path, *options):
    """Load a page, and return what it writes into its element `report`."""
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom", *options,
               "--virtual-time-budget=20000", "--window-size=1600,900",
               f"--user-data-dir={page.parent.parent / 'browser'}"]  # fmt: skip
    done = subprocess.run(
        [BROWSER, *options, page.as_uri()], capture_output=True, text=True, timeout=300
    )
    found = re.search(r'<pre id="report">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found and found[1], done.stderr[-2000:]
    return json.loads(html.unescape(found[1]))


def browse(folder: Path, pages, script="", dark=False):
    """Load pages of a site at some widths, and return what the probe says of each."""
    for name in {name for name, _ in pages}:
        text = (folder / name).read_text(encoding="utf-8")
        probe = f"<script>{PROBE}</script>{script}</head>"
        path = folder / name
        path.with_stem(f"{path.stem}_probe").write_text(text.replace("</head>", probe, 1))
    frames = [
        f'<iframe src="{name.replace(".html", "_probe.html")}" name="{name} {width}" '
        f'width="{width}" height="800"></iframe>'
        for name, width in pages
    ]
    frame = folder / "frame.html"
    frame.write_text(FRAME.replace("COUNT", str(len(pages))) + "\n".join(frames))
    reports = read_report(frame, *["--blink-settings=preferredColorScheme=0"] * dark)
    return {(name, width): reports[f"{name} {width}"] for name, width in pages}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    if BROWSER is None:
        pytest.skip("no chromium here: the site is not shown")
    with pytest.MonkeyPatch.context() as patch:
        make_project(tmp_path_factory.mktemp("project"), patch)
        written = site.write_site().parent
        yield shutil.copytree(written, tmp_path_factory.mktemp("site") / "site")


@pytest.fixture(scope="module")
def reports(folder):
    return browse(folder, PLACES)


@pytest.mark.parametrize("place", PLACES)
def test_a_page_has_no_error_and_no_horizontal_scroll(place, reports):
    report = reports[place]
    assert report["errors"] == []
    content, screen = report["widths"]
    assert content <= screen == place[1]
    assert report["unreachable"] == [], "boxes that scroll, but not by keys"


def test_search_is_used_by_keys_alone(reports):
    assert reports["index.html", PHONE]["search"]["inside"]
    found = reports["index.html", SCREEN]["search"]
    assert found["inside"] and found["focus"] == "query" == found["back"]
    assert found["results"][0].startswith("Figure 2 of mcleish2024")
    assert found["place"].endswith("works/mcleish2024.html#fig-2")
    assert found["first"] == found["results"][0] and found["opened"] == found["place"]
    assert found["nothing"] == "0 results" and found["closed"]


def test_the_ledger_is_filtered_and_sorted_and_keeps_its_state_in_the_address(reports):
    found = reports["ledger.html", PHONE]["ledger"]
    every = [f"claim-{claim.id}" for claim in claims.load_claims()]
    assert found["start"]["shown"] == found["all"]["shown"] == found["unsorted"]["shown"] == every
    assert found["start"]["hash"] == "" and found["all"]["hash"] in ("", "#")
    filtered = found["filtered"]
    assert filtered["hash"] == "#work=cho2025&seen=same"
    assert filtered["count"] == f"{len(filtered['shown'])} of {len(every)} claims"
    assert 0 < len(filtered["shown"]) < 33 and set(filtered["shown"]) < set(every)
    assert len(found["text"]["shown"]) <= 2 and "multiplication" in "".join(found["text"]["shown"])
    up, down = found["up"], found["down"]
    assert up["hash"] == "#sort=ours" and down["hash"] == "#sort=ours&order=down"
    assert up["sorted"][4] == "ascending" and down["sorted"][4] == "descending"
    measured = [index for index in range(len(every)) if index % 3]  # see `make_record`
    assert down["shown"][: len(measured)] == [every[index] for index in measured]
    assert up["shown"][: len(measured)] == down["shown"][: len(measured)][::-1]
    assert {*up["shown"][len(measured) :]} == {every[index] for index in range(0, len(every), 3)}
    own = {f"claim-{claim.id}" for claim in claims.load_claims() if claim.paper == "carry"}
    assert {*found["address"]["shown"]} == own and found["address"]["sorted"][5] == "descending"
    assert found["claim"] == ["claim-coupled_20_digits", False]


@pytest.mark.skipif(not AXE, reason="CARRY_AXE names no axe.min.js")
@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_serious(folder, dark):
    shutil.copy(AXE, folder / "axe.min.js")
    script = f"<script src='{(folder / 'axe.min.js').as_uri()}'></script>"
    found = browse(folder, PLACES, script, dark)
    faults = {place: report["violations"] for place, report in found.items()}
    for place, violations in faults.items():
        assert not [one for one in violations if one[0] in ("serious", "critical")], place
