"""Exercise 22.2: a step that sends less and waits less, and yields the same weights.

Gradients are painted, that is, they are plain numbers that show where they come from: on rank r a
sample's gradient is 10**r, times 2, 4, 9 and 13 in the four micro-batches, whose mean is 7. On
three ranks a weight should move by 259. If it moves by 1036, nothing was divided by the number of
micro-batches; 120.25 is the last micro-batch alone; and with 7, 70 and 700 no rank sent anything.
"""

import contextlib  # noqa: F401  # the solution uses it
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from dtlib.learn.mistakes import Mistake
from dtlib.learn.rank_answers import RankAnswer
from dtlib.learn.readers import told_apart, words
from dtlib.learn.solutions import altered, solution
from dtlib.learn.verdicts import Passed, Wrong

from .step_world import ADAMW, COUNTS, MICRO, NUMBER, PAINTED, PAINTS, PLAIN, SGD, alone, take

GRADIENTS = PAINTED * NUMBER  # bytes
SAME = 1e-6  # relative; in float64 another order of sums makes 1e-15
# Pieces of the solution's code.
QUIET = {"contextlib.nullcontext() if last else model.no_sync()": "model.no_sync()"}
DIVIDED = "/ len(micro_batches)"
ZERO = {"last =": "optimizer.zero_grad(); last ="}

faster_step = solution("faster_step", globals())


@dataclass
class Step:
    """The first thing that is wrong with a rank's two steps, and the numbers that show it.

    Two answers make the same mistake if these two fields are equal; the rest only fills sentences.
    """

    wrong: str  # "first", "second" (the weights after a step), "sent", "loss" or ""
    numbers: list[float]
    got: float = field(compare=False)  # how far a weight moved, or the loss
    want: float = field(compare=False)
    calls: int = field(compare=False)
    payload: int = field(compare=False)
    reads: int = field(compare=False)


def case(ranks, label):
    """Make a case, of which each rank is given the label alone."""
    return ranks, label, lambda rank, n: label


def run(answer, label):
    """Judge two steps on a rank by counts, weights and loss; a wrong count is refused at once."""
    n, taken = dist.get_world_size(), take(answer, label)
    if taken is None:  # another rank has failed, and reports it
        return None
    loss, k = number(taken.loss), COUNTS[label]
    right, weights = alone(label, n)
    told = loss, right, taken.calls, taken.payload, taken.reads
    if taken.steps != 1:
        raise Wrong("steps" if taken.steps else "no_step", steps=taken.steps, k=k)
    if taken.held > 1:
        raise Wrong("all_at_once", held=f"{taken.held:g}")
    before = 1.0  # the first painted weight
    for which, mine, want in zip(("first", "second"), taken.weights, weights, strict=True):
        if not near(mine, want):
            return Step(which, mine, before - mine[0], *told[1:])
        before = mine[0]
    if label in PAINTS:
        spent(taken, k)
    if taken.reads:
        raise Wrong("reads" if taken.reads > 1 and k > 1 else "read_once", reads=taken.reads)
    if not isinstance(taken.loss, torch.Tensor):
        raise Wrong("not_a_tensor")
    # right: the losses of all micro-batches in one message, or gathered from all ranks
    if label in PAINTS and taken.payload > GRADIENTS + NUMBER * k * n:
        return Step("sent", [], *told)
    return Step("", [], *told) if near(loss, right) else Step("loss", [loss], *told)


def number(loss):
    """Return the loss as a number, whether it is a tensor or a number."""
    if loss is None:
        raise Wrong("none")
    if isinstance(loss, torch.Tensor):
        if loss.numel() != 1:
            raise Wrong("shape", got=list(loss.shape), shape=[])
    elif not isinstance(loss, (int, float)) or isinstance(loss, bool):
        raise Wrong("kind", got=type(loss).__name__)
    return float(loss)


def near(a, b):
    """Whether numbers agree to a relative `SAME`; below 1, to an absolute one."""
    pairs = zip(a, b, strict=True) if isinstance(a, list) else [(a, b)]
    return all(abs(x - y) <= SAME * max(1.0, abs(y)) for x, y in pairs)


def spent(taken, k):
    """Refuse more messages than one for the gradients and one for the loss."""
    told = {"calls": taken.calls, "payload": taken.payload, "once": GRADIENTS, "k": k}
    if taken.calls > k > 1 and taken.payload >= k * GRADIENTS:
        raise Wrong("forward_outside" if taken.entered else "every_micro_batch", **told)
    if taken.calls > 2:
        if taken.barriers or (taken.calls == 3 and taken.payload <= GRADIENTS + NUMBER):
            raise Wrong("extra_calls", **told)
        if taken.payload == 2 * GRADIENTS + NUMBER:  # the losses of k micro-batches are fewer bytes
            raise Wrong("gradients_twice", **told)
        several = taken.payload > GRADIENTS + NUMBER
        raise Wrong("loss_messages" if several else "one_by_one", **told)


stays_quiet = altered(faster_step, QUIET)


def averages_weights(model, *rest):
    loss = stays_quiet(model, *rest)
    flat = parameters_to_vector(model.parameters()).detach()
    dist.all_reduce(flat, dist.ReduceOp.AVG)
    vector_to_parameters(flat, model.parameters())
    return loss


def differ(got):
    return len({round(one.got, 6) for one in got}) > 1


def weights(got):
    return any(one.wrong in ("first", "second") for one in got)


def losses(got):
    return any(one.wrong == "loss" for one in got)


def facts(got, case):
    """Return the numbers of all ranks, and those of the first rank that is wrong."""
    bad = next((one for one in got if one.wrong), got[0])
    mine, right = told_apart(bad.got, bad.want)
    told = {"got": mine, "want": right, "all": words([o.got for o in got])}
    seen = f"{bad.payload} bytes in {bad.calls} calls of collectives"
    return told | {"k": COUNTS[case], "optimizer": case.split(",")[0], "seen": seen}


def passed(seen):
    found, k = seen[-2][0].got, COUNTS[MICRO]
    slow = k * (GRADIENTS + NUMBER)
    return Passed(
        (
            (f"all-reduces a step, at most; slow_step has {2 * k} here", found.calls, 2, ""),
            (f"bytes, at most; slow_step has {slow}", found.payload, GRADIENTS + NUMBER, "bytes"),
            (f"numbers read in the step, where slow_step reads {k}", found.reads, 0, ""),
        ),
        "The weights are those of one process, under SGD with momentum and under AdamW.",
    )


CASES = {1: (MICRO, PLAIN), 3: (MICRO, PLAIN, SGD, ADAMW), 4: (MICRO, ADAMW)}

EXERCISE = RankAnswer(
    faster_step,
    run=run,
    cases=[case(n, label) for n, labels in CASES.items() for label in labels],
    judge=lambda got: got is not None and not got.wrong,
    same=SAME,
    mistakes=[
        ("never_met", stays_quiet),
        ("old_gradients", {"optimizer.zero_grad()": ""}),
        ("not_divided", {DIVIDED: ""}),
        ("newest", ZERO),
        ("newest", {**ZERO, DIVIDED: ""}),
        ("divided_twice", {DIVIDED: f"{DIVIDED} {DIVIDED}"}),
        ("by_ranks", {DIVIDED: f"{DIVIDED} / dist.get_world_size()"}),
        ("sum_of_ranks", {DIVIDED: f"{DIVIDED} * dist.get_world_size()"}),
        Mistake("drift", averages_weights,
                when=lambda got, case: case not in PAINTS and weights(got)),
        Mistake("part_met", {"k == len(micro_batches)": "k == 1"},
                when=lambda got: weights(got) and differ(got)),
        Mistake("gradient", {DIVIDED: f"{DIVIDED} / 2"}, when=weights),
        Mistake("own_loss", {"dist.all_reduce(total)": "", " / dist.get_world_size()": ""},
                when=lambda got: losses(got) and differ(got)),
        ("loss_sum", {" / dist.get_world_size()": ""}),
        ("loss_not_divided", {"return total": "return len(micro_batches) * total"}),
        ("loss_twice", {"return total": f"return total {DIVIDED}"}),
        ("loss_by_ranks", {"(total)": "(total, dist.ReduceOp.AVG)"}),
        Mistake("loss", {"return total": "return 1 + total"}, when=losses),
    ],
    other="unrecognised",
    facts=facts,
    passed=passed,
)  # fmt: skip
