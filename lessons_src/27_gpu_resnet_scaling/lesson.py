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
# This is a lesson for GPUs. On a laptop it is a **rehearsal**: the same calls
# with a narrow network and two ranks on your cores. Exercises 1 and 2 are the
# core; 3 is *stretch*.

# %%
from dtlib import learn

learn.start("27")

# %% [markdown]
# `size="full"` is the study itself: it uses all GPUs of the job and makes
# each run three times. Submit it with
# `dtlib batch submit 27 --nodes 2 --gpus-per-node 4 -p size=full`; if the job
# is requeued, it resumes. `record=True` trains the curves of the last part
# again, which takes minutes on a laptop. All pictures are generated from a
# seed and are as large as those of CIFAR-10, so a step takes as long.

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
# Count before you measure. torch counts the floating-point operations (FLOP)
# of whatever it runs:

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
# For each product of the forward pass, the backward pass computes two: one for
# the gradient of the weights, and one for the gradient of the layer's input.
# (The first layer needs only one, because nobody needs the gradient of a
# picture.) A multiplication and its addition count as two operations here.
# Counted in multiply-adds, the forward pass is half as large: 0.56 G.
#
# ## Exercise 1: what share of the peak?
#
# ●○○ *8 minutes.* The **peak** in a data sheet is what a GPU could compute in
# a second if nothing held it up. The share of it that a training run reaches
# is the **MFU** (model FLOP utilisation). Compute it from the images per
# second *of all GPUs together*, the FLOP of one image's *forward* pass, the
# number of GPUs, and the peak of one GPU in FLOP/s.


# %% tags=["exercise"]
def share_of_peak(images_per_second, forward_flop, gpus, peak):
    """The share of the peak that a training run reaches, 0 to 1."""
    ### BEGIN SOLUTION
    return images_per_second * 3 * forward_flop / (gpus * peak)
    ### END SOLUTION


# %% tags=["check"]
learn.check("share_of_peak", share_of_peak)

# %% [markdown]
# This is what a published run of a ResNet-18 reaches. Its source reports 32.3
# PFLOP in 7 minutes; divided by the FLOP of an image (forward and backward,
# above), that gives the images per second:

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
# The second row is arithmetic, not a measurement. A real H100 may well reach
# less, because the norms and additions of this small network wait for memory.
#
# ## One GPU first
#
# Eight GPUs multiply what one GPU does, including its waste. And a slow
# baseline flatters every speed-up: the longer a step computes, the smaller the
# share of it that the exchange of gradients takes. So you try one setting
# after another, with the same pictures and the same batch. `fp32` here really
# means fp32: by default, torch lets convolutions on an NVIDIA GPU use **TF32**
# (factors rounded to 10 bits of mantissa), but not matrix products
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
    """A study's folder; a rehearsal empties it, except in a requeued job."""
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
# Whether bf16 helps depends on the processor: it pays off where the hardware
# has units for it; elsewhere it only costs conversions (lesson 04). The
# DataLoader prepares pictures one by one on the CPU; the course's default
# keeps all of them on the training device and slices whole batches there.
#
# ## Strong scaling
#
# More ranks share the same global batch, with the fastest setting from above.
# Each GPU keeps at least 128 images. With too few, **launch overhead** takes
# over: the GPU runs its kernels faster than the CPU can launch them, and
# waits. A study runs each number of ranks several times, in turns, so that a
# busy minute affects all of them alike. In a terminal you would type
# `dtlib study strong images --ranks 1,2 --repeats 3`.

# %%
from dtlib import study
from dtlib.study import scaling, tables

scaled = {**base, **settings[fastest]}
print(f"the setting to scale: {fastest}")


def studied(kind, *words):
    """Run a study in its own folder, and return the rows of its table."""
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
# Now *each rank* keeps the same batch, so the work grows with the number of
# ranks. This answers a different question: never compare a row of a strong
# study with a row of a weak one.

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
# On a laptop, ranks share cores, caches and memory, so this is no forecast for
# GPUs. What carries over is the method: a baseline of one process *without*
# communication, repeats, and a spread. Lesson 21 judged a table without any of
# these. It shows one GPU at 4,507 images/s and two at 4,451, and calls that
# scaling:

# %%
print(f"efficiency: {4451 / (2 * 4507):.2f}")
assert round(4451 / (2 * 4507), 2) == 0.49

# %% [markdown]
# Two GPUs do the work of one.
#
# ## What else changes the speed
#
# A **sensitivity study** keeps the number of ranks and varies the rest: the
# size of DDP's buckets (the groups in which it sends gradients), the batch,
# the precision, the loader's workers. A rehearsal compares two settings; the
# array at the end of this lesson makes twenty-four runs of eight settings.
# Every gain is measured against the first setting and has a spread; where the
# spread crosses zero, the gain is called noise.

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
# ●●○ *12 minutes.* Each row of a scaling table has a number of `gpus` and the
# `images_per_second` of all of them together. Which number of GPUs processes
# `images` pictures within `deadline` hours (exactly `deadline` is in time) for
# the *fewest GPU hours*? A **GPU hour** is one GPU for one hour. Return the
# number of GPUs and their GPU hours, or None if no row is fast enough. The
# rows may come in any order.


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
# Apply it to your own strong scaling, for a hundred epochs of 50,000 pictures:

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
# More GPUs cost more GPU hours whenever the efficiency is below one: you pay
# for an earlier deadline. Move the sliders to see how the exchange of
# gradients sets that price, computed for a ring and 100,000 steps:

# %%
learn.what_if("bill")

# %% [markdown]
# ## Faster steps are not a faster result
#
# Weak scaling makes the global batch bigger, so an epoch has fewer steps. Does
# the model still learn as much in an epoch? Here are three global batches. The
# learning rate grows in proportion to the batch (Goyal et al. 2017,
# https://arxiv.org/abs/1706.02677), and each run is evaluated after every
# epoch:

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
    "Test accuracy after each epoch: 4,096 made-up pictures, one seed, width "
    + ("64" if size == "full" else "8"),
)

# %%
reached = {batch: max(found) for batch, found in curves.items()}
most = max(reached, key=reached.get)
learn.measured(
    "bigger_batch",
    "less accurate, after a sixteenth of the steps"
    if reached["1024"] < reached["64"]
    else "as accurate: it has seen the same pictures",
)

# %% [markdown]
# Each batch has one seed and no tuning beyond the scaled rate, so this is no
# law: the curves do not tell whether batch 1024 suffers from its few steps or
# from its learning rate of 0.8. (Guessing is right once in ten.) But they show
# what images per second leave out: for the same pictures, batch 1024 took a
# sixteenth of the steps that batch 64 took. What counts is the **time to
# accuracy**: how long it takes until the model is good enough.
#
# ## Exercise 3: hours to accuracy (stretch)
#
# ●●○ *10 minutes.* `curve` holds the accuracy after each epoch. An epoch has
# `images` pictures, processed at `images_per_second`. After how many hours
# does the accuracy reach `target` (or more) for the first time? Return None if
# it never does. It is measured only at the end of an epoch, so do not
# interpolate.


# %% tags=["exercise", "stretch"]
def hours_to_accuracy(curve, images, images_per_second, target):
    """Hours until the accuracy first reaches `target`, or None."""
    ### BEGIN SOLUTION
    for epoch, accuracy in enumerate(curve, start=1):
        if accuracy >= target:
            return epoch * images / images_per_second / 3600
    return None
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("hours_to_accuracy", hours_to_accuracy)

# %% [markdown]
# Suppose that each rank keeps a batch of 64: then 256 is the global batch of 4
# ranks, and 1024 that of 16. It grows with the ranks, so the efficiency of
# *weak* scaling tells how fast they are (here, as you measured it on your
# largest number of ranks):

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
# Here are the same studies as Slurm arrays: each run is one task of an array,
# and the results end up in one table. Put into `fast` the setting that was the
# fastest on *your* GPU:
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
# On 8 GPUs, this course's own study aims for an efficiency of at least 70 % in
# strong scaling, and for a step that is at most 10 % longer in weak scaling.
# These are aims, not results.

# %%
from dtlib.learn.source import find

kept_runs = sorted((find("27").room / "records").glob("27_gpu*.csv"))
for path in kept_runs:
    print(learn.recorded(path.stem))
if not kept_runs:
    print("No GPU results are recorded for this lesson yet.")

# %% [markdown]
# ## Quiz

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## Take-away
#
# - Make one GPU fast first: a slow baseline makes scaling look good.
# - An efficiency needs a baseline without communication, repeats and a spread.
# - Strong scaling buys time with GPU hours. The deadline decides how much.
# - A bigger batch is a different experiment. Judge it by its time to accuracy,
#   not by images per second.

# %%
learn.take_away()
