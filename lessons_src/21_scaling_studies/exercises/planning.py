"""Exercise 21.4: the runs of a study, in order, in which only one thing varies."""

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import shown
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

plan = solution("plan", globals())
FIELDS = ("ranks", "global_batch", "threads", "repeat")


def case(kind, numbers, repeats, batch):
    """Label what a study should plan."""
    label = f"{kind}, ranks {numbers}, {repeats} repeat{'s' * (repeats != 1)}, batch {batch}"
    return label, (kind, numbers, repeats, batch)


def each(way):
    """A mistake: `way` changes every run of a plan that is otherwise right."""
    return lambda *asked: [run | way(run, *asked) for run in plan(*asked)]


def read(got):
    """Read a list of runs, each with its four numbers."""
    if got is None:
        raise Wrong("none")
    if not isinstance(got, (list, tuple)) or not all(map(_is_run, got)):
        raise Wrong("not_runs", got=shown(got, 60))
    return list(got)


def _is_run(run):
    return isinstance(run, dict) and all(type(run.get(name)) is int for name in FIELDS)


def same(got, want):
    """Whether two plans have the same runs; within a turn, any order is right."""
    return _turns(got) == _turns(want) and sorted(map(_numbers, got)) == sorted(map(_numbers, want))


def _turns(runs):
    return [run["repeat"] for run in runs]


def _numbers(run):
    return tuple(run[name] for name in FIELDS)


def odd_batch(scaling):
    """Find the first run with a wrong global batch, in one kind of scaling."""

    def when(got, want, kind):
        right = {run["ranks"]: run["global_batch"] for run in want}
        for run in got if kind == scaling else ():
            n, size = run["ranks"], run["global_batch"]
            if size != right.get(n, size):
                return {"n": n, "got": size, "want": right[n]}
        return False

    return when


def no_baseline(got):
    """Name the numbers of ranks of a study that has no run on one rank."""
    ranks = sorted({run["ranks"] for run in got})
    return 1 not in ranks and {"got": ", ".join(map(str, ranks))}


def threads(got):
    """Find the first run in which a rank has another number of threads than one."""
    run = next((run for run in got if run["threads"] != 1), None)
    return run is not None and {"n": run["ranks"], "got": run["threads"]}


def count(got, want):
    """Whether there are too many runs or too few."""
    return len(got) != len(want) and {"got": len(got), "want": len(want)}


def repeats(got, want):
    """Whether the repeats have the wrong numbers."""
    odd = sorted(_turns(got)) != sorted(_turns(want))
    return odd and {"got": sorted(set(_turns(got)))}


def blocks(got):
    """Whether a repeat starts before an earlier one is complete."""
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
