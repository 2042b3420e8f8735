# %% [raw]
# ---
# number: "20"
# title: Profiling
# does: find out what bounds a run, from profiles of all its ranks
# objectives:
#   - time and record a step so that the numbers mean what they say
#   - split a step of several ranks into shares that add up to one
#   - say what bounds a run, by which evidence, and what to try next
# minutes: {read: 35, exercises: 51}
# needs: [laptop]
# builds_on: ["09"]
# ---

# %% [markdown]
# Your run is slow. One colleague blames the network, another one blames the
# loader, and both have a number. What holds a run up the most **bounds** it.
# **How do you find out what bounds a run, before you change anything?**
#
# You time a step properly, record your own script, record what every rank
# does in a step, and get a verdict on four runs that were slowed down on
# purpose. Exercises 1 and 2 are the core and fit into an hour with the
# reading; 3 to 5 are *stretch*.

# %%
from dtlib import learn

learn.start("20")

# %%
from lesson.pictures import draw_question

draw_question()

# %% [markdown]
# `delay` is how long a step is held up on purpose, in seconds: long enough to
# show even on cores that other programs use, too. `repeats` is the number of
# calls that are timed. With `device = "cuda"` they run on a GPU, as do the
# roofline's operators. Whatever is recorded stays on the CPU.

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
# Time a training step again and again, in a process that has never run one:

# %%
import torch

import dtlib

torch.set_num_threads(1)  # here as on the ranks, one core for each process


def training_step(rows=64, width=256, device=device):
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
# `compare` sets this effect beside a **placebo**, in which nothing changes:
# the slowest of the later calls over the fastest. If the effect is no larger,
# your numbers alone prove nothing; repeat them on a quiet machine.
#
# A first call has work of its own: it allocates memory, chooses algorithms,
# creates the state of AdamW and loads code. This happens once in a process, so
# it does not belong in the time of *a step*.
#
# A GPU adds a second trap. **It has a queue**: a call returns as soon as its
# **kernels**, the functions that run on the GPU, are on the queue, and not
# when they are done. `synchronize` waits until the queue is empty. Here is
# such a device, simulated, with its own clock. Each call keeps it busy for 20
# ms, the first for 500:

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
# ## Exercise 1: fix a benchmark
#
# ●●○ *10 minutes.* This benchmark reports 1 ms for a call that takes 21, of
# which the launch takes 1 and the device is busy for 20:
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
# Fix it. The first call must not count, a single disturbed call must not
# change the result, and the queue must be empty whenever you read the clock.
# (After a `synchronize` it stays empty until the next launch.)


# %% tags=["exercise"]
def median_seconds(launch, synchronize, clock, repeats):
    """Seconds that a call takes: the median of `repeats` timed calls."""
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

# %% [markdown]
# This is the *latency* of a call. A training loop does not empty the queue
# after each step: the CPU runs ahead and launches the next step while the GPU
# still works. For the time of a step in a loop, synchronise before and after
# many steps and divide by their number, or put a CUDA event
# (`torch.cuda.Event(enable_timing=True)`) on the queue at both ends: the GPU
# notes the time when it gets there.

# %%
import time

timed = learn.given("median_seconds")
step = training_step()
wait = torch.cuda.synchronize if device == "cuda" else lambda: None
mine = timed(step, wait, time.perf_counter, repeats)
learn.my_run("a step of the small model", mine * 1e3, "ms")

# %% [markdown]
# ## Record your own script
#
# Now you know how long a step takes, but not what happens in it. PyTorch's
# profiler records when every **operator** begins and ends, and writes that
# into a file, the **trace**. An operator is a function of PyTorch's library:
# in a linear layer, `aten::addmm` multiplies two matrices and adds the bias.
#
# A **schedule** says what the profiler does in each step. Steps count from 0.
# It leaves the first `wait` steps alone. It records the next `warmup` steps
# and throws them away, because recording is slow when it starts. It keeps the
# next `active` steps, and with `repeat=1` it is done then:

# %%
from torch.profiler import schedule

plan = schedule(wait=1, warmup=1, active=3, repeat=1)
for number in range(6):
    print(f"step {number}: {plan(number).name}")

# %% [markdown]
# `NONE` is a step that is left alone, `RECORD_AND_SAVE` the last active one.
# With `repeat=1` the profiler leaves everything from step 5 on alone. With
# `repeat=0` step 5 would be the first of another such cycle, and so on to the
# end of the run. Without a schedule the profiler keeps every step, until the
# memory is full.
#
# A training script needs four additions: `profile` around the loop,
# `profiler.step()` at the end of each step, `on_trace_ready`, a function that
# is called when the last active step is over, and `record_function`, which
# puts a named **range** around a part of the step
# (https://docs.pytorch.org/docs/stable/profiler.html). This script runs on the
# CPU. On a GPU add `ProfilerActivity.CUDA` to the activities, and read an
# operator's `self_device_time_total`: its CPU time is only the time to launch.

# %%
import os
from pathlib import Path

from torch.profiler import ProfilerActivity, profile, record_function

os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # the profiler's own messages


def record_script(rows, width):
    """Six steps of a script of which three are kept."""
    layers = [torch.nn.Linear(width, width) for _ in range(4)]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.ones(rows, width)
    path = Path(f"traces/width {width}, {rows} rows/rank0.json")
    path.parent.mkdir(parents=True, exist_ok=True)

    def save(profiler):
        print(f"saved after step {profiler.step_num - 1}: {path}")
        profiler.export_chrome_trace(str(path))

    with profile(
        activities=[ProfilerActivity.CPU], schedule=plan, on_trace_ready=save
    ) as profiler:
        for _ in range(6):
            with record_function("forward"):
                loss = model(x).square().mean()
            with record_function("backward"):
                loss.backward()
            with record_function("update"):
                optimizer.step()
                optimizer.zero_grad()
            profiler.step()
    return path, profiler


wide, profiler = record_script(rows=128, width=512)

# %% [markdown]
# Perfetto (https://ui.perfetto.dev) shows such a file as thousands of bars.
# Here is the shortest of the three steps in it, with the operator that takes
# the most time in each range:

# %%
from lesson.pictures import draw_step

draw_step(wide)

# %% [markdown]
# `key_averages` adds up all recorded steps. The **self time** of an operator
# leaves out the operators that it calls, so self times can be added up:

# %%
operators = [one for one in profiler.key_averages() if "::" in one.key]
operators.sort(key=lambda one: one.self_cpu_time_total, reverse=True)
learn.table(
    [
        [
            one.key,
            one.count,
            f"{one.self_cpu_time_total / 1e3:.2f}",
            f"{one.cpu_time_total / 1e3:.2f}",
        ]
        for one in operators[:5]
    ],
    ["operator", "calls", "self time, ms", "time, ms"],
    "The five operators with the most self time, in three steps",
)

# %% [markdown]
# In the trace a range is an event like any other, with the category
# `user_annotation`. `ts` is its begin and `dur` its duration, in microseconds:

# %%
import json

events = json.loads(wide.read_text())["traceEvents"]
for event in events:
    if event["name"] == "forward" and event["cat"] == "user_annotation":
        print({key: event[key] for key in ("cat", "name", "ts", "dur")})

# %% [markdown]
# On an NVIDIA GPU you can also record with **Nsight Systems**, NVIDIA's own
# profiler. By itself it shows no range of `record_function`. The ranges that
# it does show are **NVTX ranges** (NVIDIA Tools Extension). You write `with
# torch.cuda.nvtx.range("forward"):`, and the viewer shows the name beside the
# kernels that were launched in this stretch of the CPU's time
# (https://docs.pytorch.org/docs/stable/generated/torch.cuda.nvtx.range.html).
# `dtlib profile nsys` runs `dtlib train` with such ranges around its steps.
#
# ## Record every rank
#
# With several ranks each one writes its own trace. After backward the ranks
# add up their gradients in an **all-reduce**. It is a **collective**, a call
# that all ranks have to make. On CPUs the library **gloo** carries its
# messages, and on NVIDIA GPUs **NCCL** does.
#
# `profiling.record` is the course's short form of your script's additions:
# it makes the schedule and writes `rank0.json`, `rank1.json`, …
# `profiling.input_of` marks the time that a rank waits for a batch. Four runs
# are slow for four reasons: a loader that sleeps, a slow link (`DelayedLink`,
# simulated), much to compute, and a loader that sleeps on rank 1 only.

# %%
from dtlib.measure import profiling


def run(folder, loader=(0.0, 0.0), link=0.0, rows=64):
    """Take steps 0 to 4 on each rank; `loader` has a delay for each rank."""
    import torch.distributed as dist

    from dtlib.scratch.data_parallel import DelayedLink

    torch.set_num_threads(1)
    torch.manual_seed(0)
    width = 256
    layers = [torch.nn.Linear(width, width) for _ in range(4)]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    network = DelayedLink(link / 2, 0.0)  # 2 ranks: 2 messages, one by one

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
            # only the time matters here, so the sums are not put into p.grad
            optimizer.step()
            step()


planted = {
    "slow loader": dict(loader=(delay, delay)),
    "slow link": dict(link=delay),
    "much to compute": dict(rows=4096),
    "one slow loader": dict(loader=(0.0, delay)),
}
for name, setting in planted.items():
    folder = str(Path("traces").resolve() / name)
    dtlib.launch(run, folder, ranks=2, device="cpu", **setting)
    print(*sorted(str(path) for path in Path("traces", name).iterdir()))

# %% [markdown]
# Of each step you want only a few numbers: how long a rank waits for input,
# computes, communicates, and does nothing. Here is one step of the last run,
# in which only rank 1's loader sleeps, drawn from its traces:

# %%
from lesson.pictures import draw_ranks

steps = profiling.read("traces/one slow loader")
shown = [step for step in steps if step.number == steps[0].number]
draw_ranks(shown)

# %%
learn.table(
    [
        [f"rank {step.rank}", f"{step.seconds * 1e3:.0f}"]
        + [
            f"{profiling.length(getattr(step, kind)) * 1e3:.1f}"
            for kind in ("input", "compute", "communication")
        ]
        for step in shown
    ],
    ["", "step", "input", "compute", "communication"],
    "Milliseconds of that step, and how many of them each kind takes",
)

# %% [markdown]
# ## Exercise 2: what overlaps counts once
#
# ●●○ *8 minutes.* Operators call other operators, and several threads work
# at the same time. So how long is a rank busy? The sum of all durations is
# too much. A worked case: 0–4 and 3–6 together are 6 seconds, not 7.


# %% tags=["exercise"]
def busy(intervals):
    """Seconds in which at least one of the intervals runs.

    `intervals` is a list of (begin, end), in any order, perhaps empty.
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
# How wrong is a plain sum? Here are rank 0's operators in the run that has
# much to compute, as its trace lists them:

# %%
union = learn.given("busy")
trace = json.loads(Path("traces/much to compute/rank0.json").read_text())
events = [e for e in trace["traceEvents"] if e.get("cat") == "cpu_op"]
spans = [(e["ts"] * 1e-6, (e["ts"] + e["dur"]) * 1e-6) for e in events]
plain = sum(end - begin for begin, end in spans)
print(
    f"{len(spans)} operators, {plain:.3f} s added up, {union(spans):.3f} busy"
)
assert union(spans) < plain
learn.my_run("operators added up over busy time", plain / union(spans))

# %% [markdown]
# ## Gaps between operators
#
# Every call of an operator has fixed costs: Python runs, and PyTorch looks up
# the function for the dtype and the device. If the arithmetic takes less time
# than that, the processor is busy with calls. On a GPU, the CPU makes the
# calls and puts kernels on the queue. If a kernel ends before the next one is
# on the queue, the GPU has to wait: in the trace there is a gap before each
# kernel, and each kernel begins just after its launch. The CPU never waits for
# the GPU (there is no long `cudaStreamSynchronize`). Such a step is
# **launch-bound**.
#
# On a CPU you see the same cost as gaps between operators. Record your script
# with a small model, and compare the two forward passes:

# %%
narrow, _ = record_script(rows=8, width=16)

# %%
from lesson.pictures import draw_gaps

draw_gaps({"width 16": narrow, "width 512": wide})

# %% [markdown]
# Recording adds time to each operator, too, so confirm it with the clock and
# without the profiler. A batch of 128 rows has 16 times the work of 8 rows in
# the same number of operators. If a step takes hardly longer with it, the
# calls are the limit:

# %%
from lesson.own_trace import shortest_step

paths = {(8, 16): narrow, (128, 16): None, (128, 512): wide}
paths[128, 16], _ = record_script(rows=128, width=16)
found_gaps = []
for (rows, width), path in paths.items():
    forward = shortest_step(path)["forward"]
    step = training_step(rows, width, device="cpu")
    seconds = min(profiling.seconds_of(step, 20))
    found_gaps.append(
        [
            f"width {width}, {rows} rows",
            f"{2 * 4 * rows * width**2 / 1e6:.3g}",
            f"{100 * forward.gaps / (forward.end - forward.begin):.0f}",
            f"{seconds * 1e3:.2f}",
        ]
    )
learn.table(
    found_gaps,
    ["", "MFLOP of forward", "gaps, % of forward", "step, ms"],
    "FLOP: floating-point operations; step: fastest of 20, not recorded",
)

# %% [markdown]
# Fewer and larger operators help: a larger **micro-batch** (the samples that
# a rank computes at once), or `torch.compile`, which fuses several operators
# into one. On a GPU a **CUDA graph** launches many kernels with one call.
#
# ## Shares that add up to one
#
# The time that `busy` counts is the **union** of the intervals. With unions
# you can split a step into four parts. **Input** is the time that the rank
# waits for a batch, and **compute** the time that it computes outside of that.
# **Communication** is only what is *exposed*: nothing else goes on meanwhile.
# What is left is **idle**. Communication at the same time as computation is
# *hidden*. It is not a fifth part, because its time is in compute already. (It
# may slow the computation down, because the two share cores and memory.)

# %%
found = {name: profiling.shares(profiling.read(f"traces/{name}"))
         for name in planted}  # fmt: skip
parts = "input", "compute", "communication", "idle"
bars = [(name, one) for name, ranks in found.items() for one in ranks]
for _, one in bars:
    assert abs(sum(getattr(one, part) for part in parts) - 1) < 1e-9

# %%
from lesson.pictures import draw_shares

draw_shares(found)

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
# Look at the last run, in which only rank 1's loader is slow:

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
# **The healthy rank looks ill.** It waits in the all-reduce until the other
# one arrives. That is why a profile of one rank proves nothing about the
# network, and why the table has a column `waited`: the time that a rank spends
# in a collective before the last rank arrives. This column compares the clocks
# of different ranks, and the clocks of two nodes often differ by more than a
# collective takes. On several nodes compare durations instead: the rank that
# spends the least time in a collective came last.
#
# ## The verdict
#
# A verdict is a rule applied to these numbers, so that two people reach the
# same one. Our rule has three steps:
#
# 1. Call the largest `waited` of all ranks *longest* and the smallest
#    *shortest*. If *longest* is at least a fifth of a step, and *shortest* is
#    less than a third of *longest*, then one rank is late: judge the rank that
#    waits least, because the others wait for it. Otherwise judge the mean of
#    all ranks.
# 2. Subtract what was waited from the exposed communication. If the rest, or
#    input, takes at least a fifth of a step, the larger of the two bounds the
#    run.
# 3. Otherwise compute or idle bounds it, whichever is larger.

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
# Each verdict names its evidence and the next thing to try. (A **bucket** is a
# group of gradients that are sent together.) Change that one thing, profile
# again, and believe the second profile.
#
# You can compute how much more loader workers or more overlap would help:

# %%
learn.what_if("bounds")

# %% [markdown]
# ## The roofline: arithmetic or memory?
#
# The verdict "compute" says that operators run. It does not say whether they
# wait for memory: an operator also moves bytes between memory and processor.
# Its **arithmetic intensity** $I$ is its FLOP divided by these bytes. A
# device with a peak of $P$ FLOP/s and a bandwidth of $B$ bytes per second
# does at most $\min(P, B \cdot I)$ FLOP/s. This curve is its **roofline**.
# Below the **balance** $P/B$ it rises, and memory is the limit. Above the
# balance it is flat, and arithmetic is the limit. Peaks and bandwidths are
# those of data sheets. On a laptop with 8 cores, one core has an eighth of the
# peak, and at most the whole bandwidth of main memory (caches are faster):

# %%
from dtlib.sim.hardware import DEVICES

roofs = {}
for label in ("laptop, fp32", "h100, fp32", "h100, bf16"):
    name, precision = label.split(", ")
    one = DEVICES[name]
    roofs[label] = one["peak"][precision], one["bandwidth"]
peak, bandwidth = roofs.pop("laptop, fp32")
roofs = {
    "laptop, 1 core, fp32": (peak / 8, bandwidth),
    "laptop, 8 cores, fp32": (peak, bandwidth),
    **roofs,
}
learn.table(
    [
        [label, f"{p / 1e12:.3g}", f"{b / 1e9:.0f}", f"{p / b:.0f}"]
        for label, (p, b) in roofs.items()
    ],
    ["", "peak, TFLOP/s", "bandwidth, GB/s", "balance, FLOP per byte"],
    "Peaks and bandwidths of dtlib's hardware table",
)

# %% [markdown]
# Now count three operators in fp32, with 4 bytes for each number:
#
# | operator | FLOP | reads | writes |
# | --- | --- | --- | --- |
# | product of two n × n matrices | $2n^3$ | $2n^2$ numbers | $n^2$ |
# | layer norm of k numbers | about 8k | k | k |
# | AdamW on k weights | about 14k | weights, gradients, 2 moments: 4k | 3k |
#
# These are the fewest bytes that are possible; an operator that keeps
# intermediate results in memory moves more. The FLOP/s are measured here: the
# fastest of ten calls, on one core of your machine (or on the GPU). So on a
# CPU compare the points with the roof of one core. Some may lie above it: your
# core may be faster than the table's, and from the second call on the numbers
# of a small product come from the cache.

# %%
import functools


def point(flop, moved, call):
    """Arithmetic intensity, and FLOP/s as measured."""
    with torch.no_grad():
        return flop / moved, flop / min(profiling.seconds_of(call, 10))


sizes = 32, 128, 512, 1024
products = []
for n in sizes:
    a, b = torch.ones(2, n, n, device=device)
    product = functools.partial(torch.matmul, a, b)
    products.append(point(2 * n**3, 3 * 4 * n**2, product))
count = 2**22
x = torch.ones(count // 1024, 1024, device=device)
norm = torch.nn.LayerNorm(1024, device=device)
weight = torch.nn.Parameter(torch.ones(count, device=device))
weight.grad = torch.ones_like(weight)
update = torch.optim.AdamW([weight], fused=True).step
found_points = {
    "matrix product": products,
    "layer norm": [point(8 * count, 2 * 4 * count, lambda: norm(x))],
    "AdamW": [point(14 * count, 7 * 4 * count, update)],
}

# %%
from lesson.pictures import draw_roofline

where = "one core here" if device == "cpu" else "this GPU"
draw_roofline(
    {name: tuple(zip(*points)) for name, points in found_points.items()},
    roofs,
    where,
)

# %%
learn.table(
    [
        [name + (f", n = {sizes[k]}" if len(points) > 1 else "")]
        + [f"{intensity:.3g}", f"{rate / 1e9:.3g}"]
        for name, points in found_points.items()
        for k, (intensity, rate) in enumerate(points)
    ],
    ["", "FLOP per byte", "GFLOP/s"],
    "Intensity computed, speed measured here",
)

# %%
for label, (peak, bandwidth) in roofs.items():
    size = 2 if "bf16" in label else 4  # bytes of a number
    # intensity: 2 n³ FLOP / (3 n² numbers * size) = 2 n / (3 * size)
    n = peak / bandwidth * 3 * size / 2
    print(f"{label}: products reach the balance at n = {n:.0f}")
    for name in ("layer norm", "AdamW"):
        assert found_points[name][0][0] < peak / bandwidth

# %% [markdown]
# The intensity of layer norm and of the update does not depend on their size
# and lies below every balance, so more FLOP/s don't make them faster. Fewer
# bytes do: numbers in bf16, or a **fused** operator, which does several steps
# each time it reads a number. A product of two large matrices exceeds the
# balance. A linear layer that is w wide computes $2rw^2$ FLOP for r rows, and
# moves $2rw + w^2$ numbers. More rows, so a larger micro-batch, raise its
# intensity, but never above w FLOP per number. In bf16 a layer of 512 stays
# below 256 FLOP per byte, which is less than an H100's balance.
#
# ## Exercise 3: communication that nothing hides
#
# ●●○ *10 minutes, stretch.* How many seconds of the communication are
# exposed, with no computation at the same time? Your `busy` is here under the
# name `union`. A worked case: communication 0–4 with computation 1–2 and 3–9
# is exposed for 2 seconds.

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
# Back to the third prediction: 30 ms of products, one after another, and 20
# ms of all-reduce took 40 ms. In 30 of the 40 ms a product runs, so at most 10
# ms of the all-reduce are exposed. An infinitely fast network leaves the 30 ms
# of products, and saves those 10 at most:

# %%
bare = learn.given("exposed")
saved = bare([(20, 40)], [(0, 30)])
learn.measured("sum_of_shares", saved)
assert saved == 10

# %% [markdown]
# ## Exercise 4: who waits for whom?
#
# ●●○ *8 minutes, stretch.* `begins[r][k]` is the time at which rank r arrives
# at collective k. A collective starts when the last rank arrives. How long
# does each rank wait in all collectives together? A worked case: ranks that
# arrive at 1, 4 and 2 wait for 3, 0 and 2 seconds.


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
# ●●● *15 minutes, stretch.* On a GPU, NVIDIA's profiler Nsight Systems
# records every kernel on every **stream**, which is one of the GPU's queues.
# `nsys export --type sqlite` turns the recording into a database. The one
# below was **made by a script**, not recorded; it has two of an export's
# tables with times, one for kernels and one for copies (of bytes, between the
# memories of CPU and GPU). They are called after CUPTI, NVIDIA's library that
# records. (Your NVTX ranges would be in the table `NVTX_EVENTS`.) Times are in
# nanoseconds. A kernel's `shortName` is a number, and `StringIds` has the text
# for each number: `JOIN` puts the two side by side. The all-reduce here is a
# kernel of NCCL:

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
copies = "SELECT start, end FROM CUPTI_ACTIVITY_KIND_MEMCPY"
for row in database.execute(copies):
    print("copy", row)

# %% [markdown]
# The whole is the time from the first start to the last end. Return the share
# of it that each kind takes: `nccl` (kernels whose name begins with `nccl`),
# `compute` (all other kernels), `copy`, and `idle`, in which nothing runs. The
# first three may overlap.


# %% tags=["exercise", "stretch"]
def gpu_shares(database):
    """A dict with compute, nccl, copy and idle, each from 0 to 1."""
    ### BEGIN SOLUTION
    kinds = {"compute": [], "nccl": [], "copy": []}
    for name, start, end in database.execute(query):
        kind = "nccl" if name.startswith("nccl") else "compute"
        kinds[kind].append((start, end))
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
# - A call's latency: warm up, empty the queue both times before you read the
#   clock, and take the median. A step in a loop: do so around many steps.
# - Profile a few steps, with a schedule, on every rank.
# - Gaps between small operators, and a batch that costs nothing more: the
#   step is launch-bound.
# - What overlaps counts once. Only exposed communication adds time of its own.
# - A rank that waits looks like a slow network. Ask who arrived last.
# - A verdict has its evidence and one next thing to try; the next profile
#   shows whether it was right.
# - Arithmetic intensity below the balance: memory is the limit, not FLOP/s.

# %%
learn.take_away()
