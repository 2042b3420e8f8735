"""Exercise 7.4, second half: the time of a tree, also where N is no power of two: 6, 5 and 3.

⌈2·log2 N⌉ is right for 6 and 3 and wrong for 5; rounding log2 N, too.
"""

import math  # noqa: F401 (the solution uses it)

from dtlib.learn.solutions import solution

from . import cost

tree_time = solution("tree_time", globals())

EXERCISE = cost.exercise(
    tree_time,
    ranks=(64, 8, 4, 6, 5, 3),
    messages="rounds",
    mistakes=[("part_of_a_round", {"math.ceil(math.log2(N))": "math.log2(N)"})],
)
