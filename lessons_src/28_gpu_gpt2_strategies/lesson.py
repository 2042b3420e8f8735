# %% [raw]
# ---
# number: "28"
# title: GPT-2 under eight strategies
# does: >-
#   predict which model fits, judge which rows of a table may be compared, and
#   train under every strategy
# objectives:
#   - predict which GPT-2 fits on which card under which strategy
#   - make a table of runs that states all settings and varies one
#   - tell from a broken run's output what is wrong, and what would fit
# minutes: {read: 25, exercises: 44}
# needs: [laptop]
# builds_on: ["17", "20"]
# ---

# %% [markdown]
# A student tutorial trains GPT-2 on WikiText-2, a text of Wikipedia articles,
# under **ZeRO**, which shards a model's states over the ranks, and prints this
# table
# (https://github.com/justin-aj/ml-sys/blob/main/distributed-training/TRAINING_RESULTS.md).
# A micro-batch is what a card processes at once, and under data parallel each
# card keeps the whole model:
#
# | strategy | model | cards | micro-batch | s per epoch | peak, GB | loss |
# | --- | --- | --- | --- | --- | --- | --- |
# | data parallel | gpt2-medium | 1 | 4 | 125 | 13.62 | 0.3143 |
# | ZeRO stage 1 | gpt2-medium | 1 | 4 | 52 | 9.64 | 0.2911 |
# | ZeRO stage 2 | gpt2-medium | 1 | 4 | 52 | 10.55 | 0.2912 |
# | ZeRO stage 3 | gpt2-large | 1 | 2 | 105 | 21.03 | 0.2298 |
# | ZeRO-Offload | gpt2-large | 1 | 2 | 375 | 10.10 | 0.2298 |
#
# (Elsewhere on the same page, the last two rows take 106 and 352 s.)
#
# **Which of these rows may you compare, and which model fits on your card?**
#
# The tutorial's learning path is a good one, so you follow it: a quick win,
# ZeRO, scaling up, your own data. At the end you have a table of your own.
# Exercises 1 and 2 are the core and take, with the reading, less than an hour;
# 3 and 4 are *stretch*.

# %%
from dtlib import learn

learn.start("28")

# %%
from lesson.pictures import draw_question

draw_question()

# %% [markdown]
# Each cell is the memory that a card would hold at its fullest. All of it is
# computed, by the rule that you write yourself in exercise 1.
#
# As it stands, this is a **rehearsal**: it trains a small GPT in two processes
# on this machine. On nodes with GPUs, `size = "full"` trains the published
# sizes on all of them, and a requeued job (one that the scheduler starts
# again) repeats no run that is done. With four cards you type:
#
# ```
# dtlib batch submit 28 --gpus-per-node 4 -p size=full
# ```
#
# `models` and `strategies` are lists separated by commas, `data` is the name
# of a data set or a folder of `.txt` files, and `ranks` is a number. Whatever
# you leave empty, or at 0, follows from `size`. `compiled=True` compiles the
# model of every run with `torch.compile`, as lesson 27's fastest setting for a
# GPU does. Give `strategies="single,ddp,zero1,zero2"` with it: DeepSpeed's
# stage 3 stops with an error of the compiler, so by default it is off.

# %% tags=["parameters"]
size = "rehearsal"
models = ""
strategies = ""
data = ""
ranks = 0
compiled = False
record = False

# %% [markdown]
# ## Your predictions
#
# Commit all three before you go on.

# %%
learn.predict("first_loss")

# %%
learn.predict("apart")

# %%
learn.predict("how_many_fit")

# %% [markdown]
# ## Quick win
#
# Start with the smallest thing that trains: one process and a few steps. If
# this does not run, nothing larger will. `shared` holds the settings that all
# runs of this lesson have in common.

# %%
from lesson import runs

from dtlib.study import worlds

cards = worlds.gpus()
full = size == "full" and cards > 0
if size == "full" and not full:
    print("size=full needs an NVIDIA GPU and found none: this is a rehearsal.")
world = ranks or (cards if full else 2)
shared = runs.shared(full, world, data, compiled)
shared

# %% [markdown]
# A study carries out each run once and keeps it in a folder. At full size,
# every run gets its own processes; in a rehearsal, runs with the same number
# of ranks share theirs.

# %%
from pathlib import Path
from shutil import rmtree

from lesson import rehearse

from dtlib.sim.shapes import GPT
from dtlib.study import family, rows

place = Path("studies") / "gpt2"
if not full:
    rmtree(place, ignore_errors=True)


def carry_out(model, names):
    """The outcomes of a model's runs under these strategies."""
    settings = {"max_length": GPT[model]["context"], **shared, "model": model}
    folder = place / model
    family.open_folder(folder, "strategies", settings)
    planned = runs.plans(settings, world, names, folder, full)
    if full:
        return list(family.carry_out(folder, planned))
    return rehearse.together(folder, planned)


default = "gpt2,gpt2-medium,gpt2-large,gpt2-xl" if full else "nano"
sizes = (models or default).split(",")
first = carry_out(sizes[0], ["single"])[0]
print(first.status, first.because)

# %%
losses = [line["loss"] for line in first.run.history]
print(*(f"{loss:.3f}" for loss in losses))

# %% [markdown]
# The loss falls, so the model trains. And you can predict its first value: a
# model that knows nothing gives each of the V entries of its vocabulary the
# probability 1/V, so its loss is ln V:

# %%
import math

from dtlib.data import open_text

tokens = shared.get("tokenizer")
text = open_text(shared["data"], seed=0, tokenizer=tokens)
multiple = shared.get("pad_vocab_to", 1)
entries = math.ceil(text.tokenizer.vocab_size / multiple) * multiple
print(f"V = {entries:,}: ln V = {math.log(entries):.3f}")
if multiple > 1:  # whole tiles for a GPU; no token uses the added rows
    print(f"{text.tokenizer.vocab_size:,}, padded to {entries:,}")
print(f"{sizes[0]}: {first.run.summary['parameters']:,} parameters")
print(f"first loss = {losses[0]:.3f}; for GPT-2: {math.log(50257):.2f}")
learn.measured("first_loss", losses[0] / math.log(entries))

# %% [markdown]
# So a log that begins at 10.85 does not show the *fine-tuning of a pretrained
# GPT-2*, whatever its title says: the pretrained weights were never loaded.
# nanoGPT's README reports a loss of 3.12 for the published GPT-2 with 124
# million parameters, on OpenWebText, which imitates the text that it was
# trained on (https://github.com/karpathy/nanoGPT, "baselines"). The first line
# of a log is a test.
#
# ## ZeRO
#
# Now train the same model under the other strategies. Five of them are those
# of DeepSpeed, the library that introduced ZeRO: its three stages, `offload`
# (the optimizer works in the host's memory) and `infinity` (states lie on a
# disk). `fsdp` (fully sharded data parallel) is PyTorch's own sharding. If
# this machine cannot run one of them, for example because DeepSpeed is
# missing, that strategy is *unavailable*: its row says what is missing, and
# all others still run.

# %%
SEVEN = "single,ddp,zero1,zero2,zero3,offload,infinity"
names = (strategies or SEVEN + ",fsdp").split(",")
outcomes = [o for model in sizes for o in carry_out(model, names)]
table = rows.tidy(outcomes, "strategies")
done = [row for row in table if row["status"] == "done"]
for outcome, row in zip(outcomes, table):
    if outcome.run:
        length = outcome.run.config["max_length"]
        row["mfu"] = runs.mfu(row, length, entries)
for row in table:
    if row["status"] != "done":
        print(f"{row['strategy']}: {row['status']}. {row['because']}")

# %%
learn.table(
    [
        [
            row["model"],
            row["strategy"],
            row["world_size"],
            f"{row['loss']:.6f}",
        ]
        for row in done
    ],
    ["model", "strategy", "ranks", "loss of the last step"],
    f"The same {shared['steps']} steps under each strategy",
)

# %%
apart = max(
    abs(a["loss"] - b["loss"])
    for a in done
    for b in done
    if a["model"] == b["model"]
)
print(f"largest difference between two losses: {apart:.1e}")
learn.measured("apart", apart)
if not full:
    assert apart < 1e-5

# %% [markdown]
# **A strategy decides where numbers lie, not what the model learns.** In fp32
# the losses differ only by rounding: 10⁻⁵ is about forty times the distance
# from one fp32 number to the next between 2 and 4. (In bf16, at full size,
# expect more: DeepSpeed rounds the weights themselves to 16 bits, the others
# only what enters a product.) If the loss of one strategy differs by more,
# that strategy is broken, or it trained on a different batch.
#
# What does change is who holds what. The figure compares the formulas of
# lesson 16 with the ledger of lesson 17, which lists what a rank really holds,
# for the last model that ran:

# %%
from lesson.pictures import HELD, draw_held

shown = [row for row in done if row["model"] == done[-1]["model"]]
draw_held(shown)


# %%
def totals(row):
    """MB by the formulas, and as measured."""
    keys = [f"{kind}_bytes" for kind in HELD.values()]
    return [
        sum(row[how + key] or 0 for key in keys) / 1e6
        for how in ("predicted_", "")
    ]


learn.table(
    [
        [row["strategy"], *totals(row), row["unexplained_bytes"]]
        for row in shown
    ],
    ["", "formula, MB", "measured, MB", "unexplained bytes"],
    f"States of {shown[-1]['model']} on rank 0 of {world}",
)

# %% [markdown]
# Where a bar and its outline differ, the difference has a name: DeepSpeed's
# fp32 copy, its **buckets** (gradients that travel together) or **padding**
# (elements added so that N divides a length); lesson 17 explains them, and
# `dtlib study strategies` lists them. For `infinity` the formula gives 0: the
# states lie in files. What you see are the buffers that they pass through,
# which are larger than a model this small. And where the CPU is the device,
# what `offload` moves to the host's memory stays in the same memory as the
# rest, so only a card can show that it saves anything.

# %%
assert all(row["unexplained_bytes"] == 0 for row in shown) or full
rates = {row["strategy"]: row["throughput"] for row in shown}
if {"ddp", "zero3"} <= rates.keys():
    share = rates["zero3"] / rates["ddp"]
    learn.my_run("tokens/s of zero3 over ddp", share, "times")
    print(f"zero3 reaches {share:.2f} of ddp's tokens/s here")

# %% [markdown]
# ## Scale up
#
# Which size fits on which card? In 16 bits, the ZeRO paper counts 2 bytes for
# a weight, 2 for its gradient and 12 for the optimizer: an fp32 copy of the
# weight and two moments. With N ranks, a card holds for each parameter:
#
# | strategy | weights | gradients | optimizer |
# | --- | --- | --- | --- |
# | single, ddp | 2 | 2 | 12 |
# | zero1 | 2 | 2 | 12/N |
# | zero2 | 2 | 2/N | 12/N |
# | zero3 | 2/N | 2/N | 12/N |
# | offload | 2 | in the host's memory | in the host's memory |
# | infinity | on a disk | in the host's memory | on a disk |
#
# The activations and logits of a micro-batch come on top, and no strategy of
# this table divides them. A worked example is GPT-2 XL under `zero2` on 4
# cards of 24 GiB:

# %%
from lesson.what_if import GPT2, computing

name, layers, width, heads, psi = GPT2[-1]
busy = computing(layers, width, heads, micro_batch=4)
states = (2 + 14 / 4) * psi
print(f"{name}: {psi:,} parameters, {states / 2**30:.2f} GiB of states")
print(f"micro-batch of 4: {busy / 2**30:.2f} GiB of activations and logits")
print(f"left: {24 - (states + busy) / 2**30:.2f} GiB")

# %% [markdown]
# ## Exercise 1: what is left on the card?
#
# ●●○ *10 minutes.* Write this calculation for every strategy of the table.
# `parameters` is the number of parameters, Ψ; `computing` is the number of
# bytes for activations and logits; and a card has `card_gib` GiB of 2³⁰ bytes.
# `single` runs on one card, whatever `ranks` is.


# %% tags=["exercise"]
def room_left(parameters, computing, strategy, ranks, card_gib):
    """GiB that stay free on each card; negative if memory is missing."""
    weights, gradients, optimizer = 2, 2, 12
    ### BEGIN SOLUTION
    if strategy in ("zero1", "zero2", "zero3"):
        optimizer /= ranks
    if strategy in ("zero2", "zero3"):
        gradients /= ranks
    if strategy == "zero3":
        weights /= ranks
    if strategy in ("offload", "infinity"):
        gradients = optimizer = 0
    if strategy == "infinity":
        weights = 0
    held = (weights + gradients + optimizer) * parameters + computing
    return card_gib - held / 2**30
    ### END SOLUTION


# %% tags=["check"]
learn.check("room_left", room_left)

# %%
room = learn.given("room_left")
CARDS = {"RTX 4090": 24, "A100": 40, "H100": 80}
every = SEVEN.split(",")
left = {
    (name, way, card): room(
        psi, computing(layers, width, heads, 4), way, 4, CARDS[card]
    )
    for name, layers, width, heads, psi in GPT2
    for way in every
    for card in CARDS
}
learn.table(
    [
        [name, card, *(f"{left[name, way, card]:+.1f}" for way in every)]
        for name, *_ in GPT2
        for card in CARDS
    ],
    ["model", "card", *every],
    "Computed: GiB left on each of 4 cards (single: 1); negative: missing",
)

# %%
fitting = [n for n, *_ in GPT2 if left[n, "ddp", "RTX 4090"] >= 0]
print("ddp on four cards of 24 GiB:", *fitting)
learn.measured("how_many_fit", len(fitting), source="computed")

# %%
from lesson.pictures import draw_fits

draw_fits(
    {n: [24 - left[n, way, "RTX 4090"] for way in every] for n, *_ in GPT2},
    every,
    24,
    "4 cards of 24 GiB, micro-batch 4",
)

# %% [markdown]
# Look at the last rows again: from `ddp` to `offload`, only model states leave
# the card. Under `offload`, GPT-2 XL still holds 2.9 GiB of weights and 11.7
# GiB of activations and logits. At this point a smaller micro-batch, or
# recomputing activations (lesson 05), gains more than another strategy.
#
# "ZeRO-2 saves 8×" is a limit: 16/(2 + 14/N) approaches 8 for many ranks.

# %%
print({n: round(16 / (2 + 14 / n), 1) for n in (1, 2, 4, 8, 64)})

# %%
learn.what_if("which_fits")

# %% [markdown]
# Leave a tenth of the card free, because no formula includes CUDA, its
# libraries and fragmentation. `dtlib sim memory --model gpt2-xl --strategy
# zero2 --ranks 4 --micro-batch 4 --precision bf16 --device rtx4090` computes
# the same with buckets included, and says what would fit if this does not.
#
# Does a GPU agree? At full size, the next cell compares the prediction with
# your own runs, and otherwise with recorded ones if there are any:

# %%
from dtlib.learn.source import find
from dtlib.sim import fitting
from dtlib.sim.estimate import Setup

COUNTS = ["micro_batch", "accumulation", "precision"]


def peaks(row):
    """GiB at the peak of a run on a GPU: predicted, measured."""
    place = (row["model"], row["strategy"], row["world_size"])
    counts = [row[key] for key in COUNTS]
    words = entries if full else 50_304
    setup = Setup(*place, *counts, vocab_size=words, loss="auto")
    return fitting.peak(setup) / 2**30, row["memory_peak_bytes"] / 2**30


kept = find("28").room / "records" / "28_gpt2.json"
if full or kept.exists():
    on_gpu = done if full else learn.recorded("28_gpt2")["rows"]
    lines = [[row["model"], row["strategy"], *peaks(row)] for row in on_gpu]
    heads = ["model", "strategy", "predicted, GiB", "measured, GiB"]
    print(learn.table(lines, heads, "The most that a card held"))
else:
    print("No GPU results are recorded yet. Published ones follow.")

# %% [markdown]
# ## How much of the peak?
#
# Others published the runs of the next table, in bf16 with windows of 1,024
# tokens, on eight GPUs each (https://github.com/karpathy/llm.c,
# `scripts/run_gpt2_*.sh`; https://github.com/karpathy/nanoGPT: the 600,000
# steps of `config/train_gpt2.py` in "about 4 days"). To compare runs of
# different models on different GPUs, divide what they compute by what they
# could have computed. The **MFU** (model FLOP/s utilisation, Chowdhery et al.
# 2022, https://arxiv.org/abs/2204.02311) is
#
# $$\text{MFU} = \frac{\text{tokens/s} \cdot \text{FLOP of a token}}
# {\text{GPUs} \cdot \text{peak of a GPU}}$$
#
# It counts the FLOP (floating-point operations) of the model, forward and
# backward, and nothing that is computed twice:

# %%
from dtlib.sim import hardware

PUBLISHED = [
    ("nanoGPT, data parallel", "gpt2", "a100-40", 491_520, 4 * 86400 / 6e5),
    ("llm.c, ZeRO-1", "gpt2", "a100-80", 524_288, 0.300),
    ("llm.c, ZeRO-1", "gpt2-medium", "a100-80", 524_288, 0.820),
    ("llm.c, ZeRO-1", "gpt2-large", "a100-80", 524_288, 1.7),
    ("llm.c, ZeRO-1", "gpt2-xl", "h100", 1_048_576, 2.80),
]
lines = []
for run, model, gpu, tokens_of_step, seconds in PUBLISHED:
    rate = tokens_of_step / seconds
    flop = runs.flop_per_token(model, 1024, 50_304)
    mfu = rate * flop / (8 * hardware.peak(gpu, "bf16"))
    lines.append([run, model, f"8 × {gpu}", seconds, rate, 100 * mfu])
learn.table(
    lines,
    ["run", "model", "cards", "s per step", "tokens/s", "MFU, %"],
    "Published steps; tokens/s and MFU follow from them",
)

# %% [markdown]
# Where does the rest of the peak go? Some of it goes into memory: norms and
# additions compute little and move much. And some is lost before anything
# runs. A GPU carries out a step as hundreds of small programs, its
# **kernels**. The CPU launches each of them, which takes some microseconds,
# however small the kernel is. Launches run ahead of the GPU as long as its
# kernels are long. When they are shorter than their launches, the GPU is idle
# between them, and that is **launch overhead**. A CPU pays a fixed price for
# each operation, too, so you can see the effect without a GPU: put more and
# more windows into a step of the smallest model.

# %%
import statistics
import time

import torch

from dtlib.models.gpt import GPT as Model
from dtlib.models.gpt import shape


def step_seconds(model, windows, length=32):
    """Median seconds of forward and backward on so many windows."""
    found = []
    for _ in range(7):
        words = torch.randint(64, (windows, length))
        start = time.perf_counter()
        model(words).logsumexp(-1).mean().backward()
        found.append(time.perf_counter() - start)
    return statistics.median(found[2:])


torch.set_num_threads(1)
tiny = Model(shape("nano", vocab_size=64))
took = {windows: step_seconds(tiny, windows) for windows in (1, 4, 16)}
learn.table(
    [[n, 1e3 * t, 1e6 * t / (32 * n)] for n, t in took.items()],
    ["windows", "ms per step", "µs per token"],
    "GPT nano on one thread of this CPU, windows of 32 tokens",
)

# %% [markdown]
# If a step were nothing but arithmetic, a token would take the same time in
# every row. With one window, it also pays for the operations' fixed cost. On a
# GPU, three things make kernels longer or fewer: a larger micro-batch, a wider
# model, and `torch.compile`, which merges neighbouring operations into one
# kernel (`compiled=True`).
#
# ## A table done right
#
# Now back to the first question. A row is a run: its settings and its results.
# Two rows show the effect of *one* setting if they differ in that setting
# alone. Anything else that differs is a **confounder**, and a setting that a
# row does not state may be one. So a table of runs has these columns, or its
# caption says what is equal in all rows:

# %%
SETTINGS = [
    "strategy",
    "model",
    "precision",
    "optimizer",
    "world_size",
    "global_batch",
    "micro_batch",
    "max_length",
]
RESULTS = ["throughput", "mfu", "peak", "reserved"]
RESULTS += ["loss", "device", "commit"]


def row_of(outcome, tidy):
    """A row with all settings and results; None where one is unknown."""
    config = outcome.run.config
    engine = config.get("framework", {}).get("deepspeed", {})
    adam = engine.get("optimizer", {}).get("params", {}).get("torch_adam")
    return {
        **{key: tidy.get(key, config.get(key)) for key in SETTINGS},
        "optimizer": "DeepSpeed's Adam" if adam is False else "torch's AdamW",
        "peak": tidy["memory_peak_bytes"],
        "reserved": tidy["memory_reserved_bytes"],
        **runs.brings(config),
        **{key: tidy[key] for key in RESULTS if key in tidy},
    }


mine = [row_of(o, row) for o, row in zip(outcomes, table) if o.run]
learn.table(
    [[row[key] for key in SETTINGS + runs.BRINGS] for row in mine],
    SETTINGS + runs.BRINGS,
    "Your table: settings, and what a strategy brings with it; in all rows the"
    f" model is {'compiled' if compiled else 'not compiled'}",
)

# %% [markdown]
# The last three columns belong to the strategy, and a caption must say so.
# `recipe` says in which precision a rank keeps and uses weights (`autocast`
# keeps them in fp32; under FSDP's `policy` and DeepSpeed's `mixed`, each rank
# computes with 16-bit copies). `fused` says whether AdamW is a single kernel,
# and `overlap` whether ranks exchange gradients while backward still runs.

# %%
learn.table(
    [
        [
            row["strategy"],
            row["throughput"],
            100 * row["mfu"] if row["mfu"] else "",
            *((row[key] or 0) / 1e6 or "" for key in ("peak", "reserved")),
            f"{row['loss']:.5f}",
            row["device"],
            str(row["commit"])[:7],
        ]
        for row in mine
    ],
    ["strategy", "tokens/s", "MFU, %", "peak, MB", "reserved, MB"]
    + RESULTS[4:],
    "Your table: results. Tokens/s are of all ranks, bytes of rank 0. The MFU"
    " stays empty on a CPU, whose peak is not in the course's table",
)

# %% [markdown]
# ## Exercise 2: fair pairs
#
# ●●○ *12 minutes.* Return the pairs of indices `(i, j)`, i < j, of rows that
# differ in the setting `factor` and agree in all other `SETTINGS`. `None`
# means that a row does not state this setting; such a row is in no pair.
# Results do not matter.
#
# A worked example: row 0 uses `ddp` and row 1 `zero2`, and all else is equal;
# row 2 uses `zero2` in another precision. For `"strategy"`, return `[(0, 1)]`.


# %% tags=["exercise"]
def fair_pairs(rows, factor):
    """Pairs (i, j) of rows in which `factor` alone differs."""
    pairs = []
    for i in range(len(rows)):
        for j in range(i + 1, len(rows)):
            ### BEGIN SOLUTION
            a, b = rows[i], rows[j]
            told = all(
                row[key] is not None for row in (a, b) for key in SETTINGS
            )
            differing = [key for key in SETTINGS if a[key] != b[key]]
            if told and differing == [factor]:
                pairs.append((i, j))
            ### END SOLUTION
    return pairs


# %% tags=["check"]
learn.check("fair_pairs", fair_pairs)

# %% [markdown]
# Here are the tutorial's five rows, with what its repository says beyond the
# table. Its script trains the first row in fp32 with torch's AdamW; the JSON
# files of the others ask for fp16 and leave Adam to DeepSpeed; `max_length` is
# 512. For the large model, the table gives a batch of 2, and the text below it
# says 4 for every JSON file, so its batch counts as unknown. (The learning
# rates differ as well, 5·10⁻⁵ after a warm-up and 10⁻⁴ without one, so not
# even the losses of the first two rows can be compared.)

# %%
fair = learn.given("fair_pairs")
ALL = {"world_size": 1, "max_length": 512}
MEDIUM = {**ALL, "model": "gpt2-medium", "global_batch": 4, "micro_batch": 4}
LARGE = {**ALL, "model": "gpt2-large"} | {
    "global_batch": None,
    "micro_batch": None,
}
FP16 = {"precision": "fp16", "optimizer": "DeepSpeed's Adam"}
FP32 = {"precision": "fp32", "optimizer": "torch's AdamW"}
five = [
    {"strategy": "ddp", **MEDIUM, **FP32},
    {"strategy": "zero1", **MEDIUM, **FP16},
    {"strategy": "zero2", **MEDIUM, **FP16},
    {"strategy": "zero3", **LARGE, **FP16},
    {"strategy": "offload", **LARGE, **FP16, "optimizer": "CPU Adam"},
]
for i, j in fair(five, "strategy"):
    print(five[i]["strategy"], "and", five[j]["strategy"])
assert fair(five, "strategy") == [(1, 2)]

# %% [markdown]
# Only one pair of ten is fair: stage 1 and stage 2, which on one card both
# divide by 1, with 52.10 and 52.56 s. "ZeRO-2: 2.4 times as fast, 23 % less
# memory" compares row 0 with row 2, but precision and Adam changed as well,
# and on one card nothing is sharded (lesson 17 takes that claim apart).
# `offload` brings its own Adam for the CPU; that belongs to the strategy, and
# a caption must say so.
#
# The table also does not name its card. The repository's README gives 28 GB
# and 90 samples/s for four A100s, and its `CLUSTER_QUICKSTART.md` gives the
# same numbers for four V100s. **A number without a run behind it has no device
# and no commit**: that is what these two columns are for. Now compare the rows
# of your own table:

# %%
for i, j in fair(mine, "strategy"):
    a, b = mine[i], mine[j]
    if a["strategy"] == "ddp" and a["throughput"] and b["throughput"]:
        ratio = b["throughput"] / a["throughput"]
        print(f"{b['strategy']} reaches {ratio:.2f} of ddp's tokens/s")
alone = [mine[i]["strategy"] for p in fair(mine, "world_size") for i in p]
print("pairs that differ in world_size alone:", alone or "none")

# %% [markdown]
# `single` is in no pair, because it differs from the others in strategy *and*
# in its number of ranks. You may still compare its loss, because the loss
# depends on neither, but not its tokens/s. And in a rehearsal, tokens/s come
# from processes that share this machine's cores: they say nothing about GPUs.
#
# ## Your own data
#
# A folder of `.txt` files is enough, for every strategy:
# `dtlib train text --data my_texts --strategy zero2`. The next cell writes the
# text of this course's own lessons into such a folder; add your files to it.
# With `-p data=my_texts` the whole lesson trains on that folder.

# %%
import dtlib
from dtlib.learn.source import lessons

folder = Path("my_texts")
folder.mkdir(exist_ok=True)
for lesson in lessons()[:6]:
    words = [c.text for c in lesson.cells if c.kind == "markdown"]
    file = folder / f"{lesson.number}.txt"
    file.write_text("\n\n".join(words), encoding="utf-8")

rmtree("own_run", ignore_errors=True)
settings = {"steps": 20, "global_batch": 8, "max_length": 32}
own = dtlib.train(
    "text",
    strategy="single",
    data=str(folder),
    tokenizer="trained",
    out="own_run",
    **settings,
)
figures = own.evaluations[-1]
print(f"perplexity {figures['valid_perplexity']:.0f}, measured like this:")
print(figures["protocol"])
learn.my_run("perplexity on my own text", figures["valid_perplexity"], "")

# %% [markdown]
# This takes two lines, because a **perplexity** (e to the power of the mean
# loss) without its protocol is half a number. For the published GPT-2 with 124
# million parameters on WikiText-2, one user measured 29.2 with windows of
# 1,024 tokens, and 43.3 with windows of 256
# (https://github.com/huggingface/transformers/issues/483).
#
# ## When it breaks
#
# Six things stop first runs on a cluster. Each ends in a sentence that says
# so:
#
# | what is wrong | where you read it | what helps |
# | --- | --- | --- |
# | cuDNN (NVIDIA's library for neural networks) is missing, or another version is found | `dtlib doctor` | take the other one out of `LD_LIBRARY_PATH`; reinstall torch |
# | DeepSpeed is missing | `dtlib doctor`, `dtlib train` | `pip install -e '.[deepspeed]'` |
# | out of memory | the rank's error message | one of the changes that it lists, computed for your run |
# | wrong launcher | `dtlib train` | `torchrun`, `deepspeed` or none, with one number of ranks |
# | batch identity violated (global batch = micro-batch × accumulation × N) | `dtlib train` | give only two of the three numbers |
# | no internet | `dtlib doctor`, `dtlib fetch` | `dtlib fetch NAME --from FILE`, `HF_HUB_OFFLINE=1` |

# %%
from dtlib.cluster import doctor
from dtlib.cluster.doctor.probes_training import TRAINING

# The first probe tries a convolution in torch's cuDNN, which needs a GPU.
for finding in doctor.examine(probes=TRAINING if cards else TRAINING[1:]):
    print(f"{finding.name}: {finding.found}")

# %% [markdown]
# The next cell makes two of these mistakes on purpose. A third needs a GPU, so
# the cell makes up torch's error text for a full card, and shows what dtlib
# turns it into.

# %%
from dtlib.errors import DtlibError
from dtlib.training.oom import numbers, sentence


def two_worlds():
    dtlib.train("text", ranks=4)


def sixteen():
    batch = {"global_batch": 16, "micro_batch": 4, "accumulation": 1}
    dtlib.train("text", ranks=1, **batch)


for start, where in ((sixteen, None), (two_worlds, 2)):
    try:
        start() if where is None else dtlib.launch(start, ranks=where)
    except DtlibError as error:
        print(error, end="\n\n")

said = (
    "CUDA out of memory. Tried to allocate 1.53 GiB. GPU 1 has a total"
    " capacity of 23.65 GiB of which 512.00 MiB is free. Of the allocated"
    " memory 21.90 GiB is allocated by PyTorch, and 640.00 MiB is reserved"
    " by PyTorch but unallocated."
)
run = Setup("gpt2-xl", "ddp", ranks=4, micro_batch=4, precision="bf16")
print(sentence("rank 1 ran out of memory on cuda:1", numbers(said), run))

# %% [markdown]
# The last sentence says how much memory was missing, what holds the rest, what
# this run needs, and which changes would fit without changing what the model
# learns: fewer samples at once with more accumulation, or another strategy.
#
# ## Exercise 3: the diagnosis
#
# ●●○ *12 minutes, stretch.* `log` is the output of a run. Return the cause of
# its failure, one of `CAUSES`, or `None` if nothing is broken. Judge by what
# an error *says*. On several ranks, one fails and the others wait for it, so
# the last lines may come from ranks that waited. And a missing package can
# mean a wrong start: DeepSpeed imports `mpi4py` if no launcher has told it its
# rank.
#
# A worked example: an output that ends in `ModuleNotFoundError: No module
# named 'deepspeed'` has the cause `"deepspeed"`.

# %% tags=["exercise", "stretch"]
CAUSES = ["cudnn", "deepspeed", "memory", "launcher", "batch", "internet"]


def diagnose(log):
    """The cause of a run's failure, or None."""
    ### BEGIN SOLUTION
    signs = {
        "memory": ["OutOfMemoryError", "can't allocate memory"],
        "cudnn": ["Error: libcudnn", "cuDNN version incompatibility"],
        "launcher": ["arguments: --local_rank", "device ordinal", "mpi4py"],
        "deepspeed": ["No module named 'deepspeed'"],
        "batch": ["Check batch related parameters"],
        "internet": ["couldn't connect to", "name resolution"],
    }
    for cause, words in signs.items():
        if any(word in log for word in words):
            return cause
    return None
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("diagnose", diagnose)

# %% [markdown]
# ## Exercise 4: tokens a second
#
# ●●○ *10 minutes, stretch.* The tutorial's script pads every line of
# WikiText-2 to 512 positions, and passes the padding (positions without text)
# as labels, too (`real_model_example.py`: `padding="max_length"`,
# `labels=input_ids`). So padding counts in its samples per second and in its
# loss: 0.31 would be a perplexity of 1.4, but the small GPT-2 reaches about 20
# after fine-tuning (https://github.com/huggingface/transformers, the README of
# `run_clm`).
#
# Count only real tokens. `steps` is a list of pairs: the seconds of a step,
# and the labels of all ranks' windows. The label -100 is padding, which the
# loss leaves out. The first `warmup` steps are not timed. Return the median of
# the steps' rates, for all ranks together and for one rank.
#
# A worked example: 2 ranks take 2 seconds for two windows of 8 positions, with
# 3 and 5 tokens. These are 8 tokens in 2 s, so return `(4.0, 2.0)`.


# %% tags=["exercise", "stretch"]
def tokens_per_second(steps, ranks, warmup):
    """(tokens/s of all ranks, tokens/s of one), medians of timed steps."""
    ### BEGIN SOLUTION
    rates = []
    for seconds, labels in steps[warmup:]:
        count = sum(label != -100 for window in labels for label in window)
        rates.append(count / seconds)
    total = statistics.median(rates)
    return total, total / ranks
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("tokens_per_second", tokens_per_second)

# %% tags=["stretch"]
lines = (folder / "00.txt").read_text(encoding="utf-8").split("\n")
lengths = [min(64, len(line.split())) for line in lines]
padded = [([1] * n + [-100] * (64 - n)) for n in lengths]
packed = [[1] * 64] * (sum(lengths) // 64)
rate = learn.given("tokens_per_second")
for name, windows in (("padded", padded), ("packed", packed)):
    seconds = 0.01 * len(windows)  # suppose that a window takes 10 ms
    total, _ = rate([(seconds, windows)], 1, 0)
    print(f"{name}: {len(windows)} windows, {total:,.0f} tokens/s")

# %% [markdown]
# The text is the same, and each window still takes 10 ms. But **packed
# windows** are cut from one long text, in which one line follows the other, so
# they hold no padding. The course's text is always packed.
#
# ## Quiz

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## Take-away
#
# - The first loss is near ln V, unless weights were loaded from somewhere.
# - Strategies agree on the loss. They differ in bytes, and the formulas say
#   by how much before you ask for a card.
# - In 16 bits a parameter takes 2 + 2 + 12 bytes. Each stage of ZeRO divides
#   more of them, and none divides the activations.
# - Two rows show what one setting does if all others are stated and equal.
# - An error message with numbers beats a search: it says how much memory was
#   missing and what would fit.

# %%
if record and full:
    print(learn.keep_record("28_gpt2", {"rows": done}, ("deepspeed",)).name)
learn.take_away()
