"""Exercise 16.1: every rank keeps an optimizer for its own part of the weights alone.

Weights start at 0 and rank r's gradient is -10**r, so after one step of SGD with a learning rate
of 1 a weight is the mean over the ranks: 37, for 1, 10 and 100. Other cases train on real numbers,
by SGD with momentum and by AdamW; the lesson proves that the solution is equal to one process.
"""

import math
from dataclasses import dataclass, field

import torch
import torch.distributed as dist

from dtlib.learn.explanations import number, read_paint
from dtlib.learn.mistakes import Mistake
from dtlib.learn.rank_answers import RankAnswer
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong
from dtlib.learn.wire import elements_sent
from dtlib.scratch.ring import all_gather, reduce_scatter, ring_reduce_scatter  # noqa: F401
from dtlib.sim.states import share

from .kept import bytes_kept

PSI = 10
SMALL = 0.003  # a step that bf16 near 1 rounds away: its numbers there are 1/128 apart

stage1 = solution("stage1", globals())


@dataclass
class Trained:
    """The weights, and bytes: of the optimizer's state, and of all that is kept between steps."""

    weights: list[float]
    state: int = field(compare=False)
    kept: int = field(compare=False)


def sgd(params):
    """SGD with momentum, whose first step is as long as the gradient."""
    return torch.optim.SGD(params, lr=1.0, momentum=0.9)


def adamw(params):
    """AdamW as a training uses it."""
    return torch.optim.AdamW(params, lr=0.01, weight_decay=0.1)


# What a case runs: its words, the optimizer, steps.
RUNS = (
    ("one step of SGD", sgd, 1),
    ("three steps of SGD with momentum", sgd, 3),
    ("three steps of AdamW", adamw, 3),
    ("one step of SGD in bf16", sgd, 1),
    (f"30 steps of up to {SMALL} in bf16", sgd, 30),
)
PAINTED, MOMENTUM, ADAMW, PAINTED_LOW, LOW = range(5)


def start(which):
    """The weights before the first step."""
    if which == PAINTED:
        return torch.zeros(PSI)
    if which == PAINTED_LOW:
        return torch.zeros(PSI, dtype=torch.bfloat16)
    if which == LOW:
        return torch.ones(PSI, dtype=torch.bfloat16)
    return torch.linspace(-1, 1, PSI)


def gradient(which, rank, step):
    """What backward left on a rank."""
    if which == PAINTED:
        return torch.full((PSI,), -(10.0**rank))
    if which == PAINTED_LOW:  # 111, their sum over three ranks, has no more than bf16's 8 bits
        return torch.full((PSI,), -(10.0**rank), dtype=torch.bfloat16)
    if which == LOW:
        # Momentum 0.9 makes ten of it in the long run.
        return torch.full((PSI,), -SMALL / 10, dtype=torch.bfloat16)
    generator = torch.Generator().manual_seed(10 * step + rank)
    return torch.randn(PSI, generator=generator)


def run(answer, which):
    """Train, and measure what is kept."""
    _, make, steps = RUNS[which]
    made = []

    def noted(params):
        made.append(make(params))
        return made[-1]

    weights = start(which)
    step = answer(weights, noted)
    if not callable(step):
        raise Wrong("no_step", what="nothing" if step is None else f"a {type(step).__name__}")
    gradients = [gradient(which, dist.get_rank(), k) for k in range(steps)]
    for own in gradients:
        step(own)
    if len(weights) != PSI:
        raise Wrong("shape", rank=dist.get_rank(), got=[len(weights)], shape=[PSI])
    found = [v for optimizer in made for state in optimizer.state.values() for v in state.values()]
    state = sum(v.nbytes for v in found if isinstance(v, torch.Tensor) and v.dim())
    kept = bytes_kept([step, *made], [weights, *gradients])
    return Trained(weights.detach().flatten().tolist(), state, kept)


def close(which):
    """How far off: bf16 rounds each number by up to 1/256, fp32 adds at most four near 1."""
    return 0.01 if which in (PAINTED_LOW, LOW) else 1e-5


def far(got, want, which):
    """The places of the weights that are wrong."""
    pairs = zip(got.weights, want.weights, strict=True)
    return [j for j, (x, y) in enumerate(pairs) if not abs(x - y) <= close(which) * (1 + abs(y))]


def judge(got, want, which):
    return not far(got, want, which)


def sent_round(seen):
    """If the others' weights stay 0: what each of three ranks got from them after the gradients."""
    if not isinstance(seen.got, Trained) or 0 not in seen.got.weights:
        return None
    if elements_sent(seen.messages, 3) <= PSI:
        return "nothing"
    carried = [value for message in seen.sent for value in message.values]
    last = carried[-1] if carried else 0
    if last >= 0:
        return "weights"
    # the momentum is the mean over three ranks, -37, and a finished sum is -111
    return {-37: "moments", -111: "gradients"}.get(round(last), "sums on their way")


def facts(got, want, which, n, seen):
    """The first weight that is wrong, and the part of rank 1."""
    rank = next((one.rank for one in seen if not one.right), 0)
    j = next(iter(far(got[rank], want[rank], which[0])), 0)
    value, right = got[rank].weights[j], want[rank].weights[j]
    block = torch.arange(PSI).tensor_split(n)[min(1, n - 1)].tolist()
    painted = which[0] in (PAINTED, PAINTED_LOW) and math.isfinite(value)
    whole = painted and abs(value * n - round(value * n)) < 1e-3  # a sum of painted numbers by n
    return {
        "got": number(value), "want": number(right), "right": right, "j": j, "psi": PSI,
        "reading": reading(round(value * n), n) if painted and whole else "",
        "block": f"{block[0]} to {block[-1]}", "steps": RUNS[which[0]][2],
        "sent": number(elements_sent(seen[min(1, n - 1)].messages, n)),
        "each": PSI // n, "rest": PSI % n, "last": number(got[0].weights[-1]),
    }  # fmt: skip


def reading(total, n):
    """Which ranks are in a mean, read from the sum."""
    read = read_paint(total, n)
    return f"Times {n}, that is {read}" if read else ""


def too_much_held(got, which, n):
    moments = {ADAMW: 2, LOW: 1}.get(which)
    if moments is None:
        return None
    right = 4 * moments * share(PSI, n)
    # besides the moments a master, and a gradient or another tensor as long as the shard
    most = right + 8 * share(PSI, n)
    for rank, trained in enumerate(got):
        if trained.state > right:
            return Wrong("whole_state", rank=rank, got=trained.state, want=right)
        if trained.kept > most:
            return Wrong("whole_copy", rank=rank, got=trained.kept, want=most)
    return None


def too_much_sent(seen, which, n):
    once = (n - 1) * share(PSI, n)
    for one in seen:
        sent = elements_sent(one.messages, n) / RUNS[which][2]
        if sent > 2 * once:
            key = "three_halves" if sent <= 3 * once else "too_much"
            return Wrong(key, rank=one.rank, got=number(sent), want=2 * once)
    return None


def waste(got, which, seen, n):
    """If the weights are right: does a rank hold more than its part's state, or send too much?"""
    return too_much_held(got, which[0], n) or too_much_sent(seen, which[0], n)


def passed(seen):
    state = max(one.got.state for one in seen[-1])
    most = max(elements_sent(one.messages, 4) for one in seen[-1]) / RUNS[ADAMW][2]
    per_rank = share(PSI, 4)
    return Passed(
        (
            ("AdamW's state on a rank of 4", state, 8 * per_rank, "bytes"),
            ("sent by a rank of 4 in a step, at most", number(most), 6 * per_rank, "elements"),
        ),
        "Equal to one process with SGD and with AdamW.",
    )


def gather_moments(optimizer, psi):
    """Replaces all_gather in the answer that sends the moments."""
    rank, n = dist.get_rank(), dist.get_world_size()
    for state in optimizer.state.values():
        for value in state.values():
            if value.dim():
                whole = torch.zeros(psi)
                whole.tensor_split(n)[rank].copy_(value)
                all_gather(whole)


def drops_the_rest(weights, make_optimizer):
    even = PSI - PSI % dist.get_world_size()
    step = stage1(weights[:even], make_optimizer)
    return lambda gradient: step(gradient[:even])


def stale(got, which):
    """Right in fp32, and in bf16 the weights are those from before the step."""
    return which[0] == PAINTED_LOW and not any(any(one.weights) for one in got)


def tuple_item(seen):
    """Every rank failed when it assigned to an element of the tuple of parts."""
    return all(s.failure and "does not support item assignment" in s.failure.message for s in seen)


def case(n, which):
    return n, f"{PSI} weights, {RUNS[which][0]}", lambda rank, n: which


REDUCE = "reduce_scatter(gradient)"
MEAN, CLEAR = f"master.grad = {REDUCE}.float() / n", "        optimizer.zero_grad()\n"
GATHER, STEP, COPY = "all_gather(weights)", "optimizer.step()", "own.copy_(master)"

EXERCISE = RankAnswer(
    stage1,
    run=run,
    judge=judge,
    cases=[
        case(n, which)
        for n, runs in ((1, (PAINTED,)), (3, range(5)), (4, range(3)))
        for which in runs
    ],
    mistakes=[
        ("no_master", {STEP: f"master.copy_(own)\n        {STEP}"}),
        Mistake("stale", {COPY: "pass"}, when=stale),
        ("stale", {f"{STEP}\n        {COPY}": f"{COPY}\n        {STEP}"}),
        ("unmoved", {"own = weights": "own = weights.clone()"}),
        ("no_gather", {GATHER: "pass"}),
        ("moments", {GATHER: "gather_moments(optimizer, len(weights))"}),
        ("gradients", {GATHER: "all_gather(gradient)"}),
        ("early", {f"        {GATHER}": "", f"{MEAN}": f"{GATHER}\n        {MEAN}"}),
        ("accumulated", {MEAN: "old = master.grad\n        " + MEAN,
                         STEP: f"master.grad += 0 if old is None else old\n        {STEP}",
                         CLEAR: ""}),
        ("lost_gather", {GATHER: "all_gather(weights.clone())"}),
        ("remainder", drops_the_rest),
        ("own_gradient", {f"{REDUCE}.float() / n": "gradient.tensor_split(n)[rank].float()"}),
        ("sum", {".float() / n": ".float()"}),
        ("divided_twice", {REDUCE: "reduce_scatter(gradient / n)"}),
        Mistake("tuple_item", {COPY: "weights.tensor_split(n)[rank] = master"},
                when=tuple_item),
        ("renewed", {STEP: "make_optimizer([master]).step()"}),
    ],
    other="weights",
    same=1e-4,
    wire=sent_round,
    facts=facts,
    waste=waste,
    passed=passed,
)  # fmt: skip
