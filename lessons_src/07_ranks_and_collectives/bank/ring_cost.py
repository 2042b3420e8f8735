"""More answers to `ring_time`, for the tests alone."""


def spelt_out(size, ranks, latency, per_byte):
    steps = 0
    for _half in ("reduce-scatter", "all-gather"):
        steps += ranks - 1
    return steps * latency + steps * size * per_byte / ranks


ALSO_WRONG = [
    ("one_half", lambda S, N, a, b: (N - 1) * (a + S / N * b)),
    ("alone", lambda S, N, a, b: 2 * N * (a + S / N * b)),
    ("messages", lambda S, N, a, b: N * (N - 1) * (a + S / N * b)),
    ("bytes", lambda S, N, a, b: 2 * (N - 1) * (a + 3 * S / N * b)),
    ("together", lambda S, N, a, b: 2 * (N - 1) * max(a, S / N * b)),
]
ALSO_RIGHT = [spelt_out, lambda S, N, a, b: 2 * (N - 1) / N * S * b + 2 * (N - 1) * a]
