"""`--mesh`: how ranks are arranged, who gets which samples, and what is refused."""

import re

import pytest

from dtlib.config import RunConfig
from dtlib.config.mesh import AXES, Mesh
from dtlib.config.plan import BatchPlan
from dtlib.errors import BadInput
from dtlib.sim import mesh as mesh_of_sim
from dtlib.strategies import ddp, single, zero


def test_text_a_mapping_and_python_give_the_same_mesh():
    given = (
        "data=2,tensor=2",
        " tensor = 2, data=2",
        {"data": 2, "tensor": "2"},
        "tensor=2,data=2,context=1",
    )
    for each in given:
        config = RunConfig.from_mapping({"task": "text", "strategy": "tensor", "mesh": each})
        assert config.mesh == "data=2,tensor=2"
        assert config.plan(4).mesh == Mesh(data=2, tensor=2)
    assert str(Mesh()) == "data=1"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            "dat=2",
            "no axis 'dat'; its axes are replicate, data, pipeline, context, tensor. Did you",
        ),
        ("data=2,data=2", "the axis data twice"),
        ("data", "axis data is empty; it must be a whole number of at least 1, as in data=2"),
        ("tensor=x", "axis tensor is x; it must be a whole number"),
        ({"tensor": 2.5}, "axis tensor is 2.5; it must be a whole number"),
        ("tensor=0", "axis tensor is 0"),
        ("tensor=" + "9" * 5000, "it must be a whole number"),
        ("data=-2", "axis data is -2"),
        ("", "no axis ''"),
        (4, "mesh is 4; it must be like data=2,tensor=2"),
    ],
)
def test_what_is_no_mesh_is_refused(given, sentence):
    with pytest.raises(BadInput, match=re.escape(sentence)):
        RunConfig("text", mesh=given)


def test_a_mesh_must_have_the_ranks_of_the_run():
    sentence = "mesh data=2,tensor=2 has 2 × 2 = 4 ranks, but the run has 8 ranks; make the product"
    with pytest.raises(BadInput, match=re.escape(sentence)):
        RunConfig("text", mesh="data=2,tensor=2", ranks=8)
    with pytest.raises(BadInput, match="mesh tensor=2 has 2 ranks, but the run has 1 rank;"):
        RunConfig("text", mesh="tensor=2").plan(1)
    with pytest.raises(BadInput, match="mesh data=2 and shard_ranks 2 both say which ranks"):
        RunConfig("text", strategy="fsdp", mesh="data=2", shard_ranks=2)


def test_a_strategy_refuses_an_axis_that_it_does_not_have():
    for kind, name in ((ddp.DDP, "ddp"), (zero.Zero, "zero1")):
        config = RunConfig("text", strategy=name, mesh="data=2,tensor=2")
        with pytest.raises(BadInput, match=f"strategy {name} has no axis tensor, which is 2 in"):
            kind.check(config, 4)
    ddp.DDP.check(RunConfig("text", mesh="data=4"), 4)
    single.Single.check(RunConfig("text", strategy="single", mesh="tensor=1"), 1)


def test_without_a_mesh_all_ranks_are_along_one_axis():
    def axes(**settings) -> Mesh:
        return RunConfig("text", **settings).plan(4).mesh

    assert axes() == axes(strategy="zero3") == Mesh(data=4)
    assert axes(strategy="tensor") == Mesh(tensor=4)
    assert axes(strategy="pipeline") == Mesh(pipeline=4)
    assert axes(strategy="fsdp", shard_ranks=2) == Mesh(replicate=2, data=2)


def test_neighbours_share_the_innermost_axis():
    mesh = Mesh(pipeline=2, replicate=1, data=2, tensor=2)
    where = [mesh.coordinates(rank) for rank in range(8)]
    assert [(c["data"], c["pipeline"], c["tensor"]) for c in where] == [
        (d, p, t) for d in range(2) for p in range(2) for t in range(2)
    ]
    assert [mesh.data_rank(rank) for rank in range(8)] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert [rank for rank in range(8) if mesh.speaks(rank)] == [3, 7]  # the last stage's last ranks
    assert [Mesh(replicate=2, data=2).data_rank(rank) for rank in range(4)] == [0, 1, 2, 3]
    assert set(where[0]) == set(AXES)
    assert [axis for axis in AXES if axis != "replicate"] == [*mesh_of_sim.AXES]  # and lesson 13's


def test_each_sample_is_taken_once_by_ranks_at_each_data_coordinate():
    plan = RunConfig(
        "text", strategy="tensor", mesh="data=2,tensor=2", global_batch=8, accumulation=2
    ).plan(4)
    assert (plan.micro_batch, plan.columns()["mesh"]) == (2, "data=2,tensor=2")
    parts = {r: [range(8)[plan.micro_slice(a, r)] for a in range(2)] for r in range(4)}
    assert parts[0] == parts[1]
    assert parts[2] == parts[3]
    speaking = [part for r in range(4) if plan.mesh.speaks(r) for part in parts[r]]
    assert sorted(n for part in speaking for n in part) == [*range(8)]
    assert BatchPlan(8, 2, 1, 4).columns()["mesh"] is None


def test_sizes_that_contradict_each_other_name_the_data_parallel_ranks():
    def plan(world_size: int, mesh: str, **sizes) -> BatchPlan:
        return RunConfig("text", strategy="tensor", mesh=mesh, **sizes).plan(world_size)

    with pytest.raises(BadInput, match="accumulation 1 × 3 data-parallel ranks = 3; use a global"):
        plan(6, "data=3,tensor=2", global_batch=16)
    with pytest.raises(BadInput, match="accumulation 2 × 1 data-parallel rank = 6; give only two"):
        plan(4, "tensor=4", global_batch=16, micro_batch=3, accumulation=2)
    with pytest.raises(BadInput, match="= 4; run 4 data-parallel ranks, or give only two"):
        plan(4, "data=2,tensor=2", global_batch=8, micro_batch=2, accumulation=1)
    assert plan(4, "tensor=4", micro_batch=3, accumulation=2).global_batch == 6
