"""Exercise 16.3: stage 3 as a schedule, followed line by line on paper; no ranks are needed.

Each layer has size 1: what matters is which layers are whole at which line. Lines are counted
from 1.
"""

import itertools

from dtlib.learn.answers import Answer
from dtlib.learn.calls import ask
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong
from dtlib.scratch.zero import schedule as s

SHOWN = 40  # characters of a thing that a sentence repeats
ENDLESS = 500  # instructions: far more than any right answer has
KINDS = (s.AllGather, s.Forward, s.Free, s.Backward, s.ReduceScatter, s.OptimizerStep)
KEPT = (
    "You keep the last layer whole from forward to backward, and save one gather of it: real "
    "FSDP can do this, too."
)
AHEAD = (
    "You hold two layers at once: the second one buys time, because its gather can run "
    "while the layer before it computes. That is prefetching."
)


def read(got, layers):
    """A list of instructions, each for a layer that exists."""
    if got is None:
        raise Wrong("none")
    found = ask(lambda: list(itertools.islice(iter(got), ENDLESS)), case="")
    for line, thing in enumerate(found, start=1):
        facts = {"line": line, "what": named(thing), "last": layers - 1}
        if not isinstance(thing, KINDS):
            raise Wrong("no_instruction", **facts)
        block = getattr(thing, "block", 0)
        if isinstance(block, bool) or not isinstance(block, int) or not 0 <= block < layers:
            raise Wrong("no_layer", **facts)
    return found


def named(thing):
    """An instruction as it is written."""
    if isinstance(thing, type):
        return f"the class {thing.__name__}"
    words = repr(thing).replace("block=", "")
    return words if len(words) <= SHOWN else f"a {type(thing).__name__}"


class Worker:
    """Carries out a schedule, and finds in it what no worker could do.

    Attributes
    ----------
    whole
        The layers that are whole now, and since which line.
    first
        The line at which each instruction came first.
    held
        How many layers were whole when the first instruction of a kind came.
    most
        The most that were whole at once.
    piled
        The most whole gradients that waited for their reduce-scatter at once.
    """

    def __init__(self, layers):
        self.layers, self.most, self.piled = layers, 0, 0
        self.whole, self.freed, self.first, self.held = {}, {}, {}, {}

    def follow(self, lines):
        """The first thing that is wrong, or None."""
        for line, one in enumerate(lines, start=1):
            k = getattr(one, "block", -1)
            facts = {
                "line": line, "layer": k, "what": named(one), "before": self.first.get(one),
                "since": self.whole.get(k), "freed": self.freed.get(k, 0),
                "missing": next(iter(self.without(s.Forward)), k + 1),
                "step": self.first.get(s.OptimizerStep()),
            }  # fmt: skip
            for key, holds in self.faults(one, k):
                if holds:
                    return Wrong(key, **facts)
            self.carry_out(line, one, k)
        return next((Wrong(key, **facts) for key, holds, facts in self.rests() if holds), None)

    def without(self, kind):
        """The layers for which no instruction of this kind has come yet."""
        return [k for k in range(self.layers) if kind(k) not in self.first]

    def faults(self, one, k):
        """What may be wrong with the next instruction, and whether it is."""
        twice = ("twice", one in self.first)
        shard = k not in self.whole
        stepped = s.OptimizerStep() in self.first
        match one:
            case s.OptimizerStep():
                return [twice]
            case s.ReduceScatter() if stepped:
                return [("step_early", True)]
            case _ if stepped:
                return [("after_the_step", True)]
            case s.AllGather():
                return [("gathered_twice", not shard)]
            case s.Free():
                return [("freed_twice", shard)]
            case s.Forward():
                early = k != next(iter(self.without(s.Forward)), k)
                return [twice, ("forward_order", early), ("forward_without_weights", shard)]
            case s.Backward():
                late = k + 1 in self.without(s.Backward)
                shown = [("backward_early", bool(self.without(s.Forward))), twice]
                return [*shown, ("backward_order", late), ("backward_without_weights", shard)]
        return [("reduce_early", k in self.without(s.Backward)), twice]

    def carry_out(self, line, one, k):
        """Note what an instruction changes."""
        self.held.setdefault(type(one), len(self.whole))
        self.first.setdefault(one, line)
        if isinstance(one, s.AllGather):
            self.whole[k] = line
            self.most = max(self.most, len(self.whole))
        elif isinstance(one, s.Backward):
            self.piled = max(self.piled, len({*self.without(s.ReduceScatter)} - {*range(k)}))
        elif isinstance(one, s.Free):
            del self.whole[k]
            self.freed[k] = line

    def rests(self):
        """What may be missing at the end, and then what may have been held too long."""
        for key, kind, which in (
            ("no_forward", s.Forward, 0), ("no_backward", s.Backward, -1),
            ("no_reduce", s.ReduceScatter, -1),
        ):  # fmt: skip
            left = self.without(kind)
            yield key, bool(left), {"layer": left[which] if left else None}
        yield "no_step", s.OptimizerStep() not in self.first, {}
        facts = {"layers": self.layers, "peak": self.most, "piled": self.piled}
        several = self.layers > 1
        yield "all_at_start", several and self.held[s.Forward] == self.layers, facts
        yield "no_free_in_forward", several and self.held[s.Backward] == self.layers, facts
        rest = ", ".join(map(str, sorted(self.whole)))
        facts |= {"rest": rest, "first": max(self.whole, default=None)}
        yield "never_freed", bool(self.whole), facts
        yield "too_many", self.most > 2, facts
        yield "gradients_pile_up", self.piled > 2, facts


def passed(got):
    """Of four layers: how many were whole at once, and how often one was gathered."""
    worker = Worker(4)
    worker.follow(got[-1])
    gathers = sum(isinstance(one, s.AllGather) for one in got[-1])
    remarks = [KEPT] * (got[-1].count(s.AllGather(3)) == 1) + [AHEAD] * (worker.most == 2)
    rows = (("layers whole at once, of 4", worker.most, 1, ""),
            ("all-gathers for 4 layers", gathers, 8, ""))  # fmt: skip
    return Passed(rows, " ".join(remarks))


zero3_schedule = solution("zero3_schedule", globals())

EXERCISE = Answer(
    zero3_schedule,
    read=read,
    cases=[("1 layer", (1,)), ("3 layers", (3,)), ("4 layers", (4,))],
    judge=lambda got, layers: Worker(layers).follow(got) or True,
    alone=True,
    other="unrecognised",
    passed=passed,
)
