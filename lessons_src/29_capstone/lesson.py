# %% [raw]
# ---
# number: "29"
# title: Capstone
# does: >-
#   turn your own measurements into a paper, a request for node-hours and five
#   slides
# objectives:
#   - report an efficiency with its spread, against the right baseline
#   - find the usual errors of scaling studies in a table
#   - compute node-hours line by line, and mark what was not measured
# minutes: {read: 26, exercises: 32}
# needs: [laptop]
# builds_on: ["21", "22", "25"]
# ---

# %% [markdown]
# You have measured for weeks, and a committee has never heard of you. It has
# ten minutes and 150 hours on a node of eight GPUs to give away. **Would
# your numbers convince somebody who doubts them?**
#
# You measure a small strong and a small weak study, check them as a
# **reviewer** would (somebody who decides whether a paper is printed), and
# turn them into three PDFs: a paper of four pages, a request for node-hours
# and five slides. A **node-hour** is one hour of one node, whatever is done
# in it. The three exercises are the core; the words that only you can write
# take longer.

# %%
from dtlib import learn

learn.start("29")

# %%
from lesson.pictures import draw_question

draw_question()

# %% [markdown]
# To write about a study of your own, give the folder of a strong and of a
# weak one. If you leave them empty, the lesson measures small ones itself.
# With more cores or GPUs, raise `ranks` and `repeats`.

# %% tags=["parameters"]
strong = ""
weak = ""
ranks = "1,2"
repeats = 3
steps = 15
batch = 8
record = False

# %% [markdown]
# ## Your predictions
#
# Commit all three before you go on.

# %%
learn.predict("weak_here")

# %%
learn.predict("node_hours_of_a_run")

# %%
learn.predict("worse_efficiency")

# %% [markdown]
# ## What you have already
#
# Every lesson has added rows to `my_runs.csv`, and every `dtlib study` has
# written a table. These are the rows that a paper could use, and the studies
# in your folder:

# %%
from pathlib import Path

from lesson.making import what_you_have

what_you_have(Path("studies"))

# %% [markdown]
# ## Two small studies
#
# Now measure. These are the studies of lesson 21: **strong scaling** keeps
# the global batch (the samples of all ranks in one step), and **weak
# scaling** keeps the batch of each rank. A repeat is a whole turn over all
# numbers of ranks. One rank runs as `single`, without any communication. The
# first steps warm up and are profiled; only the others are timed.

# %%
from lesson.making import measure

folders = {
    "strong": Path(strong) if strong else measure("strong", ranks, repeats,
                                                  steps, batch),
    "weak": Path(weak) if weak else measure("weak", ranks, repeats, steps,
                                            batch),
}  # fmt: skip

# %% [markdown]
# `gather` collects everything that your documents may state: the rows of
# both tables, `my_runs.csv`, and from the records of the runs the versions,
# the settings and the shares of a step. If no efficiency can be computed from
# one of the studies, the lesson stops here and says why.

# %%
from lesson.making import refuse_without_curve

from dtlib.study.capstone import evidence

mine = evidence.gather(list(folders.values()))
refuse_without_curve(mine.studies)
for name, value in [("machine", mine.machine), *mine.versions.items()]:
    print(f"{name}: {value}")

# %% [markdown]
# ## An efficiency with its spread
#
# T(N) is the time of a step on N ranks. The **efficiency** is
# T(1) / (N·T(N)) for strong scaling and T(1) / T(N) for weak scaling, and 1
# if nothing is lost. A paper states three numbers for it: the median of the
# repeats, the smallest and the largest. The **range** from smallest to
# largest tells a reader what to expect from a single run.
#
# What is the **baseline**, T(1)? It is the run `single`, which sends nothing,
# in the same turn. A run of DDP (DistributedDataParallel) on one rank is
# slower, because it copies gradients into buckets, and relative to a slower
# run every efficiency looks better. In this worked example of weak scaling
# the second turn was slow for all:

# %%
import statistics

single = [10.0, 20.0, 12.0]  # ms, in three turns
ddp_on_one = [11.0, 22.0, 13.0]
ddp_on_two = [16.0, 25.0, 16.0]
each = [one / two for one, two in zip(single, ddp_on_two)]
flattered = [one / two for one, two in zip(ddp_on_one, ddp_on_two)]
for name, values in (("single", each), ("DDP on one rank", flattered)):
    print(f"against {name}: {statistics.median(values):.2f}", end=" ")
    print(f"({min(values):.2f} to {max(values):.2f})")
assert statistics.median(each) < statistics.median(flattered)

# %% [markdown]
# ## Exercise 1: efficiency with spread
#
# ●●○ *12 minutes.* `rows` has a dict for each run, in any order, such as
# `{"ranks": 2, "strategy": "ddp", "repeat": 0, "step_time_s": 5.0}`. Return
# a dict. Its keys are the numbers of ranks on which `"ddp"` ran. Each value
# has three numbers: the median, the smallest and the largest efficiency on
# that many ranks. The worked example gives `{2: (0.75, 0.625, 0.8)}`. Leave
# out a repeat whose turn has no `"single"`.


# %% tags=["exercise"]
def efficiency_with_spread(kind, rows):
    """ranks → (median, smallest, largest); `kind` is "strong" or "weak"."""
    ### BEGIN SOLUTION
    alone, found = {}, {}
    for row in rows:
        if row["strategy"] == "single":
            alone[row["repeat"]] = row["step_time_s"]
    for row in rows:
        if row["strategy"] == "ddp" and row["repeat"] in alone:
            more = row["ranks"] if kind == "strong" else 1
            value = alone[row["repeat"]] / (more * row["step_time_s"])
            found.setdefault(row["ranks"], []).append(value)
    return {
        n: (statistics.median(values), min(values), max(values))
        for n, values in found.items()
    }
    ### END SOLUTION


# %% tags=["check"]
learn.check("efficiency_with_spread", efficiency_with_spread)

# %% [markdown]
# Here is your function on your own runs. The course's table, which the paper
# uses, must agree with it. Did your study use another strategy on several
# ranks, such as `zero2`? Then your function gets its runs as `"ddp"`.

# %%
from lesson.pictures import draw_spread

from dtlib.measure.noise import compare
from dtlib.study import scaling

spread_of, found = learn.given("efficiency_with_spread"), {}
for kind in folders:
    rows = [
        {
            "ranks": row["world_size"],
            "strategy": "single" if row["strategy"] == "single" else "ddp",
            "repeat": row["repeat"],
            "step_time_s": row["step_time_s"],
        }
        for row in mine.studies[kind]
    ]
    found[kind] = spread_of(kind, rows)
    for n, values in scaling.paired(mine.studies[kind]).items():
        if n > 1:
            assert abs(found[kind][n][0] - statistics.median(values)) < 1e-9
            assert found[kind][n][1:] == (min(values), max(values))
draw_spread({k: scaling.paired(mine.studies[k]) for k in folders})

# %%
learn.table(
    [
        [kind, n, *(f"{value:.2f}" for value in values)]
        for kind in found
        for n, values in found[kind].items()
    ],
    ["study", "ranks", "median", "smallest", "largest"],
    "Your efficiencies, each relative to one rank in the same turn",
)

# %%
alone = {
    kind: [r["step_time_s"] for r in mine.studies[kind] if
           r["world_size"] == 1]
    for kind in found
}  # fmt: skip
most = {kind: max(found[kind]) for kind in found}
seen = {
    kind: compare(found[kind][most[kind]][0], alone[kind]) for kind in found
}
learn.measured("weak_here", seen["weak"].times, effect=seen["weak"])
what = "strong efficiency for the paper"
learn.my_run(what, seen["strong"].times, "of 1", effect=seen["strong"])

# %% [markdown]
# The course has measured the same two studies before. A number of another
# machine may stand in your paper if its source says *recorded*. It shows you
# what a second machine makes of the same code:

# %%
from dtlib.study.capstone import sections

if record:
    learn.keep_record("29_two_ranks", {"evidence": mine.as_dict()})
course = evidence.Evidence(**learn.recorded("29_two_ranks")["evidence"])
print(*sections.results(course), sep="\n")

# %% [markdown]
# ## What a reviewer looks for
#
# Wrong tables look as good as right ones. Here is a worked example: the
# author of this table says "strong scaling, efficiency 0.95 on 4 ranks". Look
# at the batch before you read on.

# %%
table = {1: (64, 100.0), 2: (128, 102.0), 4: (256, 105.0)}  # batch, ms
claim = table[1][1] / table[4][1]
print(f"T(1) / T(4) = {claim:.2f}")
each_rank = {batch // n for n, (batch, _) in table.items()}
print(f"the batch of each rank: {each_rank}")
assert round(claim, 2) == 0.95 and each_rank == {64}

# %% [markdown]
# The global batch grows with the ranks, so each rank has 64 samples
# throughout: this is weak scaling under the wrong name. Under the right name
# 0.95 is a good result. A curve that takes some of its points from one kind
# and some from the other means nothing at all.
#
# ## Exercise 2: find the error
#
# ●●● *12 minutes.* Write the check that a reviewer makes. `rows` are runs
# such as `{"ranks": 2, "batch": 8, "repeat": 0, "step_time_s": 5.0}`, where
# `batch` is the global batch. `kind` says what the author calls the curve,
# and `claimed` is the author's efficiency on the most ranks, with two
# decimals. Return the first of these that is true:
#
# | word | when |
# | --- | --- |
# | `"mixed"` | the batch of at least one row does not fit the kind |
# | `"no baseline"` | there is no run on 1 rank |
# | `"one repeat"` | fewer than two efficiencies are left on the most ranks |
# | `"fine"` | the claim is the median |
# | `"best of"` | the claim is the best repeat |
# | `"not measured"` | the claim is another number |
#
# Compute the efficiency of each repeat relative to 1 rank in its turn, and
# leave out a repeat whose turn has no run on 1 rank. Round the median and the
# best repeat with `round(…, 2)` before you compare them with the claim.


# %% tags=["exercise"]
def find_the_error(kind, rows, claimed):
    """The word for the first error, or "fine"."""
    ### BEGIN SOLUTION
    weak = kind == "weak"
    if len({r["batch"] / (r["ranks"] if weak else 1) for r in rows}) > 1:
        return "mixed"
    one = {r["repeat"]: r["step_time_s"] for r in rows if r["ranks"] == 1}
    if not one:
        return "no baseline"
    most = max(r["ranks"] for r in rows)
    each = [
        one[r["repeat"]] / (r["step_time_s"] * (1 if weak else most))
        for r in rows
        if r["ranks"] == most and r["repeat"] in one
    ]
    if len(each) < 2:
        return "one repeat"
    if round(statistics.median(each), 2) == claimed:
        return "fine"
    return "best of" if round(max(each), 2) == claimed else "not measured"
    ### END SOLUTION


# %% tags=["check"]
learn.check("find_the_error", find_the_error)

# %% [markdown]
# The course's own checker knows more errors, and describes each in a sentence
# with your numbers. The next cell first lets it read your own tables, and
# shows what it finds. Then it gets copies of them, each with one error
# planted:

# %%
from lesson.making import tell
from lesson.spoiling import claims_of, spoiled

from dtlib.study.capstone import claims, review

own = [
    fault.sentence
    for kind in folders
    for fault in review.of_curve(kind, mine.studies[kind])
]
tell("✗ Refused.", own)
found_in = {
    name: review.of_curve("strong", rows)
    for name, rows in spoiled(mine.studies).items()
}
if not own:  # otherwise there is no number to compare a claim with
    for name, one in claims_of(mine.studies).items():
        found_in[name] = claims.of_claim(one, mine.studies)
told = [
    [name, " ".join(fault.sentence for fault in faults)]
    for name, faults in found_in.items()
]
assert all(sentence for _, sentence in told)
learn.table(told, ["planted", "what the checker says"],
            "Errors planted in copies of your tables")  # fmt: skip

# %% [markdown]
# ## What a request costs
#
# A request for node-hours is a multiplication that a stranger can repeat. It
# needs the FLOP (floating point operations) of a run, the **peak** (the most
# FLOP/s that a data sheet promises), the **MFU** (model FLOP utilization: the
# share of the peak that one GPU reaches), and your efficiency. A worked
# example, line by line: GPT-2 XL on 30 billion tokens, on H100s.

# %%
from dtlib.sim import hardware
from dtlib.sim.estimate import Setup, estimate

setup = Setup("gpt2-xl", micro_batch=1)
each_token = estimate(setup).flop[0] / setup.sequence
flop = each_token * 30e9
peak = hardware.peak("h100", "bf16")
alone_hours = flop / (peak * 0.40) / 3600
print(f"{each_token:.4g} FLOP/token × 30e9 tokens = {flop:.4g} FLOP")
print(f"{flop:.4g} FLOP / ({peak:.4g} FLOP/s × 0.40) / 3600 s/h")
print(f"= {alone_hours:.1f} GPU-hours, if nothing is lost")
run = alone_hours / 0.8 / 8
print(f"{alone_hours:.1f} GPU-hours / 0.8 / 8 GPUs per node", end=" ")
print(f"= {run:.1f} node-hours")
learn.measured("node_hours_of_a_run", f"about {run:.0f}", source="simulated")
worse = 100 * ((alone_hours / 0.6) / (alone_hours / 0.8) - 1)
learn.measured("worse_efficiency", worse, source="simulated")

# %% [markdown]
# The efficiency is in the denominator: lost time has to be paid for. How many
# GPUs a run has does not matter: twice as many take half the time and cost
# the same, unless they lose more of it. The hours of one run are multiplied
# by the number of **runs** (settings times repeats), and a **reserve** for
# runs that fail is added.
#
# ## Exercise 3: node-hours
#
# ●○○ *8 minutes.* Return the whole node-hours to ask for. `flop` is for one
# run, `peak` in FLOP/s for one GPU, `mfu` and `efficiency` are shares, and a
# reserve of 0.1 adds a tenth. Round up, once, at the end.

# %% tags=["exercise"]
import math


def node_hours(flop, peak, mfu, efficiency, gpus_per_node, runs, reserve):
    """Whole node-hours for all runs and the reserve."""
    ### BEGIN SOLUTION
    alone = flop / (peak * mfu) / 3600  # GPU-hours
    one_run = alone / efficiency / gpus_per_node  # node-hours
    return math.ceil(one_run * runs * (1 + reserve))
    ### END SOLUTION


# %% tags=["check"]
learn.check("node_hours", node_hours)

# %% [markdown]
# Your efficiency was measured on few ranks, and the request is for more.
# Whatever you use beyond your measurement is an **extrapolation**, and has to
# be marked. Here it is *simulated*, and it supposes that a ring all-reduce
# (lesson 07) causes all of the loss. There each of N ranks sends 2(N − 1)/N
# times the gradients: once on 2 ranks, almost twice on very many. In weak
# scaling the lost time of a step grows in the same way. Try it:

# %%
learn.what_if("request")

# %% [markdown]
# Now the whole request, from your own weak efficiency, each line with its
# unit and its source. Your function must agree with the last line.

# %%
from dtlib.study.capstone.request import Request, costs

wanted = Request(model="gpt2-xl", tokens=30e9, gpus=16, runs=3, study="weak")
price = costs(wanted, mine.studies)
(used,) = [
    line.value for line in price.lines if line.what == "efficiency on 16 GPUs"
] or [seen["weak"].times]
hours = learn.given("node_hours")
assert hours(flop, peak, 0.4, used, 8, 3, 0.1) == price.middle
learn.my_run("node-hours of the request", price.middle, "node-hours",
             source="simulated")  # fmt: skip
learn.table(
    [[line.what, line.how, line.said, line.source] for line in price.lines],
    ["what", "how", "value", "source"],
    f"A request of {price.middle} node-hours; from {price.best} to"
    f" {price.worst}, if the efficiency is that of your best or worst repeat",
)

# %% [markdown]
# ## Your words
#
# Numbers come from your records, but a question, a discussion and limits do
# not. Write them into the file `my_paper.yaml`, which the next cell begins
# for you. No character has a special meaning there. Until you have written
# something, the documents take the example of this cell. It has no
# discussion, because nobody but you can discuss your curves.

# %%
from dtlib.study.capstone.words import ASKED, Words, read

yours = read(Path("my_paper.yaml"))
example = Words.of(
    {
        "author": "an example of the course, to be replaced by your words",
        "question": "How well does the training of a small GPT scale from"
        " one rank to two on this machine?\n\nWe ask because we want to"
        " know how many ranks are worth their cost.",
        "limits": "We measured one small model, on one machine, for a few"
        " steps. We do not know how larger models or GPUs behave.",
        "purpose": "We want to train a GPT-2 XL from scratch and compare"
        " three seeds.",
    }
)
words = yours if len(yours.missing) < len(ASKED) else example

# %% [markdown]
# A number in your text must be in your records, too. The checker reads your
# text and refuses what nobody measured, unless the sentence says that the
# number is simulated, cited or a target:

# %%
boast = Words.of({"discussion": "64 GPUs are 61.37 times as fast as one."})
tell("✗ Refused.", (f.sentence for f in claims.of_words(boast, mine)))

# %% [markdown]
# ## Paper, request, slides
#
# Everything is checked once more and written into the folder `capstone`.
# The PDFs are set by **Typst**, a typesetting program that works offline. It
# gets your text as data, so your text cannot break the layout. On the
# command line `dtlib capstone studies/capstone` does the same for the two
# small studies; give it the folders of your own.

# %%
from lesson.making import show_pages

from dtlib.study.capstone import documents

out = Path("capstone")
out.mkdir(exist_ok=True)
faults = [fault.sentence for fault in claims.of_everything(mine, words)]
tell("✗ Refused.", faults)
if not faults:
    tell("✓ Written.", documents.write(mine, words, out))

# %%
show_pages("paper", out, faults)

# %%
show_pages("proposal", out, faults)

# %%
show_pages("slides", out, faults)

# %% [markdown]
# ## A peer reads it
#
# Exchange documents with somebody and give points by this rubric, which is
# also in `capstone/rubric.pdf`: 0 for missing, 1 for partly there, 2 for
# there. If nobody is near, read your own paper two days from now.

# %%
from dtlib.study.capstone.contents import RUBRIC

learn.table(RUBRIC, ["line", "what to look for"],
            f"Rubric for a peer, {2 * len(RUBRIC)} points")  # fmt: skip

# %% [markdown]
# ## Quiz

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## Take-away
#
# - A result is a median with its range, relative to one rank that sends
#   nothing, in the same turn.
# - A curve is strong or weak, on one kind of device, and only the number of
#   ranks varies in it.
# - The efficiency is in the denominator of every request: at 0.6 instead of
#   0.8 you pay a third more.
# - Say of each number where it comes from: measured, data sheet, assumed,
#   simulated. Mark what lies beyond your measurement.
# - A first small allocation, in which you measure on two nodes, makes the
#   next request honest.

# %%
learn.take_away()
