"""Exercise NN.2: the part of the ranks' time in which they work."""

from dtlib.learn.answers import Answer
from dtlib.learn.solutions import solution

efficiency = solution("efficiency", globals())

EXERCISE = Answer(
    efficiency,
    # Nobody waits; somebody does; another number of ranks.
    cases=[
        ("8 s alone, 2 s on 4 ranks", (8.0, 2.0, 4)),
        ("10 s alone, 3 s on 4 ranks", (10.0, 3.0, 4)),
        ("10 s alone, 4 s on 3 ranks", (10.0, 4.0, 3)),
    ],
    mistakes=[
        ("speed_up", {"(ranks * together)": "together"}),
        ("per_cent", {"alone /": "100 * alone /"}),
        ("upside_down", {"alone / (ranks * together)": "ranks * together / alone"}),
        ("no_ranks", {"alone / (ranks * together)": "together / alone"}),
    ],
)
