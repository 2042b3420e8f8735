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
# minutes: {read: 25, exercises: 62}
# needs: [laptop]
# builds_on: ["05", "07", "08"]
# ---

# %% [markdown]
# A model of 7.5 billion parameters takes 120 GB to train in mixed precision,
# before the first activation. Data parallel on 64 GPUs of 80 GB each does not
# help: each of the 64 would have to hold the same 120 GB. **Which of these
# bytes does a rank need, and what does it cost to fetch the others when they
# are wanted?**
#
# ZeRO, the Zero Redundancy Optimizer (https://arxiv.org/abs/1910.02054),
# answers in three **stages**, each of which cuts one more kind of data into
# parts. You write the first two and the schedule of the third. You count what
# a rank holds, in bytes, and what it sends, in elements: an element has 2 or 4
# bytes, depending on the precision. Exercises 1 and 2 are the core and take an
# hour with the reading; 3 and 4 are *stretch*.

# %%
from dtlib import learn

learn.start("16")

# %%
from lesson.pictures import draw_question

draw_question()

# %% [markdown]
# `ranks` processes train a network of four layers, `width` wide, for `steps`
# steps, all on the CPU: bytes are the same everywhere. `ranks` has to divide
# `width`, so that the course's stage 3 adds no **padding**: zeros that make
# all parts equally long. (Your own functions need none.)

# %% tags=["parameters"]
ranks = 4
width = 32
steps = 4

# %% [markdown]
# ## Your predictions
#
# Answer all three before you read on. Ψ is the number of parameters and N the
# number of ranks.

# %%
learn.predict("eightfold")

# %%
learn.predict("stage1_sends")

# %%
learn.predict("eight_micro_batches")

# %% [markdown]
# ## Sixteen bytes, split in two ways
#
# Training with Adam holds 16 bytes for each parameter. Which sixteen? In the
# **mixed precision** of the paper, weights and gradients have 16 bits, and the
# optimizer works in 32. (`torch.autocast`, lesson 04, keeps fp32 weights and
# gradients instead.) Adam keeps two **moments**, running means of the gradient
# and of its square.
#
# | | weight | gradient | fp32 master weight | Adam's two moments | in short |
# | --- | --- | --- | --- | --- | --- |
# | mixed precision, as in the paper | 2 | 2 | 4 | 4 + 4 | 2 + 2 + 12 |
# | fp32, as on a laptop | 4 | 4 | none | 4 + 4 | 4 + 4 + 8 |
#
# A **master weight** is a copy in fp32, in which small steps can add up; the
# 16-bit weight is rounded from it. The moments and the master weights together
# are the **optimizer state**. **Stage 1** of ZeRO divides it among N ranks.
# With N = 4 that leaves 2 + 2 + 12/4 = 7 bytes in the paper and 4 + 4 + 8/4 =
# 10 in fp32. Both are right, so say which you mean.
#
# ## Who owns what
#
# A **shard** is the part of a flat tensor that one rank owns. Here is what
# each rank holds at each stage, to scale:

# %%
from lesson.pictures import draw_stages

draw_stages()

# %% [markdown]
# How do shards come about, and how does a rank get the others'? The two halves
# of lesson 07's ring are all we need: `reduce_scatter` leaves each rank with
# its own shard of the sum, and `all_gather` puts the shards of all ranks
# together again. In lesson 07 the first half ended with chunk r + 1 on rank r.
# Here rank r begins with chunk r − 1 instead of r, so that it ends with chunk
# r instead of r + 1: **shard r on rank r**. Messages and bytes stay the same.
# Ten elements on three ranks, painted 1, 10 and 100:

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
# The shards have 4, 3 and 3 elements. (Libraries want equal parts, so
# frameworks pad Ψ to a multiple of N.) `tensor_split(N)[rank]` is a **view**:
# it shows a part of the tensor and has no memory of its own. `reduce_scatter`
# overwrites its argument and returns such a view of it.
#
# ## Stage 0, a worked case
#
# This is data parallel, with the model's weights in one flat tensor. Each rank
# has a master for all of it, and an optimizer: `make_optimizer` makes one for
# the tensors it is given. `float()` copies bf16 weights; it returns fp32
# weights as they are, so there the master costs nothing.

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
# AdamW and SGD (stochastic gradient descent) work element by element: an
# optimizer that has only a shard updates it exactly as one that has all
# weights. In stage 0 all N ranks compute the same update; stage 1 ends this
# waste.
#
# ## Exercise 1: shard the optimizer
#
# ●●○ *20 minutes.* Turn stage 0 into stage 1. Every rank still holds all
# weights and gets a gradient for all of them, but it keeps a master and an
# optimizer for its own shard alone. After `step` all ranks have the same new
# numbers in `weights` itself. N need not divide Ψ. A rank may send
# $2(N-1)/N \cdot Ψ$ elements a step, as many as an all-reduce.


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
# `zero_runs` (beside this lesson) trains the network on real ranks, each with
# its part of the batch, and beside it a twin on the whole batch, as one
# process would. After each step it compares their weights, once with SGD and
# momentum and once with AdamW, because either alone would hide some mistakes.

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
# They differ by fp32 rounding alone. Now the bytes, which lesson 05's ledger
# counts between backward and update, and the elements that each rank sends:

# %%
learn.table(*zero_view.bytes_and_elements(found))

# %%
zero, one = found["stage 0"], found["stage 1"]
learn.measured("stage1_sends", one.sent / zero.sent)
learn.my_run("bytes a parameter at stage 1, fp32", one.bytes_each, "bytes")
assert abs(one.sent - zero.sent) + abs(one.bytes_each - 8 - 8 / ranks) < 1e-9

# %% [markdown]
# 8 + 8/N to the byte, and not one element more: an all-reduce *is* a
# reduce-scatter and an all-gather, and stage 1 does its update in between. The
# second half carries new weights in place of summed gradients.

# %%
zero_view.draw_stage1()

# %% [markdown]
# ## What keeps a gradient alive: a worked case
#
# A rank uses one Nth of the gradient, and yet holds all of it from backward to
# step. **Stage 2** keeps the shard alone. Two facts decide whether the memory
# of the other shards is really freed. `backward` *adds* to `p.grad` unless
# that is `None`, and a view keeps alive the whole memory that it looks into.
# Here are both, for a weight of 8 numbers and a shard of 2:

# %%
weight = torch.nn.Parameter(torch.ones(8))
for micro_batch in (1, 2):
    (weight * 10.0).sum().backward()
    print("p.grad after micro-batch", micro_batch, weight.grad.tolist())
window = weight.grad.tensor_split(4)[1]
for name, tensor in {"view": window, "view + 0": window + 0}.items():
    memory = tensor.untyped_storage().nbytes()
    print(f"{name}: {tensor.nbytes} bytes, in a memory of {memory}")

# %% [markdown]
# Arithmetic such as `+` writes its result into memory of its own; whatever
# works in place (`+=`, `div_`) stays in the old one.
#
# ## Exercise 2, first half: keep a shard of the gradient
#
# ●●○ *9 minutes.* Your function is called after the backward of every
# micro-batch. Each of `parameters` has a gradient; `shard` is what your last
# call returned, and `None` at first. Return this rank's shard of the gradient
# so far: averaged over ranks, added up over micro-batches. (The caller has
# already divided each loss by the number of micro-batches.) After each call no
# rank may hold the rest of the gradient, in `p.grad` or behind a view.


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
# ## One number from shards: a worked case
#
# How many elements of a gradient are exactly 0, when no rank has all of it?
# Each rank counts in its own shard, and `all_reduce` adds the counts up. It
# works **in place and returns nothing**: afterwards the sum stands in the
# tensor that you gave it.

# %%
# %%ranks 3
shard = [torch.tensor([3.0, 0.0]), torch.zeros(2), torch.tensor([0.0])][rank]
zeros = (shard == 0).sum()
print("mine:", zeros.item())
dist.all_reduce(zeros)
print("in the whole gradient:", zeros.item())

# %% [markdown]
# ## Exercise 2, second half: clip what nobody has whole
#
# ●○○ *5 minutes.* To clip, you need the **norm**, or length, of the *whole*
# gradient: the root of the sum of the squares of its elements. Now no rank has
# all of them. Return the norm on every rank, and leave `shard` as it is. A
# single number from each rank is enough.


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
# Your two functions make stage 2. The update multiplies its shard of the
# gradient by `max_norm / norm` if that is below 1, and continues as in stage
# 1. Here it clips in every step, and the twin clips with torch's own
# `clip_grad_norm_`.

# %%
max_norm = 0.01
update = zero_runs.from_shards(learn.given("global_norm"), max_norm)
ways["stage 2"] = zero_runs.Flat(update, learn.given("add_gradients"))
found |= zero_runs.run({"stage 2": ways["stage 2"]}, sizes, clip=max_norm)
assert zero_runs.worst(found) < 1e-5
learn.table(*zero_view.bytes_and_elements(found))

# %% [markdown]
# Fewer bytes, and as many elements. Now cut a rank's batch into eight
# micro-batches. Stages 0 and 1 add up gradients locally and send them once.
# Stage 2 cannot wait, because a rank cannot send later what it did not keep.

# %%
eight = zero_runs.run(ways, sizes, kinds=["AdamW"], k=8)
times = eight["stage 2"].sent / eight["stage 1"].sent
learn.measured("eight_micro_batches", times)
assert abs(times - 9 / 2) < 0.01
learn.table(
    [[name, found[name].sent, eight[name].sent] for name in ways],
    ["", "1 micro-batch", "8 micro-batches"],
    f"Elements that a rank sends in a step, as multiples of Ψ; {ranks} ranks",
)

# %% [markdown]
# Your stage 2 packs the gradient when backward is over, so for a moment all of
# it is there. The course's `ZeroStage2` (in `dtlib/scratch/zero`) sends a
# layer's gradient as soon as it is complete, from a **hook**: a function that
# autograd calls at that moment (lesson 08).
#
# ## Stage 3: weights, too
#
# In **stage 3** a rank keeps one Nth of the weights. It gathers a layer right
# before it computes with it, in forward and again in backward, and frees it
# right after. The order of these actions is the whole idea, so we write it
# down as a **schedule**: small instructions that every rank carries out, line
# by line.

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
# layers. `s.Backward(i)` needs layer i whole and the backward of layer i + 1
# done. It makes the whole gradient of layer i, and `s.ReduceScatter(i)` leaves
# each rank with its shard of the mean over ranks. Hold as few whole layers
# *and* whole gradients at once as you can. `s.OptimizerStep()` is the last
# line.


# %% tags=["exercise", "stretch"]
def zero3_schedule(layers):
    """The instructions of one step; layers are 0 to layers - 1."""
    ### BEGIN SOLUTION
    lines = []
    for i in range(layers):
        lines += [s.AllGather(i), s.Forward(i), s.Free(i)]
    for i in reversed(range(layers)):
        lines += [s.AllGather(i), s.Backward(i), s.Free(i), s.ReduceScatter(i)]
    return [*lines, s.OptimizerStep()]
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("zero3_schedule", zero3_schedule)

# %% [markdown]
# The course's `ZeroStage3` is a worker that carries out such lines. It follows
# yours, and after each line we count how many layers' weights are whole in its
# buffers (by their bytes; gradients are not counted). The second schedule
# gathers all layers at the start.

# %%
layers = range(sizes.layers)
at_once = [s.AllGather(i) for i in layers] + [s.Forward(i) for i in layers]
for i in reversed(layers):
    at_once += [s.Backward(i), s.Free(i), s.ReduceScatter(i)]
lines = {
    "stage 3": list(learn.given("zero3_schedule")(sizes.layers)),
    "all gathered at the start": [*at_once, s.OptimizerStep()],
}
scheduled = {name: zero_runs.Scheduled(lines[name]) for name in lines}
walked = zero_runs.run(scheduled, sizes)
assert zero_runs.worst(walked) < 1e-5
pairs = {name: (lines[name], walked[name]) for name in lines}
zero_view.draw_stairs(pairs)

# %%
learn.table(*zero_view.stairs(pairs))

# %% [markdown]
# Both train correctly. Holding few whole layers has a price: in each
# micro-batch every layer is gathered twice and its gradient reduced once,
# which is $3k(N-1)/N \cdot Ψ$ elements for k micro-batches; the second
# schedule gathers once and sends $2k(N-1)/N \cdot Ψ$.
#
# ## Seconds beside bytes: prefetch
#
# Bytes cost time only while somebody waits for them. Messages and computing
# can **overlap**: they run at the same time on different hardware. Yet in the
# schedule above nothing overlaps: layer 1 is gathered only after layer 0 was
# freed, and that is after F0. **Prefetching** gathers the next layer while
# this one computes, and pays with a second whole layer. Below is a simulation
# of both: layers of 200 million parameters in bf16, 8192 tokens a rank, 64
# ranks, a link of 50 GB/s (400 Gbit/s), and 400 TFLOP/s ($4 \cdot 10^{14}$
# floating-point operations a second), some 40 % of an H100's peak. G is an
# all-gather, R a reduce-scatter, F forward, B backward; each F and each B ends
# with the `Free` of its layer.

# %%
from lesson import timeline

seconds = timeline.layer_seconds(
    200e6, tokens=8192, ranks=64, link=50e9, speed=400e12
)
orders = {
    "Gathered when needed": s.schedule([[i] for i in layers]),
    "Gathered one layer ahead": timeline.one_ahead(sizes.layers),
}
timeline.draw(orders, seconds)

# %%
learn.table(*timeline.table(orders, seconds))

# %% [markdown]
# Both send the same bytes. One layer ahead, the ranks wait only for the first
# gather of each pass and for the last reduce-scatter. (The last layer could
# stay whole between its F and its B; this schedule gathers it twice, like the
# others.) PyTorch's stage 3, Fully
# Sharded Data Parallel (FSDP2), works like this on GPUs
# (https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html).
# When a gather takes longer than a layer's compute, no order hides it: try
# `tokens=2048` above. In that case take a larger micro-batch or a lower stage.
#
# ## All stages in one picture
#
# Now with bf16 weights and gradients and fp32 master weights: the paper's
# 2 + 2 + 12.

# %%
found["stage 3"], ways["stage 3"] = walked["stage 3"], scheduled["stage 3"]
mixed = zero_runs.run(ways, sizes, kinds=["AdamW"], mixed=True)
both = {f"fp32, {ranks} ranks": found, f"mixed, {ranks} ranks": mixed}
zero_view.draw_held(both)

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
# 8x", for many ranks: 16/(2 + 14/N) approaches 8 when 14/N is small against 2.
# Between which two settings of N does the factor pass 7? What do eight
# micro-batches cost at each stage?

# %%
learn.what_if("zero_stages")

# %% [markdown]
# No stage shards activations (lesson 05). And if stage 1 fits and a step has
# several micro-batches, stay there: from stage 2 on, each micro-batch sends.
#
# ## Exercise 4: the paper's table
#
# ●●○ *13 minutes, stretch.* Two functions for any Ψ, N and stage. First the
# bytes on a rank, by kind; `precision` is `"mixed"` or `"fp32"`, and
# `"optimizer"` is the optimizer state, fp32 master included. Then the elements
# that a rank sends in a step of `k` micro-batches. Be exact: a rank that is
# alone sends nothing, and a shard has Ψ/N elements, without padding, even
# where that is no whole number.


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
# - Stage 1: reduce-scatter, update your own shard, all-gather. Weights and
#   traffic are those of data parallel.
# - Stage 2 sends in every micro-batch, and clips by a norm over all ranks.
# - Stage 3: a schedule says when a layer is whole. In each micro-batch the
#   weights go round the ring twice and the gradients once; prefetching hides
#   most of it if a layer computes for longer than it travels.
# - How many of 16 bytes remain depends on N. The factor of 8 is a limit.

# %%
learn.take_away()
