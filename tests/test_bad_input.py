"""What a reader writes wrong in params.yaml gets one line, with the nearest name, before any work.

`dvc exp run -S` writes to params.yaml too. For the command line see test_cli.py.
"""

import re

import pytest

from carry.config import params
from carry.config.settings import SettingsError
from carry.config.yaml_files import read_yaml
from carry.experiments import resolve
from carry.experiments.base import row
from carry.runs import run

ROWS = [row("mine", "tests", smoke={}), row("yours", "tests"), row("theirs", "others", paper={})]

# Settings of a row under `override`, and below them parts of the line, in order.
SETTINGS = """
trainning: {}
    mine.trainning: unknown setting, did you mean 'training'
task: {name: additon}
    mine.task.name: 'additon' is unknown, did you mean 'addition'
task: {samplng: equal}
    task.samplng: unknown setting, did you mean 'sampling'
task: {sampling: equl}
    task.sampling: 'equl' is not a choice, did you mean 'equal'
format: {name: expresion}
    format.name: 'expresion' is unknown, did you mean 'expression'
format: {padd: true}
    format.padd: unknown setting, did you mean 'pad'
positions: [{ids: abcus, encoding: rope}]
    positions.0.ids: 'abcus' is unknown, did you mean 'abacus'
positions: [{ids: index, encoding: ropes}]
    positions.0.encoding: 'ropes' is unknown, did you mean 'rope'
positions: [{ids: abacus, encoding: learned, ofset: 5}]
    positions.0.ofset: unknown setting, did you mean 'offset'
model: {name: transfomer}
    model.name: 'transfomer' is unknown, did you mean 'transformer'
model: {layer: 2}
    model.layer: unknown setting, did you mean 'layers'
training: {stpes: 10}
    training.stpes: unknown setting, did you mean 'steps'
training: {optimizer: adam}
    training.optimizer: 'adam' is not a choice, did you mean 'adamw'
training: {problem_set: 1-3_digits, examples: 9}
    training.problem_set: '1-3_digits' is unknown, did you mean '1-3_digit'
evaluation: {problem_set: additoin}
    evaluation.problem_set: 'additoin' is unknown, did you mean 'addition'
analyses: [lerning]
    unknown analysis 'lerning', did you mean 'learning'
scale: gpu
    mine.scale: is no setting; expected none

training: {steps: 0}
    training.steps: 0 does not fit, expected greater than or equal to 1
training: {steps: 2024-01-01}
    training.steps: datetime.date(2024, 1, 1) does not fit, expected integer
training: {learning_rate: .inf}
    training.learning_rate: inf does not fit, expected a finite number
training: {betas: [0.9, 1.0]}
    training.betas.1: 1.0 does not fit, expected less than 1
training: {betas: [0.9, 0.9, 0.9]}
    training.betas: [0.9, 0.9, 0.9] does not fit, expected a list with at most 2 items
training: 3
    mine.training: 3 is not valid; expected a mapping
model: {width: '128'}
    model.width: '128' does not fit, expected integer
model: null
    mine.model: None does not fit, expected dictionary
format: {pad: 'yes'}
    format.pad: 'yes' does not fit, expected boolean or 'answer'
format: {name: sub_task}
    format.prefix: missing; expected a value
positions: {ids: index}
    mine.positions: {'ids': 'index'} does not fit, expected list
positions: [{ids: index}]
    positions.0.encoding: missing; expected a name
positions: [{ids: randomized, encoding: fire}]
    positions.0.range: missing; expected a value
positions: [{ids: abacus, encoding: relative, window: [0, 9000000000000]}]
    positions.0.window: 9000000000000 is too large; expected at most 1000000000
training: {steps: 9000000000}
    training.steps: 9000000000 does not fit, expected less than or equal to 100000000
evaluation: {starts: [centre]}
    evaluation.starts.0: 'centre' does not fit, expected integer or 'all' or 'window'
evaluation: {reach: [[0, 0, 0]]}
    evaluation.reach.0.0: 0 does not fit, expected greater than or equal to 1

task: {name: noisy_majority}, training: {batched_seeds: true, examples: 9}
    training: optimizer 'muon' does not fit batched_seeds true; expected 'adamw'

positions: [{ids: randomized, encoding: fire, range: 50}]
    positions.0: a problem of 30 digits from id 1 needs id 94, past the largest, 50; expected a
positions: [{ids: abacus, encoding: learned, offset: 5, limit: 60}]
    positions.0: offset 5 does not fit limit 60; expected one of them
positions: [{ids: abacus, encoding: learned, offset: 80, table: 60}]
    positions.0.table: 60 is too small, training to 10 digits shows id 90; expected at least 90
positions: [{ids: index, encoding: learned, table: 20}]
    positions.0.table: 20 is too small, training to 10 digits shows id 34; expected at least 34
positions: [{ids: index, encoding: learned, table: 50}], training: {random_padding: 0.2}
    positions.0.table: 50 is too small ... expected at least 69
positions: [{ids: coupled, encoding: learned, limit: 35}], evaluation: {starts: [9]}
    positions.0: a problem of 30 digits from id 9 needs id 40, past the largest, 35; expected
positions: [{ids: coupled, encoding: learned, limit: 35, even: true, ring: true}]
    positions.0: even true does not fit ring true, whose starts are uniform; expected one of them
positions: [{ids: coupled, encoding: learned, limit: 35}], format: {reverse_answer: false}
    positions.0.ids: 'coupled' does not fit a format with reverse_answer: false and pad: false
positions: [{ids: coupled, encoding: learned, level: 2, limit: 35}]
    positions.0.ids: level 2 is missing; expected at most 1, as in the format
positions: [{ids: coupled, encoding: rope, limit: 60, ring: true, window: 1}]
    positions.0.window: [1, 1] does not fit ids 'coupled' ... expected 'index', 'coupled' without
positions: [{ids: coupled, encoding: fire}]
    positions.0.encoding: Fire needs ids that grow from left to right ... expected ids 'index'
positions: [{ids: index, encoding: rope}], model: {head_width: 7}
    positions.0: a head_width of 7 does not fit RoPE, expected an even one

model: {width: 30}
    model: width 30 with heads 4 does not fit, expected a multiple of heads
model: {norm: none, embedding_norm: true}
    model: embedding_norm true does not fit norm 'none', expected 'layer'
model: {norm: none, norm_epsilon: 0.001}
    model: norm_epsilon 0.001 does not fit norm 'none', expected None
format: {pad: answer, pad_to: 40}
    format: pad_to 40 does not fit pad answer; expected one of them
format: {pad_to: 12}
    format.pad_to: 12 is too short, operands have up to 30 digits; expected at least 30
format: {spaces: 0.5, hints: cyclic}
    format: spaces 0.5 do not fit hints 'cyclic'; expected one of them
format: {hints: cyclic}, evaluation: {far: [150]}
    format.hints: 151 places of a number do not fit 102 letters; expected fewer digits
format: {name: sub_task, prefix: car}, task: {name: multiplication}
    format: 'sub_task' does not write Multiplication; expected task 'addition'
format: {name: worded}, task: {name: multi_operand_addition}
    format: 'worded' does not write MultiOperandAddition; expected task 'addition'
task: {name: sorting}
    format: 'expression' writes numbers, and the answer is no number; expected 'labelled'
task: {name: sorting}, format: {name: labelled}, evaluation: {digits: 60}
    format: a list of 60 numbers does not fit; expected at most 52
task: {name: parity}, format: {name: scratchpad, from_zero: false}
    format: from_zero false does not fit a task without sums; expected true
task: {name: multiplication}, format: {name: scratchpad}, evaluation: {digits: 501}
    format: the steps of 501 digits are too long; expected at most 500
task: {name: multi_operand_addition}, training: {digits: 1}
    digits: 1 does not fit, sizes up to it leave 1 operand; expected at least 2

training: {problem_set: 1-3_digit, examples: 200, digits: 3}, task: {name: multiplication}
    evaluation.problem_set: '1-3_digit' has problems of 'addition' with radix 10, expected
training: {problem_set: 1-3_digit, examples: 200, digits: 3}, evaluation: {problem_set: addition}
    evaluation.problem_set: 'addition' may contain trained problems; expected '1-3_digit'
training: {problem_set: 1-3_digit, examples: 200}
    training.digits: 10 does not fit '1-3_digit', whose longest trained numbers have 3; expected 3
training: {problem_set: 1-3_digit, examples: 10001, digits: 3}
    training.examples: 10001 problems are too many for lengths [1, 2, 3]; expected at most 10000
training: {problem_set: 1-3_digit, digits: 3}
    training: examples None does not fit problem_set '1-3_digit'; expected a number
training: {problem_set: addition, examples: 9}
    training.problem_set: 'addition' has no lengths to train; expected the name of a set with
training: {problem_set: generalize_to_longer_mini_multitask, examples: 200, digits: 9}
    format: 'expression' writes no prefix ... expected a format of sub-tasks
task: {radix: 16}
    evaluation.problem_set: 'addition' has problems of 'addition' with radix 10, expected
task: {name: multi_operand_addition}, training: {digits: 3}, evaluation: {far: [[5, 1]]}
    evaluation.far: (5, 1) is too small, expected at least (1, 2)
analyses: [heads]
    'heads' does not fit task 'addition'; expected 'noisy_majority'
certify: true, model: {layers: 1}
    mine.positions
certify: true
    model.layers: 2 has no certificate; expected 1
"""

# The rest of params.yaml.
PARAMS = """
train: {test: all}
    params.yaml.train: 'test' is unknown, did you mean 'tests'
train: {tests: [mein]}
    params.yaml.train.tests: 'mein' is unknown, did you mean 'mine'
train: {tests: [theirs]}
    params.yaml.train.tests: 'theirs' is unknown, expected one of mine, yours
train: {tests: some}
    params.yaml.train.tests: 'some' does not fit, expected 'all' or list
train: {}
    params.yaml.train: {} does not fit, expected a dictionary with at least 1 item
train: {others: all}, scale: smoke
    params.yaml.train.others: no row has the scale 'smoke'; expected one of laptop, paper
override: {mien: {}}
    override: 'mien' is unknown, did you mean 'mine'
train: {tests: [mine]}, override: {theirs: {training: {stpes: 1}}}
    runs.theirs.training.stpes: unknown setting, did you mean 'steps'
train: {tests: [mine]}, override: {theirs: {model: {width: wide}}}
    runs.theirs.model.width: 'wide' does not fit, expected integer
override: {mine: 3}
    params.yaml.override.mine: 3 does not fit, expected dictionary
scale: smok
    params.yaml.scale: 'smok' is not a choice, did you mean 'smoke'
scale: null
    params.yaml.scale: None is not a choice, expected one of
seeds: 0
    params.yaml.seeds: 0 does not fit, expected greater than or equal to 1
seeds: many
    params.yaml.seeds: 'many' does not fit, expected integer
sclae: smoke
    params.yaml.sclae: unknown setting, did you mean 'scale'
scale: smoke, scale: gpu
    params.yaml line 1: 'found duplicate key "scale" ... expected valid YAML
"""


def cases(text):
    return [pytest.param(*map(str.strip, pair), id=pair[0][:50])
            for pair in re.findall(r"^(\S.*)\n +(.*)$", text, re.MULTILINE)]  # fmt: skip


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Return a function that writes params.yaml of a project of three rows."""
    monkeypatch.setattr(params, "ROOT", tmp_path)
    (tmp_path / "lib" / "carry").mkdir(parents=True)
    for module in (resolve, run):
        monkeypatch.setattr(module, "load_rows", lambda: {row.name: row for row in ROWS})
    return lambda text: (tmp_path / "params.yaml").write_text(f"{{{text}}}", encoding="utf-8")


def refuse(*parts):
    """Let the first stage of the pipeline refuse params.yaml in one line that has the parts."""
    with pytest.raises(SettingsError, match=".*".join(map(re.escape, parts))) as error:
        run.choose_runs()
    assert "\n" not in str(error.value) and len(str(error.value)) < 500


def test_a_project_of_few_rows(write):
    write("train: {tests: all, others: [theirs]}, override: {mine: {model: {layers: 1}}}, seeds: 2")
    chosen = [(run.name, run.model["layers"], run.seeds) for run in run.choose_runs()]
    assert chosen == [("mine", 1, 2), ("yours", 2, 2), ("theirs", 2, 2)]
    write("train: {tests: all}, scale: smoke")
    assert [run.name for run in run.choose_runs()] == ["mine"], "the other has no such scale"


@pytest.mark.parametrize(("settings", "line"), cases(SETTINGS))
def test_settings_of_a_row(write, settings, line):
    write(f"train: {{tests: all}}, override: {{mine: {{{settings}}}}}")
    refuse(*line.split(" ... "))


@pytest.mark.parametrize(("text", "line"), cases(PARAMS))
def test_params(write, text, line):
    write(text if text.startswith("train") else f"{text}, train: {{tests: all}}")
    refuse(*line.split(" ... "))


def test_text_of_another_encoding(tmp_path):
    (tmp_path / "latin.yaml").write_bytes("größe: 1\n".encode("latin-1"))
    with pytest.raises(SettingsError, match="expected text in UTF-8"):
        read_yaml(tmp_path / "latin.yaml")
