"""Attention maps, and models with committed weights."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from carry.config.settings import SettingsError
from carry.evaluation.trained_models import load_committed
from carry.interpretability import attention
from carry.models.constructions.adder import build_adder
from carry.plots.attention_maps import CLIPPED, draw_attention_maps


@pytest.mark.parametrize(("operands", "digits", "fits"), [(2, 2, True), (6, 6, False)])
def test_maps_show_the_attention_of_responses(operands, digits, fits):
    adder, labels = build_adder(operands, digits), {"row": "construction", "seed": 0}
    tables = attention.describe_attention(adder, (digits, operands), labels)
    tokens, part = tables["tokens"], tables["attention"].assign(panel="head")
    part = part[part["head"] == 0]
    grid = draw_attention_maps(part, tokens, height=2.1, aspect=2)
    axes = grid.axes_dict["head"]
    begins, end = tokens["token"].tolist().index("="), len(tokens) - 1
    shown = axes.images[0].get_array()
    assert shown.shape == (end - begins, end + 1)
    for line, query in enumerate(range(begins, end)):
        weights = part[part["query"] == query].set_index("key")["weight"]
        expected = weights.where(weights >= CLIPPED, 0).reindex(range(end + 1), fill_value=0)
        np.testing.assert_allclose(shown[line], expected)
    names = [label.get_text() for label in axes.get_xticklabels()]
    assert names == [f"a{at}" for at in range(1, operands + 1)] + [
        f"s{at}" for at in range(operands + 1)
    ]
    labels = [label.get_text() for label in axes.get_xticklabels(minor=True)]
    assert "".join(labels) == ("".join(tokens["token"][:end]) if fits else "")
    plt.close(grid.figure)


def test_rows_without_committed_weights_are_refused():
    with pytest.raises(SettingsError, match="'parity_nope' has no weights in git"):
        load_committed("parity_nope")
