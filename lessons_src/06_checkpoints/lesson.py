# %% [raw]
# ---
# number: "06"
# title: Checkpoints
# does: kill a run, resume it with the same bits; save on a disk and on S3
# objectives:
#   - say what a checkpoint has to hold, and prove a resumed run bit-equal
#   - save so that a kill at any moment leaves the last whole checkpoint, on a
#     disk and on S3, and refuse a file that would run code
#   - choose between whole, sharded and asynchronous checkpoints, and state a
#     perplexity together with its protocol
# minutes: {read: 34, exercises: 44}
# needs: [laptop]
# builds_on: ["02", "07"]
# ---

# %% [markdown]
# Your job on the cluster ends after four hours, in the middle of an epoch. You
# saved the weights, you resume, and the loss curve has a step that nobody can
# explain. **What must a checkpoint hold, and what is left of it if the power
# fails while it is being written?**
#
# You kill runs for real in this lesson: with SIGKILL, which no program can
# catch. Exercises 1 and 2 are the core; 3 and 4 are *stretch*.

# %%
from dtlib import learn

learn.start("06")

# %%
from lesson.pictures import draw_held, draw_question

draw_question()

# %% [markdown]
# `total` is the length of the small run, and `stopped` the step after which it
# is saved. `rows` is the size of the tensor that four ranks save together, and
# `steps` the length of the real training whose perplexity you measure.

# %% tags=["parameters"]
total = 40
stopped = 17
rows = 4096
steps = 20

# %% [markdown]
# ## Your predictions
#
# Commit all three before you go on.

# %%
learn.predict("times_the_weights")

# %%
learn.predict("torn")

# %%
learn.predict("protocols")

# %% [markdown]
# ## What changes from step to step
#
# The small run trains a network with dropout, in fp16, with AdamW, a cosine
# schedule and a loss scale (lesson 04). A **sampler** deals out the batches:
# ten in an epoch, in an order that is drawn anew for each epoch.

# %%
import inspect

import torch
from lesson import trainer

torch.set_num_threads(1)  # more threads don't help tensors this small
print(inspect.getsource(trainer.Run.train))

# %% [markdown]
# Which objects does this loop change? The optimizer remembers two moments of
# each weight. The schedule counts steps. The scaler holds the scale and the
# number of good steps in a row. The sampler knows its epoch and its position.
# Dropout draws from torch's **random state**. Each of them is a part of the
# run's state. A worked example: what AdamW remembers.

# %%
run = trainer.Run(total)
run.train(stopped)
weight = run.optimizer.state_dict()["state"][0]
learn.table(
    [
        [name, str(tuple(t.shape)), f"{t.abs().mean().item():.3g}"]
        for name, t in weight.items()
    ],
    ["name", "shape", "mean size"],
    f"What AdamW holds of the first weight after {stopped} steps",
)


# %% [markdown]
# So a checkpoint of AdamW holds three numbers for each weight. Count the bytes
# of all tensors, and compare with those of the weights.


# %%
def bytes_of(value):
    """Bytes of all tensors in a state of nested dicts."""
    if isinstance(value, dict):
        return sum(map(bytes_of, value.values()))
    return value.nbytes if isinstance(value, torch.Tensor) else 0


from dtlib.models import gpt

nano = gpt.GPT(gpt.shape("nano", vocab_size=64))
adam = torch.optim.AdamW(nano.parameters())
for w in nano.parameters():
    w.grad = torch.ones_like(w)
adam.step()
weights = sum(w.nbytes for w in nano.parameters())
times = (weights + bytes_of(adam.state_dict())) / weights
learn.measured("times_the_weights", times)
print(f"{weights:,} bytes of weights, {times:.3f} times as many in all")

# %% [markdown]
# ## Exercise 1: the state of a run
#
# ●●○ *12 minutes.* Return a dict with everything that `trainer.load` puts
# back: `model`, `optimizer`, `schedule`, `scaler` and `sampler` have a
# `state_dict()` each; `rng` is torch's random state, and `step` a whole
# number. Mind one thing: the dict is written to a file **later, while the run
# goes on**. That is what asynchronous saving does.

# %%
print(inspect.getsource(trainer.load))

# %% tags=["exercise"]
import copy


def state_of(run):
    """Whatever `load` needs so that the run continues with the same bits."""
    saved = {}
    ### BEGIN SOLUTION
    parts = "model", "optimizer", "schedule", "scaler", "sampler"
    saved = {name: getattr(run, name).state_dict() for name in parts}
    saved["rng"] = torch.get_rng_state()
    saved["step"] = run.step
    return copy.deepcopy(saved)
    ### END SOLUTION


# %% tags=["check"]
learn.check("state_of", state_of)

# %% [markdown]
# ## Kill it
#
# Now the real thing. A rank trains 40 steps, saves every 5, and gets SIGKILL
# after step 20. The file that it leaves is loaded here, and the run continues.

# %%
import tempfile
from pathlib import Path

import dtlib
from dtlib.errors import DtlibError

save = learn.given("state_of")
folder = Path(tempfile.mkdtemp())
try:
    dtlib.launch(
        trainer.train_and_die, save, folder / "last.pt", 5, 20, ranks=1
    )
except DtlibError as error:
    print(error)
saved = torch.load(folder / "last.pt", weights_only=True)
resumed = trainer.load(trainer.Run(40, seed=9), saved)
after_the_kill = resumed.train(40)
straight = trainer.Run(40).train(40)
assert after_the_kill == straight[20:]
len(after_the_kill), after_the_kill[-1], straight[-1]

# %% [markdown]
# **Twenty losses, equal to the last bit**, although the resumed run began with
# other weights and another order: everything came from the file.
#
# ## Six ways in which resuming goes wrong
#
# Leave out one part at a time. Nothing fails, and no message appears: the run
# only becomes another one.

# %%
run = trainer.Run(total)
run.train(stopped)
saved = save(run)
right = run.train(total)


def resume_without(part):
    """Losses of a run that was resumed without one part of the state."""
    kept = {name: state for name, state in saved.items() if name != part}
    return trainer.load(trainer.Run(total, seed=3), kept).train(total)


names = {
    "sampler": "sampler order",
    "schedule": "scheduler",
    "rng": "random state",
    "scaler": "scaler",
}
wrong = {said: resume_without(part) for part, said in names.items()}
apart = {
    said: [abs(a - b) for a, b in zip(losses, right)]
    for said, losses in wrong.items()
}
assert all(max(distance) > 0 for distance in apart.values())

# %%
from matplotlib import pyplot as plt

from dtlib.learn.charts import lines

figure, axes = plt.subplots(figsize=(7, 3))
steps_after = range(stopped + 1, total + 1)
lines(axes, {said: (steps_after, line) for said, line in apart.items()})
axes.set(xlabel="step", ylabel="distance of the loss")
axes.set_title("One forgotten part is enough for another run")
plt.show()

# %%
rows_of = []
for said, line in apart.items():
    first = next(k for k, value in enumerate(line) if value)
    rows_of.append([said, stopped + 1 + first, f"{max(line):.3f}"])
learn.table(
    rows_of,
    ["forgotten", "differs from step", "largest distance of a loss"],
    f"Resumed after step {stopped} of {total}",
)

# %% [markdown]
# A forgotten scheduler starts its cosine again; a forgotten scaler doubles its
# scale at another step, and fp16 rounds differently. A forgotten sampler sees
# samples twice in this epoch, and others not at all.
#
# The **fifth way** needs no forgotten part. Resume the whole state, but ask
# for 60 steps instead of 40: the cosine ends elsewhere, and so every rate
# changes.

# %%
longer = trainer.load(trainer.Run(60, seed=3), saved)
longer.train(stopped + 2)
rates = {}
for name, one in (("as planned", trainer.Run(total)), ("longer", longer)):
    one = trainer.load(one, saved) if one.step == 0 else one
    one.train(stopped + 2)
    rates[name] = one.schedule.get_last_lr()[0]
assert rates["longer"] > rates["as planned"]
rates

# %% [markdown]
# `dtlib train --resume` says so: *steps was 40 and is now 60; the learning
# rate of the next step is … instead of …*. If you want to be free to train
# longer, use a constant rate with a decay at the end, and save before the
# decay.
#
# The **sixth way** is another number of ranks. A sampler that remembers *how
# many batches each rank has taken* is right for that number alone.

# %%
order = torch.randperm(24, generator=torch.Generator().manual_seed(0))
order = order.tolist()
taken, size = 3, 2  # batches that each of 2 ranks took, samples in each
seen = order[: taken * size * 2]
careless = order[taken * size * 4 :]  # 4 ranks resume, "3 batches each"
never = sorted(set(order) - set(seen) - set(careless))
assert len(never) == 12
print(f"{len(seen)} seen, {len(careless)} left for 4 ranks; never: {never}")

# %% [markdown]
# ## Exercise 2: another world size
#
# ●●○ *10 minutes.* In each step, rank 0 takes the next `size` samples of
# `order`, rank 1 the `size` after those, and so on. Each of `old_world` ranks
# has taken `taken` batches. Return the batches that `rank` of `world` ranks
# still takes in this epoch, as a list of lists. A last step for which there
# are not enough samples is left out.


# %% tags=["exercise"]
def batches_left(order, taken, size, old_world, rank, world):
    """The batches that are left for one of `world` ranks."""
    ### BEGIN SOLUTION
    seen = taken * size * old_world
    rest = order[seen:]
    steps = len(rest) // (size * world)
    starts = [(step * world + rank) * size for step in range(steps)]
    return [rest[start : start + size] for start in starts]
    ### END SOLUTION


# %% tags=["check"]
learn.check("batches_left", batches_left)

# %%
left = learn.given("batches_left")
rest = [batch for r in range(4) for batch in left(order, 3, 2, 2, r, 4)]
now = sorted(seen + [sample for batch in rest for sample in batch])
assert len(set(now)) == len(now)
print(f"{len(now)} of 24 samples, each of them once")

# %% [markdown]
# So save **how many samples of the global order** are done, and not how many
# batches of a rank. `dtlib` saves the step, and draws the order of the global
# batch from seed and step. (Lesson 19 reshards *weights* to another number of
# ranks.)
#
# ## Torn files
#
# Many scripts write over `latest.pt`. Do that, and kill the rank when half of
# the bytes are there.

# %%
latest = folder / "latest.pt"
torch.save(saved, latest)
data = latest.read_bytes()
try:
    dtlib.launch(trainer.write_half_and_die, latest, data, ranks=1)
except DtlibError as error:
    print(error)
try:
    torch.load(latest, weights_only=True)
    found = "the old checkpoint"
except (RuntimeError, OSError, EOFError) as error:
    found = "nothing that loads"
    print(f"{latest.stat().st_size:,} of {len(data):,} bytes: {error}"[:150])
learn.measured("torn", found)

# %% [markdown]
# The old state is gone, the new one isn't there. Four acts make a save
# **atomic**, which means that a reader finds the old state or the new one, and
# nothing in between:
#
# 1. write the new file under **another name** in the same folder;
# 2. `fsync` it: wait until its bytes are on the disk and not only in memory,
#    because a power failure loses what is only in memory;
# 3. **rename** it to the final name, which replaces the old file in one act;
# 4. `fsync` the folder, so that the new *name* survives, too.
#
# `lesson.disk` simulates a disk that tells what a crash leaves at each moment.
# A worked example, the script from above:

# %%
from lesson.disk import NEW, OLD, Disk

disk = Disk({"latest.pt": OLD})
disk.write("latest.pt", NEW)
moments = [["(start)"], *disk.acts]
learn.table(
    [
        [k, " ".join(act), " or ".join(sorted(map(repr, held)))]
        for k, (act, held) in enumerate(zip(moments, disk.moments))
    ],
    ["moment", "after", "latest.pt may hold"],
    "A crash while a file is written over, simulated",
)

# %% [markdown]
# ## Exercise 3: replace a file
#
# ●●○ *10 minutes, stretch.* `disk` has `write(name, data)`, `fsync(name)`,
# `rename(old, new)`, `fsync_folder()` and `remove(name)`. After a crash at any
# moment, `name` must hold the old or the new state; when your function has
# returned, the new one, and no other file may be left.


# %% tags=["exercise", "stretch"]
def replace_file(disk, name, data):
    """Replace a file so that no crash leaves less than one whole state."""
    ### BEGIN SOLUTION
    disk.write(name + ".tmp", data)
    disk.fsync(name + ".tmp")
    disk.rename(name + ".tmp", name)
    disk.fsync_folder()
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("replace_file", replace_file)

# %% [markdown]
# A checkpoint of several ranks has several files, so `dtlib` writes a folder
# under another name, and into it, last, `complete.json` with the size and the
# hash of each file. One rename publishes the folder. On resume, a checkpoint
# whose hash differs is skipped for the one before it:

# %%
import warnings

from dtlib.training.checkpoint import Checkpoints

runs = Checkpoints(folder / "checkpoints")
for step in (10, 20):
    runs.save(step, {"weights": torch.full((4,), float(step))}, {})
damaged = folder / "checkpoints" / "step-00000020" / "shared.pt"
content = bytearray(damaged.read_bytes())
content[len(content) // 2] ^= 1  # one bit
damaged.write_bytes(content)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    loaded = runs.latest()
assert loaded.step == 10
print(str(caught[0].message).replace(str(folder), "…"))

# %% [markdown]
# ## A file that runs code
#
# `torch.save` writes a **pickle**, and a pickle may name any function that is
# called when it is loaded. This one only makes a file; it could as well read
# your keys.


# %%
class Hostile:
    def __reduce__(self):
        return Path.touch, (folder / "it ran",)


torch.save({"weights": Hostile()}, folder / "hostile.pt")
try:
    torch.load(folder / "hostile.pt", weights_only=True)
except Exception as error:
    print("refused:", str(error).split("\n")[0][:70], "…")
assert not (folder / "it ran").exists()
torch.load(folder / "hostile.pt", weights_only=False)
assert (folder / "it ran").exists()

# %% [markdown]
# `weights_only=True`, the default since torch 2.6, admits tensors and plain
# values and nothing that it does not know. Do not switch it off for a file
# from elsewhere. **safetensors** goes further: the file is a header in JSON
# followed by bytes, so there is nothing to run. It holds tensors alone, which
# is why weights are published in it and optimizers rarely are.

# %%
import json

from safetensors.torch import save_file

save_file(dict(saved["model"]), folder / "model.safetensors")
raw = (folder / "model.safetensors").read_bytes()
size = int.from_bytes(raw[:8], "little")
json.loads(raw[8 : 8 + size])

# %% [markdown]
# ## Whole or sharded
#
# Under ZeRO-3 or FSDP, each of N ranks holds 1/N of the state. A **whole**
# checkpoint is gathered and written by one rank, while the others wait. In a
# **sharded** one each rank writes what it holds.
# `torch.distributed.checkpoint` does the second, with a small file,
# `.metadata`, that says where each piece lies.

# %%
draw_held()

# %%
from lesson import sharded

told = dtlib.launch(sharded.save_both, folder, rows, ranks=4)
files = {p.name: p.stat().st_size for p in (folder / "sharded").iterdir()}
learn.table(
    [
        [
            rank,
            one["shard"],
            one["gathered"],
            (folder / "whole.pt").stat().st_size if rank == 0 else 0,
            files[f"__{rank}_0.distcp"],
        ]
        for rank, one in enumerate(told)
    ],
    ["rank", "its shard", "gathered", "file: whole", "file: sharded"],
    f"Bytes; whole took {told[0]['whole_s']:.2f} s, sharded "
    f"{told[0]['sharded_s']:.2f} s, on one local disk",
)

# %%
assert all(one["gathered"] == 4 * one["shard"] for one in told)
assert all(dtlib.launch(sharded.load_sharded, folder, rows, ranks=4))
learn.my_run(
    "bytes that a rank gathers for a whole checkpoint",
    told[1]["gathered"],
    "bytes",
)

# %% [markdown]
# To write a whole checkpoint, each rank here held four times its shard for a
# moment. For a model that only fits because it is sharded, that is the end of
# the run, unless one tensor after another is gathered and moved to the CPU
# memory of rank 0 (`full_state_dict` with `cpu_offload` in torch). On a laptop
# with one disk, sharded is not faster; on a cluster N files are written at
# once.
#
# ## Saving in the background
#
# `async_save` copies the state to CPU memory and returns; a thread writes the
# copy while training goes on. The copy is the price: memory for one more
# state, and the time that it takes. (Remember what exercise 1 said about
# *later*.)

# %%
async_rows = dtlib.launch(
    sharded.save_in_the_background, folder, 4 * rows, ranks=2
)
learn.table(
    [
        [rank, *(f"{one[k]:.3f}" for k in ("at_once", "returned", "done"))]
        for rank, one in enumerate(async_rows)
    ],
    ["rank", "save, s", "async_save returns, s", "and is done, s"],
    "How long the loop stands still",
)

# %% [markdown]
# How often should you save? The time that saving takes, and the steps that are
# taken again after a failure, pull in opposite directions.

# %%
learn.what_if("how_often")

# %% [markdown]
# ## Where checkpoints lie
#
# | storage | what holds | so |
# | --- | --- | --- |
# | local disk | rename is atomic; what has no fsync may be lost | the node's checkpoints are lost with the node |
# | NFS | other nodes may see a new file seconds late, because clients cache names and attributes (https://man7.org/linux/man-pages/man5/nfs.5.html) | let one rank decide which checkpoint is loaded, and check sizes; keep the temporary name in the same folder |
# | S3 | an object appears as a whole, at once for all (https://aws.amazon.com/s3/consistency/); **no rename** | write a manifest last; a folder without it does not count |
#
# A large object is uploaded in parts: *create*, *upload part* 1, 2, …,
# *complete*
# (https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html).
# Until it is completed no listing shows it, and its parts cost money. Try it.
# The next cell starts a server that speaks S3's protocol over HTTP. It is
# moto's, a **stand-in**: it shows the protocol, and neither S3's speed nor its
# price.

# %%
import boto3
from lesson.stand_in import start_server

server = start_server()
s3 = boto3.client("s3")
s3.create_bucket(Bucket="runs")
runs = Checkpoints("s3://runs/lesson")
runs.save(10, {"weights": torch.ones(4)}, {})
try:
    dtlib.launch(trainer.upload_and_die, "s3://runs/lesson", ranks=1)
except DtlibError as error:
    print(error)
listed = s3.list_objects_v2(Bucket="runs")["Contents"]
print("listed:", *(one["Key"] for one in listed))
begun = s3.list_multipart_uploads(Bucket="runs")["Uploads"]
print("unfinished:", *(one["Key"] for one in begun))
assert runs.latest().step == 10

# %% [markdown]
# The last whole checkpoint is that of step 10. `dtlib` removes what does not
# count before the next save. In a shell you do it with `dtlib checkpoints
# s3://runs/lesson --clean`, which prints these lines:

# %%
from dtlib.training.checkpoint.listing import list_checkpoints

print(*list_checkpoints("s3://runs/lesson", clean=True), sep="\n")
assert "Uploads" not in s3.list_multipart_uploads(Bucket="runs")
server.stop()

# %% [markdown]
# `dtlib train … --checkpoints s3://BUCKET/PREFIX` saves there. A bucket should
# also have a rule that aborts unfinished uploads after some days
# (`AbortIncompleteMultipartUpload`), for the runs that nobody resumes.
#
# ## What is the model worth? Perplexity and its protocols
#
# A checkpoint is judged by its **perplexity** on held-out text: the
# exponential of the mean loss per token. The number depends on a protocol. A
# model sees at most a **window** of tokens, so a long text is cut. With a
# **stride** shorter than the window, windows overlap, and each token is scored
# with more context but only once. **Padding** fills a short window; its tokens
# must not count.
#
# A worked example: 9 tokens, window 5, stride 2. Token 0 has no context and is
# never scored. The first window scores tokens 1 to 4; the second one, tokens 2
# to 6, sees 2, 3 and 4 again and scores only 5 and 6.
#
# ## Exercise 4: each token once
#
# ●●○ *12 minutes, stretch.* Return `(begin, end, first)` for each window: the
# model reads tokens `begin` to `end - 1`, and those from `first` on are
# scored. Windows start at 0, `stride`, 2 · `stride`, …; the last one ends with
# the text. `stride` is shorter than `window`.


# %% tags=["exercise", "stretch"]
def spans_of(length, window, stride):
    """(begin, end, first) of each window; tokens from `first` on count."""
    spans = []
    ### BEGIN SOLUTION
    done = 1
    for begin in range(0, length, stride):
        end = min(begin + window, length)
        spans.append((begin, end, done))
        done = end
        if end == length:
            break
    return spans
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("spans_of", spans_of)

# %% [markdown]
# Train nano for a moment, load it from its checkpoint, and score one text by
# six protocols.

# %%
from dtlib.data import open_text

settings = dict(steps=steps, global_batch=8, max_length=64, num_samples=128)
trained = dtlib.train(
    "text", strategy="single", out=str(folder / "run"), **settings
)
state = Checkpoints(trained.folder / "checkpoints").latest().shared
weights = state["strategy"]["model"]
model = gpt.GPT(gpt.shape("nano", vocab_size=len(weights["wte.weight"])))
model.load_state_dict(weights, strict=False)
model.eval()
text = open_text("grammar", seed=1, size=600).train[:385].long()


cut = learn.given("spans_of")


@torch.no_grad()
def nll_of(begin, end, first, padded=0):
    """Summed loss and number of the scored tokens of one window."""
    tokens = text[begin:end]
    tokens = torch.cat([tokens, tokens.new_zeros(padded)])
    logits = model(tokens[None, :-1])[0]
    losses = torch.nn.functional.cross_entropy(
        logits, tokens[1:], reduction="none"
    )
    losses = losses[first - begin - 1 :]
    return losses.sum().item(), len(losses)


def perplexity(window, stride, padding=False):
    """Perplexity of the text, and the number of tokens that were scored."""
    total, count = 0.0, 0
    for begin, end, first in cut(len(text), window, stride):
        padded = window - (end - begin) if padding else 0
        loss, scored = nll_of(begin, end, first, padded)
        total, count = total + loss, count + scored
    return torch.tensor(total / count).exp().item(), count


protocols = {
    "window 64, stride 63": (64, 63),
    "window 64, stride 16": (64, 16),
    "window 16, stride 15": (16, 15),
    "window 16, stride 1": (16, 1),
    "window 4, stride 3": (4, 3),
    "window 64, stride 63, padding counts": (64, 63, True),
}
found = {name: perplexity(*how) for name, how in protocols.items()}
learn.table(
    [[name, f"{p:.3f}", count] for name, (p, count) in found.items()],
    ["protocol", "perplexity", "tokens scored"],
    f"One model, one text of {len(text)} tokens",
)

# %%
honest = [p for name, (p, _) in found.items() if "padding" not in name]
learn.measured("protocols", max(honest) / min(honest))
counts = {n for name, (_, n) in found.items() if "padding" not in name}
assert counts == {len(text) - 1}

# %% [markdown]
# The model is the same in every row. The protocols that score each token once
# already differ, because a token at the start of a window has less context;
# and when padding counts, the number is not a perplexity of this text at all.
# A perplexity without its window, its stride and its tokenizer can't be
# compared with another one.
#
# ## Quiz

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## Take-away
#
# - A checkpoint holds whatever changes from step to step: weights, optimizer,
#   schedule, scaler, sampler, random state, step. Prove it: kill, resume,
#   compare bits.
# - Another name, fsync, rename, fsync the folder. On S3 there is no rename: a
#   manifest, written last, makes a checkpoint count.
# - Load with `weights_only=True`; publish weights as safetensors.
# - Whole checkpoints need the memory of the whole state in one place; sharded
#   ones are written by all, and asynchronous ones cost a copy.
# - A perplexity belongs to its protocol.

# %%
learn.take_away()
