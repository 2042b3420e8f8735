"""Exercise 21.4: the runs of a study, in their order, with one thing that varies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dtlib.learn.asking import ask
from dtlib.learn.checking import Passed, Wrong

Run = dict[str, int]
FIELDS = ("ranks", "global_batch", "threads", "repeat")
CASES: tuple[tuple[str, list[int], int, int], ...] = (
    ("strong", [1], 1, 8),
    ("strong", [1, 2], 1, 8),
    ("weak", [1, 4], 1, 8),
    ("strong", [2, 4], 1, 16),
    ("weak", [1, 2, 4], 3, 6),
)


def reference(kind: str, numbers: Sequence[int], repeats: int, batch: int) -> list[Run]:
    """A whole turn over the numbers of ranks, one among them, for each repeat."""
    return [
        {
            "ranks": n,
            "global_batch": batch * n if kind == "weak" else batch,
            "threads": 1,
            "repeat": repeat,
        }
        for repeat in range(repeats)
        for n in sorted({1, *numbers})
    ]


def check(student: Callable[..., Any]) -> Passed:
    """One study after another; the order within a turn is free."""
    for kind, numbers, repeats, batch in CASES:
        case = f"{kind}, ranks {numbers}, {repeats} repeats, batch {batch}"
        got = ask(student, kind, list(numbers), repeats, batch, case=case)
        if got is None:
            raise Wrong("none", case)
        if not isinstance(got, (list, tuple)) or not all(_is_run(run) for run in got):
            raise Wrong("not_runs", case, got=repr(got)[:60])
        _judge(list(got), reference(kind, numbers, repeats, batch), kind, case)
    return Passed((("runs of the last study", len(got), 9, ""),))


def _is_run(run: Any) -> bool:
    return isinstance(run, dict) and all(type(run.get(name)) is int for name in FIELDS)


def _judge(got: list[Run], want: list[Run], kind: str, case: str) -> None:
    """Raise the first thing that is wrong: what is run, what is fixed, and in which order."""
    ranks = {run["ranks"] for run in got}
    if 1 not in ranks:
        raise Wrong("baseline", case, got=", ".join(map(str, sorted(ranks))))
    batches = {run["ranks"]: run["global_batch"] for run in want}
    for run in got:
        n, size = run["ranks"], run["global_batch"]
        facts = {"n": n, "got": size, "want": batches.get(n, 0)}
        if run["threads"] != 1:
            raise Wrong("threads", case, n=n, got=run["threads"])
        if n in batches and size != batches[n]:
            raise Wrong("grows" if kind == "strong" else "stays", case, **facts)
    if len(got) != len(want):
        raise Wrong("count", case, got=len(got), want=len(want))
    turns = [run["repeat"] for run in got]
    if sorted(turns) != sorted(run["repeat"] for run in want):
        raise Wrong("repeats", case, got=sorted(set(turns)))
    if turns != sorted(turns):
        raise Wrong("blocks", case, got=turns)
    if sorted(map(_as_tuple, got)) != sorted(map(_as_tuple, want)):
        raise Wrong("plan", case, got=[run["ranks"] for run in got])


def _as_tuple(run: Run) -> tuple[int, ...]:
    return tuple(run[name] for name in FIELDS)
