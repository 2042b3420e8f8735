"""Exercise 8.4: buckets that leave while backward runs, and stay during all micro-batches but one.

`overlap_world` holds the painted steps and the link whose record says what left when.
"""

import torch
import torch.distributed as dist

from dtlib.learn.alike import alike
from dtlib.learn.explanations import number
from dtlib.learn.mistakes import Mistake
from dtlib.learn.rank_answers import RankAnswer
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed
from dtlib.scratch.data_parallel import unpack  # noqa: F401 (the solution uses it)

from .overlap_world import ADAMW, LAYERS, MICRO, ORDER, PLAIN, SGD, run
from .together import case

SAME = 1e-9  # float64; a sum of four painted numbers is exact, its division rounds once
CASES = [
    (1, PLAIN),
    (1, MICRO),
    *((n, w) for n in (3, 4) for w in (PLAIN, ORDER, MICRO, SGD, ADAMW)),
]
# words of the solution
TALK, FULL, SEND, DIVIDE, RESET, REGISTER = (
    "if not talk():\n            return",
    "while len(sent) < len(buckets) and missing[len(sent)] == 0:",
    "sent.append((flat, all_reduce(flat)))",
    "flat / dist.get_world_size()",
    "missing[:] = [len(bucket) for bucket in buckets]",
    "p.register_post_accumulate_grad_hook(hook)",
)

LATE = {REGISTER: "p.register_post_accumulate_grad_hook(lambda _: hook(p))"}

overlap = solution("overlap", globals())


def one_by_one(buckets, all_reduce, talk):
    return overlap([[p] for bucket in buckets for p in bucket], all_reduce, talk)


def keeps_the_first_sums(buckets, all_reduce, talk):
    wait = overlap(buckets, all_reduce, talk)
    kept: list[torch.Tensor] = []

    def again():
        wait()
        buckets[0][0].grad.add_(sum(kept))
        kept.append(buckets[0][0].grad.clone())

    return again


def no_gradient_yet(steps, what):
    """Hooks that run before accumulation found nothing to send in the first step."""
    return bool(steps.tensor_hooks and not steps.starts) and {"error": "no message left"}


def own_sums(seen):
    """Collectives that the answer called itself: those of the link are one for each message."""
    return len(seen.collectives) - (seen.got.starts + seen.got.again)


def around_the_link(got, seen):
    return own_sums(seen[0]) > 0 and {"count": own_sums(seen[0])}


def sends_by_itself(buckets, all_reduce, talk):
    return overlap(buckets, lambda flat: dist.all_reduce(flat, async_op=True), talk)


def no_message(steps, hooks):
    return not steps.starts and not steps.again and bool(steps.hooks) == hooks


def first(holds):
    """A mistake that what rank 0 saw in its two steps tells."""
    return lambda got, what: holds(got[0], what[0])


def facts(got, want, what, n):
    rank = next((r for r, one in enumerate(got) if not alike(one, want[r], SAME)), 0)
    pairs = list(zip(got[rank].numbers, want[rank].numbers, strict=True))
    place = next((i for i, pair in enumerate(pairs) if not alike(*pair, SAME)), 0)
    steps = got[0]
    return {
        **vars(steps), "late": steps.starts - steps.early, "micro": steps.first_micro + 1,
        "zero": steps.first_bucket, "one": got[min(1, n - 1)].first_bucket, "optimizer": what[0],
        "rank": rank, "where": "a gradient" if what[0] == ORDER else LAYERS[place],
        "got": number(pairs[place][0]), "want": number(pairs[place][1]),
    }  # fmt: skip


def passed(seen):
    steps = seen[CASES.index((4, MICRO))][0].got
    return Passed(
        (
            ("messages a step of 3 micro-batches", steps.starts, steps.buckets, ""),
            ("bytes given to the link in it", steps.bytes, steps.target, "bytes"),
            ("messages that left while backward ran", steps.early, steps.buckets, ""),
        ),
        "Every all-reduce was on its way before backward ended.",
    )


EXERCISE = RankAnswer(
    overlap,
    run=run,
    cases=[case(n, what) for n, what in CASES],
    same=SAME,
    wire=lambda seen: (own_sums(seen) > 0, bool(seen.got.hooks), seen.got.shared),
    mistakes=[
        ("returns", {"return wait": ""}),
        Mistake("around_the_link", sends_by_itself, around_the_link),
        Mistake("late_bound", LATE, first(lambda s, what: s.shared and not s.starts)),
        Mistake("stale", when=first(lambda s, what: s.stale > 0)),
        Mistake("silent", {REGISTER: "pass"}, first(lambda s, what: no_message(s, False))),
        Mistake("tensor_hook", {REGISTER: "p.register_hook(lambda g, p=p: hook(p))"},
                when=first(no_gradient_yet)),
        Mistake("never_full", {"missing[home[p]] -= 1": "missing[home[p]] += 1"},
                first(lambda s, what: no_message(s, True))),
        Mistake(
            "every_micro_batch",
            {TALK: f"if len(sent) == len(buckets):\n            sent.clear()\n            {RESET}"},
            first(lambda s, what: what == MICRO and s.bytes > s.target),
        ),
        Mistake("too_soon", {TALK: ""}, first(lambda s, what: what == MICRO and s.first_micro < 2)),
        Mistake("one_by_one", one_by_one, first(lambda s, what: s.starts > s.buckets)),
        Mistake("late", {REGISTER: "pass",
                         "def wait():": "def wait():\n        for p in home:\n            hook(p)"},
                first(lambda s, what: s.early < s.starts)),
        Mistake("divides_early",
                {DIVIDE: "flat", SEND: f"{SEND}\n            flat /= dist.get_world_size()"},
                first(lambda s, what: s.changed > 0)),
        Mistake("swapped",
                {FULL: "if missing[home[p]] == 0:", "buckets[len(sent)]": "buckets[home[p]]"},
                when=lambda got, what: (
                    what[0] == ORDER and len({steps.first_bucket for steps in got}) > 1
                )),
        Mistake("no_wait", {"work.wait()": "pass"}, first(lambda s, what: s.unwaited > 0)),
        Mistake("not_reset", {RESET: ""}, first(lambda s, what: s.again < s.starts)),
        Mistake("waits_inside", {SEND: f"{SEND}\n            sent[-1][1].wait()"},
                first(lambda s, what: s.inside > 0)),
        ("sum", {DIVIDE: "flat"}),
        ("newest", {REGISTER: "p.register_hook(lambda g, p=p: hook(p, g))",
                    "def hook(p):": "def hook(p, g):\n        newest[p] = g",
                    "sent = []": "sent, newest = [], {}",
                    "q.grad.flatten()": "newest[q].flatten()"}),
        ("twice", {DIVIDE: f"{DIVIDE} ** 2"}),
        Mistake("drift", keeps_the_first_sums, first(lambda s, what: what in (SGD, ADAMW))),
    ],
    facts=facts,
    other="other",  # one that left and arrived as it should, with other numbers
    passed=passed,
)  # fmt: skip
