# %% [raw]
# ---
# number: "12"
# title: Pipeline parallelism
# does: >-
#   read schedules of a pipeline, write 1F1B, and beat it with your own
# objectives:
#   - read idle time and kept activations off a schedule
#   - write 1F1B, and say what it saves and what it does not
#   - split a backward, and fill idle time with weight gradients
# minutes: {read: 25, exercises: 45}
# needs: [laptop]
# builds_on: ["07", "08"]
# ---

# %% [markdown]
# A model is too large for one GPU, so it is cut into four parts. Rank 0 holds
# the first layers, rank 1 the next ones, and so on. Rank 1 needs the output of
# rank 0, rank 2 that of rank 1, and the gradients come back in the other
# direction. So while one rank computes, the other three wait. **How do four
# ranks that depend on each other work at the same time?**
#
# This is **pipeline parallelism**. A rank's part of the model is a **stage**.
# The batch is cut into **micro-batches**: rank 0 begins the second one while
# rank 1 computes the first. The order in which each rank computes is the
# **schedule**. In this lesson you read schedules, write the one that most
# libraries use, and then write a better one. Exercises 1 and 2 are the core
# and take less than an hour with the reading; 3 is *stretch*.

# %%
from dtlib import learn

learn.start("12")

# %% [markdown]
# First the problem: one batch that is not cut. Each stage takes 8 units of
# time for its forward, and 16 for its backward.

# %%
from lesson.pictures import draw_question

draw_question()

# %% [markdown]
# `ranks` processes train a small network on the CPU. The batch is cut into
# `micro_batches` micro-batches. In formulas, N is `ranks` and M is
# `micro_batches`. Stages **sleep** for `sleep` seconds in each forward, and
# twice as long in each backward. A sleeping process needs no core, so ranks
# wait for each other as on `ranks` GPUs, even if your laptop has two cores.

# %% tags=["parameters"]
ranks = 4
micro_batches = 8  # exercise 3 counts on at least 2 * ranks
sleep = 0.04

# %% [markdown]
# ## Your predictions
#
# Answer all three before you read on. GPipe runs all forwards first and then
# all backwards. 1F1B ("one forward, one backward") starts each backward as
# soon as it can.

# %%
learn.predict("gpipe_idle")

# %%
learn.predict("gpipe_or_1f1b")

# %%
learn.predict("kept_by_1f1b")

# %% [markdown]
# ## A schedule is data
#
# A schedule gives every rank a list of instructions. `p.Forward(m, s)`
# computes the output of stage s for micro-batch m and keeps what its backward
# needs. `p.Backward(m, s)` computes gradients and frees what was kept. Stage s
# is on rank s. Here is **GPipe** (https://arxiv.org/abs/1811.06965) for two
# ranks and two micro-batches, written by hand:

# %%
from dtlib.scratch import pipeline as p

by_hand = [
    [p.Forward(0, 0), p.Forward(1, 0), p.Backward(1, 0), p.Backward(0, 0)],
    [p.Forward(0, 1), p.Forward(1, 1), p.Backward(1, 1), p.Backward(0, 1)],
]

# %% [markdown]
# Who sends what to whom follows from the lists: rank 1 needs the output of
# rank 0, an **activation**, and rank 0 needs the gradient of that output.
# `p.with_messages` adds these sends and receives to the lists.

# %%
for rank, lines in enumerate(p.with_messages(by_hand)):
    print(f"rank {rank}:", *lines, sep="\n    ")

# %% [markdown]
# `p.follow` carries out such lists on paper, without any process. By default a
# micro-batch takes 1 unit of time in a forward and 2 in a backward, and a
# message takes none. Lists that could not run to their end are refused.
# `p.follow` returns a `Span` for each line, which says when it runs. In the
# picture, the number in a bar is the micro-batch.

# %%
from lesson import pictures as view

spans = p.follow(p.with_messages(by_hand))
view.draw_schedules({"GPipe by hand": spans})

# %%
learn.table(*view.idle_and_kept({"GPipe by hand": by_hand}))

# %% [markdown]
# The idle time of a pipeline is called the **bubble**. Rank 1 waits for the
# first activation. Rank 0 waits in the middle, for the first gradient, and
# rank 1 has nothing left to do while rank 0 runs the last backward.
#
# ## Exercise 1: read the bubble off a schedule
#
# ●○○ *9 minutes.* Your function gets the times of a schedule: for each
# computation the rank, its start and its end, in any order. The step starts at
# 0 and ends when the last computation of any rank has ended. Return the idle
# time of *all* ranks, divided by the time in which they compute.


# %% tags=["exercise"]
def idle_share(spans):
    """Idle time over computing time; `spans`: (rank, start, end), …"""
    ### BEGIN SOLUTION
    ranks = 1 + max(rank for rank, start, end in spans)
    step = max(end for rank, start, end in spans)
    busy = sum(end - start for rank, start, end in spans)
    return (ranks * step - busy) / busy
    ### END SOLUTION


# %% tags=["check"]
learn.check("idle_share", idle_share)

# %% [markdown]
# Now GPipe for any number of micro-batches, read with your function. The
# formula of Narayanan et al. (https://arxiv.org/abs/2104.04473) says the same:
# the bubble is $(N-1)/M$ of the computing time. GPipe's paper writes
# $(N-1)/(M+N-1)$, because it divides by the whole time.

# %%
from dtlib.sim import pipeline as formulas

gpipe = p.for_all_ranks(p.gpipe, ranks, micro_batches)
times = p.follow(p.with_messages(gpipe))
computing = [
    (span.rank, span.start, span.end)
    for span in times
    if span.end > span.start  # messages take no time here
]
idle = learn.given("idle_share")(computing)
assert abs(idle - formulas.bubble("gpipe", ranks, micro_batches)) < 1e-9
if (ranks, micro_batches) == (4, 8):  # as the prediction says
    learn.measured("gpipe_idle", idle)

# %%
view.draw_schedules({"GPipe": times})

# %%
learn.table(*view.idle_and_kept({"GPipe": gpipe}))

# %% [markdown]
# More micro-batches make the bubble smaller. The batch of the first picture
# took 96 units on 4 ranks; cut into 8 micro-batches, it takes 33.
#
# But look at what a rank **keeps**. After its last forward it has the
# activations of the whole batch. Smaller micro-batches don't change that, and
# more of the same size need more memory. (GPipe's authors therefore recompute
# activations.)
#
# ## One forward, one backward
#
# A backward frees what its forward kept, so run each backward as early as you
# can. The last rank can run the backward of a micro-batch right after its
# forward. The ranks before it begin with a *warm-up*: they run forwards until
# micro-batch 0 has reached the last rank. From then on every rank alternates,
# one forward and one backward. When a rank has no forwards left, it runs the
# rest of its backwards: as many as its warm-up had forwards.
#
# After its warm-up, rank 0 runs one more forward and then waits for its first
# gradient. More forwards in that time would not make the step shorter. Their
# activations would only be kept longer.
#
# ## Exercise 2: write 1F1B
#
# ●●○ *16 minutes.* Return the list of one rank: its forwards and backwards, of
# all micro-batches, on stage `rank`. The bubble must be as short as GPipe's,
# and rank r may keep at most N − r micro-batches at a time. There may be fewer
# micro-batches than ranks. *Draw three ranks on paper first.*


# %% tags=["exercise"]
def one_f_one_b(rank, ranks, micro_batches):
    """The instructions of a rank: [p.Forward(0, rank), …]."""
    ### BEGIN SOLUTION
    forwards = [p.Forward(m, rank) for m in range(micro_batches)]
    backwards = [p.Backward(m, rank) for m in range(micro_batches)]
    warm_up = min(ranks - 1 - rank, micro_batches)
    lines = forwards[:warm_up]
    for forward, backward in zip(forwards[warm_up:], backwards):
        lines += [forward, backward]
    return lines + backwards[micro_batches - warm_up :]
    ### END SOLUTION


# %% tags=["check"]
learn.check("one_f_one_b", one_f_one_b)

# %%
given = learn.given("one_f_one_b")
mine = p.for_all_ranks(given, ranks, micro_batches)
both = {"GPipe": gpipe, "1F1B": mine}
read = {name: p.follow(p.with_messages(both[name])) for name in both}
view.draw_schedules(read)

# %%
learn.table(*view.idle_and_kept(both))

# %%
ends = {name: max(span.end for span in read[name]) for name in both}
learn.measured("gpipe_or_1f1b", ends["1F1B"] / ends["GPipe"])
sixteen = p.for_all_ranks(given, 4, 16)
learn.measured("kept_by_1f1b", p.kept_at_most(sixteen[0]))

# %% [markdown]
# The bubble is the same, to the last unit of time. What 1F1B saves is memory:
# rank r keeps at most N − r micro-batches, and GPipe all M. So you can afford
# more micro-batches, and *they* shrink the bubble. Either the batch grows, or
# you cut the same batch into smaller ones, which saves even more memory.
#
# All this holds while messages take no time. Now each message takes some:

# %%
learn.table(*view.with_slow_messages(both))

# %% [markdown]
# In GPipe a rank waits for messages only before its first forward and before
# its first backward. In 1F1B it needs a gradient before each next forward, so
# slow messages delay it again and again. Expect that between nodes, where
# messages are slower than inside one.
#
# ## On real ranks
#
# `pipeline_runs` (beside this lesson) gives each rank's list to a *worker*,
# `Pipeline` in `dtlib/scratch/pipeline`. The worker carries out its list line
# by line, with real messages. First the proof: the ranks train the network in
# float64 for three steps. Beside it each rank trains a twin, the whole network
# on the whole batch, as one process would. After that comes one step with
# stages that sleep. In it the worker notes when each computation runs.

# %%
from lesson import pipeline_runs

found = pipeline_runs.run(both, sleep)
assert pipeline_runs.worst(found) < 1e-11
learn.table(*view.proof(found))

# %%
view.draw_measured(found)

# %%
learn.table(*view.read_and_measured(both, found, sleep))

# %%
measured = p.idle_share(found["GPipe"].spans)
learn.my_run("idle time over computing time, GPipe", measured, "times")

# %% [markdown]
# The weights differ from the twin's by rounding alone. The measured bubble is
# a little longer than the one on paper: messages take time, and a laptop that
# is busy wakes a sleeping process late.
#
# ## Two that send to each other
#
# In 1F1B rank 0 sends an activation to rank 1 while rank 1 sends a gradient to
# rank 0. Plain `dist.send` waits until the other rank receives, as lesson 07
# showed. `p.follow` can read the lists with such sends (`blocking=True`):

# %%
import textwrap

from dtlib.errors import BadInput

for name in both:
    try:
        p.follow(p.with_messages(both[name]), blocking=True)
        print(f"{name} runs to its end.")
    except BadInput as refused:
        print(textwrap.fill(f"{name} is refused: {refused}", 72))

# %% [markdown]
# With two ranks and two micro-batches or more, 1F1B would hang, and GPipe
# would run. The worker begins its sends with `isend`, which returns at once,
# and holds each tensor until it has arrived.
#
# ## More stages than ranks
#
# The bubble is long because stages are long: rank 3 waits until a micro-batch
# has passed three of them. So cut the model into shorter stages, and give
# every rank several. Of 8 stages, rank 0 of 4 has 0 and 4, rank 1 has 1 and 5,
# and so on. This is the **interleaved** schedule
# (https://arxiv.org/abs/2104.04473). With v stages on each rank, a stage is v
# times shorter, and so is the bubble: $(N-1)/(vM)$.
#
# The price is more messages. A rank between two others sends 2vM instead of
# 2M; the first and the last rank send (2v − 1)M instead of M. And with many
# micro-batches, ranks keep more activations than in 1F1B.

# %%
learn.table(*view.interleaved(ranks, micro_batches))

# %% [markdown]
# ## A backward is two computations
#
# For a linear layer $y = xW^T$, backward computes the gradient of the *input*,
# $\partial x = \partial y \, W$, and that of the *weights*,
# $\partial W = \partial y^T x$. Neither needs the other:

# %%
import torch

x = torch.randn(3, 4, requires_grad=True)
W = torch.randn(2, 4, requires_grad=True)
y = x @ W.T
dy = torch.ones_like(y)
y.backward(dy)
print("input:  ", torch.allclose(x.grad, dy @ W))
print("weights:", torch.allclose(W.grad, dy.T @ x))

# %% [markdown]
# The rank before waits only for the gradient of the input. The gradient of the
# weights is not needed until the optimizer's step. So a schedule may split
# `p.Backward(m, s)` into `p.BackwardInput(m, s)` and `p.BackwardWeight(m, s)`,
# and put weight gradients where a rank would be idle. This is the idea of
# **zero bubble** schedules (https://arxiv.org/abs/2401.10241).
#
# A stage has several layers, here a linear one and a tanh. `BackwardInput`
# goes back through all of them and gives each its ∂y. So it has to run before
# `BackwardWeight` of the same micro-batch, on rank 0 too. A rank keeps the
# activations of a micro-batch until `BackwardWeight` has run.
#
# ## Exercise 3: beat 1F1B
#
# ●●● *20 minutes, stretch.* Write a schedule whose bubble is at most *half* of
# that of 1F1B, in which no rank keeps more than N micro-batches at a time. A
# forward, an input gradient and a weight gradient take one unit each. The
# number of micro-batches may be anything from 2N on.


# %% tags=["exercise", "stretch"]
def my_schedule(rank, ranks, micro_batches):
    """Forward, BackwardInput and BackwardWeight of all micro-batches."""
    ### BEGIN SOLUTION
    warm_up = min(ranks - 1 - rank, micro_batches)
    lines = [p.Forward(m, rank) for m in range(warm_up)]
    for m in range(micro_batches + rank):
        if m + warm_up < micro_batches:
            lines.append(p.Forward(m + warm_up, rank))
        if m < micro_batches:
            lines.append(p.BackwardInput(m, rank))
        if m >= rank:
            lines.append(p.BackwardWeight(m - rank, rank))
    return lines
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("my_schedule", my_schedule)

# %%
own = p.for_all_ranks(learn.given("my_schedule"), ranks, micro_batches)
pair = {"1F1B": mine, "my schedule": own}
read = {name: p.follow(p.with_messages(pair[name])) for name in pair}
view.draw_schedules(read)

# %%
learn.table(*view.idle_and_kept(pair))

# %% [markdown]
# Now on real ranks. The worker computes weight gradients where your list has
# them:

# %%
found |= pipeline_runs.run({"my schedule": own}, sleep)
assert pipeline_runs.worst(found) < 1e-11
view.draw_measured({name: found[name] for name in pair})

# %%
learn.table(*view.read_and_measured(pair, found, sleep))

# %% [markdown]
# The course's own is ZB-H1 of the paper (`zero_bubble_h1`, beside the worker).
# It has a third of 1F1B's bubble and keeps at most N micro-batches. With about
# twice the memory, the paper's ZB-H2 has almost no bubble left.
#
# Here are the schedules of this lesson for other numbers. F, B and W are the
# times of a forward, an input gradient and a weight gradient.

# %%
learn.what_if("bubble")

# %% [markdown]
# ## Quiz

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## Take-away
#
# - A schedule is a list of instructions for each rank. Bubble, memory and
#   messages can be read off it before anything runs.
# - GPipe and 1F1B have the same bubble, $(N-1)/M$ of the computing time, if
#   messages take no time. Slow messages delay 1F1B more. 1F1B keeps at most
#   N − r micro-batches on rank r, and GPipe all M.
# - Interleaving with v stages on a rank divides the bubble by v. The price is
#   more messages, and more activations than in 1F1B.
# - Only the input gradient is urgent. Weight gradients can fill idle time.
# - In any order, the gradients are those of one process. If they are not, the
#   schedule or the worker is wrong, or a layer depends on how the batch is
#   cut, as batch norm does.

# %%
learn.take_away()
