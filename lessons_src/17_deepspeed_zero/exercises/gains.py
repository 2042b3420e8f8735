"""Exercise 17.2: from a table of runs, how much each change alone gained.

Seconds are made up so that a wrong comparison gives itself away: precision alone makes a step 3
times as fast, the optimizer 1.5 times, sharding 0.75 times, and all three together 6 times.
"""

import copy
import statistics  # noqa: F401 (the solution uses it)
from collections.abc import Mapping

from dtlib.learn.alike import alike
from dtlib.learn.answers import Answer
from dtlib.learn.calls import to_number
from dtlib.learn.mistakes import Mistake
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

FACTORS = ["precision", "optimizer", "stage"]
BEFORE = {"precision": "fp32", "optimizer": "plain", "stage": 0}
AFTER = {"precision": "bf16", "optimizer": "fused", "stage": 2}
CLOSE = 1e-9

gains = solution("gains", globals())


def run(seconds, *changed):
    """A row of the table: the baseline, except for the factors that are `changed`."""
    return {**BEFORE, **{factor: AFTER[factor] for factor in changed}, "seconds": seconds}


ALL = run(2.0, *FACTORS)
TWO = [run(3.0, "precision", "optimizer"), run(5.0, "precision", "stage"),
       run(10.0, "optimizer", "stage")]  # fmt: skip
PRECISION, OPTIMIZER, STAGE = (run(s, f) for s, f in zip((4.0, 8.0, 16.0), FACTORS, strict=True))
REPEATS = [
    *(run(s) for s in (9.0, 60.0, 12.0)),
    *(run(s, "precision") for s in (40.0, 4.0, 3.0)),
    *(run(s, "stage") for s in (16.0, 1.0, 20.0)),
]


def called(answer, runs):
    """A gain for each factor; the table has to stay as it was."""
    given = copy.deepcopy(runs)
    got = answer(given)
    if given != runs:
        raise Wrong("mutates", before=len(runs), after=len(given))
    if got is None:
        raise Wrong("none")
    if not isinstance(got, Mapping):
        raise Wrong("kind", got=type(got).__name__)
    strange = [key for key in got if key not in FACTORS]
    if strange:
        raise Wrong("strange_key", got=strange[0])
    known = gains(runs)
    for factor, value in got.items():
        if value is None and factor not in known:
            raise Wrong("none_for_unknown", factor=factor)
    return {factor: _number(factor, value) for factor, value in got.items()}


def _number(factor, value):
    try:
        return to_number(value, nan=True)
    except Wrong:
        raise Wrong("no_number", factor=factor, got=type(value).__name__) from None


def each(way):
    """A mistake that spoils every gain in the same way."""
    return lambda runs: {factor: way(gain) for factor, gain in gains(runs).items()}


def by(typical):
    """Words of the solution that change: which number represents all repeats."""
    return {f"statistics.median({side})": typical.format(side) for side in ("before", "after")}


def mixed(typical):
    """Words of the solution that change: every run in which the factor changed counts."""
    return {"if all(": "if run[factor] != runs[0][factor] or all(", **by(typical)}


def from_the_end(runs):
    """The gain of a factor when all others are changed already, where that is known."""
    last = [one for one in runs if all(one[f] != runs[0][f] for f in FACTORS)]
    taken_out = gains(last + runs) if last else {}
    return gains(runs) | {factor: 1 / gain for factor, gain in taken_out.items()}


def wrong(got, want):
    """The factors whose gains are wrong, or cannot be known."""
    return [f for f in got if f not in want or not alike(got[f], want[f], CLOSE)]


def invented(got, want):
    """A gain that nobody measured."""
    factor = next((f for f in FACTORS if f in got and f not in want), None)
    return factor is not None and {"factor": factor, "got": f"{got[factor]:g}"}


def lost(got, want):
    """A gain that somebody measured, and that is missing."""
    factor = next((f for f in want if f not in got), None)
    return factor is not None and {"factor": factor, "got": ", ".join(got) or "nothing"}


def at_the_end(got, want, runs):
    """The first gain that is wrong is one from the end."""
    factor = wrong(got, want)[0]
    return alike(got[factor], from_the_end(runs).get(factor), CLOSE)


def facts(got, want):
    """The first gain that is wrong, if any; otherwise the sentence is about a missing one."""
    for factor in wrong(got, want):
        gain = f"{got[factor]:g}"
        return {"factor": factor, "got": gain, "seen": f"{factor}: {gain}"}
    return {}


def passed(got, want):
    """The case with a run of all three changes."""
    return Passed(tuple((f"{f} alone", f"{got[1][f]:g}", f"{want[1][f]:g}", "×") for f in FACTORS))


EXERCISE = Answer(
    gains,
    run=called,
    same=CLOSE,
    cases=[
        ("two runs", ([run(12.0), PRECISION],)),
        ("a run with all three changes stands second",
         ([run(12.0), ALL, PRECISION, OPTIMIZER, STAGE],)),
        ("runs with one, two and three changes",
         ([run(12.0), *TWO, PRECISION, OPTIMIZER, STAGE, ALL],)),
        ("no run with the optimizer alone", ([run(12.0), STAGE, TWO[0], PRECISION],)),
        ("three repeats of each, one of them disturbed", (REPEATS,)),
    ],
    mistakes=[
        ("upside_down", each(lambda gain: 1 / gain)),
        ("difference", {"/=": "-="}),
        ("saved_share", each(lambda gain: 1 - 1 / gain)),
        ("percent", each(lambda gain: 100 * (gain - 1))),
        ("mean", by("statistics.mean({})")),
        ("fastest", by("min({})")),
        ("first_only", by("{}[0]")),
        ("one_baseline", {"statistics.median(before)": "before[0]"}),
        ("last_only", by("{}[-1]")),
        ("mixed", mixed("{}[0]")),
        ("mixed", mixed("statistics.median({})")),
        ("mixed", mixed("{}[-1]")),
        ("mixed", mixed("min({})")),
        Mistake("invented", lambda runs: dict.fromkeys(FACTORS, 1.0) | gains(runs), invented),
        Mistake("lost", lambda runs: {"precision": gains(runs)["precision"]}, lost),
        Mistake("from_the_end", from_the_end, at_the_end),
    ],
    other="unrecognised",
    facts=facts,
    passed=passed,
)  # fmt: skip
