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

NUMBERS = ("abc", "-5", "", " ", "12.5", "1e3", "1" * 100_001)
COUNTS = ("abc", "0", "-3", "", "1.5", "100001")
REFUSED = [  # number of the model, field, values
    (0, "operand-0", NUMBERS),
    (0, "operand-1", NUMBERS),
    (1, "operand-0", (*NUMBERS, "12")),
    *((number, "length", COUNTS) for number in range(2)),
    *((number, "speed", ("fast",)) for number in range(2)),
    *((number, "number", COUNTS) for number in range(2)),
]
NAMES = {"length": "Digits to draw", "speed": "Speed", "number": "Context number"}
START = f"#model={SUMS}&a=653&b=49"
ADDRESSES = {  # what is written then, and a part of the status; the first example if refused
    f"{START}&step=4": ("^356+94=207$", "Done: all 4 tokens"),
    f"{START}&step=0": ("^356+94=", ""),
    f"#model={PARITY}&a=1011&step=2": ("^1101=10", ""),
    f"#model={SUMS}&a=1,000&b=1&step=2": ("^0001+1=10", ""),
    "#model=x&a=653&b=49&step=2": ("", f"model 'x'; expected {SUMS} or {PARITY}."),
    f"#model={SUMS}&a=abc&b=49": ("", "First number: 'abc'; expected 1 to 100,000 digits"),
    f"#model={PARITY}&a=12": ("", "Bits: '12'; expected 1 to 100,000 digits from 0 to 1."),
    f"#model={PARITY}&a=1&b=1": ("", "'b'; expected model, a, step."),
    f"{START}&step=5": ("", "step '5'; expected a whole number from 0 to 4."),
    f"{START}&step=-1": ("", "step '-1'; expected a whole number from 0 to 4."),
    f"{START}&step=": ("", "step ''; expected a whole number from 0 to 4."),
    f"{START}&stop=1": ("", "'stop'; expected model, a, b, step."),
    f"#model={SUMS}&a={'1' * 100_000}": (
        "",
        "(100,000 characters); expected at most 1,000 digits.",
    ),
}

# Run by the page itself, in a frame as wide as a phone, after its own scripts.
PROBE = """
const errors = [], report = {}, get = (id) => document.getElementById(id);
addEventListener("error", ({ message }) => errors.push(message));
const wait = () => new Promise((done) => setTimeout(done, 20));
const type = (id, text) => {
  get(id).value = text;
  get(id).dispatchEvent(new Event("input", { bubbles: true }));
};
const look = (id) => ({
  status: get(id === "number" ? "context" : "status").textContent,
  written: get("written").textContent,
  step: get("choice").textContent,
  drawn: get("strip").children.length + get("attention").children.length,
  invalid: get(id).getAttribute("aria-invalid"),
  run: get("run").textContent,
  hash: location.hash,
});

/* Refuse each value of each field: what the page shows then, after each button, and mended. */
function refuse() {
  const found = [];
  for (const [number, field, values] of refused)
    for (const value of values) {
      document.querySelectorAll("input[name=model]")[number].click();
      const good = get(field).value;
      get("finish").click();
      const before = look(field);
      type(field, value);
      const typed = look(field), pressed = {};
      if (field !== "number")
        for (const button of ["step", "run", "finish", "restart", "draw"]) {
          const kept = field.startsWith("operand") && button === "draw"; // it draws a valid one
          if (kept) continue;
          get(button).click();
          pressed[button] = look(field);
        }
      type(field, good);
      found.push({ number, field, value, before, typed, pressed, mended: look(field) });
    }
  return found;
}

/* Lead the page to some addresses, and back to the first of them: what it shows. */
async function follow() {
  const found = { back: [] };
  for (const address of addresses) {
    location.hash = address;
    await wait();
    found[address] = look("operand-0");
    location.hash = addresses[0];
    await wait();
    found.back.push(look("operand-0").written);
  }
  return found;
}

addEventListener("load", async () => {
  report.opened = look("operand-0");
  get("step").click();
  report.moved = location.hash;
  location.hash = "#main";
  await wait();
  report.place = look("operand-0");
  report.addresses = await follow();
  for (const number of [1, 0]) document.querySelectorAll("input[name=model]")[number].click();
  report.chosen = look("operand-0");
  get("step").click();
  get("step").click();
  report.stepped = location.hash;
  type("operand-1", "1,0 0_0");
  report.pasted = look("operand-1");
  type("length", "1,001");
  get("draw").click();
  report.large = [get("operand-0").value.length, location.hash, get("linked").textContent];
  type("length", "1000");
  report.refusals = refuse();
  document.querySelectorAll("input[name=model]")[0].click();
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
  report.widths = [document.documentElement.scrollWidth, innerWidth];
  parent.postMessage({ ...report, errors }, "*");
});
"""
FRAME = """<pre id="report"></pre>
<script>onmessage = ({ data }) => { report.textContent = JSON.stringify(data); };</script>
<iframe src="probe.html#model=parity_relative_scratchpad&a=110&step=1"
 width="390" height="800" style="border: 0"></iframe>
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
    given = {"problems": problems, "refused": REFUSED, "addresses": [*ADDRESSES]}
    constants = "".join(f"const {name} = {json.dumps(value)};" for name, value in given.items())
    probe = f"<script>{constants}{PROBE}</script></head>"
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


@pytest.mark.parametrize(("number", "field", "values"), REFUSED)
def test_a_refused_input_leaves_no_answer_and_no_button_writes(number, field, values, report):
    found = [one for one in report["refusals"] if (one["number"], one["field"]) == (number, field)]
    assert [one["value"] for one in found] == [*values]
    for one in found:
        name = (
            NAMES.get(field)
            or [["First number", "Second number"], ["Bits"]][number][int(field[-1])]
        )
        shown = "" if field == "speed" else one["value"][:30]  # a list holds no other value
        assert one["before"]["invalid"] == "false" and "$" in one["before"]["written"]
        for state in (one["typed"], *one["pressed"].values()):
            assert state["status"].startswith(f"{name}: '{shown}"), state
            assert "; expected " in state["status"] and state["invalid"] == "true"
            if field != "number":  # the answer above does not depend on it
                assert state["written"] == "" and state["drawn"] == 0 and state["run"] == "Run"
                assert state["step"].startswith("Nothing is written")
                assert state["hash"] == f"#model={live.ROWS[number]}", (
                    "no old answer in the address"
                )
        assert len(one["pressed"]) == (0 if field == "number" else 4 if field[:2] == "op" else 5)
        assert one["mended"]["invalid"] == "false" and "expected" not in one["mended"]["status"]
        assert one["mended"]["written"] != ""


def test_thousands_may_be_marked(report):
    assert report["pasted"]["invalid"] == "false"
    assert report["pasted"]["written"] == "^356+0001="
    assert report["pasted"]["hash"] == f"#model={SUMS}&a=653&b=1000&step=0"


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_is_shown_or_refused(address, report):
    found, (written, status) = report["addresses"][address], ADDRESSES[address]
    assert found["written"].startswith(written or "^356+94=20")
    assert status in found["status"]
    assert found["status"].startswith("Address: ") == (not written)
    assert found["invalid"] == "false"
    assert {*report["addresses"]["back"]} == {
        "^356+94=207$The sum, most significant digit first: 702."
    }


def test_the_address_says_what_is_shown(report):
    assert report["opened"]["written"] == "^011=0" and report["moved"] == (
        f"#model={PARITY}&a=110&step=2"
    )
    assert report["place"]["written"] == "^011=01", "a place on the page is no address of a state"
    assert report["chosen"]["hash"] == f"{START}&step=0"
    assert report["stepped"] == f"{START}&step=2"
    length, address, note = report["large"]
    assert length == 1_001 and address == f"#model={SUMS}"
    assert note == "The address of this page has no room for numbers of more than 1,000 digits."


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
