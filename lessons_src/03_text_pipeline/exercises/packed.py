"""Exercise 3.1: documents into windows, with end-of-text behind each document."""

from dtlib.learn.answers import Answer
from dtlib.learn.calls import to_number
from dtlib.learn.readers import listed
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed

pack = solution("pack", globals())

# words of the solution
ADD, WHOLE = "stream += [*tokens, end]", "len(stream) // length"
CUT = "stream[i * length : (i + 1) * length]"
LOOP = "for tokens in documents:"


def read(value):
    """Windows as lists of whole numbers."""
    windows = [listed(window, "flat") for window in listed(value, "flat")]
    return [[int(to_number(token)) for token in window] for window in windows]


def padded_each(documents, end, length):
    """Every document alone, padded to whole windows."""
    windows = []
    for tokens in documents:
        row = [*tokens, end]
        row += [end] * (-len(row) % length)
        windows += [row[i : i + length] for i in range(0, len(row), length)]
    return windows


def cut_each(documents, end, length):
    """Every document alone; what is left of it is dropped."""
    rows = [[*tokens, end] for tokens in documents]
    return [r[i : i + length] for r in rows for i in range(0, len(r) - length + 1, length)]


def between(documents, end, length):
    """End-of-text only where another document follows."""
    stream = []
    for number, tokens in enumerate(documents):
        stream += [*([end] if number else []), *tokens]
    return [stream[i * length : (i + 1) * length] for i in range(len(stream) // length)]


def end_of_window(documents, end, length):
    """End-of-text behind every window in place of every document."""
    stream = [token for tokens in documents for token in tokens]
    step = length - 1
    return [[*stream[i * step : (i + 1) * step], end] for i in range(len(stream) // step)]


EXERCISE = Answer(
    pack,
    read=read,
    changed="changed",
    cases=[
        ("one document of 3 tokens, windows of 4", ([[5, 6, 7]], 0, 4)),
        ("documents of 2 and 4 tokens, windows of 4", ([[5, 6], [7, 8, 9, 5]], 0, 4)),
        ("documents of 5, 1 and 2 tokens, end 9, windows of 3",
         ([[1, 2, 3, 4, 5], [6], [7, 8]], 9, 3)),
        ("documents of 9, 0 and 1 tokens, windows of 4",
         ([[1, 2, 3, 4, 5, 6, 7, 8, 1], [], [2]], 0, 4)),
        ("documents of 4, 2 and 3 tokens, windows of 2", ([[4, 5, 6, 7], [1, 2], [8, 9, 1]], 0, 2)),
        ("documents of 4 and 3 tokens, windows of 4", ([[5, 6, 7, 8], [1, 2, 3]], 0, 4)),
        ("no document", ([], 0, 4)),
    ],
    mistakes=[
        ("no_end", {"[*tokens, end]": "tokens"}),
        ("before", {"[*tokens, end]": "[end, *tokens]"}),
        ("both_sides", {"[*tokens, end]": "[end, *tokens, end]"}),
        ("between", between),
        ("end_of_window", end_of_window),
        ("kept_tail", {WHOLE: "-(-len(stream) // length)"}),
        ("padded_tail", {"whole = ": "stream += [end] * (-len(stream) % length)\n    whole = "}),
        ("padded_each", padded_each),
        ("cut_each", cut_each),
        ("truncated", {ADD: "stream += [*tokens[: length - 1], end]"}),
        ("one_short", {WHOLE: "len(stream) // length - 1"}),
        ("sliding", {CUT: "stream[i : i + length]"}),
        ("sliding", {WHOLE: "len(stream) - length + 1", CUT: "stream[i : i + length]"}),
        ("one_more", {CUT: "stream[i * length : (i + 1) * length + 1]"}),
        ("gap", {CUT: "stream[i * (length + 1) : i * (length + 1) + length]"}),
        ("sorted", {LOOP: "for tokens in sorted(documents, key=len):"}),
        ("sorted", {LOOP: "for tokens in sorted(documents, key=len, reverse=True):"}),
        ("reversed", {LOOP: "for tokens in documents[::-1]:"}),
        ("literal", {"*tokens, end": "*tokens, 0"}),
        ("last_document", {"stream += [": "stream = ["}),
        ("columns", {CUT: "stream[i :: whole][:length]"}),
        ("nothing", lambda documents, end, length: []),
        ("one_window", {"range(whole)": "range(min(whole, 1))"}),
    ],
    facts=lambda got, want, documents: {
        "got": got, "want": want, "count": len(got), "right": len(want), "docs": len(documents),
    },
    passed=lambda got: Passed((("windows cut", sum(map(len, got)), 12, ""),)),
)  # fmt: skip
