"""How many calls of one kind the ranks have made, which shows who has left one out."""

from __future__ import annotations

from collections.abc import Iterable

from dtlib.measure.clinic.dumps import Call
from dtlib.measure.clinic.evidence import Evidence
from dtlib.measure.clinic.findings import listed


def exchanged(evidence: Evidence, number: int, call: Call) -> tuple[int, int] | None:
    """Count a rank's messages to or from its peer up to this one, and the peer's other ends.

    Nothing where the flight records leave messages out, as gloo's do.
    """
    peer = call.peer if call.peer is not None else -1
    mine, theirs = (r.dump if (r := evidence.ranks.get(n)) else None for n in (number, peer))
    if mine is None or theirs is None or call not in mine.calls:
        return None
    before = mine.calls[: mine.calls.index(call) + 1]
    back = [c for c in theirs.calls if (c.group, c.peer) == (call.group, number)]
    return (
        sum((c.group, c.name, c.peer) == (call.group, call.name, peer) for c in before),
        sum(c.name != call.name for c in back),
    )


def whole(evidence: Evidence, number: int, call: Call) -> bool:
    """Whether the records of a message's two ranks begin with the first message of its group."""
    for rank in (number, call.peer if call.peer is not None else -1):
        dump = evidence.ranks[rank].dump if rank in evidence.ranks else None
        sent = [c for c in (dump.calls if dump else ()) if c.group == call.group]
        first = next((c.number for c in sent if c.peer is not None), 1)
        if first != 1:
            return False
    return True


def fewer(evidence: Evidence, calls: dict[int, Call], odd: Iterable[int]) -> str:
    """Say how often the odd ranks have called the others' line, if that is less often than they."""
    late, others = list(odd), [rank for rank in calls if rank not in odd]
    call = calls[(others or late)[0]]
    made = {rank: _made(evidence, rank, call) for rank in calls}
    theirs, mine = {made[rank] for rank in others}, {made[rank] for rank in late}
    if len(theirs) != 1 or len(mine) != 1 or not 0 < min(mine) < min(theirs):
        return ""
    one, several = len(late) == 1, min(theirs)
    return (
        f" Up to there {listed(late)} {'has' if one else 'have'} called {call.name} at"
        f" {call.where.place} {_times(min(mine))}, and {listed(others)} {_times(several)}:"
        f" {listed(late)} may have left one out long before, or ended {'its' if one else 'their'}"
        " loop too early."
    )


def _made(evidence: Evidence, rank: int, call: Call) -> int:
    """Count a rank's calls of this name and line, up to this number; 0 if its record is cut off."""
    dump = evidence.ranks[rank].dump
    group = [c for c in (dump.calls if dump else ()) if (c.group, c.peer) == (call.group, None)]
    if not group or group[0].number != 1 or not call.where.line:
        return 0
    same = [c for c in group if (c.name, c.where.place) == (call.name, call.where.place)]
    return sum(c.number <= call.number for c in same)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
