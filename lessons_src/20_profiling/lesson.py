# %% [raw]
# ---
# number: "20"
# title: Profiling
# does: find out what bounds a run, from profiles of all its ranks
# objectives:
#   - time a step so that the number means what it says
#   - take a step of several ranks apart into shares that add up to one
#   - say what bounds a run, by which evidence, and what to try next
# minutes: {read: 25, exercises: 51}
# needs: [laptop]
# builds_on: ["09"]
# ---

# %% [markdown]
# Your run is slow. Somebody says that the network is to blame, somebody else
# blames the loader, and both have a number. **How do you find out what bounds
# a run, before you change anything?**
#
# You time a step properly, record what every rank does in it, and get a
# verdict on three runs that are slow for a planted reason. Exercises 1 and 2
# are the core and fit an hour with the reading; 3 to 5 are *stretch*.

# %%
from dtlib import learn

learn.start("20")

# %% [markdown]
# `delay` is what is planted, in seconds a step: long enough to show on cores
# that are shared. `device = "cuda"` times its steps on a GPU; the planted runs
# stay on the CPU.

# %% tags=["parameters"]
delay = 0.15
repeats = 10
device = "cpu"

# %% [markdown]
# ## Your predictions
#
# Commit all three before you go on.

# %%
learn.predict("first_call")

# %%
learn.predict("who_looks_busy")

# %%
learn.predict("sum_of_shares")

# %% [markdown]
# ## A clock that tells the truth
#
# Time a training step, over and over, in a process that has never run one:

# %%
import torch

import dtlib


def training_step(rows=64, width=256):
    """A function that takes one step of a small model."""
    layers = [torch.nn.Linear(width, width, device=device) for _ in range(4)]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.ones(rows, width, device=device)

    def step():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step


def times(calls):
    from dtlib.measure import profiling

    torch.set_num_threads(1)
    return profiling.seconds_of(training_step(), calls, warmup=0)


first, *later = dtlib.launch(times, repeats + 1, ranks=1, device="cpu")[0]

# %%
import statistics

from dtlib.measure.noise import compare

typical = statistics.median(later)
print(f"first {first * 1e3:.1f} ms, median of later {typical * 1e3:.2f} ms")
effect = compare(first / typical, later)
learn.measured("first_call", first / typical, effect=effect)

# %% [markdown]
# First calls allocate, choose algorithms, make AdamW's moments and load
# code. They come once, so they have no place in a number for *a step*.
#
# A GPU adds a second trap. **It has a queue**: a call returns when its work is
# on the queue, and not when it is done. Here is such a device, simulated, with
# a clock of its own; each call keeps it busy for 20 ms, the first for 500:

# %%
from lesson.exercises.clock import Device

gpu = Device()
for _ in range(3):
    begin = gpu.clock()
    gpu.launch()
    launched = gpu.clock()
    gpu.synchronize()
    done = gpu.clock()
    print(
        f"launched after {(launched - begin) * 1e3:.0f} ms,",
        f"done after {(done - begin) * 1e3:.0f} ms",
    )

# %% [markdown]
# ## Exercise 1: the patient
#
# ●●○ *10 minutes.* This benchmark reports 1 ms for a call that takes 21:
#
# ```
# def median_seconds(launch, synchronize, clock, repeats):
#     seconds = []
#     for _ in range(repeats):
#         begin = clock()
#         launch()
#         seconds.append(clock() - begin)
#     return sum(seconds) / repeats
# ```
#
# Mend it. First calls do not count, a single disturbed call must not move the
# number, and the queue is empty whenever the clock is read.


# %% tags=["exercise"]
def median_seconds(launch, synchronize, clock, repeats):
    """Seconds of one call: the median of `repeats` timed ones."""
    ### BEGIN SOLUTION
    launch()
    seconds = []
    for _ in range(repeats):
        synchronize()
        begin = clock()
        launch()
        synchronize()
        seconds.append(clock() - begin)
    return statistics.median(seconds)
    ### END SOLUTION


# %% tags=["check"]
learn.check("median_seconds", median_seconds)

# %%
import time

timed = learn.given("median_seconds")
step = training_step()
wait = torch.cuda.synchronize if device == "cuda" else lambda: None
mine = timed(step, wait, time.perf_counter, repeats)
learn.my_run("a step of the small model", mine * 1e3, "ms")

# %% [markdown]
# ## What went on in a step?
#
# `torch.profiler` writes down every operation with its begin and end. Two
# rules keep it honest and small:
#
# - a **schedule**: leave some steps alone, throw some away while the profiler
#   warms up, keep a few, stop. Without one a trace grows until memory is full.
# - a trace **of every rank**. You will see why.
#
# `profiling.record` does both
# (https://docs.pytorch.org/docs/stable/profiler.html has what is beneath), and
# `profiling.input_of` marks the wait for a batch. Three runs, each slow for a
# planted reason: a loader that sleeps, a link that takes its time
# (`DelayedLink`, simulated), and much to compute.

# %%
from pathlib import Path

from dtlib.measure import profiling


def run(folder, loader=(0.0, 0.0), link=0.0, rows=64):
    """Five steps on each rank; `loader` has a delay for each rank."""
    import torch.distributed as dist

    from dtlib.scratch.data_parallel import DelayedLink

    torch.set_num_threads(1)
    torch.manual_seed(0)
    width = 256
    layers = [torch.nn.Linear(width, width) for _ in range(4)]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    network = DelayedLink(link / 2, 0.0)

    def batches():
        for _ in range(5):
            time.sleep(loader[dist.get_rank()])
            yield torch.ones(rows, width)

    with profiling.record(folder, wait=1, warmup=1, active=3) as step:
        for x in profiling.input_of(batches()):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            flat = torch.cat([p.grad.flatten() for p in model.parameters()])
            with profiling.communication():
                network.all_reduce(flat).wait()
            optimizer.step()
            step()


planted = {
    "slow loader": dict(loader=(delay, delay)),
    "slow link": dict(link=delay),
    "much to compute": dict(rows=8192),
    "one slow loader": dict(loader=(0.0, delay)),
}
for name, setting in planted.items():
    folder = str(Path("traces").resolve() / name)
    dtlib.launch(run, folder, ranks=2, device="cpu", **setting)
sorted(str(path) for path in Path("traces").rglob("*.json"))

# %% [markdown]
# Such a file opens in Perfetto (https://ui.perfetto.dev), as thousands of
# bars. What you want first are four numbers. One step of the last run, in
# which only rank 1's loader sleeps, drawn from its traces:

# %%
import matplotlib.pyplot as plt

steps = profiling.read("traces/one slow loader")
kinds = {"input": "//", "compute": "", "communication": ".."}
figure, axes = plt.subplots(figsize=(7, 2.4), layout="constrained")
number = steps[0].number
shown = [step for step in steps if step.number == number]
zero = min(step.begin for step in shown)
for row, step in enumerate(shown):
    for place, (kind, hatch) in enumerate(kinds.items()):
        bars = [
            ((begin - zero) * 1e3, (end - begin) * 1e3)
            for begin, end in getattr(step, kind)
        ]
        axes.broken_barh(
            bars,
            (row + place / 4, 0.22),
            facecolors=f"C{place}",
            hatch=hatch,
            edgecolor="white",
            label=kind if row == 0 else None,
        )
axes.set(xlabel="ms", yticks=(0.35, 1.35), yticklabels=("rank 0", "rank 1"))
axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

# %%
learn.table(
    [
        [f"rank {step.rank}", f"{step.seconds * 1e3:.0f}"]
        + [
            f"{profiling.length(getattr(step, kind)) * 1e3:.1f}"
            for kind in kinds
        ]
        for step in shown
    ],
    ["", "step", *kinds],
    "Milliseconds of that step in which each kind was at work",
)

# %% [markdown]
# ## Exercise 2: what overlaps counts once
#
# ●●○ *8 minutes.* Operations lie inside one another, and on several threads.
# How long is a rank busy? Not the sum of all durations. A worked case: 0–4 and
# 3–6 are 6 seconds, not 7.


# %% tags=["exercise"]
def busy(intervals):
    """Seconds in which at least one of them runs.

    `intervals` is a list of (begin, end), in any order.
    """
    total = 0.0
    ### BEGIN SOLUTION
    reached = float("-inf")
    for begin, end in sorted(intervals):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    ### END SOLUTION
    return total


# %% tags=["check"]
learn.check("busy", busy)

# %% [markdown]
# How wrong is a plain sum? The operations of one step of the run that
# computes, as the trace lists them:

# %%
import json

union = learn.given("busy")
trace = json.loads(Path("traces/much to compute/rank0.json").read_text())
events = [e for e in trace["traceEvents"] if e.get("cat") == "cpu_op"]
spans = [(e["ts"] * 1e-6, (e["ts"] + e["dur"]) * 1e-6) for e in events]
plain = sum(end - begin for begin, end in spans)
print(
    f"{len(spans)} operations, {plain:.3f} s added up, {union(spans):.3f} busy"
)
assert union(spans) < plain
learn.my_run("operations added up over busy time", plain / union(spans))

# %% [markdown]
# ## Shares that add up to one
#
# With unions a step can be taken apart. **Input** is the wait for a batch,
# **compute** what computes besides, **communication** what is *exposed*:
# nothing else goes on meanwhile. The rest is **idle**. Communication behind
# computation is counted apart, as *hidden*: it adds no time of its own, though
# it may slow the computation, with which it shares cores or memory.

# %%
found = {name: profiling.shares(profiling.read(f"traces/{name}"))
         for name in planted}  # fmt: skip
parts = "input", "compute", "communication", "idle"
bars = [(name, one) for name, ranks in found.items() for one in ranks]
for _, one in bars:
    assert abs(sum(getattr(one, part) for part in parts) - 1) < 1e-9

# %%
figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
labels = [f"{name}, rank {one.rank}" for name, one in bars]
left = [0.0] * len(bars)
for part, hatch in zip(parts, ("//", "", "..", "xx")):
    values = [100 * getattr(one, part) for _, one in bars]
    axes.barh(labels, values, left=left, label=part, hatch=hatch, ec="white")
    left = [a + b for a, b in zip(left, values)]
axes.invert_yaxis()
axes.set(xlabel="% of a step")
axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

# %%
learn.table(
    [
        [name, one.rank, f"{one.seconds * 1e3:.0f}"]
        + [f"{100 * getattr(one, part):.0f}" for part in (*parts, "waited")]
        for name, one in bars
    ],
    ["run", "rank", "ms", *parts, "waited"],
    "Median step, and shares in %; waited is a part of communication",
)

# %% [markdown]
# Look at the last run. Only rank 1's loader is slow:

# %%
late = found["one slow loader"]
most = max(late, key=lambda one: one.communication)
learn.measured(
    "who_looks_busy",
    "rank 0, which has nothing slow about it"
    if most.rank == 0
    else "rank 1, which is slow",
)
assert most.rank == 0

# %% [markdown]
# **The healthy rank looks ill.** It stands in the all-reduce until the other
# one comes. That is why a profile of one rank proves nothing about a network,
# and why `waited` is counted: the time in a collective before its last rank
# had come.
#
# ## The verdict
#
# A verdict is a rule over these numbers, so that two people come to the same
# one. Ours: if others wait for one rank for a fifth of their steps, and it
# hardly waits itself, judge that rank. If input takes a fifth, or exposed
# communication less what was waited, the larger of them bounds the run.
# Else it is computing, or idling.

# %%
for name, ranks in found.items():
    print(f"{name}:\n  {profiling.verdict(ranks)}")
verdicts = {name: profiling.verdict(ranks) for name, ranks in found.items()}
assert verdicts["slow loader"].bound == "input"
assert verdicts["slow link"].bound == "communication"
assert verdicts["much to compute"].bound == "compute"
judged = verdicts["one slow loader"]
assert (judged.bound, judged.straggler) == ("input", 1)

# %% [markdown]
# Each names its evidence and the next thing to try. Change that one thing,
# profile again, and believe the second profile.
#
# What more workers or more overlap would bring can be computed:

# %%
learn.what_if("bounds")

# %% [markdown]
# ## Exercise 3: what nothing hides
#
# ●●○ *10 minutes, stretch.* How many seconds of the communication are
# exposed, with no computation beside them? Your `busy` is at hand. A worked
# case: communication 0–4 beside computation 1–2 and 3–9 is exposed for 2.

# %% tags=["stretch"]
union = learn.given("busy")


# %% tags=["exercise", "stretch"]
def exposed(communication, compute):
    """Seconds. Both are lists of (begin, end), in any order."""
    ### BEGIN SOLUTION
    return union([*communication, *compute]) - union(compute)
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("exposed", exposed)

# %% [markdown]
# The third prediction: 30 ms of products, one after another, and 20 ms of
# all-reduce in 40 ms. At least 10 must overlap, so at most this much is
# exposed. If the products take as long without it, a free network saves no
# more:

# %%
bare = learn.given("exposed")
saved = bare([(20, 40)], [(0, 30)])
learn.measured("sum_of_shares", saved)
assert saved == 10

# %% [markdown]
# ## Exercise 4: who waits for whom?
#
# ●●○ *8 minutes, stretch.* `begins[r][k]` is when rank r came to collective
# k. A collective starts when the last rank is there. How long has each rank
# waited, over all collectives? A worked case: ranks that come at 1, 4 and 2
# wait 3, 0 and 2.


# %% tags=["exercise", "stretch"]
def waited(begins):
    """A list with the seconds that each rank waited."""
    ### BEGIN SOLUTION
    latest = [max(column) for column in zip(*begins)]
    return [
        sum(last - own for last, own in zip(latest, rank)) for rank in begins
    ]
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("waited", waited)

# %% tags=["stretch"]
waiting = learn.given("waited")
begins = [
    [
        begin
        for step in profiling.read("traces/one slow loader")
        if step.rank == rank
        for begin, _ in step.collectives
    ]
    for rank in (0, 1)
]
seconds = waiting(begins)
print("waited:", *(f"rank {r} {s:.2f} s" for r, s in enumerate(seconds)))
assert seconds[0] > seconds[1]

# %% [markdown]
# ## Exercise 5: an export of Nsight Systems
#
# ●●● *15 minutes, stretch.* On a GPU, Nsight Systems records every kernel on
# every stream, and `nsys export --type sqlite` makes a database of that. The
# one below was **made by a script**, not recorded; its tables are those of an
# export. Times are nanoseconds, and a kernel's name is a number that
# `StringIds` turns into text:

# %% tags=["stretch"]
from lesson.made_export import made_export

nccl = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
rows = [  # stream, kernel (a copy has none), start, end
    (7, "sm90_xmma_gemm_bf16", 1000, 9000),
    (9, nccl, 6000, 14000),
    (10, "", 15000, 16000),
    (7, "softmax_warp_forward", 18000, 21000),
]
database = made_export(rows)
query = """
    SELECT value, start, end FROM CUPTI_ACTIVITY_KIND_KERNEL
    JOIN StringIds ON shortName = id
"""
for row in database.execute(query):
    print(row)
for row in database.execute("SELECT * FROM CUPTI_ACTIVITY_KIND_MEMCPY"):
    print("copy", row[:2])

# %% [markdown]
# Return the shares of the time from the first start to the last end: of
# `compute` (kernels that are not NCCL's), of `nccl`, of `copy`, and `idle`, in
# which nothing ran. Kinds may overlap.


# %% tags=["exercise", "stretch"]
def gpu_shares(database):
    """A dict with compute, nccl, copy and idle, each from 0 to 1."""
    ### BEGIN SOLUTION
    kinds = {"compute": [], "nccl": [], "copy": []}
    for name, start, end in database.execute(query):
        kinds["nccl" if "nccl" in name else "compute"].append((start, end))
    copies = "SELECT start, end FROM CUPTI_ACTIVITY_KIND_MEMCPY"
    kinds["copy"] = database.execute(copies).fetchall()
    everything = [span for spans in kinds.values() for span in spans]
    begin, end = min(b for b, _ in everything), max(e for _, e in everything)
    whole = end - begin
    shares = {kind: union(spans) / whole for kind, spans in kinds.items()}
    shares["idle"] = 1 - union(everything) / whole
    return shares
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("gpu_shares", gpu_shares)

# %% tags=["stretch"]
shares = learn.given("gpu_shares")(database)
learn.table(
    [[kind, f"{100 * share:.0f} %"] for kind, share in shares.items()],
    ["", "of 20 µs"],
    "The export above",
)

# %% [markdown]
# ## Quiz

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## Take-away
#
# - Warm up, empty the queue at both looks at the clock, take a median.
# - Profile a few steps, by a schedule, on every rank.
# - What overlaps counts once. Only exposed communication adds time of its own.
# - A rank that waits looks like a slow network. Ask who came last.
# - A verdict has its evidence and one next thing to try; the next profile
#   decides.

# %%
learn.take_away()
