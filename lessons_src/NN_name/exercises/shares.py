"""Exercise NN.1: how many samples the busiest rank gets."""

import math

from dtlib.learn.answers import Answer
from dtlib.learn.solutions import solution

UP = "math.ceil(samples / ranks)"  # words of the solution

largest_share = solution("largest_share", globals())

EXERCISE = Answer(
    largest_share,
    # Equal shares; a remainder; one that is rounded up; fewer samples than ranks.
    cases=[
        ("8 samples, 4 ranks", (8, 4)),
        ("10 samples, 4 ranks", (10, 4)),
        ("11 samples, 4 ranks", (11, 4)),
        ("2 samples, 3 ranks", (2, 3)),
    ],
    # The solution with other words in it, or any program.
    mistakes=[
        ("everything", {UP: "samples"}),
        ("fraction", {UP: "samples / ranks"}),
        ("rounded_down", lambda samples, ranks: math.floor(samples / ranks)),
        ("rounded", {UP: "round(samples / ranks)"}),
        ("one_more", {UP: "samples // ranks + 1"}),
    ],
)
