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
#   - say when two ranks give the same bits as one process, and when not
# minutes: {read: 30, exercises: 44}
# needs: [laptop]
# builds_on: ["00", "02", "07"]
# ---

# %% [markdown]
# You have a script that trains on one GPU. Tomorrow you get two nodes with
# four GPUs each. **Which lines have to change, and how do you know that what
# it learns is still the same?**
#
# PyTorch brings two tools: `torchrun` starts the script once for each GPU, and
# DistributedDataParallel (**DDP**) averages the gradients. Six places of the
# script need a decision, and each has its classic mistake. You write the ones
# that go wrong most often yourself, and then prove that two ranks train what
# one rank trains. Exercises 1 and 2 are the core and fit into an hour with the
# reading; 3 and 4 are *stretch*.

# %%
from dtlib import learn

learn.start("09")

# %%
from lesson import pictures

pictures.draw_question()

# %% [markdown]
# `ranks` is for the long run near the end. `None` means all nodes that Slurm,
# a cluster's queue of jobs, has given you, and two processes anywhere else. If
# `out` is a folder's full path, that run resumes from its last **checkpoint**
# (its saved state) when the notebook starts again, as it does in a job that
# Slurm requeues. `data` may be `"cifar10"` once you have fetched it
# (`dtlib fetch cifar10` in a terminal), and `num_samples = None` uses all of
# its training pictures.

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
# Answer all three before you read on.

# %%
learn.predict("rows_counted")

# %%
learn.predict("two_against_one")

# %%
learn.predict("another_cut")

# %% [markdown]
# ## What torchrun does
#
# You run `torchrun` once on every node. There it starts your script as often
# as `--nproc-per-node` says: once by default, and once per GPU with `gpu`. It
# tells each process who it is, by the **environment variables** of the picture
# above: named texts that a process is given when it starts.
#
# | variable | what it says | two nodes of four, the last rank |
# | --- | --- | --- |
# | `RANK` | which of all ranks | 7 |
# | `LOCAL_RANK` | which rank on this node: picks the GPU | 3 |
# | `WORLD_SIZE` | how many ranks there are | 8 |
# | `LOCAL_WORLD_SIZE` | how many are on this node | 4 |
# | `GROUP_RANK` | which node | 1 |
# | `MASTER_ADDR`, `MASTER_PORT` | where all of them meet | the first node's |
#
# It does four things more:
#
# - **Rendezvous**: before any rank starts, the torchruns of all nodes meet and
#   agree on who is which node. There are two ways. With `--node-rank` you
#   number the nodes yourself. With `--rdzv-backend=c10d` (c10d is torch's
#   library for distributed programs) you give all of them one address and one
#   name for the run. One torchrun keeps a table at that address. All of them
#   sign in there, and each gets its node's number from the table.
# - **Restarts**: when a rank fails, its torchrun ends all ranks of its node.
#   With `--max-restarts=1` it then starts them once more, from the script's
#   first line; going on at the last checkpoint is your script's task. Say that
#   a rank of node 1 fails. With c10d its torchrun signs in once more, node 0's
#   torchrun sees that in the table, and both nodes restart. With `--node-rank`
#   nobody looks again: node 0's ranks notice only when a collective fails or
#   times out.
# - **Logs**: `--log-dir` and `--redirects=3` put each rank's output into files
#   of its own.
# - **Threads**: with several ranks it sets `OMP_NUM_THREADS=1`, unless you set
#   it, so that the ranks of a node do not fight for its cores.
#
# Further down one of your ranks fails, and you see restart, logs and threads.
#
# ## Six places
#
# This is a script for one GPU:

# %%
# %%writefile train_one.py
import sys
from pathlib import Path

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from dtlib.data import open_images
from dtlib.models.resnet import resnet18

epochs, data, folder = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def pictures(split):
    images = open_images(data, split, count=300)
    return TensorDataset(images.pixels / 255 - 0.5, images.labels)


train, test = pictures("train"), pictures("test")
loader = DataLoader(train, batch_size=50, shuffle=True)

model = resnet18(width=8).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

first, checkpoint = 0, folder / "last.pt"
if checkpoint.exists():
    saved = torch.load(checkpoint, map_location=device)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    first = saved["epochs"]

for epoch in range(first, epochs):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()

    model.eval()
    x, y = (tensor.to(device) for tensor in test.tensors)
    with torch.no_grad():
        logits = model(x)
    hits = (logits.argmax(1) == y).sum()
    loss = F.cross_entropy(logits, y)
    print(f"epoch {epoch}: test loss {loss:.5f}, {hits} right of {len(y)}")
    state = {"model": model.state_dict(), "epochs": epoch + 1}
    state["optimizer"] = optimizer.state_dict()
    torch.save(state, folder / "tmp.pt")  # a crash leaves the old one
    (folder / "tmp.pt").replace(checkpoint)

# %% [markdown]
# And this is what changes for any number of ranks: six numbered places. Lines
# with `-` go and lines with `+` come; a line with `@@` says at which lines of
# both files the next piece stands. Batch norm keeps **running averages** of
# what it sees in training and uses them in evaluation. A **barrier** is a
# collective that only waits: no rank leaves it before all have come.

# %%
import difflib
from pathlib import Path

from IPython.display import Markdown
from lesson import kink

ddp_script = Path(kink.__file__).with_name("train_ddp.py").read_text()
Path("train_ddp.py").write_text(ddp_script)
one_script = Path("train_one.py").read_text()
lines = difflib.unified_diff(
    one_script.splitlines(), ddp_script.splitlines(), n=1, lineterm=""
)
Markdown("\n".join(["```diff", *list(lines)[2:], "```"]))

# %% [markdown]
# `torch.accelerator` is whichever kind of GPU this build of torch is for, so
# the script names no vendor. A node with fewer GPUs than ranks computes on its
# CPU, so the script prints what it uses. The **backend** carries out the
# collectives: NCCL (NVIDIA's library of collectives) between NVIDIA GPUs, gloo
# between CPUs. `device_id` ties this process's group to one GPU: NCCL then
# connects at once, so an error shows here and not in the first step, and
# `barrier` knows which GPU to use.

# %% [markdown]
# Now run it with torchrun, on two ranks, for two **epochs**: an epoch is a
# pass over all training pictures, and their numbers start at 0. `--standalone`
# says that there is no other node, and lets torchrun pick a free port. To show
# a restart, `fails_once.py` notes who is who, runs your script, and ends rank
# 1 after the first epoch, once.

# %%
# %%writefile fails_once.py
import os
import runpy
import sys
from pathlib import Path

import torch.distributed as dist

names = "RANK", "LOCAL_RANK", "WORLD_SIZE", "GROUP_RANK", "OMP_NUM_THREADS"
values = " ".join(f"{name}={os.environ[name]}" for name in names)
rank, start = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
with Path(sys.argv[3], f"rank{rank}.log").open("a") as log:
    print(f"start {start}: {values}", file=log)
barrier = dist.barrier


def barrier_and_end():
    barrier()
    if rank == "1" and start == "0":
        sys.exit("rank 1 fails")


dist.barrier = barrier_and_end
runpy.run_path("train_ddp.py")

# %% [markdown]
# `learn.shell` runs a command as a terminal would, and raises an error if it
# fails. `env -u` removes the number of threads that the notebook has set.
# `TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1` gives each start a new store of the
# ranks' addresses, because in this version of torch a restarted rank may
# otherwise look for another one at its old address
# (https://github.com/pytorch/pytorch/issues/135712).

# %%
from shutil import rmtree

for folder in ("by_hand", "logs"):
    rmtree(folder, ignore_errors=True)
    Path(folder).mkdir()
learn.shell(
    "env -u OMP_NUM_THREADS TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun"
    " --standalone --nproc-per-node=2 --max-restarts=1 --log-dir=logs"
    f" --redirects=3 fails_once.py 2 {data} by_hand",
    quiet=True,
)
for path in sorted(Path("logs").rglob("stdout.log")):
    print(*path.parts[-3:-1], "|", path.read_text().strip())

# %% [markdown]
# In both attempts only rank 0 prints. (After so few steps the score is no
# better than guessing.) Each rank also writes a log of its own, because lines
# from several ranks in one file would be mixed up:

# %%
for path in sorted(Path("by_hand").glob("*.log")):
    print(f"{path.name}:\n{path.read_text()}")
    begins = [line.split(":")[0][:7] for line in path.open()]
    assert begins == ["start 0", "epoch 0", "start 1", "epoch 1"]

# %% [markdown]
# Both ranks started twice, though only rank 1 had failed. The second start
# found the checkpoint of epoch 0 and **resumed** at epoch 1. Because
# `set_epoch` gets the epoch's true number, the order of the pictures is new,
# and the same as in a run without a break.
#
# On two nodes you run torchrun on each of them, and nothing in the script
# changes. Its folder has to be on a disk that both nodes share: otherwise only
# one node would find the checkpoint, and its ranks would resume alone. (If you
# have no Slurm cluster, skip to the next heading; lesson 25 explains Slurm.)
#
# In a Slurm job `srun` runs a command on every node, and c10d restarts both
# nodes. That needs the variable from above here, too:
#
# ```
# export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
# first_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
# srun --ntasks-per-node=1 torchrun --nnodes=2 --nproc-per-node=4 \
#   --rdzv-backend=c10d --rdzv-id=$SLURM_JOB_ID \
#   --rdzv-endpoint=$first_node:29400 --max-restarts=1 train_ddp.py …
# ```
#
# `slurm/ddp_baseline.sbatch` numbers the nodes instead, and when a node fails
# it lets `srun` end the job. `$SLURM_NODEID` differs between the nodes, but
# the job's script runs on the first one and would fill in 0 for all. So a
# shell on each node reads it: the quotes keep it whole until then.
#
# ```
# export first_node
# srun --ntasks-per-node=1 --kill-on-bad-exit=1 bash -c 'torchrun \
#   --nnodes=2 --nproc-per-node=4 --node-rank=$SLURM_NODEID \
#   --master-addr=$first_node --master-port=29500 train_ddp.py …'
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
# Pictures 0 and 1 come twice. **All ranks need equally many batches**, because
# each backward is a collective: a rank with one more batch would wait until
# the time-out, or add its gradient to whatever the others all-reduce next. So
# the sampler adds **padding**, rows that only fill up: it repeats the first
# pictures. Training can bear that. (Inside `with ddp.join():` ranks that have
# run out answer the others' all-reduces with zeros instead.)
#
# With `shuffle=True` the cards are shuffled first, by a generator with the
# seed `seed + epoch`. All ranks shuffle alike, so they deal from one pack. The
# sum makes epoch 1 of seed 0 the same order as epoch 0 of seed 1: harmless in
# one run, but runs with neighbouring seeds share orders.

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
# as few pictures as possible come twice. Shuffle anew for each epoch and each
# seed; asked again for the same two, you return the same order. There may be
# fewer pictures than ranks.


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
        [epoch, *(str([*indices(10, 0, epoch, r, 3)]) for r in range(3))]
        for epoch in range(3)
    ],
    ["epoch", "rank 0", "rank 1", "rank 2"],
    "Ten pictures, three ranks, three epochs",
)

# %% [markdown]
# ## A score that knows nothing of ranks
#
# Ten pictures, twelve rows: a score that is averaged over the rows counts two
# pictures twice. It then depends on the number of ranks, so nobody can compare
# it with another run's. How bad is it? Take the model that you have
# just trained and, so that there is padding, eleven test pictures:

# %%
import torch.distributed as dist
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
# padded: on N ranks your k-th value, k = 0, 1, …, belongs to place
# $\text{rank} + k \cdot N$ in the row of all samples, and every place from
# `samples` on is padding. Return the mean over the samples, each counted
# once, on every rank. A worked case: 5 samples on 3 ranks are 2 values each,
# and the second one of rank 2 stands at place 5, which does not count.


# %% tags=["exercise"]
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
# The same eleven losses on one process, on three ranks and on five: the mean
# of the ranks' means, as many scripts print it, and yours.

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


rows = [[1, 0, losses.mean().item(), losses.mean().item()]]
for n in (3, 5):
    results = dtlib.launch(both_means, losses, ranks=n, device="cpu")
    rows.append([n, -len(losses) % n, *results[0]])

# %%
pictures.draw_means(rows)

# %%
learn.table(
    rows,
    ["ranks", "rows too many", "mean of means", "exact"],
    "One model, eleven pictures",
)

# %%
_, _, naive, right = zip(*rows)
assert max(right) - min(right) < 1e-6 * right[0]
spread = (max(naive) - min(naive)) / right[0]
learn.my_run("spread of a padded test loss over ranks", 100 * spread, "%")

# %% [markdown]
# Ten thousand pictures on 64 ranks have 48 rows too many. If the model does 20
# points better on those, the score is 0.1 points too high, enough to decide
# which of two runs was better. When do the ranks repeat most?

# %%
learn.what_if("padding")

# %% [markdown]
# ## A gradient that knows nothing of ranks
#
# DDP uses **hooks**, functions that `backward` calls when a gradient is ready:
# as soon as a group of gradients (a **bucket**) is complete, DDP all-reduces
# it while backward continues, and **divides it by the number of ranks**. If
# every rank's loss is the mean over equally many samples, the result is the
# gradient of the mean over the global batch. Here rank 0 has one sample and
# rank 1 has three. The model is $w \cdot x$ with loss $w \cdot x$, so each
# sample's gradient is its $x$, and the mean over all four is 1.75.


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
# ## What else DDP can do
#
# - `gradient_as_bucket_view=True`: each `.grad` is a view into its bucket, so
#   the gradients are held once instead of twice.
# - `find_unused_parameters=True` searches the graph after each forward for
#   weights that will get no gradient; without it, DDP refuses the second step
#   of such a model. `static_graph=True` says that the same weights are used in
#   every step, so one search is enough.
# - A **communication hook** replaces the all-reduce: `bf16_compress_hook`
#   sends two bytes a number instead of four.
# - **Clipping** needs nothing new: after `backward` every rank holds the same
#   mean gradient, so `clip_grad_norm_` finds the same norm everywhere.
# - `SyncBatchNorm.convert_sync_batchnorm(model)` computes a batch norm's
#   statistics over all ranks, on GPUs only. Each such layer then costs two
#   collectives a step: an all-gather in forward, an all-reduce in backward.

# %%
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks


def one_step(hook=None, unused=False, steps=1, **settings):
    """Bytes of all gradients' memory, the gradient, and its clipped norm."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU())
    model.append(torch.nn.Linear(64, 8))
    if unused:
        model.spare = torch.nn.Linear(4, 4)
        model.forward = lambda x: model[2](model[1](model[0](x)))
    ddp = DistributedDataParallel(model, **settings)
    if hook is not None:
        ddp.register_comm_hook(None, hook)
    torch.manual_seed(dist.get_rank())
    try:
        for _ in range(steps):
            ddp.zero_grad()
            ddp(torch.randn(16, 64)).square().mean().backward()
    except RuntimeError as error:
        return str(error).split(". ")[0]
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    memory = {g.untyped_storage().data_ptr() for g in grads}
    flat = torch.cat([g.flatten() for g in grads])
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
    return len(memory), flat, norm.item()


def try_options():
    return {
        "plain": one_step(),
        "as view": one_step(gradient_as_bucket_view=True),
        "bf16": one_step(default_hooks.bf16_compress_hook),
        "unused": one_step(unused=True, steps=2),
        "found": one_step(unused=True, steps=2, find_unused_parameters=True),
        "static": one_step(unused=True, steps=2, static_graph=True),
    }


tried = dtlib.launch(try_options, ranks=2, device="cpu")
plain, view, bf16 = (tried[0][key] for key in ("plain", "as view", "bf16"))
print("pieces of memory for four gradients:", plain[0], "; as views:", view[0])
error = float((bf16[1] - plain[1]).norm() / plain[1].norm())
print(f"bf16 on the way: relative error of the gradient {error:.0e}")
print("norm before clipping, by rank:", [one["plain"][2] for one in tried])
print("a weight without gradient:", tried[0]["unused"])
assert plain[0] == 4 and view[0] == 1 and 1e-4 < error < 1e-2
assert tried[0]["plain"][2] == tried[1]["plain"][2]
assert isinstance(tried[0]["unused"], str)
assert not isinstance(tried[0]["found"], str)
assert not isinstance(tried[0]["static"], str)

# %% [markdown]
# ## Exercise 4: one rank writes
#
# ●●○ *12 minutes, stretch.* Write place 6 of the script as a function. Call
# `torch.save` on exactly one of all ranks, however many nodes there are (they
# share one disk), and return on no rank before `state` is at `path`. If the
# disk is full, `torch.save` raises an error on that rank (a RuntimeError, not
# an OSError, so catch any `Exception`) and leaves a broken file. Then an older
# file at `path` has to be there as before, and **every** rank raises an error
# instead of waiting until the time-out for a rank that is gone.
# `dist.broadcast_object_list(list)` replaces the objects in the list of every
# rank by those of rank 0.


# %% tags=["exercise", "stretch"]
def save_once(state, path):
    """Save `state` at `path`, once; when this returns, it is there."""
    ### BEGIN SOLUTION
    told = [None]
    if dist.get_rank() == 0:
        try:
            torch.save(state, f"{path}.tmp")
            Path(f"{path}.tmp").replace(path)
        except Exception as error:
            told = [error]
    dist.broadcast_object_list(told)
    if told[0] is not None:
        raise told[0]
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("save_once", save_once)

# %% [markdown]
# ## Equal to one process?
#
# Now the promise of lesson 00 for pictures. One rank can *accumulate*: it
# adds the gradients of two micro-batches before it takes a step. Two ranks
# with 16 pictures each then add the same numbers, in the same order, as one
# rank that takes the same 16 and 16 in turn.
#
# `curve` trains a small ResNet-18 for eight steps of 32 pictures. Inside
# `no_sync` DDP only adds up; gradients travel with the last micro-batch. The
# two ranks first train the three settings of `together` as one group. Then
# each trains its row of `by_one` alone, as one process would: in a **process
# group** (the ranks that a collective reaches) of one rank.

# %%
from contextlib import nullcontext

train = open_images(data, "train", count=256)


def curve(norm, dtype, micro_batch, group=None):
    """Losses, the first gradient; at the end weights and running averages."""
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    model = resnet18(8, norm).to(dtype)
    weights = list(model.parameters())
    ddp = DistributedDataParallel(model, process_group=group)
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
        dist.all_reduce(mean, group=group)
        losses.append(mean.item())
    end = torch.nn.utils.parameters_to_vector(weights)
    averages = [b for name, b in model.named_buffers() if "running" in name]
    return losses, gradients[0], end, averages


def curves(together, by_one):
    alone, _ = dist.new_subgroups(1)  # groups of one rank: mine, and all
    shared = [curve(*setting) for setting in together]
    return shared, [curve(*one, alone) for one in by_one[dist.get_rank()]]


fp32, fp64 = torch.float32, torch.float64
together = [("batch", fp32, 16), ("group", fp32, 16), ("group", fp64, 16)]
by_one = [
    [("batch", fp32, 16), ("group", fp32, 32)],  # on rank 0
    [("batch", fp32, 32), ("group", fp64, 32)],  # on rank 1
]
(two, on_0), (_, on_1) = dtlib.launch(
    curves, together, by_one, ranks=2, device="cpu"
)
one = [on_0[0], on_1[0], on_0[1], on_1[1]]

# %%
same_bits = torch.equal(one[0][2], two[0][2])
words = "identical, bit for bit" if same_bits else "different"
learn.measured("two_against_one", words)
assert same_bits and one[0][0] == two[0][0]
pairs = zip(one[0][3], two[0][3])
furthest = max(float((a - b).norm() / a.norm()) for a, b in pairs)
print(f"running averages of batch norm, up to {furthest:.0%} apart")
assert furthest > 0.01

# %% [markdown]
# **Not one bit of the weights differs** after eight steps, batch norm
# included, because each micro-batch's statistics are those of the same 16
# pictures. (With three ranks or more the sum may be added in another order,
# and the last bits differ.)
#
# But batch norm's running averages do differ: one process updates them with
# every micro-batch, and rank 0 only with its own half of them. So scores and
# checkpoints differ, too. (`dtlib` averages them over the ranks before it
# evaluates, so that every rank's pictures count.)
#
# But now split the batch differently, and let one rank take all 32 at once:

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
pictures.draw_apart(apart)

# %%
learn.table(
    [
        [name, *(f"{apart[name][step]:.0e}" for step in (0, 2, 4, 7))]
        for name in apart
    ],
    ["one rank against two", "step 1", "step 3", "step 5", "step 8"],
    "How far apart the losses are",
)

# %%
(a, b), (c, d) = (list(pairs.values())[k] for k in (2, 3))
learn.measured("another_cut", max(apart["32 at once, group norm"]))
first_gradients = float((a[1] - b[1]).norm() / a[1].norm())
print(f"first gradients in fp32, relative distance {first_gradients:.0e}")
assert first_gradients < 1e-5
assert max(apart["32 at once, group norm, fp64"]) < 1e-10

# %% [markdown]
# Three results, and no mistake in the program behind any of them:
#
# - **Batch norm** averages over the micro-batch. 32 pictures at once are
#   another function than twice 16, from step 1 on. How you split the batch
#   is part of the experiment.
# - **Group norm in fp32** is the same function. The first gradients agree to
#   rounding, and then the distance *grows*. Why is below.
# - **The same in fp64** stays together. That is the proof that the program
#   computes the same: were a sample lost or counted twice, fp64 would show
#   it as clearly as fp32.
#
# ## Why a rounding error grows
#
# A ReLU (rectified linear unit, $\max(0, x)$) has a kink: at $+10^{-9}$ it
# passes the whole gradient on, at $-10^{-9}$ none of it. If rounding moves one
# of its many inputs over zero, the gradient *jumps*. `amplification` nudges
# all weights of a small network by a relative ε, in fp64 so that rounding
# itself plays no part, and divides the gradient's relative change by ε. Beside
# it the same network with GELU (the Gaussian error linear unit), which has no
# kink.

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
# Without a kink the gradient's change over ε is the same at every ε. With ReLU
# it is the same only while no unit switches on or off. One that does can make
# the gradient change hundreds of times as much as the weights or more. fp32
# nudges by about $10^{-7}$ in each step, and a real model has millions of
# ReLU inputs, so sooner or later it happens. **Two healthy fp32 runs that
# split the batch differently may drift apart; compare their first gradients,
# or run both in fp64.**
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
# - On each node torchrun starts as many processes as `--nproc-per-node` says,
#   tells each who it is, and ends and restarts them together; other nodes
#   follow only with c10d. The script picks its device by `LOCAL_RANK`, and its
#   duties by `RANK`.
# - `set_epoch` before every epoch, with the epoch's true number, also after a
#   resume.
# - Sums and counts travel, not means: for a score, and for a gradient when
#   ranks have unequal numbers of samples.
# - One of all ranks writes; the others wait for it, and learn when it fails.
# - Two ranks, deterministic kernels, the same micro-batches: weights of the
#   same bits. Another cut, without batch norm: the same first gradient up to
#   rounding, and in fp64 the same run.

# %%
learn.take_away()
