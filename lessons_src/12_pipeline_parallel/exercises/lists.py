"""What two exercises of lesson 12 share: a student's lists, read line by line."""

from __future__ import annotations

import itertools
import re
from typing import Any

from dtlib.errors import BadInput
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
            if key := early(line, lines[: number - 1]):
                facts = {"line": number, "what": named(line), "m": line.micro_batch}
                return Wrong(key, rank=rank, **facts)
    return None


def early(line, before) -> str:
    """The key for a line that comes before what it needs, or nothing."""
    m, rank = line.micro_batch, line.stage
    if isinstance(line, p.BackwardWeight) and p.BackwardInput(m, rank) not in before:
        return "weight_first"
    if not isinstance(line, p.Forward) and p.Forward(m, rank) not in before:
        return "backward_first"
    return ""


def missing(m, rank, lines) -> str:
    """The key for what is missing of a micro-batch on a rank, or nothing."""
    halves = [kind(m, rank) in lines for kind in HALVES]
    whole = p.Backward(m, rank) in lines
    if p.Forward(m, rank) not in lines:
        return "no_forward"
    if whole and any(halves):
        return "both"
    if not whole and not any(halves):
        return "no_backward"
    return "no_weight" if not whole and not halves[1] else ""


def times(lists, seconds=None):
    """The spans of the lists, or the `Wrong` that says how the ranks wait in a circle."""
    try:
        return p.follow(p.with_messages(lists), seconds or SECONDS)
    except BadInput as refused:
        waits = re.findall(r"rank (\d+), line \d+, (\w+)\(micro_batch=(\d+)", str(refused))
        (a, first, i), (b, second, j) = waits
        what = {"ReceiveGradient": "gradient", "ReceiveActivation": "input"}
        turned = [rank for rank, lines in enumerate(lists) if not in_order(lines)]
        return Wrong(
            "crossed" if turned else "circle", a=a, first=f"the {what[first]} of micro-batch {i}",
            b=b, second=f"the {what[second]} of micro-batch {j}", rank=(turned or [0])[0],
        )  # fmt: skip


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
