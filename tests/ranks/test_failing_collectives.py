"""What a failure in or before a collective says, with torch's debug mode and without.

None of it depends on how ranks were started, which `test_launcher_failures` is about.
"""

import re
import signal

import pytest
import rank_functions as on_ranks
from rank_failures import WAITING, failure

from dtlib.ranks.launcher import Outcome, RankFailed, blame, launch, run_ranks
from dtlib.ranks.outcome import crash_in_words

pytestmark = [pytest.mark.spread, pytest.mark.usefixtures("nothing_is_left")]


@pytest.mark.parametrize(("how", "sentence"), [
    ("raise", r"Rank 1 raised ValueError: the seventh batch is empty \(.*:\d+\); "),
    ("kill", r"Rank 1 was killed by SIGKILL; "),
    ("os_exit", r"Rank 1 left with exit code 3; "),
    ("sys_exit", r"Rank 1 left with exit code 4 \(.*:\d+\); "),
])  # fmt: skip
def test_one_rank_fails_in_debug_mode(how: str, sentence: str) -> None:
    error = failure(how, debug=True, timeout=30)
    assert re.fullmatch(sentence + WAITING + r"\.", error.sentence), error.sentence
    assert set(error.others) == {0, 2}


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize(("how", "doing"), [
    ("sleep", r"running `time.sleep\(600\)`"),
    ("loop", r"running `.*`"),
    ("ask", r"running `.*`"),  # in get_rank nobody waits
])  # fmt: skip
def test_a_rank_that_never_comes(how: str, doing: str, debug: bool) -> None:
    """Field bug 6.06: the text names the waiting ranks and the absent one."""
    error = failure(how, debug=debug, timeout=2)
    late = r"Rank 1 did not join all_reduce of 4 float32 within 2 s: "
    pattern = rf"{late}{WAITING}; rank 1 was {doing} \(.*:\d+\)\."
    assert re.fullmatch(pattern, error.sentence), error.sentence
    assert (error.rank, error.reason) == (1, "timeout")


@pytest.mark.parametrize("debug", [False, True])
def test_all_ranks_wait_in_send(debug: bool) -> None:
    outcomes = run_ranks(on_ranks.all_send, ranks=3, timeout=2, debug=debug)
    assert [o.status for o in outcomes] == ["timeout"] * 3
    assert {(o.where.call, o.where.what) for o in outcomes if o.where} == {("send", "5 float32")}
    with pytest.raises(RankFailed, match=r"All 3 ranks were still waiting in send of 5 float32"):
        launch(on_ranks.all_send, ranks=3, timeout=2, debug=debug, show=False)


def test_other_shapes_are_an_error_in_debug_mode() -> None:
    with pytest.raises(RankFailed) as caught:
        launch(on_ranks.mismatch, ranks=3, timeout=5, debug=True, show=False)
    assert caught.value.reason == "error"
    words = (
        r"rank \d called allreduce on a tensor \[\d\] of Float while rank \d called allreduce on"
    )
    assert re.search(words, caught.value.sentence)


@pytest.mark.parametrize(("function", "expected"), [
    (on_ranks.wait_for_async, "all_reduce of 6 float32"),
    (on_ranks.ddp_waits, "all_reduce of 8 float32"),
])  # fmt: skip
def test_the_flight_recorder_sees_what_no_frame_shows(function: object, expected: str) -> None:
    with pytest.raises(RankFailed) as caught:
        launch(function, ranks=2, timeout=2, show=False)  # type: ignore[arg-type]
    assert f"Rank 1 did not join {expected} within 2 s: rank 0 was" in caught.value.sentence


# field bug 1.11
def test_uneven_batches_are_a_sentence() -> None:
    """One rank has three batches and the other two."""
    with pytest.raises(RankFailed) as caught:
        launch(on_ranks.uneven_batches, "no", ranks=2, timeout=2, show=False)
    assert "Rank 1 did not join all_reduce of 1 float32" in caught.value.sentence
    assert "rank 1 had already returned" in caught.value.sentence


@pytest.mark.parametrize(("join", "gradient"), [("by all", 1.5), ("by the ranks still there", 3.0)])
def test_join_lets_ranks_have_uneven_batches(join: str, gradient: float) -> None:
    """The third batch's gradient is its input 3, divided by two ranks or by the one still there."""
    results = launch(on_ranks.uneven_batches, join, ranks=2, timeout=20, show=False)
    assert results[0] == pytest.approx(gradient)


def test_a_crash_of_torch_in_debug_mode_is_not_silent() -> None:
    """torch 2.14 dies in `DistributedDataParallel(model)`; a later one may say what differs."""
    with pytest.raises(RankFailed) as caught:
        launch(on_ranks.mismatch_after_ddp, ranks=2, timeout=15, debug=True, show=False)
    if caught.value.reason == "killed":
        assert "was killed by SIGSEGV" in caught.value.sentence
        assert "launch without debug to see whether that is the cause." in caught.value.sentence
    else:
        assert "called broadcast" in caught.value.sentence


@pytest.mark.parametrize(
    ("code", "debug", "said"), [(-11, True, True), (-11, False, False), (-9, True, False)]
)
def test_only_a_segmentation_fault_in_debug_mode_is_put_down_to_it(
    code: int, debug: bool, said: bool
) -> None:
    why = crash_in_words(code, debug)
    assert ("Under debug=True torch 2." in why) == said
    failed = blame([Outcome(0, "ok"), Outcome(1, "killed", code=code, remark=why)], 10.0)
    assert failed is not None
    ended = f"Rank 1 was killed by {signal.Signals(-code).name}; rank 0 had already returned."
    assert failed.sentence == f"{ended} {why}".strip()
