"""Exercise 3.1: documents into windows, with end-of-text behind each document."""

from dtlib.errors import counted
from dtlib.learn.answers import Answer
from dtlib.learn.calls import to_number
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import listed, shown
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

pack = solution("pack", globals())

# words of the solution
ADD, WHOLE = "stream += [*tokens, end]", "len(stream) // length"
CUT = "stream[i * length : (i + 1) * length]"
LOOP = "for tokens in documents:"


def read(value):
    """Windows as lists of whole numbers, from lists, arrays, tensors or a generator."""
    windows = [listed(window, "flat") for window in listed(value, "flat")]
    return [[whole_number(token, window) for token in window] for window in windows]


def whole_number(token, window):
    """A token, from Python, NumPy or torch."""
    if isinstance(token, (list, tuple)):
        raise Wrong("nested", got=shown(window))
    number = to_number(token)
    if isinstance(token.item() if hasattr(token, "item") else token, float):
        raise Wrong("floats", got=shown(token))
    return int(number)


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
    """End-of-text only where another document follows; always as if a cut were one window short."""
    stream = []
    for number, tokens in enumerate(documents):
        stream += [*([end] if number else []), *tokens]
    return [stream[i * length : (i + 1) * length] for i in range(len(stream) // length)]


def one_for_each(documents, end, length):
    """At most one window is cut when a document comes, and the rest waits."""
    windows, buffer = [], []
    for tokens in documents:
        buffer += [*tokens, end]
        if len(buffer) >= length:
            windows.append(buffer[:length])
            buffer = buffer[length:]
    return windows


def none_at_an_edge(documents, end, length):
    """No end-of-text where a document ends just where a window does."""
    windows: list[list[int]] = []
    buffer: list[int] = []
    for tokens in documents:
        for token in [*tokens, None]:
            if token is not None or buffer:
                buffer.append(end if token is None else token)
            if len(buffer) == length:
                windows.append(buffer)
                buffer = []
    return windows


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
        ("documents of 2 and 4 tokens, windows of 4", ([[5, 6], [7, 8, 9, 5]], 0, 4)),
        ("one document of 3 tokens, windows of 4", ([[5, 6, 7]], 0, 4)),
        ("documents of 5, 1 and 2 tokens, end 9, windows of 3",
         ([[1, 2, 3, 4, 5], [6], [7, 8]], 9, 3)),
        ("documents of 2, 0 and 9 tokens, windows of 4",
         ([[8, 9], [], [1, 2, 3, 4, 5, 6, 7, 8, 1]], 0, 4)),
        ("documents of 4, 2 and 3 tokens, windows of 2", ([[4, 5, 6, 7], [1, 2], [8, 9, 1]], 0, 2)),
        ("documents of 4 and 3 tokens, windows of 4", ([[5, 6, 7, 8], [1, 2, 3]], 0, 4)),
        ("no document", ([], 0, 4)),
    ],
    mistakes=[
        ("no_end", {"[*tokens, end]": "tokens"}),
        ("before", {"[*tokens, end]": "[end, *tokens]"}),
        ("both_sides", {"[*tokens, end]": "[end, *tokens, end]"}),
        ("last_window", between),
        ("last_window", {"range(whole)": "range(-(-len(stream) // length) - 1)"}),
        ("one_for_each", one_for_each),
        ("none_at_an_edge", none_at_an_edge),
        ("no_end_if_empty", {ADD: "stream += [*tokens, end] if tokens else []"}),
        ("end_for_token", {"[*tokens, end]": "[*tokens[:-1], end]"}),
        ("end_of_window", end_of_window),
        Mistake("kept_tail", {WHOLE: "-(-len(stream) // length)"},
                when=lambda got, length: bool(got) and len(got[-1]) < length
                and all(len(window) == length for window in got[:-1])),
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
        Mistake("nothing", lambda documents, end, length: [], when=lambda got: not got),
        ("one_window", {"range(whole)": "range(min(whole, 1))"}),
        Mistake("too_long", lambda documents, end, length: [
            [token for tokens in documents for token in [*tokens, end]]
        ], when=lambda got, length: any(len(window) > length for window in got)),
    ],
    facts=lambda got, want, documents: {
        "got": got, "want": want, "docs": counted(len(documents), "document"),
        "count": counted(len(got), "window"), "right": len(want),
        "tokens": sum(map(len, documents)) + len(documents),
        "longest": max(map(len, got), default=0),
    },
    passed=lambda got, want: Passed((
        ("windows packed in all cases", sum(map(len, got)), sum(map(len, want)), ""),
    )),
)  # fmt: skip
