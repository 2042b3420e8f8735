"""What the evidence of all ranks says: one sentence for each thing that is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dtlib.measure.clinic.checksums import differences
from dtlib.measure.clinic.counts import fewer
from dtlib.measure.clinic.deadlocks import cycle_of, deadlock
from dtlib.measure.clinic.evidence import Evidence, Rank
from dtlib.measure.clinic.findings import Finding, capital, listed
from dtlib.measure.clinic.lacking import LAG, behind, missing
from dtlib.measure.clinic.logged import expired, unexplained
from dtlib.measure.clinic.stuck import stuck
from dtlib.measure.clinic.waits import Mismatch, Wait, longest_pause, mismatches, waits
from dtlib.ranks.where import Where

PATIENCE = 10.0
"""Seconds that a wait may last in any run; in a slow one five times its longest pause."""
NOTHING = "left nothing"
AT_WORK = 300.0
"""Seconds that ranks may wait for one that computes, as in an evaluation on one rank."""
BUSY = 1e-3
"""Cores that a rank at work uses at least; a loader that polls for its worker uses fewer."""


@dataclass(frozen=True)
class Report:
    """All findings, the most telling first; what each rank was doing; what is missing."""

    findings: tuple[Finding, ...]
    ranks: dict[int, str]
    missing: tuple[str, ...]


def examine(evidence: Evidence, patience: float | None = None) -> Report:
    """Compare all ranks.

    Parameters
    ----------
    evidence
        What `evidence.gather` read.
    patience
        Seconds after which a wait counts as a hang; by default 10 s, or five times the longest
        pause between two collectives of the run, if that is more, and at least 300 s while the rank
        that is waited for uses the CPU. What is certain counts at once.
    """
    waiting = waits(evidence)
    pause = longest_pause(evidence)
    limit = max(PATIENCE, 5 * pause) if patience is None else patience
    at_work = max(AT_WORK, limit) if patience is None else patience
    found = [*_errors(evidence)]
    found += [_mismatch(one, evidence) for one in mismatches(evidence)]
    if cycle := cycle_of(waiting):
        found.append(deadlock(cycle, evidence))
    elif not any(one.kind == "mismatch" for one in found):
        limits = (limit, at_work)
        found += [f for one in waiting if (f := _wait(one, waiting, evidence, limits))]
    if not any(one.kind in ("mismatch", "deadlock", "hang") for one in found):
        found += expired(evidence)
    found += differences(evidence)
    if not any(one.alarm for one in found):
        found += unexplained(evidence)
    if not found and (unknown := _for_whom(evidence, limit)):
        found.append(unknown)
    ranks = {r: doing(evidence.rank(r), waiting) for r in range(evidence.world_size)}
    return Report(tuple(found), ranks, tuple(missing(evidence)))


def doing(rank: Rank, waiting: list[Wait]) -> str:
    """Say what a rank was doing when it was last seen."""
    if rank.ended == "returned":
        return "has returned"
    own = [error for error in rank.log.raised if not error.consequence]
    if own:
        return f"has raised {own[0]}"
    if rank.ended and not rank.log.raised:
        return f"{rank.ended}{_at(rank.where)}"
    for one in waiting:
        if rank.number in one.calls and (one.absent or one.unseen):
            return f"waits in {one.calls[rank.number]}"
    if rank.log.raised:
        return f"has raised {rank.log.raised[0]}"
    if rank.log.expired:
        return f"has timed out in {rank.log.expired[0]}"
    if rank.where and rank.where.line:
        return f"is {rank.where}"
    if rank.dump and rank.dump.calls:
        return f"has called {rank.dump.calls[-1]} last; the line that it is at now is unknown"
    return "left a log that shows no error" if rank.has_log else NOTHING


def _at(where: Where | None) -> str:
    if where is None or not where.place:
        return ""
    return f" in {where.call} ({where.place})" if where.call else f" ({where.place})"


def _line(rank: Rank) -> str:
    """Return the line at which a rank was last seen."""
    for error in rank.log.raised:
        return error.where.place
    if rank.where and rank.where.line:
        return rank.where.place
    calls = rank.dump.calls if rank.dump else ()
    return calls[-1].where.place if calls else ""


def _errors(evidence: Evidence) -> Iterator[Finding]:
    """Yield the errors that are no consequence of another rank's, each once."""
    same: dict[str, tuple[list[int], str]] = {}
    for number, rank in sorted(evidence.ranks.items()):
        own = [error for error in rank.log.raised if not error.consequence]
        if own:
            what, line = f"raised {own[0]}", own[0].where.place
        elif rank.ended not in ("", "returned") and not rank.log.raised:
            what, line = f"{rank.ended}{_at(rank.where)}", _line(rank)
        else:
            continue
        same.setdefault(what, ([], line))[0].append(number)
    for what, (ranks, line) in same.items():
        yield Finding("error", ranks[0], "", line, f"{capital(listed(ranks))} {what}.")


def _group(name: str) -> str:
    return "the default group" if name == "0" else f"group {name}"


def _mismatch(one: Mismatch, evidence: Evidence) -> Finding:
    groups: dict[str, list[int]] = {}
    for number, call in one.calls.items():
        groups.setdefault(str(call), []).append(number)
    parts = [
        f"{listed(ranks)} {'call' if len(ranks) > 1 else 'calls'} {call}"
        for call, ranks in groups.items()
    ]
    first = next(iter(one.calls.values()))
    words = f"Collective {first.number} of {_group(first.group)} differs: {', but '.join(parts)}."
    rank = one.odd[0] if one.odd else None
    if one.skipped and rank is not None:
        others = next(c for r, c in one.calls.items() if r not in one.odd)
        goes = "goes on as if it" if len(one.odd) == 1 else "go on as if they"
        words += f" {capital(listed(one.odd))} {goes} had left out {others}."
    elif one.odd:
        words += fewer(evidence, one.calls, one.odd)
    usual = next((c for r, c in one.calls.items() if r not in one.odd), first)
    line = one.calls[rank].where.place if rank is not None else first.where.place
    return Finding("mismatch", rank, str(usual), line, words)


def _wait(
    one: Wait, waiting: list[Wait], evidence: Evidence, limits: tuple[float, float]
) -> Finding | None:
    """Judge ranks that wait: for one that ended, for one that is late, for one not seen.

    `limits` are for a rank that waits, too, and for one that computes, in seconds.
    """
    call, who = one.call, listed(one.calls)
    verb = "waits" if len(one.calls) == 1 else "wait"
    inside = {number for wait in waiting for number in wait.calls}
    free = [r for r in one.absent if r not in inside] or list(one.absent)
    gone = [r for r in free if evidence.ranks[r].ended]
    timed_out = any(e.timed_out for r in evidence.ranks.values() for e in r.log.raised)
    timed_out = timed_out or any("imed out" in r.ended for r in evidence.ranks.values())
    busy = max((evidence.ranks[r].busy or 0.0 for r in free), default=0.0)
    late = [r for r in (*free, *one.unseen) if behind(evidence, r) > LAG]
    limit = limits[busy >= BUSY or (bool(late) and not free)]
    hangs = timed_out or one.seconds > limit or limit == 0  # 0 is said by who knows that it hangs
    if not free and one.unseen:
        return _unseen(one, hangs, late)
    if not free:
        return stuck(one, _lasting(one), evidence) if hangs else None
    rank = (gone or free)[0]
    state = doing(evidence.ranks[rank], [wait for wait in waiting if wait is not one])
    beginning = f"{capital(listed(gone or free))} did not join {call}: {who} {verb} there"
    if gone or hangs:
        words = f"{beginning}{_lasting(one)}, and rank {rank} {state}."
        words += _other_line(one, rank, evidence)
        return Finding("hang", rank, str(call), _line(evidence.ranks[rank]), words)
    pause = longest_pause(evidence)
    why = f"the longest pause before was {pause:.1f} s" if pause else "no file tells of the pauses"
    if busy >= BUSY:
        why = f"rank {rank} uses the CPU"
    words = (
        f"{capital(who)} {verb} for {listed(free)} in {call}{_lasting(one)}, while"
        f" rank {rank} {state}; up to {limit:.0f} s is no sign of a hang here"
        f" ({why}). Look again later: if it still waits there, it hangs."
    )
    return Finding("slow", rank, str(call), _line(evidence.ranks[rank]), words)


def _for_whom(evidence: Evidence, limit: float) -> Finding | None:
    """Name ranks that wait by their stacks, where no file says for whom."""
    inside = {
        r.number: r.where
        for r in evidence.ranks.values()
        if r.where and r.where.call and not r.ended and not r.dump
    }
    if not inside:
        return None
    calls = {where.call for where in inside.values()}
    told = "; ".join(f"{listed([r])} is {where}" for r, where in sorted(inside.items()))
    first = min(inside)
    if calls == {"recv"} and len(inside) == evidence.world_size > 1:
        sure = limit == 0
        words = f"Every rank waits for a message, and none sends one: {told}."
        words += "" if sure else " If a second set of stacks shows the same, it is a deadlock."
        kind = "deadlock" if sure else "slow"
        return Finding(kind, first, "recv", inside[first].place, words)
    words = f"{capital(told)}; for whom is not in these files, but in dumps of the flight recorder."
    return Finding("slow", None, inside[first].call, inside[first].place, words)


def _lasting(one: Wait) -> str:
    """Say for how long it is known to last, if that is known."""
    return f" for {one.seconds:.1f} s" if one.seconds >= 0.1 else ""


def _unseen(one: Wait, hangs: bool, late: list[int]) -> Finding:
    """Say that those who are not here may be those who are waited for."""
    verb = "waits" if len(one.calls) == 1 else "wait"
    words = f"{capital(listed(one.calls))} {verb} in {one.call}{_lasting(one)}"
    words += f", and {listed(one.unseen)} left no dump that shows whether it joined: "
    if hangs:
        words += "look there."
    elif late:
        words += "either it has ended, or it is too busy to write one. Look again later."
    else:
        words += "that is no sign of a hang yet; get it."
    return Finding("hang" if hangs else "slow", one.unseen[0], str(one.call), "", words)


def _other_line(one: Wait, rank: int, evidence: Evidence) -> str:
    """Say from which call on the absent rank's lines differ, which points to one left out."""
    mine, waiter = evidence.ranks[rank].dump, evidence.ranks[next(iter(one.calls))].dump
    if mine is None or waiter is None:
        return ""
    theirs = {c.number: c for c in waiter.calls if c.group == one.call.group and c.peer is None}
    for call in mine.calls:
        other = theirs.get(call.number)
        mine_too = call.group == one.call.group and call.peer is None and call.where.line
        if mine_too and other and call.where.place != other.where.place:
            return (
                f" From collective {call.number} on its lines differ ({call.where.place}, while"
                f" rank {next(iter(one.calls))} was at {other.where.place}): one of the two may"
                " have left a call out there."
            )
    return ""
