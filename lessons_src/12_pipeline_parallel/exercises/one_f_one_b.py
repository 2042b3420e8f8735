"""Exercise 12.2: 1F1B. The lists of all ranks are carried out on paper."""

from dtlib.learn.answers import Answer
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong
from dtlib.scratch import pipeline as p
from dtlib.sim.pipeline import bubble, kept_activations

from . import lists as read_lists

one_f_one_b = solution("one_f_one_b", globals())


def judge(got, ranks, micro_batches):
    """Complete, without a circle, no longer than GPipe, and within N - r micro-batches."""
    halves = [line for lines in got for line in lines if isinstance(line, read_lists.HALVES)]
    if halves:
        return Wrong("halves", rank=halves[0].stage, what=read_lists.named(halves[0]))
    wrong = read_lists.incomplete(got, micro_batches)
    if wrong is not None:
        return wrong
    spans = read_lists.times(got, micro_batches)
    if isinstance(spans, Wrong):
        return spans
    idle, least = p.idle_share(spans), bubble("gpipe", ranks, micro_batches)
    found = read_lists.unlike_1f1b(got, micro_batches) if idle > least + 1e-9 else None
    slow = found and Wrong(found[0], idle=f"{idle:.3g}", least=f"{least:.3g}", **found[1])
    if slow and slow.mistake == "rounds":
        return slow
    return too_much(got, ranks, micro_batches) or slow or True


def too_much(got, ranks, micro_batches):
    """The sentence for a rank that keeps too much, or None."""
    kept = [p.kept_at_most(lines) for lines in got]
    most = [kept_activations("1f1b", rank, ranks, micro_batches) for rank in range(ranks)]
    over = [rank for rank in range(ranks) if kept[rank] > most[rank]]
    if not over:
        return None
    rank = over[0]
    facts = {"rank": rank, "kept": kept[rank], "most": most[rank], "m": micro_batches}
    if kept == [micro_batches] * ranks:
        return Wrong("all_forwards_first", **facts)
    if len({*kept}) == 1:
        return Wrong("same_everywhere", **facts)
    if found := read_lists.second_in_a_row(got[rank]):
        return Wrong("keeps_in_a_row", **facts, **found)
    if all(kept[r] in (most[r], min(most[r] + 1, micro_batches)) for r in range(ranks)):
        return Wrong("one_too_many", **facts)
    return Wrong("keeps", **facts)


def passed(got):
    kept = " ".join(str(p.kept_at_most(lines)) for lines in got[1])
    idle = p.idle_share(read_lists.times(got[1], 8))
    what = "idle over computing time, 4 ranks, 8 micro-batches"
    rows = (
        (what, f"{idle:.3g}", 0.375, "times"),
        ("kept, by rank", kept, "4 3 2 1", "micro-batches"),
    )
    return Passed(rows)


EXERCISE = Answer(
    one_f_one_b,
    run=read_lists.ask_all_ranks,
    cases=[
        ("3 ranks, 5 micro-batches", (3, 5)),
        ("4 ranks, 8 micro-batches", (4, 8)),
        ("4 ranks, 2 micro-batches", (4, 2)),
        ("1 rank, 2 micro-batches", (1, 2)),
    ],
    judge=judge,
    alone=True,
    other="unrecognised",
    passed=passed,
)
