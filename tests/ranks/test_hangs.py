"""A hang's sentence says who waits in what on which line, who did not join it, who had returned.

It says the same whichever clock ends first: gloo's, which begins when a rank arrives, or the
launcher's, which begins when the first rank returns. They end together where all come at once.
"""

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest
import rank_functions as on_ranks

from dtlib.ranks.launcher import RankFailed, launch, run_ranks

pytestmark = pytest.mark.spread
SUM = "all_reduce of 5 float32"


def at(function: Callable[..., Any], text: str) -> str:
    """Where the one line of a function with this text is, as a sentence names it."""
    lines, first = inspect.getsourcelines(function)
    (number,) = [number for number, line in enumerate(lines, first) if text in line]
    return f"(rank_functions.py:{number})"


def sentence(function: Callable[..., Any], *args: Any, timeout: float, ranks: int = 3) -> str:
    with pytest.raises(RankFailed) as caught:
        launch(function, *args, ranks=ranks, timeout=timeout, show=False)
    return caught.value.sentence


def nobody_joined(what: str, line: str, timeout: float) -> str:
    return (
        f"Rank 1 did not join {what} within {timeout:g} s: "
        f"rank 0 was waiting in {what} {at(on_ranks.wait_alone, line)}; "
        "ranks 1 and 2 had already returned."
    )


@pytest.mark.parametrize(("how", "what", "line", "timeout"), [
    ("all_reduce", SUM, "    dist.all_reduce(x)", 3),
    ("recv", "recv of 5 float32", "dist.recv(x, 1)", 2),
    ("barrier", "barrier", "dist.barrier()", 1),
    ("backward", "all_reduce of 8 float32", "ddp(torch.ones(1, 3)).sum().backward()", 2),
    ("async", SUM, "handle.wait()", 1),
    ("message", "recv", "work.wait()", 1),
])  # fmt: skip
def test_ranks_that_had_returned(how: str, what: str, line: str, timeout: float) -> None:
    """gloo's clock and the launcher's end together, and rank 0 may leave while it is asked."""
    assert sentence(on_ranks.wait_alone, how, timeout=timeout) == nobody_joined(what, line, timeout)


@pytest.mark.parametrize("late", [-0.3, 0.03, 0.06, 0.09, 0.3])
@pytest.mark.parametrize(("how", "what", "line"), [
    ("all_reduce", SUM, "    dist.all_reduce(x)"),
    ("backward", "all_reduce of 8 float32", "ddp(torch.ones(1, 3)).sum().backward()"),
])  # fmt: skip
def test_a_rank_that_comes_late_or_first(how: str, what: str, line: str, late: float) -> None:
    """Around the moment at which the launcher's clock catches up with gloo's."""
    assert sentence(on_ranks.wait_alone, how, late, timeout=1) == nobody_joined(what, line, 1)


def test_the_bucket_that_a_backward_waits_for_first() -> None:
    """gloo fails all buckets at once, and the flight recorder forgets which was the first."""
    what = "all_reduce of 20000 float32"
    assert sentence(on_ranks.wait_in_buckets, timeout=2, ranks=2) == (
        f"Rank 1 did not join {what} within 2 s: rank 0 was waiting in {what} "
        f"{at(on_ranks.wait_in_buckets, '.backward()')}; rank 1 had already returned."
    )


def test_a_rank_that_is_asked_on_its_way_out_of_a_collective() -> None:
    """gloo's clock ends 0.3 s before the launcher's, and tidying up takes 0.6 s."""
    found = sentence(on_ranks.wait_alone, "slow to leave", -0.3, timeout=1)
    assert found == nobody_joined("send of 5 float32", "dist.send(x, 1)", 1)


def test_a_rank_that_is_asked_after_it_has_returned() -> None:
    assert launch(on_ranks.return_slowly, ranks=2, timeout=1, show=False) == ["sent", "sent"]


@pytest.mark.parametrize("late", [0.0, 0.1, 0.5])
def test_a_loop_that_two_wait_for(late: float) -> None:
    found = sentence(on_ranks.two_wait_for_one, late, timeout=1)
    where = at(on_ranks.two_wait_for_one, "dist.all_reduce")
    beginning = f"Rank 1 did not join {SUM} within 1 s: ranks 0 and 2 were waiting in {SUM} {where}"
    pattern = re.escape(beginning) + r"; rank 1 was running `(while .*|pass)` \(.*\.py:\d+\)\."
    assert re.fullmatch(pattern, found), found


def test_a_peer_that_times_out_first_makes_no_error_of_the_others() -> None:
    """gloo closes rank 0's connections: rank 2, which came later, ran out of time just as well."""
    outcomes = run_ranks(on_ranks.chain_behind_a_loop, ranks=3, timeout=1)
    assert [outcome.status for outcome in outcomes] == ["timeout"] * 3


def test_a_peer_that_left_the_group_is_no_time_out() -> None:
    found = sentence(on_ranks.leave_the_group, timeout=30)
    words = rf"Rank 0 raised \w+: .* {re.escape(at(on_ranks.leave_the_group, 'dist.recv'))}; "
    others = r"rank 1 had already returned; rank 2 was running `time.sleep\(600\)` \(.*:\d+\)\."
    assert re.fullmatch(words + others, found), found


def test_a_rank_that_caught_its_time_out_is_at_work() -> None:
    line = at(on_ranks.wait_alone, "time.sleep(601)")
    assert sentence(on_ranks.wait_alone, "caught", -0.5, timeout=1) == (
        f"Rank 0 did not end within 1 s; rank 0 was running `time.sleep(601)` {line}."
    )
