# %% [raw]
# ---
# number: "14"
# title: Accelerate
# does: >-
#   run one script as DDP, FSDP and DeepSpeed by configuration, and disarm its
#   traps
# objectives:
#   - turn a loop for one process into one for any device, by four lines
#   - run one script as DDP, FSDP and DeepSpeed by configuration alone
#   - keep rate, batch, last step and score right on any number of processes
# minutes: {read: 25, exercises: 44}
# needs: [laptop]
# builds_on: ["09"]
# ---

# %% [markdown]
# One loop that runs on a laptop, on eight GPUs, sharded or not, and nobody
# touches it again: that is what Hugging Face **Accelerate** promises. **What
# does it change for you, and what does it change without telling you?**
#
# You run one script under three configurations and see who holds what. Then
# come five traps, each with its number. Exercises 1 and 2 are the core and
# fit an hour with the reading; 3 and 4 are *stretch*.

# %%
from dtlib import learn

learn.start("14")

# %% [markdown]
# `processes` is for the script below. On a machine with as many GPUs it uses
# those, and nothing else changes.

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
# A loop for one process becomes one for any device like this:
#
# | line | what it does |
# | --- | --- |
# | `accelerator = Accelerator()` | finds this process's rank and device |
# | `prepare(model, optimizer, loader)` | wraps the model, deals out batches, moves both to the device |
# | `accelerator.backward(loss)` | in place of `loss.backward()`: divides by the accumulation, scales for fp16 |
# | `accelerator.reduce`, `gather_for_metrics` | for whatever is printed or scored |
#
# The next cell writes a script. `rehearsal.accelerator()` is
# `Accelerator()` on GPUs; on a laptop it also lets CPU ranks have what the
# configuration asks for, which Accelerate 1.15 keeps for GPUs and the like,
# as you will see.

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

samples = int(sys.argv[1])
accelerator = rehearsal.accelerator()
set_seed(0)

images = open_images("pictures", "train", count=samples)
data = TensorDataset(images.pixels / 255 - 0.5, images.labels)
loader = DataLoader(data, batch_size=32 // accelerator.num_processes)
model = nn.Sequential(
    nn.Flatten(), nn.Linear(3072, 64), nn.GELU(), nn.Linear(64, 10)
)
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
    """How many numbers of it this rank holds."""
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

# %% [markdown]
# A **configuration** is a small YAML file. `accelerate config` asks you what
# you want and writes one; yours differ in a few lines each.

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
# `accelerate launch` reads the file, puts it into **environment variables**,
# and starts the script with torchrun's machinery. Once for real:

# %%
import json
import os

os.environ["OMP_NUM_THREADS"] = "1"
command = f"train_accelerate.py {samples}"
learn.shell(f"accelerate launch --config_file ddp.yaml {command}", quiet=True)
results = {"ddp": json.loads(Path("result.json").read_text())}
results["ddp"]

# %% [markdown]
# A fresh launch loads Python and torch on every rank. Warm ranks have them
# loaded, so for the other configurations they get those variables of
# `accelerate launch` that matter here, and run the same file. In a terminal
# you would write `--config_file fsdp.yaml` and `--config_file zero2.yaml`.
# (DeepSpeed is for Linux; without it that line is left out.)

# %%
import importlib.util
import runpy
import sys

import dtlib

variables = {
    "one process": {},
    "fsdp": {
        "ACCELERATE_USE_FSDP": "true",
        "FSDP_VERSION": "2",
        "FSDP_AUTO_WRAP_POLICY": "SIZE_BASED_WRAP",
        "FSDP_MIN_NUM_PARAMS": "1000",
    },
    "zero2": {
        "ACCELERATE_USE_DEEPSPEED": "true",
        "ACCELERATE_DEEPSPEED_ZERO_STAGE": "2",
        "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "1",
    },
}
if not importlib.util.find_spec("deepspeed"):
    del variables["zero2"]


def run_script(settings):
    os.environ.update(settings)
    sys.argv = command.split()
    runpy.run_path("train_accelerate.py", run_name="__main__")


for name, settings in variables.items():
    ranks = 1 if name == "one process" else processes
    dtlib.launch(run_script, settings, ranks=ranks)
    results[name] = json.loads(Path("result.json").read_text())

# %%
learn.table(
    [[name, *result[:-1]] for name, result in results.items()],
    ["", "type", "model is a", "last loss", "weights held", "moments held"],
    "One script; numbers that rank 0 holds",
)

# %% [markdown]
# The loss is that of one process, to rounding, and what a rank holds is what
# each strategy says: DDP everything, ZeRO-2 all weights and its share of
# AdamW's two moments, FSDP its share of both.

# %%
alone, everything = results["one process"][2], results["one process"][-1]
for name, (_, _, loss, weights, moments, _) in results.items():
    assert abs(loss - alone) < 1e-5 * alone, name
    sharded = {"fsdp": (processes, processes), "zero2": (1, processes)}
    over_weights, over_moments = sharded.get(name, (1, 1))
    # a few numbers of padding make the shards of all ranks equally long
    assert abs(weights - everything / over_weights) <= 4 * processes
    assert abs(moments - 2 * everything / over_moments) <= 8 * processes

# %% [markdown]
# ## Trap 1: what you asked for is not what you got
#
# Now no `rehearsal`: `Accelerator(cpu=True)` on two CPU ranks, with the
# variable by which `accelerate launch` asks for FSDP:


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
# No error, no warning, and no memory saved. And `Accelerator()`, with no
# `cpu=True`, where there is no GPU?

# %%
if not torch.cuda.is_available():
    kind, n, wrapper, _ = dtlib.launch(plain, False, ranks=2)[0]
    print(f"{kind}, num_processes {n}, the model is a {wrapper}")
    assert (kind, n, wrapper) == ("NO", 1, "Linear")

# %% [markdown]
# It takes itself for the only process: two of them train alone, each on all
# of the data. It is a general rule of layers over layers: **print what you
# got**, the type, the wrapper, and the numbers that a rank holds.
#
# ## Trap 2: the schedule runs N times too fast
#
# A prepared scheduler steps once **for each process** whenever you step it
# once, since `batch_size` is per process and a schedule is taken to count the
# batches of one process (https://huggingface.co/docs/accelerate/concept_guides/performance).
# (With `split_batches=True`, see trap 3, it steps once.)
# A line over 40 steps, on one process and on four:

# %%
from lesson import rehearsal


def rates(make, steps):
    """The learning rate of each optimizer step under Accelerate."""
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
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
for (n, values), mark in zip(seen.items(), ("-", "--")):
    axes.plot(values, mark, label=f"{n} process{'es' * (n > 1)}")
axes.set(xlabel="step of the optimizer", ylabel="learning rate")
axes.legend()
plt.show()

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
# Three quarters of the run train with rate 0: the weights stand still, and
# no message says so. How much of *your* run would that be?

# %%
learn.what_if("prepared")

# %% [markdown]
# ## Exercise 1: a schedule that ends when training does
#
# ●○○ *10 minutes.* Return a torch scheduler that takes the rate along a line
# from its first value to 0 over `steps` steps **of the optimizer**, when
# `num_processes` processes step it as above. After the end it stays at 0.
# A worked case: 10 steps on 4 processes are 40 calls, so step k = 5 comes
# after 20 of them, and half of the rate is left.


# %% tags=["exercise"]
def scheduler_for(optimizer, steps, num_processes):
    """A torch scheduler: its `step()` is called N times a step."""
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
# `batch_size` belongs to each process. So the global batch, to which the
# learning rate belongs, grows with the processes, and the epoch gets fewer
# steps. With `split_batches=True` the loader's batch is shared out instead.
# Seen from the ranks:


# %%
def batches(count, batch_size, split, accumulation):
    """What a rank gets of an epoch, and how often the optimizer steps."""
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
# ●●○ *10 minutes.* With gradient accumulation `accumulation` micro-batches
# of every process make one step of the optimizer. Samples that do not fill
# the last round are padded (one process alone takes a short batch), and a
# last group that is not full still makes a step: both divisions round **up**.
# A worked case: 100 samples, batch_size 8 on 4 processes are 32 a round and 4
# rounds; with accumulation 3 a full step has 96 samples, and the epoch 2
# steps.


# %% tags=["exercise"]
def batch_and_steps(
    samples, batch_size, num_processes, accumulation, split_batches
):
    """Samples in a full optimizer step, and optimizer steps an epoch."""
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
assert mine(100, 8, 4, 3, False) == (96, steps)
learn.my_run("steps of an epoch of 100 samples on 4 processes", steps)

# %% [markdown]
# ## Trap 4: the tail of the accumulation
#
# `backward` divides every loss by `gradient_accumulation_steps`, **one number
# for all steps**: the constructor's, or that of the variable
# `ACCELERATE_GRADIENT_ACCUMULATION_STEPS`, which goes before it (under
# DeepSpeed, DeepSpeed divides). Ten micro-batches in groups of four leave two
# for the last step. Every sample here has the gradient 1, so every step
# should have the gradient 1:


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
# The last gradient of every epoch is half of what it should be. Text makes it
# worse: micro-batches have unequal numbers of tokens, and a mean of their
# means weighs them alike (lesson 09). Both go away if the loss is divided by
# **what the step really holds**.
#
# ## Exercise 3: divide by what is there
#
# ●●○ *12 minutes, stretch.* Return what `accelerator.backward` is to be
# called on. It will divide by `accumulation`, and DDP divides the sum over
# ranks by `num_processes`; the gradient that is left must be that of the mean
# over all `samples` of this step.


# %% tags=["exercise", "stretch"]
def loss_for_backward(losses, samples, num_processes, accumulation):
    """A 0-d tensor. `losses`: those of this micro-batch's samples, 1-D."""
    ### BEGIN SOLUTION
    return losses.sum() * num_processes * accumulation / samples
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("loss_for_backward", loss_for_backward)

# %% [markdown]
# ## Trap 5: a mean that was gathered
#
# A score needs all ranks' rows. Seven samples on three ranks in batches of
# two are twelve rows; the model is right on the last four samples:

# %% tags=["stretch"]
from lesson.exercises.accuracy import AnswersOne


def three_scores(hits, exact):
    """Gather a mean, gather all rows, or count every sample once."""
    from accelerate import Accelerator
    from torch.utils.data import DataLoader, TensorDataset

    accelerator = Accelerator(cpu=True)
    samples = TensorDataset(torch.zeros(len(hits)), torch.tensor(hits))
    loader = accelerator.prepare(DataLoader(samples, batch_size=2))
    model = AnswersOne().eval()
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
# every rank, each sample counted once. The loader is prepared; the model may
# come in training mode, and its output has a column for each class.


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
# ## For real
#
# dtlib has Accelerate as a strategy, and trains under it what one process
# trains. Three helpers stay off: the loop owns the division, the schedule and
# the precision, so that traps 2 and 4 cannot close.

# %%
settings = dict(model="nano", steps=2, global_batch=8, num_samples=64)
one = dtlib.train("text", ranks=1, strategy="single", **settings)
two = dtlib.train("text", ranks=2, strategy="accelerate", **settings)
print(f"single {one.loss!r}, accelerate on two ranks {two.loss!r}")
assert abs(one.loss - two.loss) < 1e-6 * one.loss

# %% [markdown]
# ## Quiz

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## Take-away
#
# - Four lines make a loop run anywhere; a configuration decides how.
# - Print what you got: type, wrapper, and the numbers that a rank holds.
# - `batch_size` is each process's, a prepared schedule steps once for each
#   process, and `backward` divides by a number that was given once.
# - Gather rows, then reduce. A mean cannot give a sample back.
# - What changes the result (a clip, a batch, a rate) belongs in the script,
#   where every configuration sees it.

# %%
learn.take_away()
