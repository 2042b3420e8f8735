"""Exercise 29.1: efficiencies with their spread, relative to one rank that sends nothing."""

import statistics

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import number, shown
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

efficiency_with_spread = solution("efficiency_with_spread", globals())
MIDDLE = "statistics.median(values), min(values), max(values)"


def case(kind, what, single, ddp):
    """Label milliseconds of a step: of `single` by repeat, and of "ddp" by ranks and repeat."""
    told = f"single {_told(single)}; " + "; ".join(f"ddp on {n} {_told(t)}" for n, t in ddp.items())
    rows = [_row(1, "single", repeat, t) for repeat, t in single.items()]
    rows += [_row(n, "ddp", k, t) for n, times in ddp.items() for k, t in times.items()]
    return f"{kind} scaling, {what}: ms by repeat, {told}", (kind, rows[::-1])


def _told(times):
    return " ".join(f"{repeat}: {t:g}" for repeat, t in times.items())


def _row(ranks, strategy, repeat, ms):
    return {"ranks": ranks, "strategy": strategy, "repeat": repeat, "step_time_s": ms / 1000}


def turns(*ms):
    """Number the times of a column."""
    return dict(enumerate(ms))


def times(rows, strategy, ranks=None):
    """Return seconds by repeat."""
    return {r["repeat"]: r["step_time_s"] for r in rows
            if r["strategy"] == strategy and ranks in (None, r["ranks"])}  # fmt: skip


def each(way):
    """A mistake: `way` changes the three numbers of each number of ranks."""
    return lambda kind, rows: {
        n: way(n, kind, rows, *three) for n, three in efficiency_with_spread(kind, rows).items()
    }


def values(n, kind, rows):
    """Return the efficiencies on n ranks."""
    alone, more = times(rows, "single"), n if kind == "strong" else 1
    return [alone[k] / (more * t) for k, t in times(rows, "ddp", n).items() if k in alone]


def unpaired(n, kind, rows, *_):
    """The medians of both columns, each by itself."""
    alone, own = times(rows, "single"), times(rows, "ddp", n)
    more = n if kind == "strong" else 1
    found = [of(alone.values()) / (more * by(own.values()))
             for of, by in ((statistics.median,) * 2, (min, max), (max, min))]  # fmt: skip
    return tuple(found)


def against(strategy_rows):
    """A mistake: another baseline, seconds by repeat."""

    def program(kind, rows):
        base = strategy_rows(rows) or times(rows, "single")
        other = [r for r in rows if r["strategy"] != "single"]
        other += [_row(1, "single", k, 1000 * t) for k, t in base.items()]
        return efficiency_with_spread(kind, other)

    return program


def fewest(kind, rows):
    """A mistake: the baseline is DDP on the fewest ranks above one, as if these were one."""
    base = min((r["ranks"] for r in rows if r["ranks"] > 1), default=1)
    if base == max(r["ranks"] for r in rows):
        return efficiency_with_spread(kind, rows)
    own, found = times(rows, "ddp", base), efficiency_with_spread(kind, rows)
    for n in [n for n in found if n >= base]:
        more = n / base if kind == "strong" else 1
        v = [own[k] / (more * t) for k, t in times(rows, "ddp", n).items() if k in own]
        found[n] = statistics.median(v), min(v), max(v)
    return found


def filled(kind, rows):
    """A mistake: a turn without a baseline borrows the first one."""
    alone = times(rows, "single")
    first = alone[min(alone)]
    more = [_row(1, "single", r["repeat"], 1000 * first) for r in rows if r["repeat"] not in alone]
    return efficiency_with_spread(kind, [*rows, *more])


def deviation(n, kind, rows, middle, low, high):
    """One standard deviation up and down, where there is one."""
    v = values(n, kind, rows)
    apart = statistics.stdev(v) if len(v) > 1 else 0
    return middle, middle - apart, middle + apart


def quartiles(n, kind, rows, middle, low, high):
    """The quartiles, where there are three values or more."""
    v = values(n, kind, rows)
    if len(v) < 3:
        return middle, low, high
    first, _, third = statistics.quantiles(v, method="inclusive")
    return middle, first, third


def of_times(n, kind, rows, middle, *_):
    """The ends of the times of a step."""
    own = times(rows, "ddp", n).values()
    return middle, min(own), max(own)


def read(got, rows):
    """Read three numbers for each number of ranks on which "ddp" ran."""
    if got is None:
        raise Wrong("none")
    if not isinstance(got, dict):
        raise Wrong("not_a_dict", got=type(got).__name__)
    ranks = sorted({row["ranks"] for row in rows if row["strategy"] == "ddp"})
    for n in ranks:
        if n not in got:
            raise Wrong("only_most", n=n, got=shown(got, 60))
        if not isinstance(got[n], (tuple, list)) or len(got[n]) != 3:
            raise Wrong("not_three", n=n, got=shown(got[n]))
    return {n: tuple(map(number, got[n])) for n in ranks}


def facts(got, want):
    """Return what is reported and what is right where they differ."""
    n = next((n for n in got if not _same(got[n], want[n])), max(got))
    said = {name: " / ".join(f"{one:.4g}" for one in three[n])
            for name, three in (("got", got), ("want", want))}  # fmt: skip
    return {**said, "n": n}


def _same(one, other):
    return all(abs(a - b) < 1e-6 for a, b in zip(one, other, strict=True))


def is_rounded(got, want):
    """Whether the numbers are the right ones with two or three digits."""
    pairs = [pair for n in got for pair in zip(got[n], want[n], strict=True)]
    return all(a in (b, round(b, 2), round(b, 3)) for a, b in pairs)


def single_value(got, kind, rows):
    """Whether the three numbers are one repeat, three times."""
    return any(len(set(three)) == 1 and len(values(n, kind, rows)) > 1 for n, three in got.items())


EXERCISE = Answer(
    efficiency_with_spread,
    changed="changed",
    read=read,
    same=lambda a, b: a.keys() == b.keys() and all(_same(a[n], b[n]) for n in a),
    # Each case adds one thing that can go wrong. In the third, median, mean, the ratio of the
    # medians, best and quartiles are all different numbers.
    cases=[
        case("strong", "one repeat", turns(8), {2: turns(5)}),
        case("weak", "one repeat", turns(8), {4: turns(10)}),
        case("strong", "four repeats", turns(8, 16, 10, 9),
             {2: turns(7, 9, 5.5, 8)}),
        case("weak", "a slow turn", turns(10, 20, 12), {2: turns(16, 25, 16)}),
        case("weak", "with DDP on one rank", turns(10, 20, 12),
             {1: turns(11, 22, 13), 2: turns(16, 25, 16)}),
        case("strong", "two numbers of ranks", turns(8, 9, 8),
             {2: turns(5, 6, 5), 4: turns(4, 5, 3)}),
        case("weak", "no single run in turn 1", {0: 10, 2: 12, 3: 11},
             {2: turns(16, 15, 16, 12)}),
    ],
    mistakes=[
        ("best_of", {MIDDLE: "max(values), min(values), max(values)"}),
        ("mean", {MIDDLE: "statistics.mean(values), min(values), max(values)"}),
        ("one_repeat", {MIDDLE: "values[0], values[0], values[0]"}),
        Mistake("one_repeat", {MIDDLE: "values[-1], values[-1], values[-1]"}, when=single_value),
        ("deviation", each(deviation)),
        ("quartiles", each(quartiles)),
        ("swapped", {MIDDLE: "statistics.median(values), max(values), min(values)"}),
        ("swapped", {MIDDLE: "min(values), statistics.median(values), max(values)"}),
        ("lengths", each(lambda n, kind, rows, mid, low, high: (mid, mid - low, high - mid))),
        ("of_times", each(of_times)),
        ("unpaired", each(unpaired)),
        ("unpaired", each(lambda *seen: (unpaired(*seen)[0], *seen[-2:]))),
        ("crossed", each(lambda *seen: (seen[3], *unpaired(*seen)[1:]))),
        ("ddp_baseline", against(lambda rows: times(rows, "ddp", 1))),
        ("fewest", fewest),
        ("speedup", {' if kind == "strong" else 1': ' if kind == "never" else 1'}),
        ("strong_on_weak", {' if kind == "strong" else 1': ""}),
        ("upside_down", each(lambda n, kind, rows, mid, low, high: (1 / mid, 1 / high, 1 / low))),
        ("percent", each(lambda n, kind, rows, *three: tuple(100 * one for one in three))),
        ("lost", each(lambda n, kind, rows, mid, low, high: (1 - mid, 1 - high, 1 - low))),
        Mistake("rounded", each(lambda n, kind, rows, *three: tuple(round(x, 2) for x in three)),
                when=is_rounded),
        ("filled", filled),
    ],
    facts=facts,
    passed=lambda got, want: Passed(
        (("on 4 ranks: median, smallest, largest",
          " / ".join(f"{x:.2f}" for x in got[5][4]), " / ".join(f"{x:.2f}" for x in want[5][4]),
          ""),)
    ),
)  # fmt: skip
