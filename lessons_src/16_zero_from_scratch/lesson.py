# %% [raw]
# ---
# number: "16"
# title: ZeRO from scratch
# does: >-
#   shard optimizer, gradients and weights by hand; count what is held and
#   sent
# objectives:
#   - shard optimizer and gradients, and prove the weights equal to one process
#   - write stage 3 as a schedule, and read from it what is whole when
#   - work out what a rank holds and sends at each stage, for any N
# minutes: {read: 30, exercises: 54}
# needs: [laptop]
# builds_on: ["05", "07", "08"]
# ---

# %% [markdown]
# A model of 7.5 billion parameters takes 120 GB to train in mixed precision,
# before the first activation. Data parallel on 64 GPUs of 80 GB each does not
# help: all 64 hold the same 120 GB. **Which of these bytes does a rank need,
# and what does it cost to fetch the others when they are wanted?**
#
# ZeRO (https://arxiv.org/abs/1910.02054) answers in three stages. You write
# two of them, follow the third, and count every byte held and sent. Exercises
# 1 and 2 are the core and fit an hour with the reading; 3 and 4 are *stretch*.

# %%
from dtlib import learn

learn.start("16")

# %% [markdown]
# `ranks` processes train a network of four layers, `width` wide, for `steps`
# steps, all on the CPU: bytes are the same everywhere. `ranks` has to divide
# `width`, so that no byte is padding.

# %% tags=["parameters"]
ranks = 4
width = 32
steps = 4

# %% [markdown]
# ## Your predictions
#
# Commit all three. Ψ is the number of parameters, N that of ranks.

# %%
learn.predict("eightfold")

# %%
learn.predict("stage1_sends")

# %%
learn.predict("eight_micro_batches")

# %% [markdown]
# ## Sixteen bytes, split in two ways
#
# Training with Adam holds 16 bytes for each parameter. Which sixteen?
#
# | | weight | gradient | fp32 master weight | Adam's two moments | in short |
# | --- | --- | --- | --- | --- | --- |
# | mixed precision, as in the paper | 2 | 2 | 4 | 4 + 4 | 2 + 2 + 12 |
# | fp32, as on a laptop | 4 | 4 | none | 4 + 4 | 4 + 4 + 8 |
#
# A **master weight** is a copy in fp32 that small steps can add up in; the
# 16-bit weight is rounded from it. Stage 1 of ZeRO shares the last part, the
# optimizer's, among N ranks. With N = 4 that is 2 + 2 + 12/4 = 7 bytes in the
# paper, and 4 + 4 + 8/4 = 10 in fp32. Both are right. Say which one you mean.
#
# ## Who owns what
#
# A **shard** is the part of a flat tensor that one rank owns. The two halves
# of lesson 07's ring are all we need: `reduce_scatter` leaves on each rank the
# sum of its own shard, and `all_gather` makes a tensor whole of which each
# rank has its shard. Ten elements on three ranks, 1, 10 and 100:

# %%
# %%ranks 3
from dtlib.scratch.ring import all_gather, reduce_scatter

mine = reduce_scatter(torch.full((10,), 10.0**rank))
print("my shard of the sum:", mine.tolist())
whole = torch.zeros(10)
# + rank: so that you see whose shard is where
whole.tensor_split(world_size)[rank].copy_(mine + rank)
print("gathered:", all_gather(whole).int().tolist())

# %% [markdown]
# The shards have 4, 3 and 3 elements. (Libraries want equal parts, so that
# frameworks pad Ψ to a multiple of N.) `tensor_split(N)[rank]` is a *view*:
# it shows a part of the tensor and has no memory of its own. `reduce_scatter`
# uses its argument up and returns such a view of it.
#
# ## Stage 0, a worked case
#
# This is data parallel, with the model's weights in one flat tensor. Each rank
# has a master for all of it, and an optimizer: `make_optimizer` makes one for
# the tensors it is given. `float()` copies bf16 weights; fp32 weights it hands
# back as they are, so that the master costs nothing.

# %%
import torch
import torch.distributed as dist

from dtlib.scratch.ring import all_gather, reduce_scatter, ring_all_reduce


def stage0(weights, make_optimizer):
    """Data parallel. `weights`: flat, all Ψ, the same on all ranks."""
    n = dist.get_world_size()
    master = weights.float()
    optimizer = make_optimizer([master])

    def step(gradient):
        """`gradient`: what this rank's backward left, flat, all Ψ."""
        master.grad = ring_all_reduce(gradient).float() / n
        optimizer.step()
        weights.copy_(master)  # rounds, where the weights are bf16
        optimizer.zero_grad()  # drops master.grad

    return step


# %% [markdown]
# AdamW and SGD work element by element: handed Ψ/N weights, they do with them
# what they would have done among all Ψ. So here N ranks compute the same
# update N times over. That is what stage 1 ends.
#
# ## Exercise 1: shard the optimizer
#
# ●●○ *12 minutes.* Turn stage 0 into stage 1. Every rank still holds all
# weights and gets a gradient for all; master and optimizer it keeps for its
# own shard alone. After `step` all ranks have the same new `weights`, in
# place. N need not divide Ψ. A rank may send $2(N-1)/N \cdot Ψ$ elements a
# step, as many as an all-reduce.


# %% tags=["exercise"]
def stage1(weights, make_optimizer):
    """ZeRO stage 1; the arguments are those of `stage0`."""
    rank, n = dist.get_rank(), dist.get_world_size()
    ### BEGIN SOLUTION
    own = weights.tensor_split(n)[rank]
    master = own.float()
    optimizer = make_optimizer([master])
    ### END SOLUTION

    def step(gradient):
        ### BEGIN SOLUTION
        master.grad = reduce_scatter(gradient).float() / n
        optimizer.step()
        own.copy_(master)
        optimizer.zero_grad()
        all_gather(weights)
        ### END SOLUTION

    return step


# %% tags=["check"]
learn.check("stage1", stage1)

# %% [markdown]
# ## Proof and bytes
#
# `zero_runs` (in `dtlib/learn`) trains the network on real ranks, each with
# its part of the batch, and beside it a twin with all of it, as one process
# would. After each step it compares their weights: with SGD that has momentum
# and with AdamW, since either alone would hide some mistakes.

# %%
from lesson import pictures as zero_view
from lesson import zero_runs

sizes = zero_runs.Sizes(ranks=ranks, width=width, steps=steps)
ways = {"stage 0": zero_runs.Flat(stage0)}
ways["stage 1"] = zero_runs.Flat(learn.given("stage1"))
found = zero_runs.run(ways, sizes)
assert zero_runs.worst(found) < 1e-5
learn.table(*zero_view.distances(found))

# %% [markdown]
# Rounding in fp32, and no more. Now the bytes, as lesson 05's ledger counts
# them between backward and update, and elements, counted as they leave:

# %%
learn.table(*zero_view.bytes_and_elements(found))

# %%
zero, one = found["stage 0"], found["stage 1"]
learn.measured("stage1_sends", one.sent / zero.sent)
learn.my_run("bytes a parameter at stage 1, fp32", one.bytes_each, "bytes")
assert abs(one.sent - zero.sent) + abs(one.bytes_each - 8 - 8 / ranks) < 1e-9

# %% [markdown]
# 8 + 8/N, to the byte, for not one element more: an all-reduce *is* a
# reduce-scatter and an all-gather, and stage 1 does its update in between.
# What travels back are new weights in place of summed gradients.
#
# ## Exercise 2, first half: keep a shard of the gradient
#
# ●●○ *9 minutes.* A rank uses one Nth of the gradient, and yet holds all of
# it from backward to step. **Stage 2** keeps the shard. Your function is
# called after the backward of every micro-batch. `parameters` have a gradient
# each; `shard` is what your last call returned, `None` at first. Return the
# shard of all micro-batches so far: the mean over ranks, added up over
# micro-batches. Afterwards no rank may hold the rest.
#
# Two things to know. `backward` *adds* to `p.grad` if that is not `None`. And
# a view keeps the whole tensor alive that it looks into.


# %% tags=["exercise"]
def add_gradients(parameters, shard):
    """This rank's shard of the gradient, all micro-batches so far."""
    flat = torch.cat([p.grad.flatten() for p in parameters])
    ### BEGIN SOLUTION
    for p in parameters:
        p.grad = None
    mine = reduce_scatter(flat) / dist.get_world_size()
    return mine if shard is None else shard + mine
    ### END SOLUTION


# %% tags=["check"]
learn.check("add_gradients", add_gradients)

# %% [markdown]
# ## Exercise 2, second half: clip what nobody has whole
#
# ●○○ *5 minutes.* To clip, you need the length of the *whole* gradient, and
# now no rank has it. Return it on every rank; `shard` stays as it is. A
# single number of each rank is enough.


# %% tags=["exercise"]
def global_norm(shard):
    """The norm of the gradient whose shards the ranks hold."""
    ### BEGIN SOLUTION
    squares = shard.square().sum()
    dist.all_reduce(squares)
    return squares.sqrt()
    ### END SOLUTION


# %% tags=["check"]
learn.check("global_norm", global_norm)

# %% [markdown]
# Stage 2 out of your two functions. The gradient comes as a shard, so the
# update first multiplies it by `longest / norm`, if that is below 1, and goes
# on as in stage 1. Here it cuts in every step, and the twin clips with torch's
# own `clip_grad_norm_`.

# %%
longest = 0.01
update = zero_runs.from_shards(learn.given("global_norm"), longest)
ways["stage 2"] = zero_runs.Flat(update, learn.given("add_gradients"))
found |= zero_runs.run({"stage 2": ways["stage 2"]}, sizes, clip=longest)
assert zero_runs.worst(found) < 1e-5
learn.table(*zero_view.bytes_and_elements(found))

# %% [markdown]
# Fewer bytes, as many elements. Now cut a rank's batch into eight. Stages 0
# and 1 add up locally and talk once. Stage 2 cannot: what a rank did not keep,
# it cannot send later.

# %%
eight = zero_runs.run(ways, sizes, kinds=["AdamW"], k=8)
times = eight["stage 2"].sent / eight["stage 1"].sent
learn.measured("eight_micro_batches", times)
assert abs(times - 9 / 2) < 0.01
learn.table(
    [[name, found[name].sent, eight[name].sent] for name in ways],
    ["", "1 micro-batch", "8 micro-batches"],
    f"Elements sent by a rank in a step, in Ψ, {ranks} ranks",
)

# %% [markdown]
# Your stage 2 packs the whole gradient when backward is over, so for a moment
# all of it is there. The course's `ZeroStage2` (in `dtlib/scratch/zero`) sends
# a layer's gradient off as soon as it is complete, by a hook (lesson 08).
#
# ## Stage 3: weights, too
#
# **Stage 3** keeps one Nth of the weights. A layer is made whole right before
# it is used, in forward and again in backward, and freed right after. *When*
# is the whole idea, so we write it down as a **schedule**: small instructions
# that every rank carries out, line by line.

# %%
from dtlib.scratch.zero import schedule as s

two_layers_forward = [
    *(s.AllGather(0), s.Forward(0), s.Free(0)),  # Free: only shards are left
    *(s.AllGather(1), s.Forward(1), s.Free(1)),
]

# %% [markdown]
# ## Exercise 3: the whole step
#
# ●●○ *15 minutes, stretch.* Return all lines of a step, for any number of
# layers. `s.Backward(k)` needs layer k whole, and the backward of layer k + 1
# done; it makes the gradient of layer k, of which `s.ReduceScatter(k)` leaves
# a shard of the mean on each rank. Hold as few layers at once as you can.
# `s.OptimizerStep()` is the last line.


# %% tags=["exercise", "stretch"]
def zero3_schedule(layers):
    """The instructions of one step; layers are 0 to layers - 1."""
    ### BEGIN SOLUTION
    lines = []
    for k in range(layers):
        lines += [s.AllGather(k), s.Forward(k), s.Free(k)]
    for k in reversed(range(layers)):
        lines += [s.AllGather(k), s.Backward(k), s.Free(k), s.ReduceScatter(k)]
    return [*lines, s.OptimizerStep()]
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("zero3_schedule", zero3_schedule)

# %% [markdown]
# The course's `ZeroStage3` is a worker that carries such lines out. It
# follows yours, and after each line its buffers say how many bytes of whole
# layers they hold. Beside it a schedule that gathers all at the start.

# %%
import matplotlib.pyplot as plt

layers = range(sizes.layers)
at_once = [s.AllGather(k) for k in layers] + [s.Forward(k) for k in layers]
for k in reversed(layers):
    at_once += [s.Backward(k), s.Free(k), s.ReduceScatter(k)]
lines = {
    "stage 3": list(learn.given("zero3_schedule")(sizes.layers)),
    "all gathered at the start": [*at_once, s.OptimizerStep()],
}
scheduled = {name: zero_runs.Scheduled(lines[name]) for name in lines}
walked = zero_runs.run(scheduled, sizes)
assert zero_runs.worst(walked) < 1e-5
pairs = {name: (lines[name], walked[name]) for name in lines}
zero_view.draw_stairs(pairs)
plt.show()

# %%
learn.table(*zero_view.stairs(pairs))

# %% [markdown]
# Both are right, step for step. Low stairs have a price: every layer is
# gathered twice and reduced once in each micro-batch, $3k(N-1)/N \cdot Ψ$
# elements for k of them, in place of $2k$.
#
# ## All stages in one picture
#
# Once more with bf16 weights and gradients, and fp32 master weights: the
# paper's 2 + 2 + 12.

# %%
found["stage 3"], ways["stage 3"] = walked["stage 3"], scheduled["stage 3"]
mixed = zero_runs.run(ways, sizes, kinds=["AdamW"], mixed=True)
both = {f"fp32, {ranks} ranks": found, f"mixed, {ranks} ranks": mixed}
zero_view.draw_held(both)
plt.show()

# %%
learn.table(*zero_view.held(both))

# %%
left = [books.bytes_each for books in mixed.values()]
formulas = [16, 4 + 12 / ranks, 2 + 14 / ranks, 16 / ranks]
assert all(abs(a - b) < 1e-9 for a, b in zip(left, formulas))
if ranks == 4:  # as the prediction says
    learn.measured("eightfold", 16 / left[2])

# %% [markdown]
# "About 8 times less memory with ZeRO-2", tutorials say. The paper says "up to
# 8x", for many ranks: 16/(2 + 14/N) nears 8 when 14/N is small against 2. How
# many ranks make it 7? What do eight micro-batches cost at each stage?

# %%
learn.what_if("zero_stages")

# %% [markdown]
# No stage shards activations (lesson 05). And where stage 1 fits and a step
# has several micro-batches, stay there: from stage 2 on each of them costs.
#
# ## Exercise 4: the paper's table
#
# ●●○ *13 minutes, stretch.* Two functions for any Ψ, N and stage. First the
# bytes on a rank, by kind; `precision` is `"mixed"` or `"fp32"`, and the fp32
# master counts with the optimizer, as in the paper. Then the elements that a
# rank sends in a step of `k` micro-batches. Exactly, please: one rank sends
# nothing.


# %% tags=["exercise", "stretch"]
def held(psi, n, stage, precision):
    """Bytes: {"parameters": …, "gradients": …, "optimizer": …}."""
    ### BEGIN SOLUTION
    weight, gradient, state = (2, 2, 12) if precision == "mixed" else (4, 4, 8)
    return {
        "parameters": weight * psi / (n if stage >= 3 else 1),
        "gradients": gradient * psi / (n if stage >= 2 else 1),
        "optimizer": state * psi / (n if stage >= 1 else 1),
    }
    ### END SOLUTION


def sent(psi, n, stage, k):
    """Elements that a rank sends in a step."""
    ### BEGIN SOLUTION
    times = {0: 2, 1: 2, 2: k + 1, 3: 3 * k}[stage]
    return times * psi * (n - 1) / n
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("held", held)
learn.check("sent", sent)

# %% [markdown]
# The paper's table 1 for 7.5 billion parameters, by your function and as the
# paper prints it, with some digits rounded and some cut off:

# %%
rows = zero_view.beside_the_paper(learn.given("held"))
assert all(zero_view.as_printed(x, y) for _, *pairs in rows for x, y in pairs)
learn.table(*zero_view.paper(rows))

# %% [markdown]
# ## Quiz

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## Take-away
#
# - 2 + 2 + 12 bytes in mixed precision, 4 + 4 + 8 in fp32: say which.
# - Stage 1: reduce-scatter, update your own shard, all-gather. The weights and
#   the traffic of data parallel.
# - Stage 2 talks in every micro-batch, and clips by a norm summed over ranks.
# - Stage 3: a schedule says when a layer is whole. Three passes round the ring
#   in each micro-batch.
# - What remains of 16 bytes follows from N. The 8 of the folk tale is a limit.

# %%
learn.take_away()
