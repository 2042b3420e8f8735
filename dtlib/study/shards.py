"""How many elements of the model a rank really holds, with shards padded or cut by rows."""

from __future__ import annotations

from math import prod

from dtlib.sim import states, tensors
from dtlib.study.facts import Facts, Sizes


def shard(facts: Facts) -> tuple[int, str]:
    """Return the number of elements in a rank's shard, and how it is cut."""
    sizes = [prod(size) for _, size in facts.tensors]
    if facts.strategy == "tensor":
        return tensors.count(facts.own), "words: the last tensor rank has fewer"
    if facts.strategy == "fsdp":
        held = sum(_rows(size, facts.shards, facts.place["data"]) for _, size in facts.own)
        return held, "rows: each tensor is cut along its first dimension"
    if facts.stage == 3:
        padded = states.padded_each(sizes, facts.ranks) // facts.ranks
        return padded, "padding of each tensor to a multiple of N"
    if facts.stage:
        padded = sum(states.padded_flat(sum(group), facts.ranks) for group in facts.groups)
        return padded // facts.ranks, "padding of each flat group to a multiple of 2N"
    return facts.parameters, ""


def straddling(facts: Facts) -> int:
    """Return how many elements of tensors lie beyond the ends of a rank's flat shards.

    Stages 1 and 2 reduce whole tensors, so a tensor on a border is kept whole on both sides.
    """
    beyond = 0
    for group in facts.groups:
        part = states.padded_flat(sum(group), facts.ranks) // facts.ranks
        start, stop, at = part * facts.page.rank, part * (facts.page.rank + 1), 0
        for size in group:
            inside = min(stop, at + size) - max(start, at)
            beyond += size - inside if inside > 0 else 0
            at += size
    return beyond


def padded(facts: Facts, root: bool = False, ranks: int | None = None) -> int:
    """Return how many elements are gathered for all tensors (or the root's), including padding.

    `ranks` is the size of FSDP's shard group (default: the run's).
    """
    chosen = [(name, size) for name, size in facts.own if not root or in_root(name)]
    if facts.strategy == "fsdp":
        return states.padded_rows(chosen, ranks or facts.shards)
    if facts.stage == 3:
        return states.padded_each([prod(size) for _, size in chosen], facts.ranks)
    if facts.stage:
        return sum(states.padded_flat(sum(group), facts.ranks) for group in facts.groups)
    return sum(prod(size) for _, size in chosen)


def persistent(facts: Facts) -> int:
    """Return how many elements DeepSpeed's stage 3 keeps whole on every rank."""
    threshold = facts.zero.get("stage3_param_persistence_threshold", 100_000)
    return sum(n for _, size in facts.tensors if (n := prod(size)) <= threshold)


def sub_groups(facts: Facts) -> int:
    """Return the number of sub-groups of DeepSpeed's stage 3 in the optimizer's two groups.

    A sub-group is full as soon as its shards have `sub_group_size` elements.
    """
    largest, found = facts.zero.get("sub_group_size", 10**9), 0
    for group in facts.groups:
        parts = [states.share(size, facts.ranks) for size in group]
        filled = 0
        for number, part in enumerate(parts, start=1):
            filled += part
            if filled >= largest or number == len(parts):
                found, filled = found + 1, 0
    return found


def in_root(name: str) -> bool:
    """Tell whether a parameter is in FSDP's root, outside all blocks."""
    return not name.startswith(("h.", "blocks."))


def _rows(size: Sizes, ranks: int, rank: int) -> int:
    chunk = states.share(size[0], ranks)
    return max(0, min(chunk, size[0] - rank * chunk)) * prod(size[1:])
