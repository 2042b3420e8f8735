"""Exercise 21.4: the runs of a study, in their order, with one thing that varies."""

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import shown
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

plan = solution("plan", globals())
FIELDS = ("ranks", "global_batch", "threads", "repeat")


def case(kind, numbers, repeats, batch):
    """What a study is asked for."""
    label = f"{kind}, ranks {numbers}, {repeats} repeats, batch {batch}"
    return label, (kind, numbers, repeats, batch)


def each(way):
    """A mistake in every run of a plan that is right otherwise."""
    return lambda *asked: [run | way(run, *asked) for run in plan(*asked)]


def read(got):
    """Runs with their four numbers."""
    if got is None:
        raise Wrong("none")
    if not isinstance(got, (list, tuple)) or not all(map(_is_run, got)):
        raise Wrong("not_runs", got=shown(got, 60))
    return list(got)


def _is_run(run):
    return isinstance(run, dict) and all(type(run.get(name)) is int for name in FIELDS)


def same(got, want):
    """The order within a turn is free."""
    return _turns(got) == _turns(want) and sorted(map(_numbers, got)) == sorted(map(_numbers, want))


def _turns(runs):
    return [run["repeat"] for run in runs]


def _numbers(run):
    return tuple(run[name] for name in FIELDS)


def odd_batch(scaling):
    """The first run with a batch that it should not have, in one kind of scaling."""

    def when(got, want, kind):
        right = {run["ranks"]: run["global_batch"] for run in want}
        for run in got if kind == scaling else ():
            n, size = run["ranks"], run["global_batch"]
            if size != right.get(n, size):
                return {"n": n, "got": size, "want": right[n]}
        return False

    return when


def no_baseline(got):
    """The ranks of a study without one rank alone."""
    ranks = sorted({run["ranks"] for run in got})
    return 1 not in ranks and {"got": ", ".join(map(str, ranks))}


def threads(got):
    """The first run that takes more threads than one."""
    run = next((run for run in got if run["threads"] != 1), None)
    return run is not None and {"n": run["ranks"], "got": run["threads"]}


def count(got, want):
    """Too many runs, or too few."""
    return len(got) != len(want) and {"got": len(got), "want": len(want)}


def repeats(got, want):
    """Repeats that are numbered otherwise."""
    odd = sorted(_turns(got)) != sorted(_turns(want))
    return odd and {"got": sorted(set(_turns(got)))}


def blocks(got):
    """Repeats that do not come one after the other."""
    return _turns(got) != sorted(_turns(got)) and {"got": _turns(got)}


EXERCISE = Answer(
    plan,
    read=read,
    same=same,
    cases=[
        case("strong", [1], 1, 8),
        case("strong", [1, 2], 1, 8),
        case("weak", [1, 4], 1, 8),
        case("strong", [2, 4], 1, 16),
        case("weak", [1, 2, 4], 3, 6),
    ],
    mistakes=[
        Mistake("baseline", {"{1, *numbers}": "numbers"}, when=no_baseline),
        Mistake("threads", each(lambda run, *_: {"threads": 4 // run["ranks"]}), when=threads),
        Mistake("grows", lambda kind, *asked: plan("weak", *asked), when=odd_batch("strong")),
        Mistake("stays", lambda kind, *asked: plan("strong", *asked), when=odd_batch("weak")),
        Mistake("count", {"sorted({1, *numbers})": "[1, *numbers]"}, when=count),
        Mistake("repeats", each(lambda run, *_: {"repeat": run["repeat"] + 1}), when=repeats),
        Mistake("blocks", lambda *asked: sorted(plan(*asked), key=_numbers), when=blocks),
        ("plan", each(lambda run, kind, n, k, batch: {"ranks": 1, "global_batch": batch})),
    ],
    other="plan",
    facts=lambda got: {"got": [run["ranks"] for run in got]},
    passed=lambda got: Passed((("runs of the last study", len(got[-1]), 9, ""),)),
)
