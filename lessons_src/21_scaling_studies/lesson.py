# %% [raw]
# ---
# number: "21"
# title: Scaling studies
# does: >-
#   measure strong and weak scaling honestly, tell a gain from noise, plan a
#   study
# objectives:
#   - run a strong and a weak scaling study, and compute their efficiencies
#   - tell a gain from noise with repeats that are paired turn by turn
#   - plan a study in which one thing varies, and judge what bounds a curve
# minutes: {read: 33, exercises: 42}
# needs: [laptop]
# builds_on: ["20"]
# ---

# %% [markdown]
# A tutorial has a table: one GPU trains 4,507 images/s, two GPUs train 4,451.
# Below the table it says "training scales to two GPUs". **How do you measure
# scaling so that you fool nobody, yourself included?**
#
# You run a strong and a weak scaling study on one and two ranks, compute
# their efficiencies, and judge tables that others have published. Exercises
# 1 and 2 are the core and fit into an hour with the reading; 3 and 4 are
# *stretch*.

# %%
from dtlib import learn

learn.start("21")

# %%
from lesson.pictures import draw_question

draw_question()

# %% [markdown]
# If you have more cores or GPUs, make the studies larger with `ranks` and
# `repeats`. `batch` is the global batch (the samples of all ranks in a step)
# of the strong study, and the batch of each rank in the weak one.

# %% tags=["parameters"]
ranks = "1,2"
repeats = 3
steps = 10
batch = 8
length = 32
samples = 64

# %% [markdown]
# ## Your predictions
#
# Commit all three before you go on.

# %%
learn.predict("two_gpus")

# %%
learn.predict("strong_here")

# %%
learn.predict("by_chance")

# %% [markdown]
# ## Two questions, two studies
#
# T(N) is the time of a step on N **ranks** (processes, one for each GPU).
#
# - **Strong scaling**: how much faster is the *same* work done? The global
#   batch stays the same, and each rank's batch shrinks. Ideally
#   T(N) = T(1)/N, so the **efficiency** is E = T(1) / (N·T(N)).
# - **Weak scaling**: how much *more* work is done in the same time? Each
#   rank's batch stays the same, and the global batch grows. Ideally
#   T(N) = T(1), so E = T(1) / T(N).
#
# Both efficiencies are 1 if nothing is lost. More than 1 is rare; it happens,
# for example, when a rank's smaller part fits into a cache. The **speed-up**
# is T(1)/T(N) for the same work, ideally N, and it says little unless you
# also know N. A weak study has N·E instead: how many times as much work is
# done in the same time.
#
# A worked example of strong scaling: a step takes 8 s on one rank and 5 s on
# two. The speed-up is 1.6, the efficiency 8 / (2·5) = 0.8. And for the table
# at the top, if both rows have the same global batch:

# %%
one, two = 4507, 4451  # images/s, on one GPU and on both together
table = (1 / one) / (2 * (1 / two))  # time is batch over throughput
print(f"speed-up {two / one:.2f}, efficiency {table:.2f}")
learn.measured("two_gpus", "0.49")
assert round(table, 2) == 0.49

# %% [markdown]
# The second GPU added nothing.
#
# One run is an anecdote, so you repeat every run. Repeat in whole **turns**:
# run every number of ranks once, then all of them again. If the machine is
# slow for a quarter of an hour, it is then slow for all of them. That lets
# you *pair* the runs: compute the efficiency of each repeat against the run
# on one rank *in the same turn*, and take the median of these efficiencies.
# In this example the machine was half as fast in the second turn:

# %%
import statistics

first, second = (6, 12, 6), (4, 10, 3.2)  # seconds on one rank, and on two
pairs = [one / (2 * two) for one, two in zip(first, second)]
print("efficiencies", pairs, "median", statistics.median(pairs))

# %% [markdown]
# ## Exercise 1: efficiency from a table
#
# ●●○ *12 minutes.* Do this for every number of ranks in the table, and for
# both kinds of scaling. `rows` is a list of dicts such as
# `{"ranks": 2, "repeat": 0, "step_time_s": 5.0}`, in any order.


# %% tags=["exercise"]
def efficiency(kind, rows):
    """A dict: number of ranks → efficiency. `kind` is "strong" or "weak"."""
    one = {r["repeat"]: r["step_time_s"] for r in rows if r["ranks"] == 1}
    found = {}
    ### BEGIN SOLUTION
    for row in rows:
        more = row["ranks"] if kind == "strong" else 1
        value = one[row["repeat"]] / (more * row["step_time_s"])
        found.setdefault(row["ranks"], []).append(value)
    found = {n: statistics.median(each) for n, each in found.items()}
    ### END SOLUTION
    return found


# %% tags=["check"]
learn.check("efficiency", efficiency)

# %% [markdown]
# ## Your own study
#
# One command runs a whole study: every number of ranks and every repeat, in
# turns. Every rank has one thread, whatever N is, and the learning rate stays
# the same. During its first steps a run warms up and is profiled; only the
# steps after them are timed. If a study is interrupted, it resumes where it
# stopped. On the command line you would type
# `dtlib study strong text --ranks 1,2 --repeats 3 …`, and then the same with
# `weak`. The output of the runs goes into a file; their tables appear below.

# %%
from contextlib import redirect_stdout
from pathlib import Path

from dtlib import study
from dtlib.study import family

small = f"text --model nano --max-length {length} --global-batch {batch}"
small += f" --num-samples {samples} --steps {steps} --repeats {repeats}"


def run(kind, *more):
    """Run a study in its own folder, and show its table."""
    out = family.begin(Path("studies") / kind)
    with (out / "runs.log").open("w") as log, redirect_stdout(log):
        code = study.main([kind, *small.split(), *more, "--out", str(out)])
    assert code == 0
    print((out / f"{kind}.txt").read_text())


run("strong", "--ranks", ranks)
run("weak", "--ranks", ranks)

# %% [markdown]
# Read the lines below each table. They list the targets that the study behind
# this course set for GPUs, and say whether this machine reached each target,
# missed it or cannot tell. Each study also wrote a CSV file with one row for
# each run; `dtlib study figure studies/strong` draws the figures again from
# that file.
#
# Now apply your function to your own rows:

# %%
from dtlib.measure.noise import compare
from dtlib.study import scaling, tables

mine, course, alone = {}, {}, {}
worth = learn.given("efficiency")
for kind in ("strong", "weak"):
    runs = tables.read(Path(f"studies/{kind}/{kind}.csv"))
    rows = [
        {
            "ranks": row["world_size"],
            "repeat": row["repeat"],
            "step_time_s": row["step_time_s"],
        }
        for row in runs
    ]
    mine[kind] = worth(kind, rows)
    alone[kind] = [r["step_time_s"] for r in rows if r["ranks"] == 1]
    course[kind] = scaling.efficiency(runs)
    for row in course[kind]:
        n = row["world_size"]
        assert abs(mine[kind][n] - row["efficiency"]) < 1e-9
most = max(mine["strong"])
# The times on one rank show how far from 1 noise alone can take a ratio.
strong, weak = (compare(mine[kind][most], alone[kind]) for kind in mine)
learn.measured("strong_here", strong.times, effect=strong)
what = f"weak efficiency on {most} ranks"
learn.my_run(what, weak.times, "of 1", effect=weak)

# %%
from lesson.pictures import draw_study

sure = {"strong": strong.real, "weak": weak.real}
draw_study(course, sure)

# %%
names = "efficiency", "efficiency_min", "efficiency_max"
learn.table(
    [
        [kind, row["world_size"], row["global_batch"]]
        + [f"{row[name]:.2f}" for name in names]
        + ["within the noise" if not sure[kind] and row["world_size"] > 1
           else ""]
        for kind in mine
        for row in course[kind]
    ],
    ["study", "ranks", "global batch", "efficiency", "smallest", "largest",
     ""],
    "Medians over the repeats, and the whole spread; the times on one rank"
    f" spread by {strong.spread:.2f} and {weak.spread:.2f} times",
)  # fmt: skip

# %% [markdown]
# Strong scaling of such a small model is a harsh test: at the same global
# batch each of two ranks has half the work, but the **all-reduce**, which sums
# the gradients of all ranks, moves the same number of bytes, whatever the
# batch. On two cores that other programs use as well, the spread may be wide.
# Where the times on one rank alone differ by more than an efficiency differs
# from 1, the table says *within the noise*: then that efficiency is no result
# yet, and longer runs have to decide.
#
# ## Exercise 2: is it a gain?
#
# ●●○ *10 minutes.* You change a setting, and training looks 5 % faster.
# `before` and `after` are lists of throughputs; numbers at the same place
# were measured in the same turn, and are partners. Divide every `after` by
# its partner. All these ratios measure the same change, so where they differ,
# it is the machine that makes them differ. Their **spread** is the largest
# ratio over the smallest. Return `"gain"` if the median of the ratios is
# larger than their spread, `"loss"` if 1 over the median is, otherwise
# `"noise"`. A single repeat has no spread, so it is `"noise"`.
#
# A worked example: the ratios 1.05, 1.2 and 1.1 have a spread of 1.2 / 1.05,
# which is 1.14. Their median, 1.1, is smaller. So this is noise, although
# every repeat was faster.


# %% tags=["exercise"]
def verdict(before, after):
    """One of "gain", "loss" and "noise"."""
    ### BEGIN SOLUTION
    ratios = [new / old for old, new in zip(before, after)]
    middle, spread = statistics.median(ratios), max(ratios) / min(ratios)
    if len(ratios) < 2 or max(middle, 1 / middle) <= spread:
        return "noise"
    return "gain" if middle > 1 else "loss"
    ### END SOLUTION


# %% tags=["check"]
learn.check("verdict", verdict)

# %% [markdown]
# Why not simply ask whether all repeats agree? Suppose that a setting changes
# nothing. Then each repeat is as likely to be faster as slower, whatever the
# other repeats were. These are all the outcomes that three repeats can have:

# %%
from itertools import product

worlds = list(product(("faster", "slower"), repeat=3))
agree = [len(set(world)) == 1 for world in worlds]
print(f"in {sum(agree)} of {len(worlds)} worlds all three repeats agree")
learn.measured("by_chance", 100 * sum(agree) / len(worlds))
assert sum(agree) / len(worlds) == 2 * 0.5**3

# %% [markdown]
# So three repeats that agree are weak evidence. How often is your rule fooled?
# Let it judge 2,000 **simulated** comparisons in which nothing changes and the
# machine makes each throughput vary by a few per cent:

# %%
import random

judge = learn.given("verdict")
luck = random.Random(0)
rows = []
for count in (3, 6):
    many = [[luck.gauss(100, 3) for _ in range(count)] for _ in range(2000)]
    fooled = sum(judge([100] * count, after) != "noise" for after in many)
    rows.append([count, f"{200 * 0.5**count:.0f}", f"{fooled / 20:.1f}"])
learn.table(
    rows,
    ["repeats", "all agree, %", "median beyond the spread, %"],
    "How often chance alone looks like a gain or a loss",
)

# %% [markdown]
# Your rule is the library's: `compare`, and the study below, count an effect
# only if it is larger than what the same measurement shows where nothing
# changes. It is strict. A single disturbed repeat can make a true gain look
# like noise, and more repeats never make the spread smaller, so take longer
# runs. (Lesson 22 counts how many of many pairs agree instead.) And if you try
# twenty settings and keep the best one, you pick luck along with speed. So run
# only the winner and the original setting again, in fresh pairs.
#
# ## Sensitivity: what makes a difference?
#
# The third kind of study keeps the number of ranks fixed and varies settings:
# it runs every combination of them, in turns. Here it varies the size of the
# **buckets** in which DDP (PyTorch's DistributedDataParallel) collects
# gradients before it sends them. The model takes up 3 MB. The steps are not
# profiled, so two of the targets cannot be judged:

# %%
caps = "--bucket-cap-mb", "0.5,25"
run("sensitivity", "--ranks", "2", "--no-profile", *caps)

# %%
runs = tables.read(Path("studies/sensitivity/sensitivity.csv"))
by_cap = {0.5: [], 25: []}
for row in runs:
    by_cap[row["bucket_cap_mb"]].append(row["throughput"])
said = judge(by_cap[0.5], by_cap[25])
ratios = [new / old for old, new in zip(by_cap[0.5], by_cap[25])]
effect = compare(statistics.median(ratios), ratios)
assert (said != "noise") == effect.real  # the library's rule is yours
gain = effect.times - 1
print(f"buckets of 25 MiB instead of 0.5: {gain:+.1%}, which is {said}")
learn.my_run("gain of larger buckets", 100 * gain, "%", effect=effect)

# %% [markdown]
# ## How far can it go?
#
# Suppose that a share s of a step cannot be divided among ranks, because it is
# serial. Two laws then answer two different questions.
#
# - **Amdahl's law** keeps the *work* the same: how much sooner is it done?
#   1 / (s + (1 − s)/N) times as soon, and never more than 1/s
#   (https://doi.org/10.1145/1465482.1465560). Strong scaling asks this.
# - **Gustafson's law** keeps the *time* the same: how much more work is done
#   in it? Each rank does as much divisible work as one rank did alone, and
#   the serial part is done once. One rank would need s + N·(1 − s) times as
#   long for all of that, which has no bound
#   (https://doi.org/10.1145/42411.42415). Weak scaling asks this.
#
# Communication comes on top. In the sliders below it is an all-reduce in a
# ring (lesson 07), in which the bytes that each rank sends grow as (N − 1)/N:

# %%
learn.what_if("how_far")

# %% [markdown]
# ## Exercise 3: the serial share
#
# ●●○ *8 minutes, stretch.* Use Amdahl's law in the other direction. Given a
# measured speed-up S on N ranks, Karp and Flatt
# (https://doi.org/10.1145/78607.78614) ask: which share s would explain it,
# if T(N) = s·T(1) + (1 − s)·T(1)/N? A worked example: a step takes 8 s on one
# rank and 5 s on two. Then 5 = 8s + 4(1 − s), and so s = 0.25.


# %% tags=["exercise", "stretch"]
def serial_share(speedup, ranks):
    """The share s, from 0 (ideal) to 1 (no faster than one rank)."""
    ### BEGIN SOLUTION
    return (1 / speedup - 1 / ranks) / (1 - 1 / ranks)
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("serial_share", serial_share)

# %% [markdown]
# Now put the share of *your* strong study into both laws. For as many ranks
# as you used, Amdahl's column gives back what you measured, because you
# computed s from it. Gustafson's column assumes that a step takes no longer on
# N ranks than on one, and your weak study tests that. If your ranks together
# were slower than one, no share of a step explains that: each rank added some
# cost. The cell then takes the worked example's s.

# %%
explain = learn.given("serial_share")
s = explain(most * strong.times, most)
source = "from your strong study"
if not 0 <= s <= 1:
    print(f"Your s would be {s:.2f}, and a share lies between 0 and 1.")
    s, source = 0.25, "from the worked example"
elif not strong.real:
    source += "; within the noise, so s may as well be 0"
print("Gustafson assumes a weak efficiency of 1; yours is", end=" ")
print(f"{weak.times:.2f}" + ("." if weak.real else ", within the noise."))
learn.table(
    [
        [n, f"{1 / (s + (1 - s) / n):.2f}", f"{s + (1 - s) * n:.2f}"]
        for n in (most, 8, 64, 1024)
    ],
    ["ranks", "Amdahl: times as soon", "Gustafson: times the work"],
    f"Both laws for s = {s:.2f}, {source}",
)

# %% [markdown]
# Both columns are right, so whoever quotes one of them has to say which work
# it is for. One measured s is not enough for 1024 ranks either, so look at
# several N. If s stays the same as N grows, some part of the step costs the
# same however many ranks share the rest. That part need not be serial work: an
# all-reduce in a ring looks just like it. Here 5 % of the step is serial, and
# the all-reduce takes 10 % on many ranks, as in the sliders above:

# %% tags=["stretch"]
from lesson.what_if import strong_step

for n in (2, 8, 64):
    share = explain(1 / strong_step(n, 0.05, 0.10), n)
    print(f"{n} ranks: s = {share:.2f}")
    assert abs(share - 0.15) < 1e-9

# %% [markdown]
# If s grows with N, each rank *adds* some cost: there are more messages, and
# with more ranks it is more likely that one of them is late. The number s is
# there to tell you which of the two cases you have.
#
# ## The border of a node
#
# Neither law knows where the ranks are. A **node** is one machine. In a node
# with eight H100 GPUs each sends 450 GB/s over **NVLink**, NVIDIA's link
# between GPUs. To other nodes each sends 50 GB/s over **InfiniBand**, a
# network for clusters (lesson 07). A ring is as fast as its slowest link.
#
# The next cell **simulates** data-parallel training of GPT-2 with 8 windows
# (pieces of text) of 1,024 tokens on each GPU, or 64 windows on all of them.
# It assumes that a GPU computes at 40 % of its peak, the most that its data
# sheet promises, as H100s roughly do in MosaicML's tables
# (https://github.com/mosaicml/llm-foundry/tree/main/scripts/train/benchmarking),
# and that messages have no latency. Communication is **hidden** as far as the
# GPU computes something else meanwhile. Backward is two thirds of the
# computation, so it can hide at most that much:

# %%
from lesson.pictures import draw_border

from dtlib.sim import hardware
from dtlib.sim.collectives import ring_all_reduce_time
from dtlib.sim.estimate import Setup, estimate

nvlink, infiniband = hardware.DEVICES["h100"]["link"], 50e9  # bytes/s
rate = 0.4 * hardware.peak("h100", "bf16")


def simulated_step(n, windows, hidden):
    """Seconds of a step with so many windows on each of n GPUs."""
    one = estimate(Setup("gpt2", micro_batch=windows, precision="bf16"))
    compute = one.flop[0] / rate
    link = nvlink if n <= 8 else infiniband
    gradients = 4 * one.parameters  # bytes
    messages = ring_all_reduce_time(gradients, n, 0, 1 / link)
    return compute + max(0, messages - 2 / 3 * compute * hidden)


gpus = [1, 2, 4, 8, 16, 32, 64]
one_gpu, in_all = simulated_step(1, 8, True), simulated_step(1, 64, True)
draw_border(
    {
        "weak, nothing hidden": {
            n: one_gpu / simulated_step(n, 8, False) for n in gpus
        },
        "weak, hidden": {
            n: one_gpu / simulated_step(n, 8, True) for n in gpus
        },
        "strong, hidden": {
            n: in_all / (n * simulated_step(n, 64 // n, True)) for n in gpus
        },
    }
)

# %% [markdown]
# From 8 GPUs to 16 the all-reduce takes almost ten times as long, once; from
# 16 to 64 it hardly grows. So a curve that ends at 8 GPUs says nothing about
# 16, and a study has to measure on both sides of the border. A step that
# computes long enough hides the border: in PyTorch's table below, ResNet-50
# takes 104 ms on 8 GPUs of one node and on 16 of two. Lesson 07's all-reduce
# on two levels, inside the nodes and between them, moves the border, too.
#
# ## What are the extra samples worth?
#
# A weak study counts samples, but what you want is a lower loss. A larger
# batch averages away the **noise** of the gradient, by which the gradients of
# single samples differ. Once little noise is left, more samples in a step help
# little. McCandlish et al. (https://arxiv.org/abs/1812.06162) put this into a
# number, the **noise scale** B: the summed variance of one sample's gradient,
# over the squared length of the mean gradient. It estimates the **critical
# batch size**, beyond which a larger batch no longer pays in full.
#
# Measure it for the GPT of your study, before and after 40 steps of training,
# each time twice on different windows. The gradients of `count` batches have
# more noise in them than the mean of these gradients, and the difference gives
# B:

# %%
import torch
from torch.nn import functional as F

from dtlib.data import open_text
from dtlib.models import gpt

torch.set_num_threads(1)
micro, count, steps_taken = 4, 16, 40  # windows in a batch; batches
needed = (2 * count + steps_taken) * micro * length + 1  # tokens
text = open_text("grammar", seed=0, size=needed)
inputs = text.train[:-1].view(-1, micro, length)
labels = text.train[1:].view(-1, micro, length)
model = gpt.GPT(gpt.shape("nano", vocab_size=text.tokenizer.vocab_size))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)


def gradient(k):
    model.zero_grad()
    logits = model(inputs[k]).flatten(0, 1)
    F.cross_entropy(logits, labels[k].flatten()).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def noise_scale(first):
    """B in windows, from `count` batches; the paper's appendix A.1."""
    each = torch.stack([gradient(first + k) for k in range(count)])
    little, much = each.square().sum(1).mean(), each.mean(0).square().sum()
    noise = (little - much) / (1 / micro - 1 / (micro * count))
    signal = (count * much - little) / (count - 1)
    return float(noise / signal)


early = [noise_scale(0), noise_scale(count)]
for k in range(2 * count, len(inputs)):
    gradient(k)
    optimizer.step()
late = [noise_scale(0), noise_scale(count)]
effect = compare(late[0] / early[0], late)
for when, (one, again) in {"before": early, "after": late}.items():
    print(f"{when} training: B = {one:.1f}, measured again {again:.1f}")
learn.my_run("growth of the noise scale", effect.times, effect=effect)

# %% [markdown]
# The noise scale grows as the loss falls, because the mean gradient shrinks
# and the noise does not shrink as much. In the paper's formula a batch of M
# samples needs 1 + B/M times as many steps to the same loss as a huge batch
# would (with the best learning rate for each batch). With b windows on each
# rank, N ranks then reach that loss (1 + B/b) / (1 + B/(N·b)) times as soon,
# even if communication costs nothing:

# %%
rows = []
for n in (1, 8, 64, 1024):
    sooner = (1 + late[0] / batch) / (1 + late[0] / (n * batch))
    rows.append([n, n * batch, n, f"{sooner:.2f}"])
s = batch / (batch + late[0])
assert abs(sooner - 1 / (s + (1 - s) / n)) < 1e-6 * sooner
learn.table(
    rows,
    ["ranks", "global batch", "times the samples", "times as soon"],
    f"Ideal weak scaling at your B = {late[0]:.1f}, by the paper's formula",
)

# %% [markdown]
# That is Amdahl's law again, with s = b / (b + B), as the cell asserts. So
# weak scaling has no bound if you count samples, and 1 + B/b is the bound if
# you count the time until the loss is reached.
#
# ## Published tables
#
# NVIDIA's table for ResNet-50 in mixed precision on a DGX A100, a machine with
# eight GPUs, has 2,470 images/s on one of them and 16,621 on all eight
# (https://github.com/NVIDIA/DeepLearningExamples/tree/master/PyTorch/Classification/ConvNets/resnet50v1.5).
# PyTorch's own benchmark of DDP, ResNet-50 with 32 images on each GPU, has a
# step of 97 ms without DDP, of 104 ms on 8 GPUs and of 104 ms on 16
# (https://github.com/pytorch/pytorch/tree/main/benchmarks/distributed/ddp).

# %%
weak = 97 / 104
nvidia = 16_621 / 2470 / 8
print(f"DDP on 8: weak, {weak:.2f}. NVIDIA on 8: weak, {nvidia:.2f}")
assert round(weak, 2) == 0.93 and round(nvidia, 2) == 0.84

# %% [markdown]
# In both tables the batch of each GPU stays the same, so both are weak
# scaling: the efficiency is the throughput on N GPUs over N times that of one
# GPU. PyTorch's table has percentiles over the steps of one run; neither
# table says how far two runs are apart. Ask four questions of every such
# table: which kind of scaling, which baseline, how many repeats, and was the
# warm-up left out? PyTorch's benchmark also shows why the baseline matters:
# with DDP on one GPU the step takes 100 ms. Against that baseline the
# efficiency would be 0.96.
#
# ## Exercise 4: plan a study
#
# ●●○ *12 minutes, stretch.* A study answers a question only if *one* thing
# varies. List the runs in the order in which they should run. Every rank has
# one thread. `batch` is the global batch if `kind` is "strong", and the batch
# of each rank if it is "weak". Every study includes a run on one rank, even
# if 1 is not in `numbers`. Each repeat is a whole turn over all numbers of
# ranks.


# %% tags=["exercise", "stretch"]
def plan(kind, numbers, repeats, batch):
    """A list of dicts: ranks, global_batch, threads, repeat (from 0)."""
    ### BEGIN SOLUTION
    counts = sorted({1, *numbers})
    return [
        {
            "ranks": n,
            "global_batch": batch * n if kind == "weak" else batch,
            "threads": 1,
            "repeat": repeat,
        }
        for repeat in range(repeats)
        for n in counts
    ]
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("plan", plan)

# %% [markdown]
# Compare your plan with the runs of the strong study above:

# %% tags=["stretch"]
planned = learn.given("plan")
counts = [int(n) for n in ranks.split(",")]
wanted = [
    (row["ranks"], row["global_batch"], row["repeat"])
    for row in planned("strong", counts, repeats, batch)
]
ran = [
    (row["world_size"], row["global_batch"], row["repeat"])
    for row in tables.read(Path("studies/strong/strong.csv"))
]
assert sorted(ran) == sorted(wanted)
len(wanted)

# %% [markdown]
# ## Quiz

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## Take-away
#
# - Strong scaling: the same global batch, E = T(1)/(N·T(N)). Weak scaling: the
#   same batch on each rank, E = T(1)/T(N). Without its kind, an efficiency
#   means nothing.
# - The baseline is one rank, with no communication at all.
# - Repeat in turns, compare pair by pair, and show the spread. A gain that is
#   no larger than the spread is noise so far.
# - Vary one thing only: fix the batch, the learning rate and the threads, and
#   state them.
# - A curve has a step where the ring leaves its node: measure on both sides.
# - Beyond the critical batch size weak scaling still adds samples, but hardly
#   any progress.
# - A table without its kind, baseline and repeats is a claim, not a result.

# %%
learn.take_away()
