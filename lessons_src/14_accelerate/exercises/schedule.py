"""Exercise 14.1: a schedule that ends when training does, although Accelerate steps it N times.

No ranks are needed: Accelerate takes N steps of a prepared scheduler for each step of the
optimizer, and here a loop does the same.
"""

import math
import warnings

import torch

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import words
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong, innermost

RATE = 0.5  # not 1, so that a rate returned in place of a factor shows
STEPS = 6
AFTER = 3  # steps of the optimizer after the end, where the rate must stay 0
FACTOR, TOTAL = "max(0.0, 1 - call / total)", "steps * num_processes"  # parts of the solution

scheduler_for = solution("scheduler_for", globals())


def case(n, steps=STEPS, rates=(RATE,)):
    """Arguments of `run`. The first optimizer takes long to make: not while the clock runs."""

    def arguments():
        groups = [{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": rate} for rate in rates]
        return torch.optim.SGD(groups), steps, n

    told = " and ".join(map(str, rates))
    return f"{steps} steps on {n} process{'es' * (n > 1)}, lr = {told}", arguments


def run(answer, optimizer, steps, num_processes):
    """The rate of each optimizer step when the scheduler takes `num_processes` steps after each.

    Of several groups it is the first one's; the last one must go the same way.
    """
    last = optimizer.param_groups[-1]["lr"]
    scheduler, seen, others = answer(optimizer, steps, num_processes), [], []
    if scheduler is None:
        raise Wrong("none")
    if not isinstance(scheduler, torch.optim.lr_scheduler.LRScheduler):
        raise Wrong("no_scheduler", got=type(scheduler).__name__)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of a step that no optimizer step preceded
        for call in range((steps + AFTER) * num_processes):
            if call % num_processes == 0:
                seen.append(float(optimizer.param_groups[0]["lr"]))
                others.append(float(optimizer.param_groups[-1]["lr"]))
                optimizer.step()
            if call < getattr(scheduler, "total_steps", math.inf):  # as Accelerate does
                step(scheduler, call + 1)
    line = [max(0.0, 1 - k / steps) for k in range(len(seen))]
    right = [last * factor for factor in line]
    if near(seen, [RATE * factor for factor in line]) and not near(others, right):
        raise Wrong("other_groups", last=words(others[:steps]), right=words(right[:steps]))
    return seen


def step(scheduler, call):
    """Step once; an error in a line of the student's own has a sentence already."""
    try:
        scheduler.step()
    except Exception as error:
        if innermost(error).name:
            raise
        name, message = type(error).__name__, str(error).rstrip(".")
        raise Wrong("stopped", call=call, error=name, message=message) from error


def near(got, want):
    """Whether two lists of rates agree, as far as the shorter one goes."""
    pairs = zip(got, want, strict=False)
    return all(math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9) for a, b in pairs)


def ends_at(after):
    """Recognise a line that reaches 0 after another number of optimizer steps than `steps`."""

    def when(got, steps, num_processes):
        end = after(steps, num_processes)
        line = [RATE * (1 - k / end) for k in range(steps) if k <= end]
        return end != steps and near(got, line)

    return when


def first_zero(got):
    """The step from which on the rate is 0, or -1 if it never stays there."""
    zeros = [k for k in range(len(got)) if not any(got[k:])]
    return zeros[0] if zeros else -1


def facts(got, want, steps, num_processes):
    return {
        "n": num_processes, "rate": RATE, "first": words(got[0]), "last": words(got[steps - 1]),
        "want": words(want[steps - 1]), "seen": words(got[:steps]),
        "at": math.ceil(steps / num_processes), "zero": first_zero(got),
        "beyond": next((words(a) for a, b in zip(got, want, strict=True) if not near([a], [b])),
                       ""),
    }  # fmt: skip


EXERCISE = Answer(
    scheduler_for,
    other="other_line",
    run=run,
    same=near,
    cases=[case(1), case(3), case(1, 4), case(4), case(3, rates=(RATE, 0.2))],
    mistakes=[
        Mistake("squared", {FACTOR: f"{RATE} * {FACTOR}"},
                when=lambda got, want, steps: near(got, [RATE * rate for rate in want[:steps]])),
        Mistake("starts_elsewhere", {"1 - call / total": "1 - (call + 1) / total"},
                when=lambda got: not near(got[:1], [RATE])),
        Mistake("beyond", {FACTOR: "1 - call / total"},
                when=lambda got, want, steps: near(got, want[:steps])),
        Mistake("ends_early", {TOTAL: "steps"}, when=ends_at(lambda steps, n: steps / n)),
        Mistake("one_short", {TOTAL: "(steps - 1) * num_processes"},
                when=ends_at(lambda steps, n: steps - 1)),
        Mistake("too_soon", {TOTAL: "max(1, steps // num_processes)"},
                when=lambda got, steps: 0 < first_zero(got) < steps),
        Mistake("too_slow", {TOTAL: f"{TOTAL}**2"}, when=ends_at(lambda steps, n: steps * n)),
        *(("rounded", {FACTOR: f"round({FACTOR}, {digits})"}) for digits in (1, 2, 3)),
        ("fixed", {TOTAL: f"{STEPS} * num_processes"}),
        Mistake("constant", {FACTOR: "1.0"},
                when=lambda got, steps: near(got[:steps], [got[0]] * steps)),
    ],
    facts=facts,
    passed=lambda got: Passed(
        (("lr of the last step on 4 processes", words(got[-1][STEPS - 1]), words(RATE / STEPS),
          ""),)
    ),
)  # fmt: skip
