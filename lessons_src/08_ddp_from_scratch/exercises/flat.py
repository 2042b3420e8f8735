"""Exercise 8.2: all gradients averaged in one message.

The gradient of parameter k on rank r is painted (k + 1)·10**r, so that on three ranks parameter 0
must end with 37, parameter 1 with 74, and so on.
"""

import torch
import torch.distributed as dist
from torch import nn

from dtlib.learn.explanations import not_waited, number
from dtlib.learn.mistakes import Mistake
from dtlib.learn.rank_answers import RankAnswer
from dtlib.learn.reports import close
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

from .together import case

NAMES = ("0.weight", "0.bias", "1.weight", "1.bias")
SIZES = (6, 3, 6, 2)
ALL, NOBODY, ONE, TYPES, UNUSED = (
    "every parameter has a gradient",
    "0.bias has none on any rank",
    "0.bias has none on the last rank",
    "layer 1 in bf16",
    "layer 1 in bf16, without gradients on the last rank",
)
MISSING = 1  # the parameter that has no gradient in some cases
# words of the solution
DIVIDE, EACH_TYPE, SAME_TYPE = (
    "flat /= dist.get_world_size()",
    "for dtype in sorted({p.dtype for p in params}, key=str):",
    "if p.dtype == dtype",
)

FILL = "for p in params:\n        if p.grad is None:"
TYPES_OF_ALL = "sorted({p.dtype for p in params}, key=str)"
THERE = "sorted({p.grad.dtype for p in params if p.grad is not None}, key=str)"

flat_all_reduce = solution("flat_all_reduce", globals())


def run(answer, what):
    """All gradients after the call, one behind the other; None counts as 0."""
    rank, n = dist.get_rank(), dist.get_world_size()
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
    if what in (TYPES, UNUSED):
        model[1].bfloat16()
    params = list(model.parameters())
    for k, p in enumerate(params):
        missing = k == MISSING and (what == NOBODY or (what == ONE and rank == n - 1))
        if not missing and not (k > 1 and what == UNUSED and rank == n - 1):
            p.grad = torch.full_like(p, (k + 1) * 10.0**rank)
    answer(model)
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in params]
    return torch.cat([grad.detach().float().flatten() for grad in grads])


def forgets_the_missing(model):
    lacking = [p for p in model.parameters() if p.grad is None]
    flat_all_reduce(model)
    for p in lacking:
        p.grad = None


def mixed_up(got, want):
    """A number of one parameter that stands in another one."""
    if any(len(values) != sum(SIZES) for values in got):
        return False
    home = [k for k, size in enumerate(SIZES) for _ in range(size)]
    painted = {round(value, 3): k for value, k in zip(want[0], home, strict=True)}
    for value, k in zip(got[0], home, strict=True):
        other = painted.get(round(value, 3), k)
        if other != k:
            return {"name": NAMES[k], "other": NAMES[other]}
    return False


def in_another_order(got, want):
    """The right numbers of parameter 0 and the others, and some of them in another's place."""
    found, right = (sorted(round(value, 3) for value in values[0]) for values in (got, want))
    return found == right and mixed_up(got, want)


def literal(got, want, n):
    """The sum divided by a whole number that is not this number of ranks."""
    return any(
        close(torch.tensor(got), torch.tensor(want) * n / divisor, 1e-5)
        for divisor in range(2, 9)
        if divisor != n
    )


def skipped(seen, what, n):
    """The ranks did not meet, where a gradient of the last one is missing."""
    if what[0] != ONE or not any(s.failure and not s.failure.own for s in seen):
        return False
    first, *_, last = (sum(m.elements for m in s.messages if m.peer is None) for s in seen)
    return {"first": first, "other": last, "rank": n - 1, "name": NAMES[MISSING]}


def stopped_at_none(seen, what):
    own = [s for s in seen if s.failure and s.failure.own]
    if not own or what[0] not in (NOBODY, ONE):
        return False
    return {"rank": own[0].rank, "name": NAMES[MISSING], "error": own[0].failure.error}


def no_message_for_a_dtype(seen, what, n):
    """The last rank sent nothing in bf16, and another one did."""
    if what[0] != UNUSED or all(s.failure is None for s in seen):
        return False
    sent = [any(m.bytes == 2 * m.elements > 0 for m in s.messages) for s in seen]
    return any(sent[:-1]) and not sent[-1] and {"rank": n - 1, "other": sent.index(True)}


def waste(seen, what, n):
    """More messages, or more bytes, than needed, where every number is right.

    Four ranks come last: a wrong number is more than waste, on three ranks, too.
    """
    if not_waited(seen):
        return Wrong("never_waited", **not_waited(seen))
    if n < 4:
        return None
    messages = [m for m in seen[0].messages if m.peer is None]
    kinds, sent = 1 + (what[0] in (TYPES, UNUSED)), sum(m.bytes for m in messages)
    if what[0] == TYPES and sent > 4 * sum(SIZES[:2]) + 2 * sum(SIZES[2:]):
        return Wrong("promoted", name=NAMES[2], sent=sent, own=2 * SIZES[2])
    if len(messages) > kinds:
        return Wrong("many", count=len(messages), parameters=len(SIZES))
    return None


def facts(got, want, n):
    """Parameter 0 where all ranks agree, else what rank 1 has there."""
    told = {"got": number(got[0][0]), "want": number(want[0][0]), "name": NAMES[MISSING]}
    if n > 1 and abs(got[1][0] - got[0][0]) > 1e-3:
        return told | {"rank": 1, "got": number(got[1][0])}
    return told | (mixed_up(got, want) or {})


def passed(seen):
    messages = seen[0][0].messages
    return Passed(
        (
            ("messages for 4 parameters", len(messages), 1, ""),
            ("bytes in them", sum(m.bytes for m in messages), 4 * sum(SIZES), "bytes"),
        )
    )


EXERCISE = RankAnswer(
    flat_all_reduce,
    run=run,
    cases=[
        *(case(1, what) for what in (ALL, NOBODY)),
        *(case(n, what) for n in (3, 4) for what in (ALL, NOBODY, ONE, TYPES, UNUSED)),
    ],
    # bf16 keeps 8 bits: a division rounds by 1/256, a forgotten one is off by N.
    judge=lambda got, want, what: close(got, want, 0.02 if what in (TYPES, UNUSED) else 1e-5),
    # Gradients that stayed as they were: whether a message went out all the same.
    wire=lambda seen: (bool(seen.collectives), all(m.waited for m in seen.messages)),
    mistakes=[
        Mistake("never_waited",
                {"all_reduce(flat)": "all_reduce(flat, async_op=True)"}, when=not_waited),
        ("not_copied", {"grad.copy_(part.view(grad.shape))": "pass"}),
        ("stayed_home", {"dist.all_reduce(flat)": "", DIVIDE: ""}),
        ("rows", {"offset += grad.numel()": "offset += len(grad)"}),
        Mistake("order", {"for grad in grads:": "for grad in grads[::-1]:"}, when=in_another_order),
        ("sum", {DIVIDE: ""}),
        ("twice", {DIVIDE: "flat /= dist.get_world_size() ** 2"}),
        Mistake("literal", {DIVIDE: "flat /= 2"}, when=literal),
        Mistake("reduce", {"all_reduce(flat)": "reduce(flat, 0)"},
                when=lambda got, seen: "reduce" in seen[0].collectives),
        ("kept_none", forgets_the_missing),
        Mistake(
            "skips",
            {"list(model.parameters())": "[p for p in model.parameters() if p.grad is not None]"},
            when=skipped,
        ),
        Mistake("dtype_left", {FILL: f"dtypes = {THERE}\n    {FILL}", TYPES_OF_ALL: "dtypes"},
                no_message_for_a_dtype, hangs=True),
        Mistake("no_gradient", {"p.grad = torch.zeros_like(p)": "pass"}, when=stopped_at_none),
        ("promoted", {EACH_TYPE: "for _ in [0]:", SAME_TYPE: ""}),
        ("many", {EACH_TYPE: "for q in params:", SAME_TYPE: "if p is q"}),
    ],
    waste=waste,
    facts=facts,
    passed=passed,
)  # fmt: skip
