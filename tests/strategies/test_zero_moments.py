"""Moments that a resumed ZeRO optimizer is given before its first step."""

import pytest
import torch

from dtlib.strategies import deepspeed_state


@pytest.mark.parametrize(("fused", "where"), [(True, "meta"), (False, "cpu")])
def test_a_fused_adam_counts_its_steps_where_its_weights_are(fused: bool, where: str) -> None:
    """Torch refuses a step on the CPU for weights on a GPU; meta stands for it here."""
    optimizer = torch.optim.AdamW([torch.zeros(1)], fused=fused)
    flat = torch.empty(3, device="meta")
    deepspeed_state._make_moments(optimizer, flat, {"optimizer": {"exp_avg": {}}, "steps": 7})
    entry = optimizer.state[flat]
    assert entry["step"].device.type == where and entry["exp_avg"].device.type == "meta"
    assert where == "meta" or entry["step"] == 7
