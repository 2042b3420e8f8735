"""The slider's numbers are those of the library."""

import pytest

from dtlib.study.capstone.request import Request, costs
from tests.capstone_cases import rows

from .what_if import request


def test_a_run_costs_what_the_request_says() -> None:
    studies = {"weak": rows("weak", {1: [0.04] * 2, 2: [0.05] * 2})}  # an efficiency of 0.8
    lines = {line.what: line.value for line in costs(Request(gpus=16), studies).lines}
    shown = request(80, 40, 30, 4)
    assert shown["point"] == [16, pytest.approx(lines["one run"])]
    assert dict(shown["curves"]["if nothing is lost"])[16] == pytest.approx(
        lines["one GPU alone"] / 8
    )
    assert f"takes {lines['time of a run']:.3g} hours" in shown["says"]


def test_limits() -> None:
    ideal = request(100, 40, 30, 8)["curves"]
    assert ideal["with your loss"] == ideal["if nothing is lost"]
    curve = [y for _, y in request(50, 40, 30, 8)["curves"]["with your loss"]]
    assert curve == sorted(curve) and curve[-1] < 3 * curve[0]  # a ring loses at most twice 1/E - 1
