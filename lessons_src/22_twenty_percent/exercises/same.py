"""Exercise 22.5: whether a change leaves the experiment what it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dtlib.learn.asking import ask
from dtlib.learn.checking import Passed, Wrong

Setting = dict[str, Any]
SAME, NUMBERS, ANOTHER = WORDS = ("same", "numbers", "another")
BASE: Setting = {
    "ranks": 2, "micro_batch": 8, "accumulation": 4, "lr": 0.1, "seed": 0, "precision": "fp32",
    "norm": "group", "bucket_cap_mb": 25, "workers": 0,
}  # fmt: skip


class Row(NamedTuple):
    """What both settings have besides `BASE`, what changes, and which mistake a wrong word is."""

    key: str
    shared: Setting
    change: Setting


ROWS = (
    Row("unchanged", {}, {}),
    Row("speed_only", {}, {"workers": 2, "bucket_cap_mb": 5}),
    Row("lr", {}, {"lr": 0.2}),
    Row("seed", {}, {"seed": 1}),
    Row("cut", {}, {"micro_batch": 32, "accumulation": 1}),
    Row("ranks", {}, {"ranks": 4}),
    Row("ranks_shared", {}, {"ranks": 4, "accumulation": 2}),
    Row("precision", {}, {"precision": "bf16"}),
    Row("worst", {}, {"precision": "bf16", "lr": 0.2}),
    Row("norm", {}, {"norm": "batch"}),
    Row("batch_norm", {"norm": "batch"}, {"micro_batch": 32, "accumulation": 1}),
    Row("batch_norm_ranks", {"norm": "batch"}, {"ranks": 4, "accumulation": 2}),
)


def reference(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Another, if what is learnt from what differs; else numbers, if their precision does."""

    def what(s: Mapping[str, Any]) -> tuple[Any, ...]:
        batch = s["ranks"] * s["micro_batch"] * s["accumulation"]
        seen = s["micro_batch"] if s["norm"] == "batch" else None
        return batch, s["lr"], s["seed"], s["norm"], seen

    if what(before) != what(after):
        return ANOTHER
    return SAME if before["precision"] == after["precision"] else NUMBERS


def check(student: Callable[..., Any]) -> Passed:
    """From no change at all to a batch norm that sees another micro-batch."""
    for row in ROWS:
        before = {**BASE, **row.shared}
        after = {**before, **row.change}
        case = _case(row)
        mine = dict(before), dict(after)
        got = ask(student, *mine, case=case)
        if mine != (before, after):
            raise Wrong("changed", case)
        if got is None:
            raise Wrong("none", case)
        if not isinstance(got, str) or got not in WORDS:
            raise Wrong("word", case, got=repr(got)[:30])
        if got != reference(before, after):
            raise Wrong(_key(row, got), case, got=got, **_facts(before, after))
    return Passed((("changes judged", len(ROWS), len(ROWS), ""),))


def _key(row: Row, got: str) -> str:
    if row.key == "precision":
        return "precision_ignored" if got == SAME else "precision_is_another"
    return "numbers_too_often" if got == NUMBERS and row.key != "worst" else row.key


def _case(row: Row) -> str:
    changes = [f"{name} {({**BASE, **row.shared})[name]} → {new}"
               for name, new in row.change.items()]  # fmt: skip
    shared = "".join(f", {name} {value} in both" for name, value in row.shared.items())
    return (", ".join(changes) or "nothing changes") + shared


def _facts(before: Setting, after: Setting) -> dict[str, Any]:
    batches = [s["ranks"] * s["micro_batch"] * s["accumulation"] for s in (before, after)]
    return {"old": batches[0], "new": batches[1], "micro": after["micro_batch"],
            "was": before["micro_batch"]}  # fmt: skip
