"""Exercise 21.3: the share of a step that behaves as if it were serial."""

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import words
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed

SHARE = "(1 / speedup - 1 / ranks) / (1 - 1 / ranks)"  # a piece of the solution's code


def case(speedup, ranks):
    """Label a speed-up and the number of ranks that it was measured on."""
    return f"a speed-up of {speedup:g} on {ranks} ranks", (speedup, ranks)


EXERCISE = Answer(
    solution("serial_share", globals()),
    same=lambda a, b: abs(a - b) <= 1e-6,
    # The first case tells all known mistakes apart. The others are the lesson's worked example,
    # NVIDIA's published speed-up, a round number, a step with nothing serial, and one with
    # nothing parallel.
    cases=[case(1.6, 3), case(1.6, 2), case(6.72, 8), case(4.0, 10), case(8.0, 8), case(1.0, 4)],
    mistakes=[
        ("not_divided", {SHARE: "1 / speedup - 1 / ranks"}),
        ("efficiency", {SHARE: "speedup / ranks"}),
        ("lost", {SHARE: "1 - speedup / ranks"}),
        ("gustafson", {SHARE: "(ranks - speedup) / (ranks - 1)"}),
        ("saved", {SHARE: "1 - 1 / speedup"}),
        Mistake(
            "rounded",
            {SHARE: f"round({SHARE}, 3)"},
            when=lambda got, want: got in (round(want, 2), round(want, 3)),
        ),
        ("time", {SHARE: "1 / speedup"}),
        ("parallel", {SHARE: f"1 - {SHARE}"}),
        ("percent", {SHARE: f"100 * {SHARE}"}),
        ("overhead", {SHARE: "ranks / speedup - 1"}),
    ],
    other="serial_share",
    facts=lambda ranks: {"n": ranks},
    passed=lambda got, want: Passed(
        (("serial share, 6.72 on 8", words(got[2]), words(want[2]), ""),)
    ),
)
