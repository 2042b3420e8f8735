"""Exercise 21.1: the efficiency for each number of ranks, from rows of repeated runs."""

import statistics

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import number, words
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

efficiency = solution("efficiency", globals())
MIDDLE = "statistics.median(each)"  # a piece of the solution's code


def case(kind, what, times):
    """Label seconds per step by ranks and repeats, and make a row of each, in reverse order."""
    told = ", ".join(f"T({n}) = {' / '.join(f'{t:g}' for t in own)} s" for n, own in times.items())
    rows = [
        {"ranks": n, "repeat": repeat, "step_time_s": seconds}
        for n, several in times.items()
        for repeat, seconds in enumerate(several)
    ]
    return f"{kind} scaling, {what}: {told}", (kind, rows[::-1])


def of_middles(middle, divided=True):
    """A mistake: T(1) and T(N) are each reduced to one number before they are compared."""

    def program(kind, rows):
        times: dict[int, list[float]] = {}
        for row in rows:
            times.setdefault(row["ranks"], []).append(row["step_time_s"])
        return {
            n: middle(times[1]) / ((n if kind == "strong" and divided else 1) * middle(own))
            for n, own in times.items()
        }

    return program


def against_fewest(kind, rows):
    """A mistake: the baseline is the smallest number of ranks above one."""
    times = {row["ranks"]: row["step_time_s"] for row in rows}
    base = min((n for n in times if n > 1), default=1)
    more = {n: n / base if kind == "strong" and n > base else 1 for n in times}
    found = {n: times[base] / (more[n] * times[n]) for n in times if n > base}
    return efficiency(kind, rows) | found


def each(way):
    """A mistake: `way` changes efficiencies that are otherwise right."""
    return lambda kind, rows: {n: way(value, n) for n, value in efficiency(kind, rows).items()}


def read(got, rows):
    """Read one number for each number of ranks."""
    if got is None:
        raise Wrong("none")
    if not isinstance(got, dict):
        raise Wrong("not_a_dict", got=type(got).__name__)
    ranks = sorted({row["ranks"] for row in rows}, reverse=True)
    missing = [n for n in ranks if n not in got]
    if missing:
        raise Wrong("missing", n=min(missing), got=repr(sorted(map(str, got)))[:60])
    return {n: number(got[n]) for n in ranks}


def wrong_at(got, want):
    """Return the largest number of ranks whose efficiency is wrong."""
    return next(n for n in got if abs(got[n] - want[n]) > 1e-6)


def of_one_repeat(got, want, kind, rows):
    """Whether the wrong efficiency is that of any single repeat."""
    n = wrong_at(got, want)
    seconds = {(row["ranks"], row["repeat"]): row["step_time_s"] for row in rows}
    more = n if kind == "strong" else 1
    each = [seconds[1, k] / (more * own) for (ranks, k), own in seconds.items() if ranks == n]
    return any(abs(got[n] - one) < 1e-6 for one in each)


def is_rounded(got, want):
    """Whether the wrong efficiency is the right one with two or three digits."""
    n = wrong_at(got, want)
    return got[n] in (round(want[n], 2), round(want[n], 3))


def facts(got, want):
    """Return the wrong and the right efficiency at the largest number of ranks that is wrong."""
    n = wrong_at(got, want)
    return {"got": words(got[n]), "want": words(want[n]), "n": n}


EXERCISE = Answer(
    efficiency,
    changed="changed",
    read=read,
    # Each case adds one thing that can go wrong. In the last two, four numbers differ: the median
    # over the repeats, the ratio of the medians, the mean and the best.
    cases=[
        case("strong", "one repeat", {1: [8.0], 2: [5.0]}),
        case("weak", "one repeat", {1: [8.0], 4: [10.0]}),
        case("strong", "three numbers of ranks", {1: [8.0], 2: [5.0], 4: [4.0]}),
        case("strong", "three repeats", {1: [8.0, 16.0, 10.0], 2: [7.0, 9.0, 5.5]}),
        case("weak", "three repeats", {1: [8.0, 16.0, 10.0], 4: [10.0, 17.0, 16.0]}),
    ],
    mistakes=[
        ("speedup", {' if kind == "strong" else 1': ' if kind == "never" else 1'}),
        ("speedup", of_middles(statistics.median, divided=False)),
        ("strong_on_weak", {' if kind == "strong" else 1': ""}),
        ("scaled_speedup", lambda kind, rows: each(
            lambda value, n: value * (n if kind == "weak" else 1))(kind, rows)),
        ("upside_down", each(lambda value, n: 1 / value)),
        ("percent", each(lambda value, n: 100 * value)),
        ("lost", each(lambda value, n: 1 - value)),
        Mistake("rounded", each(lambda value, n: round(value, 2)), when=is_rounded),
        ("baseline", against_fewest),
        ("unpaired", of_middles(statistics.median)),
        ("mean", {MIDDLE: "statistics.mean(each)"}),
        ("mean", of_middles(statistics.mean)),
        ("best", {MIDDLE: "max(each)"}),
        ("best", of_middles(min)),
        ("one_repeat", {MIDDLE: "each[-1]"}),
        ("one_repeat", {MIDDLE: "each[0]"}),
        Mistake("one_repeat", {MIDDLE: "min(each)"}, when=of_one_repeat),
    ],
    other="efficiency",
    facts=facts,
    passed=lambda got: Passed(
        tuple((f"efficiency on {n} ranks", words(got[2][n]), words(w), "")
              for n, w in ((2, 0.8), (4, 0.5)))
    ),
)  # fmt: skip
