# %% [raw]
# ---
# number: "21"
# title: Scaling studies
# does: >-
#   measure strong and weak scaling honestly, tell a gain from noise, plan a
#   study
# objectives:
#   - run a strong and a weak scaling study, and compute their efficiencies
#   - tell a gain from noise, by repeats that are paired turn by turn
#   - plan a study in which one thing varies, and judge a published table
# minutes: {read: 25, exercises: 40}
# needs: [laptop]
# builds_on: ["20"]
# ---

# %% [markdown]
# A table found in a tutorial: one GPU trains 4,507 images/s, two GPUs train
# 4,451. Below it stands "training scales to two GPUs". **How do you measure
# scaling so that nobody is fooled, you included?**
#
# You run a strong and a weak study on one and two ranks, compute what they
# are worth, and judge tables that others have published. Exercises 1 and 2
# are the core and fit an hour with the reading; 3 and 4 are *stretch*.

# %%
from dtlib import learn

learn.start("21")

# %% [markdown]
# `ranks` and `repeats` make the studies larger where there are more cores or
# GPUs. `batch` is the global batch of the strong study, and a rank's batch in
# the weak one.

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
# T(N) is the time of a step on N ranks.
#
# - **Strong scaling**: how much sooner is the *same* work done? The global
#   batch stays, a rank's batch shrinks. Ideally T(N) = T(1)/N, so the
#   **efficiency** is E = T(1) / (N·T(N)).
# - **Weak scaling**: how much *more* work is done in the same time? A rank's
#   batch stays, the global batch grows. Ideally T(N) = T(1), so
#   E = T(1) / T(N).
#
# Both are 1 where nothing is lost; more is rare, when a rank's smaller part
# fits a cache, say. The **speed-up** is T(1)/T(N) of the same work, ideally N,
# and says little without N beside it. In a weak study its place is taken by
# N·E: how many times the work is done in the same time.
#
# A worked case, strong: 8 s on one rank, 5 s on two. The speed-up is 1.6, the
# efficiency 8 / (2·5) = 0.8. The table above, at the same global batch:

# %%
one, two = 4507, 4451  # images/s, on one GPU and on both together
table = (1 / one) / (2 * (1 / two))  # time is batch over throughput
print(f"speed-up {two / one:.2f}, efficiency {table:.2f}")
learn.measured("two_gpus", "0.49")
assert round(table, 2) == 0.49

# %% [markdown]
# The second GPU has added nothing.
#
# One run is an anecdote, so every run is repeated. And whole **turns** are
# repeated: all numbers of ranks once, then all of them again. A slow quarter
# of an hour then falls on all of them. So *pair*: compute the
# efficiency of each repeat against one rank *of the same turn*, and take the
# median of those. Here the machine was half as fast in the second turn:

# %%
import statistics

first, second = (6, 12, 6), (4, 10, 3.2)  # seconds on one rank, and on two
pairs = [one / (2 * two) for one, two in zip(first, second)]
print("efficiencies", pairs, "median", statistics.median(pairs))

# %% [markdown]
# ## Exercise 1: efficiency from a table
#
# ●●○ *12 minutes.* Do that for any number of ranks, and for both kinds.
# `rows` is a list of dicts such as
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
# One command runs a study: each number of ranks, each repeat, in turns. Every
# rank has one thread, whatever N is, and the learning rate stays. A step
# enters the timing only after the first ones, which warm up and are profiled.
# A study that is interrupted goes on where it stopped. On the command line
# this is `dtlib study strong text --ranks 1,2 --repeats 3 …`, and then `weak`.
# What the runs say goes into a file; their tables come below.

# %%
from contextlib import redirect_stdout
from pathlib import Path

from dtlib import study
from dtlib.study import family

small = f"text --model nano --max-length {length} --global-batch {batch}"
small += f" --num-samples {samples} --steps {steps} --repeats {repeats}"


def run(kind, *more):
    """Carry out a study in a folder of its own, and show its table."""
    out = family.begin(Path("studies") / kind)
    with (out / "runs.log").open("w") as log, redirect_stdout(log):
        code = study.main([kind, *small.split(), *more, "--out", str(out)])
    assert code == 0
    print((out / f"{kind}.txt").read_text())


run("strong", "--ranks", ranks)
run("weak", "--ranks", ranks)

# %% [markdown]
# Read the lines below each table: what the study that this course follows set
# out to reach on GPUs, and whether this machine reached it, missed it or
# cannot tell. Each study left a CSV file, a row a run; `dtlib study figure
# studies/strong` draws everything again from that.
#
# Your function, on your rows:

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
# One rank against itself may look as far from 1 as that.
strong, weak = (compare(mine[kind][most], alone[kind]) for kind in mine)
learn.measured("strong_here", strong.times, effect=strong)
what = f"weak efficiency on {most} ranks"
learn.my_run(what, weak.times, "of 1", effect=weak)

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
for kind, marker, aside in (("strong", "o-", -0.01), ("weak", "s--", 0.01)):
    found = course[kind]
    counts = [row["world_size"] for row in found]
    ends = [[abs(row["efficiency"] - row[f"efficiency_{end}"])
             for row in found] for end in ("min", "max")]  # fmt: skip
    middle = [row["efficiency"] for row in found]
    places = [n + aside for n in counts]  # so that both spreads are seen
    axes.errorbar(places, middle, ends, fmt=marker, capsize=4, label=kind)
axes.axhline(1, color="k", lw=0.8, ls=":", label="ideal")
axes.set(xlabel="ranks", ylabel="efficiency", ylim=(0, None), xticks=counts)
axes.legend(loc="lower left")
plt.show()

# %%
names = "efficiency", "efficiency_min", "efficiency_max"
learn.table(
    [
        [kind, row["world_size"], row["global_batch"]]
        + [f"{row[name]:.2f}" for name in names]
        for kind in mine
        for row in course[kind]
    ],
    ["study", "ranks", "global batch", "efficiency", "smallest", "largest"],
    "Medians over the repeats, and the whole spread",
)

# %% [markdown]
# Strong scaling of so small a model is a harsh test: at the same global batch
# two ranks have half the work each, and as many bytes to all-reduce. On two
# cores that others use, the spread may be wide; then it is part of the result.
#
# ## Exercise 2: is it a gain?
#
# ●○○ *8 minutes.* You change a setting, and it looks 5 % faster. `before` and
# `after` hold throughputs; the same place is the same turn. Say `"gain"` when
# every repeat is faster than its own partner, `"loss"` when every one is
# slower, else `"noise"`. A single repeat has no spread, so it is `"noise"`.


# %% tags=["exercise"]
def verdict(before, after):
    """One of "gain", "loss" and "noise"."""
    ### BEGIN SOLUTION
    signs = {(b > a) - (b < a) for a, b in zip(before, after)}
    if len(before) > 1 and signs == {1}:
        return "gain"
    if len(before) > 1 and signs == {-1}:
        return "loss"
    return "noise"
    ### END SOLUTION


# %% tags=["check"]
learn.check("verdict", verdict)

# %% [markdown]
# How easily is that rule fooled? Suppose that a setting changes nothing, so
# that each repeat is as likely to be faster as slower, whatever the others
# were. All that three repeats can do:

# %%
from itertools import product

judge = learn.given("verdict")
worlds = list(product((99, 101), repeat=3))
fooled = [judge([100] * 3, list(after)) != "noise" for after in worlds]
print(f"{sum(fooled)} of {len(worlds)} worlds show a gain or a loss")
learn.measured("by_chance", 100 * sum(fooled) / len(worlds))
assert sum(fooled) / len(worlds) == 2 * 0.5**3

# %% [markdown]
# Three repeats that agree are weak evidence, six (2·½⁶, 3 %) are better. One
# that disagrees makes it noise for good under this rule, however many follow;
# lesson 22 counts instead how many agree. And whoever tries twenty settings
# and keeps the best picks luck along with speed: run the winner and the first
# again, those two alone, in fresh pairs.
#
# ## Sensitivity: what makes a difference?
#
# The third kind of study holds the ranks and varies settings: a full grid, in
# turns. The size of DDP's buckets, on a model of 3 MB (with no profile, so
# that two of the targets cannot be judged):

# %%
caps = "--bucket-cap-mb", "0.5,25"
run("sensitivity", "--ranks", "2", "--no-profile", *caps)

# %%
runs = tables.read(Path("studies/sensitivity/sensitivity.csv"))
by_cap = {0.5: [], 25: []}
for row in runs:
    by_cap[row["bucket_cap_mb"]].append(row["throughput"])
said = judge(by_cap[0.5], by_cap[25])
gain = statistics.median(b / a - 1 for a, b in zip(by_cap[0.5], by_cap[25]))
effect = compare(1 + gain, by_cap[0.5])
said = said if effect.real else "noise"
print(f"buckets of 25 MiB instead of 0.5: {gain:+.1%}, which is {said}")
learn.my_run("gain of larger buckets", 100 * gain, "%", effect=effect)

# %% [markdown]
# ## How far can it go?
#
# **Amdahl's law**: if a share s of a step cannot be divided, no number of
# ranks makes it more than 1/s times as fast
# (https://doi.org/10.1145/1465482.1465560). Communication comes on top, here a
# ring's all-reduce, whose bytes grow as (N − 1)/N. Weak scaling does not
# divide the work, so it keeps far more:

# %%
learn.what_if("how_far")

# %% [markdown]
# ## Exercise 3: the serial share
#
# ●●○ *8 minutes, stretch.* Turn the law round. Karp and Flatt
# (https://doi.org/10.1145/78607.78614) ask of a measured speed-up S on N
# ranks: which share s would explain it, if T(N) = s·T(1) + (1 − s)·T(1)/N?
# A worked case: 8 s on one rank, 5 s on two. 5 = 8s + 4(1 − s) has s = 0.25.


# %% tags=["exercise", "stretch"]
def serial_share(speedup, ranks):
    """The share s, from 0 (ideal) to 1 (no faster than one rank)."""
    ### BEGIN SOLUTION
    return (1 / speedup - 1 / ranks) / (1 - 1 / ranks)
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("serial_share", serial_share)

# %% [markdown]
# If s stays the same as N grows, something is the same however many ranks
# share the rest. That need not be serial work: the bytes of a ring's
# all-reduce look just like it. Here 5 % are serial and the all-reduce is 10 %,
# as in the sliders above:

# %% tags=["stretch"]
from lesson.what_if import strong_step

explain = learn.given("serial_share")
for n in (2, 8, 64):
    share = explain(1 / strong_step(n, 0.05, 0.10), n)
    print(f"{n} ranks: s = {share:.2f}")
    assert abs(share - 0.15) < 1e-9

# %% [markdown]
# If s grows with N, something is *added* with each rank: more messages, more
# ranks of which one is late. That is what the number is for.
#
# ## Published tables
#
# NVIDIA's ResNet-50 in mixed precision on a DGX A100, from its table: 2,470
# images/s on one GPU and 16,621 on eight
# (https://github.com/NVIDIA/DeepLearningExamples/tree/master/PyTorch/Classification/ConvNets/resnet50v1.5). And PyTorch's own
# benchmark of DDP, ResNet-50 with 32 images a GPU: a step of 97 ms without
# DDP, 104 ms on 8 GPUs and 104 on 16
# (https://github.com/pytorch/pytorch/tree/main/benchmarks/distributed/ddp).

# %%
weak = 97 / 104
nvidia = 16_621 / 2470 / 8
print(f"DDP on 8: weak, {weak:.2f}. NVIDIA on 8: weak, {nvidia:.2f}")
assert round(weak, 2) == 0.93 and round(nvidia, 2) == 0.84

# %% [markdown]
# The batch of a GPU stays in both, so both are weak scaling: throughput over N
# times that of one. PyTorch's table has percentiles over the steps of a run;
# neither says how far two runs are apart. Ask of every such table: which kind,
# which baseline, how many repeats, and was the warm-up left out? The first of
# DDP's numbers tells why the baseline matters: with DDP on one GPU that step
# takes 100 ms, and the same table would show 0.96.
#
# ## Exercise 4: plan a study
#
# ●●○ *12 minutes, stretch.* A study answers a question when *one* thing
# varies. List the runs, in the order in which they are to run. Every rank has
# one thread. `batch` is the global batch if `kind` is strong, and a rank's if
# it is weak. One rank is always among them. Each repeat is a whole turn.


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
# Yours beside the runs of the strong study above:

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
# - Strong: the same global batch, E = T(1)/(N·T(N)). Weak: the same batch a
#   rank, E = T(1)/T(N). A number without its kind means neither.
# - One rank, with no communication at all, is the baseline.
# - Repeat in turns, pair by turn, show the spread. What crosses zero may be
#   noise.
# - One thing varies: batch, learning rate and threads are said and fixed.
# - A table without kind, baseline and repeats is a claim, not a result.

# %%
learn.take_away()
