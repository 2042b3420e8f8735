"""More answers to `shard`, for the tests alone."""

import copy

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Shard, distribute_tensor

from dtlib.models.gpt import Block

from ..exercises.units import LOOP, ROOT, UNIT, blocks, shard


def linears(model, mesh):
    for module in model.modules():
        if isinstance(module, nn.Linear):
            fully_shard(module, mesh=mesh)
    fully_shard(model, mesh=mesh)


def halves_of_blocks(model, mesh):
    for block in blocks(model):
        for half in (block.attn, block.mlp, block):
            fully_shard(half, mesh=mesh)
    fully_shard(model, mesh=mesh)


def in_pairs(model, mesh):
    found = blocks(model)
    for i in range(0, len(found), 2):
        fully_shard(found[i : i + 2], mesh=mesh)
    fully_shard(model, mesh=mesh)


def parameters(model, mesh):
    """Cut tensors that nobody gathers."""
    for module in list(model.modules()):
        for name, p in list(module.named_parameters(recurse=False)):
            cut = distribute_tensor(p.detach(), mesh, [Shard(0)])
            setattr(module, name, nn.Parameter(cut))


def all_but_the_last(model, mesh):
    for block in blocks(model)[:-1]:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)


def freezes(model, mesh):
    next(iter(model.parameters())).requires_grad_(False)
    shard(model, mesh)


def a_sharded_copy(model, mesh):
    model = copy.deepcopy(model)
    for module in (*blocks(model), model):
        fully_shard(module, mesh=mesh)
    return model


def in_bf16(model, mesh):
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    for module in (*blocks(model), model):
        fully_shard(module, mesh=mesh, mp_policy=policy)


def all_but_the_model_last(model, mesh):
    """From the outside in, and the model at the end."""
    for module in list(model.modules())[1:]:
        if not isinstance(module, nn.ModuleList) and list(module.parameters()):
            fully_shard(module, mesh=mesh)
    fully_shard(model, mesh=mesh)


def blocks_before_their_parts(model, mesh):
    for block in blocks(model):
        for module in (block, *block.children()):
            fully_shard(module, mesh=mesh)
    fully_shard(model, mesh=mesh)


# Right.
def bottom_up(model, mesh):
    """Every module that is a block or the model, from the innermost."""
    for module in reversed(list(model.modules())):
        if isinstance(module, Block) or module is model:
            fully_shard(module, mesh=mesh)
    return model


def root_again(model, mesh):
    """The root is gathered once more in backward."""
    for block in blocks(model):
        fully_shard(block, mesh=mesh, reshard_after_forward=True)
    fully_shard(model, mesh=mesh, reshard_after_forward=True)


def on_a_mesh_of_its_own(model, mesh):
    mesh = init_device_mesh("cpu", (mesh.size(),), mesh_dim_names=("own",))
    shard(model, mesh)


def norms_too(model, mesh):
    """A block takes the norms in it, which come later and find only DTensors."""
    for module in model.modules():
        if isinstance(module, Block | nn.Embedding | nn.LayerNorm):
            fully_shard(module, mesh=mesh)
    fully_shard(model, mesh=mesh)


ALSO_WRONG = [
    ("other_model", a_sharded_copy),
    ("other_numbers", in_bf16),
    ("root_first", all_but_the_model_last),
    ("root_first", blocks_before_their_parts),
    ("other_mesh", on_a_mesh_of_its_own),
    ("other_mesh", {ROOT: "fully_shard(model)"}),
    ("root_first", norms_too),
    ("too_fine", linears),
    ("too_fine", halves_of_blocks),
    ("some_whole", in_pairs),
    ("some_whole", all_but_the_last),
    ("not_gathered", parameters),
    ("nothing", {LOOP: "False", ROOT: "pass"}),
    ("root_alone", {LOOP: "module is None"}),
    ("root_alone", {UNIT: "module"}),
    ("not_the_root", {ROOT: "return model"}),
    ("no_gradient", freezes),
    ("raised", lambda model, mesh: fully_shard(torch.ones(1), mesh=mesh)),
]
ALSO_RIGHT = [bottom_up, root_again]
LADDER = (
    """\
def shard(model, mesh):
    fully_shard(model, mesh=mesh)""",
    """\
def shard(model, mesh):
    return fully_shard(model, mesh=mesh, reshard_after_forward=True)""",
)
