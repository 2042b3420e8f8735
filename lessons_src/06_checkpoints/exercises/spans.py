"""Exercise 6.4: the windows of a perplexity, in which each token is scored once."""

from dtlib.learn.answers import Answer
from dtlib.learn.calls import to_number
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import listed, row_of
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed

spans_of = solution("spans_of", globals())

# words of the solution
DONE, STARTS, END = "done = 1", "range(0, length, stride)", "min(begin + window, length)"
SPAN, NEXT, STOP = "(begin, end, done)", "done = end", "if end == length:\n            break"


def read(value):
    """Triples of whole numbers, from lists, arrays, tensors or a generator."""
    spans = (row_of(span, 3, "triple") for span in listed(value, "kind"))
    return [tuple(int(to_number(one)) for one in span) for span in spans]


def scored(spans):
    return [token for _, end, first in spans for token in range(first, end)]


def facts(got, length):
    tokens = scored(got)
    twice = sorted({t for t in tokens if tokens.count(t) > 1})
    missing = sorted(set(range(1, length)) - set(tokens))
    return {
        "got": ", ".join(map(str, got[:4])), "count": len(tokens), "right": length - 1,
        "twice": twice[0] if twice else 0, "missing": missing[0] if missing else 0,
        "last": got[-1][1] if got else 0, "last_window": got[-1] if got else "none",
    }  # fmt: skip


def negative_count(length, window, stride):
    """The number of windows by a formula that is right only for a text longer than a window."""
    count = 1 - -(length - window) // stride
    starts = [k * stride for k in range(count)]
    ends = [min(begin + window, length) for begin in starts]
    return list(zip(starts, ends, [1, *ends], strict=False))


def has(which):
    """Recognises a list of spans."""
    return lambda got, length, window: bool(got) and which(got, length, window)


EXERCISE = Answer(
    spans_of,
    read=read,
    same=0.0,
    cases=[
        ("9 tokens, window 5, stride 4", (9, 5, 4)),
        ("9 tokens, window 5, stride 2", (9, 5, 2)),
        ("14 tokens, window 5, stride 3", (14, 5, 3)),
        ("4 tokens, window 5, stride 3", (4, 5, 3)),
        ("10 tokens, window 6, stride 1", (10, 6, 1)),
        ("10 tokens, window 5, stride 3", (10, 5, 3)),
        ("3 tokens, window 9, stride 2", (3, 9, 2)),
    ],
    mistakes=[
        Mistake("first_token", {DONE: "done = 0"},
                when=has(lambda got, length, window: got[0][2] == 0)),
        Mistake("beyond", {END: "begin + window", STOP: "if end >= length:\n            break"},
                when=has(lambda got, length, window: got[-1][1] > length)),
        ("twice", {SPAN: "(begin, end, begin + 1)"}),
        ("last_stride", {SPAN: "(begin, end, max(begin + 1, end - stride))"}),
        ("end_minus_stride", {SPAN: "(begin, end, end - stride if begin else 1)"}),
        ("moved_back", {END: "min(begin + window, length)\n"
                             "        begin = max(0, min(begin, length - window))"}),
        Mistake("no_window", negative_count, when=lambda got: not got),
        ("no_stop", {STOP: "pass"}),
        ("stops_early", {STARTS: "range(0, length - window, stride)"}),
        ("whole_only", {STARTS: "range(0, length - window + 1, stride)"}),
        ("disjoint", {STARTS: "range(0, length, window)"}),
        ("overlap_dropped", {NEXT: "done = end + 1"}),
        ("done_stays", {NEXT: "done = begin + window - stride"}),
        ("inclusive", {SPAN: "(begin, end - 1, done)"}),
        ("short_window", {END: "min(begin + window - 1, length)"}),
        ("every_token", {STARTS: "range(length)"}),
        Mistake("too_long", lambda length, window, stride: [(0, length, 1)],
                when=has(lambda got, length, window: any(e - b > window for b, e, _ in got))),
        Mistake("no_context", lambda length, window, stride: [
            (k, min(k + stride, length), max(k, 1)) for k in range(0, length, stride)
        ], when=has(lambda got, length, window: any(f <= b for b, _, f in got[1:]))),
        Mistake("missing",
                when=has(lambda got, length, window: set(range(1, length)) - set(scored(got)))),
        Mistake("counted_twice", lambda *case: spans_of(*case) * 2,
                when=has(lambda got, length, window: len(scored(got)) > length - 1)),
    ],
    facts=facts,
    passed=lambda got: Passed((("tokens scored once", len(scored(got[2])), 13, ""),)),
)  # fmt: skip
