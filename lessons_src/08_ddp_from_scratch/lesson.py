# %% [raw]
# ---
# number: "08"
# title: Data parallel from scratch
# does: >-
#   write DDP four times, from one message a gradient to buckets that overlap
# objectives:
#   - make several ranks train exactly what one process trains
#   - cut the gradients into messages, and say what each cut costs
#   - say how much communication hides behind backward, and when none does
# minutes: {read: 25, exercises: 55}
# needs: [laptop]
# builds_on: ["07", "02"]
# ---

# %% [markdown]
# Two ranks, each with half of the batch. Each computes gradients of its own
# half. **What has to travel between them so that both end with the weights
# that one process would have, and how little can it cost?**
#
# You write the answer four times: one message for each gradient, one for
# all, a few buckets, and buckets that leave while backward runs. The last is
# what PyTorch's DistributedDataParallel does; lesson 09 uses that one.
# Exercises 1 to 3 are the core; 4 is *stretch*.

# %%
from dtlib import learn

learn.start("08")

# %% [markdown]
# `width` and `layers` make the model that is timed. A larger one shows the
# same more clearly, and takes longer.

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
# A worked case, painted: rank $r$ holds the gradient $10^r$, so 111 says
# that each of three ranks is in the sum once.

# %%
# %%ranks 3
import torch
import torch.distributed as dist

gradient = torch.tensor([10.0**rank])
dist.all_reduce(gradient)
print("sum", gradient.item(), "mean", gradient.item() / world_size)

# %% [markdown]
# Equal gradients are half of it. An optimizer *adds* a step to the weights,
# so ranks that start apart stay apart. There are two promises to keep: **the
# same start, and the same gradient in every step.**
#
# ## Exercise 1: train together
#
# ●○○ *10 minutes.* Write the two missing parts. `batches` holds this rank's
# part of each batch; the parts of all ranks are equally large. Each rank's
# model comes with weights of its own; all must begin with rank 0's.
# `dist.broadcast(tensor, src=0)` gives everybody rank 0's tensor, in place;
# use it on `p.data`, since autograd must not follow.


# %% tags=["exercise"]
import torch
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
# Your loop sends a message for every parameter. Lesson 07 said what a ring
# all-reduce of $S$ bytes costs: $2(N-1)(\alpha + \beta S / N)$. The bytes are
# the same however you cut them; the latency α is paid for each message. Most
# parameters are small, so most of their time is latency.
#
# So put all gradients into one **flat buffer**, send it once, and copy the
# averages back. A worked case for two tensors, with no ranks in it: a slice
# of the right length has to get its shape back.

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
# one message. Two things happen in real models. A rank may have no gradient
# for a parameter that it did not use (`p.grad is None`): it counts as zeros,
# and afterwards it holds the mean, too. And a buffer has one dtype, so
# there is one message for each dtype that the gradients have.


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
# gradients are ready early, and could be on their way by then. **Buckets**
# are the middle: a few messages, each large against α, the first of them
# full early. DDP's default is 25 MiB for most of its buckets
# (https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html).
#
# When do gradients arrive? Ask a small network:

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
# end to its beginning; a parameter joins the open bucket if it still fits
# under `cap_bytes`, else it opens the next one. A bucket has one dtype. A
# parameter larger than the cap has a bucket of its own. Write the body; the
# gradient of `p` has as many bytes as `p`, and `p.element_size()` says how
# many one number has.


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
# ## Talk while you compute
#
# A **hook** is a function that autograd calls for you. You used one above:
# `register_post_accumulate_grad_hook` calls it when `p.grad` is complete for
# this backward. `dist.all_reduce(x, async_op=True)` starts a sum and returns
# at once; `.wait()` on what it returns says when `x` holds it. Until then `x`
# belongs to the network. Here is a worked case with one parameter: the hook
# *starts*, and the wait comes after backward.

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
# With buckets there is one more rule. An all-reduce carries no address: the
# first that rank 0 starts is added to the first that rank 1 starts. So all
# ranks start their buckets **in one order**, and a bucket that is full early
# waits for its turn.
#
# With accumulation the sum over the micro-batches is what counts. Only the
# last micro-batch's backward needs to talk; DDP calls the silence before it
# `no_sync`. Here `talk()` tells you.
#
# ## Exercise 4: overlap
#
# ●●● *25 minutes, stretch.* Put hooks on all parameters and return a
# function `wait`, which is called between the last backward and the
# optimizer's step: after it every gradient is the mean over the ranks. Then
# all is ready for the next step. `all_reduce(flat)` starts to sum a flat
# tensor in place; what it returns has a `.wait()`. `unpack(flat, grads)`
# copies back, as you did in exercise 2.

# %%
from dtlib.scratch.data_parallel import unpack


# %% tags=["exercise", "stretch"]
def overlap(buckets, all_reduce, talk):
    """Send each bucket when it is full, in order; returns `wait`.

    `talk()` is true in the backward of a step's last micro-batch.
    """
    ### BEGIN SOLUTION
    home = {p: k for k, bucket in enumerate(buckets) for p in bucket}
    missing = [len(bucket) for bucket in buckets]
    sent = []

    def hook(p):
        if not talk():
            return
        missing[home[p]] -= 1
        while len(sent) < len(buckets) and missing[len(sent)] == 0:
            flat = torch.cat([q.grad.flatten() for q in buckets[len(sent)]])
            sent.append((flat, all_reduce(flat)))

    def wait():
        for bucket, (flat, work) in zip(buckets, sent):
            work.wait()
            unpack(flat / dist.get_world_size(), [p.grad for p in bucket])
        missing[:] = [len(bucket) for bucket in buckets]
        sent.clear()

    for p in home:
        p.register_post_accumulate_grad_hook(hook)
    return wait
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("overlap", overlap)

# %% [markdown]
# ## Four ways, one result
#
# Now all four train the same network on three ranks, in fp64, and we compare
# their weights with those of one process after four steps.
# `WireLog` counts the messages of a step.

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
    ["way", "messages a step", "bytes a step", *optimizers],
    "Three ranks; largest distance of a weight from one process, fp64",
)

# %% [markdown]
# The bytes are the same in each row; the messages are not. fp64 rounds at
# about $10^{-16}$ of a number, and four steps carry that on.

# %%
assert max(gaps.values()) < 1e-10
assert len({sum(together[0][way, "AdamW"][1]) for way in ways}) == 1
learn.measured("messages", len(together[0]["naive", "AdamW"][1]))

# %% [markdown]
# ## Timed here
#
# A step of a larger network on two ranks, forward, backward and averaging:
# the median of some steps after a warm-up; the ways take turns. Both ranks
# and gloo's sums share this machine's cores. `none` averages nothing; it is
# the time to beat.

# %%
import statistics

from dtlib.measure.noise import compare

cap = 4 * width * width * 2


def at_cap(way, model):
    return ready("one process" if way == "none" else way, model, cap)


turns = dtlib.launch(
    step_times, at_cap, ["none", *ways], width, layers, repeats,
    ranks=2, device="cpu",
)[0]  # fmt: skip
here = {way: statistics.median(times) for way, times in turns.items()}
learn.table(
    [
        [way, f"{here[way]:.1f}", f"{here[way] - here['none']:+.1f}"]
        for way in here
    ],
    ["way", "ms a step", "against none"],
    "Here, two ranks that share the cores",
)

# %%
apart = here["overlap"] / here["buckets"]
effect = compare(1 / apart, turns["buckets"])
learn.measured("same_cores", apart, effect=effect)
learn.my_run("step time of overlap on shared cores", here["overlap"], "ms")

# %% [markdown]
# Look at `buckets` and `overlap`: the same messages. While gloo adds numbers,
# it uses a core that backward could use, so where ranks share their cores
# expect little. Overlap pays when *somebody else* does the communication, as
# a network card does.
#
# ## A link that works by itself
#
# A clock stands in for that card (**simulated**). You measure when each
# bucket is full; the clock says when lesson 07's ring would have delivered
# it, one message after the other. It makes no sums, so it takes no core.
# We set its bandwidth so that all gradients take 0.8 of the time of a step
# without communication, and α to 1/200 of that step, whatever this machine
# does.

# %%
model_bytes = 4 * sum(p.numel() for p in network(width, layers).parameters())
alpha = here["none"] / 1000 / 200
beta = 0.8 * here["none"] / 1000 / model_bytes


def over_the_link(way, cap):
    def start(model, all_reduce):
        return ready(way, model, cap, all_reduce)

    return dtlib.launch(
        timeline, start, width, layers, repeats, alpha, beta,
        ranks=2, device="cpu",
    )[0]  # fmt: skip


both = {way: over_the_link(way, cap) for way in ("overlap", "buckets")}

# %%
import matplotlib.pyplot as plt

figure, panels = plt.subplots(
    2, 1, figsize=(7, 4.4), sharex=True, layout="constrained"
)
for axes, (way, (end, rows)) in zip(panels, both.items()):
    axes.barh(-1, end, color="0.75", edgecolor="black", label="backward")
    for k, (full, leaves, arrives) in enumerate(rows):
        axes.barh(
            k, arrives - leaves, left=leaves, color="C0", edgecolor="black",
            hatch="//", label="on the link" if k == 0 else None,
        )  # fmt: skip
        axes.plot(full, k, "k|", ms=12, label="full" if k == 0 else None)
    axes.axvline(end, color="black", ls=":")
    axes.set(title=way, yticks=[-1, *range(len(rows))])
    axes.set_yticklabels(
        ["backward", *(f"bucket {k}" for k in range(len(rows)))]
    )
    axes.invert_yaxis()
panels[0].legend(fontsize=8, loc="lower right")
panels[1].set_xlabel("ms since backward began")
plt.show()

# %%
learn.table(
    [
        [way, k, *(f"{t:.1f}" for t in row), f"{end:.1f}"]
        for way, (end, rows) in both.items()
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
# Above, buckets leave while the grey bar still runs; what stands to the
# right of the dotted line is **exposed**: the optimizer waits for it. The
# last bucket is there, for its last gradient is backward's last. Below,
# everything stands to the right. The share that was hidden:


# %%
hidden = 100 * both["overlap"].hidden
print(f"overlap hid {hidden:.0f} % of the link's time")
print(f"buckets after backward hid {100 * both['buckets'].hidden:.0f} %")
learn.measured("hidden", hidden)
assert both["buckets"].hidden == 0

# %% [markdown]
# ## How large a bucket?
#
# Small buckets leave early and pay α often. Large ones pay it seldom and
# leave late. The same step over the same link, with five sizes:

# %%
one_layer = 4 * width * width
caps = [one_layer // 512, one_layer, 2 * one_layer, 4 * one_layer, 10**9]
swept = []
for size in caps:
    run = over_the_link("overlap", size)
    swept.append((size, len(run.rows), run.done))

# %%
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
counts, steps = [row[1] for row in swept], [row[2] for row in swept]
axes.plot(counts, steps, "o-", label="all gradients there, simulated")
end = both["overlap"].backward
axes.axhline(end, color="black", ls=":", label="backward, as above")
axes.set(xscale="log", xlabel="buckets", ylabel="ms since backward began")
axes.set(xticks=counts, xticklabels=counts, ylim=(0, None))
axes.minorticks_off()
axes.legend(fontsize=8)
plt.show()

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
# A cluster has another α, another bandwidth, and a longer backward. Move one
# at a time, and look for a setting where the size does not matter:

# %%
learn.what_if("exposed")

# %% [markdown]
# ## Stay silent: `no_sync`
#
# With accumulation over $k$ micro-batches a step needs its gradients once.
# Averages add up, so talking every time gives the same result for $k$ times
# the bytes. Count it with your `overlap`:


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
print(f"{silent} bytes with silence, {talking} bytes without")
assert talking == 3 * silent
learn.my_run("bytes of a step, 3 micro-batches, silent", silent, "bytes")

# %% [markdown]
# ## Quiz

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## Take-away
#
# - The same start, and the mean gradient in every step: then all ranks train
#   what one process trains, with any optimizer.
# - The bytes are the same however you cut them. Few messages pay the latency
#   seldom; several can leave early.
# - Buckets leave in one order on all ranks. A buffer on its way is not yours.
# - Overlap hides communication when somebody else does it. On shared cores
#   it moves the work and saves none.
# - Prove with SGD and with AdamW, on three ranks and not only on two.

# %%
learn.take_away()
