"""The live page computes in a browser what the models compute in Python."""

import copy
import json
import shutil

import jinja2
import pytest
import torch

from carry import formats
from carry.certificates.committed import TOLERANCE
from carry.config.settings import SettingsError
from carry.evaluation.trained_models import load_committed
from carry.pages import site
from carry.pages.site import live
from carry.randomness import stream
from test_site_browser import BROWSER, read_report

SUMS, PARITY = live.ROWS
PROBLEMS = {SUMS: [(980, 24), (20, 1_000)], PARITY: [(190, 24), (10, 300)]}  # counts and digits
PHONE = 390  # pixels

# Run by the page itself, in a frame as wide as a phone, after its own scripts.
PROBE = """
const errors = [], report = {}, get = (id) => document.getElementById(id);
addEventListener("error", ({ message }) => errors.push(message));
addEventListener("load", () => {
  report.models = models.map(({ model }, number) => ({
    answers: problems[number].map((operands) => {
      const text = new Sequence(model, operands), logits = [], met = [];
      while (!text.finished) {
        const step = text.step();
        logits.push(Array.from(step.logits, (x) => Number(x.toPrecision(12))));
        met.push(model.contexts.has(step.context));
      }
      return { response: text.response, ids: text.ids, logits, met: met.every(Boolean) };
    }),
    check: checkContexts(model),
  }));
  const read = () => ["written", "status", "choice", "met-count", "checked", "context"]
    .map((id) => get(id).textContent);
  get("finish").click();
  report.sum = read();
  report.rows = get("attention").rows.length;
  document.querySelectorAll("input[name=model]")[1].click();
  get("step").click();
  get("run").click();
  report.running = get("run").textContent;
  get("run").click();
  report.paused = read();
  get("check").click();
  report.parity = read();
  get("length").value = 1000;
  get("draw").click();
  get("finish").click();
  report.long = read();
  report.tokens = get("strip").children.length;
  get("operand-0").value = "12";
  get("operand-0").dispatchEvent(new Event("change"));
  report.refused = [get("status").textContent, get("operand-0").getAttribute("aria-invalid")];
  report.widths = [document.documentElement.scrollWidth, innerWidth];
  parent.postMessage({ ...report, errors }, "*");
});
"""
FRAME = """<pre id="report"></pre>
<script>onmessage = ({ data }) => { report.textContent = JSON.stringify(data); };</script>
<iframe src="probe.html" width="390" height="800" style="border: 0"></iframe>
"""


@pytest.fixture(scope="module")
def models():
    return {row: live.export_model(row) for row in live.ROWS}


@pytest.fixture(scope="module")
def systems():
    return {row: load_committed(row) for row in live.ROWS}


@pytest.fixture(scope="module")
def batches(systems):
    """Return problems of mixed lengths, in batches of similar ones."""
    return {
        row: [
            systems[row].task.draw(count, digits, stream(0, "live"))
            for count, digits in PROBLEMS[row]
        ]
        for row in live.ROWS
    }


def read_operands(problems):
    """Return the operands of problems as text, most significant digit first."""
    return [
        ["".join(map(str, digits[:length]))[::-1] for digits, length in zip(*numbers, strict=True)]
        for numbers in zip(problems.operands.tolist(), problems.lengths.tolist(), strict=True)
    ]


@pytest.fixture(scope="module")
def report(models, batches, tmp_path_factory):
    """Run the page in a browser once, and return what it says about itself."""
    if BROWSER is None:
        pytest.skip("no chromium here: the live page is not run")
    folder = tmp_path_factory.mktemp("live")
    templates = jinja2.Environment(loader=jinja2.FileSystemLoader(site.HERE), autoescape=True)
    page = templates.get_template("live.html").render(models=[*models.values()])
    problems = [sum(map(read_operands, batches[row]), []) for row in live.ROWS]
    probe = f"<script>const problems = {json.dumps(problems)};{PROBE}</script></head>"
    (folder / "probe.html").write_text(page.replace("</head>", probe))
    (folder / "frame.html").write_text(FRAME)
    for name in ("live.js", "live_page.js", "style.css"):
        shutil.copy(site.HERE / name, folder)
    return read_report(folder / "frame.html")


@pytest.mark.parametrize("row", live.ROWS)
def test_answers_ids_and_logits_are_those_of_python(row, report, systems, batches):
    system, answers = systems[row], iter(report["models"][live.ROWS.index(row)]["answers"])
    double = copy.deepcopy(system.network).double()
    for problems in batches[row]:
        batch = system.format.write(problems)
        index, target, real = batch.response()
        (ids,) = system.ids(batch)
        with torch.inference_mode():
            logits = system.logits(batch, [ids], index)
            exact = double(batch.tokens, [ids], index)
        for number, answer in zip(range(len(problems)), answers, strict=False):
            length = int(real[number].sum())
            written = logits[number, :length]
            assert answer["response"] == formats.to_text(written.argmax(1))
            assert answer["response"] == formats.to_text(target[number, :length]), "exact"
            assert answer["ids"] == ids[number, : int(batch.length[number])].tolist()
            found = torch.tensor(answer["logits"], dtype=torch.float64)
            torch.testing.assert_close(found, exact[number, :length], rtol=0, atol=1e-6)
            # Float32 itself is that far from double precision: logits reach 130.
            torch.testing.assert_close(found, written.double(), rtol=0, atol=5e-3)
            assert answer["met"], "a context that was not enumerated"
    assert next(answers, None) is None


@pytest.mark.parametrize("row", live.ROWS)
def test_every_enumerated_context_is_right_with_the_lead_of_the_certificate(row, report, models):
    check, certificate = report["models"][live.ROWS.index(row)]["check"], models[row]["certificate"]
    assert check["right"] == check["contexts"] == certificate["contexts"]
    assert check["leastLead"] == pytest.approx(certificate["least_lead"], rel=TOLERANCE)


def test_the_page_shows_what_is_written(report):
    assert report["errors"] == []
    written, status, choice, met, _, context = report["sum"]
    assert written.startswith("^356+94=207$") and "702" in written
    assert status == "Done: all 4 tokens are right."
    assert choice.startswith("$ with probability") and report["rows"] == 3, "^, 6 and 7"
    assert met == "4 of 11,124" and "Then $ is right" in context
    assert report["running"] == "Pause"
    assert report["paused"][:2] == ["^1101=1", "Paused after 1 tokens."]
    assert report["parity"][4].startswith("Right in 14 of 14 contexts")
    assert report["long"][1] == "Done: all 1,001 tokens are right."
    assert report["tokens"] < 30, "a part of the strip"
    assert report["refused"] == ["Bits: expected 1 to 100,000 digits from 0 to 1.", "true"]


def test_a_phone_needs_no_horizontal_scroll(report):
    content, screen = report["widths"]
    assert content <= screen == PHONE


@pytest.mark.parametrize("row", live.ROWS)
def test_weights_are_exact_and_contexts_distinct(row, models, systems):
    model, network = models[row], systems[row].network
    for name, weights in network.state_dict().items():
        if name in model["weights"]:
            assert torch.tensor(model["weights"][name]).equal(weights)
    assert len(model["weights"]) == len(network.state_dict())
    texts = " ".join(group["contexts"] for group in model["groups"]).split(" ")
    assert len({text[:-1] for text in texts}) == len(texts) == model["certificate"]["contexts"]


def test_a_certificate_of_other_weights_is_refused(monkeypatch):
    def read(path):
        certificate = known(path)
        certificate["seeds"][0]["weights"] = "0" * 64
        return certificate

    known = live.read_certificate
    monkeypatch.setattr(live, "read_certificate", read)
    with pytest.raises(SettingsError, match=f"the certificate of {PARITY} is of other weights"):
        live.export_model(PARITY)
