"""Exercise 13.2: gradients of a data × tensor mesh, each completed over the right group."""

import math

import torch
import torch.distributed as dist

from dtlib.learn.explanations import not_waited, number
from dtlib.learn.mistakes import Mistake
from dtlib.learn.rank_answers import RankAnswer
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong
from dtlib.learn.wire import elements_sent
from dtlib.ranks import timeouts
from dtlib.scratch.mesh import Mesh, make_groups

SIZES = {"cut": (1, 3), "whole": (2,), "partial": (4,)}  # only a matrix is cut
MINE = (2.0, 8.0, 11.0)  # a rank's own mean, by its place on the data axis
# words of the solution
PARTIAL = 'if kind == "partial":\n            dist.all_reduce(gradient, group=tensor)\n        '
MEAN, SHARE = "dist.all_reduce(gradient, group=data)", "gradient /= dist.get_world_size(data)"

sync_gradients = solution("sync_gradients", globals())


def case(data, tensor):
    """Gradients that tell where they come from; one rank alone has none of kind `partial`."""
    mesh = Mesh(data=data, tensor=tensor)
    words = f"data {data} × tensor {tensor}"
    return mesh.ranks, words, lambda rank, n: (painted(mesh, rank), mesh)


def painted(mesh, rank):
    at = mesh.coordinates(rank)
    own, t = MINE[at["data"]], at["tensor"]
    values = {"cut": own + 100 * (t + 1), "whole": 10 * own, "partial": own * (t + 1)}
    return [
        (kind, torch.full(size, values[kind], dtype=torch.float64))
        for kind, size in SIZES.items()
        if kind != "partial" or mesh.ranks > 1
    ]


def run(answer, parameters, mesh):
    """The gradients of a rank after the call, one after the other."""
    data, tensor = (make_groups(mesh, axis, timeout=timeouts.CHECK) for axis in ("data", "tensor"))
    before = [gradient.clone() for _, gradient in parameters]
    found = answer(parameters, data, tensor)
    after = [gradient for _, gradient in parameters]
    same = all(map(torch.equal, before, after))
    if found is not None and same and mesh.ranks > 1:
        raise Wrong("returned", rank=dist.get_rank(), got=type(found).__name__)
    return torch.cat([gradient.flatten() for gradient in after])


def facts(got, want, mesh):
    """The first gradient that is wrong, and where its rank lies."""
    rank = next((k for k, (x, y) in enumerate(zip(got, want, strict=True)) if x != y), 0)
    told = {"rank": rank, "D": mesh[0].data, "T": mesh[0].tensor, "n": mesh[0].ranks}
    kinds = [kind for kind, gradient in painted(mesh[0], rank) for _ in gradient.flatten()]
    if not isinstance(got[rank], list) or len(got[rank]) != len(kinds):
        return {**told, "kind": kinds[0], "got": "other numbers", "want": "another number"}
    numbers = zip(kinds, got[rank], want[rank], strict=True)
    off = (one for one in numbers if not abs(one[1] - one[2]) <= 1e-6)
    kind, mine, right = next(off, (kinds[0], got[rank][0], want[rank][0]))
    return {**told, "kind": kind, "got": number(mine), "want": number(right)}


def enough(mesh):
    """Elements that a rank has to send, on rings."""
    summed = math.prod(SIZES["partial"])
    once = sum(map(math.prod, SIZES.values()))
    return 2 * (1 - 1 / mesh.data) * once + 2 * (1 - 1 / mesh.tensor) * summed


def waste(seen, mesh, n):
    started = not_waited(seen)
    if started:
        return Wrong("never_waited", **started)
    for one in seen:
        sent = elements_sent(one.messages, n)
        if sent > enough(mesh[0]) + 1e-9:
            ranks = sorted({m.ranks for m in one.messages if len(m.ranks) > 1})
            said = " and ".join(str(list(group)) for group in ranks)
            return Wrong("too_much", rank=one.rank, sent=number(sent), groups=said,
                         enough=number(enough(mesh[0])))  # fmt: skip
    return None


def over(group, kinds='kind == "partial"', mean=False):
    """Words of a solution that also reduces some kinds over a group."""
    share = f"; gradient /= dist.get_world_size({group})" * mean
    return f"if {kinds}:\n            dist.all_reduce(gradient, group={group}){share}\n        "


def left_for_others(parameters, data, tensor):
    """What is the same on all ranks of tensor, only the first of them averages."""
    for kind, gradient in parameters:
        if kind == "partial":
            dist.all_reduce(gradient, group=tensor)
        if kind == "cut" or dist.get_rank(tensor) == 0:
            dist.all_reduce(gradient, group=data)
            gradient /= dist.get_world_size(data)


def half_of_them_call(parameters, data, tensor):
    """Only the first rank of tensor enters a collective of tensor."""
    for kind, gradient in parameters:
        if kind == "partial" and dist.get_rank(tensor) == 0:
            dist.all_reduce(gradient, group=tensor)
        dist.all_reduce(gradient, group=data)
        gradient /= dist.get_world_size(data)


def waits(mesh, rank):
    """Whether a rank is the first of a tensor group that has others."""
    return mesh.tensor > 1 and mesh.coordinates(rank)["tensor"] == 0


def swapped(parameters, data, tensor):
    return sync_gradients(parameters, tensor, data)


def passed(seen):
    sent = max(elements_sent(one.messages, 4) for one in seen[-1])
    most = enough(Mesh(data=2, tensor=2))
    return Passed((("sent by a rank of data 2 × tensor 2, at most", sent, most, "elements"),))


EXERCISE = RankAnswer(
    sync_gradients,
    run=run,
    cases=[case(1, 1), case(3, 1), case(1, 3), case(2, 2)],
    mistakes=[
        ("summed", {f"\n        {SHARE}": ""}),
        ("divided_by_all", {SHARE: "gradient /= dist.get_world_size()"}),
        ("divided_by_all",
         {SHARE: "gradient /= dist.get_world_size(data) * dist.get_world_size(tensor)"}),
        ("divided_by_tensor", {SHARE: "gradient /= dist.get_world_size(tensor)"}),
        ("partial_left", {PARTIAL: ""}),
        ("partial_mean", {PARTIAL: over("tensor", mean=True)}),
        ("over_everything", {PARTIAL: "", MEAN: "dist.all_reduce(gradient)",
                             SHARE: "gradient /= dist.get_world_size()"}),
        ("whole_summed", {PARTIAL: over("tensor", 'kind != "cut"')}),
        ("all_summed", {PARTIAL: over("tensor", "True")}),
        ("cut_summed", {PARTIAL: over("tensor", 'kind != "whole"')}),
        ("whole_for_partial", {PARTIAL: over("tensor", 'kind == "whole"')}),
        ("swapped", swapped),
        ("data_forgotten", {MEAN: "pass", SHARE: "pass"}),
        ("cut_forgotten", {MEAN: f'if kind == "cut":\n            continue\n        {MEAN}'}),
        ("partial_no_data", {MEAN: f'if kind == "partial":\n            continue\n        {MEAN}'}),
        ("whole_no_data", {MEAN: f'if kind == "whole":\n            continue\n        {MEAN}'}),
        ("first_only", left_for_others),
        ("broadcast", {MEAN: "dist.broadcast(gradient, group=data, group_src=0)",
                       SHARE: "pass"}),
        ("largest", {MEAN: "dist.all_reduce(gradient, dist.ReduceOp.MAX, group=data)",
                     SHARE: "pass"}),
        Mistake("some_call", half_of_them_call,
                hangs=lambda rank, mesh: "a collective" if waits(mesh, rank) else None),
        Mistake("never_waited", {MEAN: "dist.all_reduce(gradient, group=data, async_op=True)"},
                when=not_waited),
        Mistake("another", when=lambda got: True),  # instead of a row of numbers without kinds
    ],
    wire=lambda seen: None,  # the numbers tell how they were made
    facts=facts,
    waste=waste,
    passed=passed,
)  # fmt: skip
