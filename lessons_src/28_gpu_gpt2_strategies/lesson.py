# %% [raw]
# ---
# number: "28"
# title: GPT-2 under eight strategies
# does: >-
#   say what fits and which rows of a table are fair; train under every
#   strategy
# objectives:
#   - foretell which GPT-2 fits on which card under which strategy
#   - make a table of runs in which one setting differs and all are told
#   - read from a broken run's output what is wrong, and what would fit
# minutes: {read: 25, exercises: 44}
# needs: [laptop]
# builds_on: ["17", "20"]
# ---

# %% [markdown]
# A student tutorial trains GPT-2 on WikiText-2 under ZeRO and prints
# (https://github.com/justin-aj/ml-sys/blob/main/distributed-training/TRAINING_RESULTS.md):
#
# | strategy | model | cards | micro-batch | s an epoch | peak, GB | loss |
# | --- | --- | --- | --- | --- | --- | --- |
# | data parallel | gpt2-medium | 1 | 4 | 125 | 13.62 | 0.3143 |
# | ZeRO stage 1 | gpt2-medium | 1 | 4 | 52 | 9.64 | 0.2911 |
# | ZeRO stage 2 | gpt2-medium | 1 | 4 | 52 | 10.55 | 0.2912 |
# | ZeRO stage 3 | gpt2-large | 1 | 2 | 105 | 21.03 | 0.2298 |
# | ZeRO-Offload | gpt2-large | 1 | 2 | 375 | 10.10 | 0.2298 |
#
# (For the last two rows the same page also says 106 and 352 s.)
#
# **Which of these rows may you compare, and which model fits on your card?**
#
# Its learning path is a good one, and you follow it: a quick win, ZeRO, scale
# up, your own data. You end with a table of your own. Exercises 1 and 2 are
# the core and fit an hour with the reading; 3 and 4 are *stretch*.

# %%
from dtlib import learn

learn.start("28")

# %% [markdown]
# As it stands this is the **rehearsal**: a small GPT on two processes of this
# machine. On nodes with GPUs, `size = "full"` trains the published sizes on
# all of them; a job that is requeued goes on. With four cards:
#
# ```
# dtlib batch submit 28 --gpus-per-node 4 -p size=full
# ```
#
# `models` and `strategies` are lists with commas, `data` a name or a folder
# of `.txt` files, `ranks` a number; left empty, or 0, they follow from `size`.

# %% tags=["parameters"]
size = "rehearsal"
models = ""
strategies = ""
data = ""
ranks = 0
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
# First the smallest thing that trains: one process, a few steps. If this does
# not run, nothing larger will. What all runs of this lesson share stands in
# `shared`, once.

# %%
from lesson import runs

from dtlib.study import worlds

cards = worlds.gpus()
full = size == "full" and cards > 0
if size == "full" and not full:
    print("size=full needs an NVIDIA GPU, and none is here: a rehearsal.")
world = ranks or (cards if full else 2)
shared = runs.shared(full, world, data)
shared

# %% [markdown]
# A study carries out each run once and keeps it in a folder. At full size
# every run gets processes of its own; in the rehearsal they share some.

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
    """What came of a model's runs under these strategies."""
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
# The loss falls: it trains. And its first value can be foretold. A model that
# knows nothing gives each of V entries the probability 1/V, so its loss is
# ln V:

# %%
import math

from dtlib.data import open_text

tokens = shared.get("tokenizer")
text = open_text(shared["data"], seed=0, tokenizer=tokens)
multiple = shared.get("pad_vocab_to", 1)
entries = math.ceil(text.tokenizer.vocab_size / multiple) * multiple
print(f"V = {entries:,}: ln V = {math.log(entries):.3f}")
if multiple > 1:  # whole tiles for a GPU; the rows beyond mean nothing
    print(f"{text.tokenizer.vocab_size:,}, padded to {entries:,}")
print(f"{sizes[0]}: {first.run.summary['parameters']:,} parameters")
print(f"first loss = {losses[0]:.3f}; for GPT-2: {math.log(50257):.2f}")
learn.measured("first_loss", losses[0] / math.log(entries))

# %% [markdown]
# So a log that begins at 10.85 is not one of *fine-tuning a pretrained
# GPT-2*, whatever its title says: those weights never came. nanoGPT's README
# gives 3.12 for the published 124 million on OpenWebText, which imitates the
# text they were trained on (https://github.com/karpathy/nanoGPT, "baselines").
# The first line of a log is a test.
#
# ## ZeRO
#
# Now the same under the other strategies. One that this machine cannot run,
# for want of DeepSpeed, say, is *unavailable*: its row says what is missing,
# and nothing else stops.

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
print(f"apart by {apart:.1e} at most")
learn.measured("apart", apart)
if not full:
    assert apart < 1e-5

# %% [markdown]
# **A strategy decides where numbers lie, not what is learnt.** In fp32 the
# losses differ by roundings: 10⁻⁵ is forty times the distance of two fp32
# numbers between 2 and 4. (In bf16, at full size, expect more: DeepSpeed cuts
# the weights themselves to 16 bits, the others only what enters a product.) A
# strategy whose loss is another one is broken, or its batch is another.
#
# What does change is who holds what. The formulas of lesson 16 beside the
# ledger of lesson 17, for the last model that ran:

# %%
import matplotlib.pyplot as plt

KINDS = ["parameters", "gradients", "optimizer", "fp32_copy"]
shown = [row for row in done if row["model"] == done[-1]["model"]]
labels = [row["strategy"] for row in shown]
figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
bottom, outline = [0.0] * len(shown), [0.0] * len(shown)
for kind, hatch in zip(KINDS, ["", "//", "..", "xx"]):
    held = [row[f"{kind}_bytes"] / 1e6 for row in shown]
    rule = [(row[f"predicted_{kind}_bytes"] or 0) / 1e6 for row in shown]
    name = kind.replace("_", " ")
    axes.bar(labels, held, 0.5, bottom, hatch=hatch, label=name)
    frame = {"fill": False, "edgecolor": "black"}
    axes.bar(labels, rule, 0.8, outline, **frame)
    bottom = [low + add for low, add in zip(bottom, held)]
    outline = [low + add for low, add in zip(outline, rule)]
axes.set(ylabel="MB held by rank 0", ylim=(0, 1.25 * max(bottom)))
axes.legend(fontsize=8, ncols=4, title="measured; outlines: the formulas")
plt.show()

# %%
learn.table(
    [
        [row["strategy"], *pair, row["unexplained_bytes"]]
        for row, *pair in zip(shown, outline, bottom)
    ],
    ["", "formula, MB", "measured, MB", "bytes without a name"],
    f"States of {shown[-1]['model']} on rank 0 of {world}",
)

# %% [markdown]
# Where bar and outline part, the difference has a name: DeepSpeed's fp32
# copy, buckets, padding (lesson 17; `dtlib study strategies` lists them). For
# `infinity` the formula has nothing: its states lie in files, and what you
# see are the buffers through which they come, larger than a model this small.
# And where the CPU is the device, what `offload` moves to the host stays
# beside the rest: that it saves anything, only a card can show.

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
# Which size fits on which card? In 16 bits the paper's rule is 2 bytes for a
# weight, 2 for its gradient and 12 for the optimizer: an fp32 copy and two
# moments. With N ranks, for each parameter:
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
# On top come the activations and logits of a micro-batch, which no strategy
# divides. A worked case, GPT-2 XL under `zero2` on 4 cards of 24 GiB:

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
# ●●○ *10 minutes.* Write it for every strategy of the table. `parameters` is
# Ψ, `computing` the bytes of activations and logits, a card has `card_gib`
# GiB of 2³⁰ bytes. `single` runs on one card.


# %% tags=["exercise"]
def room_left(parameters, computing, strategy, ranks, card_gib):
    """GiB that stay free on each card; below 0: that are lacking."""
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
    "GiB left on each of 4 cards (single: 1), below 0 lacking; computed",
)

# %%
fitting = [n for n, *_ in GPT2 if left[n, "ddp", "RTX 4090"] >= 0]
print("ddp on four cards of 24 GiB:", *fitting)
learn.measured("how_many_fit", len(fitting), source="computed")

# %% [markdown]
# A second look at the last rows: from `ddp` to `offload` only states go away.
# What is left of GPT-2 XL under `offload` is 2.9 GiB of weights and 11.7 GiB
# of computing, so there a smaller micro-batch, or recomputing activations
# (lesson 05), gains more than a further strategy.
#
# "ZeRO-2 saves 8×" is a limit: 16/(2 + 14/N) nears 8 for many ranks.

# %%
print({n: round(16 / (2 + 14 / n), 1) for n in (1, 2, 4, 8, 64)})

# %%
learn.what_if("which_fits")

# %% [markdown]
# Leave a tenth of the card free: CUDA, its libraries and fragmentation are in
# no formula. `dtlib sim memory --model gpt2-xl --strategy zero2 --ranks 4
# --micro-batch 4 --precision bf16 --device rtx4090` says the same with
# buckets in it, and what would fit if this does not.
#
# And measured? At full size the table below is yours. Here:

# %%
from dtlib.learn.source import find
from dtlib.sim import fitting
from dtlib.sim.estimate import Setup

COUNTS = ["micro_batch", "accumulation", "precision"]


def peaks(row):
    """GiB at the peak of a run on a GPU: foretold, measured."""
    place = (row["model"], row["strategy"], row["world_size"])
    counts = [row[key] for key in COUNTS]
    setup = Setup(*place, *counts, vocab_size=entries if full else 50_304)
    return fitting.peak(setup) / 2**30, row["memory_peak_bytes"] / 2**30


kept = find("28").room / "records" / "28_gpt2.json"
if full or kept.exists():
    on_gpu = done if full else learn.recorded("28_gpt2")["rows"]
    lines = [[row["model"], row["strategy"], *peaks(row)] for row in on_gpu]
    heads = ["model", "strategy", "foretold, GiB", "measured, GiB"]
    print(learn.table(lines, heads, "The most that a card held"))
else:
    print("No GPU results are recorded yet. Published ones follow.")

# %% [markdown]
# | run | model | cards | tokens a step | s a step | tokens/s |
# | --- | --- | --- | --- | --- | --- |
# | nanoGPT, data parallel | 124M | 8 × A100-40 | 491,520 | 0.58 | 850,000 |
# | llm.c, ZeRO-1 | 124M | 8 × A100-80 | 524,288 | 0.300 | 1,750,000 |
# | llm.c, ZeRO-1 | 350M | 8 × A100-80 | 524,288 | 0.820 | 639,000 |
# | llm.c, ZeRO-1 | 774M | 8 × A100-80 | 524,288 | 1.7 | 308,000 |
# | llm.c, ZeRO-1 | 1558M | 8 × H100 | 1,048,576 | 2.80 | 374,000 |
#
# Published by others, with 1,024 tokens a window, in bf16; tokens/s follow
# from the two columns before (https://github.com/karpathy/llm.c,
# `scripts/run_gpt2_*.sh`; https://github.com/karpathy/nanoGPT: the 600,000
# steps of `config/train_gpt2.py` in "about 4 days").
#
# ## A table done right
#
# Now the question of the beginning. A row is a run: its settings and its
# results. Two rows tell what **one** setting does if they differ in that one
# alone. What differs beside it is a **confounder**, and what a row does not
# tell may be one. So a table of runs has these columns, or its caption says
# what is equal in all rows:

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
    """A row with all settings and results; None where nothing is told."""
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
    "Your table: settings, and what a strategy brings with it",
)

# %% [markdown]
# The last three columns belong to the strategy, and a caption must say so:
# `recipe` (under `autocast` weights stay in fp32, under FSDP's `policy` and
# DeepSpeed's `mixed` each rank computes with copies in 16 bits), whether AdamW
# is one *fused* kernel, and whether the exchange *overlaps* with backward.

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
    "Your table: results. Tokens/s of all ranks, bytes of rank 0; the MFU is"
    " the share of a GPU's peak (lesson 01), and a CPU has none here",
)

# %% [markdown]
# ## Exercise 2: fair pairs
#
# ●●○ *12 minutes.* Return the pairs of places `(i, j)`, i < j, of rows that
# differ in the setting `factor` and agree in all other `SETTINGS`. `None`
# means that a row does not tell: such a row is in no pair. Results do not
# count.
#
# A worked case: rows 0 and 1 are `ddp` and `zero2`, all else alike, row 2 is
# `zero2` in another precision. For `"strategy"`: `[(0, 1)]`.


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
# The tutorial's five rows, with what its repository tells beside the table:
# its script trains the first row in fp32 with torch's AdamW, the JSON files of
# the others say fp16 and leave Adam to DeepSpeed, and `max_length` is 512. For
# the large model the table says a batch of 2, and the text below it one of 4
# in every JSON file: so its batch is not told. (The learning rates differ as
# well, 5·10⁻⁵ after a warm-up and 10⁻⁴ without: not even the losses of the
# first two rows belong together.)

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
# One pair of ten: stage 1 and stage 2, which on one card divide by 1, with
# 52.10 and 52.56 s. "ZeRO-2: 2.4 times as fast, 23 % less memory" compares
# row 0 with row 2: precision and Adam changed as well, and on one card
# nothing is sharded (lesson 17 takes that number apart). `offload` brings its
# Adam on the CPU: that belongs to the strategy, and a caption must say so.
#
# The table also does not name its card; and the repository's README has
# 28 GB and 90 samples/s for four A100, its `CLUSTER_QUICKSTART.md` the same
# for four V100. **A number without a run behind it has no device and no
# commit**: that is what those two columns are for. Now your own table:

# %%
for i, j in fair(mine, "strategy"):
    a, b = mine[i], mine[j]
    if a["strategy"] == "ddp" and a["throughput"] and b["throughput"]:
        ratio = b["throughput"] / a["throughput"]
        print(f"{b['strategy']} beside ddp: {ratio:.2f} of the tokens/s")
alone = [mine[i]["strategy"] for p in fair(mine, "world_size") for i in p]
print("pairs in world_size alone:", alone or "none")

# %% [markdown]
# `single` is in no pair: it differs from the others in strategy *and* ranks.
# To compare its loss is fair all the same, since the loss depends on neither;
# to compare its tokens/s is not. And in a rehearsal tokens/s are those of
# processes that share this machine's cores: they say nothing about GPUs.
#
# ## Your own data
#
# A folder of `.txt` files is enough, for every strategy:
# `dtlib train text --data my_texts --strategy zero2`. Here are the words of
# this course's own lessons; put yours beside them. With `-p data=my_texts`
# the whole lesson trains on that folder.

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
print(f"{figures['valid_perplexity']:.0f} is the perplexity, measured so:")
print(figures["protocol"])
learn.my_run("perplexity on my own text", figures["valid_perplexity"], "")

# %% [markdown]
# Two lines, since a perplexity without its protocol is half a number: that of
# the published GPT-2 on WikiText-2 is 29 with windows of 1,024 tokens and 43
# with 256 (https://github.com/huggingface/transformers/issues/483).
#
# ## When it breaks
#
# Six things that stop first runs on a cluster. Each is a sentence here:
#
# | what is wrong | where you read it | what helps |
# | --- | --- | --- |
# | cuDNN is missing, or another one is found | `dtlib doctor` | out of `LD_LIBRARY_PATH` with it; install torch again |
# | DeepSpeed is missing | `dtlib doctor`, `dtlib train` | `pip install -e '.[deepspeed]'` |
# | out of memory | the rank's sentence | what it lists: it is computed for your run |
# | wrong launcher | `dtlib train` | `torchrun`, `deepspeed` or none, with one number of ranks |
# | batch identity | `dtlib train` | give two of three numbers |
# | no internet | `dtlib doctor`, `dtlib fetch` | `dtlib fetch NAME --from FILE`, `HF_HUB_OFFLINE=1` |

# %%
from dtlib.cluster import doctor
from dtlib.cluster.doctor.probes_training import TRAINING

for finding in doctor.examine(probes=TRAINING):
    print(f"{finding.name}: {finding.found}")

# %% [markdown]
# Two of them, called by mistake on purpose, and one that needs a GPU: torch's
# text for a full card, made up here, and what dtlib makes of it.

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
# It says how much was lacking, what holds the rest, what this run needs, and
# which changes would fit without changing what is learnt: fewer samples at
# once and more accumulation, or another strategy.
#
# ## Exercise 3: the diagnosis
#
# ●●○ *12 minutes, stretch.* Outputs of broken runs come as text. Return the
# cause, one of `CAUSES`, or `None` where nothing is broken. Judge by what an
# error *says*: on several ranks one fails and the others wait for it, and
# a missing package can mean a wrong start: DeepSpeed asks for `mpi4py` when
# no launcher has told it who it is.
#
# A worked case: an output that ends in `ModuleNotFoundError: No module
# named 'deepspeed'` has the cause `"deepspeed"`.

# %% tags=["exercise", "stretch"]
CAUSES = ["cudnn", "deepspeed", "memory", "launcher", "batch", "internet"]


def diagnose(log):
    """The cause of a broken output, or None."""
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
# ●●○ *10 minutes, stretch.* The tutorial's script fills every line of
# WikiText-2 up to 512 positions and hands the filling over as labels, too
# (`real_model_example.py`: `padding="max_length"`, `labels=input_ids`). So
# filling counts, in its samples a second and in its loss: 0.31 would be a
# perplexity of 1.4, and the small GPT-2, fine-tuned, reaches about 20
# (https://github.com/huggingface/transformers, the README of `run_clm`).
#
# Count what counts. `steps` are pairs of seconds and the labels of all ranks'
# windows; -100 is filling, which the loss leaves out. The first `warmup`
# steps are not timed. Return the median of the steps' rates, for all ranks
# and for one of them.
#
# A worked case: 2 seconds, two windows of 8 with 3 and 5 labels, 2 ranks:
# 8 tokens in 2 s, so `(4.0, 2.0)`.

# %% tags=["exercise", "stretch"]
import statistics


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
    seconds = 0.01 * len(windows)  # say that a window takes 10 ms
    total, _ = rate([(seconds, windows)], 1, 0)
    print(f"{name}: {len(windows)} windows, {total:,.0f} tokens/s")

# %% [markdown]
# The same text, the same 10 ms a window: **packed windows**, one text behind
# the other and cut, have no filling. The course's text is always packed.
#
# ## Quiz

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## Take-away
#
# - The first loss is near ln V, or weights have come from somewhere.
# - Strategies agree in the loss. They differ in bytes, and the formulas say
#   by how much before you ask for a card.
# - 2 + 2 + 12 bytes a parameter, divided by stage; activations by nothing.
# - Two rows tell what one setting does if all others are told and equal.
# - A sentence with numbers beats a search: how much was lacking, what fits.

# %%
if record and full:
    print(learn.keep_record("28_gpt2", {"rows": done}, ("deepspeed",)).name)
learn.take_away()
