# %% [raw]
# ---
# number: "NN"
# title: TITLE
# does: share a batch out to ranks, and say how much of their time is used
# objectives:
#   - say how many samples the busiest rank gets
#   - compute the efficiency of several ranks
#   - read from a figure where one more rank does not help
# minutes: {read: 5, exercises: 10}
# needs: [laptop]
# builds_on: ["00"]
# ---

# %% [markdown]
# *`dtlib lessons new` made this room. It passes its tests as it is, and
# everything in it is an example: write your lesson over it.*
#
# A batch of 10 samples is shared out to 4 ranks. Every sample takes the same
# time. **Are four ranks four times as fast as one?**

# %%
from dtlib import learn

learn.start("NN")

# %% [markdown]
# You may change these numbers.

# %% tags=["parameters"]
samples = 10
most_ranks = 10

# %% [markdown]
# ## Your prediction
#
# Commit it before you go on.

# %%
learn.predict("speed_up")

# %% [markdown]
# ## The busiest rank
#
# The ranks share the samples as evenly as they can, and a step ends when the
# slowest rank has finished. So the time of a step is the time of the largest
# share. A worked case: 7 samples on 3 ranks make shares of 3, 2 and 2.
#
# ## Exercise 1: the largest share
#
# ●○○ *5 minutes.* How many samples does the busiest rank get?

# %% tags=["exercise"]
import math


def largest_share(samples, ranks):
    """Samples of the busiest rank, a whole number."""
    ### BEGIN SOLUTION
    return math.ceil(samples / ranks)
    ### END SOLUTION


# %% tags=["check"]
learn.check("largest_share", largest_share)

# %%
share = learn.given("largest_share")
learn.measured("speed_up", 10 / share(10, 4), "times")

# %% [markdown]
# The **speed-up** says how many times as fast the ranks are as one rank. The
# **efficiency** is the speed-up for each rank: the part of the ranks' time
# in which they work. It is 1 where nobody waits.
#
# ## Exercise 2: efficiency
#
# ●○○ *5 minutes.* Return the efficiency, usually from 0 to 1.


# %% tags=["exercise"]
def efficiency(alone, together, ranks):
    """Efficiency of `ranks` ranks.

    `alone` and `together` are the seconds of one rank and of all of them.
    """
    ### BEGIN SOLUTION
    return alone / (ranks * together)
    ### END SOLUTION


# %% tags=["check"]
learn.check("efficiency", efficiency)

# %% [markdown]
# ## One more rank
#
# Your two functions, for 1 rank and more. A sample takes one unit of time.

# %%
import matplotlib.pyplot as plt

efficiency_of = learn.given("efficiency")
rows = []
for ranks in range(1, most_ranks + 1):
    busiest = share(samples, ranks)
    part = efficiency_of(samples, busiest, ranks)
    rows.append([ranks, busiest, samples / busiest, part])
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
numbers, _, speed, _ = zip(*rows)
axes.plot(numbers, numbers, color="gray")
axes.text(numbers[-1], numbers[-1], "nobody waits", ha="right")
axes.plot(numbers, speed, "o--")
axes.set(xlabel="ranks", ylabel="speed-up, computed")
axes.set_title("The speed-up grows in steps")
plt.show()

# %%
learn.table(
    [[n, most, f"{s:.2f}", f"{part:.0%}"] for n, most, s, part in rows],
    ["ranks", "largest share", "speed-up", "efficiency"],
    f"{samples} samples, computed",
)

# %% [markdown]
# With 10 samples 9 ranks are no faster than 5: somebody still has 2.
#
# ## Questions

# %% tags=["quiz"]
learn.quiz()

# %%
learn.take_away()
