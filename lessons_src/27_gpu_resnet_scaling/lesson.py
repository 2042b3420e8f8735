# %% [raw]
# ---
# number: "27"
# title: "ResNet-18 at scale"
# does: >-
#   make one GPU fast, then scale it; turn a scaling table into hours, GPU
#   hours and time to accuracy
# objectives:
#   - make one GPU fast before you ask for eight
#   - run strong- and weak-scaling studies, here or as arrays on a cluster
#   - turn a scaling table into hours, GPU hours and time to accuracy
# minutes: {read: 25, exercises: 30}
# needs: [laptop]
# builds_on: ["09", "21"]
# ---

# %% [markdown]
# A ResNet-18 on CIFAR-10 is the laboratory mouse of scaling studies: small
# enough to train in minutes, real enough to argue about. Somebody shows you
# eight GPUs that are 6.5 times as fast as one. **Is that good, what did it
# cost, and was the one GPU any good to begin with?**
#
# This is a lesson for GPUs. On a laptop it is a rehearsal: the same calls, a
# narrow network, two ranks on your cores. Exercises 1 and 2 are the core; 3 is
# *stretch*.

# %%
from dtlib import learn

learn.start("27")

# %% [markdown]
# `size="full"` is the study itself, on all GPUs of the job, each run three
# times: `dtlib batch submit 27 --nodes 2 --gpus-per-node 4 -p size=full`.
# Requeued, it goes on. `record` trains the curves of the last part anew, which
# takes minutes on a laptop. All pictures are made from a seed, in the size of
# CIFAR-10's: a step takes as long.

# %% tags=["parameters"]
size = "rehearsal"
repeats = 0  # 0: three at full size, two in a rehearsal
record = False

# %%
import torch
from lesson import plan

import dtlib
from dtlib.study import worlds

GPUS = worlds.gpus()
if size == "full":
    base = plan.full(max(GPUS, 1))
    ranks = worlds.counts(max(GPUS, 1))
    together = plan.strong_batch(ranks)
    repeats = repeats or 3
else:
    base = dict(width=8, global_batch=64, num_samples=512)
    base |= dict(steps=8, untimed_steps=2, device="cpu")
    ranks = [1, 2]
    together = base["global_batch"]
    repeats = repeats or 2
base

# %% [markdown]
# ## Your predictions
#
# Commit all three before you go on.

# %%
learn.predict("flop")

# %%
learn.predict("efficiency")

# %%
learn.predict("bigger_batch")

# %% [markdown]
# ## What an image costs
#
# Count before you measure. torch counts the floating-point operations of what
# it runs:

# %%
from torch.utils.flop_counter import FlopCounterMode

from dtlib.models.resnet import resnet18

model = resnet18()
image = torch.zeros(1, 3, 32, 32)
with FlopCounterMode(display=False) as forward:
    logits = model(image)
with FlopCounterMode(display=False) as backward:
    logits.sum().backward()
print(f"forward  {forward.get_total_flops() / 1e9:.3f} GFLOP")
print(f"backward {backward.get_total_flops() / 1e9:.3f} GFLOP")
both = (forward.get_total_flops() + backward.get_total_flops()) / 1e9
learn.measured("flop", both)
assert 2.9 < both / (forward.get_total_flops() / 1e9) < 3

# %% [markdown]
# The backward pass makes two products for each of the forward pass: one for
# the gradient of the weights, one for that of the layer's input. (The first
# layer needs only one: nobody asks for the gradient of a picture.) A
# multiplication with its addition counts as two operations; counted in
# multiply-adds, the forward pass is half of that, 0.56 G.
#
# ## Exercise 1: what share of the peak?
#
# ●○○ *8 minutes.* A data sheet's **peak** is what a GPU could compute if
# nothing held it up. Which share of it does a training reach? You have images
# per second *of all GPUs together*, the FLOP of one image's *forward* pass,
# the number of GPUs, and the peak of one in FLOP/s.


# %% tags=["exercise"]
def share_of_peak(images_per_second, forward_flop, gpus, peak):
    """The share of the peak that a training reaches, 0 to 1."""
    ### BEGIN SOLUTION
    return images_per_second * 3 * forward_flop / (gpus * peak)
    ### END SOLUTION


# %% tags=["check"]
learn.check("share_of_peak", share_of_peak)

# %% [markdown]
# What a published run of a ResNet-18 reaches. Its source tells 32.3 PFLOP in
# 7 minutes; the images per second follow with the FLOP of an image above:

# %%
from dtlib.sim import hardware

share = learn.given("share_of_peak")
PER_IMAGE = forward.get_total_flops()
published = [
    ["airbench's baseline, ResNet-18, A100", 23_100, "a100-80"],
    ["the same share of an H100 would be", 74_000, "h100"],
]
learn.table(
    [
        [name, rate]
        + [100 * share(rate, PER_IMAGE, 1, hardware.peak(gpu, "bf16"))]
        for name, rate, gpu in published
    ],
    ["run", "images/s", "% of the bf16 peak"],
    "https://github.com/KellerJordan/cifar10-airbench: 32.3 PFLOP in 7 min",
)

# %% [markdown]
# The second row is arithmetic and no measurement: a narrow network, whose
# norms and additions wait for memory, may well get less.
#
# ## One GPU first
#
# Eight GPUs multiply what one does, its waste included. And a slow baseline
# flatters every speed-up: the longer a step computes, the smaller is the part
# that the exchange of gradients takes. So: one setting after another, same
# pictures, same batch. `fp32` here means fp32: left alone, torch lets
# convolutions use **TF32** on an NVIDIA GPU, and matrix products not
# (https://docs.pytorch.org/docs/stable/notes/cuda.html).

# %%
from pathlib import Path

from dtlib.study import family

settings = {
    "fp32": {},
    "channels_last": dict(channels_last=True),
    "bf16": dict(precision="bf16"),
    "DataLoader, 1 worker": dict(loader="dataloader", workers=1),
}
if size == "full" and GPUS:
    settings |= {
        "tf32": dict(precision="tf32"),
        "bf16, channels_last": dict(precision="bf16", channels_last=True),
        "bf16, channels_last, compile": dict(
            precision="bf16", channels_last=True, compile=True
        ),
    }


def folder(name):
    """A study's folder; a rehearsal begins anew, but not in a requeued job."""
    place = Path("studies") / name
    return place if size == "full" else family.begin(place)


rates = plan.climb(folder("ladder"), base, settings, repeats)

# %%
import statistics

from dtlib.measure.noise import compare

fastest = plan.fastest(rates)
first = statistics.median(rates["fp32"])
device = torch.cuda.get_device_name() if size == "full" and GPUS else "cpu"
told = {
    name: compare(statistics.median(found) / first, rates["fp32"])
    for name, found in rates.items()
}
learn.table(
    [
        [name, statistics.median(found), min(found), max(found)]
        + [statistics.median(found) / first]
        + ["" if told[name].real else "within the noise"]
        for name, found in rates.items()
    ],
    ["setting", "images/s", "from", "to", "times fp32", ""],
    f"One process on {device}, medians of {repeats} repeats",
)

# %%
learn.my_run("one process, fp32", first, "images/s")
best = statistics.median(rates[fastest])
learn.my_run(f"fastest: {fastest}", best, "images/s", effect=told[fastest])

# %% [markdown]
# Whether bf16 helps depends on the processor: it pays where the hardware has
# units for it, and costs conversions where it has not (lesson 04). The
# DataLoader makes pictures one by one on the CPU; the course's default keeps
# all of them on the training device and cuts whole batches there.
#
# ## Strong scaling
#
# The same global batch on more ranks, with the fastest setting of above. On
# GPUs each keeps at least 128 images: with fewer it waits for its launches. A
# study runs each number of ranks several times, in turns, so that a busy
# minute meets all alike. In a terminal: `dtlib study strong images --ranks
# 1,2 --repeats 3`.

# %%
from dtlib import study
from dtlib.study import scaling, tables

scaled = {**base, **settings[fastest]}
print(f"scaled is: {fastest}")


def studied(kind, *words):
    """Carry out a study in a folder of its own; the rows of its table."""
    out = folder(kind)
    own = ["--no-profile", f"--repeats={repeats}", f"--out={out}"]
    words = [kind, "images", *plan.flags(scaled), *own, *words]
    assert study.main(words) == 0
    return tables.read(out / f"{kind}.csv")


counts = "--ranks=" + ",".join(map(str, ranks))
rows = studied("strong", counts, f"--global-batch={together}")
strong = scaling.efficiency(rows)

# %%
last = strong[-1]
alone = [row["step_time_s"] for row in rows if row["world_size"] == 1]
effect = compare(last["efficiency"], alone)
learn.measured("efficiency", 100 * last["efficiency"], effect=effect)

# %% [markdown]
# ## Weak scaling
#
# The same batch *on each rank*: the work grows with the ranks. It answers
# another question: never compare a row of one with a row of the other.

# %%
weak = scaling.efficiency(studied("weak", counts))

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
for rows, mark, line in ((strong, "o", "-"), (weak, "s", "--")):
    numbers = [row["world_size"] for row in rows]
    middle = [100 * row["efficiency"] for row in rows]
    low = [100 * row["efficiency_min"] for row in rows]
    high = [100 * row["efficiency_max"] for row in rows]
    axes.plot(numbers, middle, mark + line, label=rows[0]["study"])
    axes.fill_between(numbers, low, high, alpha=0.2)
axes.axhline(100, color="k", ls=":", label="ideal")
axes.set(xlabel="ranks", ylabel="efficiency, %", xticks=ranks)
axes.set_ylim(bottom=0)
axes.legend()
plt.show()

# %%
learn.table(
    [
        [row["study"], row["world_size"], row["global_batch"]]
        + [1e3 * row["step_time_s"], row["throughput"]]
        + [100 * row[f"efficiency{end}"] for end in ("", "_min", "_max")]
        for row in (*strong, *weak)
    ],
    ["scaling", "ranks", "batch", "ms", "images/s"]
    + ["efficiency", "from", "to"],
    "Medians, and efficiencies in % with their spread over the repeats",
)

# %% [markdown]
# On a laptop ranks share cores, caches and memory, so this is no forecast for
# GPUs. What carries over is the way: one process *without* communication as
# the baseline, repeats, a spread. Without them, say that a table shows one
# GPU at 4,507 images/s and two at 4,451, and calls it scaling:

# %%
print(f"efficiency: {4451 / (2 * 4507):.2f}")
assert round(4451 / (2 * 4507), 2) == 0.49

# %% [markdown]
# Two GPUs would do the work of one.
#
# ## What else moves it
#
# A sensitivity study holds the ranks and varies the rest: the size of DDP's
# buckets, the batch, the precision, the loader's workers. Two settings here;
# the array below makes twenty-four runs of eight. Every gain is over the first
# setting, with its spread, and one that crosses zero is called noise.

# %%
grid = ["--bucket-cap-mb=0.1,25"]
if size == "full" and GPUS:
    both = dict.fromkeys(["fp32", scaled.get("precision", "fp32")])
    grid = ["--bucket-cap-mb=1,25", f"--precision={','.join(both)}"]
grid += [f"--ranks={ranks[-1]}", f"--global-batch={together}"]
swept = studied("sensitivity", *grid)

# %% [markdown]
# ## Exercise 2: how many GPUs do you ask for?
#
# ●●○ *12 minutes.* Rows of a scaling table say `gpus`, and what all of them
# do together, `images_per_second`. Which number of GPUs has seen `images`
# pictures within `deadline` hours (or exactly then) for the *fewest GPU
# hours*? A GPU hour is one GPU for one hour. Give back the number and its GPU
# hours, or None if no row is fast enough. The rows may come in any order.


# %% tags=["exercise"]
def cheapest_in_time(rows, images, deadline):
    """(GPUs, GPU hours) of the cheapest row in time, or None."""
    found = None
    for row in rows:
        hours = images / row["images_per_second"] / 3600
        ### BEGIN SOLUTION
        cost = row["gpus"] * hours
        if hours <= deadline and (found is None or cost < found[1]):
            found = row["gpus"], cost
        ### END SOLUTION
    return found


# %% tags=["check"]
learn.check("cheapest_in_time", cheapest_in_time)

# %% [markdown]
# By your own strong scaling, for a hundred epochs of 50,000 pictures:

# %%
choose = learn.given("cheapest_in_time")
mine = [
    {"gpus": row["world_size"], "images_per_second": row["throughput"]}
    for row in strong
]
images = 100 * 50_000
alone = images / mine[0]["images_per_second"] / 3600
for deadline in (2 * alone, 0.7 * alone, 0.01 * alone):
    found = choose(mine, images, deadline)
    said = found and f"{found[0]} ranks, {found[1]:.2f} rank hours"
    print(f"within {deadline:.2f} h: {said}")

# %% [markdown]
# GPU hours grow whenever the efficiency is below one. The deadline is what
# you pay for. How the exchange of gradients sets that price, computed for a
# ring and 100,000 steps:

# %%
learn.what_if("bill")

# %% [markdown]
# ## Faster steps are not a faster result
#
# Weak scaling makes the batch bigger, and a bigger batch takes fewer steps in
# an epoch. Does an epoch still teach as much? Three batches, the learning rate
# scaled with the batch (Goyal et al. 2017, https://arxiv.org/abs/1706.02677),
# each evaluated after every epoch:

# %%
BATCHES = [64, 256, 1024]
EPOCHS = 12


def curve(batch):
    """Test accuracy after each epoch at this global batch."""
    per_epoch = 4096 // batch
    wide = dict(model="resnet18") if size == "full" else dict(width=8)
    run = dtlib.train(
        "images",
        strategy="single",
        global_batch=batch,
        lr=0.05 * batch / 64,
        optimizer="sgd",
        num_samples=4096,
        epochs=EPOCHS,
        eval_every=per_epoch,
        channels_last=True,
        warmup_steps=per_epoch,
        **wide,
    )
    return [line["test_accuracy"] for line in run.evaluations][:EPOCHS]


if record or size == "full":
    curves = {str(batch): curve(batch) for batch in BATCHES}
    if record:
        learn.keep_record("27_batches", {"curves": curves})
else:
    curves = learn.recorded("27_batches")["curves"]

# %%
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
epochs = range(1, EPOCHS + 1)
for batch, mark in zip(curves, "os^"):
    axes.plot(epochs, curves[batch], mark + "-", label=f"batch {batch}")
axes.set(xlabel="epoch", ylabel="test accuracy", ylim=(0, 1))
axes.legend()
plt.show()

# %%
learn.table(
    [[epoch, *(curves[b][epoch - 1] for b in curves)] for epoch in epochs],
    ["epoch", *(f"batch {batch}" for batch in curves)],
    "Test accuracy after each epoch: 4,096 made pictures, one seed, width "
    + ("64" if size == "full" else "8"),
)

# %%
reached = {batch: max(found) for batch, found in curves.items()}
most = max(reached, key=reached.get)
learn.measured(
    "bigger_batch",
    "less, after a sixteenth of the steps"
    if reached["1024"] < reached["64"]
    else "as much: it has seen the same pictures",
)

# %% [markdown]
# One seed each, and no tuning beyond the scaled rate, so no law: whether 1024
# suffers from its few steps or from its rate of 0.8, these curves do not tell.
# (Guessing is right once in ten.) But they show what images per second leave
# out: 1024 took a sixteenth of the steps that 64 took for the same pictures.
# What counts is time to accuracy.
#
# ## Exercise 3: hours to accuracy (stretch)
#
# ●●○ *10 minutes.* `curve` has the accuracy after each epoch of `images`
# pictures, seen at `images_per_second`. After how many hours is it `target` or
# more for the first time? None if it never is. It is known only at the end of
# an epoch, so nothing lies between.


# %% tags=["exercise", "stretch"]
def hours_to_accuracy(curve, images, images_per_second, target):
    """Hours until the accuracy is `target` for the first time, or None."""
    ### BEGIN SOLUTION
    for epoch, accuracy in enumerate(curve, start=1):
        if accuracy >= target:
            return epoch * images / images_per_second / 3600
    return None
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("hours_to_accuracy", hours_to_accuracy)

# %% [markdown]
# Say that each rank keeps a batch of 64: then 256 is that of 4 ranks, 1024
# that of 16. The batch grows with the ranks, so it is *weak* scaling whose
# efficiency tells how fast they are:

# %%
hours = learn.given("hours_to_accuracy")
target = 0.4
for batch in curves:
    rate = plan.grown(weak, int(batch) // 64)
    found = hours(curves[batch], 4096, rate, target)
    said = "never, in these epochs"
    if found is not None:
        said = f"after {3600 * found:.1f} s"
    print(f"batch {batch:>4}, {rate:,.0f} images/s: {target:.2f} {said}")

# %% [markdown]
# ## On the cluster
#
# The same studies, each run a task of an array, the results in one table; in
# `fast` belongs the setting that was the fastest on *your* GPU:
#
# ```
# fast="--model resnet18 --precision bf16 --channels-last --compile"
# sbatch --nodes=2 --gpus-per-node=4 --array=0-11 \
#   slurm/ddp_strong_scaling.sbatch images --ranks 1,2,4,8 \
#   --global-batch 1024 $fast
# sbatch --nodes=2 --gpus-per-node=4 --array=0-11 \
#   slurm/ddp_weak_scaling.sbatch images --ranks 1,2,4,8 \
#   --global-batch 1024 $fast
# sbatch --gpus-per-node=4 --array=0-23 \
#   slurm/ddp_sensitivity.sbatch images --ranks 4 $fast \
#   --bucket-cap-mb 1,25 --global-batch 512,1024 --precision fp32,bf16
# ```
#
# What this course's own study aims at on 8 GPUs: an efficiency of at least
# 70 % in strong scaling, and a step at most 10 % longer in weak scaling. These
# are aims, and no results.

# %%
from dtlib.learn.source import find

kept_runs = sorted((find("27").room / "records").glob("27_gpu*.csv"))
for path in kept_runs:
    print(learn.recorded(path.stem))
if not kept_runs:
    print("No results of a GPU are recorded for this lesson yet.")

# %% [markdown]
# ## Quiz

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## Take-away
#
# - Make one GPU fast first: a slow baseline makes scaling look good.
# - An efficiency needs a baseline without communication, repeats, a spread.
# - Strong scaling buys time with GPU hours. The deadline decides how much.
# - A bigger batch is another experiment. Time to accuracy decides, not images
#   per second.

# %%
learn.take_away()
