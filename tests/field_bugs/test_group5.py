"""Checkpoints: the order after a resume, and shards that meet another number of ranks."""

from typing import Any

import pytest
import torch

from dtlib import launch
from dtlib.strategies.fsdp import FSDP
from tests.toy import config, ready


# field bug 5.01
def test_what_a_loader_does_that_draws_its_order_anew():
    """Unlike ours (see `test_resume`) torch's DataLoader begins anew after a resume.

    3 and 7 are never seen and 2 and 5 twice, with all states restored.
    """
    torch.manual_seed(0)
    loader = torch.utils.data.DataLoader(range(8), shuffle=True)
    batches = iter(loader)
    seen = [next(batches).item() for _ in range(3)]
    moved_on = torch.get_rng_state()
    torch.set_rng_state(moved_on)
    again = iter(torch.utils.data.DataLoader(range(8), shuffle=True))
    rest = [batch.item() for batch in again][3:]
    twice = sorted(sample for sample in seen if sample in rest)
    never = sorted(set(range(8)) - set(seen) - set(rest))
    assert (never, twice) == ([3, 7], [2, 5])


class Matrix(torch.nn.Module):
    """One weight of 6 × 2: shards of two rows on three ranks, of three rows on two."""

    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.arange(12.0).view(6, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.w * x).sum()


def sharded() -> FSDP:
    settings = config(strategy="fsdp", optimizer="adamw", adam_eps=1e-8, global_batch=6)
    strategy = ready(FSDP, settings, Matrix())
    assert isinstance(strategy, FSDP)
    return strategy


def seven_steps() -> tuple[dict[str, Any], torch.Size]:
    strategy = sharded()
    for _ in range(7):
        strategy.backward(strategy.model(torch.ones(1)), torch.tensor(3.0))
        strategy.step(lr=0.1)
    return strategy.state(), strategy.module.w.to_local().shape


def taken_up(state: dict[str, Any]) -> tuple[torch.Size, int, dict[str, Any]]:
    strategy = sharded()
    strategy.load_state(state)
    return strategy.module.w.to_local().shape, strategy.steps, strategy.state()


# field bug 5.06
def test_three_ranks_shards_are_two_ranks_shards_afterwards():
    first = launch(seven_steps, ranks=3, timeout=20)
    state = first[0][0]
    assert [shape for _, shape in first] == [torch.Size([2, 2])] * 3
    assert state["model"]["w"].shape == (6, 2)
    second = launch(taken_up, state, ranks=2, timeout=20)
    assert [(shape, steps) for shape, steps, _ in second] == [(torch.Size([3, 2]), 7)] * 2
    again = second[0][2]
    assert torch.equal(again["model"]["w"], state["model"]["w"])
    for moment in ("exp_avg", "exp_avg_sq"):
        assert torch.equal(again["optimizer"][moment]["w"], state["optimizer"][moment]["w"])


# field bug 5.06
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")  # one process is meant
def test_a_missing_key_is_an_error_that_except_exception_catches(tmp_path):
    """torch's distributed checkpoint raises a BaseException, which a fallback would let pass."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.api import CheckpointException

    from dtlib.errors import BadInput
    from dtlib.training.checkpoint.content import refuse_other_model

    dcp.save({"w": torch.ones(2)}, checkpoint_id=tmp_path / "dcp", no_dist=True)
    with pytest.raises(CheckpointException) as raised:
        dcp.load({"v": torch.ones(2)}, checkpoint_id=tmp_path / "dcp", no_dist=True)
    assert not isinstance(raised.value, Exception)

    saved = {"model": {"w": torch.ones(2)}, "optimizer": {}, "steps": 1}
    shapes = {"model": {"v": torch.Size([2])}, "moments": {"v": torch.Size([2])}}
    with pytest.raises(BadInput, match="v is missing there"):
        refuse_other_model(shapes, saved, "step-00000001")
    assert issubclass(BadInput, Exception)
