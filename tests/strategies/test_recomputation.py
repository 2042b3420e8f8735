"""Activation checkpointing under strategies that gather weights, or step into linear layers."""

import pytest

from dtlib import launch
from tests.strategy_runs import HERE, train_each


@pytest.mark.usefixtures("own_folder")
@pytest.mark.spread
def test_losses_are_the_same_bits_whatever_is_recomputed(story):
    """Biases are 0 at first, and one that is added twice shows from the second step on."""
    names = [name for name in ("ddp", "fsdp", "zero3") if name in HERE]
    found = {
        kind: launch(in_a_folder, kind, names, data=story, ranks=2, timeout=100)[0]
        for kind in ("none", "full", "selective")
    }
    assert found["full"] == found["none"]
    assert found["selective"] == found["none"]


def in_a_folder(kind, names, **settings):
    """Train the rows of these names with a kind of checkpointing, and with dropout."""
    return {
        name: figures
        for name in names
        for figures in train_each(
            [name], out=f"{kind}-{name}", dropout=0.1, steps=3,
            activation_checkpointing=kind, **settings,
        ).values()
    }  # fmt: skip
