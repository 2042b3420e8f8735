# %% [raw]
# ---
# number: "18"
# title: Offload and infinity
# does: >-
#   keep the optimizer on the CPU and everything on a disk, and count what
#   the bus carries
# objectives:
#   - work out, and count, what each step moves over the bus and to the disk
#   - write an Adam step whose state lies elsewhere, in a window of fixed size
#   - say from bandwidth and tokens whether offloading is worth it
# minutes: {read: 25, exercises: 46}
# needs: [laptop, deepspeed]
# builds_on: ["17", "16", "05"]
# ---

# %% [markdown]
# A model of 13 billion parameters takes 208 GB to train: 16 bytes a parameter,
# in mixed precision. In 2021 one V100, a GPU with 32 GB, trained it
# (https://arxiv.org/abs/2101.06840): most of the 208 GB lay in the memory of
# the CPU. **What has to travel between the two in every step, and when is that
# slow?**
#
# Moving states off the GPU is called **offload**. In this lesson the optimizer
# goes to the CPU's memory, called the **host**, and then everything goes to
# **NVMe**, fast local disks. You run both for real, count every byte that
# moves, and write the step that works on a state that is somewhere else.
# Exercises 1 to 3 are the core and take an hour with the reading; exercise 4
# is *stretch*.

# %%
from dtlib import learn

learn.start("18")

# %%
from lesson.pictures import draw_question

draw_question()

# %% [markdown]
# `ranks` processes train a GPT with `layers` blocks, `width` wide, for `steps`
# steps, at least 3. Too few layers are refused: DeepSpeed would keep the state
# in memory, and not on the disk. On a node with GPUs use `device="cuda"`,
# `width=1024`, `layers=24` and one rank for each GPU. `nvme` names a folder on
# a fast disk; by default the files go into the notebook's folder, and they are
# removed at the end. With `record=True` the lesson saves its results for
# readers who have no DeepSpeed.

# %% tags=["parameters"]
device = "cpu"
ranks = 2
layers = 8
width = 64
steps = 4
nvme = None
record = False

# %%
from lesson.counted_runs import operators_are_here, refuse_small

refuse_small(ranks, layers, width, steps)
here = learn.ready() and operators_are_here()
found = {} if here else learn.recorded("18_offload")
source = "measured" if here else "recorded"

# %% [markdown]
# ## Your predictions
#
# Commit all three before you go on.

# %%
learn.predict("down")

# %%
learn.predict("mostly")

# %%
learn.predict("tokens")

# %% [markdown]
# ## Where everything lies
#
# Ψ is the number of parameters, N the number of ranks. In mixed precision a
# parameter has 2 bytes of weight, 2 of gradient and 12 of **optimizer state**:
# an fp32 master weight and Adam's two moments, 4 bytes each.
#
# - **ZeRO-Offload** (Ren et al. 2021) starts from stage 2: every GPU has all
#   weights, and the gradients and the optimizer state are divided by N. A
#   rank's share of both lies on the host, and *Adam runs there*. The state
#   never travels. Gradients go down, new weights come up.
# - **ZeRO-Infinity** (Rajbhandari et al. 2021,
#   https://arxiv.org/abs/2104.07857) starts from stage 3: the weights are
#   divided, too. Weights and optimizer state lie in files on NVMe. A layer's
#   weights are read when forward needs them, dropped, and read again for
#   backward. Adam still runs on the CPU: it reads a piece of its state,
#   updates it, and writes it back. In this lesson the gradients wait on the
#   host; stock DeepSpeed puts large ones on the disk, too, as you will see.

# %%
from lesson.pictures import draw_places

draw_places()

# %% [markdown]
# The numbers at the arrows are bytes for each parameter of the rank's share,
# in a step of one micro-batch. A half-filled box is a share, a filled one all.
#
# ## Exercise 1: bytes that move in a step
#
# ●○○ *8 minutes.* Write what the picture shows as a function: the bytes that
# one rank moves in one optimizer step, over four links. A step has
# `micro_batches` forwards and backwards, and one update. Gradients go down
# after every backward; that line is there as a worked example. Under offload
# they are added up on the host. Under infinity, what is read from the disk for
# a layer goes on to the device.


# %% tags=["exercise"]
def bytes_moved(parameters, ranks, way, micro_batches):
    """{"to_host", "to_device", "disk_read", "disk_write"}: bytes of a rank.

    `way` is "offload" or "infinity"; mixed precision, 2 + 2 + 12.
    """
    share = parameters / ranks
    moved = {"to_host": 2 * share * micro_batches}
    ### BEGIN SOLUTION
    if way == "offload":
        moved["to_device"] = 2 * share
        moved["disk_read"] = moved["disk_write"] = 0
    else:
        weights = 2 * 2 * share * micro_batches
        moved["to_device"] = weights
        moved["disk_read"] = weights + 12 * share
        moved["disk_write"] = 2 * share + 12 * share
    ### END SOLUTION
    return moved


# %% tags=["check"]
learn.check("bytes_moved", bytes_moved)

# %%
rule = learn.given("bytes_moved")
links = ["to_host", "to_device", "disk_read", "disk_write"]
learn.table(
    [
        [
            f"{way}, N = {n}",
            *(rule(13 * 10**9, n, way, 1)[link] / 1e9 for link in links),
        ]
        for way, n in [("offload", 1), ("infinity", 1), ("infinity", 16)]
    ],
    ["", *(link.replace("_", " ") for link in links)],
    "GB that one rank moves in a step, Ψ = 13 billion, computed",
)

# %% [markdown]
# ## Really run
#
# Now the course's strategies `zero3`, `offload` (at stage 2) and `infinity`
# train the same GPT, all three in fp32, and `offload` twice more in bf16: with
# one micro-batch in a step, and with three ("x3"). They run **DeepSpeed's own
# code**: its Adam for the CPU, its buffers, and its file operator, which reads
# and writes past the page cache.
#
# Without a GPU your machine has no such bus: device and host are
# one memory, so the copies are made but take no detour, and **times say
# nothing about a bus**. The bytes of offload and of the disk do not depend on
# that. Infinity's bus is not counted: on a CPU its file buffers are the
# device's memory, and DeepSpeed leaves those copies out. The lesson counts in
# three ways, none of which is a formula:
#
# - every copy that torch makes between tensors of the device and of the host;
# - every buffer that DeepSpeed gives to its file operator;
# - what Linux says this process read from and wrote to disks,
#   `/proc/self/io`.

# %%
from lesson.counted_runs import measured

WAYS = [
    ("zero3", "fp32", 1),
    ("offload", "fp32", 1),
    ("infinity", "fp32", 1),
    ("offload", "bf16", 1),
    ("offload", "bf16", 3),
]
if here:
    found["runs"] = measured(WAYS, ranks, device, layers, width, steps, nvme)
    found["ranks"] = ranks
run, n = found["runs"], found["ranks"]

# %%
exact = run["zero3 fp32"]["losses"]
learn.table(
    [[way, *one["losses"], one["ms"]] for way, one in run.items()],
    ["", *(f"step {k + 1}" for k in range(len(exact))), "ms"],
    f"Mean loss in each step, N = {n}, and the median time of a step",
)

# %% [markdown]
# Where a number is stored does not change it. In fp32 the three agree up to
# rounding, because they add the same numbers in another order: near 5, fp32
# numbers are 4.8·10⁻⁷ apart, and 10⁻⁵ is twenty such distances, the bound of
# lesson 17. bf16 is another computation and has other losses, and three
# micro-batches are other data.
#
# If `offload` is faster than `zero3` in your table, although it moves more,
# the stage is the reason: `zero3` divides the weights and gathers them from
# the other ranks for every layer, and `offload`, at stage 2, has them all.
# Without a bus its copies cost next to nothing.

# %%
for way in ("offload fp32", "infinity fp32"):
    apart = max(abs(a - b) for a, b in zip(run[way]["losses"], exact))
    print(f"{way}: at most {apart:.0e} from zero3")
    assert apart < 1e-5

# %% [markdown]
# ## Offload: the bus, counted
#
# Bytes for each parameter of the rank's share, Ψ/N, in one step. The rule is
# yours, which counts 2 bytes for a gradient and 2 for a weight; in fp32 each
# of them has 4.

# %%
each = {
    way: {what: size / one["share"] for what, size in one["moved"].items()}
    for way, one in run.items()
}
asked = {link: float(b) for link, b in rule(1, 1, "offload", 1).items()}
learn.table(
    [
        [way, link.replace("_", " "), each[way][link], asked[link] * times]
        for way, times in [("offload fp32", 2), ("offload bf16", 1)]
        for link in ("to_host", "to_device")
    ],
    ["", "", "counted", "rule"],
    "Bytes a parameter: gradients to the host, then new weights to the device",
)

# %%
learn.measured("down", each["offload bf16"]["to_host"], source=source)
for way, down, up in [
    ("zero3 fp32", 0, 0),
    ("offload fp32", 4, 4),
    ("offload bf16", 4, 2),
]:
    assert abs(each[way].get("to_host", 0) - down) < 0.04, way
    assert abs(each[way].get("to_device", 0) - up) < 0.04, way

# %% [markdown]
# Three of the four are the rule, and `zero3` moves nothing. (The assertions
# leave room for padding, one part in a hundred.) The fourth has a name:
# **DeepSpeed turns bf16 gradients into fp32 before they travel**, because on
# the host they wait in fp32 for its Adam. The paper sends 2 bytes. So this
# implementation moves 6Ψ/N bytes in a step, and the paper 4Ψ/N.
#
# **With several micro-batches DeepSpeed moves more than the rule.** Its stage
# 2 doesn't add on the host. After each backward the sum so far goes down in
# bf16, before the next sum it comes up again, and in the end it goes down once
# more in fp32. With k micro-batches, k > 1, that is 2k + 4 bytes down and
# 2(k − 1) + 2 up:

# %%
k, accumulated = 3, each["offload bf16 x3"]
learn.table(
    [
        ["to host", accumulated["to_host"], 2 * k + 4, 2 * k],
        ["to device", accumulated["to_device"], 2 * (k - 1) + 2, 2],
    ],
    ["", "counted", "DeepSpeed's rule", "your rule"],
    "Bytes a parameter in a step of three micro-batches, offload in bf16",
)

# %% [markdown]
# On several ranks the count is a little larger: a tensor whose parts belong to
# two ranks is added up whole on both.
#
# ## Infinity: the disk, counted
#
# The files first. In fp32 a parameter has 4 bytes of weights and 12 of
# optimizer state on the disk: DeepSpeed keeps an fp32 copy for its Adam, even
# when the weights are in fp32 themselves. Every step reads the weights twice
# and writes them once, and reads and writes the state once:

# %%
from lesson.pictures import draw_counted

infinity, files = run["infinity fp32"], run["infinity fp32"]["files"]
FP32 = {
    "read weights": 2 * 4,
    "read optimizer": 12,
    "write weights": 4,
    "write optimizer": 12,
}
draw_counted({name: each["infinity fp32"][name] for name in FP32}, FP32)

# %%
of_file = {name: files[name.split()[1]] / infinity["share"] for name in FP32}
learn.table(
    [
        [name, want, of_file[name], each["infinity fp32"][name]]
        for name, want in FP32.items()
    ],
    ["", "rule", "size of the files", "counted in a step"],
    "Bytes a parameter of the rank's share, infinity in fp32",
)

# %%
moved = infinity["moved"]
for what in ("weights", "optimizer"):
    assert moved[f"write {what}"] == files[what]
assert moved["read optimizer"] == files["optimizer"]
assert files["weights"] < moved["read weights"] <= 2 * files["weights"]
state = moved["read optimizer"] + moved["write optimizer"]
part = state / sum(moved[name] for name in FP32)
print(f"{100 * part:.0f} % of what the disk moves is optimizer state")
words = "the optimizer state" if part > 0.5 else "the weights"
learn.measured("mostly", words, source=source)

# %% [markdown]
# Each difference from the rule has a name:
#
# - **small tensors**: a tensor whose share is smaller than a block of the file
#   operator stays in memory, and so does the state of a small sub-group, one
#   of the pieces in which DeepSpeed updates a share. So the files are smaller
#   than 4 and 12 bytes a parameter.
# - **the end of forward**: the last matrix of the last block and the
#   embedding, which is also the output layer, are still in memory when
#   backward begins. They are read once, not twice.
#
# What is in files is written and read exactly as often as the rule says.
#
# **The gradients are missing because this course keeps them off the disk.**
# Stock DeepSpeed 0.19 has two constants of 1 MiB: a smaller tensor stays in
# memory, so of this small model nothing would move. If a rank's part of a
# gradient has 1 MiB or more in fp32, it goes to the disk, and the update reads
# it back: in a run with DeepSpeed's own constants and a wider model
# (`width=512`, four layers, one rank) that was 3.9 bytes a parameter in each
# direction. The course sets both: weights go to files from 4 KiB on, and no
# gradient does, because DeepSpeed can read a gradient back to an address that
# its file operator cannot use, and no error says so. So expect about 38 bytes
# a parameter instead of 30 from stock DeepSpeed and a large model in mixed
# precision.
#
# Does Linux agree with DeepSpeed's calls? A file system in memory is not
# counted, so 0 means nothing. Otherwise a page or two of something else may be
# in it.

# %%
calls = {
    verb: sum(moved[name] for name in FP32 if name.startswith(verb))
    for verb in ("read", "write")
}
learn.table(
    [[verb, calls[verb], infinity["kernel"][verb]] for verb in calls],
    ["", "DeepSpeed's calls", "/proc/self/io"],
    "Bytes of rank 0 in one step under infinity",
)

# %% [markdown]
# ## A step whose state is elsewhere
#
# How do you update a state that is larger than your memory? Adam works element
# by element, so it needs only a **window** of its state at a time: read a
# chunk, update it, write it back, go on to the next. `Host` keeps the state
# and hands it out through three small buffers, one for each kind. A worked
# example, with a window of 4: double the second chunk of the master weights.

# %%
import torch
from lesson.stores import Host, adamw

host = Host(torch.arange(6.0), window=4)
part = host.read("master", 4, 6)  # in the buffer, until the next read
part *= 2
host.write("master", 4, part)
print(host.state["master"].tolist())
print("bytes read and written:", host.moved("read"), host.moved("write"))

# %% [markdown]
# `adamw(master, gradient, first, second, step)` is torch's AdamW on tensors of
# equal length. It changes `master` and the two moments in place. `step` is the
# number of the optimizer step: it corrects the moments at the start, the same
# for all elements.
#
# ## Exercise 2: stream the step through a window
#
# ●●○ *14 minutes.* Update the whole state with `adamw`, chunk by chunk. The
# last chunk may be shorter. `host.state` is for looking at afterwards; your
# step uses `read` and `write` alone. Never have more than `window` elements of
# a kind that are read and not yet written, and move each element once in each
# direction. Then put the new master weights into `weights`, which is the
# device's own tensor in bf16: assigning to a part of it rounds. The check
# compares bit for bit.


# %% tags=["exercise"]
def streamed_step(host, gradient, weights, window, step):
    """One AdamW step. Kinds of state: "master", "first", "second"."""
    for start in range(0, len(gradient), window):
        ### BEGIN SOLUTION
        stop = min(start + window, len(gradient))
        master = host.read("master", start, stop)
        first = host.read("first", start, stop)
        second = host.read("second", start, stop)
        adamw(master, gradient[start:stop], first, second, step)
        host.write("master", start, master)
        host.write("first", start, first)
        host.write("second", start, second)
        weights[start:stop] = master
        ### END SOLUTION


# %% tags=["check"]
learn.check("streamed_step", streamed_step)

# %% [markdown]
# Your step against torch's AdamW on all elements at once: first with the
# state in memory, and then **in files** that are mapped into memory. Only
# `folder` differs; your function does not know where the state lies.

# %%
from pathlib import Path
from tempfile import TemporaryDirectory

from lesson.stores import train_both

elements, window = 200_000, 8192
stream = learn.given("streamed_step")
with TemporaryDirectory(prefix="adam-") as folder:
    twin, hosts = train_both(stream, elements, window, Path(folder), 3)
    on_disk = sum(file.stat().st_size for file in Path(folder).iterdir())
for place, host in hosts.items():
    assert torch.equal(host.state["master"], twin), place
print("bit for bit torch's AdamW, from both places")
assert on_disk == 12 * elements

# %%
learn.table(
    [
        [place, *(host.moved(v) / elements / 3 for v in ("read", "write"))]
        for place, host in hosts.items()
    ],
    ["state", "read", "written"],
    "Bytes a parameter and step, counted; 12 each way by the rule",
)

# %%
buffers = 3 * 4 * window
print(f"{12 * elements:,} bytes of state through {buffers:,} bytes of buffers")

# %% [markdown]
# ZeRO-Infinity updates a state on a disk in this way. DeepSpeed's Adam adds
# vector instructions and threads. Its **swapper**, the part that moves state
# between disk and memory, can also use a second window, which is exercise 4;
# that is off by default (`pipeline_read`, `pipeline_write`), and it was off in
# your run. ZeRO-Offload's state lies in memory whole and needs no window. Its
# paper (section 5.2) hides the CPU's time in another way: with the **delayed
# parameter update** the GPU computes the next step with the old weights while
# Adam still works, so the weights are one step behind, and the training
# changes a little.
#
# ## When is it worth it?
#
# A GPU computes 6 FLOP for each parameter and token: 2 in forward, 4 in
# backward. In the worst case the bus is not hidden behind that at all. Then
#
# $$\text{efficiency} =
# \frac{\text{computing}}{\text{computing} + \text{bus}}$$
#
# $$\text{computing} = \frac{6\,Ψ \cdot \text{tokens}}{\text{FLOP/s}},\qquad
# \text{bus} = \frac{\text{bytes moved}}{\text{bytes/s}}$$
#
# **Bytes per step do not grow with the batch, and computing does.** So enough
# tokens always hide the bus.
#
# ## Exercise 3: enough tokens
#
# ●●○ *10 minutes.* Return the smallest whole number of tokens that one GPU
# has to compute in a step for at least this `efficiency`. A worked case: 2 s
# of bus at an efficiency of 0.5 need 2 s of computing; at 0.75 they need 6 s.


# %% tags=["exercise"]
import math


def fewest_tokens(parameters, moved, bandwidth, speed, efficiency):
    """A whole number of tokens.

    `moved` bytes in a step, `bandwidth` in bytes/s, `speed` in FLOP/s.
    """
    bus = moved / bandwidth
    ### BEGIN SOLUTION
    computing = bus * efficiency / (1 - efficiency)
    return math.ceil(computing * speed / (6 * parameters))
    ### END SOLUTION


# %% tags=["check"]
learn.check("fewest_tokens", fewest_tokens)

# %% [markdown]
# The paper's V100 computed at 40 TFLOP/s with 10 billion parameters
# (https://arxiv.org/abs/2101.06840, abstract). Take 16 GB/s for its bus: PCI
# Express 3.0 has 16 lanes of 8·10⁹ bits/s in each direction.

# %%
tokens_for = learn.given("fewest_tokens")
BUS, GPU = 16 * 10**9, 40 * 10**12  # bytes/s and FLOP/s
for billions in (1, 10, 13):
    psi = billions * 10**9
    bytes_ = int(sum(rule(psi, 1, "offload", 1).values()))
    half, more = (
        int(tokens_for(psi, bytes_, BUS, GPU, share)) for share in (0.5, 0.8)
    )
    print(f"{billions:3} billion: {half:,} and {more:,} tokens")
learn.measured("tokens", half, source="computed")

# %% [markdown]
# **The size of the model cancels**: both sides grow with Ψ. With 1,667 tokens
# computing takes as long as the bus, and with 6,667 it is four fifths of the
# step. That is seven sequences of 1,024 tokens, no large batch. Offload makes
# room for it, because it takes 14 of 16 bytes off the card.
#
# ZeRO-Infinity's paper writes the same as $a \cdot b / (a \cdot b + p)$
# (section 4): $b$ bytes/s, $p$ FLOP/s, and the **arithmetic intensity** $a$,
# the FLOP for each byte moved. It says that weights and gradients reach an
# efficiency over 50 % with 70 GB/s, on a GPU of 70 TFLOP/s with one sequence
# of 1,024 tokens. There forward is computed again in backward, so weights
# travel three times and gradients once: 8 bytes a parameter, for 8 FLOP a
# parameter and token.

# %%
intensity = 8 * 1024 / 8
efficiency = intensity * 70e9 / (intensity * 70e9 + 70e12)
bus, computing = 8 * 1 / 70e9, 8 * 1 * 1024 / 70e12
assert abs(efficiency - computing / (computing + bus)) < 1e-12
print(f"{100 * efficiency:.1f} %")

# %% [markdown]
# Now the disks. Say that one GPU's part of them moves 2 GB/s, and its bus
# 16 GB/s. How many tokens for half the time, on 1 rank and on 16?

# %%
psi = 10 * 10**9
for n in (1, 16):
    links = rule(psi, n, "infinity", 1)
    on_bus = int(links["to_host"] + links["to_device"])
    on_disks = int(links["disk_read"] + links["disk_write"])
    need = [
        int(tokens_for(psi, on_bus, BUS, GPU, 0.5)),
        int(tokens_for(psi, on_disks, 2 * 10**9, GPU, 0.5)),
    ]
    print(f"N = {n}: bus {need[0]:,} tokens, disks {need[1]:,}")

# %% [markdown]
# On one GPU the disks want 100,000 tokens in a step. On 16 ranks each
# moves only its share, while it still computes all Ψ parameters for its own
# tokens: 6,250 for each GPU are enough. What counts is the bandwidth of all
# disks together: 16 ranks with 2 GB/s have 32 GB/s, and one GPU with a disk of
# 32 GB/s would need 6,250 tokens, too. **The step as a whole did not shrink**:
# 16 · 6,250 are 100,000 tokens again. So:
#
# - It fits without offload? Then leave it there: at the same stage, nothing is
#   faster than not moving.
# - The optimizer does not fit, the weights do: offload. Use the room that it
#   makes for a larger micro-batch.
# - The weights do not fit either: stage 3 on more GPUs if you have them,
#   otherwise infinity, with as many tokens a step as your experiment allows.
#
# Three costs are not in these formulas: Adam's own time on the CPU, which also
# works through 12 bytes a parameter in both directions; the wear of a disk to
# which every step writes 14Ψ/N bytes; and, on several ranks, stage 3's own
# messages between the GPUs. Each rank gathers the weights twice and reduces
# the gradients, 6Ψ·(N − 1)/N bytes (lesson 16). On 16 ranks that is three
# times what a rank moves to and from its disk.
#
# Try your own hardware. The curves are simulated.

# %%
learn.what_if("fits")

# %% [markdown]
# ## Overlap: read ahead, write behind
#
# *Stretch.* Your step of exercise 2 waits while it reads and while it writes.
# With a second window it could read chunk 1 while it updates chunk 0. That is
# **prefetching**: to read before somebody waits for it. There is one reader,
# one updater and one writer. Each takes the chunks in order, one at a time:
#
# - reading chunk i begins when the reader is free **and** a window is free:
#   with `windows` windows it takes over the one of chunk i − `windows`, which
#   must have been written;
# - updating it begins when it has been read and the updater is free;
# - writing it begins when it has been updated and the writer is free.
#
# ## Exercise 4: the schedule
#
# ●●● *14 minutes, stretch.* Return for each chunk when its reading, updating
# and writing are done, in seconds. The lists say how long each takes. A worked
# case: two chunks take 2 s to read, 1 to update and 3 to write. With one
# window they are done at (2, 3, 6) and (8, 9, 12): the second reading waits
# for the first writing. With two windows the second chunk is done at (4, 5,
# 9).


# %% tags=["exercise", "stretch"]
def finish_times(read, update, write, windows):
    """[(when read, when updated, when written), …] for each chunk."""
    done = []
    for i in range(len(read)):
        ### BEGIN SOLUTION
        before = done[i - 1] if i else (0, 0, 0)
        free = done[i - windows][2] if i >= windows else 0
        is_read = max(before[0], free) + read[i]
        is_updated = max(before[1], is_read) + update[i]
        is_written = max(before[2], is_updated) + write[i]
        done.append((is_read, is_updated, is_written))
        ### END SOLUTION
    return done


# %% tags=["check", "stretch"]
learn.check("finish_times", finish_times)

# %% [markdown]
# Your own step from files, chunk by chunk, with the seconds that its calls
# took. What would two and three windows have made of it? Of each chunk the
# median over the three steps is taken; the last eight chunks are drawn.

# %% tags=["stretch"]
from lesson.pictures import draw_schedule
from lesson.stores import median_by_chunk

schedule = learn.given("finish_times")
spent = median_by_chunk(hosts["files"].calls, 3)
spent = [kind[-8:] for kind in spent]
done = {
    k: [tuple(map(float, row)) for row in schedule(*map(list, spent), k)]
    for k in (1, 2, 3)
}
draw_schedule(done, spent)

# %% tags=["stretch"]
ends = {k: rows[-1][2] for k, rows in done.items()}
learn.table(
    [[k, 1000 * end, ends[1] / end] for k, end in ends.items()],
    ["windows", "ms", "times as fast"],
    "Eight chunks with the seconds of your run, simulated",
)

# %% tags=["stretch"]
slowest = max(sum(kind) for kind in spent)
near = 1 + 1e-6  # your numbers may be fp32
assert slowest <= ends[3] * near <= ends[2] * near**2 <= ends[1] * near**3
print(f"the slowest of the three alone takes {1000 * slowest:.2f} ms")

# %% [markdown]
# With enough windows the step takes about as long as its slowest part: reading
# and updating and writing overlap. More windows cannot help then. If reading
# or writing is the slowest, a faster disk helps, or more of them; if updating
# is, only a faster Adam does, and a third window may add nothing. Files that
# are mapped into memory are often in the page cache, so this machine's reads
# may be far faster than its disk.
#
# ## Quiz

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## Take-away
#
# - Offload moves gradients down and weights up: 4Ψ/N bytes a step in the
#   paper, 6Ψ/N in DeepSpeed with bf16 and one micro-batch. The optimizer state
#   stays on the host.
# - Infinity moves about 30Ψ/N to and from the disk, and 24 of the 30 are
#   optimizer state. Stock DeepSpeed adds 8 for large gradients.
# - The losses stay: where a number is stored does not change it.
# - Bytes belong to a step, computing to its tokens. Enough tokens hide the
#   bus, whatever the size of the model.
# - A state may be anywhere if the step works through a small window, and is
#   fast if it reads ahead.

# %%
if record and here:
    print(learn.keep_record("18_offload", found, ("deepspeed",)).name)
learn.take_away()
