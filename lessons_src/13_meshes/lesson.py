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
# minutes: {read: 27, exercises: 70}
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
# mesh of data 2 × tensor 4, ranks 0 to 3 share one copy of the model, and
# ranks 4 to 7 share the other.

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
# A group is known by its number in the order of calls. If rank 0 made only its
# own two groups, its second call would be the others' third or fourth, and
# ranks 0 and 1 would wait for each other until the time-out.
# (`make_groups(mesh, axis)`, in `dtlib/scratch/mesh.py`, is the inner loop.)
#
# ## What is added up, and over which group
#
# After backward a gradient may be incomplete along data and along tensor. The
# ranks of a data group have seen different samples. And the ranks of a tensor
# group hold three kinds of parameters, as in lesson 11:
#
# - `cut`: this rank's part of a matrix. No other rank of its tensor group has
#   it.
# - `whole`: the same on every rank of the tensor group, and each has already
#   computed the same gradient: a norm, without sequence parallelism.
# - `partial`: the same on every rank of the tensor group, but each has used it
#   for its own positions only: a norm *with* sequence parallelism. Each has
#   one term of its gradient.
#
# Along pipeline there is one more case, which lesson 12's worker takes care
# of: the embedding of words is in the first stage and, as the output layer, in
# the last one. Each has one term of its gradient, and they are added up.
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
# already complete is left alone.* If you break it, nothing crashes: only the
# weights are wrong, and ranks that should stay alike drift apart.
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
# With pipeline 2 × tensor 2 a rank holds a little more than a quarter. The
# embedding of positions, norms and some biases are whole on both ranks of a
# tensor group, and the embedding of words, which is also the output layer,
# lies in the first *and* in the last stage.
#
# ## Which axis runs fastest
#
# Launchers number the GPUs of a node one after the other. So the groups of the
# axis that runs fastest lie inside a node, where links are fast. Which axis
# deserves that place? Take GPT-3 in the layout in which Megatron-LM trained it
# on 1024 A100: data 8 × pipeline 16 × tensor 8, with 192 sequences for each
# data rank. All links of an A100 inside a node carry 300 GB/s in each
# direction, its network 25 GB/s. By formulas, without recomputation and
# without sequence parallelism:

# %%
from lesson import published

gigabytes = published.gigabytes()
learn.measured("busiest_axis", gigabytes["tensor"] / gigabytes["data"])
learn.table(*published.times())

# %%
right = sum(published.seconds().values())
wrong = sum(published.seconds(published.DATA_INSIDE).values())
learn.measured("swapped", wrong / right)

# %% [markdown]
# A step took 32 s (Megatron-LM's README), so the wrong order would have cost
# half as much again; in truth even more, because that run recomputed each
# block, and so talked six times in it along tensor. How often an axis talks
# decides, and whether something else can be computed meanwhile:
#
# | axis | talks | and meanwhile |
# | --- | --- | --- |
# | tensor | four times in every block, for every micro-batch | ranks wait |
# | pipeline | twice for every micro-batch and stage boundary | other micro-batches run |
# | data | once in a step | backward runs on (lesson 08) |
#
# Hence the order, from the inside of a node outwards: tensor, pipeline, data.
# It is Llama 3's. Megatron-LM by default swaps the last two, which costs the
# same here: both leave the node.
#
# ## Layouts that were used

# %%
learn.table(*published.layouts())

# %% [markdown]
# (Compare speeds within a family only: Megatron-LM's were reached on A100 and
# count recomputed operations; Llama 3's were reached on H100 and do not.) The
# first three rules are those of Narayanan et al.
# (https://arxiv.org/abs/2104.04473), the others you see in Llama 3's rows
# (https://arxiv.org/abs/2407.21783):
#
# 1. *Tensor* up to the number of GPUs in a node, here 8, and no further.
# 2. *Pipeline* until a rank's part of the model fits into its memory.
# 3. *Data* with all the GPUs that are left: it sends least.
# 4. Data ends where the batch ends. When Llama 3 doubled its GPUs and kept the
#    batch, each data rank had 16 sequences left for 16 stages in place of 32,
#    the bubble grew (lesson 12), and 430 TFLOP/s became 400.
# 5. *Context*, the fourth axis, only where a single sequence is too long: with
#    131,072 tokens Llama 3 divides each sequence among 16 ranks.
#
# ## Stretch: one norm for the whole mesh
#
# Gradients are clipped by the norm of the *whole* gradient. On a mesh no rank
# has it whole, and some parameters are on several ranks. The squares of all
# parameters add up to the square of the norm, if each parameter counts once.
#
# ## Exercise 3: count every parameter once
#
# ●●○ *12 minutes, stretch.* `parameters` is a list of (kind, gradient, again),
# after `sync_gradients`. So of kinds there are two left: `cut`, and `whole`,
# which is the same on every rank of the tensor group. In the last stage
# `again` is True for the embedding, which the first stage has, too. Return the
# norm, on every rank. A few numbers are all that a rank has to send.


# %% tags=["exercise", "stretch"]
def mesh_norm(parameters, tensor, pipeline):
    """The 2-norm of the whole gradient: [("cut", tensor, False), …]."""
    ### BEGIN SOLUTION
    square = torch.zeros((), dtype=torch.float64)
    for kind, gradient, again in parameters:
        if not again and (kind == "cut" or dist.get_rank(tensor) == 0):
            square += gradient.square().sum()
    dist.all_reduce(square, group=tensor)
    dist.all_reduce(square, group=pipeline)
    return square.sqrt()
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("mesh_norm", mesh_norm)

# %% [markdown]
# The data axis sends nothing here: all its ranks have the same gradients.
# `mesh_runs` took such a norm in the first step of each mesh. In one process
# and on the meshes it is

# %%
learn.table(*mesh_runs.norms(found))

# %% [markdown]
# ## Exercise 4: choose a layout
#
# ●●○ *15 minutes, stretch.* Apply the rules above to any model. `gb` is what
# the states of the whole model take, `card` is the memory of a GPU, both in
# GB. There are `gpus` in nodes of `per_node`.
#
# - Tensor: 1, 2, 4, … until a rank's part fits, but at most a node. It has to
#   divide `heads`.
# - Pipeline: the smallest number of stages with which a rank's part fits. It
#   has to divide `layers`, and the GPUs that tensor has left.
# - Data: the rest.
#
# (Activations, which rule out some layouts that pass here, are in the what-if
# below.)


# %% tags=["exercise", "stretch"]
def choose_layout(gb, card, gpus, per_node, heads, layers):
    """(data, pipeline, tensor)"""
    ### BEGIN SOLUTION
    tensor = 1
    while (
        gb / tensor > card
        and 2 * tensor <= per_node
        and heads % (2 * tensor) == 0
    ):
        tensor *= 2
    pipeline = 1
    while (
        gb / (tensor * pipeline) > card
        or layers % pipeline
        or (gpus // tensor) % pipeline
    ):
        pipeline += 1
    return gpus // (tensor * pipeline), pipeline, tensor
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("choose_layout", choose_layout)

# %% [markdown]
# Now with activations, logits and messages, by the formulas of lessons 11, 12
# and 16 together, and with sequence parallelism. Try to make GPT-3 fit with
# data 8, and see what each choice costs. Which axes leave the node?

# %%
learn.what_if("layout")

# %% [markdown]
# ## Stretch: a sequence that is too long for one rank
#
# With 131,072 tokens the activations of a *single* sequence fill a GPU. The
# **context** axis cuts the sequence: each rank has some of the positions, for
# all layers. Only attention needs the others: a query has to meet the keys and
# values of all earlier positions. In **ring attention**
# (https://arxiv.org/abs/2310.01889) queries stay where they are, while keys and
# values travel round the ring. In each step a rank computes with the ones that
# it has, and passes them on meanwhile. It never sees all scores at once, so it
# keeps a running maximum and a running sum for the softmax.
#
# There is a catch. Under the causal mask an early position meets few keys, and
# a late one many. In the picture a number says whose keys a rank has:

# %%
from lesson import long_texts

long_texts.draw_ring()

# %%
learn.table(*long_texts.work())

# %% [markdown]
# Above, rank 0 has work in one step out of four, and the others wait for rank
# 3. Below, all have the same work in every step. (A square of scores is
# computed whole or not at all, also one on the diagonal, where the mask hides
# half of it. Smaller chunks waste less there.)
#
# ## Exercise 5: deal the chunks
#
# ●○○ *8 minutes, stretch.* A sequence is cut into twice as many chunks as
# there are ranks. The queries of chunk q meet the keys of the chunks 0 to q:
# that is q + 1 pairs. Give each rank two chunks, so that all ranks have
# equally many pairs.


# %% tags=["exercise", "stretch"]
def deal_chunks(ranks):
    """For each rank its two chunks of 0 … 2 · ranks − 1: [[…, …], …]."""
    ### BEGIN SOLUTION
    return [[r, 2 * ranks - 1 - r] for r in range(ranks)]
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("deal_chunks", deal_chunks)

# %% [markdown]
# Does it still compute attention? Four ranks, 16 positions, beside one process
# with the whole sequence, in fp64 (`ContextParallelGPT`, in
# `dtlib/scratch/context_parallel`, is a whole GPT of this kind):

# %%
# %%ranks 4
from torch.nn import functional as F

from dtlib.scratch import context_parallel as cp

torch.manual_seed(13)
q, k, v = torch.randn(3, 1, 2, 16, 8, dtype=torch.float64)
whole = F.scaled_dot_product_attention(q, k, v, is_causal=True)
own = cp.own_positions(16, zigzag=True)
mine = cp.ring_attention(q[:, :, own], k[:, :, own], v[:, :, own], zigzag=True)
print("positions", own.tolist())
print("largest difference", f"{(mine - whole[:, :, own]).abs().max():.0e}")

# %% [markdown]
# **Ulysses** (https://arxiv.org/abs/2309.14509) needs no ring. An all-to-all
# before attention exchanges positions for heads: each rank gets *all*
# positions of *some* heads, computes them as usual, and a second all-to-all
# brings the positions back. The number of heads limits it. Both, for forward
# and backward of one block:

# %%
learn.table(*long_texts.sent())

# %% [markdown]
# Llama 3 has 8 heads of keys and values for its 128 heads of queries. The ring
# sends nothing but keys, values and their gradients, so fewer bytes here.
# Ulysses also sends queries and outputs, and more than 8 ranks would have to
# share the keys. (Llama 3 itself does neither: because its keys and values are
# so small, it all-gathers them.)
#
# ## Stretch: many experts
#
# A **mixture of experts** replaces the MLP by several, the experts, and a
# **router** that sends each token to one of them. So a model has more weights,
# and a token still goes through one MLP. **Expert parallelism** puts the
# experts on different ranks. Every rank sends its tokens to the ranks of their
# experts and gets the results back: two all-to-alls in forward, and two in
# backward.
#
# If messages are to have a fixed length, whatever the router chooses, an
# expert takes at most its **capacity** from each rank: the fair share, tokens
# ÷ experts, times a **capacity factor**, rounded up. A token that finds no
# place is dropped: the layer adds nothing to it. Places that stay empty are
# sent and computed all the same.
#
# ## Exercise 6: who finds no place
#
# ●○○ *8 minutes, stretch.* `chosen` has the number of the expert that each
# token of a rank has chosen. Return how many tokens are dropped, and how many
# places stay empty.

# %% tags=["exercise", "stretch"]
import math


def dropped_tokens(chosen, experts, factor):
    """(dropped tokens, empty places)"""
    ### BEGIN SOLUTION
    capacity = math.ceil(factor * len(chosen) / experts)
    loads = [chosen.count(e) for e in range(experts)]
    dropped = sum(max(0, load - capacity) for load in loads)
    empty = sum(max(0, capacity - load) for load in loads)
    return dropped, empty
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("dropped_tokens", dropped_tokens)

# %% [markdown]
# A router that prefers one expert trains that expert most, which then becomes
# even better. A **balance loss** (https://arxiv.org/abs/2101.03961) works
# against this: it grows when the tokens and the router's probabilities gather
# on the same experts. Two real ranks, four experts, and a router that begins
# with a favourite. It is trained by its balance loss alone:

# %%
from lesson import expert_load

load = expert_load.run()
expert_load.draw_load(load)

# %%
learn.table(*expert_load.table(load))

# %% [markdown]
# ## Stretch: when the network is slow
#
# The data axis sends least, and between two cities even that is too much. Two
# ways to send less:
#
# - **Local steps**: each rank takes H steps of its own, and only then the
#   ranks average their weights (local SGD), or take the average change as a
#   gradient for an outer optimizer (**DiLoCo**,
#   https://arxiv.org/abs/2311.08105).
# - **PowerSGD** (https://arxiv.org/abs/1905.13727) sends each matrix of
#   gradients as a product of two thin ones, with r columns, and adds what was
#   lost to the next step's gradient.
#
# Both change what is computed. So the bytes that they save are only one half
# of the answer, and the loss is the other. Two ranks, the same samples, the
# same start:

# %%
from lesson import slow_network

learn.table(*slow_network.table(slow_network.run()))

# %% [markdown]
# A run of 64 steps says little about a long one: DiLoCo has made only four
# outer steps here. But the question stays the same at any length: how much
# loss do the saved bytes cost?
#
# ## Quiz

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## Take-away
#
# - A rank's number is its coordinates written like digits. A group holds the
#   ranks that differ on one axis alone. Every rank makes every group.
# - Samples are averaged over data, terms are added up over tensor, those of a
#   tied embedding over pipeline, and what is complete is left alone.
# - What talks most lies inside a node: tensor, then pipeline, then data.
# - All meshes train what one process trains. If yours does not, a gradient was
#   completed over the wrong group.

# %%
learn.take_away()
