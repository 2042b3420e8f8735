"""Targets: reached, not reached, or not measured; and noise is no gain."""

import pytest

from dtlib.study import targets
from dtlib.training.record import COLUMNS


def runs(kind: str, seconds: dict[int, list[float]], **more: float | None) -> list[dict]:
    """Runs that took these seconds a step, by number of ranks."""
    return [
        {**dict.fromkeys(COLUMNS), "study": kind, "world_size": n, "repeat": r, "step_time_s": s,
         **more}
        for n, times in seconds.items() for r, s in enumerate(times)
    ]  # fmt: skip


@pytest.mark.parametrize(("kind", "seconds", "said"), [
    ("strong", {1: [8.0], 8: [1.25]}, "70 %: reached: 80.0% (one run, no spread) on 8 ranks"),
    ("strong", {1: [8.0] * 3, 8: [1.25, 1.6, 2.0]},
     "70 %: not reached (by 1 of 3 runs): 62.5% (50.0% to 80.0%) on 8 ranks"),
    ("strong", {1: [8.0], 2: [5.0]},
     "70 %: not measured here (no run on 8 ranks; on 2 it is 80.0% (one run, no spread))"),
    ("weak", {1: [8.0] * 2, 8: [8.4, 8.72]}, "one rank: reached: 7.0% (5.0% to 9.0%) on 8 ranks"),
    ("strong", {1: [8.0], 8: [1.25], 16: [2.0]}, "70 %: reached: 80.0% (one run, no spread)"),
    ("weak", {1: [8.0], 8: [10.0]}, "one rank: not reached: 25.0% (one run, no spread)"),
    ("weak", {1: [8.0]}, "one rank: not measured here (no run on 8 ranks)"),
])  # fmt: skip
def test_scaling(kind, seconds, said) -> None:
    assert said in targets.of_scaling(runs(kind, seconds))[0]


def test_shares_are_those_of_most_ranks_and_one_rank_has_no_communication() -> None:
    both = runs("strong", {1: [8.0]}, comm_share=0.0, data_share=0.5)
    both += runs("strong", {2: [5.0]}, comm_share=0.25, data_share=0.01)
    _, talk, wait = targets.of_scaling(both)
    assert "not reached: 25.0%" in talk and talk.endswith("on 2 ranks")
    assert "5 % waiting for input: reached: 1.0%" in wait
    talk, wait = targets.of_shares(both[:1])
    assert "not measured here (one rank" in talk and "not reached: 50.0%" in wait
    assert "no run has a --profile" in targets.of_shares(runs("strong", {2: [1.0]}))[0]


@pytest.mark.parametrize(("gains", "said"), [
    ([0.25, 0.3, 0.22], "reached: 25.0% (22.0% to 30.0%)"),
    ([0.25, 0.3, 0.1], "reached (by 2 of 3 runs): 25.0% (10.0% to 30.0%)"),
    ([0.05, 0.1, 0.06], "not reached: 6.0%"),
    ([0.4, 0.5, -0.1], "not reached: 40.0% (-10.0% to 50.0%) is within its own spread, which is"),
    ([], "not reached: no setting is faster than the first"),
])  # fmt: skip
def test_a_gain_of_a_fifth(gains, said) -> None:
    assert said in targets.of_sensitivity(gains, [])[0]
