# %% [raw]
# ---
# number: "10"
# title: The bug clinic
# does: >-
#   tell from what the ranks left behind which rank, which line and which kind
#   of bug it is, and prove the cure on ranks
# objectives:
#   - name who waits for whom, in which collective, on which line
#   - tell eleven silent bugs apart by losses and checksums of all ranks
#   - prove a cure on several numbers of ranks and with other numbers
# minutes: {read: 20, exercises: 65}
# needs: [laptop]
# builds_on: ["07", "09"]
# ---

# %% [markdown]
# A run on four ranks has stopped, and nothing was printed for ten minutes.
# Another one ended with a loss that is a little too high. **Which rank, which
# line, and which kind of bug?**
#
# In this lesson you are the doctor. Each of seventeen *patients* is a short
# program with one bug. Six are **loud**: they stop or raise. Eleven are
# **silent**: they end, and what they computed is wrong. You diagnose first,
# and only then write a cure, which is proven on ranks. No patient can hang
# this notebook: a rank that waits longer than three seconds is ended.
# Exercises 1 and 2, the diagnoses, are the core; 3, the cures, is *stretch*.

# %%
from dtlib import learn

learn.start("10")

# %%
from lesson.pictures import draw_question

draw_question()

# %% [markdown]
# The patients run on this many ranks:

# %% tags=["parameters"]
ranks = 3

# %% [markdown]
# ## Your predictions
#
# Commit all three before you go on.

# %%
learn.predict("first_error")

# %%
learn.predict("same_losses")

# %%
learn.predict("silent_share")

# %% [markdown]
# ## A worked diagnosis
#
# An all-reduce or a barrier ends only when every rank of the group has joined
# it, and calls are matched **by their order alone** (lesson 07). So there are
# three things to ask of a program that stands still:
#
# 1. Which ranks wait, in which call, on which line?
# 2. Who has not joined that call?
# 3. What is that rank doing instead?
#
# Here is a program in which rank 1 takes a detour. It is started with a
# time-out of 2 s, and each rank says where it was when the time was over:

# %%
import torch
import torch.distributed as dist
from lesson.ward import said

from dtlib.ranks.launcher import run_ranks


def detour():
    x = torch.ones(4)
    dist.all_reduce(x)
    if dist.get_rank() == 1:
        dist.barrier()
    dist.all_reduce(x)
    return {"sum": x.sum().item()}


for outcome in run_ranks(detour, ranks=3, timeout=2):
    print(f"rank {outcome.rank}: {said(outcome)}")

# %% [markdown]
# Ranks 0 and 2 wait in their second all_reduce. Rank 1 has not joined it: it
# waits in a barrier, which is *its* second collective. The bug is on the
# barrier's line, and its kind is a **mismatch**: ranks call different
# collectives at the same place.
#
# For a program that nobody watches, torch's **flight recorder** keeps the last
# collectives of each rank, with their numbers and lines. On NCCL you need it:
# a call returns before its collective has ended, so the rank waits on a later
# line, such as one with `.item()`. On gloo the record has no `send` and no
# `recv`; for these look at the **stack**, which shows where a rank is now.
#
# `dtlib clinic` reads the records of all ranks, with their stacks and logs,
# and answers the three questions. Here are the records of a small program that
# hung under torchrun:

# %%
from lesson.pictures import draw_records
from lesson.recorded import calls, hung

draw_records(calls())

# %%
print(hung().findings[0].sentence)

# %% [markdown]
# For a program of your own, start it like this and read what it left:
#
# ```bash
# torchrun --nproc-per-node 4 -m dtlib clinic record --into dumps train.py
# dtlib clinic dumps
# ```
#
# ## Loud patients
#
# First their programs, each with what it is given on every rank, then what
# each rank says of its end.

# %%
from lesson.ward import (
    LOUD,
    LOUD_KINDS,
    SILENT,
    SILENT_KINDS,
    examine,
    show,
)

show(*LOUD, ranks=ranks)

# %%
examine("p01", "p02", "p03", "p04", "p06", ranks=ranks)

# %% [markdown]
# p05 left what most runs on a cluster leave: the output of its job. It ran on
# three ranks of one node, and `srun --label` put the rank before each line; in
# a traceback, torch puts `[rank2]:` there, too.

# %%
from lesson.recorded import job_output

job_output()

# %%
for kind, meaning in LOUD_KINDS.items():
    print(f"{kind:<10} {meaning}")

# %% [markdown]
# ## Exercise 1: diagnose the loud ones
#
# ●●○ *10 minutes.* For each patient return three things: the **rank** that
# differs from all others where it should not, or `None` if there is no such
# rank; the **line** where the bug is; and its **kind**, one of the words
# above. For the worked example that was `(1, 12, "mismatch")`.


# %% tags=["exercise"]
def diagnose_loud(patient):
    """(rank or None, line, kind) of patient "p01" to "p06" on three ranks."""
    ### BEGIN SOLUTION
    return {
        "p01": (None, 10, "order"),
        "p02": (2, 12, "mismatch"),
        "p03": (2, 9, "uneven"),
        "p04": (None, 21, "unused"),
        "p05": (None, 9, "port"),
        "p06": (None, 20, "saving"),
    }[patient]
    ### END SOLUTION


# %% tags=["check"]
learn.check("diagnose_loud", diagnose_loud)

# %%
from lesson.ward import outcomes

ended = outcomes("p04")
own = [one for one in ended if one.status == "error" and not one.peer_gone]
learn.measured("first_error", len(own) / len(ended) * 100, "%")

# %% [markdown]
# ## Silent patients
#
# These end, and no error tells you that they are wrong. What tells it is a
# comparison: of the ranks with one another, by **checksums** of what should be
# equal (weights, running means) or different (batches); of the loss with the
# loss on one rank; of a count with what you know.

# %%
show(*SILENT, ranks=ranks)

# %%
examine(*SILENT, ranks=ranks)

# %%
for kind, meaning in SILENT_KINDS.items():
    print(f"{kind:<10} {meaning}")

# %% [markdown]
# The same patients on one rank. What differs here from the lines above, apart
# from rounding, is a symptom, unless it should differ.

# %%
examine(*SILENT, ranks=1)

# %% [markdown]
# ## Exercise 2: diagnose the silent ones
#
# ●●○ *25 minutes.* Return the same three things. If something is missing,
# return the line that does something wrong because of that.


# %% tags=["exercise"]
def diagnose_silent(patient):
    """(rank or None, line, kind) of patient "p07" to "p17" on three ranks."""
    ### BEGIN SOLUTION
    return {
        "p07": (None, 6, "seeds"),
        "p08": (None, 9, "epoch"),
        "p09": (None, 10, "padding"),
        "p10": (None, 12, "division"),
        "p11": (None, 9, "weighting"),
        "p12": (None, 10, "batch_norm"),
        "p13": (0, 12, "branch"),
        "p14": (None, 11, "stale"),
        "p15": (None, 13, "scheduler"),
        "p16": (None, 8, "clipping"),
        "p17": (2, 10, "skip"),
    }[patient]
    ### END SOLUTION


# %% tags=["check"]
learn.check("diagnose_silent", diagnose_silent)

# %%
alike = [
    name
    for name in SILENT
    if len({str(one.value) for one in outcomes(name, ranks=ranks)}) == 1
]
print("the same on all ranks:", ", ".join(alike))
learn.measured("silent_share", len(alike), "patients")

# %% [markdown]
# Checksums that agree prove little: a bug that all ranks share leaves them
# equal. Some of these bugs show when you compare with one rank. Others are
# there on one rank, too, and show only when you compare with what you know:
# here, that the loss of p14 should fall.

# %%
two = outcomes("p14", ranks=1)[0].value["loss"]
learn.measured("same_losses", max(two[3:]) / two[0], "times")

# %%
from lesson.pictures import draw_losses

draw_losses(two)

# %% [markdown]
# ## Exercise 3: cure them
#
# ●●● *30 minutes, stretch.* For each patient return a dict: the number of a
# line, and the text that takes its place (without indentation; several lines
# may take the place of one). Leave the last line of each program alone: it
# only reports. Two worked examples, which cure nobody:
#
# ```python
# {12: "dist.barrier()"}
# {9: "sampler.shuffle = True\nprint(rank)"}   # two lines for one
# ```
#
# A cure must do more than let the program end. Each one runs on three ranks
# and on four, and some on two and five, with the numbers above and with
# **others**; a rank is given its own numbers alone. The check also looks at
# what the ranks do: which collectives they call, who writes, who takes a port,
# and whether a second run gives the same.


# %% tags=["exercise", "stretch"]
def cure(patient):
    """Other text for lines of patient "p01" to "p17": {line: text}."""
    ### BEGIN SOLUTION
    return {
        "p01": {
            10: "work = dist.isend(mine, dst=other)",
            11: "dist.recv(theirs, src=other)\nwork.wait()",
        },
        "p02": {12: "dist.all_reduce(best, dist.ReduceOp.MIN)"},
        "p03": {7: "mine = torch.cat([samples, torch.zeros(1)])[rank::n]"},
        "p04": {
            19: "model = DistributedDataParallel(\n"
            "    TwoHeads(), find_unused_parameters=True\n)"
        },
        "p05": {9: "if rank == 0:\n    server.bind(('127.0.0.1', port))"},
        "p06": {20: "if rank == 0:\n    save(Path(place[0]), step)"},
        "p07": {6: "generator = torch.Generator().manual_seed(seed + rank)"},
        "p08": {9: "sampler.set_epoch(epoch)\norders[epoch] = list(sampler)"},
        "p09": {9: "mine = torch.arange(rank, len(right), n)"},
        "p10": {12: "w -= 0.3 * gradient / n"},
        "p11": {9: "loss = losses.sum() / count"},
        "p12": {
            10: "mean = norm.running_mean\ndist.all_reduce(mean)\nmean /= n"
        },
        "p13": {12: "if mean.norm() > 1:"},
        "p14": {11: "optimizer.zero_grad()\nloss.backward()"},
        "p15": {13: "for _ in range(1):"},
        "p16": {8: 'for turn in ("unscale", "clip"):'},
        "p17": {
            10: "dist.all_reduce(skip)\n"
            "gradient = torch.zeros(1) if skip else x - w"
        },
    }[patient]
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("cure", cure)

# %% [markdown]
# ## What a hang costs
#
# torch gives up on a collective after ten minutes on NCCL and after thirty on
# gloo, unless you give `init_process_group` another `timeout`. Until then,
# every device of the job waits.

# %%
learn.what_if("hang")

# %% [markdown]
# ## Quiz

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## Take-away
#
# - Ask who waits, who has not joined, and what that rank is doing instead.
# - The n-th collective of one rank meets the n-th of all others. Look for the
#   bug at the first place where they differ, or just before it; the line that
#   hangs may come later.
# - The rank that times out is seldom the one at fault.
# - Checksums find ranks that part. A run on one rank finds what depends on the
#   number of ranks. For the rest you need a number that you know.
# - Try a cure on three ranks and on four, and with other numbers: many wrong
#   ones pass on two, or with the numbers at hand.

# %%
learn.take_away()
