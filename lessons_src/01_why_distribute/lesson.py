# %% [raw]
# ---
# number: "01"
# title: Why distribute
# does: >-
#   estimate days, memory and money of a training run, and say why one GPU is
#   not enough
# objectives:
#   - estimate days, GPU hours and money of a training run from five numbers
#   - say what a model needs in memory and how many GPUs hold it
#   - measure the share of the peak that a run reaches, here and in papers
# minutes: {read: 25, exercises: 37}
# needs: [laptop]
# builds_on: ["00", "07"]
# ---

# %% [markdown]
# Llama 2 7B has 7 billion parameters and read 2 trillion tokens, which are
# pieces of words. You have one GPU with 80 GB, and you want such a model.
# **When is it done, does it fit, and what does it cost?**
#
# An envelope and a pencil are enough. You check each rule on this machine
# before you trust it, and compare what comes out with what was published.
# Exercises 1 to 3 are the core and fit an hour with the reading; 4 is
# *stretch*.

# %%
from dtlib import learn

learn.start("01")

# %% [markdown]
# The first three numbers describe the run of the question. `price` is **an
# assumption**, in the currency of your choice: put what an hour of one GPU
# costs you. The others belong to the small run on this machine, one rank to
# a core; with `device = "cuda"` it is one rank to a GPU, and a larger
# `model`, `matrix` and `sequences` keep it busy.

# %% tags=["parameters"]
model_size = 7e9
training_tokens = 2e12
gpu = "a100-80"
price = 2.0
device = "cpu"
model = "nano"
sequences = 8
steps = 12
matrix = 768

# %% [markdown]
# ## Your predictions
#
# Commit all three before you go on. You cannot know them yet: a rough guess
# is what is asked for. The A100 is a GPU with 80 GB. Its **peak**, the most
# that its data sheet promises, is 312 TFLOP/s in matrix products of 16-bit
# numbers: $312 \cdot 10^{12}$ floating point operations a second.

# %%
learn.predict("years")

# %%
learn.predict("fits")

# %%
learn.predict("share_here")

# %% [markdown]
# ## What 6 is made of
#
# A **FLOP** is one addition or one multiplication of floating point
# numbers. A matrix product needs both for each weight and each token: 2 in
# the forward pass. The backward pass makes *two* products of that size, one
# for the gradient of the weights and one for the gradient of the input.
#
# torch can count while it computes. Here is one layer of 300 × 200 weights
# and 7 tokens.

# %%
import torch
from torch.utils.flop_counter import FlopCounterMode

layer = torch.nn.Linear(300, 200, bias=False)
x = torch.randn(7, 300, requires_grad=True)
with FlopCounterMode(display=False) as counter:
    y = layer(x)
    forward = counter.get_total_flops()
    y.sum().backward()
both = counter.get_total_flops()
pairs = layer.weight.numel() * len(x)  # a weight and a token
print(f"forward {forward / pairs:g}, backward {(both - forward) / pairs:g}")
assert (forward / pairs, both / pairs) == (2, 6)

# %% [markdown]
# So training takes **6 FLOP for each parameter and token**
# ([Kaplan et al. 2020](https://arxiv.org/abs/2001.08361), section 2.1). With
# $\Psi$ parameters and $D$ tokens:
#
# $$\text{FLOP} \approx 6\,\Psi\,D$$
#
# The ≈ hides something. In a GPT, attention also multiplies tokens with
# tokens, which no weight takes part in; and embeddings are looked up, not
# multiplied (a GPT multiplies with them once, at the end, for the logits).
# On the `meta` device tensors have shapes and no numbers, so that torch
# counts a large model without running it.

# %%
from dtlib.models.gpt import GPT, shape
from dtlib.sim import flops


def count(config):
    """Parameters, and FLOP of a step on one sequence by torch's counter."""
    with torch.device("meta"):
        gpt = GPT(config)
        tokens = torch.zeros(1, config.context, dtype=torch.int64)
    with FlopCounterMode(display=False) as counter:
        gpt(tokens).sum().backward()
    return sum(p.numel() for p in gpt.parameters()), counter.get_total_flops()


# %% [markdown]
# `flops.gpt_step` is the same count as a formula, by its parts. The last row
# has the width, depth and context of Llama 2 7B in the form of a GPT.

# %%
llama = dict(width=4096, layers=32, heads=32, context=4096, vocab_size=32_000)
shapes = {"gpt2": shape("gpt2"), "gpt2-xl": shape("gpt2-xl")}
shapes["7B"] = shape("gpt2", **llama)
rows = []
for name, config in shapes.items():
    parameters, counted = count(config)
    s, size = config.context, (config.layers, config.width)
    exact, _ = flops.gpt_step(s, s, *size, config.vocab_size)
    assert counted == exact
    parts = flops.gpt_forward(s, s, *size, config.vocab_size)
    attention = 3 * parts["attention"] / counted
    rule = flops.kaplan(parameters, s) / counted
    assert abs(rule + attention - 1) < 0.01
    rows.append([name, parameters / 1e9, s, counted / 1e12, attention, rule])
learn.table(
    [[*row[:4], f"{row[4]:.0%}", f"{row[5]:.0%}"] for row in rows],
    ["model", "Ψ, 10⁹", "s", "TFLOP a sequence", "attention", "6Ψs / count"],
    "FLOP of forward and backward, counted by torch",
)

# %% [markdown]
# The formula is right to the last FLOP, and 6Ψ is short by what attention
# takes, here 9 to 14 %. (The count takes the whole square of attention,
# though the causal mask makes half of it superfluous.) For an envelope 6Ψ is
# good enough, and it needs no architecture.
#
# ## Worked case: days from a speed
#
# LLaMA 65B processed "around 380 tokens/sec/GPU on 2048 A100", and 1.4
# trillion tokens took "approximately 21 days"
# ([Touvron et al. 2023](https://arxiv.org/abs/2302.13971)). Does that fit?

# %%
seconds = 1.4e12 / (2048 * 380)
days = seconds / (24 * 60 * 60)
print(f"{days:.1f} days")
assert round(days) == 21

# %% [markdown]
# It does. But before a run nobody knows the tokens per second. What you know
# is the peak of the GPU, from its data sheet, and that a run reaches a
# part of it. That part, counted with the model's own FLOP, is the **MFU**
# (model FLOP utilisation), a number from 0 to 1.
#
# ## Exercise 1: days from a data sheet
#
# ●○○ *8 minutes.* How many days does the run take? Data sheets give TFLOP/s,
# which are $10^{12}$ FLOP a second. Write the missing lines; how many is up
# to you. Days may have a fraction.


# %% tags=["exercise"]
def training_days(parameters, tokens, gpus, teraflops, mfu):
    """Days of a training run.

    `teraflops` is the peak of one GPU in TFLOP/s, `mfu` is 0 to 1.
    """
    ### BEGIN SOLUTION
    flop = 6 * parameters * tokens
    flop_per_second = gpus * teraflops * 1e12 * mfu
    days = flop / flop_per_second / (24 * 60 * 60)
    ### END SOLUTION
    return days


# %% tags=["check"]
learn.check("training_days", training_days)

# %% [markdown]
# Now the question from the beginning: one GPU, at 40 % of its peak.

# %%
from dtlib.sim import hardware

days_of = learn.given("training_days")
peak = hardware.peak(gpu, "bf16") / 1e12  # TFLOP/s
alone = days_of(model_size, training_tokens, 1, peak, 0.4)
learn.measured("years", alone / 365.25, "years")

# %% [markdown]
# And the money. GPU hours do not depend on how many GPUs share them, as long
# as the MFU stays: a thousand GPUs cost the same and are done a thousand
# times earlier. Time is the first reason to distribute. Llama 2's
# [model card](https://github.com/meta-llama/llama/blob/main/MODEL_CARD.md)
# says 184,320 GPU hours for the 7B model.

# %%
rows = []
for gpus in (1, 8, 64, 1024):
    days = days_of(model_size, training_tokens, gpus, peak, 0.4)
    hours = days * 24 * gpus
    rows.append(
        [gpus, f"{days:,.1f}", f"{hours:,.0f}", f"{hours * price:,.0f}"]
    )
learn.table(
    rows,
    ["GPUs", "days", "GPU hours", "cost"],
    f"Estimated for MFU 0.4 and an assumed price of {price:g} an hour",
)

# %% [markdown]
# ## 16 bytes a parameter
#
# To train is to keep more than the weights. **Mixed precision** computes in
# 16 bits, and keeps in 32 bits (fp32) what must not be rounded away. Between
# two steps, with the optimizer Adam, it keeps for each parameter
# ([Rajbhandari et al. 2020](https://arxiv.org/abs/1910.02054), section 3.1):
#
# | what | bytes | why |
# | --- | --- | --- |
# | the weight in 16 bits | 2 | forward and backward compute with it |
# | its gradient in 16 bits | 2 | backward makes it, the optimizer reads it |
# | a copy of the weight in fp32 | 4 | small updates would be lost in 16 bits |
# | Adam's two moments in fp32 | 4 + 4 | running means of gradient and square |
#
# These are the **model states**. Training in fp32 alone keeps the weight and
# the gradient in 4 bytes each, and no copy. SGD with momentum keeps one
# moment, plain SGD none. A worked case, for Llama 2 7B:

# %%
states = (2 + 2 + 4 + 4 + 4) * model_size
memory = hardware.DEVICES[gpu]["memory"]  # bytes
print(f"states {states / 1e9:.0f} GB, {states / 2**30:.1f} GiB")
print(f"the GPU {memory / 1e9:.1f} GB, {memory / 2**30:.0f} GiB")

# %% [markdown]
# The same bytes in two units: 1 GB is $10^9$ bytes, 1 **GiB** is $2^{30}$,
# 7 % more. The A100 called "80 GB" has 80 GiB. This course says which one it
# means.

# %%
fits = "yes, states and room to spare"
if 2 * model_size > memory:
    fits = "no, not even the 16-bit weights fit"
elif states > memory:
    fits = "no, the states alone are larger"
elif states > 0.9 * memory:
    fits = "only just: the states fill it"
learn.measured("fits", fits)

# %% [markdown]
# Memory is the second reason. And this leaves out the activations, which
# lesson 05 measures.
#
# ## Exercise 2: who keeps what
#
# ●●○ *10 minutes.* Return the GB ($10^9$ bytes) of the states as a dict with
# the keys `parameters`, `gradients`, `fp32_copy` and `optimizer`. `precision`
# is `"mixed"` or `"fp32"`; `optimizer` is `"adamw"`, `"sgd"` (with momentum)
# or `"sgd-plain"`. What is not kept is 0.


# %% tags=["exercise"]
def states_gb(parameters, precision, optimizer):
    """GB of the model states by kind, a dict of four.

    `parameters` is how many the model has, 7e9 for instance.
    """
    ### BEGIN SOLUTION
    weight, gradient, copy = (2, 2, 4) if precision == "mixed" else (4, 4, 0)
    moments = {"adamw": 2, "sgd": 1, "sgd-plain": 0}[optimizer]
    each = {
        "parameters": weight,
        "gradients": gradient,
        "fp32_copy": copy,
        "optimizer": 4 * moments,
    }
    return {kind: size * parameters / 1e9 for kind, size in each.items()}
    ### END SOLUTION


# %% tags=["check"]
learn.check("states_gb", states_gb)

# %%
kept = learn.given("states_gb")
rows = []
for precision in ("mixed", "fp32"):
    for optimizer in ("adamw", "sgd", "sgd-plain"):
        held = kept(model_size, precision, optimizer)
        rows.append([precision, optimizer, *held.values(), sum(held.values())])
columns = ["precision", "optimizer", *held, "all"]
learn.table(
    rows, columns, f"GB of states, {model_size / 1e9:g} billion parameters"
)

# %% [markdown]
# Compare the totals: mixed precision does not make the *states* smaller.
# What it is good for instead, lessons 04 and 05 measure.
#
# ## What share of the peak?
#
# The days rest on the MFU, so it pays to measure it:
#
# $$\text{MFU} = \frac{6\,\Psi \cdot \text{tokens of a step, all ranks}}
#   {\text{seconds of the step} \cdot \text{peak of all GPUs}}$$
#
# Some runs save memory by computing the forward pass a second time during
# backward (lesson 05). The hardware then does 8Ψ a token, and only 6Ψ of
# them move the model on. MFU counts the 6; **HFU** counts what the hardware
# did.
#
# ## Exercise 3: MFU from a step
#
# ●●○ *7 minutes.* Return the MFU of one step, from 0 to 1. Every rank is one
# GPU and works on `tokens_per_rank` tokens. `recompute` says whether the
# forward pass ran twice, within the same `step_seconds`.


# %% tags=["exercise"]
def mfu(
    parameters, tokens_per_rank, ranks, step_seconds, teraflops, recompute
):
    """MFU of a step, 0 to 1; `teraflops` is the peak of one rank's GPU."""
    ### BEGIN SOLUTION
    flop = 6 * parameters * tokens_per_rank * ranks
    return flop / (step_seconds * ranks * teraflops * 1e12)
    ### END SOLUTION


# %% tags=["check"]
learn.check("mfu", mfu)

# %% [markdown]
# ## Measured here
#
# Your machine has no data sheet, so measure its peak: the best time of a
# large matrix product, in the precision of the training. Then time steps of
# a small GPT. Each rank is one core with one thread, and plays one GPU.
# The first two of each are not counted.

# %%
import statistics
import time

import torch.distributed as dist
from torch.nn import functional as F


def timed(work, repeats):
    """Seconds of each run of `work`, the first two left out."""
    found = []
    for _ in range(repeats + 2):
        dist.barrier()
        start = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        found.append(time.perf_counter() - start)
    return found[2:]


# %% [markdown]
# A step is forward, backward, an all-reduce of each gradient as in lesson
# 07, and the optimizer.


# %%
def measure(config):
    """This rank's peak in TFLOP/s, and the median seconds of a step."""
    a = torch.randn(matrix, matrix, device=device)
    best = min(timed(lambda: a @ a, 20))
    gpt = GPT(config).to(device)
    optimizer = torch.optim.AdamW(gpt.parameters())
    length, vocabulary = config.context, config.vocab_size
    text = torch.randint(vocabulary, (sequences, length + 1), device=device)

    def step():
        optimizer.zero_grad()
        logits = gpt(text[:, :-1]).flatten(0, 1)
        F.cross_entropy(logits, text[:, 1:].flatten()).backward()
        for parameter in gpt.parameters():
            dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)
        optimizer.step()

    return 2 * matrix**3 / best / 1e12, statistics.median(timed(step, steps))


# %%
import dtlib

share_of = learn.given("mfu")
config = shape(model, vocab_size=512)
parameters = sum(p.numel() for p in GPT(config).parameters())
tokens = sequences * config.context
here, rows = {}, []
for ranks in (1, 2) if device == "cpu" else (1,):
    seen = dtlib.launch(measure, config, ranks=ranks, device=device)
    own = statistics.mean(peak for peak, _ in seen)
    step = max(seconds for _, seconds in seen)
    here[ranks] = share_of(parameters, tokens, ranks, step, own, False)
    rate = tokens * ranks / step
    learn.my_run(f"training speed on {ranks} ranks", rate, "tokens/s")
    rows.append([ranks, own * 1e3, step * 1e3, rate, f"{here[ranks]:.1%}"])
learn.table(
    rows,
    ["ranks", "peak of a rank, GFLOP/s", "step, ms", "tokens/s", "MFU"],
    f"GPT {model} with {parameters:,} parameters, measured here",
)

# %%
learn.measured("share_here", 100 * here[1], "%")

# %% [markdown]
# The rest of the time goes into what 6Ψ does not count: norms, softmax, the
# optimizer, copies, the start of many small operations, and attention. With
# two ranks there is also the all-reduce. Tokens a second say whether two are
# faster than one; the MFU says how much of both was used.
#
# ## Published runs
#
# The same sum for runs that somebody paid for. All are given, or follow
# from, tokens a second and device.
#
# | run | what was published | where |
# | --- | --- | --- |
# | LLaMA 13B | 10¹² tokens in 135,168 hours of A100 | [arXiv:2302.13971](https://arxiv.org/abs/2302.13971) |
# | LLaMA 65B | 380 tokens/s on each A100 | the same |
# | Llama 2 7B, 70B | 2·10¹² tokens in 184,320 and 1,720,320 hours of A100 | [model card](https://github.com/meta-llama/llama/blob/main/MODEL_CARD.md) |
# | BLOOM 176B | 2048 × 2048 tokens in 104.7 s on 384 A100, forward recomputed | [bigscience](https://github.com/bigscience-workshop/bigscience/tree/master/train/tr11-176B-ml) |
# | PaLM 540B | 238,300 tokens/s on 6144 TPU v4 of 275 TFLOP/s | [arXiv:2204.02311](https://arxiv.org/abs/2204.02311) |

# %%
A100, HOUR = 312, 3600
published = {
    "LLaMA 13B": (13.0e9, 1e12 / (135_168 * HOUR), A100),
    "LLaMA 65B": (65.2e9, 380, A100),
    "Llama 2 7B": (7e9, 2e12 / (184_320 * HOUR), A100),
    "Llama 2 70B": (70e9, 2e12 / (1_720_320 * HOUR), A100),
    "BLOOM 176B": (176e9, 2048 * 2048 / 104.7 / 384, A100),
    "PaLM 540B": (540.35e9, 238_300 / 6144, 275),
}
shares = {"this machine": here[1]}
for name, (size, rate, teraflops) in published.items():
    shares[name] = share_of(size, rate, 1, 1.0, teraflops, False)

# %%
import matplotlib.pyplot as plt

ordered = dict(sorted(shares.items(), key=lambda item: item[1]))
colours = ["C1" if name == "this machine" else "C0" for name in ordered]
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
percents = [100 * value for value in ordered.values()]
axes.barh(list(ordered), percents, color=colours)
axes.set(xlabel="MFU in percent, by the rule of 6Ψ", xlim=(0, 100))
plt.show()

# %%
rows = []
for name, share in ordered.items():
    size, rate, _ = published.get(name, (parameters, "", ""))
    rows.append([name, size / 1e9, rate, f"{share:.1%}"])
learn.table(
    rows,
    ["run", "Ψ, 10⁹", "tokens/s of one GPU or TPU", "MFU"],
    "The figure in numbers",
)

# %% [markdown]
# From a third to a half, for the best teams on the best hardware: that is
# where the 0.4 above comes from. PaLM reports 46.2 % with attention counted
# and 45.7 % without, and an HFU of 57.8 %. BLOOM's log says 149.8 TFLOP/s a
# GPU, which is 48 % of the peak: its forward ran twice, so 6/8 of that is
# the MFU.

# %%
assert abs(shares["PaLM 540B"] - 0.457) < 0.0005
assert abs(149.8 / 312 * 6 / 8 - shares["BLOOM 176B"]) < 0.01

# %% [markdown]
# ## Four ways to use four GPUs
#
# The 7B model needs many GPUs, for the time and for the memory. But what
# does each of them do? Here a model of four layers and a batch of four
# samples meet four GPUs. A grid is the model: a row is a layer. Beneath it
# is the batch.

# %%
from lesson import pictures as parallel_view

figure = parallel_view.draw()
plt.show()

# %%
learn.table(
    parallel_view.rows(model_size),
    parallel_view.COLUMNS,
    f"The picture as a table, for {model_size / 1e9:g} billion parameters",
)

# %% [markdown]
# - **Data parallel**: everybody has the whole model and other samples. It
#   saves time and no memory. Lessons 08 and 09 build it.
# - **Tensor parallel**: each layer is cut, and the GPUs finish it together,
#   so they talk in every layer. Lesson 11.
# - **Pipeline parallel**: each GPU has some layers. While GPU 3 works on
#   sample 0, GPU 0 can be at sample 3. Lesson 12.
# - **Sharded**: data parallel in which nobody keeps what others also keep.
#   Before a layer computes, its weights are gathered, and then dropped.
#   Lessons 16, 17 and 19.
#
# Large runs combine them. BLOOM used 4 × 12 × 8 = 384 GPUs: tensor, pipeline
# and data parallel.
#
# ## Exercise 4: the smallest world
#
# ●●● *12 minutes, stretch.* Sharding comes in stages. Of the 16 bytes a
# parameter, stage 1 divides 12 over the ranks (the optimizer's), stage 2
# also the 2 of the gradient, stage 3 all. Stage 0 divides none. Activations
# are needed on every GPU, and more ranks do not make them less. What is the
# smallest number of ranks on which it fits, to the last byte? Return `None`
# where no number is enough.


# %% tags=["exercise", "stretch"]
import math


def smallest_world(parameters, stage, memory_gb, activations_gb):
    """The fewest ranks that hold states and activations, or None.

    `memory_gb` is what one GPU has and `activations_gb` what activations
    take on each, both in GB of 10⁹ bytes.
    """
    divided = {0: 0, 1: 12, 2: 14, 3: 16}[stage]  # bytes a parameter
    ### BEGIN SOLUTION
    whole = (16 - divided) * parameters / 1e9
    room = memory_gb - activations_gb - whole
    if divided == 0:
        return 1 if room >= 0 else None
    if room <= 0:
        return None
    return max(1, math.ceil(divided * parameters / 1e9 / room))
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("smallest_world", smallest_world)

# %% tags=["stretch"]
fewest = learn.given("smallest_world")
rows = []
for size in (1e9, 7e9, 13e9, 70e9):
    worlds = [fewest(size, stage, memory / 1e9, 20) for stage in range(4)]
    rows.append(
        [f"{size / 1e9:g}B", *("never" if n is None else n for n in worlds)]
    )
learn.table(
    rows,
    ["model", *(f"stage {stage}" for stage in range(4))],
    f"Fewest GPUs of {memory / 1e9:.1f} GB, with 20 GB for activations",
)

# %% [markdown]
# ## What if?
#
# Your own envelope: model, data, GPUs, share of the peak, price. Which of
# the sliders changes the cost, and which only the days? (An estimate: it
# takes the MFU as given, and in truth it falls when GPUs are added.)

# %%
learn.what_if("envelope")

# %% [markdown]
# ## Quiz

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## The map
#
# Each lesson that follows takes one piece of this envelope and builds it.
# This is the course as it lies in your folder, in the order of the path.

# %%
from dtlib.learn import source


def place(lesson):
    n = lesson.number
    path = source.path_of()
    return path.index(n) if n in path else 100 + int(n)


rows = [
    [
        lesson.number,
        lesson.header["title"],
        lesson.header["objectives"][0],
        ", ".join(lesson.header["builds_on"]),
    ]
    for lesson in sorted(source.lessons(), key=place)
]
learn.table(
    rows, ["lesson", "title", "you can then", "builds on"], "The course"
)

# %% [markdown]
# ## Take-away
#
# - Training takes about 6 FLOP for each parameter and token: 2 forward, 4
#   backward. Attention comes on top.
# - Adam in mixed precision keeps 16 bytes a parameter, before activations.
# - Days = 6ΨD / (GPUs · peak · MFU). The published runs above reach an MFU
#   of 0.35 to 0.51.
# - One GPU is too slow for a 7B model, and too small: time and memory are
#   two reasons to distribute, and they ask for different ways to do it.

# %%
learn.take_away()
