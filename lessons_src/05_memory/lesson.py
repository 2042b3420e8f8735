# %% [raw]
# ---
# number: "05"
# title: Where the memory goes
# does: >-
#   watch a step byte by byte, write activation checkpointing, predict what
#   fits
# objectives:
#   - name what a training step holds at each moment, and count it in bytes
#   - write activation checkpointing, and say what it costs
#   - predict from two short runs which micro-batch still fits
# minutes: {read: 30, exercises: 45}
# needs: [laptop]
# builds_on: ["00", "01"]
# ---

# %% [markdown]
# The smallest GPT-2 has 124 million weights: half a gigabyte in fp32. Somebody
# trains it on eight sequences of 1,024 tokens, on a GPU with 11 GB of free
# memory, and the run ends with *out of memory*. **When does a step need the
# most memory, what are the other ten or eleven gigabytes, and which of them
# can you do without?**
#
# You watch one step byte by byte, count by hand what it keeps, write the
# remedy yourself, and predict which batch fits. Exercises 1 and 2 are the
# core and fit into an hour with the reading. Exercises 3 and 4 are *stretch*.

# %%
from dtlib import learn

learn.start("05")

# %%
from lesson import pictures

from dtlib.sim.estimate import Setup, estimate

gpt2 = estimate(Setup("gpt2", "single", micro_batch=8))
pictures.draw_question(4 * gpt2.parameters / 1e9, gpt2.peak()[1] / 1e9)

# %% [markdown]
# You measure a small GPT on a CPU, where every byte can be named. MB and GB
# are $10^6$ and $10^9$ bytes; a GiB is $2^{30}$ bytes, 7 % more than a GB.

# %% tags=["parameters"]
model_name = "nano"
micro_batch = 8
vocab_size = 512
repeats = 5

# %% [markdown]
# ## Your predictions
#
# Commit to all three before you go on. The **micro-batch** $b$ is the number
# of sequences that are computed at once, $s$ is the number of tokens in a
# sequence, and $h$ is the model's width: each token is a row of $h$ numbers. A
# **FLOP** is one addition or multiplication. The **logits** are the output of
# the last layer: a score for each word of the vocabulary, at each position.

# %%
learn.predict("second_step")

# %%
learn.predict("flop_again")

# %%
learn.predict("logits")

# %% [markdown]
# ## One step, watched
#
# A step is forward, backward, update. During forward torch records how each
# tensor was computed; this record is the **graph**, and backward walks through
# it from its end. With the graph, torch keeps the tensors that backward will
# need: the **activations**. `ledger.watch` counts the bytes of each kind
# during the step. Two steps of a run are watched, and this is the page of the
# second:

# %%
import torch
from torch.nn import functional as F

from dtlib.measure import ledger
from dtlib.models.gpt import GPT, shape

torch.set_num_threads(1)  # for so small a model more of them only wait
model = GPT(shape(model_name, vocab_size=vocab_size))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
s, h = model.config.context, model.config.width


def watched_step(b):
    """Take a step on b random sequences, and return what it held."""
    with ledger.watch(model, optimizer) as page:
        x, y = torch.randint(0, vocab_size, (2, b, s))
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return page


def peak(page):
    """The most that the step held, without other tensors of this notebook."""
    held = page.before_update
    states = held["parameters"] + held["optimizer"] + held["counters"]
    return states + page.peak - page.allocated


first, second = watched_step(micro_batch), watched_step(micro_batch)
second

# %% [markdown]
# Each column is a point of the step: *at most*, the largest amount of a kind
# at any time; *before the update*, when all gradients are there; *between
# steps*, after `zero_grad()`. Between steps the weights (the *parameters*) and
# the optimizer's states remain. AdamW stores two fp32 numbers for each weight,
# its *moments*. (*Counters* count its steps; *other* is the batch and its
# loss.) The gradients exist from backward until `zero_grad()`, which by
# default frees them:

# %%
print(f"{second.before_update['gradients']:,} bytes before the update,")
print(f"{second.between_steps['gradients']:,} after zero_grad()")
assert second.between_steps["gradients"] == 0

# %% [markdown]
# The page's timeline shows when everything comes and goes. An event is a
# moment at which torch keeps a tensor for backward, or uses one. The
# **allocator** is the part of torch that hands out the memory of all tensors;
# the dashed line is the most that it had given out at once.

# %%
border = len(first.timeline)


def over_time(page):
    """Weights, optimizer, gradients, activations at each event, in MB."""
    kept, gradients, *_ = zip(*page.timeline)
    states = [page.before_update["optimizer"]] * (len(kept) - 1)
    states.append(page.between_steps["optimizer"])
    weights = [page.between_steps["parameters"]] * len(kept)
    rows = weights, states, gradients, kept
    return [[value / 1e6 for value in row] for row in rows]


both = [a + b for a, b in zip(over_time(first), over_time(second))]
peaks = [peak(page) / 1e6 for page in (first, second)]
pictures.draw_events(both, border, peaks)

# %%
rows = []
for k, page in enumerate((first, second), start=1):
    lines = over_time(page)
    top = lines[3].index(max(lines[3]))
    points = ("backward begins", top), ("before update", -2), ("end", -1)
    for when, at in points:
        values = [line[at] for line in lines]
        rows.append([f"step {k}, {when}", *values, sum(values)])
learn.table(
    [[row[0], *(f"{value:.1f}" for value in row[1:])] for row in rows],
    ["MB", *pictures.KINDS, "sum"],
    "The same two steps at three points",
)

# %% [markdown]
# The activations grow in forward and shrink in backward, and meanwhile the
# gradients grow. The step holds the most **when backward begins**. In the
# first step there are no optimizer states yet: the update makes them, and the
# second step needs its memory on top of them.

# %%
parameters = sum(p.numel() for p in model.parameters())
more = (peak(second) - peak(first)) / parameters
learn.measured("second_step", more)
assert round(more) == 8
stays = sum(second.between_steps.values()) - second.between_steps["other"]
learn.my_run("peak of a step over what stays", peak(second) / stays, "times")

# %% [markdown]
# So a run that fits in step 1 may fail in step 2. And why is the dashed line
# above the coloured sum? The allocator also counts tensors that belong to none
# of the four kinds. Which ones are these?
#
# ## Estimated beside measured
#
# `dtlib.sim` has a formula for each kind and runs nothing. What it calls
# *logits* are three tensors as large as the logits: forward keeps one of them
# for backward, and backward makes two more.

# %%
setup = Setup(
    model_name, "single", micro_batch=micro_batch, vocab_size=vocab_size
)
told = estimate(setup)
size = {row.kind: row.size for row in told.rows}
kept = size["activations"] + size["logits"] // 3
pairs = [
    ["weights", size["parameters"], second.between_steps["parameters"]],
    ["gradients", size["gradients"], second.before_update["gradients"]],
    ["optimizer", size["optimizer"], second.between_steps["optimizer"]],
    ["activations", kept, second.most["activations"]],
    ["peak, " + told.peak()[0], told.peak()[1], peak(second)],
]
learn.table(
    [[name, f"{a:,}", f"{b:,}", f"{b - a:,}"] for name, a, b in pairs],
    ["bytes", "estimated", "measured", "difference"],
    "The second step",
)

# %% [markdown]
# Weights, gradients and optimizer agree to the byte. The other differences
# have names:

# %%
named = {
    "labels, int64": 8 * micro_batch * s,
    "how many labels the loss counted": 4,
    "the loss itself": 4,
    "AdamW's step counters": second.between_steps["counters"],
}
in_kept, in_peak = (measured - told for _, told, measured in pairs[3:])
rest = in_peak - sum(named.values())
print(named, f"without a name: {rest} bytes")
assert in_kept == named["labels, int64"] + 4
assert abs(rest) < 0.01 * peak(second)

# %% [markdown]
# This answers the question above. Between the coloured sum and the dashed line
# are those two tensors as large as the **logits**, which exist only while
# backward begins. You meet them again below.
#
# ## By hand
#
# A GPT is a row of $L$ equal blocks. Each block is attention followed by an
# **MLP**: two linear layers with an activation function (GELU or ReLU) between
# them. (Despite its name, an activation *function* is an operation;
# *activations* are all the tensors that are kept.) Which tensors does an
# operation keep? Those that its derivative needs. A *position* is one token of
# one sequence, so there are $bs$ positions.
#
# | operation | keeps |
# | --- | --- |
# | linear layer | its input |
# | layer norm | its input, and two numbers for each position, mean and deviation |
# | GELU | its input |
# | ReLU | its *output*: where that is 0, the gradient is 0 |
# | addition | nothing |
#
# Weights are in memory anyway, and a tensor that two operations keep is in
# memory once. Worked example: a linear layer from $h$ to $4h$, ReLU, and a
# linear layer back from $4h$ to $h$. The first layer keeps its input, $bsh$
# numbers. ReLU keeps its output, $4bsh$ numbers, and that *is* the second
# layer's input. A number in fp32 has 4 bytes, so $4 \cdot 5bsh$ bytes in all:

# %%
from lesson.activation_checkpointing import saved_for_backward

mlp = torch.nn.Sequential(
    torch.nn.Linear(h, 4 * h), torch.nn.ReLU(), torch.nn.Linear(4 * h, h)
)
x = torch.randn(micro_batch, s, h, requires_grad=True)
with saved_for_backward(*mlp.parameters()) as saved:
    mlp(x)
print(f"{saved():,} bytes, by hand {4 * 5 * micro_batch * s * h:,}")
assert saved() == 4 * 5 * micro_batch * s * h

# %% [markdown]
# ## Exercise 1: half a block of GPT
#
# ●●○ *10 minutes.* The second half of a GPT's block is
# `x+down(f(up(norm(x))))`: a layer norm, `up` from $h$ to $4h$, GELU or ReLU
# as `f`, and `down` from $4h$ to $h$. How many bytes does it keep in fp32?


# %% tags=["exercise"]
def mlp_bytes(b, s, h, activation):
    """Bytes kept for backward; `activation` is "gelu" or "relu"."""
    ### BEGIN SOLUTION
    norm = h + 2
    up = h
    inside = 4 * h + 4 * h if activation == "gelu" else 4 * h
    per_position = norm + up + inside
    ### END SOLUTION
    return 4 * b * s * per_position


# %% tags=["check"]
learn.check("mlp_bytes", mlp_bytes)

# %% [markdown]
# In the step that you watched, this half accounts for most of the activations:

# %%
count = learn.given("mlp_bytes")
halves = model.config.layers * count(micro_batch, s, h, "gelu")
print(f"{halves / second.most['activations']:.0%} of all activations")

# %% [markdown]
# ## What attention keeps
#
# Here is the whole block with GELU, and what each operation keeps. (A few
# single numbers per position are left out.)

# %%
pictures.draw_block()

# %% [markdown]
# Attention, the first half of a block, compares every position with every
# other one. It makes three tensors from its input (q, k and v) and splits each
# into $a$ *heads*. In each head, every row of q is compared with every row of
# k, which gives a table of $s \times s$ scores. **FlashAttention**
# (https://arxiv.org/abs/2205.14135) computes this table piece by piece and
# never stores it: it keeps its output and one number for each head and
# position, and computes the pieces again in backward. On a CPU, torch has such
# an implementation, but uses it only without dropout (which sets randomly
# chosen numbers to zero). On a GPU it covers dropout, too.

# %%
from torch.nn.attention import SDPBackend, sdpa_kernel

heads = model.config.heads


def attention_bytes(positions, dropout, backends):
    """Bytes that attention keeps beside q, k and v, for each position."""
    q, k, v = torch.randn(3, 1, heads, positions, h // heads)
    for tensor in (q, k, v):
        tensor.requires_grad_()
    with sdpa_kernel(backends), saved_for_backward(q, k, v) as saved:
        F.scaled_dot_product_attention(
            q, k, v, dropout_p=dropout, is_causal=True
        )
    return saved() / positions


table = SDPBackend.MATH
piecewise = [SDPBackend.FLASH_ATTENTION, table]  # the first that can do it
kinds_of = {
    "piece by piece": (0.0, piecewise),
    "whole table": (0.0, table),
    "whole table, dropout": (0.1, piecewise),
}
rows, growth = [], {}
for name, how in kinds_of.items():
    each = [attention_bytes(n, *how) for n in (64, 128, 256)]
    growth[name] = (each[2] - each[1]) / 128
    rows.append([name, *(f"{value:,.0f}" for value in each), growth[name]])
learn.table(
    rows,
    ["bytes per position", "s = 64", "s = 128", "s = 256", "growth per s"],
    f"Attention with {heads} heads, causal, fp32",
)

# %%
assert growth["piece by piece"] == 0
assert growth["whole table"] == 4 * heads
assert growth["whole table, dropout"] == 3 * 4 * heads == 48

# %% [markdown]
# Piece by piece, a position keeps the same whatever $s$ is: $4h$ bytes of
# output and 4 for each head. The whole table adds 4 bytes per head for every
# position that it is compared with: the $s^2$ of attention. Dropout forces
# torch to store the whole table here, three times over: the scores after
# softmax, the mask, and their product, $3 \cdot 4a$ bytes for each pair of
# positions, here 48. With 16-bit numbers and a mask of one byte, $2 + 2 + 1$
# bytes make $5a$. Papers divide by $bsh$, which gives their $5as/h$
# (https://arxiv.org/abs/2205.05198).
#
# ## Throw it away, compute it again
#
# **Activation checkpointing** (https://arxiv.org/abs/1604.06174) keeps only
# the *input* of a block. When backward arrives at the block, it runs the
# block's forward a second time, now with a graph, and goes back through that
# graph. Nothing is written to disk; that is another kind of checkpoint.
#
# In torch you write a `Function` with a forward and a backward of its own.
# `ctx` carries what forward stores for backward. Torch records nothing inside
# these two methods. Worked example, the square:


# %%
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):  # of the loss with respect to the output
        (x,) = ctx.saved_tensors
        return 2 * x * gradient  # of the loss with respect to the input


x = torch.tensor([3.0], requires_grad=True)
Square.apply(x).backward()
x.grad

# %% [markdown]
# Tools for the exercise:
#
# | line | what it does |
# | --- | --- |
# | `x = x.detach().requires_grad_()` | the same numbers, as the start of a new graph |
# | `with torch.enable_grad():` | torch records the operations inside |
# | `y.backward(gradient)` | goes back from `y`, where the gradient of the loss is `gradient`, and adds to the `.grad` of every weight and input that it reaches |
# | `with torch.random.fork_rng():` | at its end the generator of random numbers is as it was at its start |
# | `torch.set_rng_state(dice)` | the next random numbers are those that followed the state `dice` |
#
# ## Exercise 2: checkpoint
#
# ●●● *15 minutes.* Write the backward. All gradients have to be those of
# `block(x)`, bit for bit, even if the block has dropout. Return the gradient
# of the loss with respect to `x`; `y.backward` adds those of the weights.


# %% tags=["exercise"]
def checkpoint(block, x):
    """Compute block(x), and keep only x for backward."""
    dice = torch.get_rng_state()

    class Recompute(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return block(x)

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            ### BEGIN SOLUTION
            x = x.detach().requires_grad_()
            with torch.enable_grad(), torch.random.fork_rng():
                torch.set_rng_state(dice)
                y = block(x)
            y.backward(gradient)
            return x.grad
            ### END SOLUTION

    return Recompute.apply(x)


# %% tags=["check"]
learn.check("checkpoint", checkpoint)

# %% [markdown]
# ## What it saves, and what it costs
#
# Here the blocks of a GPT with dropout are called in three ways: as they are,
# through your function, and through torch's `torch.utils.checkpoint`
# (https://docs.pytorch.org/docs/stable/checkpoint.html). Torch recommends
# `use_reentrant=False`; with `True` it would work as yours does.

# %%
from torch.utils.checkpoint import checkpoint as torchs

from dtlib.scratch.blocks import blocks_of

mine = learn.given("checkpoint")
ways = {
    "plain": lambda block, x: block(x),
    "yours": mine,
    "torch's": lambda block, x: torchs(block, x, use_reentrant=False),
}
gpt = GPT(shape(model_name, vocab_size=vocab_size, dropout=0.1))
embed, *blocks, output = blocks_of(gpt)
tokens, labels = torch.randint(0, vocab_size, (2, micro_batch, s))


def loss_of(way, blocks=blocks):
    torch.manual_seed(1)
    x = embed(tokens)
    for block in blocks:
        x = way(block, x)
    return F.cross_entropy(output(x).flatten(0, 1), labels.flatten())


# %%
import statistics
import time

from torch.utils.flop_counter import FlopCounterMode

from dtlib.measure.noise import compare

seconds = {name: [] for name in ways}
for name, way in [*ways.items()] * (repeats + 1):
    gpt.zero_grad()
    start = time.perf_counter()
    loss_of(way).backward()
    seconds[name].append(time.perf_counter() - start)
times = {name: statistics.median(all_[1:]) for name, all_ in seconds.items()}

# %%
pages, kept, flop, gradients = {}, {}, {}, {}
for name, way in ways.items():
    gpt.zero_grad()
    with saved_for_backward(*gpt.parameters()) as saved:
        loss_of(way)
    kept[name] = saved()
    with ledger.watch(gpt) as pages[name]:
        loss_of(way).backward()
    gradients[name] = [p.grad for p in gpt.parameters()]
    gpt.zero_grad()
    with FlopCounterMode(display=False) as counter:
        loss_of(way).backward()
    flop[name] = counter.get_total_flops()

# %%
pictures.draw_activations(
    {
        name: [moment[0] / 1e6 for moment in pages[name].timeline]
        for name in ("plain", "yours")
    }
)

# %%
learn.table(
    [
        [
            name,
            f"{kept[name] / 1e6:.2f}",
            f"{(pages[name].peak - pages[name].allocated) / 1e6:.1f}",
            f"{flop[name] / 1e9:.2f}",
            f"{times[name] * 1e3:.0f}",
        ]
        for name in ways
    ],
    ["", "kept, MB", "allocator, MB", "GFLOP", "ms (median, here)"],
    "Forward and backward of one GPT, its blocks called in three ways",
)

# %% [markdown]
# With checkpointing, forward adds one input per block. Then the line has a
# large tooth for each block: the activations of the block come back, are used,
# and go. *Kept* is what waits when backward begins: the input of each block,
# $4bsh$ bytes, and everything outside the blocks. (In the picture the teeth
# rise above that, because one block's activations are back for a while.)
# *Allocator* is the most that was given out on top of the weights; it also
# counts gradients and temporary tensors. And no bit of the gradients differs:

# %%
with saved_for_backward(*gpt.parameters()) as saved:
    loss_of(ways["plain"], blocks=[])
assert kept["yours"] == saved() + 4 * micro_batch * s * h * len(blocks)
assert kept["yours"] == kept["torch's"] < kept["plain"]
for name in ways:
    assert all(map(torch.equal, gradients[name], gradients["plain"]))
again = 100 * (flop["yours"] / flop["plain"] - 1)
learn.measured("flop_again", again)
slower = 100 * (times["yours"] / times["plain"] - 1)
effect = compare(times["plain"] / times["yours"], seconds["plain"][1:])
learn.my_run("time that checkpointing adds", slower, "%", effect=effect)
assert 0 < again <= 100 / 3

# %% [markdown]
# The FLOP are those of matrix products. Backward has two products for each one
# of forward: one for the gradient of the input, one for the gradient of the
# weights. A step costs as much as three forwards, and now as much as four:
# **at most a third more**. Here it is less, because the logits are not
# computed again. The time need not grow by the same share; the table has the
# times of *this* machine.
#
# There is a middle way. **Selective checkpointing** keeps the results that are
# expensive to compute (matrix products and attention) and recomputes only the
# cheap ones. Torch takes a policy that decides for each operation
# (`create_selective_checkpoint_contexts`); `dtlib` has one that you can use:

# %%
import functools

from dtlib.measure.ledger.allocator import Allocations
from dtlib.models.recompute import recomputed

ways["selective"] = functools.partial(recomputed, "selective")
rise = {}
for name in ("plain", "selective", "yours"):
    gpt.zero_grad()
    with Allocations(torch.device("cpu")) as made:
        loss_of(ways[name]).backward()
    rise[name] = made.rise
    gpt.zero_grad()
    with FlopCounterMode(display=False) as counter:
        loss_of(ways[name]).backward()
    flop[name] = counter.get_total_flops()
    print(f"{name}: {made.rise / 1e6:.1f} MB, {flop[name] / 1e9:.2f} GFLOP")
assert flop["selective"] == flop["plain"] < flop["yours"]
assert rise["yours"] < rise["selective"] < rise["plain"]

# %% [markdown]
# It computes no matrix product twice, and its peak is between the other two.
#
# ## The logits that estimators forget
#
# The last layer computes a number for each of the $V$ words at each position,
# and GPT-2 has $V = 50{,}257$. The loss computes their log-probabilities and
# keeps those; the logits themselves are freed. When backward begins, the
# gradients of the log-probabilities and of the logits come on top. That makes
# three tensors of $4bsV$ bytes in fp32. (The $V$ entries of the vocabulary are
# tokens, "words" for short.) This table is computed for the step in the first
# lines of this lesson; further down you measure such a loss on 256 positions.

# %%
size = {row.kind: row.size for row in gpt2.rows}
learn.measured("logits", size["logits"] / 1e9)
assert size["logits"] == 3 * 4 * 8 * 1024 * 50257
begins = [
    [row.kind, f"{row.size / 1e9:.2f}", row.why]
    for row in gpt2.rows
    if "when backward begins" in row.moments
]
begins.append(["sum", f"{gpt2.peak()[1] / 1e9:.2f}", gpt2.peak()[0]])
learn.table(
    begins,
    ["kind", "GB", "what it is"],
    "What GPT-2 in fp32 holds when backward begins, b = 8, s = 1,024",
)

# %% [markdown]
# This is the rest: activations and logits. (`dtlib train` computes so large a
# loss in chunks, as you do in exercise 3; the table is about the usual loss.)
# For training with Adam in fp32, `accelerate estimate-memory` multiplies the
# weights by four
# (https://huggingface.co/docs/accelerate/usage_guides/model_size_estimator).
# That gives 2 GB: weights, gradients and optimizer, without anything that
# depends on the batch.
#
# The loss asks for the logits of all positions at once, but it does not have
# to, because it is a mean over positions. You can take a few of them at a
# time, sum their losses, drop their logits, and compute these again in
# backward.
#
# ## Exercise 3: the loss, a chunk at a time
#
# ●●○ *12 minutes, stretch.* `hidden` has a row of $h$ numbers for each of n
# positions, and `weight` has one for each word, so `hidden @ weight.T` are the
# logits. Return the mean loss over the positions whose label is not -100, the
# label that `F.cross_entropy` skips. Never hold the logits of more than
# `chunk` positions, and keep none until backward. As above, `torchs(f, a, b,
# use_reentrant=False)` calls `f(a, b)` as a checkpoint: it calls `f` again in
# backward, so any variable that `f` takes from outside must still have the
# same value then. Inside a `for`, for instance, the loop's variable has its
# last value by then: pass it as an argument.


# %% tags=["exercise", "stretch"]
def chunked_loss(hidden, weight, labels, chunk):
    """The mean cross-entropy: a 0-d tensor with a graph."""
    ### BEGIN SOLUTION

    def summed(rows, targets):
        return F.cross_entropy(rows @ weight.T, targets, reduction="sum")

    total = 0
    for rows, targets in zip(hidden.split(chunk), labels.split(chunk)):
        total = total + torchs(summed, rows, targets, use_reentrant=False)
    return total / (labels != -100).sum()
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("chunked_loss", chunked_loss)

# %% [markdown]
# Measured with GPT-2's vocabulary on 256 positions of width 128:

# %%
chunked = learn.given("chunked_loss")
last = torch.nn.Linear(128, 50257, bias=False)
hidden = torch.randn(256, 128, requires_grad=True)
targets = torch.randint(0, 50257, (256,))


def at_once(hidden, weight, labels, chunk):
    return F.cross_entropy(hidden @ weight.T, labels)


ways_of_loss = {"whole": (at_once, 256), "chunked": (chunked, 32)}

# %% [markdown]
# From version 2.13 torch has this loss, too: `F.linear_cross_entropy`. Without
# `options` it computes all logits at once; with them it works in chunks.

# %%
if hasattr(F, "linear_cross_entropy"):

    def torchs_loss(hidden, weight, labels, options):
        return F.linear_cross_entropy(hidden, weight, labels, options=options)

    ways_of_loss["torch's"] = torchs_loss, None
    options = torch.nn.LinearCrossEntropyOptions()
    ways_of_loss["torch's, with options"] = torchs_loss, options
rows, losses = [], []
for name, (of, how) in ways_of_loss.items():
    last.zero_grad()
    with ledger.watch(last) as page:
        loss = of(hidden, last.weight, targets, how)
        loss.backward()
    losses.append(loss.item())
    rows.append([name, (page.peak - page.allocated) / 1e6, loss.item()])
learn.table(
    [[name, f"{rise:.0f}", f"{loss:.5f}"] for name, rise, loss in rows],
    ["256 positions", "MB on top, at most", "loss"],
    f"One tensor of all logits is {4 * 256 * 50257 / 1e6:.0f} MB",
)

# %%
assert max(losses) - min(losses) < 1e-5 * losses[0]
assert rows[0][1] >= 3 * 4 * 256 * 50257 / 1e6 > 1.5 * rows[1][1]
assert len(rows) == 2 or rows[3][1] < rows[1][1] < rows[2][1]
ratio = rows[1][1] / rows[0][1]
learn.my_run("peak of a chunked loss over a whole one", ratio)

# %% [markdown]
# In the chunked loss, the gradient of the weight makes the peak. It is as
# large as the weight (26 MB), and autograd holds it three times, 77 MB: the
# sum so far, the part of the next chunk, and the sum of both. (The logits of
# one chunk are gone by then.) A smaller chunk does not change that. Torch's
# version computes the gradients in forward and adds them up in place, so it
# holds one. In return it rules out second derivatives and `torch.func.grad`. A
# **kernel**, a function written for GPUs, goes further: the authors of one
# such kernel report, for Gemma 2 with 2 billion weights, 1 MB for the loss in
# place of 24 GB (https://arxiv.org/abs/2411.09009).
#
# ## What fits?
#
# The whole picture, computed for models with GPT-2's vocabulary and with
# FlashAttention; the lines are stacked, each on the one below, and show the
# moment when backward begins. The sentence beneath them also gives the memory
# of the optimizer's step. Which sliders move the logits, and which do not?
# What does checkpointing leave? When is the optimizer's step the peak?

# %%
learn.what_if("step")

# %% [markdown]
# If there is no formula for a model, measure it. As long as the peak occurs at
# the same moment, it is a straight line over $b$: a fixed amount without any
# sample, and the same amount for each sample. Worked example: 120 bytes for 2
# samples and 160 for 6 samples make 10 for each sample and 100 without any.
#
# ## Exercise 4: the largest micro-batch
#
# ●○○ *8 minutes, stretch.* You have two measured peaks and a budget in bytes.
# What is the largest whole $b$ whose peak is at most the budget? Return 0 if
# not even one sample fits.


# %% tags=["exercise", "stretch"]
def largest_batch(budget, small, large):
    """`small` and `large` are pairs (b, peak in bytes)."""
    ### BEGIN SOLUTION
    each = (large[1] - small[1]) / (large[0] - small[0])
    none = small[1] - small[0] * each
    return max(0, int((budget - none) // each))
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("largest_batch", largest_batch)

# %% [markdown]
# The proof: measure two steps, predict one batch, and then run that batch and
# the next larger one.

# %%
fitting = learn.given("largest_batch")
sizes = micro_batch // 2, micro_batch
small, large = [(b, peak(watched_step(b))) for b in sizes]
budget = int(1.3 * large[1])
b = int(fitting(budget, small, large))
peaks = [peak(watched_step(size)) for size in (b, b + 1)]
print(f"budget {budget:,} bytes; b = {b} takes {peaks[0]:,}", end=", ")
print(f"b = {b + 1} would take {peaks[1]:,}")
assert peaks[0] <= budget < peaks[1]
each = (large[1] - small[1]) / (large[0] - small[0]) / 1e6
learn.my_run("bytes a sample adds to the peak", each, "MB")
none = small[1] / 1e6 - small[0] * each
learn.my_run("peak with no sample", none, "MB")

# %% [markdown]
# ## On a GPU
#
# This lesson measures a CPU. On a GPU the same `ledger.watch` reads torch's
# allocator, and you can ask it yourself
# (https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management):
#
# | number | counts |
# | --- | --- |
# | `torch.cuda.memory_allocated()` | all tensors, now |
# | `torch.cuda.max_memory_allocated()` | the most of that since the start, or since `reset_peak_memory_stats()` |
# | `torch.cuda.max_memory_reserved()` | the most that the allocator took from the driver; it keeps freed memory for later tensors |
# | `nvidia-smi` | what all processes took from the driver: that reserve, and what CUDA needs for itself |
#
# Compare an estimate with `max_memory_allocated`; but the last row is what has
# to fit on the card.
#
# To see *which* tensors fill the memory, record a **memory snapshot**: the
# stack trace of each allocation. The page https://pytorch.org/memory_viz draws
# the file as a timeline, and your data stays on your computer
# (https://docs.pytorch.org/docs/stable/torch_cuda_memory.html).

# %%
if torch.cuda.is_available():
    torch.cuda.memory._record_memory_history()
    on_gpu = torch.randn(1000, 1000, device="cuda", requires_grad=True)
    (on_gpu @ on_gpu).sum().backward()
    torch.cuda.memory._dump_snapshot("step.pickle")
    torch.cuda.memory._record_memory_history(enabled=None)
else:
    print("no GPU here, so there is nothing to record")

# %% [markdown]
# Sometimes a run is out of memory although *reserved* is far above
# *allocated*: the free memory is in pieces, none of which is large enough.
# Sequences of changing length do that. With
# `PYTORCH_ALLOC_CONF=expandable_segments:True` in the environment, the
# allocator lets its pieces grow instead of taking new ones
# (https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-alloc-conf).
#
# ## Quiz

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## Take-away
#
# - Between steps a run holds weights and optimizer states. It holds the most
#   when backward begins, unless the batch is tiny for the model. The
#   optimizer's states come with the first update, so trust the second step.
# - An operation keeps what its derivative needs. Attention without
#   FlashAttention keeps tables of $s^2$ numbers.
# - Checkpointing keeps a block's input, for at most a third more FLOP and the
#   same gradients, as long as it draws the same random numbers.
# - The loss holds three tensors as large as the logits, $4bsV$ bytes each in
#   fp32; a chunked loss holds those of a few positions.
# - A peak is a fixed amount plus the same amount for each sample: two short
#   runs predict what fits.

# %%
learn.take_away()
