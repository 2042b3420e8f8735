"""Exercise 16.3: stage 3 as a schedule, followed line by line on paper; no ranks are needed.

A layer counts 1: what matters is which are whole when. Lines are counted from 1.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from dtlib.learn.checking import Passed, Wrong, stopped_here
from dtlib.scratch.zero import schedule as s

ENDLESS = 500  # instructions: far more than any right answer has
KINDS = (s.AllGather, s.Forward, s.Free, s.Backward, s.ReduceScatter, s.OptimizerStep)


def reference(layers: int) -> list[s.Instruction]:
    """The schedule of `dtlib.scratch.zero` for layers that share no weight."""
    return s.schedule([[k] for k in range(layers)])


def check(student: Callable[[int], Any]) -> Passed:
    """Follow the student's schedules for 1, 3 and 4 layers."""
    for layers in (1, 3, 4):
        follower = Follower(layers)
        for number, instruction in enumerate(_instructions(student, layers), start=1):
            follower.take(number, instruction)
        follower.judge()
    gathers = sum(follower.gathers.values())
    return Passed(
        (
            ("layers whole at once, of 4", follower.most, 1, ""),
            ("all-gathers for 4 layers", gathers, 8, ""),
        ),
        follower.remark(),
    )


def _instructions(student: Callable[[int], Any], layers: int) -> list[Any]:
    case = f"{layers} layer{'s' * (layers > 1)}"
    try:
        answer = student(layers)
        if answer is None:
            raise Wrong("none", case)
        found = list(itertools.islice(iter(answer), ENDLESS))
    except Wrong:
        raise
    except Exception as error:
        raise stopped_here(error, case) from error
    for line, thing in enumerate(found, start=1):
        if not isinstance(thing, KINDS):
            raise Wrong("no_instruction", case, line=line, what=_named(thing))
        block = getattr(thing, "block", 0)
        if isinstance(block, bool) or not isinstance(block, int) or not 0 <= block < layers:
            raise Wrong("no_layer", case, line=line, what=_named(thing), last=layers - 1)
    return found


def _named(thing: Any) -> str:
    if isinstance(thing, KINDS) and hasattr(thing, "block"):
        return f"{type(thing).__name__}({thing.block!r})"
    if isinstance(thing, KINDS):
        return f"{type(thing).__name__}()"
    return f"the class {thing.__name__}" if isinstance(thing, type) else repr(thing)[:40]


class Follower:
    """Follows a schedule, and raises the first thing that a worker could not do.

    Attributes
    ----------
    whole
        The layers that are whole now, and since which line.
    most
        The most that were whole at once.
    """

    def __init__(self, layers: int) -> None:
        self.layers, self.case = layers, f"{layers} layer{'s' * (layers > 1)}"
        self.whole: dict[int, int] = {}
        self.freed: dict[int, int] = {}
        self.gathers = dict.fromkeys(range(layers), 0)
        self.forward: list[int] = []
        self.backward: dict[int, int] = {}
        self.reduced: set[int] = set()
        self.first: dict[s.Instruction, int] = {}
        self.stepped = 0
        self.most = 0
        self.at_first_forward = self.at_first_backward = 0

    def take(self, line: int, instruction: s.Instruction) -> None:
        """Carry out one instruction."""
        if self.stepped:
            self._after_the_step(line, instruction)
        self.first.setdefault(instruction, line)
        match instruction:
            case s.AllGather(k):
                if k in self.whole:
                    self._wrong("gathered_twice", line=line, layer=k, since=self.whole[k])
                self.whole[k] = line
                self.gathers[k] += 1
                self.most = max(self.most, len(self.whole))
            case s.Free(k):
                if self.whole.pop(k, None) is None:
                    self._wrong("freed_twice", line=line, layer=k)
                self.freed[k] = line
            case s.Forward(k):
                self._forward(line, k)
            case s.Backward(k):
                self._backward(line, k)
            case s.ReduceScatter(k):
                self._reduce(line, k)
            case s.OptimizerStep():
                self.stepped = line

    def _forward(self, line: int, k: int) -> None:
        if k in self.forward:
            self._twice(line, s.Forward(k))
        if k != len(self.forward):
            self._wrong("forward_order", line=line, layer=k, missing=len(self.forward))
        if k not in self.whole:
            self._wrong("forward_without_weights", line=line, layer=k)
        if not self.forward:
            self.at_first_forward = len(self.whole)
        self.forward.append(k)

    def _backward(self, line: int, k: int) -> None:
        if len(self.forward) < self.layers:
            self._wrong("backward_early", line=line, layer=k, missing=len(self.forward))
        if k in self.backward:
            self._twice(line, s.Backward(k))
        if k < self.layers - 1 and k + 1 not in self.backward:
            self._wrong("backward_order", line=line, layer=k, missing=k + 1)
        if k not in self.whole:
            facts = {"line": line, "layer": k, "freed": self.freed.get(k, 0)}
            self._wrong("backward_without_weights", **facts)
        if not self.backward:
            self.at_first_backward = len(self.whole)
        self.backward[k] = line

    def _reduce(self, line: int, k: int) -> None:
        if k not in self.backward:
            self._wrong("reduce_early", line=line, layer=k)
        if k in self.reduced:
            self._twice(line, s.ReduceScatter(k))
        self.reduced.add(k)

    def _after_the_step(self, line: int, instruction: s.Instruction) -> None:
        if isinstance(instruction, s.ReduceScatter):
            facts = {"step": self.stepped, "line": line, "layer": instruction.block}
            self._wrong("step_early", **facts)
        if isinstance(instruction, s.OptimizerStep):
            self._twice(line, instruction)
        self._wrong("after_the_step", line=line, step=self.stepped, what=_named(instruction))

    def judge(self) -> None:
        """Say what is missing at the end, and then what was held too long."""
        every = range(self.layers)
        if len(self.forward) < self.layers:
            self._wrong("no_forward", layer=len(self.forward))
        without = [k for k in reversed(every) if k not in self.backward]
        if without:
            self._wrong("no_backward", layer=without[0])
        alone = [k for k in every if k not in self.reduced]
        if alone:
            self._wrong("no_reduce", layer=alone[-1])
        if not self.stepped:
            self._wrong("no_step")
        self._memory()

    def _memory(self) -> None:
        facts = {"layers": self.layers, "peak": self.most}
        if self.layers > 1 and self.at_first_forward == self.layers:
            self._wrong("all_at_start", **facts)
        if self.layers > 1 and self.at_first_backward == self.layers:
            self._wrong("no_free_in_forward", **facts)
        if self.whole:
            rest = ", ".join(map(str, sorted(self.whole)))
            self._wrong("never_freed", rest=rest, first=max(self.whole), **facts)
        if self.most > 2:
            self._wrong("too_many", **facts)

    def remark(self) -> str:
        """What a right schedule does better, or pays."""
        words = []
        if self.gathers[self.layers - 1] == 1:
            words.append(
                "You keep the last layer from forward to backward, and save one gather of it: real "
                "FSDP can do this, too."
            )
        if self.most == 2:
            words.append(
                "You hold two layers at once: the second one buys time, since a gather can run "
                "while the layer before it computes. That is prefetching."
            )
        return " ".join(words)

    def _twice(self, line: int, instruction: s.Instruction) -> None:
        facts = {"line": line, "before": self.first[instruction], "what": _named(instruction)}
        self._wrong("twice", **facts)

    def _wrong(self, key: str, **facts: Any) -> None:
        raise Wrong(key, self.case, **facts)
