"""Ranks that wait for each other in a circle, at one moment."""

from __future__ import annotations

from dtlib.measure.clinic.findings import Finding, listed
from dtlib.measure.clinic.waits import Wait


def cycle_of(waiting: list[Wait]) -> list[Wait]:
    """Find waits each of which waits for a rank of the next, and the last for one of the first.

    They count only if all of them lasted at the same moment.
    """

    def follow(path: list[Wait]) -> list[Wait]:
        for other in waiting:
            if not set(path[-1].absent) & set(other.calls):
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


def deadlock(cycle: list[Wait]) -> Finding:
    parts, lines = [], []
    for one, other in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
        meant = [r for r in one.absent if r in other.calls]
        before = cycle[cycle.index(one) - 1]
        who = [r for r in one.calls if r in before.absent]
        verb = "waits" if len(who) == 1 else "wait"
        parts.append(f"{listed(who)} {verb} for {listed(meant)} in {one.calls[who[0]]}")
        lines.append((meant[0], other.calls[meant[0]].where.place))
    words = f"Deadlock: {'; '.join(parts)}. Each waits for another to go first.{_tags(cycle)}"
    rank, line = lines[0]
    few = min(cycle, key=lambda one: len(one.calls))
    if len(cycle) == 2 and len({len(one.calls) for one in cycle}) == 2:
        rank, call = next(iter(few.calls.items()))
        line = call.where.place
        words += f" The minority is {listed(few.calls)}."
    return Finding("deadlock", rank, str(cycle[0].call), line, words)


def _tags(cycle: list[Wait]) -> str:
    """Say that a message is not received because it is expected under another tag."""
    told = [(rank, call) for one in cycle for rank, call in one.calls.items()]
    tags = [call.tag for _, call in told]
    if len(told) != 2 or None in tags or tags[0] == tags[1]:
        return ""
    parts = [
        f"rank {rank} {'sends' if call.name == 'send' else 'expects'} tag {call.tag}"
        for rank, call in sorted(told, key=lambda one: one[1].name, reverse=True)
    ]
    return f" The tags differ: {', but '.join(parts)}."
