# %% [raw]
# ---
# number: "00"
# title: Start here
# does: run four ranks, see two train what one trains, divide a batch
# objectives:
#   - run a cell on four processes and say what rank and world size are
#   - show that two ranks train the same model as one
#   - cut a batch into shares and add up the results of the ranks
# minutes: {read: 15, exercises: 15}
# needs: [laptop]
# builds_on: []
# ---

# %% [markdown]
# Training on many machines rests on one promise: **the work is split, and the
# result stays the same.** Is that true? In ten minutes you see it on your own
# machine, with real processes and without a GPU.
#
# Click a cell and press **Shift+Enter** to run it. Start with the next cell,
# and start with it again whenever you have restarted the kernel. If a form
# then says *model not found*, run its cell again: your answers are not lost.

# %%
from dtlib import learn

learn.start("00")

# %%
from lesson.pictures import draw_step

draw_step()

# %% [markdown]
# You may change the numbers in the next cell. More steps make a longer run,
# here or on a GPU. Save your work as in any notebook. If an update changes a
# notebook that you have edited, your version moves to the folder `kept`
# beside it.

# %% tags=["parameters"]
steps = 20
global_batch = 16
window = 32
device = "cpu"

# %% [markdown]
# ## What can this machine do?
#
# The doctor examines Python, torch, memory, cores, ports and more, and starts
# two processes that add up a number. *missing* marks something that you have
# to install before you go on; a *note* marks something that a later lesson
# can use. After an arrow comes the remedy.

# %%
from dtlib.cluster import doctor

code = doctor.report(doctor.examine())

# %% [markdown]
# ## Four processes, one cell
#
# `%%ranks 4` runs a cell four times at once, in four processes. Each process
# has a number, its **rank**: 0, 1, 2 or 3. The number of processes is the
# **world size**. Inside such a cell you can use both names, `rank` and
# `world_size`, and also `torch` and `dist`. The latter is torch's module for
# communication between processes.

# %%
# %%ranks 4
import os

print(f"I am rank {rank} of {world_size}, process {os.getpid()}")

# %% [markdown]
# There are four process numbers, so these are four programs, and they share no
# memory. If one of them needs a number that another one has, it has to be
# sent.
#
# Below, rank $r$ contributes the number $10^r$, and all ranks call
# `all_reduce`. It adds up the contributions and gives every rank the sum: it
# replaces the number in `x` and returns nothing. The course calls such numbers
# **painted**, because the sum shows who is in it: each rank has its own digit.

# %%
# %%ranks 4
x = torch.tensor(10**rank)
before = x.item()
dist.all_reduce(x)
print(f"brought {before}, has {x.item()}")

# %% [markdown]
# The sum is 1111: it contains every rank once, and every rank has it. Without
# rank 1 you would read 1101; with rank 1 counted twice, 1121. The checks of
# this course read your results in this way.

# %% [markdown]
# ## Do two ranks train what one trains?
#
# You are about to train a tiny GPT twice on the same text: once on one rank,
# once on two. Each step uses 16 windows of 32 tokens (a **token** is a piece
# of text, here a word), and these 16 are the **global batch**. One rank
# computes all 16 windows; two ranks compute 8 windows each.
#
# Commit to a prediction first. Nobody grades it. You learn most from a guess
# that you were sure of and that turns out wrong.

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
# Both runs used the same kind of device: two runs that you compare should
# differ in one thing only. `one.loss` and `two.loss` are the losses of the
# last step, each the mean over the whole global batch. This is their distance,
# relative to the loss itself:

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
# The last line of that cell is an assertion. This course supports its claims
# with such lines: if the claim were wrong, the cell would stop with an error.
#
# The last step could be luck. Here are all steps.

# %%
from lesson.pictures import draw_losses

curves = {
    "one rank": [line["loss"] for line in one.history],
    "two ranks": [line["loss"] for line in two.history],
}
draw_losses(curves)

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
# $B$ samples, of which rank $r$ has the share $S_r$:
#
# $$g \;=\; \frac{1}{B}\sum_{i=1}^{B} g_i
#       \;=\; \frac{1}{B}\sum_{r=0}^{N-1}\;\sum_{i \in S_r} g_i$$
#
# For the inner sum a rank needs only its own share. The outer sum is one
# `all_reduce`. After it all ranks have the same $g$ and take the same step, so
# their models stay the same. This is **data parallel** training.
#
# Nothing in the formula says which sample goes where, or that $N$ is 2. Every
# sample has to be in exactly one share, and that is all. If the distance above
# is not exactly 0, the reason is that floating-point sums depend on their
# order.
#
# You now write the two sums of that formula.

# %% [markdown]
# ## Exercise 1: my share
#
# *About 6 minutes.* `batch` is a list of samples. Return the list of the
# samples that rank `rank` works on. Together the ranks take every sample once,
# and their shares differ by at most one sample. You decide which samples go
# where. Worked example: 6 samples on 3 ranks make shares of 2.
#
# Your line replaces the `...`.


# %% tags=["exercise"]
def my_share(batch, rank, world_size):
    """The samples of `batch` that rank `rank` works on, a list."""
    ### BEGIN SOLUTION
    return batch[rank::world_size]
    ### END SOLUTION


# %% [markdown]
# The next cell checks your function. Run it now, even if you have written
# nothing: it says so and goes on. For a wrong answer it shows one sentence and
# the smallest case in which the answer is wrong. If you make the same mistake
# again, a hint follows. The solution opens after two real attempts, or earlier
# if you ask for it.

# %% tags=["check"]
learn.check("my_share", my_share)

# %% [markdown]
# If you are stuck, remove the `#` from one of these lines and run the cell.

# %%
# learn.hint("my_share")
# learn.solution("my_share")

# %% [markdown]
# ## Exercise 2: everyone's sum
#
# *About 9 minutes.* Now the outer sum. Every rank calls this function with its
# own tensor of numbers. The tensors may differ in length, and one may be
# empty. Return the sum over all of them, on every rank. Look back at the cell
# that gave 1111: it has everything that you need.

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
# With both functions you can compute the mean of a batch of which each rank
# has only a part. `learn.given` returns your function if it has passed, and
# otherwise the course's own, so the next cells work either way.

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
# The names `share`, `total` and `batch` came from the notebook: a `%%ranks`
# cell sends a copy of every name that it uses to the ranks. The values that
# the ranks set do not come back. Compare with the plain mean:

# %%
sum(batch) / len(batch)

# %% [markdown]
# ## Three questions
#
# Every lesson ends with a few questions. Each answer explains itself, and if
# you try again, the numbers change.

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## Where to go from here
#
# {{lessons: routes}}
#
# The lessons are not taken in the order of their numbers: **lesson 07 comes
# next**. There you build the `all_reduce` that you used here, out of messages
# between neighbours. Lessons that are not in your folder are still being
# written; the table in the README lists those that exist.

# %%
learn.take_away()
