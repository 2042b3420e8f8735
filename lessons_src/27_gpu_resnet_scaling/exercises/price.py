"""`cheapest_in_time`: from a table of scaling to how many GPUs to ask for."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from dtlib.learn.asking import ask, to_number
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.ratios import near, short

Row = dict[str, float]
Answer = tuple[int, float] | None


def table(**rates: float) -> list[Row]:
    """Rows of a scaling table: `g4=3400` is 3,400 images/s on 4 GPUs in all."""
    return [{"gpus": int(k[1:]), "images_per_second": v} for k, v in rates.items()]


USUAL = table(g1=1000, g2=1900, g4=3400, g8=4800, g16=5200)
MIXED = table(g8=4800, g1=1000, g16=5200, g2=1900, g4=3400)
# Two GPUs that are more than twice as fast: what each holds fits its cache.
SUPER = table(g1=100, g2=210, g4=380)
ONE = table(g1=1000)
WORK = 36e6  # pictures: 10 hours on one GPU

CASES: tuple[tuple[str, list[Row], float, float], ...] = (
    ("one GPU, all the time in the world", ONE, WORK, 100),
    ("five numbers of GPUs, 6 hours", USUAL, WORK, 6),
    ("five numbers of GPUs, 2.5 hours", USUAL, WORK, 2.5),
    ("two GPUs that are 2.1 times as fast, 100 hours", SUPER, 3.6e6, 100),
    ("the rows in another order, 6 hours", MIXED, WORK, 6),
    ("a deadline to the second", ONE, WORK, 10),
    ("five numbers of GPUs, 1 hour", USUAL, WORK, 1),
)


def reference(rows: list[Row], images: float, deadline: float) -> Answer:
    """How many GPUs finish within `deadline` hours for the fewest GPU hours, and these hours."""
    found: Answer = None
    for row in rows:
        hours = images / row["images_per_second"] / 3600
        cost = int(row["gpus"]) * hours
        if hours <= deadline and (found is None or cost < found[1]):
            found = int(row["gpus"]), cost
    return found


def check(student: Callable[..., Any]) -> Passed:
    """Seven tables and deadlines."""
    for case, rows, images, deadline in CASES:
        given = copy.deepcopy(rows)
        got = ask(student, given, images, deadline, case=case)
        if given != rows:
            raise Wrong("changed", case)
        _judge(got, rows, images, deadline, case)
    gpus, cost = reference(USUAL, WORK, 6) or (0, 0.0)
    return Passed(
        (("GPU hours of 36 million pictures in 6 hours", cost, cost, "GPU hours"),),
        f"On {gpus} GPUs; 16 of them would take {16 * WORK / 5200 / 3600:.1f}.",
    )


def _judge(got: Any, rows: list[Row], images: float, deadline: float, case: str) -> None:
    want = reference(rows, images, deadline)
    if want is None:
        if got is not None:
            raise Wrong("nothing_is_in_time", case, got=repr(got), deadline=deadline)
        return
    if got is None:
        on_the_dot = "second" in case
        raise Wrong("on_the_dot" if on_the_dot else "gave_up", case, deadline=deadline, n=want[0])
    if not isinstance(got, (tuple, list)) or len(got) != 2:
        raise Wrong("pair", case, got=type(got).__name__)
    gpus, cost = (to_number(value, case) for value in got)
    _judge_gpus(gpus, want, rows, images, deadline, case)
    _judge_cost(cost, want, rows, images, case)


def _judge_gpus(
    gpus: float, want: tuple[int, float], rows: list[Row], images: float, deadline: float, case: str
) -> None:
    if gpus == want[0]:
        return
    hours = {int(r["gpus"]): images / r["images_per_second"] / 3600 for r in rows}
    if gpus not in hours:
        raise Wrong("not_measured", case, got=short(gpus), measured=", ".join(map(str, hours)))
    took = hours[int(gpus)]
    seen = {
        "got": int(gpus), "want": want[0], "hours": short(took), "deadline": deadline,
        "cost": short(gpus * took), "cheap": short(want[1]),
    }  # fmt: skip
    if took > deadline:
        linear = hours[1] / gpus <= deadline
        raise Wrong("as_if_linear" if linear else "late", case, **seen)
    if gpus == min(n for n, h in hours.items() if h <= deadline):
        raise Wrong("fewest", case, **seen)
    if took == min(hours.values()):
        raise Wrong("fastest", case, **seen)
    raise Wrong("dearer", case, **seen)


def _judge_cost(
    cost: float, want: tuple[int, float], rows: list[Row], images: float, case: str
) -> None:
    gpus, right = want
    if near(cost, right):
        return
    alone = next((r["images_per_second"] for r in rows if r["gpus"] == 1), 0.0)
    seen = {"got": short(cost), "want": short(right), "n": gpus, "hours": short(right / gpus)}
    for key, value in (
        ("wall_hours", right / gpus),
        ("seconds", 3600 * right),
        ("per_gpu", right / gpus**2),
        ("ideal", images / alone / 3600 if alone else 0.0),
    ):
        if near(cost, value):
            raise Wrong(key, case, **seen)
    raise Wrong("cost", case, **seen)
