"""Calls that every rank has joined, and that do not end."""

from __future__ import annotations

from dtlib.measure.clinic.evidence import MAKE_GROUPS, UNRECORDED, Evidence
from dtlib.measure.clinic.findings import Finding, capital, listed
from dtlib.measure.clinic.waits import Wait


def stuck(one: Wait, lasting: str, evidence: Evidence) -> Finding:
    """Say why a call may not end that no rank is missing from; `lasting` is for how long."""
    call, who = one.call, capital(listed(one.calls))
    verb = "waits" if len(one.calls) == 1 else "wait"
    begin = f"{who} {verb} in {call}{lasting}"
    if call.name in MAKE_GROUPS:
        return _groups(one, f"{who} {verb} in {call.name}{lasting}", evidence)
    if call.name in UNRECORDED:
        words = (
            f"{begin}, and no rank is elsewhere. All ranks of a group must call it equally often;"
            " no file says how often each did."
        )
        return Finding("hang", None, str(call), call.where.place, words)
    begin += ", which every rank of its group has joined"
    if said := _roots(one, evidence):
        return Finding("mismatch", None, str(call), call.where.place, f"{begin}, but {said}")
    words = f"{begin}: look at the network and the GPUs"
    words += ", for example with NCCL_DEBUG=INFO." if call.backend in ("", "nccl") else "."
    return Finding("hang", None, str(call), call.where.place, words)


def _roots(one: Wait, evidence: Evidence) -> str:
    """Say which rank each takes for the call's source or destination, if these differ."""
    roots = {r: root for r in one.calls if (root := evidence.ranks[r].root) is not None}
    if len(set(roots.values())) < 2:
        return ""
    told = ", ".join(f"rank {r} names rank {root}" for r, root in roots.items())
    ends = "destinations" if one.call.name in ("gather", "reduce") else "sources"
    words = f"with different {ends}: {told}. All ranks have to name the same."
    inside = (*one.calls, *one.absent, *one.unseen)
    members = evidence.members(one.call.group)
    through = [r for r in members if r not in inside and evidence.rank(r).dump]
    for rank in through:
        where = evidence.ranks[rank].where
        state = f"is {where}" if where else "has returned"
        words += f" Rank {rank} is through with it and {state}; no file shows which rank it named."
    if through:
        words += f" Print that: it tells who of {listed(roots)} is the odd one."
    return words


def _groups(one: Wait, begin: str, evidence: Evidence) -> Finding:
    """Say how many groups each rank has made, since the n-th of one must be the n-th of all."""
    words = (
        f"{begin}, and no rank is elsewhere. All ranks must make the same groups in the same order,"
        " also those that they are not in"
    )
    who: dict[tuple[str, int | None], list[int]] = {}
    for rank, call in one.calls.items():
        who.setdefault((call.where.place, evidence.ranks[rank].made), []).append(rank)
    told = [
        f"{listed(ranks)} {'makes its' if len(ranks) == 1 else 'make their'}"
        f" {f'group number {made}' if made else 'group'} at {place}"
        for (place, made), ranks in who.items()
    ]
    words += f": {', but '.join(told)}. "
    if len(who) == 1:
        known = evidence.ranks[next(iter(one.calls))].made
        words += "Compare what each gives it." if known else "Count the groups that each makes."
        return Finding("hang", None, str(one.call), one.call.where.place, words)
    words += "Look for a group that only some of them make."
    sizes = sorted((len(ranks), ranks[0]) for ranks in who.values())
    odd = sizes[0][1] if sizes[0][0] < sizes[1][0] else None
    line = one.calls[odd].where.place if odd is not None else one.call.where.place
    return Finding("mismatch", odd, one.call.name, line, words)
