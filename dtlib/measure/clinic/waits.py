"""Compare the ranks: which collective has some of them waiting, and who has not joined it.

Collectives of a group are matched by their order alone, so the n-th of one rank meets the n-th of
every other.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from dtlib.measure.clinic.counts import exchanged
from dtlib.measure.clinic.dumps import Call
from dtlib.measure.clinic.evidence import UNRECORDED, Evidence, Rank

_PEER = re.compile(r"\b(?:send|recv)\([^,()]+,\s*(?:(?:dst|src)\s*=\s*)?(\d+)\s*[,)]")


_FROM_ONE = re.compile("broadcast|scatter$")  # but reduce_scatter, which names no rank


@dataclass(frozen=True)
class Wait:
    """The ranks that wait in one call, and those that have not joined it as far as is known.

    `unseen` are members of the group that left no dump; `seconds` is for how long the waiting is
    certain; `until` is when it was last seen. `source` is the rank whose data those in the call
    wait for, if they wait for that one alone.
    """

    calls: dict[int, Call]
    absent: tuple[int, ...]
    unseen: tuple[int, ...]
    seconds: float
    until: float
    source: int | None = None

    @property
    def call(self) -> Call:
        """The call, as the first waiting rank made it."""
        return next(iter(self.calls.values()))

    @property
    def awaited(self) -> tuple[int, ...]:
        """The absent ranks that those in the call wait for: its source alone, if it is absent."""
        return tuple(r for r in self.absent if r == self.source) or self.absent


@dataclass(frozen=True)
class Mismatch:
    """Different calls at the same place in a group's order; `odd` are the ranks in the minority.

    `skipped` says that the odd ranks go on as if they had left out one call of the others.
    """

    calls: dict[int, Call]
    odd: tuple[int, ...]
    skipped: bool = False


@dataclass
class Table:
    """Calls of one group by rank and number."""

    group: str
    calls: dict[int, dict[int, Call]] = field(default_factory=dict)

    def newest(self, rank: int) -> int:
        """Return the number of a rank's newest call, 0 if it made none."""
        return max(self.calls.get(rank, {}), default=0)


def tables(evidence: Evidence) -> list[Table]:
    """Return a table for each group, without messages."""
    found: dict[str, Table] = {}
    for rank in evidence.ranks.values():
        for call in rank.dump.calls if rank.dump else ():
            if call.peer is None:
                table = found.setdefault(call.group, Table(call.group))
                table.calls.setdefault(rank.number, {})[call.number] = call
    return list(found.values())


def mismatches(evidence: Evidence) -> Iterator[Mismatch]:
    """Yield the first place of each group at which ranks made different calls."""
    for table in tables(evidence):
        for number in sorted({n for calls in table.calls.values() for n in calls}):
            here = {r: calls[number] for r, calls in sorted(table.calls.items()) if number in calls}
            kinds = Counter(call.shape for call in here.values())
            if len(kinds) > 1:
                usual, count = kinds.most_common(1)[0]
                tie = list(kinds.values()).count(count) > 1
                odd = tuple(r for r, c in here.items() if c.shape != usual)
                odd = _new_line(table, number, here) if tie else odd
                yield Mismatch(here, *_skipping(table, number, odd, here))
                break


def _new_line(table: Table, number: int, here: dict[int, Call]) -> tuple[int, ...]:
    """Return the ranks whose line no rank had called from before, if those of others had been."""
    calls = [c for calls in table.calls.values() for c in calls.values() if c.number < number]
    before = {call.where.place for call in calls}
    new = tuple(rank for rank, call in here.items() if call.where.place not in before)
    return new if len(new) < len(here) else ()


def _skipping(
    table: Table, number: int, odd: tuple[int, ...], here: dict[int, Call]
) -> tuple[tuple[int, ...], bool]:
    """Find ranks whose calls are those of the others with one left out."""

    def shapes(rank: int, first: int) -> list[tuple[str, str]]:
        calls = table.calls[rank]
        return [calls[n].shape for n in range(first, table.newest(rank) + 1) if n in calls]

    candidates = odd or tuple(here)
    for rank in candidates:
        others = [r for r in here if here[r].shape != here[rank].shape]
        for other in others:
            mine, theirs = shapes(rank, number), shapes(other, number + 1)
            length = min(len(mine), len(theirs))
            if length and mine[:length] == theirs[:length]:
                return odd or (rank,), True
    return odd, False


def waits(evidence: Evidence) -> list[Wait]:
    """Return the oldest call of each group that some ranks wait in, the first that began first."""
    found = [wait for table in tables(evidence) if (wait := _oldest(evidence, table))]
    if not any(rank.dump for rank in evidence.ranks.values()):
        found += _by_stacks(evidence)
    else:
        found += _by_stacks(evidence, UNRECORDED)
    return sorted([*found, *_messages(evidence)], key=lambda wait: wait.call.began)


def _oldest(evidence: Evidence, table: Table) -> Wait | None:
    members = evidence.members(table.group)
    seen = [r for r in members if (rank := evidence.ranks.get(r)) and rank.dump]
    for number in sorted({n for calls in table.calls.values() for n in calls}):
        absent = tuple(r for r in seen if table.newest(r) < number)
        here = {r: c for r in seen if (c := table.calls.get(r, {}).get(number))}
        pending = {
            r: c
            for r, c in here.items()
            if not c.ended or (c.joint and _cannot_have_ended(evidence, r, absent))
        }
        # its dump may be older than its end: of one that has returned, nobody waits
        pending = {r: c for r, c in pending.items() if evidence.ranks[r].ended != "returned"}
        if pending:
            taken = [_taken(evidence, r) for r in (*pending, *absent)]
            until, began = min(taken), max(c.began for c in pending.values())
            call = next(iter(pending.values()))
            unseen = tuple(
                r for r in members if r not in seen and not _is_in(evidence.ranks.get(r), call)
            )
            source = _source(evidence, pending)
            return Wait(pending, absent, unseen, max(0.0, until - began), until, source)
    return None


def _source(evidence: Evidence, pending: dict[int, Call]) -> int | None:
    """Return the rank from which all that wait in a call get their data, if it is known."""
    named = set()
    for number, call in pending.items():
        rank = evidence.ranks[number]
        inside = rank.where is not None and rank.where.place == call.where.place
        named.add(rank.root if inside else None)
    from_one = all(_FROM_ONE.search(call.name) for call in pending.values())
    return named.pop() if from_one and len(named) == 1 else None


def _is_in(rank: Rank | None, call: Call) -> bool:
    """Whether a rank without a dump is seen in the same call by its stack."""
    where = rank.where if rank else None
    return where is not None and where.call == call.name and where.place == call.where.place


def _cannot_have_ended(evidence: Evidence, rank: int, absent: tuple[int, ...]) -> bool:
    """Whether a later dump of some rank shows that it had not even joined: so the call failed."""
    return any(
        evidence.ranks[r].final or _taken(evidence, r) >= _taken(evidence, rank) for r in absent
    )


def _taken(evidence: Evidence, rank: int) -> float:
    """When a rank's dump was written; never before its newest call."""
    found = evidence.ranks[rank]
    newest = max((c.began for c in found.dump.calls), default=0.0) if found.dump else 0.0
    return max((found.taken if found.dumped is None else found.dumped) or 0.0, newest)


def _messages(evidence: Evidence) -> Iterator[Wait]:
    """Yield waits in messages: from the flight record (NCCL) or from stacks."""
    batches = {r.number: found for r in evidence.ranks.values() if (found := _waited_for(r))}
    for number, batch in batches.items():
        lost = [call for call in batch if not _answered(evidence, number, call, batches)]
        if not lost:
            continue
        call = lost[0]
        assert call.peer is not None
        other, until = evidence.ranks.get(call.peer), evidence.ranks[number].taken or 0.0
        until = min(until, other.taken) if other and other.taken else until
        seconds = max(0.0, until - call.began) if call.began else 0.0
        there, unseen = ((call.peer,), ()) if other else ((), (call.peer,))
        yield Wait({number: call}, there, unseen, seconds, until)


def _answered(evidence: Evidence, number: int, call: Call, batches: dict[int, list[Call]]) -> bool:
    """Whether the peer has called the other end of a rank's message, so that it is on its way."""

    def other_end(back: Call) -> bool:
        tags = {back.tag, call.tag} - {None}
        return back.peer == number and back.name != call.name and len(tags) < 2

    peer = call.peer if call.peer is not None else -1
    if any(map(other_end, batches.get(peer, ()))):
        return True
    counted = exchanged(evidence, number, call)
    return counted is not None and counted[1] >= counted[0]  # the k-th of one is the other's k-th


def _waited_for(rank: Rank) -> list[Call]:
    """Return the message that a rank waits for, or all of a batch, whose other end is known."""
    pending = [c for c in (rank.dump.calls if rank.dump else ()) if c.peer is not None]
    pending = [call for call in pending if not call.ended]
    if pending:
        first = pending[0].group, pending[0].number
        return [call for call in pending if (call.group, call.number) == first]
    where = rank.where
    if rank.ended or where is None or where.call not in ("send", "recv"):
        return []
    told = _PEER.search(where.source)
    peer = rank.peer if rank.peer is not None else int(told[1]) if told else None
    if peer is None:
        return []
    return [Call("", 0, where.call, where.what, False, rank.since or 0.0, where, peer, rank.tag)]


def _by_stacks(evidence: Evidence, only: tuple[str, ...] = ()) -> Iterator[Wait]:
    """Yield what some ranks wait in by their stacks alone; `only` in these calls, if any."""
    there = {r.number: r for r in evidence.ranks.values() if r.where or r.ended}
    inside = {
        number: Call("", 0, rank.where.call, rank.where.what, False, rank.since or 0.0, rank.where)
        for number, rank in sorted(there.items())
        if rank.where and not rank.ended and rank.where.call not in ("", "send", "recv")
        if not only or rank.where.call in only
    }
    for name in {call.name for call in inside.values()}:
        here = {number: call for number, call in inside.items() if call.name == name}
        members = evidence.ranks[next(iter(here))].members or range(evidence.world_size)
        absent = tuple(number for number in there if number not in here and number in members)
        unseen = tuple(number for number in members if number not in there)
        until = min((t for n in here if (t := there[n].taken)), default=0.0)
        began = max(call.began for call in here.values())
        yield Wait(here, absent, unseen, max(0.0, until - began) if began else 0.0, until)


def longest_pause(evidence: Evidence) -> float:
    """Return the longest time between two calls that a rank began one after the other, in s."""
    longest = 0.0
    for rank in evidence.ranks.values():
        began = [call.began for call in rank.dump.calls] if rank.dump else []
        longest = max([longest, *(b - a for a, b in pairwise(began))])
    return longest
