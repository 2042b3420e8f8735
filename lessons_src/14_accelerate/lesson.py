# %% [raw]
# ---
# number: "14"
# title: Accelerate
# does: >-
#   run one script as DDP, FSDP and DeepSpeed by configuration, and disarm its
#   traps
# objectives:
#   - turn a loop for one process into one for any device, with four lines
#   - run one script as DDP, FSDP and DeepSpeed by configuration alone
#   - keep rate, batch, last step and score right on any number of processes
# minutes: {read: 30, exercises: 44}
# needs: [laptop]
# builds_on: ["09"]
# ---

# %% [markdown]
# You write one training loop, and it runs on a laptop and on eight GPUs,
# sharded or not, without another edit: that is what Hugging Face
# **Accelerate** promises. **What does it change for you, and what does it
# change without telling you?**
#
# You run one script under three configurations and see what each rank holds.
# Under **DDP** (distributed data parallel) every rank holds the whole model.
# Two others cut what DDP repeats into pieces, the **shards**, one for each
# rank: torch's **FSDP** (fully sharded data parallel), and **ZeRO** (zero
# redundancy optimizer), which comes from the library DeepSpeed. Then come five
# traps, and you measure each of them. Exercises 1 and 2 are the core and fit
# into an hour with the reading; 3 and 4 are *stretch*.

# %%
from dtlib import learn

learn.start("14")

# %%
from lesson.pictures import draw_question

draw_question()

# %% [markdown]
# A **collective** is a call in which all ranks take part, such as an
# all-reduce (lesson 07). **gloo** and **NCCL** carry the messages: gloo
# between CPUs, NCCL between NVIDIA GPUs.
#
# `processes` is the number of ranks that run the script below, and `samples`
# the number of images that they share. On a machine with at least as many
# GPUs as ranks, the ranks use the GPUs, and nothing else changes.

# %% tags=["parameters"]
processes = 2
samples = 256

# %% [markdown]
# ## Your predictions
#
# Commit all three before you go on.

# %%
learn.predict("fsdp_without_a_gpu")

# %%
learn.predict("rate_is_zero")

# %%
learn.predict("tail_gradient")

# %% [markdown]
# ## Four lines
#
# Four lines turn a loop for one process into a loop for any device:
#
# | line | what it does |
# | --- | --- |
# | `accelerator = Accelerator()` | finds this process's rank and device |
# | `prepare(model, optimizer, loader)` | wraps the model, gives each rank its own batches, moves model and batches to the device |
# | `accelerator.backward(loss)` | replaces `loss.backward()`: divides the loss by the number of micro-batches that a step accumulates (lesson 02), and in fp16, numbers of 16 bits, multiplies it so that small gradients do not round to 0 |
# | `accelerator.reduce`, `gather_for_metrics` | combine the ranks' numbers for whatever you print or score |
#
# The next cell writes a script. Besides the four lines it divides a batch
# among the ranks, leaves out a last one that is not full (trap 5 says why)
# and, after the loop, counts what a rank holds. On GPUs,
# `rehearsal.accelerator()` is `Accelerator()`. Accelerate 1.15 turns FSDP on
# only for GPUs and similar devices, as you will see in trap 1. On CPU ranks,
# `rehearsal` turns it on, and from there on Accelerate's own code runs.

# %%
# %%writefile train_accelerate.py
import json
import sys
from pathlib import Path

import torch
from accelerate.utils import set_seed
from lesson import rehearsal
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dtlib.data import open_images

samples, batch = map(int, sys.argv[1:])
accelerator = rehearsal.accelerator()
set_seed(0)  # the same first weights on every rank

images = open_images("pictures", "train", count=samples)
data = TensorDataset(images.pixels / 255 - 0.5, images.labels)
each = batch // accelerator.num_processes
loader = DataLoader(data, batch_size=each, drop_last=True)
model = nn.Sequential(
    nn.Flatten(), nn.Linear(3072, 64), nn.GELU(), nn.Linear(64, 10)
)
set_seed(0, device_specific=True)  # other draws on each rank: dropout, crops
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
everything = sum(p.numel() for p in model.parameters())
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

for x, y in loader:
    loss = nn.functional.cross_entropy(model(x), y)
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    mean = accelerator.reduce(loss.detach(), "mean").item()


def here(tensor):
    """Count the numbers of a tensor that this rank holds."""
    local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return local.numel()


held = sum(here(p) for p in model.parameters())
state = optimizer.optimizer if hasattr(optimizer, "optimizer") else optimizer
moments = sum(
    here(value)
    for values in state.state.values()
    for value in values.values()
    if isinstance(value, torch.Tensor) and value.numel() > 1
)
if accelerator.is_main_process:
    kind, wrapper = accelerator.distributed_type.name, type(model).__name__
    result = [kind, wrapper, mean, held, moments, everything]
    Path("result.json").write_text(json.dumps(result))
rehearsal.leave(accelerator)  # on GPUs: accelerator.end_training()

# %% [markdown]
# A **configuration** is a small YAML file. `accelerate config` asks you what
# you want and writes one. Here you write three, which differ in a few lines.
# Port 0 means any free port. FSDP puts a layer together from its shards just
# before the layer computes. `SIZE_BASED_WRAP` makes it do so one layer at a
# time, for layers of more than `fsdp_min_num_params` weights. `zero_stage: 2`
# cuts gradients and **optimizer state**, which is whatever the optimizer
# remembers from step to step, into shards.

# %%
from pathlib import Path

import torch

on_gpus = torch.cuda.device_count() >= processes
common = f"""\
compute_environment: LOCAL_MACHINE
num_machines: 1
main_process_port: 0
num_processes: {processes}
mixed_precision: 'no'
use_cpu: {str(not on_gpus).lower()}
"""
own = {
    "ddp": "distributed_type: MULTI_GPU\n",
    "fsdp": """\
distributed_type: FSDP
fsdp_config:
  fsdp_version: 2
  fsdp_auto_wrap_policy: SIZE_BASED_WRAP
  fsdp_min_num_params: 1000
""",
    "zero2": """\
distributed_type: DEEPSPEED
deepspeed_config:
  zero_stage: 2
  gradient_accumulation_steps: 1
""",
}
for name, lines in own.items():
    Path(f"{name}.yaml").write_text(common + lines)
print(Path("fsdp.yaml").read_text())

# %% [markdown]
# `accelerate launch` reads the file, turns it into **environment variables**,
# and starts the script with torchrun's machinery, on CPU ranks as well:
# `MULTI_GPU` only says that there are several ranks. You launch all three
# files and, to compare, run the script on one rank; each start imports all
# libraries anew, so the cell is a slow one. (The course installs
# DeepSpeed on Linux only; without it there is no row `zero2`.)

# %%
import importlib.util
import json
import os
import runpy
import sys

import dtlib

os.environ["OMP_NUM_THREADS"] = "1"
batch = processes * (32 // processes)  # 32, or what N ranks can share evenly
command = f"train_accelerate.py {samples} {batch}"
results = {}


def run_script():
    sys.argv = command.split()
    runpy.run_path("train_accelerate.py", run_name="__main__")


dtlib.launch(run_script, ranks=1)
results["one process"] = json.loads(Path("result.json").read_text())

if not importlib.util.find_spec("deepspeed"):
    del own["zero2"]
for name in own:
    launch = f"accelerate launch --config_file {name}.yaml"
    learn.shell(f"{launch} {command}", quiet=True)
    results[name] = json.loads(Path("result.json").read_text())

# %%
learn.table(
    [[name, *result[:-1]] for name, result in results.items()],
    ["", "type", "model is a", "last loss", "weights held", "moments held"],
    "One script; numbers that rank 0 holds",
)

# %% [markdown]
# The loss equals that of one process, up to rounding, and rank 0 holds what
# each strategy promises. (`dtlib.launch` starts even one rank as a member of a
# group, so the first row shows DDP, too.) AdamW's state is two running
# averages for every weight, its **moments**. Under DDP a rank holds all
# weights and all moments, under ZeRO stage 2 all weights and a shard of the
# moments, and under FSDP a shard of both. What you cannot see without GPUs is
# NCCL, and with it all times: how long a message takes, and how much of it
# hides behind backward.

# %%
import math

alone, everything = results["one process"][2], results["one process"][-1]
rows = [(64, 3072), (64, 1), (10, 64), (10, 1)]  # and numbers in a row
# FSDP cuts every tensor between two rows, and rank 0 gets as many as any rank
shard = sum(math.ceil(count / processes) * numbers for count, numbers in rows)
held = {
    "fsdp": (shard, 2 * shard),
    "zero2": (everything, 2 * everything / processes),
}
for name, (_, _, loss, weights, moments, _) in results.items():
    assert abs(loss - alone) < 1e-5 * alone, name
    right = held.get(name, (everything, 2 * everything))
    # ZeRO pads a little, so that all ranks hold equally much
    close = abs(moments - right[1]) <= 8 * processes
    assert weights == right[0] and close, name

# %% [markdown]
# ## Several ways at once: the mesh
#
# Large runs combine strategies. A `ParallelismConfig` arranges the ranks in a
# **mesh**, a grid with a size for each strategy. `dp_replicate_size` is the
# number of whole copies of the model, and `dp_shard_size` the number of shards
# of each copy. `tp_size` ranks compute each layer together (**tensor
# parallelism**); `cp_size` and `sp_size` ranks share each sequence (**context
# parallelism** and **sequence parallelism**, in two ways). The product of the
# sizes must be the number of ranks. With four ranks you can have 2 copies of 2
# shards, or 2 shards, each on 2 ranks that compute every layer together. (On
# CPU ranks Accelerate refuses a mesh; `rehearsal` builds the same one there.)


# %%
from lesson import rehearsal

fsdp = {
    "ACCELERATE_USE_FSDP": "true",
    "FSDP_VERSION": "2",
    "FSDP_AUTO_WRAP_POLICY": "SIZE_BASED_WRAP",
    "FSDP_MIN_NUM_PARAMS": "1000",
}


def placed(sizes):
    """A rank's place in the mesh, its first batch, the weights it holds."""
    from accelerate import ParallelismConfig
    from torch.utils.data import DataLoader

    os.environ.update(fsdp)
    config = ParallelismConfig(**sizes)
    accelerator = rehearsal.accelerator(parallelism=config)
    mesh = accelerator.torch_device_mesh
    place = dict(zip(mesh.mesh_dim_names, mesh.get_coordinate()))
    loader = accelerator.prepare(DataLoader(range(16), batch_size=2))
    first = next(iter(loader)).tolist()
    if "tp_size" in sizes:  # a model needs a plan that says how to cut layers
        return place, first, "-"
    model = torch.nn.Sequential(torch.nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = accelerator.prepare(model, optimizer)
    held = sum(p.to_local().numel() for p in model.parameters())
    return place, first, held


copies = dict(dp_replicate_size=2, dp_shard_size=2)
layers = dict(dp_shard_size=2, tp_size=2)
meshes = [
    dtlib.launch(placed, sizes, ranks=4, device="cpu", show=False)
    for sizes in (copies, layers)
]
learn.table(
    [
        [rank, *map(str, row)]
        for found in meshes
        for rank, row in enumerate(found)
    ],
    ["rank", "place in the mesh", "first batch", f"of {64 * 64 + 64} weights"],
    "Two meshes of four ranks",
)

# %% [markdown]
# Two copies of two shards: all four ranks have batches of their own, and each
# holds a half of the weights. Two ranks that share a layer have to see **the
# same batch**, so four ranks then take only two batches at a time.

# %%
assert [row[1] for row in meshes[0]] == [[0, 1], [2, 3], [4, 5], [6, 7]]
assert [row[1] for row in meshes[1]] == [[0, 1], [0, 1], [2, 3], [2, 3]]
assert {row[2] for row in meshes[0]} == {(64 * 64 + 64) // 2}

# %% [markdown]
# ## Trap 1: what you asked for is not what you got
#
# Now run `Accelerator(cpu=True)` on two CPU ranks, without `rehearsal`. The
# variable by which `accelerate launch` asks for FSDP is set:


# %%
def plain(cpu):
    from accelerate import Accelerator

    os.environ["ACCELERATE_USE_FSDP"] = "true"
    accelerator = Accelerator(cpu=cpu)
    model = accelerator.prepare(torch.nn.Linear(64, 64))
    held = sum(p.numel() for p in model.parameters())
    kind, n = accelerator.distributed_type.name, accelerator.num_processes
    return kind, n, type(model).__name__, held


found = dtlib.launch(plain, True, ranks=2, device="cpu")[0]
kind, _, wrapper, held = found
print(kind, wrapper, f"holds {held} of {64 * 64 + 64}")
silent = "DDP, each rank holding all of the model, without a word"
sharded = "FSDP, each rank holding a half of the model"
learn.measured("fsdp_without_a_gpu", silent if "Data" in wrapper else sharded)

# %% [markdown]
# You get no error and no warning, and you save no memory. What does
# `Accelerator()` do without `cpu=True`, on a machine that has no GPU?

# %%
if not torch.cuda.is_available():
    kind, n, wrapper, _ = dtlib.launch(plain, False, ranks=2)[0]
    print(f"{kind}, num_processes {n}, the model is a {wrapper}")
    assert (kind, n, wrapper) == ("NO", 1, "Linear")

# %% [markdown]
# Each process believes that it is the only one, so both train alone, each on
# all of the data. Whenever one library hides another one from you, **print
# what you got**: the type, the wrapper, and how many numbers a rank holds.
#
# ## Trap 2: the schedule runs N times too fast
#
# When you step a prepared scheduler once, Accelerate steps it once **for each
# process**. The reason is that `batch_size` is per process, and Accelerate
# assumes that you planned the schedule for one process, which takes N times
# as many steps for the same data
# (https://huggingface.co/docs/accelerate/concept_guides/performance).
# (With `split_batches=True`, see trap 3, it steps once.)
# Here the learning rate falls along a line over 40 steps, on one process and
# on four:


# %%
def rates(make, steps):
    """Return the learning rate of each optimizer step under Accelerate."""
    accelerator = rehearsal.accelerator()
    weight = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(weight.parameters(), lr=0.1)
    scheduler = make(optimizer, steps, accelerator.num_processes)
    optimizer, scheduler = accelerator.prepare(optimizer, scheduler)
    seen = []
    for _ in range(steps):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return seen


def plain_line(optimizer, steps, num_processes):
    return torch.optim.lr_scheduler.LinearLR(optimizer, 1, 0, steps)


seen = {
    n: dtlib.launch(rates, plain_line, 40, ranks=n, device="cpu")[0]
    for n in (1, 4)
}

# %%
from lesson.pictures import draw_rates

draw_rates(seen)

# %%
learn.table(
    [
        [n, *(f"{values[k]:.3f}" for k in (0, 5, 10, 20, 39))]
        for n, values in seen.items()
    ],
    ["processes", "step 0", "step 5", "step 10", "step 20", "step 39"],
    "The learning rate that the optimizer had",
)

# %%
first_zero = next(k for k, rate in enumerate(seen[4]) if rate < 1e-9)
learn.measured("rate_is_zero", first_zero)
assert first_zero == 40 // 4

# %% [markdown]
# For three quarters of the run the rate is 0: the weights stand still, and
# no message says so. What share of *your* run would that be?

# %%
learn.what_if("prepared")

# %% [markdown]
# The simplest cure is to leave the scheduler out of `prepare`, or to say
# `Accelerator(step_scheduler_with_optimizer=False)`: one call is then one
# step. But such a scheduler also steps where the optimizer does not, between
# two steps of an accumulation and where fp16 skips one. In exercise 1 you
# keep the prepared one, and write a schedule that counts as it does.
#
# ## Exercise 1: a schedule that ends when training does
#
# ●○○ *10 minutes.* Return a torch scheduler that lowers the rate along a
# line from its first value to 0 over `steps` steps **of the optimizer**,
# although Accelerate calls it `num_processes` times for each of them. After
# the end the rate stays at 0. A worked case: 10 optimizer steps on 4
# processes make 40 calls. Step k = 5 comes after 20 of them, so half of the
# rate is left.


# %% tags=["exercise"]
def scheduler_for(optimizer, steps, num_processes):
    """A torch scheduler, stepped num_processes times per optimizer step."""
    ### BEGIN SOLUTION
    total = steps * num_processes

    def factor(call):
        return max(0.0, 1 - call / total)

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    ### END SOLUTION


# %% tags=["check"]
learn.check("scheduler_for", scheduler_for)

# %%
make = learn.given("scheduler_for")
mended = dtlib.launch(rates, make, 40, ranks=2, device="cpu")[0]
assert max(abs(a - b) for a, b in zip(mended, seen[1])) < 1e-9

# %% [markdown]
# ## Trap 3: whose batch, and how many steps?
#
# `batch_size` is the batch of each process. With more processes the **global
# batch**, which is all of their batches together, grows, and an epoch has
# fewer steps. The learning rate has to suit the global batch. With
# `split_batches=True` the loader's batch is split among the processes
# instead; if their number does not divide it, you get a ValueError. In the
# loop, `accumulate()` counts the micro-batches, and `sync_gradients` is true
# for the last one of each step. This is what the ranks get:


# %%
def batches(count, batch_size, split, accumulation):
    """The sizes of a rank's batches in an epoch, and the optimizer's steps."""
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration
    from torch.utils.data import DataLoader

    accelerator = Accelerator(
        cpu=True,
        gradient_accumulation_steps=accumulation,
        dataloader_config=DataLoaderConfiguration(split_batches=split),
    )
    loader = DataLoader(list(range(count)), batch_size=batch_size)
    loader = accelerator.prepare(loader)
    sizes, steps = [], 0
    for batch in loader:
        with accelerator.accumulate():
            sizes.append(len(batch))
            steps += accelerator.sync_gradients
    return sizes, steps


def epochs(*settings):
    return [batches(100, 8, *setting) for setting in settings]


settings = [(False, 1), (True, 1), (False, 3)]  # split_batches, accumulation
counted = dtlib.launch(epochs, *settings, ranks=4, device="cpu")
rows = []
for k in (0, 1):
    sizes, steps = counted[0][k]
    together = sum(rank[k][0][0] for rank in counted)
    rows.append([settings[k][0], sizes[0], together, steps])

# %%
learn.table(
    rows,
    ["split_batches", "per process", "global batch", "steps"],
    "An epoch of 100 samples on four processes, batch_size=8",
)

# %% [markdown]
# ## Exercise 2: the batch and the steps of an epoch
#
# ●●○ *10 minutes.* In a **round** every process takes one micro-batch. With
# gradient accumulation, `accumulation` rounds make one step of the optimizer.
# If the samples do not fill the last round, Accelerate **pads** it: some
# samples come twice. (One process alone takes a short batch instead.) If the
# last group of rounds is not full, it still makes a step. So both divisions
# round **up**. A worked case: 100 samples with batch_size 8 on 4 processes
# are 32 samples in a round, and 4 rounds. With accumulation 3, a full step
# has 96 samples, and the epoch has 2 steps.


# %% tags=["exercise"]
def batch_and_steps(
    samples, batch_size, num_processes, accumulation, split_batches
):
    """Samples in a full optimizer step, and optimizer steps in an epoch."""
    together = batch_size if split_batches else batch_size * num_processes
    ### BEGIN SOLUTION
    rounds = -(-samples // together)
    steps = -(-rounds // accumulation)
    ### END SOLUTION
    return together * accumulation, steps


# %% tags=["check"]
learn.check("batch_and_steps", batch_and_steps)

# %%
mine = learn.given("batch_and_steps")
steps = counted[0][2][1]
print("accumulation 3 on 4 ranks:", steps, "steps were taken")
assert tuple(mine(100, 8, 4, 3, False)) == (96, steps)
learn.my_run("steps of an epoch of 100 samples on 4 processes", steps)

# %% [markdown]
# ## Trap 4: the tail of the accumulation
#
# `backward` divides every loss by `gradient_accumulation_steps`, **one number
# for all steps**. You pass it to the constructor, but if the variable
# `ACCELERATE_GRADIENT_ACCUMULATION_STEPS` is set, the variable wins. (Under
# DeepSpeed, DeepSpeed divides.) Ten micro-batches in groups of four leave two
# for the last step. Every sample here has the gradient 1, so every step
# should have the gradient 1, too:


# %%
def tail(count, accumulation):
    from torch.utils.data import DataLoader

    accelerator = rehearsal.accelerator(accumulation)
    model = torch.nn.Linear(1, 1, bias=False)
    loader = DataLoader(torch.ones(count, 1))
    model, loader = accelerator.prepare(model, loader)
    gradients = []
    for x in loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(x).mean())
            if accelerator.sync_gradients:
                (weight,) = model.parameters()
                gradients.append(weight.grad.item())
                weight.grad = None
    return gradients


gradients = dtlib.launch(tail, 10, 4, ranks=1, device="cpu")[0]
print("gradients of the three steps:", gradients)
learn.measured("tail_gradient", gradients[-1])
assert gradients == [1, 1, 0.5]

# %% [markdown]
# The last gradient of every epoch is half of what it should be. With text
# there is a second error: micro-batches have unequal numbers of tokens, and a
# mean of their means gives them all the same weight (lesson 09). Both errors
# go away if you divide the loss by **what the step really holds**.
#
# ## Exercise 3: divide by what is there
#
# ●●○ *12 minutes, stretch.* Return the loss on which you would call
# `accelerator.backward`. That call divides it by `accumulation`, and DDP
# divides the sum over the ranks by `num_processes`. What is left must be the
# gradient of the mean over all `samples` samples of this step, those of all
# ranks and micro-batches.


# %% tags=["exercise", "stretch"]
def loss_for_backward(losses, samples, num_processes, accumulation):
    """A 0-d tensor. `losses` (1-D) has one loss for each sample here."""
    ### BEGIN SOLUTION
    return losses.sum() * num_processes * accumulation / samples
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("loss_for_backward", loss_for_backward)

# %% [markdown]
# ## Trap 5: some samples come twice
#
# In every round each rank gets a full batch, even if the samples run out:
# that is `even_batches=True`, the default. Three ranks share the samples 0 to
# 6 in batches of two. `gather` collects the batches of all ranks, and
# `gather_for_metrics` drops what came twice:


# %%
from lesson.pictures import draw_batches


def seven(even):
    """A rank's batches, and what is gathered from all of them."""
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration
    from torch.utils.data import DataLoader

    config = DataLoaderConfiguration(even_batches=even)
    accelerator = Accelerator(cpu=True, dataloader_config=config)
    loader = accelerator.prepare(DataLoader(range(7), batch_size=2))
    mine, rows, kept = [], [], []
    for batch in loader:
        mine.append(batch.tolist())
        if even:  # otherwise rank 0 waits for ranks that have ended
            rows += accelerator.gather(batch).tolist()
            kept += accelerator.gather_for_metrics(batch).tolist()
    return mine, rows, kept


def both():
    return seven(True), seven(False)


even, uneven = zip(*dtlib.launch(both, ranks=3, device="cpu"))
draw_batches([rank[0] for rank in even], [rank[0] for rank in uneven])

# %%
_, rows, kept = even[0]
assert kept == list(range(7))
learn.table(
    [
        [name, len(found), str(found)]
        for name, found in (("gather", rows), ("gather_for_metrics", kept))
    ],
    ["", "rows", "samples, in the order of the ranks"],
    "Seven samples on three ranks, gathered",
)

# %% [markdown]
# Training sees samples 0 to 4 twice. With `even_batches=False` nothing comes
# twice, but rank 0 has one batch more: its all-reduce waits for ranks that
# have ended. (On GPUs, under DDP, `accelerator.join_uneven_inputs` helps; on
# CPU ranks it only warns that it has no effect.)
#
# `gather_for_metrics` knows how many rows of the **last round** are new, and
# keeps that many. So it can only help if you gather rows, one for each
# sample. Here the model is right on the last four samples. The next cell
# defines three ways to score it; the third, `exact`, is the function that you
# write in exercise 4, and then all three run:

# %% tags=["stretch"]
from lesson.exercises.accuracy import Reads


def three_scores(hits, exact):
    """Gather a mean, gather all rows, or count every sample once."""
    from accelerate import Accelerator
    from torch.utils.data import DataLoader, TensorDataset

    accelerator = Accelerator(cpu=True)
    # the model is right where the label is the sample, and wrong on the others
    classes = torch.arange(len(hits)) % 3
    labels = torch.where(torch.tensor(hits) > 0, classes, (classes + 1) % 3)
    samples = TensorDataset(classes.float(), labels)
    loader = accelerator.prepare(DataLoader(samples, batch_size=2))
    model = Reads().eval()
    means, rows = [], []
    for x, y in loader:
        right = (model(x).argmax(1) == y).float()
        means.append(accelerator.gather(right.mean()))
        rows.append(accelerator.gather(right))
    scores = [torch.cat(part).mean().item() for part in (means, rows)]
    return [*scores, float(exact(accelerator, model, loader))]


# %% [markdown] tags=["stretch"]
# ## Exercise 4: every sample once
#
# ●●○ *12 minutes, stretch.* Return the model's accuracy over the data set, on
# every rank, with each sample counted once. The loader is already prepared.
# The model may be in training mode (you may leave it in evaluation mode: here
# the loop calls `model.train()` itself before it trains on), and its output
# has one column for each class.


# %% tags=["exercise", "stretch"]
def exact_accuracy(accelerator, model, loader):
    """The share of samples whose largest logit is the label's: a number."""
    ### BEGIN SOLUTION
    model.eval()
    hits = []
    with torch.no_grad():
        for x, y in loader:
            right = model(x).argmax(1) == y
            hits.append(accelerator.gather_for_metrics(right))
    return torch.cat(hits).float().mean().item()
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("exact_accuracy", exact_accuracy)

# %% tags=["stretch"]
exact = learn.given("exact_accuracy")
hits = [0, 0, 0, 1, 1, 1, 1]
scores = dtlib.launch(three_scores, hits, exact, ranks=3, device="cpu")[0]
assert abs(scores[2] - 4 / 7) < 1e-6
learn.table(
    [["", *(f"{score:.4f}" for score in [*scores, 4 / 7])]],
    ["", "a mean, gathered", "rows, gathered", "each once", "4 / 7"],
    "Accuracy on three ranks",
)

# %% [markdown]
# ## Save and resume
#
# `save_state` writes a **checkpoint**: the weights, the optimizer's state, a
# schedule if there is one, and the state of each rank's random numbers.
# `load_state` reads it. By default, how far the loader had come is not in it,
# so a script that resumes in the middle of an epoch has to say how many
# batches to skip. (It is in the checkpoint with the package torchdata and
# `DataLoaderConfiguration(use_stateful_dataloader=True)`.) The loader that
# `skip_first_batches` returns is for the resumed epoch only: take the old one
# for the next epoch.
#
# Nor does the checkpoint hold the generator that `shuffle=True` draws from. It
# draws once per epoch, so a run that resumes in a later epoch would take that
# epoch's samples in the first epoch's order. With `use_seedable_sampler=True`
# the order depends on the seed and on the epoch that `set_epoch` names, as in
# lesson 09. Save after 3 of the 8 steps of the second epoch, then resume with
# and without skipping:


# %%
def train(saved, skip=None):
    """The losses of epoch 1; saves after 3 of its steps, or resumes there."""
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration, set_seed
    from torch.utils.data import DataLoader, TensorDataset

    set_seed(0)  # the same samples in the same order in each run
    config = DataLoaderConfiguration(use_seedable_sampler=True)
    accelerator = Accelerator(cpu=True, dataloader_config=config)
    data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
    loader = DataLoader(data, batch_size=4, shuffle=True)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    if skip is not None:
        accelerator.load_state(saved)
    for epoch in (0, 1) if skip is None else (1,):
        loader.set_epoch(epoch)
        losses = []
        for x, y in accelerator.skip_first_batches(loader, skip or 0):
            loss = (model(x) - y).square().mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(accelerator.reduce(loss.detach(), "mean").item())
            if skip is None and epoch == 1 and len(losses) == 3:
                accelerator.save_state(saved)
    return losses


def three_runs(saved):
    return [train(saved, skip) for skip in (None, 3, 0)]


whole, skipped, again = dtlib.launch(
    three_runs, "saved", ranks=2, device="cpu"
)[0]
print("files:", *sorted(path.name for path in Path("saved").iterdir()))
learn.table(
    [
        [name, len(losses), *(f"{loss:.4f}" for loss in losses[:2])]
        for name, losses in (
            ("without a break, after step 3", whole[3:]),
            ("resumed, 3 batches skipped", skipped),
            ("resumed, none skipped", again),
        )
    ],
    ["", "steps", "first loss", "second loss"],
    "The second epoch on two ranks, after the checkpoint of its step 3",
)

# %%
assert skipped == whole[3:]
assert len(again) == len(whole) and again[:5] != whole[3:]

# %% [markdown]
# With the three batches skipped, the losses are the same to the last bit.
# Without, the run trains on them a second time, and no message says so.

# %% [markdown]
# ## Quiz

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## Take-away
#
# - Four lines make a loop run anywhere; a configuration decides how.
# - Print what you got: type, wrapper, and the numbers that a rank holds.
# - `batch_size` is per process, a prepared scheduler steps once for each
#   process, and `backward` divides by one number that you set in advance.
# - Gather rows, then reduce. Nobody can take a sample out of a mean again.
# - By default a checkpoint holds neither the place in the loader nor the
#   shuffle: skip the batches that are done, and let a seed and the epoch's
#   number fix the order.
# - What changes the result (clipping, batch size, learning rate) belongs in
#   the script, where it holds for every configuration.

# %%
learn.take_away()
