"""Exercise 7.2: send to the right, receive from the left, on a ring of any size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from dtlib.learn.cases import Case, Round, Seen, painted
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.diagnosis import examine, number

# 16 MB: with a few bytes a message has left before its buffer can be overwritten.
LARGE = 4_000_000


def reference(x: torch.Tensor) -> torch.Tensor:
    """What the left neighbour passed: a buffer of its own, and a send that is waited for."""
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return x.clone()
    arrived = torch.empty_like(x)
    sending = dist.isend(x, (rank + 1) % n)
    dist.recv(arrived, (rank - 1) % n)
    assert sending is not None  # None is for ranks outside the group
    sending.wait()
    return arrived


def check(student: Callable[[torch.Tensor], Any]) -> Passed:
    """Run the student's function on 1, 3 and 4 ranks, with short and with 16 MB messages."""
    short, large = _case("4 numbers", 4), _case("4,000,000 numbers", LARGE, strict_buffers=True)
    plan = [(1, [short]), (3, [short, large]), (4, [short, _table()])]
    rounds = examine(student, plan, explain)
    large_round = next(r for r in rounds if r.case is large)
    _look_at_bytes(large_round)
    slowest = max(seen.seconds for seen in large_round.ranks)
    sent = large_round.ranks[0].bytes_sent
    return Passed(
        (("bytes sent by each rank", sent, 4 * LARGE, "bytes"),),
        f"16 MB went round 3 ranks in {slowest * 1e3:.0f} ms.",
    )


def _case(label: str, size: int, *, strict_buffers: bool = False) -> Case:
    return Case(
        label,
        painted(size),
        lambda rank, n: torch.full((size,), 10.0 ** ((rank - 1) % n)),
        strict_buffers=strict_buffers,
    )


def _table() -> Case:
    """Another shape and another dtype than the usual ones."""
    return Case(
        "a table of 3 by 2 integers",
        lambda rank, n: torch.full((3, 2), 10**rank),
        lambda rank, n: torch.full((3, 2), 10 ** ((rank - 1) % n)),
    )


def explain(round_: Round) -> Wrong | None:
    """Recognise a mistake by who waits for whom, and by whose paint arrived where."""
    if round_.n == 1:
        return _alone(round_)
    if round_.failures:
        return _stuck(round_)
    return _buffers(round_) or _whose(round_)


def _alone(round_: Round) -> Wrong | None:
    for _, failure in round_.failures:
        refused = failure.error in ("RuntimeError", "ValueError", "DistBackendError")
        about_ranks = "not connected" in failure.message or "rank" in failure.message.lower()
        if failure.waited_in or (refused and about_ranks):
            return Wrong("alone", round_.label)
    return None


def _stuck(round_: Round) -> Wrong | None:
    n = round_.n
    for seen in round_.ranks:
        for m in seen.messages:
            if m.kind == "send" and m.peer == n:
                return Wrong("no_modulo", round_.label, rank=seen.rank, peer=n)
            if m.peer is not None and not 0 <= m.peer < n:
                what = "sent to" if m.kind == "send" else "asked to receive from"
                return Wrong("no_such_rank", round_.label, rank=seen.rank, what=what, peer=m.peer)
    for seen in round_.ranks:
        # Its tensor is gone with the call, and the message may be gone with it.
        if seen.failure is None and (left := _left_on_its_way(seen)):
            return Wrong("never_waited", round_.label, rank=seen.rank, call=left)
    if len(round_.failures) < n or any(f.own for _, f in round_.failures):
        return None
    # When one rank's wait times out gloo closes its connections, so the others may see that first.
    calls = {tuple(m.kind for m in seen.messages) for seen in round_.ranks}
    if calls == {("send",)}:
        return Wrong("all_send", round_.label, n=n)
    if calls == {("recv",)}:
        return Wrong("all_receive", round_.label, n=n)
    return None


def _buffers(round_: Round) -> Wrong | None:
    for key, flag in (("one_buffer", "overlaps"), ("early_write", "changed")):
        if any(getattr(m, flag) for seen in round_.ranks for m in seen.messages):
            # The rank that shows it best: one with a mixture, else any wrong one, else rank 1.
            order = sorted(round_.ranks, key=lambda s: (len(s.counts) < 2, _is_own(s, round_.n)))
            return Wrong(key, round_.label, rank=order[0].rank, saw=_saw(order[0], round_.n))
    for seen in round_.ranks:
        if left := _left_on_its_way(seen):
            return Wrong("never_waited", round_.label, rank=seen.rank, call=left)
    return None


def _left_on_its_way(seen: Seen) -> str | None:
    """The call that a rank started and did not wait for: isend, irecv or None."""
    return next((f"i{m.kind}" for m in seen.messages if m.peer is not None and not m.waited), None)


def _is_own(seen: Seen, n: int) -> bool:
    """Whether a rank holds only what its left neighbour had, as it should."""
    return _held(seen).keys() == {10.0 ** ((seen.rank - 1) % n)}


def _held(seen: Seen) -> dict[float, int]:
    return seen.counts or {v: seen.values.count(v) for v in seen.values}


def _saw(seen: Seen, n: int) -> str:
    held = sorted(_held(seen).items(), key=lambda item: -item[1])
    owner = {10.0**r: f"rank {r}'s tensor" for r in range(n)}
    left = (seen.rank - 1) % n
    if len(held) > 1:
        parts = [f"{count:,} numbers are {owner.get(v, number(v))}" for v, count in held[:2]]
        return "received a mixture: " + " and ".join(parts)
    if held and held[0][0] != 10.0**left:
        what = owner.get(held[0][0], number(held[0][0]))
        return f"received {what} where rank {left}'s tensor was due"
    return "was lucky this time and received the right numbers"


def _whose(round_: Round) -> Wrong | None:
    n = round_.n
    got = round_.first_values
    if got == [10.0 ** ((r + 1) % n) for r in range(n)]:
        return Wrong("swapped", round_.label, got=number(got[1]), source=2 % n)
    if got == [10.0**r for r in range(n)]:
        return Wrong("own", round_.label, got=number(got[1]))
    return None


def _look_at_bytes(round_: Round) -> None:
    for seen in round_.ranks:
        if seen.collectives:
            raise Wrong("collective", round_.label, call=seen.collectives[0], n=round_.n)
        if seen.bytes_sent != 4 * LARGE:
            raise Wrong(
                "bytes", round_.label, rank=seen.rank, sent=seen.bytes_sent, target=4 * LARGE
            )
