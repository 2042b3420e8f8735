# %% [raw]
# ---
# number: "17"
# title: ZeRO with DeepSpeed
# does: >-
#   run the real thing at every stage, and take a published speed-up apart
# objectives:
#   - start a script under DeepSpeed with a JSON whose fields agree
#   - say what a rank holds at each stage, and why ledger and paper differ
#   - take a published speed-up apart, one change at a time
# minutes: {read: 25, exercises: 44}
# needs: [laptop, deepspeed]
# builds_on: ["16", "09", "04"]
# ---

# %% [markdown]
# A tutorial trains GPT-2 medium, 355 million parameters, on **one** GPU
# (https://github.com/justin-aj/ml-sys/tree/main/distributed-training,
# `TRAINING_RESULTS.md`) and prints:
#
# | | seconds an epoch | peak, GB | the tutorial's words |
# | --- | --- | --- | --- |
# | data parallel | 125.67 | 13.62 | baseline |
# | ZeRO stage 1 | 52.10 | 9.64 | 2.4× faster |
# | ZeRO stage 2 | 52.56 | 10.55 | 2.4× faster, 23 % less memory |
#
# **ZeRO**, the Zero Redundancy Optimizer, divides what a rank holds by the
# number of ranks. **Here that number is 1. Where do the 2.4× and the 23 %
# come from?**
#
# You run the real DeepSpeed at all its stages, weigh what it holds, and then
# take this table apart. Exercises 1 to 3 are the core and take an hour with
# the reading; saving with exercise 4, and loss scales, are *stretch*.

# %%
from dtlib import learn

learn.start("17")

# %%
from lesson.pictures import draw_question

draw_question()

# %% [markdown]
# `device`, `width` and `timed` set up the timed comparison below: on a node
# with a GPU, use `device="cuda"`, `width=1024`, `timed=30`. With `record=True`
# the lesson ends by saving its results for readers without DeepSpeed.

# %% tags=["parameters"]
device = "cpu"
width = 256
timed = 4
record = False

# %%
here = learn.ready()
found = {} if here else learn.recorded("17_deepspeed")
source = "measured" if here else "recorded"

# %% [markdown]
# ## Your predictions
#
# Commit all three before you go on.

# %%
learn.predict("bytes_each")

# %%
learn.predict("largest_gain")

# %%
learn.predict("sharding_alone")

# %% [markdown]
# ## One script, four stages
#
# You give DeepSpeed the model and a configuration, and get back an **engine**.
# It owns the optimizer, the precision, the clipping and the gradients; your
# loop calls `engine(x)`, `engine.backward` and `engine.step`. The ranks talk
# through **gloo**, PyTorch's backend for CPUs; on GPUs it would be **NCCL**,
# NVIDIA's Collective Communications Library. Read the numbered places of this
# script:

# %%
# %%writefile train_zero.py
import argparse
import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn import functional as F

from dtlib.models.gpt import GPT, GPTConfig
from dtlib.strategies.operators import deepspeed as load_deepspeed

# 1. The launcher puts --local_rank before your own arguments.
parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int)
parser.add_argument("config", type=Path)
parser.add_argument("results", type=Path)
parser.add_argument("stages", type=int, nargs="+")
asked = parser.parse_args()
config = json.loads(asked.config.read_text())

# 2. `import deepspeed`, as the course does it: quiet, compiling nothing.
deepspeed = load_deepspeed("cpu")
deepspeed.init_distributed("gloo")
rank, n = dist.get_rank(), dist.get_world_size()


def train(stage):
    torch.manual_seed(0)
    model = GPT(GPTConfig(256, context=32, layers=2, heads=4, width=64))
    # 3. The stage is one number of the configuration.
    config["zero_optimization"]["stage"] = stage
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), config=config
    )
    rows, micro = engine.train_batch_size(), config[MICRO]
    generator, losses = torch.Generator().manual_seed(1), []
    for _ in range(6):
        x = torch.randint(256, (rows, 32), generator=generator)
        mean = torch.zeros(())
        mine = x.split(micro)[rank::n]
        for part in mine:
            logits = engine(part).flatten(0, 1)
            loss = F.cross_entropy(logits, (part.flatten() + 1) % 256)
            # 4. Both are called for every micro-batch: backward divides by
            # the accumulation, step moves the weights at the last one.
            engine.backward(loss)
            engine.step()
            mean += loss.detach() / len(mine) / n
        dist.all_reduce(mean)
        losses.append(mean.item())
    engine.destroy()
    return losses


MICRO = "train_micro_batch_size_per_gpu"
losses = {f"stage {stage}": train(stage) for stage in asked.stages}
if rank == 0:
    print("arguments:", *sys.argv[1:])
    for stage, values in losses.items():
        print(stage, *(f"{value:.6f}" for value in values))
    asked.results.write_text(json.dumps(losses))
dist.destroy_process_group()
# 5. DeepSpeed's objects keep threads of the group alive. About one run in a
# hundred is aborted by one (exit code -6) while Python shuts down, so skip it.
sys.stdout.flush()
os._exit(0)

# %% [markdown]
# The configuration is a JSON file:
#
# | field | what it says |
# | --- | --- |
# | `train_batch_size` | samples of one optimizer step, over all ranks |
# | `train_micro_batch_size_per_gpu` | samples that a rank computes at once |
# | `gradient_accumulation_steps` | micro-batches of a rank in a step |
# | `optimizer` | `torch_adam`: torch's AdamW, which no compiler has to build |
# | `gradient_clipping` | largest norm of the gradient over all ranks |
# | `zero_optimization` | `stage` 0 shards nothing, 1 the optimizer, 2 also gradients, 3 also weights |

# %%
import json
from pathlib import Path

config = {
    "train_batch_size": 16,
    "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": 2,
    "optimizer": {"type": "AdamW", "params": {"lr": 3e-3, "torch_adam": True}},
    "gradient_clipping": 1.0,
    "zero_optimization": {"stage": 0},
}
_ = Path("zero.json").write_text(json.dumps(config, indent=2))

# %% [markdown]
# DeepSpeed brings its own launcher. On a machine without GPUs `--num_gpus`
# counts processes. The port is a free one, for a second run on this machine.
# One thread a rank is also what torchrun sets, so both add in the same order.

# %%
import os
import socket

if here:
    os.environ["DS_ACCELERATOR"] = "cpu"
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["TORCHDYNAMO_DISABLE"] = "1"  # nothing here is compiled
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    start = f"deepspeed -q --num_gpus=2 --master_port={port}"
    stages = "train_zero.py zero.json losses.json 0 1 2 3"
    learn.shell(f"{start} {stages}", timeout=300)
    found["losses"] = json.loads(Path("losses.json").read_text())

# %% [markdown]
# Before your own arguments stands `--local_rank=0`: the launcher's own way to
# say what torchrun says with `LOCAL_RANK`. A script that does not know this
# argument stops with an error; that is place 1. Now torchrun, which some
# tutorials call wrong for DeepSpeed, and the same script:

# %%
if here:
    start = "torchrun --standalone --nproc-per-node=2"
    learn.shell(f"{start} train_zero.py zero.json again.json 2", timeout=120)
    found["torchrun"] = json.loads(Path("again.json").read_text())

# %%
losses, again = found["losses"], found["torchrun"]["stage 2"]
assert again == losses["stage 2"]
learn.table(
    [[stage, *values] for stage, values in losses.items()],
    ["", *(f"step {k}" for k in range(1, 7))],
    "Loss under DeepSpeed on two ranks",
)

# %% [markdown]
# Under torchrun not one digit differs: both launchers only start processes
# and tell each its rank.
#
# And the stages? They add the same gradients in another order. Near 5, fp32
# numbers are 4.8·10⁻⁷ apart, and each step passes its rounding on to the next.
# The bound below, 10⁻⁵, is twenty such distances; it was seen to hold here,
# not derived.

# %%
apart = {
    stage: max(abs(a - b) for a, b in zip(values, losses["stage 0"]))
    for stage, values in losses.items()
}
print({stage: f"{distance:.1e}" for stage, distance in apart.items()})
assert max(apart.values()) < 1e-5
assert losses["stage 1"] == losses["stage 2"]

# %% [markdown]
# **ZeRO changes where numbers are stored, not what the model learns.** Stages
# 1 and 2 even agree in every digit, because they add in the same order.
#
# ## What does a rank hold?
#
# The course's strategies `zero1`, `zero2` and `zero3` make such a JSON from
# a run's settings. Here two ranks train the course's small GPT under each,
# and the **ledger**, the course's list of all tensors that a rank holds,
# weighs the third step.

# %%
import contextlib
import io
from shutil import rmtree

import dtlib

STRATEGIES = ["ddp", "zero1", "zero2", "zero3"]
KINDS = ["parameters", "gradients", "optimizer", "fp32_copy", "padding"]


def weigh(strategies):
    """Parameters, and by strategy the bytes of rank 0 and the JSON."""
    settings = {"steps": 3, "global_batch": 4, "max_length": 16}
    settings |= {"num_samples": 20, "checkpoint_every": 0, "ledger": True}
    weighed = {}
    for name in strategies:
        with contextlib.redirect_stdout(io.StringIO()):
            out = f"weighed/{name}"
            run = dtlib.train("text", strategy=name, out=out, **settings)
        before = run.summary["ledger"][0]["before_update"]
        weighed[name] = {
            "bytes": {kind: before.get(kind, 0) for kind in KINDS},
            "json": run.config.get("framework", {}).get("deepspeed"),
        }
    return run.summary["parameters"], weighed


if here:
    rmtree("weighed", ignore_errors=True)
    several = [*STRATEGIES, "fsdp"]  # fsdp is for later
    found["held"] = dtlib.launch(weigh, several, ranks=2, device="cpu")[0]
psi, weighed = found["held"]

# %%
from lesson.pictures import draw_held

each = {
    name: {kind: weighed[name]["bytes"][kind] / psi for kind in KINDS}
    for name in STRATEGIES
}
paper = [16, 12, 10, 8]
draw_held(each, paper)

# %%
learn.measured("bytes_each", sum(each["zero2"].values()), source=source)
learn.table(
    [
        [name, *sizes.values(), sum(sizes.values()), rule]
        for (name, sizes), rule in zip(each.items(), paper)
    ],
    ["", *(kind.replace("_", " ") for kind in KINDS), "all", "rule"],
    f"Bytes a parameter on rank 0 of 2 before the step, fp32, Ψ = {psi:,}",
)

# %% [markdown]
# Lesson 16's rule, 4 + 4 + 8 bytes in fp32 with the stage's parts divided by
# 2, gives 16, 12, 10 and 8: the black marks. Each difference from the ledger
# has a name:
#
# - **fp32 copy**: DeepSpeed is built for 16-bit weights, whose optimizer
#   works on an fp32 copy, sharded like the optimizer's moments. It makes the
#   copy in fp32, too: with Ψ parameters on N ranks, 4Ψ/N bytes more.
# - Stage 1's gradients: backward makes all of them; when it ends,
#   DeepSpeed keeps this rank's share. The rule counts the moment before. So
#   stage 1 meets its mark by accident: 2 bytes less, and 2 more.
# - **Padding**: at stages 1 and 2 zeros make the flat copy's length a multiple
#   of 2N.
# - Stage 3 keeps its bucket, the buffer in which gradients travel together,
#   between the steps: Ψ/4 elements.
#
# ## Exercise 1: held under DeepSpeed
#
# ●○○ *8 minutes.* Write the rule with the copy in it: the bytes of each kind
# that one rank needs in a step at stages 1, 2 and 3, without padding and
# buckets. At stage 1 count all gradients. `sixteen_bit` says that weights and
# gradients take 2 bytes a number; moments and the copy always take 4. The line
# for the weights is there as a worked example.


# %% tags=["exercise"]
def held(parameters, ranks, stage, sixteen_bit):
    """{"weights", "gradients", "moments", "fp32_copy"}: bytes of a rank."""
    each = 2 if sixteen_bit else 4
    weights = each * parameters / (ranks if stage >= 3 else 1)
    ### BEGIN SOLUTION
    gradients = each * parameters / (ranks if stage >= 2 else 1)
    moments = 8 * parameters / ranks
    fp32_copy = 4 * parameters / ranks
    return {
        "weights": weights,
        "gradients": gradients,
        "moments": moments,
        "fp32_copy": fp32_copy,
    }
    ### END SOLUTION


# %% tags=["check"]
learn.check("held", held)

# %% [markdown]
# Your rule against the ledger: weights, moments and copy agree to the byte,
# and gradients differ by the names above.

# %%
rule = learn.given("held")
for stage in (1, 2, 3):
    expected = rule(psi, 2, stage, False)
    seen = weighed[f"zero{stage}"]["bytes"]
    assert seen["parameters"] == expected["weights"]
    assert seen["optimizer"] == expected["moments"]
    assert seen["fp32_copy"] == expected["fp32_copy"]
    off = (seen["gradients"] - expected["gradients"]) / psi
    print(f"stage {stage}: {off:+.2f} bytes of gradients a parameter")

# %% [markdown]
# And this is the `zero_optimization` that the course makes for `zero3`.
# DeepSpeed's own thresholds are meant for billions of parameters: it keeps
# every tensor below `stage3_param_persistence_threshold` whole, by default
# 100,000 elements (https://www.deepspeed.ai/docs/config-json/), and a
# `reduce_bucket_size` of 500 million is larger than this model. So the
# course scales them to the model.

# %%
print(json.dumps(weighed["zero3"]["json"]["zero_optimization"], indent=2))
small = weighed["zero3"]["json"]["zero_optimization"]
assert small["stage3_param_persistence_threshold"] < 100_000

# %% [markdown]
# ## When FSDP2, and when DeepSpeed?
#
# PyTorch has a stage 3 of its own: `fully_shard`, called **FSDP2**, the second
# version of Fully Sharded Data Parallel. In the launch above the same GPT also
# trained under the course's strategy `fsdp`, with the same ledger:

# %%
sizes = {name: weighed[name]["bytes"] for name in ("fsdp", "zero3")}
learn.table(
    [
        [name, *(page[kind] / psi for kind in KINDS), sum(page.values()) / psi]
        for name, page in sizes.items()
    ],
    ["", *(kind.replace("_", " ") for kind in KINDS), "all"],
    "Bytes a parameter on rank 0 of 2 before the step, fp32",
)

# %%
assert sizes["fsdp"]["fp32_copy"] == 0 < sizes["zero3"]["fp32_copy"]
assert abs(sum(sizes["fsdp"].values()) / psi - 16 / 2) < 0.01

# %% [markdown]
# FSDP2 holds what lesson 16's rule says, 16/2 = 8 bytes: it makes no fp32
# copy, because your optimizer works on the shards themselves. You choose their
# type, and a policy can cast them when they are gathered. More differences
# (https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html and
# https://www.deepspeed.ai/docs/config-json/):
#
# | | FSDP2 | DeepSpeed |
# | --- | --- | --- |
# | in your script | a call on each block; loop and optimizer stay yours | an engine that owns optimizer, precision, clipping and accumulation |
# | stages | 3; with `reshard_after_forward=False` weights stay whole from forward to backward | 0 to 3, by one number |
# | a shard | a part of each tensor along its first dimension, a `DTensor` | a part of a flat buffer |
# | offload | to the CPU's memory | to the CPU's memory, or to fast local disks (**NVMe**) |
#
# Take **FSDP2** for a model in plain PyTorch that needs stage 3, above all if
# you also want `torch.compile` or tensor parallelism, which work on the same
# `DTensor`s. Take **DeepSpeed** if stage 1 is enough (FSDP2 has none, and
# stage 1 sends less for every micro-batch, as lesson 16 showed), if weights
# must go to NVMe, or if your code comes with a JSON for it.

# %% [markdown]
# ## One change at a time
#
# Back to the table at the top. Its repository shows what changed between
# the first row and the others: the data-parallel script trains in **fp32**
# with **torch's AdamW**; `ds_config_stage1.json` and `ds_config_stage2.json`
# say **fp16**, let DeepSpeed bring **its own Adam**, and set the **stage**.
# And DeepSpeed's engine itself is new. Four changes stand behind one number.
#
# An **ablation** makes one change at a time. Here on one rank, with bf16 in
# place of fp16, and torch's fused AdamW as the other implementation (**fused**
# means that one kernel updates all weights). The baseline is DeepSpeed at
# stage 0; the last row, without a stage, is torch alone:

# %%
BASELINE = {"precision": "fp32", "optimizer": "plain", "stage": 0}
CHANGES = {"precision": "bf16", "optimizer": "fused", "stage": 2}
SETTINGS = [
    BASELINE,
    *({**BASELINE, factor: CHANGES[factor]} for factor in CHANGES),
    CHANGES,
    {**BASELINE, "stage": None},
]
SETTINGS

# %% [markdown]
# All six take their steps in turn, so that a busy moment of this machine
# slows all of them. Two rounds warm up, and the ledger watches the second;
# the next ones are timed.

# %%
import statistics

from lesson.deepspeed_ablation import ablate

from dtlib.measure.noise import compare

if here:
    arguments = (ablate, SETTINGS, width, timed)
    found["ablation"] = dtlib.launch(
        *arguments, ranks=1, device=device, timeout=120
    )[0]
measured = found["ablation"]
pages = [result["bytes"] for result in measured]
middle = [statistics.median(result["seconds"]) for result in measured]

# %%
from lesson.pictures import draw_memory

WORDS = "baseline, bf16 alone, fused alone, stage 2 alone, all, torch alone"
WORDS = WORDS.split(", ")
draw_memory(dict(zip(WORDS[:5], pages)))

# %%
start = [sum(page.values()) / 1e6 for page in pages]
learn.table(
    [
        [word, 1000 * second, *(size / 1e6 for size in page.values()), total]
        for word, second, page, total in zip(WORDS, middle, pages, start)
    ],
    ["", "step, ms", *(kind.replace("_", " ") for kind in pages[0]), "all"],
    "One rank, one change at a time: median time, and MB at most",
)

# %% [markdown]
# ## Exercise 2: who gained what?
#
# ●●○ *12 minutes.* Write the comparison as a function. `runs` are dicts with
# `precision`, `optimizer`, `stage` and `seconds`; the first one's settings
# are the baseline, and settings may come several times. For each factor,
# return how many times as fast its change **alone** makes a step: the
# median seconds of the baseline over the median with that one change. A
# factor that no run isolates stays out.
#
# A worked case: baseline 12 s, bf16 alone 4 s, all three 2 s. Then
# `{"precision": 3.0}`, and nothing is known of the other two.

# %% tags=["exercise"]
FACTORS = ["precision", "optimizer", "stage"]


def gains(runs):
    """{factor: times as fast by its change alone}."""
    found = {}
    for factor in FACTORS:
        ### BEGIN SOLUTION
        others = [name for name in FACTORS if name != factor]
        alike = [
            run
            for run in runs
            if all(run[name] == runs[0][name] for name in others)
        ]
        before, after = [], []
        for run in alike:
            changed = run[factor] != runs[0][factor]
            (after if changed else before).append(run["seconds"])
        if after:
            found[factor] = statistics.median(before)
            found[factor] /= statistics.median(after)
        ### END SOLUTION
    return found


# %% tags=["check"]
learn.check("gains", gains)

# %%
runs = [
    {**setting, "seconds": second}
    for setting, result in zip(SETTINGS[:5], measured)  # those of DeepSpeed
    for second in result["seconds"]
]
gained = learn.given("gains")(runs)
same = measured[0]["seconds"]  # the baseline against itself
told = {factor: compare(gain, same) for factor, gain in gained.items()}
for factor, gain in gained.items():
    what = f"gain of {factor} on one rank"
    learn.my_run(what, gain, "times", source=source, effect=told[factor])
best = max(gained, key=gained.get)
word = f"the {best}" if gained[best] > 1 else "none"
learn.measured("largest_gain", word, source=source, effect=told[best])
learn.measured(
    "sharding_alone", gained["stage"], source=source, effect=told["stage"]
)

# %% [markdown]
# And the engine? Torch alone against the baseline says what DeepSpeed itself
# costs on one rank. With this, your rows take the whole comparison apart.
# What is left, changes that act on one another, is called "together":

# %%
import math

from lesson.pictures import draw_causes

baseline, *_, everything, alone = middle
engine = compare(alone / baseline, same)
what = "gain of DeepSpeed's engine on one rank"
learn.my_run(what, engine.times, "times", source=source, effect=engine)
together = baseline / everything / math.prod(gained.values())
causes = {
    "DeepSpeed's engine": engine,
    "bf16": told["precision"],
    "fused AdamW": told["optimizer"],
    "stage 2": told["stage"],
    "together": compare(together, same),
}
draw_causes(causes, "stage 2")

# %%
learn.table(
    [
        [word, effect.times, "" if effect.real else "noise"]
        for word, effect in causes.items()
    ],
    ["cause", "times as fast", ""],
    "From torch alone to all changes, one cause after the other",
)

# %% [markdown]
# The bytes do not depend on the machine, and they settle the matter:
#
# - **Sharding alone saves nothing**: on one rank a share is the whole, and
#   in fp32 the copy adds 4Ψ.
# - **16 bits alone** save as much as all three together. The states do not
#   shrink: 2 + 2 + 12 is 16 bytes a parameter, and so is 4 + 4 + 8. The
#   activations halve.

# %%
baseline, bf16, fused, stage_2, everything, alone = start
assert stage_2 > baseline == fused == alone
assert abs(everything - bf16) < 0.01 * baseline
kept = [page["activations"] for page in pages]
assert abs((baseline - bf16) * 1e6 - (kept[0] - kept[1])) < 1
print(f"activations in bf16: {kept[1] / kept[0]:.3f} of those in fp32")
print(f"bf16 alone: {100 * (1 - bf16 / baseline):.0f} % less memory")

# %% [markdown]
# Does this explain the printed table? Its first row has 13.62 GB, of which
# 16 bytes × 355 million parameters are 5.68 GB. Halve the rest, and the
# second row should say:

# %%
states, first = 16 * 355e6 / 1e9, 13.62
predicted = states + (first - states) / 2
print(f"{predicted:.2f} GB, and the table prints 9.64")
assert abs(predicted - 9.64) < 0.02

# %% [markdown]
# Within two hundredths, with no sharding in it. Stage 2 lies 0.91 GB *above*
# stage 1 there: it can divide gradients by 1 only, and its JSON adds
# `contiguous_gradients` and `overlap_comm`, which copy gradients into
# buckets of 5·10⁸ fp16 numbers, 1 GB; that may be why. How much of the 2.4× is
# precision and how much Adam's implementation, the table cannot say: it
# changed both at once. Your ablation can, for this machine.
#
# When does sharding begin to save? Move the ranks up from 1.

# %%
learn.what_if("savings")

# %% [markdown]
# ## The patient: a batch that does not fit
#
# The same tutorial met this one. Its JSON was written for four GPUs and
# started on one:

# %%
from lesson.deepspeed_looks import verdicts

patient = {
    "train_batch_size": 16,
    "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": 1,
}

if here:
    said = dtlib.launch(verdicts, patient, ranks=1, device="cpu")
    found["patient"] = said[0]
print(*found["patient"])

# %% [markdown]
# The message says that 16 ≠ 4 · 1 · 1. The **batch identity** is
#
# $$\text{train} = \text{micro} \times \text{accumulation} \times N$$
#
# Give two of the three and the third follows; give all three and the file
# works for one N only. Tutorials also mention an error "micro_batches: 4 is
# not divisible by num_gpus: 1". DeepSpeed asks for nothing of the kind:
# accumulation need not be a multiple of N.
#
# ## Exercise 3: fields that agree
#
# ●●○ *10 minutes.* Return the three numbers for `world_size` ranks, or
# refuse: `raise ValueError("… the numbers …")`. Refuse a 0, too: a step
# without samples is none. Where only one of `train` and `micro` is given,
# accumulation is 1. Accumulation alone says nothing.
# A worked case: 24 samples, micro-batch 4, three ranks: 24 / (4 · 3) = 2
# micro-batches each, so (24, 4, 2).


# %% tags=["exercise"]
def batch_fields(world_size, train=None, micro=None, accumulation=None):
    """(train, micro, accumulation), whole numbers from 1 on."""
    ### BEGIN SOLUTION
    if train is None and micro is None:
        raise ValueError("give train or micro: nothing follows from neither")
    if accumulation is None and (train is None or micro is None):
        accumulation = 1
    if train is None:
        train = micro * accumulation * world_size
    elif micro is None:
        micro = train // (accumulation * world_size)
    elif accumulation is None:
        accumulation = train // (micro * world_size)
    product = micro * accumulation * world_size
    if train != product or product == 0:
        raise ValueError(
            f"{train} is not {micro} * {accumulation} * {world_size}"
        )
    ### END SOLUTION
    return train, micro, accumulation


# %% tags=["check"]
learn.check("batch_fields", batch_fields)

# %% [markdown]
# Repair the file without changing what the model learns: the global batch
# stays 16, and one rank takes four micro-batches of 4.

# %%
fields = learn.given("batch_fields")
train, micro, accumulation = fields(1, train=16, micro=4)
mended = dict(zip(patient, (train, micro, accumulation)))
if here:
    said = dtlib.launch(verdicts, mended, ranks=1, device="cpu")
    found["mended"] = said[0]
print(mended, *found["mended"])
assert found["mended"] == ["accepted"]

# %% [markdown]
# ## Saving under stage 3
#
# *Stretch.* At stage 3 no rank has the weights. Before you look at what
# DeepSpeed does about it, do it yourself.
#
# ## Exercise 4: make weights whole
#
# ●●● *14 minutes, stretch.* `mine` holds this rank's share of every tensor:
# flat, ⌈n/N⌉ numbers, the last share padded with zeros. `shapes` holds the
# shapes of the whole tensors. Return the whole tensors, by name, on rank 0,
# and an empty dict on the other ranks, which do not need them.

# %% tags=["exercise", "stretch"]
import torch
import torch.distributed as dist


def whole_weights(mine, shapes):
    """{name: whole tensor} on rank 0, {} elsewhere."""
    ### BEGIN SOLUTION
    whole = {}
    for name, shape in shapes.items():
        shares = [
            torch.empty_like(mine[name]) for _ in range(dist.get_world_size())
        ]
        dist.all_gather(shares, mine[name])
        if dist.get_rank() == 0:
            n = torch.Size(shape).numel()
            whole[name] = torch.cat(shares)[:n].view(shape)
    return whole
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("whole_weights", whole_weights)

# %% [markdown]
# DeepSpeed has two ways. `save_checkpoint` writes a file for every rank, and
# the script `zero_to_fp32.py` beside them joins those later, on one machine.
# `save_16bit_model` collects whole weights at once, as you did. Here a
# network of five tensors is saved in both ways, under DeepSpeed's defaults
# and with two settings more; the same launch trains in fp16, for later.

# %% tags=["stretch"]
from lesson.deepspeed_looks import loss_scales, saved

collect = learn.given("whole_weights")
more = {
    "stage3_gather_16bit_weights_on_model_save": True,
    "stage3_param_persistence_threshold": 0,
}
fp16 = {"initial_scale_power": 24, "loss_scale_window": 4}


def look():
    plain, gathered = saved("defaults"), saved("gathered", collect, **more)
    return plain, gathered, loss_scales(14, **fp16)


if here:
    found["look"] = dtlib.launch(look, ranks=2, device="cpu", timeout=60)[0]
plain, gathered, scales = found["look"]

# %% tags=["stretch"]
ASKED = {
    "whole": "tensors that stay whole between steps",
    "state_dict": "numbers in state_dict()",
    "written": "save_16bit_model wrote a file",
    "rebuilt": "zero_to_fp32 gives what is in it",
    "collected": "your function gives what is in it",
}
learn.table(
    [[what, str(plain[k]), str(gathered[k])] for k, what in ASKED.items()],
    ["", "defaults", "gather, threshold 0"],
    "Five tensors, 98,816 numbers, at stage 3 on two ranks",
)

# %% tags=["stretch"]
assert not plain["written"] and gathered["state_dict"] == 0
assert gathered["written"] and gathered["rebuilt"] and gathered["collected"]
print("The checkpoint:", *gathered["files"], sep="\n")

# %% [markdown]
# Under the defaults `save_16bit_model` wrote **nothing**, and
# `state_dict()` looks right only because all five tensors are small enough
# to stay whole. With the threshold at 0 it is empty, and
# `torch.save(model.state_dict())` would save five empty tensors. Whatever
# collects is called by every rank: under `if rank == 0:` it waits for ever.
#
# The course's checkpoints hold whole tensors by name, whatever the stage and
# the number of ranks: a run of `zero3` can resume as `ddp`, and `dtlib export`
# writes its weights for other programs.
#
# ## Loss scale and skipped steps
#
# *Stretch.* In `"fp16"` the engine scales the loss, as lesson 04 does by
# hand. The scale starts at 2 to the power `initial_scale_power`, is doubled
# after `loss_scale_window` good steps, and halved on an overflow, but only
# when `hysteresis`, by default 2, is used up. 2²⁴ is far too high a start,
# and shows all of it:

# %% tags=["stretch"]
learn.table(
    [
        [k, f"2^{scale.hex().split('p+')[1]}", "skipped" if bad else "taken"]
        for k, (scale, bad) in enumerate(scales, start=1)
    ],
    ["step", "loss scale", ""],
    "DeepSpeed in fp16, stage 2",
)

# %% [markdown]
# A skipped step moves no weight; a few at the start are normal. The
# course's own scaler, told of the same overflows and never to double, goes
# through the same scales as long as DeepSpeed does not double, either:

# %% tags=["stretch"]
from types import SimpleNamespace

from dtlib.scratch.loss_scaling import LossScaler

weight = torch.zeros(1)
optimizer = SimpleNamespace(  # it moves nothing: the scale is what counts
    param_groups=[{"params": [weight]}], step=lambda: None
)
scaler, ours = LossScaler(2.0**24, growth_interval=1000, hysteresis=2), []
for _, bad in scales:
    ours.append(scaler.value)
    weight.grad = torch.tensor([float("inf") if bad else 1.0])
    scaler.step(optimizer)
    scaler.update()
last = max(k for k, (_, bad) in enumerate(scales) if bad)
assert ours[: last + 2] == [scale for scale, _ in scales[: last + 2]]
print(f"{scaler.skipped} of {len(scales)} steps skipped, by both")

# %% [markdown]
# ## Quiz

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## Take-away
#
# - The stage is one number in a JSON. The losses stay, the bytes move.
# - Every byte that the ledger shows beyond the paper has a name: fp32 copy,
#   padding, buckets, tensors below a threshold.
# - On one rank nothing is sharded. If a figure changed all the same,
#   something else caused it: change one thing at a time.
# - train = micro × accumulation × N. Give two of them.
# - FSDP2 for stage 3 in plain PyTorch; DeepSpeed for stage 1, NVMe or a JSON
#   that is there already.

# %%
if record and here:
    print(learn.keep_record("17_deepspeed", found, ("deepspeed",)).name)
learn.take_away()
