"""What a page's sliders say of ZeRO: the formulas that the rest of the course uses, by stage."""

import pytest

from dtlib.sim import memory

from .what_if import passes, zero_stages

NAMES = ("ddp", "zero1", "zero2", "zero3")


@pytest.mark.parametrize("stage", range(4))
@pytest.mark.parametrize("k", [1, 3, 8])
@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_passes_are_what_the_collectives_add_up_to(stage: int, k: int, ranks: int) -> None:
    rows = memory.communication(12, ranks, NAMES[stage], k, "fp32", kept="paper")
    wire = sum(row.wire for row in rows)
    assert passes(stage, k) * 12 * (ranks - 1) / ranks == pytest.approx(wire / 4)


@pytest.mark.parametrize(("stage", "gigabytes"), list(enumerate((120, 31.4, 16.6, 1.88))))
def test_the_papers_first_example(stage: int, gigabytes: float) -> None:
    told = zero_stages(7.5, 6, stage, 1, 1)
    assert told["point"] == [64, pytest.approx(gigabytes, abs=0.05)]
    assert f"stage {stage} on 64 ranks" in told["says"]
    parts = sum(dict(told["curves"][kind])[64] for kind in told["curves"] if kind != "all")
    assert parts == pytest.approx(told["point"][1])


def test_fp32_and_what_it_sends() -> None:
    told = zero_stages(1, 2, 1, 0, 8)
    assert told["point"] == [4, 10.0]  # 8 + 8/4
    assert "sends 1.5 billion elements a step (k = 8)" in told["says"]
    assert "(k = 8): 0.12 s at 50 GB/s" in told["says"]  # 4 bytes · 1.5e9 over 50e9
    assert "sends 6.75 billion" in zero_stages(1, 2, 2, 0, 8)["says"]
