# %% [raw]
# ---
# number: "22"
# title: Twenty per cent
# does: make a slow script at least 20 % faster, and prove it by pairs
# objectives:
#   - prove a gain with pairs of turns, and state the range in which it lies
#   - write a step that sends less and waits less, and yields the same weights
#   - choose levers by their share of a step, and keep the experiment the same
# minutes: {read: 33, exercises: 53}
# needs: [laptop]
# builds_on: ["20", "21"]
# ---

# %% [markdown]
# A colleague trains with a script that has grown for a year. It works. **Can
# you make it at least 20 % faster, and prove to somebody who doubts it that
# it is faster and still learns the same?**
#
# You measure how much two runs of the same program differ, pull one **lever**
# (a single change that may make the script faster) at a time, and let fresh
# pairs of measurements decide. Exercises 1 and 2 are the core and fit into an
# hour with the reading; 3 to 5 are *stretch*.

# %%
from dtlib import learn

learn.start("22")

# %%
from lesson.pictures import draw_question

draw_question()

# %% [markdown]
# A **setting** is one choice of everything that the script can vary. Settings
# that you compare take **turns** of `steps` steps each. A **round** is one
# turn of every setting, and two turns of the same round are a **pair**.
# `repeats` is the number of rounds; keep it even. On a GPU node, use
# `device = "cuda"`, as many `ranks` as GPUs, and longer turns. With
# `with_compile = True` the lesson also measures `torch.compile`, which needs
# a C++ compiler and a minute or two.

# %% tags=["parameters"]
ranks = 2
repeats = 8
steps = 2
device = "cpu"
with_compile = False
record = False

# %% [markdown]
# ## Your predictions
#
# Commit all three before you go on.

# %%
learn.predict("same_again")

# %% [markdown]
# These are the levers of the second prediction. Each changes one thing alone:
#
# | lever | what it changes |
# | --- | --- |
# | my step, which sends once | gradients and loss are sent once a step, not after each micro-batch; you write it in exercise 2 |
# | a loader worker | another process prepares pictures in advance (prefetch), while the rank computes |
# | pictures cropped in batches | a few operations for the whole batch instead of several for each picture; the rank does this itself, without a worker |
# | buckets of 25 MiB | all gradients fit into one message; 25 MiB is PyTorch's default |
# | one micro-batch | all 32 pictures of a rank at once: fewer operations and fewer messages |
# | channels_last | how pictures lie in memory: the channels of a pixel side by side |
# | fused AdamW | one operation updates all weights |
# | bf16 | half the bytes in matrix products and convolutions, but coarser rounding |
# | twice the batch | fewer steps, but a different experiment |

# %%
learn.predict("most")

# %%
learn.predict("two_levers")

# %% [markdown]
# ## The patient
#
# Nobody planted a `sleep` in this script. Every line once had a reason. The
# data set hands out pictures one at a time, and crops and flips each. A rank
# splits its 32 pictures into four **micro-batches** and adds up their
# gradients, because 32 at once did not fit on an old GPU. The **buckets**, in
# which DDP (DistributedDataParallel) collects gradients before it sends them,
# are small, because a small bucket can be sent sooner. And each micro-batch
# reports its loss. The network is small on purpose: it stands for a larger
# one on a GPU that computes so quickly that loading and sending take most of
# the step.

# %%
import contextlib
import itertools
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

import dtlib


def slow_step(model, optimizer, loss_fn, micro_batches):
    """One step of this rank; returns the mean loss over all ranks."""
    optimizer.zero_grad()
    total = 0.0
    for x, y in micro_batches:
        loss = loss_fn(model(x), y) / len(micro_batches)
        loss.backward()
        everyone = loss.detach().clone()
        dist.all_reduce(everyone)
        total += everyone.item() / dist.get_world_size()
    optimizer.step()
    return total


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(1024, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


slow = dict(
    loader="dataloader",  # one picture at a time, in Python
    workers=0,
    global_batch=32 * ranks,
    cuts=4,  # micro-batches of a rank
    bucket_cap_mb=0.05,
    channels_last=False,
    fused=None,  # AdamW as usual; on a CPU, one parameter after another
    precision="fp32",
    step=slow_step,
)

# %% [markdown]
# `slow` is the setting to beat, and a lever changes one entry of it. A `Run`
# trains with one setting. Which pictures a step uses, and how they are
# cropped, depends only on the step's number and on the global batch (lesson
# 02). So all settings with the same global batch see the same pictures.

# %%
from torch.nn.parallel import DistributedDataParallel

from dtlib.data import open_images
from dtlib.data.batches import augmentation
from dtlib.data.loader import image_source
from dtlib.measure.profiling import input_of
from dtlib.ranks.dist import world

pictures = open_images("pictures", "train", count=2000)


def plan(batch, cuts):
    """This rank's pictures and crops, one micro-batch after another."""
    size = batch // dist.get_world_size() // cuts
    for step in itertools.count():
        first = step * batch
        indices = torch.arange(first, first + batch) % len(pictures)
        crops = augmentation(batch, seed=0, step=step)
        for cut in range(cuts):
            begin = (dist.get_rank() * cuts + cut) * size
            rows = slice(begin, begin + size)
            yield indices[rows], crops.rows(rows)


class Run:
    """The colleague's script with one setting, ready to take steps."""

    def __init__(self, setting):
        self.setting, self.losses = setting, []
        self.device = world().device
        wide = setting["channels_last"]
        self.layout = torch.channels_last if wide else torch.contiguous_format
        model = network().to(self.device, memory_format=self.layout)
        self.model = DistributedDataParallel(
            model, bucket_cap_mb=setting["bucket_cap_mb"]
        )
        self.optimizer = torch.optim.AdamW(
            model.parameters(), fused=setting["fused"]
        )
        source = image_source(
            pictures, self.device, setting["loader"],
            workers=setting["workers"],
        )  # fmt: skip
        self.batches = source.batches(
            plan(setting["global_batch"], setting["cuts"])
        )

    def take(self, steps):
        for _ in range(steps):
            micro_batches = [
                (x.to(memory_format=self.layout), y)
                for x, y in itertools.islice(
                    input_of(self.batches), self.setting["cuts"]
                )
            ]
            bf16 = self.setting["precision"] == "bf16"
            # around the whole step only because the step is one function:
            # PyTorch recommends autocast around forward and loss alone
            with torch.autocast(
                self.device.type, torch.bfloat16, enabled=bf16
            ):
                loss = self.setting["step"](
                    self.model, self.optimizer, F.cross_entropy, micro_batches
                )
            self.losses.append(loss)


# %% [markdown]
# ## What does it spend its time on?
#
# As in lesson 20, you record a few steps on every rank and take them apart.
# The last column shows the most that you could gain from each part: if a part
# with the share s took no time at all, the step would be 1 / (1 − s) times as
# fast. The time in which a rank waits in a collective for a late rank is
# *waiting*. No network can shorten it, so it is not part of communication
# here. Recording slows down many small operations, so read these numbers as
# estimates.

# %%
from pathlib import Path

from dtlib.measure import profiling


def recorded(folder, setting):
    torch.set_num_threads(1)
    run = Run(setting)
    with profiling.record(folder, wait=1, warmup=1, active=4) as step:
        for _ in range(6):
            run.take(1)
            step()
    run.batches.close()


def parts_of(name, setting):
    """Shares of a step, the mean over the ranks."""
    folder = str(Path("traces").resolve() / name)
    dtlib.launch(recorded, folder, setting, ranks=ranks, device=device)
    found = profiling.shares(profiling.read(folder))
    print(profiling.verdict(found))
    parts = "input", "compute", "communication", "waited", "idle"
    mean = {
        part: sum(getattr(one, part) for one in found) / len(found)
        for part in parts
    }
    mean["waiting"] = mean.pop("waited")
    mean["communication"] -= mean["waiting"]
    return mean


mean = parts_of("patient", slow)
learn.table(
    [
        [part, f"{100 * share:.0f} %", f"{1 / max(1e-3, 1 - share):.2f}"]
        for part, share in mean.items()
    ],
    ["part", "share of a step", "times as fast without it"],
    "The patient's step, mean over the ranks",
)

# %% [markdown]
# ## Turns
#
# A single time proves nothing: other programs run, clock rates change, and
# caches fill. Three habits make times comparable.
#
# - **Interleave.** All settings are ready at once and take turns, so that if
#   the machine is slow for a minute, it is slow for all of them. The first
#   step of a turn is not timed. With a loader worker (a process that prepares
#   pictures) the next two steps are not timed either: the worker prepared
#   their batches while the other settings had their turns, so they would look
#   too fast.
# - **Pair.** Compare a turn with the other setting's turn in the same round.
# - **Reverse the order** in every other round, so that no setting is always
#   first.


# %%
def measure(settings, repeats, steps):
    """Seconds for 1000 pictures in every turn, losses, all-reduces a step."""
    from dtlib.measure.ledger.collectives import CollectiveLog
    from dtlib.measure.timing import synchronizer

    torch.set_num_threads(1)
    runs = {name: Run(setting) for name, setting in settings.items()}
    turns = {name: [] for name in runs}
    sent = {}
    wait = synchronizer(world().device)
    for repeat in range(repeats + 1):
        names = list(runs) if repeat % 2 else list(runs)[::-1]
        for name in names:
            run = runs[name]
            log = CollectiveLog() if repeat == 1 else contextlib.nullcontext()
            with log:
                run.take(1)
            run.take(2 * settings[name]["workers"])  # prefetched batches
            if repeat == 1:
                sent[name] = log.tallies["all_reduce"].calls
            wait()
            dist.barrier()
            begin = time.perf_counter()
            run.take(steps)
            wait()
            dist.barrier()
            seconds = time.perf_counter() - begin
            taken = steps * settings[name]["global_batch"]
            turns[name].append(seconds / taken * 1000)
    for run in runs.values():
        run.batches.close()
    losses = {n: [float(x) for x in run.losses] for n, run in runs.items()}
    return turns, losses, sent


two = {"slow": slow, "the same again": slow}
turns, losses, _ = dtlib.launch(
    measure, two, repeats, steps, ranks=ranks, device=device
)[0]
learn.table(
    list(zip(range(repeats + 1), *([f"{s:.3f}" for s in turns[name]]
                                   for name in two))),
    ["round", *two],
    "Seconds for 1000 pictures; round 0 is the warm-up",
)  # fmt: skip

# %% [markdown]
# Both columns come from the same program; on a CPU even the losses agree to
# the last bit. Such a comparison of a program with itself is a **placebo**. If
# you divide the columns row by row, you see how large a "gain" can be when
# nobody changed anything:

# %%
if device == "cpu":  # a GPU may add in another order each time
    assert losses["slow"] == losses["the same again"]
pairs = list(zip(turns["slow"], turns["the same again"]))[1:]
ratios = sorted(one / other for one, other in pairs)
print("ratios:", *(f"{ratio:.2f}" for ratio in ratios))
learn.measured("same_again", ratios[-1] / ratios[0])

# %% [markdown]
# ## Exercise 1: a gain, and how sure it is
#
# ●●○ *10 minutes.* The **gain** of a change is the new throughput over the
# old one: a gain of 1.25 is 25 % more. `before` and `after` are lists of the
# seconds for the same number of pictures, pair by pair. The first pair is the
# warm-up, in which neither setting runs at its full speed, so leave it out.
# Return three numbers: the median of the gains of all other pairs, their
# smallest and their largest. A worked example: after the warm-up, the pairs
# (4, 2), (4, 2.5) and (4, 4) have the gains 2, 1.6 and 1, so the answer
# is (1.6, 1, 2).
#
# The smallest gain is worth more than it seems. Suppose that the true median
# gain were only g. Then a pair would lie above g at most as often as a coin
# shows heads, and all n pairs would lie above g at most as often as n coins
# all show heads: in 1 of 2ⁿ experiments, for 8 pairs in 1 of 256. This is the
# **sign test**. It assumes that the pairs are independent, and that the median
# gain is the same in each. Another user's job that lasts for several pairs
# breaks the first assumption. If it is an advantage to go first, that breaks
# the second; but in an even number of rounds, whose order is reversed every
# other time, neither setting has that advantage more often.


# %% tags=["exercise"]
def gain(before, after):
    """Median, smallest and largest gain of all pairs except the first."""
    ### BEGIN SOLUTION
    ratios = sorted(b / a for b, a in zip(before[1:], after[1:]))
    middle = len(ratios) // 2
    return (ratios[middle] + ratios[~middle]) / 2, ratios[0], ratios[-1]
    ### END SOLUTION


# %% tags=["check"]
learn.check("gain", gain)

# %%
gain_of = learn.given("gain")
middle, low, high = gain_of(turns["slow"], turns["the same again"])
print(f"no change: {middle:.2f} times, between {low:.2f} and {high:.2f}")

# %% [markdown]
# ## Exercise 2: send it once
#
# ●●○ *15 minutes.* After each of its micro-batches, `slow_step` sends all
# gradients, and then the loss in an **all-reduce** of its own, which sums it
# over all ranks. And `.item()` makes Python wait until the number has been
# computed. On a GPU this empties the queue (lesson 20); a CPU has no queue, so
# there it costs next to nothing. Nothing has to be sent before the last
# micro-batch. DDP has a context manager for that, in which gradients add up
# and stay on their rank:
#
# ```
# with model.no_sync():
#     loss_fn(model(x), y).backward()      # sends nothing
# loss_fn(model(x), y).backward()          # sends the sum of both
# ```
#
# DDP decides in the forward pass whether the backward pass will send, so both
# belong inside `no_sync()`
# (https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html).
# Write the step again, with the same arguments, the same weights afterwards
# and one micro-batch in memory at a time. Send the gradients once and the loss
# once, and return the mean loss over all ranks as a tensor, so that whoever
# logs it can read it later. The check counts collectives, and reads by
# `.item()`, `float()`, `.tolist()` and `.numpy()`; it does not measure time. A
# sum of losses without `detach()` passes, too: the backward passes have freed
# the activations, but such a sum keeps what is left of each graph alive.


# %% tags=["exercise"]
def faster_step(model, optimizer, loss_fn, micro_batches):
    """One step of this rank; returns the mean loss over all ranks."""
    optimizer.zero_grad()
    ### BEGIN SOLUTION
    total = 0.0
    for k, (x, y) in enumerate(micro_batches, start=1):
        last = k == len(micro_batches)
        with contextlib.nullcontext() if last else model.no_sync():
            loss = loss_fn(model(x), y) / len(micro_batches)
            loss.backward()
        total = total + loss.detach()
    dist.all_reduce(total)
    optimizer.step()
    return total / dist.get_world_size()
    ### END SOLUTION


# %% tags=["check"]
learn.check("faster_step", faster_step)

# %% [markdown]
# ## One lever at a time
#
# Your step is one lever. The others are those of the table at the second
# prediction. Each changes one entry of `slow`:

# %%
from dtlib.measure.noise import compare

mine = learn.given("faster_step")
levers = {
    "my step, which sends once": dict(step=mine),
    "a loader worker": dict(workers=1),
    "pictures cropped in batches": dict(loader="device"),
    "buckets of 25 MiB": dict(bucket_cap_mb=25),
    "one micro-batch": dict(cuts=1),
    "channels_last": dict(channels_last=True),
    "fused AdamW": dict(fused=True),
    "bf16": dict(precision="bf16"),
    "twice the batch": dict(global_batch=64 * ranks),
}
settings = {"slow": slow, "the same again": slow}
settings |= {name: {**slow, **change} for name, change in levers.items()}
turns, losses, sent = dtlib.launch(
    measure, settings, repeats, steps, ranks=ranks, device=device
)[0]
gains = {name: gain_of(turns["slow"], turns[name]) for name in settings}
placebo = [turns[name][1:] for name in two]
told = {name: compare(gains[name][0], *placebo) for name in gains}


def noise(times, *placebo):
    return "" if compare(times, *placebo).real else "within the noise"


apart = {
    name: max(abs(a - b) for a, b in zip(losses["slow"], losses[name]))
    for name in settings
}

# %%
from lesson.pictures import draw_gains

names = list(gains)[1:]
draw_gains(
    {name: gains[name] for name in names},
    [name for name in names if told[name].real],
)

# %%
learn.table(
    [
        [name, sent[name], *(f"{x:.2f}" for x in gains[name])]
        + [f"{apart[name]:.0e}" if apart[name] else "0"]
        + ["" if name == "slow" else noise(gains[name][0], *placebo)]
        for name in gains
    ],
    ["lever", "all-reduces", "gain", "smallest", "largest", "losses apart",
     ""],
    f"Each lever alone against slow, {repeats} pairs; all-reduces of a step;"
    " largest difference between the loss curves",
)  # fmt: skip

# %% [markdown]
# Look at three things. **The noise:** as in lesson 21, an effect has to be
# larger than the spread of something in which nothing changes. Here that is
# the placebo: its largest ratio over its smallest, where 1, no change, counts
# as a ratio, too. A gain or a loss that is no larger is marked *within the
# noise*, even if all of its pairs lie above 1. This rule is strict, and more
# pairs make it stricter, because the spread of the placebo can only grow;
# longer turns make it smaller. The rule helps you choose; the proof below
# rests on the sign test instead. **Levers that lose:** a loader worker helps
# if a core is idle, and with two ranks on two cores none is. Whether bf16 pays
# off depends on the processor, and you find out only by measuring. **The
# losses:** a gain belongs to *this* experiment only if the loss curve stays
# the same.

# %%
free = [name for name in levers if name not in ("bf16", "twice the batch")]
best = max(levers, key=lambda name: gains[name][0])
learn.measured("most", best, effect=told[best])
close = 1e-5 if device == "cpu" else 1e-2  # GPUs convolve in TF32
for name in free:  # the same numbers except for the order of sums
    first = list(zip(losses["slow"], losses[name]))[:2]
    assert all(abs(a - b) < close * a for a, b in first), name

# %% [markdown]
# fp32 rounds each number to about 6·10⁻⁸ of its size, and a loss is the result
# of thousands of additions, so on a CPU the first two losses agree to 10⁻⁵. A
# GPU that computes convolutions in TF32, a shortened fp32, keeps 11 bits (it
# stores 10; the first is always 1), so there the cell asks only for 10⁻².
# Later losses may drift further apart, because a seed does not fix the order
# of sums (lesson 02). bf16 has 8 bits of precision instead of 24, so mention
# it when you report its gain. With twice the batch, the same pictures give
# half as many updates: that is a fast answer to a different question.
#
# ## What a lever can give
#
# If a lever makes a share s of a step f times as fast, 1 − s + s/f of the time
# is left. However large f is, the gain stays below 1 / (1 − s). This is
# **Amdahl's law** (https://doi.org/10.1145/1465482.1465560), and it is the
# reason to begin with the largest share. For levers on *different* parts, the
# saved times add up if the parts do not overlap. Two levers on the *same* part
# cannot save more than that part takes.

# %%
learn.what_if("levers")

# %% [markdown]
# ## Exercise 3: the bound
#
# ●●○ *8 minutes, stretch.* `levers` is a list of pairs (share, speed-up) for
# parts of a step that do not overlap. Return the gain of all of them together.
# A speed-up of `math.inf` removes its part. A worked example: if half of a
# step becomes 2 times as fast, 0.5 + 0.25 of the step is left, which is
# a gain of 1.33.


# %% tags=["exercise", "stretch"]
def bound(levers):
    """The gain in throughput with all levers together."""
    left = 1.0
    ### BEGIN SOLUTION
    for share, speedup in levers:
        left += share / speedup - share
    ### END SOLUTION
    return 1 / left


# %% tags=["check", "stretch"]
learn.check("bound", bound)

# %% [markdown]
# Now to the third prediction: each of two levers alone makes a step 1.25 times
# as fast, so each saves 20 % of the step's time.

# %%
import math

amdahl = learn.given("bound")
alone, both = amdahl([(0.2, math.inf)]), amdahl([(0.2, math.inf)] * 2)
learn.measured("two_levers", both)
assert abs(alone - 1.25) < 1e-9 and abs(both - 1 / 0.6) < 1e-9
clear = [n for n in free if told[n].real and gains[n][0] > 1]
if clear:
    product = math.prod(gains[name][0] for name in clear)
    print("Gains above that exceed the noise:", *clear, sep="\n- ")
    print(f"Multiplied, they would make {product:.2f} times.")
else:
    print("No single gain above exceeds the noise.")

# %% [markdown]
# ## Together, and proven
#
# Now pull the levers one after another, the one with the largest gain first,
# and keep each one. After each lever the shares change: a part that was 20 %
# of a step is 40 % of a step that takes half as long. So judge each lever by
# what it adds to the levers before it. The cell is less careful: it takes
# every lever that gained more than 5 % alone, noise or not, and keeps it even
# if it loses on top of the others.
#
# You *chose* these levers by the numbers above, and the best of nine noisy
# numbers tends to look better than it is. So the numbers that you chose by
# prove nothing, and you need fresh turns. Fix their number before you look: if
# you repeat the experiment until it succeeds, luck is enough.

# %%
worth = [name for name in free if gains[name][0] > 1.05] or [
    max(free, key=lambda name: gains[name][0])
]
worth.sort(key=lambda name: -gains[name][0])
chain, setting = two.copy(), slow
for name in worth:
    setting = {**setting, **levers[name]}
    chain[f"+ {name}"] = setting
exact = list(chain)[-1]
chain["+ bf16"] = {**setting, "precision": "bf16"}
turns, losses, sent = dtlib.launch(
    measure, chain, repeats, steps, ranks=ranks, device=device
)[0]
proof = {name: gain_of(turns["slow"], turns[name]) for name in chain}

# %%
from statistics import median

from lesson.pictures import draw_steps


def coins(name, goal):
    """Pairs above a gain, and outcomes of n coins with so many heads."""
    fresh = list(zip(turns["slow"], turns[name]))[1:]
    over = sum(before / after > goal for before, after in fresh)
    luck = sum(math.comb(repeats, k) for k in range(over, repeats + 1))
    return over, luck


shares = {"before": mean, "after": parts_of("cured", chain[exact])}
steps_ms = {
    when: {
        part: share * median(turns[name][1:]) * chain[name]["global_batch"]
        for part, share in shares[when].items()
    }
    for when, name in (("before", "slow"), ("after", exact))
}
draw_steps(steps_ms, coins(exact, 1)[1] / 2**repeats < 0.05)

# %% [markdown]
# The lengths of the bars are measured without the profiler; the shares of the
# parts come from a recording, as at the start, so they are estimates.

# %%
rates = {name: 1000 / median(turns[name][1:]) for name in chain}
rows = []
before = "slow"
for name in chain:
    step = gain_of(turns[before], turns[name])[0]
    before = "slow" if name in two else name
    rows.append(
        [name, f"{rates[name]:.0f}", sent[name], f"{step:.2f}"]
        + [f"{x:.2f}" for x in proof[name]]
        + [coins(name, 1.2)[0]]
    )
learn.table(
    rows,
    ["", "pictures/s", "all-reduces", "over the last", "gain", "smallest",
     "largest", "above 1.2"],
    f"Before and after, {repeats} fresh pairs; gain against slow; pairs above"
    " 1.2",
)  # fmt: skip

# %% [markdown]
# Read the column *over the last* from top to bottom. Within one round these
# gains multiply to the gain against slow, because each is measured on top of
# the levers before it. The table shows medians over all rounds, whose product
# noise can move far from the column *gain*. A lever with a large gain alone
# may add nothing here. Your step saves the messages of all micro-batches but
# the last, so with a single micro-batch it saves none; on a GPU it still
# saves the wait for `.item()`. And if pictures are cropped in batches, a
# worker has nothing to do.
#
# Now the verdict. A single disturbed pair can pull the smallest gain below
# 1.2, and more pairs can never raise it again. So count how many of the n
# pairs lie above 1.2 instead, and ask how often n fair coins show at least as
# many heads: count those among their 2ⁿ outcomes. That is the sign test for
# the case that not all pairs agree. The cell calls 20 % proven if they are
# fewer than 5 % of the outcomes. If it does not prove 20 %, report that
# attempt as well. For the next one, decide beforehand on longer turns, which
# are disturbed less, or on more pairs.

# %%
middle, low, high = proof[exact]
drift = max(abs(a - b) for a, b in zip(losses["slow"], losses[exact]))
print(f"All levers up to '{exact}' give {middle:.2f} times the throughput,")
print(f"in {repeats} pairs between {low:.2f} and {high:.2f} times,")
print(f"and losses that differ by at most {drift:.0e}.")
over, luck = coins(exact, 1.2)
proven = luck / 2**repeats < 0.05
print(f"{over} of {repeats} pairs lie above 1.2. If the true median were 1.2,")
print(f"at most {luck} of {2**repeats} experiments would have so many.")
if proven:
    print("At least 20 %: proven here, as far as a sign test proves it.")
else:
    print("At least 20 %: not proven by this attempt.")
effect = compare(middle, *(turns[name][1:] for name in two))
learn.my_run(
    "gain of all levers that keep the numbers",
    middle,
    "times",
    effect=None if proven else effect,
)

# %% [markdown]
# ## Exercise 4: torch.compile has a price
#
# ●●○ *10 minutes, stretch.* `torch.compile` generates code for your model and
# compiles it. Suppose that it does so for each batch size by itself
# (`dynamic=False`): a step with a size that has not occurred before takes
# `compile_seconds` longer. `sizes` has the batch size of every step of a run.
# A step takes `before` seconds plain and `after` seconds compiled, whatever
# its size. Return the number of the first step, counted from 1, at whose end
# the compiled run is not behind the plain one *and never will be again*. If it
# is behind at the end of the run, return `math.inf`. A run may have a million
# steps, so don't go through all earlier steps again in each of them.
#
# A worked example: with 1 s to compile, and steps of 0.5 s before and 0.25 s
# after, eight steps of the same size give 4. But if the fifth of twelve steps
# has another size, it costs a second more. The run is behind again, and level
# for good at the end of step 8.


# %% tags=["exercise", "stretch"]
def break_even(compile_seconds, before, after, sizes):
    """Number of the step from whose end on compiling has paid off."""
    ### BEGIN SOLUTION
    debt, seen, last = 0.0, set(), 0  # last: the last step that ends behind
    for k, size in enumerate(sizes, start=1):
        debt += after - before
        if size not in seen:
            seen.add(size)
            debt += compile_seconds
        if debt > 0:
            last = k
    return last + 1 if last < len(sizes) else math.inf
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("break_even", break_even)

# %% [markdown]
# Here two things are compiled: a training step of the patient's network, whose
# convolutions and matrix products mostly call a library that is compiled
# already, and a colour jitter, which consists of many small operations that a
# compiler can **fuse**, that is, join into one. Each runs in a fresh process
# with an empty cache, as in your first job on a node. The plain version, the
# plain one once more and the compiled one take turns. The last two columns
# apply your function to a million steps, first of one size, then with a
# smaller batch at the end of every epoch of 63 steps:


# %% tags=["stretch"]
import tempfile
from functools import partial

from lesson.operations import count, count_compiled


def jitter(x):
    x = (x * 1.1 + 0.02).clamp(0, 1)
    grey = x.mean(1, keepdim=True)
    x = (grey + 1.2 * (x - grey)).clamp(0, 1)
    return (x - 0.45) / 0.25


def once(call, x):
    out = call(x)
    if out.requires_grad:
        out.square().mean().backward()


def compiled(call):
    """To compile, in s; turns: plain, again, compiled; operations of both."""
    from torch._inductor import config

    config.cpp.enable_kernel_profile = True  # so that kernels are counted
    torch.set_num_threads(1)
    x, fast = torch.rand(32, 3, 32, 32), torch.compile(call)
    begin = time.perf_counter()
    once(fast, x)
    cost = time.perf_counter() - begin
    turns = [
        [
            median(profiling.seconds_of(partial(once, one, x), 20, warmup=3))
            for one in (call, call, fast)
        ]
        for _ in range(9)
    ]
    issued = count(partial(once, call, x))
    kernels = count_compiled(partial(once, fast, x))
    return [cost, *map(list, zip(*turns)), [issued, kernels]]


if with_compile:
    found = {}
    for name, call in (
        ("a training step of the network", network()),
        ("a colour jitter of 32 pictures", jitter),
    ):
        with tempfile.TemporaryDirectory() as folder:
            empty = {"TORCHINDUCTOR_CACHE_DIR": folder}
            found[name] = dtlib.launch(
                compiled, call, ranks=1, device="cpu", env=empty
            )[0]
else:
    found = learn.recorded("22_compile")
steps_of = learn.given("break_even")
million = [32] * 10**6, ([32] * 62 + [16]) * (10**6 // 63)
rows = []
for name, (cost, plain, again, fast, _) in found.items():
    old, new = median(plain), median(fast)
    unsure = noise(old / new, plain, again)
    paid = [steps_of(cost, old, new, sizes) for sizes in million]
    rows.append(
        [name, f"{cost:.1f} s", f"{old * 1e3:.3f} ms", f"{new * 1e3:.3f} ms"]
        + ([unsure] * 2 if unsure else paid)
    )
learn.table(
    rows,
    ["", "to compile", "before", "after", "pays after", "two sizes"],
    "torch.compile on a CPU, cache empty",
)

# %% [markdown]
# On our machine the price was 86 s for the network, whose step did not become
# faster, and 43 s for the jitter, which then saved 0.06 ms. If a step gains at
# all, such a price pays off after hundreds of thousands of steps, or if the
# next run finds the compiled code in a cache that you keep
# (`TORCHINDUCTOR_CACHE_DIR`). `inf` means: not in a million steps. *Within the
# noise* means that the plain version differs from itself by as much as from
# the compiled one, so there is no gain to divide by. By default,
# `torch.compile` compiles a second time when it meets a second size, and then
# for any size, so the price is usually due twice. Or leave the last, smaller
# batch out (`drop_last=True`).
#
# ## What a GPU adds: CUDA graphs
#
# For a GPU the CPU only **launches** operations: Python calls PyTorch, PyTorch
# chooses a kernel (lesson 20), and the driver puts it on the GPU's queue. If a
# kernel takes less time than its launch, the GPU waits for the CPU. A **CUDA
# graph** shortens that wait: a sequence of launches is recorded once, and from
# then on the CPU replays the recording with a single call. No kernel becomes
# faster.
#
# A recording holds fixed shapes and addresses of memory. So each new shape is
# recorded again, inputs are copied to where the recording expects them, and
# `.item()` cannot be inside, because there the CPU would have to look at a
# number. `torch.compile(model, mode="reduce-overhead")` makes the recordings
# (https://docs.pytorch.org/docs/stable/generated/torch.compile.html), and only
# on a GPU: one for each piece that it compiles, such as forward and backward.
# Code that it cannot compile splits the pieces, and so do DDP's buckets. Loss
# and optimizer are not in the compiled model, so they are launched as before,
# unless you compile or record them as well. A `torch.cuda.CUDAGraph` that you
# record yourself can hold a whole step. What you can count here is what it has
# to do: how many operations a CPU issues in a step. Each of them is at least
# one launch on a GPU:

# %% tags=["stretch"]
patient = network()


def updates(optimizer):
    optimizer.zero_grad()
    once(patient, torch.rand(8, 3, 32, 32))
    optimizer.step()


optimizers = {
    name: torch.optim.AdamW(patient.parameters(), fused=name == "fused")
    for name in ("one by one", "fused")
}
for optimizer in optimizers.values():
    updates(optimizer)  # the first step makes the optimizer's state
rows = [
    [f"one micro-batch and AdamW, {name}", count(partial(updates, one)), ""]
    for name, one in optimizers.items()
]
rows += [[name, *counts] for name, (*_, counts) in found.items()]
number = torch.zeros(1)
each = median(profiling.seconds_of(partial(number.add_, 1), 200, warmup=20))
print(f"The smallest operation takes {1e6 * each:.1f} µs on this CPU.")
learn.table(
    rows, ["", "operations", "after torch.compile"],
    "Operations that the CPU issues; those that only make views are left out",
)  # fmt: skip

# %% [markdown]
# Fused AdamW and the compiler remove operations that have little to compute.
# The network's step has as many as before, because most of its operations call
# a library, whose kernels a compiler does not join. (That measurement never
# clears the gradients, so ten of its operations add a new gradient to the old
# one.) A CUDA graph replaces the launches of each recorded piece by one
# replay. That pays if the profile of *your* step shows a GPU that is idle
# between short kernels (lesson 20).
#
# ## Exercise 5: is it still the same experiment?
#
# ●●● *10 minutes, stretch.* You are given two settings, before and after a
# change. `accumulation` is the number of micro-batches that each rank takes in
# a step. Return
#
# - `"another"` if the change makes it a different experiment, because the
#   global batch (ranks × micro_batch × accumulation), the learning rate, the
#   seed or the norm differs. A batch norm takes its mean and variance from
#   each *micro-batch*, so if `norm` is "batch", the size of the micro-batch
#   counts as well;
# - otherwise `"numbers"` if the precision differs: this is the same experiment
#   with different rounding, and a report has to mention it;
# - otherwise `"same"`. Buckets, workers and the way a batch is cut change at
#   most the order of sums, because here crops depend only on the step. (With
#   random crops drawn in the workers, or with dropout, the number of workers
#   and the cut would change what is drawn.)
#
# A worked example: twice the ranks with half the accumulation is the same.


# %% tags=["exercise", "stretch"]
def same_experiment(before, after):
    """Compare settings: dicts with ranks, micro_batch, lr, seed, ..."""
    ### BEGIN SOLUTION
    learnt = []
    for one in (before, after):
        batch = one["ranks"] * one["micro_batch"] * one["accumulation"]
        seen = one["micro_batch"] if one["norm"] == "batch" else None
        learnt.append((batch, one["lr"], one["seed"], one["norm"], seen))
    if learnt[0] != learnt[1]:
        return "another"
    same = before["precision"] == after["precision"]
    return "same" if same else "numbers"
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("same_experiment", same_experiment)

# %% tags=["stretch"]
judge = learn.given("same_experiment")
base = dict(ranks=2, micro_batch=8, accumulation=4, lr=1e-3, seed=0)
base |= dict(precision="fp32", norm="none", bucket_cap_mb=0.05, workers=0)
proposed = {
    "buckets of 25 MiB": dict(bucket_cap_mb=25),
    "one micro-batch": dict(micro_batch=32, accumulation=1),
    "bf16": dict(precision="bf16"),
    "twice the batch": dict(micro_batch=16),
}
for name, change in proposed.items():
    print(f"{name}: {judge(base, {**base, **change})}")

# %% [markdown]
# ## Quiz

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## Take-away
#
# - First measure the program against itself: that spread needs no lever.
# - Interleave the turns, compare them in pairs, and leave the warm-up out. If
#   the median gain is g or less, all n pairs are above g in at most 1 of 2ⁿ
#   experiments. Fix n beforehand, and report every attempt.
# - 20 % less time is 25 % more throughput. Say which of the two you mean.
# - A lever gives at most 1 / (1 − share). Begin with the largest share, and
#   look at the shares again after each change.
# - Make one change at a time. Numbers that made you choose a change cannot
#   prove it; fresh ones can.
# - Launches cost time: fuse operations, compile them, or replay them as a
#   CUDA graph. Compiling has a price for each new shape.
# - Send gradients once a step, and read losses only when somebody asks.
# - The loss curve decides whether it is still the same experiment.

# %%
if record and with_compile:
    print(learn.keep_record("22_compile", found).name)
learn.take_away()
