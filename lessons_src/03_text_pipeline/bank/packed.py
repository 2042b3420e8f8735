"""More answers to `pack`, for the tests alone."""

from itertools import chain


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


ALSO_WRONG = [
    ("flat", {"return [": "return stream or ["}),
    ("changed", {"stream += [*tokens, end]": "tokens.append(end)\n        stream += tokens"}),
    ("other", lambda documents, end, length: [[7] * length]),
    ("none", lambda documents, end, length: print(documents)),
]
ALSO_RIGHT = [with_chain, as_they_come]
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
