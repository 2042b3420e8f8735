# %% [raw]
# ---
# number: "19"
# title: FSDP2
# does: >-
#   shard a model with PyTorch's fully_shard, and count what each of its
#   settings holds and sends
# objectives:
#   - choose what to shard, and say what is whole at once and what is sent
#   - count what resharding, precision and a mesh of nodes save and cost
#   - accumulate, clip, save and load with weights that are DTensors
# minutes: {read: 30, exercises: 55}
# needs: [laptop, deepspeed]
# builds_on: ["16", "17", "08"]
# ---

# %% [markdown]
# PyTorch has its own stage 3 of ZeRO: `fully_shard`, called **FSDP2**, the
# second version of Fully Sharded Data Parallel. It takes a module and returns
# the same module, sharded. Many a script calls it once, on the whole model,
# and then wonders: **every rank holds a quarter of the weights, so why does it
# run out of memory as if it held all of them?**
#
# Lesson 16 wrote stage 3 as a schedule of gathers and frees. Here you set
# PyTorch's own, with one call after the other, and after each you count what a
# rank holds and sends. Exercises 1 and 2 are the core and take an hour with
# the reading; 3 and 4 are *stretch*.

# %%
from dtlib import learn

learn.start("19")

# %%
from lesson.pictures import draw_question

draw_question()

# %% [markdown]
# `ranks` processes train a GPT of `layers` blocks, `width` wide, on `device`:
# all on the CPU, or each on a GPU with `device="cuda"`. Take 4 or 8 ranks, so
# that all tensors divide evenly; the lesson refuses others. The
# section with DeepSpeed shows recorded results, because loading DeepSpeed in
# four processes takes longer than any other section; `record=True` runs and
# records it again, where DeepSpeed is installed (it does not run on macOS).

# %% tags=["parameters"]
ranks = 4
layers = 4
width = 32
device = "cpu"
record = False

# %%
here = learn.ready()

# %% [markdown]
# ## Your predictions
#
# Answer all three before you read on.

# %%
learn.predict("per_block_sends")

# %%
learn.predict("bf16_held")

# %%
learn.predict("between_nodes")

# %% [markdown]
# ## One layer: what is a parameter now?
#
# A **device mesh** names ranks by their place in a grid; here it is a line of
# four. `fully_shard` cuts every parameter of a layer **along its first
# dimension**, by rows, and replaces it by a **DTensor**, a distributed tensor:
# it has the shape of the whole tensor and the memory of one shard.

# %%
# %%ranks 4
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

mesh = init_device_mesh("cpu", (world_size,))
layer = torch.nn.Linear(3, 6, bias=False)
with torch.no_grad():
    layer.weight.copy_(torch.arange(18.0).view(6, 3))
fully_shard(layer, mesh=mesh)
w = layer.weight
print(type(w).__name__, tuple(w.shape), *w.placements, end=": ")
print("here", w.to_local().tolist())
y = layer(torch.ones(1, 3))
print("after forward:", type(layer.weight).__name__, "y:", *y[0].tolist())

# %% [markdown]
# Six rows on four ranks are ⌈6/4⌉ = 2 a rank: 2, 2, 2 and 0. The last rank has
# none, and computes with all of them, like the others. `Shard(0)`, printed as
# `S(0)`, is the **placement**: cut along dimension 0. `to_local()` is this
# rank's part, and `full_tensor()` gathers the whole; every rank has to call
# it.
#
# When a layer's forward begins, FSDP2 gathers its shards into plain
# parameters. This layer was also the **root**, the outermost module that is
# sharded. Its weights stay whole after forward, because backward begins where
# forward has ended.
#
# ## From one layer to the model
#
# A **unit** is what one call of `fully_shard` shards: the module's parameters
# except those of units inside it, that is, of earlier calls. A unit is
# gathered by one message, and its gradients are reduced by one. Here are two
# ways to shard the course's GPT:

# %%
from torch.distributed.fsdp import fully_shard


def one_call(model, mesh):
    fully_shard(model, mesh=mesh)


def per_block(model, mesh):
    for block in model.h:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)  # the rest: embeddings, last layer norm


# %% [markdown]
# `fsdp_runs` (beside this lesson) trains the GPT in each way on real ranks,
# and a twin on the whole batch, as one process would. Both take SGD with
# momentum for this proof, because AdamW would hide a wrong factor. Then a step
# with AdamW is watched by the ledger, lesson 05's list of all tensors.

# %%
from lesson import fsdp_runs
from lesson import pictures as fsdp_view

sizes = fsdp_runs.Sizes(ranks, layers, width, device=device)
found = fsdp_runs.run({"one call": one_call, "per block": per_block}, sizes)
assert fsdp_runs.worst(found) < 1e-5
learn.table(*fsdp_view.held_and_sent(found, sizes))

# %%
fewer, more = found["one call"], found["per block"]
ratio = more.bytes_sent / fewer.bytes_sent
learn.measured("per_block_sends", ratio)
learn.my_run("weights whole at once, one call", fewer.whole, "bytes")
learn.my_run("weights whole at once, per block", more.whole, "bytes")
assert fewer.whole == 4 * sizes.psi
assert more.whole == 4 * (sizes.psi - (layers - 1) * sizes.block)

# %% [markdown]
# Both are right, to rounding, and between backward and update both hold 16/N
# bytes a parameter. But one call makes one unit: all weights are whole from
# the first layer to the end of backward, and whole gradients wait until the
# last is there. With a unit for each block the root's weights and **one
# block** are whole at once. (In backward the buffer for the next block fills
# meanwhile: for memory, count two.) The price is messages, and bytes: a block
# that was freed after forward is gathered again in backward. Here is one step
# of each way, as it really happened on rank 0:

# %%
fsdp_view.draw_traces(found)

# %%
learn.table(*fsdp_view.order(found))

# %% [markdown]
# ## Exercise 1: choose the units
#
# ●○○ *10 minutes.* Shard a model so that one block and what lies outside all
# blocks is the most that is whole at once, with no units smaller than a block
# inside the blocks. A block is a module of the class `Block`, **wherever it
# is**: the check also has a model with blocks in three places, on a mesh of
# two nodes. The model is changed in place.


# %% tags=["exercise"]
from dtlib.models.gpt import Block


def shard(model, mesh):
    """Call `fully_shard` on the right modules, in the right order."""
    ### BEGIN SOLUTION
    for module in model.modules():
        if isinstance(module, Block):
            fully_shard(module, mesh=mesh)
    fully_shard(model, mesh=mesh)
    ### END SOLUTION


# %% tags=["check"]
learn.check("shard", shard)

# %% [markdown]
# Smaller units hold less and send more messages, each with its latency α; a
# transformer block is the usual choice. One message could still go: the last
# block is freed after forward and gathered again at once, for backward begins
# with it. `reshard_after_forward=False` for that block alone spares it.
#
# ## Free after forward, or not?
#
# `reshard_after_forward` says what happens to a unit's weights between its
# forward and its backward. `True`, the default for all units but the root,
# frees them; `False` keeps them, and saves the second gather; a number keeps a
# shard for so many ranks instead of all: with 2, each rank keeps one half, and
# backward gathers from one neighbour. On real nodes the number is that of the
# GPUs in a node, so that the second gather stays inside it.

# %%
from functools import partial


def blocks_with(model, mesh, **settings):
    for block in model.h:
        fully_shard(block, mesh=mesh, **settings)
    fully_shard(model, mesh=mesh)


def one_ahead(model, mesh):  # for the section after this
    per_block(model, mesh)
    for block, following in zip(model.h, model.h[1:]):
        block.set_modules_to_forward_prefetch([following])


reshard = {
    "2": partial(blocks_with, reshard_after_forward=2),
    "False": partial(blocks_with, reshard_after_forward=False),
}
*kept, ahead = fsdp_runs.run(reshard | {"ahead": one_ahead}, sizes).values()
kept = {"True": found["per block"], **dict(zip(reshard, kept))}
assert fsdp_runs.worst(kept) < 1e-5
fsdp_view.draw_reshard(kept, sizes)

# %%
learn.table(*fsdp_view.reshard(kept, sizes))

# %% [markdown]
# With `False` as much is whole as with one call on the root, and as many bytes
# are sent; gradients, though, are still reduced block by block, so they don't
# pile up. In between lies the number. The formulas (`what_if.py`) say
# the same, to the byte, and hold for models that don't fit here:

# %%
learn.what_if("reshard")

# %% [markdown]
# ## Prefetch: who asks for the next block, and when?
#
# A message hides behind computing only if it starts before its block is
# needed. Look at backward in the picture of the two traces: FSDP2 asks for
# block 2 *before* it computes the backward of block 3, so a gather is on its
# way in time. In forward the order is gather, compute, gather, compute (the
# last gather below, of block 3, is backward's). On a GPU that is no loss:
# Python runs ahead of the GPU, and the next gather is queued while this block
# computes. If Python is the slow part, you set the order yourself, as
# `one_ahead` above did in the same launch:


# %%
orders = {"by default": found["per block"], "one block ahead": ahead}
assert fsdp_runs.worst(orders) < 1e-5
fsdp_view.draw_forward(orders)

# %%
assert orders["one block ahead"].sent == orders["by default"].sent
learn.table(*fsdp_view.order(orders, until="backward"))

# %% [markdown]
# The same bytes in another order, and one more block's buffer in memory. On
# this laptop no second is gained: on CPU ranks the call returns when the
# message is there. What prefetching gains where messages have hardware of
# their own, lesson 16 simulates.
#
# ## Mixed precision: what is held, what travels
#
# A `MixedPrecisionPolicy` has a `param_dtype`, in which a unit is gathered and
# computes, and a `reduce_dtype`, in which its gradients are reduced. It casts
# at the gather. **What the optimizer works on, the shard, stays as you made
# it**, here in fp32.

# %%
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy


def with_policy(model, mesh, **dtypes):
    policy = MixedPrecisionPolicy(**dtypes)
    for block in model.h:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)


def hybrid(model, mesh):  # for the section after this
    grid = (2, mesh.size() // 2)
    names = ("replicate", "shard")
    mesh = init_device_mesh(mesh.device_type, grid, mesh_dim_names=names)
    per_block(model, mesh)


bf16, fp32 = torch.bfloat16, torch.float32
policies = {
    "bf16, reduced in fp32": partial(
        with_policy, param_dtype=bf16, reduce_dtype=fp32
    ),
    "bf16": partial(with_policy, param_dtype=bf16),
}
*low, two_nodes = fsdp_runs.run(policies | {"HSDP": hybrid}, sizes).values()
mixed = {"fp32": found["per block"], **dict(zip(policies, low))}
learn.table(*fsdp_view.precision(mixed, sizes))

# %%
held = {name: sum(books.held.values()) for name, books in mixed.items()}
learn.measured("bf16_held", held["bf16"] / held["fp32"])
gathers = {name: books.sent["all_gather"] for name, books in mixed.items()}
assert gathers["bf16"] == gathers["fp32"] / 2
assert held["bf16"] == held["fp32"] == 16 * sizes.psi / ranks

# %% [markdown]
# Between backward and update nothing is saved: 4 + 4 + 8 bytes in fp32,
# divided by N. (`model.to(bf16)` before sharding would halve the shards, and
# the optimizer's state with them; then small updates are lost, as lesson 04
# shows.) What shrinks is what is whole, what travels, and the activations. If
# you leave `reduce_dtype` out, gradients are added in bf16, whose 8 bits of
# precision lose more with every rank. How far does that lead from fp32, in
# two steps of this small model?

# %%
learn.table(*fsdp_view.distances(mixed))

# %% [markdown]
# Here the weights in bf16 decide: four ranks add up only four numbers. On
# hundreds of ranks the sum in bf16 is what you would notice first.
#
# ## Two meshes in one: HSDP
#
# Between nodes the network is slower than inside. A mesh with two dimensions
# shards along the second and **replicates** along the first: hybrid sharding,
# **HSDP**. Let 2 × 2 ranks be two "nodes" of two: weights are gathered inside
# a node, and only gradients cross, already cut into shards. `hybrid` above
# makes that mesh:

# %%
nodes = {"FSDP": found["per block"], "HSDP, 2 nodes": two_nodes}
assert fsdp_runs.worst(nodes) < 1e-5
fsdp_view.draw_nodes(nodes)

# %%
learn.table(*fsdp_view.nodes(nodes, sizes))

# %%
crossing = fsdp_view.out_of_a_node(nodes, sizes)
less = crossing["HSDP, 2 nodes"] / crossing["FSDP"]
learn.measured("between_nodes", less)
held = [sum(books.held.values()) for books in nodes.values()]
assert held[1] == 2 * held[0]

# %% [markdown]
# Every node now holds all states, twice as much a rank as before. A node must
# be large enough for that; then HSDP sends a fraction between nodes.
#
# ## Accumulating gradients
#
# A step may have several micro-batches (lesson 08). FSDP2 reduces gradients in
# every backward, unless you switch that off:
# `model.set_requires_gradient_sync(False)` concerns the root and all units in
# it, until it is set again. Each rank then adds up **whole** gradients, as
# data parallel does: fewer bytes sent, and more held.
#
# And which number is reduced? FSDP2 takes the **mean over the ranks** of what
# their backwards left. If ranks have different numbers of samples, or of
# tokens that are no padding, the mean of their means is not the mean over all.
# A worked case: rank 0 has losses 1 and 3, rank 1 has 8. The mean is 12/3 = 4;
# the mean of means is (2 + 8)/2 = 5.
#
# ## Exercise 2: one reduction a step
#
# ●●○ *18 minutes.* `parts` are this rank's micro-batches, pairs of inputs `x`
# and labels `y`; all ranks have equally many parts, of any sizes.
# `model(x, y)` returns the **sum** of the losses of the part's `y.numel()`
# labels. Call `backward` for each part, so that afterwards `p.grad` is the
# gradient of the mean loss over **all labels of all ranks**, and each unit is
# reduced once.


# %% tags=["exercise"]
import torch.distributed as dist


def accumulate(model, parts):
    """Leave the gradient of the global mean, reduced once."""
    n = dist.get_world_size()
    ### BEGIN SOLUTION
    count = torch.tensor(float(sum(y.numel() for x, y in parts)))
    dist.all_reduce(count)
    for i, (x, y) in enumerate(parts):
        model.set_requires_gradient_sync(i == len(parts) - 1)
        loss = model(x, y)
        (loss * n / count).backward()
    ### END SOLUTION


# %% tags=["check"]
learn.check("accumulate", accumulate)

# %% [markdown]
# What did it save, and what does it cost? Four micro-batches, with a reduction
# in each and with yours; the ledger counts.

# %%
each, once = fsdp_runs.accumulated(
    per_block, learn.given("accumulate"), sizes, parts=4
)
learn.table(*fsdp_view.accumulated(each, once))

# %%
assert once["sent"]["reduce_scatter"] == each["sent"]["reduce_scatter"] / 4
learn.my_run("gradients waiting, reduced once", once["waiting"], "bytes")
assert each["waiting"] < 2 * sizes.psi < 4 * sizes.psi <= once["waiting"]

# %% [markdown]
# The gathers stay: four micro-batches gather four times. (Two more switches,
# `reshard_after_forward=False` and `set_reshard_after_backward(False)` until
# the last micro-batch, keep the weights whole, too. Then a step sends what
# stage 1 does, and a rank holds whole weights and gradients, as there.) And
# while nothing is reduced, gradients are held whole, 4Ψ bytes instead of 4Ψ/N.
# If memory is what you lack, reduce each time.
#
# **Clipping** needs no care if all parameters are DTensors on one mesh:
# `torch.nn.utils.clip_grad_norm_` works on them, and its norm is that of the
# whole gradient (lesson 16's exercise 2). With plain parameters among
# DTensors, or two meshes in one model, it raises an error. The norm is a
# DTensor, too; `full_tensor()` makes a number for your log of it. A gradient
# of 3 on rank 0 and 4 on rank 1:

# %%
# %%ranks 2
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

layer = torch.nn.Linear(1, 2, bias=False)
fully_shard(layer, mesh=init_device_mesh("cpu", (world_size,)))
layer(torch.ones(1, 1)).mul(torch.tensor([3.0, 4.0])).sum().backward()
norm = torch.nn.utils.clip_grad_norm_(layer.parameters(), max_norm=1.0)
print(type(norm).__name__, norm.full_tensor().item(), end=", clipped: ")
print(*layer.weight.grad.to_local()[0].tolist())

# %% [markdown]
# ## Beside DeepSpeed's ZeRO-3
#
# The same sharding, written twice. The course's strategies `fsdp` and `zero3`
# train the same small GPT in fp32 on four ranks, with the same ledger. The
# third run tells DeepSpeed to keep nothing whole, as you see below.

# %%
import json
import shutil
from pathlib import Path

from lesson.beside import beside

import dtlib

frugal = {"stage3_max_live_parameters": 0, "stage3_max_reuse_distance": 0}
several = {
    "fsdp": {"strategy": "fsdp"},
    "zero3": {"strategy": "zero3"},
    "zero3, frugal": {"strategy": "zero3", "deepspeed": "frugal.json"},
}
if record and here:
    shutil.rmtree("beside", ignore_errors=True)
    Path("frugal.json").write_text(json.dumps({"zero_optimization": frugal}))
    three = dtlib.launch(beside, several, ranks=4, device="cpu")[0]
else:
    three = learn.recorded("19_fsdp2")["beside"]
losses = [way["losses"] for way in three.values()]
assert all(max(step) - min(step) < 1e-5 for step in zip(*losses))
learn.table(*fsdp_view.beside(three))

# %%
copy = {name: way["held"]["fp32_copy"] for name, way in three.items()}
assert copy["fsdp"] == 0 < copy["zero3"]
learn.table(*fsdp_view.beside_sent(three))

# %% [markdown]
# Equal losses. DeepSpeed holds two things more, which lesson 17 named: an fp32
# copy of its shard, and the bucket in which gradients travel. And `zero3`
# sends less, because it keeps tensors whole that it needs again soon, up to
# `stage3_max_live_parameters`. With 0 there it gathers all weights twice, as
# FSDP2 does, but tensor by tensor: in 54 messages, where FSDP2 sends one for
# each unit, 9 in all. What `zero3` saves by keeping tensors, FSDP2 saves by
# `reshard_after_forward`.
#
# So the choice is about everything else:
#
# | you want | take | because |
# | --- | --- | --- |
# | stage 3 for a model in plain PyTorch | FSDP2 | loop, optimizer and precision stay yours; no copy in fp32 |
# | sharding together with tensor parallelism | FSDP2 | both cut the same DTensors, along two dimensions of one mesh |
# | stage 1 or 2 | DeepSpeed | it is one number there; FSDP2 needs its weights kept whole by hand, as above |
# | weights or optimizer on a local disk | DeepSpeed | FSDP2 offloads to the CPU's memory only (lesson 18) |
# | to start from a script with a JSON for DeepSpeed | DeepSpeed | batch, precision and clipping are already in it |
# | checkpoints for another number of ranks | FSDP2 | `torch.distributed.checkpoint` cuts anew as it loads, as you see now; DeepSpeed converts them first (`ds_to_universal.py`) |

# %% [markdown]
# ## Save at four ranks, load at two
#
# No rank has the weights, so each writes its own shards, and a `.metadata`
# file says which rows are where. `torch.distributed.checkpoint` (**DCP**)
# reads from these files what a rank of the *new* run needs.

# %%
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import (
    get_state_dict,
    set_state_dict,
)


def save(folder):
    model, optimizer = fsdp_runs.sharded(per_block, sizes)
    for k in range(2):
        fsdp_runs.train_step(model, optimizer, sizes, k)
    weights, moments = get_state_dict(model, optimizer)
    dcp.save({"weights": weights, "moments": moments}, checkpoint_id=folder)
    return [fsdp_runs.train_step(model, optimizer, sizes, k) for k in (2, 3)]


def load(folder):
    model, optimizer = fsdp_runs.sharded(per_block, sizes)
    weights, moments = get_state_dict(model, optimizer)
    dcp.load({"weights": weights, "moments": moments}, checkpoint_id=folder)
    set_state_dict(
        model,
        optimizer,
        model_state_dict=weights,
        optim_state_dict=moments,
    )
    return [fsdp_runs.train_step(model, optimizer, sizes, k) for k in (2, 3)]


shutil.rmtree("four_ranks", ignore_errors=True)
gone_on = dtlib.launch(save, "four_ranks", ranks=ranks, device=device)[0]
loaded = dtlib.launch(load, "four_ranks", ranks=ranks // 2, device=device)[0]
learn.table(
    [[f"{ranks} ranks, not stopped", *gone_on],
     [f"loaded at {ranks // 2}", *loaded]],
    ["", "step 3", "step 4"],
    "Loss before each step",
)  # fmt: skip

# %%
assert all(abs(a - b) < 1e-5 for a, b in zip(gone_on, loaded))

# %% [markdown]
# For a program that knows no ranks, one call makes a plain file of whole
# tensors, in one process:

# %%
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

dcp_to_torch_save("four_ranks", "plain.pt")
plain = torch.load("plain.pt", weights_only=True)["weights"]
alone = sizes.model()
print(alone.load_state_dict(plain))
print(*sorted(path.name for path in Path("four_ranks").iterdir()))

# %% [markdown]
# The course's own checkpoints hold whole tensors from the start, the same for
# all strategies (`dtlib/strategies/neutral.py`): a run of `fsdp` resumes as
# `zero3`.
#
# ## Exercise 3: whose rows go where?
#
# ●●○ *12 minutes, stretch.* What does DCP work out? A tensor of `rows` rows
# was saved by `saved` ranks and is loaded by `loaded`; rank r has ⌈rows/N⌉
# rows, from r · ⌈rows/N⌉ on, as many as there are left. Return for `rank` of
# the new ones a list of `(file, start, stop, to)`: rows `start` to `stop`
# (without `stop`) **of the shard** in the file of old rank `file` go to the
# new shard from its row `to` on. One entry for each file that has such
# rows. A worked case: 8 rows, from 4 ranks to 2, rank 1:
# `[(2, 0, 2, 0), (3, 0, 2, 2)]`.


# %% tags=["exercise", "stretch"]
def moves(rows, saved, loaded, rank):
    """[(file, start, stop, to), …] for one rank of the new run."""
    ### BEGIN SOLUTION
    old = -(-rows // saved)
    new = -(-rows // loaded)
    first = rank * new
    last = min(rows, first + new)
    found = []
    for file in range(saved):
        begin = max(first, file * old)
        end = min(last, (file + 1) * old)
        if begin < end:
            found.append(
                (file, begin - file * old, end - file * old, begin - first)
            )
    return found
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("moves", moves)

# %% [markdown]
# ## An optimizer that needs whole matrices
#
# *Stretch.* AdamW works element by element, so a shard is all it needs.
# **Muon** (https://kellerjordan.github.io/posts/muon/) does not: it makes the
# momentum of a weight matrix **orthogonal**, so that all directions move
# equally far, by a few matrix products called **Newton–Schulz**. The rows of a
# shard made orthogonal are not the rows of the matrix made orthogonal:

# %% tags=["stretch"]
from lesson.orthogonal import orthogonalize

matrix = torch.tensor([[3.0, 0.0], [3.0, 4.0]])
print("the first row of the whole:", orthogonalize(matrix)[0].tolist())
print("the first row alone:", orthogonalize(matrix[:1])[0].tolist())

# %% [markdown]
# ## Exercise 4: Muon on shards
#
# ●●● *15 minutes, stretch.* `p`, `p.grad` and `momentum` are DTensors with
# `Shard(0)`, maybe with uneven shards. First momentum becomes 0.95 · momentum
# + gradient; then p becomes p − lr · orthogonalize(momentum), all in place.
# Gather one matrix once, and send nothing else. `distribute_tensor(whole,
# mesh, placements, src_data_rank=None)` cuts a tensor that every rank has.


# %% tags=["exercise", "stretch"]
from torch.distributed.tensor import distribute_tensor


def muon_step(p, momentum, lr):
    """One step of Muon for one sharded weight."""
    ### BEGIN SOLUTION
    momentum.mul_(0.95).add_(p.grad)
    whole = momentum.full_tensor()
    update = orthogonalize(whole)
    mesh, places = p.device_mesh, p.placements
    mine = distribute_tensor(update, mesh, places, src_data_rank=None)
    p.add_(mine, alpha=-lr)
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("muon_step", muon_step)

# %% [markdown]
# Now the GPT: its matrices by your Muon, everything else by SGD, against one
# process that does the same with whole matrices.

# %% tags=["stretch"]
from lesson.muon_runs import train_both

far, sent = train_both(learn.given("muon_step"), sizes)
print(f"largest distance of a weight: {far:.0e}; gathered a step: {sent}")
assert far < 1e-4

# %% [markdown]
# Every rank gathers every matrix and computes the same Newton–Schulz. Faster
# implementations give each matrix to one rank and send it the shards.
#
# ## Shards in the CPU's memory
#
# *Stretch.* `CPUOffloadPolicy` keeps shards, gradients and optimizer on the
# host, and copies a unit to the GPU for its gather (lesson 18 counts that). By
# default it pins the host's memory for faster copies, which needs a GPU; on
# CPU ranks pass `pin_memory=False`. There nothing moves, and the result is
# equal:

# %% tags=["stretch"]
from torch.distributed.fsdp import CPUOffloadPolicy


def on_the_host(model, mesh):
    policy = CPUOffloadPolicy(pin_memory=mesh.device_type == "cuda")
    for block in model.h:
        fully_shard(block, mesh=mesh, offload_policy=policy)
    fully_shard(model, mesh=mesh, offload_policy=policy)


offloaded = fsdp_runs.run({"offloaded": on_the_host}, sizes)
assert fsdp_runs.worst(offloaded) < 1e-5
learn.table(*fsdp_view.held_and_sent(offloaded, sizes))

# %% [markdown]
# ## Quiz

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## Take-away
#
# - One call of `fully_shard` makes one unit. Call it on each block and then on
#   the model; what is whole at once is the largest unit and the root's rest,
#   and memory has the next unit's buffer, too.
# - A DTensor has the whole's shape and a shard's memory. All ranks call
#   `full_tensor()`, or none.
# - `reshard_after_forward=False` saves a gather and holds the model.
# - A precision policy changes what is whole and what travels, and not what is
#   held.
# - HSDP: gather inside a node, all-reduce shards between nodes.
# - Reduce once a step if there is room for a whole gradient, and divide by the
#   global count.
# - A checkpoint of shards is cut anew when it is loaded.

# %%
if record and here:
    learn.keep_record("19_fsdp2", {"beside": three}, ("deepspeed",))
learn.take_away()
