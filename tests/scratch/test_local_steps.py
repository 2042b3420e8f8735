"""Local SGD, DiLoCo, PowerSGD: a simulation's weights, data parallel's, bytes, refusals, a table.

`SCRATCH_SEED=7 pytest tests/scratch/test_local_steps.py` draws other cases; a failure names the
seed and the case.
"""

import os

import pytest
import torch
import torch.distributed as dist

from dtlib.measure.ledger.collectives import CollectiveLog
from dtlib.ranks.launcher import launch
from dtlib.scratch import local_steps as ls
from dtlib.sim import local_steps as sim
from dtlib.sim import traffic
from tests import local_steps_cases as cases
from tests.scratch_cases import ROUNDING, mlp, raised

SEED = int(os.environ.get("SCRATCH_SEED", "20261130"))
RANKS = (2, 3, 4)
COUNT = 18
WIDTHS, EVERY, RANK, STEPS = [9, 5, 7], 4, 3, 8


def counted() -> dict[str, dict]:
    """Calls, payload and wire bytes of eight steps in each way."""
    found = {}
    for kind in ("local", "diloco", "power"):
        model = mlp(WIDTHS)
        trainer = torch.optim.SGD(model.parameters(), lr=0.1)
        step = {
            "local": lambda m, t: ls.LocalSGD(m, t, EVERY).step,
            "diloco": lambda m, t: ls.DiLoCo(m, t, EVERY).step,
            "power": lambda m, t: ls.PowerSGD(m, RANK).reduce,
        }[kind](model, trainer)
        with CollectiveLog() as log:
            for _ in range(STEPS):
                model(torch.ones(2, WIDTHS[0], dtype=torch.float64)).sum().backward()
                step()
        found[kind] = {name: (t.calls, t.payload, t.wire) for name, t in log.tallies.items()}
    return found


def corners() -> dict[str, object]:
    """Refusals, and gradients that are 0 or missing."""
    model = mlp(WIDTHS)
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    power = ls.PowerSGD(model, 2)
    power.reduce()
    nothing = max(float(p.grad.abs().max()) for p in model.parameters())
    model(torch.eye(3, WIDTHS[0], dtype=torch.float64)).square().sum().backward()
    power.reduce()  # recovers from factors that have become 0
    return {
        "nothing": nothing,
        "after": min(float(p.grad.norm()) for p in model.parameters() if p.dim() >= 2),
        "local": raised(lambda: ls.LocalSGD(model, inner, 0)),
        "diloco": raised(lambda: ls.DiLoCo(model, inner, 0)),
        "power": raised(lambda: ls.PowerSGD(model, 0)),
    }


def everything(drawn):
    found = {"apart": [cases.apart(case) for case in drawn], "counted": counted()}
    if dist.get_world_size() == 2:
        names = ["data parallel", "DiLoCo, H = 16", "PowerSGD, r = 1"]
        found |= {"corners": corners(), "table": ls.compare(16, names)}
    return found


@pytest.fixture(scope="module")
def found():
    """What each rank found, by the number of ranks: all cases of a number in one launch."""
    return {
        n: launch(everything, cases.drawn(n, COUNT, SEED), ranks=n, timeout=60, show=False)
        for n in RANKS
    }


@pytest.mark.parametrize("ranks", RANKS)
def test_ranks_do_what_simulated_workers_do(found, ranks):
    """And with H = 1, or at full rank, what data parallel does: the last four cases."""
    drawn = cases.drawn(ranks, COUNT, SEED)
    for case, *apart in zip(drawn, *(rank["apart"] for rank in found[ranks]), strict=True):
        assert max(apart) < ROUNDING, f"seed {SEED}, {ranks} ranks: {case}"


@pytest.mark.parametrize("ranks", RANKS)
def test_bytes_and_messages_are_the_formulas(found, ranks):
    shapes = [(name, tuple(p.shape)) for name, p in mlp(WIDTHS).named_parameters()]
    parameters = sum(p.numel() for p in mlp(WIDTHS).parameters())
    averaged = sim.local_steps(parameters, ranks, EVERY, 8)
    want = {"local": averaged, "diloco": averaged, "power": sim.power_sgd(shapes, ranks, RANK, 8)}
    calls = {"local": STEPS // EVERY, "diloco": STEPS // EVERY, "power": 2 * STEPS}
    for rank in found[ranks]:
        for kind, rows in want.items():
            assert rank["counted"][kind] == {
                "all_reduce": (
                    calls[kind],
                    pytest.approx(STEPS * sum(row["payload"] for row in rows)),
                    pytest.approx(STEPS * sum(row["wire"] for row in rows)),
                )
            }


def test_formulas_by_hand():
    """[6, 4] at rank 3: 3·4 and 3·6; a vector of 5; a kernel [2, 3, 2, 2]: 2·2 and 2·12."""
    shapes = [("w", (6, 4)), ("b", (5,)), ("k", (2, 3, 2, 2))]
    rows = sim.power_sgd(shapes, 4, 3, 2)
    assert [row["payload"] for row in rows] == [2 * (12 + 4 + 5), 2 * (18 + 24)]
    assert [row["wire"] for row in rows] == [42 * 3 / 2, 84 * 3 / 2]
    (row,) = sim.local_steps(1000, 4, 10, 2)
    (dense,) = traffic.data_parallel(1000, 4, 2)
    assert row["wire"] == pytest.approx(dense["wire"] / 10)


def test_corners(found):
    for rank in found[2]:
        said = rank["corners"]
        assert said["nothing"] == 0
        assert said["after"] > 0
        for kind in ("local", "diloco"):
            assert "a round of 0 steps never ends" in said[kind]
        assert "a factor of 0 columns carries nothing" in said["power"]


def test_the_table_counts_what_was_sent(found):
    tables = [rank["table"] for rank in found[2]]
    dense, rounds, thin = tables[0]
    assert (dense["messages"], rounds["messages"], thin["messages"]) == (1, 1 / 16, 2)
    assert rounds["bytes"] == pytest.approx(dense["bytes"] / 16)
    assert thin["bytes"] < dense["bytes"]
    assert tables[1] == tables[0]  # the losses, too
    assert len({row["loss"] for row in tables[0]}) == 3
    assert all(row["loss"] > row["entropy"] for row in tables[0])
