"""Ranks that wait for each other in a circle, at one moment."""

from __future__ import annotations

from dtlib.measure.clinic.counts import exchanged, whole
from dtlib.measure.clinic.evidence import Evidence
from dtlib.measure.clinic.findings import Finding, listed
from dtlib.measure.clinic.waits import Wait


def cycle_of(waiting: list[Wait]) -> list[Wait]:
    """Find waits each of which waits for a rank of the next, and the last for one of the first.

    They count only if all of them lasted at the same moment.
    """

    def follow(path: list[Wait]) -> list[Wait]:
        for other in waiting:
            if not set(path[-1].awaited) & set(other.calls):
                continue
            if other is path[0] and len(path) > 1:
                return path
            if other not in path and (found := follow([*path, other])):
                return found
        return []

    for one in waiting:
        cycle = follow([one])
        began = max((c.began for w in cycle for c in w.calls.values()), default=0.0)
        if cycle and began <= min(w.until for w in cycle):
            first = min(range(len(cycle)), key=lambda k: min(cycle[k].calls))
            return cycle[first:] + cycle[:first]
    return []


def deadlock(cycle: list[Wait], evidence: Evidence) -> Finding:
    """Say who waits for whom; first, where a message's other end waits in a collective."""
    for k, one in enumerate(cycle):
        following = cycle[(k + 1) % len(cycle)]
        if one.call.peer is not None and following.call.peer is None:
            return _without_other_end(cycle[k:] + cycle[:k], evidence)
    parts, lines = _parts(cycle)
    words = f"Deadlock: {'; '.join(parts)}. Each waits for another to go first.{_tags(cycle)}"
    rank, line = lines[0]
    few = min(cycle, key=lambda one: len(one.calls))
    if len(cycle) == 2 and len({len(one.calls) for one in cycle}) == 2:
        rank, call = next(iter(few.calls.items()))
        line = call.where.place
        words += f" The minority is {listed(few.calls)}."
    return Finding("deadlock", rank, str(cycle[0].call), line, words)


def _without_other_end(cycle: list[Wait], evidence: Evidence) -> Finding:
    """Say that a message's other end is not called, while its rank waits in a collective."""
    (number, call), there = next(iter(cycle[0].calls.items())), cycle[1]
    peer = call.peer if call.peer is not None else -1
    sends = call.name == "send"
    counted = exchanged(evidence, number, call) if whole(evidence, number, call) else None
    nth = f" for message {counted[0]}" if counted else ""
    done = f"has {'received' if sends else 'sent it'} {counted[1]} and " if counted else ""
    words = (
        f"Deadlock: rank {number} waits in {call.name} {'to' if sends else 'from'} rank {peer}"
        f" ({call.where.place}){nth}, but rank {peer} {done}is in {there.calls[peer]}."
    )
    parts, _ = _parts(cycle)
    others = "; ".join(parts[1:])
    words += f" Either rank {peer} has {'received' if sends else 'sent'} too few, or rank {number}"
    words += f" {'sends' if sends else 'expects'} too many, or the two calls are in another order."
    words += f" Further, {others}."
    return Finding("deadlock", peer, str(call), there.calls[peer].where.place, words)


def _parts(cycle: list[Wait]) -> tuple[list[str], list[tuple[int, str]]]:
    """Return, for each wait, what it is in words, and who is waited for at which line."""
    parts, lines = [], []
    for one, other in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
        meant = [r for r in one.awaited if r in other.calls]
        before = cycle[cycle.index(one) - 1]
        who = [r for r in one.calls if r in before.awaited]
        verb = "waits" if len(who) == 1 else "wait"
        parts.append(f"{listed(who)} {verb} for {listed(meant)} in {one.calls[who[0]]}")
        lines.append((meant[0], other.calls[meant[0]].where.place))
    return parts, lines


def _tags(cycle: list[Wait]) -> str:
    """Say that a message is not received because it is expected under another tag."""
    told = [(rank, call) for one in cycle for rank, call in one.calls.items()]
    tags = [call.tag for _, call in told]
    ends = {call.name for _, call in told}  # of two receives each expects a message of its own
    if len(told) != 2 or len(ends) != 2 or None in tags or tags[0] == tags[1]:
        return ""
    parts = [
        f"rank {rank} {'sends' if call.name == 'send' else 'expects'} tag {call.tag}"
        for rank, call in sorted(told, key=lambda one: one[1].name, reverse=True)
    ]
    return f" The tags differ: {', but '.join(parts)}."
