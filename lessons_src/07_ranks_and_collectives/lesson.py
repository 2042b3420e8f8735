# %% [raw]
# ---
# number: "07"
# title: Ranks and collectives
# does: build a ring all-reduce from messages, and say when it beats a tree
# objectives:
#   - choose a collective and say what every rank holds after it
#   - build a ring all-reduce out of messages and prove it right
#   - say from latency and bandwidth when a ring beats a tree
# minutes: {read: 18, exercises: 61}
# needs: [laptop]
# builds_on: ["00"]
# ---

# %% [markdown]
# Sixty-four GPUs train one model, and each belongs to one rank. After each
# step every rank holds a gradient of 400 MB, and all need the mean of the 64:
# the sum, divided by 64. If one rank collected them it would receive 63 × 400
# MB = 25.2 GB, and the other 63 would wait. **How little can each rank send,
# so that all of them end with the sum?**
#
# You measure the answer, build the algorithm that reaches it, and find out
# when another one is better. The core is exercises 1 and 3; with the reading
# it takes an hour. Exercises 2 and 4 are *stretch*: no later lesson needs
# them.

# %%
from dtlib import learn

learn.start("07")

# %%
from lesson.boards import draw_question

draw_question()

# %% [markdown]
# The numbers of this lesson: `ranks` processes measure, with messages of up
# to `largest` bytes. Make both larger on a larger machine.

# %% tags=["parameters"]
ranks = 4
largest = 4_000_000
repeats = 10

# %% [markdown]
# ## Your predictions
#
# Commit to both before you go on; a third question follows later. An
# **all-reduce** leaves the sum over all ranks on every rank. $S$ is the size
# of the tensor in bytes.

# %%
learn.predict("sent_per_rank")

# %%
learn.predict("who_wins")

# %% [markdown]
# ## Who am I?
#
# Whatever starts the processes (torchrun, or this notebook) sets environment
# variables that tell each process who it is. **RANK** numbers the processes
# of all machines, and **WORLD_SIZE** is how many there are. **LOCAL_RANK**
# numbers those of one machine, a **node**, and picks the GPU. On two nodes
# with two GPUs each, rank 2 has local rank 0. This notebook runs on one
# machine, so the two numbers agree.
#
# Two libraries carry the messages: **NCCL** between NVIDIA GPUs, and
# **gloo** between processes on CPUs, which is what runs here.

# %%
# %%ranks 4
import os

for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
    print(name, os.environ[name])

# %% [markdown]
# ## Five ways to share one number
#
# In a **collective** all ranks make the same call, and a rank that needs what
# another one brings waits for it. *broadcast* copies rank 0's number to all
# ranks, and *reduce* leaves the sum on rank 0; *gather* collects all numbers
# on rank 0. With *all_* in front, every rank gets the result. As in lesson 00
# our numbers are **painted**: rank $r$ brings $10^r$, so you can see in a sum
# who is in it. 111 is everybody once. Each call below starts afresh. Where a
# collective has one giver or taker, it is rank 0.
#
# The calls write into the tensors they are given and return nothing:
# `dist.all_reduce(x)` leaves the sum in `x` itself, and
# `x = dist.all_reduce(x)` would throw it away.

# %%
import torch
import torch.distributed as dist


def one_number_each():
    rank, n = dist.get_rank(), dist.get_world_size()
    mine = torch.tensor([10**rank])
    spread, reduced, summed = mine.clone(), mine.clone(), mine.clone()
    dist.broadcast(spread, src=0)
    dist.reduce(reduced, dst=0)
    dist.all_reduce(summed)
    at_0, everywhere = (list(torch.zeros(n, 1).long()) for _ in range(2))
    dist.gather(mine, at_0 if rank == 0 else None, dst=0)
    dist.all_gather(everywhere, mine)
    after = [mine, spread, reduced, summed]
    after += [torch.cat(at_0), torch.cat(everywhere)]
    return [tensor.tolist() for tensor in after]


# %% [markdown]
# `dtlib.launch` calls a function on every rank, as `%%ranks` does, and hands
# you a list of what they returned.

# %%
import dtlib

names = "before broadcast reduce all_reduce gather all_gather".split()
after = dtlib.launch(one_number_each, ranks=3)
shared = dict(zip(names, zip(*after)))
learn.table(
    list(zip(names, *after)),
    ["", "rank 0", "rank 1", "rank 2"],
    "One number on each of three ranks",
)

# %% [markdown]
# Look at `reduce`: rank 0 has 111. The others hold whatever the algorithm
# left behind, which is *not* the sum. The zeros after `gather` are memory
# that nothing was written to.
#
# ## Three ways to share a list
#
# Now each rank brings one number *for each rank*: rank 0 has 1 2 3, rank 1 has
# 10 20 30, rank 2 has 100 200 300. *scatter* hands out rank 0's list, one
# number to each rank; the other lists are not used.

# %%
from dtlib.ranks.dist import reduce_scatter_sum


def one_number_for_each():
    rank, n = dist.get_rank(), dist.get_world_size()
    mine = torch.arange(1, n + 1) * 10**rank
    handed_out, summed = torch.zeros(1).long(), torch.zeros(1).long()
    swapped = torch.zeros(n).long()
    pieces = list(mine.split(1)) if rank == 0 else None
    dist.scatter(handed_out, pieces, src=0)
    reduce_scatter_sum(summed, mine)
    dist.all_to_all_single(swapped, mine)
    after = [mine, handed_out, summed, swapped]
    return [tensor.tolist() for tensor in after]


names = "before scatter reduce_scatter all_to_all".split()
after = dtlib.launch(one_number_for_each, ranks=3)
learn.table(
    list(zip(names, *after)),
    ["", "rank 0", "rank 1", "rank 2"],
    "One number for each of three ranks",
)

# %%
from lesson.boards import draw_collectives

shared |= dict(zip(["before, a list", *names[1:]], zip(*after)))
draw_collectives(shared)

# %% [markdown]
# `all_to_all` transposes the table. `reduce_scatter` sums it and leaves each
# rank **one piece of the sum**; an `all_gather` then gives all pieces to
# every rank. Remember that pair: a reduce-scatter and then an all-gather is
# an all-reduce.
#
# ## Worked example: a mean
#
# With one number on each rank the mean is the sum over the world size.

# %%
# %%ranks 3
x = torch.tensor(float([3, 6, 9][rank]))
dist.all_reduce(x)
print(x.item() / world_size)

# %% [markdown]
# ## Exercise 1: a mean over uneven ranks
#
# ●○○ *8 minutes.* Now rank 0 has no values, rank 1 has [1, 3] and rank 2 has
# [5, 7, 9, 11]. The mean of all six values is 6, and every rank needs it.
# You meet this with texts: shorter ones get **padding**, tokens that only
# fill up the batch and do not count in the loss, so ranks average over
# different numbers of tokens. Write the missing lines. If you get stuck:
# `learn.hint("global_mean")`.


# %% tags=["exercise"]
def global_mean(values):
    """The mean over the values of all ranks, on every rank.

    `values` is a 1-D float tensor; it may be empty on some ranks.
    """
    ### BEGIN SOLUTION
    sum_and_count = torch.tensor([values.sum(), float(len(values))])
    dist.all_reduce(sum_and_count)
    total, count = sum_and_count.tolist()
    ### END SOLUTION
    return total / count


# %% tags=["check"]
learn.check("global_mean", global_mean)

# %% [markdown]
# ## Beneath the collectives: messages
#
# A collective is made of messages from one rank to another. In this worked
# example rank 0 sends, and rank 1 receives into a tensor that it has
# allocated. gloo's `send` returns only when the other rank receives; `isend`
# just *starts* the message, and you must not touch the tensor until its
# `wait()` has returned.

# %%
# %%ranks 2
x = torch.tensor([10.0**rank])
if rank == 0:
    sending = dist.isend(x, 1)
    sending.wait()
else:
    arrived = torch.empty_like(x)
    dist.recv(arrived, 0)
    print("received", arrived.item())

# %% [markdown]
# ## Exercise 2: pass to the right
#
# ●●○ *10 minutes, stretch.* Put the ranks on a ring: to the right of rank
# $r$ is $r+1$, and to the right of the last is rank 0. All at the same time,
# every rank sends its tensor to the right and returns the one that came from
# the left. It must work for one rank, too.


# %% tags=["exercise", "stretch"]
def pass_right(x):
    """The left neighbour's `x`: a tensor of the same shape and dtype."""
    rank, n = dist.get_rank(), dist.get_world_size()
    ### BEGIN SOLUTION
    if n == 1:
        return x.clone()
    arrived = torch.empty_like(x)
    sending = dist.isend(x, (rank + 1) % n)
    dist.recv(arrived, (rank - 1) % n)
    sending.wait()
    return arrived
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("pass_right", pass_right)

# %% [markdown]
# ## The ring
#
# Cut the tensor into $N$ **chunks**, one for each rank. In step 0 each rank
# sends the chunk of its own number to the right. What arrives from the left is
# a chunk, too, and the rank adds it to its own chunk of the same number, which
# then holds the sum of both. Here is step 0 for $N = 3$:
#
# | | sends chunk | receives chunk | its own chunk of that number then holds |
# | --- | --- | --- | --- |
# | rank 0 | 0 | 2 | 101 |
# | rank 1 | 1 | 0 | 11 |
# | rank 2 | 2 | 1 | 110 |
#
# Write step 1 on paper: each rank now sends on *the chunk that it has just
# added to*. After that step rank 0 has finished chunk 1, rank 1 chunk 2, and
# rank 2 chunk 0. The $N-1$ steps, counted from 0 as in the code below, are a
# reduce-scatter in which rank $r$ ends with chunk $(r+1) \bmod N$.
#
# `exchange(out, into)` is the pass to the right of exercise 2, with both
# tensors handed in:

# %%
import inspect

from dtlib.scratch.ring import exchange

print(inspect.getsource(exchange))

# %% [markdown]
# ## Exercise 3, first half: the sums travel
#
# ●●● *25 minutes.* Three lines are missing. The first cuts `x` into $n$
# chunks, which are views of `x` (with fewer elements than ranks some are
# empty). The second says which chunk leaves and which one arrives in step `s`;
# the table above is `s = 0`. The third says what becomes of the chunk that
# arrived. Write it with `exchange`: the check refuses collectives such as
# `all_reduce`.


# %% tags=["exercise"]
def ring_reduce_scatter(x):
    """Sum 1-D `x` in place; rank r ends with finished chunk (r + 1) % n."""
    rank, n = dist.get_rank(), dist.get_world_size()
    # 1. Cut x into `chunks`.
    ### BEGIN SOLUTION
    chunks = x.tensor_split(n)
    ### END SOLUTION
    for s in range(n - 1):
        # 2. The numbers of two chunks: `out` leaves, `into` is added to.
        ### BEGIN SOLUTION
        out, into = (rank - s) % n, (rank - s - 1) % n
        ### END SOLUTION
        arrived = torch.empty_like(chunks[into])
        exchange(chunks[out], arrived)
        # 3. What becomes of `arrived`?
        ### BEGIN SOLUTION
        chunks[into].add_(arrived)
        ### END SOLUTION
    return x


# %% tags=["check"]
learn.check("ring_reduce_scatter", ring_reduce_scatter)

# %% [markdown]
# ## Exercise 3, second half: the sums spread
#
# ●●● *8 minutes.* Every chunk is finished on one rank. Send it round once
# more, so that all ranks have it. Write the whole function. Your first half
# is there as `first_half` (ours, if yours has not passed); cut `x` as it
# does.

# %%
first_half = learn.given("ring_reduce_scatter")


# %% tags=["exercise"]
def ring_all_reduce(x):
    """Sum 1-D `x` over all ranks, with messages to the right only."""
    ### BEGIN SOLUTION
    first_half(x)
    rank, n = dist.get_rank(), dist.get_world_size()
    chunks = x.tensor_split(n)
    for s in range(n - 1):
        out, into = (rank + 1 - s) % n, (rank - s) % n
        arrived = torch.empty_like(chunks[into])
        exchange(chunks[out], arrived)
        chunks[into].copy_(arrived)
    return x
    ### END SOLUTION


# %% tags=["check"]
learn.check("ring_all_reduce", ring_all_reduce)

# %% [markdown]
# ## Watch it
#
# This runs the ring on three ranks, with one painted number per chunk, and
# each picture shows what the ranks hold after a step: a row is a rank, a
# column is a chunk. Follow chunk 0 from rank to rank. A finished sum is
# filled. (The ring of lesson 16 needs chunk $r$ on rank $r$. There, each rank
# begins with chunk $r-1$ instead of $r$.)

# %%
from lesson.pictures import draw_ring, step_ring, trace_ring

ring = learn.given("ring_all_reduce")
trace = trace_ring(ring, ranks=3)
draw_ring(trace)

# %%
step_ring(trace)

# %%
learn.table(trace.rows(), trace.columns(), "The same steps as numbers")

# %% [markdown]
# ## What it sends
#
# In each half a rank sends $N-1$ chunks of $S/N$ bytes, so in all
#
# $$\frac{2(N-1)}{N}\,S \;<\; 2S$$
#
# **whatever the number of ranks.** Patarasuk and Yuan (2009) show that as
# long as the ranks do the adding, no algorithm lets the busiest rank send
# less. (A switch that adds can: with NVLink SHARP each GPU sends its $S$ bytes
# once, and the switch sends the sum back.) A log of all messages shows
# whether your ring keeps to the formula.

# %%
from dtlib.learn.wire import WireLog


def share_sent(ring, elements):
    x = torch.ones(elements)
    with WireLog() as log:
        ring(x)
    return log.bytes_sent / (4 * elements)


counted = {
    n: dtlib.launch(share_sent, ring, 1000 * n, ranks=n)[0]
    for n in sorted({2, 3, ranks})
}
learn.table(
    [[n, sent, 2 * (n - 1) / n, n - 1] for n, sent in counted.items()],
    ["ranks", "sent by rank 0, in S", "2(N-1)/N", "everyone to everyone"],
    "Bytes on the wire, counted",
)

# %%
learn.measured("sent_per_rank", counted[ranks], "S")
assert abs(counted[ranks] - 2 * (ranks - 1) / ranks) < 1e-9

# %% [markdown]
# ## The same bits everywhere
#
# A floating-point sum depends on the order of its terms. In the ring each
# chunk is summed once and then copied, so all ranks end with **identical
# bits**. Compare it with a function that passes whole tensors round, where
# each rank adds in an order of its own, and with torch's all_reduce.


# %%
def whole_tensors(x):
    passing = x.clone()
    for _ in range(dist.get_world_size() - 1):
        arrived = torch.empty_like(passing)
        exchange(passing, arrived)
        x += arrived
        passing = arrived


def sum_with(function):
    torch.manual_seed(dist.get_rank())
    x = torch.randn(10_001)
    result = function(x)
    return x if result is None else result


# %%
torchs = dtlib.launch(sum_with, dist.all_reduce, ranks=ranks)
rows = []
for name, function in (("ring", ring), ("whole tensors", whole_tensors)):
    sums = dtlib.launch(sum_with, function, ranks=ranks)
    different = len({x.numpy().tobytes() for x in sums})
    rows.append([name, different, float((sums[0] - torchs[0]).abs().max())])
learn.table(
    rows,
    ["", "different results on the ranks", "distance from dist.all_reduce"],
)

# %% [markdown]
# The ring gives one result on all ranks, and the other function several that
# differ in their last bits: with it, the ranks' copies of a model would drift
# apart, step by step. Both differ from torch's all_reduce by rounding at most,
# since it may add in another order. **Your ring is an all-reduce.**

# %%
assert rows[0][1] == 1
# 2 (N - 1) additions, each off by at most 2^-24 of a sum below 5 N
assert rows[0][2] < 2 * (ranks - 1) * 2**-24 * 5 * ranks

# %% [markdown]
# ## What a message costs
#
# A message of $S$ bytes takes about $\alpha + S\beta$ seconds: a **latency**
# that every message pays, and a time per byte. How slow is the smallest
# message between two processes of your machine?

# %%
learn.predict("alpha")

# %% [markdown]
# To measure it, two ranks play ping-pong. Half of a round trip is one
# message. We take the best of several tries, the one that other programs
# disturbed least.

# %%
from lesson.ping_pong import ping_pong

sizes = [4 * 4**k for k in range(20) if 4 * 4**k < largest] + [largest]
seconds = dtlib.launch(ping_pong, sizes, repeats, ranks=2)[0]

# %% [markdown]
# Now find the straight line α + Sβ that is closest to these times. It
# minimizes the *relative* errors, so small messages count as much as large
# ones.

# %%
from lesson import what_if as collectives
from lesson.boards import draw_messages

alpha, beta = collectives.fit_line(sizes, seconds)
line = [(alpha + size * beta) * 1e6 for size in sizes]
draw_messages(sizes, [s * 1e6 for s in seconds], line)

# %%
learn.table(
    [[s, t * 1e6, fit] for s, t, fit in zip(sizes, seconds, line)],
    ["S, bytes", "measured, µs", "α + Sβ, µs"],
    f"α = {alpha * 1e6:.1f} µs, 1/β = {1e-9 / beta:.2f} GB/s",
)

# %%
learn.measured("alpha", alpha * 1e6, "µs")
learn.my_run("bandwidth of one message, 1/β", 1e-9 / beta, "GB/s")

# %% [markdown]
# ## Worked example: the star
#
# Rank 0 receives $N-1$ tensors one after the other and sends the sum back
# $N-1$ times. All others wait for rank 0, so its time is the answer:


# %%
def star_time(S, N, alpha, beta):
    return 2 * (N - 1) * (alpha + S * beta)


seconds_of_star = star_time(400e6, 64, 10e-6, 1e-10)
print(f"400 MB on 64 ranks: {seconds_of_star:.2f} s (simulated)")

# %% [markdown]
# ## Exercise 4: ring or tree?
#
# ●●○ *10 minutes, stretch.* In a **binomial tree**, ranks add up in pairs.
# With 4 ranks, ranks 1 and 3 send to 0 and 2 in the first round and are done;
# in the second round, rank 2 sends to 0, which now has the sum. Then the same
# rounds run backwards and spread it. In every round, half of the ranks that
# are not done send to the other half. Every message carries the whole tensor,
# and the messages of a round travel at the same time. When $N$ is not a power
# of two, a round in which only some ranks send takes as long as a full one.
# Write the time of both algorithms, as a stopwatch on one rank would show it.


# %% tags=["exercise", "stretch"]
def ring_time(S, N, alpha, beta):
    """Seconds of a ring all-reduce of S bytes on N ranks."""
    ### BEGIN SOLUTION
    return 2 * (N - 1) * (alpha + S / N * beta)
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("ring_time", ring_time)

# %% tags=["exercise", "stretch"]
import math


def tree_time(S, N, alpha, beta):
    """Seconds of a binomial reduce and then a broadcast."""
    ### BEGIN SOLUTION
    return 2 * math.ceil(math.log2(N)) * (alpha + S * beta)
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("tree_time", tree_time)

# %% [markdown]
# ## Which is faster?
#
# Take 64 ranks, α = 10 µs and 10 GB/s, and compare a small tensor of 4 kB with
# a gradient of 400 MB. These numbers come from the model: nothing here ran on
# 64 ranks.

# %%
ring_s, tree_s = learn.given("ring_time"), learn.given("tree_time")
rows = []
for name, S in (("4 kB", 4e3), ("400 MB", 400e6)):
    times = [f(S, 64, 10e-6, 1e-10) * 1e3 for f in (ring_s, tree_s)]
    rows.append([name, *times, "ring" if times[0] < times[1] else "tree"])
columns = ["S", "ring, ms", "tree, ms", "faster"]
learn.table(rows, columns, "Simulated, N = 64")

# %%
learn.measured("who_wins", " and ".join(f"{r[3]} for {r[0]}" for r in rows))
edge = collectives.crossover(64, 10e-6, 1e-10)
print(f"From {edge / 1e6:.2f} MB on the ring wins (simulated).")

# %% [markdown]
# The ring pays the latency $2(N-1)$ times and sends little; the tree pays it
# only $2\lceil\log_2 N\rceil$ times and sends the whole tensor in each round.
# Move the sliders: when does the number of ranks stop mattering?

# %%
learn.what_if("ring_or_tree")

# %% [markdown]
# ## Is that all there is?
#
# No. **Recursive halving and doubling** has few steps *and* few bytes. Two
# partners divide the work: each keeps one half of the tensor, gets the
# partner's numbers for that half, and adds them. With 4 ranks, rank 0 and rank
# 2 do that first, and rank 0 keeps the left half. Then rank 0 and rank 1
# divide this half in the same way, and rank 0 has the finished sum of a
# quarter. The same steps backwards bring the other quarters. We run it and
# count:

# %%
from lesson.halving import halving_doubling


def counted_messages(function):
    x = torch.full((8,), 10.0 ** dist.get_rank())
    with WireLog() as log:
        function(x)
    return len(log.sent), log.bytes_sent / 32, x[0].item()


rows = []
for name, function in (("ring", ring), ("halving", halving_doubling)):
    seen = dtlib.launch(counted_messages, function, ranks=4)
    rows.append([name, *seen[0]])
learn.table(
    rows,
    ["", "messages", "bytes, in S", "the sum"],
    "What rank 0 of 4 sends, counted",
)

# %%
assert rows[1][1:] == [2 * math.log2(4), 2 * 3 / 4, 1111]
halving_time = collectives.halving_doubling_time
for name, S in (("4 kB", 4e3), ("400 MB", 400e6)):
    ms = halving_time(S, 64, 10e-6, 1e-10) * 1e3
    print(f"{name} on 64 ranks: {ms:.3g} ms (simulated)")

# %% [markdown]
# By this model it is never slower than ring or tree. What the model leaves out
# decides in practice: here the first partners are far apart ($N/2$ ranks), so
# that all messages cross the middle of the network at once, and $N$ must be a
# power of two. A ring talks to neighbours only. NCCL's tree is not ours
# either: it sends small pieces one behind the other (**pipelined**) through
# two trees. A rank at the end of a tree, a *leaf*, receives the sum but passes
# nothing on; in the second tree the roles are swapped, so that every link is
# busy and the bandwidth is that of a ring. Which algorithm NCCL takes depends
# on the number of nodes and GPUs, on the size, and on the bandwidths inside
# and between nodes (next section).
#
# ## Inside a node and between nodes
#
# GPUs of one node are joined by NVLink, nodes by InfiniBand or Ethernet. On
# nodes with H100 GPUs each GPU sends 450 GB/s over NVLink, and 50 GB/s over
# an InfiniBand adapter of its own (400 Gbit/s). So it pays to sum in two
# levels: reduce-scatter inside each node, all-reduce each piece between
# nodes, and all-gather inside.

# %%
from lesson.boards import draw_node

draw_node()

# %% [markdown]
# A **process group** is a set of ranks with collectives of its own. Every
# rank creates all groups, in the same order, also those that it is not in.
# Four ranks stand for two nodes with two GPUs each:


# %%
def in_two_levels():
    rank = dist.get_rank()
    nodes = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    across = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    node, same_place = nodes[rank // 2], across[rank % 2]
    x, piece = torch.full((2,), 10.0**rank), torch.zeros(1)
    after = [x.tolist()]
    reduce_scatter_sum(piece, x, group=node)
    after.append(piece.tolist())
    dist.all_reduce(piece, group=same_place)
    after.append(piece.tolist())
    pieces = list(x.split(1))
    dist.all_gather(pieces, piece, group=node)
    return [*after, x.tolist()]


stages = ["rank", "before", "summed in the node", "summed across", "gathered"]
after = dtlib.launch(in_two_levels, ranks=4)
assert all(seen[-1] == [1111, 1111] for seen in after)
learn.table(
    [[rank, *seen] for rank, seen in enumerate(after)],
    stages,
    "An all-reduce in two levels: ranks 0 and 1 are one node, 2 and 3 another",
)

# %% [markdown]
# Only `summed across` uses the slow network. There each of the two ranks of a
# node sends just its half, through its own adapter; on a node with eight GPUs
# each sends an eighth. (NCCL reaches the same with several rings, each through
# another adapter.) The time, from bandwidths alone (simulated):

# %%
nvlink, infiniband = 1 / 450e9, 1 / 50e9
flat = ring_s(400e6, 64, 0, infiniband) * 1e3
levels = collectives.two_level_time(400e6, 8, 8, nvlink, infiniband) * 1e3
print(f"400 MB on 8 nodes with 8 GPUs: one ring {flat:.1f} ms,")
print(f"two levels {levels:.1f} ms (simulated)")

# %% [markdown]
# ## Does the model hold here?
#
# Let the ring run for real, beside the model with the α and β that you
# measured. And time a single step of it: one exchange of a chunk, while all
# ranks exchange at once.

# %% tags=["stretch"]
import time


def best_time(function, elements):
    best = float("inf")
    for _ in range(5):
        x = torch.ones(elements)
        dist.barrier()
        start = time.perf_counter()
        function(x)
        best = min(best, time.perf_counter() - start)
    return best


def one_exchange(chunk):
    exchange(chunk, torch.empty_like(chunk))


rows, bandwidths = [], []
for n in sorted({2, ranks}):
    real = max(dtlib.launch(best_time, ring, largest // 4, ranks=n))
    chunk = largest // 4 // n
    step = max(dtlib.launch(best_time, one_exchange, chunk, ranks=n))
    model = ring_s(largest, n, alpha, beta)
    rows.append([n, real * 1e3, 2 * (n - 1) * step * 1e3, model * 1e3])
    algbw = largest / real / 1e9
    bandwidths.append([n, algbw, 2 * (n - 1) / n * algbw, 1e-9 / beta])
    learn.my_run(f"ring all-reduce on {n} ranks", real * 1e3, "ms")
learn.table(
    rows,
    ["ranks", "measured, ms", "2(N-1) exchanges, ms", "α–β model, ms"],
    f"A ring all-reduce of {largest:,} bytes on this machine",
)

# %% [markdown]
# On a laptop the model can be too low by a factor of six to ten. α and β came
# from two ranks that took turns: one message at a time, on cores that did
# nothing else. In the ring all ranks send and receive at once, and share the
# cores that carry the bytes. The third column times such exchanges, and it is
# much nearer to the measured time than the fourth. What it leaves out is the
# additions, new memory for each message, and waiting for the slowest rank. So
# measure α and β **under the load you will use them for**. The model still
# tells you how the time grows with $S$ and $N$; it cannot know how your ranks
# share a machine.
#
# Reports on clusters give two bandwidths. **algbw** is $S$ over the time.
# **busbw** is algbw times $2(N-1)/N$: the bytes that a rank really sends,
# divided by the time. Where every rank has a link of its own, it stays about
# the same when $N$ grows, so it can be compared with the bandwidth of that
# link. On this machine, where ranks share cores, it may fall.

# %% tags=["stretch"]
learn.table(
    bandwidths,
    ["ranks", "algbw, GB/s", "busbw, GB/s", "1/β, GB/s"],
    "The same runs as bandwidths",
)

# %% [markdown]
# ## Quiz

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## Take-away
#
# - All ranks make the same collective call, or everybody waits.
# - An all-reduce is a reduce-scatter and an all-gather. On a ring each rank
#   sends $2(N-1)/N \cdot S$, less than twice its tensor at any $N$.
# - All ranks end with identical bits, because each sum is made once.
# - Small messages cost latency and large ones bandwidth. Few steps help the
#   first, few bytes the second, and the wires between the ranks decide which
#   algorithm gets both.
#
# This is how a model's gradient travels. Look back at your predictions here:

# %%
learn.take_away()
