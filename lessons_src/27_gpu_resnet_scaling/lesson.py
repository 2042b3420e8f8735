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
# minutes: {read: 25, exercises: 36}
# needs: [laptop]
# builds_on: ["09", "21"]
# ---

# %% [markdown]
# Many scaling studies use a ResNet-18, a network of 18 layers, on CIFAR-10,
# 60,000 small photographs in ten classes: small enough to train in minutes,
# and real enough to argue about. Somebody shows you eight GPUs that are 6.5
# times as fast as one. **Is that good, what did it cost, and was the one GPU
# any good to begin with?**

# %%
from dtlib import learn

learn.start("27")

# %%
from lesson.pictures import draw_question

draw_question()

# %% [markdown]
# A GPU's **peak** is the number of operations that it could carry out in a
# second if nothing held it up. The first row is a published run (its source
# follows below): on an A100, a GPU for data centres, a standard ResNet-18
# computes at a quarter of the peak. In the second row each of eight GPUs does
# 6.5/8 of what one does alone: a fifth of its peak.
#
# This is a lesson for GPUs. On a laptop it is a **rehearsal**: the same calls
# with a narrow network and two ranks on your cores. Exercises 1 and 2 are the
# core; 3 is *stretch*.
#
# `size="full"` is the study itself: it uses all GPUs of the job and makes
# each run three times. Submit it with
# `dtlib batch submit 27 --nodes 2 --gpus-per-node 4 -p size=full`. Every run
# is kept in the folder `studies`, so a job that is requeued (given back to the
# scheduler, which starts it again) repeats none that is done. `record=True`
# trains the curves of the last part again, which takes minutes on a laptop.
# All pictures are generated from a seed and are as large as those of CIFAR-10,
# so a step takes as long as with CIFAR-10.

# %% tags=["parameters"]
size = "rehearsal"
repeats = 0  # 0: three at full size, two in a rehearsal
record = False

# %%
import torch
from lesson import plan

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
# of products, convolutions and attention, and leaves out the rest, such as
# norms and additions, which have few:

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
# ## What share of the peak?
#
# Take the *dense* peak. The data sheet of an H100, the A100's successor,
# prints 1,979 TFLOP/s (10¹² FLOP in a second) for bf16, the 16-bit numbers of
# lesson 04. But that is "with sparsity": it counts on half of the weights
# being zeros. Halved, it is 989. The **MFU** (model FLOP/s utilisation,
# Chowdhery et al. 2022, https://arxiv.org/abs/2204.02311) compares the images
# per second that you reach with those that the peak would allow:
#
# $$\text{MFU} = \frac{\text{images/s} \cdot \text{FLOP of an image}}
# {\text{GPUs} \cdot \text{peak}}$$
#
# Only the FLOP that the *model* needs count, forward and backward. So nobody
# can raise the MFU by computing something twice. The published run computes
# 32.3 PFLOP (10¹⁵ FLOP) in 7 minutes. Divided by 420 s and by the FLOP of an
# image, that is about 23,000 images per second:

# %%
from dtlib.sim import hardware

PER_IMAGE = forward.get_total_flops() + backward.get_total_flops()


def mfu(images_per_second, gpus, peak, flop=PER_IMAGE):
    """The share of the GPUs' peak (FLOP/s) that a training run reaches."""
    return images_per_second * flop / (gpus * peak)


A100, H100 = (hardware.peak(gpu, "bf16") for gpu in ("a100-80", "h100"))
published = {"A100": 23_000, "H100": 23_000 * H100 / A100}
learn.table(
    [
        ["airbench's baseline, ResNet-18, A100", published["A100"]]
        + [100 * mfu(published["A100"], 1, A100)],
        ["the same share of an H100 would be", published["H100"]]
        + [100 * mfu(published["H100"], 1, H100)],
    ],
    ["run", "images/s", "MFU, % of the bf16 peak"],
    "https://github.com/KellerJordan/cifar10-airbench: 32.3 PFLOP in 7 min",
)

# %% [markdown]
# The second row is arithmetic, not a measurement. Where do the other three
# quarters go? A GPU runs one **kernel** after another: a convolution, a norm
# (such as batch norm), an addition. Three things keep it from the peak. The
# first is that even a large product never gets there, partly because at full
# power the GPU lowers its clock. The best products that were measured reach
# 271 of an A100's 312 TFLOP/s, and 794 of an H100's 989
# (https://github.com/stas00/ml-engineering). The second is memory: an addition
# computes almost nothing, but it reads and writes whole tensors. The third is
# the CPU, which *launches* each kernel: it chooses the kernel, passes the
# arguments, and puts it into the GPU's queue. It does not wait for the kernel
# to end, so as long as the queue holds work, launches cost no time. But a
# launch takes the CPU some microseconds, however small the kernel is. If the
# kernels are shorter than that, the GPU empties its queue and is idle until
# the next launch. This is **launch overhead**
# (https://docs.nvidia.com/dl-cuda-graph/).
#
# A CPU has no such queue, but its operations show the same fixed cost:

# %%
import functools

from lesson import launches

calls = {}
for elements in (1, 100, 10_000, 1_000_000):
    call = functools.partial(torch.ones(elements).add_, 1)
    calls[elements] = launches.seconds_of(call)
learn.table(
    [[n, 1e6 * took, 1e9 * took / n] for n, took in calls.items()],
    ["elements", "µs of a call", "ns per element"],
    "Add 1 to a tensor, on this CPU: the best of five series of 200 calls",
)

# %%
small = resnet18(width=8)
with launches.Calls() as step:
    loss = small(image.repeat(2, 1, 1, 1)).logsumexp(1).mean()
    loss.backward()
print(f"operations of one step, forward and backward: {step.count}")
print(f"calling them takes at least {1e3 * step.count * calls[1]:.2f} ms here")

# %% [markdown]
# One element and a hundred take nearly the same time: that is the call, and
# not the addition. The number of calls of a step depends neither on the width
# of the network nor on the batch. So whatever makes kernels longer or fewer
# helps against launch overhead: a larger batch, a wider network, or
# `torch.compile`, which merges neighbouring operations, such as a norm and its
# ReLU, into one kernel.
#
# ## Exercise 1: where does the peak go?
#
# ●●○ *14 minutes.* Compute the MFU of one step from its kernels. `kernels` is
# a list of pairs: the FLOP of a kernel, and the bytes that it moves. A kernel
# computes while it moves bytes, so the slower of the two decides; `peak` is in
# FLOP/s and `bandwidth` in bytes/s. The CPU begins at time 0 and needs
# `launch` seconds for each kernel, one directly after the other. The GPU runs
# them in this order, one at a time, each as soon as it has been launched and
# the kernel before it has ended. The step ends with the last kernel.
#
# A worked example: a launch takes 2 ms, and the kernels take 3, 1 and 1 ms.
# They are launched at 2, 4 and 6 ms, begin at 2, 5 and 6 ms, and end at 5, 6
# and 7 ms. If only the first one computes, at the peak, the MFU is 3/7.


# %% tags=["exercise"]
def share_of_peak(kernels, launch, peak, bandwidth):
    """The MFU of a step: kernels wait for launches, compute, move bytes."""
    ### BEGIN SOLUTION
    launched = done = work = 0.0
    for flop, size in kernels:
        launched += launch
        done = max(done, launched) + max(flop / peak, size / bandwidth)
        work += flop
    return work / (done * peak)
    ### END SOLUTION


# %% tags=["check"]
learn.check("share_of_peak", share_of_peak)

# %% [markdown]
# Apply it to a step of the whole ResNet-18. `launches.kernels` lists three
# products for each convolution (for simplicity also for the first), and a norm
# and a ReLU in both directions (the three shortcuts have no ReLU).
# `fused=True` leaves norms and ReLUs out, as if they were free inside the
# products. Hand-written kernels might come close at the very best: a norm
# needs the mean of the whole output before it can begin, and torch.compile
# fuses norms and ReLUs only with each other. Each launch takes 5 µs:

# %%
share = learn.given("share_of_peak")
H100_BYTES = hardware.DEVICES["h100"]["bandwidth"]


def simulated(batch, launch, fused=False, speed=H100):
    """MFU in % of a step on an H100, simulated with products at `speed`."""
    kernels = launches.kernels(batch, fused)
    found = share(kernels, launch, speed, H100_BYTES)
    return 100 * float(found) * speed / H100


learn.table(
    [
        [batch, simulated(batch, 5e-6), simulated(batch, 0.0)]
        + [simulated(batch, 5e-6, True), simulated(batch, 0.0, True)]
        + [simulated(batch, 5e-6, speed=hardware.DEVICES["h100"]["reached"])]
        for batch in (8, 32, 128, 512, 2048)
    ],
    ["batch", "MFU, %", "without launches", "fused", "fused, no launches"]
    + ["products at 794 TFLOP/s"],
    "Simulated: ResNet-18 on an H100, 5 µs a launch, no other losses; products"
    " at the peak, except in the last column",
)

# %% [markdown]
# At a small batch, launches decide. At a large one, memory does: the norms and
# ReLUs, which compute nothing that counts, take over half of the time, and
# only fewer bytes help against that. All of these are upper limits. From batch
# 128 on, even the last column stays above the published quarter: a convolution
# rarely is as fast as the best product, and the simulation leaves out
# additions, the loss and the update.
#
# ## One GPU first
#
# Eight GPUs multiply what one GPU does, including its waste. And a slow
# baseline makes every speed-up look better: the longer a step computes, the
# smaller the share of it that the exchange of gradients takes. So you try one
# setting after another, with the same pictures and the same batch.
# `channels_last` stores the channels of each pixel side by side in memory, and
# `bf16` lets products compute with 16 bits. `fp32` here really means fp32: by
# default, torch lets convolutions on an NVIDIA GPU use **TF32** (factors
# rounded to 10 bits of mantissa, or 11 with the leading one that is not
# stored), but not matrix products
# (https://docs.pytorch.org/docs/stable/notes/cuda.html).
#
# How large must a gain be? The setting whose repeats differ most is the
# **placebo**: nothing changed between them, and yet the speed did. What is
# no larger than that is noise.

# %%
from pathlib import Path

from dtlib.study import family

rehearsal = size != "full"
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
    return family.begin(place) if rehearsal else place


rates = plan.climb(folder("ladder"), base, settings, repeats, rehearsal)

# %%
import statistics

from lesson import pictures

from dtlib.measure.noise import compare
from dtlib.sim.flops import resnet_step
from dtlib.sim.tensors import resnet_convolutions

fastest = plan.fastest(rates)
first = statistics.median(rates["fp32"])
device = torch.cuda.get_device_name() if size == "full" and GPUS else "cpu"
width = base.get("width", 64)
flop = resnet_step(1, resnet_convolutions(width), 8 * width)
peak = pictures.peak_of(device)
if peak is None:  # what a product of two matrices reaches here
    peak = launches.speed_of_a_product(device)


def noisiest(groups):
    """The repeats of the setting that differs most from itself."""
    return max(groups, key=lambda found: max(found) / min(found))


placebo = noisiest(rates.values())
told = {
    name: compare(statistics.median(found) / first, placebo)
    for name, found in rates.items()
}
pictures.draw_ladder(rates, flop, peak, device)

# %%
learn.table(
    [
        [name, statistics.median(found), min(found), max(found)]
        + [100 * mfu(statistics.median(found), 1, peak, flop)]
        + [statistics.median(found) / first]
        + ["" if told[name].real or name == "fp32" else "within the noise"]
        for name, found in rates.items()
    ],
    ["setting", "images/s", "from", "to", "MFU, %", "times fp32", ""],
    f"One process on {device}, medians of {repeats} repeats; the noise is the"
    " largest spread of a setting against itself,"
    f" {told['fp32'].spread:.2f} times",
)

# %%
learn.my_run("one process, fp32", first, "images/s")
best = statistics.median(rates[fastest])
learn.my_run(f"fastest: {fastest}", best, "images/s", effect=told[fastest])

# %% [markdown]
# On a GPU, each MFU is a share of the bf16 peak, so that the rows compare: in
# fp32, an H100 could reach 7 % at most. Whether bf16 helps depends on the
# processor: it pays off where the hardware has units for it; elsewhere it only
# costs conversions (lesson 04). The DataLoader prepares pictures one by one on
# the CPU; the course's default keeps all of them on the training device and
# slices whole batches there. If an MFU comes near 100 % or exceeds it, another
# program slowed the matrix product down by which the peak was measured:
# measure again on a quiet machine.
#
# ## Strong scaling
#
# In **strong scaling**, more ranks share the same global batch. Here they use
# the setting with the largest median above, even if its lead is noise. Each
# GPU keeps at least 128 images, because with fewer, launch overhead takes
# over. A study runs each number of ranks several times, in turns, so that a
# busy minute affects all of them alike. In a terminal you type
# `dtlib study strong images --ranks 1,2 --repeats 3`. In a rehearsal,
# processes take longer to start than to train, so if two runs in a row have
# the same number of ranks, the same processes do both.

# %%
from dtlib.study import scaling, sensitivity

scaled = {**base, **settings[fastest]}
print(f"the setting to scale: {fastest}")


def studied(kind, axes=None, **own):
    """Run a study in its own folder, and return the rows of its table."""
    wanted = {**scaled, **own}
    shared = [axes, rehearsal]
    return plan.study(folder(kind), kind, wanted, ranks, repeats, *shared)


rows = studied("strong", global_batch=together)
strong = scaling.efficiency(rows)


# %%
def noise_of(rows):
    """Seconds of a step where repeats differ most, on any number of ranks."""
    found = {}
    for row in rows:
        found.setdefault(row["world_size"], []).append(row["step_time_s"])
    return noisiest(found.values())


noise = {"strong": noise_of(rows)}
last = strong[-1]["efficiency"]
effect = compare(last, noise["strong"])
learn.measured("efficiency", 100 * last, effect=effect)

# %% [markdown]
# ## Weak scaling
#
# In **weak scaling**, *each rank* keeps the same batch, so the work grows with
# the number of ranks. This answers a different question: never compare a row
# of a strong study with a row of a weak one.

# %%
rows = studied("weak")
noise["weak"] = noise_of(rows)
weak = scaling.efficiency(rows)

# %%
from lesson.pictures import draw_efficiency

sure = [
    rows[0]["study"]
    for rows in (strong, weak)
    if compare(rows[-1]["efficiency"], noise[rows[0]["study"]]).real
]
draw_efficiency([strong, weak], sure)

# %%
learn.table(
    [
        [row["study"], row["world_size"], row["global_batch"]]
        + [1e3 * row["step_time_s"], row["throughput"]]
        + [100 * row[f"efficiency{end}"] for end in ("", "_min", "_max")]
        + [
            ""
            if row["world_size"] == 1
            or compare(row["efficiency"], noise[row["study"]]).real
            else "within the noise"
        ]
        for row in (*strong, *weak)
    ],
    ["scaling", "ranks", "batch", "ms", "images/s"]
    + ["efficiency", "from", "to", ""],
    "Medians, and efficiencies in % with their spread over the repeats; within"
    " the noise: repeats on the same number of ranks differ by as much",
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
# size of the buckets (the groups in which DistributedDataParallel, DDP, sends
# gradients), the batch, the precision, the loader's workers. A rehearsal
# compares two settings; the array at the end of this lesson makes twenty-four
# runs of eight settings. Every gain is measured against the first setting in
# the same turn. If one repeat shows a gain and another a loss, the study calls
# it noise. Two repeats often agree by chance, so the cell below also compares
# the gain with the placebo.

# %%
axes = {"bucket_cap_mb": [0.1, 25.0]}
if size == "full" and GPUS:
    both = dict.fromkeys(["fp32", scaled.get("precision", "fp32")])
    axes = {"bucket_cap_mb": [1.0, 25.0], "precision": list(both)}
swept = studied("sensitivity", axes, global_batch=together)

# %%
grid = sensitivity.by_setting(swept)
first, *others = grid
rate = {
    name: [row["throughput"] for row in rows] for name, rows in grid.items()
}
for name in others:
    times = statistics.median(rate[name]) / statistics.median(rate[first])
    effect = compare(times, noisiest(rate.values()))
    told = "" if effect.real else ": within the noise"
    print(f"{name} against {first}: {effect}{told}")
    learn.my_run(f"{name} over {first}", times, "times", effect=effect)

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
    said = "no row is fast enough"
    if found is not None:
        said = f"ranks: {found[0]:g}, rank hours: {found[1]:.2f}"
    print(f"within {deadline:.2f} h: {said}")

# %% [markdown]
# More GPUs cost more GPU hours whenever the efficiency falls: you pay
# for an earlier deadline. Move the sliders to see how the exchange of
# gradients sets that price, computed for a ring and 100,000 steps. The formula
# lets the computation shrink in proportion to the number of GPUs and knows no
# launches. So it is too optimistic where little work is left for each GPU:

# %%
learn.what_if("bill")

# %% [markdown]
# ## Faster steps are not a faster result
#
# Weak scaling makes the global batch bigger, so an epoch has fewer steps. Does
# the model still learn as much in an epoch? Here are three global batches. The
# learning rate grows in proportion to the batch (Goyal et al. 2017,
# https://arxiv.org/abs/1706.02677), and each run is evaluated after every
# epoch. A run that is done is kept, as those of the studies are:

# %%
BATCHES = [64, 256, 1024]
EPOCHS = 12
if record or size == "full":
    place = folder("batches")
    wide = {"model": "resnet18"} if size == "full" else {"width": 8}
    curves = {
        str(batch): plan.curve(place, batch, EPOCHS, wide) for batch in BATCHES
    }
    if record:
        learn.keep_record("27_batches", {"curves": curves})
else:
    curves = learn.recorded("27_batches")["curves"]

# %%
from lesson.pictures import draw_accuracy

epochs = range(1, EPOCHS + 1)
draw_accuracy(curves)

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
# In the recorded run, batch 1024 learnt hardly more than guessing, which is
# right once in ten: it is right in 12 % at best. It has 48 steps, and the rate
# warms up in the first 4 (one epoch; Goyal et al. warm up for five). Each
# batch has one seed and no tuning beyond the scaled rate, so this is no law:
# the curves do not tell whether batch 1024 suffers from its few steps, its
# learning rate of 0.8, its short warm-up, or a batch norm over 1,024 pictures
# instead of 64. But they show what images per second leave out: for the same
# pictures, batch 1024 took a sixteenth of the steps that batch 64 took. What
# counts is the **time to accuracy**: how long it takes until the model is good
# enough.
#
# ## Exercise 3: hours to accuracy
#
# ●●○ *10 minutes, stretch.* `curve` holds the accuracy after each epoch. An
# epoch has `images` pictures, processed at `images_per_second`. After how many
# hours does the accuracy reach `target` (or more) for the first time? Return
# None if it never does. It is measured only at the end of an epoch, so do not
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
# ranks, and 1024 that of 16. Each rank keeps its batch, so how fast 4 or 16
# ranks are follows from *weak* scaling, measured here at 64 a rank. The
# efficiency of your largest number of ranks stands for all others, so with two
# ranks the speed of 16 is a guess.
#
# The accuracies come from *one* process, whose batch norm averages over
# the whole batch. Each of 16 ranks would average over its own 64 pictures,
# which lesson 22 calls another experiment; group norm would avoid that. Strong
# scaling, too, shrinks the batch of the norm.

# %%
hours = learn.given("hours_to_accuracy")
target = 0.4
if base["global_batch"] == 64:
    at_64 = weak
else:  # with fewer images a GPU, launches cost more
    asked = {**scaled, "global_batch": 64}
    place = folder("weak-64")
    found = plan.study(place, "weak", asked, ranks, repeats, None, rehearsal)
    at_64 = scaling.efficiency(found)
for batch in curves:
    n = int(batch) // 64
    rate = plan.grown(at_64, n)
    if n not in [row["world_size"] for row in at_64]:
        print(f"The speed of {n} ranks is extrapolated from {ranks[-1]}.")
    found = hours(curves[batch], 4096, rate, target)
    said = "never, in these epochs"
    if found is not None:
        said = f"after {3600 * float(found):.1f} s"
    print(f"batch {batch:>4}, {rate:,.0f} images/s: {target:.2f} {said}")

# %% [markdown]
# ## On the cluster
#
# Here are the same studies as Slurm arrays: each run is one task of an array,
# and the results end up in one table. `--array=0-11` makes twelve tasks: four
# numbers of ranks, three times each. Put into `fast` the setting that was the
# fastest on *your* GPU:
#
# ```
# fast="--model resnet18 --precision bf16 --channels-last --compile"
# node="--gpus-per-node=4 --cpus-per-task=32 --mem=128G"
# sbatch --nodes=2 $node --array=0-11 \
#   slurm/ddp_strong_scaling.sbatch images --ranks 1,2,4,8 \
#   --global-batch 1024 $fast
# sbatch --nodes=2 $node --array=0-11 \
#   slurm/ddp_weak_scaling.sbatch images --ranks 1,2,4,8 \
#   --global-batch 1024 $fast
# sbatch $node --array=0-23 \
#   slurm/ddp_sensitivity.sbatch images --ranks 4 $fast \
#   --bucket-cap-mb 1,25 --global-batch 512,1024 --precision fp32,bf16
# ```
#
# All tasks of an array reserve the same, so the runs on one GPU also reserve
# (and are billed for) eight. And the tasks run on whichever nodes are free, at
# different times. The table still divides repeat 2 by repeat 2, but these two
# were no neighbours: the spread then includes that of nodes and hours. The job
# at the top of this lesson runs them in turns on the same nodes.
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
