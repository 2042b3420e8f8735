"""Exercise 12.3: a schedule of one's own, with at most half of 1F1B's bubble."""

from dtlib.learn.answers import Answer
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong
from dtlib.scratch import pipeline as p
from dtlib.sim.pipeline import bubble

from . import lists as read_lists

my_schedule = solution("my_schedule", globals())


def judge(got, ranks, micro_batches):
    """Complete, without a circle, within N micro-batches, at most half of 1F1B's bubble."""
    wrong = read_lists.incomplete(got, micro_batches)
    if wrong is not None:
        return wrong
    spans = read_lists.times(got, micro_batches)
    if isinstance(spans, Wrong):
        return spans
    much = too_much(got, ranks, micro_batches)
    idle = too_idle(got, spans, ranks, micro_batches)
    if (
        much
        and idle
        and (much.mistake, idle.mistake) in (("one_more", "ahead"), ("keeps", "ahead"))
    ):
        return idle  # no other place for a weight gradient mends both
    return much or idle or True


def too_much(got, ranks, micro_batches):
    """The sentence for a rank that keeps more than N micro-batches, or None."""
    kept = [p.kept_at_most(lines) for lines in got]
    rank = kept.index(max(kept))
    if kept[rank] <= ranks:
        return None
    facts = {"rank": rank, "kept": kept[rank], "most": ranks, "m": micro_batches}
    lines = got[rank]
    inputs = [k for k, line in enumerate(lines) if not isinstance(line, p.BackwardWeight)]
    weights = [k for k, line in enumerate(lines) if isinstance(line, p.BackwardWeight)]
    forwards = [k for k, line in enumerate(lines) if isinstance(line, p.Forward)]
    if forwards == list(range(micro_batches)):
        return Wrong("all_forwards_first", **facts)
    if weights and weights[0] > inputs[-1]:
        return Wrong("weights_last", **facts)
    under, want = max(read_lists.under_way(lines)), min(ranks - rank, micro_batches)
    if under > want:
        return Wrong("ahead_and_kept", under=under, want=want, **facts)
    return Wrong("one_more" if kept[rank] == ranks + 1 else "keeps", **facts)


def too_idle(got, spans, ranks, micro_batches):
    """The sentence for too long a bubble, or None."""
    idle, plain = p.idle_share(spans), bubble("1f1b", ranks, micro_batches)
    if idle <= plain / 2 + 1e-9:
        return None
    every = [line for lines in got for line in lines]
    facts = {"idle": f"{idle:.3g}", "most": f"{plain / 2:.3g}", "rank": ranks - 1}
    if not any(isinstance(line, p.BackwardWeight) for line in every):
        return Wrong("not_split", **facts)
    if less := read_lists.unlike_1f1b(got, micro_batches):
        return Wrong(less[0], **(facts | less[1]))
    if more := read_lists.ahead_of_1f1b(got, micro_batches):
        return Wrong("ahead", **(facts | more))
    if all(at_once(lines) for lines in got):
        return Wrong("weights_at_once", **facts)
    return Wrong("idle", **facts)


def at_once(lines):
    """Whether each weight gradient stands right behind its input gradient."""
    return all(
        lines[k - 1] == p.BackwardInput(line.micro_batch, line.stage)
        for k, line in enumerate(lines)
        if isinstance(line, p.BackwardWeight)
    )


def passed(got):
    idle = p.idle_share(read_lists.times(got[-1], 8))
    kept = " ".join(str(p.kept_at_most(lines)) for lines in got[-1])
    note = "That is as short as the paper's ZB-H1." if idle <= 0.125 + 1e-9 else ""
    what = "idle over computing time, 4 ranks, 8 micro-batches"
    rows = (
        (what, f"{idle:.3g}", "at most 0.188", "times"),
        ("kept, by rank", kept, "at most 4", "micro-batches"),
    )
    return Passed(rows, note)


EXERCISE = Answer(
    my_schedule,
    run=read_lists.ask_all_ranks,
    cases=[
        ("3 ranks, 6 micro-batches", (3, 6)),
        ("2 ranks, 4 micro-batches", (2, 4)),
        ("8 ranks, 16 micro-batches", (8, 16)),
        ("3 ranks, 10 micro-batches", (3, 10)),  # more than twice as many
        ("4 ranks, 8 micro-batches", (4, 8)),
    ],
    judge=judge,
    alone=True,
    other="unrecognised",
    passed=passed,
)
