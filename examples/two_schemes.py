"""A complete experiment: train two position schemes on short sums, score longer sums, draw both.

`python examples/two_schemes.py` takes two minutes on two cores, and writes data/two_schemes.png.
What is trained stays in data/store: a second call takes seconds, and a changed setting trains what
it changes.
"""

import seaborn as sns

from carry import results
from carry.config import paths
from carry.evaluation.jobs import evaluate_runs
from carry.experiments.resolve import make_run
from carry.training.jobs import train_runs

SCHEMES = {
    "index": [{"ids": "index", "encoding": "rope"}],
    "places": [{"ids": "coupled", "encoding": "relative", "window": [0, 1]}],
}
MUON = {"optimizer": "muon", "learning_rate": 0.004}  # learns the trained lengths in fewer steps
PICTURE = paths.ROOT / "data" / "two_schemes.png"


def make_experiment(scheme, steps, seeds):
    """Return a run: a task, its format, position encodings, a model, training and evaluation."""
    settings = {
        "task": {"name": "addition"},
        "format": {"reverse_operands": True},  # 653+49=702 is written 356+94=207
        "positions": SCHEMES[scheme],
        "model": {"layers": 2, "width": 64, "heads": 4},
        "training": {"digits": 4, "steps": steps, "batch": 96, **MUON},
        "evaluation": {"digits": 12},  # all pairs of lengths to 12 digits, from id 1, in one pass
        "seeds": seeds,
    }
    return make_run(settings, scheme)


def main(steps=1500, seeds=2, picture=PICTURE):
    """Train, score and draw; return the accuracy by scheme, seed and number of digits."""
    runs = [make_experiment(scheme, steps, seeds) for scheme in SCHEMES]
    train_runs(runs, label="train")
    cells = evaluate_runs(runs, label="score")["cells"]
    scores = results.score_lengths(cells)
    axes = sns.lineplot(scores, x="digits", y="accuracy", hue="row", errorbar=("pi", 100))
    axes.axvline(4, color="gray", linestyle=":")  # the longest trained numbers
    picture.parent.mkdir(exist_ok=True)
    axes.figure.savefig(picture)
    return scores


if __name__ == "__main__":
    print(main().pivot_table(index="digits", columns="row", values="accuracy").round(2))
    print(PICTURE)
