# %% [raw]
# ---
# number: "11"
# title: Tensor parallelism
# does: >-
#   cut the matrices of a layer over the ranks, and train without ever
#   gathering a weight
# objectives:
#   - cut an MLP and attention so that one sum is enough for each
#   - say what f and g send in both directions, also with sequence parallelism
#   - work out why tensor parallelism stays inside a node
# minutes: {read: 27, exercises: 42}
# needs: [laptop]
# builds_on: ["05", "07"]
# ---

# %% [markdown]
# One block of GPT-3 is 12,288 wide, and its matrices hold 1.8 billion
# parameters: 3.6 GB in bf16. Data parallel keeps all of them on every rank.
# ZeRO-3 (lesson 16) cuts them up, and gathers them again for each use. **Can
# four ranks each keep a quarter of a layer's matrices, never see the other
# three quarters, and still compute what one rank computes?**
#
# That is **tensor parallelism** (Megatron-LM,
# https://arxiv.org/abs/1909.08053). You write it for the two halves of a
# block, the MLP and attention, and count what the ranks have to send.
# Exercises 1 and 2 are the core and take an hour with the reading; 3 is
# *stretch*.

# %%
from dtlib import learn

learn.start("11")

# %%
from lesson.pictures import draw_question

draw_question()

# %% [markdown]
# Later `ranks` processes, 2 or more, train a small GPT, `width` wide, with
# `heads` heads, for `steps` steps, 20 at most, on the CPU. `ranks` has to
# divide `heads` and the 24 positions of a sequence, and `heads` has to divide
# `width`.

# %% tags=["parameters"]
ranks = 4
width = 48
heads = 12
steps = 4

# %% [markdown]
# ## Your predictions
#
# Answer all three before you read on.

# %%
learn.predict("messages")

# %%
learn.predict("sequence_sends")

# %%
learn.predict("two_nodes")

# %% [markdown]
# ## Two ways to cut a product
#
# A layer multiplies its input X by a matrix A. You can cut A **by columns**:
# each part needs all of X and gives some columns of the result. Or you cut A
# **by rows**: each part needs only some columns of X, and gives a *term* of
# the result. Put columns side by side; add terms up.

# %%
import torch

torch.manual_seed(11)
x, a = torch.randn(3, 4), torch.randn(4, 6)
columns = [x @ part for part in a.chunk(2, dim=1)]
print("side by side:", torch.allclose(torch.cat(columns, dim=1), x @ a))
halves = zip(x.chunk(2, dim=1), a.chunk(2, dim=0))
terms = [some @ part for some, part in halves]
print("added up:", torch.allclose(sum(terms), x @ a))

# %% [markdown]
# (The papers write XA with A as [in, out]. `nn.Linear` keeps the transposed
# matrix, [out, in]: the columns of A are the rows of its weight.)
#
# An **MLP** (multi-layer perceptron) is two such products with a function
# between them, here GELU, which works element by element. So GELU of some
# columns is some columns of GELU. Does the same hold for terms?

# %%
from torch.nn import functional as F

beside = torch.cat([F.gelu(part) for part in columns], dim=1)
print("columns:", torch.allclose(beside, F.gelu(x @ a)))
added = sum(F.gelu(term) for term in terms)
print("terms:", torch.allclose(added, F.gelu(x @ a)))

# %% [markdown]
# ## A sum of terms on three ranks: a worked case
#
# Here A is cut by rows: it has 6 rows, all of them 1, so the right answer is
# 0 + 1 + … + 5 = 15, twice. Each rank takes its own two columns of X and
# its own two rows of A. `tensor_split` also cuts what N does not divide.

# %%
# %%ranks 3
x, a = torch.arange(6.0).view(1, 6), torch.ones(6, 2)
own_x = x.tensor_split(world_size, dim=1)[rank]
own_a = a.tensor_split(world_size, dim=0)[rank]
y = own_x @ own_a
print("my term:", y.tolist())
dist.all_reduce(y)
print("the sum:", y.tolist())

# %% [markdown]
# ## Exercise 1: cut an MLP
#
# ●●○ *12 minutes.* Compute `gelu(x @ a) @ b` so that each rank multiplies
# only with its own part of `a` and of `b`. In a real run a rank would have no
# other part; here you get the whole matrices, in fp64, and cut them first.
# Every rank returns the whole result. The ranks may send no more than one
# all-reduce of it. N need not divide anything.

# %% tags=["exercise"]
import torch
import torch.distributed as dist
from torch.nn import functional as F


def parallel_mlp(x, a, b):
    """gelu(x @ a) @ b. x: [s, h]; a: [h, m]; b: [m, h]."""
    rank, n = dist.get_rank(), dist.get_world_size()
    ### BEGIN SOLUTION
    own_a = a.tensor_split(n, dim=1)[rank]
    own_b = b.tensor_split(n, dim=0)[rank]
    y = F.gelu(x @ own_a) @ own_b
    dist.all_reduce(y)
    return y
    ### END SOLUTION


# %% tags=["check"]
learn.check("parallel_mlp", parallel_mlp)

# %% [markdown]
# ## Why one all-reduce is enough
#
# A cut by columns ends where a cut by rows begins: with some columns of the
# middle on each rank. Between the two nobody has to talk. Any other pair of
# cuts needs a message there. If the first matrix is cut by rows, each rank has
# a term, and GELU needs the whole sum. If both are cut by columns, the second
# product needs the columns of all ranks.

# %%
from lesson.pictures import draw_mlp

draw_mlp()

# %% [markdown]
# ## The way back: f and g
#
# Backward needs a sum, too. Each rank finds the gradient of x through *its*
# columns alone, so the gradients of x have to be added up. Megatron-LM puts
# this into two operators, **f** where x goes in and **g** where y comes out.
# In PyTorch they are autograd functions:
#
# | | forward | backward |
# | --- | --- | --- |
# | f | nothing | all-reduce |
# | g | all-reduce | nothing |
#
# A painted case: each rank multiplies x by its own weight, 1, 10 or 100. The
# sum is 111·x, so the gradient of x is 111. Without f, what does each rank
# have?

# %%
# %%ranks 3
from dtlib.scratch.tensor_parallel import f, g

for enter in (lambda x: x, f):
    x = torch.ones(1, requires_grad=True)
    y = g(enter(x) * 10.0**rank)
    y.backward()
    name = "with f" if enter is f else "without f"
    print(name, "y", y.item(), "gradient of x", x.grad.item())

# %% [markdown]
# Without f the losses of the first step are right, and everything below this
# layer trains with wrong gradients: nothing crashes. The gradients of the
# weights need no message, because only one rank has each of them. Now count
# all messages of the course's MLP, which has f and g
# (`dtlib/scratch/tensor_parallel`). The same run trains the GPT of a later
# section.

# %%
from lesson import tp_runs

sizes = tp_runs.Sizes(ranks=ranks, width=width, heads=heads, steps=steps)
found = tp_runs.run(sizes)
forward, backward = found["tensor"].mlp
learn.measured("messages", len(forward))
learn.table(
    [["forward", *forward], ["backward", *backward]],
    ["", "message"],
    f"What each of {ranks} ranks calls for one MLP",
)

# %% [markdown]
# ## Attention: which columns are whose
#
# Attention's **heads** never look at one another: each has its own queries,
# keys and values. So a rank can do some of the heads from beginning to end.
# But GPT-2 keeps the three projections in *one* matrix, query | key | value.
# Number its columns, for 4 heads of size 2, and cut them for two ranks:

# %%
numbered = torch.arange(3 * 4 * 2)
thirds = zip(("query", "key", "value"), numbered.chunk(3))
for name, third in thirds:
    print(name, [part.tolist() for part in third.chunk(2)])
print("cut straight:", [part.tolist() for part in numbered.chunk(2)])

# %% [markdown]
# Cut straight, rank 0 would get all queries and half of the keys, and no
# value. The following function does the middle part, for as many heads as you
# give it. It is **causal**: a position sees only itself and earlier ones.

# %%
import torch
import torch.distributed as dist
from torch.nn import functional as F


def attend(q, k, v, heads):
    """Causal attention; q, k, v: [s, heads · d], head after head."""
    q, k, v = (t.unflatten(1, (heads, -1)).transpose(0, 1) for t in (q, k, v))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return y.transpose(0, 1).flatten(1)


# %% [markdown]
# ## Exercise 2: cut attention by heads
#
# ●●○ *15 minutes.* Each rank computes heads/N of the heads; N divides
# `heads`. Here a head is d columns wide, and heads · d is not the width h of
# x. The rows of `out` belong to the heads in their order: the first d rows to
# head 0. Every rank returns the whole result, and the ranks send no more than
# one all-reduce of it.


# %% tags=["exercise"]
def parallel_attention(x, qkv, out, heads):
    """attend(q, k, v) @ out.

    x: [s, h]; qkv: [h, 3 · heads · d], query | key | value;
    out: [heads · d, h].
    """
    rank, n = dist.get_rank(), dist.get_world_size()
    ### BEGIN SOLUTION
    thirds = qkv.chunk(3, dim=1)
    own = [third.tensor_split(n, dim=1)[rank] for third in thirds]
    q, k, v = (x @ columns for columns in own)
    y = attend(q, k, v, heads // n) @ out.tensor_split(n)[rank]
    dist.all_reduce(y)
    return y
    ### END SOLUTION


# %% tags=["check"]
learn.check("parallel_attention", parallel_attention)

# %% [markdown]
# The same plan as in the MLP: the first matrix by columns, the second by rows,
# one sum at the end. The number of heads limits N. (In newer models several
# heads of queries share one key and one value: **grouped-query attention**. If
# there are fewer keys than ranks, several ranks keep the same key, and add up
# their gradients of it.)
#
# ## A whole GPT
#
# The course's `TensorParallelGPT` cuts every block in this way, and its
# embedding by words. `tp_runs` has trained it on real ranks, and beside it a
# twin in one process, in fp64. All ranks see the same tokens. (With AdamW we
# don't compare the biases of the keys. Such a bias adds the same to all scores
# of a query, which softmax ignores, so its true gradient is 0; AdamW would
# divide what is left, rounding errors, by their own size.)

# %%
assert tp_runs.worst(found) < 1e-9
learn.table(*tp_runs.distances(found))

# %% [markdown]
# They differ by rounding alone. AdamW enlarges it, because it divides each
# gradient by its own size, also one that is nearly 0. ("Sequence" is the next
# section.) The gradients are clipped: if their norm exceeds 1, they are scaled
# down. A rank needs the norm of the *whole* gradient for that, so the ranks
# add up the squares of what is cut, and count what all of them have only once.
# Now what a rank holds and sends:

# %%
learn.table(*tp_runs.held_and_sent(found))

# %%
part = found["tensor"].cut / found["tensor"].parameters
learn.my_run("part of a small GPT that is cut", part, "of all parameters")
assert found["tensor"].all_reduces == 4 * sizes.layers + 5

# %% [markdown]
# Two f and two g in each block, one g after the embedding, one f before the
# output layer: 4L + 2 all-reduces for L layers, each of s·b·h elements, for b
# sequences of s positions and a model h wide. The loss adds two small ones and
# clipping one. Unlike data parallel's, most of these messages cannot wait,
# because the next matrix needs what arrives. (Only f's all-reduce in backward
# can run beside something: the gradients of the same layer's weights don't
# need it. Megatron-LM does that.)
#
# ## Sequence parallelism
#
# Outside of f and g, norms and dropout (which zeroes some activations at
# random) still work on all positions on every rank, and keep all of their
# activations there. Yet they treat each position by itself. **Sequence
# parallelism** (https://arxiv.org/abs/2205.05198) leaves each rank s/N of the
# positions there:

# %%
from lesson.pictures import draw_sequence

draw_sequence()

# %% [markdown]
# g becomes a reduce-scatter: each rank gets the sum for its own positions
# only. f becomes an all-gather. (The paper names them the other way round: its
# g is the all-gather.) In backward each is what the other was in forward. What
# does that cost, and what does it save?

# %%
plain, sequence = found["tensor"], found["sequence"]
learn.measured("sequence_sends", sequence.sent / plain.sent)
learn.table(*tp_runs.activations(found, sizes))

# %% [markdown]
# An all-reduce *is* a reduce-scatter and an all-gather, so as many elements go
# round the ring. There is one message more: a norm's gradient now comes from
# s/N positions, so these small gradients are added up after backward. (Here
# they are some per cent of all, because a batch has only 48 tokens; how wide
# the model is makes no difference.) The activations shrink from 4 + 12/N to
# 2 + 14/N of s·b·h elements in a block, and a little for the statistics of
# norms and softmax. (Megatron-LM gets 16/N: it also gathers f's output again
# in backward, instead of keeping it.)
#
# ## Exercise 3: a loss that no rank can see
#
# ●●● *15 minutes, stretch.* The output layer is cut by words: each rank has
# the logits of its own words, [s, V/N], and the first of them is word `first`.
# For a vocabulary of 50,257 words we do not want to gather them. The loss of a
# position is log Σ exp(logit) − logit of its label. Return it for each
# position, [s], on every rank. Logits may be 1000 or −1000, and exp(1000) is
# infinite: first subtract from all logits *of a position* the same number. The
# ranks may send no more than an all-reduce of three numbers per position.
# Leave `logits` as they are.


# %% tags=["exercise", "stretch"]
def vocabulary_loss(logits, labels, first):
    """Loss [s] of logits [s, own words] and labels [s], all ranks' words."""
    ### BEGIN SOLUTION
    top = logits.max(dim=1).values
    dist.all_reduce(top, dist.ReduceOp.MAX)
    total = (logits - top[:, None]).exp().sum(dim=1)
    own = (labels >= first) & (labels < first + logits.shape[1])
    column = (labels - first).where(own, 0)
    target = logits.gather(1, column[:, None])[:, 0].where(own, 0)
    sums = torch.stack([total, target])
    dist.all_reduce(sums)
    return sums[0].log() + top - sums[1]
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("vocabulary_loss", vocabulary_loss)

# %% [markdown]
# ## Why it stays inside a node
#
# In each block the ranks wait four times for an all-reduce. How long is that
# beside the computing? Take a block of GPT-3, one sequence of 2048 tokens in
# bf16, and GPUs that reach 400 TFLOP/s, in nodes as in lesson 07: each GPU has
# 450 GB/s inside a node (NVLink), and an adapter of its own with 50 GB/s to
# other nodes. A message also takes 5 µs inside and 15 µs between nodes. An
# all-reduce over several nodes works in two levels. These are formulas,
# nothing is measured:

# %%
from lesson import links

rows = links.block_times([2, 4, 8, 16, 32])
links.draw(rows)

# %%
learn.table(*links.table(rows))

# %%
sixteen = next(row for row in rows if row.ranks == 16)
learn.measured("two_nodes", sixteen.sending / sixteen.computing)

# %% [markdown]
# Twice as many ranks halve the computing. The messages do not shrink: a ring
# sends 2(N−1)/N of the same s·b·h elements for any N, and between nodes a part
# of them is sent once more, on a slower link. So from one node to two the
# efficiency falls much faster than inside a node. If the GPUs of a node share
# a single adapter (last column), two nodes are slower than one. So tensor
# parallelism fills a node, and other kinds of parallelism, which send less or
# can hide it, join the nodes. Where does sending take longer than computing?

# %%
learn.what_if("inside_a_node")

# %% [markdown]
# ## Asynchronous tensor parallelism, as an idea
#
# An all-gather followed by a product need not happen one after the other. A
# rank has its own positions from the start: it can multiply these while the
# neighbour's arrive, and so on round the ring. The product is cut into N
# pieces, and N − 1 messages hide behind them, if a piece takes at least as
# long as a message (https://doi.org/10.1145/3567955.3567959). A simulation for
# 4 ranks:

# %%
from lesson import overlap

overlap.draw(computing=4.0, sending=3.0, n=4)

# %%
learn.table(*overlap.table(computing=4.0, sending=3.0, n=4))

# %% [markdown]
# This takes small pieces, and small products use a GPU less well. PyTorch and
# Megatron-LM can do it; on gloo and a CPU there is nothing to gain.
#
# ## For real: DTensor
#
# PyTorch's own tensor parallelism needs no new MLP. `parallelize_module` turns
# the weights of a module into **DTensors**, tensors that know how they are cut
# over a **mesh** of ranks, and puts f and g around them:

# %%
# %%ranks 2
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import parallel

from dtlib.models.gpt import MLP, GPTConfig

torch.manual_seed(11)
mlp, x = MLP(GPTConfig(width=8, heads=2)), torch.randn(3, 8)
whole = mlp(x)
plan = {
    "c_fc": parallel.ColwiseParallel(),
    "c_proj": parallel.RowwiseParallel(),
}
mesh = init_device_mesh("cpu", (world_size,))
parallel.parallelize_module(mlp, mesh, plan)
for name in plan:
    layer = mlp.get_submodule(name)
    print(name, list(layer.weight.shape), list(layer.weight.to_local().shape))
print("equal:", torch.allclose(mlp(x), whole, atol=1e-6))

# %% [markdown]
# `ColwiseParallel` cuts by columns of A, that is, by rows of `nn.Linear`'s
# weight. The first shape is that of the whole matrix, the second what this
# rank holds. Attention is not as easy: `ColwiseParallel` would cut the one
# matrix query | key | value straight, as in exercise 2. It needs a model with
# three separate projections that works with heads/N heads on a rank.
#
# ## Quiz

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## Take-away
#
# - First matrix by columns, second by rows: one all-reduce for an MLP, and one
#   for attention, whose parts are heads.
# - g sums terms of y in forward, and f sums terms of x's gradient in backward.
#   Without f nothing crashes, and the gradients are wrong.
# - Sequence parallelism sends as much, and keeps fewer activations.
# - The messages do not shrink with N, and most of them cannot wait, so they
#   need the links inside a node.

# %%
learn.take_away()
