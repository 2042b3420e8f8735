# %% [raw]
# ---
# number: "13"
# title: Meshes
# does: >-
#   put data, pipeline and tensor parallelism together on one grid of ranks
# objectives:
#   - say which ranks form the groups of each axis of a mesh
#   - complete every gradient over the right group, and over no other
#   - choose a layout, and give its reasons in bytes and seconds
# minutes: {read: 27, exercises: 27}
# needs: [laptop]
# builds_on: ["11", "12"]
# ---

# %% [markdown]
# Llama 3 405B was trained on 16,384 GPUs. Tensor parallelism (lesson 11) ends
# at the 8 GPUs of a node, a pipeline (lesson 12) at the number of layers, and
# data parallelism at the size of the batch. So large runs use all of them at
# once: every rank is a member of several groups, one for each kind. **Which
# ranks form a group, and what does each group have to add up?**
#
# In this lesson four ranks on your laptop combine two kinds at a time, and
# train exactly what one process trains. Exercises 1 and 2 are the core and
# take less than an hour with the reading; the others are *stretch*.

# %%
from dtlib import learn

learn.start("13")

# %%
from lesson.pictures import draw_question

draw_question()

# %% [markdown]
# Later four processes train a small GPT, `width` wide, with `heads` heads, for
# `steps` steps on the CPU. 2 has to divide `heads`, and `heads` has to divide
# `width`.

# %% tags=["parameters"]
width = 24
heads = 4
steps = 3

# %% [markdown]
# ## Your predictions
#
# Answer all three before you read on. A **mesh** is a grid of ranks with an
# axis for each kind of parallelism. The ranks are numbered like digits: on a
# mesh of data 2 × tensor 4, ranks 0 to 3 are the first four along tensor, and
# ranks 4 to 7 are the second four.

# %%
learn.predict("partner")

# %%
learn.predict("busiest_axis")

# %%
learn.predict("swapped")

# %% [markdown]
# ## A grid of ranks
#
# On a mesh each rank has a **coordinate** on every axis. Ranks that differ on
# one axis alone are a **group** of that axis, and each kind of parallelism
# talks inside its own groups. Here are eight ranks with 2 on each axis, the
# last axis running fastest:

# %%
from dtlib.scratch.mesh import Mesh

mesh = Mesh(data=2, pipeline=2, tensor=2)
axes = ["data", "pipeline", "tensor"]
rows = [
    [rank, *(mesh.coordinates(rank)[axis] for axis in axes)]
    for rank in range(mesh.ranks)
]
learn.table(rows, ["rank", *axes], f"Coordinates on {mesh}")

# %%
from lesson.pictures import draw_groups

draw_groups(mesh)

# %% [markdown]
# Each row is a group, and the dotted line is the border between two nodes of
# four GPUs. What does a group share?
#
# - **tensor**: the matrices of the same layers, cut; all see the same samples;
# - **pipeline**: the layers, one stage on each rank;
# - **data**: nothing is cut. All hold the same weights, and see other samples.
#
# ## Exercise 1: the groups of a rank
#
# ●○○ *10 minutes.* For a rank of a mesh, return the ranks of its three groups,
# itself included, in any order. Tensor runs fastest, then pipeline, then data.


# %% tags=["exercise"]
def groups_of(rank, data, pipeline, tensor):
    """{"data": [ranks], "pipeline": [ranks], "tensor": [ranks]}"""
    ### BEGIN SOLUTION
    t = rank % tensor
    p = rank // tensor % pipeline
    d = rank // (tensor * pipeline)

    def at(d, p, t):
        return (d * pipeline + p) * tensor + t

    return {
        "data": [at(k, p, t) for k in range(data)],
        "pipeline": [at(d, k, t) for k in range(pipeline)],
        "tensor": [at(d, p, k) for k in range(tensor)],
    }
    ### END SOLUTION


# %% tags=["check"]
learn.check("groups_of", groups_of)

# %%
five = learn.given("groups_of")(5, 2, 2, 2)
for axis in axes:
    print(f"rank 5, {axis:8}", five[axis])
(partner,) = {*five["data"]} - {5}
learn.measured("partner", partner)

# %% [markdown]
# ## Every rank makes every group
#
# In PyTorch a group is a communicator of its own, and `dist.new_group` makes
# one. It is a call of the *whole world*: every rank has to make every group,
# also those that it is not in, and all ranks in the same order. Here four
# ranks form a mesh of data 2 × tensor 2. Each brings 1, 10, 100 or 1000, so
# that a sum tells whose numbers are in it:

# %%
# %%ranks 4
from dtlib.scratch.mesh import Mesh

mesh = Mesh(data=2, tensor=2)
for axis in ("data", "tensor"):
    for ranks in mesh.groups(axis):
        group = dist.new_group(ranks)
        if rank in ranks:
            mine = group
    x = torch.tensor(10.0**rank)
    dist.all_reduce(x, group=mine)
    print(axis, "sum:", f"{x.item():04.0f}")

# %% [markdown]
# If rank 0 made only its own two groups, it would wait for ranks that are
# busy with others, until the time-out. (`make_groups(mesh, axis)`, in
# `dtlib/scratch/mesh.py`, is the inner loop.)
#
# ## What is added up, and over which group
#
# After backward a gradient may be incomplete in two ways. The ranks of a data
# group have seen different samples. And the ranks of a tensor group hold three
# kinds of parameters, as in lesson 11:
#
# - `cut`: this rank's part of a matrix. No other rank of its tensor group has
#   it.
# - `whole`: the same on every rank of the tensor group, and each has already
#   computed the same gradient: a norm, without sequence parallelism.
# - `partial`: the same on every rank of the tensor group, but each has used it
#   for its own positions only: a norm *with* sequence parallelism. Each has
#   one term of its gradient.
#
# ## Exercise 2: complete the gradients
#
# ●●○ *17 minutes.* `parameters` is a list of (kind, gradient). A gradient is
# the mean over the samples that this rank has seen; all data ranks have seen
# equally many. Change the gradients in place into those that one process
# would have for all samples. `data` and `tensor` are this rank's groups, for
# `dist.all_reduce(…, group=data)` and `dist.get_world_size(data)`. Send no
# more than you need to.

# %% tags=["exercise"]
import torch
import torch.distributed as dist


def sync_gradients(parameters, data, tensor):
    """Complete the gradients in place: [("cut", tensor), …]."""
    ### BEGIN SOLUTION
    for kind, gradient in parameters:
        if kind == "partial":
            dist.all_reduce(gradient, group=tensor)
        dist.all_reduce(gradient, group=data)
        gradient /= dist.get_world_size(data)
    ### END SOLUTION


# %% tags=["check"]
learn.check("sync_gradients", sync_gradients)

# %% [markdown]
# The rule behind it: *samples are averaged, terms are added up, and what is
# already complete is left alone.* All three mistakes give a loss that falls
# all the same.
#
# ## Three meshes, one program
#
# Now a whole GPT. `mesh_runs` (beside this lesson) cuts it with lesson 11's
# kernels inside the tensor group, gives its blocks to lesson 12's worker
# inside the pipeline group, and completes the gradients with *your* function.
# An axis of size 1 is a group of one rank, which sends nothing. So one program
# serves all meshes. What does each rank have?

# %%
from lesson.pictures import draw_slices

meshes = [
    Mesh(data=2, tensor=2),
    Mesh(pipeline=2, tensor=2),
    Mesh(data=2, pipeline=2),
]
draw_slices(meshes)

# %% [markdown]
# (The embedding and the output layer lie in the first and the last stage.) A
# twin trains beside them in one process, on all samples, in fp64. "Sequence"
# is with sequence parallelism along tensor.

# %%
from lesson import mesh_runs

sizes = mesh_runs.Sizes(width=width, heads=heads, steps=steps)
sync = learn.given("sync_gradients")
found = mesh_runs.run(meshes, sizes, sync)
assert mesh_runs.worst(found) < 1e-11
learn.table(*mesh_runs.distances(found))

# %% [markdown]
# Only rounding differs. What a rank holds, and what it sends along each axis:

# %%
learn.table(*mesh_runs.held_and_sent(found, sizes))

# %%
both = found["pipeline 2 × tensor 2"]
whole = sum(p.numel() for p in sizes.model().parameters())
learn.my_run(
    "part of a small GPT on a rank of pipeline 2 × tensor 2",
    both.held / whole,
    "of all parameters",
)

# %% [markdown]
# With pipeline 2 × tensor 2 a rank holds a little more than a quarter. Norms
# are whole on both ranks of a tensor group, and the embedding, which is also
# the output layer, lies in the first *and* in the last stage.
#
# ## Which axis runs fastest
#
# Launchers number the GPUs of a node one after the other. So the groups of the
# axis that runs fastest lie inside a node, where links are fast. Which axis
# deserves that place? Take GPT-3 as Megatron-LM trained it on 1024 A100: data
# 8 × pipeline 16 × tensor 8, with 192 sequences for each data rank. A link of
# an A100 inside a node has 300 GB/s, and its network 25 GB/s. Formulas again:

# %%
from lesson import published

gigabytes = published.gigabytes()
learn.measured("busiest_axis", gigabytes["tensor"] / gigabytes["data"])
learn.table(*published.times())

# %%
right = sum(published.seconds("tensor").values())
wrong = sum(published.seconds("data").values())
learn.measured("swapped", wrong / right)

# %% [markdown]
# A step took 32 s (Megatron-LM's README), so the wrong order would have cost
# half as much again. How often an axis talks decides, and whether
# something else can be computed meanwhile:
#
# | axis | talks | and meanwhile |
# | --- | --- | --- |
# | tensor | four times in every block, for every micro-batch | ranks wait |
# | pipeline | once for every micro-batch and stage boundary | other micro-batches run |
# | data | once in a step | backward runs on (lesson 08) |
#
# Hence the order, from the inside of a node outwards: tensor, pipeline, data.
#
# ## Layouts that were used

# %%
learn.table(*published.layouts())

# %% [markdown]
# You can read the rules of Narayanan et al.
# (https://arxiv.org/abs/2104.04473) off this table:
#
# 1. *Tensor* up to the number of GPUs in a node, here 8, and no further.
# 2. *Pipeline* until a rank's part of the model fits into its memory.
# 3. *Data* with all the GPUs that are left: it sends least.
# 4. But many data ranks leave few sequences to each, and a pipeline needs
#    several micro-batches for each stage (lesson 12's bubble). When you double
#    the GPUs, the batch has to suffice for them.
# 5. *Context*, the fourth axis, only where a single sequence is too long: with
#    131,072 tokens Llama 3 divides each sequence among 16 ranks.
#
# ## Quiz

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## Take-away
#
# - A rank's number is its coordinates written like digits. A group holds the
#   ranks that differ on one axis alone. Every rank makes every group.
# - Samples are averaged over data, terms are added up over tensor, and what is
#   complete is left alone.
# - What talks most lies inside a node: tensor, then pipeline, then data.
# - All meshes train what one process trains. If yours does not, a gradient was
#   completed over the wrong group.

# %%
learn.take_away()
