"""Exercise 13.3: the norm of a gradient on a mesh, every parameter counted once."""

import torch
import torch.distributed as dist

from dtlib.learn.explanations import nothing_back, number
from dtlib.learn.mistakes import Mistake
from dtlib.learn.rank_answers import RankAnswer
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong
from dtlib.learn.wire import elements_sent
from dtlib.ranks import timeouts
from dtlib.scratch.mesh import Mesh, make_groups

A_FEW = 64  # bytes that a rank may send for each rank that there is: numbers, also pickled ones
LONG = 60  # elements of a gradient, which take more
# words of the solution
COUNTED = 'kind == "cut" or dist.get_rank(tensor) == 0'
OVER_T = "dist.all_reduce(square, group=tensor)"
OVER_P = "dist.all_reduce(square, group=pipeline)"

mesh_norm = solution("mesh_norm", globals())


def case(data, pipeline, tensor):
    mesh = Mesh(data, pipeline, 1, tensor)
    words = f"data {data} × pipeline {pipeline} × tensor {tensor}"
    return mesh.ranks, words, lambda rank, n: (of_rank(mesh, rank), mesh)


def of_rank(mesh, rank):
    """Kind, gradient, and whether an earlier stage has it, too, of three parameters of a rank.

    The last of them is tied: it lies in the first and in the last stage.
    """
    at = mesh.coordinates(rank)
    stage, part, last = at["pipeline"], at["tensor"], mesh.pipeline - 1
    found = [
        ("cut", filled(1 + 2 * stage + 3 * part), False),
        ("whole", filled(2 + stage), False),
        ("cut", filled(5 + part), 0 < stage == last),
    ]
    return found if stage in (0, last) else found[:2]


def filled(value):
    return torch.full((LONG,), float(value), dtype=torch.float64)


def run(answer, parameters, mesh):
    tensor, pipeline = (
        make_groups(mesh, axis, timeout=timeouts.CHECK) for axis in ("tensor", "pipeline")
    )
    before = [gradient.clone() for _, gradient, _ in parameters]
    found = answer(parameters, tensor, pipeline)
    after = [gradient for _, gradient, _ in parameters]
    if found is not None and not all(map(torch.equal, before, after)):
        raise Wrong("changed", rank=dist.get_rank())
    return found


def waste(seen, mesh, n):
    for one in seen if n > 1 else ():
        given = sum(elements_sent([m], n) * m.bytes / m.elements for m in one.messages if m.bytes)
        if given > A_FEW * n:
            return Wrong("sends_gradients", rank=one.rank, given=number(given))
    return None


def facts(got, want, mesh, n):
    rank = next((k for k, (x, y) in enumerate(zip(got, want, strict=True)) if x != y), 0)
    mine = number(got[rank]) if isinstance(got[rank], float) else "something"
    return {"rank": rank, "got": mine, "want": number(want[rank]), "T": mesh[0].tensor, "n": n}


def leaves_early(parameters, tensor, pipeline):
    """A rank with nothing whole to count does not take part."""
    if dist.get_rank(tensor):
        return sum(g.square().sum() for kind, g, again in parameters if kind == "cut").sqrt()
    return mesh_norm(parameters, tensor, pipeline)


def waits(mesh, rank):
    return mesh.tensor > 1 and mesh.coordinates(rank)["tensor"] == 0


def norms_added(parameters, tensor, pipeline):
    total = sum(g.norm() for kind, g, again in parameters
                if not again and (kind == "cut" or dist.get_rank(tensor) == 0))  # fmt: skip
    total = torch.as_tensor(total, dtype=torch.float64)
    dist.all_reduce(total, group=tensor)
    dist.all_reduce(total, group=pipeline)
    return total


def passed(seen):
    want = seen[-1][0].want[0]
    return Passed(((f"norm on {case(2, 1, 2)[1]}", number(seen[-1][0].got), number(want), ""),))


EXERCISE = RankAnswer(
    mesh_norm,
    run=run,
    cases=[case(1, 1, 1), case(1, 1, 3), case(1, 3, 1), case(1, 2, 2), case(2, 1, 2)],
    mistakes=[
        ("whole_again", {f"({COUNTED})": "True"}),
        ("tied_again", {"not again and ": ""}),
        ("over_everything", {OVER_T: "dist.all_reduce(square)", OVER_P: "pass"}),
        ("tensor_forgotten", {OVER_T: "pass"}),
        ("pipeline_forgotten", {OVER_P: "pass"}),
        ("own", {OVER_T: "pass", OVER_P: "pass"}),
        ("no_root", {".sqrt()": ""}),
        ("norms_added", norms_added),
        ("whole_lost", {COUNTED: 'kind == "cut"'}),
        ("cut_once", {COUNTED: "dist.get_rank(tensor) == 0"}),
        ("first_stage", {COUNTED: 'kind == "cut" or dist.get_rank(pipeline) == 0'}),
        ("upside_down", {COUNTED: 'kind == "whole" or dist.get_rank(tensor) == 0'}),
        ("mean", {".sqrt()": ".div(dist.get_world_size()).sqrt()"}),
        ("largest", {OVER_T: "dist.all_reduce(square, dist.ReduceOp.MAX, group=tensor)"}),
        ("largest", {OVER_P: "dist.all_reduce(square, dist.ReduceOp.MAX, group=pipeline)"}),
        ("signed", {"gradient.square().sum()": "gradient.sum()", ".sqrt()": ".abs()"}),
        Mistake("in_place", {"return square.sqrt()": f"return {OVER_P}", f"    {OVER_P}\n": ""},
                when=nothing_back),
        Mistake("leaves_early", leaves_early,
                hangs=lambda mesh, rank: "a collective" if waits(mesh, rank) else None),
    ],
    wire=lambda seen: None,  # the norm tells how it was made
    facts=facts,
    waste=waste,
    passed=passed,
)  # fmt: skip
