"""Exercise 28.2: which rows of a table may be compared, so that one setting alone differs."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dtlib.learn.asking import ask
from dtlib.learn.checking import Passed, Wrong

SETTINGS = (
    "strategy", "model", "precision", "optimizer", "world_size", "global_batch", "micro_batch",
    "max_length",
)  # fmt: skip
Row = dict[str, Any]
Pair = tuple[int, int]
MOST = 100  # pairs that are taken from an answer that never ends

BASE: Row = {
    "strategy": "ddp", "model": "gpt2", "precision": "bf16", "optimizer": "adamw", "world_size": 4,
    "global_batch": 32, "micro_batch": 4, "max_length": 1024,
}  # fmt: skip


def row(number: int = 0, **changed: Any) -> Row:
    """A row of the table, its results different from those of every other row."""
    return {**BASE, **changed, "tokens_per_s": 1000 + number, "peak_gib": 9.5 - number / 8}


def _rows(*changes: Row) -> list[Row]:
    return [row(k, **changed) for k, changed in enumerate(changes)]


CASES: tuple[tuple[str, list[Row], str], ...] = (
    ("ddp and zero2, all else alike", _rows({}, {"strategy": "zero2"}), "strategy"),
    (
        "ddp in fp32 and zero2 in bf16",
        _rows({"precision": "fp32"}, {"strategy": "zero2"}),
        "strategy",
    ),
    ("ddp twice, as repeats", _rows({}, {}), "strategy"),
    *(
        (
            f"ddp and zero2, whose {key} differs",
            _rows({}, {"strategy": "zero2", key: other}),
            "strategy",
        )
        for key, other in (
            ("model", "gpt2-medium"), ("optimizer", "fused adam"), ("world_size", 8),
            ("global_batch", 64), ("micro_batch", 8), ("max_length", 512),
        )
    ),
    (
        "ddp and zero2, neither of which tells its precision",
        _rows({"precision": None}, {"strategy": "zero2", "precision": None}),
        "strategy",
    ),
    ("fp32 and a row that does not tell", _rows({}, {"precision": None}), "precision"),
    (
        "ddp, zero1 and zero2 alike, and ddp and zero3 with a smaller batch",
        _rows(
            {}, {"strategy": "zero1"}, {"global_batch": 8, "micro_batch": 2},
            {"strategy": "zero2"}, {"strategy": "zero3", "global_batch": 8, "micro_batch": 2},
        ),
        "strategy",
    ),
    (
        "zero2 in bf16, ddp in bf16 and ddp in fp32",
        _rows({"strategy": "zero2"}, {}, {"precision": "fp32"}),
        "precision",
    ),
)  # fmt: skip


def reference(rows: Sequence[Row], factor: str) -> list[Pair]:
    """Pairs that differ in the factor, and whose other settings are known and equal."""
    return [
        (i, j)
        for i, j in itertools.combinations(range(len(rows)), 2)
        if _differ(rows[i], rows[j]) == {factor} and _told(rows[i], rows[j], factor)
    ]


def _differ(a: Row, b: Row) -> set[str]:
    """Settings that differ, and with them those that one of the rows does not tell."""
    return {key for key in SETTINGS if a[key] != b[key] or a[key] is None}


def _told(a: Row, b: Row, factor: str) -> bool:
    return a[factor] is not None and b[factor] is not None


def check(student: Callable[..., Any]) -> Passed:
    """Two rows first; then one confounder after another; what is not told; several rows."""
    for label, rows, factor in CASES:
        got, want = _ask(student, rows, factor, label), reference(rows, factor)
        if sorted(got) != want or len(set(got)) != len(got):
            raise _explain(got, want, rows, factor, label)
    rows = CASES[-2][1]
    found = len(_ask(student, rows, "strategy", CASES[-2][0]))
    return Passed(
        (("fair pairs among ten of five rows", found, len(reference(rows, "strategy")), ""),)
    )


def _ask(student: Callable[..., Any], rows: list[Row], factor: str, label: str) -> list[Pair]:
    mine = copy.deepcopy(rows)
    got = ask(student, mine, factor, case=label)
    if mine != rows:
        raise Wrong("mutates", label)
    if got is None:
        raise Wrong("none", label)
    if isinstance(got, (str, dict)) or not isinstance(got, Iterable):
        raise Wrong("not_a_list", label, got=type(got).__name__)
    taken = ask(lambda: list(itertools.islice(got, MOST)), case=label)
    pairs = []
    for pair in taken:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise Wrong("not_pairs", label, got=_shown(pair))
        if not all(isinstance(k, int) and not isinstance(k, bool) for k in pair):
            raise Wrong("not_places", label, got=_shown(pair))
        pairs.append((pair[0], pair[1]))
    return pairs


def _shown(thing: Any) -> str:
    text = repr(thing)
    return text if len(text) < 40 else f"a {type(thing).__name__}"


def _explain(got: list[Pair], want: list[Pair], rows: list[Row], factor: str, label: str) -> Wrong:
    facts = {"got": _pairs(got), "want": _pairs(want), "factor": factor, "n": len(rows)}
    if any(i == j for i, j in got):
        return Wrong("itself", label, **facts)
    if want and sorted(got) == sorted((i + 1, j + 1) for i, j in want):
        return Wrong("from_one", label, **facts)
    if any(not 0 <= k < len(rows) for pair in got for k in pair):
        return Wrong("outside", label, **facts)
    if any(i > j for i, j in got):
        return Wrong("both_ways" if set(want) <= set(got) else "backwards", label, **facts)
    if len(set(got)) != len(got):
        return Wrong("twice", label, **facts)
    extra = [pair for pair in got if pair not in want]
    if extra:
        return _unfair(extra[0], rows, factor, label, facts)
    lost = next(pair for pair in want if pair not in got)
    facts["lost"] = str(lost)
    if got and sorted(got) == [p for p in want if p[1] == p[0] + 1]:
        return Wrong("neighbours", label, **facts)
    if got and sorted(got) == [p for p in want if p[0] == 0]:
        return Wrong("with_first", label, **facts)
    if not got and len(rows) == 2:
        return Wrong("results_too", label, **facts)
    return Wrong("lost", label, **facts)


def _unfair(pair: Pair, rows: list[Row], factor: str, label: str, facts: dict[str, Any]) -> Wrong:
    a, b = (rows[k] for k in pair)
    facts |= {"i": pair[0], "j": pair[1]}
    if a[factor] is None or b[factor] is None:
        return Wrong("factor_unknown", label, **facts)
    if a[factor] == b[factor]:
        other = [key for key in SETTINGS if a[key] != b[key]]
        key = "other_factor" if other else "repeats"
        return Wrong(key, label, other=", ".join(other), **facts)
    untold = [key for key in SETTINGS if a[key] is None and b[key] is None]
    if untold:
        return Wrong("unknown_equal", label, which=untold[0], **facts)
    other = sorted(_differ(a, b) - {factor})
    values = f"{a[other[0]]} and {b[other[0]]}"
    key = "confounded" if other[0] == "precision" else "confounder_left"
    return Wrong(key, label, which=other[0], values=values, **facts)


def _pairs(pairs: list[Pair]) -> str:
    return ", ".join(map(str, pairs[:5])) or "no pair"
