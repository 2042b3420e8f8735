# %% [raw]
# ---
# number: "00"
# title: Start here
# does: run four ranks, see two train what one trains, share out a batch
# objectives:
#   - run a cell on four processes and say what rank and world size are
#   - show that two ranks train the same model as one
#   - cut a batch into shares and add up what the ranks found
# minutes: {read: 15, exercises: 15}
# needs: [laptop]
# builds_on: []
# ---

# %% [markdown]
# Training on many machines rests on one promise: **the work is split, and
# the result is the same.** Is that true? In ten minutes you see it on your
# own machine, with real processes, no GPU needed.
#
# Click a cell and press **Shift+Enter** to run it. Begin with this one, and
# begin with it again whenever you have restarted the kernel. A form that
# then says *model not found* is back when you run its cell: nothing is lost.

# %%
from dtlib import learn

learn.start("00")

# %% [markdown]
# The next cell holds the numbers that you may change in this lesson. More
# steps make a longer run, here or on a GPU. Save what you write as in any
# notebook; if the course changes under it, yours is moved to the folder
# `kept` beside it.

# %% tags=["parameters"]
steps = 20
global_batch = 16
window = 32
device = "cpu"

# %% [markdown]
# ## What can this machine do?
#
# The doctor looks at Python, torch, memory, cores, ports and more, and
# starts two processes that add up a number. *missing* would stop you here,
# a *note* is what some later lesson would like to have. Where an arrow
# follows, it is the remedy.

# %%
from dtlib.cluster import doctor

code = doctor.report(doctor.examine())

# %% [markdown]
# ## Four processes, one cell
#
# `%%ranks 4` runs a cell four times at once, in four processes. Each has a
# number of its own, its **rank**: 0, 1, 2 or 3. How many there are is the
# **world size**. Both names are at hand inside such a cell, and so are
# `torch` and `dist`, torch's module for talk between processes.

# %%
# %%ranks 4
import os

print(f"I am rank {rank} of {world_size}, process {os.getpid()}")

# %% [markdown]
# Four process numbers: these are four programs, and no memory is shared. If
# they want to know something of each other, they must send it.
#
# Below, rank $r$ brings the number $10^r$, and all call `all_reduce`, which
# adds up what everybody brings and hands the sum to everybody. The numbers
# are chosen so that the sum reads aloud: each rank is one digit.

# %%
# %%ranks 4
x = torch.tensor(10**rank)
before = x.item()
dist.all_reduce(x)
print(f"brought {before}, has {x.item()}")

# %% [markdown]
# 1111: everyone is in it, once, and every rank has it. Had rank 1 been
# forgotten you would read 1101; counted twice, 1121. The checks of this
# course read your answers in this way.

# %% [markdown]
# ## Do two ranks train what one trains?
#
# You are about to train a tiny GPT twice on the same text: once on one
# rank, once on two. Each step uses 16 windows of 32 words, the **global
# batch**. One rank computes all 16; two ranks compute 8 each.
#
# Commit a prediction first. Nobody marks it. A guess that was *sure* and
# wrong is the best thing that this lesson can find for you.

# %%
learn.predict("two_against_one")

# %%
import dtlib

settings = dict(
    steps=steps,
    global_batch=global_batch,
    max_length=window,
    device=device,
)
one = dtlib.train("text", ranks=1, **settings)
two = dtlib.train("text", ranks=2, **settings)

# %% [markdown]
# Both runs are done, on one kind of device: what you compare must differ in
# one thing only. `one.loss` and `two.loss` are the losses of the last step,
# each the mean over the whole global batch. Their distance, relative to the
# loss itself:

# %%
distance = abs(one.loss - two.loss) / one.loss
same = "the same to six digits" if distance < 1e-6 else "different"
learn.measured("two_against_one", same)
what = "relative distance of the losses of two ranks and one"
learn.my_run(what, distance)
print(f"one rank {one.loss:.9f}, two ranks {two.loss:.9f}")
print(f"relative distance {distance:.1e}")
assert distance < 1e-6

# %% [markdown]
# That last line is how this course makes claims: an assertion, run before
# your eyes. If it did not hold, the cell would stop with an error.
#
# The last step could be luck. Here are all of them.

# %%
import matplotlib.pyplot as plt

curves = {
    "one rank": [line["loss"] for line in one.history],
    "two ranks": [line["loss"] for line in two.history],
}
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.plot(curves["one rank"], "o", mfc="none", ms=9, label="one rank")
axes.plot(curves["two ranks"], "x", ms=6, label="two ranks")
axes.set(xlabel="step", ylabel="loss (nats per token)")
axes.set_xticks(range(0, steps, max(1, steps // 5)))
axes.legend()
plt.show()

# %%
learn.table(
    [
        [step, *(f"{losses[step]:.6f}" for losses in curves.values())]
        for step in sorted({0, 1, steps // 2, steps - 1})
    ],
    ["step", "one rank", "two ranks"],
    "The same losses in numbers",
)

# %% [markdown]
# ## Why it holds
#
# A training step follows the **mean gradient over the global batch**. With
# $B$ samples, of which rank $r$ holds the share $S_r$:
#
# $$g \;=\; \frac{1}{B}\sum_{i=1}^{B} g_i
#       \;=\; \frac{1}{B}\sum_{r=0}^{N-1}\;\sum_{i \in S_r} g_i$$
#
# The inner sum needs only the rank's own share. The outer sum is one
# `all_reduce`. After it all ranks hold the same $g$ and take the same step,
# so they stay the same model: this is **data parallel** training.
#
# Nothing in the formula says which sample goes where, or that $N$ is 2.
# What must hold is that every sample is in exactly one share. If the distance
# above is not exactly 0, it is because floating-point sums depend on their
# order.
#
# You now write the two halves of that formula.

# %% [markdown]
# ## Exercise 1: my share
#
# *About 6 minutes.* `batch` is a list of samples. Return the list of those
# that rank `rank` works on. Over all ranks every sample is taken once, and
# the shares differ by one sample at most. Which ones go where is up to you.
# A worked case: 6 samples on 3 ranks make shares of 2.
#
# The `...` stands where your line goes.


# %% tags=["exercise"]
def my_share(batch, rank, world_size):
    """The samples of `batch` that rank `rank` works on, a list."""
    ### BEGIN SOLUTION
    return batch[rank::world_size]
    ### END SOLUTION


# %% [markdown]
# The next cell checks it. Run it now, even with nothing written: it tells
# you so and goes on. A wrong answer gets one sentence and the smallest case
# that shows it. The same mistake again brings a hint. The solution opens
# after two real attempts, and it is there if you ask for it.

# %% tags=["check"]
learn.check("my_share", my_share)

# %% [markdown]
# Two lines for when you are stuck. Take the `#` away from one and run the
# cell.

# %%
# learn.hint("my_share")
# learn.solution("my_share")

# %% [markdown]
# ## Exercise 2: everyone's sum
#
# *About 9 minutes.* Now the outer sum. Every rank calls this function with
# a tensor of numbers of its own; the tensors may differ in length, and one
# may be empty. Return the sum over all of them, on every rank. Look back at
# the cell that gave 1111: it holds all that you need.

# %% tags=["exercise"]
import torch.distributed as dist


def everyones_sum(numbers):
    """The sum of the numbers of all ranks, the same on every rank."""
    ### BEGIN SOLUTION
    total = numbers.sum()
    dist.all_reduce(total)
    return total
    ### END SOLUTION


# %% tags=["check"]
learn.check("everyones_sum", everyones_sum)

# %% [markdown]
# With both halves you can compute the mean of a batch that no rank holds.
# `learn.given` hands over your function if it passed, and the course's own
# if not, so that what follows works either way.

# %%
share = learn.given("my_share")
total = learn.given("everyones_sum")
batch = [float(i * i) for i in range(10)]

# %%
# %%ranks 3
mine = share(batch, rank, world_size)
print(f"my share {mine}")
everyone = total(torch.tensor(mine))
print(f"mean over the batch {float(everyone) / len(batch)}")

# %% [markdown]
# The names `share`, `total` and `batch` came from the notebook: what such a
# cell uses travels to the ranks, as a copy. What the ranks set does not
# come back. Compare with the plain mean:

# %%
sum(batch) / len(batch)

# %% [markdown]
# ## Three questions
#
# Every lesson ends with a few. Each answer says why; try again, and the
# numbers change.

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## Where to go from here
#
# {{lessons: routes}}
#
# A lesson's number is its place on the shelf, not its turn: **lesson 07
# comes next**. There you build the `all_reduce` that you used here, out of
# messages between neighbours. Lessons that are not in your folder yet are
# still being written; the table in the README says which are there.

# %%
learn.take_away()
