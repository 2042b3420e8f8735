"""What two exercises of lesson 12 share: a student's lists, read line by line."""

from __future__ import annotations

import itertools
from typing import Any

from dtlib.learn.calls import ask
from dtlib.learn.verdicts import Wrong
from dtlib.scratch import pipeline as p

ENDLESS = 500  # instructions: far more than any right list has
HALVES = (p.BackwardInput, p.BackwardWeight)
WORDS = {
    p.Forward: "Forward", p.Backward: "Backward", p.BackwardInput: "BackwardInput",
    p.BackwardWeight: "BackwardWeight",
}  # fmt: skip


def ask_all_ranks(answer, ranks, micro_batches):
    """The lists of all ranks, read; a list of one rank after the other."""
    return [read(answer, rank, ranks, micro_batches) for rank in range(ranks)]


def read(answer, rank, ranks, micro_batches):
    """A rank's list: instructions for its own stage, and for micro-batches that exist."""
    got = answer(rank, ranks, micro_batches)
    if got is None:
        raise Wrong("none")
    lines = ask(lambda: list(itertools.islice(iter(got), ENDLESS)), case="")
    for number, line in enumerate(lines, start=1):
        facts = {"rank": rank, "line": number, "what": named(line), "last": micro_batches - 1}
        if type(line) not in WORDS:
            raise Wrong("no_instruction", **facts)
    swapped = lines and all(line.micro_batch == rank for line in lines)
    if swapped and {line.stage for line in lines} == {*range(micro_batches)} != {rank}:
        number, line = next((k, x) for k, x in enumerate(lines, start=1) if x.stage != rank)
        raise Wrong("swapped", rank=rank, line=number, what=named(line))
    for number, line in enumerate(lines, start=1):
        facts = {"rank": rank, "line": number, "what": named(line), "last": micro_batches - 1}
        if line.stage != rank:
            raise Wrong("other_stage", stage=line.stage, **facts)
        if line.micro_batch not in range(micro_batches):
            raise Wrong("no_micro_batch", **facts)
    return lines


def named(line: Any) -> str:
    """An instruction as it is written."""
    if type(line) in WORDS:
        return f"{WORDS[type(line)]}({line.micro_batch}, {line.stage})"
    if isinstance(line, type):
        return f"the class {line.__name__}"
    words = repr(line)
    return words if len(words) <= 40 else f"a {type(line).__name__}"


def incomplete(lists, micro_batches) -> Wrong | None:
    """A line that is there twice or not at all, or comes before what it needs; None if none is."""
    for rank, lines in enumerate(lists):
        for number, line in enumerate(lines, start=1):
            if line in lines[: number - 1]:
                before = lines.index(line) + 1
                return Wrong("twice", rank=rank, line=number, what=named(line), before=before)
        for m in range(micro_batches):
            if key := missing(m, rank, lines):
                return Wrong(key, rank=rank, m=m)
        for number, line in enumerate(lines, start=1):
            if key := early(line, lines[: number - 1], lines):
                facts = {"line": number, "what": named(line), "m": line.micro_batch}
                return Wrong(key, rank=rank, **facts)
        for m in range(micro_batches):
            if key := missing_half(m, rank, lines):
                return Wrong(key, rank=rank, m=m)
    return None


def early(line, before, lines) -> str:
    """The key for a line that comes before what it needs, or nothing."""
    m, rank = line.micro_batch, line.stage
    needed = p.BackwardInput(m, rank)
    if isinstance(line, p.BackwardWeight) and needed in lines and needed not in before:
        return "weight_first"
    if not isinstance(line, p.Forward) and p.Forward(m, rank) not in before:
        return "backward_first"
    return ""


def missing(m, rank, lines) -> str:
    """The key for a micro-batch without forward or backward on a rank, or nothing."""
    halves = [kind(m, rank) in lines for kind in HALVES]
    whole = p.Backward(m, rank) in lines
    if p.Forward(m, rank) not in lines:
        return "no_forward"
    if whole and any(halves):
        return "both"
    return "no_backward" if not whole and not any(halves) else ""


def missing_half(m, rank, lines) -> str:
    """The key for a micro-batch with half of a backward on a rank, or nothing."""
    halves = [kind(m, rank) in lines for kind in HALVES]
    return "" if halves[0] == halves[1] else "no_weight" if halves[0] else "no_input"


def times(lists, micro_batches):
    """The spans of the lists, or the `Wrong` that says how two ranks wait for each other."""
    pair = in_a_circle(lists)
    if pair is None:
        return p.follow(p.with_messages(lists), SECONDS)
    a, i, j = pair
    turned = [rank for rank, lines in enumerate(lists) if not in_order(lines)]
    first = [forwards_first(lines) for lines in lists[a : a + 2]]
    enough = first[0] > first[1] or first[0] == micro_batches
    key = "crossed" if turned else "in_a_row" if enough else "circle"
    return Wrong(key, a=a, b=a + 1, i=i, j=j, rank=(turned or [0])[0])


def in_a_circle(lists) -> tuple[int, int, int] | None:
    """Of two ranks that wait for each other: the first, its gradient, and the other's input."""
    at = [0] * len(lists)
    done: set[Any] = set()
    waits = [lines[0] if lines else None for lines in lists]
    moved = True
    while moved:
        moved = False
        for rank, lines in enumerate(lists):
            while at[rank] < len(lines) and ready(lines[at[rank]], len(lists), done):
                done.add(lines[at[rank]])
                at[rank] += 1
                moved = True
            waits[rank] = lines[at[rank]] if at[rank] < len(lines) else None
    for rank, (line, after) in enumerate(itertools.pairwise(waits)):
        if isinstance(after, p.Forward) and isinstance(line, p.Backward | p.BackwardInput):
            return rank, line.micro_batch, after.micro_batch
    return None


def ready(line, ranks, done):
    """Whether a line has what it needs from the rank before or after its own."""
    m, rank = line.micro_batch, line.stage
    if isinstance(line, p.Forward):
        return rank == 0 or p.Forward(m, rank - 1) in done
    if isinstance(line, p.BackwardWeight) or rank == ranks - 1:
        return True
    return bool({p.Backward(m, rank + 1), p.BackwardInput(m, rank + 1)} & done)


def forwards_first(lines):
    """How many forwards a rank runs before its first backward."""
    kinds = [isinstance(line, p.Forward) for line in lines]
    return kinds.index(False) if False in kinds else len(kinds)


def second_in_a_row(lines) -> dict[str, Any] | None:
    """The first two lines of a kind between the first backward and the last forward, or None."""
    forwards = [isinstance(line, p.Forward) for line in lines]
    last = len(forwards) - forwards[::-1].index(True)
    for k in range(forwards.index(False) + 1, last):
        if forwards[k] == forwards[k - 1]:
            return {"line": k + 1, "kind": "forward" if forwards[k] else "backward"}
    return None


def under_way(lines):
    """After each line, how many micro-batches wait for the gradient of their input."""
    steps = (
        isinstance(line, p.Forward) - isinstance(line, p.Backward | p.BackwardInput)
        for line in lines
    )
    return list(itertools.accumulate(steps))


def in_order(lines):
    """Whether forwards, and input gradients, come in the order of their micro-batches."""
    kinds = (p.Forward, p.Backward | p.BackwardInput)
    each = [[line.micro_batch for line in lines if isinstance(line, kind)] for kind in kinds]
    return all(numbers == sorted(numbers) for numbers in each)


def unlike_1f1b(got, micro_batches) -> tuple[str, dict[str, Any]] | None:
    """The key and numbers of what makes a longer bubble than 1F1B's, or None.

    What is none of these has as many micro-batches under way as 1F1B, or more, at all times.
    """
    ranks = len(got)
    now = [under_way(lines) for lines in got]
    if all(max(many) == 1 for many in now):
        return "one_at_a_time", {}
    if all(in_rounds(lines) for lines in got):
        return "rounds", {"kept": max(now[0])}
    if turned := [rank for rank, lines in enumerate(got) if not in_order(lines)]:
        return "order", {"rank": turned[0]}
    for rank, lines in enumerate(got):
        want = min(ranks - rank, micro_batches)
        facts = {"rank": rank, "want": want, "less": want - 1}
        if max(now[rank]) < want:
            return "late", {"kept": max(now[rank]), **facts}
        last = max(k for k, line in enumerate(lines) if isinstance(line, p.Forward))
        for k, line in enumerate(lines[:last]):
            if now[rank][k] < want - 1 and not isinstance(line, p.Forward | p.BackwardWeight):
                what = named(line)
                return "drains", {"line": k + 1, "what": what, "left": now[rank][k], **facts}
    return None


def ahead_of_1f1b(got, micro_batches) -> dict[str, Any] | None:
    """The numbers of the rank on which most micro-batches are under way that 1F1B has not yet."""
    ranks = len(got)
    now = [max(under_way(lines)) for lines in got]
    want = [min(ranks - rank, micro_batches) for rank in range(ranks)]
    rank = max(range(ranks), key=lambda rank: now[rank] - want[rank])
    found = {"rank": rank, "under": now[rank], "want": want[rank]}
    return found if now[rank] > want[rank] else None


def in_rounds(lines):
    """Whether several forwards run, then all their backwards, and so on again."""
    now = under_way(lines)
    starts = [
        now[k - 1]
        for k in range(1, len(lines))
        if isinstance(lines[k], p.Forward) and not isinstance(lines[k - 1], p.Forward)
    ]
    return max(now) > 1 and len(starts) > 0 and not any(starts)


SECONDS = {"Forward": 1.0, "Backward": 2.0, "BackwardInput": 1.0, "BackwardWeight": 1.0}
