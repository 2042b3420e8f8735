"""Exercise 22.3: what levers on different parts of a step give together, by Amdahl's law.

G. M. Amdahl, "Validity of the single processor approach to achieving large scale computing
capabilities", AFIPS Spring Joint Computer Conference (1967) 483-485.
"""

import math

from dtlib.learn.answers import Answer
from dtlib.learn.calls import to_number
from dtlib.learn.readers import words
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

GAIN, PART, REST = "return 1 / left", "share / speedup", " - share"  # pieces of the solution's code

bound = solution("bound", globals())


def case(*levers):
    """Label a list of levers: pairs of share and speed-up."""
    return "levers " + (", ".join(f"({s:g}, {f:g})" for s, f in levers) or "none"), ([*levers],)


def read(got):
    """Read a number; infinity over infinity gives nan."""
    value = to_number(got, nan=True)
    if math.isnan(value):
        raise Wrong("infinity")
    return value


def alone(put_together):
    """A mistake: the gains of single levers, put together."""
    return lambda levers: put_together([bound([one]) for one in levers])


EXERCISE = Answer(
    bound,
    read=read,
    # One lever, one that removes its part, two, three, one that slows its part down, and none.
    cases=[
        case((0.25, 2.0)),
        case((0.2, math.inf)),
        case((0.2, math.inf), (0.2, math.inf)),
        case((0.5, 2.5), (0.3, 3.0), (0.1, 1.0)),
        case((0.25, 0.5)),
        (*case(), "nothing"),
    ],
    mistakes=[
        ("time_left", {GAIN: "return left"}),
        ("exchanged", lambda levers: bound([(speedup, share) for share, speedup in levers])),
        ("time_saved", {GAIN: "return 1 - left"}),
        ("excess", {GAIN: "return 1 / left - 1"}),
        ("excess", {GAIN: "return 100 * (1 / left - 1)"}),
        ("rest", {"left = 1.0": "left = 0.0", REST: ""}),
        ("average", {PART: "share * speedup", GAIN: "return left"}),
        ("share_of_speedup", lambda levers: sum(s * f for s, f in levers)),
        ("subtracted_rest", {"left += share / speedup - share": "left -= share / speedup"}),
        ("added_rest", {REST: ""}),
        ("limit", lambda levers: 1 / (1 - sum(s for s, _ in levers))),
        ("speedup", lambda levers: max(f for _, f in levers)),
        ("multiplied", alone(math.prod)),
        ("added", alone(lambda gains: 1 + sum(gains) - len(gains))),
        ("added", alone(sum)),
        ("one_only", alone(lambda gains: max(gains, default=1.0))),
        ("one_only", alone(lambda gains: min(gains, default=1.0))),
        ("nothing", lambda levers: bound(levers) if levers else 0.0),
        ("rounded", lambda levers: round(bound(levers), 2)),
    ],
    other="bound",
    facts=lambda levers: {"n": len(levers), "left": words(1 - sum(s for s, _ in levers))},
    changed="changed",
    passed=lambda got, want: Passed(
        (("two levers that remove 20 % each", words(got[2]), words(want[2]), "times"),)
    ),
)
