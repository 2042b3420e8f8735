"""What the ranks' logs say of time-outs and broken connections, where no dump says more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from dtlib.measure.clinic.evidence import Evidence
from dtlib.measure.clinic.findings import Finding, capital, listed
from dtlib.measure.clinic.logs import Expired


def expired(evidence: Evidence) -> Iterator[Finding]:
    """Yield, for each group, in which collectives NCCL's watchdog says that ranks timed out."""
    first: dict[str, dict[int, Expired]] = {}
    for number, rank in sorted(evidence.ranks.items()):
        for one in rank.log.expired:
            first.setdefault(one.group, {}).setdefault(number, one)
    for calls in first.values():
        yield _expired(calls, evidence.world_size)


def _expired(calls: dict[int, Expired], world_size: int) -> Finding:
    who: dict[str, list[int]] = {}
    for rank, call in calls.items():
        who.setdefault(str(call), []).append(rank)
    longest = max(call.seconds for call in calls.values())
    parts = [f"{listed(ranks)} in {call}" for call, ranks in who.items()]
    words = f"NCCL's watchdog ended collectives after {longest:.0f} s: {', but '.join(parts)}."
    silent = [rank for rank in range(world_size) if rank not in calls]
    if len(who) == 1 and silent:
        words += f" No line says where {listed(silent)} was: look there."
        return Finding("hang", silent[0], next(iter(who)), "", words)
    if len(who) == 1:
        words += " No rank is behind by these lines; a rank without such a line would be."
        return Finding("hang", None, next(iter(who)), "", words)
    behind = min(call.number for call in calls.values())
    late = [rank for rank, call in calls.items() if call.number == behind]
    if len(late) < len(calls):
        words += f" {capital(listed(late))} did not get as far as the others."
    else:
        usual = Counter(map(str, calls.values())).most_common(1)[0][0]
        late = [rank for rank, call in calls.items() if str(call) != usual]
        words += " The calls differ, although they have the same number."
    usual = next(str(call) for rank, call in calls.items() if rank not in late)
    return Finding("mismatch", late[0], usual, "", words)


def unexplained(evidence: Evidence) -> Iterator[Finding]:
    """Yield errors that follow from another rank's end or a wait, of which no file says more."""
    same: dict[str, list[int]] = {}
    for number, rank in sorted(evidence.ranks.items()):
        for error in rank.log.raised[:1]:
            same.setdefault(str(error), []).append(number)
    silent = [
        r for r in range(evidence.world_size) if r not in {n for s in same.values() for n in s}
    ]
    for what, ranks in same.items():
        words = f"{capital(listed(ranks))} raised {what}, which follows from what another rank did"
        words += f": look at {listed(silent)}, whose end no file shows." if silent else "."
        line = evidence.ranks[ranks[0]].log.raised[0].where.place
        yield Finding("error", silent[0] if silent else None, "", line, words)
