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
# A model of 4 layers is too large for one GPU, so each of 4 ranks holds one
# layer. Rank 1 needs the output of rank 0, rank 2 that of rank 1, and the
# gradients come back in the other direction. So while one rank computes, the
# other three wait. **How do four ranks that depend on each other work at the
# same time?**
#
# This is **pipeline parallelism**. A rank's part of the model is a **stage**.
# The batch is cut into **micro-batches**, so that rank 0 can begin the next
# one while rank 1 computes the first. Which rank computes what, and when, is
# the **schedule**. In this lesson you read schedules, write the one that most
# libraries use, and then write a better one. Exercises 1 and 2 are the core
# and take less than an hour with the reading; 3 is *stretch*.

# %%
from dtlib import learn

learn.start("12")

# %%
from lesson.pictures import draw_question

draw_question()

# %% [markdown]
# `ranks` processes train a small network in `micro_batches` micro-batches, all
# on the CPU. Stages **sleep** for `sleep` seconds in each forward, and twice
# as long in each backward. A sleeping process needs no core, so ranks wait for
# each other as they would on `ranks` GPUs, even if your laptop has two cores.

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
# needs. `p.Backward(m, s)` computes gradients and frees what was kept. Here
# stage s is on rank s. Two ranks and two micro-batches, by hand, in the order
# of **GPipe** (https://arxiv.org/abs/1811.06965):

# %%
from dtlib.scratch import pipeline as p

by_hand = [
    [p.Forward(0, 0), p.Forward(1, 0), p.Backward(1, 0), p.Backward(0, 0)],
    [p.Forward(0, 1), p.Forward(1, 1), p.Backward(1, 1), p.Backward(0, 1)],
]

# %% [markdown]
# Who sends what to whom follows from the lists: rank 1 needs the output of
# rank 0, an **activation**, and rank 0 needs the gradient of that output.
# `p.with_messages` writes down these sends and receives.

# %%
for rank, lines in enumerate(p.with_messages(by_hand)):
    print(f"rank {rank}:", *lines, sep="\n    ")

# %% [markdown]
# `p.follow` carries out such lists on paper, without any process. By default a
# forward takes 1 unit of time, a backward 2, and a message none. A list that
# no rank could carry out is refused. Each `Span` that it returns says when a
# line of a rank runs.

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
# computation the rank, its start and its end. The step starts at 0 and ends
# when the last rank has finished. Return the idle time of *all* ranks, divided
# by the time in which they compute.


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
# with N ranks and M micro-batches (k in other lessons) the bubble is $(N-1)/M$
# of the computing time. GPipe's paper writes $(N-1)/(M+N-1)$, because it
# divides by the whole time.

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
# More micro-batches make the bubble smaller. But look at what a rank
# **keeps**: after the last forward it has the activations of the whole batch.
# Smaller micro-batches don't change that, and more of the same size need more
# memory. (GPipe's authors therefore recompute activations.)
#
# ## One forward, one backward
#
# A backward frees what its forward kept, so run each backward as early as you
# can. The last rank can run the backward of a micro-batch right after its
# forward. Until micro-batch 0 has reached the last rank, the ranks before it
# run forwards only, their *warm-up*. From then on every rank alternates, one
# forward and one backward, and at the end the backwards of the warm-up are
# left. Between its first forward and backward a rank still waits until the
# gradient has come back: more forwards there would only be kept longer.
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
# a rank keeps at most N − r micro-batches, however many there are, instead of
# M. So you can afford more of them, and *they* shrink the bubble: in a larger
# batch, or cut smaller from the same one, which even saves more memory.
#
# All this holds while messages take no time. Now let each take so many units:

# %%
learn.table(*view.with_slow_messages(both))

# %% [markdown]
# In GPipe only the first micro-batch and the last gradient wait for messages.
# In 1F1B a rank needs a gradient before each next forward, so slow messages
# delay it again and again. Between two nodes that can be seen.
#
# ## On real ranks
#
# `pipeline_runs` (beside this lesson) gives your lists to a *worker*: a
# process on each rank that carries out its list line by line, with real
# messages. (It is `Pipeline` in `dtlib/scratch/pipeline`.) First the proof: it
# trains the network in float64 for three steps, and beside it a twin on the
# whole batch, as one process would. Then it takes one step with stages that
# sleep, and notes when each computation ran.

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
# showed. On paper, with sends that wait (`blocking`):

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
# With two micro-batches or more, 1F1B would hang, and GPipe would run. The
# worker begins its sends with `isend`, which returns at once, and holds each
# tensor until it has arrived.
#
# ## More stages than ranks
#
# The bubble comes from the stages being long: rank 3 waits until a micro-batch
# has passed three of them. Cut the model into more stages than ranks and give
# every rank several: with two, rank 0 has stages 0 and 4, rank 1 has 1 and 5,
# and so on. This is the **interleaved** schedule
# (https://arxiv.org/abs/2104.04473). With v stages on a rank each is v times
# shorter, and so is the bubble: $(N-1)/(vM)$. The price: a rank between two
# others sends v times as many messages, the first and the last rank even more,
# and ranks keep more activations than in 1F1B.

# %%
learn.table(*view.interleaved(ranks, micro_batches))

# %%
learn.what_if("bubble")

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
# The rank before waits for the first one only. For the second one nobody waits
# until the optimizer's step. So a schedule may split `p.Backward(m, s)` into
# `p.BackwardInput(m, s)` and, any time later, `p.BackwardWeight(m, s)`, and
# put weight gradients where a rank would be idle. This is the idea of **zero
# bubble** schedules (https://arxiv.org/abs/2401.10241). A rank keeps the
# activations of a micro-batch until its weight gradient is computed.
#
# ## Exercise 3: beat 1F1B
#
# ●●● *20 minutes, stretch.* Write a schedule whose bubble is at most *half* of
# that of 1F1B, in which no rank keeps more than N micro-batches at a time. A
# forward, an input gradient and a weight gradient take one unit each. There
# are at least twice as many micro-batches as ranks.


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
# And on real ranks, where the worker computes weight gradients when your list
# says so:

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
# ## Quiz

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## Take-away
#
# - A schedule is a list of instructions for each rank. Bubble, memory and
#   messages can be read off it before anything runs.
# - GPipe and 1F1B have the same bubble, $(N-1)/M$ of the computing time, while
#   messages take no time; slow messages delay 1F1B more. 1F1B keeps at most
#   N − r micro-batches on rank r instead of M.
# - Interleaving divides the bubble by v. A rank between two others then sends
#   v times as many messages, the first and the last rank even more.
# - Only the input gradient is urgent. Weight gradients fill idle time.
# - Whatever the order, the gradients are those of one process, unless a layer
#   depends on how the batch is cut, as batch norm does. Otherwise, if they are
#   not, the schedule or the worker is wrong.

# %%
learn.take_away()
