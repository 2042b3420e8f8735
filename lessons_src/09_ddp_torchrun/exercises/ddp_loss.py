"""Exercise 9.3: the loss whose gradient, averaged by DDP, is the mean over all ranks' samples.

The model is one weight w = 1. A sample x has the loss w·x, so its gradient is x, and the gradient
of a rank shows which samples are in it.
"""

import math

import torch
import torch.distributed as dist

from dtlib.learn.explanations import number
from dtlib.learn.mistakes import Mistake
from dtlib.learn.rank_answers import RankAnswer
from dtlib.learn.rank_runs import plain_group
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

LISTS = (
    ((4,),),
    ((6,), (1, 1, 1, 1), (2, 2)),  # the largest count is not the number of ranks
    ((1, 3), (), (5, 7, 9, 11)),
    ((2, 4), (), (8,), (1, 2, 3, 4)),
)
TIMES = " * dist.get_world_size()"  # words of the solution


def case(lists):
    """Each rank is given its list."""
    return (
        len(lists),
        "samples " + ", ".join(str([*own]) for own in lists),
        lambda rank, n: torch.tensor(lists[rank], dtype=torch.float32),
    )


def run(answer, x):
    """The gradient, averaged by DDP, that an answer leaves on this rank."""
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(model.weight)
    group = plain_group()
    ddp = torch.nn.parallel.DistributedDataParallel(model, process_group=group)
    loss, everyone = None, torch.zeros(1)
    try:
        loss = answer(ddp(x[:, None]).flatten())
        everyone += what_is_missing(loss, model.weight) is None
    finally:  # DDP runs a collective in backward: no rank may call it alone
        dist.all_reduce(everyone, dist.ReduceOp.MIN, group=group)
    missing = what_is_missing(loss, model.weight)
    if missing is not None and loss is not None:
        many = "vector" if "numbers" in missing else "detached"
        raise Wrong(many if len(x) else "early", rank=dist.get_rank(), what=missing)
    if not everyone or loss is None:
        return None
    loss.backward()
    gradient = model.weight.grad
    assert gradient is not None
    # the mean of no losses is nan, and yet its gradient is 0
    return gradient.flatten() if loss.isfinite() else torch.tensor([math.nan])


def what_is_missing(loss, weight):
    """Say why `backward()` cannot be called on the loss; None when it can."""
    if not isinstance(loss, torch.Tensor):
        return f"a {type(loss).__name__}"
    if loss.grad_fn is None:
        return "a tensor without a graph"
    if loss.numel() != 1:
        return f"a tensor of {loss.numel()} numbers"
    return None if reaches(loss, weight) else "a tensor whose graph does not reach the weights"


def reaches(loss, weight):
    """Whether backward from the loss comes to the weight."""
    nodes, known = [loss.grad_fn], set()
    while nodes:
        node = nodes.pop()
        if getattr(node, "variable", None) is weight:
            return True
        known.add(node)
        nodes += [n for n, _ in node.next_functions if n is not None and n not in known]
    return False


def nan(got, x):
    """nan, where a rank has no sample."""
    empty = [rank for rank, own in enumerate(x) if not len(own)]
    return bool(empty) and any(map(math.isnan, got)) and {"rank": empty[0]}


def leaves_early(losses):
    return ddp_loss(losses) if len(losses) else losses.sum()


def left_early(seen, x):
    """The ranks that hold samples wait in a collective that the empty rank never called."""
    calls = [len(one.collectives) for one in seen]
    empty = [r for r, own in enumerate(x) if not len(own) and calls[r] < max(calls)]
    hung = any(one.failure and not one.failure.own for one in seen)
    return bool(hung and empty) and {"rank": empty[0]}


def twice(seen):
    """Whether backward ran through the same graph twice."""
    return any(one.failure and "graph a second time" in one.failure.message for one in seen)


def facts(got, want, x):
    return {
        "got": number(got[0]), "want": number(want[0]),
        "total": number(sum(own.sum().item() for own in x)), "count": sum(map(len, x)),
        "counts": ", ".join(str(len(own)) for own in x),
    }  # fmt: skip


def passed(seen):
    everyone = [v for own in LISTS[-1] for v in own]
    mean = number(sum(everyone) / len(everyone))
    got = number(seen[-1][0].values[0])
    return Passed((("gradient on 4 ranks with 2, 0, 1 and 4 samples", got, mean, ""),))


ddp_loss = solution("ddp_loss", globals())

EXERCISE = RankAnswer(
    ddp_loss,
    run=run,
    cases=[case(lists) for lists in LISTS],
    mistakes=[
        Mistake("backward_inside", {"return losses": "loss = losses",
                                    "/ count": "/ count\n    loss.backward()\n    return loss"},
                when=twice),
        Mistake("left_early", leaves_early, when=left_early, hangs=True),
        Mistake("nan", {"losses.sum()": "losses.mean() * len(losses)"}, when=nan),
        ("mean_of_means", lambda losses: losses.mean() if len(losses) else losses.sum()),
        ("divided_twice", {TIMES: ""}),
        ("sum_of_all", {" / count": ""}),
        ("sum", {TIMES: "", " / count": ""}),
        ("own_count", {"/ count": "/ max(1, len(losses))"}),
        ("divided_by_n", {TIMES: " / dist.get_world_size()"}),
        ("times_n_twice", {TIMES: f"{TIMES} ** 2"}),
        ("largest_count", {"all_reduce(count)": "all_reduce(count, dist.ReduceOp.MAX)"}),
    ],
    facts=facts,
    passed=passed,
)  # fmt: skip
