"""Exercise 14.2: how many samples a step of the optimizer has, and how many steps an epoch.

The reference is proven against Accelerate's own loaders, on ranks, in this lesson's tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from dtlib.learn.asking import ask, to_number
from dtlib.learn.checking import Passed, Wrong


class Setting(NamedTuple):
    """What a script says: samples, batch_size, processes, accumulation, split_batches."""

    samples: int
    batch_size: int
    num_processes: int
    accumulation: int
    split_batches: bool

    def __str__(self) -> str:
        ranks = f"{self.num_processes} process{'es' * (self.num_processes > 1)}"
        return (
            f"{self.samples} samples, batch_size {self.batch_size}, {ranks}, "
            f"accumulation {self.accumulation}, split_batches={self.split_batches}"
        )


# One thing at a time, then together; the last three have a tail in the loader and in the group.
SETTINGS = (
    Setting(54, 6, 1, 1, False),
    Setting(54, 6, 3, 1, False),
    Setting(48, 12, 3, 1, True),
    Setting(48, 8, 1, 2, False),
    Setting(44, 8, 1, 1, False),
    Setting(100, 8, 4, 1, False),
    Setting(40, 8, 1, 2, False),
    Setting(1000, 8, 4, 4, False),
    Setting(1000, 32, 4, 4, True),
)


def reference(
    samples: int, batch_size: int, num_processes: int, accumulation: int, split_batches: bool
) -> tuple[int, int]:
    """Samples in a full step, and optimizer steps in an epoch; both divisions round up."""
    together = batch_size if split_batches else batch_size * num_processes
    rounds = -(-samples // together)
    return together * accumulation, -(-rounds // accumulation)


def check(student: Callable[..., Any]) -> Passed:
    """Ask for one setting after another; each brings one thing more."""
    for setting in SETTINGS:
        got, want = _answer(student, setting), reference(*setting)
        if got[0] != want[0]:
            raise Wrong(
                _batch(setting, got[0]), str(setting), got=got[0], want=want[0], **facts(setting)
            )
        if got[1] != want[1]:
            raise Wrong(
                _steps(setting, got[1]), str(setting), got=got[1], want=want[1], **facts(setting)
            )
    last = SETTINGS[-1]
    return Passed(((f"{last}", str(got), str(want), "samples, steps"),))


def _answer(student: Callable[..., Any], setting: Setting) -> tuple[float, ...]:
    case = str(setting)
    got = ask(student, *setting, case=case)
    if got is None:
        raise Wrong("none", case)
    try:
        batch, steps = (to_number(value, case) for value in got)
    except (TypeError, ValueError, Wrong):
        raise Wrong("not_a_pair", case, got=repr(got)[:60]) from None
    return tuple(int(v) if v.is_integer() else v for v in (batch, steps))


def facts(s: Setting) -> dict[str, Any]:
    """The numbers of a setting that sentences name."""
    together = s.batch_size if s.split_batches else s.batch_size * s.num_processes
    return {
        "batch_size": s.batch_size, "n": s.num_processes, "k": s.accumulation,
        "samples": s.samples, "together": together, "rounds": -(-s.samples // together),
    }  # fmt: skip


def _batch(s: Setting, got: Any) -> str:
    """What a wrong number of samples in a step comes from."""
    if s.split_batches and got == s.batch_size * s.num_processes * s.accumulation:
        return "split"
    if s.num_processes > 1 and not s.split_batches and got == s.batch_size * s.accumulation:
        return "one_process"
    if s.num_processes > 1 and not s.split_batches and got * s.num_processes == s.batch_size:
        return "divided"
    if s.accumulation > 1 and got * s.accumulation == reference(*s)[0]:
        return "no_accumulation"
    return "batch"


def _steps(s: Setting, got: Any) -> str:
    """What a wrong number of steps comes from."""
    known = facts(s)
    rounds, together = known["rounds"], known["together"]
    exact = s.samples / together
    alone = s._replace(num_processes=1, split_batches=False)
    if s.num_processes > 1 and got == reference(*alone)[1]:
        return "steps_of_one"
    if s.accumulation > 1 and got == rounds:
        return "micro_steps"
    if s.accumulation > 1 and got == rounds // s.accumulation:
        return "group_dropped"
    if got == int(exact) or got == int(exact) // s.accumulation:
        return "batch_dropped"
    if got == exact / s.accumulation:
        return "part_of_a_step"
    return "steps"
