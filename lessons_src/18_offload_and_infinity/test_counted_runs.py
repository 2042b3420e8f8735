"""What lesson 18 counts is what moves: copies, files, and what the kernel saw of them."""

from collections import Counter
from pathlib import Path

import pytest
import torch

from dtlib.errors import BadInput
from dtlib.strategies import operators as ops

from .counted_runs import measured, operators_are_here, refuse_small
from .crossings import Crossings, _Counting

WAYS = [
    ("zero3", "fp32", 1), ("offload", "fp32", 1), ("infinity", "fp32", 1), ("offload", "bf16", 1),
    ("offload", "bf16", 3),
]  # fmt: skip


def test_copies_between_the_sides_are_counted_and_no_others():
    host, device = torch.zeros(10), torch.ones(10)
    with Crossings([host]) as seen:
        host[:4].copy_(device[:4])  # 16 bytes down
        doubled = host * 2  # made from the host's: the host's, too
        device[:3].copy_(doubled[:3])  # 12 bytes up
        host[5:].copy_(doubled[5:])
        device[:5].copy_(device[5:].clone())
    assert seen.bytes == {"to_host": 16, "to_device": 12}
    assert device[:3].tolist() == [1, 1, 1] and doubled[:4].tolist() == [2, 2, 2, 2]


def test_calls_of_a_file_operator_are_counted_by_kind():
    class Handle:
        def __init__(self):
            self.calls = []

        def async_pread(self, buffer, path, offset):
            self.calls.append((path, offset))
            return 0

        sync_pwrite = async_pread

        def wait(self):
            return len(self.calls)

    real, moved = Handle(), Counter()
    handle = _Counting(real, moved)
    assert handle.async_pread(torch.zeros(8), "a/float32params/rank0/1.swp", 0) == 0
    handle.sync_pwrite(torch.zeros(2), "a/optimizer/rank0/1.swp", 0)
    assert handle.wait() == 2 and real.calls[1] == ("a/optimizer/rank0/1.swp", 0)
    assert moved == {"read weights": 32, "write optimizer": 8}


def test_missing_operators_are_said_with_the_remedy(monkeypatch, capsys):
    monkeypatch.setattr(ops, "built", lambda name: None)
    assert not operators_are_here()
    assert "async_io" in (said := capsys.readouterr().out) and "dtlib ops build" in said


@pytest.mark.parametrize(
    ("ranks", "width", "fewest"), [(2, 64, 3), (1, 64, 5), (2, 32, 5), (1, 512, 6)]
)
def test_too_few_layers_are_refused_with_the_fewest(ranks, width, fewest):
    """With fewer, most of the state stayed in memory in a run: 1.9 of 12 bytes with two layers."""
    refuse_small(ranks, fewest, width, 3)
    with pytest.raises(BadInput, match=f"take layers={fewest} or more"):
        refuse_small(ranks, fewest - 1, width, 3)


def test_two_steps_are_refused():
    with pytest.raises(BadInput, match="take 3"):
        refuse_small(2, 8, 64, 2)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(
    not ops.deepspeed_is_here() or bool(ops.not_built(ops.NEEDED["infinity"])),
    reason="DeepSpeed or its compiled operators are not here",
)
@pytest.mark.parametrize("ranks", [1, 3])
def test_three_ways_train_alike_move_what_the_rule_says_and_leave_no_file(
    tmp_path, monkeypatch, ranks
):
    """Three ranks, whose shares are padded, and a folder of the user's own."""
    monkeypatch.chdir(tmp_path)
    disk = tmp_path / "disk"
    disk.mkdir()
    found = measured(WAYS, ranks, nvme=str(disk))
    losses = [found[f"{name} fp32"]["losses"] for name in ("zero3", "offload", "infinity")]
    for other in losses[1:]:  # twenty roundings of numbers near 5, as in the lesson
        assert other == pytest.approx(losses[0], abs=1e-5)
    assert losses[0][-1] < losses[0][0]
    assert found["zero3 fp32"]["moved"] == {}
    for way, down, up in (("offload fp32", 4, 4), ("offload bf16", 4, 2)):
        moved, share = found[way]["moved"], found[way]["share"]
        assert moved["to_host"] / share == pytest.approx(down, rel=0.01)  # padding
        assert moved["to_device"] / share == pytest.approx(up, rel=0.01)
    moved, share = found["offload bf16 x3"]["moved"], found["offload bf16 x3"]["share"]
    # a tensor that lies on two ranks is accumulated whole on both
    assert moved["to_host"] / share == pytest.approx(4 + 3 * 2, rel=0.06)
    assert moved["to_device"] / share == pytest.approx(2 + 2 * 2, rel=0.06)
    infinity = found["infinity fp32"]
    moved, files = infinity["moved"], infinity["files"]
    assert moved["write weights"] == files["weights"] > 2 * infinity["share"]
    assert moved["read optimizer"] == moved["write optimizer"] == files["optimizer"]
    assert files["optimizer"] > 10 * infinity["share"]
    assert files["weights"] < moved["read weights"] <= 2 * files["weights"]
    for verb, seen in infinity["kernel"].items():  # 0 where Linux does not count this file system
        calls = sum(size for name, size in moved.items() if name.startswith(verb))
        assert seen == 0 or seen >= calls
    assert list(disk.iterdir()) == []
    assert not list(Path().rglob("*.swp"))
