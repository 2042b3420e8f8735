# %% [raw]
# ---
# number: "09"
# title: DDP and torchrun
# does: >-
#   write a script that torchrun starts, and prove that two ranks train what
#   one trains
# objectives:
#   - write a training script that torchrun starts on any number of ranks
#   - deal out samples, losses and checkpoints so that ranks change no result
#   - say when two ranks give the bits of one process, and why else they part
# minutes: {read: 25, exercises: 40}
# needs: [laptop]
# builds_on: ["00", "07"]
# ---

# %% [markdown]
# You have a script that trains on one GPU. Tomorrow you get two nodes with
# four GPUs each. **Which lines have to change, and how do you know that what
# it learns is still the same?**
#
# Six places change, and each has its classic mistake. You write what goes
# wrong most often yourself, and then prove that two ranks train what one
# trains. Exercises 1 and 2 are the core and fit an hour with the reading; 3
# and 4 are *stretch*.

# %%
from dtlib import learn

learn.start("09")

# %% [markdown]
# `ranks` is for the long run near the end. `None` means the world that is
# there: all nodes of a Slurm allocation, else two processes here. With `out`,
# a folder's full path, that run goes on from its last checkpoint when the
# notebook is started again, as Slurm does with a job that it requeues.
# `data` may be `"cifar10"` where that is fetched, and `num_samples = None`
# takes all of its training pictures.

# %% tags=["parameters"]
ranks = None
steps = 20
global_batch = 64
data = "pictures"
num_samples = 2000
out = ""

# %% [markdown]
# ## Your predictions
#
# Commit all three before you go on.

# %%
learn.predict("rows_counted")

# %%
learn.predict("two_against_one")

# %%
learn.predict("another_cut")

# %% [markdown]
# ## What torchrun does
#
# `torchrun` starts a script several times on a node, watches the processes,
# and ends all of them when one fails. It tells each who it is by environment
# variables, and that is all it does:
#
# | variable | what it says | two nodes of four, the last rank |
# | --- | --- | --- |
# | `RANK` | which rank of all | 7 |
# | `LOCAL_RANK` | which rank of this node: picks the GPU | 3 |
# | `WORLD_SIZE` | how many ranks in all | 8 |
# | `LOCAL_WORLD_SIZE` | how many on this node | 4 |
# | `GROUP_RANK` | which node | 1 |
# | `MASTER_ADDR`, `MASTER_PORT` | where all of them meet | the first node's |
#
# The next cell writes a whole script into a file. Read it once: the six
# numbered places are what sets it apart from a script for one GPU.

# %%
# %%writefile train_ddp.py
import os
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from dtlib.data import open_images
from dtlib.models.resnet import resnet18

epochs, data, folder = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])

# 1. Who am I, and which device is mine?
local_rank = int(os.environ["LOCAL_RANK"])
on_gpus = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
device = torch.device("cuda", local_rank) if on_gpus else torch.device("cpu")
if on_gpus:
    torch.cuda.set_device(device)
backend = "nccl" if on_gpus else "gloo"
dist.init_process_group(backend, timeout=timedelta(minutes=2))
rank, world_size = dist.get_rank(), dist.get_world_size()


def pictures(split):
    images = open_images(data, split, count=300)
    return TensorDataset(images.pixels / 255 - 0.5, images.labels)


# 2. Every rank opens all pictures, and draws its own share of them.
train, test = pictures("train"), pictures("test")
sampler = DistributedSampler(train, seed=0)
loader = DataLoader(train, batch_size=25, sampler=sampler)

# 3. DDP starts all ranks from rank 0's weights, and averages gradients.
model = resnet18(width=8).to(device)
ddp = DistributedDataParallel(model)
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05, momentum=0.9)

first, checkpoint = 0, folder / "last.pt"
if checkpoint.exists():
    # 4. Onto my own device, not onto the one of the rank that wrote it.
    saved = torch.load(checkpoint, map_location=device)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    first = saved["epochs"]

log = (folder / f"rank{rank}.log").open("a")  # a file for each rank
for epoch in range(first, epochs):
    sampler.set_epoch(epoch)  # else every epoch has the order of the first
    ddp.train()
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(ddp(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} began with {list(sampler)[:5]}", file=log)

    # 5. Sums and counts travel, not means. ddp(x) also hands everybody rank
    # 0's running statistics of BatchNorm, which model(x) would not.
    ddp.eval()
    x, y = (tensor[rank::world_size].to(device) for tensor in test.tensors)
    with torch.no_grad():
        logits = ddp(x)
    hits = (logits.argmax(1) == y).sum()
    loss_sum = F.cross_entropy(logits, y, reduction="sum")
    sums = torch.tensor([loss_sum, hits, len(y)], device=device)
    dist.all_reduce(sums)

    # 6. One rank of all writes; the others wait until it has.
    if rank == 0:
        loss_sum, hits, count = sums.tolist()
        score = f"test loss {loss_sum / count:.5f}, {hits:.0f} right"
        print(f"epoch {epoch}: {score} of {count:.0f}, {world_size} ranks")
        state = {"model": model.state_dict(), "epochs": epoch + 1}
        state["optimizer"] = optimizer.state_dict()
        torch.save(state, folder / "tmp.pt")  # a crash leaves the old one
        (folder / "tmp.pt").replace(checkpoint)
    dist.barrier()
dist.destroy_process_group()

# %% [markdown]
# Now torchrun, on two ranks. `--standalone` says that this node is all there
# is and lets torchrun pick a free port. `learn.shell` runs a command as a
# terminal would, shows what it prints, and raises an error if it fails.

# %%
from pathlib import Path
from shutil import rmtree

rmtree("by_hand", ignore_errors=True)
Path("by_hand").mkdir()
start = "torchrun --standalone --nproc-per-node=2 train_ddp.py"
learn.shell(f"{start} 1 {data} by_hand")

# %% [markdown]
# Only rank 0 printed. What the others have to say is in their own files,
# since lines of several ranks in one file would be cut into each other:

# %%
for path in sorted(Path("by_hand").glob("rank*.log")):
    print(path.name, "|", path.read_text(), end="")

# %% [markdown]
# The same command with two epochs finds the checkpoint and **goes on** with
# epoch 1. Since `set_epoch` is told the epoch's true number, the order is a
# new one, and the one that a run without a break would have had.

# %%
learn.shell(f"{start} 2 {data} by_hand")
for path in sorted(Path("by_hand").glob("rank*.log")):
    print(path.name, "|", *path.read_text().splitlines()[-1:])

# %% [markdown]
# On two nodes you would run this on each of them, and nothing in the script
# changes. `slurm/ddp_baseline.sbatch` does it by `srun`, once per node:
#
# ```
# torchrun --nnodes=2 --nproc-per-node=4 --node-rank=$SLURM_NODEID
#   --master-addr=$first_node --master-port=29500 train_ddp.py …
# ```
#
# ## Who gets which picture?
#
# `DistributedSampler` deals the indices out like cards. Ten pictures, three
# ranks, no shuffling:

# %%
from torch.utils.data import DistributedSampler

dealt = [
    list(DistributedSampler(range(10), 3, rank, shuffle=False))
    for rank in range(3)
]
learn.table(
    [[f"rank {rank}", *mine] for rank, mine in enumerate(dealt)],
    ["", "1st", "2nd", "3rd", "4th"],
    "Ten pictures dealt to three ranks",
)

# %%
learn.measured("rows_counted", sum(map(len, dealt)))

# %% [markdown]
# Pictures 0 and 1 come twice. **All ranks need equally many batches**, since
# each backward is a collective: a rank with one batch more would wait for
# ever. So the sampler pads with the first ones, which training can bear.
#
# With `shuffle=True` the cards are mixed first, by a generator with the seed
# `seed + epoch`. All ranks mix alike, so that they deal from one pack:

# %%
import torch

pack = torch.randperm(8, generator=torch.Generator().manual_seed(0 + 1))
sampler = DistributedSampler(range(8), 2, rank=0, seed=0)
without = [list(sampler) for epoch in (0, 1)]
sampler.set_epoch(1)
print("epochs 0 and 1 without set_epoch:", *without)
print("after set_epoch(1):", list(sampler), "of", pack.tolist())

# %% [markdown]
# ## Exercise 1: deal the cards
#
# ●○○ *10 minutes.* Write the sampler. Each rank calls this with its own
# `rank`. No picture is left out, all ranks get lists of the same length, and
# as few pictures as possible come twice. Another epoch has another order;
# the same epoch, asked again, the same. There may be fewer pictures than
# ranks.


# %% tags=["exercise"]
def my_indices(samples, seed, epoch, rank, world_size):
    """The indices, 0 to samples - 1, of one rank in one epoch: a list."""
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(seed + epoch)
    pack = torch.randperm(samples, generator=generator).tolist()
    each = -(-samples // world_size)
    pack = (pack * world_size)[: each * world_size]
    return pack[rank::world_size]
    ### END SOLUTION


# %% tags=["check"]
learn.check("my_indices", my_indices)

# %%
indices = learn.given("my_indices")
learn.table(
    [
        [epoch, *(str(indices(10, 0, epoch, rank, 3)) for rank in range(3))]
        for epoch in range(3)
    ],
    ["epoch", "rank 0", "rank 1", "rank 2"],
    "Ten pictures, three ranks, three epochs",
)

# %% [markdown]
# ## A score that knows nothing of ranks
#
# Ten pictures, twelve rows: averaged over the rows, a score counts two
# pictures twice. It then depends on the number of ranks, and nobody can
# compare it. How bad is it? The model that you have just trained, and the
# losses of eleven test pictures:

# %%
from torch.nn import functional as F

from dtlib.data import open_images
from dtlib.models.resnet import resnet18

saved = torch.load("by_hand/last.pt", map_location="cpu")
model = resnet18(width=8)
model.load_state_dict(saved["model"])
test = open_images(data, "test", count=11)
with torch.no_grad():
    logits = model.eval()(test.pixels / 255 - 0.5)
losses = F.cross_entropy(logits, test.labels, reduction="none")
losses.tolist()

# %% [markdown]
# ## Exercise 2: padding never counts
#
# ●●○ *10 minutes.* The samples were dealt like cards, without shuffling, and
# padded: your k-th value, k = 0, 1, …, is that of place
# $\text{rank} + k \cdot N$ in the row of all samples, and places from
# `samples` on are padding. Return the mean over the samples, each counted
# once, on every rank. A worked case: 5 samples on 3 ranks are 2 values each,
# and the second one of rank 2 stands at place 5, which does not count.

# %% tags=["exercise"]
import torch.distributed as dist


def exact_mean(values, samples):
    """The mean over all samples. `values`: this rank's, a 1-D tensor."""
    ### BEGIN SOLUTION
    rank, n = dist.get_rank(), dist.get_world_size()
    places = rank + n * torch.arange(len(values))
    mine = values[places < samples]
    sum_and_count = torch.stack([mine.sum(), torch.tensor(float(len(mine)))])
    dist.all_reduce(sum_and_count)
    total, count = sum_and_count.tolist()
    ### END SOLUTION
    return total / count


# %% tags=["check"]
learn.check("exact_mean", exact_mean)

# %% [markdown]
# The same eleven losses on up to seven ranks: the mean of the ranks' means,
# as many scripts print it, and yours.

# %%
import dtlib

exact = learn.given("exact_mean")


def both_means(losses):
    rank, n = dist.get_rank(), dist.get_world_size()
    dealt = DistributedSampler(losses, n, rank, shuffle=False)
    mine = losses[list(dealt)]
    naive = mine.mean()
    dist.all_reduce(naive)
    return naive.item() / n, float(exact(mine, len(losses)))


rows = []
for n in (1, 3, 5, 7):
    results = dtlib.launch(both_means, losses, ranks=n, device="cpu")
    naive, right = results[0]
    rows.append([n, -len(losses) % n, naive, right])

# %%
import matplotlib.pyplot as plt

counts, _, naive, right = zip(*rows)
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.plot(counts, naive, "x--", label="mean of the ranks' means")
axes.plot(counts, right, "o-", mfc="none", label="exact mean")
axes.set(xlabel="ranks", ylabel="test loss, nats", xticks=counts)
axes.legend()
plt.show()

# %%
learn.table(
    rows,
    ["ranks", "rows too many", "mean of means", "exact"],
    "One model, eleven pictures",
)

# %%
assert max(right) - min(right) < 1e-6 * right[0]
spread = (max(naive) - min(naive)) / right[0]
learn.my_run("spread of a padded test loss over ranks", 100 * spread, "%")

# %% [markdown]
# Ten thousand pictures on 64 ranks are 48 rows too many. If the model does 20
# points better on those, the score is 0.1 points too high, enough to decide
# which of two runs was better. When do the ranks repeat most?

# %%
learn.what_if("padding")

# %% [markdown]
# ## A gradient that knows nothing of ranks
#
# DDP hooks into `backward`: as soon as the gradients of a bucket are there
# they are all-reduced, while backward goes on, and **divided by the number of
# ranks**. If every rank's loss is the mean over equally many samples, that is
# the mean over the global batch. Here rank 0 has one sample and rank 1 has
# three. The model is $w \cdot x$ with loss $w \cdot x$, so each sample's
# gradient is its $x$, and the mean over all four is 1.75.


# %%
from torch.nn.parallel import DistributedDataParallel


def one_weight(x, loss_of):
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(model.weight)
    ddp = DistributedDataParallel(model)
    loss_of(ddp(x[:, None]).flatten()).backward()
    return model.weight.grad.item()


uneven = [torch.tensor([4.0]), torch.ones(3)]

# %%
# %%ranks 2
print(one_weight(uneven[rank], torch.mean))

# %% [markdown]
# 2.5 on both: rank 0's one sample weighs as much as rank 1's three. Ranks
# with padded text have unequal numbers of tokens, and a widely used trainer
# was found to do just this in 2024
# (https://github.com/huggingface/transformers/issues/34242).
#
# ## Exercise 3: the mean over everybody's samples
#
# ●●○ *12 minutes, stretch.* `losses` are those of this rank's samples, with
# their graph; a rank may have none. Return what `backward()` is to be called
# on, so that after DDP's division the gradient is that of the mean over the
# samples of all ranks.


# %% tags=["exercise", "stretch"]
def ddp_loss(losses):
    """A 0-d tensor with a graph. `losses`: this rank's, a 1-D tensor."""
    ### BEGIN SOLUTION
    count = torch.tensor(float(len(losses)))
    dist.all_reduce(count)
    return losses.sum() * dist.get_world_size() / count
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("ddp_loss", ddp_loss)

# %% tags=["stretch"]
loss_of = learn.given("ddp_loss")

# %% tags=["stretch"]
# %%ranks 2
print(one_weight(uneven[rank], loss_of))

# %% [markdown]
# ## Exercise 4: one rank writes
#
# ●○○ *8 minutes, stretch.* Write place 6 of the script as a function. Call
# `torch.save(state, path)` on exactly one rank of all, on however many nodes
# (their disk is one), and return on no rank before the file is there.


# %% tags=["exercise", "stretch"]
def save_once(state, path):
    """Save `state` at `path`, once; when this returns, it is there."""
    ### BEGIN SOLUTION
    if dist.get_rank() == 0:
        torch.save(state, path)
    dist.barrier()
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("save_once", save_once)

# %% [markdown]
# ## Equal to one process?
#
# Now the promise of lesson 00 for pictures. One rank can *accumulate*: it
# adds the gradients of two micro-batches before it takes a step. Then two
# ranks with 16 pictures each, and one rank that takes the same 16 and 16 in
# turn, add the same numbers in the same order.
#
# `curve` trains a small ResNet-18 for eight steps of 32 pictures. Inside
# `no_sync` DDP only adds up; gradients travel with the last micro-batch.

# %%
from contextlib import nullcontext

train = open_images(data, "train", count=256)


def curve(norm, dtype, micro_batch):
    """Losses, the first step's gradient, and the weights at the end."""
    rank, n = dist.get_rank(), dist.get_world_size()
    model = resnet18(8, norm).to(dtype)
    weights = list(model.parameters())
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(weights, lr=0.05, momentum=0.9)
    gradients, losses = [], []
    x, y = train.pixels.to(dtype) / 255 - 0.5, train.labels
    for batch in zip(x.split(32), y.split(32)):
        cut = list(zip(*(part.split(micro_batch) for part in batch)))[rank::n]
        mean = torch.zeros((), dtype=torch.float64)
        for k, (inputs, labels) in enumerate(cut, start=1):
            with nullcontext() if k == len(cut) else ddp.no_sync():
                loss = F.cross_entropy(ddp(inputs), labels) / len(cut)
                loss.backward()
            mean += loss.detach() / n
        gradients.append(torch.cat([w.grad.flatten() for w in weights]))
        optimizer.step()
        optimizer.zero_grad()
        dist.all_reduce(mean)
        losses.append(mean.item())
    return losses, gradients[0], torch.nn.utils.parameters_to_vector(weights)


def curves(*settings):
    return [curve(*setting) for setting in settings]


fp32, fp64 = torch.float32, torch.float64
two = dtlib.launch(
    curves,
    *[("batch", fp32, 16), ("group", fp32, 16), ("group", fp64, 16)],
    ranks=2,
    device="cpu",
)[0]
one = dtlib.launch(
    curves,
    *[("batch", fp32, 16), ("batch", fp32, 32)],
    *[("group", fp32, 32), ("group", fp64, 32)],
    ranks=1,
    device="cpu",
)[0]

# %%
same_bits = torch.equal(one[0][2], two[0][2])
words = "identical, bit for bit" if same_bits else "different"
learn.measured("two_against_one", words)
assert same_bits and one[0][0] == two[0][0]

# %% [markdown]
# **Not one bit differs** after eight steps, batch norm included, since each
# micro-batch's statistics are those of the same 16 pictures. (With three
# ranks or more the sum may be added in another order, and last bits differ.)
#
# But cut the batch otherwise, and let one rank take all 32 at once:

# %%
pairs = {
    "same micro-batches, batch norm": (one[0], two[0]),
    "32 at once, batch norm": (one[1], two[0]),
    "32 at once, group norm": (one[2], two[1]),
    "32 at once, group norm, fp64": (one[3], two[2]),
}
apart = {
    name: [abs(x - y) / x for x, y in zip(a[0], b[0])]
    for name, (a, b) in pairs.items()
}
figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
for (name, distances), mark in zip(apart.items(), "osx^"):
    seen = [max(distance, 1e-17) for distance in distances]
    axes.semilogy(range(1, len(seen) + 1), seen, mark + "-", label=name)
axes.set(xlabel="step", ylabel="distance of the losses, relative")
axes.set(ylim=(5e-18, 10))
axes.legend(fontsize=8, loc="center", bbox_to_anchor=(0.55, 0.33))
plt.show()

# %%
learn.table(
    [
        [name, *(f"{apart[name][step]:.0e}" for step in (0, 2, 4, 7))]
        for name in apart
    ],
    ["one rank against two", "step 1", "step 3", "step 5", "step 8"],
    "How far apart the losses are (0 is drawn at 1e-17)",
)

# %%
(a, b), (c, d) = (list(pairs.values())[k] for k in (2, 3))
learn.measured("another_cut", max(apart["32 at once, group norm"]))
first_gradients = float((a[1] - b[1]).norm() / a[1].norm())
print(f"first gradients in fp32, relative distance {first_gradients:.0e}")
assert first_gradients < 1e-5
assert max(apart["32 at once, group norm, fp64"]) < 1e-10

# %% [markdown]
# Three ways to part, and none of them a mistake in the program:
#
# - **Batch norm** averages over the micro-batch. 32 pictures at once is
#   another function than twice 16, from step 1 on. How you cut the batch
#   belongs to the experiment.
# - **Group norm in fp32** is the same function. The first gradients agree to
#   rounding, and then the distance *grows*. Why is below.
# - **The same in fp64** stays together. That is the proof that the program
#   computes the same: were a sample lost or counted twice, fp64 would show
#   it as clearly as fp32.
#
# ## Why a rounding error grows
#
# A ReLU has a kink: at $+10^{-9}$ it passes the whole gradient on, at
# $-10^{-9}$ none of it. If rounding moves one of its many inputs over zero,
# the gradient *jumps*. `amplification` nudges all weights of a small network
# by a relative ε, in fp64 so that rounding itself plays no part, and asks how
# many times ε the gradient changes. Beside it the same network with GELU,
# which has no kink.

# %%
from lesson.kink import amplification

torch.set_num_threads(1)  # for so small a network more of them only wait
x, y = train.pixels[:32].double() / 255 - 0.5, train.labels[:32]
activations = torch.nn.ReLU, torch.nn.GELU
rows = [
    [nudge, *(amplification(a, nudge, x, y) for a in activations)]
    for nudge in (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)
]
learn.table(
    [
        [f"{row[0]:.0e}", *(f"{value:.1f}" for value in row[1:])]
        for row in rows
    ],
    ["ε", "with ReLU, times ε", "with GELU, times ε"],
    "How much a nudge of the weights moves the gradient",
)

# %%
assert max(row[1] for row in rows) > 3 * max(row[2] for row in rows)

# %% [markdown]
# Without a kink the answer is the same at every ε. With ReLU it is, too, as
# long as no unit switches; one that does makes a small nudge hundreds of
# times larger. fp32 nudges by about $10^{-7}$ in each step, and a real model
# has millions of ReLU inputs, so sooner or later it happens. **Two healthy
# fp32 runs with another cut may part; compare their first gradients, or the
# runs in fp64.**
#
# ## For real
#
# `dtlib.train` does all of this: the same samples for any number of ranks,
# exact scores, one writer, resume. In a terminal it is `dtlib train images`.
# Inside a Slurm allocation it starts a torchrun on every node, by `srun`.
#
# Twenty steps teach next to nothing: guessing is right once in ten. An epoch
# of all 10,000 pictures is 156 steps of 64. The network can name 17 % of the
# test pictures after one such epoch and 86 % after four (the recipe stands in
# `dtlib/data/pictures.py`); set `steps` and `num_samples` when you have time.

# %%
settings = dict(
    steps=steps,
    global_batch=global_batch,
    data=data,
    num_samples=num_samples,
    checkpoint_every=max(10, steps // 10),
)
if out:
    settings.update(out=out, resume=True)
run = dtlib.train("images", ranks=ranks, **settings)

# %%
summary = run.summary
n = summary["world_size"]
print(f"{summary['steps']} steps on {n} ranks, records in {run.folder}")
print(f"loss {run.loss:.4f}, test accuracy {summary['metric']:.3f}")
learn.my_run(
    f"test accuracy after {summary['steps']} steps", summary["metric"]
)
if summary["throughput"]:
    learn.my_run(f"throughput on {n} ranks", summary["throughput"], "images/s")
    learn.my_run("throughput of a rank", summary["throughput"] / n, "images/s")

# %% [markdown]
# `metrics.jsonl` holds what all ranks have in common, `rank0.jsonl` and its
# neighbours what each saw for itself, and `checkpoints/` the last two states.

# %%
sorted(
    str(path.relative_to(run.folder))
    for path in run.folder.rglob("*")
    if path.is_file()
)

# %% [markdown]
# ## Quiz

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## Take-away
#
# - torchrun starts a script on every rank and tells it who it is. The script
#   picks its device by `LOCAL_RANK`, and its duties by `RANK`.
# - `set_epoch` before every epoch, with the epoch's true number, also after a
#   resume.
# - Sums and counts travel, not means: for a score, and for a gradient when
#   ranks have unequal numbers of samples.
# - One rank of all writes, and the others wait for it.
# - Same micro-batches: same bits. Another cut: same first gradient, and in
#   fp64 the same run.

# %%
learn.take_away()
