"""Ranks on a mesh: their coordinates and groups, and the kernels inside a group."""

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from dtlib.errors import BadInput
from dtlib.models import gpt
from dtlib.ranks.launcher import launch
from dtlib.scratch import pipeline as p
from dtlib.scratch import tensor_parallel as tp
from dtlib.scratch.mesh import AXES, Mesh, make_groups
from tests.scratch_cases import ROUNDING

MESHES = [Mesh(), Mesh(tensor=4), Mesh(2, 3), Mesh(2, 2, 1, 3), Mesh(3, 2, 2, 2)]


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_ranks_are_numbered_as_torch_numbers_them(mesh):
    """DeviceMesh lays ranks out as `arange` does; its groups are the rows along a dimension."""
    grid = torch.arange(mesh.ranks).view(mesh.sizes)
    for rank in range(mesh.ranks):
        at = mesh.coordinates(rank)
        assert grid[tuple(at[axis] for axis in AXES)] == rank == mesh.rank(at)
    for k, axis in enumerate(AXES):
        assert mesh.groups(axis) == grid.movedim(k, -1).reshape(-1, mesh.sizes[k]).tolist()
    both = grid.permute(1, 3, 0, 2).reshape(-1, mesh.data * mesh.context)
    assert mesh.groups("data", "context") == both.tolist()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Mesh(data=2, tensor=0), "axis tensor of a mesh is 0: give it at least 1 rank."),
        (lambda: Mesh(2, tensor=2).coordinates(4),
         r"rank 4 is not in a mesh of data 2 × tensor 2 \(4 ranks\): the last one is 3."),
        (lambda: Mesh(2).groups("expert"), "data, pipeline, context, tensor: expert was asked."),
        (lambda: Mesh(2).groups(), "data, pipeline, context, tensor: no axis was asked."),
    ],
)  # fmt: skip
def test_refusals(call, words):
    with pytest.raises(BadInput, match=words):
        call()


CONFIG = gpt.GPTConfig(vocab_size=7, context=4, layers=2, heads=2, width=6)


def text(step):
    generator = torch.Generator().manual_seed(step)
    whole = torch.randint(0, 7, (2, 5), generator=generator)
    return whole[:, :-1], whole[:, 1:]


def tensor_parallel_twice(edges):
    """Two models, each on two ranks, with other data: the largest distance from one process."""
    mesh = Mesh(data=2, tensor=2)
    group, at = make_groups(mesh, "tensor"), mesh.coordinates(dist.get_rank())
    whole = gpt.GPT(CONFIG, seed=3).double()
    mine = tp.TensorParallelGPT(whole, edges, 0.0, group=group).double()
    mine(*text(at["data"])).backward()
    tp.sum_partial(mine, group)
    norm = tp.clip_global_norm(mine, 0.5, group)
    whole(*text(at["data"])).backward()
    right = torch.nn.utils.clip_grad_norm_(whole.parameters(), 0.5)
    # one process's gradients, cut as its weights would be
    for parameter in whole.parameters():
        parameter.data = parameter.grad
    cut = dict(tp.TensorParallelGPT(whole, edges, group=group).named_parameters())
    far = [float((q.grad - cut[name]).abs().max()) for name, q in mine.named_parameters()]
    return max(*far, abs(float(norm - right)))


def two_pipelines():
    """Two pipelines of two stages, tied at both ends, on other data; and whose messages went."""
    mesh = Mesh(data=2, pipeline=2)
    group, at = make_groups(mesh, "pipeline"), mesh.coordinates(dist.get_rank())
    torch.manual_seed(5)
    first, last = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
    last.weight = first.weight
    blocks = [first, torch.nn.Tanh(), last]
    whole = torch.nn.Sequential(*blocks).double()
    generator = torch.Generator().manual_seed(at["data"])
    x, y = torch.randn(2, 4, 3, generator=generator, dtype=torch.float64)
    lists = p.for_all_ranks(p.one_forward_one_backward, 2, 2)
    worker = p.Pipeline(blocks, lists, lambda a, b: ((a - b) ** 2).sum(), 20, group)
    worker.step(x, y, 12)
    mine = [q.grad.clone() for q in worker.parameters()]
    whole.zero_grad()
    (((whole(x) - y) ** 2).sum() / 12).backward()
    return max(
        float((a - q.grad).abs().max()) for a, q in zip(mine, worker.parameters(), strict=True)
    )


def on_four_ranks():
    refused = None
    try:
        make_groups(Mesh(3), "data")
    except BadInput as error:
        refused = str(error)
    mesh = Mesh(data=2, tensor=2)
    torchs = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    same = {
        axis: dist.get_process_group_ranks(make_groups(mesh, axis))
        == dist.get_process_group_ranks(torchs.get_group(axis))
        for axis in ("data", "tensor")
    }
    return {
        "refused": refused, "same": same, "pipelines": two_pipelines(),
        "tensor": tensor_parallel_twice(tp.TENSOR), "sequence": tensor_parallel_twice(tp.SEQUENCE),
    }  # fmt: skip


@pytest.fixture(scope="module")
def found():
    return launch(on_four_ranks, ranks=4, timeout=30, show=False)


def test_groups_are_those_of_torchs_device_mesh(found):
    for rank in found:
        assert rank["same"] == {"data": True, "tensor": True}
        assert rank["refused"] == (
            "a mesh of data 3 has 3 ranks, but 4 were started: the product of the axes has to be "
            "the number of ranks."
        )


@pytest.mark.parametrize("what", ["tensor", "sequence", "pipelines"])
def test_kernels_inside_a_group_are_serial(found, what):
    assert max(rank[what] for rank in found) < ROUNDING
