# %% [raw]
# ---
# number: "06"
# title: Checkpoints
# does: kill a run and resume it bit for bit; save to a disk and to S3
# objectives:
#   - say what a checkpoint has to hold, and prove that a resumed run is
#     bit-equal
#   - save so that a kill at any moment leaves a whole checkpoint, on a disk
#     and on S3, and refuse a file that would run code
#   - choose between whole, sharded and asynchronous checkpoints, and state a
#     perplexity together with its protocol
# minutes: {read: 37, exercises: 44}
# needs: [laptop, s3]
# builds_on: ["02", "07"]
# ---

# %% [markdown]
# Your job on the cluster ends after four hours, in the middle of an epoch. You
# saved the weights, and only them, in a **checkpoint**, a file from which a
# run can be resumed. You resume, and the loss curve has a jump that nobody can
# explain. **What must a checkpoint hold, and what is left of it if the power
# fails while it is being written?**
#
# You kill runs for real in this lesson, with SIGKILL, a signal that no program
# can catch. Exercises 1 and 2 are the core; 3 and 4 are *stretch*.

# %%
from dtlib import learn

learn.start("06")

# %%
from lesson.pictures import draw_held, draw_question

draw_question()

# %% [markdown]
# `total` is the number of steps of a small run (10 to 200), and `stopped` the
# step after which you save it, at least 3 before the end. Later, four ranks
# save a tensor of `rows` rows together (a multiple of 4, up to 65,536). At the
# end you train a small GPT for `steps` steps (1 to 500) and measure how well
# it predicts a text. With `record=True` the lesson saves what S3 showed, for
# readers who have not installed the packages for it.

# %% tags=["parameters"]
total = 40
stopped = 17
rows = 4096
steps = 20
record = False

# %%
from lesson import trainer

trainer.refuse_beyond(total, stopped, rows, steps)

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
# The small run trains a network with dropout (which sets a random part of its
# input to 0) and with the optimizer AdamW. Its learning rate falls along a
# cosine, from the first step to the last: that is its *schedule*. It computes
# in fp16, numbers of 16 bits, in which small gradients would become 0. So the
# loss is multiplied by a large factor, the loss scale, which a *scaler* adapts
# (lesson 04). A **sampler** deals out the batches: ten in an epoch, in an
# order that is drawn anew for each epoch.

# %%
import inspect

import torch

torch.set_num_threads(1)  # more threads don't help tensors this small
print(inspect.getsource(trainer.Run.train))

# %% [markdown]
# Which objects does this loop change, besides the weights? The optimizer keeps
# two **moments** of each weight: running means of its gradient and of the
# gradient's square. The schedule counts steps. The scaler holds the scale, and
# counts the good steps in a row, those in which no gradient became infinite.
# The sampler knows its epoch and its position in it. Dropout draws random
# numbers, and each draw changes torch's **random state**. Each of these is a
# part of the run's state. Worked example: what AdamW remembers.

# %%
run = trainer.Run(total)
run.train(stopped)
weight = run.optimizer.state_dict()["state"][0]
learn.table(
    [
        [name, str(tuple(t.shape)), f"{t.abs().mean().item():.3g}"]
        for name, t in weight.items()
    ],
    ["name", "shape", "mean absolute value"],
    f"What AdamW holds of the first weight after {stopped} steps",
)


# %% [markdown]
# `exp_avg` and `exp_avg_sq` are the two moments, and each has as many numbers
# as the weight itself; `step` is a single number. It counts only the steps
# that AdamW took, and is smaller than the run's own number: the scaler skips a
# step in which a gradient became infinite.
#
# So with AdamW a checkpoint holds three numbers for each weight: the weight
# and its two moments. Check it on `nano`, the smallest GPT of this course:
# count the bytes of all tensors, and compare with those of the weights alone.
# AdamW makes its moments in its first step, so the cell takes one, with
# made-up gradients.


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
# ●●○ *12 minutes.* Return a dict with everything that `trainer.load` (printed
# below) puts back into a run. `run` has the attributes `model`, `optimizer`,
# `schedule`, `scaler` and `sampler`, and each of them has a method
# `state_dict()`; save what it returns under the attribute's name. `rng` is
# torch's random state, which `torch.get_rng_state()` returns, and `step` is
# the whole number `run.step`.
#
# Mind one thing: the dict is written to a file **later, while the run goes
# on**. That is what asynchronous saving does. What you return must not change
# with the run.

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
# Now the real thing. A rank begins a run of 40 steps, saves a checkpoint every
# 5 steps, and kills itself with SIGKILL after step 20. The cell prints the
# error that this causes, loads the last checkpoint, and continues the run
# here.

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
# another seed, and so with other weights and another order. Everything that
# matters came from the file.
#
# ## Six ways in which resuming goes wrong
#
# The next cells resume four times, and each time leave out another part of the
# state. These are the first four ways. Nothing fails and no message appears,
# but the run becomes a different one.

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

figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
steps_after = range(stopped + 1, total + 1)
lines(axes, {said: (steps_after, line) for said, line in apart.items()})
axes.set(xlabel="step", ylabel="difference in loss")
axes.set_title("Each forgotten part makes it a different run")
plt.show()

# %%
rows_of = []
for said, line in apart.items():
    first = next(k for k, value in enumerate(line) if value)
    rows_of.append([said, stopped + 1 + first, f"{max(line):.3f}"])
learn.table(
    rows_of,
    ["forgotten", "differs from step", "largest difference in loss"],
    f"Resumed after step {stopped} of {total}",
)

# %% [markdown]
# If you forget the scheduler, the cosine starts again from the top. Without
# the scaler, the scale is again that of a new run, so other steps are skipped
# than before. (The gradients of the other steps stay the same to the bit: a
# scale is a power of two, and multiplying by it changes no digit in fp16 as
# long as the product is neither too large nor too small for it.) Without the
# sampler's state, the run sees some samples twice in this epoch and others not
# at all. Without the random state, dropout sets other inputs to 0.
#
# The **fifth way** needs no forgotten part. Load the whole state, but ask for
# 20 steps more: the cosine now ends later, so every learning rate from here on
# is a different one.

# %%
rates = {}
for name, until in (("as planned", total), ("longer", total + 20)):
    one = trainer.load(trainer.Run(until, seed=3), saved)
    one.train(stopped + 2)
    rates[name] = one.schedule.get_last_lr()[0]
assert rates["longer"] > rates["as planned"]
rates

# %% [markdown]
# `dtlib train --resume` warns you: *steps was 40 and is now 60; the learning
# rate of the next step is … instead of …*. If you may want to train longer,
# keep the learning rate constant and lower it only at the end, and save a
# checkpoint before you lower it.
#
# The **sixth way** is to resume on another number of ranks. If a sampler
# remembers *how many batches each rank has taken*, that is right for the old
# number of ranks alone. In the next cell, 2 ranks have taken 3 batches of 2
# samples each, which makes 12 samples of 24. Then 4 ranks resume and skip 3
# batches each. That is 24 samples, so nothing is left for them:

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
# ●●○ *10 minutes.* `order` lists the samples of this epoch. In each step, rank
# 0 takes the next `size` samples of `order`, rank 1 the `size` samples after
# those, and so on. Before the stop, each of `old_world` ranks took `taken`
# batches. Now `world` ranks resume, and `rank` is the number of one of them.
# Return the batches that this rank still takes in this epoch, as a list of
# lists. If the last samples are not enough for a step of all ranks, leave them
# out.
#
# Worked example: in the cell above, 12 samples are left, and a step of 4 ranks
# takes 8 of them. So one step is left. In it rank 1 takes the third and the
# fourth of the 12 samples, and its list has one batch.


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
now = sorted(seen + [int(sample) for batch in rest for sample in batch])
assert len(set(now)) == len(now)
print(f"{len(now)} of 24 samples, each of them once")

# %% [markdown]
# Four samples are left over, because a step needs eight. So save **how many
# samples of the global order** are done, and not how many batches of a rank.
# `dtlib` saves the step, and draws the samples of each global batch (that of
# all ranks together) from the seed and the step, so the number of ranks does
# not matter.
#
# ## Torn files
#
# Many scripts overwrite `latest.pt` at every save. The next cell does so, and
# kills the rank when half of the bytes are written. What is left is a **torn**
# file.

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
# The error does not say that the file is torn. `torch.save` writes a zip file,
# whose table of contents stands at its end, so half of a file has none. While
# torch looks for it, an operation fails, and you read only what the system
# said of that.
#
# The old state is gone, and the new one isn't there. Four operations make a
# save **atomic**, which means that a reader finds either the old state or the
# new one, and nothing in between:
#
# 1. write the new file under **another name** in the same folder;
# 2. `fsync` it: wait until its bytes are on the disk, because a power failure
#    loses what is only in memory;
# 3. **rename** it to the final name, which replaces the old file in one
#    operation;
# 4. `fsync` the folder, so that a power failure can't undo the rename.
#
# `lesson.disk` simulates a disk, and tells what a crash would leave of a file
# at each moment. A `write` has two moments: half of the data is there, and
# then all of it. What had no `fsync` may be lost in part; this disk assumes
# that half of it is. Worked example: the script from above, which writes over
# the file.

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
# In moment 1 a killed program leaves `'the ne'`, half of the data, and a power
# failure half of this half. In moment 2 all of the data is written, but after
# a power failure half of it may be missing.

# %% [markdown]
# ## Exercise 3: replace a file
#
# ●●○ *10 minutes, stretch.* Replace the content of the file `name` by `data`,
# with calls of `disk.write(name, data)`, `disk.fsync(name)`,
# `disk.rename(old, new)`, `disk.fsync_folder()` and `disk.remove(name)`. You
# may not need all five. After a crash at any moment, `name` must hold the
# whole old state or the whole new one. When your function returns, it must
# hold the new one for certain, and no other file may be left.


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
# A checkpoint of several ranks has several files, so `dtlib` writes a whole
# folder under another name. The last file in it is `complete.json`, a
# **manifest**: it lists each file with its size and its hash, a short number
# that is computed from all of the file's bytes. One rename then gives the
# folder its final name. On resume, `dtlib` computes the hashes again. If one
# differs, it skips this checkpoint and loads the one before it. The next cell
# saves two checkpoints and changes one bit of the second:

# %%
import warnings

from dtlib.training.checkpoint import Checkpoints

where = Path(tempfile.mkdtemp())
runs = Checkpoints(where / "checkpoints")
for step in (10, 20):
    runs.save(step, {"weights": torch.full((4,), float(step))}, {})
damaged = where / "checkpoints" / "step-00000020" / "shared.pt"
content = bytearray(damaged.read_bytes())
content[len(content) // 2] ^= 1  # one bit
damaged.write_bytes(content)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    loaded = runs.latest()
assert loaded.step == 10
print(str(caught[0].message).replace(str(where), "…"))

# %% [markdown]
# ## A file that runs code
#
# `torch.save` writes a **pickle**, Python's own format for objects. A pickle
# can name any function, and Python calls that function when the file is
# loaded. The one below only creates an empty file; it could just as well send
# your SSH keys to somebody.


# %%
class Hostile:
    def __reduce__(self):
        return Path.touch, (folder / "it ran",)


(folder / "it ran").unlink(missing_ok=True)  # of an earlier run of this cell
torch.save({"weights": Hostile()}, folder / "hostile.pt")
try:
    torch.load(folder / "hostile.pt", weights_only=True)
except Exception as error:
    print("refused:", str(error).split("\n")[0][:70], "…")
assert not (folder / "it ran").exists()
torch.load(folder / "hostile.pt", weights_only=False)
assert (folder / "it ran").exists()

# %% [markdown]
# `weights_only=True`, the default since torch 2.6, accepts tensors, plain
# values such as numbers and text, and the types on a short list, to which a
# program can add (`torch.serialization.add_safe_globals`). It refuses
# everything else. Do not switch
# it off for a file that comes from somebody else. The format **safetensors**
# goes further: a file is a header in JSON, followed by the bytes of the
# tensors, so there is nothing to run. It holds only tensors, which is why
# weights are published in it and optimizers rarely are. The first 8 bytes of a
# file say how long its header is. The next cell reads the header of one:

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
# ZeRO-3 (lesson 16) and FSDP train models that do not fit on one GPU: each of
# N ranks holds 1/N of the state, its **shard**. There are two ways to save it.
# For a **whole** checkpoint the ranks gather all shards, and one rank writes
# them into one file while the others wait. For a **sharded** one, each rank
# writes what it holds. `torch.distributed.checkpoint` does the second, with a
# small extra file, `.metadata`, that says which piece is in which file.

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
# The last cell also loaded the sharded checkpoint on four ranks, and compared
# it with what was saved. To write the whole one, each rank here held four
# times its shard for a moment. A model that fits into memory only because it
# is sharded would now run out of memory, unless one tensor after another is
# gathered and moved to the CPU memory of rank 0 (`full_state_dict` with
# `cpu_offload` in torch). On a laptop with one disk, sharded is not faster; on
# a cluster N files are written at the same time.
#
# ## Saving in the background
#
# `async_save` copies the state to CPU memory and returns; a thread then writes
# the copy to the disk while training goes on. The copy has a price: the memory
# for a second state, and the time in which it is made, when the run stands
# still. (Without a copy the thread would write what the run has changed since;
# remember *later* in exercise 1.) The ranks agree on who writes what over
# gloo, so on GPUs start them with both backends:
# `init_process_group("cpu:gloo,cuda:nccl")`.

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
    "How long the loop stands still, and when the copy is written",
)

# %% [markdown]
# How often should you save? Every save takes time, so you want few of them.
# After a failure the steps since the last checkpoint are taken again, so you
# want many. Young's formula gives the interval at which the least time is
# lost: the square root of 2 times the time of a save times the average time
# between two failures.

# %%
learn.what_if("how_often")

# %% [markdown]
# ## Where to store checkpoints
#
# | storage | what it promises | what follows |
# | --- | --- | --- |
# | local disk | a rename is atomic; what has had no `fsync` may be lost | if the node fails, its checkpoints are lost, too |
# | NFS, a folder shared over the network | other nodes may see a new file seconds late, because clients cache names and attributes (https://man7.org/linux/man-pages/man5/nfs.5.html) | let one rank decide which checkpoint is loaded, and check sizes; keep the temporary name in the same folder |
# | S3, storage over HTTP | a file appears only when it is complete, and then for all readers at once (https://aws.amazon.com/s3/consistency/); in general-purpose buckets there is **no rename** | write a manifest last; a folder without one does not count |
#
# (Since 2025 S3's *directory buckets*, of the class S3 Express One Zone, can
# rename one object
# (https://docs.aws.amazon.com/AmazonS3/latest/userguide/directory-buckets-objects-rename.html).
# A checkpoint has several, so it needs a manifest there, too.)
#
# S3 stores *objects*, which are files for our purposes, in a *bucket*. A large
# object is uploaded in parts: *create*, *upload part* 1, 2, …, *complete*
# (https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html).
# Until the upload is completed, no listing of the bucket shows the object, but
# you pay for its parts.
#
# The next cell starts a server of the package moto on this machine. It is a
# **stand-in** for S3: it speaks S3's protocol over HTTP, but it shows neither
# S3's speed nor its price. A checkpoint of step 10 is saved there. Then a rank
# begins to upload one of step 20, and is killed half-way. If the packages are
# not installed here, the cell shows what they gave on another machine.

# %%
if learn.ready():
    import boto3
    from lesson.stand_in import start_server

    start_server()
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket="runs")
    runs = Checkpoints("s3://runs/lesson")
    runs.save(10, {"weights": torch.ones(4)}, {})
    killed = ""
    try:
        dtlib.launch(trainer.upload_and_die, "s3://runs/lesson", ranks=1)
    except DtlibError as error:
        killed = str(error)
    listed = s3.list_objects_v2(Bucket="runs")["Contents"]
    begun = s3.list_multipart_uploads(Bucket="runs")["Uploads"]
    bucket = {
        "killed": killed,
        "listed": [one["Key"] for one in listed],
        "unfinished": [one["Key"] for one in begun],
        "latest": runs.latest().step,
    }
else:
    bucket = learn.recorded("06_s3")
print(bucket["killed"])
print("listed:", *bucket["listed"])
print("unfinished:", *bucket["unfinished"])
assert bucket["latest"] == 10

# %% [markdown]
# The last whole checkpoint is that of step 10. Before the next save, `dtlib`
# removes what the interrupted one left behind. In a shell you can do so with
# `dtlib checkpoints s3://runs/lesson --clean`, which prints these lines:

# %%
if learn.ready():
    from dtlib.training.checkpoint.listing import list_checkpoints

    cleaned = list(list_checkpoints("s3://runs/lesson", clean=True))
    assert "Uploads" not in s3.list_multipart_uploads(Bucket="runs")
else:
    cleaned = bucket["cleaned"]
print(*cleaned, sep="\n")
if record and learn.ready():
    told_s3 = {**bucket, "cleaned": cleaned}
    print(learn.keep_record("06_s3", told_s3, ("s3fs", "moto")).name)

# %% [markdown]
# `dtlib train … --checkpoints s3://BUCKET/PREFIX` saves in your own bucket.
# Also give the bucket a rule that aborts unfinished uploads after some days
# (`AbortIncompleteMultipartUpload`): a run that is never resumed never cleans
# up.
#
# ## What is the model worth? Perplexity and its protocols
#
# How good is the model in a checkpoint? You measure its **perplexity** on
# held-out text, which it was not trained on: the exponential of the mean loss
# per token. A model with a perplexity of 10 is as unsure of the next token as
# if it had to choose among 10 that are equally likely. Lower is better.
#
# The number depends on a **protocol**, that is, on how you measure. A model
# sees at most a **window** of tokens at once, so a long text is cut into
# windows. Each window begins one **stride** after the one before it. If the
# stride is shorter than the window, windows overlap. Then a window reads the
# tokens of the overlap only as context; it scores the others, which means that
# only their loss counts. So each token is scored once, and most of them with
# more context. **Padding** fills up a window that is too short; its tokens
# must not count.
#
# Worked example: 9 tokens, window 5, stride 2. Token 0 has no context and is
# never scored. The first window reads tokens 0 to 4 and scores 1 to 4. The
# second one reads tokens 2 to 6; of these 2, 3 and 4 are scored already, so it
# scores only 5 and 6. The third one reads tokens 4 to 8, scores 7 and 8, and
# reaches the end of the text.
#
# ## Exercise 4: each token once
#
# ●●○ *12 minutes, stretch.* A text has `length` tokens. Return a list with
# `(begin, end, first)` for each window: the model reads tokens `begin` to
# `end - 1`, and scores those from `first` on. The second window of the worked
# example is `(2, 7, 5)`. Windows start at 0, `stride`, 2 · `stride`, …, and
# the first one that reaches the end of the text is the last. `stride` is
# shorter than `window`.


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
# The next cell trains `nano` for a few steps, loads it from its checkpoint,
# and measures its perplexity on one text by six protocols.

# %%
from dtlib.data import open_text

settings = dict(steps=steps, global_batch=8, max_length=64, num_samples=128)
trained = dtlib.train(
    "text", strategy="single", out=tempfile.mkdtemp(), **settings
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
    for span in cut(len(text), window, stride):
        begin, end, first = map(int, span)
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
# The model is the same in every row. Even the protocols that score each token
# once differ, because a token at the start of a window has less context. When
# padding counts, the number is not a perplexity of this text at all. You can
# compare two perplexities only if both were measured with the same window,
# stride and tokenizer.
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
# - Write under another name, fsync, rename, and fsync the folder. On S3, where
#   general-purpose buckets have no rename, a manifest that is written last
#   makes a checkpoint count.
# - Load with `weights_only=True`; publish weights as safetensors.
# - A whole checkpoint needs the memory of the whole state on at least one
#   rank. A sharded one is written by all ranks at once, and an asynchronous
#   one costs a copy.
# - A perplexity means something only together with its protocol.

# %%
learn.take_away()
