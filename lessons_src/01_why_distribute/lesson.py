# %% [raw]
# ---
# number: "01"
# title: Why distribute
# does: >-
#   estimate days, memory and money of a training run, and say why one GPU is
#   not enough
# objectives:
#   - estimate days and GPU hours of a training run from five numbers, and its
#     cost from a sixth
#   - say what a model needs in memory and how many GPUs hold it
#   - compute the share of the peak that a run reaches, here and in papers
# minutes: {read: 30, exercises: 39}
# needs: [laptop]
# builds_on: ["00", "07"]
# ---

# %% [markdown]
# Llama 2 7B has 7 billion **parameters**, the numbers that training adjusts
# (most of them are called weights). It was trained on 2 trillion **tokens**,
# which are pieces of words. You have one GPU with 80 GB, and you want such a
# model. **When will it be done, does it fit, and what does it cost?**
#
# The back of an envelope is enough for all three answers. You check each rule
# on this machine before you trust it, and compare your results with published
# runs. Exercises 1 to 3 are the core and fit into an hour with the reading;
# exercise 4 is *stretch*.

# %%
from dtlib import learn

learn.start("01")

# %%
from lesson import pictures

pictures.draw_question()

# %% [markdown]
# The first three values describe the run in question. `price` is **an
# assumption**, in any currency: enter what an hour on one GPU costs you. The
# other values describe a small run on this machine, where each **rank** (a
# process that takes part in training) runs on one core. With
# `device = "cuda"` each rank has a GPU instead; a larger `model`, `matrix`
# and `sequences` then keep it busy.

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
# Commit to all three before you go on. Rough guesses are fine. The A100 is a
# GPU with 80 GB. Its **peak**, the most that its data sheet promises, is
# 312 TFLOP/s for matrix products of 16-bit numbers, that is,
# $312 \cdot 10^{12}$ floating-point operations per second.

# %%
learn.predict("years")

# %%
learn.predict("fits")

# %%
learn.predict("share_here")

# %% [markdown]
# ## Where the 6 comes from
#
# A **FLOP** is one addition or one multiplication of floating-point numbers.
# In the forward pass, a matrix product needs one of each for every weight and
# every token, which makes 2 FLOP. The backward pass computes *two* products
# of that size: one for the gradient of the weights, one for the gradient of
# the input.
#
# torch can count FLOP while it computes. Here is one layer with 300 × 200
# weights, and a batch of 7 tokens.

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
# So training takes **6 FLOP per parameter and token**
# ([Kaplan et al. 2020](https://arxiv.org/abs/2001.08361), section 2.1). With
# $\Psi$ parameters and $D$ tokens:
#
# $$\text{FLOP} \approx 6\,\Psi\,D$$
#
# The ≈ hides two things. First, in **attention** every token of a sequence is
# compared with every other one. That is a product of tokens with tokens, in
# which no weight takes part. Second, the first layer only looks up a row of
# numbers for each token (its **embedding**), which costs no FLOP. A GPT uses
# the same table again as its last layer, and there it does multiply, to
# compute the **logits**: one score for each word of its vocabulary.
#
# How much do these two matter? On the `meta` device a tensor has a shape but
# no numbers, so torch can count the FLOP of a large model without running it.

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
# `flops.gpt_step` is a formula for the same count. The last row is a GPT with
# the width, depth and sequence length $s$ of Llama 2 7B; its layers are of
# another kind, so its size is a little different.

# %%
llama = dict(width=4096, layers=32, heads=32, context=4096, vocab_size=32_000)
shapes = {"gpt2": shape("gpt2"), "gpt2-xl": shape("gpt2-xl")}
shapes["like Llama 2 7B"] = shape("gpt2", **llama)
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
    ["model", "Ψ, 10⁹", "s", "TFLOP per sequence", "attention", "6Ψs / count"],
    "FLOP of forward and backward, counted by torch",
)

# %% [markdown]
# `flops.gpt_step` agrees with torch exactly. The rule of 6Ψ is lower because
# it leaves out attention, which is 9 to 14 % of the FLOP here. (Torch counts
# all $s \times s$ pairs of tokens, although a token of a GPT may look only at
# itself and at earlier ones, about half of the pairs.) For the back of an
# envelope 6Ψ is good enough, because it needs nothing but Ψ.
#
# ## Which parameters count
#
# In a **mixture of experts** a layer has several alternative blocks of
# weights, the *experts*, and each token passes through only a few of them.
# Ψ in 6Ψ then means the **active** parameters: those that a token meets. Here
# 8 tokens are divided among 4 experts, one expert for each token.

# %%
experts = [torch.nn.Linear(300, 200, bias=False) for _ in range(4)]
x = torch.randn(8, 300, requires_grad=True)
with FlopCounterMode(display=False) as counter:
    for expert, tokens in zip(experts, x.split(2)):
        expert(tokens).sum().backward()
active, everything = 300 * 200, 4 * 300 * 200
per_token = counter.get_total_flops() / len(x)
print(f"{per_token / active:g} FLOP per active parameter and token,")
print(f"{per_token / everything:g} per parameter and token")
assert per_token == 6 * active

# %% [markdown]
# And how many tokens should a model see? For a fixed number of FLOP, a model
# makes the smallest error with about 20 tokens per parameter ([Hoffmann et al.
# 2022](https://arxiv.org/abs/2203.15556), whose model is called Chinchilla).
# Small Llama models get far more, Llama 2 7B almost 300. A larger model would
# have reached a lower loss (a smaller error) with the same FLOP, but the small
# one is cheaper to use afterwards.

# %%
trained = {  # active parameters, tokens
    "Chinchilla": (70e9, 1.4e12),
    "Llama 2 7B": (6.74e9, 2e12),
    "Llama 3.1 405B": (405.85e9, 15.6e12),
    "DeepSeek-V3, 671·10⁹ in all": (37e9, 14.8e12),
}
learn.table(
    [
        [name, size / 1e9, f"{6 * size * d:.1e}", f"{d / size:,.0f}"]
        for name, (size, d) in trained.items()
    ],
    ["model", "active Ψ, 10⁹", "FLOP by 6ΨD", "tokens per parameter"],
    "Compute and data of four published models",
)

# %% [markdown]
# ## Worked example: days from a speed
#
# LLaMA 65B processed "around 380 tokens/sec/GPU on 2048 A100", and 1.4
# trillion tokens took "approximately 21 days"
# ([Touvron et al. 2023](https://arxiv.org/abs/2302.13971)). Do the two agree?

# %%
seconds = 1.4e12 / (2048 * 380)
days = seconds / (24 * 60 * 60)
print(f"{days:.1f} days")
assert round(days) == 21

# %% [markdown]
# They do. But before a run, nobody knows its tokens per second. You know the
# peak of the GPU from its data sheet, and you know that a run reaches only a
# part of that peak. This part is the **MFU** (model FLOP utilization), a
# number from 0 to 1. It counts only the FLOP that the model needs, 6ΨD; later
# you see that hardware sometimes computes more.
#
# ## Exercise 1: days from a data sheet
#
# ●○○ *8 minutes.* How many days does the run take? Data sheets give TFLOP/s,
# which are $10^{12}$ FLOP per second. Write the missing lines, as many as you
# like. The result may be a fraction.


# %% tags=["exercise"]
def training_days(parameters, tokens, gpus, teraflops, mfu):
    """Days of a training run.

    `teraflops` is the peak of one GPU in TFLOP/s; `mfu` is from 0 to 1.
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
# Now the money. As long as the MFU stays the same, the number of GPUs does
# not change the GPU hours: a thousand GPUs cost as much as one and finish a
# thousand times sooner. **Time is the first reason to distribute.** Llama 2's
# [model card](https://github.com/meta-llama/llama/blob/main/MODEL_CARD.md)
# reports 184,320 GPU hours for the 7B model.

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
    f"Estimated for an MFU of 0.4, at an assumed {price:g} per GPU hour",
)

# %% [markdown]
# ## 16 bytes per parameter
#
# Training has to store more than the weights. In **mixed precision** the
# forward and backward passes compute with 16-bit numbers, and 32-bit numbers
# (fp32) hold whatever must not be rounded away. The **optimizer** is the part
# that changes the weights by means of the gradients. Plain SGD uses only the
# newest gradient, SGD with momentum also keeps a running mean of past ones,
# and Adam, which most such runs use, keeps a second one of their squares.
# While Adam updates the weights, memory holds for each parameter ([Rajbhandari
# et al. 2020](https://arxiv.org/abs/1910.02054), section 3.1):
#
# | what | bytes | why |
# | --- | --- | --- |
# | the weight in 16 bits | 2 | forward and backward compute with it |
# | its gradient in 16 bits | 2 | backward makes it, the optimizer reads it |
# | a copy of the weight in fp32 | 4 | 16 bits would lose small updates |
# | Adam's two moments in fp32 | 4 + 4 | running means of the gradient and of its square |
#
# These are the **model states**. The gradient is there from the backward pass
# until `optimizer.zero_grad()`, which by default frees it; everything else
# stays from step to step. Training in fp32 alone stores the weight and the
# gradient in 4 bytes each and needs no copy. SGD with momentum stores one
# moment, plain SGD none. Worked example, for 7 billion parameters:

# %%
states = (2 + 2 + 4 + 4 + 4) * model_size
memory = hardware.DEVICES[gpu]["memory"]  # bytes
print(f"states {states / 1e9:.0f} GB, {states / 2**30:.1f} GiB")
print(f"the GPU {memory / 1e9:.1f} GB, {memory / 2**30:.0f} GiB")

# %% [markdown]
# The same bytes, in two units: 1 GB is $10^9$ bytes, and 1 **GiB** is $2^{30}$
# bytes, 7 % more. The A100 that is sold as "80 GB" has 80 GiB, which are 85.9
# GB. Up to here, "80 GB" was the name on the box; from here on, GB and GiB
# mean what you just read.

# %%
fits = "yes, states and room to spare"
if 2 * model_size > memory:
    fits = "no, not even the 16-bit weights fit"
elif states > memory:
    fits = "no, the states alone are larger"
elif states > 0.9 * memory:
    fits = "only just: the states fill it"
learn.measured("fits", fits)

# %%
pictures.draw_states(memory)

# %% [markdown]
# **Memory is the second reason to distribute.** And this does not include the
# **activations**, the intermediate results that forward stores for backward;
# lesson 05 measures those.
#
# Torch's own mixed precision, `torch.autocast`, divides the same 16 bytes
# differently. Weights and gradients stay in fp32, and autocast makes a
# temporary 16-bit copy of each weight for the matrix products. To see that
# copy, the next cell gives torch a **hook**, a function that torch calls at an
# agreed moment: here for each tensor that forward stores.

# %%
layer = torch.nn.Linear(1024, 1024, bias=False)
optimizer = torch.optim.AdamW(layer.parameters())
saved = []  # whatever forward stores for backward


def note(tensor):
    saved.append(tensor)
    return tensor


x = torch.randn(8, 1024, requires_grad=True)
hooks = torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor)
with hooks, torch.autocast("cpu", torch.bfloat16):
    loss = layer(x).sum()
loss.backward()
optimizer.step()
moments = optimizer.state[layer.weight]
held = {
    "weight": layer.weight,
    "gradient": layer.weight.grad,
    "first moment": moments["exp_avg"],
    "second moment": moments["exp_avg_sq"],
    "temporary copy": next(
        tensor for tensor in saved if tensor.numel() == layer.weight.numel()
    ),
}
learn.table(
    [[name, str(kept.dtype), kept.itemsize] for name, kept in held.items()],
    ["what", "type", "bytes per parameter"],
    "One layer under torch.autocast",
)

# %% [markdown]
# So autocast stores 4 bytes of weight, 4 of gradient and 8 of moments, while
# the paper stores 2, 2 and 12 (copy and moments). With autocast, the 2 bytes
# of the temporary copy come on top until the backward pass has used it. From
# here on, *mixed* means the paper's version.
#
# ## Exercise 2: who stores what
#
# ●●○ *10 minutes.* Return the GB ($10^9$ bytes) of the model states as a dict
# with the keys `parameters`, `gradients`, `fp32_copy` and `optimizer`.
# `precision` is `"mixed"` or `"fp32"`; `optimizer` is `"adamw"`, `"sgd"`
# (with momentum) or `"sgd-plain"`. An entry that is not stored is 0.


# %% tags=["exercise"]
def states_gb(parameters, precision, optimizer):
    """GB of the model states: a dict with four kinds.

    `parameters` is the number of parameters, for instance 7e9.
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
# Lessons 04 and 05 measure what it is good for.
#
# ## What share of the peak?
#
# The days depend on the MFU, so it is worth measuring:
#
# $$\text{MFU} = \frac{6\,\Psi \cdot \text{tokens of a step, all ranks}}
#   {\text{seconds of the step} \cdot \text{peak of all GPUs}}$$
#
# Some runs save memory by computing the forward pass, or a part of it, a
# second time during backward (lesson 05). That is more work for the hardware
# and no progress for the model. So there are two shares: the MFU counts the
# 6Ψ that the model needs, and the **HFU** (hardware FLOP utilization) counts
# what the hardware really computed. Worked example: PaLM, with 540.35 billion
# parameters, trained on 6144 TPU v4 of 275 TFLOP/s at 238,300 tokens/s
# ([Chowdhery et al. 2022](https://arxiv.org/abs/2204.02311)).

# %%
achieved = 6 * 540.35e9 * 238_300  # FLOP per second, all TPUs
print(f"MFU {achieved / (6144 * 275e12):.1%}")

# %% [markdown]
# ## Exercise 3: MFU and HFU of a step
#
# ●●○ *9 minutes.* Return both shares of one step, each from 0 to 1. Every
# rank has one GPU and works on `tokens_per_rank` tokens. `recompute` is the
# part of the forward pass that ran twice within these `step_seconds`: 0 for
# none of it, 1 for all of it.


# %% tags=["exercise"]
def mfu(
    parameters, tokens_per_rank, ranks, step_seconds, teraflops, recompute
):
    """MFU and HFU of a step; `teraflops` is the peak of one GPU."""
    ### BEGIN SOLUTION
    work = parameters * tokens_per_rank * ranks / step_seconds
    share = work / (ranks * teraflops * 1e12)
    return 6 * share, (6 + 2 * recompute) * share
    ### END SOLUTION


# %% tags=["check"]
learn.check("mfu", mfu)

# %% [markdown]
# ## Measured here
#
# You have no data sheet for one core of your machine, so you measure its peak:
# the best time of a large matrix product, in the precision of the training.
# Then you time the steps of a small GPT. Each rank plays one GPU: it runs on
# one core, with one thread. Product and step each run twice before the clock
# counts.

# %%
import statistics
import time

import torch.distributed as dist
from torch.nn import functional as F


def timed(work, repeats):
    """Seconds of each run of `work`, without the two of the warm-up."""
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
# A step consists of the forward pass, the backward pass, an all-reduce of each
# gradient and the update. Lesson 07's all-reduce gave every rank the sum; with
# `ReduceOp.AVG` it gives every rank the mean.


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
    here[ranks], _ = share_of(parameters, tokens, ranks, step, own, 0)
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
# The rest of the time goes into work that 6Ψ does not count: norms, softmax,
# the optimizer, copies, the start of many small operations, and attention.
# With two ranks, the all-reduce comes on top. The tokens per second say
# whether two ranks are faster than one; the MFU says how much of both was
# used.
#
# ## Published runs
#
# Now the same calculation for large runs. Each publication gives the tokens
# per second and device, or numbers from which they follow.
#
# | run | what was published | where |
# | --- | --- | --- |
# | LLaMA 13B | 10¹² tokens in 135,168 A100 hours | [arXiv:2302.13971](https://arxiv.org/abs/2302.13971) |
# | LLaMA 65B | 380 tokens/s on each A100 | the same |
# | Llama 2 7B, 70B | 2·10¹² tokens in 184,320 and 1,720,320 A100 hours | [model card](https://github.com/meta-llama/llama/blob/main/MODEL_CARD.md) |
# | Llama 3.1 405B | 15.6·10¹² tokens in 30.84·10⁶ H100 hours | [model card](https://github.com/meta-llama/llama-models/blob/main/models/llama3_1/MODEL_CARD.md), [arXiv:2407.21783](https://arxiv.org/abs/2407.21783) |
# | DeepSeek-V3 | 14.8·10¹² tokens in 2.664·10⁶ H800 hours | [arXiv:2412.19437](https://arxiv.org/abs/2412.19437) |
# | BLOOM 176B | 2048 × 2048 tokens in 104.7 s on 384 A100, the whole forward pass recomputed | [bigscience](https://github.com/bigscience-workshop/bigscience/tree/master/train/tr11-176B-ml) |
# | PaLM 540B | 238,300 tokens/s on 6144 TPU v4 of 275 TFLOP/s | [arXiv:2204.02311](https://arxiv.org/abs/2204.02311) |
#
# A model's name rounds its size: Llama 2 "7B" has 6.74 billion parameters, and
# 4 % in Ψ are 4 % in the MFU. The published shapes give the exact numbers.
# A Llama layer has four attention matrices (keys and values may be narrower),
# an MLP of three matrices, and two norms.


# %%
def llama_size(layers, width, mlp, keys, words):
    """Parameters of a Llama; `mlp` and `keys` are widths inside a layer."""
    layer = 2 * width * (width + keys) + 3 * width * mlp + 2 * width
    return layers * layer + 2 * words * width + width


sizes = {
    "LLaMA 13B": llama_size(40, 5120, 13_824, 5120, 32_000),
    "LLaMA 65B": llama_size(80, 8192, 22_016, 8192, 32_000),
    "Llama 2 7B": llama_size(32, 4096, 11_008, 4096, 32_000),
    "Llama 2 70B": llama_size(80, 8192, 28_672, 1024, 32_000),
    "Llama 3.1 405B": llama_size(126, 16_384, 53_248, 1024, 128_256),
    "DeepSeek-V3": 37e9,  # active; 671e9 in all
    "BLOOM 176B": 176.25e9,
    "PaLM 540B": 540.35e9,
}
assert sizes["Llama 2 7B"] == 6_738_415_616

# %%
A100, H100, HOUR = 312, 989, 3600
speeds = {  # tokens/s of one GPU or TPU, and its peak
    "LLaMA 13B": (1e12 / (135_168 * HOUR), A100),
    "LLaMA 65B": (380, A100),
    "Llama 2 7B": (2e12 / (184_320 * HOUR), A100),
    "Llama 2 70B": (2e12 / (1_720_320 * HOUR), A100),
    "Llama 3.1 405B": (15.6e12 / (30.84e6 * HOUR), H100),
    "DeepSeek-V3": (14.8e12 / (2.664e6 * HOUR), H100),  # H800: the same peak
    "BLOOM 176B": (2048 * 2048 / 104.7 / 384, A100),
    "PaLM 540B": (238_300 / 6144, 275),
}
shares = {"this machine": here[1]}
for name, (rate, teraflops) in speeds.items():
    shares[name], _ = share_of(sizes[name], rate, 1, 1.0, teraflops, 0)

# %%
import matplotlib.pyplot as plt

ordered = dict(sorted(shares.items(), key=lambda item: item[1]))
colours = ["C1" if name == "this machine" else "C0" for name in ordered]
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
percents = [100 * value for value in ordered.values()]
axes.barh(list(ordered), percents, color=colours)
axes.set(xlabel="MFU in percent, by the rule of 6Ψ", xlim=(0, 100))
axes.set_title("Large runs use a third to a half of the peak")
plt.show()

# %%
rows = []
for name, share in ordered.items():
    size = sizes.get(name, parameters) / 1e9
    rate = f"{speeds[name][0]:,.0f}" if name in speeds else ""
    rows.append([name, f"{size:.4g}", rate, f"{share:.1%}"])
learn.table(
    rows,
    ["run", "active Ψ, 10⁹", "tokens/s of one GPU or TPU", "MFU"],
    "The figure in numbers",
)

# %% [markdown]
# The best teams reach a third to a half on the best hardware; that is where
# the 0.4 above comes from. PaLM reports 46.2 % with attention counted and 45.7
# % without, and an HFU of 57.8 %. BLOOM's log says 149.8 TFLOP/s per GPU,
# which is 48 % of the peak: its forward pass ran twice, so it computed 2 + 2 +
# 4 = 8 FLOP where the model needs 6, and 6/8 of that is the MFU. The hours of
# Llama 3.1 and DeepSeek-V3 also contain restarts and pauses. DeepSeek-V3
# computed much of its work in 8 bits, where the peak is twice as high, so its
# share of *that* peak is lower than the bar says. And with all of its 671
# billion parameters in place of the active 37 billion, its MFU would come out
# above 600 %, and no share can be above 100 %.

# %%
assert abs(shares["PaLM 540B"] - 0.457) < 0.0005
assert abs(149.8 / 312 * 6 / 8 - shares["BLOOM 176B"]) < 0.01
assert round(shares["Llama 2 7B"], 3) == 0.391
assert shares["DeepSeek-V3"] * 671 / 37 > 6

# %% [markdown]
# ## Four ways to use four GPUs
#
# The 7B model needs many GPUs, both for the time and for the memory. What does
# each of them do? The picture shows four ways to train a model of four layers,
# with a batch of four samples, on four GPUs. Each grid is the model on one
# GPU. A row is a layer, cut into four pieces (the columns), so the model has
# 16 pieces; the batch is beneath it.

# %%
figure = pictures.draw()
plt.show()

# %%
learn.table(
    pictures.rows(model_size),
    pictures.COLUMNS,
    f"The picture as a table, for {model_size / 1e9:g} billion parameters",
)

# %% [markdown]
# - **Data parallel**: every GPU has the whole model and its own samples. This
#   saves time, but no memory. You build it in lessons 08 and 09.
# - **Tensor parallel**: every layer is cut into parts, one for each GPU. The
#   GPUs compute a layer together, so they communicate in every layer.
# - **Pipeline parallel**: each GPU has some of the layers. While GPU 3 works
#   on sample 0, GPU 0 can already work on sample 3.
# - **Sharded**: data parallel without the duplicates. Each GPU stores its own
#   part of the model, its **shard**. Just before a layer computes, its weights
#   are gathered from all GPUs, and afterwards they are dropped. Lessons 16
#   and 17.
#
# Large runs combine them. BLOOM used 4 × 12 × 8 = 384 GPUs for tensor,
# pipeline and data parallel.
#
# ## Exercise 4: the smallest world
#
# Sharding comes in three stages. Of the 16 bytes per parameter, stage 1
# divides the 12 of the optimizer among the ranks (fp32 copy and moments),
# stage 2 also the 2 of the gradient, and stage 3 all 16. Stage 0 divides
# nothing. Every GPU needs its own activations, however many ranks there are.
#
# Worked example: $10^9$ parameters at stage 1, on GPUs with 10 GB of which
# activations take 2 GB. Weights and gradients, 2 + 2 GB, are whole on every
# rank. Of its 10 GB, 10 − 2 − 4 = 4 GB are left for a rank's part of the 12 GB
# that are divided. Three ranks are enough, and two are not:

# %% tags=["stretch"]
for n in (2, 3):
    print(f"{n} ranks: {2 + 4 + 12 / n:g} GB on each, and a GPU has 10 GB")

# %% [markdown]
# ●●● *12 minutes, stretch.* What is the smallest number of ranks on which
# everything fits? (A GPU that is full to the last byte is enough.) Return
# `None` if no number is enough.


# %% tags=["exercise", "stretch"]
import math


def smallest_world(parameters, stage, memory_gb, activations_gb):
    """The fewest ranks that hold states and activations, or None.

    `memory_gb` is the memory of one GPU, and `activations_gb` is the part
    of it that activations take; both are in GB (10⁹ bytes).
    """
    divided = {0: 0, 1: 12, 2: 14, 3: 16}[stage]  # bytes per parameter
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
    f"Fewest GPUs of {memory / 1e9:.1f} GB with 20 GB of activations each",
)

# %% [markdown]
# ## What if?
#
# Now your own run: model, data, GPUs, share of the peak, price. Which sliders
# change the cost, and which change only the days? (This is an estimate that
# takes the MFU as given. In a real run the MFU falls as you add GPUs.)

# %%
learn.what_if("envelope")

# %% [markdown]
# ## Quiz

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## The map
#
# These are all lessons of your copy of the course, in the order of its path.
# Those after this one explain and measure the numbers that you estimated here.

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
    rows, ["lesson", "title", "you learn to", "builds on"], "The course"
)

# %% [markdown]
# ## Take-away
#
# - Training takes about 6 FLOP per active parameter and token: 2 in forward, 4
#   in backward. Attention comes on top.
# - Adam in mixed precision stores 16 bytes per parameter, without activations.
# - Days = 6ΨD / (GPUs · peak · MFU). The published runs above reach an MFU
#   of 0.35 to 0.51.
# - For a 7B model, one GPU is too slow and too small. Time and memory are two
#   reasons to distribute, and each calls for different ways to do it.

# %%
learn.take_away()
