"""Intervals of time as sorted, disjoint pairs (begin, end): an overlap counts once."""

from __future__ import annotations

from collections.abc import Iterable

Intervals = list[tuple[float, float]]


def union(intervals: Iterable[tuple[float, float]]) -> Intervals:
    """Return the intervals sorted; those that touch are merged, empty ones are dropped."""
    merged: Intervals = []
    for begin, end in sorted(pair for pair in intervals if pair[1] > pair[0]):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def length(intervals: Intervals) -> float:
    """The total time of a union."""
    return sum(end - begin for begin, end in intervals)


def overlap(a: Intervals, b: Intervals) -> Intervals:
    """The times that are in both of two unions."""
    found: Intervals = []
    i = k = 0
    while i < len(a) and k < len(b):
        begin, end = max(a[i][0], b[k][0]), min(a[i][1], b[k][1])
        if begin < end:
            found.append((begin, end))
        if a[i][1] < b[k][1]:
            i += 1
        else:
            k += 1
    return found


def without(a: Intervals, b: Intervals) -> Intervals:
    """The times that are in union `a` but not in union `b`."""
    left: Intervals = []
    for begin, end in a:
        for other_begin, other_end in b:
            if other_end <= begin:
                continue
            if other_begin >= end:
                break
            if other_begin > begin:
                left.append((begin, other_begin))
            begin = max(begin, other_end)
        if begin < end:
            left.append((begin, end))
    return left
