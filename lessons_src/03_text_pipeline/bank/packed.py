"""More answers to `pack`, for the tests alone."""

from itertools import chain

import numpy as np
import torch


def with_chain(documents, end, length):
    stream = list(chain.from_iterable([*tokens, end] for tokens in documents))
    return [stream[i : i + length] for i in range(0, len(stream) - length + 1, length)]


def as_they_come(documents, end, length):
    windows, window = [], []
    for tokens in documents:
        for token in (*tokens, end):
            window.append(token)
            if len(window) == length:
                windows.append(tuple(window))
                window = []
    return windows


def by_generator(documents, end, length):
    buffer = []
    for tokens in documents:
        buffer += [*tokens, end]
        while len(buffer) >= length:
            yield buffer[:length]
            buffer = buffer[length:]


def by_array(documents, end, length):
    stream = np.array([token for tokens in documents for token in [*tokens, end]], dtype=int)
    return stream[: len(stream) // length * length].reshape(-1, length)


def in_floats(documents, end, length):
    stream = [token for tokens in documents for token in [*tokens, end]]
    windows = np.zeros((len(stream) // length, length))
    for i in range(len(windows)):
        windows[i] = stream[i * length : (i + 1) * length]
    return windows


def more_than_a_window(documents, end, length):
    windows, buffer = [], []
    for tokens in documents:
        buffer += [*tokens, end]
        while len(buffer) > length:
            windows.append(buffer[:length])
            buffer = buffer[length:]
    return windows


def stored_with_the_next(documents, end, length):
    windows, window = [], []
    for tokens in documents:
        for token in [*tokens, end]:
            if len(window) == length:
                windows.append(window)
                window = []
            window.append(token)
    return windows


def one_end_at_most(documents, end, length):
    stream = []
    for tokens in documents:
        stream += tokens
        if not stream or stream[-1] != end:
            stream.append(end)
    return [stream[i : i + length] for i in range(0, len(stream) - length + 1, length)]


def longer_by_one(documents, end, length):
    stream = [token for tokens in documents for token in [*tokens, end]]
    return [stream[i : i + length + 1] for i in range(0, len(stream) - length, length)]


def appended(documents, end, length):
    stream = []
    for tokens in documents:
        stream.append(tokens)
        stream.append(end)
    return [stream[i : i + length] for i in range(0, len(stream) - length + 1, length)]


def in_pieces(documents, end, length):
    stream = [token for tokens in documents for token in [*tokens, end]]
    return [stream[i : i + length] for i in range(0, len(stream), length)]


CUT = "range(whole)"
ALSO_WRONG = [
    ("last_window", {CUT: "range(len(range(0, len(stream) - length, length)))"}),
    ("last_window", lambda documents, end, length: in_pieces(documents, end, length)[:-1]),
    ("last_window", more_than_a_window),
    ("last_window", stored_with_the_next),
    ("no_end_if_empty", one_end_at_most),
    ("too_long", longer_by_one),
    ("nested", appended),
    ("floats", in_floats),
    ("floats", lambda *case: in_floats(*case).tolist()),
    ("changed", {"stream = []": "documents.sort()\n    stream = []"}),
    (
        "changed",
        {"stream = []": "stream = []\n    documents = documents or [[]]\n    documents.pop(0)"},
    ),
    ("other", {"stream = []": "stream = [end]", "[*tokens, end]": "tokens"}),
    ("flat", {"return [": "return stream or ["}),
    ("changed", {"stream += [*tokens, end]": "tokens.append(end)\n        stream += tokens"}),
    ("other", lambda documents, end, length: [[7] * length]),
    ("none", lambda documents, end, length: print(documents)),
]
ALSO_RIGHT = [
    with_chain,
    as_they_come,
    by_generator,
    by_array,
    lambda *case: torch.tensor(by_array(*case)),
]
LADDER = (
    """def pack(documents, end, length):
    stream = []
    for tokens in documents:
        stream += tokens
    whole = len(stream) // length
    return [stream[i * length : (i + 1) * length] for i in range(whole)]
""",
    """def pack(documents, end, length):
    stream = [token for tokens in documents for token in tokens]
    last = len(stream) - length + 1
    return [stream[i : i + length] for i in range(0, last, length)]
""",
)
