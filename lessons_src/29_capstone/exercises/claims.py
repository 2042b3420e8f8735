"""Exercise 29.2: a reviewer's check of a curve and of what its author claims."""

import statistics

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import one_of
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed

find_the_error = solution("find_the_error", globals())
WORDS = ("mixed", "no baseline", "one repeat", "fine", "best of", "not measured")
BATCHES = 'len({r["batch"] / (r["ranks"] if weak else 1) for r in rows}) > 1'
EACH = 'one[r["repeat"]] / (r["step_time_s"] * (1 if weak else most))'
ENOUGH, FINE = "len(each) < 2", "round(statistics.median(each), 2) == claimed"
BEST = "round(max(each), 2) == claimed"


def table(kind, times, batch=8, odd=None):
    """Make runs from seconds by ranks and repeats; `odd` is (ranks, global batch) of an error."""
    found = []
    for n, seconds in times.items():
        own = batch * n if kind == "weak" else batch
        own = odd[1] if odd and odd[0] == n else own
        given = seconds if isinstance(seconds, dict) else dict(enumerate(seconds))
        found += [{"ranks": n, "batch": own, "repeat": k, "step_time_s": t}
                  for k, t in given.items()]  # fmt: skip
    return found


def case(key, kind, times, claimed, **more):
    """Label a curve and a claim; `key` names the mistake of a wrong word here."""
    rows = table(kind, times, **more)
    said = "; ".join(f"{n} ranks {given}" for n, given in times.items())
    return (
        f"{kind} scaling, seconds by repeat: {said}; claimed {claimed}",
        (kind, rows, claimed),
        key,
    )


def values(kind, rows, paired=True):
    """Return the efficiencies on the most ranks, as far as they have a baseline."""
    one = {r["repeat"]: r["step_time_s"] for r in rows if r["ranks"] == 1}
    most = max(r["ranks"] for r in rows)
    more = most if kind == "strong" else 1
    return [one[r["repeat"]] / (more * r["step_time_s"])
            for r in rows if r["ranks"] == most and r["repeat"] in one]  # fmt: skip


def facts(kind, rows):
    """Return what the sentences tell of a curve."""
    batches = {row["ranks"]: row["batch"] for row in rows}
    each = values(kind, rows)
    return {
        "batches": ", ".join(f"{b} on {n}" for n, b in sorted(batches.items())),
        "ranks": ", ".join(str(n) for n in sorted(batches)),
        "each": ", ".join(f"{one:.3f}" for one in each) or "none",
    }


def after(way):
    """A mistake: `way` judges the claim, once batches, baseline and repeats are found right."""

    def program(kind, rows, claimed):
        word = find_the_error(kind, rows, claimed)
        return word if word in WORDS[:3] else way(kind, rows, claimed)

    return program


def judged(middle, best):
    """A mistake: the claim is compared with these two numbers of the curve."""

    def way(kind, rows, claimed):
        if round(middle(kind, rows), 2) == claimed:
            return "fine"
        return "best of" if round(best(kind, rows), 2) == claimed else "not measured"

    return after(way)


def median(kind, rows):
    """The median of the efficiencies."""
    return statistics.median(values(kind, rows))


def best(kind, rows):
    """The largest efficiency."""
    return max(values(kind, rows))


def columns(of):
    """Both columns reduced to one number before they are compared."""

    def way(kind, rows):
        most = max(r["ranks"] for r in rows)
        one, many = ([r["step_time_s"] for r in rows if r["ranks"] == n] for n in (1, most))
        return of(one) / (of(many) * (most if kind == "strong" else 1))

    return way


def ends_only(kind, rows, claimed):
    """A mistake: only the fewest and the most ranks are asked for their batch."""
    ends = {min(r["ranks"] for r in rows), max(r["ranks"] for r in rows)}
    inner = {r["ranks"]: r for r in rows if r["ranks"] in ends}
    found = find_the_error(kind, list(inner.values()), claimed)
    return found if found == "mixed" else find_the_error(kind, _mended(kind, rows), claimed)


def _mended(kind, rows):
    """The rows with batches that fit the kind."""
    return [row | {"batch": 8 * row["ranks"] if kind == "weak" else 8} for row in rows]


def reordered(kind, rows, claimed):
    """A mistake: the repeats are asked for before the batches."""
    most = max(r["ranks"] for r in rows)
    few = sum(r["ranks"] == most for r in rows) < 2
    return "one repeat" if few else find_the_error(kind, rows, claimed)


def on_fewer(kind, rows, claimed):
    """A mistake: the claim is compared with the fewest ranks above one."""
    word = find_the_error(kind, rows, claimed)
    if word in WORDS[:3]:
        return word
    counts = sorted({r["ranks"] for r in rows})
    return find_the_error(kind, [r for r in rows if r["ranks"] <= counts[1]], claimed)


def above(kind, rows, claimed):
    """A mistake: whatever lies above the median counts as the best."""
    if round(median(kind, rows), 2) == claimed:
        return "fine"
    return "best of" if claimed > median(kind, rows) else "not measured"


EXERCISE = Answer(
    find_the_error,
    read=one_of(WORDS, "not_a_word"),
    facts=facts,
    # Where the efficiencies are 0.8, 0.64 and 0.4, median, mean, best and ratio of medians differ.
    cases=[
        case("blind", "strong", {1: [8, 16, 12], 2: [5, 12.5, 15]}, 0.64),
        case("blind", "weak", {1: [8, 16, 12], 2: [10, 25.3, 30]}, 0.63),
        case("never_mixed", "strong", {1: [8, 16, 12], 2: [5, 12.5, 15]}, 0.64, odd=(2, 16)),
        case("never_mixed", "weak", {1: [8, 16, 12], 2: [10, 25.3, 30]}, 0.63, odd=(2, 8)),
        case("never_mixed", "weak", {1: [8, 16, 12], 2: [10, 25.3, 30]}, 0.63, odd=(2, 17)),
        case("ends_only", "strong", {1: [8, 8], 2: [5, 5], 4: [4, 4]}, 0.5, odd=(2, 16)),
        case("no_baseline", "strong", {2: [5, 5, 5], 4: [4, 4, 4]}, 0.63),
        case("one_repeat", "strong", {1: [8], 2: [5]}, 0.8),
        case("all_rows", "weak", {1: [8, 8, 8], 2: [10]}, 0.8),
        case("lone_turn", "weak", {1: [8], 2: [10, 10]}, 0.8),
        case("two_are_few", "weak", {1: [8, 8], 2: [10, 16]}, 0.65),
        case("believes", "strong", {1: [8, 16, 12], 2: [5.05, 12.5, 15]}, 0.79),
        case("in_range", "strong", {1: [8, 16, 12], 2: [5, 12.5, 15]}, 0.5),
        case("above", "strong", {1: [8, 16, 12], 2: [5, 12.5, 15]}, 0.7),
        case("above", "strong", {1: [8, 16, 12], 2: [5, 12.5, 15]}, 0.97),
        case("best_times", "weak", {1: [8, 16, 10], 2: [12.8, 20, 14]}, 0.8),
        case("fewer_ranks", "strong", {1: [8, 8, 8], 2: [5, 5, 5], 4: [4, 5, 6]}, 0.8),
        case("order", "weak", {1: [8], 2: [10]}, 0.8, odd=(2, 8)),
    ],
    mistakes=[
        ("never_mixed", lambda kind, rows, claimed: find_the_error(
            kind, _mended(kind, rows), claimed)),
        ("weak_is_mixed", {BATCHES: 'len({r["batch"] for r in rows}) > 1'}),
        ("strong_is_mixed", {BATCHES: 'len({r["batch"] / r["ranks"] for r in rows}) > 1'}),
        ("ends_only", ends_only),
        ("one_repeat", {ENOUGH: "False"}),
        ("all_rows", {ENOUGH: "len(rows) < 3"}),
        ("two_are_few", {ENOUGH: "len(each) < 3"}),
        ("believes", {BEST: "False"}),
        ("believes", after(lambda *seen: "fine")),
        ("in_range", after(lambda kind, rows, claimed: "fine" if min(values(kind, rows)) <= claimed
                           < best(kind, rows) else "best of")),
        ("above", after(above)),
        ("best_times", judged(median, columns(min))),
        ("columns", judged(columns(statistics.median), best)),
        ("middle_is_mean", judged(lambda kind, rows: statistics.fmean(values(kind, rows)), best)),
        ("too_exact", {FINE: "statistics.median(each) == claimed"}),
        ("strong_formula", {EACH: 'one[r["repeat"]] / (r["step_time_s"] * most)'}),
        ("speedup", {EACH: 'one[r["repeat"]] / r["step_time_s"]'}),
        ("fewer_ranks", on_fewer),
        ("order", reordered),
        Mistake("no_baseline", lambda kind, rows, claimed: "not measured" if all(
            r["ranks"] > 1 for r in rows) else find_the_error(kind, rows, claimed)),
        ("lone_turn", lambda kind, rows, claimed: find_the_error(kind, _borrowed(rows), claimed)),
    ],
    passed=lambda got: Passed((("18 curves with a claim", "as judged", "as judged", ""),)),
)  # fmt: skip


def _borrowed(rows):
    """The rows with a baseline in every turn: the last one where there is none."""
    one = {r["repeat"]: r for r in rows if r["ranks"] == 1}
    if not one:
        return rows
    missing = {r["repeat"] for r in rows} - one.keys()
    return [*rows, *(one[max(one)] | {"repeat": k} for k in missing)]
