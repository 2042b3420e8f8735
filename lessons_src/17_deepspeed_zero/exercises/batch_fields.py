"""Exercise 17.3: three fields of a DeepSpeed configuration that agree, or a refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from dtlib.errors import BadInput
from dtlib.learn.checking import Passed, Wrong, stopped_here
from dtlib.strategies.deepspeed_config import BATCH, resolve_batch


class Fields(NamedTuple):
    """What a JSON says, and on how many ranks it is started; `want` is None for a refusal."""

    world_size: int
    train: int | None = None
    micro: int | None = None
    accumulation: int | None = None
    want: tuple[int, int, int] | None = None

    @property
    def label(self) -> str:
        """The case in words."""
        said = zip(("train", "micro", "accumulation"), self[1:4], strict=True)
        given = ", ".join(f"{name} {value}" for name, value in said if value is not None)
        return f"{given or 'no field given'}, {self.world_size} rank{'s' * (self.world_size > 1)}"


CASES = (
    Fields(1, micro=4, accumulation=2, want=(8, 4, 2)),
    Fields(3, micro=4, accumulation=2, want=(24, 4, 2)),
    Fields(1, train=8, micro=4, want=(8, 4, 2)),
    Fields(3, train=24, micro=4, want=(24, 4, 2)),
    Fields(4, train=24, accumulation=3, want=(24, 2, 3)),
    Fields(3, train=24, micro=4, accumulation=2, want=(24, 4, 2)),
    Fields(3, micro=4, want=(12, 4, 1)),
    Fields(4, train=24, want=(24, 6, 1)),
    Fields(1, micro=1, accumulation=4, want=(4, 1, 4)),
    Fields(1, train=16, micro=4, accumulation=1),
    Fields(4, train=16, micro=4, accumulation=2),
    Fields(3, train=30, micro=4),
    Fields(4, train=30),
    Fields(3, train=30, accumulation=4),
    Fields(4, train=8, micro=4),
    Fields(3, accumulation=2),
)


def reference(
    world_size: int,
    train: int | None = None,
    micro: int | None = None,
    accumulation: int | None = None,
) -> tuple[int, int, int]:
    """The course's own, which a run of strategy zero uses."""
    given = {k: v for k, v in zip(BATCH, (train, micro, accumulation), strict=True) if v}
    try:
        plan = resolve_batch(given, world_size)
    except BadInput as error:
        raise ValueError(str(error)) from None
    if plan is None:
        raise ValueError("give the global batch, or the micro-batch.")
    return plan.global_batch, plan.micro_batch, plan.accumulation


def check(student: Callable[..., Any]) -> Passed:
    """What follows, then what agrees, then what has to be refused."""
    for case in CASES:
        got = _answer(student, case)
        if got is None and case.want is not None:
            raise _refused(case)
        if got is not None and got != case.want:
            raise _explain(got, case)
    refusals = sum(case.want is None for case in CASES)
    rows = (("answered", len(CASES) - refusals), ("refused", refusals))
    return Passed(tuple((what, count, count, "cases") for what, count in rows))


def _answer(student: Callable[..., Any], case: Fields) -> tuple[Any, ...] | None:
    """What came back; None when it was refused."""
    try:
        got = student(case.world_size, case.train, case.micro, case.accumulation)
    except ValueError as error:
        if case.want is None and not str(error).strip():
            raise Wrong("silent", case.label, n=case.world_size) from None
        return None
    except AssertionError:
        raise Wrong("assertion", case.label) from None
    except Exception as error:
        raise stopped_here(error, case.label) from error
    if got is None:
        if case.want is None:
            raise Wrong("returns_none", case.label)
        raise Wrong("none", case.label)
    if not isinstance(got, (tuple, list)) or len(got) != 3:
        raise Wrong("kind", case.label, got=_described(got))
    if any(value is None for value in got):
        raise Wrong("gap", case.label, got=_described(got))
    if any(isinstance(v, float) for v in got):
        raise Wrong("floats", case.label, got=_described(got))
    return tuple(got)


def _described(got: Any) -> str:
    if isinstance(got, (tuple, list)):
        return "(" + ", ".join(map(str, got)) + ")"
    return f"a {type(got).__name__}"


def _refused(case: Fields) -> Wrong:
    assert case.want is not None
    facts = dict(zip(("train", "micro", "accumulation"), case.want, strict=True))
    n, given = case.world_size, case[1:4]
    if n > 1 and None not in given:
        return Wrong("refuses_agreement", case.label, n=n, **facts)
    if sum(value is not None for value in given) == 1:
        return Wrong("wants_more", case.label, n=n, **facts)
    return Wrong("refuses", case.label, n=n, **facts)


def _explain(got: tuple[Any, ...], case: Fields) -> Wrong:
    n, shown = case.world_size, _described(got)
    train, micro, accumulation = got
    product = micro * accumulation * n
    facts = {"n": n, "got": shown, "product": product, "train": train}
    if case.want is None:
        return _should_refuse(got, case, facts)
    if sorted(got) == sorted(case.want):
        return Wrong("order", case.label, **facts)
    if train == micro * accumulation and n > 1:
        return Wrong("without_ranks", case.label, **facts)
    kept = [g for g in zip(case[1:4], got, strict=True) if g[0] is not None and g[0] != g[1]]
    if kept:
        return Wrong("changes_given", case.label, given=kept[0][0], now=kept[0][1], **facts)
    return Wrong("unrecognised", case.label, seen=f"{shown}, and the product is {product}")


def _should_refuse(got: tuple[Any, ...], case: Fields, facts: dict[str, Any]) -> Wrong:
    _, micro, accumulation = got
    given = [g for g in zip(case[1:4], got, strict=True) if g[0] is not None and g[0] != g[1]]
    if case.train is None:
        return Wrong("from_nothing", case.label, **facts)
    if given:
        return Wrong("mends", case.label, given=given[0][0], now=given[0][1], **facts)
    if None not in case[1:4]:
        return Wrong("unchecked", case.label, **facts)
    if 0 in (micro, accumulation):
        return Wrong("zero", case.label, **facts)
    return Wrong("floors", case.label, **facts)
