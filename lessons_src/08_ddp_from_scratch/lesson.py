# %% [raw]
# ---
# number: "08"
# title: Data parallel from scratch
# does: >-
#   average gradients in four ways, from one message for each to buckets that
#   overlap
# objectives:
#   - make several ranks train exactly what one process trains
#   - cut the gradients into messages, and say what each cut costs
#   - say how much communication hides behind backward, and when none does
# minutes: {read: 25, exercises: 70}
# needs: [laptop]
# builds_on: ["07", "02"]
# ---

# %% [markdown]
# Two ranks train one model, and each computes the gradients of its half of
# the batch. **What has to travel between them so that both end with the
# weights that one process would have, and how little can it cost?**
#
# There are four answers: one message for each gradient, one for all of them, a
# few buckets, and buckets that leave while backward runs. You write all of
# them, but of the third only how it cuts the gradients into buckets. The last
# is what PyTorch's DistributedDataParallel (**DDP**) does, which lesson 09
# uses. In this lesson a *message* is one all-reduce of one tensor; on lesson
# 07's ring it is $2(N-1)$ small messages in a row. Exercises 1 to 3 are the
# core; 4 is *stretch*.

# %%
from dtlib import learn

learn.start("08")

# %%
from lesson.pictures import draw_question

draw_question()

# %% [markdown]
# `width` and `layers` belong to the model that is timed near the end. A larger
# one shows the same more clearly, and takes longer.

# %% tags=["parameters"]
width = 256
layers = 8
repeats = 5

# %% [markdown]
# ## Your predictions
#
# Commit all three before you go on.

# %%
learn.predict("messages")

# %%
learn.predict("hidden")

# %%
learn.predict("same_cores")

# %% [markdown]
# ## What the ranks have to agree on
#
# The loss of a batch is the mean over its samples, so its gradient is the
# mean of the samples' gradients. Cut the batch into $N$ equal parts, and the
# gradient is the mean of the parts' gradients $g_r$:
#
# $$g = \frac{1}{N} \sum_{r=0}^{N-1} g_r$$
#
# That holds if the network treats each sample by itself. **Batch norm** does
# not: it normalizes with the mean of the batch it sees, and half a batch has
# another mean. Here is the gradient of a batch of 8, against the mean of the
# gradients of its halves:

# %%
import torch
from torch import nn


def distance(norm):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), norm, nn.Linear(4, 1)).double()
    x = torch.randn(8, 4, dtype=torch.float64)

    def gradient(part):
        net.zero_grad()
        net(part).square().mean().backward()
        return net[0].weight.grad.clone()

    halves = (gradient(x[:4]) + gradient(x[4:])) / 2
    return float((halves - gradient(x)).abs().max())


gaps = {n.__name__: distance(n(4)) for n in (nn.LayerNorm, nn.BatchNorm1d)}
for name, gap in gaps.items():
    print(f"{name}: largest difference {gap:.0e}")
assert gaps["LayerNorm"] < 1e-12 < gaps["BatchNorm1d"]

# %% [markdown]
# So with batch norm $N$ ranks do not train exactly what one process trains.
# `nn.SyncBatchNorm` repairs that: the ranks add up their statistics, so that
# all normalize with those of the whole batch (on GPUs only). Layer norm and
# group norm treat each sample by itself, so they need nothing.
#
# In the next worked example the gradients are **painted**: rank $r$ holds
# $10^r$, so 111 says that each of three ranks is in the sum once. As in
# lesson 07, `all_reduce` writes the sum into its tensor and returns nothing.
# gloo, the library for CPUs, carries the messages here; on NVIDIA GPUs it is
# NCCL.

# %%
# %%ranks 3
import torch
import torch.distributed as dist

gradient = torch.tensor([10.0**rank])
dist.all_reduce(gradient)
print("sum", gradient.item(), "mean", gradient.item() / world_size)

# %% [markdown]
# Equal gradients are not enough. A step changes each rank's own weights by the
# same amount, so ranks that start with different weights keep different ones.
# All ranks need **the same start, and the same gradient in every step.**
#
# ## Exercise 1: train together
#
# ●○○ *10 minutes.* Write the two missing parts. `batches` holds this rank's
# part of each batch; the parts of all ranks are equally large. Each rank's
# model comes with weights of its own, and all must begin with rank 0's.
# `dist.broadcast(tensor, src=0)` writes rank 0's tensor into that of every
# rank. Use it on `p.data`, the bare tensor: **autograd**, the part of PyTorch
# that records operations and computes gradients, does not see what is done to
# it. If you get stuck: `learn.hint("train_together")`.


# %% tags=["exercise"]
import torch.distributed as dist
from torch.nn import functional as F


def train_together(model, optimizer, batches):
    """Train on all ranks as one process would, from rank 0's weights."""
    # 1. The same start.
    ### BEGIN SOLUTION
    for p in model.parameters():
        dist.broadcast(p.data, src=0)
    ### END SOLUTION
    for x, y in batches:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        # 2. The same gradients.
        ### BEGIN SOLUTION
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()
        ### END SOLUTION
        optimizer.step()


# %% tags=["check"]
learn.check("train_together", train_together)

# %% [markdown]
# ## One message
#
# Your loop sends a message for every parameter. By lesson 07 a ring
# all-reduce of $S$ bytes costs $2(N-1)(\alpha + \beta S / N)$. The bytes are
# the same however you cut them, but each message pays the latency α, and pays
# it $2(N-1)$ times. Most tensors are small, so nearly all of the time of their
# messages is latency.
#
# So put all gradients into one **flat buffer**, send it once, and copy the
# averages back. Here is a worked example with two tensors and no ranks: a
# slice of the right length gets its shape back.

# %%
a, b = torch.ones(2, 3), torch.full((2,), 5.0)
flat = torch.cat([a.flatten(), b.flatten()])
flat *= 10
b.copy_(flat[6:8].view(b.shape))
print(flat.tolist())
print(a.tolist(), b.tolist())

# %% [markdown]
# `b` changed and `a` did not: `cat` makes a copy.
#
# ## Exercise 2: flat
#
# ●●○ *10 minutes.* Replace each gradient by its mean over all ranks, with
# one message for each dtype of the parameters (a buffer has one dtype; usually
# all parameters have the same). A rank has no gradient for a parameter that it
# did not use (`p.grad is None`): it counts as zeros, and afterwards this rank
# holds the mean, too.


# %% tags=["exercise"]
def flat_all_reduce(model):
    """Average all gradients over the ranks: one message for each dtype."""
    params = list(model.parameters())
    ### BEGIN SOLUTION
    for p in params:
        if p.grad is None:
            p.grad = torch.zeros_like(p)
    for dtype in sorted({p.dtype for p in params}, key=str):
        grads = [p.grad for p in params if p.dtype == dtype]
        flat = torch.cat([grad.flatten() for grad in grads])
        dist.all_reduce(flat)
        flat /= dist.get_world_size()
        offset = 0
        for grad in grads:
            part = flat[offset : offset + grad.numel()]
            grad.copy_(part.view(grad.shape))
            offset += grad.numel()
    ### END SOLUTION


# %% tags=["check"]
learn.check("flat_all_reduce", flat_all_reduce)

# %% [markdown]
# ## Buckets
#
# One message has a price, too: it can leave only when the *last* gradient is
# there. Backward goes from the last layer to the first, so the last layer's
# gradients are ready early, and could already be on their way. **Buckets**
# are the compromise: a few messages, each so large that α matters little,
# and the first of them full early. DDP's default is 25 MiB, and 1 MiB for the
# first bucket, so that it leaves early
# (https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html).
#
# In which order do gradients arrive? A **hook** is a function that autograd
# calls for you; `register_post_accumulate_grad_hook` has it called as soon
# as a parameter's gradient is in `p.grad`:

# %%
net = torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(3)))
arrived = []
for name, p in net.named_parameters():
    p.register_post_accumulate_grad_hook(
        lambda _, name=name: arrived.append(name)
    )
net(torch.ones(1, 2)).sum().backward()
print(arrived)
layer_order = [int(name[0]) for name in arrived]
assert layer_order == sorted(layer_order, reverse=True)

# %% [markdown]
# ## Exercise 3: cut into buckets
#
# ●●○ *10 minutes.* `params` comes in the order of registration. Go from its
# end to its beginning; a parameter joins the open bucket if it has the
# bucket's dtype and the bucket stays within `cap_bytes`, otherwise it opens
# the next one. Worked example, with a cap of 50 bytes and four parameters of
# one dtype:
#
# | parameter | bytes | room before it | goes to | room after it |
# | --- | --- | --- | --- | --- |
# | `1.bias` | 10 | no bucket yet | bucket 0 | 40 |
# | `1.weight` | 30 | 40 | bucket 0 | 10 |
# | `0.bias` | 10 | 10 | bucket 0 | 0 |
# | `0.weight` | 60 | 0 | bucket 1, alone | none |
#
# `0.weight` is larger than the cap, and still gets a bucket. Write the body,
# and leave the list `params` as it is. A gradient has as many bytes as its
# parameter, and `p.element_size()` says how many bytes one number has.


# %% tags=["exercise"]
def assign_buckets(params, cap_bytes):
    """A list of buckets, each a list of parameters, the last ones first."""
    ### BEGIN SOLUTION
    buckets, room, dtype = [], 0, None
    for p in reversed(params):
        size = p.numel() * p.element_size()
        if not buckets or size > room or p.dtype != dtype:
            buckets.append([])
            room, dtype = cap_bytes, p.dtype
        buckets[-1].append(p)
        room -= size
    return buckets
    ### END SOLUTION


# %% tags=["check"]
learn.check("assign_buckets", assign_buckets)

# %% [markdown]
# ## Communicate while you compute
#
# `dist.all_reduce(x, async_op=True)` only starts a sum and returns a
# **handle** at once. When the handle's `.wait()` has returned, `x` holds the
# sum; until then do not touch `x`. In this worked example with one parameter
# the hook *starts* the sum, and the wait comes after backward.

# %%
# %%ranks 2
w, on_its_way = torch.nn.Parameter(torch.ones(3)), []
w.register_post_accumulate_grad_hook(
    lambda p: on_its_way.append(dist.all_reduce(p.grad, async_op=True))
)
(w.sum() * 10**rank).backward()
on_its_way[0].wait()
print(w.grad.tolist())

# %% [markdown]
# Buckets need one more rule. Collectives are matched by their order alone:
# the first all-reduce that rank 0 starts is added to the first that rank 1
# starts. So all ranks start their buckets **in the same order**, and a bucket
# that is full early waits for its turn.
#
# With accumulation (lesson 02) a step needs the sum over its
# **micro-batches**, and only the backward of the last one has to communicate.
# DDP's `no_sync` is for that. Here `talk()` is true in the last one.
#
# ## Exercise 4: overlap
#
# ●●● *40 minutes, stretch.* Write it in three steps. Given are `home`, the
# number of each parameter's bucket; `missing`, how many gradients each bucket
# still waits for; and `sent`, a list for the buckets that have left.
#
# 1. `hook(p)` runs when the gradient of `p` is there. If `talk()` says so,
#    count it; then pack and start every bucket *whose turn it is* and that
#    is full. `all_reduce(flat)` starts to sum a flat tensor in place and
#    returns a handle. Keep both in `sent`.
# 2. `wait()` runs between the last backward and the optimizer's step. After
#    it every gradient is the mean over the ranks, and `missing` and `sent`
#    are ready for the next step. `unpack(flat, grads)` copies a buffer back
#    into gradients, as you did in exercise 2.
# 3. Put the hook on every parameter.

# %%
from dtlib.scratch.data_parallel import unpack


# %% tags=["exercise", "stretch"]
def overlap(buckets, all_reduce, talk):
    """Send each bucket when it is full, in order; returns `wait`.

    `talk()` is true in the backward of a step's last micro-batch.
    """
    home = {p: k for k, bucket in enumerate(buckets) for p in bucket}
    missing = [len(bucket) for bucket in buckets]
    sent = []

    def hook(p):
        # 1. Count, and start the buckets whose turn it is.
        ### BEGIN SOLUTION
        if not talk():
            return
        missing[home[p]] -= 1
        while len(sent) < len(buckets) and missing[len(sent)] == 0:
            flat = torch.cat([q.grad.flatten() for q in buckets[len(sent)]])
            sent.append((flat, all_reduce(flat)))
        ### END SOLUTION

    def wait():
        # 2. Finish what is on its way, and get ready for the next step.
        ### BEGIN SOLUTION
        for bucket, (flat, work) in zip(buckets, sent):
            work.wait()
            unpack(flat / dist.get_world_size(), [p.grad for p in bucket])
        missing[:] = [len(bucket) for bucket in buckets]
        sent.clear()
        ### END SOLUTION

    # 3. Who calls `hook`?
    ### BEGIN SOLUTION
    for p in home:
        p.register_post_accumulate_grad_hook(hook)
    ### END SOLUTION
    return wait


# %% tags=["check", "stretch"]
learn.check("overlap", overlap)

# %% [markdown]
# ## Four ways, one result
#
# Now all four ways train the same network on three ranks, in fp64: `naive` as
# in exercise 1, `flat` as in exercise 2, `buckets` with the buckets of
# exercise 3, all sent after backward, and `overlap` as in exercise 4. After
# four steps we compare their weights with those of one process. `WireLog`
# counts the messages of a step.

# %%
from lesson.timed import network, step_times, timeline

import dtlib
from dtlib.learn.wire import WireLog
from dtlib.scratch.data_parallel import average_gradients, same_start

flat_way, cut = learn.given("flat_all_reduce"), learn.given("assign_buckets")
overlapped = learn.given("overlap")


def start_sum(x):
    return dist.all_reduce(x, async_op=True)


def in_buckets(params, cap, all_reduce=start_sum):
    """The same buckets, all of them sent after backward."""
    for bucket in cut(params, cap):
        flat = torch.cat([p.grad.flatten() for p in bucket])
        all_reduce(flat).wait()
        unpack(flat / dist.get_world_size(), [p.grad for p in bucket])


def ready(way, model, cap, all_reduce=start_sum):
    """What is to be called after backward."""
    params = list(model.parameters())
    if way == "overlap":
        return overlapped(cut(params, cap), all_reduce, lambda: True)
    return {
        "one process": lambda: None,
        "naive": lambda: average_gradients(model),
        "flat": lambda: flat_way(model),
        "buckets": lambda: in_buckets(params, cap, all_reduce),
    }[way]


# %%
optimizers = {
    "SGD with momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01),
}
ways = ["naive", "flat", "buckets", "overlap"]


def weights_of(way, name):
    """The weights after four steps, and the messages of the last one."""
    rank, n = dist.get_rank(), dist.get_world_size()
    model = network(8, 6, seed=rank).double()
    same_start(model)
    optimizer = optimizers[name](model.parameters())
    finish = ready(way, model, cap=2000)
    for step in range(4):
        torch.manual_seed(step)
        x, y = torch.randn(2, 12, 8, dtype=torch.float64)
        optimizer.zero_grad()
        with WireLog() as log:
            F.mse_loss(model(x.chunk(n)[rank]), y.chunk(n)[rank]).backward()
            finish()
        optimizer.step()
    sizes = [message.bytes for message in log.messages]
    ends = torch.nn.utils.parameters_to_vector(model.parameters())
    return ends.detach(), sizes


def all_weights(ways):
    return {
        (way, name): weights_of(way, name)
        for way in ways
        for name in optimizers
    }


alone = dtlib.launch(all_weights, ["one process"], ranks=1, device="cpu")[0]
together = dtlib.launch(all_weights, ways, ranks=3, device="cpu")

# %%
gaps = {}
for way in ways:
    for name in optimizers:
        one = alone["one process", name][0]
        ends = [rank[way, name][0] for rank in together]
        gaps[way, name] = max(float((end - one).abs().max()) for end in ends)
learn.table(
    [
        [
            way,
            len(together[0][way, "AdamW"][1]),
            sum(together[0][way, "AdamW"][1]),
            *(f"{gaps[way, name]:.0e}" for name in optimizers),
        ]
        for way in ways
    ],
    ["way", "messages a step", "bytes handed to all_reduce", *optimizers],
    "Three ranks; largest distance of a weight from one process, fp64",
)

# %% [markdown]
# Every way hands `all_reduce` the same bytes, in different numbers of
# messages. (On a ring, each rank sends $2(N-1)/N$ times as many: lesson 07.)
# The weights agree up to rounding, which in fp64 is about $10^{-16}$ of a
# number and grows a little in four steps.

# %%
assert max(gaps.values()) < 1e-10
assert len({sum(together[0][way, "AdamW"][1]) for way in ways}) == 1
learn.measured("messages", len(together[0]["naive", "AdamW"][1]))

# %% [markdown]
# ## Timed here
#
# Now time a step (forward, backward and averaging) of a larger network, of
# `layers` blocks with four gradients each, on two ranks. The ways take turns,
# and each time is the median of several steps after a warm-up. Both ranks and
# gloo's sums share this machine's cores. The row `none` is a step without
# averaging, which the others can only add to. Its own times differ from step
# to step; a difference that is no larger than that is noise.

# %%
import statistics

from dtlib.measure.noise import compare

one_weight = 4 * width * width  # bytes of the weight of a linear layer
cap = 2 * one_weight  # room for one of them and the small tensors beside it


def at_cap(way, model):
    return ready("one process" if way == "none" else way, model, cap)


turns = dtlib.launch(
    step_times, at_cap, ["none", *ways], width, layers, repeats,
    ranks=2, device="cpu",
)[0]  # fmt: skip
here = {way: statistics.median(times) for way, times in turns.items()}
effects = {
    way: compare(here[way] / here["none"], turns["none"]) for way in ways
}
rows = [["none", f"{here['none']:.1f}", "", ""]]
for way, effect in effects.items():
    sure = "yes" if effect.real else "no"
    more = f"{here[way] - here['none']:+.1f}"
    rows.append([way, f"{here[way]:.1f}", more, sure])
learn.table(
    rows,
    ["way", "ms per step", "against none, ms", "more than noise"],
    "Here, two ranks that share the cores; the slowest step of none took "
    f"{effects['naive'].spread:.2f} times as long as its fastest",
)

# %%
apart = here["overlap"] / here["buckets"]
effect = compare(1 / apart, turns["buckets"])
learn.measured("same_cores", apart, effect=effect)
learn.my_run("step time of overlap on shared cores", here["overlap"], "ms")

# %% [markdown]
# `buckets` and `overlap` send the same messages. While gloo adds numbers, it
# uses a core that backward could use, so expect little where ranks share
# their cores. Overlap pays when *something else* does the communication, such
# as a network adapter.
#
# ## A link that works by itself
#
# A clock stands in for that adapter (**simulated**). We *measure* the moment
# at which each bucket is full. The clock *computes* when the ring of lesson 07
# would have delivered it; it carries one bucket at a time. The clock adds no
# numbers, so it needs no core. Its bandwidth is such that all gradients take
# 0.8 of the time of a step without communication, and α is 1/200 of that step,
# however fast this machine is.

# %%
model_bytes = 4 * sum(p.numel() for p in network(width, layers).parameters())
alpha = here["none"] / 1000 / 200
beta = 0.8 * here["none"] / 1000 / model_bytes


def over_the_link(way, cap):
    def start(model, all_reduce):
        if way in ("naive", "flat"):  # buckets of one, and one bucket
            limit = 0 if way == "naive" else 10**9
            return ready("buckets", model, limit, all_reduce)
        return ready(way, model, cap, all_reduce)

    return dtlib.launch(
        timeline, start, width, layers, repeats, alpha, beta,
        ranks=2, device="cpu",
    )[0]  # fmt: skip


runs = {way: over_the_link(way, cap) for way in ways}

# %%
from lesson.pictures import draw_buckets, draw_ways

draw_ways(runs)

# %%
learn.table(
    [
        [way, k, *(f"{t:.1f}" for t in row), f"{end:.1f}"]
        for way, (end, rows) in runs.items()
        if way in ("buckets", "overlap")
        for k, row in enumerate(rows)
    ],
    [
        "way",
        "bucket",
        "full, ms",
        "leaves, ms",
        "arrives, ms",
        "backward ends",
    ],
    "One step on rank 0 over the simulated link",
)

# %% [markdown]
# Only with `overlap` do messages leave while backward runs. Communication to
# the right of the dotted line is **exposed**: the optimizer waits for it. The
# last bucket is always there, because its last gradient is the last that
# backward computes. The share of the link's time that is hidden:


# %%
hidden = 100 * runs["overlap"].hidden
print(f"overlap hid {hidden:.0f} % of the link's time")
learn.measured("hidden", hidden)
assert all(runs[way].hidden == 0 for way in ways[:3])

# %% [markdown]
# ## How large a bucket?
#
# Small buckets leave early but pay α often; large ones pay α rarely but leave
# late. Here is the same step over the same link, with five sizes:

# %%
caps = [one_weight * k // 512 for k in (1, 512, 1024, 2048)] + [10**9]
swept = []
for size in caps:
    run = over_the_link("overlap", size)
    swept.append((size, len(run.rows), run.done))

# %%
draw_buckets(swept, runs["overlap"].backward)

# %%
learn.table(
    [
        [
            count,
            "no limit" if cap == 10**9 else f"{cap / 1e3:,.1f}",
            f"{ms:.1f}",
        ]
        for cap, count, ms in swept
    ],
    ["buckets", "cap, kB (10³ bytes)", "ms until all are there"],
    "Size of a bucket, two ranks over the simulated link",
)

# %%
best = min(swept, key=lambda row: row[2])
print(f"fastest here: {best[1]} buckets")
learn.my_run("buckets of the fastest step over a slow link", best[1])

# %% [markdown]
# A cluster has another α, another bandwidth, and a longer backward. Change one
# at a time, and look for a setting where the size of the bucket does not
# matter:

# %%
learn.what_if("exposed")

# %% [markdown]
# ## Communicate once a step: `no_sync`
#
# With accumulation over $k$ micro-batches a step needs the averages once. The
# sum of the micro-batches' averages is the average of their sums, so
# communicating after every micro-batch gives the same result for $k$ times the
# bytes. With DDP you put all micro-batches but the last into a block
# `with ddp.no_sync():`. Count the bytes with your `overlap`:


# %%
def bytes_of_a_step(silent):
    model, micro_batches = network(8, 6), 3
    params, now = list(model.parameters()), [0]

    def last():
        return not silent or now[0] == micro_batches - 1

    finish = overlapped(cut(params, 2000), start_sum, last)
    with WireLog() as log:
        for now[0] in range(micro_batches):
            (model(torch.ones(4, 8)).square().mean() / 3).backward()
            if last():
                finish()
    return sum(message.bytes for message in log.messages)


silent, talking = (
    dtlib.launch(bytes_of_a_step, choice, ranks=2, device="cpu")[0]
    for choice in (True, False)
)
print("bytes handed to all_reduce in a step of 3 micro-batches:")
print(f"{silent} if only the last communicates, {talking} if all do")
assert talking == 3 * silent
learn.my_run("bytes of a step, 3 micro-batches, silent", silent, "bytes")

# %% [markdown]
# ## What DDP adds
#
# DDP is your `overlap`, in C++, with options. Two of them here, with buckets
# of up to 1 MiB: **`gradient_as_bucket_view`** makes each `p.grad` a view of
# its bucket, so that nothing is packed or copied back and no gradient is
# stored twice. A **communication hook** replaces the all-reduce of a bucket;
# one that comes with torch sends it in bf16, which halves the bytes and
# rounds. (With a third, `static_graph=True`, you promise that every step uses
# the same parameters.)

# %%
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel


def with_ddp(views, hook):
    model = network(8, 6)
    same_start(model)
    wrapped = DistributedDataParallel(
        model, bucket_cap_mb=1, gradient_as_bucket_view=views
    )
    wrapped.register_comm_hook(None, hook)
    with WireLog() as log:
        wrapped(torch.ones(4, 8) * dist.get_rank()).square().mean().backward()
    sent = sum(message.bytes for message in log.messages)
    grads = [p.grad for p in model.parameters()]
    memories = {grad.untyped_storage().data_ptr() for grad in grads}
    flat = torch.cat([grad.flatten() for grad in grads])
    return len(memories), sent, flat


# allreduce_hook does in Python what DDP does in C++, where no log can see it.
plain, bf16 = default_hooks.allreduce_hook, default_hooks.bf16_compress_hook
options = {
    "default": (False, plain),
    "gradient_as_bucket_view": (True, plain),
    "bf16_compress_hook": (False, bf16),
}
found = {
    name: dtlib.launch(with_ddp, *chosen, ranks=2, device="cpu")[0]
    for name, chosen in options.items()
}
exact = found["default"][2]
assert found["gradient_as_bucket_view"][0] < found["default"][0] == 24
assert 2 * found["bf16_compress_hook"][1] == found["default"][1]
learn.table(
    [
        [name, count, size, f"{float((flat - exact).abs().max()):.0e}"]
        for name, (count, size, flat) in found.items()
    ],
    [
        "",
        "pieces of memory for 24 gradients",
        "bytes handed to all_reduce",
        "largest change",
    ],
    "DDP on two ranks, one step",
)

# %% [markdown]
# To **clip** a gradient is to shorten it to a limit if its length, the root of
# the sum of its squares, exceeds that. Clip the *averaged* gradient: ranks
# that clip their own first end with a different average:

# %%
# %%ranks 2
own = torch.tensor([[3.0, 0.0], [0.0, 1.0]][rank])
mean = own.clone()
dist.all_reduce(mean)
mean /= world_size
clipped = own / max(1, own.norm())
dist.all_reduce(clipped)
if rank == 0:
    print("average, then clip to 1:", (mean / max(1, mean.norm())).tolist())
    print("clip to 1, then average:", (clipped / world_size).tolist())

# %% [markdown]
# ## Quiz

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## Take-away
#
# - With the same start, and the mean gradient in every step, all ranks train
#   what one process trains, with any optimizer. Batch norm is the exception.
# - The bytes are the same however you cut them. Few messages pay the latency
#   rarely; several can leave early.
# - Buckets leave in the same order on all ranks. Until its sum has arrived, do
#   not touch a buffer.
# - Overlap hides communication that something else carries out. On shared
#   cores it moves the work and saves none.
# - Test with SGD and with AdamW, and on three ranks: AdamW hides a missing
#   division, SGD hides that weights were averaged and not gradients, and a
#   divisor that is written as 2 is right on two ranks.

# %%
learn.take_away()
