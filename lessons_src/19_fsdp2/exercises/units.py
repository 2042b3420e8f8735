"""Exercise 19.1: which modules `fully_shard` is called on, judged by a step on real ranks.

Two models: a GPT on a line of ranks, and one with blocks in three places on a mesh of two nodes.
After a step the check knows which weights were never sharded, or over another mesh, what was whole
at most, and how many gathers and reductions there were. On one rank there are none, so all cases
have four.
"""

import copy
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import (  # noqa: F401 (a mistake uses the policy)
    FSDPModule,
    MixedPrecisionPolicy,
    fully_shard,
)
from torch.distributed.tensor import DTensor

from dtlib.learn.mistakes import Mistake
from dtlib.learn.rank_answers import RankAnswer
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong
from dtlib.models.gpt import Block

from ..trace import Trace, most_whole
from . import toys

shard = solution("shard", globals())


@dataclass
class Step:
    """What a step of the sharded model did on a rank.

    `plain` are the parameters that are no DTensor; `off` says that a gradient is not that of one
    process; `whole` are bytes of weights, at most; `other` says that a module was returned that is
    not the one given; `elsewhere` are the DTensors on another mesh than the one given.
    """

    plain: int
    off: bool
    whole: int
    gathers: int
    reductions: int
    other: bool
    elsewhere: int
    tensors: int = field(compare=False)
    root_plain: bool = field(compare=False)


def mesh_for(which):
    """A line of all ranks, or two nodes with half of the ranks each."""
    if which == "gpt":
        return DeviceMesh.from_group(dist.distributed_c10d._get_default_group(), "cpu")
    grid = torch.arange(dist.get_world_size()).view(2, -1)
    return DeviceMesh("cpu", grid, mesh_dim_names=("replicate", "shard"))


def run(answer, which):
    mesh = mesh_for(which)
    model, want = toys.make(which), toys.gradients_of_one_process(which)
    made = answer(model, mesh)
    trace = Trace(model)
    named = dict(model.named_parameters())
    plain = [name for name, p in named.items() if not isinstance(p, DTensor)]
    elsewhere = sum(p.device_mesh != mesh for p in named.values() if isinstance(p, DTensor))
    with trace.watching() as events:
        toys.loss(model, dist.get_rank()).backward()
    grads = {name: p.grad for name, p in model.named_parameters()}
    missing = [name for name in want if grads.get(name) is None]
    if missing:
        raise Wrong("no_gradient", name=missing[0])
    whole: dict[str, Any] = {
        name: g.full_tensor() if isinstance(g, DTensor) else g for name, g in grads.items()
    }
    kinds = [event.kind for event in events]
    # fp32 sums of some ten terms near 1, in any order
    off = any(not torch.allclose(whole[name], want[name], atol=1e-5) for name in want)
    other = isinstance(made, torch.nn.Module) and made is not model
    return Step(
        len(plain), off, most_whole(events, trace.sizes), kinds.count("gather"),
        kinds.count("reduce"), other, elsewhere, len(named), not isinstance(model, FSDPModule),
    )  # fmt: skip


def judge(got, want):
    return not (got.plain or got.off or got.elsewhere) and got.whole <= want.whole


def waste(got, want, n):
    """A finer cut is right, and sends more messages."""
    if n > 1 and got[0].gathers > want[0].gathers + 1:  # the root may be gathered again
        return Wrong("too_fine")
    return None


def facts(got, want, which):
    model = toys.make(which[0])
    blocks = [m for m in model.modules() if isinstance(m, Block)]
    block = sum(p.nbytes for p in blocks[0].parameters())
    return {
        "plain": got[0].plain, "elsewhere": got[0].elsewhere, "tensors": got[0].tensors,
        "whole": got[0].whole, "want": want[0].whole, "gathers": got[0].gathers,
        "enough": want[0].gathers, "blocks": len(blocks), "block": block,
        "rest": want[0].whole - block, "all": sum(p.nbytes for p in model.parameters()),
    }  # fmt: skip


def raises(words):
    """Recognises an answer that failed with these words on every rank."""

    def when(seen):
        return all(one.failure and words in one.failure.message for one in seen)

    return when


def some_at_once(got, want):
    """More than one block, but not all."""
    return got[0].plain == 0 and got[0].whole > want[0].whole


def passed(seen):
    last = seen[-1][0]
    return Passed((
        ("bytes whole at once, at most", last.got.whole, last.goal.whole, ""),
        ("gathers in a step", last.got.gathers, last.goal.gathers, ""),
    ))  # fmt: skip


def case(n, which):
    words = {"gpt": "a GPT of 3 blocks", "towers": "a model with 5 blocks in three places"}
    return n, words[which], lambda rank, n: which


def blocks(model):
    return [module for module in model.modules() if isinstance(module, Block)]


def root_first(model, mesh):
    for module in (model, *blocks(model)):
        fully_shard(module, mesh=mesh)


def a_copy(model, mesh):
    model = copy.deepcopy(model)
    shard(model, mesh)
    return model


def of_the_longest_list(model, mesh):
    """Only the blocks of the list that has most of them."""
    lists = [m for m in model.modules() if isinstance(m, torch.nn.ModuleList)]
    for module in max(lists, key=len):
        fully_shard(module, mesh=mesh)
    fully_shard(model, mesh=mesh)


def of_a_gpt(model, mesh):
    for block in model.h:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)


def children(model, mesh):
    """Every child that has a forward, and the model not."""
    for child in model.children():
        if not isinstance(child, torch.nn.ModuleList) and list(child.parameters()):
            fully_shard(child, mesh=mesh)


def without_embeddings(model, mesh):
    for block in blocks(model):
        fully_shard(block, mesh=mesh)
    tables = [m for m in model.modules() if isinstance(m, torch.nn.Embedding)]
    outside: set[Any] = {table.weight for table in tables}
    fully_shard(model, mesh=mesh, ignored_params=outside)


# words of the solution
LOOP = "isinstance(module, Block)"
UNIT, ROOT = "fully_shard(module, mesh=mesh)", "fully_shard(model, mesh=mesh)"

EXERCISE = RankAnswer(
    shard,
    run=run,
    judge=judge,
    cases=[case(4, "gpt"), case(4, "towers")],
    mistakes=[
        Mistake("nothing", {UNIT: "pass", ROOT: "pass"},
                when=lambda got: got[0].plain == got[0].tensors and not got[0].other),
        ("root_alone", {UNIT: "pass"}),
        Mistake("other_model", a_copy,
                when=lambda got: got[0].other and got[0].plain == got[0].tensors),
        Mistake("not_the_root", {ROOT: "pass"},
                when=lambda got: got[0].root_plain and got[0].plain < got[0].tensors),
        ("kept_whole", {UNIT: "fully_shard(module, mesh=mesh, reshard_after_forward=False)"}),
        ("one_group", lambda model, mesh: (fully_shard(blocks(model), mesh=mesh),
                                           fully_shard(model, mesh=mesh))),
        Mistake("root_first", root_first, when=raises("Invariant encountered")),
        Mistake("twice", {ROOT: f"{ROOT}\n    {ROOT}"}, when=raises("applied to a module once")),
        Mistake("container", {LOOP: "isinstance(module, torch.nn.ModuleList)"},
                when=raises("do not implement forward")),
        Mistake("model_h", of_a_gpt, when=raises("has no attribute 'h'")),
        Mistake("other_numbers", {UNIT: "fully_shard(module, mesh=mesh, mp_policy="
                                        "MixedPrecisionPolicy(torch.bfloat16))"},
                when=lambda got, want: got[0].off and got[0].plain == 0
                and got[0].whole <= want[0].whole),
        Mistake("not_gathered", children, when=raises("mixed torch.Tensor and DTensor")),
        Mistake("other_mesh", {UNIT: "fully_shard(module)", ROOT: "fully_shard(model)"},
                when=lambda got: got[0].elsewhere > 0),
        ("one_list", of_the_longest_list),
        Mistake("some_plain", without_embeddings, when=lambda got: got[0].plain > 0),
        Mistake("some_whole", {UNIT: "fully_shard(module, mesh=mesh, reshard_after_forward=module"
                                     ".ln_1.weight is not blocks(model)[0].ln_1.weight)"},
                when=some_at_once),
    ],
    other="unrecognised",
    facts=facts,
    waste=waste,
    passed=passed,
)  # fmt: skip
